//! Taking ownership: promises, the adopted record, settling, one closed configuration under the own epoch.
//!
//! Order of the steps, and why a crash between any two of them is safe:
//!
//! 1. *Gather.* Majorities of every configuration of the highest known record promise. No older owner can change the
//!    record or hold leases from a majority any more. Seats that refuse for a lease are asked again then, with that
//!    majority as the reason: a lease there guards nothing now. Every active and resyncing component answers, or is
//!    unreachable and will be recorded absent, never the last in-sync copy of a set.
//! 2. *Write back* an adopted open record (and a tombstone) under the own epoch, to the majorities of both its
//!    configurations. A crash here: the next seizer adopts it from us or from where we had it; the value is the same.
//! 3. *Undo*, durably, what is not to stand. Before 4, since `decided` of 4 tells everyone later that nothing up to it
//!    is ever undone. A crash here: an operation is undone only if it was never acknowledged, which stays true
//!    whatever the next seizer adopts, and it undoes the rest or finds it gone.
//! 4. *Write* the closed configuration: csn+1, what is unreachable absent, `decided` above every older epoch. Accepted
//!    by a majority it is effective, and we have won. A crash here: the next seizer adopts it, then nothing older is
//!    open any more; or it does not see it, and settles again what we settled. It may keep what we kept.
//!
//! A component that fails in 3 is recorded absent in 4; what was decided is not decided again.
//! The watermark of a component recorded absent is the one before this settling.
//!
//! *A copy in sync may lack a decided write that another copy in sync proves. Then it has lost the end of its log*, whatever its
//! host says: its image is too young for anyone to remember a later position of that log. It counts as one whose log is damaged.

use std::collections::{BTreeMap, BTreeSet};

use cairn_types::{
    Accepted, Canary, ComponentId, ComponentState, Csn, Epoch, Member, ObjectConfig, OpId, Seat, SessionId,
};
use cairn_votes::{Inaccessible, accessible};
use cairn_wire::{ComponentAnswer, SeizeAnswer};
use serde::Serialize;

use crate::{
    AcceptRefused,
    ballot::{decided_by, decided_by_members, newer, seats, voters, waits_for},
    settle::{SetMember, knows, of_set, proven, settle, still_holds},
};

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeizureEffect {
    /// Ask these seats to promise; answers by [`Seizure::on_seize_answer`], silence by [`Seizure::on_unreachable`].
    Seize {
        /// Whom.
        seats: Vec<Seat>,
        /// A majority has promised already: another owner's lease is no reason to refuse.
        overrule_lease: bool,
    },
    /// Ask these seats to accept; answers by [`Seizure::on_accept_answer`].
    Accept {
        /// Whom.
        seats: Vec<Seat>,
        /// What.
        record: Box<Accepted>,
    },
    /// Undo operations, durably; answers by [`Seizure::on_undo_answer`].
    Undo {
        /// Where.
        seat: Seat,
        /// On which component.
        component: ComponentId,
        /// Its admission.
        session: SessionId,
        /// Newest first.
        ops: Vec<OpId>,
    },
    /// The object is ours, once a majority has confirmed its leases.
    Won(Box<Won>),
    /// It is not; the epoch is burnt. Release the claims ([`crate::PeerLeases::abandon`]).
    Failed(SeizureFailure),
}

/// What the winner starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Won {
    /// The own epoch.
    pub epoch: Epoch,
    /// The number of the effective configuration.
    pub csn: Csn,
    /// The effective configuration; closed.
    pub config: ObjectConfig,
    /// Admissions of the active and resyncing components.
    pub sessions: BTreeMap<ComponentId, SessionId>,
    /// Unsettled operations that stand, ascending. All older ones above the old watermark are undone.
    pub committed: Vec<OpId>,
    /// Of copies that were in sync: a write that each must still have when it comes back, or is asked again.
    pub proven: BTreeMap<ComponentId, OpId>,
    /// Seats that have not accepted yet: the configuration is to be sent to them again.
    pub laggards: Vec<Seat>,
}

