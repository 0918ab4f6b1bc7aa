//! One metadata transaction: gathered from the state as it is (marks of a round a little before), written, then made true in memory.
//!
//! Promises    what it writes is a state from which replay of the log from its tail leads to the present one (I8): rows
//!             may be ahead of the tail, never behind
//!             memory changes only when the transaction is durable
//! Assumes     one transaction at a time (destage and cleaning are one task)

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use cairn_env::Env;
use cairn_format::{HistoryAt, SHARD_BLOCKS, history_rows};
use cairn_types::{BlockRange, Canary, ComponentId, OpId, RegionIndex, UnsettledOp};

use crate::{
    bitmap::BaseBits,
    changes::MapChanges,
    component::Component,
    components::Components,
    deltas::{Delta, WHOLE_FROM_BLOCKS},
    disk_group::Inner,
    error::{StoreError, StoreErrorKind, damaged},
    history_shard::Over,
    index::Below,
    leaf::{Entry, LEAF_BLOCKS, Leaf, LeafKey, Spot},
    live::{check_live, live_changes},
    map::Map,
    meta::Batch,
    pending,
    records::{Body, Place, Record, RecordId, Records},
    rows::{self, ComponentRow, DeletedRow, RegionRow, StateRow},
    seats::Seats,
    shards::{Part, ShardKey, shard_of},
    share_changes::ShareChanges,
    state::State,
    stats::LogHealth,
    tier::Tier,
};

/// A run of blocks that the map takes over from a record.
#[derive(Debug, Clone)]
pub(crate) struct Folded {
    pub record: RecordId,
    pub component: ComponentId,
    pub range: BlockRange,
}

/// A run of blocks of an unsettled operation that moves from the log into a pending row.
#[derive(Debug, Clone)]
pub(crate) struct MadePending {
    pub old: RecordId,
    pub number: u64,
    pub record: Record,
}

/// Bits of the regions of one component that a transaction changes.
#[derive(Debug, Default)]
struct BitsAfter {
    regions: BTreeSet<RegionIndex>,
    bits: BaseBits,
}

/// What a transaction changes.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    batch: Batch,
    /// Leaves as they will be. One that changes is copied, if somebody else has it.
    leaves: BTreeMap<LeafKey, Arc<Leaf>>,
    /// What of them changes: a bit for each block that gets another entry.
    put: BTreeMap<LeafKey, u64>,
    /// Leaves that are written as they are, with all that waits for them.
    whole: BTreeSet<LeafKey>,
    /// Leaves that are removed.
    gone: Vec<LeafKey>,
    /// Slots that something refers to from now on, or not any more.
    added: Vec<(u8, Spot)>,
    dropped: Vec<(u8, Spot)>,
    /// Bits of the map that change.
    bits: Vec<(ComponentId, BlockRange, bool)>,
    folded: Vec<Folded>,
    pending: Vec<MadePending>,
    moved_pending: Vec<MovedPending>,
    /// Marks that were taken from their components before the others.
    marks: Vec<(ComponentId, RegionIndex, OpId)>,
    tail: Option<u64>,
    /// The round whose blocks it refers to.
    ticket: Option<u64>,
    /// Blocks that it keeps an entry of, by generation of the cut.
    kept: BTreeSet<(ComponentId, u32, u64)>,
    /// What it added to leaves that it did not write as a whole.
    deltas: Vec<(LeafKey, Delta)>,
    /// The same where the map is in pages.
    changes: MapChanges,
    /// What it does to items with several references.
    pub shares: ShareChanges,
}

/// What stands in no spot is no parity any more: of its bytes the checksum is all that is left.
fn as_kept(entry: Option<Entry>) -> Option<Entry> {
    entry.map(|entry| Entry { row_check: if entry.spot.is_place() { entry.row_check } else { 0 }, ..entry })
}

/// What changes an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct By {
    pub op: OpId,
    pub is_copy: bool,
}

impl By {
    pub fn record(record: &Record) -> Self {
        Self { op: record.op, is_copy: record.is_copy }
    }
}

/// A spot of a pending row that moves.
#[derive(Debug, Clone, Copy)]
struct MovedPending {
    record: RecordId,
    row: u64,
    index: usize,
    from: Spot,
    to: Spot,
}

