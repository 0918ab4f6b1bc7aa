//! Rows of a block map in pages: what a transaction changed, where a shard stands, how full segments are.
//!
//! Promises    encoding is fixed (golden bytes in the tests); bytes that are no row are an error
//! Not here    which rows hold over which (`store`)
//!
//! | first byte | key | value |
//! |---|---|---|
//! | 12 | number, part | pieces of one [`Changes`], in order |
//! | 17 | component, shard | [`ShardRow`] |
//! | 18 | device, number | [`SegmentsRow`]: [`SEGMENTS_OF_ROW`] segments |

use cairn_types::{BlockRange, ComponentId, Epoch, OpId, REGION_BLOCKS, RegionIndex};
use serde::{Deserialize, Serialize};

use crate::{
    Spot,
    map_page::{FORM_BITS, Form, LEAF_BLOCKS, MapEntry, SHARD_BLOCKS, first_run, step_of, unplaced},
    record::COMPONENT_BLOCKS_MAX,
    rows::{RegionBits, RowError, SegmentRow, key, malformed},
    shared_rows::{SharedChange, put_changes, take_changes},
    varint,
};

/// Kind of a key.
pub const CHANGES: u8 = 12;
/// Kind of a key.
pub const SHARD: u8 = 17;
/// Kind of a key.
pub const SEGMENTS: u8 = 18;

/// Segments whose counts stand in one row.
pub const SEGMENTS_OF_ROW: u32 = 1024;
/// Regions of a shard.
pub const SHARD_REGIONS: u32 = (SHARD_BLOCKS / REGION_BLOCKS as u64) as u32;
/// Bytes of a piece of changes: with what belongs to a row it fills eight pages of the metadata store, and no ninth.
pub(crate) const PIECE_BYTES: usize = 30 << 10;

/// What one transaction changed in the map and in the counts of segments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// By component.
    pub components: Vec<ComponentChanges>,
    /// Device, segment, its row from now on.
    pub segments: Vec<(u8, u32, SegmentRow)>,
    /// Shared items. They stand behind all else, and nothing does where there are none. Need [`crate::Needs::SHARED`].
    pub shared: Vec<SharedChange>,
}

/// What one transaction changed of a component.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComponentChanges {
    /// Which.
    pub component: ComponentId,
    /// Shards of which nothing is left: what earlier transactions said of them is past.
    pub gone: Vec<u16>,
    /// Block of the component, its entry from now on; ascending.
    pub entries: Vec<(u64, MapEntry)>,
    /// Blocks that the map holds no more; none of those above.
    pub removed: Vec<BlockRange>,
    /// Marks of regions that no entry implies.
    pub marks: Vec<(RegionIndex, OpId)>,
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
struct StoredChanges {
    components: Vec<StoredComponent>,
    segments: Vec<(u8, u32, SegmentRow)>,
}

#[derive(Serialize, Deserialize)]
struct StoredComponent {
    component: ComponentId,
    gone: Vec<u16>,
    epochs: Vec<Epoch>,
    entries: Vec<u8>,
    removed: Vec<BlockRange>,
    /// Region, which of the epochs, sequence.
    marks: Vec<(RegionIndex, u16, u64)>,
}

/// Where a shard of the map stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShardRow {
    /// The transaction that wrote it: what it and earlier ones changed is in its pages.
    pub number: u64,
    /// In order of blocks.
    pub pages: Vec<PageRef>,
    /// Epochs of its marks.
    pub epochs: Vec<Epoch>,
    /// Its regions that anything touched, ascending.
    pub regions: Vec<ShardRegion>,
}

/// A page of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRef {
    /// The first block of the shard that it answers for; it does so up to that of the next one.
    pub first: u16,
    /// The low bits of the transaction that wrote it.
    pub stamp: u16,
    /// Where: pages from the end of the metadata region, the last one is 0.
    pub place: u32,
}

/// What a shard's row has of a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRegion {
    /// Which of the shard's.
    pub index: u8,
    /// Which of its blocks the map holds.
    pub bits: StoredBits,
    /// The highest operation that touched it: which of the epochs, and its sequence.
    pub mark: (u16, u64),
}

