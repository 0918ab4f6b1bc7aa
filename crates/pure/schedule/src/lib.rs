//! Schedules of snapshots: which run is due, who begins it, and which snapshots go afterwards. Arithmetic on times and records that come in.
//!
//! Promises    of each module at its head
//! Not here    clocks and the directory (`node`), the snapshots themselves (`owner`)
#![forbid(unsafe_code)]

mod clocks;
mod pattern;
mod record;
mod retention;
mod slots;
mod turn;

pub use clocks::middle;
pub use pattern::matches;
pub use record::{Missed, PROBLEMS_MAX, Run, ScheduleRecord};
pub use retention::to_delete;
pub use slots::{due, next, passed_over, slot_at};
pub use turn::{OTHERS_AFTER, RUN_LEFT_AFTER, Seen, Turn, again_after, turn};
