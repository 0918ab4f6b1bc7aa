//! The rows of the metadata store: keys by kind, values as postcard.
//!
//! Promises    encoding is fixed (golden bytes in the tests); bytes that are no row are an error
//! Not here    when rows are written, and the sum over them (`store`)
//!
//! | first byte | key | value |
//! |---|---|---|
//! | 0 | - | number and sum of the other rows, but leaves (`store`) |
//! | 1 | - | [`StateRow`] |
//! | 2 | component | [`ComponentRow`] |
//! | 3 | component | [`DeletedRow`] |
//! | 4 | component, leaf | [`LeafRow`] |
//! | 5 | component, region | [`RegionRow`] |
//! | 6 | number | [`PendingRow`] |
//! | 7 | device, segment | [`SegmentRow`] |
//! | 8 | object | [`ObjectRow`] |
//! | 9 | component, number | [`ClientRow`] |
//! | 10 | number, component, leaf | entries that wait to be written into that leaf, as a [`LeafRow`] |
//! | 13 | device, segment, generation | shared items (`shared_rows.rs`) |
//! | 15 | - | [`ScrubRow`]; not in the sum: earlier releases do not know it, and pass it by |
//! | 16 | - | [`SettingsRow`] |

use cairn_types::{BlockRange, ClientTag, ComponentId, Epoch, ObjectId, OpId, REGION_BLOCKS, RegionIndex};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error, SeqAccess, Visitor},
    ser::SerializeTuple,
};

use crate::spot::PAGE_SECTORS;

/// Bytes that are no row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a row of kind {kind} is not readable")]
pub struct RowError {
    /// The first byte of its key.
    pub kind: u8,
}

/// A bit for each block of a region: the map holds it.
pub type RegionBits = [u64; REGION_BLOCKS as usize / 64];

/// Where the log begins and what was known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRow {
    /// Start of the oldest live log segment.
    pub tail: u64,
    /// The log was durable up to here when the row was written.
    pub durable_position: u64,
    /// Set when a damaged log was met, until somebody says that it was dealt with: the log's end then.
    pub damaged_at: Option<u64>,
    /// The next number of a pending row.
    pub next_pending: u64,
}

/// A component.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ComponentRow {
    /// The object that it belongs to.
    pub object: ObjectId,
    /// Its address space.
    pub size_blocks: u64,
    /// Blocks set aside for it.
    pub reserved_blocks: u64,
    /// The capacity device that it lives on.
    pub device: u8,
    /// That device failed: its data is gone.
    pub lost: bool,
    /// Every operation up to this one is decided.
    pub settled: OpId,
    /// Undone operations, with the log position of the record that undid them.
    pub undone: Vec<(OpId, u64)>,
}

/// A deleted component: until the tail passes `position`, replay must not bring it back; until `emptied`, its map is
/// still there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeletedRow {
    /// The capacity device that it lived on.
    pub device: u8,
    /// Where its deletion stands in the log.
    pub position: u64,
    /// Its map is gone.
    pub emptied: bool,
}

/// A region of a component.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegionRow {
    /// The highest operation that touched it.
    pub op: OpId,
    /// Which blocks the map holds.
    pub base: RegionBits,
}

/// A destaged operation that was not settled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PendingRow {
    /// Where.
    pub component: ComponentId,
    /// Which.
    pub op: OpId,
    /// The request behind it.
    pub client: ClientTag,
    /// Of its log record.
    pub position: u64,
    /// Its blocks.
    pub range: BlockRange,
    /// What it left.
    pub body: PendingBody,
}

