//! Hosts that run real nodes over the simulator: disks, links and clocks are the world's, the rest is the product.
//!
//! Promises    a host that restarts has what a real one has: its devices, its list of disk groups, its local copy
//! Not here    what is asked of the cluster (`model`), what happens to it (`faults`)

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    ops::Range,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use cairn_api::{ApiResult, LocalManagement, v1};
use cairn_directory::{ClusterSettings, Embedded, Gate, LocalCopy, Name, Registry};
use cairn_env::{BlockDevice, Disk as _};
use cairn_faults::Moment;
use cairn_node::{DeviceError, DeviceErrorKind, GroupPaths, GroupStore, Node, Outside};
use cairn_object::{DiskClient, ObjectEvent};
use cairn_sim::{Host, Medium, Rng, SimDisk, SimEnv, World};
use cairn_types::{DiskGroupId, Epoch, HostId, ObjectId, Policy};
use cairn_volume::Session;
use futures::{
    channel::oneshot,
    future::{Either, LocalBoxFuture, select},
};

use crate::{
    copied::Clones,
    directory::{TroubledWay, way_to},
    held::{Schedules, Snapshots},
    model::Model,
    options::{CLUSTER, node_options},
    release::Release,
    shape::{DiskShape, Shape},
};

pub use crate::{
    log::Log,
    options::{ABSENT_AFTER, LEASE, PATIENCE, REPAIR_DELAY, STUCK_AFTER},
    shape::LOG_SEGMENT_BYTES,
};

/// A front end's handle of a disk.
pub type Client = DiskClient<SimEnv, GroupStore<SimEnv>>;

/// What a host's file system keeps over a crash.
#[derive(Default)]
struct Saved {
    groups: Vec<GroupPaths>,
    copy: Option<Vec<u8>>,
}

/// What was seen of the cluster from outside, by all its hosts together.
#[derive(Default)]
struct Seen {
    /// Who served an object in an epoch: host and incarnation.
    owners: BTreeMap<(ObjectId, Epoch), (String, u64)>,
    /// What was bad at a copy and repaired from another.
    repairs: Vec<String>,
    /// What copies in sync were found to differ in.
    differences: Vec<String>,
    /// Requests that were repeated after they had been carried out.
    done_before: u64,
    /// Messages whose blocks were found changed.
    arrived_changed: u64,
    /// Who waits for somebody to tell of a moment.
    waiting: Vec<(Moment, oneshot::Sender<usize>)>,
    /// Sessions of front ends, which these hosts do not have, with the number of their host.
    sessions: Vec<(usize, Session)>,
    violations: Vec<String>,
}

impl Seen {
    /// The first that waits for this moment hears of it.
    fn strike(&mut self, moment: Moment, host: usize) {
        if let Some(at) = self.waiting.iter().position(|(waits_for, _)| *waits_for == moment) {
            // Whoever stopped waiting is not struck.
            let _ = self.waiting.remove(at).1.send(host);
        }
    }
}

fn moment_of(event: &ObjectEvent) -> Option<Moment> {
    match event {
        ObjectEvent::Owned { .. } => Some(Moment::Owned),
        ObjectEvent::Component { now, .. } => match now.as_str() {
            "active" => Some(Moment::Active),
            "absent" => Some(Moment::Absent),
            "resyncing" => Some(Moment::Resyncing),
            _ => None,
        },
        _ => None,
    }
}

struct SimOutside {
    host: Host,
    number: usize,
    saved: Rc<RefCell<Saved>>,
    seen: Rc<RefCell<Seen>>,
    log: Log,
}

impl Outside<SimEnv> for SimOutside {
    fn connect(&self, _: HostId, _: &str, _: SocketAddr) {}

    fn disconnect(&self, host: HostId, _: &str) {
        self.host.hang_up(host);
    }

