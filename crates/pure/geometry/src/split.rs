//! Addresses: from the object to its replica sets, and back. Those of a mirror's set are its components' too; parity: `rows`.
//!
//! Promises    pieces cover the range in order, each within one replica set and one strip-run; no allocation
//! Assumes     the range lies within the object
//! Not here    sizes (plan.rs)

use cairn_types::{BLOCK_BYTES, BlockRange, Layout, ReplicaSetIndex};

use crate::plan::{Shape, stripe_of};

/// A run of blocks that is contiguous in the object and in one replica set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The replica set that holds it.
    pub set: ReplicaSetIndex,
    /// Where in that set: in each component of a mirror; [`crate::Rows`] says where else.
    pub range: BlockRange,
    /// Where in the object: the first block.
    pub object_first: u64,
}

impl Piece {
    /// Where in the object.
    pub fn object_range(self) -> BlockRange {
        BlockRange::new(self.object_first, self.range.count)
    }
}

/// The pieces of one range, in the order of the object. Costs two divisions a piece and allocates nothing.
#[derive(Debug, Clone)]
pub struct Pieces {
    shape: Shape,
    next: u64,
    end: u64,
}

/// Splits `range` (blocks of an object of `size_bytes`) into pieces, in order, as few as there can be.
///
/// With stripe width 1 that is one piece unless the range crosses from one chunk into the next.
///
/// # Panics
/// On a range past the end of the object: the front end let a bad request through.
pub fn split(layout: &Layout, size_bytes: u64, range: BlockRange) -> Pieces {
    let blocks = size_bytes.div_ceil(u64::from(BLOCK_BYTES));
    let end = range.first.checked_add(u64::from(range.count));
    assert!(end.is_some_and(|end| end <= blocks), "{range:?} is past the end of an object of {blocks} blocks");
    Pieces { shape: Shape::of(layout), next: range.first, end: range.end() }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.next >= self.end {
            return None;
        }
        let Shape { chunk_blocks, row_blocks, strip_blocks, width } = self.shape;
        let chunk = self.next / chunk_blocks;
        let in_chunk = self.next % chunk_blocks;
        let (stripe, first, run) = if width == 1 {
            (0, in_chunk, chunk_blocks - in_chunk)
        } else {
            let in_row = in_chunk % row_blocks;
            let in_strip = in_row % strip_blocks;
            let first = in_chunk / row_blocks * strip_blocks + in_strip;
            (in_row / strip_blocks, first, strip_blocks - in_strip)
        };
        let count = run.min(self.end - self.next);
        let piece = Piece {
            set: chunk as u32 * width + stripe as u32,
            // `range.count` of `split` is a u32, so what is left of it is one too.
            range: BlockRange::new(first, count as u32),
            object_first: self.next,
        };
        self.next += count;
        Some(piece)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.next >= self.end {
            return (0, Some(0));
        }
        // A piece ends where a strip ends, or, unstriped, where a chunk ends; chunks are whole strips.
        let unit = if self.shape.width == 1 { self.shape.chunk_blocks } else { self.shape.strip_blocks };
        let count = ((self.end - 1) / unit - self.next / unit + 1) as usize;
        (count, Some(count))
    }
}

impl ExactSizeIterator for Pieces {}

/// The object's blocks that `range` (blocks of replica set `set`) holds: the inverse of [`split`].
///
/// In the order of the set, which is the order of the object; as few ranges as there can be.
///
/// # Panics
/// On a range past the longest set that the layout allows.
pub fn to_object(layout: &Layout, set: ReplicaSetIndex, range: BlockRange) -> Vec<BlockRange> {
    let shape = Shape::of(layout);
    let (chunk, stripe) = stripe_of(layout, set);
    let set_blocks_max = shape.chunk_blocks / u64::from(shape.width);
    assert!(
        range.first <= set_blocks_max && u64::from(range.count) <= set_blocks_max - range.first,
        "{range:?} is past the end of a set of {set_blocks_max} blocks"
    );
    let chunk_first = u64::from(chunk) * shape.chunk_blocks;
    if shape.width == 1 {
        return if range.count == 0 {
            Vec::new()
        } else {
            vec![BlockRange::new(chunk_first + range.first, range.count)]
        };
    }
    let mut ranges = Vec::with_capacity(range.count as usize / shape.strip_blocks as usize + 2);
    let mut next = range.first;
    while next < range.end() {
        let in_strip = next % shape.strip_blocks;
        let count = (shape.strip_blocks - in_strip).min(range.end() - next);
        let first = chunk_first
            + next / shape.strip_blocks * shape.row_blocks
            + u64::from(stripe) * shape.strip_blocks
            + in_strip;
        ranges.push(BlockRange::new(first, count as u32));
        next += count;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use cairn_types::Policy;

    use super::*;
    use crate::plan::plan_layout;

    #[test]
    fn a_write_to_an_unstriped_disk_is_one_piece() {
        let layout = plan_layout(&Policy::default(), 100 << 30);
        let pieces: Vec<_> = split(&layout, 100 << 30, BlockRange::new(1000, 256)).collect();
        assert_eq!(pieces, [Piece { set: 0, range: BlockRange::new(1000, 256), object_first: 1000 }]);
    }

    #[test]
    fn a_write_across_two_chunks_is_two_pieces() {
        let layout = plan_layout(&Policy::default(), 300 << 30);
        let chunk_blocks = (255u64 << 30) / 4096;
        let pieces: Vec<_> = split(&layout, 300 << 30, BlockRange::new(chunk_blocks - 2, 5)).collect();
        assert_eq!(pieces.len(), 2);
        assert_eq!(pieces[0].range, BlockRange::new(chunk_blocks - 2, 2));
        assert_eq!((pieces[1].set, pieces[1].range), (1, BlockRange::new(0, 3)));
    }

    #[test]
    fn a_striped_write_goes_round() {
        let policy = Policy { stripe_width: 3, ..Policy::default() };
        let layout = plan_layout(&policy, 10 << 30);
        let sets: Vec<_> = split(&layout, 10 << 30, BlockRange::new(255, 1 + 256 * 3 + 1))
            .map(|p| (p.set, p.range.first, p.range.count))
            .collect();
        assert_eq!(sets, [(0, 255, 1), (1, 0, 256), (2, 0, 256), (0, 256, 256), (1, 256, 1)]);
    }

    #[test]
    #[should_panic(expected = "past the end")]
    fn a_range_past_the_end_is_a_bug_of_the_caller() {
        let layout = plan_layout(&Policy::default(), 8192);
        split(&layout, 8192, BlockRange::new(1, 2));
    }
}
