//! Schedules of snapshots: of which disks, how often, which are kept, and for how long none of them is deleted.
//!
//! Promises    a schedule that is valid never makes a disk have more snapshots than there may be, as long as its rules stay the same
//! Not here    when it runs, and what goes (`cairn-schedule`); who runs it (`node`)

use serde::{Deserialize, Serialize};

use crate::{SNAPSHOT_NAME_BYTES_MAX, SNAPSHOTS_MAX, utc::STAMP_BYTES};

/// Seconds between two runs, at least: a run costs two changes of the directory, and a schedule that a host begins late is still in time.
pub const SCHEDULE_EVERY_S_MIN: u64 = 10;
/// And at most.
pub const SCHEDULE_EVERY_S_MAX: u64 = 366 * DAY_S;
/// Bytes of a schedule's name, at most: a snapshot's name is that, a hyphen, and the moment of the run.
pub const SCHEDULE_NAME_BYTES_MAX: usize = SNAPSHOT_NAME_BYTES_MAX - 1 - STAMP_BYTES;
/// Patterns of a schedule, at most.
pub const SCHEDULE_PATTERNS_MAX: usize = 16;
/// Schedules of a cluster, at most. At the shortest time between runs all of them change the directory thirteen times a second, which has little traffic
/// otherwise.
pub const SCHEDULES_MAX: usize = 64;
/// For so long a snapshot is locked, at most: ten years. Nobody can take a lock back.
pub const LOCKED_FOR_S_MAX: u64 = 3653 * DAY_S;

/// Bytes of a pattern, at most: those of the longest name.
const PATTERN_BYTES_MAX: usize = 128;
const DAY_S: u64 = 86_400;

/// Which of a schedule's snapshots of a disk are kept. All of these count: what one of them keeps stays. Hours, days and weeks are those of UTC, and those
/// in which there is no snapshot count for nothing; weeks begin on Monday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Keep {
    /// So many of the newest.
    #[serde(default)]
    pub last: u32,
    /// The newest of each of so many hours.
    #[serde(default)]
    pub hourly: u32,
    /// The newest of each of so many days.
    #[serde(default)]
    pub daily: u32,
    /// The newest of each of so many weeks.
    #[serde(default)]
    pub weekly: u32,
}

/// What a schedule of snapshots asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Of each disk whose name is one of these patterns: `*` stands for any characters, `?` for one.
    pub disks: Vec<String>,
    /// Seconds between two runs. Runs are at the multiples of it since the beginning of 1970, so whoever runs it agrees on which run it is.
    pub every_s: u64,
    /// What is kept.
    pub keep: Keep,
    /// Seconds for which each of its snapshots is locked from when it is taken; 0: they are not.
    #[serde(default)]
    pub locked_for_s: u64,
}

impl Schedule {
    /// How many snapshots of a disk there are at once because of it, at most.
    ///
    /// Those that are locked are the newest, as those are that are kept as the last. One more is taken before the oldest goes.
    pub fn snapshots_max(&self) -> u64 {
        let locked = match self.locked_for_s {
            0 => 0,
            for_s => for_s.div_ceil(self.every_s.max(1)) + 1,
        };
        let Keep { last, hourly, daily, weekly } = self.keep;
        u64::from(last).max(locked) + u64::from(hourly) + u64::from(daily) + u64::from(weekly) + 1
    }

    /// Checks its bounds.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn validate(&self) -> Result<(), String> {
        if self.disks.is_empty() || self.disks.len() > SCHEDULE_PATTERNS_MAX {
            return Err(format!(
                "a schedule has 1 to {SCHEDULE_PATTERNS_MAX} patterns of disks, not {}",
                self.disks.len()
            ));
        }
        if let Some(bad) = self.disks.iter().find(|pattern| !is_pattern(pattern)) {
            return Err(format!(
                "{bad:?} matches no name of a disk: use letters, digits, '-', '_' and '.', with '*' for any characters and '?' for one"
            ));
        }
        if !(SCHEDULE_EVERY_S_MIN..=SCHEDULE_EVERY_S_MAX).contains(&self.every_s) {
            return Err(format!(
                "a schedule runs every {SCHEDULE_EVERY_S_MIN} s to every {} d, not every {} s",
                SCHEDULE_EVERY_S_MAX / DAY_S,
                self.every_s
            ));
        }
        if self.locked_for_s > LOCKED_FOR_S_MAX {
            return Err(format!(
                "snapshots are locked for {} d at most: nobody can take it back",
                LOCKED_FOR_S_MAX / DAY_S
            ));
        }
        if self.keep == Keep::default() {
            return Err("a schedule keeps at least one snapshot".into());
        }
        let most = self.snapshots_max();
        if most > SNAPSHOTS_MAX as u64 {
            return Err(format!(
                "a disk would have up to {most} snapshots of it, and a disk has {SNAPSHOTS_MAX} at most: keep fewer, lock them for a shorter time, or run it less often"
            ));
        }
        Ok(())
    }
}

fn is_pattern(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*?".contains(&byte);
    (1..=PATTERN_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(every_s: u64, keep: Keep, locked_for_s: u64) -> Schedule {
        Schedule { disks: vec!["web-*".into()], every_s, keep, locked_for_s }
    }

    #[test]
    fn schedules_that_cannot_be_are_refused_in_words() {
        let keep = |last| Keep { last, ..Keep::default() };
        let day = |keep| schedule(DAY_S, keep, 0);
        let all = Keep { last: 24, hourly: 48, daily: 7, weekly: 4 };
        assert_eq!((day(all).validate(), day(all).snapshots_max()), (Ok(()), 84));
        assert_eq!((day(keep(255)).validate(), day(keep(256)).snapshots_max()), (Ok(()), 257));
        // A week of hours is 168 locked ones, one more at the edge, and one that is taken before the oldest goes.
        let locked = schedule(3600, keep(24), 7 * DAY_S);
        assert_eq!((locked.validate(), locked.snapshots_max()), (Ok(()), 170));
        let bad = [
            (day(keep(256)), "up to 257 snapshots"),
            (schedule(600, keep(1), 7 * DAY_S), "up to 1010 snapshots"),
            (schedule(9, keep(1), 0), "every 10 s"),
            (schedule(u64::MAX, keep(1), 0), "every 10 s"),
            (day(Keep::default()), "at least one"),
            (day(Keep { last: u32::MAX, hourly: u32::MAX, daily: u32::MAX, weekly: u32::MAX }), "a disk has 256"),
            (schedule(DAY_S, keep(1), u64::MAX), "3653 d at most"),
            (Schedule { disks: Vec::new(), ..day(keep(1)) }, "not 0"),
            (Schedule { disks: vec!["a b".into()], ..day(keep(1)) }, "\"a b\" matches no name"),
            (Schedule { disks: vec![String::new()], ..day(keep(1)) }, "\"\" matches no name"),
        ];
        for (schedule, why) in bad {
            let refused = schedule.validate().expect_err(why);
            assert!(refused.contains(why), "{refused}");
        }
    }
}
