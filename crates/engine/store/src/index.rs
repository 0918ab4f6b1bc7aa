//! What is buffered in the log, by block: an extent map of versions per component.
//!
//! Promises    a block's versions are ordered by operation, newest first; below the newest settled one nothing is kept but what
//!             snapshots view, so every version that is still here is live (I6: superseded only by unsettled ones is live)
//! Assumes     callers keep device charges by the differences that [`Extents::new_blocks`], [`Extents::hidden_blocks`] and
//!             [`Extents::history_blocks`] show
//! Memory      about 50 bytes per extent and 150 per record, 4 per block beyond its fourth: some 200 for a lone 4 KiB write,
//!             5 bytes per block of a large one; one of parity 32 more, and 4 per block beyond its fourth
//! Not here    records (`records.rs`), what `settled` is (`component.rs`), where blocks stand after destage (`leaf.rs`)

use std::collections::{BTreeMap, btree_map::Entry};

use cairn_types::{BlockRange, Canary, OpId};

use crate::{
    bitmap::BaseBits,
    cuts::Cuts,
    records::{RecordId, Records},
};

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
    /// Entries that will become history when what is above them is destaged, and take space.
    history_blocks: u64,
    /// Where a version list is changed: kept for its memory.
    scratch: Vec<RecordId>,
}

/// What is below the index: it decides what a version adds to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Below<'a> {
    /// Which blocks the map holds.
    pub base: &'a BaseBits,
    /// Which moments can be read.
    pub cuts: &'a Cuts,
}

/// What an extent, or all of them, add to what the map holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Weight {
    new: u64,
    hidden: u64,
    history: u64,
}

impl Weight {
    fn plus(self, other: Self) -> Self {
        let (new, hidden) = (self.new + other.new, self.hidden + other.hidden);
        Self { new, hidden, history: self.history + other.history }
    }
    fn less(self, other: Self) -> Self {
        let (new, hidden) = (self.new - other.new, self.hidden - other.hidden);
        Self { new, hidden, history: self.history - other.history }
    }
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

    /// The first block, from one on, that has versions.
    pub fn next_from(&self, from: u64) -> Option<u64> {
        let before = self.map.range(..=from).next_back();
        let within = before.filter(|(first, extent)| from < **first + u64::from(extent.count)).map(|_| from);
        within.or_else(|| self.map.range(from..).next().map(|(first, _)| *first))
    }

    pub fn new_blocks(&self) -> u64 {
        self.new_blocks
    }

    pub fn hidden_blocks(&self) -> u64 {
        self.hidden_blocks
    }

    pub fn history_blocks(&self) -> u64 {
        self.history_blocks
    }

    /// No snapshot is left: nothing becomes history.
    pub fn forget_history(&mut self) {
        self.history_blocks = 0;
    }

    fn weight(&self) -> Weight {
        Weight { new: self.new_blocks, hidden: self.hidden_blocks, history: self.history_blocks }
    }

    fn set_weight(&mut self, weight: Weight) {
        (self.new_blocks, self.hidden_blocks, self.history_blocks) = (weight.new, weight.hidden, weight.history);
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
        self.set_weight(Weight::default());
        taken
    }

    /// Fills an empty index: runs of blocks that have one version each, ascending.
    /// The last word of one tells whether it takes space once folded.
    pub fn load(&mut self, runs: impl Iterator<Item = (u64, u32, RecordId, bool)>, base: &BaseBits) {
        assert!(self.map.is_empty(), "it is empty");
        let mut weight = Weight::default();
        let extent = |(first, count, id, allocates)| {
            let mapped = base.count(BlockRange::new(first, count));
            match allocates {
                true => weight.new += u64::from(count) - mapped,
                false => weight.hidden += mapped,
            }
            (first, Extent { count, versions: Versions::One(id) })
        };
        self.map = runs.map(extent).collect();
        self.set_weight(weight);
    }

    /// What versions add to the blocks of the map, what they hide of them, and what of them will become history.
    fn weigh(below: Below<'_>, records: &Records, range: BlockRange, versions: &[RecordId]) -> Weight {
        let mapped = below.base.count(range);
        let (new, hidden) = match Self::allocates(records, versions) {
            true => (u64::from(range.count) - mapped, 0),
            false => (0, mapped),
        };
        Weight { new, hidden, history: Self::weigh_history(below, records, range, mapped, versions) }
    }