/// Bits of a region; mostly all or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredBits {
    /// The map holds no block.
    None,
    /// The map holds all blocks.
    All,
    /// The map holds some, little endian.
    Some([u8; REGION_BLOCKS as usize / 8]),
}

impl From<RegionBits> for StoredBits {
    fn from(bits: RegionBits) -> Self {
        if bits.iter().all(|word| *word == 0) {
            return Self::None;
        }
        if bits.iter().all(|word| *word == u64::MAX) {
            return Self::All;
        }
        let mut bytes = [0; REGION_BLOCKS as usize / 8];
        bytes.as_chunks_mut::<8>().0.iter_mut().zip(bits).for_each(|(to, word)| *to = word.to_le_bytes());
        Self::Some(bytes)
    }
}

impl From<StoredBits> for RegionBits {
    fn from(bits: StoredBits) -> Self {
        match bits {
            StoredBits::None => [0; REGION_BLOCKS as usize / 64],
            StoredBits::All => [u64::MAX; REGION_BLOCKS as usize / 64],
            StoredBits::Some(bytes) => {
                let words = bytes.as_chunks::<8>().0;
                std::array::from_fn(|at| u64::from_le_bytes(words[at]))
            }
        }
    }
}

/// Segments that follow on, from a multiple of [`SEGMENTS_OF_ROW`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SegmentsRow {
    /// The transaction that wrote it: later changes hold over it, earlier ones do not.
    pub number: u64,
    /// The segments.
    pub rows: Vec<SegmentRow>,
}

/// Its key.
pub fn shard_key(component: ComponentId, shard: u16) -> Vec<u8> {
    key(SHARD, &[&component.0.to_be_bytes(), &shard.to_be_bytes()])
}
/// The shard in a key of kind 17.
pub fn shard_of(key: &[u8]) -> Result<(ComponentId, u16), RowError> {
    let rest = key.get(1..).and_then(|rest| <&[u8; 18]>::try_from(rest).ok()).ok_or_else(|| malformed(key))?;
    let (component, shard) = rest.split_first_chunk::<16>().expect("of 18 bytes");
    Ok((ComponentId(u128::from_be_bytes(*component)), u16::from_be_bytes(shard.try_into().expect("two bytes"))))
}
/// Its key.
pub fn segments_key(device: u8, number: u32) -> Vec<u8> {
    key(SEGMENTS, &[&[device], &number.to_be_bytes()])
}
/// Its key.
pub fn changes_key(number: u64, part: u16) -> Vec<u8> {
    key(CHANGES, &[&number.to_be_bytes(), &part.to_be_bytes()])
}
/// Number and part in a key of kind 12.
pub fn changes_of(key: &[u8]) -> Result<(u64, u16), RowError> {
    let rest = key.get(1..).and_then(|rest| <&[u8; 10]>::try_from(rest).ok()).ok_or_else(|| malformed(key))?;
    let (number, part) = rest.split_first_chunk::<8>().expect("of ten bytes");
    Ok((u64::from_be_bytes(*number), u16::from_be_bytes(part.try_into().expect("two bytes"))))
}

impl Changes {
    /// Whether there is nothing to be told.
    pub fn is_empty(&self) -> bool {
        self.components.is_empty() && self.segments.is_empty() && self.shared.is_empty()
    }

    /// Pieces of rows, in order.
    ///
    /// # Panics
    /// When blocks of a component do not ascend.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        let stored = StoredChanges {
            components: self.components.iter().map(StoredComponent::of).collect(),
            segments: self.segments.clone(),
        };
        let mut bytes = postcard::to_stdvec(&stored).expect("plain values encode");
        put_changes(&mut bytes, &self.shared);
        bytes.chunks(PIECE_BYTES).map(<[u8]>::to_vec).collect()
    }

    /// Of the pieces of one number, in order.
    ///
    /// # Errors
    /// They are not the pieces of changes.
    pub fn decode(pieces: &[Vec<u8>]) -> Result<Self, RowError> {
        let key = [CHANGES];
        let bytes = pieces.concat();
        let (stored, rest): (StoredChanges, &[u8]) = postcard::take_from_bytes(&bytes).map_err(|_| malformed(&key))?;
        let shared = take_changes(rest).ok_or_else(|| malformed(&key))?;
        let components = stored.components.into_iter().map(StoredComponent::changes).collect::<Option<Vec<_>>>();
        Ok(Self { components: components.ok_or_else(|| malformed(&key))?, segments: stored.segments, shared })
    }
}

