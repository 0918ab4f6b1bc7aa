//! The block map in pages: which page answers for a block, what waits to be folded into pages, and which shard is folded when.
//!
//! Promises    a block's entry is what waits for it, else what its page has, else nothing
//!             changes that are kept are all that pages and rows lack, and no more than [`Bounds`] allow
//! Assumes     one transaction at a time
//! Memory      24 bytes an entry that waits; 8 bytes a page
//! Not here    reading, packing and writing pages (`map_pages.rs`), where they stand (`zone.rs`)
//! Source      buffered, sorted application of updates: O'Neil et al., The log-structured merge-tree, Acta Informatica 33, 1996
//!
//! A page of 4 KiB is rewritten for all entries that wait for its shard together. What a transaction changes is durable in one row of
//! *changes*; that row goes when every shard that it touched was folded. So shards are folded in the order in which their oldest change
//! came. Each transaction folds as many as bring all of them to an end in time. While too much waits in memory, those are folded that
//! have gathered most.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cairn_format::{
    LEAF_BLOCKS, SHARD_BLOCKS,
    history_rows::{HistoryCount, HistoryPageRef, history_changes_key},
    map_rows::{PageRef, changes_key},
};
use cairn_types::{BLOCK_BYTES, Canary, ComponentId};

use crate::{
    history_shard::{HistoryShard, Over, Place},
    leaf::{Entry, Leaf, LeafKey},
    unfolded::Unfolded,
};

/// Which shard of the map.
pub(crate) type ShardKey = (ComponentId, u16);

/// What of a shard is folded by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Map,
    History,
}

/// What is folded.
pub(crate) type FoldKey = (ShardKey, Part);

/// Rows of changes of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pieces {
    /// Of the map.
    pub map: u16,
    /// Of history.
    pub history: u16,
}

/// Shards of which the fullest is looked for when memory is short.
const LOOKED_AT: usize = 256;
/// Shards that one transaction folds, at most: some 9 MB of pages. Four times as many where changes take twice their room.
const FOLDED_MAX: usize = 8;
const FOLDED_MAX_LATE: usize = 32;

/// A block of this many may have an entry that waits: 190 MB of memory for 4 TiB.
const WAITING_PARTS: u64 = 128;
/// So many may wait where the log has room for twice as many, however small the devices are: 12 MB.
const WAITING_MIN: u64 = 512 << 10;

/// What may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Entries in memory.
    pub waiting: u64,
    /// Entries of changes that are kept, about: twice as many at most.
    pub kept: u64,
}

impl Bounds {
    /// What may wait where devices have so many blocks: a block in 128 of them, or what was chosen. A page of 16 bytes a block is rewritten
    /// for at least twice as many entries as wait for each page there is, so metadata is a quarter of what is written evenly over all of a
    /// device, and less where some of it is written more often. Where devices are small it is what half of the log may bring.
    pub fn of(log_bytes: u64, blocks: u64, chosen: Option<u64>) -> Self {
        let log_blocks = log_bytes / u64::from(BLOCK_BYTES);
        let waiting = chosen.unwrap_or((blocks / WAITING_PARTS).max((log_blocks / 2).min(WAITING_MIN)));
        Self { waiting, kept: 2 * waiting }
    }
}

/// One shard.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// In order of blocks.
    pages: Vec<PageRef>,
    unfolded: Unfolded,
    /// The oldest transaction whose changes are not in its row.
    since: Option<u64>,
    /// It has a row. One that has not is of an earlier release: its leaves are rows, as far as there are any.
    in_pages: bool,
}

impl Shard {
    pub fn pages(&self) -> &[PageRef] {
        &self.pages
    }
    pub fn unfolded(&self) -> &Unfolded {
        &self.unfolded
    }
    pub fn in_pages(&self) -> bool {
        self.in_pages
    }
    /// The page that answers for a block of the shard.
    pub fn page_of(&self, block: u64) -> Option<PageRef> {
        self.pages[..self.pages.partition_point(|page| u64::from(page.first) <= block)].last().copied()
    }
    /// Blocks that the page answers for. The first one does for those before it as well.
    pub fn blocks_of(&self, at: usize) -> std::ops::Range<u64> {
        let from = if at == 0 { 0 } else { u64::from(self.pages[at].first) };
        from..self.pages.get(at + 1).map_or(SHARD_BLOCKS, |next| u64::from(next.first))
    }
    /// Puts what waits over a leaf, by its number in the component.
    pub fn put_over(&self, leaf: u64, to: &mut Leaf) {
        let from = leaf * LEAF_BLOCKS % SHARD_BLOCKS;
        self.unfolded.range(from..from + LEAF_BLOCKS).for_each(|(block, entry)| to.set(block, entry));
    }
}

