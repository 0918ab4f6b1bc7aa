//! Is the object accessible: more than half of its votes, and an in-sync copy of every replica set.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use cairn_types::{Canary, ComponentId, HostId, Member, ObjectConfig, ReplicaSetIndex, Role, Seat};

/// The least number of votes that is more than half of all.
pub fn votes_needed(config: &ObjectConfig) -> u32 {
    let half = config.votes_total() / 2;
    if Canary::HalfIsMajority.sings() { half.max(1) } else { half + 1 }
}

/// Whether the seats `present` have more than half of the votes.
///
/// A configuration without votes has no majority.
pub fn has_majority(config: &ObjectConfig, present: &BTreeSet<Seat>) -> bool {
    has_majority_by(config, |m| present.contains(&m.seat()))
}

/// Whether the members for which `votes` is true have more than half of the votes.
pub fn has_majority_by(config: &ObjectConfig, votes: impl Fn(&Member) -> bool) -> bool {
    votes_of(config, votes) >= votes_needed(config)
}

fn votes_of(config: &ObjectConfig, votes: impl Fn(&Member) -> bool) -> u32 {
    config.members.iter().filter(|m| votes(m)).map(|m| m.votes).sum()
}

/// A replica set without a usable copy, and the copies that would end the wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetWaiting {
    /// Which set.
    pub set: ReplicaSetIndex,
    /// Distinct members that it needs: one copy, or as many as a parity row has strips of data.
    pub needed: u32,
    /// Distinct members that are usable now: fewer than needed.
    pub usable: u32,
    /// Its in-sync members that are not usable now; empty: too few are in sync at all.
    pub in_sync: Vec<(ComponentId, HostId)>,
}

/// Why an object cannot be served, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inaccessible {
    /// Votes that are present.
    pub votes_present: u32,
    /// Votes that are needed.
    pub votes_needed: u32,
    /// Hosts with seats that are not present.
    pub hosts_missing: Vec<HostId>,
    /// Replica sets without a usable in-sync copy.
    pub sets: Vec<SetWaiting>,
}

impl Inaccessible {
    /// Whether votes are missing.
    pub fn lacks_votes(&self) -> bool {
        self.votes_present < self.votes_needed
    }
}

impl fmt::Display for Inaccessible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut and = "";
        if self.lacks_votes() {
            write!(f, "{} of the {} votes that it needs are reachable", self.votes_present, self.votes_needed)?;
            let mut between = ": waits for host ";
            for host in &self.hosts_missing {
                write!(f, "{between}{host}")?;
                between = ", ";
            }
            and = "; ";
        }
        // One sentence per set would fill the screen of a 250-chunk disk: the first tells what to look for.
        if let Some(first) = self.sets.first() {
            match first.needed {
                1 => write!(f, "{and}no in-sync copy of replica set {} is reachable", first.set)?,
                needed => write!(
                    f,
                    "{and}{} of the {needed} members that replica set {} needs are reachable in sync",
                    first.usable, first.set
                )?,
            }
            let mut between = ": waits for component ";
            for (component, host) in &first.in_sync {
                write!(f, "{between}{component} on host {host}")?;
                between = " or ";
            }
            match (first.in_sync.is_empty(), first.needed) {
                (true, 1) => write!(f, " and none is left: restore it from a backup")?,
                (true, _) => write!(f, " and no other is in sync: restore it from a backup")?,
                (false, _) => {}
            }
            if self.sets.len() > 1 {
                write!(f, "; the same for {} more sets", self.sets.len() - 1)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Inaccessible {}

/// The members of a set that are in sync.
#[derive(Default)]
struct InSync {
    /// Indexes of those that can be used now.
    usable: BTreeSet<u32>,
    /// Those that cannot.
    missing: Vec<(ComponentId, HostId)>,
}

/// Whether the object can be served: `reachable` seats have a majority and each set has as many distinct members as it needs that are
/// in sync, reachable and `usable`. A member that is being moved and its twin are one.
///
/// # Errors
/// What it waits for.
pub fn accessible(
    config: &ObjectConfig,
    reachable: &BTreeSet<Seat>,
    usable: impl Fn(&Member) -> bool,
) -> Result<(), Inaccessible> {
    let mut sets: BTreeMap<ReplicaSetIndex, InSync> = BTreeMap::new();
    let mut hosts_missing = BTreeSet::new();
    for member in &config.members {
        let here = reachable.contains(&member.seat());
        if !here && member.votes > 0 {
            hosts_missing.insert(member.host);
        }
        let Role::Data { set, copy } = member.role else { continue };
        if !config.addresses.serves(set) {
            continue;
        }
        let known = sets.entry(set).or_default();
        if member.state.in_sync() {
            match here && usable(member) {
                true => drop(known.usable.insert(copy)),
                false => known.missing.push((member.component, member.host)),
            }
        }
    }
    let waiting = sets.into_iter().filter_map(|(set, InSync { usable, missing })| {
        let (needed, usable) = (config.needed(set), usable.len() as u32);
        (usable < needed).then_some(SetWaiting { set, needed, usable, in_sync: missing })
    });
    let why = Inaccessible {
        votes_present: votes_of(config, |m| reachable.contains(&m.seat())),
        votes_needed: votes_needed(config),
        hosts_missing: hosts_missing.into_iter().collect(),
        sets: waiting.collect(),
    };
    if why.lacks_votes() || !why.sets.is_empty() { Err(why) } else { Ok(()) }
}
