//! Pictures: which components are there, and whether the object is accessible.

use std::collections::BTreeSet;

use cairn_geometry::moving_at;
use cairn_types::{
    Ancestry, ComponentId, ComponentState, DiskGroupId, HostId, Layout, Member, ObjectConfig, ObjectId, OpId, Parent,
    Past, Policy, Redundancy, Role, Seat, Snapshot, SnapshotId, scheduled_name,
};
use cairn_votes::{
    ChangeKind, IllegalChange, accessible, check_change, has_majority, redundancy, tolerates, votes_needed,
};

/// "r1 r2 w" with votes "1 1 1": r = data of set 0, s = data of set 1, w = witness; each on a host of its own.
fn config(names: &str, votes: &str, states: &str) -> ObjectConfig {
    let words = |s: &str| s.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (names, votes, states) = (words(names), words(votes), words(states));
    let member = |n: usize| Member {
        component: ComponentId(1 + n as u128),
        host: HostId(1 + n as u128),
        disk_group: DiskGroupId(1 + n as u128),
        votes: votes[n].parse().expect("votes"),
        role: match &names[n][..1] {
            "r" => Role::Data { set: 0, copy: n as u32 },
            "s" => Role::Data { set: 1, copy: n as u32 },
            _ => Role::Witness,
        },
        state: match states[n].as_str() {
            "st" => ComponentState::Absent { stale_since: OpId::ZERO },
            "re" => ComponentState::Resyncing { stale_since: OpId::ZERO },
            "xx" => ComponentState::Degraded,
            _ => ComponentState::Active,
        },
    };
    ObjectConfig {
        object: ObjectId(1),
        name: "d".into(),
        // A chunk, and so a replica set, for each GiB.
        size_bytes: if names.iter().any(|name| name.starts_with('s')) { 2 << 30 } else { 1 << 30 },
        policy: Policy::default(),
        policy_name: "default".into(),
        addresses: Layout {
            chunk_bytes: 1 << 30,
            stripe_width: 1,
            strip_bytes: 1 << 20,
            redundancy: Redundancy::Mirror { copies: 2 },
        }
        .into(),
        members: (0..names.len()).map(member).collect(),
        decided: OpId::ZERO,
        deleted: false,
        past: None,
        ancestry: None,
    }
}

fn reachable(config: &ObjectConfig, states: &str) -> BTreeSet<Seat> {
    let here = states.split_whitespace().zip(&config.members).filter(|(s, _)| *s != "--");
    here.map(|(_, m)| m.seat()).collect()
}

/// ok = there and in sync, -- = unreachable, st = there and stale, re = there and resyncing, xx = there and degraded.
const PICTURES: &str = "
# components    votes      state         accessible?
r1 r2 w       | 1 1 1    | ok ok ok    | yes, survives 1
r1 r2 w       | 1 1 1    | ok -- ok    | yes, survives 0
r1 r2 w       | 1 1 1    | ok -- --    | 1 of the 2 votes
r1 r2 w       | 1 1 1    | -- st ok    | no in-sync copy of replica set 0
r1 r2 w       | 1 1 1    | -- re ok    | no in-sync copy of replica set 0
r1 r2 w       | 1 1 1    | ok st ok    | yes, survives 0
r1 r2 w       | 1 1 1    | st xx ok    | none is left
r1 r2         | 1 1      | ok --       | 1 of the 2 votes
r1 r2         | 2 1      | ok --       | yes, survives 0
r1            | 1        | ok          | yes, survives 0
r1 r2 r3 v w  | 1 1 1 1 1 | ok ok ok ok ok | yes, survives 2
r1 r2 r3 v w  | 1 1 1 1 1 | ok -- ok ok -- | yes, survives 0
r1 r2 r3 v w  | 1 1 1 1 1 | ok -- -- ok -- | 2 of the 3 votes
r1 r2 s1 s2 w | 1 1 1 1 1 | ok ok ok ok ok | yes, survives 1
r1 r2 s1 s2 w | 1 1 1 1 1 | -- ok ok -- ok | yes, survives 0
r1 r2 s1 s2 w | 1 1 1 1 1 | ok ok -- -- ok | no in-sync copy of replica set 1
r1 r2 w       | 0 0 0    | ok ok ok    | 0 of the 1 votes
";