impl Transaction {
    /// Starts with the leaves that it will change.
    pub fn with_leaves(leaves: impl IntoIterator<Item = (LeafKey, Arc<Leaf>)>) -> Self {
        Self { leaves: leaves.into_iter().collect(), ..Self::default() }
    }
    /// Brings more of them along.
    pub fn bring(&mut self, leaves: impl IntoIterator<Item = (LeafKey, Arc<Leaf>)>) {
        self.leaves.extend(leaves);
    }
    /// About so many blocks will be folded: room for them at once.
    pub fn reserve(&mut self, blocks: usize) {
        self.folded.reserve(blocks);
        self.added.reserve(blocks);
        self.dropped.reserve(blocks);
    }
    fn leaf(&mut self, component: ComponentId, block: u64) -> &mut Leaf {
        let leaf = self.leaves.get_mut(&(component, block / LEAF_BLOCKS)).expect("leaves are fetched before");
        Arc::make_mut(leaf)
    }
    /// The log's tail moves here.
    pub fn move_tail(&mut self, tail: u64) {
        self.tail = Some(tail);
    }
    /// A leaf that it brought along is written as it is, with all that waits for it.
    pub fn write_whole(&mut self, key: LeafKey) {
        self.whole.insert(key);
    }
    /// A leaf goes, with all that waits for it.
    pub fn remove_leaf(&mut self, key: LeafKey) {
        self.batch.insert(rows::leaf_key(key.0, key.1), None);
        self.gone.push(key);
    }
    /// Shards that were packed anew, and history.
    pub fn exchange(&mut self, folded: Vec<crate::map_pages::Folded>, components: &Components) {
        for folded in folded {
            let device = components.device_of(folded.key.0.0);
            for (_, entry) in &folded.dropped {
                device.into_iter().for_each(|device| self.drop_spot(device, entry.spot));
            }
            self.changes.folded.push(folded);
        }
    }
    /// Nothing is left of a shard.
    pub fn remove_shard(&mut self, key: ShardKey) {
        self.changes.gone.push(key);
    }
    /// With it the round is over whose blocks it refers to.
    pub fn ends(&mut self, ticket: u64) {
        self.ticket = Some(ticket);
    }
    pub fn remove_key(&mut self, key: Vec<u8>) {
        self.batch.insert(key, None);
    }
    pub fn drop_spot(&mut self, device: u8, spot: Spot) {
        if spot.is_place() {
            self.dropped.push((device, spot));
        }
    }
    pub fn add_spot(&mut self, device: u8, spot: Spot) {
        if spot.is_place() {
            self.added.push((device, spot));
        }
    }
    /// The map's entry of a block, as it will be.
    pub fn entry(&self, component: ComponentId, block: u64) -> Option<Entry> {
        self.leaves[&(component, block / LEAF_BLOCKS)].get(block)
    }
    /// Whether the leaf was brought along.
    pub fn has_leaf(&self, key: LeafKey) -> bool {
        self.leaves.contains_key(&key)
    }
    /// [`Self::set_entry`] for an operation, unless the block holds a later one: then false. A component never applies an
    /// operation to a block that holds a later one. What was there becomes history where a snapshot views it, unless `by` came as a copy.
    pub fn set_entry_of(&mut self, component: &Component, block: u64, by: By, entry: Option<Entry>) -> bool {
        let leaf = self.leaves.get_mut(&(component.id, block / LEAF_BLOCKS)).expect("leaves are fetched before");
        let (old, entry) = (leaf.get(block), as_kept(entry));
        if old.is_some_and(|old| old.op > by.op) {
            return false;
        }
        Arc::make_mut(leaf).set(block, entry);
        let given_up = if self.keep(component, block, by, old) { None } else { old };
        self.entry_changed(component, block, old, entry, given_up);
        true
    }
    /// Changes the map's entry; the spot that it named before is given up.
    pub fn set_entry(&mut self, component: &Component, block: u64, entry: Option<Entry>) {
        let (leaf, entry) = (self.leaf(component.id, block), as_kept(entry));
        let old = leaf.get(block);
        leaf.set(block, entry);
        self.entry_changed(component, block, old, entry, old);
    }
    /// Makes history of an entry. False where it is none: no cut is below the operation, or the block has an entry of that cut.
    fn keep(&mut self, component: &Component, block: u64, by: By, old: Option<Entry>) -> bool {
        let Some(generation) = component.cuts.generation_below(by.op).filter(|_| !by.is_copy) else { return false };
        if Canary::HoleNotKept.sings() && old.is_none()
            || Canary::KeptByOperation.sings() && old.is_some_and(|old| !component.cuts.parts(old.op, by.op))
        {
            return false;
        }
        if component.cuts.has(generation, block) || !self.kept.insert((component.id, generation, block)) {
            return false;
        }
        let hole = Entry { spot: Spot::HOLE, crc: 0, row_check: 0, op: OpId::ZERO };
        self.changes.history.push((component.id, (block, generation), old.unwrap_or(hole), Over::Nothing));
        true
    }
    /// An entry of history stands elsewhere from now on.
    pub fn move_history(&mut self, component: &Component, at: HistoryAt, entry: Entry, from: Spot) {
        self.drop_spot(component.device, from);
        self.changes.history.push((component.id, at, entry, Over::Alike));
    }
    /// Another copy of the component tells what a block held at a cut. What history has of it by itself, `old`, is given up.
    pub fn fill_history(&mut self, component: &Component, at: HistoryAt, entry: Entry, old: Option<Entry>) {
        let is_hole = |entry: &Entry| entry.spot == Spot::HOLE;
        let over = match old {
            None => Over::Nothing,
            Some(old) if is_hole(&old) == is_hole(&entry) => Over::Alike,
            Some(_) => Over::Unlike,
        };
        self.add_spot(component.device, entry.spot);
        old.into_iter().for_each(|old| self.drop_spot(component.device, old.spot));
        let entry = as_kept(Some(entry)).expect("it is one");
        self.changes.history.push((component.id, at, entry, over));
    }
    fn entry_changed(
        &mut self,
        component: &Component,
        block: u64,
        old: Option<Entry>,
        entry: Option<Entry>,
        given_up: Option<Entry>,
    ) {
        self.changes.entries.push((component.id, block, entry));
        let key = (component.id, block / LEAF_BLOCKS);
        *self.put.entry(key).or_default() |= 1 << (block % LEAF_BLOCKS);
        if entry.is_none() {
            // A delta has entries only.
            self.whole.insert(key);
        }
        if let Some(given_up) = given_up {
            self.drop_spot(component.device, given_up.spot);
        }
        if old.is_some() != entry.is_some() {
            let one = BlockRange::new(block, 1);
            match self.bits.last_mut() {
                Some((id, range, value))
                    if *id == component.id && range.end() == block && *value == entry.is_some() =>
                {
                    range.count += 1;
                }
                _ => self.bits.push((component.id, one, entry.is_some())),
            }
        }
    }
    /// Blocks of the range that it maps and that were not mapped before.
    pub fn newly_mapped(&self, component: ComponentId, range: BlockRange) -> Vec<BlockRange> {
        let own = self.bits.iter().filter(|(id, _, value)| *value && *id == component);
        own.filter_map(|(_, mapped, _)| mapped.intersection(range)).collect()
    }
    pub fn fold(&mut self, folded: Folded) {
        self.folded.push(folded);
    }
    /// `known`: its operation; `has_cuts`: its component has.
    pub fn make_pending(&mut self, made: MadePending, known: Option<&UnsettledOp>, has_cuts: bool) {
        let row = pending::row_of(&made.record, known, has_cuts);
        self.batch.insert(rows::pending_key(made.number), Some(rows::encode(&row)));
        self.pending.push(made);
    }
    /// The pending row of a settled record goes: the map takes over what of it is live. `live` tells which blocks are.
    pub fn resolve(&mut self, components: &mut Components, id: RecordId, live: impl Fn(u64) -> bool) {
        let record = components.records.of(id);
        let device = components.of(record.component).device;
        if let Body::Data { place: Place::Spots(spots), .. } = &record.body {
            for (block, &spot) in (record.range.first..).zip(spots.iter()) {
                if !live(block) {
                    self.drop_spot(device, spot);
                }
            }
        }
        // From now on the record only reads: neither its row nor its spots are its own any more.
        let number = components.records.leave_row(id);
        self.batch.insert(rows::pending_key(number), None);
    }
    /// A spot of a pending row moves (cleaning). The row is written by [`Self::gather`].
    pub fn move_pending(&mut self, records: &Records, record: RecordId, index: usize, from: Spot, to: Spot) {
        let row = records.of(record).row.expect("a pending record has a row").get();
        self.moved_pending.push(MovedPending { record, row, index, from, to });
    }

