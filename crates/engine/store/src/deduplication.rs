//! Whether a disk group stores equal blocks once: to be chosen while it runs.
//!
//! Promises    what was answered is durable; the superblock says what it needs before anything of it is written
//! Not here    finding equal blocks (`find_twins.rs`), references to what is stored (`shares.rs`)

use cairn_env::Env;
use cairn_format::Needs;

use crate::{
    disk_group::{DiskGroup, Inner},
    error::{StoreError, refused},
    state::State,
    stats::Packing,
};

const NOT_ALLOWED: &str =
    "deduplication needs a release on all hosts of the cluster that knows it: finish the upgrade, and ask again";
const NO_PAGES: &str = "the disk group keeps its block map as version 0.2.0 does, and deduplication needs it in pages: it goes over by itself once \
                        all hosts of the cluster run a release that knows them; ask again then";

impl<E: Env> DiskGroup<E> {
    /// Whether equal blocks are stored once.
    pub fn deduplication(&self) -> bool {
        self.inner().state.borrow().settings.deduplication()
    }

    /// Stores what is destaged from now on once where it is equal to what was destaged since deduplication is on, or each block by itself. What stands there
    /// stays as it is until it is overwritten. Destages everything that is in the log now.
    ///
    /// # Errors
    /// [`crate::StoreErrorKind::Refused`] where the group may not need it, or its map is not in pages; [`crate::StoreErrorKind::Media`] when the group stopped or was
    /// closed.
    pub async fn set_deduplication(&self, on: bool) -> Result<(), StoreError> {
        let inner = self.inner();
        inner.state.borrow().life.not_stopped()?;
        if self.deduplication() == on {
            return Ok(());
        }
        if on {
            inner.take_needs_for_sharing().await?;
        }
        {
            let state = &mut *inner.state.borrow_mut();
            state.settings.set_deduplication(on);
            if !on {
                state.twins.clear();
            }
        }
        inner.drain().await
    }
}

impl<E: Env> Inner<E> {
    async fn take_needs_for_sharing(&self) -> Result<(), StoreError> {
        let needs = Needs::SHARED.with(Needs::SPOTS);
        if !self.allowed.get().include(needs) && !self.has_needs(needs) {
            return Err(refused(NOT_ALLOWED));
        }
        if self.state.borrow().map.pages().is_none() {
            return Err(refused(NO_PAGES));
        }
        self.take_needs(needs).await
    }
}

impl State {
    /// What was counted, with what there is now.
    pub(crate) fn packing_now(&self) -> Packing {
        let counts =
            self.tier.devices().iter().filter(|segments| !segments.failed).map(|segments| segments.shares.counts());
        let (shared_items, shared_references) = counts.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let (hooks, hooks_one_in) = self.twins.depth();
        Packing { shared_items, shared_references, hooks, hooks_one_in, ..self.packing }
    }
}
