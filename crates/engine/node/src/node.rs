//! The node: its parts, its start, its tasks.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use cairn_directory::{HostEntry, HostIntent, LocalCopy, Registry, Revision};
use cairn_env::{BlockDevice, Env, NetEvent};
use cairn_object::{LeaseOptions, Leases, ObjectOptions, Objects, Owned, Rpc, Seats};
use cairn_store::{FormatOptions, OpenOptions};
use cairn_types::{Build, Canary, ClusterId, DiskGroupId, HostId, Level, Time};
use cairn_upgrade::may_start;
use cairn_wire::{HostSummary, Message, Request, decode};

use crate::{
    adapter::GroupStore,
    closed_group::ClosedGroup,
    gone_hosts::{GoneHosts, gone_at_start},
    last_word::LastWord,
    outside::{GroupPaths, Outside},
    picture::{NodePlacer, PlacedLately},
    schedule_watch::Schedules,
    scrub_watch::{Asked, Watches},
    slow_state::SlowState,
};

/// What a node is told at its start.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The cluster.
    pub cluster: ClusterId,
    /// This host as the directory shall know it.
    pub entry: HostEntry,
    /// All shards of this server, the first one first; this host is one of them.
    pub shards: Vec<HostId>,
    /// "embedded" or "etcd", for people.
    pub directory_kind: String,
    /// Leases.
    pub leases: LeaseOptions,
    /// The object layer.
    pub objects: ObjectOptions,
    /// How a new disk group is made.
    pub store_format: FormatOptions,
    /// How a disk group is opened, a new one too.
    pub store_open: OpenOptions,
    /// Bytes of a chunk of a new disk, at most. Smaller than [`cairn_types::CHUNK_BYTES_MAX`] where growth past a chunk is tested.
    pub chunk_bytes_max: u64,
}

/// A node. Cheap to clone.
pub struct Node<E: Env> {
    pub(crate) inner: Rc<NodeInner<E>>,
}

pub(crate) struct NodeInner<E: Env> {
    pub(crate) env: E,
    pub(crate) options: NodeOptions,
    /// When it was started, in milliseconds since 1970.
    pub(crate) started_unix_ms: u64,
    pub(crate) outside: Rc<dyn Outside<E>>,
    pub(crate) rpc: Rpc<E>,
    pub(crate) leases: Leases<E>,
    pub(crate) seats: Seats<E, GroupStore<E>>,
    pub(crate) objects: Objects<E, GroupStore<E>>,
    pub(crate) registry: Registry,
    pub(crate) copy: RefCell<LocalCopy>,
    /// What this host takes the cluster's level for.
    pub(crate) level: Cell<Level>,
    /// The cluster is at a level that this build does not speak: why that is the end.
    pub(crate) outgrown: LastWord,
    /// Hosts that were removed or forgotten.
    pub(crate) gone: GoneHosts,
    /// What each peer said of its program when it was connected last.
    pub(crate) builds: RefCell<BTreeMap<HostId, Build>>,
    pub(crate) directory_up: Cell<bool>,
    pub(crate) groups: RefCell<BTreeMap<DiskGroupId, GroupPaths>>,
    /// Disk groups that are not open, each with the reason.
    pub(crate) closed_groups: RefCell<BTreeMap<DiskGroupId, ClosedGroup>>,
    /// Disk groups that are open without a capacity device, and when that is looked for next.
    pub(crate) lacking_groups: RefCell<BTreeMap<DiskGroupId, Time>>,
    /// Devices on which a disk group was looked for in vain.
    pub(crate) passed_over: RefCell<BTreeMap<DiskGroupId, Vec<BlockDevice>>>,
    /// The directory knew no disk when the first disk group was found again: it was lost.
    pub(crate) catalogue_lost: Cell<Option<bool>>,
    /// Somebody tries to open what is closed.
    pub(crate) trying: Cell<bool>,
    /// What peers remember of disk groups that are not open: the open count and the durable position.
    pub(crate) remembered: RefCell<BTreeMap<DiskGroupId, (u64, u64)>>,
    /// Disk groups that stopped (0) and capacity devices that failed (from 1), told in the log.
    pub(crate) failures_told: RefCell<BTreeSet<(DiskGroupId, usize)>>,
    pub(crate) stopping: Cell<bool>,
    /// Counts comings and goings of peers.
    pub(crate) peer_changes: Cell<u64>,
    /// Seats that were looked at and found in order, until a peer comes or goes.
    /// Whether this host owned the object then: when it does not any more, the seat is looked at once more.
    pub(crate) reconciled: RefCell<BTreeMap<(cairn_types::DiskGroupId, cairn_types::ObjectId), bool>>,
    /// When this host first saw that an object is unfinished.
    pub(crate) unfinished_since: RefCell<BTreeMap<cairn_types::ObjectId, cairn_types::Time>>,
    /// What other hosts may not have told of yet.
    pub(crate) placed_lately: PlacedLately,
    /// The catalogue as of this revision has nothing that is unfinished.
    pub(crate) catalogue_finished: Cell<Option<Revision>>,
    /// The pause of repair that this host heard of last: its end by the clock of the day, and by this host's own.
    pub(crate) repair_pause: Cell<Option<(u64, Time)>>,
    /// What administrators want of hosts, where they want something.
    pub(crate) intents: RefCell<Vec<(HostId, HostIntent)>>,
    /// Scrubs of the disk groups that are open here.
    pub(crate) scrubs: RefCell<Watches>,
    /// What each disk was when its owner said that no copy has some blocks of it.
    pub(crate) scrubs_asked: RefCell<Asked>,
    /// What requests take at devices, here and elsewhere.
    pub(crate) slow: SlowState,
    /// Schedules of snapshots whose run is due.
    pub(crate) schedules: Schedules,
}

