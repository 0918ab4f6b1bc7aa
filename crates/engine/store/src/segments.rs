//! Capacity segments: which are free, where the next run goes, how many slots of each are in use, what reads pin.
//!
//! Promises    a segment is reused only when nothing refers to it in the metadata and no read holds it
//! Assumes     `live` falls only after the transaction that drops the references is durable

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use cairn_format::{
    CapacityRegions, ItemShape, PAGE_SECTORS, RUN_ENTRIES_PER_HEADER_MAX, RunShape, SECTOR_BYTES, SlotRun, Spot,
    map_rows::SEGMENTS_OF_ROW, packed_header_pages, rows::Live, run_header_pages,
};
use cairn_types::{BLOCK_BYTES, Canary};

use crate::{flag::Flag, rows::SegmentRow, shares::Shares, victims::Victims};

/// Per cent of the slots that writes may not fill: room for cleaning.
const CLEANER_RESERVE_PERCENT: u64 = 5;
/// Segments that writes may not fill, at least: one to write to, one to clean into, one that waits for its commit.
pub(crate) const CLEANER_RESERVE_SEGMENTS: u64 = 3;

/// Items of a page of a header, at least: those of form 1, which are the larger ones.
const ITEMS_OF_HEADER_PAGE: u64 = 127;
/// Pages of a segment for which one is left to ids of components.
const PAGES_OF_IDS: u64 = 64;

/// Who appends runs, each to a segment of its own. What is read of a segment after a crash is a chain of runs from its first page:
/// each writer has its run on the medium before it begins the next, and would leave a hole before those of another.
pub(crate) const STREAMS: usize = 3;
/// The stream of destage and cleaning, which are one task.
pub(crate) const DESTAGE_STREAM: usize = 0;

/// Numbers that grow by one never come near this; a row that has them there was not written by us.
pub(crate) const COUNTS_MAX: u64 = 1 << 62;

/// Segments of a missing device, at most: 64 TiB of 4 MiB each.
const MISSING_MAX: usize = 1 << 24;

/// One capacity device's segments.
#[derive(Debug)]
pub(crate) struct Segments {
    pub device: u8,
    pub segments_offset: u64,
    pub segment_pages: u32,
    rows: Vec<SegmentRow>,
    /// The segment that runs are appended to, by stream.
    open: [Option<u32>; STREAMS],
    pub dirty: BTreeSet<u32>,
    /// Sectors in use.
    live_sectors: u64,
    /// Blocks that stand in them.
    live_items: u64,
    /// Segments of which nothing is in use.
    free: BTreeSet<u32>,
    /// Segments with blocks that wait for their transaction, by the round that wrote them.
    awaited: BTreeMap<u64, BTreeSet<u32>>,
    /// Segments with blocks that records of the log name, by the log segment of the record.
    held: BTreeMap<u64, Held>,
    /// What the components on this device may need, in blocks.
    pub charged: u64,
    /// What is reserved for them, in blocks.
    pub reserved: u64,
    /// Blocks of data that were admitted and are not in the log yet.
    pub queued_data: u64,
    /// The same without what trims and deletes gave up and destage has not taken out of the map yet.
    pub used: u64,
    pub failed: bool,
    /// With what, where it failed while it was in use.
    pub failure: Option<cairn_env::DiskError>,
    /// What the metadata has of a device that is missing: kept as it is.
    missing: Vec<SegmentRow>,
    victims: Victims,
    /// It is being emptied: what gets more references there would stay.
    emptying: Option<u32>,
    /// Items with several references.
    pub shares: Shares,
}

/// What the records of one log segment name.
#[derive(Debug, Default)]
struct Held {
    segments: BTreeSet<u32>,
    blocks: u64,
}

/// Where a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunPlace {
    pub segment: u32,
    pub generation: u64,
    /// First page of its header, counted over the device's segments.
    pub page: u64,
    pub header_pages: u32,
    pub entries: u32,
}

