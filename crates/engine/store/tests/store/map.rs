//! The block map in pages: what waits, what is folded, what a full or damaged metadata region costs.

use std::time::Duration;

use cairn_env::{Disk, Durability, Env, PageBuf};
use cairn_sim::Fault;
use cairn_store::{Needs, OpenOptions, StoreErrorKind};
use cairn_types::{BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp};

use crate::support::{Group, Rig, create, data, delete, kind, op, open_options, settle, write, zero};

/// Blocks of a shard of the map.
const SHARD_BLOCKS: u64 = 1 << 16;

fn open(rig: &Rig, waiting: u64, leaves_max: usize) -> Group {
    let options = OpenOptions { map_waiting_blocks: Some(waiting), map_page_leaves_max: leaves_max, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { Group::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

/// Zeroes that keep their space: entries of the map, and no data.
fn kept_zeroes(component: u128, seq: u64, first: u64, count: u32) -> Change {
    let blocks = BlockOp::Zero { range: BlockRange::new(first, count), keep_allocated: true };
    let op = ComponentOp::Apply { op: op(seq), settled: op(seq - 1), client: ClientTag::default(), blocks };
    Change::Component { component: ComponentId(component), op, data: data(0, 0) }
}

/// Goal: blocks that lie far apart, and are written again and again, read right whatever was folded when, also after an opening.
/// Method: two components of five shards, of which a few blocks each are written at random; so few entries may wait that every
/// transaction folds some; holes come and go. After some rounds all is read, checked and opened anew.
#[test]
fn shards_are_folded_and_read_back() {
    let rig = Rig::new(31, 40);
    let mut group = open(&rig, 16, 2);
    let size = 5 * SHARD_BLOCKS;
    for id in [1, 2] {
        rig.append(&group, create(id, size, 0)).unwrap();
    }
    let mut expected = std::collections::BTreeMap::new();
    for seq in 1..=1200u64 {
        let id = 1 + u128::from(rig.world.random_below(2));
        // Of each shard 16 blocks: some together, some in leaves of their own.
        let shard = rig.world.random_below(5);
        let block = shard * SHARD_BLOCKS + rig.world.random_below(4) * 9000 + rig.world.random_below(4) * 3;
        if rig.world.random_below(10) == 0 {
            rig.append(&group, zero(id, seq, seq - 1, block, 2)).unwrap();
            expected.extend((block..block + 2).map(|block| ((id, block), 0)));
        } else {
            rig.append(&group, write(id, seq, seq - 1, block, 1)).unwrap();
            expected.insert((id, block), seq);
        }
        if seq % 300 == 0 {
            [1, 2].into_iter().for_each(|id| rig.append(&group, settle(id, seq)).unwrap());
            rig.drain(&group);
            rig.check(&group);
            let counters = group.stats().counters;
            assert!(counters.map_shards_folded > 10, "{} shards were folded", counters.map_shards_folded);
            rig.close(group);
            group = open(&rig, 16, 2);
            rig.check(&group);
            for (&(id, block), &tag) in &expected {
                assert_eq!(rig.read(&group, id, block, 1), Ok(vec![tag]), "{id} block {block}");
            }
        }
    }
    // Nothing of the map is left when its components are gone, and changes of before do not bring it back.
    rig.append(&group, delete(1)).unwrap();
    rig.drain(&group);
    rig.check(&group);
    rig.append(&group, delete(2)).unwrap();
    rig.drain(&group);
    let group = rig.reopen(group);
    rig.check(&group);
    let stats = group.stats();
    assert_eq!((stats.charged_bytes, stats.map_waiting_blocks), (0, 0));
    assert!(stats.capacity.iter().all(|device| device.live_bytes == 0));
}

/// Goal: a group goes from rows to pages while it is in use, and what has not been folded yet reads as before. Method: a group as 0.2.0 has
/// it, written, allowed more, written on, each time opened anew; at no time is anything lost.
#[test]
fn a_group_of_rows_becomes_one_of_pages() {
    let rig = Rig::new(35, 40);
    let open = |allowed: Needs| {
        let options = OpenOptions { allowed, map_waiting_blocks: Some(12), map_page_leaves_max: 2, ..open_options() };
        let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
        rig.run(async move { Group::open(env, devices, expect, &options).await }).expect("a sound group opens")
    };
    let mut group = open(Needs::NONE);
    let mut expected = std::collections::BTreeMap::new();
    rig.append(&group, create(1, 5 * SHARD_BLOCKS, 0)).unwrap();
    for seq in 1..=900u64 {
        let block = rig.world.random_below(5) * SHARD_BLOCKS + rig.world.random_below(30) * 70;
        if seq % 11 == 0 {
            rig.append(&group, zero(1, seq, seq - 1, block, 2)).unwrap();
            expected.extend([(block, 0), (block + 1, 0)]);
        } else {
            rig.append(&group, write(1, seq, seq - 1, block, 1)).unwrap();
            expected.insert(block, seq);
        }
        match seq {
            200 | 600 => {
                assert_eq!(group.needs(), if seq == 200 { Needs::NONE } else { Needs::MAP_PAGES });
                rig.append(&group, settle(1, seq)).unwrap();
                rig.drain(&group);
                rig.check(&group);
                assert_eq!(group.stats().counters.map_pages_written > 0, seq == 600);
                rig.close(group);
                group = open(Needs::NONE);
                rig.check(&group);
            }
            400 => group.allow(Needs::ALL),
            _ => {}
        }
    }
    rig.drain(&group);
    rig.check(&group);
    let group = rig.reopen(group);
    for (&block, &tag) in &expected {
        assert_eq!(rig.read(&group, 1, block, 1), Ok(vec![tag]), "block {block}");
    }
    rig.append(&group, delete(1)).unwrap();
    rig.drain(&group);
    let group = rig.reopen(group);
    rig.check(&group);
    assert!(group.stats().capacity.iter().all(|device| device.live_bytes == 0));
}

/// Goal: metadata that is full refuses what adds to it, and stops nothing. Method: zeroes that keep their space, whose entries are nearly
/// all that is written, until one is refused; overwrites go on, and a trim makes room.
#[test]
fn full_metadata_refuses_new_blocks_and_nothing_else() {
    let rig = Rig::of_sizes(32, 16 << 20, 4_000, 1 << 20);
    let mut group = open(&rig, 20_000, 1024);
    let whole = SHARD_BLOCKS as u32;
    let mut seq = 0;
    let append = |group: &Group, change: Change| {
        let done = rig.append(group, change);
        rig.drain(group);
        done
    };
    // Each device has room for 15 shards, the metadata for fewer.
    let mut filled = Vec::new();
    let refused = 'fill: loop {
        for id in [1, 2] {
            let round = filled.len() as u64 / 2;
            if round == 0 {
                rig.append(&group, create(id, 20 * SHARD_BLOCKS, 0)).unwrap();
            }
            seq += 1;
            match append(&group, kept_zeroes(id, seq, round * SHARD_BLOCKS, whole)) {
                Ok(()) => filled.push((id, round)),
                Err(error) => break 'fill error,
            }
            rig.append(&group, settle(id, seq)).unwrap();
        }
    };
    assert_eq!(refused.kind, StoreErrorKind::NoSpace);
    assert!(refused.text.contains("metadata is full"), "{refused}");
    assert!(filled.len() > 4, "{filled:?}");
    let stats = group.stats();
    assert!(stats.metadata_used_bytes * 10 > stats.metadata_bytes * 8 && stats.free_bytes > stats.usable_bytes / 5);
    // Also after an opening. What has data is written over.
    rig.close(group);
    group = open(&rig, 20_000, 1024);
    seq += 1;
    let error = rig.append(&group, write(1, seq, seq - 1, 20 * SHARD_BLOCKS - 1, 1)).expect_err("it is still full");
    assert!(error.text.contains("metadata is full"), "{error}");
    for round in 0..40 {
        seq += 1;
        append(&group, write(1, seq, seq - 1, round * 1000, 3)).unwrap();
    }
    rig.check(&group);
    // What goes makes room.
    seq += 1;
    append(&group, zero(1, seq, seq - 1, 0, 2 * whole)).unwrap();
    rig.append(&group, settle(1, seq)).unwrap();
    for id in [2, 1] {
        seq += 1;
        rig.append(&group, settle(id, seq)).unwrap();
        rig.drain(&group);
    }
    seq += 1;
    append(&group, write(1, seq, seq - 1, 20 * SHARD_BLOCKS - 1, 1)).unwrap();
    rig.check(&group);
}

/// Pages of the map on the cache device that are of the leaf with this first block: where they stand, the newest last.
fn pages_of(rig: &Rig, first: u16) -> Vec<u64> {
    let cache = rig.host.disk("cache");
    let pages = (0..cache.len_bytes()).step_by(4096).filter(|at| cache.peek(*at, 8) == *b"CAIRNMP1");
    let mut found: Vec<u64> = pages.filter(|at| cache.peek(at + 40, 2) == first.to_le_bytes()).collect();
    found.sort_by_key(|at| u64::from_le_bytes(cache.peek(at + 32, 8).try_into().unwrap()));
    found
}

/// Settles and destages all, then goes on until nothing of it waits.
fn fold_all(rig: &Rig, group: &Group, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        rig.append(group, write(1, seq, seq - 1, 700, 1)).unwrap();
        rig.append(group, settle(1, seq)).unwrap();
        rig.drain(group);
    }
}

/// Goal: a page of another time is not believed, though its checksum is right: a write that never reached the device leaves what stood
/// there before. Method: a block is written and folded twice; then the earlier page stands in the place of the later one.
#[test]
fn a_page_of_another_time_is_not_believed() {
    let rig = Rig::new(34, 40);
    let group = open(&rig, 4, 1);
    rig.append(&group, create(1, 1000, 0)).unwrap();
    for (seq, rest) in [(1, 2..=20), (21, 22..=40)] {
        rig.append(&group, write(1, seq, seq - 1, 192, 1)).unwrap();
        fold_all(&rig, &group, rest);
    }
    assert_eq!(rig.read(&group, 1, 192, 1), Ok(vec![21]));
    rig.close(group);
    let pages = pages_of(&rig, 192);
    let [.., earlier, later] = pages[..] else { panic!("two pages are there, not {pages:?}") };
    let cache = rig.host.disk("cache");
    cache.poke(later, &cache.peek(earlier, 4096));
    let group = open(&rig, 4, 1);
    assert!(matches!(kind(rig.read(&group, 1, 192, 1)), StoreErrorKind::BadBlock { blocks, .. } if blocks == [192]));
    assert_eq!(rig.read(&group, 1, 700, 1), Ok(vec![40]));
}

/// Goal: a page that is damaged costs its own blocks. Method: each page of the map is spoiled in turn; its blocks are bad, the others read
/// right, and those that are written again read right as well, also when they were folded.
#[test]
fn a_damaged_page_costs_its_own_blocks() {
    let rig = Rig::new(33, 40);
    let of_third = in_pages_of_a_leaf(&rig);
    assert!(!of_third.is_empty(), "the third leaf is in pages");
    of_third.iter().for_each(|at| rig.host.disk("cache").poke(at + 100, &[0xA5; 8]));
    let group = open(&rig, 4, 1);
    for seq in [1, 2, 4, 5, 6u64] {
        assert_eq!(rig.read(&group, 1, seq * 64, 2), Ok(vec![seq; 2]));
    }
    let bad = rig.read(&group, 1, 192, 2);
    assert!(matches!(kind(bad), StoreErrorKind::BadBlock { blocks, .. } if blocks == [192, 193]));
    // As a repair does.
    for seq in 31..=40u64 {
        rig.append(&group, write(1, seq, seq - 1, 192, 1)).unwrap();
        rig.append(&group, settle(1, seq)).unwrap();
        rig.drain(&group);
    }
    let group = rig.reopen(group);
    assert_eq!(rig.read(&group, 1, 192, 1), Ok(vec![40]));
    assert!(matches!(kind(rig.read(&group, 1, 193, 1)), StoreErrorKind::BadBlock { blocks, .. } if blocks == [193]));
}

/// A component of which a few blocks of each of six leaves stand in pages, one a leaf; closed. Gives the pages of the third leaf.
fn in_pages_of_a_leaf(rig: &Rig) -> Vec<u64> {
    let group = open(rig, 4, 1);
    rig.append(&group, create(1, 1000, 0)).unwrap();
    for seq in 1..=6u64 {
        rig.append(&group, write(1, seq, seq - 1, seq * 64, 2)).unwrap();
    }
    rig.append(&group, settle(1, 6)).unwrap();
    rig.drain(&group);
    fold_all(rig, &group, 7..=30);
    rig.close(group);
    pages_of(rig, 192)
}

/// Goal: a page that says that it has what another one answers for is damaged, and costs its own blocks; folding both ends in order.
/// Method: its first run is moved a leaf on, its checksum is right; then blocks of both are written again until they were folded.
#[test]
fn a_page_with_blocks_of_another_one_is_damaged() {
    let rig = Rig::new(39, 40);
    let cache = rig.host.disk("cache");
    for at in in_pages_of_a_leaf(&rig) {
        let mut page = cache.peek(at, 4096);
        // Behind the head and one epoch: blocks that are passed over.
        assert!(page[98] < 64, "the first run is in the page's own leaf");
        page[98] += 64;
        page[8..12].fill(0);
        let crc = cairn_format::crc32c(&page);
        page[8..12].copy_from_slice(&crc.to_le_bytes());
        cache.poke(at, &page);
    }
    let group = open(&rig, 4, 1);
    assert_eq!(rig.read(&group, 1, 256, 2), Ok(vec![4; 2]));
    for seq in 31..=50u64 {
        rig.append(&group, write(1, seq, seq - 1, 192 + 64 * (seq % 2), 1)).unwrap();
        rig.append(&group, settle(1, seq)).unwrap();
        rig.drain(&group);
    }
    let group = rig.reopen(group);
    assert_eq!(rig.read(&group, 1, 256, 2), Ok(vec![49, 4]));
    assert_eq!(rig.read(&group, 1, 192, 1), Ok(vec![50]));
    assert!(matches!(kind(rig.read(&group, 1, 193, 1)), StoreErrorKind::BadBlock { blocks, .. } if blocks == [193]));
}

/// Goal: an error that passes while a shard is folded costs no block. Method: the page cannot be read when the fold begins, and can soon after.
#[test]
fn a_read_error_that_passes_costs_nothing_that_is_folded() {
    let rig = Rig::new(40, 40);
    let page = *in_pages_of_a_leaf(&rig).last().expect("the third leaf is in a page");
    let group = open(&rig, 4, 1);
    let (env, cache, again) = (rig.host.env(), rig.devices().cache, group.clone());
    let bytes = cache.peek(page, 4096);
    cache.inject(Fault::LatentSectorError { offset: page, len_bytes: 4096 });
    let read_before = group.stats().counters.map_pages_read;
    let of_group = group.clone();
    let heal = async move {
        while of_group.stats().counters.map_pages_read == read_before {
            env.sleep(Duration::from_millis(1)).await;
        }
        env.sleep(Duration::from_millis(120)).await;
        // What is written again can be read.
        cache
            .write(page, vec![PageBuf::copy_of(&bytes).freeze()], Durability::Buffered)
            .await
            .expect("it can be written");
    };
    let fold = async move {
        for seq in 31..=40u64 {
            again.append(write(1, seq, seq - 1, 192, 1)).await.unwrap();
            again.append(settle(1, seq)).await.unwrap();
            again.drain().await.unwrap();
        }
    };
    rig.run(async move { futures::join!(heal, fold) });
    let group = rig.reopen(group);
    assert!(pages_of(&rig, 192).len() > 1, "it was folded");
    assert_eq!(rig.read(&group, 1, 192, 2), Ok(vec![40, 3]));
    rig.check(&group);
}
