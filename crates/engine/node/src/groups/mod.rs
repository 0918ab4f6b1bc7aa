//! This host's disk groups: opened at start or later, made, adopted, given up.
//!
//! Promises    one bad disk group keeps no host and no other disk group down: it is closed, with a reason that people read
//!             a device is what its superblock says, whatever name it has today
//!             nothing of somebody else is written to or removed
//! Not here    what is on a device (`store`), what somebody else has put there (the process around)

mod change;
mod closed;
mod create;
mod devices;
mod inventory;
mod locate;
mod names;
mod remove;

pub(crate) use names::is_called;

use cairn_api::{ApiError, ApiResult};
use cairn_directory::{DeviceEntry, DeviceRole, DiskGroupEntry};
use cairn_env::Env;
use cairn_format::NO_DEVICE;
use cairn_object::LocalStore;
use cairn_store::DiskGroup;
use cairn_types::{DeviceId, DiskGroupId};

use self::closed::RETRY_MAX;
use crate::{adapter::GroupStore, closed_group::ClosedGroup, node::Node, outside::GroupPaths};

impl GroupPaths {
    /// The paths of all its devices, the cache device's first.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.cache).chain(&self.capacity)
    }

    /// The same, and names under which they were given.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.all().chain(&self.asked)
    }
}

impl<E: Env> Node<E> {
    /// Says once of each disk group that stopped, and of each device that failed, what the system said.
    pub(crate) fn tell_failures(&self) {
        for store in self.inner.seats.stores() {
            let told = store.summary();
            if told.healthy && told.failed_devices == 0 {
                continue;
            }
            let (disk_group, stats) = (store.disk_group(), store.group().stats());
            let is_new = |device: usize| self.inner.failures_told.borrow_mut().insert((disk_group, device));
            if let Some(why) = stats.stopped.filter(|_| is_new(0)) {
                let path = stats.cache.name;
                let text = format!("disk group {disk_group} takes no more writes: {why} (cache device {path})");
                self.inner.outside.warn(text);
            }
            let is_dead = |device: &cairn_store::DeviceStats| device.failed && device.device != NO_DEVICE;
            for (n, device) in stats.capacity.into_iter().enumerate().filter(|(_, device)| is_dead(device)) {
                if is_new(n + 1) {
                    let why = device.failure.map_or_else(|| "it is missing".to_owned(), |error| error.to_string());
                    let text =
                        format!("disk group {disk_group}: {} failed, its components are lost: {why}", device.name);
                    self.inner.outside.warn(text);
                }
            }
        }
    }

    /// From now on the group is open and in use.
    fn serve_group(&self, paths: GroupPaths, group: DiskGroup<E>) {
        let inner = &self.inner;
        let disk_group = paths.disk_group;
        self.tell_level(&group);
        let store = GroupStore::new(group);
        if let Some(damage) = store.log_damage() {
            inner.outside.warn(format!("disk group {disk_group}, cache device {}: {damage}", paths.cache));
        }
        for object in inner.seats.add_disk_group(store.clone()) {
            inner
                .outside
                .warn(format!("disk group {disk_group} holds a record of object {object} that does not decode"));
        }
        inner.closed_groups.borrow_mut().remove(&disk_group);
        inner.failures_told.borrow_mut().retain(|(told, _)| *told != disk_group);
        if !store.group().missing().is_empty() {
            inner.lacking_groups.borrow_mut().insert(disk_group, inner.env.now() + RETRY_MAX);
        }
        inner.groups.borrow_mut().insert(disk_group, paths);
        // What peers remembered of it while it was closed: an old image must not pass because it came late.
        if let Some((count, position)) = inner.remembered.borrow_mut().remove(&disk_group) {
            self.on_remembered(disk_group, count, position);
        }
        inner.leases.tell();
    }

    /// A peer remembers this of a disk group of this host.
    pub(crate) fn on_remembered(&self, disk_group: DiskGroupId, count: u64, position: u64) {
        let inner = &self.inner;
        let Some(store) = inner.seats.store(disk_group) else {
            let mut remembered = inner.remembered.borrow_mut();
            let highest = remembered.entry(disk_group).or_default();
            *highest = (highest.0.max(count), highest.1.max(position));
            return;
        };
        if store.on_remembered(count, position) {
            inner.env.spawn(async move { store.record_roll_back().await });
        }
    }

    /// Enters a disk group in the directory, or what is new about it.
    async fn enter_group(&self, paths: &GroupPaths, group: &DiskGroup<E>) -> ApiResult<()> {
        let stats = group.stats();
        let known: Vec<_> = std::iter::once(&stats.cache).chain(&stats.capacity).collect();
        let bytes_of = |id: &DeviceId| known.iter().find(|known| known.device == *id).map_or(0, |known| known.bytes);
        let all = paths.all().zip(&paths.devices).map(|(path, id)| ((path, id), bytes_of(id))).enumerate();
        let device = |(n, ((path, device), bytes)): (usize, ((&String, &DeviceId), u64))| DeviceEntry {
            device: *device,
            role: if n == 0 { DeviceRole::Cache } else { DeviceRole::Capacity },
            path: path.clone(),
            bytes,
        };
        let devices = all.map(device).collect();
        let entry = DiskGroupEntry { host: self.me(), devices, capacity_bytes: stats.usable_bytes };
        let entered = self.inner.registry.enter_disk_group(paths.disk_group, &entry).await;
        entered.map_err(crate::manage::directory_error)
    }

    /// Keeps the list of this host's disk groups, open or not, for the next start.
    fn save_groups(&self) -> ApiResult<()> {
        let inner = &self.inner;
        let mut groups: Vec<GroupPaths> = inner.groups.borrow().values().cloned().collect();
        groups.extend(inner.closed_groups.borrow().values().filter_map(ClosedGroup::known).cloned());
        groups.sort_by_key(|group| group.disk_group);
        inner.outside.save_groups(&groups).map_err(ApiError::internal)
    }

    /// The disk group of this host, open or not, that has a device of this name.
    fn group_with(&self, path: &str) -> Option<DiskGroupId> {
        self.find_group(|paths| paths.all().any(|known| known == path))
    }

    fn find_group(&self, has: impl Fn(&GroupPaths) -> bool) -> Option<DiskGroupId> {
        let open = self.inner.groups.borrow().values().find(|paths| has(paths)).map(|paths| paths.disk_group);
        let closed = || {
            let closed = self.inner.closed_groups.borrow();
            closed.values().filter_map(ClosedGroup::known).find(|paths| has(paths)).map(|paths| paths.disk_group)
        };
        open.or_else(closed)
    }
}
