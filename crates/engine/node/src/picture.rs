//! The cluster as placement sees it: the directory's hosts, and what each told of itself last.

use std::rc::Weak;

use cairn_directory::HostEntry;
use cairn_env::Env;
use cairn_object::{LocalStore, MemberChange, Placer};
use cairn_placement::{ClusterPicture, DevicePicture, DiskGroupPicture, HostPicture};
use cairn_types::{ComponentId, ObjectConfig};
use cairn_wire::DiskGroupSummary;

use crate::{
    node::{Node, NodeInner},
    servers::Server,
};

impl<E: Env> Node<E> {
    /// The picture now.
    pub(crate) fn picture(&self) -> ClusterPicture {
        let inner = &self.inner;
        let peers = inner.leases.peers();
        let hosts = inner.copy.borrow().list::<HostEntry>();
        let picture = |(host, entry): (cairn_types::HostId, HostEntry)| {
            let own: Vec<DiskGroupSummary>;
            let told = if host == self.me() {
                own = inner.seats.stores().iter().map(LocalStore::summary).collect();
                &own
            } else {
                peers.get(&host).map(|p| &p.summary.disk_groups).unwrap_or(const { &Vec::new() })
            };
            HostPicture {
                host,
                name: entry.name.as_str().to_owned(),
                fault_domain: Some(entry.fault_domain.as_str().to_owned()),
                up: inner.rpc.is_up(host),
                maintenance: self.intent_for(host).maintenance,
                disk_groups: told.iter().map(group_picture).collect(),
            }
        };
        ClusterPicture { hosts: hosts.into_iter().map(picture).collect() }
    }

    /// A new component id.
    pub(crate) fn draw_component(&self) -> ComponentId {
        let env = &self.inner.env;
        ComponentId::from_random(env.random_u64(), env.random_u64())
    }
}

fn group_picture(told: &DiskGroupSummary) -> DiskGroupPicture {
    DiskGroupPicture {
        disk_group: told.disk_group,
        up: told.healthy,
        devices: vec![DevicePicture { free_bytes: told.free_bytes, total_bytes: told.total_bytes }],
        free_bytes: told.free_bytes,
        components: told.components - told.witnesses,
        witnesses: told.witnesses,
    }
}

/// Placement for the object layer.
pub(crate) struct NodePlacer<E: Env> {
    node: Weak<NodeInner<E>>,
}

impl<E: Env> NodePlacer<E> {
    pub(crate) fn new(node: Weak<NodeInner<E>>) -> Self {
        Self { node }
    }

    fn node(&self) -> Result<Node<E>, String> {
        let inner = self.node.upgrade().ok_or("the host is stopping")?;
        Ok(Node { inner })
    }
}

impl<E: Env> Placer for NodePlacer<E> {
    fn replace(&self, config: &ObjectConfig, lost: ComponentId) -> Result<MemberChange, String> {
        let node = self.node()?;
        let change = cairn_placement::replace(&node.picture(), config, lost, &mut || node.draw_component());
        change.map(member_change).map_err(|refusal| refusal.text)
    }

    fn extend(&self, config: &ObjectConfig, size_bytes: u64) -> Result<MemberChange, String> {
        let node = self.node()?;
        let change = cairn_placement::extend(&node.picture(), config, size_bytes, &mut || node.draw_component());
        change.map(member_change).map_err(|refusal| refusal.text)
    }

    fn many_hosts_gone(&self) -> bool {
        let Ok(node) = self.node() else { return true };
        let servers = node.servers();
        let is_gone = |server: &&Server| server.shards.iter().any(|shard| !node.inner.rpc.is_up(*shard));
        let gone = servers.iter().filter(is_gone).count();
        gone > 1 && gone * 3 > servers.len()
    }
}

fn member_change(change: cairn_placement::Change) -> MemberChange {
    MemberChange { members: change.members, added: change.added, removed: change.removed }
}