#[test]
fn pictures() {
    let mut rows = 0;
    for row in PICTURES.lines().filter(|l| l.contains('|') && !l.starts_with('#')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let config = config(cells[0], cells[1], cells[2]);
        let here = reachable(&config, cells[2]);
        let said = match accessible(&config, &here, |_| true) {
            Ok(()) => {
                let survives = redundancy(&config, &here, |_| true, |host| host);
                format!("yes, survives {}", survives.expect("accessible"))
            }
            Err(why) => why.to_string(),
        };
        assert!(said.contains(cells[3]), "{row}\nsays: {said}");
        rows += 1;
    }
    assert_eq!(rows, 17);
}

#[test]
fn a_refusal_names_hosts_components_and_how_many_more() {
    let config = config("r1 r2 s1 s2 w", "1 1 1 1 1", "ok ok ok ok ok");
    let why = accessible(&config, &reachable(&config, "-- -- -- -- ok"), |_| true).unwrap_err();
    assert_eq!((why.votes_present, why.votes_needed, why.hosts_missing.len()), (1, 3, 4));
    let text = why.to_string();
    assert!(text.contains("1 of the 3 votes that it needs are reachable: waits for host "), "{text}");
    assert!(text.contains("waits for component ") && text.contains(" or ") && text.contains("1 more sets"), "{text}");
    // A copy that is there and cannot be used is no copy.
    let all = reachable(&config, "ok ok ok ok ok");
    assert!(accessible(&config, &all, |m| m.set() != Some(1)).is_err());
}

/// base | next | verdict. A seat is named by its place; a word more in `next` is a new member.
const CHANGES: &str = "
r1 r2 w : ok ok ok | r1 r2 w : ok st ok       | StateOnly
r1 r2 w : ok st ok | r1 r2 w : ok re ok       | StateOnly
r1 r2 w : ok re ok | r1 r2 w : ok ok ok       | StateOnly
r1 r2 w : ok re ok | r1 r2 w : ok xx ok       | StateOnly
r1 r2 w : ok st ok | r1 r2 w : ok ok ok       | Component
r1 r2 w : ok ok ok | r1 r2 w : ok re ok       | Component
r1 r2 w : ok xx ok | r1 r2 w : ok re ok       | Component
r1 r2 w : ok re ok | r1 r2 w : st ok ok       | NoCopy
r1 r2 w : ok ok ok | r1 r2 w : st st ok       | NoCopy
r1 r2 w : ok ok ok | r1 r2 w r3 : ok ok ok re | Joint
r1 r2 w : ok ok ok | r1 r2 w r3 : ok ok ok st | Joint
r1 r2 w : ok ok ok | r1 r2 w r3 : ok ok ok ok | Component
r1 r2 w : ok ok ok | r1 r2 w s1 : ok ok ok ok | Joint
r1 r2 w : ok ok ok | r1 r2 w s1 s2 : ok ok ok ok re | Joint
r1 r2 w : ok ok ok | r1 r2 w s1 : ok ok ok re | NoCopy
r1 r2 w : ok ok ok | r1 r2 : ok ok            | Joint
r1 r2 w : ok st ok | r1 : ok                  | Joint
r1 r2 w : st ok ok | r1 : st                  | NoCopy
";

#[test]
fn legal_changes() {
    for row in CHANGES.lines().filter(|l| l.contains('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let read = |cell: &str| {
            let (names, states) = cell.split_once(':').expect("names and states");
            let votes = "1 ".repeat(names.split_whitespace().count());
            config(names.trim(), &votes, states.trim())
        };
        let verdict = match check_change(&read(cells[0]), &read(cells[1])) {
            Ok(ChangeKind::StateOnly) => "StateOnly",
            Ok(ChangeKind::Joint) => "Joint",
            Err(IllegalChange::Component(_)) => "Component",
            Err(IllegalChange::TooFew { .. }) => "NoCopy",
            Err(other) => panic!("{row}: {other}"),
        };
        assert_eq!(verdict, cells[2], "{row}");
    }
}

