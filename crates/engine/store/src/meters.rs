//! What requests take at the devices of a disk group: what its slow devices are found by.
//!
//! Promises    two clock readings a request and plain memory of the shard's thread; a device that was never asked takes none
//! Assumes     who forgets a request (its future was dropped) is seldom: it then counts as over when the next one begins or ends
//! Not here    requests of the metadata store's own thread; what the numbers say (`cairn-pace`)

use std::cell::RefCell;

use cairn_types::{DeviceTimes, RequestKind, Time};

use crate::segments::LOG;

/// One device.
#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    times: DeviceTimes,
    in_flight: u32,
    /// Since when it is busy, and not counted yet.
    busy_since: Time,
    /// Since when it was busy and answered nothing.
    silent_since: Time,
    /// What was asked for last.
    last: Option<RequestKind>,
    /// When something began or ended last.
    seen: Time,
}

impl Meter {
    fn begin(&mut self, kind: RequestKind, now: Time) {
        if self.in_flight == 0 {
            (self.busy_since, self.silent_since) = (now, now);
        }
        self.in_flight += 1;
        (self.last, self.seen) = (Some(kind), now);
    }

    fn end(&mut self, now: Time) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.times.busy_ns += now.0.saturating_sub(self.busy_since.0);
        }
        (self.silent_since, self.seen) = (now, now);
    }

    fn take(&mut self, now: Time) -> DeviceTimes {
        if self.in_flight > 0 {
            self.times.busy_ns += now.0.saturating_sub(self.busy_since.0);
            self.busy_since = now;
            // A device that answers nothing at all must not look like one that nobody asks.
            if let Some(kind) = self.last.filter(|_| self.times.is_idle()) {
                self.times.count(kind, 1, now.0.saturating_sub(self.silent_since.0));
            }
        }
        std::mem::take(&mut self.times)
    }
}

/// The devices of a group: the cache device, then capacity devices by number.
#[derive(Debug, Default)]
pub(crate) struct Meters(RefCell<Vec<Meter>>);

impl Meters {
    fn with<T>(&self, device: u8, change: impl FnOnce(&mut Meter) -> T) -> T {
        let at = if device == LOG { 0 } else { usize::from(device) + 1 };
        let mut all = self.0.borrow_mut();
        if all.len() <= at {
            all.resize(at + 1, Meter::default());
        }
        change(&mut all[at])
    }

    /// A request begins; it is over when what is returned is told so, or goes.
    pub fn begin(&self, device: u8, kind: RequestKind, len_bytes: u64, now: Time) -> Asked<'_> {
        self.with(device, |meter| meter.begin(kind, now));
        Asked { meters: self, device, kind, len_bytes, began: now }
    }

    /// A write to the log begins; [`Self::log_write_ended`] follows.
    pub fn log_write_began(&self, len_bytes: u64, now: Time) {
        self.with(LOG, |meter| meter.begin(RequestKind::of_write(len_bytes), now));
    }

    /// It is on stable media.
    pub fn log_write_ended(&self, len_bytes: u64, began: Time, now: Time) {
        self.with(LOG, |meter| {
            meter.times.count(RequestKind::of_write(len_bytes), len_bytes, now.0.saturating_sub(began.0));
            meter.end(now);
        });
    }

    /// What ended since it was asked last, by device, the cache device first.
    pub fn take(&self, now: Time) -> Vec<DeviceTimes> {
        let mut all = self.0.borrow_mut();
        let each = all.iter_mut().enumerate();
        each.map(|(at, meter)| DeviceTimes { is_cache: at == 0, ..meter.take(now) }).collect()
    }
}

/// A request that is under way.
pub(crate) struct Asked<'a> {
    meters: &'a Meters,
    device: u8,
    kind: RequestKind,
    len_bytes: u64,
    began: Time,
}

impl Asked<'_> {
    /// It was answered, and not with an error.
    pub fn answered(self, now: Time) {
        self.meters.with(self.device, |meter| {
            meter.times.count(self.kind, self.len_bytes, now.0.saturating_sub(self.began.0));
            meter.seen = now;
        });
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.meters.with(self.device, |meter| meter.end(meter.seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(ms: u64) -> Time {
        Time(ms * MS)
    }

    #[test]
    fn time_with_requests_counts_once_and_each_request_its_own() {
        let meters = Meters::default();
        let first = meters.begin(0, RequestKind::SmallRead, 4096, ms(10));
        let second = meters.begin(0, RequestKind::SmallRead, 4096, ms(12));
        first.answered(ms(14));
        second.answered(ms(17));
        meters.log_write_began(8192, ms(20));
        meters.log_write_ended(8192, ms(20), ms(21));
        let taken = meters.take(ms(100));
        assert_eq!((taken.len(), taken[0].is_cache, taken[1].is_cache), (2, true, false));
        let reads = taken[1].of(RequestKind::SmallRead);
        assert_eq!((reads.requests, reads.took_ns, taken[1].busy_ns, taken[1].units), (2, 9 * MS, 7 * MS, 2));
        assert_eq!((taken[0].of(RequestKind::SmallWrite).took_ns, taken[0].busy_ns), (MS, MS));
        assert!(meters.take(ms(200)).iter().all(|times| times.is_idle() && times.busy_ns == 0));
    }

    #[test]
    fn a_request_that_nobody_waits_for_and_one_that_is_not_answered() {
        let meters = Meters::default();
        drop(meters.begin(0, RequestKind::SmallRead, 4096, ms(10)));
        assert!(meters.take(ms(20))[1].is_idle());
        let hangs = meters.begin(0, RequestKind::SmallRead, 4096, ms(30));
        let silent = meters.take(ms(5030))[1];
        assert_eq!((silent.of(RequestKind::SmallRead).mean_ns(), silent.busy_ns), (Some(5000 * MS), 5000 * MS));
        let silent = meters.take(ms(7030))[1];
        assert_eq!((silent.of(RequestKind::SmallRead).mean_ns(), silent.busy_ns), (Some(7000 * MS), 2000 * MS));
        hangs.answered(ms(7031));
        assert_eq!(meters.take(ms(7040))[1].busy_ns, MS);
    }
}
