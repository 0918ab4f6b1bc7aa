//! Who of this host's resyncs may copy next: one window of bytes for all of them.
//!
//! Promises    bytes of copies on the way stay within the window of the moment, or are one piece             (memory)
//! Not here    the order of those who wait (`window`); how large the window is, and how fast copies may follow each other
//!             (`throttle`)

use std::time::Duration;

use cairn_env::Env;
use cairn_pace::PIECE_BYTES;

use crate::{local_store::LocalStore, shard::Shard, window::Place};

impl<E: Env, S: LocalStore> Shard<E, S> {
    fn copy_window(&self) -> u64 {
        let window_max = self.inner.options.borrow().resync_bytes_in_flight_max;
        self.inner.throttle.borrow().window(self.inner.env.now(), window_max)
    }

    /// Waits until a resync may copy its next piece, of at most `wanted` bytes: yields to guests and to other resyncs.
    pub(crate) async fn admit_copy(&self, wanted: u64) -> Place<impl Fn() -> u64 + use<E, S>> {
        let inner = &self.inner;
        let shard = self.clone();
        let place = inner.copies.place(wanted.min(PIECE_BYTES), move || shard.copy_window()).await;
        let limit = inner.options.borrow().resync_bytes_per_s_max;
        let pause = inner.throttle.borrow_mut().next(inner.env.now(), limit, place.bytes);
        if pause > Duration::ZERO {
            inner.env.sleep(pause).await;
        }
        place
    }
}
