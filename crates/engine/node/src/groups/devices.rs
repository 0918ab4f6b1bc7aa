//! Devices by their superblocks: names change from start to start, what stands on a device does not.

use cairn_env::{BlockDevice, Env};
use cairn_format::{DeviceRole, NO_DEVICE, Superblock};
use cairn_store::{Occupant, occupant_of};
use cairn_types::DiskGroupId;

use super::names::{is_called, stable_path};
use crate::{
    node::Node,
    outside::{DeviceError, GroupPaths},
};

/// What was found under a name. The device is locked for as long as this is there.
pub(super) struct Seen<D> {
    pub(super) path: String,
    pub(super) found: Result<(D, Occupant), DeviceError>,
}

impl<D> Seen<D> {
    /// The superblock on it, where there is a sound one.
    pub(super) fn superblock(&self) -> Option<&Superblock> {
        match &self.found {
            Ok((_, Occupant::Superblock(superblock))) => Some(superblock),
            _ => None,
        }
    }

    /// What is wrong with it as a device of `disk_group`, for people.
    pub(super) fn complaint(&self, disk_group: DiskGroupId) -> String {
        let path = &self.path;
        match &self.found {
            Err(error) => error.text.clone(),
            Ok((_, Occupant::Blank)) => format!("{path} is blank"),
            Ok((_, Occupant::Data)) => format!("{path} holds what is not Cairn's"),
            Ok((_, Occupant::Newer(why))) => format!("{path} holds {why}"),
            Ok((_, Occupant::Damaged(why) | Occupant::Unread(why))) => {
                format!("{path} has no sound superblock ({why})")
            }
            Ok((_, Occupant::Superblock(found))) if found.disk_group == disk_group => {
                format!("{path} is an earlier device of this disk group")
            }
            Ok((_, Occupant::Superblock(found))) => format!("{path} belongs to disk group {}", found.disk_group),
        }
    }
}

/// What stands on a device that is neither blank nor has a superblock, in words. `signature`: what is known of others.
pub(super) fn stranger(path: &str, signature: &Result<Option<String>, String>, found: &Occupant) -> Option<String> {
    Some(match (signature, found) {
        (Ok(Some(what)), _) => format!("{path} holds {what}"),
        (Err(why), _) => why.clone(),
        (Ok(None), Occupant::Blank | Occupant::Superblock(_)) => return None,
        (Ok(None), Occupant::Damaged(why)) => format!("{path} holds a damaged Cairn superblock ({why})"),
        (Ok(None), Occupant::Newer(why)) => format!("{path} holds {why}"),
        (Ok(None), Occupant::Unread(why)) => format!("what {path} holds cannot be read ({why})"),
        (Ok(None), Occupant::Data) => format!("{path} is not blank: its first MiB holds data of an unknown kind"),
    })
}

/// The devices of a disk group, each with its present name, in the order of its cache device's superblock.
pub(super) struct Arranged<D> {
    pub(super) superblock: Superblock,
    pub(super) cache: (String, D),
    pub(super) capacity: Vec<Option<(String, D)>>,
}

impl<D> Arranged<D> {
    pub(super) fn is_whole(&self) -> bool {
        let DeviceRole::Cache { capacity: ids, .. } = &self.superblock.role else { unreachable!("a cache device") };
        ids.iter().zip(&self.capacity).all(|(id, found)| *id == NO_DEVICE || found.is_some())
    }

    /// Whether a device of this name is one of them.
    pub(super) fn has(&self, path: &str) -> bool {
        self.cache.0 == path || self.capacity.iter().flatten().any(|(found, _)| found == path)
    }

    /// The present names. Where a device is not there, a name of `before` that no other device has: it is looked for there.
    pub(super) fn paths(&self, before: &[String]) -> GroupPaths {
        let mut free = before.iter().filter(|path| !self.has(path));
        let DeviceRole::Cache { capacity: ids, .. } = &self.superblock.role else { unreachable!("a cache device") };
        // What was given up is not among them.
        let present = ids.iter().zip(&self.capacity).filter(|(id, _)| **id != NO_DEVICE);
        let capacity = present.clone().map(|(_, found)| match found {
            Some((path, _)) => path.clone(),
            None => free.next().cloned().unwrap_or_default(),
        });
        GroupPaths {
            disk_group: self.superblock.disk_group,
            cache: self.cache.0.clone(),
            capacity: capacity.collect(),
            devices: std::iter::once(self.superblock.device).chain(present.map(|(id, _)| *id)).collect(),
            asked: Vec::new(),
        }
    }
}

