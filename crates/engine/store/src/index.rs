//! What is buffered in the log, by block: an extent map of versions per component, and the records they point to.
//!
//! Promises    a block's versions are ordered by operation, newest first; below the newest settled one nothing is kept,
//!             so every version that is still here is live (I6: superseded only by unsettled ones is live)
//! Assumes     callers keep device charges by the differences that [`Extents::new_blocks`] and [`Extents::hidden_blocks`] show
//! Memory      about 50 bytes per extent and 150 per record, 4 per block beyond its fourth: some 200 for a lone 4 KiB write,
//!             5 bytes per block of a large one; one of parity 32 more, and 4 per block beyond its fourth
//! Not here    what `settled` is (`component.rs`), where blocks stand after destage (`leaf.rs`)

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    ops::Range,
};

use cairn_types::{BlockRange, ComponentId, Crcs, OpId};

use crate::{
    bitmap::BaseBits, chunked::Chunked, free_ids::FreeIds, pending_number::PendingNumber, row_checks::RowChecks,
};

/// Names a record while it is in the table; reused after.
pub(crate) type RecordId = u32;

/// Where the blocks of a record stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the log, back to back from this position.
    Log(u64),
    /// In the capacity tier, a slot per block, not folded into the map: the operation was unsettled when destaged, or is a large
    /// copy that destage has not come to yet. Or nowhere: marks, each [`crate::leaf::BAD_SLOT`].
    Slots(Box<[u64]>),
}

/// What a record does to its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// They hold data.
    Data {
        /// Where.
        place: Place,
        /// CRC-32C per block.
        crcs: Crcs,
        /// Of those that are parity.
        row_checks: RowChecks,
    },
    /// They are zero.
    Zero {
        /// They count as allocated.
        keep_allocated: bool,
    },
}

impl Body {
    /// Whether it is of marks: they come alone, but for the pending rows that destage makes.
    pub fn is_mark(&self) -> bool {
        matches!(self, Self::Data { place: Place::Slots(slots), .. } if slots.first() == Some(&crate::leaf::BAD_SLOT))
    }
}

/// One run of blocks of one logged operation.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub component: ComponentId,
    pub op: OpId,
    pub range: BlockRange,
    /// Position of its batch in the log; what tells which segment pins it.
    pub position: u64,
    pub body: Body,
    /// Blocks whose version list names it; at zero the record goes.
    pub live: u64,
    /// Its row in the metadata, once it is pending.
    pub row: Option<PendingNumber>,
}

impl Record {
    /// Whether it takes space once folded.
    pub fn allocates(&self) -> bool {
        matches!(self.body, Body::Data { .. } | Body::Zero { keep_allocated: true })
    }
    pub fn crc(&self, block: u64) -> u32 {
        match &self.body {
            Body::Data { crcs, .. } => crcs[(block - self.range.first) as usize],
            Body::Zero { .. } => cairn_format::zero_block_crc(),
        }
    }
    pub fn row_check(&self, block: u64) -> u32 {
        match &self.body {
            Body::Data { row_checks, .. } => row_checks.at((block - self.range.first) as usize),
            Body::Zero { .. } => 0,
        }
    }
}

/// A pending row that is no longer needed, with the slots that it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Garbage {
    pub row: u64,
    pub component: ComponentId,
    /// Slots that nothing else refers to.
    pub slots: Vec<u64>,
}

/// The records, by id and by log segment.
#[derive(Debug, Default)]
pub(crate) struct Records {
    slots: Chunked<Option<Record>>,
    free: FreeIds,
    /// Rounds that refer to records across waiting, by ticket.
    rounds: BTreeSet<u64>,
    /// Freed ids, each with the newest round then active. An id that was reused before that round and all older ones ended would
    /// make them refer to the wrong record.
    held: VecDeque<(u64, RecordId)>,
    /// Records that are pending rows.
    pub pending: BTreeSet<RecordId>,
    /// Ids by the log segment that their batch stands in; may name ids that were freed and reused since.
    by_segment: BTreeMap<u64, Vec<RecordId>>,
    /// Pending rows whose last block went.
    pub garbage: Vec<Garbage>,
    /// What is put is put into the index later.
    pub defers: bool,
    count: usize,
}