    fn make_file(&self, _: String, _: u64) -> LocalBoxFuture<'static, Result<(), DeviceError>> {
        Box::pin(async { Ok(()) })
    }

    fn open_device(&self, path: String) -> LocalBoxFuture<'static, Result<SimDisk, DeviceError>> {
        let found = self.host.disk_names().contains(&path);
        let disk = found.then(|| self.host.disk(&path));
        let gone = move || DeviceError { kind: DeviceErrorKind::Gone, text: format!("there is no device {path}") };
        Box::pin(async move { disk.ok_or_else(gone) })
    }

    fn peek(&self, path: String) -> LocalBoxFuture<'static, Result<SimDisk, DeviceError>> {
        self.open_device(path)
    }

    fn block_devices(&self) -> LocalBoxFuture<'static, Result<Vec<BlockDevice>, String>> {
        let device = |path: String| {
            let len_bytes = self.host.disk(&path).len_bytes();
            BlockDevice { path, len_bytes, ..BlockDevice::default() }
        };
        let devices = self.host.disk_names().into_iter().map(device).collect();
        Box::pin(async move { Ok(devices) })
    }

    fn signature(&self, _: String) -> LocalBoxFuture<'static, Result<Option<String>, String>> {
        Box::pin(async { Ok(None) })
    }

    fn remove_file(&self, _: &str) {}

    fn save_groups(&self, groups: &[GroupPaths]) -> Result<(), String> {
        self.saved.borrow_mut().groups = groups.to_vec();
        Ok(())
    }

    fn save_local_copy(&self, json: Vec<u8>) {
        self.saved.borrow_mut().copy = Some(json);
    }

    fn event(&self, event: ObjectEvent) {
        if let ObjectEvent::DoneBefore { .. } = event {
            self.seen.borrow_mut().done_before += 1;
            return;
        }
        self.log.add(format!("{}: {event:?}", self.host.name()));
        if let ObjectEvent::ArrivedChanged { .. } = event {
            self.seen.borrow_mut().arrived_changed += 1;
        }
        if let Some(moment) = moment_of(&event) {
            self.seen.borrow_mut().strike(moment, self.number);
        }
        if let ObjectEvent::Repaired { component, blocks, .. } = &event {
            let text = format!("{blocks} block(s) of {component:?} were bad");
            self.seen.borrow_mut().repairs.push(text);
        }
        if let ObjectEvent::Older { .. } | ObjectEvent::Undecided { .. } = &event {
            self.seen.borrow_mut().differences.push(format!("{event:?}"));
        }
        // Two hosts may win with one number after each other: the whole epoch has an order. As an epoch names its host, this finds
        // two processes of a cloned machine only; two owners at once are found by `check_owners`.
        if let ObjectEvent::Owned { object, epoch, .. } = event {
            let me = (self.host.name().to_owned(), self.host.incarnation().0);
            let mut seen = self.seen.borrow_mut();
            if let Some(before) = seen.owners.insert((object, epoch), me.clone())
                && before != me
            {
                seen.violations.push(format!("I1: {epoch:?} of {object} has two owners: {before:?} and {me:?}"));
            }
        }
    }

    fn sessions(&self) -> Vec<Session> {
        let seen = self.seen.borrow();
        seen.sessions.iter().filter(|(at, _)| *at == self.number).map(|(_, session)| session.clone()).collect()
    }

    fn warn(&self, text: String) {
        self.log.add(format!("{}: warning: {text}", self.host.name()));
    }
}

/// What the node of a host runs with.
#[derive(Clone)]
struct Machine {
    number: usize,
    host: Host,
    /// The ids of all, by number.
    hosts: Rc<RefCell<Vec<HostId>>>,
    saved: Rc<RefCell<Saved>>,
    slot: Rc<RefCell<Option<Node<SimEnv>>>>,
    door: Arc<Gate>,
    release: Rc<Cell<Release>>,
    seen: Rc<RefCell<Seen>>,
    log: Log,
    pub(crate) shape: Rc<Shape>,
}

