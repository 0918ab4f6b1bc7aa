//! What would become of a cluster that gets hosts or a device: which disks get what they lack, and what moves there.
//!
//! Promises    the moves are those that the hosts would decide (rebalance.rs), one after the other
//!             nothing is taken: the picture that is changed is the preview's own
//! Assumes     what moves lay on the fullest device of its group: no host tells of each component's device
//! Not here    bytes and minutes (engine/node asks the stores), the moves themselves (engine/object)

use std::collections::BTreeMap;

use cairn_types::{ComponentId, ComponentState, DeviceRoom, DiskGroupId, HostId, Member, ObjectConfig, ObjectId, Seat};

use crate::{
    moves::relocate,
    picture::{ClusterPicture, DiskGroupPicture, HostPicture},
    policy_change::{Copies, copies},
    rebalance::{Resident, rebalance},
    refusal::Refusal,
    verbs::{Change, complete, preview_ids, replace},
};

/// Moves that are worked out, at most: past that the exact number helps nobody.
const MOVES_MAX: usize = 10_000;

/// What comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addition {
    /// So many hosts, each with one disk group of these capacity devices.
    Hosts {
        /// How many.
        hosts: u8,
        /// Bytes of each capacity device.
        devices: Vec<u64>,
    },
    /// A capacity device.
    Device {
        /// Of this disk group.
        disk_group: DiskGroupId,
        /// Its bytes.
        bytes: u64,
    },
}

impl Addition {
    /// Puts it into a picture.
    fn add_to(&self, picture: &mut ClusterPicture) {
        let room = |bytes: &u64| DeviceRoom { total_bytes: *bytes, free_bytes: *bytes, growth_bytes: 0 };
        match self {
            Self::Hosts { hosts, devices } => {
                let first = picture.hosts.iter().map(|host| host.host.0).max().unwrap_or(0);
                for n in 1..=u128::from(*hosts) {
                    let disk_group = DiskGroupPicture {
                        disk_group: DiskGroupId(u128::MAX - n),
                        up: true,
                        draining: false,
                        devices: devices.iter().map(room).collect(),
                        free_bytes: devices.iter().sum(),
                        components: 0,
                        witnesses: 0,
                    };
                    picture.hosts.push(HostPicture {
                        host: HostId(first.wrapping_add(n)),
                        name: format!("new-{n}"),
                        fault_domain: None,
                        up: true,
                        maintenance: None,
                        disk_groups: vec![disk_group],
                    });
                }
            }
            Self::Device { disk_group, bytes } => {
                let groups = picture.hosts.iter_mut().flat_map(|host| &mut host.disk_groups);
                for group in groups.filter(|group| group.disk_group == *disk_group) {
                    group.devices.push(room(bytes));
                    group.free_bytes += bytes;
                }
            }
        }
    }
}

/// What all moves of a growth come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// Components that move.
    pub components: u64,
    /// What they hold.
    pub bytes: u64,
    /// Of these, what the host gives or takes that has most to do: moves of one host come one after the other.
    pub bytes_of_one_host_max: u64,
    /// There are more moves than were worked out.
    pub more: bool,
}

/// Adds up what a growth comes to: first disk by disk, then move by move.
#[derive(Debug, Clone)]
pub struct GrowthPreview {
    before: ClusterPicture,
    picture: ClusterPicture,
    last_id: u128,
    disks: BTreeMap<ObjectId, ObjectConfig>,
    residents: BTreeMap<Seat, Vec<Resident>>,
    owners: BTreeMap<ComponentId, ObjectId>,
    moved: BTreeMap<HostId, u64>,
    total: Moved,
    /// Disks that lack copies now and get them.
    pub completed: Vec<String>,
    /// Disks that lack copies then, too, each with why.
    pub still_lacking: Vec<String>,
    /// Components that are made for those that are completed, each with the one that it is a copy of.
    pub copied_from: Vec<ComponentId>,
}

impl GrowthPreview {
    /// Of what would be added, as the picture has the cluster.
    pub fn new(before: ClusterPicture, addition: &Addition) -> Self {
        let mut picture = before.clone();
        addition.add_to(&mut picture);
        Self {
            before,
            picture,
            last_id: 0,
            disks: BTreeMap::new(),
            residents: BTreeMap::new(),
            owners: BTreeMap::new(),
            moved: BTreeMap::new(),
            total: Moved::default(),
            completed: Vec::new(),
            still_lacking: Vec::new(),
            copied_from: Vec::new(),
        }
    }

    /// Bytes that are free before and after, all moves ended.
    pub fn free_bytes(&self) -> [u64; 2] {
        [&self.before, &self.picture].map(|picture| sum_of(picture, |group| group.free_bytes))
    }

    /// Hosts that take components then.
    pub fn hosts(&self) -> usize {
        self.picture.hosts.iter().filter(|host| host.eligible()).count()
    }

    /// Bytes of all capacity devices before and after.
    pub fn raw_bytes(&self) -> [u64; 2] {
        let raw = |group: &DiskGroupPicture| group.devices.iter().map(|device| device.total_bytes).sum();
        [&self.before, &self.picture].map(|picture| sum_of(picture, raw))
    }

    /// Looks at one more disk. `held` tells what a component holds; none: its host does not say.
    pub fn add(&mut self, config: ObjectConfig, held: &dyn Fn(ComponentId) -> Option<u64>) {
        let config = self.complete(config);
        for member in config.members.iter().filter(|m| m.set().is_some()) {
            if let Some(bytes) = held(member.component) {
                let resident = Resident { component: member.component, bytes };
                self.residents.entry(member.seat()).or_default().push(resident);
                self.owners.insert(member.component, config.object);
            }
        }
        self.disks.insert(config.object, config);
    }

