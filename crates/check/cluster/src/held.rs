//! Snapshots that a run has taken, and what they hold.

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
