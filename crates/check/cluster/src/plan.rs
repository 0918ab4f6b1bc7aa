//! What happens in a run, as data: drawn from the seed before the run begins, so that any part of it can be left out.
//!
//! Promises    one seed, one plan; a plan with events taken out is a plan
//!             the faults of a plan overlap within what the disks' policies survive, so that every promise must hold
//! Not here    how a fault is made to happen (`inject`)
//!
//! A run has one menu. *Turmoil* loses no data and knows no limit: hosts and links fail in any number at once. *Damage*
//! spoils devices, which costs copies: one host is the victim of all of it, and the others stay up. *Loss* takes a host
//! away until it is replaced, and then another one.

use std::fmt;

use cairn_sim::Rng;
use serde::{Deserialize, Serialize};

use crate::shape::{Needs, Shape};

/// Which faults a run draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Menu {
    /// Hosts, links, directory and management, several at once.
    Turmoil,
    /// One thing at a time, with time to recover: each stall has one cause.
    Single,
    /// One host's devices fail, lie and rot.
    Damage,
    /// A host stays away until it is replaced; then another one dies.
    Loss,
}

/// Where a device is among a host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    /// The host.
    pub host: usize,
    /// Its disk group.
    pub group: usize,
    /// The capacity device; the cache device where none.
    pub capacity: Option<usize>,
}

/// Part of one disk operation at which power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Before the device saw it.
    Before,
    /// In flight.
    During,
    /// Done, but nobody knows.
    After,
}

/// One thing that happens. It ends with its event: hosts start again, links heal.
#[allow(missing_docs, reason = "the fields are named, and each kind says the rest")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Power goes; unsynced sectors are lost as the number says.
    Crash { host: usize, loss: u64 },
    /// Power goes within one of its next disk operations.
    CrashAtOperation { host: usize, after: u64, phase: Phase, loss: u64 },
    /// It crashes again each time that it has come up, so many times.
    RestartLoop { host: usize, times: u32, gap_ms: u64, loss: u64 },
    /// All lose power at once, and start one after the other.
    CrashAll { loss: u64, gap_ms: u64 },
    /// The process dies, its kernel lives.
    Kill { host: usize },
    /// The process stands still.
    Pause { host: usize },
    /// The clock runs at another rate, within the bound.
    ClockRate { host: usize, ppm: i64 },
    /// No link to anyone.
    Isolate { host: usize },
    /// One link is cut.
    Cut { a: usize, b: usize },
    /// One link is cut in one direction.
    CutOneWay { from: usize, to: usize },
    /// One connection ends at once and comes back.
    Disconnect { a: usize, b: usize },
    /// Messages take longer one way.
    SlowLink { from: usize, to: usize, by_ms: u64 },
    /// These hosts do not reach the directory.
    DirectoryAway { hosts: Vec<usize> },
    /// Operations of a device take so many times as long.
    SlowDevice { at: At, times: u32 },
    /// The next reads of a device fail.
    ReadErrors { at: At, count: u32 },
    /// The next write of a device fails; the host is started anew at the end.
    WriteError { at: At },
    /// The next flush of a device fails; the host is started anew at the end.
    FlushError { at: At },
    /// Sectors that cannot be read until they are written.
    LatentSectors { at: At, offset: u64, len_bytes: u64 },
    /// Bits that turn over.
    BitRot { at: At, offset: u64, bits: u32 },
    /// A write that is acknowledged and not done.
    LostWrite { at: At },
    /// A write that is acknowledged and lands elsewhere.
    MisdirectedWrite { at: At, by_bytes: u64 },
    /// A device that answers nothing, and comes back with what it held; the host is started anew at the end.
    DeviceGone { at: At },
    /// All devices of a host go back to what they held when the event began.
    RollBack { host: usize, loss: u64 },
    /// A host has the disk attached.
    HandOver { disk: usize, host: usize },
    /// The disk grows.
    Resize { disk: usize, host: usize, by_bytes: u64 },
    /// A disk is made and, at the end, deleted.
    CreateAndDelete { number: usize, size_bytes: u64, maker: usize, deleter: usize },
}

