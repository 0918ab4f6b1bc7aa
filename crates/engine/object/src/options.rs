//! Times and bounds of the object layer, each with its reason.

use std::time::Duration;

use cairn_types::Time;

/// Times and bounds of the object layer of one host; each may change while it runs.
#[derive(Debug, Clone)]
pub struct ObjectOptions {
    /// A component absent for longer is replaced. Default 60 min, as vSAN has it.
    pub repair_delay: Duration,
    /// Until then nothing that is lost is replaced. What comes back is brought in sync all the same, and moves go on.
    pub repair_paused_until: Option<Time>,
    /// A disk group that no host has reported open for this long counts as away. Its components are recorded absent even without
    /// writes, so that the repair delay starts. Default 30 s: a host that restarts is back before.
    pub absent_after: Duration,
    /// How long a guest's request waits for an object that cannot be served, before it fails.
    ///
    /// 25 s: below the 30 s after which Linux guests reset a device, and well above a failover.
    pub guest_patience: Duration,
    /// How long anybody may repeat a request of a guest: so long a part of a disk that went over to another layout stays in it.
    ///
    /// 120 s: the patience, a last try's call, a takeover, and as much again.
    pub repeated_within: Duration,
    /// How long after a start an object waits for hosts that hold its copies, before it records them absent.
    pub cold_start_grace: Duration,
    /// Guest bytes in flight per host, at most; more wait at the front end.
    pub in_flight_bytes_max: u64,
    /// Resync bytes per second and host, at most; 0 is no limit beyond the closed loop.
    pub resync_bytes_per_s_max: u64,
    /// Bytes of region copies under way per host, at most, however many objects are resynced; far fewer beside guests.
    ///
    /// 16 MiB (ADR 0012): as much is in memory here and, together, at the targets. A guest of another host waits for at most so much in a
    /// target's log (8 ms at 2 GB/s).
    pub resync_bytes_in_flight_max: u64,
    /// In what time the copies of an owned object are compared once; zero: never.
    ///
    /// A day: 16,384 questions to each copy of 1 TiB, one in five seconds, and none of them reads a block.
    pub compare_period: Duration,
    /// Bytes of memory for what clones of this host read of their parents, at most.
    ///
    /// 128 MiB: a machine reads some 100 to 300 MB of its image as it boots, most of it once. A thousand that boot at once read the same.
    pub parents_cache_bytes: u64,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self {
            repair_delay: Duration::from_secs(3600),
            repair_paused_until: None,
            absent_after: Duration::from_secs(30),
            guest_patience: Duration::from_secs(25),
            repeated_within: Duration::from_secs(120),
            cold_start_grace: Duration::from_secs(10),
            in_flight_bytes_max: 64 << 20,
            resync_bytes_per_s_max: 0,
            resync_bytes_in_flight_max: 16 << 20,
            compare_period: Duration::from_secs(24 * 3600),
            parents_cache_bytes: 128 << 20,
        }
    }
}
