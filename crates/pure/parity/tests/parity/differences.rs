//! Differences: what they make of parity, and what CRCs say about them.
//!
//! Promises    E3; products with every factor; CRCs of differences and of P from those of data

use std::panic::catch_unwind;

use cairn_format::{crc32c, zero_block_crc};
use cairn_parity::{
    Factor, Strip, crc_of_difference, crc_of_p, encode, factor, mul_into, row_check, row_check_after, xor_into,
};
use proptest::prelude::*;

use crate::oracle::{BLOCK, Field, bytes};

fn parity_of(columns: &[Vec<u8>], m: usize) -> Vec<Vec<u8>> {
    let strips: Vec<Strip<'_>> = columns.iter().map(|column| Strip::Bytes(column)).collect();
    let mut parity = vec![vec![0; columns[0].len()]; m];
    let mut to: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    encode(&strips, &mut to);
    parity
}

fn difference(old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut difference = old.to_vec();
    xor_into(&mut difference, new);
    difference
}

#[test]
fn every_product_is_the_oracles() {
    let field = Field::new();
    let from: Vec<u8> = (0..2 * BLOCK).map(|at| at as u8).collect();
    for element in 1..=255 {
        let before = bytes(element.into(), 2);
        let mut to = before.clone();
        mul_into(&mut to, &from, Factor::new(element).expect("not zero"));
        let expected = |at: usize| before[at] ^ field.product(element, from[at]);
        assert!((0..to.len()).all(|at| to[at] == expected(at)), "factor {element:#x}");
    }
}

#[test]
fn factors_are_powers_of_two() {
    let field = Field::new();
    for (column, parity) in (0..8).flat_map(|column| [(column, 0), (column, 1)]) {
        let expected = field.power_of_two((column * parity) as usize);
        assert_eq!(factor(column, parity).get(), expected, "column {column}, parity {parity}");
        assert_eq!(Factor::new(expected), Some(factor(column, parity)));
    }
    assert_eq!(factor(5, 0), Factor::ONE);
    assert!(catch_unwind(|| factor(8, 0)).is_err());
    assert!(catch_unwind(|| factor(0, 2)).is_err());
}

#[test]
fn slices_that_do_not_fit_panic() {
    for (to, from) in [(BLOCK, 2 * BLOCK), (2 * BLOCK, BLOCK), (BLOCK + 1, BLOCK + 1), (512, 512)] {
        let sums = |f: fn(&mut [u8], &[u8])| catch_unwind(|| f(&mut vec![0; to], &vec![0; from])).is_err();
        assert!(sums(xor_into), "{to} and {from} bytes");
        assert!(sums(|to, from| mul_into(to, from, factor(3, 1))), "{to} and {from} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn differences_in_any_order_make_the_parity_of_the_new_data(
        k in 2usize..=8,
        m in 1usize..=2,
        seed in any::<u32>(),
        writes in proptest::collection::vec((any::<u8>(), any::<u32>(), any::<bool>()), 1..12),
        turn in any::<u8>(),
    ) {
        let mut columns: Vec<Vec<u8>> = (0..k as u64).map(|c| bytes(u64::from(seed) * 8 + c, 1)).collect();
        let mut parity = parity_of(&columns, m);
        let mut logged = Vec::new();
        for (column, seed, undone) in writes {
            let column = usize::from(column) % k;
            let new = bytes(u64::from(seed) << 8, 1);
            let made = difference(&columns[column], &new);
            // What is undone was added, and is added once more: gone.
            logged.push((column as u32, made.clone()));
            match undone {
                true => logged.push((column as u32, made)),
                false => columns[column] = new,
            }
        }
        let turn = usize::from(turn) % logged.len();
        logged.rotate_left(turn);
        for (number, parity) in parity.iter_mut().enumerate() {
            for (column, made) in &logged {
                mul_into(parity, made, factor(*column, number as u32));
            }
        }
        prop_assert!(parity == parity_of(&columns, m));
    }

    #[test]
    fn crcs_of_differences_and_of_p_follow_from_those_of_data(k in 2usize..=8, seed in any::<u32>(), holes in any::<u8>()) {
        let column = |c: usize| match holes >> c & 1 {
            1 => vec![0; BLOCK],
            _ => bytes(u64::from(seed) * 8 + c as u64, 1),
        };
        let columns: Vec<Vec<u8>> = (0..k).map(column).collect();
        let crcs: Vec<u32> = columns.iter().map(|column| crc32c(column)).collect();
        prop_assert_eq!(crc_of_p(&crcs), crc32c(&parity_of(&columns, 1)[0]));
        let made = crc_of_difference(crcs[0], crcs[1]);
        prop_assert_eq!(made, crc32c(&difference(&columns[0], &columns[1])));
        // The vector of a row of holes.
        prop_assert_eq!(crc_of_p(&vec![zero_block_crc(); k]), zero_block_crc());
        prop_assert_eq!(crc_of_difference(crcs[0], crcs[0]), zero_block_crc());
    }

    /// Goal: whatever columns change, in any order, the row check is that of the row as it is, and no other row of the same blocks has it.
    #[test]
    fn row_checks_follow_changes(
        k in 2usize..=8,
        first in proptest::collection::vec(any::<u32>(), 8),
        changes in proptest::collection::vec((any::<u8>(), any::<u32>()), 0..12),
    ) {
        let mut crcs = first[..k].to_vec();
        let mut told = row_check(&crcs);
        for (column, new) in changes {
            let column = usize::from(column) % k;
            told = row_check_after(told, column as u32, crcs[column], new);
            crcs[column] = new;
        }
        prop_assert_eq!(told, row_check(&crcs));
        prop_assert_eq!(row_check(&vec![zero_block_crc(); k]), 0);
        let mut exchanged = crcs.clone();
        exchanged.swap(0, 1);
        prop_assert!(crcs[0] == crcs[1] || row_check(&exchanged) != told);
        // A change of two columns that leaves their XOR as it was.
        let (mut other, by) = (crcs.clone(), 0x0101_0101);
        (other[0], other[1]) = (crcs[0] ^ by, crcs[1] ^ by);
        prop_assert!(row_check(&other) != told);
    }
}
