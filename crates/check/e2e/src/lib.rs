//! Real processes, real networks, real clients: a cluster of `cairnd` processes, each in its own network namespace.
//!
//! Promises    whatever a test made (processes, namespaces, bridges, files) is gone when it ends, and what an earlier run
//!             that crashed left behind is gone when the next begins; only what carries this harness's names is touched
//!             every process's log stays in target/e2e-logs/<test>/, and its end is printed when the test fails
//! Assumes     root (namespaces), Linux, the tools that scripts/setup.sh installs; a missing one is named with its package
//! Not here    the tests (tests/); the engine under a simulated world (`sim`)
#![forbid(unsafe_code)]

pub mod cli;
pub mod cluster;
pub mod door;
pub mod ends;
pub mod event;
pub mod fio;
pub mod guests;
pub mod history;
pub mod host;
pub mod images;
pub mod initramfs;
pub mod inject;
pub mod libvirt;
pub mod load;
pub mod nbd;
pub mod network;
pub mod page;
pub mod pattern;
pub mod process;
pub mod scene;
pub mod synced;
pub mod tally;
pub mod time_line;
pub mod tools;
pub mod vm;
pub mod wait;

pub use cluster::{Cluster, Shape};
pub use door::Door;
pub use host::Host;
pub use load::{Load, LoadReport};
pub use nbd::{NbdClient, NbdError, Target};
pub use time_line::TimeLine;
pub use wait::wait_until;

/// A test's outcome inside the harness: the words of what went wrong.
pub type Outcome<T> = Result<T, String>;
