//! Disks that go over to another layout: each change is legal, what the policy asks for is there in the end, and nothing else is touched.

mod world;

use std::collections::BTreeSet;

use cairn_placement::{
    ClusterPicture, Converted, Copies, begin_conversion, compliance, copies, end_conversion, give_up_conversion,
    is_whole, place_near, policy_preview, unfit,
};
use cairn_types::{ComponentState, FaultToleranceMethod, Member, ObjectConfig, Policy, Role};
use cairn_votes::{ChangeKind, check_change};
use proptest::prelude::*;
use world::{GIB, MIB, config, equal_hosts, ids};

const SIZE: u64 = 40 * MIB;

/// A policy; no strips of data: a mirror.
fn policy(data_strips: u8, ftt: u8, stripe_width: u8) -> Policy {
    let ftm = match data_strips {
        0 => FaultToleranceMethod::Mirror,
        _ => FaultToleranceMethod::ErasureCoding { data_strips },
    };
    Policy { ftm, ftt, stripe_width, ..Policy::default() }
}

/// A disk of three chunks.
fn disk(picture: &ClusterPicture, policy: &Policy) -> ObjectConfig {
    config(&place_near(picture, policy, SIZE, 16 * MIB, &[], &mut ids(1)).unwrap(), policy, SIZE)
}

/// The disk with this change in force; those that are filled are in sync.
fn after(before: &ObjectConfig, converted: Converted, filled: bool) -> ObjectConfig {
    let mut next = ObjectConfig { members: converted.change.members, addresses: converted.addresses, ..before.clone() };
    let addresses = next.addresses.clone();
    for member in &mut next.members {
        let serves = member.set().is_some_and(|set| addresses.serves(set));
        let comes = matches!(member.state, ComponentState::Resyncing { .. });
        if filled && serves && comes {
            member.state = ComponentState::Active;
        }
    }
    next
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        (0u8..4, 1u8..4).prop_map(|(ftt, width)| policy(0, ftt, width)),
        (2u8..5, 1u8..3, 1u8..3).prop_map(|(data, ftt, width)| policy(data, ftt, width)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: from any policy to any other a disk goes by legal changes, part after part, and is in the end as one that was made with it: so
    /// many members, no witness too many, votes that survive what is asked for. Method: each part begins, now and then is given up, and ends.
    #[test]
    fn a_disk_comes_to_any_layout(from in policies(), to in policies(), given_up in any::<bool>()) {
        let picture = equal_hosts(8, GIB);
        let mut now = disk(&picture, &from);
        let preview = policy_preview(&picture, &now, &to, true).unwrap();
        prop_assert_eq!(&preview.obstacle, &None);
        now.policy = to.clone();
        let mut round = 0;
        while unfit(&now).is_some() {
            round += 1;
            prop_assert!(round <= 3, "three chunks");
            let begun = begin_conversion(&picture, &now, &mut ids(round * 1000)).unwrap().unwrap();
            let begun = after(&now, begun, false);
            prop_assert_eq!(check_change(&now, &begun), Ok(ChangeKind::Joint));
            prop_assert!(is_whole(&begun));
            let witnesses = now.members.iter().filter(|m| m.role == Role::Witness);
            prop_assert!(witnesses.clone().all(|m| begun.member(m.component).is_some()), "what is on its way may go again");
            let apart = begun.members.iter().filter(|m| m.set().is_some_and(|set| !begun.addresses.serves(set)));
            let places: Vec<_> = apart.map(|m| (m.set(), picture.domain_of(m.host))).collect();
            prop_assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len(), "two of a set in one domain");
            if given_up && round == 1 {
                let back = after(&begun, give_up_conversion(&picture, &begun, &mut ids(9000)).unwrap(), false);
                prop_assert_eq!(check_change(&begun, &back), Ok(ChangeKind::Joint));
                let components = |disk: &ObjectConfig| -> BTreeSet<_> {
                    disk.members.iter().filter(|m| m.set().is_some()).map(|m| m.component).collect()
                };
                prop_assert_eq!(components(&back), components(&now));
            }
            let beside = policy_preview(&picture, &begun, &from, true).unwrap();
            prop_assert_eq!(&beside.obstacle, &None, "what is on its way is in nobody's way");
            let ended = end_conversion(&picture, &begun, &mut ids(round * 1000 + 500)).unwrap().unwrap();
            let is_new = |m: &&Member| ended.change.added.contains(&m.component);
            prop_assert!(ended.change.members.iter().filter(is_new).all(|m| m.role == Role::Witness), "only witnesses may be new");
            let ended = after(&begun, ended, true);
            prop_assert_eq!(check_change(&begun, &ended), Ok(ChangeKind::Joint));
            now = ended;
        }
        prop_assert_eq!(&now.addresses, &preview.addresses, "as it was told");
        // Copies of a mirror that stays one come and go by themselves.
        if copies(&now) == Copies::Right {
            prop_assert_eq!(compliance(&picture, &now), Vec::<String>::new());
            let made = disk(&picture, &to);
            let count = |disk: &ObjectConfig, witness: bool| {
                disk.members.iter().filter(|m| (m.role == Role::Witness) == witness).count()
            };
            prop_assert_eq!(count(&now, false), count(&made, false));
        }
    }
}

/// Goal: nothing begins where there is no room, or too few hosts; what was begun can be given up all the same. Method: groups with less than a
/// tenth free, then hosts that are down.
#[test]
fn what_cannot_begin_is_refused_and_what_has_begun_can_be_given_up() {
    let picture = equal_hosts(5, GIB);
    let mut now = disk(&picture, &policy(0, 1, 1));
    now.policy = policy(3, 1, 1);
    let mut full = picture.clone();
    for group in full.hosts.iter_mut().flat_map(|host| &mut host.disk_groups) {
        group.free_bytes = GIB / 20;
        group.devices[0].free_bytes = GIB / 20;
    }
    assert!(begin_conversion(&full, &now, &mut ids(100)).is_err());
    let mut few = picture.clone();
    few.hosts[4].up = false;
    few.hosts[3].up = false;
    let refused = begin_conversion(&few, &now, &mut ids(100)).unwrap_err();
    assert!(refused.text.contains("needs 4 fault domains"), "{}", refused.text);
    let begun = begin_conversion(&picture, &now, &mut ids(100)).unwrap().unwrap();
    let mut begun = after(&now, begun, false);
    assert_eq!(begin_conversion(&picture, &begun, &mut ids(200)), Ok(None), "one part at a time");
    let apart = begun.members.iter_mut().find(|m| m.component.0 >= 100 && m.set().is_some()).unwrap();
    apart.state = ComponentState::Degraded;
    assert!(!is_whole(&begun));
    few.hosts.iter_mut().for_each(|host| host.up = false);
    let back = after(&begun, give_up_conversion(&few, &begun, &mut ids(300)).unwrap(), false);
    assert_eq!(check_change(&begun, &back), Ok(ChangeKind::Joint));
    assert!(back.votes_total() > 0 && back.addresses.moving().is_none());
}
