//! The directory in the real world: on etcd, in a file, and the etcd members that `cairnd` runs itself.
//!
//! Promises    every call ends within [`CALL_MS_MAX`], from whatever thread it is made: the work is done on the runtime
//!             that the directory was given; a member that dies is left for another at once
//!             a supervised etcd never outlives its daemon
//! Assumes     etcd 3.4 or newer, reached by plain HTTP on a trusted network
//! Not here    what is stored (`cairn-directory`); fencing of I/O: no etcd lease is used anywhere
#![deny(unsafe_code)]

mod calls;
mod change;
mod cluster;
mod directory;
mod endpoints;
mod files;
mod keeper;
mod member;
mod rejoin;
pub mod supervise;
mod watch;

pub use directory::EtcdDirectory;
pub use endpoints::{ATTEMPT_MS_MAX, CALL_MS_MAX};
pub use files::{load_local_copy, local_copy_path, local_copy_tells_members, open_embedded_file, store_local_copy};
pub use keeper::{Keeper, KeeperConfig, MembersTold};