/// A row of changes that is kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    number: u64,
    pieces: Pieces,
    entries: u64,
}

/// All shards that have a page, or anything that waits.
#[derive(Debug, Default)]
pub(crate) struct Shards {
    by_key: BTreeMap<ShardKey, Shard>,
    history: BTreeMap<ShardKey, HistoryShard>,
    /// Those with changes that are not in their rows, by the oldest.
    queue: BTreeSet<(u64, FoldKey)>,
    waiting: u64,
    /// Oldest first.
    kept: VecDeque<Kept>,
    kept_entries: u64,
}

/// The shard of a leaf.
pub(crate) fn shard_of((component, leaf): LeafKey) -> ShardKey {
    (component, (leaf / (SHARD_BLOCKS / LEAF_BLOCKS)) as u16)
}

/// The leaves of a shard.
pub(crate) fn leaves_of(shard: u16) -> std::ops::Range<u64> {
    let leaves = SHARD_BLOCKS / LEAF_BLOCKS;
    u64::from(shard) * leaves..(u64::from(shard) + 1) * leaves
}

impl Shards {
    pub fn get(&self, key: ShardKey) -> Option<&Shard> {
        self.by_key.get(&key)
    }
    pub fn all(&self) -> impl Iterator<Item = (ShardKey, &Shard)> {
        self.by_key.iter().map(|(key, shard)| (*key, shard))
    }
    /// The first of a component.
    pub fn first_of(&self, id: ComponentId) -> Option<ShardKey> {
        self.by_key.range((id, 0)..=(id, u16::MAX)).next().map(|(key, _)| *key)
    }
    /// Entries that wait, and entries of changes that are kept.
    pub fn depths(&self) -> (u64, u64) {
        (self.waiting, self.kept_entries)
    }

    /// Makes one known that has no row and nothing that waits.
    pub fn enter(&mut self, key: ShardKey) {
        self.by_key.entry(key).or_default();
    }

    /// A durable transaction says something of the shard that is not in its row.
    pub fn touch(&mut self, key: ShardKey, number: u64) {
        self.put_all(key, number, []);
    }
    /// The same of a block's entry; none where the map holds it no more.
    pub fn put(&mut self, id: ComponentId, block: u64, entry: Option<Entry>, number: u64) {
        self.put_all(shard_of((id, block / LEAF_BLOCKS)), number, [((block % SHARD_BLOCKS) as u16, entry)]);
    }
    /// The same of blocks of one shard.
    pub fn put_all(&mut self, key: ShardKey, number: u64, entries: impl IntoIterator<Item = (u16, Option<Entry>)>) {
        let shard = self.by_key.entry(key).or_default();
        if shard.since.is_none() {
            shard.since = Some(number);
            self.queue.insert((number, (key, Part::Map)));
        }
        let before = shard.unfolded.len();
        entries.into_iter().for_each(|(block, entry)| shard.unfolded.put(block, entry));
        self.waiting += (shard.unfolded.len() - before) as u64;
    }
    /// All that waited for the shard is in these pages: its row is durable.
    pub fn folded(&mut self, key: ShardKey, pages: Vec<PageRef>) {
        let shard = self.by_key.entry(key).or_default();
        self.waiting -= shard.unfolded.len() as u64;
        if let Some(since) = shard.since {
            self.queue.remove(&(since, (key, Part::Map)));
        }
        *shard = Shard { pages, in_pages: true, ..Shard::default() };
    }
    /// Nothing is left of the shard.
    pub fn remove(&mut self, key: ShardKey) {
        if let Some(shard) = self.by_key.remove(&key) {
            self.waiting -= shard.unfolded.len() as u64;
            if let Some(since) = shard.since {
                self.queue.remove(&(since, (key, Part::Map)));
            }
        }
    }

