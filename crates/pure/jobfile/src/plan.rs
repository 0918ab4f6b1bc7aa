//! What all job files come to: runs one after the other, each of streams that run together.

use std::{fmt, time::Duration};

use cairn_workload::{Content, Pace, Spec};

/// Whose language a file is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Vdbench's parameter files.
    Vdbench,
    /// fio's job files.
    Fio,
    /// IOMeter's configuration files.
    Icf,
    /// Flags of HCIBench's generator, or a name of the files that it makes.
    Hcibench,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vdbench => "vdbench",
            Self::Fio => "fio",
            Self::Icf => "icf",
            Self::Hcibench => "hcibench",
        })
    }
}

/// A target by the name that the file has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTarget {
    /// Its name: a storage definition's, a file's, `disk1`.
    pub name: String,
    /// Where the file says it is; none where it does not.
    pub address: Option<String>,
}

/// Something in the file that changes no number here, or that is done in another way, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line that it is about; 0 for the file as a whole.
    pub line: usize,
    /// What.
    pub text: String,
}

/// When a stream's requests begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StreamPace {
    /// As soon as earlier ones have ended.
    Closed,
    /// So many a second, of this stream alone.
    Rate(f64),
    /// A share of the run's rate, 0..=1; as soon as earlier ones have ended where the run has none.
    Share(f64),
}

/// One load on one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// What it is called.
    pub name: String,
    /// Which of the plan's targets.
    pub target: usize,
    /// What is asked for. A span of 0 bytes is the rest of the target.
    pub spec: Spec,
    /// The span in per cent of the target, from and to, instead of the spec's.
    pub part: Option<(f64, f64)>,
    /// What is written.
    pub content: Content,
    /// Units that duplicates are drawn from, as a share of all units, instead of the content's number.
    pub duplicates_share: Option<f64>,
    /// Requests kept outstanding; with a rate, the most that may be.
    pub outstanding: u32,
    /// When requests begin.
    pub pace: StreamPace,
    /// Ends after so many bytes.
    pub bytes_max: Option<u64>,
    /// Ends after so many times its span.
    pub spans_max: Option<f64>,
}

/// Rate of a run over all of its streams that have shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Total {
    /// None: closed loops, or rates of the streams' own.
    None,
    /// So many a second.
    Rate(f64),
    /// So many per cent of what an earlier run did, rounded up to 100 a second.
    Curve {
        /// Its place in the plan.
        of: usize,
        /// Per cent.
        percent: f64,
    },
}

/// How requests with a rate follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal times.
    Even,
    /// At times that know nothing of each other.
    Poisson,
}

/// Streams that run together, and the time in which they count.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What it is called.
    pub name: String,
    /// What runs.
    pub streams: Vec<Stream>,
    /// Its rate.
    pub total: Total,
    /// How requests with a rate follow each other.
    pub arrivals: Arrivals,
    /// How long before anything counts.
    pub ramp: Duration,
    /// How long what ends counts.
    pub measure: Duration,
    /// How long each row of its summary is.
    pub interval: Duration,
    /// How long nothing happens before it.
    pub pause: Duration,
}

impl Run {
    /// The measured time of a run that ends with its bytes: ten days.
    pub const UNTIL_DONE: Duration = Duration::from_secs(864_000);

    /// Whether it ends with its bytes, and with no time.
    pub fn is_until_done(&self) -> bool {
        self.measure == Self::UNTIL_DONE
    }

    /// Whether anything is written.
    pub fn writes(&self) -> bool {
        self.streams.iter().any(|stream| stream.spec.writes())
    }

    /// Requests kept outstanding by all streams; with rates, the most that may be.
    pub fn outstanding(&self) -> u64 {
        self.streams.iter().map(|stream| u64::from(stream.outstanding)).sum()
    }

    /// The rate over its streams that have shares, when earlier runs of the plan did `done` requests a second each; none where they
    /// have none, or where the earlier run is not done.
    pub fn rate(&self, done: &[f64]) -> Option<f64> {
        match self.total {
            Total::None => None,
            Total::Rate(per_s) => Some(per_s),
            Total::Curve { of, percent } => Some(((done.get(of)? * percent / 100.0 / 100.0).ceil() * 100.0).max(100.0)),
        }
    }

    /// The pace of one of its streams, at that rate of the run.
    pub fn pace(&self, stream: &Stream, rate: Option<f64>) -> Pace {
        let per_s = match (stream.pace, rate) {
            (StreamPace::Closed, _) | (StreamPace::Share(_), None) => return Pace::Closed,
            (StreamPace::Rate(per_s), _) => per_s,
            (StreamPace::Share(share), Some(rate)) => share * rate,
        };
        match self.arrivals {
            Arrivals::Even => Pace::Rate { per_s },
            Arrivals::Poisson => Pace::Poisson { per_s },
        }
    }
}

/// All that a job file asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The language that it was in.
    pub dialect: Dialect,
    /// What its streams go to.
    pub targets: Vec<NamedTarget>,
    /// One after the other.
    pub runs: Vec<Run>,
    /// What one should know.
    pub notes: Vec<Note>,
}

impl Plan {
    /// Whether any run writes.
    pub fn writes(&self) -> bool {
        self.runs.iter().any(Run::writes)
    }

    /// The time of all runs that have one, pauses and ramps counted in; runs that may end with their bytes take that at most.
    pub fn time(&self) -> Duration {
        let measure = |run: &Run| if run.is_until_done() { Duration::ZERO } else { run.measure };
        self.runs.iter().map(|run| run.pause + run.ramp + measure(run)).sum()
    }
}