impl Machine {
    /// Runs a node whenever the host starts, from now on.
    fn run(self) {
        self.host.clone().set_program(move |env| {
            let Self { number, host, hosts, saved, slot, door, release, seen, log, shape } = self.clone();
            let copy = saved.borrow().copy.clone();
            let copy = copy.map_or_else(
                || LocalCopy::empty(CLUSTER),
                |json| LocalCopy::from_json(&json, CLUSTER).expect("our own copy loads"),
            );
            let groups = saved.borrow().groups.clone();
            let (name, hosts) = (host.name().to_owned(), hosts.clone());
            let outside = Rc::new(SimOutside { host, number, saved, seen, log: log.clone() });
            slot.borrow_mut().take();
            async move {
                // By now all hosts of the world have their ids.
                let options = node_options(number, &hosts.borrow(), &shape, release.get());
                let node = Node::start(env, options, outside, Registry::new(door), copy, groups).await;
                log.add(format!("{name}: started"));
                *slot.borrow_mut() = Some(node.clone());
                node.dismissed().await;
                node.leave().await;
                log.add(format!("{name}: it is no part of the cluster any more"));
                std::future::pending::<()>().await;
            }
        });
    }
}

/// One host of the cluster.
pub struct Member {
    /// The simulated machine.
    pub host: Host,
    /// Whether it reaches the directory.
    pub gate: Arc<Gate>,
    /// What else is wrong on its way there.
    pub way: Arc<TroubledWay>,
    release: Rc<Cell<Release>>,
    node: Rc<RefCell<Option<Node<SimEnv>>>>,
    saved: Rc<RefCell<Saved>>,
    clients: Rc<RefCell<BTreeMap<String, (u64, Client)>>>,
}

impl Member {
    fn same(&self) -> Self {
        let Self { host, gate, way, release, node, saved, clients } = self;
        let (host, gate, way, release) = (host.clone(), gate.clone(), way.clone(), release.clone());
        Self { host, gate, way, release, node: node.clone(), saved: saved.clone(), clients: clients.clone() }
    }

    /// From its next process on it runs this release; call it just before that one starts.
    pub fn set_release(&self, release: Release) {
        self.release.set(release);
        release.install(&self.host);
    }
}

/// What is known of a disk's size.
#[derive(Debug, Clone, Default)]
pub struct DiskSize {
    /// As last acknowledged.
    pub bytes: u64,
    /// What was asked for, whatever the answer.
    pub asked: Vec<u64>,
}

/// A cluster. Clones are the same one.
#[derive(Clone)]
pub struct Cluster {
    /// The world that it is in.
    pub world: World,
    /// What happened.
    pub log: Log,
    /// Its hosts.
    pub members: Rc<Vec<Member>>,
    /// Disks beside those of the shape that may be there.
    pub extra_disks: Rc<RefCell<BTreeSet<String>>>,
    /// Snapshots that were taken, and what they hold.
    pub snapshots: Rc<Snapshots>,
    /// Clones that were made, and what they hold.
    pub clones: Rc<Clones>,
    /// Schedules that were made.
    pub schedules: Rc<Schedules>,
    /// Hosts that were forgotten, whether or not they were taken in again.
    pub forgotten: Rc<RefCell<BTreeSet<usize>>>,
    /// The block of every disk whose story is told (`CAIRN_SIM_WATCH`).
    pub watched: Rc<Cell<Option<u64>>>,
    /// What the shape's disks may hold, by number, as far as they have guests.
    pub models: Rc<RefCell<BTreeMap<usize, Rc<RefCell<Model>>>>>,
    /// Sizes of the shape's disks.
    pub sizes: Rc<RefCell<Vec<DiskSize>>>,
    counts: Rc<RefCell<BTreeMap<&'static str, u64>>>,
    seen: Rc<RefCell<Seen>>,
    pub(crate) shape: Rc<Shape>,
}

/// The future did not end in time, or its host's process did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The process ended.
    Crashed,
    /// It took too long.
    TimedOut,
}

/// Whether writing some blocks over is all that a disk waits for.
fn is_restorable(disk: &v1::DiskSummary) -> bool {
    let waits = |reason: &String| reason.contains("no copy in sync can give");
    let expected = |reason: &String| waits(reason) || reason.contains("is being filled");
    let only_waits = disk.reasons.iter().any(waits) && disk.reasons.iter().all(expected);
    disk.health == v1::DiskHealth::Healthy || only_waits && disk.resync_bytes_left == 0
}

