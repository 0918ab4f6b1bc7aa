//! What does not fit is refused with cause and remedy, and leaves no trace.

use bytes::Bytes;
use cairn_sim::Fault;
use cairn_store::{DiskGroupDevices, Expect, Operation, StoreErrorKind, StoreOptions, inspect};
use cairn_types::{ClientTag, ClusterId, ComponentId, DiskGroupId, HostId, ObjectId};

use crate::support::{LOG_OFFSET, Rig, SEGMENTS_OFFSET, create, data, kind, op, options, settle, write, zero};

#[test]
fn a_used_device_is_not_formatted_unless_forced() {
    let rig = Rig::new(1, 16);
    let error = rig.format(&options()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Formatted);
    assert!(error.text.contains("belongs to disk group") && error.text.contains("force"), "{error}");
    let forced = StoreOptions { force: true, ..options() };
    assert_eq!(rig.format(&forced), Ok(()));
    let group = rig.open();
    assert_eq!(group.components(), []);
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
    let report = rig.run(async_inspect(&rig, "cache"));
    assert_eq!(report.findings_count, 0, "opening wrote both copies anew: {:?}", report.findings);
    for offset in [100, (64 << 10) + 100] {
        rig.devices().cache.inject(Fault::BitFlip { offset, bit: 3 });
    }
    let error = rig.fails_to_open(rig.devices(), rig.expect());
    assert_eq!(error.kind, StoreErrorKind::Damaged, "{error}");
    assert_eq!(rig.run(async_inspect(&rig, "cache")).findings_count, 2);
}

#[test]
fn damaged_metadata_is_reported() {
    let rig = Rig::new(4, 16);
    rig.devices().cache.poke(1 << 20, &[0x55; 4096]);
    let error = rig.fails_to_open(rig.devices(), rig.expect());
    assert_eq!(error.kind, StoreErrorKind::Damaged, "{error}");
    assert!(error.text.contains("metadata") && error.text.contains("replace"), "{error}");
}

fn async_inspect(rig: &Rig, name: &str) -> impl Future<Output = inspect::DeviceReport> + 'static + use<> {
    let disk = rig.host.disk(name);
    async move { inspect::inspect_device(&disk).await }
}

#[test]
fn inspect_tells_what_is_there_and_what_is_bad() {
    let rig = Rig::new(5, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 1, 0, 4)).unwrap();
    rig.drain(&group);
    rig.append(&group, write(1, 2, 2, 8, 2)).unwrap();
    rig.close(group);
    let log = rig.run(async_inspect(&rig, "cache")).log.unwrap();
    assert_eq!((log.records["write"], log.records["create-component"], log.blocks, log.bad_blocks), (2, 1, 6, 0));
    let device = ["capacity-0", "capacity-1"]
        .into_iter()
        .find(|name| rig.run(async_inspect(&rig, name)).segments.unwrap().runs > 0)
        .unwrap();
    let found = rig.run(async_inspect(&rig, device)).segments.unwrap();
    assert_eq!((found.runs, found.blocks[&ComponentId(1)], found.bad_blocks), (1, 4, 0));
    rig.host.disk(device).inject(Fault::BitFlip { offset: SEGMENTS_OFFSET + 4096 + 77, bit: 1 });
    rig.host.disk("cache").inject(Fault::BitFlip { offset: LOG_OFFSET + 8192 + 5, bit: 1 });
    let report = rig.run(async_inspect(&rig, device));
    assert_eq!(report.segments.unwrap().bad_blocks, 1);
    assert!(report.findings[0].contains("block 0"), "{:?}", report.findings);
    assert!(rig.run(async_inspect(&rig, "cache")).findings_count > 0);
}

#[test]
fn bad_operations_are_refused_and_leave_no_trace() {
    let rig = Rig::new(6, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 0, 1)).unwrap();
    rig.append(&group, settle(1, 1)).unwrap();
    let component = ComponentId(1);
    let half = Operation::Write {
        component,
        op: op(2),
        settled: op(0),
        client: ClientTag::default(),
        first_block: 0,
        crcs: vec![0].into(),
        data: data(1, 1).slice(..2048),
    };
    let undo = |seq| Operation::Undo { component, op: op(seq) };
    let cases = [
        ("half a block", half, StoreErrorKind::Refused),
        ("beyond the end", write(1, 2, 0, 99, 2), StoreErrorKind::Refused),
        ("far beyond the end", zero(1, 2, 0, u64::MAX - 1, 2), StoreErrorKind::Refused),
        ("nothing", zero(1, 2, 0, 5, 0), StoreErrorKind::Refused),
        ("unknown component", write(2, 2, 0, 0, 1), StoreErrorKind::NotFound),
        ("too large", write(1, 2, 0, 0, 64), StoreErrorKind::Refused),
        ("an id again", create(1, 100, 0), StoreErrorKind::Refused),
        ("more reserved than there is", create(3, 100, 1 << 20), StoreErrorKind::NoSpace),
        (
            "a smaller size",
            Operation::ResizeComponent { component, size_blocks: 10, reserved_blocks: 0 },
            StoreErrorKind::Refused,
        ),
        ("undo of what is settled", undo(1), StoreErrorKind::Refused),
        (
            "a huge record",
            Operation::Record { object: ObjectId(1), bytes: Bytes::from(vec![1; 1 << 20]) },
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
        assert_eq!((group.components().len(), group.record(ObjectId(1)), group.window(component)), (1, None, vec![]));
        rig.check(&group);
    }
}
