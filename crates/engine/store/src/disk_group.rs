//! One disk group: the handle, what it owns, its public verbs.
//!
//! Promises    every verb that changes something takes effect in call order and answers when that is durable
//! Assumes     one thread; one process per disk group (the host's lock on its disks)
//! Not here    who may write what (`object`)

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{Disk, DiskError, Env};
use cairn_format::{NO_DEVICE, Needs, Superblock};
use cairn_metrics::StoreCounters;
use cairn_types::{
    BlockRange, Change, ClientTag, ClusterId, ComponentId, Contents, DeviceId, DeviceTimes, DiskGroupId, HostId,
    KeptBlocks, ObjectId, OpId, RegionIndex, RequestKind, Run, SnapshotId, UnsettledOp,
};

use futures::lock::Mutex;

use crate::{
    cleared::Cleared,
    component::ComponentInfo,
    cuts::Cuts,
    error::StoreError,
    flag::Flag,
    growth::{Growth, gone},
    latencies::{LogLatencies, ReadLatencies},
    meta::Meta,
    meters::Meters,
    occupant::wipe_superblocks,
    options::RunningOptions,
    placing::PLACERS,
    ring::congestion,
    scrub_batch::Batch,
    segments::{LOG, Pins, Segments},
    shards::Bounds,
    state::State,
    stats::{DeviceStats, LogHealth, StoreStats},
    tier::By,
};

/// The devices of a disk group.
#[derive(Debug, Clone)]
pub struct DiskGroupDevices<D> {
    /// Log and metadata.
    pub cache: D,
    /// 1..=7 devices, in the order in which they were formatted.
    pub capacity: Vec<D>,
}

/// What a disk group is expected to be when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expect {
    /// Of this cluster.
    pub cluster: ClusterId,
    /// Of this host.
    pub host: HostId,
    /// This one, if that is known.
    pub disk_group: Option<DiskGroupId>,
}

/// What the tasks and the handles share.
pub(crate) struct Inner<E: Env> {
    pub env: E,
    pub id: DiskGroupId,
    pub cluster: ClusterId,
    pub host: HostId,
    pub open_count: u64,
    pub opened_unix_ms: u64,
    pub opening: Duration,
    pub cache: E::Disk,
    /// By number; none where the device is missing or was given up.
    pub capacity: RefCell<Vec<Option<E::Disk>>>,
    /// A device that is to be added.
    pub growth: RefCell<Option<Growth<E>>>,
    /// One is being added.
    pub grows: Cell<bool>,
    pub tuning: RunningOptions,
    /// The cache device's superblock as it stands.
    pub superblock: RefCell<Superblock>,
    /// Held by whoever writes it anew.
    pub superblock_turn: Mutex<()>,
    /// What may be written from now on, though it may not be yet.
    pub allowed: Cell<Needs>,
    /// What waits of a map in pages, and how many leaves come to one.
    pub map_bounds: Cell<(Bounds, usize)>,
    /// What of it was chosen.
    pub map_waiting: Option<u64>,
    pub meta: Arc<dyn Meta>,
    /// Where the metadata region begins on the cache device.
    pub metadata_offset: u64,
    pub state: RefCell<State>,
    /// The part of the map that the scrub has under way.
    pub scrub: RefCell<Option<Batch>>,
    /// What requests take at its devices.
    pub meters: Meters,
    pub pins: Rc<Pins>,
    pub writer: Rc<Flag>,
    pub destager: Flag,
    pub placer: Flag,
    pub placers_ended: [Flag; PLACERS],
    pub writer_ended: Flag,
    pub destager_ended: Flag,
}

