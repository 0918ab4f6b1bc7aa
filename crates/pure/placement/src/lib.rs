//! Where the components of a virtual disk go: a pure function of cluster, policy and size, or an explained refusal.
//!
//! Promises    L1  copies of one replica set lie in distinct fault domains
//!             L2  every failure set of at most FTT fault domains leaves more than half of the votes and a copy of
//!                 every replica set                                          (L1, L2: tests/brute_force.rs)
//!             L3  the same picture gives the same placement; components follow free and promised space (tests/balance.rs)
//!             L4  a refusal names the cause and a remedy (P7)
//!             L5  a disk has no more components than its record can name               (tests/record.rs)
//! Assumes     the picture is a recent one; a store that meanwhile lost its space refuses by itself
//! Not here    moving data (engine/object); when to repair (engine/node); whether votes are a majority (votes)
//! Source      vSAN: FTT=n mirrors over n+1 data domains of 2n+1, witnesses fill up; votes since 6.0
#![forbid(unsafe_code)]

mod ballot;
mod compliance;
mod conversion;
mod growth;
mod loss;
mod maintenance;
mod moves;
mod picture;
mod policy_change;
mod rebalance;
mod record;
mod redundancy;
mod refusal;
mod room;
mod slow;
mod solve;
mod task;
mod verbs;
mod what_if;
mod worth;

pub use ballot::SEATS_VOTING_MAX;
pub use compliance::{compliance, lacks_hosts};
pub use conversion::{Converted, begin_conversion, end_conversion, give_up_conversion, is_whole, unfit};
pub use growth::{Addition, GrowthPreview, Moved};
pub use loss::{LossPreview, Lost};
pub use maintenance::{Leaving, MaintenancePreview};
pub use moves::{MoveStep, carry_out, next_move, relocate, unwanted};
pub use picture::{ClusterPicture, DiskGroupPicture, FaultDomain, HostPicture};
pub use policy_change::{Copies, PolicyPreview, PreviewStep, copies, policy_preview, shrink};
pub use rebalance::{Resident, rebalance};
pub use record::check_record;
pub use redundancy::layout_for;
pub use refusal::{Refusal, RefusalKind};
pub use room::demand_bytes;
pub use slow::{lacks_a_copy, slow_group_cannot_go, slow_group_waits};
pub use verbs::{Change, Placement, complete, extend, place, place_near, preview_ids, release, replace};
pub use what_if::{WhatIf, what_if};
