//! Disk groups as an administrator sees and sets them.

use cairn_api::{LocalManagement as _, v1};
use cairn_types::DiskGroupId;

use crate::cluster::Cluster;

impl Cluster {
    /// A disk group, as its cluster tells of it.
    pub async fn disk_group(&self, id: DiskGroupId) -> Result<v1::DiskGroup, String> {
        let up = self.asked_of(0)?;
        let asked = self.manage(up, async move |node| node.disk_group_show(id).await).await;
        asked.map_err(|error| error.to_string())
    }

    /// Chooses something of a disk group; what is refused is in the log.
    pub async fn choose(&self, id: DiskGroupId, settings: v1::DiskGroupSettings) {
        let Ok(up) = self.asked_of(0) else { return };
        let chosen = settings.clone();
        match self.manage(up, async move |node| node.disk_group_set(id, chosen).await).await {
            Ok(_) => self.log.add(format!("disk group {id}: {settings:?}")),
            Err(error) => self.log.add(format!("disk group {id} is not set to {settings:?}: {error}")),
        }
    }
}

/// A disk group packs what it destages, or not.
pub fn packs(on: bool) -> v1::DiskGroupSettings {
    v1::DiskGroupSettings { compression: Some(on), ..v1::DiskGroupSettings::default() }
}

/// A disk group stores equal blocks once, or not.
pub fn shares(on: bool) -> v1::DiskGroupSettings {
    v1::DiskGroupSettings { deduplication: Some(on), ..v1::DiskGroupSettings::default() }
}

/// A disk group writes anew what stands on its capacity devices, or leaves that.
pub fn rewrites(on: bool) -> v1::DiskGroupSettings {
    v1::DiskGroupSettings { rewrite: Some(on), ..v1::DiskGroupSettings::default() }
}