/// Why it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeizureFailure {
    /// A newer epoch was promised: somebody else is at it.
    Superseded(Epoch),
    /// Another owner's lease stands.
    LeaseHeld {
        /// Its epoch.
        by: Epoch,
        /// It ends in at most this time if it is silent.
        for_ms: u64,
    },
    /// Votes or copies are missing.
    NoQuorum(Inaccessible),
    /// The object is deleted.
    Deleted,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
enum SeatAnswer {
    Asked { overruling: bool },
    Promised { nascent: bool, components: Vec<ComponentAnswer> },
    Held { by: Epoch, for_ms: u64 },
    NoSeat,
    Unreachable,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
enum Phase {
    Gather,
    WriteBack { answers: Answers },
    Undo { pending: BTreeSet<ComponentId> },
    Write { record: Box<Accepted>, answers: Answers },
    Ended,
}

/// Who accepted and who did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
struct Answers {
    yes: BTreeSet<Seat>,
    no: BTreeSet<Seat>,
}

/// One attempt to become owner. See the head of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seizure {
    epoch: Epoch,
    /// The highest record known.
    best: Accepted,
    seats: BTreeMap<Seat, SeatAnswer>,
    phase: Phase,
    /// The highest operation that anyone proved decided.
    watermark: OpId,
    /// Per member of a replica set, the last decided write that another one in sync proves. What was proven stays so when that fails later.
    proven: BTreeMap<SetMember, OpId>,
    /// Components that failed after they answered.
    failed: BTreeSet<ComponentId>,
    committed: Vec<OpId>,
}

impl Seizure {
    /// Begins with the highest record known as a `hint`: csn 0 for an object that was never owned.
    ///
    /// `epoch` is from [`crate::next_epoch`] and used once.
    pub fn start(epoch: Epoch, hint: Accepted) -> (Self, Vec<SeizureEffect>) {
        let mut seizure = Self {
            epoch,
            watermark: OpId::ZERO,
            proven: BTreeMap::new(),
            best: hint,
            seats: BTreeMap::new(),
            phase: Phase::Gather,
            failed: BTreeSet::new(),
            committed: Vec::new(),
        };
        let effects = seizure.gather();
        (seizure, effects)
    }

    /// The epoch seized with.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether it has won or failed.
    pub fn ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Seats that have been asked and have not answered.
    pub fn waiting_for(&self) -> Vec<Seat> {
        match &self.phase {
            Phase::Gather => self.asked().collect(),
            Phase::WriteBack { answers } => answers.missing(&self.best),
            Phase::Write { record, answers } => answers.missing(record),
            Phase::Undo { pending } => {
                let members = self.best.config.members.iter().filter(|m| pending.contains(&m.component));
                members.map(Member::seat).collect()
            }
            Phase::Ended => Vec::new(),
        }
    }

    /// A seat answered.
    pub fn on_seize_answer(&mut self, seat: Seat, answer: SeizeAnswer) -> Vec<SeizureEffect> {
        if self.phase != Phase::Gather || !self.seats.contains_key(&seat) {
            return Vec::new();
        }
        let answer = match answer {
            SeizeAnswer::Promisee { promised } if promised > self.epoch => {
                return self.fail(SeizureFailure::Superseded(promised));
            }
            // A refusal for an epoch that is not above ours answers something else.
            SeizeAnswer::Promisee { .. } => return Vec::new(),
            SeizeAnswer::LeaseHeld { by, for_ms } => match self.seats[&seat] {
                SeatAnswer::Promised { .. } => return Vec::new(),
                // It does not believe the majority: it does not take part, or asking would never end.
                SeatAnswer::Asked { overruling: true } => SeatAnswer::Unreachable,
                _ => SeatAnswer::Held { by, for_ms },
            },
            SeizeAnswer::NoSeat => SeatAnswer::NoSeat,
            SeizeAnswer::Promised { accepted, components } => {
                let nascent = accepted.is_none();
                if let Some(accepted) = accepted.filter(|a| newer(a, &self.best) && !Canary::ChangeDropped.sings()) {
                    self.best = *accepted;
                }
                SeatAnswer::Promised { nascent, components }
            }
        };
        self.seats.insert(seat, answer);
        self.gather()
    }

