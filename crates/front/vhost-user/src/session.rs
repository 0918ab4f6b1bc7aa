//! One front end at its disk: requests of all its rings in one task.
//!
//! Promises    S1  what has ended since the last turn is answered in one go, and its machine woken once a ring
//!             S2  past its bytes in flight nothing more is taken, and of what is taken at once there is a bound: a front end that floods
//!                 stalls only itself
//!             S3  a request that was taken is carried out and answered, also when the front end is gone or the server stops, unless
//!                 the disk abandons it: then the front end is left, and hands the request to whoever serves it next
//! Assumes     the disk's futures wake the task that polls them
//! Not here    what front ends say beside their rings (`control`)

use std::{
    cell::Cell,
    fs::File,
    future::{Future, poll_fn},
    os::fd::OwnedFd,
    pin::Pin,
    rc::Rc,
    sync::{Arc, mpsc},
    task::{Context, Poll},
};

use bytes::Bytes;
use cairn_volume::{SessionCounters, Volume, VolumeError};
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{sync::mpsc::UnboundedReceiver, task::yield_now};
use vm_memory::{Bytes as _, GuestMemoryMmap};

use crate::{
    device::Told,
    inflight::Inflight,
    memory::{Memory, scatter},
    request::{Ask, NAME_BYTES, Request, Status},
    vring::{Layout, Vring},
};

/// What the control connection wants of the rings, in its order.
pub(crate) enum Order {
    /// The machine's memory is this from now on.
    Memory(Arc<Memory>),
    Start {
        index: usize,
        layout: Layout,
        kick: OwnedFd,
        inflight: Option<Inflight>,
    },
    Kick {
        index: usize,
        kick: OwnedFd,
    },
    Call {
        index: usize,
        call: Option<File>,
    },
    Enable {
        index: usize,
        enable: bool,
    },
    /// Nothing more is taken; the next request to take is told when all that were taken are answered.
    Stop {
        index: usize,
        told: mpsc::SyncSender<u16>,
    },
}

/// Bytes that one poll takes, before other tasks of the shard and the reactor come first: a third of a millisecond of copying.
const POLL_BYTES_MAX: usize = 2 << 20;
/// What a request counts for at least.
const POLL_BYTES_OF_ONE: usize = 4096;

struct Done {
    ring: usize,
    head: u16,
    cost_bytes: usize,
    request: Request,
    result: Result<Answer, VolumeError>,
}

enum Answer {
    Nothing,
    Data(Vec<Bytes>),
}

type Running = Pin<Box<dyn Future<Output = Done>>>;

/// How a session ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The front end left, and all that it had asked is answered.
    Left,
    /// The disk carried a request out no more.
    Abandoned(String),
}

/// A front end and its rings.
pub(crate) struct Session<V> {
    volume: V,
    told: Told,
    orders: UnboundedReceiver<Order>,
    /// The front end is there, and the server goes on.
    open: bool,
    memory: Option<Arc<Memory>>,
    /// Those that were started, each with its number: most devices have few, and each is looked at in each turn.
    rings: Vec<(usize, Vring)>,
    stops: Vec<(usize, mpsc::SyncSender<u16>)>,
    running: FuturesUnordered<Running>,
    bytes_in_flight: usize,
    bytes_in_flight_max: usize,
    /// What this poll may still take.
    poll_bytes: usize,
    /// The ring that comes first: the one at which the last poll had to end.
    first: usize,
    abandoned: Option<String>,
    counters: SharedCounters,
}

/// What a session did, as its server shows it.
pub(crate) type SharedCounters = Rc<Cell<SessionCounters>>;

impl<V: Volume> Session<V> {
    pub(crate) fn new(
        volume: V,
        orders: UnboundedReceiver<Order>,
        bytes_in_flight_max: usize,
        counters: SharedCounters,
    ) -> Self {
        Self {
            told: Told::of(&volume.info()),
            volume,
            orders,
            open: true,
            memory: None,
            rings: Vec::new(),
            stops: Vec::new(),
            running: FuturesUnordered::new(),
            bytes_in_flight: 0,
            bytes_in_flight_max,
            poll_bytes: 0,
            first: 0,
            abandoned: None,
            counters,
        }
    }

