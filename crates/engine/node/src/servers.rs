//! Servers and their shards. A shard is a host by itself to the others, with its own disk groups, disks and leases; people
//! administer the server.
//!
//! Promises    a server is called by the name of its first shard, whichever of its shards is meant
//!             all sessions with a disk at one server meet at one shard while the disk's copies stay where they are
//! Not here    threads and sockets of shards (the daemon)

use std::collections::BTreeMap;

use cairn_directory::{HostEntry, HostIntent};
use cairn_env::Env;
use cairn_types::{HostId, Member, ObjectConfig};

use crate::node::Node;

/// A server as the local copy of the directory has it.
pub(crate) struct Server {
    /// Its first shard, by whose id the server is known.
    pub(crate) id: HostId,
    /// The first shard's entry.
    pub(crate) entry: HostEntry,
    /// All its shards, the first one first, then by name.
    pub(crate) shards: Vec<HostId>,
}

/// Entries of hosts as servers, by name. A shard whose first is not entered yet is not shown.
fn servers_of(hosts: Vec<(HostId, HostEntry)>) -> Vec<Server> {
    let (firsts, mut others): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|(_, entry)| entry.shard_of.is_none());
    others.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    let mut servers: Vec<Server> =
        firsts.into_iter().map(|(id, entry)| Server { id, entry, shards: vec![id] }).collect();
    servers.sort_by(|a, b| a.entry.name.cmp(&b.entry.name));
    for (id, entry) in others {
        if let Some(server) = servers.iter_mut().find(|server| Some(server.id) == entry.shard_of) {
            server.shards.push(id);
        }
    }
    servers
}

/// Which of a server's shards serves a disk: the one with most of its copies that are in sync, as what is there needs no way to
/// another processor; without any, one that the disk's id tells.
///
/// # Panics
/// On no shards.
pub(crate) fn serving_shard(shards: &[HostId], config: &ObjectConfig) -> HostId {
    let is_copy = |m: &&Member| m.set().is_some() && m.state.in_sync();
    let mut copies: BTreeMap<HostId, usize> = BTreeMap::new();
    for member in config.members.iter().filter(is_copy) {
        *copies.entry(member.host).or_default() += 1;
    }
    let count = |shard: &HostId| copies.get(shard).copied().unwrap_or(0);
    let most = shards.iter().map(count).max().unwrap_or(0);
    let best: Vec<HostId> = shards.iter().copied().filter(|shard| count(shard) == most).collect();
    best[(config.object.0 % best.len() as u128) as usize]
}

impl<E: Env> Node<E> {
    /// Every server of the cluster, by name.
    pub(crate) fn servers(&self) -> Vec<Server> {
        servers_of(self.inner.copy.borrow().hosts())
    }

    /// The server that a shard belongs to: the id of its first shard.
    pub(crate) fn server_of(&self, host: HostId) -> HostId {
        let shard_of = match host == self.me() {
            true => self.inner.options.entry.shard_of,
            false => self.inner.copy.borrow().get::<HostEntry>(&host).and_then(|entry| entry.shard_of),
        };
        shard_of.unwrap_or(host)
    }

    /// What administrators want of a host's server.
    pub(crate) fn intent_for(&self, host: HostId) -> HostIntent {
        let intents = self.inner.intents.borrow();
        if intents.is_empty() {
            return HostIntent::default();
        }
        let server = self.server_of(host);
        intents.iter().find(|(id, _)| *id == server).map(|(_, intent)| intent.clone()).unwrap_or_default()
    }

    /// The shards of a server, given by any of them.
    pub(crate) fn shards_of(&self, host: HostId) -> Vec<HostId> {
        let server = self.server_of(host);
        if server == self.server_of(self.me()) {
            return self.inner.options.shards.clone();
        }
        let known = self.servers().into_iter().find(|known| known.id == server);
        known.map_or_else(|| vec![host], |known| known.shards)
    }

