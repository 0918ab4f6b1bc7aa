//! A snapshot of a disk as front ends see it: read-only, at any host, without the disk's owner.
//!
//! Promises    V1  what is read is what the disk held when the snapshot was taken, whoever owns the disk, and whatever is written meanwhile
//! Not here    from whom it is read (`view`), how it is taken (`owner::snapshots`)

use std::{
    cell::RefCell,
    future::{Future, ready},
    ops::Range,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_types::{BLOCK_BYTES, BlockRange, HostId, ObjectConfig, SnapshotId};
use cairn_volume::{ChangedExtent, Extent, Volume, VolumeError, VolumeInfo};
use cairn_wire::AllocatedPiece;

use crate::{
    bytes::{cut, extents},
    local_store::LocalStore,
    objects::Objects,
    view::{NotRead, View, merged},
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
    /// What was looked up last. It stays so: clients that ask for one extent at a time go through it without another look.
    allocated: RefCell<Seen<Vec<AllocatedPiece>>>,
    changed: RefCell<Seen<Since>>,
}

/// What changed since an older snapshot: (offset, length) in bytes, ascending.
type Since = (SnapshotId, Vec<(u64, u64)>);
/// A range of bytes, and what was found out of it.
type Seen<T> = Option<(Range<u64>, Rc<T>)>;

/// What was found out of a range that has the byte at this place, and where the range ends.
fn seen<T>(known: &RefCell<Seen<T>>, at: u64, fits: impl Fn(&T) -> bool) -> Option<(u64, Rc<T>)> {
    let known = known.borrow();
    let (range, found) = known.as_ref().filter(|(range, found)| range.contains(&at) && fits(found))?;
    Some((range.end, found.clone()))
}

impl<E: Env, S: LocalStore> Clone for SnapshotReader<E, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E: Env, S: LocalStore> SnapshotReader<E, S> {
    /// Reads a snapshot of the disk that has this record.
    pub fn new(objects: &Objects<E, S>, known: ObjectConfig, snapshot: SnapshotId, info: VolumeInfo) -> Self {
        let known = RefCell::new(Rc::new(known));
        let (allocated, changed) = (RefCell::default(), RefCell::default());
        Self { inner: Rc::new(Inner { objects: objects.clone(), snapshot, info, known, allocated, changed }) }
    }

    fn check(&self, offset: u64, len_bytes: u64) -> Result<BlockRange, VolumeError> {
        Self::check_within(offset, len_bytes, self.inner.info.size_bytes)
    }

    fn check_within(offset: u64, len_bytes: u64, size: u64) -> Result<BlockRange, VolumeError> {
        let inside = offset.checked_add(len_bytes).is_some_and(|end| end <= size);
        let blocks = offset.saturating_add(len_bytes).div_ceil(BLOCK) - offset / BLOCK;
        match u32::try_from(blocks) {
            Ok(count) if inside => Ok(BlockRange::new(offset / BLOCK, count)),
            _ => Err(VolumeError::Invalid(format!(
                "{len_bytes} bytes at {offset} are not in a snapshot of {size} bytes"
            ))),
        }
    }

    /// Asks again, with the record as it is by then, until it is there or the guest's patience ends.
    async fn until_read<T>(&self, read: impl AsyncFn(View<E, S>) -> Result<T, NotRead>) -> Result<T, VolumeError> {
        let context = self.inner.objects.context();
        let (began, patience) = (context.env.now(), self.inner.objects.options().guest_patience);
        loop {
            let config = self.inner.known.borrow().clone();
            let view = View { context: context.clone(), config, snapshot: self.inner.snapshot };
            let why = match read(view).await {
                Ok(read) => return Ok(read),
                Err(NotRead::Lost(why)) => return Err(VolumeError::Io(why)),
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
        let parts = self.until_read(async |view: View<E, S>| view.read(blocks).await);
        Ok(cut(parts.await?, (offset - blocks.first * BLOCK) as usize, len_bytes as usize))
    }

    /// Extents, in bytes, that may differ from what a later snapshot of the disk has, ascending; no others do. Those that were allocated, where
    /// none is named.
    ///
    /// # Errors
    /// As of a read.
    pub async fn changed(
        &self,
        later: Option<SnapshotId>,
        offset: u64,
        len_bytes: u64,
    ) -> Result<Vec<(u64, u64)>, VolumeError> {
        // The disk may have grown since.
        let size = self.inner.known.borrow().size_bytes;
        let blocks = Self::check_within(offset, len_bytes, size)?;
        let changed = self.until_read(async |view: View<E, S>| match later {
            Some(later) => view.changed_up_to(later, blocks).await,
            None => {
                let pieces = view.allocated(blocks).await?;
                Ok(merged(pieces.into_iter().filter(|piece| piece.allocated).map(|piece| piece.range).collect()))
            }
        });
        let end = offset + len_bytes;
        let bytes = |run: BlockRange| ((run.first * BLOCK).max(offset), (run.end() * BLOCK).min(end));
        Ok(changed.await?.into_iter().map(bytes).map(|(from, to)| (from, to - from)).collect())
    }

    async fn allocated(&self, offset: u64, len_bytes: u64) -> Result<Vec<Extent>, VolumeError> {
        let blocks = self.check(offset, len_bytes)?;
        let end = offset + len_bytes;
        let (seen_to, pieces) = match seen(&self.inner.allocated, offset, |_| true) {
            Some(known) => known,
            None => {
                let pieces = Rc::new(self.until_read(async |view: View<E, S>| view.allocated(blocks).await).await?);
                *self.inner.allocated.borrow_mut() = Some((offset..end, pieces.clone()));
                (end, pieces)
            }
        };
        Ok(extents(&pieces, offset, end.min(seen_to) - offset))
    }

    /// What may have changed since an older snapshot of the disk.
    async fn since(&self, moment: &str, offset: u64, len_bytes: u64) -> Result<Vec<ChangedExtent>, VolumeError> {
        self.check(offset, len_bytes)?;
        let config = self.inner.known.borrow().clone();
        let (snapshot, end, name) = (self.inner.snapshot, offset + len_bytes, &self.inner.info.name);
        let past = config.past.as_ref();
        let cut = past.and_then(|past| past.snapshot(snapshot)).map(|own| own.cut);
        let earlier = past.and_then(|past| past.named(moment)).filter(|earlier| Some(earlier.cut) < cut);
        let Some(earlier) = earlier else {
            return Err(VolumeError::Invalid(format!("{name} has no older snapshot {moment:?}")));
        };
        let (seen_to, changed) = match seen(&self.inner.changed, offset, |(since, _)| *since == earlier.id) {
            Some(known) => known,
            None => {
                let info = VolumeInfo { name: format!("{moment}, older than {name},"), ..self.info() };
                let reader = Self::new(&self.inner.objects, (*config).clone(), earlier.id, info);
                let changed = reader.changed(Some(snapshot), offset, len_bytes).await?;
                let changed = Rc::new((earlier.id, changed));
                *self.inner.changed.borrow_mut() = Some((offset..end, changed.clone()));
                (end, changed)
            }
        };
        Ok(changed_extents(&changed.1, offset, end.min(seen_to)))
    }
}

/// All bytes from one place to another as runs, by those that changed: (offset, length), ascending.
fn changed_extents(changed: &[(u64, u64)], offset: u64, end: u64) -> Vec<ChangedExtent> {
    let mut extents = Vec::new();
    let mut at = offset;
    let mut put = |to: u64, changed: bool| {
        if to > at {
            extents.push(ChangedExtent { len_bytes: to - at, changed });
            at = to;
        }
    };
    let from = changed.partition_point(|(first, len)| first + len <= offset);
    for (first, len) in changed[from..].iter().take_while(|(first, _)| *first < end) {
        put(*first, false);
        put((first + len).min(end), true);
    }
    put(end, false);
    extents
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

    fn changed_since(
        &self,
        moment: &str,
        offset: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<Vec<ChangedExtent>, VolumeError>> + 'static {
        let (reader, moment) = (self.clone(), moment.to_owned());
        async move { reader.since(&moment, offset, len_bytes).await }
    }

    fn cache(&self, _: u64, _: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_from_any_place_to_any_place() {
        let changed = [(4096, 4096), (16384, 8192)];
        let told = |offset, end| -> Vec<(u64, bool)> {
            changed_extents(&changed, offset, end)
                .into_iter()
                .map(|extent| (extent.len_bytes, extent.changed))
                .collect()
        };
        assert_eq!(told(0, 28672), [(4096, false), (4096, true), (8192, false), (8192, true), (4096, false)]);
        assert_eq!(told(4608, 16896), [(3584, true), (8192, false), (512, true)]);
        assert_eq!(told(8192, 16384), [(8192, false)]);
        assert_eq!(told(20480, 21504), [(1024, true)]);
        assert_eq!(told(24576, 24576), []);
    }
}
