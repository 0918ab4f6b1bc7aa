//! Why a disk is slow: the shares of its requests' time, each with the host where it passes.
//!
//! Promises    the shares of the lines that are no sums of others add up to the whole, to rounding; the largest is marked
//! Assumes     in the log of a disk group a write of one disk waits as long as one of another, in the mean; what a copy took as
//!             its owner saw it, without what its host says of it, passed on the network and in processors
//! Method      the owner's stages follow one another and are added; the time of the copies goes to those that were waited for
//!             last, and of each copy to its host's own stages in proportion to their means

use cairn_types::{DiskGroupId, HostId, ObjectId};
use serde::Serialize;

use super::latency::{CopyPlace, HostLatencies, IoOperation, IoStage, Latencies, StageLatencies};

/// One stage at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedStage {
    /// The stage.
    pub stage: IoStage,
    /// How deep: a line is a sum of the lines below it that are one deeper.
    pub depth: u8,
    /// The host where this time passes.
    pub host: String,
    /// The host at the other end of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_host: Option<String>,
    /// The disk group where it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_group: Option<DiskGroupId>,
    /// How many times.
    pub count: u64,
    /// The mean in microseconds.
    pub mean_us: f64,
    /// Half took at most this, in microseconds. None where it is only worked out.
    pub p50_us: Option<f64>,
    /// 99 of 100 took at most this, in microseconds.
    pub p99_us: Option<f64>,
    /// The longest, in microseconds.
    pub max_us: Option<f64>,
    /// The share of the time of all requests, 0..=1. None where it passes beside other lines.
    pub share: Option<f64>,
    /// The largest share of those that are no sum of others.
    pub slowest: bool,
}

/// Where the time of a disk's reads or writes went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// Reads or writes.
    pub operation: IoOperation,
    /// Requests of guests that were answered.
    pub requests: u64,
    /// Their mean time in microseconds.
    pub mean_us: f64,
    /// The stages in the order of a request.
    pub stages: Vec<ExplainedStage>,
}

impl Explained {
    /// The stage with the largest share.
    pub fn slowest(&self) -> Option<&ExplainedStage> {
        self.stages.iter().find(|stage| stage.slowest)
    }
}

/// Two digits after the point are more than is measured.
fn rounded(us: f64) -> f64 {
    (us * 100.0).round() / 100.0
}

/// Lines that are being collected.
struct Lines {
    lines: Vec<ExplainedStage>,
    whole_ns: f64,
}

impl Lines {
    /// A line of what was measured; `ns` is its share of the whole.
    fn measured(&mut self, depth: u8, host: &str, of: &StageLatencies, ns: Option<f64>) {
        let Some(mean_us) = of.mean_us() else { return };
        self.lines.push(ExplainedStage {
            stage: of.stage,
            depth,
            host: host.to_owned(),
            to_host: None,
            disk_group: of.copy.map(|copy| copy.disk_group),
            count: of.count,
            mean_us: rounded(mean_us),
            p50_us: of.quantile_us(500).map(rounded),
            p99_us: of.quantile_us(990).map(rounded),
            max_us: of.max_us().map(rounded),
            share: ns.map(|ns| self.share(ns)),
            slowest: false,
        });
    }

    /// A line of what is worked out.
    fn worked_out(&mut self, depth: u8, stage: IoStage, (host, to): (&str, Option<&str>), count: u64, ns: (f64, f64)) {
        let (sum_ns, share_ns) = ns;
        self.lines.push(ExplainedStage {
            stage,
            depth,
            host: host.to_owned(),
            to_host: to.map(str::to_owned),
            disk_group: None,
            count,
            mean_us: rounded(sum_ns / count.max(1) as f64 / 1000.0),
            p50_us: None,
            p99_us: None,
            max_us: None,
            share: Some(self.share(share_ns)),
            slowest: false,
        });
    }

    fn share(&self, ns: f64) -> f64 {
        (ns / self.whole_ns * 10_000.0).round() / 10_000.0
    }

