//! Opening: the block map in pages, from rows of shards, of segments and of changes.
//!
//! Promises    a change counts once: not where the row of its shard, or of its segment, is as late as it
//! Why         changes are taken over many at once, in order of blocks: one at a time, each would look for its shard, its bits and its
//!             mark all over memory (3.5 us of a processor each, over 3 TiB)
//! Assumes     rows come in this order: components, regions and segments of an earlier release, shards, segments, changes by number
//! Not here    the other rows (`recovery.rs`), the log (`replay.rs`)

use std::collections::BTreeMap;

use cairn_format::{
    COMPONENT_BLOCKS_MAX, LEAF_BLOCKS, SHARD_BLOCKS,
    map_rows::{
        CHANGES, Changes, ComponentChanges, SEGMENTS_OF_ROW, SHARD_REGIONS, SegmentsRow, ShardRow, changes_of, shard_of,
    },
    rows::RegionBits,
};
use cairn_types::{BlockRange, ComponentId, OpId, REGION_BLOCKS, RegionIndex};

use crate::{
    bitmap::BaseBits,
    error::MetaError,
    leaf::Entry,
    marks::{IN_METADATA, RegionMark},
    rows::{self, SegmentRow},
    segments::COUNTS_MAX,
    shards::{self, Pieces, ShardKey},
    state::State,
};

/// What is known of the map while it is loaded.
#[derive(Debug, Default)]
pub(crate) struct LoadedMap {
    /// Some of it is rows of an earlier release.
    pub has_rows: bool,
    /// Up to which transaction the row of a shard tells.
    shards: BTreeMap<ShardKey, u64>,
    /// The same of a row of segments.
    segments: BTreeMap<(u8, u32), u64>,
    /// The same of a home of shared items.
    pub homes: BTreeMap<(u8, u32, u32), u64>,
    /// Bits of deleted components, which have none any more.
    deleted: BTreeMap<ComponentId, BaseBits>,
    /// Pieces of the changes that are being read.
    number: u64,
    pieces: Vec<Vec<u8>>,
    /// Of changes that were read, what is still to be taken over.
    entries: Vec<ReadEntry>,
    marks: Vec<ReadMark>,
}

/// Changes that are taken over at once, about: 30 MB of them.
const TAKEN_AT_ONCE_MAX: usize = 1 << 18;

/// An entry of changes. In this order the last of a block is the one that counts.
#[derive(Debug)]
struct ReadEntry {
    component: ComponentId,
    block: u64,
    /// The transaction.
    number: u64,
    entry: Entry,
}

impl ReadEntry {
    fn shard(&self) -> ShardKey {
        shards::shard_of((self.component, self.block / LEAF_BLOCKS))
    }
    fn region(&self) -> RegionIndex {
        BlockRange::new(self.block, 1).regions().start
    }
}

/// A mark of changes.
#[derive(Debug)]
struct ReadMark {
    component: ComponentId,
    region: RegionIndex,
    number: u64,
    op: OpId,
}

impl ReadMark {
    fn shard(&self) -> ShardKey {
        let leaf = u64::from(self.region) * u64::from(REGION_BLOCKS) / LEAF_BLOCKS;
        shards::shard_of((self.component, leaf))
    }
}

impl LoadedMap {
    /// Whether the row of its shard does not tell what a transaction changed.
    fn is_new(&self, shard: ShardKey, number: u64) -> bool {
        self.shards.get(&shard).is_none_or(|told| number > *told)
    }
}

/// Whether a component can have the region: rows that are made up may name any.
pub(crate) fn is_region(region: RegionIndex) -> bool {
    u64::from(region) * u64::from(REGION_BLOCKS) < COMPONENT_BLOCKS_MAX
}

impl State {
    /// What the metadata has of a region.
    pub(crate) fn load_region(
        &mut self,
        map: &mut LoadedMap,
        id: ComponentId,
        region: RegionIndex,
        op: OpId,
        bits: RegionBits,
    ) {
        let loaded = self.components.load(id, |component, _| {
            component.regions.put(region, RegionMark { op, due: IN_METADATA });
            component.base.load(region, bits);
        });
        if loaded.is_none() {
            map.deleted.entry(id).or_default().load(region, bits);
        }
    }

    pub(crate) fn load_shard(&mut self, map: &mut LoadedMap, key: &[u8], row: ShardRow) -> Result<(), MetaError> {
        let malformed = || MetaError::from(rows::malformed(key));
        let (id, shard) = shard_of(key)?;
        let ascend = row.pages.windows(2).all(|pair| pair[0].first < pair[1].first);
        let aligned = row.pages.iter().all(|page| u64::from(page.first).is_multiple_of(LEAF_BLOCKS));
        let beyond = u64::from(shard) * SHARD_BLOCKS >= COMPONENT_BLOCKS_MAX;
        if !ascend || !aligned || beyond || row.number >= COUNTS_MAX || self.components.device_of(id).is_none() {
            return Err(malformed());
        }
        let pages = self.map.pages_mut().ok_or_else(malformed)?;
        if !row.pages.iter().all(|page| pages.zone.load(page.place)) {
            return Err(MetaError("a place of the block map is named twice, or there is none".into()));
        }
        pages.shards.load((id, shard), row.pages);
        // A row tells up to the transaction before the one that wrote it.
        self.map.load_number(row.number + 1);
        map.shards.insert((id, shard), row.number);
        let first = u32::from(shard) * SHARD_REGIONS;
        for region in row.regions {
            let (number, seq) = region.mark;
            let epoch = *row.epochs.get(usize::from(number)).ok_or_else(malformed)?;
            let op = OpId { epoch, seq };
            self.load_region(map, id, first + u32::from(region.index), op, region.bits.into());
        }
        Ok(())
    }

