//! A simulated device: bytes that survive crashes, latency, counters, planned crashes and faults.
//!
//! Promises    D1  a durable write, and what a flush covered, survives every crash (`medium.rs`)
//!             D2  a handle of a process that ended reaches nothing: its futures never resolve, its blocking calls fail
//!             D3  with a [`CrashPoint`](crate::CrashPoint), power goes at exactly that operation, and nothing after it gets through
//! Assumes     an operation begins when its future is first polled
//! Not here    the bytes (`medium.rs`), the vocabulary of faults (`faults.rs`)

use std::{
    collections::BTreeSet,
    future::Future,
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{BlockingDisk, Disk, DiskError, DiskErrorKind, Durability, PageBuf};
use futures::channel::oneshot;

use crate::{
    executor::Core,
    faults::{Fault, Faults},
    host::{CrashPhase, Power, capture},
    medium::Medium,
    rng::{Rng, mix},
    trace::hash_bytes,
};

const STEP_READ: u64 = 20;
const STEP_WRITE: u64 = 21;
const STEP_FLUSH: u64 = 22;
const STEP_FAULT: u64 = 23;
const BLOCK: u64 = cairn_types::BLOCK_BYTES as u64;
/// The handle number of the shard's own writes.
const SHARD_HANDLE: u64 = 0;

/// How long operations take, lowest and highest. The defaults are those of a SATA flash drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskLatency {
    /// A read.
    pub read: (Duration, Duration),
    /// A buffered write.
    pub buffered: (Duration, Duration),
    /// A durable write.
    pub durable: (Duration, Duration),
    /// A flush.
    pub flush: (Duration, Duration),
    /// Added for each MiB moved.
    pub per_mib: Duration,
}

impl Default for DiskLatency {
    fn default() -> Self {
        let micros = |low, high| (Duration::from_micros(low), Duration::from_micros(high));
        Self {
            read: micros(60, 180),
            buffered: micros(20, 80),
            durable: micros(60, 300),
            flush: micros(200, 1500),
            per_mib: Duration::from_micros(2000),
        }
    }
}

/// What was asked of a device since it was added (failed operations included).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskCounters {
    /// Reads.
    pub reads: u64,
    /// Buffered writes.
    pub writes_buffered: u64,
    /// Durable writes.
    pub writes_durable: u64,
    /// Bytes of buffered and durable writes that the disk took.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Reads by blocking handles.
    pub blocking_reads: u64,
    /// Writes by blocking handles.
    pub blocking_writes: u64,
    /// Syncs by blocking handles.
    pub blocking_syncs: u64,
    /// Bytes read, all ways.
    pub bytes_read: u64,
    /// Bytes written, all ways.
    pub bytes_written: u64,
}

struct DiskState {
    medium: Medium,
    faults: Faults,
    /// Writes that landed elsewhere and have not ended: another one may well be on its way to where they did.
    astray: BTreeSet<u64>,
    rng: Rng,
    latency: DiskLatency,
    counters: DiskCounters,
    handles: u64,
    blocking_hash: u64,
}

/// The device itself, shared by all handles.
pub(crate) struct DiskCore {
    label: String,
    len_bytes: u64,
    power: Arc<Mutex<Power>>,
    tripped: Arc<AtomicBool>,
    state: Mutex<DiskState>,
}

/// A counted operation, and where in it power goes, if it does.
#[derive(Clone, Copy)]
struct Counted {
    operation: u64,
    crash: Option<CrashPhase>,
}

/// A write that the device has begun.
struct Begun {
    /// None: acknowledged and not done.
    write: Option<u64>,
    fails: Option<DiskErrorKind>,
}

