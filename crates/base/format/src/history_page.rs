//! History: entries of blocks from before they were first changed after a cut. How they are coded, and a page of them.
//!
//! Promises    a page is never written over; who reads one compares all that it names with what sent them there
//!             every length is checked before it is used
//! Not here    which entries become history, where pages stand and which ones hold (`store`)
//!
//! A page has entries of one shard of the map, in order of (block, generation of the cut). So what a block held at any cut is on one
//! page, whatever the number of cuts.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `CAIRNHP1` |
//! | 8..12 | CRC-32C of the page with zeroes here |
//! | 12..28, 28..30 | component, shard |
//! | 30..32, 32..36 | block and generation of the first entry |
//! | 36..44 | number of the transaction that wrote it |
//! | 44..46, 46..48 | entries, bytes of the body |
//! | 48, 49..52 | epochs, 0 |
//! | 52.. | epochs of 32 bytes, then the body |
//!
//! An entry is `varint blocks passed over * 4 + kind, generation, slot, epoch, sequence, CRC-32C, row check`. Generation, slot and
//! sequence are steps from the entry before, the epoch is its number. Kind 0: data. Kind 1: parity, which alone has a row check. Kind 2:
//! nothing was there; the generation is all that it has. Kind 3: what stands in no slot; one byte tells how far below 2^64 its slot is. Or
//! that byte is 16 and the lowest bits of the spot of a packed or shared block, 24 and those of parity; then comes the rest of the spot's number, as the
//! step from the end of such a block before.

use cairn_types::{ComponentId, Epoch, OpId};

use crate::{
    Spot, crc32c,
    map_page::{EPOCH_BYTES, MAP_PAGE_BYTES, MapEntry, SHARD_BLOCKS, decode_epoch, encode_epoch, unplaced},
    record::COMPONENT_BLOCKS_MAX,
    varint,
};

/// Where an entry belongs: its block, and the generation of the cut that it is kept for.
pub type HistoryAt = (u64, u32);

const MAGIC: [u8; 8] = *b"CAIRNHP1";
const HEAD_BYTES: usize = 52;
/// Of the varint that has the blocks passed over above them.
const KIND_BITS: u64 = 2;
/// Bytes of an entry, at most: five varints, a size, a CRC and a row check.
const ENTRY_BYTES_MAX: usize = 5 * varint::VARINT_BYTES_MAX + 9;
/// Of the byte of a packed block, beside its sectors.
const PACKED: u8 = 16;
/// The same of parity.
const PACKED_PARITY: u8 = 24;
const SIZE_MASK: u8 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data = 0,
    Parity = 1,
    Hole = 2,
    Unplaced = 3,
}

impl Kind {
    fn of(entry: &MapEntry) -> Self {
        match entry.spot {
            Spot::HOLE => Self::Hole,
            spot if !spot.is_raw() => Self::Unplaced,
            _ if entry.row_check != 0 => Self::Parity,
            _ => Self::Data,
        }
    }
}

/// The entry before, from which the next one steps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    block: u64,
    generation: u32,
    slot: u64,
    /// The number behind the packed or shared block before.
    wide: u64,
    sequence: u64,
}

impl Before {
    /// Nothing is before it but a place.
    pub fn at((block, generation): HistoryAt) -> Self {
        Self { block, generation, ..Self::default() }
    }