    /// Adds everything that the metadata does not have yet.
    pub fn gather(&mut self, state: &mut State) {
        let tail = self.tail.unwrap_or(state.log.ring.tail());
        let in_pages = state.map.pages().is_some();
        if in_pages {
            self.changes.number = state.map.begin_commit();
            self.changes.put_in_order();
        }
        self.gather_garbage(&mut state.components, &state.tier);
        self.gather_moved(&state.components);
        self.gather_components(&mut state.components, tail, state.log.ring.segment_of(tail), in_pages);
        self.gather_segments(&mut state.tier, in_pages);
        if in_pages {
            let past = self.changes.folded.iter().flat_map(|folded| &folded.leaves).chain(&self.gone);
            for &(component, leaf) in past {
                for delta in state.map.deltas().of((component, leaf)) {
                    self.batch.insert(rows::delta_key(delta.number, component, leaf), None);
                }
            }
            self.changes.shared = self.shares.done().to_vec();
            self.changes.write(&mut self.batch, &mut state.map, &mut state.tier, &state.components);
        }
        self.gather_seats(&mut state.seats, tail);
        let scrub = state.findings.take_row();
        self.batch.extend(scrub.map(|row| (rows::scrub_key(), Some(rows::encode(&row)))));
        let settings = state.settings.take_row();
        self.batch.extend(settings.map(|row| (rows::settings_key(), Some(row.encode()))));
        let damaged_at = match state.log.health() {
            LogHealth::Sound => None,
            LogHealth::Damaged { ends_at } => Some(ends_at),
        };
        let row = StateRow {
            tail,
            durable_position: state.log.ring.durable(),
            damaged_at,
            next_pending: state.map.next_pending(),
        };
        self.batch.insert(rows::state_key(), Some(rows::encode(&row)));
    }

