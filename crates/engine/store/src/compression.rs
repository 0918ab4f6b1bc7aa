//! Whether a disk group packs what it destages: to be chosen while it runs.
//!
//! Promises    what was answered is durable; the superblock says what it needs before anything of it is written
//! Not here    packing (`squeeze.rs`), what is chosen when a group is made or opened (`options.rs`)

use cairn_env::Env;
use cairn_format::Needs;

use crate::{
    disk_group::{DiskGroup, Inner},
    error::{StoreError, refused},
};

const NOT_ALLOWED: &str =
    "compression needs a release on all hosts of the cluster that knows it: finish the upgrade, and ask again";
const NO_PAGES: &str = "the disk group keeps its block map as version 0.2.0 does, and compression needs it in pages: it goes over by itself once all \
                        hosts of the cluster run a release that knows them; ask again then";

impl<E: Env> DiskGroup<E> {
    /// Whether what is destaged is packed.
    pub fn compression(&self) -> bool {
        self.inner().state.borrow().settings.compression()
    }

    /// Packs what is destaged from now on, or writes it as it is. What stands there stays as it is until it is overwritten. Destages everything
    /// that is in the log now.
    ///
    /// # Errors
    /// [`crate::StoreErrorKind::Refused`] where the group may not need it, or its map is not in pages; [`crate::StoreErrorKind::Media`] when the group stopped or was
    /// closed.
    pub async fn set_compression(&self, on: bool) -> Result<(), StoreError> {
        let inner = self.inner();
        inner.state.borrow().life.not_stopped()?;
        if self.compression() == on {
            return Ok(());
        }
        if on {
            inner.take_needs_for_packing().await?;
        }
        inner.state.borrow_mut().settings.set_compression(on);
        inner.drain().await
    }
}

impl<E: Env> Inner<E> {
    async fn take_needs_for_packing(&self) -> Result<(), StoreError> {
        if !self.allowed.get().include(Needs::SPOTS) && !self.has_needs(Needs::SPOTS) {
            return Err(refused(NOT_ALLOWED));
        }
        if self.state.borrow().map.pages().is_none() {
            return Err(refused(NO_PAGES));
        }
        self.take_needs(Needs::SPOTS).await
    }
}
