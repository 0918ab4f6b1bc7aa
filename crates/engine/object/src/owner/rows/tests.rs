//! An owner of rows beside disk groups in memory: all that guests ask, with members that are there, away, bad, and on their way back.

mod fixture;

use std::time::Duration;

use cairn_geometry::RowRole;
use cairn_types::{BlockRange, ClientTag};
use futures::FutureExt;

use super::*;
use crate::local_store::memory::Block;
use fixture::{Shape, on_a_disk};

const SHAPES: [Shape; 4] = [Shape::of(2, 1, 1), Shape::of(3, 1, 1), Shape::of(3, 1, 2), Shape::of(2, 2, 1)];

/// Goal: what guests wrote is read, and every choice of members gives it. Method: writes, trims and zeroes of all sizes, three at once and
/// overlapping, on disks of several forms.
#[test]
fn what_is_written_is_read_from_any_members() {
    for (seed, shape) in (0..).zip(SHAPES) {
        on_a_disk(shape, &[], seed, async move |disk, rng| {
            for _ in 0..40 {
                disk.change_some(rng).await;
            }
            disk.check_members().await;
        });
    }
}

/// Goal: the same while a member is away from the beginning, each in turn: of two parities one of each two.
#[test]
fn a_member_that_is_away_is_made_and_written_around() {
    for shape in SHAPES {
        for away in 0..shape.members() {
            let two = shape.parity == 2;
            let away: &[usize] = if two { &[away, (away + 1) % shape.members()] } else { &[away] };
            on_a_disk(shape, away, 7, async move |disk, rng| {
                for _ in 0..15 {
                    disk.change_some(rng).await;
                }
                disk.check_members().await;
            });
        }
    }
}

/// Goal: writes go on when a member fails amid them, and when it is back it is filled: by its role, while others write. Method: each member
/// breaks, is recorded absent, and works again; then others give what it has.
#[test]
fn a_member_that_comes_back_is_filled_by_its_role() {
    for shape in SHAPES {
        for member in 0..shape.members() {
            on_a_disk(shape, &[], 11 + member as u64, async move |disk, rng| {
                disk.change_some(rng).await;
                disk.stores[member].set_broken(true);
                for _ in 0..8 {
                    disk.change_some(rng).await;
                }
                assert!(!disk.is_in_sync(member), "somebody wrote to it");
                disk.stores[member].set_broken(false);
                for _ in 0..60 {
                    disk.change_some(rng).await;
                    if disk.is_in_sync(member) {
                        break;
                    }
                    disk.sleep(Duration::from_millis(20)).await;
                }
                disk.wait_in_sync(member).await;
                disk.change_some(rng).await;
                disk.check_members().await;
            });
        }
    }
}

/// Goal: a bad block of data is made for its reader and repaired; a write over a bad block, of data or of parity, makes parity anew.
#[test]
fn bad_blocks_are_made_repaired_and_written_over() {
    for shape in [Shape::of(3, 1, 1), Shape::of(2, 2, 1)] {
        on_a_disk(shape, &[], 3, async move |disk, rng| {
            let row = disk.rows.row_blocks() as u32;
            disk.write(BlockRange::new(0, 4 * row)).await;
            for role in [RowRole::Column(1), RowRole::Parity(0)] {
                let member = disk.rows.member(1, role) as usize;
                let at = disk.rows.strip_range(1).first + 2;
                disk.spoil(member, at, Block::Bad);
                // The block of the first column at this position.
                disk.write(BlockRange::new(u64::from(row) + 2, 1)).await;
                disk.read_all().await;
                disk.sleep(Duration::from_millis(5)).await;
                assert_ne!(disk.block(member, at), Block::Bad, "{role:?} was repaired, or written over");
                disk.check_members().await;
            }
            let member = disk.rows.member(2, RowRole::Column(0)) as usize;
            disk.spoil(member, disk.rows.strip_range(2).first, Block::Bad);
            disk.write(BlockRange::new(2 * u64::from(row), 1)).await;
            disk.change_some(rng).await;
            disk.check_members().await;
        });
    }
}

