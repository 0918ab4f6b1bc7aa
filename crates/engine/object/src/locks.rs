//! Range locks of one object: 4 KiB blocks, shared or exclusive, first come first served.
//!
//! Promises    overlapping requests run one after another unless all are shared; nobody is overtaken by a later
//!             request that conflicts with it, so nobody starves
//!             whoever gives up waiting is out of the way at once
//! Not here    why a lock is taken (`write`, `read`, `resync`)

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use cairn_types::{BlockRange, Canary};
use futures::channel::oneshot;

/// Locks of one object. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RangeLocks {
    table: Rc<RefCell<Table>>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// In no order; as many as there are requests under way, which are looked at one after the other.
    held: Vec<(u64, Claim)>,
    waiting: VecDeque<(u64, Claim, oneshot::Sender<Guard>)>,
}

#[derive(Clone, Copy)]
struct Claim {
    range: BlockRange,
    exclusive: bool,
}

impl Claim {
    fn conflicts(self, other: Self) -> bool {
        (self.exclusive || other.exclusive) && self.range.overlaps(other.range)
    }
}

impl Table {
    fn conflicts_with_held(&self, claim: Claim) -> bool {
        self.held.iter().any(|(_, held)| held.conflicts(claim))
    }

    fn release(&mut self, id: u64) {
        let at = self.held.iter().position(|(held, _)| *held == id).expect("a lock is released once");
        self.held.swap_remove(at);
    }
}

/// Grants what nothing held, and nothing that came before, conflicts with any more.
fn grant(table: &Rc<RefCell<Table>>) {
    let mut granted = Vec::new();
    {
        let mut now = table.borrow_mut();
        let waiting = std::mem::take(&mut now.waiting);
        for (id, claim, sender) in waiting {
            let blocked = now.conflicts_with_held(claim) || now.waiting.iter().any(|(_, w, _)| w.conflicts(claim));
            if blocked {
                now.waiting.push_back((id, claim, sender));
            } else {
                now.held.push((id, claim));
                granted.push((sender, Guard { table: table.clone(), id }));
            }
        }
    }
    for (sender, guard) in granted {
        // Whoever stopped waiting in this very moment gets the guard dropped here, which passes it on.
        let _ = sender.send(guard);
    }
}

/// A place in the queue. Dropping it gives it up.
struct Place {
    table: Rc<RefCell<Table>>,
    id: u64,
    granted: oneshot::Receiver<Guard>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.table.borrow_mut();
        let Some(at) = table.waiting.iter().position(|(id, ..)| *id == self.id) else { return };
        let given_up = table.waiting.remove(at);
        drop(table);
        drop(given_up);
        grant(&self.table);
    }
}

/// A held lock; dropping it lets the next ones in.
pub(crate) struct Guard {
    table: Rc<RefCell<Table>>,
    id: u64,
}

impl RangeLocks {
    /// Waits for the lock. It is queued when this is called, before the future is polled.
    pub(crate) fn lock(&self, range: BlockRange, exclusive: bool) -> impl Future<Output = Guard> + use<> {
        let claim = Claim { range, exclusive };
        let mut table = self.table.borrow_mut();
        let id = table.next;
        table.next += 1;
        let blocked = !Canary::NoRangeLock.sings()
            && (table.conflicts_with_held(claim) || table.waiting.iter().any(|(_, w, _)| w.conflicts(claim)));
        let waits = if blocked {
            let (sender, receiver) = oneshot::channel();
            table.waiting.push_back((id, claim, sender));
            Err(Place { table: self.table.clone(), id, granted: receiver })
        } else {
            table.held.push((id, claim));
            Ok(Guard { table: self.table.clone(), id })
        };
        async move {
            match waits {
                Ok(guard) => guard,
                Err(mut place) => (&mut place.granted).await.expect("a queued lock is granted, never dropped"),
            }
        }
    }

    /// Locks that are held or waited for.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let table = self.table.borrow();
        table.held.len() + table.waiting.len()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut table = self.table.borrow_mut();
        table.release(self.id);
        let nobody_waits = table.waiting.is_empty();
        drop(table);
        if !nobody_waits {
            grant(&self.table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        Box::pin(future).now_or_never()
    }

    #[test]
    fn readers_share_and_writers_wait_their_turn() {
        let locks = RangeLocks::default();
        let a = now(locks.lock(BlockRange::new(0, 4), false)).unwrap();
        let b = now(locks.lock(BlockRange::new(2, 4), false)).unwrap();
        let writer = locks.lock(BlockRange::new(3, 1), true);
        let late_reader = locks.lock(BlockRange::new(3, 1), false);
        let elsewhere = now(locks.lock(BlockRange::new(9, 1), true));
        assert!(elsewhere.is_some());
        drop((a, b));
        let writer = now(writer).expect("both readers are gone");
        let mut late_reader = Box::pin(late_reader);
        assert!(late_reader.as_mut().now_or_never().is_none(), "the writer came first");
        drop(writer);
        drop(now(late_reader).expect("the writer is gone"));
        drop(elsewhere);
        assert_eq!(locks.len(), 0);
    }

    #[test]
    fn a_waiter_that_gives_up_blocks_nobody() {
        let locks = RangeLocks::default();
        let a = now(locks.lock(BlockRange::new(0, 1), true)).unwrap();
        drop(locks.lock(BlockRange::new(0, 1), true));
        let c = locks.lock(BlockRange::new(0, 1), true);
        drop(a);
        assert!(now(c).is_some());
        assert_eq!(locks.len(), 0);
    }

    /// Goal: a waiter that gave up blocks nobody behind it, though what it waited for is still held. Method: a writer that waits for a
    /// reader gives up, before and after others queue up behind it.
    #[test]
    fn a_waiter_that_gave_up_is_out_of_the_way_at_once() {
        let locks = RangeLocks::default();
        let reader = now(locks.lock(BlockRange::new(0, 1), false)).unwrap();
        let writer = locks.lock(BlockRange::new(0, 4), true);
        let mut behind = Box::pin(locks.lock(BlockRange::new(3, 1), true));
        let mut last = Box::pin(locks.lock(BlockRange::new(3, 2), true));
        assert!(behind.as_mut().now_or_never().is_none(), "the writer came first");
        drop(writer);
        let behind = behind.now_or_never().expect("nobody who waits or holds is in its way");
        assert!(last.as_mut().now_or_never().is_none(), "in its turn");
        drop(behind);
        drop(last.now_or_never().expect("its turn"));
        drop(locks.lock(BlockRange::new(0, 9), true));
        assert!(now(locks.lock(BlockRange::new(5, 1), false)).is_some(), "one that came after it gave up");
        drop(reader);
        assert_eq!(locks.len(), 0);
    }

    #[test]
    fn a_lock_that_was_granted_and_never_taken_is_passed_on() {
        let locks = RangeLocks::default();
        let first = now(locks.lock(BlockRange::new(0, 1), true)).unwrap();
        let second = locks.lock(BlockRange::new(0, 1), true);
        let third = locks.lock(BlockRange::new(0, 1), true);
        drop(first);
        drop(second);
        assert!(now(third).is_some());
        assert_eq!(locks.len(), 0);
    }
}
