//! Kinds of runs.

use serde::{Deserialize, Serialize};

/// Which faults a run draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Menu {
    /// Hosts, links, directory and management, several at once.
    Turmoil,
    /// One thing at a time, with time to recover: each stall has one cause.
    Single,
    /// One host's devices fail, lie and rot.
    Damage,
    /// A host stays away until it is replaced; then another one dies.
    Loss,
    /// An owner is cut off, paused or dies, and others with it.
    Owner,
    /// Devices of all hosts fail and rot.
    Beyond,
}
