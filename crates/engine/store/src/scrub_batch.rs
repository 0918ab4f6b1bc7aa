//! A shard of the map that a scrub has under way: where its blocks should stand, in the order in which they are read.
//!
//! Not here    finding out where, reading, comparing (`scrub.rs`)

use cairn_format::{SECTOR_BYTES, SHARD_BLOCKS};
use cairn_types::BLOCK_BYTES;

use crate::shards::ShardKey;

/// Bytes of one read, at most: as destage has them, so that a guest's read waits no longer behind it than behind that.
const PIECE_BYTES: u64 = 256 << 10;
/// How far apart two blocks may be that are read together.
const GAP_BYTES: u64 = 8 * BLOCK_BYTES as u64;
/// Bytes of a block.
pub(crate) const PAGE: u64 = BLOCK_BYTES as u64;

/// Where a block of a shard should stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub device: u8,
    pub offset: u64,
    /// Of a page, or fewer where it is packed.
    pub sectors: u8,
    pub segment: u64,
    pub crc: u32,
    /// Within the shard.
    pub block: u16,
}

impl Due {
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.sectors) * u64::from(SECTOR_BYTES)
    }
}

/// A shard under way.
#[derive(Debug)]
pub(crate) struct Batch {
    pub key: ShardKey,
    /// By device and sector.
    pub due: Vec<Due>,
    pub at: usize,
    /// Blocks that are mapped and that nobody knows a place of.
    pub placeless: Vec<u64>,
}

impl Batch {
    /// Of the shard.
    pub fn first_block(&self) -> u64 {
        u64::from(self.key.1) * SHARD_BLOCKS
    }

    /// The next blocks that are read together: of one segment, near each other, [`PIECE_BYTES`] at most.
    pub fn next_piece(&mut self) -> &[Due] {
        let rest = &self.due[self.at..];
        let Some(first) = rest.first() else { return rest };
        let fits = |pair: &[Due]| {
            let (last, next) = (pair[0], pair[1]);
            (next.device, next.segment) == (last.device, last.segment)
                && next.offset <= last.end() + GAP_BYTES
                && next.end() <= first.offset - first.offset % PAGE + PIECE_BYTES
        };
        let count = 1 + rest.windows(2).take_while(|pair| fits(pair)).count();
        self.at += count;
        &rest[..count]
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::ComponentId;

    use super::*;

    /// Goal: what is read together is near, of one segment, and no more than a piece; nothing is left out. Method: places with gaps.
    #[test]
    fn pieces_have_all_blocks_in_order() {
        let due = |n: u64| Due {
            device: 0,
            offset: (n + n / 100 * 50) * PAGE,
            sectors: 8,
            segment: n / 300,
            crc: 0,
            block: n as u16,
        };
        let all: Vec<Due> = (0..1000).map(due).collect();
        let mut batch = Batch { key: (ComponentId(1), 2), due: all, at: 0, placeless: Vec::new() };
        let (mut seen, mut pieces) = (Vec::new(), 0);
        loop {
            let piece = batch.next_piece();
            let (Some(first), Some(last)) = (piece.first(), piece.last()) else { break };
            assert_eq!(first.segment, last.segment);
            assert!(last.offset + PAGE - first.offset <= PIECE_BYTES);
            seen.extend(piece.iter().map(|due| due.block));
            pieces += 1;
        }
        assert_eq!(seen, (0..1000).collect::<Vec<u16>>());
        assert!((16..=30).contains(&pieces), "{pieces}");
        assert_eq!(batch.first_block(), 2 * SHARD_BLOCKS);
    }
}
