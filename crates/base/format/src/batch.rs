//! A batch of the log: one device write of `header pages | data blocks`.
//!
//! Promises    a header is believed only when its CRC, its log and its position are right; a torn header or a
//!             header of an earlier wrap, or of an earlier format of the device, is told apart from a good one
//! Assumes     positions are bytes since the log was made and only grow: position / log bytes is the wrap generation
//!
//! ```text
//!  0 magic "CAIRNLB1"     32 durable position      64 CRC of the previous header
//!  8 log id               40 open count            68 CRC of this header, this field zero
//! 16 position             48 header bytes  52 data bytes
//! 24 previous position    56 record bytes  60 records       72 records (postcard), zeroes to 4 KiB
//! ```

use cairn_types::{BLOCK_BYTES, encode_onto};

use crate::{LogRecord, crc32c};

pub(crate) const MAGIC: [u8; 8] = *b"CAIRNLB1";
pub(crate) const HEADER_BYTES_AT: usize = 48;
pub(crate) const CRC_AT: usize = 68;
/// Positions stay below it: 2 EiB were never written, and sums of positions do not overflow.
const POSITION_MAX: u64 = 1 << 61;
/// Where the records begin in a header.
pub const BATCH_RECORDS_OFFSET: usize = 72;
/// Bytes of one batch header, at most. Bounds what a reader allocates for bytes it does not trust yet.
pub const BATCH_HEADER_BYTES_MAX: u32 = 1 << 20;

/// The fixed part of a batch header. [`encode_batch`] fills in the lengths, the count and the CRC: whoever begins one leaves these as
/// they are by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchHeader {
    /// Random per format: batches of an earlier life of the device are not of this log.
    pub log_id: u64,
    /// Where the batch begins, in bytes since the log was made.
    pub position: u64,
    /// Where the batch before begins; `u64::MAX` at the start of a log or after a gap.
    pub previous_position: u64,
    /// CRC of the header before: chains the batches.
    pub previous_crc: u32,
    /// Everything before this position was on stable media when the batch was written.
    pub durable_position: u64,
    /// Which opening of the disk group wrote it.
    pub open_count: u64,
    /// Bytes of the header, a multiple of 4096.
    pub header_bytes: u32,
    /// Bytes of the data after it, a multiple of 4096.
    pub data_bytes: u32,
    /// Bytes of encoded records.
    pub record_bytes: u32,
    /// How many records.
    pub record_count: u32,
    /// CRC of this header.
    pub crc: u32,
}

impl BatchHeader {
    /// Where the batch ends.
    pub fn end(&self) -> u64 {
        self.position + u64::from(self.header_bytes) + u64::from(self.data_bytes)
    }
}

/// Why bytes are not a batch header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// No header stands here.
    #[error("no batch header here")]
    NotAHeader,
    /// It is longer than what was passed; read on.
    #[error("the batch header is longer than what was read")]
    Short,
    /// Its checksum is wrong: torn or damaged.
    #[error("the checksum of the batch header is wrong")]
    Checksum,
    /// The checksum is right, the contents make no sense: another program's, or a defect.
    #[error("the batch header contradicts itself")]
    Malformed,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Encodes a header with its `records`, zero-padded to whole blocks. Of `header`, the lengths, the count and the
