//! Giving up a disk group: its entry, its place in the list, and the superblocks on its devices, which are free then.

use cairn_api::{ApiError, ApiResult};
use cairn_directory::DiskGroupEntry;
use cairn_env::Env;
use cairn_object::LocalStore as _;
use cairn_store::wipe_superblocks;
use cairn_types::{DiskGroupId, Member};

use crate::node::Node;

impl<E: Env> Node<E> {
    /// Takes a disk group out of use: one that is open and empty, or one that does not open and holds no disk's last copy.
    pub(crate) async fn remove_group_here(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        if self.inner.closed_groups.borrow().contains_key(&disk_group) {
            return self.remove_closed(disk_group).await;
        }
        let inner = &self.inner;
        let Some(store) = inner.seats.store(disk_group) else {
            return Err(ApiError::not_found(format!("disk group {disk_group} is not open on this host")));
        };
        // Nothing comes to it from here on: what was not there when it was counted is not lost.
        inner.seats.remove_disk_group(disk_group);
        inner.leases.tell();
        let removed = self.forget_empty(disk_group, store.summary().components).await;
        if removed.is_err() {
            inner.seats.add_disk_group(store);
            inner.leases.tell();
            return removed;
        }
        inner.groups.borrow_mut().remove(&disk_group);
        inner.lacking_groups.borrow_mut().remove(&disk_group);
        let wiped = store.group().retire().await;
        self.save_groups()?;
        wiped.map_err(|error| {
            let text = format!("disk group {disk_group} is removed, and its devices are not blank: {error}");
            ApiError::internal(text).remedy("Use --overwrite where they are to be used again")
        })
    }

    async fn forget_empty(&self, disk_group: DiskGroupId, components: u32) -> ApiResult<()> {
        if components > 0 {
            return Err(ApiError::refused(format!("disk group {disk_group} holds {components} components"))
                .remedy(format!("Move them away first: `cairn disk-group drain {disk_group} --wait`")));
        }
        let gone = self.inner.registry.remove::<DiskGroupEntry>(&disk_group).await;
        gone.map(drop).map_err(crate::manage::directory_error)
    }

    /// One that does not open: it is forgotten, and superblocks of it that can be reached are wiped.
    async fn remove_closed(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        self.refuse_last_copies(disk_group).await?;
        self.forget_closed(disk_group).await
    }

    /// The same, whatever it holds.
    pub(super) async fn forget_closed(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        let inner = &self.inner;
        let gone = inner.registry.remove::<DiskGroupEntry>(&disk_group).await;
        gone.map_err(crate::manage::directory_error)?;
        let Some(closed) = inner.closed_groups.borrow_mut().remove(&disk_group) else { return Ok(()) };
        self.save_groups()?;
        if closed.known().is_none() {
            return Ok(());
        }
        for seen in self.look_at_all(closed.paths.all()).await {
            let kept = match seen.found {
                Ok((disk, _)) => wipe_superblocks(&disk, disk_group).await.err().map(|error| error.text),
                Err(error) => Some(error.text),
            };
            if let Some(why) = kept {
                inner.outside.warn(format!("disk group {disk_group} is removed, and a superblock may stay: {why}"));
            }
        }
        Ok(())
    }

    /// Refuses where a disk has its only good copy there, or may have: nobody can tell of a disk that nobody answers for.
    pub(crate) async fn refuse_last_copies(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        for (object, entry) in self.catalogue() {
            let name = &entry.name;
            let Some((known, _)) = self.inner.objects.look_up(object, &entry.hint_hosts).await else {
                let text = format!("no host answers for disk {name}, which may have a copy on disk group {disk_group}");
                return Err(ApiError::refused(text).remedy("Start the hosts that hold it, or delete the disk"));
            };
            let here = known.config.members.iter().filter(|m| m.disk_group == disk_group);
            let needs_it = |set| !known.config.is_held_by(set, |m| m.disk_group != disk_group);
            if here.filter_map(Member::set).any(needs_it) {
                let text = format!(
                    "disk group {disk_group} has the only good copy of disk {name}, or a member of its rows that it cannot spare"
                );
                return Err(ApiError::refused(text).remedy("Bring its devices back, or delete the disk first"));
            }
        }
        Ok(())
    }
}
