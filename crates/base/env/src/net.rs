//! Messages between hosts: opaque bodies with a payload apart, so that block data is never copied into a body.

use bytes::Bytes;
use cairn_types::{Build, HostId, Incarnation, Level};

/// A message to be sent.
#[derive(Debug, Clone)]
pub struct OutMessage {
    /// The encoded message (`wire`).
    pub body: Bytes,
    /// Block data that belongs to it, in order; each part a multiple of 512 bytes, or empty.
    pub payload: Vec<Bytes>,
}

/// A message that arrived. Headers and body were checked; block data is checked by whoever uses it.
#[derive(Debug, Clone)]
pub struct InMessage {
    /// The sender.
    pub from: HostId,
    /// The sender's process.
    pub incarnation: Incarnation,
    /// The encoded message.
    pub body: Bytes,
    /// The block data, in one 4 KiB aligned piece.
    pub payload: Bytes,
}

/// What the network tells a host.
#[derive(Debug, Clone)]
pub enum NetEvent {
    /// A message.
    Message(InMessage),
    /// A peer's process is connected. Sent again with a new incarnation when the process was replaced.
    PeerUp {
        /// The peer.
        host: HostId,
        /// Its process.
        incarnation: Incarnation,
        /// The program that it runs.
        build: Build,
        /// The level that it takes the cluster for.
        level: Level,
    },
    /// The connection to a peer ended: messages on their way may be lost. Says nothing of whether it lives.
    PeerDown {
        /// The peer.
        host: HostId,
        /// True when the peer's kernel refused or reset: its process is gone, as far as one can tell.
        process_gone: bool,
    },
}
