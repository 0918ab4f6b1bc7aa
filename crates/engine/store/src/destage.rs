//! Destage: whole oldest log segments to the capacity tier, live versions only, then one metadata transaction.
//!
//! Promises    the tail moves only past records whose effect is durable in segments and metadata, or whose component
//!             is durably lost (I6); an unsettled operation is never folded into the map, it becomes a pending row
//!             that undo or `settled` decides later
//! Assumes     one round at a time, with cleaning in the same task
//! Source      log-structured writing: Rosenblum & Ousterhout, SOSP 1991
//!
//! A round: gather the live versions; read their log segments; write them in order of (device, component, block) as
//! runs; flush; look again what is still live, as undo and overwrites go on meanwhile; commit; make memory follow.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{Disk, DiskError, Durability, Env, PageBuf};
use cairn_format::{RunEntry, RunHeader, encode_run_header};
use cairn_types::{BLOCK_BYTES, BlockRange, Canary, ComponentId};
use futures::{channel::oneshot, future::join_all};

use crate::{
    disk_group::Inner,
    error::{StoreError, StoreErrorKind},
    index::{Body, Crcs, Place, Record, RecordId},
    map::{Entry, LEAF_BLOCKS, Leaf, LeafKey, NO_SLOT, ZERO_SLOT},
    segments::{RunPlace, Segments},
    signal::give_way,
    state::State,
    transaction::{Folded, MadePending, Transaction},
};

const PAGE: u64 = BLOCK_BYTES as u64;
/// Bytes of the log that destage reads at once, and about what it writes at once.
///
/// Small, and one at a time: a guest's log write waits behind what the device has in its queue, and 4 MiB there were 3 to
/// 7 ms of wait for it (p99 of 4 KiB writes at QD 32), where 256 KiB are 0.2 ms. Large enough to be sequential on a disk.
const PIECE_BYTES: u64 = 256 << 10;
const PIECE_PARTS: usize = (PIECE_BYTES / PAGE) as usize;
/// A round takes at most this part of the log.
const ROUNDS_PER_LOG: u64 = 16;
/// Records that are looked at before the thread's other tasks have a turn.
const GATHERED_AT_ONCE: usize = 512;
/// Wait before a round is tried again that found no room.
const RETRY: Duration = Duration::from_millis(20);

/// A live run of blocks of one record in the segments of this round.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub record: RecordId,
    pub component: ComponentId,
    pub device: u8,
    pub range: BlockRange,
    /// Not settled when it was gathered: written apart, as it will be dropped or kept as a whole.
    pub pending: bool,
    /// Position of its first block in the log; none for zeroes.
    pub data: Option<u64>,
    /// Where its blocks' slots stand among the round's.
    pub slots_from: usize,
}

/// One block to be written to a capacity device.
pub(crate) struct OutBlock {
    pub component: ComponentId,
    pub block: u64,
    pub crc: u32,
    pub pending: bool,
    pub data: Bytes,
}

/// Who writes to a capacity device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CapacityWriter {
    Destage,
    Clean,
}

/// What the destager does next.
enum Work {
    Round { new_tail: u64 },
    Wait,
    End,
}

/// Slots that the blocks of a round's items were written to, one item's after the other's; [`NO_SLOT`] where none was.
type Slots = Vec<u64>;

impl<E: Env> Inner<E> {
    /// The destage task: runs until the group closes or stops.
    pub(crate) async fn run_destager(self: Rc<Self>) {
        loop {
            let work = self.state.borrow_mut().next_work(&self.tuning);
            let result = match work {
                Work::End => break,
                Work::Wait => {
                    if self.state.borrow().close_wanted {
                        self.writer.raise();
                    }
                    self.destager.wait().await;
                    continue;
                }
                Work::Round { new_tail } => self.round(new_tail).await,
            };
            match result {
                Ok(true) => {}
                // No room to write to: something must be freed first. Not at once again: that would be a spin.
                Ok(false) => self.env.sleep(RETRY).await,
                Err(error) => self.state.borrow_mut().stop(error),
            }
            self.state.borrow_mut().answer_drains();
            self.writer.raise();
        }
        let error = StoreError::new(StoreErrorKind::Media, "the disk group was closed");
        let waiters = std::mem::take(&mut self.state.borrow_mut().drain_waiters);
        waiters.into_iter().for_each(|(_, waiter)| drop(waiter.send(Err(error.clone()))));
        self.destager_ended.raise();
    }

