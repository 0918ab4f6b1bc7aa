//! Rows as the disk sees them: the blocks of it that have to be locked for a row as a whole.
//!
//! Promises    what is covered is whole rows, and as many of them as are needed; rows that are neighbours in the disk come together
//! Assumes     the layout has rows and passed `check_layout`, and so a row is contiguous in the disk (G4)

use cairn_types::{BlockRange, Layout, ReplicaSetIndex};

use crate::{Rows, split, to_object};

/// The blocks of the disk in all rows that these blocks of it belong to. The disk's last row may reach past its end.
///
/// # Panics
/// The range is empty or past the end of the disk, or the layout is a mirror's.
pub fn rows_around(layout: &Layout, size_bytes: u64, range: BlockRange) -> BlockRange {
    let row_blocks = rows_of(layout).row_blocks();
    let in_row = |block| {
        let piece = split(layout, size_bytes, BlockRange::new(block, 1)).next().expect("a block is in a piece");
        piece.range.first % row_blocks
    };
    let last = range.end() - 1;
    let (from, to) = (range.first - in_row(range.first), last - in_row(last) + row_blocks);
    BlockRange::new(from, (to - from) as u32)
}

/// These blocks of each component of a set, in order, as far as the rows that they belong to are neighbours in the disk. Beside each
/// its rows' place in the disk.
///
/// # Panics
/// The range is past the longest set that the layout allows, or the layout is a mirror's.
pub fn rows_in_object(layout: &Layout, set: ReplicaSetIndex, component: BlockRange) -> Vec<(BlockRange, BlockRange)> {
    let rows = rows_of(layout);
    let of = rows.rows_of(component);
    let in_set = BlockRange::new(of.start * rows.row_blocks(), ((of.end - of.start) * rows.row_blocks()) as u32);
    let mut row = of.start;
    let mut together = Vec::new();
    for object in to_object(layout, set, in_set) {
        let count = u64::from(object.count) / rows.row_blocks();
        let strips = BlockRange::new(row * rows.strip_blocks(), (count * rows.strip_blocks()) as u32);
        row += count;
        together.extend(strips.intersection(component).map(|blocks| (blocks, object)));
    }
    together
}

fn rows_of(layout: &Layout) -> Rows {
    Rows::of(layout.redundancy).expect("a layout of rows")
}

#[cfg(test)]
mod tests {
    use cairn_types::Redundancy;

    use super::*;
    use crate::{component_blocks, layout_of, replica_sets};

    const MIB: u64 = 1 << 20;

    fn layout(data: u8, parity: u8, width: u8) -> Layout {
        layout_of(Redundancy::Parity { data, parity, strip_blocks: 16 }, width, 8 * MIB)
    }

    /// Goal: a lock of rows covers them and nothing else. Method: each block of disks of several forms, by its row in its set, beside
    /// ranges of several lengths.
    #[test]
    fn what_is_around_a_range_is_whole_rows() {
        for (data, parity, width) in [(2, 1, 1), (3, 1, 1), (3, 1, 2), (4, 2, 3)] {
            let (layout, size) = (layout(data, parity, width), 20 * MIB);
            let row_blocks = rows_of(&layout).row_blocks();
            let row = |block| {
                let piece = split(&layout, size, BlockRange::new(block, 1)).next().expect("within the disk");
                (piece.set, piece.range.first / row_blocks)
            };
            let blocks = size / 4096;
            for (first, count) in (0..blocks).step_by(7).flat_map(|first| [(first, 1), (first, 40), (first, 300)]) {
                let range = BlockRange::new(first, count.min((blocks - first) as u32));
                let around = rows_around(&layout, size, range);
                assert!(around.first <= range.first && around.end() >= range.end());
                assert_eq!(row(around.first), row(range.first));
                assert!(around.first == 0 || row(around.first - 1) != row(range.first), "no more before");
                let last = (around.end() - 1).min(blocks - 1);
                assert_eq!(row(last), row(range.end() - 1));
                assert!(around.end() >= blocks || row(around.end()) != row(range.end() - 1), "no more behind");
            }
        }
    }

    /// Goal: each block of a component comes once, beside the place of its row. Method: whole components and parts of them, of disks with and
    /// without stripes.
    #[test]
    fn blocks_of_a_component_come_beside_their_rows() {
        for (data, parity, width) in [(2, 1, 1), (3, 1, 2), (4, 2, 3)] {
            let (layout, size) = (layout(data, parity, width), 20 * MIB);
            let rows = rows_of(&layout);
            for set in 0..replica_sets(&layout, size) {
                let all = component_blocks(&layout, size, set);
                for (first, count) in [(0, all), (5, 1), (3, 40), (17, 100)] {
                    let count = count.min(all.saturating_sub(first)) as u32;
                    let mut next = first;
                    for (blocks, object) in rows_in_object(&layout, set, BlockRange::new(first, count)) {
                        assert_eq!(blocks.first, next);
                        next = blocks.end();
                        let of = rows.rows_of(blocks);
                        assert_eq!(u64::from(object.count), (of.end - of.start) * rows.row_blocks());
                        let place = to_object(&layout, set, BlockRange::new(of.start * rows.row_blocks(), 1));
                        assert_eq!(place[0].first, object.first);
                    }
                    assert_eq!(next, first + u64::from(count));
                }
            }
        }
    }
}
