//! A run: what one destage or cleaning round appends to a capacity segment, `header pages | raw blocks | packed blocks`.
//!
//! The header names the owner of every block, so that the cleaner and `inspect` can read a segment without the
//! map. It is never overwritten in place: a segment is a sequence of runs.
//!
//! ```text
//!  0 magic "CAIRNRN1"   16 segment   24 generation   32 entries   36 CRC, this field zero
//!  8 log id             20 device    (u32 each)      40 reserved  64 entries of 32 bytes: component, block, CRC, flags
//! ```
//!
//! That is form 1, of runs of raw blocks without fingerprints. Form 2 has packed ones back to back in sectors behind the raw ones, up to the end of a
//! page:
//!
//! ```text
//!  0 magic "CAIRNRN2"   16 segment   24 generation   32 raw blocks   36 CRC, this field zero   40 packed blocks   44 components
//!  8 log id             20 device                    48 reserved     64 component ids, then items of 24 bytes, raw ones first:
//!  0 component by number (u16)   2 flags (u16): sectors less one, 7 raw; 8 pending; 16 moved   4 block (u32)   8 CRC of the plain block
//! 12 fingerprint (u64), 0: none 20 0 (u32)
//! ```
//!
//! An item that has several references and was moved (flag 16) is told by its name, not by an owner: 0 and 4 are the lowest 16 bits and the others
//! of its home's first sector, 20 is the generation of that ([`Spot::shared`]).

use cairn_types::{BLOCK_BYTES, ComponentId};

use crate::{
    Spot, crc32c,
    record::COMPONENT_BLOCKS_MAX,
    spot::{NAME_GENERATIONS, PACKED_SECTORS_MAX, PAGE_SECTORS},
};

const MAGIC: [u8; 8] = *b"CAIRNRN1";
const MAGIC_2: [u8; 8] = *b"CAIRNRN2";
const COMPONENT_BYTES: usize = 16;
/// Bytes of a header that name a block, at least: those of form 2.
pub const RUN_ITEM_BYTES: usize = 24;
/// Of an item's flags.
const SIZE_MASK: u16 = 7;
const PENDING: u16 = 8;
const MOVED: u16 = 16;
const CRC_AT: usize = 36;
const ENTRIES_AT: usize = 64;
const ENTRY_BYTES: usize = 32;
/// Blocks that one run has, at most: 64 MiB of data, a header of 129 pages.
pub const RUN_ENTRIES_PER_HEADER_MAX: u32 = 16 << 10;

/// The owner of one block of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunEntry {
    /// The component.
    pub component: ComponentId,
    /// The block within the component.
    pub block: u64,
    /// CRC-32C of its bytes.
    pub crc: u32,
    /// It belonged to an unsettled operation when it was written.
    pub pending: bool,
    /// Sectors that it takes: those of a page, or fewer where it is packed.
    pub sectors: u32,
    /// What tells blocks apart that are likely to be equal; 0: none was made.
    pub fingerprint: u64,
    /// The name of an item that has several references and was moved here; component and block are 0 then.
    pub name: Option<Spot>,
}

impl RunEntry {
    /// Whether it makes its run one of form 2.
    fn needs_form_2(&self) -> bool {
        self.is_packed() || self.fingerprint != 0 || self.name.is_some()
    }
    /// What it adds to its run.
    pub fn shape(&self) -> ItemShape {
        let (component, needs_form_2) = (self.name.is_none().then_some(self.component), self.needs_form_2());
        ItemShape { component, sectors: self.sectors, needs_form_2 }
    }
    /// Whether it is packed.
    pub fn is_packed(&self) -> bool {
        self.sectors != PAGE_SECTORS
    }
}

/// The head of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHeader {
    /// The same word as in the disk group's log.
    pub log_id: u64,
    /// The capacity device's index.
    pub device: u32,
    /// The segment.
    pub segment: u32,
    /// The use of the segment that the run belongs to: runs of earlier uses have lower ones.
    pub generation: u64,
    /// Owners of the blocks that follow, in order; those that are packed behind the others.
    pub entries: Vec<RunEntry>,
}

impl RunHeader {
    /// How large the run is.
    pub fn shape(&self) -> RunShape {
        let mut shape = RunShape::default();
        self.entries.iter().for_each(|entry| shape.push(entry.shape()));
        shape
    }

