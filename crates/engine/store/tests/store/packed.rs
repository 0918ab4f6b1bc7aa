//! Packed blocks: they read as they were written, take less space, are cleaned, checked and repaired as others, and a full group stays one.

use std::collections::BTreeMap;

use cairn_format::block_crcs;
use cairn_sim::{Fault, SimDisk};
use cairn_store::{Choice, DiskGroup, Needs, OpenOptions, StoreErrorKind, StoreStats};
use cairn_types::{
    BLOCK_BYTES, BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, Contents, Run, SnapshotId,
};

use crate::support::{
    Group, Rig, SEGMENTS_OFFSET, apply, copy, create, delete, kind, op, open_options, settle, undo, zero,
};

const BLOCK: usize = BLOCK_BYTES as usize;
const ID: ComponentId = ComponentId(1);
/// Blocks of the component in the tests beside a model.
const BLOCKS: u64 = 200;

pub fn open(rig: &Rig, allowed: Needs) -> Group {
    let options = OpenOptions {
        allowed,
        map_waiting_blocks: Some(24),
        map_page_leaves_max: 2,
        read_cache_bytes: 64 << 10,
        map_cache_bytes: 64 << 10,
        ..open_options()
    };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { DiskGroup::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

pub fn reopen(rig: &Rig, group: Group) -> Group {
    rig.close(group);
    open(rig, Needs::ALL)
}

fn set(rig: &Rig, group: &Group, on: bool) {
    let group = group.clone();
    rig.run(async move { group.choose(Choice::packs(on)).await }).expect("it is allowed");
}

pub fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut byte = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 56) as u8
    };
    (0..BLOCK).map(|_| byte()).collect()
}

/// What a block of a tag holds: zeroes, noise, words that pack well, words that many have, noise with words behind it.
fn content(tag: u64) -> Vec<u8> {
    match tag % 8 {
        0 => vec![0; BLOCK],
        1 => noise(tag),
        2 => b"one for all of them ".iter().copied().cycle().take(BLOCK).collect(),
        3 => [&noise(tag)[..(tag % 3000) as usize], &vec![b'.'; BLOCK][..]].concat()[..BLOCK].to_vec(),
        _ => tag.to_le_bytes().repeat(BLOCK / 8),
    }
}

fn write(seq: u64, settled: u64, first_block: u64, tags: &[u64]) -> Change {
    let data: Vec<u8> = tags.iter().flat_map(|tag| content(*tag)).collect();
    let blocks = BlockOp::Write { first_block, crcs: block_crcs(&data) };
    apply(1, seq, settled, ClientTag { session: 7, number: seq }, blocks, data.into())
}

pub fn bytes_of(contents: Contents) -> Vec<Vec<u8>> {
    contents.into_bytes().concat().chunks_exact(BLOCK).map(<[u8]>::to_vec).collect()
}

fn read(rig: &Rig, group: &Group, first: u64, count: u32) -> Vec<Vec<u8>> {
    bytes_of(rig.run(group.read(ID, BlockRange::new(first, count))).expect("all is sound"))
}

/// The blocks as the model has them: by tag; none is a hole.
type Model = BTreeMap<u64, u64>;

fn hold(model: &mut Model, block: u64, tag: u64) {
    model.insert(block, tag);
}

fn forget(model: &mut Model, block: u64) {
    model.remove(&block);
}

fn expected(model: &Model) -> Vec<Vec<u8>> {
    (0..BLOCKS).map(|block| model.get(&block).map_or_else(|| vec![0; BLOCK], |tag| content(*tag))).collect()
}

pub fn clear_caches(rig: &Rig, group: &Group) {
    let group = group.clone();
    rig.run(async move { group.clear_caches(std::time::Duration::from_secs(60)).await }).expect("it is open");
}

/// Live bytes of all capacity devices.
pub fn live(stats: &StoreStats) -> u64 {
    stats.capacity.iter().map(|device| device.live_bytes).sum()
}

