//! The longest turn of a thread, of late.
//!
//! Promises    a turn is told for at least [`WINDOW`] after it, and for at most twice as long: whoever looks that often misses none
//!             looking changes nothing, so that several may look
//! Not here    what a turn is (`executor`)

use std::time::{Duration, Instant};

/// As often as Prometheus looks where it is asked to look often.
pub(crate) const WINDOW: Duration = Duration::from_secs(15);

/// The longest turns of this window and of the one before.
pub(crate) struct Longest {
    since: Instant,
    now: Duration,
    before: Duration,
}

impl Longest {
    /// None yet.
    pub fn new(since: Instant) -> Self {
        Self { since, now: Duration::ZERO, before: Duration::ZERO }
    }

    /// A turn that began at `began` took so long. Gives what is the longest now, where that changes.
    pub fn took(&mut self, began: Instant, took: Duration) -> Option<Duration> {
        let told = self.now.max(self.before);
        let old = began.duration_since(self.since);
        if old >= WINDOW {
            self.before = if old < 2 * WINDOW { self.now } else { Duration::ZERO };
            (self.since, self.now) = (began, Duration::ZERO);
        }
        self.now = self.now.max(took);
        Some(self.now.max(self.before)).filter(|longest| *longest != told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_told_for_one_window_at_least_and_two_at_most() {
        let begin = Instant::now();
        let mut longest = Longest::new(begin);
        let at = |s| begin + Duration::from_secs(s);
        let ms = Duration::from_millis;
        assert_eq!(longest.took(at(1), ms(5)), Some(ms(5)));
        assert_eq!(longest.took(at(2), ms(5)), None);
        assert_eq!(longest.took(at(14), ms(80)), Some(ms(80)));
        assert_eq!(longest.took(at(16), ms(7)), None);
        // The window that had it is the one before until 31 s.
        assert_eq!(longest.took(at(30), ms(6)), None);
        assert_eq!(longest.took(at(31), ms(6)), Some(ms(7)));
        // Nothing was done for long.
        assert_eq!(longest.took(at(90), ms(1)), Some(ms(1)));
    }
}
