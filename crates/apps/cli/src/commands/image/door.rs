//! The NBD server through which a disk is read or written.
//!
//! Promises    one that takes connections now; a unix socket only where the API itself is this machine's
//! Not here    what is read there (`export`, `import`)

use std::{io, time::Duration};

use cairn_api::v1::Host;
use serde_json::{Value, json};
use tokio::net::{TcpStream, UnixStream};

use crate::{client::Client, fail::Fail};

/// How long a connection may take to open.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// For so long QEMU waits for a host whose daemon starts anew, in seconds.
const RECONNECT_S: u32 = 30;

/// An NBD server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// The path of its unix socket.
    Unix(String),
    /// Its host and port.
    Tcp(String, String),
}

impl Door {
    /// From an address as a host tells it.
    fn parse(address: &str) -> Option<Self> {
        if let Some((_, socket)) = address.split_once("?socket=") {
            return Some(Self::Unix(socket.to_owned()));
        }
        let (host, port) = address.strip_prefix("nbd://")?.rsplit_once(':')?;
        Some(Self::Tcp(host.trim_matches(['[', ']']).to_owned(), port.to_owned()))
    }

    /// What QEMU is told of an export there.
    pub fn node(&self, export: &str) -> Value {
        let server = match self {
            Self::Unix(path) => json!({ "type": "unix", "path": path }),
            Self::Tcp(host, port) => json!({ "type": "inet", "host": host, "port": port }),
        };
        json!({ "driver": "nbd", "server": server, "export": export, "reconnect-delay": RECONNECT_S })
    }

    /// The same as options, for where QEMU takes no JSON.
    pub fn options(&self, export: &str) -> String {
        let escaped = |text: &str| text.replace(',', ",,");
        let server = match self {
            Self::Unix(path) => format!("file.server.type=unix,file.server.path={}", escaped(path)),
            Self::Tcp(host, port) => {
                format!("file.server.type=inet,file.server.host={},file.server.port={port}", escaped(host))
            }
        };
        let export = escaped(export);
        format!("driver=raw,file.driver=nbd,{server},file.export={export},file.reconnect-delay={RECONNECT_S}")
    }

    /// The URI of an export there, as libnbd takes it. Names of disks need no escapes.
    pub fn uri(&self, export: &str) -> String {
        match self {
            Self::Unix(path) => format!("nbd+unix:///{export}?socket={}", escaped(path)),
            Self::Tcp(host, port) if host.contains(':') => format!("nbd://[{host}]:{port}/{export}"),
            Self::Tcp(host, port) => format!("nbd://{host}:{port}/{export}"),
        }
    }

    async fn answers(&self) -> io::Result<()> {
        let connect = async {
            match self {
                Self::Unix(path) => UnixStream::connect(path).await.map(drop),
                Self::Tcp(host, port) => TcpStream::connect(format!("{host}:{port}")).await.map(drop),
            }
        };
        let waited = tokio::time::timeout(CONNECT_WAIT, connect).await;
        waited.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

/// A path within a URI.
fn escaped(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'/' | b'-' | b'_' | b'.' => out.push(char::from(byte)),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// The one through which a host is used, or any.
///
/// # Errors
/// None answers.
pub async fn find(client: &Client, host: Option<&str>) -> Result<Door, Fail> {
    let answering = client.cluster_status().await?.answered_by;
    let hosts = match host {
        Some(host) => vec![client.host_show(host).await?],
        None => {
            let mut hosts = client.host_list().await?;
            hosts.retain(|host| host.up || host.name == answering);
            hosts.sort_by_key(|host| host.name != answering);
            hosts
        }
    };
    let mut tried = Vec::new();
    for host in &hosts {
        // A socket of that name on this machine may be another cluster's, unless this machine is that host.
        let is_here = client.is_local() && host.name == answering;
        for door in doors(host, is_here) {
            match door.answers().await {
                Ok(()) => return Ok(door),
                Err(error) => tried.push(format!("{} of host {}: {error}", door.uri(""), host.name)),
            }
        }
    }
    let tried =
        if tried.is_empty() { "no host has one that is reached from here".to_owned() } else { tried.join("; ") };
    Err(Fail::unreachable(format!("no NBD server answers: {tried}"))
        .remedy("run this on a host as root, or set listen.nbd there (`cairn host show HOST` has its addresses)"))
}

fn doors(host: &Host, is_here: bool) -> Vec<Door> {
    let mut doors: Vec<Door> = host.nbd_addresses.iter().filter_map(|address| Door::parse(address)).collect();
    doors.retain(|door| is_here || matches!(door, Door::Tcp(..)));
    doors.sort_by_key(|door| matches!(door, Door::Tcp(..)));
    doors
}

#[cfg(test)]
mod tests {
    use super::Door;

    #[test]
    fn doors_are_named_as_each_tool_takes_them() {
        let tcp = Door::parse("nbd://[fd00::1]:10809").unwrap();
        assert_eq!(tcp, Door::Tcp("fd00::1".into(), "10809".into()));
        assert_eq!(tcp.uri("vm-1@a"), "nbd://[fd00::1]:10809/vm-1@a");
        let unix = Door::parse("nbd+unix:///?socket=/run/a,b c/nbd.sock").unwrap();
        assert_eq!(unix.uri("vm-1"), "nbd+unix:///vm-1?socket=/run/a%2Cb%20c/nbd.sock");
        assert!(unix.options("vm-1").contains("file.server.path=/run/a,,b c/nbd.sock,file.export=vm-1,"));
        assert_eq!(unix.node("vm-1")["server"]["path"], "/run/a,b c/nbd.sock");
        assert_eq!(Door::parse("iscsi://10.0.0.1"), None);
    }
}
