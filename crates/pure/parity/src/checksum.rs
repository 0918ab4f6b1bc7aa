//! What CRCs of data say about CRCs of what was made from it.
//!
//! CRC-32C is affine: of blocks of one length, `crc(a ^ b) == crc(a) ^ crc(b) ^ crc(zeroes)`.
//!
//! Not here    the CRC of Q: it does not follow from those of the columns

use cairn_format::zero_block_crc;

/// The CRC-32C of the difference (old XOR new) of two blocks, from theirs.
pub fn crc_of_difference(old_crc: u32, new_crc: u32) -> u32 {
    crc_of_p(&[old_crc, new_crc])
}

/// The CRC-32C of a block of P, from those of the blocks of all columns that it belongs to.
///
/// Each CRC has that of the zero block in it, and the sum needs it once. An even number of them has lost it.
pub fn crc_of_p(column_crcs: &[u32]) -> u32 {
    let lost = if column_crcs.len().is_multiple_of(2) { zero_block_crc() } else { 0 };
    column_crcs.iter().fold(lost, |sum, crc| sum ^ crc)
}

/// What a block of parity says of the data that it was made from: a sum over its columns, of the checksum of each.
///
/// Parity that lacks a write of a column, or has one that the column lacks, has another sum. So a row is made from its members only
/// where they are of one state. A row of zeroes has 0: parity that was never written is right.
///
/// Each checksum is mixed with its column's number (Murmur3's finalizer), so that neither exchanged columns nor the XOR of
/// changes cancel out: of wrong rows one in 2^32 is missed.
pub fn row_check(column_crcs: &[u32]) -> u32 {
    (0..).zip(column_crcs).fold(0, |sum, (column, crc)| row_check_after(sum, column, zero_block_crc(), *crc))
}

/// The sum after a column's block got another checksum.
pub fn row_check_after(row_check: u32, column: u32, old_crc: u32, new_crc: u32) -> u32 {
    row_check.wrapping_sub(mixed(column, old_crc)).wrapping_add(mixed(column, new_crc))
}

fn mixed(column: u32, crc: u32) -> u32 {
    let mut h = crc ^ (column + 1).wrapping_mul(0x9e37_79b9);
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}
