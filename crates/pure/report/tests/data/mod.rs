//! Results as studies write them, made up from a seed: believable shapes, and no numbers that anyone measured.
#![allow(dead_code)] // Each test that takes this file in uses a part of it.

use cairn_measure::{Histogram, little};
use cairn_study::{
    Action, ArmMedia, Cell, Checks, Counters, Gauges, Machine, Manifest, Params, Phase, PhaseKind, Power, Results,
    SCHEMA, Sample, Side, Step, TargetFacts, Verdict,
};

/// What a study writes.
pub type Files = (Manifest, Results);

const MIB: u64 = 1 << 20;

/// Words from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    /// 0..1, neither of them.
    fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((word ^ (word >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Of the normal distribution.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.part().ln()).sqrt() * (std::f64::consts::TAU * self.part()).cos()
    }

    /// A latency around `ms`, with a tail.
    fn ns(&mut self, ms: f64) -> u64 {
        let slow = if self.part() < 0.03 { 4.0 } else { 1.0 };
        (ms * slow * 1e6 * (0.35 * self.normal()).exp()) as u64
    }
}

/// A cell under construction, and the steps of its manifest.
struct Study {
    manifest: Manifest,
    results: Results,
    chance: Chance,
    now_ms: u64,
}

impl Study {
    fn new(study: &str, media: &[(&str, &str, &str)], dilation: f64) -> Self {
        let modelled = media.iter().any(|(_, cache, _)| *cache != ArmMedia::AS_IT_IS);
        let arm = |(arm, cache, capacity): &(&str, &str, &str)| ArmMedia {
            arm: (*arm).into(),
            cache: (*cache).into(),
            capacity: (*capacity).into(),
            dilation,
            data_strips: 0,
            saves: false,
        };
        let manifest = Manifest {
            schema: SCHEMA,
            study: study.into(),
            scale: "quick".into(),
            version: "0.1.0".into(),
            seed: 7,
            machine: Machine {
                kernel: "6.1.0".into(),
                processor: "made up".into(),
                processors: 2,
                memory_bytes: 4096 * MIB,
            },
            target: TargetFacts {
                description: "own cluster of 4 hosts in one process".into(),
                hosts: 4,
                policy: "failures to tolerate 1".into(),
                copies: 2,
                buffer_bytes: 1024 * MIB,
                read_cache_bytes: 64 * MIB,
                ..TargetFacts::default()
            },
            media: media.iter().map(arm).collect(),
            parameters: [("ramp", "2 s"), ("measure", "8 s")].map(|(a, b)| (a.into(), b.into())).into(),
            ..Manifest::default()
        };
        let media = if modelled { format!("modelled media, times x{dilation}") } else { "files as they are".into() };
        let results = Results {
            schema: SCHEMA,
            study: study.into(),
            scale: "quick".into(),
            caption: format!("made-up numbers, own cluster of 4 hosts in one process, {media}"),
            verdicts: vec![Verdict {
                rule: "the ramp is not measured".into(),
                holds: true,
                because: "every run has one of 2 s".into(),
            }],
            ..Results::default()
        };
        Self { manifest, results, chance: Chance(7), now_ms: 1_700_000_000_000 }
    }

    fn step(&mut self, arm: &str, action: Action, takes_ms: u64) {
        let began_ms = self.now_ms;
        self.now_ms += takes_ms;
        let phase = |kind, from: u64, to: u64| Phase { kind, began_ms: began_ms + from, ended_ms: began_ms + to };
        let phases = match action {
            Action::Run { .. } => vec![
                phase(PhaseKind::Ramp, 0, 2000),
                phase(PhaseKind::Measure, 2000, takes_ms - 50),
                phase(PhaseKind::Drain, takes_ms - 50, takes_ms),
            ],
            _ => Vec::new(),
        };
        let step = Step { arm: arm.into(), action, began_ms, ended_ms: self.now_ms, phases, before: None, after: None };
        self.manifest.steps.push(step);
    }

