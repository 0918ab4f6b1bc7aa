//! Disks of several layouts, against a slow oracle: where each block is, before, while and after a part of it goes over to another one.

use std::collections::BTreeSet;

use cairn_geometry::{Area, RowRole, by_area, grown, moving_at, sets};
use cairn_types::{
    Addresses, BLOCK_BYTES, BlockRange, CHUNK_BYTES_MAX, Layout, ObjectConfig, ObjectId, OpId, Policy, Redundancy,
};
use proptest::prelude::*;

const BLOCK: u64 = BLOCK_BYTES as u64;

fn config(layout: Layout, size_bytes: u64) -> ObjectConfig {
    ObjectConfig {
        object: ObjectId(1),
        name: String::new(),
        size_bytes,
        policy: Policy::default(),
        policy_name: String::new(),
        addresses: layout.into(),
        members: Vec::new(),
        decided: OpId::ZERO,
        deleted: false,
        past: None,
        ancestry: None,
    }
}

/// Where each block of the disk is: its set and its place there.
fn places(config: &ObjectConfig) -> Vec<(u32, u64)> {
    let all = BlockRange::new(0, config.size_blocks() as u32);
    let pieces = by_area(config, all).flat_map(|(area, range)| area.split(range));
    pieces.flat_map(|p| (0..u64::from(p.range.count)).map(move |n| (p.set, p.range.first + n))).collect()
}

/// Each block has one place, no two have the same, sets are as long as what they hold, and the way back leads to the block.
fn check(config: &ObjectConfig) -> Result<(), TestCaseError> {
    let places = places(config);
    prop_assert_eq!(places.len() as u64, config.size_blocks());
    let distinct: BTreeSet<_> = places.iter().collect();
    prop_assert_eq!(distinct.len(), places.len());
    let known: Vec<u32> = sets(&config.addresses, config.size_bytes).collect();
    prop_assert_eq!(known.iter().collect::<BTreeSet<_>>().len(), known.len());
    for (block, (set, at)) in places.iter().enumerate() {
        let area = Area::of_set(config, *set).expect("a set of the disk");
        prop_assert!(known.contains(set) && *at < area.set_blocks(*set));
        let own = BlockRange::new(block as u64, 1);
        prop_assert_eq!(area.to_object(*set, BlockRange::new(*at, 1)), vec![own]);
        let Some(rows) = area.rows() else {
            prop_assert_eq!(area.held_in_object(*set, 0, BlockRange::new(*at, 1)), vec![own]);
            continue;
        };
        let part = rows.parts(BlockRange::new(*at, 1)).next().expect("a block");
        prop_assert_eq!(area.held_in_object(*set, part.member, part.range), vec![own]);
        let p = rows.member(part.row, RowRole::Parity(0));
        prop_assert!(area.held_in_object(*set, p, part.range).is_empty());
        let place = area.columns_in_object(*set, part.range);
        prop_assert!(place.contains(&own) && place.len() <= rows.data() as usize);
    }
    Ok(())
}

fn redundancy() -> impl Strategy<Value = Redundancy> {
    prop_oneof![
        (1u32..4).prop_map(|copies| Redundancy::Mirror { copies }),
        (2u8..5, 1u8..3).prop_map(|(data, parity)| Redundancy::Parity { data, parity, strip_blocks: 16 }),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    /// The part that a block is in goes over to another layout, or does not after all.
    Over(u64, Redundancy, u8, bool),
    Grow(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<u64>(), redundancy(), 1u8..4, prop::bool::weighted(0.8)).prop_map(|(b, r, w, done)| Step::Over(b, r, w, done)),
        1 => (1u64..1500).prop_map(Step::Grow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: whatever goes over to whatever, every block has one place, what stays where it was is where it was, and no number of a set is
    /// used twice. Method: disks of a few MiB in chunks of one or two; parts of them go over, and they grow, in any order.
    #[test]
    fn each_block_has_one_place(
        (first, width, chunk_mib, blocks) in (redundancy(), 1u8..3, 1u64..3, 300u64..1500),
        steps in prop::collection::vec(step(), 1..7),
    ) {
        let layout = cairn_geometry::layout_of(first, width, chunk_mib << 20);
        let mut disk = config(layout, blocks * BLOCK);
        let mut ever: BTreeSet<u32> = sets(&disk.addresses, disk.size_bytes).collect();
        check(&disk)?;
        for step in steps {
            let before = places(&disk);
            match step {
                Step::Grow(by) => {
                    let size_bytes = disk.size_bytes + by * BLOCK;
                    disk.addresses = grown(&disk.addresses, disk.size_bytes, size_bytes);
                    disk.size_bytes = size_bytes;
                    prop_assert_eq!(&places(&disk)[..before.len()], &before[..], "growth moves nothing");
                    ever.extend(sets(&disk.addresses, disk.size_bytes));
                }
                Step::Over(block, redundancy, width, done) => {
                    let (moving, count) = moving_at(&disk, block % disk.size_blocks(), redundancy, width);
                    let begun = ObjectConfig { addresses: disk.addresses.begun(moving, count), ..disk.clone() };
                    prop_assert_eq!(&places(&begun), &before, "what is on its way serves nothing");
                    let to = Area::new(moving.to, moving.end_block);
                    prop_assert!(to.sets().all(|set| ever.insert(set)), "a number is used twice");
                    prop_assert!(to.sets().all(|set| !begun.addresses.serves(set)));
                    let after = if done { begun.addresses.moved(disk.size_blocks()) } else { Some(begun.addresses.given_up()) };
                    disk.addresses = after.expect("it was begun");
                    let went = moving.to.first_block..moving.end_block;
                    for (block, (was, is)) in (0u64..).zip(before.iter().zip(places(&disk))) {
                        let over = done && went.contains(&block);
                        prop_assert_eq!(over, to.sets().contains(&is.0));
                        prop_assert!(over || *was == is, "block {} is elsewhere", block);
                    }
                }
            }
            check(&disk)?;
        }
    }
}

/// Goal: the longest chunk may go over and over: chunks do not grow beyond what a layout may have. Method: 255 GiB through all layouts, ten
/// times, and growth after each.
#[test]
fn the_longest_chunks_stay_within_their_bound() {
    let mirror = cairn_geometry::layout_of(Redundancy::Mirror { copies: 2 }, 1, CHUNK_BYTES_MAX);
    let mut disk = config(mirror, CHUNK_BYTES_MAX);
    for turn in 0..10u8 {
        for (redundancy, width) in [
            (Redundancy::Parity { data: 3, parity: 1, strip_blocks: 16 }, 1),
            (Redundancy::Parity { data: 7, parity: 2, strip_blocks: 8 }, 12),
            (Redundancy::Mirror { copies: 3 }, 1 + turn),
        ] {
            let (moving, count) = moving_at(&disk, 0, redundancy, width);
            assert_eq!(moving.end_block, CHUNK_BYTES_MAX / BLOCK, "all of it goes over at once");
            disk.addresses = disk.addresses.begun(moving, count).moved(disk.size_blocks()).expect("it was begun");
            assert_eq!(disk.addresses.spans().len(), 1);
            let larger: Addresses = grown(&disk.addresses, disk.size_bytes, 2 * disk.size_bytes);
            assert!((2..=3).contains(&(sets(&larger, 2 * disk.size_bytes).count() / usize::from(width))));
        }
    }
}
