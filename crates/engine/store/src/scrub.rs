//! Scrub: every block that the group holds is read and compared with the checksum that the *map* has for it.
//!
//! Promises    S1  what is compared is what a read would return: a write that was lost, or that landed elsewhere, is found, though the
//!                 run that stands in its place agrees with its own header
//!             S2  nothing is reported that a read of this moment would return: what does not fit is looked up and read again
//!             S3  a pass goes on behind a start, from the last shard of the map that it finished before its row was written
//!             S4  no more than [`TOGETHER`] blocks are looked at before the thread's other tasks have a turn
//! Assumes     one task calls [`crate::DiskGroup::scrub_step`]; how often is its affair (`node`)
//! Memory      32 bytes a block of one shard of the map (256 MiB), and one piece
//! Not here    what was found, and what is durable of it (`findings.rs`); repairing (`object`); superblocks, and the metadata's own rows:
//!             those are read whole at each opening
//!
//! A shard's entries are read in the order of devices and sectors, so that what was written together is read together. Between the look
//! at the map and the read a block may be overwritten, moved by the cleaner, or trimmed. So a mismatch proves nothing by itself: the
//! block is read once more, as guests read it, past the cache.

use std::rc::Rc;

use bytes::Bytes;
use cairn_env::{DiskErrorKind, Env};
use cairn_format::{PAGE_SECTORS, SHARD_BLOCKS, crc32c, rows::BadRange};
use cairn_types::{BlockRange, Canary, ComponentId, ObjectId, REGION_BLOCKS};

use crate::{
    component::Component,
    disk_group::{DiskGroup, Inner},
    error::{StoreError, StoreErrorKind},
    findings::ScrubState,
    leaf::{Entry, LEAF_BLOCKS, LeafKey, Spot},
    packed_read::{pages_of, plain},
    records::{Body, Place},
    scrub_batch::{Batch, Due, PAGE},
    segments::LOG,
    shards::{ShardKey, leaves_of},
    state::State,
};

/// Blocks that are looked up before others of the thread have a turn: those of a region.
const TOGETHER: u64 = REGION_BLOCKS as u64;
/// Times that a shard's entries are read anew where a transaction came between; then what is lacking is looked up block by block.
const READS_MAX: u32 = 4;

/// What one step of a scrub did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// What was found bad and was not known, ascending.
    pub bad: Vec<(ComponentId, BlockRange)>,
    /// The pass came to its end.
    pub pass_ended: bool,
}

/// Blocks of a component that are bad on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadBlocks {
    /// Whose.
    pub component: ComponentId,
    /// Of which object.
    pub object: ObjectId,
    /// Which.
    pub range: BlockRange,
    /// The owner has looked for another copy that has them, and there was none.
    pub no_copy: bool,
}

impl State {
    /// The next shard that has anything to compare, from where the pass stands.
    fn next_to_scrub(&self) -> Option<ShardKey> {
        let (from, block) = self.findings.next();
        for component in self.components.all().skip_while(|component| component.id < from) {
            if component.lost {
                continue;
            }
            let first = if component.id == from { block / SHARD_BLOCKS } else { 0 };
            let has_blocks = |shard: &u64| {
                let range = BlockRange::new(shard * SHARD_BLOCKS, SHARD_BLOCKS as u32);
                component.base.count(range) > 0 || !component.extents.spans(range).is_empty()
            };
            if let Some(shard) = (first..component.size_blocks.div_ceil(SHARD_BLOCKS)).find(has_blocks) {
                return Some((component.id, shard as u16));
            }
        }
        None
    }

