//! How the connections of a host stand, for people.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Mutex, MutexGuard},
};

use cairn_types::{HostId, Incarnation};

/// Refused connections that are remembered.
const REFUSED_MAX: usize = 16;

/// How a link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// Never connected yet.
    Connecting,
    /// Connected.
    Up,
    /// Lost; it is dialled again and again.
    Down,
}

/// The link to one peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerHealth {
    /// The peer.
    pub host: HostId,
    /// Where it is dialled.
    pub address: SocketAddr,
    /// How it stands.
    pub state: PeerState,
    /// The peer's process, once it was connected.
    pub incarnation: Option<Incarnation>,
    /// When `state` began, in ms since 1970.
    pub since_unix_ms: u64,
    /// Why it is not up, in words: refused by the peer (wrong cluster, ...), no answer, ...
    pub problem: Option<String>,
}

/// A connection from outside that was turned away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedConnection {
    /// From where.
    pub from: SocketAddr,
    /// When last, in ms since 1970.
    pub at_unix_ms: u64,
    /// Why, in words.
    pub reason: String,
    /// How often in a row from that address for that reason.
    pub count: u64,
}

#[derive(Default)]
struct State {
    peers: BTreeMap<HostId, PeerHealth>,
    refused: VecDeque<RefusedConnection>,
}

#[derive(Default)]
pub(crate) struct Health(Mutex<State>);

impl Health {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics under this lock")
    }

    pub fn peers(&self) -> Vec<PeerHealth> {
        self.lock().peers.values().cloned().collect()
    }

    pub fn refused(&self) -> Vec<RefusedConnection> {
        self.lock().refused.iter().cloned().collect()
    }

    pub fn set(&self, peer: PeerHealth) {
        self.lock().peers.insert(peer.host, peer);
    }

    /// Whether there is a link to this process of the peer.
    pub fn is_up(&self, host: HostId, incarnation: Incarnation) -> bool {
        let state = self.lock();
        state.peers.get(&host).is_some_and(|p| p.state == PeerState::Up && p.incarnation == Some(incarnation))
    }

    pub fn forget(&self, host: HostId) {
        self.lock().peers.remove(&host);
    }

    /// Notes a refused connection; true where it is not a mere repetition, and so is worth a log line.
    pub fn refuse(&self, from: SocketAddr, reason: String, at_unix_ms: u64) -> bool {
        let mut state = self.lock();
        let known = state.refused.iter_mut().find(|r| r.from.ip() == from.ip() && r.reason == reason);
        if let Some(known) = known {
            known.count += 1;
            known.at_unix_ms = at_unix_ms;
            known.from = from;
            return false;
        }
        if state.refused.len() == REFUSED_MAX {
            state.refused.pop_front();
        }
        state.refused.push_back(RefusedConnection { from, at_unix_ms, reason, count: 1 });
        true
    }
}
