//! Repairs of members of rows: bad blocks are written anew, made from the row's other members.
//!
//! Promises    a repair concerns the bad member alone: it writes what the row has there then, and nothing where somebody has written the blocks
//!             meanwhile. It is no guest's operation, so whoever settles decides it by that member
//! Not here    who finds bad blocks (`read`, the store's scrub)

use std::rc::Rc;

use cairn_env::Env;
use cairn_geometry::{RowRole, Rows};
use cairn_owner::Leg;
use cairn_types::{BlockRange, ClientTag, ReplicaSetIndex};

use super::{Locked, bodies, image::Gathered};
use crate::{
    copies::For,
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{
        Owned,
        write::{Bodies, OpError},
    },
};

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Repairs these blocks of a member, row by row.
    pub(in crate::owner) async fn repair_rows(
        self: &Rc<Self>,
        rows: Rows,
        (leg, set, range): (Leg, ReplicaSetIndex, BlockRange),
    ) {
        for row in rows.rows_of(range) {
            let some = rows.strip_range(row).intersection(range).expect("a row of these blocks");
            if self.repair_strip(rows, (leg, set, row), some).await || some.count == 1 {
                continue;
            }
            // No choice of members has all of it: each may have bad blocks of its own.
            for block in some.first..some.end() {
                self.repair_strip(rows, (leg, set, row), BlockRange::new(block, 1)).await;
            }
        }
    }

    /// False: others do not give all of it.
    async fn repair_strip(
        self: &Rc<Self>,
        rows: Rows,
        (leg, set, row): (Leg, ReplicaSetIndex, u64),
        range: BlockRange,
    ) -> bool {
        let Some(area) = self.area_of(set) else { return true };
        let blocks = area.rows_in_object(set, range);
        let [(_, of_disk)] = blocks.as_slice() else { return true };
        let lock = Rc::new(self.locks.lock(*of_disk, true).await);
        if self.still_at(area).is_err() {
            return true;
        }
        // Somebody may have written it meanwhile: then there is nothing to repair.
        if self.read_leg(leg, range, For::Guest).await.is_ok() {
            return true;
        }
        let mut gathered = Gathered::but(Some(leg.component));
        let image = match self.row_image((rows, set, row), range, For::Guest, &mut gathered).await {
            Ok(image) => image,
            Err(OpError::Unreadable(lost)) => {
                if range.count == 1 && !self.state.borrow().may_come_back(set) {
                    self.note_unreadable(&lost);
                }
                return false;
            }
            // Its owner has ended, or it is about to be served by fewer.
            Err(_) => return true,
        };
        // It may have been recorded absent since: what it lacks comes with its resync.
        if self.state.borrow().link_of(leg.component).is_none() {
            return true;
        }
        let (copy, role) = (leg.link.copy, rows.role(row, leg.link.copy));
        let members = 1 << copy;
        let mut bodies = vec![None; rows.members() as usize];
        let is_parity = matches!(role, RowRole::Parity(_));
        bodies[copy as usize] = Some(bodies::made(&image.strip(role), is_parity, members, range));
        let begun = self.state.borrow_mut().begin(set, members);
        let operation = self.send(begun, ClientTag::default(), &Bodies::ByMember(bodies), (lock, None), (None, None));
        if operation.await.is_ok() {
            let (object, component) = (self.id, leg.component);
            self.context.count(|counted| counted.repaired_blocks += u64::from(range.count));
            self.context.tell(ObjectEvent::Repaired { object, component, blocks: range.count });
        }
        true
    }

    /// Reads a block of a set that nobody could give, now that a member came back: what comes of it is noted.
    pub(in crate::owner) async fn look_again(self: &Rc<Self>, rows: Rows, object_block: u64) {
        let (block, area) = (BlockRange::new(object_block, 1), self.area_at(object_block));
        if block.end() > area.blocks().end {
            return;
        }
        let _lock = self.locks.lock(Locked::Rows.blocks(area, block), false).await;
        if self.still_at(area).is_ok() {
            let _ = self.read_rows((area, rows), (block, Locked::Rows), For::Resync, None).await;
        }
    }
}
