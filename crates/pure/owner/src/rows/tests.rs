//! A part of a row is written by the states of its members: each case a row of 3+2, whose columns are members 0 to 2.

use cairn_types::{ComponentId, ComponentState, OpId, Redundancy};

use super::*;
use crate::testing::owner_of_rows;

const ACTIVE: ComponentState = ComponentState::Active;
const AWAY: ComponentState = ComponentState::Absent { stale_since: OpId::ZERO };
const FILLED: ComponentState = ComponentState::Resyncing { stale_since: OpId::ZERO };

fn written(states: [ComponentState; 5], failed: &[u128], (row, column): (u64, u32)) -> PartWrite {
    let mut state = owner_of_rows(3, 2, &states);
    failed.iter().for_each(|copy| state.fail(ComponentId(copy + 1), false));
    let rows = Rows::of(Redundancy::Parity { data: 3, parity: 2, strip_blocks: 1 }).expect("rows");
    part_write(&state, 0, rows, (row, column))
}

#[test]
fn parts_are_written_by_the_states_of_their_members() {
    use PartWrite::{AfterFailures, DataAlone, Difference, Encode};
    let table: [(&str, [ComponentState; 5], &[u128], PartWrite); 10] = [
        ("all in sync", [ACTIVE; 5], &[], Difference),
        ("another column is absent", [ACTIVE, AWAY, ACTIVE, ACTIVE, ACTIVE], &[], Difference),
        ("one parity is absent", [ACTIVE, ACTIVE, ACTIVE, AWAY, ACTIVE], &[], Difference),
        ("one parity is filled, one absent", [ACTIVE, ACTIVE, ACTIVE, FILLED, AWAY], &[], Difference),
        ("both parities are absent", [ACTIVE, ACTIVE, ACTIVE, AWAY, AWAY], &[], DataAlone),
        ("the column is absent", [AWAY, ACTIVE, ACTIVE, ACTIVE, ACTIVE], &[], Encode),
        ("the column is filled", [FILLED, ACTIVE, ACTIVE, ACTIVE, AWAY], &[], Encode),
        ("the column does not answer", [ACTIVE; 5], &[0], AfterFailures),
        ("a parity does not answer", [ACTIVE; 5], &[3], Difference),
        ("too few answer to make parity", [AWAY, ACTIVE, ACTIVE, ACTIVE, AWAY], &[1], AfterFailures),
    ];
    for (what, states, failed, way) in table {
        assert_eq!(written(states, failed, (0, 0)), way, "{what}");
    }
}

/// Goal: it is asked of the members of that row, not of those of row 0. Method: 3+2 turns by three members a row, so row 1 has its
/// columns on members 3, 4 and 0.
#[test]
fn rows_turn() {
    let away = [ACTIVE, ACTIVE, ACTIVE, AWAY, ACTIVE];
    assert_eq!(written(away, &[], (1, 0)), PartWrite::Encode);
    assert_eq!(written(away, &[], (1, 1)), PartWrite::Difference);
}

/// Goal: P is found out that is not that of its columns, also where some are holes. Method: checksums of blocks that are XORed here.
#[test]
fn p_is_known_by_its_checksum() {
    let op = cairn_types::OpId::ZERO;
    let block = |column: u8| [1 << column, 37, column, 0].repeat(1024);
    let data = |bytes: &[u8]| BlockState::Data { crc: cairn_wire::block_crc(bytes), op };
    let zero = BlockState::Zeroes { op: None };
    let xor = |blocks: &[Vec<u8>]| {
        (0..4096).map(|at| blocks.iter().fold(0, |sum, block| sum ^ block[at])).collect::<Vec<u8>>()
    };
    for k in 2..=8u8 {
        let blocks: Vec<Vec<u8>> = (0..k).map(block).collect();
        let mut columns: Vec<BlockState> = blocks.iter().map(|block| data(block)).collect();
        let p = data(&xor(&blocks));
        assert_eq!(p_agrees(&columns, p), Some(true), "{k} columns");
        assert_eq!(p_agrees(&columns, zero), Some(false));
        columns[0] = zero;
        assert_eq!(p_agrees(&columns, p), Some(false), "a lost write");
        assert_eq!(p_agrees(&columns, data(&xor(&blocks[1..]))), Some(true), "a hole");
        columns[1] = BlockState::Lost { crc: 9 };
        assert_eq!(p_agrees(&columns, p), None);
        assert_eq!(p_agrees(&vec![zero; k.into()], zero), Some(true), "never written");
    }
}