    /// What the disk lacks is placed, as its owner would.
    fn complete(&mut self, mut config: ObjectConfig) -> ObjectConfig {
        let is_lost = |m: &&Member| m.state == ComponentState::Degraded || !self.picture.has_group(m.seat());
        let lost: Vec<Member> = config.members.iter().filter(is_lost).copied().collect();
        let is_one = |m: &Member| lost.iter().any(|one| one.component == m.component);
        config.members.iter_mut().filter(|m| is_one(m)).for_each(|m| m.state = ComponentState::Degraded);
        let mut whole = None;
        for gone in lost {
            if config.member(gone.component).is_some() {
                let change = replace(&self.picture, &config, gone.component, &mut preview_ids(&mut self.last_id));
                whole = Some(self.adopt(&mut config, change));
            }
        }
        if copies(&config) == Copies::TooFew {
            let change = complete(&self.picture, &config, &mut preview_ids(&mut self.last_id));
            whole = Some(self.adopt(&mut config, change));
        }
        match whole {
            None => {}
            Some(Ok(())) => self.completed.push(config.name.clone()),
            Some(Err(why)) => self.still_lacking.push(format!("disk {}: {why}", config.name)),
        }
        config
    }

    fn adopt(&mut self, config: &mut ObjectConfig, change: Result<Change, Refusal>) -> Result<(), String> {
        let change = change.map_err(|refusal| refusal.text)?;
        let is_new = |m: &&Member| change.added.contains(&m.component);
        let added: Vec<Member> = change.members.iter().filter(is_new).copied().collect();
        self.picture.take(&config.addresses, &config.policy, config.size_bytes, &added);
        let source = |set| config.members.iter().find(|m| m.set() == set && m.state.in_sync()).map(|m| m.component);
        self.copied_from.extend(added.iter().filter(|m| m.set().is_some()).filter_map(|m| source(m.set())));
        config.members = change.members;
        Ok(())
    }

    /// Works out one round of moves: one from each group that is too full, as hosts do it side by side. False: there are no more.
    pub fn rebalance_round(&mut self, points: u8) -> bool {
        let seats: Vec<Seat> = self.residents.keys().copied().collect();
        let mut any = false;
        for from in seats {
            if self.total.components as usize >= MOVES_MAX {
                self.total.more = true;
                return false;
            }
            any |= self.move_one(from, points);
        }
        any
    }

    fn move_one(&mut self, from: Seat, points: u8) -> bool {
        let residents = self.residents.get(&from).cloned().unwrap_or_default();
        let config_of = |id| self.owners.get(&id).and_then(|object| self.disks.get(object)).cloned();
        let found = rebalance(&self.picture, from, points, residents, &config_of);
        let Some((component, host)) = found else { return false };
        let config = self.disks.get_mut(&self.owners[&component]).expect("its disk was looked at");
        let change = relocate(&self.picture, config, component, &[host], &mut preview_ids(&mut self.last_id));
        let change = change.expect("it was just found");
        let to = change.members.iter().find(|m| change.added.contains(&m.component) && m.set().is_some());
        let to = to.expect("a twin holds data").seat();
        for member in config.members.iter_mut().filter(|m| m.component == component) {
            (member.host, member.disk_group) = (to.host, to.disk_group);
        }
        let here = self.residents.get_mut(&from).expect("it was there");
        let at = here.iter().position(|resident| resident.component == component).expect("it was there");
        let resident = here.swap_remove(at);
        self.residents.entry(to).or_default().push(resident);
        self.change_room(from, |group| give_back(group, resident.bytes));
        self.change_room(to, |group| take(group, resident.bytes));
        for host in [from.host, to.host] {
            let one = self.moved.entry(host).or_default();
            *one += resident.bytes;
            self.total.bytes_of_one_host_max = self.total.bytes_of_one_host_max.max(*one);
        }
        self.total.components += 1;
        self.total.bytes += resident.bytes;
        true
    }

    fn change_room(&mut self, seat: Seat, change: impl Fn(&mut DiskGroupPicture)) {
        let hosts = self.picture.hosts.iter_mut().filter(|host| host.host == seat.host);
        hosts.flat_map(|host| &mut host.disk_groups).filter(|g| g.disk_group == seat.disk_group).for_each(change);
    }

    /// What all moves come to that were worked out so far.
    pub fn moved(&self) -> &Moved {
        &self.total
    }
}

fn give_back(group: &mut DiskGroupPicture, bytes: u64) {
    group.free_bytes += bytes;
    if let Some(fullest) = group.devices.iter_mut().filter(|d| d.total_bytes > 0).min_by_key(|d| d.free_bytes) {
        fullest.free_bytes += bytes;
    }
}

fn take(group: &mut DiskGroupPicture, bytes: u64) {
    group.free_bytes = group.free_bytes.saturating_sub(bytes);
    if let Some(device) = DeviceRoom::choose(&group.devices, bytes) {
        group.devices[device].take(bytes, bytes);
    }
}

/// Over all groups that take components.
fn sum_of(picture: &ClusterPicture, of: impl Fn(&DiskGroupPicture) -> u64) -> u64 {
    let hosts = picture.hosts.iter().filter(|host| host.eligible());
    hosts.flat_map(|host| host.disk_groups.iter().filter(|group| group.up && !group.draining)).map(of).sum()
}
