//! A map that was filled without data: it is as good as one that was written, but for what its blocks hold.

use std::collections::BTreeMap;

use cairn_sim::{CrashPhase, CrashPoint};
use cairn_store::{Fill, FillOrder, Filled, Needs, OpenOptions, StoreError, StoreErrorKind};
use cairn_types::ComponentId;

use crate::support::{Group, Rig, create, delete, kind, open_options, settle, write, zero};

/// Blocks that are mapped before anything is filled, and those that are filled: both end in the second shard.
const WRITTEN: (u64, u32) = (130_500, 3);
const FILLED: u64 = 130_000;

fn open(rig: &Rig, allowed: Needs, leaves_max: usize) -> Group {
    let options = OpenOptions { allowed, map_page_leaves_max: leaves_max, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { Group::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

fn fill(rig: &Rig, group: Group, fill: Fill) -> Result<Filled, StoreError> {
    rig.run(async move { group.fill_map(&fill, &|done, whole| assert!(done <= whole)).await })
}

fn check_bookkeeping(rig: &Rig, group: &Group) {
    let group = group.clone();
    assert_eq!(rig.run(async move { group.check_bookkeeping().await }), Ok(()));
}

fn allocated(group: &Group, component: u128) -> u64 {
    group.component(ComponentId(component)).expect("it is here").allocated_blocks
}

fn live_blocks(group: &Group) -> u64 {
    group.stats().capacity.iter().map(|device| device.live_bytes / 4096).sum()
}

fn is_bad(rig: &Rig, group: &Group, component: u128, block: u64) -> bool {
    let read = rig.read(group, component, block, 1);
    matches!(read, Err(StoreError { kind: StoreErrorKind::BadBlock { blocks, .. }, .. }) if blocks == [block])
}

/// A component on each device, with few blocks of the first one written.
fn with_components(rig: &Rig, allowed: Needs) {
    let group = open(rig, allowed, 1024);
    rig.append(&group, create(1, 150_000, 0)).unwrap();
    rig.append(&group, create(2, 70_000, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, WRITTEN.0, WRITTEN.1)).unwrap();
    rig.append(&group, settle(1, 1)).unwrap();
    rig.drain(&group);
    let devices = [1, 2].map(|id| group.component(ComponentId(id)).unwrap().device);
    assert_ne!(devices[0], devices[1]);
    rig.close(group);
}

/// Goal: a filled map is one that the store takes for its own, and its space comes back. Method: both orders, a group of rows and one of
/// pages; it is opened anew, checked, written over, trimmed, deleted; what was there before and what was written reads right.
#[test]
fn a_filled_map_is_as_good_as_a_written_one() {
    for (seed, order, allowed) in [(41, FillOrder::Random, Needs::NONE), (42, FillOrder::Sequential, Needs::MAP_PAGES)]
    {
        let rig = Rig::of_sizes(seed, 16 << 20, 700, 1 << 20);
        with_components(&rig, allowed);
        let group = open(&rig, Needs::NONE, 1024);
        assert_eq!(group.needs(), allowed);
        let what = Fill { blocks_max: Some(FILLED), order, seed, ..Fill::default() };
        let plan = group.plan_fill(&what).expect("there is room");
        let filled = fill(&rig, group, what).expect("there is room");
        assert_eq!((filled.blocks, plan.blocks, plan.components), (FILLED + 70_000, FILLED + 70_000, 2));
        // Nearly as it was planned: 12.8 bytes a block at random, 4.9 in order.
        assert!(filled.pages.abs_diff(plan.pages) <= 4, "{filled:?} {plan:?}");
        let bytes = filled.pages * 4096 / filled.blocks;
        assert!(
            if order == FillOrder::Random { (10..14).contains(&bytes) } else { bytes < 6 },
            "{bytes} bytes a block"
        );

        let group = rig.open();
        assert_eq!(group.needs(), Needs::MAP_PAGES);
        check_bookkeeping(&rig, &group);
        let sizes = [allocated(&group, 1), allocated(&group, 2)];
        assert_eq!(sizes, [FILLED + u64::from(WRITTEN.1), 70_000]);
        assert_eq!(live_blocks(&group), sizes[0] + sizes[1]);
        assert_eq!(group.stats().map_waiting_blocks, 0);
        assert_eq!(rig.read(&group, 1, WRITTEN.0, WRITTEN.1), Ok(vec![1; WRITTEN.1 as usize]));
        for block in [0, 77, 65_536, FILLED - 1] {
            assert!(is_bad(&rig, &group, 1, block), "block {block} was never written");
        }
        assert_eq!(rig.read(&group, 1, FILLED, 3), Ok(vec![0; 3]), "holes stay holes");
        let error = group.plan_fill(&what).expect_err("it is mapped");
        assert!(error.kind == StoreErrorKind::Refused && error.text.contains("mapped"), "{error}");

        let group = write_over(&rig, group);
        let before = allocated(&group, 2);
        rig.append(&group, zero(2, 500, 499, 1000, 5000)).unwrap();
        rig.append(&group, settle(2, 500)).unwrap();
        rig.drain(&group);
        check_bookkeeping(&rig, &group);
        assert_eq!(allocated(&group, 2), before - 5000);
        rig.append(&group, delete(1)).unwrap();
        rig.append(&group, delete(2)).unwrap();
        rig.drain(&group);
        let group = rig.reopen(group);
        rig.check(&group);
        assert_eq!((live_blocks(&group), group.stats().charged_bytes, group.stats().map_waiting_blocks), (0, 0, 0));
        assert!(group.stats().capacity.iter().all(|device| device.segments_free == device.segments));
    }
}

/// Writes some blocks of the first component, destages them and reads them back, also after an opening.
fn write_over(rig: &Rig, group: Group) -> Group {
    let mut written = BTreeMap::new();
    for seq in 2..300u64 {
        let block = rig.world.random_below(FILLED);
        rig.append(&group, write(1, seq, seq - 1, block, 1)).unwrap();
        written.insert(block, seq);
    }
    rig.append(&group, settle(1, 299)).unwrap();
    rig.drain(&group);
    check_bookkeeping(rig, &group);
    assert_eq!(allocated(&group, 1), FILLED + u64::from(WRITTEN.1), "what is mapped is written over");
    let group = rig.reopen(group);
    check_bookkeeping(rig, &group);
    for (&block, &tag) in &written {
        assert_eq!(rig.read(&group, 1, block, 1), Ok(vec![tag]), "block {block}");
    }
    group
}

/// Goal: segments of a filled map are cleaned as others are. Method: a device that is nearly full with it is written over until some were;
/// what was written reads right, and what was not is as bad as before, wherever it stands by now.
#[test]
fn segments_of_a_filled_map_are_cleaned() {
    let rig = Rig::of_sizes(43, 16 << 20, 60, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 12_000, 0)).unwrap();
    rig.drain(&group);
    let filled = fill(&rig, group, Fill { seed: 1, ..Fill::default() }).expect("there is room");
    assert_eq!(filled.blocks, 12_000);
    let group = rig.open();
    let (mut written, mut seq) = (BTreeMap::new(), 0u64);
    while group.stats().counters.cleaned_segments < 20 {
        assert!(seq < 20_000, "nothing was cleaned");
        seq += 1;
        let block = rig.world.random_below(8_000);
        rig.append(&group, write(1, seq, seq - 1, block, 4)).unwrap();
        written.extend((block..block + 4).map(|block| (block, seq)));
    }
    rig.append(&group, settle(1, seq)).unwrap();
    rig.drain(&group);
    check_bookkeeping(&rig, &group);
    let group = rig.reopen(group);
    assert_eq!((allocated(&group, 1), live_blocks(&group)), (12_000, 12_000));
    for block in (0..12_000).step_by(7) {
        match written.get(&block) {
            Some(&tag) => assert_eq!(rig.read(&group, 1, block, 1), Ok(vec![tag]), "block {block}"),
            None => assert!(is_bad(&rig, &group, 1, block), "block {block} was never written"),
        }
    }
}

/// Goal: what cannot come to its end is refused before anything is changed. Method: metadata, segments and reservations that are too few,
/// a component that is not there, and a group that somebody else has.
#[test]
fn what_does_not_fit_is_refused_before_anything_is_changed() {
    let rig = Rig::of_sizes(44, 8 << 20, 700, 1 << 20);
    with_components(&rig, Needs::NONE);
    let what = Fill { blocks_max: Some(FILLED), ..Fill::default() };
    // A page a leaf: 4 MiB of them a shard.
    let error = fill(&rig, open(&rig, Needs::NONE, 1), what).expect_err("there is no room for pages");
    assert_eq!(error.kind, StoreErrorKind::NoSpace);
    assert!(error.text.contains("bytes of metadata") && error.text.contains("fill at most"), "{error}");
    let group = open(&rig, Needs::NONE, 1024);
    assert_eq!(group.needs(), Needs::NONE);
    let unknown = Fill { component: Some(ComponentId(9)), ..what };
    assert_eq!(kind(group.plan_fill(&unknown)), StoreErrorKind::NotFound);
    rig.append(&group, create(3, 0, 0)).unwrap();
    let witness = Fill { component: Some(ComponentId(3)), ..what };
    assert_eq!(kind(group.plan_fill(&witness)), StoreErrorKind::Refused);
    let error = fill(&rig, group.clone(), what).expect_err("there is another handle");
    assert!(error.kind == StoreErrorKind::Refused && error.text.contains("somebody else"), "{error}");
    assert_eq!((allocated(&group, 1), allocated(&group, 2)), (u64::from(WRITTEN.1), 0));
    rig.check(&group);
    rig.close(group);

    let small = Rig::of_sizes(45, 16 << 20, 60, 1 << 20);
    let group = small.open();
    // Two of them share a device, which has 14,478 blocks for components.
    [2, 3, 4].into_iter().for_each(|id| small.append(&group, create(id, 20_000, 6_000)).unwrap());
    let plan = |id: u128, most: u64| {
        group.plan_fill(&Fill { component: Some(ComponentId(id)), blocks_max: Some(most), ..Fill::default() })
    };
    let refused: Vec<_> = [2, 3, 4].into_iter().filter_map(|id| plan(id, 12_000).err()).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused.iter().all(|error| error.kind == StoreErrorKind::NoSpace && error.text.contains("reserved")));
    assert!([2, 3, 4].into_iter().all(|id| plan(id, 8_000).is_ok()));
    small.append(&group, create(1, 150_000, 0)).unwrap();
    let error = group.plan_fill(&Fill { component: Some(ComponentId(1)), ..Fill::default() }).expect_err("too large");
    assert!(error.kind == StoreErrorKind::NoSpace && error.text.contains("free segments"), "{error}");
    small.check(&group);
}

/// Goal: a crash leaves some pieces whole and nothing of the others. Method: power is lost at a dozen moments of one filling, each of a
/// group of its own; what is there then is checked, and goes.
#[test]
fn a_crash_leaves_whole_pieces() {
    let what = Fill { blocks_max: Some(FILLED), seed: 3, ..Fill::default() };
    let filling = |crash: Option<u64>| {
        let rig = Rig::of_sizes(46, 16 << 20, 700, 1 << 20);
        with_components(&rig, Needs::MAP_PAGES);
        let group = rig.open();
        rig.host.count_disk_operations_from_zero();
        if let Some(operation) = crash {
            rig.host.crash_at(CrashPoint { operation, phase: CrashPhase::During, loss_seed: operation });
        }
        let done = rig.host.run(async move { group.fill_map(&what, &|_, _| ()).await.is_ok() });
        rig.host.no_planned_crash();
        (rig, done)
    };
    let (rig, done) = filling(None);
    assert!(matches!(done, Ok(true)));
    let operations = rig.host.disk_operations();
    let mut seen = BTreeMap::<u64, u32>::new();
    for part in 1..=12 {
        let (rig, done) = filling(Some(operations * part / 13));
        assert!(done.is_err(), "power was lost");
        rig.host.restart();
        let group = rig.open();
        check_bookkeeping(&rig, &group);
        let own = [allocated(&group, 1) - u64::from(WRITTEN.1), allocated(&group, 2)];
        assert!([0, FILLED].contains(&own[0]) && [0, 70_000].contains(&own[1]), "{own:?}");
        *seen.entry(own[0] + own[1]).or_default() += 1;
        rig.append(&group, delete(1)).unwrap();
        rig.append(&group, delete(2)).unwrap();
        rig.drain(&group);
        rig.check(&group);
        assert_eq!(live_blocks(&group), 0);
    }
    assert!(seen.len() >= 2, "each crash left the same: {seen:?}");
}
