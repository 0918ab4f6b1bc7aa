//! When a scrub of a disk group begins by itself, and how fast it goes at least: plain arithmetic.
//!
//! Promises    a pass that goes at its lowest rate, a tenth of the time not, ends within its period
//! Not here    how much faster guests let one go that somebody asked for (`throttle`)

use std::time::Duration;

/// Bytes per second of a pass, at least, however little there is to read: a small disk group is done early and rests then. A part of the
/// map, 256 MiB, takes four minutes so: that is what a start may have to read again.
const RATE_MIN: u64 = 1 << 20;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Bytes per second with which `allocated_bytes` are read in nine tenths of a period; with no period as in one of a fortnight.
pub fn scrub_rate_min(allocated_bytes: u64, period_days: u64) -> u64 {
    let days = if period_days == 0 { 14 } else { period_days };
    let seconds = days * DAY_MS / 1000 * 9 / 10;
    allocated_bytes.div_ceil(seconds).max(RATE_MIN)
}

/// Whether the next pass is due: a period after the last one began. Without a period none is.
pub fn scrub_is_due(begun_unix_ms: u64, now_unix_ms: u64, period_days: u64) -> bool {
    period_days > 0 && now_unix_ms.saturating_sub(begun_unix_ms) >= period_days * DAY_MS
}

/// Whether no pass has come to its end for twice the period. Where there never was one, `begun_unix_ms` counts: what was made a moment ago
/// is not late.
pub fn scrub_is_late(begun_unix_ms: u64, ended_unix_ms: u64, now_unix_ms: u64, period_days: u64) -> bool {
    let since = if ended_unix_ms > 0 { ended_unix_ms } else { begun_unix_ms };
    since > 0 && scrub_is_due(since, now_unix_ms, 2 * period_days)
}

/// How long the next piece waits after one of `bytes` that took so long, at so many bytes per second.
pub fn scrub_pause(bytes: u64, took: Duration, rate: u64) -> Duration {
    let whole = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1));
    whole.saturating_sub(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_fits_into_its_period() {
        const TIB: u64 = 1 << 40;
        for (bytes, days) in [(8 * TIB, 14), (40 * TIB, 14), (TIB, 1), (1 << 30, 14), (0, 0)] {
            let rate = scrub_rate_min(bytes, days);
            assert!(rate >= RATE_MIN);
            assert!(bytes / rate <= days * 86_400 * 9 / 10, "{bytes} in {days} days at {rate}");
        }
        assert_eq!(scrub_rate_min(8_000_000_000_000, 14) / 100_000, 73, "7.3 MB/s for 8 TB");
        assert_eq!(scrub_pause(1 << 20, Duration::from_millis(200), 1 << 20), Duration::from_millis(800));
        assert_eq!(scrub_pause(1 << 20, Duration::from_secs(2), 1 << 20), Duration::ZERO);
    }

    #[test]
    fn a_pass_is_due_after_a_period_and_late_after_two() {
        let day = |n: u64| 1_000_000_000_000 + n * DAY_MS;
        assert!(scrub_is_due(0, day(0), 14), "there was none");
        assert!(!scrub_is_due(day(0), day(13), 14) && scrub_is_due(day(0), day(14), 14));
        assert!(!scrub_is_due(0, day(99), 0), "only when asked");
        assert!(!scrub_is_due(day(5), day(4), 14), "a clock that was set back");
        assert!(!scrub_is_late(0, 0, day(99), 14), "nothing is known yet");
        assert!(!scrub_is_late(day(0), day(2), day(29), 14) && scrub_is_late(day(20), day(2), day(30), 14));
        assert!(scrub_is_late(day(0), 0, day(28), 14) && !scrub_is_late(day(0), 0, day(99), 0));
    }
}
