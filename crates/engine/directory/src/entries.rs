//! What is stored, as types.
//!
//! Promises    each entry type has one folder and one kind of id; an entry that its own bounds refuse is never written
//! Assumes     values are JSON; fields may be added with a default, never change meaning (`docs/internals/upgrades.md`)
//! Not here    where they lie (`key`), how they change together (`catalogue`)

use std::{fmt, net::SocketAddr, str::FromStr};

use cairn_schedule::ScheduleRecord;
use cairn_types::{
    Build, ClusterId, ComponentId, DeviceId, DiskGroupId, HostId, Level, MaintenanceMode, ObjectId, Policy, SlowDevices,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{key::Kind, names::Name};

/// A type of entry.
pub trait Entry: Serialize + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static {
    /// Its folder.
    const KIND: Kind;
    /// What names one; its text is a valid [`Name`].
    type Id: Clone + Ord + fmt::Debug + fmt::Display + FromStr + Send + Sync + 'static;
    /// Checks its own bounds.
    ///
    /// # Errors
    /// A sentence for people.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The id of what there is one of per cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TheCluster;

impl fmt::Display for TheCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cluster")
    }
}

impl FromStr for TheCluster {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        (text == "cluster").then_some(Self).ok_or_else(|| format!("{text:?} is not \"cluster\""))
    }
}

/// Settings that are equal on all hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSettings {
    /// Which cluster.
    pub cluster: ClusterId,
    /// What people call it.
    pub name: Name,
    /// Counts the changes of these settings.
    pub version: u64,
    /// How long an absent component may stay away before it is rebuilt elsewhere; 60 min.
    pub repair_delay_ms: u64,
    /// How long an owner may serve without hearing from a majority; 2 s. It stays as long as the cluster: each host reads it when it
    /// joins, and keeps it.
    pub lease_ms: u64,
    /// The policy of disks that are created without one.
    pub default_policy: Name,
    /// Resync bytes per second of a server, at most; 0 is no limit beyond the closed loop.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resync_bytes_per_s_max: u64,
    /// Hosts' worth of capacity that new disks leave free, so that what such hosts hold can be rebuilt elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rebuild_reserve_hosts: u8,
    /// Percentage points by which a disk group may be fuller than the emptiest before components go from it; none: 30. 0 is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalance_points: Option<u8>,
    /// What is lost is not replaced for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_paused: Option<RepairPause>,
    /// Health checks that administrators have muted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub muted: Vec<MutedCheck>,
    /// Days in which each disk group is scrubbed once; 0: only when somebody asks for it.
    #[serde(default = "scrub_period_days", skip_serializing_if = "is_scrub_period_days")]
    pub scrub_period_days: u64,
    /// What becomes of devices that are slow beside their peers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slow_devices: SlowDevices,
}

/// A health check that is muted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutedCheck {
    /// Its name.
    pub check: String,
    /// Why.
    pub reason: String,
    /// When that ends, by the clock of the day of whoever looks.
    pub until_unix_ms: u64,
}

/// For how long what is lost is not replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairPause {
    /// From when it was asked for.
    pub for_ms: u64,
    /// Its end by the clock of the day of the host that was asked. A host whose clock is wrong counts `for_ms` from when it heard of it, at
    /// most.
    pub until_unix_ms: u64,
}

/// Repair may be paused for a day: what is forgotten must not leave disks without redundancy for good.
pub const REPAIR_PAUSE_MAX_MS: u64 = 24 * 3_600_000;
/// Percentage points where none are set: as vSAN has it.
pub const REBALANCE_POINTS: u8 = 30;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn scrub_period_days() -> u64 {
    14
}

fn is_scrub_period_days(days: &u64) -> bool {
    *days == scrub_period_days()
}

impl ClusterSettings {
    /// The settings of a new cluster.
    pub fn new(cluster: ClusterId, name: Name, default_policy: Name) -> Self {
        Self {
            cluster,
            name,
            version: 1,
            repair_delay_ms: 60 * 60 * 1000,
            lease_ms: 2000,
            default_policy,
            resync_bytes_per_s_max: 0,
            rebuild_reserve_hosts: 0,
            rebalance_points: None,
            repair_paused: None,
            muted: Vec::new(),
            scrub_period_days: scrub_period_days(),
            slow_devices: SlowDevices::default(),
        }
    }
}

