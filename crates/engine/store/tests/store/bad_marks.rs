//! Marks: blocks whose bytes are lost stay errors, with their checksums, whatever becomes of the place that they had or never had.

use std::{collections::BTreeSet, ops::Range};

use cairn_format::crc32c;
use cairn_sim::{Fault, SimDisk};
use cairn_store::{DiskGroup, Needs, OpenOptions, StoreErrorKind};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId, ComponentOp, Run, SnapshotId};

use crate::support::{
    Group, LOG_OFFSET, Rig, SEGMENTS_OFFSET, copy, create, data, kind, op, open_options, run_of, settle, undo, write,
    zero,
};

const PAGE: u64 = BLOCK_BYTES as u64;

fn open(rig: &Rig, allowed: Needs) -> Group {
    let options = OpenOptions { allowed, map_waiting_blocks: Some(12), map_page_leaves_max: 2, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { DiskGroup::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

fn marks(crcs: &[u32]) -> Run {
    Run::Bad { crcs: crcs.into() }
}

/// The checksum of the mark of a block; none where it is none.
fn mark_of(rig: &Rig, group: &Group, block: u64) -> Option<u32> {
    let range = BlockRange::new(block, 1);
    let contents = rig.run(group.read_marked(ComponentId(1), range)).expect("marks are an answer");
    match contents.runs.as_slice() {
        [Run::Bad { crcs }] => {
            let bad = rig.run(group.read(ComponentId(1), range));
            assert_eq!(kind(bad), StoreErrorKind::BadBlock { component: ComponentId(1), blocks: vec![block] });
            Some(crcs[0])
        }
        _ => None,
    }
}

/// Which blocks below 64 are marks, with their checksums.
fn all_marks(rig: &Rig, group: &Group) -> Vec<(u64, u32)> {
    (0..64).filter_map(|block| Some((block, mark_of(rig, group, block)?))).collect()
}

fn listed(group: &Group) -> BTreeSet<u64> {
    group.bad_blocks().iter().flat_map(|bad| bad.range.first..bad.range.end()).collect()
}

/// What is listed is read again, as the host does it.
fn look_again(rig: &Rig, group: &Group) -> BTreeSet<u64> {
    for bad in group.bad_blocks() {
        let group = group.clone();
        rig.run(async move { group.scrub_again(bad.component, bad.range).await });
    }
    listed(group)
}

/// Writes blocks from the twentieth on, anywhere: segments stay in use by a part, so that some are cleaned.
fn write_beside(rig: &Rig, group: &Group, ops: Range<u64>) {
    for seq in ops {
        let first = 20 + rig.world.random_below(97);
        rig.append(group, write(1, seq, seq - 1, first, 3)).unwrap();
        if seq % 30 == 0 {
            rig.drain(group);
        }
    }
    rig.drain(group);
}

/// Goal: a view tells marks as the present does, with their checksums. Method: marks that come with a copy, a snapshot of them, a write over one; in the
/// log and destaged, and the same brought as history.
#[test]
fn a_view_tells_of_marks() {
    let rig = Rig::new(97, 12);
    let mut group = open(&rig, Needs::ALL);
    rig.append(&group, create(1, 200, 0)).unwrap();
    rig.append(&group, copy(1, 2, 1, 2, vec![run_of(2, 2), marks(&[70, 71])])).unwrap();
    let (component, snapshot, range) = (ComponentId(1), SnapshotId(9), BlockRange::new(2, 4));
    let cuts = ComponentOp::Cuts { at: op(3), settled: op(2), cuts: vec![(snapshot, op(2))] };
    rig.append(&group, cuts.on(component)).unwrap();
    rig.append(&group, write(1, 4, 3, 4, 1)).unwrap();
    for round in 0..4 {
        let bad = kind(rig.run(group.read_view(component, snapshot, range)));
        assert_eq!(bad, StoreErrorKind::BadBlock { component, blocks: vec![4, 5] }, "round {round}");
        let told = rig.run(group.read_view_marked(component, snapshot, range)).expect("marks are an answer");
        let of_marks = |run: &Run| if let Run::Bad { crcs } = run { crcs.to_vec() } else { Vec::new() };
        let crcs: Vec<u32> = told.runs.iter().flat_map(of_marks).collect();
        assert_eq!(crcs, [70, 71], "round {round}");
        match round {
            0 => rig.drain(&group),
            1 => {
                let brought = (told.runs, told.data.concat().into());
                rig.run(group.fill_history(component, snapshot, range.first, brought)).unwrap();
            }
            _ => group = reopened(&rig, group),
        }
        rig.check(&group);
    }
}

fn reopened(rig: &Rig, group: Group) -> Group {
    rig.close(group);
    open(rig, Needs::ALL)
}

/// Goal: M1, M2. Method: marks come with a copy; the group is opened anew while they are in the log, destaged unsettled, settled, folded,
/// opened anew, cleaned around; then they are written, trimmed, and brought back by an undo; with the map in rows and in pages.
#[test]
fn a_mark_is_an_error_until_it_is_written() {
    for (seed, allowed) in [(91, Needs::NONE), (92, Needs::ALL)] {
        let rig = Rig::new(seed, 12);
        let group = open(&rig, allowed);
        rig.append(&group, create(1, 200, 0)).unwrap();
        rig.append(&group, write(1, 1, 0, 0, 4)).unwrap();
        assert_eq!(group.needs(), allowed.at_once(), "nothing is marked yet");
        let runs = vec![run_of(2, 2), marks(&[70, 71]), Run::Hole { blocks: 2 }, marks(&[72])];
        rig.append(&group, copy(1, 2, 1, 2, runs)).unwrap();
        assert!(group.needs().include(Needs::BAD_MARKS));
        let expected = [(4, 70), (5, 71), (8, 72)];
        assert_eq!(all_marks(&rig, &group), expected);
        assert_eq!(rig.read(&group, 1, 0, 4).unwrap(), [1, 1, 2, 2]);
        let blocks = vec![4, 5, 8];
        let error = kind(rig.read(&group, 1, 0, 10));
        assert_eq!(error, StoreErrorKind::BadBlock { component: ComponentId(1), blocks });
        let reopen = |group: Group| {
            rig.close(group);
            open(&rig, allowed)
        };
        let group = reopen(group);
        assert_eq!(all_marks(&rig, &group), expected);
        rig.drain(&group);
        let group = reopen(group);
        assert_eq!(all_marks(&rig, &group), expected, "as pending rows");
        rig.append(&group, settle(1, 2)).unwrap();
        rig.drain(&group);
        rig.check(&group);
        let mut group = reopen(group);
        write_beside(&rig, &group, 3..903);
        assert!(group.stats().counters.cleaned_segments > 0);
        rig.check(&group);
        group = reopen(group);
        assert_eq!(all_marks(&rig, &group), expected);
        assert_eq!(listed(&group), [4, 5, 8].into());
        assert!(group.bad_blocks().iter().all(|bad| bad.no_copy));
        rig.append(&group, write(1, 1000, 999, 4, 1)).unwrap();
        rig.append(&group, zero(1, 1001, 1000, 8, 1)).unwrap();
        rig.append(&group, write(1, 1002, 1001, 5, 1)).unwrap();
        assert_eq!(group.scrub_state().awaiting_blocks, 3, "what was changed is to be read");
        rig.append(&group, undo(1, 1002)).unwrap();
        assert_eq!(all_marks(&rig, &group), [(5, 71)]);
        assert_eq!(look_again(&rig, &group), [5].into());
        rig.drain(&group);
        let group = reopen(group);
        assert_eq!(all_marks(&rig, &group), [(5, 71)]);
        assert_eq!(listed(&group), [5].into());
        rig.append(&group, settle(1, 1002)).unwrap();
        rig.drain(&group);
        rig.check(&group);
        let group = reopen(group);
        assert_eq!(rig.read(&group, 1, 4, 1).unwrap(), [1000]);
        assert_eq!(rig.read(&group, 1, 8, 1).unwrap(), [0]);
    }
}

/// Where a page with these bytes stands on a device.
fn place_of(disk: &SimDisk, from: u64, tag: u64) -> u64 {
    let expected = data(tag, 1);
    let is_it = |at: &u64| disk.peek(*at, PAGE as usize) == expected[..];
    disk.all_written(from).into_iter().rev().find(is_it).expect("it is on the device")
}

/// Goal: what destage and the cleaner cannot read becomes a mark with the checksum that it had, and is told; where marks are not known yet
/// it stays an error all the same. Method: sectors of the log, then of a segment fail before their blocks are moved.
#[test]
fn what_cannot_be_moved_becomes_a_mark() {
    for (seed, allowed) in [(93, Needs::MAP_PAGES), (94, Needs::ALL)] {
        let rig = Rig::new(seed, 12);
        let group = open(&rig, allowed);
        rig.append(&group, create(1, 200, 0)).unwrap();
        for block in 0..10 {
            rig.append(&group, write(1, 1 + block, block, block, 1)).unwrap();
        }
        let cache = rig.devices().cache;
        let at = place_of(&cache, LOG_OFFSET, 4);
        cache.inject(Fault::LatentSectorError { offset: at, len_bytes: PAGE });
        rig.drain(&group);
        let crc = |tag: u64| crc32c(&data(tag, 1));
        assert_eq!(all_marks(&rig, &group), [(3, crc(4))]);
        let known = allowed.include(Needs::BAD_MARKS);
        assert_eq!(group.needs().include(Needs::BAD_MARKS), known);
        let capacity = rig.devices().capacity;
        let holder = capacity.iter().find(|disk| {
            let expected = data(7, 1);
            disk.all_written(SEGMENTS_OFFSET).into_iter().any(|at| disk.peek(at, PAGE as usize) == expected[..])
        });
        let holder = holder.expect("it was destaged");
        let at = place_of(holder, SEGMENTS_OFFSET, 7);
        holder.inject(Fault::LatentSectorError { offset: at, len_bytes: PAGE });
        let before = group.stats().counters.cleaned_segments;
        // All that stands beside it is written over, until its segment is cleaned.
        write_beside(&rig, &group, 11..1811);
        assert!(group.stats().counters.cleaned_segments > before);
        holder.heal();
        cache.heal();
        let expected = [(3, crc(4)), (6, crc(7))];
        // Memory may have had the block's bytes until now.
        rig.close(group);
        let group = open(&rig, allowed);
        // A place that was not cleaned may be read again: nothing was given up then (M3).
        let still = if rig.read(&group, 1, 6, 1).is_ok() { &expected[..1] } else { &expected };
        assert_eq!(all_marks(&rig, &group), still);
        if known {
            rig.check(&group);
            assert_eq!(look_again(&rig, &group), still.iter().map(|(block, _)| *block).collect());
        }
    }
}
