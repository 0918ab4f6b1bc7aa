//! Units of the data path. A block is the unit of checksums and locks, a sector that of guest requests.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Bytes of a block: the unit of checksum, lock, mapping and linearizability.
pub const BLOCK_BYTES: u32 = 4096;
/// Bytes of a sector: the smallest guest request.
pub const SECTOR_BYTES: u32 = 512;
/// Bytes of a region: the unit of resync bookkeeping.
pub const REGION_BYTES: u32 = 1 << 20;
/// Blocks of a region.
pub const REGION_BLOCKS: u32 = REGION_BYTES / BLOCK_BYTES;
/// Bytes of a chunk (and so of a component), at most: 255 GiB, as vSAN has it.
pub const CHUNK_BYTES_MAX: u64 = 255 << 30;
/// Bytes of a virtual disk, at most: 62 TiB, as vSAN has it.
pub const OBJECT_BYTES_MAX: u64 = 62 << 40;

/// CRC-32C of blocks, one each, in order. Those of a small request lie in place and take no memory of their own: they are handed on from the
/// owner to the index of the log, and copied for each copy of a write.
pub type Crcs = SmallVec<[u32; 4]>;

/// Index of a 1 MiB region within a component.
pub type RegionIndex = u32;

/// A run of blocks, relative to an object or a component as the context says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockRange {
    /// The first block.
    pub first: u64,
    /// How many.
    pub count: u32,
}

impl BlockRange {
    /// The range of `count` blocks from `first`.
    pub fn new(first: u64, count: u32) -> Self {
        Self { first, count }
    }
    /// One past the last block.
    pub fn end(self) -> u64 {
        self.first + u64::from(self.count)
    }
    /// Whether the two share a block.
    pub fn overlaps(self, other: Self) -> bool {
        self.first < other.end() && other.first < self.end()
    }
    /// The blocks that both hold, if any.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let first = self.first.max(other.first);
        let end = self.end().min(other.end());
        (first < end).then(|| Self::new(first, (end - first) as u32))
    }
    /// Length in bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.count) * u64::from(BLOCK_BYTES)
    }
    /// The regions that the range touches, as a half-open range of indices.
    pub fn regions(self) -> std::ops::Range<RegionIndex> {
        let per = u64::from(REGION_BLOCKS);
        (self.first / per) as u32..self.end().div_ceil(per) as u32
    }
}

/// A moment on one host's `CLOCK_BOOTTIME`, in nanoseconds. Never compared between hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// The time from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.as_nanos() as u64))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by.as_nanos() as u64))
    }
}

/// Bytes for a person: binary units, two digits after the point ("1.50 GiB").
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (0..UNITS.len()).rev().find(|&u| bytes >> (10 * u) > 0).unwrap_or(0);
    if unit == 0 || bytes.is_multiple_of(1 << (10 * unit)) {
        return format!("{} {}", bytes >> (10 * unit), UNITS[unit]);
    }
    format!("{:.2} {}", bytes as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit])
}

/// Reads "512", "64K", "10G", "10GiB", "1.5 TiB", "20GB" (decimal with B and without i).
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let (prefix, base) = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => ("", 1024u128),
        u if u.len() == 1 => (&unit[..1], 1024),
        u if u.len() == 3 && u.ends_with("ib") => (&unit[..1], 1024),
        u if u.len() == 2 && u.ends_with('b') => (&unit[..1], 1000),
        _ => {
            return Err(format!("{unit:?} is not a unit of size: use K, M, G, T, KiB, GiB, GB ..."));
        }
    };
    let power = match prefix.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => {
            return Err(format!("{unit:?} is not a unit of size: use K, M, G, T, KiB, GiB, GB ..."));
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || fraction.contains('.') {
        return Err(format!("{text:?} is not a size: write 10G or 512MiB"));
    }
    // In whole numbers: a float has 53 bits, and would read back what we print as another size.
    let too_large = || format!("{text:?} is more than any disk holds");
    let value = digits.parse::<u128>().map_err(|_| too_large())?.checked_mul(base.pow(power)).ok_or_else(too_large)?;
    let parts = u32::try_from(fraction.len()).ok().and_then(|places| 10u128.checked_pow(places));
    let parts = parts.ok_or_else(|| format!("{text:?} has too many digits after the point"))?;
    if value / parts >= 1 << 63 {
        return Err(too_large());
    }
    if !value.is_multiple_of(parts) {
        return Err(format!("{text:?} is not a whole number of bytes"));
    }
    Ok((value / parts) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("10G"), Ok(10 << 30));
        assert_eq!(parse_bytes("1.5 KiB"), Ok(1536));
        assert_eq!(parse_bytes("20GB"), Ok(20_000_000_000));
        assert!(parse_bytes("ten").is_err());
        assert!(parse_bytes("0.3").is_err());
        assert_eq!(parse_bytes(".5K"), Ok(512));
        // Beyond the 53 bits of a float.
        assert_eq!(parse_bytes("9007199254740993"), Ok(9_007_199_254_740_993));
        assert_eq!(parse_bytes(&(i64::MAX).to_string()), Ok(i64::MAX as u64));
        assert!(parse_bytes("8192P").is_err());
        for no_size in [".", "1.2.3", "G", &"9".repeat(50)] {
            assert!(parse_bytes(no_size).is_err(), "{no_size}");
        }
        assert!(parse_bytes("1X").is_err());
        assert_eq!(format_bytes(1536), "1.50 KiB");
        assert_eq!(format_bytes(10 << 30), "10 GiB");
    }

    #[test]
    fn ranges_meet_where_they_overlap() {
        let a = BlockRange::new(10, 10);
        assert_eq!(a.intersection(BlockRange::new(15, 10)), Some(BlockRange::new(15, 5)));
        assert_eq!(a.intersection(BlockRange::new(20, 1)), None);
        assert_eq!(BlockRange::new(255, 2).regions(), 0..2);
        assert_eq!(BlockRange::new(256, 256).regions(), 1..2);
    }
}
