//! Whether schedules of snapshots run in time, and on all their disks.

use cairn_api::v1::{self, Severity};
use cairn_types::format_utc;

use super::check::{Check, Looked, Picture, ScheduleSeen, finding};

/// A run that has come to no end for so long is told.
const LATE_S: u64 = 60;
/// What was missed is told for so long; `cairn health history` has it afterwards.
const MISSED_TOLD_MS: u64 = 86_400_000;

/// Schedules run.
pub(crate) const SCHEDULES: Check = Check {
    name: "snapshot-schedules",
    looks_at: "every schedule of snapshots: its runs, and the disks that it matches",
    finds: "each disk that a run has no snapshot of: an error; each schedule of which no host runs what has been due for a minute, that missed runs within a day, that matches no disk, or that ran ahead of time by a wrong clock, and each disk for which schedules ask for more snapshots than there may be: a warning",
    look,
};

fn look(picture: &Picture) -> Looked {
    let mut findings: Vec<v1::Finding> = Vec::new();
    for seen in &picture.schedules {
        findings.extend(lacking(seen));
        findings.extend(late(seen, picture.day_unix_ms));
        findings.extend(missed(seen, picture.day_unix_ms));
        findings.extend(ahead(seen, picture.day_unix_ms));
        findings.extend(of_no_disk(seen));
    }
    findings.extend(picture.crowded.iter().map(|text| {
        finding(
            Severity::Warning,
            text,
            "from then on runs of these schedules take no snapshot of it",
            "keep fewer, or lock them for a shorter time: `cairn snapshot schedule edit`",
        )
    }));
    Looked { well: format!("{} schedules run in time", picture.schedules.len()), findings }
}

/// The run that is under way has problems.
fn lacking(seen: &ScheduleSeen) -> Vec<v1::Finding> {
    let run = seen.record.run.as_ref().filter(|run| run.ended_unix_ms.is_none() && !seen.record.paused);
    let over = seen.record.over_unix_s;
    let Some(run) = run.filter(|run| over.is_some_and(|over| run.slot_unix_s > over)) else { return Vec::new() };
    let due = format_utc(run.slot_unix_s * 1000);
    let one = |problem: &String| {
        finding(
            Severity::Error,
            format!("schedule {} has no snapshot of {due} yet of disk {problem}", seen.name),
            "it is tried again until the next run is due, and missed then",
            "mend what is told; of a disk that is full delete snapshots that are not needed",
        )
    };
    run.problems.iter().map(one).collect()
}

fn late(seen: &ScheduleSeen, now_unix_ms: u64) -> Option<v1::Finding> {
    let record = &seen.record;
    let slot = record.due(now_unix_ms)?;
    let first = record.over_unix_s?.saturating_add(record.schedule.every_s);
    let late_s = (now_unix_ms / 1000).saturating_sub(first);
    let has_problems = record.under_way(slot).is_some_and(|run| !run.problems.is_empty());
    (late_s > LATE_S && !has_problems).then(|| {
        finding(
            Severity::Warning,
            format!("schedule {}: the run of {} has come to no end", seen.name, format_utc(first * 1000)),
            "its disks have no snapshot of that moment; of several runs only the newest is made up for",
            "schedules need the directory, and more than half of the hosts: see the other checks",
        )
    })
}

fn missed(seen: &ScheduleSeen, now_unix_ms: u64) -> Option<v1::Finding> {
    let missed = seen.record.missed.as_ref()?;
    (now_unix_ms.saturating_sub(missed.noted_unix_ms) < MISSED_TOLD_MS).then(|| {
        let (runs, first) = (missed.runs, format_utc(missed.first_unix_s * 1000));
        finding(
            Severity::Warning,
            format!("schedule {} missed {runs} runs, from {first} on", seen.name),
            "not all of its disks have snapshots of these moments",
            "nothing, where hosts were down or the directory was away; this goes a day after it was noted",
        )
    })
}

