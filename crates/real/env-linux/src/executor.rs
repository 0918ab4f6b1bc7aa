//! One thread: a tokio current-thread runtime, one ring, and the task sets of the hosts that live on it.
//!
//! Promises    X1  tasks of a host run on one thread only, and end together: when its main task returns, when one of its
//!                 tasks panics (an assertion of ours failed: the host must not go on), or when it is killed
//!             X2  a host has ended only when neither the kernel nor another thread holds work of it
//!             X3  device requests of one turn enter the kernel at the end of the turn, unless they are many
//!             X4  a thread that looks for work before it sleeps lets whoever else wants its processor have it meanwhile
//! Assumes     nothing blocks this thread: blocking work goes through `Env::run_blocking`
//! Not here    what a host does; what names it (`host`)

use std::{
    future::Future,
    io,
    panic::AssertUnwindSafe,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use futures::{channel::oneshot, task::AtomicWaker};
use tokio::{runtime, task::LocalSet, time};

use crate::{
    Host, LinuxEnv,
    io::{Backend, InFlight},
    longest::Longest,
    patience::Patience,
    ring::{self, Ring},
    threads::Threads,
};

/// How device I/O is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// io_uring where it is allowed, else blocking threads (with a warning).
    #[default]
    Auto,
    /// Blocking threads.
    Threads,
}

/// How device I/O is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// io_uring, completions without interrupts (COOP_TASKRUN, SINGLE_ISSUER).
    Ring,
    /// io_uring of an older kernel.
    RingPlain,
    /// Blocking calls on threads: io_uring is refused here, or was not wanted.
    Threads,
}

/// Settings of an [`Executor`].
#[derive(Debug, Clone, Default)]
pub struct ExecutorConfig {
    /// The thread's name in `top` and logs; "cairn-shard" where empty. At most 15 bytes are shown.
    pub name: String,
    /// How device I/O is to be done.
    pub io: IoChoice,
    /// The longest that it looks for work before it sleeps, where work comes as soon as that; zero: it sleeps at once.
    pub busy_poll_max: Duration,
}

/// How a host ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEnd {
    /// Its main task returned.
    Returned,
    /// Its host was killed.
    Killed,
    /// One of its tasks panicked; the words of the panic.
    Panicked(String),
}

/// A thread that hosts run on. Dropping it stops its hosts and waits for the thread.
pub struct Executor {
    link: Arc<ExecutorLink>,
    mode: IoMode,
    thread: Option<JoinHandle<()>>,
}

/// What other threads hold of an executor.
#[derive(Default)]
pub(crate) struct ExecutorLink {
    commands: Mutex<Vec<Command>>,
    waker: AtomicWaker,
    turn_longest_ns: AtomicU64,
}

type Start = Box<dyn FnOnce(&Backend) -> HostSlot + Send>;

enum Command {
    Start(Start),
    Kill(u64),
    Stop,
}

impl ExecutorLink {
    fn send(&self, command: Command) {
        self.commands.lock().unwrap().push(command);
        self.waker.wake();
    }
    /// The longest turn of late.
    pub fn turn_longest(&self) -> Duration {
        Duration::from_nanos(self.turn_longest_ns.load(Ordering::Relaxed))
    }
    /// Ends the host of this key as if its process had been killed.
    pub fn kill(&self, key: u64) {
        self.send(Command::Kill(key));
    }
}

/// A host that was started. Dropping the handle leaves the host running.
pub struct HostHandle {
    ended: oneshot::Receiver<HostEnd>,
}

impl HostHandle {
    pub(crate) fn new(ended: oneshot::Receiver<HostEnd>) -> Self {
        Self { ended }
    }
    /// Waits until the host has ended.
    pub async fn ended(self) -> HostEnd {
        // The executor is gone without a word only when its thread was dropped in the middle: as good as killed.
        self.ended.await.unwrap_or(HostEnd::Killed)
    }
    /// Waits, blocking this thread, until the host has ended. Not for use on an executor's own thread.
    pub fn wait(self) -> HostEnd {
        futures::executor::block_on(self.ended())
    }
}

/// How a host stands, as its own tasks tell it.
pub(crate) type EndCell = Rc<std::cell::RefCell<Option<HostEnd>>>;

pub(crate) type OnEnd = Box<dyn FnOnce(&HostEnd)>;