/// The devices of `disk_group` among those seen; none where its cache device is not among them.
pub(super) fn arrange<D: Clone>(seen: &[Seen<D>], disk_group: DiskGroupId) -> Option<Arranged<D>> {
    let of_group = |seen: &Seen<D>| {
        let superblock = seen.superblock().filter(|found| found.disk_group == disk_group)?.clone();
        let disk = seen.found.as_ref().ok()?.0.clone();
        Some((seen.path.clone(), disk, superblock))
    };
    let found: Vec<(String, D, Superblock)> = seen.iter().filter_map(of_group).collect();
    let is_cache = |superblock: &Superblock| matches!(superblock.role, DeviceRole::Cache { .. });
    let (path, disk, superblock) = found.iter().find(|(.., superblock)| is_cache(superblock))?.clone();
    let DeviceRole::Cache { capacity: ids, .. } = &superblock.role else { return None };
    let capacity = ids.iter().map(|id| {
        let device = found.iter().find(|(.., found)| found.device == *id && !is_cache(found));
        device.map(|(path, disk, _)| (path.clone(), disk.clone()))
    });
    Some(Arranged { cache: (path, disk), capacity: capacity.collect(), superblock })
}

impl<E: Env> Node<E> {
    /// Opens a device and looks at what stands on it.
    pub(super) async fn look_at(&self, path: &str) -> Seen<E::Disk> {
        let found = match self.inner.outside.open_device(path.to_owned()).await {
            Ok(disk) => {
                let occupant = occupant_of(&self.inner.env, &disk).await;
                Ok((disk, occupant))
            }
            Err(error) => Err(error),
        };
        Seen { path: path.to_owned(), found }
    }

    /// What these devices are called at every start. Those without such a name, files among them, are called as they are.
    pub(super) async fn stable_paths(&self, paths: impl Iterator<Item = &String>) -> Vec<String> {
        // A machine that cannot list them has no other names.
        let devices = self.inner.outside.block_devices().await.unwrap_or_default();
        let stable = |path: &String| {
            let device = devices.iter().find(|device| device.path == *path);
            device.and_then(stable_path).unwrap_or(path).clone()
        };
        paths.map(stable).collect()
    }

    /// Devices of a disk group among all of this machine, whatever they are called. A device that is not the group's is looked at again
    /// when it is another one: those that sleep sleep on.
    pub(super) async fn look_everywhere(&self, id: DiskGroupId, seen: &[Seen<E::Disk>]) -> Vec<Seen<E::Disk>> {
        let devices = self.inner.outside.block_devices().await.unwrap_or_default();
        let passed = self.inner.passed_over.borrow_mut().remove(&id).unwrap_or_default();
        let (mut found, mut pass) = (Vec::new(), Vec::new());
        for device in devices {
            let device = BlockDevice { temperature_c: None, wear_percent: None, ..device };
            let path = stable_path(&device).unwrap_or(&device.path).clone();
            let is_seen = seen.iter().any(|seen| seen.found.is_ok() && is_called(&device, &seen.path));
            let is_used = !device.users.is_empty() || !device.partitions.is_empty();
            if is_seen || is_used || self.is_open_here(&device) {
                continue;
            }
            if passed.contains(&device) {
                pass.push(device);
                continue;
            }
            match self.peek_at(&path).await {
                Ok((_, Occupant::Superblock(known))) if known.disk_group == id => found.push(self.look_at(&path).await),
                Ok(_) => pass.push(device),
                // It may answer the next time.
                Err(_) => {}
            }
        }
        self.inner.passed_over.borrow_mut().insert(id, pass);
        found
    }

    /// Whether an open disk group of this host has the device.
    fn is_open_here(&self, device: &BlockDevice) -> bool {
        self.inner.groups.borrow().values().flat_map(GroupPaths::all).any(|path| is_called(device, path))
    }

    pub(super) async fn look_at_all(&self, paths: impl Iterator<Item = &String>) -> Vec<Seen<E::Disk>> {
        let mut seen = Vec::new();
        for path in paths {
            seen.push(self.look_at(path).await);
        }
        seen
    }
}
