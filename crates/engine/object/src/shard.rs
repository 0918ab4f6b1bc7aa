//! What every owned object of one shard shares: the world, the calls, the seats, the leases, the budget.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_metrics::{GuestCounters, OwnerCounters};
use cairn_pace::{Backoff, Throttle};
use cairn_types::{
    Accepted, ComponentId, DiskGroupId, Epoch, HostId, Member, ObjectConfig, ObjectId, ReplicaSetIndex, Seat, Time,
};
use cairn_wire::{Answer, Refusal, Request};
use futures::{FutureExt, channel::oneshot, future::LocalBoxFuture};

use crate::{
    forwards::Forwards,
    leases::Leases,
    local_store::LocalStore,
    owner::{Owned, SeizeError, TOGETHER, Won, seize},
    rpc::Rpc,
    seats::Seats,
    serving::Serving,
    signal::Signal,
    stages::AllStages,
    window::Window,
};

/// An answer with its payload in parts.
pub(crate) type PartsReply = Result<(Answer, Vec<Bytes>), Refusal>;

/// Times and bounds of the object layer.
#[derive(Debug, Clone)]
pub struct ObjectOptions {
    /// A component absent for longer is replaced. Default 60 min, as vSAN has it.
    pub repair_delay: Duration,
    /// A disk group of which no host has told for longer that it is open is away: what it holds is recorded absent also where
    /// nobody writes, so that the time to its repair runs. Default 30 s: a host that starts anew is back before.
    pub absent_after: Duration,
    /// How long a guest's request waits for an object that cannot be served, before it fails.
    ///
    /// 25 s: below the 30 s after which Linux guests reset a device, and well above a failover.
    pub guest_patience: Duration,
    /// How long after a start an object waits for hosts that hold its copies, before it records them absent.
    pub cold_start_grace: Duration,
    /// Guest bytes in flight per shard, at most; more wait at the front end.
    pub in_flight_bytes_max: u64,
    /// Bytes of one operation on one replica set, at most: larger guest writes are split.
    pub op_bytes_max: u32,
    /// Resync bytes per second and shard, at most; 0 is no limit beyond the closed loop.
    pub resync_bytes_per_s_max: u64,
    /// Bytes of region copies under way per shard, at most, however many objects are resynced; far fewer beside guests.
    ///
    /// 16 MiB (ADR 0012): as much is in memory here and, together, at the targets. A guest of another host waits for at most so much in a
    /// target's log (8 ms at 2 GB/s).
    pub resync_bytes_in_flight_max: u64,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self {
            repair_delay: Duration::from_secs(3600),
            absent_after: Duration::from_secs(30),
            guest_patience: Duration::from_secs(25),
            cold_start_grace: Duration::from_secs(10),
            in_flight_bytes_max: 64 << 20,
            op_bytes_max: 1 << 20,
            resync_bytes_per_s_max: 0,
            resync_bytes_in_flight_max: 16 << 20,
        }
    }
}

/// A new set of members for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberChange {
    /// All members of the new configuration.
    pub members: Vec<Member>,
    /// Those that are new.
    pub added: Vec<ComponentId>,
    /// Those that are gone.
    pub removed: Vec<ComponentId>,
}

/// Finds places for components. `node` answers from the cluster picture.
pub trait Placer {
    /// Where the replacement of `lost` goes, or why there is no place.
    fn replace(&self, config: &ObjectConfig, lost: ComponentId) -> Result<MemberChange, String>;
    /// What an object lacks of its policy, as it was made by force or its policy became stricter; none where it lacks nothing.
    fn complete(&self, config: &ObjectConfig) -> Result<Option<MemberChange>, String>;
    /// What an object needs to grow.
    fn extend(&self, config: &ObjectConfig, size_bytes: u64) -> Result<MemberChange, String>;
    /// Whether so many hosts vanished that it must be the network: then nothing is rebuilt.
    fn many_hosts_gone(&self) -> bool;
}

