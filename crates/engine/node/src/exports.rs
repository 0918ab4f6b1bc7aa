//! The disks that this host serves to front ends: every disk of the cluster, by name, and its snapshots as DISK@NAME.

use cairn_directory::{CatalogueEntry, DiskState, NameEntry, names::Name};
use cairn_env::Env;
use cairn_geometry::Rows;
use cairn_object::{DiskClient, SnapshotReader};
use cairn_types::{BLOCK_BYTES, Layout, ObjectId};
use cairn_volume::{Alignment, Exports, VolumeError, VolumeInfo};

use crate::{adapter::GroupStore, node::Node, volume::NodeVolume};

/// A node's disks.
pub struct NodeExports<E: Env> {
    node: Node<E>,
}

impl<E: Env> Clone for NodeExports<E> {
    fn clone(&self) -> Self {
        Self { node: self.node.clone() }
    }
}

impl<E: Env> NodeExports<E> {
    /// The disks as this node sees them.
    pub fn new(node: &Node<E>) -> Self {
        Self { node: node.clone() }
    }
}

/// Whether its making has come to its end, and its deletion has not.
fn is_made(entry: &CatalogueEntry) -> bool {
    matches!(entry.state, DiskState::Ready | DiskState::Deleting)
}

impl<E: Env> Node<E> {
    /// The catalogue as this host knows it, with disks that are being deleted.
    pub(crate) fn catalogue(&self) -> Vec<(ObjectId, CatalogueEntry)> {
        let mut all = self.inner.copy.borrow().list::<CatalogueEntry>();
        all.retain(|(_, entry)| is_made(entry));
        all.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        all
    }

    /// A disk by name or id, from the local copy: two look-ups, however many disks there are.
    fn disk_in_copy(&self, text: &str) -> Option<(ObjectId, CatalogueEntry)> {
        let copy = self.inner.copy.borrow();
        let ready = |object: ObjectId| {
            let entry = copy.get::<CatalogueEntry>(&object).filter(is_made)?;
            (entry.name.as_str() == text || object.to_string() == text).then_some((object, entry))
        };
        let named = Name::new(text).ok().and_then(|name| copy.get::<NameEntry>(&name));
        named.and_then(|named| ready(named.object)).or_else(|| ready(text.parse().ok()?))
    }

    /// A disk by name or id, from the local copy or, for one made a moment ago, from the directory.
    pub(crate) async fn find_disk(&self, name: &str) -> Option<(ObjectId, CatalogueEntry)> {
        let known = self.disk_in_copy(name);
        if known.is_some() {
            return known;
        }
        let name = Name::new(name).ok()?;
        let object = self.inner.registry.get::<NameEntry>(&name).await.ok()??.entry.object;
        let found = self.inner.registry.get::<CatalogueEntry>(&object).await.ok()??;
        is_made(&found.entry).then_some((object, found.entry))
    }

    /// Whether the name belongs to a disk whose making has not come to its end.
    pub(crate) async fn is_being_made(&self, name: &str) -> bool {
        let Ok(name) = Name::new(name) else { return false };
        let registry = &self.inner.registry;
        let Ok(Some(named)) = registry.get::<NameEntry>(&name).await else { return false };
        let found = registry.get::<CatalogueEntry>(&named.entry.object).await;
        found.is_ok_and(|found| found.is_some_and(|found| found.entry.state == DiskState::Creating))
    }

    /// Opens a disk for a front end: this host becomes its owner unless another front end uses it elsewhere.
    pub async fn open_disk(&self, name: &str) -> Result<Option<DiskClient<E, GroupStore<E>>>, VolumeError> {
        let found = self.find_disk(name).await.filter(|(_, entry)| entry.state == DiskState::Ready);
        let Some((object, entry)) = found else { return Ok(None) };
        let _ = self.inner.objects.attach(object, &entry.hint_hosts, false).await;
        let known = self.inner.objects.look_up(object, &entry.hint_hosts).await;
        let alignment = known.as_ref().and_then(|(record, _)| alignment_of(&record.config.addresses.last().layout));
        let size_bytes = match known {
            Some((record, _)) if record.config.deleted => return Ok(None),
            // The record decides; the catalogue is a hint. A growth that is open may yet be dropped.
            Some((record, _)) => record.base.map_or(record.config.size_bytes, |base| base.size_bytes),
            None => entry.size_bytes,
        };
        let info = VolumeInfo {
            id: object,
            name: entry.name.as_str().to_owned(),
            size_bytes,
            alignment,
            read_only: false,
            description: format!("Cairn disk, policy {}", entry.policy_name.as_str()),
        };
        Ok(Some(DiskClient::new(&self.inner.objects, object, info, entry.hint_hosts)))
    }
}

