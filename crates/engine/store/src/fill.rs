//! Fills the block map of a group that nobody serves, for benchmarks: blocks are mapped, and no data is written.
//!
//! Promises    refused before anything is changed where it cannot come to its end
//!             the map is left as if the blocks had been written, settled, destaged and folded; a crash meanwhile leaves a part of it so
//!             reads of these blocks fail with a wrong checksum until they are written, and all else works
//! Assumes     one handle, and nothing that is asked of the group meanwhile: the destage task rests
//! Memory      entries of one piece (25 MB), 40 bytes a segment that is filled
//! Not here    which block is mapped to which slot (`fill_piece.rs`)
//!
//! Entries go where a destage round's go, among those that wait for their shard, and are folded at once. They never stand in a row of
//! changes: that would be twice the bytes. So memory is ahead of what is durable for as long as a piece takes. Where one fails the group
//! stops, and opening it takes memory back.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use cairn_env::{Disk, Env, PageBuf};
use cairn_format::{
    LEAF_BLOCKS, MAP_PAGE_BYTES, Needs, SHARD_BLOCKS, map_rows::SHARD_REGIONS, pack_map_pages, run_header_pages,
};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId, OpId, REGION_BLOCKS, RegionIndex};
use futures::future::{join, join_all};

use crate::{
    capacity::CapacityWriter,
    component::Component,
    disk_group::{DiskGroup, Inner},
    error::{StoreError, StoreErrorKind, refused},
    fill_piece::{Content, FillOrder, Piece, Span, deal, op_of, pieces_of, sample},
    map_pages::Folded,
    marks::{IN_METADATA, RegionMark},
    segments::CLEANER_RESERVE_SEGMENTS,
    state::State,
    transaction::Transaction,
    zone::FULL_PERCENT,
};

const PAGE: u64 = MAP_PAGE_BYTES as u64;
/// Shards that are packed at once: a helper packs one while entries of another are made. 8 MB of entries each.
const FOLDED_AT_ONCE: usize = 4;
/// Heads of runs that are written at once: 2 MB.
const HEADS_AT_ONCE: usize = 64;
/// Wait for a transaction that is under way.
const REST: Duration = Duration::from_millis(1);
/// Bytes of a page's name in a shard's row, and of a region, at most.
const PAGE_NAME_BYTES: u64 = 11;
const REGION_BYTES: u64 = 9;
/// Of the bytes of rows, what their file takes: a commit copies what it changes, and the file doubles when it grows.
const FILE_FACTOR: u64 = 4;

/// What is to be filled.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fill {
    /// One component; left out: all that have blocks.
    pub component: Option<ComponentId>,
    /// Blocks of each, from its first one on; left out: all.
    pub blocks_max: Option<u64>,
    /// Which slots they are mapped to.
    pub order: FillOrder,
    /// One seed is one map.
    pub seed: u64,
    /// Leave out the heads of runs. They take a 128th of what is mapped, and segments without them cannot be cleaned.
    pub no_heads: bool,
}

/// What filling comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FillPlan {
    /// Components that are filled.
    pub components: u64,
    /// Blocks that are mapped.
    pub blocks: u64,
    /// Pages of the map, about.
    pub pages: u64,
    /// Bytes of the metadata region that these and rows take, at most.
    pub metadata_bytes: u64,
    /// Bytes of it that may still be taken.
    pub metadata_free_bytes: u64,
    /// Segments of capacity devices.
    pub segments: u64,
    /// Bytes of the heads of their runs.
    pub head_bytes: u64,
}

/// What was filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filled {
    /// Blocks that are mapped.
    pub blocks: u64,
    /// Pages of the map that were written.
    pub pages: u64,
    /// Bytes of the metadata region that are in use.
    pub metadata_used_bytes: u64,
}