    /// Takes some of the marks that are due. False where none are.
    fn take_marks(&mut self, state: &mut State) -> bool {
        let State { components, log, .. } = state;
        let tail_segment = log.ring.segment_of(self.tail.unwrap_or(log.ring.tail()));
        let Some(component) = components.all_mut().find(|component| component.has_dirty_regions(tail_segment)) else {
            return false;
        };
        let due = component.take_dirty_regions(tail_segment, STEP);
        self.marks.extend(due.into_iter().map(|(region, op)| (component.id, region, op)));
        true
    }

    fn gather_garbage(&mut self, components: &mut Components, tier: &Tier) {
        let mut kept = Vec::new();
        for garbage in std::mem::take(&mut components.records.garbage) {
            let device = components.device_of(garbage.component);
            if device.is_some_and(|d| tier.of(d).failed) {
                // Should the device be there again at the next opening, it still counts these spots as in use.
                kept.push(garbage);
                continue;
            }
            self.batch.insert(rows::pending_key(garbage.row), None);
            if let Some(device) = device {
                garbage.spots.into_iter().for_each(|spot| self.drop_spot(device, spot));
            }
        }
        components.records.garbage = kept;
    }

    fn gather_moved(&mut self, components: &Components) {
        let mut by_record: BTreeMap<RecordId, Vec<(usize, Spot)>> = BTreeMap::new();
        for moved in &self.moved_pending {
            by_record.entry(moved.record).or_default().push((moved.index, moved.to));
        }
        for (id, moves) in by_record {
            let record = components.records.of(id);
            let mut moved = record.clone();
            let Body::Data { place: Place::Spots(spots), .. } = &mut moved.body else {
                continue;
            };
            moves.into_iter().for_each(|(index, spot)| spots[index] = spot);
            let component = components.of(record.component);
            let known = component.window.get(record.op).map(|unsettled| &unsettled.info);
            let number = record.row.expect("a pending record has a row").get();
            let row = pending::row_of(&moved, known, !component.cuts.is_empty());
            self.batch.insert(rows::pending_key(number), Some(rows::encode(&row)));
        }
    }

