//! Latencies of one stage of an I/O: few fixed bins in plain memory, cheap enough to be kept of every request.
//!
//! Promises    L1  recording takes no memory, no lock and no clock: the caller brings nanoseconds
//!             L2  counts, sum and longest are exact; a bin is at most 1/8 of its latency wide from 8 us on (tests/stage.rs)
//!             L3  counts only grow, so that the difference of two copies is what came between
//! Not here    fio's bins, of which there are ten times as many (`bins`); what the stages are (`object`, `store`)
//! Source      log-linear bins: G. Tene, HdrHistogram

use std::fmt;

/// Bins of one power of two.
const PER_POWER: usize = 8;

/// How many bins there are: 8 of 1 us each, then 8 for each power of two from 8 us up to 67 s; what is longer is in the last.
pub const STAGE_BINS: usize = 24 * PER_POWER;

/// The bin of a latency in microseconds.
const fn bin_of_us(us: u64) -> usize {
    if us < PER_POWER as u64 {
        return us as usize;
    }
    let power = us.ilog2();
    let bin = (power as usize - 2) * PER_POWER + ((us >> (power - 3)) as usize & (PER_POWER - 1));
    if bin < STAGE_BINS { bin } else { STAGE_BINS - 1 }
}

/// The shortest latency of a bin in microseconds; of `STAGE_BINS`, where the last one ends.
const fn from_us(bin: usize) -> u64 {
    match bin < PER_POWER {
        true => bin as u64,
        false => ((PER_POWER + bin % PER_POWER) as u64) << (bin / PER_POWER - 1),
    }
}

/// Some latencies that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageBin {
    /// This long or longer, in microseconds,
    pub from_us: u64,
    /// and shorter than this; the last bin has no end.
    pub below_us: u64,
    /// So many.
    pub count: u64,
}

/// How many times a stage took how long: 816 bytes.
///
/// Counts are of 32 bits, which halves the memory; a bin that is full notes so and begins anew.
#[derive(Clone, PartialEq, Eq)]
pub struct Latencies {
    bins: [u32; STAGE_BINS],
    sum_ns: u64,
    max_ns: u64,
    /// Bins that were full, once for each time. Empty for the first four thousand million of a bin.
    full: Vec<u8>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { bins: [0; STAGE_BINS], sum_ns: 0, max_ns: 0, full: Vec::new() }
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, sum_ns) = (self.count(), self.sum_ns);
        f.debug_struct("Latencies").field("count", &count).field("sum_ns", &sum_ns).finish_non_exhaustive()
    }
}

impl Latencies {
    /// The stage took this long once.
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// It took this long so many times.
    pub fn record_many(&mut self, ns: u64, count: u32) {
        let bin = bin_of_us(ns / 1000);
        let (sum, full) = self.bins[bin].overflowing_add(count);
        self.bins[bin] = sum;
        if full {
            self.full.push(bin as u8);
        }
        self.sum_ns = self.sum_ns.saturating_add(ns.saturating_mul(u64::from(count)));
        if count > 0 {
            self.max_ns = self.max_ns.max(ns);
        }
    }

    /// Adds another one's.
    pub fn add(&mut self, other: &Self) {
        for (bin, count) in other.bins.iter().enumerate() {
            let (sum, full) = self.bins[bin].overflowing_add(*count);
            self.bins[bin] = sum;
            if full {
                self.full.push(bin as u8);
            }
        }
        self.full.extend(&other.full);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many times.
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|count| u64::from(*count)).sum::<u64>() + ((self.full.len() as u64) << 32)
    }

    /// All together, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The longest, in nanoseconds; 0 where there was none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The bins that have any, ascending.
    pub fn bins(&self) -> Vec<StageBin> {
        let count = |bin: usize| {
            let full = self.full.iter().filter(|full| usize::from(**full) == bin).count() as u64;
            u64::from(self.bins[bin]) + (full << 32)
        };
        let all = (0..STAGE_BINS).map(|bin| StageBin {
            from_us: from_us(bin),
            below_us: from_us(bin + 1),
            count: count(bin),
        });
        all.filter(|bin| bin.count > 0).collect()
    }
}

const _: () = assert!(STAGE_BINS <= u8::MAX as usize + 1 && size_of::<Latencies>() <= 816);
