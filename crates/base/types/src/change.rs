//! What may be done to a component, and what it holds: one spelling for the wire, the object layer and the store.
//!
//! Promises    whoever adds an operation adds one variant here; only the log record (`format`) is spelled apart, as devices keep it
//! Assumes     the bytes of an operation travel beside it, all of its data runs back to back
//! Not here    who may ask for it (`object`), what it does (`store`)

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{BLOCK_BYTES, BlockRange, ClientTag, ComponentId, Crcs, ObjectId, OpId, SnapshotId};

/// Requests in one [`ComponentOp::Remember`], at most: some 5 KiB of the log.
pub const REMEMBERED_MAX: usize = 128;

/// What an object's owner asks of one of its components. Blocks are relative to the component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComponentOp {
    /// Carries out a numbered operation on blocks.
    Apply {
        /// Its number; of a copy the highest operation of all sources read.
        op: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// The front-end request behind it; none behind a copy.
        client: ClientTag,
        /// What it does.
        blocks: BlockOp,
    },
    /// Takes operations back, in this order: newest first. One that comes later is refused.
    Undo {
        /// Which.
        ops: Vec<OpId>,
    },
    /// Notes that every operation up to this one is decided.
    Settle {
        /// Up to and with this one.
        upto: OpId,
    },
    /// Notes front-end requests that another copy has carried out: a repeated one is not carried out again.
    Remember {
        /// The requests, each with the operation that it became, oldest first; at most [`REMEMBERED_MAX`].
        clients: Vec<(ClientTag, OpId)>,
    },
    /// Changes size and reservation.
    Resize {
        /// The new address space, in blocks.
        size_blocks: u64,
        /// Blocks set aside from now on: writes within the reservation are never refused for space.
        reserved_blocks: u64,
    },
    /// Says which moments can be read from now on: new ones are cut, those that are missing go.
    Cuts {
        /// The operation of this list: one that is not above that of the list before changes nothing.
        at: OpId,
        /// Every operation up to this one is decided.
        settled: OpId,
        /// Each snapshot with the last operation that its view has, in their order.
        cuts: Vec<(SnapshotId, OpId)>,
    },
}

/// What an operation does to blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockOp {
    /// Writes whole blocks.
    Write {
        /// The first block.
        first_block: u64,
        /// CRC-32C of each block; their bytes travel beside the operation.
        crcs: Crcs,
    },
    /// Makes blocks zero.
    Zero {
        /// Which.
        range: BlockRange,
        /// True: they keep their space. False: they give it back.
        keep_allocated: bool,
    },
    /// Takes over what another copy holds, holes included (resync, repair).
    Copy {
        /// The first block.
        first_block: u64,
        /// What the source holds from there on.
        runs: Vec<Run>,
    },
    /// Writes what an operation on rows leaves on this member. From [`crate::Feature::ErasureCoding`] on, as all that follow.
    Rows {
        /// The members of the set that the operation concerns, a bit for each index; never 0.
        members: u16,
        /// The first block.
        first_block: u64,
        /// Data and parity from there on: neither holes nor marks.
        runs: Vec<Run>,
    },
    /// Makes blocks zero for an operation on rows.
    ZeroRows {
        /// The members of the set that the operation concerns, a bit for each index; never 0.
        members: u16,
        /// Which.
        range: BlockRange,
        /// True: they keep their space. False: they give it back.
        keep_allocated: bool,
    },
    /// Brings parity from old data of a column to new data. What travels beside it is old XOR new.
    ///
    /// Not a store's: the seat makes [`Self::Rows`] of it, with the parity that is there.
    Difference(Box<Difference>),
}

/// What becomes of a run of blocks of one column. Apart, as operations on mirrors are handed about beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The members of the set that the operation concerns, a bit for each index; never 0.
    pub members: u16,
    /// The first block.
    pub first_block: u64,
    /// Which column changes.
    pub column: u8,
    /// What the difference is multiplied by before it is added.
    pub factor: u8,
    /// CRC-32C of each block of the column that was there.
    pub old: Crcs,
    /// CRC-32C of each block that is there now.
    pub new: Crcs,
}

impl BlockOp {
    /// CRC-32C of every block that travels beside the operation, in order. Of a difference they follow from those of old and new blocks.
    pub fn crcs(&self) -> impl Iterator<Item = &u32> {
        let (own, runs): (&[u32], &[Run]) = match self {
            Self::Write { crcs, .. } => (crcs, &[]),
            Self::Zero { .. } | Self::ZeroRows { .. } | Self::Difference(_) => (&[], &[]),
            Self::Copy { runs, .. } | Self::Rows { runs, .. } => (&[], runs),
        };
        own.iter().chain(runs.iter().flat_map(Run::crcs))
    }

