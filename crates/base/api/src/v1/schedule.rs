//! Schedules of snapshots.

use cairn_types::{Keep, SCHEDULE_NAME_BYTES_MAX, Schedule};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::name::check_name;

/// What a schedule asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRules {
    /// Of each disk whose name is one of these patterns: `*` stands for any characters, `?` for one.
    pub disks: Vec<String>,
    /// Seconds between two runs, at least 10. Runs are at the multiples of it since the beginning of 1970, UTC.
    pub every_s: u64,
    /// Its newest snapshots of each disk that are kept.
    #[serde(default)]
    pub keep_last: u32,
    /// Hours of which the newest is kept. What one of these four keeps stays; hours, days and weeks without a snapshot count for nothing.
    #[serde(default)]
    pub keep_hourly: u32,
    /// Days of which the newest is kept.
    #[serde(default)]
    pub keep_daily: u32,
    /// Weeks of which the newest is kept. They begin on Monday.
    #[serde(default)]
    pub keep_weekly: u32,
    /// Seconds for which nobody deletes one of its snapshots, from when it is taken; 0: they are not locked.
    #[serde(default)]
    pub locked_for_s: u64,
}

impl From<&ScheduleRules> for Schedule {
    fn from(rules: &ScheduleRules) -> Self {
        let keep = Keep {
            last: rules.keep_last,
            hourly: rules.keep_hourly,
            daily: rules.keep_daily,
            weekly: rules.keep_weekly,
        };
        Self { disks: rules.disks.clone(), every_s: rules.every_s, keep, locked_for_s: rules.locked_for_s }
    }
}

impl From<&Schedule> for ScheduleRules {
    fn from(schedule: &Schedule) -> Self {
        let Schedule { disks, every_s, keep, locked_for_s } = schedule;
        Self {
            disks: disks.clone(),
            every_s: *every_s,
            keep_last: keep.last,
            keep_hourly: keep.hourly,
            keep_daily: keep.daily,
            keep_weekly: keep.weekly,
            locked_for_s: *locked_for_s,
        }
    }
}

impl ScheduleRules {
    fn validate(&self) -> crate::ApiResult<()> {
        let checked = Schedule::from(self).validate();
        checked.map_err(|text| crate::ApiError::invalid(text).remedy("See `cairn snapshot schedule create --help`"))
    }
}

/// A schedule to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleCreate {
    /// Its name. Its snapshots are called by it and the moment of their run: NAME-20261129T100000Z.
    pub name: String,
    /// What it asks for.
    pub rules: ScheduleRules,
    /// Only tell what it would come to.
    #[serde(default)]
    pub dry_run: bool,
}

impl crate::Request for ScheduleCreate {
    fn validate(&self) -> crate::ApiResult<()> {
        check_name("schedule", &self.name)?;
        if self.name.len() > SCHEDULE_NAME_BYTES_MAX {
            let text =
                format!("the name of a schedule has {SCHEDULE_NAME_BYTES_MAX} bytes at most, not {}", self.name.len());
            return Err(crate::ApiError::invalid(text)
                .remedy("Choose a shorter name: its snapshots have the moment of their run behind it"));
        }
        self.rules.validate()
    }
}

/// Other rules for a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleEdit {
    /// What it asks for from now on: all of it. What is left out has its default.
    pub rules: ScheduleRules,
    /// Only tell what it would come to.
    #[serde(default)]
    pub dry_run: bool,
}

impl crate::Request for ScheduleEdit {
    fn validate(&self) -> crate::ApiResult<()> {
        self.rules.validate()
    }
}

/// Whether a schedule is to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedulePause {
    /// It does not run until it is resumed.
    pub paused: bool,
}

impl crate::Request for SchedulePause {}

/// A schedule of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotSchedule {
    /// Its name.
    pub name: String,
    /// What it asks for.
    pub rules: ScheduleRules,
    /// It does not run until it is resumed.
    pub paused: bool,
    /// Snapshots that a disk has at once because of it, at most.
    pub snapshots_max: u64,
    /// The disks that it matches now, by name.
    pub disks: Vec<String>,
    /// When its next run is due, in milliseconds since 1970; none while it is paused.
    pub next_run_unix_ms: Option<u64>,
    /// Its last run, or the one that is under way.
    pub last_run: Option<ScheduleRun>,
    /// Runs that came to nothing, or not to all disks, since it was made: hosts or the directory were away until the next one was due.
    pub missed_total: u64,
    /// The last of them.
    pub missed: Option<MissedRuns>,
    /// Its disks for which all schedules together ask for more snapshots than there may be, in words.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A run of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleRun {
    /// When it was due.
    pub due_unix_ms: u64,
    /// The host that runs it, or did last.
    pub host: String,
    /// When that host began.
    pub begun_unix_ms: u64,
    /// When all disks had their snapshot; none: not all have one yet, and it is tried again until the next run is due.
    pub ended_unix_ms: Option<u64>,
    /// Disks that have their snapshot.
    pub disks: u32,
    /// Why others have none, each with its disk.
    pub problems: Vec<String>,
}

/// Runs that were missed one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissedRuns {
    /// How many.
    pub runs: u64,
    /// When the first of them was due.
    pub first_unix_ms: u64,
    /// When the last of them was due.
    pub last_unix_ms: u64,
    /// When that was found, as the next run began.
    pub noted_unix_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request as _;

    /// Goal: what cannot be is refused before anything is done, and rules are stored as they were asked for.
    #[test]
    fn schedules_are_checked_and_stored_as_asked() {
        let rules = ScheduleRules {
            disks: vec!["web-*".into(), "db-1".into()],
            every_s: 3600,
            keep_last: 24,
            keep_hourly: 1,
            keep_daily: 7,
            keep_weekly: 4,
            locked_for_s: 86_400,
        };
        assert_eq!(ScheduleRules::from(&Schedule::from(&rules)), rules);
        let create = |name: &str, rules: &ScheduleRules| {
            let request = ScheduleCreate { name: name.into(), rules: rules.clone(), dry_run: false };
            request.validate().map_err(|error| error.message)
        };
        assert_eq!(create(&"n".repeat(SCHEDULE_NAME_BYTES_MAX), &rules), Ok(()));
        assert!(create(&"n".repeat(SCHEDULE_NAME_BYTES_MAX + 1), &rules).unwrap_err().contains("47 bytes at most"));
        assert!(create("a@b", &rules).is_err());
        let often = ScheduleRules { every_s: 1, ..rules };
        assert!(create("often", &often).unwrap_err().contains("every 10 s"));
        assert!(ScheduleEdit { rules: often, dry_run: true }.validate().is_err());
    }
}
