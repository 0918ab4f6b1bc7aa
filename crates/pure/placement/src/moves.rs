//! Moves: a component that is well goes elsewhere, by way of a *twin*, a second member with its replica set and copy.
//!
//! Promises    M1  a move never lowers what a disk survives: the twin is in sync before the other one goes            (I12)
//!             M2  a twin lies in no fault domain that holds another copy of its set
//!             M3  a move is begun only where it can be ended: what is left then tolerates what it did before
//!             M4  one move of a disk at a time, and none while something of it is lost or being filled
//! Not here    filling the twin (engine/object), which hosts are to be emptied (the picture says so)
//! Source      replica moves of Ceph's backfill and of vSAN's resync: the old copy serves until the new one is whole
//!
//! A move has three states, and the configuration says which: a twin that is being filled, two in sync, the old one gone.
//! So it outlives its owner, and the next one goes on from there. Of two in sync the one that is listed first goes.

use std::collections::{BTreeMap, BTreeSet};

use cairn_types::{Canary, ComponentId, ComponentState, HostId, MaintenanceMode, Member, ObjectConfig, Role};

use crate::{
    picture::ClusterPicture,
    record::check_record,
    refusal::Refusal,
    task::Task,
    verbs::{Change, change, known, release, replace},
};

/// Components that are tried before a move waits, at most: each is a search through the cluster, some 100 microseconds.
const TRIED_MAX: usize = 8;

/// The next step of a disk's moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveStep {
    /// Give one of those that are to go a twin, or another place at once where it is a witness: [`relocate`].
    Begin,
    /// Let this one go, its twin holds what it holds: [`release`].
    End(ComponentId),
}

/// What is to be done next for `unwanted` members, and for twins that are there.
///
/// Nothing while a twin is being filled: its resync ends that, or the twin fails. A twin that is not in sync goes where the other one is
/// wanted again.
pub fn next_move(config: &ObjectConfig, unwanted: &[ComponentId]) -> Option<MoveStep> {
    let pairs = config.twins();
    for [old, twin] in &pairs {
        match (old.state, twin.state) {
            (ComponentState::Degraded, _) | (_, ComponentState::Active) => return Some(MoveStep::End(old.component)),
            (_, ComponentState::Degraded) => return Some(MoveStep::End(twin.component)),
            (ComponentState::Active, ComponentState::Resyncing { .. }) if Canary::UnwantedIsSource.sings() => {
                return Some(MoveStep::End(old.component));
            }
            (ComponentState::Active, _) if !unwanted.contains(&old.component) => {
                return Some(MoveStep::End(twin.component));
            }
            _ => {}
        }
    }
    let whole = pairs.is_empty() && config.members.iter().all(|m| m.state.in_sync());
    (whole && !unwanted.is_empty()).then_some(MoveStep::Begin)
}

/// The change that a step comes to. Of those that are to go, the first that has a place elsewhere: one without keeps no other from it.
/// `asked` says of some where they are to go.
///
/// # Errors
/// A refusal with cause and remedy, of the first.
pub fn carry_out(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    (step, unwanted): (MoveStep, &[ComponentId]),
    asked: &BTreeMap<ComponentId, Vec<HostId>>,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Change, Refusal> {
    let to = |component: &ComponentId| asked.get(component).map_or(&[][..], Vec::as_slice);
    let leaving = match step {
        MoveStep::End(component) => return release(picture, config, component, ids),
        MoveStep::Begin => unwanted,
    };
    let (first, others) = leaving.split_first().expect("a move begins where something is to go");
    relocate(picture, config, *first, to(first), ids).or_else(|why| {
        let mut tried = others.iter().take(TRIED_MAX - 1);
        tried.find_map(|component| relocate(picture, config, *component, to(component), ids).ok()).ok_or(why)
    })
}

/// Members that are to go elsewhere, as their hosts or disk groups are being emptied.
pub fn unwanted(picture: &ClusterPicture, config: &ObjectConfig) -> Vec<ComponentId> {
    let mode_of = |m: &Member| picture.leaves(m.seat());
    let modes: BTreeSet<MaintenanceMode> = config.members.iter().filter_map(mode_of).collect();
    if modes.iter().all(|mode| *mode == MaintenanceMode::NoEvacuation) {
        return Vec::new();
    }
    // Hosts in maintenance, and disk groups that are emptied, are expected to be away, all of them.
    let stays = |m: &&Member| mode_of(m).is_none();
    let needed = needed_members(config, config.members.iter().filter(stays));
    let leaves = |m: &&Member| match mode_of(m) {
        None | Some(MaintenanceMode::NoEvacuation) => false,
        Some(MaintenanceMode::FullEvacuation) => true,
        Some(MaintenanceMode::EnsureAccessibility) => needed.contains(&m.component),
    };
    config.members.iter().filter(leaves).map(|m| m.component).collect()
}

/// Those without which the members that stay have too few votes, or no copy in sync of a set.
fn needed_members<'a>(config: &ObjectConfig, stay: impl Iterator<Item = &'a Member>) -> BTreeSet<ComponentId> {
    let stay: Vec<&Member> = stay.collect();
    let votes: u32 = stay.iter().map(|m| m.votes).sum();
    let lacks_votes = votes < cairn_votes::votes_needed(config);
    let is_needed = |m: &&Member| match m.set() {
        Some(set) => {
            !config.is_held_by(set, |one| stay.iter().any(|m| m.component == one.component))
                || (lacks_votes && m.votes > 0)
        }
        None => lacks_votes,
    };
    let away = config.members.iter().filter(|m| !stay.iter().any(|s| s.component == m.component));
    away.filter(is_needed).map(|m| m.component).collect()
}

/// Begins a move of `component`: finds a place for its twin, which comes `Resyncing` from nothing. A witness holds nothing, so
/// another one takes its place in the same change. It goes to one of the hosts `to`, wherever there is room if none is named.
///
/// # Errors
/// A refusal with cause and remedy: also where the move could be begun and not ended.
pub fn relocate(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    component: ComponentId,
    to: &[HostId],
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Change, Refusal> {
    let member = *known(config, component)?;
    let Role::Data { set, copy } = member.role else {
        return match to {
            [] => replace(picture, config, component, ids),
            to => replace(&only_room_at(picture, to), config, component, ids),
        };
    };
    let mut task = Task::of(picture, config, config.members.clone());
    task.copies_to = to;
    check_record(&config.policy, &config.addresses, config.size_bytes)?;
    // A seat holds one component of a set.
    task.room.groups.retain(|group| group.seat != member.seat());
    task.leaving = Some(component);
    let ftt = task.ftt_of(config);
    let with = task.attempt(ftt, &config.policy, &[(set, copy)])?;
    let after = Task::of(picture, config, with.iter().filter(|m| m.component != component).copied().collect());
    after.attempt(ftt, &config.policy, &[])?;
    Ok(change(config, with, None, ids))
}

/// The picture in which no other host than these takes anything new.
fn only_room_at(picture: &ClusterPicture, hosts: &[HostId]) -> ClusterPicture {
    let mut narrowed = picture.clone();
    let others = narrowed.hosts.iter_mut().filter(|host| !hosts.contains(&host.host));
    others.for_each(|host| host.disk_groups.iter_mut().for_each(|group| group.up = false));
    narrowed
}
