//! Another policy for a disk in use: what it may change, what the disk then lacks or has too much of, and what that comes to.
//!
//! Promises    what goes leaves the policy met: of each replica set as many copies in sync stay as the policy asks for  (I12)
//!             copies that are lost, away or on hosts that are being emptied go before those that are well
//!             what is told to be possible is placed, and takes nothing
//! Not here    adding what is missing (verbs.rs), filling it (engine/object), bytes and minutes (engine/node)
//! Source      vSAN: the policy of an object is declared, and the cluster brings the object to it

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use cairn_types::{Addresses, ComponentId, ComponentState, Member, ObjectConfig, Policy, ReplicaSetIndex};

use crate::{
    conversion::{begin_conversion, end_conversion, unfit},
    picture::ClusterPicture,
    record::check_record,
    refusal::{Asked, Refusal, RefusalKind},
    task::Task,
    verbs::{Change, change, complete, preview_ids},
    worth::{drop_witnesses, worth},
};

/// Whether a disk has the copies that its policy asks for, whatever their state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// Some set has fewer.
    TooFew,
    /// All sets have what is asked for.
    Right,
    /// None has fewer, some has more.
    TooMany,
}

/// Counts the copies of a disk. One that is being moved is held twice and counts once. Parts that have another layout than the policy asks
/// for keep what they have until they go over to that.
pub fn copies(config: &ObjectConfig) -> Copies {
    let mut held: BTreeMap<ReplicaSetIndex, BTreeSet<u32>> = BTreeMap::new();
    for member in &config.members {
        if let (Some(set), Some(copy)) = (member.set(), member.copy())
            && follows(config, set)
        {
            held.entry(set).or_default().insert(copy);
        }
    }
    let asked = |set: &ReplicaSetIndex| config.members_asked(*set) as usize;
    if held.iter().any(|(set, copies)| copies.len() < asked(set)) {
        return Copies::TooFew;
    }
    if held.iter().any(|(set, copies)| copies.len() > asked(set)) { Copies::TooMany } else { Copies::Right }
}

/// Whether the policy says how many members a set has.
fn follows(config: &ObjectConfig, set: ReplicaSetIndex) -> bool {
    config.addresses.serves(set) && config.policy.fits(&config.addresses.span_of(set).layout)
}

/// Lets go what a disk has and its policy does not ask for any more: copies, and witnesses that only they needed.
///
/// None where nothing is too much, and while a component is being moved: a move ends first.
///
/// # Errors
/// A refusal with cause and remedy. The disk is as well off with what is too much, so it may wait.
pub fn shrink(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    ids: &mut dyn FnMut() -> ComponentId,
) -> Result<Option<Change>, Refusal> {
    if copies(config) != Copies::TooMany || !config.twins().is_empty() {
        return Ok(None);
    }
    let going = too_many(picture, config);
    let mut kept: Vec<Member> = config.members.iter().filter(|m| !going.contains(&m.component)).copied().collect();
    drop_witnesses(picture, &mut kept, Asked::most(&config.addresses, config.policy.ftt).domains());
    let task = Task::of(picture, config, kept);
    let members = task.attempt(task.ftt_of(config), &config.policy, &[])?;
    Ok(Some(change(config, members, None, ids)))
}

/// Of each set the copies beyond those that are asked for, the least useful ones.
fn too_many(picture: &ClusterPicture, config: &ObjectConfig) -> BTreeSet<ComponentId> {
    let mut sets: BTreeMap<ReplicaSetIndex, Vec<&Member>> = BTreeMap::new();
    for member in &config.members {
        if let Some(set) = member.set().filter(|set| follows(config, *set)) {
            sets.entry(set).or_default().push(member);
        }
    }
    let mut going = BTreeSet::new();
    for (set, members) in &mut sets {
        let asked = config.members_asked(*set) as usize;
        members.sort_by_key(|m| Reverse(worth(picture, m)));
        going.extend(members.iter().skip(asked).map(|m| m.component));
    }
    going
}

/// Components that come and go together: what comes is filled before what goes leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreviewStep {
    /// What comes.
    pub added: Vec<Member>,
    /// What goes then.
    pub removed: Vec<Member>,
}

/// What another policy comes to for a disk, before it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyPreview {
    /// Copies that are to be made, and filled.
    pub added: Vec<Member>,
    /// Copies that are to go.
    pub removed: Vec<Member>,
    /// In which steps, one after the other.
    pub steps: Vec<PreviewStep>,
    /// Where the blocks of the disk are then.
    pub addresses: Addresses,
    /// Why not all of it can be done now; none where it can.
    pub obstacle: Option<String>,
}

