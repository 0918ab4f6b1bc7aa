//! Joins the store's disk group to what the object layer asks of one: names on one side to names on the other.

use bytes::Bytes;
use cairn_env::Env;
use cairn_object::{LocalComponent, LocalStore};
use cairn_store::{DiskGroup, LogHealth, StoreError, StoreErrorKind};
use cairn_types::{
    BlockRange, BlockStates, Change, ClientTag, ComponentId, Contents, DiskGroupId, ObjectId, OpId, RegionIndex, Run,
    SnapshotId, UnsettledOp,
};
use cairn_wire::{AllocatedPiece, DiskGroupSummary, Refusal};

/// A disk group as the object layer sees it.
pub struct GroupStore<E: Env> {
    group: DiskGroup<E>,
    /// Where the log ended when it was opened.
    opened_at: u64,
    /// A peer remembers a later durable position than the log ends with: an old image of the device.
    rolled_back: std::rc::Rc<std::cell::Cell<bool>>,
    /// That is not yet on record here: until it is, peers must not forget it.
    unrecorded: std::rc::Rc<std::cell::Cell<bool>>,
}

impl<E: Env> Clone for GroupStore<E> {
    fn clone(&self) -> Self {
        let (rolled_back, unrecorded) = (self.rolled_back.clone(), self.unrecorded.clone());
        Self { group: self.group.clone(), opened_at: self.opened_at, rolled_back, unrecorded }
    }
}

impl<E: Env> GroupStore<E> {
    /// Wraps an open disk group.
    pub fn new(group: DiskGroup<E>) -> Self {
        let opened_at = group.durable_position();
        Self { group, opened_at, rolled_back: Default::default(), unrecorded: Default::default() }
    }

    /// The store's own handle.
    pub fn group(&self) -> &DiskGroup<E> {
        &self.group
    }

    /// What people are told of a log that lost something; none where it is sound, or all of it is made good.
    pub(crate) fn log_damage(&self) -> Option<String> {
        match self.group.log_health() {
            LogHealth::Sound => None,
            LogHealth::Damaged { ends_at } => Some(format!(
                "its log is damaged behind position {ends_at}: what was acknowledged last may be missing there; its copies are \
                 filled again from the others, and count for nothing until they are"
            )),
        }
    }

    /// A peer remembers (open count, durable position). True where that is beyond what this log held when it was opened, and is
    /// news: then [`Self::record_roll_back`] is due.
    pub fn on_remembered(&self, open_count: u64, durable_position: u64) -> bool {
        let count = self.group.open_count();
        // Positions only grow, over all openings: what was durable before this one must have been found by it.
        let held = if open_count < count { self.opened_at } else { self.group.durable_position() };
        let rolled_back = open_count > count || durable_position > held;
        let news = rolled_back && !self.rolled_back.replace(true);
        if news {
            self.unrecorded.set(true);
        }
        news
    }

    /// Puts on record that the log is an old one. Without that the next process would believe it again as soon as it has
    /// grown beyond what peers remember.
    pub async fn record_roll_back(&self) {
        // A group that cannot write any more keeps peers from forgetting: it tells no position.
        if self.group.distrust_log().await.is_ok() {
            self.unrecorded.set(false);
        }
    }
}

fn refusal(error: StoreError) -> Refusal {
    match error.kind {
        StoreErrorKind::NotFound | StoreErrorKind::Lost => Refusal::NotFound,
        StoreErrorKind::NoSpace => Refusal::NoSpace,
        StoreErrorKind::BadBlock { blocks, .. } => Refusal::BadBlocks(runs(&blocks)),
        StoreErrorKind::Refused | StoreErrorKind::Undone => Refusal::Invalid(error.text),
        _ => Refusal::Media(error.text),
    }
}

/// Ascending blocks as runs.
fn runs(blocks: &[u64]) -> Vec<BlockRange> {
    let mut runs: Vec<BlockRange> = Vec::new();
    for &block in blocks {
        match runs.last_mut() {
            Some(run) if run.end() == block => run.count += 1,
            _ => runs.push(BlockRange::new(block, 1)),
        }
    }
    runs
}

fn pieces(runs: Vec<(BlockRange, bool)>) -> Vec<AllocatedPiece> {
    runs.into_iter().map(|(range, allocated)| AllocatedPiece { range, allocated }).collect()
}

impl<E: Env> LocalStore for GroupStore<E> {
    fn disk_group(&self) -> DiskGroupId {
        self.group.id()
    }

