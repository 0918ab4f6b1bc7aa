//! A load with a shadow model: it knows of every sector what it must hold, and of every request how long it took.
//!
//! Promises    an error number in an answer, a wrong sector in a read: recorded, never passed over
//!             a request whose connection breaks is sent again, through the next target, until it is answered (as QEMU
//!             does with reconnect-delay): its time runs from the first attempt
//! Method      each thread owns every n-th slice of 512 KiB, so that it alone knows the slice's sectors; sizes from 512 B
//!             to 256 KiB at sector offsets; writes, reads, zeroes, flushes

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    NbdClient, NbdError, Outcome, Target,
    nbd::HangUp,
    pattern::{SECTOR, fill, mix, name},
};

const SLICE_SECTORS: u64 = 1024;
const REQUEST_SECTORS_MAX: u64 = 512;
/// Silence after which a client connects anew. Over any stall that the product allows, so that it never hides one.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so long without an answer a request counts as failed.
const GIVE_UP: Duration = Duration::from_secs(90);

/// A running load.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Worker>>,
}

#[derive(Debug)]
struct Shared {
    targets: Mutex<Vec<Target>>,
    /// What ends the connection of each thread.
    open: Mutex<BTreeMap<u64, HangUp>>,
    export: String,
    seed: u64,
    sectors: u64,
    threads: u64,
    pause: Duration,
    stop: AtomicBool,
    done: AtomicU64,
    written_bytes: AtomicU64,
    begin: Instant,
    /// Microseconds since `begin` of the last answer to anybody, and the longest time without one.
    last_answer: AtomicU64,
    silence: Mutex<(Duration, Duration)>,
    longest: Mutex<(Duration, Duration)>,
    faults: Mutex<Vec<String>>,
    /// Microseconds of each request since the last [`Load::step`].
    step_us: Mutex<Vec<u64>>,
}

/// What guests met during one step of a test.
#[derive(Debug, Clone, Copy, Default)]
pub struct Step {
    /// Requests answered.
    pub requests: usize,
    /// Half of them took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Step {
    fn of(mut us: Vec<u64>) -> Self {
        us.sort_unstable();
        let at = |percent: usize| us.get((us.len() * percent / 100).min(us.len().max(1) - 1)).copied().unwrap_or(0);
        let [p50, p99, longest] = [at(50), at(99), us.last().copied().unwrap_or(0)].map(Duration::from_micros);
        Self { requests: us.len(), p50, p99, longest }
    }
}

/// What a load found.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// Requests answered.
    pub requests: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The request that took longest: how long, and when it ended since the load's beginning.
    pub longest: (Duration, Duration),
    /// The longest time in which no request of any thread was answered, and when it ended.
    pub silence: (Duration, Duration),
    /// Error answers and wrong sectors, in words; the first 20.
    pub faults: Vec<String>,
}

impl LoadReport {
    /// The report in one line.
    pub fn line(&self) -> String {
        format!(
            "{} requests, {} MiB written; longest request {:.2} s, longest silence {:.2} s; {} faults",
            self.requests,
            self.written_bytes >> 20,
            self.longest.0.as_secs_f64(),
            self.silence.0.as_secs_f64(),
            self.faults.len()
        )
    }

    /// `Ok` where nothing was wrong.
    ///
    /// # Errors
    /// The faults.
    pub fn clean(&self) -> Outcome<()> {
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults.join("; ")) }
    }
}

/// What one thread knows.
#[derive(Debug)]
struct Worker {
    index: u64,
    shared: Arc<Shared>,
    /// Version of each sector that was ever written.
    versions: BTreeMap<u64, u32>,
    state: u64,
}