/// One host on its thread.
pub(crate) struct HostSlot {
    pub key: u64,
    /// The tasks; `None` once they were dropped.
    pub tasks: Option<LocalSet>,
    pub end: EndCell,
    pub in_flight: InFlight,
    /// Called once, right after the tasks were dropped: the host is told.
    pub on_end: Option<OnEnd>,
    /// Fires, or is dropped, when nothing of the host is left.
    pub over: Option<oneshot::Sender<()>>,
    pub ended: Option<oneshot::Sender<HostEnd>>,
}

impl Executor {
    /// Starts a thread.
    ///
    /// # Errors
    /// The system refuses a thread, or an event queue.
    pub fn spawn(config: ExecutorConfig) -> io::Result<Self> {
        let link = Arc::new(ExecutorLink::default());
        let (ready, started) = mpsc::channel();
        let name = if config.name.is_empty() { "cairn-shard".to_owned() } else { config.name.clone() };
        let thread_link = link.clone();
        let thread = thread::Builder::new().name(name).spawn(move || {
            let (runtime, backend) = match prepare(config.io) {
                Ok(prepared) => prepared,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok(backend.mode()));
            runtime.block_on(Turns::new(backend, thread_link, Patience::new(config.busy_poll_max)));
            // Jobs of `run_blocking` were waited for, host by host (X2); nothing is left to wait for here.
            runtime.shutdown_background();
        })?;
        let mode = started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended while it started")))?;
        Ok(Self { link, mode, thread: Some(thread) })
    }

    /// How this thread does device I/O.
    pub fn io_mode(&self) -> IoMode {
        self.mode
    }

    pub(crate) fn link(&self) -> &Arc<ExecutorLink> {
        &self.link
    }

    pub(crate) fn start(&self, start: Start) {
        self.link.send(Command::Start(start));
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.link.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs one host to its end: an executor for it alone, and the calling thread waits.
///
/// # Errors
/// The system refuses a thread, or the host was started before.
pub fn run_host<F>(
    host: &Host,
    config: ExecutorConfig,
    main: impl FnOnce(LinuxEnv) -> F + Send + 'static,
) -> io::Result<HostEnd>
where
    F: Future<Output = ()> + 'static,
{
    let executor = Executor::spawn(config)?;
    let handle = host.start(&executor, main).map_err(io::Error::other)?;
    Ok(handle.wait())
}

/// Makes the runtime and the way of device I/O of this thread.
fn prepare(choice: IoChoice) -> io::Result<(runtime::Runtime, Backend)> {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_io().enable_time().thread_name("cairn-blocking").on_thread_unpark(ring::wake_taker);
    let runtime = builder.build()?;
    let backend = {
        let _context = runtime.enter();
        match choice {
            IoChoice::Threads => Backend::Threads(Arc::new(Threads::start()?)),
            IoChoice::Auto => match Ring::open() {
                Ok(ring) => Backend::Ring(Rc::new(ring)),
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "io_uring is refused here (container profile or kernel.io_uring_disabled): \
                         device I/O goes through blocking threads and is slower"
                    );
                    Backend::Threads(Arc::new(Threads::start()?))
                }
            },
        }
    };
    Ok((runtime, backend))
}

/// The thread's root future: each poll is one turn over completions, hosts and submissions.
struct Turns {
    slots: Vec<HostSlot>,
    backend: Backend,
    link: Arc<ExecutorLink>,
    stopping: bool,
    /// Runs while a host that ended waits for work that others still hold.
    recheck: Option<Pin<Box<time::Sleep>>>,
    patience: Patience,
    longest: Longest,
    /// When the last turn that had work was over.
    idle_since: Instant,
    woken: Arc<Woken>,
    /// That, as the hosts have it.
    hosts_waker: Waker,
}

/// Wakes the root future for the hosts, and remembers that it was them.
#[derive(Default)]
struct Woken {
    by_hosts: AtomicBool,
    root: AtomicWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.by_hosts.store(true, Ordering::Release);
        self.root.wake();
    }
}

/// A processor that was given away came back later than this: somebody else had work for it. Giving it to nobody takes half a microsecond.
const OTHERS_RAN: Duration = Duration::from_micros(5);

/// How often a host that ended looks whether its last work is done.
const RECHECK: Duration = Duration::from_millis(1);

