//! An open target: one way to ask for all kinds.

use bytes::Bytes;
use cairn_env::{Disk, Durability};
use cairn_env_linux::{DiskOptions, LinuxDisk, LinuxEnv};
use cairn_workload::{Direction, Request};

use crate::{
    address::Address,
    command::Command,
    nbd::NbdClient,
    vhost_user::{Driver, VhostUserClient},
};

const NO_TRIM: &str = "nothing is trimmed in devices and files here, only over NBD and vhost-user";

/// An open target. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Target {
    Nbd(NbdClient),
    VhostUser(VhostUserClient),
    Disk(LinuxDisk),
}

impl Target {
    /// Opens it for as long as the run lasts. `driver` drives all devices of the run.
    pub(crate) async fn open(env: &LinuxEnv, driver: &Driver, address: &Address) -> Result<Self, String> {
        match address {
            Address::Path(path) => {
                let disk = LinuxDisk::open(env, path, &DiskOptions::default()).map_err(|e| e.to_string())?;
                if !disk.is_direct() {
                    return Err("its file system has no direct I/O: what is measured would be memory".into());
                }
                Ok(Self::Disk(disk))
            }
            Address::VhostUser { socket } => VhostUserClient::connect(env, driver, socket).await.map(Self::VhostUser),
            address => NbdClient::connect(env, address).await.map(Self::Nbd),
        }
    }

    /// Whether it can be open once only: streams share it then.
    pub(crate) fn is_exclusive(&self) -> bool {
        !matches!(self, Self::Nbd(_))
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        match self {
            Self::Nbd(client) => client.size_bytes,
            Self::VhostUser(client) => client.size_bytes,
            Self::Disk(disk) => disk.len_bytes(),
        }
    }

    /// Requests begin and end at multiples of this.
    pub(crate) fn block_bytes(&self) -> u32 {
        match self {
            Self::Nbd(_) => 512,
            Self::VhostUser(client) => client.block_bytes,
            Self::Disk(_) => 4096,
        }
    }

    /// Bytes of a request, at most.
    pub(crate) fn request_bytes_max(&self) -> u32 {
        match self {
            Self::VhostUser(client) => client.request_bytes_max,
            Self::Nbd(_) | Self::Disk(_) => u32::MAX,
        }
    }

    /// Carries out one request. `data` is what is written.
    pub(crate) async fn request(&self, request: &Request, data: Bytes) -> Result<(), String> {
        let Request { direction, offset, len_bytes } = *request;
        let command = match direction {
            Direction::Read => Command::Read,
            Direction::Write => Command::Write,
        };
        match (self, direction) {
            (Self::Nbd(client), _) => client.request(command, offset, len_bytes, data).await,
            (Self::VhostUser(client), _) => client.request(command, offset, len_bytes, data).await,
            (Self::Disk(disk), Direction::Read) => {
                disk.read(offset, len_bytes).await.map(drop).map_err(|e| e.to_string())
            }
            // As `fio --direct=1 --sync=dsync`: a disk's write that is told as done is on stable media.
            (Self::Disk(disk), Direction::Write) => {
                disk.write(offset, vec![data], Durability::Durable).await.map_err(|e| e.to_string())
            }
        }
    }

    /// Makes what was written stable.
    pub(crate) async fn flush(&self) -> Result<(), String> {
        match self {
            Self::Nbd(client) => client.request(Command::Flush, 0, 0, Bytes::new()).await,
            Self::VhostUser(client) => client.request(Command::Flush, 0, 0, Bytes::new()).await,
            Self::Disk(disk) => disk.flush().await.map_err(|e| e.to_string()),
        }
    }

    /// Gives space back.
    pub(crate) async fn trim(&self, offset: u64, len_bytes: u32) -> Result<(), String> {
        match self {
            Self::Nbd(client) => client.request(Command::Trim, offset, len_bytes, Bytes::new()).await,
            Self::VhostUser(client) => client.request(Command::Trim, offset, len_bytes, Bytes::new()).await,
            Self::Disk(_) => Err(NO_TRIM.into()),
        }
    }

    /// Why it cannot be written, where it cannot.
    pub(crate) fn refuses_writes(&self) -> Option<&'static str> {
        match self {
            Self::Nbd(client) if client.read_only => {
                Some("the export is read-only: take what only reads (a load of --read 100)")
            }
            Self::VhostUser(client) if client.read_only => {
                Some("the device is read-only: take what only reads (a load of --read 100)")
            }
            _ => None,
        }
    }

    /// Why it cannot flush, where it cannot.
    pub(crate) fn refuses_flush(&self) -> Option<&'static str> {
        match self {
            Self::Nbd(client) if !client.can_flush => Some("the export takes no flush"),
            Self::VhostUser(client) if !client.can_flush => Some("the device takes no flush"),
            _ => None,
        }
    }

    /// Why it cannot trim, where it cannot.
    pub(crate) fn refuses_trim(&self) -> Option<&'static str> {
        match self {
            Self::Nbd(client) => (!client.can_trim).then_some("the export takes no trim"),
            Self::VhostUser(client) => (!client.can_trim).then_some("the device takes no trim"),
            Self::Disk(_) => Some(NO_TRIM),
        }
    }

    /// Reads, and shows what was read.
    pub(crate) async fn read(&self, offset: u64, len_bytes: u32) -> Result<Bytes, String> {
        match self {
            Self::Nbd(client) => client.read(offset, len_bytes).await,
            Self::VhostUser(client) => client.read(offset, len_bytes).await,
            Self::Disk(disk) => disk.read(offset, len_bytes).await.map_err(|e| e.to_string()),
        }
    }
}
