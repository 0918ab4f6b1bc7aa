//! Entries of one shard of the map, or of its history, that wait to be folded into pages: sorted, in chunks.
//!
//! Promises    of each place the entry that was put last
//! Memory      24 bytes an entry of the map, 32 of history, in chunks that are half full at least and grow by a quarter; some 10 more where
//!             it is of parity
//! Not here    which shards are folded when (`shards.rs`)

use std::{
    collections::BTreeMap,
    ops::{Range, RangeInclusive},
};

use cairn_types::{Epoch, OpId};

use crate::leaf::{Entry, Spot};

/// Entries of a chunk, at most: what an insertion moves.
const CHUNK_ENTRIES: usize = 1024;

/// An entry as it waits. [`Spot::NONE`]: there is none any more.
#[derive(Debug, Clone, Copy)]
struct Item<At> {
    at: At,
    /// Which of the epochs.
    epoch: u16,
    crc: u32,
    spot: Spot,
    sequence: u64,
}

/// The entries that wait, by place: a block of the shard, or a block and a generation of its history.
#[derive(Debug)]
pub(crate) struct Unfolded<At = u16> {
    /// None is empty.
    chunks: Vec<Vec<Item<At>>>,
    count: usize,
    /// Few: owners change seldom.
    epochs: Vec<Epoch>,
    /// Of entries of parity.
    row_checks: BTreeMap<At, u32>,
}

impl<At> Default for Unfolded<At> {
    fn default() -> Self {
        Self { chunks: Vec::new(), count: 0, epochs: Vec::new(), row_checks: BTreeMap::new() }
    }
}

impl<At: Copy + Ord> Unfolded<At> {
    pub fn len(&self) -> usize {
        self.count
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts the place's entry, none where there is none any more, over what waited for it.
    pub fn put(&mut self, at: At, entry: Option<Entry>) {
        let op = entry.map_or(OpId::ZERO, |entry| entry.op);
        let epoch = self.number_of(op.epoch);
        let (spot, crc) = entry.map_or((Spot::NONE, 0), |entry| (entry.spot, entry.crc));
        let item = Item { at, epoch, crc, spot, sequence: op.seq };
        match entry.map_or(0, |entry| entry.row_check) {
            0 if self.row_checks.is_empty() => {}
            0 => drop(self.row_checks.remove(&at)),
            row_check => drop(self.row_checks.insert(at, row_check)),
        }
        // The last chunk that begins at or before it; the first one takes what is before all.
        let number = self.chunks.partition_point(|chunk| chunk[0].at <= at).saturating_sub(1);
        let Some(chunk) = self.chunks.get_mut(number) else {
            self.chunks.push(vec![item]);
            self.count = 1;
            return;
        };
        match chunk.binary_search_by_key(&at, |item| item.at) {
            Ok(found) => chunk[found] = item,
            Err(place) => {
                if chunk.len() == chunk.capacity() {
                    chunk.reserve_exact((chunk.len() / 4).max(4));
                }
                chunk.insert(place, item);
                self.count += 1;
                if chunk.len() > CHUNK_ENTRIES {
                    let upper = chunk.split_off(CHUNK_ENTRIES / 2);
                    chunk.shrink_to_fit();
                    self.chunks.insert(number + 1, upper);
                }
            }
        }
    }

    fn number_of(&mut self, epoch: Epoch) -> u16 {
        // The newest is the likeliest.
        if let Some(found) = self.epochs.iter().rposition(|known| *known == epoch) {
            return found as u16;
        }
        if self.epochs.len() > 2 * self.count + 16 {
            self.compact_epochs();
        }
        self.epochs.push(epoch);
        // A shard has at most as many epochs as entries wait, and those are fewer than half of what the number holds before it is compacted.
        (self.epochs.len() - 1).try_into().expect("epochs of a shard")
    }

    fn compact_epochs(&mut self) {
        let mut used: Vec<u16> = self.chunks.iter().flatten().map(|item| item.epoch).collect();
        used.sort_unstable();
        used.dedup();
        let kept: Vec<Epoch> = used.iter().map(|&number| self.epochs[number as usize]).collect();
        for item in self.chunks.iter_mut().flatten() {
            item.epoch = used.binary_search(&item.epoch).expect("collected above") as u16;
        }
        self.epochs = kept;
    }

    /// Those of these places, ascending.
    pub fn within(&self, places: RangeInclusive<At>) -> impl Iterator<Item = (At, Option<Entry>)> + '_ {
        let (first, last) = places.into_inner();
        let from = self.chunks.partition_point(|chunk| chunk[0].at <= first).saturating_sub(1);
        self.chunks[from..]
            .iter()
            .flat_map(move |chunk| {
                let from = chunk.partition_point(|item| item.at < first);
                chunk[from..].iter()
            })
            .take_while(move |item| item.at <= last)
            .map(|item| (item.at, self.entry_of(item)))
    }