    pub(crate) fn load_segments(&mut self, map: &mut LoadedMap, key: &[u8], row: SegmentsRow) -> Result<(), MetaError> {
        let device = *key.get(1).ok_or_else(|| rows::malformed(key))?;
        let number = rows::short_number_of(key)?;
        if row.rows.len() > SEGMENTS_OF_ROW as usize || number > u32::MAX / SEGMENTS_OF_ROW || row.number >= COUNTS_MAX
        {
            return Err(rows::malformed(key).into());
        }
        for (at, segment) in (0u32..).zip(row.rows) {
            self.load_segment(device, number * SEGMENTS_OF_ROW + at, segment, key)?;
        }
        map.segments.insert((device, number), row.number);
        self.map.load_number(row.number);
        Ok(())
    }

    fn load_segment(&mut self, device: u8, segment: u32, row: SegmentRow, key: &[u8]) -> Result<(), MetaError> {
        let known = self.tier.get_mut(device).ok_or_else(|| rows::malformed(key))?;
        if !known.load_again(segment, row) {
            return Err(rows::malformed(key).into());
        }
        self.tier.load_round(row.written.saturating_add(1).min(COUNTS_MAX));
        Ok(())
    }

    pub(crate) fn load_piece(&mut self, map: &mut LoadedMap, key: &[u8], bytes: Vec<u8>) -> Result<(), MetaError> {
        let (number, part) = changes_of(key)?;
        if number >= COUNTS_MAX || self.map.pages().is_none() {
            return Err(rows::malformed(key).into());
        }
        if number != map.number {
            self.load_changes(map)?;
            map.number = number;
        }
        if usize::from(part) != map.pieces.len() {
            return Err(rows::malformed(key).into());
        }
        map.pieces.push(bytes);
        Ok(())
    }

    /// Rows of changes are over: what comes after them needs all that they say.
    pub(crate) fn end_changes(&mut self, map: &mut LoadedMap) -> Result<(), MetaError> {
        self.load_changes(map)?;
        self.take_read(map);
        Ok(())
    }

    /// The changes whose pieces are all there.
    fn load_changes(&mut self, map: &mut LoadedMap) -> Result<(), MetaError> {
        let pieces = std::mem::take(&mut map.pieces);
        if pieces.is_empty() {
            return Ok(());
        }
        let (number, parts) = (map.number, pieces.len() as u16);
        let changes = Changes::decode(&pieces)?;
        let mut entries = 0;
        for of_component in changes.components {
            entries += self.load_component_changes(map, number, of_component)?;
        }
        for (device, segment, row) in changes.segments {
            let told = map.segments.get(&(device, segment / SEGMENTS_OF_ROW)).copied().unwrap_or(0);
            if number > told {
                self.load_segment(device, segment, row, &[CHANGES])?;
            }
        }
        for change in changes.shared {
            self.load_shared(map, number, change)?;
        }
        self.map.load_number(number);
        let pages = self.map.pages_mut().expect("looked at before");
        pages.shards.keep(number, Pieces { map: parts, history: 0 }, entries);
        Ok(())
    }

    fn load_component_changes(
        &mut self,
        map: &mut LoadedMap,
        number: u64,
        changes: ComponentChanges,
    ) -> Result<u64, MetaError> {
        let id = changes.component;
        let removed: u64 = changes.removed.iter().map(|range| u64::from(range.count)).sum();
        let count = changes.entries.len() as u64 + changes.marks.len() as u64 + removed;
        if self.components.device_of(id).is_none() {
            // Deleted, and nothing is left of it.
            return Ok(count);
        }
        if !changes.marks.iter().all(|(region, _)| is_region(*region)) {
            return Err(rows::malformed(&[CHANGES]).into());
        }
        if !changes.gone.is_empty() {
            self.take_read(map);
            self.load_gone(map, id, number, &changes.gone);
        }
        let entries = changes.entries.into_iter();
        map.entries.extend(entries.map(|(block, entry)| ReadEntry { component: id, block, number, entry }));
        let marks = changes.marks.into_iter();
        map.marks.extend(marks.map(|(region, op)| ReadMark { component: id, region, number, op }));
        // As much as may wait, so that what tests make small is taken over in several parts as well.
        let waiting_max = self.map.pages().map_or(0, |pages| pages.waiting_max() as usize);
        let at_once = waiting_max.min(TAKEN_AT_ONCE_MAX);
        if !changes.removed.is_empty() || map.entries.len() + map.marks.len() >= at_once {
            self.take_read(map);
        }
        self.load_removed(map, id, number, &changes.removed);
        Ok(count)
    }

