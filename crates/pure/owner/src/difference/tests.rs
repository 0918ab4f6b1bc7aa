//! Differences of each form of old data, new data and parity.

use cairn_geometry::{RowRole, Rows};
use cairn_parity::factor;
use cairn_types::Redundancy;

use super::*;
use crate::image::RowImage;

const BLOCK: usize = BLOCK_BYTES as usize;

fn data(byte: u8) -> Strip {
    let bytes: Vec<u8> = (0..2 * BLOCK).map(|at| (at as u8).wrapping_mul(byte)).collect();
    let crcs = bytes.chunks_exact(BLOCK).map(block_crc).collect();
    Strip::data(bytes.into(), crcs)
}

/// R2. Goal: P and Q after a difference are those of the row with the new column. Method: from and to holes and data, in each column, over
/// rows that were never written and rows that were, beside parity made anew.
#[test]
fn parity_after_a_difference_is_that_of_the_row() {
    let rows = Rows::of(Redundancy::Parity { data: 3, parity: 2, strip_blocks: 4 }).expect("rows");
    let kinds = [Strip::zeroes(2), data(3), data(8)];
    for others in [vec![Strip::zeroes(2); 3], vec![data(5), data(6), data(7)]] {
        for column in 0..3 {
            for (old, new) in kinds.iter().flat_map(|old| kinds.iter().map(move |new| (old, new))) {
                let before = RowImage::of_columns(rows, others.clone()).with(column, old.clone());
                let after = before.clone().with(column, new.clone());
                let mut change = vec![9; 2 * BLOCK];
                difference(old, new, &mut change);
                for parity in 0..2 {
                    let there = before.strip(RowRole::Parity(parity));
                    let crcs = (old.crcs().as_slice(), new.crcs().as_slice());
                    let mut into = vec![9; 2 * BLOCK];
                    let by = (column, factor(column, parity));
                    let (crcs, checks) = add_difference(&there, by, crcs, &change, &mut into);
                    let made = after.strip(RowRole::Parity(parity));
                    assert_eq!((&crcs, &checks), (made.crcs(), made.row_checks()), "column {column}, parity {parity}");
                    let zeroes = vec![0; 2 * BLOCK];
                    assert_eq!(into, made.bytes().map_or(zeroes, |bytes| bytes.to_vec()));
                }
            }
        }
    }
}
