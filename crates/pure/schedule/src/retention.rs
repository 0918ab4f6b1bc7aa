//! Which snapshots of a schedule go.
//!
//! Promises    none goes that is locked, that was taken by hand, or that another schedule took; the newest never goes
//!             what goes does not depend on the clock: of hours, days and weeks those count in which there is a snapshot. So a clock that is wrong,
//!             or a pause of a month, deletes nothing
//! Not here    deleting: an owner refuses what it knows better

use std::collections::BTreeSet;

use cairn_types::{Keep, Snapshot, SnapshotId};

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;
/// The first Monday of 1970 was its fifth day.
const MONDAY_S: u64 = 3 * DAY_S;

/// The snapshots of a disk that a schedule of this name does not keep, the oldest first.
pub fn to_delete(snapshots: &[Snapshot], schedule: &str, keep: &Keep, now_unix_ms: u64) -> Vec<SnapshotId> {
    let own = snapshots.iter().filter(|snapshot| snapshot.schedule() == Some(schedule));
    let mut own: Vec<(u64, &Snapshot)> = own.filter_map(|one| Some((one.slot_unix_s?, one))).collect();
    own.sort_by_key(|(slot, one)| (*slot, one.cut));
    let newest_first = || own.iter().rev().map(|(slot, one)| (*slot, one.id));
    let mut kept: BTreeSet<SnapshotId> = newest_first().take(keep.last as usize).map(|(_, id)| id).collect();
    let hour = |slot: u64| slot / HOUR_S;
    let day = |slot: u64| slot / DAY_S;
    let week = |slot: u64| (slot + MONDAY_S) / (7 * DAY_S);
    kept.extend(newest_of(newest_first(), hour, keep.hourly));
    kept.extend(newest_of(newest_first(), day, keep.daily));
    kept.extend(newest_of(newest_first(), week, keep.weekly));
    // By rules that keep nothing nothing goes: there are none such.
    kept.extend(newest_first().map(|(_, id)| id).next());
    let goes = |one: &Snapshot| !kept.contains(&one.id) && !one.is_locked(now_unix_ms);
    own.iter().filter(|(_, one)| goes(one)).map(|(_, one)| one.id).collect()
}

/// The newest of each of so many times, of the newest such times.
fn newest_of(
    newest_first: impl Iterator<Item = (u64, SnapshotId)>,
    time_of: impl Fn(u64) -> u64,
    count: u32,
) -> Vec<SnapshotId> {
    let mut last = None;
    let first_of_its_time = |(slot, _): &(u64, SnapshotId)| last.replace(time_of(*slot)) != Some(time_of(*slot));
    newest_first.filter(first_of_its_time).take(count as usize).map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests;
