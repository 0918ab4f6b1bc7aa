//! What blocks of parity say of the data that they were made from (`cairn-parity`), beside their checksums in memory.
//!
//! Promises    what has no parity takes a pointer for it, and no more
//! Limits      a check of 0 is none: a block of parity that has it is read as data, and whoever reads parity adds 0
//! Not here    how they are told on devices (`cairn-format`), in leaves (`leaf.rs`), among entries that wait (`unfolded.rs`)

use cairn_types::Crcs;

/// Those of a record's blocks, one each, 0 where a block is data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RowChecks(Option<Box<Crcs>>);

impl RowChecks {
    pub fn new(checks: Crcs) -> Self {
        Self(checks.iter().any(|check| *check != 0).then(|| Box::new(checks)))
    }
    /// Of the block at this place.
    pub fn at(&self, index: usize) -> u32 {
        self.0.as_ref().map_or(0, |checks| checks[index])
    }
    /// Those of so many blocks from this place on.
    pub fn part(&self, from: usize, count: usize) -> Self {
        self.0.as_ref().map_or_else(Self::default, |checks| Self::new(Crcs::from_slice(&checks[from..from + count])))
    }
    /// None at all where all are 0.
    pub fn as_slice(&self) -> &[u32] {
        self.0.as_ref().map_or(&[], |checks| checks)
    }
    /// Whether there is one for each of so many blocks, or none at all.
    pub fn fits(&self, blocks: usize) -> bool {
        [0, blocks].contains(&self.as_slice().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_without_parity_have_none() {
        let checks = RowChecks::new(vec![0, 0, 7, 8].into());
        assert_eq!((0..4).map(|at| checks.at(at)).collect::<Vec<_>>(), [0, 0, 7, 8]);
        assert_eq!(checks.part(0, 2), RowChecks::default());
        assert_eq!(checks.part(1, 3).as_slice(), [0, 7, 8]);
        assert!(checks.fits(4) && !checks.fits(3) && RowChecks::default().fits(9));
        assert_eq!(RowChecks::new(vec![0; 9].into()), RowChecks::default());
    }

    /// Goal: what a mirror keeps in memory is no larger for what parity needs. Method: sizes as they were before there was any.
    #[test]
    fn a_mirror_takes_no_more_memory() {
        assert!(size_of::<crate::records::Record>() <= 160);
        assert!(size_of::<crate::leaf::Leaf>() <= 1584);
        assert!(size_of::<crate::leaf::Entry>() <= 64);
    }
}
