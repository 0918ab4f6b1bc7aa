//! How long the stages of an I/O took in one disk group: guest writes in its log, reads of its components.
//!
//! Promises    recording takes a clock reading that the caller has, and plain memory of the shard's thread; a component that
//!             was never read takes none, a disk group that was never written one pointer
//! Assumes     one writer task: a batch ends before the next one begins
//! Not here    the way from the owner to here and back (`object` measures it, whoever shows both subtracts)

use std::{collections::BTreeMap, time::Duration};

use cairn_measure::Latencies;
use cairn_types::{ComponentId, ObjectId, Time};

use crate::components::Components;

/// Guest writes of one disk group, from the call to the acknowledgement. What resync brings, trims and records are left out, but
/// for what guests' writes wait for them.
#[derive(Debug, Clone, Default)]
pub struct LogLatencies {
    /// Waiting for the batch before, and for being gathered.
    pub queue: Latencies,
    /// Waiting for destage to make room in a full log; only those that waited.
    pub room: Latencies,
    /// The device write, once for each operation that it carried.
    pub device: Latencies,
    /// Acknowledgements held back for congestion; only those that were.
    pub congestion: Latencies,
}

/// Where the slowest part of a read came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadSource {
    /// Memory and holes only.
    Memory,
    /// The log on the cache device.
    Log,
    /// A capacity device.
    Capacity,
}

/// Reads of one disk's components in one disk group: for its guests, for resync, for the edges of unaligned writes.
#[derive(Debug, Clone, Default)]
pub struct ReadLatencies {
    /// Reading the block map from the metadata; only those for which memory did not have it.
    pub map: Option<Box<Latencies>>,
    by_source: [Option<Box<Latencies>>; 3],
}

impl ReadLatencies {
    /// Reading the blocks themselves, by the slowest source of each read.
    pub fn of(&self, source: ReadSource) -> Option<&Latencies> {
        self.by_source[source as usize].as_deref()
    }

    pub(crate) fn record(&mut self, source: ReadSource, took_ns: u64) {
        self.by_source[source as usize].get_or_insert_default().record(took_ns);
    }

    fn add(&mut self, other: &Self) {
        let add = |mine: &mut Option<Box<Latencies>>, other: &Option<Box<Latencies>>| {
            if let Some(other) = other {
                mine.get_or_insert_default().add(other);
            }
        };
        add(&mut self.map, &other.map);
        self.by_source.iter_mut().zip(&other.by_source).for_each(|(mine, other)| add(mine, other));
    }
}

/// A read that is under way.
pub(crate) struct ReadWatch {
    pub source: ReadSource,
    pub began: Time,
}

/// All stages of a disk group.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    log: Option<Box<LogLatencies>>,
    /// Since when guests' writes find no room in the log.
    full_since: Option<Time>,
    reads: BTreeMap<ComponentId, ReadLatencies>,
}

impl Stages {
    /// What waits finds no room.
    pub fn on_full(&mut self, now: Time) {
        self.full_since.get_or_insert(now);
    }

    /// Nothing waits any more.
    pub fn on_empty(&mut self) {
        self.full_since = None;
    }

    /// A guest's write that was asked for at `since` leaves with the batch that began at `began`.
    pub fn left_queue(&mut self, since: Time, began: Time) {
        let full_from = self.full_since.map_or(began, |full| full.clamp(since.min(began), began));
        let log = self.log.get_or_insert_default();
        log.queue.record(full_from.0.saturating_sub(since.0));
        if full_from < began {
            log.room.record(began.0 - full_from.0);
        }
    }

    /// A batch with so many guests' writes is durable; each is answered `delay` later.
    pub fn on_written(&mut self, began: Time, now: Time, writes: u32, delay: Duration) {
        if writes == 0 {
            return;
        }
        self.full_since = None;
        let log = self.log.get_or_insert_default();
        log.device.record_many(now.0.saturating_sub(began.0), writes);
        if !delay.is_zero() {
            log.congestion.record_many(delay.as_nanos() as u64, writes);
        }
    }

    pub fn of_component(&mut self, id: ComponentId, known: &Components) -> &mut ReadLatencies {
        if !self.reads.contains_key(&id) && self.reads.len() >= known.len() {
            self.reads.retain(|id, _| known.is_here(*id));
        }
        self.reads.entry(id).or_default()
    }

    /// The log's.
    pub fn log(&self) -> LogLatencies {
        self.log.as_deref().cloned().unwrap_or_default()
    }

    /// Those of reads, by object, of one where it is named.
    pub fn reads(&self, known: &Components, only: Option<ObjectId>) -> BTreeMap<ObjectId, ReadLatencies> {
        let mut all: BTreeMap<ObjectId, ReadLatencies> = BTreeMap::new();
        for (id, reads) in &self.reads {
            let object = known.get(*id).map(|component| component.object);
            if let Some(object) = object.filter(|object| only.is_none_or(|only| only == *object)) {
                all.entry(object).or_default().add(reads);
            }
        }
        all
    }
}