impl Cluster {
    /// Starts the hosts of `shape` and makes its disks. Returns when all is up.
    pub fn new(seed: u64, shape: &Shape, print: bool) -> Self {
        let world = World::new(seed);
        let log = Log::new(&world, print);
        let directory = Embedded::in_memory(CLUSTER);
        let name = |text: &str| Name::new(text).expect("a name");
        let mut settings = ClusterSettings::new(CLUSTER, name("sim"), name("default"));
        settings.repair_delay_ms = REPAIR_DELAY.as_millis() as u64;
        let registry = Registry::new(directory.clone());
        let made_at = shape.release.level_of_new_clusters();
        world
            .block_on(async move { registry.init_cluster(&settings, &Policy::default(), made_at).await.map(drop) })
            .expect("an empty directory takes its first settings");
        let seen: Rc<RefCell<Seen>> = Rc::default();
        let shape = Rc::new(shape.clone());
        let hosts: Rc<RefCell<Vec<HostId>>> = Rc::default();
        let members = (0..shape.hosts)
            .map(|_| Self::start_member(&world, (&log, &seen), &hosts, way_to(directory.clone()), &shape))
            .collect();
        let size = |disk: &DiskShape| DiskSize { bytes: disk.size_bytes, asked: Vec::new() };
        let sizes = shape.disks.iter().map(size).collect();
        let cluster = Self {
            world,
            log,
            members: Rc::new(members),
            extra_disks: Rc::default(),
            snapshots: Rc::default(),
            clones: Rc::default(),
            schedules: Rc::default(),
            forgotten: Rc::default(),
            watched: Rc::new(Cell::new(std::env::var("CAIRN_SIM_WATCH").ok().and_then(|text| text.parse().ok()))),
            models: Rc::default(),
            sizes: Rc::new(RefCell::new(sizes)),
            counts: Rc::default(),
            seen,
            shape: shape.clone(),
        };
        cluster.set_up(shape);
        cluster
    }

    /// The hosts that are one server with this one.
    pub fn server_of(&self, number: usize) -> Range<usize> {
        self.shape.server_of(number)
    }

    fn start_member(
        world: &World,
        (log, seen): (&Log, &Rc<RefCell<Seen>>),
        hosts: &Rc<RefCell<Vec<HostId>>>,
        (gate, way): (Arc<Gate>, Arc<TroubledWay>),
        shape: &Rc<Shape>,
    ) -> Member {
        let number = hosts.borrow().len();
        let name = format!("h{number}");
        let host = world.add_host(&name);
        hosts.borrow_mut().push(host.id());
        for group in 0..shape.groups {
            let cache_bytes = shape.log_begins() + shape.log_segments * LOG_SEGMENT_BYTES;
            host.add_disk(&Shape::device_name(group, None), cache_bytes);
            for n in 0..shape.capacity_devices {
                host.add_disk(&Shape::device_name(group, Some(n)), shape.capacity_bytes);
            }
        }
        // Rates of real clocks differ by some millionths; the lease's margin has to cover that.
        host.set_clock_rate_ppm(world.random_below(301) as i64 - 150);
        let (node, saved, release) = (Rc::default(), Rc::default(), Rc::new(Cell::new(shape.release)));
        let member = Member { host: host.clone(), gate, way, release, node, saved, clients: Rc::default() };
        member.set_release(shape.release);
        let (log, seen, shape) = (log.clone(), seen.clone(), shape.clone());
        let (saved, slot, door) = (member.saved.clone(), member.node.clone(), member.gate.clone());
        let release = member.release.clone();
        Machine { number, host, hosts: hosts.clone(), saved, slot, door, release, seen, log, shape }.run();
        member
    }

