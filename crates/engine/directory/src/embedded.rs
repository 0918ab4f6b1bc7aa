//! The embedded directory: one transactional store, one process.
//!
//! Promises    D1..D4 of `kv`; a transaction that was acknowledged survives a crash (the store commits before the answer)
//! Assumes     the caller's `StorageBackend` syncs when asked and is used by this process alone
//! Not here    the file itself: rooms of the engine have no operating system (`directory-etcd::open_embedded_file`)
//! Costs       calls do their work before they return: a read some us, a commit one durable write (0.2 to 10 ms) on the
//!             calling thread. The control plane's threads may wait so; a shard hands commits to `run_blocking`.
//! Source      redb's copy-on-write B-tree: measured in the project's table of metadata stores

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

use cairn_types::ClusterId;
use futures::{FutureExt as _, StreamExt as _, channel::mpsc, stream};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition};

use crate::{
    BoxFuture, Change, Changes, Directory, DirectoryError, Health, Key, Listing, Op, Revision, Scope, Stored, Txn,
    Watch, WatchItem, decide,
};

/// Path of a key -> (revision, JSON).
const ENTRIES: TableDefinition<&str, (u64, &[u8])> = TableDefinition::new("entries");
/// "format", "revision", "cluster" -> 16 bytes, little endian.
const META: TableDefinition<&str, u128> = TableDefinition::new("meta");
/// The layout of the two tables.
const FORMAT: u128 = 1;
/// Transactions that a watcher may be behind before it must list again: some 1 MiB at usual sizes.
pub const HISTORY_CHANGES_MAX: usize = 1024;
/// Memory for pages of the store: a catalogue of 10 000 disks has some 5 MiB.
const CACHE_BYTES: usize = 8 << 20;

/// The embedded directory of one cluster.
pub struct Embedded {
    /// Read without a lock: the store gives each reader its own snapshot, so none waits for a writer's disk.
    db: Database,
    writer: Mutex<Writer>,
}

/// What commits change, in the order in which they happen.
struct Writer {
    revision: Revision,
    /// The last transactions, oldest first, without holes.
    history: VecDeque<Changes>,
    watchers: Vec<mpsc::Sender<Changes>>,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Embedded")
    }
}

/// The store failed: its error, as the contract has it. `act` says what was attempted.
fn failed(act: &str) -> impl Fn(redb::Error) -> DirectoryError + '_ {
    move |e| DirectoryError::away(format!("{act}: {e}"))
}

impl Embedded {
    /// Opens the directory of `cluster` in `backend`, or makes it there when `backend` is empty.
    ///
    /// # Errors
    /// `Refused` when it belongs to another cluster, is of a newer release, is damaged or is in use.
    pub fn open(backend: impl StorageBackend, cluster: ClusterId) -> Result<Arc<Self>, DirectoryError> {
        let refuse = |e: redb::Error| {
            DirectoryError::Refused(format!(
                "the embedded directory cannot be opened: {e}. If it is damaged, move it away and start again: \
                 the catalogue is rebuilt from the disks' records"
            ))
        };
        let db = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(backend)
            .map_err(|e| refuse(e.into()))?;
        let revision = prepare(&db, cluster).map_err(refuse)??;
        Ok(Arc::new(Self {
            db,
            writer: Mutex::new(Writer { revision, history: VecDeque::new(), watchers: Vec::new() }),
        }))
    }

    /// A directory that is gone when it is dropped: for simulations and tests.
    ///
    /// # Panics
    /// Never: memory does not fail to open.
    pub fn in_memory(cluster: ClusterId) -> Arc<Self> {
        Self::open(redb::backends::InMemoryBackend::new(), cluster).expect("an empty store in memory opens")
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic while it is held is a bug of ours that has ended the process already.
        self.writer.lock().expect("no holder of this lock can panic")
    }

    fn read_one(&self, key: &Key) -> Result<Option<Stored>, redb::Error> {
        let read = self.db.begin_read()?;
        let entries = read.open_table(ENTRIES)?;
        Ok(entries.get(key.path())?.map(|found| {
            let (revision, value) = found.value();
            Stored { revision: Revision(revision), value: value.to_vec() }
        }))
    }

    fn read_all(&self, scope: Scope) -> Result<Listing, redb::Error> {
        let read = self.db.begin_read()?;
        let table = read.open_table(ENTRIES)?;
        // From the same snapshot: the listing is of exactly this revision.
        let revision = read.open_table(META)?.get("revision")?;
        let revision = Revision(revision.map_or(0, |r| r.value() as u64));
        let prefix = scope.prefix();
        let mut entries = Vec::new();
        for row in table.range(prefix.as_str()..)? {
            let (path, found) = row?;
            if !path.value().starts_with(&prefix) {
                break;
            }
            if let Ok(key) = Key::parse(path.value()) {
                let (revision, value) = found.value();
                entries.push((key, Stored { revision: Revision(revision), value: value.to_vec() }));
            }
        }
        Ok(Listing { revision, entries })
    }
}

