//! Ways between the shards of a process: a client is served where its disk is, whichever shard took its connection.
//!
//! Promises    a client that is moved notices nothing: what it chose its disk with is answered by the shard that serves it
//!             a connection counts at one server at a time
//! Not here    which shard that is (`Exports::shard_to_serve`)

use std::{os::fd::OwnedFd, sync::Arc};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::handshake::Handover;

/// A client on its way.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Its connection.
    pub(crate) socket: OwnedFd,
    /// A unix socket, else TCP.
    pub(crate) local: bool,
    /// Who it is, for people.
    pub(crate) peer: String,
    /// What was agreed on with it, and its choice.
    pub(crate) handover: Handover,
}

/// The doors of every shard of a process. Cheap to clone; the default has none, so that no client is moved.
#[derive(Debug, Clone, Default)]
pub struct Doors(Arc<[UnboundedSender<Arrival>]>);

/// What comes in at one shard's door.
#[derive(Debug)]
pub struct Entrance(pub(crate) UnboundedReceiver<Arrival>);

/// Doors for `shards` shards, and what is behind each, to be given to [`crate::serve_moved`] there.
pub fn doors(shards: usize) -> (Doors, Vec<Entrance>) {
    let (doors, entrances): (Vec<_>, Vec<_>) = (0..shards)
        .map(|_| {
            let (door, entrance) = unbounded_channel();
            (door, Entrance(entrance))
        })
        .unzip();
    (Doors(doors.into()), entrances)
}

impl Doors {
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves a client. One whose shard has ended is gone: its connection closes, and it connects anew.
    pub(crate) fn send(&self, shard: usize, arrival: Arrival) {
        if let Some(door) = self.0.get(shard) {
            let _ = door.send(arrival);
        }
    }
}