    /// Marks the largest of those that are no sum of others.
    fn mark(&mut self) {
        let is_leaf = |at: usize| self.lines.get(at + 1).is_none_or(|next| next.depth <= self.lines[at].depth);
        let leaves = (0..self.lines.len()).filter(|at| self.lines[*at].depth > 0 && is_leaf(*at));
        let shares = leaves.filter_map(|at| Some((at, self.lines[at].share?)));
        if let Some((at, _)) = shares.max_by(|a, b| a.1.total_cmp(&b.1)) {
            self.lines[at].slowest = true;
        }
    }
}

/// The measured stages of one disk at one host.
struct At<'a> {
    host: &'a HostLatencies,
    stages: Vec<&'a StageLatencies>,
}

impl<'a> At<'a> {
    fn of(&self, stage: IoStage) -> Option<&'a StageLatencies> {
        self.stages.iter().copied().find(|s| s.stage == stage)
    }

    fn sum_ns(&self, stage: IoStage) -> f64 {
        self.of(stage).map_or(0.0, |s| s.sum_ns as f64)
    }
}

impl Latencies {
    /// Where the time of a disk's reads or writes went; none where guests had none answered.
    pub fn explain(&self, disk: ObjectId, operation: IoOperation) -> Option<Explained> {
        let at: Vec<At<'_>> = self.hosts.iter().filter_map(|host| at_host(host, disk, operation)).collect();
        let sum = |stage| at.iter().map(|at| at.sum_ns(stage)).sum::<f64>();
        let requests: u64 = at.iter().filter_map(|at| at.of(IoStage::Request)).map(|whole| whole.count).sum();
        let whole_ns = sum(IoStage::Request);
        if requests == 0 || whole_ns <= 0.0 {
            return None;
        }
        let mut lines = Lines { lines: Vec::new(), whole_ns };
        let owner = at.iter().max_by(|a, b| a.sum_ns(IoStage::Copies).total_cmp(&b.sum_ns(IoStage::Copies)));
        let owner_name = owner.map_or("", |at| at.host.host_name.as_str());
        for at in &at {
            let name = at.host.host_name.as_str();
            if let Some(whole) = at.of(IoStage::Request) {
                lines.measured(0, name, whole, Some(whole.sum_ns as f64));
            }
        }
        let mut known_ns = 0.0;
        let at_owner = sum(IoStage::Served) / sum(IoStage::Forward).max(1.0);
        for at in &at {
            known_ns += before_the_owner(&mut lines, at, owner_name, at_owner);
        }
        for at in &at {
            known_ns += self.at_owner(&mut lines, disk, operation, at);
        }
        let rest = (whole_ns - known_ns).max(0.0);
        let guests = at.iter().find(|at| at.of(IoStage::Request).is_some());
        let name = guests.map_or("", |at| at.host.host_name.as_str());
        lines.worked_out(1, IoStage::Processors, (name, None), requests, (rest, rest));
        lines.mark();
        let mean_us = rounded(whole_ns / requests as f64 / 1000.0);
        Some(Explained { operation, requests, mean_us, stages: lines.lines })
    }

    /// The owner's stages, one after the other. Returns their time.
    fn at_owner(&self, lines: &mut Lines, disk: ObjectId, operation: IoOperation, at: &At<'_>) -> f64 {
        let name = at.host.host_name.as_str();
        let mut known_ns = 0.0;
        for stage in [IoStage::Admission, IoStage::Lock, IoStage::Edges, IoStage::Copies, IoStage::Lease] {
            let Some(found) = at.of(stage) else { continue };
            let ns = found.sum_ns as f64;
            known_ns += ns;
            lines.measured(1, name, found, Some(ns));
            if stage == IoStage::Copies {
                self.copies(lines, disk, operation, at, ns);
            }
        }
        known_ns
    }

