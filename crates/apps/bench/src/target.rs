//! An open target: one way to ask for all kinds.

use bytes::Bytes;
use cairn_env::{Disk, Durability};
use cairn_env_linux::{DiskOptions, LinuxDisk, LinuxEnv};
use cairn_workload::{Direction, Request};

use crate::{
    address::Address,
    nbd::{Command, NbdClient},
};

const NO_TRIM: &str = "nothing is trimmed in devices and files here, only over NBD";

/// An open target. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Target {
    Nbd(NbdClient),
    Disk(LinuxDisk),
}

impl Target {
    /// Opens it for as long as the run lasts.
    pub(crate) async fn open(env: &LinuxEnv, address: &Address, writes: bool) -> Result<Self, String> {
        match address {
            Address::Path(path) => {
                let disk = LinuxDisk::open(env, path, &DiskOptions::default()).map_err(|e| e.to_string())?;
                if !disk.is_direct() {
                    return Err("its file system has no direct I/O: what is measured would be memory".into());
                }
                Ok(Self::Disk(disk))
            }
            address => {
                let client = NbdClient::connect(env, address).await?;
                if writes && client.read_only {
                    return Err("the export is read-only: take what only reads (a load of --read 100)".into());
                }
                Ok(Self::Nbd(client))
            }
        }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        match self {
            Self::Nbd(client) => client.size_bytes,
            Self::Disk(disk) => disk.len_bytes(),
        }
    }

    /// Requests begin and end at multiples of this.
    pub(crate) fn block_bytes(&self) -> u32 {
        match self {
            Self::Nbd(_) => 512,
            Self::Disk(_) => 4096,
        }
    }

    /// Carries out one request. `data` is what is written.
    pub(crate) async fn request(&self, request: &Request, data: Bytes) -> Result<(), String> {
        let Request { direction, offset, len_bytes } = *request;
        match (self, direction) {
            (Self::Nbd(client), Direction::Read) => client.request(Command::Read, offset, len_bytes, data).await,
            (Self::Nbd(client), Direction::Write) => client.request(Command::Write, offset, len_bytes, data).await,
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
            Self::Disk(disk) => disk.flush().await.map_err(|e| e.to_string()),
        }
    }

    /// Gives space back.
    pub(crate) async fn trim(&self, offset: u64, len_bytes: u32) -> Result<(), String> {
        match self {
            Self::Nbd(client) => client.request(Command::Trim, offset, len_bytes, Bytes::new()).await,
            Self::Disk(_) => Err(NO_TRIM.into()),
        }
    }

    /// Why it cannot flush, where it cannot.
    pub(crate) fn refuses_flush(&self) -> Option<&'static str> {
        matches!(self, Self::Nbd(client) if !client.can_flush).then_some("the export takes no flush")
    }

    /// Why it cannot trim, where it cannot.
    pub(crate) fn refuses_trim(&self) -> Option<&'static str> {
        match self {
            Self::Nbd(client) if client.can_trim => None,
            Self::Nbd(_) => Some("the export takes no trim"),
            Self::Disk(_) => Some(NO_TRIM),
        }
    }

    /// Reads, and shows what was read.
    pub(crate) async fn read(&self, offset: u64, len_bytes: u32) -> Result<Bytes, String> {
        match self {
            Self::Nbd(client) => client.read(offset, len_bytes).await,
            Self::Disk(disk) => disk.read(offset, len_bytes).await.map_err(|e| e.to_string()),
        }
    }
}
