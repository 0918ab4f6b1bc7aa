//! What a component held at the cut of a snapshot: which history a read of it needs.
//!
//! Promises    a view is what all operations up to its cut left, and nothing later, whatever is destaged meanwhile
//! Not here    the read itself (`read.rs`), history in pages (`history.rs`)
//!
//! The order of places is that of time. First comes what the log has at or below the cut. Then comes history: the first entry of the
//! cut's generation or a later one. A block that has neither was not changed since, so the map tells.

use std::collections::BTreeMap;

use cairn_env::Env;
use cairn_format::{LEAF_BLOCKS, SHARD_BLOCKS, history_rows::Cut};
use cairn_types::{BlockRange, ComponentId, SnapshotId};

use crate::{
    disk_group::Inner,
    error::{StoreError, StoreErrorKind},
    history::{History, Then},
    shards::{ShardKey, shard_of},
};

/// What a read at a cut goes by.
#[derive(Debug)]
pub(crate) struct View {
    pub cut: Cut,
    /// Of the map: of another one the history may be out of date.
    pub generation: u64,
    history: BTreeMap<ShardKey, History>,
}

impl View {
    /// What a block had that the log says nothing of.
    pub fn at(&self, id: ComponentId, block: u64) -> Then {
        let history = self.history.get(&shard_of((id, block / LEAF_BLOCKS)));
        history.map_or(Then::AsNow, |history| history.at(block % SHARD_BLOCKS, self.cut.generation))
    }
}

impl<E: Env> Inner<E> {
    /// The view of a snapshot, with the history of these blocks.
    pub(crate) async fn view_of(
        &self,
        id: ComponentId,
        range: BlockRange,
        snapshot: SnapshotId,
    ) -> Result<View, StoreError> {
        let (cut, generation, shards) = {
            let state = self.state.borrow();
            let component = state.components.not_lost(id)?;
            component.within(range)?;
            let cut = component.cuts.of(snapshot).copied().ok_or_else(|| {
                let text = format!(
                    "component {id} has no snapshot {:016x}: it was deleted, or is not taken here yet",
                    snapshot.0
                );
                StoreError::new(StoreErrorKind::NotFound, text)
            })?;
            let shards = &state.map.pages().expect("there are cuts").shards;
            let last = range.first.max(range.end().saturating_sub(1)) / SHARD_BLOCKS;
            let keys = (range.first / SHARD_BLOCKS..=last).map(|shard| (id, shard as u16));
            (cut, state.map.generation(), keys.filter(|key| shards.history(*key).is_some()).collect::<Vec<_>>())
        };
        let mut history = BTreeMap::new();
        for key in shards {
            let first = u64::from(key.1) * SHARD_BLOCKS;
            if let Some(own) = BlockRange::new(first, SHARD_BLOCKS as u32).intersection(range) {
                history.insert(key, self.history_of(key, own.first - first..own.end() - first).await);
            }
        }
        Ok(View { cut, generation, history })
    }
}