    /// Where the blocks of one region of a shard should stand, by the map's entries of it (by block of the shard) and the index.
    fn due_in_region(&self, batch: &mut Batch, region: BlockRange, mapped: &[(u64, Entry)]) {
        let Some(component) = self.components.get(batch.key.0).filter(|component| !component.lost) else { return };
        let (segments, first) = (self.tier.of(component.device), batch.first_block());
        let mut mapped = mapped.iter().peekable();
        let in_spot = |batch: &mut Batch, block: u64, spot: Spot, crc: u32| match segments.place_of(spot) {
            Some(spot) => batch.due.push(Due {
                device: component.device,
                offset: segments.offset_of(spot),
                sectors: spot.sectors() as u8,
                segment: u64::from(segments.segment_of(spot)),
                crc,
                block: (block - first) as u16,
            }),
            None if spot == Spot::ZERO => {}
            None => batch.placeless.push(block),
        };
        for block in component.base.runs(region).into_iter().flat_map(|run| run.first..run.end()) {
            while mapped.next_if(|(other, _)| first + other < block).is_some() {}
            match mapped.next_if(|(other, _)| first + other == block) {
                Some((_, entry)) => in_spot(batch, block, entry.spot, entry.crc),
                None => batch.placeless.push(block),
            }
        }
        for span in component.extents.spans(region) {
            let record = self.components.records.of(span.versions[0]);
            let Body::Data { place, .. } = &record.body else { continue };
            for block in span.range.first..span.range.end() {
                let (crc, index) = (record.crc(block), block - record.range.first);
                match place {
                    Place::Spots(spots) => in_spot(batch, block, spots[index as usize], crc),
                    Place::Log(position) => {
                        let (ring, position) = (&self.log.ring, position + index * PAGE);
                        let segment = ring.physical(ring.segment_of(position));
                        let (offset, block) = (ring.device_offset(position), (block - first) as u16);
                        let sectors = PAGE_SECTORS as u8;
                        batch.due.push(Due { device: LOG, offset, sectors, segment, crc, block });
                    }
                }
            }
        }
    }
}

impl<E: Env> DiskGroup<E> {
    /// Begins a pass, or has the one that is under way go on; `at_once`: as fast as guests allow, from now on.
    pub fn scrub_begin(&self, at_once: bool) {
        let unix_ms = self.inner().env.unix_ms();
        self.inner().state.borrow_mut().findings.begin(at_once, unix_ms);
        self.scrub_save();
    }

    /// Has the scrub rest, or go on.
    pub fn scrub_pause(&self, pauses: bool) {
        self.inner().state.borrow_mut().findings.pause(pauses);
        self.scrub_save();
    }

    /// Makes durable where the scrub stands, with a transaction of its own where none is under way: to be called once a minute.
    pub fn scrub_save(&self) {
        let inner = self.inner();
        let state = &mut *inner.state.borrow_mut();
        if state.findings.is_dirty() {
            state.log.want_tidy();
            inner.destager.raise();
        }
    }

    /// How far the scrub is, and what it has found.
    pub fn scrub_state(&self) -> ScrubState {
        let state = self.inner().state.borrow();
        let total_blocks = state.components.all().filter(|c| !c.lost).map(|c| c.allocated()).sum();
        ScrubState { total_blocks, ..state.findings.state() }
    }

    /// What is bad now, ascending.
    pub fn bad_blocks(&self) -> Vec<BadBlocks> {
        let State { components, findings, .. } = &mut *self.inner().state.borrow_mut();
        let mut bad = Vec::new();
        for (component, BadRange { range, no_copy }) in findings.ranges() {
            match components.get(component).filter(|component| !component.lost) {
                Some(Component { object, .. }) => bad.push(BadBlocks { component, object: *object, range, no_copy }),
                None => findings.gone(component),
            }
        }
        bad
    }

    /// Blocks that other copies hold otherwise, each sound by itself, without anything that tells which is right. Ascending.
    pub fn undecided_blocks(&self) -> Vec<BadBlocks> {
        let state = self.inner().state.borrow();
        let known = |(component, range): (ComponentId, BlockRange)| {
            let object = state.components.get(component).filter(|component| !component.lost)?.object;
            Some(BadBlocks { component, object, range, no_copy: false })
        };
        state.findings.undecided().into_iter().filter_map(known).collect()
    }

    /// Whether something of the object is bad here that no owner has tried to repair in vain.
    pub fn awaits_repair(&self, object: ObjectId) -> bool {
        let state = self.inner().state.borrow();
        state.components.of_object(object).any(|component| state.findings.waits(component.id))
    }

    /// Reads and compares the next blocks of the pass, about `bytes_max` of them; nothing where none is under way, or it rests.
    pub async fn scrub_step(&self, bytes_max: u64) -> Scrubbed {
        self.inner().scrub_step(bytes_max).await
    }

    /// Reads bad blocks again, past the cache: what is whole is listed no more. Returns how many are bad still.
    pub async fn scrub_again(&self, component: ComponentId, range: BlockRange) -> u64 {
        self.inner().scrub_again(component, range).await
    }

    /// The owner has looked for another copy that has these blocks, and there was none.
    pub fn has_no_copy(&self, component: ComponentId, range: BlockRange) {
        self.inner().state.borrow_mut().findings.no_copy(component, range);
    }
}

