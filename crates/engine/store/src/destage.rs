//! Destage: whole oldest log segments to the capacity tier, live versions only, then one metadata transaction.
//!
//! Promises    the tail moves only past records whose effect is durable in segments and metadata, or whose component
//!             is durably lost (I6), so rounds commit in the order of the log
//!             one transaction at a time; blocks that wait for theirs are neither reused nor cleaned away
//! Assumes     rounds and cleaning are one task
//! Memory      the data of two rounds: one that is read, one that is written
//! Not here    what of a round is still live when it commits (`fold.rs`)
//! Source      log-structured writing: Rosenblum & Ousterhout, SOSP 1991
//!
//! A round has three stages. It gathers the live versions and reads their log segments. It writes them in order of (device,
//! component, block) as runs, and flushes. It looks again what is still live, as undo and overwrites go on meanwhile, commits, and
//! makes memory follow. Three rounds are under way at once, each in its stage: cache device, capacity devices and metadata are all
//! busy. Between two steps, with no transaction under way, zeroed ranges leave the map and segments are cleaned.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{Disk, DiskError, Durability, Env, PageBuf};
use cairn_format::Needs;
use cairn_types::{BLOCK_BYTES, Canary, RequestKind};
use futures::{
    channel::oneshot,
    future::{join_all, join3},
};

use crate::{
    assemble::assemble,
    bypass::placed_is_due,
    capacity::{CapacityWriter, Item, OutBlock, Spots},
    components::Components,
    disk_group::Inner,
    error::{StoreError, StoreErrorKind},
    find_twins::Found,
    fold::{Part, in_order_of_cuts, leaves_missing, plan_part, settled_zeroes},
    growth::gone,
    hits::Shared,
    leaf::{LeafKey, Spot},
    log::Work,
    map::Pages,
    records::{Body, Place, RecordId},
    segments::LOG,
    squeeze::Outgoing,
    state::State,
    transaction::Transaction,
};

const PAGE: u64 = BLOCK_BYTES as u64;
/// Bytes of the log that destage reads at once, and about what it writes at once.
///
/// Small, and one at a time: a guest's log write waits behind what the device has in its queue, and 4 MiB there were 3 to
/// 7 ms of wait for it (p99 of 4 KiB writes at QD 32), where 256 KiB are 0.2 ms. Large enough to be sequential on a disk.
const PIECE_BYTES: u64 = 256 << 10;
const PIECE_PARTS: usize = (PIECE_BYTES / PAGE) as usize;
/// Pieces that are read at once while guests are held back: the device's bytes, not its access times, are the limit then.
const READS_AT_ONCE: usize = 4;
/// Pieces that are written at once to each capacity device then: one is transferred while the next is accessed.
const WRITES_AT_ONCE: usize = 2;
/// The same of copies that go past the log: these are all that is on the way for them.
const PLACED_AT_ONCE: usize = 8;
/// Records that are looked at before the thread's other tasks have a turn.
const GATHERED_AT_ONCE: usize = 512;
/// Items that are decided before that.
const PLANNED_AT_ONCE: usize = 256;
/// Wait before a round is tried again that found no room.
const RETRY: Duration = Duration::from_millis(20);

/// A round whose data was read.
struct Gathered {
    ticket: u64,
    new_tail: u64,
    items: Vec<Item>,
    pieces: LogPieces,
}

/// What was read of the log.
#[derive(Default)]
struct LogPieces {
    /// By start.
    data: BTreeMap<u64, Bytes>,
    /// Positions of pages that cannot be read: there are zeroes in their places.
    unread: BTreeSet<u64>,
}

/// A round whose data stands in the capacity tier, flushed, with nothing that refers to it.
struct Placed {
    ticket: u64,
    new_tail: u64,
    items: Vec<Item>,
    spots: Spots,
    shared: Shared,
}

/// What became of a round's blocks of one device.
pub(crate) struct Written {
    device: u8,
    /// Of those that were written, their places among the round's spots.
    pub places: Vec<usize>,
    /// The same of blocks of zeroes.
    pub zeroes: Vec<usize>,
    pub spots: Option<Vec<Spot>>,
    pub found: Found,
}