    /// Takes nothing more: the session ends when what it took is answered.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    fn obey(&mut self, cx: &mut Context<'_>) {
        while self.open {
            match self.orders.poll_recv(cx) {
                Poll::Ready(Some(order)) => self.carry_out(order),
                Poll::Ready(None) => self.open = false,
                Poll::Pending => return,
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Memory(memory) => self.memory = Some(memory),
            Order::Start { index, layout, kick, inflight } => {
                let memory = self.memory.as_ref().ok_or("no memory was shared".to_owned());
                match memory.and_then(|memory| Vring::start(layout, kick, inflight, memory)) {
                    Ok(ring) => {
                        assert!(self.ring(index).is_none(), "a ring is stopped before it is started again");
                        self.rings.push((index, ring));
                    }
                    Err(why) => {
                        tracing::warn!(disk = self.volume.info().name, ring = index, "a ring was not started: {why}");
                    }
                }
            }
            Order::Kick { index, kick } => {
                if let Some(ring) = self.ring(index)
                    && let Err(why) = ring.replace_kick(kick)
                {
                    tracing::warn!(disk = self.volume.info().name, ring = index, "{why}");
                }
            }
            Order::Call { index, call } => {
                if let Some(ring) = self.ring(index) {
                    ring.replace_call(call);
                }
            }
            Order::Enable { index, enable } => {
                if let Some(ring) = self.ring(index) {
                    ring.enabled = enable;
                }
            }
            Order::Stop { index, told } => {
                if let Some(ring) = self.ring(index) {
                    ring.enabled = false;
                }
                self.stops.push((index, told));
            }
        }
    }

    fn ring(&mut self, index: usize) -> Option<&mut Vring> {
        self.rings.iter_mut().find(|(number, _)| *number == index).map(|(_, ring)| ring)
    }

    /// Tells rings that were to stop where they stand, once nothing of them runs; they are gone then.
    fn tell_stopped(&mut self) {
        let rings = &mut self.rings;
        self.stops.retain(|(index, told)| {
            let Some(place) = rings.iter().position(|(number, _)| number == index) else { return false };
            if rings[place].1.running > 0 {
                return true;
            }
            let (_, ring) = rings.remove(place);
            let _ = told.send(ring.next_available());
            false
        });
    }

    /// Takes what there is room for; whether anything was taken.
    fn take(&mut self, place: usize, memory: &GuestMemoryMmap, cx: &mut Context<'_>) -> bool {
        let (index, ring) = &mut self.rings[place];
        ring.poll_kick(cx);
        let mut taken = false;
        loop {
            while self.poll_bytes > 0
                && self.bytes_in_flight < self.bytes_in_flight_max
                && let Some((head, chain)) = ring.next(memory)
            {
                taken = true;
                let request = chain.and_then(|chain| Request::take(memory, chain, self.told));
                let cost_bytes = request.as_ref().map_or(0, Request::cost_bytes);
                self.poll_bytes = self.poll_bytes.saturating_sub(cost_bytes.max(POLL_BYTES_OF_ONE));
                let request = match request {
                    Ok(request) => request,
                    Err(why) => {
                        ring.give_back(memory, head, why);
                        continue;
                    }
                };
                self.bytes_in_flight += cost_bytes;
                ring.running += 1;
                let volume = self.volume.clone();
                self.running.push(Box::pin(execute(volume, *index, head, cost_bytes, request)));
            }
            if self.poll_bytes == 0 {
                self.first = place;
                return taken;
            }
            if self.bytes_in_flight >= self.bytes_in_flight_max || !ring.wants_look(memory) {
                return taken;
            }
        }
    }

    fn answer(&mut self, done: Done, memory: &GuestMemoryMmap) {
        let Done { ring, head, cost_bytes, request, result } = done;
        self.bytes_in_flight -= cost_bytes;
        let own = self.rings.iter_mut().find(|(number, _)| *number == ring);
        let (_, ring) = own.expect("a ring stays while a request of it runs");
        ring.running -= 1;
        if let Err(VolumeError::Abandoned(why)) = &result {
            self.abandoned.get_or_insert_with(|| why.clone());
            return;
        }
        let (status, written) = ended(result, &request, memory);
        let mut counters = self.counters.get();
        counters.requests += 1;
        match (status, &request.ask) {
            (Status::Done, Ok(Ask::Read { len_bytes, .. })) => counters.read_bytes += u64::from(*len_bytes),
            (Status::Done, Ok(Ask::Write { .. })) => counters.write_bytes += cost_bytes as u64,
            (Status::Done, _) => {}
            _ => counters.failed_requests += 1,
        }
        self.counters.set(counters);
        // Memory that is gone meanwhile takes no status: there is nobody to read it.
        let _ = memory.write_obj(status as u8, request.status);
        ring.answer(memory, head, written + 1);
    }

