//! A snapshot of a disk as front ends see it: read-only, at any host, without the disk's owner.
//!
//! Promises    V1  what is read is what the disk held when the snapshot was taken, whoever owns the disk, and whatever is written meanwhile
//!             V2  one copy that has it is enough; of rows, as many members as the row has columns
//! Assumes     a snapshot never changes: so nobody's lease is asked for, and an old record is as good as a new one
//! Not here    which seats tell it (`seats::history`), how it is taken (`owner::snapshots`)

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::{Future, ready},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_geometry::{Area, Piece, RowRole, Rows, StripPart, by_area};
use cairn_owner::{RowImage, Strip};
use cairn_types::{BLOCK_BYTES, BlockRange, Contents, HostId, Member, ObjectConfig, ReplicaSetIndex, SnapshotId};
use cairn_volume::{Extent, Volume, VolumeError, VolumeInfo};
use cairn_wire::{AllocatedPiece, Answer, Refusal, Request, ViewAsk};
use futures::future::join_all;

use crate::{
    arrived::check,
    bytes::{cut, extents},
    local_store::LocalStore,
    objects::Objects,
};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// How soon copies are asked again where none had it.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A snapshot, read by this host. Cheap to clone.
pub struct SnapshotReader<E: Env, S: LocalStore> {
    inner: Rc<Inner<E, S>>,
}

struct Inner<E: Env, S: LocalStore> {
    objects: Objects<E, S>,
    snapshot: SnapshotId,
    info: VolumeInfo,
    /// The disk's record, as it was seen last.
    known: RefCell<Rc<ObjectConfig>>,
}

impl<E: Env, S: LocalStore> Clone for SnapshotReader<E, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

/// Why nobody gave it.
enum NotRead {
    /// No copy that answers has it.
    NoCopy(String),
    /// Those that answer cannot read it.
    Bad(String),
}

fn no_copy(set: ReplicaSetIndex) -> NotRead {
    NotRead::NoCopy(format!("no reachable copy of replica set {set} has the snapshot"))
}

fn unreadable(set: ReplicaSetIndex, range: BlockRange) -> NotRead {
    NotRead::Bad(format!("blocks {}..{} of replica set {set} are unreadable on every copy", range.first, range.end()))
}

impl<E: Env, S: LocalStore> SnapshotReader<E, S> {
    /// Reads a snapshot of the disk that has this record.
    pub fn new(objects: &Objects<E, S>, known: ObjectConfig, snapshot: SnapshotId, info: VolumeInfo) -> Self {
        let known = RefCell::new(Rc::new(known));
        Self { inner: Rc::new(Inner { objects: objects.clone(), snapshot, info, known }) }
    }

    fn check(&self, offset: u64, len_bytes: u64) -> Result<BlockRange, VolumeError> {
        let size = self.inner.info.size_bytes;
        let inside = offset.checked_add(len_bytes).is_some_and(|end| end <= size);
        let blocks = (offset + len_bytes).div_ceil(BLOCK).saturating_sub(offset / BLOCK);
        match u32::try_from(blocks) {
            Ok(count) if inside => Ok(BlockRange::new(offset / BLOCK, count)),
            _ => Err(VolumeError::Invalid(format!(
                "{len_bytes} bytes at {offset} are not in a snapshot of {size} bytes"
            ))),
        }
    }

    /// Asks again, with the record as it is by then, until it is there or the guest's patience ends.
    async fn until_read<T>(
        &self,
        read: impl AsyncFn(Rc<ObjectConfig>) -> Result<T, NotRead>,
    ) -> Result<T, VolumeError> {
        let context = self.inner.objects.context();
        let (began, patience) = (context.env.now(), self.inner.objects.options().guest_patience);
        loop {
            let known = self.inner.known.borrow().clone();
            let why = match read(known).await {
                Ok(read) => return Ok(read),
                Err(NotRead::Bad(why) | NotRead::NoCopy(why)) if context.env.now().since(began) > patience => {
                    return Err(VolumeError::Io(why));
                }
                Err(why) => why,
            };
            self.look_again().await?;
            if let NotRead::Bad(why) = why
                && self.inner.known.borrow().members.iter().all(|member| member.state.in_sync())
            {
                return Err(VolumeError::Io(why));
            }
            context.env.sleep(AGAIN_AFTER).await;
        }
    }

    /// Takes the record as it is now.
    async fn look_again(&self) -> Result<(), VolumeError> {
        let hints: Vec<HostId> = self.inner.known.borrow().members.iter().map(|member| member.host).collect();
        let Some((found, _)) = self.inner.objects.look_up(self.inner.info.id, &hints).await else { return Ok(()) };
        let config = found.config;
        let is_there = config.past.as_ref().is_some_and(|past| past.snapshot(self.inner.snapshot).is_some());
        if config.deleted || !is_there {
            return Err(VolumeError::Shutdown(format!("snapshot {} was deleted", self.inner.info.name)));
        }
        *self.inner.known.borrow_mut() = Rc::new(config);
        Ok(())
    }

