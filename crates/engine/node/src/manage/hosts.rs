//! Hosts and their disk groups.

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::{DiskGroupEntry, HostEntry};
use cairn_env::Env;
use cairn_object::LocalStore;
use cairn_types::{DiskGroupId, HostId};
use cairn_wire::DiskGroupSummary;

use crate::{
    manage::remote::{HostAnswer, HostCommand},
    node::Node,
};

impl<E: Env> Node<E> {
    /// A host's name, or its id where the local copy does not know it.
    pub(crate) fn host_name(&self, host: HostId) -> String {
        if host == self.me() {
            return self.inner.options.entry.name.as_str().to_owned();
        }
        let entry = self.inner.copy.borrow().get::<HostEntry>(&host);
        entry.map_or_else(|| host.to_string(), |e| e.name.as_str().to_owned())
    }

    /// A host by name or id.
    pub(crate) fn find_host(&self, text: &str) -> ApiResult<HostId> {
        let hosts = self.inner.copy.borrow().list::<HostEntry>();
        let found = hosts.iter().find(|(id, entry)| entry.name.as_str() == text || id.to_string() == text);
        found
            .map(|(id, _)| *id)
            .ok_or_else(|| ApiError::not_found(format!("there is no host {text:?}")).remedy("See `cairn host list`"))
    }

    pub(crate) fn told_groups(&self, host: HostId) -> Vec<DiskGroupSummary> {
        if host == self.me() {
            return self.inner.seats.stores().iter().map(LocalStore::summary).collect();
        }
        self.inner.leases.peers().get(&host).map(|p| p.summary.disk_groups.clone()).unwrap_or_default()
    }

    pub(crate) fn hosts(&self) -> Vec<v1::Host> {
        let peers = self.inner.leases.peers();
        let up = self.inner.rpc.peers_up();
        let one = |(id, entry): (HostId, HostEntry)| {
            let own = id == self.me();
            let groups = self.told_groups(id);
            let incarnation = match own {
                true => self.inner.env.incarnation(),
                false => up.get(&id).copied().or(peers.get(&id).map(|p| p.incarnation)).unwrap_or_default(),
            };
            v1::Host {
                id,
                name: entry.name.as_str().to_owned(),
                fault_domain: entry.fault_domain.as_str().to_owned(),
                address: entry.peer_address.to_string(),
                up: own || up.contains_key(&id),
                incarnation: incarnation.0,
                maintenance: entry.maintenance,
                shards: own.then_some(1),
                disk_groups: groups.iter().map(|g| g.disk_group).collect(),
                capacity: capacity_of(&groups),
                disks_owned: own.then(|| self.inner.shard.all_owned().len() as u32),
            }
        };
        let mut hosts: Vec<v1::Host> = self.inner.copy.borrow().list::<HostEntry>().into_iter().map(one).collect();
        hosts.sort_by(|a, b| a.name.cmp(&b.name));
        hosts
    }

    /// This host's disk groups in full.
    pub(crate) fn groups_here(&self) -> Vec<v1::DiskGroup> {
        let mut all = Vec::new();
        for store in self.inner.seats.stores() {
            let stats = store.group().stats();
            let paths = self.inner.groups.borrow().get(&store.disk_group()).cloned();
            let Some(paths) = paths else { continue };
            let device = |n: usize, d: &cairn_store::DeviceStats| v1::Device {
                id: paths.devices.get(n).copied().unwrap_or_default(),
                path: if n == 0 { paths.cache.clone() } else { paths.capacity[n - 1].clone() },
                size_bytes: d.bytes,
                state: if d.failed { v1::DeviceState::Failed } else { v1::DeviceState::Ok },
                medium: d.medium.clone(),
            };
            all.push(v1::DiskGroup {
                id: store.disk_group(),
                host: self.me(),
                host_name: self.host_name(self.me()),
                state: if stats.stopped.is_some() { v1::DiskGroupState::Failed } else { v1::DiskGroupState::Mounted },
                reason: stats.stopped.clone(),
                cache: Some(device(0, &stats.cache)),
                devices: stats.capacity.iter().enumerate().map(|(n, d)| device(n + 1, d)).collect(),
                capacity: capacity_of(&[store.summary()]),
                log: Some(v1::LogFill { size_bytes: stats.log_bytes, used_bytes: stats.log_used_bytes }),
                components: Some(store.summary().components),
            });
        }
        for (id, (_, reason)) in self.inner.failed_groups.borrow().iter() {
            all.push(self.unseen_group(*id, self.me(), v1::DiskGroupState::Failed, reason.clone()));
        }
        all
    }

    fn unseen_group(&self, id: DiskGroupId, host: HostId, state: v1::DiskGroupState, reason: String) -> v1::DiskGroup {
        v1::DiskGroup {
            id,
            host,
            host_name: self.host_name(host),
            state,
            reason: Some(reason),
            cache: None,
            devices: Vec::new(),
            capacity: v1::Capacity::default(),
            log: None,
            components: None,
        }
    }

    pub(crate) async fn disk_groups(&self) -> ApiResult<Vec<v1::DiskGroup>> {
        let mut all = Vec::new();
        let mut hosts = self.peers_up();
        hosts.push(self.me());
        let asked = hosts.into_iter().map(|host| self.on_host(host, HostCommand::Groups));
        for answer in futures::future::join_all(asked).await {
            if let Ok(HostAnswer::Groups(groups)) = answer {
                all.extend(groups);
            }
        }
        for (id, entry) in self.inner.copy.borrow().list::<DiskGroupEntry>() {
            if !all.iter().any(|g| g.id == id) {
                let why = "its host does not answer".to_owned();
                all.push(self.unseen_group(id, entry.host, v1::DiskGroupState::Unreachable, why));
            }
        }
        all.sort_by(|a, b| (&a.host_name, a.id).cmp(&(&b.host_name, b.id)));
        Ok(all)
    }

    pub(crate) async fn create_group(&self, request: v1::DiskGroupCreate) -> ApiResult<v1::DiskGroup> {
        let host = match &request.host {
            Some(host) => self.find_host(host)?,
            None => self.me(),
        };
        let HostAnswer::Created(id) = self.on_host(host, HostCommand::CreateGroup(request)).await? else {
            return Err(ApiError::internal("the host answered something else"));
        };
        let found = self.disk_groups().await?.into_iter().find(|g| g.id == id);
        found.ok_or_else(|| ApiError::internal(format!("disk group {id} was made and is not there")))
    }

    pub(crate) async fn remove_group(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        let all = self.disk_groups().await?;
        let group = all.iter().find(|g| g.id == disk_group);
        let group = group.ok_or_else(|| ApiError::not_found(format!("there is no disk group {disk_group}")))?;
        self.on_host(group.host, HostCommand::RemoveGroup(disk_group)).await.map(drop)
    }
}

/// Space of disk groups as they told it.
pub(crate) fn capacity_of(groups: &[DiskGroupSummary]) -> v1::Capacity {
    let raw_bytes = groups.iter().map(|g| g.total_bytes).sum();
    let free_bytes = groups.iter().map(|g| g.free_bytes).sum();
    v1::Capacity { raw_bytes, used_bytes: raw_bytes - free_bytes, free_bytes }
}
