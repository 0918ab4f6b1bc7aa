//! `results.json`: what was measured, one [`Cell`] for each repeat of each configuration, with its histograms.
//!
//! Promises    percentiles come from merged bins, never from other percentiles
//!             what speaks against a row stands in the row

use cairn_measure::{BinError, Histogram, Quantile, Spread, spread};
use serde::{Deserialize, Serialize};

use crate::Counters;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// The study's name.
    pub study: String,
    /// "quick", "lab" or "paper".
    pub scale: String,
    /// For every table and picture: what was measured on which media, in one line.
    pub caption: String,
    /// Every repeat of every configuration, in the order in which they were run.
    pub cells: Vec<Cell>,
    /// What the study concludes by its own rules.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    /// Why it ended before its end.
    #[serde(default)]
    pub ended_early: Option<String>,
}

/// One repeat of one configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Of the configuration: "all-flash/vms-16". Repeats share it.
    pub id: String,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// What was asked for.
    pub params: Params,
    /// How long it was measured.
    pub measured_ms: u64,
    /// Reads that ended in that time.
    pub reads: Side,
    /// Writes.
    pub writes: Side,
    /// Both.
    pub total: Side,
    /// The run in pieces of equal length, its ramp left out.
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// What the target's counters counted between begin of the ramp and end of the run; none where it has none. Gauges are those at the
    /// end.
    #[serde(default)]
    pub counted: Option<Counters>,
    /// The longest time in which no request ended, between the first and the last that did; none where that was not looked at.
    #[serde(default)]
    pub longest_silence_ms: Option<f64>,
    /// What was done to desktops, or by them; none where there are none.
    #[serde(default)]
    pub desktops: Option<Desktops>,
    /// Whether the row may be believed.
    pub checks: Checks,
    /// What the target drew; none where that is not known.
    #[serde(default)]
    pub power: Option<Power>,
}

/// What was asked for in one cell. A 0 where a study does not have the thing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Params {
    /// The arm: what two systems under the same load are called.
    pub arm: String,
    /// Virtual machines that the load stands for.
    pub vms: u32,
    /// Virtual disks.
    pub disks: u32,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Reads, in per cent.
    pub read_percent: u8,
    /// Requests to random places, in per cent.
    pub random_percent: u8,
    /// Requests outstanding over all disks; 0 for a fixed rate.
    pub outstanding: u32,
    /// Requests due each second over all disks; none for a closed loop.
    #[serde(default)]
    pub rate_per_s: Option<f64>,
    /// Bytes that are asked for, of each disk.
    pub span_bytes: u64,
}

/// Requests of one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// How many ended.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// What they took; none where there were none.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// IOMeter's 21 counts.
    pub iometer: Vec<u64>,
    /// fio's json+ bins: middle in nanoseconds and count, ascending, empty ones left out.
    pub bins: Vec<(u64, u64)>,
}

/// What requests took, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean, exactly.
    pub mean_ns: f64,
    /// Half took at most this.
    pub p50_ns: u64,
    /// 95 %.
    pub p95_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

impl Side {
    /// Of a histogram of requests with so many bytes in so long.
    pub fn of(histogram: &Histogram, bytes: u64, seconds: f64) -> Self {
        let at = |quantile| histogram.quantile_ns(quantile).unwrap_or_default();
        let latency = histogram.mean_ns().map(|mean_ns| Latency {
            mean_ns,
            p50_ns: at(Quantile::P50),
            p95_ns: at(Quantile::P95),
            p99_ns: at(Quantile::P99),
            p999_ns: at(Quantile::P999),
            max_ns: histogram.max_ns().unwrap_or_default(),
        });
        let each_s = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        Self {
            requests: histogram.count(),
            bytes,
            iops: each_s(histogram.count()),
            bytes_per_s: each_s(bytes),
            latency,
            iometer: histogram.iometer().to_vec(),
            bins: histogram.fio_bins(),
        }
    }

    /// Its histogram again; mean, shortest and longest are those of the bins' middles.
    ///
    /// # Errors
    /// The file was made by something else.
    pub fn histogram(&self) -> Result<Histogram, BinError> {
        Histogram::from_fio_bins(self.bins.iter().copied())
    }

    /// The mean, in milliseconds.
    pub fn mean_ms(&self) -> Option<f64> {
        self.latency.map(|latency| latency.mean_ns / 1e6)
    }
}

/// A piece of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Where it ends, from the begin of what is measured.
    pub until_ms: u64,
    /// Requests that ended in it.
    pub requests: u64,
    /// Bytes read by them.
    pub read_bytes: u64,
    /// Bytes written by them.
    pub written_bytes: u64,
    /// Requests that failed.
    #[serde(default)]
    pub failed: u64,
    /// Mean latency of those that ended; 0 where none did.
    pub mean_ns: u64,
    /// 99 % took at most this; 0 where none ended.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// What the target told at its end.
    #[serde(default)]
    pub gauges: Option<Gauges>,
}

/// What a cluster tells of its write buffers at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauges {
    /// Bytes in use of all write buffers.
    pub log_used_bytes: u64,
    /// Bytes of all.
    pub log_size_bytes: u64,
    /// The highest fill of any of them, in thousandths.
    pub log_fill_max_permille: u32,
    /// The highest congestion of any, 0..=255.
    pub congestion: u8,
    /// Bytes destaged since the groups were opened.
    pub destaged_bytes: u64,
    /// Bytes taken into write buffers since then.
    pub buffered_bytes: u64,
}

/// Desktops that were made, or that booted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Desktops {
    /// How many.
    pub count: u32,
    /// From the first one's begin to the last one's end, in seconds.
    pub total_s: f64,
    /// What each took by itself, in seconds, ascending; empty where that is not known.
    #[serde(default)]
    pub each_s: Vec<f64>,
}

impl Desktops {
    /// Seconds a desktop, as they are printed: all of the time, divided.
    pub fn s_each(&self) -> f64 {
        self.total_s / f64::from(self.count.max(1))
    }
}

/// What speaks for and against a row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// Requests outstanding on average by Little's law (rate x mean latency); none for a fixed rate.
    #[serde(default)]
    pub outstanding: Option<f64>,
    /// How far that is from what was asked for, as a share of it.
    #[serde(default)]
    pub little_off: Option<f64>,
    /// Processor time of the load itself, as a share of one processor.
    pub harness_cpu: f64,
    /// 99 % of the requests of a fixed rate began at most so late.
    #[serde(default)]
    pub lag_p99_ns: Option<u64>,
    /// Everything that speaks against the row, in words; empty where nothing does.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// What ended it early.
    #[serde(default)]
    pub broken: Option<String>,
}

/// What the target drew.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Mean over what was measured.
    pub watts: f64,
    /// Where that is from: "RAPL package-0", "declared", a command.
    pub source: String,
}

/// One conclusion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was to be shown.
    pub rule: String,
    /// Whether it was.
    pub holds: bool,
    /// By which numbers.
    pub because: String,
}

/// A conclusion.
pub(crate) fn verdict(rule: &str, holds: bool, because: impl Into<String>) -> Verdict {
    Verdict { rule: rule.into(), holds, because: because.into() }
}

/// The repeats of one configuration, and the spread of `value` over them; none where there are none.
pub fn repeats_of<'a>(cells: &'a [Cell], id: &str, value: impl Fn(&Cell) -> f64) -> Option<(Vec<&'a Cell>, Spread)> {
    let repeats: Vec<&Cell> = cells.iter().filter(|cell| cell.id == id).collect();
    let values: Vec<f64> = repeats.iter().map(|cell| value(cell)).collect();
    Some((repeats, spread(&values)?))
}
