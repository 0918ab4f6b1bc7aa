//! What the counters tell: of every byte where it went, compared with what the simulated disks themselves counted.

use cairn_store::StoreCounters;
use cairn_types::{ComponentId, ComponentOp, Run};

use crate::support::{Group, Rig, copy, create, delete, run_of, settle, write, zero};

const BLOCK: u64 = 4096;

/// Bytes that the simulated disks took: cache device (log and superblocks), capacity devices.
fn taken(rig: &Rig) -> (u64, u64) {
    let bytes = |name| rig.host.disk(name).counters().written_bytes;
    (bytes("cache"), bytes("capacity-0") + bytes("capacity-1"))
}

fn cache_bytes(rig: &Rig) -> u64 {
    cairn_env::Disk::len_bytes(&rig.host.disk("cache"))
}

fn counters(group: &Group) -> StoreCounters {
    group.stats().counters
}

/// Bytes written to capacity devices, by whom ever.
fn to_capacity(counters: &StoreCounters) -> u64 {
    counters.capacity_write_destage_bytes + counters.capacity_write_clean_bytes + counters.capacity_write_resync_bytes
}

/// Goal: a write is seen in the log, at destage and at each kind of read, and in the same numbers as at the devices.
#[test]
fn every_byte_is_counted_where_it_goes() {
    let rig = Rig::with_log(31, 64, 1 << 20);
    let group = rig.open();
    let (cache, capacity) = taken(&rig);
    rig.append(&group, create(1, 1000, 0)).unwrap();
    (1..=10).for_each(|seq| rig.append(&group, write(1, seq, seq - 1, seq * 4, 4)).unwrap());
    rig.append(&group, zero(1, 11, 10, 500, 4)).unwrap();
    rig.append(&group, settle(1, 11)).unwrap();
    let written = counters(&group);
    assert_eq!((written.write_operations, written.write_bytes), (10, 40 * BLOCK));
    assert_eq!((written.resync_in_operations, written.zero_operations, written.log_operations), (0, 1, 13));
    // A header of a page for each batch: nothing was in flight beside another.
    assert_eq!(written.log_write_bytes, (written.log_writes + 40) * BLOCK);
    assert_eq!(taken(&rig), (cache + written.log_write_bytes, capacity));
    assert_eq!((to_capacity(&written), written.destage_read_bytes), (0, 0));

    // From the log first, from memory then; large reads are never kept; what was not written is a hole.
    assert_eq!(rig.read(&group, 1, 4, 8), Ok([[1; 4], [2; 4]].concat()));
    let first = counters(&group);
    assert_eq!((first.read_operations, first.read_log_bytes), (1, 8 * BLOCK));
    assert_eq!((first.read_cache_bytes, first.read_capacity_bytes), (0, 0));
    assert_eq!(rig.read(&group, 1, 4, 8), Ok([[1; 4], [2; 4]].concat()));
    rig.read(&group, 1, 600, 100).unwrap();
    let again = counters(&group);
    assert_eq!((again.read_cache_bytes, again.read_log_bytes), (8 * BLOCK, 8 * BLOCK));
    assert_eq!((again.read_hole_bytes, again.read_capacity_bytes), (100 * BLOCK, 0));

    rig.drain(&group);
    let drained = counters(&group);
    assert_eq!(drained.destaged_bytes, 40 * BLOCK);
    assert!(drained.destage_read_bytes >= 40 * BLOCK && drained.metadata_row_bytes > 0);
    assert!(drained.metadata_write_bytes > drained.metadata_row_bytes);
    assert_eq!((to_capacity(&drained), drained.capacity_write_clean_bytes), (drained.capacity_write_destage_bytes, 0));
    assert!(drained.capacity_write_destage_bytes > 40 * BLOCK, "a run has a header");
    assert_eq!(taken(&rig).1, capacity + to_capacity(&drained));
    assert_eq!(group.stats().log_used_bytes, 0);
    let gauges = group.stats().gauges();
    assert_eq!(gauges.capacity_live_bytes, 40 * BLOCK);
    assert!((4096..cache_bytes(&rig)).contains(&gauges.metadata_used_bytes), "{}", gauges.metadata_used_bytes);
    assert!(drained.metadata_reads > 0 && gauges.opening_us > 0);

    rig.read(&group, 1, 12, 20).unwrap();
    let from_capacity = counters(&group);
    assert_eq!((from_capacity.read_capacity_bytes, from_capacity.read_log_bytes), (20 * BLOCK, 8 * BLOCK));
}

