//! A folder with a socket for each disk, and a front end at each.
//!
//! Promises    a socket is there while its disk is, give or take [`Options::look_every`]
//!             one front end at a time a disk, whatever its name: a second one is closed at once while the first is there, and waits for what
//!             the first had asked once that has left
//!             who has a disk open keeps it when it gets another name; its socket moves
//!             one server a folder: sockets that an earlier one left in it are replaced
//! Not here    what front ends say (`control`) and ask (`session`)

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::{
        fd::AsFd as _,
        unix::{
            fs::{FileTypeExt as _, PermissionsExt as _, chown},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
    pin::{Pin, pin},
    rc::Rc,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use cairn_volume::{Exports, FrontEnd, Guest as _, ObjectId, ServeError, Volume as _};
use futures::future::{Either, select};
use rustix::fs::{FlockOperation, flock};
use tokio::{
    net::UnixListener,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    Options, control,
    device::{Told, features},
    session::{End, Peer, Session, SharedCounters, SharedPeer},
};

/// A running server. Dropped without [`Server::stop`], it stops in the background.
pub struct Server {
    stop: watch::Sender<bool>,
    looking: JoinHandle<()>,
    present: Present,
}

/// Front ends that have their disk open.
type Present = Rc<RefCell<BTreeMap<ObjectId, FrontEndThere>>>;

/// A front end that has its disk open.
struct FrontEndThere {
    disk: String,
    peer: String,
    guest: SharedPeer,
    since_unix_ms: u64,
    counters: SharedCounters,
}

/// Serves the disks of `exports` in `folder`, which is there: one at `DISK.sock`.
///
/// # Errors
/// The folder cannot be opened, or another server has it.
pub fn serve<E: Exports>(folder: &Path, exports: E, options: Options) -> Result<Server, ServeError> {
    let fail = |cause| ServeError { act: format!("serve vhost-user front ends in {}", folder.display()), cause };
    let lock = fs::File::open(folder).map_err(fail)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => {
            fail(io::Error::other("another server has this folder; give it one of its own"))
        }
        other => fail(other.into()),
    })?;
    for left in fs::read_dir(folder).map_err(fail)? {
        let path = left.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) && is_left_behind(&path) {
            fs::remove_file(&path).map_err(fail)?;
        }
    }
    let stop = watch::Sender::new(false);
    let present = Present::default();
    let (path, stopped) = (folder.to_owned(), stop.subscribe());
    let folder = Folder { path, _lock: lock, exports, options, stop: stopped, present: present.clone() };
    Ok(Server { stop, looking: tokio::task::spawn_local(folder.look()), present })
}

/// Whether it is a socket that nobody listens at. The folder may be one that others use too.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

impl Server {
    /// Takes no more requests and closes every socket; returns when what was under way has ended, or `stop_grace` is over.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.looking.await;
    }
}

impl FrontEnd for Server {
    fn sessions(&self) -> Vec<cairn_volume::Session> {
        let of = |(disk_id, there): (&ObjectId, &FrontEndThere)| cairn_volume::Session {
            disk_id: *disk_id,
            disk: there.disk.clone(),
            front_end: "vhost-user",
            peer: there.peer.clone(),
            since_unix_ms: there.since_unix_ms,
            counters: there.counters.get(),
        };
        self.present.borrow().iter().map(of).collect()
    }

    fn stop(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(Self::stop(*self))
    }
}

const EXTENSION: &str = "sock";
/// Bytes of a unix socket's path, at most.
const PATH_BYTES_MAX: usize = 107;

struct Folder<E> {
    path: PathBuf,
    /// Held while it is served.
    _lock: fs::File,
    exports: E,
    options: Options,
    stop: watch::Receiver<bool>,
    present: Present,
}

/// A socket. Its file goes with it.
struct Door {
    path: PathBuf,
    accepting: JoinHandle<()>,
    /// What it has begun, to be waited for at a stop.
    sessions: Rc<RefCell<Option<JoinHandle<()>>>>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = fs::remove_file(&self.path);
    }
}

impl<E: Exports> Folder<E> {
    async fn look(self) {
        let mut doors: BTreeMap<String, Door> = BTreeMap::new();
        // Of disks that were renamed, or deleted.
        let mut doorless: Vec<JoinHandle<()>> = Vec::new();
        // Tried again whenever the list has changed; the log has each once.
        let mut refused: BTreeSet<String> = BTreeSet::new();
        let mut seen = None;
        let mut stop = self.stop.clone();
        loop {
            let changes = self.exports.changes();
            if seen != changes || changes.is_none() {
                let names = self.exports.list().await;
                for (_, door) in doors.extract_if(.., |name, _| names.binary_search(name).is_err()) {
                    doorless.extend(door.sessions.borrow_mut().take());
                }
                doorless.retain(|session| !session.is_finished());
                refused.retain(|name| names.binary_search(name).is_ok());
                for name in names.into_iter().filter(|name| !doors.contains_key(name)).collect::<Vec<_>>() {
                    match self.open(&name) {
                        Ok(door) => {
                            refused.remove(&name);
                            doors.insert(name, door);
                        }
                        Err(error) => {
                            if refused.insert(name.clone()) {
                                tracing::warn!(disk = name, "it has no vhost-user socket: {error}");
                            }
                        }
                    }
                }
                seen = changes;
            }
            let stopped = pin!(stop.wait_for(|stop| *stop));
            if let Either::Left(_) = select(stopped, pin!(sleep(self.options.look_every))).await {
                break;
            }
        }
        doorless.extend(doors.values().filter_map(|door| door.sessions.borrow_mut().take()));
        drop(doors);
        for session in doorless {
            let _ = session.await;
        }
    }