impl DiskCore {
    pub(crate) fn new(
        label: String,
        medium: Medium,
        rng: Rng,
        power: Arc<Mutex<Power>>,
        tripped: Arc<AtomicBool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            label,
            len_bytes: medium.len_bytes(),
            power,
            tripped,
            state: Mutex::new(DiskState {
                medium,
                faults: Faults::default(),
                astray: BTreeSet::new(),
                rng,
                latency: DiskLatency::default(),
                counters: DiskCounters::default(),
                handles: SHARD_HANDLE,
                blocking_hash: 0,
            }),
        })
    }

    /// Forgets the contents: the world has ended.
    pub(crate) fn discard(&self) {
        self.state().medium = Medium::new(self.len_bytes);
    }

    // A job that panicked under `run_blocking` may have poisoned these; the panic itself is what is reported.
    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn power(&self) -> MutexGuard<'_, Power> {
        self.power.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn blocking_hash(&self) -> u64 {
        self.state().blocking_hash
    }

    pub(crate) fn lose_power(&self, rng: &mut Rng) {
        let mut rng = rng.fork();
        self.state().medium.lose_power(&mut rng);
    }

    pub(crate) fn abandon_in_flight(&self) {
        self.state().medium.abandon_in_flight();
    }

    fn alive(&self, process: u64) -> bool {
        let power = self.power();
        power.process == process && !power.tripped
    }

    /// Counts an operation that can change the medium. Err: the process is dead, or dies right here.
    fn count(&self, process: u64) -> Result<Counted, ()> {
        let mut power = self.power();
        if power.process != process || power.tripped {
            return Err(());
        }
        power.operations += 1;
        let operation = power.operations;
        let crash = power.plan.filter(|plan| plan.operation == power.operations).map(|plan| plan.phase);
        drop(power);
        capture(&self.power, operation, CrashPhase::Before);
        if crash == Some(CrashPhase::Before) {
            self.trip();
            return Err(());
        }
        Ok(Counted { operation, crash })
    }

    /// The operation is in flight. True when power goes right here.
    fn dies_during(&self, counted: Counted) -> bool {
        capture(&self.power, counted.operation, CrashPhase::During);
        let dies = counted.crash == Some(CrashPhase::During);
        if dies {
            self.trip();
        }
        dies
    }

    /// The device is done with the operation. True when power goes before its caller knows.
    fn dies_after(&self, counted: Counted) -> bool {
        capture(&self.power, counted.operation, CrashPhase::After);
        let dies = counted.crash == Some(CrashPhase::After);
        if dies {
            self.trip();
        }
        dies
    }

    pub(crate) fn image(&self) -> Medium {
        self.state().medium.clone()
    }

    /// The planned crash is here: the executor finds the flag after the present poll.
    fn trip(&self) {
        self.power().tripped = true;
        self.tripped.store(true, Ordering::Relaxed);
    }

    fn error(&self, kind: DiskErrorKind, act: &'static str, offset: u64, len_bytes: u64, cause: &str) -> DiskError {
        let cause = format!("{}: {cause}", self.label);
        DiskError { kind, act, offset, len_bytes, cause }
    }

    /// Refuses what no device does: an address past the end; anything at all when it is gone.
    fn check(
        &self,
        state: &DiskState,
        kind: DiskErrorKind,
        act: &'static str,
        offset: u64,
        len_bytes: u64,
    ) -> Result<(), DiskError> {
        if state.faults.gone {
            let kind = DiskErrorKind::Gone;
            return Err(self.error(kind, act, offset, len_bytes, "no such device"));
        }
        if offset.checked_add(len_bytes).is_none_or(|end| end > self.len_bytes) {
            return Err(self.error(kind, act, offset, len_bytes, "past the end of the device"));
        }
        Ok(())
    }

    fn read(&self, state: &mut DiskState, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let len_bytes = into.len() as u64;
        self.check(state, DiskErrorKind::Read, "read", offset, len_bytes)?;
        if let Some(cause) = state.faults.on_read(offset, len_bytes) {
            return Err(self.error(DiskErrorKind::Read, "read", offset, len_bytes, cause));
        }
        state.medium.read(offset, into);
        state.counters.bytes_read += len_bytes;
        Ok(())
    }

    fn begin_write(
        &self,
        state: &mut DiskState,
        handle: u64,
        offset: u64,
        parts: &[&[u8]],
    ) -> Result<Begun, DiskError> {
        let len_bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        self.check(state, DiskErrorKind::Write, "write", offset, len_bytes)?;
        assert!(
            !state.astray.is_empty() || !state.medium.races(offset, len_bytes),
            "{}: two writes in flight to the sectors at {offset} (+{len_bytes}): their order is nobody's promise",
            self.label
        );
        state.counters.bytes_written += len_bytes;
        let lands = state.faults.lands_at(offset, len_bytes, self.len_bytes);
        let write = lands.map(|lands| state.medium.begin_write(handle, lands, parts));
        state.astray.extend(write.filter(|_| lands != Some(offset)));
        let fails = state.faults.on_write_fails();
        Ok(Begun { write, fails })
    }

    fn end_write(
        &self,
        state: &mut DiskState,
        begun: Begun,
        durable: bool,
        (offset, len_bytes): (u64, u64),
    ) -> Result<(), DiskError> {
        let DiskState { medium, rng, astray, .. } = state;
        if let Some(write) = begun.write {
            astray.remove(&write);
        }
        match begun.write {
            Some(write) if begun.fails.is_some() => medium.fail_write(write, rng),
            Some(write) => medium.end_write(write, durable),
            None => {}
        }
        match begun.fails {
            Some(kind) => {
                let cause =
                    if kind == DiskErrorKind::NoSpace { "no space left on device" } else { "input/output error" };
                Err(self.error(kind, "write", offset, len_bytes, cause))
            }
            None => Ok(()),
        }
    }
}

