//! What may still fail: failure sets that a layout tolerates, failures that an object survives now.
//!
//! A failure set takes whole fault domains. Its worst case needs no enumeration: for votes it is the domains with the
//! most votes. For a replica set few domains are tried, those of its members. The oracle in tests/ enumerates all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use cairn_types::{Addresses, HostId, Member, ObjectConfig, ReplicaSetIndex, Role, Seat};

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
    /// The domains with most members of a set take too many of them along.
    Copies {
        /// Which set.
        set: ReplicaSetIndex,
        /// Distinct members that are left at worst.
        left: u32,
        /// Distinct members that are needed.
        needed: u32,
    },
}

impl fmt::Display for Untolerated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Votes { left, needed } => {
                write!(f, "{left} votes would be left after the worst failures, {needed} are a majority")
            }
            Self::Copies { set, left, needed } => {
                write!(
                    f,
                    "{left} members of replica set {set} would be left after the worst failures, it needs {needed}"
                )
            }
        }
    }
}

impl std::error::Error for Untolerated {}

/// Whether every failure of at most `failures` fault domains leaves a majority, and of every set the members that it needs.
///
/// Judges the layout: component states are not looked at. Sets that serve nothing yet need nobody.
///
/// # Errors
/// What the worst failure takes.
pub fn tolerates<D: Ord>(
    members: &[Member],
    addresses: &Addresses,
    domain_of: impl Fn(HostId) -> D,
    failures: u32,
) -> Result<(), Untolerated> {
    let total: u32 = members.iter().map(|m| m.votes).sum();
    let needed = total / 2 + 1;
    let left = votes_left(members.iter(), &domain_of, failures as usize);
    if left < needed {
        return Err(Untolerated::Votes { left, needed });
    }
    for (set, holders) in holders(members.iter(), &domain_of) {
        let needed = if addresses.serves(set) { addresses.redundancy(set).needed() } else { 0 };
        let left = holders.left(failures as usize);
        if left < needed {
            return Err(Untolerated::Copies { set, left, needed });
        }
    }
    Ok(())
}

/// How many further fault domains may fail, whichever they are, before the object is inaccessible.
///
/// `reachable` seats are there now, and `usable` tells in-sync members that can be read. None: inaccessible already.
pub fn redundancy<D: Ord>(
    config: &ObjectConfig,
    reachable: &BTreeSet<Seat>,
    usable: impl Fn(&Member) -> bool,
    domain_of: impl Fn(HostId) -> D,
) -> Option<u32> {
    crate::accessible(config, reachable, &usable).ok()?;
    let here = || config.members.iter().filter(|m| reachable.contains(&m.seat()));
    let sets = holders(here().filter(|m| m.state.in_sync() && usable(m)), &domain_of);
    let survives = |(set, holders): (&ReplicaSetIndex, &Holders)| {
        let needed = config.needed(*set);
        (0..).take_while(|n| holders.left(*n) >= needed).last().unwrap_or(0)
    };
    let by_copies = sets.iter().map(survives).min();
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

/// In which fault domains the members of one set are.
#[derive(Default)]
struct Holders {
    /// Per domain, the indexes that it holds: a bit each.
    domains: Vec<u64>,
}

impl Holders {
    /// Distinct indexes that are left at worst when `failures` domains fail.
    ///
    /// A domain holds one index, but for force provisioning and moves: the search is short.
    fn left(&self, failures: usize) -> u32 {
        fn worst(domains: &[u64], failures: usize, kept: u64) -> u32 {
            match domains.split_first() {
                None => kept.count_ones(),
                Some((first, others)) => {
                    let stays = worst(others, failures, kept | first);
                    if failures == 0 { stays } else { stays.min(worst(others, failures - 1, kept)) }
                }
            }
        }
        worst(&self.domains, failures, 0)
    }
}

fn holders<'a, D: Ord>(
    members: impl Iterator<Item = &'a Member>,
    domain_of: impl Fn(HostId) -> D,
) -> BTreeMap<ReplicaSetIndex, Holders> {
    let mut sets: BTreeMap<ReplicaSetIndex, BTreeMap<D, u64>> = BTreeMap::new();
    for member in members {
        if let Role::Data { set, copy } = member.role {
            *sets.entry(set).or_default().entry(domain_of(member.host)).or_default() |= 1 << (copy % u64::BITS);
        }
    }
    sets.into_iter().map(|(set, domains)| (set, Holders { domains: domains.into_values().collect() })).collect()
}
