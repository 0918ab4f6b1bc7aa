//! What a history is made of: requests, answers and faults, each with its time.

use cairn_cluster::model::Found;
use cairn_faults::What;
use serde::{Deserialize, Serialize};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes bytes of its own version.
    Write,
    /// Writes zeroes.
    Zeroes,
}

/// How a client reaches a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Its unix socket, which is there while the host is cut off.
    Unix,
    /// TCP.
    Tcp,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Who asks.
    pub client: u64,
    /// Through which host.
    pub host: u8,
    /// Over which kind of socket.
    pub over: Over,
    /// What.
    pub kind: Kind,
    /// First sector.
    pub first: u64,
    /// Sectors.
    pub count: u64,
    /// What a write writes, the number of a change; 0 for a read.
    pub version: u64,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// A change is acknowledged.
    Done,
    /// A read found this: how many sectors of each, in order.
    Found(Vec<(Found, u64)>),
    /// An error number. A change may have happened, may happen later, or never.
    Refused(u32),
    /// There is no answer: the same.
    Unknown(String),
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// Comes first: a disk of zeroes.
    Disk {
        /// Its size.
        sectors: u64,
        /// What the run was drawn from.
        seed: u64,
    },
    /// A request is about to leave.
    Begin {
        /// Its number.
        request: u64,
        /// What it is.
        #[serde(flatten)]
        what: Request,
    },
    /// It has ended.
    End {
        /// Its number.
        request: u64,
        /// How.
        answer: Answer,
    },
    /// Something is about to go wrong.
    Fault {
        /// What.
        what: What,
        /// For how long.
        for_ms: u64,
    },
    /// It is over.
    Healed,
    /// The disk is at full redundancy again.
    Healthy,
}

/// An event and when it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Microseconds since the history began.
    pub at_us: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}
