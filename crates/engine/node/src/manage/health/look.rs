//! The picture that checks look at, taken by asking every host that answers.

use cairn_api::v1;
use cairn_env::Env;
use futures::future::join4;

use super::{
    check::{ClockSeen, DirectorySeen, DiskSeen, HostSeen, Picture},
    report,
};
use crate::node::Node;

impl<E: Env> Node<E> {
    /// All checks, now.
    pub(crate) async fn check_health(&self) -> v1::Health {
        report(&self.picture_of_health().await)
    }

    async fn picture_of_health(&self) -> Picture {
        let (directory, groups, disks, scrubs) =
            join4(self.directory_seen(), self.disk_group_list(), self.disks_seen(), self.scrub_list()).await;
        let host = |host: v1::Host| {
            let intent = self.intent_for(host.id);
            let maintenance = intent.maintenance();
            // What was wanted of a disk group that was removed since is wanted no more.
            let draining = intent.draining.into_iter().filter(|id| host.disk_groups.contains(id)).collect();
            HostSeen { name: host.name, up: host.up, maintenance, draining }
        };
        Picture {
            hosts: self.hosts().into_iter().map(host).collect(),
            clocks: self.clocks_seen(),
            directory,
            groups: groups.unwrap_or_default(),
            scrubs: scrubs.unwrap_or_default(),
            scrub_period_days: self.scrub_period_days(),
            unix_ms: self.inner.env.unix_ms(),
            promised: self.promised(),
            disks,
        }
    }

    /// Clocks of servers, this one's first: all threads of a server have one clock.
    fn clocks_seen(&self) -> Vec<ClockSeen> {
        let mut clocks = vec![ClockSeen { host: self.server_name(self.me()), ahead_ms: 0 }];
        let peers = self.inner.leases.peers();
        for server in self.servers() {
            let told = peers.get(&server.id).filter(|_| self.inner.rpc.is_up(server.id));
            if let Some(told) = told.filter(|_| server.id != self.server_of(self.me())) {
                clocks.push(ClockSeen { host: self.server_name(server.id), ahead_ms: told.clock_ahead_ms });
            }
        }
        clocks
    }

    async fn directory_seen(&self) -> DirectorySeen {
        let inner = &self.inner;
        let health = inner.registry.health().await;
        DirectorySeen {
            up: inner.directory_up.get(),
            age_s: inner.copy.borrow().age_ms(inner.env.unix_ms()).map(|ms| ms / 1000),
            problem: health.problem,
            members: health.members,
        }
    }

    async fn disks_seen(&self) -> Vec<DiskSeen> {
        let owned = self.owned_everywhere().await;
        let seen = |disk: v1::DiskSummary| DiskSeen {
            unreadable_blocks: owned.get(&disk.id).map_or(0, |status| status.unreadable_blocks),
            name: disk.name,
            health: disk.health,
            reasons: disk.reasons,
        };
        self.disks_beside(&owned).await.into_iter().map(seen).collect()
    }
}
