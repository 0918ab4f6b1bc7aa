//! What a disk takes, and what its snapshots keep.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::disk::ComponentRole;

/// Bytes, counted twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceBytes {
    /// As a guest counts them: each once. With erasure coding it is the share of the data in what is on the hosts.
    pub logical_bytes: u64,
    /// On all hosts together: with all copies, or with parity.
    pub raw_bytes: u64,
}

/// What a disk takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskUsage {
    /// The disk's name.
    pub disk: String,
    /// The size that a guest sees: what it may write.
    pub size_bytes: u64,
    /// Its policy, by name and rules.
    pub policy: String,
    /// What it holds now.
    pub head: SpaceBytes,
    /// Of a clone: bytes that it reads of its parents, and that take no space of its own. Nothing of any other disk, and where its owner did not tell.
    #[serde(default)]
    pub of_parents_bytes: Option<u64>,
    /// The snapshot that it is a clone of.
    #[serde(default)]
    pub clone_of: Option<String>,
    /// What its snapshots keep beside that: what would come back if all were deleted.
    pub kept: SpaceBytes,
    /// Of snapshots that were deleted: it comes back by and by.
    pub leaving: SpaceBytes,
    /// Bytes on all hosts that its policy sets aside for what it holds now, written or not.
    pub reserved_bytes: u64,
    /// Of those, bytes that are not written.
    pub reserved_unwritten_bytes: u64,
    /// Its snapshots, the oldest first.
    pub snapshots: Vec<SnapshotUsage>,
    /// Copies, or members of its rows, that could not be asked: they are in no number here.
    pub not_counted: Vec<NotCounted>,
}

/// What a snapshot keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotUsage {
    /// Its name.
    pub name: String,
    /// When it was taken, in milliseconds since 1970.
    pub created_unix_ms: u64,
    /// What comes back if it alone is deleted. What another one keeps as well is not in it.
    pub alone: SpaceBytes,
}

/// A component that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotCounted {
    /// What it is for.
    #[serde(flatten)]
    pub role: ComponentRole,
    /// The host that it is on.
    pub host_name: String,
    /// Why not.
    pub problem: String,
}
