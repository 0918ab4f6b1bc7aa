//! History that another copy of a component brings, as in a resync: it goes to the capacity tier and into the map's pages, past the log.
//!
//! Promises    what was answered is on stable media; a group of them is there as a whole, or not at all
//!             it takes the place of what the component kept by itself: that may be of blocks that were out of date here
//! Assumes     nobody writes these blocks until their present contents were copied as well
//!             the destage task carries it out: no transaction is under way
//! Not here    what is brought (`object`), what history is (`history.rs`)

use std::{collections::BTreeMap, future::Future};

use bytes::Bytes;
use cairn_env::Env;
use cairn_format::{LogPiece, Needs, SHARD_BLOCKS, history_rows::Cut};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId, Run, SnapshotId};
use futures::channel::oneshot;

use crate::{
    capacity::CapacityWriter,
    charge::{no_space, uncharge},
    disk_group::Inner,
    error::{StoreError, StoreErrorKind},
    fills::Fill,
    history::History,
    leaf::{Entry, LEAF_BLOCKS, Spot},
    placing::out_blocks,
    queue::{Done, More},
    shards::{ShardKey, shard_of},
    state::State,
    transaction::Transaction,
    view::cut_of,
};

/// Blocks that one transaction takes over, at most, unless one call has more.
const TOGETHER_BLOCKS_MAX: u64 = (4 << 20) / BLOCK_BYTES as u64;

/// A fill that can be carried out now.
struct Ready<'a> {
    fill: &'a Fill,
    cut: Cut,
    history: BTreeMap<ShardKey, History>,
}

impl Ready<'_> {
    /// What history has of a block at the cut itself.
    fn known(&self, block: u64) -> Option<Entry> {
        let history = self.history.get(&shard_of((self.fill.component, block / LEAF_BLOCKS)))?;
        history.entry((block % SHARD_BLOCKS, self.cut.generation))
    }

    /// The entries that come of it, with spots for those of its blocks that have data.
    fn entries(&self, mut spots: impl Iterator<Item = Spot>) -> Vec<(u64, Entry)> {
        let mut entries = Vec::new();
        for piece in &self.fill.pieces {
            let row_checks = match piece {
                LogPiece::Parity { row_checks, .. } => &row_checks[..],
                _ => &[],
            };
            let range = piece.range();
            for (at, block) in (range.first..range.end()).enumerate() {
                let (spot, crc) = match piece {
                    LogPiece::Hole { .. } => (Spot::HOLE, 0),
                    LogPiece::Bad { crcs, .. } => (Spot::BAD, crcs[at]),
                    LogPiece::Data { crcs, .. } | LogPiece::Parity { crcs, .. } => {
                        (spots.next().expect("one for each block with data"), crcs[at])
                    }
                };
                let row_check = row_checks.get(at).copied().unwrap_or(0);
                entries.push((block, Entry { spot, crc, row_check, op: self.cut.op }));
            }
        }
        entries
    }
}

impl State {
    fn admit_fill(
        &mut self,
        (component, snapshot): (ComponentId, SnapshotId),
        first_block: u64,
        (runs, data): (Vec<Run>, Bytes),
        done: Done,
    ) -> Result<(), (StoreError, Done)> {
        let admit = |state: &mut Self| {
            state.life.not_stopped()?;
            state.life.not_closing()?;
            let (pieces, data) = state.converter().convert_runs(component, first_block, runs, data)?;
            let known = state.components.not_lost(component)?;
            cut_of(known, snapshot)?;
            let (device, kept) = (known.device, pieces.iter().filter(|piece| piece.allocates()));
            let history = kept.map(|piece| u64::from(piece.range().count)).sum();
            let room = state.tier.room(device);
            if history > 0 && (history > room || state.tier.metadata_is_full) {
                return Err(no_space(history, if state.tier.metadata_is_full { 0 } else { room }));
            }
            let blocks = pieces.iter().map(LogPiece::data_blocks).sum();
            state.tier.of_mut(device).queued_data += blocks;
            state.components.change(&mut state.tier, component, |c, _| c.queued_history += history);
            Ok((pieces, data, More { component, blocks: 0, history, data: (device, blocks) }))
        };
        match admit(self) {
            Ok((pieces, data, charged)) => {
                self.admission.fills.push_back(Fill { component, snapshot, pieces, data, charged, done });
                Ok(())
            }
            Err(error) => Err((error, done)),
        }
    }

    /// Some that came one after the other, of one component, and say nothing twice.
    fn take_fills(&mut self) -> Vec<Fill> {
        let mut taken: Vec<Fill> = Vec::new();
        let mut blocks = 0;
        let fits = |fill: &Fill, taken: &[Fill], blocks: u64| {
            let same = taken.iter().filter(|other| other.snapshot == fill.snapshot);
            let is_alone = taken.is_empty();
            is_alone
                || taken[0].component == fill.component
                    && blocks + fill.blocks() <= TOGETHER_BLOCKS_MAX
                    && same.clone().all(|other| !other.range().overlaps(fill.range()))
        };
        while let Some(fill) = self.admission.fills.pop_front_if(|fill| fits(fill, &taken, blocks)) {
            blocks += fill.blocks();
            taken.push(fill);
        }
        taken
    }

    fn fill_is_over(&mut self, fill: Fill, answer: Result<(), StoreError>) {
        uncharge(&mut self.components, &mut self.tier, Some(fill.charged));
        fill.answer(answer);
    }
}

