//! Settling: which operations of a dead owner stand, which are undone.
//!
//! Why it is right. Let S be the highest operation that anyone proved decided. An acknowledged operation above S is
//! held by every component that is in sync in the adopted configuration. Either it was in sync when the operation was
//! acknowledged, and promised us only after that. Or it was activated since: an activation is proposed only when the
//! target has every operation above the `decided` that it carries. So one that lacks it proves that it was never
//! acknowledged, unless its log is damaged; and what all of them hold is kept, acknowledged or not.

use std::collections::{BTreeMap, BTreeSet};

use cairn_types::{Canary, ComponentId, ComponentState, Member, ObjectConfig, OpId, ReplicaSetIndex};
use cairn_wire::ComponentAnswer;

/// What is to be undone before anything else happens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Settlement {
    /// Per component, newest first.
    pub(crate) undo: BTreeMap<ComponentId, Vec<OpId>>,
    /// Operations above the watermark that stand, ascending.
    pub(crate) committed: Vec<OpId>,
}

/// Decides every operation above `watermark` that a component of `answers` holds.
///
/// `config` is the one to be written, in which failed and damaged components are absent already; `answers` are of
/// members that are active or resyncing in it. Of an operation, the participants are the active members of its set.
pub(crate) fn settle(
    config: &ObjectConfig,
    answers: &BTreeMap<ComponentId, &ComponentAnswer>,
    watermark: OpId,
) -> Settlement {
    let mut holders: BTreeMap<(OpId, ReplicaSetIndex), BTreeSet<ComponentId>> = BTreeMap::new();
    let mut participants: BTreeMap<ReplicaSetIndex, BTreeSet<ComponentId>> = BTreeMap::new();
    for member in &config.members {
        let (Some(set), Some(answer)) = (member.set(), answers.get(&member.component)) else {
            continue;
        };
        if member.state.in_sync() {
            participants.entry(set).or_default().insert(member.component);
        }
        for unsettled in answer.window.iter().filter(|u| u.op > watermark) {
            holders.entry((unsettled.op, set)).or_default().insert(member.component);
        }
    }
    let mut settlement = Settlement::default();
    // Newest first: an undo restores what the operation before it left.
    for ((op, set), holders) in holders.into_iter().rev() {
        let needed = participants.get(&set);
        let everywhere = needed.is_some_and(|needed| needed.is_subset(&holders)) && !Canary::AllUndone.sings();
        if everywhere || Canary::NothingUndone.sings() {
            settlement.committed.push(op);
        } else {
            for component in holders {
                settlement.undo.entry(component).or_default().push(op);
            }
        }
    }
    settlement.committed.reverse();
    settlement
}

/// Per replica set the last decided write that a copy in sync says it took: every copy that was in sync took it too.
///
/// Of copies in sync only, so that never all of a set are refuted by it: whoever was told that most is decided has what the others prove.
/// Copies that a resync brought are not counted: they have numbers that their sources do not know.
pub(crate) fn proven<'a>(
    config: &ObjectConfig,
    answer_of: impl Fn(&Member) -> Option<&'a ComponentAnswer>,
) -> BTreeMap<ReplicaSetIndex, OpId> {
    let mut proven: BTreeMap<ReplicaSetIndex, OpId> = BTreeMap::new();
    for member in config.members.iter().filter(|m| m.state.in_sync()) {
        let sound = answer_of(member).filter(|a| still_holds(a, OpId::ZERO));
        if let (Some(set), Some(answer)) = (member.set(), sound) {
            let last = proven.entry(set).or_insert(OpId::ZERO);
            *last = answer.last_written.max(*last);
        }
    }
    proven
}

/// How an absent component comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejoin {
    /// The state to propose: resyncing.
    pub state: ComponentState,
    /// To be undone on it first, newest first: what it holds above `stale_since` may have been undone elsewhere.
    ///
    /// An undone operation may still be copied back: undo bars writes of that number, not copies; and it counts once,
    /// so that one that comes twice does not take the copy away.
    pub undo: Vec<OpId>,
}

/// Whether a component that answered still has what it acknowledged to its owner last: `acked`, zero where nothing was. A device
/// that lies about what is stable, or an old image of it, is found out by this when nobody else remembers.
pub fn still_holds(answer: &ComponentAnswer, acked: OpId) -> bool {
    answer.present && !answer.lost && !answer.log_damaged && knows(answer, acked)
}

/// Whether the component was told that `op` is decided, or has it.
pub(crate) fn knows(answer: &ComponentAnswer, op: OpId) -> bool {
    op <= answer.settled || answer.window.iter().any(|unsettled| unsettled.op == op)
}

/// What an absent member that answered a Seize of its owner's epoch has to do to come back; none when it is lost.
/// `acked`: the last operation that it acknowledged to this owner.
pub fn rejoin(member: &Member, answer: &ComponentAnswer, acked: OpId) -> Option<Rejoin> {
    let stale_since = match member.state {
        ComponentState::Absent { stale_since, .. } | ComponentState::Resyncing { stale_since } => stale_since,
        ComponentState::Active | ComponentState::Degraded => return None,
    };
    if answer.lost || !answer.present {
        return None;
    }
    let stale_since = if still_holds(answer, acked) { stale_since } else { OpId::ZERO };
    let undo = answer.window.iter().rev().map(|u| u.op).filter(|op| *op > stale_since).collect();
    Some(Rejoin { state: ComponentState::Resyncing { stale_since }, undo })
}

#[cfg(test)]
mod tests {
    use cairn_types::{BlockRange, ComponentId, Epoch, HostId, Incarnation, SessionId, UnsettledOp};

    use super::*;

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 3, host: HostId(7), incarnation: Incarnation(1) }, seq }
    }

    fn answer(settled: OpId, window: &[u64]) -> ComponentAnswer {
        let unsettled =
            |seq: &u64| UnsettledOp { op: op(*seq), range: BlockRange::new(0, 1), client: Default::default() };
        ComponentAnswer {
            component: ComponentId(1),
            present: true,
            lost: false,
            session: SessionId(1),
            settled,
            last_written: OpId::ZERO,
            window: window.iter().map(unsettled).collect(),
            log_damaged: false,
        }
    }

    #[test]
    fn a_copy_that_lacks_what_it_acknowledged_last_is_not_believed() {
        assert!(still_holds(&answer(op(8), &[9, 10]), op(10)));
        assert!(still_holds(&answer(op(8), &[]), op(8)));
        assert!(still_holds(&answer(OpId::ZERO, &[]), OpId::ZERO), "nothing was acknowledged to this owner");
        assert!(!still_holds(&answer(op(8), &[9]), op(10)));
        assert!(!still_holds(&answer(OpId::ZERO, &[]), op(1)));
        assert!(!still_holds(&ComponentAnswer { log_damaged: true, ..answer(op(8), &[]) }, op(8)));
        assert!(!still_holds(&ComponentAnswer { lost: true, ..answer(op(8), &[]) }, op(8)));
    }
}
