//! Members of rows: a write that tells what it replaces, and parity that is made from what is there before it is logged (ADR 0039).
//!
//! Promises    S5  what is told of an exchange stood there before it, and was read before it was logged
//!             S6  of what changes parity at one block, the next begins when the one before is durable; one that comes below a later
//!                 operation is refused. So the parity that a difference is added to is that of the row with the old column
//!             S7  whoever waited for a device is asked for his session again, in the turn in which his operation is logged   (S1)
//! Assumes     one operation at a time changes a position of a row, as long as members that are needed have not answered (`owner`)
//! Not here    what a difference comes to (`cairn-owner`)
//!
//! Only a member that is being filled can be late: no acknowledgement waits for it, and so the next operation may overtake.

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn_env::{Env, PageBuf};
use cairn_owner::{Strip, add_difference};
use cairn_parity::Factor;
use cairn_types::{BlockOp, BlockRange, Canary, Change, ComponentId, ComponentOp, Contents, OpId, Redundancy, Run};
use cairn_wire::{Answer, Refusal, Target};
use futures::{FutureExt, future::LocalBoxFuture};

use super::{Seats, Served, refuse};
use crate::{
    local_store::LocalStore,
    locks::{Guard, RangeLocks},
};

/// By component, what waits to change parity. One that never held any is not there.
#[derive(Default)]
pub(super) struct Turns(BTreeMap<ComponentId, RangeLocks>);

impl Turns {
    pub(super) fn forget(&mut self, component: ComponentId) {
        self.0.remove(&component);
    }

    /// Where an operation waits; none for what changes no parity.
    fn of(&mut self, component: ComponentId, blocks: &BlockOp) -> Option<RangeLocks> {
        match blocks {
            BlockOp::Write { .. } | BlockOp::Zero { .. } => None,
            // It may bring parity, or holes in the place of it.
            BlockOp::Copy { .. } => self.0.get(&component).cloned(),
            BlockOp::Rows { runs, .. } if !runs.iter().any(Run::is_parity) => None,
            BlockOp::Rows { .. } | BlockOp::ZeroRows { .. } | BlockOp::Difference(_) => {
                Some(self.0.entry(component).or_default().clone())
            }
        }
    }
}

/// A difference, as it is asked for.
struct Difference {
    members: u16,
    range: BlockRange,
    column: u32,
    factor: Factor,
    crcs: [cairn_types::Crcs; 2],
}

impl Difference {
    /// None: the operation is none, or one that no row has.
    fn of(blocks: &BlockOp, data: &Bytes) -> Option<Self> {
        let BlockOp::Difference(told) = blocks else { return None };
        let range = blocks.range();
        let whole = told.old.len() == told.new.len() && data.len() as u64 == range.bytes() && range.count > 0;
        let factor = Factor::new(told.factor).filter(|_| whole && told.column < *Redundancy::DATA_STRIPS.end())?;
        let crcs = [told.old.clone(), told.new.clone()];
        Some(Self { members: told.members, range, column: u32::from(told.column), factor, crcs })
    }

    /// What is logged, and its bytes, where `there` is what stands in the blocks.
    fn over(&self, there: Contents, difference: &Bytes) -> Result<(BlockOp, Bytes), Refusal> {
        let Some(parity) = Strip::of(there, self.range.count) else {
            return Err(Refusal::BadBlocks(vec![self.range]));
        };
        let mut sum = PageBuf::dirty(difference.len());
        let [old, new] = &self.crcs;
        let by = (self.column, self.factor);
        let (crcs, row_checks) = add_difference(&parity, by, (old, new), difference, &mut sum);
        let (members, first_block) = (self.members, self.range.first);
        let sum = Strip::parity(sum.freeze(), crcs, row_checks);
        if sum.is_all_holes() {
            // The row is zeroes again: it gives its space back.
            return Ok((BlockOp::ZeroRows { members, range: self.range, keep_allocated: false }, Bytes::new()));
        }
        let (crcs, row_checks) = (sum.crcs().clone(), sum.row_checks().clone());
        let runs = vec![Run::Parity { crcs, row_checks }];
        Ok((BlockOp::Rows { members, first_block, runs }, sum.bytes().cloned().unwrap_or_default()))
    }
}

