//! What can go wrong with a cluster, as data: one vocabulary for simulated worlds and real processes.
//!
//! Promises    a fault names its victims by number and says everything about itself: nothing is drawn when it happens
//!             every kind has one name ([`What::kind`]), the one that `docs/fault-model.md` uses
//! Not here    how a fault is made to happen: to simulated machines (`cairn-cluster`), to real processes (`cairn-e2e`)
#![forbid(unsafe_code)]

use std::fmt;

use cairn_types::MaintenanceMode;
use serde::{Deserialize, Serialize};

/// Rate of a clock, at most, either way, in millionths: the bound that leases are made for.
pub const CLOCK_PPM_MAX: u64 = 150;

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

/// A place on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// Bytes from its beginning.
    Offset(u64),
    /// Counted among the 4 KiB blocks that hold something when it happens (the superblock's first MiB left out); around the
    /// end, so that every number is one.
    Written(u64),
}

/// A change of a disk's state that its owner tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// A host has become owner.
    Owned,
    /// A copy was recorded absent.
    Absent,
    /// A copy is about to be filled.
    Resyncing,
    /// A copy is in sync again.
    Active,
}

/// What happens to a host at such a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blow {
    /// Power goes.
    Crash {
        /// As for [`What::Crash`].
        loss: u64,
    },
    /// It is cut off from all others.
    Isolate,
    /// It stands still.
    Pause,
}

/// What a directory does to those who ask it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Directory {
    /// It cannot be reached.
    Away,
    /// Each answer takes so long.
    Slow {
        /// Milliseconds.
        by_ms: u64,
    },
    /// Every other change is made, and its answer lost.
    AnswersLost,
    /// It is read as ever, and refuses every change: its quota is used up.
    TakesNoChanges,
    /// Watches end, and what happened since the last word of them is forgotten.
    WatchGap,
}

