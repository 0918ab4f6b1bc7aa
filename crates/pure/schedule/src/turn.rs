//! Whether a host begins a run now, or leaves it to another one.
//!
//! Promises    the first of the hosts that answer begins at once, so that mostly one tries; where it does not, any other one does
//!             a host that dies in a run is followed by another one, or by itself
//! Assumes     how long something was seen is counted by the host's own running clock, which no clock of the day changes
//! Not here    that one of those who try at once has it: the directory's transactions

use std::time::Duration;

use cairn_types::HostId;

use crate::record::ScheduleRecord;

/// So long others leave a run to the first host.
pub const OTHERS_AFTER: Duration = Duration::from_secs(5);
/// A run that was seen unchanged for so long is taken over. Its host may be at it still: then two do the same, and each disk's owner takes one
/// snapshot.
pub const RUN_LEFT_AFTER: Duration = Duration::from_secs(30);

/// How soon a host asks those disks again that had no snapshot, after so many tries of the same run.
pub fn again_after(tries: u32) -> Duration {
    Duration::from_secs(5 << tries.min(4)).min(Duration::from_secs(60))
}

/// What a host saw of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// For so long the run has been due.
    pub due_for: Duration,
    /// For so long it has been as it is: the same attempt by the same host.
    pub same_for: Duration,
    /// This host is the first of those that answer.
    pub is_first: bool,
}

/// What a host does about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing now.
    Waits,
    /// It begins it, or goes on with its own.
    Begins,
    /// It takes over this attempt of another host.
    TakesOver(u32),
}

/// Whether host `me` begins the run of this moment, which is due.
pub fn turn(record: &ScheduleRecord, slot_unix_s: u64, me: HostId, seen: Seen) -> Turn {
    match record.under_way(slot_unix_s) {
        Some(run) if run.by == me => Turn::Begins,
        Some(run) if seen.same_for >= RUN_LEFT_AFTER => Turn::TakesOver(run.attempt),
        Some(_) => Turn::Waits,
        None if seen.is_first || seen.due_for >= OTHERS_AFTER => Turn::Begins,
        None => Turn::Waits,
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{Keep, Schedule};

    use super::*;

    #[test]
    fn the_first_host_begins_and_others_follow() {
        let schedule = Schedule {
            disks: vec!["*".into()],
            every_s: 60,
            keep: Keep { last: 1, ..Keep::default() },
            locked_for_s: 0,
        };
        let (a, b, slot) = (HostId(1), HostId(2), 6000);
        let new = ScheduleRecord::new(schedule).begins(slot * 1000 - 1);
        let seen = |due_s, same_s, is_first| Seen {
            due_for: Duration::from_secs(due_s),
            same_for: Duration::from_secs(same_s),
            is_first,
        };
        assert_eq!(turn(&new, slot, a, seen(0, 0, true)), Turn::Begins);
        assert_eq!(turn(&new, slot, b, seen(4, 4, false)), Turn::Waits);
        assert_eq!(turn(&new, slot, b, seen(5, 5, false)), Turn::Begins);
        let by_a = new.begun(slot, a, slot * 1000, None).expect("it is due");
        assert_eq!(turn(&by_a, slot, a, seen(0, 0, false)), Turn::Begins, "its own");
        assert_eq!(turn(&by_a, slot, b, seen(90, 29, true)), Turn::Waits);
        assert_eq!(turn(&by_a, slot, b, seen(90, 30, false)), Turn::TakesOver(1));
        // The next one is due: whose run the former was counts no more.
        assert_eq!(turn(&by_a, slot + 60, b, seen(0, 0, true)), Turn::Begins);
    }
}
