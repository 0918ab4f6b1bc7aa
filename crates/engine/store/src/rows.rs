//! The rows of the metadata store: keys by kind, values as postcard.
//!
//! | first byte | key | value |
//! |---|---|---|
//! | 0 | - | number and sum of the other rows, but leaves (`meta.rs`) |
//! | 1 | - | [`StateRow`] |
//! | 2 | component | [`ComponentRow`] |
//! | 3 | component | [`DeletedRow`] |
//! | 4 | component, leaf | a leaf of the map |
//! | 5 | component, region | [`RegionRow`] |
//! | 6 | number | [`PendingRow`] |
//! | 7 | device, segment | [`SegmentRow`] |
//! | 8 | object | [`ObjectRow`] |
//! | 9 | component, number | [`ClientRow`] |
//! | 10 | number, component, leaf | entries that wait to be written into that leaf, as a leaf (`deltas.rs`) |

use cairn_types::{BlockRange, ClientTag, ComponentId, ObjectId, OpId, RegionIndex};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{bitmap::RegionBits, error::MetaError};

/// Where the log begins and what was known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateRow {
    /// Start of the oldest live log segment.
    pub tail: u64,
    /// The log was durable up to here when the row was written.
    pub durable_position: u64,
    /// Set when a damaged log was met, until somebody says that it was dealt with: the log's end then.
    pub damaged_at: Option<u64>,
    /// The next number of a pending row.
    pub next_pending: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ComponentRow {
    pub object: ObjectId,
    pub size_blocks: u64,
    pub reserved_blocks: u64,
    pub device: u8,
    pub lost: bool,
    pub settled: OpId,
    pub undone: Vec<(OpId, u64)>,
}

/// A deleted component: until the tail passes `position`, replay must not bring it back; until `emptied`, its map is
/// still there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DeletedRow {
    pub device: u8,
    pub position: u64,
    pub emptied: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RegionRow {
    pub op: OpId,
    pub base: RegionBits,
}

/// A destaged operation that was not settled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PendingRow {
    pub component: ComponentId,
    pub op: OpId,
    pub client: ClientTag,
    pub position: u64,
    pub range: BlockRange,
    pub body: PendingBody,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum PendingBody {
    /// A slot and a CRC per block; no slot where the block had been superseded.
    Data {
        slots: Vec<u64>,
        crcs: Vec<u32>,
    },
    Zero {
        keep_allocated: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SegmentRow {
    /// Counts the uses of the segment.
    pub generation: u64,
    /// Pages written in this use.
    pub fill: u32,
    /// Slots that the map or a pending row refers to.
    pub live: u32,
    /// Destage round of the last write: the age that cleaning weighs.
    pub written: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ObjectRow {
    /// Position of the log record that it was folded from: older ones are ignored by replay.
    pub position: u64,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClientRow {
    pub client: ClientTag,
    pub op: OpId,
}

pub(crate) const STATE: u8 = 1;
pub(crate) const COMPONENT: u8 = 2;
pub(crate) const DELETED: u8 = 3;
pub(crate) const LEAF: u8 = 4;
pub(crate) const REGION: u8 = 5;
pub(crate) const PENDING: u8 = 6;
pub(crate) const SEGMENT: u8 = 7;
pub(crate) const OBJECT: u8 = 8;
pub(crate) const CLIENT: u8 = 9;
pub(crate) const DELTA: u8 = 10;

pub(crate) fn key(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
    key.push(kind);
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}
pub(crate) fn state_key() -> Vec<u8> {
    key(STATE, &[])
}
pub(crate) fn component_key(component: ComponentId) -> Vec<u8> {
    key(COMPONENT, &[&component.0.to_be_bytes()])
}
pub(crate) fn deleted_key(component: ComponentId) -> Vec<u8> {
    key(DELETED, &[&component.0.to_be_bytes()])
}
pub(crate) fn leaf_key(component: ComponentId, leaf: u64) -> Vec<u8> {
    key(LEAF, &[&component.0.to_be_bytes(), &leaf.to_be_bytes()])
}
/// By the number first: those of one transaction lie side by side.
pub(crate) fn delta_key(number: u64, component: ComponentId, leaf: u64) -> Vec<u8> {
    key(DELTA, &[&number.to_be_bytes(), &component.0.to_be_bytes(), &leaf.to_be_bytes()])
}
/// The number, the component and the leaf in a key of kind 10.
pub(crate) fn delta_of(key: &[u8]) -> Result<(u64, ComponentId, u64), MetaError> {
    let rest = key.get(1..).and_then(|rest| <&[u8; 32]>::try_from(rest).ok()).ok_or_else(|| malformed(key))?;
    let (number, rest) = rest.split_first_chunk::<8>().expect("of 32 bytes");
    let (component, leaf) = rest.split_first_chunk::<16>().expect("of 24 bytes");
    let leaf = u64::from_be_bytes(leaf.try_into().expect("the last eight of 32 bytes"));
    Ok((u64::from_be_bytes(*number), ComponentId(u128::from_be_bytes(*component)), leaf))
}
pub(crate) fn region_key(component: ComponentId, region: RegionIndex) -> Vec<u8> {
    key(REGION, &[&component.0.to_be_bytes(), &region.to_be_bytes()])
}
pub(crate) fn pending_key(row: u64) -> Vec<u8> {
    key(PENDING, &[&row.to_be_bytes()])
}
pub(crate) fn segment_key(device: u8, segment: u32) -> Vec<u8> {
    key(SEGMENT, &[&[device], &segment.to_be_bytes()])
}
pub(crate) fn object_key(object: ObjectId) -> Vec<u8> {
    key(OBJECT, &[&object.0.to_be_bytes()])
}
pub(crate) fn client_key(component: ComponentId, number: u64) -> Vec<u8> {
    key(CLIENT, &[&component.0.to_be_bytes(), &number.to_be_bytes()])
}

/// The component in a key of kinds 2..=5 and 9.
pub(crate) fn component_of(key: &[u8]) -> Result<ComponentId, MetaError> {
    let bytes = key.get(1..17).ok_or_else(|| malformed(key))?;
    Ok(ComponentId(u128::from_be_bytes(bytes.try_into().expect("sixteen bytes"))))
}
/// The last eight bytes of a key as a number.
pub(crate) fn number_of(key: &[u8]) -> Result<u64, MetaError> {
    let bytes = key.len().checked_sub(8).and_then(|at| key.get(at..)).ok_or_else(|| malformed(key))?;
    Ok(u64::from_be_bytes(bytes.try_into().expect("eight bytes")))
}
/// The last four bytes of a key as a number.
pub(crate) fn short_number_of(key: &[u8]) -> Result<u32, MetaError> {
    let bytes = key.len().checked_sub(4).and_then(|at| key.get(at..)).ok_or_else(|| malformed(key))?;
    Ok(u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

pub(crate) fn encode<T: Serialize>(row: &T) -> Vec<u8> {
    postcard::to_stdvec(row).expect("plain values encode")
}
pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, MetaError> {
    postcard::from_bytes(bytes).map_err(|_| malformed(key))
}
pub(crate) fn malformed(key: &[u8]) -> MetaError {
    MetaError(format!("a row of kind {} is not readable", key.first().copied().unwrap_or(0)))
}
