//! A deterministic world for Cairn: simulated hosts, disks, links and clocks behind `cairn_env::Env`.
//!
//! Promises    the same seed gives the same run; a crash loses any subset of unsynced sectors and tears writes at
//!             512 bytes; whatever `docs/fault-model.md` lists as simulated can be made to happen at a chosen moment
//! Assumes     the program under test takes time, chance and I/O from its `Env` only
//! Not here    what a cluster must promise: the tests of this crate, and those of the rooms that use it
//!
//! ```
//! use cairn_env::{Disk, Durability, PageBuf};
//! use cairn_sim::{CrashPhase, CrashPoint, Crashed, World};
//!
//! let world = World::new(7);
//! let host = world.add_host("a");
//! host.add_disk("cache", 64 << 20);
//! // Power goes while the second operation is in flight.
//! host.crash_at(CrashPoint { operation: 2, phase: CrashPhase::During, loss_seed: 1 });
//! let disk = host.disk("cache");
//! let ran = host.run(async move {
//!     let block = PageBuf::zeroed(4096).freeze();
//!     disk.write(0, vec![block.clone()], Durability::Durable).await.unwrap();
//!     disk.write(4096, vec![block], Durability::Durable).await.unwrap();
//! });
//! assert_eq!(ran, Err(Crashed));
//! host.restart();
//! let disk = host.disk("cache"); // the handles of the old process are dead
//! assert!(host.run(async move { disk.read(0, 4096).await }).unwrap().is_ok());
//! ```
#![forbid(unsafe_code)]

mod disk;
mod env;
mod executor;
mod faults;
mod host;
mod medium;
mod net;
mod rng;
mod trace;
mod world;

pub use disk::{DiskCounters, DiskLatency, SimDisk};
pub use env::SimEnv;
pub use faults::Fault;
pub use host::{CrashImage, CrashPhase, CrashPoint, Crashed, Host};
pub use medium::Medium;
pub use net::{NetTimes, Traffic};
pub use rng::Rng;
pub use world::World;