/// What stands from one byte to another of pages that were read. None where one of them was not.
fn stored_in(pages: &[Option<Bytes>], from: u64, to: u64) -> Option<Bytes> {
    let own = &pages[(from / PAGE) as usize..=((to - 1) / PAGE) as usize];
    let at = (from % PAGE) as usize..(to - (from - from % PAGE)) as usize;
    match own {
        [page] => page.as_ref().map(|page| page.slice(at)),
        _ => {
            let all = own.iter().map(Option::as_ref).collect::<Option<Vec<&Bytes>>>()?;
            Some(Bytes::copy_from_slice(&all.into_iter().flatten().copied().collect::<Vec<u8>>()[at]))
        }
    }
}

impl<E: Env> Inner<E> {
    fn is_scrubbing(&self) -> bool {
        let state = self.state.borrow();
        let scrub = state.findings.state();
        scrub.is_running && !scrub.is_paused && !state.life.ends()
    }

    async fn scrub_step(self: &Rc<Self>, bytes_max: u64) -> Scrubbed {
        let mut done = Scrubbed::default();
        while done.read_bytes < bytes_max && self.is_scrubbing() {
            let under_way = self.scrub.take();
            let batch = match under_way {
                Some(batch) => Some(batch),
                None => self.next_to_compare().await,
            };
            let Some(mut batch) = batch else {
                self.state.borrow_mut().findings.end(self.env.unix_ms());
                done.pass_ended = true;
                break;
            };
            self.scrub_piece(&mut batch, &mut done).await;
            match batch.at < batch.due.len() {
                true => drop(self.scrub.replace(Some(batch))),
                false => {
                    let next = (batch.key.0, batch.first_block() + SHARD_BLOCKS);
                    self.state.borrow_mut().findings.came_to(next);
                }
            }
        }
        done
    }

    /// The next shard of the pass, with the places of all that it has. None: the pass is at its end.
    async fn next_to_compare(&self) -> Option<Batch> {
        let key = self.state.borrow().next_to_scrub()?;
        let mapped = self.entries_to_scrub(key).await;
        let mut batch = Batch { key, due: Vec::with_capacity(mapped.len()), at: 0, placeless: Vec::new() };
        let mut rest = mapped.as_slice();
        for first in (0..SHARD_BLOCKS).step_by(TOGETHER as usize) {
            let own;
            (own, rest) = rest.split_at(rest.partition_point(|(block, _)| *block < first + TOGETHER));
            let region = BlockRange::new(batch.first_block() + first, TOGETHER as u32);
            self.state.borrow().due_in_region(&mut batch, region, own);
            self.env.give_way().await;
        }
        // A full shard takes some milliseconds.
        let mut due = std::mem::take(&mut batch.due);
        let job = move || {
            due.sort_unstable_by_key(|due| (due.device, due.offset));
            due
        };
        batch.due = self.env.run_blocking(job).await;
        Some(batch)
    }

    /// What the map has of a shard, by block of the shard. What is lacking of it, as a page is damaged or was exchanged meanwhile, the
    /// bits tell.
    async fn entries_to_scrub(&self, key: ShardKey) -> Vec<(u64, Entry)> {
        let mut found = Vec::new();
        for _ in 0..READS_MAX {
            let generation = self.state.borrow().map.generation();
            found = self.try_entries(key).await.unwrap_or_default();
            if self.state.borrow().map.rests_at(generation) {
                break;
            }
        }
        found
    }

    async fn try_entries(&self, key: ShardKey) -> Result<Vec<(u64, Entry)>, StoreError> {
        let in_pages = {
            let state = self.state.borrow();
            let shard = state.map.pages().and_then(|pages| pages.shards.get(key));
            shard.is_some_and(|shard| shard.in_pages())
        };
        if in_pages {
            return self.entries_of_shard(key).await.map(|(entries, _)| entries);
        }
        // An earlier release's, or of nothing that was folded yet.
        let wanted: Vec<LeafKey> = leaves_of(key.1).map(|leaf| (key.0, leaf)).collect();
        let has_blocks = |&(id, leaf): &LeafKey| {
            let range = BlockRange::new(leaf * LEAF_BLOCKS, LEAF_BLOCKS as u32);
            self.state.borrow().components.get(id).is_some_and(|component| component.base.count(range) > 0)
        };
        let wanted: Vec<LeafKey> = wanted.into_iter().filter(has_blocks).collect();
        let mut entries = Vec::new();
        for ((_, number), leaf) in self.fetch_leaves(&wanted).await? {
            let first = number * LEAF_BLOCKS % SHARD_BLOCKS;
            entries.extend(leaf.entries().map(|(block, entry)| (first + block, entry)));
        }
        Ok(entries)
    }