    pub fn history(&self, key: ShardKey) -> Option<&HistoryShard> {
        self.history.get(&key)
    }
    pub fn all_history(&self) -> impl Iterator<Item = (ShardKey, &HistoryShard)> {
        self.history.iter().map(|(key, shard)| (*key, shard))
    }
    /// The first of a component that has history, from a shard on.
    pub fn history_from(&self, (id, first): ShardKey) -> Option<(ShardKey, &HistoryShard)> {
        self.history.range((id, first)..=(id, u16::MAX)).next().map(|(key, shard)| (*key, shard))
    }
    /// A durable transaction says something of a shard's history that is not in its row: an entry that was not there before, or stands
    /// elsewhere.
    pub fn put_history(&mut self, key: ShardKey, number: u64, entries: impl IntoIterator<Item = (Place, Entry, Over)>) {
        let shard = self.history.entry(key).or_default();
        if shard.since().is_none() {
            self.queue.insert((number, (key, Part::History)));
        }
        self.waiting += shard.put(number, entries);
    }
    /// All that waited for a shard's history is in these pages: its row is durable. `dropped` of its entries are not there any more.
    pub fn history_folded(&mut self, key: ShardKey, pages: Vec<HistoryPageRef>, dropped: &[HistoryCount]) {
        let Some(shard) = self.history.get_mut(&key) else { return };
        self.waiting -= shard.waiting();
        if let Some(since) = shard.since() {
            self.queue.remove(&(since, (key, Part::History)));
        }
        shard.folded(pages, dropped);
        // What a page that was lost had is counted still.
        if shard.pages().is_empty() {
            self.history.remove(&key);
        }
    }
    /// Nothing is left of a shard's history. Gives the blocks that it took.
    pub fn remove_history(&mut self, key: ShardKey) -> u64 {
        let Some(shard) = self.history.remove(&key) else { return 0 };
        self.waiting -= shard.waiting();
        if let Some(since) = shard.since() {
            self.queue.remove(&(since, (key, Part::History)));
        }
        shard.blocks()
    }
    /// Takes the row of a shard's history from the metadata.
    pub fn load_history(&mut self, key: ShardKey, pages: Vec<HistoryPageRef>, counts: Vec<HistoryCount>) {
        self.history.insert(key, HistoryShard::load(pages, counts));
    }

    /// A row of changes is durable.
    pub fn keep(&mut self, number: u64, pieces: Pieces, entries: u64) {
        match self.kept.back_mut().filter(|last| last.number == number) {
            // Those of history come after all of the map, when they are read back.
            Some(last) => {
                (last.pieces.map, last.pieces.history) =
                    (last.pieces.map + pieces.map, last.pieces.history + pieces.history);
                last.entries += entries;
            }
            None => self.kept.push_back(Kept { number, pieces, entries }),
        }
        self.kept_entries += entries;
    }
    /// Takes what rows of history say from the metadata, once those of the map are known.
    pub fn load_kept_history(&mut self, number: u64, pieces: u16, entries: u64) {
        let at = self.kept.partition_point(|kept| kept.number < number);
        match self.kept.get_mut(at).filter(|kept| kept.number == number) {
            Some(kept) => {
                kept.pieces.history = pieces;
                kept.entries += entries;
            }
            None => self.kept.insert(at, Kept { number, pieces: Pieces { map: 0, history: pieces }, entries }),
        }
        self.kept_entries += entries;
    }

    /// Entries that wait for what is to be folded.
    fn waits(&self, (key, part): &FoldKey) -> u64 {
        match part {
            Part::Map => self.by_key[key].unfolded.len() as u64,
            Part::History => self.history[key].waiting(),
        }
    }

