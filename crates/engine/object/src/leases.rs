//! Leases of one host: heartbeats sent and answered; the arithmetic is `record`'s.
//!
//! Promises    L1  a heartbeat is answered at once, by the thread that grants: a wedged thread grants nothing
//!             L2  a peer that does not answer for three quarters of a lease counts as down, whatever its connection says; only time
//!                 counts in which this process ran, as nobody is heard by one that stands still
//!             L3  whoever asks first after this process stood still for as long as that is told so
//!             L4  how long no connected host has told a disk group open is known of each; while this process stood still, or
//!                 before it began, nobody was away

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::Duration,
};

use cairn_env::Env;
use cairn_record::{Grants, PeerLeases, PendingConfirm};
use cairn_types::{DiskGroupId, Epoch, HostId, Incarnation, ObjectConfig, ObjectId, Seat, SeatRecord, Time};
use cairn_wire::{Facts, Heartbeat, HeartbeatAnswer, HostSummary, Message, SeizeAnswer};

use crate::rpc::Rpc;

/// Times of leases; equal on all hosts of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseOptions {
    /// How long a silent owner holds its objects. Default 2 s.
    pub lease: Duration,
    /// How often peers are asked. Default 500 ms: four tries in a lease.
    pub heartbeat: Duration,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self { lease: Duration::from_secs(2), heartbeat: Duration::from_millis(500) }
    }
}

/// A peer whose connection is up.
#[derive(Debug, Clone, Copy)]
struct Connected {
    incarnation: Incarnation,
    heard: Time,
    silent: bool,
}

/// What a peer told of itself last.
#[derive(Debug, Clone, Default)]
pub struct PeerState {
    /// Its disk groups.
    pub summary: HostSummary,
    /// Its process.
    pub incarnation: Incarnation,
    /// When it told that, by this host's running clock.
    pub told_at: Time,
}

impl PeerState {
    /// What its clock of the day shows by now, in milliseconds since 1970, if nobody has set it since. This host's own clock of the day has no part in it.
    pub fn unix_ms(&self, now: Time) -> u64 {
        self.summary.unix_ms.saturating_add(now.since(self.told_at).as_millis() as u64)
    }
}

/// What a host that answers told of one of its disk groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupTold {
    /// It has none of that id open.
    Closed,
    /// It is open and takes no writes.
    Stopped,
    /// It is open.
    Works,
}

/// What was told of a disk group last.
#[derive(Debug, Clone, Copy, Default)]
struct HeardOf {
    /// When it was told open and able to write.
    open_at: Time,
    open_count: u64,
    failed_devices: u32,
}

/// What a round of heartbeats found.
pub(crate) struct Round {
    /// A peer fell silent, or there is something to confirm here.
    pub(crate) changed: bool,
    /// Disk groups of this host of which a device has failed since the last round.
    pub(crate) failed: Vec<Seat>,
}

/// Positions of a peer's disk groups as last heard: (open count, durable position).
type Remembered = BTreeMap<DiskGroupId, (u64, u64)>;
/// What this host tells of itself, taken anew for each round of heartbeats.
type Summarise = Rc<dyn Fn() -> HostSummary>;
/// Hears of a position of one of this host's disk groups that a peer remembers.
type OnRemembered = Rc<dyn Fn(DiskGroupId, u64, u64)>;

/// The leases of one host. Cheap to clone.
pub struct Leases<E: Env> {
    inner: Rc<Inner<E>>,
}

struct Inner<E: Env> {
    env: E,
    rpc: Rpc<E>,
    options: LeaseOptions,
    /// What heartbeats carry beside the summary; none while hosts may not read it.
    facts: RefCell<Facts>,
    grants: RefCell<Grants>,
    held: RefCell<PeerLeases>,
    connected: RefCell<BTreeMap<HostId, Connected>>,
    peers: RefCell<BTreeMap<HostId, PeerState>>,
    remembered: RefCell<BTreeMap<HostId, Remembered>>,
    /// Processes that know what is remembered of them.
    told: RefCell<BTreeMap<HostId, Incarnation>>,
    groups: RefCell<BTreeMap<Seat, HeardOf>>,
    /// When this process began, or went on after it had stood still: before that nobody was away.
    listens_since: Cell<Time>,
    summarise: RefCell<Option<Summarise>>,
    on_remembered: RefCell<Option<OnRemembered>>,
    /// When the last round of heartbeats went out.
    ticked: Cell<Time>,
    standstills: Cell<u64>,
}