/// What happened, for the log and the time line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the line of each variant tells what its fields are
pub enum ObjectEvent {
    /// This host became owner.
    Owned { object: ObjectId, name: String, epoch_number: u64 },
    /// It is owner no longer.
    GivenUp { object: ObjectId, name: String, why: String },
    /// A component's state changed.
    Component { object: ObjectId, name: String, component: ComponentId, host: HostId, now: String },
    /// A resync ended.
    Resynced { object: ObjectId, name: String, component: ComponentId, bytes: u64 },
    /// All else is copied to a component that is being filled, and these blocks of its replica set no copy in sync can give: it waits
    /// until they are written, or a copy that has them is in sync. The first of them counts within the set.
    ResyncWaits {
        object: ObjectId,
        name: String,
        component: ComponentId,
        set: ReplicaSetIndex,
        first_block: u64,
        blocks: u64,
    },
    /// A request was repeated that had been carried out before: its guest was answered, and nothing was done again.
    DoneBefore { object: ObjectId },
    /// A message of this host arrived with other blocks than it sent; it counts as lost.
    ArrivedChanged { from: HostId },
    /// Blocks that no copy could give: the guest gets an error. Once for each block.
    Unreadable { object: ObjectId, name: String, blocks: u64, copies: Vec<(HostId, DiskGroupId)> },
    /// A bad block was repaired from a good copy.
    Repaired { object: ObjectId, component: ComponentId, blocks: u32 },
}

type OnEvent = Rc<dyn Fn(ObjectEvent)>;

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

/// The object layer of one shard. Cheap to clone.
pub struct Shard<E: Env, S: LocalStore> {
    pub(crate) inner: Rc<ShardInner<E, S>>,
}

pub(crate) struct ShardInner<E: Env, S: LocalStore> {
    pub(crate) env: E,
    /// When this shard began.
    pub(crate) started: Time,
    pub(crate) rpc: Rpc<E>,
    pub(crate) seats: Seats<E, S>,
    pub(crate) leases: Leases<E>,
    pub(crate) serving: Serving,
    pub(crate) options: RefCell<ObjectOptions>,
    pub(crate) owned: RefCell<BTreeMap<ObjectId, Rc<Owned<E, S>>>>,
    pub(crate) placer: RefCell<Option<Rc<dyn Placer>>>,
    pub(crate) events: RefCell<Option<OnEvent>>,
    /// Something changed that objects wait for: a peer came or went, a lease was renewed.
    pub(crate) changed: Signal,
    /// How often it did, or what this shard's disk groups hold.
    changes: Cell<u64>,
    presence: RefCell<Option<Presence>>,
    pub(crate) in_flight_bytes: Cell<u64>,
    pub(crate) in_flight_less: Signal,
    pub(crate) throttle: RefCell<Throttle>,
    /// Region copies under way.
    pub(crate) copies: Rc<Window>,
    pub(crate) forwards: Forwards,
    /// Open front-end sessions of this shard, by object.
    pub(crate) front_ends: RefCell<BTreeMap<ObjectId, usize>>,
    /// What guests asked here, by object, since the shard began; of disks that are not deleted.
    pub(crate) guests: RefCell<BTreeMap<ObjectId, Rc<Cell<GuestCounters>>>>,
    /// What guests asked of disks that are deleted, all together: the host's sum must not fall.
    guests_of_deleted: Cell<GuestCounters>,
    /// How long the stages of requests took here, of disks that had any and are not deleted.
    pub(crate) stages: AllStages,
    /// What owners here did since the shard began.
    counted: Cell<OwnerCounters>,
    /// Objects that this shard is seizing just now; others wait for the outcome.
    pub(crate) seizing: RefCell<BTreeSet<ObjectId>>,
    /// Those that it could not seize lately, until it can.
    not_seized: RefCell<BTreeMap<ObjectId, Backoff>>,
    /// A seizure came to its end. Not `changed`: whoever failed and waits to try again must not wake the others to
    /// do the same, for ever.
    pub(crate) seized: Signal,
    /// The highest epoch number known of an object, those that this process has burnt included.
    epochs: RefCell<BTreeMap<ObjectId, u64>>,
}

