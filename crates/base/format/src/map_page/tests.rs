//! Pages of the map: what is packed reads back, takes what was planned with, and keeps its bytes.

use proptest::prelude::*;

use super::*;

fn epoch(number: u64) -> Epoch {
    Epoch { number, host: HostId(u128::from(number) << 70), incarnation: Incarnation(number + 7) }
}

/// Runs of blocks: written one by one, at once, as zeroes, as parity in steps of any width; with slots anywhere.
fn entries() -> impl Strategy<Value = Vec<(u64, MapEntry)>> {
    let run = (0u64..300, 1u64..100, 0u64..1 << 34, 0u64..1 << 33, 0u64..4, 0u8..8, 0u32..5);
    (proptest::collection::vec(run, 1..60), any::<bool>()).prop_map(|(runs, some_packed)| {
        let (mut entries, mut block) = (Vec::new(), 0);
        for (gap, count, slot, seq, number, kind, sizes) in runs {
            block += gap;
            let mut sector = slot;
            for at in 0..count {
                let packed = Spot::packed(sector, (sizes + at as u32 * sizes) % 6 + 1).expect("it is one");
                sector = packed.end();
                let spot = match kind {
                    3 if at % 3 == 0 => Spot::BAD,
                    3 => Spot::ZERO,
                    1 if some_packed && sizes == 1 => Spot::raw(slot + at).shared(seq),
                    2 if some_packed && sizes > 1 => packed.shared(seq + at / 4),
                    _ if some_packed && sizes > 1 => packed,
                    _ => Spot::raw(slot + at),
                };
                let step = [0, 1, 0, 0, 0, 1, gap, slot % 7][usize::from(kind)];
                let op = OpId { epoch: epoch(number), seq: seq + step * at };
                let row_check = if kind > 3 { !(slot as u32) } else { 0 };
                entries.push((block, MapEntry { spot, crc: (seq ^ block) as u32, row_check, op }));
                block += 1;
            }
        }
        entries.retain(|(block, _)| *block < SHARD_BLOCKS);
        entries
    })
}

proptest! {
    /// Goal: what is packed reads back, and each leaf is on one page. Method: runs of all forms; pages of any number of leaves.
    #[test]
    fn pages_read_back(entries in entries(), leaves_max in prop_oneof![1usize..4, Just(1024)]) {
        let pages = pack_map_pages(ComponentId(5), 9, 77, &entries, leaves_max);
        let mut found = Vec::new();
        let mut from = None;
        for page in &pages {
            let read = decode_map_page(&page.bytes).expect("a page");
            prop_assert_eq!((read.component, read.shard, read.number, read.first), (ComponentId(5), 9, 77, page.first));
            prop_assert!(from < Some(page.first), "pages ascend");
            let has_packed = read.entries.iter().any(|(_, entry)| entry.spot.is_wide());
            prop_assert_eq!(page.bytes[49], u8::from(has_packed), "raw pages are what they were");
            from = Some(page.first);
            found.extend(read.entries.into_iter().map(|(block, entry)| (u64::from(block), entry)));
        }
        prop_assert_eq!(found, entries);
    }

    #[test]
    fn other_bytes_are_refused(entries in entries(), at in 0usize..MAP_PAGE_BYTES, bit in 0u8..8, seal in any::<bool>()) {
        let mut bytes = pack_map_pages(ComponentId(5), 9, 77, &entries, 16).swap_remove(0).bytes;
        bytes[at] ^= 1 << bit;
        if seal {
            // With a sound checksum it may be a page, but nothing worse happens.
            bytes[8..12].fill(0);
            let crc = crc32c(&bytes);
            bytes[8..12].copy_from_slice(&crc.to_le_bytes());
            let _ = decode_map_page(&bytes);
        } else {
            prop_assert_eq!(decode_map_page(&bytes), None);
        }
    }
}

