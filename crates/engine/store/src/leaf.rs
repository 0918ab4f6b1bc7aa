//! The block map: where a component's blocks stand in the capacity tier, in leaves of 64 blocks.
//!
//! A leaf row takes some 20 bytes per block (slot, CRC, operation). The operation is kept so that a late record never
//! replaces a later one. The cache of leaves is bounded; what it lacks is read on a thread of its own.

use std::sync::Arc;

use cairn_format::rows::LeafRow;
use cairn_types::{ComponentId, Epoch, OpId};
use smallvec::SmallVec;

use crate::clock::ClockCache;

/// One mapped block.
pub(crate) use cairn_format::MapEntry as Entry;
pub(crate) use cairn_format::{BAD_SLOT, LEAF_BLOCKS, NO_SLOT, ZERO_SLOT, is_place};

/// A block of a leaf in memory: side by side, as most are asked for one of 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept {
    slot: u64,
    seq: u64,
    crc: u32,
    /// Which of the epochs.
    epoch: u8,
}

/// A leaf in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    blocks: [Kept; LEAF_BLOCKS as usize],
    /// Few: owners change seldom.
    epochs: SmallVec<[Epoch; 1]>,
}

impl Default for Leaf {
    fn default() -> Self {
        Self { blocks: [Kept { slot: NO_SLOT, seq: 0, crc: 0, epoch: 0 }; 64], epochs: SmallVec::new() }
    }
}

impl Leaf {
    pub fn get(&self, block: u64) -> Option<Entry> {
        let Kept { slot, seq, crc, epoch } = self.blocks[(block % LEAF_BLOCKS) as usize];
        (slot != NO_SLOT).then(|| Entry { slot, crc, op: OpId { epoch: self.epochs[epoch as usize], seq } })
    }
    pub fn set(&mut self, block: u64, entry: Option<Entry>) {
        let at = (block % LEAF_BLOCKS) as usize;
        let Some(entry) = entry else {
            self.blocks[at].slot = NO_SLOT;
            return;
        };
        let epoch = entry.op.epoch;
        // The newest is the likeliest.
        let index = self.epochs.iter().rposition(|&e| e == epoch).unwrap_or_else(|| {
            if self.epochs.len() >= 2 * LEAF_BLOCKS as usize {
                self.compact_epochs();
            }
            self.epochs.push(epoch);
            self.epochs.len() - 1
        });
        self.blocks[at] = Kept { slot: entry.slot, seq: entry.op.seq, crc: entry.crc, epoch: index as u8 };
    }
    fn compact_epochs(&mut self) {
        let mut used: Vec<Epoch> = self.entries().map(|(_, entry)| entry.op.epoch).collect();
        used.sort_unstable();
        used.dedup();
        for kept in self.blocks.iter_mut().filter(|kept| kept.slot != NO_SLOT) {
            let epoch = self.epochs[kept.epoch as usize];
            kept.epoch = used.binary_search(&epoch).expect("collected above") as u8;
        }
        self.epochs = used.into();
    }
    pub fn is_empty(&self) -> bool {
        self.blocks.iter().all(|kept| kept.slot == NO_SLOT)
    }
    /// (block within the leaf, entry) of every mapped block.
    pub fn entries(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        (0..LEAF_BLOCKS).filter_map(|b| Some((b, self.get(b)?)))
    }

    pub fn encode(&self) -> Vec<u8> {
        self.encode_part(u64::MAX)
    }

    /// The same of those blocks only whose bits are set in `part`.
    pub fn encode_part(&self, part: u64) -> Vec<u8> {
        let count = (0..LEAF_BLOCKS).filter(|&b| part >> b & 1 == 1 && self.blocks[b as usize].slot != NO_SLOT).count();
        let mut row = LeafRow {
            present: 0,
            slots: Vec::with_capacity(count),
            crcs: Vec::with_capacity(count),
            epochs: Vec::with_capacity(self.epochs.len()),
            ops: Vec::with_capacity(count),
        };
        for (block, entry) in self.entries().filter(|(block, _)| part >> block & 1 == 1) {
            row.present |= 1 << block;
            row.slots.push(entry.slot);
            row.crcs.push(entry.crc.to_le_bytes());
            let epoch = row.epochs.iter().position(|&e| e == entry.op.epoch).unwrap_or_else(|| {
                row.epochs.push(entry.op.epoch);
                row.epochs.len() - 1
            });
            row.ops.push((epoch as u8, entry.op.seq));
        }
        row.encode()
    }

    /// None when the bytes are not a leaf.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let row = LeafRow::decode(bytes)?;
        let mut leaf = Self::default();
        let blocks = (0..LEAF_BLOCKS).filter(|b| row.present >> b & 1 == 1);
        for (at, block) in blocks.enumerate() {
            let (epoch, seq) = row.ops[at];
            let op = OpId { epoch: *row.epochs.get(epoch as usize)?, seq };
            leaf.set(block, Some(Entry { slot: row.slots[at], crc: u32::from_le_bytes(row.crcs[at]), op }));
        }
        Some(leaf)
    }
}

/// Which leaf.
pub(crate) type LeafKey = (ComponentId, u64);

/// Decoded leaves.
pub(crate) type LeafCache = ClockCache<LeafKey, Arc<Leaf>>;

/// Bytes of a cached leaf with its place in the tree: what the bound is computed with.
pub(crate) const LEAF_CACHED_BYTES: u64 = 1650;

#[cfg(test)]
mod tests {
    use cairn_types::{HostId, Incarnation};

    use super::*;

    fn entry(n: u64) -> Entry {
        let epoch = Epoch { number: n % 3 + n / 100 * 5, host: HostId(1), incarnation: Incarnation(1) };
        Entry { slot: n * 7, crc: n as u32, op: OpId { epoch, seq: n } }
    }

    #[test]
    fn leaves_read_back() {
        let mut leaf = Leaf::default();
        for round in 0..20 {
            for block in (0..64).filter(|b| b % 3 != round % 3) {
                leaf.set(block, Some(entry(block + round * 100)));
            }
            leaf.set(round, None);
            assert_eq!(leaf.get(round), None);
            let back = Leaf::decode(&leaf.encode()).unwrap();
            assert!(back.entries().eq(leaf.entries()));
        }
        assert!(Leaf::default().is_empty());
        for len in 0..leaf.encode().len() {
            let _ = Leaf::decode(&leaf.encode()[..len]);
        }
    }
}