impl Entry for ClusterSettings {
    const KIND: Kind = Kind::Settings;
    type Id = TheCluster;
    fn validate(&self) -> Result<(), String> {
        // Below 500 ms a pause of the kernel or a slow disk ends leases of healthy owners; above 60 s a dead owner
        // would stop its disks for longer than guests wait.
        if !(500..=60_000).contains(&self.lease_ms) {
            return Err(format!("lease is {} ms, it goes from 500 to 60000", self.lease_ms));
        }
        if self.repair_delay_ms > 30 * 24 * 3_600_000 {
            return Err(format!("repair delay is {} ms, the most is 30 days", self.repair_delay_ms));
        }
        if self.repair_paused.is_some_and(|pause| pause.for_ms > REPAIR_PAUSE_MAX_MS) {
            return Err("repair is paused for a day, at most".into());
        }
        Ok(())
    }
}

/// The level of the cluster. An entry of its own: release 0.2.0, which would not keep a field that it does not know, never writes here.
///
/// Where there is none, the cluster is at [`Level::FIRST`]. It only rises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelEntry {
    /// It.
    pub level: Level,
}

impl Entry for LevelEntry {
    const KIND: Kind = Kind::Level;
    type Id = TheCluster;
    fn validate(&self) -> Result<(), String> {
        match self.level > Level::FIRST {
            true => Ok(()),
            false => Err(format!("a cluster at level {} has no entry for it", self.level)),
        }
    }
}

/// One host as it reports itself. Only the host writes it, at each start; what administrators want is in [`HostIntent`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    /// What people call it; unique in the cluster.
    pub name: Name,
    /// The hosts that fail together with it; its own name by default.
    pub fault_domain: Name,
    /// Where other hosts reach it.
    pub peer_address: SocketAddr,
    /// Where its management API listens, if it does on the network.
    #[serde(default)]
    pub api_address: Option<SocketAddr>,
    /// Where guests reach its NBD exports: `nbd://10.0.0.1:10809`, `nbd+unix:///?socket=/run/cairn/nbd.sock`.
    #[serde(default)]
    pub nbd_addresses: Vec<String>,
    /// The folder of its vhost-user sockets, where it has one: `/run/cairn/vhost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhost_user_dir: Option<String>,
    /// The first shard of its server, where it is another one: people know the server by that one's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_of: Option<HostId>,
    /// The program that it ran when it was last entered; release 0.2.0 enters none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
}

impl Entry for HostEntry {
    const KIND: Kind = Kind::Host;
    type Id = HostId;
}

/// What administrators want of a host. Only they write it: no start of the host changes it. Where there is none, nothing is
/// wanted. A server's intent is under the id of its first host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostIntent {
    /// In maintenance: takes no new components.
    #[serde(default)]
    pub maintenance: bool,
    /// What is moved away for that; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<MaintenanceMode>,
    /// Disk groups of it that are being emptied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draining: Vec<DiskGroupId>,
}

impl HostIntent {
    /// The maintenance that is wanted, if one is.
    pub fn maintenance(&self) -> Option<MaintenanceMode> {
        self.maintenance.then(|| self.mode.unwrap_or(MaintenanceMode::NoEvacuation))
    }
}

impl Entry for HostIntent {
    const KIND: Kind = Kind::HostIntent;
    type Id = HostId;
}

/// Which host has a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNameEntry {
    /// That one.
    pub host: HostId,
}

impl Entry for HostNameEntry {
    const KIND: Kind = Kind::HostName;
    type Id = Name;
}

/// How a host left the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gone {
    /// It was empty, and was taken out.
    Removed,
    /// It was dead: what it held was given up.
    Forgotten,
}

impl Gone {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Forgotten => "forgotten",
        }
    }
}

/// A host that is no part of the cluster any more. Its id is never another's, so the entry stays until an administrator takes the
/// host in again. Releases that do not know the kind pass it over: they let such a host in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoneHostEntry {
    /// What it was called; the name may be another's by now.
    pub name: Name,
    /// The first shard of its server, where it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_of: Option<HostId>,
    /// How it left.
    pub how: Gone,
    /// When, by the clock of the host that was asked; for people.
    pub at_unix_ms: u64,
}

impl Entry for GoneHostEntry {
    const KIND: Kind = Kind::GoneHost;
    type Id = HostId;
}

/// What a device does in its disk group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceRole {
    /// Write buffer, log and metadata.
    Cache,
    /// Where data stays.
    Capacity,
}

/// One device of a disk group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEntry {
    /// Its id, as its superblock has it.
    pub device: DeviceId,
    /// Its work.
    pub role: DeviceRole,
    /// Where its host finds it; a hint, the superblock decides.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// One disk group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskGroupEntry {
    /// The host that it is in.
    pub host: HostId,
    /// Its devices, the cache device first.
    pub devices: Vec<DeviceEntry>,
    /// Bytes that its capacity tier can hold.
    pub capacity_bytes: u64,
}

