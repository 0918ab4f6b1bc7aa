//! What one operation leaves in the log: everything but its blocks, which follow the batch header.

use cairn_types::{BLOCK_BYTES, BlockRange, CHUNK_BYTES_MAX, ClientTag, ComponentId, Crcs, ObjectId, OpId, SnapshotId};
use serde::{Deserialize, Serialize};

use crate::Needs;

/// Blocks of a component, at most. What a device says beyond it is not believed: a single record of a larger range would cost
/// memory for each region of it.
pub const COMPONENT_BLOCKS_MAX: u64 = CHUNK_BYTES_MAX / BLOCK_BYTES as u64;

/// Blocks of one zeroing that keeps its space, at most: each becomes an entry of the map in one transaction.
pub const KEPT_ZERO_BLOCKS_MAX: u32 = 64 << 10;

/// Whether the range is one that an operation may have: some blocks, within the largest component.
fn is_range(first: u64, count: usize) -> bool {
    count > 0 && first.checked_add(count as u64).is_some_and(|end| end <= COMPONENT_BLOCKS_MAX)
}

/// The same of one that becomes zero.
fn is_zeroed(range: BlockRange, keep_allocated: bool) -> bool {
    is_range(range.first, range.count as usize) && !(keep_allocated && range.count > KEPT_ZERO_BLOCKS_MAX)
}

/// A part of a copied region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogPiece {
    /// Blocks; their bytes stand in the batch's data.
    Data {
        /// The first block.
        first_block: u64,
        /// CRC-32C per block; the length is the count of blocks.
        crcs: Crcs,
    },
    /// Blocks without data.
    Hole {
        /// Which.
        range: BlockRange,
    },
    /// Blocks whose bytes no copy in sync could give: marks. Needs [`crate::Needs::BAD_MARKS`].
    Bad {
        /// The first block.
        first_block: u64,
        /// CRC-32C that the bytes of each block had; 0 where nobody knows it.
        crcs: Crcs,
    },
    /// Blocks of parity; their bytes stand in the batch's data. Needs [`crate::Needs::PARITY`].
    Parity {
        /// The first block.
        first_block: u64,
        /// CRC-32C per block; the length is the count of blocks.
        crcs: Crcs,
        /// What each says of the data that it was made from (`cairn-parity`); one for each block.
        row_checks: Crcs,
    },
}

/// Blocks that stand in slots back to back of a capacity segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRun {
    /// The slot of the first block.
    pub first_slot: u64,
    /// How many blocks.
    pub count: u32,
    /// The use of the segment in which they were written.
    pub generation: u64,
}

/// A part of an operation whose blocks stand in the capacity tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlacedPiece {
    /// Blocks with data.
    Data {
        /// The first block.
        first_block: u64,
        /// CRC-32C per block; the length is the count of blocks.
        crcs: Crcs,
        /// Where they stand, in order; as many slots as there are blocks.
        runs: Vec<SlotRun>,
    },
    /// Blocks without data.
    Hole {
        /// Which.
        range: BlockRange,
    },
    /// Blocks of parity. Needs [`crate::Needs::PARITY`].
    Parity {
        /// The first block.
        first_block: u64,
        /// CRC-32C per block; the length is the count of blocks.
        crcs: Crcs,
        /// As [`LogPiece::Parity`] has them.
        row_checks: Crcs,
        /// Where they stand, in order; as many slots as there are blocks.
        runs: Vec<SlotRun>,
    },
}

