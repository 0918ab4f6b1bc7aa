//! What a measurement says, and whether it may be believed: latencies as bins, repeats, steadiness, Little's law.
//!
//! Promises    M1  bins are added, never averaged: the percentile of many workers is that of all their requests (tests/bins.rs)
//!             M2  a bin is at most 1/64 of its latency wide, and bins are fio's: its json+ is read and written exactly
//!             M3  what was never measured has no number: an empty histogram has no mean and no percentile
//! Not here    clocks, load, files: who measures brings nanoseconds; money and sizes (`sizing`)
//! Source      fio `stat.c`/`stat.h` for the bins; IOMeter 1.1 for its 21; SNIA SSS PTS 2.0.2 for steadiness
#![forbid(unsafe_code)]

mod bins;
mod histogram;
mod iometer;
mod repeats;
mod stage;
mod steady;

pub use bins::{BINS, BinError, bin_of, middle_ns, upper_ns};
pub use histogram::{CurvePoint, Histogram, Quantile};
pub use iometer::{EDGES_US, IOMETER_BINS, LABELS};
pub use repeats::{Little, Spread, little, spread};
pub use stage::{Latencies, STAGE_BINS, StageBin};
pub use steady::{ROUNDS, Steadiness, steadiness};