    fn weigh_history(
        below: Below<'_>,
        records: &Records,
        range: BlockRange,
        mapped: u64,
        versions: &[RecordId],
    ) -> u64 {
        if below.cuts.is_empty() {
            return 0;
        }
        let mut history = 0;
        for pair in versions.windows(2) {
            let (newer, older) = (records.of(pair[0]), records.of(pair[1]));
            if older.allocates() && below.cuts.parts(older.cut_op(), newer.cut_op()) {
                history += u64::from(range.count);
            }
        }
        let last = versions.last().map(|id| records.of(*id)).filter(|last| mapped > 0 && !last.is_copy);
        if let Some(generation) = last.and_then(|last| below.cuts.generation_below(last.op)) {
            history += mapped - below.cuts.count_in(generation, below.base, range);
        }
        history
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
        below: Below<'_>,
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
            prune(versions, settled, below.cuts, count, records);
        };
        if self.change_exactly(range, below, records, |_| true, &mut put) {
            return met;
        }
        if self.is_clear(range) {
            self.insert_gap(id, range.first, range.count, below, records);
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
            self.insert_gap(id, first, count, below, records);
        }
        for (first, count) in present {
            self.change_exactly(BlockRange::new(first, count), below, records, |_| true, &mut put);
        }
        met
    }

    fn insert_gap(&mut self, id: RecordId, first: u64, count: u32, below: Below<'_>, records: &Records) {
        let more = Self::weigh(below, records, BlockRange::new(first, count), &[id]);
        self.set_weight(self.weight().plus(more));
        self.map.insert(first, Extent { count, versions: Versions::One(id) });
    }

    /// Changes the versions of the extent of just these blocks where they are `wanted`; it goes when none are left. False
    /// where blocks lie otherwise: of random small writes that is rare, so this one lookup comes before any search.
    fn change_exactly(
        &mut self,
        range: BlockRange,
        below: Below<'_>,
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
        let (before, cut) = (Self::allocates(records, extent.versions.as_slice()), !below.cuts.is_empty());
        let history = |records: &Records, versions: &[RecordId]| match cut {
            true => Self::weigh_history(below, records, range, below.base.count(range), versions),
            false => 0,
        };
        let history_before = history(records, extent.versions.as_slice());
        self.scratch.clear();
        self.scratch.extend_from_slice(extent.versions.as_slice());
        act(records, &mut self.scratch, u64::from(range.count));
        let after = Self::allocates(records, &self.scratch);
        let gone = self.scratch.is_empty();
        self.history_blocks = self.history_blocks + history(records, &self.scratch) - history_before;
        if before != after || gone {
            let mapped = below.base.count(range);
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
        below: Below<'_>,
        records: &mut Records,
        act: impl FnMut(&mut Records, &mut Vec<RecordId>, u64),
    ) {
        self.change_range_where(range, below, records, |_| true, act);
    }

    /// The same where at least one stretch's versions are `wanted`; others stay as they are.
    fn change_range_where(
        &mut self,
        range: BlockRange,
        below: Below<'_>,
        records: &mut Records,
        wanted: impl Fn(&[RecordId]) -> bool,
        mut act: impl FnMut(&mut Records, &mut Vec<RecordId>, u64),
    ) {
        if self.change_exactly(range, below, records, &wanted, &mut act) {
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
            self.change_exactly(BlockRange::new(first, count), below, records, &wanted, &mut act);
        }
    }

    /// Drops what the newest settled version hides, in `range`.
    pub fn settle(&mut self, range: BlockRange, settled: OpId, below: Below<'_>, records: &mut Records) {
        self.change_range_where(
            range,
            below,
            records,
            |versions| versions.len() > 1,
            |records, versions, count| {
                prune(versions, settled, below.cuts, count, records);
            },
        );
    }

    /// Removes every version of `op` in `range`.
    pub fn undo(&mut self, range: BlockRange, op: OpId, below: Below<'_>, records: &mut Records) {
        self.change_range(range, below, records, |records, versions, count| {
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
    pub fn drop_version(&mut self, id: RecordId, range: BlockRange, below: Below<'_>, records: &mut Records) {
        self.change_range(range, below, records, |records, versions, count| {
            if let Some(at) = versions.iter().position(|&v| v == id) {
                versions.remove(at);
                records.release(id, count);
            }
        });
    }

    /// Puts `new` in the place of `old` where that still stands in `range`: the same operation, stored elsewhere.
    pub fn replace(
        &mut self,
        old: RecordId,
        new: RecordId,
        range: BlockRange,
        below: Below<'_>,
        records: &mut Records,
    ) {
        self.change_range(range, below, records, |records, versions, count| {
            if let Some(at) = versions.iter().position(|&v| v == old) {
                versions[at] = new;
                records.of_mut(new).live += count;
                records.release(old, count);
            }
        });
    }

    /// Changes what is below the index in `range` and keeps the counts right.
    pub fn rebase(
        &mut self,
        range: BlockRange,
        (base, cuts): (&mut BaseBits, &mut Cuts),
        records: &Records,
        act: impl FnOnce(&mut BaseBits, &mut Cuts),
    ) {
        if let Some(extent) = self.map.get(&range.first).filter(|extent| extent.count == range.count) {
            let versions = extent.versions.as_slice();
            let before = Self::weigh(Below { base, cuts }, records, range, versions);
            act(base, cuts);
            let after = Self::weigh(Below { base, cuts }, records, range, versions);
            return self.set_weight(self.weight().less(before).plus(after));
        }
        if self.is_clear(range) {
            return act(base, cuts);
        }
        self.split_at(range.first);
        self.split_at(range.end());
        let before = Self::sum(self.map.range(range.first..range.end()), Below { base, cuts }, records);
        act(base, cuts);
        let after = Self::sum(self.map.range(range.first..range.end()), Below { base, cuts }, records);
        self.set_weight(self.weight().less(before).plus(after));
    }

    fn sum<'a>(extents: impl Iterator<Item = (&'a u64, &'a Extent)>, below: Below<'_>, records: &Records) -> Weight {
        let weigh = |(&first, extent): (&u64, &Extent)| {
            Self::weigh(below, records, BlockRange::new(first, extent.count), extent.versions.as_slice())
        };
        extents.map(weigh).fold(Weight::default(), Weight::plus)
    }

    /// Drops everything.
    pub fn clear(&mut self, records: &mut Records) {
        for extent in std::mem::take(&mut self.map).into_values() {
            for &id in extent.versions.as_slice() {
                records.release(id, u64::from(extent.count));
            }
        }
        self.set_weight(Weight::default());
    }

    /// Whether new, hidden and history blocks are what a recount gives.
    pub fn agrees(&self, below: Below<'_>, records: &Records) -> bool {
        Self::sum(self.map.iter(), below, records) == self.weight()
    }
}

/// Drops the versions below the newest one at or below `settled`, but for what a snapshot views.
fn prune(versions: &mut Vec<RecordId>, settled: OpId, cuts: &Cuts, count: u64, records: &mut Records) {
    let Some(committed) = versions.iter().position(|&id| records.of(id).op <= settled) else {
        return;
    };
    if cuts.is_empty() {
        for id in versions.drain(committed + 1..) {
            records.release(id, count);
        }
        return;
    }
    let mut newer = records.of(versions[committed]).cut_op();
    let mut at = committed + 1;
    while at < versions.len() {
        let op = records.of(versions[at]).cut_op();
        if cuts.is_viewed(op, newer) && !Canary::ViewedVersionDropped.sings() {
            (newer, at) = (op, at + 1);
        } else {
            records.release(versions.remove(at), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{ComponentId, Epoch, HostId, Incarnation};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        records::{Body, Place, Record},
        row_checks::RowChecks,
    };

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
            let mut cuts = Cuts::default();
            let mut oracle = Oracle::default();
            let (mut next, mut settled) = (10u64, 5u64);
            let put = |extents: &mut Extents, records: &mut Records, base: &BaseBits, oracle: &mut Oracle, seq: u64, settled: u64, first, count, data: bool| {
                let range = BlockRange::new(first, count);
                let body = if data {
                    Body::Data { place: Place::Log(0), crcs: vec![0; count as usize].into(), row_checks: RowChecks::default() }
                } else {
                    Body::Zero { keep_allocated: false }
                };
                let id = records.add(Record { component: ComponentId(1), op: op(seq), range, position: 0, body, is_copy: false, live: 0, row: None }, Some(0));
                extents.insert(id, range, op(settled), Below { base, cuts: &Cuts::default() }, records);
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
                            extents.undo(BlockRange::new(0, 100), op(seq), Below { base: &base, cuts: &cuts }, &mut records);
                            oracle.blocks.values_mut().for_each(|v| v.retain(|x| x.0 != seq));
                            oracle.prune(settled);
                        }
                    }
                    Step::Settle { back } => {
                        settled = settled.max(next.saturating_sub(back));
                        extents.settle(BlockRange::new(0, 100), op(settled), Below { base: &base, cuts: &cuts }, &mut records);
                        oracle.prune(settled);
                    }
                    Step::Fold { first, count } => {
                        for span in extents.spans(BlockRange::new(first, count)) {
                            if let Some(id) = span.versions.iter().copied().find(|&v| records.of(v).op <= op(settled)) {
                                let data = records.of(id).allocates();
                                extents.rebase(span.range, (&mut base, &mut cuts), &records, |b, _| b.set(span.range, data));
                                extents.drop_version(id, span.range, Below { base: &base, cuts: &cuts }, &mut records);
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
                let agrees = extents.agrees(Below { base: &base, cuts: &cuts }, &records);
                prop_assert!(agrees);
                let live: u64 = records.iter().map(|(_, r)| r.live).sum();
                prop_assert_eq!(live, oracle.blocks.values().map(|v| v.len() as u64).sum::<u64>());
            }
        }
    }
}
