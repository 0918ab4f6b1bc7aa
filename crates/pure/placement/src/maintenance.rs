//! What it asks for and costs to empty a host or a disk group, disk by disk, before anything is moved.
//!
//! Promises    what is told to be movable is placed one after the other, so that it fits together
//!             nothing is taken: the picture that is changed is the preview's own
//! Not here    bytes and minutes (engine/node asks the stores), the moves themselves (moves.rs)

use std::collections::{BTreeMap, BTreeSet};

use cairn_types::{ComponentId, ComponentState, DiskGroupId, HostId, Member, ObjectConfig, Seat};
use cairn_votes::{accessible, redundancy};

use crate::{
    moves::{MoveStep, carry_out, next_move, unwanted},
    picture::ClusterPicture,
    verbs::preview_ids,
};

/// Moves of one disk that are looked ahead, at most: as many as a disk has members.
const STEPS_MAX: usize = 1 << 16;

/// What is to be emptied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaving {
    /// The shards of a server.
    Hosts(Vec<HostId>),
    /// One disk group.
    DiskGroup(DiskGroupId),
}

impl Leaving {
    fn has(&self, member: &Member) -> bool {
        match self {
            Self::Hosts(hosts) => hosts.contains(&member.host),
            Self::DiskGroup(disk_group) => member.disk_group == *disk_group,
        }
    }
}

/// Adds up what that comes to.
#[derive(Debug, Clone)]
pub struct MaintenancePreview {
    picture: ClusterPicture,
    leaving: Leaving,
    last_id: u128,
    /// Disks with a component there.
    pub disks: u32,
    /// Components there that have to go elsewhere.
    pub components: Vec<ComponentId>,
    /// Disks of which something cannot be moved, each with why.
    pub obstacles: Vec<String>,
    /// Disks that cannot be served while that is away, when all that can be moved was.
    pub inaccessible: Vec<String>,
    /// Disks that survive fewer failures then.
    pub reduced: u32,
}

impl MaintenancePreview {
    /// Of what is `leaving`, as the picture has it.
    pub fn new(picture: ClusterPicture, leaving: Leaving) -> Self {
        Self {
            picture,
            leaving,
            last_id: 0,
            disks: 0,
            components: Vec::new(),
            obstacles: Vec::new(),
            inaccessible: Vec::new(),
            reduced: 0,
        }
    }

    /// Looks at one more disk.
    pub fn add(&mut self, config: &ObjectConfig) {
        if !config.members.iter().any(|m| self.leaving.has(m)) {
            return;
        }
        self.disks += 1;
        let there = |id: &ComponentId| config.member(*id).is_some_and(|m| self.leaving.has(m));
        let leaving = unwanted(&self.picture, config).into_iter().filter(there);
        self.components.extend(leaving);
        let after = self.moved(config);
        let now = self.survives(config, false);
        match self.survives(&after, true) {
            None if now.is_some() => self.inaccessible.push(config.name.clone()),
            then if then < now => self.reduced += 1,
            _ => {}
        }
    }

    /// The disk when all that can be moved was; what takes space is taken in the preview's picture.
    fn moved(&mut self, config: &ObjectConfig) -> ObjectConfig {
        let mut now = config.clone();
        for _ in 0..STEPS_MAX {
            let leaving = unwanted(&self.picture, &now);
            let Some(step) = next_move(&now, &leaving).or_else(|| filled(&mut now)) else { break };
            let mut ids = preview_ids(&mut self.last_id);
            match carry_out(&self.picture, &now, (step, &leaving), &BTreeMap::new(), &mut ids) {
                Ok(change) => {
                    let added: Vec<Member> =
                        change.members.iter().filter(|m| change.added.contains(&m.component)).copied().collect();
                    self.picture.take(&now.addresses, &now.policy, now.size_bytes, &added);
                    now.members = change.members;
                }
                Err(refusal) => {
                    self.obstacles.push(format!("disk {}: {refusal}", config.name));
                    break;
                }
            }
        }
        now
    }

    /// How many more fault domains may fail, where those that are down stay so and what is leaving may be `away`; none: it is not served.
    fn survives(&self, config: &ObjectConfig, away: bool) -> Option<u32> {
        let is_here =
            |m: &&Member| !(away && self.leaving.has(m)) && self.picture.host(m.host).is_some_and(|host| host.up);
        let reachable: BTreeSet<Seat> = config.members.iter().filter(is_here).map(Member::seat).collect();
        let usable = |m: &Member| m.state.in_sync();
        accessible(config, &reachable, usable).ok()?;
        redundancy(config, &reachable, usable, |host| self.picture.domain_of(host))
    }
}

/// Takes twins for filled, and asks again.
fn filled(now: &mut ObjectConfig) -> Option<MoveStep> {
    let twins: Vec<ComponentId> = now.twins().iter().map(|[_, twin]| twin.component).collect();
    let waits = twins.into_iter().find(|id| now.member(*id).is_some_and(|m| !m.state.in_sync()))?;
    now.member_mut(waits)?.state = ComponentState::Active;
    next_move(now, &[])
}