impl Records {
    pub fn get(&self, id: RecordId) -> Option<&Record> {
        self.slots.get(id as usize)?.as_ref()
    }
    pub fn of(&self, id: RecordId) -> &Record {
        self.get(id).expect("a version names a record that is there")
    }
    /// Removes a pending record that no extent names.
    pub fn drop_unused(&mut self, id: RecordId, slots: Vec<u64>) {
        let record = self.slot(id).take().expect("the caller added it");
        assert!(record.live == 0 && record.row.is_some());
        self.pending.remove(&id);
        self.count -= 1;
        self.give_back(id);
        let row = record.row.expect("just seen").get();
        self.garbage.push(Garbage { row, component: record.component, slots });
    }
    /// The record's row goes to the caller.
    pub fn leave_row(&mut self, id: RecordId) -> u64 {
        self.pending.remove(&id);
        self.of_mut(id).row.take().expect("a pending record has a row").get()
    }
    pub fn of_mut(&mut self, id: RecordId) -> &mut Record {
        self.slot(id).as_mut().expect("a version names a record that is there")
    }
    fn slot(&mut self, id: RecordId) -> &mut Option<Record> {
        self.slots.get_mut(id as usize).expect("an id that was given out")
    }
    pub fn len(&self) -> usize {
        self.count
    }
    /// Adds a record that no extent names yet. `log_segment` is none when it comes from the metadata.
    pub fn add(&mut self, record: Record, log_segment: Option<u64>) -> RecordId {
        let id = self.free.take().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as RecordId
        });
        if record.row.is_some() {
            self.pending.insert(id);
        }
        *self.slot(id) = Some(record);
        self.count += 1;
        if let Some(segment) = log_segment {
            self.by_segment.entry(segment).or_default().push(id);
        }
        id
    }
    /// Ids of records whose batch stands in one of these segments, each still there, once.
    pub fn in_segments(&self, segments: Range<u64>, segment_bytes: u64) -> Vec<RecordId> {
        let lists = self.by_segment.range(segments.clone());
        let mut ids: Vec<RecordId> = lists.flat_map(|(_, ids)| ids.iter().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        let here = |r: &Record| r.row.is_none() && segments.contains(&(r.position / segment_bytes));
        ids.retain(|&id| self.get(id).is_some_and(here));
        ids
    }
    fn give_back(&mut self, id: RecordId) {
        match self.rounds.last() {
            Some(&youngest) => self.held.push_back((youngest, id)),
            None => self.free.give_back(id),
        }
    }
    /// Keeps ids from being reused until [`Self::unhold`]. Tickets only grow.
    pub fn hold(&mut self, ticket: u64) {
        self.rounds.insert(ticket);
    }
    /// A round is under way.
    #[cfg(feature = "fill-map")]
    pub fn are_held(&self) -> bool {
        !self.rounds.is_empty()
    }
    pub fn unhold(&mut self, ticket: u64) {
        self.rounds.remove(&ticket);
        let oldest = self.rounds.first().copied().unwrap_or(u64::MAX);
        while let Some((_, id)) = self.held.pop_front_if(|(youngest, _)| *youngest < oldest) {
            self.free.give_back(id);
        }
    }
    pub fn forget_segments_below(&mut self, end: u64) {
        self.by_segment = self.by_segment.split_off(&end);
    }
    /// Takes `blocks` references away; the record goes with the last.
    pub fn release(&mut self, id: RecordId, blocks: u64) {
        let record = self.of_mut(id);
        assert!(record.live >= blocks, "a record loses no more blocks than it has");
        record.live -= blocks;
        if record.live > 0 {
            return;
        }
        let record = self.slot(id).take().expect("just seen");
        self.give_back(id);
        self.count -= 1;
        self.pending.remove(&id);
        if let Some(row) = record.row {
            self.discard(row.get(), record.component, record.body);
        }
    }
    /// A pending row that nothing refers to any more: it and its slots go with the next transaction.
    pub fn discard(&mut self, row: u64, component: ComponentId, body: Body) {
        let slots = match body {
            Body::Data { place: Place::Slots(slots), .. } => {
                slots.iter().copied().filter(|&s| crate::leaf::is_place(s)).collect()
            }
            _ => Vec::new(),
        };
        self.garbage.push(Garbage { row, component, slots });
    }
    /// A slot of a pending row moved. The record may have gone meanwhile: its slots wait among the garbage then.
    pub fn move_slot(&mut self, id: RecordId, row: u64, index: usize, (from, to): (u64, u64)) {
        let record = self.slot(id).as_mut().filter(|record| record.row == Some(PendingNumber::new(row)));
        if let Some(Record { body: Body::Data { place: Place::Slots(slots), .. }, .. }) = record {
            slots[index] = to;
            return;
        }
        let garbage = self.garbage.iter_mut().filter(|garbage| garbage.row == row);
        garbage.flat_map(|garbage| &mut garbage.slots).filter(|slot| **slot == from).for_each(|slot| *slot = to);
    }
    pub fn iter(&self) -> impl Iterator<Item = (RecordId, &Record)> {
        self.slots.iter().enumerate().filter_map(|(id, r)| Some((id as RecordId, r.as_ref()?)))
    }
}

