//! Blocks that no copy in sync can give: what a resync brings its target instead, and what becomes of them when a copy comes back.
//!
//! Promises    B1  each copy in sync was asked for the block, twice, before a mark stands for it anywhere; one that does not answer ends the
//!                 resync
//!             B2  bytes that the target itself has kept are taken for lost ones only if their checksum is that of the lost ones: they
//!                 repair every copy then
//!             B3  nobody's bytes are given up for a mark but the target's, and those are not the ones that were lost (B2)
//! Assumes     the caller holds the exclusive lock of the block
//! Not here    what a mark is on a device (`store`), what is told of it (`node`)
//!
//! A checksum of 32 bits agrees by chance once in four billion bad blocks; the target's bytes were a state of this very block before.

use std::rc::Rc;

use cairn_env::Env;
use cairn_geometry::Piece;
use cairn_owner::Leg;
use cairn_types::{BlockRange, ClientTag, ComponentId, Contents, Crcs, Feature, Run, SessionId};
use cairn_wire::{ReadBy, Refusal};

use crate::{
    copies::For,
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{Ended, Owned, write::Lock},
};

/// What the copies in sync say of a block.
enum Said {
    /// One can give it after all.
    Has(Contents),
    /// None can. The checksums that they have for it; none where nobody knows one.
    Lost(Crcs),
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Whether every host knows what a mark is.
    pub(super) fn takes_marks(&self) -> bool {
        self.context.level.get().has(Feature::BadMarks)
    }

    /// Brings the target what it has kept itself of a block that no copy in sync could give, or a mark. `None`: the component or a
    /// source failed, or the owner ended.
    pub(super) async fn copy_mark(
        self: &Rc<Self>,
        component: ComponentId,
        session: SessionId,
        block: Piece,
        lock: &Lock,
    ) -> Option<()> {
        let crcs = match self.ask_for_marks(block).await? {
            Said::Has(contents) => {
                return self.bring(component, session, (block.set, block.range, contents), lock).await;
            }
            Said::Lost(crcs) => crcs,
        };
        let link = self.state.borrow().link_of(component)?;
        let kept = self.ask_leg(Leg { component, link }, block.range, ReadBy::Resync).await;
        if let Ok(contents) = kept
            && let [Run::Data { crcs: own }] = contents.runs.as_slice()
            && crcs.contains(&own[0])
        {
            return self.repair_all(component, session, (block, contents), lock).await;
        }
        let mut mark = Contents::default();
        mark.push_bad(crcs.first().copied().unwrap_or(0));
        self.bring(component, session, (block.set, block.range, mark), lock).await?;
        self.progress(component, session, |p| p.blocks_marked += 1);
        Some(())
    }

    /// Asks every copy in sync.
    async fn ask_for_marks(&self, block: Piece) -> Option<Said> {
        let legs = self.state.borrow().readable(block.set);
        if legs.is_empty() {
            return None;
        }
        let mut crcs = Crcs::new();
        for leg in legs {
            match self.ask_leg(leg, block.range, ReadBy::Marks).await {
                Ok(contents) => match contents.runs.as_slice() {
                    [Run::Bad { crcs: told }] => crcs.extend(told.iter().copied().filter(|crc| *crc != 0)),
                    _ => return Some(Said::Has(contents)),
                },
                Err(Refusal::Fenced { promised }) => {
                    self.finish_owner(Ended::Fenced(promised));
                    return None;
                }
                Err(refusal) => {
                    self.state.borrow_mut().fail(leg.component, refusal == Refusal::NotFound);
                    self.work.notify();
                    return None;
                }
            }
        }
        Some(Said::Lost(crcs))
    }

    /// What the target has kept is what the others have lost.
    async fn repair_all(
        self: &Rc<Self>,
        component: ComponentId,
        session: SessionId,
        (block, contents): (Piece, Contents),
        lock: &Lock,
    ) -> Option<()> {
        let leg = self.choose(block.set, block.range.first, &[])?;
        for body in self.repairs(leg, block.range, contents).await {
            let operation = self.start(block.set, ClientTag::default(), body, lock.clone());
            let op = operation.op;
            operation.await.ok()?;
            self.copy_ended(op, component, session).await?;
        }
        self.context.count(|counted| counted.repaired_blocks += 1);
        self.context.tell(ObjectEvent::Repaired { object: self.id, component, blocks: 1 });
        Some(())
    }

    /// A copy is in sync that was not: it may have what is known to be lost. What reads well from one copy is repaired on the others.
    pub(super) fn look_for_lost_bytes(self: &Rc<Self>, component: ComponentId) {
        let Some(set) = self.config().member(component).and_then(|member| member.set()) else { return };
        let lost: Vec<u64> = self.unreadable.borrow().of(set);
        if lost.is_empty() {
            return;
        }
        let owned = self.clone();
        self.context.env.spawn(async move {
            for block in lost {
                let Some(area) = owned.area_of(set) else { return };
                for range in area.to_object(set, BlockRange::new(block, 1)) {
                    if let Some(rows) = owned.rows_of(set) {
                        owned.look_again(rows, range.first).await;
                        continue;
                    }
                    let _lock = owned.locks.lock(range, false).await;
                    if let Some(piece) = owned.piece_of(set, range) {
                        // What comes of it is noted there.
                        let _ = owned.read_piece(piece, For::Resync, None).await;
                    }
                }
            }
        });
    }
}