fn ahead(seen: &ScheduleSeen, now_unix_ms: u64) -> Option<v1::Finding> {
    seen.record.is_ahead(now_unix_ms).then(|| {
        let until = format_utc(seen.record.over_unix_s.unwrap_or(0) * 1000);
        finding(
            Severity::Warning,
            format!("schedule {} ran ahead of time, as if it were {until}", seen.name),
            "it does not run until then",
            format!("once the clocks are right, `cairn snapshot schedule resume {}`", seen.name),
        )
    })
}

fn of_no_disk(seen: &ScheduleSeen) -> Option<v1::Finding> {
    (seen.disks == 0 && !seen.record.paused).then(|| {
        finding(
            Severity::Warning,
            format!("schedule {} matches no disk", seen.name),
            "it takes no snapshots",
            format!("give it other patterns, `cairn snapshot schedule edit {}`, or pause or delete it", seen.name),
        )
    })
}

#[cfg(test)]
mod tests {
    use cairn_schedule::ScheduleRecord;
    use cairn_types::{HostId, Keep, Schedule};

    use super::super::check::tests::causes;
    use super::*;

    const TEN: u64 = 1_795_946_400;

    fn seen(name: &str, change: impl FnOnce(&mut ScheduleRecord)) -> ScheduleSeen {
        let keep = Keep { last: 1, ..Keep::default() };
        let schedule = Schedule { disks: vec!["*".into()], every_s: 3600, keep, locked_for_s: 0 };
        let mut record = ScheduleRecord::new(schedule).begins((TEN - 1) * 1000);
        change(&mut record);
        ScheduleSeen { name: name.into(), record, disks: 2 }
    }

    /// Goal: what stands in the way of a schedule is told, and nothing of one that runs or is paused. Method: a picture with one of each.
    #[test]
    fn schedules_that_do_not_run_are_told() {
        let begin = |record: &mut ScheduleRecord, slot: u64| {
            *record = record.begun(slot, HostId(1), slot * 1000, None).expect("it is due");
        };
        let problems = ["web-1: the disk has 256 snapshots".to_owned(), "web-2: nobody answers".to_owned()];
        let schedules = vec![
            seen("well", |record| {
                begin(record, TEN);
                *record = record.tried(TEN, HostId(1), TEN * 1000, (2, &[])).expect("it ends");
            }),
            seen("lacks", |record| {
                begin(record, TEN);
                *record = record.tried(TEN, HostId(1), TEN * 1000, (0, &problems)).expect("it is told");
            }),
            seen("late", |_| {}),
            seen("missed", |record| {
                *record = record.begins((TEN - 3 * 3600) * 1000);
                begin(record, TEN);
                *record = record.tried(TEN, HostId(1), TEN * 1000, (2, &[])).expect("it ends");
            }),
            seen("paused", |record| record.paused = true),
            seen("ahead", |record| record.over_unix_s = Some(TEN + 10 * 3600)),
            ScheduleSeen { disks: 0, ..seen("idle", |record| record.over_unix_s = Some(TEN)) },
        ];
        let crowded = vec!["disk web-1 may come to have 300 snapshots by 2 schedules, and has 256 at most".to_owned()];
        let at = |s: u64| Picture {
            schedules: schedules.clone(),
            crowded: crowded.clone(),
            day_unix_ms: s * 1000,
            ..Picture::default()
        };
        let found = causes(&SCHEDULES, &at(TEN + 61));
        let expected = [
            "schedule lacks has no snapshot of 2026-11-29 10:00:00 UTC yet of disk web-1: the disk has 256 snapshots",
            "schedule lacks has no snapshot of 2026-11-29 10:00:00 UTC yet of disk web-2: nobody answers",
            "schedule late: the run of 2026-11-29 10:00:00 UTC has come to no end",
            "schedule missed missed 2 runs, from 2026-11-29 08:00:00 UTC on",
            "schedule ahead ran ahead of time, as if it were 2026-11-29 20:00:00 UTC",
            "schedule idle matches no disk",
            &crowded[0],
        ];
        assert_eq!(found, expected);
        assert!(!causes(&SCHEDULES, &at(TEN + 60)).iter().any(|cause| cause.contains("schedule late")));
        let a_day_on = causes(&SCHEDULES, &at(TEN + 86_400));
        assert!(!a_day_on.iter().any(|cause| cause.contains("missed 2 runs")), "{a_day_on:?}");
    }
}