/// P2. Goal: members that do not fit each other give an error and an event, and the rest of the row is read. Method: a column holds an
/// earlier block, sound by itself, and another column's block cannot be read.
#[test]
fn members_that_do_not_fit_give_an_error() {
    on_a_disk(Shape::of(3, 1, 1), &[], 5, async move |disk, _| {
        let row = disk.rows.row_blocks() as u32;
        disk.write(BlockRange::new(0, row)).await;
        let at = disk.rows.strip_range(0).first + 1;
        let [older, bad] = [0, 1].map(|column| disk.rows.member(0, RowRole::Column(column)) as usize);
        disk.spoil(older, at, Block::Data(vec![0x55; 4096].into()));
        disk.spoil(bad, at, Block::Bad);
        let strip = disk.rows.strip_blocks();
        let read = disk.read(BlockRange::new(strip, strip as u32), Locked::Rows).await;
        assert!(matches!(read, Err(crate::owner::OpError::Unreadable(_))), "{read:?}");
        assert!(disk.events().iter().any(|event| event.contains("RowDisagrees") && event.contains("blocks: 1")));
        assert!(disk.read(BlockRange::new(2 * strip, strip as u32), Locked::Rows).await.is_ok());
        // Written over it is right again, and so is what parity says of the row.
        disk.write(BlockRange::new(0, row)).await;
        disk.check_members().await;
    });
}

/// Goal: a request that comes again is not carried out again, part by part. Method: a request of whole rows and parts at both ends; its
/// blocks are written over, and it comes once more.
#[test]
fn what_was_done_is_not_done_again() {
    on_a_disk(Shape::of(3, 1, 1), &[], 9, async move |disk, _| {
        let row = disk.rows.row_blocks() as u32;
        let range = BlockRange::new(5, 3 * row);
        let client = ClientTag { session: 4, number: 1 << 52 };
        disk.write_as(range, client, false).await;
        let before = disk.owned.state.borrow().last();
        disk.write_as(range, client, true).await;
        assert_eq!(disk.owned.state.borrow().last(), before, "nothing was begun");
        disk.check_members().await;
    });
}

/// P3. Goal: what shares positions waits, what does not goes on. Method: two columns of a row at the same and at other positions.
#[test]
fn positions_of_a_row_are_taken_one_after_another() {
    let positions = Positions::default();
    let first = positions.lock(0, BlockRange::new(4, 2)).now_or_never().expect("free");
    let mut same = Box::pin(positions.lock(0, BlockRange::new(5, 1)));
    assert!(same.as_mut().now_or_never().is_none());
    assert!(positions.lock(0, BlockRange::new(6, 2)).now_or_never().is_some());
    assert!(positions.lock(1, BlockRange::new(4, 2)).now_or_never().is_some(), "another set");
    drop(first);
    assert!(same.now_or_never().is_some());
}

/// Goal: what is allocated is told of each block, also while its member is away. Method: some blocks are written, others are not.
#[test]
fn allocation_is_told_by_the_members_of_data() {
    for away in [None, Some(1)] {
        on_a_disk(Shape::of(3, 1, 1), away.as_slice(), 1, async move |disk, _| {
            let strip = disk.rows.strip_blocks() as u32;
            disk.write(BlockRange::new(1, 2 * strip)).await;
            let all = BlockRange::new(0, disk.blocks() as u32);
            let told = disk.owned.allocated_rows((disk.owned.area_at(0), disk.rows), all).await.expect("it answers");
            let mut next = 0;
            for piece in &told {
                assert_eq!(piece.range.first, next);
                next = piece.range.end();
            }
            assert_eq!(next, disk.blocks());
            let is =
                |block| told.iter().any(|piece| piece.allocated && piece.range.overlaps(BlockRange::new(block, 1)));
            assert!((1..=2 * u64::from(strip)).all(is), "never less than there is");
            assert!(away.is_some() || (!is(0) && !is(2 * u64::from(strip) + 1)), "{told:?}");
            assert!(!is(disk.blocks() - 1));
        });
    }
}