impl Turns {
    fn new(backend: Backend, link: Arc<ExecutorLink>, patience: Patience) -> Self {
        let woken: Arc<Woken> = Arc::default();
        Self {
            slots: Vec::new(),
            backend,
            link,
            stopping: false,
            recheck: None,
            patience,
            longest: Longest::new(Instant::now()),
            idle_since: Instant::now(),
            hosts_waker: woken.clone().into(),
            woken,
        }
    }

    fn obey(&mut self) {
        let commands = std::mem::take(&mut *self.link.commands.lock().unwrap());
        for command in commands {
            match command {
                Command::Start(start) => self.slots.push(start(&self.backend)),
                Command::Kill(key) => {
                    for slot in self.slots.iter_mut().filter(|slot| slot.key == key) {
                        slot.end.borrow_mut().get_or_insert(HostEnd::Killed);
                    }
                }
                Command::Stop => {
                    self.stopping = true;
                    for slot in &self.slots {
                        slot.end.borrow_mut().get_or_insert(HostEnd::Killed);
                    }
                }
            }
        }
    }

    fn poll_hosts(&mut self) {
        let mut cx = Context::from_waker(&self.hosts_waker);
        for slot in &mut self.slots {
            if let Some(tasks) = &mut slot.tasks
                && slot.end.borrow().is_none()
            {
                let _ = Pin::new(tasks).poll(&mut cx);
            }
            let end = slot.end.borrow().clone();
            if let Some(end) = end
                && slot.tasks.is_some()
            {
                // Dropping the set drops every task where it stands: as abrupt as a kill, for this host.
                slot.tasks = None;
                if let Some(tell) = slot.on_end.take() {
                    tell(&end);
                }
            }
        }
    }

    fn bury(&mut self) {
        self.slots.retain_mut(|slot| {
            if slot.tasks.is_some() || !slot.in_flight.is_idle() {
                return true;
            }
            let end = slot.end.borrow_mut().take().unwrap_or(HostEnd::Killed);
            if let Some(ended) = slot.ended.take() {
                let _ = ended.send(end);
            }
            if let Some(over) = slot.over.take() {
                let _ = over.send(());
            }
            false
        });
    }
}

impl Future for Turns {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.link.waker.register(cx.waker());
        this.obey();
        let began = Instant::now();
        let mut worked = this.woken.by_hosts.swap(false, Ordering::Acquire);
        if let Backend::Ring(ring) = &this.backend {
            worked |= ring.poll_completions(cx);
        }
        this.woken.root.register(cx.waker());
        this.poll_hosts();
        if let Backend::Ring(ring) = &this.backend {
            ring.submit();
            // What completed within the submission itself is taken at once, not after a sleep in epoll.
            if ring.take_completions() || ring.wants_submit() {
                cx.waker().wake_by_ref();
            }
        }
        let ended = Instant::now();
        if let Some(longest) = this.longest.took(began, ended.duration_since(began)) {
            this.link.turn_longest_ns.store(longest.as_nanos() as u64, Ordering::Relaxed);
        }
        if worked {
            this.patience.on_work(began.duration_since(this.idle_since));
            this.idle_since = ended;
        }
        // A device tells when it is done, and takes longer than a look: where devices are emulated, looking slows them down.
        let nothing_under_way = this.slots.iter().all(|slot| slot.in_flight.is_idle());
        if nothing_under_way && began.duration_since(this.idle_since) < this.patience.window() {
            let looked = Instant::now();
            thread::yield_now();
            // X4. Where somebody else wanted it, looking on would only take it from them again and again.
            match looked.elapsed() < OTHERS_RAN {
                true => cx.waker().wake_by_ref(),
                false => this.patience.give_up(),
            }
        }
        this.bury();
        if this.slots.iter().any(|slot| slot.tasks.is_none()) {
            let recheck = this.recheck.insert(Box::pin(time::sleep(RECHECK)));
            if recheck.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        } else if this.stopping {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// `task`, but a panic in it ends its host instead of passing unseen.
pub(crate) fn guarded(task: impl Future<Output = ()> + 'static, end: EndCell) -> impl Future<Output = ()> + 'static {
    use futures::FutureExt;
    async move {
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
            let words = panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "a panic without words".to_owned());
            tracing::error!(%words, "a task panicked: its host ends");
            end.borrow_mut().get_or_insert(HostEnd::Panicked(words));
        }
    }
}
