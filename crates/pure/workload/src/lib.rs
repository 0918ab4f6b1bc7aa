//! What a load asks for: which bytes, how many, when, with what in them. Plain functions of a seed.
//!
//! Promises    L1  one seed is one load: request `n` of worker `w` is the same on every machine        (tests/load.rs)
//!             L2  every request lies within its span, and begins at a multiple of its size from the span's begin
//!             L3  no block that is written is all zeroes, and what one holds is known from seed, place and generation
//!             L4  a fixed rate is a schedule: who is late has still begun when it was due, so that waiting is measured
//! Not here    who sends them and measures (`bench`), what the numbers say (`measure`)
#![forbid(unsafe_code)]

mod addresses;
mod content;
mod draw;
mod pace;
mod spec;

pub use addresses::{Direction, Request, Requests};
pub use content::{Content, UNIT_BYTES};
pub use pace::{Pace, Schedule};
pub use spec::{Addresses, KINDS_MAX, Kind, Spec, SpecError};
