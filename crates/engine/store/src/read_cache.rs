//! The in-memory read cache of a disk group: single blocks of small reads, bounded.
//!
//! Keyed by (component, block), and dropped when a record touches the block; a hit is used only if its CRC is the one
//! that the index or the map asks for. Small writes to rows are kept too: the next one to their row reads them. Large reads pass by: they
//! are sequential, and would sweep everything out. What parity says of its row is not kept here: whoever asks has it from the index or
//! the map, beside the CRC.

use bytes::Bytes;
use cairn_env::PageBuf;
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId};

use cairn_cache::ClockCache;

/// Blocks of a read that is cached, at most: 64 KiB.
pub(crate) const CACHED_READ_BLOCKS_MAX: u32 = 16;
const BLOCK: usize = BLOCK_BYTES as usize;
/// Bytes of a cached block with its place in the tree.
const ENTRY_BYTES: u64 = BLOCK_BYTES as u64 + 128;

#[derive(Debug)]
pub(crate) struct ReadCache {
    blocks: ClockCache<(ComponentId, u64), (Bytes, u32)>,
}

impl ReadCache {
    pub fn new(bytes_max: u64) -> Self {
        Self { blocks: ClockCache::new((bytes_max / ENTRY_BYTES) as usize) }
    }
    pub fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * ENTRY_BYTES
    }
    pub fn get(&mut self, component: ComponentId, block: u64, crc: u32) -> Option<Bytes> {
        self.blocks.get((component, block)).filter(|(_, have)| *have == crc).map(|(data, _)| data.clone())
    }
    /// Keeps block `at` of what was read: a buffer of one block as it is, else a copy, as a slice would hold the whole buffer.
    pub fn insert(&mut self, component: ComponentId, block: u64, read: &Bytes, at: usize, crc: u32) {
        let data = match read.len() {
            BLOCK => read.clone(),
            _ => PageBuf::copy_of(&read[at * BLOCK..(at + 1) * BLOCK]).freeze(),
        };
        self.blocks.insert((component, block), (data, crc));
    }
    /// Keeps the blocks of a write, which begin at `first_block`: copies, as what was written may be a part of a larger buffer.
    pub fn keep_written(&mut self, component: ComponentId, first_block: u64, written: &[u8], crcs: &[u32]) {
        for ((block, data), crc) in (first_block..).zip(written.chunks_exact(BLOCK)).zip(crcs) {
            self.blocks.insert((component, block), (PageBuf::copy_of(data).freeze(), *crc));
        }
    }
    pub fn forget(&mut self, component: ComponentId, range: BlockRange) {
        if range.count > 0 {
            self.blocks.remove_range((component, range.first)..=(component, range.end() - 1));
        }
    }
    pub fn clear(&mut self) {
        self.blocks.clear();
    }
    pub fn forget_component(&mut self, component: ComponentId) {
        self.blocks.remove_range((component, 0)..=(component, u64::MAX));
    }
}
