//! Devices that fail, at the worst moments.

use std::time::Duration;

use cairn_env::{DiskErrorKind, Env};
use cairn_sim::{Fault, SimDisk};
use cairn_store::{DiskGroup, DiskGroupDevices, LogHealth, StoreErrorKind};
use cairn_types::{BlockOp, Change, ComponentId, ComponentOp, ObjectId};

use crate::support::{
    Group, LOG_OFFSET, Rig, SEGMENTS_OFFSET, create, delete, kind, op, open_options, settle, undo, write,
};

/// A failed log write is never retried; what was acknowledged before is there after reopening.
#[test]
fn a_failed_log_write_stops_the_group_until_it_is_reopened() {
    let rig = Rig::new(11, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 0, 2)).unwrap();
    rig.devices().cache.inject(Fault::WriteErrorNext);
    assert_eq!(kind(rig.append(&group, write(1, 2, 0, 4, 2))), StoreErrorKind::Media);
    assert_eq!(kind(rig.append(&group, write(1, 3, 0, 8, 2))), StoreErrorKind::Media);
    assert!(group.stats().stopped.is_some());
    assert_eq!(rig.read(&group, 1, 0, 2), Ok(vec![1, 1]));
    let group = rig.reopen(group);
    assert_eq!(rig.read(&group, 1, 0, 2), Ok(vec![1, 1]));
    rig.append(&group, write(1, 4, 0, 4, 2)).unwrap();
    rig.check(&group);
}

/// A cache device whose file system is full says so, whether the log or the metadata met it: another remedy than a new device.
#[test]
fn a_full_file_system_under_the_cache_device_is_told_from_a_failed_device() {
    for (fault, expected) in
        [(Fault::NoSpaceNext, DiskErrorKind::NoSpace), (Fault::WriteErrorNext, DiskErrorKind::Write)]
    {
        for in_log in [true, false] {
            let rig = Rig::new(12, 16);
            let group = rig.open();
            rig.append(&group, create(1, 100, 0)).unwrap();
            rig.append(&group, write(1, 1, 0, 0, 2)).unwrap();
            assert_eq!(group.stats().cache.failure, None);
            rig.devices().cache.inject(fault);
            if in_log {
                assert_eq!(kind(rig.append(&group, write(1, 2, 0, 4, 2))), StoreErrorKind::Media);
            } else {
                let again = group.clone();
                assert_eq!(kind(rig.run(async move { again.drain().await })), StoreErrorKind::Media);
            }
            let cache = group.stats().cache;
            assert_eq!(cache.failure.map(|error| error.kind), Some(expected), "in the log: {in_log}");
            assert!(cache.failed);
            assert_eq!(rig.reopen(group).stats().cache.failure, None);
        }
    }
}

/// A log write that fails while a drain waits for the writer to leave its segment: both are told, nobody hangs, and the
/// writer leaves nothing, as what is on the medium there is unknown.
#[test]
fn a_log_write_that_fails_while_a_drain_waits_stops_the_group() {
    for segments_before in [0, 1] {
        let rig = Rig::new(19, 16);
        let group = rig.open();
        rig.append(&group, create(1, 100, 0)).unwrap();
        // Seven blocks with their header are half a segment.
        (1..=2 * segments_before).for_each(|seq| rig.append(&group, write(1, seq, 0, 0, 7)).unwrap());
        rig.append(&group, write(1, 5, 0, 0, 1)).unwrap();
        rig.devices().cache.inject(Fault::WriteErrorNext);
        let (appended, drained) = (group.append(write(1, 6, 0, 4, 2)), group.clone());
        let both = rig.run(async move { futures::join!(appended, async { drained.drain().await }) });
        assert_eq!((kind(both.0), kind(both.1)), (StoreErrorKind::Media, StoreErrorKind::Media));
        assert!(group.stats().stopped.is_some());
        assert_eq!(kind(rig.append(&group, write(1, 7, 0, 8, 2))), StoreErrorKind::Media);
        let again = group.clone();
        assert_eq!(kind(rig.run(async move { again.drain().await })), StoreErrorKind::Media);
        assert_eq!(rig.read(&group, 1, 0, 1), Ok(vec![5]));
        let group = rig.reopen(group);
        assert_eq!(rig.read(&group, 1, 0, 1), Ok(vec![5]));
        rig.append(&group, write(1, 8, 0, 4, 2)).unwrap();
        rig.drain(&group);
        assert_eq!(rig.read(&group, 1, 4, 2), Ok(vec![8, 8]));
        rig.check(&group);
    }
}

