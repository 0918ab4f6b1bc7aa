//! What a host saw of schedules whose run is due: since when, and who is at it. Plain data.
//!
//! Not here    the work (`schedules`), whose turn it is (`cairn-schedule`)

use std::{cell::RefCell, collections::BTreeMap};

use cairn_directory::names::Name;
use cairn_schedule::ScheduleRecord;
use cairn_types::{HostId, Time};

/// What this host saw of a schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched {
    pub(crate) slot_unix_s: u64,
    pub(crate) due_since: Time,
    /// The attempt and its host, and since when it has been those.
    pub(crate) attempt: Option<(u32, HostId)>,
    pub(crate) same_since: Time,
    /// This host is at it.
    pub(crate) works: bool,
    pub(crate) tries: u32,
    pub(crate) again_at: Time,
}

/// What this host saw of all schedules whose run is due.
#[derive(Default)]
pub(crate) struct Schedules(RefCell<BTreeMap<Name, Watched>>);

impl Schedules {
    /// What was seen of a run that is due, the present look included. None: this host is at it, or waits before it tries again.
    pub(crate) fn see(&self, name: &Name, (slot_unix_s, record): (u64, &ScheduleRecord), now: Time) -> Option<Watched> {
        let mut all = self.0.borrow_mut();
        let new = Watched {
            slot_unix_s,
            due_since: now,
            attempt: None,
            same_since: now,
            works: false,
            tries: 0,
            again_at: now,
        };
        let watched = all.entry(name.clone()).or_insert(new);
        if watched.works {
            return None;
        }
        if watched.slot_unix_s != slot_unix_s {
            *watched = new;
        }
        let attempt = record.under_way(slot_unix_s).map(|run| (run.attempt, run.by));
        if watched.attempt != attempt {
            (watched.attempt, watched.same_since) = (attempt, now);
        }
        (now >= watched.again_at).then_some(*watched)
    }

    pub(crate) fn change(&self, name: &Name, change: impl FnOnce(&mut Watched)) {
        if let Some(watched) = self.0.borrow_mut().get_mut(name) {
            change(watched);
        }
    }

    /// Forgets those that are not due, unless this host is at them.
    pub(crate) fn keep_due(&self, is_due: impl Fn(&Name) -> bool) {
        self.0.borrow_mut().retain(|name, watched| watched.works || is_due(name));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cairn_types::{Keep, Schedule};

    use super::*;

    /// Goal: how long a run has been due and as it is is counted from when it was seen so, and a host that is at it, or waits, does not look. Method: looks at
    /// one schedule, of which the run is begun, taken over and followed by another one.
    #[test]
    fn what_was_seen_of_a_run_is_remembered() {
        let keep = Keep { last: 1, ..Keep::default() };
        let schedule = Schedule { disks: vec!["*".into()], every_s: 60, keep, locked_for_s: 0 };
        let (name, slot, at) = (Name::new("s").unwrap(), 6000, |s: u64| Time(s * 1_000_000_000));
        let new = ScheduleRecord::new(schedule).begins(slot * 1000 - 1);
        let seen = Schedules::default();
        let since = |watched: Option<Watched>| watched.map(|watched| (watched.due_since, watched.same_since));
        assert_eq!(since(seen.see(&name, (slot, &new), at(1))), Some((at(1), at(1))));
        let begun = new.begun(slot, HostId(1), slot * 1000, None).unwrap();
        assert_eq!(since(seen.see(&name, (slot, &begun), at(4))), Some((at(1), at(4))));
        assert_eq!(since(seen.see(&name, (slot, &begun), at(9))), Some((at(1), at(4))));
        let taken_over = begun.begun(slot, HostId(2), slot * 1000, Some(1)).unwrap();
        assert_eq!(since(seen.see(&name, (slot, &taken_over), at(40))), Some((at(1), at(40))));
        seen.change(&name, |watched| watched.works = true);
        assert!(seen.see(&name, (slot, &taken_over), at(41)).is_none(), "this host is at it");
        seen.keep_due(|_| false);
        seen.change(&name, |watched| (watched.works, watched.again_at) = (false, at(41) + Duration::from_secs(5)));
        assert!(seen.see(&name, (slot, &taken_over), at(45)).is_none(), "it waits");
        assert!(seen.see(&name, (slot, &taken_over), at(46)).is_some());
        // The next run is due: nothing of the former counts.
        assert_eq!(since(seen.see(&name, (slot + 60, &taken_over), at(47))), Some((at(47), at(47))));
        seen.keep_due(|_| false);
        assert!(seen.0.borrow().is_empty());
    }
}
