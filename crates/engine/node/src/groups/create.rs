//! A disk group out of devices: made of blank ones, adopted where they are this host's already, refused otherwise.
//!
//! Promises    what fails leaves every device and file as it was; only files that the call itself has made are removed
//!             nothing is formatted that holds a superblock, a known signature or unknown data, unless that is asked for
//! Assumes     the devices are locked from the look at them to their format

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::{CatalogueEntry, DiskGroupEntry};
use cairn_env::Env;
use cairn_format::Superblock;
use cairn_store::{DiskGroup, DiskGroupDevices, Expect, FormatOptions, Identity};
use cairn_types::DiskGroupId;

use super::devices::{Seen, arrange, stranger};
use crate::{
    closed_group::NotOpen,
    node::Node,
    outside::{DeviceErrorKind, GroupPaths},
};

/// Disk groups of one host, at most: as vSAN has it.
const GROUPS_MAX: usize = 5;

/// What is done with a file that is there where one was to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    /// The call is refused.
    Refused,
    /// It is taken like any other device: an earlier start may have made it.
    Used,
}

impl<E: Env> Node<E> {
    /// Makes a disk group at this shard, whatever other shards of its server have.
    ///
    /// # Errors
    /// Why it cannot be made; nothing was made then.
    pub async fn create_disk_group_here(&self, request: v1::DiskGroupCreate) -> ApiResult<DiskGroupId> {
        self.create_group_here(&request).await
    }

    /// Has a disk group as the configuration asks for it: one that there is, one that its devices hold, or a new one. One
    /// that cannot be had is closed, with the reason, and tried again.
    pub async fn have_disk_group(&self, request: v1::DiskGroupCreate) {
        if self.why_dismissed().is_some() {
            return;
        }
        let id = self.draw_id();
        self.have_wanted(id, request).await;
        self.try_again();
    }

    /// The same; `id` is what it is called while it is not there.
    pub(super) async fn have_wanted(&self, id: DiskGroupId, request: v1::DiskGroupCreate) {
        let paths: Vec<&String> = std::iter::once(&request.cache).chain(&request.capacity).collect();
        let stable = self.stable_paths(paths.iter().copied()).await;
        let is_one = |path: &String| self.find_group(|group| group.names().any(|name| name == path)).is_some();
        if paths.into_iter().chain(&stable).any(is_one) {
            self.inner.closed_groups.borrow_mut().remove(&id);
            return;
        }
        match self.create(&request, Existing::Used).await {
            Ok(_) => drop(self.inner.closed_groups.borrow_mut().remove(&id)),
            Err(error) => {
                let (cache, capacity) = (request.cache.clone(), request.capacity.clone());
                let paths = GroupPaths { disk_group: id, cache, capacity, devices: Vec::new(), asked: Vec::new() };
                self.note_closed(paths, Some(request), NotOpen::not_made(error.to_string()));
            }
        }
    }

    pub(crate) async fn create_group_here(&self, request: &v1::DiskGroupCreate) -> ApiResult<DiskGroupId> {
        self.create(request, Existing::Refused).await
    }

    async fn create(&self, asked: &v1::DiskGroupCreate, existing: Existing) -> ApiResult<DiskGroupId> {
        let paths = std::iter::once(&asked.cache).chain(&asked.capacity);
        let stable = self.stable_paths(paths.clone()).await;
        let request = v1::DiskGroupCreate { cache: stable[0].clone(), capacity: stable[1..].to_vec(), ..asked.clone() };
        self.check_create(&request)?;
        let mut made = Vec::new();
        let created = self.create_on(&request, existing, &mut made).await;
        match &created {
            Ok(id) => self.note_asked(*id, paths.filter(|path| !stable.contains(path)).cloned().collect()),
            Err(_) => made.iter().for_each(|path| self.inner.outside.remove_file(path)),
        }
        created
    }

    /// Keeps the names under which devices were given that are remembered by others. Without them the configuration is understood by
    /// what the names lead to now.
    fn note_asked(&self, id: DiskGroupId, asked: Vec<String>) {
        if asked.is_empty() {
            return;
        }
        if let Some(paths) = self.inner.groups.borrow_mut().get_mut(&id) {
            paths.asked.extend(asked);
        }
        if let Err(error) = self.save_groups() {
            self.inner.outside.warn(format!("the list of disk groups cannot be kept: {error}"));
        }
    }

