//! Which operation touched each region of a component last, and when the metadata is to know.
//!
//! Memory      16 bytes for each MiB of any 16 MiB that were touched, and half a KiB for each GiB (`sparse.rs`)
//! Not here    when marks rise and are written (`component.rs`)

use cairn_types::{Epoch, OpId, RegionIndex};

use crate::sparse::Sparse;

/// Regions whose marks are kept together.
const REGIONS: u32 = 16;
/// Bits of a packed mark that say when it is due: a segment of the log has 32 KiB at least, and positions end at 2 EiB.
const DUE_BITS: u32 = 46;
/// Epochs that a mark can name: more than a component has regions.
const EPOCHS_MAX: usize = 1 << (u64::BITS - DUE_BITS);

/// What is known of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionMark {
    /// The highest operation that touched it.
    pub op: OpId,
    /// The metadata is to have it once this segment of the log is left behind: the one after that of the record that raised it, as
    /// until then replay would raise it. [`AT_ONCE`], or [`IN_METADATA`].
    pub due: u64,
}

/// The next transaction writes the mark.
pub(crate) const AT_ONCE: u64 = 0;
/// The metadata has the mark as it is.
pub(crate) const IN_METADATA: u64 = (1 << DUE_BITS) - 1;

/// A mark as it is kept.
#[derive(Debug, Clone, Copy, Default)]
struct Packed {
    sequence: u64,
    /// Which of the epochs, above when it is due.
    epoch_and_due: u64,
}

impl Packed {
    fn new(sequence: u64, epoch: usize, due: u64) -> Self {
        assert!(due <= IN_METADATA, "positions end before");
        Self { sequence, epoch_and_due: (epoch as u64) << DUE_BITS | due }
    }
    fn epoch(&self) -> usize {
        (self.epoch_and_due >> DUE_BITS) as usize
    }
    fn due(&self) -> u64 {
        self.epoch_and_due & IN_METADATA
    }
}

/// The marks of neighbouring regions.
#[derive(Debug, Default)]
struct Group {
    /// A bit for each that is known.
    known: u16,
    marks: [Packed; REGIONS as usize],
}

/// The marks of a component's regions.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    groups: Sparse<Box<Group>>,
    known: usize,
    /// Few: owners change seldom.
    epochs: Vec<Epoch>,
}

impl Marks {
    pub fn get(&self, region: RegionIndex) -> Option<RegionMark> {
        let group = self.groups.get(region / REGIONS)?;
        (group.known >> (region % REGIONS) & 1 == 1).then(|| self.unpacked(&group.marks[(region % REGIONS) as usize]))
    }

    /// Puts a region's mark in the place of what it had.
    pub fn put(&mut self, region: RegionIndex, mark: RegionMark) {
        let epoch = self.number_of(mark.op.epoch);
        let group = self.groups.get_or_insert_with(region / REGIONS, Box::default);
        let bit = 1 << (region % REGIONS);
        self.known += usize::from(group.known & bit == 0);
        group.known |= bit;
        group.marks[(region % REGIONS) as usize] = Packed::new(mark.op.seq, epoch, mark.due);
    }

    /// Raises the mark of a region to `op`. True where it is due at another time than before.
    pub fn raise(&mut self, region: RegionIndex, op: OpId, due: u64) -> bool {
        let epoch = self.number_of(op.epoch);
        let group = self.groups.get_or_insert_with(region / REGIONS, Box::default);
        let (bit, at) = (1 << (region % REGIONS), (region % REGIONS) as usize);
        let known = group.known & bit != 0;
        let before = group.marks[at];
        if known && op <= (OpId { epoch: self.epochs[before.epoch()], seq: before.sequence }) {
            return false;
        }
        self.known += usize::from(!known);
        group.known |= bit;
        group.marks[at] = Packed::new(op.seq, epoch, due);
        (if known { before.due() } else { IN_METADATA }) != due
    }

    /// All of them, by region.
    pub fn iter(&self) -> impl Iterator<Item = (RegionIndex, RegionMark)> + '_ {
        self.groups.iter().flat_map(move |(number, group)| {
            let known = (0..REGIONS).filter(|at| group.known >> at & 1 == 1);
            known.map(move |at| (number * REGIONS + at, self.unpacked(&group.marks[at as usize])))
        })
    }

    fn unpacked(&self, packed: &Packed) -> RegionMark {
        RegionMark { op: OpId { epoch: self.epochs[packed.epoch()], seq: packed.sequence }, due: packed.due() }
    }

    fn number_of(&mut self, epoch: Epoch) -> usize {
        // The newest is the likeliest.
        if let Some(found) = self.epochs.iter().rposition(|known| *known == epoch) {
            return found;
        }
        if self.epochs.len() > (2 * self.known + 16).min(EPOCHS_MAX - 1) {
            self.compact_epochs();
        }
        self.epochs.push(epoch);
        assert!(self.epochs.len() <= EPOCHS_MAX, "a component has fewer regions");
        self.epochs.len() - 1
    }

    /// Forgets epochs that no mark names.
    fn compact_epochs(&mut self) {
        let known = |group: &Group, at: usize| group.known >> at & 1 == 1;
        let each = |group: &Group| {
            (0..REGIONS as usize).filter(|at| known(group, *at)).map(|at| group.marks[at].epoch()).collect::<Vec<_>>()
        };
        let mut used: Vec<usize> = self.groups.iter().flat_map(|(_, group)| each(group)).collect();
        used.sort_unstable();
        used.dedup();
        for group in self.groups.values_mut() {
            for at in 0..REGIONS as usize {
                let mark = group.marks[at];
                // Those that are not known are of no epoch.
                let epoch = used.binary_search(&mark.epoch()).unwrap_or_default() as u64;
                group.marks[at].epoch_and_due = epoch << DUE_BITS | mark.due();
            }
        }
        self.epochs = used.iter().map(|&number| self.epochs[number]).collect();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cairn_types::{HostId, Incarnation};
    use proptest::prelude::*;

    use super::*;

    fn mark(number: u64, due: u64) -> RegionMark {
        RegionMark {
            op: OpId { epoch: Epoch { number, host: HostId(1), incarnation: Incarnation(2) }, seq: number * 3 },
            due,
        }
    }

    proptest! {
        #[test]
        fn marks_agree_with_a_map(steps in proptest::collection::vec((0u32..200, 1u64..400, 0u64..9), 1..300)) {
            let (mut marks, mut map) = (Marks::default(), BTreeMap::new());
            for (region, number, due) in steps {
                let put = mark(number, if due == 8 { IN_METADATA } else { due });
                marks.put(region, put);
                map.insert(region, put);
            }
            prop_assert_eq!(marks.iter().collect::<Vec<_>>(), map.iter().map(|(region, mark)| (*region, *mark)).collect::<Vec<_>>());
            (0..200).for_each(|region| assert_eq!(marks.get(region), map.get(&region).copied()));
        }
    }

    /// Goal: memory has a bound whatever owners do. Method: one region that is touched in epoch after epoch.
    #[test]
    fn epochs_that_nothing_names_are_forgotten() {
        let mut marks = Marks::default();
        (1..100_000).for_each(|number| marks.put(20, mark(number, 7)));
        assert!(marks.epochs.len() < 32, "{}", marks.epochs.len());
        assert_eq!(marks.iter().collect::<Vec<_>>(), [(20, mark(99_999, 7))]);
    }
}