/// Goal: whatever is packed when, reads are what was written, now and at each snapshot, and all is counted (D1, D3, D4). Method: beside a model: writes of
/// contents of all kinds, trims, undone writes, snapshots that come and go, copies; compression goes on and off; drains, cleaning, lost caches, restarts.
#[test]
fn reads_are_what_was_written_whatever_is_packed() {
    for seed in [301, 302, 303] {
        let rig = Rig::new(seed, 20);
        let mut group = open(&rig, Needs::ALL);
        rig.append(&group, create(1, BLOCKS, 0)).unwrap();
        let (mut model, mut views): (Model, Vec<(SnapshotId, u64, Model)>) = Default::default();
        let (mut packed, mut cleaned, mut full) = (0, 0, 0);
        for seq in (1..=1200u64).map(|n| n * 2) {
            let below = |most: u64| rig.world.random_below(most);
            let (first, count) = (below(BLOCKS - 8), 1 + below(4));
            match below(40) {
                0 => {
                    let count = (count * 4).min(BLOCKS - first);
                    rig.append(&group, zero(1, seq, seq - 1, first, count as u32))
                        .map(|()| (first..first + count).for_each(|block| forget(&mut model, block)))
                }
                1 => {
                    let tags: Vec<u64> = (0..count).map(|at| seq * 8 + at).collect();
                    rig.append(&group, write(seq, seq - 1, first, &tags))
                        .and_then(|()| rig.append(&group, undo(1, seq)))
                }
                2 if views.len() < 3 => {
                    views.push((SnapshotId(seq), seq - 1, model.clone()));
                    cut(&rig, &group, seq, &views)
                }
                3 if !views.is_empty() => {
                    views.remove(below(views.len() as u64) as usize);
                    cut(&rig, &group, seq, &views)
                }
                4 => {
                    set(&rig, &group, seq % 3 != 0);
                    Ok(())
                }
                5 => {
                    rig.drain(&group);
                    rig.check(&group);
                    clear_caches(&rig, &group);
                    Ok(())
                }
                6 if below(3) == 0 => {
                    let stats = group.stats();
                    (packed, cleaned) =
                        (packed + stats.counters.packed_blocks, cleaned + stats.counters.cleaned_segments);
                    group = reopen(&rig, group);
                    Ok(())
                }
                7 if views.is_empty() => {
                    // A large copy goes past the log, or is packed.
                    let data = crate::support::data(seq, 5);
                    let run = Run::Data { crcs: block_crcs(&data) };
                    let copied = rig.append(&group, copy(1, seq, seq - 1, first, vec![run]));
                    copied.map(|()| (first..first + 5).for_each(|block| hold(&mut model, block, seq << 32)))
                }
                _ => {
                    let tags: Vec<u64> = (0..count).map(|at| seq * 8 + below(8) + at).collect();
                    let written = rig.append(&group, write(seq, seq - 1, first, &tags));
                    written.map(|()| (first..).zip(tags).for_each(|(block, tag)| hold(&mut model, block, tag)))
                }
            }
            .unwrap_or_else(|error| {
                assert_eq!(error.kind, StoreErrorKind::NoSpace, "{error}");
                full += 1;
            });
            if seq % 50 == 0 {
                let (found, all) = (read(&rig, &group, 0, BLOCKS as u32), expected_with_copies(&model));
                assert!(found == all, "seed {seed}, operation {seq}");
                for (snapshot, _, then) in &views {
                    let view = rig.run(group.read_view(ID, *snapshot, BlockRange::new(0, BLOCKS as u32)));
                    assert!(bytes_of(view.expect("it is there")) == expected_with_copies(then), "{seq}, {snapshot:?}");
                }
            }
        }
        rig.drain(&group);
        rig.check(&group);
        let stats = group.stats();
        (packed, cleaned) = (packed + stats.counters.packed_blocks, cleaned + stats.counters.cleaned_segments);
        println!("seed {seed}: {packed} blocks packed, {cleaned} segments cleaned, {full} operations found no room");
        assert!(packed > 300 && cleaned > 10 && full < 200, "{packed} {cleaned} {full}");
        group = reopen(&rig, group);
        assert!(read(&rig, &group, 0, BLOCKS as u32) == expected_with_copies(&model));
        rig.append(&group, delete(1)).unwrap();
        rig.drain(&group);
        rig.check(&group);
        assert_eq!(live(&group.stats()), 0);
    }
}

/// What copies brought has a tag of its own.
fn expected_with_copies(model: &Model) -> Vec<Vec<u8>> {
    let mut blocks =
        expected(&model.iter().filter(|(_, tag)| **tag < 1 << 32).map(|(block, tag)| (*block, *tag)).collect());
    for (block, tag) in model.iter().filter(|(_, tag)| **tag >= 1 << 32) {
        blocks[*block as usize] = crate::support::data(tag >> 32, 1).to_vec();
    }
    blocks
}

fn cut(rig: &Rig, group: &Group, seq: u64, views: &[(SnapshotId, u64, Model)]) -> Result<(), cairn_store::StoreError> {
    let cuts = views.iter().map(|(snapshot, settled, _)| (*snapshot, op(*settled))).collect();
    rig.append(group, ComponentOp::Cuts { at: op(seq), settled: op(seq - 1), cuts }.on(ID))
}

