//! One operation on one replica set, from the answers of its copies to the acknowledgement.
//!
//! Promises    W1  ack => every component in sync in the effective config holds the operation        (I3)
//!             W2  a component that missed it is recorded absent before the ack                       (I4)
//!             W3  an operation that a copy refused is undone everywhere, and never acknowledged      (I9)
//! Assumes     each copy that it was sent to answers, or is found to be lost (`Refusal::Lost`)
//! Not here    sending, waiting, the lock of its blocks (`object`)
//!
//! The driver asks [`Outcome::step`] what comes next: after each answer, and whenever a failure was recorded or the owner ended.

use std::time::Duration;

use cairn_types::{Canary, ComponentId, Epoch, OpId, ReplicaSetIndex, SessionId, Time, concerns};
use cairn_wire::Refusal;
use serde::Serialize;

use crate::state::{Ended, MemberMask, State};

/// How long a copy that could not be filled for want of space is left alone.
const NO_SPACE_PAUSE: Duration = Duration::from_secs(10);

/// A component answered an operation, or its undoing.
#[derive(Debug)]
pub struct Answered {
    /// Which operation.
    pub op: OpId,
    /// Who.
    pub component: ComponentId,
    /// The admission that it was sent in.
    pub session: SessionId,
    /// Done: it is on stable media.
    pub reply: Result<(), Refusal>,
}

/// What an answer means for the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The component has it.
    Done,
    /// The component does not have it, or may not: that is recorded before the acknowledgement.
    Failed,
    /// A copy in sync has no room for it: nobody keeps it.
    NoSpace,
    /// A copy in sync refuses it, and says why: nobody keeps it.
    Refused(String),
    /// A member of rows in sync cannot read what it changes there: nobody keeps it, and it may be begun again as one that needs
    /// nothing of that.
    OldDataLost,
}

/// What the driver has to do after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEffect {
    /// A failure was noted: it is to be recorded.
    Record,
    /// A newer epoch was promised: the owner ends.
    Fenced(Epoch),
}

impl State {
    /// What an answer means. Failures are noted at once. `now` is called where a clock is needed: most answers come without.
    pub fn on_answer(&mut self, answered: Answered, now: impl FnOnce() -> Time) -> (Verdict, Option<AnswerEffect>) {
        let Answered { op, component, session, reply } = answered;
        let refusal = match reply {
            Ok(()) => {
                self.on_acked(component, op);
                return (Verdict::Done, None);
            }
            Err(refusal) => refusal,
        };
        let same = self.link_of(component).is_some_and(|link| link.target.session == session);
        let for_good = match refusal {
            Refusal::Fenced { promised } => return (Verdict::Failed, Some(AnswerEffect::Fenced(promised))),
            // Recorded absent since, perhaps admitted anew: it is not that admission that failed, and its resync
            // waits for the end of this operation and copies what it touched.
            _ if !same => return (Verdict::Failed, None),
            // What is being filled and does not take it is no copy: neither the guest nor the resync may go on as if it were.
            Refusal::NoSpace if !self.requires(component) => {
                self.keep_out(component, now() + NO_SPACE_PAUSE);
                false
            }
            Refusal::NoSpace => return (Verdict::NoSpace, None),
            Refusal::Invalid(text) if self.requires(component) => return (Verdict::Refused(text), None),
            Refusal::BadBlocks(_) if self.is_of_rows(component) && self.requires(component) => {
                return (Verdict::OldDataLost, None);
            }
            Refusal::NotFound => true,
            _ => false,
        };
        self.fail(component, for_good);
        (Verdict::Failed, Some(AnswerEffect::Record))
    }

    /// What an answer means that no acknowledgement waited for. Who does not have the operation fails, whatever he says: he may have come to be
    /// needed since, at the barrier before his activation, and is not to be activated without it. True: he has it.
    pub fn on_late_answer(&mut self, answered: Answered, now: impl FnOnce() -> Time) -> (bool, Option<AnswerEffect>) {
        let component = answered.component;
        match self.on_answer(answered, now) {
            (Verdict::Done, effect) => (true, effect),
            (Verdict::Failed, effect) => (false, effect),
            (Verdict::NoSpace | Verdict::Refused(_) | Verdict::OldDataLost, _) => {
                self.fail(component, false);
                (false, Some(AnswerEffect::Record))
            }
        }
    }

    /// What an answer to an undo means: one that cannot is recorded absent. True: it is undone.
    pub fn on_undo_answer(&mut self, answered: Answered, now: impl FnOnce() -> Time) -> (bool, Option<AnswerEffect>) {
        let component = answered.component;
        let (verdict, effect) = self.on_answer(answered, now);
        if verdict == Verdict::Done {
            return (true, effect);
        }
        self.fail(component, false);
        (false, effect.or(Some(AnswerEffect::Record)))
    }

