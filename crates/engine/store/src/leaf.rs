//! The block map: where a component's blocks stand in the capacity tier, in leaves of 64 blocks.
//!
//! A leaf row takes some 20 bytes per block (slot, CRC, operation). The operation is kept so that a late record never
//! replaces a later one. The cache of leaves is bounded; what it lacks is read on a thread of its own. Rows have no parity: that comes
//! to a group whose map is in pages, or goes over to them with each change.

use std::sync::Arc;

use cairn_format::rows::LeafRow;
use cairn_types::{ComponentId, Epoch, OpId};

use cairn_cache::ClockCache;

/// One mapped block.
pub(crate) use cairn_format::MapEntry as Entry;
pub(crate) use cairn_format::{LEAF_BLOCKS, Spot};

/// A block of a leaf in memory: side by side, as most are asked for one of 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept {
    spot: Spot,
    seq: u64,
    crc: u32,
    /// Which of the epochs.
    epoch: u8,
}

/// A leaf in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    blocks: [Kept; LEAF_BLOCKS as usize],
    /// Mostly the only one: owners change seldom.
    epoch: Epoch,
    rare: Option<Box<Rare>>,
}

/// What few leaves have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Rare {
    /// Epochs after the first.
    epochs: Vec<Epoch>,
    /// Of those of its blocks that are parity.
    row_checks: Option<Box<[u32; LEAF_BLOCKS as usize]>>,
}

impl Default for Leaf {
    fn default() -> Self {
        let blocks = [Kept { spot: Spot::NONE, seq: 0, crc: 0, epoch: 0 }; LEAF_BLOCKS as usize];
        Self { blocks, epoch: Epoch::default(), rare: None }
    }
}

impl Leaf {
    pub fn get(&self, block: u64) -> Option<Entry> {
        let at = (block % LEAF_BLOCKS) as usize;
        let Kept { spot, seq, crc, epoch } = self.blocks[at];
        let row_checks = self.rare.as_ref().and_then(|rare| rare.row_checks.as_ref());
        let row_check = row_checks.map_or(0, |checks| checks[at]);
        (spot != Spot::NONE).then(|| Entry { spot, crc, row_check, op: OpId { epoch: self.epoch(epoch), seq } })
    }
    pub fn set(&mut self, block: u64, entry: Option<Entry>) {
        let at = (block % LEAF_BLOCKS) as usize;
        self.set_row_check(at, entry.map_or(0, |entry| entry.row_check));
        let Some(entry) = entry else {
            self.blocks[at].spot = Spot::NONE;
            return;
        };
        let epoch = self.number_of(entry.op.epoch);
        self.blocks[at] = Kept { spot: entry.spot, seq: entry.op.seq, crc: entry.crc, epoch };
    }
    fn set_row_check(&mut self, at: usize, row_check: u32) {
        if row_check != 0 {
            let rare = self.rare.get_or_insert_default();
            rare.row_checks.get_or_insert_with(|| Box::new([0; LEAF_BLOCKS as usize]))[at] = row_check;
        } else if let Some(checks) = self.rare.as_mut().and_then(|rare| rare.row_checks.as_mut()) {
            checks[at] = 0;
        }
    }
    fn epoch(&self, number: u8) -> Epoch {
        match number {
            0 => self.epoch,
            _ => self.rare.as_ref().expect("it was put there").epochs[usize::from(number) - 1],
        }
    }
    fn number_of(&mut self, epoch: Epoch) -> u8 {
        // The newest is the likeliest.
        let later = self.rare.as_ref().and_then(|rare| rare.epochs.iter().rposition(|&known| known == epoch));
        if let Some(found) = later {
            return found as u8 + 1;
        }
        if self.epoch != epoch && self.blocks.iter().all(|kept| kept.spot == Spot::NONE || kept.epoch != 0) {
            self.epoch = epoch;
        }
        if self.epoch == epoch {
            return 0;
        }
        if self.rare.get_or_insert_default().epochs.len() + 1 >= 2 * LEAF_BLOCKS as usize {
            self.compact_epochs();
        }
        let epochs = &mut self.rare.get_or_insert_default().epochs;
        epochs.push(epoch);
        epochs.len() as u8
    }
    fn compact_epochs(&mut self) {
        let mut used: Vec<Epoch> = self.entries().map(|(_, entry)| entry.op.epoch).collect();
        used.sort_unstable();
        used.dedup();
        for at in (0..self.blocks.len()).filter(|at| self.blocks[*at].spot != Spot::NONE).collect::<Vec<_>>() {
            let epoch = self.epoch(self.blocks[at].epoch);
            self.blocks[at].epoch = used.binary_search(&epoch).expect("collected above") as u8;
        }
        let mut used = used.into_iter();
        self.epoch = used.next().unwrap_or_default();
        self.rare.get_or_insert_default().epochs = used.collect();
    }
    pub fn is_empty(&self) -> bool {
        self.blocks.iter().all(|kept| kept.spot == Spot::NONE)
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
        let count =
            (0..LEAF_BLOCKS).filter(|&b| part >> b & 1 == 1 && self.blocks[b as usize].spot != Spot::NONE).count();
        let mut row = LeafRow {
            present: 0,
            slots: Vec::with_capacity(count),
            crcs: Vec::with_capacity(count),
            epochs: Vec::with_capacity(1),
            ops: Vec::with_capacity(count),
        };
        for (block, entry) in self.entries().filter(|(block, _)| part >> block & 1 == 1) {
            row.present |= 1 << block;
            row.slots.push(entry.spot.slot().expect("leaves that are rows have raw blocks"));
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
            let spot = Spot::of_slot(row.slots[at]).filter(|spot| *spot != Spot::NONE)?;
            leaf.set(block, Some(Entry { spot, crc: u32::from_le_bytes(row.crcs[at]), row_check: 0, op }));
        }
        Some(leaf)
    }
}

/// Which leaf.
pub(crate) type LeafKey = (ComponentId, u64);

/// Decoded leaves.
pub(crate) type LeafCache = ClockCache<LeafKey, Arc<Leaf>>;

/// Bytes of a cached leaf with its place in the tree: what the bound is computed with. One of parity takes 300 more.
pub(crate) const LEAF_CACHED_BYTES: u64 = 1650;

#[cfg(test)]
mod tests {
    use cairn_types::{HostId, Incarnation};

    use super::*;

    fn entry(n: u64) -> Entry {
        let epoch = Epoch { number: n % 3 + n / 100 * 5, host: HostId(1), incarnation: Incarnation(1) };
        Entry { spot: Spot::raw(n * 7), crc: n as u32, row_check: 0, op: OpId { epoch, seq: n } }
    }

    /// Goal: row checks and epochs come and go with their blocks. Method: beside a plain list, in more epochs than a leaf can number.
    #[test]
    fn a_leaf_agrees_with_a_list() {
        let (mut leaf, mut list) = (Leaf::default(), [None; LEAF_BLOCKS as usize]);
        for n in 0..5000u64 {
            let block = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
            let row_check = if n % 3 == 0 { n as u32 } else { 0 };
            let put = (n % 7 != 0).then(|| Entry { row_check, ..entry(n) });
            leaf.set(block, put);
            list[block as usize] = put;
            assert!((0..LEAF_BLOCKS).all(|block| leaf.get(block) == list[block as usize]));
        }
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
