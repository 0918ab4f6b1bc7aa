//! One question to the solver, whatever the verb: checks, search, witnesses, votes, and the words when it fails.
//!
//! Not here    what is asked (verbs.rs), the search itself (solve.rs)

use std::collections::{BTreeMap, BTreeSet};

use cairn_geometry::Area;
use cairn_types::{
    Addresses, ComponentId, ComponentState, HostId, Member, ObjectConfig, OpId, Policy, Redundancy, ReplicaSetIndex,
    Role, Seat, format_bytes,
};
use cairn_votes::{Untolerated, tolerates};

use crate::{
    ballot,
    picture::{ClusterPicture, FaultDomain},
    refusal::{Asked, Refusal, RefusalKind, count, too_few_domains, too_little_in_all, too_little_room},
    room::{Ask, Room, demand_bytes},
    solve::{Search, Want, witnesses},
};

/// One question to the solver, whatever the verb.
pub(crate) struct Task<'a> {
    pub(crate) picture: &'a ClusterPicture,
    pub(crate) policy: &'a Policy,
    pub(crate) addresses: Addresses,
    pub(crate) size_bytes: u64,
    pub(crate) room: Room,
    pub(crate) kept: Vec<Member>,
    /// One of them that is to go when what is placed is in sync: it keeps no other copy of its set out of its fault domain.
    pub(crate) leaving: Option<ComponentId>,
    /// The state in which new copies start.
    pub(crate) state: ComponentState,
    /// New copies go to these hosts only; to any where none is named. Witnesses go anywhere.
    pub(crate) copies_to: &'a [HostId],
}

impl<'a> Task<'a> {
    pub(crate) fn of(picture: &'a ClusterPicture, config: &'a ObjectConfig, kept: Vec<Member>) -> Self {
        Self {
            picture,
            policy: &config.policy,
            addresses: config.addresses.clone(),
            size_bytes: config.size_bytes,
            room: Room::of(picture),
            kept,
            leaving: None,
            state: ComponentState::Resyncing { stale_since: OpId::ZERO },
            copies_to: &[],
        }
    }

    /// The failures to tolerate that the disk is asked for: one that force provisioning left with less is not asked for more than it
    /// has.
    pub(crate) fn ftt_of(&self, config: &ObjectConfig) -> u8 {
        let domains: BTreeSet<_> = config.members.iter().map(|m| self.picture.domain_of(m.host)).collect();
        let by_votes = domains.len().saturating_sub(1) / 2;
        // Of a mirror fewer domains than copies say it; rows may lack a member and have domains enough for the votes.
        let by_members =
            held(&config.members).into_iter().filter_map(|(set, held)| match config.addresses.redundancy(set) {
                Redundancy::Parity { data, .. } if config.addresses.serves(set) => {
                    Some(held.len().saturating_sub(data.into()))
                }
                Redundancy::Parity { .. } | Redundancy::Mirror { .. } => None,
            });
        config.policy.ftt.min(by_members.fold(by_votes, usize::min) as u8)
    }

    fn asked(&self, ftt: u8) -> Asked {
        Asked::most(&self.addresses, ftt)
    }

    /// New (set, copy) pairs, so that each of `sets` has what it needs and one for each failure. A disk that had more may lack a number in
    /// between: that counts for nothing.
    pub(crate) fn missing(&self, sets: &[ReplicaSetIndex], ftt: u8, members: &[Member]) -> Vec<(ReplicaSetIndex, u32)> {
        let mut held = held(members);
        let missing = |set: &ReplicaSetIndex| {
            let asked = self.addresses.redundancy(*set).needed() + u32::from(ftt);
            let (set, held) = (*set, held.remove(set).unwrap_or_default());
            let free = (0..).filter(|copy| !held.contains(copy)).map(move |copy| (set, copy));
            free.take((asked as usize).saturating_sub(held.len())).collect::<Vec<_>>()
        };
        sets.iter().flat_map(missing).collect()
    }

