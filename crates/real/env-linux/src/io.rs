//! One device request, and the two ways to carry it out: the ring, or threads that block.
//!
//! Promises    the buffers of a request stay alive until the device is done, also when nobody waits any more
//! Not here    alignment, splitting, what an error means (`disk`)

use std::{
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
    Write { offset: u64, parts: Vec<Bytes>, durable: bool },
    /// `fdatasync`.
    Flush,
}

/// A request that the device answered, with its buffers.
pub(crate) struct Answer {
    /// Bytes done, or the error.
    pub result: io::Result<usize>,
    pub request: Request,
}

/// Counts the work of one host that the kernel or another thread still holds, so that a host which ends
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
    /// The ring. A durable write to a file whose device needs a flush after it is finished by a kernel worker; a thread of ours that
    /// waits for both would be woken once more for each write, which on a busy host is the worse (docs/adr/0014).
    Ring(Rc<Ring>),
    Threads(Arc<Threads>),
}

impl Backend {
    pub fn mode(&self) -> IoMode {
        match self {
            Self::Ring(ring) => ring.mode(),
            Self::Threads(_) => IoMode::Threads,
        }
    }

    pub async fn run(&self, file: Arc<File>, request: Request, guard: InFlightGuard) -> Answer {
        match self {
            Self::Ring(ring) => Ring::run(ring, file, request, guard).await,
            Self::Threads(threads) => threads.run(file, request, guard).await,
        }
    }
}
