//! How fast resync may go, and how much of it at once: a closed loop on the latency that guests see. Pure: time comes in as
//! an argument.
//!
//! Promises    guests idle: no pause, as many bytes on the way as the bound allows
//!             guests there: two pieces on the way, and a rate that falls by a third whenever guests are slow and rises
//!             by a twelfth otherwise; never below 8 MiB/s
//! Assumes     `on_guest` for every answer of an owner here, `next` before every piece; or, at seats that serve the owners of others,
//!             `on_guest` for every answer of a seat, `on_copy` for every piece, and `allowed` for whoever copies from or to them
//!
//! Guests are slow when their mean is above twice what it is without resync. They are slow, too, when more than one answer in a
//! hundred takes longer than 1.5 times the 99th percentile without it. A rebuild fills the queues of devices and processors in
//! bursts, and a mean does not see those. What guests are used to is learnt while no resync runs. It is learnt slowly while one
//! runs at the lowest rate, as a resync takes hours and guests change.
//!
//! Source      additive increase, multiplicative decrease in the spirit of Jacobson, SIGCOMM 1988, the knee searched from
//!             below; a percentile without a list of values: Robbins and Monro, Ann. Math. Stat. 22(3), 1951

use std::time::Duration;

use cairn_types::Time;

/// Bytes per second that resync gets however slow guests are: 8 MiB/s restores 1 TiB in 36 hours, so redundancy
/// comes back in any case.
const RATE_MIN: u64 = 8 << 20;
/// Bytes per second, at most, beside guests.
const RATE_MAX: u64 = 4 << 30;
/// Bytes per second that it begins with beside guests that it knows.
const RATE_START: u64 = 64 << 20;
/// Guests count as idle this long after their last answer.
const IDLE_AFTER: Duration = Duration::from_millis(200);
/// How often the rate is judged: some tens of guest I/Os at 1 ms.
const JUDGE_EVERY: Duration = Duration::from_millis(50);
/// Rises that one call makes up for, at most: the time of one region copy at the lowest rate.
const JUDGEMENTS_AT_ONCE_MAX: u32 = 4;

/// Bytes of one copy, at most: guests' requests wait for what it has locked, and for the shard while it is checked and sent.
///
/// 256 KiB take about 0.2 ms each, a region four times that; and log segments of 4 MiB hold 15 of them, but only three regions,
/// as each of those needs a batch of its own with a header.
pub const PIECE_BYTES: u64 = 256 << 10;
/// Bytes of copies on the way beside guests: one piece is read while another is written.
const WINDOW_BESIDE_GUESTS: u64 = 2 * PIECE_BYTES;

/// Answers without resync from which on guests' latency counts as known: until then resync has its lowest rate beside them.
const KNOWN_AFTER: u32 = 200;
/// Weight of one answer in what guests have now, and in what they are used to: some answers in a row are no mean.
const NOW_WEIGHT: u64 = 64;
const USED_TO_WEIGHT: u64 = 512;
/// While resync runs at its lowest rate, one answer in so many tells what guests are used to: a minute, not a second of slow
/// guests is what they have without it.
const LEARNT_AT_MIN_EVERY: u32 = 8;
/// The percentile's estimate rises by this part for an answer above it, and falls by a hundredth of that for one below:
/// at rest where one in a hundred is above.
const TAIL_STEP: u64 = 25;
/// More slow answers than one in a hundred by so many, in hundredths: guests are slow. Two, as one may be chance.
const SLOW_DEBT: u32 = 200;

/// What guests are used to, without resync.
#[derive(Debug, Clone, Default)]
struct UsedTo {
    answers: u32,
    mean_ns: u64,
    /// 99 of 100 answers take less.
    tail_ns: u64,
}

