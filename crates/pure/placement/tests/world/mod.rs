//! Small clusters and counted ids for the tests of this room.
#![allow(dead_code)] // each test file uses a part of it

use cairn_placement::{ClusterPicture, DiskGroupPicture, HostPicture, Placement};
use cairn_types::{ComponentId, DeviceRoom, DiskGroupId, HostId, ObjectConfig, ObjectId, OpId, Policy, format_bytes};

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// A host with one disk group for each item of `groups`: the free bytes of its devices.
pub fn host(n: u128, groups: &[&[u64]]) -> HostPicture {
    HostPicture {
        host: HostId(n),
        name: format!("host-{n}"),
        fault_domain: None,
        up: true,
        maintenance: None,
        disk_groups: groups
            .iter()
            .enumerate()
            .map(|(i, devices)| DiskGroupPicture {
                disk_group: DiskGroupId(n * 10 + i as u128),
                up: true,
                draining: false,
                devices: devices
                    .iter()
                    .map(|&free_bytes| DeviceRoom { free_bytes, total_bytes: free_bytes, growth_bytes: 0 })
                    .collect(),
                free_bytes: devices.iter().sum(),
                components: 0,
                witnesses: 0,
            })
            .collect(),
    }
}

/// `count` hosts of one disk group with one device each.
pub fn equal_hosts(count: u128, free_bytes: u64) -> ClusterPicture {
    ClusterPicture { hosts: (1..=count).map(|n| host(n, &[&[free_bytes]])).collect() }
}

/// Ids from `first` on.
pub fn ids(first: u128) -> impl FnMut() -> ComponentId {
    let mut next = first;
    move || {
        next += 1;
        ComponentId(next - 1)
    }
}

/// The configuration of a disk placed so.
pub fn config(placement: &Placement, policy: &Policy, size_bytes: u64) -> ObjectConfig {
    ObjectConfig {
        object: ObjectId(1),
        name: "d".into(),
        size_bytes,
        policy: policy.clone(),
        policy_name: "p".into(),
        addresses: placement.addresses.clone(),
        members: placement.members.clone(),
        decided: OpId::ZERO,
        deleted: false,
        past: None,
        ancestry: None,
    }
}

/// For messages of failing tests.
pub fn show(picture: &ClusterPicture) -> String {
    picture
        .hosts
        .iter()
        .map(|h| {
            let groups: Vec<String> = h
                .disk_groups
                .iter()
                .map(|g| {
                    let free: Vec<_> = g.devices.iter().map(|d| format_bytes(d.free_bytes)).collect();
                    format!("{}{free:?}", if g.up { "" } else { "down" })
                })
                .collect();
            format!("{} {:?} up {} maint {} {groups:?}\n", h.name, h.fault_domain, h.up, h.maintenance.is_some())
        })
        .collect()
}
