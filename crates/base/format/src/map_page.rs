//! A page of the block map: entries of one shard, in order of blocks, packed into 4 KiB.
//!
//! Promises    a page is never written over; who reads one compares all that it names with what sent them there
//!             every length is checked before it is used
//! Not here    where pages stand and which ones hold (`store`)
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `CAIRNMP1` |
//! | 8..12 | CRC-32C of the page with zeroes here |
//! | 12..28, 28..30 | component, shard |
//! | 30..32 | 0 |
//! | 32..40 | number of the transaction that wrote it |
//! | 40..42, 42..44, 44..46 | first block that it answers for, entries, bytes of the body |
//! | 46, 47, 48, 49 | epochs, bytes of a slot, bytes of a sequence, 1: slots are [`Spot`]s |
//! | 50..58, 58..66 | least slot, least sequence |
//! | 66.. | epochs of 32 bytes, then the body |
//!
//! The body is runs: a head, then a CRC-32C an entry. A head is `varint blocks passed over, varint entries * 8 + form, varint epoch, slot,
//! sequence`. The epoch is left out where the page has one; slot and sequence are less the least. Form 0: slots follow on, one operation. Form 1: the same,
//! operations step by one. Form 3: one operation, and before each CRC a slot of eight bytes, for what
//! stands in no slot. Form 4: slot and sequence before each CRC, none in the head. Forms 5 and 6 are of parity, with a row check behind each
//! CRC. Form 5: slots follow on, operations step by a varint behind the sequence. Form 6: as form 4. No run crosses a boundary of
//! [`LEAF_BLOCKS`] blocks.
//!
//! Slots are spots where a block of the page is packed, or shared. Form 2 is of such blocks that stand back to back, of shared ones by their
//! names: operations step as in form 5, and before each CRC a byte has the lowest bits of the spot. Form 7: the same of parity.

use cairn_types::{ComponentId, Epoch, HostId, Incarnation, OpId};

use crate::{Spot, crc32c, spot::PAGE_SHIFT, varint};

/// Blocks that are looked up together: a leaf.
pub const LEAF_BLOCKS: u64 = 64;
/// Blocks of a shard of the map: 256 MiB of a component.
pub const SHARD_BLOCKS: u64 = 1 << 16;
/// Bytes of a page.
pub const MAP_PAGE_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"CAIRNMP1";
const HEAD_BYTES: usize = 66;
pub(crate) const EPOCH_BYTES: usize = 32;
/// Of the varint that has a run's entries above them.
pub(crate) const FORM_BITS: u64 = 3;

/// One mapped block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapEntry {
    /// Where it stands; or [`Spot::ZERO`], or [`Spot::BAD`].
    pub spot: Spot,
    /// Its CRC-32C.
    pub crc: u32,
    /// What a block of parity says of the data that it was made from (`cairn-parity`); 0 for data. Of what stands nowhere it is not kept.
    pub row_check: u32,
    /// The operation that wrote it.
    pub op: OpId,
}

/// A page as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapPage {
    /// Of which component.
    pub component: ComponentId,
    /// Of which of its shards.
    pub shard: u16,
    /// The transaction that wrote it.
    pub number: u64,
    /// The first block of the shard that it answers for, at the start of a leaf.
    pub first: u16,
    /// Block of the shard, entry; ascending.
    pub entries: Vec<(u16, MapEntry)>,
}

/// A page to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedPage {
    /// As [`MapPage::first`].
    pub first: u16,
    /// [`MAP_PAGE_BYTES`] of them.
    pub bytes: Vec<u8>,
}

/// How the entries of a run follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Slots follow on, one operation.
    Follows = 0,
    /// Slots follow on, operations step by one.
    Steps = 1,
    /// Packed or shared, back to back, operations keep a step.
    Packed = 2,
    /// No place on a device, one operation.
    Unplaced = 3,
    /// Slots and operations of one epoch as they come.
    Scattered = 4,
    /// Parity: slots follow on, operations keep a step.
    ParityFollows = 5,
    /// Parity: slots and operations of one epoch as they come.
    ParityScattered = 6,
    /// Parity: packed or shared, back to back, operations keep a step.
    ParityPacked = 7,
}

