//! One host of the process: its shard, its node, its front ends, its end of the management bridge.

use std::{rc::Rc, sync::Arc, time::Duration};

use cairn_api::{Management, v1};
use cairn_directory::{HostEntry, Name};
use cairn_directory_etcd::{MembersTold, load_local_copy, local_copy_path};
use cairn_env_linux::{Executor, Fabric, Host, HostConfig, HostEnd, LinuxEnv, Machine};
use cairn_node::{Node, NodeExports, NodeOptions};
use cairn_object::{LeaseOptions, ObjectOptions};
use cairn_types::Build;
use cairn_upgrade::may_start;
use futures::{FutureExt as _, channel::oneshot, future::LocalBoxFuture};
use tokio::sync::watch;

use crate::{
    bridge::{Bridge, BridgeEnd, bridge},
    config::DiskGroupConfig,
    engine::{
        directory::ClusterDirectory,
        fronts::{Fronts, Passage},
        outside::{Copies, Process, load_groups},
        shards::Siblings,
    },
    identity::Identity,
    plan::{HostPlan, Plan},
    supervise::StartError,
};

/// Heartbeats in a lease: three may be lost.
const HEARTBEATS_PER_LEASE: u32 = 4;

/// What a host is made of.
#[derive(Clone, Copy)]
pub struct HostParts<'a> {
    /// The process's plan.
    pub plan: &'a Plan,
    /// The host's part of it.
    pub host: &'a HostPlan,
    /// The directory.
    pub directory: &'a ClusterDirectory,
    /// The thread that it runs on.
    pub executor: &'a Executor,
    /// What joins it to other hosts of this process.
    pub fabric: Option<&'a Fabric>,
}

/// Tells how a shard ended, to any number of listeners.
#[derive(Clone)]
pub struct Ended(watch::Receiver<Option<String>>);

impl Ended {
    /// Waits for the end.
    pub async fn wait(mut self) -> String {
        match self.0.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "killed".into(),
        }
    }
}

/// A host that runs.
pub struct RunningHost {
    pub(super) bridge: Arc<Bridge<Node<LinuxEnv>>>,
    /// How it ends.
    pub ended: Ended,
    host: Host,
    stop: oneshot::Sender<()>,
}

impl RunningHost {
    /// Management calls to it. Not inlined: whoever inlines it compiles what stands behind every call.
    #[inline(never)]
    pub fn management(&self) -> Arc<dyn Management> {
        self.bridge.clone()
    }

    /// Gives up its disks, closes its disk groups, ends.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.ended.wait().await;
    }

    /// Ends it as a power cut would: no goodbye, nothing flushed.
    pub async fn kill(self) {
        self.host.kill().await;
    }
}

/// Starts a host and waits until it serves.
///
/// # Errors
/// What failed, with the remedy.
pub fn start_host(
    parts: HostParts<'_>,
    identity: Arc<Identity>,
    siblings: Siblings,
) -> LocalBoxFuture<'_, Result<RunningHost, StartError>> {
    start_one(parts, identity, siblings).boxed_local()
}

async fn start_one(
    parts: HostParts<'_>,
    identity: Arc<Identity>,
    siblings: Siblings,
) -> Result<RunningHost, StartError> {
    let HostParts { host: host_plan, directory, executor, fabric, .. } = parts;
    let copy =
        load_local_copy(&local_copy_path(&host_plan.data_dir), directory.cluster).map_err(StartError::refused)?;
    let known = directory.level.into_iter().chain(copy.level()).max();
    let level = may_start(&this_build(), known).map_err(StartError::refused)?;
    let host = Host::new(HostConfig {
        cluster: directory.cluster,
        host: identity.host(),
        incarnation: identity.incarnation(),
        build: this_build(),
        level,
        listen: host_plan.peers,
        fabric: fabric.cloned(),
    })
    .map_err(StartError::refused)?;
    let options = node_options(parts, &host, &siblings)?;
    let groups = load_groups(&host_plan.data_dir).map_err(StartError::refused)?;
    let (bridge, end) = bridge();
    let (stop, stopped) = oneshot::channel();
    let (ready, is_ready) = oneshot::channel();
    let start = ShardStart {
        plan: host_plan.clone(),
        options,
        groups,
        copy,
        registry: directory.registry.clone(),
        // One voice: a shard that lags behind would tell what was.
        members: directory.members_told().filter(|_| siblings.ids.first() == Some(&host.id())),
        host: host.clone(),
        siblings,
        end,
        stopped,
        ready,
        // The lock on the data directory lives as long as the shard that uses it.
        identity,
    };
    let handle = host.start(executor, move |env| start.run(env)).map_err(StartError::refused)?;
    let (tell, ended) = watch::channel(None);
    tokio::spawn(async move {
        let how = match handle.ended().await {
            HostEnd::Returned => "stopped".to_owned(),
            HostEnd::Killed => "killed".to_owned(),
            HostEnd::Panicked(words) => format!("a broken invariant: {words}"),
        };
        let _ = tell.send(Some(how));
    });
    match is_ready.await {
        Ok(Ok(())) => Ok(RunningHost { bridge: Arc::new(bridge), ended: Ended(ended), host, stop }),
        Ok(Err(text)) => Err(StartError::refused(text)),
        Err(_) => Err(StartError::refused(format!(
            "host {} ended while it started: {}",
            host_plan.name,
            Ended(ended).wait().await
        ))),
    }
}

