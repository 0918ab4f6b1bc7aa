//! What an earlier release left in rows of the map, and a group at rest.

use std::{collections::BTreeMap, time::Duration};

use cairn_env::Env;
use cairn_sim::Fault;
use cairn_store::{Needs, OpenOptions, StoreErrorKind};
use cairn_types::ComponentId;

use crate::support::{Group, Rig, create, delete, kind, open_options, settle, write, zero};

/// Blocks of a shard of the map.
const SHARD_BLOCKS: u64 = 1 << 16;
/// Longer than the pause between two shards, times the shards there are, and a few for the rows of segments.
const REST: Duration = Duration::from_secs(30);
const COMPONENTS: std::ops::RangeInclusive<u128> = 1..=3;

/// What blocks hold: by component and block, the write that was last.
type Expected = BTreeMap<(u128, u64), u64>;

fn open(rig: &Rig, allowed: Needs) -> Group {
    let options = OpenOptions { allowed, map_waiting_blocks: Some(12), map_page_leaves_max: 2, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { Group::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

/// A group as 0.2.0 has it, closed: three components of four shards each, rows settled and waiting, zeroes.
fn group_of_rows(rig: &Rig) -> Expected {
    let group = open(rig, Needs::NONE);
    let mut expected = Expected::new();
    COMPONENTS.for_each(|id| rig.append(&group, create(id, 4 * SHARD_BLOCKS, 0)).unwrap());
    for seq in 1..=600u64 {
        let (id, block) =
            (1 + u128::from(seq % 3), rig.world.random_below(4) * SHARD_BLOCKS + rig.world.random_below(30) * 70);
        match seq % 11 {
            0 => rig.append(&group, zero(id, seq, seq - 1, block, 1)).unwrap(),
            _ => rig.append(&group, write(id, seq, seq - 1, block, 1)).unwrap(),
        }
        expected.insert((id, block), if seq % 11 == 0 { 0 } else { seq });
        if seq % 200 == 0 {
            COMPONENTS.for_each(|id| rig.append(&group, settle(id, seq)).unwrap());
            rig.drain(&group);
        }
    }
    rig.close(group);
    expected
}

fn rest(rig: &Rig) {
    let env = rig.host.env();
    rig.run(async move { env.sleep(REST).await });
}

/// Reads what components but this one hold.
fn check_all_but(rig: &Rig, group: &Group, gone: u128, expected: &Expected) {
    for (&(id, block), &tag) in expected.iter().filter(|((id, _), _)| *id != gone) {
        assert_eq!(rig.read(group, id, block, 1), Ok(vec![tag]), "block {block} of {id}");
    }
    rig.check(group);
}

/// Goal: a group at rest goes over to pages as a whole. Method: a group of rows, less a component that was deleted, is allowed more and
/// left alone.
#[test]
fn rows_of_an_earlier_release_go_at_rest() {
    let rig = Rig::new(36, 40);
    let expected = group_of_rows(&rig);
    let group = open(&rig, Needs::NONE);
    rig.append(&group, delete(3)).unwrap();
    rig.close(group);
    let group = open(&rig, Needs::ALL);
    rig.drain(&group);
    assert!(group.stats().map_has_rows);
    rest(&rig);
    rig.check(&group);
    assert!(!group.stats().map_has_rows);
    let pages_written = group.stats().counters.map_pages_written;
    assert!(pages_written > 50, "{pages_written}");
    let group = rig.reopen(group);
    assert!(!group.stats().map_has_rows, "nothing was left");
    check_all_but(&rig, &group, 3, &expected);
}

/// Goal: rows of a component whose device failed are neither taken for none nor in the way of others'. Method: the device goes before the
/// rest begins; all others go over; the component is deleted, and its rows go once the device is back.
#[test]
fn rows_of_a_failed_device_stay_and_are_in_nobodys_way() {
    let rig = Rig::new(37, 40);
    let expected = group_of_rows(&rig);
    let group = open(&rig, Needs::ALL);
    let device = usize::from(group.component(ComponentId(1)).unwrap().device);
    let lost_with_it = |id: u128| usize::from(group.component(ComponentId(id)).unwrap().device) == device;
    let others: Vec<u128> = COMPONENTS.filter(|id| !lost_with_it(*id)).collect();
    assert!(!others.is_empty(), "components are spread over both devices");
    let broken = rig.host.disk(["capacity-0", "capacity-1"][device]);
    broken.inject(Fault::Gone);
    rig.append(&group, write(1, 601, 600, 0, 1)).unwrap();
    rig.drain(&group);
    assert!(group.lost_components().contains(&ComponentId(1)));
    rest(&rig);
    let pages_written = group.stats().counters.map_pages_written;
    assert!(pages_written > 10, "the others' rows went: {pages_written}");
    assert!(group.stats().map_has_rows, "those of the lost component are there");
    assert_eq!(kind(rig.read(&group, 1, 0, 1)), StoreErrorKind::Lost);
    rest(&rig);
    assert_eq!(group.stats().counters.map_pages_written, pages_written, "nothing is left to do");
    let of_others: Expected = expected.into_iter().filter(|((id, _), _)| others.contains(id)).collect();
    check_all_but(&rig, &group, 1, &of_others);
    broken.bring_back();
    let lost = group.lost_components();
    lost.iter().for_each(|id| rig.append(&group, delete(id.0)).unwrap());
    let group = rig.reopen(group);
    rig.drain(&group);
    rest(&rig);
    assert!(!group.stats().map_has_rows, "what was deleted has none");
    check_all_but(&rig, &group, 1, &of_others);
}

/// Goal: a group that stopped at rest changes nothing on its devices any more. Method: a log write fails while rows are left; the group
/// is left alone, then opened again and left alone once more.
#[test]
fn a_group_that_stopped_leaves_its_rows() {
    let rig = Rig::new(38, 40);
    let expected = group_of_rows(&rig);
    let group = open(&rig, Needs::ALL);
    rig.drain(&group);
    rig.devices().cache.inject(Fault::WriteErrorNext);
    assert_eq!(kind(rig.append(&group, write(1, 601, 600, 0, 1))), StoreErrorKind::Media);
    let before = group.stats();
    assert!(before.map_has_rows && before.stopped.is_some());
    rest(&rig);
    let after = group.stats();
    assert_eq!(after.counters.map_pages_written, before.counters.map_pages_written);
    assert!(after.map_has_rows);
    let group = rig.reopen(group);
    rest(&rig);
    assert!(!group.stats().map_has_rows);
    // Whether the write that failed is there is not known.
    let known = expected.into_iter().filter(|(at, _)| *at != (1, 0)).collect();
    check_all_but(&rig, &group, 0, &known);
}
