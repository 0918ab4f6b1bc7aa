//! The object record as a replicated register decided by votes: promise, accept, seize, settle, change, lease.
//!
//! Promises    R1  at most one owner serves an object at a time; older ones are refused             (I1)
//!             R2  effective configurations form one chain                                          (I2)
//!             R3  an acknowledged operation is on every in-sync component of every later owner     (I3, I4)
//!             (the model in the tests of `owner`: every schedule of a small cluster, random ones of a larger)
//! Assumes     a changed [`SeatRecord`](cairn_types::SeatRecord) is durable before its answer leaves
//!             ([`BeforeSend`]); an epoch is used by one [`Seizure`] only ([`next_epoch`])
//! Not here    messages' way, timers, the data itself (`object`), where components go (`placement`)
//! Source      Lamport, Paxos Made Simple, 2001; Lamport, Malkhi, Zhou, Vertical Paxos, 2009 (change by joint
//!             majorities); PacificA, 2008 (primary and backups); Gray and Cheriton, Leases, 1989
//!
//! Everything here is a plain state machine: inputs by `on_...`, effects returned, time passed in.
#![forbid(unsafe_code)]

mod acceptor;
mod ballot;
mod change;
mod lease;
mod seizure;
mod settle;

pub use acceptor::{
    AcceptRefused, BeforeSend, PromiseRefused, Vouched, accept, decided_in_sync, learn, left_out, next_epoch, promise,
};
pub use change::{ChangeEffect, ConfigChange};
pub use lease::{Grants, LEASE_MARGIN_PARTS, PeerLeases, PendingConfirm};
pub use seizure::{Seizure, SeizureEffect, SeizureFailure, Won};
pub use settle::{Rejoin, rejoin, still_holds};
