//! An owner at work: the product's state and decisions, and what the acting half keeps of messages and of changes on their way.

use std::collections::{BTreeMap, BTreeSet};

use cairn_geometry::{RowRole, Rows};
use cairn_owner::{Admitted, AnswerEffect, Answered, GivenUp, Outcome, PartWrite, State, Step, Verdict, part_write};
use cairn_record::ConfigChange;
use cairn_types::{Accepted, ComponentId, ComponentState, OpId, SessionId, Time};
use cairn_wire::Refusal;
use serde::Serialize;

use super::{
    Canary, Piece, Place, component_of, letter_of_component,
    rows::{Strip, absolute, rows_of},
};

/// An operation that has not ended.
#[derive(Debug, Clone, Serialize)]
pub struct InFlight {
    pub place: Place,
    /// Others keep away from the whole row.
    pub locks_row: bool,
    /// Everyone that it was sent to.
    pub sent: BTreeSet<char>,
    /// Those whose answers are missing, and the admission that it was sent in.
    pub missing: BTreeMap<char, SessionId>,
    /// Those that are sent the difference once it is known what stood there, and which parity they hold.
    pub unsent: BTreeMap<char, (SessionId, u32)>,
    pub outcome: Outcome,
    pub acked: bool,
    /// It is taken back, and never acknowledged.
    pub given_up: bool,
    /// Those that missed it, found out after the acknowledgement, or for which it was given up.
    pub late: Vec<ComponentId>,
}

/// A row that is read, so that its parity is made anew for a column that is written.
#[derive(Debug, Clone, Serialize)]
pub struct Encode {
    pub place: Place,
    /// What was read of it, by member index.
    pub strips: BTreeMap<u32, Strip>,
}

/// How an operation is written.
#[derive(Debug, Clone)]
pub enum Way {
    /// To all, with nothing from before: a block of a mirror, a whole row.
    Whole,
    /// The data first, differences then.
    Difference,
    /// The data alone.
    DataAlone,
    /// Data, and parity of the row as it was read.
    Encoded(Vec<OpId>),
}