/// The rounds under way, at most one between two stages.
#[derive(Default)]
struct Line {
    gathered: Option<Gathered>,
    placed: Option<Placed>,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.gathered.is_none() && self.placed.is_none()
    }
}

impl<E: Env> Inner<E> {
    /// The destage task: runs until the group closes or stops.
    pub(crate) async fn run_destager(self: Rc<Self>) {
        let mut line = Line::default();
        loop {
            let taken_up = self.take_up_needs().await;
            let taken_up = taken_up.and(self.take_up_device().await);
            if let Err(error) = taken_up.and(self.fill_some().await) {
                self.state.borrow_mut().stop(error);
            }
            let work = self.state.borrow_mut().next_work(&self.tuning, line.is_empty());
            let result = match work {
                // What is under way is carried to its end: the next opening has less to read.
                Work::End if !line.is_empty() && self.state.borrow().life.stopped().is_none() => {
                    self.advance(&mut line, None).await
                }
                Work::End => break,
                Work::Wait if line.is_empty() => {
                    if self.state.borrow().log.wants_close() {
                        self.writer.raise();
                    }
                    match self.rest().await {
                        Ok(true) => self.state.borrow_mut().log.destage_begins(self.env.now().0),
                        Ok(false) => {}
                        Err(error) => self.state.borrow_mut().stop(error),
                    }
                    continue;
                }
                Work::Tidy { tail } => self.round_alone(tail).await,
                Work::Wait => self.advance(&mut line, None).await,
                Work::Round { new_tail } => self.advance(&mut line, Some(new_tail)).await,
            };
            match result {
                Ok(true) => {}
                // No room to write to: something must be freed first. A retry at once would spin.
                Ok(false) => self.env.sleep(RETRY).await,
                Err(error) => self.state.borrow_mut().stop(error),
            }
            self.state.borrow_mut().log.answer_drains();
            self.go_on_for_room().await;
            self.writer.raise();
        }
        self.refuse_growth();
        let error = StoreError::new(StoreErrorKind::Media, "the disk group was closed");
        self.state.borrow_mut().admission.refuse_short_of_room(|_| true, &error);
        self.refuse_fills(&error);
        self.state.borrow_mut().log.refuse_drains(&error);
        self.destager_ended.raise();
    }

    /// Between two transactions: what is allowed and not yet so is so from the next one on.
    async fn take_up_needs(&self) -> Result<(), StoreError> {
        let allowed = self.allowed.get().at_once();
        let stopped = self.state.borrow().life.stopped().is_some();
        if stopped || self.has_needs(allowed) {
            return Ok(());
        }
        self.take_needs(allowed).await?;
        if self.has_needs(Needs::MAP_PAGES) && self.state.borrow().map.pages().is_none() {
            let (bounds, leaves_max) = self.map_bounds.get();
            self.state.borrow_mut().map.begin_pages(Pages::new(self.meta.room(), bounds, leaves_max));
        }
        Ok(())
    }

    pub(crate) async fn drain(&self) -> Result<(), StoreError> {
        let waiter = {
            let mut state = self.state.borrow_mut();
            if let Some(error) = state.life.stopped() {
                return Err(error.clone());
            }
            state.life.not_closing()?;
            let (sender, waiter) = oneshot::channel();
            state.log.drain(sender);
            waiter
        };
        self.destager.raise();
        waiter.await.unwrap_or_else(|_| Err(StoreError::new(StoreErrorKind::Media, "the disk group was closed")))
    }

    /// Puts what was read of a damaged log into the capacity tier, and begins a log beyond it.
    pub(crate) async fn leave_damaged_log(&self, jump_to: u64) -> Result<(), StoreError> {
        let closed = {
            let mut state = self.state.borrow_mut();
            state.log.ring.close_segment();
            state.log.ring.head()
        };
        while self.state.borrow().log.ring.tail() < closed {
            let part = self.state.borrow().log.ring.tail() + self.state.borrow().log.round_bytes(&self.tuning);
            if !self.round_alone(part.min(closed)).await? {
                return Err(StoreError::new(StoreErrorKind::NoSpace, "no room to destage the rest of a damaged log"));
            }
        }
        let mut transaction = Transaction::default();
        transaction.move_tail(jump_to);
        self.commit(transaction).await?;
        self.state.borrow_mut().log.ring.restart();
        Ok(())
    }