/// Makes the tables, or checks whose they are. The inner error is a refusal.
fn prepare(db: &Database, cluster: ClusterId) -> Result<Result<Revision, DirectoryError>, redb::Error> {
    let mut write = db.begin_write()?;
    write.set_quick_repair(true);
    let revision;
    {
        let mut meta = write.open_table(META)?;
        write.open_table(ENTRIES)?;
        let format = read_or_enter(&mut meta, "format", FORMAT)?;
        if format != FORMAT {
            return Ok(Err(DirectoryError::Refused(format!(
                "the embedded directory has format {format}, this release reads {FORMAT}: use the release that wrote it"
            ))));
        }
        let owner = ClusterId(read_or_enter(&mut meta, "cluster", cluster.0)?);
        if owner != cluster {
            return Ok(Err(DirectoryError::Refused(format!(
                "the embedded directory belongs to cluster {owner}, this is cluster {cluster}: check the path and the \
                 cluster id in the configuration"
            ))));
        }
        revision = Revision(read_or_enter(&mut meta, "revision", 0)? as u64);
    }
    write.commit()?;
    Ok(Ok(revision))
}

/// The number `name`, which is `default` in a new store.
fn read_or_enter(meta: &mut redb::Table<&str, u128>, name: &str, default: u128) -> Result<u128, redb::Error> {
    let found = meta.get(name)?.map(|f| f.value());
    if found.is_none() {
        meta.insert(name, default)?;
    }
    Ok(found.unwrap_or(default))
}

impl Writer {
    /// Decides and carries out `txn` in one transaction of the store. The inner error is a conflict.
    fn commit(&self, db: &Database, txn: &Txn) -> Result<Result<Changes, DirectoryError>, redb::Error> {
        let revision = Revision(self.revision.0 + 1);
        let mut write = db.begin_write()?;
        write.set_quick_repair(true);
        {
            let mut entries = write.open_table(ENTRIES)?;
            let mut broken = None;
            let decision = decide(txn, |key| match entries.get(key.path()) {
                Ok(found) => found.map(|f| Revision(f.value().0)),
                Err(error) => {
                    broken = Some(error);
                    None
                }
            });
            if let Some(error) = broken {
                return Err(error.into());
            }
            if let Err(conflict) = decision {
                return Ok(Err(conflict));
            }
            for op in &txn.ops {
                match op {
                    Op::Create { key, value } | Op::Replace { key, value, .. } => {
                        entries.insert(key.path(), (revision.0, value.as_slice()))?;
                    }
                    Op::Delete { key, .. } => {
                        entries.remove(key.path())?;
                    }
                    Op::Check { .. } => {}
                }
            }
            write.open_table(META)?.insert("revision", u128::from(revision.0))?;
        }
        write.commit()?;
        Ok(Ok(changes_of(txn, revision)))
    }

    /// Tells `changes`, already durable, to history and watchers.
    fn publish(&mut self, changes: Changes) {
        self.revision = changes.revision;
        // A watcher whose queue is full is dropped: its stream ends and it comes back by revision.
        self.watchers.retain_mut(|w| w.try_send(changes.clone()).is_ok());
        self.history.push_back(changes);
        if self.history.len() > HISTORY_CHANGES_MAX {
            self.history.pop_front();
        }
    }

    /// The transactions after `after`; none when not all of them are known any more.
    fn since(&self, after: Revision) -> Option<Vec<Changes>> {
        if after > self.revision {
            // Seen in another life of this directory (restored from a backup): what the watcher has is not ours.
            return None;
        }
        let missing = (self.revision.0 - after.0) as usize;
        let known = self.history.len();
        (missing <= known).then(|| self.history.iter().skip(known - missing).cloned().collect())
    }
}

/// What `txn` leaves, in the order of the keys.
fn changes_of(txn: &Txn, revision: Revision) -> Changes {
    let mut changes: Vec<Change> = txn
        .ops
        .iter()
        .filter(|op| !matches!(op, Op::Check { .. }))
        .map(|op| Change {
            key: op.key().clone(),
            now: op.value().map(|value| Stored { revision, value: value.to_vec() }),
        })
        .collect();
    changes.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Changes { revision, changes }
}

impl Directory for Embedded {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, DirectoryError>> {
        async move { self.read_one(key).map_err(failed("read an entry")) }.boxed()
    }

    fn list(&self, scope: Scope) -> BoxFuture<'_, Result<Listing, DirectoryError>> {
        async move { self.read_all(scope).map_err(failed("list entries")) }.boxed()
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Revision, DirectoryError>> {
        async move {
            txn.validate()?;
            let mut writer = self.writer();
            let changes = writer.commit(&self.db, &txn).map_err(|e| DirectoryError::Unavailable {
                cause: format!("commit a transaction: {e}"),
                outcome_unknown: true,
            })??;
            let revision = changes.revision;
            writer.publish(changes);
            Ok(revision)
        }
        .boxed()
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Watch, DirectoryError>> {
        async move {
            let mut writer = self.writer();
            let Some(missed) = writer.since(after) else {
                return Ok(stream::iter([Ok(WatchItem::Gap)]).boxed());
            };
            let (sender, receiver) = mpsc::channel(HISTORY_CHANGES_MAX);
            writer.watchers.push(sender);
            let all = stream::iter(missed).chain(receiver);
            Ok(all.map(|c| Ok(WatchItem::Changes(c))).boxed())
        }
        .boxed()
    }

    fn health(&self) -> BoxFuture<'_, Health> {
        async move {
            let problem = self.read_all(Scope::Kind(crate::Kind::Settings)).err();
            let problem = problem.map(|e| e.to_string());
            Health { kind: "embedded", problem, members: Vec::new(), listed: Vec::new() }
        }
        .boxed()
    }
}
