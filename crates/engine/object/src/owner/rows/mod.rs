//! Objects with parity: guests' requests on rows of strips, and what keeps parity with them.
//!
//! Promises    P1  parity of a row is that of its columns at every member in sync, whoever dies when            (I5')
//!             P2  what is made of a row was compared with what parity says of it, or it is an error              (P4)
//!             P3  operations on one position of a row run one after another; those on others know nothing of each other
//! Assumes     a row is contiguous in the disk, so the lock of its range covers the blocks of all its columns
//! Not here    which way a part is written, what a row comes to (`cairn-owner`); what a seat does with a difference (`seats`)
//!
//! **Locks.** A request holds one lock of blocks of the disk: its own, or those of all its rows. It never takes a second one. A part of a
//! row then takes the lock of its positions, and waits for nothing but answers while it has that. Lock of blocks, then of positions, then
//! answers: nobody waits for what stands before in this order, so there is no circle.
//!
//! Whoever needs a row as a whole holds the lock of its range. That waits for the locks of all its blocks. A part holds the lock of its
//! blocks for as long as that of its positions, as its operation has both. So under the lock of a row its positions are free, but for parts of
//! the same request, which take them in turn.
//!
//! Nobody widens a lock that he holds. He lets go, takes the wide one and looks at the states again: [`OpError::NeedsRows`].
//!
//! [`OpError::NeedsRows`]: super::OpError::NeedsRows

mod bodies;
mod compare;
mod difference;
mod image;
mod read;
mod repair;
mod resync;
mod write;

use std::{cell::RefCell, collections::BTreeMap};

use cairn_env::Env;
use cairn_geometry::{Area, Rows};
use cairn_types::{BlockRange, Canary, ReplicaSetIndex};

use crate::{
    local_store::LocalStore,
    locks::{Guard, RangeLocks},
    owner::Owned,
};

pub(super) use difference::Follow;
pub(super) use write::Changed;

/// Which blocks of the disk a request has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// Its own.
    Blocks,
    /// All of the rows that its blocks belong to.
    Rows,
}

impl Locked {
    /// The blocks to be locked for a request on these of an area.
    pub(super) fn blocks(self, area: Area, blocks: BlockRange) -> BlockRange {
        match self {
            Self::Blocks => blocks,
            Self::Rows => area.rows_around(blocks),
        }
    }
}

/// Positions of rows that are being written: blocks of the components of a set. One table for each set.
#[derive(Default)]
pub(super) struct Positions(RefCell<BTreeMap<ReplicaSetIndex, RangeLocks>>);

impl Positions {
    /// Waits for the lock. It is queued when this is called.
    fn lock(&self, set: ReplicaSetIndex, range: BlockRange) -> impl Future<Output = Guard> + use<> {
        if Canary::PositionNotLocked.sings() {
            return RangeLocks::default().lock(range, true);
        }
        self.0.borrow_mut().entry(set).or_default().lock(range, true)
    }
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// The rows of a set; none of a mirror's.
    pub(super) fn rows_of(&self, set: ReplicaSetIndex) -> Option<Rows> {
        Rows::of(self.state.borrow().config().addresses.redundancy(set))
    }
}

#[cfg(test)]
mod tests;
