//! Reading the log back: every batch from the tail, and the difference between a torn tail and damage.
//!
//! Promises    L1  everything that was acknowledged is found, or the log is reported damaged
//!             L2  a batch that was never acknowledged may be found or not; when found it is whole
//!             L3  one flipped bit, or a part that cannot be read, is never taken for the mark of a torn write (docs/adr/0022)
//! Assumes     a header tells up to where the log was durable when it was written; it says nothing of batches behind
//!             that: they were with the device together, and any of them may be torn, also one before a whole one
//! Memory      one log segment, and what is read ahead (`read_ahead.rs`)
//!
//! A batch is *torn* if nothing says that it was ever durable. It was durable if a header that claims a later durable
//! position can be read anywhere in the ring, or if the metadata remembers one: then the log is *damaged*, and what
//! follows the bad batch is not used, as a hole in the history proves nothing. What follows a torn batch is not used either: it was
//! never acknowledged. It may stand there still when the log goes on over the torn one, and is not taken for a part of it: it was
//! written by an earlier opening, and the CRC of the header before it is another.
//!
//! The last batches have nobody behind them who says that they were durable. One of them whose bad parts each differ from what was
//! written by one bit, or cannot be read, counts as *damaged*: no torn write looks so. One that is bad in any other way is torn.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use cairn_env::{Disk, Env, PageBuf};
use cairn_format::{
    BatchHeader, LogRecord, crc32c, decode_batch_header, decode_batch_records, is_one_bit_off, one_bit_off_header,
    peek_batch_header_bytes, peek_batch_position,
};
use cairn_types::{BLOCK_BYTES, Canary};
use futures::future::join_all;

use crate::{
    error::StoreError,
    log::Log,
    read_ahead::{Ahead, ReadAhead},
    ring::Ring,
    rows::StateRow,
    state::{At, State},
};

const PAGE: u64 = BLOCK_BYTES as u64;
/// Reads in flight while looking for evidence.
const EVIDENCE_READS: usize = 32;

/// How often a page is read that cannot be read.
const PAGE_TRIES: usize = 5;

/// How the log was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replayed {
    Sound,
    /// New batches must begin here, beyond everything that can still be read of the lost part.
    Damaged {
        jump_to: u64,
    },
}

/// A batch that was read and not applied yet.
struct Held {
    header: BatchHeader,
    records: Vec<LogRecord>,
}

/// How the blocks behind a header are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    Sound,
    /// Each bad block differs by one bit, or cannot be read.
    Damaged,
    /// Some block differs in more: old sectors, as a torn write leaves them.
    Torn,
}

/// Reads the log from the state's tail and applies it, but for the index ([`State::build_index`]). The ring's head ends up behind the last
/// batch.
pub(crate) async fn replay<E: Env>(
    env: &E,
    disk: &E::Disk,
    state: &mut State,
    stored: &StateRow,
) -> Result<Replayed, StoreError> {
    let mut segment = Segment::default();
    state.components.records.defers = true;
    let mut ahead = ReadAhead::new(disk, &state.log);
    let mut chain: Option<BatchHeader> = None;
    // Those that no header after them says were durable.
    let mut held: VecDeque<Held> = VecDeque::new();
    // Once round the ring at most: a valid chain cannot be longer, a damaged device may say anything.
    let limit = state.log.ring.tail() + state.log.ring.size();
    let mut at = state.log.ring.tail();
    while let Some(next) = next_batch(disk, &state.log, &mut ahead, &mut segment, at, chain.as_ref()).await? {
        if next.header.end() > limit {
            break;
        }
        if state.log.ring.segment_of(at) != state.log.ring.segment_of(next.header.end()) {
            // A long log is a long work: others of this thread have their turn.
            env.give_way().await;
        }
        at = next.header.end();
        // Whatever their data blocks look like now.
        while let Some(durable) = held.pop_front_if(|before| before.header.end() <= next.header.durable_position) {
            apply(state, durable);
        }
        chain = Some(next.header);
        held.push_back(next);
    }
    drop(ahead);
    let evidence = durable_evidence(disk, &state.log, held.front().map_or(at, |first| first.header.position)).await;
    let durable = evidence.durable.max(stored.durable_position);
    // Where a batch stands behind the last readable one that was damaged rather than torn.
    let (log, before) = (&state.log, chain.as_ref());
    let damage = |segment: &Segment, position| segment.is_damaged_header(position, log, before).then_some(position);
    let mut damaged = look_ahead(disk, &log.ring, &mut segment, at, damage).await?;
    for last in held {
        if durable < last.header.end() && !Canary::TornTailBelieved.sings() {
            segment.load(disk, &state.log.ring, last.header.position).await?;
            let data = segment.look_at_data(&last);
            if data != Data::Sound {
                at = last.header.position;
                damaged = (data == Data::Damaged).then_some(at);
                break;
            }
        }
        apply(state, last);
    }
    state.log.ring.raise_head(at.min(limit));
    if let Some(ends_at) = stored.damaged_at {
        state.log.found_damaged(ends_at);
    }
    let damaged = damaged.filter(|_| !Canary::TornBelievedOverSound.sings());
    if durable <= state.log.ring.durable() && damaged.is_none() {
        return Ok(Replayed::Sound);
    }
    state.log.found_damaged(state.log.ring.durable());
    let last = durable.max(evidence.highest).max(state.log.ring.head()).max(damaged.unwrap_or(0));
    Ok(Replayed::Damaged { jump_to: (last + 1).next_multiple_of(state.log.ring.segment_bytes()) })
}

