//! The link to one peer: dialled again and again, and what is queued for it.
//!
//! Promises    see `net`: order, one write per turn, a bounded queue, ups and downs in the host's inbox
//! Assumes     one task runs [`run`] per link; [`Link::send`] is called on the same thread

use std::{
    cell::RefCell,
    future::poll_fn,
    io::{self, ErrorKind},
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{NetEvent, OutMessage};
use cairn_types::{Build, HostId, Incarnation, Level};
use tokio::time::{self, Instant, Sleep};

use super::{
    frame::{Greeted, Greeting, HEADER_BYTES, Header, Kind, frame_version, small_frame},
    health::{PeerHealth, PeerState},
    queue::OutQueue,
    reader::FrameReader,
    socket::Socket,
};
use crate::{
    env::{random_word, unix_ms},
    host::HostShared,
};

/// Bytes queued for one peer, at most; beyond, the link counts as broken and the queue is dropped.
///
/// Above what engines bound by themselves, of which all may wait at once: 64 MiB of guests' data to the peer's copies and 64 MiB of
/// answers to its reads (`in_flight_bytes_max` of either host), 32 MiB of region copies to and from it, 32 MiB of requests forwarded to it
/// and 32 MiB of answers to those that it forwarded. That is 224 MiB; messages without data have the rest. Only a bug reaches it: the data is
/// shared with whoever sent it, so a queue costs no memory of its own.
pub(crate) const QUEUE_BYTES_MAX: usize = 256 << 20;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How long the peer may take to answer the greeting, or a ping.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The first pause between two attempts; it doubles up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// The longest pause: with the time to connect, a healed cut is noticed within about 1.5 s.
const PAUSE_LONGEST: Duration = Duration::from_millis(500);
/// A connection that held for so long was a good one: the next attempt comes at once.
const GOOD_AFTER: Duration = Duration::from_secs(1);
/// The read buffer of a link: only pongs arrive.
const PONG_BUFFER_BYTES: usize = 4096;

struct State {
    address: SocketAddr,
    queue: OutQueue,
    /// There is a connection that takes messages.
    up: bool,
    overflowed: bool,
    /// A connection from the peer broke, or ours is new: replies may be lost until a pong.
    replies_lost: bool,
    /// The peer has just connected to us: it is there.
    knocked: bool,
    readdressed: bool,
    /// The cluster's level may have risen.
    releveled: bool,
    removed: bool,
    waker: Option<Waker>,
}

impl State {
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

/// A link, shared between whoever sends and the task that dials and writes.
pub(crate) struct Link(RefCell<State>);

impl Link {
    pub fn new(address: SocketAddr) -> Rc<Self> {
        Rc::new(Self(RefCell::new(State {
            address,
            queue: OutQueue::default(),
            up: false,
            overflowed: false,
            replies_lost: false,
            knocked: false,
            readdressed: false,
            releveled: false,
            removed: false,
            waker: None,
        })))
    }

    /// Queues a message; dropped where the link is down, or goes down because the queue is full.
    pub fn send(&self, message: OutMessage) {
        let mut state = self.0.borrow_mut();
        if !state.up {
            return;
        }
        let payload: usize = message.payload.iter().map(Bytes::len).sum();
        let bytes = HEADER_BYTES + message.body.len() + payload;
        if state.queue.bytes() + bytes > QUEUE_BYTES_MAX {
            state.up = false;
            state.overflowed = true;
            state.wake();
            return;
        }
        // A queue that was not empty has woken its writer already.
        let wake = state.queue.is_empty();
        state.queue.push(message);
        if wake {
            state.wake();
        }
    }

    fn note(&self, note: impl FnOnce(&mut State)) {
        let mut state = self.0.borrow_mut();
        note(&mut state);
        state.wake();
    }

    pub fn readdress(&self, address: SocketAddr) {
        self.note(|state| {
            state.readdressed |= state.address != address;
            state.address = address;
        });
    }

    pub fn remove(&self) {
        self.note(|state| {
            state.removed = true;
            state.up = false;
        });
    }

    pub fn knock(&self) {
        self.note(|state| state.knocked = true);
    }

    /// The level of the cluster has changed: a peer that does not speak it is left.
    pub fn look_at_level(&self) {
        self.note(|state| state.releveled = true);
    }

    pub fn replies_lost(&self) {
        self.note(|state| state.replies_lost = true);
    }
}

/// Why there is no connection.
struct Failure {
    /// Nothing listens there.
    process_gone: bool,
    words: String,
}

impl Failure {
    fn new(words: impl Into<String>) -> Self {
        Self { process_gone: false, words: words.into() }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// The task of one link.
struct Dialer {
    host: Arc<HostShared>,
    peer: HostId,
    link: Rc<Link>,
    /// What the host was told last: nothing yet, up, down, or down and gone.
    told: Told,
}

/// The other end, as it greeted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Other {
    incarnation: Incarnation,
    build: Build,
    level: Level,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    Up,
    Down,
    Gone,
}

/// Dials, greets, writes; ends when the link is removed.
pub(crate) async fn run(host: Arc<HostShared>, peer: HostId, link: Rc<Link>) {
    let mut dialer = Dialer { host, peer, link, told: Told::Nothing };
    dialer.report(PeerState::Connecting, None, None);
    let mut pause = Duration::ZERO;
    while dialer.wait(pause).await {
        match dialer.dial().await {
            Err(failure) => {
                dialer.fail(failure);
                pause = next_pause(pause);
            }
            Ok((socket, other)) => {
                let since = Instant::now();
                dialer.up(other.incarnation);
                let words = dialer.pump(&socket, &other).await;
                dialer.down(words);
                pause = if since.elapsed() >= GOOD_AFTER { Duration::ZERO } else { next_pause(pause) };
            }
        }
    }
    dialer.down("removed".into());
    dialer.host.health.forget(peer);
}

fn next_pause(pause: Duration) -> Duration {
    (pause * 2).clamp(PAUSE_FIRST, PAUSE_LONGEST)
}

impl Dialer {
    fn tell_up(&mut self, other: &Other) {
        let Other { incarnation, build, level } = other.clone();
        self.told = Told::Up;
        self.host.inbox.push_always(NetEvent::PeerUp { host: self.peer, incarnation, build, level });
    }

    fn tell_down(&mut self, process_gone: bool) {
        self.told = if process_gone { Told::Gone } else { Told::Down };
        self.host.inbox.push_always(NetEvent::PeerDown { host: self.peer, process_gone });
    }

    fn report(&self, state: PeerState, incarnation: Option<Incarnation>, problem: Option<String>) {
        self.host.health.set(PeerHealth {
            host: self.peer,
            address: self.link.0.borrow().address,
            state,
            incarnation,
            since_unix_ms: unix_ms(),
            problem,
        });
    }

    fn up(&mut self, incarnation: Incarnation) {
        tracing::info!(peer = %self.host.peer_name(self.peer), incarnation = incarnation.0, "connected");
        {
            let mut state = self.link.0.borrow_mut();
            state.queue.clear();
            state.up = true;
            state.overflowed = false;
            // The peer's own link to us may not stand yet, and what it cannot answer over, it drops: the host hears of the
            // peer with the first pong.
            state.replies_lost = true;
        }
        self.report(PeerState::Up, Some(incarnation), None);
    }

    fn down(&mut self, words: String) {
        {
            let mut state = self.link.0.borrow_mut();
            state.queue.clear();
            state.up = false;
        }
        if self.told == Told::Up {
            tracing::info!(peer = %self.host.peer_name(self.peer), reason = %words, "connection lost");
            self.tell_down(false);
        }
        self.report(PeerState::Down, None, Some(words));
    }

    fn fail(&mut self, failure: Failure) {
        if failure.process_gone && self.told != Told::Gone {
            self.tell_down(true);
        }
        let known = self.host.health.peers();
        let repeated = known.iter().any(|p| p.host == self.peer && p.problem.as_ref() == Some(&failure.words));
        // Once per reason: a peer that is away for a day is not news twice a second.
        if !repeated {
            tracing::warn!(peer = %self.host.peer_name(self.peer), reason = %failure.words, "cannot connect");
            let state = if self.told == Told::Nothing { PeerState::Connecting } else { PeerState::Down };
            self.report(state, None, Some(failure.words));
        }
    }

    /// Pauses, unless there is news of the peer; false where the link was removed.
    async fn wait(&mut self, pause: Duration) -> bool {
        // Spread by a quarter: hosts that lost a peer together should not dial it together.
        let jitter = pause.mul_f64((random_word() % 256) as f64 / 1024.0);
        let mut sleep = Box::pin(time::sleep(pause + jitter));
        poll_fn(|cx| {
            let mut state = self.link.0.borrow_mut();
            state.waker = Some(cx.waker().clone());
            if state.removed {
                return Poll::Ready(false);
            }
            let news = std::mem::take(&mut state.knocked) | std::mem::take(&mut state.readdressed);
            if pause.is_zero() || news {
                return Poll::Ready(true);
            }
            sleep.as_mut().poll(cx).map(|()| true)
        })
        .await
    }

    async fn dial(&self) -> Result<(Socket, Other), Failure> {
        let address = self.link.0.borrow().address;
        let connecting = tokio::net::TcpStream::connect(address);
        let stream = match time::timeout(CONNECT_MAX, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(Failure {
                    process_gone: error.kind() == ErrorKind::ConnectionRefused,
                    words: format!("cannot connect to {address}: {error}"),
                });
            }
            Err(_) => return Err(Failure::new(format!("{address} does not answer"))),
        };
        let socket = Socket::adopt(stream.into_std()?)?;
        match time::timeout(ANSWER_MAX, self.greet(&socket)).await {
            Ok(greeted) => greeted.map(|other| (socket, other)),
            Err(_) => Err(Failure::new(format!(
                "{address} accepts connections but does not greet: its process is stopped or overloaded"
            ))),
        }
    }

    async fn greet(&self, socket: &Socket) -> Result<Other, Failure> {
        let hello = self.host.greeting(self.peer);
        socket.write_all(&hello.frame(Kind::Hello)).await?;
        let (header, body) = read_small(socket).await?;
        match header.kind {
            Kind::Welcome => {}
            Kind::Refuse => {
                return Err(Failure::new(format!("the peer refuses us: {}", String::from_utf8_lossy(&body))));
            }
            _ => return Err(Failure::new("the answer to the greeting is out of place")),
        }
        let welcome = match Greeting::decode(&header, &body) {
            Ok(Greeted::By(welcome)) => welcome,
            Ok(Greeted::Version(version)) => {
                return Err(Failure::new(format!(
                    "the peer speaks version {version} of the frames, we speak {}",
                    frame_version()
                )));
            }
            Err(error) => return Err(Failure::new(error.to_string())),
        };
        self.host.check_identity(&welcome, Some(self.peer)).map_err(Failure::new)?;
        let Greeting { incarnation, build, level, .. } = welcome;
        Ok(Other { incarnation, build, level })
    }

    /// Writes what is queued and answers to what happens, until the connection breaks; says why it did.
    async fn pump(&mut self, socket: &Socket, other: &Other) -> String {
        let mut pump = Pump { reader: FrameReader::with_buffer(PONG_BUFFER_BYTES), pings: 0, deadline: None };
        poll_fn(|cx| match pump.poll(self, socket, other, cx) {
            Ok(()) => Poll::Pending,
            Err(words) => Poll::Ready(words),
        })
        .await
    }
}

/// One frame of the handshake.
pub(crate) async fn read_small(socket: &Socket) -> io::Result<(Header, Vec<u8>)> {
    let mut bytes = [0; HEADER_BYTES];
    socket.read_exact(&mut bytes).await?;
    let header = Header::decode(&bytes).map_err(io::Error::other)?;
    if !matches!(header.kind, Kind::Hello | Kind::Welcome | Kind::Refuse) {
        return Err(io::Error::other("a frame before the greeting"));
    }
    let mut body = vec![0; header.body_bytes];
    socket.read_exact(&mut body).await?;
    header.check_body(&body).map_err(io::Error::other)?;
    Ok((header, body))
}

/// The state of one connection.
struct Pump {
    reader: FrameReader,
    /// Pings without a pong.
    pings: u32,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Pump {
    fn poll(
        &mut self,
        dialer: &mut Dialer,
        socket: &Socket,
        other: &Other,
        cx: &mut Context<'_>,
    ) -> Result<(), String> {
        self.obey(dialer, other, cx)?;
        while let Poll::Ready(read) = self.reader.poll_fill(cx, socket) {
            match read {
                Ok(0) => return Err("closed by the peer".into()),
                Ok(_) => self.take_pongs(dialer, other)?,
                Err(error) => return Err(error.to_string()),
            }
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Err("a ping was not answered".into());
        }
        let mut state = dialer.link.0.borrow_mut();
        while !state.queue.is_empty() {
            match socket.poll_write(cx, &state.queue.slices()) {
                Poll::Pending => break,
                Poll::Ready(Ok(count)) => state.queue.sent(count),
                Poll::Ready(Err(error)) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Carries out what was noted on the link.
    fn obey(&mut self, dialer: &mut Dialer, other: &Other, cx: &mut Context<'_>) -> Result<(), String> {
        let mut state = dialer.link.0.borrow_mut();
        if !state.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        if state.removed {
            return Err("removed".into());
        }
        if std::mem::take(&mut state.readdressed) {
            return Err("the peer has another address".into());
        }
        if std::mem::take(&mut state.overflowed) {
            return Err(format!("more than {QUEUE_BYTES_MAX} bytes waited for the peer"));
        }
        if std::mem::take(&mut state.releveled) {
            dialer.host.check_level(dialer.peer, &other.build, other.level)?;
        }
        state.knocked = false;
        if !std::mem::take(&mut state.replies_lost) {
            return Ok(());
        }
        // What was asked over this connection may have been answered over the one that broke. Our own may be sound: a
        // ping tells, and closing it instead would make the peer see a break of its own, and so on without end.
        // Meanwhile what the peer asks is answered: it counts on that from our pong on.
        state.queue.push_frame(&small_frame(Kind::Ping, &[]));
        drop(state);
        self.pings += 1;
        self.deadline = Some(Box::pin(time::sleep(ANSWER_MAX)));
        if dialer.told == Told::Up {
            dialer.tell_down(false);
        }
        Ok(())
    }

    fn take_pongs(&mut self, dialer: &mut Dialer, other: &Other) -> Result<(), String> {
        while let Some(frame) = self.reader.next().map_err(|e| e.to_string())? {
            if frame.header.kind != Kind::Pong || self.pings == 0 {
                return Err("the peer sent what has no place here".into());
            }
            self.pings -= 1;
            if self.pings == 0 {
                self.deadline = None;
                dialer.tell_up(other);
            }
        }
        Ok(())
    }
}