/// Goal: capacity devices are written by destage and by the cleaner, and by nothing else. Method: overwrites of a nearly full
/// group, and the bytes that the disks took.
#[test]
fn capacity_devices_are_written_by_destage_and_cleaning_only() {
    let rig = Rig::new(32, 16);
    let group = rig.open();
    let (_, before) = taken(&rig);
    rig.append(&group, create(1, 180, 180)).unwrap();
    for seq in 1..=1200 {
        let first = rig.world.random_below(177);
        rig.append(&group, write(1, seq, seq.saturating_sub(3), first, 3)).unwrap();
    }
    rig.drain(&group);
    let told = counters(&group);
    assert!(told.capacity_write_clean_bytes > 0 && told.clean_read_bytes > 0 && told.cleaned_segments > 0);
    assert_eq!(told.capacity_write_resync_bytes, 0);
    assert_eq!(taken(&rig).1 - before, to_capacity(&told));
}

/// Goal: what a resync brings is told apart from what guests write.
#[test]
fn copies_are_no_writes() {
    let rig = Rig::new(33, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    let runs = vec![run_of(1, 3), Run::Hole { blocks: 5 }];
    rig.append(&group, copy(1, 1, 0, 0, runs)).unwrap();
    let told = counters(&group);
    assert_eq!((told.resync_in_operations, told.resync_in_bytes), (1, 3 * BLOCK));
    assert_eq!((told.write_operations, told.write_bytes), (0, 0));
}

/// Goal: a reader can tell a restart: counters begin anew, and so do the number and the time of the opening.
#[test]
fn a_reopened_group_counts_from_nothing() {
    let rig = Rig::new(34, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 0, 4)).unwrap();
    let (count, opened) = (group.open_count(), group.stats().opened_unix_ms);
    let group = rig.reopen(group);
    assert_eq!(group.open_count(), count + 1);
    assert!(group.stats().opened_unix_ms >= opened);
    assert_eq!((counters(&group).write_bytes, counters(&group).log_write_bytes), (0, 0));
}

/// Goal: gauges tell the marks in bytes and how far the log is from them.
#[test]
fn gauges_show_the_marks_and_the_fill() {
    let rig = Rig::new(35, 64);
    let group = rig.open();
    let empty = group.stats();
    assert_eq!((empty.log_bytes, empty.log_used_bytes, empty.congestion), (512 << 10, 0, 0));
    assert!(empty.destage_mark_bytes < empty.congestion_low_bytes);
    assert!(empty.congestion_low_bytes < empty.congestion_high_bytes && empty.congestion_high_bytes < empty.log_bytes);
    rig.append(&group, create(1, 700, 0)).unwrap();
    for name in ["capacity-0", "capacity-1"] {
        rig.host.disk(name).inject(cairn_sim::Fault::Slow { times: 2000 });
    }
    let mut most = 0;
    for seq in 1..=60 {
        rig.append(&group, write(1, seq, seq - 1, seq * 4, 4)).unwrap();
        let now = group.stats();
        most = most.max(now.congestion);
        assert_eq!(now.congestion > 0, now.log_fill_permille > 750);
        assert!(now.log_used_bytes <= now.log_bytes && now.records_buffered > 0);
        assert!(now.congestion > 0 || now.congestion_delay_us == 0);
    }
    assert!(most > 100, "congestion rose to {most} only");
}

/// Goal: witnesses are told from other components at any moment. Method: some are made, one grows, others are deleted, and the
/// group is opened again; [`Rig::check`] counts them anew each time.
#[test]
fn witnesses_are_counted() {
    let rig = Rig::new(32, 16);
    let mut group = rig.open();
    let resize =
        |component, size_blocks| ComponentOp::Resize { size_blocks, reserved_blocks: 0 }.on(ComponentId(component));
    let steps = [
        (create(1, 100, 0), (1, 0)),
        (create(2, 0, 0), (2, 1)),
        (create(3, 0, 0), (3, 2)),
        (create(4, 0, 0), (4, 3)),
        (resize(2, 0), (4, 3)),
        (resize(2, 50), (4, 2)),
        (delete(3), (3, 1)),
        (delete(2), (2, 1)),
        (delete(4), (1, 0)),
        (create(5, 0, 0), (2, 1)),
    ];
    for (step, counts) in steps {
        let what = format!("{step:?}");
        rig.append(&group, step).unwrap();
        assert_eq!(group.components_count(), counts, "after {what}");
        rig.check(&group);
        group = rig.reopen(group);
        assert_eq!(group.components_count(), counts, "opened again after {what}");
    }
}
