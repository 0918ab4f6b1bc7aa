//! Where the API is: `http://host:port` or `unix:/path`.

use std::{fmt, path::PathBuf, str::FromStr};

/// A place to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiAddress {
    /// TCP, "host:port".
    Tcp(String),
    /// A unix socket.
    Unix(PathBuf),
}

impl FromStr for ApiAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => Err("a socket needs a full path: unix:/run/cairn/api.sock".into()),
            };
        }
        if text.starts_with("https://") {
            return Err(
                "the management API speaks no TLS in this release: use http:// on a trusted network, or unix:/path"
                    .into(),
            );
        }
        let host = text.strip_prefix("http://").unwrap_or(text);
        let host = host.trim_end_matches('/');
        if host.is_empty() || host.contains(['/', ' ', '@']) {
            return Err("write http://127.0.0.1:9610 or unix:/run/cairn/api.sock".into());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match has_port {
            true => Ok(Self::Tcp(host.into())),
            false => Ok(Self::Tcp(format!("{host}:9610"))),
        }
    }
}

impl fmt::Display for ApiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host) => write!(f, "http://{host}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<ApiAddress>().map(|a| a.to_string());
        assert_eq!(read("http://h:1/"), Ok("http://h:1".into()));
        assert_eq!(read("h"), Ok("http://h:9610".into()));
        assert_eq!(read("[::1]:5"), Ok("http://[::1]:5".into()));
        assert_eq!(read("unix:/a/b"), Ok("unix:/a/b".into()));
        assert_eq!(read("unix:///a"), Ok("unix:/a".into()));
        for bad in ["unix:a", "https://h", "", "http://", "h/x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
