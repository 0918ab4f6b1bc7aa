//! Moves: M1 to M4 on small clusters, step by step to their end, and what maintenance asks to be moved.

mod world;

use std::collections::{BTreeMap, BTreeSet};

use cairn_placement::{
    ClusterPicture, Leaving, MaintenancePreview, MoveStep, RefusalKind, carry_out, compliance, next_move, place,
    relocate, replace, unwanted,
};
use cairn_types::{ComponentId, ComponentState, MaintenanceMode, ObjectConfig, OpId, Policy, Role};
use cairn_votes::{ChangeKind, check_change, redundancy};
use proptest::prelude::*;
use world::{GIB, MIB, config, equal_hosts, host, ids};

/// How many more fault domains may fail now.
fn survives(picture: &ClusterPicture, config: &ObjectConfig) -> Option<u32> {
    let all: BTreeSet<_> = config.seats().into_iter().collect();
    redundancy(config, &all, |m| m.state.in_sync(), |host| picture.domain_of(host))
}

/// Carries out a step; a twin is filled only by [`fill`].
fn step(
    picture: &ClusterPicture,
    now: &ObjectConfig,
    step: MoveStep,
    first: u128,
) -> Result<ObjectConfig, RefusalKind> {
    let change = carry_out(picture, now, (step, &unwanted(picture, now)), &BTreeMap::new(), &mut ids(first));
    Ok(ObjectConfig { members: change.map_err(|refusal| refusal.kind)?.members, ..now.clone() })
}

fn fill(now: &ObjectConfig) -> ObjectConfig {
    let mut next = now.clone();
    next.members.iter_mut().for_each(|m| m.state = ComponentState::Active);
    next
}

