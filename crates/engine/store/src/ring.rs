//! The ring of the log: where the next batch goes, what is live, when there is room. Arithmetic only.
//!
//! Promises    a batch never crosses a segment; a position is never used twice; a segment is entered only when the
//!             tail has left it (I6) and no read of its old contents is under way
//!             batches end in order: what counts as durable has no gap, though several may be with the device at once; those
//!             stand in one segment

use std::collections::VecDeque;

use cairn_format::{BatchHeader, CacheRegions};

/// Segments kept for trims, deletes, undo and records, in per cent of the log (at least one segment).
const RESERVE_PERCENT: u64 = 2;

/// The ring and its ends, in bytes since the log was made.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    segment_bytes: u64,
    segments: u64,
    offset: u64,
    tail: u64,
    head: u64,
    previous_position: u64,
    previous_crc: u32,
    durable: u64,
    /// Where the batches stand that are being written or follow one that is, or whose write failed, in the order of the log:
    /// position and end.
    in_flight: VecDeque<(u64, u64)>,
}

/// What asks for room in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Trims, deletes, undo, settle, records: they may use the reserve.
    Reserve,
    /// Writes, copies, creations.
    Normal,
}

impl Ring {
    pub fn new(regions: &CacheRegions, tail: u64) -> Self {
        let segment_bytes = u64::from(regions.log_segment_bytes);
        Self {
            segment_bytes,
            segments: regions.log_bytes / segment_bytes,
            offset: regions.log_offset,
            tail,
            head: tail,
            previous_position: u64::MAX,
            previous_crc: 0,
            durable: tail,
            in_flight: VecDeque::new(),
        }
    }
    /// Takes up a log whose batches from `tail` on are to be read.
    pub fn resume(&mut self, tail: u64) {
        (self.tail, self.head, self.durable) = (tail, tail, tail);
    }
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }
    pub fn segments(&self) -> u64 {
        self.segments
    }
    /// Start of the oldest live segment.
    pub fn tail(&self) -> u64 {
        self.tail
    }
    /// Where the next batch goes, unless it does not fit the segment.
    pub fn head(&self) -> u64 {
        self.head
    }
    /// End of the last batch that was written: all before it is on stable media.
    pub fn durable(&self) -> u64 {
        self.durable
    }
    pub fn size(&self) -> u64 {
        self.segment_bytes * self.segments
    }
    pub fn used(&self) -> u64 {
        self.head - self.tail
    }
    pub fn segment_of(&self, position: u64) -> u64 {
        position / self.segment_bytes
    }
    /// The physical segment under a logical one.
    pub fn physical(&self, segment: u64) -> u64 {
        segment % self.segments
    }
    pub fn device_offset(&self, position: u64) -> u64 {
        self.offset + position % self.size()
    }
    /// Bytes left in the segment of the head. A head at a segment's start has not entered it.
    pub fn left_in_segment(&self) -> u64 {
        (self.segment_bytes - self.head % self.segment_bytes) % self.segment_bytes
    }
    fn reserve_segments(&self) -> u64 {
        (self.segments * RESERVE_PERCENT / 100).max(1)
    }
    /// Where a batch of `bytes` would begin: here, or at the next segment's start.
    pub fn place(&self, bytes: u64) -> u64 {
        if bytes <= self.left_in_segment() { self.head } else { self.head.next_multiple_of(self.segment_bytes) }
    }
    /// Whether a batch of `bytes` may be written now.
    pub fn has_room(&self, bytes: u64, class: Class) -> bool {
        let start = self.place(bytes);
        let held = match class {
            Class::Reserve => 0,
            Class::Normal => self.reserve_segments(),
        };
        let used = self.segment_of(start) + 1 - self.segment_of(self.tail);
        used + held <= self.segments
    }
    /// Segments from the tail that no batch will be added to, nor is being written.
    pub fn closed_segments(&self) -> u64 {
        let first = self.in_flight.front().map_or(self.head, |(position, _)| *position);
        self.segment_of(first) - self.segment_of(self.tail)
    }
    /// The header of a batch at `position` as the chain wants it; what it holds is to be filled in.
    pub fn header(&self, log_id: u64, position: u64, open_count: u64) -> BatchHeader {
        BatchHeader {
            log_id,
            position,
            previous_position: self.previous_position,
            previous_crc: self.previous_crc,
            durable_position: self.durable,
            open_count,
            ..BatchHeader::default()
        }
    }
    /// A batch is being written: the next one goes behind it.
    pub fn begin(&mut self, header: &BatchHeader) {
        assert!(header.position >= self.head, "positions only grow");
        self.in_flight.push_back((header.position, header.end()));
        self.head = header.end();
        self.previous_position = header.position;
        self.previous_crc = header.crc;
    }
    /// The first of the batches that are being written is on the medium, as all before it are.
    pub fn written(&mut self, header: &BatchHeader) {
        let first = self.in_flight.pop_front();
        assert_eq!(first, Some((header.position, header.end())), "batches end in order");
        self.durable = header.end();
    }
    /// A batch was read back: the log goes on behind it.
    pub fn replayed(&mut self, header: &BatchHeader) {
        self.raise_head(header.position);
        self.begin(header);
        self.written(header);
    }
    /// The next batch goes here or later.
    pub fn raise_head(&mut self, position: u64) {
        self.head = self.head.max(position);
    }
    /// Whether a batch there would not stand in the segment of one that is being written.
    ///
    /// It has to wait: a segment's first batch may be the first that is read back one day, with no chain to say whether it counts.
    pub fn parts_from_one_in_flight(&self, position: u64) -> bool {
        self.in_flight.back().is_some_and(|(last, _)| self.segment_of(*last) != self.segment_of(position))
    }
    /// Leaves the rest of the head's segment unused, so that destage may take it.
    pub fn close_segment(&mut self) {
        assert!(self.in_flight.is_empty(), "a segment is closed between batches");
        self.head = self.head.next_multiple_of(self.segment_bytes);
    }
    /// Begins a new chain at the head: nothing before it is read again.
    pub fn restart(&mut self) {
        assert_eq!(self.head, self.tail);
        self.durable = self.head;
        self.previous_position = u64::MAX;
        self.previous_crc = 0;
    }
    pub fn move_tail(&mut self, tail: u64) {
        assert!(tail >= self.tail && tail.is_multiple_of(self.segment_bytes));
        self.tail = tail;
        self.head = self.head.max(tail);
    }
    /// Share of the log in use, 0..=1000.
    pub fn fill_permille(&self) -> u64 {
        self.fill_permille_from(self.tail)
    }
    /// The same with the tail at `from`: as if the rounds up to there were over.
    pub fn fill_permille_from(&self, from: u64) -> u64 {
        let used = self.segment_of(self.head + self.segment_bytes - 1) - self.segment_of(from);
        used * 1000 / self.segments
    }
}

