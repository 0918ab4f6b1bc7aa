//! Rows: data and parity of one component, with the row checks of parity, wherever they stand.

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn_format::block_crcs;
use cairn_store::{DiskGroup, Needs, OpenOptions, StoreErrorKind};
use cairn_types::{
    BLOCK_BYTES, BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, Contents, OpId, Run, UnsettledOp,
};
use futures::future::join_all;

use crate::support::{Group, Rig, copy, create, data, kind, op, open_options, settle, undo, write};

/// Blocks of a strip: every third one is parity.
const STRIP: u64 = 2;
/// Of the set that the component is in.
const MEMBERS: u16 = 0b10_0101;

fn is_parity(block: u64) -> bool {
    block / STRIP % 3 == 2
}

/// What parity that an operation wrote says of its row.
fn check_of(seq: u64, block: u64) -> u32 {
    (seq as u32) << 16 | block as u32 | 1 << 31
}

/// Data and parity of an operation, as they lie.
fn runs(seq: u64, range: BlockRange) -> Vec<Run> {
    let crc = block_crcs(&data(seq, 1))[0];
    let blocks: Vec<u64> = (range.first..range.end()).collect();
    let run = |some: &[u64]| {
        let crcs = some.iter().map(|_| crc).collect();
        match is_parity(some[0]) {
            true => Run::Parity { crcs, row_checks: some.iter().map(|block| check_of(seq, *block)).collect() },
            false => Run::Data { crcs },
        }
    };
    blocks.chunk_by(|a, b| is_parity(*a) == is_parity(*b)).map(run).collect()
}

fn apply(seq: u64, settled: u64, blocks: BlockOp, data: Bytes) -> Change {
    let client = ClientTag { session: 7, number: seq };
    let op = ComponentOp::Apply { op: op(seq), settled: op(settled), client, blocks };
    Change::Component { component: ComponentId(1), op, data }
}

fn rows_for(members: u16, seq: u64, settled: u64, first: u64, count: u32) -> Change {
    let runs = runs(seq, BlockRange::new(first, count));
    apply(seq, settled, BlockOp::Rows { members, first_block: first, runs }, data(seq, count))
}

fn rows(seq: u64, settled: u64, first: u64, count: u32) -> Change {
    rows_for(MEMBERS, seq, settled, first, count)
}

fn zero_rows(seq: u64, settled: u64, first: u64, count: u32, keep_allocated: bool) -> Change {
    let range = BlockRange::new(first, count);
    apply(seq, settled, BlockOp::ZeroRows { members: MEMBERS, range, keep_allocated }, Bytes::new())
}

/// Each block of an answer: what it was filled with, and its row check; 0 for data and for holes.
fn told(contents: Contents) -> Vec<(u64, u32)> {
    let bytes = contents.data.concat();
    let mut words = bytes.chunks(BLOCK_BYTES as usize).map(|b| u64::from_le_bytes(b[..8].try_into().unwrap()));
    let mut told = Vec::new();
    for run in &contents.runs {
        for at in 0..run.blocks() as usize {
            told.push(match run {
                Run::Data { .. } => (words.next().unwrap(), 0),
                Run::Parity { row_checks, .. } => (words.next().unwrap(), row_checks[at]),
                Run::Hole { .. } => (0, 0),
                Run::Bad { .. } => panic!("a mark"),
            });
        }
    }
    assert_eq!(words.next(), None);
    told
}

fn read(rig: &Rig, group: &Group, first: u64, count: u32) -> Vec<(u64, u32)> {
    let contents = rig.run(group.read(ComponentId(1), BlockRange::new(first, count))).expect("it reads");
    assert!(contents.is_whole(count));
    told(contents)
}

/// What an operation leaves in its blocks.
fn of(seq: u64, blocks: impl Iterator<Item = u64>) -> Vec<(u64, u32)> {
    blocks.map(|block| (seq, if is_parity(block) { check_of(seq, block) } else { 0 })).collect()
}