impl StoredComponent {
    /// Runs of entries as a page has them, but for slots and sequences: each is told as the step from the one before. Of packed and of shared
    /// blocks that is the number of a spot without its size, which stands before each CRC.
    fn of(changes: &ComponentChanges) -> Self {
        let mut epochs: Vec<Epoch> = Vec::new();
        let mut number_of = |epoch: Epoch| {
            // The newest is the likeliest.
            epochs.iter().rposition(|known| *known == epoch).unwrap_or_else(|| {
                epochs.push(epoch);
                epochs.len() - 1
            }) as u16
        };
        let mut bytes = Vec::with_capacity(16 * changes.entries.len());
        let (mut next, mut slot, mut wide, mut sequence) = (0, 0, 0, 0);
        let mut rest = changes.entries.as_slice();
        while let Some(&(block, first)) = rest.first() {
            let (form, count) = first_run(rest);
            varint::put(&mut bytes, block - next);
            varint::put(&mut bytes, (count as u64) << FORM_BITS | form as u64);
            varint::put(&mut bytes, u64::from(number_of(first.op.epoch)));
            varint::put_step(&mut bytes, sequence, first.op.seq);
            if form.has_step() {
                varint::put(&mut bytes, step_of(&rest[..count]));
            }
            if form.is_packed() {
                varint::put_step(&mut bytes, wide, first.spot.number());
                wide = rest[count - 1].1.spot.number_behind();
            } else if form != Form::Unplaced {
                let first_slot = first.spot.slot().expect("what is not packed is raw");
                varint::put_step(&mut bytes, slot, first_slot);
                slot = first_slot + count as u64;
            }
            for (_, entry) in &rest[..count] {
                if form == Form::Unplaced {
                    bytes.extend_from_slice(&entry.spot.bits().to_le_bytes());
                } else if form.is_packed() {
                    bytes.push(entry.spot.size());
                }
                bytes.extend_from_slice(&entry.crc.to_le_bytes());
                if form.has_row_checks() {
                    bytes.extend_from_slice(&entry.row_check.to_le_bytes());
                }
            }
            next = block + count as u64;
            sequence = rest[count - 1].1.op.seq;
            rest = &rest[count..];
        }
        let marks = changes.marks.iter().map(|(region, op)| (*region, number_of(op.epoch), op.seq)).collect();
        Self {
            component: changes.component,
            gone: changes.gone.clone(),
            epochs,
            entries: bytes,
            removed: changes.removed.clone(),
            marks,
        }
    }

