//! The sockets of one host: its links, and the connections that peers have made to it.
//!
//! Promises    a connection is read only while the inbox has room, so that the peer's window closes

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::poll_fn,
    net::{SocketAddr, TcpStream},
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use cairn_env::{Env, InMessage, NetEvent};
use cairn_types::{HostId, Incarnation};
use futures::task::AtomicWaker;

use super::{
    frame::{Kind, small_frame},
    link::{self, Link},
    reader::{Frame, FrameReader},
    socket::Socket,
};
use crate::{LinuxEnv, host::HostShared};

/// How often a reader that owes a pong looks whether our link to the peer stands.
const PONG_LOOK: Duration = Duration::from_millis(5);

/// Reads of one connection before other tasks have their turn: 1 MiB.
const READS_PER_TURN: u32 = 4;

/// What other threads, and the host itself, ask of its sockets.
pub(crate) enum Command {
    /// Dial this peer there; again from now on, where the address is new.
    SetPeer(HostId, SocketAddr),
    /// Dial this peer no more.
    RemovePeer(HostId),
    /// A connection from this peer broke.
    RepliesLost(HostId),
    /// This peer has connected to us.
    Knock(HostId),
    /// Read this connection.
    Adopt(Inbound),
}

/// A connection from a peer after the handshake.
pub(crate) struct Inbound {
    pub stream: TcpStream,
    pub peer: HostId,
    pub incarnation: Incarnation,
    pub stop: Arc<Stop>,
}

/// Ends a connection from another thread.
#[derive(Default)]
pub(crate) struct Stop {
    stopped: AtomicBool,
    waker: AtomicWaker,
}

impl Stop {
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.waker.wake();
    }
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

/// Where commands wait.
#[derive(Default)]
pub(crate) struct NetPort {
    commands: Mutex<Vec<Command>>,
    waker: AtomicWaker,
}

impl NetPort {
    pub fn send(&self, command: Command) {
        self.commands.lock().expect("nothing panics here").push(command);
        self.waker.wake();
    }

    async fn take(&self) -> Vec<Command> {
        poll_fn(|cx| {
            self.waker.register(cx.waker());
            let commands = std::mem::take(&mut *self.commands.lock().expect("nothing panics here"));
            if commands.is_empty() { Poll::Pending } else { Poll::Ready(commands) }
        })
        .await
    }
}

pub(crate) type Links = RefCell<BTreeMap<HostId, Rc<Link>>>;

/// The task that owns a host's sockets; runs for as long as the host.
pub(crate) async fn run(env: LinuxEnv) {
    let host = env.host_shared().clone();
    let port = &host.net;
    loop {
        for command in port.take().await {
            match command {
                Command::SetPeer(peer, address) => set_peer(&env, peer, address),
                Command::RemovePeer(peer) => {
                    if let Some(link) = env.links().borrow_mut().remove(&peer) {
                        link.remove();
                    }
                }
                Command::RepliesLost(peer) => {
                    if let Some(link) = env.links().borrow().get(&peer) {
                        link.replies_lost();
                    }
                }
                Command::Knock(peer) => {
                    if let Some(link) = env.links().borrow().get(&peer) {
                        link.knock();
                    }
                }
                Command::Adopt(inbound) => env.spawn(serve(host.clone(), inbound)),
            }
        }
    }
}

fn set_peer(env: &LinuxEnv, peer: HostId, address: SocketAddr) {
    if peer == env.host() {
        return;
    }
    let mut links = env.links().borrow_mut();
    if let Some(link) = links.get(&peer) {
        link.readdress(address);
        return;
    }
    let link = Link::new(address);
    links.insert(peer, link.clone());
    drop(links);
    let host = env.host_shared().clone();
    env.spawn(link::run(host, peer, link));
}

/// Reads one connection to its end, and tells that replies of this peer may be lost.
async fn serve(host: Arc<HostShared>, inbound: Inbound) {
    let peer = inbound.peer;
    let stop = inbound.stop.clone();
    let reason = read(&host, inbound).await;
    // A connection that a newer one has replaced was accounted for when that happened.
    if !stop.is_stopped() {
        tracing::info!(peer = %host.peer_name(peer), %reason, "a connection from a peer ended");
        host.inbound_ended(peer, &stop);
    }
}

async fn read(host: &HostShared, inbound: Inbound) -> String {
    let socket = match Socket::adopt(inbound.stream) {
        Ok(socket) => socket,
        Err(error) => return error.to_string(),
    };
    let mut reader = FrameReader::new();
    let mut batch: Vec<NetEvent> = Vec::new();
    let (mut reads, mut pongs) = (0, 0u64);
    loop {
        // A pong says that we can answer: it waits for our own link to that process.
        while pongs > 0 && host.health.is_up(inbound.peer, inbound.incarnation) {
            if let Err(error) = socket.write_all(&small_frame(Kind::Pong, &[])).await {
                return error.to_string();
            }
            pongs -= 1;
        }
        let mut look = (pongs > 0).then(|| Box::pin(tokio::time::sleep(PONG_LOOK)));
        let filled = poll_fn(|cx| {
            inbound.stop.waker.register(cx.waker());
            if inbound.stop.is_stopped() {
                return Poll::Ready(Some(Ok(0)));
            }
            match (reader.poll_fill(cx, &socket), &mut look) {
                (Poll::Ready(filled), _) => Poll::Ready(Some(filled)),
                (Poll::Pending, Some(look)) => look.as_mut().poll(cx).map(|()| None),
                (Poll::Pending, None) => Poll::Pending,
            }
        });
        match filled.await {
            None => continue,
            Some(Ok(0)) => return "closed by the peer".into(),
            Some(Ok(_)) => {}
            Some(Err(error)) => return error.to_string(),
        }
        loop {
            match reader.next() {
                Ok(None) => break,
                Ok(Some(frame)) if frame.header.kind == Kind::Message => {
                    batch.push(event(&inbound.peer, inbound.incarnation, frame));
                }
                Ok(Some(frame)) if frame.header.kind == Kind::Ping => pongs += 1,
                Ok(Some(_)) => return "a frame of this kind has no place here".into(),
                Err(error) => return error.to_string(),
            }
        }
        if !batch.is_empty() && !host.inbox.push_batch(&mut batch) {
            poll_fn(|cx| host.inbox.poll_room(cx)).await;
        }
        reads += 1;
        if reads % READS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn event(peer: &HostId, incarnation: Incarnation, frame: Frame) -> NetEvent {
    NetEvent::Message(InMessage { from: *peer, incarnation, body: frame.body, payload: frame.payload })
}
