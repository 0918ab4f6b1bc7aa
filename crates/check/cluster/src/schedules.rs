//! Schedules of snapshots in a run: whoever dies, a disk has one snapshot of each run, and what is locked stays.
//!
//! Promises    when all is healed the next run comes to its end in time, on all disks
//!             no disk has two snapshots of one run; what was seen locked is there until its lock ends; what is not kept goes
//! Not here    what the snapshots hold: all copies hold the same (`rest`)

use std::{collections::BTreeSet, time::Duration};

use cairn_api::{LocalManagement as _, v1};
use cairn_env::Env as _;
use cairn_types::Snapshot;

use crate::{cluster::Cluster, shape::Shape};

/// Time between two runs.
pub const EVERY_S: u64 = 10;
/// For so long snapshots are locked, where they are: some runs long, and no longer than a run may last.
const LOCKED_FOR_S: u64 = 25;
/// How often what is locked is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(4);
/// How often a host is asked for a schedule that it does not make.
const TRIES: usize = 20;
/// When all is well a host begins what is due within seconds, also where it had been left by another one.
const RUNS_WITHIN: Duration = Duration::from_secs(50);
/// Clocks of hosts are as far apart as a heartbeat is late.
const CLOCKS_APART_MS: u64 = 5000;
/// Disks that have a schedule, at most.
const SCHEDULED_MAX: usize = 4;
/// What is counted of runs that came to an end when all was healed.
pub const RAN: &str = "schedules that ran at the end";

impl Cluster {
    /// The disks that schedules of a run match: all, or the first one where there are so many that what is kept of them might fill the datastore.
    fn scheduled(&self) -> Vec<String> {
        let disks = self.shape.disks.len();
        let matched = if disks > SCHEDULED_MAX { 1 } else { disks };
        (0..matched).map(Shape::disk_name).collect()
    }

    /// The right time of the day, when no clock is wrong.
    pub fn day_unix_ms(&self) -> u64 {
        self.members[0].host.env().unix_ms()
    }

    /// Asks for a schedule, by way of this host or another that is up. True: it was made, now or by a try whose answer was
    /// lost.
    pub async fn make_schedule(&self, name: &str, host: usize, rules: v1::ScheduleRules) -> bool {
        for _ in 0..TRIES {
            let request = v1::ScheduleCreate { name: name.to_owned(), rules: rules.clone(), dry_run: false };
            if let Ok(at) = self.up_from(host) {
                match self.manage(at, async move |node| node.snapshot_schedule_create(request).await).await {
                    Ok(_) => return true,
                    Err(error) if error.kind == cairn_api::ApiErrorKind::Conflict => return true,
                    Err(error) => self.log.add(format!("h{at} makes no schedule {name}: {error}")),
                }
            }
            self.world.sleep(Duration::from_millis(700)).await;
        }
        false
    }

    /// A schedule as some host that is up tells it.
    pub async fn schedule(&self, name: &str, host: usize) -> Result<v1::SnapshotSchedule, String> {
        let (at, name) = (self.up_from(host)?, name.to_owned());
        let shown = self.manage(at, async move |node| node.snapshot_schedule_show(name).await).await;
        shown.map_err(|error| error.to_string())
    }

    /// What is locked now, as far as a host tells.
    pub async fn note_locked(&self, host: usize) {
        for disk in self.scheduled() {
            let Ok(at) = self.up_from(host) else { return };
            let name = disk.clone();
            let listed = self.manage(at, async move |node| node.snapshot_list(name).await).await;
            for one in listed.unwrap_or_default() {
                let Some(until) = one.locked_until_unix_ms else { continue };
                let mut locked = self.schedules.locked.borrow_mut();
                let known = locked.entry(format!("{disk}@{}", one.name)).or_default();
                *known = until.max(*known);
            }
        }
    }

    /// The snapshots of a disk, as its record has them.
    pub async fn snapshots_of(&self, disk: &str) -> Result<Vec<Snapshot>, String> {
        let name = disk.to_owned();
        let record = self.manage(0, async move |node| node.disk_record(name).await).await;
        let config =
            record.map_err(|error| error.to_string())?.config.ok_or_else(|| format!("{disk} has no record"))?;
        Ok(config.past.map(|past| past.snapshots).unwrap_or_default())
    }

