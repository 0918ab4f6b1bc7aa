//! The number of a pending row, as records keep it.
//!
//! Not here    what a row says (`pending.rs`), which numbers are taken (`map.rs`)

use std::num::NonZeroU64;

/// The number of a pending row. In a record it takes as much memory as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PendingNumber(NonZeroU64);

impl PendingNumber {
    /// # Panics
    /// When it is the last number that there is: none is as high.
    pub fn new(number: u64) -> Self {
        Self(number.checked_add(1).and_then(NonZeroU64::new).expect("numbers are below 2^61"))
    }
    pub fn get(self) -> u64 {
        self.0.get() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_rows_read_back() {
        assert_eq!([0, 1, 1 << 61].map(|number| PendingNumber::new(number).get()), [0, 1, 1 << 61]);
        assert_eq!(size_of::<Option<PendingNumber>>(), 8);
    }
}
