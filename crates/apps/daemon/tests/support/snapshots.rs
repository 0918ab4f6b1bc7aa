//! The snapshots of the cluster in memory, and clones of them.

use cairn_api::{ApiError, ApiResult, LocalManagement as _, Request as _, v1::*};

use super::memory::MemoryCluster;

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
            clones: Vec::new(),
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

impl MemoryCluster {
    pub(super) async fn snapshot_list(&self, disk: String) -> ApiResult<Vec<Snapshot>> {
        let mut state = self.0.borrow_mut();
        let name = state.disk_named(&disk)?.summary.name.clone();
        Ok(state.snapshots.of(&name))
    }
    pub(super) async fn snapshot_create(&self, request: SnapshotCreate) -> ApiResult<Vec<Snapshot>> {
        request.validate()?;
        let mut state = self.0.borrow_mut();
        let named: ApiResult<Vec<Disk>> = request.disks.iter().map(|disk| state.disk_named(disk).cloned()).collect();
        state.snapshots.take(&request.name, &named?)
    }
    pub(super) async fn disk_changes(&self, disk: String, between: ChangesBetween) -> ApiResult<Changes> {
        let mut state = self.0.borrow_mut();
        let size_bytes = state.disk_named(&disk)?.summary.size_bytes;
        state.snapshots.changes(&disk, &between, size_bytes)
    }
    pub(super) async fn snapshot_rollback(&self, snapshot: String, how: SnapshotRollback) -> ApiResult<Rollback> {
        self.0.borrow_mut().snapshots.roll_back(&snapshot, how)
    }
    pub(super) async fn snapshot_delete(&self, snapshot: String) -> ApiResult<()> {
        self.0.borrow_mut().snapshots.delete(&snapshot)
    }
    pub(super) async fn disk_clone(&self, snapshot: String, request: DiskClone) -> ApiResult<Disk> {
        let (disk, _) = split_snapshot(&snapshot)?;
        let (policy, size_bytes) = {
            let mut state = self.0.borrow_mut();
            let disk = state.disk_named(disk)?;
            (disk.summary.policy.clone(), request.size_bytes.unwrap_or(disk.summary.size_bytes))
        };
        let (name, limits) = (request.name.clone(), request.limits);
        self.disk_create(DiskCreate { name, size_bytes, policy: Some(policy), host: request.host, limits }).await?;
        let mut state = self.0.borrow_mut();
        let made = state.disk_named(&request.name)?;
        made.clone_of = Some(snapshot);
        Ok(made.clone())
    }
    pub(super) async fn disk_flatten(&self, disk: String) -> ApiResult<Disk> {
        let mut state = self.0.borrow_mut();
        let disk = state.disk_named(&disk)?;
        disk.clone_of = None;
        Ok(disk.clone())
    }
}
