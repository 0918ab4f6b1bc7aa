//! What does not fit is refused with cause and remedy, and leaves no trace.

use bytes::Bytes;
use cairn_format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, decode_superblock};
use cairn_sim::Fault;
use cairn_store::{DiskGroupDevices, Expect, FormatOptions, StoreErrorKind, wipe_superblocks};
use cairn_types::{Change, ClusterId, ComponentId, ComponentOp, DiskGroupId, HostId, ObjectId, Run};

use crate::support::{self, Rig, copy, create, data, format_options, kind, run_of, settle, write, zero};

#[test]
fn a_used_device_is_not_formatted_unless_forced() {
    let rig = Rig::new(1, 16);
    let error = rig.format(&format_options()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Formatted);
    assert!(error.text.contains("belongs to disk group") && error.text.contains("force"), "{error}");
    let forced = FormatOptions { force: true, ..format_options() };
    assert_eq!(rig.format(&forced), Ok(()));
    let group = rig.open();
    assert_eq!(group.components(), []);
}

/// Goal: data of unknown origin is not formatted over, and superblocks of this group alone are wiped. Method: one byte in the first
/// MiB; then the group is given up.
#[test]
fn unknown_data_is_refused_and_given_up_devices_are_blank() {
    let rig = Rig::new(31, 16);
    let other = DiskGroupId(4);
    let disk = rig.host.disk("capacity-0");
    let wipe = |group| {
        let disk = disk.clone();
        rig.run(async move { wipe_superblocks(&disk, group).await })
    };
    assert_eq!(wipe(other), Ok(false), "another group's are not touched");
    let group = rig.open();
    assert_eq!(rig.run(async move { group.retire().await }), Ok(()));
    assert_eq!(wipe(rig.expect().disk_group.unwrap()), Ok(false), "there are none left");
    disk.poke(700_000, &[1]);
    let error = rig.format(&format_options()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Formatted);
    assert!(error.text.contains("capacity-0") && error.text.contains("not blank"), "{error}");
    disk.poke(700_000, &[0]);
    assert_eq!(rig.format(&format_options()), Ok(()));
}

#[test]
fn foreign_swapped_truncated_blank_and_damaged_devices_are_told_apart() {
    let rig = Rig::new(2, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 5, 2)).unwrap();
    rig.close(group);
    let good = rig.expect();
    let wrong = |expect: Expect| rig.fails_to_open(rig.devices(), expect).kind;
    assert_eq!(wrong(Expect { cluster: ClusterId(9), ..good }), StoreErrorKind::Foreign);
    assert_eq!(wrong(Expect { host: HostId(9), ..good }), StoreErrorKind::Foreign);
    assert_eq!(wrong(Expect { disk_group: Some(DiskGroupId(9)), ..good }), StoreErrorKind::Foreign);
    let parts = rig.devices();
    let cases = [
        (
            "cache and capacity exchanged",
            parts.capacity[0].clone(),
            vec![parts.cache.clone(), parts.capacity[1].clone()],
            StoreErrorKind::Swapped,
        ),
        (
            "capacities exchanged",
            parts.cache.clone(),
            vec![parts.capacity[1].clone(), parts.capacity[0].clone()],
            StoreErrorKind::Swapped,
        ),
        ("one too few", parts.cache.clone(), vec![parts.capacity[0].clone()], StoreErrorKind::Missing),
        (
            "blank capacity",
            parts.cache.clone(),
            vec![parts.capacity[0].clone(), rig.host.add_disk("blank-2", 8 << 20)],
            StoreErrorKind::Missing,
        ),
        ("blank cache", rig.host.add_disk("blank", 8 << 20), parts.capacity.clone(), StoreErrorKind::Missing),
    ];
    for (what, cache, capacity, expected) in cases {
        let error = rig.fails_to_open(DiskGroupDevices { cache, capacity }, good);
        assert_eq!(error.kind, expected, "{what}: {error}");
        assert!(error.text.contains(':'), "{what}: names a remedy: {error}");
    }
    let short = rig.host.add_disk("short", 2 << 20);
    short.poke(0, &parts.cache.peek(0, 1 << 20));
    let error = rig.fails_to_open(DiskGroupDevices { cache: short, capacity: parts.capacity.clone() }, good);
    assert_eq!(error.kind, StoreErrorKind::Truncated, "{error}");
    // Nothing of all that harmed the group.
    let group = rig.open();
    assert_eq!(rig.read(&group, 1, 4, 4), Ok(vec![0, 1, 1, 0]));
}

