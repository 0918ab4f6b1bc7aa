//! Marks: blocks whose bytes are lost, told as such in the log, in pending rows and in the block map.
//!
//! Promises    M1  a mark is read as an error, with the checksum that the bytes had, until the block is written, trimmed or zeroed
//!             M2  the superblock says that the group has marks before the first record or row of one is written
//!             M3  what has a place keeps it: a medium that fails now may give the bytes later. A place is given up for a mark only where its
//!                 segment is emptied, or the log behind it
//! Assumes     whoever sends a mark has asked every copy in sync (`object`)
//! Not here    what is told of them (`findings.rs`)
//!
//! A mark is an entry as any other, in [`Spot::BAD`]: it takes the space of the block that it stands for, and goes by the same ways.

use std::rc::Rc;

use cairn_env::Env;
use cairn_format::{Needs, Superblock};
use cairn_types::{BlockRange, ComponentId, Contents, SnapshotId};

use crate::{
    component::AtCut,
    create::write_superblock,
    disk_group::{DiskGroup, Inner},
    error::{StoreError, StoreErrorKind},
    history::Then,
    leaf::LEAF_BLOCKS,
};

/// Stands for a checksum that nobody knows: no copy is believed for it, but for one in four billion.
const NO_CRC: u32 = 0;

impl<E: Env> DiskGroup<E> {
    /// Reads the blocks of `range`; marks stand for those that cannot be read. They are listed as blocks that no copy has: whoever asks
    /// has asked all others.
    ///
    /// # Errors
    /// As for [`Self::read`], but for bad blocks.
    pub fn read_marked(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, StoreError>> + 'static + use<E> {
        self.inner().clone().read_marked(component, range, None)
    }

    /// The same of what they held at the cut of a snapshot; nothing of it is listed.
    ///
    /// # Errors
    /// As for [`Self::read_view`], but for bad blocks.
    pub fn read_view_marked(
        &self,
        component: ComponentId,
        snapshot: SnapshotId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, StoreError>> + 'static + use<E> {
        self.inner().clone().read_marked(component, range, Some(snapshot))
    }
}

impl<E: Env> Inner<E> {
    async fn read_marked(
        self: Rc<Self>,
        id: ComponentId,
        range: BlockRange,
        snapshot: Option<SnapshotId>,
    ) -> Result<Contents, StoreError> {
        let is_bad = |error: &StoreError| matches!(error.kind, StoreErrorKind::BadBlock { .. });
        match self.clone().read_at(id, range, snapshot).await {
            Err(error) if is_bad(&error) => {}
            read => return read,
        }
        let mut contents = Contents::default();
        for block in range.first..range.end() {
            let one = BlockRange::new(block, 1);
            match self.clone().read_at(id, one, snapshot).await {
                Ok(Contents { runs, data }) => {
                    contents.runs.extend(runs);
                    contents.data.extend(data);
                }
                Err(error) if is_bad(&error) => {
                    let crc = match snapshot {
                        Some(snapshot) => self.crc_at(id, block, snapshot).await,
                        None => self.crc_of(id, block).await,
                    };
                    contents.push_bad(crc.unwrap_or(NO_CRC));
                    if snapshot.is_none() {
                        self.state.borrow_mut().findings.marked(id, one);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(contents)
    }

    /// The checksum that a block should have. None where nothing that can be read says so.
    async fn crc_of(&self, id: ComponentId, block: u64) -> Option<u32> {
        {
            let state = self.state.borrow();
            let component = state.components.get(id)?;
            if let Some(span) = component.extents.spans(BlockRange::new(block, 1)).first() {
                return Some(state.components.records.of(span.versions[0]).crc(block));
            }
        }
        self.crc_in_map(id, block).await
    }

    async fn crc_in_map(&self, id: ComponentId, block: u64) -> Option<u32> {
        let found = self.look_up_leaves(&[(id, block / LEAF_BLOCKS)], None).await.ok()?;
        found.first()?.1.get(block).map(|entry| entry.crc)
    }

    /// The same at the cut of a snapshot.
    async fn crc_at(&self, id: ComponentId, block: u64, snapshot: SnapshotId) -> Option<u32> {
        let one = BlockRange::new(block, 1);
        let view = self.view_of(id, one, snapshot).await.ok()?;
        {
            let state = self.state.borrow();
            let records = &state.components.records;
            match (state.components.get(id)?.at_cut(one, view.cut.op, records).first()?, view.at(id, block)) {
                (AtCut::Version(record, _), _) | (AtCut::History(_, Some(record)), Then::AsNow) => {
                    return Some(records.of(*record).crc(block));
                }
                (AtCut::History(..), Then::Entry(entry)) => return Some(entry.crc),
                (AtCut::History(..), Then::Hole | Then::Lost) => return None,
                (AtCut::History(_, None), Then::AsNow) => {}
            }
        }
        self.crc_in_map(id, block).await
    }

    /// Whether this group may have marks of its own accord.
    pub(crate) fn may_mark(&self) -> bool {
        self.allowed.get().include(Needs::BAD_MARKS)
    }

    pub(crate) fn has_needs(&self, needs: Needs) -> bool {
        self.superblock.borrow().needs.include(needs)
    }

    /// What is written from now on needs these: both superblocks say so first.
    pub(crate) async fn take_needs(&self, needs: Needs) -> Result<(), StoreError> {
        let _turn = self.superblock_turn.lock().await;
        if self.has_needs(needs) {
            return Ok(());
        }
        let superblock = {
            let known = self.superblock.borrow();
            Superblock { needs: known.needs.with(needs), generation: known.generation + 1, ..known.clone() }
        };
        write_superblock(&self.cache, &superblock).await?;
        let may_have_cuts = superblock.needs.include(Needs::CUTS);
        let (has_packed, has_shared) =
            (superblock.needs.include(Needs::SPOTS), superblock.needs.include(Needs::SHARED));
        *self.superblock.borrow_mut() = superblock;
        let mut state = self.state.borrow_mut();
        (state.tier.has_packed, state.tier.has_shared) = (has_packed, has_shared);
        if let Some(pages) = state.map.pages_mut() {
            pages.may_have_cuts = may_have_cuts;
        }
        Ok(())
    }

    /// The first mark, or the first rows, wait in the queue for the superblock to say so; the writer goes on then.
    pub(crate) fn take_needs_for_queue(self: &Rc<Self>, needs: Needs) {
        let inner = self.clone();
        self.env.spawn(async move {
            if let Err(error) = inner.take_needs(needs).await {
                inner.state.borrow_mut().stop(error);
            }
            inner.writer.raise();
            inner.destager.raise();
        });
    }
}
