//! The cluster as placement sees it: the directory's hosts, what each told of itself last, and what was placed since.
//!
//! Promises    what this host places one after the other spreads, though other hosts tell of it a heartbeat later
//! Not here    where a component goes (`placement`)

use std::{cell::RefCell, rc::Weak, time::Duration};

use cairn_directory::{HostEntry, HostIntent};
use cairn_env::Env;
use cairn_geometry::grown;
use cairn_object::{AskedToMove, Converted, LocalStore, MemberChange, NextMove, Placer, PolicyStep};
use cairn_placement::{ClusterPicture, Copies, DiskGroupPicture, HostPicture, MoveStep};
use cairn_types::{Addresses, ComponentId, HostId, Member, ObjectConfig, Time, format_bytes};
use cairn_wire::DiskGroupSummary;

use crate::{
    node::{Node, NodeInner},
    servers::Server,
};

/// How long what was placed is expected to be missing in what hosts tell: two heartbeats, and time to be made.
const UNTOLD_FOR: Duration = Duration::from_millis(1500);

/// What this host has placed at others a moment ago.
#[derive(Default)]
pub(crate) struct PlacedLately {
    disks: RefCell<Vec<Placed>>,
}

/// What disks may become, beside what there is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Promised {
    /// In use, reserved or promised to thin disks, copies included.
    pub(crate) bytes: u64,
    /// Space of the disk groups.
    pub(crate) there_are_bytes: u64,
}

impl Promised {
    /// What would be missing if all of it were written.
    pub(crate) fn lacks_bytes(self) -> u64 {
        self.bytes.saturating_sub(self.there_are_bytes)
    }
}

struct Placed {
    at: Time,
    addresses: Addresses,
    size_bytes: u64,
    members: Vec<Member>,
}

impl PlacedLately {
    fn add(&self, placed: Placed) {
        self.disks.borrow_mut().push(placed);
    }

    fn add_to(&self, picture: &mut ClusterPicture, now: Time) {
        let mut disks = self.disks.borrow_mut();
        disks.retain(|placed| now.since(placed.at) < UNTOLD_FOR);
        disks.iter().for_each(|placed| picture.expect(&placed.addresses, placed.size_bytes, &placed.members));
    }
}

impl<E: Env> Node<E> {
    /// Remembers new members of a disk until their hosts tell of them. What this host itself has it sees at once.
    pub(crate) fn placed(&self, addresses: &Addresses, size_bytes: u64, new: impl Iterator<Item = Member>) {
        let members = new.filter(|member| member.host != self.me()).collect();
        let placed = Placed { at: self.inner.env.now(), addresses: addresses.clone(), size_bytes, members };
        self.inner.placed_lately.add(placed);
    }

    fn member_change(&self, config: &ObjectConfig, size_bytes: u64, change: cairn_placement::Change) -> MemberChange {
        self.placed_change(&grown(&config.addresses, config.size_bytes, size_bytes), size_bytes, change)
    }

    fn converted(&self, config: &ObjectConfig, converted: cairn_placement::Converted) -> Converted {
        let cairn_placement::Converted { change, addresses } = converted;
        Converted { change: self.placed_change(&addresses, config.size_bytes, change), addresses }
    }

    fn placed_change(&self, addresses: &Addresses, size_bytes: u64, change: cairn_placement::Change) -> MemberChange {
        let new = change.members.iter().filter(|member| change.added.contains(&member.component));
        self.placed(addresses, size_bytes, new.copied());
        MemberChange { members: change.members, added: change.added, removed: change.removed }
    }

    /// The picture now.
    pub(crate) fn picture(&self) -> ClusterPicture {
        let inner = &self.inner;
        let peers = inner.leases.peers();
        let hosts = inner.copy.borrow().hosts();
        let picture = |(host, entry): (HostId, HostEntry)| {
            let own: Vec<DiskGroupSummary>;
            let told = if host == self.me() {
                own = inner.seats.stores().iter().map(LocalStore::summary).collect();
                &own
            } else {
                peers.get(&host).map(|p| &p.summary.disk_groups).unwrap_or(const { &Vec::new() })
            };
            let intent = self.intent_for(host);
            HostPicture {
                host,
                name: entry.name.as_str().to_owned(),
                fault_domain: Some(entry.fault_domain.as_str().to_owned()),
                up: inner.rpc.is_up(host),
                maintenance: intent.maintenance(),
                disk_groups: told.iter().map(|told| group_picture(told, &intent)).collect(),
            }
        };
        let mut picture = ClusterPicture { hosts: hosts.into_iter().map(picture).collect() };
        inner.placed_lately.add_to(&mut picture, inner.env.now());
        picture
    }