/// A drain that is asked for after the group was closed is refused, it does not wait for ever.
#[test]
fn a_closed_group_does_not_drain() {
    let rig = Rig::new(20, 16);
    let group = rig.open();
    let closed = group.clone();
    rig.close(group);
    assert_eq!(kind(rig.run(async move { closed.drain().await })), StoreErrorKind::Media);
}

/// Scenario 3: one bad sector in the middle of the log is damage, not a torn tail; and it stays known.
#[test]
fn a_bad_header_in_the_middle_of_the_log_is_damage() {
    let rig = Rig::new(12, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    for seq in 1..=6 {
        rig.append(&group, write(1, seq, 0, seq, 1)).unwrap();
    }
    let before = group.durable_position();
    rig.close(group);
    // Batches are 8 KiB here, but the first: the header of the fourth write.
    rig.devices().cache.inject(Fault::BitFlip { offset: LOG_OFFSET + 4096 + 3 * 8192 + 20, bit: 2 });
    let group = rig.open();
    let LogHealth::Damaged { ends_at } = group.log_health() else { panic!("the damage was not seen") };
    assert_eq!(ends_at, 4096 + 3 * 8192);
    assert_eq!(rig.read(&group, 1, 0, 8), Ok(vec![0, 1, 2, 3, 0, 0, 0, 0]));
    assert!(group.durable_position() > before, "positions never come twice");
    rig.append(&group, write(1, 9, 0, 9, 1)).unwrap();
    let group = rig.reopen(group);
    assert_eq!(group.log_health(), LogHealth::Damaged { ends_at });
    assert_eq!(rig.read(&group, 1, 3, 7), Ok(vec![3, 0, 0, 0, 0, 0, 9]));
    let accepted = group.clone();
    assert_eq!(rig.run(async move { accepted.accept_damage().await }), Ok(()));
    let group = rig.reopen(group);
    assert_eq!(group.log_health(), LogHealth::Sound);
    rig.check(&group);
}

/// A bad data block in the log is that block's fault, not the log's.
#[test]
fn a_bad_block_in_the_log_is_reported_and_repaired_by_a_write() {
    let rig = Rig::new(13, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 1, 0, 4)).unwrap();
    rig.append(&group, write(1, 2, 2, 10, 1)).unwrap();
    rig.devices().cache.inject(Fault::BitFlip { offset: LOG_OFFSET + 4096 + 4096 + 2 * 4096 + 9, bit: 0 });
    let group = rig.reopen(group);
    assert_eq!(group.log_health(), LogHealth::Sound);
    let bad = StoreErrorKind::BadBlock { component: ComponentId(1), blocks: vec![2] };
    assert_eq!(kind(rig.read(&group, 1, 0, 4)), bad);
    // Destage carries the damage on, it does not launder it.
    rig.drain(&group);
    assert_eq!(kind(rig.read(&group, 1, 0, 4)), bad);
    assert_eq!(rig.read(&group, 1, 0, 2), Ok(vec![1, 1]));
    rig.append(&group, write(1, 3, 3, 2, 1)).unwrap();
    assert_eq!(rig.read(&group, 1, 0, 4), Ok(vec![1, 1, 3, 1]));
    rig.drain(&group);
    rig.check(&group);
}

#[test]
fn a_bad_block_in_the_capacity_tier_is_reported_and_a_bad_read_is_tried_again() {
    let rig = Rig::new(14, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 1, 0, 4)).unwrap();
    rig.drain(&group);
    let disk = rig.host.disk(["capacity-0", "capacity-1"][group.component(ComponentId(1)).unwrap().device as usize]);
    disk.inject(Fault::ReadErrorNext);
    assert_eq!(rig.read(&group, 1, 0, 4), Ok(vec![1; 4]));
    disk.inject(Fault::LatentSectorError { offset: SEGMENTS_OFFSET + 3 * 4096, len_bytes: 512 });
    let group = rig.reopen(group);
    let bad = StoreErrorKind::BadBlock { component: ComponentId(1), blocks: vec![2] };
    assert_eq!(kind(rig.read(&group, 1, 0, 4)), bad);
}

