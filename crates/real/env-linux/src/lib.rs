//! Cairn's world on Linux: disks, messages, time and chance for the rooms that know only [`cairn_env`].
//!
//! Promises    one host is one task set on one thread: its ring, its sockets and its tasks never leave that thread
//!             a buffer given to the kernel lives until the kernel is done with it, whatever happens to the future
//!             nothing that arrives on a port can crash the process or make it hold more than stated bounds
//! Assumes     Linux 5.19 or newer for the ring; older kernels, or containers that forbid io_uring, get blocking threads
//! Not here    deciding anything: this room converts and reports
//! Source      measured choices: a thread hop costs half a durable write, a ring in the same thread 0.6 us
//!
//! A process starts [`Executor`]s (threads), describes each [`Host`], and starts them on executors with
//! [`Host::start`]. Several hosts in one process find each other through a [`Fabric`]; others through TCP.

mod blocking_disk;
mod device;
mod disk;
mod env;
mod executor;
mod fabric;
mod host;
mod inbox;
mod io;
mod locate;
mod longest;
mod machine;
mod medium;
mod net;
mod occupant;
mod patience;
mod program;
mod ring;
mod threads;
mod timer;

pub use device::{DiskOptions, Fill, OpenError, create_disk_file};
pub use disk::LinuxDisk;
pub use env::LinuxEnv;
pub use executor::{Executor, ExecutorConfig, HostEnd, HostHandle, IoChoice, IoMode, run_host};
pub use fabric::Fabric;
pub use host::{Host, HostConfig, StartError};
pub use locate::locate;
pub use machine::Machine;
pub use medium::{Medium, MediumError, Service};
pub use net::{PeerHealth, PeerState, RefusedConnection, frames_in};
pub use occupant::signature_of;
pub use timer::Timer;
