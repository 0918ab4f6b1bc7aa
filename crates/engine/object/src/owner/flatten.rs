//! Flattening a clone: what it has of its parents is copied to its own components, until it needs them no more.
//!
//! Promises    F1  guests read and write all the while; a block that they have written is left alone
//!             F2  the record has parents until each block that is not zero is on all copies that take writes
//!             F3  whoever owns the disk next goes on: what is there already is not copied again
//! Assumes     the disk has no snapshots: what they hold of the parents stays theirs (`cairn-owner`)
//! Not here    reading parents (`parents`)

use std::{ops::Range, rc::Rc, time::Duration};

use bytes::Bytes;
use cairn_env::Env;
use cairn_geometry::Area;
use cairn_pace::PIECE_BYTES;
use cairn_types::{BLOCK_BYTES, BlockOp, BlockRange, Canary, ClientTag, Member, Time};
use cairn_wire::{Answer, Request, ResyncStatus, block_crc};
use futures::stream::{self, StreamExt as _};

use super::guest::BLOCK;
use crate::{
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{OpError, Owned, command::Queued, manage::left_of, snapshots::NOT_ACCEPTED, write::Body},
    view::merged,
};

/// Blocks of which parents are asked together what they have: 256 MiB.
const ASKED_BLOCKS: u64 = 1 << 16;
/// Parts that are copied at once.
const AT_ONCE: usize = 8;
/// How soon it goes on where something failed.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flattening {
    blocks_done: u64,
    started: Time,
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// What the disk has of its parents is copied from now on.
    pub(super) async fn flatten(self: &Rc<Self>) -> Result<(), String> {
        let next = self.state.borrow().config_flattening()?;
        if let Some(next) = next {
            if !self.change(next).await {
                return Err(NOT_ACCEPTED.into());
            }
            self.go_on_flattening();
        }
        Ok(())
    }

    /// Begins to copy, or goes on with what an owner before has begun.
    pub(super) fn go_on_flattening(self: &Rc<Self>) {
        let owned = self.clone();
        let started = self.context.env.now();
        self.flattening.set(Some(Flattening { blocks_done: 0, started }));
        self.context.env.spawn(async move {
            let mut told = String::new();
            while owned.state.borrow().ended().is_none() {
                match owned.copy_inherited().await {
                    Ok(()) => {
                        owned.commands.borrow_mut().push(Queued::Flattened);
                        return owned.work.notify();
                    }
                    Err(why) => {
                        let why = why.words();
                        if why != told && owned.state.borrow().ended().is_none() {
                            told.clone_from(&why);
                            let (object, name) = (owned.id, owned.name());
                            owned.context.tell(ObjectEvent::Waits { object, name, doing: "is being flattened", why });
                        }
                    }
                }
                owned.context.env.sleep(AGAIN_AFTER).await;
            }
        });
    }

    /// The keeper's half: all is copied.
    pub(super) async fn flattened(self: &Rc<Self>) {
        if self.flattening.get().is_none() {
            return;
        }
        let next = self.state.borrow().config_without_parents();
        match self.change(next).await {
            true => self.flattening.set(None),
            false => self.commands.borrow_mut().push(Queued::Flattened),
        }
    }

    async fn copy_inherited(self: &Rc<Self>) -> Result<(), OpError> {
        let all = self.config().size_blocks();
        let mut first = 0;
        while first < all {
            let range = BlockRange::new(first, (all - first).min(ASKED_BLOCKS) as u32);
            let theirs = self.context.inherited_allocated(self.config().parents(), range).await?;
            let piece_blocks = PIECE_BYTES / BLOCK;
            let pieces = theirs.into_iter().flat_map(|run| {
                let starts = (run.first..run.end()).step_by(piece_blocks as usize);
                starts.map(move |first| BlockRange::new(first, (run.end() - first).min(piece_blocks) as u32))
            });
            let mut under_way =
                stream::iter(pieces).map(|piece| self.copy_piece_of_parents(piece)).buffer_unordered(AT_ONCE);
            let mut result = Ok(());
            while let Some(done) = under_way.next().await {
                result = result.and(done);
            }
            drop(under_way);
            result?;
            first = range.end();
            self.flattening.set(self.flattening.get().map(|now| Flattening { blocks_done: first, ..now }));
        }
        Ok(())
    }

    async fn copy_piece_of_parents(self: &Rc<Self>, piece: BlockRange) -> Result<(), OpError> {
        let me = self.context.env.host();
        let _place = self.context.admit_copy(piece.bytes(), &[me]).await;
        if Canary::FlattenSkips.sings() && piece.first.is_multiple_of(2) {
            return Ok(());
        }
        self.not_draining().await?;
        let lock = Rc::new(self.locks.lock(piece, true).await);
        let config = self.config();
        for missing in self.missing_somewhere(piece).await? {
            let bytes = Bytes::from(self.context.inherited(config.parents(), missing).await?.concat());
            for run in with_data(&bytes) {
                let first = missing.first + run.start as u64;
                let blocks = BlockRange::new(first, run.len() as u32);
                let data = bytes.slice(run.start * BLOCK as usize..run.end * BLOCK as usize);
                let area = self.area_at(first);
                for part in area.split(blocks) {
                    let from = ((part.object_first - first) * BLOCK) as usize;
                    let data = super::guest::aligned(data.slice(from..from + part.range.bytes() as usize));
                    let crcs = data.chunks_exact(BLOCK as usize).map(block_crc).collect();
                    let write = BlockOp::Write { first_block: part.range.first, crcs };
                    let body = Body { blocks: write, data }.copied();
                    self.start(part.set, ClientTag::default(), body, lock.clone()).await?;
                }
            }
        }
        Ok(())
    }

    /// Blocks that some copy in sync has not allocated: an owner that died may have brought them to others alone.
    async fn missing_somewhere(&self, blocks: BlockRange) -> Result<Vec<BlockRange>, OpError> {
        let mut missing = Vec::new();
        for piece in self.area_at(blocks.first).split(blocks) {
            let legs = self.state.borrow().readable(piece.set);
            for leg in legs {
                let request = Request::Allocated { to: leg.link.target, range: piece.range };
                let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
                let Ok((Answer::Allocated(pieces), _)) = reply else {
                    return Err(OpError::NotInherited(format!("a copy of replica set {} does not answer", piece.set)));
                };
                let holes = pieces.into_iter().filter(|own| !own.allocated);
                missing.extend(holes.map(|own| {
                    BlockRange::new(own.range.first - piece.range.first + piece.object_first, own.range.count)
                }));
            }
        }
        Ok(merged(missing))
    }

    /// The members of a clone that is being flattened, each with its part of what is looked through.
    pub(super) fn flatten_status(&self) -> Vec<ResyncStatus> {
        let Some(now) = self.flattening.get() else { return Vec::new() };
        let config = self.config();
        let of = |member: &Member| {
            let set = member.set().filter(|_| member.state.takes_writes())?;
            let bytes_total = Area::of_set(&config, set)?.component_bytes(set);
            let left = left_of(bytes_total, now.blocks_done, config.size_blocks());
            Some(self.part_status(member, [bytes_total, left], now.started, false))
        };
        config.members.iter().filter_map(of).collect()
    }
}

/// Runs of blocks that are not all zeroes: those need no copy, as a hole is what they are without parents.
fn with_data(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, block) in bytes.chunks(BLOCK_BYTES as usize).enumerate() {
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_are_left_out() {
        let bytes: Vec<u8> = [0, 1, 2, 0, 0, 3].iter().flat_map(|tag| vec![*tag; BLOCK as usize]).collect();
        assert_eq!(with_data(&bytes), [1..3, 5..6]);
        assert!(with_data(&[0; 8192]).is_empty());
    }
}
