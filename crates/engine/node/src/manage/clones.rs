//! Clones of snapshots, as administrators ask for them, and the end of snapshots that have or had any.
//!
//! Promises    C1  a clone is in the catalogue before its parent's snapshot is pinned, and that before it can be used
//!             C2  who deletes a pinned snapshot closes it in the catalogue, sees then that it has no clones, and only then unpins it
//! Not here    what a clone reads of its parents (`object`), the catalogue's half (`directory`)

use std::collections::BTreeMap;

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::{CatalogueEntry, Closed, DiskState};
use cairn_env::Env;
use cairn_types::{
    Ancestry, Canary, FaultToleranceMethod, Feature, HostId, ObjectConfig, ObjectId, PARENTS_MAX, Parent, Policy,
    SnapshotId,
};
use cairn_wire::OwnerCommand;

use crate::{
    manage::{directory_error, some_of},
    node::Node,
};

/// Where a new disk comes from.
pub(crate) struct Origin {
    pub(crate) ancestry: Ancestry,
    /// Those who were about to delete the snapshot, and are no more.
    pub(crate) over: Vec<Closed>,
    /// Hosts of the parent.
    hints: Vec<HostId>,
}

/// Of rows nobody could tell whether a block that cannot be read is a parent's.
pub(crate) fn check_takes_clones(name: &str, policy: &Policy) -> ApiResult<()> {
    match policy.ftm {
        FaultToleranceMethod::Mirror => Ok(()),
        FaultToleranceMethod::ErasureCoding { .. } => {
            Err(ApiError::refused(format!("policy {name:?} has erasure coding, and a clone has copies"))
                .remedy("Choose a policy of mirrors; flatten the clone and give it the other policy afterwards"))
        }
    }
}

impl<E: Env> Node<E> {
    pub(crate) async fn disk_clone(&self, snapshot: String, request: v1::DiskClone) -> ApiResult<v1::Disk> {
        request.validate()?;
        self.check_is_on(Feature::Clones, "a clone")?;
        let (object, entry, found) = self.known_snapshot(&snapshot).await?;
        let config = self.config_of(object, &entry).await?;
        let parent = Parent { object, snapshot: found.id, size_bytes: found.size_bytes };
        let parents: Vec<Parent> = std::iter::once(parent).chain(config.parents().iter().copied()).collect();
        if parents.len() > PARENTS_MAX {
            let text = format!(
                "disk {} is a clone of a clone, {} deep: no clone is made of it",
                entry.name,
                parents.len() - 1
            );
            return Err(
                ApiError::refused(text).remedy(format!("Flatten it first: `cairn disk flatten {}`", entry.name))
            );
        }
        let create = v1::DiskCreate {
            name: request.name,
            size_bytes: request.size_bytes.unwrap_or(found.size_bytes),
            policy: Some(request.policy.unwrap_or_else(|| config.policy_name.clone())),
            host: request.host,
            limits: request.limits,
        };
        create.validate()?;
        if create.size_bytes < found.size_bytes {
            let text = format!("the snapshot has {} bytes: a clone has as many, or more", found.size_bytes);
            return Err(ApiError::invalid(text).remedy("Leave the size out"));
        }
        let ancestry = Ancestry { parents, flattens: false };
        let origin = Origin { ancestry, over: self.over(object).await?, hints: entry.hint_hosts };
        self.make_disk(create, Some(origin)).await
    }

    /// C1: of a clone that is in the catalogue.
    pub(crate) async fn pin_parent(&self, config: &ObjectConfig, origin: &Origin) -> ApiResult<()> {
        let Some(parent) = config.parents().first().filter(|_| !Canary::PinForgotten.sings()) else { return Ok(()) };
        let pin = OwnerCommand::PinSnapshot { id: parent.snapshot, pinned: true };
        self.to_owner(parent.object, &origin.hints, pin).await.map(drop)
    }

    pub(crate) async fn disk_flatten(&self, disk: String) -> ApiResult<v1::Disk> {
        let (object, entry) = self.known_disk(&disk).await?;
        self.to_owner(object, &entry.hint_hosts, OwnerCommand::Flatten).await?;
        self.show_disk(&disk).await
    }

    /// Those who closed snapshots of a disk and whose processes have ended: another one of their host is there, or the host is gone.
    async fn over(&self, object: ObjectId) -> ApiResult<Vec<Closed>> {
        let found = self.inner.registry.get::<CatalogueEntry>(&object).await.map_err(directory_error)?;
        let mut closed = found.map(|found| found.entry.closed).unwrap_or_default();
        let peers = self.inner.rpc.peers_up();
        let env = &self.inner.env;
        closed.retain(|one| match one.by == self.me() {
            true => one.incarnation != env.incarnation(),
            false => {
                self.inner.gone.has(one.by)
                    || peers.get(&one.by).is_some_and(|incarnation| *incarnation != one.incarnation)
            }
        });
        Ok(closed)
    }

