//! The layout arithmetic against a slow oracle that deals out the blocks of an object one at a time.
//!
//! Promises    G1, G2, G3 hold for every layout and size drawn; the oracle uses no arithmetic of the crate

use std::collections::BTreeMap;

use cairn_geometry::{check_layout, chunks, component_blocks, replica_sets, set_of, split, stripe_of, to_object};
use cairn_types::{BLOCK_BYTES, BlockRange, Layout, Redundancy};
use proptest::prelude::*;

/// Where each block of an object lives: dealt one by one, as a person would deal cards.
fn deal(layout: &Layout, size_bytes: u64) -> Vec<(u32, u64)> {
    let strip_blocks = layout.strip_bytes / BLOCK_BYTES;
    let chunk_blocks = layout.chunk_bytes / u64::from(BLOCK_BYTES);
    let blocks = size_bytes.div_ceil(u64::from(BLOCK_BYTES));
    let mut used: BTreeMap<u32, u64> = BTreeMap::new();
    let mut places = Vec::new();
    let (mut chunk, mut in_chunk, mut stripe, mut in_strip) = (0u32, 0u64, 0u32, 0u32);
    for _ in 0..blocks {
        if in_chunk == chunk_blocks {
            (chunk, in_chunk, stripe, in_strip) = (chunk + 1, 0, 0, 0);
        }
        if in_strip == strip_blocks {
            (stripe, in_strip) = ((stripe + 1) % layout.stripe_width, 0);
        }
        let set = chunk * layout.stripe_width + stripe;
        let next = used.entry(set).or_default();
        places.push((set, *next));
        *next += 1;
        in_chunk += 1;
        in_strip += 1;
    }
    places
}

/// Small layouts, so that a few hundred blocks cross every kind of border.
fn layouts() -> impl Strategy<Value = Layout> {
    (1u32..=12, 1u32..=5, 1u64..=7, 1u32..=4).prop_map(|(width, strip_blocks, rows, copies)| {
        let layout = Layout {
            chunk_bytes: rows * u64::from(width * strip_blocks * BLOCK_BYTES),
            stripe_width: width,
            strip_bytes: strip_blocks * BLOCK_BYTES,
            redundancy: Redundancy::Mirror { copies },
        };
        assert_eq!(check_layout(&layout), Ok(()));
        layout
    })
}

/// A size in bytes, a multiple of 512, at times ending within a block.
fn sizes() -> impl Strategy<Value = u64> {
    (1u64..=700, 1u64..=8).prop_map(|(blocks, sectors)| (blocks - 1) * 4096 + sectors * 512)
}

/// A range within `blocks`, drawn by two fractions of 1000.
fn range_in(blocks: u64, from: u64, to: u64) -> BlockRange {
    let (a, b) = (blocks * from.min(to) / 1000, blocks * from.max(to) / 1000);
    BlockRange::new(a, (b - a) as u32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn pieces_are_the_oracle_in_order(layout in layouts(), size in sizes(), from in 0u64..=1000, to in 0u64..=1000) {
        let places = deal(&layout, size);
        let range = range_in(places.len() as u64, from, to);
        let pieces = split(&layout, size, range);
        let said = pieces.len();
        let pieces: Vec<_> = pieces.collect();
        prop_assert_eq!(said, pieces.len());
        let mut next = range.first;
        for piece in &pieces {
            prop_assert_eq!(piece.object_first, next);
            prop_assert!(piece.range.count > 0);
            for i in 0..u64::from(piece.range.count) {
                prop_assert_eq!(places[(next + i) as usize], (piece.set, piece.range.first + i));
            }
            next += u64::from(piece.range.count);
        }
        prop_assert_eq!(next, range.end());
        for pair in pieces.windows(2) {
            prop_assert!(pair[0].set != pair[1].set || pair[0].range.end() != pair[1].range.first,
                "two pieces that could be one: {:?}", pair);
        }
    }

    #[test]
    fn sizes_are_the_oracles_and_sum_to_the_object(layout in layouts(), size in sizes()) {
        let places = deal(&layout, size);
        let sets = replica_sets(&layout, size);
        prop_assert_eq!(sets, chunks(&layout, size) * layout.stripe_width);
        let mut sum = 0;
        for set in 0..sets {
            // G2: as many addresses as blocks, so with G1 (the oracle counts from 0) there is no gap.
            let blocks = places.iter().filter(|p| p.0 == set).count() as u64;
            prop_assert_eq!(component_blocks(&layout, size, set), blocks);
            let (chunk, stripe) = stripe_of(&layout, set);
            prop_assert_eq!(set_of(&layout, chunk, stripe), set);
            sum += blocks;
        }
        prop_assert_eq!(sum, places.len() as u64);
        prop_assert_eq!(component_blocks(&layout, size, sets), 0);
    }

    #[test]
    fn the_inverse_finds_the_same_blocks(layout in layouts(), size in sizes(), set in 0u32..36, from in 0u64..=1000, to in 0u64..=1000) {
        let places = deal(&layout, size);
        let set = set % replica_sets(&layout, size);
        let range = range_in(component_blocks(&layout, size, set), from, to);
        let expected: Vec<u64> = (0..places.len() as u64)
            .filter(|&b| places[b as usize].0 == set)
            .filter(|&b| (range.first..range.end()).contains(&places[b as usize].1))
            .collect();
        let ranges = to_object(&layout, set, range);
        let found: Vec<u64> = ranges.iter().flat_map(|r| r.first..r.end()).collect();
        prop_assert_eq!(found, expected);
        if layout.stripe_width > 1 {
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end() < pair[1].first);
            }
        }
        // And there again.
        for object_range in ranges {
            for piece in split(&layout, size, object_range) {
                prop_assert_eq!(piece.set, set);
                prop_assert_eq!(to_object(&layout, set, piece.range), vec![piece.object_range()]);
            }
        }
    }

    #[test]
    fn growth_moves_nothing(layout in layouts(), a in sizes(), b in sizes()) {
        let (small, large) = (a.min(b), a.max(b));
        let blocks = small.div_ceil(u64::from(BLOCK_BYTES));
        let all = BlockRange::new(0, blocks as u32);
        let before: Vec<_> = split(&layout, small, all).collect();
        let after: Vec<_> = split(&layout, large, all).collect();
        prop_assert_eq!(before, after);
        for set in 0..replica_sets(&layout, large) {
            prop_assert!(component_blocks(&layout, small, set) <= component_blocks(&layout, large, set));
        }
    }
}

#[test]
fn real_layouts_hold_at_their_borders() {
    let policy = cairn_types::Policy { stripe_width: 7, ..Default::default() };
    let size = cairn_types::OBJECT_BYTES_MAX;
    let layout = cairn_geometry::plan_layout(&policy, size);
    let blocks = size / 4096;
    let chunk_blocks = layout.chunk_bytes / 4096;
    for middle in [chunk_blocks, 3 * chunk_blocks, blocks - 4, 256, 256 * 7] {
        for block in middle - 4..middle + 4 {
            let piece = split(&layout, size, BlockRange::new(block, 1)).next().expect("one block is one piece");
            assert!(piece.range.first < component_blocks(&layout, size, piece.set));
            assert_eq!(to_object(&layout, piece.set, piece.range), [BlockRange::new(block, 1)]);
        }
    }
    let sum: u64 = (0..replica_sets(&layout, size)).map(|s| component_blocks(&layout, size, s)).sum();
    assert_eq!(sum, blocks);
}
