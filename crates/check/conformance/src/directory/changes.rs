//! Transactions and listings: D1 and D2.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use cairn_directory::{
    DirectoryError, Entry as _, HostEntry, Key, Kind, Name, Scope, TXN_BYTES_MAX, TXN_OPS_MAX, TaskEntry, TaskId, Txn,
    VALUE_BYTES_MAX,
};
use cairn_types::{ClusterId, HostId};
use futures::executor::block_on;

use super::{Rig, commit, count, get, key, registry};

/// Eight threads create one key; one wins, the others are told who was there, and the winner's value stays.
pub(super) fn one_of_many_creators_wins(rig: &dyn Rig, cluster: ClusterId) {
    let directory = rig.open(cluster);
    for round in 0..10 {
        let contested = key(&format!("contested-{round}"));
        let outcomes: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|me: u32| {
                    let (directory, contested) = (&directory, &contested);
                    scope.spawn(move || {
                        let value = format!("\"{me}\"").into_bytes();
                        (me, commit(directory, Txn::new().create(contested.clone(), value)))
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).collect()
        });
        let winners: Vec<_> = outcomes.iter().filter(|(_, o)| o.is_ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let (winner, revision) = (winners[0].0, winners[0].1.clone().expect("it won"));
        let found = get(&directory, &contested).expect("the winner's value");
        assert_eq!(found.value, format!("\"{winner}\"").into_bytes());
        assert_eq!(found.revision, revision);
        for (_, outcome) in outcomes.iter().filter(|(_, o)| o.is_err()) {
            let expected = DirectoryError::Conflict { key: contested.clone(), expected: None, found: Some(revision) };
            assert_eq!(outcome.as_ref().expect_err("it lost"), &expected);
        }
    }
}

fn task(progress_done: u64) -> TaskEntry {
    TaskEntry {
        kind: "count".into(),
        subject: "increments".into(),
        host: HostId(1),
        started_unix_ms: 1,
        progress_done,
        progress_total: 0,
        progress_unit: "increments".into(),
        ended_unix_ms: None,
        outcome: None,
    }
}

/// Six threads increment one counter 15 times each by read and compare-and-swap: none is lost, revisions only grow.
pub(super) fn no_increment_is_lost(rig: &dyn Rig, cluster: ClusterId) {
    let registry = registry(rig, cluster);
    let id = TaskId(1);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut last = 0;
                for _ in 0..15 {
                    // One that is beaten 32 times in a row is told so; it tries again like any caller would.
                    let now = loop {
                        let next = block_on(registry.update::<TaskEntry>(&id, |found| {
                            Ok(Some(task(found.map_or(0, |t| t.progress_done) + 1)))
                        }));
                        match next {
                            Ok(now) => break now.expect("it was written"),
                            Err(DirectoryError::Refused(_)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    };
                    assert!(now.progress_done > last, "a counter that falls");
                    last = now.progress_done;
                }
            });
        }
    });
    let end = block_on(registry.get::<TaskEntry>(&id)).expect("a read");
    assert_eq!(end.expect("the counter").entry.progress_done, 6 * 15);
}

