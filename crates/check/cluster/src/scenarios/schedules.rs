//! Stories of schedules: hosts that die as they begin a run, locks, outages over several runs, clocks that are wrong.

use cairn_api::{ApiErrorKind, LocalManagement as _, v1};

use super::{Scenario, Stage};
use crate::{schedules::once_a_run, shape::Shape};

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "25. the host that begins a run of a schedule dies",
            (
                "another host brings the run to its end: each disk has one snapshot of it; what is locked is deleted by nobody, and goes when it is kept no more",
                "three disks have a schedule of a minute; on slow devices the host that has begun a run is seen in the directory and loses power, three times. Locked snapshots \
                     and their disks are to be deleted at hosts that are drawn",
            ),
            (three_disks(), 6),
            dies_as_it_begins,
        ),
        Scenario::new(
            "25. all hosts are away for some runs of a schedule",
            (
                "the newest run is made up for, and no other; those that were missed are counted",
                "all hosts lose power for some runs of ten seconds, and start in any order; a host's clock is a month ahead or behind meanwhile and afterwards",
            ),
            (three_disks(), 6),
            away_over_runs,
        ),
    ]
}

/// Three disks, so that a run has several steps, of a guest each that is seldom at it: the stories last for minutes.
fn three_disks() -> Shape {
    let mut shape = Shape::plain(4).small();
    shape.disks[0].guests = 1;
    shape.disks = vec![shape.disks[0].clone(); 3];
    shape.pause_max_ms = 150;
    shape
}

const NAME: &str = "minutely";

fn rules(every_s: u64, keep_last: u32, locked_for_s: u64) -> v1::ScheduleRules {
    let disks = vec!["vm-*".into()];
    v1::ScheduleRules { disks, every_s, keep_last, keep_hourly: 0, keep_daily: 0, keep_weekly: 0, locked_for_s }
}

async fn make(stage: &Stage, rules: v1::ScheduleRules) -> Result<(), String> {
    match stage.cluster.make_schedule(NAME, stage.any(), rules.clone()).await {
        true => {
            stage.cluster.schedules.made.borrow_mut().insert(NAME.into(), rules.keep_last as u8);
            Ok(())
        }
        false => Err("no schedule is made".into()),
    }
}

/// The run that is due next, as soon as it is seen in the directory, and the host that has begun it.
async fn next_begun(stage: &Stage) -> Result<(usize, v1::ScheduleRun), String> {
    let last = stage.hosts() - 1;
    let due = stage.cluster.schedule(NAME, last).await?.next_run_unix_ms.ok_or("it is not paused")?;
    let ahead = due.saturating_sub(stage.cluster.day_unix_ms());
    stage.ms(ahead.saturating_sub(100)).await;
    for _ in 0..20_000 {
        let shown = stage.cluster.schedule(NAME, last).await;
        if let Ok(v1::SnapshotSchedule { last_run: Some(run), .. }) = shown
            && run.due_unix_ms >= due
        {
            let number = (0..stage.hosts()).find(|n| run.host == format!("h{n}"));
            return Ok((number.ok_or_else(|| format!("no host is called {}", run.host))?, run));
        }
        stage.ms(1).await;
    }
    Err(format!("the run of {due} is begun by nobody"))
}

async fn dies_as_it_begins(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    make(&stage, rules(60, 1, 100)).await?;
    for _ in 0..3 {
        (0..stage.hosts()).for_each(|n| stage.slow(n, 40));
        let (dies, begun) = next_begun(&stage).await?;
        let due_unix_ms = begun.due_unix_ms;
        if begun.ended_unix_ms.is_none() {
            stage.count("runs that were left", 1);
        }
        stage.ms(stage.below(20)).await;
        stage.crash(dies);
        stage.devices_as_fast_as_ever();
        ends(&stage, due_unix_ms).await?;
        stage.start(dies);
        stage.healthy().await?;
        for disk in stage.disks() {
            let snapshots = stage.cluster.snapshots_of(&disk).await?;
            once_a_run(&disk, &snapshots)?;
            if !snapshots.iter().any(|one| one.slot_unix_s == Some(due_unix_ms / 1000)) {
                return Err(format!("disk {disk} has no snapshot of a run that has ended: {snapshots:?}"));
            }
        }
        stage.cluster.note_locked(stage.any()).await;
        nobody_deletes(&stage).await?;
    }
    // Locks end, and what is not kept goes.
    stage.ms(100_000).await;
    stage.cluster.runs_once_more(NAME).await?;
    stage.rest(false).await
}

