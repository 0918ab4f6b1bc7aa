//! One host process as seen from its shards: identity, the way from a route to a shard, peers, life and death.
//!
//! Promises    H1  a message reaches the shard that its route names, whichever thread it came in on
//!             H2  a killed host is over when [`Host::kill`] returns: no task, no device request, no blocking job of it is left
//! Assumes     all shards of a host are started in this process
//! Not here    sockets (`net`), threads (`executor`)

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use cairn_env::{NetEvent, Route};
use cairn_types::{ClusterId, DiskGroupId, HostId, Incarnation};
use futures::channel::oneshot;
use tokio::task::LocalSet;

use crate::{
    Executor, Fabric, LinuxEnv, ShardEnd, ShardHandle,
    env::random_word,
    executor::{EndCell, ExecutorLink, ShardSlot, guarded},
    inbox::{BYTES_MAX, Inbox},
    io::InFlight,
    net::{self, Command, Connections, Health, NetPort, PeerHealth, RefusedConnection},
};

/// What a host process is.
#[derive(Clone)]
pub struct HostConfig {
    /// The cluster; connections of other clusters are refused.
    pub cluster: ClusterId,
    /// This host.
    pub host: HostId,
    /// This process of the host.
    pub incarnation: Incarnation,
    /// The version of the message bodies; peers of another version are refused.
    pub protocol: u32,
    /// How many shards the process has, from 1.
    pub shards: u8,
    /// Where peers connect; `None` for a host that lives in a [`Fabric`] only. Port 0 asks for a free one.
    pub listen: Option<SocketAddr>,
    /// The fabric that joins it to other hosts of this process.
    pub fabric: Option<Fabric>,
}

/// Why a host or a shard does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        cause: io::Error,
    },
    /// A live host with this id is in the fabric.
    #[error("host {0} is already running in this process: stop it first, or use another id")]
    Twice(HostId),
    /// The shard does not exist, or was started before.
    #[error("shard {shard} of host {host} does not exist, or was started before")]
    NoSuchShard {
        /// The host.
        host: HostId,
        /// The shard.
        shard: u8,
    },
}

/// What concerns one shard and any thread may touch.
#[derive(Default)]
pub(crate) struct ShardPort {
    pub inbox: Inbox,
    pub net: NetPort,
    started: AtomicBool,
    /// The executor and the key there, for killing it.
    place: Mutex<Option<(Arc<ExecutorLink>, u64)>>,
}

/// What all shards of a host share.
pub(crate) struct HostShared {
    pub cluster: ClusterId,
    pub host: HostId,
    pub incarnation: Incarnation,
    pub protocol: u32,
    pub fabric: Option<Fabric>,
    pub shards: Vec<ShardPort>,
    /// Drawn at the start: tells two processes of one incarnation apart.
    pub process: u64,
    pub health: Health,
    /// Live connections from peers.
    pub connections: Mutex<Connections>,
    /// Set when the host is dying: blocking jobs that still run must not touch its disks any more.
    pub dead: Arc<AtomicBool>,
    running: AtomicUsize,
    not_started: AtomicUsize,
    disk_groups: RwLock<BTreeMap<DiskGroupId, u8>>,
}

/// Keys of shards on executors; unique within the process.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

impl HostShared {
    /// The shard that a route names. An unknown disk group goes to shard 0, which can say that it is unknown.
    pub fn resolve(&self, route: Route) -> usize {
        let count = self.shards.len();
        match route {
            Route::Host => 0,
            Route::DiskGroup(group) => {
                let groups = self.disk_groups.read().expect("nothing panics here");
                groups.get(&group).map_or(0, |&shard| usize::from(shard))
            }
            // Object ids are random: any bits of them spread evenly.
            Route::Object(object) => (object.0 % count as u128) as usize,
            // A number that this process does not have: an answer to a shard of an earlier configuration.
            Route::Shard(shard) => usize::from(shard) % count,
        }
    }

    /// An event for every shard.
    pub fn tell_all(&self, event: &NetEvent) {
        for shard in &self.shards {
            shard.inbox.push_always(event.clone());
        }
    }