    async fn read_bytes(&self, offset: u64, len_bytes: u32) -> Result<Vec<Bytes>, VolumeError> {
        let blocks = self.check(offset, u64::from(len_bytes))?;
        if blocks.count == 0 {
            return Ok(Vec::new());
        }
        let context = self.inner.objects.context();
        let _budget = context.admit(blocks.bytes()).await;
        let parts = self.until_read(async |config: Rc<ObjectConfig>| {
            let mut parts = Vec::new();
            for (area, some) in by_area(&config, blocks) {
                parts.extend(self.read_area(&config, area, some).await?);
            }
            Ok(parts)
        });
        Ok(cut(parts.await?, (offset - blocks.first * BLOCK) as usize, len_bytes as usize))
    }

    async fn read_area(&self, config: &ObjectConfig, area: Area, blocks: BlockRange) -> Result<Vec<Bytes>, NotRead> {
        let mut found = Vec::new();
        match area.rows() {
            None => {
                let reads = area.split(blocks).map(|piece| self.read_piece(config, piece));
                for read in join_all(reads).await {
                    found.extend(read?.into_bytes());
                }
            }
            Some(rows) => {
                let pieces = area.split(blocks);
                let parts = pieces.flat_map(|piece| rows.parts(piece.range).map(move |part| (piece.set, part)));
                let reads = parts.map(|(set, part)| self.read_part(config, (rows, set), part));
                for read in join_all(reads.collect::<Vec<_>>()).await {
                    found.extend(read?.contents(false).into_bytes());
                }
            }
        }
        Ok(found)
    }

    /// Those of a set that have it, as the record says: one here first, else spread by address.
    fn holders(&self, config: &ObjectConfig, set: ReplicaSetIndex, first: u64) -> Vec<Member> {
        let mut holders: Vec<Member> = config.replica_set(set).filter(|m| m.state.in_sync()).copied().collect();
        let me = self.inner.objects.context().env.host();
        if !holders.is_empty() {
            let turn = (first >> 8) as usize % holders.len();
            holders.rotate_left(turn);
        }
        holders.sort_by_key(|member| member.host != me);
        holders
    }

    async fn read_piece(&self, config: &ObjectConfig, piece: Piece) -> Result<Contents, NotRead> {
        let mut contents = Contents::default();
        match self.read_run(config, piece.set, piece.range).await {
            Err(NotRead::Bad(_)) if piece.range.count > 1 => {}
            read => return read,
        }
        // Each block may be good somewhere.
        for block in piece.range.first..piece.range.end() {
            let one = self.read_run(config, piece.set, BlockRange::new(block, 1)).await?;
            contents.runs.extend(one.runs);
            contents.data.extend(one.data);
        }
        Ok(contents)
    }

    async fn read_run(
        &self,
        config: &ObjectConfig,
        set: ReplicaSetIndex,
        range: BlockRange,
    ) -> Result<Contents, NotRead> {
        let mut bad = false;
        for member in self.holders(config, set, range.first) {
            match self.read_member(&member, range).await {
                Ok(contents) => return Ok(contents),
                Err(Refusal::BadBlocks(_)) => bad = true,
                Err(_) => {}
            }
        }
        Err(if bad { unreadable(set, range) } else { no_copy(set) })
    }

    async fn read_member(&self, member: &Member, range: BlockRange) -> Result<Contents, Refusal> {
        let context = self.inner.objects.context();
        let (Answer::Data { runs }, data) = self.ask(member, range, ViewAsk::Read).await? else {
            return Err(Refusal::Lost);
        };
        let contents = Contents { runs, data: data.into_iter().filter(|d| !d.is_empty()).collect() };
        if check(&contents, range.count, member.host != context.env.host()).is_err() {
            context.tell_changed(member.host);
            return Err(Refusal::Lost);
        }
        match contents.bad_blocks(range.first) {
            bad if bad.is_empty() => Ok(contents),
            bad => Err(Refusal::BadBlocks(bad)),
        }
    }

    async fn ask(&self, member: &Member, range: BlockRange, ask: ViewAsk) -> Result<(Answer, Vec<Bytes>), Refusal> {
        let (disk_group, component, snapshot) = (member.disk_group, member.component, self.inner.snapshot);
        let request = Request::View { disk_group, component, snapshot, range, ask };
        self.inner.objects.context().request(member.host, disk_group, request, None).await
    }