impl Form {
    fn of(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Follows,
            1 => Self::Steps,
            2 => Self::Packed,
            3 => Self::Unplaced,
            4 => Self::Scattered,
            5 => Self::ParityFollows,
            6 => Self::ParityScattered,
            7 => Self::ParityPacked,
            _ => return None,
        })
    }
    /// Of a run in changes: those have no scattered ones.
    pub(crate) fn of_changes(number: u64) -> Option<Self> {
        Self::of(number).filter(|form| !form.is_scattered())
    }
    /// Slots and sequences stand with each entry.
    fn is_scattered(self) -> bool {
        matches!(self, Self::Scattered | Self::ParityScattered)
    }
    /// There is a row check behind each CRC.
    pub(crate) fn has_row_checks(self) -> bool {
        matches!(self, Self::ParityFollows | Self::ParityScattered | Self::ParityPacked)
    }
    /// There are the lowest bits of the spot before each CRC.
    pub(crate) fn is_packed(self) -> bool {
        matches!(self, Self::Packed | Self::ParityPacked)
    }
    /// The head tells by how much operations step.
    pub(crate) fn has_step(self) -> bool {
        self == Self::ParityFollows || self.is_packed()
    }
    /// What operations step by where the head does not tell.
    pub(crate) fn own_step(self) -> u64 {
        u64::from(self == Self::Steps)
    }
}

/// Of entries of which each may follow the one before in a run, if the rest agrees: blocks that follow on, in one leaf and epoch, parity
/// or none of them.
fn follows(entries: &[(u64, MapEntry)], at: usize) -> bool {
    let ((block, first), (next, entry)) = (entries[0], entries[at]);
    next == block + at as u64
        && next / LEAF_BLOCKS == block / LEAF_BLOCKS
        && entry.op.epoch == first.op.epoch
        && (entry.row_check == 0) == (first.row_check == 0)
}

/// Entries at the front of `entries` that make one run: blocks that follow on, in one leaf.
pub(crate) fn first_run(entries: &[(u64, MapEntry)]) -> (Form, usize) {
    let (_, first) = entries[0];
    let (placed, packed) = (first.spot.is_place(), first.spot.is_wide());
    let is_next = |at: usize| {
        let spot = entries[at].1.spot;
        let stands = match (placed, packed) {
            (true, false) => spot.bits() == first.spot.page_after(at as u64),
            (true, true) => spot.is_wide() && spot.number() == entries[at - 1].1.spot.number_behind(),
            (false, _) => !spot.is_place(),
        };
        follows(entries, at) && stands
    };
    let run = |step: u64| {
        let in_step = |at: &usize| {
            is_next(*at) && entries[*at].1.op.seq == first.op.seq.wrapping_add(step.wrapping_mul(*at as u64))
        };
        1 + (1..entries.len()).take_while(in_step).count()
    };
    let same = run(0);
    if !placed {
        return (Form::Unplaced, same);
    }
    if first.row_check != 0 || packed {
        // The step of two may be chance, and what comes behind a longer run.
        let stepping = run(step_of(entries));
        let form = match (first.row_check != 0, packed) {
            (true, true) => Form::ParityPacked,
            (true, false) => Form::ParityFollows,
            (false, _) => Form::Packed,
        };
        return (form, if stepping > 2 { stepping } else { same });
    }
    match run(1) {
        steps if steps > same => (Form::Steps, steps),
        _ => (Form::Follows, same),
    }
}

/// By how much the second operation of a run is above the first; 0 where it is not.
pub(crate) fn step_of(run: &[(u64, MapEntry)]) -> u64 {
    match run {
        [(_, first), (_, second), ..] => second.op.seq.saturating_sub(first.op.seq),
        _ => 0,
    }
}

/// The same in a page: runs of one or two become one that is scattered.
fn first_page_run(entries: &[(u64, MapEntry)]) -> (Form, usize) {
    let found = first_run(entries);
    let is_short = |(form, count): (Form, usize)| form != Form::Unplaced && count < 3;
    if !is_short(found) {
        return found;
    }
    let mut count = found.1;
    while count < entries.len() && follows(entries, count) {
        let next = first_run(&entries[count..(count + 3).min(entries.len())]);
        if !is_short(next) {
            break;
        }
        count += next.1;
    }
    match found.0 {
        Form::ParityFollows | Form::ParityPacked => (Form::ParityScattered, count),
        Form::Packed => (Form::Scattered, count),
        _ if count > found.1 => (Form::Scattered, count),
        _ => found,
    }
}

