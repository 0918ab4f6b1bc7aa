//! The local store of one disk group: a log on the cache device, segments on the capacity devices.
//!
//! Promises    an acknowledged operation is on stable media (I3) and survives any crash; a block is never returned
//!             with a wrong checksum (I7); refused operations leave no trace (I9); replay is idempotent (I8)
//! Assumes     one process per disk group; a 4 KiB write may tear at 512 bytes; a flush that returned is durable
//! Not here    who may write what, epochs, leases (`object`); encryption, a read cache on the device: not in this release
//!
//! Memory: the index (`index.rs`); the region table and bits (50 bytes per MiB touched); map cache and read cache (options); the
//! metadata page cache (8 MiB; 32 where the map is in rows); the blocks of two destage rounds (16 MiB). Entries of the map that wait
//! (`shards.rs`): 24 bytes for one block in 128 of the capacity. Where the map is in rows yet, deltas (`deltas.rs`) wait: about 50
//! bytes for each block of the log, 512 MiB at most. The index bounds the log: one that is asked for is refused where it may take more
//! than was allowed.
#![forbid(unsafe_code)]

mod admission;
mod append;
mod assemble;
mod bad_marks;
mod bitmap;
mod bypass;
mod capacity;
mod changes;
mod charge;
mod choice;
mod chunked;
mod clean;
mod clear;
mod cleared;
mod compare;
mod component;
mod components;
mod convert;
mod create;
mod cuts;
mod deferred;
mod deltas;
mod destage;
mod disk_group;
mod doubts;
mod error;
#[cfg(feature = "fill-map")]
mod fill;
mod fill_history;
#[cfg(feature = "fill-map")]
mod fill_log;
#[cfg(feature = "fill-map")]
mod fill_piece;
mod fills;
mod find_twins;
mod findings;
mod flag;
mod fold;
mod free_ids;
mod grow;
mod growth;
mod history;
mod history_shard;
mod hits;
mod hooks;
mod index;
mod invariants;
mod kept;
mod latencies;
mod leaf;
mod life;
mod live;
mod load_history;
mod load_map;
mod load_shares;
mod log;
mod map;
mod map_pages;
mod marks;
mod meta;
mod meters;
mod occupant;
mod old_rows;
mod options;
mod outcomes;
mod pace;
mod packed_read;
mod patience;
mod pending;
mod pending_number;
mod placing;
mod probe;
mod queue;
mod read;
mod read_ahead;
mod read_cache;
mod recall;
mod records;
mod recovery;
mod replay;
mod rewrite;
mod rewriting;
mod ring;
mod row_checks;
mod run_cache;
mod scrub;
mod scrub_batch;
mod seats;
mod segment_hand;
mod segments;
mod settings;
mod shards;
mod share_changes;
mod shares;
#[cfg(feature = "fill-map")]
mod shuffle;
mod space;
mod sparse;
mod squeeze;
mod state;
mod stats;
mod tier;
mod transaction;
mod twins;
mod unfolded;
mod victims;
mod view;
mod waiting;
mod window;
mod zone;

pub use cairn_format::Needs;
use cairn_format::rows;
pub use cairn_metrics::{StoreCounters, StoreGauges};
pub use choice::Choice;
pub use cleared::Cleared;
pub use compare::COMPARED_REGIONS_MAX;
pub use component::ComponentInfo;
pub use create::{CAPACITY_DEVICES_MAX, Identity};
pub use disk_group::{DiskGroup, DiskGroupDevices, Expect};
pub use error::{StoreError, StoreErrorKind};
#[cfg(feature = "fill-map")]
pub use fill::{Fill, FillPlan, Filled};
#[cfg(feature = "fill-map")]
pub use fill_log::{LogFill, LogFilled};
#[cfg(feature = "fill-map")]
pub use fill_piece::FillOrder;
pub use findings::ScrubState;
pub use grow::Grown;
pub use latencies::{LogLatencies, ReadLatencies, ReadSource};
pub use occupant::{Occupant, occupant_of, wipe_superblocks};
pub use options::{FormatOptions, INDEX_BYTES_MAX, LOG_BYTES_MAX, OpenOptions, RunningOptions, capacity_bytes_min};
pub use rewriting::RewriteProgress;
pub use scrub::{BadBlocks, Scrubbed};
pub use space::Space;
pub use stats::{DeviceStats, LogHealth, StoreStats};
