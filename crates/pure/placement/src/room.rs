//! The room that is left while a placement is being worked out.
//!
//! Promises    a demand is taken from one device of one disk group, and never twice
//!             groups fill by what is promised as well as by what is used: a thin component counts half its growth
//! Assumes     the store chooses the device of a group as `DeviceRoom` does
//! Not here    which domain is chosen (solve.rs)

use std::cmp::Ordering;

use cairn_geometry::Area;
use cairn_types::{Addresses, DeviceRoom, HostId, Member, Policy, Role, Seat};

use crate::picture::{ClusterPicture, FaultDomain};

/// Bytes that must be free for a component of `component_bytes`: its reservation, or the thin start if that is more.
pub fn demand_bytes(policy: &Policy, component_bytes: u64) -> u64 {
    let reserved = (u128::from(component_bytes) * u128::from(policy.reservation_percent)).div_ceil(100) as u64;
    cairn_types::demand_bytes(component_bytes, reserved)
}

/// What a component asks of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Bytes that must be free now.
    pub(crate) demand_bytes: u64,
    /// Bytes that it has once all of it is written.
    pub(crate) full_bytes: u64,
}

impl Ask {
    pub(crate) fn of(policy: &Policy, component_bytes: u64) -> Self {
        Self { demand_bytes: demand_bytes(policy, component_bytes), full_bytes: component_bytes }
    }
}

/// One disk group that takes new components.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) seat: Seat,
    pub(crate) domain: FaultDomain,
    pub(crate) free_bytes: u64,
    pub(crate) devices: Vec<DeviceRoom>,
    pub(crate) components: u32,
    pub(crate) witnesses: u32,
    /// On the host that the disk is to be used at.
    near: bool,
}

impl Group {
    /// Bytes that the largest component there may demand.
    pub(crate) fn fits_bytes(&self) -> u64 {
        let device = self.devices.iter().map(|d| d.free_bytes).max().unwrap_or(0);
        device.min(self.free_bytes)
    }

    /// Whether a data component of that demand fits. A group without a working device holds no data at all.
    pub(crate) fn fits(&self, demand_bytes: u64) -> bool {
        self.devices.iter().any(|d| d.total_bytes > 0) && demand_bytes <= self.fits_bytes()
    }

    /// Components of that demand that fit one after the other.
    pub(crate) fn slots(&self, demand_bytes: u64) -> u64 {
        if self.devices.is_empty() {
            return 0;
        }
        if demand_bytes == 0 {
            return u64::MAX / 1024;
        }
        let devices: u64 = self.devices.iter().map(|d| d.free_bytes / demand_bytes).sum();
        devices.min(self.free_bytes / demand_bytes)
    }

    /// Orders groups for a component of this size: one on the host that the disk is to be used at is best, as long as
    /// all of the component can be written there; then by [`Self::by_emptiness`].
    pub(crate) fn by_preference(&self, other: &Self, full_bytes: u64) -> Ordering {
        let near = |g: &Self| g.near && g.devices.iter().any(|d| d.holds_in_full(full_bytes));
        near(self).cmp(&near(other)).then_with(|| self.by_emptiness(other))
    }

    /// Orders by how full the groups will be when all components have grown half way: the fuller group is less.
    ///
    /// Thin components do not show in free space until they are written. By free space alone, all disks that are made
    /// before they are written go to the one group that happens to be emptiest, and then fill it while others are empty.
    fn by_emptiness(&self, other: &Self) -> Ordering {
        let load = |g: &Self| -> (u128, u128) {
            let total: u64 = g.devices.iter().map(|d| d.total_bytes).sum();
            let growth: u64 = g.devices.iter().map(|d| d.growth_bytes / 2).sum();
            (u128::from(total.saturating_sub(g.free_bytes)) + u128::from(growth), u128::from(total.max(1)))
        };
        let ((own, own_total), (others, others_total)) = (load(self), load(other));
        let by_load = (others * own_total).cmp(&(own * others_total));
        by_load
            .then_with(|| other.components.cmp(&self.components))
            .then_with(|| other.seat.disk_group.cmp(&self.seat.disk_group))
    }

    /// Takes room for a data component; false, and nothing taken, where it does not fit.
    pub(crate) fn take(&mut self, ask: Ask) -> bool {
        let fits = self.fits(ask.demand_bytes);
        if fits {
            self.promise(ask);
        }
        fits
    }

    /// Counts a data component, whether or not there is room for it.
    fn promise(&mut self, ask: Ask) {
        if let Some(device) = DeviceRoom::choose(&self.devices, ask.demand_bytes) {
            self.devices[device].take(ask.demand_bytes, ask.full_bytes);
        }
        self.free_bytes = self.free_bytes.saturating_sub(ask.demand_bytes);
        self.components += 1;
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
            .filter(|h| h.up && h.maintenance.is_none())
            .flat_map(|h| {
                h.disk_groups.iter().filter(|g| g.up && !g.draining).map(|g| Group {
                    seat: Seat { host: h.host, disk_group: g.disk_group },
                    domain: h.domain(),
                    free_bytes: g.free_bytes,
                    devices: g.devices.clone(),
                    components: g.components,
                    witnesses: g.witnesses,
                    near: false,
                })
            })
            .collect();
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

    /// Takes what a member of a disk needs.
    pub(crate) fn take(&mut self, member: &Member, addresses: &Addresses, policy: &Policy, size_bytes: u64) {
        let Some(group) = self.group_mut(member.seat()) else {
            return;
        };
        match member.role {
            Role::Witness => group.witnesses += 1,
            Role::Data { set, .. } => {
                if let Some(area) = Area::of_set_at(addresses, size_bytes, set) {
                    group.promise(Ask::of(policy, area.component_bytes(set)));
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
                group.devices.clone_from(&left.devices);
            }
        }
    }
}