    fn append(&self, change: Change) -> impl Future<Output = Result<(), Refusal>> + 'static {
        let durable = self.group.append(change);
        async move { durable.await.map_err(refusal) }
    }

    fn refuse_waiting(&self, component: ComponentId) {
        self.group.refuse_waiting(component);
    }

    fn refuse_copies(&self, component: ComponentId) {
        self.group.refuse_copies(component);
    }

    fn read(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        let read = self.group.read(component, range);
        async move { read.await.map_err(refusal) }
    }

    fn read_marked(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        let read = self.group.read_marked(component, range);
        async move { read.await.map_err(refusal) }
    }

    fn digests(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<u64>, Refusal>> + 'static {
        let digests = self.group.digests(component, range);
        async move { digests.await.map_err(refusal) }
    }

    fn block_states(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<BlockStates, Refusal>> + 'static {
        let states = self.group.block_states(component, range);
        async move { states.await.map_err(refusal) }
    }

    fn compared(&self, component: ComponentId, repaired: &[BlockRange], undecided: &[BlockRange]) {
        self.group.compared(component, repaired, undecided);
    }

    fn allocated(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<AllocatedPiece>, Refusal>> + 'static {
        let told = self.group.allocated(component, range);
        async move { Ok(pieces(told.await.map_err(refusal)?)) }
    }

    fn read_view(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        let read = self.group.read_view(component, snapshot, range);
        async move { read.await.map_err(refusal) }
    }

    fn read_view_marked(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        let read = self.group.read_view_marked(component, snapshot, range);
        async move { read.await.map_err(refusal) }
    }

    fn allocated_at(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<AllocatedPiece>, Refusal>> + 'static {
        let told = self.group.allocated_at(component, snapshot, range);
        async move { Ok(pieces(told.await.map_err(refusal)?)) }
    }

    fn changed(
        &self,
        component: ComponentId,
        between: (SnapshotId, Option<SnapshotId>),
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<BlockRange>, Refusal>> + 'static {
        let told = self.group.changed(component, between, range);
        async move { told.await.map_err(refusal) }
    }

    fn fill_history(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        first_block: u64,
        contents: (Vec<Run>, Bytes),
    ) -> impl Future<Output = Result<(), Refusal>> + 'static {
        let filled = self.group.fill_history(component, snapshot, first_block, contents);
        async move { filled.await.map_err(refusal) }
    }

    fn component(&self, component: ComponentId) -> Option<LocalComponent> {
        self.group.component(component).map(|c| local(&c))
    }

    fn components_of(&self, object: ObjectId) -> Vec<LocalComponent> {
        self.group.components_of(object).iter().map(local).collect()
    }

    fn record_bytes_max(&self) -> usize {
        self.group.record_bytes_max()
    }

    fn records(&self) -> Vec<(ObjectId, Bytes)> {
        self.group.records()
    }

    fn settled(&self, component: ComponentId) -> OpId {
        self.group.settled(component)
    }

    fn last_written(&self, component: ComponentId) -> OpId {
        self.group.last_written(component)
    }

    fn last_written_with(&self, component: ComponentId) -> Vec<OpId> {
        self.group.last_written_with(component)
    }

    fn is_late(&self, component: ComponentId, op: OpId, range: BlockRange) -> bool {
        self.group.is_late(component, op, range)
    }

    fn window(&self, component: ComponentId) -> Vec<UnsettledOp> {
        self.group.window(component)
    }

    fn regions_after(&self, component: ComponentId, after: OpId) -> Vec<(RegionIndex, OpId)> {
        self.group.regions_after(component, after)
    }

    fn was_done(&self, component: ComponentId, client: ClientTag) -> bool {
        self.group.was_done(component, client)
    }

    fn recent_clients(&self, component: ComponentId) -> Vec<(ClientTag, OpId)> {
        self.group.recent_clients(component)
    }

    fn log_damaged(&self) -> bool {
        self.rolled_back.get() || !matches!(self.group.log_health(), LogHealth::Sound)
    }

    fn summary(&self) -> DiskGroupSummary {
        let stats = self.group.stats();
        let (components, witnesses) = self.group.components_count();
        DiskGroupSummary {
            disk_group: self.group.id(),
            open_count: self.group.open_count(),
            durable_position: if self.unrecorded.get() { 0 } else { self.group.durable_position() },
            devices: self.group.rooms().into_iter().filter(|room| room.total_bytes > 0).collect(),
            components,
            witnesses,
            healthy: stats.stopped.is_none(),
            failed_devices: stats.capacity.iter().filter(|device| device.failed).count() as u32,
        }
    }
}

fn local(info: &cairn_store::ComponentInfo) -> LocalComponent {
    LocalComponent { component: info.id, object: info.object, size_blocks: info.size_blocks, lost: info.lost }
}
