//! What a transaction writes where the block map is in pages: one row of changes, rows of folded shards, some counts of segments.
//!
//! Promises    changes go only when all that they say is in rows of shards and of segments, in the same transaction or an earlier one
//! Assumes     as a transaction: one at a time, put together in one moment
//! Not here    what changes (`transaction.rs`), which pages (`map_pages.rs`)
//!
//! Counts of segments that changed stand in the changes. A hand goes round over the rows of all segments and writes a few with each
//! transaction: changes from before its last turn say nothing of segments that those rows do not.

use std::collections::{BTreeMap, BTreeSet};

use cairn_format::{
    HistoryAt, LEAF_BLOCKS,
    history_rows::{ComponentHistory, HistoryChanges, history_changes_key, history_shard_key},
    map_rows::{
        Changes, ComponentChanges, SEGMENTS_OF_ROW, SHARD_REGIONS, SegmentsRow, changes_key, segments_key, shard_key,
    },
    shared_rows::SharedChange,
};
use cairn_types::{BlockRange, Canary, ComponentId, OpId, REGION_BLOCKS, RegionIndex};

use crate::{
    components::Components,
    history_shard::{HistoryShard, Over},
    leaf::Entry,
    map::Map,
    map_pages::Folded,
    meta::Batch,
    rows::{self, SegmentRow},
    shards::{FoldKey, Part, Pieces, ShardKey, Shards, shard_of},
    tier::Tier,
};

/// What a transaction changes of the map, where that is in pages.
#[derive(Debug, Default)]
pub(crate) struct MapChanges {
    /// Block, its entry from now on.
    pub entries: Vec<(ComponentId, u64, Option<Entry>)>,
    /// Marks that no entry implies.
    pub marks: Vec<(ComponentId, RegionIndex, OpId)>,
    /// History: where, its entry from now on, what that takes the place of.
    pub history: Vec<(ComponentId, HistoryAt, Entry, Over)>,
    /// Shards of which nothing is left.
    pub gone: Vec<ShardKey>,
    pub folded: Vec<Folded>,
    /// Blocks of history that went with what was folded, once memory follows.
    pub dropped: Vec<(ComponentId, u64)>,
    /// Counts of segments that changed.
    pub segments: Vec<(u8, u32, SegmentRow)>,
    /// Shared items that changed.
    pub shared: Vec<SharedChange>,
    /// Of the row of changes.
    pub number: u64,
    pub pieces: Pieces,
    /// Until they are written.
    rows: Option<(Changes, HistoryChanges)>,
}

impl MapChanges {
    /// The entries by block, of each the one that was put last.
    pub fn put_in_order(&mut self) {
        // Stable: those of a block stay in the order in which they came.
        self.entries.sort_by_key(|(component, block, _)| (*component, *block));
        self.entries.reverse();
        self.entries.dedup_by_key(|(component, block, _)| (*component, *block));
        self.entries.reverse();
        // Of a place there is one: it is kept once, or it moves.
        self.history.sort_by_key(|(component, at, ..)| (*component, *at));
    }

    /// Marks that are to be written, without those that an entry tells.
    pub fn take_marks(&mut self, marks: Vec<(ComponentId, RegionIndex, OpId)>) {
        let mut told: BTreeMap<(ComponentId, RegionIndex), OpId> = BTreeMap::new();
        for &(component, block, entry) in &self.entries {
            if let Some(entry) = entry {
                let region = BlockRange::new(block, 1).regions().start;
                let known = told.entry((component, region)).or_default();
                *known = (*known).max(entry.op);
            }
        }
        let untold =
            |&(component, region, op): &(ComponentId, RegionIndex, OpId)| told.get(&(component, region)) != Some(&op);
        self.marks.extend(marks.into_iter().filter(untold));
    }