/// A run of blocks that have the same versions, newest operation first.
#[derive(Debug, Clone)]
struct Extent {
    count: u32,
    versions: Versions,
}

/// Nearly every block has one version, or two while an overwrite is not settled: those take no allocation.
#[derive(Debug, Clone)]
enum Versions {
    One(RecordId),
    Two([RecordId; 2]),
    // Boxed once more: a bare slice would make the common cases half as large again.
    #[allow(clippy::redundant_allocation)]
    Many(Box<Box<[RecordId]>>),
}

impl Versions {
    fn as_slice(&self) -> &[RecordId] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Two(ids) => ids,
            Self::Many(ids) => ids,
        }
    }
    /// None when there is none left.
    fn from_slice(ids: &[RecordId]) -> Option<Self> {
        match *ids {
            [] => None,
            [one] => Some(Self::One(one)),
            [newer, older] => Some(Self::Two([newer, older])),
            _ => Some(Self::Many(Box::new(ids.into()))),
        }
    }
}

/// The versions of one component's blocks.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    map: BTreeMap<u64, Extent>,
    /// Blocks that have a version that takes space, and none in the map yet: what destage will add.
    new_blocks: u64,
    /// Blocks of the map under versions none of which takes space: what destage will take out of it.
    hidden_blocks: u64,
    /// Where a version list is changed: kept for its memory.
    scratch: Vec<RecordId>,
}

/// The versions that a new one met in its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Met {
    None,
    /// Older ones only.
    Older,
    /// At least one that is newer: it came late.
    Newer,
}

/// A stretch of a range with its versions, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub range: BlockRange,
    pub versions: Vec<RecordId>,
}

impl Extents {
    /// Whether no extent has blocks of `range`.
    fn is_clear(&self, range: BlockRange) -> bool {
        let last = self.map.range(..range.end()).next_back();
        last.is_none_or(|(first, extent)| first + u64::from(extent.count) <= range.first)
    }

    pub fn new_blocks(&self) -> u64 {
        self.new_blocks
    }

    pub fn hidden_blocks(&self) -> u64 {
        self.hidden_blocks
    }

    /// The stretches of `range` that have versions, ascending.
    pub fn spans(&self, range: BlockRange) -> Vec<Span> {
        let mut spans = Vec::new();
        self.each(range, |range, versions| spans.push(Span { range, versions: versions.to_vec() }));
        spans
    }

    /// [`Self::spans`] without copies: each stretch with its versions, newest first.
    pub fn each(&self, range: BlockRange, mut act: impl FnMut(BlockRange, &[RecordId])) {
        let mut part = |first: u64, extent: &Extent| {
            if let Some(part) = BlockRange::new(first, extent.count).intersection(range) {
                act(part, extent.versions.as_slice());
            }
        };
        if let Some(extent) = self.map.get(&range.first).filter(|extent| extent.count >= range.count) {
            return part(range.first, extent);
        }
        let Some((&last, extent)) = self.map.range(..range.end()).next_back() else {
            return;
        };
        if last <= range.first {
            return part(last, extent);
        }
        let before = self.map.range(..range.first).next_back();
        for (&first, extent) in before.into_iter().chain(self.map.range(range.first..range.end())) {
            part(first, extent);
        }
    }