/// What some entries take in a page: what a page of several leaves takes is known before it is written.
#[derive(Debug, Clone)]
struct Measure {
    /// Of counts and CRCs.
    fixed: usize,
    runs: usize,
    /// Times that a slot is written, and a sequence.
    slot_count: usize,
    sequence_count: usize,
    /// The least and the last place, as bits.
    spots: (u64, u64),
    /// Some are packed or shared.
    has_packed: bool,
    sequences: (u64, u64),
    epochs: Vec<Epoch>,
}

/// Of the way from one leaf's last entry to the next one's first, beside what the first byte tells.
const LEAF_GAP_BYTES: usize = 2;

impl Measure {
    fn none() -> Self {
        let nothing = (u64::MAX, 0);
        Self {
            fixed: 0,
            runs: 0,
            slot_count: 0,
            sequence_count: 0,
            spots: nothing,
            has_packed: false,
            sequences: nothing,
            epochs: Vec::new(),
        }
    }
    /// Of the entries of one leaf.
    fn of(entries: &[(u64, MapEntry)]) -> Self {
        let mut measure = Self { fixed: LEAF_GAP_BYTES, ..Self::none() };
        let mut rest = entries;
        while let Some((_, first)) = rest.first() {
            let (form, count) = first_page_run(rest);
            let numbers = if form.has_row_checks() { 8 } else { 4 };
            // A gap within a leaf takes one byte.
            let sizes = usize::from(form.is_packed());
            measure.fixed += 1 + varint::len((count as u64) << FORM_BITS) + (numbers + sizes) * count;
            if form.has_step() {
                measure.fixed += varint::len(step_of(&rest[..count]));
            }
            measure.runs += 1;
            (measure.slot_count, measure.sequence_count) = match form {
                Form::Follows | Form::Steps | Form::ParityFollows | Form::Packed | Form::ParityPacked => {
                    (measure.slot_count + 1, measure.sequence_count + 1)
                }
                Form::Scattered | Form::ParityScattered => (measure.slot_count + count, measure.sequence_count + count),
                Form::Unplaced => {
                    measure.fixed += 8 * count;
                    (measure.slot_count, measure.sequence_count + 1)
                }
            };
            for (_, entry) in &rest[..count] {
                if form != Form::Unplaced {
                    let bits = entry.spot.bits();
                    measure.spots = (measure.spots.0.min(bits), measure.spots.1.max(bits));
                    measure.has_packed |= entry.spot.is_wide();
                }
                let sequence = entry.op.seq;
                measure.sequences = (measure.sequences.0.min(sequence), measure.sequences.1.max(sequence));
            }
            if !measure.epochs.contains(&first.op.epoch) {
                measure.epochs.push(first.op.epoch);
            }
            rest = &rest[count..];
        }
        measure
    }
    fn with(&self, other: &Self) -> Self {
        let span = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.max(b.1));
        let mut epochs = self.epochs.clone();
        other.epochs.iter().for_each(|epoch| {
            if !epochs.contains(epoch) {
                epochs.push(*epoch);
            }
        });
        Self {
            fixed: self.fixed + other.fixed,
            runs: self.runs + other.runs,
            slot_count: self.slot_count + other.slot_count,
            sequence_count: self.sequence_count + other.sequence_count,
            spots: span(self.spots, other.spots),
            has_packed: self.has_packed || other.has_packed,
            sequences: span(self.sequences, other.sequences),
            epochs,
        }
    }
    /// What a page has of a place: its bits, or its slot where nothing is packed.
    fn number(&self, bits: u64) -> u64 {
        if self.has_packed { bits } else { bits >> PAGE_SHIFT }
    }
    fn slot_bytes(&self) -> usize {
        bytes_for(self.number(self.spots.1).saturating_sub(self.number(self.spots.0)))
    }
    fn sequence_bytes(&self) -> usize {
        bytes_for(self.sequences.1.saturating_sub(self.sequences.0))
    }
    /// At most.
    fn page_bytes(&self) -> usize {
        HEAD_BYTES
            + EPOCH_BYTES * self.epochs.len()
            + self.fixed
            + if self.epochs.len() > 1 { self.runs } else { 0 }
            + self.slot_count * self.slot_bytes()
            + self.sequence_count * self.sequence_bytes()
    }
}