    /// No clone is made of a snapshot, or of any of a disk, from now on; there is none.
    ///
    /// # Errors
    /// There are clones, which are named; the directory is away.
    async fn close_to_clones(
        &self,
        object: ObjectId,
        entry: &CatalogueEntry,
        snapshot: Option<SnapshotId>,
    ) -> ApiResult<Closed> {
        let env = &self.inner.env;
        let closed = Closed { snapshot, by: self.me(), incarnation: env.incarnation(), number: env.random_u64() };
        self.inner.registry.close_snapshot(object, &closed).await.map_err(directory_error)?;
        let clones = match self.clones_of(object, snapshot).await {
            Ok(clones) => clones,
            Err(error) => {
                self.open_to_clones(object, closed).await;
                return Err(error);
            }
        };
        if clones.is_empty() || Canary::PinForgotten.sings() {
            return Ok(closed);
        }
        self.open_to_clones(object, closed).await;
        let named = some_of(&clones);
        let what = if snapshot.is_some() { "the snapshot" } else { entry.name.as_str() };
        Err(ApiError::conflict(format!("{what} has clones, which need it: {named}"))
            .remedy("Delete them, or flatten them: `cairn disk flatten CLONE`"))
    }

    /// Clones may be made again. Where the directory is away that comes when this process has ended.
    pub(crate) async fn open_to_clones(&self, object: ObjectId, closed: Closed) {
        let _ = self.inner.registry.open_snapshot(object, &closed).await;
    }

    /// Names of disks that need a snapshot, or any of a disk. One that has been flattened does not, and its entry is set right: its owner says so, as a
    /// record that one seat has may yet be dropped.
    async fn clones_of(&self, object: ObjectId, snapshot: Option<SnapshotId>) -> ApiResult<Vec<String>> {
        let listed = self.inner.registry.clones_of(object, snapshot).await.map_err(directory_error)?;
        let mut names = Vec::new();
        for (clone, entry) in listed {
            if entry.state != DiskState::Ready || !self.is_flat(clone, &entry).await {
                names.push(entry.name.as_str().to_owned());
                continue;
            }
            let update = self.inner.registry.update::<CatalogueEntry>(&clone, |entry| {
                Ok(entry.map(|entry| CatalogueEntry { clone_of: None, ..entry.clone() }))
            });
            update.await.map_err(directory_error)?;
        }
        names.sort();
        Ok(names)
    }

    async fn is_flat(&self, clone: ObjectId, entry: &CatalogueEntry) -> bool {
        // Mostly one that is not says so at once, and nobody has to become its owner for that.
        let known = self.inner.objects.look_up(clone, &entry.hint_hosts).await;
        if known.is_none_or(|(known, _)| !known.config.parents().is_empty()) {
            return false;
        }
        let status = self.to_owner(clone, &entry.hint_hosts, OwnerCommand::Status).await;
        status.is_ok_and(|status| status.config.parents().is_empty())
    }

    /// Clones of a disk's snapshots, by name, as this host knows the catalogue.
    pub(crate) fn clones_known(&self, object: ObjectId) -> BTreeMap<SnapshotId, Vec<String>> {
        let mut clones: BTreeMap<SnapshotId, Vec<String>> = BTreeMap::new();
        for (_, entry) in self.catalogue() {
            if let Some(of) = entry.clone_of.filter(|of| of.object == object) {
                clones.entry(of.snapshot).or_default().push(entry.name.as_str().to_owned());
            }
        }
        clones
    }

    /// DISK@NAME of the snapshot that a disk is a clone of.
    pub(crate) async fn clone_of(&self, config: &ObjectConfig) -> Option<String> {
        let parent = config.parents().first()?;
        let found = self.inner.copy.borrow().get::<CatalogueEntry>(&parent.object);
        let name = found.as_ref().map_or_else(|| parent.object.to_string(), |entry| entry.name.as_str().to_owned());
        let hints = found.map(|entry| entry.hint_hosts).unwrap_or_default();
        let known = self.inner.objects.look_up(parent.object, &hints).await;
        let snapshot = known.and_then(|(known, _)| known.config.past?.snapshot(parent.snapshot).cloned());
        let snapshot = snapshot.map_or_else(|| format!("{:016x}", parent.snapshot.0), |snapshot| snapshot.name);
        Some(format!("{name}@{snapshot}"))
    }

    /// A snapshot that has or had clones may be deleted, or all of a disk, of which these are; until they are, no clone is made.
    pub(crate) async fn unpin(
        &self,
        object: ObjectId,
        entry: &CatalogueEntry,
        (only, ids): (Option<SnapshotId>, &[SnapshotId]),
    ) -> ApiResult<Closed> {
        let closed = self.close_to_clones(object, entry, only).await?;
        for id in ids {
            let unpin = OwnerCommand::PinSnapshot { id: *id, pinned: false };
            if let Err(error) = self.to_owner(object, &entry.hint_hosts, unpin).await {
                self.open_to_clones(object, closed).await;
                return Err(error);
            }
        }
        Ok(closed)
    }
}