impl<E: Env> Inner<E> {
    pub(crate) fn fill_history(
        &self,
        of: (ComponentId, SnapshotId),
        first_block: u64,
        runs: Vec<Run>,
        data: Bytes,
    ) -> impl Future<Output = Result<(), StoreError>> + 'static + use<E> {
        let (sender, receiver) = oneshot::channel();
        let admitted = self.state.borrow_mut().admit_fill(of, first_block, (runs, data), sender);
        if let Err((error, done)) = admitted {
            let _ = done.send(Err(error));
        }
        self.destager.raise();
        async move {
            let closed = || StoreError::new(StoreErrorKind::Media, "the disk group was closed");
            receiver.await.unwrap_or_else(|_| Err(closed()))
        }
    }

    /// Answers all that wait.
    pub(crate) fn refuse_fills(&self, error: &StoreError) {
        let mut state = self.state.borrow_mut();
        let fills: Vec<Fill> = state.admission.fills.drain(..).collect();
        fills.into_iter().for_each(|fill| state.fill_is_over(fill, Err(error.clone())));
    }

    /// Takes some of what waits over, in one transaction.
    pub(crate) async fn fill_some(&self) -> Result<(), StoreError> {
        if self.state.borrow().life.stopped().is_some() {
            return Ok(());
        }
        let taken = self.state.borrow_mut().take_fills();
        if taken.is_empty() {
            return Ok(());
        }
        if !self.state.borrow().admission.fills.is_empty() {
            // For the next turn of the task, which would rest before it otherwise.
            self.destager.raise();
        }
        let done = self.take_over(&taken).await;
        let answer = done.as_ref().map_or_else(|error| Err(error.clone()), Clone::clone);
        let mut state = self.state.borrow_mut();
        taken.into_iter().for_each(|fill| state.fill_is_over(fill, answer.clone()));
        done.map(drop)
    }

    /// What is known of its blocks; or why it cannot be taken over.
    async fn look_at_fill<'a>(&self, fill: &'a Fill) -> Result<Ready<'a>, StoreError> {
        let range = fill.range();
        let mut history = BTreeMap::new();
        for shard in range.first / SHARD_BLOCKS..=(range.end() - 1) / SHARD_BLOCKS {
            let (first, key) = (shard * SHARD_BLOCKS, (fill.component, shard as u16));
            let own = BlockRange::new(first, SHARD_BLOCKS as u32).intersection(range).expect("it has blocks of it");
            let of_shard = self.history_of(key, own.first - first..own.end() - first).await;
            if of_shard.has_lost() {
                let text = format!("history of component {} is damaged at blocks {own:?}", fill.component);
                return Err(StoreError::new(StoreErrorKind::Damaged, text));
            }
            history.insert(key, of_shard);
        }
        let state = self.state.borrow();
        let cut = cut_of(state.components.not_lost(fill.component)?, fill.snapshot)?;
        Ok(Ready { fill, cut, history })
    }

    /// Writes what has data, then all of it in one transaction. The outer error stops the group; the inner one is answered.
    async fn take_over(&self, fills: &[Fill]) -> Result<Result<(), StoreError>, StoreError> {
        let id = fills[0].component;
        let Some(device) = self.state.borrow().components.get(id).map(|component| component.device) else {
            return Ok(Err(gone(id)));
        };
        let blocks: Vec<_> = fills.iter().flat_map(|fill| out_blocks(id, &fill.pieces, &fill.data, false)).collect();
        if !self.clean_for(device, blocks.len() as u64).await? {
            return Ok(Err(no_space(blocks.len() as u64, 0)));
        }
        if fills.iter().flat_map(|fill| &fill.pieces).any(|piece| matches!(piece, LogPiece::Bad { .. })) {
            self.take_needs(Needs::BAD_MARKS).await?;
        }
        let ticket = self.state.borrow_mut().tier.take_ticket();
        let written = self.write_blocks(device, &blocks, CapacityWriter::Clean(ticket)).await;
        let spots = written.filter(|spots| spots.len() == blocks.len());
        let exchanged = self.fold_due(fills.iter().map(Fill::blocks).sum()).await?;
        let mut transaction = Transaction::default();
        transaction.exchange(exchanged, &self.state.borrow().components);
        transaction.ends(ticket);
        let answer = match spots {
            Some(spots) => self.plan_fills(fills, spots, &mut transaction).await,
            // None were written where the device failed: its components are lost.
            None => self.state.borrow().components.not_lost(id).and(Err(no_space(blocks.len() as u64, 0))),
        };
        // Where it comes to nothing, what was folded is taken over all the same.
        self.commit(transaction).await?;
        Ok(answer)
    }

    /// All of them, or none. Nothing moves history between this and the transaction's end.
    async fn plan_fills(
        &self,
        fills: &[Fill],
        spots: Vec<Spot>,
        transaction: &mut Transaction,
    ) -> Result<(), StoreError> {
        let mut ready = Vec::with_capacity(fills.len());
        for fill in fills {
            ready.push(self.look_at_fill(fill).await?);
        }
        let state = self.state.borrow();
        let component = state.components.not_lost(fills[0].component)?;
        let mut spots = spots.into_iter();
        for ready in ready {
            for (block, entry) in ready.entries(&mut spots) {
                let at = (block, ready.cut.generation);
                transaction.fill_history(component, at, entry, ready.known(block));
            }
        }
        Ok(())
    }
}

fn gone(id: ComponentId) -> StoreError {
    StoreError::new(StoreErrorKind::NotFound, format!("component {id} is not here any more"))
}
