//! The room that is left while a placement is being worked out.
//!
//! Promises    a demand is taken from one device of one disk group, and never twice
//! Assumes     the store puts a component on the device of the group with the most free space
//! Not here    which domain is chosen (solve.rs)

use std::cmp::Ordering;

use cairn_geometry::component_bytes;
use cairn_types::{HostId, Layout, Member, Policy, Role, Seat};

use crate::picture::{ClusterPicture, FaultDomain};

/// Bytes that a thin component must find free, at most: it starts empty, and its first writes must not fail.
///
/// 64 MiB hold what mkfs writes to a new disk of usual size. More would refuse disks on small clusters that would
/// have lived; less lets a disk be created that refuses its first write.
pub const THIN_HEADROOM_BYTES: u64 = 64 << 20;

/// Bytes that must be free for a component of `component_bytes`: its reservation, or the thin start if that is more.
pub fn demand_bytes(policy: &Policy, component_bytes: u64) -> u64 {
    let reserved = (u128::from(component_bytes) * u128::from(policy.reservation_percent)).div_ceil(100) as u64;
    reserved.max(component_bytes.min(THIN_HEADROOM_BYTES))
}

/// One disk group that takes new components.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) seat: Seat,
    pub(crate) domain: FaultDomain,
    pub(crate) free_bytes: u64,
    pub(crate) devices_free_bytes: Vec<u64>,
    pub(crate) total_bytes: u64,
    pub(crate) components: u32,
    pub(crate) witnesses: u32,
    /// What a component is expected to hold once it is written: the mean of the cluster.
    component_guess_bytes: u64,
    /// On the host that the disk is to be used at.
    near: bool,
}

impl Group {
    /// Bytes that the largest component there may demand.
    pub(crate) fn fits_bytes(&self) -> u64 {
        let device = self.devices_free_bytes.iter().copied().max().unwrap_or(0);
        device.min(self.free_bytes)
    }

    /// Whether a data component of that demand fits. A group without a working device holds no data at all.
    pub(crate) fn fits(&self, demand: u64) -> bool {
        !self.devices_free_bytes.is_empty() && demand <= self.fits_bytes()
    }

    /// Components of that demand that fit one after the other.
    pub(crate) fn slots(&self, demand: u64) -> u64 {
        if self.devices_free_bytes.is_empty() {
            return 0;
        }
        if demand == 0 {
            return u64::MAX / 1024;
        }
        let devices: u64 = self.devices_free_bytes.iter().map(|free| free / demand).sum();
        devices.min(self.free_bytes / demand)
    }

    /// Orders groups: one on the host that the disk is to be used at is best, then by [`Self::by_emptiness`].
    pub(crate) fn by_preference(&self, other: &Self) -> Ordering {
        self.near.cmp(&other.near).then_with(|| self.by_emptiness(other))
    }

    /// Orders by how full the groups are expected to become: the fuller group is less.
    ///
    /// Thin components do not show in free space until they are written: without a guess at what they will hold, all
    /// disks made in one minute would go to the one group that happens to be emptiest.
    fn by_emptiness(&self, other: &Self) -> Ordering {
        let load = |g: &Self| {
            let used = g.total_bytes.saturating_sub(g.free_bytes);
            u128::from(used) + (u128::from(g.components) + 1) * u128::from(g.component_guess_bytes)
        };
        let own = load(self) * u128::from(other.total_bytes.max(1));
        let others = load(other) * u128::from(self.total_bytes.max(1));
        others.cmp(&own).then_with(|| other.seat.disk_group.cmp(&self.seat.disk_group))
    }

    /// Takes room for a data component; false, and nothing taken, where it does not fit.
    pub(crate) fn take(&mut self, demand: u64) -> bool {
        if !self.fits(demand) {
            return false;
        }
        if let Some(device) = self.devices_free_bytes.iter_mut().max() {
            *device -= demand;
        }
        self.free_bytes -= demand;
        self.components += 1;
        true
    }
}

/// All disk groups that take new components, in order of seat.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    pub(crate) groups: Vec<Group>,
}

impl Room {
    /// The room in a picture: groups that are up on hosts that are up and not in maintenance.
    pub(crate) fn of(picture: &ClusterPicture) -> Self {
        let mut groups: Vec<Group> = picture
            .hosts
            .iter()
            .filter(|h| h.up && !h.maintenance)
            .flat_map(|h| {
                h.disk_groups.iter().filter(|g| g.up).map(|g| Group {
                    seat: Seat { host: h.host, disk_group: g.disk_group },
                    domain: h.domain(),
                    free_bytes: g.free_bytes,
                    devices_free_bytes: g.devices.iter().map(|d| d.free_bytes).collect(),
                    total_bytes: g.devices.iter().map(|d| d.total_bytes).sum(),
                    components: g.components,
                    witnesses: g.witnesses,
                    component_guess_bytes: 0,
                    near: false,
                })
            })
            .collect();
        let used: u64 = groups.iter().map(|g| g.total_bytes.saturating_sub(g.free_bytes)).sum();
        let components: u64 = groups.iter().map(|g| u64::from(g.components)).sum();
        let guess = (used / components.max(1)).max(THIN_HEADROOM_BYTES);
        for group in &mut groups {
            group.component_guess_bytes = guess;
        }
        groups.sort_by_key(|g| g.seat);
        Self { groups }
    }

    /// Data goes to one of these where it can: reads and one copy of each write stay there.
    pub(crate) fn prefer(&mut self, hosts: &[HostId]) {
        self.groups.iter_mut().for_each(|group| group.near = hosts.contains(&group.seat.host));
    }

    /// The fault domains that take new components, each once, in order.
    pub(crate) fn domains(&self) -> Vec<FaultDomain> {
        let mut domains: Vec<_> = self.groups.iter().map(|g| g.domain.clone()).collect();
        domains.sort();
        domains.dedup();
        domains
    }

    /// The group at a seat.
    pub(crate) fn group_mut(&mut self, seat: Seat) -> Option<&mut Group> {
        self.groups.iter_mut().find(|g| g.seat == seat)
    }

    /// Takes what a member of a disk needs, as far as it is there.
    pub(crate) fn take(&mut self, member: &Member, layout: &Layout, policy: &Policy, size_bytes: u64) {
        let Some(group) = self.group_mut(member.seat()) else {
            return;
        };
        match member.role {
            Role::Witness => group.witnesses += 1,
            Role::Data { set, .. } => {
                let demand = demand_bytes(policy, component_bytes(layout, size_bytes, set));
                if !group.take(demand) {
                    group.components += 1;
                }
            }
        }
    }

    /// Puts what is left back into the picture that the room was made of.
    pub(crate) fn write_back(&self, picture: &mut ClusterPicture) {
        for host in &mut picture.hosts {
            for group in &mut host.disk_groups {
                let seat = Seat { host: host.host, disk_group: group.disk_group };
                let Some(left) = self.groups.iter().find(|g| g.seat == seat) else {
                    continue;
                };
                group.free_bytes = left.free_bytes;
                group.components = left.components;
                group.witnesses = left.witnesses;
                for (device, free) in group.devices.iter_mut().zip(&left.devices_free_bytes) {
                    device.free_bytes = *free;
                }
            }
        }
    }
}