    /// Delivers to a shard of this host from a host of the same process; false where the inbox is full.
    pub fn deliver(&self, event: NetEvent, route: Route, bounded: bool) -> bool {
        let bytes_max = if bounded { BYTES_MAX } else { usize::MAX };
        let shard = &self.shards[self.resolve(route)];
        shard.inbox.push(event, bytes_max)
    }

    pub fn register_disk_group(&self, group: DiskGroupId, shard: u8) {
        let mut groups = self.disk_groups.write().expect("nothing panics here");
        groups.insert(group, shard);
    }

    pub fn forget_disk_group(&self, group: DiskGroupId) {
        let mut groups = self.disk_groups.write().expect("nothing panics here");
        groups.remove(&group);
    }

    pub fn set_peer(&self, peer: HostId, address: SocketAddr) {
        for shard in &self.shards {
            shard.net.send(Command::SetPeer(peer, address));
        }
    }

    pub fn remove_peer(&self, peer: HostId) {
        for shard in &self.shards {
            shard.net.send(Command::RemovePeer(peer));
        }
    }

    fn kill_shards(&self) {
        self.dead.store(true, Ordering::Release);
        for shard in &self.shards {
            let place = shard.place.lock().expect("nothing panics here").clone();
            if let Some((link, key)) = place {
                link.kill(key);
            }
        }
    }

    /// Called on a shard's thread when its tasks were dropped.
    fn on_shard_end(self: &Arc<Self>, end: &ShardEnd) {
        if *end != ShardEnd::Returned {
            self.kill_shards();
        }
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(fabric) = &self.fabric
        {
            fabric.leave(self);
        }
    }
}

/// A host process. Cheap to clone; all clones are the same host.
#[derive(Clone)]
pub struct Host {
    shared: Arc<HostShared>,
    listener: Arc<Mutex<Option<TcpListener>>>,
    address: Option<SocketAddr>,
    /// How the shards ended, for `kill` to wait on.
    ended: Arc<Mutex<Vec<oneshot::Receiver<()>>>>,
}

impl Host {
    /// Describes a host and takes its listening port; nothing is accepted before shard 0 is started.
    ///
    /// # Errors
    /// - [`StartError::Listen`]: the address is taken or not of this machine.
    ///
    /// # Panics
    /// On no shards.
    pub fn new(config: HostConfig) -> Result<Self, StartError> {
        assert!(config.shards > 0, "a host has at least one shard");
        let (listener, address) = match config.listen {
            None => (None, None),
            Some(address) => {
                let (listener, bound) = listen(address).map_err(|cause| StartError::Listen { address, cause })?;
                (Some(listener), Some(bound))
            }
        };
        let count = usize::from(config.shards);
        let shared = HostShared {
            cluster: config.cluster,
            host: config.host,
            incarnation: config.incarnation,
            protocol: config.protocol,
            fabric: config.fabric,
            shards: (0..count).map(|_| ShardPort::default()).collect(),
            process: random_word(),
            health: Health::default(),
            connections: Mutex::default(),
            dead: Arc::default(),
            running: AtomicUsize::new(0),
            not_started: AtomicUsize::new(count),
            disk_groups: RwLock::default(),
        };
        Ok(Self { shared: Arc::new(shared), listener: Arc::new(Mutex::new(listener)), address, ended: Arc::default() })
    }

    /// This host's id.
    pub fn id(&self) -> HostId {
        self.shared.host
    }

    /// Where it listens, with the port that it got.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Dials this peer there, from all shards; a new address replaces the old one and its connections.
    /// Without meaning for hosts of the same fabric.
    pub fn set_peer(&self, peer: HostId, address: SocketAddr) {
        self.shared.set_peer(peer, address);
    }

    /// Ends the links to this peer and dials it no more.
    pub fn remove_peer(&self, peer: HostId) {
        self.shared.remove_peer(peer);
    }

    /// How the links stand, by peer and shard.
    pub fn peers(&self) -> Vec<PeerHealth> {
        self.shared.health.peers()
    }

    /// The last connections from outside that were turned away, by reason.
    pub fn refused(&self) -> Vec<RefusedConnection> {
        self.shared.health.refused()
    }

