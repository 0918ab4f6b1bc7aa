//! What was admitted and waits for its batch in the log.
//!
//! Promises    within a class, what was queued first leaves first
//! Not here    what is admitted, and when a batch is written (`append.rs`)

use std::collections::VecDeque;

use bytes::Bytes;
use cairn_format::{LogPiece, LogRecord, Needs, PlacedPiece};
use cairn_types::{ComponentId, Time};
use futures::channel::oneshot;
use smallvec::SmallVec;

use crate::{error::StoreError, ring::Class};

/// Bytes that are worth a batch of their own.
const LARGE_BATCH_BYTES: u64 = 256 << 10;

/// The data of an operation; nearly all have one part, or none.
pub(crate) type DataParts = SmallVec<[Bytes; 1]>;

pub(crate) type Done = oneshot::Sender<Result<(), StoreError>>;

/// An admitted operation that waits for its batch.
#[derive(Debug)]
pub(crate) struct Queued {
    number: u64,
    /// When it was asked for.
    pub since: Time,
    pub record: LogRecord,
    pub data: DataParts,
    pub data_bytes: u64,
    pub header_bytes: u64,
    pub class: Class,
    /// Blocks charged to a component until the record is applied.
    pub charged: Charged,
    /// Of what was written to a capacity device for it, which waits for the record.
    pub ticket: Option<u64>,
    pub done: Done,
    /// What the superblock is to say before the log has it.
    pub needs: Needs,
}

/// Blocks that an operation may add to a component, until it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct More {
    pub component: ComponentId,
    /// What has no space yet.
    pub blocks: u64,
    /// What becomes history.
    pub history: u64,
    /// All that it has data for, and the device that it goes to.
    pub data: (u8, u64),
}

/// None where it adds nothing.
pub(crate) type Charged = Option<More>;

/// Whether an operation has its space.
pub(crate) enum Charge {
    Now(Charged),
    /// Not before destage has taken out what trims and deletes gave up.
    Later,
}

impl Queued {
    /// Not in the queue yet; `ticket` is of what was written to a capacity device for it.
    pub fn new(
        since: Time,
        record: LogRecord,
        data: DataParts,
        class: Class,
        charged: Charged,
        ticket: Option<u64>,
        done: Done,
    ) -> Self {
        let (data_bytes, header_bytes, needs) = (bytes_of(&data), record_bytes_bound(&record), record.needs());
        Self { number: 0, since, record, data, data_bytes, header_bytes, class, charged, ticket, done, needs }
    }

    /// Whether it changes blocks of this component.
    pub fn is_of(&self, component: ComponentId) -> bool {
        match &self.record {
            LogRecord::Write { component: of, .. }
            | LogRecord::Zero { component: of, .. }
            | LogRecord::Copy { component: of, .. }
            | LogRecord::Rows { component: of, .. }
            | LogRecord::ZeroRows { component: of, .. } => *of == component,
            _ => false,
        }
    }
}

pub(crate) fn bytes_of(data: &[Bytes]) -> u64 {
    data.iter().map(|part| part.len() as u64).sum()
}

/// What waits for the log, by class.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    normal: VecDeque<Queued>,
    reserve: VecDeque<Queued>,
    next_number: u64,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.normal.is_empty() && self.reserve.is_empty()
    }
    pub fn len(&self) -> usize {
        self.normal.len() + self.reserve.len()
    }
    /// Whether what waits is enough for a batch beside one of so many operations.
    pub fn is_worth_a_batch(&self, operations: usize) -> bool {
        if self.len() >= operations {
            return true;
        }
        let mut bytes = 0;
        self.normal.iter().any(|queued| {
            bytes += queued.data_bytes;
            bytes >= LARGE_BATCH_BYTES
        })
    }
    pub fn push(&mut self, mut queued: Queued) {
        queued.number = self.next_number;
        self.next_number += 1;
        match queued.class {
            Class::Normal => self.normal.push_back(queued),
            Class::Reserve => self.reserve.push_back(queued),
        }
    }
    /// Nothing that waits says what is settled.
    pub fn nothing_is_settled(&self) -> bool {
        !self.reserve.iter().any(|queued| matches!(queued.record, LogRecord::Settle { .. }))
    }
    /// The next in order; of the reserve class only when `only_reserve`.
    pub fn peek(&self, only_reserve: bool) -> Option<&Queued> {
        match (self.normal.front(), self.reserve.front()) {
            (Some(n), Some(r)) if !only_reserve && n.number < r.number => Some(n),
            (Some(n), None) if !only_reserve => Some(n),
            (_, r) => r,
        }
    }
    pub fn pop(&mut self, class: Class) -> Option<Queued> {
        match class {
            Class::Normal => self.normal.pop_front(),
            Class::Reserve => self.reserve.pop_front(),
        }
    }
    /// Takes out those of the normal class that are so.
    pub fn take_normal(&mut self, which: impl Fn(&LogRecord) -> bool) -> VecDeque<Queued> {
        let all = std::mem::take(&mut self.normal);
        let (taken, kept) = all.into_iter().partition(|queued| which(&queued.record));
        self.normal = kept;
        taken
    }
    /// Answers everything that waits.
    pub fn fail_all(&mut self, error: &StoreError) {
        let all = std::mem::take(&mut self.normal).into_iter().chain(std::mem::take(&mut self.reserve));
        all.for_each(|queued| drop(queued.done.send(Err(error.clone()))));
    }
}

/// Bytes that a record takes in a batch header, at most.
pub(crate) fn record_bytes_bound(record: &LogRecord) -> u64 {
    let crcs = record.data_blocks() * 5;
    let rest = match record {
        LogRecord::Placed { pieces, .. } => pieces.iter().map(placed_bytes_bound).sum(),
        LogRecord::Copy { pieces, .. } | LogRecord::Rows { pieces, .. } => pieces.iter().map(piece_bytes_bound).sum(),
        LogRecord::Record { bytes, .. } => bytes.len() as u64,
        LogRecord::Remember { clients, .. } => clients.len() as u64 * 96,
        LogRecord::Cuts { cuts, .. } => cuts.len() as u64 * 64,
        _ => 0,
    };
    256 + crcs + rest
}

fn piece_bytes_bound(piece: &LogPiece) -> u64 {
    match piece {
        // Checksums of data are counted above.
        LogPiece::Data { .. } | LogPiece::Hole { .. } => 24,
        LogPiece::Bad { crcs: more, .. } | LogPiece::Parity { row_checks: more, .. } => 24 + more.len() as u64 * 5,
    }
}

fn placed_bytes_bound(piece: &PlacedPiece) -> u64 {
    match piece {
        PlacedPiece::Data { crcs, runs, .. } => 24 + crcs.len() as u64 * 5 + runs.len() as u64 * 25,
        PlacedPiece::Parity { crcs, row_checks, runs, .. } => {
            24 + (crcs.len() + row_checks.len()) as u64 * 5 + runs.len() as u64 * 25
        }
        PlacedPiece::Hole { .. } => 24,
    }
}
