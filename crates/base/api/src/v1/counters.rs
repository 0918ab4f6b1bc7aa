//! Counters: what guests asked and where their bytes went, per host and per disk group, with gauges of this moment.
//!
//! Promises    counters only grow while `incarnation` (of a host) or `open_count` (of a disk group) stay: where those changed,
//!             they began anew; [`Counters::since`] makes the difference of two snapshots accordingly
//! Assumes     bytes are bytes, not blocks; payload is counted in whole 4 KiB blocks

use cairn_types::{DiskGroupId, HostId, ObjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::DiskGroupState;

/// A structure of numbers that only grow, with their differences and sums.
macro_rules! counters {
    ($(#[$of:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: u64,)* }) => {
        $(#[$of])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
        #[serde(default)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// What was added since `earlier`.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }
            /// Both together.
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($field: self.$field.saturating_add(other.$field),)* }
            }
        }
    };
}

counters! {
    /// What guests asked through the front ends of a host, and were answered. An unaligned request counts with its own bytes.
    pub struct GuestCounters {
        /// Reads.
        pub read_requests: u64,
        /// Bytes of these reads.
        pub read_bytes: u64,
        /// Writes.
        pub write_requests: u64,
        /// Bytes of these writes.
        pub write_bytes: u64,
        /// Trims and writes of zeroes.
        pub zero_requests: u64,
        /// Bytes that these cover.
        pub zero_bytes: u64,
        /// Requests of these kinds that failed.
        pub failed_requests: u64,
    }
}

counters! {
    /// What one disk group did since it was opened.
    pub struct StoreCounters {
        /// Component writes that the log took: one per guest write and copy.
        pub write_operations: u64,
        /// Bytes of these writes, whole blocks: the client's bytes to this copy.
        pub write_bytes: u64,
        /// Component copies that the log took: what resync brought.
        pub resync_in_operations: u64,
        /// Bytes of data in these copies.
        pub resync_in_bytes: u64,
        /// Component trims and writes of zeroes that the log took; they have no data.
        pub zero_operations: u64,
        /// Writes to the log on the cache device: one may hold many operations.
        pub log_writes: u64,
        /// Bytes of these writes to the device: headers, padding and data.
        pub log_write_bytes: u64,
        /// Destage rounds, each with one metadata transaction.
        pub destage_rounds: u64,
        /// Bytes of blocks that destage moved to capacity devices.
        pub destaged_bytes: u64,
        /// Bytes of the log that destage read from the cache device.
        pub destage_read_bytes: u64,
        /// Bytes written to capacity devices by destage: headers and data.
        pub capacity_write_destage_bytes: u64,
        /// Bytes written to capacity devices by the cleaner, which empties segments.
        pub capacity_write_clean_bytes: u64,
        /// Bytes written to capacity devices by resync: headers and data of large copies, which go past the log.
        pub capacity_write_resync_bytes: u64,
        /// Bytes written to capacity devices by anybody else: 0, as every write of a guest goes through the log.
        pub capacity_write_other_bytes: u64,
        /// Bytes that the cleaner read from capacity devices.
        pub clean_read_bytes: u64,
        /// Bytes of metadata rows that transactions changed.
        pub metadata_row_bytes: u64,
        /// Bytes written to the metadata region of the cache device: pages around those rows.
        pub metadata_write_bytes: u64,
        /// Component reads: for guests, for resync, for the edges of unaligned writes.
        pub read_operations: u64,
        /// Bytes of blocks read from the write buffer on the cache device.
        pub read_log_bytes: u64,
        /// Bytes of blocks read from the read cache in memory: hits.
        pub read_cache_bytes: u64,
        /// Bytes of blocks read from capacity devices: misses of both.
        pub read_capacity_bytes: u64,
        /// Bytes of holes that were read, from no device.
        pub read_hole_bytes: u64,
        /// Blocks that were read with a wrong checksum or not at all.
        pub bad_blocks: u64,
    }
}

/// How one disk group is at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct StoreGauges {
    /// Bytes of the log, which is the write buffer.
    pub log_bytes: u64,
    /// Of which in use, that is dirty: what is not destaged, with what is superseded or padding among it.
    pub log_used_bytes: u64,
    /// Thousandths of the log's segments in use, begun ones included: what the marks are compared with.
    pub log_fill_permille: u64,
    /// Log records that are not destaged.
    pub records_buffered: u64,
    /// Destage begins here, in bytes of the log.
    pub destage_mark_bytes: u64,
    /// Destage begins here, in per cent of the log.
    pub destage_mark_percent: u64,
    /// Congestion begins here, in bytes of the log.
    pub congestion_low_bytes: u64,
    /// Congestion is greatest from here on, in bytes of the log.
    pub congestion_high_bytes: u64,
    /// Congestion, 0 at the low mark to 255 at the high one, a straight line between.
    pub congestion: u8,
    /// How long each acknowledgement waits for it, in microseconds: rises with the square.
    pub congestion_delay_us: u64,
    /// Bytes of memory that hold cached blocks.
    pub read_cache_used_bytes: u64,
}