#[test]
fn one_superblock_may_be_bad_and_two_may_not() {
    let rig = Rig::new(3, 16);
    rig.devices().cache.inject(Fault::BitFlip { offset: 100, bit: 3 });
    rig.close(rig.open());
    assert_eq!(superblocks(&rig, "cache"), 2, "opening writes both copies");
    for offset in [100, (64 << 10) + 100] {
        rig.devices().cache.inject(Fault::BitFlip { offset, bit: 3 });
    }
    let error = rig.fails_to_open(rig.devices(), rig.expect());
    assert_eq!(error.kind, StoreErrorKind::Damaged, "{error}");
    assert_eq!(superblocks(&rig, "cache"), 0);
}

#[test]
fn damaged_metadata_is_reported() {
    let rig = Rig::new(4, 16);
    rig.devices().cache.poke(1 << 20, &[0x55; 4096]);
    let error = rig.fails_to_open(rig.devices(), rig.expect());
    assert_eq!(error.kind, StoreErrorKind::Damaged, "{error}");
    assert!(error.text.contains("metadata") && error.text.contains("replace"), "{error}");
}

/// How many of a device's two superblocks are readable.
fn superblocks(rig: &Rig, name: &str) -> usize {
    let disk = rig.host.disk(name);
    let readable = |offset: &&u64| decode_superblock(&disk.peek(**offset, SUPERBLOCK_BYTES as usize)).is_ok();
    SUPERBLOCK_OFFSETS.iter().filter(readable).count()
}

#[test]
fn bad_operations_are_refused_and_leave_no_trace() {
    let rig = Rig::new(6, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 0, 1)).unwrap();
    rig.append(&group, settle(1, 1)).unwrap();
    let with = |change, data| match change {
        Change::Component { component, op, .. } => Change::Component { component, op, data },
        _ => panic!("an operation on a component"),
    };
    let half = with(write(1, 2, 0, 0, 1), data(1, 1).slice(..2048));
    let runs = || vec![run_of(2, 1), Run::Hole { blocks: 1 }];
    let undo = |seq| support::undo(1, seq);
    let cases = [
        ("half a block", half, StoreErrorKind::Refused),
        ("a copy of nothing", copy(1, 2, 0, 0, vec![]), StoreErrorKind::Refused),
        ("a copy with more than its runs tell of", with(copy(1, 2, 0, 0, runs()), data(2, 2)), StoreErrorKind::Refused),
        ("a copy with less", with(copy(1, 2, 0, 0, runs()), data(2, 1).slice(..2048)), StoreErrorKind::Refused),
        ("a copy beyond the end", copy(1, 2, 0, 99, runs()), StoreErrorKind::Refused),
        ("a copy far beyond the end", copy(1, 2, 0, u64::MAX, runs()), StoreErrorKind::Refused),
        ("a hole with data", with(zero(1, 2, 0, 5, 1), data(2, 1)), StoreErrorKind::Refused),
        ("beyond the end", write(1, 2, 0, 99, 2), StoreErrorKind::Refused),
        ("far beyond the end", zero(1, 2, 0, u64::MAX - 1, 2), StoreErrorKind::Refused),
        ("nothing", zero(1, 2, 0, 5, 0), StoreErrorKind::Refused),
        ("unknown component", write(2, 2, 0, 0, 1), StoreErrorKind::NotFound),
        ("too large", write(1, 2, 0, 0, 64), StoreErrorKind::Refused),
        ("an id again", create(1, 100, 0), StoreErrorKind::Refused),
        ("more reserved than there is", create(3, 100, 1 << 20), StoreErrorKind::NoSpace),
        (
            "a smaller size",
            ComponentOp::Resize { size_blocks: 10, reserved_blocks: 0 }.on(ComponentId(1)),
            StoreErrorKind::Refused,
        ),
        ("undo of what is settled", undo(1), StoreErrorKind::Refused),
        (
            "a huge record",
            Change::Record { object: ObjectId(1), bytes: Bytes::from(vec![1; 1 << 20]) },
            StoreErrorKind::Refused,
        ),
    ];
    for (what, operation, expected) in cases {
        assert_eq!(kind(rig.append(&group, operation)), expected, "{what}");
    }
    // Undone before it came: refused then, and also when the two are queued at once.
    rig.append(&group, undo(7)).unwrap();
    assert_eq!(kind(rig.append(&group, write(1, 7, 0, 3, 1))), StoreErrorKind::Undone);
    let first = group.append(undo(8));
    let second = group.append(write(1, 8, 0, 3, 1));
    assert_eq!(rig.run(first), Ok(()));
    assert_eq!(kind(rig.run(second)), StoreErrorKind::Undone);
    for group in [group.clone(), rig.reopen(group)] {
        assert_eq!(rig.read(&group, 1, 0, 4), Ok(vec![1, 0, 0, 0]));
        assert_eq!(
            (group.components().len(), group.record(ObjectId(1)), group.window(ComponentId(1))),
            (1, None, vec![])
        );
        rig.check(&group);
    }
}
