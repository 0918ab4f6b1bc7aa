//! The objects of one host: what makes owners, what ends them, and what wakes those that have something to do.
//!
//! Promises    an object is seized once at a time, and owned once
//!             what may concern any object counts as a change, so that who failed need not try again before one
//! Not here    what an owner does (`owner`), what owners share (`context`), messages (`serve`), front ends (`client`)

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_metrics::{GuestCounters, OwnerCounters};
use cairn_pace::Backoff;
use cairn_types::{Accepted, DiskGroupId, HostId, Level, ObjectId, Seat};
use cairn_wire::{Answer, Refusal, Request};
use futures::{channel::oneshot, future::LocalBoxFuture};

use crate::{
    context::Context,
    event::ObjectEvent,
    forwards::Forwards,
    guests::Guests,
    leases::Leases,
    local_store::LocalStore,
    options::ObjectOptions,
    owner::{Ended, Owned, OwnedById, SeizeError, TOGETHER, Won, seize},
    placer::Placer,
    rpc::Rpc,
    seats::Seats,
    serving::{Asked, Serving},
    signal::Signal,
    stages::DiskLatencies,
};

/// Owned objects that look again at once when something has come to be away for long: each may have to write that down.
///
/// Napkin: a change of a configuration takes its owner some 100 microseconds, so a tenth of each [`TOGETHER`]; 10,000 objects take
/// 10 s. All at once they would keep heartbeats from being answered for as long as a peer's silence lasts.
const WOKEN_TOGETHER: usize = 100;

/// What objects count on, beside who is connected: when it is another than it was, they look again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Presence {
    /// Disk groups that are not away for long.
    here: Vec<Seat>,
    /// Those that nobody has told of since this process began are.
    untold_away: bool,
    /// It must be the network: nothing counts as away.
    many_hosts_gone: bool,
}

/// The object layer of one host. Cheap to clone.
pub struct Objects<E: Env, S: LocalStore> {
    inner: Rc<Inner<E, S>>,
}

struct Inner<E: Env, S: LocalStore> {
    context: Rc<Context<E, S>>,
    owned: Rc<OwnedById<E, S>>,
    guests: Guests,
    serving: Serving,
    forwards: Forwards,
    /// How often something changed that objects wait for, or what this host's disk groups hold.
    changes: Cell<u64>,
    presence: RefCell<Option<Presence>>,
    /// Objects that this host is seizing just now; others wait for the outcome.
    seizing: RefCell<BTreeSet<ObjectId>>,
    /// Those that it could not seize lately, until it can.
    not_seized: RefCell<BTreeMap<ObjectId, Backoff>>,
    /// A seizure came to its end. Not `changed` of the context: whoever failed and waits to try again must not wake the others to
    /// do the same, for ever.
    seized: Signal,
}

impl<E: Env, S: LocalStore> Clone for Objects<E, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E: Env, S: LocalStore> Objects<E, S> {
    /// The object layer over these seats.
    pub fn new(env: E, rpc: Rpc<E>, seats: Seats<E, S>, leases: Leases<E>, options: ObjectOptions) -> Self {
        Self {
            inner: Rc::new(Inner {
                context: Context::new(env, rpc, seats, leases, options),
                owned: Rc::default(),
                guests: Guests::default(),
                serving: Serving::default(),
                forwards: Forwards::default(),
                changes: Cell::default(),
                presence: RefCell::default(),
                seizing: RefCell::default(),
                not_seized: RefCell::default(),
                seized: Signal::default(),
            }),
        }
    }

    /// What the owners here share.
    pub(crate) fn context(&self) -> &Rc<Context<E, S>> {
        &self.inner.context
    }

    /// The guests of this host.
    pub(crate) fn guests(&self) -> &Guests {
        &self.inner.guests
    }

    /// Credit for requests to owners of other hosts.
    pub(crate) fn forwards(&self) -> &Forwards {
        &self.inner.forwards
    }

    /// Carries another host's request out and answers it.
    pub(crate) fn carry_out(&self, asked: Asked) {
        self.inner.serving.add(self.context(), asked);
    }

    /// Ends an ownership that has outlived its object: the catalogue has a tombstone, so a majority has seen it deleted, and an
    /// owner without guests asks nobody whether it still is one.
    pub fn end_deleted(&self, object: ObjectId) {
        self.forget_numbers(object);
        if let Some(owned) = self.owned(object) {
            owned.finish_owner(Ended::Deleted);
        }
    }

