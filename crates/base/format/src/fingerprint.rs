//! Fingerprint of a block: what tells blocks apart that are likely to be equal.
//!
//! Promises    equal blocks have equal ones within a disk group; none is 0
//! Not here    whether two blocks are equal: their bytes are compared (`store`)
//!
//! Not cryptographic, and not meant to be: a guest can make blocks that agree in it, and they cost a comparison each.

/// Of splitmix64: any odd number of this kind will do.
const ODD: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9];

/// Of a block, its CRC-32C, and a word of the disk group.
pub fn fingerprint(block: &[u8], crc: u32, word: u64) -> u64 {
    let crc_64 = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, block);
    let mixed = crc_64 ^ u64::from(crc).wrapping_mul(ODD[0]) ^ word;
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(ODD[1]);
    (mixed ^ mixed >> 29).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc32c;

    /// Goal: fingerprints that are on devices find their blocks again. Method: values that are fixed; the check value of CRC-64/NVME.
    #[test]
    fn fingerprints_are_fixed() {
        assert_eq!(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, b"123456789"), 0xAE8B_1486_0A79_9888);
        let block: Vec<u8> = (0..4096u32).map(|at| (at * 7 % 251) as u8).collect();
        let one = fingerprint(&block, crc32c(&block), 11);
        assert_eq!(one, 3_797_510_281_967_700_640);
        assert_ne!(one, fingerprint(&block, crc32c(&block), 12));
        assert_ne!(one, fingerprint(&block, crc32c(&block) ^ 1, 11));
    }
}