    /// A seat did not answer what it was asked last, and is not expected to.
    pub fn on_unreachable(&mut self, seat: Seat) -> Vec<SeizureEffect> {
        match &mut self.phase {
            Phase::Gather => {
                if let Some(answer @ SeatAnswer::Asked { .. }) = self.seats.get_mut(&seat) {
                    *answer = SeatAnswer::Unreachable;
                }
                self.gather()
            }
            Phase::WriteBack { answers } | Phase::Write { answers, .. } => {
                if !answers.yes.contains(&seat) {
                    answers.no.insert(seat);
                }
                self.count_accepts()
            }
            Phase::Undo { pending } => {
                let lost = self.best.config.members.iter().filter(|m| m.seat() == seat);
                let lost: Vec<_> = lost.map(|m| m.component).filter(|c| pending.remove(c)).collect();
                self.failed.extend(lost);
                self.after_undo()
            }
            Phase::Ended => Vec::new(),
        }
    }

    /// Nobody is waited for any longer.
    pub fn on_timeout(&mut self) -> Vec<SeizureEffect> {
        let mut effects = Vec::new();
        for seat in self.waiting_for() {
            effects.extend(self.on_unreachable(seat));
            // A step forward has asked new questions: the timeout was for the old ones.
            if !effects.is_empty() {
                break;
            }
        }
        effects
    }

    /// A component answered an undo. `refused` is the newer epoch that it promised; other failures: `Err(None)`.
    pub fn on_undo_answer(&mut self, component: ComponentId, done: Result<(), Option<Epoch>>) -> Vec<SeizureEffect> {
        let Phase::Undo { pending } = &mut self.phase else {
            return Vec::new();
        };
        if !pending.remove(&component) {
            return Vec::new();
        }
        match done {
            Err(Some(promised)) if promised > self.epoch => {
                return self.fail(SeizureFailure::Superseded(promised));
            }
            Err(_) => {
                self.failed.insert(component);
            }
            Ok(()) => {}
        }
        self.after_undo()
    }

    /// A seat answered the record with number `csn`.
    pub fn on_accept_answer(&mut self, seat: Seat, csn: Csn, answer: Result<(), AcceptRefused>) -> Vec<SeizureEffect> {
        let asked = match &self.phase {
            Phase::WriteBack { .. } => self.best.csn,
            Phase::Write { record, .. } => record.csn,
            _ => return Vec::new(),
        };
        if asked != csn {
            return Vec::new();
        }
        if let Err(AcceptRefused::Promised(promised)) = answer
            && promised > self.epoch
        {
            return self.fail(SeizureFailure::Superseded(promised));
        }
        if let Phase::WriteBack { answers } | Phase::Write { answers, .. } = &mut self.phase {
            if answer.is_ok() {
                answers.yes.insert(seat);
            } else if !answers.yes.contains(&seat) {
                answers.no.insert(seat);
            }
        }
        self.count_accepts()
    }

    fn fail(&mut self, why: SeizureFailure) -> Vec<SeizureEffect> {
        self.phase = Phase::Ended;
        vec![SeizureEffect::Failed(why)]
    }

    fn asked(&self) -> impl Iterator<Item = Seat> {
        self.seats.iter().filter(|(_, a)| matches!(a, SeatAnswer::Asked { .. })).map(|(seat, _)| *seat)
    }

