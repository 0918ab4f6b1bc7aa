//! Repairs: blocks that are bad on one copy are written anew from another, found by a read or by a scrub of the copy's disk group.
//!
//! Promises    a repair is an ordinary operation under the exclusive lock of its blocks: it writes what another copy in sync holds then, and
//!             nothing where somebody has written them meanwhile
//!             where each copy has bad blocks of its own it goes block by block; what no copy has is noted as unreadable
//! Not here    reading (`read`), finding what nobody reads (`store`)

use std::rc::Rc;

use cairn_env::Env;
use cairn_geometry::Piece;
use cairn_owner::Leg;
use cairn_types::{BlockOp, BlockRange, Canary, ClientTag, ComponentId, Contents, ReplicaSetIndex, Run};
use cairn_wire::{Answer, Request};

use crate::{
    copies::For,
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{
        Owned,
        unreadable::Lost,
        write::{Body, joined},
    },
};

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Rewrites blocks of a bad copy from a good one, in a task of its own.
    pub(super) fn repair_later(self: &Rc<Self>, leg: Leg, set: ReplicaSetIndex, ranges: Vec<BlockRange>) {
        let owned = self.clone();
        self.context.env.spawn(async move {
            for range in ranges {
                owned.repair(leg, set, range).await;
            }
        });
    }

    /// The same of what the copy's host has found. Returns when all of it was tried: not in the keeper, which repairs may wait for.
    ///
    /// # Errors
    /// The copy is not in sync now: what it lacks comes with its resync, and the rest is to be asked for then.
    pub(crate) async fn repair_found(
        self: &Rc<Self>,
        component: ComponentId,
        ranges: Vec<BlockRange>,
    ) -> Result<(), String> {
        for range in ranges {
            let (leg, set) = self.in_sync(component).ok_or("the copy is not in sync now")?;
            self.repair(leg, set, range).await;
        }
        match self.state.borrow().ended() {
            None => Ok(()),
            Some(ended) => Err(format!("{ended:?}")),
        }
    }

    fn in_sync(&self, component: ComponentId) -> Option<(Leg, ReplicaSetIndex)> {
        let state = self.state.borrow();
        let set = state.config().member(component)?.set()?;
        state.readable(set).into_iter().find(|leg| leg.component == component).map(|leg| (leg, set))
    }

    async fn repair(self: &Rc<Self>, leg: Leg, set: ReplicaSetIndex, range: BlockRange) {
        if let Some(rows) = self.rows_of(set) {
            return self.repair_rows(rows, (leg, set, range)).await;
        }
        let Some(area) = self.area_of(set) else { return };
        for object_range in area.to_object(set, range) {
            if self.repair_piece(leg, set, object_range).await || object_range.count == 1 {
                continue;
            }
            // No copy has all of it: each may have bad blocks of its own.
            for block in object_range.first..object_range.end() {
                self.repair_piece(leg, set, BlockRange::new(block, 1)).await;
            }
        }
    }

    /// False: no other copy has all of it.
    async fn repair_piece(self: &Rc<Self>, leg: Leg, set: ReplicaSetIndex, object_range: BlockRange) -> bool {
        let lock = Rc::new(self.locks.lock(object_range, true).await);
        let Some(piece) = self.piece_of(set, object_range) else { return true };
        // Somebody may have written it meanwhile: then there is nothing to repair.
        if self.read_leg(leg, piece.range, For::Guest).await.is_ok() {
            return true;
        }
        let Some(contents) = self.read_piece_but(piece, leg).await else {
            self.note_lost(piece);
            return false;
        };
        let mut repaired = true;
        for body in self.repairs(leg, piece.range, contents).await {
            repaired &= self.start(set, ClientTag::default(), body, lock.clone()).await.is_ok();
        }
        if repaired {
            let (object, component) = (self.id, leg.component);
            self.context.count(|counted| counted.repaired_blocks += u64::from(piece.range.count));
            self.context.tell(ObjectEvent::Repaired { object, component, blocks: piece.range.count });
        }
        true
    }

    /// What writes these blocks anew at copies in sync. A copy brings what a component held before all that it did by itself: where some of that
    /// is not destaged yet, snapshots would lose it. So it is a copy only of blocks that are as they were at the oldest snapshot; what has changed
    /// since is written over, as guests do. Then a snapshot that has a bad block keeps it at this copy, and others give it.
    pub(super) async fn repairs(&self, leg: Leg, range: BlockRange, contents: Contents) -> Vec<Body> {
        let oldest = self.config().past.as_ref().and_then(|past| past.snapshots.first().map(|snapshot| snapshot.id));
        let Some(oldest) = oldest.filter(|_| !Canary::RepairHidesHistory.sings()) else {
            return vec![Body::copy(range, contents)];
        };
        let request = Request::History { to: leg.link.target, snapshots: vec![oldest], range };
        let told = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
        if let Ok((Answer::Changed(changed), _)) = told
            && changed.iter().all(Vec::is_empty)
        {
            return vec![Body::copy(range, contents)];
        }
        let data = joined(contents.data);
        let (mut first_block, mut taken) = (range.first, 0);
        let one = |run: Run| {
            let range = BlockRange::new(first_block, run.blocks());
            first_block = range.end();
            match run {
                Run::Data { crcs } => {
                    let own = taken..taken + range.bytes() as usize;
                    taken = own.end;
                    Body { blocks: BlockOp::Write { first_block: range.first, crcs }, data: data.slice(own) }
                }
                Run::Hole { .. } => BlockOp::Zero { range, keep_allocated: false }.into(),
                mark @ (Run::Bad { .. } | Run::Parity { .. }) => {
                    BlockOp::Copy { first_block: range.first, runs: vec![mark] }.into()
                }
            }
        };
        contents.runs.into_iter().map(one).collect()
    }

    /// A block that no copy in sync has, and that none which is away may bring back.
    fn note_lost(&self, piece: Piece) {
        let copies = {
            let state = self.state.borrow();
            if piece.range.count > 1 || state.may_come_back(piece.set) {
                return;
            }
            state.readable(piece.set).iter().map(|leg| (leg.link.host, leg.link.target.disk_group)).collect()
        };
        self.note_unreadable(&Lost { set: piece.set, blocks: vec![piece.range], copies });
    }

    async fn read_piece_but(&self, piece: Piece, bad: Leg) -> Option<Contents> {
        let legs = self.state.borrow().readable(piece.set);
        for leg in legs.into_iter().filter(|l| l.component != bad.component) {
            if let Ok(contents) = self.read_leg(leg, piece.range, For::Guest).await {
                return Some(contents);
            }
        }
        None
    }
}