impl Load {
    /// Starts `threads` clients on the first `mib` MiB of `export`, which must read as zeroes where nothing was written.
    ///
    /// Targets are tried in order, from the first. `pause` lies between the requests of a thread.
    pub fn start(targets: Vec<Target>, export: &str, mib: u64, threads: u64, pause: Duration, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            targets: Mutex::new(targets),
            open: Mutex::default(),
            export: export.to_owned(),
            seed,
            sectors: mib * (1 << 20) / SECTOR as u64,
            threads,
            pause,
            stop: AtomicBool::new(false),
            done: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            begin: Instant::now(),
            last_answer: AtomicU64::new(0),
            silence: Mutex::default(),
            longest: Mutex::default(),
            faults: Mutex::default(),
            step_us: Mutex::default(),
        });
        let threads = (0..threads)
            .map(|index| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let state = mix(shared.seed + index);
                    let mut worker = Worker { index, shared, versions: BTreeMap::new(), state };
                    worker.run();
                    worker
                })
            })
            .collect();
        Self { shared, threads }
    }

    /// Requests answered so far.
    pub fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    /// What was met since the last call, or the beginning.
    ///
    /// # Panics
    /// When a thread of the load panicked.
    pub fn step(&self) -> Step {
        Step::of(std::mem::take(&mut *self.shared.step_us.lock().expect("no holder panics")))
    }

    /// Targets for connections from now on.
    ///
    /// # Panics
    /// When a thread of the load panicked.
    pub fn retarget(&self, targets: Vec<Target>) {
        *self.shared.targets.lock().expect("no holder panics") = targets;
    }

    /// Ends the connections of all threads: their requests are sent again to the targets of now.
    ///
    /// # Panics
    /// When a thread of the load panicked.
    pub fn reconnect(&self) {
        for hang_up in self.shared.open.lock().expect("no holder panics").values() {
            hang_up.now();
        }
    }

    /// Ends the load. What is to be there is known then, and nothing is under way.
    ///
    /// # Errors
    /// When a thread died.
    pub fn stop(self) -> Outcome<StoppedLoad> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut versions = BTreeMap::new();
        for thread in self.threads {
            let mut worker = thread.join().map_err(|_| "a thread of the load panicked")?;
            versions.append(&mut worker.versions);
        }
        Ok(StoppedLoad { shared: self.shared, versions })
    }
}

/// A load that has ended.
#[derive(Debug)]
pub struct StoppedLoad {
    shared: Arc<Shared>,
    versions: BTreeMap<u64, u32>,
}

impl StoppedLoad {
    /// Reads every sector of the range back through `targets`, and tells what was found.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub fn verify(&self, targets: &[Target]) -> Outcome<LoadReport> {
        self.shared.retarget(targets);
        verify(&self.shared, &self.versions)?;
        Ok(self.shared.report())
    }
}

impl Shared {
    fn retarget(&self, targets: &[Target]) {
        *self.targets.lock().expect("no holder panics") = targets.to_vec();
    }

    fn opened(&self, index: u64, client: &NbdClient) {
        if let Ok(hang_up) = client.hang_up() {
            self.open.lock().expect("no holder panics").insert(index, hang_up);
        }
    }

    fn fault(&self, words: String) {
        let mut faults = self.faults.lock().expect("no holder panics");
        if faults.len() < 20 {
            faults.push(format!("at {:.2} s: {words}", self.begin.elapsed().as_secs_f64()));
        }
    }