impl<E: Env> DiskGroup<E> {
    /// What [`Self::fill_map`] would do. Nothing is changed.
    ///
    /// # Errors
    /// As there, before anything is changed.
    pub fn plan_fill(&self, fill: &Fill) -> Result<FillPlan, StoreError> {
        self.inner().plan_fill(fill).map(|(plan, _)| plan)
    }

    /// Maps blocks to slots that were never written, and closes the group. What the blocks held cannot be read any more: there was nothing.
    /// From then on a group whose map is not in pages needs a build that knows them. `told` is told how many blocks are mapped, of how many.
    ///
    /// # Errors
    /// [`StoreErrorKind::Refused`], [`StoreErrorKind::NoSpace`], [`StoreErrorKind::NotFound`], [`StoreErrorKind::Lost`]: no block was mapped.
    /// Others: a device failed, and a part of the blocks may be mapped.
    pub async fn fill_map(self, fill: &Fill, told: &dyn Fn(u64, u64)) -> Result<Filled, StoreError> {
        if !self.is_only_handle() {
            return Err(refused("somebody else uses the disk group: fill it while nobody does"));
        }
        let filled = self.fill(fill, told).await;
        self.close().await;
        filled
    }

    async fn fill(&self, fill: &Fill, told: &dyn Fn(u64, u64)) -> Result<Filled, StoreError> {
        let inner = self.inner();
        inner.plan_fill(fill)?;
        self.allow(Needs::MAP_PAGES);
        inner.come_to_rest().await?;
        // What was in the log takes up room now.
        let (plan, spans) = inner.plan_fill(fill)?;
        let filled = inner.fill_pieces(spans, fill, (plan.blocks, told)).await;
        if let Err(error) = &filled {
            // Memory may be ahead of the metadata: nothing is built upon it.
            inner.state.borrow_mut().stop(error.clone());
        }
        filled
    }
}

impl<E: Env> Inner<E> {
    /// What is to be done, and the blocks by device.
    fn plan_fill(&self, fill: &Fill) -> Result<(FillPlan, BTreeMap<u8, Vec<Span>>), StoreError> {
        let state = self.state.borrow();
        state.life.not_stopped()?;
        let content = Content::new(fill.order, fill.seed);
        let (mut spans, mut plan) = (BTreeMap::<u8, Vec<Span>>::new(), FillPlan::default());
        for component in chosen(&state, fill)? {
            let of_device = spans.entry(component.device).or_default();
            spans_of(component, fill, of_device)?;
            plan.components += 1;
        }
        // A witness has no blocks.
        spans.retain(|_, own| !own.is_empty());
        let mut row_bytes = 0;
        for (&device, own) in &spans {
            let blocks: u64 = own.iter().map(|span| span.count).sum();
            let per_segment = state.tier.of(device).slots_per_segment().max(1);
            let segments = blocks.div_ceil(per_segment);
            let slots = segments * u64::from(state.tier.of(device).segment_pages);
            let operations = own.iter().map(|span| span.of_component).max().unwrap_or(1);
            let entries = sample(content, slots, operations, per_segment);
            let of_shard = pack_map_pages(ComponentId(1), 0, 1, &entries, self.map_bounds.get().1).len() as u64;
            let leaves = |span: &Span| (span.first % LEAF_BLOCKS + span.count).div_ceil(LEAF_BLOCKS);
            let pages = |span: &Span| (of_shard * leaves(span)).div_ceil(SHARD_BLOCKS / LEAF_BLOCKS);
            plan.blocks += blocks;
            plan.segments += segments;
            plan.pages += own.iter().map(pages).sum::<u64>();
            row_bytes += own.len() as u64 * row_bytes_of(of_shard);
            if !fill.no_heads {
                plan.head_bytes += segments * u64::from(run_header_pages(per_segment as u32)) * u64::from(BLOCK_BYTES);
            }
            self.check_device(&state, device, own, segments)?;
        }
        if plan.blocks == 0 {
            return Err(refused("there is no component with blocks to be filled: make a disk first"));
        }
        plan.metadata_bytes = plan.pages * PAGE + FILE_FACTOR * row_bytes;
        self.check_metadata(&state, &mut plan)?;
        Ok((plan, spans))
    }

