//! What is to be run, and what came of it.

use std::time::Duration;

use cairn_measure::{Histogram, Little};
use cairn_workload::{Content, Direction, Pace, Spec};

use crate::address::Address;

/// One measurement.
#[derive(Debug, Clone)]
pub struct Job {
    /// Where to; each gets the load `spec` of its own.
    pub targets: Vec<Address>,
    /// What. A span of 0 bytes is the whole target.
    pub spec: Spec,
    /// What is written.
    pub content: Content,
    /// Requests kept outstanding at each target; with a rate, the most that may be.
    pub outstanding: u32,
    /// When requests begin.
    pub pace: Pace,
    /// How long before anything counts.
    pub ramp: Duration,
    /// How long what ends counts.
    pub measure: Duration,
    /// Data may be overwritten.
    pub destructive: bool,
}

/// What went wrong at a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Before the first request.
    #[error("{target}: {why}")]
    Open {
        /// Which.
        target: String,
        /// Why, and what to do.
        why: String,
    },
    /// In the midst of the run.
    #[error("{target}: {why}")]
    Request {
        /// Which.
        target: String,
        /// What was asked, and what was answered.
        why: String,
    },
    /// There is no such load.
    #[error("{0}")]
    Job(String),
    /// There is, and it is not to be run as it stands.
    #[error("{0}")]
    Refused(String),
}

/// Requests of one direction that ended within the measured time.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// From when each began, or was due, to its end.
    pub latency: Histogram,
    /// Bytes of those.
    pub bytes: u64,
}

/// One second of the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Second {
    /// Requests that ended in it.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The longest of them.
    pub max_ns: u64,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// How long it was measured.
    pub measured: Duration,
    /// Reads.
    pub reads: Side,
    /// Writes.
    pub writes: Side,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// How much later than due requests began; none without a rate.
    pub lag: Option<Histogram>,
    /// Processor time of this process over the measured time, as a share of one processor.
    pub harness_cpu: f64,
    /// What ended the run early.
    pub broken: Option<RunError>,
}

/// This process' own share of a processor above which it may be what limits a run.
pub const HARNESS_CPU_MAX: f64 = 0.80;

impl Measured {
    /// Before the first request.
    pub(crate) fn nothing(measured: Duration) -> Self {
        let (reads, writes) = (Side::default(), Side::default());
        Self { measured, reads, writes, seconds: Vec::new(), lag: None, harness_cpu: 0.0, broken: None }
    }

    /// Of one direction.
    pub fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Read => &self.reads,
            Direction::Write => &self.writes,
        }
    }

    /// Both directions together.
    pub fn both(&self) -> Side {
        let mut both = self.reads.clone();
        both.latency.add(&self.writes.latency);
        both.bytes += self.writes.bytes;
        both
    }

    /// Requests a second.
    pub fn per_s(&self, side: &Side) -> f64 {
        self.a_second(side.latency.count())
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self, side: &Side) -> f64 {
        self.a_second(side.bytes)
    }

    fn a_second(&self, count: u64) -> f64 {
        if count == 0 { 0.0 } else { count as f64 / self.measured.as_secs_f64() }
    }

    /// Little's law on what a closed loop kept outstanding; none for a rate, and where nothing ended.
    pub fn little(&self, job: &Job) -> Option<Little> {
        let both = self.both();
        let asked = u64::from(job.outstanding) * job.targets.len() as u64;
        match job.pace {
            Pace::Closed => cairn_measure::little(self.per_s(&both), both.latency.mean_ns()?, asked),
            _ => None,
        }
    }

    /// Why the numbers may not be what they seem; empty where nothing speaks against them.
    pub fn doubts(&self, job: &Job) -> Vec<String> {
        let mut doubts = Vec::new();
        if let Some(why) = &self.broken {
            doubts.push(format!("the run ended early: {why}"));
        }
        if let Some(little) = self.little(job).filter(|little| !little.holds()) {
            let asked = u64::from(job.outstanding) * job.targets.len() as u64;
            doubts.push(format!(
                "rate x mean latency is {:.2} requests outstanding, {asked} were asked for ({:+.1} %)",
                little.outstanding,
                little.off * 100.0
            ));
        }
        if self.harness_cpu > HARNESS_CPU_MAX {
            let percent = self.harness_cpu * 100.0;
            doubts.push(format!("the load itself took {percent:.0} % of a processor: it may be what limits the rate"));
        }
        if let Some(p99) = self.lag.as_ref().and_then(|lag| lag.quantile_ns(cairn_measure::Quantile::P99))
            && p99 > LAG_MAX_NS
        {
            let ms = p99 as f64 / 1e6;
            doubts.push(format!("1 % of the requests began {ms:.1} ms or more after they were due"));
        }
        doubts
    }
}

/// A schedule is kept when 99 of 100 requests begin this soon after they are due.
const LAG_MAX_NS: u64 = 1_000_000;
