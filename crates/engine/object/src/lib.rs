//! The object layer: owners, components, the way of a write, settling, resync, and the client that finds owners.
//!
//! Promises    P1..P6 of SPECIFICATION.md, for mirrors
//! Assumes     `env` carries messages in order per connection; `LocalStore` makes appends durable in order
//! Not here    the decisions (`record`, `votes`, `geometry`), the log (`store`), where components go (`placement`)
#![forbid(unsafe_code)]

mod arrived;
mod client;
mod copies;
mod forwards;
mod leases;
mod local_store;
mod locks;
mod numbered;
mod owner;
mod pace;
mod rpc;
mod seats;
mod serve;
mod serving;
mod session;
mod shard;
mod signal;
mod stages;
mod window;

pub use cairn_metrics::{GuestCounters, OwnerCounters};
pub use client::DiskClient;
pub use leases::{GroupTold, LeaseOptions, Leases};
pub use local_store::{LocalComponent, LocalStore};
pub use owner::{Command, Ended, ObjectStatus, Owned, ResyncStatus, SeizeError};
pub use rpc::Rpc;
pub use seats::{Seats, Served};
pub use shard::{MemberChange, ObjectEvent, ObjectOptions, Placer, Shard};
pub use stages::{CopyLatencies, DiskLatencies, IoKind, Stage};
