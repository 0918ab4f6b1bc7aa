//! Who of this shard's resyncs may copy next: one window of bytes for all of them, first come, first served.
//!
//! Promises    bytes of copies on the way stay within the window of the moment, or are one piece             (memory)
//!             a place that nobody waits for any more is given to the next
//! Not here    how large the window is, and how fast copies may follow each other (`throttle`)

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    time::Duration,
};

use cairn_env::Env;
use futures::channel::oneshot;

use crate::{local_store::LocalStore, shard::Shard, throttle::PIECE_BYTES};

/// What is on the way, and who waits.
#[derive(Default)]
pub(crate) struct Copies {
    bytes: Cell<u64>,
    /// How much each would copy at most, and where it is told how much it may.
    waiting: RefCell<VecDeque<(u64, oneshot::Sender<u64>)>>,
}

impl Copies {
    /// Bytes that a copy of at most `wanted` may have now; none where it is to wait.
    fn room(&self, wanted: u64, window: u64) -> Option<u64> {
        let (now, piece) = (self.bytes.get(), wanted.min(PIECE_BYTES));
        // One piece larger than the window still passes, alone.
        (now == 0 || now + piece <= window).then_some(piece)
    }

    fn wait(&self, wanted: u64) -> oneshot::Receiver<u64> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back((wanted, sender));
        receiver
    }

    /// Gives what there is room for to those who wait, in order.
    fn grant(&self, window: u64) {
        loop {
            let next = {
                let mut waiting = self.waiting.borrow_mut();
                let Some(&(wanted, _)) = waiting.front() else { return };
                let Some(piece) = self.room(wanted, window) else { return };
                waiting.pop_front().map(|(_, sender)| (piece, sender))
            };
            let Some((piece, sender)) = next else { return };
            // Whoever gave up has taken nothing.
            if sender.send(piece).is_ok() {
                self.bytes.set(self.bytes.get() + piece);
            }
        }
    }
}

/// A copy's place in the window; dropping it lets others in.
pub(crate) struct Copying<E: Env, S: LocalStore> {
    shard: Shard<E, S>,
    /// Bytes that may be copied.
    pub(crate) bytes: u64,
}

impl<E: Env, S: LocalStore> Drop for Copying<E, S> {
    fn drop(&mut self) {
        let copies = &self.shard.inner.copies;
        copies.bytes.set(copies.bytes.get() - self.bytes);
        copies.grant(self.shard.copy_window());
    }
}

/// Takes the place over when it is there, also if whoever waited goes away in that moment.
struct Waiting<E: Env, S: LocalStore> {
    shard: Shard<E, S>,
    given: oneshot::Receiver<u64>,
}

impl<E: Env, S: LocalStore> Drop for Waiting<E, S> {
    fn drop(&mut self) {
        if let Ok(Some(bytes)) = self.given.try_recv() {
            drop(Copying { shard: self.shard.clone(), bytes });
        }
        self.given.close();
    }
}

impl<E: Env, S: LocalStore> Shard<E, S> {
    fn copy_window(&self) -> u64 {
        let window_max = self.inner.options.borrow().resync_bytes_in_flight_max;
        self.inner.throttle.borrow().window(self.inner.env.now(), window_max)
    }

    /// Waits until a resync may copy its next piece, of at most `wanted` bytes: yields to guests and to other resyncs.
    pub(crate) async fn admit_copy(&self, wanted: u64) -> Copying<E, S> {
        let inner = &self.inner;
        let given = inner.copies.wait(wanted);
        let mut waiting = Waiting { shard: self.clone(), given };
        inner.copies.grant(self.copy_window());
        let bytes = (&mut waiting.given).await.expect("whoever waits is told before the shard ends");
        let place = Copying { shard: self.clone(), bytes };
        let limit = inner.options.borrow().resync_bytes_per_s_max;
        let pause = inner.throttle.borrow_mut().next(inner.env.now(), limit, bytes);
        if pause > Duration::ZERO {
            inner.env.sleep(pause).await;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = PIECE_BYTES;
    const REGION: u64 = 4 * PIECE;

    fn given(waiting: &mut [oneshot::Receiver<u64>]) -> Vec<Option<u64>> {
        waiting.iter_mut().map(|w| w.try_recv().ok().flatten()).collect()
    }

    #[test]
    fn the_window_is_given_in_order_and_grows_when_guests_go() {
        let copies = Copies::default();
        let mut waiting: Vec<_> = [REGION, 4096, REGION, REGION].map(|wanted| copies.wait(wanted)).into();
        copies.grant(2 * PIECE);
        assert_eq!(given(&mut waiting), [Some(PIECE), Some(4096), None, None], "a third piece does not fit");
        copies.grant(64 * PIECE);
        assert_eq!(given(&mut waiting[2..]), [Some(PIECE), Some(PIECE)]);
        assert_eq!(copies.bytes.get(), 3 * PIECE + 4096);
    }

    #[test]
    fn a_piece_over_the_window_passes_alone_and_who_gave_up_is_passed_over() {
        let copies = Copies::default();
        drop(copies.wait(REGION));
        let mut waiting = vec![copies.wait(REGION), copies.wait(REGION)];
        copies.grant(PIECE / 2);
        assert_eq!(given(&mut waiting), [Some(PIECE), None]);
        copies.bytes.set(0);
        copies.grant(PIECE / 2);
        assert_eq!(given(&mut waiting[1..]), [Some(PIECE)]);
    }
}
