//! Each answer that a copy can give, and the steps of an operation that follow.

use super::*;
use crate::testing::{A, B, C, D, EPOCH, NEWER, in_sync, op, owner, owner_of_rows, session};

const NOW: Time = Time(1_000_000_000);

fn now() -> Time {
    NOW
}

fn answered(component: ComponentId, reply: Result<(), Refusal>) -> Answered {
    Answered { op: op(1), component, session: session(component), reply }
}

/// What a refusal of a component means to an owner of which nothing has failed.
fn refused(component: ComponentId, refusal: Refusal) -> (State, Verdict, Option<AnswerEffect>) {
    let mut state = owner();
    let (verdict, effect) = state.on_answer(answered(component, Err(refusal)), now);
    (state, verdict, effect)
}

/// How the component's failure would be recorded.
fn recorded_as(state: &State, component: ComponentId) -> &'static str {
    use cairn_types::ComponentState::{Absent, Active, Degraded, Resyncing};
    match state.config_with_failures().member(component).expect("a member").state {
        Active => "active",
        Resyncing { .. } => "resyncing",
        Absent { .. } => "absent",
        Degraded => "degraded",
    }
}

#[test]
fn what_is_done_is_acknowledged_by_the_component() {
    let mut state = owner();
    assert_eq!(state.on_answer(answered(A, Ok(())), now), (Verdict::Done, None));
    assert_eq!((state.acked(A), state.acked(B)), (op(1), OpId::ZERO));
    assert!(!state.has_failures());
}

#[test]
fn a_component_that_does_not_answer_is_recorded_absent() {
    for refusal in [Refusal::Lost, Refusal::Session, Refusal::Media("broken".into()), Refusal::BadBlocks(Vec::new())] {
        let (state, verdict, effect) = refused(A, refusal);
        assert_eq!((verdict, effect), (Verdict::Failed, Some(AnswerEffect::Record)));
        assert_eq!(recorded_as(&state, A), "absent");
    }
}

#[test]
fn a_component_that_is_not_there_is_degraded() {
    let (state, verdict, effect) = refused(B, Refusal::NotFound);
    assert_eq!((verdict, effect), (Verdict::Failed, Some(AnswerEffect::Record)));
    assert_eq!(recorded_as(&state, B), "degraded");
}

#[test]
fn a_newer_epoch_ends_the_owner_whatever_became_of_the_admission() {
    let mut state = owner();
    let late = Answered { session: SessionId(1), ..answered(A, Err(Refusal::Fenced { promised: NEWER })) };
    assert_eq!(state.on_answer(late, now), (Verdict::Failed, Some(AnswerEffect::Fenced(NEWER))));
    assert!(!state.has_failures(), "nothing is recorded any more");
}

/// Goal: what an earlier admission refuses is missing, and says nothing of the present one.
#[test]
fn a_refusal_of_an_earlier_admission_fails_nobody() {
    for refusal in [Refusal::Session, Refusal::NotFound, Refusal::NoSpace, Refusal::Invalid("odd".into())] {
        let mut state = owner();
        let late = Answered { session: SessionId(1), ..answered(A, Err(refusal)) };
        assert_eq!(state.on_answer(late, now), (Verdict::Failed, None));
        assert!(!state.has_failures());
    }
    // One that takes writes no more has no admission.
    let (state, verdict, effect) = refused(D, Refusal::Lost);
    assert_eq!((verdict, effect, state.has_failures()), (Verdict::Failed, None, false));
}

#[test]
fn a_copy_in_sync_that_refuses_fails_the_operation_and_not_itself() {
    let (state, verdict, effect) = refused(A, Refusal::NoSpace);
    assert_eq!((verdict, effect, state.has_failures()), (Verdict::NoSpace, None, false));
    let (state, verdict, effect) = refused(A, Refusal::Invalid("odd".into()));
    assert_eq!((verdict, effect, state.has_failures()), (Verdict::Refused("odd".into()), None, false));
}

