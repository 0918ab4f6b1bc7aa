//! Snapshots of disks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::name::check_name;
use cairn_types::LOCKED_FOR_S_MAX;

/// Disks of which one snapshot is taken together, at most.
pub const SNAPSHOT_DISKS_MAX: usize = 64;

/// A moment of a disk that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// The disk's name.
    pub disk: String,
    /// Its own name: guests and tools open it as DISK@NAME, read-only.
    pub name: String,
    /// Its id: another snapshot of that name, taken later, has another one.
    pub id: String,
    /// When it was taken, in milliseconds since 1970, by the clock of the host that was asked.
    pub created_unix_ms: u64,
    /// The size of the disk then.
    pub size_bytes: u64,
    /// Until then nobody deletes it, in milliseconds since 1970; none: it is not locked. It may have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_until_unix_ms: Option<u64>,
    /// The schedule that took it; none: it was taken by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
}

/// A snapshot to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotCreate {
    /// Its name, which no other snapshot of these disks has.
    pub name: String,
    /// The disks, by name or id: all are cut at one moment, or none is.
    pub disks: Vec<String>,
    /// Seconds for which nobody deletes it, nor its disk; 0: it is not locked.
    #[serde(default)]
    pub locked_for_s: u64,
}

impl crate::Request for SnapshotCreate {
    fn validate(&self) -> crate::ApiResult<()> {
        check_name("snapshot", &self.name)?;
        if self.disks.is_empty() || self.disks.len() > SNAPSHOT_DISKS_MAX {
            let text = format!("a snapshot is of 1 to {SNAPSHOT_DISKS_MAX} disks, not of {}", self.disks.len());
            return Err(crate::ApiError::invalid(text).remedy("Name the disks of one machine"));
        }
        check_locked_for(self.locked_for_s)
    }
}

/// A lock for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotLock {
    /// Seconds from now for which nobody deletes it, nor its disk. One that is locked for longer already stays so.
    pub for_s: u64,
}

impl crate::Request for SnapshotLock {
    fn validate(&self) -> crate::ApiResult<()> {
        match self.for_s {
            0 => Err(crate::ApiError::invalid("a lock of no time locks nothing")
                .remedy("Say for how long; a lock cannot be taken back, it ends by itself")),
            for_s => check_locked_for(for_s),
        }
    }
}

fn check_locked_for(for_s: u64) -> crate::ApiResult<()> {
    if for_s <= LOCKED_FOR_S_MAX {
        return Ok(());
    }
    let days = LOCKED_FOR_S_MAX / 86_400;
    Err(crate::ApiError::invalid(format!("a snapshot is locked for {days} days at most, not for {for_s} s"))
        .remedy("Say a shorter time: nobody can take a lock back; it can be made longer later"))
}

/// How a disk goes back to a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotRollback {
    /// Although sessions have the disk open: what their guests keep in memory no longer fits the disk.
    pub force: bool,
    /// Do not keep what the disk has now as a snapshot.
    pub discard: bool,
}

impl crate::Request for SnapshotRollback {}

/// A disk goes back to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rollback {
    /// The disk's name.
    pub disk: String,
    /// The name of the snapshot that it goes back to.
    pub to: String,
    /// The snapshot that has what the disk had before; none where that is not kept.
    pub kept: Option<String>,
}

/// What changed between two snapshots of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangesBetween {
    /// The earlier snapshot, by name. Left out: all that the later one holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The later snapshot, by name.
    pub to: String,
    /// From here on: what the answer before gave as its next.
    #[serde(default)]
    pub offset_bytes: u64,
}

impl crate::Request for ChangesBetween {}

/// A run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ByteExtent {
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub len_bytes: u64,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changes {
    /// The disk's name.
    pub disk: String,
    /// The size of the disk at the later snapshot.
    pub size_bytes: u64,
    /// Extents that may differ, ascending; no others do. Some may be equal all the same.
    pub extents: Vec<ByteExtent>,
    /// Where to go on; none: this was all.
    #[serde(default)]
    pub next_offset_bytes: Option<u64>,
}

/// A snapshot's disk and its own name.
///
/// # Errors
/// It is not of the form DISK@NAME.
pub fn split_snapshot(text: &str) -> crate::ApiResult<(&str, &str)> {
    match text.split_once('@') {
        Some((disk, name)) if !disk.is_empty() && !name.is_empty() => Ok((disk, name)),
        _ => Err(crate::ApiError::invalid(format!("{text:?} is no snapshot"))
            .remedy("Name it as DISK@NAME; `cairn snapshot list DISK` has those of a disk")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request as _;

    #[test]
    fn snapshots_that_cannot_be_are_refused_in_words() {
        let create = |name: &str, disks: &[&str]| {
            let disks = disks.iter().map(|disk| (*disk).to_owned()).collect();
            SnapshotCreate { name: name.into(), disks, locked_for_s: 0 }.validate().map_err(|error| error.message)
        };
        assert_eq!(create("before-update", &["vm-1", "vm-2"]), Ok(()));
        assert!(create("a@b", &["vm-1"]).is_err() && create(&"n".repeat(65), &["vm-1"]).is_err());
        assert!(create("a", &[]).unwrap_err().contains("not of 0"));
        let lock = |for_s| SnapshotLock { for_s }.validate().map_err(|error| error.message);
        assert_eq!(lock(30 * 86_400), Ok(()));
        assert!(
            lock(0).unwrap_err().contains("of no time") && lock(u64::MAX).unwrap_err().contains("3653 days at most")
        );
        assert_eq!(split_snapshot("vm-1@a"), Ok(("vm-1", "a")));
        for bad in ["vm-1", "@a", "vm-1@", ""] {
            assert!(split_snapshot(bad).is_err(), "{bad}");
        }
    }
}