impl RunPlace {
    /// The slot of the first entry.
    pub fn first_slot(&self) -> u64 {
        self.page + u64::from(self.header_pages)
    }
}

impl Segments {
    pub fn new(device: u8, regions: &CapacityRegions) -> Self {
        let count = regions.segment_count;
        Self {
            device,
            segments_offset: regions.segments_offset,
            segment_pages: regions.segment_bytes / BLOCK_BYTES,
            rows: vec![SegmentRow::default(); count as usize],
            open: [None; STREAMS],
            dirty: BTreeSet::new(),
            live_sectors: 0,
            live_items: 0,
            free: (0..count).collect(),
            awaited: BTreeMap::new(),
            held: BTreeMap::new(),
            charged: 0,
            reserved: 0,
            queued_data: 0,
            used: 0,
            failed: false,
            failure: None,
            missing: Vec::new(),
            victims: Victims::new(entries_for(regions.segment_bytes / BLOCK_BYTES)),
            emptying: None,
            shares: Shares::default(),
        }
    }
    /// Changes a segment's row, and where it stands among those to be cleaned.
    fn change(&mut self, segment: u32, act: impl FnOnce(&mut SegmentRow)) {
        let row = &mut self.rows[segment as usize];
        let old = *row;
        act(row);
        let new = *row;
        if old.live != new.live {
            self.live_sectors = self.live_sectors + u64::from(new.live.sectors) - u64::from(old.live.sectors);
            self.live_items = self.live_items + u64::from(new.live.items) - u64::from(old.live.items);
        }
        let (before, after) = (self.weight(old.live), self.weight(new.live));
        self.victims.change(segment, (before, old.written), (after, new.written));
    }
    /// Pages that blocks take when they are moved, beside the header of a segment that is full of raw ones: what a segment has in use, as a part
    /// of [`Self::slots_per_segment`].
    pub fn weight(&self, live: Live) -> u32 {
        if live.is_raw() {
            return live.items;
        }
        let more = packed_header_pages(live.items).saturating_sub(self.segment_pages - entries_for(self.segment_pages));
        live.sectors.div_ceil(PAGE_SECTORS) + more
    }
    /// Rows of [`SEGMENTS_OF_ROW`] segments that the metadata has of it.
    pub fn rows(&self) -> usize {
        self.rows.len().max(self.missing.len()).div_ceil(SEGMENTS_OF_ROW as usize)
    }
    /// Those of `count` segments from `first` on, as many as there are.
    pub fn stored_rows(&self, first: u32, count: u32) -> Vec<SegmentRow> {
        let rows = if self.rows.is_empty() { &self.missing } else { &self.rows };
        let from = (first as usize).min(rows.len());
        rows[from..(from + count as usize).min(rows.len())].to_vec()
    }
    /// Takes what the metadata says of a segment, later than what was taken before. False when there is no such segment, or none that
    /// holds so much.
    pub fn load_again(&mut self, segment: u32, row: SegmentRow) -> bool {
        if self.rows.is_empty() {
            // Missing: nobody knows how many it has. A damaged number does not take much memory.
            let at = segment as usize;
            if at >= self.missing.len() {
                if at > MISSING_MAX {
                    return false;
                }
                self.missing.resize(at + 1, SegmentRow::default());
            }
            self.missing[at] = row;
            return true;
        }
        if let Some(before) = self.rows.get(segment as usize) {
            if !before.live.is_none() {
                self.free.insert(segment);
            }
            self.change(segment, |row| row.live = Live::default());
        }
        self.load(segment, row)
    }
    /// Whether the device has the place, within one of its segments.
    pub fn has(&self, spot: Spot) -> bool {
        let sectors = u64::from(self.segment_pages) * u64::from(PAGE_SECTORS);
        spot.is_place() && !spot.is_shared() && {
            let first = spot.sector() / sectors;
            first < self.count() && (spot.is_raw() || (spot.end() - 1) / sectors == first)
        }
    }
    /// Takes over a stored row. False when there is no such segment, or none that holds so much.
    pub fn load(&mut self, segment: u32, row: SegmentRow) -> bool {
        let sectors = u64::from(self.segment_pages) * u64::from(PAGE_SECTORS);
        let fits = u64::from(row.live.sectors) <= sectors
            && row.live.items <= row.live.sectors
            && row.fill <= self.segment_pages
            && row.generation.max(row.written) < COUNTS_MAX;
        if !fits || segment as usize >= self.rows.len() {
            return false;
        }
        self.change(segment, |known| *known = row);
        if !row.live.is_none() {
            self.free.remove(&segment);
        }
        true
    }
    pub fn row(&self, segment: u32) -> SegmentRow {
        self.rows[segment as usize]
    }
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }
    /// Bytes in use.
    pub fn live_bytes(&self) -> u64 {
        self.live_sectors * u64::from(SECTOR_BYTES)
    }
    /// Blocks in use, each in sectors of its own.
    pub fn live_items(&self) -> u64 {
        self.live_items
    }
    pub fn free_segments(&self) -> u64 {
        self.free.len() as u64
    }
    /// Slots of a full segment written as one run.
    pub fn slots_per_segment(&self) -> u64 {
        u64::from(entries_for(self.segment_pages))
    }
    /// Blocks that components may be charged with, at most.
    pub fn limit(&self) -> u64 {
        self.slots_per_segment() * self.count().saturating_sub(self.reserve())
    }
    /// Segments that writes may not fill.
    pub fn reserve(&self) -> u64 {
        (self.count() * CLEANER_RESERVE_PERCENT).div_ceil(100).max(CLEANER_RESERVE_SEGMENTS)
    }
    /// The same where they fit the device only packed: pages of items, with their share of headers. Each segment lacks what the last run fills up,
    /// and ids of many components.
    pub fn packed_limit(&self) -> u64 {
        let pages = u64::from(self.segment_pages);
        let lacks = 2 + pages / PAGES_OF_IDS;
        pages.saturating_sub(lacks) * self.count().saturating_sub(self.reserve())
    }
    /// Pages that what is in use takes, with its share of headers.
    pub fn stored_pages(&self) -> u64 {
        self.live_sectors.div_ceil(u64::from(PAGE_SECTORS)) + self.live_items.div_ceil(ITEMS_OF_HEADER_PAGE)
    }
    /// Where a page stands, counted over the segments.
    pub fn device_offset(&self, page: u64) -> u64 {
        self.segments_offset + page * u64::from(BLOCK_BYTES)
    }
    /// Where a block stands.
    pub fn offset_of(&self, spot: Spot) -> u64 {
        self.segments_offset + spot.sector() * u64::from(SECTOR_BYTES)
    }
    pub fn segment_of(&self, spot: Spot) -> u32 {
        self.segment_of_slot(spot.sector() / u64::from(PAGE_SECTORS))
    }
    pub fn segment_of_slot(&self, slot: u64) -> u32 {
        (slot / u64::from(self.segment_pages)) as u32
    }

    /// Takes room for a run of at most `wanted` raw entries, of the round `ticket`. None when no segment is free.
    pub fn take_run(&mut self, stream: usize, wanted: u32, round: u64, ticket: u64, pins: &Pins) -> Option<RunPlace> {
        let (segment, left) = self.open_segment(stream, pins)?;
        let entries = wanted.min(entries_for(left)).min(RUN_ENTRIES_PER_HEADER_MAX);
        let header_pages = run_header_pages(entries);
        Some(self.place_run(segment, (header_pages, header_pages + entries), entries, (round, ticket)))
    }

    /// The same of blocks of which some are packed, or have fingerprints or names.
    pub fn take_packed_run(
        &mut self,
        stream: usize,
        sizes: impl Iterator<Item = ItemShape>,
        round: u64,
        ticket: u64,
        pins: &Pins,
    ) -> Option<RunPlace> {
        let (segment, left) = self.open_segment(stream, pins)?;
        let mut shape = RunShape::default();
        for item in sizes.take(RUN_ENTRIES_PER_HEADER_MAX as usize) {
            if shape.pages_with(item) > left {
                break;
            }
            shape.push(item);
        }
        let pages = (shape.header_pages(), shape.pages());
        Some(self.place_run(segment, pages, shape.entries(), (round, ticket)))
    }

    /// The segment that the stream appends to, and the pages that it has left: enough for a header and a block.
    fn open_segment(&mut self, stream: usize, pins: &Pins) -> Option<(u32, u32)> {
        let left = |s: &Self| s.open[stream].map_or(0, |o| s.segment_pages - s.rows[o as usize].fill);
        if left(self) < 2 {
            let device = self.device;
            let will_do = |&s: &u32| {
                let generation = self.row(s).generation + 1;
                // A million uses ago it was the home of items that are shared still: their names are not given twice.
                !self.is_open(s) && !pins.held(device, u64::from(s)) && !self.shares.has_home(s, generation)
            };
            let next = self.free.iter().copied().find(will_do)?;
            // Not free from now on, though nothing refers to it yet: a crash makes it free again.
            self.free.remove(&next);
            if let Some(old) = self.open[stream].replace(next) {
                self.free_if_unused(old);
            }
            self.change(next, |row| *row = SegmentRow { generation: row.generation + 1, ..SegmentRow::default() });
        }
        Some((self.open[stream].expect("just chosen"), left(self)))
    }

    fn place_run(
        &mut self,
        segment: u32,
        (header_pages, pages): (u32, u32),
        entries: u32,
        (round, ticket): (u64, u64),
    ) -> RunPlace {
        let row = self.rows[segment as usize];
        let page = u64::from(segment) * u64::from(self.segment_pages) + u64::from(row.fill);
        self.change(segment, |row| {
            row.fill += pages;
            row.written = round;
        });
        self.dirty.insert(segment);
        self.awaited.entry(ticket).or_default().insert(segment);
        RunPlace { segment, generation: row.generation, page, header_pages, entries }
    }

    /// What the round wrote waits for no transaction any more: it is durable, or was given up. What nothing refers to by now is
    /// free.
    pub fn round_over(&mut self, ticket: u64) {
        for segment in self.awaited.remove(&ticket).unwrap_or_default() {
            self.free_if_unused(segment);
        }
    }

    /// Whether a run may stand on the device: within one of its segments.
    pub fn has_run(&self, run: SlotRun) -> bool {
        let last = run.first_slot + u64::from(run.count) - 1;
        let of = |slot: u64| slot / u64::from(self.segment_pages);
        of(last) < self.count() && of(run.first_slot) == of(last)
    }

    /// A record in this segment of the log names these slots: until the log has left it behind, theirs is neither free nor cleaned.
    /// In replay the row may be of before the run was written.
    pub fn hold(&mut self, log_segment: u64, run: SlotRun) {
        let segment = self.segment_of_slot(run.first_slot);
        self.free.remove(&segment);
        let end = (run.first_slot % u64::from(self.segment_pages)) as u32 + run.count;
        self.change(segment, |row| {
            if run.generation > row.generation {
                *row = SegmentRow { generation: run.generation, fill: 0, ..*row };
            }
            row.fill = row.fill.max(end);
        });
        self.dirty.insert(segment);
        let held = self.held.entry(log_segment).or_default();
        held.segments.insert(segment);
        held.blocks += u64::from(run.count);
    }

    /// Blocks that records from this log segment on name.
    pub fn held_blocks_from(&self, log_segment: u64) -> u64 {
        self.held.range(log_segment..).map(|(_, held)| held.blocks).sum()
    }

    /// The log has left everything below this segment behind.
    pub fn let_go_below(&mut self, log_segment: u64) {
        let kept = self.held.split_off(&log_segment);
        for segment in std::mem::replace(&mut self.held, kept).into_values().flat_map(|held| held.segments) {
            self.free_if_unused(segment);
        }
    }

    /// Leaves the segments of all streams but destage's, so that they can be cleaned: space is short.
    pub fn close_streams(&mut self) {
        (0..STREAMS).filter(|stream| *stream != DESTAGE_STREAM).for_each(|stream| self.close_stream(stream));
    }
    /// The same of all: what is written next goes to segments of its own.
    pub fn close_all_streams(&mut self) {
        (0..STREAMS).for_each(|stream| self.close_stream(stream));
    }
    fn close_stream(&mut self, stream: usize) {
        if let Some(segment) = self.open[stream].take() {
            self.free_if_unused(segment);
        }
    }

    fn is_open(&self, segment: u32) -> bool {
        self.open.contains(&Some(segment))
    }

    /// Blocks of it wait for their transaction, or records of the log name some: it is not free, even when nothing in the metadata
    /// refers to it. Otherwise a round of three segments would overwrite its own first.
    fn is_awaited(&self, segment: u32) -> bool {
        self.awaited.values().any(|segments| segments.contains(&segment))
            || self.held.values().any(|held| held.segments.contains(&segment))
    }

    /// Whether what stands there of such a use may get more references: it waits for nothing, and nobody appends to it.
    pub fn may_be_shared(&self, segment: u32, generation: u64) -> bool {
        self.row(segment).generation == generation
            && !self.is_free(segment)
            && !self.is_open(segment)
            && !self.is_awaited(segment)
            && self.emptying != Some(segment)
    }
    /// What is in it is on its way to another segment.
    pub fn begin_emptying(&mut self, segment: u32) {
        self.emptying = Some(segment);
    }
    pub fn end_emptying(&mut self) {
        self.emptying = None;
    }

    fn free_if_unused(&mut self, segment: u32) {
        if self.rows[segment as usize].live.is_none() && !self.is_open(segment) && !self.is_awaited(segment) {
            self.free.insert(segment);
        }
    }

    /// Whether the next run may overwrite it.
    pub fn is_free(&self, segment: u32) -> bool {
        self.free.contains(&segment)
    }

    /// A segment's row as it will be when a transaction with this change of its count is durable.
    pub fn row_after(&self, segment: u32, change: LiveChange) -> SegmentRow {
        let row = self.rows[segment as usize];
        SegmentRow { live: change.of(row.live).expect("what is in use is counted"), ..row }
    }

    /// A committed transaction refers to the spot.
    pub fn add_live(&mut self, spot: Spot) {
        let segment = self.segment_of(spot);
        self.add_to(segment, Live { sectors: spot.sectors(), items: 1 });
    }
    /// The same of raw pages of one segment that follow on.
    #[cfg(feature = "fill-map")]
    pub fn add_live_run(&mut self, first_slot: u64, count: u32) {
        let segment = self.segment_of_slot(first_slot);
        self.add_to(segment, Live::raw(count));
    }
    fn add_to(&mut self, segment: u32, more: Live) {
        self.change(segment, |row| {
            row.live = Live { sectors: row.live.sectors + more.sectors, items: row.live.items + more.items };
        });
        self.free.remove(&segment);
    }
    /// A committed transaction dropped the reference to the spot.
    pub fn drop_live(&mut self, spot: Spot) {
        if Canary::SlotNotFreed.sings() {
            return;
        }
        let segment = self.segment_of(spot);
        let mut change = LiveChange::default();
        change.drop_spot(spot);
        let live = change.of(self.row(segment).live).expect("what is in use is counted");
        self.change(segment, |row| row.live = live);
        let early = Canary::SegmentReusedEarly.sings();
        let unused = live.is_none() || early && live.items < 8;
        if unused && !self.is_open(segment) && !self.is_awaited(segment) {
            self.free.insert(segment);
        }
    }
    /// Whether what is in use of it may be moved: nobody appends to it, reads it, or waits for a transaction that refers to it.
    pub fn may_be_emptied(&self, segment: u32, pins: &Pins) -> bool {
        let row = self.row(segment);
        !row.live.is_none()
            && !self.is_open(segment)
            && !pins.held(self.device, u64::from(segment))
            && !self.is_awaited(segment)
    }
    /// Segments worth emptying, the best first: much room for little copying, old before young,
    /// (1 - u) * age / (1 + u).
    pub fn to_clean(&self, round: u64, pins: &Pins) -> Vec<u32> {
        let pages = u64::from(self.segment_pages);
        let will_do = |segment: u32| {
            // A nearly full one gives nothing back; what waits for its transaction would be taken for dead.
            let live = u64::from(self.weight(self.row(segment).live));
            live * 100 < self.slots_per_segment() * 98 && self.may_be_emptied(segment, pins)
        };
        let score = |segment: u32| {
            let row = self.row(segment);
            let (live, age) = (u64::from(self.weight(row.live)), round.saturating_sub(row.written) + 1);
            (std::cmp::Reverse(pages.saturating_sub(live) * age * 1024 / (pages + live)), segment)
        };
        let mut scored: Vec<_> = self.victims.candidates(will_do).map(score).collect();
        scored.sort_unstable();
        scored.into_iter().map(|(_, segment)| segment).collect()
    }
    /// Whether those that are to be cleaned are those that have slots in use.
    pub fn victims_are_right(&self) -> bool {
        let rows = (0u32..).zip(&self.rows);
        self.victims.has(rows.map(|(segment, row)| (segment, self.weight(row.live), row.written)))
    }
}

