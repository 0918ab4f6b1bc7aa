//! Places of pages of the block map, at the end of the metadata region: which are free, where the next ones go.
//!
//! Promises    a place in use is never given out again before it was freed
//!             pages and the metadata store's file do not meet: each asks [`Room`] before it grows
//! Memory      a bit a place: 0.5 MB for the 4 M pages of 4 TiB
//! Not here    what stands in a place (`map_pages.rs`), who names it (`shards.rs`)
//!
//! Place 0 is the last page of the region; the store's file grows from its head. Places are taken from where the last ones were, on and
//! on: what a shard gave up is a hole as large as what the next one needs, so its pages are few device writes.

use std::sync::{Arc, Mutex, PoisonError};

use cairn_format::MAP_PAGE_BYTES;

const PAGE: u64 = MAP_PAGE_BYTES as u64;
/// The zone grows while fewer than this part of its places are free: the holes that the next pages go to.
const FREE_PARTS: u64 = 8;
/// Per cent of the region from which on it counts as full.
pub(crate) const FULL_PERCENT: u64 = 85;
/// Bytes of an entry in pages, about.
const ENTRY_BYTES: u64 = 16;
/// Places that it grows by, at least.
const GROWN: u64 = 64;

/// How the metadata region is divided between the store's file and pages. Shared by the thread of either.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    region_bytes: u64,
    /// Bytes of the file with its head, bytes of the zone.
    taken: Arc<Mutex<(u64, u64)>>,
}

impl Room {
    pub fn new(region_bytes: u64) -> Self {
        Self { region_bytes, taken: Arc::default() }
    }
    /// The file has so many bytes from now on, with its head. False when there is no room for them: then it has as many as before.
    pub fn set_file(&self, bytes: u64) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = bytes.saturating_add(taken.1) <= self.region_bytes;
        if fits {
            taken.0 = bytes;
        }
        fits
    }
    /// The same of the zone.
    fn set_zone(&self, bytes: u64) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = bytes.saturating_add(taken.0) <= self.region_bytes;
        if fits {
            taken.1 = bytes;
        }
        fits
    }
    /// Bytes of the region, and of the file in it.
    pub fn bytes(&self) -> (u64, u64) {
        (self.region_bytes, self.taken.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// The places.
#[derive(Debug)]
pub(crate) struct Zone {
    room: Room,
    /// A bit a place: in use.
    used: Vec<u64>,
    /// Places that there are, those in use, where the last ones were taken.
    places: u64,
    in_use: u64,
    /// Of which no transaction names yet.
    unnamed: u64,
    hand: u64,
}

impl Zone {
    pub fn new(room: Room) -> Self {
        Self { room, used: Vec::new(), places: 0, in_use: 0, unnamed: 0, hand: 0 }
    }
    /// Where a place stands, from the start of the region.
    pub fn offset(&self, place: u32) -> u64 {
        self.room.region_bytes - (u64::from(place) + 1) * PAGE
    }
    pub fn in_use(&self) -> u64 {
        self.in_use
    }
    /// Those that a durable transaction names.
    pub fn named(&self) -> u64 {
        self.in_use - self.unnamed
    }
    /// So many of those that were taken are named from now on.
    pub fn name(&mut self, count: u64) {
        self.unnamed -= count;
    }
    /// So much of the region is taken, or will be by so many entries that have no page yet, that blocks which it does not know are refused:
    /// what is left is for pages that are written before those are free that they take the place of, and for the file.
    pub fn is_full(&self, entries: u64) -> bool {
        let (region, file) = self.room.bytes();
        (file + self.in_use * PAGE + entries * ENTRY_BYTES) * 100 >= region * FULL_PERCENT
    }

    fn has(&self, place: u64) -> bool {
        self.used.get(place as usize / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }
    fn grow_to(&mut self, places: u64) -> bool {
        if places <= self.places {
            return true;
        }
        if places > u64::from(u32::MAX) || !self.room.set_zone(places * PAGE) {
            return false;
        }
        self.places = places;
        self.used.resize(places.div_ceil(64) as usize, 0);
        true
    }

    /// A row names the place. False when another one does as well, or there is no such place.
    pub fn load(&mut self, place: u32) -> bool {
        let place = u64::from(place);
        if !self.grow_to(place + 1) || self.has(place) {
            return false;
        }
        self.used[place as usize / 64] |= 1 << (place % 64);
        self.in_use += 1;
        true
    }

    /// Takes so many places. None when the region is full: then none are taken.
    pub fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        let wanted = self.in_use + count as u64;
        let ample = wanted + (wanted / FREE_PARTS).max(GROWN);
        // Where there is not room for some more, there may be for what is needed.
        if !self.grow_to(ample) && !self.grow_to(wanted) {
            return None;
        }
        let mut places = Vec::with_capacity(count);
        for step in 0..self.places {
            if places.len() == count {
                break;
            }
            let place = (self.hand + step) % self.places;
            if !self.has(place) {
                self.used[place as usize / 64] |= 1 << (place % 64);
                places.push(place as u32);
            }
        }
        assert_eq!(places.len(), count, "as many are free as were counted");
        self.hand = places.last().map_or(self.hand, |last| (u64::from(*last) + 1) % self.places);
        self.in_use = wanted;
        self.unnamed += count as u64;
        Some(places)
    }

    /// Nothing durable names the places any more.
    pub fn free(&mut self, places: impl IntoIterator<Item = u32>) {
        for place in places {
            assert!(self.has(u64::from(place)), "a place in use is freed");
            self.used[place as usize / 64] &= !(1 << (place % 64));
            self.in_use -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_given_out_once(steps in proptest::collection::vec((0usize..40, any::<prop::sample::Index>()), 1..60)) {
            let room = Room::new(400 * PAGE);
            prop_assert!(room.set_file(100 * PAGE));
            let (mut zone, mut taken) = (Zone::new(room.clone()), Vec::<Vec<u32>>::new());
            for (count, index) in steps {
                match zone.take(count) {
                    Some(places) => taken.push(places),
                    None => prop_assert!(zone.in_use() + count as u64 > 300),
                }
                if taken.len() > 3 {
                    zone.free(taken.swap_remove(index.index(taken.len())));
                }
                let all: BTreeSet<u32> = taken.iter().flatten().copied().collect();
                prop_assert_eq!(all.len(), taken.iter().map(Vec::len).sum::<usize>());
                prop_assert_eq!(all.len() as u64, zone.in_use());
                let lowest = all.iter().map(|place| zone.offset(*place)).min().unwrap_or(u64::MAX);
                prop_assert!(lowest >= 100 * PAGE);
            }
            let mut again = Zone::new(Room::new(400 * PAGE));
            prop_assert!(taken.iter().flatten().all(|place| again.load(*place)));
            prop_assert!(taken.iter().flatten().all(|place| !again.load(*place)));
        }
    }

    #[test]
    fn the_file_and_the_zone_do_not_meet() {
        let room = Room::new(200 * PAGE);
        let mut zone = Zone::new(room.clone());
        assert!(room.set_file(50 * PAGE) && zone.take(80).is_some());
        assert!(!room.set_file(57 * PAGE) && room.set_file(56 * PAGE), "the zone has 144");
        assert!(zone.take(64).is_some() && zone.take(1).is_none());
        assert!(!zone.load(150));
    }
}