    /// All stretches.
    pub fn all(&self) -> impl Iterator<Item = Span> + '_ {
        self.map.iter().map(|(&first, extent)| Span {
            range: BlockRange::new(first, extent.count),
            versions: extent.versions.as_slice().to_vec(),
        })
    }

    /// Takes all versions out, to be put in again. Their records stay.
    pub fn take(&mut self, records: &mut Records) -> Vec<(RecordId, BlockRange)> {
        let mut taken = Vec::new();
        for (first, extent) in std::mem::take(&mut self.map) {
            for &id in extent.versions.as_slice() {
                records.of_mut(id).live -= u64::from(extent.count);
                taken.push((id, BlockRange::new(first, extent.count)));
            }
        }
        (self.new_blocks, self.hidden_blocks) = (0, 0);
        taken
    }

    /// Fills an empty index: runs of blocks that have one version each, ascending.
    /// The last word of one tells whether it takes space once folded.
    pub fn load(&mut self, runs: impl Iterator<Item = (u64, u32, RecordId, bool)>, base: &BaseBits) {
        assert!(self.map.is_empty(), "it is empty");
        let (mut new, mut hidden) = (0, 0);
        let extent = |(first, count, id, allocates)| {
            let mapped = base.count(BlockRange::new(first, count));
            match allocates {
                true => new += u64::from(count) - mapped,
                false => hidden += mapped,
            }
            (first, Extent { count, versions: Versions::One(id) })
        };
        self.map = runs.map(extent).collect();
        (self.new_blocks, self.hidden_blocks) = (new, hidden);
    }

    /// What an extent adds to the blocks of the map, and what it hides of them.
    fn weigh(base: &BaseBits, records: &Records, first: u64, extent: &Extent) -> (u64, u64) {
        let mapped = base.count(BlockRange::new(first, extent.count));
        match Self::allocates(records, extent.versions.as_slice()) {
            true => (u64::from(extent.count) - mapped, 0),
            false => (0, mapped),
        }
    }

    fn allocates(records: &Records, versions: &[RecordId]) -> bool {
        versions.iter().any(|&id| records.of(id).allocates())
    }

    /// Makes an extent begin at `block`, if one covers it.
    fn split_at(&mut self, block: u64) {
        let Some((&first, extent)) = self.map.range_mut(..block).next_back() else {
            return;
        };
        let end = first + u64::from(extent.count);
        if end <= block {
            return;
        }
        let right = Extent { count: (end - block) as u32, versions: extent.versions.clone() };
        extent.count = (block - first) as u32;
        self.map.insert(block, right);
    }

    /// Puts `id` among the versions of its blocks, and drops what the newest settled version hides. Tells what versions it met.
    pub fn insert(
        &mut self,
        id: RecordId,
        range: BlockRange,
        settled: OpId,
        base: &BaseBits,
        records: &mut Records,
    ) -> Met {
        let record = records.of_mut(id);
        record.live += u64::from(range.count);
        let op = record.op;
        let mut met = Met::None;
        let mut put = |records: &mut Records, versions: &mut Vec<RecordId>, count: u64| {
            let place = versions.iter().position(|&other| records.of(other).op <= op).unwrap_or(versions.len());
            met = met.max(if place == 0 { Met::Older } else { Met::Newer });
            versions.insert(place, id);
            prune(versions, settled, count, records);
        };
        if self.change_exactly(range, base, records, |_| true, &mut put) {
            return met;
        }
        if self.is_clear(range) {
            self.insert_gap(id, range.first, range.count, base, records);
            return met;
        }
        self.split_at(range.first);
        self.split_at(range.end());
        let present: Vec<(u64, u32)> = self.map.range(range.first..range.end()).map(|(&f, e)| (f, e.count)).collect();
        let mut at = range.first;
        let mut gaps = Vec::new();
        for &(first, count) in &present {
            if first > at {
                gaps.push((at, (first - at) as u32));
            }
            at = first + u64::from(count);
        }
        if at < range.end() {
            gaps.push((at, (range.end() - at) as u32));
        }
        for (first, count) in gaps {
            self.insert_gap(id, first, count, base, records);
        }
        for (first, count) in present {
            self.change_exactly(BlockRange::new(first, count), base, records, |_| true, &mut put);
        }
        met
    }

    fn insert_gap(&mut self, id: RecordId, first: u64, count: u32, base: &BaseBits, records: &Records) {
        let extent = Extent { count, versions: Versions::One(id) };
        let (new, hidden) = Self::weigh(base, records, first, &extent);
        (self.new_blocks, self.hidden_blocks) = (self.new_blocks + new, self.hidden_blocks + hidden);
        self.map.insert(first, extent);
    }

    /// Changes the versions of the extent of just these blocks where they are `wanted`; it goes when none are left. False
    /// where blocks lie otherwise: of random small writes that is rare, so this one lookup comes before any search.
    fn change_exactly(
        &mut self,
        range: BlockRange,
        base: &BaseBits,
        records: &mut Records,
        wanted: impl Fn(&[RecordId]) -> bool,
        act: impl FnOnce(&mut Records, &mut Vec<RecordId>, u64),
    ) -> bool {
        let Entry::Occupied(mut entry) = self.map.entry(range.first) else {
            return false;
        };
        let extent = entry.get_mut();
        if extent.count != range.count {
            return false;
        }
        if !wanted(extent.versions.as_slice()) {
            return true;
        }
        let before = Self::allocates(records, extent.versions.as_slice());
        self.scratch.clear();
        self.scratch.extend_from_slice(extent.versions.as_slice());
        act(records, &mut self.scratch, u64::from(range.count));
        let after = Self::allocates(records, &self.scratch);
        let gone = self.scratch.is_empty();
        if before != after || gone {
            let mapped = base.count(range);
            let new = u64::from(range.count) - mapped;
            match before {
                true => self.new_blocks -= new,
                false => self.hidden_blocks -= mapped,
            }
            match after {
                true => self.new_blocks += new,
                false if !gone => self.hidden_blocks += mapped,
                false => {}
            }
        }
        match Versions::from_slice(&self.scratch) {
            Some(versions) => extent.versions = versions,
            None => drop(entry.remove()),
        }
        true
    }

    /// Applies `act` to the versions of every stretch in `range`.
    pub fn change_range(
        &mut self,
        range: BlockRange,
        base: &BaseBits,
        records: &mut Records,
        act: impl FnMut(&mut Records, &mut Vec<RecordId>, u64),
    ) {
        self.change_range_where(range, base, records, |_| true, act);
    }

    /// The same where at least one stretch's versions are `wanted`; others stay as they are.
    fn change_range_where(
        &mut self,
        range: BlockRange,
        base: &BaseBits,
        records: &mut Records,
        wanted: impl Fn(&[RecordId]) -> bool,
        mut act: impl FnMut(&mut Records, &mut Vec<RecordId>, u64),
    ) {
        if self.change_exactly(range, base, records, &wanted, &mut act) {
            return;
        }
        let mut any = false;
        self.each(range, |_, versions| any |= wanted(versions));
        if !any {
            return;
        }
        self.split_at(range.first);
        self.split_at(range.end());
        let present: Vec<(u64, u32)> = self.map.range(range.first..range.end()).map(|(&f, e)| (f, e.count)).collect();
        for (first, count) in present {
            self.change_exactly(BlockRange::new(first, count), base, records, &wanted, &mut act);
        }
    }

    /// Drops what the newest settled version hides, in `range`.
    pub fn settle(&mut self, range: BlockRange, settled: OpId, base: &BaseBits, records: &mut Records) {
        self.change_range_where(
            range,
            base,
            records,
            |versions| versions.len() > 1,
            |records, versions, count| {
                prune(versions, settled, count, records);
            },
        );
    }

    /// Removes every version of `op` in `range`.
    pub fn undo(&mut self, range: BlockRange, op: OpId, base: &BaseBits, records: &mut Records) {
        self.change_range(range, base, records, |records, versions, count| {
            versions.retain(|&id| {
                let gone = records.of(id).op == op;
                if gone {
                    records.release(id, count);
                }
                !gone
            });
        });
    }

    /// Takes `id` out of the versions in `range`, where it still stands: the map has taken it over.
    pub fn drop_version(&mut self, id: RecordId, range: BlockRange, base: &BaseBits, records: &mut Records) {
        self.change_range(range, base, records, |records, versions, count| {
            if let Some(at) = versions.iter().position(|&v| v == id) {
                versions.remove(at);
                records.release(id, count);
            }
        });
    }

    /// Puts `new` in the place of `old` where that still stands in `range`: the same operation, stored elsewhere.
    pub fn replace(&mut self, old: RecordId, new: RecordId, range: BlockRange, base: &BaseBits, records: &mut Records) {
        self.change_range(range, base, records, |records, versions, count| {
            if let Some(at) = versions.iter().position(|&v| v == old) {
                versions[at] = new;
                records.of_mut(new).live += count;
                records.release(old, count);
            }
        });
    }

    /// Changes the map's bits in `range` and keeps the count of new blocks right.
    pub fn rebase(
        &mut self,
        range: BlockRange,
        base: &mut BaseBits,
        records: &Records,
        act: impl FnOnce(&mut BaseBits),
    ) {
        if let Some(extent) = self.map.get(&range.first).filter(|extent| extent.count == range.count) {
            let before = Self::weigh(base, records, range.first, extent);
            act(base);
            let after = Self::weigh(base, records, range.first, extent);
            return self.reweigh(before, after);
        }
        if self.is_clear(range) {
            return act(base);
        }
        self.split_at(range.first);
        self.split_at(range.end());
        let before = Self::sum(self.map.range(range.first..range.end()), base, records);
        act(base);
        let after = Self::sum(self.map.range(range.first..range.end()), base, records);
        self.reweigh(before, after);
    }

    fn reweigh(&mut self, before: (u64, u64), after: (u64, u64)) {
        self.new_blocks = self.new_blocks - before.0 + after.0;
        self.hidden_blocks = self.hidden_blocks - before.1 + after.1;
    }

    fn sum<'a>(extents: impl Iterator<Item = (&'a u64, &'a Extent)>, base: &BaseBits, records: &Records) -> (u64, u64) {
        let each = extents.map(|(&first, extent)| Self::weigh(base, records, first, extent));
        each.fold((0, 0), |sum, (new, hidden)| (sum.0 + new, sum.1 + hidden))
    }

    /// Drops everything.
    pub fn clear(&mut self, records: &mut Records) {
        for extent in std::mem::take(&mut self.map).into_values() {
            for &id in extent.versions.as_slice() {
                records.release(id, u64::from(extent.count));
            }
        }
        (self.new_blocks, self.hidden_blocks) = (0, 0);
    }

    /// Counts new and hidden blocks again; the invariants compare.
    pub fn recount(&self, base: &BaseBits, records: &Records) -> (u64, u64) {
        Self::sum(self.map.iter(), base, records)
    }
}