impl<E: Env, S: LocalStore> Clone for Shard<E, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E: Env, S: LocalStore> Shard<E, S> {
    /// The object layer over these seats.
    pub fn new(env: E, rpc: Rpc<E>, seats: Seats<E, S>, leases: Leases<E>, options: ObjectOptions) -> Self {
        Self {
            inner: Rc::new(ShardInner {
                started: env.now(),
                env,
                rpc,
                seats,
                leases,
                serving: Serving::default(),
                options: RefCell::new(options),
                owned: RefCell::default(),
                placer: RefCell::default(),
                events: RefCell::default(),
                changed: Signal::default(),
                changes: Cell::default(),
                presence: RefCell::default(),
                in_flight_bytes: Cell::new(0),
                in_flight_less: Signal::default(),
                throttle: RefCell::default(),
                copies: Rc::default(),
                forwards: Forwards::default(),
                front_ends: RefCell::default(),
                guests: RefCell::default(),
                guests_of_deleted: Cell::default(),
                stages: AllStages::default(),
                counted: Cell::default(),
                seizing: RefCell::default(),
                not_seized: RefCell::default(),
                seized: Signal::default(),
                epochs: RefCell::default(),
            }),
        }
    }

    /// Ends an ownership that has outlived its object: the catalogue has a tombstone, so a majority has seen it deleted, and an
    /// owner without guests asks nobody whether it still is one.
    pub fn end_deleted(&self, object: ObjectId) {
        self.forget_numbers(object);
        if let Some(owned) = self.owned(object) {
            owned.finish_owner(crate::owner::Ended::Deleted);
        }
    }

    /// What was measured of disks that the catalogue does not know any more goes: its tombstone may have gone unseen here. Disks
    /// in use stay, as the catalogue that this host knows may be older than they are.
    pub fn forget_unknown(&self, is_known: impl Fn(ObjectId) -> bool) {
        let inner = &self.inner;
        let measured: BTreeSet<ObjectId> =
            inner.guests.borrow().keys().chain(inner.stages.borrow().keys()).copied().collect();
        let in_use =
            |object: &ObjectId| inner.front_ends.borrow().contains_key(object) || self.owned(*object).is_some();
        measured
            .into_iter()
            .filter(|object| !is_known(*object) && !in_use(object))
            .for_each(|o| self.forget_numbers(o));
    }

    fn forget_numbers(&self, object: ObjectId) {
        self.inner.stages.borrow_mut().remove(&object);
        if let Some(counted) = self.inner.guests.borrow_mut().remove(&object) {
            let deleted = &self.inner.guests_of_deleted;
            deleted.set(deleted.get().plus(&counted.get()));
        }
    }

    /// Lets go of what is owned, without a word to anyone: the process has ended, and owned objects hold their shard.
    pub fn abandon(&self) {
        let owned = std::mem::take(&mut *self.inner.owned.borrow_mut());
        drop(owned);
    }

    /// Who finds places for replacements.
    pub fn set_placer(&self, placer: Rc<dyn Placer>) {
        *self.inner.placer.borrow_mut() = Some(placer);
    }

    /// Who is told what happens.
    pub fn on_event(&self, listener: Rc<dyn Fn(ObjectEvent)>) {
        *self.inner.events.borrow_mut() = Some(listener);
    }

    pub(crate) fn tell(&self, event: ObjectEvent) {
        let listener = self.inner.events.borrow().clone();
        if let Some(listener) = listener {
            listener(event);
        }
    }

    /// Whether this host has started so lately that it may not have met all others yet.
    pub fn is_starting(&self) -> bool {
        let inner = &self.inner;
        inner.env.now().since(inner.started) < inner.options.borrow().cold_start_grace
    }

