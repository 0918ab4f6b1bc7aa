//! The block devices of this host as an administrator has to see them: free, claimed, or not to be used and why.
//!
//! Promises    looking writes nothing, locks nothing, and waits for no device longer than [`LOOK_MAX`]
//!             a device that is called free is taken by `disk-group create`, unless something comes onto it meanwhile
//! Assumes     the local copy of the directory knows the disk groups of this server's other shards
//! Not here    where the system says what it has (`real`)

use std::{collections::BTreeSet, pin::pin, time::Duration};

use cairn_api::{
    ApiError, ApiResult,
    v1::{HostDevice, HostDeviceRole, HostDeviceState},
};
use cairn_directory::DiskGroupEntry;
use cairn_env::{BlockDevice, Env};
use cairn_format::{NO_DEVICE, Superblock};
use cairn_store::{Occupant, capacity_bytes_min, occupant_of};
use cairn_types::{ClusterId, DeviceId, DiskGroupId, HostId, format_bytes};
use cairn_wire::{Api, HostAnswer, HostCommand};
use futures::future::{Either, join_all, select};

use super::{
    devices::{Seen, stranger},
    names::{is_called, stable_path},
};
use crate::{closed_group::ClosedGroup, node::Node};

/// A sound device answers in milliseconds, one that sleeps in some seconds.
const LOOK_MAX: Duration = Duration::from_secs(10);
/// Devices that are looked at together.
const LOOKS: usize = 8;

/// A device that a disk group of this server has, by what is remembered of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) disk_group: DiskGroupId,
    role: HostDeviceRole,
    device: DeviceId,
    pub(super) path: String,
    bytes: u64,
}

/// A device, and what was found on it.
struct Looked {
    device: BlockDevice,
    /// None where somebody uses it: then nobody looks. An error: it does not open, or does not answer.
    occupant: Option<Result<Occupant, String>>,
    /// Of others than Cairn, as far as it was asked for.
    signature: Result<Option<String>, String>,
}

impl Looked {
    fn superblock(&self) -> Option<&Superblock> {
        match &self.occupant {
            Some(Ok(Occupant::Superblock(found))) => Some(found),
            _ => None,
        }
    }
    /// It was looked at, and what stands on it could not be read.
    fn is_unread(&self) -> bool {
        matches!(&self.occupant, Some(Err(_) | Ok(Occupant::Unread(_) | Occupant::Damaged(_))))
    }
}

/// Whose the devices are.
struct Owner<'a> {
    cluster: ClusterId,
    shards: &'a [HostId],
    name_of: &'a dyn Fn(HostId) -> String,
    bytes_min: u64,
}

fn told(looked: &Looked, state: HostDeviceState, claim: Option<&Claim>, reason: Option<String>) -> HostDevice {
    let device = &looked.device;
    HostDevice {
        path: device.path.clone(),
        stable_path: stable_path(device).cloned(),
        size_bytes: device.len_bytes,
        model: device.model.clone(),
        serial: device.serial.clone(),
        rotational: device.rotates,
        state,
        disk_group: claim.map(|claim| claim.disk_group),
        role: claim.map(|claim| claim.role),
        reason,
        temperature_c: device.temperature_c,
        wear_percent: device.wear_percent,
    }
}

/// Every device with its state, and the claims that no device answers to. What stands on a device decides, then its name.
fn judge(all: &[Looked], mut claims: Vec<Claim>, owner: &Owner<'_>) -> (Vec<HostDevice>, Vec<Claim>) {
    let known: BTreeSet<DiskGroupId> = claims.iter().map(|claim| claim.disk_group).collect();
    let mut take = |is_it: &dyn Fn(&Claim) -> bool| {
        let at = claims.iter().position(is_it)?;
        Some(claims.remove(at))
    };
    let by_superblock: Vec<Option<Claim>> = all
        .iter()
        .map(|looked| {
            let found = looked.superblock()?;
            if found.cluster != owner.cluster {
                return None;
            }
            take(&|claim| claim.disk_group == found.disk_group && claim.device == found.device)
        })
        .collect();
    let mut devices = Vec::new();
    for (looked, claim) in all.iter().zip(by_superblock) {
        if let Some(claim) = claim {
            devices.push(told(looked, HostDeviceState::Claimed, Some(&claim), None));
            continue;
        }
        let by_name = match looked.is_unread() {
            true => take(&|claim| is_called(&looked.device, &claim.path)),
            false => None,
        };
        let reason = obstacle(looked, &known, owner);
        let state = match (&by_name, &reason) {
            (Some(_), _) => HostDeviceState::Claimed,
            (None, Some(_)) => HostDeviceState::Unusable,
            (None, None) => HostDeviceState::Free,
        };
        devices.push(told(looked, state, by_name.as_ref(), reason));
    }
    (devices, claims)
}

