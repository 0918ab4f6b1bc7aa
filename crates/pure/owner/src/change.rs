//! Which configuration an owner asks for: with failures recorded, with a component that is filled, with other members.
//!
//! Promises    what is decided is in it (`decided`): whoever settles later never undoes what a component got by copy
//!             Y2  a component is activated only when it has every operation issued before, on stable media;
//!                 from the barrier on, acknowledgements need it                                          (I4)
//! Assumes     one change at a time (`record::ConfigChange`); the caller waits for the barrier
//! Not here    whether a change is legal (`votes`), how it comes into effect (`record`), where components go (`placement`)

use cairn_types::{
    Addresses, Canary, ComponentId, ComponentState, Member, ObjectConfig, OpId, ReplicaSetIndex, SessionId,
};

use crate::state::{Ended, State};

/// A component that is filled is to be in sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    /// The configuration to be asked for.
    pub next: ObjectConfig,
    /// It was filled from nothing: perhaps because its log was damaged, and then it has no vote until it is told.
    pub was_empty: bool,
}

/// A component failed meanwhile: that is recorded first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureFirst;

impl State {
    /// The configuration that records the failures, or why the ownership ends: a set would be left without a copy in sync, and nothing
    /// else can be wrong with it.
    pub fn failures_to_record(&self) -> Result<ObjectConfig, Ended> {
        let next = self.config_with_failures();
        match cairn_votes::check_change(self.config(), &next) {
            Ok(_) => Ok(next),
            Err(missing) => Err(Ended::Inaccessible(missing.to_string())),
        }
    }

    /// The configuration in which the component is in that state.
    ///
    /// # Panics
    /// The configuration in effect does not name it.
    pub fn config_with(&self, component: ComponentId, state: ComponentState) -> ObjectConfig {
        let mut next = (**self.config()).clone();
        next.member_mut(component).expect("a member of its config").state = state;
        next
    }

    /// The configuration with these members. `members` may be of a moment ago: what the object knows of a component is newer.
    ///
    /// # Errors
    /// A copy in sync leaves, and there are failures: what it leaves behind may be one of them.
    pub fn config_of_members(
        &self,
        members: &[Member],
        removed: &[ComponentId],
        (addresses, size_bytes): (Addresses, u64),
    ) -> Result<ObjectConfig, FailureFirst> {
        let before = self.config();
        let leaves = |m: &Member| m.set().is_some() && m.state.in_sync() && removed.contains(&m.component);
        if self.has_failures() && before.members.iter().any(leaves) {
            return Err(FailureFirst);
        }
        let mut next = (**before).clone();
        next.members = members.to_vec();
        for member in &mut next.members {
            if let Some(known) = before.member(member.component) {
                member.state = known.state;
            }
        }
        next.addresses = addresses;
        next.size_bytes = size_bytes;
        Ok(next)
    }

    /// The configuration in which what is moving has taken the place of what was there, with these members. Of them only witnesses may be
    /// new. None: nothing is moving, or a member of it has failed.
    pub fn config_once_moved(&self, members: &[Member]) -> Option<ObjectConfig> {
        let before = self.config();
        let addresses = before.addresses.moved(before.size_blocks()).filter(|_| !self.has_failures())?;
        let mut next = (**before).clone();
        next.members = members.to_vec();
        for member in &mut next.members {
            let Some(known) = before.member(member.component) else {
                match member.set() {
                    None => continue,
                    Some(_) => return None,
                }
            };
            let apart = known.set().is_some_and(|set| !before.addresses.serves(set));
            member.state = match known.state {
                ComponentState::Resyncing { .. } if apart => ComponentState::Active,
                _ if apart => return None,
                state => state,
            };
        }
        next.addresses = addresses;
        next.decided = next.decided.max(self.settled());
        Some(next)
    }

    /// The set of a component that is being filled in this admission, and up to where it has everything. None: it is no more.
    pub fn being_filled(&self, component: ComponentId, session: SessionId) -> Option<(ReplicaSetIndex, OpId)> {
        if self.ended().is_some() || self.has_failed(component) {
            return None;
        }
        let member = self.config().member(component)?;
        let ComponentState::Resyncing { stale_since } = member.state else {
            return None;
        };
        (self.link_of(component)?.target.session == session).then_some((member.set()?, stale_since))
    }

    /// The barrier before an activation: from now on acknowledgements wait for the component too. It may be activated once it is past it
    /// ([`Self::is_past`]).
    pub fn begin_barrier(&mut self, component: ComponentId) -> OpId {
        if !Canary::NoBarrier.sings() {
            self.require(component);
        }
        self.last()
    }

    /// Whether all that was begun before the barrier is decided.
    pub fn is_past(&self, barrier: OpId) -> bool {
        self.is_settled(barrier) || Canary::NoBarrier.sings()
    }

    /// The configuration in which a component that is filled and past its barrier is in sync. None: it is not being filled any more.
    pub fn activation(&self, component: ComponentId, session: SessionId) -> Option<Activation> {
        let (_, stale_since) = self.being_filled(component, session)?;
        let mut next = self.config_with(component, ComponentState::Active);
        next.decided = next.decided.max(self.settled());
        Some(Activation { next, was_empty: stale_since == OpId::ZERO })
    }
}

#[cfg(test)]
mod tests;