    /// The shard of this process that a session with the disk of that name should be at, counted from 0; none: it is as well here.
    pub async fn shard_to_serve(&self, name: &str) -> Option<usize> {
        let shards = &self.inner.options.shards;
        if shards.len() < 2 {
            return None;
        }
        let (object, entry) = self.find_disk(name).await?;
        let (known, _) = self.inner.objects.look_up(object, &entry.hint_hosts).await?;
        let serving = serving_shard(shards, &known.config);
        shards.iter().position(|shard| *shard == serving).filter(|_| serving != self.me())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use cairn_directory::Name;
    use cairn_types::{ComponentId, ComponentState, DiskGroupId, Layout, ObjectId, OpId, Policy, Redundancy, Role};

    use super::*;

    fn entry(id: u128, name: &str, shard_of: Option<u128>) -> (HostId, HostEntry) {
        let name = Name::new(name).unwrap();
        let entry = HostEntry {
            fault_domain: name.clone(),
            name,
            peer_address: SocketAddr::from(([10, 0, 0, 1], 9600)),
            api_address: None,
            nbd_addresses: Vec::new(),
            vhost_user_dir: None,
            shard_of: shard_of.map(HostId),
            build: None,
        };
        (HostId(id), entry)
    }

    #[test]
    fn shards_are_shown_as_their_server() {
        let hosts = vec![
            entry(9, "a.shard-3", Some(7)),
            entry(3, "b", None),
            entry(7, "a", None),
            entry(8, "a.shard-2", Some(7)),
            entry(5, "c.shard-2", Some(4)),
        ];
        let servers = servers_of(hosts);
        let told: Vec<_> = servers.iter().map(|s| (s.entry.name.as_str(), s.shards.clone())).collect();
        assert_eq!(told, [("a", vec![HostId(7), HostId(8), HostId(9)]), ("b", vec![HostId(3)])]);
    }

    fn disk(object: u128, members: &[(u128, Role, ComponentState)]) -> ObjectConfig {
        let member = |(n, &(host, role, state)): (usize, &(u128, Role, ComponentState))| Member {
            component: ComponentId(n as u128),
            host: HostId(host),
            disk_group: DiskGroupId(host),
            votes: 1,
            role,
            state,
        };
        ObjectConfig {
            object: ObjectId(object),
            name: "disk".into(),
            size_bytes: 1 << 20,
            policy: Policy::default(),
            policy_name: "default".into(),
            addresses: Layout {
                chunk_bytes: 1 << 30,
                stripe_width: 1,
                strip_bytes: 1 << 20,
                redundancy: Redundancy::Mirror { copies: 2 },
            }
            .into(),
            members: members.iter().enumerate().map(member).collect(),
            decided: OpId::ZERO,
            deleted: false,
            past: None,
            ancestry: None,
        }
    }

    /// Goal: a disk is served where its copy is, and otherwise disks spread. Method: the cases of one server with shards 1 and 2.
    #[test]
    fn a_disk_is_served_by_the_shard_that_has_its_copy() {
        const COPY: Role = Role::Data { set: 0, copy: 0 };
        let stale = ComponentState::Absent { stale_since: OpId::ZERO };
        let shards = [HostId(1), HostId(2)];
        let at = |object, members: &[_]| serving_shard(&shards, &disk(object, members)).0;
        for object in 0..4 {
            let elsewhere = (5, COPY, ComponentState::Active);
            assert_eq!(at(object, &[elsewhere, (2, COPY, ComponentState::Active)]), 2);
            assert_eq!(at(object, &[elsewhere, (1, COPY, ComponentState::Active)]), 1);
            // A witness needs no way, and what is not in sync is not read.
            let spread = 1 + object % 2;
            assert_eq!(at(object, &[elsewhere, (2, Role::Witness, ComponentState::Active)]), spread);
            assert_eq!(at(object, &[elsewhere, (2, COPY, stale)]), spread);
            assert_eq!(at(object, &[(1, COPY, ComponentState::Active), (2, COPY, ComponentState::Active)]), spread);
        }
    }
}