/// A process that is killed leaves its last batch where the next one reads it, and a loss of power may take that back:
/// what a start builds on must be durable by then.
#[test]
fn a_batch_that_a_killed_process_left_in_flight_is_no_hole_later() {
    for seed in 0..24 {
        let rig = Rig::new(100 + seed, 16);
        let group = rig.open();
        rig.append(&group, create(1, 100, 0)).unwrap();
        rig.append(&group, write(1, 1, 0, 0, 2)).unwrap();
        let in_flight = group.append(write(1, 2, 0, 4, 2));
        let env = rig.host.env();
        rig.run(async move { env.sleep(Duration::from_micros(30)).await });
        rig.host.kill();
        drop((in_flight, group));
        rig.host.restart();
        let group = rig.open();
        assert_eq!(rig.read(&group, 1, 4, 2), Ok(vec![2, 2]), "it landed");
        rig.append(&group, write(1, 3, 0, 8, 2)).unwrap();
        rig.host.crash(seed);
        drop(group);
        rig.host.restart();
        let group = rig.open();
        assert_eq!(group.log_health(), LogHealth::Sound, "loss {seed}");
        assert_eq!(rig.read(&group, 1, 0, 10), Ok(vec![1, 1, 0, 0, 2, 2, 0, 0, 3, 3]));
        rig.check(&group);
    }
}

/// Goal: of two batches that are with the device together, the second counts only with the first; and where power took the first and
/// left the second, that one does not come back when the log goes on over the first. Method: power goes at other moments; the next
/// batch is as long as the one that was lost, and ends where the second begins.
#[test]
fn a_batch_behind_a_torn_one_is_never_found() {
    let mut left_behind = 0;
    for seed in 0..100 {
        let rig = Rig::new(200 + seed, 16);
        let group = rig.open();
        rig.append(&group, create(1, 100, 0)).unwrap();
        rig.append(&group, write(1, 1, 0, 0, 2)).unwrap();
        let (env, both) = (rig.host.env(), group.clone());
        let answered = rig.run(async move {
            let mut first = Box::pin(both.append(write(1, 2, 0, 4, 2)));
            env.sleep(Duration::from_micros(1)).await;
            let mut second = Box::pin(both.append(write(1, 3, 0, 8, 2)));
            env.sleep(Duration::from_micros(60 + 2 * seed)).await;
            [futures::poll!(&mut first).is_ready(), futures::poll!(&mut second).is_ready()]
        });
        assert!(answered[0] || !answered[1], "seed {seed}: acknowledged before what stands before it");
        rig.host.crash(seed);
        drop(group);
        rig.host.restart();
        // Batches of two blocks are 12 KiB; the first one, a creation, 4 KiB.
        let second_is_whole = [4096, 8192].map(|at| {
            let block = rig.devices().cache.peek(LOG_OFFSET + 4096 + 2 * 12288 + at, 4096);
            block.chunks_exact(8).all(|word| word == 3u64.to_le_bytes())
        });
        let group = rig.open();
        assert_eq!(group.log_health(), LogHealth::Sound, "seed {seed}");
        let found = rig.read(&group, 1, 4, 6).unwrap();
        let (first, second) = (found[0] == 2, found[4] == 3);
        assert!(first || !second, "seed {seed}: {found:?}");
        assert!(first >= answered[0] && second >= answered[1], "seed {seed}: {answered:?} {found:?}");
        left_behind += u64::from(!first && second_is_whole == [true; 2]);
        // Where the first was lost, this stands in its place.
        rig.append(&group, write(1, 4, 0, 12, 2)).unwrap();
        rig.host.crash(seed);
        drop(group);
        rig.host.restart();
        let group = rig.open();
        assert_eq!(rig.read(&group, 1, 4, 6).unwrap(), found, "seed {seed}");
        assert_eq!(rig.read(&group, 1, 12, 2), Ok(vec![4, 4]), "seed {seed}");
        rig.check(&group);
    }
    assert!(left_behind >= 5, "power left a whole batch behind a torn one only {left_behind} times");
}

