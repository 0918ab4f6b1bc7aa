//! Whether bytes differ from what was written by one bit: damage of a medium, and no write that power cut short.
//!
//! Promises    of all bytes that differ from the right ones by exactly one bit, each is recognised, wherever the bit is
//!             bytes that a torn write left are taken for such with the chance of one in 2^17 for each 4 KiB
//! Assumes     CRC-32C is linear: the sum of the right and the found checksum depends on the difference alone, and each single bit
//!             of a block has a sum of its own
//! Not here    repair: what is found here says what happened to the bytes, and never what they were
//!
//! A sector of 512 bytes is written whole or not at all. A torn write leaves old sectors between new ones, which differ in many bits.

use crate::{
    BATCH_HEADER_BYTES_MAX, BatchHeader,
    batch::{CRC_AT, HEADER_BYTES_AT, MAGIC, header_crc},
    crc32c, decode_batch_header,
};

/// CRC-32C's polynomial, the lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Which bit of `bytes` bytes was turned over, counted from the first byte's lowest, if one alone accounts for the sum of the
/// checksum that they should have and the one that they have.
fn turned_bit(bytes: usize, sum: u32) -> Option<usize> {
    let bits = bytes * 8;
    let mut of_bit = POLYNOMIAL;
    for behind in 0..bits {
        if of_bit == sum {
            return Some(bits - 1 - behind);
        }
        of_bit = (of_bit >> 1) ^ (POLYNOMIAL * (of_bit & 1));
    }
    None
}

/// Whether `bytes` with the checksum `crc` differ in exactly one bit from those that it is of.
pub fn is_one_bit_off(bytes: &[u8], crc: u32) -> bool {
    turned_bit(bytes.len(), crc32c(bytes) ^ crc).is_some()
}

/// The header that stands at the beginning of `bytes` but for one bit, none where it is whole or differs in more. Says *which* batch
/// was damaged; nothing may be read by it.
pub fn one_bit_off_header(bytes: &[u8]) -> Option<BatchHeader> {
    let magic: u32 = bytes.get(..MAGIC.len())?.iter().zip(MAGIC).map(|(is, was)| (is ^ was).count_ones()).sum();
    let length = u32::from_le_bytes(bytes.get(HEADER_BYTES_AT..HEADER_BYTES_AT + 4)?.try_into().expect("four bytes"));
    if magic > 1 {
        return None;
    }
    // The bit may be one of the length: then the sum of the others is of that length.
    let lengths = std::iter::once(length).chain((0..32).map(|bit| length ^ 1 << bit));
    let fits = |len: &u32| (1..=BATCH_HEADER_BYTES_MAX).contains(len) && len.is_multiple_of(cairn_types::BLOCK_BYTES);
    lengths.filter(fits).find_map(|len| bytes.get(..len as usize).and_then(without_its_bit))
}

/// `bytes` are a header's, to its end.
fn without_its_bit(bytes: &[u8]) -> Option<BatchHeader> {
    let claimed = u32::from_le_bytes(bytes[CRC_AT..CRC_AT + 4].try_into().expect("four bytes"));
    let sum = header_crc(bytes) ^ claimed;
    let bit = match sum.count_ones() {
        1 => CRC_AT * 8 + sum.trailing_zeros() as usize,
        // The checksum counts as zeroes in its own sum.
        _ => turned_bit(bytes.len(), sum).filter(|bit| !(CRC_AT..CRC_AT + 4).contains(&(bit / 8)))?,
    };
    let mut turned = bytes.to_vec();
    turned[bit / 8] ^= 1 << (bit % 8);
    decode_batch_header(&turned).ok()
}

#[cfg(test)]
mod tests {
    use cairn_types::ObjectId;

    use super::*;
    use crate::{LogRecord, encode_batch};

    /// A small generator: SplitMix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn random(len: usize, state: &mut u64) -> Vec<u8> {
        (0..len / 8).flat_map(|_| next(state).to_le_bytes()).collect()
    }

    fn batch(records: usize, state: &mut u64) -> (BatchHeader, Vec<u8>) {
        let record = |_| LogRecord::Record { object: ObjectId(7), bytes: random(64, state) };
        let records: Vec<LogRecord> = (0..records).map(record).collect();
        let header = BatchHeader {
            log_id: 0x1122_3344_5566_7788,
            position: 0x0010_0000,
            previous_position: 0x000f_e000,
            previous_crc: 0xdead_beef,
            durable_position: 0x000f_e000,
            open_count: 3,
            ..BatchHeader::default()
        };
        encode_batch(header, &records)
    }

    #[test]
    fn every_bit_of_a_block_is_recognised() {
        let mut state = 1;
        for block in [vec![0; 4096], random(4096, &mut state)] {
            let crc = crc32c(&block);
            assert!(!is_one_bit_off(&block, crc), "it is right");
            for bit in 0..4096 * 8 {
                let mut bad = block.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(turned_bit(4096, crc32c(&bad) ^ crc), Some(bit));
            }
        }
    }

    /// Goal: no torn write is taken for a turned bit. Method: random sectors of a block are what stood there before: zeroes, another
    /// block, or the same one but for one sector.
    #[test]
    fn torn_blocks_are_not_recognised() {
        let (mut state, mut tried) = (2, 0);
        for round in 0..20_000u64 {
            let new = random(4096, &mut state);
            let old = if round % 2 == 0 { vec![0; 4096] } else { random(4096, &mut state) };
            let arrived = next(&mut state) as u8;
            let mut torn = new.clone();
            for sector in (0..8).filter(|sector| arrived >> sector & 1 == 0) {
                torn[sector * 512..][..512].copy_from_slice(&old[sector * 512..][..512]);
            }
            if torn != new {
                tried += 1;
                assert!(!is_one_bit_off(&torn, crc32c(&new)), "round {round}, sectors {arrived:08b}");
            }
        }
        assert!(tried > 19_000);
    }

    #[test]
    fn every_bit_of_a_header_is_recognised() {
        let mut state = 3;
        for records in [1, 90] {
            let (header, bytes) = batch(records, &mut state);
            assert_eq!(one_bit_off_header(&bytes), None, "it is right");
            assert_eq!(bytes.len(), if records == 1 { 4096 } else { 8192 });
            // All of the fixed part and of its neighbours, then some.
            for bit in (0..200 * 8).chain((1600..bytes.len() * 8).step_by(37)) {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                // Behind it stands data.
                bad.extend(random(8192, &mut state));
                assert_eq!(one_bit_off_header(&bad), Some(header), "bit {bit}");
            }
        }
    }

    #[test]
    fn torn_headers_are_not_recognised() {
        let mut state = 4;
        for round in 0..2000u64 {
            let (_, new) = batch(90, &mut state);
            let old = if round % 2 == 0 { vec![0; new.len()] } else { batch(90, &mut state).1 };
            let arrived = next(&mut state) as u16;
            let mut torn = new.clone();
            for sector in (0..16).filter(|sector| arrived >> sector & 1 == 0) {
                torn[sector * 512..][..512].copy_from_slice(&old[sector * 512..][..512]);
            }
            assert_eq!(one_bit_off_header(&torn), None, "round {round}, sectors {arrived:016b}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut state = 5;
        let (_, good) = batch(1, &mut state);
        for round in 0..2000u64 {
            let mut bytes = good.clone();
            for _ in 0..round % 4 {
                let at = next(&mut state) as usize % 128;
                bytes[at] = next(&mut state) as u8;
            }
            bytes.truncate(next(&mut state) as usize % 5000);
            let _ = one_bit_off_header(&bytes);
        }
    }
}
