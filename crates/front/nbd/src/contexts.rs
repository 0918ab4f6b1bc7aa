//! Metadata contexts: which a disk has, which of them a client means, and what each tells of a range. No I/O.
//!
//! Promises    runs are in order, neighbours differ, and they begin where the range does
//! Not here    asking the disk (`execute`), bytes on the wire (`option`, `reply`)
//! Source      "NBD protocol", section "Metadata querying"; QEMU's docs/interop/nbd.txt for `qemu:dirty-bitmap`

use cairn_volume::{ChangedExtent, Extent};

use crate::{
    option::MetaQuery,
    wire::{
        BASE_ALLOCATION, BASE_ALLOCATION_ID, CAIRN_CHANGED_SINCE, QEMU_DIRTY_BITMAP, STATE_DIRTY, STATE_HOLE,
        STATE_ZERO,
    },
};

/// Contexts of one session, at most: each costs memory with every block status request.
const CONTEXTS_MAX: usize = 8;

/// What a context tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// What takes space, and what reads as zeros.
    Allocation,
    /// What changed since that moment.
    Dirty(String),
    /// What an overlay over a copy of that moment has: what did not change is a hole that does not read as zeros.
    ///
    /// `qemu-img convert -B`, with this as its `x-dirty-bitmap`, copies just what changed. With `qemu:dirty-bitmap` it would
    /// copy all else: QEMU reads any context's flags as those of `base:allocation`, and "dirty" has the bit of a hole.
    ChangedSince(String),
}

impl Kind {
    /// Its name on the wire.
    pub fn name(&self) -> String {
        match self {
            Self::Allocation => BASE_ALLOCATION.to_owned(),
            Self::Dirty(moment) => format!("{QEMU_DIRTY_BITMAP}{moment}"),
            Self::ChangedSince(moment) => format!("{CAIRN_CHANGED_SINCE}{moment}"),
        }
    }
}

/// A context of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Its number on the wire.
    pub id: u32,
    /// What it tells.
    pub kind: Kind,
}

/// Whether a query may mean more than `base:allocation`: only then are the disk's moments asked for.
pub fn needs_moments(query: &MetaQuery) -> bool {
    query.queries.is_empty() || query.queries.iter().any(|q| !q.starts_with(b"base:"))
}

/// The contexts of a disk with these moments that are meant. Listing takes beginnings that end in a colon, and no query at all as
/// "everything"; selecting takes whole names.
pub fn meant(query: &MetaQuery, moments: Vec<String>, listing: bool) -> Vec<Context> {
    let kinds = moments.into_iter().flat_map(|moment| [Kind::Dirty(moment.clone()), Kind::ChangedSince(moment)]);
    let all =
        [Kind::Allocation].into_iter().chain(kinds).zip(BASE_ALLOCATION_ID..).map(|(kind, id)| Context { id, kind });
    let is_meant = |context: &Context| {
        let name = context.kind.name();
        let fits = |q: &Vec<u8>| {
            name.as_bytes() == q.as_slice() || (listing && q.ends_with(b":") && name.as_bytes().starts_with(q))
        };
        (listing && query.queries.is_empty()) || query.queries.iter().any(fits)
    };
    let all = all.filter(is_meant);
    if listing { all.collect() } else { all.take(CONTEXTS_MAX).collect() }
}

/// A run of bytes with one state in the sense of its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateRun {
    /// Bytes.
    pub len_bytes: u64,
    /// The context's flags.
    pub flags: u32,
}

/// `base:allocation`.
pub fn allocation(extents: &[Extent]) -> Vec<StateRun> {
    let flags = |allocated| if allocated { 0 } else { STATE_HOLE | STATE_ZERO };
    merged(extents.iter().map(|extent| StateRun { len_bytes: extent.len_bytes, flags: flags(extent.allocated) }))
}

/// `qemu:dirty-bitmap`.
pub fn dirty(extents: &[ChangedExtent]) -> Vec<StateRun> {
    let flags = |changed| if changed { STATE_DIRTY } else { 0 };
    merged(extents.iter().map(|extent| StateRun { len_bytes: extent.len_bytes, flags: flags(extent.changed) }))
}

