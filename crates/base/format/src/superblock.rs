//! The superblock: which device this is, of which disk group, host and cluster, and how it is divided.
//!
//! Two copies, each a 4 KiB block with a CRC and a generation; the good one with the higher generation holds. They
//! are written one after the other, so a crash leaves at least one.
//!
//! Version 2 is version 1 with [`Needs`] behind: what a build must know to open the group. A group is written as version 1 until it
//! needs something: builds that know no other open it as long as they can. Whatever comes later stands behind that, each
//! with a bit of its own that says so.

use cairn_types::{BLOCK_BYTES, ClusterId, DeviceId, DiskGroupId, HostId};
use serde::{Deserialize, Serialize};

use crate::crc32c;

const MAGIC: [u8; 8] = *b"CAIRNSB1";
/// Without needs, and with.
const VERSIONS: [u32; 2] = [1, 2];
const PAYLOAD_AT: usize = 24;
/// Bytes of a superblock copy.
pub const SUPERBLOCK_BYTES: u32 = BLOCK_BYTES;
/// Stands in the list of capacity devices where one was given up: its number is not used again. Builds that do not know this take it for
/// a device that is missing.
pub const NO_DEVICE: DeviceId = DeviceId(0);
/// Where the copies stand. Apart, so that one bad stretch of media does not take both.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 64 << 10];

/// How a cache device is divided, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheRegions {
    /// Where the metadata region begins.
    pub metadata_offset: u64,
    /// Its length.
    pub metadata_bytes: u64,
    /// Where the log region begins.
    pub log_offset: u64,
    /// Its length, a multiple of `log_segment_bytes`.
    pub log_bytes: u64,
    /// Bytes of a log segment.
    pub log_segment_bytes: u32,
    /// Random per format; stands in every batch header.
    pub log_id: u64,
    /// How often the disk group was opened.
    pub open_count: u64,
}

/// How a capacity device is divided, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityRegions {
    /// Where the segments begin.
    pub segments_offset: u64,
    /// How many there are.
    pub segment_count: u32,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// The log id of the disk group's cache device.
    pub log_id: u64,
}

/// What a device is in its disk group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceRole {
    /// Log and metadata.
    Cache {
        /// How it is divided.
        regions: CacheRegions,
        /// The capacity devices, by index.
        capacity: Vec<DeviceId>,
    },
    /// Segments.
    Capacity {
        /// How it is divided.
        regions: CapacityRegions,
        /// Which of the disk group's capacity devices, 0..7.
        index: u8,
    },
}

/// What a build must know to open a disk group, a bit each. A bit is durable before the first row, record or page that needs it, and only
/// formatting takes it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs(u64);

impl Needs {
    /// Nothing but what version 0.2.0 knew.
    pub const NONE: Self = Self(0);
    /// Packed blocks: runs of form 2, spots in the map, in history and in pending rows, counts of sectors, settings of the group. Only with
    /// [`Self::MAP_PAGES`].
    pub const SPOTS: Self = Self(1);
    /// The block map in pages, with rows of kinds 12, 17 and 18.
    pub const MAP_PAGES: Self = Self(1 << 10);
    /// Shared items: names in the map and in history, rows of kind 13, fingerprints and names in runs of form 2, deduplication among the settings. Only
    /// with [`Self::SPOTS`].
    pub const SHARED: Self = Self(1 << 2);
    /// Cuts: their record in the log, rows of kinds 11, 19 and 20, pages of kept entries. Only with [`Self::MAP_PAGES`].
    pub const CUTS: Self = Self(1 << 3);
    /// Marks of blocks whose bytes are lost, in the log, in pending rows and in the block map.
    pub const BAD_MARKS: Self = Self(1 << 5);
    /// Operations on rows in the log, and row checks of parity in the log, in pending rows and in pages of the block map. Only with
    /// [`Self::MAP_PAGES`].
    pub const PARITY: Self = Self(1 << 9);
    /// What this build knows.
    pub const ALL: Self =
        Self::MAP_PAGES.with(Self::BAD_MARKS).with(Self::PARITY).with(Self::CUTS).with(Self::SPOTS).with(Self::SHARED);