    fn load_gone(&mut self, map: &mut LoadedMap, id: ComponentId, number: u64, gone: &[u16]) {
        for &shard in gone.iter().filter(|shard| map.is_new((id, **shard), number)).collect::<Vec<_>>() {
            self.map.pages_mut().expect("looked at before").shards.remove((id, shard));
            let blocks = BlockRange::new(u64::from(shard) * SHARD_BLOCKS, SHARD_BLOCKS as u32);
            map.deleted.entry(id).or_default().set(blocks, false);
        }
    }

    fn load_removed(&mut self, map: &mut LoadedMap, id: ComponentId, number: u64, removed: &[BlockRange]) {
        let known = self.components.get(id).map(|component| &component.base).or_else(|| map.deleted.get(&id));
        let Some(known) = known else { return };
        // Only what was there needs to be told.
        let runs = removed.iter().flat_map(|range| known.runs(*range));
        let holes = runs.flat_map(|run| run.first..run.end());
        let is_new = |block: &u64| map.is_new(shards::shard_of((id, block / LEAF_BLOCKS)), number);
        let new_holes: Vec<u64> = holes.filter(is_new).collect();
        let shards = &mut self.map.pages_mut().expect("looked at before").shards;
        new_holes.iter().for_each(|&block| shards.put(id, block, None, number));
        self.change_bits(map, id, |base| {
            new_holes.iter().for_each(|&hole| base.set(BlockRange::new(hole, 1), false));
        });
    }

    /// The bits of a component that is here, or was deleted.
    fn change_bits(&mut self, map: &mut LoadedMap, id: ComponentId, act: impl FnOnce(&mut BaseBits)) {
        match self.components.is_here(id) {
            true => drop(self.components.load(id, |component, _| act(&mut component.base))),
            false => act(map.deleted.entry(id).or_default()),
        }
    }

    /// Takes over the entries and marks that were read.
    fn take_read(&mut self, map: &mut LoadedMap) {
        let (mut entries, marks) = (std::mem::take(&mut map.entries), std::mem::take(&mut map.marks));
        if entries.is_empty() && marks.is_empty() {
            return;
        }
        entries.sort_unstable_by_key(|read| (read.component, read.block, read.number));
        let mut touched: Vec<(ShardKey, u64)> = entries.iter().map(|read| (read.shard(), read.number)).collect();
        touched.extend(marks.iter().map(|mark| (mark.shard(), mark.number)));
        touched.retain(|(shard, number)| map.is_new(*shard, *number));
        // Since the first of them its row lacks something.
        touched.sort_unstable();
        touched.dedup_by_key(|(shard, _)| *shard);
        let shards = &mut self.map.pages_mut().expect("looked at before").shards;
        touched.into_iter().for_each(|(shard, number)| shards.touch(shard, number));
        for of_shard in entries.chunk_by(|a, b| a.shard() == b.shard()) {
            let key = of_shard[0].shard();
            let told = map.shards.get(&key).copied();
            let new: Vec<&ReadEntry> =
                of_shard.iter().filter(|read| told.is_none_or(|told| read.number > told)).collect();
            let Some(number) = new.iter().map(|read| read.number).min() else { continue };
            let put = new.iter().map(|read| ((read.block % SHARD_BLOCKS) as u16, Some(read.entry)));
            self.map.pages_mut().expect("looked at before").shards.put_all(key, number, put);
            self.change_bits(map, key.0, |base| {
                new.iter().for_each(|read| base.set(BlockRange::new(read.block, 1), true));
            });
        }
        for of_region in entries.chunk_by(|a, b| (a.component, a.region()) == (b.component, b.region())) {
            let op = of_region.iter().map(|read| read.entry.op).max().expect("none is empty");
            self.load_mark(of_region[0].component, of_region[0].region(), op);
        }
        marks.iter().for_each(|mark| self.load_mark(mark.component, mark.region, mark.op));
    }

    fn load_mark(&mut self, id: ComponentId, region: RegionIndex, op: OpId) {
        self.components.load(id, |component, _| {
            let mark = component.regions.get(region).unwrap_or(RegionMark { op, due: IN_METADATA });
            component.regions.put(region, RegionMark { op: mark.op.max(op), ..mark });
        });
    }

    /// All rows were taken over.
    pub(crate) fn end_map(&mut self, mut map: LoadedMap, has_leaves: bool) -> Result<(), MetaError> {
        self.end_changes(&mut map)?;
        for (id, bits) in map.deleted {
            self.components.load_deleted_blocks(id, bits.total());
        }
        if let Some(pages) = self.map.pages_mut() {
            pages.has_rows = map.has_rows || has_leaves;
        }
        // A transaction that was cut off may have written pages under the next number.
        self.map.load_number(self.map.number() + 1);
        Ok(())
    }
}