    /// What the devices of a host hold now, as an image of a machine is taken: what was in flight is on it or not.
    pub fn image(&self, n: usize, loss: u64) -> Vec<(String, Medium)> {
        let host = &self.members[n].host;
        let mut rng = Rng::new(loss);
        let image = |name: String| {
            let mut medium = host.disk(&name).image();
            medium.lose_power(&mut rng);
            (name, medium)
        };
        host.disk_names().into_iter().map(image).collect()
    }

    /// Starts a second machine with a host's id, files and these devices. Returns the cluster as it is with that one in the
    /// host's place; the older one lives on in this.
    pub fn with_clone(&self, n: usize, image: Vec<(String, Medium)>) -> Self {
        let original = &self.members[n];
        let host = self.world.add_clone(&format!("h{n}-clone"), &original.host);
        for (name, medium) in image {
            host.add_disk_of(&name, medium);
        }
        let Saved { groups, copy } = &*original.saved.borrow();
        let saved = Rc::new(RefCell::new(Saved { groups: groups.clone(), copy: copy.clone() }));
        let clone = Member { host, node: Rc::default(), saved, clients: Rc::default(), ..original.same() };
        let (host, saved, slot, door) =
            (clone.host.clone(), clone.saved.clone(), clone.node.clone(), clone.gate.clone());
        let (log, seen, shape) = (self.log.clone(), self.seen.clone(), self.shape.clone());
        let hosts = Rc::new(RefCell::new(self.members.iter().map(|member| member.host.id()).collect()));
        clone.set_release(original.release.get());
        let release = clone.release.clone();
        Machine { number: n, host, hosts, saved, slot, door, release, seen, log, shape }.run();
        let mut members: Vec<Member> = self.members.iter().map(Member::same).collect();
        members[n] = clone;
        Self { members: Rc::new(members), ..self.clone() }
    }

    fn set_up(&self, shape: Rc<Shape>) {
        let cluster = self.clone();
        self.world.block_on(async move {
            for n in 0..shape.hosts {
                cluster.make_groups(n).await.expect("disk groups on empty devices");
            }
            // Heartbeats tell everyone of the groups.
            cluster.world.sleep(Duration::from_secs(3)).await;
            for (n, disk) in shape.disks.iter().enumerate() {
                cluster.create_shaped(n, disk).await.unwrap_or_else(|e| panic!("disk {n} of {shape}: {e}"));
            }
        });
    }

    async fn create_shaped(&self, number: usize, disk: &DiskShape) -> ApiResult<()> {
        let policy = Shape::policy_name(number);
        let request = v1::PolicyCreate { name: policy.clone(), rules: disk.rules() };
        self.manage(0, async move |node| node.policy_create(request).await).await?;
        let at = number % self.members.len();
        self.create_disk(at, &Shape::disk_name(number), disk.size_bytes, Some(policy)).await.map(drop)
    }

    /// Where the log begins on a cache device.
    pub fn log_begins(&self) -> u64 {
        self.shape.log_begins()
    }

    /// Asks a host to make a disk.
    pub async fn create_disk(
        &self,
        at: usize,
        disk: &str,
        size_bytes: u64,
        policy: Option<String>,
    ) -> ApiResult<v1::Disk> {
        let request =
            v1::DiskCreate { name: disk.into(), size_bytes, policy, host: None, limits: v1::DiskLimits::default() };
        self.manage(at, async move |node| node.disk_create(request).await).await
    }

    /// From now on front ends of a host tell of this session.
    pub fn tell_session(&self, at: usize, session: Session) {
        self.seen.borrow_mut().sessions.push((at, session));
    }

    /// Asks a host to delete a disk.
    pub async fn delete_disk(&self, at: usize, disk: &str) -> ApiResult<()> {
        let name = disk.to_owned();
        self.manage(at, async move |node| node.disk_delete(name, v1::DiskDelete::default()).await).await
    }