impl Entry for DiskGroupEntry {
    const KIND: Kind = Kind::DiskGroup;
    type Id = DiskGroupId;
}

impl Entry for Policy {
    const KIND: Kind = Kind::Policy;
    type Id = Name;
    fn validate(&self) -> Result<(), String> {
        Policy::validate(self).map_err(|e| e.to_string())
    }
}

/// An entry of its own kind, which releases before 0.4.0 pass over: they take no snapshots.
impl Entry for ScheduleRecord {
    const KIND: Kind = Kind::SnapshotSchedule;
    type Id = Name;
    fn validate(&self) -> Result<(), String> {
        self.schedule.validate()
    }
}

/// Where a component is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ComponentPlace {
    /// Which.
    pub component: ComponentId,
    /// Its host.
    pub host: HostId,
    /// Its disk group.
    pub disk_group: DiskGroupId,
}

/// Where a disk is in its life. Creating -> Ready | gone; Ready -> Deleting | Deleted; Deleting -> Deleted; Deleted -> gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum DiskState {
    /// Its intent stands; its components may not be there yet.
    Creating,
    /// It was there.
    Ready,
    /// Its deletion is wanted: whoever sees this carries it out. Its record may not say so yet.
    Deleting,
    /// A tombstone: its record says deleted. Goes when every component ever listed has confirmed its removal.
    Deleted {
        /// Those that have not.
        unconfirmed: Vec<ComponentPlace>,
    },
}

/// One virtual disk, as the catalogue knows it. Its record decides where the two differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueEntry {
    /// What people call it.
    pub name: Name,
    /// Bytes of its address space.
    pub size_bytes: u64,
    /// The name of the policy that it was created with.
    pub policy_name: Name,
    /// Hosts that hold components of it, when that was last noted.
    pub hint_hosts: Vec<HostId>,
    /// The host that should own it: where it is attached.
    #[serde(default)]
    pub preferred_owner: Option<HostId>,
    /// Where it is in its life.
    #[serde(flatten)]
    pub state: DiskState,
}

impl Entry for CatalogueEntry {
    const KIND: Kind = Kind::Disk;
    type Id = ObjectId;
}

/// Which object has a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameEntry {
    /// That one.
    pub object: ObjectId,
}

impl Entry for NameEntry {
    const KIND: Kind = Kind::Name;
    type Id = Name;
}

/// A disk that is being created: while this stands, its nascent components are not removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateIntent {
    /// The name that it will have.
    pub name: Name,
    /// Its components.
    pub components: Vec<ComponentPlace>,
    /// The host that creates it.
    pub by: HostId,
    /// When it began by the clock of that host, in ms since 1970: for people.
    pub created_unix_ms: u64,
    /// How long it may take. A host that has seen it for longer, by its own running clock, may finish or undo it.
    pub lasts_ms: u64,
}

impl Entry for CreateIntent {
    const KIND: Kind = Kind::Intent;
    type Id = ObjectId;
}

/// Names one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for TaskId {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not a task: a task's id is 16 hexadecimal digits");
        if text.len() != 16 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(refuse());
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| refuse())
    }
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "why", rename_all = "kebab-case")]
pub enum TaskOutcome {
    /// Done.
    Done,
    /// Not done; why, for people.
    Failed(String),
    /// Stopped by a person.
    Cancelled,
}

/// Long work that people wait for: create, delete, resync, evacuate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEntry {
    /// What it does: "create-disk".
    pub kind: String,
    /// What it does it to: a disk's or host's name.
    pub subject: String,
    /// The host that does it.
    pub host: HostId,
    /// When it began, in ms since 1970.
    pub started_unix_ms: u64,
    /// How much is done, in `progress_unit`.
    #[serde(default)]
    pub progress_done: u64,
    /// How much there is to do, as far as is known.
    #[serde(default)]
    pub progress_total: u64,
    /// What progress counts: "bytes", "components".
    #[serde(default)]
    pub progress_unit: String,
    /// When it ended, in ms since 1970.
    #[serde(default)]
    pub ended_unix_ms: Option<u64>,
    /// How it ended.
    #[serde(default)]
    pub outcome: Option<TaskOutcome>,
}

impl Entry for TaskEntry {
    const KIND: Kind = Kind::Task;
    type Id = TaskId;
}