/// Goal: nothing behind a batch whose write failed is acknowledged, also where its own write went well.
#[test]
fn a_batch_behind_a_failed_one_fails_too() {
    for seed in 0..20 {
        let rig = Rig::new(300 + seed, 16);
        let group = rig.open();
        rig.append(&group, create(1, 100, 0)).unwrap();
        rig.devices().cache.inject(Fault::WriteErrorNext);
        let (env, both) = (rig.host.env(), group.clone());
        let results = rig.run(async move {
            let first = both.append(write(1, 1, 0, 0, 2));
            env.sleep(Duration::from_micros(1)).await;
            let second = both.append(write(1, 2, 0, 4, 2));
            futures::join!(first, second)
        });
        assert_eq!((kind(results.0), kind(results.1)), (StoreErrorKind::Media, StoreErrorKind::Media), "seed {seed}");
        assert!(group.stats().stopped.is_some());
        let group = rig.reopen(group);
        let found = rig.read(&group, 1, 0, 6).unwrap();
        assert!(found[0] == 1 || found[4] == 0, "seed {seed}: {found:?}");
        rig.append(&group, write(1, 3, 0, 8, 2)).unwrap();
        rig.check(&group);
    }
}

/// A start takes no device for dead, and no log for damaged, for reads that fail a few times.
#[test]
fn a_start_reads_again_what_could_not_be_read() {
    let rig = Rig::new(17, 16);
    let group = rig.open();
    for component in 1..=2 {
        rig.append(&group, create(component, 100, 0)).unwrap();
        rig.append(&group, write(component, 1, 1, 0, 4)).unwrap();
    }
    rig.close(group);
    for name in ["cache", "capacity-0", "capacity-1"] {
        (0..5).for_each(|_| rig.host.disk(name).inject(Fault::ReadErrorNext));
    }
    let group = rig.open();
    assert_eq!(group.lost_components(), []);
    assert_eq!(group.log_health(), LogHealth::Sound);
    assert_eq!(rig.read(&group, 1, 0, 4), Ok(vec![1; 4]));
    assert_eq!(rig.read(&group, 2, 0, 4), Ok(vec![1; 4]));
    rig.check(&group);
}

/// Scenario 19: the group goes on, the components of the device are lost for good, also when it returns.
#[test]
fn a_capacity_device_that_fails_in_mid_destage_loses_its_components_only() {
    let rig = Rig::new(15, 16);
    let group = rig.open();
    for component in 1..=2 {
        rig.append(&group, create(component, 100, 0)).unwrap();
        rig.append(&group, write(component, 1, 1, 0, 4)).unwrap();
    }
    let device = |id| group.component(ComponentId(id)).unwrap().device;
    assert_ne!(device(1), device(2), "components are spread by free space");
    let broken = rig.host.disk(["capacity-0", "capacity-1"][device(1) as usize]);
    broken.inject(Fault::Gone);
    rig.drain(&group);
    assert_eq!(group.lost_components(), [ComponentId(1)]);
    assert_eq!(kind(rig.read(&group, 1, 0, 4)), StoreErrorKind::Lost);
    assert_eq!(kind(rig.append(&group, write(1, 2, 1, 0, 1))), StoreErrorKind::Lost);
    assert_eq!(rig.read(&group, 2, 0, 4), Ok(vec![1; 4]));
    rig.append(&group, write(2, 2, 2, 0, 1)).unwrap();
    rig.close(group);
    broken.bring_back();
    let group = rig.open();
    assert_eq!(group.lost_components(), [ComponentId(1)]);
    assert_eq!(rig.read(&group, 2, 0, 2), Ok(vec![2, 1]));
    rig.append(&group, delete(1)).unwrap();
    rig.append(&group, create(3, 100, 0)).unwrap();
    rig.append(&group, write(3, 1, 1, 0, 4)).unwrap();
    rig.drain(&group);
    let group = rig.reopen(group);
    assert_eq!(rig.read(&group, 3, 0, 4), Ok(vec![1; 4]));
    rig.check(&group);
}

