//! What a component held at the cut of a snapshot: which history a read of it needs.
//!
//! Promises    a view is what all operations up to its cut left, and nothing later, whatever is destaged meanwhile
//! Not here    the read itself (`read.rs`), history in pages (`history.rs`)
//!
//! The order of places is that of time. First comes what the log has at or below the cut. Then comes history: the first entry of the
//! cut's generation or a later one. A block that has neither was not changed since, so the map tells, or a copy that is on its way there.

use std::{collections::BTreeMap, ops::Range, rc::Rc};

use cairn_env::Env;
use cairn_format::{LEAF_BLOCKS, SHARD_BLOCKS, history_rows::Cut};
use cairn_types::{BlockRange, ComponentId, SnapshotId};

use crate::{
    component::{AtCut, Component, joined},
    disk_group::Inner,
    error::{StoreError, StoreErrorKind},
    history::{History, Then},
    records::Record,
    shards::{ShardKey, shard_of},
    state::State,
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
    /// Whether a block has history of some generations.
    fn changed(&self, id: ComponentId, block: u64, generations: Range<u32>) -> bool {
        let history = self.history.get(&shard_of((id, block / LEAF_BLOCKS)));
        history.is_some_and(|history| history.changed(block % SHARD_BLOCKS, generations))
    }
}

/// What of a component lies between two cuts, or between one and now.
#[derive(Debug, Clone, Copy)]
struct Between {
    from: Cut,
    /// None: now.
    to: Option<Cut>,
}

impl Between {
    fn of(component: &Component, a: SnapshotId, b: Option<SnapshotId>) -> Result<Self, StoreError> {
        let from = cut_of(component, a)?;
        Ok(match b.map(|b| cut_of(component, b)).transpose()? {
            Some(to) if to.generation < from.generation => Self { from: to, to: Some(from) },
            to => Self { from, to },
        })
    }
    fn generations(&self) -> Range<u32> {
        self.from.generation..self.to.map_or(u32::MAX, |to| to.generation)
    }
    /// Whether what an operation wrote is in the newer state and not in the older one. A copy brings what was there before.
    fn has(&self, record: &Record) -> bool {
        !record.is_copy && self.from.op < record.op && self.to.is_none_or(|to| record.op <= to.op)
    }
}

pub(crate) fn cut_of(component: &Component, snapshot: SnapshotId) -> Result<Cut, StoreError> {
    component.cuts.of(snapshot).copied().ok_or_else(|| {
        let text = format!(
            "component {} has no snapshot {:016x}: it was deleted, or is not taken here yet",
            component.id, snapshot.0
        );
        StoreError::new(StoreErrorKind::NotFound, text)
    })
}

/// Blocks of a range one by one, with what is so of each.
fn of_each(range: BlockRange, is_so: impl Fn(u64) -> bool) -> impl Iterator<Item = (BlockRange, bool)> {
    (range.first..range.end()).map(move |block| (BlockRange::new(block, 1), is_so(block)))
}

impl<E: Env> Inner<E> {
    /// Which blocks were allocated at the cut of a snapshot, as alternating runs.
    pub(crate) async fn allocated_at(
        self: Rc<Self>,
        id: ComponentId,
        range: BlockRange,
        snapshot: SnapshotId,
    ) -> Result<Vec<(BlockRange, bool)>, StoreError> {
        loop {
            let view = self.view_of(id, range, snapshot).await?;
            let State { components, map, .. } = &*self.state.borrow();
            if view.generation != map.generation() {
                continue;
            }
            let (component, records) = (components.not_lost(id)?, &components.records);
            let parts = component.at_cut(range, view.cut.op, records).into_iter().flat_map(|part| match part {
                AtCut::Version(record, range) => vec![(range, records.of(record).allocates())],
                AtCut::History(range, copy) => of_each(range, |block| match view.at(id, block) {
                    Then::AsNow => copy.map_or(component.base.get(block), |copy| records.of(copy).allocates()),
                    Then::Hole => false,
                    Then::Entry(_) | Then::Lost => true,
                })
                .collect(),
            });
            return Ok(joined(parts));
        }
    }

    /// Which blocks of a range may differ between a snapshot and another one, or now: no others do.
    pub(crate) async fn changed(
        self: Rc<Self>,
        id: ComponentId,
        range: BlockRange,
        (a, b): (SnapshotId, Option<SnapshotId>),
    ) -> Result<Vec<BlockRange>, StoreError> {
        loop {
            let view = self.view_of(id, range, a).await?;
            let State { components, map, .. } = &*self.state.borrow();
            if view.generation != map.generation() {
                continue;
            }
            let (component, records) = (components.not_lost(id)?, &components.records);
            let between = Between::of(component, a, b)?;
            let mut changed = BTreeMap::new();
            component.extents.each(range, |part, versions| {
                if versions.iter().any(|version| between.has(records.of(*version))) {
                    changed.insert(part.first, part.end());
                }
            });
            let buffered = |block: u64| changed.range(..=block).next_back().is_some_and(|(_, end)| block < *end);
            let of_block = |block| buffered(block) || view.changed(id, block, between.generations());
            let runs = joined(of_each(range, of_block));
            return Ok(runs.into_iter().filter_map(|(run, is_so)| is_so.then_some(run)).collect());
        }
    }

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
            let cut = cut_of(component, snapshot)?;
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
