//! One process's view of its simulated host: what `cairn_env::Env` asks for.
//!
//! Promises    time, chance, tasks, disks and messages come from the world's seed and from nowhere else
//! Assumes     one shard per process

use std::{rc::Rc, time::Duration};

use cairn_env::{Env, LocalBoxFuture, NetEvent, OutMessage};
use cairn_types::{Build, HostId, Incarnation, Level, Time};
use futures::FutureExt;

use crate::{
    disk::SimDisk,
    executor::{Core, Sleep},
    host::HostInner,
};

const STEP_RANDOM: u64 = 30;
/// 14 November 2023: people's time at the beginning of every world.
const UNIX_MS_AT_START: u64 = 1_700_000_000_000;
/// A blocking job's result is up to this late: commits of the metadata store take 1 to 20 ms here.
const BLOCKING_DELAY_NANOS: (u64, u64) = (200_000, 5_000_000);

/// The environment of one process of a simulated host.
#[derive(Clone)]
pub struct SimEnv {
    core: Rc<Core>,
    host: Rc<HostInner>,
    process: u64,
}

impl SimEnv {
    pub(crate) fn new(core: Rc<Core>, host: Rc<HostInner>) -> Self {
        let process = host.incarnation();
        Self { core, host, process }
    }

    fn runs(&self) -> bool {
        self.host.runs(self.process)
    }

    fn pause_of(&self, nanos: u64) -> impl Future<Output = ()> + 'static {
        let (core, at) = (self.core.clone(), self.core.now() + nanos);
        Sleep::new(core.clone(), move || (core.now() < at).then_some(at))
    }
}

impl Env for SimEnv {
    type Disk = SimDisk;

    fn host(&self) -> HostId {
        self.host.spoken_id
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation(self.process)
    }

    fn build(&self) -> Build {
        self.host.build.borrow().clone()
    }

    fn set_level(&self, level: Level) {
        if self.runs() && self.host.level.replace(level) != level {
            crate::net::level_changed(&self.core, self.host.id);
        }
    }

    fn now(&self) -> Time {
        Time(self.host.clock_now(self.core.now()))
    }

    fn unix_ms(&self) -> u64 {
        let right = UNIX_MS_AT_START + Duration::from_nanos(self.core.now()).as_millis() as u64;
        right.saturating_add_signed(self.host.wall_clock_off_ms())
    }

    fn sleep_until(&self, at: Time) -> LocalBoxFuture<'static, ()> {
        let (core, host) = (self.core.clone(), self.host.clone());
        let due = {
            let core = core.clone();
            move || host.world_time_of(at.0, core.now())
        };
        Sleep::new(core, due).boxed_local()
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        // A destructor of a process that ended may still spawn: nothing of that process runs.
        if self.runs() {
            self.core.spawn(Some((self.host.id, self.process)), Box::pin(task));
        }
    }

    fn run_blocking<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> LocalBoxFuture<'static, T> {
        let env = self.clone();
        let (late, first) = {
            let mut rng = self.core.rng.borrow_mut();
            (rng.between(BLOCKING_DELAY_NANOS.0, BLOCKING_DELAY_NANOS.1), rng.one_in(2))
        };
        async move {
            // One instant, somewhere between the call and its result: both ends are tried.
            if !first {
                env.pause_of(late).await;
            }
            if !env.runs() {
                return std::future::pending().await;
            }
            let result = job();
            if first {
                env.pause_of(late).await;
            }
            if !env.runs() {
                return std::future::pending().await;
            }
            result
        }
        .boxed_local()
    }

    fn random_u64(&self) -> u64 {
        let word = self.host.rng.borrow_mut().next_u64();
        self.core.fold(STEP_RANDOM, &[word]);
        word
    }

    fn send(&self, to: HostId, message: OutMessage) {
        if self.runs() {
            crate::net::send(&self.core, self.host.id, self.process, to, message);
        }
    }

    fn receive<'a>(&'a self, events: &'a mut Vec<NetEvent>) -> LocalBoxFuture<'a, ()> {
        std::future::poll_fn(move |context| {
            if self.runs() { self.host.inbox.borrow_mut().take_into(events, context) } else { std::task::Poll::Pending }
        })
        .boxed_local()
    }
}