fn open(rig: &Rig, allowed: Needs) -> Group {
    let options = OpenOptions { allowed, map_waiting_blocks: Some(12), map_page_leaves_max: 2, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { DiskGroup::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

fn reopen(rig: &Rig, group: Group) -> Group {
    rig.close(group);
    open(rig, Needs::NONE)
}

fn window(group: &Group) -> Vec<(OpId, u16)> {
    group.window(ComponentId(1)).iter().map(|UnsettledOp { op, members, .. }| (*op, *members)).collect()
}

/// Goal: parity keeps its row checks, and operations the members that they concern, wherever they stand. Method: whole rows are written,
/// then a part is written over; the same is asked while all of it is in the log, after a replay, as pending rows, after opening with those,
/// in the map, from pages of it, and after an undo.
#[test]
fn rows_keep_their_checks_and_members_wherever_they_stand() {
    let rig = Rig::new(121, 64);
    let mut group = open(&rig, Needs::ALL);
    rig.append(&group, create(1, 400, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 200, 2)).unwrap();
    assert!(!group.needs().include(Needs::PARITY), "nothing of rows is there");
    rig.append(&group, rows(2, 1, 0, 7)).unwrap();
    assert!(group.needs().include(Needs::PARITY));
    rig.append(&group, rows_for(0b11, 3, 1, 3, 3)).unwrap();
    let first = [of(2, 0..3), of(3, 3..6), of(2, 6..7)].concat();
    for step in 0..5 {
        assert_eq!(read(&rig, &group, 0, 7), first, "step {step}");
        // Once more, now from memory.
        assert_eq!(read(&rig, &group, 3, 2), of(3, 3..5), "step {step}");
        assert_eq!(window(&group), [(op(2), MEMBERS), (op(3), 0b11)], "step {step}");
        rig.check(&group);
        match step {
            1 => rig.drain(&group),
            _ => group = reopen(&rig, group),
        }
    }
    rig.append(&group, undo(1, 3)).unwrap();
    assert_eq!(read(&rig, &group, 0, 7), of(2, 0..7));
    rig.append(&group, settle(1, 2)).unwrap();
    assert_eq!(window(&group), []);
    rig.drain(&group);
    for _ in 0..2 {
        rig.check(&group);
        assert_eq!(read(&rig, &group, 0, 7), of(2, 0..7));
        group = reopen(&rig, group);
    }
    assert!(group.stats().counters.map_pages_read + group.stats().map_waiting_blocks > 0);
}

/// Goal: zeroes and trims of rows take parity and its checks away, at once and in the map, and come back as nothing else does.
#[test]
fn zeroes_of_rows_leave_no_check() {
    let rig = Rig::new(122, 64);
    let mut group = open(&rig, Needs::ALL);
    rig.append(&group, create(1, 400, 0)).unwrap();
    rig.append(&group, rows(1, 0, 0, 7)).unwrap();
    rig.append(&group, rows(2, 0, 7, 7)).unwrap();
    rig.append(&group, settle(1, 2)).unwrap();
    rig.drain(&group);
    rig.append(&group, zero_rows(3, 2, 4, 2, false)).unwrap();
    rig.append(&group, zero_rows(4, 2, 9, 3, true)).unwrap();
    let zeroes = |blocks| vec![(0, 0); blocks];
    let zeroed = [of(1, 0..4), zeroes(2), of(1, 6..7), of(2, 7..9), zeroes(3), of(2, 12..14)].concat();
    for step in 0..4 {
        assert_eq!(read(&rig, &group, 0, 14), zeroed, "step {step}");
        assert_eq!(window(&group), [(op(3), MEMBERS), (op(4), MEMBERS)], "step {step}");
        rig.check(&group);
        match step {
            1 => rig.drain(&group),
            _ => group = reopen(&rig, group),
        }
    }
    rig.append(&group, settle(1, 4)).unwrap();
    rig.drain(&group);
    rig.check(&group);
    assert_eq!(group.component(ComponentId(1)).unwrap().allocated_blocks, 12);
    rig.append(&group, rows(5, 4, 3, 7)).unwrap();
    let group = reopen(&rig, group);
    assert_eq!(read(&rig, &group, 0, 14), [of(1, 0..3), of(5, 3..10), zeroes(2), of(2, 12..14)].concat());
}

/// Goal: the cleaner, the fold and late settling carry checks along. Method: many operations over few blocks, a part of them undone, until
/// segments are cleaned while some operations are pending; a plain list beside it.
#[test]
fn cleaning_moves_parity_with_its_checks() {
    let rig = Rig::new(123, 12);
    let mut group = open(&rig, Needs::ALL);
    rig.append(&group, create(1, 96, 0)).unwrap();
    let mut model: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
    let mut cleaned = 0;
    for seq in 1..1500u64 {
        let first = rig.world.random_below(92);
        rig.append(&group, rows(seq, seq.saturating_sub(4), first, 4)).unwrap();
        if seq % 7 == 3 {
            rig.append(&group, undo(1, seq)).unwrap();
        } else {
            model.extend((first..first + 4).zip(of(seq, first..first + 4)));
        }
        if seq % 40 == 0 {
            rig.drain(&group);
        }
        if seq % 400 == 0 {
            rig.check(&group);
            cleaned += group.stats().counters.cleaned_segments;
            group = reopen(&rig, group);
            let expected: Vec<_> = (0..96).map(|block| model.get(&block).copied().unwrap_or((0, 0))).collect();
            assert_eq!(read(&rig, &group, 0, 96), expected, "after {seq}");
        }
    }
    assert!(cleaned > 3, "{cleaned} segments were cleaned");
}

/// Goal: a member that is filled keeps what parity says, past the log and through it. Method: copies of data, parity and holes, large and
/// small; they concern nobody but this component.
#[test]
fn copies_bring_parity_past_the_log_and_through_it() {
    let rig = Rig::with_log(124, 64, 1 << 20);
    let mut group = open(&rig, Needs::ALL);
    rig.append(&group, create(1, 1000, 0)).unwrap();
    let with_hole = |seq, range| {
        let mut runs = runs(seq, range);
        runs.push(Run::Hole { blocks: 3 });
        runs
    };
    rig.append(&group, copy(1, 1, 0, 4, with_hole(1, BlockRange::new(4, 6)))).unwrap();
    let past = group.stats().counters.capacity_write_resync_bytes;
    assert!(past >= 6 * 4096 && group.needs().include(Needs::PARITY));
    rig.append(&group, copy(1, 2, 0, 34, with_hole(2, BlockRange::new(34, 2)))).unwrap();
    assert_eq!(group.stats().counters.capacity_write_resync_bytes, past, "through the log");
    let expected = [of(1, 4..10), vec![(0, 0); 24], of(2, 34..36), vec![(0, 0); 3]].concat();
    for step in 0..6 {
        assert_eq!(read(&rig, &group, 4, 35), expected, "step {step}");
        rig.check(&group);
        match step {
            1 | 4 => rig.drain(&group),
            3 => rig.append(&group, settle(1, 2)).unwrap(),
            _ => group = reopen(&rig, group),
        }
        assert!(window(&group).iter().all(|(_, members)| *members == 0));
    }
    assert_eq!(group.last_written_with(ComponentId(1)), [], "nothing came as a write");
}

/// Goal: what is told of the last writes by member is told of settled writes alone, each by those that it concerned.
#[test]
fn the_last_write_is_known_by_member() {
    let rig = Rig::new(125, 64);
    let group = open(&rig, Needs::ALL);
    let id = ComponentId(1);
    rig.append(&group, create(1, 400, 0)).unwrap();
    assert_eq!(group.last_written_with(id), []);
    rig.append(&group, write(1, 1, 0, 0, 1)).unwrap();
    rig.append(&group, rows_for(0b101, 2, 1, 0, 6)).unwrap();
    assert_eq!((group.last_written(id), group.last_written_with(id)), (op(1), vec![]), "the second is not settled");
    rig.append(&group, rows_for(0b110, 3, 2, 12, 6)).unwrap();
    assert_eq!(group.last_written_with(id), [op(2), OpId::ZERO, op(2)]);
    rig.append(&group, rows_for(0b1001, 4, 2, 24, 6)).unwrap();
    rig.append(&group, undo(1, 4)).unwrap();
    rig.append(&group, zero_rows(5, 2, 0, 2, false)).unwrap();
    rig.append(&group, settle(1, 5)).unwrap();
    let last = [op(5), op(3), op(5), OpId::ZERO, OpId::ZERO, op(5)];
    assert_eq!((group.last_written(id), group.last_written_with(id)), (op(5), last.to_vec()));
    let group = reopen(&rig, group);
    assert_eq!(group.last_written_with(id), last, "as far as the log tells");
}

#[test]
fn an_operation_below_one_that_is_there_is_late() {
    let rig = Rig::new(126, 64);
    let group = open(&rig, Needs::ALL);
    let id = ComponentId(1);
    rig.append(&group, create(1, 400, 0)).unwrap();
    rig.append(&group, rows(5, 1, 8, 4)).unwrap();
    rig.append(&group, copy(1, 7, 1, 20, vec![Run::Hole { blocks: 2 }, runs(7, BlockRange::new(32, 1)).remove(0)]))
        .unwrap();
    let late = |seq, first, count| group.is_late(id, op(seq), BlockRange::new(first, count));
    assert!(late(4, 0, 9) && late(4, 11, 1) && !late(5, 8, 4) && !late(4, 0, 8) && !late(4, 12, 8));
    assert!(late(6, 21, 1) && late(5, 22, 1) && !late(7, 20, 3));
    assert!(!group.is_late(ComponentId(9), op(1), BlockRange::new(0, 1)));
    rig.append(&group, undo(1, 7)).unwrap();
    assert!(!late(5, 20, 3));
}

/// Goal: what cannot be is refused in words, and changes nothing.
#[test]
fn rows_that_cannot_be_are_refused() {
    let rig = Rig::new(127, 64);
    let group = open(&rig, Needs::ALL);
    rig.append(&group, create(1, 100, 0)).unwrap();
    let told = |blocks: BlockOp, data: Bytes| {
        let error = rig.append(&group, apply(1, 0, blocks, data)).expect_err("it is refused");
        assert_eq!(error.kind, StoreErrorKind::Refused, "{error}");
        error.text
    };
    let rows_of = |members, runs| BlockOp::Rows { members, first_block: 8, runs };
    let whole = BlockRange::new(8, 1);
    let lacking = Run::Parity { crcs: block_crcs(&data(1, 1)), row_checks: Default::default() };
    for (blocks, has, word) in [
        (rows_of(0, runs(1, whole)), 1, "no member"),
        (rows_of(1, vec![]), 0, "nothing"),
        (rows_of(1, runs(1, whole)), 2, "checksums"),
        (rows_of(1, vec![Run::Hole { blocks: 1 }]), 0, "holes"),
        (rows_of(1, vec![lacking.clone()]), 1, "0 row checks for 1 blocks"),
        (BlockOp::Copy { first_block: 8, runs: vec![lacking] }, 1, "0 row checks for 1 blocks"),
        (BlockOp::Rows { members: 1, first_block: 99, runs: runs(1, BlockRange::new(99, 2)) }, 2, "not within"),
        (BlockOp::ZeroRows { members: 0, range: whole, keep_allocated: false }, 0, "no member"),
        (BlockOp::ZeroRows { members: 1, range: whole, keep_allocated: false }, 1, "checksums"),
    ] {
        let text = told(blocks, data(1, has));
        assert!(text.contains(word), "{text}");
    }
    let crcs = block_crcs(&data(1, 1));
    let difference = BlockOp::Difference(Box::new(cairn_types::Difference {
        members: 1,
        first_block: 0,
        column: 0,
        factor: 1,
        old: crcs.clone(),
        new: crcs,
    }));
    assert!(told(difference, data(1, 1)).contains("seat"));
    rig.append(&group, undo(1, 2)).unwrap();
    assert_eq!(kind(rig.append(&group, rows(2, 0, 0, 7))), StoreErrorKind::Undone);
    assert_eq!((group.window(ComponentId(1)), group.needs()), (vec![], Needs::MAP_PAGES));
    assert_eq!(read(&rig, &group, 0, 100), vec![(0, 0); 100]);
}

/// Goal: parity waits for the map to be in pages, and the refusal says so; then it goes, over leaves that an earlier release wrote.
#[test]
fn parity_comes_once_the_map_is_in_pages() {
    let rig = Rig::new(128, 64);
    let group = open(&rig, Needs::NONE);
    rig.append(&group, create(1, 400, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 0, 7)).unwrap();
    rig.append(&group, settle(1, 1)).unwrap();
    rig.drain(&group);
    let error = rig.append(&group, rows(2, 1, 2, 4)).unwrap_err();
    assert!(error.kind == StoreErrorKind::Refused && error.text.contains("in pages"), "{error}");
    assert!(rig.append(&group, zero_rows(2, 1, 4, 1, false)).is_err());
    let parity = copy(1, 2, 1, 10, runs(2, BlockRange::new(10, 1)));
    assert_eq!(kind(rig.append(&group, parity)), StoreErrorKind::Refused);
    assert_eq!(group.needs(), Needs::NONE);
    group.allow(Needs::ALL);
    rig.drain(&group);
    rig.append(&group, rows(2, 1, 2, 4)).unwrap();
    let expected = [vec![(1, 0); 2], of(2, 2..6), vec![(1, 0); 1]].concat();
    let mut group = group;
    for step in 0..4 {
        assert_eq!(read(&rig, &group, 0, 7), expected, "step {step}");
        rig.check(&group);
        match step {
            0 => group = reopen(&rig, group),
            1 => rig.append(&group, settle(1, 2)).unwrap(),
            _ => rig.drain(&group),
        }
    }
    let group = reopen(&rig, group);
    assert_eq!(read(&rig, &group, 0, 7), expected);
}

/// Goal: a promise is not followed by rows that were queued before it; what goes past the log is no exception.
#[test]
fn rows_that_wait_are_refused_at_a_promise() {
    let rig = Rig::new(129, 64);
    let group = open(&rig, Needs::ALL);
    rig.append(&group, create(1, 400, 0)).unwrap();
    let large = copy(1, 3, 0, 100, runs(3, BlockRange::new(100, 6)));
    let waiting = [group.append(rows(2, 0, 0, 7)), group.append(large)];
    group.refuse_waiting(ComponentId(1));
    for answer in rig.run(join_all(waiting)) {
        assert_eq!(kind(answer), StoreErrorKind::Refused);
    }
    assert_eq!(window(&group), []);
    assert_eq!(read(&rig, &group, 0, 120), vec![(0, 0); 120]);
    rig.append(&group, rows(4, 0, 0, 7)).unwrap();
    rig.check(&group);
}

/// Goal: a parity block whose bytes are wrong is told as such, and as a mark it says nothing of its row.
#[test]
fn bad_parity_is_told() {
    let rig = Rig::new(130, 64);
    let group = open(&rig, Needs::ALL);
    rig.append(&group, create(1, 400, 0)).unwrap();
    rig.append(&group, rows(1, 0, 0, 7)).unwrap();
    rig.append(&group, settle(1, 1)).unwrap();
    rig.drain(&group);
    rig.append(
        &group,
        apply(2, 1, BlockOp::Copy { first_block: 4, runs: vec![Run::Bad { crcs: vec![5].into() }] }, Bytes::new()),
    )
    .unwrap();
    rig.append(&group, settle(1, 2)).unwrap();
    rig.drain(&group);
    rig.check(&group);
    let group = reopen(&rig, group);
    let error = kind(rig.run(group.read(ComponentId(1), BlockRange::new(3, 4))));
    assert_eq!(error, StoreErrorKind::BadBlock { component: ComponentId(1), blocks: vec![4] });
    let marked = rig.run(group.read_marked(ComponentId(1), BlockRange::new(3, 4))).unwrap();
    assert_eq!(marked.runs[1], Run::Bad { crcs: vec![5].into() });
    let checks: Vec<u32> = marked
        .runs
        .iter()
        .flat_map(|run| match run {
            Run::Parity { row_checks, .. } => row_checks.to_vec(),
            _ => vec![],
        })
        .collect();
    assert_eq!(checks, [check_of(1, 5)]);
}

/// Goal: what a small write to rows brought is in memory when the next write to its row asks for it, and never in the place of what stands
/// there. Method: a block of data and one of parity are written, read, written over, and that is undone; where reads came from is counted.
#[test]
fn small_writes_to_rows_are_read_from_memory() {
    let rig = Rig::new(131, 64);
    let group = open(&rig, Needs::ALL);
    rig.append(&group, create(1, 400, 0)).unwrap();
    let from = |group: &Group| {
        let counters = group.stats().counters;
        (counters.read_cache_bytes, counters.read_log_bytes)
    };
    let block = u64::from(BLOCK_BYTES);
    for at in [0, 2 * STRIP] {
        let before = from(&group);
        rig.append(&group, rows(at + 1, 0, at, 1)).unwrap();
        assert_eq!(read(&rig, &group, at, 1), of(at + 1, at..at + 1));
        assert_eq!(from(&group), (before.0 + block, before.1), "block {at}");
    }
    rig.append(&group, rows(9, 0, 0, 1)).unwrap();
    assert_eq!(read(&rig, &group, 0, 1), of(9, 0..1));
    let before = from(&group);
    rig.append(&group, undo(1, 9)).unwrap();
    assert_eq!(read(&rig, &group, 0, 1), of(1, 0..1));
    assert_eq!(from(&group), (before.0, before.1 + block), "what it had replaced is in the log");
}