    /// What guests asked here since the shard began, by object; deleted ones are left out.
    pub fn guest_counters(&self) -> Vec<(ObjectId, GuestCounters)> {
        self.inner.guests.borrow().iter().map(|(object, counted)| (*object, counted.get())).collect()
    }

    /// The same of all disks together, deleted ones among them.
    pub fn guest_counters_of_all(&self) -> GuestCounters {
        let disks = self.inner.guests.borrow();
        disks.values().fold(self.inner.guests_of_deleted.get(), |sum, counted| sum.plus(&counted.get()))
    }

    /// What owners here did since the shard began.
    pub fn owner_counters(&self) -> OwnerCounters {
        self.inner.counted.get()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut OwnerCounters)) {
        let mut counted = self.inner.counted.get();
        change(&mut counted);
        self.inner.counted.set(counted);
    }

    /// The options now.
    pub fn options(&self) -> ObjectOptions {
        self.inner.options.borrow().clone()
    }

    /// Other options from now on.
    pub fn set_options(&self, options: ObjectOptions) {
        *self.inner.options.borrow_mut() = options;
    }

    /// A peer came or went, or leases changed: objects look again.
    pub fn wake(&self) {
        self.note_change();
        self.inner.changed.notify();
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
        let round = self.inner.leases.tick();
        self.doubt(&round.failed);
        if !round.failed.is_empty() {
            self.note_change();
        }
        if round.changed {
            self.wake();
        }
        let presence = Some(self.presence());
        if self.inner.presence.replace(presence.clone()) != presence {
            self.note_change();
            self.wake_in_turn();
        }
    }

    fn presence(&self) -> Presence {
        let inner = &self.inner;
        let (here, untold_away) = inner.leases.told_within(inner.options.borrow().absent_after);
        let placer = inner.placer.borrow().clone();
        Presence { here, untold_away, many_hosts_gone: placer.is_none_or(|placer| placer.many_hosts_gone()) }
    }

    /// Owned objects look again, few at a time.
    fn wake_in_turn(&self) {
        let owned: Vec<ObjectId> = self.inner.owned.borrow().keys().copied().collect();
        let shard = self.clone();
        self.inner.env.spawn(async move {
            for (n, some) in owned.chunks(WOKEN_TOGETHER).enumerate() {
                if n > 0 {
                    shard.inner.env.sleep(TOGETHER).await;
                }
                some.iter().filter_map(|object| shard.owned(*object)).for_each(|owned| owned.work.notify());
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

    /// Whether what the seat holds is to be recorded absent though nobody misses it. When so many hosts are gone that it must be
    /// the network, nothing is.
    pub fn is_long_away(&self, seat: Seat) -> bool {
        let inner = &self.inner;
        let long = inner.leases.away_for(seat) > inner.options.borrow().absent_after;
        long && inner.placer.borrow().as_ref().is_some_and(|placer| !placer.many_hosts_gone())
    }

    /// The object, when this shard owns it.
    pub fn owned(&self, object: ObjectId) -> Option<Rc<Owned<E, S>>> {
        self.inner.owned.borrow().get(&object).cloned()
    }

    /// Every object that this shard owns.
    pub fn all_owned(&self) -> Vec<Rc<Owned<E, S>>> {
        self.inner.owned.borrow().values().cloned().collect()
    }

    /// Open front-end sessions of an object on this shard.
    pub fn front_ends(&self, object: ObjectId) -> usize {
        self.inner.front_ends.borrow().get(&object).copied().unwrap_or(0)
    }

    /// An epoch number was heard of.
    pub(crate) fn note_epoch(&self, object: ObjectId, number: u64) {
        let mut epochs = self.inner.epochs.borrow_mut();
        let known = epochs.entry(object).or_default();
        *known = number.max(*known);
    }

    /// An epoch of this process above every one known; never the same twice.
    pub(crate) fn next_epoch(&self, object: ObjectId) -> Epoch {
        let env = &self.inner.env;
        let number = self.inner.epochs.borrow().get(&object).copied().unwrap_or(0);
        let epoch = cairn_record::next_epoch(Epoch { number, ..Epoch::default() }, env.host(), env.incarnation());
        self.note_epoch(object, epoch.number);
        epoch
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
        let (shard, known) = (self.clone(), known.clone());
        // A task of its own: a seizure left half way would hold its claims for ever if whoever asked goes away.
        inner.env.spawn(async move {
            let won: Result<Won, SeizeError> = seize(&shard, &known).await;
            shard.note_seizure(object, won.as_ref().err());
            let result = won.map(|won| drop(Owned::begin(&shard, won)));
            shard.inner.seizing.borrow_mut().remove(&object);
            shard.inner.seized.notify();
            let _ = sender.send(result);
        });
        let stopping = SeizeError::Inaccessible("the host is stopping".into());
        receiver.await.unwrap_or(Err(stopping))
    }

    fn note_seizure(&self, object: ObjectId, failed: Option<&SeizeError>) {
        let (env, mut not_seized) = (&self.inner.env, self.inner.not_seized.borrow_mut());
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
        let last = not_seized.get(&object).filter(|last| last.waits(self.inner.env.now(), self.changes()));
        last.map(|last| last.why.clone())
    }

    /// Bytes of a record that every disk group here takes; no bound where there is none.
    pub(crate) fn record_bytes_max(&self) -> usize {
        let each = self.inner.seats.stores().into_iter().map(|store| store.record_bytes_max());
        each.min().unwrap_or(usize::MAX)
    }

    /// Sends a request to a disk group; in this shard by a plain call. Sent before this returns.
    pub(crate) fn request(
        &self,
        host: HostId,
        disk_group: DiskGroupId,
        request: Request,
        payload: Option<Bytes>,
    ) -> LocalBoxFuture<'static, PartsReply> {
        let inner = &self.inner;
        if host == inner.env.host() && inner.seats.has(disk_group) {
            return inner.seats.serve(host, inner.env.incarnation(), request, payload.unwrap_or_default());
        }
        let payload = payload.map(|p| vec![p]).unwrap_or_default();
        inner
            .rpc
            .call(host, request, payload)
            .map(|reply| reply.map(|(answer, payload)| (answer, vec![payload])))
            .boxed_local()
    }

    /// Asks a disk group something that carries no data.
    pub fn ask(
        &self,
        host: HostId,
        disk_group: DiskGroupId,
        request: Request,
    ) -> LocalBoxFuture<'static, Result<(Answer, Vec<Bytes>), Refusal>> {
        self.request(host, disk_group, request, None)
    }

    /// Calls of this host that wait for an answer, and bytes of guests' requests in flight: none of either where nobody asks for
    /// anything.
    pub fn in_flight(&self) -> (usize, u64) {
        (self.inner.rpc.waiting(), self.inner.in_flight_bytes.get())
    }

    /// Waits until `bytes` more guest bytes may be in flight.
    pub(crate) async fn admit(&self, bytes: u64) -> InFlight<E, S> {
        let max = self.inner.options.borrow().in_flight_bytes_max;
        let inner = &self.inner;
        inner
            .in_flight_less
            .until(|| {
                let now = inner.in_flight_bytes.get();
                // One request larger than the bound still passes, alone.
                (now == 0 || now + bytes <= max).then(|| inner.in_flight_bytes.set(now + bytes))
            })
            .await;
        InFlight { shard: self.clone(), bytes }
    }
}

/// Guest bytes in flight; dropping it lets others in.
pub(crate) struct InFlight<E: Env, S: LocalStore> {
    shard: Shard<E, S>,
    bytes: u64,
}

impl<E: Env, S: LocalStore> Drop for InFlight<E, S> {
    fn drop(&mut self) {
        let inner = &self.shard.inner;
        inner.in_flight_bytes.set(inner.in_flight_bytes.get() - self.bytes);
        inner.in_flight_less.notify();
    }
}