    /// Members that meet the policy, or, where it says *force provisioning*, the most of it that can be had.
    pub(crate) fn forced(
        &self,
        wants: &dyn Fn(u8) -> Vec<(ReplicaSetIndex, u32)>,
    ) -> Result<(Vec<Member>, Option<String>), Refusal> {
        let full = self.attempt(self.policy.ftt, self.policy, &wants(self.policy.ftt));
        let refusal = match full {
            Ok(members) => return Ok((members, None)),
            Err(refusal) if !self.policy.force_provisioning => return Err(refusal),
            Err(refusal) => refusal,
        };
        // Space that is missing later stops writes; a copy that is missing later loses data: space is given up first.
        for ftt in (0..=self.policy.ftt).rev() {
            for reservation_percent in [self.policy.reservation_percent, 0] {
                let less = Policy { reservation_percent, ..self.policy.clone() };
                if let Ok(members) = self.attempt(ftt, &less, &wants(ftt)) {
                    return Ok((
                        members,
                        Some(reduced_words((self.asked(self.policy.ftt), self.policy), (ftt, &less), &refusal)),
                    ));
                }
            }
        }
        Err(Refusal {
            kind: refusal.kind,
            text: match self.asked(0).redundancy {
                Redundancy::Mirror { .. } => {
                    format!("{} Force provisioning does not help: not even one copy can be placed.", refusal.text)
                }
                Redundancy::Parity { .. } => {
                    format!(
                        "{} Force provisioning does not help: not even the strips of data can be placed.",
                        refusal.text
                    )
                }
            },
        })
    }

    /// Members with every want placed, witnesses for `ftt`, and votes. New ones have id 0 until ids are drawn.
    pub(crate) fn attempt(
        &self,
        ftt: u8,
        policy: &Policy,
        wants: &[(ReplicaSetIndex, u32)],
    ) -> Result<Vec<Member>, Refusal> {
        let domain_of = |seat: Seat| self.picture.domain_of(seat.host);
        let needed = self.asked(ftt).domains();
        let mut usable: BTreeSet<FaultDomain> = self.room.domains().into_iter().collect();
        usable.extend(self.kept.iter().map(|m| domain_of(m.seat())));
        if usable.len() < needed {
            return Err(too_few_domains(self.picture, self.asked(ftt), needed, usable.len()));
        }
        let bytes = |set| {
            let area = Area::of_set_at(&self.addresses, self.size_bytes, set);
            area.expect("what is wanted is a set of the disk").component_bytes(set)
        };
        let wants: Vec<Want> =
            wants.iter().map(|&(set, copy)| Want { set, copy, ask: Ask::of(policy, bytes(set)) }).collect();
        let stay: Vec<Member> = self.kept.iter().filter(|m| Some(m.component) != self.leaving).copied().collect();
        let mut room = self.room.clone();
        room.groups.retain(|group| self.copies_to.is_empty() || self.copies_to.contains(&group.seat.host));
        let search = Search::new(self.addresses.clone(), room, &stay, &domain_of);
        let seats = search.solve(&wants).map_err(|placed| self.no_room(ftt, policy, &wants, placed))?;
        let mut members = self.kept.clone();
        members.extend(seats.iter().map(|(want, seat)| {
            let (set, copy) = (want.set, want.copy);
            self.new_member(*seat, Role::Data { set, copy }, self.state)
        }));
        self.set_witnesses(&mut members, ftt, needed)?;
        ballot::assign(&mut members, &domain_of);
        let worst = tolerates(&members, &self.addresses, |h| self.picture.domain_of(h), u32::from(ftt));
        assert!(
            !matches!(worst, Err(Untolerated::Votes { .. })),
            "votes that do not survive {ftt} failures: {members:?}"
        );
        Ok(members)
    }

    /// Drops witnesses beside data of the same domain, adds those that are missing.
    /// Members of what is on its way to another layout make no witness needless: they may go again at any moment.
    fn set_witnesses(&self, members: &mut Vec<Member>, ftt: u8, needed: usize) -> Result<(), Refusal> {
        let domain_of = |m: &Member| self.picture.domain_of(m.host);
        let serves = |m: &&Member| m.set().is_some_and(|set| self.addresses.serves(set));
        let data: BTreeSet<FaultDomain> = members.iter().filter(serves).map(domain_of).collect();
        members.retain(|m| m.role != Role::Witness || !data.contains(&domain_of(m)));
        let stays = |m: &&Member| m.role == Role::Witness || serves(m);
        let used: BTreeSet<FaultDomain> = members.iter().filter(stays).map(domain_of).collect();
        let missing = needed.saturating_sub(used.len());
        let mut room = self.room.clone();
        let seats = witnesses(&mut room, &used, missing);
        if seats.len() < missing {
            let usable = used.len() + seats.len();
            return Err(too_few_domains(self.picture, self.asked(ftt), needed, usable));
        }
        members.extend(seats.into_iter().map(|seat| self.new_member(seat, Role::Witness, ComponentState::Active)));
        Ok(())
    }

