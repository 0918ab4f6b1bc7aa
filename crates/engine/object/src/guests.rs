//! The guests of this host: which disks their front ends have open, and what they asked.
//!
//! Promises    what all guests asked, all disks together, never falls: what was asked of deleted disks stays in the sum
//! Not here    who they are (the front ends know); the guests of other hosts, whose requests come here to an owner

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use cairn_metrics::GuestCounters;
use cairn_types::ObjectId;

/// Of one host.
#[derive(Default)]
pub(crate) struct Guests {
    /// Open front-end sessions, by object.
    open: RefCell<BTreeMap<ObjectId, usize>>,
    /// What guests asked here, by object, since the process began; of disks that are not deleted.
    asked: RefCell<BTreeMap<ObjectId, Rc<Cell<GuestCounters>>>>,
    /// What guests asked of disks that are deleted, all together: the host's sum must not fall.
    asked_of_deleted: Cell<GuestCounters>,
}

impl Guests {
    /// A front end opens the disk. Returns where its requests are counted, for all sessions of this host together.
    pub(crate) fn open(&self, object: ObjectId) -> Rc<Cell<GuestCounters>> {
        *self.open.borrow_mut().entry(object).or_default() += 1;
        self.asked.borrow_mut().entry(object).or_default().clone()
    }

    /// A front end closed it.
    pub(crate) fn close(&self, object: ObjectId) {
        let mut open = self.open.borrow_mut();
        match open.get_mut(&object) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&object)),
        }
    }

    /// How many have it open.
    pub(crate) fn front_ends(&self, object: ObjectId) -> usize {
        self.open.borrow().get(&object).copied().unwrap_or(0)
    }

    /// What was asked, by object; deleted ones are left out.
    pub(crate) fn counters(&self) -> Vec<(ObjectId, GuestCounters)> {
        self.asked.borrow().iter().map(|(object, asked)| (*object, asked.get())).collect()
    }

    /// The same of all disks together, deleted ones among them.
    pub(crate) fn counters_of_all(&self) -> GuestCounters {
        let disks = self.asked.borrow();
        disks.values().fold(self.asked_of_deleted.get(), |sum, asked| sum.plus(&asked.get()))
    }

    /// The disk is deleted.
    pub(crate) fn forget(&self, object: ObjectId) {
        if let Some(asked) = self.asked.borrow_mut().remove(&object) {
            self.asked_of_deleted.set(self.asked_of_deleted.get().plus(&asked.get()));
        }
    }
}
