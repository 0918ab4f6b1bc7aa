//! What a run is made of, drawn from its seed: hosts, devices, disks with their policies, how busy the guests are.
//!
//! Promises    every shape can be built: its policies find room and fault domains at the start
//! Source      swarm testing (Groce et al., ISSTA 2012): runs that differ in what they have find more than equal ones
//! Not here    what happens to it (`plan`)

use std::{fmt, ops::Range};

use cairn_api::v1;
use cairn_sim::Rng;
use cairn_types::CHUNK_BYTES_MAX;
use serde::{Deserialize, Serialize};

use crate::release::Release;

/// Time that a missing host is waited for.
pub const REPAIR_DELAY_MS: u64 = 20_000;
/// Bytes of a segment of the log.
pub const LOG_SEGMENT_BYTES: u64 = 4 << 20;

/// A virtual disk of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskShape {
    /// Bytes, a multiple of 512 and not always of 4096.
    pub size_bytes: u64,
    /// Failures to tolerate, 0..=3.
    pub ftt: u8,
    /// Strips of data in a row with `ftt` strips of parity; 0: a mirror.
    #[serde(default)]
    pub data_strips: u8,
    /// Capacity devices that each copy is spread over.
    pub stripe_width: u8,
    /// Per cent of the size that is set aside.
    pub reservation_percent: u8,
    /// Tasks that read and write it.
    pub guests: u64,
    /// Tasks that only read, and stay at their host: the first so many hosts have one each.
    #[serde(default)]
    pub readers: usize,
}

impl DiskShape {
    /// Whether it has rows of data and parity, and no copies.
    pub fn in_rows(&self) -> bool {
        self.data_strips > 0
    }

    /// Fault domains that it needs.
    fn domains(&self) -> usize {
        let ftt = usize::from(self.ftt);
        if self.in_rows() { usize::from(self.data_strips) + ftt } else { ftt + 1 }.max(2 * ftt + 1)
    }

    /// The rules of its policy.
    pub fn rules(&self) -> v1::PolicyRules {
        v1::PolicyRules {
            ftt: self.ftt,
            ftm: if self.in_rows() { v1::RulesMethod::ErasureCoding } else { v1::RulesMethod::Mirror },
            data_strips: self.data_strips,
            stripe_width: self.stripe_width,
            reservation_percent: self.reservation_percent,
            ..v1::PolicyRules::default()
        }
    }
}

/// A cluster and its load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Hosts, 3..=12; each a server and a fault domain by itself, unless `servers` says otherwise.
    pub hosts: usize,
    /// How many shards each server has, in the order of hosts; empty: one each.
    #[serde(default)]
    pub servers: Vec<usize>,
    /// Disk groups of each host, 1..=3.
    pub groups: usize,
    /// Capacity devices of each group.
    pub capacity_devices: usize,
    /// Bytes of each capacity device.
    pub capacity_bytes: u64,
    /// Segments of 4 MiB in each log.
    pub log_segments: u64,
    /// MiB for the metadata of each group.
    #[serde(default = "metadata_mib")]
    pub metadata_mib: u64,
    /// Bytes of a chunk of each disk, at most: a disk that grows past one gets new replica sets.
    #[serde(default = "chunk_bytes_max")]
    pub chunk_bytes_max: u64,
    /// Log fill in per cent where destage begins.
    pub destage_percent: u8,
    /// Destage after so long without a write; 0 never.
    pub idle_destage_ms: u64,
    /// The disks.
    pub disks: Vec<DiskShape>,
    /// The longest pause between two requests of a guest.
    pub pause_max_ms: u64,
    /// What made the cluster, and what all hosts run at first.
    #[serde(default)]
    pub release: Release,
    /// In what time owners compare the copies of a disk once; 0: never.
    #[serde(default)]
    pub compare_ms: u64,
    /// Of what guests write some blocks are equal to others: such a block is not found on a device by what it holds.
    #[serde(default = "alike")]
    pub alike: bool,
}

fn alike() -> bool {
    true
}

/// What the faults of a run leave of a promise, and so what its shape may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Each disk survives this many lost copies.
    pub ftt_min: u8,
    /// A lost host can be replaced while all others live.
    pub spare_host: bool,
    /// The first disk is read at every host all the time: what an owner returns that is none any more is seen.
    pub readers: bool,
    /// All guests together ask for no more than this in a second: long runs are for what takes long, not for load.
    pub requests_per_s_max: u64,
}

