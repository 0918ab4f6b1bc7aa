//! Leases: they guard reads. While an owner holds them from more than half of the votes, nobody else can get the
//! promises that make an owner.
//!
//! Promises    L1  while [`PeerLeases::holds`] is true, no later owner has won the object
//!             L2  a session that lapsed is over; no lease of it is renewed any more
//!             L3  a newer process of a host ends the older one's sessions: its leases run out, and no other begins
//!             L4  a seat that an owner no longer lists, or that a silent one held, is free after one lease
//! Assumes     both clocks run, at rates within [`LEASE_MARGIN_PARTS`] of each other; a paused host's clock goes on.
//!             The owner looks at [`PeerLeases::holds`] after the data has arrived and before it answers.
//!             One `PeerLeases` per host: a wedged host sends no heartbeats, so its leases end.
//!             Not that a host's older process is dead when a newer one starts: a machine may have been cloned.
//! Not here    fencing of writes: epochs and sessions of components do that
//! Source      Gray and Cheriton, SOSP 1989
//!
//! How both sides agree. The grantor counts a lease from when it handled the last heartbeat that listed the object,
//! or the confirmation that began it. The owner counts the same events from when it *sent* them. Only those count
//! that were answered in the session in which the object was confirmed: its lease ends first. Whoever stops listing an
//! object has stopped serving it before.

mod grants;
mod peers;

use std::time::Duration;

pub use grants::Grants;
pub use peers::{PeerLeases, PendingConfirm};

/// The owner's lease is shorter than the grantor's by one part in this many.
///
/// Two clocks that are each wrong by up to 0.5 % differ by (1 - 0.005) / (1 + 0.005) = 0.99005, which is above 0.99.
/// Quartz is wrong by 0.02 % at most, NTP slews by 0.05 %.
pub const LEASE_MARGIN_PARTS: u32 = 100;

/// What the owner may count on of a lease.
fn owner_part(lease: Duration) -> Duration {
    lease - lease / LEASE_MARGIN_PARTS
}
