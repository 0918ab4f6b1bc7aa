//! Devices of a disk group change: a capacity device more, or a new device in the place of one.
//!
//! Promises    what is refused changes nothing; a preview changes nothing and is computed as the deed is
//!             nothing is given up that has a disk's only good copy, unless that is forced
//! Assumes     the store makes its own part crash safe (`store/grow.rs`)
//! Not here    rebuilding what was lost (`object`), moving components away first (`disk-group drain`)
//!
//! A capacity device of an open group is replaced in place: only what is on it is lost. Where the cache device goes, or the group does
//! not open, all of the group is lost: it is made anew of the devices that are left and the new one.

use std::{collections::BTreeSet, time::Duration};

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::DiskGroupEntry;
use cairn_env::{Disk, Env};
use cairn_format::{DeviceRole, NO_DEVICE};
use cairn_object::LocalStore as _;
use cairn_store::StoreErrorKind;
use cairn_types::{BLOCK_BYTES, ComponentId, DeviceId, DiskGroupId, HostId, Member, ObjectId};
use cairn_wire::OwnerCommand;

use super::{devices::Seen, names::is_called};
use crate::{adapter::GroupStore, closed_group::ClosedGroup, node::Node, outside::GroupPaths};

/// How often an owner is asked to replace what was on a group that was made anew, a second apart: it must have missed it first.
const DEGRADE_TRIES: u32 = 120;
/// How often, and how long apart, the new group is tried to be made: five seconds.
const CREATE_TRIES: u32 = 20;
const CREATE_PAUSE: Duration = Duration::from_millis(250);
/// Digits of a device's id that are enough to name it.
const ID_DIGITS_MIN: usize = 6;

/// What goes with a device.
#[derive(Default)]
struct Loss {
    /// By the disk that has them, with the hosts to ask for it.
    components: Vec<(ObjectId, Vec<HostId>, ComponentId)>,
    bytes: u64,
    reduced: Vec<String>,
    last_copies: Vec<String>,
    /// Disks that nobody answers for: they may have anything there.
    unknown: Vec<String>,
}

/// The device that is to be replaced.
struct Old {
    path: String,
    device: DeviceId,
    is_cache: bool,
}

impl GroupPaths {
    /// A capacity device more.
    fn put(&mut self, path: String, device: DeviceId) {
        self.capacity.push(path);
        self.devices.push(device);
    }
    /// The first of these capacity devices is none any more.
    fn take_out(&mut self, is_it: impl Fn(&str, DeviceId) -> bool) {
        let ids = self.devices.iter().skip(1);
        let at = self.capacity.iter().zip(ids).position(|(path, device)| is_it(path, *device));
        if let Some(at) = at {
            self.capacity.remove(at);
            self.devices.remove(at + 1);
        }
    }
}

impl<E: Env> Node<E> {
    /// Adds a capacity device to a disk group of this host, or puts a device in the place of one.
    pub(crate) async fn change_devices_here(
        &self,
        disk_group: DiskGroupId,
        order: v1::DeviceOrder,
    ) -> ApiResult<v1::DeviceChange> {
        let paths = self.paths_of(disk_group)?;
        let old = match &order.instead_of {
            None => None,
            Some(name) => Some(self.find_device(&paths, name).await?),
        };
        let (path, disk) = self.claim(&paths, old.as_ref(), &order).await?;
        let in_place =
            |store: &GroupStore<E>| old.as_ref().is_none_or(|old| !old.is_cache && !store.group().is_stopped());
        if let Some(store) = self.inner.seats.store(disk_group).filter(in_place) {
            return self.add_device(&store, order, old, (path, disk)).await;
        }
        let Some(old) = old else {
            return Err(ApiError::refused(format!("disk group {disk_group} is not open")).remedy(
                "See `cairn disk-group show` for the reason; `replace-device` replaces a device that is dead",
            ));
        };
        let bytes = disk.len_bytes();
        // The new group opens it. Nobody here holds the old group: its devices are free when the last handle of it is gone.
        drop(disk);
        self.make_anew(paths, order, old, (path, bytes)).await
    }

    fn paths_of(&self, disk_group: DiskGroupId) -> ApiResult<GroupPaths> {
        let open = self.inner.groups.borrow().get(&disk_group).cloned();
        let closed = || self.inner.closed_groups.borrow().get(&disk_group).and_then(ClosedGroup::known).cloned();
        let found = open.or_else(closed);
        found.ok_or_else(|| ApiError::not_found(format!("this host has no disk group {disk_group}")))
    }

