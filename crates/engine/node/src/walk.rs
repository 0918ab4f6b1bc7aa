//! How far the walk over what this host holds has come: plain functions.
//!
//! Promises    everything that is held is looked at when something has changed, and once more when leases of hosts that went with
//!             it have run out
//!             otherwise a round looks at so much at most, however much is held, and at the next with the next round; few are all
//!             looked at in each round
//! Not here    what a look does (`reconcile`)

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cairn_types::{DiskGroupId, ObjectId, Time};

/// Seats of a disk group, and objects that have components there, that a round looks at when nothing has changed.
///
/// Napkin: a look takes a microsecond and a round comes every 2.5 s, so 12 ms of a processor a minute for each disk group; 10,000
/// seats are all looked at within 50 s. Who waits for that are components that were made or replaced in vain, which take space.
const PER_ROUND_MAX: usize = 500;

/// What is walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Over {
    /// Seats of objects.
    Seats,
    /// Objects that have components, with a seat or without.
    Objects,
}

/// The walk.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Changes that had been counted when the last round began.
    changes: Option<u64>,
    /// A round that begins then or later is the last that looks at all.
    all_until: Option<Time>,
    /// The last that was looked at; none: it begins anew.
    at: BTreeMap<(DiskGroupId, Over), ObjectId>,
    /// Seats that wanted something in the last round: they are looked at in the next whatever else is.
    pub(crate) wanting: BTreeSet<(DiskGroupId, ObjectId)>,
}

impl Walk {
    /// A round begins: how many it looks at of each kind and disk group. `changes` counts what may concern any of them.
    pub(crate) fn begin_round(&mut self, changes: u64, now: Time, lease: Duration) -> usize {
        if self.changes.replace(changes) != Some(changes) {
            // A host that went just now may have leases here for as long: only then do its objects have no owner.
            self.all_until = Some(now + lease);
        }
        let Some(until) = self.all_until else { return PER_ROUND_MAX };
        self.all_until = self.all_until.filter(|_| now < until);
        self.at.clear();
        usize::MAX
    }

    /// Where to go on.
    pub(crate) fn after(&self, disk_group: DiskGroupId, over: Over) -> Option<ObjectId> {
        self.at.get(&(disk_group, over)).copied()
    }

    /// So far the round came; none: to the end.
    pub(crate) fn came_to(&mut self, disk_group: DiskGroupId, over: Over, last: Option<ObjectId>) {
        match last {
            Some(last) => self.at.insert((disk_group, over), last),
            None => self.at.remove(&(disk_group, over)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);
    const GROUP: DiskGroupId = DiskGroupId(7);

    /// Goal: a change makes rounds look at all until one begins a lease after it was noticed. Method: rounds at these times, with so
    /// many changes counted before each.
    #[test]
    fn all_is_looked_at_until_leases_have_run_out() {
        let mut walk = Walk::default();
        // (round begins at, in ms; changes until then; looks at all)
        let rounds = [
            (2_500, 4, true),
            (5_000, 4, true),
            (7_500, 4, false),
            (10_000, 4, false),
            (12_500, 5, true),
            (13_500, 5, true),
            (14_400, 6, true),
            (16_300, 6, true),
            (16_400, 6, true),
            (18_900, 6, false),
        ];
        for (ms, changes, all) in rounds {
            let most = walk.begin_round(changes, Time(ms * 1_000_000), LEASE);
            assert_eq!(most, if all { usize::MAX } else { PER_ROUND_MAX }, "at {ms} ms");
        }
    }

    /// A round as `reconcile` makes it, over objects of these numbers.
    fn round(walk: &mut Walk, objects: &BTreeSet<u128>, most: usize) -> Vec<u128> {
        let after = walk.after(GROUP, Over::Objects).map_or(0, |last| last.0 + 1);
        let mut ahead = objects.range(after..);
        let found: Vec<u128> = ahead.by_ref().copied().take(most).collect();
        let last = found.last().copied().filter(|_| ahead.next().is_some());
        walk.came_to(GROUP, Over::Objects, last.map(ObjectId));
        found
    }

    /// Goal: nothing is left out, and a round is bounded. Method: rounds at rest over few and over many, some of which go and come.
    #[test]
    fn rounds_at_rest_go_on_where_the_last_ended() {
        for count in [0u128, 1, 499, 500, 501, 1_000, 10_000] {
            let (mut walk, mut objects) = (Walk::default(), (1..=count).collect::<BTreeSet<_>>());
            walk.begin_round(0, Time(0), LEASE);
            walk.begin_round(0, Time(3_000_000_000), LEASE);
            let mut looked_at = BTreeSet::new();
            let rounds = (count as usize).div_ceil(PER_ROUND_MAX).max(1);
            for n in 0..rounds {
                let most = walk.begin_round(0, Time(6_000_000_000), LEASE);
                let found = round(&mut walk, &objects, most);
                assert!(found.len() <= PER_ROUND_MAX);
                looked_at.extend(found);
                if n == 0 && rounds > 1 {
                    // The one that the round ended with goes; the next begins behind it all the same.
                    objects.remove(&(PER_ROUND_MAX as u128));
                }
            }
            assert_eq!(looked_at, (1..=count).collect(), "{count} objects");
            let most = walk.begin_round(0, Time(6_000_000_000), LEASE);
            assert_eq!(round(&mut walk, &objects, most).first(), objects.first(), "{count} objects: it begins anew");
            // All at once when something has changed, from the first.
            let most = walk.begin_round(1, Time(6_000_000_000), LEASE);
            assert_eq!(round(&mut walk, &objects, most), objects.iter().copied().collect::<Vec<_>>());
        }
    }
}
