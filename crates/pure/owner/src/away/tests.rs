//! What is missed, what comes back and with what, what is replaced.

use cairn_types::{BlockRange, UnsettledOp};

use super::*;
use crate::testing::{A, B, C, D, NEWER, WITNESS, answer, member, old_op, op, owner, session};

const NOW: Time = Time(100_000_000_000);

fn promised(components: Vec<ComponentAnswer>) -> Option<SeizeAnswer> {
    Some(SeizeAnswer::Promised { accepted: None, components })
}

fn absent_d() -> Member {
    member(D, ComponentState::Absent { stale_since: old_op(4) })
}

#[test]
fn what_is_away_is_missed_as_long_as_another_copy_answers() {
    let mut state = owner();
    let away = state.long_away(|seat| [A, WITNESS, D].map(|c| HostId(c.0)).contains(&seat.host));
    assert_eq!(away.iter().map(|m| m.component).collect::<Vec<_>>(), [A, WITNESS], "D is recorded already");
    assert!(away.iter().all(|m| state.miss(m, |_| true)));
    assert!(state.has_failed(A) && state.has_failed(WITNESS));
    let b = member(B, ComponentState::Active);
    assert!(!state.miss(&b, |_| true), "A has failed, and C is no copy yet");
    let mut state = owner();
    assert!(!state.miss(&away[0], |leg| leg.component != B), "B does not answer either");
    assert!(!state.has_failures());
}

#[test]
fn an_absent_component_is_asked_back_when_failures_are_recorded() {
    let mut state = owner();
    assert!(state.is_asked_back(&absent_d(), NOW));
    assert!(!state.is_asked_back(&member(C, ComponentState::Active), NOW));
    state.keep_out(D, NOW + Duration::from_secs(1));
    assert!(!state.is_asked_back(&absent_d(), NOW));
    assert!(state.is_asked_back(&absent_d(), NOW + Duration::from_secs(1)));
    state.fail(A, false);
    assert!(!state.is_asked_back(&absent_d(), NOW + Duration::from_secs(2)));
}

/// Goal: it is filled from where it left, and what it holds above that is undone first, newest first.
#[test]
fn a_copy_that_comes_back_undoes_what_may_not_stand() {
    let mut state = owner();
    let unsettled =
        |seq| UnsettledOp { op: old_op(seq), range: BlockRange::new(0, 1), client: Default::default(), members: 0 };
    let held = ComponentAnswer { window: [3, 5, 6].map(unsettled).to_vec(), ..answer(D, old_op(2)) };
    let Returned::Fill { rejoin, session } = state.on_returned(&absent_d(), promised(vec![held])) else {
        panic!("it is filled")
    };
    assert_eq!(rejoin.state, ComponentState::Resyncing { stale_since: old_op(4) });
    assert_eq!((rejoin.undo, session), (vec![old_op(6), old_op(5)], SessionId(77)));
}

#[test]
fn a_copy_that_lacks_what_it_acknowledged_is_filled_from_the_beginning() {
    let mut state = owner();
    state.on_acked(D, op(9));
    let Returned::Fill { rejoin, .. } = state.on_returned(&absent_d(), promised(vec![answer(D, op(8))])) else {
        panic!("it is filled")
    };
    assert_eq!(rejoin.state, ComponentState::Resyncing { stale_since: OpId::ZERO });
    assert_eq!(state.acked(D), OpId::ZERO, "it matters no more");
}

#[test]
fn what_does_not_come_back() {
    let lost = ComponentAnswer { lost: true, ..answer(D, old_op(4)) };
    let empty = ComponentAnswer { present: false, ..answer(D, old_op(4)) };
    for gone in
        [promised(vec![lost]), promised(vec![empty]), promised(vec![answer(A, op(1))]), Some(SeizeAnswer::NoSeat)]
    {
        assert_eq!(owner().on_returned(&absent_d(), gone), Returned::Degrade);
    }
    let held = Some(SeizeAnswer::LeaseHeld { by: NEWER, for_ms: 5 });
    assert_eq!(owner().on_returned(&absent_d(), held), Returned::No);
    assert_eq!(owner().on_returned(&absent_d(), None), Returned::No);
    let newer = Some(SeizeAnswer::Promisee { promised: NEWER });
    assert_eq!(owner().on_returned(&absent_d(), newer), Returned::Fenced(NEWER));
}

#[test]
fn a_witness_has_nothing_to_catch_up_with() {
    let mut state = owner();
    let away = member(WITNESS, ComponentState::Absent { stale_since: OpId::ZERO });
    let damaged = ComponentAnswer { log_damaged: true, ..answer(WITNESS, OpId::ZERO) };
    let back = |state: &mut State, answer| state.on_returned(&away, promised(vec![answer]));
    assert_eq!(back(&mut state, answer(WITNESS, OpId::ZERO)), Returned::Witness { forgetful: false });
    assert_eq!(back(&mut state, damaged.clone()), Returned::Witness { forgetful: true });
    let copy = ComponentAnswer { log_damaged: true, ..answer(A, OpId::ZERO) };
    assert_eq!(state.forgetful_witnesses(&[damaged, copy, answer(WITNESS, OpId::ZERO)]), [WITNESS]);
}

#[test]
fn a_copy_at_rest_whose_host_started_anew_stays_in_sync() {
    let a = member(A, ComponentState::Active);
    let link = |state: &State| state.link_of(A).map(|link| link.target.session);
    let mut state = owner();
    assert!(state.on_started_anew(&a, session(A), Some(&answer(A, OpId::ZERO))));
    assert_eq!((link(&state), state.has_failures()), (Some(SessionId(77)), false));
    // That was another admission.
    assert!(!state.on_started_anew(&a, session(A), None));
    assert!(!state.has_failures());
    // It lacks what it acknowledged; or nobody knows; or something is on its way.
    let told = answer(A, OpId::ZERO);
    for (acked, writes, answer) in
        [(op(3), false, Some(&told)), (OpId::ZERO, true, Some(&told)), (OpId::ZERO, false, None)]
    {
        let mut state = owner();
        state.on_acked(A, acked);
        if writes {
            state.begin(0, 0);
        }
        assert!(state.on_started_anew(&a, session(A), answer));
        assert!(state.has_failed(A) && link(&state) == Some(session(A)));
    }
}

#[test]
fn what_is_replaced_and_when() {
    let rules = |now, only_forgotten| RepairRules { now, delay: Duration::from_secs(60), only_forgotten };
    let mut state = owner();
    let mut absences = Absences::default();
    absences.look(state.config(), NOW);
    let due = |state: &State, absences: &Absences, seconds, only_forgotten, forgotten: &[ComponentId]| {
        let rules = rules(NOW + Duration::from_secs(seconds), only_forgotten);
        state.to_be_replaced(absences, rules, |host| forgotten.iter().any(|c| c.0 == host.0))
    };
    assert_eq!(due(&state, &absences, 59, false, &[]), []);
    assert_eq!(due(&state, &absences, 60, false, &[]), [D]);
    assert_eq!(due(&state, &absences, 60, true, &[]), []);
    assert_eq!(due(&state, &absences, 0, true, &[D, A]), [D], "A is not absent");
    state.fail(B, true);
    let next = state.failures_to_record().expect("A is left");
    state.adopt(next, cairn_types::Csn(8), &Default::default());
    assert_eq!(due(&state, &absences, 0, false, &[]), [B]);
    assert_eq!(absences.all_ms(NOW + Duration::from_secs(2)), [(D, 2000)]);
    absences.look(&state.config_with(D, ComponentState::Degraded), NOW);
    assert_eq!(absences.all_ms(NOW), []);
}
