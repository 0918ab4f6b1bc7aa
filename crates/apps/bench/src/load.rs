//! Sends requests and measures them: closed loops and schedules over all targets of a job.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cairn_env::{Env, PageBuf};
use cairn_env_linux::{LinuxEnv, Timer};
use cairn_workload::{Content, Direction, Request, Requests, Schedule};
use futures::{
    FutureExt,
    future::{LocalBoxFuture, join_all},
};

use crate::{
    address::Address,
    job::{Job, Measured, RunError, Second},
    process,
    target::Target,
};

/// All that the requests of a run share.
struct Shared {
    /// What ends between these counts.
    counts: (Instant, Instant),
    measured: RefCell<Measured>,
    stop: Cell<bool>,
    cpu_before: Cell<Option<Duration>>,
}

impl Shared {
    fn result(&self) -> Measured {
        let mut measured = self.measured.borrow().clone();
        let took = self.counts.1.min(Instant::now()).saturating_duration_since(self.counts.0);
        if let Some(before) = self.cpu_before.get().filter(|_| !took.is_zero()) {
            measured.harness_cpu = (process::cpu_time() - before).as_secs_f64() / took.as_secs_f64();
        }
        if measured.broken.is_some() {
            measured.measured = took;
        }
        measured
    }

    fn ended(&self, request: &Request, began: Instant, ended: Instant) {
        let (from, until) = self.counts;
        if ended < from || ended >= until {
            return;
        }
        if self.cpu_before.get().is_none() {
            self.cpu_before.set(Some(process::cpu_time()));
        }
        let took_ns = ended.saturating_duration_since(began).as_nanos() as u64;
        let mut measured = self.measured.borrow_mut();
        let second = (ended - from).as_secs() as usize;
        if measured.seconds.len() <= second {
            measured.seconds.resize(second + 1, Second::default());
        }
        let of_second = &mut measured.seconds[second];
        of_second.requests += 1;
        of_second.bytes += u64::from(request.len_bytes);
        of_second.max_ns = of_second.max_ns.max(took_ns);
        let side = match request.direction {
            Direction::Read => &mut measured.reads,
            Direction::Write => &mut measured.writes,
        };
        side.latency.record(took_ns);
        side.bytes += u64::from(request.len_bytes);
    }

    fn broke(&self, target: &str, request: &Request, why: &str) {
        self.stop.set(true);
        let act = if request.direction == Direction::Read { "read" } else { "write" };
        let why = format!("{act} of {} bytes at {}: {why}", request.len_bytes, request.offset);
        let broken = &mut self.measured.borrow_mut().broken;
        broken.get_or_insert(RunError::Request { target: target.to_owned(), why });
    }
}

/// The requests of one target, and what its writes hold.
struct Stream {
    name: String,
    target: Target,
    requests: RefCell<Requests>,
    content: Content,
    writes: Cell<u64>,
    shared: Rc<Shared>,
}

impl Stream {
    fn next(&self) -> (Request, Bytes) {
        let request = self.requests.borrow_mut().next().expect("loads have no end");
        if request.direction == Direction::Read {
            return (request, Bytes::new());
        }
        let generation = self.writes.replace(self.writes.get() + 1);
        let mut data = PageBuf::dirty(request.len_bytes as usize);
        self.content.fill(request.offset, generation, &mut data);
        (request, data.freeze())
    }

    async fn carry_out(&self, request: Request, data: Bytes, began: Instant) {
        let answer = self.target.request(&request, data).await;
        match answer {
            Ok(()) => self.shared.ended(&request, began, Instant::now()),
            Err(why) => self.shared.broke(&self.name, &request, &why),
        }
    }

    fn is_over(&self) -> bool {
        self.shared.stop.get() || Instant::now() >= self.shared.counts.1
    }

    /// One of the requests that a closed loop keeps outstanding, again and again.
    async fn closed(self: Rc<Self>) {
        while !self.is_over() {
            let (request, data) = self.next();
            self.carry_out(request, data, Instant::now()).await;
        }
    }

