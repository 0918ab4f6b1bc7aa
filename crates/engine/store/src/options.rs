//! What may be chosen of a disk group, by when it is chosen, and how its devices are divided.

use cairn_format::{CacheRegions, CapacityRegions, LEAF_BLOCKS, Needs, SHARD_BLOCKS};

use crate::{
    error::{StoreError, StoreErrorKind},
    hooks::HOOKS_BYTES,
};

/// Bytes of write buffer per disk group, at most: as vSAN's all-flash default.
pub const LOG_BYTES_MAX: u64 = 600_000_000_000;
/// Memory that the index of a full log may take where nothing is chosen, in the worst case of lone 4 KiB writes: that of 37.2 GiB.
pub const INDEX_BYTES_MAX: u64 = 2 << 30;
/// Index memory of one buffered 4 KiB write, in the worst case (see `index.rs`); of parity, which is a part of what is written, 32 more.
const INDEX_BYTES_PER_BLOCK: u64 = 220;
/// Bytes of a log segment that is chosen, at most: an operation has at most half of one, and the object layer sends up to 1 MiB at
/// once, which with its header does not fit half of 2 MiB.
const LOG_SEGMENT_BYTES_MAX: u64 = 4 << 20;
/// Segments that a log is divided into, at least, where there is room for them at that size.
const LOG_SEGMENTS: u64 = 8;
/// Bytes of a log that takes every write, at least: 32 MiB.
const LOG_BYTES_MIN: u64 = LOG_SEGMENTS * LOG_SEGMENT_BYTES_MAX;
/// Superblocks stand below this offset on every device.
const REGIONS_OFFSET: u64 = 1 << 20;

/// What is chosen once, when a disk group is made. Sizes left out are chosen from the devices' sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatOptions {
    /// Bytes of the log. At least 32 MiB, unless the bytes of a segment are given as well.
    pub log_bytes: Option<u64>,
    /// Memory that the index of the full log may take, in the worst case of lone 4 KiB writes. It bounds the log: 100 GiB of it need
    /// 5.4 GiB.
    pub index_bytes_max: u64,
    /// Bytes of the metadata region.
    pub metadata_bytes: Option<u64>,
    /// Bytes of a log segment. An operation has at most half of it.
    pub log_segment_bytes: Option<u32>,
    /// Bytes of a capacity segment.
    pub segment_bytes: u32,
    /// Format although a device holds a Cairn superblock: what it holds is lost.
    pub force: bool,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            log_bytes: None,
            index_bytes_max: INDEX_BYTES_MAX,
            metadata_bytes: None,
            log_segment_bytes: None,
            segment_bytes: 4 << 20,
            force: false,
        }
    }
}

/// What is chosen each time a disk group is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Bytes of memory for cached blocks.
    pub read_cache_bytes: u64,
    /// Bytes of memory for cached leaves of the block map; three quarters as many are for its pages, where it is in pages.
    pub map_cache_bytes: u64,
    /// Outcomes of front ends' requests that a component remembers, at most. Those are dropped whose client is known to
    /// have its answer; what is left are requests in flight and what sessions that ended left behind: 64 hosts with 128
    /// requests each at a disk. Some 150 bytes each, used as they come.
    pub outcomes_max: usize,
    /// Open although a capacity device is blank, a new one in the place of a dead one: its components are lost for
    /// good.
    pub accept_missing: bool,
    /// What may be written that version 0.2.0 does not know: what all hosts of the cluster know. What a group needs already stays.
    pub allowed: Needs,
    /// Blocks whose entries may wait in memory to be folded into pages of the block map; left out: one in 128 of what the capacity
    /// devices have, and no fewer than half of the log has, up to half a million. 24 bytes each. Twice as many make half of the pages.
    pub map_waiting_blocks: Option<u64>,
    /// Leaves of 64 blocks on a page of the block map, at most. Fewer make more pages, for tests.
    pub map_page_leaves_max: usize,
    /// Bytes of memory for the tables by which equal blocks are found, where they are stored once.
    pub hooks_bytes: u64,
    /// How it behaves from then on.
    pub running: RunningOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_cache_bytes: 64 << 20,
            map_cache_bytes: 32 << 20,
            outcomes_max: 8192,
            accept_missing: false,
            allowed: Needs::ALL,
            map_waiting_blocks: None,
            map_page_leaves_max: (SHARD_BLOCKS / LEAF_BLOCKS) as usize,
            hooks_bytes: HOOKS_BYTES,
            running: RunningOptions::default(),
        }
    }
}