    /// The members of the set that it concerns, a bit for each index; 0: all of a mirror.
    pub fn members(&self) -> u16 {
        match self {
            Self::Write { .. } | Self::Zero { .. } | Self::Copy { .. } => 0,
            Self::Rows { members, .. } | Self::ZeroRows { members, .. } => *members,
            Self::Difference(difference) => difference.members,
        }
    }

    /// Whether it is one that only hosts with erasure coding know.
    pub fn has_rows(&self) -> bool {
        match self {
            Self::Write { .. } | Self::Zero { .. } => false,
            Self::Copy { runs, .. } => runs.iter().any(Run::is_parity),
            Self::Rows { .. } | Self::ZeroRows { .. } | Self::Difference(_) => true,
        }
    }

    /// The blocks that it changes.
    pub fn range(&self) -> BlockRange {
        match self {
            Self::Write { first_block, crcs } => BlockRange::new(*first_block, crcs.len() as u32),
            Self::Zero { range, .. } | Self::ZeroRows { range, .. } => *range,
            Self::Copy { first_block, runs } | Self::Rows { first_block, runs, .. } => {
                BlockRange::new(*first_block, runs.iter().map(Run::blocks).sum())
            }
            Self::Difference(difference) => BlockRange::new(difference.first_block, difference.new.len() as u32),
        }
    }
}

/// A change to a disk group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new component. The store chooses its capacity device.
    CreateComponent {
        /// Its id: never one that was here before.
        component: ComponentId,
        /// The object that it belongs to.
        object: ObjectId,
        /// Its address space in blocks; 0 for a witness.
        size_blocks: u64,
        /// Blocks set aside for it: writes within the reservation are never refused for space.
        reserved_blocks: u64,
    },
    /// Ends a component and frees its space.
    DeleteComponent {
        /// Which.
        component: ComponentId,
    },
    /// An operation on a component.
    Component {
        /// Which.
        component: ComponentId,
        /// What.
        op: ComponentOp,
        /// The blocks that travel beside the operation.
        data: Bytes,
    },
    /// The record of an object's seat.
    Record {
        /// Whose.
        object: ObjectId,
        /// Opaque to the store; empty removes it.
        bytes: Bytes,
    },
}

impl Change {
    /// Whether it brings marks of bad blocks.
    pub fn has_marks(&self) -> bool {
        matches!(self, Self::Component { op, .. } if op.has_marks())
    }
}

impl ComponentOp {
    /// Whether it brings marks of bad blocks.
    pub fn has_marks(&self) -> bool {
        matches!(self, Self::Apply { blocks: BlockOp::Copy { runs, .. }, .. } if runs.iter().any(Run::is_bad))
    }

    /// Whether it is one that only hosts with erasure coding know.
    pub fn has_rows(&self) -> bool {
        matches!(self, Self::Apply { blocks, .. } if blocks.has_rows())
    }

    /// Whether it is one that only hosts with snapshots know.
    pub fn has_cuts(&self) -> bool {
        matches!(self, Self::Cuts { .. })
    }

    /// The operation on this component, for one that has no data.
    pub fn on(self, component: ComponentId) -> Change {
        Change::Component { component, op: self, data: Bytes::new() }
    }
}

/// Blocks in order that have data, or that have none. Where the first one stands is told beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Run {
    /// Blocks whose bytes travel beside the run.
    Data {
        /// CRC-32C of each block; the length is the count of blocks.
        crcs: Crcs,
    },
    /// Blocks that read as zeros and take no space.
    Hole {
        /// How many.
        blocks: u32,
    },
    /// Blocks whose bytes no copy in sync could give: marks in their place. From [`crate::Feature::BadMarks`] on.
    Bad {
        /// CRC-32C that the bytes of each block had; 0 where nobody knows it.
        crcs: Crcs,
    },
    /// Blocks of parity whose bytes travel beside the run. From [`crate::Feature::ErasureCoding`] on.
    Parity {
        /// CRC-32C of each block; the length is the count of blocks.
        crcs: Crcs,
        /// What each block says of the data that it was made from: a sum over the columns' checksums (`cairn-parity`); one for each block.
        row_checks: Crcs,
    },
}