fn apply(state: &mut State, held: Held) {
    let header = held.header;
    let mut data = header.position + u64::from(header.header_bytes);
    state.log.ring.replayed(&header);
    for record in held.records {
        let at = At { position: header.position, data };
        data += record.data_blocks() * PAGE;
        state.apply(record, at);
    }
}

/// The batch that follows at `at`, or at the next segment's start. That there is none is not taken from what was read ahead.
async fn next_batch<D: Disk>(
    disk: &D,
    log: &Log,
    ahead: &mut ReadAhead<'_, D>,
    segment: &mut Segment,
    at: u64,
    before: Option<&BatchHeader>,
) -> Result<Option<Held>, StoreError> {
    for position in [at, at.next_multiple_of(log.ring.segment_bytes())] {
        if let Ahead::Batch(header, records) = ahead.at(position, log).await
            && is_next(&header, position, log, before)
        {
            return Ok(Some(Held { header, records }));
        }
    }
    let batch = |segment: &Segment, position| segment.batch_at(position, log, before);
    look_ahead(disk, &log.ring, segment, at, batch).await
}

/// What `look` finds where a batch may follow: right here, or at the next segment's start when the writer left this one.
async fn look_ahead<D: Disk, R>(
    disk: &D,
    ring: &Ring,
    segment: &mut Segment,
    at: u64,
    look: impl Fn(&Segment, u64) -> Option<R>,
) -> Result<Option<R>, StoreError> {
    let next_start = at.next_multiple_of(ring.segment_bytes());
    for position in [at, next_start] {
        segment.load(disk, ring, position).await?;
        let found = look(segment, position);
        if found.is_some() || position == next_start {
            return Ok(found);
        }
    }
    Ok(None)
}

/// One log segment in memory.
#[derive(Default)]
struct Segment {
    start: Option<u64>,
    data: Bytes,
    /// Pages that cannot be read, by number.
    unread: BTreeSet<u64>,
}

impl Segment {
    async fn load<D: Disk>(&mut self, disk: &D, ring: &Ring, position: u64) -> Result<(), StoreError> {
        let len = ring.segment_bytes();
        let start = position / len * len;
        if self.start == Some(start) {
            return Ok(());
        }
        let offset = ring.device_offset(start);
        (self.data, self.unread) = match disk.read(offset, len as u32).await {
            Ok(data) => (data, BTreeSet::new()),
            // One bad sector must not hide the rest of the segment.
            Err(_) => read_by_pages(disk, offset, len).await,
        };
        self.start = Some(start);
        Ok(())
    }

    fn batch_at(&self, position: u64, log: &Log, before: Option<&BatchHeader>) -> Option<Held> {
        let start = self.start?;
        let bytes = self.data.get((position - start) as usize..)?;
        let header = decode_batch_header(bytes).ok()?;
        if !is_next(&header, position, log, before) {
            return None;
        }
        let records = decode_batch_records(&header, bytes).ok()?;
        Some(Held { header, records })
    }

    /// How the blocks behind the header of a batch of this segment agree with their checksums.
    fn look_at_data(&self, batch: &Held) -> Data {
        let start = self.start.expect("a segment was read");
        let at = batch.header.position - start + u64::from(batch.header.header_bytes);
        let crcs = batch.records.iter().flat_map(LogRecord::data_crcs);
        let blocks = self.data[at as usize..].chunks_exact(PAGE as usize).zip(crcs).zip(at / PAGE..);
        let mut found = Data::Sound;
        for ((block, crc), page) in blocks.filter(|((block, crc), _)| crc32c(block) != *crc) {
            match self.unread.contains(&page) || is_one_bit_off(block, crc) {
                true => found = Data::Damaged,
                false => return Data::Torn,
            }
        }
        found
    }

