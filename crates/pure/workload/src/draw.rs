//! Random words by number: no state, so that any of them can be drawn again.
//!
//! Source      SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): its output function over a counter

/// Word `n` of the sequence of `seed`.
pub fn word(seed: u64, n: u64) -> u64 {
    let z = mix(seed).wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mix(z)
}

fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `bound`: wrong by at most 2^-64 of the bound's size.
pub fn below(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// A number from 0 up to and without 1.
pub fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}
