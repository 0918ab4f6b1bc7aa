//! Another policy for a disk that is there: copies come and go until the policy is met, and never more goes than may.

mod world;

use cairn_placement::{ClusterPicture, Copies, complete, compliance, copies, place, policy_preview, replace, shrink};
use cairn_types::{ComponentState, MaintenanceMode, ObjectConfig, OpId, Policy, Role};
use cairn_votes::check_change;
use proptest::prelude::*;
use world::{GIB, MIB, config, equal_hosts, ids};

fn mirror(ftt: u8) -> Policy {
    Policy { ftt, ..Policy::default() }
}

fn disk(picture: &ClusterPicture, ftt: u8) -> ObjectConfig {
    config(&place(picture, &mirror(ftt), 64 * MIB, &mut ids(1)).unwrap(), &mirror(ftt), 64 * MIB)
}

fn in_sync(disk: &ObjectConfig) -> usize {
    disk.members.iter().filter(|m| m.set().is_some() && m.state.in_sync()).count()
}

fn away() -> ComponentState {
    ComponentState::Absent { stale_since: OpId::ZERO }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Goal: from any policy to any other, the disk comes to what one made with it has: so many copies, and no witness too many. Method:
    /// changes one after the other, each legal; members of any state; a set never loses its copies in sync below those asked for.
    #[test]
    fn a_disk_comes_to_its_policy(
        hosts in 7u128..=9, from in 0u8..=3, to in 0u8..=3, width in 1u8..=2, states in prop::collection::vec(0u8..4, 1..12)
    ) {
        let picture = equal_hosts(hosts, GIB);
        let policy = Policy { stripe_width: width, ..mirror(from) };
        let size = u64::from(width) * 8 * MIB;
        let mut now = config(&place(&picture, &policy, size, &mut ids(1)).unwrap(), &policy, size);
        let copies_of_set = |disk: &ObjectConfig, set| disk.members.iter().filter(|m| m.set() == Some(set)).count();
        for (n, member) in now.members.iter_mut().enumerate() {
            let state = states[n % states.len()];
            member.state = match (member.role, state) {
                // One of each set stays in sync.
                (Role::Data { copy: 0, .. } | Role::Witness, _) | (_, 0) => ComponentState::Active,
                (_, 1) => away(),
                (_, 2) => ComponentState::Degraded,
                _ => ComponentState::Resyncing { stale_since: OpId::ZERO },
            };
        }
        let preview = policy_preview(&picture, &now, &Policy { ftt: to, ..policy.clone() }, false).unwrap();
        prop_assert_eq!(&preview.obstacle, &None);
        now.policy.ftt = to;
        for round in 0..4u128 {
            let before = now.clone();
            let next = match copies(&now) {
                Copies::TooFew => Some(complete(&picture, &now, &mut ids(1000 * (round + 1))).unwrap()),
                Copies::TooMany => shrink(&picture, &now, &mut ids(1000 * (round + 1))).unwrap(),
                Copies::Right => None,
            };
            let Some(change) = next else { break };
            now.members = change.members;
            prop_assert!(check_change(&before, &now).is_ok(), "{:?} became {:?}", before, now);
            let sets: Vec<u32> = (0..u32::from(width)).collect();
            for set in sets {
                let well = |disk: &ObjectConfig| {
                    disk.members.iter().filter(|m| m.set() == Some(set) && m.state.in_sync()).count()
                };
                prop_assert!(well(&now) >= well(&before).min(usize::from(to) + 1));
                prop_assert_eq!(copies_of_set(&now, set), usize::from(to) + 1);
            }
        }
        prop_assert_eq!(copies(&now), Copies::Right);
        prop_assert!(compliance(&picture, &now).is_empty(), "{:?}", compliance(&picture, &now));
        if width == 1 && to < from {
            let members = now.members.len();
            prop_assert_eq!(members, usize::from(to) * 2 + 1, "no witness too many: {:?}", now);
        }
    }
}

/// Goal: of three copies, the one that goes is the lost one, then the one on a host that is being emptied, then that of the fullest group.
#[test]
fn the_least_useful_copy_goes() {
    let mut picture = equal_hosts(5, GIB);
    let mut three = disk(&picture, 2);
    three.policy.ftt = 1;
    let copies: Vec<_> = three.members.iter().filter(|m| m.set().is_some()).copied().collect();
    let gone = |picture: &ClusterPicture, disk: &ObjectConfig| {
        let change = shrink(picture, disk, &mut ids(900)).unwrap().unwrap();
        assert!(change.added.is_empty());
        let gone: Vec<_> = copies.iter().filter(|m| change.removed.contains(&m.component)).collect();
        assert_eq!((gone.len(), change.members.len()), (1, 3), "one copy and one witness go");
        gone[0].component
    };
    let at = |picture: &ClusterPicture, host| picture.hosts.iter().position(|h| h.host == host).unwrap();
    let fullest = at(&picture, copies[1].host);
    picture.hosts[fullest].disk_groups[0].free_bytes = MIB;
    assert_eq!(gone(&picture, &three), copies[1].component);
    let leaving = at(&picture, copies[2].host);
    picture.hosts[leaving].maintenance = Some(MaintenanceMode::FullEvacuation);
    assert_eq!(gone(&picture, &three), copies[2].component);
    three.member_mut(copies[0].component).unwrap().state = away();
    assert_eq!(gone(&picture, &three), copies[0].component);
    assert_eq!(in_sync(&three), 2);
}

/// Goal: a copy that was lost and is asked for no more is not made again. Method: FTT goes from 2 to 1 while one of three is lost.
#[test]
fn what_is_asked_for_no_more_is_not_replaced() {
    let picture = equal_hosts(6, GIB);
    let mut three = disk(&picture, 2);
    let lost = three.members.iter().find(|m| m.set().is_some()).unwrap().component;
    three.member_mut(lost).unwrap().state = ComponentState::Degraded;
    assert_eq!(replace(&picture, &three, lost, &mut ids(900)).unwrap().added.len(), 1);
    three.policy.ftt = 1;
    let change = replace(&picture, &three, lost, &mut ids(900)).unwrap();
    assert!(change.added.is_empty() && change.removed.contains(&lost));
    // A number in between is missing now: that is no missing copy.
    let left = ObjectConfig { members: change.members, ..three };
    assert_eq!(copies(&left), Copies::Right);
    assert!(complete(&picture, &left, &mut ids(950)).unwrap().added.is_empty());
}

/// Goal: what cannot be is refused in words, what cannot be yet is told with why.
#[test]
fn a_preview_says_what_stands_in_the_way() {
    let picture = equal_hosts(3, GIB);
    let two = disk(&picture, 1);
    let preview = policy_preview(&picture, &two, &mirror(2), false).unwrap();
    assert!(preview.obstacle.unwrap().contains("needs 5 fault domains"));
    let preview = policy_preview(&picture, &two, &mirror(0), false).unwrap();
    assert_eq!((preview.added.len(), preview.removed.len(), preview.obstacle), (0, 1, None));
    let refused = policy_preview(&picture, &two, &Policy { stripe_width: 2, ..mirror(1) }, false).unwrap_err();
    assert!(refused.text.contains("stripe width") && refused.text.contains("cannot become 2"), "{}", refused.text);
}
