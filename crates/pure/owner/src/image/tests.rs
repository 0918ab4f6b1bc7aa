//! Rows made from each choice of their members.

use cairn_types::Redundancy;

use super::*;

/// Blocks that look drawn; every seventh is zeroes.
fn column(seed: u64, blocks: u32) -> Strip {
    let mut bytes = BytesMut::zeroed(blocks as usize * BLOCK);
    for (n, block) in bytes.chunks_exact_mut(BLOCK).enumerate() {
        let seed = seed.wrapping_mul(31).wrapping_add(n as u64);
        if !seed.is_multiple_of(7) {
            block.iter_mut().enumerate().for_each(|(at, byte)| *byte = (seed.wrapping_mul(at as u64 + 3) >> 5) as u8);
        }
    }
    let crcs = bytes.chunks_exact(BLOCK).map(block_crc).collect();
    Strip::data(bytes.freeze(), crcs)
}

fn rows(data: u8, parity: u8) -> Rows {
    Rows::of(Redundancy::Parity { data, parity, strip_blocks: 4 }).expect("rows")
}

/// All members of row `row`, by index.
fn members(rows: Rows, row: u64, columns: &[Strip]) -> BTreeMap<u32, Strip> {
    let image = RowImage::of_columns(rows, columns.to_vec());
    (0..rows.members()).map(|member| (member, image.strip(rows.role(row, member)))).collect()
}

/// R1. Goal: any k members give the row. Method: 2+1, 3+1, 2+2 and 4+2, rows in each turn, every choice of members.
#[test]
fn any_k_members_give_the_row() {
    for (data, parity) in [(2, 1), (3, 1), (2, 2), (4, 2)] {
        let rows = rows(data, parity);
        let mut columns: Vec<Strip> = (0..u64::from(data)).map(|n| column(n + 1, 3)).collect();
        for zeroes in [false, true] {
            if zeroes {
                columns[1] = Strip::zeroes(3);
            }
            for row in 0..u64::from(rows.members()) {
                let all = members(rows, row, &columns);
                for choice in 0u32..1 << rows.members() {
                    let mut given = all.clone();
                    given.retain(|member, _| choice >> member & 1 == 1);
                    let image = RowImage::of(rows, row, &given);
                    if given.len() < data as usize {
                        assert_eq!(image, Err(NoImage::TooFew));
                        continue;
                    }
                    let image = image.expect("enough");
                    for member in 0..rows.members() {
                        let made = image.strip(rows.role(row, member));
                        assert_eq!(
                            made.crcs(),
                            all[&member].crcs(),
                            "{data}+{parity}, member {member} from {choice:b}"
                        );
                        assert_eq!(made.row_checks(), all[&member].row_checks());
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_that_was_never_written_is_zeroes() {
    let rows = rows(3, 2);
    let given: BTreeMap<u32, Strip> = [0, 2, 4].map(|member| (member, Strip::zeroes(2))).into();
    let image = RowImage::of(rows, 1, &given).expect("enough");
    assert_eq!(image.columns, vec![Strip::zeroes(2); 3]);
    assert_eq!(image.parity(), vec![Strip::zeroes(2); 2]);
}

/// R1. Goal: members of two states give nothing. Method: one column gets another block, by its own checksum sound, and the row is made
/// from each choice that has it and misses another.
#[test]
fn members_of_two_states_give_nothing() {
    for (data, parity) in [(3, 1), (2, 2)] {
        let rows = rows(data, parity);
        let columns: Vec<Strip> = (0..u64::from(data)).map(|n| column(n + 1, 3)).collect();
        let all = members(rows, 5, &columns);
        let lost = rows.member(5, RowRole::Column(0));
        let older = rows.member(5, RowRole::Column(1));
        let (before, after) = (column(2, 3), column(99, 3));
        let mixed = [before.bytes().unwrap().slice(..BLOCK), after.bytes().unwrap().slice(BLOCK..)].concat();
        let crcs = mixed.chunks_exact(BLOCK).map(block_crc).collect();
        let mut given = all.clone();
        given.insert(older, Strip::data(mixed.into(), crcs));
        given.remove(&lost);
        let wrong = NoImage::Disagrees { columns: vec![0], blocks: vec![1, 2] };
        assert_eq!(RowImage::of(rows, 5, &given), Err(wrong));
        // What is read of all columns and replaced needs nothing of what was there.
        let image = RowImage::of_columns(rows, columns).with(1, after.clone());
        assert_eq!(image.strip(RowRole::Column(1)), after);
    }
}
