//! Rows of parity against a slow oracle that deals out strips one at a time.
//!
//! Promises    G4, G5, and that growth moves nothing, for every k, m, strip and width drawn

use std::collections::{BTreeMap, BTreeSet};

use cairn_geometry::{
    RowRole, Rows, Unit, check_layout, chunks, component_blocks, layout_of, replica_sets, set_blocks, split, to_object,
};
use cairn_types::{BLOCK_BYTES, BlockRange, CHUNK_BYTES_MAX, Layout, OBJECT_BYTES_MAX, Redundancy};
use proptest::prelude::*;

fn redundancies() -> impl Strategy<Value = Redundancy> {
    (2u8..=8, 1u8..=2, 1u16..=5).prop_map(|(data, parity, strip_blocks)| Redundancy::Parity {
        data,
        parity,
        strip_blocks,
    })
}

/// Row, column and member of a block.
type Spot = (u64, u32, u32);

/// Strips dealt round all members, the row's parity after its data: the spot of each block, and the members of each row's parity.
fn deal(redundancy: Redundancy, blocks: u64) -> (Vec<Spot>, Vec<Vec<u32>>) {
    let Redundancy::Parity { data, parity, strip_blocks } = redundancy else { panic!("rows") };
    let (k, m, strip) = (u32::from(data), u32::from(parity), u64::from(strip_blocks));
    let (mut places, mut parities) = (Vec::new(), Vec::new());
    let (mut hand, mut row, mut column, mut in_strip) = (0, 0, 0, 0);
    let after = |hand: u32, steps: u32| (0..steps).fold(hand, |h, _| if h + 1 == k + m { 0 } else { h + 1 });
    for _ in 0..blocks {
        places.push((row, column, hand));
        in_strip += 1;
        if in_strip == strip {
            (in_strip, column, hand) = (0, column + 1, after(hand, 1));
            if column == k {
                parities.push((0..m).map(|j| after(hand, j)).collect());
                (row, column) = (row + 1, 0);
            }
        }
    }
    (places, parities)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn strips_are_the_oracles(redundancy in redundancies(), blocks in 1u64..900) {
        let rows = Rows::of(redundancy).expect("parity");
        let (places, parities) = deal(redundancy, blocks);
        let all: Vec<_> = rows.parts(BlockRange::new(0, blocks as u32)).collect();
        let mut next = 0;
        for part in all {
            prop_assert_eq!(part.set_first, next);
            for i in 0..u64::from(part.range.count) {
                let (row, column, member) = places[(next + i) as usize];
                prop_assert_eq!((part.row, part.column, part.member), (row, column, member));
                prop_assert_eq!((part.range.first + i) / rows.strip_blocks(), row);
                prop_assert_eq!((part.range.first + i) % rows.strip_blocks(), (next + i) % rows.strip_blocks());
            }
            next += u64::from(part.range.count);
        }
        prop_assert_eq!(next, blocks);
        for (row, parity) in parities.iter().enumerate() {
            for (j, member) in parity.iter().enumerate() {
                prop_assert_eq!(rows.role(row as u64, *member), RowRole::Parity(j as u32));
            }
        }
    }

    #[test]
    fn a_row_has_one_strip_at_every_member(redundancy in redundancies(), row in 0u64..1_000_000_000) {
        let rows = Rows::of(redundancy).expect("parity");
        let roles: BTreeSet<RowRole> = (0..rows.members()).map(|member| rows.role(row, member)).collect();
        prop_assert_eq!(roles.len() as u32, rows.members());
        for member in 0..rows.members() {
            prop_assert_eq!(rows.member(row, rows.role(row, member)), member);
        }
        prop_assert_eq!(rows.rows_of(rows.strip_range(row)), row..row + 1);
    }

    #[test]
    fn parity_goes_round(redundancy in redundancies()) {
        let rows = Rows::of(redundancy).expect("parity");
        let mut held: BTreeMap<u32, u32> = BTreeMap::new();
        for row in 0..u64::from(rows.members()) {
            (0..rows.parity()).for_each(|j| *held.entry(rows.member(row, RowRole::Parity(j))).or_default() += 1);
        }
        let (least, most) = (held.values().min(), held.values().max());
        prop_assert_eq!(held.len() as u32, rows.members());
        prop_assert_eq!(least, most);
    }

    #[test]
    fn units_are_the_range_in_order(redundancy in redundancies(), first in 0u64..500, count in 0u32..500, most in 0u64..200) {
        let rows = Rows::of(redundancy).expect("parity");
        let range = BlockRange::new(first, count);
        let mut next = first;
        for unit in rows.units(range, most) {
            let bits = rows.relevant(&unit).count_ones();
            match unit {
                Unit::Whole { rows: whole } => {
                    prop_assert_eq!(whole.start * rows.row_blocks(), next);
                    let blocks = (whole.end - whole.start) * rows.row_blocks();
                    prop_assert!(blocks <= most.max(rows.row_blocks()));
                    prop_assert_eq!(bits, rows.members());
                    next += blocks;
                }
                Unit::Part(part) => {
                    prop_assert_eq!(part.set_first, next);
                    // Not a whole row: the request leaves some of it alone.
                    let row = rows.row_range(part.row);
                    prop_assert!(row.first < range.first || row.end() > range.end());
                    prop_assert_eq!(bits, 1 + rows.parity());
                    next += u64::from(part.range.count);
                }
            }
        }
        prop_assert_eq!(next, range.end());
        // G5: a part of the same request, asked for alone, is the same part.
        for unit in rows.units(range, most) {
            if let Unit::Part(part) = unit {
                let alone: Vec<_> = rows.units(BlockRange::new(part.set_first, part.range.count), most).collect();
                prop_assert_eq!(alone, vec![Unit::Part(part)]);
            }
        }
    }

    #[test]
    fn rows_are_contiguous_in_the_disk_and_components_hold_them(
        redundancy in redundancies(), width in 1u8..=4, strips in 1u64..=3, blocks in 1u64..3000, more in 0u64..3000,
    ) {
        let rows = Rows::of(redundancy).expect("parity");
        let strip_bytes = rows.row_blocks() as u32 * BLOCK_BYTES * 2;
        let chunk_bytes = strips * u64::from(strip_bytes) * u64::from(width);
        let layout = Layout { chunk_bytes, stripe_width: width.into(), strip_bytes, redundancy };
        prop_assert_eq!(check_layout(&layout), Ok(()));
        let (size, grown) = (blocks * 4096, (blocks + more) * 4096);
        let mut held = 0;
        for set in 0..replica_sets(&layout, size) {
            let in_set = set_blocks(&layout, size, set);
            held += in_set;
            prop_assert_eq!(component_blocks(&layout, size, set), rows.rows(in_set) * rows.strip_blocks());
            prop_assert!(component_blocks(&layout, size, set) <= component_blocks(&layout, grown, set));
            for row in 0..in_set / rows.row_blocks() {
                prop_assert_eq!(to_object(&layout, set, rows.row_range(row)).len(), 1);
            }
        }
        prop_assert_eq!(held, blocks);
        let all = BlockRange::new(0, blocks as u32);
        let before: Vec<_> = split(&layout, size, all).collect();
        prop_assert_eq!(before, split(&layout, grown, all).collect::<Vec<_>>());
    }
}