/// When it happens, counted from the moment that the guests begin, and how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Begins.
    pub at_ms: u64,
    /// Lasts.
    pub for_ms: u64,
    /// What.
    pub what: What,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Chance of everything that the plan does not say: delays, contents of requests.
    pub seed: u64,
    /// What it draws from.
    pub menu: Menu,
    /// The cluster.
    pub shape: Shape,
    /// By beginning.
    pub events: Vec<Event>,
    /// The guests go on for so long after the last event has ended.
    pub tail_ms: u64,
    /// Then they stop before anything is healed: what the faults have left is not written over.
    pub quiet: bool,
}

/// Time that a missing host is waited for.
pub const REPAIR_DELAY_MS: u64 = 20_000;
/// Rate of a clock, at most, either way: the bound that leases are made for.
pub const CLOCK_PPM_MAX: u64 = 150;

impl What {
    /// Its kind: the words of `docs/fault-model.md`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Crash { .. } => "crash",
            Self::CrashAtOperation { .. } => "crash within a disk operation",
            Self::RestartLoop { .. } => "crash in a loop",
            Self::CrashAll { .. } => "all hosts crash",
            Self::Kill { .. } => "kill",
            Self::Pause { .. } => "pause",
            Self::ClockRate { .. } => "clock rate",
            Self::Isolate { .. } => "isolated host",
            Self::Cut { .. } => "cut",
            Self::CutOneWay { .. } => "one-way cut",
            Self::Disconnect { .. } => "connection reset",
            Self::SlowLink { .. } => "slow link",
            Self::DirectoryAway { .. } => "directory away",
            Self::SlowDevice { .. } => "slow device",
            Self::ReadErrors { .. } => "read error",
            Self::WriteError { .. } => "write error",
            Self::FlushError { .. } => "failed flush",
            Self::LatentSectors { .. } => "latent sector error",
            Self::BitRot { .. } => "bit rot",
            Self::LostWrite { .. } => "lost write",
            Self::MisdirectedWrite { .. } => "misdirected write",
            Self::DeviceGone { .. } => "device gone",
            Self::RollBack { .. } => "rolled-back host",
            Self::HandOver { .. } => "hand-over",
            Self::Resize { .. } => "resize",
            Self::CreateAndDelete { .. } => "create and delete",
        }
    }

    /// Every kind, for tables.
    pub const KINDS: [&'static str; 26] = [
        "crash",
        "crash within a disk operation",
        "crash in a loop",
        "all hosts crash",
        "kill",
        "pause",
        "clock rate",
        "isolated host",
        "cut",
        "one-way cut",
        "connection reset",
        "slow link",
        "directory away",
        "slow device",
        "read error",
        "write error",
        "failed flush",
        "latent sector error",
        "bit rot",
        "lost write",
        "misdirected write",
        "device gone",
        "rolled-back host",
        "hand-over",
        "resize",
        "create and delete",
    ];
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} ms +{:>5} {:?}", self.at_ms, self.for_ms, self.what)
    }
}

/// Draws what happens.
struct Draw<'a> {
    rng: &'a mut Rng,
    shape: &'a Shape,
    extra_disks: usize,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x706c_616e);
        let menu = match rng.below(10) {
            0 | 1 => Menu::Single,
            2 | 3 => Menu::Damage,
            4 => Menu::Loss,
            _ => Menu::Turmoil,
        };
        let needs = match menu {
            Menu::Turmoil | Menu::Single => Needs { ftt_min: if rng.one_in(6) { 0 } else { 1 }, spare_host: false },
            Menu::Damage | Menu::Loss => Needs { ftt_min: 1, spare_host: true },
        };
        let shape = Shape::draw(&mut rng, needs);
        let mut draw = Draw { rng: &mut rng, shape: &shape, extra_disks: 0 };
        let mut events = match menu {
            Menu::Turmoil => draw.turmoil(),
            Menu::Single => draw.single(),
            Menu::Damage => draw.damage(),
            Menu::Loss => draw.loss(),
        };
        events.sort_by_key(|event| event.at_ms);
        let quiet = rng.one_in(2);
        let tail_ms = if quiet { rng.between(0, 200) } else { rng.between(500, 6000) };
        Self { seed, menu, shape, events, tail_ms, quiet }
    }

    /// When the last event has ended.
    pub fn ends_ms(&self) -> u64 {
        self.events.iter().map(|event| event.at_ms + event.for_ms).max().unwrap_or(0)
    }
}

