//! Replays a log: its requests, in its order, each when it was recorded to begin.
//!
//! Promises    requests are given to their targets in the log's order, over all files: the order that is told is that of the giving
//!             a request is due at a time from the begin of the run, whatever the ones before it took: no error adds up
//!             what takes longer than recorded shows in the latency, which counts from when a request was due
//!             what a target cannot take is told before the first request
//! Assumes     a flush asks for what was acknowledged before it began; it is no barrier for what is under way
//! Not here    reading logs (`cairn-jobfile`), results for people and programs (`output::replay`)

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cairn_env::{Env, PageBuf};
use cairn_env_linux::{LinuxEnv, Timer};
use cairn_jobfile::iolog::{Act, Log, LogFile, Order, Timed};
use cairn_workload::{Addresses, Content, Direction, Kind, Pace, Request, Spec};
use futures::{FutureExt as _, poll};

use crate::{
    address::Address,
    job::{Job, Measured, RunError, Side, StreamJob},
    meter::Meter,
    open::Door,
    room::Room,
    target::Target,
};

/// What is to be replayed, where, and how fast.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The log.
    pub log: Arc<Log>,
    /// Where its files are, in its order of files.
    pub targets: Vec<Address>,
    /// Divides the log's times: 2 is twice as fast. None: each request is due when there is room for it.
    pub faster: Option<f64>,
    /// Requests that may be under way at once, over all targets.
    pub outstanding: u32,
    /// What is written; logs do not have it. The disk's number is that of the file.
    pub content: Content,
    /// Data may be lost.
    pub destructive: bool,
}

impl Replay {
    /// From the first request's due time to the last one's; none where they are not due at a time.
    pub fn time(&self) -> Option<Duration> {
        self.faster.map(|faster| Duration::from_micros(self.log.time_us()).div_f64(faster))
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The log as a job: a stream for each file that is read or written.
    pub job: Job,
    /// Reads and writes, and how late requests of all kinds began.
    pub measured: Measured,
    /// Trims.
    pub trims: Side,
    /// Syncs and datasyncs.
    pub flushes: Side,
    /// Requests of each kind that were given to their targets, in the order of [`Act::ALL`].
    pub issued: [u64; 5],
    /// The order in which they were.
    pub order: Order,
}

impl Replayed {
    /// Whether all requests of the log were given to their targets, in its order.
    pub fn is_in_order(&self, log: &Log) -> bool {
        self.order == log.order && self.issued == log.counts
    }

    /// Why the numbers may not be what they seem; empty where nothing speaks against them.
    pub fn doubts(&self, log: &Log) -> Vec<String> {
        let mut doubts = self.measured.doubts(&self.job);
        if self.measured.broken.is_none() && !self.is_in_order(log) {
            doubts.push("requests did not go out in the log's order".into());
        }
        if log.back_in_time > 0 {
            let count = log.back_in_time;
            doubts.push(format!(
                "{count} line(s) of the log have an earlier time than those before them: they were due with those"
            ));
        }
        doubts
    }
}

/// An open file of the log.
struct File {
    address: String,
    target: Target,
    content: Content,
    /// Its number among the job's streams; none where it is neither read nor written.
    stream: Option<usize>,
    writes: Cell<u64>,
}

/// A run.
struct Player {
    files: Vec<File>,
    meter: Meter,
    trims: RefCell<Side>,
    flushes: RefCell<Side>,
}

impl Player {
    /// What a request writes; nothing where it does not.
    fn data(&self, timed: &Timed) -> Bytes {
        if timed.act != Act::Write {
            return Bytes::new();
        }
        let file = &self.files[usize::from(timed.file)];
        let generation = file.writes.replace(file.writes.get() + 1);
        let mut data = PageBuf::dirty(timed.len_bytes as usize);
        file.content.fill(timed.offset, generation, &mut data);
        data.freeze()
    }

