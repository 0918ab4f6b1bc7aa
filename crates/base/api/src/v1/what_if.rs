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
