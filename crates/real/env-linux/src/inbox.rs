//! What waits for one host: messages and the ups and downs of peers, from its own sockets and from other threads.
//!
//! Promises    events of one producer come out in the order they went in; one wake per batch
//!             socket readers wait while more than [`BYTES_HIGH`] wait here, so the peer's TCP window closes
//! Not here    for which host an event is (`host`)

use std::{
    sync::{Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

use cairn_env::NetEvent;

/// Bytes that wait for one host before socket readers pause.
///
/// Napkin: a host that is away for 20 ms at 3 GB/s has 60 MB coming. Engines bound what they have in flight far
/// below this; reaching it means that the host is stuck. One read per connection may come on top.
pub(crate) const BYTES_HIGH: usize = 64 << 20;
/// Bytes at which a message of another host *in this process* is dropped: there is no window to close there.
pub(crate) const BYTES_MAX: usize = 256 << 20;
/// What an event costs beside its bytes.
const EVENT_BYTES: usize = 128;

#[derive(Default)]
struct State {
    events: Vec<NetEvent>,
    bytes: usize,
    waker: Option<Waker>,
    readers: Vec<Waker>,
}

#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
}

fn bytes_of(event: &NetEvent) -> usize {
    match event {
        NetEvent::Message(m) => EVENT_BYTES + m.body.len() + m.payload.len(),
        _ => EVENT_BYTES,
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Appends `events`, leaving it empty; false where this takes the inbox over its mark.
    pub fn push_batch(&self, events: &mut Vec<NetEvent>) -> bool {
        let mut state = self.lock();
        state.bytes += events.iter().map(bytes_of).sum::<usize>();
        state.events.append(events);
        let below = state.bytes <= BYTES_HIGH;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        below
    }

    /// Appends one event, unless more than `bytes_max` would wait: then it is dropped, and the answer is false.
    pub fn push(&self, event: NetEvent, bytes_max: usize) -> bool {
        let mut state = self.lock();
        let bytes = state.bytes + bytes_of(&event);
        if bytes > bytes_max {
            return false;
        }
        state.bytes = bytes;
        state.events.push(event);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Appends an event that is never refused: ups, downs, and what a host sends itself.
    pub fn push_always(&self, event: NetEvent) {
        let taken = self.push(event, usize::MAX);
        assert!(taken, "an inbox without a bound takes everything");
    }

    /// Moves all events to `into`; waits where there are none.
    pub fn poll_take(&self, into: &mut Vec<NetEvent>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.events.is_empty() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if into.is_empty() {
            // Swapped rather than copied: both vectors keep their memory.
            std::mem::swap(into, &mut state.events);
        } else {
            into.append(&mut state.events);
        }
        state.bytes = 0;
        let readers = std::mem::take(&mut state.readers);
        drop(state);
        for reader in readers {
            reader.wake();
        }
        Poll::Ready(())
    }

    /// Waits until the inbox is below its mark.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.bytes <= BYTES_HIGH {
            return Poll::Ready(());
        }
        state.readers.push(cx.waker().clone());
        Poll::Pending
    }
}
