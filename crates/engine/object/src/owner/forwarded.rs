//! Requests that other hosts' front ends forwarded to this owner: one try of each at a time.
//!
//! Promises    a try begins when no earlier try of the same request is under way here. What waits at an owner (for the limit of the
//!             disk's IOPS, for memory, for a hand-over that is called off) may wait while its connection ends and the request comes
//!             again: the second try would ask the copies for the first in vain, be carried out, and the first after it

use std::{cell::RefCell, collections::BTreeSet};

use cairn_types::ClientTag;

use crate::signal::Signal;

/// The changes under way.
#[derive(Default)]
pub(crate) struct Forwarded {
    tries: RefCell<BTreeSet<ClientTag>>,
    ended: Signal,
}

/// A try under way; dropping it lets the next one begin.
pub(crate) struct Try<'a> {
    of: &'a Forwarded,
    request: ClientTag,
}

impl Forwarded {
    /// Begins a try of `request` as soon as no other one is under way.
    pub(crate) async fn begin(&self, request: ClientTag) -> Try<'_> {
        self.ended.until(|| self.tries.borrow_mut().insert(request).then_some(())).await;
        Try { of: self, request }
    }
}

impl Drop for Try<'_> {
    fn drop(&mut self) {
        self.of.tries.borrow_mut().remove(&self.request);
        self.of.ended.notify();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_repeat_waits_for_the_first_try_and_others_do_not() {
        let forwarded = Forwarded::default();
        let [one, other] = [1, 2].map(|slot| ClientTag::request(7, slot, 0));
        let first = forwarded.begin(one).now_or_never().expect("the first");
        let mut second = Box::pin(forwarded.begin(one));
        assert!(second.as_mut().now_or_never().is_none(), "the first is under way");
        drop(forwarded.begin(other).now_or_never().expect("another request"));
        drop(first);
        drop(second.now_or_never().expect("the first has ended"));
        assert!(forwarded.tries.borrow().is_empty());
    }
}
