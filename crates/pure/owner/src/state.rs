//! What an owner knows of its object, and the plain functions that change it. No await, no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use cairn_types::{
    Canary, ComponentId, ComponentState, Csn, Epoch, HostId, Member, ObjectConfig, OpId, Redundancy, ReplicaSetIndex,
    Role, SessionId, Time, concerns,
};
use cairn_wire::Target;
use serde::{Serialize, Serializer};

use crate::numbered::Numbered;

/// Why an owner ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Ended {
    /// Another host promised itself a newer epoch.
    Fenced(Epoch),
    /// Votes or copies are missing.
    Inaccessible(String),
    /// Handed over or closed on request.
    GivenUp,
    /// Deleted.
    Deleted,
}

/// A component that takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Where it is.
    pub host: HostId,
    /// Its address, and the session that it was admitted with.
    pub target: Target,
    /// An acknowledgement waits for it: in sync, or its activation is proposed.
    pub required: bool,
    /// Its index in its replica set.
    pub copy: u32,
}

/// One member that an operation is to be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// To whom.
    pub component: ComponentId,
    /// As it was admitted when the operation began.
    pub link: Link,
}

/// Which members of its replica set an operation concerns, whatever their state: a bit for each index; 0: all, as at a mirror.
pub type MemberMask = u16;

/// A member whose stable media an acknowledged operation is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InSync {
    /// Which.
    pub component: ComponentId,
    /// Its index in its replica set.
    pub copy: u32,
}

/// A replica set, as operations on it see it.
#[derive(Debug, Clone, Default)]
struct SetLegs {
    /// The components that take writes: what an operation is sent to.
    legs: Rc<[Leg]>,
    /// Those that are in sync in the configuration in effect.
    in_sync: Rc<[InSync]>,
}

/// Sessions of components that the owner admitted for a configuration that is not in effect yet.
pub type Admitted = BTreeMap<ComponentId, SessionId>;

/// The owner's view of its object.
#[derive(Debug, Clone, Serialize)]
pub struct State {
    #[serde(serialize_with = "of_shared")]
    config: Rc<ObjectConfig>,
    csn: Csn,
    epoch: Epoch,
    links: BTreeMap<ComponentId, Link>,
    /// Made of `config` and `links`.
    #[serde(skip)]
    sets: Vec<SetLegs>,
    /// Operations that have begun and not ended, by seq.
    in_flight: Numbered<()>,
    /// The last operation that a component is known to have acknowledged: what it must still have when its host comes back.
    acked: BTreeMap<ComponentId, OpId>,
    /// Components that are not to be admitted again before a time: there was no space to fill them.
    #[serde(serialize_with = "of_times")]
    kept_out: BTreeMap<ComponentId, Time>,
    /// Failed since the last config change: to be recorded absent (false) or degraded (true).
    failed: BTreeMap<ComponentId, bool>,
    ended: Option<Ended>,
    /// The watermark that was last told to everyone.
    settled_told: OpId,
    /// Operations were sent since `settled_told` last went out by itself.
    wrote: bool,
    /// No new operations: a hand-over, deletion or close drains.
    draining: bool,
}

fn of_shared<S: Serializer>(config: &Rc<ObjectConfig>, serializer: S) -> Result<S::Ok, S::Error> {
    config.as_ref().serialize(serializer)
}

fn of_times<S: Serializer>(times: &BTreeMap<ComponentId, Time>, serializer: S) -> Result<S::Ok, S::Error> {
    times.iter().map(|(component, time)| (*component, time.0)).collect::<BTreeMap<_, _>>().serialize(serializer)
}

impl State {
    /// Of an owner that has just won. `sessions`: admissions of the components that take writes; `acked`: what copies that were in sync
    /// must still have.
    ///
    /// # Panics
    /// A component in sync was not admitted.
    pub fn new(
        config: ObjectConfig,
        csn: Csn,
        epoch: Epoch,
        sessions: &BTreeMap<ComponentId, SessionId>,
        acked: BTreeMap<ComponentId, OpId>,
    ) -> Self {
        let mut state = Self {
            config: Rc::new(config),
            csn,
            epoch,
            links: BTreeMap::new(),
            sets: Vec::new(),
            in_flight: Numbered::from(1),
            acked,
            kept_out: BTreeMap::new(),
            failed: BTreeMap::new(),
            ended: None,
            settled_told: OpId::ZERO,
            wrote: true,
            draining: false,
        };
        state.admit(sessions);
        state
    }