    /// Starts a shard on an executor; `main` makes its main task, and the shard ends when that returns: what it spawned is
    /// dropped, and so are messages that have not left yet.
    /// The host joins its fabric when all its shards are started.
    ///
    /// # Errors
    /// - [`StartError::NoSuchShard`], [`StartError::Twice`]: nothing was started.
    pub fn start_shard<F>(
        &self,
        executor: &Executor,
        shard: u8,
        main: impl FnOnce(LinuxEnv) -> F + Send + 'static,
    ) -> Result<ShardHandle, StartError>
    where
        F: Future<Output = ()> + 'static,
    {
        let shared = self.shared.clone();
        let no_such = StartError::NoSuchShard { host: shared.host, shard };
        let Some(port) = shared.shards.get(usize::from(shard)) else {
            return Err(no_such);
        };
        if port.started.swap(true, Ordering::AcqRel) || shared.dead.load(Ordering::Acquire) {
            return Err(no_such);
        }
        shared.running.fetch_add(1, Ordering::AcqRel);
        if shared.not_started.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(fabric) = &shared.fabric
            && !fabric.join(&shared)
        {
            shared.running.fetch_sub(1, Ordering::AcqRel);
            shared.kill_shards();
            return Err(StartError::Twice(shared.host));
        }
        let key = NEXT_KEY.fetch_add(1, Ordering::Relaxed);
        *port.place.lock().expect("nothing panics here") = Some((executor.link().clone(), key));
        let (ended, handle) = oneshot::channel();
        let (over, is_over) = oneshot::channel();
        self.ended.lock().expect("nothing panics here").push(is_over);
        let shared = self.shared.clone();
        let listener = match shard {
            0 => self.listener.lock().expect("nothing panics here").take(),
            _ => None,
        };
        executor.start(Box::new(move |backend| {
            let end = EndCell::default();
            // A kill that came before this start found nothing to kill.
            if shared.dead.load(Ordering::Acquire) {
                end.borrow_mut().get_or_insert(ShardEnd::Killed);
            }
            let in_flight = InFlight::default();
            let env = LinuxEnv::new(shared.clone(), shard, backend.clone(), in_flight.clone(), end.clone());
            let tasks = LocalSet::new();
            if let Some(listener) = listener {
                tasks.spawn_local(guarded(net::accept(env.clone(), listener), end.clone()));
            }
            tasks.spawn_local(guarded(net::run(env.clone()), end.clone()));
            let main_end = end.clone();
            let main_task = async move {
                main(env).await;
                main_end.borrow_mut().get_or_insert(ShardEnd::Returned);
            };
            tasks.spawn_local(guarded(main_task, end.clone()));
            ShardSlot {
                key,
                tasks: Some(tasks),
                end,
                in_flight,
                on_end: Some(Box::new(move |end| shared.on_shard_end(end))),
                over: Some(over),
                ended: Some(ended),
            }
        }));
        Ok(ShardHandle::new(handle))
    }

    /// Ends the host as `kill -9` would: its tasks are dropped where they stand, its sockets closed, its peers in the
    /// fabric told that the process is gone. Returns when nothing of it is left, its disks' locks included; then a
    /// new [`Host`] with the same id and a higher incarnation may start.
    ///
    /// Not to be awaited on an executor that runs a shard of this host.
    pub async fn kill(&self) {
        self.shared.kill_shards();
        self.over().await;
    }

    /// [`Self::kill`] for a thread that may block.
    pub fn kill_wait(&self) {
        futures::executor::block_on(self.kill());
    }

    /// Waits until all its shards have ended.
    pub async fn over(&self) {
        self.listener.lock().expect("nothing panics here").take();
        let ended = std::mem::take(&mut *self.ended.lock().expect("nothing panics here"));
        for shard in ended {
            let _ = shard.await;
        }
    }
}

/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 1024;

/// A listening socket that does not block.
fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // The standard library asks for 128 only: a burst beyond that waits seconds for its SYN to be sent again.
    rustix::net::listen(&listener, BACKLOG)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}
