//! One host: puts store, object layer and directory together; the only room that knows more than one of them.
//!
//! Promises    N1  the I/O path and failover need no directory: addresses, names and policies come from the local copy  (P5)
//!             N2  what is refused is explained with cause and remedy                                                (P7)
//! Assumes     one node for each shard of a server; the daemon gives it the world (`Outside`)
//! Not here    sockets, files, HTTP
#![forbid(unsafe_code)]

mod adapter;
mod closed_group;
mod exports;
mod follow;
mod gone;
mod gone_hosts;
mod groups;
mod last_word;
mod leaving;
mod level;
mod manage;
mod node;
mod outside;
mod picture;
mod rebalance;
mod reconcile;
mod schedule_watch;
mod schedules;
mod scrub;
mod scrub_watch;
mod servers;
mod slow;
mod slow_groups;
mod slow_state;
mod volume;
mod walk;

pub use adapter::GroupStore;
pub use exports::NodeExports;
pub use node::{Node, NodeOptions};
pub use outside::{DeviceError, DeviceErrorKind, GroupPaths, Outside};
pub use volume::NodeVolume;
