//! Scrubs of this host's disk groups: when a pass begins, how fast it goes, and who repairs what it finds.
//!
//! Promises    each disk group is read once in the cluster's period, and at once where somebody asks for it
//!             guests go first: each piece has its place among the copies of resyncs, which yield to them
//!             the owner of a disk hears of what is bad on a copy here, again and again until that is whole; a disk without an owner is taken
//!             over for that (`reconcile`)
//!             what no other copy has is told as that, never as repaired: the disk group reads its own blocks again
//! Not here    reading and comparing (`store`), repairing (`object`), the arithmetic of periods and rates (`pace`)
//!
//! Where nothing is under way and nothing is bad, it costs a look at each disk group every ten seconds.

use std::{collections::btree_map::Entry, time::Duration};

use cairn_env::Env;
use cairn_object::LocalStore;
use cairn_pace::{PIECE_BYTES, scrub_is_due, scrub_pause, scrub_rate_min};
use cairn_store::{BadBlocks, ScrubState};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId, Csn, DiskGroupId, Feature, HostId, ObjectId, Time};
use cairn_wire::OwnerCommand;

use crate::{
    adapter::GroupStore,
    node::Node,
    scrub_watch::{TRY_AGAIN, Watch},
};

/// How often it is looked whether a disk group has something to do.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often what a pass has done is made durable where no transaction of guests does it.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// How soon an owner is asked again that could not be: it is away, or the copy is being filled.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Blocks that an owner is asked to repair at a time: it locks and copies each stretch, within the patience of a call.
const REPAIRED_TOGETHER: u32 = 64;

impl<E: Env> Node<E> {
    pub(crate) async fn scrubs(&self) {
        while !self.inner.stopping.get() {
            self.look_after_scrubs();
            self.inner.env.sleep(LOOK_EVERY).await;
        }
    }

