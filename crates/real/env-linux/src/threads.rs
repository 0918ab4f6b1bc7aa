//! Blocking device I/O on a few threads: all of it on hosts that forbid io_uring, else durable writes to files (`io`).
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

use crate::{
    disk::advance,
    io::{Answer, InFlightGuard, Request, Sync},
};

/// Threads per executor. Napkin: eight writes in flight saturate one SATA device, and a deeper queue waits in memory.
const THREADS: usize = 8;
/// Slices that one system call takes, at most (`UIO_MAXIOV`).
pub(crate) const SLICES_MAX: usize = 1024;

struct Job {
    file: Arc<File>,
    request: Request,
    guard: InFlightGuard,
    answer: oneshot::Sender<Answer>,
    /// Where it is one of several in order.
    lane: Option<Arc<Lane>>,
}

impl Job {
    fn end(self, result: io::Result<usize>) {
        self.answer_with(|request| Answer { result, request });
    }

    fn answer_with(self, act: impl FnOnce(Request) -> Answer) {
        let Self { file, request, guard, answer, .. } = self;
        let result = act(request);
        // The shard counts as busy until its file is let go: the lock on the disk goes with it.
        drop(file);
        drop(guard);
        let _ = answer.send(result);
    }
}

/// Writes of one disk in order: one at a time, the next one by the same thread at once, without a word with the shard between
/// the two. After a failure none is carried out.
#[derive(Default)]
pub(crate) struct Lane(Mutex<LaneState>);

#[derive(Default)]
struct LaneState {
    waiting: VecDeque<Job>,
    busy: bool,
    failed: bool,
}

impl Lane {
    /// The job, where it may begin now; else it is kept, or refused.
    fn enter(&self, job: Job) -> Option<Job> {
        let mut state = self.0.lock().unwrap();
        if state.failed {
            drop(state);
            job.end(Err(follows_a_failure()));
            return None;
        }
        if state.busy {
            state.waiting.push_back(job);
            return None;
        }
        state.busy = true;
        Some(job)
    }

    /// The job that follows one that has ended.
    fn next(&self, sound: bool) -> Option<Job> {
        let mut state = self.0.lock().unwrap();
        if sound {
            let next = state.waiting.pop_front();
            state.busy = next.is_some();
            return next;
        }
        state.failed = true;
        let refused = std::mem::take(&mut state.waiting);
        drop(state);
        refused.into_iter().for_each(|job| job.end(Err(follows_a_failure())));
        None
    }
}

fn follows_a_failure() -> io::Error {
    io::Error::other("a write that came before it failed")
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
        self.push(Job { file, request, guard, answer, lane: None });
        receiver.await.expect("an I/O thread answers every request before it ends")
    }

    /// A write in order: queued before this returns; whole, or failed.
    pub fn run_in_order(
        &self,
        lane: &Arc<Lane>,
        file: Arc<File>,
        request: Request,
        guard: InFlightGuard,
    ) -> impl Future<Output = Answer> + use<> {
        let (answer, receiver) = oneshot::channel();
        if let Some(job) = lane.enter(Job { file, request, guard, answer, lane: Some(lane.clone()) }) {
            self.push(job);
        }
        async move { receiver.await.expect("an I/O thread answers every request before it ends") }
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
        let mut next = Some(job);
        while let Some(job) = next {
            next = run(job);
        }
    }
}

/// Carries out a job; the one that follows in its lane, if any.
fn run(job: Job) -> Option<Job> {
    let (file, lane) = (job.file.clone(), job.lane.clone());
    let mut sound = true;
    job.answer_with(|request| {
        let answer = if lane.is_some() { perform_whole(&file, request) } else { perform(&file, request) };
        sound = answer.result.is_ok();
        drop(file);
        answer
    });
    lane.and_then(|lane| lane.next(sound))
}

