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

    /// Has a disk group pack what it destages, or not; what is refused is in the log.
    pub async fn set_compression(&self, id: DiskGroupId, on: bool) {
        let Ok(up) = self.asked_of(0) else { return };
        let settings = v1::DiskGroupSettings { compression: Some(on) };
        match self.manage(up, async move |node| node.disk_group_set(id, settings).await).await {
            Ok(_) => self.log.add(format!("disk group {id}: compression {on}")),
            Err(error) => self.log.add(format!("disk group {id} is not set to compression {on}: {error}")),
        }
    }

    /// Has a disk group of a host pack what it destages, where it is open.
    pub async fn pack(&self, (host, group): (usize, usize), on: bool) {
        if let Some(id) = self.group_id(host, group) {
            self.set_compression(id, on).await;
        }
    }
}
