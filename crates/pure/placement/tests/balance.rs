//! Many placements, one after the other: components follow free space, and big disks spread (L3).

mod world;

use std::collections::{BTreeMap, BTreeSet};

use cairn_placement::{ClusterPicture, DiskGroupPicture, RefusalKind, compliance, extend, place, place_near, replace};
use cairn_types::{HostId, Member, Policy, Role, Seat};
use world::{GIB, config, equal_hosts, host, ids};

/// Places `disks` disks and returns data components per host.
fn fill(picture: &mut ClusterPicture, policy: &Policy, size: u64, disks: usize) -> BTreeMap<u128, u32> {
    let mut data = BTreeMap::new();
    let mut ids = ids(1);
    for _ in 0..disks {
        let placement = place(picture, policy, size, &mut ids).expect("there is room");
        picture.take(&placement.addresses, policy, size, &placement.members);
        for member in placement.members.iter().filter(|m| m.role != Role::Witness) {
            *data.entry(member.host.0).or_default() += 1;
        }
    }
    data
}

#[test]
fn thin_disks_spread_evenly_over_equal_hosts() {
    let mut picture = equal_hosts(5, 10_000 * GIB);
    let data = fill(&mut picture, &Policy::default(), 10 * GIB, 500);
    for count in [|g: &DiskGroupPicture| g.components, |g: &DiskGroupPicture| g.witnesses] {
        let counts: Vec<u32> = picture.hosts.iter().map(|h| count(&h.disk_groups[0])).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(most.zip(least).is_some_and(|(m, l)| m - l <= 2), "{counts:?}");
    }
    assert!(data.values().all(|n| (198..=202).contains(n)), "1000 copies over 5 hosts: {data:?}");
}

#[test]
fn reserved_disks_fill_unequal_hosts_to_the_same_level() {
    // 4, 2, 2, 2 TiB: the large one takes more, and all end about equally full.
    let mut picture = equal_hosts(4, 2048 * GIB);
    picture.hosts[0] = host(1, &[&[4096 * GIB]]);
    let policy = Policy { reservation_percent: 100, ..Policy::default() };
    fill(&mut picture, &policy, 10 * GIB, 300);
    let used: Vec<u64> = picture
        .hosts
        .iter()
        .map(|h| {
            let group = &h.disk_groups[0];
            let total = group.devices[0].total_bytes;
            100 * (total - group.free_bytes) / total
        })
        .collect();
    let spread = used.iter().max().zip(used.iter().min()).map(|(a, b)| a - b);
    assert!(spread.is_some_and(|s| s <= 10), "percent used: {used:?}");
}

#[test]
fn a_cluster_is_filled_to_the_last_slot() {
    // 3 hosts of 4 devices with 10 slots each: 60 mirrored disks, not one less, and no 61st.
    let mut picture = ClusterPicture { hosts: (1..=3).map(|n| host(n, &[&[100 * GIB; 4]])).collect() };
    let policy = Policy { reservation_percent: 100, ..Policy::default() };
    fill(&mut picture, &policy, 10 * GIB, 60);
    let refusal = place(&picture, &policy, 10 * GIB, &mut ids(1)).unwrap_err();
    assert!(refusal.text.contains("host-1 has 0 B free"), "{refusal}");
}

#[test]
fn stripes_of_a_copy_stay_on_one_host_and_spread_over_its_disk_groups() {
    let picture =
        ClusterPicture { hosts: (1..=4).map(|n| host(n, &[&[100 * GIB], &[400 * GIB], &[100 * GIB]])).collect() };
    let policy = Policy { stripe_width: 3, ..Policy::default() };
    let placement = place(&picture, &policy, 30 * GIB, &mut ids(1)).expect("there is room");
    for copy in 0..2 {
        let members = placement.members.iter().filter(|m| matches!(m.role, Role::Data { copy: c, .. } if c == copy));
        let seats: BTreeSet<Seat> = members.map(Member::seat).collect();
        assert_eq!(seats.len(), 3, "three groups");
        let hosts: BTreeSet<_> = seats.iter().map(|s| s.host).collect();
        assert_eq!(hosts.len(), 1, "one host");
    }
}

