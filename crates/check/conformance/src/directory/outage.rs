//! Servers lost and regained: D4, and that nothing acknowledged is lost on the way.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use cairn_directory::{DirectoryError, Followed, Follower, Kind, LocalCopy, Name, Registry, Revision, Scope, Txn};
use cairn_types::{ClusterId, Policy};
use futures::executor::block_on;

use super::{
    Rig, commit, get, key, wait_until,
    watching::{Replica, within},
};

/// A call may take this long, with some room for a busy machine.
const CALL_LIMIT: Duration = Duration::from_millis(3500);
/// Servers may take this long to serve again.
const BACK_LIMIT: Duration = Duration::from_secs(15);

/// One server of several goes in the middle of writes: what was acknowledged is there, a creation that was tried again
/// after a lost answer is never taken for someone else's, watchers miss nothing.
pub(super) fn one_server_lost(rig: &dyn Rig, cluster: ClusterId) {
    let directory = rig.open(cluster);
    let mut follower = Follower::new(directory.clone());
    let mut replica = Replica::default();
    replica.apply(within(CALL_LIMIT, follower.next()));
    let acknowledged = AtomicU64::new(0);
    let written = thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|me| {
                let (directory, acknowledged) = (&directory, &acknowledged);
                scope.spawn(move || write_through(directory, me, acknowledged))
            })
            .collect();
        wait_until("the first writes", BACK_LIMIT, || acknowledged.load(Ordering::Relaxed) >= 30);
        let lost = rig.lose_one();
        let worked_without =
            wait_until("writes without one server", BACK_LIMIT, || acknowledged.load(Ordering::Relaxed) >= 90);
        if lost {
            eprintln!("    one server lost: writes stood for {worked_without:?} at most");
            rig.regain_one();
        }
        let ends: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        ends.into_iter().flat_map(|e| e.expect("no panic")).collect::<Vec<_>>()
    });
    let listing = block_on(directory.list(Scope::All)).expect("a listing");
    assert_eq!(listing.entries.len(), written.len(), "no more and no less than was acknowledged");
    for (name, value, revision) in written {
        let found = get(&directory, &key(&name)).expect("what was acknowledged");
        assert_eq!((found.value, found.revision), (value, revision));
    }
    replica.follow(&mut follower, listing.revision, BACK_LIMIT);
    replica.must_equal(&directory);
}

type Written = (String, Vec<u8>, Revision);

/// Creates 60 keys, each again until it is acknowledged.
fn write_through(
    directory: &std::sync::Arc<dyn cairn_directory::Directory>,
    me: u32,
    acknowledged: &AtomicU64,
) -> Vec<Written> {
    (0..60)
        .map(|i| {
            let name = format!("w{me}-{i}");
            let value = format!("\"{me}.{i}\"").into_bytes();
            let begun = Instant::now();
            // An answer that stayed out, then a conflict: the next try finds what this one did.
            let mut unknown = false;
            let revision = loop {
                assert!(begun.elapsed() < BACK_LIMIT, "{name} could not be written");
                match commit(directory, Txn::new().create(key(&name), value.clone())) {
                    Ok(revision) => break revision,
                    Err(DirectoryError::Unavailable { outcome_unknown, .. }) => {
                        unknown |= outcome_unknown;
                    }
                    Err(DirectoryError::Conflict { found, .. }) if unknown => {
                        break found.expect("a creation conflicts with something");
                    }
                    Err(other) => panic!("{name}: {other}"),
                }
            };
            acknowledged.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(5));
            (name, value, revision)
        })
        .collect()
}

/// Everything stops: each call says so in bounded time, the local copy answers with its age, and afterwards all is as it
/// was; a follower goes on without missing anything.
pub(super) fn away_and_back(rig: &dyn Rig, cluster: ClusterId) {
    let directory = rig.open(cluster);
    let registry = Registry::new(directory.clone());
    let gold = Name::new("gold").expect("a name");
    let before = block_on(registry.create(&gold, &Policy::default())).expect("a policy");
    let mut follower = Follower::new(directory.clone());
    let mut copy = LocalCopy::empty(cluster);
    let first = within(CALL_LIMIT, follower.next());
    assert!(copy.apply(&first, 1000));
    let mut replica = Replica::default();
    replica.apply(first);
    // The watch stands before the directory goes.
    let second = commit(&directory, Txn::new().create(key("a"), b"1".to_vec()));
    replica.follow(&mut follower, second.expect("a creation"), CALL_LIMIT);

    rig.stop();
    told_in_time("get", || block_on(directory.get(&key("a"))).map(|_| ()));
    told_in_time("list", || block_on(directory.list(Scope::Kind(Kind::Task))).map(|_| ()));
    told_in_time("watch", || block_on(directory.watch(before)).map(|_| ()));
    told_in_time("commit", || commit(&directory, Txn::new().create(key("b"), b"1".to_vec())).map(|_| ()));
    let health = within(CALL_LIMIT, directory.health());
    assert!(health.problem.is_some(), "{health:?}");
    wait_until("the watch ends", Duration::from_secs(8), || {
        matches!(within(Duration::from_secs(8), follower.next()), Followed::Away(_))
    });
    let read = block_on(copy.get_through::<Policy>(&registry, &gold, 6000)).expect("the copy");
    assert_eq!((read.value, read.age_ms), (Some(Policy::default()), Some(5000)));
    let nothing = LocalCopy::empty(cluster);
    let error = block_on(nothing.get_through::<Policy>(&registry, &gold, 6000));
    assert!(error.expect_err("a copy of nothing").is_unavailable());

    rig.start();
    let back = wait_until("reads", BACK_LIMIT, || block_on(directory.get(&key("a"))).is_ok());
    eprintln!("    back {back:?} after the start");
    assert_eq!(get(&directory, &key("a")).expect("a").value, b"1");
    let read = block_on(copy.get_through::<Policy>(&registry, &gold, 6000)).expect("a read");
    assert_eq!(read.age_ms, None);
    // "b" may have been refused or not have left: it is there or not, and either can be built upon.
    let now = get(&directory, &key("b")).map(|b| b.revision);
    let txn = match now {
        Some(revision) => Txn::new().replace(key("b"), revision, b"2".to_vec()),
        None => Txn::new().create(key("b"), b"2".to_vec()),
    };
    let last = commit(&directory, txn).expect("a write");
    replica.follow(&mut follower, last, BACK_LIMIT);
    replica.must_equal(&directory);
    assert!(within(CALL_LIMIT, directory.health()).problem.is_none());
}

fn told_in_time(what: &str, call: impl FnOnce() -> Result<(), DirectoryError>) {
    let begun = Instant::now();
    let error = call().expect_err(what);
    assert!(error.is_unavailable(), "{what}: {error}");
    assert!(begun.elapsed() < CALL_LIMIT, "{what} took {:?}", begun.elapsed());
}
