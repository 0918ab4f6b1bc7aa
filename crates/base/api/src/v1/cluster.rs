//! The cluster as a whole: what it is, how it is, what holds for all hosts.

use cairn_types::{ClusterId, SlowDevices};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::health::Severity;

/// Space, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// Of all capacity devices.
    pub raw_bytes: u64,
    /// Taken, by all copies together.
    pub used_bytes: u64,
    /// Still free for data.
    pub free_bytes: u64,
}

/// The directory as this host sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DirectoryStatus {
    /// "embedded" or "etcd".
    pub kind: String,
    /// Without it management changes stop; I/O and failover go on.
    pub reachable: bool,
}

/// The cluster in one view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatus {
    /// Its id.
    #[schema(value_type = String)]
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// The release of the host that answered.
    pub version: String,
    /// The name of the host that answered.
    pub answered_by: String,
    /// Hosts that answer heartbeats, this one included.
    pub hosts_up: u32,
    /// Hosts that the cluster knows.
    pub hosts_total: u32,
    /// Disk groups that the cluster knows.
    pub disk_groups: u32,
    /// Virtual disks.
    pub disks: u32,
    /// Space of all reachable disk groups.
    pub capacity: Capacity,
    /// What the disks' sizes add up to; with thin provisioning it may exceed what there is.
    pub provisioned_bytes: u64,
    /// The directory.
    pub directory: DirectoryStatus,
    /// The worst of the health checks.
    pub health: Severity,
    /// The texts of the checks that are not ok, worst first.
    pub problems: Vec<String>,
}

/// What holds for all hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterSettings {
    /// Seconds that a component may be absent before it is replaced.
    pub repair_delay_s: u64,
    /// Milliseconds that a lease lasts: how long a silent owner holds its disks. Chosen when the cluster is made, and never changed:
    /// hosts that count with leases of two lengths could both serve a disk.
    pub lease_ms: u64,
    /// Hosts' worth of capacity that new and growing disks leave free, so that what so many of the largest hosts hold can be rebuilt
    /// elsewhere; default 0.
    #[serde(default)]
    pub rebuild_reserve_hosts: u8,
    /// Percentage points by which a disk group may be fuller than the emptiest one before components go from it; default 30, 0 is never.
    #[serde(default = "rebalance_points")]
    pub rebalance_points: u8,
    /// Seconds for which what is lost is not replaced yet, as this host counts; 0: repair is not paused. See `cluster_pause_repair`.
    #[serde(default)]
    pub repair_paused_s: u64,
    /// Days in which each disk group is scrubbed once; 0: only when somebody asks for it.
    #[serde(default = "scrub_period_days")]
    pub scrub_period_days: u64,
    /// What becomes of devices that are slow beside their peers: "evacuate", the default, tells of them and empties their disk groups, one at a
    /// time; "tell" tells; "off" does not compare.
    #[serde(default)]
    #[schema(value_type = String)]
    pub slow_devices: SlowDevices,
}

fn rebalance_points() -> u8 {
    ClusterSettings::default().rebalance_points
}

/// Days of a scrub's period unless told otherwise.
///
/// Latent sector errors cluster in time: of disks that had one most have more within weeks (Bairavasundaram et al., SIGMETRICS 2007). Two
/// weeks are what RAID controllers and file systems use, and at 8 TB in a disk group 7 MB/s.
pub const SCRUB_PERIOD_DAYS: u64 = 14;
/// Days of a period, at most.
const SCRUB_PERIOD_DAYS_MAX: u64 = 365;

fn scrub_period_days() -> u64 {
    SCRUB_PERIOD_DAYS
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            repair_delay_s: 3600,
            lease_ms: 2000,
            rebuild_reserve_hosts: 0,
            rebalance_points: 30,
            repair_paused_s: 0,
            scrub_period_days: SCRUB_PERIOD_DAYS,
            slow_devices: SlowDevices::default(),
        }
    }
}

/// A pause of repair.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairPause {
    /// Seconds from now, at most a day; 0 ends a pause.
    #[schema(maximum = 86400)]
    pub for_s: u64,
}

impl crate::Request for RepairPause {
    fn validate(&self) -> crate::ApiResult<()> {
        match self.for_s {
            0..=86_400 => Ok(()),
            more => Err(crate::ApiError::invalid(format!("repair is paused for a day at most, not for {more} s"))),
        }
    }
}

impl ClusterSettings {
    /// Whether each setting is within its bounds.
    ///
    /// # Errors
    /// [`crate::ApiErrorKind::Invalid`] naming the setting and its bounds.
    pub fn check(&self) -> crate::ApiResult<()> {
        // A lease under two heartbeats (500 ms apart) lapses by itself; over a minute every failover looks like an outage.
        if !(1000..=60_000).contains(&self.lease_ms) {
            return Err(crate::ApiError::invalid(format!("lease_ms is {}, it goes from 1000 to 60000", self.lease_ms)));
        }
        if self.repair_delay_s > 30 * 86_400 {
            return Err(crate::ApiError::invalid(format!(
                "repair_delay_s is {}, the most is 2592000 (30 days)",
                self.repair_delay_s
            )));
        }
        // Below five points disk groups pass components to and fro, as guests write meanwhile.
        if !matches!(self.rebalance_points, 0 | 5..=75) {
            return Err(crate::ApiError::invalid(format!(
                "rebalance_points is {}, it is 0 (never) or goes from 5 to 75",
                self.rebalance_points
            )));
        }
        if self.scrub_period_days > SCRUB_PERIOD_DAYS_MAX {
            return Err(crate::ApiError::invalid(format!(
                "scrub_period_days is {}, the most is {SCRUB_PERIOD_DAYS_MAX}; 0 scrubs only when asked",
                self.scrub_period_days
            )));
        }
        Ok(())
    }
}

/// A change of settings: what is left out stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSettingsPatch {
    /// See [`ClusterSettings::repair_delay_s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_delay_s: Option<u64>,
    /// See [`ClusterSettings::rebuild_reserve_hosts`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_reserve_hosts: Option<u8>,
    /// See [`ClusterSettings::rebalance_points`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalance_points: Option<u8>,
    /// See [`ClusterSettings::scrub_period_days`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub_period_days: Option<u64>,
    /// See [`ClusterSettings::slow_devices`]. "evacuate", also where it was that before, takes disk groups up again that an administrator took
    /// into use again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub slow_devices: Option<SlowDevices>,
}

impl crate::Request for ClusterSettingsPatch {}

impl ClusterSettingsPatch {
    /// The settings with this patch applied, checked against their bounds.
    ///
    /// # Errors
    /// [`crate::ApiErrorKind::Invalid`] naming the setting and its bounds.
    pub fn apply(&self, to: &ClusterSettings) -> crate::ApiResult<ClusterSettings> {
        let new = ClusterSettings {
            repair_delay_s: self.repair_delay_s.unwrap_or(to.repair_delay_s),
            rebuild_reserve_hosts: self.rebuild_reserve_hosts.unwrap_or(to.rebuild_reserve_hosts),
            rebalance_points: self.rebalance_points.unwrap_or(to.rebalance_points),
            scrub_period_days: self.scrub_period_days.unwrap_or(to.scrub_period_days),
            slow_devices: self.slow_devices.unwrap_or(to.slow_devices),
            ..to.clone()
        };
        new.check()?;
        Ok(new)
    }
}
