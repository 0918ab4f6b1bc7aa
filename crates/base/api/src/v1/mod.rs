//! Version 1 of the API. Requests refuse unknown fields, answers may gain some: clients ignore what they do not know.

mod cache;
mod capacity;
mod clone;
mod cluster;
mod counters;
mod device;
mod disk;
mod disk_group;
mod explain;
mod health;
mod host;
mod latency;
mod members;
mod name;
mod policy;
mod policy_edit;
mod record;
mod resync;
mod schedule;
mod scrub;
mod session;
mod snapshot;
mod upgrade;
mod usage;
mod what_if;

pub use cairn_metrics::{
    DiskGauges, GuestCounters, HostGauges, OwnerCounters, RequestTimes, StoreCounters, StoreGauges,
};

// All that a noun has is the API's: a new type is named in its own file only.
pub use self::{
    cache::*, capacity::*, clone::*, cluster::*, counters::*, device::*, disk::*, disk_group::*, explain::*, health::*,
    host::*, latency::*, members::*, name::*, policy::*, policy_edit::*, record::*, resync::*, schedule::*, scrub::*,
    session::*, snapshot::*, upgrade::*, usage::*, what_if::*,
};