/// A piece to be sent to a seat, and whether that is to tell what stood there.
pub type Part = (char, SessionId, Piece, bool);

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
    /// By row.
    pub encodes: BTreeMap<u64, Encode>,
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
        let mut serving = Self {
            state,
            change: None,
            naive: None,
            writes: BTreeMap::new(),
            coming: None,
            filling: BTreeMap::new(),
            encodes: BTreeMap::new(),
        };
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

    /// The rows of the object, if it has them.
    pub fn rows(&self) -> Option<Rows> {
        rows_of(self.state.config())
    }

    /// How a column is written now; none: it is a whole row, or a block of a mirror.
    pub fn part_write(&self, place: &Place) -> Option<PartWrite> {
        Some(part_write(&self.state, 0, self.rows()?, (place.row, place.column?)))
    }

    /// Begins an operation, and lists whom it goes to, and with what.
    pub fn begin(&mut self, place: Place, way: Way, canary: Canary) -> (OpId, OpId, Vec<Part>) {
        let rows = self.rows();
        let data = rows.zip(place.column).map(|(rows, c)| rows.member(place.row, RowRole::Column(c)));
        let (op, settled, legs) = self.state.begin(0, place.members);
        let locks_row = matches!(way, Way::Encoded(_)) && canary != Canary::RowNotLocked;
        let (sent, missing) = (BTreeSet::new(), BTreeMap::new());
        let outcome = Outcome::default();
        let unsent = BTreeMap::new();
        let late = Vec::new();
        let mut write =
            InFlight { place, locks_row, sent, missing, unsent, outcome, acked: false, given_up: false, late };
        let mut parts = Vec::new();
        for leg in legs.iter() {
            let (letter, session) = (letter_of_component(leg.component), leg.link.target.session);
            let is_data = data.is_none_or(|data| data == leg.link.copy);
            let piece = match (&way, rows) {
                (Way::Whole, Some(rows)) => absolute(rows, place.row, leg.link.copy, &vec![op; rows.data() as usize]),
                (Way::Encoded(before), _) if !is_data => {
                    let mut columns = before.clone();
                    columns[place.column.expect("a column is written") as usize] = op;
                    absolute(rows.expect("it has rows"), place.row, leg.link.copy, &columns)
                }
                (Way::Difference, Some(rows)) if !is_data && canary != Canary::ParityForgotten => {
                    let RowRole::Parity(parity) = rows.role(place.row, leg.link.copy) else {
                        unreachable!("it is no data")
                    };
                    write.unsent.insert(letter, (session, parity));
                    continue;
                }
                (Way::Difference | Way::DataAlone, _) if !is_data => continue,
                _ => Piece::Data(op),
            };
            let asks_old = matches!(way, Way::Difference);
            parts.push((letter, session, piece, asks_old && leg.link.required));
            write.sent.insert(letter);
            write.missing.insert(letter, session);
        }
        if !write.unsent.is_empty() {
            write.outcome = Outcome::of_difference();
        }
        self.writes.insert(op.seq, write);
        (op, settled, parts)
    }

    /// A component answered an operation, or is not waited for any longer. `old`: what it says stood there. The differences that are to be
    /// sent then.
    pub fn on_answer(
        &mut self,
        letter: char,
        op: OpId,
        (reply, old): (Result<(), Refusal>, Option<OpId>),
        canary: Canary,
    ) -> (Option<AnswerEffect>, Vec<Part>) {
        let Some(write) = self.writes.get_mut(&op.seq) else { return (None, Vec::new()) };
        let Some(session) = write.missing.remove(&letter) else { return (None, Vec::new()) };
        let component = component_of(letter);
        let answered = Answered { op, component, session, reply };
        if write.acked {
            let (has_it, effect) = self.state.on_late_answer(answered, || Time(0));
            write.late.extend((!has_it).then_some(component));
            return (effect, Vec::new());
        }
        let (verdict, effect) = self.state.on_answer(answered, || Time(0));
        let failed = verdict != Verdict::Done;
        write.outcome.take(verdict, component);
        let mut parts = Vec::new();
        if failed && !write.unsent.is_empty() {
            write.outcome.on_old_data_lost();
            write.unsent.clear();
            write.late.extend((canary != Canary::LostNotRecorded).then_some(component));
        } else if let (Some(old), Some(column)) = (old, write.place.column)
            && write.outcome.on_old_data()
        {
            let rows = rows_of(self.state.config()).expect("a column is one of a row");
            for (letter, (session, parity)) in std::mem::take(&mut write.unsent) {
                let piece = Piece::Difference { column, old, parity, columns: rows.data() };
                parts.push((letter, session, piece, false));
                write.sent.insert(letter);
                write.missing.insert(letter, session);
            }
        }
        (effect, parts)
    }

    /// Operations that lack an answer of the seat.
    pub fn missing_from(&self, letter: char) -> Vec<OpId> {
        let epoch = self.state.epoch();
        let missing = self.writes.iter().filter(|(_, w)| w.missing.contains_key(&letter));
        missing.map(|(seq, _)| OpId { epoch, seq: *seq }).collect()
    }

    /// Acknowledges what may be acknowledged.
    pub fn acknowledge(&mut self, canary: Canary) -> Vec<(OpId, Place)> {
        let epoch = self.state.epoch();
        let mut acked = Vec::new();
        for (seq, write) in self.writes.iter_mut().filter(|(_, w)| !w.acked && !w.given_up) {
            match write.outcome.step(&self.state, write.missing.keys().copied().map(component_of)) {
                Step::Acknowledge => {
                    let (sent, missing) = (&write.sent, &write.missing);
                    let answered = |c| {
                        let letter = letter_of_component(c);
                        sent.contains(&letter) && !missing.contains_key(&letter)
                    };
                    // What the careless do is for those who look from outside.
                    if canary == Canary::None {
                        write.outcome.assert_held(&self.state, (0, write.place.members), answered);
                    }
                }
                Step::Record if canary == Canary::AckBeforeAbsent => {}
                Step::Hear | Step::Record => continue,
                // It is at the data member alone, if anywhere, and that is recorded absent.
                Step::TakeBack => {
                    assert_eq!(write.outcome.given_up(), GivenUp::OldDataLost, "no copy of the model refuses");
                    write.given_up = true;
                    continue;
                }
                step @ Step::Ended(_) => panic!("it does not go on once it ended: {step:?}"),
            }
            // What led to it matters no more.
            (write.acked, write.outcome) = (true, Outcome::default());
            write.sent.clear();
            acked.push((OpId { epoch, seq: *seq }, write.place));
        }
        acked
    }

    /// Ends what is acknowledged and decided, and forgets what is not filled any more.
    pub fn tidy(&mut self) {
        let (epoch, state) = (self.state.epoch(), &mut self.state);
        self.writes.retain(|seq, w| {
            let decided = (w.acked || w.given_up) && w.missing.is_empty() && state.recorded(&w.late) == Some(Ok(()));
            if decided {
                state.end(OpId { epoch, seq: *seq });
            }
            !decided
        });
        self.filling.retain(|letter, f| state.being_filled(component_of(*letter), f.session).is_some());
    }

    /// Whether an operation that is not acknowledged, or a row that is read to make its parity, keeps readers away.
    pub fn locked(&self, place: &Place) -> bool {
        let held = |w: &InFlight| if w.locks_row { w.place.whole() } else { w.place };
        self.encodes.contains_key(&place.row) || self.writes.values().any(|w| !w.acked && held(w).overlaps(place))
    }

    /// Whether it may be written now: nobody else writes to that position of the row, as parity would have both.
    pub fn may_write(&self, place: &Place, canary: Canary) -> bool {
        let of_rows = place.members != 0 && canary != Canary::RowNotLocked;
        let place = if of_rows { place.whole() } else { *place };
        !self.locked(&place)
    }
}