    /// Shards to fold with a transaction that adds `adds` entries, so that what waits and what is kept stay within their bounds.
    pub fn due(&self, adds: u64, bounds: Bounds) -> Vec<FoldKey> {
        let mut due: Vec<FoldKey> = Vec::new();
        if self.kept_entries + adds > bounds.kept {
            // Those that are queued now are over when as much was added again.
            let share = (self.queue.len() as u64 * adds.max(1)).div_ceil(bounds.kept.max(1)).max(1) as usize;
            let late = self.kept_entries > 2 * bounds.kept;
            let count = share.min(if late { FOLDED_MAX_LATE } else { FOLDED_MAX });
            due.extend(self.queue.iter().map(|(_, key)| *key).take(if late { FOLDED_MAX_LATE } else { count }));
        }
        let mut waiting = self.waiting + adds - due.iter().map(|key| self.waits(key)).sum::<u64>();
        if waiting > bounds.waiting {
            let mut fullest: Vec<(u64, FoldKey)> =
                self.queue.iter().take(LOOKED_AT).map(|(_, key)| (self.waits(key), *key)).collect();
            fullest.retain(|(_, key)| !due.contains(key));
            fullest.sort_unstable_by_key(|(waits, key)| (std::cmp::Reverse(*waits), *key));
            for (waits, key) in fullest {
                if waiting <= bounds.waiting || due.len() >= FOLDED_MAX {
                    break;
                }
                waiting -= waits;
                due.push(key);
            }
        }
        due.sort_unstable();
        due
    }

    /// The oldest transaction whose changes are not in rows of shards once these are folded, or gone.
    pub fn oldest(&self, folded: &BTreeSet<FoldKey>) -> u64 {
        self.queue.iter().find(|(_, key)| !folded.contains(key)).map_or(u64::MAX, |(since, _)| *since)
    }

    /// Keys of changes that say nothing any more once these shards are folded, or gone, and rows of segments tell all up to `segments_upto`.
    /// They are kept no longer.
    pub fn take_past(&mut self, folded: &BTreeSet<FoldKey>, segments_upto: u64) -> Vec<Vec<u8>> {
        let oldest = self.oldest(folded);
        let oldest = if Canary::ChangesDroppedEarly.sings() { u64::MAX } else { oldest };
        let mut keys = Vec::new();
        while let Some(first) = self.kept.front().filter(|first| first.number < oldest.min(segments_upto)) {
            keys.extend((0..first.pieces.map).map(|part| changes_key(first.number, part)));
            keys.extend((0..first.pieces.history).map(|part| history_changes_key(first.number, part)));
            self.kept_entries -= first.entries;
            self.kept.pop_front();
        }
        keys
    }

    /// Takes a shard's row from the metadata.
    pub fn load(&mut self, key: ShardKey, pages: Vec<PageRef>) {
        self.by_key.insert(key, Shard { pages, in_pages: true, ..Shard::default() });
    }

