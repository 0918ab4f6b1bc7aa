//! Sends requests and measures them: closed loops and schedules, one for each stream of a job.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cairn_env::{Env, PageBuf};
use cairn_env_linux::{LinuxEnv, Timer};
use cairn_measure::{Histogram, Quantile};
use cairn_workload::{Content, Direction, Pace, Request, Requests, Schedule};
use futures::{
    FutureExt,
    future::{LocalBoxFuture, join_all},
};

use crate::{
    job::{Job, Measured, RunError, Second},
    ledger::Ledger,
    open::{self, Open},
    process,
    target::Target,
    verify::Written,
};

/// All that the requests of a run share.
struct Shared {
    /// What ends between these counts.
    counts: (Instant, Instant),
    measured: RefCell<Measured>,
    stop: Cell<bool>,
    bytes_left: Cell<u64>,
    cpu_before: Cell<Option<Duration>>,
    /// What ended in the current second, and which that is.
    current: RefCell<(usize, Histogram)>,
    last_end: Cell<Option<Instant>>,
}

impl Shared {
    /// `all_done`: every stream has begun all that it may, so that the measured time is over, too.
    fn result(&self, all_done: bool) -> Measured {
        self.close_second(usize::MAX);
        let mut measured = self.measured.borrow().clone();
        measured.ended_unix_ms = process::unix_ms();
        let took = self.counts.1.min(Instant::now()).saturating_duration_since(self.counts.0);
        if let Some(before) = self.cpu_before.get().filter(|_| !took.is_zero()) {
            measured.harness_cpu = (process::cpu_time() - before).as_secs_f64() / took.as_secs_f64();
        }
        if measured.broken.is_some() || all_done {
            measured.measured = took;
        }
        measured
    }

    fn ended(&self, stream: usize, request: &Request, began: Instant, ended: Instant) {
        let (from, until) = self.counts;
        if ended < from || ended >= until {
            return;
        }
        if self.cpu_before.get().is_none() {
            self.cpu_before.set(Some(process::cpu_time()));
        }
        let took_ns = ended.saturating_duration_since(began).as_nanos() as u64;
        let bytes = u64::from(request.len_bytes);
        let second = (ended - from).as_secs() as usize;
        self.close_second(second);
        self.current.borrow_mut().1.record(took_ns);
        let silence =
            self.last_end.replace(Some(ended)).map_or(Duration::ZERO, |last| ended.saturating_duration_since(last));
        let mut measured = self.measured.borrow_mut();
        let measured = &mut *measured;
        measured.longest_silence = measured.longest_silence.max(silence);
        if measured.seconds.len() <= second {
            measured.seconds.resize(second + 1, Second::default());
        }
        let (of_second, of_stream) = (&mut measured.seconds[second], &mut measured.streams[stream]);
        let (tally, side, of_stream) = match request.direction {
            Direction::Read => (&mut of_second.reads, &mut measured.reads, &mut of_stream.reads),
            Direction::Write => (&mut of_second.writes, &mut measured.writes, &mut of_stream.writes),
        };
        tally.record(bytes, took_ns);
        for side in [side, of_stream] {
            side.latency.record(took_ns);
            side.bytes += bytes;
        }
    }

    /// What ends from now on ends in `second`: requests end in the order of time.
    fn close_second(&self, second: usize) {
        let mut current = self.current.borrow_mut();
        if current.0 == second {
            return;
        }
        let p99_ns = current.1.quantile_ns(Quantile::P99).unwrap_or_default();
        if let Some(closed) = self.measured.borrow_mut().seconds.get_mut(current.0) {
            closed.p99_ns = p99_ns;
        }
        *current = (second, Histogram::default());
    }

    fn broke(&self, target: &str, request: &Request, why: &str) {
        self.stop.set(true);
        let act = if request.direction == Direction::Read { "read" } else { "write" };
        let why = format!("{act} of {} bytes at {}: {why}", request.len_bytes, request.offset);
        let broken = &mut self.measured.borrow_mut().broken;
        broken.get_or_insert(RunError::Request { target: target.to_owned(), why });
    }
}

/// The requests of one stream, and what its writes hold.
struct Stream {
    number: usize,
    name: String,
    target: Target,
    requests: RefCell<Requests>,
    content: Content,
    writes: Cell<u64>,
    bytes_left: Cell<u64>,
    ledger: Option<RefCell<Ledger>>,
    shared: Rc<Shared>,
}

/// A request with what it writes.
struct Begun {
    request: Request,
    data: Bytes,
    generation: u64,
}

/// Requests that are drawn anew because a write of their place is under way; then the stream has asked for more at once than it has
/// places.
const DRAWN_ANEW_MAX: usize = 1000;

