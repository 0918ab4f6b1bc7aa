//! Latencies: how long each stage of guests' reads and writes took, per disk at the hosts that took part, and in the logs.
//!
//! Promises    counts and sums only grow while `incarnation` (of a host) or `open_count` (of a disk group) stay; [`Latencies::since`]
//!             makes the difference of two snapshots, and leaves out what one of them does not have
//! Assumes     times of one stage come from one host's clock: hosts' clocks are never compared
//! Not here    which stage is to blame (`explain`)

use cairn_types::{DiskGroupId, HostId, ObjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a guest asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IoOperation {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// A part of the way of a read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IoStage {
    /// At the guest's host: the whole, from the front end to the front end. Requests that failed are left out.
    Request,
    /// At the guest's host: tries before the one that was answered. Only requests that had any.
    OwnerWait,
    /// At the guest's host: to the owner on another host and back.
    Forward,
    /// At the owner: the whole of a request that another host forwarded.
    Served,
    /// At the owner: the policy's IOPS limit, and room for the bytes in flight.
    Admission,
    /// At the owner: requests for the same blocks.
    Lock,
    /// At the owner: reading the rest of the first and last block of an unaligned write. Only those.
    Edges,
    /// At the owner: until all copies that count have the write, or the data is there.
    Copies,
    /// At the owner, part of that: one copy, sent to answered.
    Copy,
    /// At the owner, part of that: from the first copy's answer to the last one's.
    SlowerCopy,
    /// At the owner, part of that: a copy that failed is recorded absent. Only those.
    Recording,
    /// At the owner: leases that have to be renewed before an answer. Only those.
    Lease,
    /// In the log of a disk group: waiting for the writes before.
    LogQueue,
    /// In the log of a disk group: waiting for destage to make room. Only those that waited.
    LogRoom,
    /// In the log of a disk group: the write to the cache device.
    LogDevice,
    /// In the log of a disk group: acknowledgements that are held back while it fills up. Only those.
    Congestion,
    /// In a disk group: reading the block map from the metadata. Only where memory does not have it.
    Map,
    /// In a disk group: reads of memory and of holes only.
    Memory,
    /// In a disk group: reads of which some came from the log on the cache device.
    ReadLog,
    /// In a disk group: reads of which some came from a capacity device.
    ReadCapacity,
    /// Worked out: what remains of a way to another host and back without that host's part: network and both hosts' processors.
    Network,
    /// Worked out: what remains at one host without what is measured: its processors, and waiting for them.
    Processors,
}

/// Where one copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct CopyPlace {
    /// Its host.
    #[schema(value_type = String)]
    pub host: HostId,
    /// Its disk group.
    #[schema(value_type = String)]
    pub disk_group: DiskGroupId,
}

/// How long one stage took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StageLatencies {
    /// Of which requests.
    pub operation: IoOperation,
    /// Which stage.
    pub stage: IoStage,
    /// Which copy, where the stage is [`IoStage::Copy`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyPlace>,
    /// How many times.
    pub count: u64,
    /// All together, in nanoseconds.
    pub sum_ns: u64,
    /// The longest, in nanoseconds; of a difference, not shorter than that.
    pub max_ns: u64,
    /// Of [`IoStage::Copy`] of writes, in nanoseconds: those times that a request waited for, the other copies having come before.
    #[serde(default)]
    pub last_ns: u64,
    /// Ascending triples: from so many microseconds, below so many microseconds, how many. At most 1/8 of its latency wide from 8
    /// microseconds on. Left out of an overview but for whole requests.
    #[serde(default)]
    pub bins: Vec<[u64; 3]>,
}

impl StageLatencies {
    /// The mean in microseconds; none of nothing.
    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1000.0)
    }

    /// The longest in microseconds; none of nothing.
    pub fn max_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.max_ns as f64 / 1000.0)
    }

    /// So many thousandths took at most this many microseconds, to the width of a bin; none of nothing, or without bins.
    pub fn quantile_us(&self, permille: u64) -> Option<f64> {
        let all: u64 = self.bins.iter().map(|[.., count]| count).sum();
        let due = (u128::from(all) * u128::from(permille)).div_ceil(1000).max(1) as u64;
        let mut seen = 0;
        for [from, below, count] in &self.bins {
            if seen + count >= due {
                let within = (due - seen) as f64 / *count as f64;
                let found = *from as f64 + within * below.saturating_sub(*from) as f64;
                return Some(found.min(self.max_ns as f64 / 1000.0));
            }
            seen += count;
        }
        None
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |from: u64| earlier.bins.iter().find(|[first, ..]| *first == from).map_or(0, |[.., count]| *count);
        let bins = self.bins.iter().map(|[from, below, count]| [*from, *below, count.saturating_sub(before(*from))]);
        let bins: Vec<[u64; 3]> = bins.filter(|[.., count]| *count > 0).collect();
        // The longest of all is that of the difference where it is news; else some in the last bin was, at most its end.
        let max_ns = match bins.last() {
            Some([_, below, _]) if self.max_ns == earlier.max_ns => self.max_ns.min(below.saturating_mul(1000)),
            _ => self.max_ns,
        };
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            last_ns: self.last_ns.saturating_sub(earlier.last_ns),
            max_ns,
            bins,
            ..self.clone()
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.operation, self.stage, self.copy) == (other.operation, other.stage, other.copy)
    }
}