/// How a disk group behaves while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningOptions {
    /// Log fill in per cent where destage begins. Later means fewer blocks to destage, as more were overwritten before,
    /// and more to read when the group is opened again; `dm-writecache` draws the line at 50, too.
    pub destage_percent: u8,
    /// Log fill in per cent where acknowledgements begin to be delayed.
    pub congestion_low_percent: u8,
    /// Log fill in per cent where writes wait for destage.
    pub congestion_high_percent: u8,
    /// The longest such delay, in microseconds. It follows from the rate of destage and what is outstanding, and is
    /// seldom met: 1 MiB outstanding at 50 MB/s wait for 20 ms. Where it is met guests come to the high mark and wait
    /// there.
    pub congestion_delay_max_us: u64,
    /// Blocks that one destage round reads and writes, at most (but at least a log segment): bounds its memory. The
    /// data of two rounds is in memory at a time.
    pub destage_blocks_max: u32,
    /// Copies with at least so many bytes of data go straight to the capacity tier, past the log: resync, whose bytes
    /// are neither waited for by a guest nor overwritten soon.
    pub place_bytes_min: u64,
    /// Destage what is buffered when nothing was written for so long, in milliseconds; 0 never.
    pub idle_destage_ms: u64,
}

impl Default for RunningOptions {
    fn default() -> Self {
        Self {
            destage_percent: 50,
            congestion_low_percent: 75,
            congestion_high_percent: 90,
            congestion_delay_max_us: 100_000,
            destage_blocks_max: 2 << 10,
            place_bytes_min: 64 << 10,
            idle_destage_ms: 0,
        }
    }
}

fn refuse(text: String) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, text)
}

/// Bytes of metadata for so many bytes of capacity devices.
///
/// Napkin: a full leaf row has ~1.3 KiB per 64 blocks (0.5 %), doubled by half-filled B-tree pages, doubled again by copy-on-write: 2 %.
pub(crate) fn metadata_bytes_of(capacity_bytes: u64) -> u64 {
    capacity_bytes / 50 + (32 << 20)
}

/// Divides a cache device. `log_id` and the open count are the caller's.
pub(crate) fn cache_regions(
    options: &FormatOptions,
    name: &str,
    device_bytes: u64,
    capacity_bytes: u64,
    log_id: u64,
) -> Result<CacheRegions, StoreError> {
    let page = 4096;
    let metadata_bytes = options
        .metadata_bytes
        .unwrap_or_else(|| metadata_bytes_of(capacity_bytes).min(device_bytes / 3))
        .next_multiple_of(page);
    let log_offset = REGIONS_OFFSET + metadata_bytes;
    let room = device_bytes.saturating_sub(log_offset);
    let indexed = (options.index_bytes_max / INDEX_BYTES_PER_BLOCK).saturating_mul(page);
    let wanted = options.log_bytes.unwrap_or_else(|| room.min(LOG_BYTES_MAX).min(indexed));
    if wanted > LOG_BYTES_MAX {
        return Err(refuse(format!(
            "a log of {wanted} bytes is more than a disk group takes: use at most {LOG_BYTES_MAX}"
        )));
    }
    if wanted > indexed {
        let (blocks, allowed) = (wanted / page, options.index_bytes_max);
        let needed = blocks * INDEX_BYTES_PER_BLOCK;
        return Err(refuse(format!(
            "a log of {wanted} bytes may hold {blocks} blocks of 4 KiB, whose index takes up to {INDEX_BYTES_PER_BLOCK} bytes each: \
             {needed} bytes of memory, more than {allowed}: use a log of at most {indexed}, or allow {needed} (tuning.log_memory)"
        )));
    }
    let segment = match options.log_segment_bytes {
        Some(bytes) => u64::from(bytes).next_multiple_of(page),
        None if wanted >= LOG_BYTES_MIN => LOG_SEGMENT_BYTES_MAX,
        None if options.log_bytes.is_some() => {
            return Err(refuse(format!(
                "a log of {wanted} bytes has segments that are too small for a write of 1 MiB, which would fail: use a \
                 log of at least {LOG_BYTES_MIN}"
            )));
        }
        // All that the device has room for.
        None => (wanted / 16).clamp(128 << 10, LOG_SEGMENT_BYTES_MAX).next_power_of_two(),
    };
    // One log segment must fit what a full capacity device keeps free for cleaning.
    let segment = segment.min(u64::from(options.segment_bytes));
    let log_bytes = wanted / segment * segment;
    if metadata_bytes < (4 << 20) || log_bytes < 4 * segment || log_bytes > room {
        return Err(refuse(format!(
            "cache device {name} has {device_bytes} bytes, too few for {metadata_bytes} of metadata and a log of at \
             least {}: use a larger device, or smaller regions",
            4 * segment
        )));
    }
    if segment < (32 << 10) {
        return Err(refuse(format!("a log segment of {segment} bytes is too small: use at least 32 KiB")));
    }
    Ok(CacheRegions {
        metadata_offset: REGIONS_OFFSET,
        metadata_bytes,
        log_offset,
        log_bytes,
        log_segment_bytes: segment as u32,
        log_id,
        open_count: 0,
    })
}

