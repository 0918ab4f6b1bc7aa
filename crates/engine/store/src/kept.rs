//! How much of what a component keeps of its past is needed by which snapshots.
//!
//! Promises    where all operations are settled and nothing is written meanwhile: what only one snapshot needs is what nothing needs once that
//!             is deleted, to the block, also of what is still in the log
//!             a part is counted in one moment; between two of them other tasks have their turn
//! Cost        a page of history of 4 KiB is read for some 200 entries, not by way of memory; what waits, or is in the log, is there
//! Not here    what is kept (`transaction.rs`), what goes (`history.rs`)

use std::{ops::Range, rc::Rc};

use cairn_env::Env;
use cairn_format::SHARD_BLOCKS;
use cairn_types::{BlockRange, ComponentId, KeptBlocks, SnapshotId};

use crate::{
    component::Component,
    disk_group::Inner,
    error::StoreError,
    history::{History, asked_by},
    history_shard::takes_space,
    map_pages::PageReads,
    records::{RecordId, Records},
    shards::ShardKey,
    state::State,
};

/// Pages of history of one part: some 13,000 entries, a millisecond of work.
const PART_PAGES: usize = 64;
/// Entries that wait for a shard's pages, beyond which a part is bounded as one that the log has blocks of.
const PART_WAITING: u64 = 16_384;
/// Blocks of such a part.
const PART_BLOCKS: u64 = 8_192;
/// Parts that are counted for one question: some ten milliseconds, well below the time in which a host is to answer another one.
const PARTS: usize = 4;
/// Each page is looked at once, and there may be many: they are not to take the place of others in memory.
const READS: PageReads = PageReads { keeps: false, patient: false };

impl State {
    /// The next blocks of a component, from one on, of which something may be kept: the shard, and which of its blocks.
    fn next_part(&self, id: ComponentId, from: u64) -> Result<Option<(ShardKey, Range<u64>)>, StoreError> {
        let component = self.components.not_lost(id)?;
        let (Some(pages), Ok(shard)) = (self.map.pages(), u16::try_from(from / SHARD_BLOCKS)) else { return Ok(None) };
        let history = pages.shards.history_from((id, shard)).map(|(key, _)| from.max(u64::from(key.1) * SHARD_BLOCKS));
        let buffered = if component.cuts.is_empty() { None } else { component.extents.next_from(from) };
        let Some(first) = history.into_iter().chain(buffered).min() else { return Ok(None) };
        let (key, begin) = ((id, (first / SHARD_BLOCKS) as u16), first % SHARD_BLOCKS);
        let shard = pages.shards.history(key);
        let end = shard.map_or(SHARD_BLOCKS, |shard| shard.blocks_of_pages(begin, PART_PAGES));
        let is_large = shard.is_some_and(|shard| shard.waiting() > PART_WAITING)
            || buffered.is_some_and(|buffered| buffered < first - begin + end);
        Ok(Some((key, begin..if is_large { end.min(begin + PART_BLOCKS) } else { end })))
    }
}

impl<E: Env> Inner<E> {
    /// What is kept of a component's blocks from one on, as far as this goes, and where to go on; none: that was all.
    pub(crate) async fn kept_blocks(
        self: Rc<Self>,
        id: ComponentId,
        mut from: u64,
    ) -> Result<(KeptBlocks, Option<u64>), StoreError> {
        let mut kept = KeptBlocks::default();
        for _ in 0..PARTS {
            let next = self.state.borrow().next_part(id, from)?;
            let Some((key, blocks)) = next else { return Ok((kept, None)) };
            from = u64::from(key.1) * SHARD_BLOCKS + blocks.end;
            kept.add(self.kept_in(key, blocks).await?);
            self.env.give_way().await;
        }
        Ok((kept, Some(from)))
    }

    async fn kept_in(&self, key: ShardKey, blocks: Range<u64>) -> Result<KeptBlocks, StoreError> {
        loop {
            let generation = self.state.borrow().map.generation();
            let history = self.history_read(key, blocks.clone(), READS).await;
            let State { components, map, .. } = &*self.state.borrow();
            if map.generation() == generation {
                let first = u64::from(key.1) * SHARD_BLOCKS;
                let range = BlockRange::new(first + blocks.start, (blocks.end - blocks.start) as u32);
                return Ok(count(components.not_lost(key.0)?, &components.records, (first, &history), range));
            }
        }
    }
}

/// Counts what is kept of a range: entries of history, of blocks from `first` on, and those that the log will make.
fn count(component: &Component, records: &Records, (first, history): (u64, &History), range: BlockRange) -> KeptBlocks {
    let live: Vec<(u32, SnapshotId)> =
        component.cuts.live().filter_map(|cut| Some((cut.generation, cut.snapshot?))).collect();
    let generations: Vec<u32> = live.iter().map(|(generation, _)| *generation).collect();
    let spans = component.extents.spans(range);
    let of_span = |at: usize| (spans[at].range.first..spans[at].range.end()).map(move |block| (block, at));
    let mut buffered = (0..spans.len()).flat_map(of_span).peekable();
    let mut rest = history.entries();
    let (mut kept, mut entries) = (KeptBlocks::default(), Vec::new());
    let next_of = |rest: &[_]| rest.first().map(|((block, _), _): &(_, _)| first + block);
    while let Some(block) = next_of(rest).into_iter().chain(buffered.peek().map(|(block, _)| *block)).min() {
        let own = rest.iter().take_while(|((at, _), _)| first + at == block).count();
        entries.clear();
        entries.extend(rest[..own].iter().map(|((_, generation), entry)| (*generation, takes_space(entry))));
        rest = &rest[own..];
        if let Some((_, at)) = buffered.next_if(|(at, _)| *at == block) {
            destage(component, records, block, &spans[at].versions, &mut entries);
        }
        let mut previous = None;
        for &(generation, takes_space) in &entries {
            if takes_space {
                let asked = asked_by(&generations, previous, generation);
                kept.count(live[asked].iter().map(|(_, snapshot)| *snapshot));
            }
            previous = Some(generation);
        }
    }
    kept
}

/// Adds what destage will make history of, as it folds these versions of a block, the oldest first: generation, and whether it takes space.
fn destage(
    component: &Component,
    records: &Records,
    block: u64,
    versions: &[RecordId],
    entries: &mut Vec<(u32, bool)>,
) {
    let mut held = component.base.get(block);
    for version in versions.iter().rev().map(|id| records.of(*id)) {
        let generation = component.cuts.generation_below(version.op).filter(|_| !version.is_copy);
        let place = generation.map(|generation| (generation, entries.binary_search_by_key(&generation, |(of, _)| *of)));
        if let Some((generation, Err(place))) = place {
            entries.insert(place, (generation, held));
        }
        held = version.allocates();
    }
}
