//! The load generator of `cairn bench`: requests to NBD exports, vhost-user devices, block devices and files, and what
//! they took.
//!
//! Promises    B1  only what ends within the measured time counts; the ramp before it and the drain after it do not
//!             B2  a fixed rate is measured from when each request was due, not from when there was room to send it
//!             B3  a run that broke says so, and keeps what was measured until then, marked
//!             B4  nothing is written to a target without `--destructive`
//!             B5  a log is replayed in its order, each request due when it was recorded, whatever has ended
//! Assumes     one thread drives all targets: a run that needs more of it than 80 % of a processor is told as such
//! Not here    what is asked for (`cairn-workload`), job files' languages (`cairn-jobfile`), what the numbers say (`cairn-measure`), prices and sizes
#![deny(unsafe_code)]

pub mod address;
mod command;
pub mod fill_log;
pub mod fill_map;
pub mod group;
pub mod job;
mod ledger;
mod load;
mod meter;
mod nbd;
mod open;
pub mod output;
pub mod plan;
pub mod precondition;
mod process;
pub mod replay;
pub mod report;
mod room;
pub mod run;
pub mod study;
mod target;
mod verify;
mod vhost_user;
