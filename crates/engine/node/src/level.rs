//! The level that this host takes the cluster for.
//!
//! Promises    V1  it only rises, and never by this host's own decision: the directory, its copy or a peer tells it
//!             V2  what an older build does not read is sent from the level on at which all hosts read it, never before
//!             V3  a build that does not speak the level stops serving, in words
//! Not here    the decisions (`upgrade`), how administrators see and raise it (`manage::upgrade`)

use cairn_api::{ApiError, ApiResult};
use cairn_env::Env;
use cairn_store::{DiskGroup, Needs, OpenOptions};
use cairn_types::{Canary, Feature, Level};
use cairn_upgrade::may_start;

use crate::node::Node;

impl<E: Env> Node<E> {
    /// The level that this host takes the cluster for: what it may send and write ([`Level::has`]). Stores are told it when they are
    /// opened and when it rises.
    pub fn level(&self) -> Level {
        self.inner.level.get()
    }

    /// Refuses what is not switched on yet. `what` begins the sentence: "a scrub".
    ///
    /// # Errors
    /// A refusal that says how to switch it on.
    pub(crate) fn check_is_on(&self, feature: Feature, what: &str) -> ApiResult<()> {
        if self.level().has(feature) {
            return Ok(());
        }
        Err(ApiError::refused(format!("{what} needs an upgrade that is finished"))
            .remedy("`cairn cluster upgrade status` tells what is missing, `cairn cluster upgrade finish` ends it"))
    }

    /// Resolves, with the reason, when the cluster is at a level that this build does not speak: the host is to stop.
    pub async fn outgrown(&self) -> String {
        self.inner.outgrown.heard().await
    }

    pub(crate) fn begin_with_level(&self) {
        self.level_is_now();
        self.apply_level();
    }

    /// What the local copy says.
    pub(crate) fn apply_level(&self) {
        let known = self.inner.copy.borrow().level();
        known.into_iter().for_each(|level| self.level_is(level));
    }

    /// The directory, or a peer, takes the cluster for this level.
    pub(crate) fn level_is(&self, told: Level) {
        let inner = &self.inner;
        if told <= inner.level.get() {
            return;
        }
        match may_start(&inner.env.build(), Some(told)) {
            Ok(level) => {
                inner.level.set(level);
                self.level_is_now();
            }
            Err(why) => {
                if inner.outgrown.tell(&why) {
                    inner.outside.warn(why);
                }
            }
        }
    }

    /// How disk groups are opened now.
    pub(crate) fn store_options(&self) -> OpenOptions {
        OpenOptions { allowed: needs_at(self.level()), ..self.inner.options.store_open.clone() }
    }

    /// The level may have risen while the group was being opened.
    pub(crate) fn tell_level(&self, group: &DiskGroup<E>) {
        group.allow(needs_at(self.level()));
    }

    fn level_is_now(&self) {
        let inner = &self.inner;
        let mut level = inner.level.get();
        if Canary::LevelRaisedAlone.sings() {
            level = inner.env.build().speaks.highest;
        }
        inner.env.set_level(level);
        inner.objects.level_is(level);
        self.tell_facts();
        inner.seats.stores().iter().for_each(|store| store.group().allow(needs_at(level)));
    }
}

/// What disk groups may need in a cluster at this level.
fn needs_at(level: Level) -> Needs {
    let needs = [
        (Feature::MapPages, Needs::MAP_PAGES),
        (Feature::BadMarks, Needs::BAD_MARKS),
        (Feature::ErasureCoding, Needs::PARITY),
        (Feature::Snapshots, Needs::CUTS),
        (Feature::Compression, Needs::SPOTS),
        (Feature::Deduplication, Needs::SHARED),
    ];
    needs.into_iter().filter(|(feature, _)| level.has(*feature)).fold(Needs::NONE, |all, (_, needs)| all.with(needs))
}
