//! Wakes a task of the same thread; a flag that is raised while nobody waits stays up.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    task::{Poll, Waker},
};

/// One bit and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Flag {
    set: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Flag {
    /// Wakes whoever waits, or the next who will.
    pub fn raise(&self) {
        self.set.set(true);
        for waker in self.waiting.take() {
            waker.wake();
        }
    }
    /// Resolves when the signal was raised since the last time that a wait resolved.
    pub fn wait(&self) -> impl Future<Output = ()> + '_ {
        poll_fn(|context| {
            if self.set.take() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
    }
}
