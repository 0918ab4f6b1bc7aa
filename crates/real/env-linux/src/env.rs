//! [`LinuxEnv`]: one host's world.
//!
//! Promises    what [`Env`] promises; `now` is `CLOCK_BOOTTIME`, random words come from the kernel
//! Assumes     used on the thread of its host only (it is not `Send`)

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use cairn_env::{BUFFER_ALIGN, Env, InMessage, LocalBoxFuture, NetEvent, OutMessage, PageBuf};
use cairn_types::{Build, HostId, Incarnation, Level, Time};
use rustix::{
    rand::{GetRandomFlags, getrandom},
    time::{ClockId, clock_gettime},
};

use crate::{
    IoMode, LinuxDisk,
    executor::{EndCell, guarded},
    fabric::Members,
    host::HostShared,
    io::{Backend, InFlight},
    net::Links,
};

/// Random bytes fetched at once: a system call per 32 words.
const RANDOM_BYTES: usize = 256;

/// One host's world on Linux. Cheap to clone; all clones are the same world.
#[derive(Clone)]
pub struct LinuxEnv(Rc<Inner>);

struct Inner {
    host: Arc<HostShared>,
    backend: Backend,
    in_flight: InFlight,
    end: EndCell,
    random: RefCell<Vec<u8>>,
    members: RefCell<(u64, Members)>,
    links: Links,
}

impl LinuxEnv {
    pub(crate) fn new(host: Arc<HostShared>, backend: Backend, in_flight: InFlight, end: EndCell) -> Self {
        Self(Rc::new(Inner {
            host,
            backend,
            in_flight,
            end,
            random: RefCell::default(),
            members: RefCell::default(),
            links: Links::default(),
        }))
    }

    /// How this host does device I/O.
    pub fn io_mode(&self) -> IoMode {
        self.0.backend.mode()
    }

    /// Dials this peer there; a new address replaces the old one and its connections.
    /// Without meaning for hosts of the same fabric.
    pub fn set_peer(&self, peer: HostId, address: SocketAddr) {
        self.0.host.set_peer(peer, address);
    }

    /// Ends the links to this peer and dials it no more.
    pub fn remove_peer(&self, peer: HostId) {
        self.0.host.remove_peer(peer);
    }

    pub(crate) fn links(&self) -> &Links {
        &self.0.links
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.0.backend
    }

    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.0.in_flight
    }

    pub(crate) fn host_shared(&self) -> &Arc<HostShared> {
        &self.0.host
    }

    /// The host of that id, if it lives in this process.
    fn neighbour(&self, host: HostId) -> Option<Arc<HostShared>> {
        let fabric = self.0.host.fabric.as_ref()?;
        let mut members = self.0.members.borrow_mut();
        // One atomic load per message while nobody comes or goes.
        if members.0 != fabric.version() {
            *members = fabric.snapshot();
        }
        members.1.get(&host).cloned()
    }

    fn deliver_here(&self, to: &Arc<HostShared>, message: OutMessage) {
        let from = &self.0.host;
        let itself = Arc::ptr_eq(from, to);
        let event = NetEvent::Message(InMessage {
            from: from.host,
            incarnation: from.incarnation,
            body: message.body,
            payload: one_piece(message.payload),
        });
        // What a host sends itself is bounded by what it has in flight, and a break with itself has no meaning.
        if !to.deliver(event, !itself)
            && let Some(fabric) = &from.fabric
        {
            let (from_name, to_name) = (to.peer_name(from.host), from.peer_name(to.host));
            tracing::warn!(from = from_name, peer = to_name, "an inbox is full: the link counts as broken");
            fabric.broke(from, to);
        }
    }
}

/// The parts as one aligned piece: as it is where it is one already, else copied.
fn one_piece(mut parts: Vec<Bytes>) -> Bytes {
    match parts.as_slice() {
        [] => return Bytes::new(),
        [one] if (one.as_ptr() as usize).is_multiple_of(BUFFER_ALIGN) => {
            return parts.pop().expect("there is one");
        }
        _ => {}
    }
    let mut piece = PageBuf::dirty(parts.iter().map(Bytes::len).sum());
    let mut at = 0;
    for part in &parts {
        piece[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    piece.freeze()
}

/// The wall clock, in ms since 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn now() -> Time {
    let now = clock_gettime(ClockId::Boottime);
    Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

impl Env for LinuxEnv {
    type Disk = LinuxDisk;

    fn host(&self) -> HostId {
        self.0.host.host
    }

    fn incarnation(&self) -> Incarnation {
        self.0.host.incarnation
    }

    fn build(&self) -> Build {
        self.0.host.build.clone()
    }

    fn set_level(&self, level: Level) {
        self.0.host.set_level(level);
        self.links().borrow().values().for_each(|link| link.look_at_level());
    }

    fn now(&self) -> Time {
        now()
    }

    fn unix_ms(&self) -> u64 {
        unix_ms()
    }

    fn sleep_until(&self, at: Time) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                let left = at.since(now());
                if left == Duration::ZERO {
                    return;
                }
                // The reactor's clock stops while the machine is suspended, ours does not: a long sleep looks again.
                tokio::time::sleep(left.min(SLEEP_MAX)).await;
            }
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        // The destructor of a task may spawn, also while its host ends: then nothing of the host runs any more.
        if self.0.end.borrow().is_none() {
            tokio::task::spawn_local(guarded(task, self.0.end.clone()));
        }
    }

    fn give_way(&self) -> impl Future<Output = ()> + 'static {
        // A task that only wakes itself has its next turn before what it and others asked of devices is on the way.
        tokio::task::yield_now()
    }

    fn run_blocking<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> LocalBoxFuture<'static, T> {
        let guard = self.0.in_flight.enter();
        // The guard comes after the result and is dropped after it: a result may hold a device open.
        let running = tokio::task::spawn_blocking(move || (job(), guard));
        Box::pin(async move {
            match running.await {
                Ok((result, _guard)) => result,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime ends and never ran the job: nobody may go on as if it had.
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn turn_longest(&self) -> Duration {
        self.0.host.turn_longest()
    }

    fn random_u64(&self) -> u64 {
        let mut pool = self.0.random.borrow_mut();
        if pool.is_empty() {
            *pool = random_bytes(RANDOM_BYTES);
        }
        let rest = pool.len() - size_of::<u64>();
        let word = u64::from_le_bytes(pool[rest..].try_into().expect("eight bytes"));
        pool.truncate(rest);
        word
    }

    fn send(&self, to: HostId, message: OutMessage) {
        if to == self.0.host.host {
            self.deliver_here(&self.0.host, message);
        } else if let Some(neighbour) = self.neighbour(to) {
            self.deliver_here(&neighbour, message);
        } else if let Some(link) = self.0.links.borrow().get(&to) {
            link.send(message);
        }
    }

    fn receive<'a>(&'a self, events: &'a mut Vec<NetEvent>) -> LocalBoxFuture<'a, ()> {
        let inbox = &self.0.host.inbox;
        Box::pin(poll_fn(move |cx| inbox.poll_take(events, cx)))
    }
}

/// The longest sleep before the clock is read again.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// One random word, where there is no environment at hand.
pub(crate) fn random_word() -> u64 {
    let bytes = random_bytes(size_of::<u64>());
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random numbers: {error}"),
        }
    }
    bytes
}
