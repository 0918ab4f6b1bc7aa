//! Hosts that run real nodes over the simulator: disks, links and clocks are the world's, the rest is the product.
//!
//! Promises    a host that restarts has what a real one has: its devices, its list of disk groups, its local copy
//! Not here    what is asked of the cluster (`model`), what happens to it (`faults`)

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use cairn_api::{ApiResult, LocalManagement, v1};
use cairn_directory::{ClusterSettings, Embedded, Gate, HostEntry, LocalCopy, Name, Registry};
use cairn_node::{GroupPaths, GroupStore, Node, NodeOptions, Outside};
use cairn_object::{DiskClient, LeaseOptions, ObjectEvent, ObjectOptions};
use cairn_sim::{Host, SimDisk, SimEnv, World};
use cairn_store::StoreOptions;
use cairn_types::{ClusterId, DiskGroupId, HostId, Policy};
use futures::{
    channel::oneshot,
    future::{Either, LocalBoxFuture, select},
};

pub const CLUSTER: ClusterId = ClusterId(0xC1);
/// The lease of simulated clusters: the product's default.
pub const LEASE: Duration = Duration::from_secs(2);
/// Short, so that a run sees repairs.
pub const REPAIR_DELAY: Duration = Duration::from_secs(20);
/// How long a guest's request waits in these clusters.
pub const PATIENCE: Duration = Duration::from_secs(20);
const CACHE_BYTES: u64 = 64 << 20;
const CAPACITY_BYTES: u64 = 200 << 20;
const LOG_LINES: usize = 400;

pub type Client = DiskClient<SimEnv, GroupStore<SimEnv>>;

/// What happened, newest last: printed when a seed fails.
#[derive(Clone)]
pub struct Log {
    lines: Rc<RefCell<VecDeque<String>>>,
    world: Rc<dyn Fn() -> Duration>,
    print: bool,
}

impl Log {
    fn new(world: &World) -> Self {
        let weak = world.clone();
        let print = std::env::var_os("CAIRN_SIM_PRINT").is_some();
        Self { lines: Rc::default(), world: Rc::new(move || weak.now()), print }
    }

    pub fn add(&self, line: String) {
        let line = format!("{:>10.4} {line}", (self.world)().as_secs_f64());
        if self.print {
            eprintln!("{line}");
        }
        let mut lines = self.lines.borrow_mut();
        lines.push_back(line);
        if lines.len() > LOG_LINES {
            lines.pop_front();
        }
    }

    pub fn text(&self) -> String {
        self.lines.borrow().iter().cloned().collect::<Vec<_>>().join("\n")
    }
}

/// What a host's file system keeps over a crash.
#[derive(Default)]
struct Saved {
    groups: Vec<GroupPaths>,
    copy: Option<Vec<u8>>,
}

struct SimOutside {
    host: Host,
    saved: Rc<RefCell<Saved>>,
    log: Log,
}

impl Outside<SimEnv> for SimOutside {
    fn connect(&self, _: HostId, _: SocketAddr) {}

    fn open_device(&self, path: String, _: Option<u64>) -> LocalBoxFuture<'static, Result<SimDisk, String>> {
        let disk = self.host.disk(&path);
        Box::pin(async move { Ok(disk) })
    }

    fn remove_file(&self, _: &str) {}

    fn save_groups(&self, groups: &[GroupPaths]) -> Result<(), String> {
        self.saved.borrow_mut().groups = groups.to_vec();
        Ok(())
    }

    fn save_local_copy(&self, json: Vec<u8>) {
        self.saved.borrow_mut().copy = Some(json);
    }

    fn disk_group_here(&self, _: DiskGroupId) {}

    fn disk_group_gone(&self, _: DiskGroupId) {}

    fn event(&self, event: ObjectEvent) {
        self.log.add(format!("{}: {event:?}", self.host.name()));
    }

    fn warn(&self, text: String) {
        self.log.add(format!("{}: warning: {text}", self.host.name()));
    }
}

