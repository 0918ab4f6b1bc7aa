//! Forgetting a host that is gone for good, so that its name is free and nobody counts what it had.
//!
//! Promises    a host that answers is not forgotten, nor one with the only good copy of a disk
//! Not here    replacing what was on it (`object`: it is recorded absent, and rebuilt after the repair delay)

use cairn_api::{ApiError, ApiResult};
use cairn_directory::{DiskGroupEntry, HostIntent};
use cairn_env::Env;
use cairn_types::DiskGroupId;

use crate::{manage::directory_error, node::Node};

impl<E: Env> Node<E> {
    /// Removes a host that does not answer from the directory, with its shards and its disk groups.
    pub(crate) async fn host_remove(&self, host: String) -> ApiResult<()> {
        let inner = &self.inner;
        let shards = self.shards_of(self.find_host(&host)?);
        if shards.iter().any(|shard| *shard == self.me() || inner.rpc.is_up(*shard)) {
            return Err(ApiError::refused(format!("host {host} answers"))
                .remedy("Only a host that is gone is removed: stop its daemon first"));
        }
        let groups = inner.copy.borrow().list::<DiskGroupEntry>();
        let groups: Vec<DiskGroupId> =
            groups.into_iter().filter(|(_, entry)| shards.contains(&entry.host)).map(|(id, _)| id).collect();
        for group in &groups {
            self.refuse_last_copies(*group).await?;
        }
        for group in &groups {
            inner.registry.remove::<DiskGroupEntry>(group).await.map_err(directory_error)?;
        }
        // The first shard last: as long as it is there the command can be given again.
        for shard in shards.iter().rev() {
            inner.registry.remove::<HostIntent>(shard).await.map_err(directory_error)?;
            inner.registry.forget_host(*shard).await.map_err(directory_error)?;
        }
        Ok(())
    }
}
