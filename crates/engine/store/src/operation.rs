//! What may be asked of a disk group, and what it answers. Values only.

use bytes::Bytes;
use cairn_types::{BlockRange, ClientTag, ComponentId, Crcs, ObjectId, OpId};

/// One mutation. Blocks are 4 KiB and relative to the component.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Begins a component. The store chooses the capacity device, by free space.
    CreateComponent {
        /// Its id.
        component: ComponentId,
        /// The object that it belongs to.
        object: ObjectId,
        /// Its address space.
        size_blocks: u64,
        /// Blocks set aside for it: writes within the reservation are never refused for space.
        reserved_blocks: u64,
    },
    /// Ends a component and frees its space.
    DeleteComponent {
        /// Which.
        component: ComponentId,
    },
    /// Changes size and reservation. What lies beyond a smaller size is freed.
    ResizeComponent {
        /// Which.
        component: ComponentId,
        /// Its new address space.
        size_blocks: u64,
        /// Blocks set aside from now on.
        reserved_blocks: u64,
    },
    /// Writes whole blocks.
    Write {
        /// Where.
        component: ComponentId,
        /// By which operation.
        op: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// The request that asked for it.
        client: ClientTag,
        /// The first block.
        first_block: u64,
        /// CRC-32C per block: those of `data`, which the store believes.
        crcs: Crcs,
        /// The blocks.
        data: Bytes,
    },
    /// Makes blocks zero and frees their space.
    Zero {
        /// Where.
        component: ComponentId,
        /// By which operation.
        op: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// The request that asked for it.
        client: ClientTag,
        /// Which.
        range: BlockRange,
        /// They count as allocated all the same.
        keep_allocated: bool,
    },
    /// Takes over what another copy holds, holes included.
    Copy {
        /// Where.
        component: ComponentId,
        /// The highest operation of all sources read.
        op: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// Data and holes, ascending, not overlapping.
        pieces: Vec<CopyPiece>,
    },
    /// Takes back an operation; if it comes later, it is refused.
    Undo {
        /// Where.
        component: ComponentId,
        /// Which.
        op: OpId,
    },
    /// Every operation up to `upto` is decided.
    Settle {
        /// Where.
        component: ComponentId,
        /// Up to and with this one.
        upto: OpId,
    },
    /// The record of an object's seat; empty removes it.
    Record {
        /// Whose.
        object: ObjectId,
        /// Opaque to the store.
        bytes: Bytes,
    },
    /// Notes requests that were carried out while the component was away: whoever repeats one is told so.
    Remember {
        /// Where.
        component: ComponentId,
        /// The requests, each with the operation that it became, oldest first; at most [`REMEMBERED_MAX`].
        clients: Vec<(ClientTag, OpId)>,
    },
}

/// Requests in one [`Operation::Remember`], at most: some 5 KiB of the log.
pub const REMEMBERED_MAX: usize = 128;

/// Contents of a run of blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadPiece {
    /// Blocks with data.
    Data {
        /// The first block.
        first_block: u64,
        /// Their bytes.
        data: Bytes,
        /// CRC-32C per block, verified against the bytes.
        crcs: Crcs,
    },
    /// Blocks without data: they read as zeroes.
    Hole {
        /// Which.
        range: BlockRange,
    },
}

/// A part of a copied region: what a read of the source answered.
pub type CopyPiece = ReadPiece;

impl ReadPiece {
    /// The blocks that the piece covers.
    pub fn range(&self) -> BlockRange {
        match self {
            Self::Data { first_block, crcs, .. } => BlockRange::new(*first_block, crcs.len() as u32),
            Self::Hole { range } => *range,
        }
    }
}

/// An operation that is not settled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsettledOp {
    /// Which.
    pub op: OpId,
    /// The blocks from its first to its last.
    pub range: BlockRange,
    /// The request that asked for it.
    pub client: ClientTag,
    /// It makes blocks zero.
    pub zero: bool,
}

/// What the store knows of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentInfo {
    /// Its id.
    pub id: ComponentId,
    /// The object that it belongs to.
    pub object: ObjectId,
    /// Its address space.
    pub size_blocks: u64,
    /// Blocks set aside for it.
    pub reserved_blocks: u64,
    /// Blocks that have data, in the capacity tier or on the way to it.
    pub allocated_blocks: u64,
    /// Its capacity device failed: its data is gone.
    pub lost: bool,
    /// The capacity device that it lives on.
    pub device: u8,
}
