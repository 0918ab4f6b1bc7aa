//! Plans for servers of several shards: each host of a plan becomes a server, and what befalls the host befalls all its shards.
//!
//! Promises    a plan's faults stay within what its policies survive: all shards of a server are one fault domain
//! Not here    what shards are to people and guests (`cairn-node`, `cairn-e2e`); that they die at one instant within a disk
//!             operation: each crashes within one of its own

use std::ops::Range;

use cairn_faults::{At, Directory, Event, What};

use crate::{plan::Plan, shape::Shape};

impl Plan {
    /// The plan of a seed with so many shards in the place of each host.
    pub fn with_shards(seed: u64, shards: usize) -> Self {
        let plan = Self::of(seed);
        if shards == 1 {
            return plan;
        }
        let hosts = plan.shape.hosts;
        let mut shape = Shape { hosts: hosts * shards, servers: vec![shards; hosts], ..plan.shape };
        for disk in shape.disks.iter_mut().filter(|disk| disk.readers > 0) {
            disk.readers = shape.hosts;
        }
        let spread = Spread { hosts, shards };
        let each = |event: Event| {
            let whats = spread.over(event.what).into_iter();
            whats.map(move |what| Event { at_ms: event.at_ms, for_ms: event.for_ms, what }).collect::<Vec<_>>()
        };
        let events = plan.events.into_iter().flat_map(each).collect();
        Self { shape, events, ..plan }
    }
}

/// From hosts to the shards of servers.
struct Spread {
    hosts: usize,
    shards: usize,
}

impl Spread {
    fn of(&self, host: usize) -> Range<usize> {
        host * self.shards..(host + 1) * self.shards
    }

    /// One shard of a host, told by a number.
    fn one(&self, host: usize, number: usize) -> usize {
        host * self.shards + number % self.shards
    }

    fn each(&self, host: usize, what: impl Fn(usize, u64) -> What) -> Vec<What> {
        self.of(host).enumerate().map(|(n, shard)| what(shard, n as u64)).collect()
    }

    fn pairs(&self, a: usize, b: usize, what: impl Fn(usize, usize) -> What) -> Vec<What> {
        self.of(a).flat_map(|a| self.of(b).map(move |b| (a, b))).map(|(a, b)| what(a, b)).collect()
    }

    fn at(&self, at: At) -> At {
        At { host: self.one(at.host, at.group + at.capacity.unwrap_or(0)), ..at }
    }

    /// What happens to shards for it.
    fn over(&self, what: What) -> Vec<What> {
        match what {
            What::Crash { host, loss } => self.each(host, |host, n| What::Crash { host, loss: loss ^ n }),
            What::CrashAtOperation { host, after, phase, loss } => {
                self.each(host, |host, n| What::CrashAtOperation { host, after: after + n, phase, loss })
            }
            What::CrashInRecovery { host, after, phase, loss } => {
                self.each(host, |host, n| What::CrashInRecovery { host, after: after + n, phase, loss })
            }
            What::RestartLoop { host, times, gap_ms, loss } => {
                self.each(host, |host, n| What::RestartLoop { host, times, gap_ms, loss: loss ^ (n << 32) })
            }
            What::Kill { host } => self.each(host, |host, _| What::Kill { host }),
            What::KillOthers { host } => {
                let others = (0..self.hosts).filter(|other| *other != host);
                others.flat_map(|other| self.each(other, |host, _| What::Kill { host })).collect()
            }
            What::Pause { host } => self.each(host, |host, _| What::Pause { host }),
            What::ClockRate { host, ppm } => self.each(host, |host, _| What::ClockRate { host, ppm }),
            What::WallClock { host, off_ms } => self.each(host, |host, _| What::WallClock { host, off_ms }),
            What::SlowCpu { host, step_us } => self.each(host, |host, _| What::SlowCpu { host, step_us }),
            What::RollBack { host, loss } => self.each(host, |host, n| What::RollBack { host, loss: loss ^ n }),
            What::Isolate { host } => {
                // Its shards reach each other: what is between them is no network.
                let others = (0..self.hosts).filter(|other| *other != host);
                others.flat_map(|other| self.pairs(host, other, |a, b| What::Cut { a, b })).collect()
            }
            What::Cut { a, b } => self.pairs(a, b, |a, b| What::Cut { a, b }),
            What::CutOneWay { from, to } => self.pairs(from, to, |from, to| What::CutOneWay { from, to }),
            What::Disconnect { a, b } => self.pairs(a, b, |a, b| What::Disconnect { a, b }),
            What::HalfOpen { knows, other } => self.pairs(knows, other, |knows, other| What::HalfOpen { knows, other }),
            What::SlowLink { from, to, by_ms } => self.pairs(from, to, |from, to| What::SlowLink { from, to, by_ms }),
            What::ChangedBlocks { from, to, every } => {
                self.pairs(from, to, |from, to| What::ChangedBlocks { from, to, every })
            }
            What::Directory { how, hosts } => self.directory(how, &hosts),
            other => vec![self.at_one(other)],
        }
    }

