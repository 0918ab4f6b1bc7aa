//! The snapshots of the cluster in memory, and their schedules. Time stands still there.

use std::collections::BTreeMap;

use cairn_api::{ApiError, ApiResult, Request as _, v1::*};
use cairn_types::{SNAPSHOTS_MAX, Schedule};

use super::memory::MemoryCluster;

/// 2100-01-01 00:00:00 UTC: it is always this time, and no lock has ended.
const NOW_UNIX_MS: u64 = 4_102_444_800_000;

/// All of them, the oldest first.
#[derive(Default)]
pub struct Snapshots {
    all: Vec<Snapshot>,
    schedules: BTreeMap<String, SnapshotSchedule>,
}

impl Snapshots {
    /// Those of a disk.
    fn of(&self, disk: &str) -> Vec<Snapshot> {
        self.all.iter().filter(|one| one.disk == disk).cloned().collect()
    }

    /// Of all these disks, or of none.
    fn take(&mut self, request: &SnapshotCreate, disks: &[Disk]) -> ApiResult<Vec<Snapshot>> {
        let name = &request.name;
        if let Some(known) = disks.iter().find(|disk| self.of(&disk.summary.name).iter().any(|one| one.name == *name)) {
            let text =
                format!("disk {} has a snapshot {name:?} already: delete it, or take another name", known.summary.name);
            return Err(ApiError::refused(text));
        }
        let id = format!("{:016x}", self.all.len() + 1);
        let one = |disk: &Disk| Snapshot {
            disk: disk.summary.name.clone(),
            name: name.clone(),
            id: id.clone(),
            created_unix_ms: NOW_UNIX_MS,
            size_bytes: disk.summary.size_bytes,
            locked_until_unix_ms: locked_until(request.locked_for_s),
            schedule: None,
        };
        let taken: Vec<Snapshot> = disks.iter().map(one).collect();
        self.all.extend(taken.iter().cloned());
        Ok(taken)
    }

    fn named(&mut self, snapshot: &str) -> ApiResult<&mut Snapshot> {
        let (disk, name) = split_snapshot(snapshot)?;
        let found = self.all.iter_mut().find(|one| (one.disk.as_str(), one.name.as_str()) == (disk, name));
        found.ok_or_else(|| ApiError::not_found(format!("disk {disk} has no snapshot {name:?}")))
    }

    /// One block, at 1 MiB.
    fn changes(&self, disk: &str, between: &ChangesBetween, size_bytes: u64) -> ApiResult<Changes> {
        if let Some(name) =
            between.from.iter().chain([&between.to]).find(|name| !self.of(disk).iter().any(|one| one.name == **name))
        {
            return Err(ApiError::not_found(format!("disk {disk} has no snapshot {name:?}")));
        }
        let extents = vec![ByteExtent { offset_bytes: 1 << 20, len_bytes: 4096 }];
        Ok(Changes { disk: disk.to_owned(), size_bytes, extents, next_offset_bytes: None })
    }

    /// One of them goes.
    fn delete(&mut self, snapshot: &str) -> ApiResult<()> {
        let found = self.named(snapshot)?.clone();
        if found.locked_until_unix_ms.is_some() {
            let text = format!("snapshot {:?} is locked: nobody can delete it before", found.name);
            return Err(ApiError::refused(text));
        }
        self.all.retain(|one| *one != found);
        Ok(())
    }

    fn schedule(&mut self, name: &str) -> ApiResult<&mut SnapshotSchedule> {
        self.schedules.get_mut(name).ok_or_else(|| {
            ApiError::not_found(format!("there is no schedule {name:?}")).remedy("See `cairn snapshot schedule list`")
        })
    }
}

fn locked_until(for_s: u64) -> Option<u64> {
    (for_s > 0).then_some(NOW_UNIX_MS + for_s * 1000)
}