    /// A closed loop for 8 s whose requests take `ms`, scaled down to a few thousand of them.
    fn cell(&mut self, params: Params, name: &str, repeat: u32, ms: (f64, f64)) -> Cell {
        let id = format!("{}/{name}", params.arm);
        let (mut reads, mut writes) = (Histogram::default(), Histogram::default());
        let wanted = 8.0e9 * f64::from(params.outstanding);
        let mut spent = 0.0;
        while spent < wanted {
            let is_read = self.chance.part() * 100.0 < f64::from(params.read_percent);
            let ns = self.chance.ns(if is_read { ms.0 } else { ms.1 });
            if is_read {
                reads.record(ns)
            } else {
                writes.record(ns)
            }
            spent += ns as f64;
        }
        let mut total = reads.clone();
        total.add(&writes);
        let request_bytes = u64::from(params.request_bytes);
        let side = |histogram: &Histogram| Side::of(histogram, histogram.count() * request_bytes, 8.0);
        let law = little(total.count() as f64 / 8.0, total.mean_ns().unwrap_or(0.0), params.outstanding.into());
        let written = writes.count() * request_bytes;
        let read = reads.count() * request_bytes;
        self.step(&params.arm.clone(), Action::Run { cell: id.clone(), repeat }, 10_050);
        Cell {
            id,
            repeat,
            measured_ms: 8000,
            reads: side(&reads),
            writes: side(&writes),
            total: side(&total),
            counted: Some(Counters {
                guest_written_bytes: written,
                guest_read_bytes: read,
                buffered_bytes: written * 2,
                log_written_bytes: written * 2 + written / 10,
                destaged_bytes: written,
                capacity_written_by_destage_bytes: written,
                read_from_cache_bytes: read / 3,
                read_from_capacity_bytes: read - read / 3,
                ..Counters::default()
            }),
            checks: Checks {
                outstanding: law.map(|law| law.outstanding),
                little_off: law.map(|law| law.off),
                harness_cpu: 0.31,
                ..Checks::default()
            },
            params,
            ..Cell::default()
        }
    }

    fn done(self) -> Files {
        (self.manifest, self.results)
    }
}

fn params(arm: &str, request_bytes: u32, read_percent: u8, outstanding: u32) -> Params {
    Params {
        arm: arm.into(),
        disks: outstanding.min(32),
        request_bytes,
        read_percent,
        random_percent: 100,
        outstanding,
        span_bytes: 8 * MIB,
        ..Params::default()
    }
}

/// 4 to 64 virtual machines, 3 repeats, hybrid and all-flash, on media that are `dilation` times slower than their models; 1 with
/// `as_it_is` for none.
pub fn iometer_qos(dilation: f64, as_it_is: bool) -> Files {
    let media = match as_it_is {
        true => {
            [("all-flash", ArmMedia::AS_IT_IS, ArmMedia::AS_IT_IS), ("hybrid", ArmMedia::AS_IT_IS, ArmMedia::AS_IT_IS)]
        }
        false => [("all-flash", "nvme-nand", "sata-ssd"), ("hybrid", "nvme-nand", "hdd10k")],
    };
    let mut study = Study::new("iometer-qos", &media, dilation);
    for (arm, base) in [("all-flash", 0.5), ("hybrid", 1.4)] {
        study.step(arm, Action::Start, 1500);
        study.step(arm, Action::Precondition { passes: 2, written_bytes: 1024 * MIB }, 20_000);
        for (number, vms) in [4u32, 8, 16, 32, 64].into_iter().enumerate() {
            let clear = Action::Clear { buffered_before_bytes: 300 * MIB, buffered_after_bytes: MIB };
            study.step(arm, clear, 3000);
            for repeat in 1..=3 {
                let ms = base * dilation * (1.0 + 0.22 * number as f64) * (1.04 - 0.02 * f64::from(repeat));
                let params = Params { vms, disks: vms, ..params(arm, 4096, 70, vms) };
                let mut cell = study.cell(params, &format!("vms-{vms}"), repeat, (ms, ms * 1.5));
                if arm == "hybrid" && vms == 64 && repeat == 2 {
                    cell.checks.doubts.push("the load itself used 84 % of a processor".into());
                }
                study.results.cells.push(cell);
            }
        }
        study.step(arm, Action::Stop, 500);
    }
    study.done()
}

/// Two caches, four numbers of outstanding requests, with power or without.
pub fn optane_mixed(with_power: bool) -> Files {
    let media = [("nvme-nand", "nvme-nand", "sata-ssd"), ("optane", "optane", "sata-ssd")];
    let mut study = Study::new("optane-mixed", &media, 10.0);
    for (arm, base, watts) in [("nvme-nand", 9.0, 800.0), ("optane", 6.4, 842.0)] {
        for outstanding in [32u32, 64, 128, 256] {
            for repeat in 1..=3 {
                let ms = base * (1.0 + f64::from(outstanding) / 100.0) * (0.98 + 0.01 * f64::from(repeat));
                // As many virtual machines everywhere: it is the outstanding requests that differ.
                let asked = Params { vms: 8, ..params(arm, 32_768, 70, outstanding) };
                let mut cell = study.cell(asked, &format!("oio-{outstanding}"), repeat, (ms, ms * 1.2));
                cell.power = with_power.then(|| Power { watts, source: "declared".into() });
                study.results.cells.push(cell);
            }
        }
    }
    study.done()
}

