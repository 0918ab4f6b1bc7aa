//! What the keeper of an owned object is asked to do, by administrators and by resyncs that have come to their end.

use cairn_types::{ComponentId, SessionId, SnapshotId};
use cairn_wire::OwnerCommand;
use futures::channel::oneshot;

/// Work for the keeper.
pub(crate) enum Queued {
    /// A resync has come to its end.
    Activate(ComponentId, SessionId),
    /// All that changed since a snapshot is written back.
    WentBack(SnapshotId),
    /// All that a clone had of its parents is copied.
    Flattened,
    /// An administrator's command.
    Command(OwnerCommand, oneshot::Sender<Result<(), String>>),
}
