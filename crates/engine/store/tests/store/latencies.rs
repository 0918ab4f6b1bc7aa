//! Where the time of writes and reads goes, in virtual time: devices take what the simulator says, processors nothing.

use std::time::Duration;

use cairn_env::Env as _;
use cairn_measure::Latencies;
use cairn_sim::Fault;
use cairn_store::{LogLatencies, ReadLatencies, ReadSource};
use cairn_types::ObjectId;
use futures::future::join_all;

use crate::support::{Group, Rig, create, delete, settle, write, zero};

fn log(group: &Group) -> LogLatencies {
    group.log_latencies()
}

fn reads(group: &Group, object: u128) -> ReadLatencies {
    group.read_latencies(None).remove(&ObjectId(object)).unwrap_or_default()
}

/// How many reads came from memory, log, capacity devices; how many of them read the map.
fn counts(reads: &ReadLatencies) -> ([u64; 3], u64) {
    let of = |source| reads.of(source).map_or(0, Latencies::count);
    let sources = [ReadSource::Memory, ReadSource::Log, ReadSource::Capacity];
    (sources.map(of), reads.map.as_deref().map_or(0, Latencies::count))
}

/// Goal: what a write waits for and what its device takes are told apart, and only guests' writes count. Method: writes one by
/// one, then four, and three more while those are in flight: too few for a batch beside theirs, they wait and leave together.
#[test]
fn waiting_for_the_batch_before_is_told_apart_from_the_device() {
    let rig = Rig::new(41, 16);
    let group = rig.open();
    assert_eq!(log(&group).device.count(), 0);
    rig.append(&group, create(1, 100, 0)).unwrap();
    (1..=10).for_each(|seq| rig.append(&group, write(1, seq, seq - 1, seq * 4, 4)).unwrap());
    rig.append(&group, zero(1, 11, 10, 90, 4)).unwrap();
    rig.append(&group, settle(1, 11)).unwrap();
    let alone = log(&group);
    assert_eq!((alone.queue.count(), alone.device.count()), (10, 10), "writes only");
    assert_eq!(alone.queue.sum_ns(), 0, "nothing was in flight before");
    assert!(alone.device.sum_ns() > 0 && alone.room.count() == 0 && alone.congestion.count() == 0);

    let batches = group.stats().counters.log_writes;
    let (env, own) = (rig.host.env(), group.clone());
    rig.run(async move {
        let append = |seq| own.append(write(1, seq, 11, seq, 1));
        let mut all: Vec<_> = (12..16).map(append).collect();
        env.sleep(Duration::from_nanos(1)).await;
        all.extend((16..19).map(append));
        join_all(all).await.into_iter().for_each(|result| result.unwrap());
    });
    let added = log(&group);
    assert_eq!((added.queue.count(), added.device.count()), (17, 17));
    assert_eq!(group.stats().counters.log_writes, batches + 2, "four, and three");
    // They waited until the device write before theirs was over.
    let waited = added.queue.sum_ns();
    assert!(waited > 0 && waited.is_multiple_of(3), "{waited} ns");
    assert_eq!(added.queue.max_ns(), waited / 3);
}

/// Goal: a log that has no room is told apart from a busy one, and so are acknowledgements that are held back. Method: capacity
/// devices that are far too slow.
#[test]
fn waiting_for_destage_is_told_apart_from_waiting_for_the_device() {
    let rig = Rig::with_log(42, 64, 512 << 10);
    let group = rig.open();
    rig.append(&group, create(1, 700, 0)).unwrap();
    for name in ["capacity-0", "capacity-1"] {
        rig.host.disk(name).inject(Fault::Slow { times: 2000 });
    }
    let mut first_wait = None;
    for seq in 1..=90 {
        rig.append(&group, write(1, seq, seq - 1, seq * 4, 4)).unwrap();
        first_wait = first_wait.or_else(|| (log(&group).room.count() > 0).then_some(seq));
    }
    let told = log(&group);
    assert!(first_wait.is_some_and(|seq| seq > 20), "the first to wait was {first_wait:?}");
    assert!(told.room.sum_ns() > 10 * told.queue.sum_ns(), "{told:?}");
    let held = told.congestion.count();
    assert!(held > 0 && held < 90, "{held} were held back");
    assert_eq!(told.device.count(), 90);
}

/// Goal: reads are told apart by where their bytes were, per disk, and the map is seen where memory does not have it. Method: the
/// same blocks after their write, once more, after destage, and after the caches were cleared.
#[test]
fn reads_are_told_apart_by_where_the_bytes_were() {
    let rig = Rig::with_log(43, 64, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 1000, 0)).unwrap();
    rig.append(&group, create(2, 1000, 0)).unwrap();
    assert!(group.read_latencies(None).is_empty(), "nothing was read: nothing is kept");
    (1..=10).for_each(|seq| rig.append(&group, write(1, seq, seq - 1, seq * 4, 4)).unwrap());
    rig.append(&group, settle(1, 10)).unwrap();
    rig.read(&group, 1, 500, 8).unwrap();
    assert_eq!(counts(&reads(&group, 1)), ([1, 0, 0], 0), "a hole");
    rig.read(&group, 1, 4, 8).unwrap();
    rig.read(&group, 1, 4, 8).unwrap();
    assert_eq!(counts(&reads(&group, 1)), ([2, 1, 0], 0), "the log, then memory");
    let cleared = group.clone();
    assert!(rig.run(async move { cleared.clear_caches(Duration::from_secs(60)).await }).unwrap().clear);
    rig.read(&group, 1, 4, 8).unwrap();
    let told = reads(&group, 1);
    assert_eq!(counts(&told), ([2, 1, 1], 1), "the map and the capacity device");
    assert_eq!(told.of(ReadSource::Memory).unwrap().sum_ns(), 0);
    assert!(told.of(ReadSource::Capacity).unwrap().sum_ns() > 0);
    rig.read(&group, 2, 0, 8).unwrap();
    assert_eq!(counts(&reads(&group, 2)), ([1, 0, 0], 0), "each disk by itself");
    assert_eq!(group.read_latencies(Some(ObjectId(2))).len(), 1);
}

/// Goal: what is gone is forgotten, and a group that was opened anew begins anew.
#[test]
fn latencies_go_with_their_component_and_their_opening() {
    let rig = Rig::new(44, 16);
    let group = rig.open();
    for component in 1..=3 {
        rig.append(&group, create(component, 100, 0)).unwrap();
        rig.append(&group, write(component, 1, 0, 0, 4)).unwrap();
        rig.read(&group, component, 0, 4).unwrap();
        rig.append(&group, delete(component)).unwrap();
        assert!(group.read_latencies(None).is_empty(), "{component} is gone");
    }
    assert_eq!(log(&group).device.count(), 3);
    let group = rig.reopen(group);
    assert_eq!(log(&group).device.count(), 0);
}
