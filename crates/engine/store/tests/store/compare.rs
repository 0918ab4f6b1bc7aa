//! Digests: the same blocks have the same digest wherever they stand, and other ones another.

use std::collections::BTreeSet;

use bytes::Bytes;
use cairn_format::zero_block_crc;
use cairn_store::{COMPARED_REGIONS_MAX, DiskGroup, Needs, OpenOptions, RunningOptions, StoreError, StoreErrorKind};
use cairn_types::{BlockRange, BlockState, BlockStates, Change, ComponentId, Run};

use crate::support::{
    Group, Rig, copy, create, data, delete, kind, op, open_options, run_of, settle, undo, write, zero,
};

/// Blocks of the component: two regions and a bit.
const BLOCKS: u64 = 600;

fn open(rig: &Rig, allowed: Needs) -> Group {
    let running = RunningOptions { place_bytes_min: 20 << 10, ..RunningOptions::default() };
    let options =
        OpenOptions { allowed, running, map_waiting_blocks: Some(12), map_page_leaves_max: 2, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { DiskGroup::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

fn try_digests(rig: &Rig, group: &Group, component: u128, range: BlockRange) -> Result<Vec<u64>, StoreError> {
    rig.run(group.digests(ComponentId(component), range))
}

fn digests(rig: &Rig, group: &Group, component: u128) -> Vec<u64> {
    try_digests(rig, group, component, BlockRange::new(0, BLOCKS as u32)).expect("a component that is here")
}

fn states(rig: &Rig, group: &Group, component: u128, first: u64, count: u32) -> BlockStates {
    rig.run(group.block_states(ComponentId(component), BlockRange::new(first, count))).expect("blocks of one region")
}

/// A copy of a block that holds what the write with this tag did.
fn brought(component: u128, seq: u64, settled: u64, block: u64, tag: u64) -> Change {
    with_bytes(copy(component, seq, settled, block, vec![run_of(tag, 1)]), data(tag, 1))
}

fn with_bytes(change: Change, data: Bytes) -> Change {
    match change {
        Change::Component { component, op, .. } => Change::Component { component, op, data },
        other => other,
    }
}

/// Two components that take the same, to the second of which it comes in other ways.
fn fill(rig: &Rig, group: &Group) {
    for component in [1, 2] {
        rig.append(group, create(component, BLOCKS, 0)).unwrap();
    }
    for (n, block) in (0..120u64).map(|n| (n, n * 5 % BLOCKS)) {
        rig.append(group, write(1, 1 + n, n, block, 1)).unwrap();
    }
    rig.append(group, zero(1, 130, 129, 40, 100)).unwrap();
    // As a resync brings it: in another order, with numbers of its own.
    for (n, block) in (0..120u64).rev().map(|n| (n, n * 5 % BLOCKS)) {
        rig.append(group, brought(2, 1000 - n, 0, block, 1 + n)).unwrap();
    }
    rig.append(group, copy(2, 1200, 1199, 40, vec![Run::Hole { blocks: 100 }])).unwrap();
}

/// Goal: C1, and the reason for all of it: equal copies have equal digests, however they came to hold what they hold. Method: two components
/// with the same blocks, written in other orders; one is destaged, one is not; settled or not; behind a restart; with the map in rows and in pages.
#[test]
fn equal_blocks_have_equal_digests_wherever_they_stand() {
    for (seed, allowed) in [(91, Needs::NONE), (92, Needs::MAP_PAGES)] {
        let rig = Rig::new(seed, 32);
        let group = open(&rig, allowed);
        fill(&rig, &group);
        let in_log = digests(&rig, &group, 1);
        assert_eq!(in_log.len(), 3);
        assert_eq!(digests(&rig, &group, 2), in_log, "in the log");
        assert_eq!(in_log.iter().collect::<BTreeSet<_>>().len(), 3, "other blocks, other digests");
        rig.append(&group, settle(1, 130)).unwrap();
        rig.drain(&group);
        assert_eq!([digests(&rig, &group, 1), digests(&rig, &group, 2)], [in_log.clone(), in_log.clone()], "destaged");
        let group = rig.reopen(group);
        assert_eq!(digests(&rig, &group, 1), in_log, "behind a restart");
        // One block is written again as it was, and stands in the log alone.
        let tag = 1 + 20;
        rig.append(&group, brought(1, 1300, 1299, 100, tag)).unwrap();
        let before = digests(&rig, &group, 1);
        assert_ne!(before[0], in_log[0], "it was trimmed");
        rig.append(&group, brought(2, 1301, 1300, 100, tag)).unwrap();
        assert_eq!(digests(&rig, &group, 2), before);
        rig.check(&group);
    }
}

/// Goal: a hole, zeroes that keep their space and zeroes that were written are one thing, as guests read one thing. Method: each of them, in
/// the log and destaged.
#[test]
fn whatever_reads_as_zeroes_is_one_thing() {
    let rig = Rig::new(93, 32);
    let group = open(&rig, Needs::MAP_PAGES);
    rig.append(&group, create(1, BLOCKS, 0)).unwrap();
    let nothing = digests(&rig, &group, 1);
    assert_eq!(nothing[0], nothing[1], "two regions of nothing");
    assert_ne!(nothing[2], nothing[0], "the last one has fewer blocks");
    rig.append(&group, write(1, 1, 0, 10, 4)).unwrap();
    let written = digests(&rig, &group, 1);
    assert_ne!(written[0], nothing[0]);
    assert_eq!(written[1..], nothing[1..]);
    rig.append(&group, zero(1, 2, 1, 10, 4)).unwrap();
    assert_eq!(digests(&rig, &group, 1), nothing, "zeroes in the log");
    assert_eq!(states(&rig, &group, 1, 10, 1).blocks, [BlockState::Zeroes { op: Some(op(2)) }]);
    rig.append(&group, settle(1, 2)).unwrap();
    rig.drain(&group);
    assert_eq!(digests(&rig, &group, 1), nothing, "a hole again");
    let hole = states(&rig, &group, 1, 10, 1);
    assert_eq!(hole, BlockStates { touched: op(2), blocks: vec![BlockState::Zeroes { op: None }] });
    let zeroes = Run::Data { crcs: vec![zero_block_crc(); 3].into() };
    let written = with_bytes(copy(1, 3, 2, 300, vec![zeroes]), vec![0; 3 * 4096].into());
    rig.append(&group, written).unwrap();
    assert_eq!(digests(&rig, &group, 1), nothing, "zeroes that were written");
    rig.append(&group, settle(1, 3)).unwrap();
    rig.drain(&group);
    assert_eq!(digests(&rig, &group, 1), nothing, "and destaged");
    rig.check(&group);
}

/// Goal: what a copy lost is seen, with the operations that tell which state is the later one. Method: one component takes a write back that
/// the other keeps, and has one block of another content.
#[test]
fn one_lost_write_is_another_digest() {
    for drained in [false, true] {
        let rig = Rig::new(94, 32);
        let group = open(&rig, Needs::MAP_PAGES);
        for component in [1, 2] {
            rig.append(&group, create(component, BLOCKS, 0)).unwrap();
            rig.append(&group, write(component, 1, 0, 0, 4)).unwrap();
            rig.append(&group, write(component, 2, 1, 3, 1)).unwrap();
            rig.append(&group, write(component, 3, 1, 300, 2)).unwrap();
        }
        rig.append(&group, undo(2, 2)).unwrap();
        for component in [1, 2] {
            rig.append(&group, settle(component, 3)).unwrap();
        }
        if drained {
            rig.drain(&group);
        }
        let (one, two) = (digests(&rig, &group, 1), digests(&rig, &group, 2));
        assert_ne!(one[0], two[0]);
        assert_eq!(one[1..], two[1..]);
        let op_of = |component| match states(&rig, &group, component, 0, 4).blocks[3] {
            BlockState::Data { op, .. } => op,
            other => panic!("{other:?}"),
        };
        assert_eq!((op_of(1), op_of(2)), (op(2), op(1)), "drained: {drained}");
    }
}

/// Goal: what cannot be told is refused in words, and asking for much costs a bounded answer. Method: ranges that are not there or are too
/// large, components that are not there.
#[test]
fn what_is_not_there_is_refused() {
    let rig = Rig::new(95, 32);
    let group = open(&rig, Needs::MAP_PAGES);
    rig.append(&group, create(1, 200 * 256, 0)).unwrap();
    let most = COMPARED_REGIONS_MAX * 256;
    assert_eq!(try_digests(&rig, &group, 1, BlockRange::new(0, most)).unwrap().len(), 64);
    let not_there = [(0, most + 1), (200 * 256 - 4, 5), (u64::MAX - 1, 1), (u64::MAX, 5), (7, 0)];
    for range in not_there.map(|(first, count)| BlockRange::new(first, count)) {
        assert_eq!(kind(try_digests(&rig, &group, 1, range)), StoreErrorKind::Refused, "{range:?}");
    }
    let blocks = |range| rig.run(group.block_states(ComponentId(1), range));
    assert_eq!(kind(blocks(BlockRange::new(250, 10))), StoreErrorKind::Refused, "of two regions");
    assert_eq!(kind(try_digests(&rig, &group, 9, BlockRange::new(0, 1))), StoreErrorKind::NotFound);
}

/// Goal: what an owner found is counted and listed, until it is written. Method: an owner's word, then a write and a deletion.
#[test]
fn what_an_owner_found_is_listed_until_it_is_written() {
    let rig = Rig::new(96, 32);
    let group = open(&rig, Needs::MAP_PAGES);
    for component in [1, 2] {
        rig.append(&group, create(component, BLOCKS, 0)).unwrap();
    }
    group.compared(ComponentId(1), &[BlockRange::new(5, 2)], &[BlockRange::new(20, 3)]);
    group.compared(ComponentId(2), &[], &[BlockRange::new(20, 3)]);
    group.compared(ComponentId(9), &[BlockRange::new(1, 1)], &[BlockRange::new(1, 1)]);
    let nonsense = [BlockRange::new(u64::MAX, u32::MAX), BlockRange::new(0, 400), BlockRange::new(BLOCKS, 1)];
    group.compared(ComponentId(1), &nonsense, &nonsense);
    let state = group.scrub_state();
    assert_eq!((state.found_blocks, state.repaired_blocks, state.undecided_blocks), (2, 2, 6));
    rig.append(&group, write(1, 1, 0, 21, 1)).unwrap();
    let listed: Vec<_> = group.undecided_blocks().iter().map(|one| (one.component.0, one.range)).collect();
    assert_eq!(listed, [(1, BlockRange::new(20, 1)), (1, BlockRange::new(22, 1)), (2, BlockRange::new(20, 3))]);
    // It is told anew, where it is still so.
    digests(&rig, &group, 1);
    rig.append(&group, delete(2)).unwrap();
    assert!(group.undecided_blocks().is_empty());
}