    fn open(&self, name: &str) -> io::Result<Door> {
        let path = self.path.join(format!("{name}.{EXTENSION}"));
        if path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(io::Error::other(format!(
                "{} is longer than the {PATH_BYTES_MAX} bytes that a socket's path may have; take a shorter folder",
                path.display()
            )));
        }
        let listener = UnixListener::bind(&path)?;
        chown(&path, None, self.options.unix_group)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(self.options.unix_mode))?;
        let sessions: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
        let begin = Begin {
            name: name.to_owned(),
            exports: self.exports.clone(),
            options: self.options.clone(),
            stop: self.stop.clone(),
            present: self.present.clone(),
        };
        let accepting = tokio::task::spawn_local(accept(listener, begin, sessions.clone()));
        Ok(Door { path, accepting, sessions })
    }
}

/// What a session begins with.
#[derive(Clone)]
struct Begin<E> {
    name: String,
    exports: E,
    options: Options,
    stop: watch::Receiver<bool>,
    present: Present,
}

async fn accept<E: Exports>(listener: UnixListener, begin: Begin<E>, session: Rc<RefCell<Option<JoinHandle<()>>>>) {
    let mut there: Option<SharedPeer> = None;
    loop {
        let accepted = match listener.accept().await {
            Ok((stream, _)) => stream.into_std().and_then(|stream| {
                stream.set_nonblocking(false)?;
                let connection = stream.as_fd().try_clone_to_owned()?;
                Ok((stream, Rc::new(Peer { connection })))
            }),
            Err(error) => Err(error),
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: they come back when front ends leave.
                tracing::warn!(disk = begin.name, %error, "accept a vhost-user front end");
                sleep(begin.options.look_every).await;
                continue;
            }
        };
        let earlier =
            session.borrow_mut().take_if(|task| task.is_finished() || there.as_ref().is_some_and(|p| p.has_left()));
        if session.borrow().is_some() {
            tracing::warn!(disk = begin.name, "a second vhost-user front end was refused: a disk takes one at a time");
            continue;
        }
        there = Some(peer.clone());
        let begin = begin.clone();
        *session.borrow_mut() = Some(tokio::task::spawn_local(async move {
            // What the one before had asked ends first: the same requests may come again.
            if let Some(earlier) = earlier {
                let _ = earlier.await;
            }
            begin.run(stream, peer).await;
        }));
    }
}

impl<E: Exports> Begin<E> {
    /// Whether no other front end has the disk, once what those that have left had asked is over. A door knows of its own ones only.
    async fn has_it_alone(&self, disk: ObjectId) -> bool {
        loop {
            match self.present.borrow().get(&disk) {
                None => return true,
                Some(there) if !there.guest.has_left() => return false,
                Some(_) => {}
            }
            sleep(self.options.look_every).await;
        }
    }

    async fn run(self, stream: UnixStream, peer: SharedPeer) {
        self.serve(stream, &peer).await;
        // Its thread ends with the connection, and a front end that is still there comes back.
        let _ = rustix::net::shutdown(&peer.connection, rustix::net::Shutdown::Both);
    }

    async fn serve(mut self, stream: UnixStream, peer: &SharedPeer) {
        let name = self.name.clone();
        // What it says is answered while the disk is being opened, which takes as long as the rest of a lease where an owner has died.
        let (orders, obeyed) = mpsc::unbounded_channel();
        let (tell, told) = std::sync::mpsc::channel();
        let disk = name.clone();
        let offered = features(self.exports.is_read_only(&name));
        let control = move || control::serve(stream, offered, told, orders, &disk);
        if let Err(error) = thread::Builder::new().name("cairn-vhost".into()).spawn(control) {
            return tracing::warn!(disk = name, %error, "no thread for a vhost-user front end");
        }
        let opened = match select(pin!(self.stop.wait_for(|stop| *stop)), pin!(self.exports.open(&name))).await {
            Either::Left(_) => return,
            Either::Right((opened, _)) => opened,
        };
        let volume = match opened {
            Ok(Some(volume)) => volume,
            Ok(None) => return tracing::warn!(disk = name, "a vhost-user front end came for a disk that is gone"),
            Err(error) => return tracing::warn!(disk = name, %error, "a vhost-user front end's disk does not open"),
        };
        volume.used_by(peer.clone());
        // It may have left meanwhile.
        let info = volume.info();
        if !self.has_it_alone(info.id).await {
            return tracing::warn!(
                disk = name,
                "a second vhost-user front end was refused: the first came by another name"
            );
        }
        let _ = tell.send(Told::of(&info));
        tracing::info!(disk = name, "a vhost-user front end came");
        let counters = SharedCounters::default();
        let there = FrontEndThere {
            disk: info.name,
            peer: peer.who(),
            guest: peer.clone(),
            since_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            counters: counters.clone(),
        };
        self.present.borrow_mut().insert(info.id, there);
        let mut session = Session::new(volume, obeyed, self.options.bytes_in_flight_max, counters);
        let ended = match select(pin!(self.stop.wait_for(|stop| *stop)), pin!(session.finish())).await {
            Either::Left(_) => None,
            Either::Right((end, _)) => Some(end),
        };
        self.present.borrow_mut().remove(&info.id);
        match ended {
            None => {
                session.close();
                let in_time = timeout(self.options.stop_grace, session.finish()).await.is_ok();
                tracing::info!(disk = name, in_time, "a vhost-user front end was left, as the host stops");
            }
            Some(End::Left) => tracing::info!(disk = name, "a vhost-user front end left"),
            Some(End::Abandoned(why)) => tracing::warn!(disk = name, "a vhost-user front end was left: {why}"),
        }
    }
}
