//! This host's disk groups: opened at start, made and removed on request.

use std::time::Duration;

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::{DeviceEntry, DeviceRole, DiskGroupEntry};
use cairn_env::{Disk, Env};
use cairn_object::LocalStore;
use cairn_store::{DiskGroup, DiskGroupDevices, StoreErrorKind};
use cairn_types::{DeviceId, DiskGroupId};

use crate::{adapter::GroupStore, node::Node, outside::GroupPaths};

/// When a disk group is opened again that a device's error kept from it: its copies are away until it is open.
const OPEN_AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];

impl<E: Env> Node<E> {
    /// Opens a disk group of this host; one that does not open is remembered with the reason.
    pub(crate) async fn open_group(&self, paths: GroupPaths) {
        match self.try_open(&paths).await {
            Ok(group) => self.serve_group(paths, group),
            Err(text) => {
                self.inner.outside.warn(format!("disk group {} does not open: {text}", paths.disk_group));
                self.inner.failed_groups.borrow_mut().insert(paths.disk_group, (paths, text));
            }
        }
    }

    async fn try_open(&self, paths: &GroupPaths) -> Result<DiskGroup<E>, String> {
        let devices = self.open_devices(&paths.cache, &paths.capacity, None).await?;
        let expect = cairn_store::Expect {
            cluster: self.inner.options.cluster,
            host: self.me(),
            disk_group: Some(paths.disk_group),
        };
        let (env, options) = (&self.inner.env, self.inner.options.store.clone());
        let mut pauses = OPEN_AGAIN_AFTER.into_iter();
        loop {
            // From the beginning: after a failed write or flush only what is read anew counts.
            match DiskGroup::open(env.clone(), devices.clone(), expect, &options).await {
                Err(error) if error.kind == StoreErrorKind::Media => match pauses.next() {
                    Some(pause) => env.sleep(pause).await,
                    None => return Err(error.to_string()),
                },
                opened => return opened.map_err(|error| error.to_string()),
            }
        }
    }

    async fn open_devices(
        &self,
        cache: &str,
        capacity: &[String],
        create: Option<(u64, u64)>,
    ) -> Result<DiskGroupDevices<E::Disk>, String> {
        let outside = &self.inner.outside;
        let cache = outside.open_device(cache.to_owned(), create.map(|c| c.0)).await?;
        let mut opened = Vec::new();
        for path in capacity {
            opened.push(outside.open_device(path.clone(), create.map(|c| c.1)).await?);
        }
        Ok(DiskGroupDevices { cache, capacity: opened })
    }

    fn serve_group(&self, paths: GroupPaths, group: DiskGroup<E>) {
        let inner = &self.inner;
        let disk_group = paths.disk_group;
        let store = GroupStore::new(group);
        if let Some(damage) = store.log_damage() {
            inner.outside.warn(format!("disk group {disk_group}, cache device {}: {damage}", paths.cache));
        }
        for object in inner.seats.add_disk_group(store) {
            inner
                .outside
                .warn(format!("disk group {disk_group} holds a record of object {object} that does not decode"));
        }
        inner.groups.borrow_mut().insert(disk_group, paths);
    }

    /// Makes a disk group at this shard, whatever other shards of its server have.
    ///
    /// # Errors
    /// Why it cannot be made; nothing was made then.
    pub async fn create_disk_group_here(&self, request: v1::DiskGroupCreate) -> ApiResult<DiskGroupId> {
        self.create_group_here(&request).await
    }

    pub(crate) async fn create_group_here(&self, request: &v1::DiskGroupCreate) -> ApiResult<DiskGroupId> {
        self.check_create(request)?;
        let files = request.files.as_ref().map(|f| (f.cache_bytes, f.capacity_bytes));
        let made = self.format_group(request, files).await;
        if made.is_err() && files.is_some() {
            for path in std::iter::once(&request.cache).chain(&request.capacity) {
                self.inner.outside.remove_file(path);
            }
        }
        made
    }

