//! What the members of a replica set hold for each other: full copies, or strips of data with their parity.
//!
//! Promises    a mirror's encoding is the number of its copies, as every release wrote it; parity is a number that older ones refuse
//! Not here    which block lies where (`geometry`); who must answer (`votes`)

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// How the members of a replica set make up for a lost one.
///
/// Members of a set are numbered by *index*, 0..[`Redundancy::members`]: the `copy` of [`crate::Role::Data`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum Redundancy {
    /// Each member holds every block.
    Mirror {
        /// Members, 1..=4 (failures to tolerate + 1).
        copies: u32,
    },
    /// Each row has a strip at every member: of data at `data` of them, of parity at the others; which ones goes round.
    Parity {
        /// Strips of data in a row, of [`Redundancy::DATA_STRIPS`].
        data: u8,
        /// Strips of parity in a row, of [`Redundancy::PARITY_STRIPS`]: 1 is RAID-5, 2 are RAID-6.
        parity: u8,
        /// Blocks of a strip, 1..=[`Redundancy::STRIP_BLOCKS_MAX`].
        strip_blocks: u16,
    },
}

/// Set in the encoding of parity, and in that of no mirror: a mirror has 4 copies at most.
const PARITY_BIT: u32 = 1 << 31;

impl Redundancy {
    /// Strips of data that a row may have.
    pub const DATA_STRIPS: RangeInclusive<u8> = 2..=8;
    /// Strips of parity that a row may have: P, or P and Q.
    pub const PARITY_STRIPS: RangeInclusive<u8> = 1..=2;
    /// Blocks of a strip of a parity row, at most: 4 MiB.
    pub const STRIP_BLOCKS_MAX: u16 = 1 << 10;

    /// Indexes of a set: copies, or strips of a row.
    pub fn members(self) -> u32 {
        match self {
            Self::Mirror { copies } => copies,
            Self::Parity { data, parity, .. } => u32::from(data) + u32::from(parity),
        }
    }

    /// Distinct indexes in sync that give every byte of the set.
    pub fn needed(self) -> u32 {
        match self {
            Self::Mirror { .. } => 1,
            Self::Parity { data, .. } => u32::from(data),
        }
    }

    /// Members that may be lost while every byte is left.
    pub fn losable(self) -> u32 {
        self.members().saturating_sub(self.needed())
    }
}

impl From<Redundancy> for u32 {
    fn from(redundancy: Redundancy) -> Self {
        match redundancy {
            Redundancy::Mirror { copies } => copies,
            Redundancy::Parity { data, parity, strip_blocks } => {
                let strip_blocks = u32::from(strip_blocks.min(Redundancy::STRIP_BLOCKS_MAX));
                PARITY_BIT | u32::from(data) | u32::from(parity) << 8 | strip_blocks << 16
            }
        }
    }
}

/// A number that stands for no redundancy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:#x} names no redundancy that this release knows")]
pub struct RedundancyError(u32);

impl TryFrom<u32> for Redundancy {
    type Error = RedundancyError;
    fn try_from(code: u32) -> Result<Self, RedundancyError> {
        if code & PARITY_BIT == 0 {
            return Ok(Self::Mirror { copies: code });
        }
        let strip_blocks = (code & !PARITY_BIT) >> 16;
        if strip_blocks > u32::from(Self::STRIP_BLOCKS_MAX) {
            return Err(RedundancyError(code));
        }
        let [data, parity, ..] = code.to_le_bytes();
        Ok(Self::Parity { data, parity, strip_blocks: strip_blocks as u16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_onto;

    #[test]
    fn mirrors_are_encoded_as_the_number_of_their_copies() {
        for copies in [1u32, 2, 3, 4] {
            assert_eq!(encode_onto(Vec::new(), &Redundancy::Mirror { copies }), encode_onto(Vec::new(), &copies));
        }
    }

    #[test]
    fn parity_comes_back_and_is_no_number_of_copies() {
        for (data, parity, strip_blocks) in [(2, 1, 16), (3, 1, 16), (8, 2, 8), (4, 2, Redundancy::STRIP_BLOCKS_MAX)] {
            let rows = Redundancy::Parity { data, parity, strip_blocks };
            let code = u32::from(rows);
            assert!(code > 4, "an older release refuses it as a number of copies");
            assert_eq!(Redundancy::try_from(code), Ok(rows));
            let bytes = encode_onto(Vec::new(), &rows);
            assert_eq!(postcard::from_bytes::<Redundancy>(&bytes), Ok(rows));
        }
        assert!(Redundancy::try_from(u32::MAX).is_err());
    }

    #[test]
    fn what_may_be_lost_is_what_is_not_needed() {
        assert_eq!(Redundancy::Mirror { copies: 3 }.losable(), 2);
        assert_eq!(Redundancy::Parity { data: 4, parity: 2, strip_blocks: 16 }.losable(), 2);
    }
}
