//! What a stream wrote, so that it can be read back and judged.
//!
//! Promises    a place holds what was acknowledged last, or what was under way or failed after that: anything else is wrong
//! Assumes     one stream alone writes a target's span, and two writes of one place are never under way at once
//! Not here    reading back (`verify`)

use std::collections::{BTreeMap, BTreeSet};

use cairn_workload::Content;

use crate::address::Address;

/// What one stream wrote, and where.
#[derive(Debug, Clone)]
pub struct Written {
    pub(crate) target: Address,
    pub(crate) content: Content,
    pub(crate) ledger: Ledger,
}

/// Generations of one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes of the request.
    pub len_bytes: u32,
    /// Acknowledged last.
    pub acknowledged: Option<u64>,
    /// Begun after that, and never acknowledged: one of them may be there, now or later.
    pub open: BTreeSet<u64>,
}

/// All places that a stream wrote, by offset.
#[derive(Debug, Clone, Default)]
pub struct Ledger(BTreeMap<u64, Place>);

impl Ledger {
    /// Whether a write of this place is under way or may still be.
    pub(crate) fn is_open(&self, offset: u64) -> bool {
        self.0.get(&offset).is_some_and(|place| !place.open.is_empty())
    }

    /// A write begins.
    pub(crate) fn begin(&mut self, offset: u64, len_bytes: u32, generation: u64) {
        let place = self.0.entry(offset).or_default();
        place.len_bytes = len_bytes;
        place.open.insert(generation);
    }

    /// It was acknowledged.
    pub(crate) fn acknowledge(&mut self, offset: u64, generation: u64) {
        let place = self.0.entry(offset).or_default();
        place.open.remove(&generation);
        place.acknowledged = Some(generation);
    }

    /// Places with an acknowledged write: those that can be judged.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, &Place)> {
        self.0.iter().filter(|(_, place)| place.acknowledged.is_some()).map(|(offset, place)| (*offset, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_and_what_came_after_may_be_there() {
        let mut ledger = Ledger::default();
        ledger.begin(0, 4096, 1);
        assert!(ledger.is_open(0) && ledger.places().next().is_none(), "never acknowledged");
        ledger.acknowledge(0, 1);
        assert!(!ledger.is_open(0));
        ledger.begin(0, 4096, 5);
        let place = ledger.places().next().unwrap().1.clone();
        assert_eq!((place.acknowledged, place.open), (Some(1), BTreeSet::from([5])));
    }
}
