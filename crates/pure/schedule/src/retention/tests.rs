//! What is kept, beside rules that are said one by one.

use cairn_types::{OpId, scheduled_name};
use proptest::prelude::*;

use super::*;

fn snapshot(id: u64, schedule: &str, slot_unix_s: u64) -> Snapshot {
    Snapshot {
        id: SnapshotId(id),
        name: scheduled_name(schedule, slot_unix_s),
        created_unix_ms: slot_unix_s * 1000,
        size_bytes: 1 << 20,
        cut: OpId { seq: id, ..OpId::ZERO },
        locked_until_unix_ms: 0,
        slot_unix_s: Some(slot_unix_s),
    }
}

/// 2026-11-29 00:00:00 UTC, a Sunday.
const SUNDAY: u64 = 1_795_910_400;

fn kept(all: &[Snapshot], keep: Keep, now_unix_ms: u64) -> Vec<u64> {
    let gone = to_delete(all, "s", &keep, now_unix_ms);
    all.iter().filter(|one| !gone.contains(&one.id)).map(|one| one.id.0).collect()
}

/// Goal: hours, days and weeks are those of people. Method: a snapshot every six hours of three weeks; numbers count these.
#[test]
fn the_newest_of_days_and_weeks_stay() {
    let first = SUNDAY - 20 * DAY_S;
    let all: Vec<Snapshot> = (0..84).map(|n| snapshot(n, "s", first + n * 6 * HOUR_S)).collect();
    let now = (first + 83 * 6 * HOUR_S) * 1000;
    let keep = Keep::default();
    assert_eq!(kept(&all, Keep { last: 3, ..keep }, now), [81, 82, 83]);
    // 18:00 of today and of the days before.
    assert_eq!(kept(&all, Keep { daily: 3, ..keep }, now), [75, 79, 83]);
    // A week ends on Sunday at 18:00.
    assert_eq!(kept(&all, Keep { weekly: 4, ..keep }, now), [27, 55, 83]);
    assert_eq!(kept(&all, Keep { last: 2, hourly: 3, daily: 2, weekly: 2 }, now), [55, 79, 81, 82, 83]);
    assert_eq!(
        to_delete(&all, "s", &Keep { last: 82, ..keep }, now),
        [SnapshotId(0), SnapshotId(1)],
        "the oldest first"
    );
}

#[test]
fn what_is_locked_or_of_others_stays() {
    let by_hand = Snapshot { slot_unix_s: None, ..snapshot(1, "s", SUNDAY) };
    let locked = Snapshot { locked_until_unix_ms: 2_000, ..snapshot(2, "s", SUNDAY + 10) };
    let all =
        [by_hand, locked, snapshot(3, "s2", SUNDAY), snapshot(4, "s", SUNDAY + 20), snapshot(5, "s", SUNDAY + 30)];
    let last = Keep { last: 1, ..Keep::default() };
    assert_eq!(kept(&all, last, 1_999), [1, 2, 3, 5]);
    assert_eq!(kept(&all, last, 2_000), [1, 3, 5]);
}

/// All rules, asked of one snapshot.
fn stays(all: &[Snapshot], one: &Snapshot, keep: &Keep, now_unix_ms: u64) -> bool {
    let own = |other: &&Snapshot| other.schedule() == Some("s");
    if !own(&one) || one.is_locked(now_unix_ms) {
        return true;
    }
    let slot = |one: &Snapshot| one.slot_unix_s.unwrap_or_default();
    let newer = || all.iter().filter(own).filter(|other| slot(other) > slot(one));
    let newest_of = |unit: fn(u64) -> u64, count: u32| {
        let same = newer().any(|other| unit(slot(other)) == unit(slot(one)));
        let later: BTreeSet<u64> = newer().map(|other| unit(slot(other))).collect();
        !same && later.len() < count as usize
    };
    newer().count() < keep.last as usize
        || newer().count() == 0
        || newest_of(|slot| slot / HOUR_S, keep.hourly)
        || newest_of(|slot| slot / DAY_S, keep.daily)
        || newest_of(|slot| (slot / DAY_S + 3) / 7, keep.weekly)
}

proptest! {
    /// Goal: exactly what a rule keeps stays; once more deletes nothing more; a disk never has more than the rules say. Method: any snapshots, beside
    /// the rules asked of each of them.
    #[test]
    fn it_is_the_rules(
        slots in prop::collection::btree_map(0u64..5_000, (0u64..6, prop::bool::weighted(0.2)), 0..60),
        numbers in prop::array::uniform4(0u32..6),
        unit in prop::sample::select(vec![60u64, 600, 3600, 10_800, 86_400]),
    ) {
        let [last, hourly, daily, weekly] = numbers;
        let keep = Keep { last, hourly, daily, weekly };
        let now = SUNDAY * 1000;
        let one = |(id, (slot, (kind, locked))): (usize, (u64, (u64, bool)))| Snapshot {
            locked_until_unix_ms: if locked { now + 1 } else { 0 },
            slot_unix_s: (kind > 0).then_some(SUNDAY + slot * unit),
            ..snapshot(id as u64, if kind == 1 { "other" } else { "s" }, SUNDAY + slot * unit)
        };
        let all: Vec<Snapshot> = slots.into_iter().enumerate().map(one).collect();
        let expected: Vec<u64> =
            all.iter().filter(|one| stays(&all, one, &keep, now)).map(|one| one.id.0).collect();
        prop_assert_eq!(kept(&all, keep, now), expected);
        let left: Vec<Snapshot> = {
            let gone = to_delete(&all, "s", &keep, now);
            all.iter().filter(|one| !gone.contains(&one.id)).cloned().collect()
        };
        prop_assert!(to_delete(&left, "s", &keep, now).is_empty());
        let free = left.iter().filter(|one| one.schedule() == Some("s") && !one.is_locked(now)).count();
        prop_assert!(free <= (last + hourly + daily + weekly).max(1) as usize);
    }
}