    /// Where its blocks stand, where the run begins at this page of the device, counted over the segments.
    pub fn spots(&self, page: u64) -> Vec<Spot> {
        let shape = self.shape();
        let mut slot = page + u64::from(shape.header_pages());
        let mut sector = (slot + u64::from(shape.raw)) * u64::from(PAGE_SECTORS);
        let spot = |entry: &RunEntry| {
            if let Some(packed) = Spot::packed(sector, entry.sectors) {
                sector = packed.end();
                return packed;
            }
            slot += 1;
            Spot::raw(slot - 1)
        };
        self.entries.iter().map(spot).collect()
    }
}

/// What a block adds to its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemShape {
    /// Its component; none where the item is told by its name.
    pub component: Option<ComponentId>,
    /// Sectors that it takes.
    pub sectors: u32,
    /// It is packed, or has a fingerprint or a name.
    pub needs_form_2: bool,
}

/// How large a run is that gets one block after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunShape {
    is_form_2: bool,
    /// Ascending.
    components: Vec<ComponentId>,
    last: Option<ComponentId>,
    raw: u32,
    packed: u32,
    packed_sectors: u32,
}

impl RunShape {
    /// Blocks.
    pub fn entries(&self) -> u32 {
        self.raw + self.packed
    }
    /// Pages of its header.
    pub fn header_pages(&self) -> u32 {
        header_pages(self.is_form_2.then_some(self.components.len()), self.entries())
    }
    /// Pages that it takes.
    pub fn pages(&self) -> u32 {
        self.header_pages() + self.raw + self.packed_sectors.div_ceil(PAGE_SECTORS)
    }
    /// The same with a block more.
    pub fn pages_with(&self, item: ItemShape) -> u32 {
        let (raw, packed, packed_sectors) = self.with(item.sectors);
        let components = self.components.len() + usize::from(!self.knows(item.component));
        let is_form_2 = self.is_form_2 || item.needs_form_2;
        header_pages(is_form_2.then_some(components), raw + packed) + raw + packed_sectors.div_ceil(PAGE_SECTORS)
    }
    /// A block more.
    pub fn push(&mut self, item: ItemShape) {
        self.is_form_2 |= item.needs_form_2;
        (self.raw, self.packed, self.packed_sectors) = self.with(item.sectors);
        if let Some(component) = item.component.filter(|_| !self.knows(item.component)) {
            let at = self.components.partition_point(|other| *other < component);
            self.components.insert(at, component);
        }
        self.last = item.component.or(self.last);
    }
    fn with(&self, sectors: u32) -> (u32, u32, u32) {
        match sectors {
            PAGE_SECTORS => (self.raw + 1, self.packed, self.packed_sectors),
            _ => (self.raw, self.packed + 1, self.packed_sectors + sectors),
        }
    }
    fn knows(&self, component: Option<ComponentId>) -> bool {
        component.is_none_or(|id| self.last == Some(id) || self.components.binary_search(&id).is_ok())
    }
}

/// `components`: how many a header of form 2 has.
fn header_pages(components: Option<usize>, entries: u32) -> u32 {
    match components {
        None => run_header_pages(entries),
        Some(components) => header_bytes(components, entries as usize).div_ceil(BLOCK_BYTES as usize) as u32,
    }
}

/// Pages of a header of `entries` entries of one component, of which some are packed.
pub fn packed_header_pages(entries: u32) -> u32 {
    header_pages(Some(1), entries)
}

fn header_bytes(components: usize, items: usize) -> usize {
    ENTRIES_AT + components * COMPONENT_BYTES + items * RUN_ITEM_BYTES
}

/// Why bytes are not a run header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// No run begins here.
    #[error("no run begins here")]
    NotARun,
    /// Its header is longer than what was passed: read this many bytes.
    #[error("the run header has {0} bytes")]
    Short(u32),
    /// Its checksum is wrong.
    #[error("the checksum of the run header is wrong")]
    Checksum,
    /// The checksum is right, the contents make no sense.
    #[error("the run header contradicts itself")]
    Malformed,
}

/// Pages of a header of `entries` raw entries.
pub fn run_header_pages(entries: u32) -> u32 {
    (ENTRIES_AT + entries as usize * ENTRY_BYTES).div_ceil(BLOCK_BYTES as usize) as u32
}