    /// Of these, what a group is written with as soon as it may: the others wait until there is something to write.
    pub const fn at_once(self) -> Self {
        Self(self.0 & Self::MAP_PAGES.0)
    }

    /// Whether all of `other` is among them.
    pub fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// These and those.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The contents of a superblock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Superblock {
    /// The cluster.
    pub cluster: ClusterId,
    /// The host.
    pub host: HostId,
    /// The disk group.
    pub disk_group: DiskGroupId,
    /// This device.
    pub device: DeviceId,
    /// Its length when it was formatted; a shorter device was truncated.
    pub device_bytes: u64,
    /// Grows with every write of the superblock; the higher copy holds.
    pub generation: u64,
    /// What it is.
    pub role: DeviceRole,
    /// What its disk group needs: on the cache device.
    #[serde(skip)]
    pub needs: Needs,
}

/// Why a block is not a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// No Cairn superblock stands here.
    #[error("no Cairn superblock")]
    None,
    /// It is of a version that this program does not know.
    #[error("a superblock of version {0}, written by a later release")]
    Version(u32),
    /// Its disk group needs what this program does not know: these bits.
    #[error("a disk group written by a later release (needs {0:#x})")]
    Newer(u64),
    /// Its checksum is wrong.
    #[error("the checksum of the superblock is wrong")]
    Checksum,
    /// The checksum is right, the contents make no sense.
    #[error("the superblock contradicts itself")]
    Malformed,
}

