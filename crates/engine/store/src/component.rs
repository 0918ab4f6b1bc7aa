//! The state of one component: what is settled, what is not, what was undone, which regions were touched, by whom.
//!
//! Promises    applying the records of a log, from any point at or before the one that the state stands for, gives the
//!             state of its end (I8): marks only rise, and an undone operation stays undone while the log may hold it
//! Not here    where records come from (`append.rs`, `recovery.rs`), what becomes of them (`destage.rs`)

use std::collections::BTreeMap;

use cairn_types::{BlockRange, ComponentId, ObjectId, OpId, RegionIndex, SnapshotId, UnsettledOp};
use smallvec::SmallVec;

use crate::{
    bitmap::BaseBits,
    cuts::Cuts,
    deferred::{Deferred, choose},
    error::{StoreError, StoreErrorKind},
    index::{Below, Extents, Met},
    marks::{AT_ONCE, IN_METADATA, Marks, RegionMark},
    outcomes::Outcomes,
    records::{Record, RecordId, Records},
    window::{Origin, Window},
};

/// Undone operations that a component remembers past `settled`, at most.
const UNDONE_KEPT_MAX: usize = 1024;

/// A part of a component, by where the newest state of its blocks is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newest {
    /// By this record of the index.
    Version(RecordId, BlockRange),
    /// By the map alone.
    Mapped(BlockRange),
    /// By neither: it holds nothing.
    Hole(BlockRange),
}

/// What tells what some blocks held at a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtCut {
    /// This record of the index.
    Version(RecordId, BlockRange),
    /// History. Where that has nothing: this copy of the index, or the map.
    History(BlockRange, Option<RecordId>),
}

/// Runs that follow on, alternating.
pub(crate) fn joined(parts: impl Iterator<Item = (BlockRange, bool)>) -> Vec<(BlockRange, bool)> {
    let mut out: Vec<(BlockRange, bool)> = Vec::new();
    for (part, value) in parts {
        match out.last_mut() {
            Some((last, have)) if *have == value => last.count += part.count,
            _ => out.push((part, value)),
        }
    }
    out
}

/// What the store knows of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentInfo {
    /// Its id.
    pub id: ComponentId,
    /// The object that it belongs to.
    pub object: ObjectId,
    /// Its address space.
    pub size_blocks: u64,
    /// Blocks set aside for it.
    pub reserved_blocks: u64,
    /// Blocks that have data, in the capacity tier or on the way to it.
    pub allocated_blocks: u64,
    /// Blocks that are kept of its past, in the capacity tier or on the way to it: for snapshots, or for some that were deleted.
    pub history_blocks: u64,
    /// Its capacity device failed: its data is gone.
    pub lost: bool,
    /// The capacity device that it lives on.
    pub device: u8,
}

/// One component.
#[derive(Debug)]
pub(crate) struct Component {
    pub id: ComponentId,
    pub object: ObjectId,
    pub size_blocks: u64,
    pub reserved_blocks: u64,
    pub device: u8,
    pub lost: bool,
    pub settled: OpId,
    /// The last operation at or below `settled` that came as a write and stands, as far as this process or the log that it found knows:
    /// other copies that take the same writes have it too.
    pub last_written: OpId,
    /// The same of those operations on rows that concerned the member of each index: others that they concerned have them too. As long as the
    /// highest index needs.
    pub last_written_with: Vec<OpId>,
    /// Undone operations, with the log position of the record that undid them.
    pub undone: BTreeMap<OpId, u64>,
    pub window: Window,
    pub outcomes: Outcomes,
    pub regions: Marks,
    pub base: BaseBits,
    pub extents: Extents,
    pub cuts: Cuts,
    /// Entries of history that take space, in the capacity tier.
    pub history_blocks: u64,
    /// Records of the log that is read back. None in use.
    pub deferred: Vec<Deferred>,
    /// Blocks that queued writes may add.
    pub queued_blocks: u64,
    /// Blocks that they may make history of.
    pub queued_history: u64,
    /// Regions whose marks the metadata is behind of, by when they are due. One that was raised again is listed there as well, and
    /// counts there.
    dirty_regions: BTreeMap<u64, Vec<RegionIndex>>,
    pub dirty: bool,
}