    /// What was measured of disks that the catalogue does not know any more goes: its tombstone may have gone unseen here. Disks
    /// in use stay, as the catalogue that this host knows may be older than they are.
    pub fn forget_unknown(&self, is_known: impl Fn(ObjectId) -> bool) {
        let counted = self.guests().counters().into_iter().map(|(object, _)| object);
        let measured: BTreeSet<ObjectId> = counted.chain(self.context().stages.objects()).collect();
        let in_use = |object: &ObjectId| self.front_ends(*object) > 0 || self.owned(*object).is_some();
        measured
            .into_iter()
            .filter(|object| !is_known(*object) && !in_use(object))
            .for_each(|o| self.forget_numbers(o));
    }

    fn forget_numbers(&self, object: ObjectId) {
        self.context().stages.forget(object);
        self.guests().forget(object);
    }

    /// Lets go of what is owned, without a word to anyone: the process has ended, and owned objects hold one another.
    pub fn abandon(&self) {
        let owned = std::mem::take(&mut *self.inner.owned.borrow_mut());
        drop(owned);
    }

    /// Who finds places for replacements.
    pub fn set_placer(&self, placer: Rc<dyn Placer>) {
        *self.context().placer.borrow_mut() = Some(placer);
    }

    /// Who is told what happens.
    pub fn on_event(&self, listener: Rc<dyn Fn(ObjectEvent)>) {
        *self.context().events.borrow_mut() = Some(listener);
    }

    /// Whether this host has started so lately that it may not have met all others yet.
    pub fn is_starting(&self) -> bool {
        self.context().is_starting()
    }

    /// What guests asked here since the process began, by object; deleted ones are left out.
    pub fn guest_counters(&self) -> Vec<(ObjectId, GuestCounters)> {
        self.guests().counters()
    }

    /// The same of all disks together, deleted ones among them.
    pub fn guest_counters_of_all(&self) -> GuestCounters {
        self.guests().counters_of_all()
    }

    /// What owners here did since the process began.
    pub fn owner_counters(&self) -> OwnerCounters {
        self.context().counters()
    }

    /// How long the stages of requests took here since the process began, or the disk was deleted; of one disk where it is named.
    pub fn latencies(&self, only: Option<ObjectId>) -> Vec<(ObjectId, DiskLatencies)> {
        self.context().stages.latencies(only)
    }

    /// Bytes per second that this host's resyncs copy together, or did when they last copied; none where there were none yet.
    pub fn copy_rate(&self) -> Option<u64> {
        let context = self.context();
        context.meter.get().bytes_per_s(context.env.now())
    }

    /// The options now.
    pub fn options(&self) -> ObjectOptions {
        self.context().options.borrow().clone()
    }

    /// Other options from now on.
    pub fn set_options(&self, options: ObjectOptions) {
        *self.context().options.borrow_mut() = options;
    }

    /// What clones of this host have read of their parents leaves memory.
    pub fn forget_parents(&self) {
        self.context().parents.clear();
    }

    /// A peer came or went, or leases changed: objects look again.
    pub fn wake(&self) {
        self.note_change();
        self.context().changed.notify();
    }

    /// How often something has changed that may concern any object: a peer or a disk group came, went or came to be away for long,
    /// or a device of this host failed.
    pub fn changes(&self) -> u64 {
        self.inner.changes.get()
    }

    fn note_change(&self) {
        self.inner.changes.set(self.changes() + 1);
    }

    /// One round of heartbeats, and what is to be done about what it found.
    pub fn tick(&self) {
        let round = self.context().leases.tick();
        self.doubt(&round.failed);
        if !round.failed.is_empty() {
            self.note_change();
        }
        if round.changed {
            self.wake();
        }
        let presence = Some(self.presence());
        if self.inner.presence.replace(presence.clone()) != presence {
            self.wake_in_turn();
        }
    }

    fn presence(&self) -> Presence {
        let context = self.context();
        let (here, untold_away) = context.leases.told_within(context.options.borrow().absent_after);
        let placer = context.placer.borrow().clone();
        Presence { here, untold_away, many_hosts_gone: placer.is_none_or(|placer| placer.many_hosts_gone()) }
    }

    /// Owned objects look again, few at a time; those that nobody owns are looked at as well.
    pub fn wake_in_turn(&self) {
        self.note_change();
        let owned: Vec<ObjectId> = self.inner.owned.borrow().keys().copied().collect();
        let objects = self.clone();
        self.context().env.spawn(async move {
            for (n, some) in owned.chunks(WOKEN_TOGETHER).enumerate() {
                if n > 0 {
                    objects.context().env.sleep(TOGETHER).await;
                }
                some.iter().filter_map(|object| objects.owned(*object)).for_each(|owned| owned.work.notify());
            }
        });
    }

    /// Owners with something at these seats ask for it: what is at rest may be lost there unseen.
    pub(crate) fn doubt(&self, seats: &[Seat]) {
        if seats.is_empty() {
            return;
        }
        for owned in self.all_owned() {
            let config = owned.config();
            for seat in seats.iter().filter(|seat| config.members.iter().any(|m| m.seat() == **seat)) {
                owned.doubt(*seat);
            }
        }
    }

