//! Placement against brute force on small clusters: every failure set, and every placement that there could be.
//!
//! Promises    L1, L2 for whatever is returned; refused only where the search over all placements finds none
//! Not here    unequal demands are checked for L1 and L2 only: packing them is a search that placement does not do

mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use cairn_geometry::{Area, sets};
use cairn_placement::{ClusterPicture, FaultDomain, RefusalKind, compliance, demand_bytes, place, replace};
use cairn_types::{Addresses, DeviceRoom, FaultToleranceMethod, MaintenanceMode, Member, Policy, Role, Seat};
use proptest::prelude::*;
use world::{MIB, config, host, ids, show};

/// Every way to lose up to `most` of `items`.
fn losses<T: Clone + Ord>(items: &[T], most: usize) -> Vec<BTreeSet<T>> {
    (0u32..1 << items.len())
        .filter(|bits| bits.count_ones() as usize <= most)
        .map(|bits| (0..items.len()).filter(|i| bits >> i & 1 == 1).map(|i| items[i].clone()).collect())
        .collect()
}

/// Whether votes can be given to `domains` domains so that every `ftt` of them leave a majority: tried out.
fn votes_exist(domains: usize, ftt: usize) -> bool {
    static TABLE: OnceLock<BTreeMap<(usize, usize), bool>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = BTreeMap::new();
        for domains in 0..=7usize {
            for ftt in 0..=3usize {
                let lost: Vec<Vec<usize>> = losses(&(0..domains).collect::<Vec<_>>(), ftt)
                    .into_iter()
                    .map(|set| set.into_iter().collect())
                    .collect();
                // Weights 0..=2 each, all of them.
                let found = (1..3u32.pow(domains as u32)).any(|code| {
                    let weight = |i: usize| code / 3u32.pow(i as u32) % 3;
                    let all: u32 = (0..domains).map(weight).sum();
                    lost.iter().all(|set| 2 * (all - set.iter().map(|&i| weight(i)).sum::<u32>()) > all)
                });
                table.insert((domains, ftt), found);
            }
        }
        table
    });
    table[&(domains, ftt)]
}

/// L1, L2, and that every seat takes new components and has room for what it got.
fn check(
    picture: &ClusterPicture,
    policy: &Policy,
    addresses: &Addresses,
    size: u64,
    members: &[Member],
    new: &BTreeSet<cairn_types::ComponentId>,
) -> Result<(), TestCaseError> {
    let domain = |m: &Member| picture.domain_of(m.host);
    let set_count = sets(addresses, size).count() as u32;
    let mut left = picture.clone();
    for member in members.iter().filter(|m| new.contains(&m.component)) {
        let host = left.hosts.iter_mut().find(|h| h.host == member.host).expect("a host of the picture");
        prop_assert!(host.up && host.maintenance.is_none());
        let group =
            host.disk_groups.iter_mut().find(|g| g.disk_group == member.disk_group).expect("a disk group of that host");
        prop_assert!(group.up);
        if let Role::Data { set, .. } = member.role {
            let full = Area::of_set_at(addresses, size, set).expect("a set of the disk").component_bytes(set);
            let demand = demand_bytes(policy, full);
            prop_assert!(group.free_bytes >= demand);
            group.free_bytes -= demand;
            let device = DeviceRoom::choose(&group.devices, demand).expect("a device");
            prop_assert!(group.devices[device].free_bytes >= demand);
            group.devices[device].take(demand, full);
        }
    }
    for set in 0..set_count {
        let holders: Vec<_> = members.iter().filter(|m| m.set() == Some(set)).collect();
        prop_assert_eq!(holders.len(), members_of(policy));
        prop_assert_eq!(holders.len() as u32, addresses.redundancy(0).members());
        let domains: BTreeSet<_> = holders.iter().map(|m| domain(m)).collect();
        prop_assert_eq!(domains.len(), holders.len(), "copies of set {} share a domain", set);
    }
    let domains: BTreeSet<FaultDomain> = members.iter().map(domain).collect();
    let domains: Vec<_> = domains.into_iter().collect();
    let all: u32 = members.iter().map(|m| m.votes).sum();
    for lost in losses(&domains, usize::from(policy.ftt)) {
        let alive = |m: &&Member| !lost.contains(&domain(m));
        let votes: u32 = members.iter().filter(alive).map(|m| m.votes).sum();
        prop_assert!(2 * votes > all, "{lost:?} leaves {votes} of {all}");
        for set in 0..set_count {
            let left: BTreeSet<_> =
                members.iter().filter(alive).filter(|m| m.set() == Some(set)).map(Member::copy).collect();
            prop_assert!(left.len() >= members_of(policy) - usize::from(policy.ftt));
        }
    }
    let seats: BTreeSet<Seat> = members.iter().filter(|m| m.votes > 0).map(Member::seat).collect();
    prop_assert!(seats.len() <= cairn_placement::SEATS_VOTING_MAX);
    prop_assert!(all % 2 == 1);
    Ok(())
}

