//! How fast a host copies when it copies: for the minutes that previews tell. Pure: time comes in as an argument.
//!
//! Promises    a rate is of all resyncs of the host together, over the time in which any was under way
//!             what is too short to say anything changes nothing
//! Not here    how fast it may go (`throttle`)

use std::time::Duration;

use cairn_types::Time;

/// A time of copying that copied less tells nothing: most of it is beginning and end.
const BYTES_MIN: u64 = 8 << 20;
/// A rate is told anew after so long, also where copying goes on for hours.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// Counts bytes and the time that they take.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopyMeter {
    running: u32,
    since: Time,
    bytes: u64,
    bytes_per_s: Option<u64>,
}

impl CopyMeter {
    /// A resync begins.
    pub fn begin(&mut self, now: Time) {
        if self.running == 0 {
            (self.since, self.bytes) = (now, 0);
        }
        self.running += 1;
    }

    /// One ends, in sync or not.
    pub fn end(&mut self, now: Time) {
        self.running = self.running.saturating_sub(1);
        if self.running == 0 {
            self.tell(now);
        }
    }

    /// So many bytes are copied.
    pub fn count(&mut self, now: Time, bytes: u64) {
        self.bytes += bytes;
        if now.since(self.since) >= TOLD_EVERY {
            self.tell(now);
            (self.since, self.bytes) = (now, 0);
        }
    }

    /// Bytes per second of the last time of copying, or of this one; none where nothing was copied yet.
    pub fn bytes_per_s(&self, now: Time) -> Option<u64> {
        self.bytes_per_s.or_else(|| self.rate(now))
    }

    fn tell(&mut self, now: Time) {
        self.bytes_per_s = self.rate(now).or(self.bytes_per_s);
    }

    fn rate(&self, now: Time) -> Option<u64> {
        let ms = now.since(self.since).as_millis() as u64;
        (self.bytes >= BYTES_MIN && ms > 0).then(|| self.bytes * 1000 / ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(ms: u64) -> Time {
        Time::default() + Duration::from_millis(ms)
    }

    /// Goal: two resyncs at once are one rate, and a pause between two times of copying counts for nothing.
    #[test]
    fn all_resyncs_together_are_one_rate() {
        let mut meter = CopyMeter::default();
        assert_eq!(meter.bytes_per_s(at(0)), None);
        meter.begin(at(1000));
        meter.begin(at(1000));
        meter.count(at(2000), 30 * MIB);
        assert_eq!(meter.bytes_per_s(at(2000)), Some(30 * MIB), "while it goes on");
        meter.count(at(3000), 30 * MIB);
        meter.end(at(3000));
        meter.end(at(4000));
        assert_eq!(meter.bytes_per_s(at(900_000)), Some(20 * MIB));
        meter.begin(at(1_000_000));
        meter.count(at(1_000_500), MIB);
        meter.end(at(1_001_000));
        assert_eq!(meter.bytes_per_s(at(1_001_000)), Some(20 * MIB), "too little to say anything");
    }

    /// Goal: a rate that changes while copying goes on is told. Method: fast for a minute, then slow.
    #[test]
    fn a_long_time_of_copying_is_told_anew() {
        let mut meter = CopyMeter::default();
        meter.begin(at(0));
        (1..=60).for_each(|s| meter.count(at(s * 1000), 100 * MIB));
        assert_eq!(meter.bytes_per_s(at(60_000)), Some(100 * MIB));
        (61..=120).for_each(|s| meter.count(at(s * 1000), 10 * MIB));
        assert_eq!(meter.bytes_per_s(at(120_000)), Some(10 * MIB));
    }
}
