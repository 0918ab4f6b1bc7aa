//! What destage does while it has nothing else to do. What an earlier release left in rows goes over to pages, a shard a second. History that no
//! snapshot needs is swept. Segments are written anew (`rewrite.rs`).
//!
//! Promises    once a group was at rest for long enough, it has no row of that kind any more, and none is looked for
//! Assumes     the destage task calls it between two transactions
//! Not here    shards that are written meanwhile: they are folded in their turn (`shards.rs`)

use std::{pin::pin, time::Duration};

use cairn_env::Env;
use cairn_format::{map_rows::SHARD_REGIONS, rows};
use cairn_types::ComponentId;
use futures::future::{Either, select};

use crate::{
    disk_group::Inner,
    error::{StoreError, damaged},
    shards::{ShardKey, shard_of},
    transaction::Transaction,
};

/// Wait between two shards: each is up to 1 MB to write.
const PAUSE: Duration = Duration::from_secs(1);
/// Wait between two parts of a sweep of history: each is some 60,000 entries, 1 MB to read and to write.
const SWEEP_PAUSE: Duration = Duration::from_millis(100);
/// Rows that a shard goes by, in the order in which they are looked for.
const KINDS: [u8; 3] = [rows::LEAF, rows::REGION, rows::DELTA];

impl<E: Env> Inner<E> {
    /// Waits until destage has something to do. False where something was done instead.
    pub(crate) async fn rest(&self) -> Result<bool, StoreError> {
        let sweeps = !self.state.borrow().life.ends() && self.has_unswept();
        let folds = self.has_work_of_rows();
        // What waits for room leaves rows their turn.
        let rewriting_rests = self.rewriting_rests().filter(|rests| !folds || *rests < PAUSE);
        if !folds && !sweeps && rewriting_rests.is_none() {
            self.destager.wait().await;
            return Ok(true);
        }
        let pause = if sweeps { SWEEP_PAUSE } else { rewriting_rests.unwrap_or(PAUSE) };
        match select(pin!(self.destager.wait()), pin!(self.env.sleep(pause))).await {
            Either::Left(_) => Ok(true),
            Either::Right(_) if sweeps => self.sweep_some().await.map(|_| false),
            Either::Right(_) if rewriting_rests.is_some() => self.rewrite_some(false).await.map(|()| false),
            Either::Right(_) if !self.has_work_of_rows() => Ok(false),
            Either::Right(_) => self.fold_old().await.map(|()| false),
        }
    }

    /// A group that stopped makes no transactions.
    fn has_work_of_rows(&self) -> bool {
        let state = self.state.borrow();
        state.life.stopped().is_none() && state.map.pages().is_some_and(|pages| pages.has_rows && !pages.rows_stay)
    }

    async fn fold_old(&self) -> Result<(), StoreError> {
        let mut transaction = Transaction::default();
        let (found, passed_by) = self.old_shard().await?;
        if let Some((row, key)) = found {
            self.state.borrow_mut().map.pages_mut().expect("it has rows").shards.enter(key);
            let folds = vec![self.prepare_fold(key).await?];
            let exchanged = self.write_folds(folds).await?;
            if exchanged.is_empty() {
                // There is no room in the metadata for its pages.
                return Ok(());
            }
            transaction.exchange(exchanged, &self.state.borrow().components);
            // Whatever its shard is by now, it is not met again.
            transaction.remove_key(row);
        } else if self.state.borrow().map.pages().is_some_and(|pages| pages.hand.told() > 0) {
            let state = &mut *self.state.borrow_mut();
            let pages = state.map.pages_mut().expect("just seen");
            // Rows of what is deleted or lost stay until the next opening.
            (pages.has_rows, pages.rows_stay) = (passed_by, passed_by);
            return Ok(());
        }
        // Rows of segments go with any transaction.
        self.commit(transaction).await
    }

    /// The next shard with rows, of a component that is here and whose device is, and its first row; and whether rows of others were
    /// passed by.
    async fn old_shard(&self) -> Result<(Option<(Vec<u8>, ShardKey)>, bool), StoreError> {
        let (mut from, mut passed_by) = (vec![KINDS[0]], false);
        loop {
            let meta = self.meta.clone();
            let (begin, end) = (from.clone(), vec![from[0] + 1]);
            let found = self.env.run_blocking(move || meta.scan(&begin, &end, 1)).await.map_err(damaged)?;
            let Some((key, _)) = found.into_iter().next() else {
                match KINDS.iter().find(|kind| **kind > from[0]) {
                    Some(next) => from = vec![*next],
                    None => return Ok((None, passed_by)),
                }
                continue;
            };
            let shard = shard_of_row(&key).map_err(damaged)?;
            let state = self.state.borrow();
            let lives = state.components.get(shard.0).is_some_and(|component| !component.lost);
            if lives {
                return Ok((Some((key, shard)), passed_by));
            }
            // It is emptied in its own way, or waits for its device.
            passed_by = true;
            from = match key[0] {
                rows::DELTA => [key.as_slice(), &[0]].concat(),
                kind => after(kind, shard.0),
            };
        }
    }
}

/// Behind all rows of a component.
fn after(kind: u8, component: ComponentId) -> Vec<u8> {
    match component.0.checked_add(1) {
        Some(next) => [&[kind], next.to_be_bytes().as_slice()].concat(),
        None => vec![kind + 1],
    }
}

fn shard_of_row(key: &[u8]) -> Result<ShardKey, rows::RowError> {
    if key[0] == rows::DELTA {
        let (_, component, leaf) = rows::delta_of(key)?;
        return Ok(shard_of((component, leaf)));
    }
    let component = rows::component_of(key)?;
    match key[0] {
        rows::LEAF => Ok(shard_of((component, rows::number_of(key)?))),
        _ => Ok((component, (rows::short_number_of(key)? / SHARD_REGIONS) as u16)),
    }
}
