//! One change of the configuration by a live owner, to its end.
//!
//! States of members, `decided`, name and size change in one round: the voters are the same before and after. Members
//! and votes change jointly: *open* (with the effective configuration as its base) on majorities of both, from then on
//! in force; then *closed* (csn+1) on a majority of the new one, after which removed components may go.
//!
//! One change at a time. A change that cannot be finished is not dropped: somebody may have accepted it. The owner
//! asks again ([`ConfigChange::on_timeout`]) or gives the object up, and the next Seize finds what stands.
//!
//! From the proposal on until it is in force, an acknowledgement needs the active components of both configurations:
//! the next owner may adopt either.

use std::collections::BTreeSet;

use cairn_types::{Accepted, Csn, Epoch, ObjectConfig, Seat};
use cairn_votes::{ChangeKind, IllegalChange, check_change};
use serde::Serialize;

use crate::{
    AcceptRefused,
    ballot::{decided_by, seats},
};

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeEffect {
    /// Ask these seats to accept; answers by [`ConfigChange::on_accept_answer`].
    Accept {
        /// Whom.
        seats: Vec<Seat>,
        /// What.
        record: Box<Accepted>,
    },
    /// The new configuration is in force: acknowledgements and leases go by it.
    Effective(Box<ObjectConfig>),
    /// The change is over; the next one starts from here.
    Closed {
        /// The number.
        csn: Csn,
    },
    /// A newer epoch was promised: the owner ends.
    Superseded(Epoch),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
enum Phase {
    Open,
    Closing,
    Ended,
}

/// A change on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigChange {
    /// What is being asked for now.
    record: Accepted,
    /// Everyone who is told.
    seats: Vec<Seat>,
    yes: BTreeSet<Seat>,
    phase: Phase,
}

impl ConfigChange {
    /// Begins to replace the effective closed configuration `current`, number `csn`, by `target`.
    ///
    /// An activation carries as `decided` an operation such that the target has logged every one above it: all
    /// operations issued before it began to take writes are settled, and no write fails on it from here on unnoticed.
    ///
    /// # Errors
    /// The change is illegal ([`check_change`]); nothing was sent.
    pub fn propose(
        epoch: Epoch,
        csn: Csn,
        current: &ObjectConfig,
        target: ObjectConfig,
    ) -> Result<(Self, Vec<ChangeEffect>), IllegalChange> {
        let base = match check_change(current, &target)? {
            ChangeKind::StateOnly => None,
            ChangeKind::Joint => Some(Box::new(current.clone())),
        };
        let record = Accepted { epoch, csn: Csn(csn.0 + 1), base, config: target };
        let change = Self { seats: seats(&record), record, yes: BTreeSet::new(), phase: Phase::Open };
        let effects = vec![change.ask(change.seats.clone())];
        Ok((change, effects))
    }

    /// Whether it is over.
    pub fn ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// What is asked for now.
    pub fn record(&self) -> &Accepted {
        &self.record
    }

    /// Seats that have not accepted it: also after the end, the record is to reach them.
    pub fn laggards(&self) -> Vec<Seat> {
        self.seats.iter().copied().filter(|s| !self.yes.contains(s)).collect()
    }

    /// Asks the laggards again.
    pub fn on_timeout(&self) -> Vec<ChangeEffect> {
        let laggards = self.laggards();
        if laggards.is_empty() { Vec::new() } else { vec![self.ask(laggards)] }
    }

    /// A seat answered the record with number `csn`.
    pub fn on_accept_answer(&mut self, seat: Seat, csn: Csn, answer: Result<(), AcceptRefused>) -> Vec<ChangeEffect> {
        if let Err(AcceptRefused::Promised(promised)) = answer
            && promised > self.record.epoch
        {
            self.phase = Phase::Ended;
            return vec![ChangeEffect::Superseded(promised)];
        }
        if csn != self.record.csn || answer.is_err() {
            return Vec::new();
        }
        self.yes.insert(seat);
        if self.ended() || !decided_by(&self.record, &self.yes) {
            return Vec::new();
        }
        match self.phase {
            Phase::Open if self.record.base.is_some() => {
                self.record.base = None;
                self.record.csn.0 += 1;
                self.yes.clear();
                self.phase = Phase::Closing;
                vec![ChangeEffect::Effective(Box::new(self.record.config.clone())), self.ask(self.seats.clone())]
            }
            Phase::Open => {
                self.phase = Phase::Ended;
                let effective = ChangeEffect::Effective(Box::new(self.record.config.clone()));
                vec![effective, ChangeEffect::Closed { csn: self.record.csn }]
            }
            Phase::Closing => {
                self.phase = Phase::Ended;
                vec![ChangeEffect::Closed { csn: self.record.csn }]
            }
            Phase::Ended => Vec::new(),
        }
    }

    fn ask(&self, seats: Vec<Seat>) -> ChangeEffect {
        ChangeEffect::Accept { seats, record: Box::new(self.record.clone()) }
    }
}