/// What a destaged operation that was not settled left.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum PendingBody {
    /// A slot and a CRC per block; no slot where the block had been superseded.
    Data {
        /// Where the blocks stand.
        slots: Vec<u64>,
        /// Their CRC-32C.
        crcs: Vec<u32>,
    },
    /// Zeroes.
    Zero {
        /// They count as allocated.
        keep_allocated: bool,
    },
    /// What [`Self::Data`] says, of an operation on rows, or with parity. This and what follows needs [`crate::Needs::PARITY`].
    Rows {
        /// The members of the set that the operation concerns, a bit for each index; 0: a copy.
        members: u16,
        /// Where the blocks stand.
        slots: Vec<u64>,
        /// Their CRC-32C.
        crcs: Vec<u32>,
        /// Their row checks, one each, 0 for data; none where all are data.
        row_checks: Vec<u32>,
    },
    /// Zeroes of an operation on rows.
    ZeroRows {
        /// The members of the set that the operation concerns, a bit for each index.
        members: u16,
        /// They count as allocated.
        keep_allocated: bool,
    },
    /// What it says, of a copy to a component that has cuts: nothing is kept for it. Needs [`crate::Needs::CUTS`].
    Copied(Box<PendingBody>),
    /// What [`Self::Rows`] says, where blocks are packed. Needs [`crate::Needs::SPOTS`].
    Spots {
        /// The members of the set that the operation concerns, a bit for each index; 0: a copy, or an operation of a mirror.
        members: u16,
        /// Where the blocks stand: bits of [`crate::Spot`]s.
        spots: Vec<u64>,
        /// Their CRC-32C.
        crcs: Vec<u32>,
        /// Their row checks, one each, 0 for data; none where all are data.
        row_checks: Vec<u32>,
    },
}

/// A segment of a capacity device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SegmentRow {
    /// Counts the uses of the segment.
    pub generation: u64,
    /// Pages written in this use.
    pub fill: u32,
    /// What the map or a pending row refers to.
    pub live: Live,
    /// Destage round of the last write: the age that cleaning weighs.
    pub written: u64,
}

/// What of a segment is referred to.
///
/// It is stored as the count of slots where all of it is raw, as it was before blocks were packed; else as [`PACKED_LIVE`] and sectors, then items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Live {
    /// Sectors.
    pub sectors: u32,
    /// Blocks that stand in them.
    pub items: u32,
}

/// Of a stored count: it is one of sectors, and one of items follows. Needs [`crate::Needs::SPOTS`].
const PACKED_LIVE: u32 = 1 << 31;

impl Live {
    /// Raw pages.
    pub const fn raw(items: u32) -> Self {
        Self { sectors: items * PAGE_SECTORS, items }
    }
    /// Nothing.
    pub const fn is_none(self) -> bool {
        self.items == 0
    }
    /// Whether all of it is raw.
    pub const fn is_raw(self) -> bool {
        self.sectors as u64 == self.items as u64 * PAGE_SECTORS as u64
    }
}

impl Serialize for Live {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_raw() {
            return serializer.serialize_u32(self.items);
        }
        let mut both = serializer.serialize_tuple(2)?;
        both.serialize_element(&(self.sectors | PACKED_LIVE))?;
        both.serialize_element(&self.items)?;
        both.end()
    }
}

struct LiveVisitor;

impl<'de> Visitor<'de> for LiveVisitor {
    type Value = Live;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a count of slots, or of sectors and one of items")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut both: A) -> Result<Live, A::Error> {
        let mut next = || both.next_element::<u32>()?.ok_or_else(|| A::Error::custom("a count is lacking"));
        let count = next()?;
        if count & PACKED_LIVE == 0 {
            let fits = count < PACKED_LIVE / PAGE_SECTORS;
            return fits.then(|| Live::raw(count)).ok_or_else(|| A::Error::custom("no segment has so many slots"));
        }
        let live = Live { sectors: count & !PACKED_LIVE, items: next()? };
        // What one of the others has said is not said in two ways.
        if live.is_raw() { Err(A::Error::custom("slots that are told as sectors")) } else { Ok(live) }
    }
}

impl<'de> Deserialize<'de> for Live {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(2, LiveVisitor)
    }
}

