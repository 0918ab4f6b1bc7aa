//! Rows against the oracle and against ISA-L, and every pattern of what may be missing.
//!
//! Promises    E1, E2, E4 for each `k` 2..=8, for P alone and for P and Q, with columns that are holes

use std::panic::catch_unwind;

use cairn_format::crc32c;
use cairn_parity::{Strip, StripState, TooFewStrips, decode, encode};
use proptest::prelude::*;

use crate::oracle::{BLOCK, Field, bytes};

/// The columns of a row; those of `holes` (a bit each) are zeroes.
fn columns(k: usize, seed: u64, holes: u32, blocks: usize) -> Vec<Vec<u8>> {
    let column = |number: usize| match holes >> number & 1 {
        1 => vec![0; blocks * BLOCK],
        _ => bytes(seed * 8 + number as u64, blocks),
    };
    (0..k).map(column).collect()
}

/// The same as strips: a hole is told as such where `holes` has its bit, not where its bytes happen to be zero.
fn strips(columns: &[Vec<u8>], holes: u32) -> Vec<Strip<'_>> {
    let strip = |number: usize| match holes >> number & 1 {
        1 => Strip::Zeroes,
        _ => Strip::Bytes(&columns[number]),
    };
    (0..columns.len()).map(strip).collect()
}