    fn entry_of(&self, item: &Item<At>) -> Option<Entry> {
        let op = OpId { epoch: self.epochs[item.epoch as usize], seq: item.sequence };
        let row_check = self.row_checks.get(&item.at).copied().unwrap_or(0);
        (item.spot != Spot::NONE).then_some(Entry { spot: item.spot, crc: item.crc, row_check, op })
    }
}

impl Unfolded {
    /// Those of these blocks, ascending.
    pub fn range(&self, blocks: Range<u64>) -> impl Iterator<Item = (u64, Option<Entry>)> + '_ {
        let last = blocks.end.saturating_sub(1).min(u64::from(u16::MAX));
        let within = (blocks.start <= last && !blocks.is_empty()).then_some(blocks.start as u16..=last as u16);
        within.into_iter().flat_map(|blocks| self.within(blocks)).map(|(block, entry)| (u64::from(block), entry))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cairn_types::{HostId, Incarnation};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_map(steps in proptest::collection::vec((0u16..5000, 1u16..400, 0u64..50, any::<bool>()), 1..40), ask in (0u64..6000, 0u64..6000)) {
            let (mut unfolded, mut map): (Unfolded, _) = (Unfolded::default(), BTreeMap::new());
            for (first, count, number, there) in steps {
                for block in first..first + count {
                    let epoch = Epoch { number, host: HostId(1), incarnation: Incarnation(2) };
                    let row_check = if number % 3 == 0 { number as u32 } else { 0 };
                    let op = OpId { epoch, seq: number };
                    let entry = Entry { spot: Spot::raw(number * 7), crc: u32::from(block), row_check, op };
                    let entry = there.then_some(entry);
                    unfolded.put(block, entry);
                    map.insert(u64::from(block), entry);
                }
            }
            prop_assert_eq!(unfolded.len(), map.len());
            let (from, to) = (ask.0.min(ask.1), ask.0.max(ask.1));
            for (from, to) in [(from, to), (0, 1 << 16)] {
                let found: Vec<_> = unfolded.range(from..to).collect();
                let wanted: Vec<_> = map.range(from..to).map(|(block, entry)| (*block, *entry)).collect();
                prop_assert_eq!(found, wanted);
            }
            prop_assert!(unfolded.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_ENTRIES));
        }
    }

    /// Goal: memory has a bound whatever owners do. Method: one block that is written in epoch after epoch, and a full shard in as many
    /// epochs as it has blocks.
    #[test]
    fn epochs_that_nothing_names_are_forgotten() {
        let entry = |number: u64| {
            let epoch = Epoch { number, host: HostId(1), incarnation: Incarnation(1) };
            Some(Entry { spot: Spot::raw(1), crc: 2, row_check: 0, op: OpId { epoch, seq: 3 } })
        };
        let mut unfolded: Unfolded = Unfolded::default();
        (0..100_000).for_each(|number| unfolded.put(7, entry(number)));
        assert!(unfolded.epochs.len() < 32, "{}", unfolded.epochs.len());
        assert_eq!(unfolded.range(7..8).next().unwrap().1, entry(99_999));
    }
}