impl<E: Env> Inner<E> {
    pub(crate) fn disk(&self, device: u8) -> Option<E::Disk> {
        if device == LOG {
            return Some(self.cache.clone());
        }
        self.capacity.borrow()[device as usize].clone()
    }
    /// Reads a device of the group; one that was given up meanwhile is gone.
    pub(crate) async fn read_device(&self, device: u8, offset: u64, len_bytes: u32) -> Result<Bytes, DiskError> {
        let disk = self.disk(device).ok_or_else(|| gone("read"))?;
        let len = u64::from(len_bytes);
        let asked = self.meters.begin(device, RequestKind::of_read(len), len, self.env.now());
        let bytes = disk.read(offset, len_bytes).await?;
        asked.answered(self.env.now());
        Ok(bytes)
    }
    /// The same of a flush.
    pub(crate) async fn flush_device(&self, device: u8) -> Result<(), DiskError> {
        self.disk(device).ok_or_else(|| gone("flush"))?.flush().await
    }
    pub(crate) fn fail_device(&self, device: u8, why: &cairn_env::DiskError) {
        let mut state = self.state.borrow_mut();
        state.fail_device(device, why);
        // So that the loss becomes durable soon.
        state.log.want_tidy();
        self.destager.raise();
    }
}

/// Closes the group when the last handle goes.
struct Handle<E: Env>(Rc<Inner<E>>);

impl<E: Env> Drop for Handle<E> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().life.close();
        self.0.writer.raise();
        self.0.destager.raise();
        self.0.placer.raise();
    }
}

/// An open disk group. Cheap to clone; it closes when the last clone goes.
pub struct DiskGroup<E: Env> {
    handle: Rc<Handle<E>>,
}

impl<E: Env> Clone for DiskGroup<E> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<E: Env> DiskGroup<E> {
    pub(crate) fn start(inner: Rc<Inner<E>>) -> Self {
        inner.env.spawn(inner.clone().run_writer());
        inner.env.spawn(inner.clone().run_destager());
        (0..PLACERS).for_each(|number| inner.env.spawn(inner.clone().run_placer(number)));
        if inner.tuning.idle_destage_ms > 0 {
            inner.env.spawn(inner.clone().run_idle());
        }
        inner.recall_hooks();
        inner.start_probes();
        Self { handle: Rc::new(Handle(inner)) }
    }
    pub(crate) fn inner(&self) -> &Rc<Inner<E>> {
        &self.handle.0
    }

    /// Nobody else can ask anything of the group.
    #[cfg(feature = "fill-map")]
    pub(crate) fn is_only_handle(&self) -> bool {
        Rc::strong_count(&self.handle) == 1
    }

    /// Its id.
    pub fn id(&self) -> DiskGroupId {
        self.inner().id
    }
    /// The host that it belongs to.
    pub fn host(&self) -> HostId {
        self.inner().host
    }
    /// The cluster that it belongs to.
    pub fn cluster(&self) -> ClusterId {
        self.inner().cluster
    }
    /// Its devices by their superblocks, the cache device first, then capacity devices by number: [`cairn_format::NO_DEVICE`] where one
    /// was given up.
    pub fn device_ids(&self) -> Vec<DeviceId> {
        let inner = self.inner();
        let cache = inner.superblock.borrow().device;
        std::iter::once(cache).chain(inner.capacity_ids()).collect()
    }
    /// What requests took at each device since this was asked last, the cache device first; of those that had any.
    pub fn take_device_times(&self) -> Vec<(DeviceId, DeviceTimes)> {
        let taken = self.inner().meters.take(self.inner().env.now());
        let ids = self.device_ids().into_iter().zip(taken);
        ids.filter(|(id, _)| *id != NO_DEVICE).collect()
    }
    /// The capacity devices that it was opened without.
    pub fn missing(&self) -> Vec<DeviceId> {
        let inner = self.inner();
        let capacity = inner.capacity.borrow();
        let ids = inner.capacity_ids().into_iter().zip(capacity.iter());
        ids.filter(|(id, disk)| disk.is_none() && *id != NO_DEVICE).map(|(id, _)| id).collect()
    }
    /// How often it was opened.
    pub fn open_count(&self) -> u64 {
        self.inner().open_count
    }
    /// Whether its log was whole.
    pub fn log_health(&self) -> LogHealth {
        self.inner().state.borrow().log.health()
    }
    /// The log position up to which everything is on stable media. Only grows, over all openings.
    pub fn durable_position(&self) -> u64 {
        self.inner().state.borrow().log.ring.durable()
    }

