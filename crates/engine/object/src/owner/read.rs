//! Reads: from one in-sync copy, checked at the owner, answered only under a lease.
//!
//! Promises    R1  bytes of an answer carried a right CRC when they reached the owner                        (P4)
//!             R2  the lease is checked after the data arrived and before they are answered                  (P3)
//!             R3  a bad copy is answered from a good one and repaired under the lock; where each copy has bad blocks of its own, block by
//!                 block: a read fails only for a block that no copy can give
//!             R4  a guest's read of a block that the copies in sync have lost waits for one that is away and may have it
//! Assumes     the caller holds a range lock over the blocks
//! Not here    repairing (`repair`)

use std::{collections::BTreeSet, rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_geometry::Piece;
use cairn_owner::Leg;
use cairn_types::{BlockRange, Canary, ComponentId, Contents, ReplicaSetIndex, Time};
use cairn_wire::{Answer, ReadBy, Refusal, Request};
use futures::future::select;

use crate::{
    arrived::{Changed, check},
    copies::For,
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{Owned, unreadable::Lost, write::OpError},
    stages::Watch,
};

/// How long a guest's read waits for a copy that is away, where the copies that are there have lost a block. A start after all hosts were
/// down takes seconds, and one copy is there first; a dead host's copy must not hold up each read for longer.
const ANOTHER_COPY_MAX: Duration = Duration::from_secs(5);
/// How soon it is looked again for such a copy, if nothing is heard of it.
const ANOTHER_COPY_LOOK: Duration = Duration::from_millis(100);

/// What came of reading a piece from one copy.
enum Whole {
    Read(Contents),
    /// No copy has all of it: what is bad, by copy.
    Bad(Vec<(Leg, Vec<BlockRange>)>),
}

/// Blocks that are bad on every copy that was asked, in order.
fn on_every(bad: &[(Leg, Vec<BlockRange>)]) -> Vec<BlockRange> {
    let blocks = |ranges: &[BlockRange]| -> BTreeSet<u64> { ranges.iter().flat_map(|r| r.first..r.end()).collect() };
    let mut copies = bad.iter().map(|(_, ranges)| blocks(ranges));
    let first = copies.next().unwrap_or_default();
    let common = copies.fold(first, |common, copy| &common & &copy);
    common.into_iter().map(|block| BlockRange::new(block, 1)).collect()
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Reads one piece from good copies; bad ones on the way are queued for repair.
    pub(crate) async fn read_piece(
        self: &Rc<Self>,
        piece: Piece,
        by: For,
        watch: Option<&Watch<E>>,
    ) -> Result<Contents, OpError> {
        let bad = match self.read_whole_piece(piece, by, watch).await? {
            Whole::Read(contents) => return Ok(contents),
            Whole::Bad(bad) => bad,
        };
        let lost = on_every(&bad);
        if !lost.is_empty() {
            return Err(self.unreadable(piece.set, lost, &bad));
        }
        // Each block is good somewhere.
        let mut contents = Contents::default();
        for n in 0..u64::from(piece.range.count) {
            let range = BlockRange::new(piece.range.first + n, 1);
            let block = Piece { range, object_first: piece.object_first + n, ..piece };
            match self.read_whole_piece(block, by, watch).await? {
                Whole::Read(one) => {
                    contents.runs.extend(one.runs);
                    contents.data.extend(one.data);
                }
                Whole::Bad(bad) => return Err(self.unreadable(piece.set, vec![range], &bad)),
            }
        }
        Ok(contents)
    }

    /// Reads one piece from one copy that has all of it; what was bad, where none has.
    async fn read_whole_piece(
        self: &Rc<Self>,
        piece: Piece,
        by: For,
        watch: Option<&Watch<E>>,
    ) -> Result<Whole, OpError> {
        let mut bad: Vec<(Leg, Vec<BlockRange>)> = Vec::new();
        let mut tried = Vec::new();
        loop {
            let Some(leg) = self.choose(piece.set, piece.range.first, &tried) else {
                return match bad.is_empty() {
                    true => Err(self.no_copy(piece.set)),
                    false => Ok(Whole::Bad(bad)),
                };
            };
            tried.push(leg.component);
            let contents = self.read_leg(leg, piece.range, by).await;
            if let Some(watch) = watch {
                watch.copy_was_read((leg.link.host, leg.link.target.disk_group));
            }
            match contents {
                Ok(contents) => {
                    for (leg, ranges) in bad {
                        self.repair_later(leg, piece.set, ranges);
                    }
                    self.unreadable.borrow_mut().whole_again(piece.set, piece.range);
                    return Ok(Whole::Read(contents));
                }
                Err(Refusal::BadBlocks(ranges)) => bad.push((leg, ranges)),
                Err(Refusal::Fenced { promised }) => {
                    self.finish_owner(super::Ended::Fenced(promised));
                }
                Err(refusal) => {
                    self.state.borrow_mut().fail(leg.component, refusal == Refusal::NotFound);
                    self.work.notify();
                }
            }
        }
    }

    /// Reads one copy, checked.
    pub(super) async fn read_leg(&self, leg: Leg, range: BlockRange, by: For) -> Result<Contents, Refusal> {
        let contents = match by {
            For::Guest => self.ask_leg(leg, range, ReadBy::Guest).await?,
            For::Resync => self.ask_leg(leg, range, ReadBy::Resync).await?,
            For::History(snapshot) => self.ask_leg_at(leg, snapshot, range, false).await?,
        };
        match contents.bad_blocks(range.first) {
            bad if bad.is_empty() => Ok(contents),
            bad => Err(Refusal::BadBlocks(bad)),
        }
    }

    /// The same; for marks, marks are an answer.
    pub(super) async fn ask_leg(&self, leg: Leg, range: BlockRange, by: ReadBy) -> Result<Contents, Refusal> {
        self.ask_leg_for(leg, range.count, Request::Read { to: leg.link.target, range, by }).await
    }

    /// The answer to a request for so many blocks, checked.
    pub(super) async fn ask_leg_for(&self, leg: Leg, blocks: u32, request: Request) -> Result<Contents, Refusal> {
        let local = leg.link.host == self.context.env.host();
        let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
        let (Answer::Data { runs }, data) = reply? else {
            return Err(Refusal::Invalid("not an answer to a read".into()));
        };
        let contents = Contents { runs, data: data.into_iter().filter(|d| !d.is_empty()).collect() };
        // The store has just checked a local copy in this very memory; only a copy that travelled is checked again.
        match check(&contents, blocks, !local) {
            Ok(()) => Ok(contents),
            Err(Changed) => {
                if !local {
                    self.context.tell_changed(leg.link.host);
                }
                Err(Refusal::Lost)
            }
        }
    }

    /// The copy to read: a local one, else spread by address.
    pub(super) fn choose(&self, set: ReplicaSetIndex, first_block: u64, tried: &[ComponentId]) -> Option<Leg> {
        let state = self.state.borrow();
        if state.ended().is_some() {
            return None;
        }
        let mut legs = state.readable(set);
        legs.retain(|l| !tried.contains(&l.component));
        let me = self.context.env.host();
        let local = legs.iter().position(|l| l.link.host == me);
        let at = local.or_else(|| (!legs.is_empty()).then(|| (first_block >> 8) as usize % legs.len()))?;
        Some(legs[at])
    }

    /// Blocks that every copy in sync has lost: told once, until they are whole again.
    pub(crate) fn note_unreadable(&self, lost: &Lost) {
        if self.state.borrow().ended().is_some() {
            return;
        }
        let new = self.unreadable.borrow_mut().lost(lost.set, lost.blocks.iter().copied());
        if new > 0 {
            let (name, copies) = (self.name(), lost.copies.clone());
            self.context.tell(ObjectEvent::Unreadable { object: self.id, name, blocks: new, copies });
        }
    }

    fn unreadable(&self, set: ReplicaSetIndex, blocks: Vec<BlockRange>, bad: &[(Leg, Vec<BlockRange>)]) -> OpError {
        let copies = bad.iter().map(|(leg, _)| (leg.link.host, leg.link.target.disk_group)).collect();
        match self.state.borrow().ended() {
            Some(ended) => OpError::Ended(ended.clone()),
            None => OpError::Unreadable(Lost { set, blocks, copies }),
        }
    }

    fn no_copy(&self, set: ReplicaSetIndex) -> OpError {
        match self.state.borrow().ended() {
            Some(ended) => OpError::Ended(ended.clone()),
            None => OpError::Ended(super::Ended::Inaccessible(format!("no reachable copy of replica set {set}"))),
        }
    }

    /// R4: waits a moment for a copy that is away, since `began`. The caller holds no lock: that copy may need it to be in sync.
    ///
    /// # Errors
    /// No copy can have the blocks, or none came within [`ANOTHER_COPY_MAX`]: this is noted, and later reads of them do not wait.
    pub(crate) async fn wait_for_another_copy(&self, lost: Lost, began: Time) -> Result<(), OpError> {
        let env = &self.context.env;
        let known = lost.blocks.iter().all(|range| self.unreadable.borrow().has(lost.set, *range));
        let may_come = self.state.borrow().may_come_back(lost.set);
        if known || !may_come || Canary::CopyNotAwaited.sings() || env.now().since(began) >= ANOTHER_COPY_MAX {
            self.note_unreadable(&lost);
            return Err(OpError::Io(lost.to_string()));
        }
        select(self.progressed.wait(), env.sleep(ANOTHER_COPY_LOOK)).await;
        Ok(())
    }
}