impl Run {
    /// How many blocks it covers.
    pub fn blocks(&self) -> u32 {
        match self {
            Self::Data { crcs } | Self::Bad { crcs } | Self::Parity { crcs, .. } => crcs.len() as u32,
            Self::Hole { blocks } => *blocks,
        }
    }

    /// The checksums of blocks whose bytes travel beside it: none of a hole, nor of a mark.
    pub fn crcs(&self) -> &[u32] {
        match self {
            Self::Data { crcs } | Self::Parity { crcs, .. } => crcs,
            Self::Hole { .. } | Self::Bad { .. } => &[],
        }
    }

    /// Whether it is of parity.
    pub fn is_parity(&self) -> bool {
        matches!(self, Self::Parity { .. })
    }

    /// Whether it is of marks.
    pub fn is_bad(&self) -> bool {
        matches!(self, Self::Bad { .. })
    }
}

/// What a copy holds of a range of blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// From the first block to the last.
    pub runs: Vec<Run>,
    /// The bytes of all data runs back to back, in parts that need not end where a run does.
    pub data: Vec<Bytes>,
}

/// Zeros that holes are answered with, shared.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

impl Contents {
    /// These blocks come next.
    pub fn push_data(&mut self, data: Bytes, crcs: Crcs) {
        self.runs.push(Run::Data { crcs });
        self.data.push(data);
    }

    /// So many blocks without data come next.
    pub fn push_hole(&mut self, blocks: u32) {
        self.runs.push(Run::Hole { blocks });
    }

    /// A block whose bytes cannot be had comes next.
    pub fn push_bad(&mut self, crc: u32) {
        match self.runs.last_mut() {
            Some(Run::Bad { crcs }) => crcs.push(crc),
            _ => self.runs.push(Run::Bad { crcs: Crcs::from_slice(&[crc]) }),
        }
    }

    /// Which of its blocks are marks, counted from `first`.
    pub fn bad_blocks(&self, first: u64) -> Vec<BlockRange> {
        let mut next = first;
        let ranges = self.runs.iter().map(|run| {
            let range = BlockRange::new(next, run.blocks());
            next = range.end();
            (run, range)
        });
        ranges.filter(|(run, _)| run.is_bad()).map(|(_, range)| range).collect()
    }

    /// Whether it covers so many blocks and has the bytes that its runs tell of.
    pub fn is_whole(&self, blocks: u32) -> bool {
        let covered: u64 = self.runs.iter().map(|run| u64::from(run.blocks())).sum();
        let with_data: usize = self.runs.iter().map(|run| run.crcs().len()).sum();
        let bytes: usize = self.data.iter().map(Bytes::len).sum();
        covered == u64::from(blocks) && bytes == with_data * BLOCK_BYTES as usize
    }

    /// The bytes of data, holes as zeros; none of them is copied.
    ///
    /// # Panics
    /// When there are fewer bytes than the runs tell of, a block is bad, or is parity: that is no guest's data.
    pub fn into_bytes(self) -> Vec<Bytes> {
        if let ([Run::Data { .. }], [_]) = (self.runs.as_slice(), self.data.as_slice()) {
            return self.data;
        }
        let mut parts = Vec::new();
        let mut data = self.data.into_iter();
        let mut current = Bytes::new();
        for run in &self.runs {
            let mut left = run.blocks() as usize * BLOCK_BYTES as usize;
            while left > 0 {
                let part = match run {
                    Run::Bad { .. } => panic!("a bad block has no bytes"),
                    Run::Parity { .. } => panic!("parity is no data of a guest"),
                    Run::Hole { .. } => Bytes::from_static(&ZEROS[..left.min(ZEROS.len())]),
                    Run::Data { .. } => {
                        if current.is_empty() {
                            current = data.next().expect("lengths were checked");
                        }
                        current.split_to(left.min(current.len()))
                    }
                };
                left -= part.len();
                parts.push(part);
            }
        }
        parts
    }
}

/// An operation that a component holds and that is not settled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EncodedUnsettledOp", into = "EncodedUnsettledOp")]
pub struct UnsettledOp {
    /// Which.
    pub op: OpId,
    /// The blocks from its first to its last, component-relative.
    pub range: BlockRange,
    /// The front-end request behind it.
    pub client: ClientTag,
    /// The members of its set that it concerns, a bit for each index; 0: all of them, as at a mirror.
    pub members: u16,
}

impl UnsettledOp {
    /// Whether it concerns the member with this index.
    pub fn concerns(&self, index: u32) -> bool {
        concerns(self.members, index)
    }
}