impl<E: Env> Clone for Leases<E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E: Env> Leases<E> {
    /// Nothing is held and nothing granted.
    pub fn new(env: E, rpc: Rpc<E>, options: LeaseOptions) -> Self {
        let grants = Grants::new(env.now(), options.lease, env.random_u64());
        Self {
            inner: Rc::new(Inner {
                grants: RefCell::new(grants),
                held: RefCell::new(PeerLeases::new(options.lease, rpc.first_number())),
                connected: RefCell::default(),
                peers: RefCell::default(),
                remembered: RefCell::default(),
                told: RefCell::default(),
                groups: RefCell::default(),
                facts: RefCell::default(),
                listens_since: Cell::new(env.now()),
                summarise: RefCell::default(),
                on_remembered: RefCell::default(),
                ticked: Cell::new(env.now()),
                standstills: Cell::new(0),
                env,
                rpc,
                options,
            }),
        }
    }

    /// What this host tells with each heartbeat, and who hears what peers remember of its disk groups.
    pub fn set_host(&self, summarise: Summarise, on_remembered: Rc<dyn Fn(DiskGroupId, u64, u64)>) {
        *self.inner.summarise.borrow_mut() = Some(summarise);
        *self.inner.on_remembered.borrow_mut() = Some(on_remembered);
    }

    /// From now on heartbeats carry these facts, in the form with them.
    pub fn set_facts(&self, facts: Facts) {
        self.inner.facts.replace(facts);
    }

    /// The length of a lease.
    pub fn lease(&self) -> Duration {
        self.inner.options.lease
    }

    /// How often this process was seen to stand still (stopped, swapped out, its machine paused) for so long that its peers
    /// may have gone on without it. Known to the first that asks afterwards, before anything else is done.
    ///
    /// Three quarters of a lease, like a silent peer's: no lease that was granted on the last round has run out by then.
    pub fn standstills(&self) -> u64 {
        let inner = &self.inner;
        let now = inner.env.now();
        if now.since(inner.ticked.get()) > inner.options.lease * 3 / 4 {
            self.forgive_silence(now);
            inner.ticked.set(now);
            inner.listens_since.set(now);
            inner.standstills.set(inner.standstills.get() + 1);
        }
        inner.standstills.get()
    }

    /// Takes the time in which this process sent no heartbeats from the silence of its peers: an owner that was paused would record copies
    /// absent that it has not asked since, and one of them may soon be the only good one.
    fn forgive_silence(&self, now: Time) {
        let inner = &self.inner;
        let stood_still = now.since(inner.ticked.get()).saturating_sub(inner.options.heartbeat);
        for peer in inner.connected.borrow_mut().values_mut() {
            peer.heard = (peer.heard + stood_still).min(now);
        }
    }

    /// How often to call [`Self::tick`].
    pub fn heartbeat_every(&self) -> Duration {
        self.inner.options.heartbeat
    }

    /// What peers told of themselves last.
    pub fn peers(&self) -> BTreeMap<HostId, PeerState> {
        self.inner.peers.borrow().clone()
    }

    /// What the process that is connected told of a disk group; none while it has told nothing yet.
    pub fn told_of(&self, seat: Seat) -> Option<GroupTold> {
        let incarnation = self.inner.connected.borrow().get(&seat.host)?.incarnation;
        let peers = self.inner.peers.borrow();
        let told = peers.get(&seat.host).filter(|peer| peer.incarnation == incarnation)?;
        let group = told.summary.disk_groups.iter().find(|group| group.disk_group == seat.disk_group);
        Some(group.map_or(GroupTold::Closed, |group| match group.healthy {
            true => GroupTold::Works,
            false => GroupTold::Stopped,
        }))
    }

