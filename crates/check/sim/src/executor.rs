//! One thread, virtual time, tasks by process: what runs next is a function of the seed.
//!
//! Promises    tasks run in the order in which they were woken; time moves only when none is ready; a process that
//!             ends takes its tasks with it, a paused one keeps them unpolled
//! Assumes     nobody waits for anything outside of this world (a thread, a socket): that would hang the run
//! Not here    hosts (`host.rs`), what timers do (`disk.rs`, `net.rs`)

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use cairn_types::HostId;
use futures::future::LocalBoxFuture;

use crate::{host::HostInner, net::Network, rng::Rng, trace::Trace};

/// Polls at one instant before the run is called a livelock: ten million polls of real code are tens of seconds.
const POLLS_PER_INSTANT_MAX: u64 = 10_000_000;

const STEP_POLL: u64 = 1;
const STEP_TIMER: u64 = 2;

/// The process that a task belongs to; none for the test's own tasks.
pub(crate) type Process = Option<(HostId, u64)>;

type Action = Box<dyn FnOnce(&Rc<Core>)>;

enum Timer {
    Wake(Waker),
    Call(Action),
}

struct Task {
    process: Process,
    /// Taken out while it is polled.
    future: Option<LocalBoxFuture<'static, ()>>,
    waker: Arc<TaskWaker>,
}

struct TaskWaker {
    task: u64,
    queued: AtomicBool,
    ready: Arc<Mutex<VecDeque<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().expect("one thread holds this lock").push_back(self.task);
        }
    }
}

/// Everything of one world that its tasks, disks and links share.
pub(crate) struct Core {
    now: Cell<u64>,
    ready: Arc<Mutex<VecDeque<u64>>>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    timers: RefCell<BTreeMap<(u64, u64), Timer>>,
    numbers: Cell<u64>,
    polls_at_instant: Cell<u64>,
    /// Steps after which the world is taken to run away.
    pub(crate) steps_max: Cell<u64>,
    /// Who looks at every step.
    pub(crate) watcher: RefCell<Option<Box<dyn FnMut()>>>,
    pub(crate) watched: Cell<bool>,
    /// Whether any host ever had a slow processor.
    pub(crate) slow_hosts: Cell<bool>,
    /// Whether any two machines have one host id.
    pub(crate) cloned_hosts: Cell<bool>,
    /// Set by a disk whose planned crash point was reached, until the executor has crashed the host.
    pub(crate) tripped: Arc<AtomicBool>,
    pub(crate) rng: RefCell<Rng>,
    pub(crate) trace: RefCell<Trace>,
    pub(crate) hosts: RefCell<BTreeMap<HostId, Rc<HostInner>>>,
    pub(crate) network: RefCell<Network>,
}

impl Core {
    pub(crate) fn new(seed: u64) -> Rc<Self> {
        let mut rng = Rng::new(seed);
        let network = Network::new(rng.fork());
        Rc::new(Self {
            now: Cell::new(0),
            ready: Arc::default(),
            tasks: RefCell::default(),
            timers: RefCell::default(),
            numbers: Cell::new(0),
            polls_at_instant: Cell::new(0),
            steps_max: Cell::new(u64::MAX),
            watcher: RefCell::default(),
            watched: Cell::new(false),
            slow_hosts: Cell::new(false),
            cloned_hosts: Cell::new(false),
            tripped: Arc::default(),
            rng: RefCell::new(rng),
            trace: RefCell::default(),
            hosts: RefCell::default(),
            network: RefCell::new(network),
        })
    }

