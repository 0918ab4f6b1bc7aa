//! How long guests' requests took, as a histogram.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::measure::{Kind, Measure, Scope, Unit};

/// The one histogram: of each disk, of reads and of writes.
pub const REQUEST_SECONDS: Measure = Measure {
    name: "request_ns",
    kind: Kind::Histogram,
    unit: Unit::Nanoseconds,
    scope: Scope::Disk,
    help: " How long guests' reads and writes took at the guest's host, from the front end and back; failed ones are left out.",
    column: None,
};

/// The shortest bucket ends here, in microseconds.
///
/// Each of the next ends at twice that: 64 us (memory or a fast log) to 8.4 s (longer than a fail-over).
const FIRST_US: u64 = 64;
/// How many have an end; what is longer is in none.
const BUCKETS: u32 = 18;

/// How many requests took how long. Of a disk and one kind of requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RequestTimes {
    /// All of them.
    pub count: u64,
    /// Together, in nanoseconds.
    pub sum_ns: u64,
    /// Ascending pairs: below so many microseconds, and not below the pair before; how many. Pairs without any are left out.
    pub buckets: Vec<[u64; 2]>,
}

impl RequestTimes {
    /// Of `bins`: ascending, not overlapping, each with where it ends in microseconds and how many it has.
    ///
    /// A bin belongs to the bucket that it ends in, which is exact where the ends of buckets are ends of bins.
    pub fn new(count: u64, sum_ns: u64, bins: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut buckets: Vec<[u64; 2]> = Vec::new();
        for (below_us, many) in bins {
            let Some(end) = Self::ends_us().find(|end| below_us <= *end) else { continue };
            match buckets.last_mut() {
                Some([last, sum]) if *last == end => *sum += many,
                _ => buckets.push([end, many]),
            }
        }
        Self { count, sum_ns, buckets }
    }

    /// Where buckets end, in microseconds.
    pub fn ends_us() -> impl Iterator<Item = u64> {
        (0..BUCKETS).map(|n| FIRST_US << n)
    }

    /// As Prometheus counts: of each end in microseconds how many took less.
    pub fn below(&self) -> impl Iterator<Item = (u64, u64)> {
        Self::ends_us().map(|end| {
            let within = self.buckets.iter().filter(move |[below, _]| *below <= end);
            (end, within.map(|[_, many]| many).sum())
        })
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |end: u64| earlier.buckets.iter().find(|[below, _]| *below == end).map_or(0, |[_, many]| *many);
        let added = self.buckets.iter().map(|[below, many]| [*below, many.saturating_sub(before(*below))]);
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            buckets: added.filter(|[_, many]| *many > 0).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_fall_into_the_bucket_that_they_end_in_and_later_ones_contain_earlier_ones() {
        let bins = [(9, 1), (64, 2), (72, 4), (128, 8), (8_388_608, 16), (9_000_000, 32)];
        let times = RequestTimes::new(63, 7, bins.into_iter());
        assert_eq!(times.buckets, [[64, 3], [128, 12], [8_388_608, 16]]);
        let below: Vec<_> = times.below().collect();
        assert_eq!((below[0], below[1], below[2], below[17]), ((64, 3), (128, 15), (256, 15), (8_388_608, 31)));
        let earlier = RequestTimes::new(3, 2, [(64, 3)].into_iter());
        let added = times.since(&earlier);
        assert_eq!((added.count, added.sum_ns, added.buckets), (60, 5, vec![[128, 12], [8_388_608, 16]]));
    }
}
