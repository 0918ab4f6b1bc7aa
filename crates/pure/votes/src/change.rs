//! Which change of a configuration is legal, and whether it moves votes.
//!
//! Why the rules: a set may lose its last in-sync copy, or count a new copy as in sync before it was filled. Then acknowledged
//! writes are lost while every majority still agrees.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use cairn_geometry::{grown, moving_at, sets};
use cairn_types::{
    ComponentId, ComponentState, Member, ObjectConfig, OpId, Redundancy, ReplicaSetIndex, Role, Snapshot,
};

/// How a change has to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The same members with the same votes: majorities before and after are the same, one round does.
    StateOnly,
    /// Members or votes differ: open on majorities of both, then closed.
    Joint,
}

/// Why a change is illegal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IllegalChange {
    /// A deleted object stays deleted; a configuration belongs to one object.
    Identity,
    /// Nobody would have a vote.
    NoVotes,
    /// The component is listed twice.
    Twice(ComponentId),
    /// The component would change its place, role or state in a way that none can.
    Component(ComponentId),
    /// The replica set would have too few members that are in sync before and after: its bytes would be lost.
    TooFew {
        /// Which.
        set: ReplicaSetIndex,
        /// Distinct members that are in sync before and after.
        in_sync: u32,
        /// Distinct members that must be.
        needed: u32,
    },
    /// What is decided stays decided.
    Undecided,
    /// A disk keeps its addresses: none goes away, and each stays with its replica set.
    Addresses,
    /// A snapshot stays as it was taken; a new one is the newest, and all that it has is decided. While a disk has any, no part of it goes over
    /// to another layout, as its history would stay behind. One that has clones does not go, nor its disk.
    Snapshots,
    /// Parents of a clone go all at once, when all that was theirs has been copied. Until then it has copies, no rows: of these nobody could tell
    /// whether a block is of a parent.
    Ancestry,
}

impl fmt::Display for IllegalChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("a configuration of another or a deleted object"),
            Self::NoVotes => f.write_str("no component would have a vote"),
            Self::Twice(component) => write!(f, "component {component} is listed twice"),
            Self::Component(component) => write!(f, "component {component} cannot change so"),
            Self::TooFew { set, needed: 1, .. } => write!(f, "replica set {set} would have no copy in sync"),
            Self::TooFew { set, in_sync, needed } => {
                write!(f, "replica set {set} would have {in_sync} members in sync, it needs {needed}")
            }
            Self::Undecided => f.write_str("decided operations would be undecided"),
            Self::Addresses => f.write_str("the object would be smaller, or its blocks would be elsewhere"),
            Self::Snapshots => f.write_str("a snapshot would be another one, or its history would stay behind"),
            Self::Ancestry => f.write_str("a clone would lose a parent, or get one"),
        }
    }
}

impl std::error::Error for IllegalChange {}

/// Whether `config` may follow `base`, and how.
///
/// A new copy enters with nothing in it: resyncing or absent since the first operation. Copies of sets that a growth adds enter in
/// sync, as many of each set as it needs: nobody can have written there, and all of them read as zeroes. A tombstone needs no copies.
///
/// A part of the disk goes over to another layout in two changes. The first adds the members of its new sets, which are being filled and
/// serve nothing. The second has these in sync in place of the former ones, as far as they have been filled all the time. Or all of them go.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_change(base: &ObjectConfig, config: &ObjectConfig) -> Result<ChangeKind, IllegalChange> {
    if base.object != config.object || base.deleted {
        return Err(IllegalChange::Identity);
    }
    if config.votes_total() == 0 {
        return Err(IllegalChange::NoVotes);
    }
    if config.decided < base.decided {
        return Err(IllegalChange::Undecided);
    }
    let addresses = address_change(base, config).ok_or(IllegalChange::Addresses)?;
    if !snapshots_may_be(base, config) {
        return Err(IllegalChange::Snapshots);
    }
    if !ancestry_may_be(base, config) {
        return Err(IllegalChange::Ancestry);
    }
    let old_sets: BTreeSet<_> =
        base.members.iter().filter_map(Member::set).filter(|set| base.addresses.serves(*set)).collect();
    let serving: BTreeSet<_> = sets(&config.addresses, config.size_bytes).collect();
    let moving = |config: &ObjectConfig, set| config.addresses.moving().is_some() && !config.addresses.serves(set);
    let mut seen = BTreeSet::new();
    let mut in_sync: BTreeMap<ReplicaSetIndex, BTreeSet<u32>> = BTreeMap::new();
    let mut kind = if base.members.len() == config.members.len() { ChangeKind::StateOnly } else { ChangeKind::Joint };
    for member in &config.members {
        if !seen.insert(member.component) {
            return Err(IllegalChange::Twice(member.component));
        }
        let old = base.member(member.component);
        let legal = match (old, member.set()) {
            (_, Some(set)) if moving(config, set) => {
                let enters = addresses == AddressChange::Begun && is_empty(member.state);
                old.map_or(enters, |old| same_place(old, member) && may_become(old, member)) && !member.state.in_sync()
            }
            (_, Some(set)) if !serving.contains(&set) => false,
            (Some(old), _) => same_place(old, member) && may_become(old, member),
            (None, Some(set)) if addresses == AddressChange::Moved => {
                old_sets.contains(&set) && enters_empty(member.state)
            }
            (None, Some(set)) if !old_sets.contains(&set) => member.state.in_sync() || enters_empty(member.state),
            (None, Some(_)) => enters_empty(member.state),
            (None, None) => true,
        };
        if !legal {
            return Err(IllegalChange::Component(member.component));
        }
        if old.is_none_or(|old| old.votes != member.votes) {
            kind = ChangeKind::Joint;
        }
        if let Role::Data { set, copy } = member.role
            && old.is_none_or(|old| old.state.in_sync() || moving(base, set) && is_empty(old.state))
            && member.state.in_sync()
        {
            in_sync.entry(set).or_default().insert(copy);
        }
    }
    let held = |set: &ReplicaSetIndex| in_sync.get(set).map_or(0, |indexes| indexes.len() as u32);
    // Those that had members, and those that are new.
    let before: BTreeSet<_> = sets(&base.addresses, base.size_bytes).collect();
    let mut asked = serving.into_iter().filter(|set| old_sets.contains(set) || !before.contains(set));
    match asked.find(|set| held(set) < config.needed(*set)) {
        Some(set) if !config.deleted => {
            Err(IllegalChange::TooFew { set, in_sync: held(&set), needed: config.needed(set) })
        }
        _ => Ok(kind),
    }
}