    async fn carry_out(self: Rc<Self>, timed: Timed, data: Bytes, due: Instant) {
        let Timed { offset, len_bytes, act, .. } = timed;
        let file = &self.files[usize::from(timed.file)];
        let direction = if act == Act::Write { Direction::Write } else { Direction::Read };
        let request = Request { direction, offset, len_bytes };
        let answer = match act {
            Act::Read | Act::Write => file.target.request(&request, data).await,
            Act::Trim => file.target.trim(offset, len_bytes).await,
            Act::Sync | Act::Datasync => file.target.flush().await,
        };
        let ended = Instant::now();
        let took_ns = ended.saturating_duration_since(due).as_nanos() as u64;
        let add = |side: &RefCell<Side>| {
            let mut side = side.borrow_mut();
            side.latency.record(took_ns);
            side.bytes += u64::from(len_bytes);
        };
        match (answer, file.stream) {
            (Err(why), _) => self.meter.broke(&file.address, act.name(), len_bytes, offset, &why),
            (Ok(()), Some(stream)) if matches!(act, Act::Read | Act::Write) => {
                self.meter.ended(stream, &request, due, ended);
            }
            (Ok(()), _) => add(if act.flushes() { &self.flushes } else { &self.trims }),
        }
    }
}

/// Replays it to its end.
///
/// # Errors
/// Before the first request only; what breaks later is in the result.
pub(crate) async fn run(env: LinuxEnv, replay: &Replay) -> Result<Replayed, RunError> {
    let mut job = job(replay);
    let files = open(&env, replay).await?;
    let timer = Timer::new().map_err(|error| RunError::Job(format!("the system gives no timer: {error}")))?;
    let begin = Instant::now();
    let counts = (begin, begin + cairn_jobfile::Run::UNTIL_DONE * 100);
    let (trims, flushes) = (RefCell::default(), RefCell::default());
    let player = Rc::new(Player { files, meter: Meter::new(counts, job.streams.len()), trims, flushes });
    let room = Rc::new(Room::new(replay.outstanding));
    let (mut order, mut issued) = (Order::default(), [0; 5]);
    for timed in replay.log.requests() {
        // Made before it is due, so that making it delays nothing.
        let data = player.data(timed);
        let due = replay.faster.map(|faster| begin + Duration::from_micros(timed.due_us).div_f64(faster));
        if let Some(due) = due {
            let waited = timer.until(due).await;
            waited.map_err(|error| RunError::Job(format!("the system's timer failed: {error}")))?;
        }
        room.enter().await;
        if player.meter.stop.get() {
            room.leave();
            break;
        }
        let began = Instant::now();
        if let Some(due) = due {
            player.meter.late(began.saturating_duration_since(due));
        }
        order.add(timed);
        issued[timed.act as usize] += 1;
        // The first step gives it to its target, here and not when a task happens to be woken: that keeps the order.
        let mut request = player.clone().carry_out(*timed, data, due.unwrap_or(began)).boxed_local();
        if poll!(&mut request).is_ready() {
            room.leave();
            continue;
        }
        let room = room.clone();
        env.spawn(async move {
            request.await;
            room.leave();
        });
    }
    room.empty().await;
    let measured = player.meter.result(true);
    job.measure = measured.measured;
    let (trims, flushes) = (player.trims.take(), player.flushes.take());
    Ok(Replayed { job, measured, trims, flushes, issued, order })
}

/// Opens the targets, and looks whether each can take what the log asks of it.
async fn open(env: &LinuxEnv, replay: &Replay) -> Result<Vec<File>, RunError> {
    let (mut door, mut files, mut streams) = (Door::default(), Vec::new(), 0);
    for (number, (file, address)) in replay.log.files.iter().zip(&replay.targets).enumerate() {
        let target = door.open(env, address, file.destroys.is_some()).await?;
        fits(file, &target).map_err(|why| RunError::Open { target: address.to_string(), why })?;
        let content = Content { disk: number as u64, ..replay.content };
        let stream = (file.data_requests > 0).then_some(streams);
        streams += usize::from(stream.is_some());
        files.push(File { address: address.to_string(), target, content, stream, writes: Cell::new(0) });
    }
    Ok(files)
}

fn fits(file: &LogFile, target: &Target) -> Result<(), String> {
    let (name, size_bytes, block) = (&file.name, target.size_bytes(), u64::from(target.block_bytes()));
    let (end, line) = file.end;
    if end > size_bytes {
        return Err(format!("line {line} asks for bytes of {name} up to {end}, beyond its {size_bytes} bytes"));
    }
    let (grain, line) = file.grain;
    if grain < block {
        return Err(format!("line {line}: requests here begin and end at multiples of {block} bytes"));
    }
    let refusal = |line: Option<usize>, why: Option<&str>| match (line, why) {
        (Some(line), Some(why)) => Err(format!("line {line}: {why}")),
        _ => Ok(()),
    };
    refusal(file.needs.0, target.refuses_trim())?;
    refusal(file.needs.1, target.refuses_flush())
}

/// The log as a job, for results: files as streams. Loads of streams are what their requests come to.
fn job(replay: &Replay) -> Job {
    let log = &replay.log;
    let (mut largest, mut reads) = (vec![0; log.files.len()], vec![0; log.files.len()]);
    for timed in log.requests().filter(|timed| matches!(timed.act, Act::Read | Act::Write)) {
        let file = usize::from(timed.file);
        largest[file] = timed.len_bytes.max(largest[file]);
        reads[file] += u64::from(timed.act == Act::Read);
    }
    let seconds = replay.time().unwrap_or_default().as_secs_f64();
    let stream = |(number, file): (usize, &LogFile)| {
        let read_percent = (reads[number] as f64 * 100.0 / file.data_requests as f64).round() as u8;
        let kinds = vec![Kind::new(largest[number], read_percent, 100)];
        let seed = replay.content.seed;
        let spec = Spec { kinds, addresses: Addresses::Uniform, span_begin: 0, span_bytes: file.end.0, seed };
        StreamJob {
            name: file.name.clone(),
            outstanding: replay.outstanding,
            pace: Pace::Rate { per_s: if seconds > 0.0 { file.data_requests as f64 / seconds } else { 0.0 } },
            ..StreamJob::new(replay.targets[number].clone(), spec, replay.content)
        }
    };
    let files = log.files.iter().enumerate().filter(|(_, file)| file.data_requests > 0);
    Job { streams: files.map(stream).collect(), destructive: replay.destructive, ..Job::default() }
}
