//! Ids of places that are free, given out in a round: each after the one before, from the first again after the last.
//!
//! Promises    an id is given out once until it is given back
//! Why         places are taken in the order of the log and freed in about that order, so the next ones lie side by side in memory. By the
//!             last one freed, they lay anywhere: what destage drops is in the order of the disk, and each record met cold memory

const BITS: usize = u64::BITS as usize;

/// Which ids are free.
#[derive(Debug, Default)]
pub(crate) struct FreeIds {
    /// A bit per id, set where it is free.
    words: Vec<u64>,
    /// A bit per word, set where it has one: of ten million ids the only free one is found in half a microsecond.
    groups: Vec<u64>,
    /// The word that the last one came from; those before it in its round are in use, or were freed since.
    at: usize,
    count: usize,
}

impl FreeIds {
    /// # Panics
    /// When the id is free already.
    pub fn give_back(&mut self, id: u32) {
        let (word, bit) = (id as usize / BITS, 1u64 << (id as usize % BITS));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.groups.resize(word / BITS + 1, 0);
        }
        assert!(self.words[word] & bit == 0, "an id is freed once");
        self.words[word] |= bit;
        self.groups[word / BITS] |= 1 << (word % BITS);
        self.count += 1;
    }

    /// The next one; none where none is free.
    pub fn take(&mut self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        self.at = self.next_word();
        let word = &mut self.words[self.at];
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        if *word == 0 {
            self.groups[self.at / BITS] &= !(1 << (self.at % BITS));
        }
        self.count -= 1;
        Some(self.at as u32 * u64::BITS + bit)
    }

    /// The word that the next one comes from: some word has one.
    fn next_word(&self) -> usize {
        let (mut group, from) = (self.at / BITS, u64::MAX << (self.at % BITS));
        let mut bits = self.groups[group] & from;
        while bits == 0 {
            group = (group + 1) % self.groups.len();
            bits = self.groups[group];
        }
        group * BITS + bits.trailing_zeros() as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: what is taken was free, and all that is free is found. Method: any order of giving back and taking, beside a set.
        #[test]
        fn what_is_free_is_given_out_once(steps in proptest::collection::vec(proptest::option::of(0u32..20_000), 0..300)) {
            let (mut free, mut set) = (FreeIds::default(), BTreeSet::new());
            for step in steps {
                match step {
                    Some(id) if set.insert(id) => free.give_back(id),
                    Some(_) => {}
                    None => {
                        let taken = free.take();
                        prop_assert_eq!(taken.is_some(), !set.is_empty());
                        if let Some(id) = taken {
                            prop_assert!(set.remove(&id));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn freed_in_any_order_they_are_taken_side_by_side() {
        let mut free = FreeIds::default();
        (0..5000u32).map(|n| n * 7 % 5000).for_each(|id| free.give_back(id));
        assert_eq!((0..5000).map(|_| free.take().unwrap()).collect::<Vec<_>>(), (0..5000).collect::<Vec<_>>());
        assert_eq!(free.take(), None);
        // The round goes on behind the last one, though an earlier one is free.
        [3, 4999].into_iter().for_each(|id| free.give_back(id));
        assert_eq!([free.take(), free.take()], [Some(4999), Some(3)]);
    }
}