    /// The copies: their time goes to those that were waited for last, and what they waited for themselves.
    fn copies(&self, lines: &mut Lines, disk: ObjectId, operation: IoOperation, at: &At<'_>, ns: f64) {
        let copies = at.stages.iter().copied().filter(|s| s.stage == IoStage::Copy && s.count > 0);
        let weight = |copy: &StageLatencies| match operation {
            IoOperation::Write => copy.last_ns as f64,
            IoOperation::Read => copy.sum_ns as f64,
        };
        let weights = copies.clone().map(weight).sum::<f64>() + at.sum_ns(IoStage::Recording);
        let part = |weight: f64| if weights > 0.0 { ns * weight / weights } else { 0.0 };
        for copy in copies {
            let Some(place) = copy.copy else { continue };
            let share_ns = part(weight(copy));
            let host = self.hosts.iter().find(|host| host.host == place.host);
            let name = host.map_or_else(|| self.silent_name(place.host), |host| host.host_name.clone());
            lines.measured(2, &name, copy, Some(share_ns));
            if let Some(host) = host {
                let way = (at.host.host_name.as_str(), name.as_str());
                copy_parts(lines, way, copy, &parts_of(host, disk, operation, place), share_ns);
            }
        }
        let name = at.host.host_name.as_str();
        if let Some(recording) = at.of(IoStage::Recording) {
            lines.measured(2, name, recording, Some(part(recording.sum_ns as f64)));
        }
        if let Some(slower) = at.of(IoStage::SlowerCopy) {
            lines.measured(2, name, slower, None);
        }
    }

    /// A host that did not answer: by name where it can be no other.
    fn silent_name(&self, host: HostId) -> String {
        match self.hosts_silent.as_slice() {
            [only] => only.clone(),
            _ => host.to_string(),
        }
    }
}

fn at_host(host: &HostLatencies, disk: ObjectId, operation: IoOperation) -> Option<At<'_>> {
    let found = host.disks.iter().find(|d| d.disk == disk)?;
    let stages: Vec<_> = found.stages.iter().filter(|s| s.operation == operation && s.count > 0).collect();
    (!stages.is_empty()).then_some(At { host, stages })
}

/// The way from the guest's host to the owner. `at_owner` is the owner's share of what was forwarded. Returns its time.
fn before_the_owner(lines: &mut Lines, at: &At<'_>, owner: &str, at_owner: f64) -> f64 {
    let name = at.host.host_name.as_str();
    let mut known_ns = 0.0;
    if let Some(wait) = at.of(IoStage::OwnerWait) {
        known_ns += wait.sum_ns as f64;
        lines.measured(1, name, wait, Some(wait.sum_ns as f64));
    }
    if let Some(forward) = at.of(IoStage::Forward) {
        let ns = forward.sum_ns as f64 * (1.0 - at_owner.clamp(0.0, 1.0));
        known_ns += ns;
        lines.worked_out(1, IoStage::Network, (name, Some(owner)), forward.count, (ns, ns));
    }
    known_ns
}

/// What a copy's host says of its part: each stage, and how many writes or reads that is about.
struct Parts<'a> {
    stages: Vec<&'a StageLatencies>,
    count: u64,
}

fn parts_of(host: &HostLatencies, disk: ObjectId, operation: IoOperation, place: CopyPlace) -> Parts<'_> {
    let group = host.disk_groups.iter().find(|group| group.id == place.disk_group);
    let (stages, each): (&[StageLatencies], &[IoStage]) = match operation {
        IoOperation::Write => (group.map_or(&[], |group| group.log.as_slice()), &[IoStage::LogDevice]),
        IoOperation::Read => {
            let reads = group.and_then(|group| group.reads.iter().find(|reads| reads.disk == disk));
            let each = &[IoStage::Memory, IoStage::ReadLog, IoStage::ReadCapacity];
            (reads.map_or(&[], |reads| reads.stages.as_slice()), each)
        }
    };
    let stages: Vec<_> = stages.iter().filter(|stage| stage.count > 0).collect();
    let count = stages.iter().filter(|stage| each.contains(&stage.stage)).map(|stage| stage.count).sum();
    Parts { stages, count }
}

