//! What goes to a capacity device, and who brings it.
//!
//! Not here    how it is written (`destage.rs`), where it goes (`segments.rs`)

use bytes::Bytes;
use cairn_format::{RunEntry, SECTOR_BYTES, Spot};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId};

use crate::{records::RecordId, segments::DESTAGE_STREAM};

/// A live run of blocks of one record in the segments of this round.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub record: RecordId,
    pub component: ComponentId,
    pub device: u8,
    pub range: BlockRange,
    /// Not settled when it was gathered: written apart, as it will be dropped or kept as a whole.
    pub pending: bool,
    /// Position of its first block in the log; none for zeroes, and for what stands in the capacity tier already.
    pub data: Option<u64>,
    /// Where its blocks' spots stand among the round's.
    pub spots_from: usize,
}

impl Item {
    /// Spots that it takes: one per block with data.
    pub fn spots(&self) -> usize {
        self.data.map_or(0, |_| self.range.count as usize)
    }
}

/// Spots that the blocks of a round's items were written to, one item's after the other's; [`Spot::NONE`] where none was.
pub(crate) type Spots = Vec<Spot>;

/// One block to be written to a capacity device.
#[derive(Clone)]
pub(crate) struct OutBlock {
    pub component: ComponentId,
    pub block: u64,
    pub crc: u32,
    pub pending: bool,
    /// As it is to be written: a page, or whole sectors of a packed block.
    pub data: Bytes,
    /// 0: none was made.
    pub fingerprint: u64,
    /// Of an item with several references that the cleaner moves.
    pub name: Option<Spot>,
}

impl OutBlock {
    /// What the header of its run says of it.
    pub fn entry(&self) -> RunEntry {
        let Self { component, block, crc, pending, fingerprint, name, .. } = *self;
        RunEntry { component, block, crc, pending, sectors: self.sectors(), fingerprint, name }
    }
    /// Whether its run has to be of form 2.
    pub fn needs_form_2(&self) -> bool {
        self.is_packed() || self.fingerprint != 0 || self.name.is_some()
    }
    pub fn sectors(&self) -> u32 {
        self.data.len() as u32 / SECTOR_BYTES
    }
    pub fn is_packed(&self) -> bool {
        self.data.len() != BLOCK_BYTES as usize
    }
}

/// Who writes to a capacity device, with the ticket of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CapacityWriter {
    Destage(u64),
    Clean(u64),
    Place { ticket: u64, stream: usize },
}

impl CapacityWriter {
    pub fn ticket(self) -> u64 {
        match self {
            Self::Destage(ticket) | Self::Clean(ticket) | Self::Place { ticket, .. } => ticket,
        }
    }
    pub fn stream(self) -> usize {
        match self {
            Self::Destage(_) | Self::Clean(_) => DESTAGE_STREAM,
            Self::Place { stream, .. } => stream,
        }
    }
}