    /// What of a disk is to be moved, with the picture that says so; none where nothing is, and no move is under way. Most disks have
    /// nothing at a host that is being emptied: they cost no picture.
    pub(crate) fn moves_of(
        &self,
        config: &ObjectConfig,
        asked: &AskedToMove,
    ) -> Option<(ClusterPicture, Vec<ComponentId>)> {
        let at = |m: &Member, server: &HostId, intent: &HostIntent| {
            intent.draining.contains(&m.disk_group) || intent.maintenance && self.server_of(m.host) == *server
        };
        let leaves = |m: &Member| self.inner.intents.borrow().iter().any(|(server, intent)| at(m, server, intent));
        let twins = !config.twins().is_empty();
        if !twins && asked.is_empty() && !config.members.iter().any(leaves) {
            return None;
        }
        let picture = self.picture();
        let mut unwanted = cairn_placement::unwanted(&picture, config);
        unwanted.extend(asked.keys().filter(|id| config.member(**id).is_some()));
        unwanted.sort_unstable();
        unwanted.dedup();
        (twins || !unwanted.is_empty()).then_some((picture, unwanted))
    }

    /// What a disk lacks of its policy, or has too much of. Most disks have what they ask for: they cost no picture.
    fn meet_policy(&self, config: &ObjectConfig) -> Result<PolicyStep, cairn_placement::Refusal> {
        let mut ids = || self.draw_component();
        let change = |change| self.member_change(config, config.size_bytes, change);
        match cairn_placement::copies(config) {
            Copies::TooMany => {
                let dropped = cairn_placement::shrink(&self.picture(), config, &mut ids)?;
                Ok(dropped.map_or(PolicyStep::Nothing, |dropped| PolicyStep::Drop(change(dropped))))
            }
            // One that was made by force, or whose layout was given up while hosts were away, may lack witnesses only.
            Copies::Right if !config.policy.force_provisioning && !cairn_placement::lacks_hosts(config) => {
                Ok(PolicyStep::Nothing)
            }
            Copies::Right | Copies::TooFew => {
                // What is away comes back or is replaced first.
                if !config.members.iter().all(|m| m.state.in_sync()) {
                    return Ok(PolicyStep::Nothing);
                }
                let picture = self.picture();
                if cairn_placement::compliance(&picture, config).is_empty() {
                    return Ok(PolicyStep::Nothing);
                }
                let added = cairn_placement::complete(&picture, config, &mut ids)?;
                let lacks = !added.added.is_empty();
                Ok(if lacks { PolicyStep::Add(change(added)) } else { PolicyStep::Nothing })
            }
        }
    }

    /// What disks may become on the disk groups that work.
    pub(crate) fn promised(&self) -> Promised {
        let picture = self.picture();
        let groups = picture.hosts.iter().filter(|host| host.up).flat_map(|host| &host.disk_groups);
        let devices: Vec<_> = groups.filter(|group| group.up).flat_map(|group| &group.devices).collect();
        Promised {
            bytes: devices.iter().map(|device| device.promised_bytes()).sum(),
            there_are_bytes: devices.iter().map(|device| device.total_bytes).sum(),
        }
    }

    /// Whether thin disks promise more than the disk groups that work have, in words.
    pub(crate) fn overcommitment(&self) -> Option<String> {
        let promised = self.promised();
        (promised.lacks_bytes() > 0).then(|| {
            format!(
                "thin disks promise {} of capacity, copies included, and there are {}: \
                 once that is written, writes of new blocks fail. Add capacity before",
                format_bytes(promised.bytes),
                format_bytes(promised.there_are_bytes)
            )
        })
    }