/// Why no disk group can be made on a device.
fn obstacle(looked: &Looked, known: &BTreeSet<DiskGroupId>, owner: &Owner<'_>) -> Option<String> {
    let device = &looked.device;
    if !device.users.is_empty() {
        return Some(format!("in use: {}", device.users.join(", ")));
    }
    if !device.partitions.is_empty() {
        return Some(format!("has partitions: {}", device.partitions.join(", ")));
    }
    if device.is_read_only {
        return Some("read-only".into());
    }
    if device.len_bytes < owner.bytes_min {
        return Some(format!("too small: a capacity device has at least {}", format_bytes(owner.bytes_min)));
    }
    let occupant = match looked.occupant.as_ref()? {
        Err(why) => return Some(why.clone()),
        Ok(Occupant::Superblock(found)) => return Some(whose(found, known, owner)),
        Ok(occupant) => occupant,
    };
    stranger(&device.path, &looked.signature, occupant)
}

/// Whose device it is by its superblock, where it is none of this server's.
fn whose(found: &Superblock, known: &BTreeSet<DiskGroupId>, owner: &Owner<'_>) -> String {
    let id = found.disk_group;
    if found.cluster != owner.cluster {
        format!("holds disk group {id} of another cluster, {}", found.cluster)
    } else if known.contains(&id) {
        format!("is no device of disk group {id} any more, or not yet")
    } else if owner.shards.contains(&found.host) {
        format!("holds disk group {id}, which this host has not")
    } else {
        format!("holds disk group {id} of host {}", (owner.name_of)(found.host))
    }
}

impl<E: Env> Node<E> {
    /// The block devices of a host.
    pub(crate) async fn host_devices(&self, host: String) -> ApiResult<Vec<HostDevice>> {
        let server = self.find_host(&host)?;
        if server != self.me() {
            self.knows_devices()?;
        }
        match self.on_host(server, HostCommand::Devices).await? {
            HostAnswer::Devices(Api(devices)) => Ok(devices),
            _ => Err(ApiError::internal(format!("host {host} answered something else"))),
        }
    }

    /// Those of this machine, and files that serve as devices.
    pub(crate) async fn devices_here(&self) -> ApiResult<Vec<HostDevice>> {
        let inner = &self.inner;
        let devices = inner.outside.block_devices().await.map_err(ApiError::internal)?;
        let mut looked = Vec::new();
        for some in devices.chunks(LOOKS) {
            looked.extend(join_all(some.iter().map(|device| self.look_over(device.clone()))).await);
        }
        let shards = self.shards_of(self.server_of(self.me()));
        let owner = Owner {
            cluster: inner.options.cluster,
            shards: &shards,
            name_of: &|host| self.server_name(host),
            bytes_min: capacity_bytes_min(&inner.options.store_format),
        };
        let (mut told, left) = judge(&looked, self.claims(&shards), &owner);
        told.extend(join_all(left.into_iter().map(|claim| self.tell_unlisted(claim))).await);
        Ok(told)
    }

