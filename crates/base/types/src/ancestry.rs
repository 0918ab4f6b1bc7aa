//! What a clone has of others: the snapshots that its unwritten blocks are of.

use serde::{Deserialize, Serialize};

use crate::{BLOCK_BYTES, ObjectId, SnapshotId};

/// Snapshots that a block of a clone is looked for in, one behind the other, at most.
pub const PARENTS_MAX: usize = 4;

/// A snapshot of another disk, which has what a clone does not hold itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The disk.
    pub object: ObjectId,
    /// Its snapshot.
    pub snapshot: SnapshotId,
    /// Bytes of that disk then: beyond them it has zeroes.
    pub size_bytes: u64,
}

impl Parent {
    /// Whole blocks of it, the last one perhaps partly used.
    pub fn size_blocks(&self) -> u64 {
        self.size_bytes.div_ceil(u64::from(BLOCK_BYTES))
    }
}

/// Where a disk came from that was made of a snapshot.
///
/// One that was a clone once keeps it, without parents: a guest's request that is repeated is divided as it was before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ancestry {
    /// The nearest first. A block that none of the copies of the disk has allocated is of the first one that has.
    pub parents: Vec<Parent>,
    /// What is of parents is being copied; when all is, they go.
    pub flattens: bool,
}

impl Ancestry {
    /// Whether it can be so: no more than there may be, each once.
    pub fn is_sound(&self) -> bool {
        let all = &self.parents;
        let alone = |n: usize| all[..n].iter().all(|other| other.snapshot != all[n].snapshot);
        all.len() <= PARENTS_MAX && (0..all.len()).all(alone) && (!self.flattens || !all.is_empty())
    }
}