    /// Puts an entry behind the one before.
    pub fn put(&mut self, bytes: &mut Vec<u8>, at: HistoryAt, entry: &MapEntry, number_of: impl FnOnce(Epoch) -> u64) {
        let kind = Kind::of(entry);
        varint::put(bytes, (at.0 - self.block) << KIND_BITS | kind as u64);
        varint::put_step(bytes, u64::from(self.generation), u64::from(at.1));
        (self.block, self.generation) = at;
        match kind {
            Kind::Hole => return,
            Kind::Unplaced if entry.spot.is_wide() => {
                bytes.push(entry.spot.size() | if entry.row_check == 0 { PACKED } else { PACKED_PARITY });
                varint::put_step(bytes, self.wide, entry.spot.number());
                self.wide = entry.spot.number_behind();
            }
            Kind::Unplaced => bytes.push((u64::MAX - entry.spot.bits()) as u8),
            Kind::Data | Kind::Parity => {
                let slot = entry.spot.slot().expect("it is raw");
                varint::put_step(bytes, self.slot, slot);
                self.slot = slot;
            }
        }
        varint::put(bytes, number_of(entry.op.epoch));
        varint::put_step(bytes, self.sequence, entry.op.seq);
        self.sequence = entry.op.seq;
        bytes.extend_from_slice(&entry.crc.to_le_bytes());
        if kind == Kind::Parity || entry.spot.is_wide() && entry.row_check != 0 {
            bytes.extend_from_slice(&entry.row_check.to_le_bytes());
        }
    }

    /// Takes the entry behind the one before. None where there is no sound one below block `end`.
    pub fn take(
        &mut self,
        bytes: &mut &[u8],
        end: u64,
        epoch: impl FnOnce(u64) -> Option<Epoch>,
    ) -> Option<(HistoryAt, MapEntry)> {
        let head = varint::take(bytes)?;
        let block = self.block.checked_add(head >> KIND_BITS).filter(|block| *block < end)?;
        let generation = u32::try_from(varint::take_step(bytes, u64::from(self.generation))?).ok()?;
        (self.block, self.generation) = (block, generation);
        let kind = [Kind::Data, Kind::Parity, Kind::Hole, Kind::Unplaced][(head & 3) as usize];
        let at = (block, generation);
        let (spot, is_parity) = match kind {
            Kind::Hole => return Some((at, MapEntry { spot: Spot::HOLE, crc: 0, row_check: 0, op: OpId::ZERO })),
            Kind::Unplaced => self.take_unplaced(bytes)?,
            Kind::Data | Kind::Parity => {
                self.slot = varint::take_step(bytes, self.slot)?;
                (Spot::of_slot(self.slot).filter(|spot| spot.is_place())?, kind == Kind::Parity)
            }
        };
        let epoch = epoch(varint::take(bytes)?)?;
        self.sequence = varint::take_step(bytes, self.sequence)?;
        let crc = u32::from_le_bytes(take_bytes(bytes)?);
        let row_check = if is_parity { u32::from_le_bytes(take_bytes(bytes)?) } else { 0 };
        if is_parity != (row_check != 0) {
            return None;
        }
        Some((at, MapEntry { spot, crc, row_check, op: OpId { epoch, seq: self.sequence } }))
    }

    /// What stands in no slot, and whether it is parity.
    fn take_unplaced(&mut self, bytes: &mut &[u8]) -> Option<(Spot, bool)> {
        let [byte] = take_bytes(bytes)?;
        if byte < PACKED {
            let spot = unplaced(u64::MAX - u64::from(byte)).filter(|spot| *spot != Spot::HOLE);
            return Some((spot?, false));
        }
        let (kind, size) = (byte & !SIZE_MASK, byte & SIZE_MASK);
        let spot = Spot::of_number(varint::take_step(bytes, self.wide)?, size)?;
        self.wide = spot.number_behind();
        matches!(kind, PACKED | PACKED_PARITY).then_some((spot, kind == PACKED_PARITY))
    }
}

/// So many bytes off the front.
fn take_bytes<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (own, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*own)
}

/// A page as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPage {
    /// What it names itself.
    pub name: HistoryPageName,
    /// By block of the shard; ascending. [`Spot::HOLE`]: the map did not hold the block.
    pub entries: Vec<(HistoryAt, MapEntry)>,
}

/// Which page it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryPageName {
    /// Of which component.
    pub component: ComponentId,
    /// Of which of its shards.
    pub shard: u16,
    /// The transaction that wrote it.
    pub number: u64,
    /// Its first entry.
    pub first: HistoryAt,
}

