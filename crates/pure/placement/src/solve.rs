//! The search: which disk group each wanted component goes to.
//!
//! Promises    what it returns keeps copies of a set in distinct domains and within the room; where all demands of
//!             the wanted components are equal, it finds a placement if there is one (tests/brute_force.rs)
//! Not here    words for refusals (refusal.rs), votes (ballot.rs)
//!
//! First in balance: copy by copy, all stripes of a copy of a chunk in one fault domain, emptiest groups first.
//! If that does not come out: set by set, fewest choices left last (the domain with the most room first), which is
//! complete for equal demands: taking the k domains with most slots leaves the flattest rest (Gale 1957).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use cairn_types::{Addresses, DiskGroupId, Member, ReplicaSetIndex, Role, Seat};

use crate::{
    picture::FaultDomain,
    room::{Ask, Group, Room},
};

/// One data component to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) set: ReplicaSetIndex,
    pub(crate) copy: u32,
    pub(crate) ask: Ask,
}

/// What is known while a placement is worked out.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    pub(crate) addresses: Addresses,
    pub(crate) room: Room,
    /// Domains that hold a copy of a set already.
    by_set: BTreeMap<ReplicaSetIndex, BTreeSet<FaultDomain>>,
    /// How many parts of (chunk, copy) a domain holds: the rest goes there too where it can.
    by_copy: BTreeMap<(u32, u32), BTreeMap<FaultDomain, u32>>,
    /// Domains that hold a witness: taken for data only where no other has room, for the witness would have to move.
    witnessed: BTreeSet<FaultDomain>,
    /// How many parts of (chunk, copy) a disk group holds: stripes spread over groups first.
    stripes: BTreeMap<(u32, u32, DiskGroupId), u32>,
    placed: Vec<(Want, Seat)>,
}

impl Search {
    /// A search beside `kept` members, which lie in `domain_of` their seats.
    pub(crate) fn new(
        addresses: Addresses,
        room: Room,
        kept: &[Member],
        domain_of: &dyn Fn(Seat) -> FaultDomain,
    ) -> Self {
        let mut search = Self {
            addresses,
            room,
            by_set: BTreeMap::new(),
            by_copy: BTreeMap::new(),
            witnessed: BTreeSet::new(),
            stripes: BTreeMap::new(),
            placed: Vec::new(),
        };
        for member in kept {
            let domain = domain_of(member.seat());
            match member.role {
                Role::Data { set, copy } => search.note(set, copy, member.seat(), domain),
                Role::Witness => {
                    search.witnessed.insert(domain);
                }
            }
        }
        search
    }

    /// Finds a seat for every want, or says how many it could place at best.
    pub(crate) fn solve(&self, wants: &[Want]) -> Result<Vec<(Want, Seat)>, usize> {
        let mut balanced = self.clone();
        if balanced.in_balance(wants) {
            return Ok(balanced.placed);
        }
        let mut tight = self.clone();
        if tight.by_slots(wants) {
            return Ok(tight.placed);
        }
        Err(tight.placed.len())
    }

    /// Copy by copy, a domain for all its stripes where one has room for them.
    fn in_balance(&mut self, wants: &[Want]) -> bool {
        let mut copies: BTreeMap<(u32, u32), Vec<Want>> = BTreeMap::new();
        for want in wants {
            let chunk = self.addresses.chunk_of(want.set);
            copies.entry((chunk, want.copy)).or_default().push(*want);
        }
        copies.into_values().all(|wants| self.copy_in_one_domain(&wants) || wants.iter().all(|w| self.one(*w)))
    }

    /// All wants of one copy of one chunk, in one domain.
    fn copy_in_one_domain(&mut self, wants: &[Want]) -> bool {
        let domains = self.candidates(wants);
        domains.into_iter().any(|domain| {
            // Only this domain's groups change, so only they need to be put back.
            let before: Vec<Group> = self.groups_of(&domain).cloned().collect();
            let count = self.placed.len();
            if wants.iter().all(|want| self.put(*want, &domain)) {
                return true;
            }
            for group in before {
                if let Some(now) = self.room.group_mut(group.seat) {
                    *now = group;
                }
            }
            for (want, seat) in self.placed.split_off(count) {
                self.forget(want, seat, &domain);
            }
            false
        })
    }

    /// One want, in the best domain that has room.
    fn one(&mut self, want: Want) -> bool {
        self.candidates(&[want]).into_iter().any(|domain| self.put(want, &domain))
    }

    /// Set by set, largest demand first, each in the domains with the most slots left.
    fn by_slots(&mut self, wants: &[Want]) -> bool {
        let mut wants = wants.to_vec();
        wants.sort_by_key(|w| (Reverse(w.ask.demand_bytes), w.set, w.copy));
        let mut all = true;
        for want in wants {
            let domain = self
                .allowed(&[want])
                .into_iter()
                .map(|d| {
                    let slots: u64 = self.groups_of(&d).map(|g| g.slots(want.ask.demand_bytes)).sum();
                    (slots, d)
                })
                .filter(|(slots, _)| *slots > 0)
                // The first of equal ones, so that ties go by id.
                .reduce(|best, other| if other.0 > best.0 { other } else { best });
            all &= domain.is_some_and(|(_, domain)| self.put(want, &domain));
        }
        all
    }