/// Lemma P. Goal: whoever hears k members in sync hears one that an operation concerned, so an operation is seen and fenced by them. Method:
/// every k and m, every operation of a turn of rows, every absence of at most m members, every k of the others.
#[test]
fn an_operation_concerns_one_of_any_k_members_in_sync() {
    let subsets = |of: u16, count: u32| (0..=of).filter(move |bits| bits & !of == 0 && bits.count_ones() == count);
    let mut cases = 0u64;
    for (data, parity) in (2..=8u8).flat_map(|data| [(data, 1u8), (data, 2)]) {
        let rows = Rows::of(Redundancy::Parity { data, parity, strip_blocks: 2 }).expect("parity");
        let all: u16 = (1 << rows.members()) - 1;
        let turn = BlockRange::new(1, rows.row_blocks() as u32 * (rows.members() + 1));
        let concerned: BTreeSet<u16> = rows.units(turn, 1).map(|unit| rows.relevant(&unit)).collect();
        for absent in (0..=u32::from(parity)).flat_map(|count| subsets(all, count)) {
            let in_sync = all & !absent;
            for heard in subsets(in_sync, rows.data()) {
                assert!(
                    concerned.iter().all(|mask| mask & in_sync & heard != 0),
                    "{data}+{parity} {absent:b} {heard:b}"
                );
                cases += concerned.len() as u64;
            }
        }
    }
    assert!(cases > 5_000, "{cases}");
}

#[test]
fn real_layouts_are_what_the_design_says() {
    for (data, parity, strip_blocks, strip_kib, members) in
        [(2, 1, 16, 1024, 747), (3, 1, 16, 1152, 996), (3, 2, 16, 1152, 1245), (4, 2, 16, 1024, 1494)]
    {
        let layout = layout_of(Redundancy::Parity { data, parity, strip_blocks }, 1, CHUNK_BYTES_MAX);
        assert_eq!(layout.strip_bytes, strip_kib << 10);
        let sets = chunks(&layout, OBJECT_BYTES_MAX);
        assert_eq!(sets * u32::from(data + parity), members, "{data}+{parity}");
        let most = component_blocks(&layout, OBJECT_BYTES_MAX, 0) * 4096;
        assert!(most <= (255 << 30) / u64::from(data), "{data}+{parity}: {most}");
    }
}
