//! A chain of segments as what is asked of a disk. Pure but for reading the machine's memory.
//!
//! Promises    what reaches the disk is inside it and in whole sectors; what is written is a copy that the machine changes no more
//!             nothing that would change a read-only disk reaches it
//! Source      virtio 1.2, section 5.2.6

use bytes::Bytes;
use cairn_env::PageBuf;
use smallvec::SmallVec;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
    VIRTIO_BLK_T_WRITE_ZEROES,
};
use vm_memory::{Address as _, GuestAddress, GuestMemoryMmap};

use crate::{
    chain::{Chain, Segment, Segments},
    device::{REQUEST_BYTES_MAX, SECTOR_BYTES, Told},
    memory::gather,
};

/// What is asked of the disk. Offsets and lengths in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Read {
        offset: u64,
        len_bytes: u32,
    },
    Write {
        offset: u64,
        data: Bytes,
    },
    WriteZeroes {
        offset: u64,
        len_bytes: u64,
        keep_allocated: bool,
    },
    Trim {
        offset: u64,
        len_bytes: u64,
    },
    Flush,
    /// The disk's name.
    Name,
}

/// How a request ended, as virtio writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Done = 0,
    IoError = 1,
    Unsupported = 2,
}

/// A request that gets an answer.
#[derive(Debug)]
pub(crate) struct Request {
    /// What to do, or how it ends without being done.
    pub(crate) ask: Result<Ask, Status>,
    /// Where what is read goes.
    pub(crate) into: Segments,
    /// Where the status byte goes, behind all else.
    pub(crate) status: GuestAddress,
}

/// Bytes of what every request begins with.
const HEADER_BYTES: usize = 16;
/// Bytes of the range that a trim and a zeroing name.
const RANGE_BYTES: usize = 16;
/// Of a zeroing: the space may be given back.
const UNMAP: u32 = 1;
/// Bytes of a name, at most.
pub(crate) const NAME_BYTES: u32 = 20;

impl Request {
    /// What the chain asks of the disk that its front end was told of.
    ///
    /// # Errors
    /// It has no place for an answer, or its header lies outside the memory: it is given back without one.
    pub(crate) fn take(memory: &GuestMemoryMmap, chain: Chain, told: Told) -> Result<Self, &'static str> {
        let Chain { readable, mut writable } = chain;
        let status = take_last_byte(&mut writable).ok_or("a request without room for its status")?;
        let mut header = [0; HEADER_BYTES];
        if total(&readable) < HEADER_BYTES as u64 {
            return Err("a request without a whole header");
        }
        gather(memory, &readable, &mut header).map_err(|_| "a header outside the memory")?;
        let (kind, _reserved, sector) = split_header(header);
        let payload = without_first(&readable, HEADER_BYTES as u32);
        let ask = ask(memory, kind, sector, &payload, total(&writable), told);
        Ok(Self { ask, into: writable, status })
    }

    /// Bytes that it holds in memory while it is under way.
    pub(crate) fn cost_bytes(&self) -> usize {
        match &self.ask {
            Ok(Ask::Read { len_bytes, .. }) => *len_bytes as usize,
            Ok(Ask::Write { data, .. }) => data.len(),
            _ => 0,
        }
    }
}

fn split_header(header: [u8; HEADER_BYTES]) -> (u32, u32, u64) {
    let [a, b, c, d, e, f, g, h, sector @ ..] = header;
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]), u64::from_le_bytes(sector))
}

