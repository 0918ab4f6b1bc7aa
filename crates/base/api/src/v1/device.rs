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

/// Lights the locate LED of a block device, or puts it out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceLocate {
    /// The device: its path, its link below `/dev/disk/by-id`, or the name of that link.
    pub device: String,
    /// Put it out.
    #[serde(default)]
    pub off: bool,
}

impl crate::Request for DeviceLocate {}

/// The device whose locate LED was lit or put out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceLocated {
    /// The host's name.
    pub host: String,
    /// What the device is called now; of a partition: its disk, which has the LED.
    pub path: String,
    /// What it is always called, below `/dev/disk/by-id`. None where the system has no such name.
    #[serde(default)]
    pub stable_path: Option<String>,
    /// What its maker calls it.
    #[serde(default)]
    pub model: Option<String>,
    /// Its maker's number for it: it stands on the device.
    #[serde(default)]
    pub serial: Option<String>,
    /// Whether the LED was lit; else it was put out.
    pub lit: bool,
}

/// Adds a capacity device to a disk group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskGroupAddCapacity {
    /// The device, on the disk group's host.
    pub device: String,
    /// Use it although it holds something: that is lost.
    #[serde(default)]
    pub overwrite: bool,
    /// Only tell what would come of it.
    #[serde(default)]
    pub dry_run: bool,
}

impl crate::Request for DiskGroupAddCapacity {}

/// Puts a device in the place of one of a disk group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskGroupReplaceDevice {
    /// The device that goes: its path, or the beginning of its id.
    pub device: String,
    /// The new one, on the disk group's host.
    pub with: String,
    /// Use the new one although it holds something: that is lost.
    #[serde(default)]
    pub overwrite: bool,
    /// Only tell what would come of it.
    #[serde(default)]
    pub dry_run: bool,
    /// Go on although a disk's only good copy is lost.
    #[serde(default)]
    pub force: bool,
}

impl crate::Request for DiskGroupReplaceDevice {}

/// What the host of a disk group is asked for by either: it travels between hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceOrder {
    /// The new device.
    pub device: String,
    /// The one that goes for it.
    #[serde(default)]
    pub instead_of: Option<String>,
    /// Use the new one although it holds something.
    #[serde(default)]
    pub overwrite: bool,
    /// Only tell what would come of it.
    #[serde(default)]
    pub dry_run: bool,
    /// Go on although a disk's only good copy is lost.
    #[serde(default)]
    pub force: bool,
}

/// What a change of a disk group's devices came to, or would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceChange {
    /// The host's name.
    pub host: String,
    /// The disk group that has the device: another one than before where it was made anew.
    #[schema(value_type = String)]
    pub disk_group: DiskGroupId,
    /// The new device, as the disk group remembers it.
    pub device: String,
    /// Its size.
    pub size_bytes: u64,
    /// What components may use of it; 0 where the disk group is made anew.
    pub usable_bytes: u64,
    /// The device that goes.
    #[serde(default)]
    pub instead_of: Option<String>,
    /// All of the disk group goes, and one is made of the devices that are left and the new one.
    #[serde(default)]
    pub made_anew: bool,
    /// Components that are lost, and rebuilt elsewhere where there is room.
    pub components_lost: u32,
    /// What they hold, as far as that is known.
    pub bytes_lost: u64,
    /// Disks that survive fewer failures until then, by name.
    pub reduced: Vec<String>,
    /// Disks whose only good copy is among them, by name.
    pub last_copies: Vec<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
}
