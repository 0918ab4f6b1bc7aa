//! A process that seizes the object and serves it: the acting half of the model. What it decides, the product decides
//! (`record`, `cairn-owner`); here is only what is sent, what is waited for, and in which of many orders.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cairn_owner::{Activation, Admitted, AnswerEffect, PartWrite, Returned, State};
use cairn_record::{
    ChangeEffect, ConfigChange, PeerLeases, PendingConfirm, Seizure, SeizureEffect, SeizureFailure, Won, next_epoch,
};
use cairn_types::{Accepted, ComponentId, ComponentState, Epoch, Member, ObjectConfig, OpId, Seat, SessionId, Time};
use cairn_votes::has_majority_by;
use cairn_wire::{Heartbeat, HostSummary, Refusal, SeizeAnswer};
use serde::Serialize;

use super::{
    Canary, OBJECT, Place, component_of, epoch, letter_of,
    message::{Body, Msg},
    seat_of,
    serving::{Changing, Coming, Part, Serving, Way},
};

/// What the world outside sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Acked(OpId, Place),
    Won(Epoch, Box<ObjectConfig>),
    Failed(SeizureFailure),
}

#[derive(Debug, Clone, Serialize)]
#[allow(clippy::large_enum_variant)]
pub enum Phase {
    Idle,
    Seizing(Seizure),
    Serving(Box<Serving>),
    Ended,
}

/// A process.
#[derive(Debug, Clone, Serialize)]
pub struct OwnerNode {
    pub index: usize,
    pub canary: Canary,
    pub known: Accepted,
    number: u64,
    pub phase: Phase,
    #[serde(skip)]
    pub leases: Option<PeerLeases>,
    #[serde(skip)]
    pub tokens: BTreeMap<u64, PendingConfirm>,
    next_token: u64,
}

/// What a step did.
#[derive(Debug, Default)]
pub struct Out {
    pub send: Vec<Msg>,
    pub events: Vec<Event>,
}

impl OwnerNode {
    pub fn new(index: usize, canary: Canary, known: Accepted, lease: Option<Duration>) -> Self {
        let number = known.epoch.number;
        let leases = lease.map(|lease| PeerLeases::new(lease, 0));
        Self { index, canary, known, number, phase: Phase::Idle, leases, tokens: BTreeMap::new(), next_token: 0 }
    }

    pub fn serving(&self) -> Option<&Serving> {
        if let Phase::Serving(serving) = &self.phase { Some(serving) } else { None }
    }

    /// The epoch that it serves or seizes at.
    pub fn epoch(&self) -> Option<Epoch> {
        match &self.phase {
            Phase::Serving(serving) => Some(serving.state.epoch()),
            Phase::Seizing(seizure) => Some(seizure.epoch()),
            Phase::Idle | Phase::Ended => None,
        }
    }

    /// Whether it may answer a read now.
    pub fn may_answer(&self, now: Time) -> bool {
        let Some(serving) = self.serving() else {
            return false;
        };
        let Some(leases) = &self.leases else {
            return true;
        };
        self.canary == Canary::NoLease || leases.holds(OBJECT, serving.state.epoch(), serving.state.config(), now)
    }

    /// Begins to seize.
    pub fn start_seize(&mut self, out: &mut Out) {
        let host = epoch(0, self.index);
        let known = Epoch { number: self.number, ..Epoch::default() };
        let e = next_epoch(known, host.host, host.incarnation);
        self.number = e.number;
        let (seizure, effects) = Seizure::start(e, self.known.clone());
        self.phase = Phase::Seizing(seizure);
        self.on_seizure(effects, out);
    }

    /// Gives up, whatever it does.
    pub fn end(&mut self, out: &mut Out) {
        let Some(e) = self.epoch() else { return };
        self.phase = Phase::Ended;
        if let Some(leases) = &mut self.leases {
            for (host, _) in leases.abandon(OBJECT, e) {
                let seat = letter_of(Seat { host, disk_group: cairn_types::DiskGroupId(host.0) });
                out.send.push(Msg { owner: self.index, seat, body: Body::Release { epoch: e } });
            }
        }
    }

    /// It begins no other seizure: what it would begin one with is forgotten.
    pub fn seizes_no_more(&mut self) {
        self.number = 0;
        self.known = super::closed(Epoch::default(), 0, super::config_of(""));
        if matches!(self.phase, Phase::Idle) {
            self.phase = Phase::Ended;
        }
    }

