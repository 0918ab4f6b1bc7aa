//! A packed block: what LZ4 makes of 4 KiB, in whole sectors.
//!
//! Promises    what was packed unpacks to the same bytes; any other bytes are told, or unpack to a block whose checksum is another
//! Not here    the checksum of the block, which whoever unpacks compares; when blocks are packed (`store`)
//!
//! `u16: bytes of LZ4 in the lower 12 bits, the codec in the others | the bytes | zeroes up to the end of a sector`. Codec 1 is LZ4, a block as of its
//! specification (without a frame).

use cairn_types::BLOCK_BYTES;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use crate::spot::{PACKED_SECTORS_MAX, SECTOR_BYTES};

const BLOCK: usize = BLOCK_BYTES as usize;
const HEAD_BYTES: usize = 2;
const LEN_BITS: u32 = 12;
const LZ4: u16 = 1;

/// Packs blocks; keeps its memory from one to the next.
pub struct Packer {
    table: CompressTable,
    out: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Self {
        Self { table: CompressTable::small(), out: vec![0; HEAD_BYTES + get_maximum_output_size(BLOCK)] }
    }
}

impl Packer {
    /// A block in whole sectors. None where it takes more than packing is worth.
    ///
    /// # Panics
    /// When it is no block.
    pub fn pack(&mut self, block: &[u8]) -> Option<Vec<u8>> {
        assert_eq!(block.len(), BLOCK, "a block");
        let len = compress_into_with_table(block, &mut self.out[HEAD_BYTES..], &mut self.table).ok()?;
        let whole = (HEAD_BYTES + len).next_multiple_of(SECTOR_BYTES as usize);
        if whole > (PACKED_SECTORS_MAX * SECTOR_BYTES) as usize {
            return None;
        }
        let mut packed = vec![0; whole];
        packed[..HEAD_BYTES].copy_from_slice(&(len as u16 | LZ4 << LEN_BITS).to_le_bytes());
        packed[HEAD_BYTES..HEAD_BYTES + len].copy_from_slice(&self.out[HEAD_BYTES..HEAD_BYTES + len]);
        Some(packed)
    }
}

/// Unpacks to a block. False where the bytes are none; then it may hold anything.
#[must_use]
pub fn unpack(packed: &[u8], block: &mut [u8]) -> bool {
    let Some((head, rest)) = packed.split_first_chunk::<HEAD_BYTES>() else { return false };
    let head = u16::from_le_bytes(*head);
    let len = usize::from(head & ((1 << LEN_BITS) - 1));
    let Some(bytes) = rest.get(..len).filter(|_| head >> LEN_BITS == LZ4) else { return false };
    block.len() == BLOCK && matches!(decompress_into(bytes, block), Ok(BLOCK))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(words: &[u8], noise: usize) -> Vec<u8> {
        let mut block: Vec<u8> = words.iter().copied().cycle().take(BLOCK).collect();
        let mut state = 7u64;
        for byte in &mut block[..noise] {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        block
    }

    proptest! {
        /// Goal: what packs unpacks to the same, and takes whole sectors; other bytes do no harm. Method: blocks that begin with noise and go on
        /// with words; a byte that is another, bytes that are lacking.
        #[test]
        fn blocks_read_back(words in proptest::collection::vec(any::<u8>(), 1..300), noise in 0usize..=BLOCK, at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let block = block(&words, noise);
            let mut packer = Packer::default();
            let Some(mut packed) = packer.pack(&block) else {
                prop_assert!(noise > 2000, "it should pack");
                return Ok(());
            };
            let again = packer.pack(&block);
            prop_assert_eq!(again.as_ref(), Some(&packed));
            prop_assert!(packed.len().is_multiple_of(512) && packed.len() <= 3072);
            let mut read = vec![9; BLOCK];
            prop_assert!(unpack(&packed, &mut read));
            prop_assert_eq!(&read, &block);
            let at = at.index(packed.len());
            packed[at] ^= 1 << bit;
            let _ = unpack(&packed, &mut read);
            let _ = unpack(&packed[..at], &mut read);
        }
    }

    /// Goal: packed blocks that are on devices read back with any build of the library. Method: bytes that are fixed, by the specification of LZ4:
    /// a literal, a match of 4,090 bytes from one byte back, five literals.
    #[test]
    fn bytes_that_were_packed_once_unpack() {
        let body = [&[0x1F, b'x', 1, 0][..], &[255; 15], &[246, 0x50], b"xxxxx"];
        let lz4 = body.concat();
        let head = (lz4.len() as u16 | 1 << 12).to_le_bytes();
        let mut read = vec![0; BLOCK];
        assert!(!unpack(&[], &mut read) && !unpack(&[0; 512], &mut read) && !unpack(&[0xFF; 512], &mut read));
        assert!(unpack(&[&head[..], &lz4].concat(), &mut read));
        assert_eq!(read, [b'x'; BLOCK]);
    }
}