/// Goal: a group is what it was until somebody wants otherwise, and what was chosen holds. Method: without leave; with it; over restarts, also of a build
/// that may not need it any more.
#[test]
fn compression_is_off_until_it_is_chosen_and_holds() {
    let rig = Rig::new(310, 16);
    let group = open(&rig, Needs::MAP_PAGES.with(Needs::BAD_MARKS));
    let refused = rig.run({
        let group = group.clone();
        async move { group.choose(Choice::packs(true)).await }
    });
    assert_eq!(kind(refused), StoreErrorKind::Refused);
    rig.append(&group, create(1, BLOCKS, 0)).unwrap();
    rig.append(&group, write(1, 0, 0, &[4, 12, 20, 28])).unwrap();
    rig.drain(&group);
    assert!(!group.needs().include(Needs::SPOTS) && live(&group.stats()) == 4 * 4096);
    let group = reopen(&rig, group);
    assert!(!group.compression());
    set(&rig, &group, true);
    assert!(group.needs().include(Needs::SPOTS));
    rig.append(&group, write(2, 1, 4, &[4, 12, 8, 9])).unwrap();
    rig.drain(&group);
    // Words that pack take a sector each, zeroes nothing, noise a page.
    assert_eq!(live(&group.stats()), 4 * 4096 + 2 * 512 + 4096);
    rig.close(group);
    let group = open(&rig, Needs::NONE);
    assert!(group.compression() && group.needs().include(Needs::SPOTS));
    assert_eq!(read(&rig, &group, 0, 8), [4, 12, 20, 28, 4, 12, 8, 9].map(content));
    set(&rig, &group, false);
    let group = reopen(&rig, group);
    assert!(!group.compression());
    rig.append(&group, write(3, 2, 4, &[4, 12])).unwrap();
    rig.append(&group, settle(1, 3)).unwrap();
    rig.drain(&group);
    assert_eq!(live(&group.stats()), 7 * 4096);
    rig.check(&group);
}

/// Where the packed block of a tag stands: words that pack to a sector.
fn packed_place(rig: &Rig, tag: u64) -> (SimDisk, u64) {
    let word = tag.to_le_bytes();
    let holds = |disk: &SimDisk, at: &u64| {
        let sector = disk.peek(*at, 512);
        // Behind the length and a token come the first bytes as they are.
        sector[1] >> 4 == 1 && sector[3..6] == word[..3]
    };
    let found = rig.devices().capacity.into_iter().find_map(|disk| {
        let mut sectors =
            disk.all_written(SEGMENTS_OFFSET).into_iter().flat_map(|page| (0..8).map(move |n| page + n * 512));
        let at = sectors.find(|at| holds(&disk, at))?;
        Some((disk, at))
    });
    found.expect("it was packed")
}

/// Goal: a packed block whose bytes are bad is a bad block as any other: reads and views say so, its neighbours read, scrub finds it, a write heals it, the
/// cleaner carries it on as it is or as a mark. Method: flipped bits and a sector that cannot be read.
#[test]
fn a_damaged_packed_block_is_a_bad_block() {
    for (seed, unreadable) in [(320, false), (321, true)] {
        let rig = Rig::new(seed, 16);
        let group = open(&rig, Needs::ALL);
        rig.append(&group, create(1, BLOCKS, 0)).unwrap();
        set(&rig, &group, true);
        let tags: Vec<u64> = (0..12).map(|n| 1_000_004 + n * 8).collect();
        for (n, some) in (0u64..).zip(tags.chunks(4)) {
            rig.append(&group, write(1 + n, n, 10 + n * 4, some)).unwrap();
        }
        rig.drain(&group);
        clear_caches(&rig, &group);
        let (disk, at) = packed_place(&rig, tags[5]);
        let range = BlockRange::new(10, 12);
        match unreadable {
            true => disk.inject(Fault::LatentSectorError { offset: at, len_bytes: 512 }),
            false => (0..3).for_each(|n| disk.inject(Fault::BitFlip { offset: at + 5 + n, bit: 3 })),
        }
        let bad = rig.run(group.read(ID, range)).expect_err("it is bad");
        let StoreErrorKind::BadBlock { blocks, .. } = bad.kind else { panic!("{bad}") };
        // A page that cannot be read has several.
        assert!(blocks.contains(&15) && blocks.len() <= if unreadable { 12 } else { 1 }, "{blocks:?}");
        for block in (10..22).filter(|block| !blocks.contains(block)) {
            assert_eq!(read(&rig, &group, block, 1), [content(tags[block as usize - 10])]);
        }
        let found = scrubbed(&rig, &group);
        assert_eq!(found, blocks);
        // The blocks beside it go, so that its segment is cleaned.
        for seq in 4..62 {
            rig.append(&group, write(seq, seq - 1, 30 + seq % 100, &[seq * 8 + 1, seq * 8 + 9, seq * 8 + 17])).unwrap();
        }
        rig.drain(&group);
        let still = rig.run(group.read(ID, BlockRange::new(15, 1)));
        assert_eq!(kind(still), StoreErrorKind::BadBlock { component: ID, blocks: vec![15] });
        for (n, block) in (0u64..).zip(&blocks) {
            rig.append(&group, write(100 + n, 99 + n, *block, &[tags[*block as usize - 10]])).unwrap();
        }
        rig.append(&group, settle(1, 99 + blocks.len() as u64)).unwrap();
        rig.drain(&group);
        clear_caches(&rig, &group);
        assert_eq!(read(&rig, &group, 10, 12), tags.iter().map(|tag| content(*tag)).collect::<Vec<_>>());
        assert_eq!(scrubbed(&rig, &group), Vec::<u64>::new());
        rig.check(&group);
    }
}