    fn ask(&self, seats: &[Seat], body: &Body, out: &mut Out) {
        let to = |seat: &Seat| Msg { owner: self.index, seat: letter_of(*seat), body: body.clone() };
        out.send.extend(seats.iter().map(to));
    }

    fn on_seizure(&mut self, effects: Vec<SeizureEffect>, out: &mut Out) {
        for effect in effects {
            let Phase::Seizing(seizure) = &mut self.phase else {
                return;
            };
            let e = seizure.epoch();
            match effect {
                SeizureEffect::Seize { seats, overrule_lease } => {
                    if let Some(leases) = &mut self.leases {
                        // Listed before the first request leaves.
                        let mut all: Vec<Seat> = leases.seats(OBJECT);
                        all.extend(&seats);
                        leases.own(OBJECT, e, &all);
                    }
                    self.ask(&seats, &Body::Seize { epoch: e, overrule: overrule_lease, anew: false }, out);
                }
                SeizureEffect::Accept { seats, record } => self.ask(&seats, &Body::Accept(*record), out),
                SeizureEffect::Undo { seat, component, session, ops } => {
                    if self.canary == Canary::NoUndo {
                        let more = seizure.on_undo_answer(component, Ok(()));
                        self.on_seizure(more, out);
                    } else {
                        self.ask(&[seat], &Body::Undo { epoch: e, session, ops }, out);
                    }
                }
                SeizureEffect::Won(won) => self.serve(*won, out),
                SeizureEffect::Failed(why) => {
                    if let SeizureFailure::Superseded(by) | SeizureFailure::LeaseHeld { by, .. } = why {
                        self.number = self.number.max(by.number);
                    }
                    self.end(out);
                    out.events.push(Event::Failed(why));
                }
            }
        }
    }

    fn serve(&mut self, won: Won, out: &mut Out) {
        if let Some(leases) = &mut self.leases {
            leases.own(OBJECT, won.epoch, &won.config.seats());
        }
        self.known = super::closed(won.epoch, won.csn.0, won.config.clone());
        let state = State::new(won.config.clone(), won.csn, won.epoch, &won.sessions, won.proven);
        self.phase = Phase::Serving(Box::new(Serving::new(state)));
        out.events.push(Event::Won(won.epoch, Box::new(won.config)));
    }

    /// The owner does not wait for the seat any longer.
    pub fn on_unreachable(&mut self, seat: char, out: &mut Out) {
        match &mut self.phase {
            Phase::Seizing(seizure) => {
                let effects = seizure.on_unreachable(seat_of(seat));
                self.on_seizure(effects, out);
            }
            Phase::Serving(serving) => {
                let missing = serving.missing_from(seat);
                let comes = serving.coming.take_if(|coming| coming.letter == seat && serving.change.is_none());
                if missing.is_empty() && comes.is_none() {
                    // Nobody has missed it: it is away for long.
                    for member in serving.state.long_away(|away| letter_of(away) == seat) {
                        serving.state.miss(&member, |_| true);
                    }
                }
                for op in missing {
                    serving.on_answer(seat, op, (Err(Refusal::Lost), None), self.canary);
                }
                self.advance(out);
            }
            Phase::Idle | Phase::Ended => {}
        }
    }

    /// Seats that it waits for.
    pub fn waiting_for(&self) -> Vec<char> {
        match &self.phase {
            Phase::Seizing(seizure) => seizure.waiting_for().into_iter().map(letter_of).collect(),
            Phase::Serving(serving) => {
                let missing = serving.writes.values().flat_map(|w| w.missing.keys().copied());
                let coming = serving.coming.iter().filter(|_| !serving.changes()).map(|coming| coming.letter);
                missing.chain(coming).collect::<BTreeSet<_>>().into_iter().collect()
            }
            Phase::Idle | Phase::Ended => Vec::new(),
        }
    }