impl<E: Env> Node<E> {
    /// Opens a snapshot of a disk for a front end.
    pub(crate) async fn open_snapshot(
        &self,
        disk: &str,
        snapshot: &str,
    ) -> Result<Option<SnapshotReader<E, GroupStore<E>>>, VolumeError> {
        let found = self.find_disk(disk).await.filter(|(_, entry)| entry.state == DiskState::Ready);
        let Some((object, entry)) = found else { return Ok(None) };
        let Some((record, _)) = self.inner.objects.look_up(object, &entry.hint_hosts).await else {
            return Err(VolumeError::Io("no host that answers has the disk's record".into()));
        };
        let config = record.config;
        let named = config.past.as_ref().and_then(|past| past.named(snapshot)).filter(|_| !config.deleted);
        let Some(named) = named else { return Ok(None) };
        let info = VolumeInfo {
            id: object,
            name: format!("{}@{}", entry.name.as_str(), named.name),
            size_bytes: named.size_bytes,
            alignment: alignment_of(&config.addresses.last().layout),
            read_only: true,
            description: format!("snapshot of a Cairn disk, policy {}", entry.policy_name.as_str()),
        };
        let id = named.id;
        Ok(Some(SnapshotReader::new(&self.inner.objects, config, id, info)))
    }
}

impl<E: Env> Node<E> {
    /// Snapshots of a disk that are older than this one of it, the oldest first; none where the disk's record cannot be had.
    async fn earlier_snapshots(&self, disk: &str, snapshot: &str) -> Vec<String> {
        let found = self.find_disk(disk).await.filter(|(_, entry)| entry.state == DiskState::Ready);
        let Some((object, entry)) = found else { return Vec::new() };
        let Some((record, _)) = self.inner.objects.look_up(object, &entry.hint_hosts).await else { return Vec::new() };
        let past = record.config.past.filter(|_| !record.config.deleted).unwrap_or_default();
        let Some(named) = past.named(snapshot) else { return Vec::new() };
        past.snapshots.iter().filter(|one| one.cut < named.cut).map(|one| one.name.clone()).collect()
    }
}

/// A disk's name and that of its snapshot, where the name is of one: no disk's name has the character between them.
fn snapshot_of(name: &str) -> Option<(&str, &str)> {
    name.split_once('@')
}

/// How requests to a disk in rows are best aligned.
fn alignment_of(layout: &Layout) -> Option<Alignment> {
    let bytes = |blocks: u64| u32::try_from(blocks * u64::from(BLOCK_BYTES)).ok();
    let rows = Rows::of(layout.redundancy)?;
    Some(Alignment { strip_bytes: bytes(rows.strip_blocks())?, row_bytes: bytes(rows.row_blocks())? })
}

impl<E: Env> Exports for NodeExports<E> {
    type Volume = NodeVolume<E>;

    fn list(&self) -> impl Future<Output = Vec<String>> + 'static {
        let all = self.node.catalogue().into_iter();
        let ready = all.filter(|(_, entry)| entry.state == DiskState::Ready);
        std::future::ready(ready.map(|(_, entry)| entry.name.as_str().to_owned()).collect())
    }

    fn changes(&self) -> Option<u64> {
        self.node.inner.copy.borrow().revision().map(|revision| revision.0)
    }

    fn shard_to_serve(&self, name: &str) -> impl Future<Output = Option<usize>> + 'static {
        let (node, name) = (self.node.clone(), name.to_owned());
        async move { node.shard_to_serve(&name).await }
    }

    fn is_read_only(&self, name: &str) -> bool {
        snapshot_of(name).is_some()
    }

    fn earlier_moments(&self, name: &str) -> impl Future<Output = Vec<String>> + 'static {
        let (node, name) = (self.node.clone(), name.to_owned());
        async move {
            match snapshot_of(&name) {
                Some((disk, snapshot)) => node.earlier_snapshots(disk, snapshot).await,
                None => Vec::new(),
            }
        }
    }

    fn open(&self, name: &str) -> impl Future<Output = Result<Option<Self::Volume>, VolumeError>> + 'static {
        let (node, name) = (self.node.clone(), name.to_owned());
        async move {
            match snapshot_of(&name) {
                Some((disk, snapshot)) => Ok(node.open_snapshot(disk, snapshot).await?.map(NodeVolume::Snapshot)),
                None => Ok(node.open_disk(&name).await?.map(NodeVolume::Disk)),
            }
        }
    }
}
