//! A door that leads to whichever host answers: what a client that can reconnect to one address only goes through.
//!
//! QEMU's NBD driver and nbdkit reconnect to the address that they were given. In a cluster that is a floating address; here it
//! is a unix socket of the harness, whose connections are joined to the first host of a list that takes them.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{Outcome, Target};

/// The door. It closes when it is dropped.
#[derive(Debug)]
pub struct Door {
    /// Its socket.
    pub socket: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    targets: Mutex<Vec<Target>>,
    /// Both sides of what is open, with the connection's number, so that they can be shut: a side whose host stands still and whose
    /// buffer is full holds the thread that writes to it, and with it the other side.
    open: Mutex<Vec<(u64, Arc<End>)>>,
    next: AtomicU64,
    closed: AtomicBool,
}

/// One side of a connection.
#[derive(Debug)]
enum End {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl End {
    fn connect(target: &Target) -> Option<Self> {
        match target {
            Target::Unix(path) => UnixStream::connect(path).ok().map(Self::Unix),
            Target::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, Duration::from_secs(1)).ok()?;
                let _ = stream.set_nodelay(true);
                Some(Self::Tcp(stream))
            }
        }
    }

    fn shut(&self) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for &End {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            End::Unix(stream) => (&mut &*stream).read(into),
            End::Tcp(stream) => (&mut &*stream).read(into),
        }
    }
}

impl Write for &End {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            End::Unix(stream) => (&mut &*stream).write(bytes),
            End::Tcp(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Door {
    /// A door at `socket` that tries `targets` in order.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn open(socket: &Path, targets: Vec<Target>) -> Outcome<Self> {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).map_err(|e| format!("cannot listen at {}: {e}", socket.display()))?;
        let shared = Arc::new(Shared {
            targets: Mutex::new(targets),
            open: Mutex::default(),
            next: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let door = Self { socket: socket.to_owned(), shared: shared.clone() };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.closed.load(Ordering::Relaxed) {
                    return;
                }
                let shared = shared.clone();
                thread::spawn(move || shared.join(client));
            }
        });
        Ok(door)
    }

    /// Leads elsewhere from now on, and shuts what is open: the clients come again.
    ///
    /// # Panics
    /// When a thread of the door panicked.
    pub fn lead_to(&self, targets: Vec<Target>) {
        *self.shared.targets.lock().expect("no holder panics") = targets;
        self.shut_open();
    }

    fn shut_open(&self) {
        self.shared.open.lock().expect("no holder panics").drain(..).for_each(|(_, end)| end.shut());
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        let _ = UnixStream::connect(&self.socket);
        self.shut_open();
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Shared {
    fn join(&self, client: UnixStream) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let targets = self.targets.lock().expect("no holder panics").clone();
        // Kept before the way to a host is looked for: who leads elsewhere meanwhile finds it.
        let client = self.keep(number, End::Unix(client));
        if let Some(server) = targets.iter().find_map(End::connect) {
            let server = self.keep(number, server);
            both(&client, &server);
        }
        client.shut();
        // All of it is closed now: QEMU, where it waits until it may write, is not woken by a socket that was only shut.
        self.open.lock().expect("no holder panics").retain(|(of, _)| *of != number);
    }

    fn keep(&self, number: u64, end: End) -> Arc<End> {
        let end = Arc::new(end);
        self.open.lock().expect("no holder panics").push((number, end.clone()));
        end
    }
}

/// Copies both ways until either side ends, then ends both.
fn both(client: &Arc<End>, server: &Arc<End>) {
    let (from, to) = (client.clone(), server.clone());
    let there = thread::spawn(move || {
        let _ = std::io::copy(&mut &*from, &mut &*to);
        to.shut();
    });
    let _ = std::io::copy(&mut &**server, &mut &**client);
    client.shut();
    let _ = there.join();
}
