//! Studies: what was run in which order (the manifest), and what was measured (the results).
//!
//! Promises    what is written as JSON here can be read again by every later version of the same `schema`
//!             units are in the names: `_ns`, `_ms`, `_bytes`; a share is 0..=1, a percentage 0..=100
//! Assumes     times of the manifest are ms since 1970; times of samples are ms since the measured phase began
//! Not here    running anything (`cairn-bench`), pictures and tables (`cairn-report`)
#![forbid(unsafe_code)]

mod knee;
mod manifest;
mod plan;
mod resilience;
mod results;
mod studies;
mod vdi_storm;
mod verify;

pub use knee::{SECOND_LEVEL_MAX, knee, median};
pub use manifest::{Action, ArmMedia, Counters, Machine, Manifest, Phase, PhaseKind, Step, TargetFacts};
pub use plan::{Cluster, Plan, Scale, Test};
pub use resilience::Resilience;
pub use results::{Cell, Checks, Desktops, Gauges, Latency, Params, Power, Results, Sample, Side, Verdict, repeats_of};
pub use studies::{MadeOf, PARTS_OF_OTHERS, Part, STUDIES, Study, verify};
pub use vdi_storm::{Part as VdiPart, VdiStorm, response_ms, threshold_ms};

/// The version of both files. A reader refuses a larger one.
pub const SCHEMA: u32 = 1;
