//! Settling: which operations of a dead owner stand, which are undone.
//!
//! Why it is right. Let S be the highest operation that anyone proved decided. An acknowledged operation above S is
//! held by every component that it concerns and that is in sync in the adopted configuration. Either it was in sync when the operation
//! was acknowledged, and promised us only after that. Or it was activated since: an activation is proposed only when the
//! target has every operation above the `decided` that it carries. So one that lacks it proves that it was never
//! acknowledged, unless its log is damaged; and what all of them hold is kept, acknowledged or not.
//!
//! An operation on a mirror concerns all members. One on rows concerns the members whose strips it changes: m + 1 at least. At most m of
//! n are not in sync, so one that it concerns is among any k that answer (Lemma P).

use std::collections::{BTreeMap, BTreeSet};

use cairn_types::{
    Canary, ComponentId, ComponentState, Member, ObjectConfig, OpId, ReplicaSetIndex, Role, UnsettledOp,
};
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
/// members that are active or resyncing in it. Of an operation, the participants are the active members of its set that it concerns.
pub(crate) fn settle(
    config: &ObjectConfig,
    answers: &BTreeMap<ComponentId, &ComponentAnswer>,
    watermark: OpId,
) -> Settlement {
    let mut held: BTreeMap<(OpId, ReplicaSetIndex), Held> = BTreeMap::new();
    let mut in_sync: BTreeMap<ReplicaSetIndex, Vec<(ComponentId, u32)>> = BTreeMap::new();
    for member in &config.members {
        let (Role::Data { set, copy }, Some(answer)) = (member.role, answers.get(&member.component)) else {
            continue;
        };
        if member.state.in_sync() {
            in_sync.entry(set).or_default().push((member.component, copy));
        }
        for unsettled in answer.window.iter().filter(|u| u.op > watermark) {
            let held = held.entry((unsettled.op, set)).or_insert_with(|| Held::new(unsettled));
            held.holders.insert(member.component);
        }
    }
    let mut settlement = Settlement::default();
    // Newest first: an undo restores what the operation before it left.
    for ((op, set), held) in held.into_iter().rev() {
        let everywhere = in_sync.get(&set).is_some_and(|all| held.everywhere(all)) && !Canary::AllUndone.sings();
        if everywhere || Canary::NothingUndone.sings() {
            settlement.committed.push(op);
        } else {
            for component in held.holders {
                settlement.undo.entry(component).or_default().push(op);
            }
        }
    }
    settlement.committed.reverse();
    settlement
}

/// Who holds an operation.
struct Held {
    /// By any holder, as all were told the same.
    told: UnsettledOp,
    holders: BTreeSet<ComponentId>,
}

impl Held {
    fn new(told: &UnsettledOp) -> Self {
        Self { told: *told, holders: BTreeSet::new() }
    }

    /// Whether each of those in sync that it concerns has it. It concerns one of them at least (Lemma P), as it does of every mirror.
    fn everywhere(&self, in_sync: &[(ComponentId, u32)]) -> bool {
        let mut concerned = in_sync.iter().filter(|(_, index)| self.told.concerns(*index)).peekable();
        if Canary::ParityIgnored.sings() && self.told.members != 0 {
            return concerned.any(|(component, _)| self.holders.contains(component));
        }
        concerned.peek().is_some() && concerned.all(|(component, _)| self.holders.contains(component))
    }
}

/// A member of a replica set: the set, and its index there.
pub(crate) type SetMember = (ReplicaSetIndex, u32);

/// Per member of a set, the last decided write that a member in sync says it took and that concerned the former too: it took that write,
/// if it was in sync.
///
/// By members in sync only, so that never all of a set are refuted by it: whoever was told that most is decided has what the others prove.
/// Copies that a resync brought are not counted: they have numbers that their sources do not know.
pub(crate) fn proven<'a>(
    config: &ObjectConfig,
    answer_of: impl Fn(&Member) -> Option<&'a ComponentAnswer>,
) -> BTreeMap<SetMember, OpId> {
    let mut indexes: BTreeMap<ReplicaSetIndex, BTreeSet<u32>> = BTreeMap::new();
    for (set, index) in config.members.iter().filter_map(of_set) {
        indexes.entry(set).or_default().insert(index);
    }
    let mut proven: BTreeMap<SetMember, OpId> = BTreeMap::new();
    for member in config.members.iter().filter(|m| m.state.in_sync()) {
        let sound = answer_of(member).filter(|a| still_holds(a, OpId::ZERO));
        let (Some((set, _)), Some(answer)) = (of_set(member), sound) else { continue };
        for index in &indexes[&set] {
            let last = proven.entry((set, *index)).or_insert(OpId::ZERO);
            *last = answer.last_written_with(*index).max(*last);
        }
    }
    proven
}