/// `cairn:changed-since`, as far as both tell.
pub fn changed_since(changes: &[ChangedExtent], allocation: &[Extent]) -> Vec<StateRun> {
    let (mut changes, mut allocation) = (changes.iter().copied(), allocation.iter().copied());
    let (mut change, mut extent) = (changes.next(), allocation.next());
    let mut runs = Vec::new();
    while let (Some(c), Some(a)) = (&mut change, &mut extent) {
        let len_bytes = c.len_bytes.min(a.len_bytes);
        let flags = match (c.changed, a.allocated) {
            (false, _) => STATE_HOLE,
            (true, true) => 0,
            (true, false) => STATE_HOLE | STATE_ZERO,
        };
        runs.push(StateRun { len_bytes, flags });
        c.len_bytes -= len_bytes;
        a.len_bytes -= len_bytes;
        if c.len_bytes == 0 {
            change = changes.next();
        }
        if a.len_bytes == 0 {
            extent = allocation.next();
        }
    }
    merged(runs.into_iter())
}

fn merged(runs: impl Iterator<Item = StateRun>) -> Vec<StateRun> {
    let mut all: Vec<StateRun> = Vec::new();
    for run in runs.filter(|run| run.len_bytes > 0) {
        match all.last_mut() {
            Some(last) if last.flags == run.flags => last.len_bytes += run.len_bytes,
            _ => all.push(run),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn query(queries: &[&str]) -> MetaQuery {
        MetaQuery { name: "disk@c".into(), queries: queries.iter().map(|q| q.as_bytes().to_vec()).collect() }
    }

    fn names(queries: &[&str], listing: bool) -> Vec<(u32, String)> {
        let moments = vec!["a".to_owned(), "b".to_owned()];
        meant(&query(queries), moments, listing).into_iter().map(|c| (c.id, c.kind.name())).collect()
    }

    #[test]
    fn contexts_are_listed_by_their_beginnings_and_selected_by_their_names() {
        let all = [
            (1, "base:allocation"),
            (2, "qemu:dirty-bitmap:a"),
            (3, "cairn:changed-since:a"),
            (4, "qemu:dirty-bitmap:b"),
            (5, "cairn:changed-since:b"),
        ]
        .map(|(id, name)| (id, name.to_owned()));
        let some = |which: &[usize]| which.iter().map(|n| all[*n].clone()).collect::<Vec<_>>();
        assert_eq!(names(&[], true), all);
        assert_eq!(names(&["base:"], true), some(&[0]));
        for beginning in ["qemu:", "qemu:dirty-bitmap:"] {
            assert_eq!(names(&[beginning], true), some(&[1, 3]));
            assert_eq!(names(&[beginning], false), []);
        }
        assert_eq!(names(&["cairn:changed-since:"], true), some(&[2, 4]));
        assert_eq!(names(&["qemu:dirty"], true), []);
        assert_eq!(names(&[], false), []);
        assert_eq!(names(&["qemu:dirty-bitmap:b", "base:allocation", "qemu:dirty-bitmap:b"], false), some(&[0, 3]));
        assert_eq!(names(&["qemu:dirty-bitmap:c", "cairn:changed-since:a"], false), some(&[2]));
        assert!(needs_moments(&query(&[])) && needs_moments(&query(&["base:allocation", "qemu:"])));
        assert!(!needs_moments(&query(&["base:allocation"])));
        let moments: Vec<String> = (0..100).map(|n| format!("m{n}")).collect();
        let queries: Vec<String> = moments.iter().map(|m| format!("qemu:dirty-bitmap:{m}")).collect();
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        assert_eq!(meant(&query(&queries), moments, false).len(), CONTEXTS_MAX);
    }

    proptest! {
        /// Sector by sector, an overlay has what both tell.
        #[test]
        fn an_overlay_has_what_changed(
            changes in vec((0..5_u64, any::<bool>()), 0..20),
            extents in vec((0..5_u64, any::<bool>()), 0..20),
        ) {
            let changes: Vec<ChangedExtent> =
                changes.into_iter().map(|(len_bytes, changed)| ChangedExtent { len_bytes, changed }).collect();
            let extents: Vec<Extent> =
                extents.into_iter().map(|(len_bytes, allocated)| Extent { len_bytes, allocated }).collect();
            let changed = changes.iter().flat_map(|c| (0..c.len_bytes).map(|_| c.changed));
            let allocated = extents.iter().flat_map(|a| (0..a.len_bytes).map(|_| a.allocated));
            let slow: Vec<u32> = changed.zip(allocated).map(|(c, a)| match (c, a) {
                (false, _) => 1,
                (true, true) => 0,
                (true, false) => 3,
            }).collect();
            let runs = changed_since(&changes, &extents);
            prop_assert!(runs.windows(2).all(|two| two[0].flags != two[1].flags));
            let told: Vec<u32> = runs.iter().flat_map(|run| (0..run.len_bytes).map(|_| run.flags)).collect();
            prop_assert_eq!(told, slow);
        }
    }
}
