//! Watches: D3.

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use cairn_directory::{Directory, Followed, Follower, Key, Revision, Scope, Stored, Txn, WatchItem};
use cairn_types::ClusterId;
use futures::{
    StreamExt as _,
    executor::block_on,
    future::{Either, select},
    pin_mut,
};

use super::{Rig, commit, get, key};

/// What a follower's reader has built so far.
#[derive(Default)]
pub(super) struct Replica {
    pub(super) revision: Revision,
    pub(super) entries: BTreeMap<Key, Stored>,
    pub(super) snapshots: u32,
    pub(super) away: u32,
}

impl Replica {
    pub(super) fn apply(&mut self, told: Followed) {
        match told {
            Followed::Snapshot(listing) => {
                self.revision = listing.revision;
                self.entries = listing.entries.into_iter().collect();
                self.snapshots += 1;
            }
            Followed::Changes(changes) => {
                assert!(changes.revision > self.revision, "order");
                self.revision = changes.revision;
                for change in changes.changes {
                    if let Some(now) = &change.now {
                        assert_eq!(now.revision, changes.revision);
                    }
                    match change.now {
                        Some(now) => self.entries.insert(change.key, now),
                        None => self.entries.remove(&change.key),
                    };
                }
            }
            Followed::Confirmed => {}
            Followed::Away(_) => {
                self.away += 1;
                thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Follows until everything up to `to` is seen.
    pub(super) fn follow(&mut self, follower: &mut Follower, to: Revision, limit: Duration) {
        let end = Instant::now() + limit;
        while self.revision < to {
            assert!(Instant::now() < end, "{to} not seen within {limit:?}");
            let told = within(limit, follower.next());
            self.apply(told);
        }
    }

    pub(super) fn must_equal(&self, directory: &Arc<dyn Directory>) {
        let listing = block_on(directory.list(Scope::All)).expect("a listing");
        let entries: BTreeMap<Key, Stored> = listing.entries.into_iter().collect();
        assert_eq!(self.entries, entries);
    }
}

/// `work`, which must end within `limit`.
pub(super) fn within<T>(limit: Duration, work: impl Future<Output = T>) -> T {
    // A thread is a clock that needs no runtime.
    let (ring, rung) = futures::channel::oneshot::channel::<()>();
    thread::spawn(move || {
        thread::sleep(limit);
        drop(ring);
    });
    pin_mut!(work);
    match block_on(select(work, rung)) {
        Either::Left((done, _)) => done,
        Either::Right(_) => panic!("not within {limit:?}"),
    }
}

const LIMIT: Duration = Duration::from_secs(5);

/// Each of 60 transactions, of one to three changes, arrives once, whole and in order; from the middle as from the
/// beginning; two watchers see the same.
pub(super) fn everything_in_order(rig: &dyn Rig, cluster: ClusterId) {
    let directory = rig.open(cluster);
    let mut follower = Follower::new(directory.clone());
    let mut replica = Replica::default();
    replica.apply(within(LIMIT, follower.next()));
    let mut revisions = vec![replica.revision];
    for i in 0..60u32 {
        let mut txn = Txn::new();
        for part in 0..=i % 3 {
            let name = key(&format!("k{}", (i * 3 + part) % 20));
            txn = match get(&directory, &name) {
                Some(found) if i % 5 == 4 => txn.delete(name, found.revision),
                Some(found) => txn.replace(name, found.revision, i.to_string().into()),
                None => txn.create(name, i.to_string().into()),
            };
        }
        revisions.push(commit(&directory, txn).expect("a transaction"));
    }
    assert!(revisions.windows(2).all(|w| w[0] < w[1]));
    let last = *revisions.last().expect("some");
    replica.follow(&mut follower, last, LIMIT);
    replica.must_equal(&directory);
    assert_eq!((replica.snapshots, replica.away), (1, 0));

    // From the middle, by a bare watch: exactly what came after, one item per transaction, keys in order.
    let middle = 25;
    let mut watch = within(LIMIT, directory.watch(revisions[middle])).expect("a watch");
    for expected in &revisions[middle + 1..] {
        match within(LIMIT, watch.next()) {
            Some(Ok(WatchItem::Changes(changes))) => {
                assert_eq!(changes.revision, *expected);
                assert!(changes.changes.windows(2).all(|w| w[0].key < w[1].key));
            }
            other => panic!("expected {expected}, got {other:?}"),
        }
    }
}

/// 1100 transactions (more than a history in memory holds) while a reader does not look: it has them all afterwards, by watch or by a new listing.
pub(super) fn a_reader_that_slept_catches_up(rig: &dyn Rig, cluster: ClusterId) {
    let directory = rig.open(cluster);
    let mut follower = Follower::new(directory.clone());
    let mut replica = Replica::default();
    replica.apply(within(LIMIT, follower.next()));
    let first = commit(&directory, Txn::new().create(key("n"), b"0".to_vec()));
    replica.follow(&mut follower, first.expect("a creation"), LIMIT);
    let mut at = replica.revision;
    for i in 1..=1100u32 {
        let txn = Txn::new().replace(key("n"), at, i.to_string().into());
        at = commit(&directory, txn).expect("a replacement");
    }
    replica.follow(&mut follower, at, LIMIT);
    replica.must_equal(&directory);
    assert_eq!(replica.entries[&key("n")].value, b"1100");
}

/// A watcher that saw more than the directory has (it was restored from a backup) is told to list again.
pub(super) fn another_life_is_a_gap(rig: &dyn Rig, cluster: ClusterId) {
    let directory = rig.open(cluster);
    let now = commit(&directory, Txn::new().create(key("a"), b"1".to_vec()));
    let later = Revision(now.expect("a creation").0 + 1_000_000);
    let mut watch = within(LIMIT, directory.watch(later)).expect("a watch");
    match within(LIMIT, watch.next()) {
        Some(Ok(WatchItem::Gap)) => {}
        other => panic!("{other:?}"),
    }
    assert!(within(LIMIT, watch.next()).is_none(), "the stream ends");
    let mut follower = Follower::resume(directory, later);
    assert!(matches!(within(LIMIT, follower.next()), Followed::Snapshot(_)));
}
