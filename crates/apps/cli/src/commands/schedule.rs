//! `cairn snapshot schedule`.

use cairn_api::v1::{ScheduleCreate, ScheduleEdit, SchedulePause, ScheduleRules, ScheduleRun, SnapshotSchedule};
use cairn_types::format_utc;

use super::Context;
use crate::{
    args::{Schedule as Verb, ScheduleCreate as Wanted, ScheduleEdit as Edit},
    confirm::confirm,
    fail::Fail,
    output, units,
};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let client = &context.client;
    let shown = match verb {
        Verb::List => {
            let schedules = client.snapshot_schedule_list().await?;
            return output::show(context.format, &schedules, |schedules| list(schedules));
        }
        Verb::Show { schedule } => client.snapshot_schedule_show(schedule).await?,
        Verb::Create(wanted) => client.snapshot_schedule_create(&create(wanted)).await?,
        Verb::Edit(wanted) => {
            let known = client.snapshot_schedule_show(wanted.schedule.clone()).await?;
            let (name, dry_run) = (known.name.clone(), wanted.dry_run);
            client.snapshot_schedule_edit(name, &ScheduleEdit { rules: edited(known.rules, wanted), dry_run }).await?
        }
        Verb::Pause { schedule } => client.snapshot_schedule_pause(schedule, &SchedulePause { paused: true }).await?,
        Verb::Resume { schedule } => client.snapshot_schedule_pause(schedule, &SchedulePause { paused: false }).await?,
        Verb::Delete { schedule, yes } => {
            confirm(&format!("Delete schedule {schedule}? Its snapshots stay"), yes)?;
            client.snapshot_schedule_delete(&schedule).await?;
            output::note(context.format, &format!("schedule {schedule} deleted; its snapshots stay"));
            return Ok(());
        }
    };
    output::show(context.format, &shown, show)
}

fn create(wanted: Wanted) -> ScheduleCreate {
    let rules = ScheduleRules {
        disks: wanted.disks,
        every_s: wanted.every,
        keep_last: wanted.keep_last,
        keep_hourly: wanted.keep_hourly,
        keep_daily: wanted.keep_daily,
        keep_weekly: wanted.keep_weekly,
        locked_for_s: wanted.locked_for,
    };
    ScheduleCreate { name: wanted.name, rules, dry_run: wanted.dry_run }
}

fn edited(now: ScheduleRules, wanted: Edit) -> ScheduleRules {
    ScheduleRules {
        disks: if wanted.disks.is_empty() { now.disks } else { wanted.disks },
        every_s: wanted.every.unwrap_or(now.every_s),
        keep_last: wanted.keep_last.unwrap_or(now.keep_last),
        keep_hourly: wanted.keep_hourly.unwrap_or(now.keep_hourly),
        keep_daily: wanted.keep_daily.unwrap_or(now.keep_daily),
        keep_weekly: wanted.keep_weekly.unwrap_or(now.keep_weekly),
        locked_for_s: wanted.locked_for.unwrap_or(now.locked_for_s),
    }
}

/// "24 last, 7 daily".
fn kept(rules: &ScheduleRules) -> String {
    let numbers = [
        (rules.keep_last, "last"),
        (rules.keep_hourly, "hourly"),
        (rules.keep_daily, "daily"),
        (rules.keep_weekly, "weekly"),
    ];
    let kept = numbers.into_iter().filter(|(count, _)| *count > 0);
    kept.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

fn locked(rules: &ScheduleRules) -> String {
    if rules.locked_for_s == 0 { "no".into() } else { format!("for {}", units::duration(rules.locked_for_s)) }
}

fn last(run: Option<&ScheduleRun>) -> String {
    let Some(run) = run else { return "never".into() };
    let due = format_utc(run.due_unix_ms);
    match run.ended_unix_ms {
        Some(_) => format!("{due}, {} disks, by host {}", run.disks, run.host),
        None => {
            format!("{due}, by host {}: {} disks have theirs, {} have not", run.host, run.disks, run.problems.len())
        }
    }
}

fn next(schedule: &SnapshotSchedule) -> String {
    schedule.next_run_unix_ms.map_or("paused".into(), format_utc)
}

fn list(schedules: &[SnapshotSchedule]) -> String {
    output::table(
        &["name", "disks", "every", "keeps", "locked", "last run", "next run", "missed"],
        schedules.iter().map(|one| {
            vec![
                one.name.clone(),
                format!("{} ({})", one.rules.disks.join(", "), one.disks.len()),
                units::duration(one.rules.every_s),
                kept(&one.rules),
                locked(&one.rules),
                one.last_run.as_ref().map_or("never".into(), |run| format_utc(run.due_unix_ms)),
                next(one),
                one.missed_total.to_string(),
            ]
        }),
    )
}

fn show(schedule: &SnapshotSchedule) -> String {
    let rules = &schedule.rules;
    let missed = match &schedule.missed {
        None => schedule.missed_total.to_string(),
        Some(last) => format!(
            "{}, the last {} from {} to {}",
            schedule.missed_total,
            last.runs,
            format_utc(last.first_unix_ms),
            format_utc(last.last_unix_ms)
        ),
    };
    output::pairs([
        ("schedule", schedule.name.clone()),
        ("disks", rules.disks.join(", ")),
        ("matches now", schedule.disks.join("\n")),
        ("every", units::duration(rules.every_s)),
        ("keeps", kept(rules)),
        ("locked", locked(rules)),
        ("snapshots of a disk", format!("{} at most", schedule.snapshots_max)),
        ("last run", last(schedule.last_run.as_ref())),
        ("lacks", schedule.last_run.as_ref().map(|run| run.problems.join("\n")).unwrap_or_default()),
        ("missed", missed),
        ("next run", next(schedule)),
        ("to be seen to", schedule.notes.join("\n")),
    ])
}
