//! A simulated host: its disks and its clock survive a crash, its process does not.
//!
//! Promises    after a crash or kill no task of the old process runs, none of its disk handles reaches a disk and
//!             none of its messages is sent; a restart is a new incarnation
//! Assumes     one process per host, one shard per process
//! Not here    what a power loss does to sectors (`medium.rs`), what peers see of it (`net.rs`)

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use cairn_types::{Build, HostId, Incarnation, Level};
use futures::future::LocalBoxFuture;

use crate::{
    disk::{DiskCore, SimDisk},
    env::SimEnv,
    executor::Core,
    medium::Medium,
    net::Inbox,
    rng::Rng,
};

const STEP_CRASH: u64 = 10;
const STEP_KILL: u64 = 11;
const STEP_RESTART: u64 = 12;
const STEP_PAUSE: u64 = 13;
const STEP_RESUME: u64 = 14;

/// Whether a program reads a message of this body.
type Reads = Rc<dyn Fn(&[u8]) -> bool>;

/// A program that a host runs each time it starts.
type Program = Rc<dyn Fn(SimEnv) -> LocalBoxFuture<'static, ()>>;

/// Where, relative to one disk operation, power is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPhase {
    /// Before the device saw it.
    Before,
    /// While it is in flight: any of its sectors may be on the medium, and any other unsynced one.
    During,
    /// When the device is done with it, and before its caller knows.
    After,
}

/// A planned power loss of a host, at one of its disk operations (writes, flushes, blocking writes and syncs;
/// reads change nothing and are not counted).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPoint {
    /// The operation, counted from 1 since the last [`Host::count_disk_operations_from_zero`].
    pub operation: u64,
    /// Where relative to it.
    pub phase: CrashPhase,
    /// Which unsynced sectors are lost.
    pub loss_seed: u64,
}

/// What the disks of a host hold at one possible crash: one run gives all of its crash points.
#[derive(Debug, Clone)]
pub struct CrashImage {
    /// Counts the images of this host, from 0.
    pub number: u64,
    /// The disk operation, counted as in [`CrashPoint::operation`].
    pub operation: u64,
    /// Where relative to it.
    pub phase: CrashPhase,
    /// The disks by name, unsynced sectors and all: [`Medium::lose_power`] decides about those.
    pub disks: Vec<(String, Medium)>,
}

/// The future ended because its process did: the host crashed, was killed or was restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crashed;

/// What the disks of one host share, also with handles on other threads.
#[derive(Default)]
pub(crate) struct Power {
    /// Counts processes; a handle of an older one is dead.
    pub(crate) process: u64,
    pub(crate) operations: u64,
    pub(crate) plan: Option<CrashPoint>,
    /// The planned point was reached: nothing gets through any more.
    pub(crate) tripped: bool,
    disks: BTreeMap<String, Weak<DiskCore>>,
    /// None: images are not asked for.
    images: Option<Vec<CrashImage>>,
    images_taken: u64,
}

/// Takes an image of all disks of the host, if asked to. The caller holds no lock of theirs.
pub(crate) fn capture(power: &Mutex<Power>, operation: u64, phase: CrashPhase) {
    let lock = || power.lock().unwrap_or_else(|e| e.into_inner());
    let disks: Vec<(String, Arc<DiskCore>)> = {
        let power = lock();
        if power.images.is_none() {
            return;
        }
        let live = |(name, disk): (&String, &Weak<DiskCore>)| Some((name.clone(), disk.upgrade()?));
        power.disks.iter().filter_map(live).collect()
    };
    let disks = disks.into_iter().map(|(name, disk)| (name, disk.image())).collect();
    let mut power = lock();
    let number = power.images_taken;
    power.images_taken += 1;
    if let Some(images) = &mut power.images {
        images.push(CrashImage { number, operation, phase, disks });
    }
}

/// The rate of one host's clock.
#[derive(Debug, Clone, Copy)]
struct Clock {
    world_base: u64,
    host_base: u64,
    rate_ppm: i64,
    /// For hosts that break the assumption: the clock stands while the process is paused.
    stopped: bool,
}

