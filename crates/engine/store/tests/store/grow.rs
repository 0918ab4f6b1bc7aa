//! Capacity devices that are added to a group in use, and put in the place of others.

use std::{cell::RefCell, rc::Rc};

use cairn_format::{DeviceRole, NO_DEVICE};
use cairn_sim::{CrashPhase, CrashPoint, Fault, SimDisk, SimEnv};
use cairn_store::{DiskGroup, Occupant, StoreErrorKind, occupant_of};
use cairn_types::{ComponentId, DeviceId};

use crate::support::{Group, Rig, SEGMENTS_OFFSET, create, kind, open_options, write};

const SEGMENT_BYTES: u64 = 64 << 10;
const NAMES: [&str; 3] = ["capacity-0", "capacity-1", "capacity-2"];

/// A group with a component on each of its two devices, all destaged, and a device that is not its own yet.
fn rig(seed: u64) -> (Rig, Group) {
    let rig = Rig::new(seed, 16);
    rig.host.add_disk(NAMES[2], SEGMENTS_OFFSET + 32 * SEGMENT_BYTES);
    let group = rig.open();
    for component in 1..=2 {
        rig.append(&group, create(component, 100, 0)).unwrap();
        rig.append(&group, write(component, 1, 1, 0, 4)).unwrap();
    }
    rig.drain(&group);
    (rig, group)
}

fn add(rig: &Rig, group: &Group, instead_of: Option<DeviceId>) -> Result<DeviceId, cairn_store::StoreError> {
    let (group, disk) = (group.clone(), rig.host.disk(NAMES[2]));
    rig.run(async move { group.add_capacity(disk, instead_of).await })
}

/// Opens the group by what stands on its devices, as a host does.
async fn open_found(env: SimEnv, disks: Vec<SimDisk>, cache: SimDisk, expect: cairn_store::Expect) -> Group {
    let Occupant::Superblock(found) = occupant_of(&env, &cache).await else { panic!("a cache device") };
    let DeviceRole::Cache { capacity: ids, .. } = found.role else { panic!("a cache device") };
    let mut capacity = Vec::new();
    for id in ids {
        let mut device = None;
        for disk in &disks {
            let occupant = occupant_of(&env, disk).await;
            if matches!(occupant, Occupant::Superblock(found) if found.device == id) {
                device = Some(disk.clone());
            }
        }
        capacity.push(device);
    }
    DiskGroup::open_without(env, cache, capacity, expect, &open_options()).await.expect("it opens")
}

fn reopen(rig: &Rig) -> Group {
    let disks = NAMES.iter().map(|name| rig.host.disk(name)).collect();
    rig.run(open_found(rig.host.env(), disks, rig.host.disk("cache"), rig.expect()))
}

/// Goal: a device that is added is used at once, and is there after the next opening; the others keep what they have. Method: one more
/// than two, components until it has one, written, destaged, opened again; the same device a second time.
#[test]
fn a_device_that_is_added_is_used_at_once() {
    let (rig, group) = rig(50);
    let usable = group.stats().usable_bytes;
    let told = group.would_grow("capacity-2", SEGMENTS_OFFSET + 32 * SEGMENT_BYTES, None).unwrap();
    let id = add(&rig, &group, None).unwrap();
    assert_eq!(group.device_ids()[3], id);
    assert_eq!(group.stats().usable_bytes, usable + told.usable_bytes);
    rig.append(&group, create(3, 200, 200)).unwrap();
    assert_eq!(group.component(ComponentId(3)).unwrap().device, 2, "the emptiest device is chosen");
    rig.append(&group, write(3, 1, 1, 0, 4)).unwrap();
    rig.drain(&group);
    assert!(group.stats().capacity[2].live_bytes >= 4 * 4096);
    rig.check(&group);
    rig.close(group);
    let group = reopen(&rig);
    assert_eq!((group.device_ids()[3], group.missing()), (id, vec![]));
    for component in 1..=2 {
        assert_eq!(rig.read(&group, component, 0, 4), Ok(vec![1; 4]));
    }
    assert_eq!(rig.read(&group, 3, 0, 4), Ok(vec![1; 4]));
    rig.check(&group);
}

