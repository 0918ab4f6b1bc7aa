//! Hosts and their disk groups.

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::{DiskGroupEntry, HostEntry};
use cairn_env::Env;
use cairn_format::NO_DEVICE;
use cairn_object::LocalStore;
use cairn_store::{Choice, StoreErrorKind};
use cairn_types::{DeviceId, DiskGroupId, Feature, HostId};
use cairn_wire::{Api, DiskGroupSummary, HostAnswer, HostCommand};
use futures::future::join_all;

use crate::{node::Node, servers::Server};

impl<E: Env> Node<E> {
    /// The name of a host's server, or its id where the local copy does not know it.
    pub(crate) fn server_name(&self, host: HostId) -> String {
        self.host_name(self.server_of(host))
    }

    /// The name of a host by itself, also where it is a shard among others of its server.
    pub(crate) fn host_name(&self, host: HostId) -> String {
        if host == self.me() {
            return self.inner.options.entry.name.as_str().to_owned();
        }
        if let Some(gone) = self.inner.gone.name(host) {
            return gone;
        }
        let entry = self.inner.copy.borrow().get::<HostEntry>(&host);
        entry.map_or_else(|| host.to_string(), |e| e.name.as_str().to_owned())
    }

    /// A server by name or id, its own or one of its shards'.
    pub(crate) fn find_host(&self, text: &str) -> ApiResult<HostId> {
        let hosts = self.inner.copy.borrow().hosts();
        let found = hosts.iter().find(|(id, entry)| entry.name.as_str() == text || id.to_string() == text);
        found
            .map(|(id, entry)| entry.shard_of.unwrap_or(*id))
            .ok_or_else(|| ApiError::not_found(format!("there is no host {text:?}")).remedy("See `cairn host list`"))
    }

    /// What a host told of its disk groups last; nothing where it does not answer: that can neither be used nor filled.
    pub(crate) fn told_groups(&self, host: HostId) -> Vec<DiskGroupSummary> {
        if host != self.me() && !self.inner.rpc.is_up(host) {
            return Vec::new();
        }
        if host == self.me() {
            return self.inner.seats.stores().iter().map(LocalStore::summary).collect();
        }
        self.inner.leases.peers().get(&host).map(|p| p.summary.disk_groups.clone()).unwrap_or_default()
    }

    /// Every server, without what only itself can tell. One is up when all its shards are.
    pub(crate) fn hosts(&self) -> Vec<v1::Host> {
        let peers = self.inner.leases.peers();
        let up = self.inner.rpc.peers_up();
        let one = |Server { id, entry, shards }| {
            let groups: Vec<DiskGroupSummary> = shards.iter().flat_map(|shard| self.told_groups(*shard)).collect();
            let incarnation = match id == self.me() {
                true => self.inner.env.incarnation(),
                false => up.get(&id).copied().or(peers.get(&id).map(|p| p.incarnation)).unwrap_or_default(),
            };
            v1::Host {
                id,
                name: entry.name.as_str().to_owned(),
                fault_domain: entry.fault_domain.as_str().to_owned(),
                address: entry.peer_address.to_string(),
                nbd_addresses: entry.nbd_addresses,
                vhost_user_dir: entry.vhost_user_dir,
                up: shards.iter().all(|shard| self.inner.rpc.is_up(*shard)),
                incarnation: incarnation.0,
                maintenance: self.intent_for(id).maintenance,
                shards: Some(shards.len() as u32),
                disk_groups: self.groups_of(&shards),
                capacity: capacity_of(&groups),
                disks_owned: None,
            }
        };
        self.servers().into_iter().map(one).collect()
    }

    /// Disk groups that the directory knows of these hosts, open or not.
    pub(crate) fn groups_of(&self, hosts: &[HostId]) -> Vec<DiskGroupId> {
        let all = self.inner.copy.borrow().disk_groups();
        all.into_iter().filter(|(_, entry)| hosts.contains(&entry.host)).map(|(id, _)| id).collect()
    }