impl UsedTo {
    fn learn(&mut self, ns: u64) {
        let ns = ns.max(1);
        // The first ones weigh more, or the very first would count for long.
        self.answers = self.answers.saturating_add(1);
        let weight = u64::from(self.answers).min(USED_TO_WEIGHT);
        self.mean_ns = self.mean_ns - self.mean_ns / weight + ns / weight;
        if self.tail_ns == 0 {
            self.tail_ns = ns;
        }
        match ns > self.tail_ns {
            true => self.tail_ns += self.tail_ns / TAIL_STEP + 1,
            false => self.tail_ns -= self.tail_ns / (100 * TAIL_STEP),
        }
    }

    fn is_known(&self) -> bool {
        self.answers >= KNOWN_AFTER
    }
}

/// The loop's state.
#[derive(Debug, Clone)]
pub struct Throttle {
    rate: u64,
    due: Time,
    judged: Time,
    last_guest: Time,
    last_copy: Time,
    used_to: UsedTo,
    /// Smoothed latency of guests now, in ns.
    mean_ns: u64,
    /// Slow answers beyond one in a hundred, in hundredths.
    slow_debt: u32,
    /// Answers at the lowest rate.
    at_min: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        let zero = Time(0);
        Self {
            rate: RATE_START,
            due: zero,
            judged: zero,
            last_guest: zero,
            last_copy: zero,
            used_to: UsedTo::default(),
            mean_ns: 0,
            slow_debt: 0,
            at_min: 0,
        }
    }
}

impl Throttle {
    /// A guest was answered after `latency`.
    pub fn on_guest(&mut self, now: Time, latency: Duration) {
        let ns = latency.as_nanos() as u64;
        self.last_guest = now;
        let undisturbed = self.last_copy == Time(0) || now.since(self.last_copy) > IDLE_AFTER;
        let at_min = self.rate == RATE_MIN;
        self.at_min = self.at_min.wrapping_add(u32::from(at_min));
        let learnt_at_min = !self.used_to.is_known() || self.at_min.is_multiple_of(LEARNT_AT_MIN_EVERY);
        if undisturbed || (at_min && learnt_at_min) {
            self.used_to.learn(ns);
        }
        if undisturbed {
            (self.mean_ns, self.slow_debt) = (self.used_to.mean_ns, 0);
            return;
        }
        self.mean_ns = self.mean_ns - self.mean_ns / NOW_WEIGHT + ns / NOW_WEIGHT;
        let slow = ns > self.used_to.tail_ns + self.used_to.tail_ns / 2;
        self.slow_debt = if slow { self.slow_debt.saturating_add(99) } else { self.slow_debt.saturating_sub(1) };
    }

    /// Bytes of copies that may be on the way now, of `window_max`.
    pub fn window(&self, now: Time, window_max: u64) -> u64 {
        if self.has_guests(now) { WINDOW_BESIDE_GUESTS.min(window_max) } else { window_max }
    }

    fn has_guests(&self, now: Time) -> bool {
        self.had_guests(now, IDLE_AFTER)
    }

    fn had_guests(&self, now: Time, within: Duration) -> bool {
        self.last_guest > Time(0) && now.since(self.last_guest) < within
    }

    /// Another host's resync moves a piece here.
    pub fn on_copy(&mut self, now: Time) {
        self.last_copy = now;
    }

    /// Bytes per second that other hosts' resyncs may move here; none where no guest was answered for `within`: as many as they can.
    ///
    /// It is told now and then, and judged no more often: what one telling changes is to be seen before the next.
    pub fn allowed(&mut self, now: Time, within: Duration) -> Option<u64> {
        if !self.had_guests(now, within) {
            return None;
        }
        if self.last_copy > Time(0) && now.since(self.last_copy) < within {
            self.judge(now);
        } else {
            // What the last resync found out is old.
            self.rate = if self.used_to.is_known() { RATE_START } else { RATE_MIN };
        }
        Some(self.rate)
    }