    /// Adds its rows to the transaction's, but for the row of changes.
    pub fn write(&mut self, batch: &mut Batch, map: &mut Map, tier: &mut Tier, components: &Components) {
        let number = self.number;
        let pages = map.pages_mut().expect("the map is in pages");
        let changed: BTreeMap<(u8, u32), SegmentRow> =
            self.segments.iter().map(|&(device, segment, row)| ((device, segment), row)).collect();
        let rows_of: Vec<u32> = tier.devices().iter().map(|device| device.rows() as u32).collect();
        // Their first turn over, rows of an earlier release are gone.
        let earlier = pages.has_rows && pages.hand.told() == 0;
        for (device, row) in pages.hand.take(&rows_of, number) {
            let first = row * SEGMENTS_OF_ROW;
            let known = tier.of(device).stored_rows(first, SEGMENTS_OF_ROW);
            let now = (first..).zip(known).map(|(segment, row)| *changed.get(&(device, segment)).unwrap_or(&row));
            let value = SegmentsRow { number, rows: now.collect() };
            batch.insert(segments_key(device, row), Some(rows::encode(&value)));
            if earlier {
                (first..first + value.rows.len() as u32).for_each(|segment| {
                    batch.insert(rows::segment_key(device, segment), None);
                });
            }
        }
        let mut exchanged: BTreeSet<FoldKey> = self.gone.iter().map(|key| (*key, Part::Map)).collect();
        for folded in &self.folded {
            exchanged.insert(folded.key);
            let ((component, shard), part) = folded.key;
            if part == Part::History {
                let counts = pages.shards.history(folded.key.0).map_or(&[][..], |shard| shard.counts());
                let row = folded.history_row(number - 1, counts, components.get(component));
                batch.insert(history_shard_key(component, shard), row.map(|row| rows::encode(&row)));
                continue;
            }
            // Up to the transaction before: what this one changes waits.
            let row = folded.row(number - 1, components.get(component));
            batch.insert(shard_key(component, shard), Some(rows::encode(&row)));
            for &(component, leaf) in &folded.leaves {
                batch.insert(rows::leaf_key(component, leaf), None);
            }
            if pages.has_rows && !pages.shards.get(folded.key.0).is_some_and(|shard| shard.in_pages()) {
                let first = u32::from(shard) * SHARD_REGIONS;
                (first..first + SHARD_REGIONS).for_each(|region| {
                    batch.insert(rows::region_key(component, region), None);
                });
            }
        }
        for &(component, shard) in &self.gone {
            batch.insert(shard_key(component, shard), None);
        }
        // Nothing waits for homes alone.
        let limit = pages.shards.oldest(&exchanged).min(pages.hand.told());
        let homes_told = tier.write_homes(batch, limit, number - 1);
        for key in pages.shards.take_past(&exchanged, pages.hand.told().min(homes_told)) {
            batch.insert(key, None);
        }
        self.rows = Some((self.changes(), self.history_changes()));
    }