impl Clock {
    fn read(&self, world: u64) -> u64 {
        if self.stopped {
            return self.host_base;
        }
        let passed = i128::from(world - self.world_base);
        self.host_base + (passed + passed * i128::from(self.rate_ppm) / 1_000_000) as u64
    }

    /// World time until the clock has moved by `span`, rounded up.
    fn world_span(&self, span: u64) -> u64 {
        let rate = (1_000_000 + self.rate_ppm).max(1) as u128;
        (u128::from(span) * 1_000_000).div_ceil(rate) as u64
    }
}

pub(crate) struct HostInner {
    /// The machine's: no other one has it.
    pub(crate) id: HostId,
    /// The host that its processes say they are: the same, but for a clone.
    pub(crate) spoken_id: HostId,
    pub(crate) name: String,
    pub(crate) power: Arc<Mutex<Power>>,
    pub(crate) inbox: RefCell<Inbox>,
    up: Cell<bool>,
    paused: Cell<bool>,
    parked: RefCell<Vec<u64>>,
    /// How long each step takes, and when the one that runs ends, in nanoseconds.
    slow_step: Cell<u64>,
    busy_until: Cell<u64>,
    clock: Cell<Clock>,
    /// How far its clock of the day is ahead of the world's, in milliseconds.
    wall_clock_off_ms: Cell<i64>,
    disks: RefCell<BTreeMap<String, Arc<DiskCore>>>,
    program: RefCell<Option<Program>>,
    /// What the process that runs says of its program, and takes the cluster's level for.
    pub(crate) build: RefCell<Build>,
    pub(crate) level: Cell<Level>,
    /// Which bodies that program can read; none: all.
    reads: RefCell<Option<Reads>>,
    pub(crate) rng: RefCell<Rng>,
}

impl HostInner {
    pub(crate) fn power(&self) -> MutexGuard<'_, Power> {
        self.power.lock().expect("one thread holds this lock")
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.power().process
    }

    /// Whether the process of this number runs.
    pub(crate) fn runs(&self, process: u64) -> bool {
        let power = self.power();
        self.up.get() && power.process == process && !power.tripped
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.get()
    }

    /// Whether the program that runs can read this body.
    pub(crate) fn reads(&self, body: &[u8]) -> bool {
        self.reads.borrow().as_ref().is_none_or(|reads| reads(body))
    }

    pub(crate) fn park_if_paused(&self, task: u64) -> bool {
        if self.paused.get() {
            self.parked.borrow_mut().push(task);
        }
        self.paused.get()
    }

    /// On a slow processor a step begins when the one before it has ended: that moment, if it is to come.
    pub(crate) fn turn(&self, now: u64) -> Option<u64> {
        if self.slow_step.get() == 0 {
            return None;
        }
        let begins = self.busy_until.get().max(now);
        self.busy_until.set(begins + self.slow_step.get());
        (begins > now).then_some(begins)
    }

    /// This host's clock.
    pub(crate) fn clock_now(&self, world: u64) -> u64 {
        self.clock.get().read(world)
    }

    /// How far this host's clock of the day is ahead of the world's, in milliseconds.
    pub(crate) fn wall_clock_off_ms(&self) -> i64 {
        self.wall_clock_off_ms.get()
    }

    /// The world's time at which this host's clock shows `at`, if that is to come.
    pub(crate) fn world_time_of(&self, at: u64, world: u64) -> Option<u64> {
        let span = at.checked_sub(self.clock_now(world)).filter(|span| *span > 0)?;
        Some(world.saturating_add(self.clock.get().world_span(span)))
    }

    /// Combines the traces of blocking disk calls, which have no order.
    pub(crate) fn blocking_hash(&self) -> u64 {
        self.disks.borrow().values().fold(0, |sum, disk| sum.wrapping_add(disk.blocking_hash()))
    }

    pub(crate) fn crash_if_tripped(&self, core: &Rc<Core>) {
        let plan = {
            let mut power = self.power();
            if !power.tripped {
                return;
            }
            power.plan.take()
        };
        self.lose_power(core, plan.map_or(0, |plan| plan.loss_seed));
    }

    fn lose_power(&self, core: &Rc<Core>, loss_seed: u64) {
        if !self.up.get() {
            return;
        }
        core.fold(STEP_CRASH, &[core.now(), self.id.0 as u64, loss_seed]);
        core.line(|| format!("{}: power lost", self.name));
        self.stop(core, false);
        let mut rng = Rng::new(loss_seed);
        for disk in self.disks.borrow().values() {
            disk.lose_power(&mut rng);
        }
    }

    /// Ends the process. First the handles die, then the tasks: their destructors reach nothing.
    fn stop(&self, core: &Rc<Core>, kernel_lives: bool) {
        let process = self.power().process;
        {
            let mut power = self.power();
            power.tripped = false;
            power.process += 1;
        }
        self.up.set(false);
        self.paused.set(false);
        self.set_clock(core, |clock| clock.stopped = false);
        self.parked.take();
        self.inbox.take();
        crate::net::process_ended(core, self.id, kernel_lives);
        core.end_process(Some((self.id, process)));
    }

    fn set_clock(&self, core: &Rc<Core>, change: impl FnOnce(&mut Clock)) {
        let mut clock = self.clock.get();
        clock.host_base = clock.read(core.now());
        clock.world_base = core.now();
        change(&mut clock);
        self.clock.set(clock);
    }

    /// The world ends: no handle reaches a disk any more, as after a crash.
    pub(crate) fn handles_die(&self) {
        self.power().process += 1;
        self.up.set(false);
    }

    pub(crate) fn shut_down(&self) {
        self.program.take();
        self.inbox.take();
        // Programs that hold themselves in a circle hold handles too: what was large goes all the same.
        self.disks.take().values().for_each(|disk| disk.discard());
    }
}

