//! What every owned object of one host uses: the world, calls, seats, leases, and the budgets that all of them share.
//!
//! Promises    guest bytes in flight stay within `in_flight_bytes_max`, or are one request's                  (memory)
//!             no epoch of an object is given twice by this process, nor one below an epoch that it has heard of
//! Not here    which objects are owned, and what makes an owner (`objects`): an owner needs neither

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_metrics::OwnerCounters;
use cairn_pace::{CopyMeter, Lanes, Throttle};
use cairn_types::{DiskGroupId, Epoch, HostId, Level, ObjectId, Seat, Time};
use cairn_wire::{Answer, Refusal, Request};
use futures::{FutureExt, future::LocalBoxFuture};

use crate::{
    event::ObjectEvent, leases::Leases, local_store::LocalStore, options::ObjectOptions, placer::Placer, rpc::Rpc,
    seats::Seats, signal::Signal, stages::AllStages, window::Window,
};

/// An answer with its payload in parts.
pub(crate) type PartsReply = Result<(Answer, Vec<Bytes>), Refusal>;

/// Who is told what happens.
pub(crate) type OnEvent = Rc<dyn Fn(ObjectEvent)>;

/// What owners share. One of a host, held by all of them.
pub(crate) struct Context<E: Env, S: LocalStore> {
    pub(crate) env: E,
    /// When this process began.
    started: Time,
    pub(crate) rpc: Rpc<E>,
    pub(crate) seats: Seats<E, S>,
    pub(crate) leases: Leases<E>,
    pub(crate) options: RefCell<ObjectOptions>,
    /// What may be asked of other hosts.
    pub(crate) level: Cell<Level>,
    pub(crate) placer: RefCell<Option<Rc<dyn Placer>>>,
    pub(crate) events: RefCell<Option<OnEvent>>,
    /// Something changed that objects wait for: a peer came or went, a lease was renewed.
    pub(crate) changed: Signal,
    in_flight_bytes: Cell<u64>,
    in_flight_less: Signal,
    pub(crate) throttle: RefCell<Throttle>,
    /// The same for what this host's seats do for owners of other hosts.
    pub(crate) seats_throttle: RefCell<Throttle>,
    /// Copies from and to other hosts.
    pub(crate) lanes: RefCell<Lanes>,
    /// Objects of this host with a component that is being moved.
    pub(crate) moving: RefCell<BTreeSet<ObjectId>>,
    /// How fast this host's resyncs copy.
    pub(crate) meter: Cell<CopyMeter>,
    /// Region copies under way.
    pub(crate) copies: Rc<Window>,
    /// How long the stages of requests took here, of disks that had any and are not deleted.
    pub(crate) stages: AllStages,
    /// What owners here did since the process began.
    counted: Cell<OwnerCounters>,
    /// The highest epoch number known of an object, those that this process has burnt included.
    epochs: RefCell<BTreeMap<ObjectId, u64>>,
}

impl<E: Env, S: LocalStore> Context<E, S> {
    pub(crate) fn new(env: E, rpc: Rpc<E>, seats: Seats<E, S>, leases: Leases<E>, options: ObjectOptions) -> Rc<Self> {
        Rc::new(Self {
            started: env.now(),
            env,
            rpc,
            seats,
            leases,
            options: RefCell::new(options),
            level: Cell::new(Level::FIRST),
            placer: RefCell::default(),
            events: RefCell::default(),
            changed: Signal::default(),
            in_flight_bytes: Cell::new(0),
            in_flight_less: Signal::default(),
            throttle: RefCell::default(),
            seats_throttle: RefCell::default(),
            lanes: RefCell::default(),
            moving: RefCell::default(),
            meter: Cell::default(),
            copies: Rc::default(),
            stages: AllStages::default(),
            counted: Cell::default(),
            epochs: RefCell::default(),
        })
    }

    /// Has the meter of copies take something in.
    pub(crate) fn metered(&self, take: impl FnOnce(&mut CopyMeter, Time)) {
        let mut meter = self.meter.get();
        take(&mut meter, self.env.now());
        self.meter.set(meter);
    }

    pub(crate) fn tell(&self, event: ObjectEvent) {
        let listener = self.events.borrow().clone();
        if let Some(listener) = listener {
            listener(event);
        }
    }

