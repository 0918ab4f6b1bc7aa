//! The records of the log that the index names, and pending rows: where the blocks of an operation stand.
//!
//! Promises    an id is not used again while a round may refer to it
//! Memory      about 150 bytes a record, 4 per block beyond its fourth
//! Not here    which of them a block has (`index.rs`)

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
};

use cairn_types::{BlockRange, ComponentId, Crcs, OpId};

use crate::{chunked::Chunked, free_ids::FreeIds, leaf::Spot, pending_number::PendingNumber, row_checks::RowChecks};

/// Names a record while it is in the table; reused after.
pub(crate) type RecordId = u32;

/// Where the blocks of a record stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the log, back to back from this position.
    Log(u64),
    /// In the capacity tier, a spot per block, not folded into the map: the operation was unsettled when destaged, or is a large
    /// copy that destage has not come to yet. Or nowhere: marks, each [`Spot::BAD`].
    Spots(Box<[Spot]>),
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
        matches!(self, Self::Data { place: Place::Spots(spots), .. } if spots.first() == Some(&Spot::BAD))
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
    /// What it replaces is no history, and what is below it is viewed by no cut: it came as a copy of what another component holds.
    pub is_copy: bool,
    /// Blocks whose version list names it; at zero the record goes.
    pub live: u64,
    /// Its row in the metadata, once it is pending.
    pub row: Option<PendingNumber>,
}

impl Record {
    /// Where it stands among cuts. A copy brings what its blocks held before all that the component did by itself: what changed since a cut
    /// comes as history of its own. So it is what each cut below the next operation has, also one that was made before it.
    pub fn cut_op(&self) -> OpId {
        if self.is_copy { OpId::ZERO } else { self.op }
    }
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

/// A pending row that is no longer needed, with the spots that it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Garbage {
    pub row: u64,
    pub component: ComponentId,
    /// Spots that nothing else refers to.
    pub spots: Vec<Spot>,
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
    pub fn drop_unused(&mut self, id: RecordId, spots: Vec<Spot>) {
        let record = self.slot(id).take().expect("the caller added it");
        assert!(record.live == 0 && record.row.is_some());
        self.pending.remove(&id);
        self.count -= 1;
        self.give_back(id);
        let row = record.row.expect("just seen").get();
        self.garbage.push(Garbage { row, component: record.component, spots });
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
    /// A pending row that nothing refers to any more: it and its spots go with the next transaction.
    pub fn discard(&mut self, row: u64, component: ComponentId, body: Body) {
        let spots = match body {
            Body::Data { place: Place::Spots(spots), .. } => {
                spots.iter().copied().filter(|spot| spot.is_place()).collect()
            }
            _ => Vec::new(),
        };
        self.garbage.push(Garbage { row, component, spots });
    }
    /// A spot of a pending row moved. The record may have gone meanwhile: its slots wait among the garbage then.
    pub fn move_spot(&mut self, id: RecordId, row: u64, index: usize, (from, to): (Spot, Spot)) {
        let record = self.slot(id).as_mut().filter(|record| record.row == Some(PendingNumber::new(row)));
        if let Some(Record { body: Body::Data { place: Place::Spots(spots), .. }, .. }) = record {
            spots[index] = to;
            return;
        }
        let garbage = self.garbage.iter_mut().filter(|garbage| garbage.row == row);
        garbage.flat_map(|garbage| &mut garbage.spots).filter(|spot| **spot == from).for_each(|spot| *spot = to);
    }
    pub fn iter(&self) -> impl Iterator<Item = (RecordId, &Record)> {
        self.slots.iter().enumerate().filter_map(|(id, r)| Some((id as RecordId, r.as_ref()?)))
    }
}