    /// Every server, with how many disks each owns that answers.
    pub(crate) async fn host_list(&self) -> ApiResult<Vec<v1::Host>> {
        let mut hosts = self.hosts();
        let count = |host: v1::Host| async move {
            let asked = self.shards_of(host.id).into_iter().map(|shard| self.on_host(shard, HostCommand::OwnedCount));
            let mut sum = Some(0);
            for answer in join_all(asked).await {
                sum = match answer {
                    Ok(HostAnswer::OwnedCount(count)) => sum.map(|sum| sum + count),
                    _ => None,
                };
            }
            v1::Host { disks_owned: sum, ..host }
        };
        hosts = join_all(hosts.into_iter().map(count)).await;
        Ok(hosts)
    }

    pub(crate) async fn host_show(&self, host: String) -> ApiResult<v1::Host> {
        let id = self.find_host(&host)?;
        let found = self.host_list().await?.into_iter().find(|h| h.id == id);
        found.ok_or_else(|| ApiError::not_found(format!("there is no host {host:?}")))
    }

    /// This host's disk groups in full.
    pub(crate) fn groups_here(&self) -> Vec<v1::DiskGroup> {
        let (mut all, kinds) = (Vec::new(), self.kinds());
        for store in self.inner.seats.stores() {
            let stats = store.group().stats();
            let paths = self.inner.groups.borrow().get(&store.disk_group()).cloned();
            let Some(paths) = paths else { continue };
            let path_of = |id: DeviceId| {
                paths.all().zip(&paths.devices).find(|(_, known)| **known == id).map(|(path, _)| path.clone())
            };
            let device = |d: &cairn_store::DeviceStats| v1::Device {
                id: d.device,
                path: path_of(d.device).unwrap_or_else(|| d.name.clone()),
                size_bytes: d.bytes,
                state: device_state(d),
                problem: d.failure.as_ref().map(ToString::to_string),
                medium: d.medium.clone(),
                slow: self.slow_device(d.device),
            };
            all.push(v1::DiskGroup {
                id: store.disk_group(),
                host: self.server_of(self.me()),
                host_name: self.server_name(self.me()),
                state: if stats.stopped.is_some() { v1::DiskGroupState::Failed } else { v1::DiskGroupState::Mounted },
                draining: self.is_draining(self.me(), store.disk_group()),
                reason: stats.stopped.clone().or_else(|| store.log_damage()),
                slow: self.about_slow(self.me(), store.disk_group()),
                cache: Some(device(&stats.cache)),
                devices: stats.capacity.iter().filter(|d| d.device != NO_DEVICE).map(device).collect(),
                capacity: capacity_of(&[store.summary()]),
                log: Some(v1::LogFill { size_bytes: stats.log_bytes, used_bytes: stats.log_used_bytes }),
                components: Some(store.summary().components),
                scrubbed_unix_ms: Some(store.group().scrub_state().ended_unix_ms).filter(|ended| *ended > 0),
                compression: Some(stats.compression),
                deduplication: Some(stats.deduplication),
                rewriting: stats.rewriting.map(rewriting),
                space: Some(self.group_space(store.group(), &stats, &kinds)),
            });
        }
        for (id, closed) in self.inner.closed_groups.borrow().iter() {
            all.push(self.unseen_group(*id, self.me(), v1::DiskGroupState::Failed, closed.reason()));
        }
        all
    }

    fn unseen_group(&self, id: DiskGroupId, host: HostId, state: v1::DiskGroupState, reason: String) -> v1::DiskGroup {
        v1::DiskGroup {
            id,
            host: self.server_of(host),
            host_name: self.server_name(host),
            state,
            draining: self.is_draining(host, id),
            reason: Some(reason),
            slow: self.about_slow(host, id),
            cache: None,
            devices: Vec::new(),
            capacity: v1::Capacity::default(),
            log: None,
            components: None,
            scrubbed_unix_ms: None,
            compression: None,
            deduplication: None,
            rewriting: None,
            space: None,
        }
    }

