//! What administrators ask, carried out: each call of the management API on this host.
//!
//! Promises    bad input changes nothing; a change that fails half way is taken back or finished later
//! Not here    HTTP and tables (the daemon, the command line)

mod caches;
mod cluster;
mod counters;
mod create;
mod disks;
mod hosts;
mod latency;
mod policies;
mod remote;

use cairn_api::{ApiError, ApiResult, LocalManagement, v1};
use cairn_directory::DirectoryError;
use cairn_env::Env;
use cairn_types::DiskGroupId;

use crate::node::Node;

/// A directory's failure for a person.
pub(crate) fn directory_error(error: DirectoryError) -> ApiError {
    match error {
        DirectoryError::Unavailable { .. } => ApiError::unavailable(error.to_string())
            .remedy("Disks go on without it; start its members again to change anything"),
        DirectoryError::Conflict { .. } => ApiError::conflict(error.to_string()).remedy("Try again"),
        DirectoryError::Refused(text) => ApiError::refused(text),
        DirectoryError::Damaged { .. } => ApiError::internal(error.to_string()),
    }
}

impl<E: Env> LocalManagement for Node<E> {
    async fn cluster_status(&self) -> ApiResult<v1::ClusterStatus> {
        self.status_of_cluster().await
    }
    async fn cluster_settings(&self) -> ApiResult<v1::ClusterSettings> {
        self.show_settings()
    }
    async fn cluster_settings_set(&self, patch: v1::ClusterSettingsPatch) -> ApiResult<v1::ClusterSettings> {
        self.change_settings(patch).await
    }
    async fn host_list(&self) -> ApiResult<Vec<v1::Host>> {
        Ok(self.hosts_in_full().await)
    }
    async fn host_show(&self, host: String) -> ApiResult<v1::Host> {
        let id = self.find_host(&host)?;
        let found = self.hosts_in_full().await.into_iter().find(|h| h.id == id);
        found.ok_or_else(|| ApiError::not_found(format!("there is no host {host:?}")))
    }
    async fn host_maintenance(&self, _host: String, _request: v1::HostMaintenance) -> ApiResult<v1::Host> {
        Err(ApiError::refused("maintenance mode is not in this release").remedy(
            "Stop the host's daemon: its components are absent until it is back, and rebuilt after the repair delay",
        ))
    }
    async fn disk_group_list(&self) -> ApiResult<Vec<v1::DiskGroup>> {
        self.disk_groups().await
    }
    async fn disk_group_show(&self, disk_group: DiskGroupId) -> ApiResult<v1::DiskGroup> {
        let found = self.disk_groups().await?.into_iter().find(|g| g.id == disk_group);
        found.ok_or_else(|| ApiError::not_found(format!("there is no disk group {disk_group}")))
    }
    async fn disk_group_create(&self, request: v1::DiskGroupCreate) -> ApiResult<v1::DiskGroup> {
        self.create_group(request).await
    }
    async fn disk_group_remove(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        self.remove_group(disk_group).await
    }
    async fn disk_list(&self) -> ApiResult<Vec<v1::DiskSummary>> {
        Ok(self.all_disks().await)
    }
    async fn disk_show(&self, disk: String) -> ApiResult<v1::Disk> {
        self.show_disk(&disk).await
    }
    async fn disk_create(&self, request: v1::DiskCreate) -> ApiResult<v1::Disk> {
        self.create_disk(request).await
    }
    async fn disk_delete(&self, disk: String) -> ApiResult<()> {
        self.delete_disk(&disk).await
    }
    async fn disk_resize(&self, disk: String, request: v1::DiskResize) -> ApiResult<v1::Disk> {
        self.resize_disk(&disk, request).await
    }
    async fn disk_attach(&self, disk: String, request: v1::DiskAttach) -> ApiResult<v1::Disk> {
        self.attach_disk(&disk, request).await
    }
    async fn disk_record(&self, disk: String) -> ApiResult<v1::ObjectRecord> {
        self.record_of_disk(&disk).await
    }
    async fn policy_list(&self) -> ApiResult<Vec<v1::Policy>> {
        Ok(self.policies())
    }
    async fn policy_show(&self, policy: String) -> ApiResult<v1::Policy> {
        let found = self.policies().into_iter().find(|p| p.name == policy);
        found.ok_or_else(|| {
            ApiError::not_found(format!("there is no policy {policy:?}")).remedy("See `cairn policy list`")
        })
    }
    async fn policy_create(&self, request: v1::PolicyCreate) -> ApiResult<v1::Policy> {
        self.create_policy(request).await
    }
    async fn policy_delete(&self, policy: String) -> ApiResult<()> {
        self.delete_policy(&policy).await
    }
    async fn health(&self) -> ApiResult<v1::Health> {
        Ok(self.check_health().await)
    }
    async fn resync_list(&self) -> ApiResult<Vec<v1::Resync>> {
        Ok(self.resyncs().await)
    }
    async fn resync_settings(&self) -> ApiResult<v1::ResyncSettings> {
        let shards = self.inner.options.shards.len() as u64;
        Ok(v1::ResyncSettings { bytes_per_s_max: self.inner.shard.options().resync_bytes_per_s_max * shards })
    }
    async fn resync_settings_set(&self, request: v1::ResyncSettings) -> ApiResult<v1::ResyncSettings> {
        self.set_resync_limit(request).await
    }
    async fn counters(&self) -> ApiResult<v1::Counters> {
        Ok(self.all_counters().await)
    }
    async fn disk_latencies(&self, disk: String) -> ApiResult<v1::Latencies> {
        self.latencies_of_disk(&disk).await
    }
    async fn latencies(&self) -> ApiResult<v1::Latencies> {
        Ok(self.latencies_of(None).await)
    }
    async fn caches_clear(&self, request: v1::CacheClear) -> ApiResult<v1::CachesCleared> {
        self.clear_caches(request).await
    }
    async fn metrics(&self) -> ApiResult<String> {
        Ok(self.metrics_of_server().await)
    }
}
