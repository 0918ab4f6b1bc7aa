//! A small object for the tests of this crate: copies A and B in sync, C being filled, D absent, and a witness.

use std::collections::BTreeMap;

use cairn_types::{
    ComponentId, ComponentState, Csn, DiskGroupId, Epoch, HostId, Incarnation, Layout, Member, ObjectConfig, ObjectId,
    OpId, Policy, Redundancy, Role, SessionId,
};
use cairn_wire::ComponentAnswer;

use crate::state::State;

pub(crate) const A: ComponentId = ComponentId(1);
pub(crate) const B: ComponentId = ComponentId(2);
pub(crate) const C: ComponentId = ComponentId(3);
pub(crate) const D: ComponentId = ComponentId(4);
pub(crate) const WITNESS: ComponentId = ComponentId(9);
pub(crate) const EPOCH: Epoch = Epoch { number: 3, host: HostId(1), incarnation: Incarnation(1) };
pub(crate) const NEWER: Epoch = Epoch { number: 4, ..EPOCH };

/// An operation of the owner.
pub(crate) fn op(seq: u64) -> OpId {
    OpId { epoch: EPOCH, seq }
}

/// An operation of the owner before.
pub(crate) fn old_op(seq: u64) -> OpId {
    OpId { epoch: Epoch { number: 2, ..EPOCH }, seq }
}

/// The session that the component was admitted with.
pub(crate) fn session(component: ComponentId) -> SessionId {
    SessionId(component.0 as u64 * 10)
}

pub(crate) fn member(component: ComponentId, state: ComponentState) -> Member {
    let role = match component {
        WITNESS => Role::Witness,
        copy => Role::Data { set: 0, copy: copy.0 as u32 },
    };
    let (host, disk_group) = (HostId(component.0), DiskGroupId(component.0));
    Member { component, host, disk_group, votes: 1, role, state }
}

pub(crate) fn config(members: Vec<Member>) -> ObjectConfig {
    ObjectConfig {
        object: ObjectId(1),
        name: String::new(),
        size_bytes: 1 << 20,
        policy: Policy::default(),
        policy_name: String::new(),
        addresses: Layout {
            chunk_bytes: 1 << 20,
            stripe_width: 1,
            strip_bytes: 1 << 20,
            redundancy: Redundancy::Mirror { copies: 2 },
        }
        .into(),
        members,
        decided: OpId::ZERO,
        deleted: false,
        past: None,
        ancestry: None,
    }
}

/// The owner of it, which has just won.
pub(crate) fn owner() -> State {
    let members = vec![
        member(A, ComponentState::Active),
        member(B, ComponentState::Active),
        member(C, ComponentState::Resyncing { stale_since: old_op(5) }),
        member(D, ComponentState::Absent { stale_since: old_op(4) }),
        member(WITNESS, ComponentState::Active),
    ];
    let sessions = [A, B, C].map(|component| (component, session(component)));
    State::new(config(members), Csn(7), EPOCH, &BTreeMap::from(sessions), BTreeMap::new())
}

/// The members of the set in sync.
pub(crate) fn in_sync(state: &State) -> Vec<ComponentId> {
    state.in_sync(0).iter().map(|member| member.component).collect()
}

/// The owner of rows of so many strips of data and parity on as many members in these states: the one with index `n` is component `n + 1`.
pub(crate) fn owner_of_rows(data: u8, parity: u8, states: &[ComponentState]) -> State {
    let members = states.iter().enumerate().map(|(copy, state)| {
        let component = ComponentId(copy as u128 + 1);
        Member { role: Role::Data { set: 0, copy: copy as u32 }, ..member(component, *state) }
    });
    let mut config = config(members.collect());
    config.addresses =
        Layout { redundancy: Redundancy::Parity { data, parity, strip_blocks: 1 }, ..config.addresses.last().layout }
            .into();
    let taking = config.members.iter().filter(|m| m.state.takes_writes());
    let sessions = taking.map(|m| (m.component, session(m.component))).collect();
    State::new(config, Csn(7), EPOCH, &sessions, BTreeMap::new())
}

/// What a component answers that has everything up to `settled`.
pub(crate) fn answer(component: ComponentId, settled: OpId) -> ComponentAnswer {
    ComponentAnswer {
        component,
        present: true,
        lost: false,
        session: SessionId(77),
        settled,
        last_written: OpId::ZERO,
        last_written_with: Vec::new(),
        window: Vec::new(),
        log_damaged: false,
    }
}
