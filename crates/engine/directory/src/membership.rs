//! Hosts come and go: entered, removed or forgotten, taken in again.
//!
//! Promises    C1  a name belongs to one host at a time; a taken one is refused in words
//!             C5  a host that is gone is not entered again, nor a disk group of it, until `readmit_hosts`: each entry checks that in its
//!                 transaction
//!             C6  the shards of a server go in one transaction, and only while none of them was entered anew since it was looked at
//! Not here    who may go (`node`), what becomes of its components (`object`: the record decides, never this entry)

use std::collections::BTreeSet;

use cairn_types::{DiskGroupId, HostId};

use crate::{
    DirectoryError, DiskGroupEntry, Entry, Gone, GoneHostEntry, HostEntry, HostIntent, HostNameEntry, Key, LocalCopy,
    Registry, Revision, TXN_OPS_MAX, Txn,
    catalogue::{ROUNDS_MAX, refused, too_fast},
    registry::encode,
};

/// Operations that the going of one shard may take: its entry, its name, what was wanted of it, and that it is gone.
const OPS_PER_HOST: usize = 4;

impl Registry {
    /// Enters what a host reports of itself; keeps its name unique. What administrators want of it is another entry and stays.
    ///
    /// # Errors
    /// `Refused` when another host has the name, or the host is gone; `Unavailable`, `Damaged`.
    pub async fn register_host(&self, host: HostId, entry: &HostEntry) -> Result<(), DirectoryError> {
        let key = Key::of::<HostEntry>(&host);
        let value = encode(entry)?;
        for _ in 0..ROUNDS_MAX {
            self.refuse_gone(host, &entry.name).await?;
            let known = self.get::<HostEntry>(&host).await?;
            let named = self.get::<HostNameEntry>(&entry.name).await?;
            if let Some(other) = named.as_ref().filter(|n| n.entry.host != host) {
                return refused(format!(
                    "host name {:?} is taken by host {}: choose another, or forget that one if it is gone for good (`cairn host forget`)",
                    entry.name, other.entry.host
                ));
            }
            let mut txn = match &known {
                Some(known) => Txn::new().replace(key.clone(), known.revision, value.clone()),
                None => Txn::new().create(key.clone(), value.clone()),
            };
            txn = txn.check(Key::of::<GoneHostEntry>(&host), None);
            if named.is_none() {
                let by_name = encode(&HostNameEntry { host })?;
                txn = txn.create(Key::of::<HostNameEntry>(&entry.name), by_name);
            }
            if let Some(old) = known.map(|k| k.entry.name).filter(|n| *n != entry.name)
                && let Some(old_name) = self.get::<HostNameEntry>(&old).await?
            {
                txn = txn.delete(Key::of::<HostNameEntry>(&old), old_name.revision);
            }
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { .. }) => {}
                other => return other.map(|_| ()),
            }
        }
        too_fast(&format!("host {}", entry.name))
    }

    /// Enters a disk group of a host, or what has changed of it.
    ///
    /// # Errors
    /// `Refused` when the host is gone; `Unavailable`, `Damaged`.
    pub async fn enter_disk_group(&self, id: DiskGroupId, entry: &DiskGroupEntry) -> Result<(), DirectoryError> {
        let key = Key::of::<DiskGroupEntry>(&id);
        for _ in 0..ROUNDS_MAX {
            self.refuse_gone(entry.host, &entry.host).await?;
            let txn = match self.get::<DiskGroupEntry>(&id).await? {
                Some(known) if known.entry == *entry => return Ok(()),
                Some(known) => Txn::new().replace(key.clone(), known.revision, encode(entry)?),
                None => Txn::new().create(key.clone(), encode(entry)?),
            };
            match self.commit(txn.check(Key::of::<GoneHostEntry>(&entry.host), None)).await {
                Err(DirectoryError::Conflict { .. }) => {}
                other => return other.map(|_| ()),
            }
        }
        too_fast(&format!("disk group {id}"))
    }

    async fn refuse_gone(&self, host: HostId, called: &(dyn std::fmt::Display + Sync)) -> Result<(), DirectoryError> {
        match self.get::<GoneHostEntry>(&host).await? {
            None => Ok(()),
            Some(gone) => refused(format!(
                "host {called} was {} and is no part of the cluster any more: `cairn host readmit {host}` takes it in again",
                gone.entry.how.name()
            )),
        }
    }

    /// Takes the shards of a server out: entries, names, disk groups and what was wanted of them go, and each is entered as gone.
    /// `hosts` has the revisions of the entries as they were when somebody decided that they may go.
    ///
    /// # Errors
    /// `Conflict` when one of them was entered anew since: it has started, so look again. `Refused`, `Unavailable`, `Damaged`.
    pub async fn dismiss_hosts(
        &self,
        hosts: &[(HostId, Revision)],
        how: Gone,
        now_unix_ms: u64,
    ) -> Result<(), DirectoryError> {
        let ids: BTreeSet<HostId> = hosts.iter().map(|(host, _)| *host).collect();
        for _ in 0..ROUNDS_MAX {
            let groups = self.list::<DiskGroupEntry>().await?.entries;
            let mut groups: Vec<_> = groups.into_iter().filter(|(_, found)| ids.contains(&found.entry.host)).collect();
            // What one transaction has no room for goes before: a disk group without an entry is one that is being made.
            let room = TXN_OPS_MAX.saturating_sub(hosts.len() * OPS_PER_HOST);
            for (id, _) in groups.drain(groups.len().min(room)..) {
                self.remove::<DiskGroupEntry>(&id).await?;
            }
            let mut txn = Txn::new();
            for (id, found) in groups {
                txn = txn.delete(Key::of::<DiskGroupEntry>(&id), found.revision);
            }
            for (host, seen) in hosts {
                txn = self.dismissal(txn, (*host, *seen), how, now_unix_ms).await?;
            }
            match self.commit(txn).await {
                Err(DirectoryError::Conflict { key, .. }) if key.kind() != HostEntry::KIND => {}
                other => return other.map(|_| ()),
            }
        }
        too_fast("what belongs to the host")
    }

    async fn dismissal(
        &self,
        mut txn: Txn,
        (host, seen): (HostId, Revision),
        how: Gone,
        now_unix_ms: u64,
    ) -> Result<Txn, DirectoryError> {
        let key = Key::of::<HostEntry>(&host);
        let Some(known) = self.get::<HostEntry>(&host).await?.filter(|known| known.revision == seen) else {
            return Err(DirectoryError::Conflict { key, expected: Some(seen), found: None });
        };
        let HostEntry { name, shard_of, .. } = known.entry;
        txn = txn.delete(key, seen);
        if let Some(named) = self.get::<HostNameEntry>(&name).await?.filter(|named| named.entry.host == host) {
            txn = txn.delete(Key::of::<HostNameEntry>(&name), named.revision);
        }
        if let Some(wanted) = self.get::<HostIntent>(&host).await? {
            txn = txn.delete(Key::of::<HostIntent>(&host), wanted.revision);
        }
        let (key, gone) =
            (Key::of::<GoneHostEntry>(&host), GoneHostEntry { name, shard_of, how, at_unix_ms: now_unix_ms });
        Ok(match self.get::<GoneHostEntry>(&host).await? {
            // A host of an earlier release has entered itself although it was gone.
            Some(before) => txn.replace(key, before.revision, encode(&gone)?),
            None => txn.create(key, encode(&gone)?),
        })
    }

    /// Lets hosts that were removed or forgotten enter themselves again. Once more is no error.
    ///
    /// # Errors
    /// `Unavailable`; `Conflict` after many rounds.
    pub async fn readmit_hosts(&self, hosts: &[HostId]) -> Result<(), DirectoryError> {
        for host in hosts {
            self.remove::<GoneHostEntry>(host).await?;
        }
        Ok(())
    }
}

impl LocalCopy {
    /// Whether the host was removed or forgotten.
    pub fn is_gone(&self, host: HostId) -> bool {
        self.has(&Key::of::<GoneHostEntry>(&host))
    }

    /// The hosts of the cluster. One of an earlier release that has entered itself although it is gone is none of them.
    pub fn hosts(&self) -> Vec<(HostId, HostEntry)> {
        self.list::<HostEntry>().into_iter().filter(|(host, _)| !self.is_gone(*host)).collect()
    }

    /// Their disk groups.
    pub fn disk_groups(&self) -> Vec<(DiskGroupId, DiskGroupEntry)> {
        self.list::<DiskGroupEntry>().into_iter().filter(|(_, group)| !self.is_gone(group.host)).collect()
    }
}
