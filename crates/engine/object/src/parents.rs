//! What clones have of their parents: read by whoever reads the clone, and kept in memory for all clones of this host.
//!
//! Promises    V3  a block that a disk has not allocated itself is that of the nearest parent that has allocated it; zeroes where none has
//!             V4  of what several clones read at once each block comes once to this host
//! Assumes     a snapshot never changes, and an id is never another snapshot's
//! Not here    what a disk itself has (`view`, `owner::read`), what is in memory (`parents_known`), which snapshots have clones (`node`)

use std::rc::Rc;

use bytes::Bytes;
use cairn_env::Env;
use cairn_types::{BLOCK_BYTES, BlockRange, Contents, Crcs, ObjectConfig, Parent, Run};
use cairn_wire::AllocatedPiece;

use crate::{
    bytes::cut,
    context::Context,
    local_store::LocalStore,
    view::{NotRead, View, merged},
};

const BLOCK: usize = BLOCK_BYTES as usize;
/// Blocks of a read that is cached, at most: 256 KiB. Longer ones are those of backups and copies, each block once.
const CACHED_READ_BLOCKS_MAX: u32 = 64;
/// Blocks of which it is known together whether parents have any: 4 MiB.
pub(crate) const UNIT_BLOCKS: u64 = 1024;

/// Those of some blocks that a disk of so many has; none where it has none of them.
fn within(blocks: BlockRange, size_blocks: u64) -> Option<BlockRange> {
    let end = blocks.end().min(size_blocks);
    (blocks.first < end).then(|| BlockRange::new(blocks.first, (end - blocks.first) as u32))
}

/// Each block of some contents; none where there is a hole.
fn each_block(contents: Contents) -> Vec<Option<Bytes>> {
    let Contents { runs, data } = contents;
    let data = match <[Bytes; 1]>::try_from(data) {
        Ok([one]) => one,
        Err(parts) => Bytes::from(parts.concat()),
    };
    let mut at = 0;
    let mut blocks = Vec::new();
    for run in runs {
        for _ in 0..run.blocks() {
            let is_hole = matches!(run, Run::Hole { .. });
            blocks.push((!is_hole).then(|| data.slice(at..at + BLOCK)));
            at += if is_hole { 0 } else { BLOCK };
        }
    }
    blocks
}

impl<E: Env, S: LocalStore> Context<E, S> {
    /// The view of a parent, by its record as it was seen last; `anew`: as it is now.
    async fn view_of(self: &Rc<Self>, parent: &Parent, anew: bool) -> Result<View<E, S>, NotRead> {
        let known = self.parents.record(parent.object).filter(|_| !anew);
        let names =
            |config: &ObjectConfig| config.past.as_ref().is_some_and(|past| past.snapshot(parent.snapshot).is_some());
        let config = match known.filter(|config| names(config)) {
            Some(known) => known,
            None => {
                let gone =
                    || NotRead::NoCopy("no host that answers has the record of a disk that it is a clone of".into());
                let config = Rc::new(self.look_up(parent.object, &[]).await.ok_or_else(gone)?.0.config);
                if config.deleted || !names(&config) {
                    return Err(NotRead::Bad(format!(
                        "disk {} has not the snapshot any more that it is a clone of",
                        config.name
                    )));
                }
                self.parents.keep_record(parent.object, config.clone());
                config
            }
        };
        Ok(View { context: self.clone(), config, snapshot: parent.snapshot })
    }

    /// Has a parent's view read, once more with its record as it is now where that fails.
    async fn of_parent<T>(
        self: &Rc<Self>,
        parent: &Parent,
        read: impl AsyncFn(View<E, S>) -> Result<T, NotRead>,
    ) -> Result<T, NotRead> {
        match read(self.view_of(parent, false).await?).await {
            Err(_) => {
                let view = self.view_of(parent, true).await?;
                let all_asked = view.config.members.iter().all(|member| member.state.in_sync());
                read(view).await.map_err(|why| match why {
                    NotRead::Bad(why) if all_asked => NotRead::Lost(why),
                    why => why,
                })
            }
            done => done,
        }
    }

    /// V3: blocks that a clone has not allocated itself.
    pub(crate) async fn inherited(
        self: &Rc<Self>,
        parents: &[Parent],
        blocks: BlockRange,
    ) -> Result<Vec<Bytes>, NotRead> {
        let mut contents = Contents::default();
        let mut at = blocks.first;
        // Beyond the nearest parent no other one has anything.
        if let Some(nearest) = parents.first()
            && let Some(inside) = within(blocks, nearest.size_blocks())
        {
            let keeps = inside.count <= CACHED_READ_BLOCKS_MAX;
            while at < inside.end() {
                let known = self.parents.cached(nearest.snapshot, at);
                if let Some(block) = known {
                    push(&mut contents, block);
                    at += 1;
                    continue;
                }
                let missing = |block: &u64| self.parents.cached(nearest.snapshot, *block).is_none();
                let end = (at..inside.end()).take_while(missing).last().map_or(at + 1, |last| last + 1);
                let run = BlockRange::new(at, (end - at) as u32);
                let reads = self.parents.reads(nearest.snapshot);
                let _reads = reads.lock(run, keeps).await;
                // Somebody may have read it meanwhile.
                if self.parents.cached(nearest.snapshot, at).is_some() {
                    continue;
                }
                for (block, bytes) in (run.first..).zip(self.read_through(parents, run).await?) {
                    if keeps {
                        // A copy of its own: a part of a larger read would keep all of that in memory.
                        let bytes = bytes.as_ref().map(|bytes| Bytes::copy_from_slice(bytes));
                        self.parents.keep(nearest.snapshot, block, bytes);
                    }
                    push(&mut contents, bytes);
                }
                at = run.end();
            }
        }
        if at < blocks.end() {
            contents.push_hole((blocks.end() - at) as u32);
        }
        Ok(contents.into_bytes())
    }

