//! How many requests are outstanding, and who waits for room.

use std::cell::Cell;

/// Counts what is outstanding.
pub(crate) struct Room {
    max: u32,
    inside: Cell<u32>,
    left: tokio::sync::Notify,
}

impl Room {
    /// For at most `max`, and at least one.
    pub(crate) fn new(max: u32) -> Self {
        Self { max: max.max(1), inside: Cell::new(0), left: tokio::sync::Notify::new() }
    }

    /// Waits until there is room, and takes it.
    pub(crate) async fn enter(&self) {
        while self.inside.get() >= self.max {
            self.left.notified().await;
        }
        self.inside.set(self.inside.get() + 1);
    }

    /// Gives it back.
    pub(crate) fn leave(&self) {
        self.inside.set(self.inside.get() - 1);
        self.left.notify_one();
    }

    /// Waits until nobody is inside.
    pub(crate) async fn empty(&self) {
        while self.inside.get() > 0 {
            self.left.notified().await;
        }
    }
}
