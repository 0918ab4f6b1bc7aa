//! How a write to a part of a strip reaches the row's parity, by the states of the members that it concerns; and whether it did.
//!
//! Promises    a part goes to parity by the cheapest of the ways that leave every member in sync right: a difference where the data
//!             member can tell what it replaces, nothing where no parity takes writes, parity made anew where the data member is not in sync
//! Assumes     the caller holds the locks of the part's blocks and positions, for [`PartWrite::Encode`] of the whole row, and asks again under it
//! Not here    whole rows: they are sent to all members and need nothing from before; who is read for a row's image (`object`)

use cairn_format::zero_block_crc;
use cairn_geometry::{RowRole, Rows};
use cairn_parity::crc_of_p;
use cairn_types::{BlockState, Crcs, Member, ReplicaSetIndex};
use serde::Serialize;

use crate::state::State;

/// How a part of a strip is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum PartWrite {
    /// To the data member, which tells what it replaces; the difference then goes to each parity member that takes writes.
    Difference,
    /// To the data member alone: no parity member of the row takes writes.
    DataAlone,
    /// With the row locked: its other columns are read, and parity members get what follows; a data member that is being filled gets
    /// the data.
    Encode,
    /// Not before a failure is recorded: a member that seems in sync does not answer.
    AfterFailures,
}

/// How a part of this column of the row is written now.
pub fn part_write(state: &State, set: ReplicaSetIndex, rows: Rows, (row, column): (u64, u32)) -> PartWrite {
    let data = rows.member(row, RowRole::Column(column));
    let in_sync = |m: &&Member| m.copy() == Some(data) && state.counts(m);
    let readable = state.readable_copies(set);
    if state.config().replica_set(set).any(|m| in_sync(&m)) {
        return match readable.contains(&data) {
            false => PartWrite::AfterFailures,
            true if parity_takes_writes(state, set, rows, row) => PartWrite::Difference,
            true => PartWrite::DataAlone,
        };
    }
    match readable.len() < rows.data() as usize {
        true => PartWrite::AfterFailures,
        false => PartWrite::Encode,
    }
}

fn parity_takes_writes(state: &State, set: ReplicaSetIndex, rows: Rows, row: u64) -> bool {
    let parity = (0..rows.parity()).map(|j| rows.member(row, RowRole::Parity(j)));
    let mask = parity.fold(0, |mask, member| mask | 1 << member);
    !state.legs(set, mask).is_empty()
}

/// Whether a block of P is that of the blocks of its row's columns, in order, by what the members tell of them. None: one of them cannot give it.
///
/// Of Q checksums tell nothing: that would need the blocks.
pub fn p_agrees(columns: &[BlockState], p: BlockState) -> Option<bool> {
    let crcs: Option<Crcs> = columns.iter().map(|state| crc_of(*state)).collect();
    Some(crc_of_p(&crcs?) == crc_of(p)?)
}

fn crc_of(state: BlockState) -> Option<u32> {
    match state {
        BlockState::Data { crc, .. } => Some(crc),
        BlockState::Zeroes { .. } => Some(zero_block_crc()),
        BlockState::Lost { .. } => None,
    }
}

#[cfg(test)]
mod tests;
