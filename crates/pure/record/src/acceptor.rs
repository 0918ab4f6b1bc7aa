//! The seat's side of the register: what it promises and accepts.
//!
//! A seat never goes back: its promise only grows, and so does (epoch, csn) of what it accepted.

use std::collections::BTreeMap;

use cairn_types::{Accepted, Canary, ComponentId, Csn, DiskGroupId, Epoch, HostId, Incarnation, OpId, SeatRecord};

/// What has to happen before the answer may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an answer that leaves before the record is durable is forgotten by a crash"]
pub enum BeforeSend {
    /// Make the record durable.
    PersistRecord,
    /// The record did not change; an earlier change of it that is still being made durable must be waited for.
    Nothing,
}

/// Why a promise is refused: a newer epoch was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromiseRefused {
    /// Which.
    pub promised: Epoch,
}

/// Why a configuration is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptRefused {
    /// Another epoch was promised: a newer one, or an older one, and then its own never was or is forgotten.
    Promised(Epoch),
    /// A higher configuration of the same epoch was accepted: the proposal was overtaken by its successor.
    Csn(Csn),
}

/// The epoch with which `host` may seize next, above everything that it has `known`.
///
/// `known` must include every epoch that this process has used for the object: a [`crate::Seizure`] that failed has
/// burnt its own.
pub fn next_epoch(known: Epoch, host: HostId, incarnation: Incarnation) -> Epoch {
    Epoch { number: known.number + 1, host, incarnation }
}

/// Promises `epoch`: older epochs are refused from now on. Leases are checked before ([`crate::Grants::may_promise`]).
///
/// # Errors
/// A newer epoch was promised; the record did not change.
pub fn promise(record: &mut SeatRecord, epoch: Epoch) -> Result<BeforeSend, PromiseRefused> {
    if epoch < record.promised {
        return Err(PromiseRefused { promised: record.promised });
    }
    let news = epoch > record.promised;
    record.promised = epoch;
    Ok(if news { BeforeSend::PersistRecord } else { BeforeSend::Nothing })
}

/// Accepts `proposal`. Once more with the same one: accepted again.
///
/// Only in the epoch that is promised: what was forgotten since it was promised has then been promised again, and whoever asked
/// before knows nothing of what this seat has accepted meanwhile.
///
/// # Errors
/// - [`AcceptRefused::Promised`]: the proposer is no longer owner, or has to ask for the promise first.
/// - [`AcceptRefused::Csn`]: an old message; its sender knows better by now.
///
/// The record did not change then.
pub fn accept(record: &mut SeatRecord, proposal: Accepted) -> Result<BeforeSend, AcceptRefused> {
    match record.promised == proposal.epoch {
        true => learn(record, proposal),
        false => Err(AcceptRefused::Promised(record.promised)),
    }
}

/// What a component has by what its seat accepted: one that accepted to be in sync has all that was decided then; zero for any other.
pub fn decided_in_sync(record: &SeatRecord, component: ComponentId) -> OpId {
    let config = record.accepted.as_ref().map(|accepted| &accepted.config);
    let in_sync = config.filter(|c| c.member(component).is_some_and(|m| m.state.in_sync()));
    in_sync.map_or(OpId::ZERO, |c| c.decided)
}

/// What components are known to have by records that their seats accepted, in one opening of a disk group.
///
/// An owner names a component in sync until it learns better. So a record that is accepted says what a component has only where the owner
/// has judged what the component came back with, and used it since. Until then what counts is the record that was found when the disk
/// group was opened: it stands in the same log as what the component holds. Not so where a record was told to a copy of an earlier time and
/// the host starts again before its owner judged that (`docs/fault-model.md`).
#[derive(Debug, Clone, Default)]
pub struct Vouched {
    /// Of components whose record changed since.
    decided: BTreeMap<ComponentId, OpId>,
}

impl Vouched {
    /// The seat accepted `after` in place of `before`; `used`: the owner of `after` uses the component, in this opening.
    pub fn accepted(&mut self, component: ComponentId, used: bool, before: &SeatRecord, after: &SeatRecord) {
        let found = *self.decided.entry(component).or_insert_with(|| decided_in_sync(before, component));
        let told = decided_in_sync(after, component);
        let known = if used || Canary::YoungImageBelieved.sings() { told } else { found.min(told) };
        self.decided.insert(component, known);
    }

    /// What the component has by the records that its seat accepted; zero where they say nothing.
    pub fn decided(&self, component: ComponentId, record: &SeatRecord) -> OpId {
        self.decided.get(&component).copied().unwrap_or_else(|| decided_in_sync(record, component))
    }

    /// The component is gone.
    pub fn forget(&mut self, component: ComponentId) {
        self.decided.remove(&component);
    }
}

/// Takes a record that needs no vote of this seat, as it takes away what the seat holds of the object: its epoch is promised with it.
///
/// # Errors
/// As of [`accept`].
pub fn learn(record: &mut SeatRecord, proposal: Accepted) -> Result<BeforeSend, AcceptRefused> {
    if proposal.epoch < record.promised {
        return Err(AcceptRefused::Promised(record.promised));
    }
    if let Some(accepted) = &record.accepted
        && accepted.epoch == proposal.epoch
        && accepted.csn >= proposal.csn
    {
        // One proposer per epoch and one proposal per csn: an equal csn is the same proposal again.
        let again = accepted.csn == proposal.csn;
        return if again { Ok(BeforeSend::Nothing) } else { Err(AcceptRefused::Csn(accepted.csn)) };
    }
    record.promised = proposal.epoch;
    record.accepted = Some(proposal);
    Ok(BeforeSend::PersistRecord)
}

