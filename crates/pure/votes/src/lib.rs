//! Who may decide: votes, members in sync, and which change of a configuration is legal.
//!
//! Promises    V1  two majorities of one configuration share a seat
//!             V2  a legal change leaves every replica set as many members as it needs that are in sync before and after it
//!             V3  what is refused names what it waits for: votes, replica sets, hosts
//!             (all against a slow oracle: tests/oracle.rs; by picture: tests/table.rs)
//! Assumes     a seat is present or absent as a whole: its components share one record
//! Not here    how promises are gathered (record), where components are put (placement), time
//! Source      weighted voting: Gifford, SOSP 1979; joint changes: Lamport, Malkhi, Zhou, Vertical Paxos, 2009
#![forbid(unsafe_code)]

mod access;
mod change;
mod tolerance;

pub use access::{Inaccessible, SetWaiting, accessible, has_majority, has_majority_by, votes_needed};
pub use change::{ChangeKind, IllegalChange, check_change};
pub use tolerance::{Untolerated, redundancy, tolerates};