    pub(crate) async fn drain(&self) -> Result<(), StoreError> {
        let waiter = {
            let mut state = self.state.borrow_mut();
            if let Some(error) = &state.stopped {
                return Err(error.clone());
            }
            if state.closing {
                return Err(StoreError::new(StoreErrorKind::Media, "the disk group is closing"));
            }
            let (sender, waiter) = oneshot::channel();
            let target = state.request_drain();
            state.drain_waiters.push((target, sender));
            waiter
        };
        self.destager.raise();
        waiter.await.unwrap_or_else(|_| Err(StoreError::new(StoreErrorKind::Media, "the disk group was closed")))
    }

    /// Puts what was read of a damaged log into the capacity tier, and begins a log beyond it.
    pub(crate) async fn leave_damaged_log(&self, jump_to: u64) -> Result<(), StoreError> {
        let closed = {
            let mut state = self.state.borrow_mut();
            state.ring.close_segment();
            state.ring.head
        };
        while self.state.borrow().ring.tail < closed {
            let part = self.state.borrow().ring.tail + self.state.borrow().round_bytes(&self.tuning);
            if !self.round(part.min(closed)).await? {
                return Err(StoreError::new(StoreErrorKind::NoSpace, "no room to destage the rest of a damaged log"));
            }
        }
        let mut transaction = Transaction::default();
        transaction.move_tail(jump_to);
        self.commit(transaction).await?;
        self.state.borrow_mut().ring.restart();
        Ok(())
    }

    /// One round up to `new_tail`. False when there is no room to write to.
    async fn round(&self, new_tail: u64) -> Result<bool, StoreError> {
        {
            let mut state = self.state.borrow_mut();
            // A round before that found no room left blocks that nobody waits for.
            state.devices.iter_mut().for_each(Segments::free_unused);
            state.records.hold();
        }
        let result = self.round_held(new_tail).await;
        self.state.borrow_mut().records.unhold();
        result
    }

    async fn round_held(&self, new_tail: u64) -> Result<bool, StoreError> {
        self.empty_deleted().await?;
        let mut new_tail = new_tail;
        let mut items = self.gather_items(new_tail).await;
        let zeroes = self.state.borrow().settled_zeroes(&items);
        self.trim_zeroes(&zeroes).await?;
        if !self.make_room(&items).await? {
            // A smaller round needs less room at once.
            new_tail = new_tail.min(self.state.borrow().ring.tail + self.state.borrow().ring.segment_bytes);
            items = self.gather_items(new_tail).await;
            if !self.make_room(&items).await? {
                return Ok(false);
            }
        }
        let pieces = self.read_log(&items).await?;
        let Some(slots) = self.write_items(&items, &pieces).await? else {
            return Ok(false);
        };
        drop(pieces);
        let mut leaves: BTreeMap<LeafKey, Arc<Leaf>> = BTreeMap::new();
        let transaction = loop {
            let missing = self.state.borrow().leaves_missing(&items, &leaves);
            if missing.is_empty() {
                let leaves = std::mem::take(&mut leaves).into_iter().collect();
                let transaction = Transaction::with_leaves(leaves);
                break self.state.borrow_mut().plan_round(&items, &slots, transaction, new_tail);
            }
            leaves.extend(self.fetch_leaves(&missing).await?);
        };
        self.commit(transaction).await?;
        let mut state = self.state.borrow_mut();
        state.counters.destage_rounds += 1;
        state.counters.destaged_blocks += slots.iter().filter(|slot| **slot != NO_SLOT).count() as u64;
        state.round += 1;
        Ok(true)
    }

    /// The live versions in the log segments below `new_tail`, in the order of the capacity tier: what follows walks the
    /// index and the map beside them, not across. What changes meanwhile is looked at again before the commit.
    async fn gather_items(&self, new_tail: u64) -> Vec<Item> {
        let ids = {
            let state = self.state.borrow();
            let end = state.ring.segment_of(new_tail);
            state.records.in_segments_below(end, state.ring.segment_bytes)
        };
        let mut items = Vec::with_capacity(ids.len());
        for part in ids.chunks(GATHERED_AT_ONCE) {
            {
                let state = self.state.borrow();
                part.iter().for_each(|&id| state.gather_record(id, &mut items));
            }
            give_way().await;
        }
        items.sort_by_key(|item| (item.device, item.pending, item.component, item.range.first));
        let mut slots_from = 0;
        for item in &mut items {
            item.slots_from = slots_from;
            slots_from += item.slots();
        }
        items
    }