/// One disk group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskGroupCounters {
    /// Its id.
    #[schema(value_type = String)]
    pub id: DiskGroupId,
    /// Whether it can be used.
    pub state: DiskGroupState,
    /// Why not, when it cannot.
    #[serde(default)]
    pub reason: Option<String>,
    /// How often it was opened: counters begin anew with each opening. 0 where it could not be opened.
    pub open_count: u64,
    /// When it was opened last, in milliseconds since 1970.
    pub opened_unix_ms: u64,
    /// Since then; none where it could not be opened.
    #[serde(default)]
    pub counters: Option<StoreCounters>,
    /// Now; none where it could not be opened.
    #[serde(default)]
    pub gauges: Option<StoreGauges>,
}

/// What guests asked of one disk at one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskCounters {
    /// The disk.
    #[schema(value_type = String)]
    pub disk: ObjectId,
    /// Its name; its id where it is deleted.
    pub name: String,
    /// At this host, since its process began.
    pub guests: GuestCounters,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostCounters {
    /// Its id.
    #[schema(value_type = String)]
    pub host: HostId,
    /// Its name.
    pub host_name: String,
    /// How many times its process was started: what is counted for the host begins anew with each.
    pub incarnation: u64,
    /// When it was started last, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// When these numbers were taken, by its clock, in milliseconds since 1970.
    pub unix_ms: u64,
    /// What guests asked at this host, all disks together.
    pub guests: GuestCounters,
    /// Bytes of data that it, as owner, sent to components that are being filled.
    pub resync_out_bytes: u64,
    /// Disks that guests used at this host since it was started, by id.
    pub disks: Vec<DiskCounters>,
    /// Its disk groups, by id.
    pub disk_groups: Vec<DiskGroupCounters>,
}

/// The counters of all hosts that answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Counters {
    /// By name.
    pub hosts: Vec<HostCounters>,
    /// Names of hosts that the cluster knows and that did not answer: their numbers are missing here.
    pub hosts_silent: Vec<String>,
}

impl Counters {
    /// What was added since `earlier`; gauges stay those of now. What began anew meanwhile counts from its beginning, what
    /// is in `earlier` only is left out.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut now = self.clone();
        for host in &mut now.hosts {
            let before = earlier.hosts.iter().find(|h| h.host == host.host);
            for group in &mut host.disk_groups {
                let groups = before.iter().flat_map(|h| &h.disk_groups);
                let known = groups.into_iter().find(|g| g.id == group.id && g.open_count == group.open_count);
                if let (Some(counters), Some(known)) = (&mut group.counters, known.and_then(|g| g.counters)) {
                    *counters = counters.since(&known);
                }
            }
            let Some(before) = before.filter(|h| h.incarnation == host.incarnation) else { continue };
            host.guests = host.guests.since(&before.guests);
            host.resync_out_bytes = host.resync_out_bytes.saturating_sub(before.resync_out_bytes);
            for disk in &mut host.disks {
                if let Some(known) = before.disks.iter().find(|d| d.disk == disk.disk) {
                    disk.guests = disk.guests.since(&known.guests);
                }
            }
        }
        now
    }

    /// What guests asked at all hosts.
    pub fn guests(&self) -> GuestCounters {
        self.hosts.iter().fold(GuestCounters::default(), |sum, host| sum.plus(&host.guests))
    }

    /// What all disk groups did.
    pub fn stores(&self) -> StoreCounters {
        let groups = self.hosts.iter().flat_map(|host| &host.disk_groups);
        groups.filter_map(|group| group.counters).fold(StoreCounters::default(), |sum, counters| sum.plus(&counters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(incarnation: u64, open_count: u64, bytes: u64) -> Counters {
        let guests = GuestCounters { write_bytes: bytes, ..GuestCounters::default() };
        let counters = StoreCounters { write_bytes: 2 * bytes, ..StoreCounters::default() };
        let group = DiskGroupCounters {
            id: DiskGroupId(1),
            state: DiskGroupState::Mounted,
            reason: None,
            open_count,
            opened_unix_ms: 0,
            counters: Some(counters),
            gauges: None,
        };
        let host = HostCounters {
            host: HostId(1),
            host_name: "host-1".into(),
            incarnation,
            started_unix_ms: 0,
            unix_ms: 0,
            guests,
            resync_out_bytes: bytes,
            disks: vec![DiskCounters { disk: ObjectId(1), name: "vm-1".into(), guests }],
            disk_groups: vec![group],
        };
        Counters { hosts: vec![host], hosts_silent: vec![] }
    }

    fn shown(counters: &Counters) -> (u64, u64, u64, u64) {
        let host = &counters.hosts[0];
        (
            counters.guests().write_bytes,
            host.disks[0].guests.write_bytes,
            host.resync_out_bytes,
            counters.stores().write_bytes,
        )
    }

    #[test]
    fn differences_begin_anew_where_the_counters_did() {
        let now = snapshot(3, 5, 100);
        assert_eq!(shown(&now.since(&snapshot(3, 5, 60))), (40, 40, 40, 80));
        assert_eq!(shown(&now.since(&snapshot(3, 4, 60))), (40, 40, 40, 200));
        assert_eq!(shown(&now.since(&snapshot(2, 4, 60))), (100, 100, 100, 200));
        assert_eq!(shown(&now.since(&Counters::default())), (100, 100, 100, 200));
    }

    #[test]
    fn a_reader_takes_a_snapshot_of_a_later_release() {
        let mut value = serde_json::to_value(snapshot(1, 1, 7)).unwrap();
        value["hosts"][0]["guests"]["new_requests"] = 1.into();
        assert_eq!(serde_json::from_value::<Counters>(value).unwrap(), snapshot(1, 1, 7));
    }
}
