//! What a part of a column changes in its row's parity: at the owner the difference, at a parity member the sum.
//!
//! Promises    R2  parity after a difference is that of the row with the new column, and its row check says so
//! Assumes     what is there is the parity of the row with the old column: no operation of the position is between
//! Not here    the order in which differences come (`object`: the seat's turns and the owner's lock of positions)

use cairn_parity::{Factor, mul_into, row_check_after, xor_into};
use cairn_types::{BLOCK_BYTES, Crcs};
use cairn_wire::block_crc;

use crate::strip::Strip;

/// Writes old XOR new.
///
/// # Panics
/// The two and `into` are not equally long.
pub fn difference(old: &Strip, new: &Strip, into: &mut [u8]) {
    match (old.bytes(), new.bytes()) {
        (None, None) => into.fill(0),
        (Some(only), None) | (None, Some(only)) => into.copy_from_slice(only),
        (Some(old), Some(new)) => {
            into.copy_from_slice(old);
            xor_into(into, new);
        }
    }
}

/// Writes what parity is once a column has changed from blocks with the checksums `old` to those with `new`: checksums and row checks.
///
/// # Panics
/// Parity, difference, checksums and `into` are not of equally many blocks.
pub fn add_difference(
    parity: &Strip,
    (column, factor): (u32, Factor),
    (old, new): (&[u32], &[u32]),
    difference: &[u8],
    into: &mut [u8],
) -> (Crcs, Crcs) {
    assert_eq!((old.len(), new.len()), (parity.crcs().len(), parity.crcs().len()), "of each block");
    match parity.bytes() {
        Some(bytes) => into.copy_from_slice(bytes),
        None => into.fill(0),
    }
    mul_into(into, difference, factor);
    let crcs = into.chunks_exact(BLOCK_BYTES as usize).map(block_crc).collect();
    let checks = parity.row_checks().iter().zip(old.iter().zip(new));
    let checks = checks.map(|(check, (old, new))| row_check_after(*check, column, *old, *new)).collect();
    (crcs, checks)
}

#[cfg(test)]
mod tests;