/// Goal: the worst leaf fits a page. Method: each block of another epoch, in slots and with numbers that are as far apart as can be, of
/// data and of parity.
#[test]
fn the_worst_leaf_fits_a_page() {
    for (row_check, sectors) in [(0, 8), (7, 8), (0, 6), (7, 6), (0, 5), (7, 5)] {
        let entry = |block: u64| {
            let far = if block.is_multiple_of(2) { 0 } else { u64::MAX >> 1 };
            let spot = match sectors {
                8 => Spot::raw(far >> 28),
                5 => Spot::packed(far >> 25, sectors).expect("it is one").shared(far),
                _ => Spot::packed(far >> 25, sectors).expect("it is one"),
            };
            (block, MapEntry { spot, crc: 1, row_check, op: OpId { epoch: epoch(block), seq: far } })
        };
        let entries: Vec<_> = (128..192).map(entry).collect();
        let pages = pack_map_pages(ComponentId(1), 0, 1, &entries, 16);
        assert_eq!(pages.len(), 1);
        assert_eq!(decode_map_page(&pages[0].bytes).unwrap().entries.len(), 64);
    }
}

/// Goal: the map of a block takes what was planned with, and some more for parity. Method: a full shard, written at random and in one go;
/// parity as well by small writes one after the other, each third of which is the last to a block. Of entries of 17 bytes three leaves come
/// to a page, a quarter of which is left over.
#[test]
fn a_block_takes_some_thirteen_bytes_at_random_and_five_in_sequence() {
    let entry = |slot: u64, seq: u64| MapEntry {
        spot: Spot::raw(slot),
        crc: 0,
        row_check: 0,
        op: OpId { epoch: epoch(1), seq },
    };
    let random = |block: u64| {
        let slot = block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34;
        entry(slot, block.wrapping_mul(0xD134_2543_DE82_EF95) >> 33)
    };
    let sequential = |block: u64| entry(block, block / 16);
    let bytes_a_block = |row_check: u32, entry: &dyn Fn(u64) -> MapEntry| {
        let entries: Vec<_> = (0..SHARD_BLOCKS).map(|block| (block, MapEntry { row_check, ..entry(block) })).collect();
        let pages = pack_map_pages(ComponentId(1), 0, 1, &entries, 1024);
        (pages.len() * MAP_PAGE_BYTES) as f64 / SHARD_BLOCKS as f64
    };
    let small = |block: u64| entry(block, block / 16 * 48 + 32 + block % 16);
    let data = (bytes_a_block(0, &random), bytes_a_block(0, &sequential));
    println!("{:.1} bytes a block at random, {:.1} in sequence", data.0, data.1);
    assert!(data.0 <= 13.0 && data.1 <= 5.5, "{data:?}");
    let parity = (bytes_a_block(7, &random), bytes_a_block(7, &sequential), bytes_a_block(7, &small));
    println!("of parity {:.1} at random, {:.1} in sequence, {:.1} by small writes", parity.0, parity.1, parity.2);
    assert!(parity.0 <= 21.4 && parity.1 <= 9.6 && parity.2 <= 9.6, "{parity:?}");
    let four_sectors = |entry: MapEntry| {
        let sector = entry.spot.sector() / 2;
        MapEntry { spot: Spot::packed(sector, 4).expect("it is one"), ..entry }
    };
    let packed = (
        bytes_a_block(0, &|block| four_sectors(random(block))),
        bytes_a_block(0, &|block| four_sectors(sequential(block))),
    );
    println!("packed {:.1} at random, {:.1} in sequence", packed.0, packed.1);
    assert!(packed.0 <= 16.1 && packed.1 <= 6.0, "{packed:?}");
}