fn clusters() -> impl Strategy<Value = ClusterPicture> {
    let one = (1usize..=2, prop::option::weighted(0.3, 0u8..4));
    prop::collection::vec(one, 3..=7).prop_map(|hosts| {
        let hosts = hosts.into_iter().enumerate().map(|(n, (groups, rack))| {
            let mut host = host(n as u128 + 1, &vec![&[3 * MIB, 3 * MIB][..]; groups]);
            host.fault_domain = rack.map(|rack| format!("rack-{rack}"));
            host
        });
        ClusterPicture { hosts: hosts.collect() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// Goal: M1, M2, M4, and a host that can be emptied is. Method: a disk is placed, a host is to be emptied, each step is checked
    /// against what may be changed at all, and against what the disk survived before.
    #[test]
    fn a_host_is_emptied_step_by_step(picture in clusters(), ftt in 0u8..=2, width in 1u8..=2, which in 0usize..7) {
        let policy = Policy { ftt, stripe_width: width, ..Policy::default() };
        let size = u64::from(width) * MIB;
        let Ok(placement) = place(&picture, &policy, size, &mut ids(1)) else { return Ok(()) };
        let mut now = config(&placement, &policy, size);
        let mut picture = picture;
        let which = which % picture.hosts.len();
        picture.hosts[which].maintenance = Some(MaintenanceMode::FullEvacuation);
        let leaving = picture.hosts[which].host;
        let before = survives(&picture, &now);
        for round in 0..20u128 {
            let wanted = unwanted(&picture, &now);
            let Some(next) = next_move(&now, &wanted) else {
                prop_assert!(now.members.iter().all(|m| m.host != leaving));
                prop_assert!(compliance(&picture, &now).is_empty());
                return Ok(());
            };
            let after = match step(&picture, &now, next, 1000 * (round + 1)) {
                Ok(after) => after,
                Err(kind) => {
                    // Only a beginning is refused, and the disk is as it was.
                    prop_assert!(next == MoveStep::Begin, "{next:?}");
                    prop_assert!(matches!(kind, RefusalKind::FaultDomains | RefusalKind::Space));
                    prop_assert!(now.twins().is_empty());
                    return Ok(());
                }
            };
            prop_assert_eq!(check_change(&now, &after), Ok(ChangeKind::Joint));
            prop_assert!(survives(&picture, &after) >= before, "{:?} became {:?}", now, after);
            prop_assert!(after.twins().len() <= 1);
            for member in &after.members {
                let shares = |other: &cairn_types::Member| match (member.role, other.role) {
                    (Role::Data { set, copy }, Role::Data { set: others, copy: other_copy }) => {
                        set == others && copy != other_copy
                            && picture.domain_of(member.host) == picture.domain_of(other.host)
                    }
                    _ => false,
                };
                prop_assert!(!after.members.iter().any(shares), "two copies in one fault domain: {:?}", after);
            }
            if !after.twins().is_empty() {
                prop_assert_eq!(next_move(&after, &unwanted(&picture, &after)), None, "the twin is being filled");
            }
            now = fill(&after);
            prop_assert!(survives(&picture, &now) >= before);
        }
        prop_assert!(false, "it does not end");
    }
}

/// Goal: M3, and vSAN's rule: three hosts hold a mirror and cannot spare one of them, four can.
#[test]
fn a_host_of_three_cannot_be_emptied_and_one_of_four_can() {
    let policy = Policy { ftt: 1, ..Policy::default() };
    for (hosts, can) in [(3, false), (4, true)] {
        let mut picture = equal_hosts(hosts, GIB);
        let placement = place(&picture, &policy, 64 * MIB, &mut ids(1)).unwrap();
        let disk = config(&placement, &policy, 64 * MIB);
        picture.hosts[0].maintenance = Some(MaintenanceMode::FullEvacuation);
        let leaves = unwanted(&picture, &disk);
        let Some(MoveStep::Begin) = next_move(&disk, &leaves) else {
            assert!(leaves.is_empty() && hosts == 4, "each of three hosts holds a part");
            continue;
        };
        let begun = relocate(&picture, &disk, leaves[0], &[], &mut ids(100));
        assert_eq!(begun.is_ok(), can, "{begun:?}");
        if let Err(refusal) = begun {
            assert!(refusal.text.contains("host-1 is in maintenance"), "{refusal}");
        }
    }
}

/// Goal: one of a host's disk groups can be emptied where the host cannot: its own other group has room. Method: three hosts of two
/// groups and of one.
#[test]
fn a_disk_group_is_emptied_into_another_one_of_its_host() {
    for (groups, can) in [(2, true), (1, false)] {
        let mut picture = ClusterPicture { hosts: (1..=3).map(|n| host(n, &vec![&[GIB][..]; groups])).collect() };
        let policy = Policy { ftt: 1, ..Policy::default() };
        let placement = place(&picture, &policy, 64 * MIB, &mut ids(1)).unwrap();
        let mut disk = config(&placement, &policy, 64 * MIB);
        let old = disk.members[0];
        let host = picture.hosts.iter_mut().find(|h| h.host == old.host).unwrap();
        host.disk_groups.iter_mut().find(|g| g.disk_group == old.disk_group).unwrap().draining = true;
        assert_eq!(unwanted(&picture, &disk), [old.component]);
        let mut preview = MaintenancePreview::new(picture.clone(), Leaving::DiskGroup(old.disk_group));
        preview.add(&disk);
        assert_eq!((preview.components.len(), preview.obstacles.is_empty()), (1, can), "{preview:?}");
        if !can {
            assert!(preview.obstacles[0].contains("host-1 has disk groups that are being emptied"), "{preview:?}");
            continue;
        }
        disk = fill(&step(&picture, &disk, MoveStep::Begin, 100).unwrap());
        disk = step(&picture, &disk, MoveStep::End(old.component), 200).unwrap();
        assert!(disk.members.iter().all(|m| m.disk_group != old.disk_group));
        assert!(disk.members.iter().any(|m| m.host == old.host && m.set().is_some()));
        assert_eq!(survives(&picture, &disk), Some(1));
    }
}

/// Goal: what has to be moved before a host may be away. Method: mirrors with all their copies, one with a copy less, a disk of one copy.
#[test]
fn ensure_accessibility_moves_what_is_needed_and_no_more() {
    let mut picture = equal_hosts(5, GIB);
    let of = |ftt| {
        let policy = Policy { ftt, ..Policy::default() };
        config(&place(&equal_hosts(5, GIB), &policy, 64 * MIB, &mut ids(1)).unwrap(), &policy, 64 * MIB)
    };
    let put = |picture: &mut ClusterPicture, disk: &ObjectConfig, n: usize, mode| {
        picture.hosts.iter_mut().for_each(|host| host.maintenance = None);
        let host = disk.members[n].host;
        picture.hosts.iter_mut().find(|h| h.host == host).unwrap().maintenance = Some(mode);
    };
    let (single, mirror) = (of(0), of(1));
    put(&mut picture, &single, 0, MaintenanceMode::EnsureAccessibility);
    assert_eq!(unwanted(&picture, &single), [single.members[0].component]);
    put(&mut picture, &single, 0, MaintenanceMode::NoEvacuation);
    assert_eq!(unwanted(&picture, &single), []);
    for n in 0..3 {
        put(&mut picture, &mirror, n, MaintenanceMode::EnsureAccessibility);
        assert_eq!(unwanted(&picture, &mirror), [], "two of three are enough");
        put(&mut picture, &mirror, n, MaintenanceMode::FullEvacuation);
        assert_eq!(unwanted(&picture, &mirror), [mirror.members[n].component]);
    }
    let mut reduced = mirror.clone();
    reduced.members[1].state = ComponentState::Absent { stale_since: OpId::ZERO };
    put(&mut picture, &reduced, 0, MaintenanceMode::EnsureAccessibility);
    assert_eq!(unwanted(&picture, &reduced), [reduced.members[0].component], "the last copy in sync");
    // Nothing is moved while something of the disk is lost: that is repaired first.
    assert_eq!(next_move(&reduced, &unwanted(&picture, &reduced)), None);
}

/// Goal: whichever of the two fails, the other one stays. Method: each state of an old one and its twin.
#[test]
fn a_move_ends_with_the_one_that_is_well() {
    let policy = Policy { ftt: 1, ..Policy::default() };
    let picture = equal_hosts(5, GIB);
    let disk = config(&place(&picture, &policy, 64 * MIB, &mut ids(1)).unwrap(), &policy, 64 * MIB);
    let old = disk.members[0].component;
    let begun = relocate(&picture, &disk, old, &[], &mut ids(100)).unwrap();
    let twin = begun.added[0];
    let of = |old_state, twin_state| {
        let mut now = ObjectConfig { members: begun.members.clone(), ..disk.clone() };
        now.member_mut(old).unwrap().state = old_state;
        now.member_mut(twin).unwrap().state = twin_state;
        (next_move(&now, &[old]), next_move(&now, &[]))
    };
    let filled = ComponentState::Resyncing { stale_since: OpId::ZERO };
    let absent = ComponentState::Absent { stale_since: OpId::ZERO };
    let end = |component: ComponentId| Some(MoveStep::End(component));
    let both = |component: ComponentId| (end(component), end(component));
    assert_eq!(of(ComponentState::Active, filled), (None, end(twin)), "the host is wanted again");
    assert_eq!(of(ComponentState::Active, absent), (None, end(twin)));
    assert_eq!(of(ComponentState::Active, ComponentState::Active), both(old));
    assert_eq!(of(ComponentState::Active, ComponentState::Degraded), both(twin));
    assert_eq!(of(ComponentState::Degraded, filled), both(old));
    assert_eq!(of(ComponentState::Degraded, ComponentState::Active), both(old));
    assert_eq!(of(absent, filled), (None, None), "it may come back");
    assert_eq!(of(absent, ComponentState::Active), both(old), "its twin is in sync: nobody needs it");
    // When it is lost for good, its twin is what replaces it.
    let now = ObjectConfig { members: begun.members.clone(), ..disk.clone() };
    let change = replace(&picture, &now, old, &mut ids(200)).unwrap();
    assert_eq!(change.removed, [old]);
    assert!(!change.added.iter().any(|id| change.members.iter().any(|m| m.component == *id && m.set().is_some())));
}

/// Goal: a copy goes to the host that it is asked to go to, also where the disk's witness is there. Method: four hosts; the witness makes
/// place, and goes to the fourth.
#[test]
fn a_copy_may_go_where_the_witness_is() {
    let picture = equal_hosts(4, GIB);
    let policy = Policy { ftt: 1, ..Policy::default() };
    let placement = place(&picture, &policy, 64 * MIB, &mut ids(1)).unwrap();
    let disk = config(&placement, &policy, 64 * MIB);
    let (copy, witness) = (&disk.members[0], disk.members.iter().find(|m| m.role == Role::Witness).unwrap());
    let change = relocate(&picture, &disk, copy.component, &[witness.host], &mut ids(100)).unwrap();
    assert!(change.removed.contains(&witness.component));
    let twin = change.members.iter().find(|m| change.added.contains(&m.component) && m.set().is_some()).unwrap();
    assert_eq!(twin.host, witness.host);
    // The host of the other copy is no place for it.
    let refused = relocate(&picture, &disk, copy.component, &[disk.members[1].host], &mut ids(100));
    assert!(refused.is_err(), "{refused:?}");
}
