//! Requests and answers between hosts: numbers, pending answers, and when an answer is given up.
//!
//! Promises    every call resolves: with the answer, or with [`Refusal::Lost`] once the connection ended, the peer
//!             fell silent for a lease, or [`CALL_SECONDS_MAX`] passed; a late answer is dropped, also one for the process before
//!             this one: no two processes of a host give the same numbers
//! Assumes     messages to one peer arrive in the order sent (env); a call is sent before `call` returns
//! Not here    what requests mean (`seats`, `owner`)

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    future::Future,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{Env, OutMessage};
use cairn_owner::Numbered;
use cairn_types::{Canary, HostId, Incarnation, Time};
use cairn_wire::{Answer, Message, Refusal, Request, encode};
use futures::{FutureExt, channel::oneshot};

/// Seconds after which a call is given up although its peer is alive: a device that hangs behind a live process.
///
/// Linux gives a device 30 s before it resets it; a guest's own timeout is 30 s too, so ours must be well below.
pub const CALL_SECONDS_MAX: u64 = 10;

/// Where the process stands in a number: its first one is so far from the next process's. Napkin: 2^48 calls are 89 years of 100,000
/// a second.
const PROCESS_SHIFT: u32 = 48;
/// Marks that there are: an answer that comes 65,536 starts late is none.
const PROCESSES: u64 = 1 << (u64::BITS - PROCESS_SHIFT);

/// The process stands in a number, as an owner may answer long after it was asked: whoever asks it anew by the same number after a start
/// would take the answer for its own.
fn first_number(env: &impl Env) -> u64 {
    if Canary::NumbersReused.sings() {
        return 1;
    }
    ((env.incarnation().0 % PROCESSES) << PROCESS_SHIFT) | 1
}

/// An answer with its payload.
pub type Reply = Result<(Answer, Bytes), Refusal>;

struct Pending {
    to: HostId,
    since: Time,
    answer: oneshot::Sender<Reply>,
}

/// The calls of one host. Cheap to clone.
pub struct Rpc<E: Env> {
    inner: Rc<Inner<E>>,
}

struct Inner<E> {
    env: E,
    /// Calls that wait for an answer, by their number.
    pending: RefCell<Numbered<Pending>>,
    up: RefCell<BTreeMap<HostId, Incarnation>>,
}

impl<E: Env> Clone for Rpc<E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E: Env> Rpc<E> {
    /// No calls yet.
    pub fn new(env: E) -> Self {
        let first = first_number(&env);
        Self { inner: Rc::new(Inner { env, pending: RefCell::new(Numbered::from(first)), up: RefCell::default() }) }
    }

    /// What this process numbers begins here: none before it on this host gave these numbers.
    pub(crate) fn first_number(&self) -> u64 {
        first_number(&self.inner.env)
    }

    /// Sends `request` before it returns; the future resolves with the answer.
    pub fn call(&self, to: HostId, request: Request, payload: Vec<Bytes>) -> impl Future<Output = Reply> + use<E> {
        let inner = &self.inner;
        let (answer, receiver) = oneshot::channel();
        if to == inner.env.host() || inner.up.borrow().contains_key(&to) {
            let id = inner.pending.borrow_mut().push(Pending { to, since: inner.env.now(), answer });
            self.send(to, &Message::Request { id, request }, payload);
        } else {
            drop(answer);
        }
        receiver.map(|reply| reply.unwrap_or(Err(Refusal::Lost)))
    }

    /// Sends a message that has no answer.
    pub fn send(&self, to: HostId, message: &Message, payload: Vec<Bytes>) {
        self.inner.env.send(to, OutMessage { body: encode(message), payload });
    }

    /// Answers request `id` of `to`.
    pub fn answer(&self, to: HostId, id: u64, reply: Result<(Answer, Vec<Bytes>), Refusal>) {
        let (answer, payload) = match reply {
            Ok((answer, payload)) => (Ok(answer), payload),
            Err(refusal) => (Err(refusal), Vec::new()),
        };
        self.send(to, &Message::Answer { id, answer }, payload);
    }

    /// Answers requests of `to` with [`Answer::Done`].
    pub(crate) fn answer_done(&self, to: HostId, ids: Vec<u64>) {
        self.send(to, &Message::Done { ids }, Vec::new());
    }

    /// An answer arrived.
    pub fn on_answer(&self, from: HostId, id: u64, answer: Result<Answer, Refusal>, payload: Bytes) {
        let mut pending = self.inner.pending.borrow_mut();
        // Another host's number is a bug or malice there; the call stays open for the right one.
        if pending.get(id).is_some_and(|p| p.to == from) {
            let call = pending.remove(id).expect("just seen");
            drop(pending);
            let _ = call.answer.send(answer.map(|a| (a, payload)));
        }
    }

    /// A peer is connected.
    pub fn on_peer_up(&self, host: HostId, incarnation: Incarnation) {
        let before = self.inner.up.borrow_mut().insert(host, incarnation);
        if before.is_some_and(|b| b != incarnation) {
            self.give_up(|p| p.to == host);
        }
    }

    /// A connection ended or the peer fell silent for a lease.
    pub fn on_peer_down(&self, host: HostId) {
        self.inner.up.borrow_mut().remove(&host);
        if !Canary::CallsNotGivenUp.sings() {
            self.give_up(|p| p.to == host);
        }
    }

    /// The peers that are connected, with their processes.
    pub fn peers_up(&self) -> BTreeMap<HostId, Incarnation> {
        self.inner.up.borrow().clone()
    }

    /// Whether calls to the host have a chance.
    pub fn is_up(&self, host: HostId) -> bool {
        host == self.inner.env.host() || self.inner.up.borrow().contains_key(&host)
    }

    /// Gives up what waited too long. To be called now and then.
    pub fn sweep(&self) {
        let limit = Duration::from_secs(CALL_SECONDS_MAX);
        let now = self.inner.env.now();
        self.give_up(|p| now.since(p.since) > limit);
    }

    /// How many calls wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.inner.pending.borrow().len()
    }

    /// Hosts that calls wait for, with how many.
    pub fn waiting_for(&self) -> BTreeSet<HostId> {
        self.inner.pending.borrow().iter().map(|(_, p)| p.to).collect()
    }

    fn give_up(&self, mut which: impl FnMut(&Pending) -> bool) {
        let mut pending = self.inner.pending.borrow_mut();
        let lost: Vec<u64> = pending.iter().filter(|(_, p)| which(p)).map(|(id, _)| id).collect();
        let lost: Vec<Pending> = lost.into_iter().filter_map(|id| pending.remove(id)).collect();
        drop(pending);
        for call in lost {
            let _ = call.answer.send(Err(Refusal::Lost));
        }
    }
}
