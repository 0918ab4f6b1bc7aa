//! Writes every byte of targets before they are measured: what was never written is served from nowhere, and would be no measurement.
//!
//! Promises    P1  every byte of every target is written once in each pass, in order, whatever its size
//!             P2  no two blocks are alike unless that is asked for, also across targets and passes, and none is zero
//!             P3  it is told as done only when all was written
//! Method      pieces of all targets, one load each: between two of them it is known how far it is

use std::time::{Duration, Instant};

use cairn_workload::{Addresses, Content, Kind, Spec};

use crate::{
    address::Address,
    job::{Job, RunError, StreamJob},
    run,
};

/// What is written, and with what.
#[derive(Debug, Clone)]
pub struct Precondition {
    /// Where to, all at once.
    pub targets: Vec<Address>,
    /// The first so many bytes of each; all of them where not told.
    pub bytes_each: Option<u64>,
    /// How often.
    pub passes: u32,
    /// Bytes of a request; the last one of a target may be smaller.
    pub block_bytes: u32,
    /// What is written. Each pass has a seed of its own.
    pub content: Content,
    /// What the targets hold may be lost.
    pub destructive: bool,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes, of all passes on all targets.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// Bytes of one target in a piece, about.
const PIECE_BYTES: u64 = 64 << 20;
/// Requests outstanding at each target.
const OUTSTANDING: u64 = 4;
/// A piece ends with its bytes; no medium needs so long for them.
const PIECE_MAX: Duration = Duration::from_secs(30 * 86_400);

impl Precondition {
    /// Writes, and tells on the way how many bytes of how many are written.
    ///
    /// # Errors
    /// What was wrong at which target; what was written until then stays.
    pub fn run(&self, told: &dyn Fn(u64, u64)) -> Result<Written, RunError> {
        if !self.destructive {
            let why =
                "every byte of the targets is written, and what they hold is lost: say --destructive if that is meant";
            return Err(RunError::Refused(why.into()));
        }
        let sizes = self.sizes()?;
        let whole = sizes.iter().sum::<u64>() * u64::from(self.passes);
        let (begun, mut bytes) = (Instant::now(), 0);
        let piece = (PIECE_BYTES / u64::from(self.block_bytes)).max(1) * u64::from(self.block_bytes);
        let most = sizes.iter().copied().max().unwrap_or(0);
        for pass in 0..self.passes {
            for begin in (0..most).step_by(piece as usize) {
                told(bytes, whole);
                let streams = self.streams(&sizes, pass, begin, piece);
                let asked: u64 = streams.iter().map(|stream| stream.spec.span_bytes).sum();
                let job = Job { streams, measure: PIECE_MAX, destructive: true, ..Job::default() };
                let measured = run::run(&job)?;
                if let Some(why) = measured.broken {
                    return Err(why);
                }
                if measured.writes.bytes != asked {
                    let wrote = measured.writes.bytes;
                    return Err(RunError::Job(format!("{wrote} of {asked} bytes were written from {begin} on")));
                }
                bytes += asked;
            }
        }
        told(bytes, whole);
        Ok(Written { bytes, took: begun.elapsed() })
    }

    /// What was done, in one line.
    pub fn line(&self, written: &Written) -> String {
        let (targets, passes, seconds) = (self.targets.len(), self.passes, written.took.as_secs_f64());
        let per_s = |unit: f64| written.bytes as f64 / unit / seconds.max(1e-9);
        let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!(
            "{}, {} of every byte: {} bytes in {seconds:.2} s, {:.1} MiB/s, {:.1} MB/s",
            plural(targets, "target"),
            plural(passes as usize, "write"),
            written.bytes,
            per_s(f64::from(1 << 20)),
            per_s(1e6)
        )
    }

    /// What is written of each target.
    fn sizes(&self) -> Result<Vec<u64>, RunError> {
        let sizes = run::sizes(&self.targets)?;
        let of = |(size, target): (u64, &Address)| match self.bytes_each {
            Some(asked) if asked > size => {
                let why = format!("it has {size} bytes, and {asked} are to be written");
                Err(RunError::Open { target: target.to_string(), why })
            }
            asked => Ok(asked.unwrap_or(size)),
        };
        sizes.into_iter().zip(&self.targets).map(of).collect()
    }

    /// The writes of one piece: whole requests, and what is left behind the last one of a target.
    fn streams(&self, sizes: &[u64], pass: u32, begin: u64, piece: u64) -> Vec<StreamJob> {
        let seed = self.content.seed.wrapping_add(u64::from(pass));
        let stream = |target: &Address, span_begin: u64, span_bytes: u64, block: u32| {
            let kinds = vec![Kind::new(block, 0, 0)];
            let spec = Spec { kinds, addresses: Addresses::Uniform, span_begin, span_bytes, seed };
            StreamJob {
                outstanding: OUTSTANDING.min(span_bytes / u64::from(block)) as u32,
                bytes_max: Some(span_bytes),
                ..StreamJob::new(target.clone(), spec, Content { seed, ..self.content })
            }
        };
        let block = u64::from(self.block_bytes);
        let mut streams = Vec::new();
        for (target, size) in self.targets.iter().zip(sizes) {
            let bytes = size.saturating_sub(begin).min(piece);
            let rest = bytes % block;
            if bytes > rest {
                streams.push(stream(target, begin, bytes - rest, self.block_bytes));
            }
            if rest > 0 {
                streams.push(stream(target, begin + bytes - rest, rest, rest as u32));
            }
        }
        streams
    }
}
