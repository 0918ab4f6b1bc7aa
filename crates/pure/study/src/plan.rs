//! What a study runs: arms, tests and repeats, with all sizes and times, by scale.
//!
//! Promises    the ratios of the documents stay at every scale (buffer to span, disks to machines); what a scale changes is told by
//!             [`Plan::parameters`]
//! Source      the documents behind the studies: an IOMeter study of Virtual SAN 5.5 (Intel, 2014) and a study of cache devices
//!             (Intel, 2023)

use std::{collections::BTreeMap, fmt, str::FromStr};

use crate::{ArmMedia, Params};

const MIB: u64 = 1 << 20;
const GB: u64 = 1_000_000_000;

/// How large and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Minutes, on two processors.
    Quick,
    /// About an hour.
    Lab,
    /// The documents' own numbers.
    Paper,
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quick => "quick",
            Self::Lab => "lab",
            Self::Paper => "paper",
        })
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "quick" => Ok(Self::Quick),
            "lab" => Ok(Self::Lab),
            "paper" => Ok(Self::Paper),
            other => Err(format!("{other:?} is no scale: take quick, lab or paper")),
        }
    }
}

/// A cluster of our own to run a study on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Hosts.
    pub hosts: u32,
    /// Capacity devices of each.
    pub capacity_devices: u32,
    /// Bytes of each of those.
    pub capacity_bytes: u64,
    /// Write buffer of each host.
    pub buffer_bytes: u64,
    /// Memory of each host for cached reads.
    pub read_cache_bytes: u64,
}

/// What blocks hold, as Vdbench's words `dedupratio` and `compratio` have it, of units of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContentRatios {
    /// All units to those that are stored, where equal ones are stored once.
    pub dedup: f64,
    /// Bytes before to after, for a compressor that is perfect.
    pub compress: f64,
    /// How many different units the duplicates are: the same for all disks.
    pub duplicates: u64,
}

/// Vdbench's default for `dedupsets`: so much of a machine's units are those that duplicates are drawn from.
pub const DEDUP_SETS: f64 = 0.05;

impl ContentRatios {
    /// Units that are one of the duplicates.
    pub fn duplicate_share(&self) -> f64 {
        1.0 - (1.0 / self.dedup - DEDUP_SETS)
    }
}

/// One test: a load, as often as it is repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// Its id within the arm: "vms-16".
    pub id: String,
    /// The load. The arm is filled in where it is run.
    pub load: Params,
    /// Ends after so many bytes over all disks, if that is before the measured time is over.
    pub bytes_max: Option<u64>,
}

/// A study, ready to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name.
    pub study: &'static str,
    /// Its scale.
    pub scale: Scale,
    /// The media of each arm.
    pub arms: Vec<ArmMedia>,
    /// What it runs on where no targets are given.
    pub cluster: Cluster,
    /// Virtual disks.
    pub disks: u32,
    /// Bytes of each.
    pub disk_bytes: u64,
    /// Capacity devices that each copy of a disk is spread over.
    pub stripe_width: u32,
    /// What blocks hold; none: nothing is alike and nothing shrinks.
    pub content: Option<ContentRatios>,
    /// How often every byte of every disk is written before the first test of an arm.
    pub precondition_passes: u32,
    /// In order. Caches are cleared before each, and not between repeats.
    pub tests: Vec<Test>,
    /// Repeats of each.
    pub repeats: u32,
    /// Before anything counts.
    pub ramp_ms: u64,
    /// What counts.
    pub measure_ms: u64,
}

impl Plan {
    /// How long it measures and ramps, preparations left out.
    pub fn load_ms(&self) -> u64 {
        (self.arms.len() * self.tests.len()) as u64 * u64::from(self.repeats) * (self.ramp_ms + self.measure_ms)
    }

    /// What it fills its disks with first, in all arms, copies left out.
    pub fn precondition_bytes(&self) -> u64 {
        self.arms.len() as u64 * u64::from(self.disks) * self.disk_bytes * u64::from(self.precondition_passes)
    }

    /// Runs in all.
    pub fn runs(&self) -> usize {
        self.arms.len() * self.tests.len() * self.repeats as usize
    }

