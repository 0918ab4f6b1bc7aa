//! Schedules of snapshots, as administrators ask for them.
//!
//! Not here    runs (`schedules`), which snapshots are kept (`cairn-schedule`)

use std::collections::BTreeMap;

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::names::Name;
use cairn_env::Env;
use cairn_schedule::ScheduleRecord;
use cairn_types::{Feature, SCHEDULES_MAX, SNAPSHOTS_MAX, Schedule};

use crate::{manage::directory_error, node::Node};

impl<E: Env> Node<E> {
    /// Every schedule, as this host knows it.
    pub(crate) fn schedules_known(&self) -> Vec<(Name, ScheduleRecord)> {
        self.inner.copy.borrow().list::<ScheduleRecord>()
    }

    /// As the directory has them: what was just changed is told. While it is away, as this host knows them.
    pub(crate) async fn snapshot_schedule_list(&self) -> ApiResult<Vec<v1::SnapshotSchedule>> {
        let known = match self.inner.registry.list::<ScheduleRecord>().await {
            Ok(listed) => listed.entries.into_iter().map(|(name, found)| (name, found.entry)).collect(),
            Err(_) => self.schedules_known(),
        };
        Ok(known.iter().map(|(name, record)| self.shown_schedule(name, record)).collect())
    }

    pub(crate) async fn snapshot_schedule_show(&self, schedule: String) -> ApiResult<v1::SnapshotSchedule> {
        let (name, record) = self.known_schedule(&schedule).await?;
        Ok(self.shown_schedule(&name, &record))
    }

    pub(crate) async fn snapshot_schedule_create(
        &self,
        request: v1::ScheduleCreate,
    ) -> ApiResult<v1::SnapshotSchedule> {
        request.validate()?;
        self.check_is_on(Feature::Snapshots, "a schedule of snapshots")?;
        let name = Name::new(request.name.clone()).map_err(|e| ApiError::invalid(e.to_string()))?;
        let known = self.schedules_known();
        if known.len() >= SCHEDULES_MAX {
            let text = format!("the cluster has {SCHEDULES_MAX} schedules, which is the most");
            return Err(ApiError::refused(text)
                .remedy("Give one of them more patterns of disks (`cairn snapshot schedule edit`), or delete one"));
        }
        let exists = || {
            ApiError::conflict(format!("a schedule named {:?} exists already", request.name))
                .remedy("Choose another name, or change that one with `cairn snapshot schedule edit`")
        };
        if known.iter().any(|(known, _)| *known == name) {
            return Err(exists());
        }
        let record = ScheduleRecord::new(Schedule::from(&request.rules));
        if !request.dry_run {
            let created = self.inner.registry.create(&name, &record).await;
            created.map_err(|error| if error.is_conflict() { exists() } else { directory_error(error) })?;
        }
        Ok(self.shown_schedule(&name, &record))
    }

    pub(crate) async fn snapshot_schedule_edit(
        &self,
        schedule: String,
        request: v1::ScheduleEdit,
    ) -> ApiResult<v1::SnapshotSchedule> {
        request.validate()?;
        let rules = Schedule::from(&request.rules);
        self.change_schedule(&schedule, request.dry_run, |record| record.edited(rules.clone())).await
    }

    pub(crate) async fn snapshot_schedule_pause(
        &self,
        schedule: String,
        request: v1::SchedulePause,
    ) -> ApiResult<v1::SnapshotSchedule> {
        self.change_schedule(&schedule, false, |record| record.with_paused(request.paused)).await
    }

