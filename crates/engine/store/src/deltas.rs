//! Entries of the block map that are durable in rows of their own and wait to be written into their leaves.
//!
//! Promises    a leaf is what its row says with its deltas over it, in their order, whatever is under way; a delta goes in the
//!             transaction that writes its leaf as a whole
//!             what waits is bounded, in entries and in bytes ([`Deltas::take_due`])
//! Assumes     one transaction at a time
//! Memory      [`BYTES_MAX`] at most; about 100 bytes an entry, and no more entries than half of the log's blocks
//! Source      deferred, sorted application of updates: O'Neil et al., The log-structured merge-tree, Acta Informatica 33, 1996
//!
//! A round of random writes changes one block in nearly every leaf that it meets. A leaf is 1.3 KB in a page of 4 KiB. So a
//! transaction writes what changed, one row beside the other. When too many entries wait, some are taken up in the order of leaves, on
//! from the last one: by the time that the hand comes by again a leaf has gathered several. With half of the log waiting and blocks
//! spread evenly over four logs, a leaf is written for every 16 blocks or so.
//!
//! Not a few leaves with each transaction but many with some: their deltas go as well, and those of one leaf lie in the pages of as many
//! transactions as wait.

use std::{
    collections::BTreeMap,
    ops::{Bound, RangeInclusive},
    sync::Arc,
};

use cairn_types::ComponentId;

use crate::leaf::{Leaf, LeafKey};

/// Part of the log's blocks that may wait: more costs memory, less writes leaves more often.
const PARTS_OF_LOG: u64 = 2;
/// Bytes of memory that what waits takes: as much as the entries for the largest log need, at 100 bytes each.
const BYTES_MAX: u64 = 512 << 20;
/// Memory of one delta beside its row: itself, the counts of its row, and its part of the list and the tree above.
const BYTES_PER_DELTA: u64 = 96;
/// Once more than that wait, this part of them is taken up.
const PARTS_FOLDED: u64 = 4;
/// Leaves that one transaction takes up, at most: some 5 MB of rows.
const FOLDED_LEAVES_MAX: usize = 4096;
/// From so many changed blocks on a leaf is written as a whole: what follows on is not taken up twice.
pub(crate) const WHOLE_FROM_BLOCKS: u32 = 16;

/// Some entries of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Of the transaction that wrote it: later ones are higher.
    pub number: u64,
    /// As [`Leaf::encode_part`] has it.
    pub row: Arc<[u8]>,
    pub entries: u32,
}

impl Delta {
    fn bytes(&self) -> u64 {
        self.row.len() as u64 + BYTES_PER_DELTA
    }
}

/// All deltas, by leaf.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    by_leaf: BTreeMap<LeafKey, Vec<Delta>>,
    entries: u64,
    /// Of memory.
    bytes: u64,
    next_number: u64,
    /// The leaf that was taken up last.
    hand: Option<LeafKey>,
}

impl Deltas {
    /// The number of the next transaction.
    pub fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Adds a delta that is durable. Those of one leaf come in the order of their numbers.
    pub fn add(&mut self, key: LeafKey, delta: Delta) {
        self.next_number = self.next_number.max(delta.number);
        self.entries += u64::from(delta.entries);
        self.bytes += delta.bytes();
        self.by_leaf.entry(key).or_default().push(delta);
    }

    /// The leaf was written as a whole, or is gone.
    pub fn remove(&mut self, key: LeafKey) {
        for delta in self.by_leaf.remove(&key).unwrap_or_default() {
            self.entries -= u64::from(delta.entries);
            self.bytes -= delta.bytes();
        }
    }

    /// The last number that was taken, or read.
    pub fn number(&self) -> u64 {
        self.next_number
    }
    /// Numbers up to this one are taken.
    pub fn load_number(&mut self, number: u64) {
        self.next_number = self.next_number.max(number);
    }

    /// Leaves of a component, among these, that have some.
    pub fn leaves_of(&self, id: ComponentId, leaves: std::ops::Range<u64>) -> Vec<u64> {
        self.by_leaf.range((id, leaves.start)..(id, leaves.end)).map(|((_, leaf), _)| *leaf).collect()
    }