    fn directory(&self, how: Directory, hosts: &[usize]) -> Vec<What> {
        vec![What::Directory { how, hosts: hosts.iter().flat_map(|host| self.of(*host)).collect() }]
    }

    /// What happens to one device, or is asked of one shard.
    fn at_one(&self, what: What) -> What {
        match what {
            What::SlowDevice { at, times } => What::SlowDevice { at: self.at(at), times },
            What::ReadErrors { at, count } => What::ReadErrors { at: self.at(at), count },
            What::WriteError { at } => What::WriteError { at: self.at(at) },
            What::FlushError { at } => What::FlushError { at: self.at(at) },
            What::LatentSectors { at, place, len_bytes } => What::LatentSectors { at: self.at(at), place, len_bytes },
            What::BitRot { at, place, bits } => What::BitRot { at: self.at(at), place, bits },
            What::LostWrite { at } => What::LostWrite { at: self.at(at) },
            What::MisdirectedWrite { at, by_bytes } => What::MisdirectedWrite { at: self.at(at), by_bytes },
            What::DeviceGone { at } => What::DeviceGone { at: self.at(at) },
            // Both are a host's, and so a shard's.
            What::DevicesSwapped { a, b } => {
                let host = self.at(a).host;
                What::DevicesSwapped { a: At { host, ..a }, b: At { host, ..b } }
            }
            What::Full { host } => What::Full { host: self.one(host, 0) },
            What::HandOver { disk, host } => What::HandOver { disk, host: self.one(host, disk) },
            What::Resize { disk, host, by_bytes } => What::Resize { disk, host: self.one(host, disk), by_bytes },
            What::Policy { disk, host, more } => What::Policy { disk, host: self.one(host, disk), more },
            What::Layout { disk, host, ftt, data_strips, stripe_width } => {
                What::Layout { disk, host: self.one(host, disk), ftt, data_strips, stripe_width }
            }
            What::Snapshot { disk, host, all, back, stays, clones, flattens } => {
                let host = self.one(host, disk);
                What::Snapshot { disk, host, all, back, stays, clones, flattens }
            }
            What::Schedule { host, keep, locked } => What::Schedule { host: self.one(host, 0), keep, locked },
            What::Move { disk, from } => What::Move { disk, from: self.one(from, 0) },
            What::Scrub { host } => What::Scrub { host: self.one(host, 0) },
            What::Compression { host, group, stays } => What::Compression { host: self.one(host, group), group, stays },
            What::Deduplication { host, group, stays } => {
                What::Deduplication { host: self.one(host, group), group, stays }
            }
            What::Rewrite { host, group, stays } => What::Rewrite { host: self.one(host, group), group, stays },
            What::Drain { host, group } => What::Drain { host: self.one(host, 0), group },
            What::Maintenance { host, mode } => What::Maintenance { host: self.one(host, 0), mode },
            What::Remove { host } => What::Remove { host: self.one(host, 0) },
            What::Forget { host, loss } => What::Forget { host: self.one(host, 0), loss },
            What::CreateAndDelete { number, size_bytes, maker, deleter } => {
                let (maker, deleter) = (self.one(maker, number), self.one(deleter, number + 1));
                What::CreateAndDelete { number, size_bytes, maker, deleter }
            }
            // Of no host, or of one that is known when it happens.
            everyone => everyone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: whatever a plan says of hosts, it says of shards that there are. Method: plans of many seeds, every number in them.
    #[test]
    fn plans_name_shards_that_there_are() {
        for seed in 0..400 {
            let plan = Plan::with_shards(seed, 2);
            let before = Plan::of(seed);
            assert_eq!(plan.shape.hosts, 2 * before.shape.hosts);
            assert_eq!(plan.shape.servers.iter().sum::<usize>(), plan.shape.hosts);
            assert!(plan.events.len() >= before.events.len());
            let text = serde_json::to_value(&plan.events).expect("a plan is plain data");
            each_host(&text, &mut |host| assert!(host < plan.shape.hosts as u64, "seed {seed}: host {host}"));
        }
    }

    fn each_host(value: &serde_json::Value, see: &mut impl FnMut(u64)) {
        const NAMES: [&str; 9] = ["host", "a", "b", "from", "to", "knows", "other", "maker", "deleter"];
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    if NAMES.contains(&name.as_str())
                        && let Some(host) = value.as_u64()
                    {
                        see(host);
                    }
                    if name == "hosts" {
                        value
                            .as_array()
                            .into_iter()
                            .flatten()
                            .filter_map(serde_json::Value::as_u64)
                            .for_each(&mut *see);
                    }
                    each_host(value, see);
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| each_host(value, see)),
            _ => {}
        }
    }
}
