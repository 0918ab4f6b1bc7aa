//! Scrub: what rots, what was never written and what was written elsewhere is found, and nothing else is.

use std::collections::BTreeSet;

use cairn_sim::{Fault, SimDisk};
use cairn_store::{DiskGroup, Needs, OpenOptions, RunningOptions, ScrubState};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId};

use crate::support::{Group, Rig, SEGMENTS_OFFSET, create, data, delete, open_options, write, zero};

const PAGE: u64 = BLOCK_BYTES as u64;

/// Opens it with the map in pages, or as 0.2.0 knows it, and without a read cache or with one.
fn open(rig: &Rig, allowed: Needs, read_cache_bytes: u64) -> Group {
    let running = RunningOptions { place_bytes_min: 20 << 10, ..RunningOptions::default() };
    let options = OpenOptions { allowed, running, read_cache_bytes, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { DiskGroup::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

/// Steps until the pass ends; blocks that were found bad, by component, and how many steps it took.
fn pass(rig: &Rig, group: &Group, bytes: u64) -> (BTreeSet<(u128, u64)>, u32) {
    group.scrub_begin(false);
    go_on(rig, group, bytes)
}

fn go_on(rig: &Rig, group: &Group, bytes: u64) -> (BTreeSet<(u128, u64)>, u32) {
    let (mut found, mut steps) = (BTreeSet::new(), 0);
    loop {
        let group = group.clone();
        let step = rig.run(async move { group.scrub_step(bytes).await });
        found.extend(step.bad.iter().flat_map(|(id, range)| (range.first..range.end()).map(|block| (id.0, block))));
        steps += 1;
        if step.pass_ended {
            return (found, steps);
        }
        assert!(steps < 10_000, "the pass never ends");
    }
}

/// Where the newest block of this tag stands on a capacity device.
fn place_of(rig: &Rig, tag: u64) -> (SimDisk, u64) {
    let expected = data(tag, 1);
    let devices = rig.devices().capacity;
    let holds = |disk: &SimDisk, at: &u64| disk.peek(*at, PAGE as usize) == expected[..];
    devices
        .into_iter()
        .find_map(|disk| {
            let at = disk.all_written(SEGMENTS_OFFSET).into_iter().rev().find(|at| holds(&disk, at))?;
            Some((disk, at))
        })
        .expect("it was destaged")
}

fn state(group: &Group) -> ScrubState {
    group.scrub_state()
}

/// Goal: S1. Method: at rest a bit is flipped, a block is as it was before it was written over, with the header that was there, two change
/// places, a sector cannot be read; with the map in rows and in pages, and with all blocks in the read cache.
#[test]
fn what_is_wrong_at_rest_is_found_and_nothing_else() {
    for (seed, allowed) in [(71, Needs::NONE), (72, Needs::MAP_PAGES)] {
        let rig = Rig::new(seed, 32);
        let group = open(&rig, allowed, 8 << 20);
        for component in [1, 2] {
            rig.append(&group, create(component, 200, 0)).unwrap();
        }
        for block in 0..60 {
            let component = 1 + u128::from(block % 2);
            rig.append(&group, write(component, 1 + block, block, block, 1)).unwrap();
        }
        rig.drain(&group);
        let whole = pass(&rig, &group, 8 * PAGE);
        assert_eq!(whole.0, BTreeSet::new());
        assert!(whole.1 > 3, "{} steps", whole.1);
        assert_eq!((state(&group).compared_blocks, state(&group).total_blocks), (60, 60));
        // All of it is in memory: what is there must not hide the media.
        (0..60).for_each(|block| drop(rig.read(&group, 1 + u128::from(block % 2), block, 1).unwrap()));
        // Tags are one more than blocks.
        let (disk, at) = place_of(&rig, 11);
        disk.inject(Fault::BitFlip { offset: at + 77, bit: 3 });
        let (disk, at) = place_of(&rig, 21);
        disk.poke(at, &[0; PAGE as usize]);
        let ((one, at), (two, to)) = (place_of(&rig, 31), place_of(&rig, 42));
        let bytes = [one.peek(at, PAGE as usize), two.peek(to, PAGE as usize)];
        one.poke(at, &bytes[1]);
        two.poke(to, &bytes[0]);
        let (disk, at) = place_of(&rig, 50);
        disk.inject(Fault::LatentSectorError { offset: at, len_bytes: 512 });
        let bad: BTreeSet<(u128, u64)> = [10u64, 20, 30, 41, 49].map(|block| (1 + u128::from(block % 2), block)).into();
        assert_eq!(pass(&rig, &group, 64 * PAGE).0, bad);
        assert_eq!(pass(&rig, &group, 64 * PAGE).0, BTreeSet::new(), "known already");
        let listed: BTreeSet<_> = group.bad_blocks().iter().map(|bad| (bad.component.0, bad.range.first)).collect();
        assert_eq!(listed, bad);
        // One is written anew, one is trimmed; one goes with its component.
        rig.append(&group, write(1, 101, 100, 10, 1)).unwrap();
        rig.append(&group, zero(1, 102, 101, 20, 1)).unwrap();
        rig.append(&group, delete(2)).unwrap();
        for (component, block) in bad {
            let again = group.clone();
            let range = BlockRange::new(block, 1);
            rig.run(async move { again.scrub_again(ComponentId(component), range).await });
        }
        let now = state(&group);
        assert_eq!((now.found_blocks, now.repaired_blocks, now.gone_blocks, now.bad_blocks), (5, 2, 2, 1));
        assert_eq!(group.bad_blocks()[0].range, BlockRange::new(30, 1));
    }
}

/// Goal: S1, where the device itself loses a write and misdirects another. Method: a segment is used twice; of the second use the device
/// acknowledges a run and does not do it: what stands there is an older run, header and data, that agrees with itself.
#[test]
fn a_write_that_the_device_lost_is_found() {
    for fault in [Fault::LostWriteNext, Fault::MisdirectedWriteNext { by_bytes: 24 * PAGE }] {
        let rig = Rig::new(73, 10);
        let group = open(&rig, Needs::MAP_PAGES, 0);
        rig.append(&group, create(1, 200, 0)).unwrap();
        // Written over again and again: segments come to be used anew.
        for round in 0..24u64 {
            for block in 0..30 {
                let seq = 1 + round * 30 + block;
                rig.append(&group, write(1, seq, seq - 1, block, 1)).unwrap();
            }
            if round == 23 {
                rig.devices().capacity.iter().for_each(|disk| disk.inject(fault));
            }
            rig.drain(&group);
        }
        rig.devices().capacity.iter().for_each(SimDisk::heal);
        let (found, _) = pass(&rig, &group, 64 * PAGE);
        let reads: BTreeSet<(u128, u64)> =
            (0..30).filter(|block| rig.read(&group, 1, *block, 1).is_err()).map(|block| (1, block)).collect();
        assert!(!reads.is_empty(), "{fault:?} has spoiled nothing");
        assert_eq!(found, reads, "{fault:?}");
    }
}

/// Goal: S3; what was found is known behind a start. Method: the group is closed in the middle of a pass, after its row was written, and
/// opened again.
#[test]
fn a_pass_goes_on_behind_a_start() {
    let rig = Rig::new(74, 32);
    let group = open(&rig, Needs::MAP_PAGES, 0);
    for component in 1..=4 {
        rig.append(&group, create(component, 100, 0)).unwrap();
        for block in 0..10 {
            let seq = 1 + block;
            rig.append(&group, write(component, seq, seq - 1, block, 1)).unwrap();
        }
    }
    rig.drain(&group);
    let (disk, at) = place_of(&rig, 4);
    disk.inject(Fault::BitFlip { offset: at + 5, bit: 0 });
    group.scrub_begin(true);
    let first = group.clone();
    while state(&group).compared_blocks < 20 {
        let first = first.clone();
        rig.run(async move { first.scrub_step(PAGE).await });
    }
    let before = state(&group);
    assert!(before.is_running && before.at_once);
    rig.drain(&group);
    drop(first);
    rig.close(group);
    let group = open(&rig, Needs::MAP_PAGES, 0);
    let after = state(&group);
    assert_eq!(after, before);
    let (found, _) = go_on(&rig, &group, PAGE);
    let end = state(&group);
    assert!(!end.is_running && end.ended_unix_ms > 0);
    assert_eq!(end.compared_blocks, 40, "what was done is not done again");
    // Which of the four components it was in is chance of the devices.
    assert_eq!(end.found_blocks, 1);
    assert!(found.len() <= 1);
}

/// Goal: S2. Method: all blocks are written over, destaged and cleaned between any two pieces of a pass.
#[test]
fn what_moves_meanwhile_is_not_reported() {
    let rig = Rig::new(75, 10);
    let group = open(&rig, Needs::MAP_PAGES, 0);
    rig.append(&group, create(1, 200, 0)).unwrap();
    let mut seq = 0;
    let mut over = |group: &Group, step: u64| {
        for block in (0..60).step_by(step as usize) {
            seq += 1;
            rig.append(group, write(1, seq, seq - 1, block, 1)).unwrap();
        }
        rig.drain(group);
    };
    over(&group, 1);
    for round in 0..20 {
        group.scrub_begin(false);
        let mut ended = false;
        while !ended {
            let stepping = group.clone();
            let step = rig.run(async move { stepping.scrub_step(4 * PAGE).await });
            assert_eq!(step.bad, [], "round {round}");
            ended = step.pass_ended;
            over(&group, 1 + round % 7);
        }
    }
    assert_eq!(state(&group).found_blocks, 0);
    rig.check(&group);
}

/// A pass that rests compares nothing; a damaged row of it costs a pass, and no more.
#[test]
fn a_pause_holds() {
    let rig = Rig::new(76, 16);
    let group = open(&rig, Needs::MAP_PAGES, 0);
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 0, 4)).unwrap();
    rig.drain(&group);
    group.scrub_begin(false);
    group.scrub_pause(true);
    let resting = group.clone();
    assert_eq!(rig.run(async move { resting.scrub_step(64 * PAGE).await }), Default::default());
    rig.drain(&group);
    rig.close(group);
    let group = open(&rig, Needs::MAP_PAGES, 0);
    assert!(state(&group).is_paused && state(&group).is_running);
    group.scrub_pause(false);
    assert_eq!(go_on(&rig, &group, 64 * PAGE).0, BTreeSet::new());
    assert_eq!(state(&group).compared_blocks, 4);
}
