//! The level of the cluster: read, and raised by one transaction.
//!
//! Promises    C4  the level only rises; it is raised only while no host has been entered anew since it was looked at
//! Not here    whether it may be raised (`upgrade`), what it switches on (`cairn_types::Feature`)

use cairn_types::{HostId, Level};

use crate::{
    ClusterSettings, DirectoryError, HostEntry, Key, LevelEntry, LocalCopy, Registry, Revision, TXN_OPS_MAX,
    TheCluster, Txn, registry::encode,
};

impl Registry {
    /// The level of the cluster.
    ///
    /// # Errors
    /// `Unavailable`, `Damaged`.
    pub async fn level(&self) -> Result<Level, DirectoryError> {
        let found = self.get::<LevelEntry>(&TheCluster).await?;
        Ok(found.map_or(Level::FIRST, |found| found.entry.level))
    }

    /// Raises the level to `to`, if each of `hosts` is still entered as it was seen. Once more is no error.
    ///
    /// Hosts beyond the number that one transaction can name are not looked at again: one of these that went back to an older
    /// build just now is refused by the others, in words.
    ///
    /// # Errors
    /// `Conflict` when a host was entered anew; `Refused`, `Unavailable`, `Damaged`.
    pub async fn raise_level(&self, to: Level, hosts: &[(HostId, Revision)]) -> Result<(), DirectoryError> {
        let found = self.get::<LevelEntry>(&TheCluster).await?;
        if found.as_ref().is_some_and(|found| found.entry.level >= to) {
            return Ok(());
        }
        let (key, value) = (Key::of::<LevelEntry>(&TheCluster), encode(&LevelEntry { level: to })?);
        let mut txn = match found {
            Some(found) => Txn::new().replace(key, found.revision, value),
            None => Txn::new().create(key, value),
        };
        for (host, seen) in hosts.iter().take(TXN_OPS_MAX - 1) {
            txn = txn.check(Key::of::<HostEntry>(host), Some(*seen));
        }
        self.commit(txn).await.map(drop)
    }
}

impl LocalCopy {
    /// The level of the cluster; none where nothing of its directory was ever copied.
    pub fn level(&self) -> Option<Level> {
        self.get::<ClusterSettings>(&TheCluster)?;
        Some(self.get::<LevelEntry>(&TheCluster).map_or(Level::FIRST, |entry| entry.level))
    }
}