const MIB: u64 = 1 << 20;
/// Strips of data in the rows that are drawn, at least.
const DATA_STRIPS_MIN: u64 = 2;
/// And at most: more are the same with more hosts.
const DATA_STRIPS_MAX: u64 = 5;

fn metadata_mib() -> u64 {
    20
}

fn chunk_bytes_max() -> u64 {
    CHUNK_BYTES_MAX
}

impl Shape {
    /// The shape that `rng` draws.
    pub fn draw(rng: &mut Rng, needs: Needs) -> Self {
        let hosts_min = 2 * u64::from(needs.ftt_min) + 1 + u64::from(needs.spare_host);
        // Most clusters are small, and small ones run fast; some are not.
        let hosts = match rng.below(10) {
            0 => rng.between(6, 12),
            1..=3 => rng.between(4, 6),
            _ => 3,
        }
        .max(hosts_min.max(3)) as usize;
        let groups = if rng.one_in(4) { rng.between(2, 3) } else { 1 } as usize;
        let capacity_devices = rng.between(1, 2) as usize;
        let count = match rng.below(12) {
            0 => rng.between(6, 20),
            1..=4 => rng.between(2, 4),
            _ => 1,
        };
        let devices = (groups * capacity_devices) as u64;
        let disks: Vec<DiskShape> = (0..count)
            .map(|number| {
                let ftt_max = ((hosts as u64 - 1 - u64::from(needs.spare_host)) / 2).min(3);
                let ftt = match rng.below(8) {
                    0 => u64::from(needs.ftt_min),
                    1 | 2 => rng.between(1, ftt_max),
                    _ => 1,
                };
                DiskShape {
                    size_bytes: rng.between(1, 6) * MIB / count.min(4) / 512 * 512 + rng.below(16) * 512,
                    ftt: ftt.max(u64::from(needs.ftt_min)) as u8,
                    data_strips: 0,
                    stripe_width: rng.between(1, devices.min(3)) as u8,
                    reservation_percent: if rng.one_in(4) { rng.between(1, 100) as u8 } else { 0 },
                    // Now and then many at once, so that whoever dies leaves many requests half done.
                    guests: match count {
                        1 if rng.one_in(3) => rng.between(8, 24),
                        1 => rng.between(2, 5),
                        _ => rng.between(1, 2),
                    },
                    readers: if needs.readers && number == 0 { hosts } else { 0 },
                }
            })
            .collect();
        // Most guests leave a disk time to come to rest between two requests.
        let pause_max_ms = if rng.one_in(3) { rng.between(5, 40) } else { rng.between(40, 200) };
        let tasks: u64 = disks.iter().map(|disk| disk.guests + disk.readers as u64).sum();
        // In every other cluster; not drawn, so that what follows in the draw is what it was before there was this.
        let compare_ms = if (disks[0].size_bytes / 512).is_multiple_of(2) { 1500 } else { 0 };
        Self {
            hosts,
            servers: Vec::new(),
            groups,
            capacity_devices,
            capacity_bytes: rng.between(24, 50) * 4 * MIB,
            log_segments: rng.between(6, 10),
            metadata_mib: metadata_mib(),
            chunk_bytes_max: CHUNK_BYTES_MAX,
            destage_percent: rng.between(10, 50) as u8,
            idle_destage_ms: if rng.one_in(3) { 0 } else { rng.between(50, 1000) },
            disks,
            // A pause lasts half of the longest on average.
            pause_max_ms: pause_max_ms.max(tasks * 2000 / needs.requests_per_s_max),
            release: Release::Current,
            compare_ms,
            alike: alike(),
        }
    }

    /// In every other cluster, every other disk in rows of data and parity, of a width that its hosts allow.
    pub fn draw_rows(&mut self, rng: &mut Rng, needs: Needs) {
        if rng.one_in(2) {
            return;
        }
        let domains = self.hosts - usize::from(needs.spare_host);
        for disk in self.disks.iter_mut().filter(|disk| disk.ftt > 0) {
            let ftt = disk.ftt.min(2);
            let widest = DATA_STRIPS_MAX.min(domains.saturating_sub(ftt.into()) as u64);
            if rng.one_in(2) && widest >= DATA_STRIPS_MIN {
                (disk.ftt, disk.data_strips) = (ftt, rng.between(DATA_STRIPS_MIN, widest) as u8);
                assert!(disk.domains() <= domains, "{disk:?} among {domains} hosts");
            }
        }
    }