    /// Bytes per second that a peer lets resyncs read or write there, as it told last; none is no bound.
    pub(crate) fn resync_allowed(&self, host: HostId) -> Option<u64> {
        self.inner.peers.borrow().get(&host).and_then(|peer| peer.summary.resync_bytes_per_s_max)
    }

    /// A connection came up: it counts at once, and is asked for a session at once.
    pub fn on_peer_up(&self, host: HostId, incarnation: Incarnation) {
        let connected = Connected { incarnation, heard: self.inner.env.now(), silent: false };
        self.inner.connected.borrow_mut().insert(host, connected);
        self.inner.rpc.on_peer_up(host, incarnation);
        self.send_heartbeat(host, &self.summary());
    }

    /// A connection ended.
    pub fn on_peer_down(&self, host: HostId) {
        self.inner.connected.borrow_mut().remove(&host);
        self.inner.rpc.on_peer_down(host);
    }

    fn summary(&self) -> HostSummary {
        let summarise = self.inner.summarise.borrow().clone();
        summarise.map(|s| s()).unwrap_or_default()
    }

    /// Whether the host has told of itself since this process began.
    pub(crate) fn was_met(&self, host: HostId) -> bool {
        self.inner.peers.borrow().contains_key(&host)
    }

    /// For how long no connected host has told that it has this disk group open and able to write.
    pub(crate) fn away_for(&self, seat: Seat) -> Duration {
        self.standstills();
        let inner = &self.inner;
        let heard = inner.groups.borrow().get(&seat).map_or(Time::default(), |group| group.open_at);
        inner.env.now().since(heard.max(inner.listens_since.get()))
    }

    /// The disk groups that were told open within this time, and whether those that were never told are away for longer.
    pub(crate) fn told_within(&self, within: Duration) -> (Vec<Seat>, bool) {
        let inner = &self.inner;
        let is_away = |heard: Time| inner.env.now().since(heard.max(inner.listens_since.get())) > within;
        let groups = inner.groups.borrow();
        let told = groups.iter().filter(|(_, group)| !is_away(group.open_at)).map(|(seat, _)| *seat);
        (told.collect(), is_away(Time::default()))
    }

    /// Returns the disk groups of which a device has failed since they were told of last.
    fn heard_of(&self, host: HostId, summary: &HostSummary) -> Vec<Seat> {
        let (now, mut groups) = (self.inner.env.now(), self.inner.groups.borrow_mut());
        let mut failed = Vec::new();
        for told in &summary.disk_groups {
            let seat = Seat { host, disk_group: told.disk_group };
            let group = groups.entry(seat).or_default();
            if told.healthy {
                group.open_at = now;
            }
            let known = if group.open_count == told.open_count { group.failed_devices } else { 0 };
            (group.open_count, group.failed_devices) = (told.open_count, told.failed_devices);
            if told.failed_devices > known {
                failed.push(seat);
            }
        }
        failed
    }

    /// One round of heartbeats, this host's own seats included.
    pub(crate) fn tick(&self) -> Round {
        let inner = &self.inner;
        self.standstills();
        let now = inner.env.now();
        self.forgive_silence(now);
        let summary = self.summary();
        let failed = self.heard_of(inner.env.host(), &summary);
        let mut changed = self.heartbeat_to_self();
        inner.ticked.set(now);
        let silence = inner.options.lease * 3 / 4;
        let peers: Vec<(HostId, Connected)> = inner.connected.borrow().iter().map(|(h, c)| (*h, *c)).collect();
        for (host, peer) in peers {
            if !peer.silent && now.since(peer.heard) > silence {
                if let Some(c) = inner.connected.borrow_mut().get_mut(&host) {
                    c.silent = true;
                }
                inner.rpc.on_peer_down(host);
                changed = true;
            }
            self.send_heartbeat(host, &summary);
        }
        inner.rpc.sweep();
        Round { changed, failed }
    }

