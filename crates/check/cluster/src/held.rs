//! Snapshots that a run has taken, and what they hold; schedules that it has made, and what they locked.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use crate::model::Found;

/// Snapshots that a run has taken.
#[derive(Default)]
pub struct Snapshots {
    /// By name, DISK@NAME; none of what could not be read yet.
    pub(crate) held: RefCell<BTreeMap<String, Rc<Vec<Found>>>>,
    pub(crate) next: Cell<u64>,
}

impl Snapshots {
    /// Those that are known to be there, DISK@NAME.
    pub fn names(&self) -> Vec<String> {
        self.held.borrow().keys().cloned().collect()
    }
}

/// Schedules that a run has made.
#[derive(Default)]
pub struct Schedules {
    /// Each with how many it keeps.
    pub(crate) made: RefCell<BTreeMap<String, u8>>,
    /// Snapshots that were seen locked, DISK@NAME, each with when that ends.
    pub(crate) locked: RefCell<BTreeMap<String, u64>>,
}