/// Whether a seat may go, with the components `here`, because `decided` is in effect or was: a closed record above the one that it
/// accepted, which has no member in its disk group.
///
/// What it has promised does not matter then: no owner after that record can miss it, and what was named before it and not in it,
/// nobody names again. A component that the seat's record does not name may be one that an owner is about to name.
pub fn left_out(
    accepted: &Accepted,
    decided: &Accepted,
    disk_group: DiskGroupId,
    mut here: impl Iterator<Item = ComponentId>,
) -> bool {
    let configs = || [Some(&accepted.config), accepted.base.as_deref()].into_iter().flatten();
    decided.base.is_none()
        && (accepted.epoch, accepted.csn) < (decided.epoch, decided.csn)
        && decided.config.members.iter().all(|m| m.disk_group != disk_group)
        && here.all(|component| configs().any(|config| config.member(component).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ballot::tests::config_of;
    use cairn_types::{ComponentState, ObjectId};

    fn epoch(number: u64) -> Epoch {
        Epoch { number, ..Epoch::default() }
    }

    fn proposal(number: u64, csn: u64) -> Accepted {
        Accepted { epoch: epoch(number), csn: Csn(csn), base: None, config: config_of("A1 B1 w1") }
    }

    /// Every order of three promises and three proposals, each as a vote and as what needs none: the promise and (epoch, csn) only
    /// grow, what is answered with Nothing changed nothing, a refusal leaves no trace, and a vote is given in the promised epoch only.
    #[test]
    fn a_seat_never_goes_back() {
        let proposals = [(1, 5), (2, 1), (2, 2)];
        let (votes, no_votes) = (proposals.map(|p| Err((p, true))), proposals.map(|p| Err((p, false))));
        let steps: Vec<Result<u64, _>> = [1, 2, 3].map(Ok).into_iter().chain(votes).chain(no_votes).collect();
        let mut runs = 0;
        let mut walk = vec![(SeatRecord { object: ObjectId(1), promised: Epoch::default(), accepted: None }, 0)];
        while let Some((record, depth)) = walk.pop() {
            runs += 1;
            if depth == 5 {
                continue;
            }
            for step in &steps {
                let mut next = record.clone();
                let answer = match *step {
                    Ok(e) => promise(&mut next, epoch(e)).map_err(|_| ()),
                    Err(((e, csn), true)) => accept(&mut next, proposal(e, csn)).map_err(|_| ()),
                    Err(((e, csn), false)) => learn(&mut next, proposal(e, csn)).map_err(|_| ()),
                };
                let key = |r: &SeatRecord| (r.promised, r.accepted.as_ref().map(|a| (a.epoch, a.csn)));
                assert!(next.promised >= record.promised);
                assert!(key(&next).1 >= key(&record).1);
                assert_eq!(answer == Ok(BeforeSend::PersistRecord), next != record);
                if let (Err(((e, _), true)), Ok(_)) = (step, answer) {
                    assert_eq!(record.promised, epoch(*e));
                }
                walk.push((next, depth + 1));
            }
        }
        assert_eq!(runs, (0..=5).map(|d| 9usize.pow(d)).sum::<usize>());
    }

    /// Goal: what an owner says of a component that it has not judged yet proves nothing. Method: a seat of an opening, its records in
    /// order, with and without the owner's use of the component.
    #[test]
    fn a_record_vouches_for_what_the_owner_uses() {
        let op = |seq| OpId { epoch: epoch(1), seq };
        let record = |decided, state| {
            let mut accepted = proposal(1, decided);
            accepted.config.decided = op(decided);
            accepted.config.members[0].state = state;
            SeatRecord { object: ObjectId(1), promised: epoch(1), accepted: Some(accepted) }
        };
        let (active, absent) = (ComponentState::Active, ComponentState::Absent { stale_since: op(13) });
        let id = config_of("A1 B1 w1").members[0].component;
        let mut vouched = Vouched::default();
        assert_eq!(vouched.decided(id, &record(5, active)), op(5), "the record that was found");
        vouched.accepted(id, false, &record(5, active), &record(9, active));
        assert_eq!(vouched.decided(id, &record(9, active)), op(5), "not judged yet");
        vouched.accepted(id, false, &record(9, active), &record(12, active));
        assert_eq!(vouched.decided(id, &record(12, active)), op(5));
        vouched.accepted(id, true, &record(12, active), &record(13, active));
        assert_eq!(vouched.decided(id, &record(13, active)), op(13), "used");
        vouched.accepted(id, true, &record(13, active), &record(14, absent));
        assert_eq!(vouched.decided(id, &record(14, absent)), OpId::ZERO, "of what is not in sync it says nothing");
        vouched.accepted(id, false, &record(14, absent), &record(15, active));
        assert_eq!(vouched.decided(id, &record(15, active)), OpId::ZERO);
        vouched.forget(id);
        assert_eq!(vouched.decided(id, &record(15, active)), op(15));
    }
}
