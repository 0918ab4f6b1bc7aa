//! Upgrades without an outage: who may meet whom, whether a build may start, whether an upgrade may be finished.
//!
//! Promises    U1  a host that is refused, or may not start, hears why in words, with what to do                             (P7)
//!             U2  two hosts meet only at a level that both speak; it is the higher of the two that they take the cluster for
//!             U3  finishing needs every host of the cluster to be heard of, and to speak the new level
//! Assumes     a level only rises, so that of two hosts the one with the higher level knows better
//! Not here    what a level switches on (`cairn_types::Feature`), greetings (`env-linux`), the transaction (`directory`)
#![forbid(unsafe_code)]

mod finish;
mod meet;
mod start;

pub use finish::{Hearing, Standing, obstacles, target};
pub use meet::{Party, meet};
pub use start::may_start;

use cairn_types::Level;

/// "start 0.3.0 or later": what speaks a level.
fn who_speaks(level: Level) -> String {
    match level.first_build() {
        Some(build) => format!("start {build} or later"),
        None => format!("start a release that speaks protocol {level}"),
    }
}
