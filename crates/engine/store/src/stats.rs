//! What a disk group tells of itself.

use cairn_format::LogRecord;
use cairn_types::{BLOCK_BYTES, DiskGroupId};

use crate::placing::placed_blocks;

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
    /// With what, where it failed while it was in use.
    pub failure: Option<cairn_env::DiskError>,
    /// Capacity devices: bytes that components may use.
    pub usable_bytes: u64,
    /// Capacity devices: bytes that components have or have reserved. What was trimmed or deleted is not among them, though
    /// its space may not be free yet: a write that needs it waits for destage.
    pub charged_bytes: u64,
    /// Capacity devices: bytes of slots in use.
    pub live_bytes: u64,
    /// Capacity devices: segments, and those of them that are free.
    pub segments: u64,
    /// Of which free.
    pub segments_free: u64,
}

/// What was done since the group was opened: only grows. Plain numbers of the shard's thread; bytes are payload unless said.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct StoreCounters {
    /// Batches written to the log.
    pub batches: u64,
    /// Operations in them.
    pub operations: u64,
    /// Writes among the operations: what owners sent for guests.
    pub write_operations: u64,
    /// Bytes of these writes, whole blocks.
    pub write_bytes: u64,
    /// Copies among the operations: what a resync brought.
    pub copy_operations: u64,
    /// Bytes of data in these copies, whole blocks.
    pub copy_bytes: u64,
    /// Zeroes among the operations: trims and writes of zeroes.
    pub zero_operations: u64,
    /// Bytes written to the log on the cache device: headers, padding and data.
    pub log_write_bytes: u64,
    /// Bytes of the log that destage read from the cache device, whole pieces.
    pub destage_read_bytes: u64,
    /// Destage rounds.
    pub destage_rounds: u64,
    /// Blocks destaged.
    pub destaged_blocks: u64,
    /// Bytes written to capacity devices, whoever wrote them: run headers and data.
    pub capacity_write_bytes: u64,
    /// Those of destage.
    pub destage_write_bytes: u64,
    /// Those of the cleaner.
    pub clean_write_bytes: u64,
    /// Those of large copies, which go past the log.
    pub place_write_bytes: u64,
    /// Bytes of capacity devices that the cleaner read, whole segments.
    pub clean_read_bytes: u64,
    /// Blocks that the cleaner moved.
    pub cleaned_blocks: u64,
    /// Segments that the cleaner emptied.
    pub cleaned_segments: u64,
    /// Bytes of metadata rows that transactions changed.
    pub metadata_row_bytes: u64,
    /// Bytes written to the metadata region on the cache device: pages with what stands around those rows.
    pub metadata_write_bytes: u64,
    /// Reads of owners: for guests, for resync, for the edges of writes.
    pub read_operations: u64,
    /// Bytes of blocks that were read from the log on the cache device.
    pub read_log_bytes: u64,
    /// Bytes of blocks that were read from capacity devices.
    pub read_capacity_bytes: u64,
    /// Bytes of holes that were read, from nowhere.
    pub read_hole_bytes: u64,
    /// Blocks read from the read cache in memory.
    pub read_cache_hits: u64,
    /// Blocks that were not there.
    pub read_cache_misses: u64,
    /// Blocks that were read with a wrong checksum or not at all.
    pub bad_blocks: u64,
}

impl StoreCounters {
    /// One operation is in the log.
    pub(crate) fn operation(&mut self, record: &LogRecord, data_bytes: u64) {
        self.operations += 1;
        match record {
            LogRecord::Write { .. } => {
                self.write_operations += 1;
                self.write_bytes += data_bytes;
            }
            LogRecord::Copy { .. } => {
                self.copy_operations += 1;
                self.copy_bytes += data_bytes;
            }
            LogRecord::Placed { pieces, .. } => {
                self.copy_operations += 1;
                self.copy_bytes += placed_blocks(pieces) * u64::from(BLOCK_BYTES);
            }
            LogRecord::Zero { .. } => self.zero_operations += 1,
            _ => {}
        }
    }
}

/// Counters and gauges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStats {
    /// Which disk group.
    pub disk_group: DiskGroupId,
    /// When it was opened, in milliseconds since 1970: counters begin there.
    pub opened_unix_ms: u64,
    /// The cache device.
    pub cache: DeviceStats,
    /// The capacity devices, by index.
    pub capacity: Vec<DeviceStats>,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Of which in use: from the oldest segment that is not destaged to the end.
    pub log_used_bytes: u64,
    /// Thousandths of the log's segments that are in use, begun ones included: what the marks are compared with.
    pub log_fill_permille: u64,
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
    /// Where destage begins, in bytes of the log.
    pub destage_mark_bytes: u64,
    /// The same in per cent of the log.
    pub destage_mark_percent: u64,
    /// Where congestion begins, in bytes of the log.
    pub congestion_low_bytes: u64,
    /// Where congestion is greatest, in bytes of the log.
    pub congestion_high_bytes: u64,
    /// Congestion now: 0 at the low mark, 255 at the high one, a straight line between.
    pub congestion: u8,
    /// Delay of acknowledgements now, in microseconds.
    pub congestion_delay_us: u64,
    /// Bytes of cached blocks.
    pub read_cache_bytes: u64,
    /// Since opening.
    pub counters: StoreCounters,
    /// Why it takes no writes any more, if so.
    pub stopped: Option<String>,
}
