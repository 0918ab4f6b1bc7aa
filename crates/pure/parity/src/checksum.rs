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