    pub(crate) async fn disk_group_list(&self) -> ApiResult<Vec<v1::DiskGroup>> {
        let mut all = Vec::new();
        let mut hosts = self.peers_up();
        hosts.push(self.me());
        let asked = hosts.into_iter().map(|host| self.on_host(host, HostCommand::Groups));
        for answer in join_all(asked).await {
            if let Ok(HostAnswer::Groups(Api(groups))) = answer {
                all.extend(groups);
            }
        }
        for (id, entry) in self.inner.copy.borrow().disk_groups() {
            if !all.iter().any(|g| g.id == id) {
                let why = "its host does not answer".to_owned();
                all.push(self.unseen_group(id, entry.host, v1::DiskGroupState::Unreachable, why));
            }
        }
        all.sort_by(|a, b| (&a.host_name, a.id).cmp(&(&b.host_name, b.id)));
        Ok(all)
    }

    pub(crate) async fn disk_group_show(&self, disk_group: DiskGroupId) -> ApiResult<v1::DiskGroup> {
        let found = self.disk_group_list().await?.into_iter().find(|g| g.id == disk_group);
        found.ok_or_else(|| ApiError::not_found(format!("there is no disk group {disk_group}")))
    }

    pub(crate) async fn disk_group_create(&self, request: v1::DiskGroupCreate) -> ApiResult<v1::DiskGroup> {
        let server = match &request.host {
            Some(host) => self.find_host(host)?,
            None => self.me(),
        };
        // The shard with the fewest: each of them has its own thread.
        let shards = self.shards_of(server).into_iter();
        let host = shards.min_by_key(|shard| self.told_groups(*shard).len()).expect("a server has a shard");
        let HostAnswer::Created(id) = self.on_host(host, HostCommand::CreateGroup(Api(request))).await? else {
            return Err(ApiError::internal("the host answered something else"));
        };
        let found = self.disk_group_list().await?.into_iter().find(|g| g.id == id);
        found.ok_or_else(|| ApiError::internal(format!("disk group {id} was made and is not there")))
    }

    /// Adds a capacity device to a disk group in use, or tells what would come of it.
    pub(crate) async fn disk_group_add_capacity(
        &self,
        disk_group: DiskGroupId,
        request: v1::DiskGroupAddCapacity,
    ) -> ApiResult<v1::DeviceChange> {
        let v1::DiskGroupAddCapacity { device, overwrite, dry_run } = request;
        let order = v1::DeviceOrder { device, instead_of: None, overwrite, dry_run, force: false };
        self.change_devices(disk_group, order).await
    }

    /// Puts a device in the place of one, or tells what would come of it.
    pub(crate) async fn disk_group_replace_device(
        &self,
        disk_group: DiskGroupId,
        request: v1::DiskGroupReplaceDevice,
    ) -> ApiResult<v1::DeviceChange> {
        let v1::DiskGroupReplaceDevice { device, with, overwrite, dry_run, force } = request;
        let order = v1::DeviceOrder { device: with, instead_of: Some(device), overwrite, dry_run, force };
        self.change_devices(disk_group, order).await
    }

    /// Chooses anew what can be chosen of a disk group in use.
    pub(crate) async fn disk_group_set(
        &self,
        disk_group: DiskGroupId,
        settings: v1::DiskGroupSettings,
    ) -> ApiResult<v1::DiskGroup> {
        settings.validate()?;
        let host = self.holder_of(disk_group)?;
        let chosen = [
            (settings.compression, Feature::Compression, "compression"),
            (settings.deduplication, Feature::Deduplication, "deduplication"),
            (settings.rewrite, Feature::Deduplication, "writing anew"),
        ];
        for (_, feature, name) in chosen.into_iter().filter(|(setting, ..)| setting.is_some()) {
            self.check_is_on(feature, name)?;
        }
        self.on_host(host, HostCommand::SetGroup { disk_group, settings: Api(settings) }).await?;
        self.disk_group_show(disk_group).await
    }

