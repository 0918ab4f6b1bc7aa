//! Bodies of whole rows and of parts, beside what a row's members hold.

use cairn_owner::RowImage;
use cairn_types::{Contents, Redundancy};

use super::*;

fn rows(data: u8, parity: u8) -> Rows {
    Rows::of(Redundancy::Parity { data, parity, strip_blocks: 4 }).expect("rows")
}

fn bytes(blocks: u64) -> Vec<u8> {
    let block = |n: u64| (0..BLOCK as u64).map(move |at| (n.wrapping_mul(at + 7) >> 3) as u8);
    (0..blocks).flat_map(block).collect()
}

/// What a body leaves on its member.
fn left(body: Body, blocks: u32) -> (MemberMask, BlockRange, Strip) {
    let (members, range) = (body.blocks.members(), body.blocks.range());
    let strip = match body.blocks {
        BlockOp::Rows { runs, .. } => Strip::of(Contents { runs, data: vec![body.data] }, blocks),
        BlockOp::ZeroRows { .. } => Some(Strip::zeroes(blocks)),
        other => panic!("{other:?}"),
    };
    (members, range, strip.expect("as many bytes as its runs tell of"))
}

/// Goal: each member gets its strips of data and parity in the order of its blocks. Method: several rows of four forms, beside the image of
/// each row; members that take no writes get nothing, and change nothing of what the others get.
#[test]
fn whole_rows_come_as_one_body_for_each_member() {
    for (data, parity) in [(2, 1), (3, 1), (2, 2), (4, 2)] {
        let rows = rows(data, parity);
        let (first, count) = (3, 6);
        let all = bytes(count * rows.row_blocks());
        for away in [None, Some(0), Some(rows.members() - 1)] {
            let bodies = whole(rows, &(first..first + count), &all, |member| Some(member) != away);
            assert_eq!(bodies.len(), rows.members() as usize);
            for (member, body) in (0..).zip(bodies) {
                let Some(body) = body else {
                    assert_eq!(Some(member), away);
                    continue;
                };
                let range = strips(rows, &(first..first + count));
                let (members, at, strip) = left(body, range.count);
                assert_eq!((members, at), ((1 << rows.members()) - 1, range));
                for (n, row) in (first..first + count).enumerate() {
                    let of_row = &all[n * rows.row_blocks() as usize * BLOCK..][..rows.row_blocks() as usize * BLOCK];
                    let columns = of_row.chunks_exact(rows.strip_blocks() as usize * BLOCK).map(|column| {
                        Strip::data(Bytes::copy_from_slice(column), column.chunks_exact(BLOCK).map(block_crc).collect())
                    });
                    let image = RowImage::of_columns(rows, columns.collect());
                    let own = strip.slice(n as u32 * rows.strip_blocks() as u32, rows.strip_blocks() as u32);
                    assert_eq!(own, image.strip(rows.role(row, member)), "{data}+{parity}, row {row}, member {member}");
                }
            }
        }
    }
}

/// Goal: what was made of a row gives its space back where it is zeroes, and nowhere else. Method: parity of columns that cancel out.
#[test]
fn what_was_made_is_zeroes_only_where_the_row_is() {
    let (rows, range) = (rows(2, 1), BlockRange::new(8, 1));
    let block = Bytes::from(bytes(2).split_off(BLOCK));
    let column = Strip::data(block.clone(), Crcs::from_slice(&[block_crc(&block)]));
    let parity = RowImage::of_columns(rows, vec![column.clone(), column]).parity().swap_remove(0);
    assert!(parity.bytes().is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)));
    let body = made(&parity, true, 5, range);
    assert!(matches!(&body.blocks, BlockOp::Rows { runs, .. } if runs[0].is_parity()));
    assert_eq!(left(body, 1), (5, range, parity));
    let body = made(&Strip::zeroes(1), true, 5, range);
    assert_eq!(body.blocks, BlockOp::ZeroRows { members: 5, range, keep_allocated: false });
    let kept = New::Zeroes { blocks: 1, keep_allocated: true }.body(5, range);
    assert_eq!(kept.blocks, BlockOp::ZeroRows { members: 5, range, keep_allocated: true });
}