/// What was chosen for a disk group. Needs [`crate::Needs::SPOTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SettingsRow {
    /// What is destaged is packed.
    pub compression: bool,
    /// Equal blocks are stored once. Where that was never chosen the row ends before it. Needs [`crate::Needs::SHARED`].
    pub deduplication: bool,
    /// Segments that were last written to before this destage round are written anew. Where none are the row ends before it.
    pub rewrite_below: Option<u64>,
}

impl SettingsRow {
    /// Its bytes.
    pub fn encode(self) -> Vec<u8> {
        match (self.deduplication, self.rewrite_below) {
            (false, None) => encode(&self.compression),
            (true, None) => encode(&(self.compression, true)),
            (deduplication, Some(below)) => encode(&(self.compression, deduplication, below)),
        }
    }

    /// The row of a value.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(key: &[u8], bytes: &[u8]) -> Result<Self, RowError> {
        let flag = |bytes| postcard::take_from_bytes::<bool>(bytes).map_err(|_| malformed(key));
        let (compression, rest) = flag(bytes)?;
        let (deduplication, rest) = if rest.is_empty() { (false, rest) } else { flag(rest)? };
        if rest.is_empty() {
            return Ok(Self { compression, deduplication, rewrite_below: None });
        }
        let (below, rest): (u64, &[u8]) = postcard::take_from_bytes(rest).map_err(|_| malformed(key))?;
        match rest.is_empty() {
            true => Ok(Self { compression, deduplication, rewrite_below: Some(below) }),
            false => Err(malformed(key)),
        }
    }
}

/// The record of an object's seat.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ObjectRow {
    /// Position of the log record that it was folded from: older ones are ignored by replay.
    pub position: u64,
    /// The record.
    pub bytes: Vec<u8>,
}

/// A front-end request that was carried out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientRow {
    /// The request.
    pub client: ClientTag,
    /// The operation that it became.
    pub op: OpId,
}

/// A leaf of the map: of 64 blocks those that are mapped, in order. Epochs stand once, CRCs unpacked as they do not compress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafRow {
    /// A bit for each block that is mapped.
    pub present: u64,
    /// Where each stands.
    pub slots: Vec<u64>,
    /// CRC-32C of each, little endian.
    pub crcs: Vec<[u8; 4]>,
    /// The epochs of the operations.
    pub epochs: Vec<Epoch>,
    /// The operation of each: which of the epochs, and its number.
    pub ops: Vec<(u8, u64)>,
}

/// Where the scrub of the disk group stands. Without it a pass begins anew, and finds what it found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScrubRow {
    /// [`Self::FORM`]; of a row of another form nothing is taken over.
    pub form: u8,
    /// The pass that is under way, or was the last; 0: there was none.
    pub pass: u64,
    /// It is under way.
    pub is_running: bool,
    /// Somebody asked for it: it goes as fast as guests allow.
    pub at_once: bool,
    /// It goes on when somebody says so.
    pub is_paused: bool,
    /// When it began, in ms since 1970.
    pub begun_unix_ms: u64,
    /// When the last pass that came to its end did; 0: none did.
    pub ended_unix_ms: u64,
    /// Everything before this block is done.
    pub next: (ComponentId, u64),
    /// Blocks that this pass has compared.
    pub compared_blocks: u64,
    /// Blocks that were found bad, of all passes.
    pub found_blocks: u64,
    /// Of these, blocks that are whole again.
    pub repaired_blocks: u64,
    /// Of these, blocks whose component was deleted, or lost as a whole.
    pub gone_blocks: u64,
    /// Those that are bad now, by component.
    pub bad: Vec<(ComponentId, Vec<BadRange>)>,
}

/// Blocks of a component that are bad on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadRange {
    /// Which.
    pub range: BlockRange,
    /// The owner has looked for another copy that has them, and there was none.
    pub no_copy: bool,
}

impl ScrubRow {
    /// The form of this build.
    pub const FORM: u8 = 1;

    /// None: of another form, or no row.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.first() != Some(&Self::FORM) {
            return None;
        }
        postcard::from_bytes(bytes).ok()
    }
}