    /// The changes as rows of the metadata: a job for a helper, which tells in how many pieces they are.
    pub fn take_rows(&mut self) -> impl FnOnce(&mut Batch) -> Pieces + Send + 'static {
        let (number, rows) = (self.number, self.rows.take());
        move |batch| {
            let (changes, history) = rows.unwrap_or_default();
            let mut put = |pieces: Vec<Vec<u8>>, key: fn(u64, u16) -> Vec<u8>| -> u16 {
                let count = pieces.len().try_into().expect("pieces of a bounded transaction");
                (0..).zip(pieces).for_each(|(part, piece)| drop(batch.insert(key(number, part), Some(piece))));
                count
            };
            let map = if changes.is_empty() { 0 } else { put(changes.encode(), changes_key) };
            Pieces { map, history: put(history.encode(), history_changes_key) }
        }
    }

    fn history_changes(&self) -> HistoryChanges {
        let mut by_id: BTreeMap<ComponentId, ComponentHistory> = BTreeMap::new();
        // A shard without a row has no number: what earlier changes said of it would come back.
        let gone = self.folded.iter().filter(|folded| folded.key.1 == Part::History && folded.pages.is_empty());
        for folded in gone.filter(|_| !Canary::RangeForgotten.sings()) {
            let (component, shard) = folded.key.0;
            history_of(&mut by_id, component).gone.push(shard);
        }
        for &(component, at, entry, over) in &self.history {
            let own = history_of(&mut by_id, component);
            let list = match over {
                Over::Nothing => &mut own.entries,
                Over::Alike => &mut own.moved,
                Over::Unlike => &mut own.turned,
            };
            list.push((at, entry));
        }
        HistoryChanges { components: by_id.into_values().collect() }
    }

    fn changes(&self) -> Changes {
        let mut by_id: BTreeMap<ComponentId, ComponentChanges> = BTreeMap::new();
        for &(component, block, entry) in &self.entries {
            let changes = of(&mut by_id, component);
            match entry {
                Some(entry) => changes.entries.push((block, entry)),
                None => match changes.removed.last_mut().filter(|last| last.end() == block) {
                    Some(last) => last.count += 1,
                    None => changes.removed.push(BlockRange::new(block, 1)),
                },
            }
        }
        for &(component, region, op) in &self.marks {
            of(&mut by_id, component).marks.push((region, op));
        }
        if !Canary::RangeForgotten.sings() {
            for &(component, shard) in &self.gone {
                of(&mut by_id, component).gone.push(shard);
            }
        }
        let (segments, shared) = (self.segments.clone(), self.shared.clone());
        Changes { components: by_id.into_values().collect(), segments, shared }
    }

    /// Memory follows: shards have their new pages, and what was changed waits. Gives the places that are free now.
    pub fn exchange(&mut self, map: &mut Map) -> Vec<u32> {
        let mut gave_up = Vec::new();
        let mut leaves = Vec::new();
        let pages = map.pages_mut().expect("the map is in pages");
        for folded in std::mem::take(&mut self.folded) {
            pages.zone.name(folded.written);
            let ((key, part), dropped) = (folded.key, folded.dropped_counts());
            match part {
                Part::Map => pages.shards.folded(key, folded.pages.into_iter().map(Into::into).collect()),
                Part::History => {
                    let blocks = |shards: &Shards| shards.history(key).map_or(0, HistoryShard::blocks);
                    let before = blocks(&pages.shards);
                    pages.shards.history_folded(key, folded.pages.into_iter().map(Into::into).collect(), &dropped);
                    self.dropped.push((key.0, before - blocks(&pages.shards)));
                }
            }
            gave_up.extend(folded.gave_up);
            leaves.extend(folded.leaves);
        }
        for &key in &self.gone {
            let shard = pages.shards.get(key);
            gave_up.extend(shard.into_iter().flat_map(|shard| shard.pages()).map(|page| page.place));
            pages.shards.remove(key);
        }
        for &(component, region, _) in &self.marks {
            let leaf = u64::from(region) * u64::from(REGION_BLOCKS) / LEAF_BLOCKS;
            pages.shards.touch(shard_of((component, leaf)), self.number);
        }
        if self.pieces != Pieces::default() {
            let entries = self.entries.len() + self.marks.len() + self.history.len();
            pages.shards.keep(self.number, self.pieces, entries as u64);
        }
        map.forget_deltas(&leaves);
        gave_up
    }
}

fn of(by_id: &mut BTreeMap<ComponentId, ComponentChanges>, component: ComponentId) -> &mut ComponentChanges {
    by_id.entry(component).or_insert_with(|| ComponentChanges { component, ..ComponentChanges::default() })
}

fn history_of(by_id: &mut BTreeMap<ComponentId, ComponentHistory>, component: ComponentId) -> &mut ComponentHistory {
    by_id.entry(component).or_insert_with(|| ComponentHistory { component, ..ComponentHistory::default() })
}
