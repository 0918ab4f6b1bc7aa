//! The seam between Cairn and the world: disks, messages, time, chance, tasks.
//!
//! Promises    code that names only these traits runs unchanged on Linux (`env-linux`) and in the simulator (`sim`)
//! Assumes     one host is one thread: futures are not `Send`, nothing of a host is locked
//! Not here    any implementation; what messages mean (`wire`)
#![forbid(unsafe_code)]

mod buffer;
mod device;
mod disk;
mod net;

use std::{
    future::{Future, poll_fn},
    task::Poll,
    time::Duration,
};

pub use buffer::{BUFFER_ALIGN, PageBuf};
pub use device::{BlockDevice, LocateError};
pub use disk::{BlockingDisk, Disk, DiskError, DiskErrorKind, Durability};
pub use futures::future::LocalBoxFuture;
pub use net::{InMessage, NetEvent, OutMessage};

use cairn_types::{Build, HostId, Incarnation, Level, Time};

/// One host's world. Cheap to clone; all clones are the same world.
pub trait Env: Clone + 'static {
    /// A device of this world.
    type Disk: Disk;

    /// This host.
    fn host(&self) -> HostId;
    /// This process of the host.
    fn incarnation(&self) -> Incarnation;
    /// The program that this process runs.
    fn build(&self) -> Build;
    /// From now on peers are told that the cluster is at `level`: connections with those that do not speak it end, and they are
    /// refused in words.
    fn set_level(&self, level: Level);
    /// The monotonic clock (`CLOCK_BOOTTIME`: it counts through suspend).
    fn now(&self) -> Time;
    /// The wall clock in ms since 1970: for people and the repair delay, never for safety.
    fn unix_ms(&self) -> u64;
    /// Resolves at `at` or soon after.
    fn sleep_until(&self, at: Time) -> LocalBoxFuture<'static, ()>;
    /// Resolves after `duration` or soon after.
    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        self.sleep_until(self.now() + duration)
    }
    /// Lets the other tasks of the thread have a turn, and devices new work: for work that would hold it for milliseconds.
    fn give_way(&self) -> impl Future<Output = ()> + 'static {
        let mut gave_way = false;
        poll_fn(move |context| {
            if std::mem::replace(&mut gave_way, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }
    /// Runs `task` on this host until either ends; a destructor that calls this while the host ends starts nothing.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);
    /// Runs `job` on a thread of its own (in the simulator: at once, as one instant).
    fn run_blocking<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> LocalBoxFuture<'static, T>;
    /// The longest time, of late, that this host's thread was at work without taking new work; zero where work takes no time.
    fn turn_longest(&self) -> Duration {
        Duration::ZERO
    }
    /// A random word: for ids, jitter, spreading.
    fn random_u64(&self) -> u64;

    /// Queues a message to the process of another host (or of this host); never blocks, may be lost.
    /// Messages to one host over one connection arrive in the order sent, or a [`NetEvent::PeerDown`] tells
    /// that some may not have.
    fn send(&self, to: HostId, message: OutMessage);
    /// Waits for network events and appends at least one to `events`. One caller per host.
    fn receive<'a>(&'a self, events: &'a mut Vec<NetEvent>) -> LocalBoxFuture<'a, ()>;
}
