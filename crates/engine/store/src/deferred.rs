//! Records of a log that is read back, until all of it was read: then the index is built of them in one go.
//!
//! Promises    the index is as if each record had been put into it when it was read
//! Assumes     nothing asks the index, or changes it otherwise, before it is built
//! Why         a record that goes into an index of millions by itself meets cold memory in each node on its way: of 24 million 104 s went so
//!
//! What stays of a block's versions is the newest settled one and all that are newer, whatever order they came in (`index.rs`). So those
//! that are settled by the end are sorted, and one is chosen for each run of blocks. The others are few, and go the usual way.

use crate::{
    component::Component,
    index::{RecordId, Records},
};

/// One record's blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deferred {
    pub first: u64,
    pub count: u32,
    pub id: RecordId,
}

impl Deferred {
    fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }
}

impl Component {
    /// Puts what was deferred into the index.
    pub fn build_index(&mut self, records: &mut Records) {
        let mut settled = std::mem::take(&mut self.deferred);
        if settled.is_empty() {
            return;
        }
        let mut others: Vec<RecordId> = Vec::new();
        settled.retain(|one| {
            let op = records.of(one.id).op;
            if self.is_undone(op) {
                records.release(one.id, u64::from(one.count));
                return false;
            }
            if op > self.settled {
                others.push(one.id);
            }
            op <= self.settled
        });
        settled.sort_unstable_by_key(|one| (one.first, one.count, one.id));
        let mixed = choose(&mut settled, records);
        // Rows of the metadata that are not folded yet are in the index already.
        let before = self.extents.take(records);
        let runs = settled.into_iter().map(|one| (one.first, one.count, one.id));
        self.extents.load(runs, &self.base, records);
        // One that is hidden in its first part is there for the others.
        before.iter().for_each(|(id, _)| records.of_mut(*id).live += 1);
        for &(id, range) in &before {
            self.enter(id, range, records);
        }
        before.into_iter().for_each(|(id, _)| records.release(id, 1));
        for id in mixed.into_iter().chain(others) {
            let record = records.of_mut(id);
            record.live = 0;
            let range = record.range;
            self.enter(id, range, records);
        }
    }
}

/// Leaves one of those that are of the same blocks, the newest. Those that overlap in another way are taken out, and given.
fn choose(sorted: &mut Vec<Deferred>, records: &mut Records) -> Vec<RecordId> {
    let mut mixed = Vec::new();
    let (mut kept, mut at) = (0, 0);
    while at < sorted.len() {
        let (mut end, mut next) = (sorted[at].end(), at + 1);
        while sorted.get(next).is_some_and(|one| one.first < end) {
            end = end.max(sorted[next].end());
            next += 1;
        }
        let cluster = &sorted[at..next];
        if cluster.iter().all(|one| (one.first, one.count) == (cluster[0].first, cluster[0].count)) {
            let newest = cluster.iter().copied().max_by_key(|one| records.of(one.id).op).expect("it has one");
            let hidden = cluster.iter().filter(|one| one.id != newest.id);
            hidden.for_each(|one| records.release(one.id, u64::from(one.count)));
            sorted[kept] = newest;
            kept += 1;
        } else {
            mixed.extend(cluster.iter().map(|one| one.id));
        }
        at = next;
    }
    sorted.truncate(kept);
    mixed
}

#[cfg(test)]
mod tests {
    use cairn_types::{BlockRange, ClientTag, ComponentId, Epoch, HostId, Incarnation, ObjectId, OpId};
    use proptest::prelude::*;

    use super::*;
    use crate::index::{Body, Place, Record};

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 1, host: HostId(1), incarnation: Incarnation(1) }, seq }
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// An operation: the next one, or `late` ones before it.
        Put {
            late: u64,
            first: u64,
            count: u32,
        },
        Settle {
            back: u64,
        },
        Undo {
            back: u64,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        let late = prop_oneof![3 => Just(0u64), 1 => 1u64..6];
        // Most are of a few places and one size, as those of a disk are.
        let range = prop_oneof![3 => (0u64..8).prop_map(|at| (at * 3, 3)), 1 => (0u64..24, 1u32..6)];
        prop_oneof![
            6 => (late, range).prop_map(|(late, (first, count))| Step::Put { late, first, count }),
            2 => (0u64..6).prop_map(|back| Step::Settle { back }),
            1 => (0u64..4).prop_map(|back| Step::Undo { back }),
        ]
    }

    /// A component and its records. From step `defers_from` on they are read back, those before are rows of the metadata.
    fn run(steps: &[Step], defers_from: usize) -> (Component, Records) {
        let mut component = Component::new(ComponentId(1), ObjectId(1), 100, 0, 0);
        let mut records = Records::default();
        let (mut next, mut seen) = (10u64, std::collections::BTreeSet::new());
        for (at, step) in steps.iter().enumerate() {
            records.defers = at >= defers_from;
            match *step {
                Step::Put { late, first, count } => {
                    next += u64::from(late == 0);
                    let op = op(next - late);
                    if seen.insert(op) && !component.is_undone(op) {
                        let range = BlockRange::new(first, count);
                        let crcs = std::iter::repeat_n(0, count as usize).collect();
                        let body = match op.seq % 5 {
                            0 => Body::Zero { keep_allocated: false },
                            _ => Body::Data { place: Place::Log(0), crcs },
                        };
                        let record =
                            Record { component: component.id, op, range, position: 0, body, live: 0, row: None };
                        component.put(record, ClientTag::default(), true, Some(0), &mut records);
                    }
                }
                Step::Settle { back } => component.settle(op(next - back), &mut records),
                Step::Undo { back } => drop(component.undo(op(next - back), 0, &mut records)),
            }
        }
        records.defers = false;
        component.build_index(&mut records);
        (component, records)
    }

    /// What the index has, by operations.
    fn told(component: &Component, records: &Records) -> Vec<(u64, Vec<OpId>)> {
        let spans = component.extents.all();
        let of = |id: &RecordId| records.of(*id).op;
        spans
            .flat_map(|span| {
                let ops: Vec<OpId> = span.versions.iter().map(of).collect();
                (span.range.first..span.range.end()).map(move |block| (block, ops.clone()))
            })
            .collect()
    }

    proptest! {
        /// Goal: an index that is built at the end is the one that was kept up all the time. Method: any order of operations, late ones too,
        /// settling and undoing; what stood there before; blocks that the map holds. Sums and records agree as well, and all that follows.
        #[test]
        fn built_at_the_end_it_is_as_if_kept_up(
            steps in proptest::collection::vec(step(), 1..80),
            defers_from in 0usize..40,
            more in proptest::collection::vec(step(), 0..20),
        ) {
            let (kept, kept_records) = run(&steps, usize::MAX);
            let (built, built_records) = run(&steps, defers_from);
            prop_assert_eq!(told(&kept, &kept_records), told(&built, &built_records));
            prop_assert_eq!(kept.extents.new_blocks(), built.extents.new_blocks());
            prop_assert_eq!(built.extents.recount(&built.base, &built_records), (built.extents.new_blocks(), built.extents.hidden_blocks()));
            prop_assert_eq!(kept_records.len(), built_records.len());
            let (mut kept, mut kept_records, mut built, mut built_records) = (kept, kept_records, built, built_records);
            // Nothing that settles is passed over because something under it was not seen.
            for step in more {
                if let Step::Settle { back } | Step::Undo { back } = step {
                    let upto = op(100 - back);
                    kept.settle(upto, &mut kept_records);
                    built.settle(upto, &mut built_records);
                }
            }
            prop_assert_eq!(told(&kept, &kept_records), told(&built, &built_records));
        }
    }
}
