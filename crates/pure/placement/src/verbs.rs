//! The questions: place a new disk, replace a lost component, grow a disk, fill up what is missing.
//!
//! Promises    a change keeps every member that it need not move; ids are drawn only for what is returned
//! Not here    the search (solve.rs), the votes (ballot.rs)

use std::collections::{BTreeMap, BTreeSet};

use cairn_geometry::{check_size, component_bytes, plan_layout, replica_sets};
use cairn_types::{
    ComponentId, ComponentState, Layout, Member, ObjectConfig, OpId, Policy, ReplicaSetIndex, Role,
    Seat, format_bytes,
};

use crate::{
    ballot,
    picture::{ClusterPicture, FaultDomain},
    refusal::{Refusal, RefusalKind, count, too_few_domains, too_little_in_all, too_little_room},
    room::{Room, demand_bytes},
    solve::{Search, Want, witnesses},
};

/// Where a new disk goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Its shape.
    pub layout: Layout,
    /// Its components, all active: data by (set, copy), then witnesses.
    pub members: Vec<Member>,
    /// What force provisioning left out and why, for the administrator; none where the policy is met.
    pub reduced: Option<String>,
}

/// A new set of members for a disk that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// All members of the new configuration, votes included.
    pub members: Vec<Member>,
    /// Those that are new. Of a replacement, the first is the one in place of the lost.
    pub added: Vec<ComponentId>,
    /// Those that are gone: the lost one, witnesses that a new copy made needless.
    pub removed: Vec<ComponentId>,
    /// What force provisioning left out and why; none where the policy is met.
    pub reduced: Option<String>,
}