fn bytes_for(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(8)
}

/// Packs entries of a shard into as few pages as leaves allow: a leaf is on one page. `entries` are (block of the shard, entry),
/// ascending; at most `leaves_max` leaves come to a page.
///
/// # Panics
/// When blocks do not ascend below [`SHARD_BLOCKS`], an entry has [`Spot::NONE`], or a row check and no place.
pub fn pack_map_pages(
    component: ComponentId,
    shard: u16,
    number: u64,
    entries: &[(u64, MapEntry)],
    leaves_max: usize,
) -> Vec<PackedPage> {
    assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "blocks ascend");
    assert!(
        entries.iter().all(|(block, entry)| *block < SHARD_BLOCKS && entry.spot != Spot::NONE),
        "blocks of a shard"
    );
    assert!(entries.iter().all(|(_, entry)| entry.row_check == 0 || entry.spot.is_place()), "parity has a place");
    let mut pages = Vec::new();
    let mut write = |from: usize, to: usize, measure: &Measure| {
        pages.push(encode(component, shard, number, &entries[from..to], measure));
    };
    let (mut from, mut at, mut leaves, mut measure) = (0, 0, 0, Measure::none());
    for leaf in entries.chunk_by(|a, b| a.0 / LEAF_BLOCKS == b.0 / LEAF_BLOCKS) {
        let own = Measure::of(leaf);
        let together = measure.with(&own);
        if leaves > 0 && (together.page_bytes() > MAP_PAGE_BYTES || leaves >= leaves_max) {
            write(from, at, &measure);
            (from, leaves, measure) = (at, 1, own);
        } else {
            (leaves, measure) = (leaves + 1, together);
        }
        at += leaf.len();
    }
    if leaves > 0 {
        write(from, at, &measure);
    }
    pages
}

fn encode(
    component: ComponentId,
    shard: u16,
    number: u64,
    entries: &[(u64, MapEntry)],
    measure: &Measure,
) -> PackedPage {
    let first = (entries[0].0 / LEAF_BLOCKS * LEAF_BLOCKS) as u16;
    let (slot_bytes, sequence_bytes) = (measure.slot_bytes(), measure.sequence_bytes());
    let name = MapPageName { component, shard, number, first };
    let mut bytes = head(name, entries.len(), measure);
    let body_from = bytes.len();
    let (mut rest, mut next) = (entries, u64::from(first));
    while let Some(&(block, entry)) = rest.first() {
        let (form, count) = first_page_run(rest);
        varint::put(&mut bytes, block - next);
        varint::put(&mut bytes, (count as u64) << FORM_BITS | form as u64);
        if measure.epochs.len() > 1 {
            let epoch = measure.epochs.iter().position(|epoch| *epoch == entry.op.epoch).expect("measured");
            varint::put(&mut bytes, epoch as u64);
        }
        let put_slot = |bytes: &mut Vec<u8>, entry: &MapEntry| {
            let number = measure.number(entry.spot.bits()) - measure.number(measure.spots.0);
            bytes.extend_from_slice(&number.to_le_bytes()[..slot_bytes]);
        };
        let put_sequence = |bytes: &mut Vec<u8>, entry: &MapEntry| {
            bytes.extend_from_slice(&(entry.op.seq - measure.sequences.0).to_le_bytes()[..sequence_bytes]);
        };
        if !form.is_scattered() && form != Form::Unplaced {
            put_slot(&mut bytes, &entry);
        }
        if !form.is_scattered() {
            put_sequence(&mut bytes, &entry);
        }
        if form.has_step() {
            varint::put(&mut bytes, step_of(&rest[..count]));
        }
        for (_, entry) in &rest[..count] {
            match form {
                Form::Follows | Form::Steps | Form::ParityFollows => {}
                Form::Packed | Form::ParityPacked => bytes.push(entry.spot.size()),
                Form::Unplaced => bytes.extend_from_slice(&entry.spot.bits().to_le_bytes()),
                Form::Scattered | Form::ParityScattered => {
                    put_slot(&mut bytes, entry);
                    put_sequence(&mut bytes, entry);
                }
            }
            bytes.extend_from_slice(&entry.crc.to_le_bytes());
            if form.has_row_checks() {
                bytes.extend_from_slice(&entry.row_check.to_le_bytes());
            }
        }
        next = block + count as u64;
        rest = &rest[count..];
    }
    let body = (bytes.len() - body_from) as u16;
    bytes[44..46].copy_from_slice(&body.to_le_bytes());
    assert!(bytes.len() <= MAP_PAGE_BYTES, "a page of {} bytes", bytes.len());
    bytes.resize(MAP_PAGE_BYTES, 0);
    let crc = crc32c(&bytes);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    PackedPage { first, bytes }
}