/// One thing that happens. It ends with its event: hosts start again, links heal.
#[allow(missing_docs, reason = "the fields are named, and each kind says the rest")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Power goes; unsynced sectors are lost as the number says.
    Crash { host: usize, loss: u64 },
    /// Power goes within one of its next disk operations.
    CrashAtOperation { host: usize, after: u64, phase: Phase, loss: u64 },
    /// Power goes, and again within one of the first disk operations after the start.
    CrashInRecovery { host: usize, after: u64, phase: Phase, loss: u64 },
    /// It crashes again each time that it has come up, so many times.
    RestartLoop { host: usize, times: u32, gap_ms: u64, loss: u64 },
    /// All lose power at once, and start one after the other.
    CrashAll { loss: u64, gap_ms: u64 },
    /// All lose power at once, and of one log a bit of the last two batches is flipped: that of this number, around the end.
    FlippedEnd { at: At, bit: u64, loss: u64, gap_ms: u64 },
    /// The process dies, its kernel lives.
    Kill { host: usize },
    /// All processes but one host's die.
    KillOthers { host: usize },
    /// The process stands still.
    Pause { host: usize },
    /// The next owner to tell of `moment` is struck, so long after; where nobody tells of one, nothing happens.
    AtMoment { moment: Moment, blow: Blow, after_us: u64 },
    /// The clock runs at another rate, within the bound.
    ClockRate { host: usize, ppm: i64 },
    /// The clock of the day is wrong by so much, ahead or (below zero) behind; it is set right at the end.
    WallClock { host: usize, off_ms: i64 },
    /// Each step of the process takes so long: its processor is somebody else's, mostly.
    SlowCpu { host: usize, step_us: u64 },
    /// No link to anyone.
    Isolate { host: usize },
    /// One link is cut.
    Cut { a: usize, b: usize },
    /// One link is cut in one direction.
    CutOneWay { from: usize, to: usize },
    /// One connection ends at once and comes back.
    Disconnect { a: usize, b: usize },
    /// One end of a connection knows that it has ended; the other goes on sending into nothing.
    HalfOpen { knows: usize, other: usize },
    /// Messages take longer one way.
    SlowLink { from: usize, to: usize, by_ms: u64 },
    /// A bit flips in every n-th message that carries blocks, one way.
    ChangedBlocks { from: usize, to: usize, every: u64 },
    /// The directory, as these hosts see it.
    Directory { how: Directory, hosts: Vec<usize> },
    /// Operations of a device take so many times as long.
    SlowDevice { at: At, times: u32 },
    /// The next reads of a device fail.
    ReadErrors { at: At, count: u32 },
    /// The next write of a device fails; the host is started anew at the end.
    WriteError { at: At },
    /// The next flush of a device fails; the host is started anew at the end.
    FlushError { at: At },
    /// Sectors that cannot be read until they are written.
    LatentSectors { at: At, place: Place, len_bytes: u64 },
    /// Blocks of a disk cannot be read until they are written, at the one copy in sync that is left of them. Until there is such a
    /// copy it is waited for, as long as the event lasts; which blocks, the number says.
    OnlySource { disk: usize, blocks: u32, pick: u64 },
    /// Bits that turn over, one in each of so many blocks.
    BitRot { at: At, place: Place, bits: u32 },
    /// A write that is acknowledged and not done.
    LostWrite { at: At },
    /// A write that is acknowledged and lands elsewhere.
    MisdirectedWrite { at: At, by_bytes: u64 },
    /// A device that answers nothing, and comes back with what it held; the host is started anew at the end.
    DeviceGone { at: At },
    /// Two devices of a host change places while it is off, and back again at the end.
    DevicesSwapped { a: At, b: At },
    /// All devices of a host go back to what they held when the event began.
    RollBack { host: usize, loss: u64 },
    /// Disks with full reservation take what space there is, and go at the end.
    Full { host: usize },
    /// A host has the disk attached.
    HandOver { disk: usize, host: usize },
    /// The disk grows.
    Resize { disk: usize, host: usize, by_bytes: u64 },
    /// A host enters maintenance, also where something cannot be moved, and leaves it at the end.
    Maintenance { host: usize, mode: MaintenanceMode },
    /// A disk group of a host is to be emptied, also where something cannot be moved, and is taken into use again at the end.
    Drain { host: usize, group: usize },
    /// A disk has another policy for a time, which asks for so many copies more; at the end it has its own again.
    Policy { disk: usize, host: usize, more: u8 },
    /// A disk goes over to another layout, under load; at the end it has its own policy again. No strips of data: a mirror.
    Layout { disk: usize, host: usize, ftt: u8, data_strips: u8, stripe_width: u8 },
    /// A host is asked for a snapshot of a disk, or of all disks together; at the end one of them goes back to it, and it is deleted, unless it
    /// stays.
    Snapshot {
        disk: usize,
        host: usize,
        all: bool,
        back: bool,
        stays: bool,
        /// A clone is made of it, and stays.
        #[serde(default)]
        clones: bool,
        /// That one is flattened.
        #[serde(default)]
        flattens: bool,
    },
    /// A host is asked for a schedule that takes a snapshot of disks every ten seconds, keeps so many, and locks them or not. What is locked is looked
    /// at now and then; the schedule stays.
    Schedule { host: usize, keep: u8, locked: bool },
    /// What a disk has on a host is to go to another one.
    Move { disk: usize, from: usize },
    /// A host is asked to have all disk groups of the cluster scrubbed at once.
    Scrub { host: usize },
    /// A disk group of a host packs what it destages for a time, or from then on.
    Compression { host: usize, group: usize, stays: bool },
    /// A disk group of a host stores equal blocks once for a time, or from then on.
    Deduplication { host: usize, group: usize, stays: bool },
    /// A disk group of a host writes anew what stands on its capacity devices, and is to leave that after a time, or to end it.
    Rewrite { host: usize, group: usize, stays: bool },
    /// A host is emptied and removed, where that can be done; at the end it is taken in again, with blank devices.
    Remove { host: usize },
    /// A host dies and is forgotten, where nothing is lost with it. It starts with what it held, and is taken in again at the end.
    Forget { host: usize, loss: u64 },
    /// A disk is made and, at the end, deleted.
    CreateAndDelete { number: usize, size_bytes: u64, maker: usize, deleter: usize },
}

/// When it happens, counted from the beginning of the load, and how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Begins.
    pub at_ms: u64,
    /// Lasts.
    pub for_ms: u64,
    /// What.
    pub what: What,
}

