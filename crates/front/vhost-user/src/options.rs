//! What the caller of the server may choose.

use std::time::Duration;

/// How the server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Permission bits of the sockets: who may connect, and is trusted with the whole process with it. Owner and group by default.
    pub unix_mode: u32,
    /// The group that they belong to; none: the process's.
    pub unix_group: Option<u32>,
    /// Bytes of the requests that one front end has under way. At least one request of the largest size is always admitted.
    pub bytes_in_flight_max: usize,
    /// How long [`crate::Server::stop`] waits for requests that are under way, at most.
    pub stop_grace: Duration,
    /// How often it looks for disks that were made or deleted.
    pub look_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            unix_mode: 0o660,
            unix_group: None,
            bytes_in_flight_max: 64 << 20,
            stop_grace: Duration::from_secs(5),
            look_every: Duration::from_millis(500),
        }
    }
}