/// Which page it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapPageName {
    /// As [`MapPage::component`].
    pub component: ComponentId,
    /// As [`MapPage::shard`].
    pub shard: u16,
    /// As [`MapPage::number`].
    pub number: u64,
    /// As [`MapPage::first`].
    pub first: u16,
}

/// What a page names itself. None when it is none; whether it is sound is not looked at.
pub fn peek_map_page(bytes: &[u8]) -> Option<MapPageName> {
    let bytes: &[u8; MAP_PAGE_BYTES] = bytes.try_into().ok()?;
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let component = u128::from_le_bytes(bytes[12..28].try_into().expect("sixteen bytes"));
    let number = u64::from_le_bytes(bytes[32..40].try_into().expect("eight bytes"));
    let name = MapPageName { component: ComponentId(component), shard: short(28), number, first: short(40) };
    (bytes[..8] == MAGIC).then_some(name)
}

/// What stands before the body, with neither its length nor the checksum.
fn head(name: MapPageName, entries: usize, measure: &Measure) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAP_PAGE_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&name.component.0.to_le_bytes());
    bytes.extend_from_slice(&name.shard.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&name.number.to_le_bytes());
    bytes.extend_from_slice(&name.first.to_le_bytes());
    bytes.extend_from_slice(&(entries as u16).to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    // Of none it stays what it was before there were spots.
    let least = if measure.spots.0 == u64::MAX { u64::MAX } else { measure.number(measure.spots.0) };
    let widths = [measure.slot_bytes() as u8, measure.sequence_bytes() as u8];
    bytes.extend_from_slice(&[measure.epochs.len() as u8, widths[0], widths[1], u8::from(measure.has_packed)]);
    bytes.extend_from_slice(&least.to_le_bytes());
    bytes.extend_from_slice(&measure.sequences.0.to_le_bytes());
    measure.epochs.iter().for_each(|epoch| bytes.extend_from_slice(&encode_epoch(*epoch)));
    bytes
}

/// As it stands in a page.
pub(crate) fn encode_epoch(epoch: Epoch) -> [u8; EPOCH_BYTES] {
    let mut bytes = [0; EPOCH_BYTES];
    bytes[..8].copy_from_slice(&epoch.number.to_le_bytes());
    bytes[8..24].copy_from_slice(&epoch.host.0.to_le_bytes());
    bytes[24..].copy_from_slice(&epoch.incarnation.0.to_le_bytes());
    bytes
}

/// The other end of [`encode_epoch`].
pub(crate) fn decode_epoch(bytes: &[u8; EPOCH_BYTES]) -> Epoch {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let host = u128::from_le_bytes(bytes[8..24].try_into().expect("sixteen bytes"));
    Epoch { number: long(0), host: HostId(host), incarnation: Incarnation(long(24)) }
}

/// Reads a page. None when the bytes are none, or of a form that this build does not know.
pub fn decode_map_page(bytes: &[u8]) -> Option<MapPage> {
    let MapPageName { component, shard, number, first } = peek_map_page(bytes)?;
    let bytes: &[u8; MAP_PAGE_BYTES] = bytes.try_into().ok()?;
    let mut whole = *bytes;
    whole[8..12].fill(0);
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    if u32::from_le_bytes(bytes[8..12].try_into().ok()?) != crc32c(&whole) {
        return None;
    }
    let (count, body_bytes) = (short(42) as usize, short(44) as usize);
    let widths = (bytes[47] as usize, bytes[48] as usize);
    let body_from = HEAD_BYTES + EPOCH_BYTES * bytes[46] as usize;
    let aligned = u64::from(first).is_multiple_of(LEAF_BLOCKS);
    if short(30) != 0 || bytes[49] > 1 || widths.0 > 8 || widths.1 > 8 || !aligned {
        return None;
    }
    let epochs = bytes.get(HEAD_BYTES..body_from)?.as_chunks::<EPOCH_BYTES>().0;
    let has_packed = bytes[49] == 1;
    let bytes = bytes.get(body_from..body_from.checked_add(body_bytes)?)?;
    let mut body = Body { bytes, epochs, widths, least: (long(50), long(58)), has_packed };
    let mut entries = Vec::with_capacity(count.min(SHARD_BLOCKS as usize));
    let mut next = u64::from(first);
    while entries.len() < count {
        next = body.run(next, (count - entries.len()) as u64, &mut entries)?;
    }
    body.bytes.is_empty().then_some(MapPage { component, shard, number, first, entries })
}

