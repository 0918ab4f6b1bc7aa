//! What may still fail: failure sets that a layout tolerates, failures that an object survives now.
//!
//! A failure set takes whole fault domains. Its worst case needs no enumeration: for votes it is the domains with the
//! most votes, for a replica set the domains of its copies. The oracle in tests/ enumerates.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use cairn_types::{HostId, Member, ObjectConfig, ReplicaSetIndex, Seat};

use crate::votes_needed;

/// Why a layout does not tolerate what the policy asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untolerated {
    /// The domains with most votes take the majority along.
    Votes {
        /// Votes that are left at worst.
        left: u32,
        /// Votes that are needed.
        needed: u32,
    },
    /// The copies of a set stand in too few domains.
    Copies {
        /// Which set.
        set: ReplicaSetIndex,
        /// Domains that hold a copy.
        domains: usize,
        /// Domains that must.
        needed: usize,
    },
}

impl fmt::Display for Untolerated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Votes { left, needed } => {
                write!(f, "{left} votes would be left after the worst failures, {needed} are a majority")
            }
            Self::Copies { set, domains, needed } => {
                write!(f, "the copies of replica set {set} are in {domains} fault domains, {needed} are needed")
            }
        }
    }
}

impl std::error::Error for Untolerated {}

/// Whether every failure of at most `failures` fault domains leaves a majority and a copy of every set.
///
/// Judges the layout: component states are not looked at.
///
/// # Errors
/// What the worst failure takes.
pub fn tolerates<D: Ord>(
    members: &[Member],
    domain_of: impl Fn(HostId) -> D,
    failures: u32,
) -> Result<(), Untolerated> {
    let total: u32 = members.iter().map(|m| m.votes).sum();
    let needed = total / 2 + 1;
    let left = votes_left(members.iter(), &domain_of, failures as usize);
    if left < needed {
        return Err(Untolerated::Votes { left, needed });
    }
    let needed = failures as usize + 1;
    for (set, domains) in set_domains(members.iter(), &domain_of) {
        if domains.len() < needed {
            return Err(Untolerated::Copies { set, domains: domains.len(), needed });
        }
    }
    Ok(())
}

/// How many further fault domains may fail, whichever they are, before the object is inaccessible.
///
/// `reachable` seats are there now, and `usable` tells in-sync copies that can be read. None: inaccessible already.
pub fn redundancy<D: Ord>(
    config: &ObjectConfig,
    reachable: &BTreeSet<Seat>,
    usable: impl Fn(&Member) -> bool,
    domain_of: impl Fn(HostId) -> D,
) -> Option<u32> {
    crate::accessible(config, reachable, &usable).ok()?;
    let here = || config.members.iter().filter(|m| reachable.contains(&m.seat()));
    let copies = set_domains(here().filter(|m| m.state.in_sync() && usable(m)), &domain_of);
    let by_copies = copies.values().map(|domains| domains.len() - 1).min();
    let by_votes = (0..).take_while(|&n| votes_left(here(), &domain_of, n) >= votes_needed(config)).last();
    let by_votes = by_votes.expect("an accessible object has a majority");
    Some(by_copies.unwrap_or(by_votes).min(by_votes) as u32)
}

/// Votes that are left when the `failures` domains with most votes fail.
fn votes_left<'a, D: Ord>(
    members: impl Iterator<Item = &'a Member>,
    domain_of: impl Fn(HostId) -> D,
    failures: usize,
) -> u32 {
    let mut by_domain: BTreeMap<D, u32> = BTreeMap::new();
    for member in members {
        *by_domain.entry(domain_of(member.host)).or_default() += member.votes;
    }
    let mut votes: Vec<u32> = by_domain.into_values().collect();
    votes.sort_unstable_by(|a, b| b.cmp(a));
    votes.iter().skip(failures).sum()
}

fn set_domains<'a, D: Ord>(
    members: impl Iterator<Item = &'a Member>,
    domain_of: impl Fn(HostId) -> D,
) -> BTreeMap<ReplicaSetIndex, BTreeSet<D>> {
    let mut sets: BTreeMap<ReplicaSetIndex, BTreeSet<D>> = BTreeMap::new();
    for member in members {
        if let Some(set) = member.set() {
            sets.entry(set).or_default().insert(domain_of(member.host));
        }
    }
    sets
}
