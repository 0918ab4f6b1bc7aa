//! `manifest.json`: how the numbers came to be, so that someone else can judge the procedure without the person who ran it.
//!
//! Promises    steps stand in the order in which they were carried out, with begin and end; a run that ended early keeps all that
//!             was done until then, and says why it ended

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// The study's name: "iometer-qos".
    pub study: String,
    /// "quick", "lab" or "paper".
    pub scale: String,
    /// The version of the program.
    pub version: String,
    /// Of all that was drawn.
    pub seed: u64,
    /// Where the load ran.
    pub machine: Machine,
    /// What was measured.
    pub target: TargetFacts,
    /// The media of each arm, in the order in which the arms were run.
    pub media: Vec<ArmMedia>,
    /// The study's parameters as they were, by name: what `bench plan` prints.
    pub parameters: BTreeMap<String, String>,
    /// Everything that was done, in order.
    pub steps: Vec<Step>,
    /// Why it ended before its end; none for a whole run.
    #[serde(default)]
    pub ended_early: Option<String>,
}

/// Facts of the machine that made the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// Model name of the processor, as the kernel tells it.
    pub processor: String,
    /// Processors.
    pub processors: u32,
    /// Memory.
    pub memory_bytes: u64,
}

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// For people: "own cluster of 4 hosts in one process", "2 NBD exports".
    pub description: String,
    /// The targets as they were addressed.
    pub addresses: Vec<String>,
    /// Hosts; 0 where that is unknown.
    pub hosts: u32,
    /// The policy of the disks; empty where that is unknown.
    pub policy: String,
    /// Copies of each byte; 0 where that is unknown.
    pub copies: u32,
    /// Write buffer of all hosts; 0 where that is unknown.
    pub buffer_bytes: u64,
    /// Memory for cached reads of all hosts; 0 where that is unknown.
    pub read_cache_bytes: u64,
}

/// The media under one arm of a study.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmMedia {
    /// The arm's name: "all-flash".
    pub arm: String,
    /// The model of the cache devices: "optane"; "as it is" for none.
    pub cache: String,
    /// The model of the capacity devices.
    pub capacity: String,
    /// Every modelled time was multiplied by this.
    pub dilation: f64,
    /// Strips of data in a row of its disks, with one of parity; 0: two copies.
    #[serde(default)]
    pub data_strips: u8,
    /// Its disk groups pack blocks, and store equal ones once.
    #[serde(default)]
    pub saves: bool,
}

impl ArmMedia {
    /// Whether times are those of a model, which every table and picture has to say.
    pub fn is_modelled(&self) -> bool {
        self.cache != Self::AS_IT_IS || self.capacity != Self::AS_IT_IS
    }

    /// The name of no model.
    pub const AS_IT_IS: &'static str = "as it is";
}

/// One thing that was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The arm that it belongs to.
    pub arm: String,
    /// What.
    pub action: Action,
    /// When it began.
    pub began_ms: u64,
    /// When it was over.
    pub ended_ms: u64,
    /// Its phases in order, for what has any.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// The counters of the target before it; none where it has none that can be read.
    #[serde(default)]
    pub before: Option<Counters>,
    /// And after it.
    #[serde(default)]
    pub after: Option<Counters>,
}

/// Kinds of what is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Action {
    /// The arm's cluster was made, or its targets were opened.
    Start,
    /// Every byte of the targets was written `passes` times.
    Precondition {
        /// How often.
        passes: u32,
        /// Bytes written in all.
        written_bytes: u64,
    },
    /// Write buffers were drained and read caches dropped.
    Clear {
        /// What was buffered before.
        buffered_before_bytes: u64,
        /// And after.
        buffered_after_bytes: u64,
    },
    /// One repeat of one cell was measured.
    Run {
        /// The cell's id.
        cell: String,
        /// Which repeat, from 1.
        repeat: u32,
    },
    /// A host was ended without warning.
    Kill {
        /// Its name.
        host: String,
    },
    /// It was started again.
    Restart {
        /// Its name.
        host: String,
    },
    /// All data had all its copies again.
    Healthy,
    /// What the load wrote was read back and compared.
    Verify {
        /// Blocks of 4 KiB that were compared.
        blocks: u64,
        /// Of those not what was acknowledged last, or could have been.
        wrong: u64,
    },
    /// What blocks take on capacity devices, after write buffers were drained.
    Space {
        /// Bytes of disks as guests wrote them, copies left out.
        guest_bytes: u64,
        /// What disks and snapshots hold at 4 KiB a block, with copies and parity, equal blocks each by itself.
        before_bytes: u64,
        /// Bytes that they take.
        after_bytes: u64,
        /// All else that capacity devices and metadata have in use: headers, what waits for the cleaner, the map.
        beside_bytes: u64,
    },
    /// All desktops were made anew of another image; those before, and what only they needed, are deleted.
    Recompose {
        /// How many.
        desktops: u32,
    },
    /// The arm's cluster was stopped.
    Stop,
}

/// What a run is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Which.
    pub kind: PhaseKind,
    /// When it began.
    pub began_ms: u64,
    /// When it was over.
    pub ended_ms: u64,
}

/// Only what ends in [`PhaseKind::Measure`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseKind {
    /// Before anything counts.
    Ramp,
    /// What counts.
    Measure,
    /// Waiting for what was under way at its end.
    Drain,
}

/// Counters of a whole cluster, added up over its disk groups since they were opened, and what its buffers held at that moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// What guests wrote.
    pub guest_written_bytes: u64,
    /// What guests read.
    pub guest_read_bytes: u64,
    /// What copies took, of guests into their write buffers and of resync: copies x guest bytes where nothing is resynced.
    pub buffered_bytes: u64,
    /// What was written to the logs on cache devices for it, headers and padding included.
    pub log_written_bytes: u64,
    /// What destage moved from there.
    pub destaged_bytes: u64,
    /// What destage wrote to capacity devices.
    pub capacity_written_by_destage_bytes: u64,
    /// What cleaning wrote to them.
    pub capacity_written_by_cleaning_bytes: u64,
    /// What anything else wrote to them, resync and metadata left out.
    pub capacity_written_otherwise_bytes: u64,
    /// What was read from write buffers.
    pub read_from_buffer_bytes: u64,
    /// What was read from the read cache in memory.
    pub read_from_cache_bytes: u64,
    /// What was read from capacity devices.
    pub read_from_capacity_bytes: u64,
    /// Gauge: bytes in use of all write buffers.
    pub log_used_bytes: u64,
    /// Gauge: bytes of all write buffers.
    pub log_size_bytes: u64,
    /// Gauge: the highest congestion of any disk group, 0..=255.
    pub congestion: u8,
}