/// What a transaction does to what is in use of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LiveChange {
    sectors: i64,
    items: i64,
}

impl LiveChange {
    pub fn add_spot(&mut self, spot: Spot) {
        self.sectors += i64::from(spot.sectors());
        self.items += 1;
    }
    pub fn drop_spot(&mut self, spot: Spot) {
        self.sectors -= i64::from(spot.sectors());
        self.items -= 1;
    }
    /// What is in use then. None where less was counted than is given up.
    pub fn of(self, live: Live) -> Option<Live> {
        let sectors = u32::try_from(i64::from(live.sectors) + self.sectors).ok()?;
        let items = u32::try_from(i64::from(live.items) + self.items).ok()?;
        (items <= sectors && (items == 0) == (sectors == 0)).then_some(Live { sectors, items })
    }
}

/// Entries of a run that takes `pages` pages with its header, at most.
fn entries_for(pages: u32) -> u32 {
    let mut entries = pages.saturating_sub(run_header_pages(pages));
    while entries + 1 + run_header_pages(entries + 1) <= pages {
        entries += 1;
    }
    entries
}

/// Segments (of the log, or of a capacity device) that reads are using.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    counts: RefCell<BTreeMap<(u8, u64), u32>>,
    /// Raised when the last pin of a segment goes.
    pub released: Rc<Flag>,
}

