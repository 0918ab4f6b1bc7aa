//! An owner at work: the product's state and decisions, and what the acting half keeps of messages and of changes on their way.

use std::collections::{BTreeMap, BTreeSet};

use cairn_owner::{Admitted, AnswerEffect, Answered, Outcome, State, Step, Verdict};
use cairn_record::ConfigChange;
use cairn_types::{Accepted, ComponentId, ComponentState, OpId, SessionId, Time};
use cairn_wire::Refusal;
use serde::Serialize;

use super::{Canary, block_of, component_of, letter_of_component};

/// An operation in flight.
#[derive(Debug, Clone, Serialize, Default)]
pub struct InFlight {
    /// Everyone that it was sent to.
    pub sent: BTreeSet<char>,
    /// Those whose answers are missing, and the admission that it was sent in.
    pub missing: BTreeMap<char, SessionId>,
    pub outcome: Outcome,
    pub acked: bool,
    /// Those that missed it, found out after the acknowledgement.
    pub late: Vec<ComponentId>,
}

/// A component that is being filled.
#[derive(Debug, Clone, Serialize)]
pub struct Filling {
    /// Its admission.
    pub session: SessionId,
    /// Operations up to here were begun before it was filled.
    pub begun: OpId,
    /// All that was stale is copied.
    pub filled: bool,
    /// The barrier before its activation, once that has begun.
    pub barrier: Option<OpId>,
}

/// A change of the configuration on its way.
#[derive(Debug, Clone, Serialize)]
pub struct Changing {
    pub change: ConfigChange,
    /// What takes writes in it and took none before.
    pub admitted: Admitted,
    /// To be told the record once it is closed.
    pub untold: Vec<ComponentId>,
}

/// An owner at work.
#[derive(Debug, Clone, Serialize)]
pub struct Serving {
    pub state: State,
    pub change: Option<Changing>,
    /// The canary's change: majority of the new members only.
    pub naive: Option<(Accepted, BTreeSet<char>, Admitted)>,
    pub writes: BTreeMap<u64, InFlight>,
    pub coming: Option<Coming>,
    pub filling: BTreeMap<char, Filling>,
}

/// A component on its way back, or a new one that replaces `instead_of`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Coming {
    pub letter: char,
    pub instead_of: Option<char>,
    pub session: SessionId,
    pub state: Option<ComponentState>,
}

impl Serving {
    pub fn new(state: State) -> Self {
        let mut serving =
            Self { state, change: None, naive: None, writes: BTreeMap::new(), coming: None, filling: BTreeMap::new() };
        // Components that were resyncing under the last owner begin again.
        for leg in serving.state.links() {
            serving.begin_filling(leg.component, leg.link.target.session);
        }
        serving
    }

    /// Whether a change is on its way.
    pub fn changes(&self) -> bool {
        self.change.is_some() || self.naive.is_some()
    }

    /// Whether the keeper is at something: it does one thing at a time.
    pub fn is_busy(&self) -> bool {
        self.changes() || self.coming.is_some()
    }

    /// Fills the component, if it is one to be filled.
    pub fn begin_filling(&mut self, component: ComponentId, session: SessionId) {
        if self.state.being_filled(component, session).is_some() {
            let filling = Filling { session, begun: self.state.last(), filled: false, barrier: None };
            self.filling.insert(letter_of_component(component), filling);
        }
    }

    /// Begins an operation, and lists whom it goes to.
    pub fn begin(&mut self) -> (OpId, OpId, Vec<(char, SessionId)>) {
        let (op, settled, legs) = self.state.begin(0);
        let to = legs.iter().map(|leg| (letter_of_component(leg.component), leg.link.target.session));
        let to: Vec<(char, SessionId)> = to.collect();
        let sent = to.iter().map(|(letter, _)| *letter).collect();
        let missing = to.iter().copied().collect();
        self.writes.insert(op.seq, InFlight { sent, missing, ..InFlight::default() });
        (op, settled, to)
    }

    /// A component answered an operation, or is not waited for any longer.
    pub fn on_answer(&mut self, letter: char, op: OpId, reply: Result<(), Refusal>) -> Option<AnswerEffect> {
        let write = self.writes.get_mut(&op.seq)?;
        let session = write.missing.remove(&letter)?;
        let component = component_of(letter);
        let (verdict, effect) = self.state.on_answer(Answered { op, component, session, reply }, || Time(0));
        match write.acked {
            false => write.outcome.take(verdict, component),
            true if verdict != Verdict::Done => write.late.push(component),
            true => {}
        }
        effect
    }

    /// Operations that lack an answer of the seat.
    pub fn missing_from(&self, letter: char) -> Vec<OpId> {
        let epoch = self.state.epoch();
        let missing = self.writes.iter().filter(|(_, w)| w.missing.contains_key(&letter));
        missing.map(|(seq, _)| OpId { epoch, seq: *seq }).collect()
    }

    /// Acknowledges what may be acknowledged.
    pub fn acknowledge(&mut self, canary: Canary) -> Vec<OpId> {
        let epoch = self.state.epoch();
        let mut acked = Vec::new();
        for (seq, write) in self.writes.iter_mut().filter(|(_, w)| !w.acked) {
            match write.outcome.step(&self.state, write.missing.keys().copied().map(component_of)) {
                Step::Acknowledge => {
                    let (sent, missing) = (&write.sent, &write.missing);
                    let answered = |c| {
                        let letter = letter_of_component(c);
                        sent.contains(&letter) && !missing.contains_key(&letter)
                    };
                    // What the careless do is for those who look from outside.
                    if canary == Canary::None {
                        write.outcome.assert_held(&self.state, 0, answered);
                    }
                }
                Step::Record if canary == Canary::AckBeforeAbsent => {}
                Step::Hear | Step::Record => continue,
                step @ (Step::TakeBack | Step::Ended(_)) => panic!("no copy of the model refuses: {step:?}"),
            }
            // What led to it matters no more.
            (write.acked, write.outcome) = (true, Outcome::default());
            write.sent.clear();
            acked.push(OpId { epoch, seq: *seq });
        }
        acked
    }

    /// Ends what is acknowledged and decided, and forgets what is not filled any more.
    pub fn tidy(&mut self) {
        let (epoch, state) = (self.state.epoch(), &mut self.state);
        self.writes.retain(|seq, w| {
            let decided = w.acked && w.missing.is_empty() && state.recorded(&w.late) == Some(Ok(()));
            if decided {
                state.end(OpId { epoch, seq: *seq });
            }
            !decided
        });
        self.filling.retain(|letter, f| state.being_filled(component_of(*letter), f.session).is_some());
    }

    /// Whether an unacknowledged operation holds the block.
    pub fn locked(&self, block: u64) -> bool {
        let epoch = self.state.epoch();
        self.writes.iter().any(|(seq, w)| !w.acked && block_of(OpId { epoch, seq: *seq }) == block)
    }
}
