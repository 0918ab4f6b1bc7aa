//! A world: hosts, disks and links on one thread, made of one seed.
//!
//! Promises    the same seed and the same program give the same run, step by step ([`World::trace_hash`])
//! Assumes     the program takes time, chance and I/O from its `Env` only
//! Not here    what a cluster must promise (the checkers of the tests)

use std::{cell::RefCell, future::Future, rc::Rc, time::Duration};

use cairn_types::HostId;

use crate::{
    executor::{Core, Sleep},
    host::Host,
};

/// A simulated world. Clones are the same world; the last one dropped ends it.
#[derive(Clone)]
pub struct World {
    guard: Rc<Guard>,
}

struct Guard {
    core: Rc<Core>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.core.shut_down();
    }
}

impl World {
    /// An empty world.
    pub fn new(seed: u64) -> Self {
        Self { guard: Rc::new(Guard { core: Core::new(seed) }) }
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.guard.core
    }

    /// Adds a host with no disks; it is up at once, as incarnation 1, and connects to the others.
    pub fn add_host(&self, name: &str) -> Host {
        Host::add(self.core(), name, None, None)
    }

    /// The same under a known id: disks of another world's host, or two hosts that must not be one.
    pub fn add_host_with_id(&self, name: &str, id: HostId) -> Host {
        Host::add(self.core(), name, Some(id), None)
    }

    /// A second machine with the host id of `host` and no disks yet: as if from an image of it, so that its first process has the
    /// number after the one that runs there.
    pub fn add_clone(&self, name: &str, host: &Host) -> Host {
        Host::add(self.core(), name, None, Some(host))
    }

    /// The host of this id.
    pub fn host(&self, id: HostId) -> Option<Host> {
        let inner = self.core().hosts.borrow().get(&id).cloned();
        inner.map(|inner| Host::of(self.core(), inner))
    }

    /// Time since the world began.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.core().now())
    }

    /// The same for whoever must not keep the world alive, such as a program of its hosts.
    pub fn clock(&self) -> impl Fn() -> Duration + 'static {
        let core = self.core().clone();
        move || Duration::from_nanos(core.now())
    }

    /// Ends everything that runs, as dropping the last handle does: for tasks that hold one and never end.
    pub fn end(&self) {
        self.core().shut_down();
    }

    /// A run of more steps than this panics: somebody retries for ever, and time hardly passes.
    pub fn set_steps_max(&self, steps: u64) {
        self.core().steps_max.set(steps);
    }

    /// A random word of the world's seed.
    pub fn random_u64(&self) -> u64 {
        self.core().random()
    }

    /// A number below `bound`, of the world's seed.
    pub fn random_below(&self, bound: u64) -> u64 {
        self.core().rng.borrow_mut().below(bound)
    }

    /// Runs `task` beside the hosts: a client, a fault script. No crash ends it.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.core().spawn(None, Box::pin(task));
    }

    /// Resolves `duration` of world time later.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        let core = self.core().clone();
        let at = core.now() + duration.as_nanos() as u64;
        Sleep::new(core.clone(), move || (core.now() < at).then_some(at))
    }

    /// Runs the world until `future` (a task of no host) ends.
    ///
    /// # Panics
    /// When nothing is left to happen and it has not ended.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let output = Rc::new(RefCell::new(None));
        let into = output.clone();
        self.spawn(async move {
            let value = future.await;
            into.replace(Some(value));
        });
        loop {
            if let Some(value) = output.take() {
                return value;
            }
            if self.core().watched.get() {
                self.core().watch();
            }
            assert!(
                self.core().step(u64::MAX),
                "deadlock at {:?}: nothing is left to happen, and the future still waits\n{}",
                self.now(),
                self.trace_lines().join("\n")
            );
        }
    }

    /// Calls `watcher` before every step of [`Self::block_on`]. It may look, and must change nothing.
    pub fn set_watcher(&self, watcher: impl FnMut() + 'static) {
        self.core().watcher.replace(Some(Box::new(watcher)));
        self.core().watched.set(true);
    }

    /// Nobody watches any more.
    pub fn no_watcher(&self) {
        self.core().watched.set(false);
    }

    /// Runs the world until `until` (since it began).
    pub fn run_until(&self, until: Duration) {
        let until = until.as_nanos() as u64;
        while self.core().step(until) {}
        self.core().idle_until(until);
    }

    /// Runs the world for `duration`.
    pub fn run_for(&self, duration: Duration) {
        self.run_until(self.now() + duration);
    }

    /// A number that every step so far went into: equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        let core = self.core();
        let mut hash = core.trace.borrow().hash;
        for host in core.hosts.borrow().values() {
            hash = crate::rng::mix(hash ^ host.blocking_hash());
        }
        hash
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.core().trace.borrow().steps
    }

    /// Keeps the newest lines of the trace from now on, for [`Self::trace_lines`].
    pub fn keep_trace_lines(&self) {
        self.core().trace.borrow_mut().keep_lines();
    }

    /// Prints the trace as it happens: for a person who looks at one failing seed.
    pub fn print_trace(&self) {
        self.core().trace.borrow_mut().print_lines();
    }

    /// The kept lines: crashes, restarts, cuts, faults, disk operations and messages with their times.
    pub fn trace_lines(&self) -> Vec<String> {
        self.core().trace.borrow().lines()
    }

    /// Adds a line of the test's own to the trace.
    pub fn note(&self, line: impl FnOnce() -> String) {
        self.core().line(line);
    }
}
