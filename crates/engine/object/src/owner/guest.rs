//! Guest requests at the owner: bytes to blocks, edges, locks, bounds, retries.
//!
//! Promises    G1  linearizable per 4 KiB block; a request larger than a block may tear between blocks, as on any disk
//!             G2  a retried request is not carried out twice: the components' memory of recent requests is asked
//! Assumes     offsets and lengths are multiples of 512 (checked here again: requests come from other hosts too)

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use cairn_env::{BUFFER_ALIGN, Env, PageBuf};
use cairn_geometry::{Area, Piece, by_area};
use cairn_owner::MemberMask;
use cairn_types::{BLOCK_BYTES, BlockOp, BlockRange, Canary, ClientTag, SECTOR_BYTES, Time};
use cairn_wire::{AllocatedPiece, Answer, OP_BYTES_MAX, Request, block_crc};
use futures::future::join_all;

use crate::{
    bytes::cut,
    copies::For,
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{
        Ended, Owned,
        rows::{Changed, Locked},
        write::{Body, Lock, OF_ALL, OpError, Operation},
    },
    pace::Limits,
    parents::UNIT_BLOCKS,
    stages::{IoKind, Stage, Watch, mark},
};

pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;

/// Names a request, and says whether an earlier try of it may have been carried out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    pub(crate) client: ClientTag,
    pub(crate) retry: bool,
    /// When its last try began; none where its stages are not kept.
    pub(crate) began: Option<Time>,
}

impl Origin {
    /// The name of the part of the request that begins at block `block` of the disk, in this area: one request may be several
    /// operations, and each is asked for by itself. A retry is split in the same places, as [`OP_BYTES_MAX`] is the
    /// protocol's.
    pub(super) fn part(self, area: Area, block: u64) -> ClientTag {
        self.client.part(area.part_name(block))
    }
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Reads bytes.
    pub(crate) async fn guest_read(
        self: &Rc<Self>,
        offset: u64,
        len_bytes: u32,
        began: Time,
    ) -> Result<Vec<Bytes>, OpError> {
        let blocks = self.check(offset, u64::from(len_bytes))?;
        if len_bytes == 0 {
            return Ok(Vec::new());
        }
        let mut watch = self.watch(IoKind::Read, Some(began));
        self.is_itself().await;
        self.pace(u64::from(len_bytes)).await;
        self.read_watched((offset, len_bytes), blocks, &mut watch).await
    }

    /// Reads bytes for whoever needs no turn.
    pub(super) async fn read_bytes(self: &Rc<Self>, offset: u64, len_bytes: u32) -> Result<Vec<Bytes>, OpError> {
        let blocks = self.check(offset, u64::from(len_bytes))?;
        self.read_watched((offset, len_bytes), blocks, &mut None).await
    }

    async fn read_watched(
        self: &Rc<Self>,
        (offset, len_bytes): (u64, u32),
        blocks: BlockRange,
        watch: &mut Option<Watch<E>>,
    ) -> Result<Vec<Bytes>, OpError> {
        let since = self.context.env.now();
        let mut locked = Locked::Blocks;
        let (_held, parts) = loop {
            let budget = self.context.admit(u64::from(len_bytes)).await;
            mark(watch, Stage::Admission);
            let around = self.around(blocks, locked);
            let guard = self.locks.lock(around, false).await;
            mark(watch, Stage::Lock);
            if locked == Locked::Rows && around != self.around(blocks, locked) {
                continue;
            }
            match self.read_blocks(blocks, (locked, For::Guest), watch.as_ref()).await {
                Err(OpError::NeedsRows) => locked = Locked::Rows,
                Err(OpError::Unreadable(lost)) => {
                    // Nor room in memory, which other disks may wait for.
                    drop((guard, budget));
                    self.wait_for_another_copy(lost, since).await?;
                }
                Err(OpError::NotInherited(why)) => {
                    drop((guard, budget));
                    self.wait_for_a_parent(why, since).await?;
                }
                read => break ((guard, budget), read?),
            }
        };
        mark(watch, Stage::Copies);
        if self.check_lease().await? {
            mark(watch, Stage::Lease);
        }
        let skip = (offset - blocks.first * BLOCK) as usize;
        Ok(cut(parts, skip, len_bytes as usize))
    }

