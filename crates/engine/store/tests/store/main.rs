//! The store against refusals, faults and full devices, over simulated disks.
//!
//! The crash sweep is in `crates/check/sim/tests/store_crash`.

mod bad_marks;
mod caches;
mod compare;
mod counters;
mod ends;
mod faults;
mod fill;
mod full;
mod grow;
mod history_fill;
mod kept;
mod latencies;
mod map;
mod old_rows;
mod packed;
mod placed;
mod refusals;
mod rewrite;
mod rows;
mod scrub;
mod shared;
mod snapshots;
mod support;
