//! The records of all disks, one after the other: for previews, which have to look at each.
//!
//! Not here    what is looked for (the previews themselves)

use std::collections::BTreeMap;

use cairn_directory::CatalogueEntry;
use cairn_env::Env;
use cairn_types::{ObjectConfig, ObjectId};
use cairn_wire::ObjectStatus;

use crate::node::Node;

/// Disks that are looked at before the thread's other tasks have a turn: each may be a search through the cluster.
const DISKS_TOGETHER: usize = 8;

impl<E: Env> Node<E> {
    /// Shows `look` the record of every disk that somebody answers for. Returns the names of the others.
    pub(crate) async fn each_known(&self, mut look: impl FnMut(ObjectConfig)) -> Vec<String> {
        let (owned, mut unknown) = (self.owned_everywhere().await, Vec::new());
        self.each_record(
            &owned,
            |_| true,
            |_, entry, config| match config {
                Some(config) => look(config),
                None => unknown.push(entry.name.as_str().to_owned()),
            },
        )
        .await;
        unknown
    }

    /// Shows `look` each disk of the catalogue that it `concerns`, with its record as the owner has it, or as the seats that answer do; none
    /// where nobody answers. Disks that are deleted already are left out. `owned`: what all owners told.
    pub(crate) async fn each_record(
        &self,
        owned: &BTreeMap<ObjectId, ObjectStatus>,
        concerns: impl Fn(&ObjectId) -> bool,
        mut look: impl FnMut(ObjectId, &CatalogueEntry, Option<ObjectConfig>),
    ) {
        let disks = self.catalogue().into_iter().filter(|(object, _)| concerns(object));
        for (n, (object, entry)) in disks.enumerate() {
            if n % DISKS_TOGETHER == DISKS_TOGETHER - 1 {
                self.inner.env.give_way().await;
            }
            let config = match owned.get(&object) {
                Some(status) => Some(status.config.clone()),
                None => self.inner.objects.look_up(object, &entry.hint_hosts).await.map(|(known, _)| known.config),
            };
            if config.as_ref().is_none_or(|config| !config.deleted) {
                look(object, &entry, config);
            }
        }
    }
}
