//! Every number that Cairn counts, declared once: its name, unit, kind, what it says, and of what it is.
//!
//! Promises    who counts increments the field that the API serialises, Prometheus reads and the command line shows
//!             one number has one name: the field's, with Prometheus' prefix, unit and `_total` around it
//! Assumes     nothing of who counts: plain numbers, no clock, no atomics
//! Not here    collecting them from hosts (`node`), HTTP (the daemon)
#![forbid(unsafe_code)]

mod declared;
mod measure;
mod text;
mod times;

pub use declared::{DiskGauges, GuestCounters, HostGauges, OwnerCounters, StoreCounters, StoreGauges};
pub use measure::{Kind, Measure, Scope, Unit};
pub use text::{Exposition, page};
pub use times::{REQUEST_SECONDS, RequestTimes};

/// Every declared number, in the order of the documentation.
pub fn all() -> impl Iterator<Item = &'static Measure> {
    let gauges = [HostGauges::MEASURES, DiskGauges::MEASURES];
    let host = gauges[0].iter().chain(OwnerCounters::MEASURES);
    let disk = GuestCounters::MEASURES.iter().chain([&REQUEST_SECONDS]).chain(gauges[1]);
    host.chain(disk).chain(StoreGauges::MEASURES).chain(StoreCounters::MEASURES)
}