#[test]
fn other_illegal_changes() {
    let base = config("r1 r2 w", "1 1 1", "ok ok ok");
    let changed = |change: &dyn Fn(&mut ObjectConfig)| {
        let mut next = base.clone();
        change(&mut next);
        check_change(&base, &next)
    };
    assert_eq!(changed(&|c| c.object = ObjectId(2)), Err(IllegalChange::Identity));
    assert_eq!(changed(&|c| c.members.iter_mut().for_each(|m| m.votes = 0)), Err(IllegalChange::NoVotes));
    assert_eq!(changed(&|c| c.members[1].votes = 2), Ok(ChangeKind::Joint));
    assert_eq!(changed(&|c| c.members[1] = c.members[0]), Err(IllegalChange::Twice(ComponentId(1))));
    assert_eq!(changed(&|c| c.members[1].host = HostId(9)), Err(IllegalChange::Component(ComponentId(2))));
    // Addresses stay, and a new set is one that nobody can have written to.
    assert_eq!(changed(&|c| c.size_bytes -= 512), Err(IllegalChange::Addresses));
    assert_eq!(
        changed(&|c| c.addresses = Layout { chunk_bytes: 1 << 29, ..c.addresses.last().layout }.into()),
        Err(IllegalChange::Addresses)
    );
    assert_eq!(changed(&|c| c.size_bytes = 2 << 30), Err(IllegalChange::TooFew { set: 1, in_sync: 0, needed: 1 }));
    let second_set = |c: &mut ObjectConfig| {
        c.members.push(Member { component: ComponentId(9), role: Role::Data { set: 1, copy: 0 }, ..c.members[0] });
    };
    assert_eq!(changed(&second_set), Err(IllegalChange::Component(ComponentId(9))));
    let dead = |c: &mut ObjectConfig| {
        c.deleted = true;
        for m in &mut c.members {
            m.state = ComponentState::Degraded;
        }
    };
    assert_eq!(changed(&dead), Ok(ChangeKind::StateOnly), "a tombstone needs no copy");
    let mut deleted = base.clone();
    deleted.deleted = true;
    assert_eq!(check_change(&deleted, &base), Err(IllegalChange::Identity), "it stays deleted");
    let mut decided = base.clone();
    decided.decided.seq = 1;
    assert_eq!(check_change(&decided, &base), Err(IllegalChange::Undecided));
    // What a component missed does not shrink on its way.
    let stale = |seq| {
        let mut c = base.clone();
        c.members[1].state = ComponentState::Resyncing { stale_since: OpId { seq, ..OpId::ZERO } };
        c
    };
    assert!(check_change(&stale(5), &stale(5)).is_ok());
    assert!(check_change(&stale(5), &stale(4)).is_ok());
    assert!(check_change(&stale(5), &stale(6)).is_err());
}

/// Goal: what a snapshot holds is decided, and stays. Method: lists that may follow one another, and those that must not.
#[test]
fn a_snapshot_stays_as_it_was_taken() {
    let op = |seq| OpId { seq, ..OpId::ZERO };
    let snapshot = |n: u64| Snapshot {
        id: SnapshotId(n),
        name: format!("s{n}"),
        created_unix_ms: n,
        size_bytes: 1 << 30,
        cut: op(n),
        pinned: false,
        locked_until_unix_ms: 7,
        slot_unix_s: None,
    };
    let with = |decided, snapshots: &[Snapshot]| {
        let past = Some(Past { snapshots: snapshots.to_vec(), ..Past::default() });
        ObjectConfig { decided: op(decided), past, ..config("r1 r2 w", "1 1 1", "ok ok ok") }
    };
    let never = ObjectConfig { past: None, ..with(0, &[]) };
    let (one, two) = (with(5, &[snapshot(3)]), with(5, &[snapshot(3), snapshot(5)]));
    let renamed = with(5, &[Snapshot { name: "other".into(), ..snapshot(3) }]);
    let twice = with(5, &[snapshot(3), Snapshot { id: SnapshotId(9), ..snapshot(3) }]);
    let pinned = with(5, &[Snapshot { pinned: true, ..snapshot(3) }]);
    let locked = |locked_until_unix_ms| with(5, &[Snapshot { locked_until_unix_ms, ..snapshot(3) }]);
    let pinned_and_locked =
        |locked_until_unix_ms| with(5, &[Snapshot { pinned: true, locked_until_unix_ms, ..snapshot(3) }]);
    let of_a_run = with(5, &[Snapshot { slot_unix_s: Some(1), name: scheduled_name("s", 1), ..snapshot(3) }]);
    let shorter = with(5, &[Snapshot { size_bytes: 512, ..snapshot(3) }]);
    let rows = [
        ("the first one", &with(5, &[]), &one, true),
        ("before there was a past", &never, &one, true),
        ("a second one", &one, &two, true),
        ("one goes", &two, &with(6, &[snapshot(5)]), true),
        ("all go", &two, &with(6, &[]), true),
        ("with its past", &two, &ObjectConfig { past: None, ..two.clone() }, false),
        ("not decided", &with(2, &[]), &with(2, &[snapshot(3)]), false),
        ("before the newest", &with(9, &[snapshot(5)]), &with(9, &[snapshot(3), snapshot(5)]), false),
        ("one gets a clone", &one, &pinned, true),
        ("one has no clone any more", &pinned, &one, true),
        ("with clones", &pinned, &with(5, &[]), false),
        ("the disk, with clones", &pinned, &ObjectConfig { deleted: true, ..pinned.clone() }, false),
        ("another name", &one, &renamed, false),
        ("one name twice", &one, &twice, false),
        ("locked for longer", &one, &locked(8), true),
        ("locked for shorter", &one, &locked(6), false),
        ("a locked one gets a clone", &locked(8), &pinned_and_locked(8), true),
        ("one gets a clone, and a shorter lock", &locked(8), &pinned_and_locked(7), false),
        ("locked for shorter once it has no clone", &pinned_and_locked(8), &locked(7), false),
        ("of a run after all", &one, &of_a_run, false),
        ("of another size", &with(5, &[]), &shorter, false),
    ];
    for (what, base, next, is_legal) in rows {
        let expected = if is_legal { Ok(ChangeKind::StateOnly) } else { Err(IllegalChange::Snapshots) };
        assert_eq!(check_change(base, next), expected, "{what}");
    }
    // Nothing goes over to another layout while there are snapshots.
    let (moving, sets) = moving_at(&one, 0, Redundancy::Mirror { copies: 3 }, 1);
    for (disk, is_legal) in [(&one, false), (&with(5, &[]), true)] {
        let begun = ObjectConfig { addresses: disk.addresses.begun(moving, sets), ..disk.clone() };
        assert_eq!(check_change(disk, &begun) != Err(IllegalChange::Snapshots), is_legal);
    }
}

