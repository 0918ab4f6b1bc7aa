//! Who this host is, kept in its data directory, and the proof that nobody else uses that directory.
//!
//! Promises    a second process on the same data directory is refused while the first lives
//!             every start has a higher incarnation than all before, on stable media before anything is sent
//! Assumes     the file system keeps a renamed file after its directory was synced
//! Not here    what an incarnation ends (leases: `object`)

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use cairn_types::{ClusterId, HostId, Incarnation};
use serde::{Deserialize, Serialize};

/// The file of the identity.
const FILE: &str = "host.json";
/// The file that is locked.
const LOCK: &str = "lock";

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Another process has it.
    #[error("the data directory {0} is in use by another cairnd. Stop that one, or give this one its own --data-dir")]
    InUse(PathBuf),
    /// It belongs to a host of another cluster.
    #[error(
        "the data directory {dir} belongs to cluster {has}, and this host is to join {wants}. Use the right directory service, or another --data-dir"
    )]
    OtherCluster {
        /// The directory.
        dir: PathBuf,
        /// The cluster that it belongs to.
        has: ClusterId,
        /// The cluster to be joined.
        wants: ClusterId,
    },
    /// Its identity cannot be read.
    #[error(
        "{path} is not readable as a host identity: {cause}. Restore it from a backup; a host with a new identity is a new host to its cluster"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// The operating system refused.
    #[error("cannot {act} {path}: {cause}")]
    Io {
        /// What was attempted.
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        cause: io::Error,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    host: HostId,
    incarnation: Incarnation,
    #[serde(default)]
    cluster: Option<ClusterId>,
    /// Of the cluster; earlier builds kept none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
}

/// Whether another process holds the data directory.
pub(crate) fn is_in_use(dir: &Path) -> bool {
    let lock = File::options().write(true).open(dir.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// A data directory that this process holds, and the identity in it.
#[derive(Debug)]
pub struct Identity {
    dir: PathBuf,
    stored: Stored,
    // The lock ends when the file is closed, so also with the process, however it dies.
    _lock: File,
}

impl Identity {
    /// Takes the data directory (made if need be), draws an id at the first start, and counts this start.
    ///
    /// # Errors
    /// See [`IdentityError`]; nothing is changed then.
    pub fn open(dir: &Path) -> Result<Self, IdentityError> {
        fs::create_dir_all(dir).map_err(io_error("create directory", dir))?;
        let lock_path = dir.join(LOCK);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(IdentityError::InUse(dir.into())),
            Err(TryLockError::Error(cause)) => return Err(io_error("lock", &lock_path)(cause)),
        }
        let mut stored = match read(dir)? {
            Some(stored) => stored,
            None => Stored {
                host: HostId::from_random(random_u64()?, random_u64()?),
                incarnation: Incarnation(0),
                cluster: None,
                lease_ms: None,
            },
        };
        stored.incarnation.0 += 1;
        write(dir, &stored)?;
        Ok(Self { dir: dir.into(), stored, _lock: lock })
    }

    /// The host's id.
    pub fn host(&self) -> HostId {
        self.stored.host
    }

    /// This start's number.
    pub fn incarnation(&self) -> Incarnation {
        self.stored.incarnation
    }

    /// The cluster that the host belongs to, once it has joined one.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.stored.cluster
    }

    /// Milliseconds of the cluster's lease, once the cluster has told it.
    pub fn lease_ms(&self) -> Option<u64> {
        self.stored.lease_ms
    }

    /// Becomes the host that the devices at hand belong to, durably: for a host that lost its data directory. `incarnation` is
    /// higher than all that the host has had.
    ///
    /// # Errors
    /// [`IdentityError::OtherCluster`] when it belongs to a cluster already.
    pub fn take_back(
        &mut self,
        host: HostId,
        cluster: ClusterId,
        incarnation: Incarnation,
    ) -> Result<(), IdentityError> {
        if let Some(has) = self.stored.cluster {
            return Err(IdentityError::OtherCluster { dir: self.dir.clone(), has, wants: cluster });
        }
        let was = Stored { host, incarnation, cluster: Some(cluster), lease_ms: None };
        write(&self.dir, &was)?;
        self.stored = was;
        Ok(())
    }

    /// Records the cluster, durably; from then on the directory works with no other. Keeps its lease with it, where it is told and
    /// none is kept: whoever counted with another one might serve at the same time.
    ///
    /// # Errors
    /// [`IdentityError::OtherCluster`] when it belongs to another one.
    pub fn join(&mut self, cluster: ClusterId, lease_ms: Option<u64>) -> Result<(), IdentityError> {
        if let Some(has) = self.stored.cluster.filter(|has| *has != cluster) {
            return Err(IdentityError::OtherCluster { dir: self.dir.clone(), has, wants: cluster });
        }
        let lease_ms = self.stored.lease_ms.or(lease_ms);
        let joined = Stored { cluster: Some(cluster), lease_ms, ..self.stored.clone() };
        if joined != self.stored {
            write(&self.dir, &joined)?;
            self.stored = joined;
        }
        Ok(())
    }
}

fn read(dir: &Path) -> Result<Option<Stored>, IdentityError> {
    let path = dir.join(FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(io_error("read", &path)(cause)),
    };
    let parsed = serde_json::from_slice(&text);
    parsed.map(Some).map_err(|cause| IdentityError::Damaged { path, cause })
}

/// New file, synced, renamed over the old one, directory synced: a crash leaves the old or the new one, never half of one.
fn write(dir: &Path, stored: &Stored) -> Result<(), IdentityError> {
    let (path, draft) = (dir.join(FILE), dir.join("host.json.new"));
    let text = serde_json::to_vec_pretty(stored).expect("an identity has a JSON form");
    let mut file = File::create(&draft).map_err(io_error("create", &draft))?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(io_error("write", &draft))?;
    fs::rename(&draft, &path).map_err(io_error("rename", &draft))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
}

fn random_u64() -> Result<u64, IdentityError> {
    let path = Path::new("/dev/urandom");
    let mut word = [0; 8];
    File::open(path).and_then(|mut file| file.read_exact(&mut word)).map_err(io_error("read", path))?;
    Ok(u64::from_le_bytes(word))
}

fn io_error(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> IdentityError {
    let path = path.to_owned();
    move |cause| IdentityError::Io { act, path, cause }
}
