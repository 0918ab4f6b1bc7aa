//! One host: identity, inbox, peers, life and death. It lives on one thread; several of a process may be a server's shards.
//!
//! Promises    H1  a killed host is over when [`Host::kill`] returns: no task, no device request, no blocking job of it is left
//! Not here    sockets (`net`), threads (`executor`)

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use cairn_env::NetEvent;
use cairn_types::{Build, ClusterId, HostId, Incarnation, Level};
use futures::channel::oneshot;
use tokio::task::LocalSet;

use crate::{
    Executor, Fabric, HostEnd, HostHandle, LinuxEnv,
    env::random_word,
    executor::{EndCell, ExecutorLink, HostSlot, guarded},
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
    /// The program that it runs.
    pub build: Build,
    /// The level of the cluster, as far as the host knows before it has asked; peers that do not speak it are refused.
    pub level: Level,
    /// Where peers connect; `None` for a host that lives in a [`Fabric`] only. Port 0 asks for a free one.
    pub listen: Option<SocketAddr>,
    /// The fabric that joins it to other hosts of this process.
    pub fabric: Option<Fabric>,
}

/// Why a host does not start.
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
    /// It was started before, or killed.
    #[error("host {0} was started before")]
    Over(HostId),
}

/// What other threads may touch of a host.
pub(crate) struct HostShared {
    pub cluster: ClusterId,
    pub host: HostId,
    pub incarnation: Incarnation,
    pub build: Build,
    level: AtomicU32,
    pub fabric: Option<Fabric>,
    pub inbox: Inbox,
    pub net: NetPort,
    /// Drawn at the start: tells two processes of one incarnation apart.
    pub process: u64,
    pub health: Health,
    /// What people call the hosts that are known.
    pub names: Mutex<BTreeMap<HostId, String>>,
    /// Hosts that are no part of the cluster any more, each with what it is told.
    pub shut_out: Mutex<BTreeMap<HostId, String>>,
    /// Live connections from peers.
    pub connections: Mutex<Connections>,
    /// Set when the host is dying: blocking jobs that still run must not touch its disks any more.
    pub dead: Arc<AtomicBool>,
    started: AtomicBool,
    /// The executor and the key there, for killing it.
    place: Mutex<Option<(Arc<ExecutorLink>, u64)>>,
}

/// Keys of hosts on executors; unique within the process.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

impl HostShared {
    /// Delivers from a host of the same process; false where the inbox is full.
    pub fn deliver(&self, event: NetEvent, bounded: bool) -> bool {
        let bytes_max = if bounded { BYTES_MAX } else { usize::MAX };
        self.inbox.push(event, bytes_max)
    }

    pub fn set_peer(&self, peer: HostId, address: SocketAddr) {
        self.shut_out.lock().expect("nothing panics here").remove(&peer);
        self.net.send(Command::SetPeer(peer, address));
    }

    /// The level that this host takes the cluster for.
    pub fn level(&self) -> Level {
        Level(self.level.load(Ordering::Acquire))
    }

    /// From now on the cluster is at this level: who does not speak it is turned away. Our own links look for themselves.
    pub fn set_level(&self, level: Level) {
        self.level.store(level.0, Ordering::Release);
        self.end_inbound_below(level);
    }

    /// The name of a host, its id where it has none.
    pub fn peer_name(&self, peer: HostId) -> String {
        let names = self.names.lock().expect("nothing panics here");
        names.get(&peer).cloned().unwrap_or_else(|| peer.to_string())
    }

    pub fn remove_peer(&self, peer: HostId) {
        self.net.send(Command::RemovePeer(peer));
    }

    /// A host is no part of the cluster any more: it is dialled no more, and turned away with these words.
    pub fn shut_out(&self, peer: HostId, words: String) {
        self.shut_out.lock().expect("nothing panics here").insert(peer, words);
        self.remove_peer(peer);
        self.end_inbound(peer);
    }

    /// What a host that is no part of the cluster any more is told.
    pub fn why_shut_out(&self, peer: HostId) -> Option<String> {
        self.shut_out.lock().expect("nothing panics here").get(&peer).cloned()
    }

    /// The longest turn of its thread of late.
    pub fn turn_longest(&self) -> Duration {
        let place = self.place.lock().expect("nothing panics here");
        place.as_ref().map_or(Duration::ZERO, |(link, _)| link.turn_longest())
    }

    fn kill(&self) {
        self.dead.store(true, Ordering::Release);
        let place = self.place.lock().expect("nothing panics here").clone();
        if let Some((link, key)) = place {
            link.kill(key);
        }
    }

    /// Called on the host's thread when its tasks were dropped.
    fn on_end(self: &Arc<Self>, end: &HostEnd) {
        if *end != HostEnd::Returned {
            self.dead.store(true, Ordering::Release);
        }
        if let Some(fabric) = &self.fabric {
            fabric.leave(self);
        }
    }
}

/// A host. Cheap to clone; all clones are the same host.
#[derive(Clone)]
pub struct Host {
    shared: Arc<HostShared>,
    listener: Arc<Mutex<Option<TcpListener>>>,
    address: Option<SocketAddr>,
    /// Its end, for `kill` to wait on.
    over: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
}

