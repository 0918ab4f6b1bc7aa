//! The whole cluster in a simulated world: real hosts, guests that check every byte, and every fault that is claimed to
//! be survived.
//!
//! Promises    one seed is one run ([`run::Outcome::hash`]); a run that fails says what was broken, and can be shortened
//! Assumes     the world is deterministic (`cairn-sim`), and the product takes all its inputs from it
//! Not here    the simulated machines themselves (`cairn-sim`); processes and real kernels (`cairn-e2e`)
//!
//! A run: `plan` draws a cluster (`shape`) and what happens to it from the seed; `cluster` starts the hosts; `guests` work on
//! the disks and compare what they read with a `model`; `inject` makes the plan happen; then all faults end, and what must hold
//! at `rest` is checked. `run` puts these together; `shrink` takes away what a failure does not need.
#![forbid(unsafe_code)]

pub mod bad_blocks;
pub mod changes;
pub mod clones;
pub mod cluster;
pub mod copied;
pub mod curves;
pub mod directory;
mod draw;
pub mod ends;
pub mod groups;
pub mod guests;
pub mod held;
pub mod inject;
mod log;
mod membership;
mod menu;
pub mod model;
mod options;
pub mod plan;
pub mod release;
pub mod rest;
pub mod run;
pub mod scenarios;
pub mod schedules;
pub mod servers;
pub mod shape;
pub mod shrink;
pub mod snapshots;