    /// The cluster's level, as this host takes it: what older hosts do not read is asked for from its level on.
    pub fn level_is(&self, level: Level) {
        self.context().level.set(level);
    }

    /// Bytes per second that other hosts' resyncs may read or write here, beside the guests that this host serves.
    pub fn resync_allowed(&self) -> Option<u64> {
        self.context().resync_allowed()
    }

    /// Waits until work in the background may read or write `bytes` here, [`cairn_pace::PIECE_BYTES`] at most: as a resync's copy does, it
    /// yields to guests and shares with resyncs. It may until what is returned is dropped.
    pub async fn place_beside_guests(&self, bytes: u64) -> impl Drop + use<E, S> {
        let me = self.context().env.host();
        self.context().admit_copy(bytes.min(cairn_pace::PIECE_BYTES), &[me]).await
    }

    /// Whether what the seat holds is to be recorded absent though nobody misses it. When so many hosts are gone that it must be
    /// the network, nothing is.
    pub fn is_long_away(&self, seat: Seat) -> bool {
        self.context().is_long_away(seat)
    }

    /// The object, when this host owns it.
    pub fn owned(&self, object: ObjectId) -> Option<Rc<Owned<E, S>>> {
        self.inner.owned.borrow().get(&object).cloned()
    }

    /// Every object that this host owns.
    pub fn all_owned(&self) -> Vec<Rc<Owned<E, S>>> {
        self.inner.owned.borrow().values().cloned().collect()
    }

    /// Open front-end sessions of an object at this host.
    pub fn front_ends(&self, object: ObjectId) -> usize {
        self.guests().front_ends(object)
    }

    /// Seizes an object, unless it is owned here already. One seizure of an object at a time.
    ///
    /// # Errors
    /// Who is owner instead, or what is missing.
    pub async fn take_over(&self, known: &Accepted) -> Result<(), SeizeError> {
        let (inner, object) = (&self.inner, known.config.object);
        inner.seized.until(|| (!inner.seizing.borrow().contains(&object)).then_some(())).await;
        if self.owned(object).is_some() {
            return Ok(());
        }
        inner.seizing.borrow_mut().insert(object);
        let (sender, receiver) = oneshot::channel();
        let (objects, known) = (self.clone(), known.clone());
        // A task of its own: a seizure left half way would hold its claims for ever if whoever asked goes away.
        inner.context.env.spawn(async move {
            let inner = &objects.inner;
            let won: Result<Won, SeizeError> = seize(&inner.context, &known).await;
            objects.note_seizure(object, won.as_ref().err());
            let result = won.map(|won| drop(Owned::begin(&inner.context, &inner.owned, won)));
            inner.seizing.borrow_mut().remove(&object);
            inner.seized.notify();
            let _ = sender.send(result);
        });
        let stopping = SeizeError::Inaccessible("the host is stopping".into());
        receiver.await.unwrap_or(Err(stopping))
    }

    fn note_seizure(&self, object: ObjectId, failed: Option<&SeizeError>) {
        let (env, mut not_seized) = (&self.context().env, self.inner.not_seized.borrow_mut());
        let Some(why) = failed.filter(|why| **why != SeizeError::Deleted) else {
            not_seized.remove(&object);
            return;
        };
        let lease = match why {
            SeizeError::LeaseHeld { for_ms, .. } => Some(Duration::from_millis(*for_ms)),
            _ => None,
        };
        let (now, before) = ((env.now(), self.changes()), not_seized.get(&object));
        let backoff = Backoff::after(before, now, lease, env.random_u64(), why.to_string());
        not_seized.insert(object, backoff);
    }

    /// Why the object is not to be seized right now for a guest: it was tried just now, in vain, and nothing has changed since.
    pub(crate) fn seizure_waits(&self, object: ObjectId) -> Option<String> {
        let not_seized = self.inner.not_seized.borrow();
        let last = not_seized.get(&object).filter(|last| last.waits(self.context().env.now(), self.changes()));
        last.map(|last| last.why.clone())
    }

    /// Asks a disk group something that carries no data.
    pub fn ask(
        &self,
        host: HostId,
        disk_group: DiskGroupId,
        request: Request,
    ) -> LocalBoxFuture<'static, Result<(Answer, Vec<Bytes>), Refusal>> {
        self.context().request(host, disk_group, request, None)
    }

    /// Calls of this host that wait for an answer, and bytes of guests' requests in flight: none of either where nobody asks for
    /// anything.
    pub fn in_flight(&self) -> (usize, u64) {
        let context = self.context();
        (context.rpc.waiting(), context.in_flight_bytes())
    }
}