    /// Puts a want into a group of `domain`: one with the fewest stripes of this copy, then the emptiest.
    fn put(&mut self, want: Want, domain: &FaultDomain) -> bool {
        let chunk = self.addresses.chunk_of(want.set);
        let stripes = |g: &Group| {
            let key = (chunk, want.copy, g.seat.disk_group);
            self.stripes.get(&key).copied().unwrap_or(0)
        };
        let best = self
            .groups_of(domain)
            .filter(|g| g.fits(want.ask.demand_bytes))
            .min_by(|a, b| stripes(a).cmp(&stripes(b)).then_with(|| b.by_preference(a, want.ask.full_bytes)))
            .map(|g| g.seat);
        let Some(seat) = best else { return false };
        let taken = self.room.group_mut(seat).is_some_and(|g| g.take(want.ask));
        assert!(taken, "a group that fits takes");
        self.note(want.set, want.copy, seat, domain.clone());
        self.placed.push((want, seat));
        true
    }

    /// The domains that may hold these wants of one copy, best first.
    fn candidates(&self, wants: &[Want]) -> Vec<FaultDomain> {
        let Some(first) = wants.first() else {
            return Vec::new();
        };
        let copy = (self.addresses.chunk_of(first.set), first.copy);
        let largest = wants.iter().map(|w| w.ask.demand_bytes).max().unwrap_or(0);
        let full_bytes = wants.iter().map(|w| w.ask.full_bytes).max().unwrap_or(0);
        let mut domains: Vec<(bool, bool, &Group, FaultDomain)> = self
            .allowed(wants)
            .into_iter()
            .filter_map(|domain| {
                let best = self
                    .groups_of(&domain)
                    .filter(|g| g.fits(largest))
                    .max_by(|a, b| a.by_preference(b, full_bytes))?;
                let parts = self.by_copy.get(&copy).and_then(|d| d.get(&domain));
                let elsewhere = parts.is_none_or(|n| *n == 0);
                Some((elsewhere, self.witnessed.contains(&domain), best, domain))
            })
            .collect();
        domains.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| b.2.by_preference(a.2, full_bytes)));
        domains.into_iter().map(|(_, _, _, domain)| domain).collect()
    }

    /// The domains that hold no other copy of any of these sets, in order.
    fn allowed(&self, wants: &[Want]) -> Vec<FaultDomain> {
        let holds = |want: &Want, domain: &FaultDomain| self.by_set.get(&want.set).is_some_and(|d| d.contains(domain));
        let mut domains = self.room.domains();
        domains.retain(|d| !wants.iter().any(|w| holds(w, d)));
        domains
    }

    fn groups_of<'s, 'd>(&'s self, domain: &'d FaultDomain) -> impl Iterator<Item = &'s Group> + use<'s, 'd> {
        self.room.groups.iter().filter(move |g| g.domain == *domain)
    }

    fn note(&mut self, set: ReplicaSetIndex, copy: u32, seat: Seat, domain: FaultDomain) {
        let chunk = self.addresses.chunk_of(set);
        self.by_set.entry(set).or_default().insert(domain.clone());
        *self.by_copy.entry((chunk, copy)).or_default().entry(domain).or_default() += 1;
        *self.stripes.entry((chunk, copy, seat.disk_group)).or_default() += 1;
    }

    /// Takes back what [`Self::note`] noted for a want that did not stay.
    fn forget(&mut self, want: Want, seat: Seat, domain: &FaultDomain) {
        let chunk = self.addresses.chunk_of(want.set);
        if let Some(domains) = self.by_set.get_mut(&want.set) {
            domains.remove(domain);
        }
        if let Some(stripes) = self.stripes.get_mut(&(chunk, want.copy, seat.disk_group)) {
            *stripes -= 1;
        }
        let parts = self.by_copy.get_mut(&(chunk, want.copy));
        if let Some(parts) = parts.and_then(|d| d.get_mut(domain)) {
            *parts -= 1;
        }
    }
}

/// Seats for `count` witnesses in domains other than `used`, where there are fewest first.
///
/// They are counted apart from data: a witness takes no space, and counted together witnesses would fill the one host
/// and data the others.
pub(crate) fn witnesses(room: &mut Room, used: &BTreeSet<FaultDomain>, count: usize) -> Vec<Seat> {
    let mut seats = Vec::new();
    let mut used = used.clone();
    while seats.len() < count {
        let best = room
            .groups
            .iter_mut()
            .filter(|g| !used.contains(&g.domain))
            .min_by_key(|g| (g.witnesses, g.components, g.seat.disk_group));
        let Some(group) = best else { break };
        group.witnesses += 1;
        used.insert(group.domain.clone());
        seats.push(group.seat);
    }
    seats
}