    /// Tells every connected host of this one now, and not with the next round: what it has is used as soon as it is there.
    pub fn tell(&self) {
        let (summary, connected) = (self.summary(), self.inner.connected.borrow().keys().copied().collect::<Vec<_>>());
        connected.into_iter().for_each(|host| self.send_heartbeat(host, &summary));
    }

    /// A host asks itself like anyone else: one way for all seats.
    fn heartbeat_to_self(&self) -> bool {
        let inner = &self.inner;
        let (me, now) = ((inner.env.host(), inner.env.incarnation()), inner.env.now());
        let (number, session, owned) = inner.held.borrow_mut().heartbeat(me.0, now);
        let heartbeat = Heartbeat { number, session, remembered: Vec::new(), summary: HostSummary::default(), owned };
        let Some(session) = inner.grants.borrow_mut().on_heartbeat(me, &heartbeat, now) else { return false };
        let answer = HeartbeatAnswer { number, session, grantor: me };
        inner.held.borrow_mut().on_heartbeat_answer(me.0, &answer)
    }

    fn send_heartbeat(&self, host: HostId, summary: &HostSummary) {
        let inner = &self.inner;
        let (number, session, owned) = inner.held.borrow_mut().heartbeat(host, inner.env.now());
        let remembered =
            inner.remembered.borrow().get(&host).map(|r| r.iter().map(|(dg, (c, p))| (*dg, *c, *p)).collect());
        let remembered = remembered.unwrap_or_default();
        let heartbeat = Heartbeat { number, session, remembered, summary: summary.clone(), owned };
        let facts = inner.facts.borrow().clone();
        let message = match facts.is_empty() {
            true => Message::Heartbeat(heartbeat),
            false => Message::HeartbeatWith(heartbeat, facts),
        };
        inner.rpc.send(host, &message, Vec::new());
    }

    /// True: it had been silent.
    fn heard(&self, host: HostId, incarnation: Incarnation) -> bool {
        let mut connected = self.inner.connected.borrow_mut();
        let Some(peer) = connected.get_mut(&host).filter(|p| p.incarnation == incarnation) else {
            return false;
        };
        peer.heard = self.inner.env.now();
        let came_back = std::mem::take(&mut peer.silent);
        drop(connected);
        if came_back {
            self.inner.rpc.on_peer_up(host, incarnation);
        }
        came_back
    }

    /// A peer's heartbeat: answered at once. Returns its disk groups of which a device has failed since the last.
    pub(crate) fn on_heartbeat(&self, from: HostId, incarnation: Incarnation, heartbeat: Heartbeat) -> Vec<Seat> {
        let inner = &self.inner;
        let session = inner.grants.borrow_mut().on_heartbeat((from, incarnation), &heartbeat, inner.env.now());
        if let Some(session) = session {
            let grantor = (inner.env.host(), inner.env.incarnation());
            let answer = HeartbeatAnswer { number: heartbeat.number, session, grantor };
            inner.rpc.send(from, &Message::HeartbeatAnswer(answer), Vec::new());
        }
        let listener = inner.on_remembered.borrow().clone();
        if let Some(listener) = listener {
            for (disk_group, count, position) in heartbeat.remembered {
                listener(disk_group, count, position);
            }
        }
        let told = inner.told.borrow().get(&from) == Some(&incarnation);
        let mut remembered = inner.remembered.borrow_mut();
        let of_peer = remembered.entry(from).or_default();
        for dg in &heartbeat.summary.disk_groups {
            let seen = of_peer.entry(dg.disk_group).or_default();
            // An opening that ends below what was durable is an old image, whatever number it has: that must not be forgotten
            // with it, nor when it has grown before its process was told.
            if told && dg.durable_position >= seen.1 {
                *seen = (*seen).max((dg.open_count, dg.durable_position));
            }
        }
        drop(remembered);
        // One that does not hear this host cannot be asked for anything: its disk groups are away, whatever it tells.
        let failed = if inner.rpc.is_up(from) { self.heard_of(from, &heartbeat.summary) } else { Vec::new() };
        let (summary, told_at) = (heartbeat.summary, inner.env.now());
        inner.peers.borrow_mut().insert(from, PeerState { summary, incarnation, told_at });
        failed
    }

