//! A bounded cache in key order; what was not used since the hand passed goes first (CLOCK).
//!
//! Ordered and without a hash, so that the simulator's runs repeat.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    ops::{Bound, RangeInclusive},
};

/// At most `max` values.
#[derive(Debug)]
pub struct ClockCache<K, V> {
    entries: BTreeMap<K, (V, bool)>,
    hand: Option<K>,
    max: usize,
}

impl<K: Ord + Copy, V> ClockCache<K, V> {
    /// An empty one, of so many values at most.
    pub fn new(max: usize) -> Self {
        Self { entries: BTreeMap::new(), hand: None, max }
    }
    /// Values in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// How many more go in before one goes out.
    pub fn room(&self) -> usize {
        self.max - self.entries.len()
    }
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// The value of a key, which is used now.
    pub fn get(&mut self, key: K) -> Option<&V> {
        let (value, used) = self.entries.get_mut(&key)?;
        *used = true;
        Some(value)
    }
    /// Takes a value in; another one may go for it.
    pub fn insert(&mut self, key: K, value: V) {
        if self.max == 0 {
            return;
        }
        self.entries.insert(key, (value, false));
        while self.entries.len() > self.max {
            self.evict_one();
        }
    }
    /// All values of these keys go.
    pub fn remove_range(&mut self, keys: RangeInclusive<K>) {
        if keys.start() == keys.end() {
            self.entries.remove(keys.start());
            return;
        }
        // By what is there: the range may be a whole disk. Small caches of large ranges are walked once.
        let gone: Vec<K> = self.entries.range(keys).map(|(k, _)| *k).collect();
        for key in gone {
            self.entries.remove(&key);
        }
    }
    /// All values go.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.hand = None;
    }
    fn evict_one(&mut self) {
        loop {
            let from = self.hand.map_or(Bound::Unbounded, Bound::Excluded);
            let Some((&key, (_, used))) = self.entries.range_mut((from, Bound::Unbounded)).next() else {
                self.hand = None;
                continue;
            };
            self.hand = Some(key);
            if !std::mem::take(used) {
                self.entries.remove(&key);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_kept_and_what_is_used_stays() {
        let mut cache = ClockCache::new(16);
        for n in 0..100 {
            cache.insert(n, n);
            cache.get(3);
        }
        assert_eq!(cache.len(), 16);
        assert_eq!(cache.get(3), Some(&3));
        cache.remove_range(0..=1000);
        assert_eq!(cache.len(), 0);
    }
}
