//! Parts of a disk that go over to the layout that its policy asks for, one chunk at a time.
//!
//! Promises    a chunk begins only where every disk group that takes some of it has a tenth free then
//!             while it is under way what serves stays what it was; what was begun can be given up whatever the cluster lacks
//! Not here    filling it (engine/object), when a change is legal (votes)
//! Source      vSAN: a policy is changed while the disk is used, in batches, so that the room that it takes meanwhile is bounded

use std::collections::BTreeSet;

use cairn_geometry::{Area, moving_at};
use cairn_types::{Addresses, ComponentId, ComponentState, Member, ObjectConfig, ReplicaSetIndex};

use crate::{
    ballot,
    picture::ClusterPicture,
    record::check_record,
    redundancy::layout_for,
    refusal::{Asked, Refusal},
    task::Task,
    verbs::{Change, change},
    worth::drop_witnesses,
};

/// A disk group takes some of a part where so much of it is free: a tenth.
const FREE_SHARE: u64 = 10;

/// A change of members, and where the blocks of the disk are then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The members.
    pub change: Change,
    /// The addresses.
    pub addresses: Addresses,
}

/// The first part of a disk that is not laid out as its policy asks; none where all is.
pub fn unfit(config: &ObjectConfig) -> Option<Area> {
    Area::all(&config.addresses, config.size_bytes).find(|area| !config.policy.fits(area.layout()))
}

/// Begins with the first chunk that is not laid out as the policy asks: its new members are to be filled, and serve nothing yet.
///
/// None: there is none, or one is under way.
///
/// # Errors
/// A refusal with cause and remedy; the disk stays as it is.
pub fn begin_conversion(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Option<Converted>, Refusal> {
    let Some(area) = unfit(config).filter(|_| config.addresses.moving().is_none()) else {
        return Ok(None);
    };
    let redundancy = layout_for(picture, &config.policy, area.layout().chunk_bytes).redundancy;
    let (moving, count) = moving_at(config, area.blocks().start, redundancy, config.policy.stripe_width);
    let addresses = config.addresses.begun(moving, count);
    check_record(&config.policy, &addresses, config.size_bytes)?;
    let new: Vec<ReplicaSetIndex> = Area::new(moving.to, moving.end_block).sets().collect();
    let mut task = Task::of(picture, config, config.members.clone());
    task.addresses = addresses;
    task.room.groups.retain(|group| {
        let total: u64 = group.devices.iter().map(|device| device.total_bytes).sum();
        group.free_bytes >= total / FREE_SHARE
    });
    let wants = task.missing(&new, config.policy.ftt, &[]);
    let members = task.attempt(config.policy.ftt, &config.policy, &wants)?;
    Ok(Some(Converted { change: change(config, members, None, ids), addresses: task.addresses }))
}

/// What is under way takes the place of what was there, whose members go. None: nothing is.
///
/// The members' states are those of now: the new ones are in sync once this is in force.
///
/// # Errors
/// A refusal with cause and remedy. The disk is as well off with both, so the end may wait.
pub fn end_conversion(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Option<Converted>, Refusal> {
    let Some(addresses) = config.addresses.moved(config.size_blocks()) else {
        return Ok(None);
    };
    let stay: BTreeSet<ReplicaSetIndex> = cairn_geometry::sets(&addresses, config.size_bytes).collect();
    let members = keep(picture, config, &addresses, &stay)?;
    Ok(Some(Converted { change: change(config, members, None, ids), addresses }))
}

/// What is under way is given up: its members go. None: nothing is.
pub fn give_up_conversion(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Option<Converted> {
    config.addresses.moving()?;
    let addresses = config.addresses.given_up();
    let stay: BTreeSet<ReplicaSetIndex> = cairn_geometry::sets(&addresses, config.size_bytes).collect();
    let members = keep(picture, config, &addresses, &stay).unwrap_or_else(|_| {
        // The cluster lacks what the policy asks for: those that stay share the votes.
        let mut members = staying(config, &stay);
        ballot::assign(&mut members, &|seat| picture.domain_of(seat.host));
        members
    });
    Some(Converted { change: change(config, members, None, ids), addresses })
}

/// Members of these sets, and the witnesses and votes that go with them.
fn keep(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    addresses: &Addresses,
    stay: &BTreeSet<ReplicaSetIndex>,
) -> Result<Vec<Member>, Refusal> {
    let mut kept = staying(config, stay);
    drop_witnesses(picture, &mut kept, Asked::most(addresses, config.policy.ftt).domains());
    let mut task = Task::of(picture, config, kept);
    task.addresses = addresses.clone();
    // What it is asked for, or, where the cluster lacks hosts for that, the most that it can have.
    let mut found = task.attempt(config.policy.ftt, &config.policy, &[]);
    for ftt in (0..config.policy.ftt).rev() {
        if found.is_err() {
            found = task.attempt(ftt, &config.policy, &[]).or(found);
        }
    }
    found
}

fn staying(config: &ObjectConfig, stay: &BTreeSet<ReplicaSetIndex>) -> Vec<Member> {
    config.members.iter().filter(|m| m.set().is_none_or(|set| stay.contains(&set))).copied().collect()
}

/// Whether all members of what is under way have been filled all the time since it began.
pub fn is_whole(config: &ObjectConfig) -> bool {
    let mut apart = config.members.iter().filter(|m| m.set().is_some_and(|set| !config.addresses.serves(set)));
    apart.all(|m| matches!(m.state, ComponentState::Resyncing { .. }))
}
