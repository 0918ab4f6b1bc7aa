//! Clones of snapshots.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{disk::DiskLimits, name::check_name};

/// A disk to be made of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskClone {
    /// Its name, unique in the cluster.
    pub name: String,
    /// Its size, as large as the snapshot's or larger; the snapshot's when left out.
    pub size_bytes: Option<u64>,
    /// The policy, one of mirrors; that of the snapshot's disk when left out.
    pub policy: Option<String>,
    /// The host that will use it, by name or id: one copy is placed there where that is possible.
    pub host: Option<String>,
    /// Limits of its own, in the place of its policy's.
    pub limits: DiskLimits,
}

impl crate::Request for DiskClone {
    fn validate(&self) -> crate::ApiResult<()> {
        check_name("disk", &self.name)
    }
}
