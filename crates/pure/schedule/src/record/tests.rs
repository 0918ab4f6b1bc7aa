//! Runs that begin, are taken over, end and are missed.

use cairn_types::Keep;

use super::*;

const HOUR: u64 = 3600;
const TEN: u64 = 1_795_946_400;
const A: HostId = HostId(1);
const B: HostId = HostId(2);

fn hourly() -> ScheduleRecord {
    let schedule = Schedule {
        disks: vec!["web-*".into()],
        every_s: HOUR,
        keep: Keep { last: 3, ..Keep::default() },
        locked_for_s: 0,
    };
    ScheduleRecord::new(schedule).begins((TEN - 60) * 1000)
}

fn begun(record: &ScheduleRecord, slot: u64, by: HostId, left: Option<u32>) -> Option<ScheduleRecord> {
    record.begun(slot, by, slot * 1000 + 7, left)
}

/// Goal: one host has a run; another one takes it over only as the attempt that it saw. Method: two hosts that try in turn.
#[test]
fn a_run_has_one_host_at_a_time() {
    let new = hourly();
    assert_eq!((new.due((TEN - 1) * 1000), new.due(TEN * 1000)), (None, Some(TEN)));
    let by_a = begun(&new, TEN, A, None).expect("it is due");
    assert_eq!(begun(&by_a, TEN, B, None), None);
    assert_eq!(begun(&by_a, TEN, A, None), Some(by_a.clone()), "its own process before");
    let by_b = begun(&by_a, TEN, B, Some(1)).expect("it was left");
    assert_eq!(by_b.under_way(TEN).map(|run| (run.by, run.attempt)), Some((B, 2)));
    assert_eq!(begun(&by_b, TEN, A, Some(1)), None, "another attempt than was seen");
    assert_eq!(by_b.tried(TEN, A, TEN * 1000, (9, &[])), None, "it is not this host's any more");
    let over = by_b.tried(TEN, B, TEN * 1000 + 9, (2, &[])).expect("it ends");
    assert_eq!((over.over_unix_s, over.due((TEN + HOUR - 1) * 1000), over.missed_total), (Some(TEN), None, 0));
    assert_eq!(begun(&over, TEN, A, Some(2)), None);
    assert_eq!(over.run.as_ref().map(|run| (run.disks, run.ended_unix_ms)), Some((2, Some(TEN * 1000 + 9))));
}

/// Goal: what lacks a disk goes on until the next one is due, and is missed then, as those are that nobody began.
#[test]
fn what_comes_to_no_end_is_missed() {
    let by_a = begun(&hourly(), TEN, A, None).expect("it is due");
    let problems: Vec<String> = (0..20).map(|n| format!("web-{n}: {}", "x".repeat(1000))).collect();
    let lacks = by_a.tried(TEN, A, TEN * 1000, (1, &problems)).expect("it is told");
    let run = lacks.under_way(TEN).expect("it goes on");
    assert_eq!((run.problems.len(), run.problems[16].as_str()), (17, "and 4 more"));
    assert!(run.problems[0].len() < 410);
    assert_eq!(lacks.tried(TEN, A, TEN * 1000 + 5, (1, &problems)), None, "nothing new");
    assert_eq!(lacks.due((TEN + 60) * 1000), Some(TEN));
    let later = TEN + 4 * HOUR;
    let next = begun(&lacks, later, B, None).expect("a later one is due");
    assert_eq!(next.missed_total, 4, "10, 11, 12 and 13 o'clock");
    let missed = next.missed.clone().expect("they are told");
    assert_eq!((missed.runs, missed.first_unix_s, missed.last_unix_s), (4, TEN, TEN + 3 * HOUR));
    // Begun once more they are not counted twice.
    let again = begun(&next, later, A, Some(1)).expect("it was left");
    assert_eq!(again.missed_total, 4);
    assert_eq!(again.tried(TEN, A, 0, (1, &[])), None, "the former one is over");
    assert_eq!(begun(&next, TEN + 3 * HOUR, A, Some(1)), None, "a clock that is behind");
}

/// Goal: a pause is no miss, other distances begin with their next run, and a clock that was wrong is got over. What is asked for has no time of its own.
#[test]
fn pauses_and_other_rules_begin_with_the_next_run() {
    let new = ScheduleRecord::new(hourly().schedule);
    assert!(new.is_new() && new.due(u64::MAX).is_none() && begun(&new, TEN, A, None).is_none());
    assert_eq!(new.next((TEN + 9) * 1000), Some(TEN + HOUR));
    let paused = hourly().with_paused(true);
    assert_eq!((paused.due((TEN + 5 * HOUR) * 1000), paused.next(0), paused.is_new()), (None, None, false));
    assert_eq!(begun(&paused, TEN, A, None), None);
    assert!(!new.with_paused(true).is_new());
    let resumed = paused.with_paused(false);
    assert!(resumed.is_new());
    let resumed = resumed.begins((TEN + 5 * HOUR + 9) * 1000);
    assert_eq!(resumed.due((TEN + 6 * HOUR - 1) * 1000), None);
    assert_eq!(begun(&resumed, TEN + 6 * HOUR, A, None).map(|record| record.missed_total), Some(0));
    let often = Schedule { every_s: 600, ..hourly().schedule };
    let edited = hourly().edited(often);
    assert!(edited.is_new());
    let edited = edited.begins((TEN + 1300) * 1000);
    assert_eq!((edited.due((TEN + 1799) * 1000), edited.next((TEN + 1300) * 1000)), (None, Some(TEN + 1800)));
    let other_keep = Schedule { keep: Keep { last: 9, ..Keep::default() }, ..hourly().schedule };
    assert_eq!(hourly().edited(other_keep).due((TEN + 60) * 1000), Some(TEN), "it is still due");
    // A month ahead of time.
    let ahead = ScheduleRecord { over_unix_s: Some(TEN + 720 * HOUR), ..hourly() };
    assert!(ahead.is_ahead(TEN * 1000) && !hourly().is_ahead(TEN * 1000));
    let right = ahead.with_paused(false).begins(TEN * 1000);
    assert_eq!((right.is_ahead(TEN * 1000), right.next(TEN * 1000)), (false, Some(TEN + HOUR)));
}

/// Goal: what is stored stays readable. Method: a record as this release writes it.
#[test]
fn a_record_is_plain_json() {
    let over = begun(&hourly(), TEN, A, None).and_then(|record| record.tried(TEN, A, 5, (2, &[]))).expect("it ends");
    let json = serde_json::json!({
        "disks": ["web-*"], "every_s": 3600, "keep": {"last": 3, "hourly": 0, "daily": 0, "weekly": 0}, "locked_for_s": 0,
        "paused": false, "over_unix_s": TEN, "missed_total": 0,
        "run": {"slot_unix_s": TEN, "attempt": 1, "by": A, "begun_unix_ms": TEN * 1000 + 7, "ended_unix_ms": 5, "disks": 2}
    });
    assert_eq!(serde_json::to_value(&over).expect("plain data"), json);
    assert_eq!(serde_json::from_value::<ScheduleRecord>(json).expect("what was written"), over);
}

#[test]
fn a_new_record_has_no_time() {
    let new = ScheduleRecord::new(hourly().schedule);
    let json = serde_json::to_value(&new).expect("plain data");
    assert!(json.get("over_unix_s").is_none());
    assert_eq!(serde_json::from_value::<ScheduleRecord>(json).expect("what was written"), new);
}
