//! What a node needs of the process around it and the environment does not give: addresses, files by path, its own notes.

use std::net::SocketAddr;

use cairn_directory::DirectoryMembers;
use cairn_env::{BlockDevice, Env, LocateError};
use cairn_object::ObjectEvent;
use cairn_types::{DeviceId, DiskGroupId, HostId};
use futures::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};

/// Where a disk group's devices are on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPaths {
    /// The disk group.
    pub disk_group: DiskGroupId,
    /// The cache device.
    pub cache: String,
    /// The capacity devices, in their order.
    pub capacity: Vec<String>,
    /// Ids of the devices, the cache device first.
    pub devices: Vec<DeviceId>,
    /// Names by which people gave devices that have a stable one: the configuration has them yet.
    #[serde(default)]
    pub asked: Vec<String>,
}

/// What an open device, or one that was to be made, is refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceErrorKind {
    /// There is no such device now.
    Gone,
    /// Somebody else uses it.
    InUse,
    /// A file of that name is there already.
    Exists,
    /// The system refuses for another reason.
    Other,
}

/// Why a device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceError {
    /// What to act on.
    pub kind: DeviceErrorKind,
    /// Cause and remedy for people; names the device.
    pub text: String,
}

/// The process around a node.
pub trait Outside<E: Env>: 'static {
    /// From now on the host is to be reached at this address; people call it by this name.
    fn connect(&self, host: HostId, name: &str, address: SocketAddr);
    /// From now on nobody speaks with this host, and it is turned away with these words, until [`Outside::connect`] names it again. A
    /// world whose hosts all reach one another need not do anything: what such a host sends is passed over all the same.
    fn disconnect(&self, _host: HostId, _why: &str) {}
    /// Makes a preallocated file that is to serve as a device; there must be none of that name.
    fn make_file(&self, path: String, len_bytes: u64) -> LocalBoxFuture<'static, Result<(), DeviceError>>;
    /// Opens a device, locked against every other process.
    fn open_device(&self, path: String) -> LocalBoxFuture<'static, Result<E::Disk, DeviceError>>;
    /// Opens a device beside whoever uses it, for a look: nothing is written through it.
    fn peek(&self, path: String) -> LocalBoxFuture<'static, Result<E::Disk, DeviceError>>;
    /// All block devices of this machine. An error: they cannot be listed.
    fn block_devices(&self) -> LocalBoxFuture<'static, Result<Vec<BlockDevice>, String>>;
    /// What others have put on a device, in words; none where nothing is known to stand there. An error: it cannot be found out.
    fn signature(&self, path: String) -> LocalBoxFuture<'static, Result<Option<String>, String>>;
    /// Lights the locate LED of a block device of this machine, or puts it out; the path is one that [`Outside::block_devices`] has told. A
    /// world without enclosures has no program for it either.
    fn locate(&self, _path: String, _lit: bool) -> LocalBoxFuture<'static, Result<(), LocateError>> {
        Box::pin(async { Err(LocateError::NoProgram) })
    }
    /// Takes back a device file that `make_file` has just made.
    fn remove_file(&self, path: &str);
    /// Keeps the list of this host's disk groups for the next start, durably.
    fn save_groups(&self, groups: &[GroupPaths]) -> Result<(), String>;
    /// Keeps the local copy of the directory, durably, replacing the last one as a whole.
    fn save_local_copy(&self, json: Vec<u8>);
    /// Something happened that people read about.
    fn event(&self, event: ObjectEvent);
    /// Whether the cluster runs the members of its directory itself, and this process can start one.
    fn runs_directory(&self) -> bool {
        false
    }
    /// These hosts shall run members of the directory; told at the start, and when anything in the directory has changed.
    fn members_wanted(&self, _wanted: &DirectoryMembers) {}
    /// The guests' sessions of this host's front ends.
    fn sessions(&self) -> Vec<cairn_volume::Session> {
        Vec::new()
    }
    /// A sentence for the log.
    fn warn(&self, text: String);
}
