//! How fast resync may go: a closed loop on the latency that guests see. Pure: time comes in as an argument.
//!
//! While guests are idle, resync runs as fast as it can. While they are not, its rate falls by a third whenever
//! their latency is above twice what it is without resync, and rises by a twelfth otherwise (additive-increase,
//! multiplicative-decrease in the spirit of Jacobson, SIGCOMM 1988; the knee is searched from below).

use std::time::Duration;

use cairn_types::Time;

/// Bytes per second that resync gets however slow guests are: 8 MiB/s restores 1 TiB in 36 hours, so redundancy
/// comes back in any case.
const RATE_MIN: u64 = 8 << 20;
/// Bytes per second, at most, beside guests.
const RATE_MAX: u64 = 4 << 30;
/// Guests count as idle this long after their last answer.
const IDLE_AFTER: Duration = Duration::from_millis(200);
/// How often the rate is judged: some tens of guest I/Os at 1 ms.
const JUDGE_EVERY: Duration = Duration::from_millis(50);

/// Rises that one call makes up for, at most: the time of one region copy at the lowest rate.
const JUDGEMENTS_AT_ONCE_MAX: u32 = 4;

/// The loop's state.
#[derive(Debug, Clone)]
pub(crate) struct Throttle {
    rate: u64,
    due: Time,
    judged: Time,
    last_guest: Time,
    /// Smoothed guest latency, in ns.
    latency_ns: u64,
    /// The same while no resync runs: what guests are used to.
    undisturbed_ns: u64,
    last_copy: Time,
}

impl Default for Throttle {
    fn default() -> Self {
        let zero = Time(0);
        Self {
            rate: 64 << 20,
            due: zero,
            judged: zero,
            last_guest: zero,
            latency_ns: 0,
            undisturbed_ns: 0,
            last_copy: zero,
        }
    }
}

impl Throttle {
    /// A guest was answered after `latency`.
    pub(crate) fn on_guest(&mut self, now: Time, latency: Duration) {
        let ns = latency.as_nanos() as u64;
        let smooth = |old: u64| {
            if old == 0 { ns } else { old - old / 16 + ns / 16 }
        };
        self.latency_ns = smooth(self.latency_ns);
        if now.since(self.last_copy) > IDLE_AFTER {
            self.undisturbed_ns = smooth(self.undisturbed_ns);
        }
        self.last_guest = now;
    }

    /// How long to wait before the next `bytes` of resync. `limit` in bytes per second, 0 for none.
    pub(crate) fn next(&mut self, now: Time, limit: u64, bytes: u64) -> Duration {
        let guests = self.last_guest > Time(0) && now.since(self.last_guest) < IDLE_AFTER;
        let judgements = (now.since(self.judged).as_nanos() / JUDGE_EVERY.as_nanos()) as u32;
        if guests && judgements > 0 {
            self.judged = now;
            let slow = self.undisturbed_ns > 0 && self.latency_ns > 2 * self.undisturbed_ns;
            // At a low rate copies are rare, and so are calls: the time between them counts, or it never comes back.
            for _ in 0..if slow { 1 } else { judgements.min(JUDGEMENTS_AT_ONCE_MAX) } {
                self.rate = if slow { self.rate - self.rate / 3 } else { self.rate + self.rate / 12 };
            }
            self.rate = self.rate.clamp(RATE_MIN, RATE_MAX);
        }
        self.last_copy = now;
        let rate = match (guests, limit) {
            (false, 0) => return Duration::ZERO,
            (false, limit) => limit,
            (true, 0) => self.rate,
            (true, limit) => self.rate.min(limit),
        };
        let start = self.due.max(now);
        self.due = start + Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1));
        start.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// Copies 1 MiB pieces for `ms`, a guest answering each ms; returns MiB copied.
    fn copied(throttle: &mut Throttle, from_ms: u64, ms: u64, latency_us: u64) -> u64 {
        let (mut now, mut mib, mut next_copy) = (at(from_ms), 0, at(from_ms));
        while now < at(from_ms + ms) {
            throttle.on_guest(now, Duration::from_micros(latency_us));
            if now >= next_copy {
                next_copy = now + throttle.next(now, 0, MIB).max(Duration::from_millis(1));
                mib += 1;
            }
            now = now + Duration::from_millis(1);
        }
        mib
    }

    #[test]
    fn it_yields_to_slow_guests_and_comes_back() {
        let mut throttle = Throttle::default();
        for ms in 1..500 {
            throttle.on_guest(at(ms), Duration::from_micros(200));
        }
        let calm = copied(&mut throttle, 1000, 1000, 220);
        let slow = copied(&mut throttle, 2000, 1000, 2000);
        copied(&mut throttle, 3000, 2000, 220);
        let again = copied(&mut throttle, 5000, 1000, 220);
        assert!(slow * 3 < calm, "slow guests: {slow} MiB/s, calm: {calm} MiB/s");
        assert!(again > 2 * slow, "it recovers: {again} MiB/s after {slow} MiB/s");
        assert!(slow >= 5, "never below the floor: {slow} MiB/s");
    }

    #[test]
    fn idle_guests_cost_nothing_and_a_limit_holds() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.next(at(10_000), 0, MIB), Duration::ZERO);
        let mut waited = Duration::ZERO;
        let mut now = at(20_000);
        for _ in 0..20 {
            let pause = throttle.next(now, 10 * MIB, MIB);
            waited += pause;
            now = now + pause;
        }
        assert!(waited >= Duration::from_millis(1800), "20 MiB at 10 MiB/s: {waited:?}");
    }
}