    /// Asks seats not asked yet; goes on when enough have answered.
    fn gather(&mut self) -> Vec<SeizureEffect> {
        let mut effects = Vec::new();
        self.proven = proven(&self.best.config, |m| self.answer_of(m));
        let new: Vec<Seat> = seats(&self.best).into_iter().filter(|s| !self.seats.contains_key(s)).collect();
        if !new.is_empty() {
            self.seats.extend(new.iter().map(|s| (*s, SeatAnswer::Asked { overruling: false })));
            effects.push(SeizureEffect::Seize { seats: new, overrule_lease: false });
        }
        if decided_by_members(&self.best, |m| self.votes(m)) {
            effects.extend(self.overrule());
            if self.needed_have_answered() {
                effects.extend(self.adopt());
            }
        } else if self.asked().next().is_none() {
            effects.extend(self.give_up());
        }
        effects
    }

    /// Whether the member's vote is promised.
    ///
    /// A seat that never accepted anything votes only where it may not have yet: in a new object, or as the new
    /// member of an open record. Otherwise it is one that was made anew under its old id, and forgot. One whose log is damaged, or
    /// ends before what it once held, may have forgotten a record that it accepted: it has no vote until it is told one that was
    /// decided without it, after it has promised to whoever tells it.
    fn votes(&self, member: &Member) -> bool {
        let Some(SeatAnswer::Promised { nascent, components }) = self.seats.get(&member.seat()) else {
            return false;
        };
        let remembers = |c: &ComponentAnswer| !self.forgets(member, c) || Canary::ForgetfulVotes.sings();
        let holds = components.iter().any(|c| c.component == member.component && c.present && remembers(c));
        let may_be_nascent = || match &self.best.base {
            None => self.best.csn == Csn(0),
            Some(base) => base.member(member.component).is_none(),
        };
        holds && (!nascent || may_be_nascent())
    }

    /// Whether the log that the component answered from is damaged, or lacks what it once held. The log of one whose device is lost says
    /// nothing of what that held, and remembers promises and records as before.
    fn forgets(&self, member: &Member, answer: &ComponentAnswer) -> bool {
        answer.log_damaged || (member.state.in_sync() && !answer.lost && !knows(answer, self.proven(member)))
    }

    /// What the member is proven to have.
    fn proven(&self, member: &Member) -> OpId {
        let known = of_set(member).and_then(|of| self.proven.get(&of)).filter(|_| !Canary::YoungImageBelieved.sings());
        known.copied().unwrap_or(OpId::ZERO)
    }

    /// Whether the component can be one of the copies that the object goes on with.
    fn usable(&self, member: &Member) -> bool {
        self.answer_of(member).is_some_and(|a| still_holds(a, OpId::ZERO) && !self.forgets(member, a))
    }

    fn overrule(&mut self) -> Option<SeizureEffect> {
        let mut held = Vec::new();
        for (seat, answer) in &mut self.seats {
            if matches!(answer, SeatAnswer::Held { .. }) {
                *answer = SeatAnswer::Asked { overruling: true };
                held.push(*seat);
            }
        }
        (!held.is_empty()).then_some(SeizureEffect::Seize { seats: held, overrule_lease: true })
    }

    fn needed_have_answered(&self) -> bool {
        self.best.config.members.iter().all(|m| {
            m.set().is_none_or(|set| !self.best.config.addresses.serves(set))
                || !m.state.takes_writes()
                || !matches!(self.seats.get(&m.seat()), Some(SeatAnswer::Asked { .. }) | None)
        })
    }