#[test]
fn a_big_disk_spreads_over_all_hosts_and_nine_seats_vote() {
    let picture = ClusterPicture { hosts: (1..=12).map(|n| host(n, &[&[8192 * GIB; 4], &[8192 * GIB; 4]])).collect() };
    for ftt in 0..=3 {
        let policy = Policy { ftt, stripe_width: 4, ..Policy::default() };
        let size = 62 << 40;
        let placement = place(&picture, &policy, size, &mut ids(1)).expect("there is room");
        let copies = usize::from(ftt) + 1;
        assert_eq!(placement.members.len(), 249 * 4 * copies);
        let config = config(&placement, &policy, size);
        assert_eq!(compliance(&picture, &config), Vec::<String>::new());
        let voting = placement.members.iter().filter(|m| m.votes > 0);
        let seats: BTreeSet<Seat> = voting.map(Member::seat).collect();
        assert_eq!(seats.len(), 9);
        let hosts: BTreeSet<_> = seats.iter().map(|s| s.host).collect();
        assert_eq!(hosts.len(), 9);
        assert_eq!(config.seats().len(), 24);
    }
}

#[test]
fn a_disk_grows_without_moving() {
    let mut picture = equal_hosts(5, 2048 * GIB);
    let policy = Policy { reservation_percent: 100, ..Policy::default() };
    let size = 100 * GIB;
    let placement = place(&picture, &policy, size, &mut ids(1)).expect("there is room");
    picture.take(&placement.addresses, &policy, size, &placement.members);
    let before = config(&placement, &policy, size);
    let larger = 600 * GIB;
    let change = extend(&picture, &before, larger, &mut ids(100)).expect("there is room");
    for member in &before.members {
        let same = change.members.iter().find(|m| m.component == member.component);
        let witness = member.role == Role::Witness;
        assert!(witness || same.is_some_and(|m| m.seat() == member.seat() && m.role == member.role));
    }
    let mut after = before.clone();
    (after.members, after.size_bytes) = (change.members, larger);
    assert_eq!(compliance(&picture, &after), Vec::<String>::new());
    assert_eq!(after.members.iter().filter(|m| m.set().is_some()).count(), 6);
    // And back is refused, in words.
    let refusal = extend(&picture, &after, size, &mut ids(200)).unwrap_err();
    assert!(refusal.text.contains("cut off data"), "{refusal}");
    // More than the chunk's devices have is refused as well, though other hosts had room.
    let mut full = picture.clone();
    for host in &mut full.hosts {
        host.disk_groups[0].free_bytes = 50 * GIB;
        host.disk_groups[0].devices[0].free_bytes = 50 * GIB;
    }
    let refusal = extend(&full, &before, 200 * GIB, &mut ids(300)).unwrap_err();
    assert!(refusal.text.contains("reserve 100 GiB more on host-"), "{refusal}");
}

#[test]
fn a_copy_goes_to_the_host_of_use_if_it_has_room() {
    let mut picture = equal_hosts(5, 100 * GIB);
    let near = picture.hosts[3].host;
    // The fullest host: balance alone would leave it out.
    picture.hosts[3].disk_groups[0].components = 40;
    let data_at = |picture: &ClusterPicture, size| {
        let placed = place_near(picture, &Policy::default(), size, cairn_types::CHUNK_BYTES_MAX, &[near], &mut ids(1))
            .expect("there is room");
        let data = placed.members.iter().filter(|m| matches!(m.role, Role::Data { .. }) && m.host == near);
        (data.count(), placed.members.len())
    };
    assert_eq!(data_at(&picture, 10 * GIB), (1, 3));
    picture.hosts[3].up = false;
    assert_eq!(data_at(&picture, 10 * GIB), (0, 3), "a host that cannot take it is no reason to refuse");
}

/// Hosts with data of a disk.
fn data_hosts(members: &[Member]) -> BTreeSet<HostId> {
    members.iter().filter(|m| m.set().is_some()).map(|m| m.host).collect()
}