    /// Refuses the writes of a component that are queued and have not been written to the log: call it before the
    /// record of a new promise is appended, since records overtake writes that wait for room.
    pub fn refuse_waiting(&self, component: ComponentId) {
        self.inner().state.borrow_mut().refuse_waiting(component);
    }

    /// Refuses the large copies of a component that are not in the log: call it before anything is asked for in a new session, as
    /// they may take effect later than what is asked for after them.
    pub fn refuse_copies(&self, component: ComponentId) {
        self.inner().state.borrow_mut().refuse_copies(component);
    }

    /// Queues `change` at once, in call order (large copies may come to the log later); the future resolves when it is on stable media.
    /// Dropping the future does not cancel it.
    ///
    /// While the log is full, writes and copies wait, and undo, settle, zero, delete and record overtake them.
    ///
    /// # Errors
    /// - [`crate::StoreErrorKind::NoSpace`], [`crate::StoreErrorKind::Refused`], [`crate::StoreErrorKind::Undone`],
    ///   [`crate::StoreErrorKind::NotFound`], [`crate::StoreErrorKind::Lost`]: nothing was changed.
    /// - [`crate::StoreErrorKind::Media`]: it is unknown whether it is on the medium; the group takes no writes until
    ///   it is reopened.
    pub fn append(&self, change: Change) -> impl Future<Output = Result<(), StoreError>> + 'static + use<E> {
        self.inner().append(change)
    }

    /// What another copy of the component held at the cut of a snapshot, of blocks that were changed after that cut and before the next one.
    /// It takes the place of what was kept here by itself. On stable media when the future resolves; `data` is of all runs
    /// that have some, back to back.
    ///
    /// Assumes that whoever sends it lets nothing write these blocks until the copies of their present contents are here as well.
    ///
    /// # Errors
    /// As of [`Self::append`]; [`crate::StoreErrorKind::NotFound`] where the component has no such cut,
    /// [`crate::StoreErrorKind::Damaged`] where its history of these blocks is: it is to be made anew.
    pub fn fill_history(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        first_block: u64,
        (runs, data): (Vec<Run>, Bytes),
    ) -> impl Future<Output = Result<(), StoreError>> + 'static + use<E> {
        self.inner().fill_history((component, snapshot), first_block, runs, data)
    }

    /// Reads the blocks of `range`. Every block's CRC-32C was verified.
    ///
    /// # Errors
    /// [`crate::StoreErrorKind::BadBlock`] names the blocks of the range that are not readable; read the others in
    /// parts.
    pub fn read(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, StoreError>> + 'static + use<E> {
        self.inner().clone().read(component, range)
    }

    /// What the blocks of `range` held at the cut of a snapshot. Every block's CRC-32C was verified.
    ///
    /// # Errors
    /// As of [`Self::read`]; [`crate::StoreErrorKind::NotFound`] where the component has no such cut.
    pub fn read_view(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, StoreError>> + 'static + use<E> {
        self.inner().clone().read_at(component, range, Some(snapshot))
    }

    /// Which blocks of `range` were allocated at the cut of a snapshot, as alternating runs.
    ///
    /// # Errors
    /// As of [`Self::read_view`].
    pub fn allocated_at(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<(BlockRange, bool)>, StoreError>> + 'static + use<E> {
        self.inner().clone().allocated_at(component, range, snapshot)
    }

    /// Blocks of `range` that may differ between the cuts of two snapshots, or between one and now; ascending. No others differ. Where history
    /// is damaged they are all told.
    ///
    /// # Errors
    /// As of [`Self::read_view`].
    pub fn changed(
        &self,
        component: ComponentId,
        between: (SnapshotId, Option<SnapshotId>),
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<BlockRange>, StoreError>> + 'static + use<E> {
        self.inner().clone().changed(component, range, between)
    }

    /// The snapshots whose cuts a component has, in their order; none where it is not here.
    pub fn snapshots(&self, component: ComponentId) -> Vec<SnapshotId> {
        let state = self.inner().state.borrow();
        let cuts = state.components.get(component).map(|component| &component.cuts);
        cuts.into_iter().flat_map(Cuts::live).filter_map(|cut| cut.snapshot).collect()
    }

    /// What is kept of the past of a component's blocks from one on: a part of them, and where to go on; none where that was all.
    ///
    /// # Errors
    /// [`crate::StoreErrorKind::NotFound`] and [`crate::StoreErrorKind::Lost`] as of [`Self::read`].
    pub fn kept_blocks(
        &self,
        component: ComponentId,
        from_block: u64,
    ) -> impl Future<Output = Result<(KeptBlocks, Option<u64>), StoreError>> + 'static + use<E> {
        self.inner().clone().kept_blocks(component, from_block)
    }

    /// Which blocks of `range` are allocated, as alternating runs.
    pub fn allocated(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<(BlockRange, bool)>, StoreError>> + 'static + use<E> {
        self.inner().clone().allocated(component, range)
    }

    /// All components, by id.
    pub fn components(&self) -> Vec<ComponentInfo> {
        self.inner().state.borrow().components.all().map(|c| c.info()).collect()
    }
    /// Those of one object, by id.
    pub fn components_of(&self, object: ObjectId) -> Vec<ComponentInfo> {
        let state = self.inner().state.borrow();
        state.components.of_object(object).map(|c| c.info()).collect()
    }
    /// How many components there are, and how many of them hold no blocks.
    pub fn components_count(&self) -> (u32, u32) {
        let state = self.inner().state.borrow();
        (state.components.len() as u32, state.components.witnesses())
    }
    /// One component.
    pub fn component(&self, id: ComponentId) -> Option<ComponentInfo> {
        self.inner().state.borrow().components.get(id).map(|c| c.info())
    }
    /// Components whose capacity device failed.
    pub fn lost_components(&self) -> Vec<ComponentId> {
        self.inner().state.borrow().components.all().filter(|c| c.lost).map(|c| c.id).collect()
    }
    /// The record of an object's seat, as last made durable.
    pub fn record(&self, object: ObjectId) -> Option<Bytes> {
        let state = self.inner().state.borrow();
        state.seats.get(object).cloned()
    }
    /// The next objects that have a component here, ascending from the one after `after`, `most` of them at most; and whether there
    /// are more behind them.
    pub fn objects_after(&self, after: Option<ObjectId>, most: usize) -> (Vec<ObjectId>, bool) {
        let state = self.inner().state.borrow();
        let mut ahead = state.components.objects_after(after);
        (ahead.by_ref().take(most).collect(), ahead.next().is_some())
    }
    /// Bytes of a record, at most: a larger one is refused.
    pub fn record_bytes_max(&self) -> usize {
        cairn_types::RECORD_BYTES_MAX.min(self.inner().state.borrow().log.ring.segment_bytes() as usize / 4)
    }
    /// All records, by object.
    pub fn records(&self) -> Vec<(ObjectId, Bytes)> {
        let state = self.inner().state.borrow();
        state.seats.all().map(|(object, bytes)| (object, bytes.clone())).collect()
    }
    /// Every operation up to this one is decided on the component.
    pub fn settled(&self, component: ComponentId) -> OpId {
        self.inner().state.borrow().components.get(component).map_or(OpId::ZERO, |c| c.settled)
    }
    /// The last operation at or below `settled` that the component took as a write and that stands, as far as this process or the log that
    /// it found knows; zero where neither does.
    pub fn last_written(&self, component: ComponentId) -> OpId {
        self.inner().state.borrow().components.get(component).map_or(OpId::ZERO, |c| c.last_written)
    }

    /// The same by member of its set: of operations on rows that concerned the member of each index. As long as the highest index needs; none
    /// where no operation said which members it concerns.
    pub fn last_written_with(&self, component: ComponentId) -> Vec<OpId> {
        let state = self.inner().state.borrow();
        state.components.get(component).map_or_else(Vec::new, |c| c.last_written_with.clone())
    }
    /// Whether an operation above `op` that is not settled has changed blocks of `range`: parity that is made for `op` would come late.
    pub fn is_late(&self, component: ComponentId, op: OpId, range: BlockRange) -> bool {
        let state = self.inner().state.borrow();
        state.components.get(component).is_some_and(|c| c.is_late(op, range))
    }

    /// The operations that are not settled, ascending.
    pub fn window(&self, component: ComponentId) -> Vec<UnsettledOp> {
        let state = self.inner().state.borrow();
        state.components.get(component).map_or_else(Vec::new, |c| c.window.iter().map(|u| u.info).collect())
    }
    /// Regions that an operation later than `after` touched, with the highest such operation; undo does not lower it.
    pub fn regions_after(&self, component: ComponentId, after: OpId) -> Vec<(RegionIndex, OpId)> {
        let state = self.inner().state.borrow();
        let Some(component) = state.components.get(component) else {
            return Vec::new();
        };
        component.regions.iter().filter(|(_, mark)| mark.op > after).map(|(r, mark)| (r, mark.op)).collect()
    }
    /// Whether a front end's request was carried out on the component, as far as it remembers.
    pub fn was_done(&self, component: ComponentId, client: ClientTag) -> bool {
        let state = self.inner().state.borrow();
        state.components.get(component).is_some_and(|c| c.outcomes.has(client))
    }

    /// The requests of front ends that were carried out and may be repeated yet, each with its operation, oldest first.
    pub fn recent_clients(&self, component: ComponentId) -> Vec<(ClientTag, OpId)> {
        let state = self.inner().state.borrow();
        let Some(component) = state.components.get(component) else {
            return Vec::new();
        };
        component.outcomes.all()
    }

    /// Counters and gauges.
    pub fn stats(&self) -> StoreStats {
        let inner = self.inner();
        let state = inner.state.borrow();
        let ids = inner.capacity_ids();
        let capacity: Vec<DeviceStats> =
            state.tier.devices().iter().zip(ids).map(|(segments, id)| inner.capacity_stats(id, segments)).collect();
        let usable_bytes = capacity.iter().filter(|d| !d.failed).map(|d| d.usable_bytes).sum();
        let charged_bytes = capacity.iter().filter(|d| !d.failed).map(|d| d.charged_bytes).sum();
        let free = |d: &DeviceStats, number: u8| {
            let packed = state.tier.packed_room(number, By::Guest) * u64::from(cairn_types::BLOCK_BYTES);
            d.usable_bytes.saturating_sub(d.charged_bytes).max(packed)
        };
        let free = capacity.iter().zip(0..).filter(|(d, _)| !d.failed).map(|(d, number)| free(d, number)).sum();
        let tuning = &inner.tuning;
        let (low, high) = (tuning.congestion_low_percent, tuning.congestion_high_percent);
        let log_bytes = state.log.ring.size();
        let fill = state.log.ring.fill_permille();
        let mark = |percent: u8| log_bytes / 100 * u64::from(percent);
        let (metadata_bytes, file_bytes) = inner.meta.room().bytes();
        let (map_waiting_blocks, map_kept_blocks, pages) = state.map.pages().map_or((0, 0, 0), |pages| {
            let (waiting, kept) = pages.shards.depths();
            (waiting, kept, pages.zone.in_use())
        });
        let ((shared_items, shared_references), (hooks, hooks_one_in)) = (state.shared_now(), state.twins.depth());
        StoreStats {
            disk_group: inner.id,
            opened_unix_ms: inner.opened_unix_ms,
            opening_us: inner.opening.as_micros() as u64,
            cache: inner.cache_stats(&state),
            capacity,
            log_bytes,
            log_used_bytes: state.log.ring.used(),
            log_fill_permille: fill,
            records_buffered: state.components.records.len() as u64,
            components: state.components.len() as u64,
            usable_bytes,
            charged_bytes,
            free_bytes: free,
            destage_mark_bytes: mark(tuning.destage_percent),
            destage_mark_percent: u64::from(tuning.destage_percent),
            congestion_low_bytes: mark(low),
            congestion_high_bytes: mark(high),
            congestion: congestion(fill, low, high),
            // What the last batch met, as long as the log is as full.
            congestion_delay_us: if congestion(fill, low, high) > 0 { state.log.delay_us() } else { 0 },
            read_cache_bytes: state.cache.bytes(),
            metadata_bytes,
            metadata_used_bytes: file_bytes + pages * cairn_format::MAP_PAGE_BYTES as u64,
            map_waiting_blocks,
            map_kept_blocks,
            map_has_rows: state.map.pages().is_none_or(|pages| pages.has_rows),
            compression: state.settings.compression(),
            deduplication: state.settings.deduplication(),
            rewriting: state.rewrite_progress(self.inner().env.now()),
            shared_items,
            shared_references,
            hooks,
            hooks_one_in,
            counters: StoreCounters {
                metadata_write_bytes: inner.meta.written_bytes()
                    + state.counters.map_pages_written * cairn_format::MAP_PAGE_BYTES as u64,
                metadata_reads: inner.meta.reads() + state.counters.map_pages_read,
                ..state.counters
            },
            stopped: state.life.stopped().map(ToString::to_string),
        }
    }

    /// Whether it takes no writes until it is opened again.
    pub fn is_stopped(&self) -> bool {
        self.inner().state.borrow().life.stopped().is_some()
    }

    /// The room on each capacity device, in the order of devices; zeroes for one that failed.
    pub fn rooms(&self) -> Vec<cairn_types::DeviceRoom> {
        let state = self.inner().state.borrow();
        state.components.rooms(&state.tier)
    }

    /// How long guests' writes took in the log since the group was opened.
    pub fn log_latencies(&self) -> LogLatencies {
        self.inner().state.borrow().stages.log()
    }

    /// How long reads took since then, by object; of one where it is named.
    pub fn read_latencies(&self, only: Option<ObjectId>) -> BTreeMap<ObjectId, ReadLatencies> {
        let state = self.inner().state.borrow();
        state.stages.reads(&state.components, only)
    }

    /// Destages everything that is in the log now.
    ///
    /// # Errors
    /// [`crate::StoreErrorKind::Media`] when the group stopped or was closed.
    pub async fn drain(&self) -> Result<(), StoreError> {
        self.inner().drain().await
    }

    /// Destages what is in the log until less than a hundredth of it is in use, whatever is written meanwhile, then drops the
    /// cached blocks and the cached parts of the map. Gives up after `patience`; destage goes on all the same.
    ///
    /// Nothing about destage changes but its time: what was promised before holds at every moment of it.
    ///
    /// # Errors
    /// [`crate::StoreErrorKind::Media`] when the group stopped or was closed; its cached blocks are dropped all the same.
    pub async fn clear_caches(&self, patience: Duration) -> Result<Cleared, StoreError> {
        self.inner().clear_caches(patience).await
    }

    /// All hosts of the cluster know how to read this: the group is written so for good, from its next transaction on, or once there is something to
    /// write ([`Needs::at_once`]).
    pub fn allow(&self, needs: Needs) {
        let inner = self.inner();
        if inner.allowed.get().include(needs) && self.needs().include(needs.at_once()) {
            return;
        }
        inner.allowed.set(inner.allowed.get().with(needs));
        inner.state.borrow_mut().log.want_tidy();
        inner.destager.raise();
    }

    /// What a build must know to open the group from now on.
    pub fn needs(&self) -> Needs {
        self.inner().superblock.borrow().needs
    }

    /// Waits for what is queued, then ends the group's tasks. Nothing is destaged: opening replays the log.
    pub async fn close(&self) {
        let inner = self.inner();
        inner.state.borrow_mut().life.close();
        inner.writer.raise();
        inner.destager.raise();
        inner.placer.raise();
        for ended in &inner.placers_ended {
            ended.wait().await;
            ended.raise();
        }
        inner.writer_ended.wait().await;
        inner.writer_ended.raise();
        inner.destager_ended.wait().await;
        inner.destager_ended.raise();
    }

    /// Closes the group and wipes its superblocks: its devices are free then, and what they held is lost.
    ///
    /// # Errors
    /// A device fails, and may keep its superblock; the others are wiped.
    pub async fn retire(&self) -> Result<(), StoreError> {
        self.close().await;
        let inner = self.inner();
        let mut wiped = Ok(());
        // The cache device first: without it nothing opens the others.
        let capacity: Vec<E::Disk> = inner.capacity.borrow().iter().flatten().cloned().collect();
        for disk in std::iter::once(&inner.cache).chain(&capacity) {
            wiped = wiped.and(wipe_superblocks(disk, inner.id).await.map(drop));
        }
        wiped
    }

    /// Notes durably that the log lacks what it once held, as somebody outside knows: like damage that was found in it.
    pub async fn distrust_log(&self) -> Result<(), StoreError> {
        {
            let mut state = self.inner().state.borrow_mut();
            let ends_at = state.log.ring.durable();
            state.log.found_damaged(ends_at);
        }
        self.inner().drain().await
    }

    /// Forgets that the log was damaged once whoever relies on the group has dealt with it.
    pub async fn accept_damage(&self) -> Result<(), StoreError> {
        self.inner().state.borrow_mut().log.accept_damage();
        self.inner().drain().await
    }
}

