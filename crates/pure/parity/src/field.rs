//! GF(256) with the polynomial 0x11d: its generator is 2.
//!
//! Not here    products of whole blocks (kernels.rs)

use std::num::NonZeroU8;

use cairn_types::Redundancy;

/// Strips of data in a row, at most: kernels are made for each number.
pub(crate) const COLUMNS_MAX: usize = *Redundancy::DATA_STRIPS.end() as usize;
/// Strips of parity in a row, at most: P and Q.
pub(crate) const PARITY_MAX: usize = *Redundancy::PARITY_STRIPS.end() as usize;

/// x^8 + x^4 + x^3 + x^2 + 1 without its highest term: what is left of a product where that one falls out.
pub(crate) const REDUCTION: u8 = 0x1d;

/// Twice the element.
///
/// As a sign that is spread over the byte, since that is what vector units compare eight bits by.
#[inline(always)]
pub(crate) const fn doubled(element: u8) -> u8 {
    (element << 1) ^ ((element as i8 >> 7) as u8 & REDUCTION)
}

/// Powers of the generator; twice round, so that sums of two logarithms need no remainder.
const EXP: [u8; 510] = {
    let mut exp = [1; 510];
    let mut at = 1;
    while at < 510 {
        exp[at] = doubled(exp[at - 1]);
        at += 1;
    }
    exp
};

/// Logarithms to the base 2; that of 0, which has none, is never asked for.
const LOG: [u8; 256] = {
    let mut log = [0; 256];
    let mut at = 0;
    while at < 255 {
        log[EXP[at] as usize] = at as u8;
        at += 1;
    }
    log
};

/// What a column is multiplied by before it is added to a parity strip. Never zero: every column is in every parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Factor(NonZeroU8);

impl Factor {
    /// The factor of every column in P.
    pub const ONE: Self = Self(NonZeroU8::MIN);

    /// The factor that a record or a message names; none for zero, which is no factor.
    pub fn new(element: u8) -> Option<Self> {
        NonZeroU8::new(element).map(Self)
    }

    /// As records and messages name it.
    pub fn get(self) -> u8 {
        self.0.get()
    }

    /// The product of two.
    pub fn times(self, other: Self) -> Self {
        Self::power(self.log() + other.log())
    }

    /// The factor that undoes this one.
    pub fn inverse(self) -> Self {
        Self::power(255 - self.log())
    }

    fn log(self) -> usize {
        LOG[usize::from(self.get())].into()
    }

    /// A power of the generator, below 510.
    fn power(exponent: usize) -> Self {
        Self::new(EXP[exponent]).expect("no power of a generator is zero")
    }
}

/// The factor of a column in a parity strip (0 is P, 1 is Q): 2^(column * parity).
///
/// # Panics
/// On a column or parity that no row has.
pub fn factor(column: u32, parity: u32) -> Factor {
    let (column, parity) = (column as usize, parity as usize);
    assert!(column < COLUMNS_MAX, "column {column}: a row has at most {COLUMNS_MAX}");
    assert!(parity < PARITY_MAX, "parity {parity}: a row has at most {PARITY_MAX}");
    Factor::power(column * parity)
}

/// The sum of the factors of two columns: not zero, as no two have the same in Q.
pub(crate) fn sum_of(one: Factor, other: Factor) -> Factor {
    Factor::new(one.get() ^ other.get()).expect("two columns have two factors")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication as one learns it: shift, add, and reduce by the polynomial from above.
    fn long_product(a: u8, b: u8) -> u8 {
        let sum = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ u16::from(a) << bit);
        let reduced =
            (8..16).rev().fold(sum, |sum, bit| if sum >> bit & 1 == 1 { sum ^ 0x11d << (bit - 8) } else { sum });
        reduced as u8
    }

    #[test]
    fn tables_are_long_multiplication() {
        let all = || (1..=255).filter_map(Factor::new);
        for a in all() {
            assert_eq!(doubled(a.get()), long_product(a.get(), 2));
            assert_eq!(a.times(a.inverse()), Factor::ONE);
            for b in all() {
                assert_eq!(a.times(b).get(), long_product(a.get(), b.get()), "{a:?} * {b:?}");
            }
        }
        assert_eq!(Factor::new(0), None);
    }
}