    /// Why wants found no place, though there are domains enough for the votes.
    fn no_room(&self, ftt: u8, policy: &Policy, wants: &[Want], placed: usize) -> Refusal {
        let mut by_set: BTreeMap<ReplicaSetIndex, usize> = BTreeMap::new();
        for want in wants {
            *by_set.entry(want.set).or_default() += 1;
        }
        let needed = by_set.values().copied().max().unwrap_or(0);
        let demand = wants.iter().map(|w| w.ask.demand_bytes).max().unwrap_or(0);
        // Fault domains that hold another copy of the same set are no choice for this one.
        let holders: BTreeSet<FaultDomain> = match wants {
            [only] => {
                let others =
                    self.kept.iter().filter(|m| m.set() == Some(only.set) && Some(m.component) != self.leaving);
                others.map(|m| self.picture.domain_of(m.host)).collect()
            }
            _ => BTreeSet::new(),
        };
        let mut domains = self.room.domains();
        domains.retain(|d| !holders.contains(d));
        if domains.len() < needed {
            let all = needed + holders.len();
            return too_few_domains(self.picture, self.asked(ftt), all, domains.len() + holders.len());
        }
        let mut short = Vec::new();
        let mut with_room = 0;
        for domain in domains {
            let groups = || self.room.groups.iter().filter(|g| g.domain == domain);
            if groups().any(|g| g.fits(demand)) {
                with_room += 1;
            } else {
                let most = groups().map(|g| g.fits_bytes()).max().unwrap_or(0);
                short.push((self.domain_name(&domain), most));
            }
        }
        short.sort();
        if with_room < needed {
            let reserved = policy.reservation_percent;
            return too_little_room(self.asked(ftt), needed, demand, reserved, with_room, &short);
        }
        too_little_in_all(self.asked(ftt), wants.len(), demand, placed)
    }

    /// Takes what the components of the disk reserve more at its new size.
    pub(crate) fn grow_kept(&mut self, config: &ObjectConfig) -> Result<(), Refusal> {
        for member in &config.members {
            let Some(set) = member.set() else { continue };
            let area = |addresses, size| Area::of_set_at(addresses, size, set);
            let demand = |area: Area| demand_bytes(&config.policy, area.component_bytes(set));
            let before = area(&config.addresses, config.size_bytes).map_or(0, demand);
            // What is on its way to another layout is given up first.
            let Some(after) = area(&self.addresses, self.size_bytes).map(demand) else { continue };
            let more = after - before;
            if more == 0 || config.policy.reservation_percent == 0 {
                continue;
            }
            let name = self.picture.host(member.host).map_or_else(|| member.host.to_string(), |h| h.name.clone());
            // A group that is away cannot be asked; it is brought up to the new size by its resync.
            let Some(group) = self.room.group_mut(member.seat()) else {
                continue;
            };
            let free = group.fits_bytes();
            if !group.take(Ask { demand_bytes: more, full_bytes: more }) {
                return Err(Refusal {
                    kind: RefusalKind::Space,
                    text: format!(
                        "disk {} would reserve {} more on {name}, which has {} free on one device. \
                         Free space there, or reserve less.",
                        config.name,
                        format_bytes(more),
                        format_bytes(free)
                    ),
                });
            }
        }
        Ok(())
    }

    fn domain_name(&self, domain: &FaultDomain) -> String {
        match domain {
            FaultDomain::Named(name) => name.clone(),
            FaultDomain::Host(id) => self.picture.host(*id).map_or_else(|| id.to_string(), |h| h.name.clone()),
        }
    }

    fn new_member(&self, seat: Seat, role: Role, state: ComponentState) -> Member {
        Member { component: ComponentId(0), host: seat.host, disk_group: seat.disk_group, votes: 0, role, state }
    }
}

/// The indexes of each set that have a member.
fn held(members: &[Member]) -> BTreeMap<ReplicaSetIndex, BTreeSet<u32>> {
    let mut held: BTreeMap<ReplicaSetIndex, BTreeSet<u32>> = BTreeMap::new();
    for member in members {
        if let Role::Data { set, copy } = member.role {
            held.entry(set).or_default().insert(copy);
        }
    }
    held
}

/// What force provisioning left out.
fn reduced_words((asked, policy): (Asked, &Policy), (ftt, less): (u8, &Policy), refusal: &Refusal) -> String {
    let mut left_out = Vec::new();
    if ftt < policy.ftt {
        let what = match asked.redundancy {
            Redundancy::Mirror { .. } => "copies",
            Redundancy::Parity { .. } => "members",
        };
        left_out.push(format!("with {} of its {} {what}", Asked { ftt, ..asked }.members(), asked.members()));
    }
    if less.reservation_percent < policy.reservation_percent {
        left_out.push(format!("without its reservation of {} %", policy.reservation_percent));
    }
    format!(
        "Force provisioning places it {}, so it tolerates {} until the rest can be placed: {}",
        left_out.join(" and "),
        count(usize::from(ftt), "failure"),
        refusal.text
    )
}