impl Stream {
    /// None once all bytes that were asked for are under way.
    fn next(&self) -> Option<Begun> {
        if self.bytes_left.get() == 0 {
            return None;
        }
        if self.shared.bytes_left.get() == 0 {
            self.shared.stop.set(true);
            return None;
        }
        let request = self.draw()?;
        self.shared.bytes_left.set(self.shared.bytes_left.get().saturating_sub(request.len_bytes.into()));
        self.bytes_left.set(self.bytes_left.get().saturating_sub(request.len_bytes.into()));
        if request.direction == Direction::Read {
            return Some(Begun { request, data: Bytes::new(), generation: 0 });
        }
        let generation = self.writes.replace(self.writes.get() + 1);
        let mut data = PageBuf::dirty(request.len_bytes as usize);
        self.content.fill(request.offset, generation, &mut data);
        if let Some(ledger) = &self.ledger {
            ledger.borrow_mut().begin(request.offset, request.len_bytes, generation);
        }
        Some(Begun { request, data: data.freeze(), generation })
    }

    /// The next request; with a ledger, the next that writes no place that is being written.
    fn draw(&self) -> Option<Request> {
        let mut requests = self.requests.borrow_mut();
        let Some(ledger) = &self.ledger else { return requests.next() };
        let busy = |request: &Request| request.direction == Direction::Write && ledger.borrow().is_open(request.offset);
        let drawn = requests.by_ref().take(DRAWN_ANEW_MAX).find(|request| !busy(request));
        Some(drawn.expect("a span with places that are not being written"))
    }

    async fn carry_out(&self, begun: Begun, began: Instant) {
        let Begun { request, data, generation } = begun;
        let answer = self.target.request(&request, data).await;
        match answer {
            Ok(()) => {
                if let Some(ledger) = self.ledger.as_ref().filter(|_| request.direction == Direction::Write) {
                    ledger.borrow_mut().acknowledge(request.offset, generation);
                }
                self.shared.ended(self.number, &request, began, Instant::now());
            }
            Err(why) => self.shared.broke(&self.name, &request, &why),
        }
    }

    fn is_over(&self) -> bool {
        self.shared.stop.get() || Instant::now() >= self.shared.counts.1
    }

    /// One of the requests that a closed loop keeps outstanding, again and again.
    async fn closed(self: Rc<Self>) {
        while !self.is_over()
            && let Some(begun) = self.next()
        {
            self.carry_out(begun, Instant::now()).await;
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
            if self.is_over() || self.bytes_left.get() == 0 {
                room.leave();
                break;
            }
            let late_ns = due.elapsed().as_nanos() as u64;
            if due >= self.shared.counts.0 {
                self.shared.measured.borrow_mut().lag.get_or_insert_default().record(late_ns);
            }
            let (stream, room) = (self.clone(), room.clone());
            env.spawn(async move {
                if let Some(begun) = stream.next() {
                    stream.carry_out(begun, due).await;
                }
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
    let open = open::all(&env, job).await?;
    let begin = Instant::now();
    let shared = Rc::new(Shared {
        counts: (begin + job.ramp, begin + job.ramp + job.measure),
        measured: RefCell::new(Measured::nothing(job.measure, open.len())),
        stop: Cell::new(false),
        bytes_left: Cell::new(job.bytes_max.unwrap_or(u64::MAX)),
        cpu_before: Cell::new(None),
        current: RefCell::default(),
        last_end: Cell::new(None),
    });
    shared.measured.borrow_mut().began_unix_ms = process::unix_ms();
    let count = open.len() as u64;
    let mut loops: Vec<LocalBoxFuture<'static, io::Result<()>>> = Vec::new();
    let mut streams = Vec::new();
    for (number, (of_job, Open { target, requests, content, bytes_max })) in job.streams.iter().zip(open).enumerate() {
        let stream = Rc::new(Stream {
            number,
            name: of_job.target.to_string(),
            target,
            requests: RefCell::new(requests),
            content,
            writes: Cell::new(0),
            bytes_left: Cell::new(bytes_max),
            ledger: job.verify.then(RefCell::default),
            shared: shared.clone(),
        });
        streams.push(stream.clone());
        let outstanding = of_job.outstanding.max(1);
        match Schedule::new(times(of_job.pace, count), of_job.spec.seed, number as u64, count) {
            Some(schedule) => loops.push(Box::pin(stream.scheduled(env.clone(), schedule, outstanding))),
            None => loops.extend((0..outstanding).map(|_| stream.clone().closed().map(Ok).boxed_local())),
        }
    }
    let paced = join_all(loops).await.into_iter().collect::<io::Result<Vec<()>>>();
    paced.map_err(|error| RunError::Job(format!("the system gives no timer: {error}")))?;
    let all_done = shared.bytes_left.get() == 0 || streams.iter().all(|stream| stream.bytes_left.get() == 0);
    let mut measured = shared.result(all_done);
    for (of_job, stream) in job.streams.iter().zip(&streams) {
        let written = |ledger: &RefCell<Ledger>| Written {
            target: of_job.target.clone(),
            content: stream.content,
            ledger: ledger.borrow().clone(),
        };
        measured.written.extend(stream.ledger.as_ref().map(written));
    }
    Ok(measured)
}

/// The pace of `count` workers of which each has this one: schedules are parts of what all have together, so that those of equal
/// rates lie evenly between each other.
fn times(pace: Pace, count: u64) -> Pace {
    match pace {
        Pace::Closed => Pace::Closed,
        Pace::Rate { per_s } => Pace::Rate { per_s: per_s * count as f64 },
        Pace::Poisson { per_s } => Pace::Poisson { per_s: per_s * count as f64 },
    }
}
