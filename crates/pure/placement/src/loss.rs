//! What would become of disks if hosts, a disk group or a device were lost for good, before they are.
//!
//! Promises    what is told to be rebuilt is placed one after the other, so that it fits together
//!             nothing is taken: the picture that is changed is the preview's own
//! Not here    bytes and minutes (engine/node asks the stores), the rebuilding itself (engine/object)

use std::collections::BTreeSet;

use cairn_types::{ComponentId, ComponentState, DiskGroupId, HostId, Member, ObjectConfig, Seat};
use cairn_votes::accessible;

use crate::{
    picture::ClusterPicture,
    verbs::{preview_ids, replace},
};

/// What is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The shards of a server.
    Hosts(Vec<HostId>),
    /// A disk group: its cache device, or all of its devices.
    DiskGroup(DiskGroupId),
    /// A capacity device of a disk group, with the components that lie on it.
    Device {
        /// Whose.
        disk_group: DiskGroupId,
        /// Which of the group's rooms in the picture is its; none: it has none any more.
        room: Option<usize>,
        /// What lies there.
        components: BTreeSet<ComponentId>,
    },
}

impl Lost {
    /// The record and the votes are gone, too.
    fn has_seat(&self, seat: Seat) -> bool {
        match self {
            Self::Hosts(hosts) => hosts.contains(&seat.host),
            Self::DiskGroup(disk_group) => seat.disk_group == *disk_group,
            Self::Device { .. } => false,
        }
    }

    fn has(&self, member: &Member) -> bool {
        match self {
            Self::Device { components, .. } => components.contains(&member.component),
            Self::Hosts(_) | Self::DiskGroup(_) => self.has_seat(member.seat()),
        }
    }

    fn take_from(&self, picture: &mut ClusterPicture) {
        match self {
            Self::Hosts(hosts) => picture.hosts.retain(|host| !hosts.contains(&host.host)),
            Self::DiskGroup(lost) => {
                picture.hosts.iter_mut().for_each(|host| host.disk_groups.retain(|group| group.disk_group != *lost));
            }
            Self::Device { disk_group, room, .. } => {
                let groups = picture.hosts.iter_mut().flat_map(|host| &mut host.disk_groups);
                for group in groups.filter(|group| group.disk_group == *disk_group) {
                    let Some(room) = room.and_then(|room| group.devices.get_mut(room)) else { continue };
                    group.free_bytes = group.free_bytes.saturating_sub(room.free_bytes);
                    *room = Default::default();
                }
            }
        }
    }
}

/// Adds up what a loss comes to, disk by disk.
#[derive(Debug, Clone)]
pub struct LossPreview {
    picture: ClusterPicture,
    lost_is: Lost,
    last_id: u128,
    /// Disks with a component there.
    pub disks: u32,
    /// Components there.
    pub components: u32,
    /// Components with data that would be rebuilt elsewhere.
    pub rebuilt: Vec<ComponentId>,
    /// Disks that go on with less redundancy, until they are rebuilt.
    pub reduced: Vec<String>,
    /// Those of them of which something has no place elsewhere, each with why.
    pub not_rebuilt: Vec<String>,
    /// Disks that are not served until hosts return that are away now.
    pub inaccessible: Vec<String>,
    /// Disks that lose most of their votes, or the last good copy of something.
    pub lost: Vec<String>,
}

impl LossPreview {
    /// Of what would be `lost`, as the picture has it.
    pub fn new(mut picture: ClusterPicture, lost: Lost) -> Self {
        lost.take_from(&mut picture);
        Self {
            picture,
            lost_is: lost,
            last_id: 0,
            disks: 0,
            components: 0,
            rebuilt: Vec::new(),
            reduced: Vec::new(),
            not_rebuilt: Vec::new(),
            inaccessible: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Bytes that are free elsewhere, once all of it is rebuilt as far as there is room.
    pub fn free_bytes(&self) -> u64 {
        let hosts = self.picture.hosts.iter().filter(|host| host.eligible());
        let groups = hosts.flat_map(|host| host.disk_groups.iter().filter(|group| group.up && !group.draining));
        groups.map(|group| group.free_bytes).sum()
    }

    /// Looks at one more disk.
    pub fn add(&mut self, config: &ObjectConfig) {
        let there: Vec<&Member> = config.members.iter().filter(|m| self.lost_is.has(m)).collect();
        if there.is_empty() {
            return;
        }
        self.disks += 1;
        self.components += there.len() as u32;
        let served = |only_up: bool| {
            let seats = config.members.iter().map(Member::seat).filter(|seat| !self.lost_is.has_seat(*seat));
            let left: BTreeSet<Seat> = seats.filter(|seat| !only_up || self.picture.has_group(*seat)).collect();
            accessible(config, &left, |m: &Member| m.state.in_sync() && !self.lost_is.has(m)).is_ok()
        };
        match (served(true), served(false)) {
            (true, _) => self.rebuild(config),
            (false, true) => self.inaccessible.push(config.name.clone()),
            (false, false) => self.lost.push(config.name.clone()),
        }
    }

    fn rebuild(&mut self, config: &ObjectConfig) {
        self.reduced.push(config.name.clone());
        let mut now = config.clone();
        let lost: Vec<Member> = now.members.iter().filter(|m| self.lost_is.has(m)).copied().collect();
        now.members.iter_mut().filter(|m| self.lost_is.has(m)).for_each(|m| m.state = ComponentState::Degraded);
        for gone in lost {
            // Another one's replacement may have taken a witness along.
            if now.member(gone.component).is_none() {
                continue;
            }
            match replace(&self.picture, &now, gone.component, &mut preview_ids(&mut self.last_id)) {
                Ok(change) => {
                    let is_new = |m: &&Member| change.added.contains(&m.component);
                    let added: Vec<Member> = change.members.iter().filter(is_new).copied().collect();
                    self.picture.take(&now.addresses, &now.policy, now.size_bytes, &added);
                    now.members = change.members;
                    if gone.set().is_some() {
                        self.rebuilt.push(gone.component);
                    }
                }
                Err(refusal) => {
                    self.not_rebuilt.push(format!("disk {}: {refusal}", config.name));
                    return;
                }
            }
        }
    }
}