#[test]
fn a_copy_that_is_being_filled_and_refuses_fails_itself() {
    let (state, verdict, effect) = refused(C, Refusal::NoSpace);
    assert_eq!((verdict, effect), (Verdict::Failed, Some(AnswerEffect::Record)));
    assert_eq!(recorded_as(&state, C), "absent");
    assert!(!state.may_come(C, NOW + NO_SPACE_PAUSE / 2) && state.may_come(C, NOW + NO_SPACE_PAUSE));
    let (state, verdict, _) = refused(C, Refusal::Invalid("odd".into()));
    assert_eq!((verdict, recorded_as(&state, C)), (Verdict::Failed, "absent"));
    assert!(state.may_come(C, NOW));
}

#[test]
fn a_copy_past_the_barrier_counts_as_one_in_sync() {
    let mut state = owner();
    state.begin_barrier(C);
    assert_eq!(state.on_answer(answered(C, Err(Refusal::NoSpace)), now), (Verdict::NoSpace, None));
    assert!(state.may_come(C, NOW));
}

#[test]
fn a_component_that_cannot_undo_is_recorded_absent() {
    for refusal in [Refusal::NoSpace, Refusal::Lost, Refusal::Invalid("odd".into())] {
        let mut state = owner();
        let (undone, effect) = state.on_undo_answer(answered(A, Err(refusal)), now);
        assert_eq!((undone, effect, recorded_as(&state, A)), (false, Some(AnswerEffect::Record), "absent"));
    }
    assert_eq!(owner().on_undo_answer(answered(A, Ok(())), now), (true, None));
    let fenced = owner().on_undo_answer(answered(A, Err(Refusal::Fenced { promised: NEWER })), now);
    assert_eq!(fenced, (false, Some(AnswerEffect::Fenced(NEWER))));
}

/// An operation that was sent to A, B and C.
struct Written {
    state: State,
    outcome: Outcome,
    missing: Vec<ComponentId>,
}

impl Written {
    fn begun() -> Self {
        let mut state = owner();
        let (begun, _, legs) = state.begin(0, 0);
        assert_eq!(begun, op(1));
        Self { state, outcome: Outcome::default(), missing: legs.iter().map(|leg| leg.component).collect() }
    }

    fn answer(&mut self, component: ComponentId, reply: Result<(), Refusal>) -> Step {
        self.missing.retain(|c| *c != component);
        let (verdict, _) = self.state.on_answer(answered(component, reply), now);
        self.outcome.take(verdict, component);
        self.step()
    }

    fn step(&mut self) -> Step {
        self.outcome.step(&self.state, self.missing.iter().copied())
    }

    /// The failures that are noted take effect.
    fn record(&mut self) -> Step {
        let next = self.state.failures_to_record().expect("a copy is left");
        let csn = cairn_types::Csn(self.state.csn().0 + 1);
        self.state.adopt(next, csn, &Default::default());
        self.step()
    }

    fn is_held(&self) {
        self.outcome.assert_held(&self.state, (0, 0), |c| !self.missing.contains(&c));
    }
}

/// W1. Goal: it waits for those in sync and for nobody else.
#[test]
fn it_is_acknowledged_when_all_in_sync_have_it() {
    let mut w = Written::begun();
    assert_eq!(w.step(), Step::Hear);
    assert_eq!(w.answer(A, Ok(())), Step::Hear);
    assert_eq!(w.answer(B, Ok(())), Step::Acknowledge);
    w.is_held();
    assert_eq!(w.missing, [C]);
}

#[test]
fn past_the_barrier_it_waits_for_the_copy_that_was_filled() {
    let mut w = Written::begun();
    w.state.begin_barrier(C);
    w.answer(A, Ok(()));
    assert_eq!(w.answer(B, Ok(())), Step::Hear);
    assert_eq!(w.answer(C, Ok(())), Step::Acknowledge);
}