    fn gather_components(&mut self, components: &mut Components, tail: u64, tail_segment: u64, in_pages: bool) {
        let mut changed = if in_pages { BTreeMap::new() } else { self.bits_after(components) };
        let mut marks = std::mem::take(&mut self.marks);
        // A component may have gone since.
        marks.retain(|(id, ..)| components.is_here(*id));
        for component in components.all_mut() {
            component.trim_undone(tail);
            for (number, row) in component.outcomes.take_changes(tail) {
                self.batch.insert(rows::client_key(component.id, number), row.map(|row| rows::encode(&row)));
            }
            let after = changed.remove(&component.id).unwrap_or_default();
            let due = component.take_dirty_regions(tail_segment, usize::MAX);
            let mut regions: BTreeSet<RegionIndex> = after.regions.clone();
            match in_pages {
                true => marks.extend(due.into_iter().map(|(region, op)| (component.id, region, op))),
                false => regions.extend(due.into_iter().map(|(region, _)| region)),
            }
            for region in regions {
                let base = if after.regions.contains(&region) {
                    after.bits.region(region)
                } else {
                    component.base.region(region)
                };
                let row = RegionRow { op: component.regions.get(region).map(|mark| mark.op).unwrap_or_default(), base };
                self.batch.insert(rows::region_key(component.id, region), Some(rows::encode(&row)));
            }
            if std::mem::take(&mut component.cuts.dirty) {
                let row = rows::encode(&component.cuts.row());
                self.batch.insert(history_rows::cuts_key(component.id), Some(row));
            }
            if std::mem::take(&mut component.dirty) {
                let row = component_row(component);
                self.batch.insert(rows::component_key(component.id), Some(rows::encode(&row)));
            }
        }
        self.changes.take_marks(marks);
        for (id, deleted) in components.deleted_mut() {
            if deleted.emptied && deleted.position < tail {
                self.batch.insert(rows::deleted_key(id), None);
            } else if std::mem::take(&mut deleted.dirty) {
                let row = DeletedRow { device: deleted.device, position: deleted.position, emptied: deleted.emptied };
                self.batch.insert(rows::deleted_key(id), Some(rows::encode(&row)));
                self.batch.insert(rows::component_key(id), None);
                self.batch.insert(history_rows::cuts_key(id), None);
            }
        }
    }

    /// The bits of every region that changes, as they will be.
    fn bits_after(&self, components: &Components) -> BTreeMap<ComponentId, BitsAfter> {
        let mut changed: BTreeMap<ComponentId, BitsAfter> = BTreeMap::new();
        for (id, range, value) in &self.bits {
            let Some(component) = components.get(*id) else {
                continue;
            };
            let after = changed.entry(*id).or_default();
            for region in range.regions() {
                if after.regions.insert(region) {
                    after.bits.load(region, component.base.region(region));
                }
            }
            after.bits.set(*range, *value);
        }
        changed
    }

    /// Names become what they do to places; whether every place that is given up is one that its segment counts.
    fn settle_places(&mut self, tier: &Tier) -> Result<(), StoreError> {
        self.shares.settle(tier, &mut self.added, &mut self.dropped).map_err(damaged)?;
        check_live(tier, &self.added, &self.dropped)
    }

    fn gather_segments(&mut self, tier: &mut Tier, in_pages: bool) {
        let mut change = live_changes(tier, &self.added, &self.dropped);
        for (device, segments) in (0u8..).zip(tier.devices_mut()) {
            for segment in std::mem::take(&mut segments.dirty) {
                change.entry((device, segment)).or_default();
            }
        }
        for ((device, segment), change) in change {
            let segments = tier.of(device);
            if !segments.failed {
                let row = segments.row_after(segment, change);
                if in_pages {
                    self.changes.segments.push((device, segment, row));
                } else {
                    self.batch.insert(rows::segment_key(device, segment), Some(rows::encode(&row)));
                }
            }
        }
    }

