//! An upgrade of the cluster as administrators see it, and its end.
//!
//! Promises    nothing is switched on while a host does not answer or runs what does not speak it; each is named, with what to do
//!             finishing is one transaction of the directory, which fails where a host was entered anew meanwhile
//! Not here    the decisions (`cairn_upgrade`), what follows from a level (`level`)

use std::collections::BTreeMap;

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::{DirectoryError, HostEntry, Revision};
use cairn_env::Env;
use cairn_types::{Build, Feature, HostId, Level};
use cairn_upgrade::{Hearing, Standing, obstacles, target};
use cairn_wire::SPEAKS;

use crate::{manage::directory_error, node::Node};

/// Times that hosts are looked at again because one was entered meanwhile: at an upgrade hosts come one by one.
const ROUNDS_MAX: u32 = 5;

/// A server with its shards: what is entered of each.
type Entered = BTreeMap<HostId, Vec<(HostId, HostEntry)>>;

fn by_server(hosts: impl IntoIterator<Item = (HostId, HostEntry)>) -> Entered {
    let mut servers = Entered::new();
    for (host, entry) in hosts {
        servers.entry(entry.shard_of.unwrap_or(host)).or_default().push((host, entry));
    }
    // The first shard first: it has the server's name.
    servers.iter_mut().for_each(|(first, shards)| shards.sort_by_key(|(host, _)| host != first));
    servers
}

impl<E: Env> Node<E> {
    pub(crate) async fn cluster_upgrade(&self) -> ApiResult<v1::Upgrade> {
        Ok(self.upgrade(&by_server(self.inner.copy.borrow().hosts())))
    }

    pub(crate) async fn cluster_upgrade_finish(&self, request: v1::UpgradeFinish) -> ApiResult<v1::Upgrade> {
        let registry = &self.inner.registry;
        for _ in 0..ROUNDS_MAX {
            // Not the local copy: it may not have heard of the last one that came.
            let level = registry.level().await.map_err(directory_error)?;
            self.level_is(level);
            let listed = registry.list::<HostEntry>().await.map_err(directory_error)?;
            if let Some(damaged) = listed.damaged.into_iter().next() {
                return Err(directory_error(damaged));
            }
            let mut entered = listed.entries;
            entered.retain(|(host, _)| !self.inner.gone.has(*host));
            let seen: Vec<(HostId, Revision)> = {
                // First shards before others: each start of a server enters that one, too.
                let mut hosts: Vec<_> = entered.iter().collect();
                hosts.sort_by_key(|(_, found)| found.entry.shard_of.is_some());
                hosts.into_iter().map(|(host, found)| (*host, found.revision)).collect()
            };
            let found = self.upgrade(&by_server(entered.into_iter().map(|(host, found)| (host, found.entry))));
            if let [_, ..] = found.obstacles.as_slice() {
                let text =
                    format!("the upgrade to {} cannot be finished: {}", found.level_next, found.obstacles.join("; "));
                return Err(ApiError::refused(text).remedy("`cairn cluster upgrade status` shows every host"));
            }
            if request.dry_run || found.level == found.level_next {
                return Ok(found);
            }
            let next = Level(found.level_next);
            match registry.raise_level(next, &seen).await {
                Ok(()) => {
                    self.level_is(next);
                    return self.cluster_upgrade().await;
                }
                Err(DirectoryError::Conflict { .. }) => {}
                Err(error) => return Err(directory_error(error)),
            }
        }
        Err(ApiError::conflict("hosts start all the time").remedy("Try again when they have all started"))
    }

    fn upgrade(&self, servers: &Entered) -> v1::Upgrade {
        let hearings: Vec<(HostId, Standing)> =
            servers.iter().map(|(server, shards)| (*server, self.standing(*server, shards))).collect();
        let standings: Vec<Standing> = hearings.iter().map(|(_, standing)| standing.clone()).collect();
        let level = self.level();
        let next = target(level, &standings);
        let host = |(id, Standing { name, hearing }): (HostId, Standing)| {
            let (up, build) = match hearing {
                Hearing::Runs(build) => (true, Some(build)),
                Hearing::Silent(last) => (false, last),
            };
            let speaks = build.as_ref().map(|build| build.speaks);
            v1::UpgradeHost {
                id,
                name,
                up,
                version: build.map(|build| build.version),
                speaks_least: speaks.map(|speaks| speaks.least.0),
                speaks_highest: speaks.map(|speaks| speaks.highest.0),
            }
        };
        let feature = |feature: Feature| v1::UpgradeFeature {
            name: feature.name().to_owned(),
            since: feature.since().0,
            text: feature.sentence().to_owned(),
            on: level.has(feature),
        };
        let mut hosts: Vec<v1::UpgradeHost> = hearings.into_iter().map(host).collect();
        hosts.sort_by(|a, b| a.name.cmp(&b.name));
        v1::Upgrade {
            level: level.0,
            level_next: next.0,
            hosts,
            features: SPEAKS.features().map(feature).collect(),
            obstacles: if next > level { obstacles(next, &standings) } else { Vec::new() },
        }
    }

    fn standing(&self, server: HostId, shards: &[(HostId, HostEntry)]) -> Standing {
        let (_, first) = shards.first().expect("a server has a shard");
        let mine = server == self.server_of(self.me());
        let answers = mine || shards.iter().all(|(shard, _)| self.inner.rpc.is_up(*shard));
        let builds = self.inner.builds.borrow();
        let told: Vec<&Build> = shards.iter().filter_map(|(shard, _)| builds.get(shard)).collect();
        let hearing = match (mine, told.iter().min_by_key(|build| build.speaks.highest)) {
            (true, _) => Hearing::Runs(self.inner.env.build()),
            // Shards are one program; while it is being replaced, the older one counts.
            (false, Some(oldest)) if answers && told.len() == shards.len() => Hearing::Runs((*oldest).clone()),
            (false, _) => Hearing::Silent(first.build.clone()),
        };
        Standing { name: first.name.as_str().to_owned(), hearing }
    }
}
