//! Waiting for a change of state on one shard.

use std::cell::RefCell;

use futures::channel::oneshot;

/// Wakes everyone who waits. Waiters look at the state themselves, so a spurious wake is harmless.
#[derive(Default)]
pub(crate) struct Signal {
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
}

impl Signal {
    /// Wakes all present waiters.
    pub(crate) fn notify(&self) {
        for waiter in self.waiting.take() {
            let _ = waiter.send(());
        }
    }

    /// Resolves at the next `notify` after this call.
    pub(crate) fn wait(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.borrow_mut();
        // Waiters that gave up (a timeout won) are dropped here, so that the list stays as long as the live ones.
        if waiting.len() >= 64 {
            waiting.retain(|w| !w.is_canceled());
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