    /// Which leaves are written as a whole, and of the others what changed. With the former their deltas go.
    fn split_leaves(&mut self, batch: &mut Batch, map: &Map) -> Vec<(LeafKey, u64)> {
        let mut parts = Vec::with_capacity(self.put.len());
        for (key, put) in std::mem::take(&mut self.put) {
            if put.count_ones() < WHOLE_FROM_BLOCKS && !self.whole.contains(&key) {
                parts.push((key, put));
            } else {
                self.whole.insert(key);
            }
        }
        for &(component, leaf) in self.whole.iter().chain(&self.gone) {
            for delta in map.deltas().of((component, leaf)) {
                batch.insert(rows::delta_key(delta.number, component, leaf), None);
            }
        }
        parts
    }

    fn gather_seats(&mut self, seats: &mut Seats, tail: u64) {
        seats.take_changes(tail, |object, row| {
            self.batch.insert(rows::object_key(object), row.map(|row| rows::encode(&row)));
        });
    }

    /// Makes memory follow, once the transaction is durable. In steps, as it is some milliseconds of work: reads may run
    /// between them. They find the new leaves from the first step on, or versions that still stand in the log, which is
    /// given up in the last.
    async fn take_effect<E: Env>(mut self, inner: &Inner<E>) {
        let mut gave_up = Vec::new();
        let number = self.changes.number;
        // Before leaves that name them; those without references when nothing names them any more.
        let (shared, gone): (Vec<_>, Vec<_>) = self.shares.take_done().into_iter().partition(|change| change.count > 0);
        in_steps(inner, shared, |state, change| state.tier.take_shared(change, number)).await;
        if inner.state.borrow().map.pages().is_some() {
            gave_up = self.take_pages(inner).await;
        } else {
            let mut state = inner.state.borrow_mut();
            state.map.commit(self.whole.into_iter().chain(self.gone), self.deltas, self.leaves);
        }
        in_steps(inner, self.added, |state, (device, spot)| state.tier.of_mut(device).add_live(spot)).await;
        in_steps(inner, self.bits, |state, (id, range, value)| {
            state.components.change(&mut state.tier, id, |c, records| {
                let Component { extents, base, cuts, .. } = c;
                extents.rebase(range, (base, cuts), records, |base, _| base.set(range, value));
            });
        })
        .await;
        in_steps(inner, self.folded, |state, folded| take_fold(&mut state.components, &mut state.tier, folded)).await;
        let mut state = inner.state.borrow_mut();
        let state = &mut *state;
        for moved in self.moved_pending {
            state.components.records.move_spot(moved.record, moved.row, moved.index, (moved.from, moved.to));
        }
        for made in self.pending {
            take_pending(&mut state.components, &mut state.tier, made);
        }
        // Only now: until here a version in the index may still have been read in the place of these.
        gone.into_iter().for_each(|change| state.tier.take_shared(change, number));
        for (device, spot) in self.dropped {
            state.tier.of_mut(device).drop_live(spot);
        }
        if let Some(pages) = state.map.pages_mut().filter(|_| !Canary::PlaceReusedEarly.sings()) {
            pages.zone.free(gave_up);
        }
        state.look_at_metadata();
        if let Some(ticket) = self.ticket {
            state.twins.is_durable(ticket, state.tier.len());
            state.round_over(ticket);
        }
        if let Some(tail) = self.tail {
            let segment = state.log.ring.segment_of(tail);
            state.log.ring.move_tail(tail);
            state.components.records.forget_segments_below(segment);
            state.tier.let_go_below(segment);
            // Nothing of the index is of operations before it any more.
            state.components.all_mut().for_each(|component| component.cuts.forget_before(tail));
        }
        state.look_at_log();
        let tail = state.log.ring.tail();
        state.seats.forget_before(tail);
        state.components.forget_deleted_before(tail);
    }

