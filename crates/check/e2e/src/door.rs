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
        atomic::{AtomicBool, Ordering},
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
    /// What is open, so that it can be shut.
    open: Mutex<Vec<UnixStream>>,
    closed: AtomicBool,
}

impl Door {
    /// A door at `socket` that tries `targets` in order.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn open(socket: &Path, targets: Vec<Target>) -> Outcome<Self> {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).map_err(|e| format!("cannot listen at {}: {e}", socket.display()))?;
        let shared =
            Arc::new(Shared { targets: Mutex::new(targets), open: Mutex::default(), closed: AtomicBool::new(false) });
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
        for stream in self.shared.open.lock().expect("no holder panics").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
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
        let targets = self.targets.lock().expect("no holder panics").clone();
        let Ok(kept) = client.try_clone() else { return };
        self.open.lock().expect("no holder panics").push(kept);
        for target in targets {
            match target {
                Target::Unix(path) => {
                    let Ok(server) = UnixStream::connect(path) else {
                        continue;
                    };
                    let (Ok(back), Ok(client_back)) = (server.try_clone(), client.try_clone()) else {
                        return;
                    };
                    return both(client, server, back, client_back, |s| drop(s.shutdown(Shutdown::Both)));
                }
                Target::Tcp(address) => {
                    let Ok(server) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else {
                        continue;
                    };
                    let _ = server.set_nodelay(true);
                    let (Ok(back), Ok(client_back)) = (server.try_clone(), client.try_clone()) else {
                        return;
                    };
                    return both(client, server, back, client_back, |s| drop(s.shutdown(Shutdown::Both)));
                }
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    }
}

/// Copies both ways until either side ends, then ends both.
fn both<S: Read + Write + Send + 'static>(
    client: UnixStream,
    server: S,
    back: S,
    client_back: UnixStream,
    shut: fn(&S),
) {
    let there = thread::spawn(move || {
        let (mut client, mut server) = (client, server);
        let _ = std::io::copy(&mut client, &mut server);
        shut(&server);
    });
    let (mut back, mut client_back) = (back, client_back);
    let _ = std::io::copy(&mut back, &mut client_back);
    let _ = client_back.shutdown(Shutdown::Both);
    let _ = there.join();
}
