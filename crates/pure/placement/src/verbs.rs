//! The questions: place a new disk, replace a lost component, grow a disk, fill up what is missing, let a component go.
//!
//! Promises    a change keeps every member that it need not move; ids are drawn only for what is returned
//! Not here    how an answer is found (task.rs, solve.rs), the votes (ballot.rs)

use std::collections::BTreeSet;

use cairn_geometry::{Area, check_size, grown, sets};
use cairn_types::{
    Addresses, CHUNK_BYTES_MAX, ComponentId, ComponentState, HostId, Member, ObjectConfig, Policy, ReplicaSetIndex,
    Role, format_bytes,
};

use crate::{
    picture::ClusterPicture,
    record::check_record,
    redundancy::layout_for,
    refusal::{Refusal, RefusalKind},
    room::Room,
    task::Task,
};

/// Where a new disk goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Where its blocks are.
    pub addresses: Addresses,
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
    place_near(picture, policy, size_bytes, CHUNK_BYTES_MAX, &[], ids)
}

/// [`place`] for a disk that is to be used at `near`, the shards of one server: one copy of everything goes there if there is room.
/// Its chunks have at most `chunk_bytes_max` bytes.
///
/// # Errors
/// As [`place`]; never because of `near`.
pub fn place_near(
    picture: &ClusterPicture,
    policy: &Policy,
    size_bytes: u64,
    chunk_bytes_max: u64,
    near: &[HostId],
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Placement, Refusal> {
    policy.check_bounds().map_err(|e| Refusal { kind: RefusalKind::Policy, text: e.to_string() })?;
    refuse_size(size_bytes)?;
    let addresses = Addresses::from(layout_for(picture, policy, chunk_bytes_max));
    let mut room = Room::of(picture);
    room.prefer(near);
    let (kept, leaving) = (Vec::new(), None);
    let (state, copies_to) = (ComponentState::Active, &[][..]);
    let all: Vec<_> = sets(&addresses, size_bytes).collect();
    let task = Task { picture, policy, addresses, size_bytes, room, kept, leaving, state, copies_to };
    let (members, reduced) = task.forced(&|ftt| task.missing(&all, ftt, &[]))?;
    let mut members = members;
    draw_ids(&mut members, ids);
    Ok(Placement { addresses: task.addresses, members, reduced })
}

/// Finds a place for what `lost` held: on another disk group or host, all constraints kept.
///
/// A copy comes back `Resyncing` from nothing; one that was being moved just goes, as its twin is there, and so does one that the policy
/// asks for no more. Votes may move between members; a witness moves where the only room for the copy is in its fault domain.
///
/// # Errors
/// A refusal with cause and remedy. Wait for the picture to change, or for the lost one to come back.
pub fn replace(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    lost: ComponentId,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Change, Refusal> {
    let gone = *known(config, lost)?;
    if config.twin_of(lost).is_some_and(|twin| twin.state != ComponentState::Degraded) || is_spare(config, &gone) {
        return release(picture, config, lost, ids);
    }
    let kept = config.members.iter().filter(|m| m.component != lost);
    let task = Task::of(picture, config, kept.copied().collect());
    let wants: Vec<_> = match gone.role {
        Role::Data { set, copy } => vec![(set, copy)],
        Role::Witness => Vec::new(),
    };
    let members = task.attempt(task.ftt_of(config), &config.policy, &wants)?;
    Ok(change(config, members, None, ids))
}

/// Whether as many members of its set are left without it as the policy asks for.
fn is_spare(config: &ObjectConfig, member: &Member) -> bool {
    let Some(set) = member.set() else { return false };
    let others = config.members.iter().filter(|m| m.component != member.component && m.set() == Some(set));
    let copies: BTreeSet<u32> = others.filter_map(|m| m.copy()).collect();
    copies.len() >= config.members_asked(set) as usize
}

/// Ends a move: `component` goes, and its votes with it; witnesses and votes are what the policy asks of those that are left.
///
/// # Errors
/// A refusal with cause and remedy. The disk is as well off with both, so the end may wait.
pub fn release(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    component: ComponentId,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Change, Refusal> {
    known(config, component)?;
    let kept = config.members.iter().filter(|m| m.component != component).copied().collect();
    let task = Task::of(picture, config, kept);
    let members = task.attempt(task.ftt_of(config), &config.policy, &[])?;
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
    let areas = Area::all(&config.addresses, config.size_bytes).filter(|area| config.policy.fits(area.layout()));
    let all: Vec<_> = areas.flat_map(|area| area.sets()).collect();
    let wants = task.missing(&all, config.policy.ftt, &config.members);
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
    check_record(&config.policy, &config.addresses, size_bytes)?;
    let mut task = Task::of(picture, config, config.members.clone());
    task.state = ComponentState::Active;
    task.size_bytes = size_bytes;
    task.addresses = grown(&config.addresses, config.size_bytes, size_bytes);
    task.grow_kept(config)?;
    let held: BTreeSet<_> = sets(&config.addresses, config.size_bytes).collect();
    let new: Vec<_> = sets(&task.addresses, size_bytes).filter(|set| !held.contains(set)).collect();
    let (members, reduced) = task.forced(&|ftt| task.missing(&new, ftt, &[]))?;
    Ok(change(config, members, reduced, ids))
}

/// Ids for previews, counted on from `last`: far from real ones, which are drawn at random.
pub fn preview_ids(last: &mut u128) -> impl FnMut() -> ComponentId + '_ {
    move || {
        *last += 1;
        ComponentId(*last)
    }
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

pub(crate) fn change(
    config: &ObjectConfig,
    mut members: Vec<Member>,
    reduced: Option<String>,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Change {
    let added = draw_ids(&mut members, ids);
    let removed =
        config.members.iter().map(|m| m.component).filter(|id| !members.iter().any(|m| m.component == *id)).collect();
    Change { members, added, removed, reduced }
}

fn refuse_size(size_bytes: u64) -> Result<(), Refusal> {
    check_size(size_bytes).map_err(|e| Refusal { kind: RefusalKind::Size, text: e.to_string() })
}

pub(crate) fn known(config: &ObjectConfig, component: ComponentId) -> Result<&Member, Refusal> {
    config.member(component).ok_or_else(|| Refusal {
        kind: RefusalKind::NotFound,
        text: format!("component {component} is not one of disk {}", config.name),
    })
}