    /// Moves every round in the line a stage on, all at once, and begins the round up to `next`. False when there is no room to
    /// write to.
    async fn advance(&self, line: &mut Line, next: Option<u64>) -> Result<bool, StoreError> {
        let Line { gathered, placed } = std::mem::take(line);
        if let Some(round) = &gathered
            && !self.make_ready(&round.items).await?
        {
            self.state.borrow_mut().give_up(round.ticket);
            if let Some(round) = placed
                && !self.settle_and_commit(round).await?
            {
                return Ok(false);
            }
            // A smaller round needs less room at once.
            let (tail, segment_bytes) =
                (self.state.borrow().log.ring.tail(), self.state.borrow().log.ring.segment_bytes());
            return self.round_alone(tail + segment_bytes).await;
        }
        // With nothing else that writes to the capacity devices, and no transaction until its own.
        let placed = match placed {
            None => None,
            Some(round) => match self.settle_shared(round).await? {
                Some(settled) => Some(settled),
                None => {
                    gathered.into_iter().for_each(|round| self.state.borrow_mut().give_up(round.ticket));
                    return Ok(false);
                }
            },
        };
        let commit =
            async { if let Some((round, begun)) = placed { self.commit_round(round, begun).await } else { Ok(()) } };
        let place = async { if let Some(round) = gathered { Some(self.place(round).await) } else { None } };
        let gather = async { if let Some(new_tail) = next { Some(self.gather(new_tail).await) } else { None } };
        let (committed, placed, gathered) = join3(commit, place, gather).await;
        committed?;
        if let Some(None) = placed {
            // What comes after it must not be committed before it.
            if let Some(round) = gathered {
                self.state.borrow_mut().give_up(round.ticket);
            }
            return Ok(false);
        }
        *line = Line { gathered, placed: placed.flatten() };
        Ok(true)
    }

    /// One round up to `new_tail`, stage by stage, with none beside it. False when there is no room to write to.
    async fn round_alone(&self, new_tail: u64) -> Result<bool, StoreError> {
        let mut round = self.gather(new_tail).await;
        if !self.make_ready(&round.items).await? {
            self.state.borrow_mut().give_up(round.ticket);
            let (tail, segment_bytes) =
                (self.state.borrow().log.ring.tail(), self.state.borrow().log.ring.segment_bytes());
            round = self.gather(new_tail.min(tail + segment_bytes)).await;
            if !self.make_ready(&round.items).await? {
                self.state.borrow_mut().give_up(round.ticket);
                return Ok(false);
            }
        }
        match self.place(round).await {
            Some(round) => self.settle_and_commit(round).await,
            None => Ok(false),
        }
    }