/// Whether a disk may have these snapshots after those.
fn snapshots_may_be(base: &ObjectConfig, config: &ObjectConfig) -> bool {
    let Some(past) = &config.past else { return base.past.is_none() };
    let before = base.past.as_ref().map_or(&[][..], |past| &past.snapshots);
    let newest = before.last().map_or(OpId::ZERO, |newest| newest.cut);
    let stays = |snapshot: &Snapshot| match before.iter().find(|known| known.id == snapshot.id) {
        Some(known) => snapshot.follows(known),
        None => newest <= snapshot.cut && snapshot.cut <= config.decided && snapshot.size_bytes == config.size_bytes,
    };
    let is_held = config.addresses.moving().is_none() || past.snapshots.is_empty();
    let stays_pinned = |known: &Snapshot| !config.deleted && past.snapshot(known.id).is_some();
    let pinned_stay = before.iter().filter(|known| known.pinned).all(stays_pinned);
    past.is_sound() && is_held && pinned_stay && past.snapshots.iter().all(stays)
}

/// Whether a disk may have come from there after it came from elsewhere.
fn ancestry_may_be(base: &ObjectConfig, config: &ObjectConfig) -> bool {
    let (Some(before), Some(after)) = (&base.ancestry, &config.ancestry) else {
        return base.ancestry.is_none() && config.ancestry.is_none();
    };
    let copied = before.flattens && after.parents.is_empty();
    let has_copies = || {
        let mut spans = config.addresses.spans().iter();
        spans.all(|span| matches!(span.layout.redundancy, Redundancy::Mirror { .. }))
    };
    let is_whole = after.parents.is_empty() || (has_copies() && config.addresses.moving().is_none());
    after.is_sound() && (after.parents == before.parents || copied) && is_whole
}

/// What becomes of a disk's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressChange {
    /// Each stays where it is.
    Same,
    /// There are more behind them.
    Grown,
    /// Some begin to go over to another layout, which serves nothing yet.
    Begun,
    /// They do not after all.
    GivenUp,
    /// They have gone over.
    Moved,
}

/// None: some would be elsewhere.
fn address_change(base: &ObjectConfig, config: &ObjectConfig) -> Option<AddressChange> {
    let (before, after) = (&base.addresses, &config.addresses);
    if config.size_bytes != base.size_bytes {
        let grows = config.size_bytes > base.size_bytes && before.moving().is_none();
        let is_right = grows && *after == grown(before, base.size_bytes, config.size_bytes);
        return is_right.then_some(AddressChange::Grown);
    }
    if before == after {
        return Some(AddressChange::Same);
    }
    let Some(moving) = after.moving() else {
        let moved = before.moved(base.size_blocks());
        if moved.as_ref() == Some(after) {
            return Some(AddressChange::Moved);
        }
        return (*after == before.given_up()).then_some(AddressChange::GivenUp);
    };
    let layout = moving.to.layout;
    let stripes = u8::try_from(layout.stripe_width).ok()?;
    let begins = before.moving().is_none() && moving.to.first_block < base.size_blocks();
    let (right, sets) = begins.then(|| moving_at(base, moving.to.first_block, layout.redundancy, stripes))?;
    (*after == before.begun(right, sets)).then_some(AddressChange::Begun)
}

/// Being filled from the beginning.
fn is_empty(state: ComponentState) -> bool {
    state == ComponentState::Resyncing { stale_since: OpId::ZERO }
}

fn same_place(old: &Member, new: &Member) -> bool {
    old.seat() == new.seat() && old.role == new.role
}

fn enters_empty(state: ComponentState) -> bool {
    match state {
        ComponentState::Resyncing { stale_since } | ComponentState::Absent { stale_since, .. } => {
            stale_since == OpId::ZERO
        }
        ComponentState::Degraded => true,
        ComponentState::Active => false,
    }
}

/// Active -> Absent | Degraded; Absent -> Resyncing | Degraded; Resyncing -> Active | Absent | Degraded; and what a
/// component has missed never shrinks but by becoming active. A witness has nothing to miss.
fn may_become(old: &Member, new: &Member) -> bool {
    use ComponentState::{Absent, Active, Degraded, Resyncing};
    if old.set().is_none() {
        return true;
    }
    match (old.state, new.state) {
        (_, Degraded) | (Active, Active | Absent { .. }) => true,
        (Active, Resyncing { .. }) | (Absent { .. }, Active) | (Degraded, _) => false,
        (Resyncing { .. }, Active) => true,
        (
            Absent { stale_since: before, .. } | Resyncing { stale_since: before },
            Absent { stale_since: after, .. } | Resyncing { stale_since: after },
        ) => after <= before,
    }
}
