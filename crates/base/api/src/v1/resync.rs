//! Resync: components that are being filled.

use cairn_types::{ComponentId, ObjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much has to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResyncKind {
    /// Only the regions touched while the component was away.
    Delta,
    /// Everything: the component is new.
    Full,
}

/// One component that is being filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resync {
    /// The disk.
    #[schema(value_type = String)]
    pub disk: ObjectId,
    /// The disk's name.
    pub disk_name: String,
    /// The component that is being filled.
    #[schema(value_type = String)]
    pub component: ComponentId,
    /// The host that it is on.
    pub host_name: String,
    /// How much has to be copied.
    pub kind: ResyncKind,
    /// All that this resync copies.
    pub bytes_total: u64,
    /// What is left of it.
    pub bytes_left: u64,
    /// The present rate, 0 while it waits.
    pub bytes_per_s: u64,
    /// Seconds left at the present rate; none while it waits.
    #[serde(default)]
    pub eta_s: Option<u64>,
}

/// How fast resync may go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResyncSettings {
    /// Bytes per second and host, at most; 0 leaves it to the closed loop, which yields to guest I/O.
    pub bytes_per_s_max: u64,
}

impl crate::Request for ResyncSettings {}
