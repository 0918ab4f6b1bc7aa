//! Hosts.

use cairn_types::{DiskGroupId, HostId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::cluster::Capacity;

/// One server of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// Its id.
    #[schema(value_type = String)]
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// The set of hosts that fail together with it; its own name unless told otherwise.
    pub fault_domain: String,
    /// Where its peers reach it, "address:port".
    pub address: String,
    /// Where guests reach its NBD server: "nbd://10.0.0.1:10809", "nbd+unix:///?socket=/run/cairn/nbd.sock".
    #[serde(default)]
    pub nbd_addresses: Vec<String>,
    /// The folder on it with its vhost-user sockets, DISK.sock; none where it serves no vhost-user.
    #[serde(default)]
    pub vhost_user_dir: Option<String>,
    /// Whether it answers heartbeats, with all its shards.
    pub up: bool,
    /// How many times its process was started.
    pub incarnation: u64,
    /// Whether it is in maintenance.
    pub maintenance: bool,
    /// Its shards: threads with disk groups and disks of their own.
    #[serde(default)]
    pub shards: Option<u32>,
    /// Its disk groups.
    #[schema(value_type = Vec<String>)]
    pub disk_groups: Vec<DiskGroupId>,
    /// Space of its disk groups, as last reported.
    pub capacity: Capacity,
    /// Virtual disks that it owns; none where one of its shards does not answer.
    #[serde(default)]
    pub disks_owned: Option<u32>,
}

/// Enters or leaves maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostMaintenance {
    /// True to enter, false to leave.
    pub enter: bool,
}

impl crate::Request for HostMaintenance {}