    /// Whether the device has free segments for these blocks, and may be charged for them.
    fn check_device(&self, state: &State, device: u8, own: &[Span], needed: u64) -> Result<(), StoreError> {
        let segments = state.tier.of(device);
        let name = self.disk(device).map_or_else(String::new, |disk| disk.name());
        let blocks: u64 = own.iter().map(|span| span.count).sum();
        let (free, per) = (segments.free_segments(), segments.slots_per_segment());
        if needed + CLEANER_RESERVE_SEGMENTS > free {
            let text = format!(
                "{name} has {free} free segments of {per} blocks; {blocks} blocks take {needed}, and {CLEANER_RESERVE_SEGMENTS} stay free for \
                 the cleaner: fill at most {} blocks of it, or take a larger device",
                free.saturating_sub(CLEANER_RESERVE_SEGMENTS) * per
            );
            return Err(StoreError::new(StoreErrorKind::NoSpace, text));
        }
        let mut added: BTreeMap<ComponentId, u64> = BTreeMap::new();
        own.iter().for_each(|span| *added.entry(span.key.0).or_default() += span.count);
        let more = |(id, added): (&ComponentId, &u64)| {
            let component = state.components.of(*id);
            let after = (component.allocated() + component.queued_blocks + added).max(component.reserved_blocks);
            after.saturating_sub(component.charge())
        };
        let more: u64 = added.iter().map(more).sum();
        let room = state.tier.room(device);
        if more > room {
            let text = format!(
                "{blocks} blocks take {more} on {name} beside what is reserved there, and {room} of its {} are not spoken for: fill fewer \
                 blocks, or take a larger device",
                segments.limit()
            );
            return Err(StoreError::new(StoreErrorKind::NoSpace, text));
        }
        Ok(())
    }

    /// Whether the metadata region has room, so that it does not count as full afterwards.
    fn check_metadata(&self, state: &State, plan: &mut FillPlan) -> Result<(), StoreError> {
        let (region, file) = self.meta.room().bytes();
        let used = file + state.map.pages().map_or(0, |pages| pages.zone.in_use() * PAGE);
        plan.metadata_free_bytes = (region / 100 * FULL_PERCENT).saturating_sub(used);
        if plan.metadata_bytes <= plan.metadata_free_bytes {
            return Ok(());
        }
        let FillPlan { blocks, pages, metadata_bytes, metadata_free_bytes, .. } = *plan;
        let fits = u128::from(blocks) * u128::from(metadata_free_bytes) / u128::from(metadata_bytes);
        let text = format!(
            "the map of {blocks} blocks takes {metadata_bytes} bytes of metadata ({pages} pages of {PAGE} and their rows), and \
             {metadata_free_bytes} are left: {used} of the region's {region} bytes are in use, and it counts as full at {FULL_PERCENT} %; fill at \
             most {fits} blocks, or make the group with a larger cache device"
        );
        Err(StoreError::new(StoreErrorKind::NoSpace, text))
    }

    /// Destages what is in the log, and waits until the destage task has nothing to do.
    async fn come_to_rest(&self) -> Result<(), StoreError> {
        loop {
            self.drain().await?;
            // A transaction that was asked for beside the drain begins after it.
            if self.state.borrow_mut().rests() {
                return Ok(());
            }
            self.env.sleep(REST).await;
        }
    }

