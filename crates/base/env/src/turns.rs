//! Writes in order: whose turn it is, and that nobody follows a failure.
//!
//! Promises    turns begin in the order in which they were queued, each when the one before has ended well
//!             after a failure, and after a turn that was given up, none begins any more
//! Not here    the writes (`Disk::write` with [`crate::Durability::InOrder`])

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    rc::Rc,
    task::{Poll, Waker},
};

/// The turns of one device. Cheap to clone; clones are the same turns.
#[derive(Debug, Clone, Default)]
pub struct Turns(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Whose turn it is, or will be when it is queued.
    now: u64,
    failed: bool,
    /// Who waits, with their numbers.
    waiting: VecDeque<(u64, Waker)>,
}

impl State {
    fn wake(&mut self) {
        let (now, failed) = (self.now, self.failed);
        self.waiting.retain(|(number, waker)| {
            let due = failed || *number == now;
            if due {
                waker.wake_by_ref();
            }
            !due
        });
    }
}

/// A place among the turns. Dropping it before it ended counts as a failure: nobody knows what was done.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    number: u64,
    ended: bool,
}

impl Turns {
    /// Queues behind all that were queued before.
    pub fn queue(&self) -> Turn {
        let mut state = self.0.borrow_mut();
        let number = state.next;
        state.next += 1;
        Turn { turns: self.clone(), number, ended: false }
    }
}

impl Turn {
    /// Waits for the turn; false where an earlier one failed.
    pub async fn begin(&self) -> bool {
        poll_fn(|cx| {
            let mut state = self.turns.0.borrow_mut();
            if state.failed {
                return Poll::Ready(false);
            }
            if state.now == self.number {
                return Poll::Ready(true);
            }
            state.waiting.retain(|(number, _)| *number != self.number);
            state.waiting.push_back((self.number, cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// Ends the turn that has begun; `sound` where what was to be done was done.
    pub fn end(mut self, sound: bool) {
        self.ended = true;
        let mut state = self.turns.0.borrow_mut();
        state.now += 1;
        state.failed |= !sound;
        state.wake();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.ended {
            let mut state = self.turns.0.borrow_mut();
            state.failed = true;
            state.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    /// Goal: turns come one after another in the order of their places, whoever asks first.
    #[test]
    fn turns_come_in_order() {
        let turns = Turns::default();
        let (first, second, third) = (turns.queue(), turns.queue(), turns.queue());
        assert_eq!(third.begin().now_or_never(), None);
        assert_eq!(second.begin().now_or_never(), None);
        assert_eq!(first.begin().now_or_never(), Some(true));
        first.end(true);
        assert_eq!(third.begin().now_or_never(), None);
        assert_eq!(second.begin().now_or_never(), Some(true));
        second.end(true);
        assert_eq!(third.begin().now_or_never(), Some(true));
        third.end(true);
        assert_eq!(turns.queue().begin().now_or_never(), Some(true));
    }

    /// Goal: what failed, and what was given up, has no followers; who waits is woken to hear it.
    #[test]
    fn nobody_follows_a_failure() {
        for given_up in [false, true] {
            let turns = Turns::default();
            let (first, second) = (turns.queue(), turns.queue());
            assert_eq!(first.begin().now_or_never(), Some(true));
            let mut waits = Box::pin(second.begin());
            assert_eq!(waits.as_mut().now_or_never(), None);
            if given_up {
                drop(first)
            } else {
                first.end(false)
            }
            assert_eq!(waits.now_or_never(), Some(false));
            assert_eq!(turns.queue().begin().now_or_never(), Some(false));
        }
    }
}