/// Goal: what a clone has of its parents is not lost. Method: parents that go, come, or change; layouts that cannot tell what is theirs.
#[test]
fn a_clone_keeps_its_parents_until_they_are_copied() {
    let parent = |n: u64| Parent { object: ObjectId(n.into()), snapshot: SnapshotId(n), size_bytes: 1 << 20 };
    let of = |parents: &[Parent], flattens| {
        let ancestry = Some(Ancestry { parents: parents.to_vec(), flattens });
        ObjectConfig { ancestry, ..config("r1 r2 w", "1 1 1", "ok ok ok") }
    };
    let never = ObjectConfig { ancestry: None, ..of(&[], false) };
    let (clone, flattens, flat) =
        (of(&[parent(1), parent(2)], false), of(&[parent(1), parent(2)], true), of(&[], false));
    let rows = [
        ("it begins to be copied", &clone, &flattens, true),
        ("it is copied", &flattens, &flat, true),
        ("that is given up", &flattens, &clone, true),
        ("they go before", &clone, &flat, false),
        ("one of them goes", &flattens, &of(&[parent(1)], true), false),
        ("they come", &flat, &clone, false),
        ("a disk becomes a clone", &never, &clone, false),
        ("it forgets that it was one", &flat, &never, false),
        ("more than there may be", &clone, &of(&[1, 2, 3, 4, 5].map(parent), false), false),
    ];
    for (what, base, next, is_legal) in rows {
        let expected = if is_legal { Ok(ChangeKind::StateOnly) } else { Err(IllegalChange::Ancestry) };
        assert_eq!(check_change(base, next), expected, "{what}");
    }
    let (moving, sets) = moving_at(&clone, 0, Redundancy::Mirror { copies: 3 }, 1);
    for (disk, is_legal) in [(&clone, false), (&flat, true)] {
        let begun = ObjectConfig { addresses: disk.addresses.begun(moving, sets), ..disk.clone() };
        assert_eq!(check_change(disk, &begun) != Err(IllegalChange::Ancestry), is_legal);
    }
}

#[test]
fn a_half_is_no_majority() {
    let config = config("r1 r2 r3 w", "1 1 1 1", "ok ok ok ok");
    assert_eq!(votes_needed(&config), 3);
    assert!(!has_majority(&config, &reachable(&config, "ok ok -- --")));
    assert!(has_majority(&config, &reachable(&config, "ok ok -- ok")));
    assert!(tolerates(&config.members, &config.addresses, |h| h, 1).is_ok());
    assert!(tolerates(&config.members, &config.addresses, |h| h, 2).is_err());
}