/// Which member of which set it is; none for a witness.
pub(crate) fn of_set(member: &Member) -> Option<SetMember> {
    match member.role {
        Role::Data { set, copy } => Some((set, copy)),
        Role::Witness => None,
    }
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
    use cairn_types::{
        BlockRange, ComponentId, DiskGroupId, Epoch, HostId, Incarnation, Layout, Redundancy, SessionId,
    };

    use super::*;
    use crate::ballot::tests::config_of;

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 3, host: HostId(7), incarnation: Incarnation(1) }, seq }
    }

    fn unsettled(seq: u64) -> UnsettledOp {
        UnsettledOp { op: op(seq), range: BlockRange::new(0, 1), client: Default::default(), members: 0 }
    }

    fn answer(settled: OpId, window: &[u64]) -> ComponentAnswer {
        ComponentAnswer {
            component: ComponentId(1),
            present: true,
            lost: false,
            session: SessionId(1),
            settled,
            last_written: OpId::ZERO,
            last_written_with: Vec::new(),
            window: window.iter().map(|seq| unsettled(*seq)).collect(),
            log_damaged: false,
        }
    }

    /// Three members of rows of 2+1, of which these are in sync.
    fn rows(in_sync: [bool; 3]) -> ObjectConfig {
        let member = |index: u32| Member {
            component: ComponentId(u128::from(index)),
            host: HostId(u128::from(index)),
            disk_group: DiskGroupId(1),
            votes: 1,
            role: Role::Data { set: 0, copy: index },
            state: match in_sync[index as usize] {
                true => ComponentState::Active,
                false => ComponentState::Absent { stale_since: OpId::ZERO },
            },
        };
        let mut config = config_of("");
        config.addresses = Layout {
            redundancy: Redundancy::Parity { data: 2, parity: 1, strip_blocks: 1 },
            ..config.addresses.last().layout
        }
        .into();
        config.members = (0..3).map(member).collect();
        config
    }

    /// Number of an operation, the members that it concerns, and which of the three hold it.
    type HeldOp = (u64, u16, [bool; 3]);
    /// What is tried, who is in sync, the operations, and those that stand.
    type Case = (&'static str, [bool; 3], &'static [HeldOp], &'static [u64]);

    /// Goal: an operation on rows stands if each member in sync that it concerns has it; the others decide nothing. Method: operations of all
    /// members (0b111), of column 0 and parity (0b101), of column 1 and parity (0b110), held by some.
    #[test]
    fn an_operation_on_rows_is_settled_by_those_that_it_concerns() {
        let table: [Case; 6] = [
            ("all that it concerns have it", [true; 3], &[(1, 0b101, [true, false, true])], &[1]),
            ("parity lacks it", [true; 3], &[(1, 0b101, [true, false, false])], &[]),
            ("data lack it", [true; 3], &[(1, 0b101, [false, false, true])], &[]),
            (
                "its column is absent: parity has it for both",
                [false, true, true],
                &[(1, 0b101, [false, false, true])],
                &[1],
            ),
            ("parity is absent: the column has it", [true, true, false], &[(1, 0b101, [true, false, false])], &[1]),
            (
                "each by its own members",
                [true; 3],
                &[(1, 0b111, [true; 3]), (2, 0b110, [false, true, false]), (3, 0b101, [true, false, true])],
                &[1, 3],
            ),
        ];
        for (what, in_sync, ops, stand) in table {
            let config = rows(in_sync);
            let answers: Vec<ComponentAnswer> = (0..3usize)
                .map(|index| {
                    let held = ops.iter().filter(|(_, _, holders)| holders[index]);
                    let window =
                        held.map(|(seq, members, _)| UnsettledOp { members: *members, ..unsettled(*seq) }).collect();
                    ComponentAnswer { component: ComponentId(index as u128), window, ..answer(OpId::ZERO, &[]) }
                })
                .collect();
            let heard =
                (0..3usize).filter(|index| in_sync[*index]).map(|index| (ComponentId(index as u128), &answers[index]));
            let settled = settle(&config, &heard.collect(), OpId::ZERO);
            assert_eq!(settled.committed, stand.iter().map(|seq| op(*seq)).collect::<Vec<_>>(), "{what}");
            for (component, undone) in settled.undo {
                let held = |seq: OpId| answers[component.0 as usize].window.iter().any(|u| u.op == seq);
                assert!(undone.iter().all(|op| held(*op) && !settled.committed.contains(op)), "{what}");
            }
        }
    }

    /// Goal: a member is refuted only by operations that concerned it. Method: parity took operation 9 with column 0, and 4 with column 1.
    #[test]
    fn a_member_must_have_what_concerned_it() {
        let config = rows([true; 3]);
        let answers: Vec<ComponentAnswer> =
            [[op(9), OpId::ZERO, op(9)], [OpId::ZERO, op(4), op(4)], [op(9), op(4), op(9)]]
                .into_iter()
                .map(|with| ComponentAnswer { last_written_with: with.to_vec(), ..answer(op(9), &[]) })
                .collect();
        let proven = proven(&config, |m| answers.get(m.component.0 as usize));
        assert_eq!(proven, BTreeMap::from([((0, 0), op(9)), ((0, 1), op(4)), ((0, 2), op(9))]));
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
