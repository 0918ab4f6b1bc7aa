//! Who of this host's resyncs may copy next: one window of bytes for all of them.
//!
//! Promises    bytes of copies on the way stay within the window of the moment, or are one piece             (memory)
//! Not here    the order of those who wait (`window`); how large the window is, and how fast copies may follow each other
//!             (`throttle`)

use std::{rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_pace::PIECE_BYTES;

use crate::{context::Context, local_store::LocalStore, window::Place};

impl<E: Env, S: LocalStore> Context<E, S> {
    fn copy_window(&self) -> u64 {
        let window_max = self.options.borrow().resync_bytes_in_flight_max;
        self.throttle.borrow().window(self.env.now(), window_max)
    }

    /// Waits until a resync may copy its next piece, of at most `wanted` bytes: yields to guests and to other resyncs.
    pub(crate) async fn admit_copy(self: &Rc<Self>, wanted: u64) -> Place<impl Fn() -> u64 + use<E, S>> {
        let context = self.clone();
        let place = self.copies.place(wanted.min(PIECE_BYTES), move || context.copy_window()).await;
        let limit = self.options.borrow().resync_bytes_per_s_max;
        let pause = self.throttle.borrow_mut().next(self.env.now(), limit, place.bytes);
        if pause > Duration::ZERO {
            self.env.sleep(pause).await;
        }
        place
    }
}