/// The run that was due then comes to its end, whoever is gone.
async fn ends(stage: &Stage, due_unix_ms: u64) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..500 {
        match stage.cluster.schedule(NAME, stage.any()).await {
            Ok(v1::SnapshotSchedule { last_run: Some(run), .. })
                if run.due_unix_ms == due_unix_ms && run.ended_unix_ms.is_some() =>
            {
                return Ok(());
            }
            other => last = format!("{other:?}"),
        }
        stage.ms(100).await;
    }
    Err(format!("liveness: the run of {due_unix_ms} comes to no end: {last}"))
}

/// A locked snapshot is not deleted, nor is its disk, whoever is asked.
async fn nobody_deletes(stage: &Stage) -> Result<(), String> {
    let disk = Shape::disk_name(stage.below(3) as usize);
    let snapshots = stage.cluster.snapshots_of(&disk).await?;
    let newest = snapshots.last().ok_or("it has one")?;
    let named = format!("{disk}@{}", newest.name);
    let name = named.clone();
    let refused = stage.cluster.manage(stage.any(), async move |node| node.snapshot_delete(name).await).await;
    match refused {
        Err(error) if error.kind == ApiErrorKind::Refused && error.message.contains("is locked until") => {}
        other => return Err(format!("{named} is locked, and to delete it is answered with {other:?}")),
    }
    let (name, how) = (disk.clone(), v1::DiskDelete { force: true });
    let refused = stage.cluster.manage(stage.any(), async move |node| node.disk_delete(name, how).await).await;
    match refused {
        Err(error) if error.kind == ApiErrorKind::Refused && error.message.contains("are locked") => Ok(()),
        other => Err(format!("snapshots of {disk} are locked, and to delete it is answered with {other:?}")),
    }
}

async fn away_over_runs(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    make(&stage, rules(10, 2, 0)).await?;
    let before = stage.cluster.runs_once_more(NAME).await?;
    let wrong = stage.any();
    let month_ms = 30 * 86_400_000;
    let off_ms = if stage.below(2) == 0 { month_ms } else { -month_ms };
    stage.say(format!("the clock of h{wrong} is wrong by {off_ms} ms"));
    stage.host(wrong).set_wall_clock_off_ms(off_ms);
    let again = stage.cluster.schedule(NAME, wrong).await?;
    if again.last_run.as_ref().is_some_and(|run| run.due_unix_ms > before.due_unix_ms + 20_000) {
        return Err(format!("a clock that is wrong had it run: {again:?}"));
    }
    (0..stage.hosts()).for_each(|n| stage.crash(n));
    stage.ms(35_000 + stage.below(10_000)).await;
    for n in 0..stage.hosts() {
        stage.start((wrong + n) % stage.hosts());
        stage.ms(stage.below(1500)).await;
    }
    stage.ms(30_000).await;
    // Whoever ran it, it was by the right time.
    let shown = stage.cluster.schedule(NAME, (wrong + 1) % stage.hosts()).await?;
    let run = shown.last_run.clone().ok_or("it ran before")?;
    let right = (before.due_unix_ms + 30_000..before.due_unix_ms + 300_000).contains(&run.due_unix_ms);
    if !right || !(2..=6).contains(&shown.missed_total) {
        return Err(format!("after an outage of four runs: {shown:?}, before: {before:?}"));
    }
    stage.host(wrong).set_wall_clock_off_ms(0);
    stage.healthy().await?;
    for disk in stage.disks() {
        let snapshots = stage.cluster.snapshots_of(&disk).await?;
        once_a_run(&disk, &snapshots)?;
        let kept = snapshots.iter().filter(|one| one.schedule() == Some(NAME)).count();
        if !(2..=3).contains(&kept) {
            return Err(format!("two are kept, and there are {kept}: {snapshots:?}"));
        }
    }
    stage.rest(false).await
}
