//! Disk groups: one cache device and 1..=7 capacity devices of one host.

use cairn_types::{DeviceId, DiskGroupId, HostId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{capacity::DiskGroupSpace, cluster::Capacity};

/// Whether a disk group can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskGroupState {
    /// Open and in use.
    Mounted,
    /// Known, and its host cannot be asked.
    Unreachable,
    /// It was opened and failed, or could not be opened: the reason says why.
    Failed,
}

/// Whether a device can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// In use.
    Ok,
    /// It failed, or is missing.
    Failed,
    /// It is a file, and its file system had no room for a write: what was to be written is lost.
    NoSpace,
}

/// One device of a disk group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// Its id, from its superblock.
    #[schema(value_type = String)]
    pub id: DeviceId,
    /// The block device or file.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether it can be used.
    pub state: DeviceState,
    /// What went wrong, with the operating system's words, where it is not ok.
    #[serde(default)]
    pub problem: Option<String>,
    /// The medium that it only models: times measured on it are the model's. None where it is what it is.
    #[serde(default)]
    pub medium: Option<String>,
    /// It is slow beside its peers: by how much.
    #[serde(default)]
    pub slow: Option<SlowDevice>,
}

/// What is done about a disk group with a slow device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SlowGroupState {
    /// It is being emptied.
    Emptying,
    /// It is empty, and is given nothing new until an administrator takes it into use again.
    Emptied,
    /// It is to be emptied, and something has to come to its end before.
    Waiting,
    /// Nothing: an administrator or the cluster's settings say so.
    LeftAlone,
}

/// A disk group with a device that is slow, or was when it was begun to empty it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlowGroup {
    /// What is done about it.
    pub state: SlowGroupState,
    /// In words.
    pub text: String,
}

/// What requests take at a slow device, and at others of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlowDevice {
    /// Which requests: those that are furthest off.
    pub requests: String,
    /// What they take, in microseconds, in the mean of a few seconds.
    pub took_us: u64,
    /// What they take at the middle one of its peers.
    pub peers_us: u64,
    /// How many peers there are.
    pub peers: u32,
    /// Since when, in milliseconds since 1970.
    pub since_unix_ms: u64,
}

/// The write buffer: how full the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LogFill {
    /// Its size.
    pub size_bytes: u64,
    /// What is not yet moved to the capacity devices.
    pub used_bytes: u64,
}

/// What is chosen of a disk group in use. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskGroupSettings {
    /// Pack what is moved to the capacity devices from now on. What stands there stays as it is until it is overwritten, or written anew.
    #[serde(default)]
    pub compression: Option<bool>,
    /// Store blocks that are equal once on each capacity device, from now on. What stands there stays as it is until it is overwritten, or written anew.
    #[serde(default)]
    pub deduplication: Option<bool>,
    /// Write anew, in the background, what stands on the capacity devices now, so that it becomes as chosen. False: leave that.
    #[serde(default)]
    pub rewrite: Option<bool>,
}

impl crate::Request for DiskGroupSettings {
    fn validate(&self) -> crate::ApiResult<()> {
        if *self == Self::default() {
            return Err(crate::ApiError::invalid("nothing is to be changed")
                .remedy("Name compression, deduplication or rewrite: true or false"));
        }
        Ok(())
    }
}

/// How far a disk group is with writing anew what stood on its capacity devices before something was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Rewriting {
    /// Segments that were looked at, and are as chosen now or need not be.
    pub done_segments: u64,
    /// Of so many.
    pub segments: u64,
    /// Seconds that the rest will take at the rate until now; none where nobody knows yet.
    #[serde(default)]
    pub left_s: Option<u64>,
    /// Some segments cannot be written anew for lack of room: it goes on once there is.
    pub lacks_room: bool,
}

/// One disk group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskGroup {
    /// Its id.
    #[schema(value_type = String)]
    pub id: DiskGroupId,
    /// The host that it is in.
    #[schema(value_type = String)]
    pub host: HostId,
    /// That host's name.
    pub host_name: String,
    /// Whether it can be used.
    pub state: DiskGroupState,
    /// It is being emptied, or is empty because of that: it is given nothing new.
    #[serde(default)]
    pub draining: bool,
    /// Why not, when it cannot; what is wrong with it, when it can all the same.
    #[serde(default)]
    pub reason: Option<String>,
    /// What is done about it because a device of it is slow, or was; none where none is.
    #[serde(default)]
    pub slow: Option<SlowGroup>,
    /// The cache device; none when the host cannot be asked.
    #[serde(default)]
    pub cache: Option<Device>,
    /// The capacity devices; empty when the host cannot be asked.
    pub devices: Vec<Device>,
    /// Space of its capacity devices, as last reported.
    pub capacity: Capacity,
    /// The write buffer; none when the host cannot be asked.
    #[serde(default)]
    pub log: Option<LogFill>,
    /// Components that live on it; none when the host cannot be asked.
    #[serde(default)]
    pub components: Option<u32>,
    /// When all of it was last read and compared, in milliseconds since 1970; none: never, or its host cannot be asked.
    #[serde(default)]
    pub scrubbed_unix_ms: Option<u64>,
    /// Whether it packs what it moves to its capacity devices; none when the host cannot be asked.
    #[serde(default)]
    pub compression: Option<bool>,
    /// Whether it stores blocks that are equal once on each capacity device; none when the host cannot be asked.
    #[serde(default)]
    pub deduplication: Option<bool>,
    /// How far it is with writing anew what stood on its capacity devices; none where it does not, or its host cannot be asked.
    #[serde(default)]
    pub rewriting: Option<Rewriting>,
    /// Where its bytes are; none when the host cannot be asked.
    #[serde(default)]
    pub space: Option<DiskGroupSpace>,
}

/// Files to be made and used as devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskGroupFiles {
    /// Bytes of the cache file.
    pub cache_bytes: u64,
    /// Bytes of each capacity file.
    pub capacity_bytes: u64,
}

/// A disk group to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskGroupCreate {
    /// The host, by name or id; the answering host when left out.
    #[serde(default)]
    pub host: Option<String>,
    /// Path of the cache device on that host.
    pub cache: String,
    /// Paths of 1..=7 capacity devices on that host.
    pub capacity: Vec<String>,
    /// Make the paths as preallocated files of these sizes; they must not exist.
    #[serde(default)]
    pub files: Option<DiskGroupFiles>,
    /// Use devices that hold something already (a file system, another disk group). What they hold is lost.
    #[serde(default)]
    pub overwrite: bool,
}

impl crate::Request for DiskGroupCreate {}

/// Empties a disk group, or takes it into use again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskGroupDrain {
    /// True to empty it, false to take it into use again.
    pub drain: bool,
    /// Only tell what would come of it.
    #[serde(default)]
    pub dry_run: bool,
    /// Begin although something cannot be moved: what can be is, the rest stays.
    #[serde(default)]
    pub force: bool,
}

impl crate::Request for DiskGroupDrain {}
