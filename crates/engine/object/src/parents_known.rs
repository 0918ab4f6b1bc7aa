//! What a host has in memory of snapshots that its clones are of.
//!
//! Memory      [`crate::ObjectOptions::parents_cache_bytes`]; a record for each disk with a snapshot that was read so
//! Not here    how it is read (`parents`)

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use bytes::Bytes;
use cairn_cache::ClockCache;
use cairn_types::{BLOCK_BYTES, ObjectConfig, ObjectId, SnapshotId};

use crate::locks::RangeLocks;

/// Bytes of a cached block with its place in the tree.
const CACHED_BYTES: u64 = BLOCK_BYTES as u64 + 128;
/// Units of which that is in memory, at most.
const UNITS_MAX: usize = 1 << 16;

/// What a host knows of snapshots that clones are of.
pub(crate) struct Parents {
    /// Blocks by the nearest parent. None: zeroes.
    blocks: RefCell<ClockCache<(SnapshotId, u64), Option<Bytes>>>,
    /// Whether parents have any block of a unit.
    units: RefCell<ClockCache<(SnapshotId, u64), bool>>,
    /// What is being read.
    reads: RefCell<BTreeMap<SnapshotId, RangeLocks>>,
    /// Records of disks, as they were seen last.
    known: RefCell<BTreeMap<ObjectId, Rc<ObjectConfig>>>,
}

impl Parents {
    pub(crate) fn new(cache_bytes: u64) -> Self {
        Self {
            blocks: RefCell::new(ClockCache::new((cache_bytes / CACHED_BYTES) as usize)),
            units: RefCell::new(ClockCache::new(UNITS_MAX)),
            reads: RefCell::default(),
            known: RefCell::default(),
        }
    }

    /// Memory keeps nothing of what parents have.
    pub(crate) fn clear(&self) {
        self.blocks.borrow_mut().clear();
        self.units.borrow_mut().clear();
    }

    /// A block, where it is in memory.
    pub(crate) fn cached(&self, of: SnapshotId, block: u64) -> Option<Option<Bytes>> {
        self.blocks.borrow_mut().get((of, block)).cloned()
    }

    /// A block was read.
    pub(crate) fn keep(&self, of: SnapshotId, block: u64, bytes: Option<Bytes>) {
        self.blocks.borrow_mut().insert((of, block), bytes);
    }

    /// Whoever reads some of a snapshot has its blocks locked.
    pub(crate) fn reads(&self, of: SnapshotId) -> RangeLocks {
        self.reads.borrow_mut().entry(of).or_default().clone()
    }

    /// Whether parents have any block of a unit, where that is known.
    pub(crate) fn unit(&self, of: SnapshotId, unit: u64) -> Option<bool> {
        self.units.borrow_mut().get((of, unit)).copied()
    }

    /// It is known now.
    pub(crate) fn keep_unit(&self, of: SnapshotId, unit: u64, any: bool) {
        self.units.borrow_mut().insert((of, unit), any);
    }

    /// The record of a disk, as it was seen last.
    pub(crate) fn record(&self, object: ObjectId) -> Option<Rc<ObjectConfig>> {
        self.known.borrow().get(&object).cloned()
    }

    /// It was seen.
    pub(crate) fn keep_record(&self, object: ObjectId, config: Rc<ObjectConfig>) {
        self.known.borrow_mut().insert(object, config);
    }
}