/// Carries out one write to its end: what follows it in order must not be begun after a part of it.
fn perform_whole(file: &File, request: Request) -> Answer {
    let Request::Write { offset, parts, sync } = request else {
        panic!("only writes are in order");
    };
    let result = write_whole(file, offset, &parts, sync).map_err(io::Error::from);
    Answer { result, request: Request::Write { offset, parts, sync } }
}

/// Carries out one request on the calling thread; it may do less than was asked.
pub(crate) fn perform(file: &File, mut request: Request) -> Answer {
    let result = loop {
        let result = match &mut request {
            Request::Read { offset, buf, filled } => {
                rustix::io::preadv(file, &mut [IoSliceMut::new(&mut buf[*filled..])], *offset + *filled as u64)
            }
            Request::Write { offset, parts, sync } => write(file, *offset, parts, *sync),
            Request::Flush => rustix::fs::fdatasync(file).map(|()| 0),
        };
        match result {
            Err(rustix::io::Errno::INTR) => continue,
            other => break other.map_err(io::Error::from),
        }
    };
    Answer { result, request }
}

fn write_whole(file: &File, offset: u64, parts: &[Bytes], sync: Sync) -> rustix::io::Result<usize> {
    let len = parts.iter().map(Bytes::len).sum();
    let mut done = 0;
    // What a short write leaves; none so far, as nearly always.
    let mut rest: Option<Vec<Bytes>> = None;
    while done < len {
        match write(file, offset + done as u64, rest.as_deref().unwrap_or(parts), sync) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
            Ok(0) => return Err(rustix::io::Errno::IO),
            Ok(count) => {
                done += count;
                if done < len {
                    advance(rest.get_or_insert_with(|| parts.to_vec()), count);
                }
            }
        }
    }
    Ok(done)
}

fn write(file: &File, offset: u64, parts: &[Bytes], sync: Sync) -> rustix::io::Result<usize> {
    let slices: Vec<_> = parts.iter().take(SLICES_MAX).map(|p| IoSlice::new(p)).collect();
    let flags = match sync {
        Sync::Later => ReadWriteFlags::empty(),
        Sync::ByDevice | Sync::ByWorker => ReadWriteFlags::DSYNC,
    };
    rustix::io::pwritev2(file, &slices, offset, flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::InFlight;

    /// Goal: after a write that failed, what follows in its lane is refused and leaves no trace; another lane goes on.
    #[test]
    fn nothing_follows_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        std::fs::write(&path, [0; 8192]).unwrap();
        let writable = Arc::new(File::options().write(true).open(&path).unwrap());
        let broken = Arc::new(File::open(&path).unwrap());
        let (threads, in_flight) = (Threads::start().unwrap(), InFlight::default());
        let write = |lane: &Arc<Lane>, file: &Arc<File>, offset, value| {
            let parts = vec![Bytes::from(vec![value; 16]), Bytes::from(vec![value; 16])];
            let request = Request::Write { offset, parts, sync: Sync::ByWorker };
            threads.run_in_order(lane, file.clone(), request, in_flight.enter())
        };
        let (lane, other) = (Arc::default(), Arc::default());
        let writes = [write(&lane, &writable, 0, 1), write(&lane, &broken, 32, 2), write(&lane, &writable, 64, 3)];
        let [first, failed, refused] = writes.map(|write| futures::executor::block_on(write).result);
        assert_eq!(first.unwrap(), 32);
        assert_eq!(failed.unwrap_err().raw_os_error(), Some(9), "a bad descriptor");
        assert!(refused.unwrap_err().to_string().contains("came before it"));
        let later = futures::executor::block_on(write(&lane, &writable, 96, 4)).result;
        assert!(later.unwrap_err().to_string().contains("came before it"));
        assert_eq!(futures::executor::block_on(write(&other, &writable, 128, 5)).result.unwrap(), 32);
        let held = std::fs::read(&path).unwrap();
        let values = [0, 32, 64, 96, 128].map(|at| (held[at], held[at + 31]));
        assert_eq!(values, [(1, 1), (0, 0), (0, 0), (0, 0), (5, 5)]);
        assert!(in_flight.is_idle());
    }
}