/// Segments of a capacity device, at least.
const SEGMENTS_MIN: u64 = 8;

/// Bytes of a capacity device, at least.
pub fn capacity_bytes_min(options: &FormatOptions) -> u64 {
    REGIONS_OFFSET + SEGMENTS_MIN * u64::from(options.segment_bytes)
}

/// Divides a capacity device.
pub(crate) fn capacity_regions(
    options: &FormatOptions,
    name: &str,
    device_bytes: u64,
    log_id: u64,
) -> Result<CapacityRegions, StoreError> {
    let segment_bytes = options.segment_bytes;
    if segment_bytes < (64 << 10) || !segment_bytes.is_multiple_of(4096) || segment_bytes > (64 << 20) {
        return Err(refuse(format!(
            "a capacity segment of {segment_bytes} bytes does not do: use a multiple of 4 KiB from 64 KiB to 64 MiB"
        )));
    }
    let count = device_bytes.saturating_sub(REGIONS_OFFSET) / u64::from(segment_bytes);
    if count < SEGMENTS_MIN {
        return Err(refuse(format!(
            "capacity device {name} has {device_bytes} bytes, too few for {SEGMENTS_MIN} segments of {segment_bytes}: use a larger device"
        )));
    }
    Ok(CapacityRegions {
        segments_offset: REGIONS_OFFSET,
        segment_count: count.min(u64::from(u32::MAX)) as u32,
        segment_bytes,
        log_id,
    })
}

#[cfg(test)]
mod tests {
    use cairn_format::LogRecord;
    use cairn_types::{BLOCK_BYTES, ClientTag, ComponentId, OpId};

    use super::*;
    use crate::queue::record_bytes_bound;

    /// Goal: memory has a bound however large a log somebody asks for. Method: the largest log that does, one that is larger, that one
    /// with more memory allowed, and one that is above what any group takes.
    #[test]
    fn a_log_whose_index_takes_too_much_memory_is_refused() {
        let regions = |log_bytes, index_bytes_max| {
            let options = FormatOptions { log_bytes, index_bytes_max, ..FormatOptions::default() };
            cache_regions(&options, "nvme0", 1 << 40, 1 << 40, 1)
        };
        let most = INDEX_BYTES_MAX / INDEX_BYTES_PER_BLOCK * 4096;
        let chosen = regions(None, INDEX_BYTES_MAX).expect("what is chosen does").log_bytes;
        assert!(chosen > most - (4 << 20));
        assert_eq!(regions(Some(most), INDEX_BYTES_MAX).expect("as large as one that is chosen").log_bytes, chosen);
        let error = regions(Some(100 << 30), INDEX_BYTES_MAX).expect_err("too large");
        let needed = (100u64 << 30) / 4096 * INDEX_BYTES_PER_BLOCK;
        assert!(error.text.contains("2147483648") && error.text.contains(&format!("allow {needed}")), "{error}");
        assert_eq!(regions(Some(100 << 30), needed).expect("it is allowed").log_bytes, 100 << 30);
        let error = regions(Some(LOG_BYTES_MAX + 4096), u64::MAX).expect_err("too large");
        assert!(error.text.contains("use at most 600000000000"), "{error}");
    }

    /// Goal: no write of 1 MiB fails because somebody asked for a small log. Method: the smallest log that does has segments of which
    /// half holds such a write with its header; a smaller one is refused, unless its segments are asked for as well.
    #[test]
    fn a_log_that_is_too_small_for_a_large_write_is_refused() {
        let regions = |log_bytes, log_segment_bytes| {
            let options = FormatOptions { log_bytes: Some(log_bytes), log_segment_bytes, ..FormatOptions::default() };
            cache_regions(&options, "nvme0", 1 << 30, 1 << 30, 1)
        };
        let least = regions(32 << 20, None).expect("it is large enough");
        let write = LogRecord::Write {
            component: ComponentId(1),
            op: OpId::ZERO,
            settled: OpId::ZERO,
            client: ClientTag::default(),
            first_block: 0,
            crcs: std::iter::repeat_n(0, 256).collect(),
        };
        let header_bytes = record_bytes_bound(&write).next_multiple_of(u64::from(BLOCK_BYTES));
        assert!((1 << 20) + header_bytes <= u64::from(least.log_segment_bytes) / 2);
        let error = regions((32 << 20) - 4096, None).expect_err("too small");
        assert!(error.text.contains("a write of 1 MiB") && error.text.contains("at least 33554432"), "{error}");
        assert_eq!(regions(512 << 10, Some(64 << 10)).expect("as it was asked for").log_segment_bytes, 64 << 10);
    }
}
