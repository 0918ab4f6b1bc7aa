//! What is told of a growth: moves that end and leave groups nearer to each other, and disks that get what they lack.

mod world;

use std::collections::BTreeMap;

use cairn_placement::{Addition, ClusterPicture, GrowthPreview, place};
use cairn_types::{ComponentId, ComponentState, ObjectConfig, ObjectId, Policy};
use proptest::prelude::*;
use world::{GIB, config, equal_hosts, ids};

const SIZE: u64 = 100 * GIB;

/// Mirrors on these hosts, and what each of their copies holds.
fn filled(hosts: u128, bytes: &[u64]) -> (ClusterPicture, Vec<ObjectConfig>, BTreeMap<ComponentId, u64>) {
    let mut picture = equal_hosts(hosts, SIZE);
    let policy = Policy { ftt: 1, ..Policy::default() };
    let (mut disks, mut held) = (Vec::new(), BTreeMap::new());
    for (n, bytes) in bytes.iter().enumerate() {
        let placed = place(&picture, &policy, GIB, &mut ids(1000 * (n as u128 + 1))).unwrap();
        let disk = ObjectConfig { object: ObjectId(n as u128 + 1), ..config(&placed, &policy, GIB) };
        for member in disk.members.iter().filter(|m| m.set().is_some()) {
            held.insert(member.component, *bytes);
            let host = picture.hosts.iter_mut().find(|host| host.host == member.host).unwrap();
            let group = &mut host.disk_groups[0];
            group.free_bytes = group.free_bytes.saturating_sub(*bytes);
            group.devices[0].free_bytes = group.free_bytes;
        }
        disks.push(disk);
    }
    (picture, disks, held)
}

fn preview(
    (picture, disks, held): &(ClusterPicture, Vec<ObjectConfig>, BTreeMap<ComponentId, u64>),
    addition: &Addition,
) -> GrowthPreview {
    let mut preview = GrowthPreview::new(picture.clone(), addition);
    disks.iter().for_each(|disk| preview.add(disk.clone(), &|id| held.get(&id).copied()));
    while preview.rebalance_round(30) {}
    preview
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Goal: what is told adds up. Method: disks of any sizes on three or more hosts, and hosts that come: bytes that move are bytes that are there, and
    /// no room is made or lost but what comes.
    #[test]
    fn room_is_kept_account_of(
        hosts in 3u128..6, sizes in prop::collection::vec(1u64..16, 1..24), more in 1u8..4
    ) {
        let bytes: Vec<u64> = sizes.iter().map(|n| n * GIB / 2).collect();
        let world = filled(hosts, &bytes);
        let preview = preview(&world, &Addition::Hosts { hosts: more, devices: vec![SIZE] });
        let all: u64 = world.2.values().sum();
        let moved = preview.moved();
        prop_assert!(!moved.more);
        prop_assert!(moved.bytes_of_one_host_max <= moved.bytes);
        prop_assert_eq!(preview.raw_bytes(), [hosts as u64 * SIZE, (hosts as u64 + u64::from(more)) * SIZE]);
        let [before, after] = preview.free_bytes();
        if all < SIZE {
            prop_assert_eq!(after - before, u64::from(more) * SIZE);
        }
        prop_assert!(preview.completed.is_empty() && preview.still_lacking.is_empty());
    }
}

/// Goal: a cluster that is full gives to what comes, and one that is not does not. Method: three hosts at 80 and at 10 per cent.
#[test]
fn what_is_full_gives() {
    let host = Addition::Hosts { hosts: 1, devices: vec![SIZE] };
    let full = preview(&filled(3, &[8 * GIB; 15]), &host);
    let moved = full.moved();
    assert!(moved.components >= 5 && moved.bytes == moved.components * 8 * GIB, "{moved:?}");
    let [before, after] = full.free_bytes();
    assert_eq!(after - before, SIZE);
    assert_eq!(preview(&filled(3, &[GIB; 15]), &host).moved().components, 0);
}

/// Goal: disks that lost a copy and had no place for another get one. Method: one of three hosts is dead; without another host they
/// lack it still.
#[test]
fn what_is_missing_comes() {
    let (mut picture, mut disks, held) = filled(3, &[GIB; 6]);
    picture.hosts[0].up = false;
    let dead = picture.hosts[0].host;
    for member in disks.iter_mut().flat_map(|disk| &mut disk.members).filter(|m| m.host == dead) {
        member.state = ComponentState::Degraded;
    }
    let lacking = disks.iter().filter(|disk| disk.members.iter().any(|m| m.host == dead)).count();
    let group = picture.hosts[1].disk_groups[0].disk_group;
    let world = (picture, disks, held);
    let with_device = preview(&world, &Addition::Device { disk_group: group, bytes: SIZE });
    assert_eq!((with_device.completed.len(), with_device.still_lacking.len()), (0, lacking));
    let with_host = preview(&world, &Addition::Hosts { hosts: 1, devices: vec![SIZE] });
    assert_eq!((with_host.completed.len(), with_host.still_lacking.len()), (lacking, 0));
    assert!(!with_host.copied_from.is_empty());
}
