//! Snapshots, as administrators ask for them.
//!
//! Promises    one of several disks is of one moment, or there is none: all are held before the first is cut, and stay so until they are
//!             what came of an attempt that failed is deleted again, as far as owners answer and this host lives
//! Not here    how a disk is held and cut (`object`)

use std::time::Duration;

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::CatalogueEntry;
use cairn_env::Env;
use cairn_owner::check_delete_snapshot;
use cairn_types::{Feature, ObjectId, Snapshot, SnapshotId};
use cairn_volume::VolumeError;
use cairn_wire::OwnerCommand;
use futures::future::join_all;

use crate::node::Node;

/// For so long guests of several disks wait at most.
const HELD_FOR: Duration = Duration::from_secs(2);

/// Extents of one answer: it ends with the part of the disk in which there are as many.
const EXTENTS_MAX: usize = 10_000;
/// Bytes of the disk that are looked at together: each copy reads a page or two of its map for them.
const LOOKED_AT_BYTES: u64 = 256 << 20;

/// Disks of which a snapshot is taken.
type Disks = [(ObjectId, CatalogueEntry)];

impl<E: Env> Node<E> {
    pub(crate) async fn snapshot_list(&self, disk: String) -> ApiResult<Vec<v1::Snapshot>> {
        let (object, entry) = self.known_disk(&disk).await?;
        let config = self.config_of(object, &entry).await?;
        let name = entry.name.as_str();
        let mut clones = self.clones_known(object);
        let one = |snapshot: &Snapshot| v1::Snapshot {
            clones: clones.remove(&snapshot.id).unwrap_or_default(),
            ..shown(name, snapshot)
        };
        Ok(config.past.iter().flat_map(|past| &past.snapshots).map(one).collect())
    }

    pub(crate) async fn snapshot_create(&self, request: v1::SnapshotCreate) -> ApiResult<Vec<v1::Snapshot>> {
        request.validate()?;
        self.check_is_on(Feature::Snapshots, "a snapshot")?;
        let mut disks: Vec<(ObjectId, CatalogueEntry)> = Vec::new();
        for disk in &request.disks {
            let (object, entry) = self.known_disk(disk).await?;
            if disks.iter().any(|(known, _)| *known == object) {
                return Err(ApiError::invalid(format!("disk {} is named twice", entry.name.as_str())));
            }
            disks.push((object, entry));
        }
        let env = &self.inner.env;
        let (id, now) = (SnapshotId(env.random_u64()), env.unix_ms());
        let held = (disks.len() > 1).then(|| env.random_u64());
        let done = match held {
            Some(number) => self.hold(&disks, number).await,
            None => Ok(()),
        };
        let done = match done {
            Ok(()) => {
                self.take(
                    &disks,
                    OwnerCommand::TakeSnapshot {
                        id,
                        name: request.name.clone(),
                        created_unix_ms: now,
                        held,
                        // What came of an attempt that fails is deleted again: locks follow when all have it.
                        locked_for_ms: 0,
                        slot_unix_s: None,
                    },
                )
                .await
            }
            held => held,
        };
        if let Err(error) = done {
            if let Some(number) = held {
                self.everywhere(&disks, &OwnerCommand::Hold { number, for_ms: 0 }).await;
            }
            // It may be there where no answer came.
            self.everywhere(&disks, &OwnerCommand::DeleteSnapshot { id }).await;
            return Err(error);
        }
        if request.locked_for_s > 0 {
            self.lock(&disks, (id, &request.name), request.locked_for_s).await?;
        }
        let mut all = Vec::with_capacity(disks.len());
        for (object, entry) in &disks {
            let config = self.config_of(*object, entry).await?;
            let snapshot = config.past.as_ref().and_then(|past| past.snapshot(id));
            all.extend(snapshot.map(|snapshot| shown(entry.name.as_str(), snapshot)));
        }
        Ok(all)
    }

    /// Locks what was just taken.
    async fn lock(&self, disks: &Disks, (id, name): (SnapshotId, &str), for_s: u64) -> ApiResult<()> {
        let command = OwnerCommand::LockSnapshot { id, for_ms: for_s * 1000 };
        for ((_, entry), answer) in disks.iter().zip(self.everywhere(disks, &command).await) {
            answer.map_err(|error| {
                let disk = entry.name.as_str();
                let text = format!("the snapshot was taken, and is not locked at disk {disk}: {}", error.message);
                let again = format!("Lock it with `cairn snapshot lock {disk}@{name}`");
                ApiError { message: text, ..error }.remedy(again)
            })?;
        }
        Ok(())
    }

