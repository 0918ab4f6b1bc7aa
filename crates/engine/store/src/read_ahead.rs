//! The batches of the log's segments, read ahead of its replay: several segments at once, and headers without their data.
//!
//! Promises    a batch that it gives is whole, of this log, and at the place that was asked for
//! Assumes     whoever asks goes from one batch to the next, and looks again by itself where it is told that there is none
//! Memory      one window and the decoded records of each segment that is read ahead: some 4 MB of small writes
//! Not here    whether a batch follows the one before it, and how its data are (`replay.rs`)
//!
//! Data that a later header says were durable need no look (docs/internals/store.md). So a window is read for each batch: of batches of
//! 1 MiB an eighth of the log, of 256 KiB half of it. Smaller ones fill the windows, and all of it is read, one after the other.

use std::collections::VecDeque;

use bytes::Bytes;
use cairn_env::Disk;
use cairn_format::{
    BatchError, BatchHeader, LogRecord, decode_batch_header, decode_batch_records, peek_batch_header_bytes,
};
use cairn_types::BLOCK_BYTES;
use futures::{StreamExt, future::LocalBoxFuture, stream::FuturesOrdered};

use crate::log::Log;

/// Segments that are read at once.
const SEGMENTS_AHEAD: usize = 16;
/// Windows of a segment; one has 128 KiB of a segment of 4 MiB.
const WINDOWS: u64 = 32;

/// What stands at a position.
pub(crate) enum Ahead {
    Batch(BatchHeader, Vec<LogRecord>),
    /// No batch of this log, as far as one read tells.
    Nothing,
    /// It could not be read, or is not where this one is by now.
    Unknown,
}

/// What one segment holds from its start on.
struct Walked {
    start: u64,
    batches: VecDeque<(BatchHeader, Vec<LogRecord>)>,
    /// Where no other one follows; none where it could not be read.
    end: Option<u64>,
}

/// Where the log is, for reading it.
#[derive(Debug, Clone, Copy)]
struct Place {
    log_id: u64,
    segment_bytes: u64,
    /// On the device, of the segment.
    offset: u64,
    start: u64,
}

/// The segments of the ring, once round it, from the tail on.
pub(crate) struct ReadAhead<'a, D> {
    disk: &'a D,
    coming: FuturesOrdered<LocalBoxFuture<'a, Walked>>,
    /// The first segment that is not asked for.
    next: u64,
    limit: u64,
    current: Option<Walked>,
}

impl<'a, D: Disk> ReadAhead<'a, D> {
    pub fn new(disk: &'a D, log: &Log) -> Self {
        let tail = log.ring.tail();
        Self { disk, coming: FuturesOrdered::new(), next: tail, limit: tail + log.ring.size(), current: None }
    }

    /// What stands at `position`: behind the batch that was given last, or at the start of a later segment.
    pub async fn at(&mut self, position: u64, log: &Log) -> Ahead {
        if position >= self.limit {
            return Ahead::Nothing;
        }
        let start = position / log.ring.segment_bytes() * log.ring.segment_bytes();
        while self.current.as_ref().is_none_or(|walked| walked.start < start) {
            self.ask(log);
            self.current = self.coming.next().await;
        }
        let walked = self.current.as_mut().filter(|walked| walked.start == start);
        let Some(walked) = walked else { return Ahead::Unknown };
        if let Some((header, records)) = walked.batches.pop_front_if(|(header, _)| header.position == position) {
            return Ahead::Batch(header, records);
        }
        match walked.batches.is_empty() && walked.end == Some(position) {
            true => Ahead::Nothing,
            false => Ahead::Unknown,
        }
    }

    fn ask(&mut self, log: &Log) {
        let segment_bytes = log.ring.segment_bytes();
        while self.coming.len() < SEGMENTS_AHEAD && self.next < self.limit {
            let offset = log.ring.device_offset(self.next);
            let place = Place { log_id: log.id(), segment_bytes, offset, start: self.next };
            self.coming.push_back(Box::pin(walk(self.disk, place)));
            self.next += segment_bytes;
        }
    }
}

/// Reads one segment's batches from its start on.
async fn walk<D: Disk>(disk: &D, place: Place) -> Walked {
    let mut walked = Walked { start: place.start, batches: VecDeque::new(), end: None };
    // Within the segment: the next batch, and where the bytes that were read begin.
    let (mut at, mut begins, mut window) = (0, 0, Bytes::new());
    let window_bytes = (place.segment_bytes / WINDOWS).next_multiple_of(u64::from(BLOCK_BYTES));
    while at < place.segment_bytes {
        let known = window.get((at - begins) as usize..).unwrap_or_default();
        let header = decode_batch_header(known);
        if known.is_empty() || header == Err(BatchError::Short) {
            // A header is as long as its first page says, which is not checked yet: the format bounds it.
            let wanted = peek_batch_header_bytes(known).map_or(0, u64::from).max(window_bytes);
            let len = wanted.min(place.segment_bytes - at);
            if header == Err(BatchError::Short) && known.len() as u64 >= len {
                // Longer than the segment.
                walked.end = Some(place.start + at);
                break;
            }
            let Ok(read) = disk.read(place.offset + at, len as u32).await else { break };
            (begins, window) = (at, read);
            continue;
        }
        let found = header.ok().filter(|header| {
            let end = at + u64::from(header.header_bytes) + u64::from(header.data_bytes);
            header.log_id == place.log_id && header.position == place.start + at && end <= place.segment_bytes
        });
        let Some((header, records)) = found.and_then(|h| Some((h, decode_batch_records(&h, known).ok()?))) else {
            walked.end = Some(place.start + at);
            break;
        };
        at += u64::from(header.header_bytes) + u64::from(header.data_bytes);
        walked.batches.push_back((header, records));
    }
    if at >= place.segment_bytes {
        walked.end = Some(place.start + at);
    }
    walked
}