/// Encodes one copy.
pub fn encode_superblock(superblock: &Superblock) -> Vec<u8> {
    let mut payload = postcard::to_stdvec(superblock).expect("plain values encode");
    let version = VERSIONS[usize::from(superblock.needs != Needs::NONE)];
    if superblock.needs != Needs::NONE {
        payload.extend_from_slice(&superblock.needs.0.to_le_bytes());
    }
    assert!(PAYLOAD_AT + payload.len() <= SUPERBLOCK_BYTES as usize);
    let mut bytes = vec![0u8; SUPERBLOCK_BYTES as usize];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes[PAYLOAD_AT..PAYLOAD_AT + payload.len()].copy_from_slice(&payload);
    // The CRC covers the whole block with its own field zero, so that a flipped bit anywhere shows.
    let crc = crc32c(&bytes);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes and checks one copy.
pub fn decode_superblock(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
    let bytes = bytes.get(..SUPERBLOCK_BYTES as usize).ok_or(SuperblockError::None)?;
    if bytes[..8] != MAGIC {
        return Err(SuperblockError::None);
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let mut copy = bytes.to_vec();
    copy[16..20].fill(0);
    if crc32c(&copy) != word(16) {
        return Err(SuperblockError::Checksum);
    }
    if !VERSIONS.contains(&word(8)) {
        return Err(SuperblockError::Version(word(8)));
    }
    let payload =
        bytes.get(PAYLOAD_AT..PAYLOAD_AT.saturating_add(word(12) as usize)).ok_or(SuperblockError::Malformed)?;
    let (mut superblock, rest): (Superblock, &[u8]) =
        postcard::take_from_bytes(payload).map_err(|_| SuperblockError::Malformed)?;
    if word(8) != VERSIONS[0] {
        let needs = rest.first_chunk::<8>().ok_or(SuperblockError::Malformed)?;
        superblock.needs = Needs(u64::from_le_bytes(*needs));
        if superblock.needs.0 & !Needs::ALL.0 != 0 {
            return Err(SuperblockError::Newer(superblock.needs.0 & !Needs::ALL.0));
        }
    }
    if sound(&superblock) { Ok(superblock) } else { Err(SuperblockError::Malformed) }
}

/// Whether the regions lie inside the device and have whole segments.
fn sound(superblock: &Superblock) -> bool {
    let block = u64::from(BLOCK_BYTES);
    let inside = |offset: u64, len: u64| {
        offset.is_multiple_of(block) && offset.checked_add(len).is_some_and(|end| end <= superblock.device_bytes)
    };
    // Numbers that only ever grow by one are never near their end.
    let counts = |n: u64| n < 1 << 62;
    if !counts(superblock.generation) {
        return false;
    }
    match &superblock.role {
        DeviceRole::Cache { regions: r, capacity } => {
            let segment = u64::from(r.log_segment_bytes);
            (1..=7).contains(&capacity.len())
                && counts(r.open_count)
                // Its head and something after it, in whole pages: those of the map stand from its end on.
                && r.metadata_bytes >= 2 * block
                && r.metadata_bytes.is_multiple_of(block)
                && inside(r.metadata_offset, r.metadata_bytes)
                && inside(r.log_offset, r.log_bytes)
                && segment > 0
                && segment.is_multiple_of(block)
                && r.log_bytes.is_multiple_of(segment)
                && r.log_bytes / segment >= 2
        }
        DeviceRole::Capacity { regions: r, index } => {
            let segment = u64::from(r.segment_bytes);
            *index < 7
                && segment >= 2 * block
                && segment.is_multiple_of(block)
                && r.segment_count > 0
                && inside(r.segments_offset, u64::from(r.segment_count) * segment)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Superblock {
        Superblock {
            cluster: ClusterId(1),
            host: HostId(2),
            disk_group: DiskGroupId(3),
            device: DeviceId(4),
            device_bytes: 1 << 30,
            generation: 5,
            role: DeviceRole::Cache {
                regions: CacheRegions {
                    metadata_offset: 1 << 20,
                    metadata_bytes: 64 << 20,
                    log_offset: 65 << 20,
                    log_bytes: 256 << 20,
                    log_segment_bytes: 4 << 20,
                    log_id: 6,
                    open_count: 7,
                },
                capacity: vec![DeviceId(8), DeviceId(9)],
            },
            needs: Needs::NONE,
        }
    }

    #[test]
    fn a_superblock_reads_back_and_keeps_its_bytes() {
        let bytes = encode_superblock(&cache());
        assert_eq!(decode_superblock(&bytes), Ok(cache()));
        // Old devices must be read by new code.
        assert_eq!(crc32c(&bytes), GOLDEN);
    }
    const GOLDEN: u32 = 3228562275;

    /// Goal: a group that needs more is told from one that is damaged. Method: one that this build knows, one that it does not, and a
    /// version that does not exist yet.
    #[test]
    fn what_a_group_needs_reads_back_or_is_told() {
        let marked = Superblock { needs: Needs::BAD_MARKS, ..cache() };
        assert_eq!(decode_superblock(&encode_superblock(&marked)), Ok(marked));
        assert_eq!((Needs::ALL.at_once(), Needs::ALL.0), (Needs::MAP_PAGES, 0x62D));
        let needy = Superblock { needs: Needs::MAP_PAGES, ..cache() };
        let bytes = encode_superblock(&needy);
        assert_eq!(decode_superblock(&bytes), Ok(needy));
        assert_eq!(crc32c(&bytes), GOLDEN_2);
        let later = Superblock { needs: Needs::MAP_PAGES.with(Needs(1 << 40)), ..cache() };
        assert_eq!(decode_superblock(&encode_superblock(&later)), Err(SuperblockError::Newer(1 << 40)));
        let mut third = encode_superblock(&cache());
        third[8] = 3;
        third[16..20].fill(0);
        let crc = crc32c(&third);
        third[16..20].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode_superblock(&third), Err(SuperblockError::Version(3)));
    }
    const GOLDEN_2: u32 = 772588285;

    #[test]
    fn hostile_bytes_are_refused() {
        let bytes = encode_superblock(&cache());
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(decode_superblock(&bad).is_err(), "byte {at}");
        }
        assert_eq!(decode_superblock(&bytes[..100]), Err(SuperblockError::None));
        let mut outside = cache();
        outside.device_bytes = 100 << 20;
        let mut no_metadata = cache();
        if let DeviceRole::Cache { regions, .. } = &mut no_metadata.role {
            regions.metadata_bytes = 0;
        }
        let mut half_a_page = cache();
        if let DeviceRole::Cache { regions, .. } = &mut half_a_page.role {
            regions.metadata_bytes -= 512;
        }
        let mut last = cache();
        last.generation = u64::MAX;
        for bad in [outside, no_metadata, half_a_page, last] {
            assert_eq!(decode_superblock(&encode_superblock(&bad)), Err(SuperblockError::Malformed));
        }
    }
}