    /// Whether none of the components takes writes any more in the effective config, where that is known: none while their failures are
    /// still to be recorded, an error where the owner ended before.
    pub fn recorded(&self, components: &[ComponentId]) -> Option<Result<(), Ended>> {
        // With no failure the ack is right even if the owner ended meanwhile: every in-sync copy has the operation
        // on stable media, so whoever settles finds it everywhere and keeps it.
        if components.is_empty() || Canary::AbsenceNotRecorded.sings() {
            return Some(Ok(()));
        }
        if let Some(ended) = self.ended() {
            return Some(Err(ended.clone()));
        }
        components.iter().all(|c| !self.has_failed(*c)).then_some(Ok(()))
    }
}

/// What a member of a row tells of the block that an operation replaces there: parity members are sent the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
enum OldData {
    /// The operation needs none.
    #[default]
    NotAsked,
    /// It is being read; the operation is at the data member alone.
    Awaited,
    /// It came, and the differences were sent.
    Came,
    /// Nobody can tell it, or a parity member cannot read what it would be added to: no member keeps the operation.
    Lost,
}

/// The answers to one operation so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Outcome {
    failed: Vec<ComponentId>,
    no_space: bool,
    refused: Option<String>,
    old_data: OldData,
    /// Everyone who was needed has answered.
    heard: bool,
}

/// What an operation does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It hears the next answer: one is missing that the acknowledgement waits for.
    Hear,
    /// It hears all answers, is undone at every copy that it was sent to, and is refused.
    TakeBack,
    /// It waits: who missed it is to be recorded absent.
    Record,
    /// It is acknowledged.
    Acknowledge,
    /// The owner ended: whether it stands is for the next one to decide.
    Ended(Ended),
}

/// Why an operation is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenUp {
    /// A device had no room.
    NoSpace,
    /// A copy refused it, and said why.
    Refused(String),
    /// What it replaces could not be read, so parity could not follow. It may be begun again as one that makes the row's parity anew.
    OldDataLost,
}

impl Outcome {
    /// Of an operation that goes to parity members as a difference: it waits for what it replaces.
    pub fn of_difference() -> Self {
        Self { old_data: OldData::Awaited, ..Self::default() }
    }

    /// What it replaces was read: the differences go out. False: it is not waited for any more.
    pub fn on_old_data(&mut self) -> bool {
        let awaited = self.old_data == OldData::Awaited;
        if awaited {
            self.old_data = OldData::Came;
        }
        awaited
    }

    /// What it replaces cannot be read: it is taken back, wherever it is.
    pub fn on_old_data_lost(&mut self) {
        if self.old_data == OldData::Awaited {
            self.old_data = OldData::Lost;
        }
    }

    /// Takes an answer in.
    pub fn take(&mut self, verdict: Verdict, component: ComponentId) {
        match verdict {
            Verdict::Done => {}
            Verdict::Failed => self.failed.push(component),
            Verdict::NoSpace => self.no_space = true,
            Verdict::Refused(text) => self.refused = Some(text),
            // Of a difference too that went out: what parity members took of it is taken back.
            Verdict::OldDataLost => self.old_data = OldData::Lost,
        }
        self.heard |= Canary::AckFirstCopy.sings();
    }

    /// What comes next. `missing`: the components whose answers are.
    pub fn step(&mut self, state: &State, mut missing: impl Iterator<Item = ComponentId>) -> Step {
        // Those that are to get the difference have not been asked yet.
        if self.old_data == OldData::Awaited {
            return Step::Hear;
        }
        // Once: what comes to be needed later waits for the end of the operation itself.
        self.heard = self.heard || !missing.any(|component| state.requires(component));
        if !self.heard {
            return Step::Hear;
        }
        if self.no_space || self.refused.is_some() || self.old_data == OldData::Lost {
            return Step::TakeBack;
        }
        match state.recorded(&self.failed) {
            None => Step::Record,
            Some(Ok(())) => Step::Acknowledge,
            Some(Err(ended)) => Step::Ended(ended),
        }
    }

    /// Whether some component missed it.
    pub fn is_missed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Why it is taken back.
    pub fn given_up(&self) -> GivenUp {
        match &self.refused {
            _ if self.no_space => GivenUp::NoSpace,
            Some(text) => GivenUp::Refused(text.clone()),
            None => GivenUp::OldDataLost,
        }
    }

    /// W1, where the acknowledgement is given: one member at least has the operation, and each in sync that it concerns. `answered`: it was
    /// sent to the component, and that answered.
    ///
    /// # Panics
    /// It is not so.
    pub fn assert_held(
        &self,
        state: &State,
        (set, members): (ReplicaSetIndex, MemberMask),
        answered: impl Fn(ComponentId) -> bool,
    ) {
        // These bugs are for those who look from outside.
        let hidden = [Canary::LegMissing, Canary::AckFirstCopy, Canary::AbsenceNotRecorded, Canary::NoBarrier];
        if hidden.into_iter().any(Canary::sings) {
            return;
        }
        let in_sync = state.in_sync(set);
        let mut concerned = in_sync.iter().filter(|m| concerns(members, m.copy)).map(|m| m.component).peekable();
        let held = |c: ComponentId| answered(c) && !self.failed.contains(&c);
        assert!(concerned.peek().is_some(), "replica set {set} has a member in sync that the operation concerns");
        assert!(concerned.all(held), "what is acknowledged is on every member in sync of replica set {set}");
    }
}

#[cfg(test)]
mod tests;
