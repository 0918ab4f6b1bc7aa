//! What is to be run, and what came of it.

use std::time::Duration;

use cairn_measure::{Histogram, Little};
use cairn_workload::{Content, Direction, Pace, Spec};

use crate::{address::Address, ledger::Written};

/// One measurement: streams that run at the same time, and one time in which they count.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// What runs together. Several streams may go to one target.
    pub streams: Vec<StreamJob>,
    /// How long before anything counts.
    pub ramp: Duration,
    /// How long what ends counts; less where every stream has begun all that it may before.
    pub measure: Duration,
    /// Begins no more requests after so many bytes of all streams together.
    pub bytes_max: Option<u64>,
    /// Remember what was written, so that [`crate::run::read_back`] can judge it. Each target has one stream then.
    pub verify: bool,
    /// Data may be overwritten.
    pub destructive: bool,
}

/// One load on one target.
#[derive(Debug, Clone)]
pub struct StreamJob {
    /// What it is called in results.
    pub name: String,
    /// Where to.
    pub target: Address,
    /// What. A span of 0 bytes is the rest of the target. Stream `n` of a job adds `n` to the seed.
    pub spec: Spec,
    /// The span in per cent of the target, from and to, instead of the bytes that the spec has.
    pub part: Option<(f64, f64)>,
    /// What is written. The disk's number is the stream's.
    pub content: Content,
    /// How many units the duplicates are drawn from, as a share of the units of all the job's spans, instead of the number that the
    /// content has.
    pub duplicates_share: Option<f64>,
    /// Requests kept outstanding; with a rate, the most that may be.
    pub outstanding: u32,
    /// When requests begin; a rate is this stream's own.
    pub pace: Pace,
    /// Begins no more requests after so many bytes.
    pub bytes_max: Option<u64>,
    /// Begins no more requests after so many times the bytes of its span.
    pub spans_max: Option<f64>,
}

impl StreamJob {
    /// A closed loop of one request on the span that the spec has.
    pub fn new(target: Address, spec: Spec, content: Content) -> Self {
        let name = target.to_string();
        Self {
            name,
            target,
            spec,
            part: None,
            content,
            duplicates_share: None,
            outstanding: 1,
            pace: Pace::Closed,
            bytes_max: None,
            spans_max: None,
        }
    }

    /// Requests that this stream alone has a second; none for a closed loop.
    pub fn per_s(&self) -> Option<f64> {
        match self.pace {
            Pace::Closed => None,
            Pace::Rate { per_s } | Pace::Poisson { per_s } => Some(per_s),
        }
    }
}

impl Job {
    /// Whether any stream writes.
    pub fn writes(&self) -> bool {
        self.streams.iter().any(|stream| stream.spec.writes())
    }

    /// Requests kept outstanding by all streams together; with rates, the most that may be.
    pub fn outstanding(&self) -> u64 {
        self.streams.iter().map(|stream| u64::from(stream.outstanding)).sum()
    }

    /// The stream that all others are like, but for their target and name; none where they differ.
    pub fn alike(&self) -> Option<&StreamJob> {
        let (first, others) = self.streams.split_first()?;
        let alike = |other: &StreamJob| {
            let same = (other.outstanding, other.bytes_max, other.spans_max)
                == (first.outstanding, first.bytes_max, first.spans_max);
            same && (&other.spec, other.part, other.pace) == (&first.spec, first.part, first.pace)
                && (other.content, other.duplicates_share) == (first.content, first.duplicates_share)
        };
        others.iter().all(alike).then_some(first)
    }
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

impl Side {
    /// These and those of another one.
    pub fn with(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.latency.add(&other.latency);
        both.bytes += other.bytes;
        both
    }
}

/// What ended in a short time, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their latencies.
    pub sum_ns: u64,
    /// The squares of those.
    pub squares_ns2: u128,
    /// The longest.
    pub max_ns: u64,
}

impl Tally {
    /// One request.
    pub fn record(&mut self, bytes: u64, ns: u64) {
        let squares_ns2 = u128::from(ns) * u128::from(ns);
        self.add(&Self { requests: 1, bytes, sum_ns: ns, squares_ns2, max_ns: ns });
    }

    /// Those of another one.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.squares_ns2 = self.squares_ns2.saturating_add(other.squares_ns2);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The mean; none of nothing.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.sum_ns as f64 / self.requests as f64)
    }

    /// The standard deviation (of a sample, n - 1); none of fewer than two.
    pub fn deviation_ns(&self) -> Option<f64> {
        let mean = self.mean_ns().filter(|_| self.requests > 1)?;
        let squares = self.squares_ns2 as f64 - mean * mean * self.requests as f64;
        Some((squares.max(0.0) / (self.requests - 1) as f64).sqrt())
    }
}

