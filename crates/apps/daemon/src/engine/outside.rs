//! What a node asks of its process: addresses, devices by path, small files in the data directory, the log.

use std::{
    cell::Cell,
    fs,
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use cairn_directory::DirectoryMembers;
use cairn_directory_etcd::{MembersTold, local_copy_path};
use cairn_env::{BlockDevice, LocateError};
use cairn_env_linux::{
    DiskOptions, Fill, Host, LinuxDisk, LinuxEnv, Machine, Medium, OpenError, create_disk_file, locate, signature_of,
};
use cairn_node::{DeviceError, DeviceErrorKind, GroupPaths, Outside};
use cairn_object::ObjectEvent;
use cairn_types::{BLOCK_BYTES, ComponentId, DiskGroupId, HostId, format_bytes};
use futures::future::LocalBoxFuture;

use crate::engine::fronts::Fronts;

/// The file with the paths of the host's disk groups.
const GROUPS: &str = "disk-groups.json";

/// The process around one node.
pub(super) struct Process {
    pub(super) env: LinuxEnv,
    pub(super) host: Host,
    pub(super) data_dir: PathBuf,
    pub(super) name: String,
    /// All shards of this server.
    pub(super) siblings: Vec<HostId>,
    /// Files that model a medium.
    pub(super) media: Vec<(PathBuf, Medium)>,
    pub(super) machine: Machine,
    /// Who keeps the directory's members, where this is the shard that tells it.
    pub(super) members: Option<MembersTold>,
    pub(super) copies: Copies,
    pub(super) fronts: Fronts,
}

/// Keeps saves of the local copy in order: they run on threads, and two at once shared one draft file.
#[derive(Default)]
pub(super) struct Copies {
    begun: Cell<u64>,
    last: Arc<Mutex<u64>>,
}

/// Disk groups that this host had when it last ran.
pub(super) fn load_groups(data_dir: &Path) -> Result<Vec<GroupPaths>, String> {
    let path = data_dir.join(GROUPS);
    match fs::read(&path) {
        Ok(json) => serde_json::from_slice(&json).map_err(|e| format!("{}: {e}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// New file, synced, renamed over the old one, folder synced.
fn replace_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = fs::File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

fn device_error(error: OpenError) -> DeviceError {
    let kind = match &error {
        OpenError::Gone { .. } => DeviceErrorKind::Gone,
        OpenError::InUse { .. } => DeviceErrorKind::InUse,
        OpenError::Io { cause, .. } if cause.kind() == std::io::ErrorKind::AlreadyExists => DeviceErrorKind::Exists,
        _ => DeviceErrorKind::Other,
    };
    DeviceError { kind, text: error.to_string() }
}

/// Copies of a disk, as people read it.
fn places(copies: &[(HostId, DiskGroupId)]) -> String {
    let copies: Vec<_> = copies.iter().map(|(host, group)| format!("disk group {group} of {host}")).collect();
    copies.join(", ")
}

impl Process {
    fn older(&self, disk: &str, component: ComponentId, (at, group): (HostId, DiskGroupId), blocks: u64) {
        let at = self.host.peer_name(at);
        tracing::warn!(
            host = self.name.as_str(),
            disk,
            component = %component,
            at,
            disk_group = %group,
            blocks,
            "a copy had lost writes of blocks, though each was sound by itself; it was repaired from another copy"
        );
    }

    fn row_disagrees(&self, disk: &str, blocks: u64, members: &[(HostId, DiskGroupId)]) {
        tracing::error!(
            host = self.name.as_str(),
            disk,
            blocks,
            "blocks cannot be made from parity, as the members do not fit each other ({}): the guest gets an error until they are written \
             again, or a member is back that has them",
            places(members)
        );
    }

    fn undecided(&self, disk: &str, blocks: u64, copies: &[(HostId, DiskGroupId)]) {
        tracing::error!(
            host = self.name.as_str(),
            disk,
            blocks,
            "copies differ, or data do not fit their parity, each sound by itself, and nothing tells which is right ({}): see `cairn scrub status`",
            places(copies)
        );
    }
}

impl Outside<LinuxEnv> for Process {
    fn connect(&self, host: HostId, name: &str, address: SocketAddr) {
        self.host.name_peer(host, name.to_owned());
        // Port 0 is the address of a host that lives in this process only: the fabric joins it, there is nothing to dial.
        if address.port() != 0 && !self.siblings.contains(&host) {
            self.host.set_peer(host, address);
        }
    }

    fn disconnect(&self, host: HostId, why: &str) {
        if !self.siblings.contains(&host) {
            self.host.shut_out(host, why.to_owned());
        }
    }

    fn make_file(&self, path: String, len_bytes: u64) -> LocalBoxFuture<'static, Result<(), DeviceError>> {
        let job = move || create_disk_file(Path::new(&path), len_bytes, Fill::Written).map_err(device_error);
        cairn_env::Env::run_blocking(&self.env, job)
    }

    fn open_device(&self, path: String) -> LocalBoxFuture<'static, Result<LinuxDisk, DeviceError>> {
        let env = self.env.clone();
        let path = PathBuf::from(path);
        let medium = self.media.iter().find(|(file, _)| *file == path).map(|(_, medium)| medium.clone());
        Box::pin(async move {
            let options = DiskOptions { medium, ..DiskOptions::default() };
            LinuxDisk::open(&env, &path, &options).map_err(device_error)
        })
    }

    fn peek(&self, path: String) -> LocalBoxFuture<'static, Result<LinuxDisk, DeviceError>> {
        let env = self.env.clone();
        Box::pin(async move {
            let options = DiskOptions { unlocked: true, ..DiskOptions::default() };
            LinuxDisk::open(&env, Path::new(&path), &options).map_err(device_error)
        })
    }

    fn block_devices(&self) -> LocalBoxFuture<'static, Result<Vec<BlockDevice>, String>> {
        let machine = self.machine.clone();
        cairn_env::Env::run_blocking(&self.env, move || machine.block_devices())
    }

    fn signature(&self, path: String) -> LocalBoxFuture<'static, Result<Option<String>, String>> {
        cairn_env::Env::run_blocking(&self.env, move || signature_of(Path::new(&path)))
    }

    fn locate(&self, path: String, lit: bool) -> LocalBoxFuture<'static, Result<(), LocateError>> {
        cairn_env::Env::run_blocking(&self.env, move || locate(Path::new(&path), lit))
    }

    fn remove_file(&self, path: &str) {
        // Only files that a failed creation made; one that cannot be removed is refused or used by the next one.
        let _ = fs::remove_file(path);
    }

    fn save_groups(&self, groups: &[GroupPaths]) -> Result<(), String> {
        let path = self.data_dir.join(GROUPS);
        let json = serde_json::to_vec_pretty(groups).expect("paths have a JSON form");
        replace_file(&path, &json).map_err(|e| format!("cannot write {}: {e}", path.display()))
    }

    fn save_local_copy(&self, json: Vec<u8>) {
        let path = local_copy_path(&self.data_dir);
        let number = self.copies.begun.get() + 1;
        self.copies.begun.set(number);
        let last = self.copies.last.clone();
        let job = move || -> std::io::Result<()> {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            // A newer copy is there already: an older one must not replace it.
            if *last < number {
                replace_file(&path, &json)?;
                *last = number;
            }
            Ok(())
        };
        let (written, name) = (cairn_env::Env::run_blocking(&self.env, job), self.name.clone());
        cairn_env::Env::spawn(&self.env, async move {
            if let Err(error) = written.await {
                tracing::warn!(host = name, "the local copy of the directory cannot be kept: {error}");
            }
        });
    }

    fn event(&self, event: ObjectEvent) {
        let host = self.name.as_str();
        match event {
            ObjectEvent::Owned { name, epoch, .. } => {
                tracing::info!(host, disk = name, epoch = epoch.number, "owns the disk");
            }
            ObjectEvent::GivenUp { name, why, .. } => {
                tracing::info!(host, disk = name, "owns the disk no longer: {why}")
            }
            ObjectEvent::Component { name, component, host: at, now, .. } => {
                let at = self.host.peer_name(at);
                tracing::info!(host, disk = name, component = %component, at, "component is {now}");
            }
            ObjectEvent::Resynced { name, component, bytes, .. } => {
                let bytes = format_bytes(bytes);
                tracing::info!(host, disk = name, component = %component, bytes, "resync has ended");
            }
            ObjectEvent::Converted { name, blocks, now, .. } => {
                let bytes = format_bytes(blocks * u64::from(BLOCK_BYTES));
                tracing::info!(host, disk = name, bytes, "a part of the disk goes over to another layout: {now}");
            }
            ObjectEvent::Marked { name, component, blocks, .. } => {
                let text = format!(
                    "disk {name}: {blocks} blocks of component {component} are marked as bad, as no copy in sync could give them; all else is \
                     copied"
                );
                self.warn(text);
            }
            ObjectEvent::ResyncWaits { name, component, set, first_block, blocks, .. } => {
                tracing::warn!(
                    host,
                    disk = name,
                    component = %component,
                    set,
                    first_block,
                    blocks,
                    "all else is copied, and no copy in sync can give these blocks: the component is in sync once they are written over"
                );
            }
            ObjectEvent::Waits { name, doing, why, .. } => self.warn(format!("disk {name} {doing}; it waits: {why}")),
            ObjectEvent::DoneBefore { object } => {
                tracing::debug!(host, object = %object, "a repeated request had been carried out before");
            }
            ObjectEvent::ArrivedChanged { from } => {
                tracing::warn!(
                    host,
                    peer = self.host.peer_name(from),
                    "blocks from a peer are not those that it sent, and count as not received: check the memory and the network \
                     adapters of both hosts, and what is between them"
                );
            }
            ObjectEvent::Unreadable { name, blocks, copies, .. } => {
                tracing::error!(
                    host,
                    disk = name,
                    blocks,
                    "blocks cannot be read from any copy ({}): the guest gets an error until they are written again",
                    places(&copies)
                );
            }
            ObjectEvent::RowDisagrees { name, blocks, members, .. } => self.row_disagrees(&name, blocks, &members),
            ObjectEvent::Repaired { object, component, blocks } => {
                tracing::warn!(host, object = %object, component = %component, blocks, "bad blocks were repaired from a good copy");
            }
            ObjectEvent::Older { name, component, copy, blocks, .. } => self.older(&name, component, copy, blocks),
            ObjectEvent::Undecided { name, blocks, copies, .. } => self.undecided(&name, blocks, &copies),
        }
    }

    fn runs_directory(&self) -> bool {
        self.members.is_some()
    }

    fn members_wanted(&self, wanted: &DirectoryMembers) {
        if let Some(members) = &self.members {
            members.told(wanted);
        }
    }

    fn sessions(&self) -> Vec<cairn_volume::Session> {
        self.fronts.sessions()
    }

    fn warn(&self, text: String) {
        tracing::warn!(host = self.name.as_str(), "{text}");
    }
}
