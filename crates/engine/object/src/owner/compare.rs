//! Comparing copies: two that are each sound by themselves may differ, where one has lost writes. Only their owner can see that.
//!
//! Promises    X1  each part of an owned object is compared once a period, in the background: not while something of the object has failed,
//!                 is being filled, or is about to be handed over
//!             X2  guests wait for it only where digests differed: their writes of that region for one round of messages, reads never
//!             X3  an earlier state is overwritten with the later one by an ordinary operation, under the exclusive lock of its blocks, and
//!                 only if it is still the earlier one then; what nothing decides is overwritten by nobody
//!             X4  what was found is told: as an event, and to the disk groups of the copies
//! Not here    which state is the later one (`differences`), what stands behind a digest (`store`), rot of one copy (`repair`)
//!
//! Digests are asked for without a lock: copies that agree at any two moments hold no block that differs for good. Where they do not agree,
//! a write may have come between. Then the region is asked for once more, under its shared lock: no write is under way there.

use std::{
    collections::BTreeSet,
    rc::{Rc, Weak},
    time::Duration,
};

use cairn_env::Env;
use cairn_geometry::Rows;
use cairn_owner::Leg;
use cairn_types::{BlockRange, BlockStates, ClientTag, Feature, REGION_BLOCKS, RegionIndex, ReplicaSetIndex};
use cairn_wire::{Answer, Refusal, Request, Verified, VerifyBy};
use futures::future::join_all;

use crate::{
    copies::For,
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{
        Owned,
        differences::{Parts, Verdict, differences, differing, mixed},
    },
};