impl Component {
    pub fn new(id: ComponentId, object: ObjectId, size_blocks: u64, reserved_blocks: u64, device: u8) -> Self {
        Self {
            id,
            object,
            size_blocks,
            reserved_blocks,
            device,
            lost: false,
            settled: OpId::ZERO,
            last_written: OpId::ZERO,
            last_written_with: Vec::new(),
            undone: BTreeMap::new(),
            window: Window::default(),
            outcomes: Outcomes::default(),
            regions: Marks::default(),
            base: BaseBits::default(),
            extents: Extents::default(),
            cuts: Cuts::default(),
            history_blocks: 0,
            deferred: Vec::new(),
            queued_blocks: 0,
            queued_history: 0,
            dirty_regions: BTreeMap::new(),
            dirty: true,
        }
    }

    pub fn info(&self) -> ComponentInfo {
        ComponentInfo {
            id: self.id,
            object: self.object,
            size_blocks: self.size_blocks,
            reserved_blocks: self.reserved_blocks,
            allocated_blocks: self.allocated() - self.extents.hidden_blocks(),
            history_blocks: self.history(),
            lost: self.lost,
            device: self.device,
        }
    }

    /// Refuses blocks that it does not have.
    pub fn within(&self, range: BlockRange) -> Result<(), StoreError> {
        if range.first.checked_add(u64::from(range.count)).is_some_and(|end| end <= self.size_blocks) {
            return Ok(());
        }
        let BlockRange { first, count } = range;
        let text = format!("blocks {first}..+{count} are not within the component's {} blocks", self.size_blocks);
        Err(StoreError::new(StoreErrorKind::Refused, text))
    }

    /// The parts of a range, in order and without a gap, by where the newest state of their blocks is told: what a read returns.
    pub fn newest(&self, range: BlockRange) -> Vec<Newest> {
        let mut parts = Vec::new();
        let mut at = range.first;
        self.extents.each(range, |own, versions| {
            self.below_index(at, own.first, &mut parts);
            parts.push(Newest::Version(versions[0], own));
            at = own.end();
        });
        self.below_index(at, range.end(), &mut parts);
        parts
    }

    /// The same of the newest state at or below `op`. A copy hides what is below it, as it brought what the blocks held before any later
    /// write: what changed since a cut comes as history of its own.
    pub fn at_cut(&self, range: BlockRange, op: OpId, records: &Records) -> Vec<AtCut> {
        let (mut parts, mut at) = (Vec::new(), range.first);
        let below = |from: u64, to: u64, parts: &mut Vec<AtCut>| {
            if from < to {
                parts.push(AtCut::History(BlockRange::new(from, (to - from) as u32), None));
            }
        };
        self.extents.each(range, |own, versions| {
            if let Some(&version) = versions.iter().find(|id| records.of(**id).cut_op() <= op) {
                below(at, own.first, &mut parts);
                parts.push(match records.of(version).op <= op {
                    true => AtCut::Version(version, own),
                    false => AtCut::History(own, Some(version)),
                });
                at = own.end();
            }
        });
        below(at, range.end(), &mut parts);
        parts
    }

    fn below_index(&self, from: u64, to: u64, parts: &mut Vec<Newest>) {
        let hole = |from: u64, to: u64, parts: &mut Vec<Newest>| {
            if from < to {
                parts.push(Newest::Hole(BlockRange::new(from, (to - from) as u32)));
            }
        };
        if from == to {
            return;
        }
        let mut at = from;
        for run in self.base.runs(BlockRange::new(from, (to - from) as u32)) {
            hole(at, run.first, parts);
            parts.push(Newest::Mapped(run));
            at = run.end();
        }
        hole(at, to, parts);
    }

    /// Blocks with data, in the map or on the way to it.
    pub fn allocated(&self) -> u64 {
        self.base.total() + self.extents.new_blocks()
    }

    /// Blocks that history takes, or will once what is buffered is destaged.
    pub fn history(&self) -> u64 {
        self.history_blocks + self.extents.history_blocks() + self.queued_history
    }

