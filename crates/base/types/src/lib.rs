//! The vocabulary of Cairn: identities, order, units, policy, configuration, what may be done to a component.
//!
//! Promises    every name here means one thing in every room; values only, no behaviour with effects
//! Not here    how things are stored (`format`), sent (`wire`) or decided (`votes`, `record`, `placement`)
#![forbid(unsafe_code)]

mod addresses;
mod canary;
mod change;
mod config;
mod config_form;
mod device_times;
mod digest;
mod encode;
mod ids;
mod level;
mod maintenance;
mod order;
mod past;
mod policy;
mod redundancy;
mod room;
mod schedule;
mod slow;
mod units;
mod utc;

pub use addresses::{Addresses, Moving, Span};
pub use canary::Canary;
pub use change::{BlockOp, Change, ComponentOp, Contents, Difference, REMEMBERED_MAX, Run, UnsettledOp, concerns};
pub use config::{
    Accepted, ComponentState, Layout, Member, ObjectConfig, RECORD_BYTES_MAX, ReplicaSetIndex, Role, Seat, SeatRecord,
};
pub use device_times::{DeviceTimes, RequestKind, Served};
pub use digest::{BlockState, BlockStates, RegionDigest};
pub use encode::encode_onto;
pub use ids::{
    ClusterId, ComponentId, DeviceId, DiskGroupId, HostId, Incarnation, ObjectId, ParseIdError, SessionId, SnapshotId,
};
pub use level::{Build, Feature, Level, Speaks};
pub use maintenance::MaintenanceMode;
pub use order::{ClientTag, Csn, Epoch, OpId};
pub use past::{Past, SNAPSHOT_NAME_BYTES_MAX, SNAPSHOTS_MAX, Snapshot, scheduled_name};
pub use policy::{FaultToleranceMethod, Policy, PolicyError};
pub use redundancy::{Redundancy, RedundancyError};
pub use room::{DeviceRoom, THIN_HEADROOM_BYTES, demand_bytes};
pub use schedule::{
    Keep, LOCKED_FOR_S_MAX, SCHEDULE_EVERY_S_MAX, SCHEDULE_EVERY_S_MIN, SCHEDULE_NAME_BYTES_MAX, SCHEDULE_PATTERNS_MAX,
    SCHEDULES_MAX, Schedule,
};
pub use slow::SlowDevices;
pub use units::{
    BLOCK_BYTES, BlockRange, CHUNK_BYTES_MAX, Crcs, OBJECT_BYTES_MAX, REGION_BLOCKS, REGION_BYTES, RegionIndex,
    SECTOR_BYTES, Time, format_bytes, parse_bytes,
};
pub use utc::{STAMP_BYTES, STAMP_UNIX_S_MAX, format_utc, utc_stamp};
