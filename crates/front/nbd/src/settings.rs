//! What the caller of the server may choose.

use std::time::Duration;

use crate::Doors;

/// How the server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// What one client, and all of them, may take.
    pub limits: Limits,
    /// Permission bits of a unix socket's file: who may connect. Owner and group by default.
    pub unix_mode: u32,
    /// The group that it belongs to; none: the process's.
    pub unix_group: Option<u32>,
    /// How long [`crate::Server::stop`] waits for answers to leave, at most.
    pub stop_grace: Duration,
    /// Where clients go whose disks another shard of the process serves.
    pub doors: Doors,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            unix_mode: 0o660,
            unix_group: None,
            stop_grace: Duration::from_secs(5),
            doors: Doors::default(),
        }
    }
}

/// Bounds on what clients may take. Past them the server stops reading that client's socket, or refuses the connection.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections of one server at a time; the next one is closed at once.
    pub connections_max: usize,
    /// Bytes of requests and unsent answers per connection. At least 32 MiB (one largest request) are always admitted.
    pub bytes_in_flight_max: usize,
    /// Requests and unsent answers per connection.
    pub requests_in_flight_max: usize,
    /// From accept to the end of the negotiation.
    pub handshake_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A VM holds 1..16 connections (multi-conn); a host runs tens of VMs.
            connections_max: 1024,
            bytes_in_flight_max: 64 << 20,
            requests_in_flight_max: 256,
            handshake_timeout: Duration::from_secs(30),
        }
    }
}
