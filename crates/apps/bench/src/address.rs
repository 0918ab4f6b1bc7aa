//! Where a target is, as people write it.

use std::{fmt, path::PathBuf, str::FromStr};

/// A target of load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `nbd+unix:///EXPORT?socket=PATH`
    NbdUnix {
        /// The socket.
        socket: PathBuf,
        /// The export's name; empty for the default one.
        export: String,
    },
    /// `nbd://HOST[:PORT]/EXPORT`
    NbdTcp {
        /// Name or address.
        host: String,
        /// 10809 where none is told.
        port: u16,
        /// The export's name.
        export: String,
    },
    /// `vhost-user:///PATH`
    VhostUser {
        /// The device's socket, from the root.
        socket: PathBuf,
    },
    /// A block device or a file.
    Path(PathBuf),
}

const NBD_PORT: u16 = 10809;

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("nbd+unix://") {
            let (export, query) = rest.split_once('?').unwrap_or((rest, ""));
            let socket = query.split('&').find_map(|pair| pair.strip_prefix("socket="));
            let socket = socket.filter(|s| !s.is_empty());
            let socket = socket.ok_or_else(|| format!("{text}: no socket; write nbd+unix:///EXPORT?socket=PATH"))?;
            let export = export.strip_prefix('/').unwrap_or(export);
            return Ok(Self::NbdUnix { socket: unescaped(socket)?.into(), export: unescaped(export)? });
        }
        if let Some(rest) = text.strip_prefix("nbd://") {
            let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
            let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let (host, port) = match host.rsplit_once(':') {
                Some((name, port)) if !port.ends_with(']') => {
                    (bare(name), port.parse().map_err(|_| format!("{text}: {port} is no port"))?)
                }
                _ => (bare(host), NBD_PORT),
            };
            if host.is_empty() {
                return Err(format!("{text}: no host; write nbd://HOST:PORT/EXPORT"));
            }
            return Ok(Self::NbdTcp { host, port, export: unescaped(export)? });
        }
        if let Some(socket) = text.strip_prefix("vhost-user://") {
            if !socket.starts_with('/') || socket.ends_with('/') {
                return Err(format!("{text}: no socket; write vhost-user:///PATH, from the root"));
            }
            return Ok(Self::VhostUser { socket: unescaped(socket)?.into() });
        }
        match text.split_once("://") {
            Some((scheme, _)) => Err(format!(
                "{text}: {scheme} is not spoken here; take nbd://, nbd+unix:// or vhost-user://, or a path"
            )),
            None if text.is_empty() => Err("an empty target".into()),
            None => Ok(Self::Path(text.into())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NbdUnix { socket, export } => write!(f, "nbd+unix:///{export}?socket={}", socket.display()),
            Self::NbdTcp { host, port, export } => write!(f, "nbd://{host}:{port}/{export}"),
            Self::VhostUser { socket } => write!(f, "vhost-user://{}", socket.display()),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

/// `%20` and the like as what they stand for.
fn unescaped(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = rest.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.ok_or_else(|| format!("{text}: a % that two hexadecimal digits do not follow"))?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("{text}: not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let unix = "nbd+unix:///disk-1?socket=/run/cairn/nbd.sock";
        assert_eq!(
            unix.parse(),
            Ok(Address::NbdUnix { socket: "/run/cairn/nbd.sock".into(), export: "disk-1".into() })
        );
        assert_eq!(unix.parse::<Address>().unwrap().to_string(), unix);
        let tcp = |host: &str, port, export: &str| Address::NbdTcp { host: host.into(), port, export: export.into() };
        assert_eq!("nbd://h1/d".parse(), Ok(tcp("h1", 10809, "d")));
        assert_eq!("nbd://127.0.0.1:10900".parse(), Ok(tcp("127.0.0.1", 10900, "")));
        assert_eq!("nbd://[::1]:9/a%20b".parse(), Ok(tcp("::1", 9, "a b")));
        assert_eq!("nbd://[::1]/d".parse(), Ok(tcp("::1", 10809, "d")));
        let device = "vhost-user:///run/cairn/disk-1.sock";
        assert_eq!(device.parse(), Ok(Address::VhostUser { socket: "/run/cairn/disk-1.sock".into() }));
        assert_eq!(device.parse::<Address>().unwrap().to_string(), device);
        assert_eq!("vhost-user:///a%20b".parse(), Ok(Address::VhostUser { socket: "/a b".into() }));
        assert_eq!("/dev/vdb".parse(), Ok(Address::Path("/dev/vdb".into())));
        for wrong in [
            "",
            "nbd+unix:///d",
            "nbd+unix:///d?socket=",
            "iscsi://h/1",
            "nbd:///d",
            "nbd://h:x/d",
            "nbd://h/%4",
            "vhost-user://",
            "vhost-user:///",
            "vhost-user://disk-1.sock",
            "vhost-user:///a%4",
        ] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
