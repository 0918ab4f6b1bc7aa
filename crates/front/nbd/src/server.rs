//! Listeners: accept, one task per connection, stop.
//!
//! Promises    a stopped server has no task left, its socket file is gone, and requests that were running have finished
//! Not here    what is said on a connection (`handshake`, `session`)

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs, io,
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileTypeExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
    pin::Pin,
    rc::Rc,
    time::Duration,
};

use cairn_volume::{Exports, FrontEnd, Guest, ServeError, Session};
use futures::future::{Either, select};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    Entrance, Options, SessionStats,
    connection::{self, Start, Stop},
    doors::Arrival,
    stats::SessionRecord,
};

/// A running server. Dropped without [`Server::stop`], it stops in the background.
pub struct Server {
    shared: Rc<Shared>,
    accepting: Option<JoinHandle<()>>,
    local_addr: Option<SocketAddr>,
    socket_file: Option<PathBuf>,
}

struct Shared {
    options: Options,
    stop: watch::Sender<bool>,
    next_number: Cell<u64>,
    sessions: RefCell<BTreeMap<u64, Connection>>,
}

/// A connection's numbers and its task, until `stop` waits for it.
type Connection = (Rc<SessionRecord>, Option<JoinHandle<()>>);

/// Serves `exports` on a unix socket at `path`.
///
/// A socket file that nobody listens on any more is replaced; any other file there is left alone and is an error.
pub async fn serve_unix<E: Exports>(
    path: impl AsRef<Path>,
    exports: E,
    options: Options,
) -> Result<Server, ServeError> {
    let path = path.as_ref();
    let fail = |cause| ServeError { act: format!("listen for NBD clients on {}", path.display()), cause };
    let listener = bind_unix(path).await.map_err(fail)?;
    chown(path, None, options.unix_group).map_err(fail)?;
    fs::set_permissions(path, fs::Permissions::from_mode(options.unix_mode)).map_err(fail)?;
    let mut server = Server::new(options, None, Some(path.to_owned()));
    server.accept_from(Listener::Unix(listener), exports);
    Ok(server)
}

/// Serves `exports` on a TCP address; port 0 takes any, see [`Server::local_addr`].
///
/// NBD has no login: whoever reaches the address reads and writes every disk. Bind to a trusted network.
pub async fn serve_tcp<E: Exports>(addr: SocketAddr, exports: E, options: Options) -> Result<Server, ServeError> {
    let fail = |cause| ServeError { act: format!("listen for NBD clients on {addr}"), cause };
    let listener = TcpListener::bind(addr).await.map_err(fail)?;
    let local = listener.local_addr().map_err(fail)?;
    let mut server = Server::new(options, Some(local), None);
    server.accept_from(Listener::Tcp(listener), exports);
    Ok(server)
}

/// Serves clients that other shards of the process have moved to this one.
pub fn serve_moved<E: Exports>(entrance: Entrance, exports: E, options: Options) -> Server {
    let mut server = Server::new(options, None, None);
    server.accept_from(Listener::Moved(entrance), exports);
    server
}

impl Server {
    fn new(options: Options, local_addr: Option<SocketAddr>, socket_file: Option<PathBuf>) -> Self {
        Self {
            shared: Rc::new(Shared {
                options,
                stop: watch::Sender::new(false),
                next_number: Cell::new(1),
                sessions: RefCell::default(),
            }),
            accepting: None,
            local_addr,
            socket_file,
        }
    }

    fn accept_from<E: Exports>(&mut self, listener: Listener, exports: E) {
        let shared = self.shared.clone();
        self.accepting = Some(tokio::task::spawn_local(accept_loop(listener, exports, shared)));
    }

    /// The TCP address, with the port that was taken.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }

    /// The connections that are open now.
    pub fn sessions(&self) -> Vec<SessionStats> {
        let sessions = self.shared.sessions.borrow();
        sessions.values().map(|(s, _)| s.snapshot()).collect()
    }

    /// Stops accepting and reading; returns when what was running has finished and its answers have left, or `stop_grace`
    /// is over and the remaining answers were given up.
    pub async fn stop(mut self) {
        self.signal();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.await;
        }
        // One at a time: a connection removes itself from the table when it ends.
        loop {
            let task = {
                let mut sessions = self.shared.sessions.borrow_mut();
                sessions.values_mut().find_map(|(_, task)| task.take())
            };
            match task {
                Some(task) => drop(task.await),
                None => return,
            }
        }
    }

    fn signal(&mut self) {
        if let Some(path) = self.socket_file.take() {
            let _ = fs::remove_file(path);
        }
        self.shared.stop.send_replace(true);
    }
}

impl FrontEnd for Server {
    fn sessions(&self) -> Vec<Session> {
        let open = |stats: SessionStats| {
            let SessionStats { peer, export, since_unix_ms, counters, .. } = stats;
            export.map(|(disk_id, disk)| Session { disk_id, disk, front_end: "nbd", peer, since_unix_ms, counters })
        };
        Self::sessions(self).into_iter().filter_map(open).collect()
    }

    fn stop(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(Self::stop(*self))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal();
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
    Moved(Entrance),
}

/// A client's connection, which can be taken from this shard.
trait ClientStream: AsyncRead + AsyncWrite + Unpin + 'static {
    fn release(self) -> io::Result<OwnedFd>;
}