/// One second of the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Second {
    /// Reads that ended in it.
    pub reads: Tally,
    /// Writes that ended in it.
    pub writes: Tally,
    /// 99 % of both took at most this; 0 where none ended.
    pub p99_ns: u64,
}

impl Second {
    /// Reads and writes together.
    pub fn both(&self) -> Tally {
        let mut both = self.reads;
        both.add(&self.writes);
        both
    }
}

/// What one stream has done in the measured time.
#[derive(Debug, Clone, Default)]
pub struct StreamMeasured {
    /// Reads.
    pub reads: Side,
    /// Writes.
    pub writes: Side,
}

impl StreamMeasured {
    /// Both directions together.
    pub fn both(&self) -> Side {
        self.reads.with(&self.writes)
    }
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
    /// When the first request began, in ms since 1970: the ramp's begin.
    pub began_unix_ms: u64,
    /// When the last one was over.
    pub ended_unix_ms: u64,
    /// The longest time in which no request ended, between the first and the last that did, in the measured time.
    pub longest_silence: Duration,
    /// Stream by stream, in the job's order.
    pub streams: Vec<StreamMeasured>,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// How much later than due requests began; none without a rate.
    pub lag: Option<Histogram>,
    /// Processor time of this process over the measured time, as a share of one processor.
    pub harness_cpu: f64,
    /// What the streams wrote, where the job remembers it.
    pub written: Vec<Written>,
    /// What ended the run early.
    pub broken: Option<RunError>,
}

/// What reading back came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Places that were compared, each of a request.
    pub places: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that held neither what was acknowledged last nor anything begun after it.
    pub wrong: u64,
    /// The first of them.
    pub first_wrong: Option<String>,
}

/// This process' own share of a processor above which it may be what limits a run.
pub const HARNESS_CPU_MAX: f64 = 0.80;

impl Measured {
    /// Before the first request.
    pub(crate) fn nothing(measured: Duration, streams: usize) -> Self {
        let (reads, writes, streams) = (Side::default(), Side::default(), vec![StreamMeasured::default(); streams]);
        Self {
            measured,
            reads,
            writes,
            began_unix_ms: 0,
            ended_unix_ms: 0,
            longest_silence: Duration::ZERO,
            streams,
            seconds: Vec::new(),
            lag: None,
            harness_cpu: 0.0,
            written: Vec::new(),
            broken: None,
        }
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
        self.reads.with(&self.writes)
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

    /// Little's law on what the closed loops of the job kept outstanding; none where there are none, and where nothing ended. None where several
    /// end each with its own bytes: towards the end fewer are outstanding than were asked for.
    pub fn little(&self, job: &Job) -> Option<Little> {
        let ends_by_itself = |stream: &StreamJob| stream.bytes_max.is_some() || stream.spans_max.is_some();
        if job.streams.len() > 1 && job.streams.iter().any(ends_by_itself) {
            return None;
        }
        let (mut all, mut asked) = (Histogram::default(), 0);
        for (stream, measured) in job.streams.iter().zip(&self.streams).filter(|(job, _)| job.pace == Pace::Closed) {
            all.add(&measured.reads.latency);
            all.add(&measured.writes.latency);
            asked += u64::from(stream.outstanding);
        }
        cairn_measure::little(self.a_second(all.count()), all.mean_ns()?, asked)
    }

    /// Why the numbers may not be what they seem; empty where nothing speaks against them.
    pub fn doubts(&self, job: &Job) -> Vec<String> {
        let mut doubts = Vec::new();
        if let Some(why) = &self.broken {
            doubts.push(format!("the run ended early: {why}"));
        }
        if let Some(little) = self.little(job).filter(|little| !little.holds()) {
            doubts.push(format!(
                "rate x mean latency is {:.2} requests outstanding, {:.0} were asked for ({:+.1} %)",
                little.outstanding,
                little.outstanding / (1.0 + little.off),
                little.off * 100.0
            ));
        }
        let still = |measured: &StreamMeasured| measured.both().latency.count() == 0;
        if !self.streams.is_empty() && self.streams.iter().all(still) {
            doubts.push("nothing ended in the measured time".into());
        } else {
            let streams = job.streams.iter().zip(&self.streams).filter(|(_, measured)| still(measured));
            doubts.extend(streams.map(|(stream, _)| format!("nothing of {} ended in the measured time", stream.name)));
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