/// Encodes a run's header to whole pages.
///
/// # Panics
/// When a packed entry stands before a raw one, or has other sectors than one has.
pub fn encode_run_header(header: &RunHeader) -> Vec<u8> {
    let count = header.entries.len() as u32;
    if header.entries.iter().any(RunEntry::needs_form_2) {
        return encode_form_2(header);
    }
    let mut bytes = head(header, MAGIC, count, run_header_pages(count));
    for (slot, entry) in bytes[ENTRIES_AT..].chunks_exact_mut(ENTRY_BYTES).zip(&header.entries) {
        slot[..16].copy_from_slice(&entry.component.0.to_le_bytes());
        slot[16..24].copy_from_slice(&entry.block.to_le_bytes());
        slot[24..28].copy_from_slice(&entry.crc.to_le_bytes());
        slot[28..32].copy_from_slice(&u32::from(entry.pending).to_le_bytes());
    }
    seal(bytes)
}

fn head(header: &RunHeader, magic: [u8; 8], count: u32, pages: u32) -> Vec<u8> {
    let mut bytes = vec![0u8; pages as usize * BLOCK_BYTES as usize];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..16].copy_from_slice(&header.log_id.to_le_bytes());
    bytes[16..20].copy_from_slice(&header.segment.to_le_bytes());
    bytes[20..24].copy_from_slice(&header.device.to_le_bytes());
    bytes[24..32].copy_from_slice(&header.generation.to_le_bytes());
    bytes[32..36].copy_from_slice(&count.to_le_bytes());
    bytes
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn encode_form_2(header: &RunHeader) -> Vec<u8> {
    let shape = header.shape();
    let sorted = header.entries.is_sorted_by_key(RunEntry::is_packed);
    assert!(sorted && header.entries.iter().all(|entry| is_size(entry.sectors)), "raw blocks, then packed ones");
    let mut bytes = head(header, MAGIC_2, shape.raw, shape.header_pages());
    bytes[40..44].copy_from_slice(&shape.packed.to_le_bytes());
    bytes[44..48].copy_from_slice(&(shape.components.len() as u32).to_le_bytes());
    let items_at = header_bytes(shape.components.len(), 0);
    for (slot, id) in bytes[ENTRIES_AT..].chunks_exact_mut(COMPONENT_BYTES).zip(&shape.components) {
        slot.copy_from_slice(&id.0.to_le_bytes());
    }
    for (slot, entry) in bytes[items_at..].chunks_exact_mut(RUN_ITEM_BYTES).zip(&header.entries) {
        let number = || shape.components.binary_search(&entry.component).expect("pushed above") as u16;
        let flags = (entry.sectors - 1) as u16 | if entry.pending { PENDING } else { 0 };
        let (low, flags, high) = match entry.name {
            None => (number(), flags, entry.block as u32),
            Some(name) => (name.sector() as u16, flags | MOVED, (name.sector() >> 16) as u32),
        };
        slot[..2].copy_from_slice(&low.to_le_bytes());
        slot[2..4].copy_from_slice(&flags.to_le_bytes());
        slot[4..8].copy_from_slice(&high.to_le_bytes());
        slot[8..12].copy_from_slice(&entry.crc.to_le_bytes());
        slot[12..20].copy_from_slice(&entry.fingerprint.to_le_bytes());
        slot[20..24].copy_from_slice(&entry.name.map_or(0, Spot::generation).to_le_bytes());
    }
    seal(bytes)
}

/// Whether a block may take so many sectors.
fn is_size(sectors: u32) -> bool {
    matches!(sectors, 1..=PACKED_SECTORS_MAX | PAGE_SECTORS)
}

