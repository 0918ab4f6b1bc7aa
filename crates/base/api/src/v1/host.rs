//! Hosts.

use cairn_types::{DiskGroupId, HostId, MaintenanceMode};
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostMaintenance {
    /// True to enter, false to leave.
    pub enter: bool,
    /// What is moved away first: "ensure-accessibility", "full-evacuation" or "no-evacuation"; left out: the first of them.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub mode: Option<MaintenanceMode>,
    /// Only tell what would come of it.
    #[serde(default)]
    pub dry_run: bool,
    /// Enter although something cannot be moved, or disks cannot be served while the host is away.
    #[serde(default)]
    pub force: bool,
}

/// How far a host is on its way into maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MaintenanceState {
    /// It is in use.
    Out,
    /// What is to be moved away is not all elsewhere yet.
    Entering,
    /// Nothing is left to be moved: it may be stopped.
    In,
}

/// Maintenance of a host, or the emptying of a disk group: what stands, or what would come of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Maintenance {
    /// The host's name.
    pub host: String,
    /// The disk group that is emptied; none: it is about the whole host.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub disk_group: Option<DiskGroupId>,
    /// How far it is; of a preview: as it is now.
    pub state: MaintenanceState,
    /// The mode that holds, or that was asked about.
    #[schema(value_type = Option<String>)]
    pub mode: Option<MaintenanceMode>,
    /// Virtual disks with a component there.
    pub disks: u32,
    /// Components that have to go elsewhere.
    pub components_left: u32,
    /// What they hold.
    pub bytes_left: u64,
    /// What is to be moved takes about so long: at its present rate, or, before it has begun, at that of the last copies of the fastest host.
    /// None: nothing was copied yet.
    #[serde(default)]
    pub eta_s: Option<u64>,
    /// Disks of which something cannot be moved, each with why.
    pub obstacles: Vec<String>,
    /// Disks that cannot be served while the host is away, by name.
    pub inaccessible: Vec<String>,
    /// Disks that survive fewer failures while the host is away.
    pub reduced: u32,
}

impl crate::Request for HostMaintenance {}

/// How a host is removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRemove {
    /// Only tell what stands in the way.
    #[serde(default)]
    pub dry_run: bool,
}

impl crate::Request for HostRemove {}

/// A host that is removed, or what stands in the way of that.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct HostRemoval {
    /// Its name.
    pub host: String,
    /// Whether it answers.
    pub up: bool,
    /// Whether it is in maintenance with full evacuation, and no disk has a component there.
    pub emptied: bool,
    /// Its disk groups: they go with it, and their devices are blank then if it is up.
    #[schema(value_type = Vec<String>)]
    pub disk_groups: Vec<DiskGroupId>,
    /// Components of disks that are there.
    pub components: u32,
    /// What of them is not elsewhere yet.
    pub bytes_left: u64,
    /// Virtual disks that it owns: they are handed over first.
    pub disks_owned: u32,
    /// Disks that guests use through it.
    pub sessions: Vec<String>,
    /// What stands in the way, each in words; none: it can be removed, or was.
    pub obstacles: Vec<String>,
    /// Whether what stands in the way may end without a further command: it is being emptied, or guests are about to leave.
    pub waits: bool,
}

/// How a host is forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostForget {
    /// Only tell what would be lost.
    #[serde(default)]
    pub dry_run: bool,
    /// Forget it although disks are lost with it, or the host that is asked may be the one that is cut off.
    #[serde(default)]
    pub force: bool,
}

impl crate::Request for HostForget {}

/// What is lost with a host that is dead.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct HostLoss {
    /// Its name.
    pub host: String,
    /// Hosts that hear it: it is alive, and not forgotten.
    pub heard_by: Vec<String>,
    /// Other hosts that do not answer the one that was asked.
    pub silent: Vec<String>,
    /// The host that was asked hears no majority of the hosts: it may be the one that is cut off.
    pub cut_off: bool,
    /// Its disk groups.
    #[schema(value_type = Vec<String>)]
    pub disk_groups: Vec<DiskGroupId>,
    /// Virtual disks with a component there.
    pub disks: u32,
    /// Their components there.
    pub components: u32,
    /// Disks that go on with less redundancy; what they lost is rebuilt elsewhere at once.
    pub reduced: Vec<String>,
    /// Those of them whose components have no place elsewhere now, each with why.
    pub not_rebuilt: Vec<String>,
    /// Disks that are not served until hosts return that are away now.
    pub inaccessible: Vec<String>,
    /// Disks that lose most of their votes with it, or the last good copy of something.
    pub lost: Vec<String>,
    /// Disks that no host answers for: they may have had their last copy there.
    pub unknown: Vec<String>,
    /// It runs a member of the directory, which stays listed until it is replaced or removed (`cluster_members_change`).
    #[serde(default)]
    pub directory_member: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a mode is written as people read it. Method: each, there and back.
    #[test]
    fn modes_are_written_by_their_names() {
        for mode in MaintenanceMode::ALL {
            let request: HostMaintenance =
                serde_json::from_value(serde_json::json!({"enter": true, "mode": mode.name()})).expect("a request");
            assert_eq!(request, HostMaintenance { enter: true, mode: Some(mode), ..HostMaintenance::default() });
        }
    }
}
