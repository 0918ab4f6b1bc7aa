//! A disk's limits: how long each request of a guest waits. Pure: time comes in as an argument.
//!
//! Promises    over any second a disk gets no more than its limits and a burst of a tenth of a second
//!             a disk without limits never waits; one whose limit changes waits by the new one at once
//! Not here    the waiting itself (`owner/guest.rs`), where limits are kept (the object's policy)
//!
//! One I/O is up to 32 KiB, as vSAN counts; a larger request is several. A trim, or a write of zeroes that gives its
//! space back, is one I/O for each gigabyte that begins, and no bytes: it moves none.
//!
//! Source      the virtual scheduling form of the leaky bucket (ITU-T I.371, the generic cell rate algorithm)

use std::time::Duration;

use cairn_types::{Policy, Time};

/// What a request has unused of its allowance, at most: short bursts pass, the mean holds.
const BURST: Duration = Duration::from_millis(100);
/// Bytes of one I/O, at most.
const IO_BYTES: u64 = 32 << 10;

/// The limits of a disk; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Limits {
    pub(crate) iops: u32,
    pub(crate) bytes_per_s: u64,
}

impl Limits {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self { iops: policy.iops_limit, bytes_per_s: policy.bandwidth_limit_bytes_per_s }
    }
}

/// What was let pass, as times: when the allowance that was used comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pace {
    limits: Limits,
    ios_used_until: Time,
    bytes_used_until: Time,
}

impl Pace {
    /// When a request of so many bytes may begin: not before the time given back, `now` or later.
    pub(crate) fn begin(&mut self, limits: Limits, now: Time, bytes: u64) -> Time {
        if limits != self.limits {
            // What was used up under another limit counts for nothing.
            *self = Self { limits, ios_used_until: now, bytes_used_until: now };
        }
        let ios = bytes.div_ceil(IO_BYTES).max(1);
        let by_ios = use_up(&mut self.ios_used_until, u64::from(limits.iops), now, ios);
        let by_bytes = use_up(&mut self.bytes_used_until, limits.bytes_per_s, now, bytes);
        by_ios.max(by_bytes)
    }
}

/// Uses `count` of an allowance of `per_s`; when that much of it is there.
fn use_up(used_until: &mut Time, per_s: u64, now: Time, count: u64) -> Time {
    if per_s == 0 || count == 0 {
        return now;
    }
    let burst_ns = BURST.as_nanos() as u64;
    let cost_ns = u128::from(count) * 1_000_000_000 / u128::from(per_s);
    let begins = used_until.0.max(now.0.saturating_sub(burst_ns));
    *used_until = Time(begins.saturating_add(u64::try_from(cost_ns).unwrap_or(u64::MAX)));
    (*used_until).max(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Limits = Limits { iops: 0, bytes_per_s: 0 };
    const SECOND: u64 = 1_000_000_000;

    /// When the last of `count` requests begins that are asked for one after the other, from second 10 on; in ms.
    fn last_after_ms(limits: Limits, count: u64, bytes: u64) -> u64 {
        let (mut pace, start) = (Pace::default(), Time(10 * SECOND));
        // Idle for long before: the whole burst is there.
        pace.begin(limits, Time(0), 0);
        let mut now = start;
        (0..count).for_each(|_| now = pace.begin(limits, now, bytes));
        (now.0 - start.0) / 1_000_000
    }

    #[test]
    fn the_mean_holds_and_a_burst_of_a_tenth_of_a_second_passes() {
        let hundred = Limits { iops: 100, ..NONE };
        assert_eq!(last_after_ms(hundred, 10, 4096), 0, "a burst");
        assert_eq!(last_after_ms(hundred, 1000, 4096), 9_900);
        // 64 KiB are two, and so is a byte more than 32 KiB.
        assert_eq!(last_after_ms(hundred, 1000, 64 << 10), 19_900);
        assert_eq!(last_after_ms(hundred, 1000, (32 << 10) + 1), 19_900);
        // No bytes (a trim) are one.
        assert_eq!(last_after_ms(hundred, 1000, 0), 9_900);
    }

    #[test]
    fn bytes_have_a_limit_of_their_own() {
        let slow = Limits { bytes_per_s: 10 << 20, ..NONE };
        assert_eq!(last_after_ms(slow, 1, 1 << 20), 0, "a burst");
        assert_eq!(last_after_ms(slow, 100, 1 << 20), 9_900);
        assert_eq!(last_after_ms(slow, 1000, 0), 0, "no bytes");
        // The stricter of both counts.
        assert_eq!(last_after_ms(Limits { iops: 100, bytes_per_s: 4096 * 10 }, 100, 4096), 9_900);
        assert_eq!(last_after_ms(Limits { iops: 10, bytes_per_s: 4096 * 100 }, 100, 4096), 9_900);
    }

    #[test]
    fn no_limit_is_no_wait_and_extremes_do_not_overflow() {
        assert_eq!(last_after_ms(NONE, 1_000_000, 32 << 20), 0);
        let most = Limits { iops: u32::MAX, bytes_per_s: u64::MAX };
        assert_eq!(last_after_ms(most, 1000, 4096), 0);
        let mut pace = Pace::default();
        let least = Limits { iops: 1, bytes_per_s: 1 };
        assert_eq!(pace.begin(least, Time(0), u64::MAX), Time(u64::MAX));
    }

    #[test]
    fn a_new_limit_counts_at_once() {
        let (mut pace, now) = (Pace::default(), Time(SECOND));
        let slow = Limits { iops: 1, ..NONE };
        (0..100).for_each(|_| _ = pace.begin(slow, now, 4096));
        assert_eq!(pace.begin(slow, now, 4096), Time(102 * SECOND));
        let fast = Limits { iops: 1000, ..NONE };
        assert!(pace.begin(fast, now, 4096) <= Time(SECOND + 1_000_000));
        assert_eq!(pace.begin(NONE, now, 4096), now);
    }
}