    /// Cleans until every device has free segments for what it gets.
    async fn make_room(&self, items: &[Item]) -> Result<bool, StoreError> {
        for device in 0..self.capacity.len() as u8 {
            let blocks: u64 =
                items.iter().filter(|i| i.device == device && i.data.is_some()).map(|i| u64::from(i.range.count)).sum();
            if !self.clean_for(device, blocks).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The pieces of the log that hold the items' data, by start.
    async fn read_log(&self, items: &[Item]) -> Result<BTreeMap<u64, Bytes>, StoreError> {
        let segment_bytes = self.state.borrow().ring.segment_bytes;
        // A piece lies within one segment: the next one may stand elsewhere on the device.
        let piece_of = |position: u64| position - position % segment_bytes % PIECE_BYTES;
        let mut wanted = BTreeSet::new();
        for (item, data) in items.iter().filter_map(|item| Some((item, item.data?))) {
            let pages = (0..u64::from(item.range.count)).map(|page| data + page * PAGE);
            wanted.extend(pages.map(piece_of));
        }
        let mut pieces = BTreeMap::new();
        for start in wanted {
            let segment_end = (start / segment_bytes + 1) * segment_bytes;
            let len = (start + PIECE_BYTES).min(segment_end) - start;
            let offset = self.state.borrow().ring.device_offset(start);
            self.state.borrow_mut().counters.destage_read_bytes += len;
            let data = match self.cache.read(offset, len as u32).await {
                Ok(data) => data,
                // What cannot be read is carried on with the CRC that it should have: reads report it, and it is
                // repaired from another copy.
                Err(_) => self.read_pages(offset, len).await,
            };
            pieces.insert(start, data);
        }
        Ok(pieces)
    }

    async fn read_pages(&self, offset: u64, len: u64) -> Bytes {
        let mut data = PageBuf::zeroed(len as usize);
        for page in 0..len / PAGE {
            if let Ok(bytes) = self.cache.read(offset + page * PAGE, PAGE as u32).await {
                data[(page * PAGE) as usize..][..PAGE as usize].copy_from_slice(&bytes);
            }
        }
        data.freeze()
    }

    /// Writes the data of all items, device by device in parallel, and flushes. None when a device has no room.
    async fn write_items(&self, items: &[Item], pieces: &BTreeMap<u64, Bytes>) -> Result<Option<Slots>, StoreError> {
        let blocks = items.last().map_or(0, |last| last.slots_from + last.slots());
        let mut by_device: BTreeMap<u8, Vec<(usize, OutBlock)>> = BTreeMap::new();
        for item in items {
            let Some(position) = item.data else { continue };
            let state = self.state.borrow();
            // Gone since it was gathered: superseded or undone.
            let Some(record) = state.records.get(item.record) else {
                continue;
            };
            for block in item.range.first..item.range.end() {
                let position = position + (block - item.range.first) * PAGE;
                let (start, data) = pieces.range(..=position).next_back().expect("the log of an item was read");
                let from = (position - start) as usize;
                let out = OutBlock {
                    component: item.component,
                    block,
                    crc: record.crc(block),
                    pending: item.pending,
                    data: data.slice(from..from + PAGE as usize),
                };
                let at = item.slots_from + (block - item.range.first) as usize;
                // Room at once: a list that grows is copied again and again, in one go of the shard.
                by_device.entry(item.device).or_insert_with(|| Vec::with_capacity(blocks)).push((at, out));
            }
        }
        let writes = by_device.into_iter().map(|(device, mut blocks)| async move {
            blocks.sort_by_key(|(_, b)| (b.pending, b.component, b.block));
            let (places, blocks): (Vec<usize>, Vec<OutBlock>) = blocks.into_iter().unzip();
            let slots = self.write_blocks(device, &blocks, CapacityWriter::Destage).await;
            (places, slots)
        });
        let mut slots = vec![NO_SLOT; blocks];
        for (places, written) in join_all(writes).await {
            let Some(written) = written else {
                return Ok(None);
            };
            // Empty when the device failed: its components are lost.
            for (place, slot) in places.into_iter().zip(written) {
                slots[place] = slot;
            }
        }
        Ok(Some(slots))
    }

    /// Writes blocks as runs and flushes. The slots in order; none when there is no room; fewer when the device failed.
    pub(crate) async fn write_blocks(
        &self,
        device: u8,
        blocks: &[OutBlock],
        writer: CapacityWriter,
    ) -> Option<Vec<u64>> {
        let mut slots = Vec::with_capacity(blocks.len());
        let mut rest = blocks;
        if self.state.borrow().devices[device as usize].failed {
            return Some(Vec::new());
        }
        while !rest.is_empty() {
            let (place, offset, log_id) = {
                let mut state = self.state.borrow_mut();
                let (round, log_id) = (state.round, state.log_id);
                let segments = &mut state.devices[device as usize];
                let place = segments.take_run(rest.len() as u32, round, &self.pins)?;
                (place, segments.device_offset(place.page), log_id)
            };
            let (now, later) = rest.split_at(place.entries as usize);
            rest = later;
            let run = assemble(place, u32::from(device), log_id, now);
            slots.extend((0..u64::from(place.entries)).map(|at| place.first_slot() + at));
            let mut at = offset;
            for parts in run.chunks(PIECE_PARTS) {
                let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
                if self.write_capacity(device, at, parts.to_vec()).await.is_err() {
                    self.state.borrow_mut().fail_device(device);
                    return Some(Vec::new());
                }
                let counters = &mut self.state.borrow_mut().counters;
                match writer {
                    CapacityWriter::Destage => counters.destage_write_bytes += bytes,
                    CapacityWriter::Clean => counters.clean_write_bytes += bytes,
                }
                at += bytes;
            }
        }
        let flush = !blocks.is_empty() && !Canary::SegmentsNotFlushed.sings();
        if flush && self.disk(device).flush().await.is_err() {
            self.state.borrow_mut().fail_device(device);
            return Some(Vec::new());
        }
        Some(slots)
    }

    /// The one place that writes to a capacity device of an open group: what is counted here and is neither destage's nor the
    /// cleaner's went past the log.
    async fn write_capacity(&self, device: u8, offset: u64, parts: Vec<Bytes>) -> Result<(), DiskError> {
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        self.disk(device).write(offset, parts, Durability::Buffered).await?;
        self.state.borrow_mut().counters.capacity_write_bytes += bytes;
        Ok(())
    }
}

/// A run as one device write: its header, then the blocks where they were read to.
fn assemble(place: RunPlace, device: u32, log_id: u64, blocks: &[OutBlock]) -> Vec<Bytes> {
    let entry = |b: &OutBlock| RunEntry { component: b.component, block: b.block, crc: b.crc, pending: b.pending };
    let entries = blocks.iter().map(entry).collect();
    let header =
        encode_run_header(&RunHeader { log_id, device, segment: place.segment, generation: place.generation, entries });
    assert_eq!(header.len() as u64, u64::from(place.header_pages) * PAGE);
    let mut run = Vec::with_capacity(1 + blocks.len());
    run.push(PageBuf::copy_of(&header).freeze());
    run.extend(blocks.iter().map(|block| block.data.clone()));
    run
}

impl Item {
    /// Slots that it takes: one per block with data.
    fn slots(&self) -> usize {
        self.data.map_or(0, |_| self.range.count as usize)
    }
}

impl State {
    /// Bytes of the log that one round takes, at least a segment. A round gives its room back in one piece at its end: in a small
    /// log a large one is a stop and a burst for guests that wait for it (a quarter of a log of 128 MiB: one second in two).
    fn round_bytes(&self, tuning: &crate::StoreOptions) -> u64 {
        let part = self.ring.segments / ROUNDS_PER_LOG * self.ring.segment_bytes;
        let bytes = (u64::from(tuning.destage_blocks_max) * PAGE).min(part);
        (bytes / self.ring.segment_bytes).max(1) * self.ring.segment_bytes
    }

    fn next_work(&mut self, tuning: &crate::StoreOptions) -> Work {
        if self.closing || self.stopped.is_some() {
            return Work::End;
        }
        let fill = self.ring.fill_permille();
        let full = fill >= u64::from(tuning.destage_percent) * 10;
        let closed = self.ring.tail + self.ring.closed_segments() * self.ring.segment_bytes;
        let part = self.ring.tail + self.round_bytes(tuning);
        if let Some(target) = self.drain_to {
            if self.ring.tail >= target {
                // All is in segments; one more transaction for what is not in the log: marks, deletions, losses.
                self.drain_to = None;
                return Work::Round { new_tail: self.ring.tail };
            }
            if closed < target {
                self.close_wanted = true;
            }
            if closed == self.ring.tail {
                return Work::Wait;
            }
            return Work::Round { new_tail: part.min(closed) };
        }
        if full && closed > self.ring.tail {
            return Work::Round { new_tail: part.min(closed) };
        }
        if std::mem::take(&mut self.tidy) {
            return Work::Round { new_tail: self.ring.tail };
        }
        Work::Wait
    }

    fn answer_drains(&mut self) {
        if self.drain_to.is_none() {
            let waiters = std::mem::take(&mut self.drain_waiters);
            waiters.into_iter().for_each(|(_, waiter)| drop(waiter.send(Ok(()))));
        }
    }

    /// The live versions of one record, appended to `items` without their slots.
    fn gather_record(&self, id: RecordId, items: &mut Vec<Item>) {
        let Some(record) = self.records.get(id) else { return };
        let Some(component) = self.components.get(&record.component) else { return };
        component.extents.each(record.range, |range, versions| {
            if !versions.contains(&id) {
                return;
            }
            let data = match &record.body {
                Body::Data { place: Place::Log(first), .. } => Some(first + (range.first - record.range.first) * PAGE),
                _ => None,
            };
            items.push(Item {
                record: id,
                component: record.component,
                device: component.device,
                range,
                pending: record.op > component.settled,
                data,
                slots_from: 0,
            });
        });
    }

    /// The settled zeroes among the items and the pending rows: what they cover leaves the map first, in bounded steps.
    fn settled_zeroes(&self, items: &[Item]) -> Vec<Item> {
        let zero = |item: &&Item| item.data.is_none() && !item.pending;
        let mut zeroes: Vec<Item> = items.iter().filter(zero).cloned().collect();
        for id in self.resolvable() {
            let record = self.records.of(id);
            if let Body::Zero { keep_allocated: false } = record.body {
                let device = self.components[&record.component].device;
                let (component, range) = (record.component, record.range);
                zeroes.push(Item { record: id, component, device, range, pending: false, data: None, slots_from: 0 });
            }
        }
        zeroes
    }

    /// Leaves that the transaction will change and that are not in `have`.
    fn leaves_missing(&self, items: &[Item], have: &BTreeMap<LeafKey, Arc<Leaf>>) -> Vec<LeafKey> {
        let mut keys = Vec::new();
        let mut want = |component: ComponentId, range: BlockRange| {
            for leaf in range.first / LEAF_BLOCKS..=(range.end() - 1) / LEAF_BLOCKS {
                // Items come in order: most name the leaf of the one before.
                if keys.last() != Some(&(component, leaf)) {
                    keys.push((component, leaf));
                }
            }
        };
        let ranges = items.iter().map(|item| (item.record, item.component, item.range));
        let resolved =
            self.resolvable().into_iter().map(|id| (id, self.records.of(id).component, self.records.of(id).range));
        for (id, component, range) in ranges.chain(resolved) {
            let (Some(record), Some(known)) = (self.records.get(id), self.components.get(&component)) else {
                continue;
            };
            match record.allocates() {
                true => want(component, range),
                // What is mapped under a zero was trimmed before, unless it was settled only now.
                false if record.op <= known.settled => {
                    known.base.runs(range).into_iter().for_each(|run| want(component, run));
                }
                false => {}
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| !have.contains_key(key));
        keys
    }

    /// Pending records that were settled since.
    fn resolvable(&self) -> Vec<RecordId> {
        let settled = |id: &RecordId| {
            let record = self.records.of(*id);
            self.components.get(&record.component).is_some_and(|c| record.op <= c.settled)
        };
        self.records.pending.iter().copied().filter(settled).collect()
    }

    /// Decides, from the state of this moment, what of the round is folded, kept pending, or dead.
    fn plan_round(
        &mut self,
        items: &[Item],
        slots: &Slots,
        mut transaction: Transaction,
        new_tail: u64,
    ) -> Transaction {
        transaction.move_tail(new_tail);
        transaction.reserve(slots.len());
        for id in self.resolvable() {
            self.plan_resolve(id, &mut transaction);
        }
        for item in items {
            self.plan_item(item, slots, &mut transaction);
        }
        transaction
    }

    fn plan_resolve(&mut self, id: RecordId, transaction: &mut Transaction) {
        let record = self.records.of(id).clone();
        let spans = self.live_spans(id, record.component, record.range);
        let live = |block: u64| spans.iter().any(|s| s.first <= block && block < s.end());
        transaction.resolve(self, id, live);
        let slot_of = |block: u64| match &record.body {
            Body::Data { place: Place::Slots(slots), .. } => slots[(block - record.range.first) as usize],
            Body::Zero { keep_allocated: true } => ZERO_SLOT,
            _ => NO_SLOT,
        };
        for span in &spans {
            self.plan_fold(&record, id, *span, &slot_of, false, transaction);
        }
    }

    /// Where `id` still stands among the versions.
    fn live_spans(&self, id: RecordId, component: ComponentId, range: BlockRange) -> Vec<BlockRange> {
        let Some(component) = self.components.get(&component) else {
            return Vec::new();
        };
        let mut live = Vec::new();
        component.extents.each(range, |part, versions| {
            if versions.contains(&id) {
                live.push(part);
            }
        });
        live
    }

    fn plan_item(&mut self, item: &Item, slots: &Slots, transaction: &mut Transaction) {
        let Some(record) = self.records.get(item.record) else {
            return;
        };
        let Some(component) = self.components.get(&item.component) else {
            return;
        };
        let zero = matches!(record.body, Body::Zero { .. });
        let zero_slot = if record.allocates() { ZERO_SLOT } else { NO_SLOT };
        let slot_of = |block: u64| {
            if zero {
                return zero_slot;
            }
            let slot = slots[item.slots_from + (block - item.range.first) as usize];
            assert_ne!(slot, NO_SLOT, "what is live was written");
            slot
        };
        let spans = self.live_spans(item.record, item.component, item.range);
        if record.op <= component.settled || Canary::UnsettledFolded.sings() {
            for span in spans {
                self.plan_fold(record, item.record, span, &slot_of, true, transaction);
            }
            return;
        }
        let client = component.window.get(&record.op).map(|u| u.info.client).unwrap_or_default();
        let record = record.clone();
        for span in spans {
            let body = match &record.body {
                Body::Data { crcs, .. } => {
                    let list: Box<[u64]> = (span.first..span.end()).map(slot_of).collect();
                    list.iter().for_each(|&slot| transaction.add_slot(item.device, slot));
                    let from = (span.first - record.range.first) as usize;
                    let crcs = Crcs::from_slice(&crcs[from..from + span.count as usize]);
                    Body::Data { place: Place::Slots(list), crcs }
                }
                zero => zero.clone(),
            };
            let number = self.next_pending;
            self.next_pending += 1;
            let made = Record { range: span, body, live: 0, row: Some(number), ..record.clone() };
            transaction.make_pending(MadePending { old: item.record, number, record: made }, client);
        }
    }

    /// Puts a settled run into the map. `new` slots have no reference yet.
    fn plan_fold(
        &self,
        record: &Record,
        id: RecordId,
        span: BlockRange,
        slot_of: &dyn Fn(u64) -> u64,
        new: bool,
        transaction: &mut Transaction,
    ) {
        let component = &self.components[&record.component];
        // A zero may span a whole disk: only what is mapped changes.
        let runs = if record.allocates() { vec![span] } else { component.base.runs(span) };
        for block in runs.into_iter().flat_map(|run| run.first..run.end()) {
            let slot = slot_of(block);
            let entry = (slot != NO_SLOT).then(|| Entry { slot, crc: record.crc(block), op: record.op });
            match transaction.set_entry_of(component, block, record.op, entry) {
                true if new => transaction.add_slot(component.device, slot),
                false if !new => transaction.drop_slot(component.device, slot),
                _ => {}
            }
        }
        transaction.fold(Folded { record: id, component: record.component, range: span });
    }
}
