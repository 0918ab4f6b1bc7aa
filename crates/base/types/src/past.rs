//! The snapshots of a disk, as its record has them.

use serde::{Deserialize, Serialize};

use crate::{
    OpId, SnapshotId,
    utc::{STAMP_BYTES, utc_stamp},
};

/// Snapshots that a disk has, at most.
pub const SNAPSHOTS_MAX: usize = 256;
/// Bytes of a snapshot's name, at most.
pub const SNAPSHOT_NAME_BYTES_MAX: usize = 64;

/// A moment of a disk that can still be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its id, never reused.
    pub id: SnapshotId,
    /// The name that administrators gave it: no other one of the disk has it.
    pub name: String,
    /// When it was taken, by the clock of the owner's host.
    pub created_unix_ms: u64,
    /// Bytes of the disk then.
    pub size_bytes: u64,
    /// It has all operations up to this one, and nothing later.
    pub cut: OpId,
    /// It has, or had, clones: it goes only when the catalogue has none of them any more.
    pub pinned: bool,
    /// Until then nobody deletes it, in milliseconds since 1970; 0: it is not locked.
    pub locked_until_unix_ms: u64,
    /// The run of a schedule that took it, by the second since 1970 at which that was due; none: it was taken by hand.
    pub slot_unix_s: Option<u64>,
}

/// The name of the snapshot that a schedule takes of a disk in a run: whoever takes it gives it the same.
pub fn scheduled_name(schedule: &str, slot_unix_s: u64) -> String {
    format!("{schedule}-{}", utc_stamp(slot_unix_s))
}

impl Snapshot {
    /// The schedule that took it.
    pub fn schedule(&self) -> Option<&str> {
        self.slot_unix_s?;
        let stem = self.name.get(..self.name.len().checked_sub(STAMP_BYTES + 1)?)?;
        (!stem.is_empty()).then_some(stem)
    }
    /// Whether nobody may delete it yet.
    pub fn is_locked(&self, now_unix_ms: u64) -> bool {
        now_unix_ms < self.locked_until_unix_ms
    }
    /// Whether this is what became of `before`: the same one, locked as long or longer. It may come to have clones, and have none any more.
    pub fn follows(&self, before: &Self) -> bool {
        let Self { id, name, created_unix_ms, size_bytes, cut, pinned: _, locked_until_unix_ms, slot_unix_s } = self;
        (*id, name, *created_unix_ms, *size_bytes)
            == (before.id, &before.name, before.created_unix_ms, before.size_bytes)
            && (*cut, *slot_unix_s) == (before.cut, before.slot_unix_s)
            && *locked_until_unix_ms >= before.locked_until_unix_ms
    }
}

/// What is kept of a disk's past.
///
/// A disk that never had a snapshot has none. One that has it once keeps it, without snapshots too: its components may have cuts that no record
/// names, of a snapshot that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Past {
    /// In the order of their cuts.
    pub snapshots: Vec<Snapshot>,
    /// The disk is going back to what this one of them has: until it has, guests wait.
    pub goes_back_to: Option<SnapshotId>,
    /// The number of the request by which it last went back to a snapshot, or does: when its answer was lost, and it is asked once more, it does not go back
    /// once more, which would undo what guests wrote since. 0: it never did.
    #[serde(skip)]
    pub back_number: u64,
}

impl Past {
    /// The snapshot of this id.
    pub fn snapshot(&self, id: SnapshotId) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.id == id)
    }
    /// The snapshot of this name.
    pub fn named(&self, name: &str) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.name == name)
    }
    /// The cuts that each component is to have.
    pub fn cuts(&self) -> Vec<(SnapshotId, OpId)> {
        self.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.cut)).collect()
    }
    /// Whether it can be so: in order, each once, no more than there may be.
    pub fn is_sound(&self) -> bool {
        let all = &self.snapshots;
        let alone = |n: usize| all[..n].iter().all(|other| other.id != all[n].id && other.name != all[n].name);
        let fits = |snapshot: &Snapshot| {
            (1..=SNAPSHOT_NAME_BYTES_MAX).contains(&snapshot.name.len())
                && (snapshot.slot_unix_s.is_none() || snapshot.schedule().is_some())
        };
        all.len() <= SNAPSHOTS_MAX
            && all.windows(2).all(|pair| pair[0].cut <= pair[1].cut)
            && (0..all.len()).all(alone)
            && all.iter().all(fits)
            && self.goes_back_to.is_none_or(|id| self.snapshot(id).is_some())
    }
}
