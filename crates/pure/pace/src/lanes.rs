//! Copies from and to other hosts, each as fast as that host allows beside its guests.
//!
//! Promises    over any time the copies of a host stay within its rate and one piece; a slow host keeps no other's waiting
//! Assumes     the rate is what the host told last; two owners that copy to one host each take it, until it tells less
//!
//! Source      the virtual scheduling form of the leaky bucket (ITU-T I.371, the generic cell rate algorithm)

use std::{collections::BTreeMap, time::Duration};

use cairn_types::{HostId, Time};

/// When the next copy from or to each host is due.
#[derive(Debug, Clone, Default)]
pub struct Lanes {
    due: BTreeMap<HostId, Time>,
}

impl Lanes {
    /// How long the next `bytes` from or to `host` wait where it allows so many a second; none is no bound.
    pub fn next(&mut self, now: Time, host: HostId, allowed: Option<u64>, bytes: u64) -> Duration {
        let Some(rate) = allowed else {
            self.due.remove(&host);
            return Duration::ZERO;
        };
        let due = self.due.entry(host).or_insert(now);
        let start = now.max(*due);
        *due = start + Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1));
        start.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn each_host_has_its_own_rate() {
        let (mut lanes, now, slow, fast) = (Lanes::default(), Time(SECOND), HostId(1), HostId(2));
        let last = (0..17).map(|_| lanes.next(now, slow, Some(8 * MIB), MIB)).last();
        assert_eq!(last, Some(Duration::from_secs(2)), "16 MiB at 8 MiB/s come before it");
        assert_eq!(lanes.next(now, fast, Some(8 * MIB), MIB), Duration::ZERO);
        assert_eq!(lanes.next(now, fast, None, MIB), Duration::ZERO);
        assert_eq!(lanes.next(now, slow, None, MIB), Duration::ZERO, "its guests are gone");
        assert_eq!(lanes.next(now, slow, Some(8 * MIB), MIB), Duration::ZERO, "and nothing is owed");
        // What was not used is not saved up.
        let later = Time(100 * SECOND);
        lanes.next(later, slow, Some(8 * MIB), 8 * MIB);
        assert_eq!(lanes.next(later, slow, Some(8 * MIB), MIB), Duration::from_secs(1));
    }
}
