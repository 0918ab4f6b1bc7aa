//! How reads are put together.

use cairn_types::Redundancy;

use super::*;

/// Goal: strips of one member that follow each other are read at once, and none of parity between. Method: ten rows of 3+1, each member's
/// runs beside a count by hand.
#[test]
fn strips_of_a_member_are_read_together() {
    let rows = Rows::of(Redundancy::Parity { data: 3, parity: 1, strip_blocks: 4 }).expect("rows");
    let range = BlockRange::new(2, 10 * 12);
    let parts: Vec<_> = rows.parts(range).map(|part| (7, part)).collect();
    let runs = runs(&parts);
    assert!(runs.iter().all(|run| run.set == 7));
    let mut read = 0;
    for run in &runs {
        let mut next = run.range.first;
        for at in &run.parts {
            let part = parts[*at].1;
            assert_eq!((part.member, part.range.first), (run.member, next));
            next = part.range.end();
            read += part.range.count;
        }
        assert_eq!(next, run.range.end());
    }
    assert_eq!(read, range.count);
    // Of four rows a member has data in three that follow each other.
    assert!(runs.len() <= 4 * 4, "{} runs", runs.len());
}

#[test]
fn what_is_allocated_is_cut_to_a_range() {
    let piece = |first, count, allocated| AllocatedPiece { range: BlockRange::new(first, count), allocated };
    let pieces = [piece(0, 4, true), piece(4, 6, false), piece(10, 5, true)];
    assert_eq!(within(&pieces, BlockRange::new(2, 9)), [piece(2, 2, true), piece(4, 6, false), piece(10, 1, true)]);
    assert_eq!(within(&pieces, BlockRange::new(4, 3)), [piece(4, 3, false)]);
    assert!(within(&pieces, BlockRange::new(15, 3)).is_empty());
}