/// A page to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedHistoryPage {
    /// Its first entry.
    pub first: HistoryAt,
    /// [`MAP_PAGE_BYTES`] of them.
    pub bytes: Vec<u8>,
}

/// A page that is being filled.
struct Filling {
    first: HistoryAt,
    before: Before,
    epochs: Vec<Epoch>,
    count: u16,
    body: Vec<u8>,
}

impl Filling {
    fn at(first: HistoryAt) -> Self {
        Self {
            first,
            before: Before::at(first),
            epochs: Vec::new(),
            count: 0,
            body: Vec::with_capacity(MAP_PAGE_BYTES),
        }
    }

    /// False, and nothing is changed, where the page has no room for it.
    fn push(&mut self, at: HistoryAt, entry: &MapEntry) -> bool {
        let (mut before, len, known) = (self.before, self.body.len(), self.epochs.len());
        let epochs = &mut self.epochs;
        before.put(&mut self.body, at, entry, |epoch| {
            // The newest is the likeliest.
            epochs.iter().rposition(|other| *other == epoch).unwrap_or_else(|| {
                epochs.push(epoch);
                epochs.len() - 1
            }) as u64
        });
        let fits = HEAD_BYTES + EPOCH_BYTES * self.epochs.len() + self.body.len() <= MAP_PAGE_BYTES;
        if !fits || self.epochs.len() > usize::from(u8::MAX) {
            self.body.truncate(len);
            self.epochs.truncate(known);
            return false;
        }
        (self.before, self.count) = (before, self.count + 1);
        true
    }