    /// Nanoseconds since the world began.
    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    pub(crate) fn number(&self) -> u64 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    pub(crate) fn random(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    pub(crate) fn fold(&self, kind: u64, words: &[u64]) {
        self.trace.borrow_mut().fold(kind, words);
    }

    pub(crate) fn line(&self, line: impl FnOnce() -> String) {
        let now = self.now();
        self.trace.borrow_mut().line(|| format!("{:>12.6} {}", now as f64 / 1e9, line()));
    }

    pub(crate) fn spawn(&self, process: Process, future: LocalBoxFuture<'static, ()>) -> u64 {
        let task = self.number();
        let waker = Arc::new(TaskWaker { task, queued: AtomicBool::new(false), ready: self.ready.clone() });
        self.tasks.borrow_mut().insert(task, Task { process, future: Some(future), waker: waker.clone() });
        waker.wake();
        task
    }

    /// Calls `action` at `at` (or now, when that is past).
    pub(crate) fn call_at(&self, at: u64, action: impl FnOnce(&Rc<Core>) + 'static) {
        self.set_timer(at, Timer::Call(Box::new(action)));
    }

    fn set_timer(&self, at: u64, timer: Timer) -> (u64, u64) {
        let key = (at.max(self.now()), self.number());
        self.timers.borrow_mut().insert(key, timer);
        key
    }

    /// Ends every task of a process. Their destructors run here, and may call anything but find the process dead.
    pub(crate) fn end_process(&self, process: Process) {
        let mut tasks = self.tasks.borrow_mut();
        let ended: Vec<u64> =
            tasks.iter().filter(|(_, task)| task.process == process).map(|(&number, _)| number).collect();
        let futures: Vec<Task> = ended.iter().filter_map(|number| tasks.remove(number)).collect();
        drop(tasks);
        drop(futures);
    }

    /// Puts tasks that were woken during a pause back in line.
    pub(crate) fn requeue(&self, parked: Vec<u64>) {
        self.ready.lock().expect("one thread holds this lock").extend(parked);
    }

    /// Does one thing: a poll, or the next timer if it is not past `until`. False when there is neither.
    pub(crate) fn step(self: &Rc<Self>, until: u64) -> bool {
        let next = self.ready.lock().expect("one thread holds this lock").pop_front();
        if let Some(task) = next {
            match self.turn(task) {
                None => self.poll(task),
                Some(at) => self.call_at(at, move |core| core.poll(task)),
            }
        } else if !self.fire_next_timer(until) {
            return false;
        }
        if self.tripped.swap(false, Ordering::Relaxed) {
            self.crash_tripped_hosts();
        }
        true
    }

    /// When a task of a host with a slow processor gets its turn; none: now.
    fn turn(&self, number: u64) -> Option<u64> {
        if !self.slow_hosts.get() {
            return None;
        }
        let (host, _) = self.tasks.borrow().get(&number)?.process?;
        self.hosts.borrow().get(&host)?.turn(self.now())
    }

    fn poll(self: &Rc<Self>, number: u64) {
        self.polls_at_instant.set(self.polls_at_instant.get() + 1);
        assert!(
            self.polls_at_instant.get() < POLLS_PER_INSTANT_MAX,
            "livelock: tasks wake each other for ever at {} ns",
            self.now()
        );
        let steps = self.trace.borrow().steps;
        assert!(steps < self.steps_max.get(), "the world runs away: {steps} steps, and no end at {} ns", self.now());
        let Some((future, waker)) = self.take_for_poll(number) else {
            return;
        };
        let mut future = future;
        self.fold(STEP_POLL, &[self.now(), number]);
        let waker = Waker::from(waker);
        let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        // The task's process may have ended while it ran: then its future is dropped here.
        let mut tasks = self.tasks.borrow_mut();
        if ended {
            let _ended = tasks.remove(&number);
            drop(tasks);
        } else if let Some(task) = tasks.get_mut(&number) {
            task.future = Some(future);
            return;
        } else {
            drop(tasks);
        }
        drop(future);
    }

    fn take_for_poll(&self, number: u64) -> Option<(LocalBoxFuture<'static, ()>, Arc<TaskWaker>)> {
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks.get_mut(&number)?;
        if let Some((host, _)) = task.process
            && let Some(host) = self.hosts.borrow().get(&host)
            && host.park_if_paused(number)
        {
            return None;
        }
        task.waker.queued.store(false, Ordering::Relaxed);
        Some((task.future.take()?, task.waker.clone()))
    }

    fn fire_next_timer(self: &Rc<Self>, until: u64) -> bool {
        let (key, timer) = {
            let mut timers = self.timers.borrow_mut();
            match timers.first_key_value() {
                Some((key, _)) if key.0 <= until => timers.pop_first().expect("it was there"),
                _ => return false,
            }
        };
        if key.0 > self.now() {
            self.now.set(key.0);
            self.polls_at_instant.set(0);
        }
        self.fold(STEP_TIMER, &[key.0, key.1]);
        match timer {
            Timer::Wake(waker) => waker.wake(),
            Timer::Call(action) => action(self),
        }
        true
    }

    /// Moves the clock to `at` where nothing was due before.
    pub(crate) fn idle_until(&self, at: u64) {
        if at > self.now() {
            self.now.set(at);
            self.polls_at_instant.set(0);
        }
    }

    fn crash_tripped_hosts(self: &Rc<Self>) {
        let hosts: Vec<_> = self.hosts.borrow().values().cloned().collect();
        for host in hosts {
            host.crash_if_tripped(self);
        }
    }

    pub(crate) fn watch(&self) {
        // It may take itself away while it is called.
        let watcher = self.watcher.borrow_mut().take();
        if let Some(mut watcher) = watcher {
            watcher();
            self.watcher.borrow_mut().get_or_insert(watcher);
        }
    }

    /// Drops everything that runs: tasks hold the world, and the world them.
    pub(crate) fn shut_down(&self) {
        self.watcher.take();
        self.hosts.borrow().values().for_each(|host| host.handles_die());
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
        let timers = std::mem::take(&mut *self.timers.borrow_mut());
        drop(timers);
        // Destructors of tasks may have spawned: once more, and what those spawn is lost.
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
        let hosts = std::mem::take(&mut *self.hosts.borrow_mut());
        for host in hosts.values() {
            host.shut_down();
        }
    }
}

/// Resolves when `due` says so; `due` gives the world's time to look again.
pub(crate) struct Sleep<D: Fn() -> Option<u64>> {
    core: Rc<Core>,
    due: D,
    timer: Option<(u64, u64)>,
}

impl<D: Fn() -> Option<u64> + Unpin> Sleep<D> {
    /// `due` returns none when the time has come.
    pub(crate) fn new(core: Rc<Core>, due: D) -> Self {
        Self { core, due, timer: None }
    }
}

impl<D: Fn() -> Option<u64>> Sleep<D> {
    fn cancel(&mut self) {
        if let Some(key) = self.timer.take() {
            let cancelled = self.core.timers.borrow_mut().remove(&key);
            drop(cancelled);
        }
    }
}

impl<D: Fn() -> Option<u64> + Unpin> Future for Sleep<D> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.cancel();
        match (self.due)() {
            None => Poll::Ready(()),
            Some(at) => {
                let waker = context.waker().clone();
                self.timer = Some(self.core.set_timer(at, Timer::Wake(waker)));
                Poll::Pending
            }
        }
    }
}

impl<D: Fn() -> Option<u64>> Drop for Sleep<D> {
    fn drop(&mut self) {
        self.cancel();
    }
}
