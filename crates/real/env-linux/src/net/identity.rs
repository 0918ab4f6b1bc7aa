//! Who may connect: the checks of a greeting, and which connections of a peer's processes are alive.
//!
//! Promises    A3  two live processes of one host are never both connected
//! Assumes     the text of a refusal goes to the other side and to people: it names cause and remedy

use std::{collections::BTreeMap, sync::Arc};

use cairn_types::{Build, HostId, Incarnation, Level};
use cairn_upgrade::{Party, meet};

use super::{Greeting, Stop, host::Command};
use crate::host::HostShared;

/// A live connection from a peer.
pub(crate) struct Connection {
    incarnation: Incarnation,
    process: u64,
    build: Build,
    stop: Arc<Stop>,
}

pub(crate) type Connections = BTreeMap<HostId, Connection>;

impl HostShared {
    /// What this host says of itself.
    pub(crate) fn greeting(&self, to: HostId) -> Greeting {
        Greeting {
            level: self.level(),
            build: self.build.clone(),
            cluster: self.cluster,
            host: self.host,
            to,
            incarnation: self.incarnation,
            process: self.process,
        }
    }

    /// Whether a greeting comes from a host of our cluster, speaks what the cluster speaks, and is meant for us; `expected` is the
    /// host that we dialled.
    pub(crate) fn check_identity(&self, other: &Greeting, expected: Option<HostId>) -> Result<(), String> {
        if other.cluster != self.cluster {
            return Err(format!(
                "wrong cluster: this host belongs to cluster {}, the other to {}: check the address and the cluster id \
                 in the configuration",
                self.cluster, other.cluster
            ));
        }
        if other.host == self.host {
            return Err(format!(
                "both sides are host {}: an address points to the host itself, or a host was cloned with its identity",
                self.host
            ));
        }
        if let Some(expected) = expected
            && other.host != expected
        {
            return Err(format!(
                "wrong host: {} was expected at this address and {} answers: correct the address",
                expected, other.host
            ));
        }
        if other.to != self.host {
            return Err(format!("wrong host: this is {}, not {}: correct the address", self.host, other.to));
        }
        if let Some(words) = self.why_shut_out(other.host) {
            return Err(words);
        }
        self.check_level(other.host, &other.build, other.level)
    }

    /// Whether we may be connected with this build. Last of all: before, it is not known whose name to say.
    pub(crate) fn check_level(&self, peer: HostId, build: &Build, level: Level) -> Result<(), String> {
        let (me, peer) = (self.peer_name(self.host), self.peer_name(peer));
        let ours = Party { name: &me, build: &self.build, level: self.level() };
        meet(ours, Party { name: &peer, build, level }).map(drop)
    }

    /// The level rose: connections from peers that do not speak it end.
    pub(crate) fn end_inbound_below(&self, level: Level) {
        let mut connections = self.connections.lock().expect("nothing panics here");
        let ended: Vec<_> = connections.extract_if(.., |_, c| !c.build.speaks.includes(level)).collect();
        drop(connections);
        for (peer, connection) in ended {
            connection.stop.stop();
            self.replies_lost(peer);
        }
    }

    /// A peer's connection to us ends, if it has one.
    pub(crate) fn end_inbound(&self, peer: HostId) {
        let ended = self.connections.lock().expect("nothing panics here").remove(&peer);
        if let Some(connection) = ended {
            connection.stop.stop();
            self.replies_lost(peer);
        }
    }

    /// Enters a connection, and ends the one that it replaces: of an older process, or of the same.
    pub(crate) fn inbound_begins(&self, hello: &Greeting) -> Result<Arc<Stop>, String> {
        let mut connections = self.connections.lock().expect("nothing panics here");
        // Once more, under the lock: the level may have risen on another thread since, and then who is in here was ended.
        self.check_level(hello.host, &hello.build, hello.level)?;
        if let Some(words) = self.why_shut_out(hello.host) {
            return Err(words);
        }
        if let Some(connection) = connections.get(&hello.host) {
            if connection.incarnation > hello.incarnation {
                return Err(format!(
                    "a newer process of host {} (start {}) is connected: this one (start {}) must stop",
                    hello.host, connection.incarnation.0, hello.incarnation.0
                ));
            }
            if connection.incarnation == hello.incarnation && connection.process != hello.process {
                return Err(format!(
                    "another process of host {} is connected: stop one of the two, or give one its own identity",
                    hello.host
                ));
            }
        }
        let stop = Arc::new(Stop::default());
        let (incarnation, process, build) = (hello.incarnation, hello.process, hello.build.clone());
        let connection = Connection { incarnation, process, build, stop: stop.clone() };
        let replaced = connections.insert(hello.host, connection);
        drop(connections);
        if let Some(old) = replaced {
            old.stop.stop();
            self.replies_lost(hello.host);
        }
        Ok(stop)
    }

    /// Strikes out a connection that ended.
    pub(crate) fn inbound_ended(&self, peer: HostId, stop: &Arc<Stop>) {
        let mut connections = self.connections.lock().expect("nothing panics here");
        let is_this = connections.get(&peer).is_some_and(|c| Arc::ptr_eq(&c.stop, stop));
        if is_this {
            connections.remove(&peer);
        }
        drop(connections);
        if is_this {
            self.replies_lost(peer);
        }
    }

    fn replies_lost(&self, peer: HostId) {
        self.net.send(Command::RepliesLost(peer));
    }
}