    /// The hosts that are one server with the host of this number.
    pub fn server_of(&self, number: usize) -> Range<usize> {
        let mut first = 0;
        for shards in &self.servers {
            if number < first + shards {
                return first..first + shards;
            }
            first += shards;
        }
        number..number + 1
    }

    /// A small cluster with one mirrored disk of five regions and a bit, for scripted runs.
    pub fn plain(hosts: usize) -> Self {
        let size_bytes = 5 * MIB + 3 * 512;
        Self {
            hosts,
            servers: Vec::new(),
            groups: 1,
            capacity_devices: 2,
            capacity_bytes: 200 * MIB,
            log_segments: 8,
            metadata_mib: metadata_mib(),
            chunk_bytes_max: CHUNK_BYTES_MAX,
            destage_percent: 15,
            idle_destage_ms: 300,
            disks: vec![DiskShape {
                size_bytes,
                ftt: 1,
                data_strips: 0,
                stripe_width: 1,
                reservation_percent: 0,
                guests: 3,
                readers: 0,
            }],
            pause_max_ms: 40,
            release: Release::Current,
            compare_ms: 0,
            alike: false,
        }
    }

    /// Where the log begins on a cache device.
    pub fn log_begins(&self) -> u64 {
        (1 + self.metadata_mib) * MIB
    }

    /// With so many guests on each disk that they get in each other's way.
    pub fn crowded(mut self) -> Self {
        self.disks.iter_mut().for_each(|disk| disk.guests = 8);
        self.pause_max_ms = 12;
        self
    }

    /// With owners that compare the copies of each disk once in so many milliseconds.
    pub fn comparing(mut self, compare_ms: u64) -> Self {
        self.compare_ms = compare_ms;
        self
    }

    /// With disks so small that hardly a request finds its blocks free, of many guests.
    pub fn small(mut self) -> Self {
        for disk in &mut self.disks {
            (disk.size_bytes, disk.guests) = (16 * 4096, 12);
        }
        self.pause_max_ms = 12;
        self
    }

    /// With chunks of one or a few MiB.
    pub fn of_small_chunks(mut self, chunk_mib: u64) -> Self {
        self.chunk_bytes_max = chunk_mib * MIB;
        self
    }

    /// With each disk in rows of so many strips of data and so many of parity.
    pub fn in_rows(mut self, data_strips: u8, parity_strips: u8) -> Self {
        for disk in &mut self.disks {
            (disk.data_strips, disk.ftt) = (data_strips, parity_strips);
        }
        self
    }

    /// With a reader of every disk at every host.
    pub fn read_everywhere(mut self) -> Self {
        self.disks.iter_mut().for_each(|disk| disk.readers = self.hosts);
        self
    }

    /// The name of a device of a host.
    pub fn device_name(group: usize, capacity: Option<usize>) -> String {
        capacity.map_or_else(|| format!("g{group}-cache"), |n| format!("g{group}-capacity-{n}"))
    }

    /// What makes a host's disk group of this number on its devices.
    pub fn group_request(&self, group: usize) -> v1::DiskGroupCreate {
        let capacity = (0..self.capacity_devices).map(|c| Self::device_name(group, Some(c)));
        v1::DiskGroupCreate {
            host: None,
            cache: Self::device_name(group, None),
            capacity: capacity.collect(),
            files: None,
            overwrite: false,
        }
    }

    /// The name of the policy that a disk is made with.
    pub fn policy_name(number: usize) -> String {
        format!("policy-{number}")
    }

    /// Names of the disks, in the order of [`Self::disks`].
    pub fn disk_name(number: usize) -> String {
        format!("vm-{number}")
    }

    /// The other way round.
    pub fn number_of(disk: &str) -> Option<usize> {
        disk.strip_prefix("vm-")?.parse().ok()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} hosts, {} group(s) of 1+{} each ({} MiB), log {} MiB, disks",
            self.hosts,
            self.groups,
            self.capacity_devices,
            self.capacity_bytes / MIB,
            self.log_segments * 4
        )?;
        if self.chunk_bytes_max < CHUNK_BYTES_MAX {
            write!(f, " of chunks of {} MiB", self.chunk_bytes_max / MIB)?;
        }
        for disk in &self.disks {
            write!(
                f,
                " [{} KiB {} x{} {}%]",
                disk.size_bytes >> 10,
                match disk.data_strips {
                    0 => format!("ftt{}", disk.ftt),
                    data => format!("{data}+{}", disk.ftt),
                },
                disk.stripe_width,
                disk.reservation_percent
            )?;
        }
        Ok(())
    }
}
