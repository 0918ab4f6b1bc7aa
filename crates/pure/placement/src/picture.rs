//! What placement sees of the cluster: hosts, fault domains, disk groups, free space.
//!
//! Not here    how the picture is taken (engine/node)

use cairn_geometry::Area;
use cairn_types::{Addresses, DeviceRoom, DiskGroupId, HostId, MaintenanceMode, Member, Policy, Seat};

use crate::room::Room;

/// The cluster at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterPicture {
    /// Every host that the cluster knows, up or not.
    pub hosts: Vec<HostPicture>,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPicture {
    /// Its id.
    pub host: HostId,
    /// Its name, for refusals.
    pub name: String,
    /// The fault domain that an administrator put it in; none: it is one by itself.
    pub fault_domain: Option<String>,
    /// Whether it answers.
    pub up: bool,
    /// Whether it is in maintenance, or on its way there: it serves what it has and is given nothing new.
    pub maintenance: Option<MaintenanceMode>,
    /// Its disk groups.
    pub disk_groups: Vec<DiskGroupPicture>,
}

/// One disk group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskGroupPicture {
    /// Its id.
    pub disk_group: DiskGroupId,
    /// Whether it takes new components.
    pub up: bool,
    /// Whether it is being emptied: it serves what it has and is given nothing new.
    pub draining: bool,
    /// Its capacity devices that work. Without any it may hold witnesses only.
    pub devices: Vec<DeviceRoom>,
    /// Bytes neither used nor reserved nor kept back for cleaning, over all its devices.
    pub free_bytes: u64,
    /// Components with data that live there.
    pub components: u32,
    /// Witnesses that live there.
    pub witnesses: u32,
}

/// Hosts that fail together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultDomain {
    /// One that an administrator named: a rack, a site.
    Named(String),
    /// A host by itself.
    Host(HostId),
}

impl HostPicture {
    /// The fault domain that the host belongs to.
    pub fn domain(&self) -> FaultDomain {
        match &self.fault_domain {
            Some(name) => FaultDomain::Named(name.clone()),
            None => FaultDomain::Host(self.host),
        }
    }

    /// Whether new components may go to some disk group of the host.
    pub fn eligible(&self) -> bool {
        self.up && self.maintenance.is_none() && self.disk_groups.iter().any(|g| g.up && !g.draining)
    }
}

impl ClusterPicture {
    /// The host with this id.
    pub fn host(&self, host: HostId) -> Option<&HostPicture> {
        self.hosts.iter().find(|h| h.host == host)
    }

    /// Whether the host of a seat answers, and has the disk group open.
    pub fn has_group(&self, seat: Seat) -> bool {
        let host = self.host(seat.host).filter(|host| host.up);
        host.is_some_and(|host| host.disk_groups.iter().any(|group| group.disk_group == seat.disk_group && group.up))
    }

    /// What becomes of what a seat holds; none: it stays.
    pub fn leaves(&self, seat: Seat) -> Option<MaintenanceMode> {
        let host = self.host(seat.host)?;
        let draining = host.disk_groups.iter().any(|g| g.disk_group == seat.disk_group && g.draining);
        if draining { Some(MaintenanceMode::FullEvacuation) } else { host.maintenance }
    }

    /// The fault domain of a host; a host that the picture lacks is one by itself.
    pub fn domain_of(&self, host: HostId) -> FaultDomain {
        self.host(host).map_or(FaultDomain::Host(host), HostPicture::domain)
    }

    /// Adds `members` of a disk that were placed a moment ago, and that their hosts may not have told of yet.
    ///
    /// They count where groups are put in order, and take no free space: a host that has told of them would lose it twice.
    pub fn expect(&mut self, addresses: &Addresses, size_bytes: u64, members: &[Member]) {
        for member in members {
            let host = self.hosts.iter_mut().find(|h| h.host == member.host);
            let group = host.and_then(|h| h.disk_groups.iter_mut().find(|g| g.disk_group == member.disk_group));
            let Some(group) = group else { continue };
            let Some(set) = member.set() else {
                group.witnesses += 1;
                continue;
            };
            let Some(area) = Area::of_set_at(addresses, size_bytes, set) else { continue };
            if let Some(device) = DeviceRoom::choose(&group.devices, 0) {
                group.devices[device].growth_bytes += area.component_bytes(set);
            }
            group.components += 1;
        }
    }

    /// The picture after `members` of a disk were created: for placing several disks from one picture.
    pub fn take(&mut self, addresses: &Addresses, policy: &Policy, size_bytes: u64, members: &[Member]) {
        let mut room = Room::of(self);
        for member in members {
            room.take(member, addresses, policy, size_bytes);
        }
        room.write_back(self);
    }
}
