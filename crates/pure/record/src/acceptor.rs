//! The seat's side of the register: what it promises and accepts.
//!
//! A seat never goes back: its promise only grows, and so does (epoch, csn) of what it accepted.

use cairn_types::{Accepted, ComponentId, Csn, DiskGroupId, Epoch, HostId, Incarnation, OpId, SeatRecord};

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
    use cairn_types::ObjectId;

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
}
