//! What the object layer asks of one disk group. `node` joins it to the store; the two rooms never meet.

use std::future::Future;

use bytes::Bytes;
use cairn_types::{BlockRange, ClientTag, ComponentId, Crcs, DiskGroupId, ObjectId, OpId, RegionIndex};
use cairn_wire::{AllocatedPiece, DataPiece, DiskGroupSummary, Refusal, UnsettledOp};

/// A change to a disk group. Changes become durable in the order in which they were appended, except that all others overtake large
/// copies, and that in a full log trims, zeroes, undo, settling and records overtake the writes and copies that wait for room.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are the wire's: see cairn_wire::Request")]
pub enum Change {
    /// A new component; size 0 for a witness.
    CreateComponent { component: ComponentId, object: ObjectId, size_blocks: u64, reserved_blocks: u64 },
    /// Remove a component and its data.
    DeleteComponent { component: ComponentId },
    /// Another size.
    ResizeComponent { component: ComponentId, size_blocks: u64, reserved_blocks: u64 },
    /// Whole blocks.
    Write {
        component: ComponentId,
        op: OpId,
        settled: OpId,
        client: ClientTag,
        first_block: u64,
        crcs: Crcs,
        data: Bytes,
    },
    /// Zero or trim.
    Zero { component: ComponentId, op: OpId, settled: OpId, client: ClientTag, range: BlockRange, keep_allocated: bool },
    /// A region's contents as its source holds them.
    Copy { component: ComponentId, op: OpId, settled: OpId, first_block: u64, pieces: Vec<DataPiece>, data: Bytes },
    /// Take an operation back; refuse it if it arrives later.
    Undo { component: ComponentId, op: OpId },
    /// Every operation up to this one is decided.
    Settle { component: ComponentId, upto: OpId },
    /// The object's record; empty removes it.
    Record { object: ObjectId, bytes: Bytes },
    /// Requests that another copy has carried out; at most [`REMEMBERED_MAX`].
    Remember { component: ComponentId, clients: Vec<(ClientTag, OpId)> },
}

/// Requests in one [`Change::Remember`], at most.
pub const REMEMBERED_MAX: usize = 128;

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
    fn append(&self, change: Change) -> impl Future<Output = Result<(), Refusal>> + 'static;
    /// Refuses queued writes of a component that have not reached the log yet: a promise must not be followed by them.
    fn refuse_waiting(&self, component: ComponentId);
    /// Refuses large copies of a component that have not reached the log yet: they must not follow what a new session asks for.
    fn refuse_copies(&self, component: ComponentId);
    /// Reads blocks, each checked against its CRC; pieces in order, and the data of all data pieces back to back.
    fn read(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<(Vec<DataPiece>, Vec<Bytes>), Refusal>> + 'static;
    /// Allocation, in order, covering the range.
    fn allocated(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<AllocatedPiece>, Refusal>> + 'static;
    /// One component.
    fn component(&self, component: ComponentId) -> Option<LocalComponent>;
    /// All components of an object.
    fn components_of(&self, object: ObjectId) -> Vec<LocalComponent>;
    /// All records.
    fn records(&self) -> Vec<(ObjectId, Bytes)>;
    /// Every operation up to this one is decided.
    fn settled(&self, component: ComponentId) -> OpId;
    /// The last operation at or below that, which came as a write and stands, as far as it is known; zero where it is not.
    fn last_written(&self, component: ComponentId) -> OpId;
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
