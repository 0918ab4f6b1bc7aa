//! Emptying hosts and disk groups: the check before, beginning, leaving off, how far it is.
//!
//! Promises    nothing is begun that cannot be ended as asked, nor a maintenance that ends a disk's service, unless forced
//!             what administrators want is in the directory: it outlives the host's reboot, and any other host's death
//! Not here    which components go, and where (`placement`); moving them (`object`)

use std::collections::BTreeMap;

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::{DiskGroupEntry, HostIntent};
use cairn_env::Env;
use cairn_placement::{Leaving, MaintenancePreview};
use cairn_types::{BLOCK_BYTES, ComponentId, DiskGroupId, Feature, HostId, MaintenanceMode, ObjectConfig, ObjectId};
use cairn_wire::{HostAnswer, HostCommand, ObjectStatus};
use futures::future::join_all;

use crate::{
    manage::{directory_error, some_of},
    node::Node,
};

/// What a preview is of.
struct About {
    server: HostId,
    /// Of this disk group; of the whole server where none is named.
    disk_group: Option<DiskGroupId>,
    /// What stands now.
    stands: Option<MaintenanceMode>,
    /// What is asked about.
    mode: Option<MaintenanceMode>,
}

impl<E: Env> Node<E> {
    pub(crate) async fn host_maintenance_show(&self, host: String) -> ApiResult<v1::Maintenance> {
        let server = self.find_host(&host)?;
        let mode = self.intent_for(server).maintenance();
        Ok(self.preview(About { server, disk_group: None, stands: mode, mode }).await)
    }

    pub(crate) async fn host_maintenance(
        &self,
        host: String,
        request: v1::HostMaintenance,
    ) -> ApiResult<v1::Maintenance> {
        let server = self.find_host(&host)?;
        let stands = self.intent_for(server).maintenance();
        if !request.enter {
            if request.mode.is_some() || request.force {
                return Err(ApiError::invalid("a mode and force are of entering maintenance"));
            }
            if !request.dry_run {
                self.want(server, |intent| (intent.maintenance, intent.mode) = (false, None)).await?;
            }
            let stands = stands.filter(|_| request.dry_run);
            return Ok(self.preview(About { server, disk_group: None, stands, mode: None }).await);
        }
        self.can_move()?;
        let mode = Some(request.mode.unwrap_or_default());
        let preview = self.preview(About { server, disk_group: None, stands, mode }).await;
        if request.dry_run {
            return Ok(preview);
        }
        if !request.force {
            refuse(&preview)?;
        }
        self.want(server, |intent| (intent.maintenance, intent.mode) = (true, mode)).await?;
        Ok(v1::Maintenance { state: state_of(mode, preview.components_left), ..preview })
    }

    pub(crate) async fn disk_group_drain_show(&self, disk_group: DiskGroupId) -> ApiResult<v1::Maintenance> {
        let server = self.server_of(self.holder_of(disk_group)?);
        let mode = self.is_draining(server, disk_group).then_some(MaintenanceMode::FullEvacuation);
        Ok(self.preview(About { server, disk_group: Some(disk_group), stands: mode, mode }).await)
    }

    pub(crate) async fn disk_group_drain(
        &self,
        disk_group: DiskGroupId,
        request: v1::DiskGroupDrain,
    ) -> ApiResult<v1::Maintenance> {
        let server = self.server_of(self.holder_of(disk_group)?);
        let all = Some(MaintenanceMode::FullEvacuation);
        let stands = all.filter(|_| self.is_draining(server, disk_group));
        let about = |stands, mode| About { server, disk_group: Some(disk_group), stands, mode };
        if !request.drain {
            if request.force {
                return Err(ApiError::invalid("force is of emptying a disk group"));
            }
            if !request.dry_run {
                self.want(server, |intent| intent.draining.retain(|id| *id != disk_group)).await?;
                self.call_off_slow(disk_group).await?;
            }
            return Ok(self.preview(about(stands.filter(|_| request.dry_run), None)).await);
        }
        self.can_move()?;
        let preview = self.preview(about(stands, all)).await;
        if request.dry_run {
            return Ok(preview);
        }
        if !request.force {
            refuse(&preview)?;
        }
        let add = |intent: &mut HostIntent| {
            if !intent.draining.contains(&disk_group) {
                intent.draining.push(disk_group);
            }
        };
        self.want(server, add).await?;
        self.forget_called_off(Some(disk_group)).await?;
        Ok(v1::Maintenance { state: state_of(all, preview.components_left), ..preview })
    }

    /// Whether administrators want the disk group to be emptied.
    pub(crate) fn is_draining(&self, host: HostId, disk_group: DiskGroupId) -> bool {
        self.intent_for(host).draining.contains(&disk_group)
    }

    /// The shard that has the disk group.
    pub(crate) fn holder_of(&self, disk_group: DiskGroupId) -> ApiResult<HostId> {
        let entry = self.inner.copy.borrow().get::<DiskGroupEntry>(&disk_group);
        let entry = entry.ok_or_else(|| {
            ApiError::not_found(format!("there is no disk group {disk_group}")).remedy("See `cairn disk-group list`")
        })?;
        Ok(entry.host)
    }

    pub(crate) fn can_move(&self) -> ApiResult<()> {
        self.check_is_on(Feature::Moves, "moving components")
    }

    /// Changes what administrators want of a server.
    pub(crate) async fn want(&self, server: HostId, mut change: impl FnMut(&mut HostIntent) + Send) -> ApiResult<()> {
        let update = self.inner.registry.update::<HostIntent>(&server, |known| {
            let mut want = known.cloned().unwrap_or_default();
            change(&mut want);
            Ok((known.cloned().unwrap_or_default() != want).then_some(want))
        });
        update.await.map(drop).map_err(directory_error)
    }

