//! Changes of several entries at once: the settings of a new cluster, disks from intent to tombstone.
//!
//! Promises    C1  a name belongs to one disk at a time; a taken one is refused in words
//!             C2  while a disk is being created its intent stands: it goes only together with `ready` or with the entry
//!             C3  a tombstone goes only when every component ever listed has confirmed its removal
//! Assumes     the caller carries out the order of the design: begin (intent, name) -> components made nascent -> first
//!             Seize makes csn 1 -> finish; delete is accepted in the record by a majority *before* it is noted here
//! Not here    the record; placement; what components do

use cairn_types::{HostId, Level, ObjectConfig, ObjectId, Policy};

use crate::{
    CatalogueEntry, ClusterSettings, ComponentPlace, CreateIntent, DirectoryError, DiskState, Entry, Key, LevelEntry,
    Name, NameEntry, Registry, Revision, TaskEntry, TheCluster, Txn, registry::encode,
};

/// A disk to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDisk {
    /// Its id, drawn by the caller.
    pub object: ObjectId,
    /// Its name.
    pub name: Name,
    /// Bytes of its address space.
    pub size_bytes: u64,
    /// The name of its policy.
    pub policy_name: Name,
    /// The host that should own it.
    pub preferred_owner: Option<HostId>,
    /// Its components, as placed.
    pub components: Vec<ComponentPlace>,
    /// The host that creates it.
    pub by: HostId,
    /// Now, in ms since 1970.
    pub now_unix_ms: u64,
    /// How long the creation may take before another host may finish or undo it.
    pub lasts_ms: u64,
}

/// What became of an object that the catalogue was told from its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopted {
    /// The catalogue knew it.
    Known,
    /// It is entered now, by this name (its own, or one with a suffix where another disk has its own).
    Entered(Name),
}

pub(crate) fn refused<T>(text: String) -> Result<T, DirectoryError> {
    Err(DirectoryError::Refused(text))
}

/// Tries of a verb that reads, decides and commits, before it gives up on others who are always first.
pub(crate) const ROUNDS_MAX: u32 = 32;

pub(crate) fn too_fast<T>(what: &str) -> Result<T, DirectoryError> {
    refused(format!("{what} changes too fast: {ROUNDS_MAX} tries, each time someone else was first"))
}