    /// All have answered, and it is not enough.
    fn give_up(&mut self) -> Vec<SeizureEffect> {
        let held = self.seats.values().filter_map(|answer| match answer {
            SeatAnswer::Held { by, for_ms } => Some((*for_ms, *by)),
            _ => None,
        });
        if let Some((for_ms, by)) = held.max() {
            return self.fail(SeizureFailure::LeaseHeld { by, for_ms });
        }
        let voting = |config: &ObjectConfig| -> Vec<Seat> {
            config.members.iter().filter(|m| self.votes(m)).map(Member::seat).collect()
        };
        let base = self.best.base.as_deref().map(voting).unwrap_or_default();
        let present = voting(&self.best.config).into_iter().chain(base).collect();
        let why = waits_for(&self.best, &present, |m| self.usable(m));
        self.fail(SeizureFailure::NoQuorum(why))
    }

    fn answer_of(&self, member: &Member) -> Option<&ComponentAnswer> {
        match self.seats.get(&member.seat()) {
            Some(SeatAnswer::Promised { components, .. }) if !self.failed.contains(&member.component) => {
                components.iter().find(|c| c.component == member.component)
            }
            _ => None,
        }
    }

    /// The record is known and nobody can change it any more.
    fn adopt(&mut self) -> Vec<SeizureEffect> {
        for answer in self.seats.values() {
            let SeatAnswer::Promised { components, .. } = answer else {
                continue;
            };
            let settled = components.iter().map(|c| c.settled).max().unwrap_or(OpId::ZERO);
            self.watermark = self.watermark.max(settled);
        }
        self.watermark = self.watermark.max(self.best.config.decided);
        if let Err(why) = self.copies_left() {
            return self.fail(SeizureFailure::NoQuorum(why));
        }
        if self.best.base.is_none() && !self.best.config.deleted {
            return self.undo();
        }
        self.best.epoch = self.epoch;
        self.phase = Phase::WriteBack { answers: Answers::default() };
        vec![SeizureEffect::Accept { seats: seats(&self.best), record: Box::new(self.best.clone()) }]
    }

    /// Whether each set keeps a copy when what did not answer is recorded absent. A tombstone needs none.
    fn copies_left(&self) -> Result<(), Inaccessible> {
        if self.best.config.deleted {
            return Ok(());
        }
        let config = &self.best.config;
        // Votes are judged elsewhere: seats are counted present here, so that only copies can be lacking.
        let all = config.seats().into_iter().collect();
        accessible(config, &all, |m| self.usable(m))
    }

    /// The configuration to be written: what cannot go on is absent or degraded.
    fn config_to_write(&self) -> ObjectConfig {
        let mut config = self.best.config.clone();
        for member in &mut config.members {
            member.state = self.state_to_write(member);
        }
        config.decided = OpId { epoch: self.epoch, seq: 0 };
        config
    }

    fn state_to_write(&self, member: &Member) -> ComponentState {
        use ComponentState::{Absent, Active, Degraded, Resyncing};
        if member.set().is_none() {
            return member.state;
        }
        let seat = self.seats.get(&member.seat());
        let gone = match seat {
            Some(SeatAnswer::NoSeat) => true,
            Some(SeatAnswer::Promised { components, .. }) => {
                components.iter().find(|c| c.component == member.component).is_none_or(|c| c.lost || !c.present)
            }
            _ => false,
        };
        let answer = self.answer_of(member);
        let damaged = answer.is_some_and(|a| self.forgets(member, a));
        match member.state {
            _ if gone => Degraded,
            Active if damaged => Absent { stale_since: OpId::ZERO },
            Active if answer.is_none() => Absent { stale_since: self.watermark },
            Resyncing { .. } if damaged => Resyncing { stale_since: OpId::ZERO },
            Resyncing { stale_since } if answer.is_none() => Absent { stale_since },
            state => state,
        }
    }