    /// Asks a host to let one of the shape's disks grow; keeps account of the answer.
    pub async fn grow_disk(&self, number: usize, at: usize, by_bytes: u64) {
        let size_bytes = self.sizes.borrow()[number].bytes + by_bytes;
        self.sizes.borrow_mut()[number].asked.push(size_bytes);
        let (name, request) = (Shape::disk_name(number), v1::DiskResize { size_bytes });
        match self.manage(at, async move |node| node.disk_resize(name, request).await).await {
            Ok(_) => {
                let size = &mut self.sizes.borrow_mut()[number];
                size.bytes = size.bytes.max(size_bytes);
            }
            Err(error) => self.log.add(format!("h{at} does not let disk {number} grow to {size_bytes}: {error}")),
        }
    }

    /// A host that is up and one of the cluster, not of this one's server where there is another.
    pub fn asked_of(&self, host: usize) -> Result<usize, String> {
        let serves = |n: &usize| self.node(*n).is_some_and(|node| node.why_dismissed().is_none());
        let server = self.server_of(host);
        let (own, others): (Vec<usize>, Vec<usize>) = (0..self.members.len()).partition(|n| server.contains(n));
        others.into_iter().chain(own).find(serves).ok_or_else(|| "all hosts are down".into())
    }

    /// Makes the disk groups of a host on its devices, which must be blank.
    async fn make_groups(&self, n: usize) -> ApiResult<()> {
        for group in 0..self.shape.groups {
            let request = self.shape.group_request(group);
            let alone = self.server_of(n).len() == 1;
            let made = self.manage(n, async move |node| match alone {
                true => node.disk_group_create(request).await.map(drop),
                // Not where the server has the fewest: each shard has devices of its own.
                false => node.create_disk_group_here(request).await.map(drop),
            });
            made.await?;
        }
        Ok(())
    }

    /// Asks a host that is up to take another one into maintenance, or out of it.
    pub async fn maintenance(&self, host: usize, request: v1::HostMaintenance) -> Result<v1::Maintenance, String> {
        let up = self.asked_of(host)?;
        let name = self.members[host].host.spoken_id().to_string();
        let asked = self.manage(up, async move |node| node.host_maintenance(name, request).await).await;
        asked.map_err(|error| error.to_string())
    }

    /// A disk group of a host, by its number there; none while the host or the group is closed.
    pub fn group_id(&self, host: usize, group: usize) -> Option<DiskGroupId> {
        let mut ids: Vec<DiskGroupId> = self.node(host)?.stores().iter().map(|store| store.group().id()).collect();
        ids.sort_unstable();
        ids.get(group).copied()
    }

    /// Asks a host that is up to have a disk group emptied, or taken into use again.
    pub async fn drain(&self, id: DiskGroupId, request: v1::DiskGroupDrain) -> Result<v1::Maintenance, String> {
        let up = self.asked_of(0)?;
        let asked = self.manage(up, async move |node| node.disk_group_drain(id, request).await).await;
        asked.map_err(|error| error.to_string())
    }

    /// How far a host is in maintenance, as another one tells.
    pub async fn maintenance_of(&self, host: usize) -> Result<v1::Maintenance, String> {
        let up = self.asked_of(host)?;
        let name = self.members[host].host.spoken_id().to_string();
        let asked = self.manage(up, async move |node| node.host_maintenance_show(name).await).await;
        asked.map_err(|error| error.to_string())
    }

    /// Starts a host, unless it runs.
    pub fn start(&self, n: usize) {
        if !self.members[n].host.is_up() {
            self.log.add(format!("h{n} starts"));
            self.members[n].host.restart();
        }
    }

    /// The node of a host, if it has started.
    pub fn node(&self, n: usize) -> Option<Node<SimEnv>> {
        let member = &self.members[n];
        if !member.host.is_up() {
            return None;
        }
        member.node.borrow().clone()
    }