    /// Its numbers by name, for the manifest and for people.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        let cluster = &self.cluster;
        let list = |values: Vec<String>| values.join(",");
        let rows = [
            ("arms", list(self.arms.iter().map(|arm| arm.arm.clone()).collect())),
            ("tests", list(self.tests.iter().map(|test| test.id.clone()).collect())),
            ("repeats", self.repeats.to_string()),
            ("ramp_ms", self.ramp_ms.to_string()),
            ("measure_ms", self.measure_ms.to_string()),
            ("disks", self.disks.to_string()),
            ("disk_bytes", self.disk_bytes.to_string()),
            ("stripe_width", self.stripe_width.to_string()),
            ("precondition_passes", self.precondition_passes.to_string()),
            ("hosts", cluster.hosts.to_string()),
            ("capacity_devices_per_host", cluster.capacity_devices.to_string()),
            ("capacity_bytes_per_device", cluster.capacity_bytes.to_string()),
            ("buffer_bytes_per_host", cluster.buffer_bytes.to_string()),
            ("read_cache_bytes_per_host", cluster.read_cache_bytes.to_string()),
        ];
        let mut all: BTreeMap<String, String> = rows.map(|(name, value)| (name.to_owned(), value)).into();
        if let Some(ContentRatios { dedup, compress, duplicates }) = self.content {
            all.insert("dedup_ratio".into(), dedup.to_string());
            all.insert("compression_ratio".into(), compress.to_string());
            all.insert("duplicates".into(), duplicates.to_string());
        }
        all
    }
}

fn arm(name: &str, cache: &str, capacity: &str, dilation: f64) -> ArmMedia {
    ArmMedia {
        arm: name.into(),
        cache: cache.into(),
        capacity: capacity.into(),
        dilation,
        data_strips: 0,
        saves: false,
    }
}

/// 4 KiB at random, five mixes, on disks of which 6/128 are asked for (the cache test: 6 GB of 128 GB) and on all of them (the capacity test). The write
/// buffers together are 0.293 of the data, as 8 x 600 GB are of 16.384 TB. One arm has two copies, one RAID-5 of 3+1, one the same on disk groups that
/// pack and store equal blocks once. Blocks are like the document's: `dedupratio=10 compratio=10`.
pub(crate) fn policy_matrix(study: &'static str, scale: Scale) -> Plan {
    let (vms, of_each, disk, ramp_s, run_s, dilation) = match scale {
        Scale::Quick => (4, 2, 128 * MIB, 2, 6, 50.0),
        Scale::Lab => (16, 8, 256 * MIB, 30, 120, 50.0),
        Scale::Paper => (16, 8, 128 * GB / 4096 * 4096, 7_200, 3_600, 1.0),
    };
    let disks = vms * of_each;
    let data = u64::from(disks) * disk;
    let test = |set: &str, span: u64, read_percent: u8| Test {
        id: format!("{set}-read-{read_percent}"),
        load: Params {
            vms,
            disks,
            request_bytes: 4096,
            read_percent,
            random_percent: 100,
            outstanding: disks * 4,
            span_bytes: span,
            ..Params::default()
        },
        bytes_max: None,
    };
    let mixes = [0, 30, 50, 70, 100];
    let cached = mixes.map(|percent| test("cache", disk * 6 / 128 / MIB * MIB, percent));
    let all = mixes.map(|percent| test("capacity", disk, percent));
    Plan {
        study,
        scale,
        arms: vec![
            arm("performance", "nvme-nand", "sata-ssd", dilation),
            ArmMedia { data_strips: 3, ..arm("balanced", "nvme-nand", "sata-ssd", dilation) },
            ArmMedia { data_strips: 3, saves: true, ..arm("density", "nvme-nand", "sata-ssd", dilation) },
        ],
        cluster: Cluster { buffer_bytes: (data * 293 / 4000).max(64 * MIB) / MIB * MIB, ..two_tier(data, 4) },
        disks,
        disk_bytes: disk,
        stripe_width: 1,
        content: Some(ContentRatios {
            dedup: 10.0,
            compress: 10.0,
            duplicates: ((disk / 4096 * u64::from(of_each)) as f64 * DEDUP_SETS) as u64,
        }),
        precondition_passes: 2,
        tests: cached.into_iter().chain(all).collect(),
        repeats: 1,
        ramp_ms: ramp_s * 1000,
        measure_ms: run_s * 1000,
    }
}

/// 4, 8, 16, 32, 64 machines with one disk each, three instances; 64 x span x 2 copies are as large as the write buffer of all
/// hosts, as 64 x 7.5 GB x 2 = 960 GB are 30 % of the document's 3.2 TB of cache.
pub(crate) fn iometer_qos(study: &'static str, scale: Scale) -> Plan {
    let (span, ramp_s, run_s, dilation) = match scale {
        Scale::Quick => (8 * MIB, 2, 8, 100.0),
        Scale::Lab => (64 * MIB, 30, 180, 100.0),
        Scale::Paper => (7_500_000_000 / 4096 * 4096, 1_800, 5_400, 1.0),
    };
    let test = |vms: u32| Test {
        id: format!("vms-{vms}"),
        load: Params {
            vms,
            disks: vms,
            request_bytes: 4096,
            read_percent: 70,
            random_percent: 100,
            outstanding: vms,
            span_bytes: span,
            ..Params::default()
        },
        bytes_max: None,
    };
    Plan {
        study,
        scale,
        arms: vec![arm("all-flash", "nvme-nand", "sata-ssd", dilation)],
        cluster: Cluster {
            hosts: 4,
            capacity_devices: 4,
            capacity_bytes: (span * 32).max(192 * MIB) / MIB * MIB,
            buffer_bytes: span * 32 / MIB * MIB,
            // An eighth of one disk: nearly every read is the media's. The document's all-flash hosts have no read cache but a little memory.
            read_cache_bytes: (span / 8).max(MIB),
        },
        disks: 64,
        disk_bytes: span,
        stripe_width: 4,
        content: None,
        precondition_passes: 1,
        tests: [4, 8, 16, 32, 64].map(test).into(),
        repeats: 3,
        ramp_ms: ramp_s * 1000,
        measure_ms: run_s * 1000,
    }
}

