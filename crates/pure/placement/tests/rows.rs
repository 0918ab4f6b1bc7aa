//! Rows of parity: where their members go, how wide they are, and the words where they cannot be had.

mod world;

use std::collections::BTreeSet;

use cairn_placement::{ClusterPicture, RefusalKind, complete, compliance, place, replace, what_if};
use cairn_types::{FaultToleranceMethod, Member, Policy, Redundancy};
use world::{GIB, config, equal_hosts, ids};

fn rows(ftt: u8, data_strips: u8) -> Policy {
    Policy { ftt, ftm: FaultToleranceMethod::ErasureCoding { data_strips }, ..Policy::default() }
}

fn refused(picture: &ClusterPicture, policy: &Policy) -> String {
    let refusal = place(picture, policy, GIB, &mut ids(1)).expect_err("refused");
    assert_eq!(refusal.kind, RefusalKind::FaultDomains);
    refusal.text
}

#[test]
fn the_width_is_the_widest_usual_one_that_the_fault_domains_allow() {
    for (hosts, ftt, wide) in
        [(3, 1, (2, 1)), (4, 1, (3, 1)), (9, 1, (3, 1)), (5, 2, (3, 2)), (6, 2, (4, 2)), (64, 2, (4, 2))]
    {
        let picture = equal_hosts(hosts, 100 * GIB);
        let placed = place(&picture, &rows(ftt, 0), GIB, &mut ids(1)).expect("room");
        let Redundancy::Parity { data, parity, .. } = placed.addresses.last().layout.redundancy else { panic!("rows") };
        assert_eq!((data, parity), wide, "{hosts} hosts");
    }
    // One that is in maintenance, or down, counts: it comes back.
    let mut picture = equal_hosts(4, 100 * GIB);
    picture.hosts[0].up = false;
    assert!(
        refused(&picture, &rows(1, 0))
            .starts_with("RAID-5 3+1 (FTT=1) needs 4 fault domains, 3 are up: host-1 is down.")
    );
}

#[test]
fn what_cannot_be_had_is_refused_with_what_can() {
    let text = |hosts, ftt, data| refused(&equal_hosts(hosts, 100 * GIB), &rows(ftt, data));
    assert_eq!(
        text(3, 1, 3),
        "RAID-5 3+1 (FTT=1) needs 4 fault domains, 3 are up. Add 1 host with a disk group, or choose 2+1, or a mirror with FTT=1."
    );
    assert_eq!(
        text(2, 1, 0),
        "RAID-5 2+1 (FTT=1) needs 3 fault domains, 2 are up. Add 1 host with a disk group, or choose a mirror with FTT=0."
    );
    assert!(text(5, 2, 4).ends_with("or choose 3+2, or a mirror with FTT=2."));
}

#[test]
fn a_lost_member_is_replaced_by_one_with_its_index() {
    let policy = rows(1, 3);
    let picture = equal_hosts(5, 100 * GIB);
    let placed = place(&picture, &policy, 10 * GIB, &mut ids(1)).expect("room");
    assert_eq!(placed.members.len(), 4, "no witness: four seats have a majority after one loss");
    let before = config(&placed, &policy, 10 * GIB);
    assert_eq!(compliance(&picture, &before), Vec::<String>::new());
    let lost = before.members[2];
    let mut now = picture.clone();
    now.hosts.iter_mut().find(|h| h.host == lost.host).expect("there").up = false;
    let change = replace(&now, &before, lost.component, &mut ids(100)).expect("a fifth host");
    let added: Vec<&Member> = change.members.iter().filter(|m| change.added.contains(&m.component)).collect();
    assert_eq!(added.len(), 1);
    assert_eq!(added[0].role, lost.role);
    assert!(!before.members.iter().any(|m| m.host == added[0].host));
}

#[test]
fn raw_bytes_are_what_the_rows_take() {
    for (hosts, ftt, data, raw) in [(4, 1, 3, 4), (6, 2, 4, 6)] {
        let told = what_if(&equal_hosts(hosts, 100 * GIB), &rows(ftt, data), u64::from(data) * GIB);
        assert_eq!(told.raw_bytes_full, raw * GIB);
    }
}

#[test]
fn force_provisioning_leaves_out_parity_at_most() {
    let policy = Policy { force_provisioning: true, ..rows(1, 3) };
    let mut picture = equal_hosts(3, 100 * GIB);
    let placed = place(&picture, &policy, GIB, &mut ids(1)).expect("three of four");
    assert_eq!(placed.members.len(), 3);
    assert!(
        placed
            .reduced
            .as_ref()
            .is_some_and(|words| words.contains("with 3 of its 4 members, so it tolerates 0 failures"))
    );
    let before = config(&placed, &policy, GIB);
    assert!(compliance(&picture, &before)[0].contains("fewer than 4 members"));
    picture.hosts.push(world::host(9, &[&[100 * GIB]]));
    let change = complete(&picture, &before, &mut ids(50)).expect("the fourth");
    let indexes: BTreeSet<_> = change.members.iter().filter_map(Member::copy).collect();
    assert_eq!(indexes, BTreeSet::from([0, 1, 2, 3]));
    picture.hosts.truncate(2);
    let refusal = place(&picture, &policy, GIB, &mut ids(1)).expect_err("two cannot hold three strips");
    assert!(refusal.text.contains("not even"), "{refusal}");
}