    /// The same, of a disk group of this host.
    pub(crate) async fn set_group_here(
        &self,
        disk_group: DiskGroupId,
        settings: v1::DiskGroupSettings,
    ) -> ApiResult<()> {
        let closed = || ApiError::unavailable("the disk group is not open there").remedy("See `cairn disk-group list`");
        let store = self.inner.seats.store(disk_group).ok_or_else(closed)?;
        let v1::DiskGroupSettings { compression, deduplication, rewrite } = settings;
        if deduplication == Some(true)
            && let Some(path) = self.rotating_device(disk_group).await
        {
            let why = "rotates: blocks that may be equal are read to be compared, and each of these reads would move its heads";
            return Err(ApiError::refused(format!("{path} {why}"))
                .remedy("Leave deduplication off there; compression reads nothing"));
        }
        store.group().choose(Choice { compression, deduplication, rewrite }).await.map_err(|error| match error.kind {
            StoreErrorKind::Refused => ApiError::refused(error.text),
            _ => ApiError::unavailable(error.text),
        })
    }

    async fn change_devices(&self, disk_group: DiskGroupId, order: v1::DeviceOrder) -> ApiResult<v1::DeviceChange> {
        let host = self.holder_of(disk_group)?;
        if host != self.me() {
            self.knows_devices()?;
        }
        match self.on_host(host, HostCommand::ChangeDevices { disk_group, order: Api(order) }).await? {
            HostAnswer::DevicesChanged(Api(change)) => Ok(change),
            _ => Err(ApiError::internal("the host answered something else")),
        }
    }

    /// Hosts of earlier releases do not know the questions.
    pub(crate) fn knows_devices(&self) -> ApiResult<()> {
        match self.level().has(Feature::Moves) {
            true => Ok(()),
            false => Err(ApiError::refused("the host may run a release that does not know the question")
                .remedy("Finish the upgrade (`cairn cluster upgrade status`), or ask that host itself (--api)")),
        }
    }

    pub(crate) async fn disk_group_remove(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        let all = self.disk_group_list().await?;
        let group = all.iter().find(|g| g.id == disk_group);
        let group = group.ok_or_else(|| ApiError::not_found(format!("there is no disk group {disk_group}")))?;
        let entry = self.inner.copy.borrow().get::<DiskGroupEntry>(&disk_group);
        let host = entry.map_or(group.host, |entry| entry.host);
        self.on_host(host, HostCommand::RemoveGroup(disk_group)).await?;
        // It is gone: what was wanted of it is, too. Where the directory does not take that now, it says nothing of any disk group.
        let server = self.server_of(host);
        let _ = self.want(server, |intent| intent.draining.retain(|id| *id != disk_group)).await;
        let _ = self.forget_slow(disk_group).await;
        Ok(())
    }
}

fn device_state(device: &cairn_store::DeviceStats) -> v1::DeviceState {
    match &device.failure {
        Some(failure) if failure.kind == cairn_env::DiskErrorKind::NoSpace => v1::DeviceState::NoSpace,
        _ if device.failed => v1::DeviceState::Failed,
        _ => v1::DeviceState::Ok,
    }
}

/// Space of disk groups as they told it.
pub(crate) fn capacity_of(groups: &[DiskGroupSummary]) -> v1::Capacity {
    let raw_bytes = groups.iter().map(DiskGroupSummary::total_bytes).sum();
    let free_bytes = groups.iter().map(DiskGroupSummary::free_bytes).sum();
    v1::Capacity { raw_bytes, used_bytes: raw_bytes - free_bytes, free_bytes }
}

fn rewriting(of: cairn_store::RewriteProgress) -> v1::Rewriting {
    let cairn_store::RewriteProgress { done_segments, segments, left, lacks_room } = of;
    v1::Rewriting { done_segments, segments, left_s: left.map(|left| left.as_secs()), lacks_room }
}
