//! Which run of a schedule it is.
//!
//! Promises    runs are at the multiples of their distance since the beginning of 1970: whoever looks at the same clock means the same one
//!             of several that are due only the newest is run; the others are counted, and not made up for
//! Assumes     a distance is not 0 (`Schedule::validate`)

use cairn_types::{STAMP_UNIX_S_MAX, Schedule};

/// The newest run that was due at a moment, by the second since 1970.
pub fn slot_at(every_s: u64, unix_ms: u64) -> u64 {
    let unix_s = (unix_ms / 1000).min(STAMP_UNIX_S_MAX);
    unix_s - unix_s % every_s.max(1)
}

/// The run that is due: none where it is over. `over_unix_s`: all runs up to this one are.
pub fn due(schedule: &Schedule, over_unix_s: u64, now_unix_ms: u64) -> Option<u64> {
    Some(slot_at(schedule.every_s, now_unix_ms)).filter(|slot| *slot > over_unix_s)
}

/// The first run after a moment.
pub fn next(every_s: u64, unix_ms: u64) -> u64 {
    slot_at(every_s, unix_ms).saturating_add(every_s)
}

/// Runs between the last one that is over and the one that is run: these are missed.
pub fn passed_over(every_s: u64, over_unix_s: u64, slot_unix_s: u64) -> u64 {
    (slot_unix_s.saturating_sub(over_unix_s) / every_s.max(1)).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use cairn_types::Keep;
    use proptest::prelude::*;

    use super::*;

    fn schedule(every_s: u64) -> Schedule {
        Schedule { disks: vec!["*".into()], every_s, keep: Keep { last: 1, ..Keep::default() }, locked_for_s: 0 }
    }

    #[test]
    fn runs_are_due_at_full_hours_and_once() {
        let hourly = schedule(3600);
        let ten = 1_795_946_400;
        assert_eq!(due(&hourly, ten - 3600, ten * 1000 - 1), None);
        assert_eq!(due(&hourly, ten - 3600, ten * 1000), Some(ten));
        assert_eq!(due(&hourly, ten, ten * 1000 + 3_599_999), None);
        assert_eq!(due(&hourly, ten, (ten + 5 * 3600) * 1000), Some(ten + 5 * 3600));
        assert_eq!(passed_over(3600, ten, ten + 5 * 3600), 4);
        assert_eq!(next(3600, ten * 1000), ten + 3600);
        assert_eq!(due(&hourly, ten, u64::MAX), Some(STAMP_UNIX_S_MAX / 3600 * 3600));
    }

    proptest! {
        /// Goal: each run is run once or missed, never both, whoever looks at whatever moments. Method: looks at growing moments, each running
        /// what is due.
        #[test]
        fn runs_and_missed_ones_are_all(every_s in 10u64..100_000, steps in prop::collection::vec(0u64..500_000_000, 1..50)) {
            let schedule = schedule(every_s);
            let mut now = 1_700_000_000_000;
            let first = slot_at(every_s, now);
            let (mut over, mut run, mut missed) = (first, 0, 0);
            for step in steps {
                now += step;
                if let Some(slot) = due(&schedule, over, now) {
                    prop_assert!(slot % every_s == 0 && slot * 1000 <= now && now < (slot + every_s) * 1000);
                    missed += passed_over(every_s, over, slot);
                    (run, over) = (run + 1, slot);
                }
                prop_assert_eq!(due(&schedule, over, now), None);
            }
            prop_assert_eq!(run + missed, (over - first) / every_s);
            prop_assert!(next(every_s, now) == over + every_s);
        }
    }
}
