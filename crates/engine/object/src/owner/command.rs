//! What the keeper of an owned object is asked to do, by administrators and by resyncs that have come to their end.

use cairn_types::{ComponentId, SessionId};
use futures::channel::oneshot;
use serde::{Deserialize, Serialize};

/// A command to the owner, as it travels between hosts (JSON).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// What is the object's state?
    Status,
    /// Grow to this size.
    Grow {
        /// Bytes, more than now.
        size_bytes: u64,
    },
    /// Change how much guests may do; what is none stays, 0 is no limit.
    Limit {
        /// I/Os per second.
        iops_limit: Option<u32>,
        /// Bytes per second.
        bandwidth_limit_bytes_per_s: Option<u64>,
    },
    /// Delete the object: a tombstone on a majority, then its components.
    Delete,
    /// Replace a component at once, without waiting for the repair delay.
    Degrade {
        /// Which.
        component: ComponentId,
    },
}

/// Work for the keeper.
pub(crate) enum Queued {
    /// A resync has come to its end.
    Activate(ComponentId, SessionId),
    /// An administrator's command.
    Command(Command, oneshot::Sender<Result<(), String>>),
}