/// Whether the data fits at all: every set tried in every set of distinct domains, on every device.
fn data_fits(picture: &ClusterPicture, copies: usize, sets: u32, demand: u64) -> bool {
    // (domain, group free, device frees) of all groups that take components.
    let mut groups: Vec<(FaultDomain, u64, Vec<u64>)> = Vec::new();
    for h in picture.hosts.iter().filter(|h| h.up && h.maintenance.is_none()) {
        for g in h.disk_groups.iter().filter(|g| g.up) {
            let devices = g.devices.iter().map(|d| d.free_bytes).collect();
            groups.push((h.domain(), g.free_bytes, devices));
        }
    }
    fn fill(
        groups: &mut Vec<(FaultDomain, u64, Vec<u64>)>,
        from: usize,
        used: &mut Vec<FaultDomain>,
        copies: usize,
        sets: u32,
        demand: u64,
    ) -> bool {
        if sets == 0 {
            return true;
        }
        if used.len() == copies {
            return fill(groups, 0, &mut Vec::new(), copies, sets - 1, demand);
        }
        for i in from..groups.len() {
            if used.contains(&groups[i].0) || groups[i].1 < demand {
                continue;
            }
            // Any device with room is as good as another for equal demands.
            let Some(d) = groups[i].2.iter().position(|&free| free >= demand) else {
                continue;
            };
            groups[i].1 -= demand;
            groups[i].2[d] -= demand;
            used.push(groups[i].0.clone());
            let found = fill(groups, i + 1, used, copies, sets, demand);
            used.pop();
            groups[i].1 += demand;
            groups[i].2[d] += demand;
            if found {
                return true;
            }
        }
        false
    }
    fill(&mut groups, 0, &mut Vec::new(), copies, sets, demand)
}

fn clusters() -> impl Strategy<Value = ClusterPicture> {
    let group = (prop::collection::vec(0u64..=3, 0..=2), prop::bool::weighted(0.9), 0u32..5);
    let one = (
        prop::collection::vec(group, 0..=2),
        prop::option::weighted(0.4, 0u8..4),
        prop::bool::weighted(0.85),
        prop::bool::weighted(0.1),
    );
    prop::collection::vec(one, 3..=7).prop_map(|hosts| ClusterPicture {
        hosts: hosts
            .into_iter()
            .enumerate()
            .map(|(n, (groups, rack, up, maintenance))| {
                let free: Vec<Vec<u64>> =
                    groups.iter().map(|g| g.0.iter().map(|units| units * MIB).collect()).collect();
                let free: Vec<&[u64]> = free.iter().map(Vec::as_slice).collect();
                let mut host = host(n as u128 + 1, &free);
                for (picture, (_, up, components)) in host.disk_groups.iter_mut().zip(&groups) {
                    (picture.up, picture.components) = (*up, *components);
                }
                host.fault_domain = rack.map(|r| format!("rack-{r}"));
                (host.up, host.maintenance) = (up, maintenance.then_some(MaintenanceMode::NoEvacuation));
                host
            })
            .collect(),
    })
}

fn policy(ftt: u8, stripe_width: u8) -> Policy {
    Policy { ftt, stripe_width, reservation_percent: 100, ..Policy::default() }
}

/// Mirrors, and rows of 2 and 4 strips of data: all components of a set of [`size_of`] are 1 MiB.
fn policies(width_max: u8) -> impl Strategy<Value = Policy> {
    let rows = (1u8..=2, prop::sample::select(vec![2u8, 4]), 1..=width_max).prop_map(|(ftt, data_strips, width)| {
        let ftm = FaultToleranceMethod::ErasureCoding { data_strips };
        Policy { ftm, ..policy(ftt, width) }
    });
    prop_oneof![(0u8..=3, 1..=width_max).prop_map(|(ftt, width)| policy(ftt, width)), rows]
}

/// Members of each set.
fn members_of(policy: &Policy) -> usize {
    usize::from(policy.ftt) + data_of(policy)
}

fn data_of(policy: &Policy) -> usize {
    match policy.ftm {
        FaultToleranceMethod::Mirror => 1,
        FaultToleranceMethod::ErasureCoding { data_strips } => data_strips.into(),
    }
}