impl ClientStream for crate::unix_stream::UnixStream {
    fn release(self) -> io::Result<OwnedFd> {
        Ok(self.into_fd())
    }
}

impl ClientStream for TcpStream {
    fn release(self) -> io::Result<OwnedFd> {
        self.into_std().map(OwnedFd::from)
    }
}

async fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let first = UnixListener::bind(path);
    if !matches!(&first, Err(e) if e.kind() == io::ErrorKind::AddrInUse) {
        return first;
    }
    let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
    let is_dead =
        || async { matches!(UnixStream::connect(path).await, Err(e) if e.kind() == io::ErrorKind::ConnectionRefused) };
    if !is_socket || !is_dead().await {
        return first;
    }
    fs::remove_file(path)?;
    UnixListener::bind(path)
}

async fn accept_loop<E: Exports>(mut listener: Listener, exports: E, shared: Rc<Shared>) {
    let mut stop = shared.stop.subscribe();
    loop {
        let accepted = {
            let next = std::pin::pin!(accept_one(&mut listener, &exports, &shared));
            let stopped = std::pin::pin!(stop.wait_for(|stop| *stop));
            match select(stopped, next).await {
                Either::Left(_) => return,
                Either::Right((accepted, _)) => accepted,
            }
        };
        if let Err(error) = accepted {
            // Out of descriptors, most likely: they come back when clients leave, so it goes on, but not in a hot loop.
            tracing::warn!(%error, "accept an NBD client");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn accept_one<E: Exports>(listener: &mut Listener, exports: &E, shared: &Rc<Shared>) -> io::Result<()> {
    let begin = if shared.options.doors.are_none() { Start::Fixed } else { Start::Movable };
    match listener {
        Listener::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            tune_buffers(&stream);
            let guest = Socket::of(&stream, true)?;
            let stream = crate::unix_stream::UnixStream::adopt(stream.into_std()?.into())?;
            start(stream, begin, "unix".to_owned(), guest, exports, shared);
        }
        Listener::Tcp(listener) => {
            let (stream, peer) = listener.accept().await?;
            tune_tcp(&stream);
            let guest = Socket::of(&stream, false)?;
            start(stream, begin, peer.to_string(), guest, exports, shared);
        }
        Listener::Moved(Entrance(entrance)) => {
            let Some(Arrival { socket, local, peer, handover }) = entrance.recv().await else {
                // Every other shard has ended: nobody will come any more.
                return std::future::pending().await;
            };
            let guest = Socket::of(&socket, local)?;
            let begin = Start::Moved(handover);
            if local {
                start(crate::unix_stream::UnixStream::adopt(socket)?, begin, peer, guest, exports, shared);
            } else {
                start(TcpStream::from_std(socket.into())?, begin, peer, guest, exports, shared);
            }
        }
    }
    Ok(())
}

/// Room for a QD 32 burst of 4 KiB answers in one system call. The kernel caps it at `net.core.wmem_max`.
const SEND_BUFFER_BYTES: usize = 1 << 20;

fn tune_buffers(socket: &impl AsFd) {
    // A smaller buffer only costs speed, so a refusal is no error.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER_BYTES);
}

fn tune_tcp(stream: &TcpStream) {
    // Answers leave in batches already: waiting for more would only delay them. Keepalive frees the connection of a client
    // whose machine vanished. TCP tunes its buffers by itself, better than a fixed size would.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(stream, true);
}

/// What a socket tells of the client at its other end, without reading what it sent.
struct Socket {
    /// A second descriptor of the connection's socket: the stream itself is lent to the session.
    fd: OwnedFd,
    local: bool,
}

impl Socket {
    fn of(stream: &impl AsFd, local: bool) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self { fd: stream.as_fd().try_clone_to_owned()?, local }))
    }
}

impl Guest for Socket {
    fn has_left(&self) -> bool {
        // Seen even where requests that it sent before are still unread.
        let mut polled = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|n| n > 0) && polled[0].revents().intersects(gone)
    }

    fn leaves_visibly(&self) -> bool {
        self.local
    }
}

fn start<E: Exports, S: ClientStream>(
    mut stream: S,
    begin: Start,
    peer: String,
    guest: Rc<Socket>,
    exports: &E,
    shared: &Rc<Shared>,
) {
    if shared.sessions.borrow().len() >= shared.options.limits.connections_max {
        tracing::warn!(client = peer, "too many NBD connections: one was refused");
        return;
    }
    let number = shared.next_number.get();
    shared.next_number.set(number + 1);
    let record = Rc::new(SessionRecord::new(number, peer));
    let entry = (record.clone(), None);
    shared.sessions.borrow_mut().insert(number, entry);
    let stop = Stop::new(shared.stop.subscribe(), shared.options.stop_grace);
    let limits = shared.options.limits.clone();
    let (exports, of_task) = (exports.clone(), shared.clone());
    let task = tokio::task::spawn_local(async move {
        let local = guest.local;
        let moves = connection::run(&mut stream, begin, guest, exports, limits, stop, &record).await;
        of_task.sessions.borrow_mut().remove(&number);
        if let Some((shard, handover)) = moves
            && let Ok(socket) = stream.release()
        {
            of_task.options.doors.send(shard, Arrival { socket, local, peer: record.peer.clone(), handover });
        }
    });
    if let Some(entry) = shared.sessions.borrow_mut().get_mut(&number) {
        entry.1 = Some(task);
    }
}