/// Bytes of an encoded entry of a leaf, about.
const LEAF_ENTRY_BYTES: usize = 20;

impl LeafRow {
    /// Its bytes.
    ///
    /// # Panics
    /// Never: these are plain values.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = Vec::with_capacity(64 * (1 + self.epochs.len()) + LEAF_ENTRY_BYTES * self.slots.len());
        postcard::to_extend(self, bytes).expect("plain values encode")
    }

    /// None when the bytes are not a leaf.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let row: Self = postcard::from_bytes(bytes).ok()?;
        let count = row.present.count_ones() as usize;
        ([row.slots.len(), row.crcs.len(), row.ops.len()] == [count; 3]).then_some(row)
    }
}

/// Kind of a key.
pub const STATE: u8 = 1;
/// Kind of a key.
pub const COMPONENT: u8 = 2;
/// Kind of a key.
pub const DELETED: u8 = 3;
/// Kind of a key.
pub const LEAF: u8 = 4;
/// Kind of a key.
pub const REGION: u8 = 5;
/// Kind of a key.
pub const PENDING: u8 = 6;
/// Kind of a key.
pub const SEGMENT: u8 = 7;
/// Kind of a key.
pub const OBJECT: u8 = 8;
/// Kind of a key.
pub const CLIENT: u8 = 9;
/// Kind of a key.
pub const DELTA: u8 = 10;
/// Kind of a key.
pub const SCRUB: u8 = 15;
/// Kind of a key.
pub const SETTINGS: u8 = 16;

/// A key of this kind.
pub fn key(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
    key.push(kind);
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}
/// Its key.
pub fn state_key() -> Vec<u8> {
    key(STATE, &[])
}
/// Its key.
pub fn component_key(component: ComponentId) -> Vec<u8> {
    key(COMPONENT, &[&component.0.to_be_bytes()])
}
/// Its key.
pub fn deleted_key(component: ComponentId) -> Vec<u8> {
    key(DELETED, &[&component.0.to_be_bytes()])
}
/// Its key.
pub fn leaf_key(component: ComponentId, leaf: u64) -> Vec<u8> {
    key(LEAF, &[&component.0.to_be_bytes(), &leaf.to_be_bytes()])
}
/// Its key, by the number first: those of one transaction lie side by side.
pub fn delta_key(number: u64, component: ComponentId, leaf: u64) -> Vec<u8> {
    key(DELTA, &[&number.to_be_bytes(), &component.0.to_be_bytes(), &leaf.to_be_bytes()])
}
/// The number, the component and the leaf in a key of kind 10.
pub fn delta_of(key: &[u8]) -> Result<(u64, ComponentId, u64), RowError> {
    let rest = key.get(1..).and_then(|rest| <&[u8; 32]>::try_from(rest).ok()).ok_or_else(|| malformed(key))?;
    let (number, rest) = rest.split_first_chunk::<8>().expect("of 32 bytes");
    let (component, leaf) = rest.split_first_chunk::<16>().expect("of 24 bytes");
    let leaf = u64::from_be_bytes(leaf.try_into().expect("the last eight of 32 bytes"));
    Ok((u64::from_be_bytes(*number), ComponentId(u128::from_be_bytes(*component)), leaf))
}
/// Its key.
pub fn region_key(component: ComponentId, region: RegionIndex) -> Vec<u8> {
    key(REGION, &[&component.0.to_be_bytes(), &region.to_be_bytes()])
}
/// Its key.
pub fn pending_key(row: u64) -> Vec<u8> {
    key(PENDING, &[&row.to_be_bytes()])
}
/// Its key.
pub fn segment_key(device: u8, segment: u32) -> Vec<u8> {
    key(SEGMENT, &[&[device], &segment.to_be_bytes()])
}
/// Its key.
pub fn object_key(object: ObjectId) -> Vec<u8> {
    key(OBJECT, &[&object.0.to_be_bytes()])
}
/// Its key.
pub fn client_key(component: ComponentId, number: u64) -> Vec<u8> {
    key(CLIENT, &[&component.0.to_be_bytes(), &number.to_be_bytes()])
}