    /// Blocks of a clone's parents; none where all have a hole.
    async fn read_through(self: &Rc<Self>, parents: &[Parent], run: BlockRange) -> Result<Vec<Option<Bytes>>, NotRead> {
        let mut found: Vec<Option<Bytes>> = vec![None; run.count as usize];
        let mut left = vec![run];
        for parent in parents {
            let mut holes = Vec::new();
            for part in left.into_iter().filter_map(|part| within(part, parent.size_blocks())) {
                let read = self.of_parent(parent, async |view: View<E, S>| view.contents(part).await).await?;
                for (block, bytes) in (part.first..).zip(read.into_iter().flat_map(each_block)) {
                    match bytes {
                        Some(bytes) => found[(block - run.first) as usize] = Some(bytes),
                        None => holes.push(BlockRange::new(block, 1)),
                    }
                }
            }
            left = merged(holes);
        }
        Ok(found)
    }

    /// Which of these blocks a clone's parents have.
    pub(crate) async fn inherited_allocated(
        self: &Rc<Self>,
        parents: &[Parent],
        blocks: BlockRange,
    ) -> Result<Vec<BlockRange>, NotRead> {
        let (mut allocated, mut left) = (Vec::new(), vec![blocks]);
        for parent in parents {
            let mut holes = Vec::new();
            for part in left.into_iter().filter_map(|part| within(part, parent.size_blocks())) {
                let pieces = self.of_parent(parent, async |view: View<E, S>| view.own_allocated(part).await).await?;
                for piece in pieces {
                    if piece.allocated { &mut allocated } else { &mut holes }.push(piece.range);
                }
            }
            left = holes;
        }
        Ok(merged(allocated))
    }

    /// Whether a clone's parents have any of these blocks, or that cannot be known now. All are of one unit.
    pub(crate) async fn may_inherit(self: &Rc<Self>, parents: &[Parent], blocks: BlockRange) -> bool {
        let Some(nearest) = parents.first() else { return false };
        let unit = blocks.first / UNIT_BLOCKS;
        let known = self.parents.unit(nearest.snapshot, unit);
        if let Some(known) = known {
            return known;
        }
        let all = BlockRange::new(unit * UNIT_BLOCKS, UNIT_BLOCKS as u32);
        let Ok(allocated) = self.inherited_allocated(parents, all).await else { return true };
        let any = !allocated.is_empty();
        self.parents.keep_unit(nearest.snapshot, unit, any);
        any
    }

    /// What a disk with these parents has of blocks of which it has so much itself.
    pub(crate) async fn with_inherited(
        self: &Rc<Self>,
        parents: &[Parent],
        blocks: BlockRange,
        own: Contents,
    ) -> Result<Vec<Bytes>, NotRead> {
        if parents.is_empty() || !own.runs.iter().any(|run| matches!(run, Run::Hole { .. })) {
            return Ok(own.into_bytes());
        }
        let (mut parts, mut at) = (Vec::new(), blocks.first);
        let mut taken = 0;
        for run in own.runs {
            let range = BlockRange::new(at, run.blocks());
            at = range.end();
            if matches!(run, Run::Hole { .. }) {
                parts.extend(self.inherited(parents, range).await?);
                continue;
            }
            let len = range.bytes() as usize;
            parts.extend(cut(own.data.clone(), taken, len));
            taken += len;
        }
        Ok(parts)
    }
}

fn push(contents: &mut Contents, block: Option<Bytes>) {
    match block {
        // Nobody looks at checksums of what is only turned into bytes.
        Some(bytes) => contents.push_data(bytes, Crcs::from_slice(&[0])),
        None => contents.push_hole(1),
    }
}

impl<E: Env, S: LocalStore> View<E, S> {
    /// Reads blocks of the disk.
    pub(crate) async fn read(&self, blocks: BlockRange) -> Result<Vec<Bytes>, NotRead> {
        let (mut parts, mut at) = (Vec::new(), blocks.first);
        for own in self.contents(blocks).await? {
            let range = BlockRange::new(at, own.runs.iter().map(Run::blocks).sum());
            at = range.end();
            parts.extend(self.context.with_inherited(self.config.parents(), range, own).await?);
        }
        Ok(parts)
    }

    /// Which of these blocks were allocated, by the disk or its parents.
    pub(crate) async fn allocated(&self, blocks: BlockRange) -> Result<Vec<AllocatedPiece>, NotRead> {
        let own = self.own_allocated(blocks).await?;
        self.context.allocated_with(self.config.parents(), own).await
    }
}

impl<E: Env, S: LocalStore> Context<E, S> {
    /// What is allocated of a disk with these parents which has so much itself.
    pub(crate) async fn allocated_with(
        self: &Rc<Self>,
        parents: &[Parent],
        own: Vec<AllocatedPiece>,
    ) -> Result<Vec<AllocatedPiece>, NotRead> {
        if parents.is_empty() {
            return Ok(own);
        }
        let mut pieces = Vec::new();
        for piece in own {
            if piece.allocated {
                pieces.push(piece);
                continue;
            }
            let mut at = piece.range.first;
            let mut push = |to: u64, allocated| {
                if to > at {
                    pieces.push(AllocatedPiece { range: BlockRange::new(at, (to - at) as u32), allocated });
                    at = to;
                }
            };
            for run in self.inherited_allocated(parents, piece.range).await? {
                push(run.first, false);
                push(run.end(), true);
            }
            push(piece.range.end(), false);
        }
        Ok(pieces)
    }
}
