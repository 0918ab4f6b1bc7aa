//! What the owner of a disk knows and decides. No await, no I/O, no clock.
//!
//! Promises    W1  ack => every component in sync in the effective config holds the operation        (I3)
//!             W2  a component that missed it is recorded absent before the ack                       (I4)
//!             (as far as they are decided here: what operations are sent to, what in sync means, what has failed)
//! Assumes     one task changes the configuration, one change at a time
//! Not here    messages, locks, waiting, and carrying out what follows (`object`); the register (`record`)
#![forbid(unsafe_code)]

mod numbered;
mod state;

pub use numbered::Numbered;
pub use state::{Admitted, Ended, Leg, Link, State};
