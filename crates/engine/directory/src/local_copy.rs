//! What every host keeps of the directory, to restart its disks while the directory is away.
//!
//! Promises    the copy is the directory as of one revision, and says how old it is
//! Assumes     the caller stores it by atomic replacement (`directory-etcd::files`): a torn copy never loads
//! Not here    intents and tasks: what must be true now is asked of the living directory

use std::collections::BTreeMap;

use cairn_types::{ClusterId, HostId};
use serde::{Deserialize, Serialize};

use crate::{DirectoryError, Entry, Followed, GoneHostEntry, Key, Listing, Registry, Revision, Stored, registry};

/// The layout of the stored copy.
const FORMAT: u32 = 1;

/// A copy of the directory as of one revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalCopy {
    format: u32,
    cluster: ClusterId,
    /// The directory's revision that this is a copy of; none while nothing was ever copied.
    revision: Option<Revision>,
    /// When the directory last confirmed that this is current, in ms since 1970.
    confirmed_unix_ms: u64,
    entries: BTreeMap<String, CopiedEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CopiedEntry {
    revision: Revision,
    value: serde_json::Value,
}

/// What was read, and how old it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aged<T> {
    /// It.
    pub value: T,
    /// Ms since the directory confirmed it; `None`: it was read from the directory just now.
    pub age_ms: Option<u64>,
}

impl LocalCopy {
    /// A copy of nothing.
    pub fn empty(cluster: ClusterId) -> Self {
        Self { format: FORMAT, cluster, revision: None, confirmed_unix_ms: 0, entries: BTreeMap::new() }
    }
    /// The copy as stored.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("maps with text keys become JSON")
    }
    /// Reads a stored copy of the directory of `cluster`.
    ///
    /// # Errors
    /// `Refused` when it is not one.
    pub fn from_json(json: &[u8], cluster: ClusterId) -> Result<Self, DirectoryError> {
        let refuse = |why: String| {
            DirectoryError::Refused(format!(
                "the local copy of the directory is not usable: {why}. Move it away: it is made anew once the \
                 directory answers"
            ))
        };
        let copy: Self = serde_json::from_slice(json).map_err(|e| refuse(e.to_string()))?;
        if copy.format != FORMAT {
            return Err(refuse(format!("it has format {}, this release reads {FORMAT}", copy.format)));
        }
        if copy.cluster != cluster {
            return Err(refuse(format!("it belongs to cluster {}, this host to {cluster}", copy.cluster)));
        }
        Ok(copy)
    }
    /// Which cluster it is of.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }
    /// What it is a copy of; none while nothing was ever copied.
    pub fn revision(&self) -> Option<Revision> {
        self.revision
    }
    /// How many entries it has.
    pub fn entries_count(&self) -> usize {
        self.entries.len()
    }
    /// Ms since the directory last confirmed it; none while nothing was ever copied. A wall clock that was set back
    /// makes it 0, never negative.
    pub fn age_ms(&self, now_unix_ms: u64) -> Option<u64> {
        self.revision?;
        Some(now_unix_ms.saturating_sub(self.confirmed_unix_ms))
    }
    /// Takes in what a follower told at `now_unix_ms`. True when entries changed: store the copy then.
    pub fn apply(&mut self, told: &Followed, now_unix_ms: u64) -> bool {
        let changed = match told {
            Followed::Away(_) => return false,
            Followed::Confirmed => false,
            Followed::Snapshot(listing) => self.reset(listing),
            Followed::Changes(changes) => {
                let mut changed = false;
                for change in &changes.changes {
                    changed |= self.enter(&change.key, change.now.as_ref());
                }
                self.revision = Some(changes.revision);
                changed
            }
        };
        self.confirmed_unix_ms = now_unix_ms;
        changed
    }
    fn reset(&mut self, listing: &Listing) -> bool {
        let before = std::mem::take(&mut self.entries);
        for (key, stored) in &listing.entries {
            self.enter(key, Some(stored));
        }
        let first = self.revision.replace(listing.revision).is_none();
        first || before != self.entries
    }
    /// Enters or removes one key; false when it is none to keep.
    fn enter(&mut self, key: &Key, now: Option<&Stored>) -> bool {
        if !key.kind().kept_locally() {
            return false;
        }
        // What is no JSON is of no use to anyone here; the directory's readers report it as damaged.
        let value =
            now.and_then(|s| Some(CopiedEntry { revision: s.revision, value: serde_json::from_slice(&s.value).ok()? }));
        match value {
            Some(entry) => self.entries.insert(key.path().to_owned(), entry),
            None => self.entries.remove(key.path()),
        };
        true
    }
    /// The host is not gone, as the directory says and this copy does not know yet.
    pub fn readmit(&mut self, host: HostId) {
        self.entries.remove(Key::of::<GoneHostEntry>(&host).path());
    }
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.entries.contains_key(key.path())
    }
    /// The entry `id`, if the copy has one that can be read.
    pub fn get<E: Entry>(&self, id: &E::Id) -> Option<E> {
        assert!(E::KIND.kept_locally(), "{} must be read from the directory", E::KIND.folder());
        let found = self.entries.get(Key::of::<E>(id).path())?;
        E::deserialize(&found.value).ok()
    }
    /// All entries of a type that can be read, in the order of their keys.
    pub fn list<E: Entry>(&self) -> Vec<(E::Id, E)> {
        assert!(E::KIND.kept_locally(), "{} must be read from the directory", E::KIND.folder());
        let prefix = format!("{}/", E::KIND.folder());
        self.entries
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter_map(|(path, found)| {
                let id = registry::id_of::<E>(&Key::parse(path).ok()?).ok()?;
                Some((id, E::deserialize(&found.value).ok()?))
            })
            .collect()
    }
    /// Reads `id` from `registry`, or from this copy while the directory is away.
    ///
    /// # Errors
    /// `Damaged`; `Unavailable` only where the copy was never filled.
    pub async fn get_through<E: Entry>(
        &self,
        registry: &Registry,
        id: &E::Id,
        now_unix_ms: u64,
    ) -> Result<Aged<Option<E>>, DirectoryError> {
        match registry.get::<E>(id).await {
            Ok(found) => Ok(Aged { value: found.map(|f| f.entry), age_ms: None }),
            Err(error) => self.fall_back(error, now_unix_ms, |copy| copy.get::<E>(id)),
        }
    }
    /// Lists from `registry`, or from this copy while the directory is away. Entries that cannot be read are left out.
    ///
    /// # Errors
    /// `Unavailable` only where the copy was never filled.
    pub async fn list_through<E: Entry>(
        &self,
        registry: &Registry,
        now_unix_ms: u64,
    ) -> Result<Aged<Vec<(E::Id, E)>>, DirectoryError> {
        match registry.list::<E>().await {
            Ok(listed) => Ok(Aged {
                value: listed.entries.into_iter().map(|(id, found)| (id, found.entry)).collect(),
                age_ms: None,
            }),
            Err(error) => self.fall_back(error, now_unix_ms, Self::list::<E>),
        }
    }
    fn fall_back<T>(
        &self,
        error: DirectoryError,
        now_unix_ms: u64,
        read: impl FnOnce(&Self) -> T,
    ) -> Result<Aged<T>, DirectoryError> {
        match self.age_ms(now_unix_ms) {
            Some(age) if error.is_unavailable() => Ok(Aged { value: read(self), age_ms: Some(age) }),
            _ => Err(error),
        }
    }
}
