//! The object record as its seats hold it: for debugging. The shape of `config` is the engine's and may change.

use cairn_types::{DiskGroupId, HostId, ObjectConfig, ObjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What one seat holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeatReport {
    /// The host.
    #[schema(value_type = String)]
    pub host: HostId,
    /// That host's name.
    pub host_name: String,
    /// The disk group.
    #[schema(value_type = String)]
    pub disk_group: DiskGroupId,
    /// Its votes.
    pub votes: u32,
    /// The epoch that it promised, "number/host/incarnation"; none when it could not be asked.
    #[serde(default)]
    pub promised: Option<String>,
    /// The epoch of the configuration that it accepted last.
    #[serde(default)]
    pub accepted: Option<String>,
    /// The number of that configuration.
    #[serde(default)]
    pub csn: Option<u64>,
    /// Whether that configuration is still an open change.
    #[serde(default)]
    pub open: bool,
    /// Why it could not be asked.
    #[serde(default)]
    pub error: Option<String>,
}

/// The record of one disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectRecord {
    /// The disk.
    #[schema(value_type = String)]
    pub object: ObjectId,
    /// What each seat holds.
    pub seats: Vec<SeatReport>,
    /// The newest configuration among the answers.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub config: Option<ObjectConfig>,
}
