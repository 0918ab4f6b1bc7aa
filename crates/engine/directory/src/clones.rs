//! Clones in the catalogue: which disks are of which snapshots, and how a snapshot goes that has none.
//!
//! Promises    C4  a clone is entered only while nobody is about to take its parent's snapshot away
//!             C5  whoever has closed a snapshot, and then sees no clone of it, will see none
//! Not here    the record, which pins the snapshot and has the parents (`cairn-owner`)

use cairn_types::{HostId, Incarnation, ObjectConfig, ObjectId, SnapshotId};
use serde::{Deserialize, Serialize};

use crate::{
    CatalogueEntry, DirectoryError, DiskState, Key, Registry, Txn,
    catalogue::{ROUNDS_MAX, refused, too_fast},
    registry::encode,
};

/// The snapshot that a disk is a clone of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneOf {
    /// The disk that has it.
    pub object: ObjectId,
    /// The snapshot.
    pub snapshot: SnapshotId,
}

impl CloneOf {
    /// What a disk with this record is a clone of.
    pub fn of(config: &ObjectConfig) -> Option<Self> {
        let parent = config.parents().first()?;
        Some(Self { object: parent.object, snapshot: parent.snapshot })
    }
}

/// Somebody is about to delete a snapshot, or a disk with all of them: no clone is made of it meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Which; none: all of them.
    pub snapshot: Option<SnapshotId>,
    /// Who.
    pub by: HostId,
    /// The process of that host: when it is another one, nobody is.
    pub incarnation: Incarnation,
    /// Tells it from others of the same process.
    pub number: u64,
}

impl Registry {
    /// Adds to `txn` that a clone may be made now of a snapshot, as the catalogue has its disk.
    ///
    /// # Errors
    /// `Refused` where it may not; `Unavailable`, `Damaged`.
    pub(crate) async fn with_parent(&self, txn: Txn, of: &CloneOf, over: &[Closed]) -> Result<Txn, DirectoryError> {
        let Some(parent) = self.get::<CatalogueEntry>(&of.object).await? else {
            return refused("the disk that it is to be a clone of was deleted".into());
        };
        let entry = &parent.entry;
        let closes = |closed: &&Closed| closed.snapshot.is_none_or(|id| id == of.snapshot) && !over.contains(closed);
        if entry.state != DiskState::Ready || entry.closed.iter().any(|closed| closes(&closed)) {
            return refused(format!("the snapshot of disk {} is being deleted: no clone is made of it", entry.name));
        }
        Ok(txn.check(Key::of::<CatalogueEntry>(&of.object), Some(parent.revision)))
    }

    /// From now on no clone is made of a snapshot, or of any of a disk, until it is opened again.
    ///
    /// # Errors
    /// `Refused` when the catalogue does not know the disk; `Unavailable`, `Damaged`.
    pub async fn close_snapshot(&self, object: ObjectId, closed: &Closed) -> Result<(), DirectoryError> {
        self.change_closed(object, |all| {
            if !all.contains(closed) {
                all.push(closed.clone());
            }
        })
        .await
    }

    /// Takes that back.
    ///
    /// # Errors
    /// As [`Registry::close_snapshot`].
    pub async fn open_snapshot(&self, object: ObjectId, closed: &Closed) -> Result<(), DirectoryError> {
        self.change_closed(object, |all| all.retain(|one| one != closed)).await
    }

    async fn change_closed(&self, object: ObjectId, change: impl Fn(&mut Vec<Closed>)) -> Result<(), DirectoryError> {
        for _ in 0..ROUNDS_MAX {
            let Some(found) = self.get::<CatalogueEntry>(&object).await? else {
                return refused(format!("the catalogue has no disk {object}"));
            };
            let mut entry = found.entry.clone();
            change(&mut entry.closed);
            if entry == found.entry {
                return Ok(());
            }
            let txn = Txn::new().replace(Key::of::<CatalogueEntry>(&object), found.revision, encode(&entry)?);
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { .. }) => {}
                other => return other.map(drop),
            }
        }
        too_fast(&format!("disk {object}"))
    }

    /// Disks that are clones of a snapshot, or of any of a disk, as the directory has them now: also those that are being made or deleted.
    ///
    /// # Errors
    /// `Unavailable`; `Damaged` where any disk's entry is, as it may be one.
    pub async fn clones_of(
        &self,
        object: ObjectId,
        snapshot: Option<SnapshotId>,
    ) -> Result<Vec<(ObjectId, CatalogueEntry)>, DirectoryError> {
        let listed = self.list::<CatalogueEntry>().await?;
        if let Some(damaged) = listed.damaged.into_iter().next() {
            return Err(damaged);
        }
        let is_one = |entry: &CatalogueEntry| {
            let of = entry.clone_of.filter(|of| of.object == object);
            let is_gone = matches!(entry.state, DiskState::Deleted { .. });
            of.is_some_and(|of| snapshot.is_none_or(|id| id == of.snapshot)) && !is_gone
        };
        let all = listed.entries.into_iter().map(|(id, found)| (id, found.entry));
        Ok(all.filter(|(_, entry)| is_one(entry)).collect())
    }
}
