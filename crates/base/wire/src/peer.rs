//! Heartbeats: sessions between processes, the base of leases; and what each host tells of itself.

use cairn_types::{DeviceRoom, DiskGroupId, Epoch, HostId, Incarnation, ObjectId};
use serde::{Deserialize, Serialize};

/// A run of heartbeats between two processes without a gap of a lease; drawn by the grantor, never revived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PeerSession(pub u64);

/// What a disk group tells of itself with each heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskGroupSummary {
    /// Which.
    pub disk_group: DiskGroupId,
    /// How often it was opened.
    pub open_count: u64,
    /// Its durable log position; peers keep the highest to unmask an old disk image.
    pub durable_position: u64,
    /// The room on each capacity device that works: a component lies on one of them.
    pub devices: Vec<DeviceRoom>,
    /// Components on it, witnesses included.
    pub components: u32,
    /// Of these, witnesses.
    pub witnesses: u32,
    /// False: it takes no writes (media failure).
    pub healthy: bool,
    /// Its capacity devices that failed, or were missing when it was opened: only grows while it is open.
    pub failed_devices: u32,
}

impl DiskGroupSummary {
    /// Capacity in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.devices.iter().map(|device| device.total_bytes).sum()
    }

    /// Of that, free and not reserved.
    pub fn free_bytes(&self) -> u64 {
        self.devices.iter().map(|device| device.free_bytes).sum()
    }

    /// Bytes in use, reserved, or promised to thin components: may be more than there are.
    pub fn promised_bytes(&self) -> u64 {
        self.devices.iter().map(DeviceRoom::promised_bytes).sum()
    }
}

/// What a host tells of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct HostSummary {
    /// Its clock of the day, in ms since 1970. The middle one of all hosts decides when schedules run and locks of snapshots end, and nothing else.
    pub unix_ms: u64,
    /// Its disk groups.
    pub disk_groups: Vec<DiskGroupSummary>,
    /// Bytes per second that a resync may read or write here beside the guests that it serves; none: it serves none.
    pub resync_bytes_per_s_max: Option<u64>,
}

/// Sent every heartbeat interval to every peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Grows by one; the answer repeats it.
    pub number: u64,
    /// The session that the sender holds from this grantor, if it was told one.
    pub session: PeerSession,
    /// The highest durable positions that the sender has seen of the receiver's disk groups.
    pub remembered: Vec<(DiskGroupId, u64, u64)>,
    /// The sender's state.
    pub summary: HostSummary,
    /// Objects that the sender owns with a seat at the receiver; what is missing there is released.
    pub owned: Listed,
}

/// What a heartbeat lists. Nothing of it grows with objects at rest, as they are listed once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Listed {
    /// All of it.
    All(Vec<(ObjectId, Epoch)>),
    /// The same as the heartbeat of this number, which the receiver has answered in the session of this one.
    AsIn(u64),
}

/// Sent back at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// Of the heartbeat.
    pub number: u64,
    /// The session: another one than before tells that the old is over.
    pub session: PeerSession,
    /// The grantor's process.
    pub grantor: (HostId, Incarnation),
}
