//! IOMeter's 21 latency bins: what the old reports were drawn from.
//!
//! The edges are those of the labels in IOMeter's results. Its source has 1/67 s for "15 ms", 1/33 s for "30 ms" and 4 s for
//! "4.7 s"; the labels are what people read, and the thresholds of the reports (1, 2, 5, 10, 30 ms) are edges in both.

/// How many bins IOMeter has.
pub const IOMETER_BINS: usize = 21;

/// Upper edges in microseconds, of all but the last bin.
pub const EDGES_US: [u64; IOMETER_BINS - 1] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 4_700_000, 5_000_000, 10_000_000,
];

/// The bins' names in IOMeter's results.
pub const LABELS: [&str; IOMETER_BINS] = [
    "0 uS to 50 uS",
    "50 uS to 100 uS",
    "100 uS to 200 uS",
    "200 uS to 500 uS",
    "0.5 mS to 1 mS",
    "1 mS to 2 mS",
    "2 mS to 5 mS",
    "5 mS to 10 mS",
    "10 mS to 15 mS",
    "15 mS to 20 mS",
    "20 mS to 30 mS",
    "30 mS to 50 mS",
    "50 mS to 100 mS",
    "100 mS to 200 mS",
    "200 mS to 500 mS",
    "0.5 S to 1 S",
    "1 s to 2 s",
    "2 s to 4.7 s",
    "4.7 s to 5 s",
    "5 s to 10 s",
    ">= 10 s",
];

/// The bin of a latency: one of exactly an edge is still below it.
pub(crate) fn bin_of(ns: u64) -> usize {
    EDGES_US.partition_point(|edge_us| edge_us * 1000 < ns)
}
