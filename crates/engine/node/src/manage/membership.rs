//! Hosts leave: one that is empty is removed, one that is dead is forgotten; and either is taken in again.
//!
//! Promises    a host is removed only where no disk has anything there, and nobody uses a disk through it
//!             a host that some host hears is not forgotten; what would be lost with it is told before, by disk, and asks for force
//!             both are one transaction of the directory, which fails where the host has started meanwhile
//! Not here    what the others and the host itself do about it (`gone.rs`), rebuilding what a dead one held (`object`)

use std::{collections::BTreeSet, time::Duration};

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::{DirectoryError, Gone, HostEntry, Revision};
use cairn_env::Env;
use cairn_placement::{LossPreview, Lost};
use cairn_types::{Feature, HostId, MaintenanceMode, ObjectConfig, ObjectId};
use cairn_wire::{HostAnswer, HostCommand, ObjectStatus, Request};
use futures::future::join_all;

use crate::{
    manage::{directory_error, some_of},
    node::Node,
};

/// Disks that are handed over at a time: each is a seizure.
const HANDED_TOGETHER: usize = 16;
/// How long an answer waits until the host that gives it knows what it did.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks whether it does.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A disk that may have something at a host.
struct Held {
    name: String,
    /// None: nobody answers for it.
    config: Option<ObjectConfig>,
}

impl<E: Env> Node<E> {
    pub(crate) async fn host_remove(&self, host: String, request: v1::HostRemove) -> ApiResult<v1::HostRemoval> {
        let server = self.other_server(&host)?;
        let seen = self.entered(server).await?;
        let removal = self.removal(server).await?;
        if request.dry_run {
            return Ok(removal);
        }
        let name = &removal.host;
        if !removal.obstacles.is_empty() {
            let text = format!("host {name} cannot be removed: {}", some_of(&removal.obstacles));
            return Err(ApiError::refused(text).remedy(remedy(&removal)));
        }
        if removal.up {
            self.hand_over_from(server).await?;
            for group in &removal.disk_groups {
                let holder = self.inner.copy.borrow().disk_groups().into_iter().find(|(id, _)| id == group);
                let Some((_, entry)) = holder else { continue };
                self.on_host(entry.host, HostCommand::RemoveGroup(*group)).await?;
            }
        }
        self.dismiss_server(server, &seen, Gone::Removed).await?;
        Ok(removal)
    }

    pub(crate) async fn host_forget(&self, host: String, request: v1::HostForget) -> ApiResult<v1::HostLoss> {
        let server = self.other_server(&host)?;
        let seen = self.entered(server).await?;
        let loss = self.loss(server).await?;
        if request.dry_run {
            return Ok(loss);
        }
        refuse_loss(&loss, request.force)?;
        self.dismiss_server(server, &seen, Gone::Forgotten).await?;
        Ok(loss)
    }

    pub(crate) async fn host_readmit(&self, host: String) -> ApiResult<()> {
        let gone = self.inner.gone.all();
        let firsts = gone.iter().filter(|(_, entry)| entry.shard_of.is_none());
        let named: Vec<HostId> = firsts
            .filter(|(id, entry)| entry.name.as_str() == host || id.to_string() == host)
            .map(|(id, _)| *id)
            .collect();
        let [server] = named[..] else {
            let known: Vec<String> = gone.iter().map(|(id, entry)| format!("{} ({id})", entry.name)).collect();
            return Err(match named.is_empty() {
                true => ApiError::not_found(format!("no host {host:?} was removed or forgotten")).remedy(
                    match known.is_empty() {
                        true => "None was".to_owned(),
                        false => format!("These were: {}", known.join(", ")),
                    },
                ),
                false => ApiError::conflict(format!("{} hosts named {host:?} are gone", named.len()))
                    .remedy(format!("Give the id of one of them: {}", known.join(", "))),
            });
        };
        let shards = gone.iter().filter(|(id, entry)| **id == server || entry.shard_of == Some(server));
        let shards: Vec<HostId> = shards.map(|(id, _)| *id).collect();
        self.inner.registry.readmit_hosts(&shards).await.map_err(directory_error)?;
        self.until_known(|node| shards.iter().all(|shard| !node.inner.gone.has(*shard))).await;
        Ok(())
    }

    /// A server that is not this host's own: what is decided of a host is decided by those that stay.
    fn other_server(&self, host: &str) -> ApiResult<HostId> {
        let server = self.find_host(host)?;
        match server == self.server_of(self.me()) {
            false => Ok(server),
            true => Err(ApiError::refused(format!("host {host} is the one that was asked, and answers"))
                .remedy("Ask another host: `cairn --api ADDRESS`")),
        }
    }

    /// The shards of a server as the directory has them now: whoever starts after this look is entered anew.
    async fn entered(&self, server: HostId) -> ApiResult<Vec<(HostId, Revision)>> {
        let mut entered = Vec::new();
        for shard in self.shards_of(server) {
            let found = self.inner.registry.get::<HostEntry>(&shard).await.map_err(directory_error)?;
            entered.extend(found.map(|found| (shard, found.revision)));
        }
        match entered.is_empty() {
            false => Ok(entered),
            true => Err(ApiError::not_found(format!("host {} is gone already", self.host_name(server)))),
        }
    }