/// Blocks that a pass finds bad, that were not known or are.
pub fn scrubbed(rig: &Rig, group: &Group) -> Vec<u64> {
    group.scrub_begin(true);
    loop {
        let stepping = group.clone();
        if rig.run(async move { stepping.scrub_step(64 << 10).await }).pass_ended {
            break;
        }
    }
    for bad in group.bad_blocks() {
        let group = group.clone();
        rig.run(async move { group.scrub_again(bad.component, bad.range).await });
    }
    group.bad_blocks().iter().flat_map(|bad| bad.range.first..bad.range.end()).collect()
}

/// Goal: a group holds more than its room where that packs; noise over it is refused in words once it may not fit, and nothing stops or is lost; a reserved
/// disk is never refused; all of it can be emptied. Method: text to twice the room, then noise over it at random until most is refused.
#[test]
fn noise_over_text_on_a_full_group_is_refused_in_words() {
    let rig = Rig::with_log(330, 24, 256 << 10);
    let mut group = open(&rig, Needs::ALL);
    set(&rig, &group, true);
    let room = group.rooms()[0].total_bytes / 4096;
    let size = room * 3;
    rig.append(&group, create(1, size, 0)).unwrap();
    rig.append(&group, create(2, 20, 20)).unwrap();
    let device_of = |id: u128| group.component(ComponentId(id)).expect("it is here").device;
    assert_eq!((device_of(1), device_of(2)), (0, 1), "{:?}", group.rooms());
    rig.append(&group, create(3, 20, 20)).unwrap();
    let mut model = BTreeMap::new();
    let mut seq = 0;
    for first in (0..size - 4).step_by(4) {
        seq += 1;
        let tags: Vec<u64> = (0..4).map(|n| (first + n) * 8 + 4).collect();
        match rig.append(&group, write(seq, seq - 1, first, &tags)) {
            Ok(()) => (first..).zip(tags).for_each(|(block, tag)| hold(&mut model, block, tag)),
            Err(error) => {
                assert_eq!(error.kind, StoreErrorKind::NoSpace);
                break;
            }
        }
    }
    println!("{} blocks of text in room for {room}", model.len());
    assert!(model.len() as u64 > room * 3 / 2, "{} blocks in room for {room}", model.len());
    let (mut refused, mut taken) = (0, 0);
    for n in 0..600u64 {
        seq += 1;
        let first = rig.world.random_below(model.len() as u64 - 4);
        let tags: Vec<u64> = (0..4).map(|at| (seq * 4 + at) * 8 + 1).collect();
        match rig.append(&group, write(seq, seq - 1, first, &tags)) {
            Ok(()) => {
                taken += 1;
                (first..).zip(tags).for_each(|(block, tag)| hold(&mut model, block, tag));
            }
            Err(error) => {
                assert!(error.kind == StoreErrorKind::NoSpace && error.text.contains("if they do not pack"), "{error}");
                refused += 1;
            }
        }
        if n % 100 == 50 {
            rig.append(&group, settle(1, seq)).unwrap();
            rig.drain(&group);
            rig.check(&group);
            group = reopen(&rig, group);
        }
        assert!(!group.is_stopped());
    }
    println!("{taken} writes of noise taken, {refused} refused");
    assert!(refused > 100 && taken > 20, "{taken} taken, {refused} refused");
    // What is reserved always goes.
    let reserved = crate::support::write(3, 1, 0, 0, 4);
    rig.append(&group, reserved).unwrap();
    rig.drain(&group);
    rig.check(&group);
    for (block, tag) in &model {
        assert!(read(&rig, &group, *block, 1) == [content(*tag)], "block {block}");
    }
    // Trims give room, and what was refused goes then.
    rig.append(&group, zero(1, seq + 1, seq, 0, model.len() as u32 / 2)).unwrap();
    rig.append(&group, settle(1, seq + 1)).unwrap();
    rig.drain(&group);
    rig.append(&group, write(seq + 2, seq + 1, 0, &[1, 9, 17, 25])).unwrap();
    [1, 2, 3].into_iter().for_each(|id| rig.append(&group, delete(id)).unwrap());
    rig.drain(&group);
    rig.check(&group);
    assert_eq!((live(&group.stats()), group.stats().charged_bytes), (0, 0));
}