/// One host of the cluster.
pub struct Member {
    pub host: Host,
    pub gate: Arc<Gate>,
    node: Rc<RefCell<Option<Node<SimEnv>>>>,
    clients: RefCell<BTreeMap<String, (u64, Client)>>,
}

/// A cluster. Clones are the same one.
#[derive(Clone)]
pub struct Cluster {
    pub world: World,
    pub log: Log,
    pub members: Rc<Vec<Member>>,
    /// Faults injected, by kind.
    pub counts: Rc<RefCell<BTreeMap<&'static str, u64>>>,
}

/// The future did not end in time, or its host's process did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Crashed,
    TimedOut,
}

fn store_options() -> StoreOptions {
    StoreOptions {
        metadata_bytes: Some(24 << 20),
        log_bytes: Some(32 << 20),
        log_segment_bytes: Some(4 << 20),
        segment_bytes: 4 << 20,
        read_cache_bytes: 1 << 20,
        map_cache_bytes: 1 << 20,
        destage_percent: 15,
        idle_destage_ms: 300,
        ..StoreOptions::default()
    }
}

fn node_options(name: &str) -> NodeOptions {
    let text = Name::new(name).expect("a host's name");
    NodeOptions {
        cluster: CLUSTER,
        entry: HostEntry {
            name: text.clone(),
            fault_domain: text,
            peer_address: SocketAddr::from(([127, 0, 0, 1], 0)),
            api_address: None,
            nbd_addresses: Vec::new(),
            maintenance: false,
        },
        directory_kind: "embedded".into(),
        version: "sim".into(),
        leases: LeaseOptions { lease: LEASE, heartbeat: LEASE / 4 },
        objects: ObjectOptions { repair_delay: REPAIR_DELAY, guest_patience: PATIENCE, ..ObjectOptions::default() },
        store: store_options(),
    }
}

impl Cluster {
    /// Hosts with a disk group each, and a disk of `size_bytes` on them. Returns when all is up.
    pub fn new(seed: u64, hosts: usize, disk: &str, size_bytes: u64, rules: Option<v1::PolicyRules>) -> Self {
        let world = World::new(seed);
        let log = Log::new(&world);
        let directory = Embedded::in_memory(CLUSTER);
        let name = |text: &str| Name::new(text).expect("a name");
        let mut settings = ClusterSettings::new(CLUSTER, name("sim"), name("default"));
        settings.repair_delay_ms = REPAIR_DELAY.as_millis() as u64;
        let registry = Registry::new(directory.clone());
        world
            .block_on(async move { registry.init_cluster(&settings, &Policy::default()).await.map(drop) })
            .expect("an empty directory takes its first settings");
        let members = (0..hosts)
            .map(|n| Self::start_member(&world, &log, &format!("h{n}"), Gate::new(directory.clone())))
            .collect();
        let cluster = Self { world, log, members: Rc::new(members), counts: Rc::default() };
        cluster.set_up(disk, size_bytes, rules);
        cluster
    }

