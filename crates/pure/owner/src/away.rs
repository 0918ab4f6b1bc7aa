//! Components that are away: which of them count as failed, which come back and with what, which are replaced.
//!
//! Promises    no component is given up unseen without which too few of its set answer to give every byte
//!             what was in sync and lacks what it acknowledged is filled anew, from the beginning
//!             the repair delay never depends on a clock of the day, nor on another host's clock
//! Assumes     a takeover begins the count again: a delay is lengthened by what the owner before had counted, never shortened
//! Not here    who is up, which hosts are forgotten (`object`, `node`), where a replacement goes (`placement`)

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cairn_record::{Rejoin, rejoin, still_holds};
use cairn_types::{
    ComponentId, ComponentState, Epoch, HostId, Member, ObjectConfig, OpId, Role, Seat, SessionId, Time,
};
use cairn_wire::{ComponentAnswer, SeizeAnswer};

use crate::state::{Leg, State};

/// What follows for an absent component from what its seat answered a Seize of the owner's epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned {
    /// Nothing now.
    No,
    /// A newer epoch was promised: the owner ends.
    Fenced(Epoch),
    /// It is not there any more, or the seat does not know the object: an empty disk under an old name. It is recorded so, and replaced.
    Degrade,
    /// A witness is in sync again at once: it has nothing to catch up with but the record, which this change brings.
    Witness {
        /// It may have forgotten what it promised: it has no vote until it is told what was decided without it.
        forgetful: bool,
    },
    /// A copy takes writes in this admission and is filled, once it has undone what is not known to be decided.
    Fill {
        /// What is undone, and from where it is filled.
        rejoin: Rejoin,
        /// Its admission.
        session: SessionId,
    },
}

/// What decides whether something is replaced now.
#[derive(Debug, Clone, Copy)]
pub struct RepairRules {
    /// The time.
    pub now: Time,
    /// How long what is absent is waited for.
    pub delay: Duration,
    /// Administrators want nothing replaced for now, or so many hosts vanished that it must be the network.
    pub only_forgotten: bool,
}

impl State {
    /// Components in sync whose seats are away for long.
    pub fn long_away(&self, is_away: impl Fn(Seat) -> bool) -> Vec<Member> {
        self.config().members.iter().filter(|m| m.state.in_sync() && is_away(m.seat())).copied().collect()
    }

    /// What is not believed to be there is recorded absent though nobody has missed it; never where the others that answer are too few to
    /// give every byte. True: its failure was noted.
    pub fn miss(&mut self, member: &Member, answers: impl Fn(&Leg) -> bool) -> bool {
        let others = |set| {
            let readable = self.readable(set).into_iter();
            let others = readable.filter(|leg| leg.component != member.component && answers(leg));
            others.map(|leg| leg.link.copy).collect::<BTreeSet<_>>().len()
        };
        let missed = member.set().is_none_or(|set| others(set) >= self.config().needed(set) as usize);
        if missed {
            self.fail(member.component, false);
        }
        missed
    }

    /// Whether an absent component is asked back now, if its host is up. Failures are recorded first.
    pub fn is_asked_back(&self, member: &Member, now: Time) -> bool {
        let absent = matches!(member.state, ComponentState::Absent { .. });
        let serves = member.set().is_none_or(|set| self.config().addresses.serves(set));
        absent && serves && self.ended().is_none() && !self.has_failures() && self.may_come(member.component, now)
    }

