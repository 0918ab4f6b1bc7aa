//! What is known of a schedule: its rules, the run that is under way or was last, and what was missed.
//!
//! Promises    R1  a run is begun by whoever changes the record first: it names the run, the host and the attempt
//!             R2  a run is over when all its disks have their snapshot, or when a later one is due: that one counts it as missed
//!             R3  what is over does not begin again, whatever the rules become
//! Assumes     each change replaces the record that it was made from, or fails (the directory's transactions)
//! Not here    when a host tries (`turn`), what it does then (`node`)

use cairn_types::{HostId, Schedule};
use serde::{Deserialize, Serialize};

use crate::slots::{due, next, passed_over, slot_at};

/// Problems of a run that are kept, at most.
pub const PROBLEMS_MAX: usize = 16;
/// Bytes of one of them, at most.
const PROBLEM_BYTES_MAX: usize = 400;

/// A schedule, as the directory has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// What it asks for.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// It does not run.
    #[serde(default)]
    pub paused: bool,
    /// All runs up to this one are over, by the second since 1970. None: it is new, or has other times; a host that knows the time of the day decides
    /// which run is the first. Whoever was asked for it may have a clock that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_unix_s: Option<u64>,
    /// The last one that was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// Runs that came to no end before the next one was due, since it was made.
    #[serde(default)]
    pub missed_total: u64,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// When it was due, by the second since 1970.
    pub slot_unix_s: u64,
    /// How often it was begun: by another host, where the one before is gone.
    pub attempt: u32,
    /// Who runs it.
    pub by: HostId,
    /// When that host began.
    pub begun_unix_ms: u64,
    /// When all disks had their snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_ms: Option<u64>,
    /// Disks that have it.
    #[serde(default)]
    pub disks: u32,
    /// Why others have not, or why what is not kept is still there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// Runs that were missed one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// How many.
    pub runs: u64,
    /// When the first was due, by the second since 1970.
    pub first_unix_s: u64,
    /// When the last was due.
    pub last_unix_s: u64,
    /// When that was found.
    pub noted_unix_ms: u64,
}

impl ScheduleRecord {
    /// A new one.
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule, paused: false, over_unix_s: None, run: None, missed_total: 0, missed: None }
    }

    /// Whether its runs are to begin.
    pub fn is_new(&self) -> bool {
        self.over_unix_s.is_none() && !self.paused
    }

    /// Its runs begin with the next one.
    pub fn begins(&self, now_unix_ms: u64) -> Self {
        Self { over_unix_s: Some(slot_at(self.schedule.every_s, now_unix_ms)), ..self.clone() }
    }

    /// The run that is due now.
    pub fn due(&self, now_unix_ms: u64) -> Option<u64> {
        if self.paused { None } else { due(&self.schedule, self.over_unix_s?, now_unix_ms) }
    }

    /// When it runs next, once what is due is done.
    pub fn next(&self, now_unix_ms: u64) -> Option<u64> {
        let every_s = self.schedule.every_s;
        let after_over = self.over_unix_s.map_or(0, |over| over.saturating_add(every_s));
        (!self.paused).then(|| next(every_s, now_unix_ms).max(after_over))
    }

    /// The run of this moment, where it was begun and is not over.
    pub fn under_way(&self, slot_unix_s: u64) -> Option<&Run> {
        self.run.as_ref().filter(|run| run.slot_unix_s == slot_unix_s && run.ended_unix_ms.is_none())
    }

    /// Most clocks were wrong, and it ran ahead of time: until then nothing is due.
    pub fn is_ahead(&self, now_unix_ms: u64) -> bool {
        let every_s = self.schedule.every_s;
        !self.paused
            && self.over_unix_s.is_some_and(|over| over > slot_at(every_s, now_unix_ms).saturating_add(every_s))
    }

    /// R1: the record once a host has begun the run of this moment, or gone on with its own. `left`: the attempt that it has seen for so long that it may be
    /// taken over. None: there is nothing to begin.
    pub fn begun(&self, slot_unix_s: u64, by: HostId, now_unix_ms: u64, left: Option<u32>) -> Option<Self> {
        let over_unix_s = self.over_unix_s.filter(|over| !self.paused && slot_unix_s > *over)?;
        let mut next = self.clone();
        let attempt = match self.run.as_ref().filter(|run| run.slot_unix_s >= slot_unix_s) {
            // Somebody whose clock is a little ahead is at the next one.
            Some(run) if run.slot_unix_s > slot_unix_s || run.ended_unix_ms.is_some() => return None,
            Some(run) if run.by == by => return Some(next),
            Some(run) if left != Some(run.attempt) => return None,
            Some(run) => run.attempt + 1,
            None => {
                next.note_missed((over_unix_s, slot_unix_s), now_unix_ms);
                1
            }
        };
        next.run = Some(Run {
            slot_unix_s,
            attempt,
            by,
            begun_unix_ms: now_unix_ms,
            ended_unix_ms: None,
            disks: 0,
            problems: Vec::new(),
        });
        Some(next)
    }

    /// R2: what lies between the last one that is over and this one came to no end.
    fn note_missed(&mut self, (over_unix_s, slot_unix_s): (u64, u64), now_unix_ms: u64) {
        let every_s = self.schedule.every_s;
        let runs = passed_over(every_s, over_unix_s, slot_unix_s);
        if runs == 0 {
            return;
        }
        let last_unix_s = slot_unix_s - every_s;
        let first_unix_s = last_unix_s - (runs - 1) * every_s;
        self.missed_total += runs;
        self.missed = Some(Missed { runs, first_unix_s, last_unix_s, noted_unix_ms: now_unix_ms });
        self.over_unix_s = Some(last_unix_s);
    }

    /// The record once a host has been at all disks of its run: it is over where there is no problem. None: it is not the host's any more, or nothing
    /// changes.
    pub fn tried(
        &self,
        slot_unix_s: u64,
        by: HostId,
        now_unix_ms: u64,
        (disks, problems): (u32, &[String]),
    ) -> Option<Self> {
        let mut next = self.clone();
        let run = next
            .run
            .as_mut()
            .filter(|run| run.slot_unix_s == slot_unix_s && run.by == by && run.ended_unix_ms.is_none())?;
        run.disks = disks;
        run.problems = problems.iter().take(PROBLEMS_MAX).map(|text| short(text)).collect();
        if let Some(more) = problems.len().checked_sub(PROBLEMS_MAX).filter(|more| *more > 0) {
            run.problems.push(format!("and {more} more"));
        }
        if problems.is_empty() {
            run.ended_unix_ms = Some(now_unix_ms);
            next.over_unix_s = next.over_unix_s.map(|over| over.max(slot_unix_s));
        }
        (next != *self).then_some(next)
    }

    /// R3: with other rules. Runs of another distance begin with the next one.
    pub fn edited(&self, schedule: Schedule) -> Self {
        let over_unix_s = self.over_unix_s.filter(|_| schedule.every_s == self.schedule.every_s);
        Self { schedule, over_unix_s, ..self.clone() }
    }

    /// Paused, or resumed: then what was due meanwhile is over and not missed, and the next run is the next one, whenever it ran last.
    pub fn with_paused(&self, paused: bool) -> Self {
        let over_unix_s = self.over_unix_s.filter(|_| paused);
        Self { paused, over_unix_s, ..self.clone() }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().map(|(at, _)| at).find(|at| *at > PROBLEM_BYTES_MAX) {
        Some(end) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
