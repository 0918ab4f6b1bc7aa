//! Snapshots of a disk: which may be taken, what the record says of them, and what components are told.
//!
//! Promises    what a snapshot has is decided when the record names it: all operations up to its cut, and nothing later
//!             a snapshot that is locked goes with time alone: neither it nor its disk is deleted before, and no lock is made shorter
//!             a component's list is that of the record, with a number above that of each list before
//! Assumes     nothing is under way when a snapshot is cut
//! Not here    how that comes to be, and who has answered (`object`); what components keep (`store`)

use std::fmt;

use cairn_types::{
    Ancestry, Canary, ComponentOp, ObjectConfig, OpId, Past, SNAPSHOTS_MAX, Snapshot, SnapshotId, format_utc,
};

use crate::state::State;

/// Why a snapshot is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotTaken {
    /// The disk has one of that name.
    Named(String),
    /// It has as many as there may be.
    TooMany,
    /// It is going back to one of them.
    GoesBack,
    /// It is going over to the layout that its policy asks for, or is to: with a snapshot it could not, and would stay as it is.
    GoesOver,
    /// What it has of its parents is being copied: when that has come to its end, they may go.
    Flattens,
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "the disk has a snapshot {name:?} already: delete it, or take another name"),
            Self::TooMany => write!(f, "the disk has {SNAPSHOTS_MAX} snapshots, which is the most: delete one of them"),
            Self::GoesBack => f.write_str("the disk is going back to a snapshot: ask again when it has"),
            Self::GoesOver => f.write_str(
                "the disk is going over to the layout that its policy asks for: ask again when all of it has, or give it back the policy that it had",
            ),
            Self::Flattens => f.write_str("the disk is being flattened: ask again when that has come to its end"),
        }
    }
}

/// Why a snapshot, or its disk, is not deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotDeleted {
    /// It is locked.
    Locked(Lock),
    /// So many of the disk's are; this is the lock that ends last.
    DiskLocked(usize, Lock),
    /// The disk is going back to it.
    GoesBack,
    /// So many of the disk's have, or had, clones.
    DiskPinned(usize),
}

/// A lock that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The name of the snapshot.
    pub name: String,
    /// Until then.
    pub until_unix_ms: u64,
    /// So few hosts answer that nobody knows the time of the day: it may be over.
    pub unjudged: bool,
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = format_utc(self.until_unix_ms);
        match self.unjudged {
            false => write!(f, "until {until}: nobody can delete it before"),
            true => {
                write!(f, "until {until}, and whether that is over is judged when more than half of the hosts answer")
            }
        }
    }
}

impl fmt::Display for NotDeleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked(lock) => write!(f, "snapshot {:?} is locked {lock}", lock.name),
            Self::DiskLocked(count, lock) => {
                write!(f, "{count} of the disk's snapshots are locked; the last of them, {:?}, {lock}", lock.name)
            }
            Self::GoesBack => f.write_str("the disk is going back to it: delete it when it has"),
            Self::DiskPinned(count) => write!(f, "{count} of the disk's snapshots have clones, or had some: ask again"),
        }
    }
}

/// Whether a disk of this configuration may be deleted at a moment; none: nobody knows the time of the day, and what was ever locked counts as locked.
///
/// # Errors
/// A snapshot of it is locked.
pub fn check_delete_disk(config: &ObjectConfig, now_unix_ms: Option<u64>) -> Result<(), NotDeleted> {
    let all = config.past.iter().flat_map(|past| &past.snapshots);
    let locked: Vec<&Snapshot> = all.filter(|snapshot| snapshot.is_locked(now_unix_ms.unwrap_or(0))).collect();
    match locked.iter().max_by_key(|snapshot| snapshot.locked_until_unix_ms) {
        Some(last) => Err(NotDeleted::DiskLocked(locked.len(), lock_of(last, now_unix_ms))),
        None => Ok(()),
    }
}

/// Whether a disk may be deleted, as far as clones of its snapshots go: who deletes it sees to these first.
///
/// # Errors
/// A snapshot is pinned.
pub fn check_unpinned(config: &ObjectConfig) -> Result<(), NotDeleted> {
    match config.past.iter().flat_map(|past| &past.snapshots).filter(|snapshot| snapshot.pinned).count() {
        0 => Ok(()),
        count => Err(NotDeleted::DiskPinned(count)),
    }
}

/// Whether a snapshot may be deleted at a moment, as [`check_delete_disk`] has it, as far as locks go.
///
/// # Errors
/// It is locked.
pub fn check_delete_snapshot(snapshot: &Snapshot, now_unix_ms: Option<u64>) -> Result<(), NotDeleted> {
    if snapshot.is_locked(now_unix_ms.unwrap_or(0)) && !Canary::LockIgnored.sings() {
        return Err(NotDeleted::Locked(lock_of(snapshot, now_unix_ms)));
    }
    Ok(())
}

fn lock_of(snapshot: &Snapshot, now_unix_ms: Option<u64>) -> Lock {
    Lock { name: snapshot.name.clone(), until_unix_ms: snapshot.locked_until_unix_ms, unjudged: now_unix_ms.is_none() }
}

impl State {
    /// Whether the disk has the snapshot that a schedule takes in a run: it was taken before, by this host or another.
    pub fn has_of_run(&self, name: &str, slot_unix_s: u64) -> bool {
        let past = self.config().past.as_ref();
        past.and_then(|past| past.named(name)).is_some_and(|known| known.slot_unix_s == Some(slot_unix_s))
    }

