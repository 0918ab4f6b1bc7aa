//! Waiting for a change of state on one thread.

use std::cell::{Cell, RefCell};

use futures::channel::oneshot;

/// Wakes everyone who waits. Waiters look at the state themselves, so a spurious wake is harmless.
#[derive(Default)]
pub(crate) struct Signal {
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
    /// How long the list may grow until those that gave up are looked for.
    sweep_at: Cell<usize>,
}

/// Below this the list is not worth a look.
const SWEEP_AT_MIN: usize = 64;

impl Signal {
    /// Wakes all present waiters.
    pub(crate) fn notify(&self) {
        self.sweep_at.set(SWEEP_AT_MIN);
        for waiter in self.waiting.take() {
            let _ = waiter.send(());
        }
    }

    /// Resolves at the next `notify` after this call.
    pub(crate) fn wait(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.borrow_mut();
        // A waiter that keeps re-waiting (an idle object) would leave a dead entry each time, at the end of the list.
        while waiting.last().is_some_and(oneshot::Sender::is_canceled) {
            waiting.pop();
        }
        // Waiters that gave up (a timeout won) are dropped here, so that the list is at most twice as long as the live ones. Not
        // with each call: ten thousand objects that wait would each look at all others.
        if waiting.len() >= self.sweep_at.get().max(SWEEP_AT_MIN) {
            waiting.retain(|w| !w.is_canceled());
            self.sweep_at.set(waiting.len() * 2);
        }
        waiting.push(sender);
        receiver
    }

    /// Resolves when `ready` holds.
    pub(crate) async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(value) = ready() {
                return value;
            }
            let _ = self.wait().await;
        }
    }
}
