//! Which configuration is asked for, and when a filled copy may be in sync.

use std::collections::BTreeMap;

use cairn_types::{Csn, Redundancy, Role};

use super::*;
use crate::{
    state::Admitted,
    testing::{self, A, B, C, D, EPOCH, WITNESS, in_sync, member, old_op, op, owner, session},
};

/// Being filled from the beginning.
const EMPTY: ComponentState = ComponentState::Resyncing { stale_since: OpId::ZERO };

fn adopt(state: &mut State, next: ObjectConfig, admitted: &Admitted) {
    let csn = Csn(state.csn().0 + 1);
    state.adopt(next, csn, admitted);
}

#[test]
fn an_absence_is_recorded_from_what_is_decided_on() {
    let mut state = owner();
    let (first, _, _) = state.begin(0, 0);
    state.end(first);
    state.begin(0, 0);
    state.fail(A, false);
    state.fail(C, false);
    let next = state.failures_to_record().expect("B is left");
    assert_eq!(next.member(A).map(|m| m.state), Some(ComponentState::Absent { stale_since: first }));
    let c = next.member(C).map(|m| m.state);
    assert_eq!(c, Some(ComponentState::Absent { stale_since: old_op(5) }), "it lacks what it lacked before");
    assert_eq!(next.decided, first);
    adopt(&mut state, next, &Admitted::new());
    assert!(!state.has_failures() && state.link_of(A).is_none() && state.link_of(C).is_none());
}

#[test]
fn what_is_gone_for_good_stays_so_when_it_also_falls_silent() {
    let mut state = owner();
    state.fail(A, true);
    state.fail(A, false);
    let next = state.failures_to_record().expect("B is left");
    assert_eq!(next.member(A).map(|m| m.state), Some(ComponentState::Degraded));
}

#[test]
fn a_failure_of_what_takes_no_writes_is_none() {
    let mut state = owner();
    state.fail(D, true);
    assert!(!state.has_failures());
}

#[test]
fn the_last_copy_in_sync_ends_the_ownership() {
    let mut state = owner();
    state.fail(A, false);
    state.fail(B, true);
    assert!(matches!(state.failures_to_record(), Err(Ended::Inaccessible(why)) if why.contains("no copy in sync")));
}

/// Y2. Goal: the barrier is past when all that was begun before it is decided, and the activation says what is.
#[test]
fn a_filled_copy_is_activated_behind_its_barrier() {
    let mut state = owner();
    let (before, _, _) = state.begin(0, 0);
    assert!(!state.requires(C));
    let barrier = state.begin_barrier(C);
    assert!(state.requires(C));
    let (after, _, _) = state.begin(0, 0);
    assert!(!state.is_past(barrier));
    state.end(before);
    assert!(state.is_past(barrier), "later ones are acknowledged by it too");
    let Activation { next, was_empty } = state.activation(C, session(C)).expect("it is being filled");
    assert_eq!((next.decided, was_empty), (before, false));
    assert!(next.member(C).is_some_and(|m| m.state.in_sync()) && after > before);
    adopt(&mut state, next, &Admitted::new());
    assert_eq!(in_sync(&state), [A, B, C]);
    assert_eq!(state.activation(C, session(C)), None, "it is in sync");
}

#[test]
fn only_the_present_admission_is_filled() {
    let mut state = owner();
    assert_eq!(state.being_filled(C, session(C)), Some((0, old_op(5))));
    assert_eq!(state.being_filled(C, session(A)), None);
    assert_eq!(state.being_filled(A, session(A)), None);
    state.fail(C, false);
    assert_eq!(state.being_filled(C, session(C)), None);
    let mut state = owner();
    state.finish(Ended::GivenUp);
    assert_eq!(state.activation(C, session(C)), None);
}

#[test]
fn other_members_keep_what_is_known_of_them() {
    let mut state = owner();
    let old = [member(A, ComponentState::Active), member(C, ComponentState::Absent { stale_since: op(1) })];
    let next =
        state.config_of_members(&old, &[B], (state.config().addresses.clone(), 2 << 20)).expect("nothing failed");
    assert_eq!(next.member(C).map(|m| m.state), Some(ComponentState::Resyncing { stale_since: old_op(5) }));
    assert_eq!((next.members.len(), next.size_bytes), (2, 2 << 20));
    state.fail(C, false);
    assert_eq!(state.config_of_members(&old, &[B], (state.config().addresses.clone(), 2 << 20)), Err(FailureFirst));
    assert!(
        state.config_of_members(&old, &[D], (state.config().addresses.clone(), 2 << 20)).is_ok(),
        "what leaves is no copy in sync"
    );
}

/// Goal: what is moving takes its place, with witnesses that are new and with no copy that is. Method: one copy becomes two stripes.
#[test]
fn a_part_takes_its_place_with_new_witnesses() {
    let mut config = testing::config(vec![member(A, ComponentState::Active)]);
    let (moving, count) = cairn_geometry::moving_at(&config, 0, Redundancy::Mirror { copies: 1 }, 2);
    config.addresses = config.addresses.begun(moving, count);
    let at = |set, component| Member { role: Role::Data { set, copy: 0 }, ..member(component, EMPTY) };
    let apart: Vec<Member> = (0..count).zip([B, C]).map(|(n, id)| at(moving.to.first_set + n, id)).collect();
    config.members.extend(&apart);
    let sessions = [A, B, C].map(|component| (component, session(component)));
    let state = State::new(config, Csn(1), EPOCH, &BTreeMap::from(sessions), BTreeMap::new());
    let mut members = apart;
    members.push(member(WITNESS, ComponentState::Active));
    let next = state.config_once_moved(&members).expect("nothing has failed");
    assert!(next.addresses.moving().is_none() && next.members.iter().all(|m| m.state.in_sync()));
    assert_eq!(next.members.len(), 3);
    members.push(at(moving.to.first_set, D));
    assert_eq!(state.config_once_moved(&members), None, "nobody filled it");
}