/// Goal: pages that are on devices read back. Method: bytes that are fixed.
#[test]
fn the_bytes_of_a_page_are_fixed() {
    let entry = |slot, seq, crc| {
        let spot = Spot::of_slot(slot).expect("it is one");
        MapEntry { spot, crc, row_check: 0, op: OpId { epoch: epoch(3), seq } }
    };
    let entries = [
        (64, entry(1000, 50, 1)),
        (65, entry(1001, 51, 2)),
        (66, entry(1002, 52, 3)),
        (70, entry(u64::MAX - 1, 60, 3)),
        (400, entry(900, 49, 4)),
        (401, entry(950, 55, 5)),
    ];
    let page = pack_map_pages(ComponentId(2), 1, 9, &entries, 16).swap_remove(0);
    assert_eq!(page.bytes[46..50], [1, 1, 1, 0]);
    let body = [
        &[0, 3 << 3 | 1, 100, 1][..],
        &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
        &[3, 1 << 3 | 3, 11],
        &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 3, 0, 0, 0],
        &[0xC9, 2, 2 << 3 | 4, 0, 0, 4, 0, 0, 0, 50, 6, 5, 0, 0, 0],
    ]
    .concat();
    assert_eq!(page.bytes[98..98 + body.len()], body);
    assert!(page.bytes[98 + body.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(crc32c(&page.bytes), GOLDEN);
}
const GOLDEN: u32 = 4074743714;

/// Goal: parity in pages that are on devices reads back. Method: bytes that are fixed, of a run that follows on by steps, then of one that
/// is scattered, then of data beside it.
#[test]
fn the_bytes_of_a_page_with_parity_are_fixed() {
    let entry = |slot, seq, crc, row_check| MapEntry {
        spot: Spot::raw(slot),
        crc,
        row_check,
        op: OpId { epoch: epoch(3), seq },
    };
    let entries = [
        (64, entry(1000, 50, 1, 9)),
        (65, entry(1001, 53, 2, 8)),
        (66, entry(1002, 56, 3, 7)),
        (67, entry(900, 60, 4, 6)),
        (68, entry(950, 55, 5, 5)),
        (69, entry(951, 55, 6, 0)),
    ];
    let page = pack_map_pages(ComponentId(2), 1, 9, &entries, 16).swap_remove(0);
    assert_eq!(page.bytes[46..50], [1, 1, 1, 0]);
    let body = [
        &[0, 3 << 3 | 5, 100, 0, 3][..],
        &[1, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0],
        &[0, 2 << 3 | 6, 0, 10, 4, 0, 0, 0, 6, 0, 0, 0, 50, 5, 5, 0, 0, 0, 5, 0, 0, 0],
        &[0, 1 << 3, 51, 5, 6, 0, 0, 0],
    ]
    .concat();
    assert_eq!(page.bytes[98..98 + body.len()], body);
    assert!(page.bytes[98 + body.len()..].iter().all(|byte| *byte == 0));
    let read = decode_map_page(&page.bytes).expect("a page").entries;
    assert!(read.into_iter().map(|(block, entry)| (u64::from(block), entry)).eq(entries));
}

/// Goal: packed blocks in pages that are on devices read back. Method: bytes that are fixed, of a run that stands back to back, of parity that
/// does, of a raw block between others.
#[test]
fn the_bytes_of_a_page_with_packed_blocks_are_fixed() {
    let entry = |spot, seq, crc, row_check| MapEntry { spot, crc, row_check, op: OpId { epoch: epoch(3), seq } };
    let packed = |sector, sectors| Spot::packed(sector, sectors).expect("it is one");
    let entries = [
        (64, entry(packed(100, 2), 50, 1, 0)),
        (65, entry(packed(102, 6), 51, 2, 0)),
        (66, entry(packed(108, 1), 52, 3, 0)),
        (67, entry(packed(120, 1), 60, 4, 9)),
        (68, entry(packed(121, 2), 60, 5, 8)),
        (69, entry(packed(123, 3), 60, 6, 7)),
        (70, entry(Spot::raw(14), 61, 7, 0)),
        (71, entry(packed(99, 1), 62, 8, 0)),
    ];
    let page = pack_map_pages(ComponentId(2), 1, 9, &entries, 16).swap_remove(0);
    assert_eq!(page.bytes[46..50], [1, 1, 1, 1]);
    let body = [
        &[0, 3 << 3 | 2, 9, 0, 1][..],
        &[1, 1, 0, 0, 0, 5, 2, 0, 0, 0, 0, 3, 0, 0, 0],
        &[0, 3 << 3 | 7, 168, 10, 0],
        &[0, 4, 0, 0, 0, 9, 0, 0, 0, 1, 5, 0, 0, 0, 8, 0, 0, 0, 2, 6, 0, 0, 0, 7, 0, 0, 0],
        &[0, 2 << 3 | 4, 111, 11, 7, 0, 0, 0, 0, 12, 8, 0, 0, 0],
    ]
    .concat();
    assert_eq!(page.bytes[98..98 + body.len()], body);
    assert!(page.bytes[98 + body.len()..].iter().all(|byte| *byte == 0));
    let read = decode_map_page(&page.bytes).expect("a page").entries;
    assert!(read.into_iter().map(|(block, entry)| (u64::from(block), entry)).eq(entries));
}