    /// An answer came.
    pub fn handle(&mut self, seat: char, body: &Body, now: Time, out: &mut Out) {
        match body {
            Body::HeartbeatAnswer(answer) => {
                let leases = self.leases.as_mut().expect("a model with time");
                leases.on_heartbeat_answer(seat_of(seat).host, answer);
                self.confirm(now, out);
            }
            Body::ConfirmAnswer { token, granted, promised } => {
                if self.epoch().is_some_and(|e| *promised > e) {
                    return self.end(out);
                }
                if let (Some(asked), true) = (self.tokens.remove(token), *granted) {
                    self.leases.as_mut().expect("a model with time").on_confirmed(asked);
                }
            }
            _ => self.handle_object(seat, body, out),
        }
    }

    fn handle_object(&mut self, seat: char, body: &Body, out: &mut Out) {
        match (&mut self.phase, body) {
            (Phase::Seizing(seizure), Body::SeizeAnswer { epoch, anew: false, answer })
                if *epoch == seizure.epoch() =>
            {
                let mut answer = answer.clone();
                if let (Canary::ServeTooEarly, SeizeAnswer::Promised { accepted: Some(accepted), .. }) =
                    (self.canary, &mut answer)
                {
                    promote_everyone(&mut accepted.config);
                }
                let effects = seizure.on_seize_answer(seat_of(seat), answer);
                self.on_seizure(effects, out);
            }
            (Phase::Seizing(seizure), Body::AcceptAnswer { epoch, csn, answer }) if *epoch == seizure.epoch() => {
                let effects = seizure.on_accept_answer(seat_of(seat), *csn, answer.result());
                self.on_seizure(effects, out);
            }
            (Phase::Seizing(seizure), Body::UndoAnswer { epoch, done, .. }) if *epoch == seizure.epoch() => {
                let component = cairn_types::ComponentId(super::id_of(seat));
                let effects = seizure.on_undo_answer(component, *done);
                self.on_seizure(effects, out);
            }
            (Phase::Serving(_), _) => self.handle_serving(seat, body, out),
            _ => {}
        }
    }