    fn undo(&mut self) -> Vec<SeizureEffect> {
        let config = self.config_to_write();
        let taking = config.members.iter().filter(|m| m.state.takes_writes());
        let answers: BTreeMap<_, _> = taking.filter_map(|m| Some((m.component, self.answer_of(m)?))).collect();
        let settlement = settle(&config, &answers, self.watermark);
        let mut effects = Vec::new();
        for (component, ops) in &settlement.undo {
            let member = config.member(*component).expect("undone on a member");
            let session = answers[component].session;
            effects.push(SeizureEffect::Undo { seat: member.seat(), component: *component, session, ops: ops.clone() });
        }
        self.committed = settlement.committed;
        self.phase = Phase::Undo { pending: settlement.undo.into_keys().collect() };
        effects.extend(self.after_undo());
        effects
    }

    fn after_undo(&mut self) -> Vec<SeizureEffect> {
        if self.phase != (Phase::Undo { pending: BTreeSet::new() }) {
            return Vec::new();
        }
        if let Err(why) = self.copies_left() {
            return self.fail(SeizureFailure::NoQuorum(why));
        }
        let record =
            Accepted { epoch: self.epoch, csn: Csn(self.best.csn.0 + 1), base: None, config: self.config_to_write() };
        // Seats that leave with an open record learn from the closed one that they did.
        let seats = seats(&self.best);
        self.phase = Phase::Write { record: Box::new(record.clone()), answers: Answers::default() };
        vec![SeizureEffect::Accept { seats, record: Box::new(record) }]
    }

    /// Only seats count whose promises were gathered with what they had accepted: another one may have accepted since what we have not
    /// seen.
    fn accepted(&self, record: &Accepted, answers: &Answers) -> bool {
        decided_by_members(record, |m| answers.yes.contains(&m.seat()) && self.votes(m))
    }

    fn count_accepts(&mut self) -> Vec<SeizureEffect> {
        match &self.phase {
            Phase::WriteBack { answers } if self.accepted(&self.best, answers) => {
                if self.best.config.deleted {
                    self.fail(SeizureFailure::Deleted)
                } else {
                    self.undo()
                }
            }
            Phase::Write { record, answers } if self.accepted(record, answers) => {
                let won = self.won(record, answers);
                self.phase = Phase::Ended;
                vec![SeizureEffect::Won(Box::new(won))]
            }
            Phase::WriteBack { answers } => self.hopeless(self.cannot_be_accepted(&self.best, answers)),
            Phase::Write { record, answers } => self.hopeless(self.cannot_be_accepted(record, answers)),
            Phase::Gather | Phase::Undo { .. } | Phase::Ended => Vec::new(),
        }
    }

    /// Why the record cannot be decided any more, when it cannot.
    fn cannot_be_accepted(&self, record: &Accepted, answers: &Answers) -> Option<Inaccessible> {
        let may = |m: &&Member| !answers.no.contains(&m.seat()) && self.votes(m);
        let possible = voters(record).flat_map(|c| c.members.iter().filter(may)).map(Member::seat).collect();
        (!decided_by(record, &possible)).then(|| waits_for(record, &possible, |_| true))
    }

    fn hopeless(&mut self, why: Option<Inaccessible>) -> Vec<SeizureEffect> {
        why.map(|why| self.fail(SeizureFailure::NoQuorum(why))).unwrap_or_default()
    }

    fn won(&self, record: &Accepted, answers: &Answers) -> Won {
        let taking = record.config.members.iter().filter(|m| m.state.takes_writes());
        let in_sync = self.best.config.members.iter().filter(|m| m.state.in_sync());
        Won {
            epoch: self.epoch,
            csn: record.csn,
            config: record.config.clone(),
            sessions: taking.filter_map(|m| Some((m.component, self.answer_of(m)?.session))).collect(),
            committed: self.committed.clone(),
            proven: in_sync.map(|m| (m.component, self.proven(m))).collect(),
            laggards: record.config.seats().into_iter().filter(|s| !answers.yes.contains(s)).collect(),
        }
    }
}

impl Answers {
    fn missing(&self, record: &Accepted) -> Vec<Seat> {
        seats(record).into_iter().filter(|s| !self.yes.contains(s) && !self.no.contains(s)).collect()
    }
}