    /// Whether what stands here, and is no batch, was the next one's header until a bit of it was turned over, or cannot be read.
    fn is_damaged_header(&self, position: u64, log: &Log, before: Option<&BatchHeader>) -> bool {
        let start = self.start.expect("a segment was read");
        let page = (position - start) / PAGE;
        let Some(bytes) = self.data.get((position - start) as usize..) else { return false };
        let pages = peek_batch_header_bytes(bytes).map_or(1, |len| u64::from(len) / PAGE);
        let unread = self.unread.contains(&page)
            || (peek_batch_position(bytes) == Some(position) && self.unread.range(page..page + pages).next().is_some());
        match (decode_batch_header(bytes), one_bit_off_header(bytes)) {
            // Of another time, whatever part of it is bad.
            (Ok(_), _) => false,
            (Err(_), Some(header)) => is_next(&header, position, log, before),
            (Err(_), None) => unread,
        }
    }
}

/// Whether the header is of this log, of this place, and behind `before`.
fn is_next(header: &BatchHeader, position: u64, log: &Log, before: Option<&BatchHeader>) -> bool {
    let chained = before.is_none_or(|b| {
        let follows = header.previous_position == b.position && header.previous_crc == b.crc;
        follows && header.open_count >= b.open_count
    });
    let end = position % log.ring.segment_bytes() + u64::from(header.header_bytes) + u64::from(header.data_bytes);
    header.log_id == log.id() && header.position == position && chained && end <= log.ring.segment_bytes()
}

/// The pages, zeroes for those that cannot be read, and the numbers of these.
async fn read_by_pages<D: Disk>(disk: &D, offset: u64, len: u64) -> (Bytes, BTreeSet<u64>) {
    let mut data = PageBuf::zeroed(len as usize);
    let mut unread: BTreeSet<u64> = (0..len / PAGE).collect();
    for page in 0..len / PAGE {
        // Again and again before the log is called damaged for it: that costs its copies, or a disk without another one.
        for _ in 0..PAGE_TRIES {
            if let Ok(bytes) = disk.read(offset + page * PAGE, PAGE as u32).await {
                let at = (page * PAGE) as usize;
                data[at..at + PAGE as usize].copy_from_slice(&bytes);
                unread.remove(&page);
                break;
            }
        }
    }
    (data.freeze(), unread)
}

/// What the ring says of batches beyond the end of the chain.
#[derive(Debug, Default)]
struct Evidence {
    /// The highest durable position that a readable header claims.
    durable: u64,
    /// The highest end of a batch of this wrap.
    highest: u64,
}

/// Looks for headers from here on: in the rest of the segment, and at the start of every other one.
async fn durable_evidence<D: Disk>(disk: &D, log: &Log, from: u64) -> Evidence {
    let ring = &log.ring;
    let rest = (from..from.next_multiple_of(ring.segment_bytes())).step_by(PAGE as usize);
    let first = from.next_multiple_of(ring.segment_bytes());
    let starts = (first..ring.tail() + ring.size()).step_by(ring.segment_bytes() as usize);
    let positions: Vec<u64> = rest.chain(starts).collect();
    let mut evidence = Evidence::default();
    for group in positions.chunks(EVIDENCE_READS) {
        let reads = group.iter().map(|&p| disk.read(ring.device_offset(p), PAGE as u32));
        for (&position, result) in group.iter().zip(join_all(reads).await) {
            let Ok(bytes) = result else { continue };
            let header = match decode_batch_header(&bytes) {
                Err(cairn_format::BatchError::Short) => read_long(disk, ring.device_offset(position), &bytes).await,
                other => other.ok(),
            };
            // A header of an earlier wrap, or of another log, stands for nothing.
            if let Some(header) = header.filter(|h| h.log_id == log.id() && h.position == position) {
                evidence.durable = evidence.durable.max(header.durable_position);
                evidence.highest = evidence.highest.max(header.end());
            }
        }
    }
    evidence
}

async fn read_long<D: Disk>(disk: &D, offset: u64, first: &[u8]) -> Option<BatchHeader> {
    let len = peek_batch_header_bytes(first)?;
    let bytes = disk.read(offset, len).await.ok()?;
    decode_batch_header(&bytes).ok()
}
