//! Votes: which seats vote, and how much.
//!
//! Promises    where members lie in at least 2 FTT + 1 fault domains, any FTT of them hold less than half of the votes;
//!             the total is odd, so no cut leaves two equal halves; at most [`SEATS_VOTING_MAX`] seats vote
//! Not here    that there are enough domains (solve.rs adds witnesses)
//!
//! Why it holds: every voting domain gets the same weight w (at least 1), shared by its voting seats; one vote more
//! makes an even total odd. That odd vote is only given when D w is even. Let D be at least 2F + 1 domains. With the odd
//! vote, F of them hold at most F w + 1 of D w + 1. If D is even: D >= 2F + 2, and 2 (F w + 1) < D w + 1. If D is odd and w even:
//! w >= 2 and D w >= 2 F w + 2. So again 2 (F w + 1) < D w + 1. Without the odd vote 2 F w < D w.

use std::collections::BTreeMap;

use cairn_types::{Member, Seat};

use crate::picture::FaultDomain;

/// Seats of one object that vote and keep the full record, at most.
///
/// Each change of the record is written at every voting seat; nine in nine domains survive four losses, one more than
/// the highest FTT asks for.
pub const SEATS_VOTING_MAX: usize = 9;

/// Gives votes to the seats of `members`; `domain_of` tells the fault domain of a seat.
///
/// Seats that vote now keep doing so before others start, so a repair moves as few records as it can.
pub(crate) fn assign(members: &mut [Member], domain_of: &dyn Fn(Seat) -> FaultDomain) {
    let voted: BTreeMap<Seat, bool> = members.iter().fold(BTreeMap::new(), |mut map, m| {
        *map.entry(m.seat()).or_default() |= m.votes > 0;
        map
    });
    let mut domains: BTreeMap<FaultDomain, Vec<Seat>> = BTreeMap::new();
    for &seat in voted.keys() {
        domains.entry(domain_of(seat)).or_default().push(seat);
    }
    let mut domains: Vec<Vec<Seat>> = domains.into_values().collect();
    for seats in &mut domains {
        seats.sort_by_key(|seat| (!voted[seat], *seat));
    }
    domains.sort_by_key(|seats| (!voted[&seats[0]], seats[0]));
    if voted.len() > SEATS_VOTING_MAX {
        domains.truncate(SEATS_VOTING_MAX);
        let per_domain = SEATS_VOTING_MAX / domains.len();
        for seats in &mut domains {
            seats.truncate(per_domain);
        }
    }
    let votes = share(&domains);
    for member in members.iter_mut() {
        member.votes = 0;
    }
    for (seat, votes) in votes {
        // A seat's votes sit on its first member; the others there follow it wherever the record goes.
        if let Some(member) = members.iter_mut().find(|m| m.seat() == seat) {
            member.votes = votes;
        }
    }
}

/// The same weight for every domain, shared by its seats, and an odd total.
fn share(domains: &[Vec<Seat>]) -> BTreeMap<Seat, u32> {
    let weight = domains.iter().map(Vec::len).max().unwrap_or(0);
    let mut votes = BTreeMap::new();
    for seats in domains {
        for (i, &seat) in seats.iter().enumerate() {
            let extra = usize::from(i < weight % seats.len());
            votes.insert(seat, (weight / seats.len() + extra) as u32);
        }
    }
    if votes.values().sum::<u32>().is_multiple_of(2)
        && let Some(first) = domains.first().and_then(|seats| seats.first())
    {
        *votes.entry(*first).or_default() += 1;
    }
    votes
}
