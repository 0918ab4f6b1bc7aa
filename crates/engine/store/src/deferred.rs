//! Records of a log that is read back, until all of it was read: then the index is built of them in one go.
//!
//! Promises    the index is as if each record had been put into it when it was read
//! Assumes     nothing asks the index, or changes it otherwise, before it is built
//! Why         a record that goes into an index of millions by itself meets cold memory in each node on its way: of 24 million 104 s went so
//!
//! What stays of a block's versions is the newest settled one and all that are newer, whatever order they came in (`index.rs`). So those
//! that are settled by the end are sorted, and one is chosen for each run of blocks. The others are few, and go the usual way
//! (`component.rs`).

use crate::records::{Record, RecordId, Records};

/// One record's blocks, of which there may be tens of millions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deferred {
    pub first: u64,
    /// With [`ALLOCATES`].
    count: u32,
    pub id: RecordId,
}

/// Set where the record takes space once folded: a look at the record itself is one into cold memory.
const ALLOCATES: u32 = 1 << 31;

impl Deferred {
    pub fn new(id: RecordId, record: &Record) -> Self {
        assert!(record.range.count < ALLOCATES, "a component has fewer blocks");
        let kind = if record.allocates() { ALLOCATES } else { 0 };
        Self { first: record.range.first, count: record.range.count | kind, id }
    }
    pub fn count(&self) -> u32 {
        self.count & !ALLOCATES
    }
    pub fn allocates(&self) -> bool {
        self.count & ALLOCATES != 0
    }
    fn end(&self) -> u64 {
        self.first + u64::from(self.count())
    }
}

/// Leaves one of those that are of the same blocks, the newest. Those that overlap in another way are taken out, and given.
pub(crate) fn choose(sorted: &mut Vec<Deferred>, records: &mut Records) -> Vec<RecordId> {
    let mut mixed = Vec::new();
    let (mut kept, mut at) = (0, 0);
    while at < sorted.len() {
        let (mut end, mut next) = (sorted[at].end(), at + 1);
        while sorted.get(next).is_some_and(|one| one.first < end) {
            end = end.max(sorted[next].end());
            next += 1;
        }
        let cluster = &sorted[at..next];
        let same = |one: &Deferred| (one.first, one.count()) == (cluster[0].first, cluster[0].count());
        if cluster.len() == 1 {
            sorted[kept] = sorted[at];
            kept += 1;
        } else if cluster.iter().all(same) {
            let newest = cluster.iter().copied().max_by_key(|one| records.of(one.id).op).expect("it has one");
            let hidden = cluster.iter().filter(|one| one.id != newest.id);
            hidden.for_each(|one| records.release(one.id, u64::from(one.count())));
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