impl Draw<'_> {
    fn host(&mut self) -> usize {
        self.rng.below(self.shape.hosts as u64) as usize
    }

    fn other(&mut self, than: usize) -> usize {
        (than + 1 + self.rng.below(self.shape.hosts as u64 - 1) as usize) % self.shape.hosts
    }

    fn disk(&mut self) -> usize {
        self.rng.below(self.shape.disks.len() as u64) as usize
    }

    fn capacity_of(&mut self, host: usize) -> At {
        let group = self.rng.below(self.shape.groups as u64) as usize;
        At { host, group, capacity: Some(self.rng.below(self.shape.capacity_devices as u64) as usize) }
    }

    fn device_of(&mut self, host: usize) -> At {
        let at = self.capacity_of(host);
        if self.rng.one_in(2) { At { capacity: None, ..at } } else { at }
    }

    fn turmoil(&mut self) -> Vec<Event> {
        let (mut at_ms, mut events) = (0, Vec::new());
        for _ in 0..self.rng.between(4, 14) {
            at_ms += self.rng.below(2500);
            let what = self.any_harmless();
            let for_ms = self.lasts(&what);
            events.push(Event { at_ms, for_ms, what });
        }
        events
    }

    fn single(&mut self) -> Vec<Event> {
        let (mut at_ms, mut events) = (0, Vec::new());
        for _ in 0..self.rng.between(2, 4) {
            at_ms += self.rng.between(300, 2000);
            let what = self.any_harmless();
            let for_ms = self.lasts(&what);
            events.push(Event { at_ms, for_ms, what });
            at_ms += for_ms + 6000;
        }
        events
    }

    fn damage(&mut self) -> Vec<Event> {
        let victim = self.host();
        let (mut at_ms, mut events) = (0, Vec::new());
        for _ in 0..self.rng.between(3, 10) {
            at_ms += self.rng.below(3000);
            let what = match self.rng.below(4) {
                0 => self.background(),
                _ => self.damage_of(victim),
            };
            let for_ms = self.lasts(&what);
            events.push(Event { at_ms, for_ms, what });
        }
        events
    }

    fn loss(&mut self) -> Vec<Event> {
        let first = self.host();
        let second = self.other(first);
        let at_ms = self.rng.between(300, 3000);
        let away_ms = REPAIR_DELAY_MS + self.rng.between(12_000, 20_000);
        let (loss, again) = (self.rng.next_u64(), self.rng.next_u64());
        let second_ms = self.rng.between(3000, 8000);
        let mut events = vec![
            Event { at_ms, for_ms: away_ms + second_ms + 2000, what: What::Crash { host: first, loss } },
            Event { at_ms: at_ms + away_ms, for_ms: second_ms, what: What::Crash { host: second, loss: again } },
        ];
        for _ in 0..self.rng.below(4) {
            let what = self.background();
            let (at_ms, for_ms) = (self.rng.below(away_ms), self.lasts(&what));
            events.push(Event { at_ms, for_ms, what });
        }
        events
    }

    fn lasts(&mut self, what: &What) -> u64 {
        let (low, high) = match what {
            What::Crash { .. } | What::Kill { .. } | What::CrashAtOperation { .. } => (10, 6000),
            What::Pause { .. } => (300, 12_000),
            What::Disconnect { .. } | What::HandOver { .. } | What::Resize { .. } => (0, 0),
            What::LatentSectors { .. } | What::BitRot { .. } | What::ReadErrors { .. } => (0, 0),
            What::LostWrite { .. } | What::MisdirectedWrite { .. } => (0, 0),
            What::CrashAll { .. } => (10, 1000),
            What::DeviceGone { .. } | What::WriteError { .. } | What::FlushError { .. } => (2000, 20_000),
            What::RollBack { .. } => (500, 6000),
            _ => (100, 8000),
        };
        // Often short: half of all faults end before anyone has given up waiting.
        let high = if self.rng.one_in(2) { high } else { low + (high - low) / 8 };
        self.rng.between(low, high)
    }

    /// Anything that loses no data.
    fn any_harmless(&mut self) -> What {
        let host = self.host();
        let other = self.other(host);
        let loss = self.rng.next_u64();
        match self.rng.below(20) {
            0 | 1 => What::Kill { host },
            2 | 3 => What::Crash { host, loss },
            4 | 5 => What::CrashAtOperation {
                host,
                after: self.rng.below(60),
                phase: match self.rng.below(3) {
                    0 => Phase::Before,
                    1 => Phase::During,
                    _ => Phase::After,
                },
                loss,
            },
            6 => {
                What::RestartLoop { host, times: self.rng.between(2, 5) as u32, gap_ms: self.rng.between(5, 900), loss }
            }
            7 => What::CrashAll { loss, gap_ms: self.rng.below(3000) },
            8 | 9 => What::Pause { host },
            10 => What::Isolate { host },
            11 | 12 => What::Cut { a: host, b: other },
            13 => What::CutOneWay { from: host, to: other },
            14 => What::Disconnect { a: host, b: other },
            _ => self.background(),
        }
    }

    /// What neither loses data nor makes a copy stale.
    fn background(&mut self) -> What {
        let host = self.host();
        let other = self.other(host);
        match self.rng.below(9) {
            0 => What::DirectoryAway {
                hosts: if self.rng.one_in(2) { (0..self.shape.hosts).collect() } else { vec![host, other] },
            },
            1 => What::ClockRate { host, ppm: self.rng.between(0, 2 * CLOCK_PPM_MAX) as i64 - CLOCK_PPM_MAX as i64 },
            2 => What::SlowLink { from: host, to: other, by_ms: self.rng.between(1, 200) },
            3 => What::SlowDevice { at: self.device_of(host), times: self.rng.between(2, 60) as u32 },
            4 | 5 => What::HandOver { disk: self.disk(), host },
            6 => What::Resize { disk: self.disk(), host, by_bytes: self.rng.between(1, 2048) * 512 },
            7 => What::ReadErrors { at: self.capacity_of(host), count: self.rng.between(1, 3) as u32 },
            _ => {
                self.extra_disks += 1;
                What::CreateAndDelete {
                    number: self.extra_disks,
                    size_bytes: self.rng.between(1, 4096) * 512,
                    maker: host,
                    deleter: other,
                }
            }
        }
    }

    /// What spoils the devices of one host, or takes it away.
    fn damage_of(&mut self, host: usize) -> What {
        let loss = self.rng.next_u64();
        let at = self.capacity_of(host);
        // Mostly where data are: the first segments.
        let reach = if self.rng.one_in(2) { 3 << 20 } else { 24 << 20 };
        let offset = (1 << 20) + self.rng.below(reach) / 512 * 512;
        match self.rng.below(12) {
            0 => What::WriteError { at: self.device_of(host) },
            1 => What::FlushError { at: self.device_of(host) },
            2 => What::LatentSectors { at, offset, len_bytes: 512 * self.rng.between(1, 64) },
            3 | 4 => What::BitRot { at, offset, bits: self.rng.between(1, 400) as u32 },
            5 => What::LostWrite { at },
            6 => What::MisdirectedWrite { at, by_bytes: self.rng.between(1, 40_000) * 512 },
            7 => What::DeviceGone { at },
            8 => What::RollBack { host, loss },
            9 => What::Crash { host, loss },
            10 => What::Kill { host },
            _ => What::Pause { host },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_is_a_plan_and_survives_being_written_down() {
        for seed in 0..200 {
            let plan = Plan::of(seed);
            assert_eq!(plan, Plan::of(seed));
            let text = serde_json::to_string(&plan).expect("a plan is plain data");
            assert_eq!(plan, serde_json::from_str(&text).expect("what was written"));
        }
    }

    #[test]
    fn all_kinds_come_up() {
        let drawn: BTreeSet<&str> =
            (0..400).flat_map(|seed| Plan::of(seed).events).map(|event| event.what.kind()).collect();
        assert_eq!(drawn, What::KINDS.into_iter().collect());
    }
}
