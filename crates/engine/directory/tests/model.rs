//! The embedded directory against a map: any run of transactions, listings, watches and crashes gives what a slow and
//! obvious model gives.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

use cairn_directory::{
    Changes, Directory as _, DirectoryError, Embedded, Key, Kind, Name, Op, Revision, Scope, Stored, Txn, WatchItem,
};
use cairn_types::ClusterId;
use futures::{FutureExt as _, StreamExt as _, executor::block_on};
use proptest::prelude::*;

const CLUSTER: ClusterId = ClusterId(1);

/// A medium that keeps what was synced apart: a crash loses everything after the last sync.
#[derive(Debug, Clone, Default)]
struct Medium(Arc<Mutex<(Vec<u8>, Vec<u8>)>>);

impl Medium {
    fn crashed(&self) -> Self {
        let synced = self.0.lock().unwrap().1.clone();
        Self(Arc::new(Mutex::new((synced.clone(), synced))))
    }
}

impl redb::StorageBackend for Medium {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().0.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let medium = self.0.lock().unwrap();
        let end = offset as usize + out.len();
        let bytes = medium.0.get(offset as usize..end);
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().0.resize(len as usize, 0);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut medium = self.0.lock().unwrap();
        medium.1 = medium.0.clone();
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut medium = self.0.lock().unwrap();
        let end = offset as usize + data.len();
        medium.0.get_mut(offset as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }
}

/// The model: a map, and every transaction that took effect.
#[derive(Default)]
struct Model {
    revision: u64,
    entries: BTreeMap<Key, Stored>,
    history: Vec<Changes>,
}

impl Model {
    fn commit(&mut self, txn: &Txn) -> Result<Revision, DirectoryError> {
        for op in &txn.ops {
            let found = self.entries.get(op.key()).map(|s| s.revision);
            if found != op.expected() {
                return Err(DirectoryError::Conflict { key: op.key().clone(), expected: op.expected(), found });
            }
        }
        self.revision += 1;
        let revision = Revision(self.revision);
        let mut changes = BTreeMap::new();
        for op in &txn.ops {
            let now = op.value().map(|value| Stored { revision, value: value.to_vec() });
            match (op, &now) {
                (Op::Check { .. }, _) => continue,
                (_, Some(now)) => self.entries.insert(op.key().clone(), now.clone()),
                (_, None) => self.entries.remove(op.key()),
            };
            changes.insert(op.key().clone(), now);
        }
        let changes = changes.into_iter().map(|(key, now)| cairn_directory::Change { key, now }).collect();
        self.history.push(Changes { revision, changes });
        Ok(revision)
    }
}

/// One part of a transaction, before it is known what is there.
#[derive(Debug, Clone)]
struct Part {
    key: usize,
    what: u8,
    /// Whether its guard is made to hold.
    true_guard: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Part>),
    List(usize),
    WatchFrom(usize),
    Crash,
}

fn key(index: usize) -> Key {
    let kind = Kind::ALL[index % 3];
    Key::new(kind, &Name::new(format!("k{index}")).unwrap())
}

fn txn(parts: &[Part], model: &Model, step: usize) -> Txn {
    let mut parts = parts.to_vec();
    parts.sort_by_key(|p| p.key);
    parts.dedup_by_key(|p| p.key);
    parts.iter().fold(Txn::new(), |txn, part| {
        let key = key(part.key);
        let there = model.entries.get(&key).map(|s| s.revision);
        let value = format!("{step}").into_bytes();
        match (there, part.true_guard, part.what % 4) {
            (there, true, 0) => txn.check(key, there),
            (Some(at), true, 1) => txn.delete(key, at),
            (Some(at), true, _) => txn.replace(key, at, value),
            (None, true, _) => txn.create(key, value),
            (there, false, 0) => {
                let wrong = if there.is_some() { None } else { Some(Revision(1)) };
                txn.check(key, wrong)
            }
            (_, false, 1) => txn.delete(key, Revision(model.revision + 7)),
            (_, false, 2) => txn.replace(key, Revision(model.revision + 7), value),
            (None, false, _) => txn.replace(key, Revision(0), value),
            (Some(_), false, _) => txn.create(key, value),
        }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Four of five guards hold, or nothing long would ever happen.
    let part = (0usize..8, any::<u8>(), 0u8..5).prop_map(|(key, what, luck)| Part { key, what, true_guard: luck > 0 });
    let step = prop_oneof![
        8 => prop::collection::vec(part, 1..4).prop_map(Step::Commit),
        2 => (0usize..4).prop_map(Step::List),
        2 => any::<usize>().prop_map(Step::WatchFrom),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_embedded_directory_is_a_map_with_revisions(steps in steps()) {
        let mut medium = Medium::default();
        let mut directory = Embedded::open(medium.clone(), CLUSTER).unwrap();
        let mut model = Model::default();
        // Transactions before the last crash are no longer known to watches.
        let mut forgotten = 0;
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Commit(parts) => {
                    let txn = txn(parts, &model, number);
                    let expected = model.commit(&txn);
                    prop_assert_eq!(block_on(directory.commit(txn)), expected);
                }
                Step::List(which) => {
                    let scope = Kind::ALL.get(*which).filter(|_| *which < 3);
                    let scope = scope.map_or(Scope::All, |kind| Scope::Kind(*kind));
                    let listed = block_on(directory.list(scope)).unwrap();
                    prop_assert_eq!(listed.revision, Revision(model.revision));
                    let expected: Vec<_> = model
                        .entries
                        .iter()
                        .filter(|(key, _)| scope == Scope::All || scope == Scope::Kind(key.kind()))
                        .map(|(key, stored)| (key.clone(), stored.clone()))
                        .collect();
                    prop_assert_eq!(listed.entries, expected);
                }
                Step::WatchFrom(pick) => {
                    let after = *pick as u64 % (model.revision + 1);
                    let mut watch = block_on(directory.watch(Revision(after))).unwrap();
                    if after < forgotten {
                        prop_assert_eq!(block_on(watch.next()), Some(Ok(WatchItem::Gap)));
                        prop_assert_eq!(block_on(watch.next()), None);
                        continue;
                    }
                    for expected in &model.history[after as usize..] {
                        let told = block_on(watch.next());
                        prop_assert_eq!(told, Some(Ok(WatchItem::Changes(expected.clone()))));
                    }
                    prop_assert!(watch.next().now_or_never().is_none());
                }
                Step::Crash => {
                    // Without closing the store first: its last words must not reach the medium.
                    medium = medium.crashed();
                    directory = Embedded::open(medium.clone(), CLUSTER).unwrap();
                    forgotten = model.revision;
                }
            }
        }
    }
}

/// Futures of the registry may run on any runtime's threads.
#[test]
fn futures_are_send() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    let registry = cairn_directory::Registry::new(Embedded::in_memory(CLUSTER));
    let host = cairn_types::HostId(1);
    let entries = send(registry.list::<cairn_directory::HostEntry>());
    assert!(block_on(entries).unwrap().entries.is_empty());
    let entry = send(registry.get::<cairn_directory::HostEntry>(&host));
    assert!(block_on(entry).unwrap().is_none());
    drop(send(registry.mark_deleted(cairn_types::ObjectId(1), &[])));
    let mut follower = cairn_directory::Follower::new(registry.directory().clone());
    drop(send(follower.next()));
}
