//! One device request, and the two ways to carry it out: the ring, or threads that block.
//!
//! Promises    the buffers of a request stay alive until the device is done, also when nobody waits any more
//! Not here    alignment, splitting, what an error means (`disk`)

use std::{
    cell::OnceCell,
    fs::File,
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use cairn_env::PageBuf;

use crate::{executor::IoMode, ring::Ring, threads::Threads};

/// What a device is asked.
pub(crate) enum Request {
    /// Fills `buf` from `filled` on, from `offset + filled`.
    Read { offset: u64, buf: PageBuf, filled: usize },
    /// Writes `parts` back to back at `offset`.
    Write { offset: u64, parts: Vec<Bytes>, sync: Sync },
    /// `fdatasync`.
    Flush,
}

/// What makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// A later flush.
    Later,
    /// `RWF_DSYNC`; the device does it by itself (FUA, or no volatile cache), or the block layer does.
    ByDevice,
    /// `RWF_DSYNC` in a file whose device needs a flush after the write: a thread of ours waits for both.
    ///
    /// Asynchronous, the file system would finish such a write on a shared kernel worker (with IOSQE_ASYNC too: io_uring
    /// gives it no waiting request), which on a busy host waits a tick for its CPU. Group commits of 32 blocks on two CPUs,
    /// p50: load 6, 4.0 ms through the ring and 0.15 ms through a thread; in an idle moment 56 and 63 us, and 0.3 us more
    /// CPU a block. `fdatasync` through the ring is no way out: it would also write back, and wait for, what the metadata
    /// store has in the page cache of the same file.
    ByWorker,
}

/// A request that the device answered, with its buffers.
pub(crate) struct Answer {
    /// Bytes done, or the error.
    pub result: io::Result<usize>,
    pub request: Request,
}

/// Counts the work of one shard that the kernel or another thread still holds, so that a shard which ends
/// abruptly is over only when nothing of it can touch a disk any more.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<AtomicUsize>);

pub(crate) struct InFlightGuard(InFlight);

impl InFlight {
    pub fn enter(&self) -> InFlightGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(self.clone())
    }
    pub fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

/// How this thread does device I/O.
#[derive(Clone)]
pub(crate) enum Backend {
    /// The ring, and threads for what is better done blocking; started when first needed.
    Ring(Rc<Ring>, Rc<OnceCell<Option<Threads>>>),
    Threads(Arc<Threads>),
}

impl Backend {
    pub fn mode(&self) -> IoMode {
        match self {
            Self::Ring(ring, _) => ring.mode(),
            Self::Threads(_) => IoMode::Threads,
        }
    }

    pub async fn run(&self, file: Arc<File>, request: Request, guard: InFlightGuard) -> Answer {
        match self {
            Self::Ring(ring, threads) => {
                let by_thread = matches!(request, Request::Write { sync: Sync::ByWorker, .. });
                let threads = if by_thread { threads.get_or_init(start_threads).as_ref() } else { None };
                match threads {
                    Some(threads) => threads.run(file, request, guard).await,
                    None => Ring::run(ring, file, request, guard).await,
                }
            }
            Self::Threads(threads) => threads.run(file, request, guard).await,
        }
    }
}

impl Backend {
    /// The threads that write in order without a word between two writes, where such a write goes to a thread.
    pub fn in_order(&self, sync: Sync) -> Option<&Threads> {
        match self {
            Self::Ring(_, threads) if sync == Sync::ByWorker => threads.get_or_init(start_threads).as_ref(),
            Self::Ring(..) => None,
            Self::Threads(threads) => Some(threads),
        }
    }
}

/// Threads beside a ring; without them the ring does everything.
fn start_threads() -> Option<Threads> {
    Threads::start()
        .inspect_err(|error| tracing::warn!(%error, "no threads for durable writes to files: the ring does them"))
        .ok()
}