/// 128 disks (32 machines of 4) of the document, 32 KiB 70/30; outstanding I/O spread evenly, from one a disk up; three passes.
pub(crate) fn optane_mixed(study: &'static str, scale: Scale) -> Plan {
    let (vms, disk, ramp_s, run_s, passes, dilation) = match scale {
        Scale::Quick => (8, 32 * MIB, 1, 6, 3, 50.0),
        Scale::Lab => (32, 64 * MIB, 30, 120, 3, 50.0),
        Scale::Paper => (32, 100 * GB / 4096 * 4096, 600, 4_200, 3, 1.0),
    };
    let disks = vms * 4;
    let outstanding: &[u32] = if scale == Scale::Quick { &[1, 2, 4, 8] } else { &[1, 2, 4, 8, 16] };
    let test = |each: &u32| Test {
        id: format!("oio-{}", each * disks),
        load: Params {
            vms,
            disks,
            request_bytes: 32 << 10,
            read_percent: 70,
            random_percent: 100,
            outstanding: each * disks,
            span_bytes: disk,
            ..Params::default()
        },
        bytes_max: None,
    };
    Plan {
        study,
        scale,
        arms: vec![arm("nvme-nand", "nvme-nand", "sata-ssd", dilation), arm("optane", "optane", "sata-ssd", dilation)],
        cluster: two_tier(u64::from(disks) * disk, 3),
        disks,
        disk_bytes: disk,
        stripe_width: 1,
        content: None,
        precondition_passes: 1,
        tests: outstanding.iter().map(test).collect(),
        repeats: passes,
        ramp_ms: ramp_s * 1000,
        measure_ms: run_s * 1000,
    }
}

/// Four hosts that hold `data_bytes` twice, with write buffers that a test's writes do not fill to where congestion begins: what is
/// compared is how fast cache media take requests, not how destage keeps up.
fn two_tier(data_bytes: u64, capacity_devices: u32) -> Cluster {
    let host = data_bytes * 2 / 4;
    Cluster {
        hosts: 4,
        capacity_devices,
        // Twice the data: room for cleaning, and for disks that do not spread evenly.
        capacity_bytes: (host * 2 / u64::from(capacity_devices)).max(192 * MIB) / MIB * MIB,
        buffer_bytes: (host * 3 / 2).clamp(64 * MIB, 1_200 * GB) / MIB * MIB,
        read_cache_bytes: (host / 16).max(16 * MIB),
    }
}