/// The parts of a copy, `share_ns` of whose time was waited for: the way there and back, and what its host says.
fn copy_parts(lines: &mut Lines, (owner, host): (&str, &str), copy: &StageLatencies, parts: &Parts<'_>, share_ns: f64) {
    if parts.count == 0 {
        return;
    }
    let mean = copy.sum_ns as f64 / copy.count as f64;
    let told: f64 = parts.stages.iter().map(|stage| stage.sum_ns as f64).sum::<f64>() / parts.count as f64;
    // Other disks' writes may take longer than this disk's: then nothing is left for the way.
    let all = mean.max(told);
    let way = all - told;
    let (stage, to) = match owner == host {
        true => (IoStage::Processors, None),
        false => (IoStage::Network, Some(host)),
    };
    lines.worked_out(3, stage, (owner, to), copy.count, (way * copy.count as f64, share_ns * way / all));
    for stage in &parts.stages {
        let each = stage.sum_ns as f64 / parts.count as f64;
        lines.measured(3, host, stage, Some(share_ns * each / all));
        if let (Some(line), Some(place)) = (lines.lines.last_mut(), copy.copy) {
            line.disk_group = Some(place.disk_group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::latency::{DiskGroupLatencies, DiskLatencies};
    use super::*;

    const DISK: ObjectId = ObjectId(9);

    fn stage(operation: IoOperation, stage: IoStage, count: u64, us: u64) -> StageLatencies {
        let sum_ns = count * us * 1000;
        StageLatencies { operation, stage, copy: None, count, sum_ns, max_ns: us * 1000, last_ns: 0, bins: vec![] }
    }

    fn write(name: IoStage, count: u64, us: u64) -> StageLatencies {
        stage(IoOperation::Write, name, count, us)
    }

    fn read(name: IoStage, count: u64, us: u64) -> StageLatencies {
        stage(IoOperation::Read, name, count, us)
    }

    /// A copy on that host; `last` of its requests waited for it.
    fn copy(of: StageLatencies, host: u128, last: u64) -> StageLatencies {
        let place = CopyPlace { host: HostId(host), disk_group: DiskGroupId(host) };
        StageLatencies { copy: Some(place), last_ns: last * of.max_ns, ..of }
    }

    fn host(
        n: u128,
        stages: Vec<StageLatencies>,
        log: Vec<StageLatencies>,
        reads: Vec<StageLatencies>,
    ) -> HostLatencies {
        let disk = |stages| DiskLatencies { disk: DISK, name: "vm-1".into(), stages };
        let group = DiskGroupLatencies { id: DiskGroupId(n), open_count: 1, log, reads: vec![disk(reads)] };
        HostLatencies {
            host: HostId(n),
            host_name: format!("h{n}"),
            incarnation: 1,
            unix_ms: 0,
            disks: vec![disk(stages)],
            disks_left_out: 0,
            disk_groups: vec![group],
        }
    }

    /// Stage, host, share in per cent of each line that is no sum of others; they add up.
    fn leaves(explained: &Explained) -> Vec<(IoStage, String, i64)> {
        let lines = &explained.stages;
        let leaf = |at: usize| lines[at].depth > 0 && lines.get(at + 1).is_none_or(|n| n.depth <= lines[at].depth);
        let found = (0..lines.len()).filter(|at| leaf(*at)).filter_map(|at| {
            let share = lines[at].share?;
            Some((lines[at].stage, lines[at].host.clone(), (share * 100.0).round() as i64))
        });
        let found: Vec<_> = found.collect();
        let sum: i64 = found.iter().map(|(.., share)| share).sum();
        assert!((98..=102).contains(&sum), "shares add up to {sum} %: {found:?}");
        found
    }

    fn slowest(explained: &Explained) -> (IoStage, &str) {
        let slowest = explained.slowest().expect("one is");
        (slowest.stage, slowest.host.as_str())
    }

    /// A guest of h1, which owns the disk: 100 writes of 1000 us.
    fn written(device_us: u64) -> Latencies {
        let owner = vec![
            write(IoStage::Request, 100, 1000),
            write(IoStage::Admission, 100, 10),
            write(IoStage::Lock, 100, 40),
            write(IoStage::Copies, 100, 900),
            write(IoStage::SlowerCopy, 100, 600),
            copy(write(IoStage::Copy, 100, 300), 1, 0),
            copy(write(IoStage::Copy, 100, 900), 2, 100),
        ];
        let log = |device| vec![write(IoStage::LogQueue, 500, 100), write(IoStage::LogDevice, 500, device)];
        Latencies {
            hosts: vec![host(1, owner, log(150), vec![]), host(2, vec![], log(device_us), vec![])],
            hosts_silent: vec![],
        }
    }

    #[test]
    fn the_copy_that_was_waited_for_has_the_time_and_its_host_says_for_what() {
        use IoStage::*;
        let told = written(700).explain(DISK, IoOperation::Write).unwrap();
        assert_eq!((told.requests, told.mean_us), (100, 1000.0));
        let place = |stage, host: &str, share| (stage, host.to_owned(), share);
        let expected = [
            place(Admission, "h1", 1),
            place(Lock, "h1", 4),
            // The owner's own copy came first: nobody waited for it.
            place(Processors, "h1", 0),
            place(LogQueue, "h1", 0),
            place(LogDevice, "h1", 0),
            place(Network, "h1", 10),
            place(LogQueue, "h2", 10),
            place(LogDevice, "h2", 70),
            place(Processors, "h1", 5),
        ];
        assert_eq!(leaves(&told), expected);
        assert_eq!(slowest(&told), (LogDevice, "h2"));
        let network = told.stages.iter().find(|s| s.stage == Network).unwrap();
        assert_eq!((network.mean_us, network.to_host.as_deref(), network.p99_us), (100.0, Some("h2"), None));
        let slower = told.stages.iter().find(|s| s.stage == SlowerCopy).unwrap();
        assert_eq!((slower.mean_us, slower.share), (600.0, None), "it passes beside the copies");
        assert_eq!(slowest(&written(100).explain(DISK, IoOperation::Write).unwrap()), (Network, "h1"));
        assert!(written(100).explain(DISK, IoOperation::Read).is_none(), "there was no read");
        assert!(written(100).explain(ObjectId(1), IoOperation::Write).is_none());
    }

    #[test]
    fn a_log_that_other_disks_use_too_leaves_nothing_for_the_network_but_no_less() {
        let told = written(5000).explain(DISK, IoOperation::Write).unwrap();
        assert_eq!(slowest(&told), (IoStage::LogDevice, "h2"));
        assert!(leaves(&told).contains(&(IoStage::Network, "h1".to_owned(), 0)));
    }

    #[test]
    fn a_silent_host_is_named_for_all_of_its_copy() {
        let mut all = written(700);
        all.hosts.pop();
        all.hosts_silent = vec!["h2".into()];
        let told = all.explain(DISK, IoOperation::Write).unwrap();
        assert_eq!(slowest(&told), (IoStage::Copy, "h2"));
        assert!(leaves(&told).contains(&(IoStage::Copy, "h2".to_owned(), 90)));
    }

    #[test]
    fn a_guest_elsewhere_pays_for_the_way_to_the_owner() {
        use IoStage::*;
        let mut all = written(100);
        all.hosts[0].disks[0].stages[0] = write(Served, 100, 1000);
        let guest = vec![write(Request, 100, 5000), write(OwnerWait, 2, 50_000), write(Forward, 100, 4000)];
        all.hosts.push(host(3, guest, vec![], vec![]));
        let told = all.explain(DISK, IoOperation::Write).unwrap();
        let found = leaves(&told);
        assert_eq!(found[..2], [(OwnerWait, "h3".to_owned(), 20), (Network, "h3".to_owned(), 60)]);
        let way = told.slowest().unwrap();
        assert_eq!((way.stage, way.to_host.as_deref(), way.mean_us), (Network, Some("h1"), 3000.0));
    }

    #[test]
    fn reads_are_told_by_where_the_bytes_were() {
        use IoStage::*;
        let owner = vec![
            read(Request, 1000, 200),
            read(Lock, 1000, 4),
            read(Copies, 1000, 180),
            copy(read(Copy, 1000, 180), 1, 0),
        ];
        let reads = vec![read(Map, 10, 1000), read(Memory, 900, 10), read(ReadCapacity, 100, 1000)];
        let all = Latencies { hosts: vec![host(1, owner, vec![], reads)], hosts_silent: vec![] };
        let told = all.explain(DISK, IoOperation::Read).unwrap();
        let place = |stage, share| (stage, "h1".to_owned(), share);
        let expected = [
            place(Lock, 2),
            place(Processors, 31),
            place(Map, 5),
            place(Memory, 5),
            place(ReadCapacity, 50),
            place(Processors, 8),
        ];
        assert_eq!(leaves(&told), expected);
        assert_eq!(slowest(&told), (ReadCapacity, "h1"));
    }
}
