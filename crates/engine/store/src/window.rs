//! The operations of a component that are not settled, in their order.
//!
//! Promises    what came last is found and taken away first come without a search: operations mostly come and settle in order
//! Not here    what settling and undoing do (`component.rs`)

use std::collections::{VecDeque, vec_deque};

use cairn_types::{BlockRange, ClientTag, OpId, UnsettledOp};
use smallvec::SmallVec;

/// How an operation came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    /// The front-end request behind it.
    pub client: ClientTag,
    /// As [`UnsettledOp::members`] has them.
    pub members: u16,
    /// It came as a write, not as a copy of what another component holds.
    pub written: bool,
}

/// One operation that is not settled.
#[derive(Debug, Clone)]
pub(crate) struct Unsettled {
    pub info: UnsettledOp,
    /// Where its versions stand: a copy has one range per piece.
    pub ranges: SmallVec<[BlockRange; 1]>,
    /// Nothing older stands under them: settling it hides nothing, and the index, which is large, need not be asked.
    pub alone: bool,
    /// As [`Origin::written`].
    pub written: bool,
}

/// All of them, ascending.
#[derive(Debug, Default)]
pub(crate) struct Window(VecDeque<Unsettled>);

impl Window {
    /// Where the operation stands, or would.
    fn place(&self, op: OpId) -> Result<usize, usize> {
        match self.0.back() {
            Some(last) if last.info.op < op => Err(self.0.len()),
            Some(last) if last.info.op == op => Ok(self.0.len() - 1),
            _ => self.0.binary_search_by_key(&op, |unsettled| unsettled.info.op),
        }
    }

    pub fn get(&self, op: OpId) -> Option<&Unsettled> {
        self.place(op).ok().map(|place| &self.0[place])
    }

    pub fn get_mut(&mut self, op: OpId) -> Option<&mut Unsettled> {
        self.place(op).ok().map(|place| &mut self.0[place])
    }

    /// The operation of `info`; what is not there yet is put there, with nothing but that.
    pub fn entry(&mut self, info: UnsettledOp) -> &mut Unsettled {
        let place = self.place(info.op).unwrap_or_else(|place| {
            let new = Unsettled { info, ranges: SmallVec::new(), alone: true, written: false };
            if place == self.0.len() {
                self.0.push_back(new)
            } else {
                self.0.insert(place, new)
            }
            place
        });
        &mut self.0[place]
    }

    pub fn remove(&mut self, op: OpId) -> Option<Unsettled> {
        self.0.remove(self.place(op).ok()?)
    }

    /// Takes the first one, if it is not above `upto`.
    pub fn pop_upto(&mut self, upto: OpId) -> Option<Unsettled> {
        self.0.pop_front_if(|first| first.info.op <= upto)
    }

    /// Those after `op`.
    pub fn after(&mut self, op: OpId) -> impl Iterator<Item = &mut Unsettled> {
        let from = self.place(op).map_or_else(|place| place, |place| place + 1);
        self.0.range_mut(from..)
    }

    /// Whether one after `op` has blocks of `range`.
    pub fn overlaps_after(&self, op: OpId, range: BlockRange) -> bool {
        let from = self.place(op).map_or_else(|place| place, |place| place + 1);
        self.0.range(from..).any(|later| later.ranges.iter().any(|own| own.overlaps(range)))
    }

    pub fn first(&self) -> Option<&Unsettled> {
        self.0.front()
    }

    pub fn iter(&self) -> vec_deque::Iter<'_, Unsettled> {
        self.0.iter()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{ClientTag, Epoch};
    use proptest::prelude::*;

    use super::*;

    fn info(number: u64) -> UnsettledOp {
        let op = OpId { epoch: Epoch::default(), seq: number };
        UnsettledOp { op, range: BlockRange::new(number, 1), client: ClientTag::default(), members: 0 }
    }

    proptest! {
        /// Goal: whatever comes and goes, all stand in order, each once. Method: beside a sorted list.
        #[test]
        fn operations_stand_in_order(steps in proptest::collection::vec((0u8..4, 1u64..30), 0..100)) {
            let (mut window, mut list) = (Window::default(), Vec::<u64>::new());
            for (what, number) in steps {
                match what {
                    0 | 1 => {
                        prop_assert_eq!(window.entry(info(number)).info.op.seq, number);
                        list.push(number);
                        list.sort_unstable();
                        list.dedup();
                    }
                    2 => prop_assert_eq!(window.remove(info(number).op).is_some(), list.contains(&number)),
                    _ => {
                        let first = window.pop_upto(info(number).op).map(|u| u.info.op.seq);
                        prop_assert_eq!(first, list.first().copied().filter(|first| *first <= number));
                        list.retain(|n| Some(*n) != first);
                    }
                }
                if what == 2 {
                    list.retain(|n| *n != number);
                }
                prop_assert_eq!(window.iter().map(|u| u.info.op.seq).collect::<Vec<_>>(), list.clone());
                prop_assert_eq!(window.first().map(|u| u.info.op.seq), list.first().copied());
                prop_assert_eq!(window.get(info(number).op).is_some(), list.contains(&number));
                let after: Vec<u64> = window.after(info(number).op).map(|u| u.info.op.seq).collect();
                prop_assert_eq!(after, list.iter().copied().filter(|n| *n > number).collect::<Vec<_>>());
            }
        }
    }
}
