//! Going back to a snapshot: what changed since is written back, as any change is.
//!
//! Promises    B1  guests' requests wait from before the record says that the disk goes back until it says that it has
//!             B2  then each block has what the snapshot has; later snapshots have what they had
//!             B3  whoever owns the disk next goes on: what is the same already is not written again
//!             B4  a request that is repeated, as its answer was lost, does nothing more, whoever owns the disk by then
//! Assumes     nobody uses the disk: what a guest keeps in memory is of the former state (`node` asks)
//! Not here    the record (`snapshots`); reading a snapshot (`view`)
//!
//! There is no way to stop on the way: the disk would be of two moments. It may be sent to another snapshot instead.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use bytes::Bytes;
use cairn_env::Env;
use cairn_geometry::Area;
use cairn_pace::PIECE_BYTES;
use cairn_types::{BLOCK_BYTES, BlockRange, Canary, ReplicaSetIndex, SnapshotId, Time};
use cairn_wire::{Answer, Request};
use futures::stream::{self, StreamExt as _};

use super::guest::BLOCK;
use crate::{
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{OpError, Origin, Owned, command::Queued},
    view::{NotRead, View, changed_in_object, merged},
};

/// Blocks of a component that are asked for changes at once: as many as a shard of its map has.
const ASKED_BLOCKS: u64 = 1 << 16;
/// Parts that are written back at once.
const AT_ONCE: usize = 8;
/// How soon it goes on where something failed.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct GoingBack {
    pub(super) to: SnapshotId,
    /// Blocks of components that were asked for changes.
    pub(super) blocks_done: u64,
    pub(super) started: Time,
}

/// It could not be read or written now, or another one is asked for.
struct NotNow(String);

impl From<OpError> for NotNow {
    fn from(error: OpError) -> Self {
        Self(error.words())
    }
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// The snapshot that the disk is on its way to.
    pub(super) fn goes_back_to(&self) -> Option<SnapshotId> {
        self.state.borrow().config().past.as_ref()?.goes_back_to
    }

    /// B1: waits until the disk is of one moment.
    pub(super) async fn is_itself(&self) {
        if self.going_back.get().is_none() {
            return;
        }
        let is_over = || self.going_back.get().is_none() || self.state.borrow().ended().is_some();
        self.progressed.until(|| is_over().then_some(())).await;
    }

    /// The disk goes back to a snapshot, unless it did by the request of this number.
    pub(super) async fn roll_back(self: &Rc<Self>, to: SnapshotId, number: u64) -> Result<(), String> {
        let config = self.config();
        // B4
        if config.past.as_ref().is_some_and(|past| past.back_number == number) && !Canary::BackTwice.sings() {
            return Ok(());
        }
        if config.past.as_ref().is_none_or(|past| past.snapshot(to).is_none()) {
            return Err("the disk has no such snapshot any more".into());
        }
        let before = self.going_back.get();
        let anew = GoingBack { to, blocks_done: 0, started: self.context.env.now() };
        self.going_back.set(Some(before.filter(|before| before.to == to).unwrap_or(anew)));
        // What had begun comes to its end before.
        let held = if before.is_none() { self.hold_still().await } else { Some(Vec::new()) };
        let next = self.state.borrow().config_going_back(to, number);
        if held.is_none() || !self.change(next).await {
            self.going_back.set(before);
            self.progressed.notify();
            return Err(super::snapshots::NOT_ACCEPTED.into());
        }
        if before.is_none() {
            self.go_back();
        }
        Ok(())
    }

    /// Begins to write back, or goes on with what an owner before has begun.
    pub(super) fn go_back(self: &Rc<Self>) {
        let owned = self.clone();
        self.context.env.spawn(async move {
            let mut told = String::new();
            while let Some(going) = owned.going_back.get() {
                if owned.state.borrow().ended().is_some() {
                    return;
                }
                let done = owned.write_back(going.to).await;
                if let Err(NotNow(why)) = &done
                    && *why != told
                    && owned.state.borrow().ended().is_none()
                {
                    told.clone_from(why);
                    let (object, name) = (owned.id, owned.name());
                    let doing = "goes back to a snapshot, and its guests wait with it";
                    owned.context.tell(ObjectEvent::Waits { object, name, doing, why: why.clone() });
                }
                if done.is_ok() {
                    owned.commands.borrow_mut().push(Queued::WentBack(going.to));
                    owned.work.notify();
                    let there = || owned.going_back.get().is_none_or(|now| now.to != going.to);
                    let ended = || owned.state.borrow().ended().is_some();
                    owned.progressed.until(|| (there() || ended()).then_some(())).await;
                    continue;
                }
                owned.context.env.sleep(AGAIN_AFTER).await;
            }
        });
    }

    /// The keeper's half: all is written back.
    pub(super) async fn went_back(self: &Rc<Self>, to: SnapshotId) {
        if self.goes_back_to() != Some(to) || self.going_back.get().is_none_or(|going| going.to != to) {
            return;
        }
        let next = self.state.borrow().config_went_back();
        if self.change(next).await {
            self.going_back.set(None);
        } else {
            self.commands.borrow_mut().push(Queued::WentBack(to));
        }
        self.progressed.notify();
    }

    async fn write_back(self: &Rc<Self>, to: SnapshotId) -> Result<(), NotNow> {
        self.going_back.set(self.going_back.get().map(|going| GoingBack { blocks_done: 0, ..going }));
        let config = self.config();
        for area in Area::all(&config.addresses, config.size_bytes) {
            for set in area.sets() {
                let blocks = area.component_blocks(set);
                let mut first = 0;
                while first < blocks {
                    let range = BlockRange::new(first, (blocks - first).min(ASKED_BLOCKS) as u32);
                    self.write_back_some((area, set), range, to).await?;
                    first = range.end();
                    let done = |going: GoingBack| GoingBack {
                        blocks_done: going.blocks_done + u64::from(range.count),
                        ..going
                    };
                    self.going_back.set(self.going_back.get().map(done));
                }
            }
        }
        Ok(())
    }