/// Goal: a device that died is replaced in use: what was on it stays lost, the rest stays. Method: one of two dies, the third takes its
/// place; components go there; opened again, with the dead one back.
#[test]
fn a_dead_device_is_replaced() {
    let (rig, group) = rig(51);
    let away = group.component(ComponentId(1)).unwrap().device as usize;
    rig.host.disk(NAMES[away]).inject(Fault::Gone);
    let env = rig.host.env();
    rig.run(async move { cairn_env::Env::sleep(&env, std::time::Duration::from_secs(10)).await });
    assert_eq!(group.lost_components(), [ComponentId(1)]);
    let old = group.device_ids()[away + 1];
    assert_eq!(kind(add(&rig, &group, Some(DeviceId(7)))), StoreErrorKind::Refused);
    let id = add(&rig, &group, Some(old)).unwrap();
    let ids = group.device_ids();
    assert_eq!((ids[away + 1], ids[3]), (NO_DEVICE, id));
    assert!(group.missing().is_empty(), "nobody looks for what was given up");
    rig.append(&group, create(3, 200, 200)).unwrap();
    assert_eq!(group.component(ComponentId(3)).unwrap().device, 2);
    rig.append(&group, write(3, 1, 1, 0, 4)).unwrap();
    assert_eq!(kind(rig.append(&group, write(1, 2, 1, 0, 1))), StoreErrorKind::Lost);
    rig.append(&group, crate::support::delete(1)).unwrap();
    rig.drain(&group);
    rig.close(group);
    rig.host.disk(NAMES[away]).bring_back();
    let group = reopen(&rig);
    assert_eq!((group.device_ids(), group.lost_components()), (ids, vec![]));
    assert_eq!(rig.read(&group, 2, 0, 4), Ok(vec![1; 4]));
    assert_eq!(rig.read(&group, 3, 0, 4), Ok(vec![1; 4]));
    rig.check(&group);
}

/// Goal: a device that works is replaced as one that died, and is blank then. Method: the device of one component.
#[test]
fn a_device_that_works_is_given_up_blank() {
    let (rig, group) = rig(52);
    let away = group.component(ComponentId(1)).unwrap().device as usize;
    let old = group.device_ids()[away + 1];
    add(&rig, &group, Some(old)).unwrap();
    assert_eq!(group.lost_components(), [ComponentId(1)]);
    let (env, disk) = (rig.host.env(), rig.host.disk(NAMES[away]));
    assert_eq!(rig.run(async move { occupant_of(&env, &disk).await }), Occupant::Blank);
    assert_eq!(rig.read(&group, 2, 0, 4), Ok(vec![1; 4]));
    rig.append(&group, write(2, 2, 2, 0, 4)).unwrap();
    rig.drain(&group);
    rig.check(&group);
}

/// Goal: what cannot be added changes nothing. Method: a device too small, two at once, an eighth, a group that is closed.
#[test]
fn what_cannot_be_added_is_refused() {
    let (rig, group) = rig(53);
    let generation = |rig: &Rig| {
        let (env, cache) = (rig.host.env(), rig.host.disk("cache"));
        match rig.run(async move { occupant_of(&env, &cache).await }) {
            Occupant::Superblock(found) => found.generation,
            other => panic!("{other:?}"),
        }
    };
    let before = generation(&rig);
    let small = rig.host.add_disk("small", 1 << 20);
    let own = group.clone();
    assert_eq!(kind(rig.run(async move { own.add_capacity(small, None).await })), StoreErrorKind::Refused);
    assert_eq!(generation(&rig), before);
    let (own, one, two) = (group.clone(), rig.host.disk(NAMES[2]), rig.host.add_disk("more", 4 << 20));
    let (first, second) =
        rig.run(async move { futures::join!(own.add_capacity(one, None), own.add_capacity(two, None)) });
    assert!(first.is_ok() && kind(second) == StoreErrorKind::Refused);
    for n in 3..7 {
        let (own, disk) = (group.clone(), rig.host.add_disk(&format!("more-{n}"), 4 << 20));
        rig.run(async move { own.add_capacity(disk, None).await }).unwrap();
    }
    let (own, disk) = (group.clone(), rig.host.add_disk("eighth", 4 << 20));
    let error = rig.run(async move { own.add_capacity(disk, None).await }).expect_err("seven are the most");
    assert!(error.text.contains("the most"), "{error}");
    rig.close(group.clone());
    let disk = rig.host.disk("more");
    assert!(rig.run(async move { group.add_capacity(disk, None).await }).is_err());
}

