//! What a seat answers to Seize: its record and what its components hold unsettled.

use cairn_types::{Accepted, ComponentId, Epoch, OpId, SessionId, UnsettledOp};
use serde::{Deserialize, Serialize};

/// What a seat says of one of its components.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentAnswer {
    /// Which.
    pub component: ComponentId,
    /// False: the disk group does not hold it (any more).
    pub present: bool,
    /// True: its capacity device failed or missed a destage.
    pub lost: bool,
    /// The admission that this answer opens.
    pub session: SessionId,
    /// Every operation up to this one is decided, as the component was told, or its record where it is in sync.
    pub settled: OpId,
    /// The last operation at or below that, which came to it as a write and stands, as far as it knows; zero where it does not.
    pub last_written: OpId,
    /// The same by index, of the operations that concerned the member with that index; empty at a mirror, where each concerns all.
    ///
    /// It does not travel yet: no component of a disk with parity is made before hosts tell it.
    #[serde(skip)]
    pub last_written_with: Vec<OpId>,
    /// What it holds above that, ascending.
    pub window: Vec<UnsettledOp>,
    /// Set when its log is damaged or rolled back: a lack of an operation proves nothing.
    pub log_damaged: bool,
}

impl ComponentAnswer {
    /// The last settled write that it took and that concerned the member with this index too.
    pub fn last_written_with(&self, index: u32) -> OpId {
        match self.last_written_with.is_empty() {
            true => self.last_written,
            false => self.last_written_with.get(index as usize).copied().unwrap_or(OpId::ZERO),
        }
    }
}

/// A seat's answer to Seize.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeizeAnswer {
    /// The promise is durable, and so is every earlier append of the object.
    Promised {
        /// The last accepted record; none while nascent.
        accepted: Option<Box<Accepted>>,
        /// Its components.
        components: Vec<ComponentAnswer>,
    },
    /// A newer epoch was promised.
    Promisee {
        /// Which.
        promised: Epoch,
    },
    /// Another owner's lease stands.
    LeaseHeld {
        /// Its epoch.
        by: Epoch,
        /// For at most this long if it is silent from now on.
        for_ms: u64,
    },
    /// The disk group holds nothing of the object.
    NoSeat,
}