    fn handle_serving(&mut self, seat: char, body: &Body, out: &mut Out) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let e = serving.state.epoch();
        match body {
            Body::AcceptAnswer { epoch, csn, answer } if *epoch == e => {
                if let Some((naive, yes, _)) = &mut serving.naive
                    && naive.csn == *csn
                {
                    if answer.result().is_ok() {
                        yes.insert(seat);
                    }
                    if has_majority_by(&naive.config, |m| yes.contains(&letter_of(m.seat()))) {
                        let (record, _, admitted) = serving.naive.take().expect("just seen");
                        serving.state.adopt(record.config, record.csn, &admitted);
                        serving.coming = None;
                        admitted.iter().for_each(|(component, session)| serving.begin_filling(*component, *session));
                    }
                } else if let Some(Changing { change, .. }) = &mut serving.change {
                    let effects = change.on_accept_answer(seat_of(seat), *csn, answer.result());
                    return self.on_change(effects, out);
                }
            }
            Body::WriteAnswer { epoch, op, done, old, .. } if *epoch == e => {
                let refusal = |promised: Option<Epoch>| match promised {
                    Some(promised) => Refusal::Fenced { promised },
                    None => Refusal::Session,
                };
                let (effect, parts) = serving.on_answer(seat, *op, (done.map_err(refusal), *old), self.canary);
                if let Some(AnswerEffect::Fenced(_)) = effect {
                    return self.end(out);
                }
                let place = serving.writes.get(&op.seq).map(|w| w.place);
                let settled = serving.state.settled();
                self.send_parts(parts, (*op, settled), place, out);
            }
            Body::SeizeAnswer { epoch, anew: true, answer } if *epoch == e => {
                if let SeizeAnswer::Promisee { .. } = answer {
                    return self.end(out);
                }
                match &serving.coming {
                    Some(coming) if coming.letter == seat => self.on_rejoin_answer(seat, answer, out),
                    _ => self.on_brought_up(seat, answer, out),
                }
            }
            Body::UndoAnswer { epoch, session, done } if *epoch == e => {
                let coming = serving.coming.as_ref();
                if coming.is_some_and(|c| c.letter == seat && c.session == *session && c.state.is_some()) {
                    match done {
                        Ok(()) => self.propose_coming(out),
                        Err(_) => serving.coming = None,
                    }
                }
            }
            _ => {}
        }
        self.advance(out);
    }

    fn on_change(&mut self, effects: Vec<ChangeEffect>, out: &mut Out) {
        for effect in effects {
            let Phase::Serving(serving) = &mut self.phase else {
                return;
            };
            match effect {
                ChangeEffect::Accept { seats, record } => self.ask(&seats, &Body::Accept(*record), out),
                ChangeEffect::Effective(config) => {
                    let Changing { change, admitted, .. } = serving.change.as_ref().expect("under way");
                    serving.state.adopt(*config, change.record().csn, admitted);
                    let (e, seats) = (serving.state.epoch(), serving.state.config().seats());
                    if let Some(leases) = &mut self.leases {
                        leases.own(OBJECT, e, &seats);
                    }
                }
                ChangeEffect::Closed { csn } => {
                    let Changing { admitted, untold, .. } = serving.change.take().expect("under way");
                    serving.state.closed(csn);
                    serving.coming.take_if(|coming| admitted.contains_key(&component_of(coming.letter)));
                    admitted.iter().for_each(|(component, session)| serving.begin_filling(*component, *session));
                    let config = serving.state.config();
                    self.known = super::closed(serving.state.epoch(), csn.0, (**config).clone());
                    let told = untold.iter().filter_map(|c| config.member(*c)).filter(|m| m.state.in_sync());
                    let tell = |m: &Member| {
                        let body = Body::Tell(self.known.clone());
                        Msg { owner: self.index, seat: letter_of(m.seat()), body }
                    };
                    out.send.extend(told.map(tell));
                }
                ChangeEffect::Superseded(_) => return self.end(out),
            }
        }
        self.advance(out);
    }

    /// Proposes a configuration in which the admitted take writes; false: one is on its way, or it is illegal. Once it is closed the
    /// untold are told.
    fn propose(&mut self, target: ObjectConfig, admitted: Admitted, untold: Vec<ComponentId>, out: &mut Out) -> bool {
        let Phase::Serving(serving) = &mut self.phase else {
            return false;
        };
        if serving.changes() {
            return false;
        }
        let (epoch, csn, config) = (serving.state.epoch(), serving.state.csn(), serving.state.config());
        let members = |c: &ObjectConfig| c.members.iter().map(|m| m.component).collect::<Vec<_>>();
        if self.canary == Canary::NotJoint && members(&target) != members(config) {
            let record = super::closed(epoch, csn.0 + 1, target);
            serving.naive = Some((record.clone(), BTreeSet::new(), admitted));
            let seats = record.config.seats();
            self.ask(&seats, &Body::Accept(record), out);
            return true;
        }
        match ConfigChange::propose(epoch, csn, config, target) {
            Ok((change, effects)) => {
                serving.change = Some(Changing { change, admitted, untold });
                self.on_change(effects, out);
                true
            }
            Err(_) => false,
        }
    }

    /// Acknowledges, settles, records failed components.
    fn advance(&mut self, out: &mut Out) {
        let canary = self.canary;
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        out.events.extend(serving.acknowledge(canary).into_iter().map(|(op, place)| Event::Acked(op, place)));
        serving.tidy();
        if !serving.state.has_failures() || serving.is_busy() {
            return;
        }
        match serving.state.failures_to_record() {
            Ok(next) => {
                self.propose(next, Admitted::new(), Vec::new(), out);
            }
            // The last copy: the object cannot be served.
            Err(_) => self.end(out),
        }
    }

    /// Begins an operation on the next block of a mirror, if that is not locked.
    pub fn start_write(&mut self, out: &mut Out) -> Option<OpId> {
        let next = self.serving()?.state.last().seq + 1;
        self.start_at(Place::block(next % super::BLOCKS), None, out)
    }

    /// Begins an operation, if its place is not locked. `row`: what was read of its row, under the lock of that.
    pub fn start_at(&mut self, place: Place, row: Option<Vec<OpId>>, out: &mut Out) -> Option<OpId> {
        let canary = self.canary;
        let Phase::Serving(serving) = &mut self.phase else {
            return None;
        };
        let way = match (row, serving.part_write(&place)) {
            (Some(columns), _) => Way::Encoded(columns),
            _ if !serving.may_write(&place, canary) => return None,
            (None, None) => Way::Whole,
            (None, Some(PartWrite::Difference)) => Way::Difference,
            (None, Some(PartWrite::DataAlone)) => Way::DataAlone,
            (None, Some(PartWrite::Encode | PartWrite::AfterFailures)) => return None,
        };
        let (op, settled, parts) = serving.begin(place, way, canary);
        self.send_parts(parts, (op, settled), Some(place), out);
        Some(op)
    }

    fn send_parts(&self, parts: Vec<Part>, (op, settled): (OpId, OpId), place: Option<Place>, out: &mut Out) {
        for (seat, session, piece, asks_old) in parts {
            let place = place.expect("it is in flight");
            let body = Body::Write { epoch: op.epoch, session, op, settled, place, piece, asks_old };
            out.send.push(Msg { owner: self.index, seat, body });
        }
    }

    /// Asks a component to come back, or a nascent one to replace `instead_of`.
    pub fn start_coming(&mut self, letter: char, instead_of: Option<char>, out: &mut Out) -> bool {
        let Phase::Serving(serving) = &mut self.phase else {
            return false;
        };
        let (state, config) = (&serving.state, serving.state.config());
        let member = config.member(component_of(letter));
        let fits = match instead_of {
            None => member.is_some_and(|m| state.is_asked_back(m, Time(0))),
            Some(old) => member.is_none() && config.member(component_of(old)).is_some() && !state.has_failures(),
        };
        if !fits || serving.is_busy() {
            return false;
        }
        let body = Body::Seize { epoch: state.epoch(), overrule: false, anew: true };
        serving.coming = Some(Coming { letter, instead_of, session: SessionId(0), state: None });
        out.send.push(Msg { owner: self.index, seat: letter, body });
        true
    }

    /// Brings a witness up that has not promised, or has forgotten that it did: it promises, and is told the record.
    pub fn bring_up(&mut self, letter: char, out: &mut Out) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let named = serving.state.config().member(component_of(letter)).is_some();
        if named && !serving.changes() && letter.is_lowercase() {
            let body = Body::Seize { epoch: serving.state.epoch(), overrule: true, anew: true };
            out.send.push(Msg { owner: self.index, seat: letter, body });
        }
    }

    /// A seat has promised that was away, or may have forgotten that it did: it is told the record.
    fn on_brought_up(&mut self, seat: char, answer: &SeizeAnswer, out: &mut Out) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let SeizeAnswer::Promised { components, .. } = answer else {
            return self.advance(out);
        };
        if seat.is_uppercase() || serving.changes() {
            return self.advance(out);
        }
        let config = (**serving.state.config()).clone();
        let forgetful = serving.state.forgetful_witnesses(components);
        if forgetful.is_empty() {
            let record = super::closed(serving.state.epoch(), serving.state.csn().0, config);
            out.send.push(Msg { owner: self.index, seat, body: Body::Accept(record) });
        } else {
            self.propose(config, Admitted::new(), forgetful, out);
        }
    }

    /// Stops waiting for the one that comes back.
    pub fn forget_coming(&mut self) -> bool {
        let Phase::Serving(serving) = &mut self.phase else {
            return false;
        };
        !serving.changes() && serving.coming.take().is_some()
    }

    fn on_rejoin_answer(&mut self, seat: char, answer: &SeizeAnswer, out: &mut Out) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let Some(coming) = serving.coming.as_mut().filter(|c| c.letter == seat && c.state.is_none()) else {
            return;
        };
        let component = component_of(seat);
        let Some(member) = serving.state.config().member(component).copied() else {
            // A new one: the driver of `Seize` sees that it is there.
            let SeizeAnswer::Promised { components, .. } = answer else {
                serving.coming = None;
                return;
            };
            coming.session = components[0].session;
            coming.state = Some(ComponentState::Resyncing { stale_since: OpId::ZERO });
            return self.propose_coming(out);
        };
        match serving.state.on_returned(&member, Some(answer.clone())) {
            Returned::Fill { rejoin, session } => {
                (coming.session, coming.state) = (session, Some(rejoin.state));
                if rejoin.undo.is_empty() {
                    return self.propose_coming(out);
                }
                let body = Body::Undo { epoch: serving.state.epoch(), session, ops: rejoin.undo };
                out.send.push(Msg { owner: self.index, seat, body });
            }
            Returned::No => serving.coming = None,
            Returned::Fenced(_) => self.end(out),
            Returned::Degrade => {
                serving.coming = None;
                let next = serving.state.config_with(component, ComponentState::Degraded);
                self.propose(next, Admitted::new(), Vec::new(), out);
            }
            Returned::Witness { forgetful } => {
                serving.coming = None;
                let next = serving.state.config_with(component, ComponentState::Active);
                let untold = Vec::from_iter(forgetful.then_some(component));
                self.propose(next, Admitted::new(), untold, out);
            }
        }
    }

    fn propose_coming(&mut self, out: &mut Out) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let coming = serving.coming.clone().expect("asked");
        let (component, state) = (component_of(coming.letter), coming.state.expect("answered"));
        let config = serving.state.config();
        let target = match coming.instead_of {
            None => Some(serving.state.config_with(component, state)),
            Some(old) => {
                let old = component_of(old);
                let mut members = config.members.clone();
                let place = members.iter().position(|m| m.component == old).expect("checked");
                let word = format!("{}{}", coming.letter, members[place].votes);
                let role = members[place].role;
                members[place] = Member { state, role, ..super::member_of(&word) };
                serving.state.config_of_members(&members, &[old], (config.addresses.clone(), config.size_bytes)).ok()
            }
        };
        let admitted = Admitted::from([(component, coming.session)]);
        if !target.is_some_and(|target| self.propose(target, admitted, Vec::new(), out))
            && let Phase::Serving(serving) = &mut self.phase
        {
            serving.coming = None;
        }
    }

    /// The component is filled: the barrier before its activation begins.
    pub fn begin_barrier(&mut self, letter: char) {
        let canary = self.canary;
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let is_filled = |filled| filled || canary == Canary::NoResync;
        if let Some(filling) = serving.filling.get_mut(&letter).filter(|f| f.barrier.is_none() && is_filled(f.filled)) {
            filling.barrier = Some(match canary {
                Canary::NoBarrier => OpId::ZERO,
                _ => serving.state.begin_barrier(component_of(letter)),
            });
        }
    }

    /// The component is filled: proposes that it is active, once it is past the barrier.
    pub fn start_activation(&mut self, letter: char, out: &mut Out) -> bool {
        self.begin_barrier(letter);
        let Phase::Serving(serving) = &mut self.phase else {
            return false;
        };
        let Some((filling, barrier)) = serving.filling.get(&letter).and_then(|f| Some((f, f.barrier?))) else {
            return false;
        };
        if !serving.state.is_past(barrier) || serving.is_busy() {
            return false;
        }
        let component = component_of(letter);
        let Some(Activation { mut next, was_empty }) = serving.state.activation(component, filling.session) else {
            return false;
        };
        if self.canary == Canary::NoDecided {
            next.decided = serving.state.config().decided;
        }
        self.propose(next, Admitted::new(), Vec::from_iter(was_empty.then_some(component)), out)
    }

    /// Sends again what has no answer: records, confirmations.
    pub fn resend(&mut self, now: Time, out: &mut Out) {
        if let Phase::Serving(serving) = &self.phase
            && let Some(Changing { change, .. }) = &serving.change
        {
            let effects = change.on_timeout();
            self.on_change(effects, out);
        }
        self.confirm(now, out);
    }

    /// Asks for leases where they are missing.
    pub fn confirm(&mut self, now: Time, out: &mut Out) {
        let (Some(leases), Phase::Serving(serving)) = (&self.leases, &self.phase) else {
            return;
        };
        for asked in leases.due(OBJECT, now) {
            let token = self.next_token;
            self.next_token += 1;
            self.tokens.insert(token, asked);
            let body = Body::Confirm { epoch: serving.state.epoch(), token };
            out.send.push(Msg { owner: self.index, seat: letter_of(asked.seat), body });
        }
    }

    /// Sends a heartbeat.
    pub fn heartbeat(&mut self, seat: char, now: Time, out: &mut Out) {
        let leases = self.leases.as_mut().expect("a model with time");
        let (number, session, owned) = leases.heartbeat(seat_of(seat).host, now);
        let summary = HostSummary::default();
        let body = Body::Heartbeat(Heartbeat { number, session, remembered: Vec::new(), summary, owned });
        out.send.push(Msg { owner: self.index, seat, body });
    }
}

fn promote_everyone(config: &mut ObjectConfig) {
    config.members.iter_mut().for_each(|m| m.state = ComponentState::Active);
}
