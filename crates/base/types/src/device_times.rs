//! What requests took at one device within some seconds, in a form that devices are compared by.
//!
//! Promises    sums of two spans of time are those of both together
//! Not here    where they are counted (`store`), what they say of a device (`pace`)

use serde::{Deserialize, Serialize};

/// Requests up to here are small: what they take is access, not transfer.
const SMALL_BYTES_MAX: u64 = 64 << 10;
/// What a request moves beside its access weighs as much as an access, per so many bytes. It is chosen low: 10 us of access at 2 GB/s are
/// 20 KB, all other media come to more. So a device that moves much never looks as if it needed longer for each request.
const UNIT_BYTES: u64 = 16 << 10;

/// Requests that are compared with their like only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// Reads of at most 64 KiB.
    SmallRead,
    /// Longer reads.
    LargeRead,
    /// Writes of at most 64 KiB.
    SmallWrite,
    /// Longer writes.
    LargeWrite,
}

impl RequestKind {
    /// All of them, in the order of [`DeviceTimes::kinds`].
    pub const ALL: [Self; 4] = [Self::SmallRead, Self::LargeRead, Self::SmallWrite, Self::LargeWrite];

    /// That of a read.
    pub fn of_read(len_bytes: u64) -> Self {
        if len_bytes <= SMALL_BYTES_MAX { Self::SmallRead } else { Self::LargeRead }
    }

    /// That of a write.
    pub fn of_write(len_bytes: u64) -> Self {
        if len_bytes <= SMALL_BYTES_MAX { Self::SmallWrite } else { Self::LargeWrite }
    }

    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SmallRead => "reads up to 64 KiB",
            Self::LargeRead => "reads, per 64 KiB",
            Self::SmallWrite => "writes up to 64 KiB",
            Self::LargeWrite => "writes, per 64 KiB",
        }
    }
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Served {
    /// How many ended.
    pub requests: u64,
    /// Nanoseconds that they took, from asked to answered, all together; of large ones per 64 KiB.
    pub took_ns: u64,
}

impl Served {
    /// Nanoseconds that one took in the mean.
    pub fn mean_ns(self) -> Option<u64> {
        self.took_ns.checked_div(self.requests)
    }
}

/// All requests of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceTimes {
    /// It is the cache device of its disk group.
    pub is_cache: bool,
    /// Whether it has moving parts, where that is known.
    pub rotates: Option<bool>,
    /// By [`RequestKind`].
    pub kinds: [Served; 4],
    /// Nanoseconds in which it had one request or more.
    pub busy_ns: u64,
    /// Accesses, and what was moved in units that weigh as much as one.
    pub units: u64,
}

impl DeviceTimes {
    /// Of one kind.
    pub fn of(&self, kind: RequestKind) -> Served {
        self.kinds[kind as usize]
    }

    /// A request ended.
    pub fn count(&mut self, kind: RequestKind, len_bytes: u64, took_ns: u64) {
        let served = &mut self.kinds[kind as usize];
        served.requests += 1;
        served.took_ns += match kind {
            RequestKind::SmallRead | RequestKind::SmallWrite => took_ns,
            RequestKind::LargeRead | RequestKind::LargeWrite => {
                (u128::from(took_ns) * u128::from(SMALL_BYTES_MAX) / u128::from(len_bytes)) as u64
            }
        };
        self.units += 1 + len_bytes / UNIT_BYTES;
    }

    /// Adds those of another span.
    pub fn add(&mut self, other: &Self) {
        for (mine, other) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.requests += other.requests;
            mine.took_ns += other.took_ns;
        }
        self.busy_ns += other.busy_ns;
        self.units += other.units;
    }

    /// How long the device was busy for each unit of work. A longer queue never makes it longer.
    pub fn busy_ns_per_unit(&self) -> Option<u64> {
        self.busy_ns.checked_div(self.units)
    }

    /// Nothing ended.
    pub fn is_idle(&self) -> bool {
        self.kinds.iter().all(|served| served.requests == 0)
    }
}