    async fn write_back_some(
        self: &Rc<Self>,
        (area, set): (Area, ReplicaSetIndex),
        range: BlockRange,
        to: SnapshotId,
    ) -> Result<(), NotNow> {
        let changed = self.changed_since((area, set), range, to).await?;
        let piece_blocks = PIECE_BYTES / BLOCK;
        let pieces = changed.into_iter().flat_map(|run| {
            let starts = (run.first..run.end()).step_by(piece_blocks as usize);
            starts.map(move |first| BlockRange::new(first, (run.end() - first).min(piece_blocks) as u32))
        });
        let mut under_way =
            stream::iter(pieces).map(|piece| self.write_back_piece(piece, to)).buffer_unordered(AT_ONCE);
        let mut result = Ok(());
        while let Some(done) = under_way.next().await {
            result = result.and(done);
        }
        result
    }

    /// Blocks of the disk that may have changed since a snapshot, of these blocks of a set's components.
    async fn changed_since(
        self: &Rc<Self>,
        (area, set): (Area, ReplicaSetIndex),
        range: BlockRange,
        since: SnapshotId,
    ) -> Result<Vec<BlockRange>, NotNow> {
        let legs = self.tells_history(set, range);
        let no_copy = || NotNow(format!("no reachable copy of replica set {set}"));
        if legs.is_empty() {
            return Err(no_copy());
        }
        let mut told: BTreeMap<u32, Vec<BlockRange>> = BTreeMap::new();
        for leg in legs {
            let request = Request::History { to: leg.link.target, snapshots: vec![since], range };
            let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
            match reply {
                Ok((Answer::Changed(mut of), _)) if of.len() == 1 => {
                    told.entry(leg.link.copy).or_default().append(&mut of[0]);
                }
                Ok(_) => return Err(no_copy()),
                Err(refusal) => {
                    self.history_failed(leg, &[since], &refusal);
                    return Err(no_copy());
                }
            }
        }
        let changed = match area.rows() {
            Some(_) => changed_in_object(area, set, told),
            None => told.into_values().flatten().flat_map(|run| area.to_object(set, run)).collect(),
        };
        Ok(merged(changed))
    }

    async fn write_back_piece(self: &Rc<Self>, piece: BlockRange, to: SnapshotId) -> Result<(), NotNow> {
        let me = self.context.env.host();
        let _place = self.context.admit_copy(piece.bytes(), &[me]).await;
        if Canary::RollbackSkips.sings() && piece.first.is_multiple_of(2) {
            return Ok(());
        }
        if self.going_back.get().is_none_or(|going| going.to != to) {
            return Err(NotNow("it goes to another snapshot".into()));
        }
        let view = View { context: self.context.clone(), config: self.config(), snapshot: to };
        let why = |not_read| match not_read {
            NotRead::NoCopy(why) | NotRead::Bad(why) | NotRead::Lost(why) => NotNow(why),
        };
        let was = view.read(piece).await.map_err(why)?.concat();
        let len = piece.bytes().min(self.size_bytes() - piece.first * BLOCK);
        // What cannot be read now is written all the same: it is whole again then.
        let now =
            self.read_bytes(piece.first * BLOCK, len as u32).await.map(|parts| parts.concat()).unwrap_or_default();
        let was = Bytes::from(was).slice(..len as usize);
        for run in unlike(&was, &now) {
            let bytes = was.slice(run.clone());
            let (offset, len_bytes) = (piece.first * BLOCK + run.start as u64, run.len() as u64);
            let done = match bytes.iter().all(|byte| *byte == 0) {
                true => self.zero_bytes((offset, len_bytes), false, Origin::default()).await,
                false => self.write_back_bytes(offset, bytes).await,
            };
            done?;
        }
        Ok(())
    }
}

/// Where they differ: runs of blocks that are all zeroes in the first, or none of them. Where the second is shorter they do.
fn unlike(was: &[u8], now: &[u8]) -> Vec<std::ops::Range<usize>> {
    let block = BLOCK_BYTES as usize;
    let mut runs: Vec<(bool, std::ops::Range<usize>)> = Vec::new();
    let mut present = now.chunks(block);
    for (at, was) in was.chunks(block).enumerate() {
        if present.next() == Some(was) {
            continue;
        }
        let (zero, start) = (was.iter().all(|byte| *byte == 0), at * block);
        match runs.last_mut() {
            Some((same, run)) if *same == zero && run.end == start => run.end += was.len(),
            _ => runs.push((zero, start..start + was.len())),
        }
    }
    runs.into_iter().map(|(_, run)| run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_in_runs_of_one_kind() {
        let block = BLOCK_BYTES as usize;
        let of = |tags: &[u8]| tags.iter().flat_map(|tag| vec![*tag; block]).collect::<Vec<_>>();
        let runs = unlike(&of(&[1, 2, 0, 0, 5, 6]), &of(&[9, 9, 9, 0, 9, 6]));
        assert_eq!(runs, [0..2 * block, 2 * block..3 * block, 4 * block..5 * block]);
        assert_eq!(unlike(&of(&[0, 1]), &[]), [0..block, block..2 * block]);
        assert_eq!(unlike(&[1; 512], &[2; 512]), std::iter::once(0..512).collect::<Vec<_>>());
    }
}
