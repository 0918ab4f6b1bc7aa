//! Where the bytes of devices are: each disk group tells of itself, and the cluster is their sum.
//!
//! Promises    every disk group that the directory knows is counted, or named with the reason
//! Assumes     the local copy of the directory knows the disks; a component of another one is of no known disk
//! Not here    the parts of a device (`store`), what one disk takes (`usage`)

use std::collections::BTreeMap;

use cairn_api::{ApiResult, v1};
use cairn_directory::CatalogueEntry;
use cairn_env::Env;
use cairn_store::{DiskGroup, StoreStats};
use cairn_types::{BLOCK_BYTES, ObjectId};

use crate::node::Node;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Disk,
    Clone,
}

/// The same of all disks.
pub(crate) type Kinds = BTreeMap<ObjectId, Kind>;

impl<E: Env> Node<E> {
    pub(crate) async fn cluster_capacity(&self) -> ApiResult<v1::ClusterCapacity> {
        let groups = self.disk_group_list().await?;
        let mut told = v1::ClusterCapacity {
            space: v1::DiskGroupSpace::default(),
            provisioned_bytes: self.catalogue().iter().map(|(_, disk)| disk.size_bytes).sum(),
            disk_groups: 0,
            not_counted: Vec::new(),
        };
        for group in groups {
            if let Some(space) = group.space {
                told.space = told.space.with(space);
                told.disk_groups += 1;
                continue;
            }
            let why = group.reason.unwrap_or_else(|| "its host does not tell".into());
            told.not_counted.push(format!("disk group {} of {}: {why}", group.id, group.host_name));
        }
        Ok(told)
    }

    /// Where the bytes of a disk group's devices are.
    pub(crate) fn group_space(&self, group: &DiskGroup<E>, stats: &StoreStats, kinds: &Kinds) -> v1::DiskGroupSpace {
        let parts = group.space();
        let mut space = v1::DiskGroupSpace {
            promised_bytes: parts.promised_blocks * BLOCK,
            capacity_bytes: parts.capacity_bytes,
            stored_before_bytes: parts.stored_blocks * BLOCK,
            stored_bytes: parts.stored_bytes,
            headers_bytes: parts.headers_bytes,
            dead_bytes: parts.dead_bytes,
            cleaner_reserve_bytes: parts.cleaner_reserve_bytes,
            free_bytes: parts.free_bytes,
            outside_bytes: parts.outside_bytes,
            // A header has one, and the map another one.
            checksums_bytes: parts.stored_blocks * 8,
            cache_bytes: stats.cache.bytes,
            log_bytes: stats.log_bytes,
            log_used_bytes: stats.log_used_bytes,
            metadata_bytes: stats.metadata_bytes,
            metadata_used_bytes: stats.metadata_used_bytes,
            ..v1::DiskGroupSpace::default()
        };
        for component in group.components() {
            let head = match kinds.get(&component.object) {
                Some(Kind::Clone) => &mut space.clones_bytes,
                Some(Kind::Disk) => &mut space.disks_bytes,
                None => &mut space.unknown_bytes,
            };
            *head += component.allocated_blocks * BLOCK;
            space.snapshots_bytes += component.history_blocks * BLOCK;
        }
        space
    }

    /// What the objects are that the local copy knows.
    pub(crate) fn kinds(&self) -> Kinds {
        let kind = |(id, disk): (ObjectId, CatalogueEntry)| match disk.clone_of {
            Some(_) => (id, Kind::Clone),
            None => (id, Kind::Disk),
        };
        self.catalogue().into_iter().map(kind).collect()
    }
}
