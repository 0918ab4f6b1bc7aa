//! fio's latency bins: exact up to 128 ns, then 64 to each power of two.
//!
//! 29 groups of 64. A bin's key in fio's json+ is its middle; whatever is longer than 2^34 ns (17 s) is in the last bin, as it
//! is there.

use std::fmt;

/// Bins in each group: fio's `FIO_IO_U_PLAT_VAL`.
const PER_GROUP: usize = 64;
const BITS: u32 = PER_GROUP.ilog2();
/// How many bins there are: 29 groups of 64 (fio's `FIO_IO_U_PLAT_NR`).
pub const BINS: usize = 29 * PER_GROUP;

/// A key that is no bin's middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinError {
    /// The key.
    pub ns: u64,
}

impl fmt::Display for BinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns is not the middle of one of fio's latency bins: is the file json+ of fio 3?", self.ns)
    }
}

impl std::error::Error for BinError {}

/// The bin of a latency.
pub fn bin_of(ns: u64) -> usize {
    if ns < 2 * PER_GROUP as u64 {
        return ns as usize;
    }
    let error_bits = ns.ilog2() - BITS;
    let group = (error_bits as usize + 1) * PER_GROUP;
    let within = (ns >> error_bits) as usize % PER_GROUP;
    (group + within).min(BINS - 1)
}

/// How many low bits of its latencies a bin does not tell.
fn error_bits(bin: usize) -> u32 {
    (bin / PER_GROUP).saturating_sub(1) as u32
}

fn lower_ns(bin: usize) -> u64 {
    match bin < 2 * PER_GROUP {
        true => bin as u64,
        false => (1 << (error_bits(bin) + BITS)) + ((bin % PER_GROUP) as u64) * (1 << error_bits(bin)),
    }
}

/// The longest latency of a bin; of the last one, of those that are told apart.
pub fn upper_ns(bin: usize) -> u64 {
    lower_ns(bin) + (1 << error_bits(bin)) - 1
}

/// What stands for the latencies of a bin: fio's key in json+.
pub fn middle_ns(bin: usize) -> u64 {
    lower_ns(bin) + (1 << error_bits(bin)) / 2
}

/// The bin of fio's key.
///
/// # Errors
/// It is no bin's.
pub(crate) fn bin_of_middle(ns: u64) -> Result<usize, BinError> {
    let bin = bin_of(ns);
    if middle_ns(bin) == ns { Ok(bin) } else { Err(BinError { ns }) }
}
