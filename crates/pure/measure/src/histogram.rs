//! Latencies of requests: how many of which length, added up over workers, disks and hosts.

use std::fmt;

use crate::{
    bins::{BINS, BinError, bin_of, bin_of_middle, middle_ns, upper_ns},
    iometer::{self, EDGES_US, IOMETER_BINS},
};

/// A share of requests in millionths: `Quantile::PERCENT * 99` is the 99th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantile(u32);

impl Quantile {
    /// The median.
    pub const P50: Self = Self(500_000);
    /// Nine of ten.
    pub const P90: Self = Self(900_000);
    /// 95 of a hundred.
    pub const P95: Self = Self(950_000);
    /// 99 of a hundred.
    pub const P99: Self = Self(990_000);
    /// 999 of a thousand.
    pub const P999: Self = Self(999_000);
    /// 9,999 of ten thousand.
    pub const P9999: Self = Self(999_900);

    /// So many millionths; none above a million.
    pub const fn of_millionths(millionths: u32) -> Option<Self> {
        if millionths <= 1_000_000 { Some(Self(millionths)) } else { None }
    }
}

/// Where a curve of latency against the share of requests passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// This long,
    pub within_ns: u64,
    /// or shorter, took this share of all requests, 0..=1.
    pub share: f64,
}

/// How many requests took how long.
#[derive(Clone, PartialEq)]
pub struct Histogram {
    bins: Vec<u64>,
    iometer: [u64; IOMETER_BINS],
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { bins: vec![0; BINS], iometer: [0; IOMETER_BINS], count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bins, sum_ns) = (self.fio_bins(), self.sum_ns);
        f.debug_struct("Histogram").field("bins", &bins).field("sum_ns", &sum_ns).finish_non_exhaustive()
    }
}

impl Histogram {
    /// One request took this long.
    pub fn record(&mut self, ns: u64) {
        self.bins[bin_of(ns)] += 1;
        self.iometer[iometer::bin_of(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds another one's requests.
    pub fn add(&mut self, other: &Self) {
        self.bins.iter_mut().zip(&other.bins).for_each(|(mine, theirs)| *mine += theirs);
        self.iometer.iter_mut().zip(&other.iometer).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Requests.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, from the exact sum.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The shortest, exactly.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// The longest, exactly.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// At most this long took that share: the middle of the bin in which it is reached, as fio has it; never longer than the
    /// longest.
    pub fn quantile_ns(&self, quantile: Quantile) -> Option<u64> {
        let due = (u128::from(self.count) * u128::from(quantile.0)).div_ceil(1_000_000).max(1);
        let mut seen = 0u128;
        let bin = self.bins.iter().position(|count| {
            seen += u128::from(*count);
            seen >= due
        })?;
        Some(middle_ns(bin).clamp(self.min_ns, self.max_ns))
    }

    /// The share of requests within each of IOMeter's edges (50 us .. 10 s), exactly: the points of its quality-of-service
    /// curves.
    pub fn shares_at_edges(&self) -> Option<[f64; IOMETER_BINS - 1]> {
        let mut seen = 0;
        (self.count > 0).then(|| {
            std::array::from_fn(|edge| {
                seen += self.iometer[edge];
                seen as f64 / self.count as f64
            })
        })
    }

    /// The share of requests within one of IOMeter's edges, exactly.
    pub fn share_within_us(&self, edge_us: u64) -> Option<f64> {
        let edge = EDGES_US.iter().position(|edge| *edge == edge_us)?;
        Some(self.shares_at_edges()?[edge])
    }

    /// The whole curve: a point for each bin that has requests, at its upper end.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let mut seen = 0;
        let used = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        let point = |(bin, count): (usize, &u64)| {
            seen += count;
            CurvePoint { within_ns: upper_ns(bin).min(self.max_ns), share: seen as f64 / self.count as f64 }
        };
        used.map(point).collect()
    }

    /// IOMeter's 21 counts.
    pub fn iometer(&self) -> [u64; IOMETER_BINS] {
        self.iometer
    }

    /// fio's json+ bins: middles in nanoseconds with counts, ascending, those without requests left out.
    pub fn fio_bins(&self) -> Vec<(u64, u64)> {
        let used = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(bin, count)| (middle_ns(bin), *count)).collect()
    }

    /// A histogram of fio's json+ bins. Mean, shortest and longest are those of the bins' middles.
    ///
    /// # Errors
    /// A key is no bin's.
    pub fn from_fio_bins(bins: impl IntoIterator<Item = (u64, u64)>) -> Result<Self, BinError> {
        let mut all = Self::default();
        for (ns, count) in bins {
            all.bins[bin_of_middle(ns)?] += count;
            all.iometer[iometer::bin_of(ns)] += count;
            all.count += count;
            all.sum_ns += u128::from(ns) * u128::from(count);
            if count > 0 {
                all.min_ns = all.min_ns.min(ns);
                all.max_ns = all.max_ns.max(ns);
            }
        }
        Ok(all)
    }
}