    /// The same of a map in pages. Gives the places that are free once all of it is over.
    async fn take_pages<E: Env>(&mut self, inner: &Inner<E>) -> Vec<u32> {
        let gave_up = {
            let map = &mut inner.state.borrow_mut().map;
            let gave_up = self.changes.exchange(map);
            map.forget_deltas(&self.gone);
            map.changes();
            gave_up
        };
        let number = self.changes.number;
        let history = std::mem::take(&mut self.changes.history);
        if !history.is_empty() {
            // Before what replaces it, and told by another generation: a view that found none yet must not take what is there now.
            in_steps(inner, history, |state, kept| take_history(state, kept, number)).await;
            inner.state.borrow_mut().map.changes();
        }
        in_steps(inner, std::mem::take(&mut self.changes.entries), |state, (id, block, entry)| {
            let pages = state.map.pages_mut().expect("it stays in pages");
            pages.shards.put(id, block, entry, number);
        })
        .await;
        in_steps(inner, std::mem::take(&mut self.changes.dropped), |state, (id, blocks)| {
            state.components.change(&mut state.tier, id, |c, _| c.history_blocks -= blocks);
        })
        .await;
        let changed = |(key, leaf)| self.put.contains_key(&key).then_some((key, leaf));
        let leaves = std::mem::take(&mut self.leaves).into_iter().filter_map(changed).collect();
        // What was read since has some of this and lacks the rest: it is not kept over what comes now.
        inner.state.borrow_mut().map.changes();
        in_steps(inner, leaves, |state, (key, leaf)| state.map.keep_leaf(key, leaf)).await;
        gave_up
    }
}

/// Changes of one step: some 0.1 ms.
const STEP: usize = 256;

async fn in_steps<E: Env, T>(inner: &Inner<E>, changes: Vec<T>, act: impl Fn(&mut State, T)) {
    let mut changes = changes.into_iter();
    while changes.len() > 0 {
        {
            let mut state = inner.state.borrow_mut();
            changes.by_ref().take(STEP).for_each(|change| act(&mut state, change));
        }
        inner.env.give_way().await;
    }
}

fn component_row(component: &Component) -> ComponentRow {
    ComponentRow {
        object: component.object,
        size_blocks: component.size_blocks,
        reserved_blocks: component.reserved_blocks,
        device: component.device,
        lost: component.lost,
        settled: component.settled,
        undone: component.undone.iter().map(|(op, position)| (*op, *position)).collect(),
    }
}

/// A block has history from now on.
fn take_history(state: &mut State, (id, at, entry, over): (ComponentId, HistoryAt, Entry, Over), number: u64) {
    let (block, generation) = at;
    let key = shard_of((id, block / LEAF_BLOCKS));
    let place = ((block % SHARD_BLOCKS) as u16, generation);
    let pages = state.map.pages_mut().expect("it stays in pages");
    pages.shards.put_history(key, number, [(place, entry, over)]);
    if over != Over::Alike {
        state.components.change(&mut state.tier, id, |c, records| {
            let Component { extents, base, cuts, history_blocks, .. } = c;
            let range = BlockRange::new(block, 1);
            extents.rebase(range, (base, cuts), records, |_, cuts| cuts.note(generation, range));
            *history_blocks = history_blocks.checked_add_signed(over.blocks_more(&entry)).expect("it was counted");
        });
    }
}

fn take_fold(components: &mut Components, tier: &mut Tier, folded: Folded) {
    let Folded { record, component, range } = folded;
    components.change(tier, component, |c, records| {
        let Component { extents, base, cuts, .. } = c;
        extents.drop_version(record, range, Below { base, cuts }, records);
    });
}

fn take_pending(components: &mut Components, tier: &mut Tier, made: MadePending) {
    let (component, range) = (made.record.component, made.record.range);
    let spots = match &made.record.body {
        Body::Data { place: Place::Spots(spots), .. } => spots.to_vec(),
        _ => Vec::new(),
    };
    let id = components.records.add(made.record, None);
    components.change(tier, component, |c, records| {
        let Component { extents, base, cuts, .. } = c;
        extents.replace(made.old, id, range, Below { base, cuts }, records);
    });
    if components.records.of(id).live == 0 {
        // Undone or superseded while the transaction was under way.
        components.records.drop_unused(id, spots);
    }
}