/// Decodes and checks a run's header. `bytes` begins at the header and may be longer.
pub fn decode_run_header(bytes: &[u8]) -> Result<RunHeader, RunError> {
    if bytes.len() < ENTRIES_AT || bytes[..8] != MAGIC && bytes[..8] != MAGIC_2 {
        return Err(RunError::NotARun);
    }
    let is_form_2 = bytes[..8] == MAGIC_2;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let (raw, packed, components) = if is_form_2 { (word(32), word(40), word(44)) } else { (word(32), 0, 0) };
    let count = raw.saturating_add(packed);
    if count > RUN_ENTRIES_PER_HEADER_MAX || components > count {
        return Err(RunError::NotARun);
    }
    let len = header_pages(is_form_2.then_some(components as usize), count) * BLOCK_BYTES;
    let bytes = bytes.get(..len as usize).ok_or(RunError::Short(len))?;
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[..CRC_AT]);
    digest.update(&[0; 4]);
    digest.update(&bytes[CRC_AT + 4..]);
    if digest.finalize() as u32 != word(CRC_AT) {
        return Err(RunError::Checksum);
    }
    if is_form_2 {
        let entries = entries_of_form_2(bytes, (raw, packed), components as usize).ok_or(RunError::Malformed)?;
        if !entries.iter().any(RunEntry::needs_form_2) {
            return Err(RunError::Malformed);
        }
        return Ok(RunHeader { log_id: long(8), device: word(20), segment: word(16), generation: long(24), entries });
    }
    let entries = bytes[ENTRIES_AT..]
        .chunks_exact(ENTRY_BYTES)
        .take(count as usize)
        .map(|slot| RunEntry {
            component: ComponentId(u128::from_le_bytes(slot[..16].try_into().expect("sixteen bytes"))),
            block: u64::from_le_bytes(slot[16..24].try_into().expect("eight bytes")),
            crc: u32::from_le_bytes(slot[24..28].try_into().expect("four bytes")),
            pending: slot[28] != 0,
            sectors: PAGE_SECTORS,
            fingerprint: 0,
            name: None,
        })
        .collect();
    Ok(RunHeader { log_id: long(8), device: word(20), segment: word(16), generation: long(24), entries })
}

/// The entries of a header as long as they need.
fn entries_of_form_2(bytes: &[u8], (raw, packed): (u32, u32), components: usize) -> Option<Vec<RunEntry>> {
    let (ids, _) = bytes[ENTRIES_AT..header_bytes(components, 0)].as_chunks::<COMPONENT_BYTES>();
    if !ids.iter().map(|id| u128::from_le_bytes(*id)).is_sorted_by(|a, b| a < b) {
        return None;
    }
    let (items, _) = bytes[header_bytes(components, 0)..].as_chunks::<RUN_ITEM_BYTES>();
    let mut entries = Vec::with_capacity((raw + packed) as usize);
    for (at, item) in (0..raw + packed).zip(items) {
        let short = |at: usize| u16::from_le_bytes([item[at], item[at + 1]]);
        let word = |at: usize| u32::from_le_bytes(item[at..at + 4].try_into().expect("four bytes"));
        let (flags, high) = (short(2), u64::from(word(4)));
        let name = if flags & MOVED != 0 { Some(name_of(item, flags & SIZE_MASK)?) } else { None };
        let (component, block) = match name {
            None => (ComponentId(u128::from_le_bytes(*ids.get(usize::from(short(0)))?)), high),
            Some(_) => (ComponentId::default(), 0),
        };
        let entry = RunEntry {
            component,
            block,
            crc: word(8),
            pending: flags & PENDING != 0,
            sectors: u32::from(flags & SIZE_MASK) + 1,
            fingerprint: u64::from_le_bytes(item[12..20].try_into().expect("eight bytes")),
            name,
        };
        let known = flags & !(SIZE_MASK | PENDING | MOVED) == 0
            && block < COMPONENT_BLOCKS_MAX
            && (name.is_some() || word(20) == 0);
        if !known || !is_size(entry.sectors) || entry.is_packed() != (at >= raw) {
            return None;
        }
        entries.push(entry);
    }
    Some(entries)
}

