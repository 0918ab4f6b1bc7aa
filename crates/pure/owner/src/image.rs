//! A row from those of its members that were read: what is missing of it, compared with what its parity says of it.
//!
//! Promises    R1  the checksums of all columns, made ones too, come to what each block of parity says that was read. Where they do
//!                 not, nothing is made: of members of two states comes a third that nobody wrote                          (P4)
//! Assumes     each block was compared with its own checksum
//! Not here    who is read (`object`); the arithmetic (`cairn-parity`)

use std::collections::BTreeMap;

use bytes::BytesMut;
use cairn_geometry::{RowRole, Rows};
use cairn_parity::{StripState, row_check};
use cairn_types::{BLOCK_BYTES, Canary, Crcs};
use cairn_wire::block_crc;

use crate::strip::Strip;

const BLOCK: usize = BLOCK_BYTES as usize;

/// Why a row cannot be made from what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoImage {
    /// Too little was read.
    TooFew,
    /// Members do not fit each other.
    Disagrees {
        /// The columns that were to be made.
        columns: Vec<u32>,
        /// Where: blocks, counted from the first that was read.
        blocks: Vec<u32>,
    },
}

/// All columns of a row at some positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowImage {
    columns: Vec<Strip>,
    parity: u32,
}

impl RowImage {
    /// From columns that were all read.
    ///
    /// # Panics
    /// They are not those of a row.
    pub fn of_columns(rows: Rows, columns: Vec<Strip>) -> Self {
        assert_eq!(columns.len(), rows.data() as usize, "all columns of a row");
        Self { columns, parity: rows.parity() }
    }

    /// From what members with these indexes hold of the row. Columns that are not among them are made.
    ///
    /// # Errors
    /// Less was read than the row has columns, or what was read does not fit.
    ///
    /// # Panics
    /// Strips are not equally long.
    pub fn of(rows: Rows, row: u64, given: &BTreeMap<u32, Strip>) -> Result<Self, NoImage> {
        let mut columns: Vec<Option<Strip>> = vec![None; rows.data() as usize];
        let mut parity: Vec<Option<&Strip>> = vec![None; rows.parity() as usize];
        for (member, strip) in given {
            match rows.role(row, *member) {
                RowRole::Column(column) => columns[column as usize] = Some(strip.clone()),
                RowRole::Parity(number) => parity[number as usize] = Some(strip),
            }
        }
        let missing: Vec<u32> = (0..rows.data()).filter(|column| columns[*column as usize].is_none()).collect();
        if given.len() < rows.data() as usize {
            return Err(NoImage::TooFew);
        }
        let blocks = given.values().next().map_or(0, Strip::blocks);
        make(&mut columns, &parity, blocks);
        let columns: Vec<Strip> = columns.into_iter().flatten().collect();
        let sums = row_checks(&columns);
        let fits = |at: &u32| parity.iter().flatten().all(|told| told.row_checks()[*at as usize] == sums[*at as usize]);
        let wrong: Vec<u32> = (0..blocks).filter(|at| !fits(at) && !Canary::RowCheckUnread.sings()).collect();
        match wrong.is_empty() {
            true => Ok(Self { columns, parity: rows.parity() }),
            false => Err(NoImage::Disagrees { columns: missing, blocks: wrong }),
        }
    }

    /// The row once this column is another.
    pub fn with(mut self, column: u32, strip: Strip) -> Self {
        self.columns[column as usize] = strip;
        self
    }

    /// What a member with this role has of the row.
    pub fn strip(&self, role: RowRole) -> Strip {
        match role {
            RowRole::Column(column) => self.columns[column as usize].clone(),
            RowRole::Parity(number) => self.parity().swap_remove(number as usize),
        }
    }

    /// Its parity: P, or P and Q.
    pub fn parity(&self) -> Vec<Strip> {
        let blocks = self.columns[0].blocks();
        if self.columns.iter().all(|column| column.bytes().is_none()) {
            return vec![Strip::zeroes(blocks); self.parity as usize];
        }
        let mut parity = vec![BytesMut::zeroed(blocks as usize * BLOCK); self.parity as usize];
        let columns: Vec<_> = self.columns.iter().map(Strip::for_parity).collect();
        cairn_parity::encode(&columns, &mut parity.iter_mut().map(|to| &mut to[..]).collect::<Vec<_>>());
        let sums = row_checks(&self.columns);
        let strip = |bytes: BytesMut| {
            let crcs = bytes.chunks_exact(BLOCK).map(block_crc).collect();
            Strip::parity(bytes.freeze(), crcs, sums.clone())
        };
        parity.into_iter().map(strip).collect()
    }
}

/// Makes the columns that are missing, of which there are no more than there is parity.
fn make(columns: &mut [Option<Strip>], parity: &[Option<&Strip>], blocks: u32) {
    let missing = columns.iter().filter(|column| column.is_none()).count();
    let is_zero = |strip: &Strip| strip.bytes().is_none();
    let all_zero = columns.iter().flatten().all(is_zero) && parity.iter().flatten().all(|strip| is_zero(strip));
    if all_zero {
        columns.iter_mut().for_each(|column| *column = Some(column.take().unwrap_or_else(|| Strip::zeroes(blocks))));
        return;
    }
    let mut made = vec![BytesMut::zeroed(blocks as usize * BLOCK); missing];
    let mut to = made.iter_mut();
    let mut states: Vec<StripState<'_>> = Vec::with_capacity(columns.len());
    for column in columns.iter() {
        states.push(match column {
            Some(strip) => StripState::Given(strip.for_parity()),
            None => StripState::Wanted(&mut to.next().expect("one for each that is missing")[..]),
        });
    }
    let mut parity: Vec<StripState<'_>> = Vec::from_iter(parity.iter().map(|strip| match strip {
        Some(strip) => StripState::Given(strip.for_parity()),
        None => StripState::Missing,
    }));
    cairn_parity::decode(&mut states, &mut parity).expect("as many strips as there are columns");
    let mut made = made.into_iter();
    for column in columns.iter_mut().filter(|column| column.is_none()) {
        let bytes = made.next().expect("one for each that is missing");
        let crcs = bytes.chunks_exact(BLOCK).map(block_crc).collect();
        *column = Some(Strip::data(bytes.freeze(), crcs));
    }
}

/// What parity says of these columns, block by block.
fn row_checks(columns: &[Strip]) -> Crcs {
    let blocks = columns[0].crcs().len();
    let of = |at: usize| row_check(&columns.iter().map(|column| column.crcs()[at]).collect::<Crcs>());
    (0..blocks).map(of).collect()
}

#[cfg(test)]
mod tests;
