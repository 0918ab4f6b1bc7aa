//! How fast guests may go while the log fills: as fast as destage empties it.
//!
//! Promises    above the low mark acknowledgements leave at a rate that falls without a step: from any at the low mark, through
//!             the measured rate of destage half way, to none at the high mark. What comes in is what goes out somewhere between,
//!             so the fill comes to rest there, however many writes are outstanding
//! Assumes     `begun` when destage begins after a rest, `freed` whenever the tail moved
//! Not here    who waits (`append.rs`), where the marks are (`options.rs`)
//!             what is outstanding is less than a third of the band between the marks; more, and the fill swings about its place
//! Source      a leaky bucket whose leak is measured: Turner, IEEE Communications Magazine 24(10), 1986

use std::time::Duration;

/// What came before counts less by one part of so many with each round: so many rounds are remembered, about.
///
/// Few: where destage becomes slower, as it does when it must clean, guests follow the old rate for so long, and are stopped and let go
/// in turn at the high mark (with 16, for a minute of rounds of 1.7 s; with 4, for ten seconds). With 3, rounds that differ make the
/// rate itself swing.
const ROUNDS_REMEMBERED: u64 = 4;
const SECOND_NS: u128 = 1_000_000_000;
/// The tail counts as ahead or behind by so many rounds, at most.
const AHEAD_ROUNDS_MAX: u64 = 2;
/// More than any log has between its marks.
const AHEAD_BYTES_MAX: i64 = 1 << 50;

/// How full the log is, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    pub used: u64,
    /// What the rounds under way will free.
    pub under_way: u64,
    pub low: u64,
    pub high: u64,
}

/// What destage does, and until when acknowledgements are taken.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Bytes of the log that destage freed in the rounds that are remembered, and the time that these took. The rate is the one over the
    /// other: a mean of the rounds' own rates is too high where short rounds take turns with long ones, as they do beside
    /// cleaning, and guests that follow it fill the log to where they have to stop.
    freed_bytes: u64,
    freed_ns: u64,
    /// Bytes by which the tail was ahead of that rate when it moved last; behind it, below zero.
    ahead_bytes: i64,
    /// When the tail moved last, or destage began after a rest.
    since_ns: u64,
    /// When the last acknowledgement leaves that was delayed.
    last_ns: u64,
}

impl Pace {
    /// Destage begins after a rest.
    pub fn begun(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        self.ahead_bytes = 0;
    }