impl<E: Env> Drop for NodeInner<E> {
    fn drop(&mut self) {
        self.objects.abandon();
    }
}

impl<E: Env> Clone for Node<E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E: Env> Node<E> {
    /// Starts a node: its disk groups are opened, its tasks run. `copy` is the directory as this host last knew it.
    pub async fn start(
        env: E,
        options: NodeOptions,
        outside: Rc<dyn Outside<E>>,
        registry: Registry,
        copy: LocalCopy,
        groups: Vec<GroupPaths>,
    ) -> Self {
        // A level that this build does not speak is found out below, like one that is reached while it runs.
        let build = env.build();
        let level = may_start(&build, copy.level()).unwrap_or(build.speaks.highest);
        let mut copy = if Canary::LocalCopyIgnored.sings() { LocalCopy::empty(copy.cluster()) } else { copy };
        let gone = gone_at_start(env.host(), &mut copy, &registry).await;
        let rpc = Rpc::new(env.clone());
        let leases = Leases::new(env.clone(), rpc.clone(), options.leases);
        let seats = Seats::new(env.clone(), leases.clone());
        let objects = Objects::new(env.clone(), rpc.clone(), seats.clone(), leases.clone(), options.objects.clone());
        let node = Self {
            inner: Rc::new(NodeInner {
                started_unix_ms: env.unix_ms(),
                env,
                options,
                outside,
                rpc,
                leases,
                seats,
                objects,
                registry,
                copy: RefCell::new(copy),
                level: Cell::new(level),
                outgrown: LastWord::default(),
                gone: GoneHosts::default(),
                builds: RefCell::default(),
                directory_up: Cell::new(false),
                groups: RefCell::default(),
                closed_groups: RefCell::default(),
                lacking_groups: RefCell::default(),
                passed_over: RefCell::default(),
                catalogue_lost: Cell::default(),
                trying: Cell::new(false),
                remembered: RefCell::default(),
                failures_told: RefCell::default(),
                stopping: Cell::new(false),
                peer_changes: Cell::new(0),
                reconciled: RefCell::default(),
                unfinished_since: RefCell::default(),
                placed_lately: PlacedLately::default(),
                catalogue_finished: Cell::default(),
                repair_pause: Cell::default(),
                intents: RefCell::default(),
                scrubs: RefCell::default(),
                scrubs_asked: RefCell::default(),
                slow: SlowState::default(),
                schedules: Schedules::default(),
            }),
        };
        node.wire_up();
        node.begin_with_level();
        if let Some(gone) = gone {
            // Neither its disk groups nor its peers: whatever it holds went on without it.
            node.inner.stopping.set(true);
            node.dismiss(&gone);
            return node;
        }
        node.open_groups(groups).await;
        node.begin_work();
        node
    }

    /// What the local copy says is so from now on, and all that goes on while the node lives begins.
    fn begin_work(&self) {
        self.apply_settings();
        self.apply_intents();
        self.apply_gone();
        self.connect_peers();
        self.spawn_tasks();
    }

    fn wire_up(&self) {
        let inner = &self.inner;
        // Weak: the parts must not keep the whole alive after the host is dropped.
        let weak = Rc::downgrade(inner);
        inner.objects.set_placer(Rc::new(NodePlacer::new(weak.clone())));
        let events = weak.clone();
        inner.objects.on_event(Rc::new(move |event| {
            if let Some(inner) = events.upgrade() {
                inner.outside.event(event);
            }
        }));
        let summary = weak.clone();
        let summarise = Rc::new(move || match summary.upgrade() {
            Some(inner) => HostSummary {
                unix_ms: inner.env.unix_ms(),
                disk_groups: inner.seats.stores().iter().map(cairn_object::LocalStore::summary).collect(),
                resync_bytes_per_s_max: inner.objects.resync_allowed(),
            },
            None => HostSummary::default(),
        });
        let on_remembered = Rc::new(move |disk_group, count, position| {
            if let Some(inner) = weak.upgrade() {
                Node { inner }.on_remembered(disk_group, count, position);
            }
        });
        inner.leases.set_host(summarise, on_remembered);
    }