/// Goal: power may go at any moment (G1). Method: it goes before, while and after each device operation of an addition, and of a
/// replacement, with writes on the way; then the group opens by what stands on its devices, and what it has not it can be given again.
#[test]
fn power_that_goes_leaves_the_group_with_the_device_or_without() {
    for replaced in [false, true] {
        let mut seen = [0, 0];
        for (operation, phase) in
            (1..40).flat_map(|n| [CrashPhase::Before, CrashPhase::During, CrashPhase::After].map(|phase| (n, phase)))
        {
            let seed = 1000 + operation * 3 + phase as u64;
            let (rig, group) = rig(seed);
            let away = group.component(ComponentId(1)).unwrap().device as usize;
            let instead_of = replaced.then(|| group.device_ids()[away + 1]);
            rig.host.count_disk_operations_from_zero();
            rig.host.crash_at(CrashPoint { operation, phase, loss_seed: seed });
            let (own, disk) = (group.clone(), rig.host.disk(NAMES[2]));
            let answered = Rc::new(RefCell::new(Vec::new()));
            let told = answered.clone();
            let ran = rig.host.run(async move {
                let added = async { own.add_capacity(disk, instead_of).await.map(|_| told.borrow_mut().push(0)) };
                let written = async { own.append(write(2, 2, 1, 0, 2)).await.map(|()| told.borrow_mut().push(2)) };
                let _ = futures::join!(added, written);
            });
            rig.host.no_planned_crash();
            if ran.is_ok() {
                break;
            }
            drop(group);
            rig.host.crash(seed);
            rig.host.restart();
            let group = reopen(&rig);
            let at = format!("{replaced} {operation} {phase:?}");
            let has = group.device_ids().len() == 4;
            seen[usize::from(has)] += 1;
            assert!(has || !answered.borrow().contains(&0), "{at}: it was added");
            assert_eq!(
                group.stats().capacity.iter().filter(|d| !d.failed).count(),
                if has && !replaced { 3 } else { 2 },
                "{at}"
            );
            let now = rig.read(&group, 2, 0, 4).unwrap_or_else(|e| panic!("{at}: {e}"));
            let wrote = now[0] == 2;
            assert!(wrote || !answered.borrow().contains(&2), "{at}: an acknowledged write");
            assert!(now[2..].iter().all(|tag| *tag == 1), "{at}: {now:?}");
            match group.lost_components().as_slice() {
                [] => assert_eq!(rig.read(&group, 1, 0, 4), Ok(vec![1; 4]), "{at}"),
                lost => assert!(replaced && lost == [ComponentId(1)], "{at}: {lost:?}"),
            }
            if !has {
                let old = replaced.then(|| group.device_ids()[away + 1]);
                add(&rig, &group, old).unwrap_or_else(|e| panic!("{at}: again: {e}"));
            }
            rig.append(&group, create(3, 200, 200)).unwrap();
            rig.append(&group, write(3, 1, 1, 0, 4)).unwrap();
            rig.drain(&group);
            rig.check(&group);
        }
        assert!(seen[0] > 0 && seen[1] > 0, "both ends were seen: {seen:?}");
    }
}