    /// What its answer means for an absent member; none where it gave no answer.
    pub fn on_returned(&mut self, member: &Member, answer: Option<SeizeAnswer>) -> Returned {
        let components = match answer {
            Some(SeizeAnswer::Promised { components, .. }) => components,
            Some(SeizeAnswer::Promisee { promised }) => return Returned::Fenced(promised),
            Some(SeizeAnswer::NoSeat) => return Returned::Degrade,
            Some(SeizeAnswer::LeaseHeld { .. }) | None => return Returned::No,
        };
        let own = |c: &ComponentAnswer| c.component == member.component && c.present && !c.lost;
        let Some(answer) = components.into_iter().find(own) else {
            return Returned::Degrade;
        };
        if member.role == Role::Witness {
            return Returned::Witness { forgetful: answer.log_damaged };
        }
        let Some(rejoin) = rejoin(member, &answer, self.acked(member.component)) else {
            return Returned::No;
        };
        if rejoin.state == (ComponentState::Resyncing { stale_since: OpId::ZERO }) {
            self.forget_acked(member.component);
        }
        Returned::Fill { rejoin, session: answer.session }
    }

    /// A copy in sync that was admitted in `session` has started anew. It stays in sync where it is at rest and has what it acknowledged; in
    /// any other case its absence is recorded, and it comes back as what was away does. False: nothing follows, it is not what it was.
    pub fn on_started_anew(&mut self, member: &Member, session: SessionId, answer: Option<&ComponentAnswer>) -> bool {
        let component = member.component;
        let untouched =
            !self.has_failed(component) && self.link_of(component).is_some_and(|link| link.target.session == session);
        if !untouched {
            return false;
        }
        match answer.filter(|answer| self.is_idle() && still_holds(answer, self.acked(component))) {
            Some(answer) => self.link(member, answer.session),
            None => self.fail(component, false),
        }
        true
    }

    /// Witnesses of `answers` that may have forgotten what they promised. They are told the record only once the others have decided one
    /// since, so that no other owner can have done so with their word.
    pub fn forgetful_witnesses(&self, answers: &[ComponentAnswer]) -> Vec<ComponentId> {
        let is_witness = |c: &ComponentId| self.config().member(*c).is_some_and(|m| m.set().is_none());
        answers.iter().filter(|c| c.log_damaged).map(|c| c.component).filter(is_witness).collect()
    }

    /// What is to be replaced: what was absent for longer than the delay; at once what is degraded, or on a host that was forgotten.
    pub fn to_be_replaced(
        &self,
        absences: &Absences,
        rules: RepairRules,
        is_forgotten: impl Fn(HostId) -> bool,
    ) -> Vec<ComponentId> {
        let due = |m: &&Member| match m.state {
            ComponentState::Absent { .. } if is_forgotten(m.host) => true,
            _ if rules.only_forgotten => false,
            ComponentState::Absent { .. } => absences.lasted(m.component, rules.now) >= rules.delay,
            ComponentState::Degraded => true,
            ComponentState::Active | ComponentState::Resyncing { .. } => false,
        };
        let serves = |m: &&Member| m.set().is_none_or(|set| self.config().addresses.serves(set));
        self.config().members.iter().filter(serves).filter(due).map(|m| m.component).collect()
    }
}

/// For how long components of an object have been absent, as its owner counts: by its own running clock.
#[derive(Debug, Clone, Default)]
pub struct Absences {
    since: BTreeMap<ComponentId, Time>,
}

impl Absences {
    /// Takes in the configuration that holds now.
    pub fn look(&mut self, config: &ObjectConfig, now: Time) {
        let is_absent = |state: ComponentState| matches!(state, ComponentState::Absent { .. });
        self.since.retain(|component, _| config.member(*component).is_some_and(|m| is_absent(m.state)));
        for member in config.members.iter().filter(|m| is_absent(m.state)) {
            self.since.entry(member.component).or_insert(now);
        }
    }

    /// For how long; zero for what is not absent.
    pub fn lasted(&self, component: ComponentId, now: Time) -> Duration {
        self.since.get(&component).map_or(Duration::ZERO, |since| now.since(*since))
    }

    /// All of them, in milliseconds.
    pub fn all_ms(&self, now: Time) -> Vec<(ComponentId, u64)> {
        self.since.iter().map(|(component, since)| (*component, now.since(*since).as_millis() as u64)).collect()
    }
}

#[cfg(test)]
mod tests;