/// Places a new disk of `size_bytes` with `policy`; `ids` draws component ids.
///
/// # Errors
/// A refusal with cause and remedy: nothing was drawn or taken.
pub fn place(
    picture: &ClusterPicture,
    policy: &Policy,
    size_bytes: u64,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Placement, Refusal> {
    policy.validate().map_err(|e| Refusal {
        kind: RefusalKind::Policy,
        text: e.to_string(),
    })?;
    refuse_size(size_bytes)?;
    let layout = plan_layout(policy, size_bytes);
    let task = Task {
        picture,
        policy,
        layout,
        size_bytes,
        room: Room::of(picture),
        kept: Vec::new(),
        state: ComponentState::Active,
    };
    let all = 0..replica_sets(&layout, size_bytes);
    let (members, reduced) = task.forced(&|copies| missing_copies(all.clone(), copies, &[]))?;
    let mut members = members;
    draw_ids(&mut members, ids);
    Ok(Placement {
        layout,
        members,
        reduced,
    })
}

/// Finds a place for what `lost` held: on another disk group or host, all constraints kept.
///
/// A copy comes back `Resyncing` from nothing. Votes may move between members; a witness moves where the only room
/// for the copy is in its fault domain.
///
/// # Errors
/// A refusal with cause and remedy. Wait for the picture to change, or for the lost one to come back.
pub fn replace(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    lost: ComponentId,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Change, Refusal> {
    let Some(gone) = config.member(lost) else {
        return Err(Refusal {
            kind: RefusalKind::NotFound,
            text: format!("component {lost} is not one of disk {}", config.name),
        });
    };
    let kept = config.members.iter().filter(|m| m.component != lost);
    let task = Task::of(picture, config, kept.copied().collect());
    let wants: Vec<_> = match gone.role {
        Role::Data { set, copy } => vec![(set, copy)],
        Role::Witness => Vec::new(),
    };
    // A disk that force provisioning left with less is not asked for more than it had.
    let domains_now: BTreeSet<_> = config
        .members
        .iter()
        .map(|m| picture.domain_of(m.host))
        .collect();
    let ftt_now = (domains_now.len().saturating_sub(1) / 2) as u8;
    let members = task.attempt(config.policy.ftt.min(ftt_now), &config.policy, &wants)?;
    Ok(change(config, members, None, ids))
}

/// Adds what the policy asks for and the disk lacks: after force provisioning, or after a policy became stricter.
///
/// Nothing to add gives a change without `added`.
///
/// # Errors
/// A refusal with cause and remedy; the disk stays as it is.
pub fn complete(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Change, Refusal> {
    let task = Task::of(picture, config, config.members.clone());
    let sets = 0..replica_sets(&config.layout, config.size_bytes);
    let wants = missing_copies(sets, config.policy.copies(), &config.members);
    let members = task.attempt(config.policy.ftt, &config.policy, &wants)?;
    Ok(change(config, members, None, ids))
}

/// Places what a disk needs to grow to `size_bytes`; its components stay where they are.
///
/// # Errors
/// A refusal with cause and remedy: the size is no size, is smaller, or there is no room.
pub fn extend(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    size_bytes: u64,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Change, Refusal> {
    refuse_size(size_bytes)?;
    if size_bytes < config.size_bytes {
        return Err(Refusal {
            kind: RefusalKind::Size,
            text: format!(
                "{} is less than the {} that disk {} has: a disk can grow, shrinking would cut off data",
                format_bytes(size_bytes),
                format_bytes(config.size_bytes),
                config.name
            ),
        });
    }
    let mut task = Task::of(picture, config, config.members.clone());
    task.state = ComponentState::Active;
    task.size_bytes = size_bytes;
    task.grow_kept(config)?;
    let new =
        replica_sets(&config.layout, config.size_bytes)..replica_sets(&config.layout, size_bytes);
    let (members, reduced) = task.forced(&|copies| missing_copies(new.clone(), copies, &[]))?;
    Ok(change(config, members, reduced, ids))
}

/// One question to the solver, whatever the verb.
struct Task<'a> {
    picture: &'a ClusterPicture,
    policy: &'a Policy,
    layout: Layout,
    size_bytes: u64,
    room: Room,
    kept: Vec<Member>,
    /// The state in which new copies start.
    state: ComponentState,
}

impl<'a> Task<'a> {
    fn of(picture: &'a ClusterPicture, config: &'a ObjectConfig, kept: Vec<Member>) -> Self {
        Self {
            picture,
            policy: &config.policy,
            layout: config.layout,
            size_bytes: config.size_bytes,
            room: Room::of(picture),
            kept,
            state: ComponentState::Resyncing {
                stale_since: OpId::ZERO,
            },
        }
    }

    /// Members that meet the policy, or, where it says *force provisioning*, the most of it that can be had.
    fn forced(
        &self,
        wants: &dyn Fn(u32) -> Vec<(ReplicaSetIndex, u32)>,
    ) -> Result<(Vec<Member>, Option<String>), Refusal> {
        let full = self.attempt(self.policy.ftt, self.policy, &wants(self.policy.copies()));
        let refusal = match full {
            Ok(members) => return Ok((members, None)),
            Err(refusal) if !self.policy.force_provisioning => return Err(refusal),
            Err(refusal) => refusal,
        };
        // Space that is missing later stops writes; a copy that is missing later loses data: space is given up first.
        for ftt in (0..=self.policy.ftt).rev() {
            for reservation_percent in [self.policy.reservation_percent, 0] {
                let less = Policy {
                    reservation_percent,
                    ..self.policy.clone()
                };
                if let Ok(members) = self.attempt(ftt, &less, &wants(u32::from(ftt) + 1)) {
                    return Ok((
                        members,
                        Some(reduced_words(self.policy, ftt, &less, &refusal)),
                    ));
                }
            }
        }
        Err(Refusal {
            kind: refusal.kind,
            text: format!(
                "{} Force provisioning does not help: not even one copy can be placed.",
                refusal.text
            ),
        })
    }

    /// Members with every want placed, witnesses for `ftt`, and votes. New ones have id 0 until ids are drawn.
    fn attempt(
        &self,
        ftt: u8,
        policy: &Policy,
        wants: &[(ReplicaSetIndex, u32)],
    ) -> Result<Vec<Member>, Refusal> {
        let domain_of = |seat: Seat| self.picture.domain_of(seat.host);
        let needed = 2 * usize::from(ftt) + 1;
        let mut usable: BTreeSet<FaultDomain> = self.room.domains().into_iter().collect();
        usable.extend(self.kept.iter().map(|m| domain_of(m.seat())));
        if usable.len() < needed {
            return Err(too_few_domains(self.picture, ftt, needed, usable.len()));
        }
        let wants: Vec<Want> = wants
            .iter()
            .map(|&(set, copy)| Want {
                set,
                copy,
                demand_bytes: demand_bytes(
                    policy,
                    component_bytes(&self.layout, self.size_bytes, set),
                ),
            })
            .collect();
        let search = Search::new(self.layout, self.room.clone(), &self.kept, &domain_of);
        let seats = search
            .solve(&wants)
            .map_err(|placed| self.no_room(ftt, policy, &wants, placed))?;
        let mut members = self.kept.clone();
        members.extend(seats.iter().map(|(want, seat)| {
            let (set, copy) = (want.set, want.copy);
            self.new_member(*seat, Role::Data { set, copy }, self.state)
        }));
        self.set_witnesses(&mut members, ftt, needed)?;
        ballot::assign(&mut members, &domain_of);
        Ok(members)
    }

    /// Drops witnesses beside data of the same domain, adds those that are missing.
    fn set_witnesses(
        &self,
        members: &mut Vec<Member>,
        ftt: u8,
        needed: usize,
    ) -> Result<(), Refusal> {
        let domain_of = |m: &Member| self.picture.domain_of(m.host);
        let data: BTreeSet<FaultDomain> = members
            .iter()
            .filter(|m| m.role != Role::Witness)
            .map(domain_of)
            .collect();
        members.retain(|m| m.role != Role::Witness || !data.contains(&domain_of(m)));
        let used: BTreeSet<FaultDomain> = members.iter().map(domain_of).collect();
        let missing = needed.saturating_sub(used.len());
        let mut room = self.room.clone();
        let seats = witnesses(&mut room, &used, missing);
        if seats.len() < missing {
            let usable = used.len() + seats.len();
            return Err(too_few_domains(self.picture, ftt, needed, usable));
        }
        members.extend(
            seats
                .into_iter()
                .map(|seat| self.new_member(seat, Role::Witness, ComponentState::Active)),
        );
        Ok(())
    }

    /// Why wants found no place, though there are domains enough for the votes.
    fn no_room(&self, ftt: u8, policy: &Policy, wants: &[Want], placed: usize) -> Refusal {
        let mut by_set: BTreeMap<ReplicaSetIndex, usize> = BTreeMap::new();
        for want in wants {
            *by_set.entry(want.set).or_default() += 1;
        }
        let needed = by_set.values().copied().max().unwrap_or(0);
        let demand = wants.iter().map(|w| w.demand_bytes).max().unwrap_or(0);
        // Fault domains that hold another copy of the same set are no choice for this one.
        let holders: BTreeSet<FaultDomain> = match wants {
            [only] => self
                .kept
                .iter()
                .filter(|m| m.set() == Some(only.set))
                .map(|m| self.picture.domain_of(m.host))
                .collect(),
            _ => BTreeSet::new(),
        };
        let mut domains = self.room.domains();
        domains.retain(|d| !holders.contains(d));
        if domains.len() < needed {
            let all = needed + holders.len();
            return too_few_domains(self.picture, ftt, all, domains.len() + holders.len());
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
            return too_little_room(ftt, needed, demand, reserved, with_room, &short);
        }
        too_little_in_all(ftt, wants.len(), demand, placed)
    }

    /// Takes what the components of the disk reserve more at its new size.
    fn grow_kept(&mut self, config: &ObjectConfig) -> Result<(), Refusal> {
        for member in &config.members {
            let Some(set) = member.set() else { continue };
            let demand = |size| {
                let bytes = component_bytes(&config.layout, size, set);
                demand_bytes(&config.policy, bytes)
            };
            let more = demand(self.size_bytes) - demand(config.size_bytes);
            if more == 0 || config.policy.reservation_percent == 0 {
                continue;
            }
            let name = self
                .picture
                .host(member.host)
                .map_or_else(|| member.host.to_string(), |h| h.name.clone());
            // A group that is away cannot be asked; it is brought up to the new size by its resync.
            let Some(group) = self.room.group_mut(member.seat()) else {
                continue;
            };
            let free = group.fits_bytes();
            if !group.take(more) {
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
            FaultDomain::Host(id) => self
                .picture
                .host(*id)
                .map_or_else(|| id.to_string(), |h| h.name.clone()),
        }
    }

    fn new_member(&self, seat: Seat, role: Role, state: ComponentState) -> Member {
        Member {
            component: ComponentId(0),
            host: seat.host,
            disk_group: seat.disk_group,
            votes: 0,
            role,
            state,
        }
    }
}

/// The (set, copy) pairs of `sets` that no member holds.
fn missing_copies(
    sets: std::ops::Range<ReplicaSetIndex>,
    copies: u32,
    members: &[Member],
) -> Vec<(ReplicaSetIndex, u32)> {
    let held: BTreeSet<(ReplicaSetIndex, u32)> = members
        .iter()
        .filter_map(|m| match m.role {
            Role::Data { set, copy } => Some((set, copy)),
            Role::Witness => None,
        })
        .collect();
    sets.flat_map(|set| (0..copies).map(move |copy| (set, copy)))
        .filter(|want| !held.contains(want))
        .collect()
}

/// Gives ids to new members, in order of (set, copy), witnesses last; kept ones stay in front.
fn draw_ids(members: &mut [Member], ids: &mut dyn FnMut() -> ComponentId) -> Vec<ComponentId> {
    members.sort_by_key(|m| {
        let new = m.component == ComponentId(0);
        match m.role {
            _ if !new => (false, 0, 0),
            Role::Data { set, copy } => (true, set, copy),
            Role::Witness => (true, ReplicaSetIndex::MAX, 0),
        }
    });
    let new = members.iter_mut().filter(|m| m.component == ComponentId(0));
    new.map(|m| {
        m.component = ids();
        m.component
    })
    .collect()
}

fn change(
    config: &ObjectConfig,
    mut members: Vec<Member>,
    reduced: Option<String>,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Change {
    let added = draw_ids(&mut members, ids);
    let removed = config
        .members
        .iter()
        .map(|m| m.component)
        .filter(|id| !members.iter().any(|m| m.component == *id))
        .collect();
    Change {
        members,
        added,
        removed,
        reduced,
    }
}

fn refuse_size(size_bytes: u64) -> Result<(), Refusal> {
    check_size(size_bytes).map_err(|e| Refusal {
        kind: RefusalKind::Size,
        text: e.to_string(),
    })
}

/// What force provisioning left out.
fn reduced_words(policy: &Policy, ftt: u8, less: &Policy, refusal: &Refusal) -> String {
    let mut left_out = Vec::new();
    if ftt < policy.ftt {
        left_out.push(format!(
            "with {} of its {} copies",
            ftt + 1,
            policy.copies()
        ));
    }
    if less.reservation_percent < policy.reservation_percent {
        left_out.push(format!(
            "without its reservation of {} %",
            policy.reservation_percent
        ));
    }
    format!(
        "Force provisioning places it {}, so it tolerates {} until the rest can be placed: {}",
        left_out.join(" and "),
        count(usize::from(ftt), "failure"),
        refusal.text
    )
}