    async fn fill_pieces(
        self: &Rc<Self>,
        spans: BTreeMap<u8, Vec<Span>>,
        fill: &Fill,
        (whole, told): (u64, &dyn Fn(u64, u64)),
    ) -> Result<Filled, StoreError> {
        let content = Content::new(fill.order, fill.seed);
        let (mut filled, ticket) = (Filled::default(), self.state.borrow_mut().tier.take_ticket());
        told(0, whole);
        for (device, spans) in spans {
            let mut pieces = pieces_of(device, &spans, content);
            {
                let mut state = self.state.borrow_mut();
                let round = state.tier.round();
                let segments = state.tier.of_mut(device);
                if !deal(segments, &mut pieces, round, ticket, &self.pins) {
                    return Err(cut_short("no segment is free any more"));
                }
                // Each piece tells its own.
                segments.dirty.clear();
            }
            for piece in pieces {
                let piece = Arc::new(piece);
                filled.pages += self.fill_piece(&piece, ticket, fill.no_heads).await?;
                filled.blocks += piece.blocks();
                told(filled.blocks, whole);
            }
        }
        let mut state = self.state.borrow_mut();
        state.tier.round_over(ticket);
        let in_use = state.map.pages().map_or(0, |pages| pages.zone.in_use());
        filled.metadata_used_bytes = self.meta.room().bytes().1 + in_use * PAGE;
        Ok(filled)
    }

    /// Maps the blocks of a piece, in one transaction. Gives the pages that it wrote.
    async fn fill_piece(&self, piece: &Arc<Piece>, ticket: u64, no_heads: bool) -> Result<u64, StoreError> {
        let heads = async { if no_heads { Ok(()) } else { self.write_heads(piece, ticket).await } };
        let (written, folded) = join(heads, self.fold_piece(piece)).await;
        written?;
        let folded = folded?;
        let pages = folded.iter().map(|folded| folded.written).sum();
        {
            let mut state = self.state.borrow_mut();
            let segments = state.tier.of_mut(piece.device);
            for run in &piece.runs {
                segments.add_live_run(run.first_slot(), run.entries);
                segments.dirty.insert(run.segment);
            }
        }
        let mut transaction = Transaction::default();
        transaction.exchange(folded, &self.state.borrow().components);
        self.commit(transaction).await?;
        self.state.borrow_mut().tier.next_round();
        Ok(pages)
    }

    /// What tells the cleaner who owns the blocks of a segment.
    async fn write_heads(&self, piece: &Arc<Piece>, ticket: u64) -> Result<(), StoreError> {
        let log_id = self.state.borrow().log.id();
        for from in (0..piece.runs.len()).step_by(HEADS_AT_ONCE) {
            let to = (from + HEADS_AT_ONCE).min(piece.runs.len());
            let own = piece.clone();
            let job = move || (from..to).map(|run| own.head(run, log_id)).collect::<Vec<_>>();
            let heads = self.env.run_blocking(job).await;
            let writes = piece.runs[from..to].iter().zip(heads).map(|(run, head)| {
                let offset = self.state.borrow().tier.of(piece.device).device_offset(run.page);
                let (bytes, parts) = (head.len() as u64, vec![PageBuf::copy_of(&head).freeze()]);
                self.write_capacity(piece.device, offset, parts, bytes, CapacityWriter::Destage(ticket))
            });
            for written in join_all(writes).await {
                written.map_err(|error| StoreError::media("write the heads of runs", &error))?;
            }
        }
        let flushed = self.flush_device(piece.device).await;
        flushed.map_err(|error| StoreError::media("flush the heads of runs", &error))
    }

    /// Packs the shards of a piece and writes their pages.
    async fn fold_piece(&self, piece: &Arc<Piece>) -> Result<Vec<Folded>, StoreError> {
        let spans: Vec<usize> = (0..piece.spans.len()).collect();
        let mut done = Vec::with_capacity(spans.len());
        for some in spans.chunks(FOLDED_AT_ONCE) {
            let packed = some.iter().map(|&span| async move {
                self.state.borrow_mut().put_span(piece, span);
                // The others have a turn while this one is packed.
                self.prepare_fold(piece.spans[span].key).await
            });
            let folds = join_all(packed).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            let folded = self.write_folds(folds).await?;
            if folded.len() < some.len() {
                return Err(cut_short("no room is left for pages of the block map"));
            }
            done.extend(folded);
        }
        Ok(done)
    }
}

