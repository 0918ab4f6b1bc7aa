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

use crate::{log::congestion_delay_us, options::StoreOptions, state::State};

/// A sample's weight in the measured rate: so many rounds are remembered, about.
const ROUNDS_REMEMBERED: u64 = 8;
const SECOND_NS: u128 = 1_000_000_000;

/// How full the log is, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    pub used: u64,
    /// What the rounds under way will free next.
    pub freed_next: u64,
    pub low: u64,
    pub high: u64,
}

/// What destage does, and until when acknowledgements are taken.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Bytes of the log that destage frees in a second while it does not rest; 0 as long as that is not known.
    freed_per_s: u64,
    /// When the tail moved last, or destage began after a rest.
    since_ns: u64,
    /// When the last acknowledgement leaves that was delayed.
    last_ns: u64,
}

impl Pace {
    /// Destage begins after a rest.
    pub fn begun(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// The tail moved over `bytes`.
    pub fn freed(&mut self, now_ns: u64, bytes: u64) {
        let elapsed_ns = u128::from(now_ns.saturating_sub(self.since_ns).max(1));
        self.since_ns = now_ns;
        let sample = (u128::from(bytes) * SECOND_NS / elapsed_ns).min(1 << 50) as u64;
        self.freed_per_s = match self.freed_per_s {
            0 => sample,
            rate => (rate * (ROUNDS_REMEMBERED - 1) + sample) / ROUNDS_REMEMBERED,
        };
    }

    /// How long the acknowledgement of `bytes` that are in the log now waits, at most `max`. None as long as the rate of destage is
    /// not known.
    pub fn delay(&mut self, now_ns: u64, bytes: u64, fill: Fill, max: Duration) -> Option<Duration> {
        if self.freed_per_s == 0 {
            return None;
        }
        // A round gives back its room in one piece; guests are to see it come back evenly.
        let since_ns = u128::from(now_ns.saturating_sub(self.since_ns));
        let freeing = (u128::from(self.freed_per_s) * since_ns / SECOND_NS).min(fill.freed_next.into()) as u64;
        let used = fill.used.saturating_sub(freeing);
        if used <= fill.low {
            return Some(Duration::ZERO);
        }
        let (above, below) = (u128::from(used - fill.low), u128::from(fill.high.saturating_sub(used)));
        let max_ns = max.as_nanos().min(u128::from(u64::MAX / 4));
        let rate = u128::from(self.freed_per_s) * below / above;
        let takes_ns = (u128::from(bytes) * SECOND_NS).checked_div(rate).unwrap_or(max_ns);
        let leaves_ns = (u128::from(self.last_ns.max(now_ns)) + takes_ns).min(u128::from(now_ns) + max_ns) as u64;
        self.last_ns = leaves_ns;
        Some(Duration::from_nanos(leaves_ns - now_ns))
    }
}

impl State {
    /// How long the acknowledgements of a batch wait whose `bytes` are in the log now.
    pub fn acknowledge_after(&mut self, now_ns: u64, bytes: u64, tuning: &StoreOptions) -> Duration {
        let (low, high) = (tuning.congestion_low_percent, tuning.congestion_high_percent);
        let mark = |percent: u8| self.ring.size() / 100 * u64::from(percent);
        let under_way = self.gathered_to.saturating_sub(self.ring.tail);
        let fill = Fill {
            used: self.ring.used(),
            freed_next: under_way.min(self.round_bytes(tuning)),
            low: mark(low),
            high: mark(high),
        };
        let max_us = tuning.congestion_delay_max_us;
        let delay = self.pace.delay(now_ns, bytes, fill, Duration::from_micros(max_us)).unwrap_or_else(|| {
            Duration::from_micros(congestion_delay_us(self.ring.fill_permille(), low, high, max_us))
        });
        self.delay_us = delay.as_micros() as u64;
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(10);

    /// A log of `1000 * part` bytes that guests fill and destage empties by rounds; `outstanding` writes of a block each. Returns what
    /// guests wrote in each second.
    fn run(outstanding: u64, seconds: u64) -> Vec<u64> {
        let (block, round, round_ns) = (4096u64, 8u64 << 20, 400_000_000u64);
        let (low, high) = (96 << 20, 115 << 20);
        let mut pace = Pace::default();
        let (mut used, mut written, mut now) = (64u64 << 20, vec![0; seconds as usize], 0u64);
        let mut guests: std::collections::BTreeSet<(u64, u64)> = (0..outstanding).map(|guest| (0, guest)).collect();
        let mut ends = round_ns;
        pace.begun(0);
        while now < seconds * SECOND_NS as u64 {
            let &(at, guest) = guests.first().unwrap();
            if at > ends || used + block > high {
                now = ends;
                used -= round;
                pace.freed(now, round);
                ends += round_ns;
                continue;
            }
            guests.remove(&(at, guest));
            now = now.max(at);
            used += block;
            if let Some(second) = written.get_mut((now / SECOND_NS as u64) as usize) {
                *second += block;
            }
            let fill = Fill { used, freed_next: round, low, high };
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
            let written = run(outstanding, 60);
            let settled = &written[30..];
            let mean = settled.iter().sum::<u64>() / settled.len() as u64;
            let (least, most) = (*settled.iter().min().unwrap(), *settled.iter().max().unwrap());
            assert!(mean.abs_diff(20 << 20) < 1 << 20, "{outstanding} outstanding: {mean} bytes a second");
            assert!(least * 100 > mean * 85 && most * 100 < mean * 115, "{outstanding} outstanding: {least} to {most}");
        }
    }

    #[test]
    fn below_the_low_mark_and_before_the_first_round_nothing_is_delayed() {
        let mut pace = Pace::default();
        let fill = |used| Fill { used, freed_next: 0, low: 750, high: 900 };
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