    /// Has each disk group worked for that has something to do.
    pub(crate) fn look_after_scrubs(&self) {
        let inner = &self.inner;
        let stores = inner.seats.stores();
        inner.scrubs.borrow_mut().retain(|id, watch| watch.works || stores.iter().any(|s| s.disk_group() == *id));
        for store in stores {
            let (id, now) = (store.disk_group(), inner.env.now());
            let watch = match inner.scrubs.borrow_mut().entry(id) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => *new.insert(Watch::new(now, inner.env.random_u64())),
            };
            if watch.works || store.group().is_stopped() {
                continue;
            }
            let scrub = store.group().scrub_state();
            let period = self.scrub_period_days();
            let due = now >= watch.begins_after && scrub_is_due(scrub.begun_unix_ms, inner.env.unix_ms(), period);
            // Releases before do not have the row of a scrub, and hosts may go back to them until the upgrade is finished.
            if due && self.level().has(Feature::Scrub) && !scrub.is_running && !scrub.is_paused {
                store.group().scrub_begin(false);
            }
            if goes_on(&store.group().scrub_state()) || self.asks_owners(&store, now) {
                self.watch(id, |watch| {
                    (watch.works, watch.counted, watch.since, watch.bytes_per_s) = (true, 0, now, 0)
                });
                let node = self.clone();
                inner.env.spawn(async move { node.work_for(id).await });
            }
        }
    }

    pub(crate) fn scrub_period_days(&self) -> u64 {
        self.settings().map_or(cairn_api::v1::SCRUB_PERIOD_DAYS, |settings| settings.scrub_period_days)
    }

    /// Bytes per second that the scrub of a disk group reads now.
    pub(crate) fn scrub_rate(&self, id: DiskGroupId) -> u64 {
        let scrubs = self.inner.scrubs.borrow();
        let Some(watch) = scrubs.get(&id).filter(|watch| watch.works) else { return 0 };
        if watch.bytes_per_s > 0 { watch.bytes_per_s } else { watch.rate(self.inner.env.now()) }
    }

    fn watch(&self, id: DiskGroupId, act: impl FnOnce(&mut Watch)) {
        if let Some(watch) = self.inner.scrubs.borrow_mut().get_mut(&id) {
            act(watch);
        }
    }

    /// The disk group while it is to be worked for. Nobody keeps it while waiting: one that is closed gives its devices back at once.
    fn at_work(&self, id: DiskGroupId) -> Option<GroupStore<E>> {
        let store = self.inner.seats.store(id).filter(|_| !self.inner.stopping.get());
        store.filter(|store| !store.group().is_stopped())
    }

    /// Works for a disk group until nothing is to be done at once.
    async fn work_for(&self, id: DiskGroupId) {
        let env = &self.inner.env;
        while let Some(store) = self.at_work(id) {
            let scrub = store.group().scrub_state();
            let runs = goes_on(&scrub);
            let pause = if runs { self.scrub_piece(&store, &scrub).await } else { Duration::ZERO };
            let (now, asks) = (env.now(), self.asks_owners(&store, env.now()));
            let save = self.inner.scrubs.borrow().get(&id).is_some_and(|watch| now.since(watch.saved) >= SAVE_EVERY);
            if save || !runs {
                store.group().scrub_save();
                self.watch(id, |watch| watch.saved = now);
            }
            drop(store);
            if asks {
                self.have_repaired(id).await;
            } else if !runs {
                break;
            }
            env.sleep(pause).await;
        }
        self.watch(id, |watch| watch.works = false);
    }

    /// Reads and compares a piece; how long the next one waits.
    async fn scrub_piece(&self, store: &GroupStore<E>, scrub: &ScrubState) -> Duration {
        let (inner, group) = (&self.inner, store.group());
        let began = inner.env.now();
        let step = {
            let _place = inner.objects.place_beside_guests(PIECE_BYTES).await;
            group.scrub_step(PIECE_BYTES).await
        };
        self.tell_found(store, &step.bad);
        let now = inner.env.now();
        self.watch(store.disk_group(), |watch| {
            watch.count(now, step.read_bytes);
            if !step.bad.is_empty() {
                watch.asks = now;
            }
        });
        if step.pass_ended {
            group.scrub_save();
        }
        if scrub.at_once {
            return Duration::ZERO;
        }
        let allocated = scrub.total_blocks * u64::from(BLOCK_BYTES);
        let rate = scrub_rate_min(allocated, self.scrub_period_days());
        scrub_pause(step.read_bytes, now.since(began), rate)
    }

    fn tell_found(&self, store: &GroupStore<E>, bad: &[(ComponentId, BlockRange)]) {
        let blocks: u64 = bad.iter().map(|(_, range)| u64::from(range.count)).sum();
        if blocks > 0 {
            let id = store.disk_group();
            self.inner.outside.warn(format!("scrub: {blocks} blocks in disk group {id} went bad at rest"));
        }
    }

    /// Whether something is bad that an owner is to be asked to repair now.
    fn asks_owners(&self, store: &GroupStore<E>, now: Time) -> bool {
        let scrub = store.group().scrub_state();
        let Some(watch) = self.inner.scrubs.borrow().get(&store.disk_group()).copied() else { return false };
        let waits = scrub.awaiting_blocks > 0 && now >= watch.asks;
        waits || scrub.no_copy_blocks > 0 && now >= watch.tries_again
    }

    /// Asks the owners of disks with bad blocks here to repair them, and looks what came of it.
    async fn have_repaired(&self, id: DiskGroupId) {
        let now = self.inner.env.now();
        let again = self.inner.scrubs.borrow().get(&id).is_some_and(|watch| now >= watch.tries_again);
        if again {
            self.watch(id, |watch| watch.tries_again = now + TRY_AGAIN);
        }
        let Some(bad) = self.at_work(id).map(|store| store.group().bad_blocks()) else { return };
        self.inner
            .scrubs_asked
            .borrow_mut()
            .retain(|(of, object), _| *of != id || bad.iter().any(|b| b.object == *object));
        let is_due = |bad: &BadBlocks| !bad.no_copy || again && self.may_have_other_copies(id, bad.object);
        let due: Vec<BadBlocks> = bad.into_iter().filter(is_due).collect();
        let mut left = false;
        for bad in due {
            let Some(owner) = self.may_ask_owner(id, bad.object) else {
                left = true;
                continue;
            };
            for range in pieces(bad.range) {
                left |= !self.have_one_repaired(id, owner, BadBlocks { range, ..bad }).await;
            }
        }
        let now = self.inner.env.now();
        self.watch(id, |watch| watch.asks = if left { now + ASK_AGAIN } else { now });
    }

    /// Whether the disk is another since its owner was asked in vain: copies came or went.
    fn may_have_other_copies(&self, id: DiskGroupId, object: ObjectId) -> bool {
        let asked = self.inner.scrubs_asked.borrow().get(&(id, object)).copied();
        asked.is_none() || asked != self.csn_of(id, object)
    }

    fn csn_of(&self, id: DiskGroupId, object: ObjectId) -> Option<Csn> {
        Some(self.inner.seats.record(id, object)?.accepted?.csn)
    }

    /// The owner, where it can be asked: others may be of a release that does not know how.
    fn may_ask_owner(&self, disk_group: DiskGroupId, object: ObjectId) -> Option<HostId> {
        let owner = self.owner_of(disk_group, object)?;
        (owner == self.me() || self.level().has(Feature::Scrub)).then_some(owner)
    }

    /// False: the owner could not be asked.
    async fn have_one_repaired(&self, id: DiskGroupId, owner: HostId, bad: BadBlocks) -> bool {
        let BadBlocks { component, object, range, .. } = bad;
        // Somebody may have written it meanwhile.
        match self.at_work(id) {
            None => return false,
            Some(store) if store.group().scrub_again(component, range).await == 0 => return true,
            Some(_) => {}
        }
        let repair = OwnerCommand::Repair { component, ranges: vec![range] };
        let csn = self.csn_of(id, object);
        if self.inner.objects.command(owner, object, repair).await.is_err() {
            return false;
        }
        let Some(store) = self.at_work(id) else { return false };
        let lost = store.group().scrub_again(component, range).await;
        if lost > 0 {
            store.group().has_no_copy(component, range);
            self.inner.scrubs_asked.borrow_mut().extend(csn.map(|csn| ((id, object), csn)));
            if !bad.no_copy {
                self.inner.outside.warn(format!(
                    "scrub: {lost} blocks of disk {object} in disk group {id} are bad, and no other copy in sync has them"
                ));
            }
        }
        true
    }
}

fn goes_on(scrub: &ScrubState) -> bool {
    scrub.is_running && !scrub.is_paused
}

/// Parts of a range that are repaired together.
fn pieces(range: BlockRange) -> impl Iterator<Item = BlockRange> {
    (range.first..range.end()).step_by(REPAIRED_TOGETHER as usize).map(move |first| {
        let count = (range.end() - first).min(u64::from(REPAIRED_TOGETHER)) as u32;
        BlockRange::new(first, count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_range_is_repaired_in_pieces() {
        let range = BlockRange::new(10, 130);
        let all: Vec<BlockRange> = pieces(range).collect();
        assert_eq!(all, [BlockRange::new(10, 64), BlockRange::new(74, 64), BlockRange::new(138, 2)]);
        assert_eq!(pieces(BlockRange::new(5, 1)).collect::<Vec<_>>(), [BlockRange::new(5, 1)]);
    }
}