    /// What the disk groups of this server have, by what they remember.
    pub(super) fn claims(&self, shards: &[HostId]) -> Vec<Claim> {
        let entries = self.inner.copy.borrow().list::<DiskGroupEntry>();
        let mut claims = Vec::new();
        for (disk_group, entry) in entries.into_iter().filter(|(_, entry)| shards.contains(&entry.host)) {
            for (n, device) in entry.devices.into_iter().enumerate() {
                let (device, path, bytes) = (device.device, device.path, device.bytes);
                claims.push(Claim { disk_group, role: role(n), device, path, bytes });
            }
        }
        let mut own: Vec<_> = self.inner.groups.borrow().values().cloned().collect();
        own.extend(self.inner.closed_groups.borrow().values().filter_map(ClosedGroup::known).cloned());
        // This host's own list is newer than its copy of the directory.
        for paths in own {
            let known = paths.all().zip(&paths.devices).enumerate();
            for (n, (path, device)) in known.filter(|(_, (_, device))| **device != NO_DEVICE) {
                let entered = claims.iter().position(|c| c.disk_group == paths.disk_group && c.device == *device);
                let bytes = entered.map_or(0, |at| claims.swap_remove(at).bytes);
                let (disk_group, role) = (paths.disk_group, role(n));
                claims.push(Claim { disk_group, role, device: *device, path: path.clone(), bytes });
            }
        }
        claims.sort_by(|a, b| (a.disk_group, a.role as u8, &a.path).cmp(&(b.disk_group, b.role as u8, &b.path)));
        claims
    }

    async fn look_over(&self, device: BlockDevice) -> Looked {
        if !device.users.is_empty() || !device.partitions.is_empty() {
            return Looked { device, occupant: None, signature: Ok(None) };
        }
        let occupant = self.peek_at(&device.path).await.map(|(_, occupant)| occupant);
        let signature = match &occupant {
            Ok(Occupant::Blank | Occupant::Data) => self.inner.outside.signature(device.path.clone()).await,
            _ => Ok(None),
        };
        Looked { device, occupant: Some(occupant), signature }
    }

    /// What stands on a device, whoever uses it, and its size.
    pub(super) async fn peek_at(&self, path: &str) -> Result<(u64, Occupant), String> {
        use cairn_env::Disk;
        let env = self.inner.env.clone();
        let opened = self.inner.outside.peek(path.to_owned());
        let look = async move {
            let disk = opened.await.map_err(|error| error.text)?;
            Ok((disk.len_bytes(), occupant_of(&env, &disk).await))
        };
        match select(pin!(look), self.inner.env.sleep(LOOK_MAX)).await {
            Either::Left((found, _)) => found,
            Either::Right(_) => Err(format!("{path} does not answer within {} s", LOOK_MAX.as_secs())),
        }
    }

    /// A device of a disk group that is not among the block devices: a file, or one that is gone.
    async fn tell_unlisted(&self, claim: Claim) -> HostDevice {
        let found = self.peek_at(&claim.path).await;
        let size_bytes = found.as_ref().map_or(claim.bytes, |(bytes, _)| *bytes);
        let reason = match found {
            Ok((_, Occupant::Superblock(found))) if found.device == claim.device => None,
            Ok((_, occupant)) => {
                let seen = Seen::<()> { path: claim.path.clone(), found: Ok(((), occupant)) };
                Some(format!("not found: {}", seen.complaint(claim.disk_group)))
            }
            Err(why) => Some(why),
        };
        let device = BlockDevice { path: claim.path.clone(), len_bytes: size_bytes, ..BlockDevice::default() };
        let looked = Looked { device, occupant: None, signature: Ok(None) };
        told(&looked, HostDeviceState::Claimed, Some(&claim), reason)
    }
}

fn role(number: usize) -> HostDeviceRole {
    if number == 0 { HostDeviceRole::Cache } else { HostDeviceRole::Capacity }
}

#[cfg(test)]
mod tests {
    use cairn_format::{CapacityRegions, DeviceRole, Needs};

    use super::*;

    const HERE: HostId = HostId(1);
    const GROUP: DiskGroupId = DiskGroupId(3);

    fn superblock(cluster: u128, host: HostId, disk_group: DiskGroupId, device: u128) -> Occupant {
        let regions = CapacityRegions { segments_offset: 1 << 20, segment_count: 8, segment_bytes: 4 << 20, log_id: 1 };
        Occupant::Superblock(Box::new(Superblock {
            cluster: ClusterId(cluster),
            host,
            disk_group,
            device: DeviceId(device),
            device_bytes: 1 << 30,
            generation: 1,
            role: DeviceRole::Capacity { regions, index: 0 },
            needs: Needs::NONE,
        }))
    }

