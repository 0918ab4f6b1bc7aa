//! Block I/O: an owner to a component, a front end to an owner.

use cairn_types::{BlockRange, ClientTag, ComponentId, DiskGroupId, Epoch, SessionId};
use serde::{Deserialize, Serialize};

/// The component that a request is for, and in which name it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Where the component lives.
    pub disk_group: DiskGroupId,
    /// The component.
    pub component: ComponentId,
    /// The owner's epoch: older ones than promised are refused.
    pub epoch: Epoch,
    /// The admission: requests of another one are refused.
    pub session: SessionId,
}

/// Whether a run of blocks is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedPiece {
    /// The blocks.
    pub range: BlockRange,
    /// False for a hole.
    pub allocated: bool,
}

/// A guest's request, forwarded by a front end to the owner. Offsets and lengths in bytes, multiples of 512.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestRequest {
    /// Read; the answer carries the bytes.
    Read {
        /// From where.
        offset: u64,
        /// How many.
        len_bytes: u32,
    },
    /// Write the payload.
    Write {
        /// To where.
        offset: u64,
        /// CRC-32C of the payload, checked by the owner.
        crc: u32,
        /// Names the request for a retry.
        client: ClientTag,
        /// True when an earlier try may have been carried out.
        retry: bool,
    },
    /// Zero or trim.
    Zero {
        /// From where.
        offset: u64,
        /// How many.
        len_bytes: u64,
        /// True: the range keeps its space.
        keep_allocated: bool,
        /// Names the request for a retry.
        client: ClientTag,
        /// True when an earlier try may have been carried out.
        retry: bool,
    },
    /// Allocation of a range.
    Status {
        /// From where.
        offset: u64,
        /// How many.
        len_bytes: u64,
    },
}
