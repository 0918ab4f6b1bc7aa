//! Reading blocks that are packed: the pages that they touch, unpacking, the checksum of the plain block.
//!
//! Promises    a block is given only if what was unpacked has its checksum (I7): bad bytes are a bad block, whatever they unpack to
//!             a long read is unpacked off the thread, so that others have their turn
//! Not here    where blocks stand and what is read with what (`read.rs`)

use bytes::Bytes;
use cairn_env::{DiskError, Env, PageBuf};
use cairn_format::{PAGE_SECTORS, SECTOR_BYTES, Spot, crc32c, unpack};
use cairn_types::{BLOCK_BYTES, Canary, Crcs};

use crate::{disk_group::Inner, segments::Pin};

const PAGE: u64 = BLOCK_BYTES as u64;
const SECTOR: u64 = SECTOR_BYTES as u64;
/// Pages of one device read, at most.
const PAGES_MAX: u64 = 256;
/// Blocks that are unpacked at once where they were asked for: 1 to 1.5 us each.
const UNPACKED_HERE_MAX: usize = 16;

/// Blocks that follow on, packed back to back on one device.
#[derive(Debug)]
pub(crate) struct PackedStretch {
    pub first_block: u64,
    pub crcs: Crcs,
    /// Of its blocks that are parity, as far as the last of those.
    pub row_checks: Vec<u32>,
    pub device: u8,
    spots: Vec<Spot>,
    /// Where sector 0 is.
    base: u64,
    segment: u64,
    _pin: Pin,
}

impl PackedStretch {
    pub fn new(block: u64, (device, base, segment): (u8, u64, u64), _pin: Pin) -> Self {
        let (crcs, row_checks, spots) = (Crcs::new(), Vec::new(), Vec::new());
        Self { first_block: block, crcs, row_checks, device, spots, base, segment, _pin }
    }
    /// Whether a block can be read with it.
    pub fn takes(&self, block: u64, spot: Spot, segment: u64) -> bool {
        let (Some(first), Some(last)) = (self.spots.first(), self.spots.last()) else { return true };
        self.first_block + self.spots.len() as u64 == block
            && last.end() == spot.sector()
            && self.segment == segment
            && (spot.end() - first.sector()) / u64::from(PAGE_SECTORS) + 2 <= PAGES_MAX
    }
    pub fn push(&mut self, spot: Spot, crc: u32, row_check: u32) {
        if row_check != 0 {
            self.row_checks.resize(self.crcs.len(), 0);
            self.row_checks.push(row_check);
        }
        self.crcs.push(crc);
        self.spots.push(spot);
    }
    pub fn blocks(&self) -> usize {
        self.spots.len()
    }
    /// The block that is the nth.
    fn block(&self, at: usize) -> u64 {
        self.first_block + at as u64
    }
}

/// Pages of a device that some sectors touch: where, and how long.
pub(crate) fn pages_of(from: u64, to: u64) -> (u64, u64) {
    let start = from - from % PAGE;
    (start, to.next_multiple_of(PAGE) - start)
}

/// Unpacks blocks that stand at these offsets of `bytes`. Which of them are not what their checksums say.
fn unpack_all(bytes: &[u8], places: &[(usize, usize)], crcs: &[u32]) -> (Bytes, Vec<usize>) {
    let mut data = PageBuf::zeroed(places.len() * PAGE as usize);
    let mut bad = Vec::new();
    for ((at, (from, len)), (block, crc)) in
        places.iter().enumerate().zip(data.chunks_exact_mut(PAGE as usize).zip(crcs))
    {
        let is_right =
            unpack(&bytes[*from..from + len], block) && (crc32c(block) == *crc || Canary::ChecksumUnread.sings());
        if !is_right {
            block.fill(0);
            bad.push(at);
        }
    }
    (data.freeze(), bad)
}

impl<E: Env> Inner<E> {
    /// The blocks of a stretch, and which of them are bad.
    pub(crate) async fn read_packed(&self, stretch: &PackedStretch) -> Result<(Bytes, Vec<u64>), DiskError> {
        let (first, last) = (stretch.spots[0], stretch.spots[stretch.spots.len() - 1]);
        let (offset, len) = pages_of(stretch.base + first.sector() * SECTOR, stretch.base + last.end() * SECTOR);
        let bytes = match self.read_device(stretch.device, offset, len as u32).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind == cairn_env::DiskErrorKind::Gone => return Err(error),
            Err(_) => return Ok(self.salvage_packed(stretch).await),
        };
        let place = |spot: &Spot| {
            let from = (stretch.base + spot.sector() * SECTOR - offset) as usize;
            (from, (u64::from(spot.sectors()) * SECTOR) as usize)
        };
        let places: Vec<(usize, usize)> = stretch.spots.iter().map(place).collect();
        let (data, bad) = match places.len() <= UNPACKED_HERE_MAX {
            true => unpack_all(&bytes, &places, &stretch.crcs),
            false => {
                let crcs = stretch.crcs.clone();
                self.env.run_blocking(move || unpack_all(&bytes, &places, &crcs)).await
            }
        };
        Ok((data, bad.into_iter().map(|at| stretch.block(at)).collect()))
    }

    /// The same block by block, where all of it could not be read.
    async fn salvage_packed(&self, stretch: &PackedStretch) -> (Bytes, Vec<u64>) {
        let mut data = PageBuf::zeroed(stretch.spots.len() * PAGE as usize);
        let mut bad = Vec::new();
        let blocks = data.chunks_exact_mut(PAGE as usize).zip(&stretch.spots).zip(&stretch.crcs);
        for (at, ((to, spot), crc)) in blocks.enumerate() {
            let offset = stretch.base + spot.sector() * SECTOR;
            match self.read_stored(stretch.device, offset, spot.sectors()).await {
                Ok(Some(block)) if crc32c(&block) == *crc => to.copy_from_slice(&block),
                _ => bad.push(stretch.block(at)),
            }
        }
        (data.freeze(), bad)
    }

    /// A block that stands in so many sectors, packed or not; none where they do not unpack. Its checksum is not looked at.
    pub(crate) async fn read_stored(&self, device: u8, offset: u64, sectors: u32) -> Result<Option<Bytes>, DiskError> {
        let (start, len) = pages_of(offset, offset + u64::from(sectors) * SECTOR);
        let bytes = self.read_device(device, start, len as u32).await?;
        let from = (offset - start) as usize;
        Ok(plain(&bytes.slice(from..from + (u64::from(sectors) * SECTOR) as usize)))
    }
}

/// A block as it is stored, unpacked where it is packed. None where it does not unpack.
pub(crate) fn plain(stored: &Bytes) -> Option<Bytes> {
    if stored.len() == PAGE as usize {
        return Some(stored.clone());
    }
    let mut block = PageBuf::zeroed(PAGE as usize);
    unpack(stored, &mut block).then(|| block.freeze())
}