    fn start_member(world: &World, log: &Log, name: &str, gate: Arc<Gate>) -> Member {
        let host = world.add_host(name);
        host.add_disk("cache", CACHE_BYTES);
        host.add_disk("capacity", CAPACITY_BYTES);
        host.add_disk("capacity-2", CAPACITY_BYTES);
        // Rates of real clocks differ by some millionths; the lease's margin has to cover that.
        host.set_clock_rate_ppm(world.random_below(301) as i64 - 150);
        let saved: Rc<RefCell<Saved>> = Rc::default();
        let node: Rc<RefCell<Option<Node<SimEnv>>>> = Rc::default();
        let (world_host, slot, way, log, name) =
            (host.clone(), node.clone(), gate.clone(), log.clone(), name.to_owned());
        host.set_program(move |env| {
            let outside = Rc::new(SimOutside { host: world_host.clone(), saved: saved.clone(), log: log.clone() });
            let copy = saved.borrow().copy.clone();
            let copy = copy.map_or_else(
                || LocalCopy::empty(CLUSTER),
                |json| LocalCopy::from_json(&json, CLUSTER).expect("our own copy loads"),
            );
            let groups = saved.borrow().groups.clone();
            let (slot, options, registry) = (slot.clone(), node_options(&name), Registry::new(way.clone()));
            slot.borrow_mut().take();
            let log = log.clone();
            let name = name.clone();
            async move {
                let node = Node::start(env, options, outside, registry, copy, groups).await;
                log.add(format!("{name}: started"));
                *slot.borrow_mut() = Some(node);
                std::future::pending::<()>().await;
            }
        });
        Member { host, gate, node, clients: RefCell::default() }
    }

    fn set_up(&self, disk: &str, size_bytes: u64, rules: Option<v1::PolicyRules>) {
        let (cluster, disk) = (self.clone(), disk.to_owned());
        self.world.block_on(async move {
            for n in 0..cluster.members.len() {
                let request = v1::DiskGroupCreate {
                    host: None,
                    cache: "cache".into(),
                    capacity: vec!["capacity".into(), "capacity-2".into()],
                    files: None,
                    overwrite: false,
                };
                let made = cluster.manage(n, async move |node| node.disk_group_create(request).await.map(drop)).await;
                made.expect("a disk group on empty disks");
            }
            // Heartbeats tell everyone of the groups.
            cluster.world.sleep(Duration::from_secs(3)).await;
            let policy = rules.as_ref().map(|_| "special".to_owned());
            if let Some(rules) = rules {
                let request = v1::PolicyCreate { name: "special".into(), rules };
                cluster.manage(0, async move |node| node.policy_create(request).await).await.expect("a policy");
            }
            cluster.create_disk(0, &disk, size_bytes, policy).await.expect("a disk on empty groups");
        });
    }

    pub async fn create_disk(
        &self,
        at: usize,
        disk: &str,
        size_bytes: u64,
        policy: Option<String>,
    ) -> ApiResult<v1::Disk> {
        let request = v1::DiskCreate { name: disk.into(), size_bytes, policy, host: None };
        self.manage(at, async move |node| node.disk_create(request).await).await
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

    pub fn count(&self, kind: &'static str) {
        *self.counts.borrow_mut().entry(kind).or_default() += 1;
    }

    /// Ends every fault: links, pauses, gates, dead hosts.
    pub fn heal_everything(&self) {
        self.log.add("everything is healed".into());
        self.world.heal_all();
        for member in self.members.iter() {
            member.gate.set_shut(false);
            member.host.resume();
            if !member.host.is_up() {
                member.host.restart();
            }
        }
    }

    /// Waits until every host sees the disk healthy. The text says how it is instead.
    pub async fn wait_healthy(&self, disk: &str, most: Duration) -> Result<(), String> {
        let until = self.world.now() + most;
        let mut last = String::new();
        while self.world.now() < until {
            let mut good = true;
            for n in 0..self.members.len() {
                let name = disk.to_owned();
                match self.manage(n, async move |node| node.disk_show(name).await).await {
                    Ok(shown) if shown.summary.health == v1::DiskHealth::Healthy => {}
                    Ok(shown) => {
                        good = false;
                        last = format!(
                            "h{n}: {:?} {:?} owner {:?}",
                            shown.summary.health, shown.summary.reasons, shown.summary.owner
                        );
                    }
                    Err(error) => {
                        good = false;
                        last = format!("h{n}: {error}");
                    }
                }
            }
            if good {
                return Ok(());
            }
            self.world.sleep(Duration::from_millis(700)).await;
        }
        Err(format!("not healthy after {} s: {last}", most.as_secs()))
    }
}
