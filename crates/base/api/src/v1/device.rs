//! Block devices of a host, those of no disk group among them.

use cairn_types::DiskGroupId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether a device can be given to a disk group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostDeviceState {
    /// It holds nothing that is known, and nobody uses it.
    Free,
    /// A disk group of this host has it.
    Claimed,
    /// Neither: the reason says why.
    Unusable,
}

/// What a device is in its disk group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostDeviceRole {
    /// Log and metadata.
    Cache,
    /// What is moved there from the log.
    Capacity,
}

impl HostDeviceRole {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Capacity => "capacity",
        }
    }
}

/// A block device of a host, or a file that serves as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostDevice {
    /// What it is called now; another device may have the name after the next start.
    pub path: String,
    /// What it is always called, below `/dev/disk/by-id`: a disk group remembers it by this. None where the system has no such name.
    #[serde(default)]
    pub stable_path: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// What its maker calls it.
    #[serde(default)]
    pub model: Option<String>,
    /// Its maker's number for it.
    #[serde(default)]
    pub serial: Option<String>,
    /// Whether it has moving parts, as the system says.
    #[serde(default)]
    pub rotational: Option<bool>,
    /// Whether it can be given to a disk group.
    pub state: HostDeviceState,
    /// The disk group that has it.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub disk_group: Option<DiskGroupId>,
    /// What it is there.
    #[serde(default)]
    pub role: Option<HostDeviceRole>,
    /// Why it cannot be used; of one that a disk group has: what is wrong with it.
    #[serde(default)]
    pub reason: Option<String>,
    /// In degrees Celsius, where the system tells it.
    #[serde(default)]
    pub temperature_c: Option<i32>,
    /// How much of its life it has used up, where the system tells it.
    #[serde(default)]
    pub wear_percent: Option<u8>,
}