    fn judge(&mut self, now: Time) {
        if !self.used_to.is_known() {
            self.rate = RATE_MIN;
            return;
        }
        let judgements = (now.since(self.judged).as_nanos() / JUDGE_EVERY.as_nanos()) as u32;
        if judgements == 0 {
            return;
        }
        self.judged = now;
        let slow = self.mean_ns > 2 * self.used_to.mean_ns || self.slow_debt >= SLOW_DEBT;
        if slow {
            self.slow_debt = 0;
            self.rate -= self.rate / 3;
        } else {
            // At a low rate copies are rare, and so are calls: the time between them counts, or it never comes back.
            for _ in 0..judgements.min(JUDGEMENTS_AT_ONCE_MAX) {
                self.rate += self.rate / 12;
            }
        }
        self.rate = self.rate.clamp(RATE_MIN, RATE_MAX);
    }

    /// How long to wait before the next `bytes` of resync. `limit` in bytes per second, 0 for none.
    pub fn next(&mut self, now: Time, limit: u64, bytes: u64) -> Duration {
        let guests = self.has_guests(now);
        if guests {
            self.judge(now);
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

    /// Guests answer each ms, the `n`th after `latency_us(n)`, without resync.
    fn calm(throttle: &mut Throttle, from_ms: u64, ms: u64, latency_us: impl Fn(u64) -> u64) {
        (from_ms..from_ms + ms).for_each(|n| throttle.on_guest(at(n), Duration::from_micros(latency_us(n))));
    }

    /// Copies pieces as it may for `ms` beside them; returns MiB copied.
    fn copied(throttle: &mut Throttle, from_ms: u64, ms: u64, latency_us: impl Fn(u64) -> u64) -> u64 {
        let (mut bytes, mut next_copy) = (0, at(from_ms));
        for n in from_ms..from_ms + ms {
            throttle.on_guest(at(n), Duration::from_micros(latency_us(n)));
            while at(n) >= next_copy {
                next_copy = next_copy.max(at(n)) + throttle.next(at(n), 0, PIECE_BYTES).max(Duration::from_micros(200));
                bytes += PIECE_BYTES;
            }
        }
        bytes / MIB
    }

    #[test]
    fn it_yields_to_slow_guests_and_comes_back() {
        let mut throttle = Throttle::default();
        calm(&mut throttle, 1, 999, |_| 200);
        let calm = copied(&mut throttle, 1000, 1000, |_| 220);
        let slow = copied(&mut throttle, 2000, 1000, |_| 2000);
        copied(&mut throttle, 3000, 2000, |_| 220);
        let again = copied(&mut throttle, 5000, 1000, |_| 220);
        assert!(slow * 3 < calm, "slow guests: {slow} MiB/s, calm: {calm} MiB/s");
        assert!(again > 2 * slow, "it recovers: {again} MiB/s after {slow} MiB/s");
        assert!(slow >= 5, "never below the floor: {slow} MiB/s");
    }

    /// Goal: it yields to a tail that the mean does not show, and not to one that guests have anyway. Method: 1 in 50 or 1 in
    /// 200 answers takes ten times as long, with and without that tail before the resync.
    #[test]
    fn it_yields_to_a_tail_that_guests_are_not_used_to() {
        let tail = |every: u64| move |n: u64| if n.is_multiple_of(every) { 5000 } else { 500 };
        let run = |before: u64, during: u64| {
            let mut throttle = Throttle::default();
            calm(&mut throttle, 1, 9999, tail(before));
            copied(&mut throttle, 10_000, 2000, tail(during))
        };
        let (new, known, rare) = (run(100_000, 50), run(50, 50), run(100_000, 200));
        assert!(new * 4 < known, "2 % slow: {new} MiB where they were not, {known} MiB where they were");
        assert!(new * 4 < rare, "2 % slow: {new} MiB, 0.5 % slow: {rare} MiB");
    }

    /// Goal: guests that became slower for good do not keep a long resync at its lowest rate.
    #[test]
    fn at_the_lowest_rate_it_learns_what_guests_have() {
        let mut throttle = Throttle::default();
        calm(&mut throttle, 1, 999, |_| 200);
        let before = copied(&mut throttle, 1000, 2000, |_| 1000);
        copied(&mut throttle, 3000, 20_000, |_| 1000);
        let after = copied(&mut throttle, 23_000, 2000, |_| 1000);
        assert!(after > 4 * before, "{before} MiB at first, {after} MiB later");
    }

    #[test]
    fn the_percentile_comes_to_rest_where_one_in_a_hundred_is_above() {
        let mut used_to = UsedTo::default();
        // A fixed order that visits all residues: 1 to 1000 us, evenly.
        (0..50_000u64).for_each(|n| used_to.learn((n * 617 % 1000 + 1) * 1000));
        assert!((930_000..=1_010_000).contains(&used_to.tail_ns), "p99 of 1 to 1000 us: {} ns", used_to.tail_ns);
        assert!(used_to.mean_ns.abs_diff(500_000) < 60_000, "mean: {} ns", used_to.mean_ns);
    }

    #[test]
    fn guests_that_nobody_knows_yet_get_the_lowest_rate() {
        let mut throttle = Throttle::default();
        throttle.next(at(1), 0, MIB);
        let at_first = copied(&mut throttle, 2, 190, |_| 200);
        assert!(at_first <= 2, "{at_first} MiB in the first 0.19 s");
        let later = copied(&mut throttle, 192, 2000, |_| 200);
        assert!(later > 100, "{later} MiB in the two seconds after");
    }

    #[test]
    fn the_window_is_narrow_beside_guests_only() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.window(at(1000), 16 * MIB), 16 * MIB);
        throttle.on_guest(at(1000), Duration::from_micros(200));
        assert_eq!(throttle.window(at(1100), 16 * MIB), WINDOW_BESIDE_GUESTS);
        assert_eq!(throttle.window(at(1300), 16 * MIB), 16 * MIB);
    }