/// A handle on one simulated host, for tests.
#[derive(Clone)]
pub struct Host {
    core: Rc<Core>,
    inner: Rc<HostInner>,
}

impl Host {
    /// `like`: the host whose id its processes have.
    pub(crate) fn add(core: &Rc<Core>, name: &str, id: Option<HostId>, like: Option<&Self>) -> Self {
        let (drawn, mut rng) = {
            let mut rng = core.rng.borrow_mut();
            let id = HostId::from_random(rng.next_u64(), rng.next_u64());
            (id, rng.fork())
        };
        let id = id.unwrap_or(drawn);
        let spoken_id = like.map_or(id, |host| host.inner.spoken_id);
        let process = like.map_or(1, |host| host.inner.incarnation() + 1);
        core.cloned_hosts.set(core.cloned_hosts.get() || like.is_some());
        let inner = Rc::new(HostInner {
            id,
            spoken_id,
            name: name.to_owned(),
            power: Arc::new(Mutex::new(Power { process, ..Power::default() })),
            inbox: RefCell::default(),
            up: Cell::new(true),
            paused: Cell::new(false),
            parked: RefCell::default(),
            slow_step: Cell::default(),
            busy_until: Cell::default(),
            // Every host was started at some other time: a comparison between hosts shows at once.
            clock: Cell::new(Clock {
                world_base: core.now(),
                host_base: rng.between(1, 1 << 50),
                rate_ppm: 0,
                stopped: false,
            }),
            wall_clock_off_ms: Cell::new(0),
            disks: RefCell::default(),
            program: RefCell::default(),
            build: RefCell::new(Build::untold(Level::FIRST)),
            level: Cell::new(Level::FIRST),
            reads: RefCell::default(),
            rng: RefCell::new(rng),
        });
        core.hosts.borrow_mut().insert(id, inner.clone());
        crate::net::process_started(core, id);
        Self::of(core, inner)
    }

    pub(crate) fn of(core: &Rc<Core>, inner: Rc<HostInner>) -> Self {
        let core = core.clone();
        Self { core, inner }
    }

    /// Its id; a clone's is its own, whatever its processes say.
    pub fn id(&self) -> HostId {
        self.inner.id
    }

    /// Its process ends its connection with whoever speaks as `peer`; they connect anew.
    pub fn hang_up(&self, peer: HostId) {
        crate::net::hang_up(&self.core, self.inner.id, peer);
    }