    fn answered(&self, since: Instant) {
        let now = self.begin.elapsed();
        let last = self.last_answer.swap(now.as_micros() as u64, Ordering::Relaxed);
        let keep = |longest: &Mutex<(Duration, Duration)>, took: Duration| {
            let mut longest = longest.lock().expect("no holder panics");
            if took > longest.0 {
                *longest = (took, now);
            }
        };
        keep(&self.silence, now.saturating_sub(Duration::from_micros(last)));
        let took = since.elapsed();
        keep(&self.longest, took);
        self.step_us.lock().expect("no holder panics").push(took.as_micros() as u64);
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn report(&self) -> LoadReport {
        LoadReport {
            requests: self.done.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            longest: *self.longest.lock().expect("no holder panics"),
            silence: *self.silence.lock().expect("no holder panics"),
            faults: self.faults.lock().expect("no holder panics").clone(),
        }
    }

    /// Connects to the first target that takes us; keeps on until `until`.
    fn connect(&self, until: Instant) -> Result<NbdClient, NbdError> {
        loop {
            let targets = self.targets.lock().expect("no holder panics").clone();
            let mut last = NbdError::Gone("no targets".into());
            for target in &targets {
                match NbdClient::connect(target, &self.export, PATIENCE) {
                    Ok(client) => return Ok(client),
                    Err(error) => last = error,
                }
            }
            if Instant::now() > until {
                return Err(last);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

enum Op {
    Read,
    Write,
    Zero,
    Flush,
}

impl Worker {
    fn random(&mut self, below: u64) -> u64 {
        self.state = mix(self.state);
        self.state % below
    }

    fn run(&mut self) {
        let mut client = None;
        let mut data = Vec::new();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let (op, at, count) = self.draw();
            data.resize(count as usize * SECTOR, 0);
            if matches!(op, Op::Write) {
                for (n, sector) in data.chunks_mut(SECTOR).enumerate() {
                    let number = at + n as u64;
                    let version = self.versions.entry(number).or_default();
                    *version += 1;
                    // A sector whose version is 0 holds zeroes: zeroing sets a bit, writing clears it.
                    *version &= !ZEROED;
                    fill(sector, self.shared.seed, number, *version);
                }
                self.shared.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            }
            if !self.send(&mut client, &op, at, &mut data) {
                return;
            }
            match op {
                Op::Read => self.compare(at, &data),
                Op::Zero => (at..at + count).for_each(|n| *self.versions.entry(n).or_default() |= ZEROED),
                Op::Write | Op::Flush => {}
            }
            thread::sleep(self.shared.pause);
        }
    }

    /// What to do next, and where: mostly small, now and then up to 256 KiB, often at 4 KiB bounds, within a slice.
    fn draw(&mut self) -> (Op, u64, u64) {
        let slices = self.shared.sectors / SLICE_SECTORS / self.shared.threads;
        let slice = self.random(slices) * self.shared.threads + self.index;
        let aligned = self.random(4) > 0;
        let unit = if aligned { 8 } else { 1 };
        let order = self.random(10);
        let count = (1 + self.random(1 << order)).next_multiple_of(unit).min(REQUEST_SECTORS_MAX);
        let at = self.random((SLICE_SECTORS - count) / unit + 1) * unit;
        let op = match self.random(20) {
            0 => Op::Zero,
            1 => Op::Flush,
            2..=8 => Op::Read,
            _ => Op::Write,
        };
        (op, slice * SLICE_SECTORS + at, count)
    }

    /// Sends until answered. False when there was no answer for good.
    fn send(&mut self, client: &mut Option<NbdClient>, op: &Op, at: u64, data: &mut [u8]) -> bool {
        let begin = Instant::now();
        let (offset, bytes) = (at * SECTOR as u64, data.len() as u32);
        loop {
            let outcome = match client.as_mut() {
                None => self.shared.connect(begin + GIVE_UP).map(|new| {
                    self.shared.opened(self.index, &new);
                    *client = Some(new);
                    false
                }),
                Some(client) => match op {
                    Op::Read => client.read(offset, data),
                    Op::Write => client.write(offset, data),
                    Op::Zero => client.write_zeroes(offset, bytes),
                    Op::Flush => client.flush(),
                }
                .map(|()| true),
            };
            match outcome {
                Ok(true) => {
                    self.shared.answered(begin);
                    return true;
                }
                Ok(false) => {}
                Err(NbdError::Gone(_)) if begin.elapsed() < GIVE_UP => *client = None,
                Err(error) => {
                    self.shared.fault(format!(
                        "request at sector {at}, {bytes} bytes: {error} after {:.1} s",
                        begin.elapsed().as_secs_f64()
                    ));
                    return false;
                }
            }
        }
    }

    fn compare(&self, at: u64, data: &[u8]) {
        compare(&self.shared, &self.versions, at, data);
    }
}

/// Marks a version as zeroed; the count goes on, so that content never repeats.
const ZEROED: u32 = 1 << 31;

fn compare(shared: &Shared, versions: &BTreeMap<u64, u32>, at: u64, data: &[u8]) {
    let mut want = [0; SECTOR];
    for (n, sector) in data.chunks(SECTOR).enumerate() {
        let number = at + n as u64;
        let version = versions.get(&number).copied().unwrap_or(0);
        let version = if version & ZEROED == 0 { version } else { 0 };
        fill(&mut want, shared.seed, number, version);
        if want != sector {
            shared.fault(format!("sector {number} holds {}, not version {version}", name(sector, shared.seed)));
            return;
        }
    }
}

fn verify(shared: &Shared, versions: &BTreeMap<u64, u32>) -> Outcome<()> {
    let deadline = Instant::now() + GIVE_UP;
    let mut client = shared.connect(deadline).map_err(|e| format!("cannot read back: {e}"))?;
    let mut data = vec![0; SLICE_SECTORS as usize * SECTOR];
    let mut at = 0;
    while at < shared.sectors {
        match client.read(at * SECTOR as u64, &mut data) {
            Ok(()) => {
                compare(shared, versions, at, &data);
                at += SLICE_SECTORS;
            }
            Err(NbdError::Gone(_)) if Instant::now() < deadline => {
                client = shared.connect(deadline).map_err(|e| format!("cannot read back: {e}"))?;
            }
            Err(error) => return Err(format!("cannot read sector {at} back: {error}")),
        }
    }
    Ok(())
}