fn ask(
    memory: &GuestMemoryMmap,
    kind: u32,
    sector: u64,
    payload: &[Segment],
    room: u64,
    told: Told,
) -> Result<Ask, Status> {
    let inside = |sector: u64, len: u64| {
        let offset = sector.checked_mul(SECTOR_BYTES).filter(|_| len > 0 && len.is_multiple_of(SECTOR_BYTES));
        let offset = offset.filter(|at| at.checked_add(len).is_some_and(|end| end <= told.size_bytes));
        offset.ok_or(Status::IoError)
    };
    let carried = |len: u64| if len <= REQUEST_BYTES_MAX { Ok(len as u32) } else { Err(Status::IoError) };
    if told.read_only && matches!(kind, VIRTIO_BLK_T_OUT | VIRTIO_BLK_T_DISCARD | VIRTIO_BLK_T_WRITE_ZEROES) {
        return Err(Status::IoError);
    }
    match kind {
        VIRTIO_BLK_T_IN => Ok(Ask::Read { offset: inside(sector, room)?, len_bytes: carried(room)? }),
        VIRTIO_BLK_T_OUT => {
            let len = total(payload);
            let (offset, len_bytes) = (inside(sector, len)?, carried(len)?);
            let mut data = PageBuf::dirty(len_bytes as usize);
            gather(memory, payload, &mut data).map_err(|_| Status::IoError)?;
            Ok(Ask::Write { offset, data: data.freeze() })
        }
        VIRTIO_BLK_T_FLUSH => Ok(Ask::Flush),
        VIRTIO_BLK_T_GET_ID => Ok(Ask::Name),
        VIRTIO_BLK_T_DISCARD | VIRTIO_BLK_T_WRITE_ZEROES => {
            // One range a request: what the configuration space says.
            if total(payload) != RANGE_BYTES as u64 {
                return Err(Status::Unsupported);
            }
            let mut range = [0; RANGE_BYTES];
            gather(memory, payload, &mut range).map_err(|_| Status::IoError)?;
            let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = range;
            let sector = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let len_bytes = u64::from(u32::from_le_bytes([i, j, k, l])) * SECTOR_BYTES;
            let flags = u32::from_le_bytes([m, n, o, p]);
            let offset = inside(sector, len_bytes)?;
            match kind {
                VIRTIO_BLK_T_DISCARD if flags == 0 => Ok(Ask::Trim { offset, len_bytes }),
                VIRTIO_BLK_T_WRITE_ZEROES if flags & !UNMAP == 0 => {
                    Ok(Ask::WriteZeroes { offset, len_bytes, keep_allocated: flags & UNMAP == 0 })
                }
                _ => Err(Status::Unsupported),
            }
        }
        _ => Err(Status::Unsupported),
    }
}

fn total(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.len)).sum()
}

/// What is behind the first `count` bytes.
fn without_first(segments: &[Segment], count: u32) -> Segments {
    let mut left = count;
    let rest = segments.iter().filter_map(|segment| {
        let cut = left.min(segment.len);
        left -= cut;
        segment.without_first(cut)
    });
    rest.collect::<SmallVec<_>>()
}

/// Takes the last byte off; where it lies.
fn take_last_byte(segments: &mut Segments) -> Option<GuestAddress> {
    while segments.last()?.len == 0 {
        segments.pop();
    }
    let last = segments.last_mut()?;
    last.len -= 1;
    last.at.checked_add(last.len.into())
}

#[cfg(test)]
mod tests {
    use vm_memory::Bytes as _;

    use super::*;

    const DISK: Told = Told { size_bytes: 1 << 20, alignment: None, read_only: false };

