//! Bytes that may be on the way at once: first come, first served.
//!
//! Promises    bytes on the way stay within the limit of the moment, or are one place                        (memory)
//!             a place that nobody waits for any more goes to the next
//! Not here    how large the limit is (`copies`, `forwards`)

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use futures::channel::oneshot;

/// What is on the way, and who waits.
#[derive(Default)]
pub(crate) struct Window {
    bytes: Cell<u64>,
    /// The bytes that each waits for.
    waiting: RefCell<VecDeque<(u64, oneshot::Sender<u64>)>>,
}

impl Window {
    /// Waits for a place of `bytes`. `limit` tells how many bytes may be on the way now.
    pub(crate) async fn place<L: Fn() -> u64>(self: &Rc<Self>, bytes: u64, limit: L) -> Place<L> {
        let given = self.wait(bytes);
        let mut waiting = Waiting { window: self, given, limit: &limit };
        self.grant(limit());
        let bytes = (&mut waiting.given).await.expect("the window outlives whoever waits at it");
        drop(waiting);
        Place { window: self.clone(), bytes, limit }
    }

    /// The same, where nobody has to wait for it.
    pub(crate) fn place_now<L: Fn() -> u64>(self: &Rc<Self>, bytes: u64, limit: L) -> Option<Place<L>> {
        let now = self.bytes.get();
        let room = self.waiting.borrow().is_empty() && (now == 0 || now + bytes <= limit());
        room.then(|| {
            self.bytes.set(now + bytes);
            Place { window: self.clone(), bytes, limit }
        })
    }

    fn wait(&self, bytes: u64) -> oneshot::Receiver<u64> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back((bytes, sender));
        receiver
    }

    /// Gives what there is room for to those who wait, in order.
    fn grant(&self, limit: u64) {
        loop {
            let next = {
                let mut waiting = self.waiting.borrow_mut();
                let Some(&(bytes, _)) = waiting.front() else { return };
                let now = self.bytes.get();
                // A place larger than the limit still passes, alone.
                if now > 0 && now + bytes > limit {
                    return;
                }
                waiting.pop_front()
            };
            let Some((bytes, sender)) = next else { return };
            // Whoever gave up has taken nothing.
            if sender.send(bytes).is_ok() {
                self.bytes.set(self.bytes.get() + bytes);
            }
        }
    }

    fn give_back(&self, bytes: u64, limit: u64) {
        self.bytes.set(self.bytes.get() - bytes);
        self.grant(limit);
    }
}

/// Bytes on the way; dropping it lets others in.
pub(crate) struct Place<L: Fn() -> u64> {
    window: Rc<Window>,
    /// How many.
    pub(crate) bytes: u64,
    limit: L,
}

impl<L: Fn() -> u64> Drop for Place<L> {
    fn drop(&mut self) {
        self.window.give_back(self.bytes, (self.limit)());
    }
}

/// Gives a place back that was given in the moment in which whoever waited gave up.
struct Waiting<'a, L: Fn() -> u64> {
    window: &'a Rc<Window>,
    given: oneshot::Receiver<u64>,
    limit: &'a L,
}

impl<L: Fn() -> u64> Drop for Waiting<'_, L> {
    fn drop(&mut self) {
        if let Ok(Some(bytes)) = self.given.try_recv() {
            self.window.give_back(bytes, (self.limit)());
        }
        self.given.close();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn given(waiting: &mut [oneshot::Receiver<u64>]) -> Vec<Option<u64>> {
        waiting.iter_mut().map(|w| w.try_recv().ok().flatten()).collect()
    }

    #[test]
    fn places_are_given_in_order_and_more_when_the_limit_grows() {
        let window = Window::default();
        let mut waiting: Vec<_> = [256, 4, 256, 256].map(|bytes| window.wait(bytes)).into();
        window.grant(512);
        assert_eq!(given(&mut waiting), [Some(256), Some(4), None, None], "a third does not fit");
        window.grant(4096);
        assert_eq!(given(&mut waiting[2..]), [Some(256), Some(256)]);
        assert_eq!(window.bytes.get(), 3 * 256 + 4);
    }

    #[test]
    fn a_place_over_the_limit_passes_alone_and_who_gave_up_is_passed_over() {
        let window = Window::default();
        drop(window.wait(256));
        let mut waiting = vec![window.wait(256), window.wait(256)];
        window.grant(128);
        assert_eq!(given(&mut waiting), [Some(256), None]);
        window.give_back(256, 128);
        assert_eq!(given(&mut waiting[1..]), [Some(256)]);
    }

    #[test]
    fn a_place_given_to_who_gives_up_goes_to_the_next() {
        let window = Rc::new(Window::default());
        let first = window.place(100, || 100).now_or_never().expect("an empty window has room");
        let mut second = Box::pin(window.place(100, || 100));
        let mut third = Box::pin(window.place(100, || 100));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        drop(first);
        // The second was given the place and has not looked since.
        drop(second);
        let third = third.now_or_never().expect("the place went on to the third");
        drop(third);
        assert_eq!(window.bytes.get(), 0);
    }
}