/// What was added to each stage; stages without anything are left out.
fn stages_since(now: &mut Vec<StageLatencies>, earlier: &[StageLatencies]) {
    for stage in &mut *now {
        if let Some(before) = earlier.iter().find(|before| before.is_same(stage)) {
            *stage = stage.since(before);
        }
    }
    now.retain(|stage| stage.count > 0);
}

/// Of one disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskLatencies {
    /// The disk.
    #[schema(value_type = String)]
    pub disk: ObjectId,
    /// Its name; its id where it is deleted.
    pub name: String,
    /// Stages that were gone through, in the order of a request.
    pub stages: Vec<StageLatencies>,
}

/// In one disk group, since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskGroupLatencies {
    /// Its id.
    #[schema(value_type = String)]
    pub id: DiskGroupId,
    /// How often it was opened: latencies begin anew with each opening.
    pub open_count: u64,
    /// Guests' writes of all disks in its log.
    pub log: Vec<StageLatencies>,
    /// Reads of each disk: for guests, for resync, for the edges of unaligned writes.
    pub reads: Vec<DiskLatencies>,
}

/// At one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostLatencies {
    /// Its id.
    #[schema(value_type = String)]
    pub host: HostId,
    /// Its name.
    pub host_name: String,
    /// How many times its process was started: latencies of disks begin anew with each.
    pub incarnation: u64,
    /// When these numbers were taken, by its clock, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Disks that guests used through this host, or that it owned while they did: of an overview those with the most requests.
    pub disks: Vec<DiskLatencies>,
    /// How many more there are, which an overview leaves out, here or below.
    pub disks_left_out: u64,
    /// Its disk groups, by id; those that hold a part of the disk, where one was asked for.
    pub disk_groups: Vec<DiskGroupLatencies>,
}

/// The latencies of all hosts that answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Latencies {
    /// By name.
    pub hosts: Vec<HostLatencies>,
    /// Names of hosts that the cluster knows and that did not answer: their numbers are missing here.
    pub hosts_silent: Vec<String>,
}

impl Latencies {
    /// What was added since `earlier`. What began anew meanwhile counts from its beginning. Hosts that did not answer then, and
    /// disks that were left out then, are missing: nobody knows what was added to them.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut now = self.clone();
        let (told, silent) = now.hosts.into_iter().partition(|host| !earlier.hosts_silent.contains(&host.host_name));
        now.hosts = told;
        now.hosts_silent.extend(Vec::into_iter(silent).map(|host| host.host_name));
        for host in &mut now.hosts {
            if let Some(before) = earlier.hosts.iter().find(|before| before.host == host.host) {
                host.since(before);
            }
        }
        now
    }
}

impl HostLatencies {
    fn since(&mut self, earlier: &Self) {
        if self.incarnation == earlier.incarnation {
            disks_since(&mut self.disks, &earlier.disks, earlier.disks_left_out == 0);
        }
        for group in &mut self.disk_groups {
            let known = |before: &&DiskGroupLatencies| before.id == group.id && before.open_count == group.open_count;
            if let Some(before) = earlier.disk_groups.iter().find(known) {
                stages_since(&mut group.log, &before.log);
                disks_since(&mut group.reads, &before.reads, earlier.disks_left_out == 0);
            }
        }
    }
}

/// `complete`: a disk that is not in `earlier` had nothing then.
fn disks_since(now: &mut Vec<DiskLatencies>, earlier: &[DiskLatencies], complete: bool) {
    now.retain_mut(|disk| match earlier.iter().find(|before| before.disk == disk.disk) {
        Some(before) => {
            stages_since(&mut disk.stages, &before.stages);
            true
        }
        None => complete,
    });
}

#[cfg(test)]
mod tests {
    use cairn_measure::Latencies as Measured;
    use proptest::prelude::*;

