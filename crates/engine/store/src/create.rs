//! Making a disk group out of devices.
//!
//! The cache device's superblock is written last: a crash before leaves devices that do not open, and are formatted
//! again.

use std::sync::Arc;

use cairn_env::{Disk, Durability, Env, PageBuf};
use cairn_format::{DeviceRole, Needs, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, encode_superblock};
use cairn_types::{ClusterId, DeviceId, DiskGroupId, HostId};

use crate::{
    disk_group::{DiskGroup, DiskGroupDevices},
    error::{StoreError, StoreErrorKind},
    meta::{Meta, RedbMeta},
    occupant::{Occupant, occupant_of},
    options::{FormatOptions, cache_regions, capacity_regions},
    rows::{self, StateRow},
};

/// Capacity devices of a disk group, at most.
pub const CAPACITY_DEVICES_MAX: usize = 7;

/// Who a new disk group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The host.
    pub host: HostId,
    /// The disk group; random, never used before.
    pub disk_group: DiskGroupId,
}

/// Writes both copies, one after the other, so that a crash leaves one.
pub(crate) async fn write_superblock<D: Disk>(disk: &D, superblock: &Superblock) -> Result<(), StoreError> {
    let bytes = PageBuf::copy_of(&encode_superblock(superblock)).freeze();
    for offset in SUPERBLOCK_OFFSETS {
        disk.write(offset, vec![bytes.clone()], Durability::Durable)
            .await
            .map_err(|e| StoreError::media("write the superblock", &e))?;
    }
    Ok(())
}

impl<E: Env> DiskGroup<E> {
    /// Makes a disk group of blank devices.
    ///
    /// # Errors
    /// [`StoreErrorKind::Formatted`] when a device holds anything and `options.force` is not set;
    /// [`StoreErrorKind::Refused`] when sizes or counts do not do; [`StoreErrorKind::Media`] when a device fails.
    /// Nothing is written unless all devices were found fit.
    pub async fn format(
        env: E,
        devices: DiskGroupDevices<E::Disk>,
        identity: Identity,
        options: &FormatOptions,
    ) -> Result<(), StoreError> {
        let count = devices.capacity.len();
        if !(1..=CAPACITY_DEVICES_MAX).contains(&count) {
            let text =
                format!("{count} capacity devices: a disk group has one cache device and 1 to 7 capacity devices");
            return Err(StoreError::new(StoreErrorKind::Refused, text));
        }
        for disk in std::iter::once(&devices.cache).chain(&devices.capacity) {
            refuse_used(&env, disk, options).await?;
        }
        let log_id = env.random_u64();
        let capacity_bytes: u64 = devices.capacity.iter().map(Disk::len_bytes).sum();
        let cache = &devices.cache;
        let regions = cache_regions(options, &cache.name(), cache.len_bytes(), capacity_bytes, log_id)?;
        let mut parts = Vec::new();
        for disk in &devices.capacity {
            parts.push(capacity_regions(options, &disk.name(), disk.len_bytes(), log_id)?);
        }
        // A cache superblock of an earlier life must not find itself among new capacity devices.
        for offset in SUPERBLOCK_OFFSETS {
            let zeroes = PageBuf::zeroed(SUPERBLOCK_BYTES as usize).freeze();
            cache
                .write(offset, vec![zeroes], Durability::Durable)
                .await
                .map_err(|e| StoreError::media("clear the superblock", &e))?;
        }
        let make = |device, device_bytes, role| Superblock {
            cluster: identity.cluster,
            host: identity.host,
            disk_group: identity.disk_group,
            device,
            device_bytes,
            generation: 1,
            role,
            needs: Needs::NONE,
        };
        let new_id = || DeviceId::from_random(env.random_u64(), env.random_u64());
        let mut ids = Vec::new();
        for (index, (disk, regions)) in devices.capacity.iter().zip(parts).enumerate() {
            let id = new_id();
            let role = DeviceRole::Capacity { regions, index: index as u8 };
            write_superblock(disk, &make(id, disk.len_bytes(), role)).await?;
            ids.push(id);
        }
        create_metadata(&env, cache.blocking(), regions.metadata_offset, regions.metadata_bytes).await?;
        let role = DeviceRole::Cache { regions, capacity: ids };
        write_superblock(cache, &make(new_id(), cache.len_bytes(), role)).await
    }
}

async fn create_metadata<E: Env>(
    env: &E,
    disk: Arc<dyn cairn_env::BlockingDisk>,
    offset: u64,
    bytes: u64,
) -> Result<(), StoreError> {
    let state = StateRow { tail: 0, durable_position: 0, damaged_at: None, next_pending: 0 };
    let row = (rows::state_key(), Some(rows::encode(&state)));
    let job = move || {
        RedbMeta::create(disk.clone(), offset, bytes)?;
        RedbMeta::open(disk, offset, bytes, false)?.commit([row].into())
    };
    let made = env.run_blocking(job).await;
    made.map_err(|e| StoreError::new(StoreErrorKind::Media, format!("make the metadata store: {e}")))
}

async fn refuse_used<E: Env>(env: &E, disk: &E::Disk, options: &FormatOptions) -> Result<(), StoreError> {
    let text = match occupant_of(env, disk).await {
        Occupant::Blank => return Ok(()),
        _ if options.force => return Ok(()),
        Occupant::Superblock(found) => format!(
            "{} belongs to disk group {} of host {} in cluster {}: remove that first, or force the format and lose what it holds",
            disk.name(),
            found.disk_group,
            found.host,
            found.cluster
        ),
        Occupant::Newer(why) => format!(
            "{} holds {why}: remove that with the release that wrote it, or force the format and lose what it holds",
            disk.name()
        ),
        Occupant::Damaged(why) => format!(
            "{} holds a damaged Cairn superblock ({why}): look at it with `cairn inspect`, or force the format",
            disk.name()
        ),
        Occupant::Data => format!(
            "{} is not blank: its first MiB holds data. Zero it, or force the format and lose what it holds",
            disk.name()
        ),
        Occupant::Unread(why) => {
            format!("what {} holds cannot be read ({why}): use another device, or force the format", disk.name())
        }
    };
    Err(StoreError::new(StoreErrorKind::Formatted, text))
}
