//! The history of one shard of the map: what its blocks held before they were first changed after a cut.
//!
//! Promises    of a block and a generation the entry that was put last is what waits for it, else what its page has
//! Memory      12 bytes a page, 12 for each generation that has entries, 32 for each entry that waits
//! Not here    which shards are folded when (`shards.rs`), reading and packing pages (`history.rs`), what is kept (`transaction.rs`)

use std::ops::Range;

use cairn_format::{
    HistoryAt, SHARD_BLOCKS, Spot,
    history_rows::{HistoryCount, HistoryPageRef},
};

use crate::{leaf::Entry, unfolded::Unfolded};

/// A block of the shard, and the generation of a cut.
pub(crate) type Place = (u16, u32);

/// What an entry takes the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// There was none.
    Nothing,
    /// Of a block, as it is of one; or of a hole, as it is.
    Alike,
    /// A block in the place of a hole, or a hole in that of a block.
    Unlike,
}

impl Over {
    /// What putting an entry does to the number of blocks that history takes.
    pub fn blocks_more(self, entry: &Entry) -> i64 {
        match (self, takes_space(entry)) {
            (Self::Alike, _) | (Self::Nothing, false) => 0,
            (Self::Nothing | Self::Unlike, true) => 1,
            (Self::Unlike, false) => -1,
        }
    }
}

/// The history of a shard.
#[derive(Debug, Default)]
pub(crate) struct HistoryShard {
    /// In order of places.
    pages: Vec<HistoryPageRef>,
    unfolded: Unfolded<Place>,
    /// The oldest transaction whose changes are not in its row.
    since: Option<u64>,
    /// By generation; none is 0.
    counts: Vec<HistoryCount>,
}

/// Whether an entry of history takes space: one of a hole does not.
pub(crate) fn takes_space(entry: &Entry) -> bool {
    entry.spot != Spot::HOLE
}

/// Adds to counts by generation, or takes from them.
fn count(counts: &mut Vec<HistoryCount>, generation: u32, act: impl FnOnce(&mut HistoryCount)) {
    let at = counts.partition_point(|count| count.generation < generation);
    if counts.get(at).is_none_or(|count| count.generation != generation) {
        counts.insert(at, HistoryCount { generation, entries: 0, blocks: 0 });
    }
    act(&mut counts[at]);
    if counts[at].entries == 0 {
        counts.remove(at);
    }
}

/// Counts one entry.
pub(crate) fn count_entry(counts: &mut Vec<HistoryCount>, generation: u32, entry: &Entry) {
    count(counts, generation, |count| {
        count.entries += 1;
        count.blocks += u32::from(takes_space(entry));
    });
}

