//! What an owner at work knows: operations in flight, admissions, changes on their way.

use std::collections::{BTreeMap, BTreeSet};

use cairn_record::ConfigChange;
use cairn_types::{Accepted, ComponentId, ComponentState, Csn, Epoch, ObjectConfig, OpId, SessionId};
use serde::Serialize;

use super::{Canary, letter_of};

/// An operation in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct InFlight {
    /// Per component, whether it has it.
    pub legs: BTreeMap<char, bool>,
    pub acked: bool,
}

/// A component that is being filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Filling {
    /// Operations up to here were begun before it took writes.
    pub linked_at: u64,
    /// Blocks to copy; none: not looked up yet.
    pub to_copy: Option<BTreeSet<u64>>,
}

/// An owner at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Serving {
    pub epoch: Epoch,
    pub csn: Csn,
    pub config: ObjectConfig,
    pub change: Option<(ConfigChange, ObjectConfig)>,
    /// The canary's change: majority of the new members only.
    pub naive: Option<(Accepted, BTreeSet<char>)>,
    pub links: BTreeMap<char, SessionId>,
    pub failed: BTreeSet<char>,
    pub next_seq: u64,
    pub writes: BTreeMap<u64, InFlight>,
    pub coming: Option<Coming>,
    pub filling: BTreeMap<char, Filling>,
    /// Seats without a vote that have promised since: they are told the next record that is decided without them.
    pub untold: BTreeSet<char>,
    /// What copies that were in sync when it was won must still have when they come back.
    pub proven: BTreeMap<ComponentId, OpId>,
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
    /// Components that an acknowledgement needs: active ones, of a configuration on its way too.
    pub fn required(&self, canary: Canary) -> BTreeSet<char> {
        let pending = self.change.iter().map(|(_, target)| target);
        let naive = self.naive.iter().map(|(record, _)| &record.config);
        let configs = std::iter::once(&self.config).chain(pending).chain(naive);
        let active = configs.flat_map(|c| &c.members).filter(|m| m.set().is_some() && m.state.in_sync());
        let mut required: BTreeSet<char> = active.map(|m| letter_of(m.seat())).collect();
        if canary == Canary::AckBeforeAbsent {
            required.retain(|l| self.links.contains_key(l));
        }
        required
    }

    /// Every operation up to this one is decided.
    pub fn settled(&self) -> OpId {
        let seq = self.writes.keys().next().map_or(self.next_seq, |first| *first) - 1;
        OpId { epoch: self.epoch, seq }
    }

    /// Seats to be told what has just come into effect. One that is being filled waits for its activation.
    pub fn take_told(&mut self) -> Vec<char> {
        let config = &self.config;
        let counts = |l: &char| config.members.iter().any(|m| letter_of(m.seat()) == *l && m.state.in_sync());
        let told: Vec<char> = self.untold.iter().copied().filter(counts).collect();
        self.untold.retain(|l| !told.contains(l));
        told
    }

    /// Whether an unacknowledged operation holds the block.
    pub fn locked(&self, block: u64) -> bool {
        self.writes.iter().any(|(seq, w)| !w.acked && seq % super::BLOCKS == block)
    }

    /// The blocks of operations that the component was not sent.
    pub fn unsent_blocks(&self, letter: char) -> BTreeSet<u64> {
        let unsent = self.writes.iter().filter(|(_, w)| !w.legs.contains_key(&letter));
        unsent.map(|(seq, _)| seq % super::BLOCKS).collect()
    }

    pub fn take_effect(&mut self, config: ObjectConfig) {
        let members = config.members.clone();
        self.config = config;
        for member in members {
            let letter = letter_of(member.seat());
            match member.state {
                ComponentState::Active => {
                    self.filling.remove(&letter);
                }
                ComponentState::Resyncing { .. } => {
                    if let Some(coming) = self.coming.take_if(|c| c.letter == letter) {
                        self.links.insert(letter, coming.session);
                        let filling = Filling { linked_at: self.next_seq - 1, to_copy: None };
                        self.filling.insert(letter, filling);
                    }
                }
                ComponentState::Absent { .. } | ComponentState::Degraded => self.unlink(letter),
            }
        }
        let gone: Vec<char> = self.links.keys().copied().filter(|l| !self.is_member(*l)).collect();
        gone.into_iter().for_each(|l| self.unlink(l));
    }

    fn is_member(&self, letter: char) -> bool {
        self.config.members.iter().any(|m| letter_of(m.seat()) == letter)
    }

    fn unlink(&mut self, letter: char) {
        self.links.remove(&letter);
        self.failed.remove(&letter);
        self.filling.remove(&letter);
        for write in self.writes.values_mut() {
            write.legs.remove(&letter);
        }
    }
}
