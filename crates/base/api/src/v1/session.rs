//! Sessions: who uses which disk, and through which host.

use cairn_types::HostId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A client of a front end that has a disk open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The disk's name.
    pub disk: String,
    /// The host that it came to.
    #[schema(value_type = String)]
    pub host: HostId,
    /// That host's name.
    pub host_name: String,
    /// The protocol: "nbd" or "vhost-user".
    pub front_end: String,
    /// The client, as far as it is known: an address, "unix" for a socket on that host, "process 4711" for its process there.
    pub peer: String,
    /// When it came, in milliseconds since 1970, by that host's clock.
    pub since_unix_ms: u64,
    /// Requests answered since, of any kind.
    pub requests: u64,
    /// Of which answered with an error.
    pub failed_requests: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that it wrote.
    pub write_bytes: u64,
}

impl std::fmt::Display for Session {
    /// As people name it: "nbd at host-1 from 10.0.0.9:50000".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {} from {}", self.front_end, self.host_name, self.peer)
    }
}

/// The sessions of all hosts that answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    /// By disk, the oldest first.
    pub sessions: Vec<Session>,
    /// Names of hosts that the cluster knows and that did not answer: nobody knows who is connected there.
    pub hosts_silent: Vec<String>,
}
