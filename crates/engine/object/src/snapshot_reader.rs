//! A snapshot of a disk as front ends see it: read-only, at any host, without the disk's owner.
//!
//! Promises    V1  what is read is what the disk held when the snapshot was taken, whoever owns the disk, and whatever is written meanwhile
//! Not here    from whom it is read (`view`), how it is taken (`owner::snapshots`)

use std::{
    cell::RefCell,
    future::{Future, ready},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_types::{BLOCK_BYTES, BlockRange, HostId, ObjectConfig, SnapshotId};
use cairn_volume::{Extent, Volume, VolumeError, VolumeInfo};

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
        Self { inner: Rc::new(Inner { objects: objects.clone(), snapshot, info, known }) }
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
        let pieces = self.until_read(async |view: View<E, S>| view.allocated(blocks).await);
        Ok(extents(&pieces.await?, offset, len_bytes))
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