/// Drops the versions below the newest one at or below `settled`.
fn prune(versions: &mut Vec<RecordId>, settled: OpId, count: u64, records: &mut Records) {
    let Some(committed) = versions.iter().position(|&id| records.of(id).op <= settled) else {
        return;
    };
    for id in versions.drain(committed + 1..) {
        records.release(id, count);
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{Epoch, HostId, Incarnation};
    use proptest::prelude::*;

    use super::*;

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 1, host: HostId(1), incarnation: Incarnation(1) }, seq }
    }

    /// The slow oracle: per block, the list of (op, record) not pruned.
    #[derive(Default)]
    struct Oracle {
        blocks: BTreeMap<u64, Vec<(u64, RecordId)>>,
    }
    impl Oracle {
        fn prune(&mut self, settled: u64) {
            for versions in self.blocks.values_mut() {
                if let Some(at) = versions.iter().position(|v| v.0 <= settled) {
                    versions.truncate(at + 1);
                }
            }
            self.blocks.retain(|_, v| !v.is_empty());
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Put { first: u64, count: u32, data: bool },
        Late { back: u64, first: u64, count: u32 },
        Undo { back: u64 },
        Settle { back: u64 },
        Fold { first: u64, count: u32 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = (0u64..40, 1u32..12);
        prop_oneof![
            4 => (range.clone(), any::<bool>()).prop_map(|((first, count), data)| Step::Put { first, count, data }),
            1 => (1u64..6, range.clone()).prop_map(|(back, (first, count))| Step::Late { back, first, count }),
            1 => (0u64..5).prop_map(|back| Step::Undo { back }),
            1 => (0u64..8).prop_map(|back| Step::Settle { back }),
            1 => range.prop_map(|(first, count)| Step::Fold { first, count }),
        ]
    }

    proptest! {
        /// Goal: extents agree with a list per block after any history. Method: the same steps on both.
        #[test]
        fn extents_agree_with_a_list_per_block(steps in proptest::collection::vec(step(), 1..60)) {
            let (mut extents, mut records, mut base) = (Extents::default(), Records::default(), BaseBits::default());
            let mut oracle = Oracle::default();
            let (mut next, mut settled) = (10u64, 5u64);
            let put = |extents: &mut Extents, records: &mut Records, base: &BaseBits, oracle: &mut Oracle, seq: u64, settled: u64, first, count, data: bool| {
                let range = BlockRange::new(first, count);
                let body = if data {
                    Body::Data { place: Place::Log(0), crcs: vec![0; count as usize].into(), row_checks: RowChecks::default() }
                } else {
                    Body::Zero { keep_allocated: false }
                };
                let id = records.add(Record { component: ComponentId(1), op: op(seq), range, position: 0, body, live: 0, row: None }, Some(0));
                extents.insert(id, range, op(settled), base, records);
                for block in first..range.end() {
                    let versions = oracle.blocks.entry(block).or_default();
                    let at = versions.iter().position(|v| v.0 <= seq).unwrap_or(versions.len());
                    versions.insert(at, (seq, id));
                }
                oracle.prune(settled);
            };
            for step in steps {
                match step {
                    Step::Put { first, count, data } => {
                        next += 1;
                        put(&mut extents, &mut records, &base, &mut oracle, next, settled, first, count, data);
                    }
                    Step::Late { back, first, count } => {
                        let seq = next.saturating_sub(back).max(1);
                        put(&mut extents, &mut records, &base, &mut oracle, seq, settled, first, count, true);
                    }
                    Step::Undo { back } => {
                        let seq = next - back;
                        if seq > settled {
                            extents.undo(BlockRange::new(0, 100), op(seq), &base, &mut records);
                            oracle.blocks.values_mut().for_each(|v| v.retain(|x| x.0 != seq));
                            oracle.prune(settled);
                        }
                    }
                    Step::Settle { back } => {
                        settled = settled.max(next.saturating_sub(back));
                        extents.settle(BlockRange::new(0, 100), op(settled), &base, &mut records);
                        oracle.prune(settled);
                    }
                    Step::Fold { first, count } => {
                        for span in extents.spans(BlockRange::new(first, count)) {
                            if let Some(id) = span.versions.iter().copied().find(|&v| records.of(v).op <= op(settled)) {
                                let data = records.of(id).allocates();
                                extents.rebase(span.range, &mut base, &records, |b| b.set(span.range, data));
                                extents.drop_version(id, span.range, &base, &mut records);
                                for block in span.range.first..span.range.end() {
                                    oracle.blocks.get_mut(&block).unwrap().retain(|v| v.1 != id);
                                }
                            }
                        }
                        oracle.prune(settled);
                    }
                }
                let seen: BTreeMap<u64, Vec<RecordId>> = extents.all().flat_map(|span| {
                    (span.range.first..span.range.end()).map(move |b| (b, span.versions.clone()))
                }).collect();
                let want: BTreeMap<u64, Vec<RecordId>> =
                    oracle.blocks.iter().map(|(&b, v)| (b, v.iter().map(|x| x.1).collect())).collect();
                prop_assert_eq!(seen, want);
                prop_assert_eq!((extents.new_blocks(), extents.hidden_blocks()), extents.recount(&base, &records));
                let live: u64 = records.iter().map(|(_, r)| r.live).sum();
                prop_assert_eq!(live, oracle.blocks.values().map(|v| v.len() as u64).sum::<u64>());
            }
        }
    }
}