    /// The id that its processes have: a clone's is that of the host that it is a clone of.
    pub fn spoken_id(&self) -> HostId {
        self.inner.spoken_id
    }

    /// Its name in the trace.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The environment of the process that runs now.
    pub fn env(&self) -> SimEnv {
        SimEnv::new(self.core.clone(), self.inner.clone())
    }

    /// The number of the process that runs, or ran last.
    pub fn incarnation(&self) -> Incarnation {
        Incarnation(self.inner.incarnation())
    }

    /// Whether a process runs.
    pub fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    /// Adds an empty disk.
    pub fn add_disk(&self, name: &str, len_bytes: u64) -> SimDisk {
        self.add_disk_of(name, Medium::new(len_bytes))
    }

    /// Adds a disk with these contents, in place of the one of that name if there is one.
    pub fn add_disk_of(&self, name: &str, medium: Medium) -> SimDisk {
        let rng = self.inner.rng.borrow_mut().fork();
        let label = format!("{}/{name}", self.inner.name);
        let core = DiskCore::new(label, medium, rng, self.inner.power.clone(), self.core.tripped.clone());
        let mut disks = self.inner.disks.borrow_mut();
        disks.insert(name.to_owned(), core.clone());
        let weak = Arc::downgrade(&core);
        self.inner.power().disks.insert(name.to_owned(), weak);
        SimDisk::new(core, self.core.clone(), self.inner.incarnation())
    }

    /// The disk of this name, for the process that runs now.
    ///
    /// # Panics
    /// When there is none: the test named it wrongly.
    pub fn disk(&self, name: &str) -> SimDisk {
        let disks = self.inner.disks.borrow();
        let core = disks.get(name).expect("a disk of that name").clone();
        SimDisk::new(core, self.core.clone(), self.inner.incarnation())
    }

    /// Names of its disks, in order.
    pub fn disk_names(&self) -> Vec<String> {
        self.inner.disks.borrow().keys().cloned().collect()
    }

    /// From now on its processes say that they are of this build; what `reads` denies arrives as what is no message. The process
    /// that runs is of it, too: before it is connected, or just before a restart.
    pub fn set_build(&self, build: Build, reads: impl Fn(&[u8]) -> bool + 'static) {
        self.inner.build.replace(build);
        self.inner.reads.replace(Some(Rc::new(reads)));
    }