impl PolicyPreview {
    /// Of these steps. What comes in one and goes in another is in neither list.
    pub fn of(steps: Vec<PreviewStep>, addresses: Addresses, obstacle: Option<String>) -> Self {
        let all = |which: fn(&PreviewStep) -> &Vec<Member>| -> Vec<Member> {
            steps.iter().flat_map(|step| which(step).iter().copied()).collect()
        };
        let (came, went) = (all(|step| &step.added), all(|step| &step.removed));
        let but = |of: &[Member], others: &[Member]| -> Vec<Member> {
            let stays = |m: &&Member| !others.iter().any(|other| other.component == m.component);
            of.iter().filter(stays).copied().collect()
        };
        Self { added: but(&came, &went), removed: but(&went, &came), steps, addresses, obstacle }
    }
}

/// Works out what `policy` would come to; takes nothing. `converts`: addresses may be laid out anew.
///
/// # Errors
/// A refusal with cause and remedy: a disk in use cannot have this policy at all.
pub fn policy_preview(
    picture: &ClusterPicture,
    config: &ObjectConfig,
    policy: &Policy,
    converts: bool,
) -> Result<PolicyPreview, Refusal> {
    let allowed = if converts { policy.validate() } else { policy.check_after(&config.policy) };
    allowed.map_err(|e| Refusal { kind: RefusalKind::Policy, text: e.to_string() })?;
    check_record(policy, &config.addresses, config.size_bytes)?;
    let wanted = ObjectConfig { policy: policy.clone(), ..config.clone() };
    if unfit(&wanted).is_some() {
        return Ok(conversion_preview(picture, wanted));
    }
    let mut last_id = 0;
    let mut ids = preview_ids(&mut last_id);
    let found = match copies(&wanted) {
        Copies::TooFew => complete(picture, &wanted, &mut ids).map(Some),
        Copies::Right => Ok(None),
        Copies::TooMany => shrink(picture, &wanted, &mut ids),
    };
    let data = |members: &[Member], which: &[ComponentId]| -> Vec<Member> {
        members.iter().filter(|m| m.set().is_some() && which.contains(&m.component)).copied().collect()
    };
    let (steps, obstacle) = match found {
        Err(refusal) => (Vec::new(), Some(refusal.text)),
        Ok(None) => (Vec::new(), None),
        Ok(Some(change)) => {
            let (added, removed) = (data(&change.members, &change.added), data(&config.members, &change.removed));
            (vec![PreviewStep { added, removed }], None)
        }
    };
    Ok(PolicyPreview::of(steps, config.addresses.clone(), obstacle))
}

/// Part after part, each in the picture that the ones before leave. What is on its way already goes first.
fn conversion_preview(picture: &ClusterPicture, mut config: ObjectConfig) -> PolicyPreview {
    let mut picture = picture.clone();
    let mut last_id = 0;
    let mut ids = preview_ids(&mut last_id);
    let data = |m: &&Member| m.set().is_some();
    let serves = |m: &Member| m.set().is_none_or(|set| config.addresses.serves(set));
    let given_up = config.members.iter().filter(|m| !serves(m)).copied().collect();
    let mut steps = vec![PreviewStep { removed: given_up, ..PreviewStep::default() }];
    config.members = config.members.iter().filter(|m| serves(m)).copied().collect();
    config.addresses = config.addresses.given_up();
    let mut obstacle = None;
    while unfit(&config).is_some() {
        let begun = match begin_conversion(&picture, &config, &mut ids) {
            Ok(Some(begun)) => begun,
            Ok(None) => break,
            Err(refusal) => {
                obstacle = Some(refusal.text);
                break;
            }
        };
        (config.members, config.addresses) = (begun.change.members, begun.addresses);
        let is_new = |m: &&Member| begun.change.added.contains(&m.component);
        let all: Vec<Member> = config.members.iter().filter(is_new).copied().collect();
        picture.take(&config.addresses, &config.policy, config.size_bytes, &all);
        let added: Vec<Member> = all.iter().filter(data).copied().collect();
        let ended = match end_conversion(&picture, &config, &mut ids) {
            Ok(Some(ended)) => ended,
            Ok(None) => break,
            Err(refusal) => {
                obstacle = Some(refusal.text);
                break;
            }
        };
        let goes = |m: &&Member| ended.change.removed.contains(&m.component);
        let removed = config.members.iter().filter(data).filter(goes).copied().collect();
        (config.members, config.addresses) = (ended.change.members, ended.addresses);
        let apart = |m: &mut Member| m.state = ComponentState::Active;
        config.members.iter_mut().filter(|m| added.iter().any(|new| new.component == m.component)).for_each(apart);
        steps.push(PreviewStep { added, removed });
    }
    PolicyPreview::of(steps, config.addresses, obstacle)
}
