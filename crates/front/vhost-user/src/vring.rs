//! One ring: requests out of it, answers into it, and who is woken.
//!
//! Promises    V1  a request is noted as under way before it is given to the disk, and its end is noted around its answer
//!             V2  the machine is woken once for all answers of a turn, and only where it says that it wants to be
//!             V3  who looks into an empty ring has asked to be woken before: no request waits unseen
//! Not here    what a request asks (`request`), which requests run (`session`)

use std::{
    collections::VecDeque,
    fs::File,
    io::Write as _,
    os::fd::OwnedFd,
    sync::atomic::Ordering,
    task::{Context, Poll},
};

use tokio::io::{Interest, unix::AsyncFd};
use virtio_queue::{Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::{chain, inflight::Inflight, memory::Memory};

/// What a front end tells of a ring before it starts it. Addresses are its own.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Layout {
    pub(crate) entries: u16,
    /// The first request to take.
    pub(crate) base: u16,
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
    pub(crate) event_idx: bool,
}

/// A ring that was started.
pub(crate) struct Vring {
    queue: Queue,
    kick: AsyncFd<OwnedFd>,
    call: Option<File>,
    inflight: Option<Inflight>,
    /// Requests that an earlier process left, first.
    again: VecDeque<u16>,
    /// Whether requests are taken.
    pub(crate) enabled: bool,
    /// Its requests at the disk.
    pub(crate) running: usize,
    /// There are answers that the machine was not woken for.
    answered: bool,
    /// Its indices make no sense: nothing is taken any more.
    broken: bool,
    /// The log has a request that made no sense.
    complained: bool,
}

impl Vring {
    /// Starts a ring. Must be called in the runtime of its thread.
    pub(crate) fn start(
        layout: Layout,
        kick: OwnedFd,
        mut inflight: Option<Inflight>,
        memory: &Memory,
    ) -> Result<Self, String> {
        let place = |what: &str, user: u64| {
            memory.guest_of(user).ok_or_else(|| format!("its {what} lie outside the memory that is shared"))
        };
        let mut queue = Queue::new(layout.entries).map_err(|e| e.to_string())?;
        queue.try_set_desc_table_address(place("descriptors", layout.descriptors)?).map_err(|e| e.to_string())?;
        queue.try_set_avail_ring_address(place("requests", layout.available)?).map_err(|e| e.to_string())?;
        queue.try_set_used_ring_address(place("answers", layout.used)?).map_err(|e| e.to_string())?;
        queue.set_event_idx(layout.event_idx);
        queue.set_ready(true);
        if !queue.is_valid(&memory.map) {
            return Err("it does not lie in the memory that is shared".into());
        }
        let used = queue.used_idx(&memory.map, Ordering::Acquire).map_err(|e| e.to_string())?.0;
        queue.set_next_used(used);
        let again = inflight.as_mut().and_then(|inflight| inflight.recover(used));
        let next = again.as_ref().map_or(layout.base, |again| used.wrapping_add(again.len() as u16));
        queue.set_next_avail(next);
        Ok(Self {
            queue,
            kick: watch(kick)?,
            call: None,
            inflight,
            again: again.unwrap_or_default().into(),
            enabled: false,
            running: 0,
            answered: false,
            broken: false,
            complained: false,
        })
    }

    /// Another descriptor to be woken by.
    pub(crate) fn replace_kick(&mut self, kick: OwnedFd) -> Result<(), String> {
        self.kick = watch(kick)?;
        Ok(())
    }

    /// What the machine is woken by from now on. It is woken once: an earlier process may have answered, and died before it said so.
    pub(crate) fn replace_call(&mut self, call: Option<File>) {
        self.call = call;
        self.wake();
    }

    /// Where it would go on, had it no request under way.
    pub(crate) fn next_available(&self) -> u16 {
        self.queue.next_avail().wrapping_sub(self.again.len() as u16)
    }

    /// Registers the task for the next kick.
    pub(crate) fn poll_kick(&mut self, cx: &mut Context<'_>) {
        // The counter is not read: each kick is an event of its own to a reactor that is told of edges.
        while let Poll::Ready(Ok(mut ready)) = self.kick.poll_read_ready(cx) {
            ready.clear_ready();
        }
    }

    /// The next request's head, and its segments or why they make no sense; none where there is none now.
    pub(crate) fn next(&mut self, memory: &GuestMemoryMmap) -> Option<(u16, Result<chain::Chain, &'static str>)> {
        let head = self.next_head(memory)?;
        if let Some(inflight) = &mut self.inflight
            && head < self.queue.size()
        {
            inflight.begin(head);
        }
        Some((head, chain::walk(memory, GuestAddress(self.queue.desc_table()), self.queue.size(), head)))
    }

    /// Gives a request back that makes no sense. A guest may send any number of them: the log has the first.
    pub(crate) fn give_back(&mut self, memory: &GuestMemoryMmap, head: u16, why: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(
                "a request of a vhost-user front end was given back, and further ones will be without a word: {why}"
            );
        }
        self.answer(memory, head, 0);
    }

    fn next_head(&mut self, memory: &GuestMemoryMmap) -> Option<u16> {
        if !self.enabled || self.broken {
            return None;
        }
        if let Some(head) = self.again.pop_front() {
            return Some(head);
        }
        match self.queue.iter(memory) {
            Ok(mut available) => available.next().map(|chain| chain.head_index()),
            Err(error) => {
                tracing::warn!(%error, "a vhost-user front end's ring makes no sense: nothing more is taken from it");
                self.broken = true;
                None
            }
        }
    }

    /// Asks to be woken for the next request; true where one has come meanwhile.
    pub(crate) fn wants_look(&mut self, memory: &GuestMemoryMmap) -> bool {
        self.enabled && !self.broken && self.queue.enable_notification(memory).unwrap_or(false)
    }

    /// Gives a request back, `len` bytes of which were written.
    pub(crate) fn answer(&mut self, memory: &GuestMemoryMmap, head: u16, len: u32) {
        if let Some(inflight) = &self.inflight
            && head < self.queue.size()
        {
            inflight.ending(head);
        }
        if let Err(error) = self.queue.add_used(memory, head, len) {
            tracing::warn!(%error, "an answer found no place in a vhost-user front end's ring");
            self.broken = true;
            return;
        }
        self.answered = true;
        if let Some(inflight) = &self.inflight {
            inflight.ended(head, self.queue.next_used());
        }
    }

    /// Wakes the machine for what was answered since the last time.
    pub(crate) fn signal(&mut self, memory: &GuestMemoryMmap) {
        if !std::mem::take(&mut self.answered) || !self.queue.needs_notification(memory).unwrap_or(true) {
            return;
        }
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(call) = &mut self.call {
            // It does not block, and a counter that is full has woken the machine already.
            let _ = call.write(&1u64.to_ne_bytes());
        }
    }
}

#[allow(unsafe_code)]
fn watch(kick: OwnedFd) -> Result<AsyncFd<OwnedFd>, String> {
    // SAFETY: the `AsyncFd` owns the descriptor, which stays open and the same for as long as it lives.
    let watched = unsafe { AsyncFd::register_with_interest(kick, Interest::READABLE) };
    watched.map_err(|e| format!("what it is woken by cannot be watched: {}", e.into_parts().1))
}
