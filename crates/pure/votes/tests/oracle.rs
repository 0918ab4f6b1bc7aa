//! Against slow oracles: every failure set counted out, every pair of majorities looked at.

use std::collections::BTreeSet;

use cairn_types::{
    Addresses, ComponentId, ComponentState, DiskGroupId, HostId, Layout, Member, ObjectConfig, ObjectId, OpId, Policy,
    Redundancy, Role, Seat,
};
use cairn_votes::{accessible, has_majority, redundancy, tolerates};

/// Every layout of up to `members_max` members over 4 domains: votes 0..=2, sets 0..=1 or witness.
fn layouts(members_max: usize) -> Vec<Vec<Member>> {
    let mut all: Vec<Vec<Member>> = vec![Vec::new()];
    let mut last = all.clone();
    for n in 0..members_max {
        let mut next = Vec::new();
        for layout in &last {
            for kind in 0..4 * 3 * 3 {
                let (domain, votes, role) = (kind % 4, kind / 4 % 3, kind / 12);
                // In order of domain only: members have no order of their own.
                let ordered = layout.last().is_none_or(|m: &Member| m.host.0 <= domain as u128);
                if !ordered {
                    continue;
                }
                // Some hold what another one holds, as a member that is being moved and its twin do.
                let role = if role == 2 { Role::Witness } else { Role::Data { set: role as u32, copy: n as u32 % 3 } };
                let mut longer = layout.clone();
                longer.push(Member {
                    component: ComponentId(n as u128),
                    host: HostId(domain as u128),
                    disk_group: DiskGroupId((domain * 2 + n % 2) as u128),
                    votes: votes as u32,
                    role,
                    state: if kind % 5 == 4 {
                        ComponentState::Resyncing { stale_since: OpId::ZERO }
                    } else {
                        ComponentState::Active
                    },
                });
                next.push(longer);
            }
        }
        all.extend(next.iter().cloned());
        last = next;
    }
    all
}

/// A mirror, where any member does, and rows, where two distinct ones must be left.
const REDUNDANCIES: [Redundancy; 2] =
    [Redundancy::Mirror { copies: 1 }, Redundancy::Parity { data: 2, parity: 1, strip_blocks: 16 }];

fn addresses(redundancy: Redundancy) -> Addresses {
    Layout { chunk_bytes: 1 << 20, stripe_width: 1, strip_bytes: 1 << 20, redundancy }.into()
}

fn config(members: &[Member], redundancy: Redundancy) -> ObjectConfig {
    ObjectConfig {
        object: ObjectId(1),
        name: String::new(),
        size_bytes: 4096,
        policy: Policy::default(),
        policy_name: String::new(),
        addresses: addresses(redundancy),
        members: members.to_vec(),
        decided: OpId::ZERO,
        deleted: false,
        past: None,
        ancestry: None,
    }
}

/// What is left when the domains of the bits in `failed` fail.
fn survives(members: &[Member], redundancy: Redundancy, failed: u32, in_sync_only: bool) -> bool {
    let up = |m: &&Member| failed >> m.host.0 & 1 == 0;
    let votes: u32 = members.iter().filter(up).map(|m| m.votes).sum();
    let total: u32 = members.iter().map(|m| m.votes).sum();
    let sets: BTreeSet<u32> = members.iter().filter_map(Member::set).collect();
    let served = |set: &u32| {
        let of_set = members.iter().filter(up).filter(|m| m.set() == Some(*set));
        let left: BTreeSet<_> = of_set.filter(|m| !in_sync_only || m.state.in_sync()).map(Member::copy).collect();
        left.len() as u32 >= redundancy.needed()
    };
    votes * 2 > total && sets.iter().all(served)
}

#[test]
fn tolerance_and_redundancy_are_what_counting_all_failure_sets_gives() {
    let mut cases = 0;
    let all = layouts(4);
    for (members, held) in all.iter().flat_map(|members| REDUNDANCIES.map(|held| (members, held))) {
        for failures in 0..=3 {
            let sets = (0..16u32).filter(|s| s.count_ones() <= failures);
            let oracle = sets.clone().all(|failed| survives(members, held, failed, false));
            assert_eq!(tolerates(members, &addresses(held), |h| h, failures).is_ok(), oracle, "{members:?} {failures}");
            cases += 1;
        }
        let config = config(members, held);
        let all: BTreeSet<Seat> = members.iter().map(Member::seat).collect();
        let most = (0..=4u32).take_while(|n| {
            (0..16u32).filter(|s| s.count_ones() <= *n).all(|failed| survives(members, held, failed, true))
        });
        assert_eq!(redundancy(&config, &all, |_| true, |h| h), most.last(), "{members:?}");
        for up in 0..16u32 {
            let here: BTreeSet<Seat> = members.iter().map(Member::seat).filter(|s| up >> s.host.0 & 1 == 1).collect();
            let ok = accessible(&config, &here, |_| true);
            assert_eq!(ok.is_ok(), survives(members, held, !up, true), "{members:?} {up:b}");
            if let Err(why) = ok {
                let words = why.to_string();
                assert!(!words.is_empty());
                // Rows are told how many there are, and how many must be; mirrors that none is there.
                for set in &why.sets {
                    assert!(set.usable < set.needed && set.needed == held.needed());
                    let told = words.contains("members that replica set");
                    assert_eq!(told, held.needed() > 1, "{words}");
                }
            }
            cases += 1;
        }
    }
    println!("{cases} cases");
}

#[test]
fn two_majorities_share_a_seat() {
    for members in layouts(3) {
        let config = config(&members, REDUNDANCIES[0]);
        let seats = config.seats();
        let subset = |bits: u32| -> BTreeSet<Seat> {
            seats.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1).map(|(_, s)| *s).collect()
        };
        let majorities: Vec<u32> = (0..1u32 << seats.len()).filter(|b| has_majority(&config, &subset(*b))).collect();
        for a in &majorities {
            for b in &majorities {
                assert_ne!(a & b, 0, "{members:?}");
            }
        }
    }
}
