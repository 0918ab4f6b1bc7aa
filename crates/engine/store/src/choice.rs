//! What can be chosen of a disk group while it runs: whether what is destaged is packed, and whether equal blocks are stored once.
//!
//! Promises    what was answered is durable; the superblock says what it needs before anything of it is written; what is refused changes nothing
//! Not here    packing (`squeeze.rs`), finding equal blocks (`find_twins.rs`), what is chosen when a group is made or opened (`options.rs`)

use cairn_env::Env;
use cairn_format::Needs;

use crate::{
    disk_group::{DiskGroup, Inner},
    error::{StoreError, refused},
    rewriting::RewriteProgress,
    state::State,
};

/// What is chosen of a disk group in use. What is none stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choice {
    /// Pack what is destaged.
    pub compression: Option<bool>,
    /// Store what is destaged once where it is equal to what was destaged since this is on.
    pub deduplication: Option<bool>,
    /// Write anew, in the background, what is on the capacity devices now, so that it becomes as chosen; or leave that.
    pub rewrite: Option<bool>,
}

impl Choice {
    /// Pack from now on, or not; the rest stays as it is.
    pub fn packs(on: bool) -> Self {
        Self { compression: Some(on), ..Self::default() }
    }
    /// Store equal blocks once from now on, or not; the rest stays as it is.
    pub fn shares(on: bool) -> Self {
        Self { deduplication: Some(on), ..Self::default() }
    }
    /// What the formats have to know for it, and what it is called.
    fn needs(self) -> (Needs, &'static str) {
        match self.deduplication {
            Some(true) => (Needs::SHARED.with(Needs::SPOTS), "deduplication"),
            _ if self.compression == Some(true) => (Needs::SPOTS, "compression"),
            _ if self.rewrite == Some(true) => (Needs::SPOTS, "writing anew"),
            _ => (Needs::NONE, ""),
        }
    }
}

impl<E: Env> DiskGroup<E> {
    /// Whether what is destaged is packed.
    pub fn compression(&self) -> bool {
        self.inner().state.borrow().settings.compression()
    }

    /// Whether equal blocks are stored once.
    pub fn deduplication(&self) -> bool {
        self.inner().state.borrow().settings.deduplication()
    }

    /// How far it is with writing anew what was there before something was chosen; none where it does not.
    pub fn rewriting(&self) -> Option<RewriteProgress> {
        self.inner().state.borrow().rewrite_progress(self.inner().env.now())
    }

    /// Holds for what is destaged from now on. What stands there stays as it is until it is overwritten, or written anew. Destages everything that is in
    /// the log now.
    ///
    /// # Errors
    /// [`crate::StoreErrorKind::Refused`] where the group may not need it, or its map is not in pages; [`crate::StoreErrorKind::Media`] when the group stopped or was
    /// closed.
    pub async fn choose(&self, choice: Choice) -> Result<(), StoreError> {
        let inner = self.inner();
        inner.state.borrow().life.not_stopped()?;
        let compression = choice.compression.filter(|on| *on != self.compression());
        let deduplication = choice.deduplication.filter(|on| *on != self.deduplication());
        let rewrite = choice.rewrite.filter(|on| *on || self.rewriting().is_some());
        if compression.is_none() && deduplication.is_none() && rewrite.is_none() {
            return Ok(());
        }
        inner.take_needs_of(Choice { compression, deduplication, rewrite }).await?;
        {
            let state = &mut *inner.state.borrow_mut();
            if let Some(on) = compression {
                state.settings.set_compression(on);
            }
            if let Some(on) = deduplication {
                state.settings.set_deduplication(on);
                if !on {
                    state.twins.clear();
                }
            }
        }
        if deduplication == Some(true) {
            inner.recall_hooks();
        }
        inner.drain().await?;
        let Some(rewrite) = rewrite else { return Ok(()) };
        // No round is under way that was destaged as chosen before.
        inner.state.borrow_mut().rewrite(rewrite);
        inner.drain().await
    }
}

impl<E: Env> Inner<E> {
    async fn take_needs_of(&self, choice: Choice) -> Result<(), StoreError> {
        let (needs, name) = choice.needs();
        if !self.allowed.get().include(needs) && !self.has_needs(needs) {
            let why = "needs a release on all hosts of the cluster that knows it: finish the upgrade, and ask again";
            return Err(refused(format!("{name} {why}")));
        }
        if needs != Needs::NONE && self.state.borrow().map.pages().is_none() {
            return Err(refused(format!(
                "the disk group keeps its block map as version 0.2.0 does, and {name} needs it in pages: it goes over by itself once all hosts of the \
                 cluster run a release that knows them; ask again then"
            )));
        }
        self.take_needs(needs).await
    }
}

impl State {
    /// Items with several references, and these.
    pub(crate) fn shared_now(&self) -> (u64, u64) {
        let devices = self.tier.devices().iter().filter(|segments| !segments.failed);
        devices.map(|segments| segments.shares.counts()).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }
}
