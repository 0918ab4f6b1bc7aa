//! What a loss comes to, on small clusters.

mod world;

use std::collections::BTreeSet;

use cairn_placement::{ClusterPicture, LossPreview, Lost, place};
use cairn_types::{ComponentState, DiskGroupId, ObjectConfig, OpId, Policy};
use world::{GIB, MIB, config, equal_hosts, host, ids};

fn disk(picture: &ClusterPicture, n: u128, ftt: u8, size: u64) -> ObjectConfig {
    let policy = Policy { ftt, ..Policy::default() };
    let placed = place(picture, &policy, size, &mut ids(1000 * n)).unwrap();
    ObjectConfig { name: format!("d{n}"), ..config(&placed, &policy, size) }
}

fn preview(picture: &ClusterPicture, lost: Lost, disks: &[ObjectConfig]) -> LossPreview {
    let mut preview = LossPreview::new(picture.clone(), lost);
    disks.iter().for_each(|disk| preview.add(disk));
    preview
}

/// Goal: a mirror survives a host and is rebuilt where there is a fourth; of three it is not, and says why; one copy is lost with its host.
#[test]
fn a_host_that_is_lost() {
    for (hosts, rebuilt) in [(4, true), (3, false)] {
        let picture = equal_hosts(hosts, GIB);
        let disks = [disk(&picture, 1, 1, 64 * MIB), disk(&picture, 2, 0, 64 * MIB)];
        let lost = disks[1].members[0].host;
        let told = preview(&picture, Lost::Hosts(vec![lost]), &disks);
        let there = disks[0].members.iter().filter(|m| m.host == lost).count();
        assert_eq!(told.lost, ["d2"]);
        assert_eq!((told.disks, told.reduced.len()), (1 + there as u32, there));
        assert_eq!(told.not_rebuilt.is_empty(), rebuilt || there == 0, "{told:?}");
    }
}

/// Goal: what is rebuilt fits together. Method: two hosts of equal disks, of which the others have room for one copy more.
#[test]
fn what_is_rebuilt_fits_together() {
    let mut picture = equal_hosts(4, GIB);
    let reserved = Policy { ftt: 1, reservation_percent: 100, ..Policy::default() };
    let one = |n: u128, picture: &mut ClusterPicture| {
        let placed = place(picture, &reserved, 300 * MIB, &mut ids(1000 * n)).unwrap();
        picture.take(&placed.addresses, &reserved, 300 * MIB, &placed.members);
        ObjectConfig { name: format!("d{n}"), ..config(&placed, &reserved, 300 * MIB) }
    };
    // Twelve copies of 300 MiB would fill four hosts of 1 GiB: of ten, each host has two or three.
    let disks: Vec<ObjectConfig> = (1..=5).map(|n| one(n, &mut picture)).collect();
    let lost = picture.hosts[0].host;
    let copies = disks.iter().flat_map(|d| &d.members).filter(|m| m.host == lost && m.set().is_some()).count();
    let told = preview(&picture, Lost::Hosts(vec![lost]), &disks);
    let room = 9 - (10 - copies);
    assert!(told.rebuilt.len() <= room, "{told:?}");
    assert!(told.rebuilt.len() + told.not_rebuilt.len() >= copies, "{told:?}");
}

/// Goal: a device takes its components with it, no votes; a disk group takes both. Method: a mirror whose other copy is away.
#[test]
fn a_device_keeps_the_votes() {
    let picture = ClusterPicture { hosts: (1..=4).map(|n| host(n, &[&[GIB, GIB]])).collect() };
    let mut mirror = disk(&picture, 1, 1, 64 * MIB);
    let first = mirror.members[0];
    let device = |components| Lost::Device { disk_group: first.disk_group, room: Some(0), components };
    let told = preview(&picture, device(BTreeSet::from([first.component])), std::slice::from_ref(&mirror));
    assert_eq!((told.reduced.len(), told.rebuilt.clone()), (1, vec![first.component]));
    assert_eq!(preview(&picture, device(BTreeSet::new()), std::slice::from_ref(&mirror)).disks, 0);
    mirror.members[1].state = ComponentState::Absent { stale_since: OpId::ZERO };
    let told = preview(&picture, device(BTreeSet::from([first.component])), std::slice::from_ref(&mirror));
    assert_eq!(told.lost, ["d1"], "its only copy in sync");
    let told = preview(&picture, Lost::DiskGroup(first.disk_group), std::slice::from_ref(&mirror));
    assert_eq!(told.lost, ["d1"]);
    let other = Lost::DiskGroup(DiskGroupId(999));
    assert_eq!(preview(&picture, other, std::slice::from_ref(&mirror)).disks, 0);
}