    /// Sets the program that each process of this host runs, and runs it in this one.
    pub fn set_program<F: Future<Output = ()> + 'static>(&self, program: impl Fn(SimEnv) -> F + 'static) {
        let program: Program = Rc::new(move |env| Box::pin(program(env)));
        self.inner.program.replace(Some(program));
        self.run_program();
    }

    fn run_program(&self) {
        let program = self.inner.program.borrow().clone();
        if let Some(program) = program
            && self.is_up()
        {
            self.core.spawn(self.process(), program(self.env()));
        }
    }

    fn process(&self) -> Option<(HostId, u64)> {
        Some((self.inner.id, self.inner.incarnation()))
    }

    /// Runs the world until `future`, a task of this host's process, ends or is ended by a crash.
    ///
    /// # Panics
    /// When nothing is left to happen and neither came.
    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Result<T, Crashed> {
        if !self.is_up() {
            return Err(Crashed);
        }
        let (sender, mut receiver) = futures::channel::oneshot::channel();
        self.core.spawn(
            self.process(),
            Box::pin(async move {
                let _ = sender.send(future.await);
            }),
        );
        loop {
            match receiver.try_recv() {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => assert!(
                    self.core.step(u64::MAX),
                    "deadlock: nothing is left to happen, and the future still waits\n{}",
                    self.core.trace.borrow().lines().join("\n")
                ),
                Err(_) => return Err(Crashed),
            }
        }
    }

    /// Power is lost: the process ends, unsynced sectors keep any of their contents (`loss_seed` says which).
    pub fn crash(&self, loss_seed: u64) {
        self.inner.lose_power(&self.core, loss_seed);
    }

    /// The process dies, power stays: writes in flight land, nothing unsynced is lost (a later crash may).
    pub fn kill(&self) {
        if !self.is_up() {
            return;
        }
        self.core.fold(STEP_KILL, &[self.core.now(), self.inner.id.0 as u64]);
        self.core.line(|| format!("{}: killed", self.inner.name));
        self.inner.stop(&self.core, true);
        for disk in self.inner.disks.borrow().values() {
            disk.abandon_in_flight();
        }
    }

    /// Starts a new process (after killing the one that runs, if any) and its program, if one is set.
    pub fn restart(&self) -> SimEnv {
        self.kill();
        self.core.fold(STEP_RESTART, &[self.core.now(), self.inner.id.0 as u64]);
        self.core.line(|| format!("{}: started", self.inner.name));
        self.inner.up.set(true);
        crate::net::process_started(&self.core, self.inner.id);
        self.run_program();
        self.env()
    }

    /// Stops polling the process (SIGSTOP, a frozen VM). Disks, clock and kernel go on.
    pub fn pause(&self) {
        self.core.fold(STEP_PAUSE, &[self.core.now(), self.inner.id.0 as u64]);
        self.core.line(|| format!("{}: paused", self.inner.name));
        self.inner.paused.set(self.is_up());
    }

    /// Like [`Self::pause`], and the clock stands as well: outside of what the design assumes.
    pub fn pause_with_clock(&self) {
        self.pause();
        self.inner.set_clock(&self.core, |clock| clock.stopped = true);
    }

    /// Goes on after a pause.
    pub fn resume(&self) {
        self.core.fold(STEP_RESUME, &[self.core.now(), self.inner.id.0 as u64]);
        self.core.line(|| format!("{}: resumed", self.inner.name));
        self.inner.set_clock(&self.core, |clock| clock.stopped = false);
        self.inner.paused.set(false);
        self.core.requeue(self.inner.parked.take());
    }

    /// Lets each step of the process (a poll of one of its tasks) take this long; zero is as fast as ever.
    pub fn set_slow_steps(&self, step: Duration) {
        self.core.fold(STEP_PAUSE, &[self.core.now(), self.inner.id.0 as u64, step.as_nanos() as u64]);
        self.inner.slow_step.set(step.as_nanos() as u64);
        self.core.slow_hosts.set(true);
    }

    /// Lets the clock run faster (or slower, below zero) by this many millionths from now on.
    pub fn set_clock_rate_ppm(&self, rate_ppm: i64) {
        assert!(rate_ppm > -1_000_000, "a clock does not run backwards");
        self.inner.set_clock(&self.core, |clock| clock.rate_ppm = rate_ppm);
    }

    /// Sets the clock of the day: so many milliseconds ahead of the world's, or behind it below zero. It survives a crash.
    pub fn set_wall_clock_off_ms(&self, off_ms: i64) {
        self.inner.wall_clock_off_ms.set(off_ms);
    }

    /// Plans a power loss; replaces an earlier plan.
    pub fn crash_at(&self, point: CrashPoint) {
        self.inner.power().plan = Some(point);
    }

    /// Takes the plan back.
    pub fn no_planned_crash(&self) {
        self.inner.power().plan = None;
    }

    /// Disk operations that can change a medium, of all disks of this host.
    pub fn disk_operations(&self) -> u64 {
        self.inner.power().operations
    }

    /// Begins to count anew (for [`CrashPoint::operation`]).
    pub fn count_disk_operations_from_zero(&self) {
        self.inner.power().operations = 0;
    }

    /// Takes an image of all disks before, during and after each disk operation from now on.
    pub fn capture_crash_images(&self) {
        self.inner.power().images.get_or_insert_default();
    }

    /// Images taken so far: what is acknowledged now is acknowledged in the image of this number, and in later ones.
    pub fn crash_images_taken(&self) -> u64 {
        self.inner.power().images_taken
    }

    /// The images taken since the last call.
    pub fn take_crash_images(&self) -> Vec<CrashImage> {
        let mut power = self.inner.power();
        power.images.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