    fn check_create(&self, request: &v1::DiskGroupCreate) -> ApiResult<()> {
        if self.inner.groups.borrow().len() >= GROUPS_MAX {
            let text = format!("this host has {GROUPS_MAX} disk groups, which is the most a host may have");
            return Err(ApiError::refused(text));
        }
        if !(1..=7).contains(&request.capacity.len()) {
            let count = request.capacity.len();
            return Err(ApiError::invalid(format!("a disk group has 1 to 7 capacity devices, not {count}")));
        }
        for path in std::iter::once(&request.cache).chain(&request.capacity) {
            if let Some(id) = self.group_with(path) {
                let text = format!("{path} belongs to disk group {id} of this host already");
                return Err(ApiError::conflict(text).remedy("Remove that disk group first"));
            }
        }
        Ok(())
    }

    /// `made` takes the files that were made, whatever comes after.
    async fn create_on(
        &self,
        request: &v1::DiskGroupCreate,
        existing: Existing,
        made: &mut Vec<String>,
    ) -> ApiResult<DiskGroupId> {
        let paths: Vec<String> = std::iter::once(&request.cache).chain(&request.capacity).cloned().collect();
        if let Some(files) = &request.files {
            for (n, path) in paths.iter().enumerate() {
                let bytes = if n == 0 { files.cache_bytes } else { files.capacity_bytes };
                match self.inner.outside.make_file(path.clone(), bytes).await {
                    Ok(()) => made.push(path.clone()),
                    Err(error) if error.kind == DeviceErrorKind::Exists && existing == Existing::Used => {}
                    Err(error) => return Err(ApiError::refused(error.text)),
                }
            }
        }
        let seen = self.look_at_all(paths.iter()).await;
        if let Some(error) = seen.iter().find_map(|seen| seen.found.as_ref().err()) {
            return Err(ApiError::refused(error.text.clone()));
        }
        let superblock = seen.iter().find_map(Seen::superblock).cloned();
        match superblock {
            _ if request.overwrite => self.refuse_own(&seen)?,
            Some(superblock) if !self.is_unfinished(&seen, &superblock).await? => {
                return self.adopt(&superblock, seen, &paths).await;
            }
            _ => self.refuse_strangers(&seen, made).await?,
        }
        self.format_group(request, seen).await
    }

    /// A disk group of this host is never overwritten, whatever names its devices have.
    pub(super) fn refuse_own(&self, seen: &[Seen<E::Disk>]) -> ApiResult<()> {
        let inner = &self.inner;
        for (seen, superblock) in seen.iter().filter_map(|seen| Some((seen, seen.superblock()?))) {
            let id = superblock.disk_group;
            if inner.groups.borrow().contains_key(&id) || inner.closed_groups.borrow().contains_key(&id) {
                let text = format!("{} belongs to disk group {id} of this host", seen.path);
                return Err(ApiError::conflict(text).remedy("Remove that disk group first"));
            }
        }
        Ok(())
    }

    /// Whether the superblocks are what a creation left that did not come to its end: this host's, with no cache device among
    /// them, of a disk group that nobody knows.
    async fn is_unfinished(&self, seen: &[Seen<E::Disk>], superblock: &Superblock) -> ApiResult<bool> {
        let id = superblock.disk_group;
        let ours = superblock.cluster == self.inner.options.cluster && superblock.host == self.me();
        if !ours || arrange(seen, id).is_some() || self.inner.closed_groups.borrow().contains_key(&id) {
            return Ok(false);
        }
        let known = self.inner.registry.get::<DiskGroupEntry>(&id).await.map_err(crate::manage::directory_error)?;
        let others = seen.iter().filter_map(Seen::superblock).any(|other| other.disk_group != id);
        Ok(known.is_none() && !others)
    }

    /// Refuses devices on which something stands that is not a superblock.
    pub(super) async fn refuse_strangers(&self, seen: &[Seen<E::Disk>], made: &[String]) -> ApiResult<()> {
        let remedy = "Use blank devices, or --overwrite and lose what they hold";
        for Seen { path, found } in seen.iter().filter(|seen| !made.contains(&seen.path)) {
            let signature = self.inner.outside.signature(path.clone()).await;
            let Ok((_, occupant)) = found else { continue };
            if let Some(text) = stranger(path, &signature, occupant) {
                return Err(ApiError::refused(text).remedy(remedy));
            }
        }
        Ok(())
    }

