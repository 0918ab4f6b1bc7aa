//! What a host asks of its front ends, whatever protocol they speak.

use std::{future::Future, pin::Pin};

use cairn_types::ObjectId;

/// A guest's session: a client that has a disk open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Which disk. Two may have had its name, one after the other.
    pub disk_id: ObjectId,
    /// The disk's name.
    pub disk: String,
    /// The protocol, in a word: "nbd", "vhost-user".
    pub front_end: &'static str,
    /// The client, as far as the front end knows it: an address, "unix" for a socket of this machine, "process 4711".
    pub peer: String,
    /// When it came, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// What it did since.
    pub counters: SessionCounters,
}

/// Requests and bytes of one session since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Requests answered, of any kind.
    pub requests: u64,
    /// Requests answered with an error.
    pub failed_requests: u64,
    /// Bytes read by the client.
    pub read_bytes: u64,
    /// Bytes written by the client.
    pub write_bytes: u64,
}

/// A door for guests that is open.
pub trait FrontEnd {
    /// The sessions that have a disk open now.
    fn sessions(&self) -> Vec<Session>;
    /// Takes no more requests; ends when what was under way has ended, or was given up.
    fn stop(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>>;
}
