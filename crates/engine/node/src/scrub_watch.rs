//! What a host knows of a scrub beside what the disk group keeps itself: its rate, and when what is due next. Plain data.
//!
//! Not here    the work (`scrub`)

use std::{collections::BTreeMap, time::Duration};

use cairn_types::{Csn, DiskGroupId, ObjectId, Time};

/// A pass begins by itself no sooner than this after its disk group was opened, and up to as long again later, as chance has it: a start is
/// busy enough, and all hosts may have started together.
const AFTER_START: Duration = Duration::from_secs(600);
/// How long a rate is measured.
const RATE_OVER: Duration = Duration::from_secs(10);
/// How soon it is looked whether to ask again for what no copy had: one that was away may be back.
pub(crate) const TRY_AGAIN: Duration = Duration::from_secs(600);
/// What is known of the scrub of a disk group beside what it keeps itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    /// It begins no pass by itself before.
    pub(crate) begins_after: Time,
    /// Somebody works for it.
    pub(crate) works: bool,
    pub(crate) saved: Time,
    /// Bytes since.
    pub(crate) counted: u64,
    pub(crate) since: Time,
    pub(crate) bytes_per_s: u64,
    /// When owners are to be asked next.
    pub(crate) asks: Time,
    /// When it is looked whether to ask those again for what no copy had.
    pub(crate) tries_again: Time,
}

impl Watch {
    pub(crate) fn new(now: Time, chance: u64) -> Self {
        let spread = Duration::from_millis(chance % AFTER_START.as_millis() as u64);
        Self {
            begins_after: now + AFTER_START + spread,
            works: false,
            saved: now,
            counted: 0,
            since: now,
            bytes_per_s: 0,
            asks: now,
            tries_again: now + TRY_AGAIN,
        }
    }

    /// A piece was read.
    pub(crate) fn count(&mut self, now: Time, bytes: u64) {
        self.counted += bytes;
        let over = now.since(self.since);
        if over >= RATE_OVER {
            self.bytes_per_s = self.rate(now);
            (self.counted, self.since) = (0, now);
        }
    }

    /// Bytes per second, since the last count.
    pub(crate) fn rate(&self, now: Time) -> u64 {
        let ms = now.since(self.since).as_millis() as u64;
        self.counted * 1000 / ms.max(1)
    }
}

/// The configuration in which an owner was asked in vain, by disk group and disk: in the same one it would say the same.
pub(crate) type Asked = BTreeMap<(DiskGroupId, ObjectId), Csn>;

/// By disk group.
pub(crate) type Watches = BTreeMap<DiskGroupId, Watch>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_last_seconds() {
        let second = |n: u64| Time(n * 1_000_000_000);
        let mut watch = Watch::new(second(100), 7);
        assert!(watch.begins_after >= second(700) && watch.begins_after < second(1300));
        watch.count(second(104), 400);
        assert_eq!((watch.rate(second(104)), watch.bytes_per_s), (100, 0));
        watch.count(second(110), 600);
        assert_eq!((watch.bytes_per_s, watch.counted), (100, 0));
    }
}