    fn looked(path: &str, occupant: Option<Result<Occupant, String>>) -> Looked {
        let device = BlockDevice { path: path.into(), len_bytes: 1 << 40, ..BlockDevice::default() };
        Looked { device, occupant, signature: Ok(None) }
    }

    fn claim(device: u128, path: &str) -> Claim {
        let (role, device) = (HostDeviceRole::Capacity, DeviceId(device));
        Claim { disk_group: GROUP, role, device, path: path.into(), bytes: 7 }
    }

    fn judged(all: &[Looked], claims: Vec<Claim>) -> (Vec<HostDevice>, Vec<Claim>) {
        let name_of = |host: HostId| format!("h{}", { host.0 });
        let owner = Owner { cluster: ClusterId(1), shards: &[HERE], name_of: &name_of, bytes_min: 1 << 30 };
        judge(all, claims, &owner)
    }

    /// Goal: each device has one state, with the reason. Method: one of each kind.
    #[test]
    fn each_device_is_told_as_what_it_is() {
        let with = |path: &str, change: &dyn Fn(&mut BlockDevice)| {
            let mut looked = looked(path, Some(Ok(Occupant::Blank)));
            change(&mut looked.device);
            looked
        };
        let table = [
            (looked("/free", Some(Ok(Occupant::Blank))), "free", ""),
            (looked("/data", Some(Ok(Occupant::Data))), "unusable", "data of an unknown kind"),
            (
                Looked { signature: Ok(Some("ext4 (filesystem)".into())), ..looked("/fs", Some(Ok(Occupant::Data))) },
                "unusable",
                "holds ext4",
            ),
            (looked("/dead", Some(Err("does not answer".into()))), "unusable", "does not answer"),
            (with("/used", &|d| d.users = vec!["a mount at /home".into()]), "unusable", "in use: a mount at /home"),
            (with("/parts", &|d| d.partitions = vec!["/parts1".into()]), "unusable", "has partitions: /parts1"),
            (with("/ro", &|d| d.is_read_only = true), "unusable", "read-only"),
            (with("/small", &|d| d.len_bytes = 1 << 20), "unusable", "too small"),
            (looked("/c", Some(Ok(superblock(2, HERE, GROUP, 5)))), "unusable", "another cluster"),
            (looked("/h", Some(Ok(superblock(1, HostId(9), DiskGroupId(8), 5)))), "unusable", "of host h9"),
            (looked("/gone", Some(Ok(superblock(1, HERE, DiskGroupId(8), 5)))), "unusable", "which this host has not"),
            (looked("/old", Some(Ok(superblock(1, HERE, GROUP, 6)))), "unusable", "any more, or not yet"),
            (looked("/own", Some(Ok(superblock(1, HERE, GROUP, 5)))), "claimed", ""),
        ];
        let (all, wanted): (Vec<Looked>, Vec<(&str, &str)>) =
            table.into_iter().map(|(looked, state, reason)| (looked, (state, reason))).unzip();
        let (devices, left) = judged(&all, vec![claim(5, "/elsewhere")]);
        assert!(left.is_empty(), "{left:?}");
        for (device, (state, reason)) in devices.iter().zip(wanted) {
            let now = format!("{:?}", device.state).to_lowercase();
            let said = device.reason.clone().unwrap_or_default();
            assert!(now == state && said.contains(reason) && said.is_empty() == reason.is_empty(), "{device:?}");
        }
    }

    /// Goal: a device that cannot be read is still its group's, a blank one with the name of another is not. Method: both under the
    /// remembered name.
    #[test]
    fn a_name_counts_only_where_nothing_can_be_read() {
        let dead = looked("/dev/sdb", Some(Ok(Occupant::Unread("input/output error".into()))));
        let (devices, left) = judged(&[dead], vec![claim(5, "/dev/sdb")]);
        assert_eq!((devices[0].state, devices[0].disk_group, left.len()), (HostDeviceState::Claimed, Some(GROUP), 0));
        assert!(devices[0].reason.as_ref().is_some_and(|why| why.contains("input/output error")), "{devices:?}");
        let other = looked("/dev/sdb", Some(Ok(Occupant::Blank)));
        let (devices, left) = judged(&[other], vec![claim(5, "/dev/sdb")]);
        assert_eq!((devices[0].state, left.len()), (HostDeviceState::Free, 1));
    }
}