    /// What must hold: sums and queue agree with a recount.
    pub fn check(&self) -> Result<(), String> {
        let of_map: u64 = self.by_key.values().map(|shard| shard.unfolded.len() as u64).sum();
        let waiting = of_map + self.history.values().map(HistoryShard::waiting).sum::<u64>();
        if waiting != self.waiting {
            return Err(format!("{waiting} entries of the map wait, {} counted", self.waiting));
        }
        let kept: u64 = self.kept.iter().map(|kept| kept.entries).sum();
        if kept != self.kept_entries {
            return Err(format!("{kept} entries of changes are kept, {} counted", self.kept_entries));
        }
        for (key, shard) in &self.by_key {
            if !shard.pages.windows(2).all(|pair| pair[0].first < pair[1].first) {
                return Err(format!("pages of shard {key:?} are out of order"));
            }
            if shard.since.is_none() && !shard.unfolded.is_empty() {
                return Err(format!("entries wait for shard {key:?}, which is not to be folded"));
            }
            let first = self.kept.front().map_or(u64::MAX, |first| first.number);
            if shard.since.is_some_and(|since| since < first) && !shard.unfolded.is_empty() {
                return Err(format!("changes of shard {key:?} are not kept"));
            }
        }
        for (key, shard) in &self.history {
            shard.check().map_err(|why| format!("history of shard {key:?}: {why}"))?;
        }
        let of_map = self.by_key.iter().filter_map(|(key, shard)| Some((shard.since?, (*key, Part::Map))));
        let of_history = self.history.iter().filter_map(|(key, shard)| Some((shard.since()?, (*key, Part::History))));
        match of_map.chain(of_history).collect::<BTreeSet<_>>() == self.queue {
            true => Ok(()),
            false => Err("the queue of shards is not what they say".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{Epoch, HostId, Incarnation, OpId};

    use super::*;
    use crate::leaf::Spot;

    /// Blocks of a device with a full map, as shards, and what a page of it holds: five leaves, of blocks that stand at random.
    const SHARDS: u64 = 256;
    const PAGE_LEAVES: u64 = 5;
    const PAGE_BYTES: u64 = 4096;
    /// Blocks of a round, scaled from 4,096 of a device of 4 TiB: a share of the entries that wait.
    const ROUND: u64 = 256;

    /// Metadata bytes a written block, over `turns` times as many writes as may be kept: pages of shards that are folded, and changes.
    fn bytes_per_block(written: u64, turns: u64) -> u64 {
        let component = ComponentId(1);
        let blocks = SHARDS * SHARD_BLOCKS;
        let bounds = Bounds { waiting: blocks / 128, kept: blocks / 64 };
        let mut shards = Shards::default();
        let pages: Vec<PageRef> = (0..SHARD_BLOCKS)
            .step_by((PAGE_LEAVES * LEAF_BLOCKS) as usize)
            .map(|first| PageRef { first: first as u16, place: 0, stamp: 0 })
            .collect();
        (0..SHARDS).for_each(|shard| shards.load((component, shard as u16), pages.clone()));
        let (mut random, mut pages_written, mut number) = (1u64, 0u64, 0u64);
        let (mut counted_from, mut blocks_counted) = (0, 0);
        let rounds = (turns + 2) * bounds.kept / ROUND;
        for round in 0..rounds {
            if round == 2 * bounds.kept / ROUND {
                // From here on the queue has gone round.
                (counted_from, blocks_counted) = (pages_written, 0);
            }
            number += 1;
            let due = shards.due(ROUND, bounds);
            let folded: BTreeSet<FoldKey> = due.iter().copied().collect();
            for (key, _) in due {
                let shard = shards.get(key).expect("it is due");
                let touched =
                    (0..shard.pages().len()).filter(|at| shard.unfolded().range(shard.blocks_of(*at)).next().is_some());
                pages_written += touched.count() as u64;
                shards.folded(key, pages.clone());
            }
            shards.take_past(&folded, u64::MAX);
            for _ in 0..ROUND {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let block = ((u128::from(random) * u128::from(written)) >> 64) as u64;
                let epoch = Epoch { number: 1, host: HostId(1), incarnation: Incarnation(1) };
                let entry = Entry { spot: Spot::raw(block), crc: 0, row_check: 0, op: OpId { epoch, seq: number } };
                shards.put(component, block, Some(entry), number);
            }
            shards.keep(number, Pieces { map: 1, history: 0 }, ROUND);
            blocks_counted += ROUND;
            let (waiting, kept) = shards.depths();
            assert!(waiting <= bounds.waiting + ROUND && kept <= 4 * bounds.kept, "{waiting} wait, {kept} are kept");
        }
        shards.check().expect("sums agree");
        // A change is told in some 15 bytes.
        (pages_written - counted_from) * PAGE_BYTES / blocks_counted + 15
    }

    /// Goal: metadata is a bounded share of what is written, wherever it is written. Method: the policy itself over a full map, with writes
    /// evenly over all of a device, a sixteenth and a hundredth of it, for some turns of the queue; each block brings 4,096 bytes of data.
    #[test]
    fn metadata_is_a_bounded_share_of_what_is_written() {
        let blocks = SHARDS * SHARD_BLOCKS;
        let (whole, sixteenth, hundredth) =
            (bytes_per_block(blocks, 3), bytes_per_block(blocks / 16, 3), bytes_per_block(blocks / 100, 3));
        println!("metadata of a block: {whole}, {sixteenth}, {hundredth} bytes");
        assert!(
            whole < 4096 * 24 / 100 && sixteenth < 4096 * 2 / 100 && hundredth < 4096 / 100,
            "{whole}, {sixteenth}, {hundredth}"
        );
    }
}