/// Goal: a capacity device that goes while nothing is written or read is known to be gone within ten seconds, its components are lost and
/// no others; a cache device that goes so stops the group. Method: all is destaged, the device goes, time passes.
#[test]
fn a_device_that_goes_while_nobody_uses_it_is_missed() {
    for cache in [false, true] {
        let rig = Rig::new(34, 16);
        let group = rig.open();
        for component in 1..=2 {
            rig.append(&group, create(component, 100, 0)).unwrap();
            rig.append(&group, write(component, 1, 1, 0, 4)).unwrap();
        }
        rig.drain(&group);
        let device = group.component(ComponentId(1)).unwrap().device as usize;
        rig.host.disk(if cache { "cache" } else { ["capacity-0", "capacity-1"][device] }).inject(Fault::Gone);
        assert!(group.lost_components().is_empty() && !group.is_stopped());
        let env = rig.host.env();
        rig.run(async move { env.sleep(Duration::from_secs(10)).await });
        assert_eq!(group.is_stopped(), cache);
        assert_eq!(group.lost_components(), if cache { vec![] } else { vec![ComponentId(1)] });
        assert_eq!(rig.append(&group, write(2, 2, 2, 0, 1)).is_err(), cache);
    }
}

/// Goal: a device that is not there at an opening takes its components only, and brings no stale one back. Method: opened without
/// it, with and without destage meanwhile, then with it again.
#[test]
fn a_group_opens_without_a_device_and_brings_no_stale_component_back() {
    for drained in [false, true] {
        let rig = Rig::new(30, 16);
        let group = rig.open();
        for component in 1..=2 {
            rig.append(&group, create(component, 100, 0)).unwrap();
            rig.append(&group, write(component, 1, 1, 0, 4)).unwrap();
        }
        let away = group.component(ComponentId(1)).unwrap().device as usize;
        let ids = group.device_ids().to_vec();
        rig.close(group);
        let without = |env, parts: DiskGroupDevices<SimDisk>| {
            let capacity =
                parts.capacity.into_iter().enumerate().map(|(n, disk)| (n != away).then_some(disk)).collect();
            let expect = rig.expect();
            async move { DiskGroup::open_without(env, parts.cache, capacity, expect, &open_options()).await }
        };
        let group = rig.run(without(rig.host.env(), rig.devices())).unwrap();
        assert_eq!(group.missing(), [ids[away + 1]]);
        assert_eq!(group.lost_components(), [ComponentId(1)]);
        assert_eq!(kind(rig.append(&group, write(1, 2, 1, 0, 1))), StoreErrorKind::Lost);
        rig.append(&group, write(2, 2, 2, 0, 1)).unwrap();
        assert_eq!(rig.read(&group, 2, 0, 2), Ok(vec![2, 1]));
        rig.check(&group);
        if drained {
            rig.drain(&group);
        }
        let group = rig.reopen(group);
        assert_eq!((group.missing(), group.stats().capacity[away].failed), (vec![], false));
        assert_eq!(rig.read(&group, 2, 0, 2), Ok(vec![2, 1]));
        match group.lost_components().as_slice() {
            // It is lost for good, or all that it has taken is there: nothing between.
            [] if !drained => assert_eq!(rig.read(&group, 1, 0, 4), Ok(vec![1; 4])),
            lost => assert_eq!(lost, [ComponentId(1)]),
        }
        rig.check(&group);
    }
}

/// Scenarios 4 and 7: what stands below an unsettled operation survives destage, undo and replay.
#[test]
fn undo_uncovers_what_was_below_also_after_destage_and_reopening() {
    let rig = Rig::new(16, 16);
    let mut group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 2, 0, 0, 4)).unwrap();
    rig.append(&group, settle(1, 2)).unwrap();
    rig.append(&group, write(1, 3, 2, 1, 2)).unwrap();
    rig.drain(&group);
    for _ in 0..2 {
        assert_eq!(rig.read(&group, 1, 0, 4), Ok(vec![2, 3, 3, 2]));
        assert_eq!(group.window(ComponentId(1)).len(), 1);
        rig.check(&group);
        group = rig.reopen(group);
    }
    rig.append(&group, undo(1, 3)).unwrap();
    rig.append(&group, write(1, 4, 3, 0, 1)).unwrap();
    for _ in 0..2 {
        assert_eq!(rig.read(&group, 1, 0, 4), Ok(vec![4, 2, 2, 2]));
        assert_eq!(kind(rig.append(&group, write(1, 3, 2, 1, 2))), StoreErrorKind::Undone);
        group = rig.reopen(group);
        rig.drain(&group);
        rig.check(&group);
    }
}

