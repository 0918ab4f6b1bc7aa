//! A run: what one destage or cleaning round appends to a capacity segment, `header pages | blocks`.
//!
//! The header names the owner of every block, so that the cleaner and `inspect` can read a segment without the
//! map. It is never overwritten in place: a segment is a sequence of runs.
//!
//! ```text
//!  0 magic "CAIRNRN1"   16 segment   24 generation   32 entries   36 CRC, this field zero
//!  8 log id             20 device    (u32 each)      40 reserved  64 entries of 32 bytes: component, block, CRC, flags
//! ```

use cairn_types::{BLOCK_BYTES, ComponentId};

use crate::crc32c;

const MAGIC: [u8; 8] = *b"CAIRNRN1";
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
    /// Owners of the blocks that follow, in order.
    pub entries: Vec<RunEntry>,
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
}

/// Pages of a header of `entries` entries.
pub fn run_header_pages(entries: u32) -> u32 {
    (ENTRIES_AT + entries as usize * ENTRY_BYTES).div_ceil(BLOCK_BYTES as usize) as u32
}

/// Encodes a run's header to whole pages.
pub fn encode_run_header(header: &RunHeader) -> Vec<u8> {
    let count = header.entries.len() as u32;
    let mut bytes = vec![0u8; run_header_pages(count) as usize * BLOCK_BYTES as usize];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&header.log_id.to_le_bytes());
    bytes[16..20].copy_from_slice(&header.segment.to_le_bytes());
    bytes[20..24].copy_from_slice(&header.device.to_le_bytes());
    bytes[24..32].copy_from_slice(&header.generation.to_le_bytes());
    bytes[32..36].copy_from_slice(&count.to_le_bytes());
    for (slot, entry) in bytes[ENTRIES_AT..].chunks_exact_mut(ENTRY_BYTES).zip(&header.entries) {
        slot[..16].copy_from_slice(&entry.component.0.to_le_bytes());
        slot[16..24].copy_from_slice(&entry.block.to_le_bytes());
        slot[24..28].copy_from_slice(&entry.crc.to_le_bytes());
        slot[28..32].copy_from_slice(&u32::from(entry.pending).to_le_bytes());
    }
    let crc = crc32c(&bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes and checks a run's header. `bytes` begins at the header and may be longer.
pub fn decode_run_header(bytes: &[u8]) -> Result<RunHeader, RunError> {
    if bytes.len() < ENTRIES_AT || bytes[..8] != MAGIC {
        return Err(RunError::NotARun);
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let count = word(32);
    if count > RUN_ENTRIES_PER_HEADER_MAX {
        return Err(RunError::NotARun);
    }
    let len = run_header_pages(count) * BLOCK_BYTES;
    let bytes = bytes.get(..len as usize).ok_or(RunError::Short(len))?;
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[..CRC_AT]);
    digest.update(&[0; 4]);
    digest.update(&bytes[CRC_AT + 4..]);
    if digest.finalize() as u32 != word(CRC_AT) {
        return Err(RunError::Checksum);
    }
    let entries = bytes[ENTRIES_AT..]
        .chunks_exact(ENTRY_BYTES)
        .take(count as usize)
        .map(|slot| RunEntry {
            component: ComponentId(u128::from_le_bytes(slot[..16].try_into().expect("sixteen bytes"))),
            block: u64::from_le_bytes(slot[16..24].try_into().expect("eight bytes")),
            crc: u32::from_le_bytes(slot[24..28].try_into().expect("four bytes")),
            pending: slot[28] != 0,
        })
        .collect();
    Ok(RunHeader { log_id: long(8), device: word(20), segment: word(16), generation: long(24), entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunHeader {
        let entry = |block| RunEntry { component: ComponentId(9), block, crc: 7, pending: block == 3 };
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
}
