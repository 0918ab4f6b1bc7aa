//! A disk group that no process uses, opened for what a benchmark needs of it beforehand.
//!
//! Promises    devices are locked as a daemon locks them: one that is in use is refused
//! Assumes     devices of one group, the cache device first, the others in the order in which they were formatted

use std::path::{Path, PathBuf};

use cairn_env_linux::{DiskOptions, LinuxDisk, LinuxEnv};
use cairn_store::{
    DiskGroup, DiskGroupDevices, Expect, Needs, Occupant, OpenOptions, StoreError, StoreErrorKind, occupant_of,
};

use crate::job::RunError;

/// Its devices.
#[derive(Debug, Clone)]
pub struct GroupFiles {
    /// The cache device.
    pub cache: PathBuf,
    /// The capacity devices, in their order.
    pub capacity: Vec<PathBuf>,
}

impl GroupFiles {
    /// Opens it as it is: what it may be kept as stays.
    pub(crate) async fn open(&self, env: &LinuxEnv) -> Result<DiskGroup<LinuxEnv>, RunError> {
        let cache = open(env, &self.cache)?;
        let capacity = self.capacity.iter().map(|path| open(env, path)).collect::<Result<Vec<_>, _>>()?;
        let expect = self.owner(env, &cache).await?;
        let options = OpenOptions { allowed: Needs::NONE, ..OpenOptions::default() };
        let devices = DiskGroupDevices { cache, capacity };
        let opened = DiskGroup::open(env.clone(), devices, expect, &options).await;
        opened.map_err(|error| self.not_open(error.text))
    }

    /// Whose group it is, as its cache device says.
    async fn owner(&self, env: &LinuxEnv, cache: &LinuxDisk) -> Result<Expect, RunError> {
        match occupant_of(env, cache).await {
            Occupant::Superblock(found) => {
                Ok(Expect { cluster: found.cluster, host: found.host, disk_group: Some(found.disk_group) })
            }
            Occupant::Newer(why) => Err(self.not_open(format!("it holds {why}: take the program of that release"))),
            Occupant::Damaged(why) | Occupant::Unread(why) => Err(self.not_open(format!("it is not readable: {why}"))),
            Occupant::Blank | Occupant::Data => {
                Err(self.not_open("it is no device of a disk group: let a daemon make one, and a disk in it".into()))
            }
        }
    }

    fn not_open(&self, why: String) -> RunError {
        RunError::Open { target: self.cache.display().to_string(), why }
    }

    /// What was begun did not come to its end.
    pub(crate) fn broken(&self, error: StoreError) -> RunError {
        match error.kind {
            StoreErrorKind::Refused | StoreErrorKind::NoSpace | StoreErrorKind::NotFound | StoreErrorKind::Lost => {
                RunError::Refused(error.text)
            }
            _ => RunError::Request { target: self.cache.display().to_string(), why: error.text },
        }
    }
}

fn open(env: &LinuxEnv, path: &Path) -> Result<LinuxDisk, RunError> {
    let opened = LinuxDisk::open(env, path, &DiskOptions::default());
    opened.map_err(|error| RunError::Open { target: path.display().to_string(), why: error.to_string() })
}
