//! Filling a member of rows: what it has to hold is made from the other members, under the locks of its rows.
//!
//! Promises    a region is read from as many members as a row has columns, each once, and comes as one copy; a row of zeroes stays a hole
//!             parity comes with what it says of its row
//! Assumes     `resync` knows which blocks are stale, and activates the member
//! Not here    the window and the barrier (`resync`)
//!
//! A member that is being moved is filled from its twin, which needs no arithmetic.

use std::rc::Rc;

use cairn_env::Env;
use cairn_geometry::{RowRole, Rows};
use cairn_types::{BlockRange, ComponentId, Contents, ReplicaSetIndex, SessionId, SnapshotId};

use super::image::Gathered;
use crate::{
    copies::For,
    local_store::LocalStore,
    owner::{
        Owned,
        write::{Lock, OpError},
    },
};

/// A member that is being filled: the component, its admission, and its index in the set.
#[derive(Clone, Copy)]
struct Target {
    component: ComponentId,
    session: SessionId,
    member: u32,
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Brings the target these blocks of its set's components, and returns those that cannot be made. `None`: the target or a source
    /// failed, or the owner ended. `marks`: they come as marks.
    pub(in crate::owner) async fn copy_rows(
        self: &Rc<Self>,
        rows: Rows,
        (component, session): (ComponentId, SessionId),
        (set, range): (ReplicaSetIndex, BlockRange),
        marks: bool,
    ) -> Option<Vec<BlockRange>> {
        let member = self.state.borrow().link_of(component)?.copy;
        let target = Target { component, session, member };
        let mut unreadable: Vec<BlockRange> = Vec::new();
        for (blocks, of_disk) in self.area_of(set)?.rows_in_object(set, range) {
            self.not_draining().await.ok()?;
            let lock = Rc::new(self.locks.lock(of_disk, true).await);
            self.stage(component, session)?;
            self.bring_history((component, session), (set, blocks)).await?;
            if self.copy_strips(rows, target, (set, blocks), &lock).await? {
                continue;
            }
            // Block by block, to leave out only what is bad.
            for block in (blocks.first..blocks.end()).map(|first| BlockRange::new(first, 1)) {
                if self.copy_strips(rows, target, (set, block), &lock).await? {
                    continue;
                }
                if marks {
                    let mut mark = Contents::default();
                    // Nobody tells a checksum of what the row had there.
                    mark.push_bad(0);
                    self.bring(component, session, (set, block, mark), &lock).await?;
                    self.progress(component, session, |p| p.blocks_marked += 1);
                    continue;
                }
                match unreadable.last_mut() {
                    Some(last) if last.end() == block.first => last.count += 1,
                    _ => unreadable.push(block),
                }
            }
        }
        Some(unreadable)
    }

    /// Copies blocks of neighbouring rows under their lock. False: not all of them can be made.
    async fn copy_strips(
        self: &Rc<Self>,
        rows: Rows,
        target: Target,
        (set, range): (ReplicaSetIndex, BlockRange),
        lock: &Lock,
    ) -> Option<bool> {
        let contents = match self.twin_holds(target, (set, range)).await {
            Some(contents) => contents,
            None => {
                let mut gathered = Gathered::but(Some(target.component));
                match self.strip_of((rows, set, target.member), range, For::Resync, &mut gathered).await {
                    Ok(strips) => {
                        let mut contents = Contents::default();
                        for (role, strip) in strips {
                            strip.tell(matches!(role, RowRole::Parity(_)), &mut contents);
                        }
                        contents
                    }
                    Err(OpError::Unreadable(lost)) => {
                        if range.count == 1 {
                            self.note_unreadable(&lost);
                        }
                        return Some(false);
                    }
                    Err(_) => return None,
                }
            }
        };
        self.bring(target.component, target.session, (set, range, contents), lock).await.map(|()| true)
    }

    /// What the target held at a snapshot, as its twin has it, or made from other members; marks where they cannot give it.
    pub(in crate::owner) async fn row_held_at(
        self: &Rc<Self>,
        rows: Rows,
        (component, set): (ComponentId, ReplicaSetIndex),
        (snapshot, range): (SnapshotId, BlockRange),
    ) -> Result<Contents, OpError> {
        let Some(link) = self.state.borrow().link_of(component) else { return Err(OpError::NeedsRows) };
        let legs = self.state.borrow().readable(set);
        for twin in legs.into_iter().filter(|leg| leg.link.copy == link.copy && leg.component != component) {
            if let Ok(contents) = self.read_leg(twin, range, For::History(snapshot)).await {
                return Ok(contents);
            }
        }
        let mut contents = Contents::default();
        for row in rows.rows_of(range) {
            let some = rows.strip_range(row).intersection(range).expect("a row of these blocks");
            let made = self.strip_held_at((rows, set, link.copy), component, (snapshot, some), &mut contents).await;
            match made {
                Err(OpError::Unreadable(_)) => {}
                made => {
                    made?;
                    continue;
                }
            }
            for block in some.first..some.end() {
                let one = (snapshot, BlockRange::new(block, 1));
                match self.strip_held_at((rows, set, link.copy), component, one, &mut contents).await {
                    Err(OpError::Unreadable(_)) => contents.push_bad(0),
                    made => made?,
                }
            }
        }
        Ok(contents)
    }

    async fn strip_held_at(
        self: &Rc<Self>,
        of: (Rows, ReplicaSetIndex, u32),
        but: ComponentId,
        (snapshot, range): (SnapshotId, BlockRange),
        contents: &mut Contents,
    ) -> Result<(), OpError> {
        let mut gathered = Gathered::but(Some(but));
        for (role, strip) in self.strip_of(of, range, For::History(snapshot), &mut gathered).await? {
            strip.tell(matches!(role, RowRole::Parity(_)), contents);
        }
        Ok(())
    }

    /// What a member in sync with the same index has; none where there is none, or it cannot give all of it.
    async fn twin_holds(&self, target: Target, (set, range): (ReplicaSetIndex, BlockRange)) -> Option<Contents> {
        let legs = self.state.borrow().readable(set);
        let twin = legs.into_iter().find(|leg| leg.link.copy == target.member && leg.component != target.component)?;
        self.read_leg(twin, range, For::Resync).await.ok()
    }
}
