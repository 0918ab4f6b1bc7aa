//! Where the last batches of a log stand on its device: those that nothing behind them calls durable.
//!
//! Promises    simulated devices and files of real processes are read alike; a batch that power cut short is not found
//! Assumes     a bit that is flipped there is one fault: one log at a time

use std::ops::Range;

use cairn_format::{
    BATCH_HEADER_BYTES_MAX, BatchHeader, CacheRegions, DeviceRole, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS,
    decode_batch_header, decode_superblock,
};

/// Every batch begins at a page.
const PAGE: usize = 4096;

/// A bit of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bit {
    /// Bytes from its beginning.
    pub offset: u64,
    /// Of that byte, the lowest is 0.
    pub bit: u8,
}

/// The `n`th bit of the last two batches of a cache device's log, around the end; none where the log is empty. `read` reads bytes
/// at an offset of the device.
pub fn bit_of_the_last_two(n: u64, read: impl Fn(u64, usize) -> Vec<u8>) -> Option<Bit> {
    let batches = last_batches(2, &read)?;
    let bits = batches.iter().map(|batch| batch.end - batch.start).sum::<u64>() * 8;
    let mut byte = n.checked_rem(bits)? / 8;
    for batch in batches {
        let len = batch.end - batch.start;
        if byte < len {
            return Some(Bit { offset: batch.start + byte, bit: (n % 8) as u8 });
        }
        byte -= len;
    }
    None
}

/// The bytes of the device that the last `count` batches take, oldest first.
fn last_batches(count: usize, read: &impl Fn(u64, usize) -> Vec<u8>) -> Option<Vec<Range<u64>>> {
    let regions = regions(read)?;
    let log = read(regions.log_offset, regions.log_bytes as usize);
    let header = |at: usize| -> Option<BatchHeader> {
        let most = log.len().min(at + BATCH_HEADER_BYTES_MAX as usize);
        decode_batch_header(&log[at..most]).ok().filter(|header| header.log_id == regions.log_id)
    };
    let mut found: Vec<(u64, Range<u64>)> = Vec::new();
    for at in (0..log.len()).step_by(PAGE) {
        if let Some(header) = header(at).filter(|header| header.position % regions.log_bytes == at as u64) {
            let start = regions.log_offset + at as u64;
            found.push((header.position, start..start + header.end() - header.position));
        }
    }
    found.sort_by_key(|(position, _)| *position);
    let last = found.split_off(found.len().saturating_sub(count));
    Some(last.into_iter().map(|(_, bytes)| bytes).collect())
}

fn regions(read: &impl Fn(u64, usize) -> Vec<u8>) -> Option<CacheRegions> {
    let blocks = SUPERBLOCK_OFFSETS.iter().map(|at| read(*at, SUPERBLOCK_BYTES as usize));
    let found = blocks.filter_map(|block| decode_superblock(&block).ok()).max_by_key(|block| block.generation)?;
    match found.role {
        DeviceRole::Cache { regions, .. } => Some(regions),
        DeviceRole::Capacity { .. } => None,
    }
}