    /// The configuration in effect.
    pub fn config(&self) -> &Rc<ObjectConfig> {
        &self.config
    }

    /// Its number.
    pub fn csn(&self) -> Csn {
        self.csn
    }

    /// The epoch that it owns at.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Why it ended, once it has.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Ends the ownership. The first reason stands: false where there is one already.
    pub fn finish(&mut self, why: Ended) -> bool {
        let first = self.ended.is_none();
        self.ended.get_or_insert(why);
        first
    }

    /// Whether there are failures that are not recorded yet.
    pub fn has_failures(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Whether the component's failure is not recorded yet.
    pub fn has_failed(&self, component: ComponentId) -> bool {
        self.failed.contains_key(&component)
    }

    /// Whether nothing new is to begin.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Lets nothing new begin, or again.
    pub fn drain(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Whether operations were sent since `settled` last went out by itself.
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// What is to be told as settled where nothing is in flight: once after operations, then nothing more until others are sent. While a copy is
    /// filled it is told in between, too: on a full device what waits for room has none before what came first is settled.
    pub fn settled_to_tell(&mut self) -> Option<OpId> {
        let settled = self.settled();
        let is_idle = settled == self.last();
        if !self.wrote || !is_idle && self.links.values().all(|link| link.required) {
            return None;
        }
        if self.settled_told == settled {
            self.wrote = !is_idle;
            return None;
        }
        self.settled_told = settled;
        Some(settled)
    }

    /// Writes go to the member from now on.
    pub(crate) fn link(&mut self, member: &Member, session: SessionId) {
        self.set_link(member, session);
        self.rebuild_legs();
    }

    fn set_link(&mut self, member: &Member, session: SessionId) {
        let target = Target { disk_group: member.disk_group, component: member.component, epoch: self.epoch, session };
        let (host, required, copy) = (member.host, self.counts(member), member.copy().unwrap_or_default());
        self.links.insert(member.component, Link { host, target, required, copy });
    }

    /// Writes go to these members from now on, as far as they hold data and take writes.
    fn admit(&mut self, admitted: &Admitted) {
        let config = self.config.clone();
        for member in config.members.iter().filter(|m| m.set().is_some() && m.state.takes_writes()) {
            if let Some(&session) = admitted.get(&member.component) {
                self.set_link(member, session);
            }
        }
        self.rebuild_legs();
    }

    /// From links and members to what operations look at.
    ///
    /// # Panics
    /// A component in sync has no link: operations would be acknowledged without it.
    fn rebuild_legs(&mut self) {
        let sets = self.config.members.iter().filter_map(Member::set).max().map_or(0, |s| s as usize + 1);
        let mut legs = vec![(Vec::new(), Vec::new()); sets];
        for member in &self.config.members {
            let Role::Data { set, copy } = member.role else { continue };
            let (legs, in_sync) = &mut legs[set as usize];
            let link = self.link_of(member.component);
            legs.extend(link.map(|link| Leg { component: member.component, link }));
            if self.counts(member) && (link.is_some() || member.state.in_sync()) {
                assert!(link.is_some() || Canary::LegMissing.sings(), "a component in sync takes writes");
                in_sync.push(InSync { component: member.component, copy });
            }
        }
        // This host first: its device is at work while the messages to the others are put together and copied.
        let me = self.epoch.host;
        legs.iter_mut().for_each(|(legs, _)| legs.sort_by_key(|leg| leg.link.host != me));
        let set = |(legs, in_sync): (Vec<_>, Vec<_>)| SetLegs { legs: legs.into(), in_sync: in_sync.into() };
        self.sets = legs.into_iter().map(set).collect();
    }

    /// Whether operations on a member's set need it, and it is read: it is in sync. Members of a set that is on its way to take the place of
    /// others are so to each other, for as long as none of them has failed; guests have nothing of that.
    pub(crate) fn counts(&self, member: &Member) -> bool {
        let apart = member.set().is_some_and(|set| !self.config.addresses.serves(set));
        member.state.in_sync() || apart && member.state.takes_writes()
    }

    /// Whether a component is a member of rows of strips.
    pub(crate) fn is_of_rows(&self, component: ComponentId) -> bool {
        let set = self.config.member(component).and_then(Member::set);
        set.is_some_and(|set| matches!(self.config.addresses.redundancy(set), Redundancy::Parity { .. }))
    }

    /// Members of a replica set whose stable media an acknowledged operation is on, if it concerns them.
    pub fn in_sync(&self, set: ReplicaSetIndex) -> Rc<[InSync]> {
        self.sets.get(set as usize).map(|set| set.in_sync.clone()).unwrap_or_default()
    }

    /// The session and address of a component that takes writes.
    pub fn link_of(&self, component: ComponentId) -> Option<Link> {
        self.links.get(&component).copied()
    }

    /// Every component that takes writes.
    pub fn links(&self) -> Vec<Leg> {
        self.links.iter().map(|(component, link)| Leg { component: *component, link: *link }).collect()
    }

    /// Begins an operation on these members of a replica set: its id, what is settled, and those of them that take writes.
    pub fn begin(&mut self, set: ReplicaSetIndex, members: MemberMask) -> (OpId, OpId, Rc<[Leg]>) {
        let seq = self.in_flight.push(());
        self.wrote = true;
        let legs = self.legs(set, members);
        (OpId { epoch: self.epoch, seq }, self.settled(), legs)
    }

    /// The number of what changes no block: it is decided at once.
    pub(crate) fn number(&mut self) -> OpId {
        let seq = self.in_flight.push(());
        self.in_flight.remove(seq);
        OpId { epoch: self.epoch, seq }
    }

    /// These members of a replica set, as far as they take writes.
    pub(crate) fn legs(&self, set: ReplicaSetIndex, members: MemberMask) -> Rc<[Leg]> {
        let legs = self.sets.get(set as usize).map(|set| set.legs.clone()).unwrap_or_default();
        match members {
            0 => legs,
            _ => legs.iter().filter(|leg| concerns(members, leg.link.copy)).copied().collect(),
        }
    }

    /// The operation is decided on every component that it was sent to, or that component is recorded absent.
    ///
    /// # Panics
    /// It has ended already.
    pub fn end(&mut self, op: OpId) {
        assert!(self.in_flight.remove(op.seq).is_some(), "an operation ends once");
    }

    /// Every operation up to this one is decided.
    pub fn settled(&self) -> OpId {
        let seq = self.in_flight.first().unwrap_or(self.in_flight.next()) - 1;
        OpId { epoch: self.epoch, seq }
    }

    /// The component has it on stable media.
    pub(crate) fn on_acked(&mut self, component: ComponentId, op: OpId) {
        let last = self.acked.entry(component).or_insert(OpId::ZERO);
        *last = op.max(*last);
    }

    /// The last operation that the component acknowledged; zero where none was.
    pub(crate) fn acked(&self, component: ComponentId) -> OpId {
        self.acked.get(&component).copied().unwrap_or(OpId::ZERO)
    }

    /// It is to be filled from the beginning: what it acknowledged before matters no more.
    pub(crate) fn forget_acked(&mut self, component: ComponentId) {
        self.acked.remove(&component);
    }

    /// It is not to be admitted again before `until`.
    pub(crate) fn keep_out(&mut self, component: ComponentId, until: Time) {
        self.kept_out.insert(component, until);
    }

    /// Whether it may be admitted again.
    pub(crate) fn may_come(&self, component: ComponentId, now: Time) -> bool {
        self.kept_out.get(&component).is_none_or(|until| now >= *until)
    }

    /// Whether no operation has begun that has not ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether the operation has begun and not ended.
    pub fn is_in_flight(&self, op: OpId) -> bool {
        self.in_flight.get(op.seq).is_some()
    }

    /// The last operation that was begun.
    pub fn last(&self) -> OpId {
        OpId { epoch: self.epoch, seq: self.in_flight.next() - 1 }
    }

    /// Whether every operation up to `op` is decided.
    pub fn is_settled(&self, op: OpId) -> bool {
        self.settled() >= op
    }

    /// The member did not do what it was asked. Writes that need it wait until it is recorded.
    pub fn fail(&mut self, component: ComponentId, for_good: bool) {
        let state = self.config.member(component).map(|m| m.state);
        if state.is_some_and(ComponentState::takes_writes) {
            let worst = self.failed.entry(component).or_default();
            *worst |= for_good;
        }
    }

    /// Whether an acknowledgement still waits for the component.
    pub(crate) fn requires(&self, component: ComponentId) -> bool {
        self.links.get(&component).is_some_and(|l| l.required)
    }

    /// From now on acknowledgements wait for the resyncing component too: the barrier before its activation.
    pub(crate) fn require(&mut self, component: ComponentId) {
        if let Some(link) = self.links.get_mut(&component) {
            link.required = true;
        }
    }

    /// In-sync copies of a replica set that reads may use, the failed ones left out.
    pub fn readable(&self, set: ReplicaSetIndex) -> Vec<Leg> {
        self.config
            .replica_set(set)
            .filter(|m| self.counts(m) || Canary::ResyncingRead.sings())
            .filter(|m| !self.failed.contains_key(&m.component))
            .filter_map(|m| Some(Leg { component: m.component, link: self.link_of(m.component)? }))
            .collect()
    }

    /// The indexes of members that reads may use, each once.
    pub fn readable_copies(&self, set: ReplicaSetIndex) -> BTreeSet<u32> {
        self.readable(set).iter().map(|leg| leg.link.copy).collect()
    }

    /// Whether a copy that is not read now may be in sync again with what it holds: it is away, or misses a known part only.
    pub fn may_come_back(&self, set: ReplicaSetIndex) -> bool {
        self.config.replica_set(set).any(|m| match m.state {
            ComponentState::Active => self.failed.get(&m.component) == Some(&false),
            ComponentState::Absent { stale_since } | ComponentState::Resyncing { stale_since } => {
                stale_since != OpId::ZERO
            }
            ComponentState::Degraded => false,
        })
    }

    /// The next configuration: failures recorded.
    pub(crate) fn config_with_failures(&self) -> ObjectConfig {
        let mut config = (*self.config).clone();
        let settled = self.settled();
        for (component, for_good) in &self.failed {
            let Some(member) = config.member_mut(*component) else {
                continue;
            };
            let stale_since = match member.state {
                ComponentState::Resyncing { stale_since } | ComponentState::Absent { stale_since, .. } => stale_since,
                ComponentState::Active | ComponentState::Degraded => settled,
            };
            member.state = match for_good {
                true => ComponentState::Degraded,
                false => ComponentState::Absent { stale_since },
            };
        }
        config.decided = config.decided.max(settled);
        config
    }

    /// A configuration took effect. Writes go to what it newly admits from this very moment: what is in sync in it is what they
    /// are acknowledged by. Failures that it records are no more.
    ///
    /// # Panics
    /// It is not newer, or a component is in sync in it that takes no writes.
    pub fn adopt(&mut self, config: ObjectConfig, csn: Csn, admitted: &Admitted) {
        assert!(csn > self.csn, "configurations only go forward");
        self.config = Rc::new(config);
        self.csn = csn;
        let members: BTreeMap<ComponentId, bool> =
            self.config.members.iter().map(|m| (m.component, self.counts(m))).collect();
        let taking = self.config.members.iter().filter(|m| m.state.takes_writes());
        let taking: BTreeSet<ComponentId> = taking.map(|m| m.component).collect();
        self.links.retain(|component, _| taking.contains(component));
        for (component, link) in &mut self.links {
            link.required |= members[component];
        }
        self.failed.retain(|component, _| taking.contains(component));
        self.acked.retain(|component, _| members.contains_key(component));
        self.kept_out.retain(|component, _| members.contains_key(component));
        self.admit(admitted);
    }

    /// The change is closed: the next one starts from here.
    pub fn closed(&mut self, csn: Csn) {
        self.csn = csn;
    }
}

#[cfg(test)]
mod tests;
