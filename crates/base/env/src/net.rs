//! Messages between hosts: opaque bodies with a payload apart, so that block data is never copied into a body.

use bytes::Bytes;
use cairn_types::{DiskGroupId, HostId, Incarnation, ObjectId};

/// Which shard of the receiving process a message is for. The receiver resolves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The shard that speaks for the host (heartbeats, management).
    Host,
    /// The shard that holds this disk group.
    DiskGroup(DiskGroupId),
    /// The shard that owns, or would own, this object.
    Object(ObjectId),
    /// The shard of this number: answers go back to the shard that asked.
    Shard(u8),
}

/// A message to be sent.
#[derive(Debug, Clone)]
pub struct OutMessage {
    /// Where to, within the process.
    pub route: Route,
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
    /// Where to, within this process.
    pub route: Route,
    /// The encoded message.
    pub body: Bytes,
    /// The block data, in one 4 KiB aligned piece.
    pub payload: Bytes,
}

/// What the network tells a shard.
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
    },
    /// The connection to a peer ended: messages on their way may be lost. Says nothing of whether it lives.
    PeerDown {
        /// The peer.
        host: HostId,
        /// True when the peer's kernel refused or reset: its process is gone, as far as one can tell.
        process_gone: bool,
    },
}