/// The name of a moved item.
fn name_of(item: &[u8; RUN_ITEM_BYTES], size: u16) -> Option<Spot> {
    let word = |at: usize| u32::from_le_bytes(item[at..at + 4].try_into().expect("four bytes"));
    let sector = u64::from(u16::from_le_bytes([item[0], item[1]])) | u64::from(word(4)) << 16;
    let home = match u32::from(size) + 1 {
        PAGE_SECTORS if !sector.is_multiple_of(u64::from(PAGE_SECTORS)) => None,
        PAGE_SECTORS => Spot::of_slot(sector / u64::from(PAGE_SECTORS)).filter(|spot| spot.is_place()),
        sectors => Spot::packed(sector, sectors),
    };
    home.filter(|_| u64::from(word(20)) < NAME_GENERATIONS).map(|home| home.shared(u64::from(word(20))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunHeader {
        let entry = |block| RunEntry {
            component: ComponentId(9),
            block,
            crc: 7,
            pending: block == 3,
            sectors: 8,
            fingerprint: 0,
            name: None,
        };
        RunHeader { log_id: 1, device: 2, segment: 3, generation: 4, entries: (0..200).map(entry).collect() }
    }

    #[test]
    fn a_run_reads_back_and_keeps_its_bytes() {
        let bytes = encode_run_header(&run());
        assert_eq!(bytes.len(), 8192);
        assert_eq!(decode_run_header(&bytes), Ok(run()));
        assert_eq!(decode_run_header(&bytes[..4096]), Err(RunError::Short(8192)));
        // Old devices must be read by new code.
        assert_eq!(crc32c(&bytes), GOLDEN);
    }
    const GOLDEN: u32 = 3214440540;

    #[test]
    fn hostile_bytes_are_refused() {
        let bytes = encode_run_header(&run());
        for at in 0..8192 {
            let mut bad = bytes.clone();
            bad[at] ^= 0x80;
            assert!(decode_run_header(&bad).is_err(), "byte {at}");
        }
        assert!(decode_run_header(&[]).is_err());
    }

    /// Two raw blocks, then packed ones of two components, more than a page of the header has.
    fn packed_run() -> RunHeader {
        let entry = |at: u64| {
            let (component, sectors) =
                (ComponentId(9 - u128::from(at % 2)), if at < 2 { 8 } else { at as u32 % 6 + 1 });
            let (block, crc) = (at * 1000, at as u32);
            RunEntry { component, block, crc, pending: at == 3, sectors, fingerprint: 0, name: None }
        };
        RunHeader { log_id: 1, device: 2, segment: 3, generation: 4, entries: (0..200).map(entry).collect() }
    }

    #[test]
    fn a_run_with_packed_blocks_reads_back_and_keeps_its_bytes() {
        let (run, bytes) = (packed_run(), encode_run_header(&packed_run()));
        assert_eq!((bytes.len(), &bytes[..8]), (8192, &MAGIC_2[..]));
        assert_eq!(decode_run_header(&bytes), Ok(run.clone()));
        assert_eq!(decode_run_header(&bytes[..4096]), Err(RunError::Short(8192)));
        assert_eq!(crc32c(&bytes), GOLDEN_2);
        for at in 0..8192 {
            let mut bad = bytes.clone();
            bad[at] ^= 0x80;
            assert!(decode_run_header(&bad).is_err(), "byte {at}");
            // With a sound checksum it may be a run, but nothing worse happens.
            bad[CRC_AT..CRC_AT + 4].fill(0);
            let _ = decode_run_header(&seal(bad));
        }
        let spots = run.spots(100);
        assert_eq!((spots[0], spots[1], spots[2].sector()), (Spot::raw(102), Spot::raw(103), 104 * 8));
        assert!(spots[2..].windows(2).all(|pair| pair[0].end() == pair[1].sector()));
        let mut shape = RunShape::default();
        for entry in &run.entries {
            let pages = shape.pages_with(entry.shape());
            shape.push(entry.shape());
            assert_eq!(shape.pages(), pages);
        }
        let end = spots.last().expect("it has some").end();
        assert_eq!(u64::from(shape.pages()), end.div_ceil(8) - 100);
    }
    const GOLDEN_2: u32 = 2944581697;

    /// Goal: fingerprints and names of moved items read back, and keep their bytes; a run of them is of form 2, packed or not. Method: raw ones alone;
    /// with packed ones; names of both.
    #[test]
    fn fingerprints_and_names_read_back() {
        let mut run = run();
        run.entries.iter_mut().for_each(|entry| entry.fingerprint = 1000 + entry.block);
        let bytes = encode_run_header(&run);
        assert_eq!((bytes.len(), &bytes[..8]), (8192, &MAGIC_2[..]));
        assert_eq!(decode_run_header(&bytes), Ok(run.clone()));
        assert_eq!(run.spots(10)[0], Spot::raw(12));
        let mut run = packed_run();
        for (at, entry) in run.entries.iter_mut().enumerate().filter(|(at, _)| at % 3 == 0) {
            let home = Spot::packed(70_000 + at as u64, entry.sectors).unwrap_or_else(|| Spot::raw(1 << 34));
            (entry.component, entry.block, entry.name) = (ComponentId::default(), 0, Some(home.shared(at as u64)));
            entry.fingerprint = u64::MAX - at as u64;
        }
        let bytes = encode_run_header(&run);
        assert_eq!(decode_run_header(&bytes), Ok(run.clone()));
        assert_eq!(crc32c(&bytes), GOLDEN_3);
        // All of them moved: of no component.
        run.entries.retain(|entry| entry.name.is_some());
        assert_eq!(decode_run_header(&encode_run_header(&run)), Ok(run.clone()));
        assert_eq!(run.shape().components.len(), 0);
    }
    const GOLDEN_3: u32 = 4215203455;
}