/// CRC are filled in; the finished header is returned beside the bytes.
pub fn encode_batch(header: BatchHeader, records: &[LogRecord]) -> (BatchHeader, Vec<u8>) {
    let mut bytes = Vec::with_capacity(BLOCK_BYTES as usize);
    bytes.resize(BATCH_RECORDS_OFFSET, 0);
    bytes = records.iter().fold(bytes, encode_onto);
    let record_bytes = bytes.len() - BATCH_RECORDS_OFFSET;
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
    let mut header = BatchHeader {
        header_bytes: bytes.len() as u32,
        record_bytes: record_bytes as u32,
        record_count: records.len() as u32,
        data_bytes: (records.iter().map(LogRecord::data_blocks).sum::<u64>() * u64::from(BLOCK_BYTES)) as u32,
        crc: 0,
        ..header
    };
    bytes[..8].copy_from_slice(&MAGIC);
    for (at, word) in [
        (8, header.log_id),
        (16, header.position),
        (24, header.previous_position),
        (32, header.durable_position),
        (40, header.open_count),
    ] {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    for (at, word) in [
        (HEADER_BYTES_AT, header.header_bytes),
        (52, header.data_bytes),
        (56, header.record_bytes),
        (60, header.record_count),
        (64, header.previous_crc),
    ] {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    header.crc = crc32c(&bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&header.crc.to_le_bytes());
    (header, bytes)
}

/// The length that a header claims, from its first block; none when no header stands there. Not checked yet.
pub fn peek_batch_header_bytes(first_block: &[u8]) -> Option<u32> {
    if first_block.len() < BATCH_RECORDS_OFFSET || first_block[..8] != MAGIC {
        return None;
    }
    let len = u32_at(first_block, HEADER_BYTES_AT);
    (len > 0 && len.is_multiple_of(BLOCK_BYTES) && len <= BATCH_HEADER_BYTES_MAX).then_some(len)
}

/// The position that a header claims, from its first block; none when no header stands there. Not checked yet.
pub fn peek_batch_position(first_block: &[u8]) -> Option<u64> {
    peek_batch_header_bytes(first_block).map(|_| u64_at(first_block, 16))
}

/// The checksum that a header of these bytes has: of all of it, with zeroes for the checksum.
pub(crate) fn header_crc(bytes: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[..CRC_AT]);
    digest.update(&[0; 4]);
    digest.update(&bytes[CRC_AT + 4..]);
    digest.finalize() as u32
}

/// Decodes and checks the fixed part of a header. `bytes` begins at the header and may be longer.
pub fn decode_batch_header(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let len = peek_batch_header_bytes(bytes).ok_or(BatchError::NotAHeader)? as usize;
    let bytes = bytes.get(..len).ok_or(BatchError::Short)?;
    let crc = u32_at(bytes, CRC_AT);
    if header_crc(bytes) != crc {
        return Err(BatchError::Checksum);
    }
    let header = BatchHeader {
        log_id: u64_at(bytes, 8),
        position: u64_at(bytes, 16),
        previous_position: u64_at(bytes, 24),
        durable_position: u64_at(bytes, 32),
        open_count: u64_at(bytes, 40),
        header_bytes: len as u32,
        data_bytes: u32_at(bytes, 52),
        record_bytes: u32_at(bytes, 56),
        record_count: u32_at(bytes, 60),
        previous_crc: u32_at(bytes, 64),
        crc,
    };
    let block = u64::from(BLOCK_BYTES);
    let fits = header.record_bytes as usize <= len - BATCH_RECORDS_OFFSET
        && u64::from(header.data_bytes).is_multiple_of(block)
        && header.position.is_multiple_of(block)
        && header.position < POSITION_MAX
        && header.durable_position <= header.position;
    if fits { Ok(header) } else { Err(BatchError::Malformed) }
}

/// Decodes the records of a header that [`decode_batch_header`] accepted.
pub fn decode_batch_records(header: &BatchHeader, bytes: &[u8]) -> Result<Vec<LogRecord>, BatchError> {
    let end = BATCH_RECORDS_OFFSET + header.record_bytes as usize;
    let mut rest = bytes.get(BATCH_RECORDS_OFFSET..end).ok_or(BatchError::Malformed)?;
    let mut records = Vec::new();
    let mut data_blocks = 0u64;
    for _ in 0..header.record_count {
        let (record, after): (LogRecord, _) = postcard::take_from_bytes(rest).map_err(|_| BatchError::Malformed)?;
        if !record.is_sound() {
            return Err(BatchError::Malformed);
        }
        data_blocks = data_blocks.saturating_add(record.data_blocks());
        records.push(record);
        rest = after;
    }
    let claimed = u64::from(header.data_bytes / BLOCK_BYTES);
    if rest.is_empty() && data_blocks == claimed { Ok(records) } else { Err(BatchError::Malformed) }
}

#[cfg(test)]
mod tests {
    use cairn_types::{BlockRange, ClientTag, ComponentId, Epoch, HostId, Incarnation, ObjectId, OpId, SnapshotId};

    use super::*;
    use crate::{LogPiece, PlacedPiece, SlotRun};

    fn header() -> BatchHeader {
        BatchHeader {
            log_id: 0x1122_3344_5566_7788,
            position: 0x0010_0000,
            previous_position: 0x000f_e000,
            previous_crc: 0xdead_beef,
            durable_position: 0x0010_0000,
            open_count: 3,
            ..BatchHeader::default()
        }
    }

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 5, host: HostId(7), incarnation: Incarnation(2) }, seq }
    }

    fn records() -> Vec<LogRecord> {
        let component = ComponentId(0xc0);
        vec![
            LogRecord::CreateComponent {
                component,
                object: ObjectId(1),
                size_blocks: 1000,
                reserved_blocks: 0,
                device: 2,
            },
            LogRecord::Write {
                component,
                op: op(9),
                settled: op(8),
                client: ClientTag { session: 1, number: 300 },
                first_block: 77,
                crcs: vec![1, 2].into(),
            },
            LogRecord::Zero {
                component,
                op: op(10),
                settled: op(8),
                client: ClientTag::default(),
                range: BlockRange::new(5, 6),
                keep_allocated: true,
            },
            LogRecord::Copy {
                component,
                op: op(11),
                settled: op(9),
                pieces: vec![
                    LogPiece::Data { first_block: 0, crcs: vec![3].into() },
                    LogPiece::Hole { range: BlockRange::new(1, 255) },
                ],
            },
            LogRecord::Undo { component, op: op(10) },
            LogRecord::Settle { component, upto: op(11) },
            LogRecord::ResizeComponent { component, size_blocks: 2000, reserved_blocks: 10 },
            LogRecord::Record { object: ObjectId(1), bytes: vec![1, 2, 3] },
            LogRecord::DeleteComponent { component },
        ]
    }

    #[test]
    fn a_batch_reads_back() {
        let (header, bytes) = encode_batch(header(), &records());
        assert_eq!((bytes.len(), header.data_bytes), (4096, 3 * 4096));
        assert_eq!(decode_batch_header(&bytes), Ok(header));
        assert_eq!(decode_batch_records(&header, &bytes), Ok(records()));
        assert_eq!(records()[3].data_crcs().collect::<Vec<_>>(), [3]);
    }

    /// Old devices must be read by new code: if this fails, the format changed, and needs a new magic and a reader of the old.
    #[test]
    fn golden_bytes() {
        let (header, bytes) = encode_batch(header(), &records());
        assert_eq!(&bytes[..8], b"CAIRNLB1");
        assert_eq!(bytes[16..24], 0x0010_0000u64.to_le_bytes());
        assert_eq!((header.record_bytes, header.crc), GOLDEN);
    }
    const GOLDEN: (u32, u32) = (353, 3842258896);

    /// Records of rows, in the order of their variants.
    fn rows() -> Vec<LogRecord> {
        let component = ComponentId(0xc0);
        let (client, range) = (ClientTag { session: 1, number: 300 }, BlockRange::new(5, 6));
        let parity = LogPiece::Parity { first_block: 2, crcs: vec![3].into(), row_checks: vec![0x0403_0201].into() };
        let data = LogPiece::Data { first_block: 0, crcs: vec![1, 2].into() };
        let runs = vec![SlotRun { first_slot: 5, count: 1, generation: 9 }];
        let placed = PlacedPiece::Parity { first_block: 7, crcs: vec![4].into(), row_checks: vec![5].into(), runs };
        vec![
            LogRecord::Copy { component, op: op(9), settled: op(8), pieces: vec![parity.clone()] },
            LogRecord::Placed { component, op: op(10), settled: op(8), pieces: vec![placed] },
            LogRecord::Rows {
                component,
                op: op(11),
                settled: op(8),
                client,
                members: 0x105,
                pieces: vec![data, parity],
            },
            LogRecord::ZeroRows {
                component,
                op: op(12),
                settled: op(8),
                client,
                members: 5,
                range,
                keep_allocated: true,
            },
        ]
    }

    /// Goal: records of rows read back, whatever comes later. Method: bytes that are fixed, behind those of head and component.
    #[test]
    fn the_bytes_of_rows_are_fixed() {
        let (header, bytes) = encode_batch(header(), &rows());
        assert_eq!((bytes.len(), header.data_bytes), (4096, 4 * 4096));
        assert_eq!(decode_batch_records(&header, &bytes), Ok(rows()));
        assert!(rows().iter().all(|record| record.needs() == crate::Needs::PARITY));
        assert_eq!(rows()[2].data_crcs().collect::<Vec<_>>(), [1, 2, 3]);
        let number = |op: OpId| postcard::to_stdvec(&op).unwrap();
        let ends = |record: &LogRecord, variant: u8, numbers: [u64; 2], rest: &[u8]| {
            let id = 0xc0u128.to_le_bytes();
            let fixed = [&[variant], &id[..], &number(op(numbers[0])), &number(op(numbers[1])), rest].concat();
            assert_eq!(postcard::to_stdvec(record).unwrap(), fixed);
        };
        let check = [0x81, 0x84, 0x8c, 0x20];
        let [copy, placed, written, zeroed] = &rows()[..] else { panic!("four records") };
        ends(copy, 5, [9, 8], &[&[1, 3, 2, 1, 3, 1][..], &check].concat());
        ends(placed, 10, [10, 8], &[1, 2, 7, 1, 4, 1, 5, 1, 5, 1, 9]);
        let pieces = [&[2, 0, 0, 2, 1, 2, 3, 2, 1, 3, 1][..], &check].concat();
        ends(written, 11, [11, 8], &[&[1, 0xAC, 2, 0x85, 2][..], &pieces].concat());
        ends(zeroed, 12, [12, 8], &[1, 0xAC, 2, 5, 5, 6, 1]);
    }

    /// Goal: the record of cuts reads back, and one that no store writes is refused. Method: bytes that are fixed; cuts that do not ascend,
    /// are there twice, or are not decided.
    #[test]
    fn the_bytes_of_cuts_are_fixed() {
        let cuts = |cuts: &[(u64, u64)]| LogRecord::Cuts {
            component: ComponentId(0xc0),
            at: op(9),
            settled: op(8),
            cuts: cuts.iter().map(|&(snapshot, seq)| (SnapshotId(snapshot), op(seq))).collect(),
        };
        let good = cuts(&[(7, 5), (300, 8)]);
        assert_eq!(good.needs(), crate::Needs::CUTS);
        let number = |seq| postcard::to_stdvec(&op(seq)).unwrap();
        let parts =
            [&[13][..], &0xc0u128.to_le_bytes(), &number(9), &number(8), &[2, 7], &number(5), &[0xAC, 2], &number(8)];
        assert_eq!(postcard::to_stdvec(&good).unwrap(), parts.concat());
        let (header, bytes) = encode_batch(header(), std::slice::from_ref(&good));
        assert_eq!(decode_batch_records(&header, &bytes), Ok(vec![good]));
        let many: Vec<(u64, u64)> = (0..257).map(|at| (at, 5)).collect();
        assert!(cuts(&many[1..]).is_sound() && cuts(&[]).is_sound());
        for bad in [cuts(&[(1, 5), (2, 4)]), cuts(&[(1, 5), (1, 6)]), cuts(&[(1, 9)]), cuts(&many)] {
            assert!(!bad.is_sound(), "{bad:?}");
        }
    }

    /// The same of rows that no store writes: no member, other row checks than blocks, holes and marks, pieces that overlap.
    #[test]
    fn rows_that_no_store_writes_are_refused() {
        let (component, client) = (ComponentId(1), ClientTag::default());
        let record =
            |members, pieces| LogRecord::Rows { component, op: op(1), settled: op(0), client, members, pieces };
        let data = |first_block| LogPiece::Data { first_block, crcs: vec![1, 2].into() };
        let parity = |blocks, checks| LogPiece::Parity {
            first_block: 2,
            crcs: vec![1; blocks].into(),
            row_checks: vec![2; checks].into(),
        };
        let range = BlockRange::new(0, 1);
        let zeroes = |members, range| LogRecord::ZeroRows {
            component,
            op: op(1),
            settled: op(0),
            client,
            members,
            range,
            keep_allocated: false,
        };
        let copy = |pieces| LogRecord::Copy { component, op: op(1), settled: op(0), pieces };
        let run = SlotRun { first_slot: 5, count: 2, generation: 1 };
        let placed = |checks| {
            let (crcs, row_checks) = (vec![1, 2].into(), vec![3; checks].into());
            let piece = PlacedPiece::Parity { first_block: 0, crcs, row_checks, runs: vec![run] };
            LogRecord::Placed { component, op: op(1), settled: op(0), pieces: vec![piece] }
        };
        let good = [record(1, vec![data(0), parity(2, 2)]), zeroes(1, range), copy(vec![parity(1, 1)]), placed(2)];
        assert!(good.iter().all(LogRecord::is_sound));
        let bad = [
            record(0, vec![data(0)]),
            record(1, vec![]),
            record(1, vec![parity(2, 1)]),
            record(1, vec![parity(0, 0)]),
            record(1, vec![data(1), parity(1, 1)]),
            record(1, vec![LogPiece::Hole { range }]),
            record(1, vec![LogPiece::Bad { first_block: 0, crcs: vec![1].into() }]),
            zeroes(0, range),
            zeroes(1, BlockRange::new(0, 0)),
            copy(vec![parity(1, 2)]),
            placed(1),
            placed(3),
        ];
        bad.iter().for_each(|bad| assert!(!bad.is_sound(), "{bad:?}"));
    }

    #[test]
    fn records_that_no_store_writes_are_refused() {
        let component = ComponentId(1);
        let zero = |first, count| LogRecord::Zero {
            component,
            op: op(1),
            settled: op(0),
            client: ClientTag::default(),
            range: BlockRange::new(first, count),
            keep_allocated: false,
        };
        let copy = |ranges: &[(u64, u32)]| LogRecord::Copy {
            component,
            op: op(1),
            settled: op(0),
            pieces: ranges.iter().map(|&(f, n)| LogPiece::Hole { range: BlockRange::new(f, n) }).collect(),
        };
        let resize =
            |size_blocks, reserved_blocks| LogRecord::ResizeComponent { component, size_blocks, reserved_blocks };
        let most = crate::COMPONENT_BLOCKS_MAX;
        for good in [zero(0, 1), zero(most - 1, 1), copy(&[(0, 2), (2, 1), (9, 1)]), resize(most, 0)] {
            let (header, bytes) = encode_batch(header(), std::slice::from_ref(&good));
            assert_eq!(decode_batch_records(&header, &bytes), Ok(vec![good]));
        }
        let kept = LogRecord::Zero {
            component,
            op: op(1),
            settled: op(0),
            client: ClientTag::default(),
            range: BlockRange::new(0, crate::KEPT_ZERO_BLOCKS_MAX + 1),
            keep_allocated: true,
        };
        let placed = |slots: &[(u64, u32, u64)], crcs: usize| LogRecord::Placed {
            component,
            op: op(1),
            settled: op(0),
            pieces: vec![
                PlacedPiece::Hole { range: BlockRange::new(0, 2) },
                PlacedPiece::Data {
                    first_block: 2,
                    crcs: vec![7; crcs].into(),
                    runs: slots
                        .iter()
                        .map(|&(first_slot, count, generation)| SlotRun { first_slot, count, generation })
                        .collect(),
                },
            ],
        };
        let (good_header, bytes) = encode_batch(header(), &[placed(&[(5, 2, 1), (70, 1, 9)], 3)]);
        assert_eq!((good_header.data_bytes, decode_batch_records(&good_header, &bytes).map(|r| r.len())), (0, Ok(1)));
        let bad = [
            placed(&[(5, 2, 1)], 3),
            placed(&[(5, 3, 1), (9, 0, 1)], 3),
            placed(&[(u64::MAX, 3, 1)], 3),
            placed(&[(5, 3, u64::MAX)], 3),
            placed(&[], 0),
            kept,
            zero(0, 0),
            zero(most, 1),
            zero(u64::MAX, 7),
            copy(&[]),
            copy(&[(0, 2), (1, 1)]),
            copy(&[(4, 1), (0, 1)]),
            copy(&[(0, 0)]),
            resize(most + 1, 0),
            resize(1, u64::MAX),
        ];
        for bad in bad {
            let (header, bytes) = encode_batch(header(), std::slice::from_ref(&bad));
            assert_eq!(decode_batch_records(&header, &bytes), Err(BatchError::Malformed), "{bad:?}");
        }
    }

    /// Goal: no byte string makes the decoder panic or believe a damaged header. Method: every single-byte change and every cut.
    #[test]
    fn hostile_bytes_are_refused() {
        let (good, bytes) = encode_batch(header(), &records());
        for at in 0..600 {
            let mut bad = bytes.clone();
            bad[at] ^= 0x41;
            assert!(decode_batch_header(&bad).is_err(), "byte {at}");
            // A right checksum over wrong records must still not panic.
            let _ = decode_batch_records(&good, &bad);
            assert!(decode_batch_header(&bytes[..at]).is_err());
            let _ = decode_batch_records(&good, &bytes[..at]);
        }
    }
}
