//! Counters: what guests asked and where their bytes went, per host and per disk group, with gauges of this moment.
//!
//! Promises    counters only grow while `incarnation` (of a host) or `open_count` (of a disk group) stay: where those changed,
//!             they began anew; [`Counters::since`] makes the difference of two snapshots accordingly
//! Assumes     bytes are bytes, not blocks; payload is counted in whole 4 KiB blocks
//! Not here    what each number is (`metrics`)

use cairn_metrics::{DiskGauges, GuestCounters, HostGauges, OwnerCounters, RequestTimes, StoreCounters, StoreGauges};
use cairn_types::{DiskGroupId, HostId, ObjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::disk_group::DiskGroupState;

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

/// One disk at one host: guests used it there, or the host owns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskCounters {
    /// The disk.
    #[schema(value_type = String)]
    pub disk: ObjectId,
    /// Its name.
    pub name: String,
    /// At this host, since its process began.
    pub guests: GuestCounters,
    /// How long reads took, as guests saw it.
    #[serde(default)]
    pub reads: RequestTimes,
    /// How long writes took, as guests saw it.
    #[serde(default)]
    pub writes: RequestTimes,
    /// How it is; only where this host owns it.
    #[serde(default)]
    pub gauges: Option<DiskGauges>,
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
    /// What guests asked at this host, all disks together, those that are deleted by now among them.
    pub guests: GuestCounters,
    /// What it did as the owner of disks.
    #[serde(default)]
    pub owner: OwnerCounters,
    /// How it is.
    #[serde(default)]
    pub gauges: HostGauges,
    /// Disks that it owns, or that guests used at this host since it was started, by id; deleted ones are left out.
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
            host.owner = host.owner.since(&before.owner);
            for disk in &mut host.disks {
                if let Some(known) = before.disks.iter().find(|d| d.disk == disk.disk) {
                    disk.guests = disk.guests.since(&known.guests);
                    disk.reads = disk.reads.since(&known.reads);
                    disk.writes = disk.writes.since(&known.writes);
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
            owner: OwnerCounters { resync_out_bytes: bytes, ..OwnerCounters::default() },
            gauges: HostGauges::default(),
            disks: vec![DiskCounters {
                disk: ObjectId(1),
                name: "vm-1".into(),
                guests,
                reads: RequestTimes::default(),
                writes: RequestTimes::new(bytes, 1000 * bytes, [(64, bytes)].into_iter()),
                gauges: None,
            }],
            disk_groups: vec![group],
        };
        Counters { hosts: vec![host], hosts_silent: vec![] }
    }

    fn shown(counters: &Counters) -> (u64, u64, u64, u64) {
        let host = &counters.hosts[0];
        let writes = &host.disks[0].writes;
        assert_eq!((writes.count, writes.buckets[0][1]), (host.disks[0].guests.write_bytes, writes.count));
        (
            counters.guests().write_bytes,
            host.disks[0].guests.write_bytes,
            host.owner.resync_out_bytes,
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
