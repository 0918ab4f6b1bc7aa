//! What each connection did, for the administrator.

use std::{
    cell::{Cell, RefCell},
    time::{SystemTime, UNIX_EPOCH},
};

use cairn_volume::{ObjectId, SessionCounters};

/// One connection, as [`crate::Server::sessions`] shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStats {
    /// Number of the connection within its server, from 1.
    pub number: u64,
    /// The client's address; "unix" for a unix socket.
    pub peer: String,
    /// The disk's id and name; none while negotiating.
    pub export: Option<(ObjectId, String)>,
    /// When it came, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// What it did so far.
    pub counters: SessionCounters,
}

/// The live side of [`SessionStats`].
#[derive(Debug)]
pub(crate) struct SessionRecord {
    pub(crate) number: u64,
    pub(crate) peer: String,
    pub(crate) export: RefCell<Option<(ObjectId, String)>>,
    since_unix_ms: u64,
    pub(crate) counters: Cell<SessionCounters>,
}

impl SessionRecord {
    pub(crate) fn new(number: u64, peer: String) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since_unix_ms = since.as_millis() as u64;
        Self { number, peer, export: RefCell::default(), since_unix_ms, counters: Cell::default() }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut SessionCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    pub(crate) fn snapshot(&self) -> SessionStats {
        SessionStats {
            number: self.number,
            peer: self.peer.clone(),
            export: self.export.borrow().clone(),
            since_unix_ms: self.since_unix_ms,
            counters: self.counters.get(),
        }
    }
}