    fn changes(self) -> Option<ComponentChanges> {
        let epoch = |number: u64| self.epochs.get(usize::try_from(number).ok()?).copied();
        let mut entries = Vec::new();
        let mut rest = self.entries.as_slice();
        let (mut next, mut slot, mut wide, mut sequence) = (0u64, 0u64, 0u64, 0u64);
        while !rest.is_empty() {
            let block = next.checked_add(varint::take(&mut rest)?)?;
            let head = varint::take(&mut rest)?;
            let (count, form) = (head >> FORM_BITS, head & ((1 << FORM_BITS) - 1));
            let end = block.checked_add(count)?;
            if count == 0 || count > LEAF_BLOCKS || end > COMPONENT_BLOCKS_MAX {
                return None;
            }
            next = end;
            let epoch = epoch(varint::take(&mut rest)?)?;
            sequence = varint::take_step(&mut rest, sequence)?;
            let form = Form::of_changes(form)?;
            let step = if form.has_step() { varint::take(&mut rest)? } else { form.own_step() };
            let (packed, placed) = (form.is_packed(), form != Form::Unplaced && !form.is_packed());
            if placed {
                slot = varint::take_step(&mut rest, slot)?;
            } else if packed {
                wide = varint::take_step(&mut rest, wide)?;
            }
            let mut number = |len: usize| {
                let (own, later) = rest.split_at_checked(len)?;
                rest = later;
                let mut word = [0; 8];
                word[..len].copy_from_slice(own);
                Some(u64::from_le_bytes(word))
            };
            for at in 0..count {
                let spot = match (placed, packed) {
                    (true, _) => Spot::of_slot(slot.checked_add(at)?).filter(|spot| spot.is_place())?,
                    (false, true) => {
                        let spot = Spot::of_number(wide, number(1)? as u8)?;
                        wide = spot.number_behind();
                        spot
                    }
                    (false, false) => unplaced(number(8)?)?,
                };
                let crc = number(4)? as u32;
                let row_check = if form.has_row_checks() { number(4)? as u32 } else { 0 };
                if row_check != 0 && !spot.is_place() {
                    return None;
                }
                let op = OpId { epoch, seq: sequence.checked_add(step.checked_mul(at)?)? };
                entries.push((block + at, MapEntry { spot, crc, row_check, op }));
            }
            slot = slot.checked_add(if placed { count } else { 0 })?;
            sequence = sequence.checked_add(step.checked_mul(count - 1)?)?;
        }
        let mark = |&(region, number, seq): &(RegionIndex, u16, u64)| {
            Some((region, OpId { epoch: epoch(u64::from(number))?, seq }))
        };
        let marks = self.marks.iter().map(mark).collect::<Option<Vec<_>>>()?;
        let is_some = |range: &BlockRange| {
            range.count > 0
                && range.first.checked_add(u64::from(range.count)).is_some_and(|end| end <= COMPONENT_BLOCKS_MAX)
        };
        if !self.removed.iter().all(is_some) {
            return None;
        }
        Some(ComponentChanges { component: self.component, gone: self.gone, entries, removed: self.removed, marks })
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{HostId, Incarnation};
    use proptest::prelude::*;

    use super::*;
    use crate::rows::Live;

    fn op(number: u64, seq: u64) -> OpId {
        OpId { epoch: Epoch { number, host: HostId(7), incarnation: Incarnation(2) }, seq }
    }

    fn component() -> impl Strategy<Value = ComponentChanges> {
        let run = (0u64..300, 1u64..200, 0u64..1 << 34, 0u64..1 << 33, 0u64..4, 0u8..8, 0u32..5);
        let marks = proptest::collection::vec((any::<RegionIndex>(), 0u64..4, any::<u64>()), 0..5);
        let runs = proptest::collection::vec(run, 0..40);
        (any::<u64>(), proptest::collection::vec(any::<u16>(), 0..3), runs, marks).prop_map(
            |(id, gone, runs, marks)| {
                let (mut entries, mut removed, mut block) = (Vec::new(), Vec::new(), 0);
                for (gap, count, slot, seq, number, kind, sizes) in runs {
                    block += gap;
                    if kind == 4 {
                        removed.push(BlockRange::new(block, count as u32));
                        block += count;
                        continue;
                    }
                    let mut sector = slot;
                    for at in 0..count {
                        let packed = Spot::packed(sector, (sizes + at as u32 * sizes) % 6 + 1).expect("it is one");
                        sector = packed.end();
                        let spot = match kind {
                            3 => Spot::ZERO,
                            2 if sizes > 0 => packed.shared(seq + at / 3),
                            1 if sizes > 2 => Spot::raw(slot + at).shared(seq),
                            _ if sizes > 1 => packed,
                            _ => Spot::raw(slot + at),
                        };
                        let op = op(number, seq + [0, 1, 0, 0, 0, 0, gap, slot % 7][usize::from(kind)] * at);
                        let row_check = if kind > 4 { !(slot as u32) } else { 0 };
                        entries.push((block, MapEntry { spot, crc: block as u32, row_check, op }));
                        block += 1;
                    }
                }
                let marks = marks.into_iter().map(|(region, number, seq)| (region, op(number, seq))).collect();
                ComponentChanges { component: ComponentId(u128::from(id)), gone, entries, removed, marks }
            },
        )
    }

    proptest! {
        #[test]
        fn changes_read_back(components in proptest::collection::vec(component(), 0..4), cut in any::<prop::sample::Index>(), bit in 0u8..8) {
            let segments = vec![(1, 70_000, SegmentRow { generation: 3, fill: 9, live: Live { sectors: 64, items: 9 }, written: 1 << 40 })];
            let shared = vec![SharedChange { device: 2, segment: 70_000, name: Spot::raw(9).shared(5), count: 2, at: Spot::raw(900) }];
            let changes = Changes { components, segments, shared };
            let mut pieces = changes.encode();
            prop_assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
            prop_assert_eq!(Changes::decode(&pieces), Ok(changes));
            // Other bytes are no changes, or others; nothing worse.
            let at = cut.index(pieces[0].len());
            pieces[0][at] ^= 1 << bit;
            let _ = Changes::decode(&pieces);
            pieces[0].truncate(at);
            let _ = Changes::decode(&pieces);
        }

        #[test]
        fn bits_read_back(bits in any::<RegionBits>()) {
            for bits in [bits, [0; 4], [u64::MAX; 4]] {
                prop_assert_eq!(RegionBits::from(StoredBits::from(bits)), bits);
            }
        }
    }

    /// Goal: a block that is written at random costs some 13 bytes of changes, and 18 if it is parity. Method: a round of 4,096 blocks in order,
    /// spread over 3 TiB, whose slots follow on.
    #[test]
    fn a_changed_block_takes_some_thirteen_bytes() {
        let bytes_a_block = |row_check: u32, sectors: u64| {
            let entry = |at: u64| {
                let op = op(300, at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40);
                let packed = Spot::packed(700_000 + at * sectors, sectors as u32);
                let spot = packed.unwrap_or_else(|| Spot::raw(700_000 + at));
                (at * 15_001, MapEntry { spot, crc: 0xDEAD_BEEF, row_check, op })
            };
            let entries = (0..4096).map(entry).collect();
            let component = ComponentChanges { component: ComponentId(1), entries, ..ComponentChanges::default() };
            let pieces = Changes { components: vec![component], ..Changes::default() }.encode();
            pieces.iter().map(Vec::len).sum::<usize>() as f64 / 4096.0
        };
        let (data, parity, packed) = (bytes_a_block(0, 8), bytes_a_block(7, 8), bytes_a_block(0, 4));
        println!("{data:.1} bytes a block, {parity:.1} of parity, {packed:.1} of one that is packed");
        assert!(data < 14.0 && parity < data + 5.1 && packed < data + 2.1);
    }

    /// Goal: rows that are on devices read back. Method: bytes that are fixed.
    #[test]
    fn the_bytes_of_rows_are_fixed() {
        let id = |lowest: u8| u128::from(lowest).to_le_bytes();
        let epoch = [&[0xAC, 2][..], &id(7), &[2]].concat();
        let entry = |slot| {
            let spot = Spot::of_slot(slot).expect("it is one");
            MapEntry { spot, crc: 5, row_check: 0, op: op(300, 9) }
        };
        let changed = ComponentChanges {
            component: ComponentId(6),
            gone: vec![4],
            entries: vec![(2, entry(30)), (3, entry(31)), (9, entry(u64::MAX - 1))],
            removed: vec![BlockRange::new(4, 1)],
            marks: vec![(8, op(300, 10))],
        };
        let segments = vec![(1, 2, SegmentRow { generation: 3, fill: 4, live: Live::raw(5), written: 6 })];
        let mut changes = Changes { components: vec![changed], segments, shared: Vec::new() };
        let coded = [
            &[2, 2 << 3, 0, 18, 60, 5, 0, 0, 0, 5, 0, 0, 0][..],
            &[5, 1 << 3 | 3, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 5, 0, 0, 0],
        ]
        .concat();
        let fixed = [
            &[1][..],
            &id(6),
            &[1, 4, 1],
            &epoch,
            &[coded.len() as u8],
            &coded,
            &[1, 4, 1, 1, 8, 0, 10, 1, 1, 2, 3, 4, 5, 6],
        ]
        .concat();
        assert_eq!(changes.encode(), [&fixed[..]]);
        changes.shared.push(SharedChange {
            device: 1,
            segment: 2,
            name: Spot::raw(1).shared(0),
            count: 2,
            at: Spot::raw(1),
        });
        assert_eq!(changes.encode(), [[&fixed[..], &[1, 4, 0, 16, 7, 2]].concat()]);
        let row = ShardRow {
            number: 200,
            pages: vec![PageRef { first: 64, stamp: 5, place: 300 }],
            epochs: vec![op(300, 0).epoch],
            regions: vec![ShardRegion { index: 3, bits: StoredBits::All, mark: (0, 9) }],
        };
        let fixed = [&[200, 1, 1, 64, 5, 0xAC, 2, 1][..], &epoch, &[1, 3, 1, 0, 9]].concat();
        assert_eq!(crate::rows::encode(&row), fixed);
        let row = SegmentsRow {
            number: 1,
            rows: vec![SegmentRow { generation: 1, fill: 2, live: Live::raw(3), written: 4 }],
        };
        assert_eq!(crate::rows::encode(&row), [1, 1, 1, 2, 3, 4]);
    }

    /// The same of parity: a run by steps, then a block by itself.
    #[test]
    fn the_bytes_of_parity_in_changes_are_fixed() {
        let entry = |slot, seq, row_check| MapEntry { spot: Spot::raw(slot), crc: 5, row_check, op: op(300, seq) };
        let component = ComponentChanges {
            component: ComponentId(6),
            entries: vec![(2, entry(30, 9, 1)), (3, entry(31, 12, 2)), (4, entry(32, 15, 3)), (5, entry(9, 14, 4))],
            ..ComponentChanges::default()
        };
        let coded = [
            &[2, 3 << 3 | 5, 0, 18, 3, 60][..],
            &[5, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0],
            &[0, 1 << 3 | 5, 0, 1, 0, 47, 5, 0, 0, 0, 4, 0, 0, 0],
        ]
        .concat();
        assert_eq!(StoredComponent::of(&component).entries, coded);
        let changes = Changes { components: vec![component], ..Changes::default() };
        assert_eq!(Changes::decode(&changes.encode()), Ok(changes));
    }

    /// The same of packed blocks: two that stand back to back, a raw one, one of parity behind the first two.
    #[test]
    fn the_bytes_of_packed_blocks_in_changes_are_fixed() {
        let entry = |spot, seq, row_check| MapEntry { spot, crc: 5, row_check, op: op(300, seq) };
        let packed = |sector, sectors| Spot::packed(sector, sectors).expect("it is one");
        let component = ComponentChanges {
            component: ComponentId(6),
            entries: vec![
                (2, entry(packed(30, 2), 9, 0)),
                (3, entry(packed(32, 1), 9, 0)),
                (4, entry(Spot::raw(30), 9, 0)),
                (5, entry(packed(33, 6), 9, 7)),
            ],
            ..ComponentChanges::default()
        };
        let coded = [
            &[2, 2 << 3 | 2, 0, 18, 0, 60, 1, 5, 0, 0, 0, 0, 5, 0, 0, 0][..],
            &[0, 1 << 3, 0, 0, 60, 5, 0, 0, 0],
            &[0, 1 << 3 | 7, 0, 0, 0, 0, 5, 5, 0, 0, 0, 7, 0, 0, 0],
        ]
        .concat();
        assert_eq!(StoredComponent::of(&component).entries, coded);
        let changes = Changes { components: vec![component], ..Changes::default() };
        assert_eq!(Changes::decode(&changes.encode()), Ok(changes));
    }

    #[test]
    fn keys_are_read_back_and_others_are_refused() {
        let key = shard_key(ComponentId(2), 3);
        assert_eq!((key[0], shard_of(&key)), (SHARD, Ok((ComponentId(2), 3))));
        assert!(shard_of(&key[..18]).is_err());
        let key = changes_key(1 << 40, 3);
        assert_eq!((key[0], changes_of(&key)), (CHANGES, Ok((1 << 40, 3))));
        assert!(changes_of(&key[..10]).is_err());
        assert_eq!(segments_key(1, 2), [SEGMENTS, 1, 0, 0, 0, 2]);
    }
}