    fn spawn_tasks(&self) {
        let env = &self.inner.env;
        let node = self.clone();
        env.spawn(async move { node.receive().await });
        let node = self.clone();
        env.spawn(async move { node.heartbeats().await });
        let node = self.clone();
        env.spawn(async move { node.follow_directory().await });
        let node = self.clone();
        env.spawn(async move { node.reconcile().await });
        let node = self.clone();
        env.spawn(async move { node.rebalance().await });
        let node = self.clone();
        env.spawn(async move { node.scrubs().await });
        let node = self.clone();
        env.spawn(async move { node.watch_health().await });
        let node = self.clone();
        env.spawn(async move { node.watch_devices().await });
        let node = self.clone();
        env.spawn(async move { node.empty_slow_groups().await });
        let node = self.clone();
        env.spawn(async move { node.run_schedules().await });
    }

    /// Takes what the network brings, in order.
    async fn receive(&self) {
        let mut events = Vec::new();
        while !self.inner.stopping.get() {
            self.inner.env.receive(&mut events).await;
            for event in events.drain(..) {
                self.on_net(event);
            }
        }
    }

    pub(crate) fn peers_changed(&self) {
        self.inner.peer_changes.set(self.inner.peer_changes.get() + 1);
        self.inner.reconciled.borrow_mut().clear();
    }

    pub(crate) fn on_net(&self, event: NetEvent) {
        let inner = &self.inner;
        let Some(event) = inner.gone.admit(event) else { return };
        match event {
            NetEvent::PeerUp { host, incarnation, build, level } => {
                inner.builds.borrow_mut().insert(host, build);
                self.level_is(level);
                inner.leases.on_peer_up(host, incarnation);
                self.peers_changed();
                inner.objects.wake();
            }
            NetEvent::PeerDown { host, .. } => {
                inner.leases.on_peer_down(host);
                self.peers_changed();
                inner.objects.wake();
            }
            NetEvent::Message(message) => match decode(&message.body) {
                Ok(Message::Request { id, request: Request::ManageHost { command } }) => {
                    self.on_host_command(message.from, id, command);
                }
                Ok(Message::HeartbeatWith(heartbeat, facts)) => {
                    facts.level().into_iter().for_each(|level| self.level_is(level));
                    inner.slow.hear(message.from, inner.env.now(), &facts);
                    let heartbeat = Message::Heartbeat(heartbeat);
                    inner.objects.on_message(message.from, message.incarnation, heartbeat, message.payload);
                }
                Ok(decoded) => inner.objects.on_message(message.from, message.incarnation, decoded, message.payload),
                Err(error) => inner.outside.warn(format!("host {} sent what is no message: {error}", message.from)),
            },
        }
    }

    async fn heartbeats(&self) {
        while !self.inner.stopping.get() {
            self.inner.objects.tick();
            self.tell_failures();
            self.inner.env.sleep(self.inner.leases.heartbeat_every()).await;
        }
    }

    /// Gives up every object and closes the disk groups, so that others take over at once.
    pub async fn stop(&self) {
        for owned in self.inner.objects.all_owned() {
            owned.give_up().await;
        }
        // Releases are on their way; a moment lets them leave before the sockets close.
        self.inner.env.sleep(Duration::from_millis(50)).await;
        self.inner.stopping.set(true);
        self.save_copy();
        for store in self.inner.seats.stores() {
            let _ = store.group().close().await;
        }
    }

    /// The object layer.
    pub fn objects(&self) -> &Objects<E, GroupStore<E>> {
        &self.inner.objects
    }

    /// The disk groups that are open here: for checks from outside.
    pub fn stores(&self) -> Vec<GroupStore<E>> {
        self.inner.seats.stores()
    }

    /// The objects that this host owns: for checks from outside.
    pub fn owned(&self) -> Vec<Rc<Owned<E, GroupStore<E>>>> {
        self.inner.objects.all_owned()
    }

    /// What is under way, as [`Objects::in_flight`] has it: for checks from outside.
    pub fn in_flight(&self) -> (usize, u64) {
        self.inner.objects.in_flight()
    }

    /// The hosts that answer now.
    pub fn peers_up(&self) -> Vec<HostId> {
        self.inner.rpc.peers_up().into_keys().collect()
    }

    pub(crate) fn me(&self) -> HostId {
        self.inner.env.host()
    }
}
