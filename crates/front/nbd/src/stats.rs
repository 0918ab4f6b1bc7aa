//! What each connection did, for the administrator.

use std::cell::{Cell, RefCell};

/// Requests and bytes of one connection since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests answered, of any kind.
    pub requests: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Bytes read by the client.
    pub read_bytes: u64,
    /// Bytes written by the client.
    pub written_bytes: u64,
}

/// One connection, as [`crate::Server::sessions`] shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStats {
    /// Number of the connection within its server, from 1.
    pub number: u64,
    /// The client's address; "unix" for a unix socket.
    pub peer: String,
    /// The disk; none while negotiating.
    pub export: Option<String>,
    /// What it did so far.
    pub counters: Counters,
}

/// The live side of [`SessionStats`].
#[derive(Debug)]
pub(crate) struct SessionRecord {
    pub(crate) number: u64,
    pub(crate) peer: String,
    pub(crate) export: RefCell<Option<String>>,
    pub(crate) counters: Cell<Counters>,
}

impl SessionRecord {
    pub(crate) fn new(number: u64, peer: String) -> Self {
        Self { number, peer, export: RefCell::default(), counters: Cell::default() }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    pub(crate) fn snapshot(&self) -> SessionStats {
        SessionStats {
            number: self.number,
            peer: self.peer.clone(),
            export: self.export.borrow().clone(),
            counters: self.counters.get(),
        }
    }
}
