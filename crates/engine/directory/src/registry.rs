//! Typed entries over a directory: read, list, change one at a time.
//!
//! Promises    an entry is checked before it is written; one that cannot be read hides no other
//! Not here    changes of several entries at once (`catalogue`)

use std::sync::Arc;

use crate::{Directory, DirectoryError, Entry, Health, Key, Revision, Scope, Stored, Txn, Watch};

/// Times that [`Registry::update`] reads again after a conflict. Writers of one entry are a few hosts; each round one
/// of them wins, so 32 rounds fail only where something writes without end.
const UPDATE_ROUNDS_MAX: u32 = 32;

/// An entry and its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<E> {
    /// The transaction that wrote it.
    pub revision: Revision,
    /// The entry.
    pub entry: E,
}

/// Entries of one type as of one revision.
#[derive(Debug, Clone)]
pub struct Listed<E: Entry> {
    /// The directory's revision at that moment.
    pub revision: Revision,
    /// The entries, in the order of their keys.
    pub entries: Vec<(E::Id, Versioned<E>)>,
    /// Entries that cannot be read, and why.
    pub damaged: Vec<DirectoryError>,
}

/// A directory with types. Cheap to clone; all clones are the same directory.
#[derive(Clone)]
pub struct Registry {
    directory: Arc<dyn Directory>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registry")
    }
}

/// The JSON of `entry`, checked.
pub(crate) fn encode<E: Entry>(entry: &E) -> Result<Vec<u8>, DirectoryError> {
    entry.validate().map_err(DirectoryError::Refused)?;
    serde_json::to_vec(entry)
        .map_err(|e| DirectoryError::Refused(format!("{} cannot be written: {e}", E::KIND.folder())))
}

/// The entry that was stored at `key`.
pub(crate) fn decode<E: Entry>(key: &Key, stored: &Stored) -> Result<Versioned<E>, DirectoryError> {
    let entry = serde_json::from_slice(&stored.value)
        .map_err(|e| DirectoryError::Damaged { key: key.clone(), cause: e.to_string() })?;
    Ok(Versioned { revision: stored.revision, entry })
}

/// The id in `key`.
pub(crate) fn id_of<E: Entry>(key: &Key) -> Result<E::Id, DirectoryError> {
    key.name()
        .parse()
        .map_err(|_| DirectoryError::Damaged { key: key.clone(), cause: "its name is not an id of this kind".into() })
}

impl Registry {
    /// Types over `directory`.
    pub fn new(directory: Arc<dyn Directory>) -> Self {
        Self { directory }
    }
    /// The directory below.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }
    /// The entry `id`, if there is one.
    ///
    /// # Errors
    /// `Unavailable`, `Damaged`.
    pub async fn get<E: Entry>(&self, id: &E::Id) -> Result<Option<Versioned<E>>, DirectoryError> {
        let key = Key::of::<E>(id);
        let stored = self.directory.get(&key).await?;
        stored.map(|s| decode(&key, &s)).transpose()
    }
    /// All entries of a type.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn list<E: Entry>(&self) -> Result<Listed<E>, DirectoryError> {
        let listing = self.directory.list(Scope::Kind(E::KIND)).await?;
        let mut listed = Listed {
            revision: listing.revision,
            entries: Vec::with_capacity(listing.entries.len()),
            damaged: Vec::new(),
        };
        for (key, stored) in &listing.entries {
            match id_of::<E>(key).and_then(|id| Ok((id, decode::<E>(key, stored)?))) {
                Ok(entry) => listed.entries.push(entry),
                Err(error) => listed.damaged.push(error),
            }
        }
        Ok(listed)
    }
    /// Enters `entry` where nothing may be.
    ///
    /// # Errors
    /// `Conflict` when something is there; `Refused` when its bounds refuse it; `Unavailable`.
    pub async fn create<E: Entry>(&self, id: &E::Id, entry: &E) -> Result<Revision, DirectoryError> {
        self.commit(Txn::new().create(Key::of::<E>(id), encode(entry)?)).await
    }
    /// Replaces what must still be of revision `expected`.
    ///
    /// # Errors
    /// `Conflict` when it is not; `Refused` when its bounds refuse it; `Unavailable`.
    pub async fn replace<E: Entry>(
        &self,
        id: &E::Id,
        expected: Revision,
        entry: &E,
    ) -> Result<Revision, DirectoryError> {
        self.commit(Txn::new().replace(Key::of::<E>(id), expected, encode(entry)?)).await
    }
    /// Removes what must still be of revision `expected`.
    ///
    /// # Errors
    /// `Conflict` when it is not; `Unavailable`.
    pub async fn delete<E: Entry>(&self, id: &E::Id, expected: Revision) -> Result<Revision, DirectoryError> {
        self.commit(Txn::new().delete(Key::of::<E>(id), expected)).await
    }
    /// Reads `id`, changes it, writes it back; again when someone else was first. Returns what is there now.
    ///
    /// `change` gets `None` where there is no entry, and answers `None` to leave things as they are.
    ///
    /// # Errors
    /// Those of `change`; `Refused`, `Unavailable`, `Damaged`.
    pub async fn update<E: Entry>(
        &self,
        id: &E::Id,
        mut change: impl FnMut(Option<&E>) -> Result<Option<E>, DirectoryError> + Send,
    ) -> Result<Option<E>, DirectoryError> {
        let key = Key::of::<E>(id);
        for _ in 0..UPDATE_ROUNDS_MAX {
            let found = self.get::<E>(id).await?;
            let Some(next) = change(found.as_ref().map(|f| &f.entry))? else {
                return Ok(found.map(|f| f.entry));
            };
            let value = encode(&next)?;
            let txn = match &found {
                Some(found) => Txn::new().replace(key.clone(), found.revision, value),
                None => Txn::new().create(key.clone(), value),
            };
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { .. }) => {}
                other => return other.map(|_| Some(next)),
            }
        }
        Err(DirectoryError::Refused(format!(
            "{key} changes too fast to be updated: {UPDATE_ROUNDS_MAX} tries, each time someone else was first"
        )))
    }
    /// Removes `id` whatever it is; false when it was not there.
    ///
    /// # Errors
    /// `Unavailable`; `Conflict` after many rounds.
    pub async fn remove<E: Entry>(&self, id: &E::Id) -> Result<bool, DirectoryError> {
        let key = Key::of::<E>(id);
        let mut last = None;
        for _ in 0..UPDATE_ROUNDS_MAX {
            let Some(found) = self.directory.get(&key).await? else {
                return Ok(false);
            };
            match self.commit(Txn::new().delete(key.clone(), found.revision)).await {
                Err(conflict @ DirectoryError::Conflict { .. }) => last = Some(conflict),
                other => return other.map(|_| true),
            }
        }
        Err(last.expect("a round that does not return leaves a conflict"))
    }
    /// [`Directory::commit`], its limits checked first.
    ///
    /// # Errors
    /// As there.
    pub async fn commit(&self, txn: Txn) -> Result<Revision, DirectoryError> {
        txn.validate()?;
        self.directory.commit(txn).await
    }
    /// [`Directory::watch`].
    ///
    /// # Errors
    /// As there.
    pub async fn watch(&self, after: Revision) -> Result<Watch, DirectoryError> {
        self.directory.watch(after).await
    }
    /// [`Directory::health`].
    pub async fn health(&self) -> Health {
        self.directory.health().await
    }
}