/// Its key.
pub fn scrub_key() -> Vec<u8> {
    key(SCRUB, &[])
}
/// Its key.
pub fn settings_key() -> Vec<u8> {
    key(SETTINGS, &[])
}

/// The component in a key of kinds 2..=5 and 9.
pub fn component_of(key: &[u8]) -> Result<ComponentId, RowError> {
    let bytes = key.get(1..17).ok_or_else(|| malformed(key))?;
    Ok(ComponentId(u128::from_be_bytes(bytes.try_into().expect("sixteen bytes"))))
}
/// The last eight bytes of a key as a number.
pub fn number_of(key: &[u8]) -> Result<u64, RowError> {
    let bytes = key.len().checked_sub(8).and_then(|at| key.get(at..)).ok_or_else(|| malformed(key))?;
    Ok(u64::from_be_bytes(bytes.try_into().expect("eight bytes")))
}
/// The last four bytes of a key as a number.
pub fn short_number_of(key: &[u8]) -> Result<u32, RowError> {
    let bytes = key.len().checked_sub(4).and_then(|at| key.get(at..)).ok_or_else(|| malformed(key))?;
    Ok(u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

/// The value of a row.
///
/// # Panics
/// On a value that has no encoding: ours are plain values.
pub fn encode<T: Serialize>(row: &T) -> Vec<u8> {
    postcard::to_stdvec(row).expect("plain values encode")
}
/// The row of a value.
pub fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, RowError> {
    postcard::from_bytes(bytes).map_err(|_| malformed(key))
}
/// The row of this key is none.
pub fn malformed(key: &[u8]) -> RowError {
    RowError { kind: key.first().copied().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use cairn_types::{HostId, Incarnation};

    use super::*;

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 300, host: HostId(7), incarnation: Incarnation(2) }, seq }
    }

    /// An id is 16 bytes, the lowest first.
    fn id(lowest: u8) -> [u8; 16] {
        u128::from(lowest).to_le_bytes()
    }

    fn op_bytes(seq: u8) -> Vec<u8> {
        [&[0xAC, 2][..], &id(7), &[2, seq]].concat()
    }

    /// Goal: metadata that is on devices reads back. Method: bytes that are fixed, one row of each kind.
    #[test]
    fn the_bytes_of_rows_are_fixed() {
        let state = StateRow { tail: 200, durable_position: 4, damaged_at: Some(1), next_pending: 0 };
        assert_eq!(encode(&state), [200, 1, 4, 1, 1, 0]);
        let component = ComponentRow {
            object: ObjectId(11),
            size_blocks: 100,
            reserved_blocks: 2,
            device: 1,
            lost: false,
            settled: op(5),
            undone: vec![(op(6), 9)],
        };
        let fixed = [&id(11)[..], &[100, 2, 1, 0], &op_bytes(5)[..], &[1], &op_bytes(6)[..], &[9]].concat();
        assert_eq!(encode(&component), fixed);
        assert_eq!(encode(&DeletedRow { device: 1, position: 300, emptied: true }), [1, 0xAC, 2, 1]);
        let region = RegionRow { op: op(5), base: [1, 0, 0, 128] };
        assert_eq!(encode(&region), [&op_bytes(5)[..], &[1, 0, 0, 128, 1]].concat());
        let body = PendingBody::Data { slots: vec![3], crcs: vec![200] };
        let (component, client) = (ComponentId(5), ClientTag { session: 1, number: 2 });
        let pending = PendingRow { component, op: op(5), client, position: 8, range: BlockRange::new(4, 1), body };
        let fixed = [&id(5)[..], &op_bytes(5)[..], &[1, 2, 8, 4, 1, 0, 1, 3, 1, 200, 1]].concat();
        assert_eq!(encode(&pending), fixed);
        assert_eq!(encode(&PendingBody::Zero { keep_allocated: true }), [1, 1]);
        let rows = PendingBody::Rows { members: 0b1000_0001, slots: vec![3], crcs: vec![4], row_checks: vec![200] };
        assert_eq!(encode(&rows), [2, 0x81, 1, 1, 3, 1, 4, 1, 200, 1]);
        assert_eq!(encode(&PendingBody::ZeroRows { members: 5, keep_allocated: false }), [3, 5, 0]);
        let segment = SegmentRow { generation: 1, fill: 2, live: Live::raw(3), written: 4 };
        assert_eq!(encode(&segment), [1, 2, 3, 4]);
        let packed = SegmentRow { live: Live { sectors: 24, items: 5 }, ..segment };
        assert_eq!(encode(&packed), [1, 2, 0x98, 0x80, 0x80, 0x80, 8, 5, 4]);
        for row in [segment, packed] {
            assert_eq!(decode::<SegmentRow>(&[SEGMENT], &encode(&row)).expect("it is one"), row);
        }
        // Slots that are told as sectors, and more than there can be.
        for bytes in [&[1, 2, 0x98, 0x80, 0x80, 0x80, 8, 3, 4][..], &[1, 2, 0xFF, 0xFF, 0xFF, 0xFF, 7, 4]] {
            assert!(decode::<SegmentRow>(&[SEGMENT], bytes).is_err());
        }
        for (compression, deduplication, rewrite_below, bytes) in [
            (true, false, None, &[1][..]),
            (false, true, None, &[0, 1]),
            (true, true, None, &[1, 1]),
            (true, false, Some(300), &[1, 0, 0xAC, 2]),
        ] {
            let row = SettingsRow { compression, deduplication, rewrite_below };
            assert_eq!(row.encode(), bytes);
            assert_eq!(SettingsRow::decode(&settings_key(), bytes), Ok(row));
        }
        assert!(
            SettingsRow::decode(&settings_key(), &[]).is_err()
                && SettingsRow::decode(&settings_key(), &[1, 7]).is_err()
                && SettingsRow::decode(&settings_key(), &[1, 1, 2, 3]).is_err()
        );
        let spots = PendingBody::Spots { members: 0, spots: vec![9], crcs: vec![4], row_checks: Vec::new() };
        assert_eq!(encode(&spots), [5, 0, 1, 9, 1, 4, 0]);
        assert_eq!(encode(&ObjectRow { position: 1, bytes: vec![9, 9] }), [1, 2, 9, 9]);
        assert_eq!(encode(&ClientRow { client, op: op(5) }), [&[1, 2][..], &op_bytes(5)[..]].concat());
        let leaf = LeafRow {
            present: 1 << 2,
            slots: vec![300],
            crcs: vec![[1, 2, 3, 4]],
            epochs: vec![op(5).epoch],
            ops: vec![(0, 5)],
        };
        let bytes = leaf.encode();
        let epoch = &op_bytes(0)[..19];
        assert_eq!(bytes, [&[4, 1, 0xAC, 2, 1, 1, 2, 3, 4, 1][..], epoch, &[1, 0, 5]].concat());
        assert_eq!(LeafRow::decode(&bytes), Some(leaf));
        assert!((0..bytes.len()).all(|cut| LeafRow::decode(&bytes[..cut]).is_none()));
    }

    #[test]
    fn keys_are_read_back_and_others_are_refused() {
        let key = delta_key(1, ComponentId(2), 3);
        assert_eq!((key.len(), delta_of(&key)), (33, Ok((1, ComponentId(2), 3))));
        assert_eq!(delta_of(&key[..32]), Err(RowError { kind: DELTA }));
        let key = region_key(ComponentId(2), 3);
        assert_eq!((component_of(&key), short_number_of(&key)), (Ok(ComponentId(2)), Ok(3)));
        assert_eq!(component_of(&key[..16]), Err(RowError { kind: REGION }));
        assert!(decode::<StateRow>(&state_key(), &[200]).is_err());
    }
}