fn hosts_of(components: &[ComponentPlace]) -> Vec<HostId> {
    let mut hosts: Vec<HostId> = components.iter().map(|c| c.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

impl Registry {
    /// Enters the settings of a new cluster, its default policy and its level: that of the build which makes it.
    ///
    /// # Errors
    /// `Refused` when the directory has settings already; `Unavailable`.
    pub async fn init_cluster(
        &self,
        settings: &ClusterSettings,
        default_policy: &Policy,
        level: Level,
    ) -> Result<Revision, DirectoryError> {
        let mut txn = Txn::new()
            .create(Key::of::<ClusterSettings>(&TheCluster), encode(settings)?)
            .create(Key::of::<Policy>(&settings.default_policy), encode(default_policy)?);
        if level > Level::FIRST {
            txn = txn.create(Key::of::<LevelEntry>(&TheCluster), encode(&LevelEntry { level })?);
        }
        match self.commit(txn).await {
            Err(DirectoryError::Conflict { .. }) => {
                refused(format!("cluster {} is initialised already: join it instead", settings.cluster))
            }
            other => other,
        }
    }

    /// The settings of the cluster.
    ///
    /// # Errors
    /// `Refused` when there are none yet; `Unavailable`, `Damaged`.
    pub async fn settings(&self) -> Result<ClusterSettings, DirectoryError> {
        match self.get::<ClusterSettings>(&TheCluster).await? {
            Some(found) => Ok(found.entry),
            None => refused("the cluster is not initialised: run `cairn cluster init` once".into()),
        }
    }

    /// Enters the intent to create a disk, and its name and catalogue entry as `creating`, in one transaction.
    ///
    /// # Errors
    /// `Refused` when the name is taken or the policy is not there; `Unavailable` (when `outcome_unknown`, call it
    /// again with the same id: what was entered is recognised).
    pub async fn begin_create(&self, disk: &NewDisk) -> Result<(), DirectoryError> {
        let entry = CatalogueEntry {
            name: disk.name.clone(),
            size_bytes: disk.size_bytes,
            policy_name: disk.policy_name.clone(),
            hint_hosts: hosts_of(&disk.components),
            preferred_owner: disk.preferred_owner,
            state: DiskState::Creating,
        };
        let intent = CreateIntent {
            name: disk.name.clone(),
            components: disk.components.clone(),
            by: disk.by,
            created_unix_ms: disk.now_unix_ms,
            lasts_ms: disk.lasts_ms,
        };
        let name_key = Key::of::<NameEntry>(&disk.name);
        for _ in 0..ROUNDS_MAX {
            let Some(policy) = self.get::<Policy>(&disk.policy_name).await? else {
                return refused(format!("there is no policy {:?}: see `cairn policy list`", disk.policy_name));
            };
            let txn = Txn::new()
                .create(name_key.clone(), encode(&NameEntry { object: disk.object })?)
                .create(Key::of::<CatalogueEntry>(&disk.object), encode(&entry)?)
                .create(Key::of::<CreateIntent>(&disk.object), encode(&intent)?)
                .check(Key::of::<Policy>(&disk.policy_name), Some(policy.revision));
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { key, .. }) if key == name_key => {
                    // An earlier try of ours whose answer was lost has done it.
                    let named = self.get::<NameEntry>(&disk.name).await?;
                    if named.is_some_and(|n| n.entry.object == disk.object) {
                        return Ok(());
                    }
                    return refused(format!(
                        "a disk named {:?} exists already: choose another name, or delete it first",
                        disk.name
                    ));
                }
                // The policy changed meanwhile: look at it again.
                Err(DirectoryError::Conflict { key, .. }) if key.kind() == <Policy as Entry>::KIND => {}
                other => return other.map(|_| ()),
            }
        }
        too_fast(&format!("policy {}", disk.policy_name))
    }

    /// Ends a creation well: the disk is `ready`, its intent is gone. Once more is no error.
    ///
    /// # Errors
    /// `Refused` when the creation was undone meanwhile; `Unavailable`, `Damaged`.
    pub async fn finish_create(&self, object: ObjectId) -> Result<(), DirectoryError> {
        for _ in 0..ROUNDS_MAX {
            let Some(found) = self.get::<CatalogueEntry>(&object).await? else {
                return refused(format!(
                    "the creation of disk {object} was undone: it took longer than its intent allows. Create it again"
                ));
            };
            let intent = self.get::<CreateIntent>(&object).await?;
            let mut entry = found.entry;
            let mut txn = Txn::new();
            match entry.state {
                DiskState::Creating => entry.state = DiskState::Ready,
                DiskState::Ready if intent.is_none() => return Ok(()),
                DiskState::Ready => {}
                DiskState::Deleting | DiskState::Deleted { .. } => {
                    return refused(format!("disk {:?} is deleted", entry.name));
                }
            }
            txn = txn.replace(Key::of::<CatalogueEntry>(&object), found.revision, encode(&entry)?);
            if let Some(intent) = intent {
                txn = txn.delete(Key::of::<CreateIntent>(&object), intent.revision);
            }
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { .. }) => {}
                other => return other.map(|_| ()),
            }
        }
        too_fast(&format!("disk {object}"))
    }

    /// Undoes a creation: name, entry and intent go together. Once more is no error.
    ///
    /// Call it only when no seat of the object has csn >= 1, or a live disk would lose its name (its bytes are safe:
    /// components go only by their record).
    ///
    /// # Errors
    /// `Refused` when the disk is ready; `Unavailable`, `Damaged`.
    pub async fn abandon_create(&self, object: ObjectId) -> Result<(), DirectoryError> {
        for _ in 0..ROUNDS_MAX {
            let mut txn = Txn::new();
            if let Some(found) = self.get::<CatalogueEntry>(&object).await? {
                if found.entry.state != DiskState::Creating {
                    return refused(format!(
                        "disk {:?} is no longer being created: delete it instead",
                        found.entry.name
                    ));
                }
                txn = self.without_name(txn, object, &found.entry.name).await?;
                txn = txn.delete(Key::of::<CatalogueEntry>(&object), found.revision);
            }
            if let Some(intent) = self.get::<CreateIntent>(&object).await? {
                txn = txn.delete(Key::of::<CreateIntent>(&object), intent.revision);
            }
            if txn.ops.is_empty() {
                return Ok(());
            }
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { .. }) => {}
                other => return other.map(|_| ()),
            }
        }
        too_fast(&format!("disk {object}"))
    }

    /// Adds to `txn` that `name` goes, where it is this object's.
    async fn without_name(&self, txn: Txn, object: ObjectId, name: &Name) -> Result<Txn, DirectoryError> {
        Ok(match self.get::<NameEntry>(name).await? {
            Some(named) if named.entry.object == object => txn.delete(Key::of::<NameEntry>(name), named.revision),
            _ => txn,
        })
    }

    /// Notes that a disk is to be deleted, before anything of it is: a directory that takes no changes refuses here, and whatever
    /// dies afterwards is gone on with. Once more is no error.
    ///
    /// # Errors
    /// `Refused` when the catalogue has no such disk, or it is being made; `Unavailable`, `Damaged`.
    pub async fn begin_delete(&self, object: ObjectId) -> Result<(), DirectoryError> {
        let begun = self.update::<CatalogueEntry>(&object, |found| match found {
            None => refused(format!("the catalogue has no disk {object}")),
            Some(entry) => match entry.state {
                DiskState::Ready => Ok(Some(CatalogueEntry { state: DiskState::Deleting, ..entry.clone() })),
                DiskState::Creating => refused(format!("disk {:?} is being made", entry.name)),
                DiskState::Deleting | DiskState::Deleted { .. } => Ok(None),
            },
        });
        begun.await.map(drop)
    }

    /// Notes that a disk is to stay after all: its owner does not delete it. One that is not being deleted is left as it is.
    ///
    /// # Errors
    /// `Unavailable`, `Damaged`.
    pub async fn call_off_delete(&self, object: ObjectId) -> Result<(), DirectoryError> {
        let called_off = self.update::<CatalogueEntry>(&object, |found| {
            let begun = found.filter(|entry| entry.state == DiskState::Deleting);
            Ok(begun.map(|entry| CatalogueEntry { state: DiskState::Ready, ..entry.clone() }))
        });
        called_off.await.map(drop)
    }

    /// Notes that the record says deleted: the name is free, a tombstone waits for every component of `components`
    /// (all that were ever listed). Once more adds components that were not listed the first time.
    ///
    /// # Errors
    /// `Refused` when the catalogue does not know the object; `Unavailable`, `Damaged`.
    pub async fn mark_deleted(&self, object: ObjectId, components: &[ComponentPlace]) -> Result<(), DirectoryError> {
        for _ in 0..ROUNDS_MAX {
            let Some(found) = self.get::<CatalogueEntry>(&object).await? else {
                return refused(format!("the catalogue has no disk {object}"));
            };
            let mut entry = found.entry;
            let mut txn = self.without_name(Txn::new(), object, &entry.name).await?;
            if let Some(intent) = self.get::<CreateIntent>(&object).await? {
                txn = txn.delete(Key::of::<CreateIntent>(&object), intent.revision);
            }
            let mut unconfirmed = match entry.state {
                DiskState::Deleted { unconfirmed } => unconfirmed,
                _ => Vec::new(),
            };
            unconfirmed.extend_from_slice(components);
            unconfirmed.sort_unstable();
            unconfirmed.dedup();
            entry.state = DiskState::Deleted { unconfirmed };
            txn = txn.replace(Key::of::<CatalogueEntry>(&object), found.revision, encode(&entry)?);
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { .. }) => {}
                other => return other.map(|_| ()),
            }
        }
        too_fast(&format!("disk {object}"))
    }

    /// Notes that these components of a deleted disk are removed; the tombstone goes with the last. True when it is gone.
    ///
    /// # Errors
    /// `Refused` when the disk is not deleted; `Unavailable`, `Damaged`.
    pub async fn confirm_removed(&self, object: ObjectId, removed: &[ComponentPlace]) -> Result<bool, DirectoryError> {
        for _ in 0..ROUNDS_MAX {
            let Some(found) = self.get::<CatalogueEntry>(&object).await? else {
                return Ok(true);
            };
            let mut entry = found.entry;
            let DiskState::Deleted { unconfirmed } = &mut entry.state else {
                return refused(format!("disk {:?} is not deleted: its components stay", entry.name));
            };
            unconfirmed.retain(|c| !removed.iter().any(|r| r.component == c.component));
            let gone = unconfirmed.is_empty();
            let key = Key::of::<CatalogueEntry>(&object);
            let txn = if gone {
                Txn::new().delete(key, found.revision)
            } else {
                Txn::new().replace(key, found.revision, encode(&entry)?)
            };
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { .. }) => {}
                other => return other.map(|_| gone),
            }
        }
        too_fast(&format!("disk {object}"))
    }

    /// The object that has the name `name`, and what the catalogue knows of it.
    ///
    /// # Errors
    /// `Refused` when there is none; `Unavailable`, `Damaged`.
    pub async fn find_disk(&self, name: &Name) -> Result<(ObjectId, CatalogueEntry), DirectoryError> {
        if let Some(named) = self.get::<NameEntry>(name).await? {
            let object = named.entry.object;
            if let Some(found) = self.get::<CatalogueEntry>(&object).await? {
                return Ok((object, found.entry));
            }
        }
        refused(format!("there is no disk {name:?}: see `cairn disk list`"))
    }

    /// Enters an object that its record tells of and the catalogue lost: how a directory is rebuilt.
    ///
    /// # Errors
    /// `Refused` when neither its name nor its policy's is a valid one; `Unavailable`, `Damaged`.
    pub async fn adopt(&self, config: &ObjectConfig) -> Result<Adopted, DirectoryError> {
        let object = config.object;
        let own = Name::new(config.name.clone())
            .or_else(|_| Name::new(format!("recovered-{object}")))
            .map_err(|e| DirectoryError::Refused(e.to_string()))?;
        let policy_name = Name::new(config.policy_name.clone())
            .or_else(|_| Name::new("recovered"))
            .map_err(|e| DirectoryError::Refused(e.to_string()))?;
        let components: Vec<ComponentPlace> = config
            .members
            .iter()
            .map(|m| ComponentPlace { component: m.component, host: m.host, disk_group: m.disk_group })
            .collect();
        for _ in 0..ROUNDS_MAX {
            if self.get::<CatalogueEntry>(&object).await?.is_some() {
                return Ok(Adopted::Known);
            }
            let taken = self.get::<NameEntry>(&own).await?.is_some();
            let name = if taken { with_suffix(&own, object) } else { own.clone() };
            let mut entry = CatalogueEntry {
                name: name.clone(),
                size_bytes: config.size_bytes,
                policy_name: policy_name.clone(),
                hint_hosts: hosts_of(&components),
                preferred_owner: None,
                state: DiskState::Ready,
            };
            let mut txn = Txn::new();
            if config.deleted {
                entry.state = DiskState::Deleted { unconfirmed: components.clone() };
            } else {
                txn = txn.create(Key::of::<NameEntry>(&name), encode(&NameEntry { object })?);
            }
            txn = txn.create(Key::of::<CatalogueEntry>(&object), encode(&entry)?);
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { .. }) => {}
                other => return other.map(|_| Adopted::Entered(name)),
            }
        }
        too_fast(&format!("disk {object}"))
    }

    /// Removes the oldest tasks that have ended, beyond the newest `keep` of them; returns how many went.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn prune_tasks(&self, keep: usize) -> Result<usize, DirectoryError> {
        let mut ended: Vec<_> = self
            .list::<TaskEntry>()
            .await?
            .entries
            .into_iter()
            .filter_map(|(id, task)| Some((task.entry.ended_unix_ms?, id)))
            .collect();
        ended.sort_unstable();
        let excess = ended.len().saturating_sub(keep);
        for (_, id) in &ended[..excess] {
            self.remove::<TaskEntry>(id).await?;
        }
        Ok(excess)
    }
}

/// `name`, told apart by the object's first digits.
fn with_suffix(name: &Name, object: ObjectId) -> Name {
    let id = object.to_string();
    let head = &name.as_str()[..name.as_str().len().min(crate::names::NAME_LENGTH_MAX - 9)];
    Name::new(format!("{head}-{}", &id[..8])).expect("a name, a dash and digits are a name")
}