    pub(crate) async fn snapshot_lock(&self, snapshot: String, request: v1::SnapshotLock) -> ApiResult<v1::Snapshot> {
        request.validate()?;
        let (object, entry, found) = self.known_snapshot(&snapshot).await?;
        let command = OwnerCommand::LockSnapshot { id: found.id, for_ms: request.for_s * 1000 };
        let status = self.to_owner(object, &entry.hint_hosts, command).await?;
        let locked = status.config.past.as_ref().and_then(|past| past.snapshot(found.id));
        let locked = locked.ok_or_else(|| ApiError::conflict(format!("snapshot {snapshot} was deleted meanwhile")))?;
        Ok(shown(entry.name.as_str(), locked))
    }

    pub(crate) async fn snapshot_delete(&self, snapshot: String) -> ApiResult<()> {
        let (object, entry, found) = self.known_snapshot(&snapshot).await?;
        self.delete_known(object, &entry, &found).await
    }

    /// Deletes a snapshot that a disk has, or had a moment ago.
    ///
    /// # Errors
    /// It is locked; it has clones, which is a conflict; the owner or the directory is away.
    pub(crate) async fn delete_known(
        &self,
        object: ObjectId,
        entry: &CatalogueEntry,
        found: &Snapshot,
    ) -> ApiResult<()> {
        // An unpinning that came late may have met a clone: as the catalogue has it counts as well.
        let closed = match found.pinned || self.clones_known(object).contains_key(&found.id) {
            true => {
                // Its owner judges that too, once it has no pin any more.
                let now = self.knows_the_day().then(|| self.day_unix_ms());
                check_delete_snapshot(found, now).map_err(|why| ApiError::refused(why.to_string()))?;
                Some(self.unpin(object, entry, (Some(found.id), &[found.id])).await?)
            }
            false => None,
        };
        let deleted = self.to_owner(object, &entry.hint_hosts, OwnerCommand::DeleteSnapshot { id: found.id }).await;
        if let Some(closed) = closed {
            self.open_to_clones(object, closed).await;
        }
        deleted.map(drop)
    }

    pub(crate) async fn snapshot_rollback(
        &self,
        snapshot: String,
        how: v1::SnapshotRollback,
    ) -> ApiResult<v1::Rollback> {
        let (object, entry, found) = self.known_snapshot(&snapshot).await?;
        let disk = entry.name.as_str().to_owned();
        if !how.force {
            v1::check_not_in_use(&disk, &self.sessions(Some(object)).await.sessions)?;
        }
        // On the way to a snapshot the disk is of two moments: that is worth no other one.
        let goes_back = self.config_of(object, &entry).await?.past.is_some_and(|past| past.goes_back_to.is_some());
        let kept = match how.discard || goes_back {
            true => None,
            false => {
                let now = self.inner.env.unix_ms();
                let name = format!("before-rollback-{}", now / 1000);
                let id = SnapshotId(self.inner.env.random_u64());
                let take = OwnerCommand::TakeSnapshot {
                    id,
                    name: name.clone(),
                    created_unix_ms: now,
                    held: None,
                    locked_for_ms: 0,
                    slot_unix_s: None,
                };
                self.to_owner(object, &entry.hint_hosts, take).await.map_err(|error| {
                    let text = format!("what the disk has now cannot be kept: {}", error.message);
                    ApiError { message: text, ..error }
                })?;
                Some(name)
            }
        };
        let roll_back = OwnerCommand::RollBack { id: found.id, number: self.inner.env.random_u64().max(1) };
        self.to_owner(object, &entry.hint_hosts, roll_back).await?;
        Ok(v1::Rollback { disk, to: found.name, kept })
    }