/// This program, as its peers are told of it.
fn this_build() -> Build {
    Build { version: env!("CARGO_PKG_VERSION").to_owned(), speaks: cairn_wire::SPEAKS }
}

fn node_options(parts: HostParts<'_>, host: &Host, siblings: &Siblings) -> Result<NodeOptions, StartError> {
    let HostParts { plan, host: host_plan, directory, .. } = parts;
    let name = |text: &str| Name::new(text).map_err(|e| StartError::refused(e.to_string()));
    let lease = Duration::from_millis(directory.lease_ms);
    let mut nbd_addresses = Vec::new();
    if let Some(mut nbd) = host_plan.nbd {
        // "Everywhere" is no address to go to: the one that peers use is one of this machine.
        if let Some(advertised) = host_plan.advertise.filter(|_| nbd.ip().is_unspecified()) {
            nbd.set_ip(advertised.ip());
        }
        nbd_addresses.push(format!("nbd://{nbd}"));
    }
    if let Some(socket) = &host_plan.nbd_socket {
        nbd_addresses.push(format!("nbd+unix:///?socket={}", socket.display()));
    }
    let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    Ok(NodeOptions {
        cluster: directory.cluster,
        entry: HostEntry {
            name: name(&host_plan.name)?,
            fault_domain: name(&host_plan.fault_domain)?,
            peer_address: host_plan.advertise.or(host.address()).unwrap_or(nowhere),
            api_address: plan.api.tcp,
            nbd_addresses,
            vhost_user_dir: host_plan.vhost_user_dir.as_ref().map(|folder| folder.display().to_string()),
            shard_of: siblings.first_beside(host.id()),
            build: Some(this_build()),
        },
        shards: siblings.ids.clone(),
        directory_kind: directory.kind.to_owned(),
        leases: LeaseOptions { lease, heartbeat: lease / HEARTBEATS_PER_LEASE },
        objects: ObjectOptions {
            repair_delay: Duration::from_secs(plan.settings.repair_delay_s),
            ..ObjectOptions::default()
        },
        store_format: plan.store_format.clone(),
        store_open: plan.store_open.clone(),
        chunk_bytes_max: cairn_types::CHUNK_BYTES_MAX,
    })
}

/// What goes to the shard's thread.
struct ShardStart {
    plan: HostPlan,
    options: NodeOptions,
    groups: Vec<cairn_node::GroupPaths>,
    copy: cairn_directory::LocalCopy,
    registry: cairn_directory::Registry,
    members: Option<MembersTold>,
    host: Host,
    siblings: Siblings,
    end: BridgeEnd<Node<LinuxEnv>>,
    stopped: oneshot::Receiver<()>,
    ready: oneshot::Sender<Result<(), String>>,
    identity: Arc<Identity>,
}

impl ShardStart {
    async fn run(self, env: LinuxEnv) {
        self.host.name_peer(self.host.id(), self.plan.name.clone());
        let process = Process {
            env: env.clone(),
            host: self.host,
            data_dir: self.plan.data_dir.clone(),
            name: self.plan.name.clone(),
            media: self.plan.media.clone(),
            machine: Machine::at(&self.plan.machine_root),
            siblings: self.siblings.ids.clone(),
            members: self.members,
            copies: Copies::default(),
            fronts: Fronts::default(),
        };
        let fronts = process.fronts.clone();
        let node = Node::start(env, self.options, Rc::new(process), self.registry, self.copy, self.groups).await;
        if let Err(text) = begin(&node, &self.plan, self.siblings, &fronts).await {
            let _ = self.ready.send(Err(text));
            return;
        }
        let _ = self.ready.send(Ok(()));
        let calls = self.end.serve(Rc::new(node.clone()));
        // A host that is gone goes on telling so, until it is stopped: a daemon that ended would be started again.
        let leaving = async {
            node.dismissed().await;
            fronts.stop().await;
            node.leave().await;
            std::future::pending::<()>().await;
        };
        let until = futures::future::select(self.stopped, Box::pin(node.outgrown()));
        let served = futures::future::select(Box::pin(calls), Box::pin(leaving));
        futures::future::select(served, until).await;
        fronts.stop().await;
        node.stop().await;
        drop(self.identity);
    }
}

/// Disk groups that the configuration asks for; then the front ends. One bad disk group keeps no host down.
async fn begin(node: &Node<LinuxEnv>, plan: &HostPlan, siblings: Siblings, fronts: &Fronts) -> Result<(), String> {
    if node.why_dismissed().is_some() {
        return Ok(());
    }
    for group in &plan.disk_groups {
        node.have_disk_group(request(group)).await;
    }
    let passage = Passage { doors: siblings.doors, entrance: siblings.entrance };
    fronts.open(&NodeExports::new(node), plan, passage).await
}

fn request(group: &DiskGroupConfig) -> v1::DiskGroupCreate {
    let files = group.cache_size.zip(group.capacity_size);
    v1::DiskGroupCreate {
        host: None,
        cache: group.cache.display().to_string(),
        capacity: group.capacity.iter().map(|c| c.display().to_string()).collect(),
        files: files.map(|(cache, capacity)| v1::DiskGroupFiles { cache_bytes: cache.0, capacity_bytes: capacity.0 }),
        overwrite: false,
    }
}