    /// The tail moved over `bytes`.
    pub fn freed(&mut self, now_ns: u64, bytes: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.since_ns).max(1);
        // Forgotten in time, as the rate is not known exactly; and bounded, so that no sum of strange clocks overflows.
        if self.freed_ns > 0 {
            let ahead = self.ahead_now(now_ns) - self.ahead_bytes / ROUNDS_REMEMBERED as i64 + bytes as i64;
            // Not more than some rounds: where destage has become slower, what it was behind before the rate is known is no debt.
            let most = (AHEAD_ROUNDS_MAX * bytes).min(AHEAD_BYTES_MAX as u64) as i64;
            self.ahead_bytes = ahead.clamp(-most, most);
        }
        self.since_ns = now_ns;
        self.freed_bytes = self.freed_bytes - self.freed_bytes / ROUNDS_REMEMBERED + bytes;
        self.freed_ns = self.freed_ns - self.freed_ns / ROUNDS_REMEMBERED + elapsed_ns;
    }

    /// Bytes of the log that destage frees in a second while it does not rest; none as long as that is not known.
    fn freed_per_s(&self) -> Option<u128> {
        let rate = (u128::from(self.freed_bytes) * SECOND_NS).checked_div(self.freed_ns.into())?;
        (rate > 0).then_some(rate.min(1 << 50))
    }

    /// Bytes by which the tail is ahead of the rate at which it moves in the mean.
    fn ahead_now(&self, now_ns: u64) -> i64 {
        let since_ns = u128::from(now_ns.saturating_sub(self.since_ns));
        let due = self.freed_per_s().unwrap_or(0) * since_ns / SECOND_NS;
        self.ahead_bytes.saturating_sub(i64::try_from(due).unwrap_or(i64::MAX)).max(-AHEAD_BYTES_MAX)
    }

    /// How long the acknowledgement of `bytes` that are in the log now waits, at most `max`. None as long as the rate of destage is
    /// not known.
    pub fn delay(&mut self, now_ns: u64, bytes: u64, fill: Fill, max: Duration) -> Option<Duration> {
        let freed_per_s = self.freed_per_s()?;
        // A round gives back its room in one piece, and not every one takes as long as the last; guests are to see it come back evenly.
        // No more of it than half of the way between the marks: nearer to the high one they are to slow down whatever is due.
        let most = (fill.high.saturating_sub(fill.low) / 2).min(AHEAD_BYTES_MAX as u64) as i64;
        let behind_most = most.min(i64::try_from(fill.under_way).unwrap_or(i64::MAX));
        let used = fill.used.saturating_add_signed(self.ahead_now(now_ns).clamp(-behind_most, most));
        if used <= fill.low {
            return Some(Duration::ZERO);
        }
        let (above, below) = (u128::from(used - fill.low), u128::from(fill.high.saturating_sub(used)));
        let max_ns = max.as_nanos().min(u128::from(u64::MAX / 4));
        let rate = freed_per_s * below / above;
        let takes_ns = (u128::from(bytes) * SECOND_NS).checked_div(rate).unwrap_or(max_ns);
        let leaves_ns = (u128::from(self.last_ns.max(now_ns)) + takes_ns).min(u128::from(now_ns) + max_ns) as u64;
        self.last_ns = leaves_ns;
        Some(Duration::from_nanos(leaves_ns - now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(10);

    /// A log that guests fill and destage empties by rounds, of so many bytes, which take these times in turn; `outstanding` writes of a block
    /// each. Returns what guests wrote in each second.
    fn run(outstanding: u64, seconds: u64, round: u64, rounds_ms: &[u64]) -> Vec<u64> {
        let block = 4096u64;
        let mut rounds_ns = rounds_ms.iter().map(|ms| ms * 1_000_000).cycle();
        let mut round_ns = || rounds_ns.next().unwrap();
        let (low, high) = (96 << 20, 115 << 20);
        let mut pace = Pace::default();
        let (mut used, mut written, mut now) = (64u64 << 20, vec![0; seconds as usize], 0u64);
        let mut guests: std::collections::BTreeSet<(u64, u64)> = (0..outstanding).map(|guest| (0, guest)).collect();
        let mut ends = round_ns();
        pace.begun(0);
        while now < seconds * SECOND_NS as u64 {
            let &(at, guest) = guests.first().unwrap();
            if at > ends || used + block > high {
                now = ends;
                used -= round;
                pace.freed(now, round);
                ends += round_ns();
                continue;
            }
            guests.remove(&(at, guest));
            now = now.max(at);
            used += block;
            if let Some(second) = written.get_mut((now / SECOND_NS as u64) as usize) {
                *second += block;
            }
            let fill = Fill { used, under_way: 3 * round, low, high };
            let delay = pace.delay(now, block, fill, MAX).unwrap_or_default();
            // 50 us for the log itself.
            guests.insert((now + 50_000 + delay.as_nanos() as u64, guest));
        }
        written
    }

    /// Goal: guests come to the rate of destage and stay there, with few writes outstanding and with many. Method: a model of both,
    /// 20 MiB/s of destage in rounds of 0.4 s.
    #[test]
    fn guests_settle_at_the_rate_of_destage() {
        for outstanding in [1, 4, 32, 256, 1024] {
            settles(outstanding, &[400], 5);
        }
    }

    /// Goal: the same where short rounds take turns with long ones, beside cleaning: nobody comes to where writes stop.
    #[test]
    fn guests_settle_though_rounds_take_different_times() {
        for rounds_ms in [&[50, 350][..], &[50, 50, 500], &[25, 25, 25, 725]] {
            settles(128, rounds_ms, 15);
        }
    }

    /// Goal: when destage becomes much slower, as it does when it must clean, guests come to its new rate soon, and are not stopped and
    /// let go in turn. Method: the same model; rounds of 4 MiB take 1.7 s in place of 0.6 after a minute.
    #[test]
    fn guests_follow_a_destage_that_becomes_slower() {
        let rounds = [[600; 100], [1700; 100]].concat();
        let written = run(128, 200, 4 << 20, &rounds);
        let after = &written[80..];
        let mean = after.iter().sum::<u64>() / after.len() as u64;
        assert!(after.iter().all(|w| w.abs_diff(mean) * 100 < mean * 15), "{after:?}");
    }

    /// Seconds differ by at most so many per cent, as a coefficient of variation, and none by three times as much.
    fn settles(outstanding: u64, rounds_ms: &[u64], percent: u64) {
        // 20 MiB a second in the mean.
        let round = (20 << 20) * rounds_ms.iter().sum::<u64>() / 1000 / rounds_ms.len() as u64;
        let written = run(outstanding, 90, round, rounds_ms);
        let settled = &written[30..];
        let count = settled.len() as u64;
        let mean = settled.iter().sum::<u64>() / count;
        let variance = settled.iter().map(|w| w.abs_diff(mean).pow(2)).sum::<u64>() / count;
        let variation = variance.isqrt() * 100 / mean;
        let (least, most) = (*settled.iter().min().unwrap(), *settled.iter().max().unwrap());
        let what = format!(
            "{outstanding} outstanding, rounds of {rounds_ms:?} ms: {mean} bytes a second, {least} to {most}, {variation} %"
        );
        assert!(mean.abs_diff(20 << 20) < 1 << 20, "{what}");
        assert!(variation <= percent, "{what}");
        let most_apart = mean * 3 * percent / 100;
        assert!(most - mean <= most_apart && mean - least <= most_apart, "{what}");
    }

    #[test]
    fn below_the_low_mark_and_before_the_first_round_nothing_is_delayed() {
        let mut pace = Pace::default();
        let fill = |used| Fill { used, under_way: 0, low: 750, high: 900 };
        assert_eq!(pace.delay(0, 100, fill(800), MAX), None);
        pace.begun(0);
        pace.freed(1_000_000_000, 1000);
        assert_eq!(pace.delay(1_000_000_000, 100, fill(750), MAX), Some(Duration::ZERO));
        // Half way: as fast as destage, one after the other.
        assert_eq!(pace.delay(1_000_000_000, 100, fill(825), MAX), Some(Duration::from_millis(100)));
        assert_eq!(pace.delay(1_000_000_000, 100, fill(825), MAX), Some(Duration::from_millis(200)));
        assert_eq!(pace.delay(1_000_000_000, 100, fill(900), MAX), Some(MAX));
    }
}
