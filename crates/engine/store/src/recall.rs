//! Hooks of runs that are older than the tables: after a start, and when deduplication is switched on again, headers are read in the background.
//!
//! Promises    the newest segments first; a hook that is newer stays; at most [`HEADERS_PER_S`] reads a second, a capacity device at a time
//! Time        at runs of 4 MiB some 5 minutes a TiB (calculated); for each 4,096 segments that are read, the rows of all segments of the device are looked at
//! Not here    hooks of what is written meanwhile (`twins.rs`), what a header is used for (`find_twins.rs`)

use std::{cmp::Reverse, collections::BinaryHeap, rc::Rc, time::Duration};

use cairn_env::Env;

use crate::{disk_group::Inner, hooks::RunPage};

/// Reads of a header, some 32 KiB each, in a second: 32 MB/s, a tenth of what a slow flash device reads.
const HEADERS_PER_S: u64 = 1000;
/// Segments of one device that are read before the next are looked for: a list of all would be large.
const SEGMENTS_AT_ONCE: usize = 4096;

/// A segment in use: the round of the last write, which it is, and its generation. The newest is the greatest.
type Newest = (u64, Reverse<u32>, u64);

impl<E: Env> Inner<E> {
    /// Begins to read headers, where deduplication is on. What was begun before ends.
    pub(crate) fn recall_hooks(self: &Rc<Self>) {
        let turn = {
            let state = &mut *self.state.borrow_mut();
            if !state.settings.deduplication() {
                return;
            }
            state.twins.recalls()
        };
        self.env.spawn(self.clone().run_recall(turn));
    }

    async fn run_recall(self: Rc<Self>, turn: u64) {
        let devices = self.state.borrow().tier.len();
        for device in 0..devices as u8 {
            let mut after = None;
            loop {
                let some = self.newest_after(device, after);
                let Some(last) = some.last() else { break };
                after = Some(*last);
                for (_, Reverse(segment), generation) in some {
                    if !self.recall_segment(device, segment, generation, turn).await {
                        return;
                    }
                }
            }
        }
    }

    /// Segments in use that come next after this place, the newest first.
    fn newest_after(&self, device: u8, after: Option<Newest>) -> Vec<Newest> {
        let state = self.state.borrow();
        let segments = state.tier.of(device);
        if segments.failed {
            return Vec::new();
        }
        let all = (0..segments.count() as u32).map(|segment| (segments.row(segment), segment));
        let used = all.filter(|(row, _)| row.fill > 0 && row.generation > 0);
        let places = used.map(|(row, segment)| (row.written, Reverse(segment), row.generation));
        let mut newest = BinaryHeap::with_capacity(SEGMENTS_AT_ONCE + 1);
        for place in places.filter(|place| after.is_none_or(|after| *place < after)) {
            newest.push(Reverse(place));
            if newest.len() > SEGMENTS_AT_ONCE {
                newest.pop();
            }
        }
        newest.into_sorted_vec().into_iter().map(|Reverse(place)| place).collect()
    }

    /// Enters what the runs of a segment hold. False when there is nothing more to do.
    async fn recall_segment(&self, device: u8, segment: u32, generation: u64, turn: u64) -> bool {
        let mut within = 0;
        loop {
            self.env.sleep(Duration::from_micros(1_000_000 / HEADERS_PER_S)).await;
            let page = {
                let state = self.state.borrow();
                if state.life.ends() || !state.twins.is_recall(turn) {
                    return false;
                }
                let segments = state.tier.of(device);
                if segments.failed || !segments.may_be_shared(segment, generation) {
                    return true;
                }
                u64::from(segment) * u64::from(segments.segment_pages) + within
            };
            let Ok(page) = RunPage::try_from(page) else { return true };
            let Some((run, _)) = self.read_run(device, page).await else { return true };
            within += u64::from(run.shape().pages());
            let state = &mut *self.state.borrow_mut();
            if state.twins.is_recall(turn) {
                let devices = state.tier.len();
                let hooks = &mut state.twins.of(device, devices).hooks;
                let known = run.entries.iter().filter(|entry| !entry.pending && entry.fingerprint != 0);
                known.for_each(|entry| hooks.recall(entry.fingerprint, page));
            }
        }
    }
}
