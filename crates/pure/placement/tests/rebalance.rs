//! Rebalancing: it evens out what may be evened out, and ends.

mod world;

use std::collections::BTreeMap;

use cairn_placement::{ClusterPicture, Resident, place, rebalance};
use cairn_types::{ComponentId, HostId, MaintenanceMode, ObjectConfig, Policy, Seat};
use proptest::prelude::*;
use world::{GIB, config, equal_hosts, ids};

const SIZE: u64 = 100 * GIB;

/// Disks with the bytes that each copy of them holds.
struct Cluster {
    picture: ClusterPicture,
    disks: Vec<(ObjectConfig, u64)>,
}

impl Cluster {
    fn new(hosts: u128, disks: &[u64]) -> Self {
        let empty = equal_hosts(hosts, SIZE);
        // All made while there are three hosts: the others come later.
        let few = ClusterPicture { hosts: empty.hosts[..3].to_vec() };
        let policy = Policy { ftt: 1, ..Policy::default() };
        let disk = |(n, bytes): (usize, &u64)| {
            let placed = place(&few, &policy, GIB, &mut ids(1000 * (n as u128 + 1))).unwrap();
            (config(&placed, &policy, GIB), *bytes)
        };
        Self { disks: disks.iter().enumerate().map(disk).collect(), picture: empty }.with_fill()
    }

    fn with_fill(mut self) -> Self {
        let mut used: BTreeMap<HostId, u64> = BTreeMap::new();
        for (disk, bytes) in &self.disks {
            disk.members.iter().filter(|m| m.set().is_some()).for_each(|m| *used.entry(m.host).or_default() += bytes);
        }
        for host in &mut self.picture.hosts {
            host.disk_groups[0].free_bytes = SIZE - used.get(&host.host).copied().unwrap_or(0).min(SIZE);
        }
        self
    }

    fn seat(&self, n: usize) -> Seat {
        Seat { host: self.picture.hosts[n].host, disk_group: self.picture.hosts[n].disk_groups[0].disk_group }
    }

    fn next(&self, n: usize, points: u8) -> Option<(ComponentId, HostId)> {
        let seat = self.seat(n);
        let here = |(disk, bytes): &(ObjectConfig, u64)| {
            let members = disk.members.iter().filter(|m| m.set().is_some() && m.seat() == seat);
            members.map(|m| Resident { component: m.component, bytes: *bytes }).collect::<Vec<_>>()
        };
        let residents = self.disks.iter().flat_map(here).collect();
        let of = |id| self.disks.iter().find(|(disk, _)| disk.member(id).is_some()).map(|(disk, _)| disk.clone());
        rebalance(&self.picture, seat, points, residents, &of)
    }

    fn fills(&self) -> Vec<u64> {
        self.picture.hosts.iter().map(|h| (SIZE - h.disk_groups[0].free_bytes) * 100 / SIZE).collect()
    }

    /// The move, as it is when its twin has been filled.
    fn carry_out(mut self, component: ComponentId, to: HostId) -> Self {
        let group = self.picture.host(to).unwrap().disk_groups[0].disk_group;
        for (disk, _) in &mut self.disks {
            if let Some(member) = disk.member_mut(component) {
                (member.host, member.disk_group) = (to, group);
            }
        }
        self.with_fill()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Goal: it ends, within the points or where nothing more may go, and never makes the fullest group fuller. Method: disks of any sizes
    /// on three hosts, and hosts that join; each group in turn gives what it is told to, until none does.
    #[test]
    fn it_ends_and_evens_out(
        joined in 0u128..4, sizes in prop::collection::vec(1u64..20, 1..30), points in prop::sample::select(vec![5u8, 15, 30])
    ) {
        let bytes: Vec<u64> = sizes.iter().map(|n| n * GIB / 2).collect();
        let mut cluster = Cluster::new(3 + joined, &bytes);
        let mut moves = 0;
        loop {
            let fullest = *cluster.fills().iter().max().unwrap();
            let hosts = cluster.picture.hosts.len();
            let Some((component, to)) = (0..hosts).find_map(|n| cluster.next(n, points)) else { break };
            cluster = cluster.carry_out(component, to);
            prop_assert!(*cluster.fills().iter().max().unwrap() <= fullest);
            moves += 1;
            prop_assert!(moves < 500, "it does not end: {:?}", cluster.fills());
        }
        // Small components can always go to hosts that have none of them.
        if joined >= 2 && bytes.iter().all(|bytes| *bytes < GIB * 2) {
            let fills = cluster.fills();
            let (least, most) = (fills.iter().min().unwrap(), fills.iter().max().unwrap());
            prop_assert!(most - least <= u64::from(points) + 2, "{:?} after {} moves", fills, moves);
        }
    }
}

/// Goal: nothing goes from or to a host that is being emptied, nor where groups differ by less than is allowed, nor when it is off.
#[test]
fn it_leaves_alone_what_it_should() {
    let mut cluster = Cluster::new(4, &[GIB * 10; 5]);
    let (component, to) = (0..3).find_map(|n| cluster.next(n, 30)).unwrap();
    let at = cluster.picture.hosts.iter().position(|host| host.host == to).unwrap();
    assert_eq!(cluster.fills()[at], 0, "the emptiest takes it: {:?}", cluster.fills());
    assert!(cluster.disks.iter().any(|(disk, _)| disk.member(component).is_some()));
    assert!((0..4).all(|n| cluster.next(n, 75).is_none()), "{:?}", cluster.fills());
    for (n, fill) in cluster.fills().into_iter().enumerate() {
        cluster.picture.hosts[n].maintenance = (fill == 0).then_some(MaintenanceMode::NoEvacuation);
    }
    assert!((0..4).all(|n| cluster.next(n, 30).is_none()), "{:?}", cluster.fills());
}
