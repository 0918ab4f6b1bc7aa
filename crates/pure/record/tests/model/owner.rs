//! A process that seizes the object and serves it, driven by the real state machines.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cairn_record::{
    ChangeEffect, ConfigChange, PeerLeases, PendingConfirm, Seizure, SeizureEffect, SeizureFailure, next_epoch, rejoin,
};
use cairn_types::{Accepted, ComponentState, Epoch, Member, ObjectConfig, OpId, Seat, SessionId, Time};
use cairn_votes::has_majority_by;
use cairn_wire::{Heartbeat, HostSummary, SeizeAnswer};
use serde::Serialize;

use super::{
    Canary, OBJECT, block_of, epoch, letter_of,
    message::{Body, Msg},
    seat_of,
    serving::{Coming, Filling, InFlight, Serving},
};

/// What the world outside sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Acked(OpId),
    Won(Epoch, Box<ObjectConfig>),
    Failed(SeizureFailure),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
            Phase::Serving(serving) => Some(serving.epoch),
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
        self.canary == Canary::NoLease || leases.holds(OBJECT, serving.epoch, &serving.config, now)
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
                SeizureEffect::Won(won) => {
                    let links = won.sessions.iter().map(|(c, s)| (letter(c.0), *s));
                    let members = &won.config;
                    let serving = Serving {
                        epoch: e,
                        csn: won.csn,
                        links: links.filter(|(l, _)| l.is_uppercase()).collect(),
                        config: members.clone(),
                        change: None,
                        naive: None,
                        failed: BTreeSet::new(),
                        next_seq: 1,
                        writes: BTreeMap::new(),
                        coming: None,
                        filling: BTreeMap::new(),
                        untold: BTreeSet::new(),
                        proven: won.proven,
                    };
                    let mut serving = serving;
                    for member in &members.members {
                        if matches!(member.state, ComponentState::Resyncing { .. }) {
                            let filling = Filling { linked_at: 0, to_copy: None };
                            serving.filling.insert(letter_of(member.seat()), filling);
                        }
                    }
                    if let Some(leases) = &mut self.leases {
                        leases.own(OBJECT, e, &members.seats());
                    }
                    self.known = super::closed(e, won.csn.0, won.config.clone());
                    self.phase = Phase::Serving(Box::new(serving));
                    out.events.push(Event::Won(e, Box::new(won.config)));
                }
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

    /// The owner does not wait for the seat any longer.
    pub fn on_unreachable(&mut self, seat: char, out: &mut Out) {
        match &mut self.phase {
            Phase::Seizing(seizure) => {
                let effects = seizure.on_unreachable(seat_of(seat));
                self.on_seizure(effects, out);
            }
            Phase::Serving(serving) => {
                if serving.links.remove(&seat).is_some() {
                    serving.failed.insert(seat);
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
                let legs = serving.writes.values().flat_map(|w| &w.legs).filter(|(_, done)| !**done).map(|(l, _)| *l);
                legs.filter(|l| serving.links.contains_key(l)).collect::<BTreeSet<_>>().into_iter().collect()
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
        let e = serving.epoch;
        match body {
            Body::AcceptAnswer { epoch, csn, answer } if *epoch == e => {
                if let Some((naive, yes)) = &mut serving.naive
                    && naive.csn == *csn
                {
                    if answer.result().is_ok() {
                        yes.insert(seat);
                    }
                    if has_majority_by(&naive.config, |m| yes.contains(&letter_of(m.seat()))) {
                        let (record, _) = serving.naive.take().expect("just seen");
                        serving.csn = record.csn;
                        serving.take_effect(record.config);
                    }
                } else if let Some((change, _)) = &mut serving.change {
                    let effects = change.on_accept_answer(seat_of(seat), *csn, answer.result());
                    return self.on_change(effects, out);
                }
            }
            Body::WriteAnswer { epoch, session, op, done } if *epoch == e => match done {
                Err(Some(_)) => return self.end(out),
                Err(None) => {
                    if serving.links.get(&seat) == Some(session) {
                        serving.links.remove(&seat);
                        serving.failed.insert(seat);
                    }
                }
                Ok(()) => {
                    let leg = serving.writes.get_mut(&op.seq).and_then(|w| w.legs.get_mut(&seat));
                    if let Some(leg) = leg {
                        *leg = true;
                    }
                }
            },
            Body::SeizeAnswer { epoch, anew: true, answer } if *epoch == e => {
                if let SeizeAnswer::Promisee { .. } = answer {
                    return self.end(out);
                }
                let forgets = match answer {
                    SeizeAnswer::Promised { components, .. } => components.iter().any(|c| c.log_damaged),
                    _ => false,
                };
                let idle = serving.change.is_none() && serving.naive.is_none();
                let coming = serving.coming.as_ref().is_some_and(|c| c.letter == seat);
                if forgets && idle {
                    serving.untold.insert(seat);
                }
                if seat.is_lowercase() && !coming && idle {
                    let config = serving.config.clone();
                    if forgets {
                        self.propose(config, out);
                    } else {
                        let record = super::closed(e, serving.csn.0, config);
                        out.send.push(Msg { owner: self.index, seat, body: Body::Accept(record) });
                    }
                }
                self.on_rejoin_answer(seat, answer, out);
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
                    serving.take_effect(*config);
                    let (e, seats) = (serving.epoch, serving.config.seats());
                    if let Some(leases) = &mut self.leases {
                        leases.own(OBJECT, e, &seats);
                    }
                }
                ChangeEffect::Closed { csn } => {
                    serving.csn = csn;
                    serving.change = None;
                    self.known = super::closed(serving.epoch, csn.0, serving.config.clone());
                    let told = serving.take_told().into_iter();
                    let tell = |seat| Msg { owner: self.index, seat, body: Body::Tell(self.known.clone()) };
                    out.send.extend(told.map(tell));
                }
                ChangeEffect::Superseded(_) => return self.end(out),
            }
        }
        self.advance(out);
    }

    /// Proposes a configuration; false: one is on its way, or it is illegal.
    fn propose(&mut self, target: ObjectConfig, out: &mut Out) -> bool {
        let Phase::Serving(serving) = &mut self.phase else {
            return false;
        };
        if serving.change.is_some() || serving.naive.is_some() {
            return false;
        }
        let members = |c: &ObjectConfig| c.members.iter().map(|m| m.component).collect::<Vec<_>>();
        if self.canary == Canary::NotJoint && members(&target) != members(&serving.config) {
            let record = super::closed(serving.epoch, serving.csn.0 + 1, target);
            serving.naive = Some((record.clone(), BTreeSet::new()));
            let seats = record.config.seats();
            self.ask(&seats, &Body::Accept(record), out);
            return true;
        }
        match ConfigChange::propose(serving.epoch, serving.csn, &serving.config, target.clone()) {
            Ok((change, effects)) => {
                serving.change = Some((change, target));
                self.on_change(effects, out);
                true
            }
            Err(_) => false,
        }
    }

    /// Acknowledges, settles, records failed components absent.
    fn advance(&mut self, out: &mut Out) {
        let canary = self.canary;
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let e = serving.epoch;
        let required = serving.required(canary);
        for (seq, write) in &mut serving.writes {
            if !write.acked && required.iter().all(|l| write.legs.get(l) == Some(&true)) {
                write.acked = true;
                out.events.push(Event::Acked(OpId { epoch: e, seq: *seq }));
            }
        }
        serving.writes.retain(|_, w| !w.acked || w.legs.values().any(|done| !done));
        if serving.failed.is_empty() || serving.change.is_some() || serving.naive.is_some() {
            return;
        }
        let settled = serving.settled();
        let mut target = serving.config.clone();
        let mut news = false;
        for member in &mut target.members {
            if serving.failed.contains(&letter_of(member.seat())) && member.state.takes_writes() {
                let stale_since = match member.state {
                    ComponentState::Resyncing { stale_since } => stale_since,
                    _ => settled,
                };
                member.state = ComponentState::Absent { stale_since };
                news = true;
            }
        }
        if !news {
            serving.failed.clear();
        } else if !self.propose(target, out) {
            // The last copy: the object cannot be served.
            self.end(out);
        }
    }

    /// Begins an operation, if its block is not locked.
    pub fn start_write(&mut self, out: &mut Out) -> Option<OpId> {
        let Phase::Serving(serving) = &mut self.phase else {
            return None;
        };
        let op = OpId { epoch: serving.epoch, seq: serving.next_seq };
        if serving.locked(block_of(op)) || !serving.failed.is_empty() {
            return None;
        }
        let settled = serving.settled();
        serving.next_seq += 1;
        let legs: BTreeMap<char, bool> = serving.links.keys().map(|l| (*l, false)).collect();
        for (seat, session) in &serving.links {
            let body = Body::Write { epoch: op.epoch, session: *session, op, settled };
            out.send.push(Msg { owner: self.index, seat: *seat, body });
        }
        serving.writes.insert(op.seq, InFlight { legs, acked: false });
        Some(op)
    }

    /// Asks a component to come back, or a nascent one to replace `instead_of`.
    pub fn start_coming(&mut self, letter: char, instead_of: Option<char>, out: &mut Out) -> bool {
        let Phase::Serving(serving) = &mut self.phase else {
            return false;
        };
        let absent = |m: &Member| matches!(m.state, ComponentState::Absent { .. });
        let member = serving.config.members.iter().find(|m| letter_of(m.seat()) == letter);
        let fits = match instead_of {
            None => member.is_some_and(absent),
            Some(old) => member.is_none() && serving.config.members.iter().any(|m| letter_of(m.seat()) == old),
        };
        if !fits || serving.coming.is_some() || serving.change.is_some() || serving.naive.is_some() {
            return false;
        }
        serving.coming = Some(Coming { letter, instead_of, session: SessionId(0), state: None });
        let body = Body::Seize { epoch: serving.epoch, overrule: false, anew: true };
        out.send.push(Msg { owner: self.index, seat: letter, body });
        true
    }

    /// Brings a witness up that has not promised, or has forgotten that it did: it promises, and is told the record.
    pub fn bring_up(&mut self, letter: char, out: &mut Out) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let named = serving.config.members.iter().any(|m| letter_of(m.seat()) == letter);
        if named && serving.change.is_none() && serving.naive.is_none() && letter.is_lowercase() {
            let body = Body::Seize { epoch: serving.epoch, overrule: true, anew: true };
            out.send.push(Msg { owner: self.index, seat: letter, body });
        }
    }

    /// Stops waiting for the one that comes back.
    pub fn forget_coming(&mut self) -> bool {
        let Phase::Serving(serving) = &mut self.phase else {
            return false;
        };
        let proposed = serving.change.is_some() || serving.naive.is_some();
        !proposed && serving.coming.take().is_some()
    }

    fn on_rejoin_answer(&mut self, seat: char, answer: &SeizeAnswer, out: &mut Out) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let Some(coming) = serving.coming.as_mut().filter(|c| c.letter == seat && c.state.is_none()) else {
            return;
        };
        let SeizeAnswer::Promised { components, .. } = answer else {
            serving.coming = None;
            return;
        };
        coming.session = components[0].session;
        let member = serving.config.members.iter().find(|m| letter_of(m.seat()) == seat);
        let Some(member) = member else {
            coming.state = Some(ComponentState::Resyncing { stale_since: OpId::ZERO });
            return self.propose_coming(out);
        };
        let Some(plan) =
            rejoin(member, &components[0], serving.proven.get(&member.component).copied().unwrap_or_default())
        else {
            serving.coming = None;
            return;
        };
        coming.state = Some(plan.state);
        serving.proven.remove(&member.component);
        let session = coming.session;
        if plan.undo.is_empty() {
            return self.propose_coming(out);
        }
        let body = Body::Undo { epoch: serving.epoch, session, ops: plan.undo };
        out.send.push(Msg { owner: self.index, seat, body });
    }

    fn propose_coming(&mut self, out: &mut Out) {
        let Phase::Serving(serving) = &mut self.phase else {
            return;
        };
        let coming = serving.coming.clone().expect("asked");
        let mut target = serving.config.clone();
        let state = coming.state.expect("answered");
        match coming.instead_of {
            None => {
                let member = target.members.iter_mut().find(|m| letter_of(m.seat()) == coming.letter);
                let Some(member) = member else {
                    serving.coming = None;
                    return;
                };
                member.state = state;
            }
            Some(old) => {
                let place = target.members.iter().position(|m| letter_of(m.seat()) == old).expect("checked");
                let word = format!("{}{}", coming.letter, target.members[place].votes);
                target.members[place] = Member { state, ..super::member_of(&word) };
            }
        }
        if !self.propose(target, out)
            && let Phase::Serving(serving) = &mut self.phase
        {
            serving.coming = None;
        }
    }

    /// The component is full and has every operation: propose that it is active.
    pub fn start_activation(&mut self, letter: char, out: &mut Out) -> bool {
        let canary = self.canary;
        let Phase::Serving(serving) = &mut self.phase else {
            return false;
        };
        let Some(filling) = serving.filling.get(&letter) else {
            return false;
        };
        let full = canary == Canary::NoResync || filling.to_copy.as_ref().is_some_and(BTreeSet::is_empty);
        let missing = serving.writes.values().any(|w| w.legs.get(&letter) == Some(&false));
        if !full || missing || serving.settled().seq < filling.linked_at || !serving.links.contains_key(&letter) {
            return false;
        }
        let mut target = serving.config.clone();
        if canary != Canary::NoDecided {
            target.decided = target.decided.max(serving.settled());
        }
        for member in &mut target.members {
            if letter_of(member.seat()) == letter {
                member.state = ComponentState::Active;
            }
        }
        self.propose(target, out)
    }

    /// Sends again what has no answer: records, confirmations.
    pub fn resend(&mut self, now: Time, out: &mut Out) {
        if let Phase::Serving(serving) = &self.phase
            && let Some((change, _)) = &serving.change
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
            let body = Body::Confirm { epoch: serving.epoch, token };
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

fn letter(id: u128) -> char {
    char::from_u32(id as u32).expect("made of a letter")
}