/// A handle of one process on a device. See the crate for an example.
#[derive(Clone)]
pub struct SimDisk {
    disk: Arc<DiskCore>,
    world: Rc<Core>,
    process: u64,
}

impl SimDisk {
    pub(crate) fn new(disk: Arc<DiskCore>, world: Rc<Core>, process: u64) -> Self {
        Self { disk, world, process }
    }

    /// Lets the device do something wrong.
    pub fn inject(&self, fault: Fault) {
        self.world.fold(STEP_FAULT, &[self.world.now()]);
        self.world.line(|| format!("{}: {fault:?}", self.disk.label));
        let mut state = self.disk.state();
        if let Fault::BitFlip { offset, bit } = fault {
            state.medium.flip_bit(offset, bit);
        }
        state.faults.add(fault);
    }

    /// Ends what the device does wrong, pending faults too. What is spoiled on the medium stays so.
    pub fn heal(&self) {
        self.disk.state().faults.heal();
    }

    /// A device that was [`Fault::Gone`] is back, with what it holds.
    pub fn bring_back(&self) {
        self.disk.state().faults.gone = false;
    }

    /// Operations so far.
    pub fn counters(&self) -> DiskCounters {
        self.disk.state().counters
    }

    /// Sets how long operations take.
    pub fn set_latency(&self, latency: DiskLatency) {
        self.disk.state().latency = latency;
    }

    /// The device at this instant, unsynced sectors and all: for [`Medium::lose_power`] and
    /// [`Host::add_disk_of`](crate::Host::add_disk_of).
    pub fn image(&self) -> Medium {
        self.disk.image()
    }

