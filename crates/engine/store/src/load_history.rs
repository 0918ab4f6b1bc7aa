//! Opening: cuts of components, and their history, from rows of shards and of changes.
//!
//! Promises    a change counts once: not where the row of its shard's history is as late as it
//! Assumes     rows come in this order: components, cuts, the map with its changes, shards of history, changes of history by number
//! Not here    the other rows (`recovery.rs`), the map (`load_map.rs`)

use std::collections::BTreeMap;

use cairn_format::{
    COMPONENT_BLOCKS_MAX, LEAF_BLOCKS, SHARD_BLOCKS,
    history_rows::{CutsRow, HistoryChanges, HistoryShardRow},
    map_rows::{SHARD_REGIONS, changes_of, shard_of},
};
use cairn_types::{BlockRange, ComponentId};

use crate::{
    cuts::Cuts,
    error::MetaError,
    history::LOST_PLACE,
    history_shard::Over,
    rows,
    segments::COUNTS_MAX,
    shards::{self, ShardKey},
    state::State,
};

/// What is known of history while it is loaded.
#[derive(Debug, Default)]
pub(crate) struct LoadedHistory {
    /// Up to which transaction the row of a shard tells.
    shards: BTreeMap<ShardKey, u64>,
    /// Pieces of the changes that are being read.
    number: u64,
    pieces: Vec<Vec<u8>>,
    /// Blocks that history takes, by shard. Of one that goes in a later change the row is gone already, and with it what earlier changes count from: what they
    /// come to by themselves may be less than nothing until then.
    blocks: BTreeMap<ShardKey, i64>,
}

impl State {
    pub(crate) fn load_cuts(&mut self, key: &[u8], row: CutsRow) -> Result<(), MetaError> {
        let ascend =
            row.cuts.windows(2).all(|pair| pair[0].generation < pair[1].generation && pair[0].op <= pair[1].op);
        let known = row.cuts.last().is_none_or(|last| last.generation < row.next_generation);
        if !ascend || !known || self.map.pages().is_none() {
            return Err(rows::malformed(key).into());
        }
        // Of a component that was deleted nothing is asked.
        self.components.load(rows::component_of(key)?, |component, _| component.cuts = Cuts::load(row));
        Ok(())
    }

    pub(crate) fn load_history_shard(
        &mut self,
        loaded: &mut LoadedHistory,
        key: &[u8],
        row: HistoryShardRow,
    ) -> Result<(), MetaError> {
        let malformed = || MetaError::from(rows::malformed(key));
        let (id, shard) = shard_of(key)?;
        let ascend = row.pages.windows(2).all(|pair| pair[0].first < pair[1].first);
        let counted = row.counts.windows(2).all(|pair| pair[0].generation < pair[1].generation);
        let fit = row.counts.iter().all(|count| count.entries > 0 && count.blocks <= count.entries);
        let beyond = u64::from(shard) * SHARD_BLOCKS >= COMPONENT_BLOCKS_MAX;
        if !ascend || !counted || !fit || beyond || row.number >= COUNTS_MAX || self.components.device_of(id).is_none()
        {
            return Err(malformed());
        }
        let pages = self.map.pages_mut().ok_or_else(malformed)?;
        if !row.pages.iter().filter(|page| page.place != LOST_PLACE).all(|page| pages.zone.load(page.place)) {
            return Err(MetaError("a place of history is named twice, or there is none".into()));
        }
        let blocks = row.counts.iter().map(|count| i64::from(count.blocks)).sum();
        loaded.blocks.insert((id, shard), blocks);
        pages.shards.load_history((id, shard), row.pages, row.counts);
        // A row tells up to the transaction before the one that wrote it.
        self.map.load_number(row.number + 1);
        loaded.shards.insert((id, shard), row.number);
        let first = u32::from(shard) * SHARD_REGIONS;
        self.components.load(id, |component, _| {
            for plane in row.planes {
                for (index, bits) in plane.regions {
                    component.cuts.load_plane(plane.generation, first + u32::from(index), bits.into());
                }
            }
        });
        Ok(())
    }

    pub(crate) fn load_history_piece(
        &mut self,
        loaded: &mut LoadedHistory,
        key: &[u8],
        bytes: Vec<u8>,
    ) -> Result<(), MetaError> {
        let (number, part) = changes_of(key)?;
        if number >= COUNTS_MAX || self.map.pages().is_none() {
            return Err(rows::malformed(key).into());
        }
        if number != loaded.number {
            self.load_history_changes(loaded)?;
            loaded.number = number;
        }
        if usize::from(part) != loaded.pieces.len() {
            return Err(rows::malformed(key).into());
        }
        loaded.pieces.push(bytes);
        Ok(())
    }

    /// The changes whose pieces are all there.
    pub(crate) fn load_history_changes(&mut self, loaded: &mut LoadedHistory) -> Result<(), MetaError> {
        let pieces = std::mem::take(&mut loaded.pieces);
        if pieces.is_empty() {
            return Ok(());
        }
        let (number, parts) = (loaded.number, pieces.len() as u16);
        let mut count = 0;
        for own in HistoryChanges::decode(&pieces)?.components {
            let id = own.component;
            count += (own.entries.len() + own.moved.len() + own.turned.len()) as u64;
            if self.components.device_of(id).is_none() {
                // Deleted, and nothing is left of it.
                continue;
            }
            for shard in own.gone {
                let key = (id, shard);
                if loaded.shards.get(&key).is_none_or(|told| number > *told) {
                    self.map.pages_mut().expect("looked at before").shards.remove_history(key);
                    loaded.blocks.remove(&key);
                }
            }
            let lists = [(own.entries, Over::Nothing), (own.moved, Over::Alike), (own.turned, Over::Unlike)];
            let all = lists.into_iter().flat_map(|(list, over)| list.into_iter().map(move |entry| (entry, over)));
            for (((block, generation), entry), over) in all {
                let key = shards::shard_of((id, block / LEAF_BLOCKS));
                if loaded.shards.get(&key).is_some_and(|told| number <= *told) {
                    continue;
                }
                let place = ((block % SHARD_BLOCKS) as u16, generation);
                let pages = self.map.pages_mut().expect("looked at before");
                pages.shards.put_history(key, number, [(place, entry, over)]);
                *loaded.blocks.entry(key).or_default() += over.blocks_more(&entry);
                if over == Over::Nothing {
                    let range = BlockRange::new(block, 1);
                    self.components.load(id, |component, _| component.cuts.note(generation, range));
                }
            }
        }
        self.map.load_number(number);
        self.map.pages_mut().expect("looked at before").shards.load_kept_history(number, parts, count);
        Ok(())
    }

    /// All rows of history were taken over.
    pub(crate) fn end_history(&mut self, mut loaded: LoadedHistory) -> Result<(), MetaError> {
        self.load_history_changes(&mut loaded)?;
        let mut of_components: BTreeMap<ComponentId, u64> = BTreeMap::new();
        for ((id, _), blocks) in loaded.blocks {
            let blocks =
                u64::try_from(blocks).map_err(|_| MetaError(format!("history of {id:?} takes {blocks} blocks")))?;
            *of_components.entry(id).or_default() += blocks;
        }
        for (id, blocks) in of_components {
            if self.components.load(id, |component, _| component.history_blocks += blocks).is_none() {
                self.components.load_deleted_blocks(id, blocks);
            }
        }
        Ok(())
    }
}