    fn page(self, component: ComponentId, shard: u16, number: u64) -> PackedHistoryPage {
        let mut bytes = Vec::with_capacity(MAP_PAGE_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&component.0.to_le_bytes());
        bytes.extend_from_slice(&shard.to_le_bytes());
        bytes.extend_from_slice(&(self.first.0 as u16).to_le_bytes());
        bytes.extend_from_slice(&self.first.1.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&(self.body.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[self.epochs.len() as u8, 0, 0, 0]);
        self.epochs.iter().for_each(|epoch| bytes.extend_from_slice(&encode_epoch(*epoch)));
        bytes.extend_from_slice(&self.body);
        bytes.resize(MAP_PAGE_BYTES, 0);
        let crc = crc32c(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        PackedHistoryPage { first: self.first, bytes }
    }
}

/// Packs history of a shard, ascending, into as few pages as their order allows; blocks are of the shard.
///
/// # Panics
/// When they do not ascend below [`SHARD_BLOCKS`], or an entry has [`Spot::NONE`].
pub fn pack_history_pages(
    component: ComponentId,
    shard: u16,
    number: u64,
    entries: &[(HistoryAt, MapEntry)],
) -> Vec<PackedHistoryPage> {
    assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "entries ascend");
    assert!(
        entries.iter().all(|((block, _), entry)| *block < SHARD_BLOCKS && entry.spot != Spot::NONE),
        "blocks of a shard"
    );
    let mut pages = Vec::new();
    let mut filling: Option<Filling> = None;
    for (at, entry) in entries {
        if let Some(page) = &mut filling
            && page.push(*at, entry)
        {
            continue;
        }
        pages.extend(filling.take().map(|page| page.page(component, shard, number)));
        let mut page = Filling::at(*at);
        assert!(page.push(*at, entry), "an empty page has room for {ENTRY_BYTES_MAX} bytes");
        filling = Some(page);
    }
    pages.extend(filling.map(|page| page.page(component, shard, number)));
    pages
}

/// What a page names itself. None when it is none; whether it is sound is not looked at.
pub fn peek_history_page(bytes: &[u8]) -> Option<HistoryPageName> {
    let bytes: &[u8; MAP_PAGE_BYTES] = bytes.try_into().ok()?;
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let component = u128::from_le_bytes(bytes[12..28].try_into().expect("sixteen bytes"));
    let generation = u32::from_le_bytes(bytes[32..36].try_into().expect("four bytes"));
    let number = u64::from_le_bytes(bytes[36..44].try_into().expect("eight bytes"));
    let first = (u64::from(short(30)), generation);
    let name = HistoryPageName { component: ComponentId(component), shard: short(28), number, first };
    (bytes[..8] == MAGIC).then_some(name)
}

/// Reads a page. None when the bytes are none, or of a form that this build does not know.
pub fn decode_history_page(bytes: &[u8]) -> Option<HistoryPage> {
    let name = peek_history_page(bytes)?;
    let bytes: &[u8; MAP_PAGE_BYTES] = bytes.try_into().ok()?;
    let mut whole = *bytes;
    whole[8..12].fill(0);
    if u32::from_le_bytes(bytes[8..12].try_into().ok()?) != crc32c(&whole) || bytes[49..52] != [0; 3] {
        return None;
    }
    let short = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let (count, body_bytes) = (short(44), short(46));
    let body_from = HEAD_BYTES + EPOCH_BYTES * usize::from(bytes[48]);
    let epochs = bytes.get(HEAD_BYTES..body_from)?.as_chunks::<EPOCH_BYTES>().0;
    let mut body = bytes.get(body_from..body_from.checked_add(body_bytes)?)?;
    let mut before = Before::at(name.first);
    let mut entries: Vec<(HistoryAt, MapEntry)> = Vec::with_capacity(count.min(MAP_PAGE_BYTES));
    for _ in 0..count {
        let epoch = |number: u64| epochs.get(usize::try_from(number).ok()?).map(decode_epoch);
        let entry = before.take(&mut body, SHARD_BLOCKS, epoch)?;
        if entries.last().is_some_and(|last| last.0 >= entry.0) {
            return None;
        }
        entries.push(entry);
    }
    let is_first = entries.first().is_some_and(|(at, _)| *at == name.first);
    (body.is_empty() && is_first).then_some(HistoryPage { name, entries })
}

/// Bytes of a component's history in a row of changes; `at` is by block of the component.
pub(crate) fn encode_history(entries: &[(HistoryAt, MapEntry)], mut number_of: impl FnMut(Epoch) -> u64) -> Vec<u8> {
    let (mut bytes, mut before) = (Vec::with_capacity(20 * entries.len()), Before::default());
    entries.iter().for_each(|(at, entry)| before.put(&mut bytes, *at, entry, &mut number_of));
    bytes
}

/// The other end of [`encode_history`].
pub(crate) fn decode_history(mut bytes: &[u8], epochs: &[Epoch]) -> Option<Vec<(HistoryAt, MapEntry)>> {
    let (mut entries, mut before): (Vec<(HistoryAt, MapEntry)>, _) = (Vec::new(), Before::default());
    while !bytes.is_empty() {
        let epoch = |number: u64| epochs.get(usize::try_from(number).ok()?).copied();
        let entry = before.take(&mut bytes, COMPONENT_BLOCKS_MAX, epoch)?;
        if entries.last().is_some_and(|last| last.0 >= entry.0) {
            return None;
        }
        entries.push(entry);
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use cairn_types::{HostId, Incarnation};
    use proptest::prelude::*;

    use super::*;

    fn epoch(number: u64) -> Epoch {
        Epoch { number, host: HostId(u128::from(number) << 70), incarnation: Incarnation(number + 7) }
    }

    /// Entries of all kinds, some blocks with many generations.
    fn entries() -> impl Strategy<Value = Vec<(HistoryAt, MapEntry)>> {
        let one = (0u64..80, 1u32..400, 0u64..1 << 34, 0u64..1 << 33, 0u64..4, 0u8..13);
        proptest::collection::vec(one, 1..900).prop_map(|all| {
            let (mut entries, mut at) = (Vec::new(), (0u64, 0u32));
            for (gap, step, slot, seq, number, kind) in all {
                at = if gap < 40 { (at.0, at.1 + step) } else { (at.0 + gap - 39, step) };
                let op = OpId { epoch: epoch(number), seq };
                let entry = match kind {
                    0 => MapEntry { spot: Spot::HOLE, crc: 0, row_check: 0, op: OpId::ZERO },
                    1 => MapEntry { spot: Spot::ZERO, crc: 9, row_check: 0, op },
                    2 => MapEntry { spot: Spot::BAD, crc: 8, row_check: 0, op },
                    3 => MapEntry { spot: Spot::raw(slot), crc: seq as u32, row_check: !(slot as u32), op },
                    4..9 => MapEntry { spot: Spot::raw(slot), crc: seq as u32, row_check: 0, op },
                    _ => {
                        let spot = Spot::packed(slot, seq as u32 % 6 + 1).expect("it is one");
                        let spot = match seq % 3 {
                            0 => spot,
                            1 => spot.shared(seq),
                            _ => Spot::raw(slot).shared(seq),
                        };
                        MapEntry { spot, crc: 7, row_check: if kind == 9 { !(slot as u32) } else { 0 }, op }
                    }
                };
                entries.push((at, entry));
            }
            entries.retain(|((block, _), _)| *block < SHARD_BLOCKS);
            entries
        })
    }

    proptest! {
        /// Goal: what is packed reads back, in pages and in changes. Method: entries of all kinds, with many generations of a block.
        #[test]
        fn history_reads_back(entries in entries()) {
            let pages = pack_history_pages(ComponentId(5), 9, 77, &entries);
            let mut found = Vec::new();
            for page in &pages {
                let read = decode_history_page(&page.bytes).expect("a page");
                let name = HistoryPageName { component: ComponentId(5), shard: 9, number: 77, first: page.first };
                prop_assert_eq!(read.name, name);
                found.extend(read.entries);
            }
            prop_assert_eq!(&found, &entries);
            let mut epochs: Vec<Epoch> = Vec::new();
            let bytes = encode_history(&entries, |epoch| {
                epochs.iter().position(|known| *known == epoch).unwrap_or_else(|| {
                    epochs.push(epoch);
                    epochs.len() - 1
                }) as u64
            });
            prop_assert_eq!(decode_history(&bytes, &epochs), Some(entries));
        }

        #[test]
        fn other_bytes_are_refused(entries in entries(), at in 0usize..MAP_PAGE_BYTES, bit in 0u8..8, seal in any::<bool>()) {
            let mut bytes = pack_history_pages(ComponentId(5), 9, 77, &entries).swap_remove(0).bytes;
            bytes[at] ^= 1 << bit;
            if seal {
                // With a sound checksum it may be a page, but nothing worse happens.
                bytes[8..12].fill(0);
                let crc = crc32c(&bytes);
                bytes[8..12].copy_from_slice(&crc.to_le_bytes());
                let _ = decode_history_page(&bytes);
            } else {
                prop_assert_eq!(decode_history_page(&bytes), None);
            }
        }
    }

    /// Goal: an entry takes what was planned with. Method: blocks that are changed at random after one cut and after a hundred, and in
    /// sequence.
    #[test]
    fn an_entry_takes_some_seventeen_bytes_at_random_and_nine_in_sequence() {
        let bytes_each = |entries: &[(HistoryAt, MapEntry)]| {
            (pack_history_pages(ComponentId(1), 0, 1, entries).len() * MAP_PAGE_BYTES) as f64 / entries.len() as f64
        };
        let entry = |slot: u64, seq: u64| MapEntry {
            spot: Spot::raw(slot),
            crc: 0,
            row_check: 0,
            op: OpId { epoch: epoch(1), seq },
        };
        let random =
            |at: u64| entry(at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34, at.wrapping_mul(0xD134_2543_DE82_EF95) >> 33);
        let once: Vec<_> = (0..655).map(|at| ((at * 100, 1), random(at))).collect();
        let often: Vec<_> = (0..65_500).map(|at| ((at, (at * 7 % 100) as u32), random(at))).collect();
        let sequence: Vec<_> = (0..SHARD_BLOCKS).map(|at| ((at, 5), entry(at, at / 16))).collect();
        let bytes = (bytes_each(&once), bytes_each(&often), bytes_each(&sequence));
        println!("{:.1} bytes after one cut, {:.1} after a hundred, {:.1} in sequence", bytes.0, bytes.1, bytes.2);
        assert!(bytes.0 < 19.0 && bytes.1 < 18.5 && bytes.2 < 9.5, "{bytes:?}");
    }

    /// Goal: pages that are on devices read back. Method: bytes that are fixed, one entry of each kind.
    #[test]
    fn the_bytes_of_a_page_are_fixed() {
        let entry = |slot, seq, row_check| {
            let spot = Spot::of_slot(slot).expect("it is one");
            MapEntry { spot, crc: 1, row_check, op: OpId { epoch: epoch(3), seq } }
        };
        let hole = MapEntry { spot: Spot::HOLE, crc: 0, row_check: 0, op: OpId::ZERO };
        let entries = [
            ((64, 2), entry(1000, 50, 0)),
            ((64, 5), entry(900, 60, 9)),
            ((65, 1), hole),
            ((70, 1), entry(u64::MAX - 1, 61, 0)),
        ];
        let page = pack_history_pages(ComponentId(2), 1, 9, &entries).swap_remove(0);
        let head = [&64u16.to_le_bytes()[..], &2u32.to_le_bytes(), &9u64.to_le_bytes(), &[4, 0]].concat();
        assert_eq!(page.bytes[30..46], head);
        let body = [
            &[0, 0, 0xD0, 15, 0, 100, 1, 0, 0, 0][..],
            &[1, 6, 0xC7, 1, 0, 20, 1, 0, 0, 0, 9, 0, 0, 0],
            &[1 << 2 | 2, 7],
            &[5 << 2 | 3, 0, 1, 0, 2, 1, 0, 0, 0],
        ]
        .concat();
        assert_eq!(page.bytes[46..52], [body.len() as u8, 0, 1, 0, 0, 0]);
        assert_eq!(page.bytes[84..84 + body.len()], body);
        assert!(page.bytes[84 + body.len()..].iter().all(|byte| *byte == 0));
    }

    /// The same of packed blocks: two of data that stand back to back with a raw one between, then parity.
    #[test]
    fn the_bytes_of_packed_history_are_fixed() {
        let entry = |spot, row_check| MapEntry { spot, crc: 1, row_check, op: OpId { epoch: epoch(3), seq: 50 } };
        let packed = |sector, sectors| Spot::packed(sector, sectors).expect("it is one");
        let entries = [
            ((64, 2), entry(packed(40, 2), 0)),
            ((65, 2), entry(Spot::raw(5), 0)),
            ((66, 2), entry(packed(42, 6), 0)),
            ((67, 2), entry(packed(49, 1), 9)),
        ];
        let page = pack_history_pages(ComponentId(2), 1, 9, &entries).swap_remove(0);
        let body = [
            &[3, 0, 17, 80, 0, 100, 1, 0, 0, 0][..],
            &[1 << 2, 0, 10, 0, 0, 1, 0, 0, 0],
            &[1 << 2 | 3, 0, 21, 0, 0, 0, 1, 0, 0, 0],
            &[1 << 2 | 3, 0, 24, 2, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0],
        ]
        .concat();
        assert_eq!(page.bytes[84..84 + body.len()], body);
        assert_eq!(decode_history_page(&page.bytes).expect("a page").entries, entries);
    }
}