/// A transaction with one false guard changes nothing, and its refusal names the key, what was expected, what is there.
pub(super) fn a_refused_transaction_leaves_no_trace(rig: &dyn Rig, cluster: ClusterId) {
    let directory = rig.open(cluster);
    let (a, b, c) = (key("a"), key("b"), key("c"));
    let first = Txn::new().create(a.clone(), b"1".to_vec()).create(b.clone(), b"1".to_vec());
    let old = commit(&directory, first).expect("two creations");
    let new = commit(&directory, Txn::new().replace(b.clone(), old, b"2".to_vec()));
    let new = new.expect("a replacement");
    assert!(new > old);
    let refused = [
        Txn::new().replace(a.clone(), old, b"9".to_vec()).replace(b.clone(), old, b"9".to_vec()),
        Txn::new().create(c.clone(), b"9".to_vec()).delete(b.clone(), old),
        Txn::new().delete(a.clone(), old).check(b.clone(), None),
        Txn::new().delete(a.clone(), old).check(b.clone(), Some(old)),
    ];
    for txn in refused {
        let expected = txn.ops[1].expected();
        let error = commit(&directory, txn).expect_err("a false guard");
        let conflict = DirectoryError::Conflict { key: b.clone(), expected, found: Some(new) };
        assert_eq!(error, conflict);
    }
    assert_eq!(get(&directory, &a).expect("a").value, b"1");
    assert_eq!(get(&directory, &b).expect("b").value, b"2");
    assert_eq!(get(&directory, &c), None);
    // The revision of something that is gone is no guard any more; absence is.
    commit(&directory, Txn::new().delete(b.clone(), new)).expect("a deletion");
    let gone = commit(&directory, Txn::new().replace(b.clone(), new, b"3".to_vec()));
    assert!(gone.expect_err("it is gone").is_conflict());
    commit(&directory, Txn::new().create(b, b"4".to_vec())).expect("a creation after a deletion");
}

/// Writers move units between two keys in one transaction; the sum that readers list is always the same.
pub(super) fn readers_never_see_half(rig: &dyn Rig, cluster: ClusterId) {
    const SUM: u64 = 1000;
    let directory = rig.open(cluster);
    let (a, b) = (key("a"), key("b"));
    let number = |stored: &[u8]| -> u64 {
        let text = std::str::from_utf8(stored).expect("digits");
        text.parse().expect("a number")
    };
    let begin = Txn::new().create(a.clone(), SUM.to_string().into_bytes()).create(b.clone(), b"0".to_vec());
    commit(&directory, begin).expect("two creations");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> =
            (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut moved = 0;
                        while moved < 40 {
                            let (from, to) = (get(&directory, &a), get(&directory, &b));
                            let (from, to) = (from.expect("a"), to.expect("b"));
                            let (left, right) = (number(&from.value), number(&to.value));
                            let txn = Txn::new()
                                .replace(a.clone(), from.revision, (left - 1).to_string().into())
                                .replace(b.clone(), to.revision, (right + 1).to_string().into());
                            moved += u32::from(commit(&directory, txn).is_ok());
                        }
                    })
                })
                .collect();
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let seen = block_on(directory.list(Scope::All)).expect("a listing");
                let sum: u64 = seen.entries.iter().map(|(_, s)| number(&s.value)).sum();
                assert_eq!(sum, SUM, "half a transaction at {}", seen.revision);
                assert_eq!(seen.entries[0].1.revision, seen.entries[1].1.revision);
            }
        });
        let ends: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        over.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.expect("no panic"));
    });
    assert_eq!(get(&directory, &b).expect("b").value, b"80");
}