fn late(op: OpId, range: BlockRange) -> Refusal {
    Refusal::Invalid(format!(
        "operation {} comes after a later one that changed blocks {}..{} of parity: they are copied anew",
        op.seq,
        range.first,
        range.end()
    ))
}

impl<E: Env, S: LocalStore> Seats<E, S> {
    /// Carries out a write on a member of rows, and tells what was in its blocks before.
    pub(super) fn exchange(&self, to: Target, op: ComponentOp, data: Bytes) -> LocalBoxFuture<'static, Served> {
        let range = match &op {
            ComponentOp::Apply { blocks: blocks @ (BlockOp::Rows { .. } | BlockOp::ZeroRows { .. }), .. } => {
                blocks.range()
            }
            _ => return refuse(Refusal::Invalid("only writes to rows tell what they replace".into())),
        };
        let seats = self.clone();
        self.with_admitted(to, |store| {
            let read = store.read(to.component, range);
            Box::pin(async move {
                let before = if Canary::OldAfterNew.sings() { None } else { Some(read.await?) };
                // Others may have been admitted meanwhile: S7.
                let store = seats.admitted(to)?;
                store.append(Change::Component { component: to.component, op, data }).await?;
                let Contents { runs, data: old } = match before {
                    Some(before) => before,
                    None => store.read(to.component, range).await?,
                };
                Ok((Answer::Data { runs }, old))
            })
        })
    }

    /// Where a change waits for its turn; none for what changes no parity, and for whoever is not admitted: that is refused at once.
    pub(super) fn turns_for(&self, to: Target, op: &ComponentOp) -> Option<RangeLocks> {
        let ComponentOp::Apply { blocks, .. } = op else { return None };
        if matches!(blocks, BlockOp::Write { .. } | BlockOp::Zero { .. }) {
            return None;
        }
        let mut groups = self.inner.groups.borrow_mut();
        let group = groups.get_mut(&to.disk_group)?;
        let admitted = group.admitted.get(&to.component)?;
        (admitted.session == to.session).then(|| group.turns.of(to.component, blocks)).flatten()
    }

    /// Carries out a change of parity when those before it are durable. Where there are none, and nothing has to be read, it is logged before
    /// this returns.
    pub(super) fn change_in_turn(
        &self,
        to: Target,
        op: ComponentOp,
        data: Bytes,
        turns: &RangeLocks,
    ) -> LocalBoxFuture<'static, Served> {
        let ComponentOp::Apply { op: number, settled, client, blocks } = op else {
            return refuse(Refusal::Invalid("not an operation on blocks".into()));
        };
        let range = blocks.range();
        let mut turn = Box::pin(turns.lock(range, true));
        let seats = self.clone();
        let log = move |blocks: BlockOp, data: Bytes, turn: Guard| {
            let op = ComponentOp::Apply { op: number, settled, client, blocks };
            let durable = seats.log_in_turn(to, (number, range), op, data);
            async move {
                let _turn = turn;
                durable?.await.map(|()| (Answer::Done, Vec::new()))
            }
        };
        if !matches!(blocks, BlockOp::Difference(_)) {
            return match turn.as_mut().now_or_never() {
                Some(turn) => Box::pin(log(blocks, data, turn)),
                None => Box::pin(async move { log(blocks, data, turn.await).await }),
            };
        }
        let Some(difference) = Difference::of(&blocks, &data) else {
            return refuse(Refusal::Invalid("a difference that no row has".into()));
        };
        self.with_admitted(to, |store| {
            Box::pin(async move {
                let turn = turn.await;
                let there = store.read(to.component, range).await?;
                let (blocks, data) = difference.over(there, &data)?;
                log(blocks, data, turn).await
            })
        })
    }

    /// Logs an operation whose turn it is. Enqueued when this returns.
    fn log_in_turn(
        &self,
        to: Target,
        (number, range): (OpId, BlockRange),
        op: ComponentOp,
        data: Bytes,
    ) -> Result<LocalBoxFuture<'static, Result<(), Refusal>>, Refusal> {
        let store = self.admitted(to)?;
        let copies = matches!(op, ComponentOp::Apply { blocks: BlockOp::Copy { .. }, .. });
        if !copies && store.is_late(to.component, number, range) {
            return Err(late(number, range));
        }
        Ok(store.append(Change::Component { component: to.component, op, data }).boxed_local())
    }
}

#[cfg(test)]
mod tests;
