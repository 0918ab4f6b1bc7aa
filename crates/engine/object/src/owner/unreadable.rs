//! Blocks that no copy of an object could give.
//!
//! Promises    a block is counted from the read that failed until one succeeds or somebody writes it
//! Assumes     an owner that takes over learns of them by the next read: nothing of it is kept

use std::collections::BTreeSet;

use cairn_types::{BlockRange, ReplicaSetIndex};

/// Blocks that are remembered, at most: a device that is gone is told otherwise, and memory is bounded.
const BLOCKS_MAX: usize = 65_536;

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
        unreadable.whole_again(2, BlockRange::new(10, 4));
        unreadable.whole_again(1, BlockRange::new(0, 12));
        assert_eq!(unreadable.blocks.len(), 4);
    }
}