    /// Those of one leaf, oldest first.
    pub fn of(&self, key: LeafKey) -> &[Delta] {
        self.by_leaf.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Every leaf that has some.
    pub fn all(&self) -> impl Iterator<Item = (LeafKey, &[Delta])> {
        self.by_leaf.iter().map(|(key, deltas)| (*key, deltas.as_slice()))
    }

    /// Leaves of a component that have some, at most `limit`.
    pub fn of_component(&self, id: ComponentId, limit: usize) -> Vec<LeafKey> {
        let all: RangeInclusive<LeafKey> = (id, 0)..=(id, u64::MAX);
        self.by_leaf.range(all).map(|(key, _)| *key).take(limit).collect()
    }

    /// Leaves to take up with a transaction that adds `blocks` entries: none, or as many as bring those that wait well below their
    /// bound: a part of `log_blocks`, and [`BYTES_MAX`]. On from those of the last time, as they have gathered most.
    pub fn take_due(&mut self, blocks: u64, log_blocks: u64) -> Vec<LeafKey> {
        let entry_bytes = self.bytes.div_ceil(self.entries.max(1)).max(1);
        let most = (log_blocks / PARTS_OF_LOG).min(BYTES_MAX / entry_bytes);
        if self.entries + blocks <= most {
            return Vec::new();
        }
        let mut over = self.entries + blocks - (most - most / PARTS_FOLDED);
        let from = self.hand.map_or(Bound::Unbounded, Bound::Excluded);
        let to = self.hand.map_or(Bound::Unbounded, Bound::Included);
        let behind = self.by_leaf.range((from, Bound::Unbounded));
        // Without a hand there is nothing before it.
        let before = self.by_leaf.range((Bound::Unbounded, to)).filter(|_| self.hand.is_some());
        let mut keys = Vec::new();
        for (&key, deltas) in behind.chain(before).take(FOLDED_LEAVES_MAX) {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(deltas.iter().map(|delta| u64::from(delta.entries)).sum());
            keys.push(key);
        }
        self.hand = keys.last().copied().or(self.hand);
        keys.sort_unstable();
        keys
    }
}

/// Puts deltas over a leaf. None when one is not readable.
pub(crate) fn put_over(leaf: &mut Leaf, deltas: &[Delta]) -> Option<()> {
    for delta in deltas {
        Leaf::decode(&delta.row)?.entries().for_each(|(block, entry)| leaf.set(block, Some(entry)));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use cairn_types::OpId;

    use super::*;
    use crate::leaf::{Entry, Spot};

    fn delta(number: u64, blocks: &[u64]) -> Delta {
        let mut leaf = Leaf::default();
        for &block in blocks {
            leaf.set(
                block,
                Some(Entry { spot: Spot::raw(number * 100 + block), crc: 0, row_check: 0, op: OpId::ZERO }),
            );
        }
        Delta { number, row: leaf.encode().into(), entries: blocks.len() as u32 }
    }

    #[test]
    fn later_deltas_lie_over_earlier_ones() {
        let mut leaf = Leaf::default();
        put_over(&mut leaf, &[delta(1, &[3, 4]), delta(2, &[4, 5])]).unwrap();
        let slots: Vec<_> = leaf.entries().map(|(block, entry)| (block, entry.spot.slot())).collect();
        assert_eq!(slots, [(3, Some(103)), (4, Some(204)), (5, Some(205))]);
        assert_eq!(put_over(&mut leaf, &[Delta { number: 3, row: vec![1, 2].into(), entries: 1 }]), None);
    }

    /// Goal: what waits stays within its bound, every leaf has its turn, and one that comes later has gathered more. Method: a hundred
    /// leaves that are changed in turns.
    #[test]
    fn the_hand_goes_round_and_the_bound_is_kept() {
        let (mut deltas, mut folded) = (Deltas::default(), BTreeMap::<u64, u32>::new());
        let log_blocks = 800;
        for at in 0..10_000u64 {
            let number = deltas.take_number();
            for key in deltas.take_due(1, log_blocks) {
                *folded.entry(key.1).or_default() += 1;
                deltas.remove(key);
            }
            deltas.add((ComponentId(1), at * 37 % 100), delta(number, &[at % 64]));
            assert!(deltas.entries <= log_blocks / PARTS_OF_LOG + 1, "{} wait", deltas.entries);
        }
        let (least, most) = (folded.values().min().unwrap(), folded.values().max().unwrap());
        assert!(folded.len() == 100 && most - least <= 3, "{least} to {most}");
        assert!(u64::from(folded.values().sum::<u32>()) * 3 < 10_000, "each time several entries");
        let counted: u64 = deltas.all().flat_map(|(_, of)| of).map(|delta| u64::from(delta.entries)).sum();
        assert_eq!(deltas.entries, counted);
    }

    /// Goal: entries that take more memory than others are fewer. Method: deltas of one entry with rows of 64 KiB, beside a log that has
    /// room for any number.
    #[test]
    fn bytes_are_bounded_too() {
        let mut deltas = Deltas::default();
        let row: Arc<[u8]> = vec![0; 64 << 10].into();
        for number in 1..20_000u64 {
            for key in deltas.take_due(1, u64::MAX) {
                deltas.remove(key);
            }
            deltas.add((ComponentId(1), number), Delta { number, row: row.clone(), entries: 1 });
            assert!(deltas.bytes <= BYTES_MAX, "{} bytes wait", deltas.bytes);
        }
        assert!(deltas.bytes > BYTES_MAX / 2);
    }
}
