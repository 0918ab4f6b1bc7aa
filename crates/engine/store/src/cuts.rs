//! The cuts of a component: moments that can still be read, and which blocks have history of them.
//!
//! Promises    what an operation replaces is kept for the newest cut below it, once
//!             a list that comes again, or late, changes nothing (I8)
//! Assumes     of a component that takes guests' writes: when a cut is made all operations up to its own are decided, and in the log
//!             before it; all later ones come after it
//! Memory      32 bytes for each MiB that has history of the newest cut; as much of older ones while the log has operations that ask
//!             for it
//! Not here    the entries themselves (`history.rs`), when they are made (`transaction.rs`)
//!
//! Whether a block has history of a cut is decided by membership, never by the operation of the map's entry: what a copy brought has a
//! fresh number.
//!
//! A cut that goes stays in the list without a snapshot, until nothing asks for its generation. Its entries still serve older
//! cuts: a view takes the first that is of its own generation or a later one. So nothing is moved from one cut to another.

use std::collections::BTreeMap;

use cairn_format::{
    history_rows::{Cut, CutsRow},
    rows::RegionBits,
};
use cairn_types::{BlockRange, OpId, RegionIndex, SnapshotId};

use crate::bitmap::BaseBits;

/// The cuts of one component.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// By generation, and by operation.
    list: Vec<Cut>,
    next_generation: u32,
    listed_at: OpId,
    /// Blocks that have history of a generation: of the newest, and of older ones that operations of the log may ask for.
    planes: BTreeMap<u32, BaseBits>,
    /// Of generations below it operations of the log ask nothing.
    first_asked: u32,
    /// A cut went since its history was swept last.
    is_unswept: bool,
    /// The metadata does not have this yet.
    pub dirty: bool,
}

