//! What a disk group tells of itself.

use cairn_format::{LogRecord, PlacedPiece};
use cairn_metrics::{StoreCounters, StoreGauges};
use cairn_types::{BLOCK_BYTES, DeviceId, DiskGroupId};

use crate::rewriting::RewriteProgress;

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
    /// Its id; [`cairn_format::NO_DEVICE`]: a number whose device was given up.
    pub device: DeviceId,
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
    /// Capacity devices: bytes of spots in use.
    pub live_bytes: u64,
    /// Capacity devices: segments, and those of them that are free.
    pub segments: u64,
    /// Of which free.
    pub segments_free: u64,
}

/// One operation is in the log.
pub(crate) fn count_operation(counters: &mut StoreCounters, record: &LogRecord, data_bytes: u64) {
    counters.log_operations += 1;
    match record {
        LogRecord::Write { .. } | LogRecord::Rows { .. } => {
            counters.write_operations += 1;
            counters.write_bytes += data_bytes;
        }
        LogRecord::Copy { .. } => {
            counters.resync_in_operations += 1;
            counters.resync_in_bytes += data_bytes;
        }
        LogRecord::Placed { pieces, .. } => {
            counters.resync_in_operations += 1;
            let blocks: u64 = pieces.iter().map(PlacedPiece::data_blocks).sum();
            counters.resync_in_bytes += blocks * u64::from(BLOCK_BYTES);
        }
        LogRecord::Zero { .. } | LogRecord::ZeroRows { .. } => counters.zero_operations += 1,
        _ => {}
    }
}

/// Counters and gauges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStats {
    /// Which disk group.
    pub disk_group: DiskGroupId,
    /// When it was opened, in milliseconds since 1970: counters begin there.
    pub opened_unix_ms: u64,
    /// How long opening took, in microseconds.
    pub opening_us: u64,
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
    /// Bytes of the metadata region.
    pub metadata_bytes: u64,
    /// Bytes of it in use.
    pub metadata_used_bytes: u64,
    /// Entries of the block map that wait in memory.
    pub map_waiting_blocks: u64,
    /// Changes of the block map that are kept until they are in pages.
    pub map_kept_blocks: u64,
    /// Parts of the block map are rows of an earlier release, or may be.
    pub map_has_rows: bool,
    /// What is destaged is packed.
    pub compression: bool,
    /// Equal blocks are stored once.
    pub deduplication: bool,
    /// What was written before a choice is written anew; none where nothing is.
    pub rewriting: Option<RewriteProgress>,
    /// Items of capacity devices that several blocks refer to.
    pub shared_items: u64,
    /// References to them.
    pub shared_references: u64,
    /// Entries of the tables by which equal blocks are found.
    pub hooks: u64,
    /// Of so many blocks one is entered there.
    pub hooks_one_in: u64,
    /// Since opening.
    pub counters: StoreCounters,
    /// Why it takes no writes any more, if so.
    pub stopped: Option<String>,
}

impl StoreStats {
    /// The declared gauges.
    pub fn gauges(&self) -> StoreGauges {
        StoreGauges {
            log_bytes: self.log_bytes,
            log_used_bytes: self.log_used_bytes,
            log_fill_permille: self.log_fill_permille,
            records_buffered: self.records_buffered,
            destage_mark_bytes: self.destage_mark_bytes,
            destage_mark_percent: self.destage_mark_percent,
            congestion_low_bytes: self.congestion_low_bytes,
            congestion_high_bytes: self.congestion_high_bytes,
            congestion: u64::from(self.congestion),
            congestion_delay_us: self.congestion_delay_us,
            read_cache_used_bytes: self.read_cache_bytes,
            components: self.components,
            capacity_usable_bytes: self.usable_bytes,
            capacity_free_bytes: self.free_bytes,
            metadata_bytes: self.metadata_bytes,
            metadata_used_bytes: self.metadata_used_bytes,
            map_waiting_blocks: self.map_waiting_blocks,
            map_kept_blocks: self.map_kept_blocks,
            capacity_live_bytes: self.capacity.iter().map(|device| device.live_bytes).sum(),
            shared_items: self.shared_items,
            shared_references: self.shared_references,
            dedupe_hooks: self.hooks,
            dedupe_hooks_one_in: self.hooks_one_in,
            opening_us: self.opening_us,
        }
    }
}
