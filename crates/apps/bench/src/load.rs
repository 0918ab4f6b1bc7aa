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
use cairn_workload::{Content, Direction, Pace, Request, Requests, Schedule};
use futures::{
    FutureExt,
    future::{LocalBoxFuture, join_all},
};

use crate::{
    job::{Job, Measured, RunError},
    ledger::Ledger,
    ledger::Written,
    meter::Meter,
    open::{self, Open},
    room::Room,
    target::Target,
};

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
    /// Of all streams together.
    all_bytes_left: Rc<Cell<u64>>,
    meter: Rc<Meter>,
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
        if self.all_bytes_left.get() == 0 {
            self.meter.stop.set(true);
            return None;
        }
        let request = self.draw()?;
        self.all_bytes_left.set(self.all_bytes_left.get().saturating_sub(request.len_bytes.into()));
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
        if drawn.is_none() {
            let why = "more writes are asked for at once than there are places that are not being written, and \
                       what is to be read back is written once at a time: take fewer outstanding, or a wider span";
            self.meter.ends(RunError::Request { target: self.name.clone(), why: why.into() });
        }
        drawn
    }

    async fn carry_out(&self, begun: Begun, began: Instant) {
        let Begun { request, data, generation } = begun;
        let answer = self.target.request(&request, data).await;
        match answer {
            Ok(()) => {
                if let Some(ledger) = self.ledger.as_ref().filter(|_| request.direction == Direction::Write) {
                    ledger.borrow_mut().acknowledge(request.offset, generation);
                }
                self.meter.ended(self.number, &request, began, Instant::now());
            }
            Err(why) => {
                let act = if request.direction == Direction::Read { "read" } else { "write" };
                self.meter.broke(&self.name, act, request.len_bytes, request.offset, &why);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.meter.stop.get() || Instant::now() >= self.meter.counts.1
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
            if due >= self.meter.counts.1 {
                break;
            }
            timer.until(due).await?;
            room.enter().await;
            if self.is_over() || self.bytes_left.get() == 0 {
                room.leave();
                break;
            }
            let late = due.elapsed();
            if due >= self.meter.counts.0 {
                self.meter.late(late);
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

/// Runs the job to its end.
///
/// # Errors
/// Before the first request only; what breaks later is in the result.
pub(crate) async fn run(env: LinuxEnv, job: &Job) -> Result<Measured, RunError> {
    let open = open::all(&env, job).await?;
    let begin = Instant::now();
    let counts = (begin + job.ramp, begin + job.ramp + job.measure);
    let meter = Rc::new(Meter::new(counts, open.len()));
    let all_bytes_left = Rc::new(Cell::new(job.bytes_max.unwrap_or(u64::MAX)));
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
            all_bytes_left: all_bytes_left.clone(),
            meter: meter.clone(),
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
    let all_done = all_bytes_left.get() == 0 || streams.iter().all(|stream| stream.bytes_left.get() == 0);
    let mut measured = meter.result(all_done);
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
