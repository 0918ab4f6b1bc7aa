//! The numbers themselves. To add one: a line here, and the increment where it happens.

use crate::measure::measures;

measures! {
    /// How one host is at this moment.
    Gauge Host HostGauges {
        /// Other hosts that it hears.
        peers_up: Count,
        /// Disks that it owns.
        disks_owned: Count,
        /// The longest time in the last 15 to 30 seconds that its thread took no new work, as it was at work.
        turn_longest_us: Microseconds,
    }
}

measures! {
    /// What one host did as the owner of disks, since its process began.
    Counter Host OwnerCounters {
        /// Bytes of data that it, as owner, sent to components that are being filled.
        resync_out_bytes: Bytes = "resync out",
        /// Blocks that were bad on one copy and repaired from another.
        repaired_blocks: Count,
        /// Bytes of its disks whose copies it compared, each copy counted once.
        compared_bytes: Bytes,
        /// Blocks of which a copy held an earlier state than the others, and was repaired.
        older_blocks: Count,
        /// Blocks that copies were found to differ in without anything that tells which is right, each time that they were compared.
        undecided_blocks: Count,
    }
}

measures! {
    /// What guests asked through the front ends of a host, and were answered. An unaligned request counts with its own bytes.
    Counter Disk GuestCounters {
        /// Reads that guests were answered.
        read_requests: Count = "guest reads",
        /// Bytes of these reads.
        read_bytes: Bytes = "read",
        /// Writes that guests were answered.
        write_requests: Count = "guest writes",
        /// Bytes of these writes.
        write_bytes: Bytes = "written",
        /// Trims and writes of zeroes that guests were answered.
        zero_requests: Count,
        /// Bytes that these cover.
        zero_bytes: Bytes = "zeroed",
        /// Requests of these kinds that failed.
        failed_requests: Count = "failed",
    }
}

measures! {
    /// How one disk is at its owner.
    Gauge Disk DiskGauges {
        /// Health at its owner: 0 healthy, 1 reduced redundancy, 2 inaccessible, 3 being deleted. Only its owner has it.
        health: Count,
    }
}

measures! {
    /// How one disk group is at this moment.
    Gauge DiskGroup StoreGauges {
        /// Bytes of the log, which is the write buffer.
        log_bytes: Bytes,
        /// Of which in use, that is dirty: what is not destaged, with what is superseded or padding among it.
        log_used_bytes: Bytes,
        /// Thousandths of the log's segments in use, begun ones included: what the marks are compared with.
        log_fill_permille: Permille = "buffer",
        /// Log records that are not destaged.
        records_buffered: Count,
        /// Destage begins here, in bytes of the log.
        destage_mark_bytes: Bytes,
        /// Destage begins here, in per cent of the log.
        destage_mark_percent: Percent,
        /// Congestion begins here, in bytes of the log.
        congestion_low_bytes: Bytes,
        /// Congestion is greatest from here on, in bytes of the log.
        congestion_high_bytes: Bytes,
        /// Congestion, 0 at the low mark to 255 at the high one, a straight line between.
        congestion: Count = "congestion",
        /// How long each acknowledgement waits for it: rises with the square.
        congestion_delay_us: Microseconds,
        /// Bytes of memory that hold cached blocks.
        read_cache_used_bytes: Bytes,
        /// Components that live in it.
        components: Count,
        /// Bytes of all capacity devices that components may use.
        capacity_usable_bytes: Bytes,
        /// Of which may still be written or reserved.
        capacity_free_bytes: Bytes,
        /// Bytes of blocks that are mapped on capacity devices: what was destaged and is not overwritten, trimmed or deleted.
        capacity_live_bytes: Bytes,
        /// Bytes of the metadata region of the cache device.
        metadata_bytes: Bytes,
        /// Of which in use: the file of rows and the pages of the block map.
        metadata_used_bytes: Bytes,
        /// Entries of the block map that wait in memory to be folded into pages.
        map_waiting_blocks: Count,
        /// Changes of the block map that are kept until they are in pages.
        map_kept_blocks: Count,
        /// How long the disk group took to open: its metadata and its log were read.
        opening_us: Microseconds,
        /// Items of capacity devices that several equal blocks refer to.
        shared_items: Count,
        /// References of blocks to these.
        shared_references: Count,
        /// Entries of the tables in memory by which deduplication finds blocks that are stored.
        dedupe_hooks: Count,
        /// Of so many blocks one is entered there, where that is least.
        dedupe_hooks_one_in: Count,
    }
}

