//! The records of objects' seats that the disk group holds.
//!
//! Promises    a record never gives way to one that the log had before it; a removal is kept until the log cannot hold what it removed
//! Not here    what a record says (`object`), whether it is too large (`convert.rs`)

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cairn_types::ObjectId;

use crate::rows::ObjectRow;

/// The record of an object's seat.
#[derive(Debug)]
struct SeatRecord {
    position: u64,
    /// Empty: removed; kept until the log cannot hold an older one.
    bytes: Bytes,
}

/// All of them, and which the metadata does not have.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    records: BTreeMap<ObjectId, SeatRecord>,
    dirty: BTreeSet<ObjectId>,
}

impl Seats {
    /// The one of an object; none where it was removed.
    pub fn get(&self, object: ObjectId) -> Option<&Bytes> {
        self.records.get(&object).map(|record| &record.bytes).filter(|bytes| !bytes.is_empty())
    }

    /// Those that were not removed, by object.
    pub fn all(&self) -> impl Iterator<Item = (ObjectId, &Bytes)> {
        self.records.iter().map(|(object, record)| (*object, &record.bytes)).filter(|(_, bytes)| !bytes.is_empty())
    }

    /// Takes a record from the log; empty bytes remove the one that is here.
    pub fn put(&mut self, object: ObjectId, bytes: Vec<u8>, position: u64) {
        // The metadata may know a later one than the log that is being replayed.
        if self.records.get(&object).is_some_and(|known| known.position > position) {
            return;
        }
        self.records.insert(object, SeatRecord { position, bytes: bytes.into() });
        self.dirty.insert(object);
    }

    /// Takes a row from the metadata.
    pub fn load(&mut self, object: ObjectId, row: ObjectRow) {
        if row.bytes.is_empty() {
            self.dirty.insert(object);
        }
        self.records.insert(object, SeatRecord { position: row.position, bytes: row.bytes.into() });
    }

    /// Gives `write` the rows that a transaction changes which moves the log's tail to `tail`; none for one that goes.
    pub fn take_changes(&mut self, tail: u64, mut write: impl FnMut(ObjectId, Option<ObjectRow>)) {
        for object in std::mem::take(&mut self.dirty) {
            let known = &self.records[&object];
            if known.bytes.is_empty() && known.position < tail {
                write(object, None);
                continue;
            }
            write(object, Some(ObjectRow { position: known.position, bytes: known.bytes.to_vec() }));
            if known.bytes.is_empty() {
                // A removal is kept until the log cannot hold what it removed.
                self.dirty.insert(object);
            }
        }
    }

    /// The log begins at `tail`: removals from before it are over.
    pub fn forget_before(&mut self, tail: u64) {
        self.records.retain(|_, record| !record.bytes.is_empty() || record.position >= tail);
        self.dirty.retain(|object| self.records.contains_key(object));
    }
}