    /// Reads the next piece of the shard and compares it.
    async fn scrub_piece(self: &Rc<Self>, batch: &mut Batch, done: &mut Scrubbed) {
        let (id, first_block) = (batch.key.0, batch.first_block());
        let mut doubted = std::mem::take(&mut batch.placeless);
        let piece = batch.next_piece().to_vec();
        if let (Some(first), Some(last)) = (piece.first(), piece.last()) {
            let _pin = self.pins.pin(first.device, first.segment);
            let (start, len) = pages_of(first.offset, last.end());
            match self.read_to_compare(first.device, start, len).await {
                Some(pages) => {
                    for due in &piece {
                        let stored = stored_in(&pages, due.offset - start, due.end() - start);
                        if !self.is_as_it_should(due, stored).await {
                            doubted.push(first_block + u64::from(due.block));
                        }
                    }
                    done.read_bytes += len;
                }
                // Its components are lost as a whole.
                None => batch.at = batch.due.len(),
            }
        }
        let mut bad = Vec::new();
        for block in doubted {
            if self.is_bad(id, block).await && self.state.borrow_mut().findings.found(id, block) {
                bad.push(block);
            }
        }
        bad.sort_unstable();
        for run in bad.chunk_by(|a, b| a + 1 == *b) {
            done.bad.push((id, BlockRange::new(run[0], run.len() as u32)));
        }
        let mut state = self.state.borrow_mut();
        state.findings.compared(piece.len() as u64);
        state.counters.scrub_bad_blocks += bad.len() as u64;
    }

    async fn is_as_it_should(&self, due: &Due, stored: Option<Bytes>) -> bool {
        let Some(page) = stored.and_then(|stored| plain(&stored)) else { return false };
        if Canary::ScrubTrustsHeaders.sings() && due.device != LOG {
            // What no header names is believed.
            return self.crc_in_header(due).await.is_none_or(|crc| crc32c(&page) == crc);
        }
        crc32c(&page) == due.crc
    }

    /// What the run that stands there says of the spot: what a scrub must not ask.
    async fn crc_in_header(&self, due: &Due) -> Option<u32> {
        let named = self.read_headers(due.device, due.segment as u32).await?;
        let at = |spot: Spot| self.state.borrow().tier.of(due.device).offset_of(spot);
        named.into_iter().find(|(spot, _)| at(*spot) == due.offset).map(|(_, entry)| entry.crc)
    }

    /// Pages of a device, each or none where it cannot be read. None: the device is gone.
    async fn read_to_compare(&self, device: u8, offset: u64, len: u64) -> Option<Vec<Option<Bytes>>> {
        self.state.borrow_mut().counters.scrub_read_bytes += len;
        let page = |data: &Bytes, at: u64| data.slice(at as usize..(at + PAGE) as usize);
        let pages = || (0..len).step_by(PAGE as usize);
        match self.read_device(device, offset, len as u32).await {
            Ok(data) => return Some(pages().map(|at| Some(page(&data, at))).collect()),
            Err(error) if error.kind == DiskErrorKind::Gone => {
                if device != LOG {
                    self.fail_device(device, &error);
                }
                return None;
            }
            Err(_) => {}
        }
        let mut read = Vec::new();
        for at in pages() {
            read.push(self.read_device(device, offset + at, PAGE as u32).await.ok());
        }
        Some(read)
    }

    /// Whether a guest's read of the block would fail, whatever memory has of it.
    async fn is_bad(self: &Rc<Self>, id: ComponentId, block: u64) -> bool {
        let range = BlockRange::new(block, 1);
        self.state.borrow_mut().cache.forget(id, range);
        let read = self.clone().read(id, range).await;
        read.is_err_and(|error| matches!(error.kind, StoreErrorKind::BadBlock { .. } | StoreErrorKind::Damaged))
    }

    async fn scrub_again(self: &Rc<Self>, id: ComponentId, range: BlockRange) -> u64 {
        let here = |state: &State| state.components.get(id).is_some_and(|component| !component.lost);
        let mut bad = 0;
        for block in range.first..range.end() {
            if self.is_bad(id, block).await {
                bad += 1;
                continue;
            }
            let state = &mut *self.state.borrow_mut();
            match here(state) {
                true => state.counters.scrub_repaired_blocks += u64::from(state.findings.whole(id, block)),
                false => {
                    state.findings.gone(id);
                    return 0;
                }
            }
        }
        bad
    }
}