    /// Serves the front end until it has left.
    pub(crate) async fn finish(&mut self) -> End {
        loop {
            match poll_fn(|cx| self.poll(cx)).await {
                Some(end) => return end,
                // Past the reactor: a task that only wakes itself is polled again before other tasks' kicks and timers are looked at.
                None => yield_now().await,
            }
        }
    }

    /// Works until nothing is left to do now. Ready with none where there may be more, and others come first.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<End>> {
        self.poll_bytes = POLL_BYTES_MAX;
        loop {
            let worked = self.turn(cx);
            if let Some(why) = self.abandoned.take() {
                return Poll::Ready(Some(End::Abandoned(why)));
            }
            if !self.open && self.running.is_empty() {
                return Poll::Ready(Some(End::Left));
            }
            if self.poll_bytes == 0 {
                return Poll::Ready(None);
            }
            if !worked {
                return Poll::Pending;
            }
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        self.obey(cx);
        let Some(memory) = self.memory.clone() else {
            self.tell_stopped();
            return false;
        };
        let mut worked = false;
        if self.open {
            let (first, count) = (self.first, self.rings.len());
            for number in 0..count {
                worked |= self.take((first + number) % count, &memory.map, cx);
            }
        }
        while let Poll::Ready(Some(done)) = self.running.poll_next_unpin(cx) {
            self.answer(done, &memory.map);
            worked = true;
        }
        for (_, ring) in &mut self.rings {
            ring.signal(&memory.map);
        }
        self.tell_stopped();
        worked
    }
}

/// What the machine is told of a result: the status, and how many bytes it got.
fn ended(result: Result<Answer, VolumeError>, request: &Request, memory: &GuestMemoryMmap) -> (Status, u32) {
    match (result, &request.ask) {
        (_, Err(status)) => (*status, 0),
        (Err(error), _) => {
            tracing::debug!(%error, "a request of a vhost-user front end failed");
            (Status::IoError, 0)
        }
        (Ok(Answer::Nothing), _) => (Status::Done, 0),
        (Ok(Answer::Data(pieces)), _) => match scatter(memory, &request.into, &pieces) {
            Ok(written) => (Status::Done, written),
            Err(_) => (Status::IoError, 0),
        },
    }
}

async fn execute<V: Volume>(volume: V, ring: usize, head: u16, cost_bytes: usize, mut request: Request) -> Done {
    let nothing = |result: Result<(), _>| result.map(|()| Answer::Nothing);
    let result = match &mut request.ask {
        Err(_) => Ok(Answer::Nothing),
        Ok(Ask::Read { offset, len_bytes }) => volume.read(*offset, *len_bytes).await.map(Answer::Data),
        Ok(Ask::Write { offset, data }) => nothing(volume.write(*offset, std::mem::take(data)).await),
        Ok(Ask::WriteZeroes { offset, len_bytes, keep_allocated }) => {
            nothing(volume.write_zeroes(*offset, *len_bytes, *keep_allocated).await)
        }
        Ok(Ask::Trim { offset, len_bytes }) => nothing(volume.trim(*offset, *len_bytes).await),
        Ok(Ask::Flush) => nothing(volume.flush().await),
        Ok(Ask::Name) => {
            let mut name = volume.info().name.into_bytes();
            name.resize(NAME_BYTES as usize, 0);
            Ok(Answer::Data(vec![name.into()]))
        }
    };
    Done { ring, head, cost_bytes, request, result }
}

/// The guest of a session, as the disk asks after it.
pub(crate) struct Peer {
    /// A second descriptor of its control connection.
    pub(crate) connection: OwnedFd,
}

impl cairn_volume::Guest for Peer {
    fn has_left(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::new(&self.connection, PollFlags::RDHUP)];
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|n| n > 0) && polled[0].revents().intersects(gone)
    }

    fn leaves_visibly(&self) -> bool {
        true
    }
}

impl Peer {
    /// The process that connected, for people.
    pub(crate) fn who(&self) -> String {
        let process = rustix::net::sockopt::socket_peercred(&self.connection).map(|peer| peer.pid.as_raw_nonzero());
        process.map_or_else(|_| "unix".to_owned(), |pid| format!("process {pid}"))
    }
}

/// The guest, shared with the disk.
pub(crate) type SharedPeer = Rc<Peer>;