    /// Writes bytes.
    pub(crate) async fn guest_write(self: &Rc<Self>, offset: u64, data: Bytes, origin: Origin) -> Result<(), OpError> {
        let blocks = self.check(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        let mut watch = self.watch(IoKind::Write, origin.began);
        let came = self.context.env.now();
        self.is_itself().await;
        self.pace(data.len() as u64).await;
        self.write_bytes((offset, data), blocks, (origin, came), &mut watch).await
    }

    /// Writes bytes that nobody waits for, at once.
    pub(super) async fn write_back_bytes(self: &Rc<Self>, offset: u64, data: Bytes) -> Result<(), OpError> {
        let blocks = self.check(offset, data.len() as u64)?;
        let origin = (Origin::default(), self.context.env.now());
        self.write_bytes((offset, data), blocks, origin, &mut None).await
    }

    async fn write_bytes(
        self: &Rc<Self>,
        (offset, data): (u64, Bytes),
        blocks: BlockRange,
        (origin, came): (Origin, Time),
        watch: &mut Option<Watch<E>>,
    ) -> Result<(), OpError> {
        self.not_draining().await?;
        let _budget = self.context.admit(blocks.bytes()).await;
        self.not_too_late(origin, came)?;
        mark(watch, Stage::Admission);
        let (mut left, mut origin) = (blocks, origin);
        while left.count > 0 {
            let (area, part) = self.first_part(left);
            let changed = Changed::Bytes { offset, data: data.clone() };
            let (part, is_done) = self.first_undone(area, (part, &changed), origin).await?;
            // The first and last bytes of the request lie within its first and last block.
            let from = offset.max(part.first * BLOCK);
            let to = (offset + data.len() as u64).min(part.end() * BLOCK);
            let bytes = data.slice((from - offset) as usize..(to - offset) as usize);
            let result = match is_done {
                true => Ok(()),
                false => self.write_area(area, (part, from, bytes), origin, watch).await,
            };
            match result {
                // Some of it may have been done where it was.
                Err(OpError::Elsewhere) => origin.retry = true,
                result => {
                    result?;
                    left = BlockRange::new(part.end(), (left.end() - part.end()) as u32);
                }
            }
        }
        mark(watch, Stage::Copies);
        Ok(())
    }

    /// A request that is repeated may have been carried out before the same part of the disk went over to another layout twice, if it waits here
    /// for long (for the limit of the disk's IOPS). Nothing tells that then: it is not carried out. Its guest has run out of patience by then.
    fn not_too_late(&self, origin: Origin, came: Time) -> Result<(), OpError> {
        let options = self.context.options.borrow();
        // It came when its guest's patience was about to end, at the latest, after a try that took as long.
        let most = options.repeated_within.saturating_sub(options.guest_patience * 2);
        let is_late = origin.retry && self.context.env.now().since(came) > most;
        if is_late && self.state.borrow().config().addresses.plain().is_none() {
            Err(OpError::Elsewhere)
        } else {
            Ok(())
        }
    }

    /// Writes bytes of one area, which are in these blocks.
    async fn write_area(
        self: &Rc<Self>,
        area: Area,
        (blocks, offset, data): (BlockRange, u64, Bytes),
        origin: Origin,
        watch: &mut Option<Watch<E>>,
    ) -> Result<(), OpError> {
        if let Some(rows) = area.rows() {
            return self.change_rows((area, rows), (blocks, Changed::Bytes { offset, data }), origin, watch).await;
        }
        let whole = offset.is_multiple_of(BLOCK) && data.len() as u64 == blocks.bytes();
        let since = self.context.env.now();
        let (lock, data) = loop {
            let lock = Rc::new(self.locks.lock(blocks, true).await);
            self.still_at(area)?;
            mark(watch, Stage::Lock);
            if whole {
                break (lock, aligned(data));
            }
            match self.with_edges(blocks, offset, &data, Locked::Blocks).await {
                Err(OpError::Unreadable(lost)) => {
                    drop(lock);
                    self.wait_for_another_copy(lost, since).await?;
                    self.not_draining().await?;
                }
                Err(OpError::NotInherited(why)) => {
                    drop(lock);
                    self.wait_for_a_parent(why, since).await?;
                    self.not_draining().await?;
                }
                read => {
                    mark(watch, Stage::Edges);
                    break (lock, read?);
                }
            }
        };
        let owed = self.owe_shadow(blocks);
        self.write_blocks(area, (blocks, data.clone()), origin, &lock, watch.as_ref()).await?;
        if self.converting().is_some() {
            let changed = Changed::Bytes { offset: blocks.first * BLOCK, data };
            self.shadow(blocks, &changed, &lock).await;
        }
        owed.paid();
        Ok(())
    }

    /// The first of these blocks, as far as all of them were done by an earlier try of the request, or none was.
    async fn first_undone(
        &self,
        area: Area,
        (blocks, changed): (BlockRange, &Changed),
        origin: Origin,
    ) -> Result<(BlockRange, bool), OpError> {
        let done = self.done_before(area, (blocks, changed), origin).await?;
        let Some(first) = done.first() else { return Ok((blocks, false)) };
        Ok(match first.first == blocks.first {
            true => (*first, true),
            false => (BlockRange::new(blocks.first, (first.first - blocks.first) as u32), false),
        })
    }

    /// Zeroes bytes; whole blocks give their space back unless `keep_allocated`.
    pub(crate) async fn guest_zero(
        self: &Rc<Self>,
        offset: u64,
        len_bytes: u64,
        keep_allocated: bool,
        origin: Origin,
    ) -> Result<(), OpError> {
        self.is_itself().await;
        self.zero_bytes((offset, len_bytes), keep_allocated, origin).await
    }

    /// The same, at once.
    pub(super) async fn zero_bytes(
        self: &Rc<Self>,
        (offset, len_bytes): (u64, u64),
        keep_allocated: bool,
        origin: Origin,
    ) -> Result<(), OpError> {
        let blocks = self.check(offset, len_bytes)?;
        let end = offset + len_bytes;
        let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
        // The disk's last block may be cut short by its size: what is past the end is nobody's.
        let last = if end == self.size_bytes() { blocks.end() } else { last };
        if first >= last {
            let zeros = PageBuf::zeroed(len_bytes as usize).freeze();
            return self.write_zeros(offset, zeros, origin).await;
        }
        if offset < first * BLOCK {
            let head = PageBuf::zeroed((first * BLOCK - offset) as usize).freeze();
            self.write_zeros(offset, head, origin).await?;
        }
        if end > last * BLOCK {
            let tail = PageBuf::zeroed((end - last * BLOCK) as usize).freeze();
            self.write_zeros(last * BLOCK, tail, origin).await?;
        }
        // A request that is repeated is divided as before, also where the disk was a clone then and is none now.
        let was_clone = self.state.borrow().config().ancestry.is_some();
        let mut next = first;
        while next < last {
            let most = match (keep_allocated, was_clone) {
                (true, _) => u64::from(KEPT_ZERO_BLOCKS_MAX),
                (false, true) => UNIT_BLOCKS - next % UNIT_BLOCKS,
                (false, false) => u64::from(ZERO_BLOCKS_MAX),
            };
            let count = (last - next).min(most) as u32;
            self.zero_blocks(BlockRange::new(next, count), keep_allocated, origin).await?;
            next += u64::from(count);
        }
        Ok(())
    }

    /// Zeroes that are less than a block, or its edge.
    async fn write_zeros(self: &Rc<Self>, offset: u64, zeros: Bytes, origin: Origin) -> Result<(), OpError> {
        let (blocks, came) = (self.check(offset, zeros.len() as u64)?, self.context.env.now());
        self.pace(zeros.len() as u64).await;
        self.write_bytes((offset, zeros), blocks, (origin, came), &mut None).await
    }

    /// Allocation of a range in bytes.
    pub(crate) async fn guest_status(
        self: &Rc<Self>,
        offset: u64,
        len_bytes: u64,
    ) -> Result<Vec<AllocatedPiece>, OpError> {
        self.is_itself().await;
        let all = self.check(offset, len_bytes)?;
        let config = self.config();
        let mut found = Vec::new();
        for (area, blocks) in by_area(&config, all) {
            if let Some(rows) = area.rows() {
                found.extend(self.allocated_rows((area, rows), blocks).await?);
                continue;
            }
            for piece in area.split(blocks) {
                let pieces = self.allocated(piece).await?;
                let shift = |p: AllocatedPiece| {
                    let range = BlockRange::new(p.range.first - piece.range.first + piece.object_first, p.range.count);
                    AllocatedPiece { range, ..p }
                };
                found.extend(pieces.into_iter().map(shift));
            }
        }
        let found = self.context.allocated_with(config.parents(), found).await?;
        self.check_lease().await?;
        Ok(found)
    }

    /// What one in-sync copy holds, a local one first.
    async fn allocated(&self, piece: Piece) -> Result<Vec<AllocatedPiece>, OpError> {
        let mut legs = self.state.borrow().readable(piece.set);
        let me = self.context.env.host();
        legs.sort_by_key(|l| l.link.host != me);
        for leg in legs {
            let request = Request::Allocated { to: leg.link.target, range: piece.range };
            let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
            if let Ok((Answer::Allocated(pieces), _)) = reply {
                return Ok(pieces);
            }
        }
        let why = format!("no reachable copy of replica set {}", piece.set);
        Err(OpError::Ended(Ended::Inaccessible(why)))
    }

    fn check(&self, offset: u64, len_bytes: u64) -> Result<BlockRange, OpError> {
        let sector = u64::from(SECTOR_BYTES);
        let size = self.size_bytes();
        let inside = offset.checked_add(len_bytes).is_some_and(|end| end <= size);
        if !offset.is_multiple_of(sector) || !len_bytes.is_multiple_of(sector) || !inside {
            return Err(OpError::Io(format!(
                "{len_bytes} bytes at {offset} are not sectors of a disk of {size} bytes"
            )));
        }
        let first = offset / BLOCK;
        let count = (offset + len_bytes).div_ceil(BLOCK) - first;
        u32::try_from(count)
            .map(|count| BlockRange::new(first, count))
            .map_err(|_| OpError::Io(format!("{len_bytes} bytes are too many for one request")))
    }

    pub(super) async fn read_blocks(
        self: &Rc<Self>,
        blocks: BlockRange,
        how: (Locked, For),
        watch: Option<&Watch<E>>,
    ) -> Result<Vec<Bytes>, OpError> {
        let (area, part) = self.first_part(blocks);
        let mut parts = self.read_area(area, (part, how), watch).await?;
        let mut left = BlockRange::new(part.end(), (blocks.end() - part.end()) as u32);
        while left.count > 0 {
            let (area, part) = self.first_part(left);
            parts.extend(self.read_area(area, (part, how), watch).await?);
            left = BlockRange::new(part.end(), (left.end() - part.end()) as u32);
        }
        Ok(parts)
    }

    /// The first of these blocks that are in one part of the disk.
    fn first_part(&self, blocks: BlockRange) -> (Area, BlockRange) {
        by_area(self.state.borrow().config(), blocks).next().expect("a range of at least one block")
    }

    /// The blocks to be locked for a read of these.
    pub(super) fn around(&self, blocks: BlockRange, locked: Locked) -> BlockRange {
        let state = self.state.borrow();
        let around = |(area, part): (Area, BlockRange)| match area.rows() {
            Some(_) => locked.blocks(area, part),
            None => part,
        };
        let first = by_area(state.config(), blocks).next().map_or(blocks, around);
        let end = by_area(state.config(), blocks).last().map_or(blocks, around).end();
        BlockRange::new(first.first, (end - first.first) as u32)
    }

    async fn read_area(
        self: &Rc<Self>,
        area: Area,
        (blocks, (locked, by)): (BlockRange, (Locked, For)),
        watch: Option<&Watch<E>>,
    ) -> Result<Vec<Bytes>, OpError> {
        if let Some(rows) = area.rows() {
            return self.read_rows((area, rows), (blocks, locked), by, watch).await;
        }
        let mut pieces = area.split(blocks);
        let first = pieces.next().expect("a range of at least one block");
        let rest: Vec<Piece> = pieces.collect();
        if rest.is_empty() {
            return self.read_whole(first, by, watch).await;
        }
        let reads = std::iter::once(first).chain(rest).map(|piece| self.read_whole(piece, by, watch));
        let mut parts = Vec::new();
        for read in join_all(reads).await {
            parts.extend(read?);
        }
        Ok(parts)
    }

    /// A piece with what it has of parents, where guests ask for it.
    async fn read_whole(
        self: &Rc<Self>,
        piece: Piece,
        by: For,
        watch: Option<&Watch<E>>,
    ) -> Result<Vec<Bytes>, OpError> {
        let own = self.read_piece(piece, by, watch).await?;
        let config = self.config();
        if by != For::Guest || config.parents().is_empty() {
            return Ok(own.into_bytes());
        }
        let blocks = BlockRange::new(piece.object_first, piece.range.count);
        Ok(self.context.with_inherited(config.parents(), blocks, own).await?)
    }

    /// Waits a moment for a snapshot that the disk is a clone of. The caller holds no lock.
    async fn wait_for_a_parent(&self, why: String, since: Time) -> Result<(), OpError> {
        let env = &self.context.env;
        if env.now().since(since) >= self.context.options.borrow().guest_patience {
            return Err(OpError::Io(why));
        }
        env.sleep(PARENT_AGAIN).await;
        match self.state.borrow().ended() {
            Some(ended) => Err(OpError::Ended(ended.clone())),
            None => Ok(()),
        }
    }

    /// Read-modify-write of the first and last block. The caller holds the exclusive lock.
    pub(super) async fn with_edges(
        self: &Rc<Self>,
        blocks: BlockRange,
        offset: u64,
        data: &Bytes,
        locked: Locked,
    ) -> Result<Bytes, OpError> {
        let mut whole = PageBuf::dirty(blocks.bytes() as usize);
        let from = (offset - blocks.first * BLOCK) as usize;
        let to = from + data.len();
        let last = blocks.end() - 1;
        // Past the end of the disk is nobody's: zeroes, whatever stood there.
        let short_of_end = to < whole.len() && offset + (data.len() as u64) < self.size_bytes();
        whole[to..].fill(0);
        let mut edges = Vec::new();
        if from > 0 || (short_of_end && blocks.count == 1) {
            edges.push(blocks.first);
        }
        if short_of_end && edges.last() != Some(&last) {
            edges.push(last);
        }
        for block in edges {
            let old = self.read_blocks(BlockRange::new(block, 1), (locked, For::Guest), None).await?;
            let mut at = ((block - blocks.first) * BLOCK) as usize;
            for part in old {
                whole[at..at + part.len()].copy_from_slice(&part);
                at += part.len();
            }
        }
        // The edges that were read become part of what is written: they need the lease like any answer.
        self.check_lease().await?;
        whole[from..to].copy_from_slice(data);
        Ok(whole.freeze())
    }

    async fn write_blocks(
        self: &Rc<Self>,
        area: Area,
        (blocks, data): (BlockRange, Bytes),
        origin: Origin,
        lock: &Lock,
        watch: Option<&Watch<E>>,
    ) -> Result<(), OpError> {
        let op_blocks = OP_BYTES_MAX / BLOCK_BYTES;
        let mut operations = Vec::new();
        for piece in area.split(blocks) {
            let mut done = 0;
            while done < piece.range.count {
                let count = (piece.range.count - done).min(op_blocks);
                let range = BlockRange::new(piece.range.first + u64::from(done), count);
                let from = ((piece.object_first + u64::from(done) - blocks.first) * BLOCK) as usize;
                let part = data.slice(from..from + range.bytes() as usize);
                // Named by its own first block: the block after it may begin another part of the same request.
                let client = origin.part(area, piece.object_first + u64::from(done));
                done += count;
                if origin.retry && self.was_done(piece.set, OF_ALL, client).await? {
                    continue;
                }
                let crcs = part.chunks_exact(BLOCK as usize).map(block_crc).collect();
                let write = BlockOp::Write { first_block: range.first, crcs };
                let body = Body { blocks: write, data: part };
                operations.push(self.start_watched(piece.set, client, body, lock.clone(), watch));
            }
        }
        all_acknowledged(operations).await
    }

    async fn zero_blocks(
        self: &Rc<Self>,
        blocks: BlockRange,
        keep_allocated: bool,
        origin: Origin,
    ) -> Result<(), OpError> {
        let came = self.context.env.now();
        self.pace(0).await;
        self.not_draining().await?;
        self.not_too_late(origin, came)?;
        let (mut left, mut origin) = (blocks, origin);
        while left.count > 0 {
            let (area, part) = self.first_part(left);
            let (part, is_done) = self.first_undone(area, (part, &zeroes(keep_allocated)), origin).await?;
            let result = match is_done {
                true => Ok(()),
                false => self.zero_area(area, (part, keep_allocated), origin).await,
            };
            match result {
                Err(OpError::Elsewhere) => origin.retry = true,
                result => {
                    result?;
                    left = BlockRange::new(part.end(), (left.end() - part.end()) as u32);
                }
            }
        }
        Ok(())
    }

    async fn zero_area(
        self: &Rc<Self>,
        area: Area,
        (blocks, keep_allocated): (BlockRange, bool),
        origin: Origin,
    ) -> Result<(), OpError> {
        if let Some(rows) = area.rows() {
            return self.change_rows((area, rows), (blocks, zeroes(keep_allocated)), origin, &mut None).await;
        }
        let lock = Rc::new(self.locks.lock(blocks, true).await);
        self.still_at(area)?;
        let config = self.config();
        // A hole would show what a parent has there.
        let keep_allocated = keep_allocated
            || !config.parents().is_empty()
                && !Canary::TrimShowsParent.sings()
                && self.context.may_inherit(config.parents(), blocks).await;
        let owed = self.owe_shadow(blocks);
        let mut operations = Vec::new();
        for piece in area.split(blocks) {
            let client = origin.part(area, piece.object_first);
            if origin.retry && self.was_done(piece.set, OF_ALL, client).await? {
                continue;
            }
            let zero = Body::from(BlockOp::Zero { range: piece.range, keep_allocated });
            operations.push(self.start(piece.set, client, zero, lock.clone()));
        }
        all_acknowledged(operations).await?;
        self.shadow(blocks, &zeroes(keep_allocated), &lock).await;
        owed.paid();
        Ok(())
    }

    /// Whether an earlier try was carried out on these members of a set. Every in-sync copy is asked: one that was filled by copy does
    /// not know the requests that it missed.
    pub(super) async fn was_done(&self, set: u32, members: MemberMask, client: ClientTag) -> Result<bool, OpError> {
        if Canary::RetryTwice.sings() {
            return Ok(false);
        }
        let mut legs = self.state.borrow().readable(set);
        legs.retain(|leg| cairn_types::concerns(members, leg.link.copy));
        let mut missing = legs.is_empty();
        for leg in legs {
            let request = Request::WasDone { to: leg.link.target, client };
            match self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await {
                Ok((Answer::WasDone(true), _)) => {
                    // We hold the lock, so the first try is over. If this owner still serves, it succeeded. If not, this copy may
                    // hold a write that the next owner will undo.
                    if let Some(ended) = self.state.borrow().ended().cloned() {
                        return Err(OpError::Ended(ended));
                    }
                    self.context.tell(ObjectEvent::DoneBefore { object: self.id });
                    return Ok(true);
                }
                Ok((Answer::WasDone(false), _)) => {}
                _ => {
                    self.state.borrow_mut().fail(leg.component, false);
                    self.work.notify();
                    missing = true;
                }
            }
        }
        if missing {
            // Not an error of the guest's: it is repeated until the copies answer or are recorded absent.
            return Err(OpError::Ended(Ended::Inaccessible(format!("a copy of replica set {set} does not answer"))));
        }
        Ok(false)
    }

    /// Delays requests above the disk's limits. Who waits looks now and then whether they have changed.
    async fn pace(&self, bytes: u64) {
        let env = &self.context.env;
        let limits = || Limits::of(&self.state.borrow().config().policy);
        let mut paced = limits();
        if paced == Limits::default() {
            return;
        }
        let begin = |limits| {
            let mut pace = self.pace.get();
            let due = pace.begin(limits, env.now(), bytes);
            self.pace.set(pace);
            due
        };
        let mut due = begin(paced);
        while env.now() < due && self.state.borrow().ended().is_none() {
            env.sleep_until(due.min(env.now() + LIMIT_LOOK_EVERY)).await;
            if limits() != paced {
                paced = limits();
                due = begin(paced);
            }
        }
    }
}

/// How soon a request that waits for its turn hears of a new limit.
const LIMIT_LOOK_EVERY: Duration = Duration::from_millis(200);

/// Blocks of one zero operation, at most: 1 GiB, so that a trim of a whole disk is a few hundred operations.
const ZERO_BLOCKS_MAX: u32 = (1 << 30) / BLOCK_BYTES;

/// The same where the zeroes keep their space: each block becomes an entry of the component's map.
const KEPT_ZERO_BLOCKS_MAX: u32 = (64 << 20) / BLOCK_BYTES;

/// How soon it is looked again for a copy of a parent.
const PARENT_AGAIN: Duration = Duration::from_millis(100);

/// Zeroes, as many in one operation as there may be.
pub(super) fn zeroes(keep_allocated: bool) -> Changed {
    let blocks_max = if keep_allocated { KEPT_ZERO_BLOCKS_MAX } else { ZERO_BLOCKS_MAX };
    Changed::Zeroes { keep_allocated, blocks_max }
}

async fn all_acknowledged<E: Env>(mut operations: Vec<Operation<E>>) -> Result<(), OpError> {
    if operations.len() == 1 {
        return operations.pop().expect("there is one").await;
    }
    // Together, not one after the other: each is carried on by whoever waits for it.
    join_all(operations).await.into_iter().find(Result::is_err).unwrap_or(Ok(()))
}

/// Data in page-aligned memory goes to the device as it is; other data is copied once, here.
pub(super) fn aligned(data: Bytes) -> Bytes {
    match data.as_ptr().addr().is_multiple_of(BUFFER_ALIGN) {
        true => data,
        false => PageBuf::copy_of(&data).freeze(),
    }
}