    fn check_create(&self, request: &v1::DiskGroupCreate) -> ApiResult<()> {
        let groups = self.inner.groups.borrow();
        if groups.len() >= 5 {
            return Err(ApiError::refused("this host has 5 disk groups, which is the most a host may have"));
        }
        if !(1..=7).contains(&request.capacity.len()) {
            let count = request.capacity.len();
            return Err(ApiError::invalid(format!("a disk group has 1 to 7 capacity devices, not {count}")));
        }
        let used = |path: &String| groups.values().any(|g| g.cache == *path || g.capacity.contains(path));
        match std::iter::once(&request.cache).chain(&request.capacity).find(|p| used(p)) {
            Some(path) => Err(ApiError::conflict(format!("{path} belongs to a disk group of this host already"))),
            None => Ok(()),
        }
    }

    async fn format_group(&self, request: &v1::DiskGroupCreate, files: Option<(u64, u64)>) -> ApiResult<DiskGroupId> {
        let inner = &self.inner;
        let refused = |text: String| ApiError::refused(text);
        let devices = self.open_devices(&request.cache, &request.capacity, files).await.map_err(refused)?;
        let draw = || (inner.env.random_u64(), inner.env.random_u64());
        let (high, low) = draw();
        let disk_group = DiskGroupId::from_random(high, low);
        let ids: Vec<DeviceId> = (0..=request.capacity.len())
            .map(|_| {
                let (high, low) = draw();
                DeviceId::from_random(high, low)
            })
            .collect();
        let sizes: Vec<u64> = std::iter::once(&devices.cache).chain(&devices.capacity).map(Disk::len_bytes).collect();
        let identity = cairn_store::Identity { cluster: inner.options.cluster, host: self.me(), disk_group };
        let options = cairn_store::StoreOptions { force: request.overwrite, ..inner.options.store.clone() };
        let refuse = |e: cairn_store::StoreError| ApiError::refused(e.to_string());
        DiskGroup::format(inner.env.clone(), devices.clone(), identity, &options).await.map_err(refuse)?;
        let paths =
            GroupPaths { disk_group, cache: request.cache.clone(), capacity: request.capacity.clone(), devices: ids };
        let expect =
            cairn_store::Expect { cluster: identity.cluster, host: identity.host, disk_group: Some(disk_group) };
        let group = DiskGroup::open(inner.env.clone(), devices, expect, &options).await.map_err(refuse)?;
        self.enter_group(&paths, &sizes, group.stats().usable_bytes).await?;
        self.serve_group(paths, group);
        self.save_groups()?;
        Ok(disk_group)
    }

    async fn enter_group(&self, paths: &GroupPaths, sizes: &[u64], capacity_bytes: u64) -> ApiResult<()> {
        let all = std::iter::once(&paths.cache).chain(&paths.capacity).zip(&paths.devices).zip(sizes).enumerate();
        let device = |(n, ((path, device), bytes)): (usize, ((&String, &DeviceId), &u64))| DeviceEntry {
            device: *device,
            role: if n == 0 { DeviceRole::Cache } else { DeviceRole::Capacity },
            path: path.clone(),
            bytes: *bytes,
        };
        let entry = DiskGroupEntry { host: self.me(), devices: all.map(device).collect(), capacity_bytes };
        let created = self.inner.registry.create(&paths.disk_group, &entry).await;
        created.map(drop).map_err(crate::manage::directory_error)
    }

    fn save_groups(&self) -> ApiResult<()> {
        let groups: Vec<GroupPaths> = self.inner.groups.borrow().values().cloned().collect();
        self.inner.outside.save_groups(&groups).map_err(ApiError::internal)
    }

    /// Takes an empty disk group out of use.
    pub(crate) async fn remove_group_here(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        let inner = &self.inner;
        let Some(store) = inner.seats.store(disk_group) else {
            return Err(ApiError::not_found(format!("disk group {disk_group} is not open on this host")));
        };
        let components = store.summary().components;
        if components > 0 {
            return Err(ApiError::refused(format!("disk group {disk_group} holds {components} components"))
                .remedy("Delete the disks that use it first: moving components away is not in this release"));
        }
        if let Some(found) =
            inner.registry.get::<DiskGroupEntry>(&disk_group).await.map_err(crate::manage::directory_error)?
        {
            let deleted = inner.registry.delete::<DiskGroupEntry>(&disk_group, found.revision).await;
            deleted.map_err(crate::manage::directory_error)?;
        }
        inner.seats.remove_disk_group(disk_group);
        inner.groups.borrow_mut().remove(&disk_group);
        let _ = store.group().close().await;
        self.save_groups()
    }
}
