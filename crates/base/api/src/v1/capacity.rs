//! Where the bytes of devices are: of a disk group, and of the cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where the bytes of a disk group's devices are. Dead devices are not counted.
///
/// Capacity devices are `outside + stored + headers + dead + cleaner_reserve + free`. The cache device is `log + metadata`, and what
/// superblocks take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct DiskGroupSpace {
    /// What disks have there, at 4 KiB a block, also what is in the log yet.
    pub disks_bytes: u64,
    /// The same of clones: what they have of their own.
    pub clones_bytes: u64,
    /// What only snapshots have, of disks and of clones.
    pub snapshots_bytes: u64,
    /// What is of no disk that the cluster knows: it is about to be deleted, or its disk is being made.
    pub unknown_bytes: u64,
    /// Set aside for disks with reserved space, and not written yet.
    pub promised_bytes: u64,
    /// Lengths of the capacity devices.
    pub capacity_bytes: u64,
    /// Blocks that stand on them, at 4 KiB each.
    pub stored_before_bytes: u64,
    /// What these blocks take.
    pub stored_bytes: u64,
    /// What names them: 24 bytes a block.
    pub headers_bytes: u64,
    /// Overwritten, deleted, or never filled: the cleaner gives it back.
    pub dead_bytes: u64,
    /// What the cleaner needs to move blocks.
    pub cleaner_reserve_bytes: u64,
    /// Nothing stands there.
    pub free_bytes: u64,
    /// Superblocks, and ends that make no segment.
    pub outside_bytes: u64,
    /// Checksums of the blocks that stand there, in headers and in the metadata: 8 bytes a block. A part of these.
    pub checksums_bytes: u64,
    /// Length of the cache device.
    pub cache_bytes: u64,
    /// Of it the log.
    pub log_bytes: u64,
    /// Of that what is in use.
    pub log_used_bytes: u64,
    /// Of it the metadata.
    pub metadata_bytes: u64,
    /// Of that what is in use.
    pub metadata_used_bytes: u64,
}

impl DiskGroupSpace {
    /// What blocks would take without compression for each byte that they take, in hundredths; none where nothing stands there.
    pub fn saved_ratio_percent(&self) -> Option<u64> {
        (self.stored_bytes > 0).then(|| self.stored_before_bytes * 100 / self.stored_bytes)
    }

    /// What disks, clones and snapshots have, at 4 KiB a block, equal blocks each by itself.
    pub fn held_bytes(&self) -> u64 {
        self.disks_bytes + self.clones_bytes + self.snapshots_bytes + self.unknown_bytes
    }

    /// What all that is there, and all that is promised, would take without compression.
    pub fn unpacked_bytes(&self) -> u64 {
        self.held_bytes() + self.promised_bytes
    }

    /// Both together.
    pub fn with(self, other: Self) -> Self {
        Self {
            disks_bytes: self.disks_bytes + other.disks_bytes,
            clones_bytes: self.clones_bytes + other.clones_bytes,
            snapshots_bytes: self.snapshots_bytes + other.snapshots_bytes,
            unknown_bytes: self.unknown_bytes + other.unknown_bytes,
            promised_bytes: self.promised_bytes + other.promised_bytes,
            capacity_bytes: self.capacity_bytes + other.capacity_bytes,
            stored_before_bytes: self.stored_before_bytes + other.stored_before_bytes,
            stored_bytes: self.stored_bytes + other.stored_bytes,
            headers_bytes: self.headers_bytes + other.headers_bytes,
            dead_bytes: self.dead_bytes + other.dead_bytes,
            cleaner_reserve_bytes: self.cleaner_reserve_bytes + other.cleaner_reserve_bytes,
            free_bytes: self.free_bytes + other.free_bytes,
            outside_bytes: self.outside_bytes + other.outside_bytes,
            checksums_bytes: self.checksums_bytes + other.checksums_bytes,
            cache_bytes: self.cache_bytes + other.cache_bytes,
            log_bytes: self.log_bytes + other.log_bytes,
            log_used_bytes: self.log_used_bytes + other.log_used_bytes,
            metadata_bytes: self.metadata_bytes + other.metadata_bytes,
            metadata_used_bytes: self.metadata_used_bytes + other.metadata_used_bytes,
        }
    }
}

/// Where the bytes of all devices are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterCapacity {
    /// All disk groups that answered, together.
    pub space: DiskGroupSpace,
    /// What disks may be written up to: their sizes, each once, whatever the policy.
    pub provisioned_bytes: u64,
    /// Disk groups that are counted.
    pub disk_groups: u32,
    /// Disk groups of which nobody says anything now, with the reason.
    pub not_counted: Vec<String>,
}