/// A schedule that never ran. Its patterns are names of disks.
fn schedule(name: &str, rules: &ScheduleRules, disks: Vec<String>) -> SnapshotSchedule {
    let snapshots_max = Schedule::from(rules).snapshots_max();
    assert!(snapshots_max <= SNAPSHOTS_MAX as u64, "it was checked");
    SnapshotSchedule {
        name: name.to_owned(),
        rules: rules.clone(),
        paused: false,
        snapshots_max,
        disks,
        next_run_unix_ms: Some(NOW_UNIX_MS + rules.every_s * 1000),
        last_run: None,
        missed_total: 0,
        missed: None,
        notes: Vec::new(),
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
        state.snapshots.take(&request, &named?)
    }
    pub(super) async fn disk_changes(&self, disk: String, between: ChangesBetween) -> ApiResult<Changes> {
        let mut state = self.0.borrow_mut();
        let size_bytes = state.disk_named(&disk)?.summary.size_bytes;
        state.snapshots.changes(&disk, &between, size_bytes)
    }
    /// It is done at once.
    pub(super) async fn snapshot_rollback(&self, snapshot: String, how: SnapshotRollback) -> ApiResult<Rollback> {
        let found = self.0.borrow_mut().snapshots.named(&snapshot)?.clone();
        let kept = (!how.discard).then(|| "before-rollback-0".to_owned());
        Ok(Rollback { disk: found.disk, to: found.name, kept })
    }
    pub(super) async fn snapshot_lock(&self, snapshot: String, request: SnapshotLock) -> ApiResult<Snapshot> {
        request.validate()?;
        let mut state = self.0.borrow_mut();
        let found = state.snapshots.named(&snapshot)?;
        found.locked_until_unix_ms = found.locked_until_unix_ms.max(locked_until(request.for_s));
        Ok(found.clone())
    }
    pub(super) async fn snapshot_delete(&self, snapshot: String) -> ApiResult<()> {
        self.0.borrow_mut().snapshots.delete(&snapshot)
    }
    pub(super) async fn snapshot_schedule_list(&self) -> ApiResult<Vec<SnapshotSchedule>> {
        Ok(self.0.borrow().snapshots.schedules.values().cloned().collect())
    }
    pub(super) async fn snapshot_schedule_show(&self, name: String) -> ApiResult<SnapshotSchedule> {
        self.0.borrow_mut().snapshots.schedule(&name).cloned()
    }
    pub(super) async fn snapshot_schedule_create(&self, request: ScheduleCreate) -> ApiResult<SnapshotSchedule> {
        request.validate()?;
        let mut state = self.0.borrow_mut();
        let named = request.rules.disks.iter().filter(|disk| state.disks.contains_key(*disk)).cloned().collect();
        let new = schedule(&request.name, &request.rules, named);
        if state.snapshots.schedules.contains_key(&request.name) {
            return Err(ApiError::conflict(format!("a schedule named {:?} exists already", request.name)));
        }
        if !request.dry_run {
            state.snapshots.schedules.insert(request.name, new.clone());
        }
        Ok(new)
    }
    pub(super) async fn snapshot_schedule_edit(
        &self,
        name: String,
        request: ScheduleEdit,
    ) -> ApiResult<SnapshotSchedule> {
        request.validate()?;
        let mut state = self.0.borrow_mut();
        let named = request.rules.disks.iter().filter(|disk| state.disks.contains_key(*disk)).cloned().collect();
        let known = state.snapshots.schedule(&name)?;
        let next = schedule(&name, &request.rules, named);
        if !request.dry_run {
            *known = next.clone();
        }
        Ok(next)
    }
    pub(super) async fn snapshot_schedule_pause(
        &self,
        name: String,
        request: SchedulePause,
    ) -> ApiResult<SnapshotSchedule> {
        let mut state = self.0.borrow_mut();
        let known = state.snapshots.schedule(&name)?;
        known.paused = request.paused;
        known.next_run_unix_ms = (!request.paused).then_some(NOW_UNIX_MS + known.rules.every_s * 1000);
        Ok(known.clone())
    }
    pub(super) async fn snapshot_schedule_delete(&self, name: String) -> ApiResult<()> {
        let mut state = self.0.borrow_mut();
        state.snapshots.schedule(&name)?;
        state.snapshots.schedules.remove(&name);
        Ok(())
    }
}
