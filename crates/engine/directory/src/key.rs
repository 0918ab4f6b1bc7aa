//! Where an entry is stored. The whole key layout of the directory is this file.
//!
//! ```text
//! /cairn/<cluster id>/settings/cluster          ClusterSettings
//!                     level/cluster             LevelEntry (none: the cluster is at level 12)
//!                     hosts/<host id>           HostEntry (what the host says of itself)
//!                     host-intents/<host id>    HostIntent (what administrators want of it)
//!                     host-names/<name>         HostNameEntry (which host has the name)
//!                     gone-hosts/<host id>      GoneHostEntry (removed or forgotten; nobody talks to it)
//!                     directory-members/cluster     DirectoryMembers (none: those of the configuration)
//!                     disk-groups/<group id>    DiskGroupEntry
//!                     slow-groups/cluster       SlowGroupsEntry (disk groups that are emptied because they are slow)
//!                     snapshot-schedules/<name> ScheduleRecord
//!                     policies/<name>           Policy
//!                     disks/<object id>         CatalogueEntry
//!                     names/<name>              NameEntry (which object has the name)
//!                     health-history/<check>    HealthHistoryEntry (what a check found so far)
//!                     intents/<object id>       CreateIntent
//!                     tasks/<task id>           TaskEntry
//! ```
//! Ids are 32 hexadecimal digits, values are JSON. An implementation with one cluster per file leaves the prefix out.

use std::fmt;

use cairn_types::ClusterId;

use crate::{
    DirectoryError,
    entries::Entry,
    names::{self, Name},
};

/// What kind of entry a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Settings that are equal on all hosts.
    Settings,
    /// The level of the cluster.
    Level,
    /// Hosts by id.
    Host,
    /// What administrators want of hosts, by id.
    HostIntent,
    /// Which host has a name.
    HostName,
    /// Hosts that are no part of the cluster any more, by id.
    GoneHost,
    /// Who runs the members of the directory.
    DirectoryMembers,
    /// Disk groups by id.
    DiskGroup,
    /// Disk groups that are emptied because they are slow.
    SlowGroups,
    /// Schedules of snapshots by name.
    SnapshotSchedule,
    /// Policies by name.
    Policy,
    /// The catalogue: disks by object id, tombstones included.
    Disk,
    /// Which object has a name.
    Name,
    /// What each health check found so far, by the check's name.
    HealthHistory,
    /// Disks that are being created.
    Intent,
    /// Long work that people wait for.
    Task,
}

impl Kind {
    /// Every kind, in the order of the keys.
    pub const ALL: [Self; 16] = [
        Self::DirectoryMembers,
        Self::DiskGroup,
        Self::Disk,
        Self::GoneHost,
        Self::HealthHistory,
        Self::HostIntent,
        Self::HostName,
        Self::Host,
        Self::Intent,
        Self::Level,
        Self::Name,
        Self::Policy,
        Self::Settings,
        Self::SlowGroups,
        Self::SnapshotSchedule,
        Self::Task,
    ];

    /// The folder of the kind.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Level => "level",
            Self::Host => "hosts",
            Self::HostIntent => "host-intents",
            Self::HostName => "host-names",
            Self::GoneHost => "gone-hosts",
            Self::DirectoryMembers => "directory-members",
            Self::DiskGroup => "disk-groups",
            Self::SlowGroups => "slow-groups",
            Self::SnapshotSchedule => "snapshot-schedules",
            Self::Policy => "policies",
            Self::Disk => "disks",
            Self::Name => "names",
            Self::HealthHistory => "health-history",
            Self::Intent => "intents",
            Self::Task => "tasks",
        }
    }

    /// Whether hosts keep entries of this kind in their local copy.
    ///
    /// Intents are not: "no intent, so remove the nascent component" must be read from the living directory only.
    pub fn kept_locally(self) -> bool {
        !matches!(self, Self::Intent | Self::Task)
    }
}

/// What to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything of the cluster, as of one revision.
    All,
    /// One kind.
    Kind(Kind),
}

impl Scope {
    /// The beginning of all keys in scope, without the cluster's prefix.
    pub fn prefix(self) -> String {
        match self {
            Self::All => String::new(),
            Self::Kind(kind) => format!("{}/", kind.folder()),
        }
    }
}

/// One place in the directory: `<folder>/<name>`, safe by construction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    path: String,
    kind: Kind,
}

impl Key {
    /// The key of the entry of type `E` that `id` names.
    pub fn of<E: Entry>(id: &E::Id) -> Self {
        let name = id.to_string();
        assert!(names::check(&name).is_ok(), "ids print as names, or keys of two entries could be the same");
        Self { path: format!("{}/{name}", E::KIND.folder()), kind: E::KIND }
    }
    /// The key of `kind` with the name `name`.
    pub fn new(kind: Kind, name: &Name) -> Self {
        Self { path: format!("{}/{name}", kind.folder()), kind }
    }
    /// Reads a path as [`Key::path`] gives it.
    ///
    /// # Errors
    /// `Refused` when it is none of ours: someone else wrote below our prefix, or a newer release did.
    pub fn parse(path: &str) -> Result<Self, DirectoryError> {
        let refuse = || DirectoryError::Refused(format!("{path:?} is not a key of the directory"));
        let (folder, name) = path.split_once('/').ok_or_else(refuse)?;
        let kind = Kind::ALL.into_iter().find(|k| k.folder() == folder).ok_or_else(refuse)?;
        names::check(name).map_err(|_| refuse())?;
        Ok(Self { path: path.to_owned(), kind })
    }
    /// `<folder>/<name>`, without the cluster's prefix.
    pub fn path(&self) -> &str {
        &self.path
    }
    /// The kind of entry.
    pub fn kind(&self) -> Kind {
        self.kind
    }
    /// The part after the folder.
    pub fn name(&self) -> &str {
        &self.path[self.kind.folder().len() + 1..]
    }
    /// The beginning of all keys of one cluster in a store that several clusters may share.
    pub fn cluster_prefix(cluster: ClusterId) -> String {
        format!("/cairn/{cluster}/")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back_and_foreign_paths_are_refused() {
        for kind in Kind::ALL {
            let key = Key::new(kind, &Name::new("a-1").unwrap());
            assert_eq!(Key::parse(key.path()).unwrap(), key);
            assert_eq!((key.kind(), key.name()), (kind, "a-1"));
        }
        for foreign in ["", "disks", "disks/", "disks/a/b", "other/a", "/disks/a"] {
            assert!(Key::parse(foreign).is_err(), "{foreign}");
        }
        let mut folders = Kind::ALL.map(Kind::folder);
        let listed = folders;
        folders.sort_unstable();
        assert_eq!(folders, listed, "ALL is in the order of the keys");
    }
}
