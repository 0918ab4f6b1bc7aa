//! What disks of the cluster in memory take, and their other names.

use cairn_api::{ApiError, ApiResult, Request as _, v1::*};

use super::memory::MemoryCluster;

/// As much for a guest, and with both copies.
fn copies(logical_bytes: u64) -> SpaceBytes {
    SpaceBytes { logical_bytes, raw_bytes: 2 * logical_bytes }
}

impl MemoryCluster {
    /// A quarter is written; each snapshot keeps a MiB by itself, and all of them another two. Components that are not in sync are away.
    pub(super) async fn disk_usage(&self, disk: String) -> ApiResult<DiskUsage> {
        let mut state = self.0.borrow_mut();
        let found = state.disk_named(&disk)?.clone();
        let name = found.summary.name;
        let snapshots: Vec<SnapshotUsage> = state
            .snapshots
            .of(&name)
            .into_iter()
            .map(|one| SnapshotUsage { name: one.name, created_unix_ms: one.created_unix_ms, alone: copies(1 << 20) })
            .collect();
        let kept = if snapshots.is_empty() { 0 } else { (2 + snapshots.len() as u64) << 20 };
        let away = found.components.iter().filter(|component| component.state != ComponentState::Active);
        Ok(DiskUsage {
            disk: name,
            size_bytes: found.summary.size_bytes,
            policy: format!("{} ({})", found.summary.policy, found.rules.describe()),
            head: copies(found.summary.size_bytes / 4),
            of_parents_bytes: found.clone_of.is_some().then_some(found.summary.size_bytes / 8),
            clone_of: found.clone_of,
            kept: copies(kept),
            leaving: copies(kept / 4),
            reserved_bytes: kept * 2,
            reserved_unwritten_bytes: kept,
            snapshots,
            not_counted: away
                .map(|component| NotCounted {
                    role: component.role,
                    host_name: component.host_name.clone(),
                    problem: "the host does not answer".into(),
                })
                .collect(),
        })
    }

    pub(super) async fn disk_rename(&self, disk: String, request: DiskRename) -> ApiResult<Disk> {
        request.validate()?;
        let shown = self.disk_show(disk).await?;
        let from = shown.summary.name.clone();
        let state = &mut *self.0.borrow_mut();
        if state.disks.contains_key(&request.name) {
            let text = format!("a disk named {:?} exists already", request.name);
            return Err(ApiError::conflict(text).remedy("Choose another name, or rename that one first"));
        }
        if !request.force {
            check_not_in_use(&from, &shown.sessions)?;
        }
        let mut disk = state.disks.remove(&from).expect("it was shown");
        disk.summary.name = request.name.clone();
        disk.nbd_uris.iter_mut().for_each(|uri| *uri = uri.replace(&from, &request.name));
        state.snapshots.rename(&from, &request.name);
        state.disks.insert(request.name, disk.clone());
        Ok(disk)
    }
}
