//! Headers of runs that hooks led to: what all blocks of a round are looked up in.
//!
//! Promises    what it tells stood there once: whoever uses it compares the segment's generation, and the bytes
//! Memory      [`ITEM_BYTES`] an item, bounded; the run goes first that was of no use for longest
//! Not here    reading headers (`find_twins.rs`), which run (`hooks.rs`)

use std::collections::BTreeMap;

use cairn_types::ComponentId;

use crate::{hooks::RunPage, leaf::Spot};

/// What the headers of a group take at most.
pub(crate) const HEADERS_BYTES_MAX: u64 = 16 << 20;
/// Of an item, with what finds it.
const ITEM_BYTES: u64 = 128;

/// A block that stands in the capacity tier, as the header of its run has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub fingerprint: u64,
    pub crc: u32,
    /// Where it stands.
    pub place: Spot,
    /// Who had it when it was written, where that is told.
    pub owner: (ComponentId, u64),
    /// Its name, where it was moved.
    pub name: Option<Spot>,
}

/// The header of a run.
#[derive(Debug)]
pub(crate) struct KnownRun {
    pub segment: u32,
    /// The use of the segment that it is of.
    pub generation: u64,
    /// By fingerprint.
    pub items: Vec<Known>,
}

#[derive(Debug)]
struct Kept {
    run: KnownRun,
    /// When it was of use.
    used: u64,
}

/// Headers of runs of one device.
#[derive(Debug)]
pub(crate) struct RunCache {
    runs: BTreeMap<RunPage, Kept>,
    /// Which run has a fingerprint: the one that came last.
    by_fingerprint: BTreeMap<u64, RunPage>,
    by_use: BTreeMap<u64, RunPage>,
    items: usize,
    items_max: usize,
    clock: u64,
}

impl RunCache {
    pub fn new(bytes_max: u64) -> Self {
        Self {
            runs: BTreeMap::new(),
            by_fingerprint: BTreeMap::new(),
            by_use: BTreeMap::new(),
            items: 0,
            items_max: (bytes_max / ITEM_BYTES) as usize,
            clock: 0,
        }
    }

    pub fn has(&self, page: RunPage) -> bool {
        self.runs.contains_key(&page)
    }
    /// Keeps a header.
    pub fn keep(&mut self, page: RunPage, mut run: KnownRun) {
        self.forget_run(page);
        run.items.sort_unstable_by_key(|item| item.fingerprint);
        self.by_fingerprint.extend(run.items.iter().map(|item| (item.fingerprint, page)));
        self.items += run.items.len();
        self.clock += 1;
        self.by_use.insert(self.clock, page);
        self.runs.insert(page, Kept { run, used: self.clock });
        while self.items > self.items_max && self.runs.len() > 1 {
            let (_, oldest) = self.by_use.first_key_value().expect("each run has its turn");
            self.forget_run(*oldest);
        }
    }
    pub fn forget_run(&mut self, page: RunPage) {
        let Some(kept) = self.runs.remove(&page) else { return };
        self.by_use.remove(&kept.used);
        self.items -= kept.run.items.len();
        for item in &kept.run.items {
            if self.by_fingerprint.get(&item.fingerprint) == Some(&page) {
                self.by_fingerprint.remove(&item.fingerprint);
            }
        }
    }
    /// A block of this fingerprint and checksum, with its run: where that begins, its segment, and the use of that.
    pub fn find(&mut self, fingerprint: u64, crc: u32) -> Option<(RunPage, u32, u64, Known)> {
        let page = *self.by_fingerprint.get(&fingerprint)?;
        self.clock += 1;
        let kept = self.runs.get_mut(&page)?;
        self.by_use.remove(&kept.used);
        self.by_use.insert(self.clock, page);
        kept.used = self.clock;
        let items = &kept.run.items;
        let from = items.partition_point(|item| item.fingerprint < fingerprint);
        let equal = items[from..].iter().take_while(|item| item.fingerprint == fingerprint);
        let known = equal.copied().find(|item| item.crc == crc)?;
        Some((page, kept.run.segment, kept.run.generation, known))
    }
    /// The block is no equal one.
    pub fn forget(&mut self, fingerprint: u64, page: RunPage) {
        if self.by_fingerprint.get(&fingerprint) == Some(&page) {
            self.by_fingerprint.remove(&fingerprint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(segment: u32, fingerprints: &[u64]) -> KnownRun {
        let item = |(at, of): (usize, &u64)| Known {
            fingerprint: *of,
            crc: *of as u32,
            place: Spot::raw(at as u64),
            owner: (ComponentId(1), at as u64),
            name: None,
        };
        KnownRun { segment, generation: 3, items: fingerprints.iter().enumerate().map(item).collect() }
    }

    /// Goal: blocks are found in the run that came last, by fingerprint and checksum, and runs of no use go first. Method: three runs where two have
    /// room.
    #[test]
    fn the_run_of_no_use_goes_first() {
        let mut cache = RunCache::new(4 * ITEM_BYTES);
        cache.keep(10, run(1, &[7, 5]));
        cache.keep(20, run(2, &[7, 9]));
        assert_eq!(cache.find(7, 7).map(|found| (found.0, found.1, found.2)), Some((20, 2, 3)));
        assert_eq!(cache.find(7, 8).map(|found| found.0), None);
        assert_eq!(cache.find(5, 5).map(|found| (found.0, found.3.place)), Some((10, Spot::raw(1))));
        cache.keep(30, run(3, &[11]));
        assert!(cache.has(10) && !cache.has(20) && cache.has(30));
        assert_eq!((cache.find(9, 9), cache.items), (None, 3));
        cache.forget(5, 10);
        assert_eq!(cache.find(5, 5), None);
        cache.keep(10, run(1, &[5]));
        assert_eq!((cache.find(5, 5).map(|found| found.0), cache.items), (Some(10), 2));
    }
}