    /// A heartbeat of ours was answered. True: objects have something to do about it, as a new session began or the peer had
    /// been silent. An answer like any other renews leases, and wakes nobody: a host may own ten thousand objects.
    pub fn on_heartbeat_answer(&self, from: HostId, incarnation: Incarnation, answer: HeartbeatAnswer) -> bool {
        if answer.grantor != (from, incarnation) {
            return false;
        }
        let came_back = self.heard(from, incarnation);
        // It has had a heartbeat of ours, and with it what we remember of its disk groups.
        self.inner.told.borrow_mut().insert(from, incarnation);
        self.inner.held.borrow_mut().on_heartbeat_answer(from, &answer) || came_back
    }

    pub(crate) fn may_promise(
        &self,
        disk_group: DiskGroupId,
        record: &SeatRecord,
        epoch: Epoch,
        overrule: bool,
    ) -> Result<(), SeizeAnswer> {
        self.inner.grants.borrow().may_promise(disk_group, record, epoch, overrule, self.inner.env.now())
    }

    pub(crate) fn claim(&self, disk_group: DiskGroupId, object: ObjectId, epoch: Epoch) {
        self.inner.grants.borrow_mut().on_promised(disk_group, object, epoch, self.inner.env.now());
    }

    pub(crate) fn confirm_grant(
        &self,
        disk_group: DiskGroupId,
        object: ObjectId,
        epoch: Epoch,
        promised: Epoch,
    ) -> bool {
        self.inner.grants.borrow_mut().on_confirm(disk_group, object, epoch, promised, self.inner.env.now())
    }

    pub(crate) fn forget(&self, disk_group: DiskGroupId, object: ObjectId) {
        self.inner.grants.borrow_mut().forget(disk_group, object);
    }

    /// Who holds the object's lease at a seat of this host.
    pub fn holder(&self, disk_group: DiskGroupId, object: ObjectId) -> Option<Epoch> {
        self.inner.grants.borrow().holder(disk_group, object, self.inner.env.now())
    }

    pub(crate) fn on_release(
        &self,
        from: (HostId, Incarnation),
        disk_group: DiskGroupId,
        object: ObjectId,
        epoch: Epoch,
    ) {
        if (epoch.host, epoch.incarnation) == from {
            self.inner.grants.borrow_mut().on_release(disk_group, object, epoch);
        }
    }

    /// From now on the object is listed to the hosts of these seats.
    pub(crate) fn own(&self, object: ObjectId, epoch: Epoch, seats: &[Seat]) {
        self.inner.held.borrow_mut().own(object, epoch, seats);
    }

    /// Confirmations to send now.
    pub(crate) fn due(&self, object: ObjectId) -> Vec<PendingConfirm> {
        self.inner.held.borrow().due(object, self.inner.env.now())
    }

    pub(crate) fn on_confirmed(&self, asked: PendingConfirm) {
        self.inner.held.borrow_mut().on_confirmed(asked);
    }

    /// The object is served no longer: its seats are told.
    pub(crate) fn release(&self, object: ObjectId, epoch: Epoch) {
        let inner = &self.inner;
        let seats = inner.held.borrow_mut().abandon(object, epoch);
        for (host, disk_group) in seats {
            if host == inner.env.host() {
                inner.grants.borrow_mut().on_release(disk_group, object, epoch);
                continue;
            }
            let message = Message::Release { disk_group, object, epoch };
            inner.rpc.send(host, &message, Vec::new());
        }
    }

    /// Whether the owner may answer now.
    pub(crate) fn holds(&self, config: &ObjectConfig, epoch: Epoch) -> bool {
        self.inner.held.borrow().holds(config.object, epoch, config, self.inner.env.now())
    }
}
