//! Disk groups that are emptied because a device of theirs is slow: one entry for the cluster, so that hosts take turns by it.
//!
//! Promises    one of them is being emptied at a time: who is second finds the first one in the entry that it wants to replace
//! Not here    which device is slow (`pace`), when its group may be begun with (`placement`, `node`)

use cairn_types::{Canary, DeviceId, DiskGroupId, HostId};
use serde::{Deserialize, Serialize};

use crate::{
    entries::{DeviceRole, Entry, TheCluster},
    key::Kind,
};

/// What is done about slow disk groups. Where there is none, nothing is. Older releases pass it over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SlowGroupsEntry {
    /// Those that are being emptied or were: they are given nothing new.
    #[serde(default)]
    pub groups: Vec<SlowGroup>,
    /// Those that an administrator took into use again: they are left alone.
    #[serde(default)]
    pub called_off: Vec<CalledOff>,
}

/// A disk group that is left alone, for as long as its slow device is one of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalledOff {
    /// It.
    pub disk_group: DiskGroupId,
    /// The devices that it had then: one that comes later is another matter.
    pub devices: Vec<DeviceId>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowGroup {
    /// It.
    pub disk_group: DiskGroupId,
    /// The shard that has it.
    pub host: HostId,
    /// The device that was slow.
    pub device: DeviceId,
    /// What that is there.
    pub role: DeviceRole,
    /// Microseconds that its requests took when this was begun.
    pub took_us: u64,
    /// And those of its peers.
    pub peers_us: u64,
    /// When it became slow, in ms since 1970: for people.
    pub since_unix_ms: u64,
    /// Components that were on the group then.
    pub components: u32,
    /// Nothing is left on it.
    #[serde(default)]
    pub emptied: bool,
}

impl Entry for SlowGroupsEntry {
    const KIND: Kind = Kind::SlowGroups;
    type Id = TheCluster;
}

impl SlowGroupsEntry {
    /// That one.
    pub fn group(&self, id: DiskGroupId) -> Option<&SlowGroup> {
        self.groups.iter().find(|group| group.disk_group == id)
    }

    /// With one more that is to be emptied; none where another one is being emptied, or this one is to be left alone.
    pub fn begun(&self, new: SlowGroup) -> Option<Self> {
        let waits = self.groups.iter().any(|group| !group.emptied) && !Canary::SlowAllAtOnce.sings();
        let known = self.group(new.disk_group).is_some() || self.is_called_off(new.disk_group, new.device);
        (!waits && !known).then(|| {
            let mut next = self.clone();
            next.groups.push(new);
            next
        })
    }

    /// With nothing left on this one.
    pub fn emptied(&self, id: DiskGroupId) -> Self {
        let mut next = self.clone();
        next.groups.iter_mut().filter(|group| group.disk_group == id).for_each(|group| group.emptied = true);
        next
    }

    /// Without these: they are in use again, or gone.
    pub fn without(&self, goes: impl Fn(&SlowGroup) -> bool) -> Self {
        let mut next = self.clone();
        next.groups.retain(|group| !goes(group));
        next
    }

    /// With this one in use again, and left alone from now on while it has these devices.
    pub fn with_called_off(&self, off: CalledOff) -> Self {
        let mut next = self.without(|group| group.disk_group == off.disk_group);
        next.called_off.retain(|known| known.disk_group != off.disk_group);
        next.called_off.push(off);
        next
    }

    /// Whether it is left alone though this device of it is slow.
    pub fn is_called_off(&self, id: DiskGroupId, device: DeviceId) -> bool {
        self.called_off.iter().any(|off| off.disk_group == id && off.devices.contains(&device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(n: u128) -> SlowGroup {
        SlowGroup {
            disk_group: DiskGroupId(n),
            host: HostId(n),
            device: DeviceId(n),
            role: DeviceRole::Capacity,
            took_us: 12_300,
            peers_us: 600,
            since_unix_ms: 1,
            components: 3,
            emptied: false,
        }
    }

    #[test]
    fn they_take_turns_and_one_that_was_called_off_has_none() {
        let one = SlowGroupsEntry::default().begun(group(1)).unwrap();
        assert_eq!((one.begun(group(2)), one.begun(group(1))), (None, None));
        let emptied = one.emptied(DiskGroupId(1));
        assert_eq!(emptied.begun(group(1)), None, "it is there");
        let two = emptied.begun(group(2)).unwrap();
        assert_eq!(two.begun(group(3)), None);
        let devices = vec![DeviceId(2), DeviceId(20)];
        let off = two.with_called_off(CalledOff { disk_group: DiskGroupId(2), devices });
        assert_eq!((off.groups.len(), off.begun(group(2))), (1, None));
        assert!(off.begun(SlowGroup { device: DeviceId(21), ..group(2) }).is_some(), "a new device");
        assert!(off.begun(group(3)).is_some());
        let gone = two.without(|group| group.host == HostId(1));
        assert_eq!((gone.group(DiskGroupId(1)), gone.groups.len()), (None, 1));
    }

    #[test]
    fn what_a_later_build_adds_is_passed_over() {
        let json = r#"{"groups":[],"called_off":[],"more":1}"#;
        assert_eq!(serde_json::from_str::<SlowGroupsEntry>(json).unwrap(), SlowGroupsEntry::default());
        assert_eq!(serde_json::from_str::<SlowGroupsEntry>("{}").unwrap(), SlowGroupsEntry::default());
    }
}