    /// A device of a group by a name that it has or had, or by the beginning of its id.
    async fn find_device(&self, paths: &GroupPaths, name: &str) -> ApiResult<Old> {
        let devices = self.inner.outside.block_devices().await.unwrap_or_default();
        let alias = |path: &str| devices.iter().any(|device| is_called(device, path) && is_called(device, name));
        let is_id = |id: &DeviceId| name.len() >= ID_DIGITS_MIN && id.to_string().starts_with(name);
        let mut all = paths.all().zip(&paths.devices).enumerate();
        let found = all.find(|(_, (path, id))| *path == name || is_id(id) || alias(path));
        let Some((n, (path, device))) = found else {
            let known: Vec<&str> = paths.all().map(String::as_str).collect();
            let text = format!("{name} is no device of disk group {}: it has {}", paths.disk_group, known.join(", "));
            return Err(ApiError::invalid(text));
        };
        Ok(Old { path: path.clone(), device: *device, is_cache: n == 0 })
    }

    /// Opens a device that is to be taken, under the name that it keeps. Nobody else has it from here on.
    async fn claim(
        &self,
        paths: &GroupPaths,
        old: Option<&Old>,
        order: &v1::DeviceOrder,
    ) -> ApiResult<(String, E::Disk)> {
        let stable = self.stable_paths(std::iter::once(&order.device)).await;
        let path = stable.first().cloned().unwrap_or_default();
        // Where it takes the place of one that has no name that stays it has its name, too.
        let is_in_place = old.is_some_and(|old| old.path == path);
        if let Some(id) = self.group_with(&path).filter(|_| !is_in_place) {
            let text = format!("{} belongs to disk group {id} of this host already", order.device);
            return Err(ApiError::conflict(text).remedy("Give a free one: `cairn host devices` lists them"));
        }
        let seen = [self.look_at(&path).await];
        if let Some(error) = seen[0].found.as_ref().err() {
            return Err(ApiError::refused(error.text.clone()));
        }
        match seen[0].superblock() {
            Some(found) if paths.devices.contains(&found.device) => {
                let text = format!("{path} is a device of disk group {} itself", paths.disk_group);
                return Err(ApiError::conflict(text).remedy("The disk group takes it back by itself; give a free one"));
            }
            // What a call left that did not come to its end, or a device that was given up.
            Some(found)
                if found.disk_group == paths.disk_group && matches!(found.role, DeviceRole::Capacity { .. }) => {}
            _ if order.overwrite => self.refuse_own(&seen)?,
            Some(found) => {
                let owner = self.host_name(found.host);
                let text = format!("{path} belongs to disk group {} of host {owner}", found.disk_group);
                return Err(ApiError::refused(text).remedy("Use a blank device, or --overwrite and lose what it holds"));
            }
            None => self.refuse_strangers(&seen, &[]).await?,
        }
        let [Seen { found, .. }] = seen;
        let (disk, _) = found.map_err(|error| ApiError::refused(error.text))?;
        Ok((path, disk))
    }

    async fn add_device(
        &self,
        store: &GroupStore<E>,
        order: v1::DeviceOrder,
        old: Option<Old>,
        (path, disk): (String, E::Disk),
    ) -> ApiResult<v1::DeviceChange> {
        let (id, group) = (store.disk_group(), store.group());
        let refuse = |error: cairn_store::StoreError| ApiError::refused(error.text);
        let given_up = old.as_ref().map(|old| old.device);
        let grown = group.would_grow(&disk.name(), disk.len_bytes(), given_up).map_err(refuse)?;
        let loss = match &old {
            None => Loss::default(),
            Some(old) => self.loss_on(store, old.device).await,
        };
        let mut change = self.told(id, &path, disk.len_bytes(), old.as_ref(), &loss);
        change.usable_bytes = grown.usable_bytes;
        if grown.metadata_bytes < grown.metadata_wanted_bytes {
            change.notes.push(format!(
                "the cache device keeps {} bytes for metadata, and a group of this size is made with {}: where they are full, blocks that \
                 have no space yet are refused",
                grown.metadata_bytes, grown.metadata_wanted_bytes
            ));
        }
        if order.dry_run {
            return Ok(change);
        }
        refuse_loss(&loss, order.force)?;
        // The name is kept first: superblocks are looked for under it, whenever power goes.
        self.change_paths(id, |paths| paths.put(path.clone(), NO_DEVICE))?;
        let added = group.add_capacity(disk, given_up).await;
        let kept = self.change_paths(id, |paths| match &added {
            Ok(device) => {
                paths.take_out(|_, known| Some(known) == given_up);
                paths.take_out(|name, known| known == NO_DEVICE && name == path);
                paths.put(path.clone(), *device);
            }
            Err(error) if error.kind == StoreErrorKind::Refused => {
                paths.take_out(|name, known| known == NO_DEVICE && name == path);
            }
            // The group may have the device, and may have stopped: it is looked for there. A name too many does no harm.
            Err(_) => {}
        });
        added.map_err(refuse)?;
        let paths = self.paths_of(id)?;
        if let Err(error) = kept.and(self.enter_group(&paths, group).await) {
            self.inner.outside.warn(format!("disk group {id} has {path}, and that cannot be kept: {error}"));
        }
        self.inner.leases.tell();
        self.inner.objects.wake();
        Ok(change)
    }