    /// False where there is no room for what has to be written yet.
    async fn settle_and_commit(&self, round: Placed) -> Result<bool, StoreError> {
        match self.settle_shared(round).await? {
            Some((round, begun)) => self.commit_round(round, begun).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Begins the transaction of a round with the items that it shares. None where there is no room for those of its blocks that have to be written after
    /// all: the round is given up.
    async fn settle_shared(&self, mut round: Placed) -> Result<Option<(Placed, Transaction)>, StoreError> {
        let (writer, mut begun) = (CapacityWriter::Destage(round.ticket), Transaction::default());
        if self.settle_hits(writer, &round.shared, &mut round.spots, &mut begun).await? {
            return Ok(Some((round, begun)));
        }
        self.state.borrow_mut().give_up(round.ticket);
        Ok(None)
    }

    /// First stage: what is live between the rounds before and `new_tail`, and the pieces of the log that hold it.
    async fn gather(&self, new_tail: u64) -> Gathered {
        let (ticket, from) = {
            let mut state = self.state.borrow_mut();
            let ticket = state.tier.take_ticket();
            state.components.records.hold(ticket);
            (ticket, state.log.take_round(new_tail))
        };
        let items = self.gather_items(from, new_tail).await;
        let pieces = self.read_log(&items).await;
        Gathered { ticket, new_tail, items, pieces }
    }

    /// Between the stages, with no other transaction under way: what the round's zeroes cover leaves the map, and room is made for
    /// its data. False when that cannot be had.
    async fn make_ready(&self, items: &[Item]) -> Result<bool, StoreError> {
        self.empty_deleted().await?;
        self.sweep_some().await?;
        self.rewrite_some(true).await?;
        let zeroes = settled_zeroes(&self.state.borrow().components, items);
        self.trim_zeroes(&zeroes).await?;
        self.make_room(items).await
    }

    /// Second stage: the data is written to the capacity devices and flushed. None when a device has no room; the round is given up
    /// then.
    async fn place(&self, round: Gathered) -> Option<Placed> {
        let Gathered { ticket, new_tail, items, pieces } = round;
        if !pieces.unread.is_empty() && self.may_mark() {
            // Where that cannot be written the group is about to stop.
            let _ = self.take_needs(Needs::BAD_MARKS).await;
        }
        match self.write_items(ticket, &items, &pieces).await {
            Some((spots, shared)) => Some(Placed { ticket, new_tail, items, spots, shared }),
            None => {
                self.state.borrow_mut().give_up(ticket);
                None
            }
        }
    }

    /// Leaves that a transaction takes up which adds `blocks` entries to the map, so that what waits keeps its bound.
    pub(crate) fn leaves_to_fold(&self, blocks: usize) -> Vec<LeafKey> {
        let mut state = self.state.borrow_mut();
        let log_blocks = state.log.ring.size() / PAGE;
        state.map.take_leaves_to_fold(blocks, log_blocks)
    }

    /// Last stage: the map takes over what is still live, in one transaction that moves the tail, and was begun with what the round shares.
    async fn commit_round(&self, round: Placed, mut transaction: Transaction) -> Result<(), StoreError> {
        // What was found stays pinned until it is over.
        let Placed { ticket, new_tail, mut items, spots, shared: _shared } = round;
        in_order_of_cuts(&self.state.borrow().components, &mut items);
        let exchanged = self.fold_due(spots.len() as u64).await?;
        let folded = self.leaves_to_fold(spots.len());
        let missing: Vec<LeafKey> = folded.iter().copied().filter(|key| !transaction.has_leaf(*key)).collect();
        transaction.bring(self.fetch_leaves(&missing).await?);
        transaction.move_tail(new_tail);
        transaction.ends(ticket);
        transaction.reserve(spots.len());
        folded.into_iter().for_each(|key| transaction.write_whole(key));
        transaction.exchange(exchanged, &self.state.borrow().components);
        self.decide(Part::Pending, &spots, &mut transaction).await?;
        for some in items.chunks(PLANNED_AT_ONCE) {
            self.decide(Part::Items(some), &spots, &mut transaction).await?;
            self.env.give_way().await;
        }
        self.begin_gathering(&mut transaction).await;
        let tail = self.state.borrow().log.ring.tail();
        self.commit(transaction).await?;
        let mut state = self.state.borrow_mut();
        state.counters.destage_rounds += 1;
        let destaged = spots.iter().filter(|spot| spot.is_place()).count() as u64;
        state.counters.destaged_bytes += destaged * u64::from(BLOCK_BYTES);
        state.tier.next_round();
        if new_tail > tail {
            state.log.freed(self.env.now().0, new_tail - tail);
        }
        Ok(())
    }

    /// Decides what becomes of a part of the round, with the leaves that it takes.
    async fn decide(&self, part: Part<'_>, spots: &Spots, transaction: &mut Transaction) -> Result<(), StoreError> {
        loop {
            let missing = leaves_missing(&self.state.borrow().components, part, transaction);
            if missing.is_empty() {
                let State { components, map, .. } = &mut *self.state.borrow_mut();
                plan_part((components, map), part, spots, transaction);
                return Ok(());
            }
            let leaves = self.fetch_leaves(&missing).await?;
            transaction.bring(leaves);
        }
    }

    /// The live versions in the log segments from `from` to `new_tail`, in the order of the capacity tier: what follows walks the
    /// index and the map beside them, not across. What changes meanwhile is looked at again before the commit.
    async fn gather_items(&self, from: u64, new_tail: u64) -> Vec<Item> {
        let ids = {
            let state = self.state.borrow();
            let segments = state.log.ring.segment_of(from)..state.log.ring.segment_of(new_tail);
            state.components.records.in_segments(segments, state.log.ring.segment_bytes())
        };
        let mut items = Vec::with_capacity(ids.len());
        for part in ids.chunks(GATHERED_AT_ONCE) {
            {
                let state = self.state.borrow();
                part.iter().for_each(|&id| gather_record(&state.components, id, &mut items));
            }
            self.env.give_way().await;
        }
        items.sort_by_key(|item| (item.device, item.pending, item.component, item.range.first));
        let mut spots_from = 0;
        for item in &mut items {
            item.spots_from = spots_from;
            spots_from += item.spots();
        }
        items
    }

    /// Cleans until every device has free segments for what it gets.
    async fn make_room(&self, items: &[Item]) -> Result<bool, StoreError> {
        let devices = self.capacity.borrow().len() as u8;
        for device in 0..devices {
            let blocks: u64 =
                items.iter().filter(|i| i.device == device && i.data.is_some()).map(|i| u64::from(i.range.count)).sum();
            if !self.clean_for(device, blocks).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The pieces of the log that hold the items' data, by start.
    async fn read_log(&self, items: &[Item]) -> LogPieces {
        let segment_bytes = self.state.borrow().log.ring.segment_bytes();
        // A piece lies within one segment: the next one may stand elsewhere on the device.
        let piece_of = |position: u64| position - position % segment_bytes % PIECE_BYTES;
        let mut wanted = BTreeSet::new();
        for (item, data) in items.iter().filter_map(|item| Some((item, item.data?))) {
            let pages = (0..u64::from(item.range.count)).map(|page| data + page * PAGE);
            wanted.extend(pages.map(piece_of));
        }
        let wanted: Vec<u64> = wanted.into_iter().collect();
        let (mut pieces, mut rest) = (LogPieces::default(), wanted.as_slice());
        while !rest.is_empty() {
            let at_once = if self.hurries() { READS_AT_ONCE } else { 1 };
            let (now, later) = rest.split_at(at_once.min(rest.len()));
            let read = join_all(now.iter().map(|&start| self.read_piece(start, segment_bytes))).await;
            for (&start, (data, unread)) in now.iter().zip(read) {
                pieces.data.insert(start, data);
                pieces.unread.extend(unread.into_iter().map(|at| start + at));
            }
            rest = later;
        }
        pieces
    }

    /// A piece, and where in it pages cannot be read.
    async fn read_piece(&self, start: u64, segment_bytes: u64) -> (Bytes, Vec<u64>) {
        let segment_end = (start / segment_bytes + 1) * segment_bytes;
        let len = (start + PIECE_BYTES).min(segment_end) - start;
        let offset = self.state.borrow().log.ring.device_offset(start);
        self.state.borrow_mut().counters.destage_read_bytes += len;
        match self.read_device(LOG, offset, len as u32).await {
            Ok(data) => (data, Vec::new()),
            // What cannot be read is carried on as a mark, or as zeroes with the CRC that it should have: reads report it, and it is
            // repaired from another copy.
            Err(_) => self.read_pages(offset, len).await,
        }
    }

    /// Guests wait for room already: what destage adds to the queues of devices delays them less than a slower destage.
    fn hurries(&self) -> bool {
        let low = u64::from(self.tuning.congestion_low_percent) * 10;
        self.state.borrow().log.ring.fill_permille() > low
    }

    async fn read_pages(&self, offset: u64, len: u64) -> (Bytes, Vec<u64>) {
        let (mut data, mut unread) = (PageBuf::zeroed(len as usize), Vec::new());
        for at in (0..len).step_by(PAGE as usize) {
            match self.cache.read(offset + at, PAGE as u32).await {
                Ok(bytes) => data[at as usize..][..PAGE as usize].copy_from_slice(&bytes),
                Err(_) => unread.push(at),
            }
        }
        (data.freeze(), unread)
    }

    /// Writes the data of all items, device by device in parallel, and flushes; what could not be read becomes marks. None when a device has
    /// no room.
    async fn write_items(&self, ticket: u64, items: &[Item], pieces: &LogPieces) -> Option<(Spots, Shared)> {
        let blocks = items.last().map_or(0, |last| last.spots_from + last.spots());
        let marks = self.marks_of(items, pieces);
        let mut by_device: BTreeMap<u8, Vec<Outgoing>> = BTreeMap::new();
        for item in items {
            let Some(position) = item.data else { continue };
            let state = self.state.borrow();
            // Gone since it was gathered: superseded or undone.
            let Some(record) = state.components.records.get(item.record) else {
                continue;
            };
            for block in item.range.first..item.range.end() {
                let at = item.spots_from + (block - item.range.first) as usize;
                if marks.contains(&at) {
                    continue;
                }
                let position = position + (block - item.range.first) * PAGE;
                let (start, data) = pieces.data.range(..=position).next_back().expect("the log of an item was read");
                let from = (position - start) as usize;
                let out = OutBlock {
                    component: item.component,
                    block,
                    crc: record.crc(block),
                    pending: item.pending,
                    data: data.slice(from..from + PAGE as usize),
                    fingerprint: 0,
                    name: None,
                };
                let is_parity = record.row_check(block) != 0;
                let outgoing = Outgoing { at, is_parity, record: Some(item.record), packed: None, block: out };
                // Room at once: a list that grows is copied again and again, in one go of the shard.
                by_device.entry(item.device).or_insert_with(|| Vec::with_capacity(blocks)).push(outgoing);
            }
        }
        let writes = by_device
            .into_iter()
            .map(|(device, blocks)| self.write_outgoing(CapacityWriter::Destage(ticket), device, blocks));
        let (mut spots, mut shared) = (vec![Spot::NONE; blocks], Shared::default());
        marks.into_iter().for_each(|at| spots[at] = Spot::BAD);
        for Written { device, places, zeroes, spots: written, found } in join_all(writes).await {
            zeroes.into_iter().for_each(|place| spots[place] = Spot::ZERO);
            let written = written?;
            // Empty when the device failed: its components are lost.
            for (place, spot) in places.into_iter().zip(written) {
                spots[place] = spot;
            }
            shared.take(found, &mut spots, self.state.borrow().tier.of(device));
        }
        Some((spots, shared))
    }

    /// Writes blocks to a device as it is chosen, but for those that need not be written.
    pub(crate) async fn write_outgoing(
        &self,
        writer: CapacityWriter,
        device: u8,
        mut blocks: Vec<Outgoing>,
    ) -> Written {
        blocks.sort_by_key(|Outgoing { block, .. }| (block.pending, block.component, block.block));
        let (packs, shares) = {
            let settings = &self.state.borrow().settings;
            (settings.compression(), settings.deduplication())
        };
        let (mut zeroes, mut found) = (Vec::new(), Found::default());
        if shares {
            zeroes = self.make_fingerprints(&mut blocks).await;
            found = self.find_twins(device, &mut blocks).await;
        }
        if packs {
            zeroes.extend(self.squeeze(&mut blocks).await);
        }
        let (places, blocks): (Vec<usize>, Vec<OutBlock>) =
            blocks.into_iter().map(|Outgoing { at, block, .. }| (at, block)).unzip();
        let spots = self.write_blocks(device, &blocks, writer).await;
        Written { device, places, zeroes, spots, found }
    }

    /// Places among the round's spots of blocks whose bytes the log cannot give any more. They are told as bad at once.
    fn marks_of(&self, items: &[Item], pieces: &LogPieces) -> BTreeSet<usize> {
        let mut marks = BTreeSet::new();
        if pieces.unread.is_empty() || !self.has_needs(Needs::BAD_MARKS) {
            return marks;
        }
        let findings = &mut self.state.borrow_mut().findings;
        for (item, position) in items.iter().filter_map(|item| Some((item, item.data?))) {
            let end = position + u64::from(item.range.count) * PAGE;
            for unread in pieces.unread.range(position..end) {
                let at = (unread - position) / PAGE;
                findings.found(item.component, item.range.first + at);
                marks.insert(item.spots_from + at as usize);
            }
        }
        marks
    }

    /// Writes blocks as runs and flushes. The spots in order; none when there is no room; fewer when the device failed.
    pub(crate) async fn write_blocks(
        &self,
        device: u8,
        blocks: &[OutBlock],
        writer: CapacityWriter,
    ) -> Option<Vec<Spot>> {
        let mut spots = Vec::with_capacity(blocks.len());
        let form_2 = blocks.iter().any(OutBlock::needs_form_2);
        let mut rest = blocks;
        if self.state.borrow().tier.of(device).failed {
            return Some(Vec::new());
        }
        while !rest.is_empty() {
            let (place, offset, log_id) = {
                let mut state = self.state.borrow_mut();
                let (round, log_id) = (state.tier.round(), state.log.id());
                let segments = state.tier.of_mut(device);
                let (stream, ticket) = (writer.stream(), writer.ticket());
                let place = match form_2 {
                    true => {
                        let sizes = rest.iter().map(|block| block.entry().shape());
                        segments.take_packed_run(stream, sizes, round, ticket, &self.pins)?
                    }
                    false => segments.take_run(stream, rest.len() as u32, round, ticket, &self.pins)?,
                };
                (place, segments.device_offset(place.page), log_id)
            };
            let (now, later) = rest.split_at(place.entries as usize);
            rest = later;
            self.state.borrow_mut().twins.wrote(writer.ticket(), device, place.page, now);
            let run = assemble(place, u32::from(device), log_id, now);
            spots.extend(run.spots);
            if let Err(error) = self.write_run(device, offset, &run.parts, writer).await {
                self.state.borrow_mut().fail_device(device, &error);
                return Some(Vec::new());
            }
        }
        let flush = !blocks.is_empty() && !Canary::SegmentsNotFlushed.sings();
        if flush && let Err(error) = self.flush_device(device).await {
            self.state.borrow_mut().fail_device(device, &error);
            return Some(Vec::new());
        }
        Some(spots)
    }

    /// Writes a run in pieces.
    async fn write_run(&self, device: u8, mut at: u64, run: &[Bytes], writer: CapacityWriter) -> Result<(), DiskError> {
        let mut rest = run;
        while !rest.is_empty() {
            let at_once = match writer {
                CapacityWriter::Place { .. } => PLACED_AT_ONCE,
                _ if self.hurries() => WRITES_AT_ONCE,
                _ => 1,
            };
            let (now, later) = rest.split_at((at_once * PIECE_PARTS).min(rest.len()));
            rest = later;
            let pieces = now.chunks(PIECE_PARTS).map(|parts| {
                let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
                at += bytes;
                self.write_capacity(device, at - bytes, parts.to_vec(), bytes, writer)
            });
            for written in join_all(pieces).await {
                written?;
            }
        }
        Ok(())
    }

    /// The one place that writes to a capacity device of an open group: what is counted here and is neither destage's nor the
    /// cleaner's, nor large copies', went past the log.
    pub(crate) async fn write_capacity(
        &self,
        device: u8,
        offset: u64,
        parts: Vec<Bytes>,
        bytes: u64,
        writer: CapacityWriter,
    ) -> Result<(), DiskError> {
        let disk = self.disk(device).ok_or_else(|| gone("write"))?;
        let asked = self.meters.begin(device, RequestKind::of_write(bytes), bytes, self.env.now());
        disk.write(offset, parts, Durability::Buffered).await?;
        asked.answered(self.env.now());
        let counters = &mut self.state.borrow_mut().counters;
        match writer {
            CapacityWriter::Destage(_) => counters.capacity_write_destage_bytes += bytes,
            CapacityWriter::Clean(_) => counters.capacity_write_clean_bytes += bytes,
            CapacityWriter::Place { .. } => counters.capacity_write_resync_bytes += bytes,
        }
        Ok(())
    }
}

impl State {
    /// `idle`: no round is under way.
    fn next_work(&mut self, tuning: &crate::RunningOptions, idle: bool) -> Work {
        if self.life.ends() {
            return Work::End;
        }
        let placed = placed_is_due(&self.tier, &self.log, tuning);
        self.log.next_work(tuning, placed, idle)
    }

    /// A round comes to nothing: what it wrote is free again, and what it took is gathered anew.
    fn give_up(&mut self, ticket: u64) {
        self.log.give_up_rounds();
        self.round_over(ticket);
    }
}

/// The live versions of one record, appended to `items` without their spots.
fn gather_record(components: &Components, id: RecordId, items: &mut Vec<Item>) {
    let Some(record) = components.records.get(id) else { return };
    let Some(component) = components.get(record.component) else { return };
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
            spots_from: 0,
        });
    });
}