    /// A part of a row from its member, else from others.
    async fn read_part(
        &self,
        config: &ObjectConfig,
        (rows, set): (Rows, ReplicaSetIndex),
        part: StripPart,
    ) -> Result<Strip, NotRead> {
        if let Some(strip) = self.read_strip(config, set, part.member, part.range).await {
            return Ok(strip);
        }
        match self.make_part(config, (rows, set), &part, part.range).await {
            Err(NotRead::Bad(_)) if part.range.count > 1 => {}
            made => return made,
        }
        let mut made = Contents::default();
        for block in part.range.first..part.range.end() {
            let one = BlockRange::new(block, 1);
            let strip = match self.read_strip(config, set, part.member, one).await {
                Some(strip) => strip,
                None => self.make_part(config, (rows, set), &part, one).await?,
            };
            strip.tell(false, &mut made);
        }
        Ok(Strip::of(made, part.range.count).expect("each block was made"))
    }

    /// What a member has; none where no component with its index gives all of it.
    async fn read_strip(
        &self,
        config: &ObjectConfig,
        set: ReplicaSetIndex,
        index: u32,
        range: BlockRange,
    ) -> Option<Strip> {
        for member in self.holders(config, set, range.first).iter().filter(|m| m.copy() == Some(index)) {
            if let Ok(contents) = self.read_member(member, range).await
                && let Some(strip) = Strip::of(contents, range.count)
            {
                return Some(strip);
            }
        }
        None
    }

    async fn make_part(
        &self,
        config: &ObjectConfig,
        (rows, set): (Rows, ReplicaSetIndex),
        part: &StripPart,
        range: BlockRange,
    ) -> Result<Strip, NotRead> {
        let columns = (0..rows.data()).map(RowRole::Column);
        let roles = columns.chain((0..rows.parity()).map(RowRole::Parity));
        let mut given: BTreeMap<u32, Strip> = BTreeMap::new();
        for index in roles.map(|role| rows.member(part.row, role)).filter(|index| *index != part.member) {
            if given.len() == rows.data() as usize {
                break;
            }
            if let Some(strip) = self.read_strip(config, set, index, range).await {
                given.insert(index, strip);
            }
        }
        let in_sync = config.replica_set(set).filter(|m| m.state.in_sync()).count();
        match RowImage::of(rows, part.row, &given) {
            Ok(image) => Ok(image.strip(RowRole::Column(part.column))),
            Err(_) if in_sync > given.len() + 1 => Err(unreadable(set, range)),
            Err(_) => Err(no_copy(set)),
        }
    }

    async fn allocated(&self, offset: u64, len_bytes: u64) -> Result<Vec<Extent>, VolumeError> {
        let blocks = self.check(offset, len_bytes)?;
        let pieces = self.until_read(async |config: Rc<ObjectConfig>| {
            let mut found = Vec::new();
            for (area, some) in by_area(&config, blocks) {
                match area.rows() {
                    // Parity has as much as any of its row, and holes where all are holes: told block by block, it is not worth the asking.
                    Some(_) => found.push(AllocatedPiece { range: some, allocated: true }),
                    None => {
                        for piece in area.split(some) {
                            found.extend(self.allocated_piece(&config, piece).await?);
                        }
                    }
                }
            }
            Ok(found)
        });
        Ok(extents(&pieces.await?, offset, len_bytes))
    }

    async fn allocated_piece(&self, config: &ObjectConfig, piece: Piece) -> Result<Vec<AllocatedPiece>, NotRead> {
        for member in self.holders(config, piece.set, piece.range.first) {
            if let Ok((Answer::Allocated(pieces), _)) = self.ask(&member, piece.range, ViewAsk::Allocated).await {
                let shift = |p: AllocatedPiece| {
                    let range = BlockRange::new(p.range.first - piece.range.first + piece.object_first, p.range.count);
                    AllocatedPiece { range, ..p }
                };
                return Ok(pieces.into_iter().map(shift).collect());
            }
        }
        Err(no_copy(piece.set))
    }
}

fn read_only() -> VolumeError {
    VolumeError::Invalid("a snapshot is read-only".into())
}

impl<E: Env, S: LocalStore> Volume for SnapshotReader<E, S> {
    fn info(&self) -> VolumeInfo {
        self.inner.info.clone()
    }

    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Vec<Bytes>, VolumeError>> + 'static {
        let reader = self.clone();
        async move { reader.read_bytes(offset, len_bytes).await }
    }

    fn write(&self, _: u64, _: Bytes) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        ready(Err(read_only()))
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        ready(Err(read_only()))
    }

    fn trim(&self, _: u64, _: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        ready(Err(read_only()))
    }

    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        ready(Ok(()))
    }

    fn block_status(
        &self,
        offset: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<Vec<Extent>, VolumeError>> + 'static {
        let reader = self.clone();
        async move { reader.allocated(offset, len_bytes).await }
    }

    fn cache(&self, _: u64, _: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        ready(Ok(()))
    }
}