/// What one implementation takes all take: the largest transactions pass, one more is refused before anything changes.
pub(super) fn limits_are_the_same_everywhere(rig: &dyn Rig, cluster: ClusterId) {
    let directory = rig.open(cluster);
    let text = |bytes: usize| {
        let mut json = vec![b'x'; bytes];
        json[0] = b'"';
        json[bytes - 1] = b'"';
        json
    };
    let many = |count: usize, bytes: usize, prefix: &str| {
        (0..count).fold(Txn::new(), |txn, i| txn.create(key(&format!("{prefix}-{i}")), text(bytes)))
    };
    let largest = TXN_BYTES_MAX / VALUE_BYTES_MAX;
    let refused = [
        (Txn::new(), "1 to"),
        (many(TXN_OPS_MAX + 1, 2, "n"), "operations"),
        (many(1, VALUE_BYTES_MAX + 1, "v"), "bytes"),
        (many(largest + 1, VALUE_BYTES_MAX, "t"), "bytes of values"),
        (Txn::new().create(key("twice"), text(2)).check(key("twice"), None), "twice"),
    ];
    for (txn, why) in refused {
        match commit(&directory, txn) {
            Err(DirectoryError::Refused(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{why}: {other:?}"),
        }
    }
    assert_eq!(count(&directory), 0);
    commit(&directory, many(TXN_OPS_MAX, 2, "many")).expect("as many as may be");
    commit(&directory, many(largest, VALUE_BYTES_MAX, "large")).expect("as large as may be");
    let read = get(&directory, &key("large-0")).expect("a large one");
    assert_eq!(read.value, text(VALUE_BYTES_MAX));
    assert_eq!(count(&directory), TXN_OPS_MAX + largest);
}

/// 450 entries of two kinds: listed in the order of their keys, by kind or all, as of one revision.
pub(super) fn listings_are_ordered(rig: &dyn Rig, cluster: ClusterId) {
    let directory = rig.open(cluster);
    let name = |i: u32| Name::new(format!("e{}", i * 7919 % 450)).expect("a name");
    let mut last = None;
    for chunk in (0..450u32).collect::<Vec<_>>().chunks(50) {
        let txn = chunk.iter().fold(Txn::new(), |txn, &i| {
            let kind = if i % 3 == 0 { Kind::Policy } else { Kind::Task };
            txn.create(Key::new(kind, &name(i)), i.to_string().into_bytes())
        });
        last = Some(commit(&directory, txn).expect("creations"));
    }
    let all = block_on(directory.list(Scope::All)).expect("a listing");
    assert_eq!(all.entries.len(), 450);
    assert_eq!(Some(all.revision), last, "as of the last transaction");
    assert!(all.entries.windows(2).all(|w| w[0].0.path() < w[1].0.path()));
    for kind in Kind::ALL {
        let listed = block_on(directory.list(Scope::Kind(kind))).expect("a listing");
        let expected: Vec<_> = all.entries.iter().filter(|(k, _)| k.kind() == kind).collect();
        assert_eq!(listed.entries.iter().collect::<Vec<_>>(), expected);
        assert_eq!(listed.revision, all.revision);
    }
}

/// Two clusters may share a server, or a process.
pub(super) fn clusters_do_not_see_each_other(rig: &dyn Rig, cluster: ClusterId) {
    // Two ids that differ in one digit; no other check has this one.
    let neighbour = rig.open(ClusterId(cluster.0 ^ 1 << 32));
    let own = rig.open(cluster);
    commit(&own, Txn::new().create(key("a"), b"1".to_vec())).expect("a creation");
    assert_eq!(count(&neighbour), 0);
    assert_eq!(get(&neighbour, &key("a")), None);
    commit(&neighbour, Txn::new().create(key("a"), b"2".to_vec())).expect("a creation");
    assert_eq!(get(&own, &key("a")).expect("a").value, b"1");
}

/// An entry that is no JSON, or not of its type, is reported by name; its neighbours are listed.
pub(super) fn a_damaged_entry_hides_no_other(rig: &dyn Rig, cluster: ClusterId) {
    let registry = registry(rig, cluster);
    let directory = registry.directory();
    block_on(registry.create(&TaskId(1), &task(1))).expect("a creation");
    block_on(registry.create(&TaskId(3), &task(3))).expect("a creation");
    let broken = Key::of::<TaskEntry>(&TaskId(2));
    let txn = Txn::new().create(broken.clone(), b"{\"kind\":".to_vec()).create(key("not-an-id"), b"{}".to_vec());
    commit(directory, txn).expect("anything may be stored");
    let listed = block_on(registry.list::<TaskEntry>()).expect("a listing");
    let ids: Vec<_> = listed.entries.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [TaskId(1), TaskId(3)]);
    assert_eq!(listed.damaged.len(), 2, "{:?}", listed.damaged);
    match block_on(registry.get::<TaskEntry>(&TaskId(2))) {
        Err(DirectoryError::Damaged { key, .. }) => assert_eq!(key, broken),
        other => panic!("{other:?}"),
    }
    assert_eq!(HostEntry::KIND, Kind::Host);
    assert!(block_on(registry.list::<HostEntry>()).expect("a listing").entries.is_empty());
}