impl State {
    /// Whether the destage task has nothing to do any more.
    fn rests(&mut self) -> bool {
        let Some(pages) = self.map.pages_mut() else { return false };
        pages.rows_stay = true;
        let no_round = !self.components.records.are_held();
        no_round && !self.log.wants_destage() && self.map.rests_at(self.map.generation())
    }

    /// Takes the blocks of a span into the map: what waits for their shard, bits, marks and what is settled.
    fn put_span(&mut self, piece: &Piece, span: usize) {
        let Span { key, first, count, of_component } = piece.spans[span];
        let number = self.map.number();
        let shard = u32::from(key.1) * SHARD_REGIONS;
        let mut marks: BTreeMap<RegionIndex, u64> = BTreeMap::new();
        let entries = piece.entries(span).inspect(|(block, entry)| {
            let mark = marks.entry(shard + u32::from(*block) / REGION_BLOCKS).or_default();
            *mark = entry.op.seq.max(*mark);
        });
        let pages = self.map.pages_mut().expect("looked at before");
        pages.shards.put_all(key, number, entries.map(|(block, entry)| (block, Some(entry))));
        self.components.change(&mut self.tier, key.0, |component, records| {
            component.base.set(BlockRange::new(first, count as u32), true);
            for (region, seq) in marks {
                let known = component.regions.get(region);
                let mark = known.unwrap_or(RegionMark { op: OpId::ZERO, due: IN_METADATA });
                component.regions.put(region, RegionMark { op: mark.op.max(op_of(seq)), ..mark });
            }
            component.settle(op_of(of_component), records);
        });
    }
}

/// What was counted beforehand is not there after all: some blocks may be mapped by now.
fn cut_short(why: &str) -> StoreError {
    let text = format!("{why}: a part of the blocks may be mapped; delete the disk, or make the group anew");
    StoreError::new(StoreErrorKind::Media, text)
}

/// The components that are filled.
fn chosen<'a>(state: &'a State, fill: &Fill) -> Result<Vec<&'a Component>, StoreError> {
    match fill.component {
        Some(id) => state.components.not_lost(id).map(|component| vec![component]),
        None => {
            let witness = |component: &&Component| component.size_blocks == 0;
            let all = state.components.all().filter(|component| !witness(component));
            all.map(|component| state.components.not_lost(component.id)).collect()
        }
    }
}

/// The blocks of a component, shard by shard. Refused where it holds any of them.
fn spans_of(component: &Component, fill: &Fill, spans: &mut Vec<Span>) -> Result<(), StoreError> {
    let count = fill.blocks_max.map_or(component.size_blocks, |most| most.min(component.size_blocks));
    let range = BlockRange::new(0, u32::try_from(count).map_err(|_| refused("a component of so many blocks is none"))?);
    let mut buffered = 0;
    component.extents.each(range, |part, _| buffered += u64::from(part.count));
    let mapped = component.base.count(range);
    if mapped + buffered > 0 {
        return Err(refused(format!(
            "of the first {count} blocks of component {} {mapped} are mapped and {buffered} buffered already: fill a disk that was never \
             written, or name another component",
            component.id
        )));
    }
    for first in (0..count).step_by(SHARD_BLOCKS as usize) {
        let key = (component.id, (first / SHARD_BLOCKS) as u16);
        spans.push(Span { key, first, count: (count - first).min(SHARD_BLOCKS), of_component: count });
    }
    Ok(())
}

/// Bytes of the row of a shard with so many pages, in pages of the metadata store.
fn row_bytes_of(pages: u64) -> u64 {
    (PAGE_NAME_BYTES * pages + REGION_BYTES * u64::from(SHARD_REGIONS)).next_power_of_two().max(PAGE)
}