    /// Runs `future` in the process of a host.
    pub async fn run_on<T: 'static>(
        &self,
        n: usize,
        most: Duration,
        future: impl Future<Output = T> + 'static,
    ) -> Result<T, Lost> {
        use cairn_env::Env as _;
        let (sender, receiver) = oneshot::channel();
        self.members[n].host.env().spawn(async move {
            let _ = sender.send(future.await);
        });
        match select(receiver, Box::pin(self.world.sleep(most))).await {
            Either::Left((Ok(value), _)) => Ok(value),
            Either::Left((Err(_), _)) => Err(Lost::Crashed),
            Either::Right(_) => Err(Lost::TimedOut),
        }
    }

    /// A management call at a host; waits for its node to start.
    pub async fn manage<T: 'static>(
        &self,
        n: usize,
        call: impl AsyncFnOnce(Node<SimEnv>) -> ApiResult<T> + 'static,
    ) -> ApiResult<T> {
        for _ in 0..1000 {
            if let Some(node) = self.node(n) {
                let ran = self.run_on(n, Duration::from_secs(120), async move { call(node).await }).await;
                return ran.unwrap_or_else(|lost| Err(cairn_api::ApiError::unavailable(format!("h{n}: {lost:?}"))));
            }
            self.world.sleep(Duration::from_millis(10)).await;
        }
        Err(cairn_api::ApiError::unavailable(format!("h{n} does not start")))
    }

    /// A front end's handle of the disk at a host; kept as long as the host's process.
    pub async fn client(&self, n: usize, disk: &str) -> Option<Client> {
        let node = self.node(n)?;
        let incarnation = self.members[n].host.incarnation().0;
        if let Some((of, client)) = self.members[n].clients.borrow().get(disk)
            && *of == incarnation
        {
            return Some(client.clone());
        }
        let name = disk.to_owned();
        let opened = self.run_on(n, Duration::from_secs(60), async move { node.open_disk(&name).await }).await;
        let client = opened.ok()?.ok()??;
        self.members[n].clients.borrow_mut().insert(disk.to_owned(), (incarnation, client.clone()));
        Some(client)
    }

    /// The session of the disk at a host has ended: the next one is new.
    pub fn forget_client(&self, n: usize, disk: &str) {
        self.members[n].clients.borrow_mut().remove(disk);
    }

    /// A fault of this kind was injected.
    pub fn count(&self, kind: &'static str) {
        *self.counts.borrow_mut().entry(kind).or_default() += 1;
    }

    /// So many of this kind were seen.
    pub fn count_more(&self, kind: &'static str, count: u64) {
        *self.counts.borrow_mut().entry(kind).or_default() += count;
    }

    /// Failures that one of the shape's disks tolerates.
    pub fn ftt(&self, disk: usize) -> u8 {
        self.shape.disks[disk].ftt
    }

    /// Faults injected, by kind.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.borrow().clone()
    }

    /// P3: at no moment may two hosts answer for one disk. Asked whenever a guest has an answer; it costs the world no step.
    pub fn check_owners(&self) {
        let mut owners = Vec::new();
        for n in 0..self.members.len() {
            let owned = self.node(n).map(|node| node.owned()).unwrap_or_default();
            owners.extend(owned.into_iter().map(|owned| (owned.id(), n, owned)));
        }
        owners.sort_unstable_by_key(|(object, n, _)| (*object, *n));
        // Rarely has one more than one: only then are leases looked at.
        for [(object, n, one), (same, other, two)] in owners.array_windows() {
            if object != same || !one.may_answer() || !two.may_answer() || !self.seen.borrow().violations.is_empty() {
                continue;
            }
            let (first, second) = (one.epoch(), two.epoch());
            let text = format!("two owners may answer for {object}: h{n} in {first:?} and h{other} in {second:?}");
            self.log.add(text.clone());
            self.seen.borrow_mut().violations.push(text);
        }
    }

    /// Something broke a promise.
    pub fn violated(&self, what: String) {
        self.log.add(format!("FAILURE: {what}"));
        self.seen.borrow_mut().violations.push(what);
    }

    /// What broke an invariant, as seen from outside.
    pub fn violations(&self) -> Vec<String> {
        self.seen.borrow().violations.clone()
    }

    /// The highest epoch in which anyone has served an object.
    pub fn epoch_max(&self) -> u64 {
        self.seen.borrow().owners.keys().map(|(_, epoch)| epoch.number).max().unwrap_or(0)
    }

    /// Messages whose blocks were found changed, so far.
    pub fn arrived_changed(&self) -> u64 {
        self.seen.borrow().arrived_changed
    }

    /// The host that next tells of `moment`.
    pub fn next_to_tell(&self, moment: Moment) -> oneshot::Receiver<usize> {
        let (sender, receiver) = oneshot::channel();
        self.seen.borrow_mut().waiting.push((moment, sender));
        receiver
    }

    /// What copies in sync were found to differ in; forgotten with that.
    pub fn take_differences(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.borrow_mut().differences)
    }

    /// What was repaired.
    pub fn repairs(&self) -> Vec<String> {
        self.seen.borrow().repairs.clone()
    }

    /// How many requests were repeated after they had been carried out.
    pub fn done_before(&self) -> u64 {
        self.seen.borrow().done_before
    }

    /// Ends every fault: links, pauses, gates, devices, dead hosts. What is spoiled on a medium stays so.
    pub fn heal_everything(&self) {
        self.log.add("--- everything is healed".into());
        self.world.heal_all();
        for member in self.members.iter() {
            member.gate.set_shut(false);
            member.way.heal();
            member.host.set_slow_steps(Duration::ZERO);
            member.host.set_wall_clock_off_ms(0);
            member.host.no_planned_crash();
            member.host.disk_names().iter().for_each(|name| member.host.disk(name).heal());
            member.host.resume();
            if !member.host.is_up() {
                member.host.restart();
            }
        }
    }

    /// Waits until every host sees the disks healthy. The text says how it is instead.
    pub async fn wait_healthy(&self, disks: &[String], most: Duration) -> Result<(), String> {
        self.wait_healthy_from(0..self.members.len(), disks, most).await
    }

    /// Waits until these hosts see the disks healthy.
    pub async fn wait_healthy_from(&self, at: Range<usize>, disks: &[String], most: Duration) -> Result<(), String> {
        let until = self.world.now() + most;
        let mut last = String::new();
        while self.world.now() < until {
            match self.not_healthy(at.clone(), disks).await {
                None => return Ok(()),
                Some(how) => last = how,
            }
            self.world.sleep(Duration::from_millis(700)).await;
        }
        Err(format!("liveness: not healthy after {} s: {last}", most.as_secs()))
    }

    /// Waits until each disk is healthy or lacks nothing but blocks that no copy can give, as its owner's host sees it. The text says
    /// how it is instead.
    pub async fn wait_for_restorable(&self, disks: &[String], most: Duration) -> Result<(), String> {
        let until = self.world.now() + most;
        for disk in disks {
            loop {
                let name = disk.to_owned();
                let how = match self.manage(0, async move |node| node.disk_show(name).await).await {
                    Ok(shown) if is_restorable(&shown.summary) => break,
                    Ok(shown) => format!("{:?} {:?}", shown.summary.health, shown.summary.reasons),
                    Err(error) => error.to_string(),
                };
                if self.world.now() >= until {
                    return Err(format!(
                        "liveness: {disk} waits for more than bad blocks after {} s: {how}",
                        most.as_secs()
                    ));
                }
                self.world.sleep(Duration::from_millis(700)).await;
            }
        }
        Ok(())
    }

    async fn not_healthy(&self, at: Range<usize>, disks: &[String]) -> Option<String> {
        for disk in disks {
            for n in at.clone() {
                let name = disk.to_owned();
                match self.manage(n, async move |node| node.disk_show(name).await).await {
                    Ok(shown) if shown.summary.health == v1::DiskHealth::Healthy => {}
                    Ok(shown) => {
                        let summary = shown.summary;
                        let (health, reasons, owner) = (summary.health, summary.reasons, summary.owner);
                        return Some(format!("{disk} seen from h{n}: {health:?} {reasons:?} owner {owner:?}"));
                    }
                    Err(error) => return Some(format!("{disk} seen from h{n}: {error}")),
                }
            }
        }
        None
    }
}