    /// All schedules run once more, what they took is as it has to be, and they go.
    pub async fn check_schedules(&self) -> Result<(), String> {
        let made: Vec<(String, u8)> = self.schedules.made.borrow().clone().into_iter().collect();
        for (name, keep) in made {
            let ran = self.runs_once_more(&name).await?;
            self.count(RAN);
            for disk in self.scheduled() {
                let snapshots = self.snapshots_of(&disk).await?;
                once_a_run(&disk, &snapshots)?;
                self.locked_stay(&disk, &snapshots)?;
                not_kept_go(&disk, &snapshots, (&name, keep), ran.begun_unix_ms)?;
            }
            let gone = name.clone();
            let deleted = self.manage(0, async move |node| node.snapshot_schedule_delete(gone).await).await;
            deleted.map_err(|error| format!("schedule {name} cannot be deleted: {error}"))?;
            self.schedules.made.borrow_mut().remove(&name);
        }
        Ok(())
    }

    /// The next run that is due has come to its end, on all disks, in time.
    pub async fn runs_once_more(&self, name: &str) -> Result<v1::ScheduleRun, String> {
        let (since, now_unix_ms) = (self.world.now(), self.day_unix_ms());
        let every = Duration::from_secs(self.schedule(name, 0).await?.rules.every_s);
        let mut last = String::new();
        while self.world.now() - since < every + RUNS_WITHIN {
            match self.schedule(name, 0).await {
                Ok(v1::SnapshotSchedule { last_run: Some(run), .. })
                    if run.due_unix_ms > now_unix_ms && run.ended_unix_ms.is_some() =>
                {
                    return match run.disks as usize == self.scheduled().len() {
                        true => Ok(run),
                        false => Err(format!("schedule {name}: a run that has ended has not all disks: {run:?}")),
                    };
                }
                other => last = format!("{other:?}"),
            }
            self.world.sleep(Duration::from_millis(500)).await;
        }
        Err(format!("liveness: schedule {name} does not run within {RUNS_WITHIN:?} of what is due: {last}"))
    }

    fn locked_stay(&self, disk: &str, snapshots: &[Snapshot]) -> Result<(), String> {
        let now_unix_ms = self.day_unix_ms();
        for (named, until) in self.schedules.locked.borrow().iter() {
            let Some(name) = named.strip_prefix(disk).and_then(|rest| rest.strip_prefix('@')) else { continue };
            if *until > now_unix_ms && !snapshots.iter().any(|one| one.name == name) {
                return Err(format!("snapshot {named} is locked until {until}, and gone at {now_unix_ms}"));
            }
        }
        Ok(())
    }
}

/// No disk has two snapshots of one run.
pub fn once_a_run(disk: &str, snapshots: &[Snapshot]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let of_runs = snapshots.iter().filter_map(|one| Some((one.schedule()?, one.slot_unix_s?)));
    match of_runs.into_iter().find(|run| !seen.insert(*run)) {
        None => Ok(()),
        Some((schedule, slot)) => {
            Err(format!("disk {disk} has two snapshots of one run of {schedule}, that of {slot}"))
        }
    }
}

/// What a schedule does not keep went with the run that began then, as far as it was not locked any more.
fn not_kept_go(
    disk: &str,
    snapshots: &[Snapshot],
    (schedule, keep): (&str, u8),
    begun_unix_ms: u64,
) -> Result<(), String> {
    let own: Vec<&Snapshot> = snapshots.iter().filter(|one| one.schedule() == Some(schedule)).collect();
    let older = own.len().saturating_sub(keep.into());
    match own[..older].iter().find(|one| one.locked_until_unix_ms + CLOCKS_APART_MS < begun_unix_ms) {
        None => Ok(()),
        Some(one) => Err(format!("disk {disk} still has {}, of which the newest {keep} are kept: {own:?}", one.name)),
    }
}

/// A schedule is made, and what it locks is looked at for a time.
pub async fn live(cluster: &Cluster, host: usize, (keep, locked): (u8, bool), lasts: Duration) {
    let name = format!("every-{}", cluster.schedules.made.borrow().len());
    let rules = v1::ScheduleRules {
        disks: if cluster.scheduled().len() == 1 { cluster.scheduled() } else { vec!["vm-*".into()] },
        every_s: EVERY_S,
        keep_last: keep.into(),
        keep_hourly: 0,
        keep_daily: 0,
        keep_weekly: 0,
        locked_for_s: if locked { LOCKED_FOR_S } else { 0 },
    };
    let until = cluster.world.now() + lasts;
    if !cluster.make_schedule(&name, host, rules).await {
        return;
    }
    cluster.schedules.made.borrow_mut().insert(name, keep);
    while cluster.world.now() < until {
        cluster.world.sleep(LOOK_EVERY).await;
        cluster.note_locked(host).await;
    }
}
