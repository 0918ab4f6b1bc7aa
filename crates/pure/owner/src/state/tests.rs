//! What an owner knows after each thing that happens to it.

use super::*;
use crate::testing::{A, B, C, D, EPOCH, config, in_sync, member, old_op, op, owner, owner_of_rows, session};

fn components(legs: &[Leg]) -> Vec<ComponentId> {
    legs.iter().map(|leg| leg.component).collect()
}

/// Goal: an operation goes to all that take writes, to the own host first, and waits for those in sync.
#[test]
fn an_operation_goes_to_all_that_take_writes() {
    let members =
        vec![member(B, ComponentState::Active), member(C, ComponentState::Active), member(A, ComponentState::Active)];
    let sessions = BTreeMap::from([A, B, C].map(|component| (component, session(component))));
    let mut state = State::new(config(members), Csn(1), EPOCH, &sessions, BTreeMap::new());
    assert_eq!(components(&state.begin(0, 0).2), [A, B, C], "A lives on the owner's host");
    let mut state = owner();
    assert_eq!(components(&state.begin(0, 0).2), [A, B, C]);
    assert_eq!(in_sync(&state), [A, B]);
    assert_eq!([A, B, C, D].map(|component| state.requires(component)), [true, true, false, false]);
    assert!(state.begin(1, 0).2.is_empty(), "there is no such set");
}

#[test]
#[should_panic(expected = "a component in sync takes writes")]
fn a_component_in_sync_that_is_not_admitted_is_a_bug() {
    State::new(config(vec![member(A, ComponentState::Active)]), Csn(1), EPOCH, &BTreeMap::new(), BTreeMap::new());
}

#[test]
fn what_is_settled_is_below_the_first_in_flight() {
    let mut state = owner();
    let ops: Vec<OpId> = (0..3).map(|_| state.begin(0, 0).0).collect();
    assert_eq!((state.settled(), state.last()), (op(0), op(3)));
    state.end(ops[1]);
    assert_eq!(state.settled(), op(0));
    state.end(ops[0]);
    assert!(state.is_settled(op(2)) && !state.is_settled(op(3)) && state.is_in_flight(op(3)));
    state.end(ops[2]);
    assert!(state.is_idle() && state.is_settled(op(3)));
}

#[test]
fn settled_is_told_once_after_operations() {
    let mut state = owner();
    assert_eq!(state.settled_to_tell(), Some(op(0)), "what the owner before left is over");
    assert_eq!((state.settled_to_tell(), state.wrote()), (None, false));
    let (first, _, _) = state.begin(0, 0);
    assert_eq!((state.settled_to_tell(), state.wrote()), (None, true), "it is in flight");
    state.end(first);
    assert_eq!(state.settled_to_tell(), Some(first));
    assert_eq!((state.settled_to_tell(), state.wrote()), (None, false));
}

/// Goal: a copy that is filled hears of what is settled while other operations are under way; where none is filled nobody does before they have ended.
/// Method: two operations, the first one ends; with a copy that is filled, and without.
#[test]
fn settled_is_told_in_between_while_a_copy_is_filled() {
    let between = |mut state: State| {
        state.settled_to_tell();
        let ((first, _, _), (second, _, _)) = (state.begin(0, 0), state.begin(0, 0));
        state.end(first);
        let told = state.settled_to_tell();
        assert_eq!(state.settled_to_tell(), None, "once");
        state.end(second);
        assert_eq!(state.settled_to_tell(), Some(second));
        (told, first)
    };
    let (told, first) = between(owner());
    assert_eq!(told, Some(first));
    let (told, _) = between(owner_of_rows(1, 1, &[ComponentState::Active; 2]));
    assert_eq!(told, None);
}

/// Goal: a copy that failed is not read, and may have what the others lost as long as it is not gone for good.
#[test]
fn reads_go_to_copies_in_sync_that_have_not_failed() {
    let mut state = owner();
    assert_eq!(components(&state.readable(0)), [A, B]);
    state.fail(A, false);
    assert_eq!(components(&state.readable(0)), [B]);
    assert!(state.may_come_back(0));
    let gone = |component| member(component, ComponentState::Degraded);
    let empty = member(D, ComponentState::Absent { stale_since: OpId::ZERO });
    let members = vec![member(A, ComponentState::Active), member(B, ComponentState::Active), gone(C), empty];
    state.adopt(config(members), Csn(8), &Admitted::new());
    assert!(state.has_failed(A) && state.may_come_back(0));
    state.fail(A, true);
    assert!(!state.may_come_back(0));
}

/// Goal: of what failed, only what still takes writes is left to be recorded, in the same admission or another one.
#[test]
fn a_configuration_in_effect_forgets_what_it_names_no_more() {
    let mut state = owner();
    state.on_acked(B, op(1));
    state.fail(B, false);
    state.fail(C, false);
    let members =
        vec![member(A, ComponentState::Active), member(C, ComponentState::Resyncing { stale_since: old_op(5) })];
    state.adopt(config(members), Csn(8), &Admitted::from([(C, SessionId(77))]));
    assert!(!state.has_failed(B) && state.has_failed(C) && state.acked(B) == OpId::ZERO);
    assert_eq!(state.link_of(C).map(|link| link.target.session), Some(SessionId(77)));
    state.closed(Csn(9));
    assert_eq!(state.csn(), Csn(9));
}

/// Goal: an operation on rows goes to the members that it concerns, and needs no others. Method: columns 0 and 1 and parity are members 0 to 2.
#[test]
fn an_operation_on_rows_goes_to_those_that_it_concerns() {
    let mut state = owner_of_rows(2, 1, &[ComponentState::Active; 3]);
    for (members, to) in [(0b101, vec![A, C]), (0b110, vec![B, C]), (0b111, vec![A, B, C]), (0b001, vec![A])] {
        assert_eq!(components(&state.begin(0, members).2), to);
    }
    let absent = ComponentState::Absent { stale_since: op(0) };
    let mut state = owner_of_rows(2, 1, &[absent, ComponentState::Active, ComponentState::Active]);
    assert_eq!(components(&state.begin(0, 0b101).2), [C], "an absent one takes no writes");
    assert_eq!(state.readable_copies(0), BTreeSet::from([1, 2]));
}