    pub(crate) async fn known_snapshot(&self, snapshot: &str) -> ApiResult<(ObjectId, CatalogueEntry, Snapshot)> {
        let (disk, name) = v1::split_snapshot(snapshot)?;
        let (object, entry) = self.known_disk(disk).await?;
        let config = self.config_of(object, &entry).await?;
        let found = config.past.as_ref().and_then(|past| past.named(name)).cloned();
        let found = found.ok_or_else(|| {
            ApiError::not_found(format!("disk {disk} has no snapshot {name:?}"))
                .remedy(format!("See `cairn snapshot list {disk}`"))
        })?;
        Ok((object, entry, found))
    }

    pub(crate) async fn disk_changes(&self, disk: String, between: v1::ChangesBetween) -> ApiResult<v1::Changes> {
        let (_, entry, to) = self.known_snapshot(&format!("{disk}@{}", between.to)).await?;
        let from = match &between.from {
            None => None,
            Some(from) => Some(self.known_snapshot(&format!("{disk}@{from}")).await?.2),
        };
        if from.as_ref().is_some_and(|from| from.cut >= to.cut) {
            let text = format!("snapshot {} is not older than {}", between.from.unwrap_or_default(), between.to);
            return Err(ApiError::invalid(text).remedy(format!("See `cairn snapshot list {disk}`")));
        }
        if between.offset_bytes >= to.size_bytes {
            let text =
                format!("offset {} is not within the {} bytes of the snapshot", between.offset_bytes, to.size_bytes);
            return Err(ApiError::invalid(text).remedy("Begin at 0, and go on where an answer said"));
        }
        let (first, later) = from.as_ref().map_or((&to, None), |from| (from, Some(to.id)));
        let reader = self.open_snapshot(&disk, &first.name).await;
        let reader = reader.map_err(unreadable)?.ok_or_else(|| ApiError::conflict("the snapshot went meanwhile"))?;
        let mut told = v1::Changes {
            disk: entry.name.as_str().to_owned(),
            size_bytes: to.size_bytes,
            extents: Vec::new(),
            next_offset_bytes: Some(between.offset_bytes),
        };
        while let Some(at) = told.next_offset_bytes.filter(|_| told.extents.len() < EXTENTS_MAX) {
            let end = (at + LOOKED_AT_BYTES).min(to.size_bytes);
            let len = end.saturating_sub(at);
            let found = reader.changed(later, at, len).await.map_err(unreadable)?;
            let extent = |(offset_bytes, len_bytes)| v1::ByteExtent { offset_bytes, len_bytes };
            told.extents.extend(found.into_iter().map(extent));
            told.next_offset_bytes = Some(end).filter(|end| *end < to.size_bytes);
        }
        Ok(told)
    }

    /// Holds all of them.
    async fn hold(&self, disks: &Disks, number: u64) -> ApiResult<()> {
        let for_ms = HELD_FOR.as_millis() as u32;
        self.take(disks, OwnerCommand::Hold { number, for_ms }).await
    }

    /// Has all owners do something; the first that does not is told of.
    async fn take(&self, disks: &Disks, command: OwnerCommand) -> ApiResult<()> {
        let several = disks.len() > 1;
        for ((_, entry), answer) in disks.iter().zip(self.everywhere(disks, &command).await) {
            answer.map_err(|error| {
                let text = format!("disk {}: {}", entry.name.as_str(), error.message);
                let text = if several { format!("no snapshot was taken: {text}") } else { text };
                ApiError { message: text, ..error }
            })?;
        }
        Ok(())
    }

    async fn everywhere(&self, disks: &Disks, command: &OwnerCommand) -> Vec<ApiResult<()>> {
        let asked = disks.iter().map(|(object, entry)| async move {
            self.to_owner(*object, &entry.hint_hosts, command.clone()).await.map(drop)
        });
        join_all(asked).await
    }
}

fn unreadable(error: VolumeError) -> ApiError {
    ApiError::unavailable(format!("the snapshot cannot be read now: {error}"))
}

fn shown(disk: &str, snapshot: &Snapshot) -> v1::Snapshot {
    v1::Snapshot {
        disk: disk.to_owned(),
        name: snapshot.name.clone(),
        id: format!("{:016x}", snapshot.id.0),
        created_unix_ms: snapshot.created_unix_ms,
        size_bytes: snapshot.size_bytes,
        clones: Vec::new(),
        locked_until_unix_ms: Some(snapshot.locked_until_unix_ms).filter(|until| *until > 0),
        schedule: snapshot.schedule().map(str::to_owned),
    }
}