impl<E: Env> Inner<E> {
    /// Writes the transaction and makes it true. An error stops the disk group: its cache device failed, or its
    /// metadata is damaged.
    pub(crate) async fn commit(&self, mut transaction: Transaction) -> Result<(), StoreError> {
        transaction.settle_places(&self.state.borrow().tier)?;
        transaction.gather(&mut self.state.borrow_mut());
        if self.state.borrow().map.pages().is_some() {
            return self.commit_pages(transaction).await;
        }
        let mut batch = std::mem::take(&mut transaction.batch);
        let parts = transaction.split_leaves(&mut batch, &self.state.borrow().map);
        let (leaves, whole) = (std::mem::take(&mut transaction.leaves), std::mem::take(&mut transaction.whole));
        let number = self.state.borrow_mut().map.begin_commit();
        let meta = self.meta.clone();
        // Leaves are most of the bytes: they are encoded where it delays nobody.
        let job = move || {
            for &(component, leaf) in &whole {
                let contents = &leaves[&(component, leaf)];
                let value = (!contents.is_empty()).then(|| contents.encode());
                batch.insert(rows::leaf_key(component, leaf), value);
            }
            let mut deltas = Vec::with_capacity(parts.len());
            for ((component, leaf), part) in parts {
                let row = leaves[&(component, leaf)].encode_part(part);
                let delta = Delta { number, row: row.as_slice().into(), entries: part.count_ones() };
                deltas.push(((component, leaf), delta));
                batch.insert(rows::delta_key(number, component, leaf), Some(row));
            }
            let bytes: u64 = batch.iter().map(|(k, v)| (k.len() + v.as_ref().map_or(0, Vec::len)) as u64).sum();
            meta.commit(batch).map(|()| (leaves, whole, deltas, bytes))
        };
        let result = self.env.run_blocking(job).await;
        let (leaves, whole, deltas, bytes) = match result {
            Ok(done) => done,
            Err(error) => {
                self.state.borrow_mut().map.end_commit();
                let error = StoreError::new(StoreErrorKind::Media, format!("commit the metadata: {error}"));
                return Err(error.said_by(self.meta.device_error()));
            }
        };
        self.state.borrow_mut().counters.metadata_row_bytes += bytes;
        (transaction.leaves, transaction.whole, transaction.deltas) = (leaves, whole, deltas);
        transaction.take_effect(self).await;
        self.state.borrow_mut().map.end_commit();
        Ok(())
    }
    /// Does of a round what need not be done in the one moment in which its transaction is put together: sorts its entries, and takes the
    /// marks that are due so far. Over terabytes these were half of that moment. Not where what was decided must not be a moment old, as
    /// when pending rows move.
    pub(crate) async fn begin_gathering(&self, transaction: &mut Transaction) {
        if self.state.borrow().map.pages().is_none() {
            return;
        }
        transaction.changes.put_in_order();
        self.env.give_way().await;
        while transaction.take_marks(&mut self.state.borrow_mut()) {
            self.env.give_way().await;
        }
    }

    /// The same where the map is in pages: those of the folded shards are durable already.
    async fn commit_pages(&self, mut transaction: Transaction) -> Result<(), StoreError> {
        let (mut batch, add_rows) = (std::mem::take(&mut transaction.batch), transaction.changes.take_rows());
        let meta = self.meta.clone();
        let job = move || {
            let pieces = add_rows(&mut batch);
            let bytes: u64 = batch.iter().map(|(k, v)| (k.len() + v.as_ref().map_or(0, Vec::len)) as u64).sum();
            meta.commit(batch).map(|()| (pieces, bytes))
        };
        let (pieces, bytes) = match self.env.run_blocking(job).await {
            Ok(done) => done,
            Err(error) => {
                self.state.borrow_mut().map.end_commit();
                let error = StoreError::new(StoreErrorKind::Media, format!("commit the metadata: {error}"));
                return Err(error.said_by(self.meta.device_error()));
            }
        };
        transaction.changes.pieces = pieces;
        self.state.borrow_mut().counters.metadata_row_bytes += bytes;
        transaction.take_effect(self).await;
        self.state.borrow_mut().map.end_commit();
        Ok(())
    }

    /// Packs those shards anew, and writes their pages, that are due before a transaction that adds so many entries. Nothing of a
    /// transaction is decided before that: it is put together in one moment.
    pub(crate) async fn fold_due(&self, adds: u64) -> Result<Vec<crate::map_pages::Folded>, StoreError> {
        let due = self.state.borrow().map.shards_due(adds);
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let mut folds = Vec::with_capacity(due.len());
        for (key, part) in due {
            folds.push(match part {
                Part::Map => self.prepare_fold(key).await?,
                Part::History => self.prepare_history(key, 0..0).await?,
            });
        }
        self.write_folds(folds).await
    }
}