/// One record of a log batch. The order of variants is the encoding: only append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogRecord {
    /// A component begins.
    CreateComponent {
        /// Its id.
        component: ComponentId,
        /// The object that it belongs to.
        object: ObjectId,
        /// Its address space.
        size_blocks: u64,
        /// Blocks set aside for it.
        reserved_blocks: u64,
        /// The capacity device that it lives on, chosen before it was logged so that replay chooses the same.
        device: u8,
    },
    /// A component ends, its blocks are free.
    DeleteComponent {
        /// Which.
        component: ComponentId,
    },
    /// A component's size or reservation changes.
    ResizeComponent {
        /// Which.
        component: ComponentId,
        /// Its new address space.
        size_blocks: u64,
        /// Blocks set aside for it from now on.
        reserved_blocks: u64,
    },
    /// Blocks are written; their bytes stand in the batch's data, in record order.
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
        /// CRC-32C per block; the length is the count of blocks.
        crcs: Crcs,
    },
    /// Blocks become zero.
    Zero {
        /// Where.
        component: ComponentId,
        /// By which operation.
        op: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// The request that asked for it.
        client: ClientTag,
        /// Which blocks.
        range: BlockRange,
        /// They count as allocated all the same.
        keep_allocated: bool,
    },
    /// The contents of a region as another copy has it.
    Copy {
        /// Where.
        component: ComponentId,
        /// The highest operation of all sources read.
        op: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// Data and holes, ascending.
        pieces: Vec<LogPiece>,
    },
    /// The operation has no effect, whether it stands before or comes after.
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
    /// The record of an object's seat; empty is none. The last one holds.
    Record {
        /// Whose.
        object: ObjectId,
        /// Opaque to the store.
        bytes: Vec<u8>,
    },
    /// Front-end requests that were carried out while the component was away, as another copy knows them.
    Remember {
        /// Where.
        component: ComponentId,
        /// The requests, each with the operation that it became, oldest first.
        clients: Vec<(ClientTag, OpId)>,
    },
    /// What [`Self::Copy`] says, of blocks that were made durable in the component's capacity device before this record was
    /// written: the batch has no data of it.
    Placed {
        /// Where.
        component: ComponentId,
        /// The highest operation of all sources read.
        op: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// Data and holes, ascending.
        pieces: Vec<PlacedPiece>,
    },
    /// Blocks are written for an operation on rows; their bytes stand in the batch's data, in record order. This and what follows needs
    /// [`crate::Needs::PARITY`].
    Rows {
        /// Where.
        component: ComponentId,
        /// By which operation.
        op: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// The request that asked for it.
        client: ClientTag,
        /// The members of the set that the operation concerns, a bit for each index; never 0.
        members: u16,
        /// Data and parity, ascending.
        pieces: Vec<LogPiece>,
    },
    /// Blocks become zero for an operation on rows.
    ZeroRows {
        /// Where.
        component: ComponentId,
        /// By which operation.
        op: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// The request that asked for it.
        client: ClientTag,
        /// The members of the set that the operation concerns, a bit for each index; never 0.
        members: u16,
        /// Which blocks.
        range: BlockRange,
        /// They count as allocated all the same.
        keep_allocated: bool,
    },
    /// The moments of the component that can be read from now on. New ones are cut, those that are missing go. Needs [`crate::Needs::CUTS`].
    Cuts {
        /// Where.
        component: ComponentId,
        /// The operation of this list: one that is not above that of the list before changes nothing.
        at: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// Each with the last operation that its view has; ascending, and none above `settled`.
        cuts: Vec<(SnapshotId, OpId)>,
    },
}

/// Cuts of a component, at most.
pub const CUTS_MAX: usize = 256;

/// Slots of a device, and uses of a segment, are below it: more than any device comes to.
const SLOTS_MAX: u64 = COMPONENT_BLOCKS_MAX << 20;

impl PlacedPiece {
    /// The blocks that it covers; none where they are no range, have other slots than one each, or other row checks.
    fn covers(&self) -> Option<BlockRange> {
        let (first, count) = match self {
            Self::Data { first_block, crcs, runs } => {
                (*first_block, are_slots_of(runs, crcs.len()).then_some(crcs.len())?)
            }
            Self::Parity { first_block, crcs, row_checks, runs } => {
                let fits = are_slots_of(runs, crcs.len()) && row_checks.len() == crcs.len();
                (*first_block, fits.then_some(crcs.len())?)
            }
            Self::Hole { range } => (range.first, range.count as usize),
        };
        is_range(first, count).then(|| BlockRange::new(first, count as u32))
    }

    /// Blocks with data.
    pub fn data_blocks(&self) -> u64 {
        match self {
            Self::Data { crcs, .. } | Self::Parity { crcs, .. } => crcs.len() as u64,
            Self::Hole { .. } => 0,
        }
    }
}

/// Whether these are so many slots, none of them beyond all devices.
fn are_slots_of(runs: &[SlotRun], blocks: usize) -> bool {
    let sound = |run: &SlotRun| {
        run.count > 0
            && run.generation < SLOTS_MAX
            && run.first_slot.checked_add(u64::from(run.count)).is_some_and(|end| end < SLOTS_MAX)
    };
    let slots: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
    slots == blocks as u64 && runs.iter().all(sound)
}

/// Whether these ranges are all there, ascend and do not overlap; at least one.
fn ascend(mut ranges: impl Iterator<Item = Option<BlockRange>>) -> bool {
    let mut end = None;
    ranges.all(|range| match range {
        Some(range) if range.first >= end.unwrap_or(0) => {
            end = Some(range.end());
            true
        }
        _ => false,
    }) && end.is_some()
}

impl LogPiece {
    /// The blocks that it covers; none where they are no range, or have other row checks than one each.
    fn covers(&self) -> Option<BlockRange> {
        let count = match self {
            Self::Data { crcs, .. } | Self::Bad { crcs, .. } => crcs.len(),
            Self::Parity { crcs, row_checks, .. } => (row_checks.len() == crcs.len()).then_some(crcs.len())?,
            Self::Hole { range } => range.count as usize,
        };
        let range = self.range();
        is_range(range.first, count).then_some(range)
    }