    /// What goes with a capacity device.
    async fn loss_on(&self, store: &GroupStore<E>, device: DeviceId) -> Loss {
        let group = store.group();
        let number = group.device_ids().iter().skip(1).position(|known| *known == device);
        let on_it = |c: &cairn_store::ComponentInfo| Some(usize::from(c.device)) == number && c.size_blocks > 0;
        let lost: Vec<_> = group.components().into_iter().filter(on_it).collect();
        let bytes = lost.iter().map(|c| c.allocated_blocks * u64::from(BLOCK_BYTES)).sum();
        let ids: BTreeSet<ComponentId> = lost.iter().map(|c| c.id).collect();
        let objects = lost.iter().map(|c| c.object).collect();
        self.given_up(store.disk_group(), bytes, Some(objects), |component| ids.contains(&component)).await
    }

    fn change_paths(&self, id: DiskGroupId, change: impl FnOnce(&mut GroupPaths)) -> ApiResult<()> {
        if let Some(paths) = self.inner.groups.borrow_mut().get_mut(&id) {
            change(paths);
        }
        self.save_groups()
    }

    /// Gives all of a group up, and makes one of the devices that are left and the new one. Where the process dies between the two, the
    /// devices are free, and what was there is rebuilt elsewhere after the repair delay.
    async fn make_anew(
        &self,
        paths: GroupPaths,
        order: v1::DeviceOrder,
        old: Old,
        (path, bytes): (String, u64),
    ) -> ApiResult<v1::DeviceChange> {
        let (id, inner) = (paths.disk_group, &self.inner);
        let store = inner.seats.store(id);
        let held = |store: &GroupStore<E>| store.group().components().iter().map(|c| c.allocated_blocks).sum::<u64>();
        let held_bytes = store.as_ref().map_or(0, held) * u64::from(BLOCK_BYTES);
        let objects = store.as_ref().map(|store| store.group().components().iter().map(|c| c.object).collect());
        let loss = self.given_up(id, held_bytes, objects, |_| true).await;
        let mut change = self.told(id, &path, bytes, Some(&old), &loss);
        change.made_anew = true;
        let (request, dead) = self.anew(&paths, &old, &path).await?;
        change.notes.extend(dead.into_iter().map(|why| format!("the new disk group is made without a device: {why}")));
        if order.dry_run {
            return Ok(change);
        }
        refuse_loss(&loss, order.force)?;
        self.give_up(id, store).await?;
        let mut made = self.create_group_here(&request).await;
        for _ in 0..CREATE_TRIES {
            if made.is_ok() {
                break;
            }
            // Requests that are under way hold the old group's devices a moment longer.
            inner.env.sleep(CREATE_PAUSE).await;
            made = self.create_group_here(&request).await;
        }
        let made = made.map_err(|error| {
            let text = format!("disk group {id} was given up, and none was made of its devices: {}", error.message);
            ApiError::internal(text)
                .remedy("Make one with `cairn disk-group create`; `cairn host devices` shows what is free")
        })?;
        change.disk_group = made;
        self.spawn_degrade(loss);
        Ok(change)
    }

    /// The new group, and why devices of the old one are not in it.
    async fn anew(&self, paths: &GroupPaths, old: &Old, new: &str) -> ApiResult<(v1::DiskGroupCreate, Vec<String>)> {
        let mut dead = Vec::new();
        let mut capacity = Vec::new();
        for known in paths.capacity.iter().filter(|known| **known != old.path) {
            match self.peek_at(known).await {
                Ok(_) => capacity.push(known.clone()),
                Err(why) => dead.push(why),
            }
        }
        let cache = match old.is_cache {
            true => new.to_owned(),
            false => {
                capacity.push(new.to_owned());
                if let Err(why) = self.peek_at(&paths.cache).await {
                    return Err(ApiError::refused(format!("the cache device is dead as well: {why}"))
                        .remedy("Remove the disk group, and make one of other devices"));
                }
                paths.cache.clone()
            }
        };
        if capacity.is_empty() {
            return Err(ApiError::refused(format!("no capacity device is left: {}", dead.join("; ")))
                .remedy("Remove the disk group, and make one of other devices"));
        }
        // All that stands on the group's own devices may go; the new one was looked at.
        Ok((v1::DiskGroupCreate { host: None, cache, capacity, files: None, overwrite: true }, dead))
    }

