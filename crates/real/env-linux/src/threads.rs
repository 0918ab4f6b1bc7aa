//! Blocking device I/O on a few threads, for hosts that forbid io_uring.
//!
//! Promises    the same results as the ring; slower: two thread hops per request (about 40 us more, measured)
//! Not here    the metadata store's blocking calls (`Env::run_blocking` has threads of its own)

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use bytes::Bytes;
use futures::channel::oneshot;
use rustix::io::ReadWriteFlags;

use crate::io::{Answer, InFlightGuard, Request};

/// Threads per executor. Napkin: eight writes in flight saturate one SATA device, and a deeper queue waits in memory.
const THREADS: usize = 8;
/// Slices that one system call takes, at most (`UIO_MAXIOV`).
pub(crate) const SLICES_MAX: usize = 1024;

struct Job {
    file: Arc<File>,
    request: Request,
    guard: InFlightGuard,
    answer: oneshot::Sender<Answer>,
}

impl Job {
    fn carry_out(self) {
        let Self { file, request, guard, answer } = self;
        let result = perform(&file, request);
        // The host counts as busy until its file is let go: the lock on the disk goes with it.
        drop(file);
        drop(guard);
        let _ = answer.send(result);
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that wait, the one that worked last at the end: its stack and its caches are warm, so it is next.
    idle: Vec<usize>,
    closed: bool,
}

impl Queue {
    /// The thread to wake; none where all are at work, and look again when they are done.
    fn push(&mut self, job: Job) -> Option<usize> {
        self.jobs.push_back(job);
        self.idle.pop()
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: [Condvar; THREADS],
}

/// The threads; they end when this is dropped and the queue is empty.
pub(crate) struct Threads {
    shared: Arc<Shared>,
}

impl Threads {
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        for number in 0..THREADS {
            let shared = shared.clone();
            thread::Builder::new().name(format!("cairn-io-{number}")).spawn(move || work(&shared, number))?;
        }
        Ok(Self { shared })
    }

    pub async fn run(&self, file: Arc<File>, request: Request, guard: InFlightGuard) -> Answer {
        let (answer, receiver) = oneshot::channel();
        self.push(Job { file, request, guard, answer });
        receiver.await.expect("an I/O thread answers every request before it ends")
    }

    fn push(&self, job: Job) {
        let called = self.shared.queue.lock().unwrap().push(job);
        if let Some(number) = called {
            self.shared.wake[number].notify_one();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.queue.lock().unwrap().closed = true;
        self.shared.wake.iter().for_each(Condvar::notify_one);
    }
}

fn work(shared: &Shared, number: usize) {
    loop {
        let mut queue = shared.queue.lock().unwrap();
        let job = loop {
            if let Some(job) = queue.jobs.pop_front() {
                break job;
            }
            if queue.closed {
                return;
            }
            queue.idle.push(number);
            queue = shared.wake[number].wait_while(queue, |q| q.idle.contains(&number) && !q.closed).unwrap();
        };
        drop(queue);
        job.carry_out();
    }
}

/// Carries out one request on the calling thread; it may do less than was asked.
fn perform(file: &File, mut request: Request) -> Answer {
    let result = loop {
        let result = match &mut request {
            Request::Read { offset, buf, filled } => {
                rustix::io::preadv(file, &mut [IoSliceMut::new(&mut buf[*filled..])], *offset + *filled as u64)
            }
            Request::Write { offset, parts, durable } => write(file, *offset, parts, *durable),
            Request::Flush => rustix::fs::fdatasync(file).map(|()| 0),
        };
        match result {
            Err(rustix::io::Errno::INTR) => continue,
            other => break other.map_err(io::Error::from),
        }
    };
    Answer { result, request }
}

fn write(file: &File, offset: u64, parts: &[Bytes], durable: bool) -> rustix::io::Result<usize> {
    let slices: Vec<_> = parts.iter().take(SLICES_MAX).map(|p| IoSlice::new(p)).collect();
    let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
    rustix::io::pwritev2(file, &slices, offset, flags)
}
