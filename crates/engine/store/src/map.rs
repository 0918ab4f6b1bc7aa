//! The block map of the disk group: the leaves that are in memory, what waits to be written into leaves, how far it has come.
//!
//! Promises    a leaf that was read before a transaction is never kept after it: [`Map::keep_read`] compares generations
//! Assumes     one transaction at a time
//! Not here    what a leaf is (`leaf.rs`), what of it waits (`deltas.rs`, `shards.rs`), reading leaves (`read.rs`), transactions (`transaction.rs`)

use std::sync::Arc;

use bytes::Bytes;
use cairn_cache::ClockCache;
use cairn_format::{MAP_PAGE_BYTES, Needs, history_rows::HistoryPageRef, map_rows::PageRef};
use cairn_types::{ComponentId, OpId};

use crate::{
    deltas::{Delta, Deltas},
    leaf::{LEAF_CACHED_BYTES, Leaf, LeafCache, LeafKey},
    segment_hand::SegmentHand,
    shards::{Bounds, FoldKey, ShardKey, Shards},
    zone::{Room, Zone},
};

/// Bytes of a cached page with its place in the tree.
const PAGE_CACHED_BYTES: u64 = MAP_PAGE_BYTES as u64 + 128;
/// Leaves in memory, at least.
const LEAVES_MIN: u64 = 16;

/// What memory has of the map.
#[derive(Debug)]
pub(crate) struct Map {
    leaves: LeafCache,
    /// Pages as they are on the device, by place: a leaf takes twice as much memory as its part of one.
    page_cache: ClockCache<u32, Bytes>,
    /// What the leaves in the metadata lack.
    deltas: Deltas,
    /// Counts the changes: a leaf read under an older one may be out of date.
    generation: u64,
    /// A transaction is being written: the metadata may be ahead of memory.
    committing: bool,
    next_pending: u64,
    /// None while the group is kept as version 0.2.0 knows it: leaves are rows then.
    pages: Option<Pages>,
}

/// The map in pages.
#[derive(Debug)]
pub(crate) struct Pages {
    pub shards: Shards,
    pub zone: Zone,
    pub hand: SegmentHand,
    bounds: Bounds,
    /// Leaves that come to a page, at most.
    pub page_leaves_max: usize,
    /// There may be rows of an earlier release: leaves, regions, segments.
    pub has_rows: bool,
    /// They are not to be touched: somebody else makes transactions.
    pub rows_stay: bool,
    /// The superblock says that there may be cuts.
    pub may_have_cuts: bool,
    /// How far the sweep of a component's history is: of which list of cuts, and the shard and the block from which on it is not.
    pub swept: Option<(ComponentId, OpId, (u16, u64))>,
}

impl Pages {
    pub fn new(room: Room, bounds: Bounds, page_leaves_max: usize) -> Self {
        let (shards, zone, hand) = (Shards::default(), Zone::new(room), SegmentHand::default());
        Self {
            shards,
            zone,
            hand,
            bounds,
            page_leaves_max,
            has_rows: true,
            rows_stay: false,
            may_have_cuts: false,
            swept: None,
        }
    }
    /// Of a group whose superblock says so.
    pub fn with_needs(self, needs: Needs) -> Self {
        Self { may_have_cuts: needs.include(Needs::CUTS), ..self }
    }
    /// The group has a device more.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }
    /// Entries that may wait.
    pub fn waiting_max(&self) -> u64 {
        self.bounds.waiting
    }
}

impl Map {
    pub fn new(cache_bytes: u64) -> Self {
        Self {
            leaves: LeafCache::new((cache_bytes / LEAF_CACHED_BYTES).max(LEAVES_MIN) as usize),
            page_cache: ClockCache::new((cache_bytes / 4 * 3 / PAGE_CACHED_BYTES) as usize),
            deltas: Deltas::default(),
            generation: 0,
            committing: false,
            next_pending: 0,
            pages: None,
        }
    }