impl HistoryShard {
    pub fn load(pages: Vec<HistoryPageRef>, counts: Vec<HistoryCount>) -> Self {
        Self { pages, counts, ..Self::default() }
    }
    pub fn pages(&self) -> &[HistoryPageRef] {
        &self.pages
    }
    pub fn since(&self) -> Option<u64> {
        self.since
    }
    pub fn counts(&self) -> &[HistoryCount] {
        &self.counts
    }
    /// Entries that wait.
    pub fn waiting(&self) -> u64 {
        self.unfolded.len() as u64
    }
    /// Blocks that it takes.
    pub fn blocks(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(count.blocks)).sum()
    }

    /// Puts entries, each with what it takes the place of. Gives how many more wait.
    pub fn put(&mut self, number: u64, entries: impl IntoIterator<Item = (Place, Entry, Over)>) -> u64 {
        self.since.get_or_insert(number);
        let before = self.unfolded.len();
        for (place, entry, over) in entries {
            self.unfolded.put(place, Some(entry));
            count(&mut self.counts, place.1, |count| {
                count.entries += u32::from(over == Over::Nothing);
                count.blocks = (i64::from(count.blocks) + over.blocks_more(&entry)) as u32;
            });
        }
        (self.unfolded.len() - before) as u64
    }
    /// All that waited is in these pages, without the entries that were dropped.
    pub fn folded(&mut self, pages: Vec<HistoryPageRef>, dropped: &[HistoryCount]) {
        for gone in dropped {
            count(&mut self.counts, gone.generation, |count| {
                (count.entries, count.blocks) = (count.entries - gone.entries, count.blocks - gone.blocks);
            });
        }
        (self.pages, self.unfolded, self.since) = (pages, Unfolded::default(), None);
    }

    /// Pages that may have entries of these blocks: from the one that begins at or before the first.
    pub fn pages_of(&self, blocks: Range<u64>) -> Range<usize> {
        let from = self.pages.partition_point(|page| u64::from(page.first.0) < blocks.start);
        let to = self.pages.partition_point(|page| u64::from(page.first.0) < blocks.end);
        from.saturating_sub(1)..to
    }
    /// The end of the blocks, from one on, that so many pages have about: of a block all entries are looked at together.
    pub fn blocks_of_pages(&self, from: u64, pages: usize) -> u64 {
        let first = self.pages_of(from..SHARD_BLOCKS).start;
        let mut next = self.pages.iter().skip(first + pages).map(|page| u64::from(page.first.0));
        next.find(|block| *block > from).unwrap_or(SHARD_BLOCKS)
    }
    /// What waits of these blocks, ascending.
    pub fn waiting_of(&self, blocks: Range<u64>) -> impl Iterator<Item = (HistoryAt, Entry)> + '_ {
        let last = blocks.end.saturating_sub(1).min(u64::from(u16::MAX)) as u16;
        let within = (blocks.start <= u64::from(last) && !blocks.is_empty())
            .then_some((blocks.start as u16, 0)..=(last, u32::MAX));
        let found = within.into_iter().flat_map(|places| self.unfolded.within(places));
        found.filter_map(|((block, generation), entry)| Some(((u64::from(block), generation), entry?)))
    }

    /// What must hold of it by itself.
    pub fn check(&self) -> Result<(), String> {
        if !self.pages.windows(2).all(|pair| pair[0].first < pair[1].first) {
            return Err("pages are out of order".into());
        }
        match self.since.is_some() || self.waiting() == 0 {
            true => Ok(()),
            false => Err("entries wait, and it is not to be folded".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::OpId;

    use super::*;

    /// Goal: counts are of what is there, whatever moves and goes. Method: entries that are new, that stand elsewhere, that are dropped.
    #[test]
    fn counts_follow_what_comes_and_goes() {
        let entry = |spot| Entry { spot, crc: 0, row_check: 0, op: OpId::ZERO };
        let mut shard = HistoryShard::default();
        assert_eq!(
            shard.put(
                3,
                [
                    ((5, 1), entry(Spot::HOLE), Over::Nothing),
                    ((5, 2), entry(Spot::raw(7)), Over::Nothing),
                    ((6, 1), entry(Spot::raw(8)), Over::Nothing)
                ]
            ),
            3
        );
        assert_eq!(
            shard.put(4, [((5, 1), entry(Spot::raw(9)), Over::Unlike), ((5, 2), entry(Spot::HOLE), Over::Unlike)]),
            0
        );
        assert_eq!(shard.put(4, [((5, 1), entry(Spot::raw(10)), Over::Alike)]), 0);
        let told = |shard: &HistoryShard| {
            shard.counts().iter().map(|c| (c.generation, c.entries, c.blocks)).collect::<Vec<_>>()
        };
        assert_eq!((told(&shard), shard.blocks(), shard.since()), (vec![(1, 2, 2), (2, 1, 0)], 2, Some(3)));
        assert_eq!(
            shard.waiting_of(0..6).map(|(at, entry)| (at, entry.spot)).collect::<Vec<_>>(),
            [((5, 1), Spot::raw(10)), ((5, 2), Spot::HOLE)]
        );
        let mut dropped = Vec::new();
        count_entry(&mut dropped, 2, &entry(Spot::HOLE));
        count_entry(&mut dropped, 1, &entry(Spot::raw(8)));
        let page = |first| HistoryPageRef { first, stamp: 0, place: 0 };
        shard.folded(vec![page((5, 1)), page((5, 9)), page((7, 0))], &dropped);
        assert_eq!((told(&shard), shard.waiting(), shard.since()), (vec![(1, 1, 1)], 0, None));
        // Of block 6 the second page may have some, of block 5 the first as well.
        assert_eq!((shard.pages_of(6..7), shard.pages_of(5..6), shard.pages_of(0..5)), (1..2, 0..2, 0..0));
        assert!(shard.check().is_ok());
    }
}