    /// A message of this host had other blocks than it sent.
    pub(crate) fn tell_changed(&self, from: HostId) {
        self.tell(ObjectEvent::ArrivedChanged { from });
    }

    /// Whether this host has started so lately that it may not have met all others yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.env.now().since(self.started) < self.options.borrow().cold_start_grace
    }

    /// Whether the host was forgotten: nobody waits for it.
    pub(crate) fn is_forgotten(&self, host: HostId) -> bool {
        self.placer.borrow().as_ref().is_some_and(|placer| placer.is_forgotten(host))
    }

    /// The time of the day in milliseconds since 1970, as most hosts have it; none: nobody knows it just now.
    pub(crate) fn day_unix_ms(&self) -> Option<u64> {
        let placer = self.placer.borrow().clone();
        placer.map_or_else(|| Some(self.env.unix_ms()), |placer| placer.day_unix_ms())
    }

    /// Whether what the seat holds is to be recorded absent though nobody misses it. When so many hosts are gone that it must be
    /// the network, nothing is, but for what an administrator has forgotten.
    pub(crate) fn is_long_away(&self, seat: Seat) -> bool {
        if self.is_forgotten(seat.host) {
            return true;
        }
        let long = self.leases.away_for(seat) > self.options.borrow().absent_after;
        long && self.placer.borrow().as_ref().is_some_and(|placer| !placer.many_hosts_gone())
    }

    /// What owners here did since the process began.
    pub(crate) fn counters(&self) -> OwnerCounters {
        self.counted.get()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut OwnerCounters)) {
        let mut counted = self.counted.get();
        change(&mut counted);
        self.counted.set(counted);
    }

    /// An epoch number was heard of.
    pub(crate) fn note_epoch(&self, object: ObjectId, number: u64) {
        let mut epochs = self.epochs.borrow_mut();
        let known = epochs.entry(object).or_default();
        *known = number.max(*known);
    }

    /// An epoch of this process above every one known; never the same twice.
    pub(crate) fn next_epoch(&self, object: ObjectId) -> Epoch {
        let number = self.epochs.borrow().get(&object).copied().unwrap_or(0);
        let known = Epoch { number, ..Epoch::default() };
        let epoch = cairn_record::next_epoch(known, self.env.host(), self.env.incarnation());
        self.note_epoch(object, epoch.number);
        epoch
    }

    /// Bytes of a record that every disk group here takes; no bound where there is none.
    pub(crate) fn record_bytes_max(&self) -> usize {
        let each = self.seats.stores().into_iter().map(|store| store.record_bytes_max());
        each.min().unwrap_or(usize::MAX)
    }

    /// Sends a request to a disk group; of this host by a plain call. Sent before this returns.
    pub(crate) fn request(
        &self,
        host: HostId,
        disk_group: DiskGroupId,
        request: Request,
        payload: Option<Bytes>,
    ) -> LocalBoxFuture<'static, PartsReply> {
        if host == self.env.host() && self.seats.has(disk_group) {
            return self.seats.serve(host, self.env.incarnation(), request, payload.unwrap_or_default());
        }
        let payload = payload.map(|p| vec![p]).unwrap_or_default();
        self.rpc
            .call(host, request, payload)
            .map(|reply| reply.map(|(answer, payload)| (answer, vec![payload])))
            .boxed_local()
    }

    /// Bytes of guests' requests in flight.
    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes.get()
    }

    /// Waits until `bytes` more guest bytes may be in flight.
    pub(crate) async fn admit(self: &Rc<Self>, bytes: u64) -> InFlight<E, S> {
        let max = self.options.borrow().in_flight_bytes_max;
        self.in_flight_less
            .until(|| {
                let now = self.in_flight_bytes.get();
                // One request larger than the bound still passes, alone.
                (now == 0 || now + bytes <= max).then(|| self.in_flight_bytes.set(now + bytes))
            })
            .await;
        InFlight { context: self.clone(), bytes }
    }
}

/// Guest bytes in flight; dropping it lets others in.
pub(crate) struct InFlight<E: Env, S: LocalStore> {
    context: Rc<Context<E, S>>,
    bytes: u64,
}

impl<E: Env, S: LocalStore> Drop for InFlight<E, S> {
    fn drop(&mut self) {
        let context = &self.context;
        context.in_flight_bytes.set(context.in_flight_bytes.get() - self.bytes);
        context.in_flight_less.notify();
    }
}