    /// Copies at the rate that a host tells each half second, for `seconds`; returns the rates in MiB/s.
    fn told(throttle: &mut Throttle, from_ms: u64, seconds: u64, latency_us: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut rates = Vec::new();
        for n in from_ms..from_ms + seconds * 1000 {
            throttle.on_guest(at(n), Duration::from_micros(latency_us(n)));
            throttle.on_copy(at(n));
            if n.is_multiple_of(500) {
                rates.push(throttle.allowed(at(n), Duration::from_secs(1)).expect("there are guests") / MIB);
            }
        }
        rates
    }

    /// Goal: who copies here hears of no bound without guests, of the first rate before a resync, and of less while they are slow.
    #[test]
    fn what_others_are_told_follows_the_guests_here() {
        let mut throttle = Throttle::default();
        let told_now = |throttle: &mut Throttle, ms| throttle.allowed(at(ms), Duration::from_secs(1));
        assert_eq!(told_now(&mut throttle, 1), None, "nobody is here");
        calm(&mut throttle, 2, 100, |_| 200);
        assert_eq!(told_now(&mut throttle, 102), Some(RATE_MIN), "guests that nobody knows yet");
        calm(&mut throttle, 103, 897, |_| 200);
        assert_eq!(told_now(&mut throttle, 1000), Some(RATE_START));
        assert_eq!(told_now(&mut throttle, 1400), Some(RATE_START), "it does not grow while nobody copies");
        let slow = told(&mut throttle, 1500, 5, |_| 2000);
        assert!(slow.is_sorted_by(|a, b| a >= b) && slow.last() == Some(&8), "slow guests: {slow:?}");
        let calm = told(&mut throttle, 6500, 10, |_| 210);
        assert!(calm.last() > Some(&64), "and back: {calm:?}");
        assert_eq!(told_now(&mut throttle, 17_500), None, "they are gone");
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