    /// A new component id.
    pub(crate) fn draw_component(&self) -> ComponentId {
        let env = &self.inner.env;
        ComponentId::from_random(env.random_u64(), env.random_u64())
    }
}

fn group_picture(told: &DiskGroupSummary, intent: &HostIntent) -> DiskGroupPicture {
    DiskGroupPicture {
        disk_group: told.disk_group,
        up: told.healthy,
        draining: intent.draining.contains(&told.disk_group),
        devices: told.devices.clone(),
        free_bytes: told.free_bytes(),
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
        let change = change.map_err(|refusal| refusal.text)?;
        Ok(node.member_change(config, config.size_bytes, change))
    }

    fn meet_policy(&self, config: &ObjectConfig) -> PolicyStep {
        let Ok(node) = self.node() else { return PolicyStep::Nothing };
        node.meet_policy(config).unwrap_or(PolicyStep::Nothing)
    }

    fn extend(&self, config: &ObjectConfig, size_bytes: u64) -> Result<MemberChange, String> {
        let node = self.node()?;
        let change = cairn_placement::extend(&node.picture(), config, size_bytes, &mut || node.draw_component());
        let change = change.map_err(|refusal| refusal.text)?;
        Ok(node.member_change(config, size_bytes, change))
    }

    fn begin_conversion(&self, config: &ObjectConfig) -> Result<Option<Converted>, String> {
        let node = self.node()?;
        let begun = cairn_placement::begin_conversion(&node.picture(), config, &mut || node.draw_component());
        Ok(begun.map_err(|refusal| refusal.text)?.map(|begun| node.converted(config, begun)))
    }

    fn end_conversion(&self, config: &ObjectConfig) -> Result<Option<Converted>, String> {
        let node = self.node()?;
        let ended = cairn_placement::end_conversion(&node.picture(), config, &mut || node.draw_component());
        Ok(ended.map_err(|refusal| refusal.text)?.map(|ended| node.converted(config, ended)))
    }

    fn give_up_conversion(&self, config: &ObjectConfig) -> Option<Converted> {
        let node = self.node().ok()?;
        let given_up = cairn_placement::give_up_conversion(&node.picture(), config, &mut || node.draw_component());
        Some(node.converted(config, given_up?))
    }

    fn is_whole(&self, config: &ObjectConfig) -> bool {
        cairn_placement::is_whole(config)
    }

    fn next_move(&self, config: &ObjectConfig, asked: &AskedToMove, may_begin: bool) -> NextMove {
        let Ok(node) = self.node() else { return NextMove::Nothing };
        let Some((picture, mut unwanted)) = node.moves_of(config, asked) else { return NextMove::Nothing };
        let Some(step) = cairn_placement::next_move(config, &unwanted) else { return NextMove::Waits };
        let begins = step == MoveStep::Begin;
        if begins {
            if !may_begin {
                return NextMove::Waits;
            }
            // Few are tried at a time, and each has its turn.
            let turn = node.inner.env.random_u64() % unwanted.len() as u64;
            unwanted.rotate_left(turn as usize);
        }
        let mut ids = || node.draw_component();
        match cairn_placement::carry_out(&picture, config, (step, &unwanted), asked, &mut ids) {
            Err(_) => NextMove::Waits,
            Ok(change) => {
                let change = node.member_change(config, config.size_bytes, change);
                if begins { NextMove::Begin(change) } else { NextMove::End(change) }
            }
        }
    }

    fn is_forgotten(&self, host: HostId) -> bool {
        self.node.upgrade().is_some_and(|inner| inner.gone.has(host))
    }

    fn day_unix_ms(&self) -> Option<u64> {
        self.node().ok().filter(Node::knows_the_day).map(|node| node.day_unix_ms())
    }

    fn many_hosts_gone(&self) -> bool {
        let Ok(node) = self.node() else { return true };
        let servers = node.servers();
        let is_gone = |server: &&Server| server.shards.iter().any(|shard| !node.inner.rpc.is_up(*shard));
        let gone = servers.iter().filter(is_gone).count();
        gone > 1 && gone * 3 > servers.len()
    }
}