/// A MiB for each component.
fn size_of(policy: &Policy) -> u64 {
    u64::from(policy.stripe_width) * data_of(policy) as u64 * MIB
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn placed_right_or_refused_rightly(picture in clusters(), policy in policies(3)) {
        // All demands are 1 MiB.
        let (size, ftt, width) = (size_of(&policy), policy.ftt, policy.stripe_width);
        let domains: BTreeSet<_> = picture.hosts.iter().filter(|h| h.eligible()).map(|h| h.domain()).collect();
        let possible = votes_exist(domains.len(), usize::from(ftt))
            && data_fits(&picture, members_of(&policy), u32::from(width), MIB);
        match place(&picture, &policy, size, &mut ids(1)) {
            Ok(placement) => {
                let new = placement.members.iter().map(|m| m.component).collect();
                check(&picture, &policy, &placement.addresses, size, &placement.members, &new)?;
                prop_assert!(possible, "the oracle is wrong");
                prop_assert_eq!(compliance(&picture, &config(&placement, &policy, size)), Vec::<String>::new());
                prop_assert_eq!(placement.clone(), place(&picture, &policy, size, &mut ids(1)).expect("the same again"));
            }
            Err(refusal) => prop_assert!(!possible, "{refusal}\n{}", show(&picture)),
        }
    }

    #[test]
    fn unequal_parts_keep_the_rules(picture in clusters(), ftt in 0u8..=2, width in 1u8..=4, sectors in 1u64..=20000) {
        let policy = policy(ftt, width);
        let size = sectors * 512;
        if let Ok(placement) = place(&picture, &policy, size, &mut ids(1)) {
            let new = placement.members.iter().map(|m| m.component).collect();
            check(&picture, &policy, &placement.addresses, size, &placement.members, &new)?;
        }
    }

    #[test]
    fn a_lost_component_is_replaced_where_it_can_be(
        picture in clusters(), policy in policies(2), which in 0usize..100, down in 0usize..8, more in 0usize..8,
    ) {
        let (size, ftt) = (size_of(&policy), policy.ftt);
        let Ok(placement) = place(&picture, &policy, size, &mut ids(1)) else { return Ok(()) };
        let before = config(&placement, &policy, size);
        let mut now = picture.clone();
        now.take(&placement.addresses, &policy, size, &placement.members);
        let lost = placement.members[which % placement.members.len()];
        // Its disk group is gone; perhaps other hosts are down as well.
        for host in &mut now.hosts {
            for group in host.disk_groups.iter_mut() {
                group.up &= group.disk_group != lost.disk_group;
            }
        }
        for n in [down, more] {
            if let Some(host) = now.hosts.get_mut(n) { host.up = false; }
        }
        let kept: Vec<Member> = before.members.iter().filter(|m| m.component != lost.component).copied().collect();
        let fresh: BTreeSet<_> = now.hosts.iter().filter(|h| h.eligible()).map(|h| h.domain()).collect();
        let all: BTreeSet<_> = fresh.iter().cloned().chain(kept.iter().map(|m| now.domain_of(m.host))).collect();
        let room = |host: &cairn_placement::HostPicture| host.disk_groups.iter().any(|g| {
            g.up && g.free_bytes >= MIB && g.devices.iter().any(|d| d.free_bytes >= MIB)
        });
        let target = lost.set().is_none_or(|set| {
            let taken: BTreeSet<_> = kept.iter().filter(|m| m.set() == Some(set)).map(|m| now.domain_of(m.host)).collect();
            now.hosts.iter().any(|h| h.eligible() && room(h) && !taken.contains(&h.domain()))
        });
        let possible = votes_exist(all.len(), usize::from(ftt)) && target;
        match replace(&now, &before, lost.component, &mut ids(1000)) {
            Ok(change) => {
                prop_assert!(possible, "the oracle is wrong");
                let added: BTreeSet<_> = change.added.iter().copied().collect();
                check(&now, &policy, &before.addresses, size, &change.members, &added)?;
                prop_assert!(change.removed.contains(&lost.component));
                let stays = kept.iter().filter(|k| change.members.iter().any(|m| m.component == k.component)).count();
                prop_assert_eq!(stays + change.removed.len(), before.members.len());
                // Only witnesses go beside the lost one.
                for gone in change.removed.iter().filter(|id| **id != lost.component) {
                    prop_assert_eq!(before.member(*gone).map(|m| m.role), Some(Role::Witness));
                }
                if ftt > 0 || lost.set().is_none() {
                    let mut after = before.clone();
                    after.members = change.members.clone();
                    prop_assert_eq!(cairn_votes::check_change(&before, &after), Ok(cairn_votes::ChangeKind::Joint));
                }
                if let Some(set) = lost.set() {
                    let first = change.members.iter().find(|m| Some(&m.component) == change.added.first());
                    prop_assert_eq!(first.and_then(|m| m.set()), Some(set));
                    prop_assert!(first.is_some_and(|m| !m.state.in_sync() && m.state.takes_writes()));
                }
            }
            Err(refusal) => {
                prop_assert!(!possible, "{refusal}\n{}{before:?}", show(&now));
                prop_assert!(matches!(refusal.kind, RefusalKind::FaultDomains | RefusalKind::Space));
            }
        }
    }
}

#[test]
fn the_number_of_domains_is_vsans() {
    for (ftt, domains) in [(0, 1), (1, 3), (2, 5), (3, 7)] {
        assert!(votes_exist(domains, ftt) && !votes_exist(domains - 1, ftt));
    }
}