    /// What that asks for, as the cluster is now.
    async fn preview(&self, about: About) -> v1::Maintenance {
        let About { server, disk_group, stands, mode } = about;
        let shards = self.shards_of(server);
        let mut picture = self.picture();
        for host in picture.hosts.iter_mut().filter(|host| shards.contains(&host.host)) {
            match disk_group {
                None => host.maintenance = mode,
                Some(id) => {
                    let groups = host.disk_groups.iter_mut().filter(|group| group.disk_group == id);
                    groups.for_each(|group| group.draining = mode.is_some());
                }
            }
        }
        let leaving = disk_group.map_or_else(|| Leaving::Hosts(shards.clone()), Leaving::DiskGroup);
        let mut preview = MaintenancePreview::new(picture, leaving);
        let owned = self.owned_everywhere().await;
        self.each_record(&owned, |_| true, |_, _, config| config.iter().for_each(|config| preview.add(config))).await;
        let components_left = preview.components.len() as u32;
        let (bytes_left, eta_s) = self.left_to_move(&shards, &preview.components, &owned).await;
        v1::Maintenance {
            host: self.host_name(server),
            disk_group,
            state: state_of(stands, components_left),
            mode,
            disks: preview.disks,
            components_left,
            bytes_left,
            eta_s,
            obstacles: preview.obstacles,
            inaccessible: preview.inaccessible,
            reduced: preview.reduced,
        }
    }

    /// Bytes that these components hold and no twin does yet, and seconds for them at the rate of the moves under way, or of the last ones
    /// of the host that was fastest: all are read from one host.
    async fn left_to_move(
        &self,
        shards: &[HostId],
        components: &[ComponentId],
        owned: &BTreeMap<ObjectId, ObjectStatus>,
    ) -> (u64, Option<u64>) {
        let (held, _) = self.usage_of(shards, None).await;
        let mut left: u64 = components.iter().filter_map(|component| held.get(component)).sum();
        let mut rate_per_s = 0;
        for status in owned.values() {
            for [old, twin] in status.config.twins() {
                let resync = status.resyncs.iter().find(|resync| resync.component == twin.component);
                let Some(resync) = resync.filter(|_| components.contains(&old.component)) else { continue };
                let done = resync.bytes_total - resync.bytes_left;
                left = left.saturating_sub(done.min(held.get(&old.component).copied().unwrap_or(0)));
                rate_per_s += done * 1000 / resync.elapsed_ms.max(1);
            }
        }
        // Where none is under way: what the last ones had.
        let rate_per_s = if rate_per_s > 0 { Some(rate_per_s) } else { self.copy_rate().await };
        (left, rate_per_s.map(|rate| left.div_ceil(rate)))
    }

    /// Bytes that a disk takes, all copies together; none where a host with a copy does not say.
    pub(crate) async fn allocated_bytes(&self, config: &ObjectConfig) -> Option<u64> {
        let mut hosts: Vec<HostId> = config.members.iter().filter(|m| m.set().is_some()).map(|m| m.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let (held, all_answered) = self.usage_of(&hosts, Some(config.object)).await;
        all_answered.then(|| held.values().sum())
    }

    /// Bytes that components of these hosts hold, and whether all of the hosts said so.
    pub(crate) async fn usage_of(
        &self,
        hosts: &[HostId],
        only: Option<ObjectId>,
    ) -> (BTreeMap<ComponentId, u64>, bool) {
        // Hosts of earlier releases do not know the question.
        if !self.level().has(Feature::Moves) {
            return (BTreeMap::new(), false);
        }
        let answers = join_all(hosts.iter().map(|host| self.on_host(*host, HostCommand::Usage { only }))).await;
        let (mut held, mut all) = (BTreeMap::new(), true);
        for answer in answers {
            match answer {
                Ok(HostAnswer::Usage(told)) => held.extend(told),
                _ => all = false,
            }
        }
        (held, all)
    }

    /// What the components of this host hold.
    pub(crate) fn usage_here(&self, only: Option<ObjectId>) -> Vec<(ComponentId, u64)> {
        let stores = self.inner.seats.stores();
        let components = |store: &crate::adapter::GroupStore<E>| match only {
            Some(object) => store.group().components_of(object),
            None => store.group().components(),
        };
        let all = stores.iter().flat_map(components);
        all.filter(|c| c.size_blocks > 0).map(|c| (c.id, c.allocated_blocks * u64::from(BLOCK_BYTES))).collect()
    }
}

fn state_of(stands: Option<MaintenanceMode>, components_left: u32) -> v1::MaintenanceState {
    match (stands, components_left) {
        (None, _) => v1::MaintenanceState::Out,
        (Some(_), 0) => v1::MaintenanceState::In,
        (Some(_), _) => v1::MaintenanceState::Entering,
    }
}

/// Refuses what would leave something half emptied, or a disk without service.
fn refuse(preview: &v1::Maintenance) -> ApiResult<()> {
    let host = &preview.host;
    let what =
        preview.disk_group.map_or_else(|| format!("host {host}"), |id| format!("disk group {id} of host {host}"));
    if !preview.obstacles.is_empty() {
        let text = format!("{what} cannot be emptied as asked: {}", some_of(&preview.obstacles));
        return Err(ApiError::refused(text).remedy(
            "Add a host or capacity, choose another mode, or use --force: what can be moved is, the rest stays",
        ));
    }
    if !preview.inaccessible.is_empty() {
        let text = format!("while {what} is away these disks are not served: {}", some_of(&preview.inaccessible));
        return Err(ApiError::refused(text)
            .remedy("Use --mode ensure-accessibility, which moves them, wait until they are healthy, or use --force"));
    }
    Ok(())
}
