//! The listening side: greetings are checked here, before a connection may say anything else.
//!
//! Promises    A1  a stranger costs one small buffer for [`GREETING_MAX`] at most, and [`STRANGERS_MAX`] of them all there is
//!             A2  who is refused hears why in words, and so does our own log and health (once per reason)
//!             A3  two live processes of one host are never both connected: the older one, or the second of equals, is refused
//!             A4  a greeting to another host of this process reaches it: hosts of one fabric may share an address

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use cairn_env::Env;
use tokio::time;

use super::{
    frame::{GREETING_BYTES_MAX, Greeted, Greeting, Kind, frame_version, small_frame},
    host::{Command, Inbound},
    link::read_small,
    socket::Socket,
};
use crate::{LinuxEnv, env::unix_ms, host::HostShared};

/// How long a stranger may take to greet.
const GREETING_MAX: Duration = Duration::from_secs(3);
/// Connections that have not greeted yet, at most; more wait in the kernel's queue.
const STRANGERS_MAX: usize = 64;
/// The pause when the system has no more descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Accepts for as long as the host runs.
pub(crate) async fn run(env: LinuxEnv, listener: TcpListener) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the listening socket cannot be watched: no peer can connect");
            return;
        }
    };
    let strangers = Rc::new(Cell::new(0));
    loop {
        if strangers.get() >= STRANGERS_MAX {
            time::sleep(EXHAUSTED_PAUSE / 10).await;
            continue;
        }
        let accepted = poll_fn(|cx| -> Poll<io::Result<_>> { listener.poll_accept(cx) }).await;
        match accepted {
            Ok((stream, from)) => {
                strangers.set(strangers.get() + 1);
                let counted = Counted(strangers.clone());
                let host = env.host_shared().clone();
                env.spawn(async move {
                    let greeting = time::timeout(GREETING_MAX, greet(&host, stream, from)).await;
                    let words = match greeting {
                        Ok(Ok(())) => None,
                        Ok(Err(words)) => Some(words),
                        Err(_) => Some("it did not greet in time".to_owned()),
                    };
                    if let Some(words) = words {
                        refused(&host, from, words);
                    }
                    drop(counted);
                });
            }
            // A connection that went away again before it was taken is nothing; no descriptors is.
            Err(error) => {
                if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
                    tracing::warn!(%error, "cannot accept connections");
                    time::sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }
}

struct Counted(Rc<Cell<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn refused(host: &HostShared, from: SocketAddr, words: String) {
    if host.health.refuse(from, words.clone(), unix_ms()) {
        tracing::warn!(%from, reason = %words, "refused a connection");
    }
}

async fn greet(host: &Arc<HostShared>, stream: tokio::net::TcpStream, from: SocketAddr) -> Result<(), String> {
    let words = |error: io::Error| error.to_string();
    let socket = Socket::adopt(stream.into_std().map_err(words)?).map_err(words)?;
    let (header, body) = read_small(&socket).await.map_err(words)?;
    if header.kind != Kind::Hello {
        return Err("it did not greet".into());
    }
    let hello = match Greeting::decode(&header, &body).map_err(|e| e.to_string())? {
        Greeted::By(hello) => hello,
        Greeted::Version(version) => {
            let words = format!(
                "you speak version {version} of the frames, we speak {}: run the same release on all hosts",
                frame_version()
            );
            return refuse(&socket, words).await;
        }
    };
    // Hosts of one process may share an address.
    let host = &match host.fabric.as_ref().and_then(|fabric| fabric.host(hello.to)) {
        Some(neighbour) => neighbour,
        None => host.clone(),
    };
    let stop = match host.check_identity(&hello, None).and_then(|()| host.inbound_begins(&hello)) {
        Ok(stop) => stop,
        Err(words) => return refuse(&socket, words).await,
    };
    let welcome = host.greeting(hello.host);
    let welcome = welcome.frame(Kind::Welcome);
    if let Err(error) = socket.write_all(&welcome).await {
        host.inbound_ended(hello.host, &stop);
        return Err(error.to_string());
    }
    tracing::debug!(peer = %hello.host, %from, "a peer connected");
    host.net.send(Command::Adopt(Inbound {
        stream: socket.release(),
        peer: hello.host,
        incarnation: hello.incarnation,
        stop,
    }));
    host.net.send(Command::Knock(hello.host));
    Ok(())
}

async fn refuse(socket: &Socket, mut words: String) -> Result<(), String> {
    words.truncate(words.floor_char_boundary(GREETING_BYTES_MAX));
    let _ = socket.write_all(&small_frame(Kind::Refuse, words.as_bytes())).await;
    Err(words)
}