impl What {
    /// Its kind: the words of `docs/fault-model.md`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Crash { .. } => "crash",
            Self::CrashAtOperation { .. } => "crash within a disk operation",
            Self::CrashInRecovery { .. } => "crash during recovery",
            Self::RestartLoop { .. } => "crash in a loop",
            Self::CrashAll { .. } => "all hosts crash",
            Self::FlippedEnd { .. } => "flipped end of a log",
            Self::Kill { .. } => "kill",
            Self::KillOthers { .. } => "kill of all other hosts",
            Self::Pause { .. } => "pause",
            Self::AtMoment { .. } => "blow at a change of state",
            Self::ClockRate { .. } => "clock rate",
            Self::WallClock { .. } => "wrong clock of the day",
            Self::SlowCpu { .. } => "slow processor",
            Self::Isolate { .. } => "isolated host",
            Self::Cut { .. } => "cut",
            Self::CutOneWay { .. } => "one-way cut",
            Self::Disconnect { .. } => "connection reset",
            Self::HalfOpen { .. } => "half-open connection",
            Self::SlowLink { .. } => "slow link",
            Self::ChangedBlocks { .. } => "changed blocks",
            Self::Directory { how: Directory::Away, .. } => "directory away",
            Self::Directory { how: Directory::Slow { .. }, .. } => "directory slow",
            Self::Directory { how: Directory::AnswersLost, .. } => "directory answers lost",
            Self::Directory { how: Directory::TakesNoChanges, .. } => "directory takes no changes",
            Self::Directory { how: Directory::WatchGap, .. } => "directory watch gap",
            Self::SlowDevice { .. } => "slow device",
            Self::ReadErrors { .. } => "read error",
            Self::WriteError { .. } => "write error",
            Self::FlushError { .. } => "failed flush",
            Self::LatentSectors { .. } => "latent sector error",
            Self::OnlySource { .. } => "bad blocks of the only source",
            Self::BitRot { .. } => "bit rot",
            Self::LostWrite { .. } => "lost write",
            Self::MisdirectedWrite { .. } => "misdirected write",
            Self::DeviceGone { .. } => "device gone",
            Self::DevicesSwapped { .. } => "devices swapped",
            Self::RollBack { .. } => "rolled-back host",
            Self::Full { .. } => "full",
            Self::HandOver { .. } => "hand-over",
            Self::Resize { .. } => "resize",
            Self::Maintenance { .. } => "maintenance",
            Self::Drain { .. } => "drain",
            Self::Policy { .. } => "policy",
            Self::Layout { .. } => "layout",
            Self::Snapshot { .. } => "snapshot",
            Self::Schedule { .. } => "schedule",
            Self::Move { .. } => "move",
            Self::Scrub { .. } => "scrub",
            Self::Compression { .. } => "compression",
            Self::Deduplication { .. } => "deduplication",
            Self::Rewrite { .. } => "writing anew",
            Self::Remove { .. } => "removed host",
            Self::Forget { .. } => "forgotten host",
            Self::CreateAndDelete { .. } => "create and delete",
        }
    }

    /// Every kind, for tables. A directory that only some hosts cannot reach is *split*: [`Self::kind_among`] tells.
    pub const KINDS: [&'static str; 55] = [
        "crash",
        "crash within a disk operation",
        "crash during recovery",
        "crash in a loop",
        "all hosts crash",
        "flipped end of a log",
        "kill",
        "kill of all other hosts",
        "pause",
        "blow at a change of state",
        "clock rate",
        "wrong clock of the day",
        "slow processor",
        "isolated host",
        "cut",
        "one-way cut",
        "connection reset",
        "half-open connection",
        "slow link",
        "changed blocks",
        "directory away",
        "directory split",
        "directory slow",
        "directory answers lost",
        "directory takes no changes",
        "directory watch gap",
        "slow device",
        "read error",
        "write error",
        "failed flush",
        "latent sector error",
        "bad blocks of the only source",
        "bit rot",
        "lost write",
        "misdirected write",
        "device gone",
        "devices swapped",
        "rolled-back host",
        "full",
        "hand-over",
        "resize",
        "maintenance",
        "drain",
        "policy",
        "layout",
        "snapshot",
        "schedule",
        "move",
        "scrub",
        "compression",
        "deduplication",
        "writing anew",
        "removed host",
        "forgotten host",
        "create and delete",
    ];

    /// Whether a device may hold or return something else than what was written to it, or nothing, because of it.
    pub fn spoils(&self) -> bool {
        matches!(
            self,
            Self::ReadErrors { .. }
                | Self::WriteError { .. }
                | Self::FlushError { .. }
                | Self::LatentSectors { .. }
                | Self::OnlySource { .. }
                | Self::BitRot { .. }
                | Self::FlippedEnd { .. }
                | Self::LostWrite { .. }
                | Self::MisdirectedWrite { .. }
                | Self::DeviceGone { .. }
                | Self::DevicesSwapped { .. }
                | Self::RollBack { .. }
        )
    }

    /// Its kind in a cluster of so many hosts: a directory that is away for some of them is split.
    pub fn kind_among(&self, hosts: usize) -> &'static str {
        match self {
            Self::Directory { how: Directory::Away, hosts: away } if away.len() < hosts => "directory split",
            other => other.kind(),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} ms +{:>5} {:?}", self.at_ms, self.for_ms, self.what)
    }
}