    /// Whether a snapshot may be deleted at a moment, as [`check_delete_disk`] has it. One that there is not may.
    ///
    /// # Errors
    /// Why not.
    pub fn check_delete(&self, id: SnapshotId, now_unix_ms: Option<u64>) -> Result<(), NotDeleted> {
        let Some(past) = &self.config().past else { return Ok(()) };
        let Some(snapshot) = past.snapshot(id) else { return Ok(()) };
        check_delete_snapshot(snapshot, now_unix_ms)?;
        if past.goes_back_to == Some(id) { Err(NotDeleted::GoesBack) } else { Ok(()) }
    }

    /// The configuration in which a snapshot is locked until then, or as long as it was. None: nothing changes, or there is no such snapshot.
    pub fn config_with_lock(&self, id: SnapshotId, until_unix_ms: u64) -> Option<ObjectConfig> {
        let mut next = (**self.config()).clone();
        let all = next.past.iter_mut().flat_map(|past| &mut past.snapshots);
        let snapshot = all.into_iter().find(|one| one.id == id && one.locked_until_unix_ms < until_unix_ms)?;
        snapshot.locked_until_unix_ms = until_unix_ms;
        Some(next)
    }

    /// Whether a snapshot of this name may be taken.
    ///
    /// # Errors
    /// Why not.
    pub fn check_take(&self, name: &str) -> Result<(), NotTaken> {
        let config = self.config();
        let past = config.past.as_ref();
        if past.is_some_and(|past| past.named(name).is_some()) {
            return Err(NotTaken::Named(name.into()));
        }
        if past.is_some_and(|past| past.snapshots.len() >= SNAPSHOTS_MAX) {
            return Err(NotTaken::TooMany);
        }
        if past.is_some_and(|past| past.goes_back_to.is_some()) {
            return Err(NotTaken::GoesBack);
        }
        if config.ancestry.as_ref().is_some_and(|ancestry| ancestry.flattens) {
            return Err(NotTaken::Flattens);
        }
        let is_there = config.addresses.spans().iter().all(|span| config.policy.fits(&span.layout));
        if config.addresses.moving().is_some() || !is_there { Err(NotTaken::GoesOver) } else { Ok(()) }
    }

    /// The configuration of a disk that has a past, of no snapshots: whoever owns it next looks for cuts that came to nothing.
    pub fn config_with_past(&self) -> ObjectConfig {
        let mut next = (**self.config()).clone();
        next.past.get_or_insert_default();
        next
    }

    /// The configuration with one snapshot more.
    pub fn config_with_snapshot(&self, snapshot: Snapshot) -> ObjectConfig {
        let mut next = self.config_with_past();
        next.decided = next.decided.max(snapshot.cut);
        next.past.get_or_insert_default().snapshots.push(snapshot);
        next
    }

    /// The configuration without a snapshot. None: it is pinned.
    pub fn config_without_snapshot(&self, id: SnapshotId) -> Option<ObjectConfig> {
        let mut next = (**self.config()).clone();
        let pinned = next.past.as_ref().and_then(|past| past.snapshot(id)).is_some_and(|snapshot| snapshot.pinned);
        next.past.iter_mut().for_each(|past| past.snapshots.retain(|snapshot| snapshot.id != id));
        (!pinned).then_some(next)
    }

    /// The configuration in which a snapshot is pinned, or is not.
    pub fn config_with_pin(&self, id: SnapshotId, pinned: bool) -> ObjectConfig {
        let mut next = (**self.config()).clone();
        let snapshots = next.past.iter_mut().flat_map(|past| &mut past.snapshots);
        snapshots.filter(|snapshot| snapshot.id == id).for_each(|snapshot| snapshot.pinned = pinned);
        next
    }

    /// The configuration of a clone of which all is copied that is its parents'. None: it is that already, or has none.
    ///
    /// # Errors
    /// It cannot be now, in words.
    pub fn config_flattening(&self) -> Result<Option<ObjectConfig>, String> {
        let config = self.config();
        let Some(ancestry) = config.ancestry.as_ref().filter(|ancestry| !ancestry.parents.is_empty()) else {
            return Err("the disk is no clone: it needs no other one".into());
        };
        let snapshots = config.past.as_ref().map_or(0, |past| past.snapshots.len());
        if snapshots > 0 {
            return Err(format!("the disk has {snapshots} snapshots, which need its parents: delete them first"));
        }
        Ok((!ancestry.flattens).then(|| {
            let ancestry = Some(Ancestry { flattens: true, ..ancestry.clone() });
            ObjectConfig { ancestry, ..(**config).clone() }
        }))
    }

    /// The configuration of a clone of which all has been copied.
    pub fn config_without_parents(&self) -> ObjectConfig {
        let mut next = (**self.config()).clone();
        next.ancestry = next.ancestry.map(|_| Ancestry::default());
        next
    }

    /// The configuration of a disk that goes back to a snapshot, as a request of this number asks.
    pub fn config_going_back(&self, to: SnapshotId, number: u64) -> ObjectConfig {
        let mut next = (**self.config()).clone();
        next.past.iter_mut().for_each(|past| (past.goes_back_to, past.back_number) = (Some(to), number));
        next
    }

    /// The configuration of a disk that went back.
    pub fn config_went_back(&self) -> ObjectConfig {
        let mut next = (**self.config()).clone();
        next.past.iter_mut().for_each(|past| past.goes_back_to = None);
        next
    }

    /// What each component is told of its cuts: those of the record, and one that is being made. None: the disk never had any.
    pub fn cuts(&mut self, made: Option<(SnapshotId, OpId)>) -> Option<ComponentOp> {
        let cuts = self.config().past.as_ref().map(Past::cuts)?;
        let settled = self.settled();
        let at = self.number();
        Some(ComponentOp::Cuts { at, settled, cuts: cuts.into_iter().chain(made).collect() })
    }
}

#[cfg(test)]
mod tests;
