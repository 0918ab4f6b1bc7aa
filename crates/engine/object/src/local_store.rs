//! What the object layer asks of one disk group. `node` joins it to the store; the two rooms never meet.

use std::future::{Future, ready};

use bytes::Bytes;
use cairn_types::{
    BlockRange, BlockStates, Change, ClientTag, ComponentId, Contents, DiskGroupId, ObjectId, OpId, RegionIndex, Run,
    SnapshotId, UnsettledOp,
};
use cairn_wire::{AllocatedPiece, DiskGroupSummary, Refusal};

#[cfg(test)]
pub(crate) mod counting;
#[cfg(test)]
pub(crate) mod memory;

/// A component as its disk group knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalComponent {
    /// Which.
    pub component: ComponentId,
    /// Of which object.
    pub object: ObjectId,
    /// Blocks; 0 for a witness.
    pub size_blocks: u64,
    /// Its capacity device failed or missed a destage: the data are gone.
    pub lost: bool,
}

/// One disk group. Cheap to clone.
pub trait LocalStore: Clone + 'static {
    /// Which.
    fn disk_group(&self) -> DiskGroupId;
    /// Enqueues `change` before it returns; the future resolves when it is durable. Dropping the future changes nothing.
    ///
    /// Changes become durable in the order in which they were appended, with two exceptions. All others overtake large copies. In a full
    /// log trims, zeroes, undo, settling and records overtake the writes and copies that wait for room.
    fn append(&self, change: Change) -> impl Future<Output = Result<(), Refusal>> + 'static;
    /// Refuses queued writes of a component that have not reached the log yet: a promise must not be followed by them.
    fn refuse_waiting(&self, component: ComponentId);
    /// Refuses large copies of a component that have not reached the log yet: they must not follow what a new session asks for.
    fn refuse_copies(&self, component: ComponentId);
    /// Reads blocks, each checked against its CRC.
    fn read(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static;
    /// The same, with marks for blocks that cannot be read.
    fn read_marked(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static;
    /// A digest of each region that the range touches, from index and map.
    fn digests(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<u64>, Refusal>> + 'static;
    /// What it holds of each block of a range within one region, from index and map.
    fn block_states(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<BlockStates, Refusal>> + 'static;
    /// What the owner found as it compared this copy with others: blocks that were repaired, and those that nothing decides.
    fn compared(&self, component: ComponentId, repaired: &[BlockRange], undecided: &[BlockRange]);
    /// Allocation, in order, covering the range.
    fn allocated(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<AllocatedPiece>, Refusal>> + 'static;
    /// What the blocks held at a snapshot. A store that keeps no history finds none, here and in what follows.
    fn read_view(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        let _ = (component, snapshot, range);
        ready(Err(Refusal::NotFound))
    }
    /// The same, with marks for blocks that cannot be read.
    fn read_view_marked(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        let _ = (component, snapshot, range);
        ready(Err(Refusal::NotFound))
    }
    /// Allocation at a snapshot, in order, covering the range.
    fn allocated_at(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<AllocatedPiece>, Refusal>> + 'static {
        let _ = (component, snapshot, range);
        ready(Err(Refusal::NotFound))
    }
    /// Blocks that may differ between two snapshots, or between one and now; no others do.
    fn changed(
        &self,
        component: ComponentId,
        between: (SnapshotId, Option<SnapshotId>),
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<BlockRange>, Refusal>> + 'static {
        let _ = (component, between, range);
        ready(Err(Refusal::NotFound))
    }
    /// Takes over what another copy held at a snapshot. Durable when the future resolves.
    fn fill_history(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        first_block: u64,
        contents: (Vec<Run>, Bytes),
    ) -> impl Future<Output = Result<(), Refusal>> + 'static {
        let _ = (component, snapshot, first_block, contents);
        ready(Err(Refusal::NotFound))
    }
    /// One component.
    fn component(&self, component: ComponentId) -> Option<LocalComponent>;
    /// All components of an object.
    fn components_of(&self, object: ObjectId) -> Vec<LocalComponent>;
    /// Bytes of a record, at most: of a larger one nothing is taken.
    fn record_bytes_max(&self) -> usize;
    /// All records.
    fn records(&self) -> Vec<(ObjectId, Bytes)>;
    /// Every operation up to this one is decided.
    fn settled(&self, component: ComponentId) -> OpId;
    /// The last operation at or below that, which came as a write and stands, as far as it is known; zero where it is not.
    fn last_written(&self, component: ComponentId) -> OpId;
    /// The same of each member of a set of rows, by index, of the operations that concerned it; empty at a mirror.
    fn last_written_with(&self, component: ComponentId) -> Vec<OpId>;
    /// Whether an operation above `op` that is not settled has changed some of these blocks: `op` came too late for them.
    fn is_late(&self, component: ComponentId, op: OpId, range: BlockRange) -> bool;
    /// What is held above `settled`, ascending.
    fn window(&self, component: ComponentId) -> Vec<UnsettledOp>;
    /// Per region the highest operation that ever touched it, where that is above `after`.
    fn regions_after(&self, component: ComponentId, after: OpId) -> Vec<(RegionIndex, OpId)>;
    /// Whether this front-end request was carried out on the component (a bounded memory of recent ones).
    fn was_done(&self, component: ComponentId, client: ClientTag) -> bool;
    /// The requests that it remembers, each with its operation, oldest first.
    fn recent_clients(&self, component: ComponentId) -> Vec<(ClientTag, OpId)>;
    /// The log is damaged: a lack of an operation proves nothing.
    fn log_damaged(&self) -> bool;
    /// For heartbeats.
    fn summary(&self) -> DiskGroupSummary;
}