/// W2. Goal: who missed it is recorded absent before the acknowledgement, in sync or not.
#[test]
fn it_waits_until_who_missed_it_is_recorded() {
    let mut w = Written::begun();
    assert_eq!(w.answer(A, Err(Refusal::Lost)), Step::Hear);
    assert_eq!(w.answer(B, Ok(())), Step::Record);
    assert!(w.outcome.is_missed());
    assert_eq!(w.record(), Step::Acknowledge);
    w.is_held();
    assert_eq!(in_sync(&w.state), [B]);
    let mut w = Written::begun();
    w.answer(C, Err(Refusal::Session));
    w.answer(A, Ok(()));
    assert_eq!(w.answer(B, Ok(())), Step::Record);
    assert_eq!(w.record(), Step::Acknowledge);
}

/// Goal: a barrier that begins while it waits for a record does not make it wait for more; its end does that for the barrier.
#[test]
fn what_is_needed_later_is_not_waited_for_twice() {
    let mut w = Written::begun();
    w.answer(A, Err(Refusal::Lost));
    assert_eq!(w.answer(B, Ok(())), Step::Record);
    let barrier = w.state.begin_barrier(C);
    assert_eq!(w.record(), Step::Acknowledge);
    assert!(!w.state.is_past(barrier));
    w.answer(C, Ok(()));
    w.state.end(op(1));
    assert!(w.state.is_past(barrier));
}

#[test]
fn an_owner_that_ended_acknowledges_only_what_everyone_has() {
    let mut w = Written::begun();
    w.answer(A, Ok(()));
    w.state.finish(Ended::Fenced(NEWER));
    assert_eq!(w.answer(B, Ok(())), Step::Acknowledge);
    let mut w = Written::begun();
    w.answer(A, Err(Refusal::Lost));
    assert_eq!(w.answer(B, Ok(())), Step::Record);
    w.state.finish(Ended::Fenced(NEWER));
    assert_eq!(w.step(), Step::Ended(Ended::Fenced(NEWER)));
}

/// W3. Goal: what one copy in sync refuses is taken back, also where another one is missing.
#[test]
fn what_a_copy_refuses_is_taken_back() {
    let mut w = Written::begun();
    w.answer(A, Err(Refusal::Invalid("odd".into())));
    assert_eq!(w.answer(B, Err(Refusal::Lost)), Step::TakeBack);
    assert_eq!(w.outcome.given_up(), GivenUp::Refused("odd".into()));
    let mut w = Written::begun();
    w.answer(A, Err(Refusal::Invalid("odd".into())));
    assert_eq!(w.answer(B, Err(Refusal::NoSpace)), Step::TakeBack);
    assert_eq!(w.outcome.given_up(), GivenUp::NoSpace, "that one tells what to do");
}

#[test]
#[should_panic(expected = "on every member in sync")]
fn an_acknowledgement_without_a_copy_in_sync_is_a_bug() {
    let mut w = Written::begun();
    w.answer(A, Ok(()));
    w.is_held();
}

#[test]
fn the_last_copy_is_not_given_up() {
    let mut w = Written::begun();
    w.answer(A, Err(Refusal::Lost));
    assert_eq!(w.answer(B, Err(Refusal::NotFound)), Step::Record);
    let why = w.state.failures_to_record().expect_err("no copy in sync would be left");
    assert!(w.state.finish(why.clone()) && !w.state.finish(Ended::GivenUp));
    assert_eq!(w.step(), Step::Ended(why), "the first reason stands");
    assert_eq!(w.state.epoch(), EPOCH);
}