#[test]
fn a_component_goes_where_one_device_has_room_for_it() {
    let policy = Policy { reservation_percent: 100, ..Policy::default() };
    // The first host has most room, and no device for 10 GiB.
    let mut picture = equal_hosts(4, 12 * GIB);
    picture.hosts[0] = host(1, &[&[9 * GIB, 9 * GIB, 9 * GIB]]);
    let placed = place(&picture, &policy, 10 * GIB, &mut ids(1)).expect("two of the others have room");
    assert!(!data_hosts(&placed.members).contains(&HostId(1)), "{placed:?}");
    // A repair does not go there either, though it is the emptiest.
    let disk = config(&placed, &policy, 10 * GIB);
    picture.take(&placed.addresses, &policy, 10 * GIB, &placed.members);
    let lost = placed.members.iter().find(|m| m.set().is_some()).expect("a copy");
    let at = picture.hosts.iter().position(|h| h.host == lost.host).expect("its host");
    picture.hosts[at].up = false;
    let change = replace(&picture, &disk, lost.component, &mut ids(100)).expect("the fourth host has room");
    assert!(!data_hosts(&change.members).contains(&HostId(1)), "{change:?}");
    // Where nobody has room, the refusal tells the device's room and not the group's.
    for host in picture.hosts.iter_mut().filter(|h| h.host != HostId(1)) {
        host.disk_groups[0].devices[0].free_bytes = GIB;
    }
    let refusal = replace(&picture, &disk, lost.component, &mut ids(200)).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Space, "{refusal}");
    assert!(refusal.text.contains("host-1 has 9 GiB free on one device"), "{refusal}");
}

#[test]
fn thin_disks_larger_than_any_host_spread_over_all() {
    // Three disks of 30 GiB on hosts of 3.76 GiB, as a picture tells them that has the first ones' promises.
    let mut picture = equal_hosts(4, 3_760 << 20);
    let data = fill(&mut picture, &Policy::default(), 30 * GIB, 6);
    assert!(data.len() == 4 && data.values().all(|n| *n == 3), "{data:?}");
}

#[test]
fn what_is_promised_counts_beside_what_is_used() {
    // Nothing is written yet at any host; the first two promise 60 GiB each, in one component or in many.
    let mut picture = equal_hosts(4, 100 * GIB);
    for (host, components) in [(0, 1), (1, 60)] {
        picture.hosts[host].disk_groups[0].devices[0].growth_bytes = 60 * GIB;
        picture.hosts[host].disk_groups[0].components = components;
    }
    let placed = place(&picture, &Policy::default(), 10 * GIB, &mut ids(1)).expect("there is room");
    assert_eq!(data_hosts(&placed.members), BTreeSet::from([HostId(3), HostId(4)]));
    // The same promises, and more is written at the others: they are the fuller ones.
    for host in [2, 3] {
        picture.hosts[host].disk_groups[0].devices[0].free_bytes = 60 * GIB;
        picture.hosts[host].disk_groups[0].free_bytes = 60 * GIB;
    }
    let placed = place(&picture, &Policy::default(), 10 * GIB, &mut ids(1)).expect("there is room");
    assert_eq!(data_hosts(&placed.members), BTreeSet::from([HostId(1), HostId(2)]));
}

#[test]
fn the_host_of_use_is_preferred_while_it_can_hold_the_disk_in_full() {
    let mut picture = equal_hosts(4, 100 * GIB);
    let near = picture.hosts[0].host;
    let mut taken = 0;
    for _ in 0..20 {
        let policy = Policy::default();
        let placed = place_near(&picture, &policy, 30 * GIB, cairn_types::CHUNK_BYTES_MAX, &[near], &mut ids(1))
            .expect("there is room");
        picture.take(&placed.addresses, &policy, 30 * GIB, &placed.members);
        taken += u32::from(data_hosts(&placed.members).contains(&near));
    }
    assert!((10..=12).contains(&taken), "{taken} of 20 disks have a copy at the host of their use");
}