impl Host {
    /// Describes a host and takes its listening port; nothing is accepted before it is started.
    ///
    /// # Errors
    /// - [`StartError::Listen`]: the address is taken or not of this machine.
    pub fn new(config: HostConfig) -> Result<Self, StartError> {
        let (listener, address) = match config.listen {
            None => (None, None),
            Some(address) => {
                let (listener, bound) = listen(address).map_err(|cause| StartError::Listen { address, cause })?;
                (Some(listener), Some(bound))
            }
        };
        let shared = HostShared {
            cluster: config.cluster,
            host: config.host,
            incarnation: config.incarnation,
            build: config.build,
            level: AtomicU32::new(config.level.0),
            fabric: config.fabric,
            inbox: Inbox::default(),
            net: NetPort::default(),
            process: random_word(),
            health: Health::default(),
            names: Mutex::default(),
            shut_out: Mutex::default(),
            connections: Mutex::default(),
            dead: Arc::default(),
            started: AtomicBool::new(false),
            place: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared), listener: Arc::new(Mutex::new(listener)), address, over: Arc::default() })
    }

    /// This host's id.
    pub fn id(&self) -> HostId {
        self.shared.host
    }

    /// Where it listens, with the port that it got.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Dials this peer there; a new address replaces the old one and its connections.
    /// Without meaning for hosts of the same fabric.
    pub fn set_peer(&self, peer: HostId, address: SocketAddr) {
        self.shared.set_peer(peer, address);
    }

    /// What people call this peer; the log has it in place of the id.
    pub fn name_peer(&self, peer: HostId, name: String) {
        self.shared.names.lock().expect("nothing panics here").insert(peer, name);
    }

    /// The name of a host, its id where it has none.
    pub fn peer_name(&self, peer: HostId) -> String {
        self.shared.peer_name(peer)
    }

    /// Ends the links to this peer and dials it no more.
    pub fn remove_peer(&self, peer: HostId) {
        self.shared.remove_peer(peer);
    }

    /// The same for one that is no part of the cluster any more: whatever it dials, it is turned away with these words until
    /// [`Self::set_peer`] names it again.
    pub fn shut_out(&self, peer: HostId, words: String) {
        self.shared.shut_out(peer, words);
    }

    /// How the links stand, by peer.
    pub fn peers(&self) -> Vec<PeerHealth> {
        self.shared.health.peers()
    }

    /// The last connections from outside that were turned away, by reason.
    pub fn refused(&self) -> Vec<RefusedConnection> {
        self.shared.health.refused()
    }

    /// Starts it on an executor; `main` makes its main task, and the host ends when that returns: what it spawned is dropped, and
    /// so are messages that have not left yet. It joins its fabric here.
    ///
    /// # Errors
    /// - [`StartError::Over`], [`StartError::Twice`]: nothing was started.
    pub fn start<F>(
        &self,
        executor: &Executor,
        main: impl FnOnce(LinuxEnv) -> F + Send + 'static,
    ) -> Result<HostHandle, StartError>
    where
        F: Future<Output = ()> + 'static,
    {
        let shared = self.shared.clone();
        if shared.started.swap(true, Ordering::AcqRel) || shared.dead.load(Ordering::Acquire) {
            return Err(StartError::Over(shared.host));
        }
        if let Some(fabric) = &shared.fabric
            && !fabric.join(&shared)
        {
            shared.kill();
            return Err(StartError::Twice(shared.host));
        }
        let key = NEXT_KEY.fetch_add(1, Ordering::Relaxed);
        *shared.place.lock().expect("nothing panics here") = Some((executor.link().clone(), key));
        let (ended, handle) = oneshot::channel();
        let (over, is_over) = oneshot::channel();
        *self.over.lock().expect("nothing panics here") = Some(is_over);
        let listener = self.listener.lock().expect("nothing panics here").take();
        executor.start(Box::new(move |backend| {
            let end = EndCell::default();
            // A kill that came before this start found nothing to kill.
            if shared.dead.load(Ordering::Acquire) {
                end.borrow_mut().get_or_insert(HostEnd::Killed);
            }
            let in_flight = InFlight::default();
            let env = LinuxEnv::new(shared.clone(), backend.clone(), in_flight.clone(), end.clone());
            let tasks = LocalSet::new();
            if let Some(listener) = listener {
                tasks.spawn_local(guarded(net::accept(env.clone(), listener), end.clone()));
            }
            tasks.spawn_local(guarded(net::run(env.clone()), end.clone()));
            let main_end = end.clone();
            let main_task = async move {
                main(env).await;
                main_end.borrow_mut().get_or_insert(HostEnd::Returned);
            };
            tasks.spawn_local(guarded(main_task, end.clone()));
            HostSlot {
                key,
                tasks: Some(tasks),
                end,
                in_flight,
                on_end: Some(Box::new(move |end| shared.on_end(end))),
                over: Some(over),
                ended: Some(ended),
            }
        }));
        Ok(HostHandle::new(handle))
    }

    /// Ends the host as `kill -9` would: its tasks are dropped where they stand, its sockets closed, its peers in the
    /// fabric told that the process is gone. Returns when nothing of it is left, its disks' locks included; then a
    /// new [`Host`] with the same id and a higher incarnation may start.
    ///
    /// Not to be awaited on the executor that runs it.
    pub async fn kill(&self) {
        self.shared.kill();
        self.over().await;
    }

    /// [`Self::kill`] for a thread that may block.
    pub fn kill_wait(&self) {
        futures::executor::block_on(self.kill());
    }

    /// Waits until it has ended.
    pub async fn over(&self) {
        self.listener.lock().expect("nothing panics here").take();
        let over = self.over.lock().expect("nothing panics here").take();
        if let Some(over) = over {
            let _ = over.await;
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
