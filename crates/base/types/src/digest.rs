//! What copies of one disk tell of their blocks when they are compared: checksums and operations, or a digest of a region's.
//!
//! Promises    D1  a digest says what a read would return, wherever that stands: holes and zeroes are alike
//!             D2  of two regions that differ in one block the digests differ; in more, they agree once in 2^64
//!             D3  every build makes the same digest of the same blocks: hosts of two releases compare them
//! Not here    who asks, and what becomes of a difference (`object`)

use serde::{Deserialize, Serialize};

use crate::OpId;

/// The golden ratio in 64 bits: odd, so that multiplying by it loses nothing.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// A digest of blocks, which are taken in order.
///
/// Each step is one to one, in what was taken before and in the block: this is D2. It is no hash to trust against somebody who means harm, and
/// need not be: guests do not choose what copies lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionDigest(u64);

impl Default for RegionDigest {
    fn default() -> Self {
        Self(FACTOR)
    }
}

impl RegionDigest {
    /// Takes the next block: its number from the first one of the region, and the checksum of what a read of it returns.
    pub fn take(&mut self, block: u32, crc: u32) {
        let mixed = (self.0 ^ (u64::from(block) << 32 | u64::from(crc))).wrapping_mul(FACTOR);
        self.0 = mixed ^ mixed >> 32;
    }

    /// The digest of all that was taken.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// What a copy holds of a block, by its index and map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockState {
    /// It reads as zeroes.
    Zeroes {
        /// The operation that made it so. None: it is a hole, of which a copy does not keep that.
        op: Option<OpId>,
    },
    /// It holds data.
    Data {
        /// CRC-32C.
        crc: u32,
        /// The operation that brought it here: a write, or a copy from elsewhere.
        op: OpId,
    },
    /// It cannot be read, and is told elsewhere: a mark, or damage of the map.
    Lost {
        /// CRC-32C of what it held; 0 where nobody knows.
        crc: u32,
    },
}

/// What a copy holds of blocks of one region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BlockStates {
    /// The highest operation that ever touched the region here: a hole was made by none above it.
    pub touched: OpId,
    /// Each block, in order.
    pub blocks: Vec<BlockState>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(crcs: &[u32]) -> u64 {
        let mut digest = RegionDigest::default();
        (0..).zip(crcs).for_each(|(block, crc)| digest.take(block, *crc));
        digest.value()
    }

    /// Goal: D2. Method: one block of a region is another one, in each bit of its checksum; two change places.
    #[test]
    fn one_block_that_differs_is_seen() {
        let crcs: Vec<u32> = (0..256u32).map(|n| n.wrapping_mul(0x01000193) ^ 7).collect();
        let whole = digest(&crcs);
        for block in 0..256 {
            for bit in 0..32 {
                let mut other = crcs.clone();
                other[block] ^= 1 << bit;
                assert_ne!(digest(&other), whole, "block {block}, bit {bit}");
            }
        }
        let mut other = crcs.clone();
        other.swap(3, 200);
        assert_ne!(digest(&other), whole);
        assert_ne!(digest(&crcs[..255]), whole);
    }

    /// Goal: D3. Method: what this release makes of a few blocks is written down here; it stays so.
    #[test]
    fn the_digest_is_the_same_in_every_build() {
        assert_eq!(digest(&[]), 0x9E37_79B9_7F4A_7C15);
        assert_eq!(digest(&[1, 2, 0xFFFF_FFFF, 0]), 0xF31A_DAE3_6F0B_5A82);
    }
}