    /// A request of these header fields and payload, the readable part cut into pieces of `piece` bytes.
    fn take(kind: u32, sector: u64, payload: &[u8], room: u32, piece: usize) -> Result<Request, &'static str> {
        take_of(DISK, kind, sector, payload, room, piece)
    }

    fn take_of(
        disk: Told,
        kind: u32,
        sector: u64,
        payload: &[u8],
        room: u32,
        piece: usize,
    ) -> Result<Request, &'static str> {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 1 << 20)]).unwrap();
        let mut bytes = Vec::from(kind.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(sector.to_le_bytes());
        bytes.extend(payload);
        memory.write_slice(&bytes, GuestAddress(4096)).unwrap();
        let cut = |(number, piece_of): (usize, &[u8])| Segment {
            at: GuestAddress(4096 + (number * piece) as u64),
            len: piece_of.len() as u32,
        };
        let readable = bytes.chunks(piece).enumerate().map(cut).collect();
        let writable = [Segment { at: GuestAddress(1 << 19), len: room }].into_iter().collect();
        Request::take(&memory, Chain { readable, writable }, disk)
    }

    fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    }

    #[test]
    fn requests_are_read_however_they_are_cut() {
        let data: Vec<u8> = (0..1024).map(|i| i as u8).collect();
        for piece in [1, 7, 16, 100, 5000] {
            let write = take(VIRTIO_BLK_T_OUT, 3, &data, 1, piece).unwrap();
            assert_eq!(write.ask, Ok(Ask::Write { offset: 1536, data: data.clone().into() }));
            assert_eq!((write.status, write.cost_bytes()), (GuestAddress(1 << 19), 1024));
            let read = take(VIRTIO_BLK_T_IN, 2047, &[], 513, piece).unwrap();
            assert_eq!(read.ask, Ok(Ask::Read { offset: 2047 * 512, len_bytes: 512 }));
            assert_eq!(read.status, GuestAddress((1 << 19) + 512));
            let trim = take(VIRTIO_BLK_T_DISCARD, 0, &range(8, 16, 0), 1, piece).unwrap();
            assert_eq!(trim.ask, Ok(Ask::Trim { offset: 4096, len_bytes: 8192 }));
        }
        for (flags, keep_allocated) in [(0, true), (1, false)] {
            let zeroes = take(VIRTIO_BLK_T_WRITE_ZEROES, 0, &range(8, 8, flags), 1, 16).unwrap();
            assert_eq!(zeroes.ask, Ok(Ask::WriteZeroes { offset: 4096, len_bytes: 4096, keep_allocated }));
        }
        assert_eq!(take(VIRTIO_BLK_T_FLUSH, 0, &[], 1, 16).unwrap().ask, Ok(Ask::Flush));
        assert_eq!(take(VIRTIO_BLK_T_GET_ID, 0, &[], 21, 16).unwrap().ask, Ok(Ask::Name));
    }

    #[test]
    fn what_is_not_inside_the_disk_never_reaches_it() {
        let ends = |kind, sector, payload: &[u8], room, status| {
            assert_eq!(take(kind, sector, payload, room, 16).unwrap().ask, Err(status), "{kind} at {sector}");
        };
        ends(VIRTIO_BLK_T_IN, 2048, &[], 513, Status::IoError);
        ends(VIRTIO_BLK_T_IN, 2047, &[], 1025, Status::IoError);
        ends(VIRTIO_BLK_T_IN, u64::MAX, &[], 513, Status::IoError);
        ends(VIRTIO_BLK_T_IN, 1 << 55, &[], 513, Status::IoError);
        ends(VIRTIO_BLK_T_IN, 0, &[], 512, Status::IoError); // 511 bytes and the status
        ends(VIRTIO_BLK_T_OUT, 2047, &[0; 1024], 1, Status::IoError);
        ends(VIRTIO_BLK_T_OUT, 0, &[0; 100], 1, Status::IoError);
        ends(VIRTIO_BLK_T_DISCARD, 0, &range(2040, 9, 0), 1, Status::IoError);
        ends(VIRTIO_BLK_T_DISCARD, 0, &range(0, 8, 1), 1, Status::Unsupported);
        ends(VIRTIO_BLK_T_DISCARD, 0, &[range(0, 8, 0), range(8, 8, 0)].concat(), 1, Status::Unsupported);
        ends(VIRTIO_BLK_T_WRITE_ZEROES, 0, &range(0, 8, 2), 1, Status::Unsupported);
        ends(77, 0, &[], 1, Status::Unsupported);
    }

    /// Goal: what would change a read-only disk never reaches it, and all else does. Method: each kind of request, also ones that would
    /// fail at any disk.
    #[test]
    fn a_read_only_disk_is_only_read() {
        let asked = |kind, sector, payload: &[u8], room| {
            let disk = Told { read_only: true, ..DISK };
            take_of(disk, kind, sector, payload, room, 16).unwrap().ask
        };
        assert_eq!(asked(VIRTIO_BLK_T_OUT, 0, &[1; 512], 1), Err(Status::IoError));
        assert_eq!(asked(VIRTIO_BLK_T_OUT, 2048, &[1; 512], 1), Err(Status::IoError));
        for kind in [VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_WRITE_ZEROES] {
            assert_eq!(asked(kind, 0, &range(8, 8, 0), 1), Err(Status::IoError));
            assert_eq!(asked(kind, 0, &range(8, 8, 7), 1), Err(Status::IoError));
        }
        assert_eq!(asked(VIRTIO_BLK_T_IN, 8, &[], 513), Ok(Ask::Read { offset: 4096, len_bytes: 512 }));
        assert_eq!(asked(VIRTIO_BLK_T_FLUSH, 0, &[], 1), Ok(Ask::Flush));
        assert_eq!(asked(VIRTIO_BLK_T_GET_ID, 0, &[], 21), Ok(Ask::Name));
    }

    #[test]
    fn a_request_that_cannot_be_answered_is_none() {
        assert!(take(VIRTIO_BLK_T_IN, 0, &[], 0, 16).is_err(), "no room for a status");
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 4096)]).unwrap();
        let at = |at, len| Segment { at: GuestAddress(at), len };
        let of = |readable: Segment| Chain {
            readable: [readable].into_iter().collect(),
            writable: [at(0, 1)].into_iter().collect(),
        };
        assert!(Request::take(&memory, of(at(0, 15)), DISK).is_err(), "half a header");
        assert!(Request::take(&memory, of(at(4090, 16)), DISK).is_err(), "a header outside the memory");
    }
}
