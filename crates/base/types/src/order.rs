//! What comes before what: epochs, operations, configurations.

use serde::{Deserialize, Serialize};

use crate::{HostId, Incarnation};

/// Fences older owners. (number, host, incarnation) in this order, so no two seizers share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Epoch {
    /// Grows with every change of owner.
    pub number: u64,
    /// The host that owns at this epoch.
    pub host: HostId,
    /// The process of that host.
    pub incarnation: Incarnation,
}

/// One operation on an object, compared as (epoch, seq) everywhere: windows, region tables, `settled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct OpId {
    /// The epoch of the owner that issued it.
    pub epoch: Epoch,
    /// Its number within that epoch, from 1.
    pub seq: u64,
}

impl OpId {
    /// Before every operation.
    pub const ZERO: Self = Self { epoch: Epoch { number: 0, host: HostId(0), incarnation: Incarnation(0) }, seq: 0 };
}

/// Configuration sequence number of an object; 0 is nascent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Csn(pub u64);

/// Names one front-end request, so that a retry at a new owner is not executed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ClientTag {
    /// The front-end session, random; 0 is "no client" (internal operations).
    pub session: u64,
    /// The request's number within the session.
    pub number: u64,
}
