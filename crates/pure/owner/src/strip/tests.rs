//! Contents in every form, there and back.

use super::*;

fn block(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK]
}

fn crc(byte: u8) -> u32 {
    cairn_wire::block_crc(&block(byte))
}

/// Goal: what a member tells comes back as it was told, in any parts. Method: data, parity and holes, whole and in parts that end
/// anywhere.
#[test]
fn contents_come_and_go() {
    let runs = vec![
        Run::Data { crcs: [crc(1), crc(2)].into_iter().collect() },
        Run::Hole { blocks: 2 },
        Run::Parity { crcs: [crc(3)].into_iter().collect(), row_checks: [77].into_iter().collect() },
    ];
    let bytes: Bytes = [block(1), block(2), block(3)].concat().into();
    let told = |data: Vec<Bytes>| Strip::of(Contents { runs: runs.clone(), data }, 5);
    let whole = told(vec![bytes.clone()]).expect("it is whole");
    let parts = vec![bytes.slice(..1000), bytes.slice(1000..2 * BLOCK + 7), Bytes::new(), bytes.slice(2 * BLOCK + 7..)];
    assert_eq!(told(parts), Some(whole.clone()));
    assert_eq!(whole.row_checks().as_slice(), [0, 0, 0, 0, 77]);
    assert_eq!(whole.bytes().map(|b| b.to_vec()), Some([block(1), block(2), block(0), block(0), block(3)].concat()));
    assert_eq!((0..5).map(|n| whole.is_hole(n)).collect::<Vec<_>>(), [false, false, true, true, false]);
    let data = whole.slice(0, 4).contents(false);
    assert_eq!(data.runs, runs[..2]);
    assert_eq!(whole.slice(2, 3).contents(true).runs, runs[1..]);
    assert!(told(vec![bytes.slice(..BLOCK)]).is_none(), "bytes are missing");
    assert!(told(vec![bytes]).is_some_and(|strip| !strip.is_all_holes()));
    let marks = Contents { runs: vec![Run::Bad { crcs: [1].into_iter().collect() }], data: Vec::new() };
    assert_eq!(Strip::of(marks, 1), None);
    let holes = Contents { runs: vec![Run::Hole { blocks: 3 }], data: Vec::new() };
    assert_eq!(Strip::of(holes, 3), Some(Strip::zeroes(3)));
}

/// Goal: parity of columns that cancel out is kept, though its bytes are zeroes; zeroes that were written are none the less holes.
#[test]
fn zeroes_with_a_row_check_are_no_hole() {
    let zeroes: Bytes = block(0).into();
    let of = |check: u32| Strip::parity(zeroes.clone(), [crc(0)].into_iter().collect(), [check].into_iter().collect());
    assert!(!of(5).is_hole(0) && of(0).is_hole(0) && Strip::zeroes(4).is_all_holes());
    assert!(matches!(of(5).contents(true).runs.as_slice(), [Run::Parity { .. }]));
    assert_eq!(of(0).contents(true).runs, [Run::Hole { blocks: 1 }]);
    // A guest can write bytes that have the checksum of zeroes.
    let forged = Strip::data(block(9).into(), [crc(0)].into_iter().collect());
    assert!(!forged.is_hole(0));
}
