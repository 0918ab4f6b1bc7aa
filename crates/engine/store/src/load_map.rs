//! Opening: the block map in pages, from rows of shards, of segments and of changes.
//!
//! Promises    a change counts once: not where the row of its shard, or of its segment, is as late as it
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
    marks::{IN_METADATA, RegionMark},
    rows::{self, SegmentRow},
    segments::COUNTS_MAX,
    shards::{self, ShardKey},
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
    /// Bits of deleted components, which have none any more.
    deleted: BTreeMap<ComponentId, BaseBits>,
    /// Pieces of the changes that are being read.
    number: u64,
    pieces: Vec<Vec<u8>>,
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

    /// The changes whose pieces are all there.
    pub(crate) fn load_changes(&mut self, map: &mut LoadedMap) -> Result<(), MetaError> {
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
        self.map.load_number(number);
        let pages = self.map.pages_mut().expect("looked at before");
        pages.shards.keep(number, parts, entries);
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
        let shards = &mut self.map.pages_mut().expect("looked at before").shards;
        let numbers = &map.shards;
        let is_new = |leaf: u64| {
            let told = numbers.get(&shards::shard_of((id, leaf))).copied();
            told.is_none_or(|told| number > told)
        };
        let is_here = self.components.is_here(id);
        for &shard in &changes.gone {
            if is_new(shards::leaves_of(shard).start) {
                shards.remove((id, shard));
                let blocks = BlockRange::new(u64::from(shard) * SHARD_BLOCKS, SHARD_BLOCKS as u32);
                map.deleted.entry(id).or_default().set(blocks, false);
            }
        }
        let new_entries = || changes.entries.iter().filter(|(block, _)| is_new(block / LEAF_BLOCKS));
        new_entries().for_each(|&(block, entry)| shards.put(id, block, Some(entry), number));
        let known = self.components.get(id).map(|component| &component.base).or_else(|| map.deleted.get(&id));
        // Only what was there needs to be told.
        let runs = |known: &BaseBits| changes.removed.iter().flat_map(|range| known.runs(*range)).collect::<Vec<_>>();
        let holes = known.map(runs).unwrap_or_default();
        let new_holes: Vec<u64> =
            holes.iter().flat_map(|run| run.first..run.end()).filter(|block| is_new(block / LEAF_BLOCKS)).collect();
        new_holes.iter().for_each(|&block| shards.put(id, block, None, number));
        for &(region, _) in &changes.marks {
            let leaf = u64::from(region) * u64::from(REGION_BLOCKS) / LEAF_BLOCKS;
            if is_new(leaf) {
                shards.touch(shards::shard_of((id, leaf)), number);
            }
        }
        let marks = changes.entries.iter().map(|(block, entry)| (BlockRange::new(*block, 1).regions().start, entry.op));
        let marks: Vec<(RegionIndex, OpId)> = marks.chain(changes.marks.iter().copied()).collect();
        let change = |base: &mut BaseBits| {
            new_holes.iter().for_each(|&hole| base.set(BlockRange::new(hole, 1), false));
            new_entries().for_each(|&(block, _)| base.set(BlockRange::new(block, 1), true));
        };
        if !is_here {
            change(map.deleted.entry(id).or_default());
            return Ok(count);
        }
        self.components.load(id, |component, _| {
            change(&mut component.base);
            for (region, op) in marks {
                let mark = component.regions.get(region).unwrap_or(RegionMark { op, due: IN_METADATA });
                component.regions.put(region, RegionMark { op: mark.op.max(op), ..mark });
            }
        });
        Ok(count)
    }

    /// All rows were taken over.
    pub(crate) fn end_map(&mut self, mut map: LoadedMap, has_leaves: bool) -> Result<(), MetaError> {
        self.load_changes(&mut map)?;
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
