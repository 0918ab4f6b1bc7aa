//! Blocks that no copy of an object could give.
//!
//! Promises    a block is counted from the read that failed until one succeeds or somebody writes it
//! Assumes     an owner that takes over learns of them by the next read: nothing of it is kept

use std::{collections::BTreeSet, fmt};

use cairn_types::{BlockRange, DiskGroupId, HostId, ReplicaSetIndex};

/// Blocks that are remembered, at most: a device that is gone is told otherwise, and memory is bounded.
const BLOCKS_MAX: usize = 65_536;

/// Blocks that no copy in sync can give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) set: ReplicaSetIndex,
    pub(crate) blocks: Vec<BlockRange>,
    /// Where the copies are that were asked.
    pub(crate) copies: Vec<(HostId, DiskGroupId)>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks: u32 = self.blocks.iter().map(|range| range.count).sum();
        write!(f, "{blocks} blocks of replica set {} are bad on every reachable copy", self.set)
    }
}

/// The blocks, by replica set.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    pub(crate) blocks: BTreeSet<(ReplicaSetIndex, u64)>,
}

impl Unreadable {
    /// These cannot be read. Returns how many of them were not known.
    pub(crate) fn lost(&mut self, set: ReplicaSetIndex, ranges: impl Iterator<Item = BlockRange>) -> u64 {
        let before = self.blocks.len();
        for block in ranges.flat_map(|range| range.first..range.end()) {
            if self.blocks.len() < BLOCKS_MAX {
                self.blocks.insert((set, block));
            }
        }
        (self.blocks.len() - before) as u64
    }

    /// Whether all of these are known.
    pub(crate) fn has(&self, set: ReplicaSetIndex, range: BlockRange) -> bool {
        (range.first..range.end()).all(|block| self.blocks.contains(&(set, block)))
    }

    /// Those of a set, ascending.
    pub(crate) fn of(&self, set: ReplicaSetIndex) -> Vec<u64> {
        self.blocks.range((set, 0)..=(set, u64::MAX)).map(|(_, block)| *block).collect()
    }

    /// These were written, or read.
    pub(crate) fn whole_again(&mut self, set: ReplicaSetIndex, range: BlockRange) {
        // Each write and read comes here: what it costs is the blocks that are whole again, not all that are known.
        while let Some(&known) = self.blocks.range((set, range.first)..(set, range.end())).next() {
            self.blocks.remove(&known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_once_until_they_are_whole_again() {
        let mut unreadable = Unreadable::default();
        assert_eq!(unreadable.lost(1, [BlockRange::new(10, 4), BlockRange::new(12, 4)].into_iter()), 6);
        assert_eq!(unreadable.lost(1, [BlockRange::new(10, 4)].into_iter()), 0);
        assert!(unreadable.has(1, BlockRange::new(15, 1)) && !unreadable.has(1, BlockRange::new(15, 2)));
        assert!(!unreadable.has(2, BlockRange::new(15, 1)));
        unreadable.whole_again(2, BlockRange::new(10, 4));
        unreadable.whole_again(1, BlockRange::new(0, 12));
        assert_eq!(unreadable.blocks.len(), 4);
    }
}
