//! vhost-user-blk: a virtual machine's door to virtual disks. Requests lie in rings in the machine's own memory, so a request takes no
//! system call and no copy through a socket.
//!
//! Promises    every request gets the answer that virtio names for it; a malformed one gets an error, and ends at most its own device
//!             a request that was under way when this process ended is carried out again when the front end comes back, once and in
//!             order (the in-flight region): none is lost, none that was answered is carried out a second time
//!             a front end learns that a disk is read-only, and such a disk is never asked for a change
//!             what a request asks is read from the shared memory once, and checked after that
//! Assumes     it runs inside a tokio `LocalSet`, as `nbd` does: one task per front end, on the shard that called [`serve`]
//!             whoever may connect is trusted with this process: a front end that takes memory back that it shared ends it (SIGBUS),
//!             so a socket is for its owner and its group alone
//! Not here    live migration of a running machine (no log of dirty pages), packed rings, what a disk is (`volume`)
//! Source      <https://qemu-project.gitlab.io/qemu/interop/vhost-user.html>, virtio 1.2 sections 2.7 and 5.2
//!
//! Pure: `device` (what is offered), `chain` (descriptors to segments), `request` (segments to what is asked).
//! With effects: `memory`, `inflight`, `vring`, `session`, `control`, `server`.
#![deny(unsafe_code)]

mod chain;
mod control;
mod device;
mod inflight;
mod memory;
mod options;
mod request;
mod server;
mod session;
mod vring;

pub use cairn_volume::ServeError;
pub use options::Options;
pub use server::{Server, serve};