impl Cuts {
    /// As the metadata has it, but for its planes.
    pub fn load(row: CutsRow) -> Self {
        let CutsRow { listed_at, next_generation, cuts: list, is_unswept } = row;
        Self { list, next_generation, listed_at, is_unswept, ..Self::default() }
    }
    /// For the metadata.
    pub fn row(&self) -> CutsRow {
        let Self { list, next_generation, listed_at, is_unswept, .. } = self;
        CutsRow {
            listed_at: *listed_at,
            next_generation: *next_generation,
            cuts: list.clone(),
            is_unswept: *is_unswept,
        }
    }
    /// Nothing is kept, and nothing was cut since the last snapshot went.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// Whether there ever was one.
    pub fn were_cut(&self) -> bool {
        self.next_generation > 0
    }
    /// Whether all blocks that have an entry of a generation are known.
    pub fn is_noted(&self, generation: u32) -> bool {
        self.list.last().is_some_and(|last| last.generation == generation && last.snapshot.is_some())
    }
    /// Those that have a snapshot, in their order.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = &Cut> {
        self.list.iter().filter(|cut| cut.snapshot.is_some())
    }
    /// The newest of all.
    pub fn newest(&self) -> Option<&Cut> {
        self.list.last()
    }
    /// The cut of a snapshot.
    pub fn of(&self, snapshot: SnapshotId) -> Option<&Cut> {
        self.list.iter().find(|cut| cut.snapshot == Some(snapshot))
    }
    /// The operation of the list that it has.
    pub fn listed_at(&self) -> OpId {
        self.listed_at
    }

    /// The cuts are these from the record at `position` on. False, and nothing changes, where the list is not newer than the one that it
    /// has.
    pub fn apply(&mut self, at: OpId, position: u64, cuts: &[(SnapshotId, OpId)]) -> bool {
        if at <= self.listed_at {
            return false;
        }
        self.listed_at = at;
        self.dirty = true;
        for cut in &mut self.list {
            if cut.snapshot.is_some_and(|snapshot| !cuts.iter().any(|(id, _)| *id == snapshot)) {
                cut.snapshot = None;
                self.is_unswept = true;
            }
        }
        for &(snapshot, op) in cuts {
            if self.of(snapshot).is_some() {
                continue;
            }
            // They ascend: a list that is made up must not make them not.
            let op = self.list.last().map_or(op, |last| op.max(last.op));
            let generation = self.next_generation;
            self.next_generation += 1;
            self.list.push(Cut { snapshot: Some(snapshot), generation, op, position });
        }
        if self.live().next().is_none() {
            self.list.clear();
            self.planes.clear();
        }
        true
    }

    /// The generation that what `op` replaces is kept for; none where nothing is.
    pub fn generation_below(&self, op: OpId) -> Option<u32> {
        // What comes so late that nobody knows any more what is kept: it is not kept twice.
        self.below(op).map(|cut| cut.generation).filter(|generation| *generation >= self.first_asked)
    }
    fn below(&self, op: OpId) -> Option<&Cut> {
        self.list[..self.list.partition_point(|cut| cut.op < op)].last()
    }
    /// Whether an operation of the log comes after a cut whose view should have it: no owner sends that, and it makes no history.
    pub fn is_late(&self, op: OpId, position: u64) -> bool {
        self.list[self.list.partition_point(|cut| cut.op < op)..].iter().any(|cut| cut.position < position)
    }
    /// How many cuts are below an operation: what is of fewer is folded first.
    pub fn count_below(&self, op: OpId) -> usize {
        self.list.partition_point(|cut| cut.op < op)
    }
    /// Whether a cut lies between two operations: the older one's state is the view of it.
    pub fn parts(&self, older: OpId, newer: OpId) -> bool {
        self.below(newer).is_some_and(|cut| cut.op >= older)
    }
    /// The same of cuts that have a snapshot.
    pub fn is_viewed(&self, older: OpId, newer: OpId) -> bool {
        self.live().any(|cut| older <= cut.op && cut.op < newer)
    }
    /// Whether a block has an entry of a generation that an operation of the log may ask for.
    pub fn has(&self, generation: u32, block: u64) -> bool {
        self.planes.get(&generation).is_some_and(|plane| plane.get(block))
    }
    /// How many of the blocks have such an entry, and are in `base`.
    pub fn count_in(&self, generation: u32, base: &BaseBits, range: BlockRange) -> u64 {
        let Some(plane) = self.planes.get(&generation).filter(|plane| plane.total() > 0) else { return 0 };
        plane.runs(range).into_iter().map(|run| base.count(run)).sum()
    }
    /// The block has such an entry from now on. Of a generation that nothing asks for any more nothing is noted.
    pub fn note(&mut self, generation: u32, range: BlockRange) {
        if generation >= self.first_asked && self.is_asked(generation, 0) {
            self.planes.entry(generation).or_default().set(range, true);
        }
    }
    /// The same of bits that the metadata has.
    pub fn load_plane(&mut self, generation: u32, region: RegionIndex, bits: RegionBits) {
        if self.is_asked(generation, 0) {
            self.planes.entry(generation).or_default().load(region, bits);
        }
    }
    /// What the metadata is to have of planes, by generation.
    pub fn planes(&self) -> impl Iterator<Item = (u32, &BaseBits)> {
        self.planes.iter().map(|(generation, plane)| (*generation, plane))
    }

    /// Whether an operation of a log that begins at `tail` may ask for history of a generation.
    fn is_asked(&self, generation: u32, tail: u64) -> bool {
        let at = self.list.partition_point(|cut| cut.generation < generation);
        let known = self.list.get(at).is_some_and(|cut| cut.generation == generation);
        known && self.list.get(at + 1).is_none_or(|next| next.position >= tail)
    }
    /// The log begins at `tail`: what only earlier operations asked for goes.
    pub fn forget_before(&mut self, tail: u64) {
        let Some(asked) = self.list.iter().find(|cut| self.is_asked(cut.generation, tail)) else { return };
        if asked.generation == self.first_asked {
            return;
        }
        let first = asked.generation;
        self.first_asked = first;
        self.planes = self.planes.split_off(&first);
        let before = self.list.len();
        self.list.retain(|cut| cut.generation >= first || cut.snapshot.is_some());
        self.dirty |= self.list.len() < before;
    }

    /// A cut went since history was swept last.
    pub fn is_unswept(&self) -> bool {
        self.is_unswept
    }
    /// All history was looked at, by the list of `listed_at`.
    pub fn swept(&mut self, listed_at: OpId) {
        if self.listed_at == listed_at {
            self.is_unswept = false;
            self.dirty = true;
        }
    }
}