/// Congestion on the scale that vSAN shows: 0 up to the low mark, 255 from the high one, a straight line between.
pub(crate) fn congestion(fill_permille: u64, low_percent: u8, high_percent: u8) -> u8 {
    let (low, high) = (u64::from(low_percent) * 10, u64::from(high_percent) * 10);
    if fill_permille <= low || high <= low {
        return 0;
    }
    ((fill_permille.min(high) - low) * 255 / (high - low)) as u8
}

/// How long acknowledgements wait at this fill: nothing below the low mark, rising with the square up to
/// `max_us` at the high mark, so that writers slow down to the speed of destage without a cliff.
pub(crate) fn congestion_delay_us(fill_permille: u64, low_percent: u8, high_percent: u8, max_us: u64) -> u64 {
    let (low, high) = (u64::from(low_percent) * 10, u64::from(high_percent) * 10);
    if fill_permille <= low || high <= low {
        return 0;
    }
    let part = (fill_permille.min(high) - low) * 1000 / (high - low);
    max_us * part * part / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Ring {
        Ring {
            segment_bytes: 65536,
            segments: 8,
            offset: 1 << 20,
            tail: 0,
            head: 0,
            previous_position: u64::MAX,
            previous_crc: 0,
            durable: 0,
            in_flight: VecDeque::new(),
        }
    }

    #[test]
    fn delay_rises_without_a_cliff() {
        let delays: Vec<u64> = (0..=1000).map(|fill| congestion_delay_us(fill, 60, 90, 20_000)).collect();
        assert!(delays.windows(2).all(|w| w[0] <= w[1] && w[1] - w[0] < 200));
        assert_eq!((delays[600], delays[900], delays[1000]), (0, 20_000, 20_000));
        let shown: Vec<u8> = (0..=1000).map(|fill| congestion(fill, 60, 90)).collect();
        assert!(shown.is_sorted());
        assert_eq!((shown[600], shown[750], shown[900], shown[1000]), (0, 127, 255, 255));
    }

    #[test]
    fn batches_stay_inside_segments_and_the_reserve_is_kept() {
        let mut ring = ring();
        assert_eq!(ring.place(8192), 0);
        ring.head = 61440;
        assert_eq!(ring.place(4096), 61440);
        assert_eq!(ring.place(8192), 65536);
        ring.head = 6 * 65536;
        assert!(ring.has_room(4096, Class::Normal));
        ring.head = 6 * 65536 + 61440;
        assert!(!ring.has_room(8192, Class::Normal));
        assert!(ring.has_room(8192, Class::Reserve));
        ring.head = 8 * 65536;
        assert!(!ring.has_room(4096, Class::Reserve));
        ring.move_tail(65536);
        assert!(ring.has_room(4096, Class::Reserve));
    }
}