/// What is left of a page's body.
struct Body<'a> {
    bytes: &'a [u8],
    epochs: &'a [[u8; EPOCH_BYTES]],
    /// Bytes of a slot, and of a sequence; and the least of either.
    widths: (usize, usize),
    least: (u64, u64),
    /// Slots are bits of spots.
    has_packed: bool,
}

impl Body<'_> {
    /// Takes a run of at most `most` entries, `next` being the block after the one before. Gives the block after it.
    fn run(&mut self, next: u64, most: u64, entries: &mut Vec<(u16, MapEntry)>) -> Option<u64> {
        let block = next.checked_add(varint::take(&mut self.bytes)?)?;
        let head = varint::take(&mut self.bytes)?;
        let (run, form) = (head >> FORM_BITS, head & ((1 << FORM_BITS) - 1));
        if run == 0 || run > most || block.checked_add(run)? > SHARD_BLOCKS {
            return None;
        }
        let epoch = if self.epochs.len() > 1 { varint::take(&mut self.bytes)? } else { 0 };
        let epoch = self.epoch(usize::try_from(epoch).ok()?)?;
        let form = Form::of(form)?;
        let first_spot = if form.is_scattered() || form == Form::Unplaced { Spot::NONE } else { self.spot()? };
        if form.is_packed() != first_spot.is_wide() && first_spot.is_place() {
            return None;
        }
        let first_sequence = if form.is_scattered() { 0 } else { self.sequence()? };
        let step = if form.has_step() { varint::take(&mut self.bytes)? } else { form.own_step() };
        let mut wide = first_spot.number();
        for at in 0..run {
            let sequence = first_sequence.checked_add(step.checked_mul(at)?)?;
            let (spot, sequence) = match form {
                Form::Follows | Form::Steps | Form::ParityFollows => {
                    (Spot::of_bits(first_spot.page_after(at))?, sequence)
                }
                Form::Packed | Form::ParityPacked => {
                    let spot = Spot::of_number(wide, take_number(&mut self.bytes, 1)? as u8)?;
                    wide = spot.number_behind();
                    (spot, sequence)
                }
                Form::Unplaced => (unplaced(take_number(&mut self.bytes, 8)?)?, sequence),
                Form::Scattered | Form::ParityScattered => (self.spot()?, self.sequence()?),
            };
            let crc = take_number(&mut self.bytes, 4)? as u32;
            let row_check = if form.has_row_checks() { take_number(&mut self.bytes, 4)? as u32 } else { 0 };
            let op = OpId { epoch, seq: sequence };
            entries.push(((block + at) as u16, MapEntry { spot, crc, row_check, op }));
        }
        Some(block + run)
    }
    fn spot(&mut self) -> Option<Spot> {
        let number = self.least.0.checked_add(take_number(&mut self.bytes, self.widths.0)?)?;
        match self.has_packed {
            true => Spot::of_bits(number),
            false => Spot::of_slot(number).filter(|spot| spot.is_place()),
        }
    }
    fn sequence(&mut self) -> Option<u64> {
        self.least.1.checked_add(take_number(&mut self.bytes, self.widths.1)?)
    }
    fn epoch(&self, at: usize) -> Option<Epoch> {
        self.epochs.get(at).map(decode_epoch)
    }
}

/// What says why a block stands nowhere. None where a number says nothing of the kind.
pub(crate) fn unplaced(number: u64) -> Option<Spot> {
    Spot::of_slot(number).filter(|spot| !spot.is_place() && *spot != Spot::NONE)
}

/// A number of so many bytes off the front.
fn take_number(bytes: &mut &[u8], len: usize) -> Option<u64> {
    let (own, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    let mut word = [0; 8];
    word[..len].copy_from_slice(own);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests;