measures! {
    /// What one disk group did since it was opened. Payload is counted in whole 4 KiB blocks.
    Counter DiskGroup StoreCounters {
        /// Component writes that the log took: one per guest write and copy.
        write_operations: Count = "writes",
        /// Bytes of these writes: the client's bytes to this copy.
        write_bytes: Bytes = "written",
        /// Component copies that the log took: what resync brought.
        resync_in_operations: Count,
        /// Bytes of data in these copies.
        resync_in_bytes: Bytes = "resync in",
        /// Component trims and writes of zeroes that the log took; they have no data.
        zero_operations: Count,
        /// Operations of any kind that the log took.
        log_operations: Count,
        /// Writes to the log on the cache device: one may hold many operations.
        log_writes: Count,
        /// Bytes of these writes to the device: headers, padding and data.
        log_write_bytes: Bytes = "to log",
        /// Destage rounds, each with one metadata transaction.
        destage_rounds: Count,
        /// Bytes of blocks that destage moved to capacity devices.
        destaged_bytes: Bytes,
        /// Bytes of the log that destage read from the cache device, whole pieces.
        destage_read_bytes: Bytes,
        /// Bytes written to capacity devices by destage: headers and data.
        capacity_write_destage_bytes: Bytes = "by destage",
        /// Bytes written to capacity devices by the cleaner, which empties segments: headers and data.
        capacity_write_clean_bytes: Bytes = "by cleaner",
        /// Bytes written to capacity devices by resync: headers and data of large copies, which go past the log.
        capacity_write_resync_bytes: Bytes = "by resync",
        /// Bytes that the cleaner read from capacity devices, whole segments.
        clean_read_bytes: Bytes,
        /// Bytes of blocks that the cleaner moved.
        cleaned_bytes: Bytes,
        /// Segments that the cleaner emptied.
        cleaned_segments: Count,
        /// Segments that were written anew as it was chosen since.
        rewritten_segments: Count,
        /// Bytes of metadata rows that transactions changed.
        metadata_row_bytes: Bytes,
        /// Bytes written to the metadata region of the cache device: pages around those rows.
        metadata_write_bytes: Bytes = "metadata",
        /// Reads of the metadata region of the cache device: pages of the map that are not in memory, and rows, most of them when it is opened.
        metadata_reads: Count,
        /// Pages of the block map that were read from the cache device.
        map_pages_read: Count,
        /// Pages of the block map that were written; their bytes are among those of the metadata.
        map_pages_written: Count,
        /// Shards of the block map that were packed into new pages.
        map_shards_folded: Count,
        /// Component reads: for guests, for resync, for the edges of unaligned writes.
        read_operations: Count,
        /// Bytes of blocks read from the write buffer on the cache device, as the read cache did not have them.
        read_log_bytes: Bytes = "from log",
        /// Bytes of blocks read from the read cache in memory: hits.
        read_cache_bytes: Bytes = "from memory",
        /// Bytes of blocks read from capacity devices: misses of both.
        read_capacity_bytes: Bytes = "from capacity",
        /// Bytes of holes that were read, from no device.
        read_hole_bytes: Bytes,
        /// Blocks that were read with a wrong checksum or not at all.
        bad_blocks: Count = "bad blocks",
        /// Bytes that scrub read, to compare them with their checksums.
        scrub_read_bytes: Bytes,
        /// Blocks that scrub found bad.
        scrub_bad_blocks: Count,
        /// Blocks that scrub found bad, and that are whole again.
        scrub_repaired_blocks: Count,
        /// Blocks that destage packed.
        packed_blocks: Count,
        /// Bytes that these took, in whole sectors.
        packed_bytes: Bytes,
        /// Blocks that destage wrote as they are, as they did not pack.
        unpacked_blocks: Count,
        /// Blocks of zeroes that destage found and wrote nothing of, with compression or deduplication on.
        zero_blocks: Count,
        /// Blocks that deduplication looked for among those that are stored.
        dedupe_looked_up_blocks: Count,
        /// Headers of runs that were read for that.
        dedupe_header_reads: Count,
        /// Blocks that were compared with a stored one.
        dedupe_compared_blocks: Count,
        /// Of these, blocks that were not equal.
        dedupe_unlike_blocks: Count,
        /// Blocks that refer to an equal one that was stored before.
        dedupe_hit_blocks: Count,
        /// Blocks that refer to an equal one that was destaged with them.
        dedupe_twin_blocks: Count,
        /// Blocks that were equal to a stored one which nobody held any more a moment later: these were written.
        dedupe_late_blocks: Count,
        /// Items with several references that the cleaner moved.
        dedupe_moved_items: Count,
    }
}