    async fn dismiss_server(&self, server: HostId, seen: &[(HostId, Revision)], how: Gone) -> ApiResult<()> {
        let now = self.inner.env.unix_ms();
        match self.inner.registry.dismiss_hosts(seen, how, now).await {
            Ok(()) => {}
            Err(DirectoryError::Conflict { .. }) => {
                let text = format!("host {} has started meanwhile", self.host_name(server));
                return Err(ApiError::conflict(text).remedy("Look at it again: `cairn host list`"));
            }
            Err(error) => return Err(directory_error(error)),
        }
        self.until_known(|node| node.inner.gone.has(server)).await;
        Ok(())
    }

    /// Whoever lists hosts next, here, is not to find what was just changed as it was.
    pub(crate) async fn until_known(&self, known: impl Fn(&Self) -> bool) {
        let env = &self.inner.env;
        let until = env.now() + KNOWN_WITHIN;
        while !known(self) && env.now() < until {
            env.sleep(LOOK_EVERY).await;
        }
    }

    /// What stands in the way of removing a server.
    async fn removal(&self, server: HostId) -> ApiResult<v1::HostRemoval> {
        let (shards, name) = (self.shards_of(server), self.host_name(server));
        let up = shards.iter().filter(|shard| self.inner.rpc.is_up(**shard)).count();
        let mut obstacles = Vec::new();
        let evacuated = self.intent_for(server).maintenance() == Some(MaintenanceMode::FullEvacuation);
        if !evacuated {
            obstacles.push("it is not in maintenance with full evacuation".to_owned());
        }
        if up > 0 && up < shards.len() {
            obstacles.push(format!("{up} of its {} shards answer", shards.len()));
        }
        let (mut components, mut disks) = (0, 0);
        for held in self.held_at(&shards).await {
            match held.config {
                Some(config) => {
                    disks += 1;
                    components += config.members.iter().filter(|m| shards.contains(&m.host)).count() as u32;
                }
                None => {
                    obstacles.push(format!("no host answers for disk {}, which may have a component there", held.name))
                }
            }
        }
        let told: u32 = shards.iter().flat_map(|shard| self.told_groups(*shard)).map(|group| group.components).sum();
        if components > 0 {
            obstacles.push(format!("{components} components of {disks} disks are there"));
        } else if told > 0 {
            obstacles.push(format!("{told} components that no disk names any more are there: they go within minutes"));
        }
        if let Some(name) = self.member_at(server).await {
            obstacles.push(format!(
                "it runs a member of the directory: `cairn cluster members replace {name} HOST`, or `cairn cluster members remove {name}`"
            ));
        }
        let sessions = self.sessions(None).await.sessions.into_iter().filter(|session| session.host == server);
        let sessions: Vec<String> = sessions.map(|session| session.disk).collect();
        if !sessions.is_empty() {
            obstacles.push(format!("guests use disks through it: {}", some_of(&sessions)));
        }
        let (mut waits, mut bytes_left) = (evacuated && up == shards.len() && !obstacles.is_empty(), 0);
        if waits && components > 0 {
            let evacuation = self.host_maintenance_show(name.clone()).await?;
            waits = evacuation.obstacles.is_empty();
            bytes_left = evacuation.bytes_left;
            obstacles.extend(evacuation.obstacles);
        }
        let emptied = evacuated && components == 0;
        let disks_owned = self.owned_at(&shards).await.len() as u32;
        let disk_groups = self.groups_of(&shards);
        let up = up > 0;
        let host = name;
        let told = v1::HostRemoval {
            host,
            up,
            emptied,
            disk_groups,
            components,
            bytes_left,
            disks_owned,
            sessions,
            obstacles,
            waits,
        };
        Ok(told)
    }

    /// Disks with a component at one of these hosts, and those that nobody answers for.
    async fn held_at(&self, shards: &[HostId]) -> Vec<Held> {
        let mut held = Vec::new();
        let there = |config: &ObjectConfig| config.members.iter().any(|m| shards.contains(&m.host));
        let owned = self.owned_everywhere().await;
        self.each_record(
            &owned,
            |_| true,
            |_, entry, config| {
                if config.as_ref().is_none_or(there) {
                    held.push(Held { name: entry.name.as_str().to_owned(), config });
                }
            },
        )
        .await;
        held
    }

    async fn owned_at(&self, shards: &[HostId]) -> Vec<(ObjectId, ObjectStatus)> {
        let owned = self.owned_everywhere().await.into_iter();
        owned.filter(|(_, status)| shards.contains(&status.epoch.host)).collect()
    }