    use super::*;

    fn told(all: &Measured) -> StageLatencies {
        StageLatencies {
            operation: IoOperation::Write,
            stage: IoStage::Request,
            copy: None,
            count: all.count(),
            sum_ns: all.sum_ns(),
            max_ns: all.max_ns(),
            last_ns: 0,
            bins: all.bins().iter().map(|bin| [bin.from_us, bin.below_us, bin.count]).collect(),
        }
    }

    fn measured(all: &[u64]) -> Measured {
        let mut measured = Measured::default();
        all.iter().for_each(|ns| measured.record(*ns));
        measured
    }

    fn latencies() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0u32..35, any::<u64>()).prop_map(|(bits, ns)| ns % (2 << bits)), 1..200)
    }

    proptest! {
        /// Goal: an interval tells what came within it, and nothing of what was before. Method: the later ones alone, sorted.
        #[test]
        fn a_difference_is_what_came_between(earlier in latencies(), mut later in latencies(), permille in 1u64..=1000) {
            let before = told(&measured(&earlier));
            let now = told(&measured(&[earlier.clone(), later.clone()].concat()));
            let added = now.since(&before);
            later.sort_unstable();
            let longest = *later.last().unwrap();
            prop_assert_eq!((added.count, added.sum_ns), (later.len() as u64, later.iter().sum::<u64>()));
            prop_assert_eq!(&added.bins, &told(&measured(&later)).bins);
            prop_assert!(added.max_ns >= longest && added.max_ns <= (longest + longest / 8).max(longest + 2000));
            let rank = (later.len() as u64 * permille).div_ceil(1000);
            let (found, due) = (added.quantile_us(permille).unwrap(), later[rank as usize - 1] as f64 / 1000.0);
            prop_assert!((found - due).abs() <= (due / 8.0).max(1.0), "{permille} permille: {found} us, not {due} us");
        }
    }

    #[test]
    fn nothing_has_no_number() {
        let none = told(&Measured::default());
        assert_eq!((none.mean_us(), none.max_us(), none.quantile_us(500)), (None, None, None));
    }

    fn snapshot(incarnation: u64, open_count: u64, ns: &[u64]) -> Latencies {
        let disk = DiskLatencies { disk: ObjectId(1), name: "vm-1".into(), stages: vec![told(&measured(ns))] };
        let group = DiskGroupLatencies {
            id: DiskGroupId(1),
            open_count,
            log: vec![told(&measured(ns))],
            reads: vec![disk.clone()],
        };
        let host = HostLatencies {
            host: HostId(1),
            host_name: "host-1".into(),
            incarnation,
            unix_ms: 0,
            disks: vec![disk],
            disks_left_out: 0,
            disk_groups: vec![group],
        };
        Latencies { hosts: vec![host], hosts_silent: vec![] }
    }

    /// How many: requests of the disk, writes in the log, reads.
    fn counts(all: &Latencies) -> [u64; 3] {
        let host = &all.hosts[0];
        let group = &host.disk_groups[0];
        [&host.disks[0].stages, &group.log, &group.reads[0].stages].map(|s| s.iter().map(|s| s.count).sum())
    }

    #[test]
    fn differences_begin_anew_where_the_latencies_did() {
        let now = snapshot(3, 5, &[1, 2, 3]);
        assert_eq!(counts(&now.since(&snapshot(3, 5, &[1, 2]))), [1, 1, 1]);
        assert_eq!(counts(&now.since(&snapshot(3, 4, &[1, 2]))), [1, 3, 3]);
        assert_eq!(counts(&now.since(&snapshot(2, 4, &[1, 2]))), [3, 3, 3]);
        assert_eq!(counts(&now.since(&snapshot(3, 5, &[1, 2, 3]))), [0, 0, 0]);
    }

    #[test]
    fn what_was_not_known_before_has_no_difference() {
        let now = snapshot(3, 5, &[1, 2, 3]);
        let silent = Latencies { hosts: vec![], hosts_silent: vec!["host-1".into()] };
        let none = now.since(&silent);
        assert_eq!((none.hosts.len(), none.hosts_silent), (0, vec!["host-1".to_owned()]));
        let mut other = snapshot(3, 5, &[1]);
        other.hosts[0].disks[0].disk = ObjectId(2);
        assert_eq!(now.since(&other).hosts[0].disks.len(), 1, "its first request came since");
        other.hosts[0].disks_left_out = 1;
        assert_eq!(now.since(&other).hosts[0].disks.len(), 0, "it may have been the one that was left out");
    }
}
