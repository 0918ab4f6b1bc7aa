//! Maintenance of hosts: the check before, entering, leaving, how far it is.
//!
//! Promises    a host is not entered that cannot be emptied as asked, nor one whose absence ends a disk's service, unless forced
//!             what administrators want is in the directory: it outlives the host's reboot, and any other host's death
//! Not here    which components go, and where (`placement`); moving them (`object`)

use std::collections::BTreeMap;

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::HostIntent;
use cairn_env::Env;
use cairn_placement::MaintenancePreview;
use cairn_types::{ComponentId, Feature, HostId, MaintenanceMode, ObjectId};
use cairn_wire::{HostAnswer, HostCommand, ObjectStatus};
use futures::future::join_all;

use crate::{manage::directory_error, node::Node};

/// Disks that are looked at before the thread's other tasks have a turn: each is a search through the cluster.
const DISKS_TOGETHER: usize = 8;
/// Disks that a refusal names.
const NAMED_MAX: usize = 3;

impl<E: Env> Node<E> {
    pub(crate) async fn host_maintenance_show(&self, host: String) -> ApiResult<v1::Maintenance> {
        let server = self.find_host(&host)?;
        let mode = self.intent_for(server).maintenance();
        Ok(self.maintenance_of(server, mode, mode).await)
    }

    pub(crate) async fn host_maintenance(
        &self,
        host: String,
        request: v1::HostMaintenance,
    ) -> ApiResult<v1::Maintenance> {
        let server = self.find_host(&host)?;
        if !request.enter {
            if request.mode.is_some() || request.force {
                return Err(ApiError::invalid("a mode and force are of entering maintenance"));
            }
            if !request.dry_run {
                self.want_maintenance(server, None).await?;
            }
            let stands = self.intent_for(server).maintenance().filter(|_| request.dry_run);
            return Ok(self.maintenance_of(server, stands, None).await);
        }
        if !self.level().has(Feature::Moves) {
            return Err(ApiError::refused("maintenance needs an upgrade that is finished").remedy(
                "`cairn cluster upgrade status` tells what is missing, `cairn cluster upgrade finish` ends it",
            ));
        }
        let mode = request.mode.unwrap_or_default();
        let preview = self.maintenance_of(server, self.intent_for(server).maintenance(), Some(mode)).await;
        if request.dry_run {
            return Ok(preview);
        }
        if !request.force {
            refuse(&preview, mode)?;
        }
        self.want_maintenance(server, Some(mode)).await?;
        Ok(v1::Maintenance { state: state_of(Some(mode), preview.components_left), ..preview })
    }

    async fn want_maintenance(&self, server: HostId, mode: Option<MaintenanceMode>) -> ApiResult<()> {
        let want = HostIntent { maintenance: mode.is_some(), mode };
        let update = self.inner.registry.update::<HostIntent>(&server, |known| {
            Ok((known.cloned().unwrap_or_default() != want).then(|| want.clone()))
        });
        update.await.map(drop).map_err(directory_error)
    }

    /// What maintenance in this mode asks for, as the cluster is now, where another one stands.
    async fn maintenance_of(
        &self,
        server: HostId,
        stands: Option<MaintenanceMode>,
        mode: Option<MaintenanceMode>,
    ) -> v1::Maintenance {
        let shards = self.shards_of(server);
        let mut picture = self.picture();
        for host in picture.hosts.iter_mut().filter(|host| shards.contains(&host.host)) {
            host.maintenance = mode;
        }
        let mut preview = MaintenancePreview::new(picture, &shards);
        let owned = self.owned_everywhere().await;
        for (n, (object, entry)) in self.catalogue().into_iter().enumerate() {
            if n % DISKS_TOGETHER == DISKS_TOGETHER - 1 {
                self.inner.env.give_way().await;
            }
            let config = match owned.get(&object) {
                Some(status) => Some(status.config.clone()),
                None => self.inner.objects.look_up(object, &entry.hint_hosts).await.map(|(known, _)| known.config),
            };
            config.into_iter().filter(|config| !config.deleted).for_each(|config| preview.add(&config));
        }
        let components_left = preview.components.len() as u32;
        let (bytes_left, eta_s) = self.left_to_move(&shards, &preview.components, &owned).await;
        v1::Maintenance {
            host: self.host_name(server),
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

    /// Bytes that these components hold and no twin does yet, and seconds for them at the rate of the moves under way.
    async fn left_to_move(
        &self,
        shards: &[HostId],
        components: &[ComponentId],
        owned: &BTreeMap<ObjectId, ObjectStatus>,
    ) -> (u64, Option<u64>) {
        let usage = join_all(shards.iter().map(|shard| self.on_host(*shard, HostCommand::Usage))).await;
        let held: BTreeMap<ComponentId, u64> = usage
            .into_iter()
            .filter_map(|answer| match answer {
                Ok(HostAnswer::Usage(held)) => Some(held),
                _ => None,
            })
            .flatten()
            .collect();
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
        (left, (rate_per_s > 0).then(|| left.div_ceil(rate_per_s)))
    }

    /// What the components of this host hold.
    pub(crate) fn usage_here(&self) -> Vec<(ComponentId, u64)> {
        let stores = self.inner.seats.stores();
        let all = stores.iter().flat_map(|store| store.group().components());
        let block = u64::from(cairn_types::BLOCK_BYTES);
        all.filter(|c| c.size_blocks > 0).map(|c| (c.id, c.allocated_blocks * block)).collect()
    }
}

fn state_of(stands: Option<MaintenanceMode>, components_left: u32) -> v1::MaintenanceState {
    match (stands, components_left) {
        (None, _) => v1::MaintenanceState::Out,
        (Some(_), 0) => v1::MaintenanceState::In,
        (Some(_), _) => v1::MaintenanceState::Entering,
    }
}

/// Refuses what would leave the host half emptied, or a disk without service.
fn refuse(preview: &v1::Maintenance, mode: MaintenanceMode) -> ApiResult<()> {
    let host = &preview.host;
    let some = |all: &[String]| {
        let more = all.len().saturating_sub(NAMED_MAX);
        let named = all[..all.len() - more].join("; ");
        if more == 0 { named } else { format!("{named}; and {more} more") }
    };
    if !preview.obstacles.is_empty() {
        let text = format!("host {host} cannot be emptied ({}): {}", mode.name(), some(&preview.obstacles));
        return Err(ApiError::refused(text).remedy(
            "Add a host or capacity, choose another mode, or use --force: what can be moved is, the rest stays",
        ));
    }
    if !preview.inaccessible.is_empty() {
        let text = format!("while host {host} is away these disks are not served: {}", some(&preview.inaccessible));
        return Err(ApiError::refused(text)
            .remedy("Use --mode ensure-accessibility, which moves them, wait until they are healthy, or use --force"));
    }
    Ok(())
}
