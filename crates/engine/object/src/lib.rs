//! The object layer: owners, components, the way of a write, settling, resync, and the client that finds owners.
//!
//! Promises    P1..P6 of SPECIFICATION.md, for mirrors
//! Assumes     `env` carries messages in order per connection; `LocalStore` makes appends durable in order
//! Not here    the decisions (`owner`, `record`, `votes`, `geometry`), the log (`store`), where components go (`placement`)
//!
//! Who holds whom, from the top. What is below does not know what is above it:
//!
//! - a node holds [`Objects`]: one of a host, and so of a thread (`serve` and `client` are written against it);
//! - `Objects` holds the table of what is owned here, and the guests, seizures and waits of its host;
//! - [`Owned`] is one object at one epoch: its tasks (keeper, resyncs, operations) hold it, the table does until it ends;
//! - `State` within it is what the owner knows and decides by; it changes in plain functions only (`cairn-owner`);
//! - `Context` is what owners share: calls, seats, leases, options, budgets. `Objects` and each `Owned` hold it;
//! - [`Seats`] hold [`Leases`], [`Leases`] hold [`Rpc`]; none of them knows an owner.
//!
//! Circles of `Rc`: an `Owned` holds the table that it is in, to leave it when it ends. An object that has ended is out of it;
//! [`Objects::abandon`] empties it when the process ends. Listeners and the placer come from above: whoever sets them holds
//! this layer weakly in them, or nothing would ever be freed.
//!
//! Nobody holds the borrow of a `RefCell` over an await: fetch what is needed, let go, then wait, then look again. Clippy refuses
//! a borrow that it sees held. It does not see one inside an awaited expression: that lives until the expression resolves.
#![forbid(unsafe_code)]

mod arrived;
mod bytes;
mod client;
mod context;
mod copies;
mod event;
mod forwards;
mod guests;
mod leases;
mod local_store;
mod locks;
mod look_up;
mod objects;
mod options;
mod owner;
mod pace;
mod parents;
mod parents_known;
mod placer;
mod rpc;
mod seats;
mod serve;
mod serving;
mod session;
mod signal;
mod snapshot_reader;
mod stages;
mod view;
mod window;

pub use cairn_metrics::{GuestCounters, OwnerCounters};
pub use client::DiskClient;
pub use event::ObjectEvent;
pub use leases::{GroupTold, LeaseOptions, Leases};
pub use local_store::{LocalComponent, LocalStore};
pub use objects::Objects;
pub use options::ObjectOptions;
pub use owner::{Ended, Owned, SeizeError};
pub use placer::{AskedToMove, Converted, MemberChange, NextMove, Placer, PolicyStep};
pub use rpc::Rpc;
pub use seats::{Seats, Served};
pub use snapshot_reader::SnapshotReader;
pub use stages::{CopyLatencies, DiskLatencies, IoKind, Stage};
