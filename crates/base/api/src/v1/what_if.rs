//! What would become of the cluster if something were lost: asked before it is.

use cairn_types::DiskGroupId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is lost for good: one of a host, a disk group, and a capacity device of a disk group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfLost {
    /// A host, by name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A disk group: its cache device, or all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub disk_group: Option<DiskGroupId>,
    /// One capacity device of that disk group, by its path as `cairn disk-group show` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl crate::Request for WhatIfLost {
    fn validate(&self) -> crate::ApiResult<()> {
        match (&self.host, &self.disk_group, &self.device) {
            (Some(_), None, None) | (None, Some(_), _) => Ok(()),
            _ => Err(crate::ApiError::invalid(
                "name a host, or a disk group, or a disk group and a capacity device of it",
            )),
        }
    }
}

/// What a loss would come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhatIf {
    /// What would be lost, in words.
    pub lost_is: String,
    /// Virtual disks with a component there.
    pub disks: u32,
    /// Their components there.
    pub components: u32,
    /// Disks that go on with less redundancy until they are rebuilt, by name.
    pub reduced: Vec<String>,
    /// Those of them of which something has no place elsewhere, each with why.
    pub not_rebuilt: Vec<String>,
    /// Disks that are not served until hosts return that are away now, by name.
    pub inaccessible: Vec<String>,
    /// Disks that lose most of their votes, or the last good copy of something, by name.
    pub lost: Vec<String>,
    /// Disks that no host answers for: nobody knows what they lose.
    pub unknown: Vec<String>,
    /// Components with data that are rebuilt elsewhere.
    pub rebuilt_components: u32,
    /// Bytes that are copied for that; none where a host that holds them does not say.
    pub rebuilt_bytes: Option<u64>,
    /// Bytes that are free elsewhere.
    pub free_bytes: u64,
    /// Seconds that the rebuild takes once it begins, at the best rate that a host has copied with lately; none where nothing was copied yet.
    pub rebuild_s: Option<u64>,
    /// Seconds after which it begins; none: at once, as what is lost says so itself.
    pub begins_after_s: Option<u64>,
}

/// What is added: hosts with a disk group each, or a capacity device of a disk group that is there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfGrowth {
    /// So many hosts; none: a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u8>,
    /// Capacity devices of each of these hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u8>,
    /// The disk group that gets a capacity device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub disk_group: Option<DiskGroupId>,
    /// Bytes of each capacity device.
    pub device_bytes: u64,
}

/// Hosts that a cluster may get at once.
const HOSTS_MAX: u8 = 64;
/// Capacity devices of a disk group.
const DEVICES_MAX: u8 = 7;
/// Below that a device holds no component worth placing.
const DEVICE_BYTES_MIN: u64 = 64 << 20;

impl crate::Request for WhatIfGrowth {
    fn validate(&self) -> crate::ApiResult<()> {
        let refuse = |text: String| Err(crate::ApiError::invalid(text));
        match (self.hosts, self.devices, self.disk_group) {
            (Some(1..=HOSTS_MAX), None | Some(1..=DEVICES_MAX), None) | (None, None, Some(_)) => {}
            (None, _, None) | (Some(_), _, Some(_)) | (None, Some(_), Some(_)) => {
                return refuse("name a number of hosts with their devices, or a disk group that gets a device".into());
            }
            _ => return refuse(format!("1 to {HOSTS_MAX} hosts come, each with 1 to {DEVICES_MAX} capacity devices")),
        }
        match self.device_bytes >= DEVICE_BYTES_MIN {
            true => Ok(()),
            false => refuse(format!("a capacity device has at least {DEVICE_BYTES_MIN} bytes")),
        }
    }
}

/// What a growth would come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Growth {
    /// What would be added, in words.
    pub added_is: String,
    /// Bytes of all capacity devices now.
    pub raw_bytes_before: u64,
    /// Bytes of all capacity devices then.
    pub raw_bytes_after: u64,
    /// Bytes that are free now.
    pub free_bytes_before: u64,
    /// Bytes that are free then, once what follows is done.
    pub free_bytes_after: u64,
    /// Disks that have fewer copies than their policy asks for, and get them, by name.
    pub completed: Vec<String>,
    /// Bytes that are copied for that; none where a host does not say what it holds.
    pub completed_bytes: Option<u64>,
    /// Disks that have fewer copies then, too, each with why.
    pub still_lacking: Vec<String>,
    /// Disks that no host answers for.
    pub unknown: Vec<String>,
    /// Components that rebalancing moves.
    pub moved_components: u64,
    /// What they hold; none where a host does not say what it holds.
    pub moved_bytes: Option<u64>,
    /// There are more moves than were worked out.
    pub more_moves: bool,
    /// Seconds that copying and moving take, at the best rate that a host has copied with lately; none where nothing was copied yet.
    pub takes_s: Option<u64>,
    /// Hosts that are up, with a disk group.
    pub hosts_after: u32,
}