    /// The disks that a server owns go to hosts that have them, so that no guest elsewhere waits for a lease to run out.
    async fn hand_over_from(&self, server: HostId) -> ApiResult<()> {
        let shards = self.shards_of(server);
        for some in self.owned_at(&shards).await.chunks(HANDED_TOGETHER) {
            let attached = some.iter().map(|(object, status)| {
                let to = self.next_owner(&status.config).unwrap_or(self.me());
                let (name, object) = (status.config.name.clone(), *object);
                async move {
                    let attached = match to == self.me() {
                        true => self.inner.objects.attach(object, &[], true).await,
                        false => {
                            let call = self.inner.rpc.call(to, Request::Attach { object }, Vec::new());
                            call.await.map(drop).map_err(|refusal| super::remote::words(&refusal))
                        }
                    };
                    attached.map_err(|why| format!("disk {name} cannot be handed over: {why}"))
                }
            });
            for attached in join_all(attached.collect::<Vec<_>>()).await {
                attached.map_err(|text| ApiError::unavailable(text).remedy("Give the command again"))?;
            }
        }
        Ok(())
    }

    /// What would be lost with a server.
    async fn loss(&self, server: HostId) -> ApiResult<v1::HostLoss> {
        let shards = self.shards_of(server);
        let mut loss = v1::HostLoss {
            host: self.host_name(server),
            heard_by: self.heard_by(&shards).await,
            disk_groups: self.groups_of(&shards),
            directory_member: self.member_at(server).await.is_some(),
            ..v1::HostLoss::default()
        };
        let others = self.servers().into_iter().filter(|other| other.id != server);
        let silent = others.filter(|other| other.shards.iter().any(|shard| !self.inner.rpc.is_up(*shard)));
        loss.silent = silent.map(|other| self.host_name(other.id)).collect();
        loss.cut_off = (loss.silent.len() + 1) * 2 >= self.servers().len();
        let mut preview = LossPreview::new(self.picture(), Lost::Hosts(shards.clone()));
        for held in self.held_at(&shards).await {
            match held.config {
                Some(config) => preview.add(&config),
                None => loss.unknown.push(held.name),
            }
        }
        (loss.disks, loss.components) = (preview.disks, preview.components);
        (loss.reduced, loss.not_rebuilt) = (preview.reduced, preview.not_rebuilt);
        (loss.inaccessible, loss.lost) = (preview.inaccessible, preview.lost);
        Ok(loss)
    }

    /// The hosts that hear one of these. Hosts of earlier releases are not asked.
    async fn heard_by(&self, shards: &[HostId]) -> Vec<String> {
        let mut hearing: BTreeSet<HostId> = BTreeSet::new();
        if shards.iter().any(|shard| self.inner.rpc.is_up(*shard)) {
            hearing.insert(self.server_of(self.me()));
        }
        if self.level().has(Feature::Moves) {
            let asked = self.peers_up().into_iter().filter(|peer| !shards.contains(peer));
            let asked = asked.map(|peer| async move { (peer, self.on_host(peer, HostCommand::Hears).await) });
            for (peer, answer) in join_all(asked).await {
                if let Ok(HostAnswer::Hears(hosts)) = answer
                    && hosts.iter().any(|host| shards.contains(host))
                {
                    hearing.insert(self.server_of(peer));
                }
            }
        }
        hearing.into_iter().map(|host| self.host_name(host)).collect()
    }
}

fn remedy(removal: &v1::HostRemoval) -> String {
    let host = &removal.host;
    match (removal.up, removal.emptied, removal.sessions.is_empty()) {
        (false, ..) => format!("Start it and empty it, or `cairn host forget {host}` if it is gone for good"),
        (true, false, _) => format!(
            "Empty it first: `cairn host maintenance enter {host} --mode full-evacuation --wait`, then give the command again"
        ),
        (true, true, false) => "Have these guests use another host, then give the command again".to_owned(),
        (true, true, true) => "Give the command again when that is over, or with --wait".to_owned(),
    }
}

fn refuse_loss(loss: &v1::HostLoss, force: bool) -> ApiResult<()> {
    let host = &loss.host;
    if !loss.heard_by.is_empty() {
        let text = format!("host {host} is alive: it answers {}", some_of(&loss.heard_by));
        return Err(ApiError::refused(text).remedy(format!(
            "Empty and remove it (`cairn host maintenance enter {host} --mode full-evacuation`, `cairn host remove {host}`), or stop its daemon"
        )));
    }
    if force {
        return Ok(());
    }
    let mut why = Vec::new();
    let mut some = |what: &str, disks: &[String]| {
        if !disks.is_empty() {
            why.push(format!("{what}: {}", some_of(disks)));
        }
    };
    some("votes or the last good copy are lost with it of these disks", &loss.lost);
    some("these disks are not served until hosts return that are away now", &loss.inaccessible);
    some("no host answers for these disks, which may have had their last copy there", &loss.unknown);
    if loss.cut_off {
        let silent = if loss.silent.is_empty() { String::new() } else { format!(", nor {}", some_of(&loss.silent)) };
        why.push(format!("this host hears no majority of the hosts{silent}: it may be the one that is cut off"));
    }
    if why.is_empty() {
        return Ok(());
    }
    Err(ApiError::refused(format!("host {host} is not forgotten: {}", why.join("; "))).remedy(
        "Start the hosts that are away, ask another host, or use --force: what only that host has is given up then",
    ))
}
