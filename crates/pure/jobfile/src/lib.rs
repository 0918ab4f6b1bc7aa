//! Job files of other tools, as plans of runs: Vdbench's parameter files, fio's job files, IOMeter's `.icf`, HCIBench's flags. fio's
//! I/O logs as requests and their times.
//!
//! Promises    J1  what a file asks for and is not done here is an error that names line and keyword; what changes no number is a
//!                 note of the plan; nothing is left out in silence                                    (tests/)
//!             J2  any bytes are an answer or an error, never a panic                                  (tests/hostile.rs)
//!             J3  a plan has names of targets, and never says by itself what is overwritten
//! Assumes     the meanings of keywords are those of Vdbench 5.04, fio 3 and IOMeter 1.1
//! Not here    reading files, targets, running (`bench`)
#![forbid(unsafe_code)]

mod error;
pub mod fio;
pub mod hcibench;
pub mod icf;
pub mod iolog;
mod keyword;
mod number;
mod plan;
mod tell;
pub mod vdbench;

/// What becomes of each keyword of Vdbench and of fio, as a Markdown table.
pub fn keywords() -> String {
    format!("| of | | keywords | why, or what to do |\n|---|---|---|---|\n{}{}", vdbench::told(), fio::told())
}

pub use error::FileError;
pub use plan::{Arrivals, Dialect, NamedTarget, Note, Plan, Run, Stream, StreamPace, Total};
