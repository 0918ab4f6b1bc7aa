//! What each member of a row gets of an operation: plain functions.
//!
//! Promises    one contiguous body for each member: strips of data and of parity in the order of its blocks, nothing is read for it
//! Assumes     all blocks of the rows are written
//! Not here    sending (`write`)

use std::ops::Range;

use bytes::Bytes;
use cairn_env::PageBuf;
use cairn_geometry::{RowRole, Rows};
use cairn_owner::{MemberMask, Strip};
use cairn_parity::{crc_of_p, encode, row_check};
use cairn_types::{BLOCK_BYTES, BlockOp, BlockRange, Crcs, Run};
use cairn_wire::block_crc;

use crate::owner::write::Body;

const BLOCK: usize = BLOCK_BYTES as usize;

/// The blocks of these rows in each component.
pub(super) fn strips(rows: Rows, of: &Range<u64>) -> BlockRange {
    let (first, count) = (of.start * rows.strip_blocks(), (of.end - of.start) * rows.strip_blocks());
    BlockRange::new(first, count as u32)
}

/// Whole rows of zeroes.
pub(super) fn whole_zeroes(rows: Rows, of: &Range<u64>, keep_allocated: bool) -> Vec<Option<Body>> {
    let members = all(rows);
    let zero = BlockOp::ZeroRows { members, range: strips(rows, of), keep_allocated };
    vec![Some(zero.into()); rows.members() as usize]
}

fn all(rows: Rows) -> MemberMask {
    (1 << rows.members()) - 1
}

/// Whole rows of data, for those members that `wanted` has.
///
/// # Panics
/// `data` is not as long as the rows.
pub(super) fn whole(rows: Rows, of: &Range<u64>, data: &[u8], wanted: impl Fn(u32) -> bool) -> Vec<Option<Body>> {
    let strip = rows.strip_blocks() as usize;
    let (row_bytes, strip_bytes) = (rows.row_blocks() as usize * BLOCK, strip * BLOCK);
    assert_eq!(data.len() as u64, (of.end - of.start) * row_bytes as u64, "whole rows");
    let length = (of.end - of.start) as usize * strip_bytes;
    let mut members: Vec<Parts> = (0..rows.members()).map(|member| Parts::of(length, wanted(member))).collect();
    for (n, (row, data)) in of.clone().zip(data.chunks_exact(row_bytes)).enumerate() {
        let crcs: Crcs = data.chunks_exact(BLOCK).map(block_crc).collect();
        let at = n * strip_bytes..(n + 1) * strip_bytes;
        let columns: Vec<&[u8]> = data.chunks_exact(strip_bytes).collect();
        for (column, (bytes, crcs)) in (0..).zip(columns.iter().zip(crcs.chunks_exact(strip))) {
            let member = &mut members[rows.member(row, RowRole::Column(column)) as usize];
            if member.wanted {
                member.bytes[at.clone()].copy_from_slice(bytes);
            }
            member.push(Run::Data { crcs: Crcs::from_slice(crcs) });
        }
        let holders: Vec<usize> =
            (0..rows.parity()).map(|number| rows.member(row, RowRole::Parity(number)) as usize).collect();
        make_parity(&mut members, &holders, at.clone(), &columns);
        let of_position = |block: usize| (0..columns.len()).map(|c| crcs[c * strip + block]).collect::<Crcs>();
        let by_position: Vec<Crcs> = (0..strip).map(of_position).collect();
        let row_checks: Crcs = by_position.iter().map(|crcs| row_check(crcs)).collect();
        for (number, holder) in holders.into_iter().enumerate() {
            let member = &mut members[holder];
            // P's follow from those of the columns: parity that was made wrongly is found where it arrives.
            let crcs = match number {
                0 => by_position.iter().map(|crcs| crc_of_p(crcs)).collect(),
                _ => member.bytes[at.clone()].chunks_exact(BLOCK).map(block_crc).collect(),
            };
            member.push(Run::Parity { crcs, row_checks: row_checks.clone() });
        }
    }
    let first_block = strips(rows, of).first;
    members.into_iter().map(|member| member.body(all(rows), first_block)).collect()
}

/// Writes the parity of one row where it goes.
fn make_parity(members: &mut [Parts], holders: &[usize], at: Range<usize>, columns: &[&[u8]]) {
    let columns: Vec<_> = columns.iter().map(|bytes| cairn_parity::Strip::Bytes(bytes)).collect();
    match *holders {
        [p] => encode(&columns, &mut [&mut members[p].bytes[at]]),
        [p, q] => {
            let [p, q] = members.get_disjoint_mut([p, q]).expect("two members");
            encode(&columns, &mut [&mut p.bytes[at.clone()], &mut q.bytes[at]]);
        }
        _ => unreachable!("a row has one or two strips of parity"),
    }
}

/// What one member gets.
struct Parts {
    wanted: bool,
    bytes: PageBuf,
    runs: Vec<Run>,
}

impl Parts {
    /// Also of a member that is not written to: parity of a row is made together.
    fn of(length: usize, wanted: bool) -> Self {
        Self { wanted, bytes: PageBuf::dirty(length), runs: Vec::new() }
    }

    fn push(&mut self, run: Run) {
        match (self.runs.last_mut(), run) {
            (Some(Run::Data { crcs }), Run::Data { crcs: more }) => crcs.extend_from_slice(&more),
            (Some(Run::Parity { crcs, row_checks }), Run::Parity { crcs: more, row_checks: checks }) => {
                crcs.extend_from_slice(&more);
                row_checks.extend_from_slice(&checks);
            }
            (_, run) => self.runs.push(run),
        }
    }

    fn body(self, members: MemberMask, first_block: u64) -> Option<Body> {
        let blocks = BlockOp::Rows { members, first_block, runs: self.runs };
        self.wanted.then(|| Body { blocks, data: self.bytes.freeze() })
    }
}

/// What a guest leaves in a part of a column.
#[derive(Debug, Clone)]
pub(super) enum New {
    Data(Bytes, Crcs),
    Zeroes { blocks: u32, keep_allocated: bool },
}

impl New {
    pub(super) fn strip(&self) -> Strip {
        match self {
            Self::Data(bytes, crcs) => Strip::data(bytes.clone(), crcs.clone()),
            Self::Zeroes { blocks, .. } => Strip::zeroes(*blocks),
        }
    }

    /// What the data member gets.
    pub(super) fn body(&self, members: MemberMask, range: BlockRange) -> Body {
        match self {
            Self::Data(bytes, crcs) => {
                let runs = vec![Run::Data { crcs: crcs.clone() }];
                Body { blocks: BlockOp::Rows { members, first_block: range.first, runs }, data: bytes.clone() }
            }
            Self::Zeroes { keep_allocated, .. } => {
                BlockOp::ZeroRows { members, range, keep_allocated: *keep_allocated }.into()
            }
        }
    }
}

/// What was made of a row, for the member that it is of. It gives its space back where all of it is zeroes.
pub(super) fn made(strip: &Strip, is_parity: bool, members: MemberMask, range: BlockRange) -> Body {
    if strip.is_all_holes() {
        return BlockOp::ZeroRows { members, range, keep_allocated: false }.into();
    }
    let crcs = strip.crcs().clone();
    let run = match is_parity {
        true => Run::Parity { crcs, row_checks: strip.row_checks().clone() },
        false => Run::Data { crcs },
    };
    let data = strip.bytes().cloned().unwrap_or_else(|| PageBuf::zeroed(range.bytes() as usize).freeze());
    Body { blocks: BlockOp::Rows { members, first_block: range.first, runs: vec![run] }, data }
}

#[cfg(test)]
mod tests;
