//! Studies: prepared, run step by step, and written down while they run.
//!
//! Promises    S1  what was done stands in the manifest before the next thing begins: a study that is ended at any moment leaves what
//!                 it measured until then, marked as ended early
//!             S2  processes that a study started end with it
//!             S3  a folder that holds a run is never overwritten: it is gone on with, or refused
//! Not here    what a study consists of and what it must obey (`cairn-study`), tables and pictures (`cairn-report`)

mod cluster;
mod machine;
mod power;
mod processes;
mod programs;
mod record;
mod resilience;
mod runner;
mod sampler;
mod system;
mod vdi_storm;

pub use power::PowerSource;
pub use record::Record;
pub use resilience::{Hooks, run as run_resilience};
pub use runner::{Options, folder_of, run};
pub use system::Given;
pub use vdi_storm::run as run_vdi_storm;