    /// Begins requests when they are due, at most `outstanding` at a time: who waits for room is measured from when it was due.
    async fn scheduled(self: Rc<Self>, env: LinuxEnv, schedule: Schedule, outstanding: u32) -> io::Result<()> {
        let (began, timer, room) = (Instant::now(), Timer::new()?, Rc::new(Room::new(outstanding)));
        for due_ns in schedule {
            let due = began + Duration::from_nanos(due_ns);
            if due >= self.shared.counts.1 {
                break;
            }
            timer.until(due).await?;
            room.enter().await;
            if self.is_over() {
                room.leave();
                break;
            }
            let late_ns = due.elapsed().as_nanos() as u64;
            if due >= self.shared.counts.0 {
                self.shared.measured.borrow_mut().lag.get_or_insert_default().record(late_ns);
            }
            let (stream, room) = (self.clone(), room.clone());
            env.spawn(async move {
                let (request, data) = stream.next();
                stream.carry_out(request, data, due).await;
                room.leave();
            });
        }
        room.empty().await;
        Ok(())
    }
}

/// Counts what is outstanding.
struct Room {
    max: u32,
    inside: Cell<u32>,
    left: tokio::sync::Notify,
}

impl Room {
    fn new(max: u32) -> Self {
        Self { max: max.max(1), inside: Cell::new(0), left: tokio::sync::Notify::new() }
    }

    async fn enter(&self) {
        while self.inside.get() >= self.max {
            self.left.notified().await;
        }
        self.inside.set(self.inside.get() + 1);
    }

    fn leave(&self) {
        self.inside.set(self.inside.get() - 1);
        self.left.notify_one();
    }

    async fn empty(&self) {
        while self.inside.get() > 0 {
            self.left.notified().await;
        }
    }
}

/// Runs the job to its end.
///
/// # Errors
/// Before the first request only; what breaks later is in the result.
pub(crate) async fn run(env: LinuxEnv, job: &Job) -> Result<Measured, RunError> {
    let mut open = Vec::new();
    for address in &job.targets {
        open.push(open_one(&env, job, address, open.len() as u64).await?);
    }
    let begin = Instant::now();
    let shared = Rc::new(Shared {
        counts: (begin + job.ramp, begin + job.ramp + job.measure),
        measured: RefCell::new(Measured::nothing(job.measure)),
        stop: Cell::new(false),
        cpu_before: Cell::new(None),
    });
    let count = open.len() as u64;
    let mut loops: Vec<LocalBoxFuture<'static, io::Result<()>>> = Vec::new();
    for (number, (name, target, requests)) in open.into_iter().enumerate() {
        let content = Content { disk: number as u64, ..job.content };
        let (requests, writes, shared) = (RefCell::new(requests), Cell::new(0), shared.clone());
        let stream = Rc::new(Stream { name, target, requests, content, writes, shared });
        match Schedule::new(job.pace, job.spec.seed, number as u64, count) {
            Some(schedule) => loops.push(Box::pin(stream.scheduled(env.clone(), schedule, job.outstanding))),
            None => loops.extend((0..job.outstanding.max(1)).map(|_| stream.clone().closed().map(Ok).boxed_local())),
        }
    }
    let paced = join_all(loops).await.into_iter().collect::<io::Result<Vec<()>>>();
    paced.map_err(|error| RunError::Job(format!("the system gives no timer: {error}")))?;
    Ok(shared.result())
}

/// Opens a target, and makes its load of what was asked for and what it is.
async fn open_one(
    env: &LinuxEnv,
    job: &Job,
    address: &Address,
    number: u64,
) -> Result<(String, Target, Requests), RunError> {
    let open_error = |why: String| RunError::Open { target: address.to_string(), why };
    let writes = job.spec.read_percent < 100;
    let target = Target::open(env, address, writes).await.map_err(open_error)?;
    let (size_bytes, block) = (target.size_bytes(), target.block_bytes());
    let mut spec = job.spec;
    if !spec.request_bytes.is_multiple_of(block) || !spec.span_begin.is_multiple_of(u64::from(block)) {
        return Err(open_error(format!("requests here begin and end at multiples of {block} bytes")));
    }
    let rest = size_bytes.saturating_sub(spec.span_begin);
    match spec.span_bytes {
        0 => spec.span_bytes = rest,
        asked if asked > rest => {
            let begin = spec.span_begin;
            return Err(open_error(format!(
                "a span of {asked} bytes from {begin} on ends beyond its {size_bytes} bytes"
            )));
        }
        _ => {}
    }
    spec.seed = spec.seed.wrapping_add(number);
    let requests = Requests::new(spec, 0, 1).map_err(|e| open_error(e.to_string()))?;
    Ok((address.to_string(), target, requests))
}
