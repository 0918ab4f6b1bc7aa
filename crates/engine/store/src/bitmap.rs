//! Which blocks of a component the map holds, and which operation touched each region last.
//!
//! 256 bits per 1 MiB region: knowing without a look into the metadata whether a write needs new space is what lets
//! overwrites go on when a device is full. About 150 bytes of memory per region touched (150 MiB per TiB), marks included.

use std::collections::BTreeMap;

use cairn_format::rows::RegionBits;
use cairn_types::{BlockRange, REGION_BLOCKS, RegionIndex};

/// The bits of a component; regions without any are left out.
#[derive(Debug, Default, Clone)]
pub(crate) struct BaseBits {
    regions: BTreeMap<RegionIndex, RegionBits>,
    total: u64,
}

/// (region, first bit, end bit) for each region of `range`.
fn parts(range: BlockRange) -> impl Iterator<Item = (RegionIndex, u32, u32)> {
    let per = u64::from(REGION_BLOCKS);
    range.regions().map(move |region| {
        let base = u64::from(region) * per;
        let from = range.first.max(base) - base;
        let to = range.end().min(base + per) - base;
        (region, from as u32, to as u32)
    })
}

fn mask(word: usize, from: u32, to: u32) -> u64 {
    let base = word as u32 * 64;
    let low = from.saturating_sub(base).min(64);
    let high = to.saturating_sub(base).min(64);
    if low >= high {
        return 0;
    }
    let upto = |n: u32| if n == 64 { u64::MAX } else { (1 << n) - 1 };
    upto(high) & !upto(low)
}

impl BaseBits {
    pub fn total(&self) -> u64 {
        self.total
    }
    pub fn region(&self, region: RegionIndex) -> RegionBits {
        self.regions.get(&region).copied().unwrap_or_default()
    }
    pub fn load(&mut self, region: RegionIndex, bits: RegionBits) {
        let count: u32 = bits.iter().map(|w| w.count_ones()).sum();
        if count > 0 {
            self.total += u64::from(count);
            self.regions.insert(region, bits);
        }
    }
    pub fn get(&self, block: u64) -> bool {
        self.count(BlockRange::new(block, 1)) == 1
    }
    /// Set bits within `range`.
    pub fn count(&self, range: BlockRange) -> u64 {
        if self.total == 0 || range.count == 0 {
            return 0;
        }
        let regions = range.regions();
        if regions.len() == 1 {
            // Nearly every range: a lookup is cheaper than a walk between two bounds.
            return self.regions.get(&regions.start).map_or(0, |bits| Self::count_in(regions.start, bits, range));
        }
        // By what is there, not by what is asked for: a range may be a whole disk.
        self.regions.range(regions).map(|(&region, bits)| Self::count_in(region, bits, range)).sum()
    }
    fn count_in(region: RegionIndex, bits: &RegionBits, range: BlockRange) -> u64 {
        let base = u64::from(region) * u64::from(REGION_BLOCKS);
        let Some(part) = BlockRange::new(base, REGION_BLOCKS).intersection(range) else {
            return 0;
        };
        let (from, to) = ((part.first - base) as u32, (part.end() - base) as u32);
        bits.iter().enumerate().map(|(word, value)| u64::from((value & mask(word, from, to)).count_ones())).sum()
    }
    pub fn set(&mut self, range: BlockRange, value: bool) {
        if !value {
            let touched: Vec<RegionIndex> = self.regions.range(range.regions()).map(|(&r, _)| r).collect();
            for region in touched {
                let base = u64::from(region) * u64::from(REGION_BLOCKS);
                let Some(part) = BlockRange::new(base, REGION_BLOCKS).intersection(range) else {
                    continue;
                };
                self.set_part(region, (part.first - base) as u32, (part.end() - base) as u32, false);
            }
            return;
        }
        for (region, from, to) in parts(range) {
            self.set_part(region, from, to, true);
        }
    }
    fn set_part(&mut self, region: RegionIndex, from: u32, to: u32, value: bool) {
        let bits = self.regions.entry(region).or_default();
        for (word, slot) in bits.iter_mut().enumerate() {
            let mask = mask(word, from, to);
            let before = slot.count_ones();
            if value {
                *slot |= mask
            } else {
                *slot &= !mask
            }
            self.total = self.total + u64::from(slot.count_ones()) - u64::from(before);
        }
        if bits.iter().all(|&w| w == 0) {
            self.regions.remove(&region);
        }
    }
    /// Runs of set bits within `range`, ascending.
    pub fn runs(&self, range: BlockRange) -> Vec<BlockRange> {
        let mut runs: Vec<BlockRange> = Vec::new();
        for (&region, bits) in self.regions.range(range.regions()) {
            let base = u64::from(region) * u64::from(REGION_BLOCKS);
            let Some(part) = BlockRange::new(base, REGION_BLOCKS).intersection(range) else {
                continue;
            };
            for block in part.first..part.end() {
                let bit = block - base;
                if bits[bit as usize / 64] >> (bit % 64) & 1 == 0 {
                    continue;
                }
                match runs.last_mut() {
                    Some(last) if last.end() == block => last.count += 1,
                    _ => runs.push(BlockRange::new(block, 1)),
                }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_agree_with_a_set(steps in proptest::collection::vec((0u64..1200, 1u32..600, any::<bool>()), 1..20), ask in (0u64..1200, 1u32..900)) {
            let (mut bits, mut set) = (BaseBits::default(), BTreeSet::new());
            for (first, count, value) in steps {
                let range = BlockRange::new(first, count);
                bits.set(range, value);
                for block in first..range.end() {
                    if value { set.insert(block); } else { set.remove(&block); }
                }
            }
            let ask = BlockRange::new(ask.0, ask.1);
            prop_assert_eq!(bits.total(), set.len() as u64);
            prop_assert_eq!(bits.count(ask), set.range(ask.first..ask.end()).count() as u64);
            let runs: Vec<u64> = bits.runs(ask).into_iter().flat_map(|r| r.first..r.end()).collect();
            prop_assert_eq!(runs, set.range(ask.first..ask.end()).copied().collect::<Vec<_>>());
        }
    }
}
