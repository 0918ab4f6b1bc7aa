//! When an object that could not be seized is tried again: plain arithmetic.
//!
//! Promises    B1  tries of one object that fail one after the other are a second apart in the end, by whomever they are made
//!             B2  one that comes, or opens a disk group, ends the wait; so does the end of the lease that was in the way
//! Not here    what a try does (`object/owner/takeover`)
//!
//! Each try costs an epoch, which every seat writes down, and a hundred guests may wait for one object.

use std::time::Duration;

use cairn_types::Time;

/// The first wait: some round trips.
const SHORTEST: Duration = Duration::from_millis(20);
/// The longest. A guest is patient for 25 times as long.
const LONGEST: Duration = Duration::from_secs(1);

/// Tries of one object that failed since the last that did not.
#[derive(Debug, Clone)]
pub struct Backoff {
    failures: u32,
    until: Time,
    /// How much had changed around this host when the last one failed.
    changes: u64,
    /// Why the last one failed, for those who wait.
    pub why: String,
}

impl Backoff {
    /// A try failed at `now`, after `before`. `lease`: how long the lease stands that was in its way. `chance` spreads hosts that
    /// would try in step.
    pub fn after(
        before: Option<&Self>,
        (now, changes): (Time, u64),
        lease: Option<Duration>,
        chance: u64,
        why: String,
    ) -> Self {
        let failures = before.filter(|b| b.changes == changes).map_or(0, |b| b.failures);
        let most = SHORTEST.saturating_mul(1 << failures.min(16)).min(LONGEST);
        let half = most / 2;
        let wait = half + Duration::from_nanos(chance % (half.as_nanos() as u64 + 1));
        let wait = lease.map_or(wait, |lease| lease.min(wait));
        Self { failures: failures + 1, until: now + wait, changes, why }
    }

    /// Whether the next try is to wait.
    pub fn waits(&self, now: Time, changes: u64) -> bool {
        self.changes == changes && now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    /// B1. Goal: tries do not grow with those who wait. Method: somebody tries each millisecond for 20 s, with any luck.
    #[test]
    fn twenty_seconds_cost_few_tries() {
        for chance in [0, 1, 12_345_678_901, u64::MAX] {
            let (mut last, mut tries): (Option<Backoff>, u32) = (None, 0);
            for n in 0..20_000 {
                if last.as_ref().is_none_or(|b| !b.waits(ms(n), 7)) {
                    tries += 1;
                    last = Some(Backoff::after(last.as_ref(), (ms(n), 7), None, chance, String::new()));
                }
            }
            assert!((20..=50).contains(&tries), "{tries} tries");
        }
    }

    /// B2.
    #[test]
    fn a_change_or_the_end_of_a_lease_ends_the_wait() {
        let mut last = None;
        for n in 0..10 {
            last = Some(Backoff::after(last.as_ref(), (ms(n), 7), None, u64::MAX, String::new()));
        }
        let last = last.expect("ten failed");
        assert!(last.waits(ms(400), 7) && !last.waits(ms(400), 8));
        let next = Backoff::after(Some(&last), (ms(400), 8), None, 0, String::new());
        assert!(!next.waits(ms(411), 8), "from the shortest on again");
        let leased = Backoff::after(Some(&last), (ms(400), 7), Some(Duration::from_millis(30)), 0, String::new());
        assert!(leased.waits(ms(429), 7) && !leased.waits(ms(430), 7));
    }
}