fn encoded(columns: &[Strip<'_>], m: usize, bytes: usize) -> Vec<Vec<u8>> {
    // Not zeroes: every byte has to be written.
    let mut parity = vec![vec![0xa5; bytes]; m];
    let mut to: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    encode(columns, &mut to);
    parity
}

#[test]
fn parity_is_the_oracles_with_any_columns_as_holes() {
    let field = Field::new();
    for k in 2..=8 {
        for holes in 0..1u32 << k {
            let data = columns(k, u64::from(holes) + 1, holes, 1);
            let expected = [field.parity(&data, 0), field.parity(&data, 1)];
            let told = encoded(&strips(&data, holes), 2, BLOCK);
            assert!(told[..] == expected, "k {k}, holes {holes:b}");
            assert!(encoded(&strips(&data, holes), 1, BLOCK)[..] == expected[..1], "k {k}, holes {holes:b}");
            // Zeroes that are bytes are zeroes.
            assert!(encoded(&strips(&data, 0), 2, BLOCK)[..] == expected, "k {k}, holes {holes:b} as bytes");
        }
    }
}

/// CRC-32C of P and Q by `k`, made with `pq_gen` of ISA-L 2.30: byte `i` of column `c` is `i * (2c + 3) ^ (i >> 5) ^ c * 0x5b`.
/// With each come bytes 200..208 of Q.
const GOLDEN: [(usize, u32, u32, u64); 7] = [
    (2, 0xf202_6cd1, 0x6f11_9f88, 0x2920_1b2e_3dd9_dac7),
    (3, 0xafdc_31be, 0x657e_2a2c, 0x2e3b_c3da_ad75_92a3),
    (4, 0x5db9_bab3, 0xce98_ccaa, 0xd60b_ab67_6878_c719),
    (5, 0xeb3c_78d1, 0xc1bb_cbaa, 0x4d07_77d6_5afa_0801),
    (6, 0x4fc4_af4d, 0x156c_f182, 0x21ec_dac6_105e_6ba9),
    (7, 0x7248_a138, 0x34aa_434d, 0xf58e_8ccc_2e6b_6af4),
    (8, 0x277c_62db, 0x9a80_7c00, 0x4d5e_e4cc_3815_ac5a),
];

#[test]
fn parity_is_that_of_linux() {
    let byte = |c: usize, i: usize| ((i * (2 * c + 3)) ^ (i >> 5) ^ (c * 0x5b)) as u8;
    for (k, p_crc, q_crc, q_bytes) in GOLDEN {
        let data: Vec<Vec<u8>> = (0..k).map(|c| (0..BLOCK).map(|i| byte(c, i)).collect()).collect();
        let parity = encoded(&strips(&data, 0), 2, BLOCK);
        assert_eq!(parity[1][200..208], q_bytes.to_be_bytes(), "k {k}");
        assert_eq!((crc32c(&parity[0]), crc32c(&parity[1])), (p_crc, q_crc), "k {k}");
    }
}

#[test]
fn q_of_one_column_is_its_factor_times_it() {
    // 2^0 .. 2^7, and where the eighth bit falls out: 2^8 = 0x1d, and so on.
    let table: [(u8, [u8; 8]); 3] = [
        (0x01, [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80]),
        (0x80, [0x80, 0x1d, 0x3a, 0x74, 0xe8, 0xcd, 0x87, 0x13]),
        (0xff, [0xff, 0xe3, 0xdb, 0xab, 0x4b, 0x96, 0x31, 0x62]),
    ];
    for (byte, products) in table {
        for (column, product) in products.into_iter().enumerate() {
            let strip = vec![byte; BLOCK];
            let mut row = [Strip::Zeroes; 8];
            row[column] = Strip::Bytes(&strip);
            assert_eq!(encoded(&row, 2, BLOCK), [vec![byte; BLOCK], vec![product; BLOCK]], "column {column}");
        }
    }
}

/// Takes the strips of `lost` (bits: columns, then parity) from a row, asks for those of `wanted`, and gives what came.
///
/// `holes` are columns that are given as such. Parity is given as bytes even where it is zero.
fn brought_back(
    row: &[Vec<u8>],
    k: usize,
    lost: u32,
    wanted: u32,
    holes: u32,
) -> (Result<(), TooFewStrips>, Vec<Vec<u8>>) {
    let mut to: Vec<Vec<u8>> = row.iter().map(|strip| vec![0xa5; strip.len()]).collect();
    let mut states = Vec::new();
    for (number, to) in to.iter_mut().enumerate() {
        states.push(match (lost >> number & 1, wanted >> number & 1, holes >> number & 1) {
            (0, _, 0) => StripState::Given(Strip::Bytes(&row[number])),
            (0, _, _) => StripState::Given(Strip::Zeroes),
            (_, 0, _) => StripState::Missing,
            _ => StripState::Wanted(to),
        });
    }
    let (columns, parity) = states.split_at_mut(k);
    let result = decode(columns, parity);
    (result, to)
}

/// All sets of at most `m` of `n` strips, a bit each.
fn losses(n: usize, m: usize) -> impl Iterator<Item = u32> {
    (0..1u32 << n).filter(move |lost| lost.count_ones() as usize <= m)
}

#[test]
fn every_pattern_comes_back() {
    let mut patterns = 0;
    for (k, m) in (2..=8).flat_map(|k| [(k, 1), (k, 2)]) {
        for holes in [0, 1, 1 << (k - 1), 0b0101_0110 & ((1 << k) - 1)] {
            let mut row = columns(k, (k * m) as u64, holes, 2);
            row.extend(encoded(&strips(&row, holes), m, 2 * BLOCK));
            for lost in losses(k + m, m) {
                // Each choice of what is wanted of it.
                for wanted in (0..=lost).filter(|wanted| wanted & !lost == 0) {
                    let (result, got) = brought_back(&row, k, lost, wanted, holes);
                    assert_eq!(result, Ok(()));
                    for (number, strip) in got.iter().enumerate() {
                        let untouched = vec![0xa5; 2 * BLOCK];
                        let expected = if wanted >> number & 1 == 1 { &row[number] } else { &untouched };
                        assert!(strip == expected, "{k}+{m}, lost {lost:b}, wanted {wanted:b}: strip {number}");
                    }
                    patterns += 1;
                }
            }
        }
    }
    // For each k and 4 sets of holes: 1 + 2n with one of parity, and 1 + 2n + 4 n(n-1)/2 with two: counted from the formula.
    let of = |k: usize| (1 + 2 * (k + 1)) + (1 + 2 * (k + 2) + 2 * (k + 2) * (k + 1));
    assert_eq!(patterns, 4 * (2..=8).map(of).sum::<usize>());
}

#[test]
fn too_few_strips_are_told_and_nothing_is_written() {
    for (k, m) in (2..=8).flat_map(|k| [(k, 1), (k, 2)]) {
        let mut row = columns(k, 7, 0, 1);
        row.extend(encoded(&strips(&row, 0), m, BLOCK));
        for lost in (0..1u32 << (k + m)).filter(|lost| lost.count_ones() as usize > m) {
            let (result, got) = brought_back(&row, k, lost, lost, 0);
            let there = k + m - lost.count_ones() as usize;
            assert_eq!(result, Err(TooFewStrips { there, needed: k }));
            assert!(got.iter().flatten().all(|byte| *byte == 0xa5), "{k}+{m}, lost {lost:b}: something was written");
        }
    }
    let words = TooFewStrips { there: 2, needed: 4 }.to_string();
    assert_eq!(words, "only 2 strips of a row can be read and 4 are needed: 2 more must come back");
}

#[test]
fn a_row_of_no_blocks_is_fine() {
    encode(&[Strip::Bytes(&[]), Strip::Zeroes], &mut [&mut [], &mut []]);
    let mut columns = [StripState::Wanted(&mut []), StripState::Given(Strip::Zeroes)];
    assert_eq!(decode(&mut columns, &mut [StripState::Given(Strip::Bytes(&[]))]), Ok(()));
}

#[test]
fn what_is_no_row_panics() {
    let block = vec![0; BLOCK];
    let encodes = |columns: usize, strip: usize, parity: usize, to: usize| {
        let strips = vec![vec![0; strip]; columns];
        let strips: Vec<Strip<'_>> = strips.iter().map(|s| Strip::Bytes(s)).collect();
        let mut parity = vec![vec![0; to]; parity];
        let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        encode(&strips, &mut parity);
    };
    encodes(2, BLOCK, 1, BLOCK);
    for (columns, strip, parity, to) in [
        (1, BLOCK, 1, BLOCK),
        (9, BLOCK, 1, BLOCK),
        (2, BLOCK, 0, BLOCK),
        (2, BLOCK, 3, BLOCK),
        (2, BLOCK, 1, 2 * BLOCK),
        (2, 2 * BLOCK, 2, BLOCK),
        (2, 512, 1, 512),
    ] {
        let result = catch_unwind(|| encodes(columns, strip, parity, to));
        assert!(result.is_err(), "{columns} columns of {strip} bytes, {parity} of parity with {to}");
    }
    // Of unequal lengths, at any strip; and with nothing wanted.
    for wanted in [2 * BLOCK, 512] {
        let result = catch_unwind(|| {
            let mut to = vec![0; wanted];
            let mut columns = [StripState::Wanted(&mut to), StripState::Given(Strip::Bytes(&block))];
            decode(&mut columns, &mut [StripState::Given(Strip::Bytes(&block))])
        });
        assert!(result.is_err(), "{wanted} bytes wanted of a row with {BLOCK}");
    }
    let result = catch_unwind(|| {
        let mut columns = [StripState::Given(Strip::Bytes(&block)), StripState::Given(Strip::Bytes(&block[1..]))];
        decode(&mut columns, &mut [StripState::Missing])
    });
    assert!(result.is_err(), "strips of unequal lengths");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_was_encoded_is_decoded(
        k in 2usize..=8, m in 1usize..=2, seed in any::<u32>(), blocks in 1usize..=3, holes in any::<u8>(), lost in any::<[u8; 2]>(),
    ) {
        let holes = u32::from(holes) & ((1 << k) - 1);
        let mut row = columns(k, seed.into(), holes, blocks);
        row.extend(encoded(&strips(&row, holes), m, blocks * BLOCK));
        let lost = lost[..m].iter().fold(0, |lost, at| lost | 1u32 << (usize::from(*at) % (k + m)));
        let (result, got) = brought_back(&row, k, lost, lost, holes);
        prop_assert_eq!(result, Ok(()));
        for number in (0..k + m).filter(|number| lost >> number & 1 == 1) {
            prop_assert!(got[number] == row[number], "{}+{}, lost {:b}: strip {}", k, m, lost, number);
        }
    }
}
