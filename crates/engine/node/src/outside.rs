//! What a node needs of the process around it and the environment does not give: addresses, files by path, its own notes.

use std::net::SocketAddr;

use cairn_env::Env;
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
}

/// The process around a node.
pub trait Outside<E: Env>: 'static {
    /// From now on the host is to be reached at this address.
    fn connect(&self, host: HostId, address: SocketAddr);
    /// Opens a device, locked against every other process; `create_bytes` makes it as a preallocated file first.
    fn open_device(&self, path: String, create_bytes: Option<u64>) -> LocalBoxFuture<'static, Result<E::Disk, String>>;
    /// Takes back a device file that `open_device` has just made.
    fn remove_file(&self, path: &str);
    /// Keeps the list of this host's disk groups for the next start, durably.
    fn save_groups(&self, groups: &[GroupPaths]) -> Result<(), String>;
    /// Keeps the local copy of the directory, durably, replacing the last one as a whole.
    fn save_local_copy(&self, json: Vec<u8>);
    /// Something happened that people read about.
    fn event(&self, event: ObjectEvent);
    /// A sentence for the log.
    fn warn(&self, text: String);
}