    /// Reads without time, errors or counting: the test's own eyes.
    pub fn peek(&self, offset: u64, len_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; len_bytes];
        self.disk.state().medium.read(offset, &mut bytes);
        bytes
    }

    /// Where the `n`th 4 KiB block at or behind `from` begins that holds something ([`Medium::written`]).
    pub fn written(&self, from: u64, n: u64) -> Option<u64> {
        self.disk.state().medium.written(from, n)
    }

    /// Where all of these begin ([`Medium::all_written`]).
    pub fn all_written(&self, from: u64) -> Vec<u64> {
        self.disk.state().medium.all_written(from)
    }

    /// Puts bytes in place without time, errors or counting.
    pub fn poke(&self, offset: u64, data: &[u8]) {
        self.disk.state().medium.poke(offset, data);
    }

    /// Sectors that a power loss now could take back.
    pub fn unsynced_sectors(&self) -> usize {
        self.disk.state().medium.unsynced_sectors()
    }

    fn draw(&self, range: (Duration, Duration), len_bytes: u64) -> u64 {
        let mut state = self.disk.state();
        let (low, high) = (range.0.as_nanos() as u64, range.1.as_nanos() as u64);
        let moved = (state.latency.per_mib.as_nanos() as u64 * len_bytes) >> 20;
        let once = state.rng.between(low, high) + moved;
        once * u64::from(state.faults.slow_times.unwrap_or(1))
    }

    /// Ends an operation `latency` from now, whether or not its caller still waits; a process that died in the
    /// meantime never hears of it.
    async fn complete<T: 'static>(
        &self,
        latency: u64,
        counted: Option<Counted>,
        end: impl FnOnce(&DiskCore, &mut DiskState) -> T + 'static,
    ) -> T {
        let (sender, receiver) = oneshot::channel();
        let (disk, process) = (self.disk.clone(), self.process);
        self.world.call_at(self.world.now() + latency, move |_| {
            if !disk.alive(process) {
                return;
            }
            let ended = end(&disk, &mut disk.state());
            if counted.is_none_or(|counted| !disk.dies_after(counted)) {
                let _ = sender.send(ended);
            }
        });
        match receiver.await {
            Ok(ended) => ended,
            Err(_) => std::future::pending().await,
        }
    }

    async fn do_read(self, offset: u64, len_bytes: u32) -> Result<Bytes, DiskError> {
        let len = u64::from(len_bytes);
        assert_aligned(offset, len);
        if !self.disk.alive(self.process) {
            return std::future::pending().await;
        }
        self.world.fold(STEP_READ, &[offset, len]);
        self.disk.state().counters.reads += 1;
        let range = self.disk.state().latency.read;
        let latency = self.draw(range, len);
        self.complete(latency, None, move |disk, state| {
            let mut buffer = PageBuf::dirty(len as usize);
            disk.read(state, offset, &mut buffer)?;
            let DiskState { medium, rng, .. } = state;
            medium.read_race(offset, &mut buffer, rng);
            Ok(buffer.freeze())
        })
        .await
    }

    async fn do_write(self, offset: u64, parts: Vec<Bytes>, durability: Durability) -> Result<(), DiskError> {
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let len: u64 = slices.iter().map(|part| part.len() as u64).sum();
        assert_aligned(offset, len);
        let Ok(counted) = self.disk.count(self.process) else {
            return std::future::pending().await;
        };
        let durable = durability == Durability::Durable;
        self.world.fold(STEP_WRITE, &[offset, len, u64::from(durable), hash_bytes(&slices)]);
        self.world.line(|| format!("{}: write {durability:?} {offset} +{len}", self.disk.label));
        let (begun, range) = {
            let mut state = self.disk.state();
            let latency = state.latency;
            state.counters.written_bytes += slices.iter().map(|part| part.len() as u64).sum::<u64>();
            let range = if durable {
                state.counters.writes_durable += 1;
                latency.durable
            } else {
                state.counters.writes_buffered += 1;
                latency.buffered
            };
            (self.disk.begin_write(&mut state, SHARD_HANDLE, offset, &slices), range)
        };
        if self.disk.dies_during(counted) {
            return std::future::pending().await;
        }
        let latency = self.draw(range, len);
        self.complete(latency, Some(counted), move |disk, state| {
            // The device reads the buffers until it is done: they live as long.
            let _held = parts;
            disk.end_write(state, begun?, durable, (offset, len))
        })
        .await
    }

    async fn do_flush(self) -> Result<(), DiskError> {
        let Ok(counted) = self.disk.count(self.process) else {
            return std::future::pending().await;
        };
        if self.disk.dies_during(counted) {
            return std::future::pending().await;
        }
        self.world.fold(STEP_FLUSH, &[]);
        self.world.line(|| format!("{}: flush", self.disk.label));
        let (begun, range) = {
            let mut state = self.disk.state();
            state.counters.flushes += 1;
            (state.medium.begin_flush(), state.latency.flush)
        };
        let latency = self.draw(range, 0);
        self.complete(latency, Some(counted), move |disk, state| {
            disk.check(state, DiskErrorKind::Write, "flush", 0, 0)?;
            if state.faults.on_flush_fails() {
                let DiskState { medium, rng, .. } = state;
                medium.fail_flush(begun, rng);
                let kind = DiskErrorKind::Write;
                return Err(disk.error(kind, "flush", 0, 0, "input/output error"));
            }
            state.medium.end_flush(begun);
            Ok(())
        })
        .await
    }
}