    pub fn pages(&self) -> Option<&Pages> {
        self.pages.as_ref()
    }
    pub fn pages_mut(&mut self) -> Option<&mut Pages> {
        self.pages.as_mut()
    }
    /// From now on it is in pages, as far as anything changes.
    pub fn begin_pages(&mut self, pages: Pages) {
        self.pages = Some(pages);
    }
    /// A page that was read before, if it is in memory.
    pub fn page(&mut self, place: u32) -> Option<Bytes> {
        self.page_cache.get(place).cloned()
    }
    /// Keeps a page that was read, unless its place is another one's meanwhile.
    pub fn keep_page(&mut self, key: ShardKey, page: PageRef, bytes: &Bytes) {
        let shard = self.pages.as_ref().and_then(|pages| pages.shards.get(key));
        if shard.and_then(|shard| shard.page_of(u64::from(page.first))) == Some(page) {
            self.page_cache.insert(page.place, bytes.clone());
        }
    }
    /// The same of a page of history.
    pub fn keep_history_page(&mut self, key: ShardKey, page: HistoryPageRef, bytes: &Bytes) {
        let shard = self.pages.as_ref().and_then(|pages| pages.shards.history(key));
        if shard.is_some_and(|shard| {
            shard.pages().binary_search_by_key(&page.first, |of| of.first).is_ok_and(|at| shard.pages()[at] == page)
        }) {
            self.page_cache.insert(page.place, bytes.clone());
        }
    }
    /// Something else is being written to the place.
    pub fn forget_page(&mut self, place: u32) {
        self.page_cache.remove_range(place..=place);
    }
    /// Shards that a transaction folds which adds so many entries.
    pub fn shards_due(&self, adds: u64) -> Vec<FoldKey> {
        self.pages.as_ref().map_or_else(Vec::new, |pages| pages.shards.due(adds, pages.bounds))
    }
    /// The number of the last transaction.
    pub fn number(&self) -> u64 {
        self.deltas.number()
    }
    /// Takes the number of a transaction from the metadata.
    pub fn load_number(&mut self, number: u64) {
        self.deltas.load_number(number);
    }
    /// What waited for these leaves as rows is in pages, or gone.
    pub fn forget_deltas(&mut self, leaves: &[LeafKey]) {
        leaves.iter().for_each(|key| self.deltas.remove(*key));
    }
    /// What is read from now on is of another state than what was read before.
    pub fn changes(&mut self) {
        self.generation += 1;
    }
    /// Exchanges leaves that are in memory, and brings those along that change.
    pub fn keep_leaf(&mut self, key: LeafKey, leaf: Arc<Leaf>) {
        self.leaves.insert(key, leaf);
    }

    /// A leaf, if it is in memory.
    pub fn leaf(&mut self, key: LeafKey) -> Option<&Arc<Leaf>> {
        self.leaves.get(key)
    }
    /// Leaves that may come into memory without another one leaving it.
    pub fn room(&self) -> usize {
        self.leaves.room()
    }
    /// What is to be put over a leaf of the metadata.
    pub fn deltas(&self) -> &Deltas {
        &self.deltas
    }
    pub fn generation(&self) -> u64 {
        self.generation
    }
    /// Nothing changed since that generation, and nothing is about to.
    pub fn rests_at(&self, generation: u64) -> bool {
        self.generation == generation && !self.committing
    }

    /// Keeps leaves that were read under `generation`. False when a transaction came between: what was read may name spots that
    /// are free now.
    pub fn keep_read(&mut self, generation: u64, leaves: &[(LeafKey, Arc<Leaf>)]) -> bool {
        if self.generation != generation {
            return false;
        }
        leaves.iter().for_each(|(key, leaf)| self.leaves.insert(*key, leaf.clone()));
        true
    }
    /// The component's map is empty.
    pub fn forget_component(&mut self, id: ComponentId) {
        self.leaves.remove_range((id, 0)..=(id, u64::MAX));
    }
    pub fn forget_leaf(&mut self, key: LeafKey) {
        self.leaves.remove_range(key..=key);
    }
    /// Forgets what can be read again.
    pub fn drop_caches(&mut self) {
        self.leaves.clear();
        self.page_cache.clear();
    }

    /// Leaves that a transaction takes up which adds `blocks` entries, so that what waits keeps its bound beside a log of so many blocks.
    pub fn take_leaves_to_fold(&mut self, blocks: usize, log_blocks: u64) -> Vec<LeafKey> {
        if self.pages.is_some() {
            return Vec::new();
        }
        self.deltas.take_due(blocks as u64, log_blocks)
    }
    /// The number of the next pending row.
    pub fn take_pending_number(&mut self) -> u64 {
        self.next_pending += 1;
        self.next_pending - 1
    }
    /// The same, not taken.
    pub fn next_pending(&self) -> u64 {
        self.next_pending
    }

    /// A transaction begins to be written; gives its number.
    pub fn begin_commit(&mut self) -> u64 {
        self.committing = true;
        self.deltas.take_number()
    }
    /// It is durable: these leaves are as a whole what memory gets, to those `added` more waits.
    pub fn commit(
        &mut self,
        written: impl IntoIterator<Item = LeafKey>,
        added: Vec<(LeafKey, Delta)>,
        leaves: impl IntoIterator<Item = (LeafKey, Arc<Leaf>)>,
    ) {
        written.into_iter().for_each(|key| self.deltas.remove(key));
        added.into_iter().for_each(|(key, delta)| self.deltas.add(key, delta));
        leaves.into_iter().for_each(|(key, leaf)| self.leaves.insert(key, leaf));
        // Leaves that a read fetched before are out of date.
        self.generation += 1;
    }
    /// The transaction is over: it took effect, or failed.
    pub fn end_commit(&mut self) {
        self.committing = false;
    }

    /// Takes a delta from the metadata.
    pub fn load_delta(&mut self, key: LeafKey, delta: Delta) {
        self.deltas.add(key, delta);
    }
    /// Takes the counter of pending rows from the metadata.
    pub fn load_next_pending(&mut self, number: u64) {
        self.next_pending = number;
    }
}