    /// Takes a disk group of this host back into use that is on these devices.
    async fn adopt(
        &self,
        superblock: &Superblock,
        seen: Vec<Seen<E::Disk>>,
        paths: &[String],
    ) -> ApiResult<DiskGroupId> {
        let (id, inner) = (superblock.disk_group, &self.inner);
        let path = seen.iter().find(|seen| seen.superblock() == Some(superblock)).map_or("", |seen| seen.path.as_str());
        if superblock.cluster != inner.options.cluster {
            let text = format!("{path} belongs to disk group {id} of another cluster, {}", superblock.cluster);
            return Err(ApiError::refused(text).remedy("Use it there, or --overwrite and lose what it holds"));
        }
        if superblock.host != self.me() {
            let owner = self.host_name(superblock.host);
            let text = format!("{path} belongs to disk group {id} of host {owner}");
            let remedy = format!(
                "A host that lost its data directory gets its disk groups back when it starts with the name {owner} and \
                 these devices in its configuration. Or use --overwrite and lose what they hold"
            );
            return Err(ApiError::refused(text).remedy(remedy));
        }
        if inner.groups.borrow().contains_key(&id) || inner.closed_groups.borrow().contains_key(&id) {
            return Err(ApiError::conflict(format!("{path} belongs to disk group {id} of this host already")));
        }
        let Some(arranged) = arrange(&seen, id) else {
            let text = format!("{path} belongs to disk group {id}, whose cache device is not among those given");
            return Err(ApiError::refused(text).remedy("Give that too, or --overwrite and lose what they hold"));
        };
        let found = arranged.paths(paths);
        drop((arranged, seen));
        let opened = self.open_group(&found, false).await;
        let (found, group) =
            opened.map_err(|failed| ApiError::refused(format!("disk group {id} does not open: {}", failed.text)))?;
        self.serve_group(found.clone(), group.clone());
        let kept = self.enter_group(&found, &group).await.and(self.save_groups());
        if let Err(error) = kept.and(self.rebuild_catalogue(id).await) {
            inner.outside.warn(format!("disk group {id} is adopted and cannot be entered: {error}"));
        }
        inner.outside.warn(format!("disk group {id} was found on {} and is in use again", found.cache));
        Ok(id)
    }

    /// Enters the disks of a disk group in a directory that knows none at all: it was lost with its host's data directory. In any
    /// other a disk that is not known was deleted.
    async fn rebuild_catalogue(&self, id: DiskGroupId) -> ApiResult<()> {
        let (inner, registry) = (&self.inner, &self.inner.registry);
        if inner.catalogue_lost.get().is_none() {
            let known = registry.list::<CatalogueEntry>().await.map_err(crate::manage::directory_error)?;
            inner.catalogue_lost.set(Some(inner.options.directory_kind == "embedded" && known.entries.is_empty()));
        }
        if inner.catalogue_lost.get() != Some(true) {
            return Ok(());
        }
        let (records, _) = inner.seats.records_after(id, None, usize::MAX, |_| true);
        for config in records.into_iter().filter_map(|record| record.accepted).map(|accepted| accepted.config) {
            if !config.deleted {
                registry.adopt(&config).await.map_err(crate::manage::directory_error)?;
            }
        }
        Ok(())
    }

    fn draw_id(&self) -> DiskGroupId {
        let env = &self.inner.env;
        DiskGroupId::from_random(env.random_u64(), env.random_u64())
    }

    async fn format_group(&self, request: &v1::DiskGroupCreate, seen: Vec<Seen<E::Disk>>) -> ApiResult<DiskGroupId> {
        let inner = &self.inner;
        let mut disks = seen.into_iter().filter_map(|seen| seen.found.ok()).map(|(disk, _)| disk);
        let cache = disks.next().expect("a cache device was looked at");
        let devices = DiskGroupDevices { cache, capacity: disks.collect() };
        let disk_group = self.draw_id();
        let identity = Identity { cluster: inner.options.cluster, host: self.me(), disk_group };
        // All that stands on them was looked at, and may go.
        let options = FormatOptions { force: true, ..inner.options.store_format.clone() };
        let refuse = |e: cairn_store::StoreError| ApiError::refused(e.to_string());
        DiskGroup::format(inner.env.clone(), devices.clone(), identity, &options).await.map_err(refuse)?;
        let expect = Expect { cluster: identity.cluster, host: identity.host, disk_group: Some(disk_group) };
        let options = self.store_options();
        let group = DiskGroup::open(inner.env.clone(), devices, expect, &options).await.map_err(refuse)?;
        let (cache, capacity) = (request.cache.clone(), request.capacity.clone());
        let paths = GroupPaths { disk_group, cache, capacity, devices: group.device_ids(), asked: Vec::new() };
        if let Err(error) = self.enter_group(&paths, &group).await {
            // Nobody knows of it: the devices are blank again.
            let _ = group.retire().await;
            return Err(error);
        }
        self.serve_group(paths, group);
        // It is entered and open. A list that cannot be kept is told; the superblocks are enough to find it again.
        if let Err(error) = self.save_groups() {
            inner.outside.warn(format!("the list of disk groups cannot be kept: {error}"));
        }
        Ok(disk_group)
    }
}