/// Goal: what goes to parity as a difference is acknowledged by no one before that was sent, and taken back where nobody can tell what it
/// replaces.
#[test]
fn a_difference_waits_for_what_it_replaces() {
    let mut state = owner_of_rows(2, 1, &[cairn_types::ComponentState::Active; 3]);
    state.begin(0, 0b101);
    let mut outcome = Outcome::of_difference();
    assert_eq!(outcome.step(&state, [A].into_iter()), Step::Hear);
    outcome.take(Verdict::Done, A);
    assert_eq!(outcome.step(&state, [].into_iter()), Step::Hear, "nothing is at parity");
    assert!(outcome.on_old_data() && !outcome.on_old_data(), "it comes once");
    assert_eq!(outcome.step(&state, [C].into_iter()), Step::Hear);
    outcome.take(Verdict::Done, C);
    assert_eq!(outcome.step(&state, [].into_iter()), Step::Acknowledge);
    outcome.assert_held(&state, (0, 0b101), |c| c != B);

    let mut outcome = Outcome::of_difference();
    outcome.take(Verdict::Failed, A);
    outcome.on_old_data_lost();
    assert_eq!(outcome.step(&state, [].into_iter()), Step::TakeBack);
    assert_eq!(outcome.given_up(), GivenUp::OldDataLost);
    assert!(!outcome.on_old_data(), "a late answer changes nothing");
}

#[test]
#[should_panic(expected = "a member in sync that the operation concerns")]
fn what_no_member_in_sync_has_is_never_acknowledged() {
    let absent = cairn_types::ComponentState::Absent { stale_since: OpId::ZERO };
    let active = cairn_types::ComponentState::Active;
    let state = owner_of_rows(2, 1, &[active, absent, active]);
    Outcome::default().assert_held(&state, (0, 0b010), |_| true);
}

/// Goal: a member of rows in sync that cannot read what an operation changes fails the operation alone; one that is being filled fails
/// itself, as at a mirror each does.
#[test]
fn a_member_of_rows_that_cannot_read_what_is_changed_fails_the_operation() {
    use cairn_types::ComponentState::{Active, Resyncing};
    let filled = Resyncing { stale_since: OpId::ZERO };
    let bad = || Err(Refusal::BadBlocks(Vec::new()));
    let mut state = owner_of_rows(2, 1, &[Active, filled, Active]);
    assert_eq!(state.on_answer(answered(A, bad()), now), (Verdict::OldDataLost, None));
    assert!(!state.has_failures());
    assert_eq!(state.on_answer(answered(B, bad()), now), (Verdict::Failed, Some(AnswerEffect::Record)));
}

/// Goal: a difference that a parity member could not add is taken back though the other one has it. Method: 2+2; the data member tells
/// what it replaced, one parity member has the difference, and the other cannot read what is there.
#[test]
fn a_difference_that_cannot_be_added_is_taken_back() {
    use cairn_types::ComponentState::Active;
    let mut state = owner_of_rows(2, 2, &[Active; 4]);
    state.begin(0, 0b1101);
    let mut outcome = Outcome::of_difference();
    let mut hear = |component, reply, missing: &[ComponentId]| {
        let (verdict, _) = state.on_answer(answered(component, reply), now);
        outcome.take(verdict, component);
        if component == A {
            assert!(outcome.on_old_data());
        }
        outcome.step(&state, missing.iter().copied())
    };
    assert_eq!(hear(A, Ok(()), &[C, D]), Step::Hear);
    assert_eq!(hear(C, Err(Refusal::BadBlocks(Vec::new())), &[D]), Step::Hear, "the other one may hold it");
    assert_eq!(hear(D, Ok(()), &[]), Step::TakeBack);
    assert_eq!(outcome.given_up(), GivenUp::OldDataLost);
}

/// Goal: a copy that an acknowledgement did not wait for, and that has no room or refuses, is not activated without the operation. Method: its
/// barrier has begun when its answer comes: it is needed by then, and it is for that answer that its activation waits.
#[test]
fn a_copy_past_the_barrier_that_refuses_late_fails() {
    for refusal in [Refusal::NoSpace, Refusal::Invalid("odd".into()), Refusal::Lost] {
        let mut state = owner();
        state.begin_barrier(C);
        let late = state.on_late_answer(answered(C, Err(refusal)), now);
        assert_eq!((late, recorded_as(&state, C)), ((false, Some(AnswerEffect::Record)), "absent"));
        assert_eq!(state.activation(C, session(C)), None);
    }
    assert_eq!(owner().on_late_answer(answered(C, Ok(())), now), (true, None));
}