    /// What is below its index.
    pub fn below(&self) -> Below<'_> {
        Below { base: &self.base, cuts: &self.cuts }
    }

    /// Blocks that its device must keep for it: what it has, what is queued, and what is reserved beyond that.
    pub fn charge(&self) -> u64 {
        if self.lost {
            return 0;
        }
        (self.allocated() + self.queued_blocks).max(self.reserved_blocks) + self.history()
    }

    /// Blocks that are set aside for it, whether it has them or not.
    pub fn set_aside(&self) -> u64 {
        if self.lost { 0 } else { self.reserved_blocks }
    }

    /// What will be charged once destage has taken out of the map what trims hide. An undo may bring it back until they settle.
    pub fn used(&self) -> u64 {
        if self.lost {
            return 0;
        }
        (self.allocated() - self.extents.hidden_blocks() + self.queued_blocks).max(self.reserved_blocks)
            + self.history()
    }

    /// Blocks of `range` that take space at the newest cut, and that nothing has changed since: a change makes history of them.
    pub fn blocks_to_keep(&self, range: BlockRange, records: &Records) -> u64 {
        let Some(newest) = self.cuts.newest() else { return 0 };
        let unkept =
            |range: BlockRange| self.base.count(range) - self.cuts.count_in(newest.generation, &self.base, range);
        let mut blocks = unkept(range);
        self.extents.each(range, |part, versions| {
            let is_later = |&id: &RecordId| records.of(id).cut_op() > newest.op;
            let at_cut = versions.iter().find(|&&id| records.of(id).cut_op() <= newest.op);
            blocks -= unkept(part);
            blocks += match (versions.iter().any(is_later), at_cut) {
                (true, _) => 0,
                (false, Some(&at_cut)) if records.of(at_cut).allocates() => u64::from(part.count),
                (false, Some(_)) => 0,
                (false, None) => unkept(part),
            };
        });
        blocks
    }

    /// Blocks of `range` that have no space yet.
    pub fn blocks_to_allocate(&self, range: BlockRange, records: &Records) -> u64 {
        let missing = u64::from(range.count) - self.base.count(range);
        if missing == 0 {
            return 0;
        }
        let mut buffered = 0;
        self.extents.each(range, |part, versions| {
            if versions.iter().any(|&id| records.of(id).allocates()) {
                buffered += u64::from(part.count) - self.base.count(part);
            }
        });
        missing - buffered
    }

    pub fn is_undone(&self, op: OpId) -> bool {
        self.undone.contains_key(&op)
    }

    /// Puts one run of an operation into the index. `log_segment` is none for a pending row of the metadata.
    pub fn put(&mut self, record: Record, origin: Origin, log_segment: Option<u64>, records: &mut Records) -> RecordId {
        let Origin { client, members, written } = origin;
        let (op, range) = (record.op, record.range);
        let id = records.add(record, log_segment);
        if op > self.settled {
            let info = UnsettledOp { op, range, client, members };
            let entry = self.window.entry(info);
            let first = entry.info.range.first.min(range.first);
            let end = entry.info.range.end().max(range.end());
            entry.info.range = BlockRange::new(first, (end - first) as u32);
            entry.ranges.push(range);
            entry.written |= written;
            // A copy of that number does not say which.
            entry.info.members |= members;
        } else if written {
            self.took_write(op, members);
        }
        match records.defers {
            true => {
                records.of_mut(id).live = u64::from(range.count);
                self.deferred.push(Deferred::new(id, records.of(id)));
            }
            false => self.enter(id, range, records),
        }
        self.touch(range, op, log_segment.map_or(AT_ONCE, |segment| segment + 1));
        id
    }

    /// A write stands, and is settled.
    fn took_write(&mut self, op: OpId, members: u16) {
        self.last_written = self.last_written.max(op);
        let indexes = (u16::BITS - members.leading_zeros()) as usize;
        if self.last_written_with.len() < indexes {
            self.last_written_with.resize(indexes, OpId::ZERO);
        }
        let concerned = (0..)
            .zip(&mut self.last_written_with)
            .filter(|(index, _)| members.checked_shr(*index).unwrap_or(0) & 1 == 1);
        concerned.for_each(|(_, last)| *last = op.max(*last));
    }

    /// Whether an operation above `op` that is not settled has changed blocks of `range`.
    pub fn is_late(&self, op: OpId, range: BlockRange) -> bool {
        self.window.overlaps_after(op, range)
    }

    /// Puts a run of a record into the index.
    pub fn enter(&mut self, id: RecordId, range: BlockRange, records: &mut Records) {
        let op = records.of(id).op;
        let below = Below { base: &self.base, cuts: &self.cuts };
        let met = self.extents.insert(id, range, self.settled, below, records);
        if met == Met::Newer {
            // It may stand under any of these.
            self.window.after(op).for_each(|later| later.alone = false);
        }
        if met != Met::None
            && let Some(own) = self.window.get_mut(op)
        {
            own.alone = false;
        }
    }

    /// Puts what was deferred into the index.
    pub fn build_index(&mut self, records: &mut Records) {
        let mut settled = std::mem::take(&mut self.deferred);
        if settled.is_empty() {
            return;
        }
        let mut others: Vec<RecordId> = Vec::new();
        settled.retain(|one| {
            let op = records.of(one.id).op;
            if self.is_undone(op) {
                records.release(one.id, u64::from(one.count()));
                return false;
            }
            if op > self.settled {
                others.push(one.id);
            }
            op <= self.settled
        });
        settled.sort_unstable_by_key(|one| (one.first, one.count(), one.id));
        let mixed = match self.cuts.is_empty() {
            true => choose(&mut settled, records),
            // Snapshots view what lies below: one after the other, as they came.
            false => {
                let mut mixed: Vec<RecordId> = std::mem::take(&mut settled).into_iter().map(|one| one.id).collect();
                mixed.sort_unstable_by_key(|id| (records.of(*id).op, *id));
                mixed
            }
        };
        // Rows of the metadata that are not folded yet are in the index already.
        let before = self.extents.take(records);
        let runs = settled.into_iter().map(|one| (one.first, one.count(), one.id, one.allocates()));
        self.extents.load(runs, &self.base);
        // One that is hidden in its first part is there for the others.
        before.iter().for_each(|(id, _)| records.of_mut(*id).live += 1);
        for &(id, range) in &before {
            self.enter(id, range, records);
        }
        before.into_iter().for_each(|(id, _)| records.release(id, 1));
        for id in mixed.into_iter().chain(others) {
            let record = records.of_mut(id);
            record.live = 0;
            let range = record.range;
            self.enter(id, range, records);
        }
    }

    /// Nothing of the log is in the index any more.
    pub fn clear_index(&mut self, records: &mut Records) {
        self.extents.clear(records);
        let deferred = std::mem::take(&mut self.deferred);
        deferred.into_iter().for_each(|one| records.release(one.id, u64::from(one.count())));
    }

    /// Raises the mark of every region of `range` to `op`.
    fn touch(&mut self, range: BlockRange, op: OpId, due: u64) {
        for region in range.regions() {
            if self.regions.raise(region, op, due) {
                self.dirty_regions.entry(due).or_default().push(region);
            }
        }
    }

    /// Whether there may be such: regions whose marks the log from this segment on does not tell.
    pub fn has_dirty_regions(&self, tail_segment: u64) -> bool {
        self.dirty_regions.first_key_value().is_some_and(|(due, _)| *due <= tail_segment)
    }

    /// The regions whose marks the log from this segment on does not tell, and the marks; they count as written from now on. The others
    /// replay would raise again: where the same regions are written all the time, no mark need be written. About `at_most`: what is left
    /// comes with the next call.
    pub fn take_dirty_regions(&mut self, tail_segment: u64, at_most: usize) -> Vec<(RegionIndex, OpId)> {
        let (mut taken, mut looked_at) = (Vec::new(), 0);
        while looked_at < at_most
            && let Some(mut first) = self.dirty_regions.first_entry().filter(|first| *first.key() <= tail_segment)
        {
            let listed = first.get_mut();
            let some = listed.split_off(listed.len().saturating_sub(at_most - looked_at));
            if listed.is_empty() {
                first.remove();
            }
            looked_at += some.len();
            for region in some {
                let mark = self.regions.get(region).expect("a dirty region is known");
                // Neither raised again since, nor taken already.
                if mark.due <= tail_segment {
                    self.regions.put(region, RegionMark { due: IN_METADATA, ..mark });
                    taken.push((region, mark.op));
                }
            }
        }
        taken
    }

    pub fn settle(&mut self, upto: OpId, records: &mut Records) {
        if upto <= self.settled {
            return;
        }
        self.settled = upto;
        self.dirty = true;
        while let Some(first) = self.window.pop_upto(upto) {
            if first.written {
                self.took_write(first.info.op, first.info.members);
            }
            for range in first.ranges.into_iter().filter(|_| !first.alone) {
                self.extents.settle(range, upto, Below { base: &self.base, cuts: &self.cuts }, records);
            }
        }
    }

    /// Takes `op` back and returns the ranges whose contents changed; none when it is settled: that is decided.
    pub fn undo(&mut self, op: OpId, position: u64, records: &mut Records) -> Option<SmallVec<[BlockRange; 1]>> {
        if self.is_undone(op) {
            return Some(SmallVec::new());
        }
        if op <= self.settled {
            return None;
        }
        self.dirty = true;
        self.undone.insert(op, position);
        let Some(unsettled) = self.window.remove(op) else {
            return Some(SmallVec::new());
        };
        for &range in &unsettled.ranges {
            self.extents.undo(range, op, Below { base: &self.base, cuts: &self.cuts }, records);
            // Once the metadata knows that it was undone, replay does not raise its marks any more, and they never fall.
            for region in range.regions() {
                let mark = self.regions.get(region).expect("the operation touched it");
                self.regions.put(region, RegionMark { due: AT_ONCE, ..mark });
                self.dirty_regions.entry(AT_ONCE).or_default().push(region);
            }
        }
        Some(unsettled.ranges)
    }

    /// Forgets old undone operations whose write the log cannot hold any more: all before `tail`.
    pub fn trim_undone(&mut self, tail: u64) {
        let excess = self.undone.len().saturating_sub(UNDONE_KEPT_MAX);
        let settled = self.settled;
        let old: Vec<OpId> = self
            .undone
            .iter()
            .filter(|(op, position)| **op <= settled && **position < tail)
            .map(|(op, _)| *op)
            .take(excess)
            .collect();
        for op in old {
            self.undone.remove(&op);
        }
    }

    /// The moments that can be read are these. Gives whether anything changed: an older list changes nothing.
    pub fn cut(&mut self, at: OpId, position: u64, cuts: &[(SnapshotId, OpId)]) -> bool {
        let changes = self.cuts.apply(at, position, cuts);
        if self.cuts.is_empty() {
            self.extents.forget_history();
        }
        changes
    }

    /// The device is gone: nothing of it can be read again.
    pub fn lose(&mut self, records: &mut Records) {
        self.lost = true;
        self.dirty = true;
        self.clear_index(records);
        self.window.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cairn_types::{ClientTag, Epoch, HostId, Incarnation};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        records::{Body, Place},
        row_checks::RowChecks,
    };

    const WRITTEN: Origin = Origin { client: ClientTag { session: 0, number: 0 }, members: 0, written: true };

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 1, host: HostId(1), incarnation: Incarnation(1) }, seq }
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// An operation: the next one, or `late` ones before it.
        Put {
            late: u64,
            first: u64,
            count: u32,
        },
        Settle {
            back: u64,
        },
        Undo {
            back: u64,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        let late = prop_oneof![3 => Just(0u64), 1 => 1u64..6];
        // Many are of a few places and one size, as those of a disk are.
        let range = prop_oneof![1 => (0u64..8).prop_map(|at| (at * 3, 3)), 1 => (0u64..24, 1u32..6)];
        prop_oneof![
            5 => (late, range).prop_map(|(late, (first, count))| Step::Put { late, first, count }),
            2 => (0u64..6).prop_map(|back| Step::Settle { back }),
            1 => (0u64..4).prop_map(|back| Step::Undo { back }),
        ]
    }

    proptest! {
        /// Goal: what is asked of the index when operations settle is enough: nothing below the newest settled version stays.
        /// Method: any order of operations, settling and undoing; after each, an index that is asked about all blocks has nothing
        /// more to drop.
        #[test]
        fn nothing_stays_below_what_is_settled(steps in proptest::collection::vec(step(), 1..60)) {
            let mut component = Component::new(ComponentId(1), ObjectId(1), 100, 0, 0);
            let mut records = Records::default();
            let (mut next, mut seen) = (10u64, BTreeSet::new());
            for step in steps {
                match step {
                    Step::Put { late, first, count } => {
                        next += u64::from(late == 0);
                        let op = op(next - late);
                        // Each operation comes once; what was undone is not put.
                        if seen.insert(op) && !component.is_undone(op) {
                            let range = BlockRange::new(first, count);
                            let crcs = std::iter::repeat_n(0, count as usize).collect();
                            let body = Body::Data { place: Place::Log(0), crcs, row_checks: RowChecks::default() };
                            let record = Record { component: component.id, op, range, position: 0, body, is_copy: false, live: 0, row: None };
                            component.put(record, WRITTEN, Some(0), &mut records);
                        }
                    }
                    Step::Settle { back } => component.settle(op(next - back), &mut records),
                    Step::Undo { back } => drop(component.undo(op(next - back), 0, &mut records)),
                }
                let kept = component.extents.all().map(|span| (span.range, span.versions)).collect::<Vec<_>>();
                component.extents.settle(BlockRange::new(0, 100), component.settled, Below { base: &component.base, cuts: &component.cuts }, &mut records);
                let least = component.extents.all().map(|span| (span.range, span.versions)).collect::<Vec<_>>();
                prop_assert_eq!(kept, least);
            }
        }
    }

    /// A component and its records. From step `defers_from` on they are read back, those before are rows of the metadata.
    fn run(steps: &[Step], defers_from: usize) -> (Component, Records) {
        let mut component = Component::new(ComponentId(1), ObjectId(1), 100, 0, 0);
        let mut records = Records::default();
        let (mut next, mut seen) = (10u64, BTreeSet::new());
        for (at, step) in steps.iter().enumerate() {
            records.defers = at >= defers_from;
            match *step {
                Step::Put { late, first, count } => {
                    next += u64::from(late == 0);
                    let op = op(next - late);
                    if seen.insert(op) && !component.is_undone(op) {
                        let range = BlockRange::new(first, count);
                        let crcs = std::iter::repeat_n(0, count as usize).collect();
                        let body = match op.seq % 5 {
                            0 => Body::Zero { keep_allocated: false },
                            _ => Body::Data { place: Place::Log(0), crcs, row_checks: RowChecks::default() },
                        };
                        let record = Record {
                            component: component.id,
                            op,
                            range,
                            position: 0,
                            body,
                            is_copy: false,
                            live: 0,
                            row: None,
                        };
                        component.put(record, WRITTEN, Some(0), &mut records);
                    }
                }
                Step::Settle { back } => component.settle(op(next - back), &mut records),
                Step::Undo { back } => drop(component.undo(op(next - back), 0, &mut records)),
            }
        }
        records.defers = false;
        component.build_index(&mut records);
        (component, records)
    }

    /// What the index has, by operations.
    fn told(component: &Component, records: &Records) -> Vec<(u64, Vec<OpId>)> {
        let spans = component.extents.all();
        let of = |id: &RecordId| records.of(*id).op;
        spans
            .flat_map(|span| {
                let ops: Vec<OpId> = span.versions.iter().map(of).collect();
                (span.range.first..span.range.end()).map(move |block| (block, ops.clone()))
            })
            .collect()
    }

    proptest! {
        /// Goal: an index that is built at the end is the one that was kept up all the time. Method: any order of operations, late ones too,
        /// settling and undoing; what stood there before; blocks that the map holds. Sums and records agree as well, and all that follows.
        #[test]
        fn built_at_the_end_it_is_as_if_kept_up(
            steps in proptest::collection::vec(step(), 1..80),
            defers_from in 0usize..40,
            more in proptest::collection::vec(step(), 0..20),
        ) {
            let (kept, kept_records) = run(&steps, usize::MAX);
            let (built, built_records) = run(&steps, defers_from);
            prop_assert_eq!(told(&kept, &kept_records), told(&built, &built_records));
            prop_assert_eq!(kept.extents.new_blocks(), built.extents.new_blocks());
            prop_assert!(built.extents.agrees(built.below(), &built_records));
            prop_assert_eq!(kept_records.len(), built_records.len());
            let (mut kept, mut kept_records, mut built, mut built_records) = (kept, kept_records, built, built_records);
            // Nothing that settles is passed over because something under it was not seen.
            for step in more {
                if let Step::Settle { back } | Step::Undo { back } = step {
                    let upto = op(100 - back);
                    kept.settle(upto, &mut kept_records);
                    built.settle(upto, &mut built_records);
                }
            }
            prop_assert_eq!(told(&kept, &kept_records), told(&built, &built_records));
        }
    }
}