/// The log in [`Pins`]; its segments are the physical ones.
pub(crate) const LOG: u8 = u8::MAX;

impl Pins {
    /// Raises `released` when the last pin of a segment goes.
    pub fn new(released: Rc<Flag>) -> Self {
        Self { counts: RefCell::default(), released }
    }
    pub fn held(&self, device: u8, segment: u64) -> bool {
        self.counts.borrow().contains_key(&(device, segment))
    }
    pub fn pin(self: &Rc<Self>, device: u8, segment: u64) -> Pin {
        *self.counts.borrow_mut().entry((device, segment)).or_default() += 1;
        Pin { pins: self.clone(), key: (device, segment) }
    }
}

/// Holds a segment until it is dropped.
#[derive(Debug)]
pub(crate) struct Pin {
    pins: Rc<Pins>,
    key: (u8, u64),
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut counts = self.pins.counts.borrow_mut();
        let count = counts.get_mut(&self.key).expect("a pin is counted");
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.key);
            drop(counts);
            self.pins.released.raise();
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::ComponentId;

    use super::*;

    #[test]
    fn a_full_segment_is_one_run_with_its_header() {
        for pages in 2..3000 {
            let entries = entries_for(pages);
            assert!(entries >= 1 && entries + run_header_pages(entries) <= pages);
            assert!(entries + 1 + run_header_pages(entries + 1) > pages);
        }
    }

    #[test]
    fn segments_are_reused_when_nothing_holds_them() {
        let regions =
            CapacityRegions { segments_offset: 1 << 20, segment_count: 2, segment_bytes: 16 * 4096, log_id: 1 };
        let (mut segments, pins) = (Segments::new(0, &regions), Rc::new(Pins::default()));
        let first = segments.take_run(DESTAGE_STREAM, 100, 1, 1, &pins).unwrap();
        assert_eq!((first.entries, first.page, first.first_slot()), (15, 0, 1));
        (1..16).for_each(|slot| segments.add_live(Spot::raw(slot)));
        let second = segments.take_run(DESTAGE_STREAM, 3, 1, 1, &pins).unwrap();
        assert_eq!((second.segment, second.entries), (1, 3));
        segments.add_live(Spot::raw(second.first_slot()));
        assert_eq!(segments.take_run(DESTAGE_STREAM, 100, 1, 1, &pins).unwrap().entries, 11);
        assert_eq!(segments.take_run(DESTAGE_STREAM, 1, 1, 1, &pins), None);
        (1..16).for_each(|slot| segments.drop_live(Spot::raw(slot)));
        segments.round_over(1);
        let pin = pins.pin(0, 0);
        assert_eq!(segments.take_run(DESTAGE_STREAM, 1, 1, 1, &pins), None);
        drop(pin);
        assert_eq!(segments.take_run(DESTAGE_STREAM, 1, 2, 2, &pins).unwrap().generation, 2);
    }

    /// Goal: packed blocks fill a segment, and no run is longer than what is left of it; their sectors are counted. Method: blocks of all sizes, of
    /// two components, until two segments are full.
    #[test]
    fn packed_runs_stay_within_their_segments() {
        let regions =
            CapacityRegions { segments_offset: 1 << 20, segment_count: 2, segment_bytes: 16 * 4096, log_id: 1 };
        let (mut segments, pins) = (Segments::new(0, &regions), Rc::new(Pins::default()));
        let sizes = |at: u32| ItemShape {
            component: Some(ComponentId(u128::from(at % 2))),
            sectors: if at % 7 == 6 { 8 } else { at % 7 % 6 + 1 },
            needs_form_2: at % 7 != 6,
        };
        let (mut taken, mut runs) = (0, Vec::new());
        while let Some(run) = segments.take_packed_run(DESTAGE_STREAM, (taken..taken + 10).map(sizes), 1, 1, &pins) {
            assert!(run.entries > 0);
            taken += run.entries;
            runs.push(run);
        }
        assert!(runs.len() > 3 && taken > 30, "{runs:?}");
        assert_eq!(segments.row(0).fill.max(segments.row(1).fill), 16);
        let packed = Spot::packed(16 * 8 - 3, 3).expect("it is one");
        assert!(segments.has(packed) && !segments.has(Spot::packed(16 * 8 - 3, 4).expect("it is one")));
        assert!(!segments.has(Spot::ZERO) && !segments.has(Spot::raw(32)) && segments.has(Spot::raw(31)));
        segments.add_live(packed);
        segments.add_live(Spot::raw(1));
        assert_eq!((segments.row(0).live, segments.live_bytes()), (Live { sectors: 11, items: 2 }, 11 * 512));
        assert!(segments.victims_are_right());
        segments.drop_live(packed);
        assert_eq!((segments.row(0).live, segments.live_items()), (Live::raw(1), 1));
    }
}
