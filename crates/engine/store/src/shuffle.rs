//! A permutation of the numbers below a count, by a seed: where each goes, and which went there.
//!
//! Promises    one seed is one permutation; [`Shuffle::back`] takes [`Shuffle::at`] back
//! Memory      none but itself, however many numbers there are
//! Source      cycle walking over a Feistel network: Black & Rogaway, Ciphers with Arbitrary Finite Domains, CT-RSA 2002

/// Rounds of the network. Nothing here is secret: from four on no pattern is left that a page of the map would be smaller for.
const ROUNDS: u64 = 6;

/// The permutation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shuffle {
    count: u64,
    high_bits: u32,
    low_bits: u32,
    seed: u64,
}

impl Shuffle {
    /// Of the numbers below `count`.
    pub fn new(count: u64, seed: u64) -> Self {
        // Both halves have a bit at least. The network has less than twice as many numbers, or four: a walk is two steps or so.
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(2);
        Self { count, high_bits: bits - bits / 2, low_bits: bits / 2, seed }
    }

    /// Where the number goes.
    ///
    /// # Panics
    /// When the number is not below the count.
    pub fn at(&self, number: u64) -> u64 {
        self.walk(number, |value| (0..ROUNDS).fold(value, |value, round| self.round(value, round)))
    }

    /// Which number goes there.
    ///
    /// # Panics
    /// When the number is not below the count.
    pub fn back(&self, number: u64) -> u64 {
        self.walk(number, |value| (0..ROUNDS).rev().fold(value, |value, round| self.round(value, round)))
    }

    /// On through the network until the value is one of ours again.
    fn walk(&self, number: u64, pass: impl Fn(u64) -> u64) -> u64 {
        assert!(number < self.count, "{number} is not below {}", self.count);
        let mut value = pass(number);
        while value >= self.count {
            value = pass(value);
        }
        value
    }

    /// Changes one half by the other. Twice it changes nothing: so the way back is the same rounds in the other order.
    fn round(&self, value: u64, round: u64) -> u64 {
        let (high, low) = (value >> self.low_bits, value & mask(self.low_bits));
        let seed = self.seed.wrapping_add(round);
        let (high, low) = match round % 2 {
            0 => (high ^ mixed(seed, low) & mask(self.high_bits), low),
            _ => (high, low ^ mixed(seed, high) & mask(self.low_bits)),
        };
        high << self.low_bits | low
    }
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A word of two words, as good as drawn (SplitMix64).
pub(crate) fn mixed(seed: u64, word: u64) -> u64 {
    let mut mixed = seed ^ word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_goes_somewhere_and_comes_back(count in 1u64..3000, seed in any::<u64>()) {
            let shuffle = Shuffle::new(count, seed);
            let to: BTreeSet<u64> = (0..count).map(|number| shuffle.at(number)).collect();
            prop_assert_eq!(to.len() as u64, count);
            prop_assert!(to.last().is_some_and(|last| *last < count));
            prop_assert!((0..count).all(|number| shuffle.back(shuffle.at(number)) == number));
        }
    }

    /// Goal: what follows on does not go to places that follow on. Method: 65,536 numbers, as of a shard; of the same seed twice.
    #[test]
    fn neighbours_part() {
        let shuffle = Shuffle::new(1 << 16, 7);
        let near = (1..1u64 << 16).filter(|&number| shuffle.at(number - 1).abs_diff(shuffle.at(number)) < 16).count();
        // By chance 30 in 65,536.
        assert!(near < 100, "{near} neighbours are neighbours again");
        assert!((0..100).all(|number| shuffle.at(number) == Shuffle::new(1 << 16, 7).at(number)));
        assert!((0..100).any(|number| shuffle.at(number) != Shuffle::new(1 << 16, 8).at(number)));
    }
}