/// Goal: of several operations that are taken back at once each is taken back by itself: one that cannot be leaves the others to it.
#[test]
fn several_operations_are_taken_back_at_once() {
    let rig = Rig::new(30, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    for (seq, first) in [(1, 0), (2, 0), (3, 1)] {
        rig.append(&group, write(1, seq, 0, first, 2)).unwrap();
    }
    rig.append(&group, settle(1, 1)).unwrap();
    let undo = |seqs: [u64; 3]| ComponentOp::Undo { ops: seqs.map(op).into() }.on(ComponentId(1));
    assert_eq!(kind(rig.append(&group, undo([3, 1, 2]))), StoreErrorKind::Refused);
    let group = rig.reopen(group);
    assert_eq!(rig.read(&group, 1, 0, 3), Ok(vec![1, 1, 0]));
    assert_eq!(rig.append(&group, undo([4, 3, 2])), Ok(()), "again, and one that has not come");
    assert_eq!(kind(rig.append(&group, write(1, 4, 0, 0, 1))), StoreErrorKind::Undone);
    rig.check(&group);
}

#[test]
fn records_live_in_the_log_and_in_the_metadata() {
    let rig = Rig::new(17, 16);
    let group = rig.open();
    let record = |bytes: &'static [u8]| Change::Record { object: ObjectId(5), bytes: bytes.into() };
    rig.append(&group, record(b"one")).unwrap();
    rig.drain(&group);
    rig.append(&group, record(b"two")).unwrap();
    let group = rig.reopen(group);
    assert_eq!(group.record(ObjectId(5)).as_deref(), Some(b"two".as_slice()));
    rig.append(&group, record(b"")).unwrap();
    rig.drain(&group);
    let group = rig.reopen(group);
    assert_eq!((group.record(ObjectId(5)), group.records()), (None, vec![]));
}

/// What was deleted, or was pending, while its device had failed gives its space back when the device works again.
#[test]
fn space_of_a_failed_device_comes_back_with_it() {
    let rig = Rig::new(18, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 1, 0, 4)).unwrap();
    // Not settled: a pending row in the metadata.
    rig.append(&group, write(1, 2, 1, 8, 4)).unwrap();
    rig.drain(&group);
    let device = group.component(ComponentId(1)).unwrap().device as usize;
    let live = |group: &Group| group.stats().capacity[device].live_bytes;
    assert_eq!(live(&group), 8 * 4096);
    let broken = rig.host.disk(["capacity-0", "capacity-1"][device]);
    broken.inject(Fault::Gone);
    rig.append(&group, write(1, 3, 1, 20, 4)).unwrap();
    rig.drain(&group);
    assert_eq!(group.lost_components(), [ComponentId(1)]);
    rig.append(&group, delete(1)).unwrap();
    rig.drain(&group);
    broken.bring_back();
    let group = rig.reopen(group);
    rig.drain(&group);
    assert_eq!(live(&group), 0);
    rig.check(&group);
}

/// Goal: a checksum that is not of its block, as after a bit that flipped in memory, is no wrong byte: the next read of the block tells,
/// of that block alone, after an opening and after destage. Method: the caller breaks its promise.
#[test]
fn a_block_that_changed_in_memory_is_found_at_the_next_read() {
    let rig = Rig::new(29, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    let mut changed = write(1, 1, 0, 0, 3);
    let Change::Component { op: ComponentOp::Apply { blocks: BlockOp::Write { crcs, .. }, .. }, .. } = &mut changed
    else {
        panic!("a write")
    };
    crcs[1] ^= 1;
    rig.append(&group, changed).unwrap();
    rig.append(&group, settle(1, 1)).unwrap();
    let bad = StoreErrorKind::BadBlock { component: ComponentId(1), blocks: vec![1] };
    let mut group = rig.reopen(group);
    for destaged in [false, true] {
        if destaged {
            rig.drain(&group);
            group = rig.reopen(group);
        }
        assert_eq!(kind(rig.read(&group, 1, 0, 3)), bad);
        assert_eq!(rig.read(&group, 1, 0, 1), Ok(vec![1]));
        assert_eq!(rig.read(&group, 1, 2, 1), Ok(vec![1]));
    }
}