/// Sequential writes of at least three times what the buffers take, so that what comes after the burst is seen.
pub(crate) fn optane_seqwrite(study: &'static str, scale: Scale) -> Plan {
    let (vms, buffer, most_s, dilation) = match scale {
        Scale::Quick => (4, 128 * MIB, 120, 40.0),
        Scale::Lab => (8, 512 * MIB, 240, 20.0),
        Scale::Paper => (32, 600 * GB / MIB * MIB, 4_800, 1.0),
    };
    let disks = vms * 4;
    // Two copies of each byte: a half of the buffers of four hosts, three times and a half.
    let written = buffer * 4 / 2 * 7 / 2;
    // Twice its share: a disk that is written faster than others does not come round to what is still buffered.
    let disk = written * 2 / u64::from(disks) / MIB * MIB;
    let (sizes, each): (&[u32], &[u32]) = match scale {
        Scale::Quick => (&[64, 256], &[2]),
        _ => (&[64, 256, 1024], &[1, 4, 16]),
    };
    let test = |kib: u32, each: u32| Test {
        id: format!("bs-{kib}k-oio-{}", each * disks),
        load: Params {
            vms,
            disks,
            request_bytes: kib << 10,
            read_percent: 0,
            random_percent: 0,
            outstanding: each * disks,
            span_bytes: disk,
            ..Params::default()
        },
        bytes_max: Some(written),
    };
    Plan {
        study,
        scale,
        arms: vec![arm("nvme-read", "nvme-read", "sata-ssd", dilation), arm("optane", "optane", "sata-ssd", dilation)],
        cluster: Cluster {
            hosts: 4,
            capacity_devices: 1,
            // A host has room for a copy of every disk, and for what cleaning has not yet come to: thin copies do not spread evenly.
            capacity_bytes: (written * 5 / 4).max(256 * MIB) / MIB * MIB,
            buffer_bytes: buffer,
            read_cache_bytes: 16 * MIB,
        },
        disks,
        disk_bytes: disk,
        stripe_width: 1,
        content: None,
        precondition_passes: 0,
        tests: sizes.iter().flat_map(|kib| each.iter().map(move |each| test(*kib, *each))).collect(),
        repeats: 1,
        ramp_ms: 0,
        measure_ms: most_s * 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::{STUDIES, Study};

    const SCALES: [Scale; 3] = [Scale::Quick, Scale::Lab, Scale::Paper];

    #[test]
    fn ratios_of_the_documents_stay_at_every_scale() {
        for scale in SCALES {
            let plan = Plan::of("iometer-qos", scale).unwrap();
            let buffers = plan.cluster.buffer_bytes * 4;
            let off = (64 * plan.disk_bytes * 2) as f64 / buffers as f64 - 1.0;
            assert!(off.abs() < 0.001, "{scale}: {off}");
            assert_eq!((plan.runs(), plan.tests.len(), plan.repeats), (15, 5, 3));
            let mixed = Plan::of("optane-mixed", scale).unwrap();
            assert_eq!(mixed.disks, mixed.tests[0].load.outstanding, "the least is one a disk");
            let differ =
                |a: &ArmMedia, b: &ArmMedia| (a.cache != b.cache, a.capacity != b.capacity, a.dilation == b.dilation);
            assert_eq!(differ(&mixed.arms[0], &mixed.arms[1]), (true, false, true), "arms differ in the cache only");
            let matrix = Plan::of("policy-matrix", scale).unwrap();
            let share = (matrix.cluster.buffer_bytes * 4) as f64 / (u64::from(matrix.disks) * matrix.disk_bytes) as f64;
            assert!((share - 0.293).abs() < 0.005, "{scale}: {share}");
            let of = |a: &ArmMedia, b: &ArmMedia| {
                (a.cache == b.cache && a.capacity == b.capacity, a.data_strips, b.data_strips)
            };
            assert_eq!(of(&matrix.arms[0], &matrix.arms[1]), (true, 0, 3), "arms differ in the policy only");
            assert_eq!(of(&matrix.arms[1], &matrix.arms[2]), (true, 3, 3), "or in what disk groups do");
            assert!(matrix.arms.iter().map(|arm| arm.saves).eq([false, false, true]));
            let share = matrix.content.unwrap().duplicate_share();
            assert!((share - 0.95).abs() < 1e-9, "as Vdbench's dedupratio=10 with its 5 % of sets: {share}");
            let writes = Plan::of("optane-seqwrite", scale).unwrap();
            for test in &writes.tests {
                let buffers = writes.cluster.buffer_bytes * u64::from(writes.cluster.hosts);
                assert!(test.bytes_max.unwrap() * 2 >= 3 * buffers, "{scale}: less than three buffers");
                assert!(
                    u64::from(writes.disks) * writes.disk_bytes >= test.bytes_max.unwrap() * 3 / 2,
                    "no disk comes round"
                );
            }
            let (host, data) = (writes.cluster.capacity_bytes, writes.tests[0].bytes_max.unwrap());
            assert!(host * 4 >= data * 5, "{scale}: wherever copies go, a host has room for them");
        }
        assert_eq!(
            Plan::of("iometer-qos", Scale::Paper).unwrap().load_ms(),
            30 * 3_600_000,
            "30 hours, as the document"
        );
    }

    #[test]
    fn disks_fit_the_cluster_that_a_plan_asks_for() {
        for scale in SCALES {
            for Study { name, .. } in STUDIES {
                let Some(plan) = Plan::of(name, scale) else { continue };
                let capacity =
                    u64::from(plan.cluster.hosts * plan.cluster.capacity_devices) * plan.cluster.capacity_bytes;
                let most = plan.tests.iter().filter_map(|test| test.bytes_max).max();
                let copies = most.unwrap_or(u64::from(plan.disks) * plan.disk_bytes) * 2;
                assert!(copies * 3 / 2 <= capacity, "{name} at {scale}: {copies} in {capacity}");
                assert_eq!(plan.disks % plan.cluster.hosts, 0, "{name}: disks spread evenly");
                assert!(plan.tests.iter().all(|t| t.load.disks <= plan.disks && t.load.outstanding >= t.load.disks));
            }
        }
    }
}
