//! How much of what a component's blocks held before is kept, and for which snapshots.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SnapshotId;

/// Blocks of history that take space.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeptBlocks {
    /// Those that a snapshot needs.
    pub needed: u64,
    /// Of them those that only this one needs: they are free once it is deleted.
    pub by_one: BTreeMap<SnapshotId, u64>,
    /// Those that no snapshot needs any more: they are free by and by.
    pub unneeded: u64,
}

impl KeptBlocks {
    /// Counts one block that these snapshots need.
    pub fn count(&mut self, needed_by: impl IntoIterator<Item = SnapshotId>) {
        let mut needed_by = needed_by.into_iter();
        match (needed_by.next(), needed_by.next()) {
            (None, _) => self.unneeded += 1,
            (Some(only), None) => {
                self.needed += 1;
                *self.by_one.entry(only).or_default() += 1;
            }
            (Some(_), Some(_)) => self.needed += 1,
        }
    }

    /// Adds those of another part of the component.
    pub fn add(&mut self, other: Self) {
        self.needed += other.needed;
        self.unneeded += other.unneeded;
        for (snapshot, blocks) in other.by_one {
            *self.by_one.entry(snapshot).or_default() += blocks;
        }
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.needed + self.unneeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_one_needs_goes_with_it() {
        let [a, b] = [SnapshotId(1), SnapshotId(2)];
        let mut kept = KeptBlocks::default();
        kept.count([]);
        kept.count([a]);
        kept.count([a, b]);
        let mut both = kept.clone();
        kept.count([b]);
        both.add(kept.clone());
        assert_eq!((kept.needed, kept.unneeded, kept.all()), (3, 1, 4));
        assert_eq!(kept.by_one, BTreeMap::from([(a, 1), (b, 1)]));
        assert_eq!((both.needed, both.unneeded), (5, 2));
        assert_eq!(both.by_one, BTreeMap::from([(a, 2), (b, 1)]));
    }
}
