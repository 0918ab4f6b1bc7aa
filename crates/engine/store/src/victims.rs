//! Segments by how full they are, and within that by age: the best ones to clean are among the first of each.
//!
//! Promises    finding victims costs the same however many segments there are
//! Memory      some 40 bytes a segment that has data
//! Source      cost-benefit cleaning: Rosenblum & Ousterhout, SOSP 1991
//!
//! To score every segment took 0.1 s of the shard's thread at a million of them.

use std::collections::BTreeSet;

/// Classes of fill: of segments whose live shares differ by less than 2 % the oldest is the best.
const CLASSES: usize = 64;
/// Segments of each class that are scored: those before them may be open, or held by a read.
const SCORED: usize = 8;

/// The segments of which something is in use.
#[derive(Debug)]
pub(crate) struct Victims {
    /// (Round of the last write, segment), by class.
    classes: Vec<BTreeSet<(u64, u32)>>,
    slots: u32,
}

impl Victims {
    /// Of segments with so many pages for blocks.
    pub fn new(slots: u32) -> Self {
        Self { classes: vec![BTreeSet::new(); CLASSES], slots: slots.max(1) }
    }
    fn class(&self, live: u32) -> usize {
        (u64::from(live) * CLASSES as u64 / u64::from(self.slots)).min(CLASSES as u64 - 1) as usize
    }
    /// A segment has other pages in use, or was written to in another round: (pages in use, round).
    pub fn change(&mut self, segment: u32, from: (u32, u64), to: (u32, u64)) {
        let (old, new) = (self.class(from.0), self.class(to.0));
        let is_same = old == new && from.1 == to.1 && (from.0 == 0) == (to.0 == 0);
        if is_same {
            return;
        }
        if from.0 > 0 {
            self.classes[old].remove(&(from.1, segment));
        }
        if to.0 > 0 {
            self.classes[new].insert((to.1, segment));
        }
    }
    /// Of each class the oldest few that will do.
    pub fn candidates(&self, will_do: impl Fn(u32) -> bool) -> impl Iterator<Item = u32> {
        self.classes.iter().flat_map(move |class| {
            class
                .iter()
                .map(|(_, segment)| *segment)
                .filter(|segment| will_do(*segment))
                .take(SCORED)
                .collect::<Vec<_>>()
        })
    }
    /// Whether it has these segments and no others: (segment, pages in use, round).
    pub fn has(&self, segments: impl Iterator<Item = (u32, u32, u64)>) -> bool {
        let mut count = 0;
        let mut all = segments.filter(|(_, live, _)| *live > 0).inspect(|_| count += 1);
        let known = all.all(|(segment, live, written)| self.classes[self.class(live)].contains(&(written, segment)));
        known && count == self.classes.iter().map(BTreeSet::len).sum::<usize>()
    }
}
