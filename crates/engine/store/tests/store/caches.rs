//! Clearing the caches: everything is destaged, whatever goes on; reads are right afterwards; who cannot is told.
//!
//! A crash in the midst of it is in `crates/check/sim/tests/store_crash`: the workload there clears the caches, too.

use std::{cell::Cell, rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_sim::Fault;
use cairn_store::{Cleared, StoreError, StoreErrorKind};
use cairn_types::BlockRange;

use crate::support::{Group, Rig, create, kind, settle, tags, write};

fn clear(rig: &Rig, group: &Group, patience_ms: u64) -> Result<Cleared, StoreError> {
    let group = group.clone();
    rig.run(async move { group.clear_caches(Duration::from_millis(patience_ms)).await })
}

/// Goal: afterwards nothing is in the log or in memory, and what is read comes from the capacity devices, and is right.
/// Half of the writes are not settled: they are destaged as pending and read all the same.
#[test]
fn after_clearing_all_is_read_from_the_capacity_devices() {
    let rig = Rig::with_log(41, 64, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 1000, 0)).unwrap();
    (1..=20).for_each(|seq| rig.append(&group, write(1, seq, 0, seq * 4, 4)).unwrap());
    rig.append(&group, settle(1, 10)).unwrap();
    let expected: Vec<u64> = (1..=20u64).flat_map(|seq| [seq; 4]).collect();
    for part in 0..5 {
        rig.read(&group, 1, 4 + part * 16, 16).unwrap();
    }
    let held = group.stats().read_cache_bytes;
    assert!(held > 80 * 4096);
    let told = clear(&rig, &group, 10_000).unwrap();
    assert_eq!((told.clear, told.dirty_bytes, told.log_bytes), (true, 0, 1 << 20));
    assert_eq!((told.destaged_bytes, told.read_cache_bytes), (80 * 4096, held));
    let before = group.stats();
    assert_eq!((before.log_used_bytes, before.read_cache_bytes), (0, 0));
    for part in 0..5usize {
        let read = rig.read(&group, 1, 4 + part as u64 * 16, 16).unwrap();
        assert_eq!(read, expected[part * 16..][..16]);
    }
    let after = group.stats();
    let read = after.counters.read_capacity_bytes - before.counters.read_capacity_bytes;
    assert_eq!((read, after.counters.read_log_bytes), (80 * 4096, before.counters.read_log_bytes));
    assert_eq!(after.counters.read_cache_bytes, before.counters.read_cache_bytes);
    rig.check(&group);
    // Once more, with nothing to do; and after reopening all is still there.
    assert_eq!(clear(&rig, &group, 10_000).unwrap().destaged_bytes, 0);
    let group = rig.reopen(group);
    assert_eq!(rig.read(&group, 1, 4, 80), Ok(expected));
    rig.check(&group);
}

/// Goal: a guest that writes meanwhile hinders nothing, loses nothing, and is destaged as well.
#[test]
fn clearing_ends_while_a_guest_writes() {
    let rig = Rig::with_log(42, 64, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 1000, 0)).unwrap();
    (1..=20).for_each(|seq| rig.append(&group, write(1, seq, seq - 1, seq * 4, 4)).unwrap());
    let (env, writer, reader) = (rig.host.env(), group.clone(), group.clone());
    let stop = Rc::new(Cell::new(false));
    let stopped = stop.clone();
    let (told, last) = rig.run(async move {
        let write_on = async {
            let mut seq = 20;
            while !stopped.get() {
                seq += 1;
                writer.append(write(1, seq, seq - 1, 200 + seq % 50, 1)).await.unwrap();
                env.sleep(Duration::from_millis(30)).await;
            }
            seq
        };
        let cleared = async {
            let told = group.clear_caches(Duration::from_secs(60)).await;
            stop.set(true);
            told
        };
        futures::join!(cleared, write_on)
    });
    let told = told.unwrap();
    assert!(told.clear && told.dirty_bytes * 100 < told.log_bytes, "{told:?}");
    assert!(told.destaged_bytes >= 80 * 4096 && last > 20, "{told:?} after write {last}");
    let expected: Vec<u64> = (1..=20u64).flat_map(|seq| [seq; 4]).collect();
    let group = reader.clone();
    let read = rig.run(async move { group.read(cairn_types::ComponentId(1), BlockRange::new(4, 80)).await });
    assert_eq!(read.map(tags), Ok(expected));
    assert_eq!(rig.read(&reader, 1, 200 + last % 50, 1), Ok(vec![last]));
    rig.check(&reader);
}

/// Goal: nothing is told to be clear that is not. Method: capacity devices that are slower than the guest; then it stops.
#[test]
fn who_writes_faster_than_destage_is_told_so() {
    let rig = Rig::new(43, 64);
    let group = rig.open();
    rig.append(&group, create(1, 700, 0)).unwrap();
    for name in ["capacity-0", "capacity-1"] {
        rig.host.disk(name).inject(Fault::Slow { times: 2000 });
    }
    let (env, writer, clearer) = (rig.host.env(), group.clone(), group.clone());
    let told = rig.run(async move {
        let write_on = async {
            let end = env.now() + Duration::from_millis(600);
            let mut seq = 0;
            while env.now() < end {
                seq += 1;
                writer.append(write(1, seq, seq - 1, seq * 4 % 600, 4)).await.unwrap();
            }
        };
        futures::join!(clearer.clear_caches(Duration::from_millis(300)), write_on).0
    });
    let told = told.unwrap();
    assert!(!told.clear && told.dirty_bytes * 100 >= told.log_bytes, "{told:?}");
    for name in ["capacity-0", "capacity-1"] {
        rig.host.disk(name).heal();
    }
    let told = clear(&rig, &group, 60_000).unwrap();
    assert_eq!((told.clear, told.dirty_bytes), (true, 0));
    rig.check(&group);
}

/// Goal: a group that takes no writes any more says why, at once, and keeps what it has for the next opening.
#[test]
fn a_stopped_group_says_so() {
    let rig = Rig::new(44, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 0, 2)).unwrap();
    rig.read(&group, 1, 0, 2).unwrap();
    rig.devices().cache.inject(Fault::WriteErrorNext);
    assert_eq!(kind(rig.append(&group, write(1, 2, 0, 4, 2))), StoreErrorKind::Media);
    assert_eq!(kind(clear(&rig, &group, 1000)), StoreErrorKind::Media);
    assert_eq!(group.stats().read_cache_bytes, 0);
    let group = rig.reopen(group);
    assert_eq!(rig.read(&group, 1, 0, 2), Ok(vec![1, 1]));
}
