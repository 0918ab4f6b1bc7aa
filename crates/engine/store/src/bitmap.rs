//! Which blocks of a component the map holds.
//!
//! Why         whether a write needs new space is known without a look into the metadata: so overwrites go on when a device is full
//! Memory      32 bytes for each MiB of any 16 MiB that hold something, and 1 KiB for each GiB (`sparse.rs`);
//!             no more than that where all of them are mapped

use cairn_format::rows::RegionBits;
use cairn_types::{BlockRange, REGION_BLOCKS, RegionIndex};

use crate::sparse::Sparse;

/// Regions whose bits are kept together.
const REGIONS: usize = 16;
const NONE: RegionBits = [0; REGION_BLOCKS as usize / 64];
const ALL: RegionBits = [u64::MAX; REGION_BLOCKS as usize / 64];

/// The bits of neighbouring regions.
#[derive(Debug, Clone)]
enum Group {
    /// All blocks of all of them are mapped.
    Full,
    Part(Box<[RegionBits; REGIONS]>),
}

impl Group {
    fn region(&self, region: RegionIndex) -> &RegionBits {
        match self {
            Self::Full => &ALL,
            Self::Part(bits) => &bits[region as usize % REGIONS],
        }
    }
}

/// The bits of a component; groups of regions without any are left out.
#[derive(Debug, Default, Clone)]
pub(crate) struct BaseBits {
    groups: Sparse<Group>,
    total: u64,
}

/// (region, first bit, end bit) of the part of `range` that is in this region of it.
fn part(range: BlockRange, region: RegionIndex) -> (RegionIndex, u32, u32) {
    let per = u64::from(REGION_BLOCKS);
    let base = u64::from(region) * per;
    let from = range.first.max(base) - base;
    let to = range.end().min(base + per) - base;
    (region, from as u32, to as u32)
}

/// The same for each region of `range`.
fn parts(range: BlockRange) -> impl Iterator<Item = (RegionIndex, u32, u32)> {
    range.regions().map(move |region| part(range, region))
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

/// How many bits are set from `from` to before `to`.
fn count_in(bits: &RegionBits, from: u32, to: u32) -> u64 {
    bits.iter().enumerate().map(|(word, value)| u64::from((value & mask(word, from, to)).count_ones())).sum()
}

impl BaseBits {
    pub fn total(&self) -> u64 {
        self.total
    }
    pub fn region(&self, region: RegionIndex) -> RegionBits {
        self.groups.get(region / REGIONS as u32).map_or(NONE, |group| *group.region(region))
    }
    /// The bits of the regions of `range` alone.
    pub fn part(&self, range: BlockRange) -> Self {
        let mut part = Self::default();
        range.regions().for_each(|region| part.load(region, self.region(region)));
        part
    }
    pub fn load(&mut self, region: RegionIndex, bits: RegionBits) {
        self.change(region, |own| *own = bits);
    }
    pub fn get(&self, block: u64) -> bool {
        self.count(BlockRange::new(block, 1)) == 1
    }
    /// Regions of `range` in groups that have something, ascending, each with the part of its bits that is in `range`.
    fn each(&self, range: BlockRange) -> impl Iterator<Item = (RegionIndex, &RegionBits, u32, u32)> {
        let (regions, per) = (range.regions(), REGIONS as u32);
        // By what is there, not by what is asked for: a range may be a whole disk.
        let groups = self.groups.range(regions.start / per..regions.end.div_ceil(per));
        groups.flat_map(move |(number, group)| {
            let own = regions.start.max(number * per)..regions.end.min((number + 1) * per);
            own.map(move |region| {
                let (_, from, to) = part(range, region);
                (region, group.region(region), from, to)
            })
        })
    }
    /// Set bits within `range`.
    pub fn count(&self, range: BlockRange) -> u64 {
        if self.total == 0 || range.count == 0 {
            return 0;
        }
        let regions = range.regions();
        if regions.len() == 1 {
            // Nearly every range: a lookup is cheaper than a walk between two bounds.
            let (region, from, to) = part(range, regions.start);
            let group = self.groups.get(region / REGIONS as u32);
            return group.map_or(0, |group| count_in(group.region(region), from, to));
        }
        self.each(range).map(|(_, bits, from, to)| count_in(bits, from, to)).sum()
    }
    pub fn set(&mut self, range: BlockRange, value: bool) {
        if value {
            return parts(range).for_each(|(region, from, to)| self.set_part(region, from, to, true));
        }
        let there: Vec<_> = self.each(range).map(|(region, _, from, to)| (region, from, to)).collect();
        there.into_iter().for_each(|(region, from, to)| self.set_part(region, from, to, false));
    }
    fn set_part(&mut self, region: RegionIndex, from: u32, to: u32, value: bool) {
        self.change(region, |bits| {
            for (word, slot) in bits.iter_mut().enumerate() {
                match value {
                    true => *slot |= mask(word, from, to),
                    false => *slot &= !mask(word, from, to),
                }
            }
        });
    }
    /// Changes one region's bits, and keeps them in the least memory.
    fn change(&mut self, region: RegionIndex, act: impl FnOnce(&mut RegionBits)) {
        let number = region / REGIONS as u32;
        let before = self.region(region);
        let mut after = before;
        act(&mut after);
        if after == before {
            return;
        }
        let count = |bits: &RegionBits| count_in(bits, 0, REGION_BLOCKS);
        self.total = self.total + count(&after) - count(&before);
        let group = self.groups.get_or_insert_with(number, || Group::Part(Box::new([NONE; REGIONS])));
        if let Group::Full = group {
            *group = Group::Part(Box::new([ALL; REGIONS]));
        }
        let Group::Part(bits) = group else { unreachable!("just made one") };
        bits[region as usize % REGIONS] = after;
        if after == ALL && bits.iter().all(|bits| *bits == ALL) {
            *group = Group::Full;
        } else if after == NONE && bits.iter().all(|bits| *bits == NONE) {
            self.groups.remove(number);
        }
    }
    /// Runs of set bits within `range`, ascending.
    pub fn runs(&self, range: BlockRange) -> Vec<BlockRange> {
        let mut runs: Vec<BlockRange> = Vec::new();
        for (region, bits, from, to) in self.each(range) {
            let base = u64::from(region) * u64::from(REGION_BLOCKS);
            for bit in (from..to).filter(|bit| bits[*bit as usize / 64] >> (bit % 64) & 1 == 1) {
                let block = base + u64::from(bit);
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
        fn bits_agree_with_a_set(steps in proptest::collection::vec((0u64..12_000, 1u32..9000, any::<bool>()), 1..20), ask in (0u64..12_000, 1u32..9000)) {
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
            let whole = 16 * u64::from(REGION_BLOCKS);
            for (number, group) in bits.groups.iter() {
                let own = set.range(u64::from(number) * whole..u64::from(number + 1) * whole).count() as u64;
                prop_assert!(own > 0 && matches!(group, Group::Full) == (own == whole));
            }
        }
    }
}