fn assert_aligned(offset: u64, len_bytes: u64) {
    assert!(
        offset.is_multiple_of(BLOCK) && len_bytes.is_multiple_of(BLOCK) && len_bytes > 0,
        "an operation of {len_bytes} bytes at {offset}: neither may be off a multiple of 4096, and none is empty"
    );
}

impl Disk for SimDisk {
    fn len_bytes(&self) -> u64 {
        self.disk.len_bytes
    }

    fn name(&self) -> String {
        self.disk.label.clone()
    }

    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Bytes, DiskError>> + 'static {
        self.clone().do_read(offset, len_bytes)
    }

    fn write(
        &self,
        offset: u64,
        parts: Vec<Bytes>,
        durability: Durability,
    ) -> impl Future<Output = Result<(), DiskError>> + 'static {
        self.clone().do_write(offset, parts, durability)
    }

    fn flush(&self) -> impl Future<Output = Result<(), DiskError>> + 'static {
        self.clone().do_flush()
    }

    fn blocking(&self) -> Arc<dyn BlockingDisk> {
        let handle = {
            let mut state = self.disk.state();
            state.handles += 1;
            state.handles
        };
        Arc::new(BlockingHandle { disk: self.disk.clone(), process: self.process, handle })
    }
}

/// One blocking handle. Each call is one instant; unsynced writes are as unsafe as any.
struct BlockingHandle {
    disk: Arc<DiskCore>,
    process: u64,
    handle: u64,
}

impl BlockingHandle {
    fn dead(&self, act: &'static str, offset: u64, len_bytes: u64) -> DiskError {
        self.disk.error(DiskErrorKind::Gone, act, offset, len_bytes, "the process has ended")
    }

    /// Folds a call in without order: a library may order its writes by a randomly seeded map.
    fn fold(&self, state: &mut DiskState, words: [u64; 3]) {
        let hash = words.iter().fold(STEP_WRITE, |hash, word| mix(hash ^ word));
        state.blocking_hash = state.blocking_hash.wrapping_add(hash);
    }
}

impl BlockingDisk for BlockingHandle {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        if !self.disk.alive(self.process) {
            return Err(self.dead("read", offset, into.len() as u64));
        }
        let mut state = self.disk.state();
        state.counters.blocking_reads += 1;
        self.disk.read(&mut state, offset, into)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        let len = data.len() as u64;
        let counted = self.disk.count(self.process).map_err(|()| self.dead("write", offset, len))?;
        let mut state = self.disk.state();
        state.counters.blocking_writes += 1;
        self.fold(&mut state, [offset, len, hash_bytes(&[data])]);
        let begun = self.disk.begin_write(&mut state, self.handle, offset, &[data])?;
        drop(state);
        if self.disk.dies_during(counted) {
            return Err(self.dead("write", offset, len));
        }
        let mut state = self.disk.state();
        let ended = self.disk.end_write(&mut state, begun, false, (offset, len));
        drop(state);
        if self.disk.dies_after(counted) {
            return Err(self.dead("write", offset, len));
        }
        ended
    }

    fn sync(&self) -> Result<(), DiskError> {
        let counted = self.disk.count(self.process).map_err(|()| self.dead("flush", 0, 0))?;
        if self.disk.dies_during(counted) {
            return Err(self.dead("flush", 0, 0));
        }
        let mut state = self.disk.state();
        state.counters.blocking_syncs += 1;
        self.disk.check(&state, DiskErrorKind::Write, "flush", 0, 0)?;
        let fails = state.faults.on_flush_fails();
        if fails {
            let DiskState { medium, rng, .. } = &mut *state;
            medium.fail_sync(self.handle, rng);
        } else {
            state.medium.sync_handle(self.handle);
        }
        drop(state);
        if self.disk.dies_after(counted) {
            return Err(self.dead("flush", 0, 0));
        }
        if fails {
            let kind = DiskErrorKind::Write;
            return Err(self.disk.error(kind, "flush", 0, 0, "input/output error"));
        }
        Ok(())
    }
}