    async fn give_up(&self, id: DiskGroupId, store: Option<GroupStore<E>>) -> ApiResult<()> {
        let inner = &self.inner;
        let Some(store) = store else { return self.forget_closed(id).await };
        inner.seats.remove_disk_group(id);
        inner.leases.tell();
        if let Err(error) = inner.registry.remove::<DiskGroupEntry>(&id).await {
            inner.seats.add_disk_group(store);
            inner.leases.tell();
            return Err(crate::manage::directory_error(error));
        }
        inner.groups.borrow_mut().remove(&id);
        inner.lacking_groups.borrow_mut().remove(&id);
        if let Err(error) = store.group().retire().await {
            inner.outside.warn(format!("disk group {id} is given up, and a superblock of it may stay: {error}"));
        }
        self.save_groups()
    }

    /// Components that go with a disk group, or with a part of it, and what that is for their disks. `objects`: those that have any there,
    /// where that is known.
    async fn given_up(
        &self,
        disk_group: DiskGroupId,
        bytes: u64,
        objects: Option<BTreeSet<ObjectId>>,
        goes: impl Fn(ComponentId) -> bool,
    ) -> Loss {
        let mut loss = Loss { bytes, ..Loss::default() };
        let concerns = |object: &ObjectId| objects.as_ref().is_none_or(|objects| objects.contains(object));
        let owned = self.owned_everywhere().await;
        self.each_record(&owned, concerns, |object, entry, config| {
            let name = entry.name.as_str().to_owned();
            let Some(config) = config else { return loss.unknown.push(name) };
            let members = &config.members;
            let is_lost = |m: &Member| m.disk_group == disk_group && goes(m.component);
            let lost: Vec<_> = members.iter().filter(|m| is_lost(m)).collect();
            if lost.is_empty() {
                return;
            }
            match lost.iter().filter_map(|m| m.set()).all(|set| config.is_held_by(set, |m| !is_lost(m))) {
                true => loss.reduced.push(name),
                false => loss.last_copies.push(name),
            }
            loss.components.extend(lost.iter().map(|m| (object, entry.hint_hosts.clone(), m.component)));
        })
        .await;
        loss
    }

    fn told(&self, id: DiskGroupId, path: &str, bytes: u64, old: Option<&Old>, loss: &Loss) -> v1::DeviceChange {
        let unknown = loss
            .unknown
            .iter()
            .map(|name| format!("no host answers for disk {name}, which may have a component there"));
        v1::DeviceChange {
            host: self.server_name(self.me()),
            disk_group: id,
            device: path.to_owned(),
            size_bytes: bytes,
            usable_bytes: 0,
            instead_of: old.map(|old| old.path.clone()),
            made_anew: false,
            components_lost: loss.components.len() as u32,
            bytes_lost: loss.bytes,
            reduced: loss.reduced.clone(),
            last_copies: loss.last_copies.clone(),
            notes: unknown.collect(),
        }
    }

    /// What was on the old group does not come back: its owners need not wait for it.
    fn spawn_degrade(&self, loss: Loss) {
        let node = self.clone();
        self.inner.env.spawn(async move {
            let mut left = loss.components;
            for _ in 0..DEGRADE_TRIES {
                node.inner.env.sleep(Duration::from_secs(1)).await;
                let mut again = Vec::new();
                for (object, hints, component) in left {
                    let asked = node.to_owner(object, &hints, OwnerCommand::Degrade { component }).await;
                    if asked.is_err() {
                        again.push((object, hints, component));
                    }
                }
                left = again;
                if left.is_empty() || node.inner.stopping.get() {
                    return;
                }
            }
        });
    }
}

fn refuse_loss(loss: &Loss, force: bool) -> ApiResult<()> {
    let unknown = loss.unknown.first().map(|name| {
        let text = format!("no host answers for disk {name}, which may have a component there");
        ApiError::refused(text).remedy("Start the hosts that hold it, delete the disk, or use --force")
    });
    let last = loss.last_copies.first().map(|name| {
        let text =
            format!("the only good copy of disk {name} would be lost, or a member of its rows that it cannot spare");
        ApiError::refused(text).remedy("Wait until its other copies are filled, or use --force and lose what it holds")
    });
    match last.or(unknown).filter(|_| !force) {
        Some(refusal) => Err(refusal),
        None => Ok(()),
    }
}
