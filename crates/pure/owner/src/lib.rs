//! What the owner of a disk knows and decides. No await, no I/O, no clock.
//!
//! Promises    W1  ack => every component in sync in the effective config holds the operation        (I3)
//!             W2  a component that missed it is recorded absent before the ack                       (I4)
//!             W3  an operation that a copy refused is undone everywhere, and never acknowledged      (I9)
//!             Y2  a component is activated only when it has every operation issued before, on stable media  (I4)
//! Assumes     one task changes the configuration, one change at a time; each copy that is asked answers or is found to be lost
//!             R1  what is made of a row fits every block of parity that it was made from, or nothing is made                (image.rs)
//!             R2  parity after a difference is that of the row with the new column, and says so                    (difference.rs)
//! Not here    messages, locks, waiting, and carrying out what follows (`object`); the register (`record`)
//!
//! [`State`] changes by what happens: `on_...` for answers, `fail`, `adopt` for a configuration in effect. What follows is told as a
//! value. `object` carries it out; the model in `tests/` does so for every schedule of a small cluster.
#![forbid(unsafe_code)]

mod away;
mod change;
mod difference;
mod image;
mod numbered;
mod operation;
mod rows;
mod snapshots;
mod state;
mod strip;
#[cfg(test)]
mod testing;

pub use away::{Absences, RepairRules, Returned};
pub use change::{Activation, FailureFirst};
pub use difference::{add_difference, difference};
pub use image::{NoImage, RowImage};
pub use numbered::Numbered;
pub use operation::{AnswerEffect, Answered, GivenUp, Outcome, Step, Verdict};
pub use rows::{PartWrite, p_agrees, part_write};
pub use snapshots::{Lock, NotDeleted, NotTaken, check_delete_disk, check_delete_snapshot, check_unpinned};
pub use state::{Admitted, Ended, InSync, Leg, Link, MemberMask, State};
pub use strip::Strip;
