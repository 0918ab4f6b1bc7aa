//! What the cluster knows in common: hosts, disk groups, policies, the catalogue of disks, tasks.
//!
//! Promises    every write states what it replaces, so no writer undoes another's unseen change
//!             a transaction takes effect as a whole or not at all, and watchers see it as a whole, in order
//!             a directory that is away says so in words, in bounded time (the implementation's), never by hanging
//! Assumes     little traffic (a few operations per second) and small values: it is not on the I/O path
//! Not here    the truth about an object, which is its record: an entry here is a hint where to ask
//!             the etcd implementation, files and processes (`directory-etcd`)
//! Layers      `kv` keys, revisions, transactions, watch  ->  `Registry` typed entries  ->  catalogue verbs
#![forbid(unsafe_code)]

mod catalogue;
mod clones;
mod embedded;
mod entries;
mod follow;
mod gate;
mod history;
mod key;
mod kv;
mod level;
mod local_copy;
mod members;
mod membership;
pub mod names;
mod registry;
mod slow_groups;

pub use catalogue::{Adopted, NewDisk};
pub use clones::{CloneOf, Closed};
pub use embedded::{Embedded, HISTORY_CHANGES_MAX};
pub use entries::{
    CatalogueEntry, ClusterSettings, ComponentPlace, CreateIntent, DeviceEntry, DeviceRole, DiskGroupEntry, DiskState,
    Entry, Gone, GoneHostEntry, HostEntry, HostIntent, HostNameEntry, LevelEntry, MutedCheck, NameEntry,
    REBALANCE_POINTS, REPAIR_PAUSE_MAX_MS, RepairPause, TaskEntry, TaskId, TaskOutcome, TheCluster,
};
pub use follow::{Followed, Follower};
pub use gate::Gate;
pub use history::{EVENTS_MAX, Found, HealthEvent, HealthHistoryEntry};
pub use key::{Key, Kind, Scope};
pub use kv::{
    BoxFuture, Change, Changes, Directory, DirectoryError, Health, ListedMember, Listing, MemberHealth, Op, Revision,
    Stored, TXN_BYTES_MAX, TXN_OPS_MAX, Txn, VALUE_BYTES_MAX, Watch, WatchItem, decide,
};
pub use local_copy::{Aged, LocalCopy};
pub use members::{DirectoryMember, DirectoryMembers, MEMBERS_MAX};
pub use names::Name;
pub use registry::{Listed, Registry, Versioned};
pub use slow_groups::{CalledOff, SlowGroup, SlowGroupsEntry};
