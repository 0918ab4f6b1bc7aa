//! Another name for a disk.
//!
//! Promises    the directory decides, in one transaction: a name is of one disk at any time
//!             the disk's record follows, by whoever owns it: a directory that was lost is rebuilt with names as they were last
//!             sessions go on: they are of the disk, whatever its name
//! Not here    the transaction (`directory`), the record (`object`)

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::{CatalogueEntry, DiskState, names::Name};
use cairn_env::Env;
use cairn_types::{Feature, ObjectId};
use cairn_wire::OwnerCommand;

use crate::{manage::directory_error, node::Node};

/// Disks whose names a round compares: a microsecond or two each.
const COMPARED: usize = 500;

impl<E: Env> Node<E> {
    pub(crate) async fn disk_rename(&self, disk: String, request: v1::DiskRename) -> ApiResult<v1::Disk> {
        request.validate()?;
        self.check_is_on(Feature::Snapshots, "another name for a disk")?;
        let (object, entry) = self.known_disk(&disk).await?;
        let (from, name) = (entry.name.as_str(), request.name);
        if from == name {
            return Err(ApiError::refused(format!("the disk has the name {name:?} already")));
        }
        if self.find_disk(&name).await.is_some() {
            return Err(ApiError::conflict(format!("a disk named {name:?} exists already"))
                .remedy("Choose another name, or rename that one first"));
        }
        if !request.force {
            v1::check_not_in_use(from, &self.sessions(Some(object)).await.sessions)?;
        }
        let to = Name::new(name.as_str()).map_err(|error| ApiError::invalid(error.to_string()))?;
        self.inner.registry.rename_disk(object, &entry.name, &to).await.map_err(directory_error)?;
        let followed = self.to_owner(object, &entry.hint_hosts, OwnerCommand::Rename { name: name.clone() }).await;
        let mut shown = self.show_disk(&name).await?;
        if let Err(error) = followed {
            shown.notes.push(format!("it has its new name, which is to be in its record as well: {}", error.message));
        }
        Ok(shown)
    }

    /// Disks owned here whose record has another name than the directory: nobody could have the record changed when they were renamed.
    /// Some of them a round, from the one after `after` on.
    pub(crate) async fn follow_names(&self, after: &mut Option<ObjectId>) {
        if !self.level().has(Feature::Snapshots) {
            return;
        }
        let mut owned = self.inner.objects.all_owned();
        owned.retain(|owned| after.is_none_or(|after| owned.id() > after));
        owned.truncate(COMPARED);
        *after = owned.last().map(|owned| owned.id()).filter(|_| owned.len() == COMPARED);
        let is_behind =
            |name: &str, entry: &CatalogueEntry| entry.state == DiskState::Ready && entry.name.as_str() != name;
        for owned in owned {
            let (object, name) = (owned.id(), owned.config().name.clone());
            let known = self.inner.copy.borrow().get::<CatalogueEntry>(&object);
            if known.is_none_or(|known| !is_behind(&name, &known)) {
                continue;
            }
            // The copy may be what is behind.
            let Ok(Some(found)) = self.inner.registry.get::<CatalogueEntry>(&object).await else { continue };
            if is_behind(&name, &found.entry) {
                let command = OwnerCommand::Rename { name: found.entry.name.as_str().to_owned() };
                // Once more with a later round when it cannot be done now.
                let _ = self.inner.objects.command(self.me(), object, command).await;
            }
        }
    }
}