    /// The blocks of a sound piece.
    pub fn range(&self) -> BlockRange {
        match self {
            Self::Data { first_block, crcs }
            | Self::Bad { first_block, crcs }
            | Self::Parity { first_block, crcs, .. } => BlockRange::new(*first_block, crcs.len() as u32),
            Self::Hole { range } => *range,
        }
    }

    /// Blocks whose bytes stand in the batch's data.
    pub fn data_blocks(&self) -> u64 {
        self.data_crcs().len() as u64
    }

    /// CRC-32C of each of those.
    pub fn data_crcs(&self) -> &[u32] {
        match self {
            Self::Data { crcs, .. } | Self::Parity { crcs, .. } => crcs,
            Self::Hole { .. } | Self::Bad { .. } => &[],
        }
    }

    /// Whether it takes space once it is in the map: of a mark as of what it stands for.
    pub fn allocates(&self) -> bool {
        !matches!(self, Self::Hole { .. })
    }
}

impl LogRecord {
    /// Whether the record is one that the store writes: ranges are not empty and within a component, pieces of a copy ascend
    /// and do not overlap. What is not was not written by it, whatever its checksum says.
    pub fn is_sound(&self) -> bool {
        match self {
            Self::CreateComponent { size_blocks, reserved_blocks, .. }
            | Self::ResizeComponent { size_blocks, reserved_blocks, .. } => {
                (*size_blocks).max(*reserved_blocks) <= COMPONENT_BLOCKS_MAX
            }
            Self::Write { first_block, crcs, .. } => is_range(*first_block, crcs.len()),
            Self::Zero { range, keep_allocated, .. } => is_zeroed(*range, *keep_allocated),
            Self::ZeroRows { members, range, keep_allocated, .. } => {
                *members != 0 && is_zeroed(*range, *keep_allocated)
            }
            Self::Rows { members, pieces, .. } => {
                *members != 0
                    && pieces.iter().all(|piece| matches!(piece, LogPiece::Data { .. } | LogPiece::Parity { .. }))
                    && ascend(pieces.iter().map(LogPiece::covers))
            }
            Self::Copy { pieces, .. } => ascend(pieces.iter().map(LogPiece::covers)),
            Self::Placed { pieces, .. } => ascend(pieces.iter().map(PlacedPiece::covers)),
            Self::Cuts { settled, cuts, .. } => {
                let ascend = cuts.windows(2).all(|pair| pair[0].1 <= pair[1].1);
                let twice = |at: usize| cuts[..at].iter().any(|(other, _)| *other == cuts[at].0);
                let decided = cuts.last().is_none_or(|(_, last)| last <= settled);
                cuts.len() <= CUTS_MAX && ascend && decided && !(0..cuts.len()).any(twice)
            }
            Self::DeleteComponent { .. }
            | Self::Undo { .. }
            | Self::Settle { .. }
            | Self::Record { .. }
            | Self::Remember { .. } => true,
        }
    }

    /// Blocks of data that the record has in its batch.
    pub fn data_blocks(&self) -> u64 {
        match self {
            Self::Write { crcs, .. } => crcs.len() as u64,
            Self::Copy { pieces, .. } | Self::Rows { pieces, .. } => pieces.iter().map(LogPiece::data_blocks).sum(),
            _ => 0,
        }
    }

    /// Whether it has marks: a disk group says that it needs them before it has the record.
    pub fn has_marks(&self) -> bool {
        matches!(self, Self::Copy { pieces, .. } if pieces.iter().any(|piece| matches!(piece, LogPiece::Bad { .. })))
    }

    /// Whether it is of rows, or has parity: the same.
    pub fn has_rows(&self) -> bool {
        match self {
            Self::Rows { .. } | Self::ZeroRows { .. } => true,
            Self::Copy { pieces, .. } => pieces.iter().any(|piece| matches!(piece, LogPiece::Parity { .. })),
            Self::Placed { pieces, .. } => pieces.iter().any(|piece| matches!(piece, PlacedPiece::Parity { .. })),
            _ => false,
        }
    }

    /// What a build must know to read the record.
    pub fn needs(&self) -> Needs {
        let marks = if self.has_marks() { Needs::BAD_MARKS } else { Needs::NONE };
        let rows = if self.has_rows() { Needs::PARITY } else { Needs::NONE };
        let cuts = if matches!(self, Self::Cuts { .. }) { Needs::CUTS } else { Needs::NONE };
        marks.with(rows).with(cuts)
    }

    /// CRC-32C of every data block, in the order of the batch's data.
    pub fn data_crcs(&self) -> impl Iterator<Item = u32> + '_ {
        let (own, pieces): (&[u32], &[LogPiece]) = match self {
            Self::Write { crcs, .. } => (crcs, &[]),
            Self::Copy { pieces, .. } | Self::Rows { pieces, .. } => (&[], pieces),
            _ => (&[], &[]),
        };
        own.iter().chain(pieces.iter().flat_map(LogPiece::data_crcs)).copied()
    }
}