    pub(crate) async fn snapshot_schedule_delete(&self, schedule: String) -> ApiResult<()> {
        let name = Name::new(&schedule).map_err(|e| ApiError::invalid(e.to_string()))?;
        match self.inner.registry.remove::<ScheduleRecord>(&name).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(no_schedule(&schedule)),
            Err(error) => Err(directory_error(error)),
        }
    }

    /// Changes a schedule, or tells what would come of it.
    async fn change_schedule(
        &self,
        schedule: &str,
        dry_run: bool,
        change: impl Fn(&ScheduleRecord) -> ScheduleRecord + Send + Sync,
    ) -> ApiResult<v1::SnapshotSchedule> {
        let name = Name::new(schedule).map_err(|e| ApiError::invalid(e.to_string()))?;
        let changed = match dry_run {
            true => change(&self.known_schedule(schedule).await?.1),
            false => {
                let update = self.inner.registry.update::<ScheduleRecord>(&name, |known| Ok(known.map(&change)));
                update.await.map_err(directory_error)?.ok_or_else(|| no_schedule(schedule))?
            }
        };
        Ok(self.shown_schedule(&name, &changed))
    }

    async fn known_schedule(&self, schedule: &str) -> ApiResult<(Name, ScheduleRecord)> {
        let name = Name::new(schedule).map_err(|e| ApiError::invalid(e.to_string()))?;
        let found = match self.inner.registry.get::<ScheduleRecord>(&name).await {
            Ok(found) => found.map(|found| found.entry),
            Err(_) => self.inner.copy.borrow().get::<ScheduleRecord>(&name),
        };
        Ok((name, found.ok_or_else(|| no_schedule(schedule))?))
    }

    fn shown_schedule(&self, name: &Name, record: &ScheduleRecord) -> v1::SnapshotSchedule {
        let now = self.day_unix_ms();
        let run = record.run.as_ref().map(|run| v1::ScheduleRun {
            due_unix_ms: run.slot_unix_s * 1000,
            host: self.server_name(run.by),
            begun_unix_ms: run.begun_unix_ms,
            ended_unix_ms: run.ended_unix_ms,
            disks: run.disks,
            problems: run.problems.clone(),
        });
        let missed = record.missed.as_ref().map(|missed| v1::MissedRuns {
            runs: missed.runs,
            first_unix_ms: missed.first_unix_s * 1000,
            last_unix_ms: missed.last_unix_s * 1000,
            noted_unix_ms: missed.noted_unix_ms,
        });
        let disks = self.disks_of(record);
        v1::SnapshotSchedule {
            name: name.as_str().to_owned(),
            rules: v1::ScheduleRules::from(&record.schedule),
            paused: record.paused,
            snapshots_max: record.schedule.snapshots_max(),
            disks: disks.into_iter().map(|(_, entry)| entry.name.as_str().to_owned()).collect(),
            next_run_unix_ms: record.next(now).map(|next| next * 1000),
            last_run: run,
            missed_total: record.missed_total,
            missed,
            notes: self.crowded(Some((name, record))),
        }
    }

    /// Disks that may come to have more snapshots than there may be, by all schedules together; `with`: as if that one were so, and only disks of it.
    pub(crate) fn crowded(&self, with: Option<(&Name, &ScheduleRecord)>) -> Vec<String> {
        let mut all: BTreeMap<Name, ScheduleRecord> = self.schedules_known().into_iter().collect();
        all.extend(with.map(|(name, record)| (name.clone(), record.clone())));
        let mut sums: BTreeMap<Name, (u64, u32)> = BTreeMap::new();
        for record in all.values() {
            for (_, entry) in self.disks_of(record) {
                let (sum, count) = sums.entry(entry.name).or_default();
                *sum += record.schedule.snapshots_max();
                *count += 1;
            }
        }
        if let Some((_, record)) = with {
            let own = self.disks_of(record);
            sums.retain(|disk, _| own.iter().any(|(_, entry)| entry.name == *disk));
        }
        let too_many = sums.into_iter().filter(|(_, (sum, _))| *sum > SNAPSHOTS_MAX as u64);
        too_many
            .map(|(disk, (sum, count))| {
                format!(
                    "disk {disk} may come to have {sum} snapshots by {count} schedules, and has {SNAPSHOTS_MAX} at most"
                )
            })
            .collect()
    }
}

fn no_schedule(schedule: &str) -> ApiError {
    ApiError::not_found(format!("there is no schedule {schedule:?}")).remedy("See `cairn snapshot schedule list`")
}
