//! CRC-32C (Castagnoli, the polynomial of iSCSI): of blocks, headers and superblocks.

use cairn_types::{BLOCK_BYTES, Crcs};

/// CRC-32C of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(data)
}

/// CRC-32C of every whole 4 KiB block of `data`, in order.
pub fn block_crcs(data: &[u8]) -> Crcs {
    data.chunks_exact(BLOCK_BYTES as usize).map(crc32c).collect()
}

/// CRC-32C of a block of zeroes.
pub fn zero_block_crc() -> u32 {
    // Of the polynomial, not of us: the test computes it.
    0x98f9_4189
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(zero_block_crc(), crc32c(&[0; 4096]));
        assert_eq!(block_crcs(&[0; 8192])[..], [zero_block_crc(); 2]);
    }
}