/// Sequential writes of three sizes that fill the write buffer; the faster cache has the later knee.
pub fn optane_seqwrite() -> Files {
    let media = [("nvme-nand", "nvme-nand", "sata-ssd"), ("optane", "optane", "sata-ssd")];
    let mut study = Study::new("optane-seqwrite", &media, 10.0);
    for (arm, fast) in [("nvme-nand", 180.0), ("optane", 300.0)] {
        for (name, request_bytes) in [("64k", 64 << 10), ("256k", 256 << 10), ("1m", 1 << 20)] {
            for outstanding in [8u32, 32] {
                let asked = Params { random_percent: 0, ..params(arm, request_bytes, 0, outstanding) };
                let ms = f64::from(request_bytes) / MIB as f64 * f64::from(outstanding) / fast * 1e3;
                let mut cell = study.cell(asked, &format!("bs-{name}-oio-{outstanding}"), 1, (ms, ms));
                cell.samples = filling(&mut study.chance, fast, 90.0);
                study.results.cells.push(cell);
            }
        }
    }
    study.done()
}

/// 16 s of samples: `fast` MiB/s until the buffer of 1 GiB is full, then what is destaged.
fn filling(chance: &mut Chance, fast: f64, destage: f64) -> Vec<Sample> {
    let (size, mut used, mut destaged, mut buffered) = (1024.0, 0.0, 0.0, 0.0);
    let mut samples = Vec::new();
    for number in 1..=64 {
        let speed = if used < size * 0.92 { fast } else { destage } * (1.0 + 0.04 * chance.normal());
        let (seconds, out) = (0.25, if used > size * 0.3 { destage } else { 0.0 });
        used = (used + (speed - out) * seconds).clamp(0.0, size);
        destaged += out * seconds;
        buffered += speed * seconds;
        let fill = used / size;
        let congestion = ((fill - 0.75).max(0.0) / 0.25 * 255.0).min(255.0) as u8;
        let bytes = |mib: f64| (mib * MIB as f64) as u64;
        samples.push(Sample {
            until_ms: number * 250,
            requests: (speed * seconds * 4.0) as u64,
            written_bytes: bytes(speed * seconds),
            mean_ns: chance.ns(12.0),
            p99_ns: 40_000_000,
            max_ns: 55_000_000,
            gauges: Some(Gauges {
                log_used_bytes: bytes(used),
                log_size_bytes: bytes(size),
                log_fill_max_permille: (fill * 1000.0) as u32,
                congestion,
                destaged_bytes: bytes(destaged),
                buffered_bytes: bytes(buffered),
            }),
            ..Sample::default()
        });
    }
    samples
}

/// A fixed rate for 60 s; a host dies at 20 s, comes back at 32 s, and all copies are there at 44 s.
pub fn resilience() -> Files {
    let media = [("cairn", ArmMedia::AS_IT_IS, ArmMedia::AS_IT_IS)];
    let mut study = Study::new("resilience", &media, 1.0);
    let asked = Params { rate_per_s: Some(1000.0), vms: 0, ..params("cairn", 4096, 70, 16) };
    let mut cell = study.cell(asked, "rate", 1, (1.2, 2.0));
    cell.samples = (1..=120).map(|number| outage(&mut study.chance, number)).collect();
    cell.measured_ms = 60_000;
    cell.checks.lag_p99_ns = Some(3_000_000);
    study.results.cells.push(cell);
    let run = study.manifest.steps.pop().unwrap();
    let zero_ms = run.phases[1].began_ms;
    study.manifest.steps.push(Step { ended_ms: zero_ms + 60_050, ..run });
    for (at_ms, action, takes_ms) in [
        (20_000, Action::Kill { host: "host-2".into() }, 5),
        (32_000, Action::Restart { host: "host-2".into() }, 400),
        (32_400, Action::Healthy, 11_600),
        (60_100, Action::Verify { blocks: 12_345, wrong: 0 }, 900),
    ] {
        study.now_ms = zero_ms + at_ms;
        study.step("cairn", action, takes_ms);
    }
    study.done()
}

fn outage(chance: &mut Chance, number: u64) -> Sample {
    let until_ms = number * 500;
    let requests = match until_ms {
        20_500..=23_000 => 0,
        23_500..=24_500 => 900,
        _ => (500.0 * (1.0 + 0.02 * chance.normal())) as u64,
    };
    let slow = if (23_500..=44_000).contains(&until_ms) { 2.5 } else { 1.0 };
    let latency = |ms: f64| if requests == 0 { 0 } else { (ms * slow * 1e6) as u64 };
    let longest = if until_ms == 23_500 { 3_050_000_000 } else { latency(9.0 + 6.0 * chance.part()) };
    Sample {
        until_ms,
        requests,
        read_bytes: requests * 4096 * 7 / 10,
        written_bytes: requests * 4096 * 3 / 10,
        mean_ns: latency(1.4),
        p99_ns: latency(5.0 + chance.part()),
        max_ns: if requests == 0 { 0 } else { longest },
        ..Sample::default()
    }
}