/// How long it sleeps at most before it looks whether the object is owned here still.
const SLEEP_MAX: Duration = Duration::from_secs(600);
/// The least pause between two parts, however large the object: one question takes less than a millisecond of a copy's thread.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Copies that answered, in one order with what they said.
type Told<T> = (Vec<Leg>, Vec<T>);

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Compares the copies, part after part, for as long as the object is owned here.
    pub(super) fn compare_in_background(self: &Rc<Self>) {
        let (context, owned) = (self.context.clone(), Rc::downgrade(self));
        // Where an owner begins looks drawn: of many that own the object for a while each compares another part.
        let epoch = self.epoch();
        let begin = mixed(mixed(self.id.0 as u64 ^ epoch.number) ^ epoch.incarnation.0);
        context.env.clone().spawn(async move {
            let mut part = begin;
            // The first pause is a part of one, so that objects that one host took over together do not stay in step.
            let mut rest =
                Self::pause_of(&owned).map(|pause| pause.mul_f64((begin >> 40) as f64 / (1u64 << 24) as f64));
            while let Some(left) = rest {
                let sleeps = left.min(SLEEP_MAX);
                context.env.sleep(sleeps).await;
                let pause = Self::pause_of(&owned);
                rest = pause.map(|pause| pause.min(left.saturating_sub(sleeps)));
                if rest == Some(Duration::ZERO)
                    && let Some(owned) = owned.upgrade()
                {
                    if owned.may_compare() {
                        owned.compare_part(part).await;
                        part = part.wrapping_add(1);
                    }
                    rest = pause;
                }
            }
        });
    }

    /// None where the object is not owned here any more.
    fn pause_of(owned: &Weak<Self>) -> Option<Duration> {
        let owned = owned.upgrade().filter(|owned| owned.state.borrow().ended().is_none())?;
        let period = owned.context.options.borrow().compare_period;
        let parts = Parts::of(&owned.config());
        Some(if period.is_zero() { SLEEP_MAX } else { parts.pause(period).max(PAUSE_MIN) })
    }

    /// X1.
    pub(super) fn may_compare(&self) -> bool {
        let context = &self.context;
        let asked_for = !context.options.borrow().compare_period.is_zero();
        let state = self.state.borrow();
        let rests = state.ended().is_none() && !state.has_failures() && !state.is_draining();
        asked_for && rests && self.resyncs.borrow().is_empty() && context.level.get().has(Feature::CompareCopies)
    }

    async fn compare_part(self: &Rc<Self>, part: u64) {
        let Some((set, range)) = Parts::of(&self.config()).get(part) else { return };
        if let Some(rows) = self.rows_of(set) {
            return self.compare_rows_of(rows, set, range).await;
        }
        let (copies, digests) = self.ask_digests(set, range).await;
        self.context.count(|counted| counted.compared_bytes += range.bytes() * copies.len() as u64);
        for region in differing(range.regions(), &digests) {
            if self.may_compare() {
                self.compare_region(set, region, range).await;
            }
        }
    }

    /// Members of rows hold different bytes, so digests tell nothing: each region is asked for block by block.
    async fn compare_rows_of(self: &Rc<Self>, rows: Rows, set: ReplicaSetIndex, range: BlockRange) {
        self.context.count(|counted| counted.compared_bytes += range.bytes() * u64::from(rows.members()));
        for region in range.regions() {
            let first = u64::from(region) * u64::from(REGION_BLOCKS);
            let Some(own) = BlockRange::new(first, REGION_BLOCKS).intersection(range) else { return };
            if !self.may_compare() {
                return;
            }
            self.compare_rows(rows, set, own).await;
        }
    }

    /// Compares a region in which digests differed.
    async fn compare_region(self: &Rc<Self>, set: ReplicaSetIndex, region: RegionIndex, within: BlockRange) {
        let first = u64::from(region) * u64::from(REGION_BLOCKS);
        let Some(range) = BlockRange::new(first, REGION_BLOCKS).intersection(within) else { return };
        for object_range in self.area_of(set).map(|area| area.to_object(set, range)).unwrap_or_default() {
            let lock = self.locks.lock(object_range, false).await;
            let Some(piece) = self.piece_of(set, object_range) else { return };
            let (_, digests) = self.ask_digests(set, piece.range).await;
            if differing(piece.range.regions(), &digests).is_empty() {
                continue;
            }
            let (copies, states) = self.ask_states(set, piece.range).await;
            let found = differences(&states, piece.range);
            for (range, _) in found.iter().filter(|(_, verdict)| *verdict == Verdict::Undecided) {
                self.undecided(set, *range, &copies).await;
            }
            drop(lock);
            for (range, _) in found.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Later { .. })) {
                self.repair_older(set, *range).await;
            }
        }
    }

    /// X3: looks once more, nobody else writing or reading, and overwrites what is earlier.
    async fn repair_older(self: &Rc<Self>, set: ReplicaSetIndex, range: BlockRange) {
        for object_range in self.area_of(set).map(|area| area.to_object(set, range)).unwrap_or_default() {
            let lock = Rc::new(self.locks.lock(object_range, true).await);
            let Some(piece) = self.piece_of(set, object_range).filter(|_| self.may_compare()) else { return };
            let (copies, states) = self.ask_states(set, piece.range).await;
            for (range, verdict) in differences(&states, piece.range) {
                let Verdict::Later { holder, older } = verdict else { continue };
                let Ok(contents) = self.read_leg(copies[holder], range, For::Resync).await else {
                    // The later state went bad where it is: as long as it may come back, the earlier one does not take its place here.
                    self.tell_undecided(range, &copies).await;
                    continue;
                };
                if !self.may_compare() {
                    return;
                }
                // A part that goes over to another layout may have been read from the earlier state.
                self.conversion_failed();
                let mut repaired = true;
                for body in self.repairs(copies[holder], range, contents).await {
                    repaired &= self.start(set, ClientTag::default(), body, lock.clone()).await.is_ok();
                }
                if repaired {
                    self.tell_older(older.into_iter().map(|at| copies[at]), range).await;
                }
            }
        }
    }

    /// Nothing tells which copy is right. One of two whose bytes do not have their checksum is not: that is repaired as any bad block.
    async fn undecided(self: &Rc<Self>, set: ReplicaSetIndex, range: BlockRange, copies: &[Leg]) {
        let mut bad: BTreeSet<u64> = BTreeSet::new();
        if let [_, _] = copies {
            for leg in copies {
                if let Err(Refusal::BadBlocks(ranges)) = self.read_leg(*leg, range, For::Resync).await {
                    bad.extend(ranges.iter().flat_map(|range| range.first..range.end()));
                    self.repair_later(*leg, set, ranges);
                }
            }
        }
        let sound: Vec<u64> = (range.first..range.end()).filter(|block| !bad.contains(block)).collect();
        for run in sound.chunk_by(|one, next| one + 1 == *next) {
            self.tell_undecided(BlockRange::new(run[0], run.len() as u32), copies).await;
        }
    }

    async fn tell_older(&self, copies: impl Iterator<Item = Leg>, range: BlockRange) {
        let blocks = u64::from(range.count);
        for leg in copies {
            self.context.count(|counted| counted.older_blocks += blocks);
            let (object, name, component) = (self.id, self.name(), leg.component);
            let copy = (leg.link.host, leg.link.target.disk_group);
            self.context.tell(ObjectEvent::Older { object, name, component, copy, blocks });
            self.tell_compared(&leg, vec![range], Vec::new()).await;
        }
    }

    /// Under the lock of these blocks: a copy lists them until they are written.
    async fn tell_undecided(&self, range: BlockRange, copies: &[Leg]) {
        let blocks = u64::from(range.count);
        self.context.count(|counted| counted.undecided_blocks += blocks);
        let at = copies.iter().map(|leg| (leg.link.host, leg.link.target.disk_group)).collect();
        let (object, name) = (self.id, self.name());
        self.context.tell(ObjectEvent::Undecided { object, name, blocks, copies: at });
        for leg in copies {
            self.tell_compared(leg, Vec::new(), vec![range]).await;
        }
    }

    /// What comes of it is the disk group's; one that does not answer is told with the next pass.
    pub(super) async fn tell_compared(&self, leg: &Leg, repaired: Vec<BlockRange>, undecided: Vec<BlockRange>) {
        let (to, disk_group) = (leg.link.target, leg.link.target.disk_group);
        let request = Request::Compared { to, repaired, undecided };
        let _ = self.context.request(leg.link.host, disk_group, request, None).await;
    }

    /// Digests of those copies in sync that answer.
    async fn ask_digests(&self, set: ReplicaSetIndex, range: BlockRange) -> Told<Vec<u64>> {
        let regions = range.regions().len();
        let told = self.ask_copies(set, range, VerifyBy::Digests).await;
        let digests = told.into_iter().filter_map(|(leg, verified)| match verified {
            Verified::Digests(digests) if digests.len() == regions => Some((leg, digests)),
            _ => None,
        });
        digests.unzip()
    }

    /// What the copies in sync hold; nothing where one of them does not say, as it may be the one with the latest state.
    pub(super) async fn ask_states(&self, set: ReplicaSetIndex, range: BlockRange) -> Told<BlockStates> {
        let told = self.ask_copies(set, range, VerifyBy::Blocks).await;
        let states = told.into_iter().filter_map(|(leg, verified)| match verified {
            Verified::Blocks(states) if states.blocks.len() == range.count as usize => Some((leg, states)),
            _ => None,
        });
        let (copies, states): Told<BlockStates> = states.unzip();
        match states.len() == self.state.borrow().in_sync(set).len() {
            true => (copies, states),
            false => Told::default(),
        }
    }

    /// What ails a copy that does not answer is found by what guests and heartbeats ask.
    async fn ask_copies(&self, set: ReplicaSetIndex, range: BlockRange, by: VerifyBy) -> Vec<(Leg, Verified)> {
        let copies = self.state.borrow().readable(set);
        if copies.len() < 2 {
            return Vec::new();
        }
        let asks = copies.into_iter().map(|leg| {
            let request = Request::Verify { to: leg.link.target, range, by };
            let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None);
            async move { (leg, reply.await) }
        });
        let told = join_all(asks.collect::<Vec<_>>()).await.into_iter();
        told.filter_map(|(leg, reply)| match reply {
            Ok((Answer::Verified(verified), _)) => Some((leg, verified)),
            _ => None,
        })
        .collect()
    }
}
