//! The snapshots of the cluster in memory.

use cairn_api::{ApiError, ApiResult, v1::*};

/// All of them, the oldest first.
#[derive(Default)]
pub struct Snapshots(Vec<Snapshot>);

impl Snapshots {
    /// Those of a disk.
    pub fn of(&self, disk: &str) -> Vec<Snapshot> {
        self.0.iter().filter(|one| one.disk == disk).cloned().collect()
    }

    /// Of all these disks, or of none.
    pub fn take(&mut self, name: &str, disks: &[Disk]) -> ApiResult<Vec<Snapshot>> {
        if let Some(known) = disks.iter().find(|disk| self.of(&disk.summary.name).iter().any(|one| one.name == name)) {
            let text =
                format!("disk {} has a snapshot {name:?} already: delete it, or take another name", known.summary.name);
            return Err(ApiError::refused(text));
        }
        let id = format!("{:016x}", self.0.len() + 1);
        let one = |disk: &Disk| Snapshot {
            disk: disk.summary.name.clone(),
            name: name.to_owned(),
            id: id.clone(),
            // Ahead of every clock: it was taken just now.
            created_unix_ms: 1 << 48,
            size_bytes: disk.summary.size_bytes,
        };
        let taken: Vec<Snapshot> = disks.iter().map(one).collect();
        self.0.extend(taken.iter().cloned());
        Ok(taken)
    }

    /// One block, at 1 MiB.
    pub fn changes(&self, disk: &str, between: &ChangesBetween, size_bytes: u64) -> ApiResult<Changes> {
        if let Some(name) =
            between.from.iter().chain([&between.to]).find(|name| !self.of(disk).iter().any(|one| one.name == **name))
        {
            return Err(ApiError::not_found(format!("disk {disk} has no snapshot {name:?}")));
        }
        let extents = vec![ByteExtent { offset_bytes: 1 << 20, len_bytes: 4096 }];
        Ok(Changes { disk: disk.to_owned(), size_bytes, extents, next_offset_bytes: None })
    }

    /// It is done at once.
    pub fn roll_back(&mut self, snapshot: &str, how: SnapshotRollback) -> ApiResult<Rollback> {
        let (disk, name) = split_snapshot(snapshot)?;
        if !self.of(disk).iter().any(|one| one.name == name) {
            return Err(ApiError::not_found(format!("disk {disk} has no snapshot {name:?}")));
        }
        let kept = (!how.discard).then(|| "before-rollback-0".to_owned());
        Ok(Rollback { disk: disk.to_owned(), to: name.to_owned(), kept })
    }

    /// Their disk has another name.
    pub fn rename(&mut self, disk: &str, to: &str) {
        self.0.iter_mut().filter(|one| one.disk == disk).for_each(|one| to.clone_into(&mut one.disk));
    }

    /// One of them goes.
    pub fn delete(&mut self, snapshot: &str) -> ApiResult<()> {
        let (disk, name) = split_snapshot(snapshot)?;
        let before = self.0.len();
        self.0.retain(|one| (one.disk.as_str(), one.name.as_str()) != (disk, name));
        match self.0.len() < before {
            true => Ok(()),
            false => Err(ApiError::not_found(format!("disk {disk} has no snapshot {name:?}"))),
        }
    }
}
