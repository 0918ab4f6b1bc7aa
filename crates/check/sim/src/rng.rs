//! The simulator's own chance: small, fast, the same on every machine and with every library version.
//!
//! Promises    one seed, one sequence, for ever (a seed in a bug report must not rot)
//! Not here    anything fit for keys
//! Source      xoshiro256** and SplitMix64: Blackman & Vigna, prng.di.unimi.it (public domain)

/// A seeded sequence of random words.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

/// One step of SplitMix64: also good for mixing a number into a seed.
pub(crate) fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut word = seed;
        let state = std::array::from_fn(|_| {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(word)
        });
        Self { state }
    }

    /// A sequence of its own, so that drawing from it does not move this one.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// The next word.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let word = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        word
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of the range, both ends included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        low + self.below((high - low).saturating_add(1))
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn bounds_hold_and_are_reached() {
        let mut rng = Rng::new(1);
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| rng.between(3, 6)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
    }
}