impl<E: Env> Inner<E> {
    fn cache_stats(&self, state: &State) -> DeviceStats {
        DeviceStats {
            device: self.superblock.borrow().device,
            name: self.cache.name(),
            medium: self.cache.medium(),
            bytes: self.cache.len_bytes(),
            failed: state.life.stopped().is_some(),
            failure: state.life.stopped().and_then(|error| error.device.as_deref().cloned()),
            usable_bytes: 0,
            charged_bytes: 0,
            live_bytes: 0,
            segments: 0,
            segments_free: 0,
        }
    }
    fn capacity_stats(&self, device: DeviceId, segments: &Segments) -> DeviceStats {
        let (block, number) = (u64::from(cairn_types::BLOCK_BYTES), segments.device);
        let disk = self.disk(number);
        let disk = disk.as_ref();
        DeviceStats {
            device,
            name: disk.map_or_else(|| format!("capacity device {number} (missing)"), Disk::name),
            medium: disk.and_then(Disk::medium),
            bytes: disk.map_or(0, Disk::len_bytes),
            failed: segments.failed,
            failure: segments.failure.clone(),
            usable_bytes: segments.limit() * block,
            charged_bytes: segments.used * block,
            live_bytes: segments.live_bytes(),
            segments: segments.count(),
            segments_free: segments.free_segments(),
        }
    }
    async fn run_idle(self: Rc<Self>) {
        let idle = Duration::from_millis(self.tuning.idle_destage_ms);
        loop {
            self.env.sleep(idle).await;
            let mut state = self.state.borrow_mut();
            if state.life.ends() {
                return;
            }
            let quiet = self.env.now().0.saturating_sub(state.log.last_batch_ns()) >= idle.as_nanos() as u64;
            if quiet && state.log.ring.used() > 0 {
                state.log.request_drain();
                self.destager.raise();
            }
        }
    }
}
