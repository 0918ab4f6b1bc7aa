//! How fast work in the background may go beside guests, and how soon what failed is tried again: arithmetic on times that come in.
//!
//! Promises    of each module at its head
//! Not here    clocks, chance and sleep (`env`), what is paced (`object`)
#![forbid(unsafe_code)]

mod backoff;
mod lanes;
mod meter;
mod scrub;
mod slow;
mod throttle;

pub use backoff::Backoff;
pub use lanes::Lanes;
pub use meter::CopyMeter;
pub use scrub::{scrub_is_due, scrub_is_late, scrub_pause, scrub_rate_min};
pub use slow::{Outlier, Pace, SLOW_SPAN, SLOW_SPANS, SlowWatch, judge};
pub use throttle::{PIECE_BYTES, Throttle};
