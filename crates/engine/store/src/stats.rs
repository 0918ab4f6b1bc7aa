//! What a disk group tells of itself.

use cairn_types::DiskGroupId;

/// Whether the log was whole when the disk group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogHealth {
    /// Every batch that was ever durable was read.
    Sound,
    /// Batches that were durable are not readable: what follows `ends_at` is missing. Components of this disk group
    /// may lack acknowledged operations, its records may be older than what was promised.
    Damaged {
        /// The log position up to which all is there.
        ends_at: u64,
    },
}

/// A device and how it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceStats {
    /// Its name for people.
    pub name: String,
    /// The medium that it only models; none where it is what it is.
    pub medium: Option<String>,
    /// Its length.
    pub bytes: u64,
    /// It failed or is missing.
    pub failed: bool,
    /// Capacity devices: bytes that components may use.
    pub usable_bytes: u64,
    /// Capacity devices: bytes that components have or have reserved.
    pub charged_bytes: u64,
    /// Capacity devices: bytes of slots in use.
    pub live_bytes: u64,
    /// Capacity devices: segments, and those of them that are free.
    pub segments: u64,
    /// Of which free.
    pub segments_free: u64,
}

/// Counters and gauges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStats {
    /// Which disk group.
    pub disk_group: DiskGroupId,
    /// The cache device.
    pub cache: DeviceStats,
    /// The capacity devices, by index.
    pub capacity: Vec<DeviceStats>,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Of which in use.
    pub log_used_bytes: u64,
    /// Log records that are not destaged.
    pub records_buffered: u64,
    /// Components.
    pub components: u64,
    /// Bytes that components may use on all capacity devices.
    pub usable_bytes: u64,
    /// Bytes that components have or have reserved.
    pub charged_bytes: u64,
    /// What may still be written or reserved.
    pub free_bytes: u64,
    /// Delay of acknowledgements now, in microseconds.
    pub congestion_delay_us: u64,
    /// Batches written since opening.
    pub batches: u64,
    /// Operations in them.
    pub operations: u64,
    /// Destage rounds since opening.
    pub destage_rounds: u64,
    /// Blocks destaged.
    pub destaged_blocks: u64,
    /// Blocks that the cleaner moved.
    pub cleaned_blocks: u64,
    /// Segments that the cleaner emptied.
    pub cleaned_segments: u64,
    /// Bytes of metadata rows written.
    pub metadata_row_bytes: u64,
    /// Bytes of cached blocks.
    pub read_cache_bytes: u64,
    /// Blocks read from the cache.
    pub read_cache_hits: u64,
    /// Blocks that were not there.
    pub read_cache_misses: u64,
    /// Blocks that were read with a wrong checksum or not at all.
    pub bad_blocks: u64,
    /// Why it takes no writes any more, if so.
    pub stopped: Option<String>,
}

/// Counters inside.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counters {
    pub batches: u64,
    pub operations: u64,
    pub destage_rounds: u64,
    pub destaged_blocks: u64,
    pub cleaned_blocks: u64,
    pub cleaned_segments: u64,
    pub metadata_row_bytes: u64,
    pub bad_blocks: u64,
}