/// Whether a mask of members has the one with this index; 0 has all, as at a mirror.
pub fn concerns(members: u16, index: u32) -> bool {
    members == 0 || u32::from(members).checked_shr(index).is_some_and(|bits| bits & 1 == 1)
}

/// What releases without parity wrote and read. A component has less than 2^27 blocks: the members are above its first one.
#[derive(Serialize, Deserialize)]
struct EncodedUnsettledOp {
    op: OpId,
    range: BlockRange,
    client: ClientTag,
}

/// Where the members begin in an encoded first block.
const MEMBERS_AT: u32 = 40;

impl From<UnsettledOp> for EncodedUnsettledOp {
    fn from(UnsettledOp { op, range, client, members }: UnsettledOp) -> Self {
        let first = range.first & ((1 << MEMBERS_AT) - 1) | u64::from(members) << MEMBERS_AT;
        Self { op, range: BlockRange { first, count: range.count }, client }
    }
}

impl From<EncodedUnsettledOp> for UnsettledOp {
    fn from(EncodedUnsettledOp { op, range, client }: EncodedUnsettledOp) -> Self {
        let first = range.first & ((1 << MEMBERS_AT) - 1);
        let members = (range.first >> MEMBERS_AT) as u16;
        Self { op, range: BlockRange { first, count: range.count }, client, members }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8) -> Vec<u8> {
        vec![byte; BLOCK_BYTES as usize]
    }

    /// Goal: parts that end elsewhere than runs do are put in their places, holes are zeros, and a lack of either is seen.
    #[test]
    fn contents_are_read_across_parts_and_holes() {
        let data = |blocks: usize| Run::Data { crcs: std::iter::repeat_n(7, blocks).collect() };
        let runs = vec![data(1), Run::Hole { blocks: 20 }, data(2)];
        let (first, rest) = ([block(1), block(2)].concat(), block(3));
        let contents = Contents { runs, data: vec![first.into(), rest.into()] };
        assert!(contents.is_whole(23) && !contents.is_whole(22));
        let mut short = contents.clone();
        short.data.pop();
        assert!(!short.is_whole(23));
        let zeros = vec![0; 20 * BLOCK_BYTES as usize];
        assert_eq!(contents.into_bytes().concat(), [block(1), zeros, block(2), block(3)].concat());
    }

    /// Goal: an operation of a mirror is encoded as before, one of some members comes back with them. Method: the old form beside it.
    #[test]
    fn unsettled_operations_keep_their_encoding() {
        let (op, range, client) = (OpId::ZERO, BlockRange::new((1 << 27) - 1, 256), ClientTag::default());
        let of_all = UnsettledOp { op, range, client, members: 0 };
        assert_eq!(crate::encode_onto(Vec::new(), &of_all), crate::encode_onto(Vec::new(), &(op, range, client)));
        for members in [0, 1, 0b10_0101, 0x3ff] {
            let told = UnsettledOp { members, ..of_all };
            let bytes = crate::encode_onto(Vec::new(), &told);
            assert_eq!(postcard::from_bytes::<UnsettledOp>(&bytes), Ok(told));
            assert!((0..16).all(|index| told.concerns(index) == (members == 0 || members >> index & 1 == 1)));
        }
        assert!(of_all.concerns(99), "of a mirror");
    }

    #[test]
    fn only_blocks_that_travel_have_checksums() {
        let crcs: Crcs = [1, 2].into_iter().collect();
        let told = |op: &BlockOp| op.crcs().copied().collect::<Vec<_>>();
        assert_eq!(told(&BlockOp::Write { first_block: 9, crcs: crcs.clone() }), [1, 2]);
        assert_eq!(told(&BlockOp::Zero { range: BlockRange::new(0, 3), keep_allocated: true }), []);
        let mark = Run::Bad { crcs: [7].into_iter().collect() };
        let runs = vec![Run::Hole { blocks: 4 }, mark, Run::Data { crcs }];
        let copy = BlockOp::Copy { first_block: 0, runs };
        assert_eq!((told(&copy), copy.range()), (vec![1, 2], BlockRange::new(0, 7)));
    }

    #[test]
    fn bad_blocks_follow_on_and_are_named() {
        let mut contents = Contents::default();
        contents.push_hole(3);
        [5, 6].into_iter().for_each(|crc| contents.push_bad(crc));
        contents.push_data(block(1).into(), [9].into_iter().collect());
        contents.push_bad(7);
        assert!(contents.is_whole(7));
        assert_eq!(contents.bad_blocks(10), [BlockRange::new(13, 2), BlockRange::new(16, 1)]);
    }
}
