//! Reads: which version of each block holds, where it stands, and whether its bytes are right.
//!
//! Promises    a block is returned only if its CRC-32C matches the one that index or map have for it (I7)
//!             a segment is not reused while a read of it is under way
//! Assumes     the object layer orders a read with overlapping writes
//!
//! The newest version holds, settled or not; below the index the map; blocks that neither has are holes.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use bytes::Bytes;
use cairn_env::{DiskError, DiskErrorKind, Env, PageBuf};
use cairn_format::{crc32c, zero_block_crc};
use cairn_metrics::StoreCounters;
use cairn_types::{BLOCK_BYTES, BlockRange, Canary, ComponentId, Contents, Crcs, Run, SnapshotId, Time};
use futures::future::join_all;

use crate::{
    component::{AtCut, Component, Newest, joined},
    components::Components,
    disk_group::Inner,
    error::{StoreError, StoreErrorKind, damaged},
    history::Then,
    latencies::{ReadSource, ReadWatch},
    leaf::{LEAF_BLOCKS, Leaf, LeafKey, Spot},
    map::Map,
    packed_read::PackedStretch,
    read_cache::{CACHED_READ_BLOCKS_MAX, ReadCache},
    records::{Body, Place, RecordId, Records},
    ring::Ring,
    segments::{LOG, Pin, Pins, Segments},
    state::State,
    view::View,
};

/// Blocks of one device read, at most.
const DEVICE_READ_BLOCKS_MAX: u64 = 256;
/// Leaves of the map that are read together while the cache has room for them: 2 MiB of addresses, in two or three pages of the
/// metadata. Each walk there goes through another thread.
const LEAVES_TOGETHER: u64 = 8;
/// Leaves that a transaction gets before others of the thread have a turn.
const LEAVES_AT_ONCE: usize = 256;
/// What zeroes that keep their space are read as.
static ZEROES: [u8; 64 * BLOCK_BYTES as usize] = [0; 64 * BLOCK_BYTES as usize];

/// Blocks that stand back to back on one device.
#[derive(Debug)]
struct Stretch {
    first_block: u64,
    crcs: Crcs,
    /// Of its blocks that are parity, as far as the last of those.
    row_checks: Vec<u32>,
    device: u8,
    offset: u64,
    segment: u64,
    _pin: Pin,
}

impl Stretch {
    fn push(&mut self, crc: u32, row_check: u32) {
        if row_check != 0 {
            self.row_checks.resize(self.crcs.len(), 0);
            self.row_checks.push(row_check);
        }
        self.crcs.push(crc);
    }
}

/// Where the parts of a range come from.
#[derive(Debug)]
enum Source {
    Hole(BlockRange),
    /// So many blocks of zeroes that keep their space.
    Zeroes(u32),
    /// One block that is in memory.
    Ready {
        data: Bytes,
        crc: u32,
        row_check: u32,
    },
    Device(Stretch),
    Packed(PackedStretch),
}

/// What came of reading a source.
enum Read {
    /// It was no read.
    None,
    Pages(Result<Bytes, DiskError>),
    /// Blocks, and which of them are bad.
    Unpacked(Result<(Bytes, Vec<u64>), DiskError>),
}

/// What a plan still needs, or the plan.
enum Plan {
    Leaves(Vec<LeafKey>),
    Sources(Vec<Source>),
}

impl<E: Env> Inner<E> {
    pub(crate) async fn read(self: Rc<Self>, id: ComponentId, range: BlockRange) -> Result<Contents, StoreError> {
        self.read_at(id, range, None).await
    }

    /// What blocks hold now, or held at the cut of a snapshot.
    pub(crate) async fn read_at(
        self: Rc<Self>,
        id: ComponentId,
        range: BlockRange,
        snapshot: Option<SnapshotId>,
    ) -> Result<Contents, StoreError> {
        self.state.borrow_mut().counters.read_operations += 1;
        let mut bad = Vec::new();
        // Twice: bytes that were wrong on their way from the device are right the second time.
        for _ in 0..2 {
            let sources = self.plan(id, range, snapshot).await?;
            let watch = self.read_begins(slowest(&sources));
            let (contents, wrong) = self.fetch(id, range, sources, snapshot.is_none()).await?;
            self.read_ended(id, watch);
            if wrong.is_empty() {
                return Ok(contents);
            }
            bad = wrong;
        }
        bad.sort_unstable();
        self.state.borrow_mut().counters.bad_blocks += bad.len() as u64;
        Err(bad_blocks(id, bad))
    }

    async fn plan(
        &self,
        id: ComponentId,
        range: BlockRange,
        snapshot: Option<SnapshotId>,
    ) -> Result<Vec<Source>, StoreError> {
        let mut fetched: BTreeMap<LeafKey, Arc<Leaf>> = BTreeMap::new();
        loop {
            let view = match snapshot {
                Some(snapshot) => Some(self.view_of(id, range, snapshot).await?),
                None => None,
            };
            let (plan, generation) = {
                let mut state = self.state.borrow_mut();
                if view.as_ref().is_some_and(|view| view.generation != state.map.generation()) {
                    continue;
                }
                (self.plan_now(&mut state, id, range, view.as_ref(), &fetched)?, state.map.generation())
            };
            let wanted = match plan {
                Plan::Sources(sources) => return Ok(sources),
                Plan::Leaves(wanted) => wanted,
            };
            let began = self.env.now();
            let together = {
                let state = self.state.borrow();
                with_neighbours(&state.components, &state.map, &wanted)
            };
            let leaves = match self.look_up_leaves(&together, None).await {
                // A damaged leaf costs its own blocks and no others.
                Err(_) if together.len() > wanted.len() => self.look_up_leaves(&wanted, None).await,
                leaves => leaves,
            };
            let leaves = match leaves {
                // Another copy has them, and they are written here again.
                Err(error) if error.kind == StoreErrorKind::Damaged && self.state.borrow().map.pages().is_some() => {
                    return Err(self.unreadable(id, range, &wanted));
                }
                leaves => leaves?,
            };
            self.map_was_read(id, began);
            if self.state.borrow_mut().map.keep_read(generation, &leaves) {
                fetched.extend(leaves);
            } else {
                fetched.clear();
            }
        }
    }

    /// The plan of a read from the state of this moment.
    fn plan_now(
        &self,
        state: &mut State,
        id: ComponentId,
        range: BlockRange,
        view: Option<&View>,
        fetched: &BTreeMap<LeafKey, Arc<Leaf>>,
    ) -> Result<Plan, StoreError> {
        let State { log, components, tier, map, cache, .. } = state;
        let component = components.not_lost(id)?;
        component.within(range)?;
        let (ring, records, segments) = (&log.ring, &components.records, tier.of(component.device));
        let (pins, sources, wanted, missing) = (&self.pins, Vec::new(), Vec::new(), Vec::new());
        // What is cached is of now.
        let cache = Some(cache).filter(|_| view.is_none());
        let mut planner =
            Planner { component, ring, records, segments, map, cache, pins, fetched, sources, wanted, missing };
        match view {
            None => component.newest(range).into_iter().for_each(|part| match part {
                Newest::Version(record, range) => planner.version(record, range),
                Newest::Mapped(range) => planner.mapped(range),
                Newest::Hole(range) => planner.hole(range),
            }),
            Some(view) => component.at_cut(range, view.cut.op, records).into_iter().for_each(|part| match part {
                AtCut::Version(record, range) => planner.version(record, range),
                AtCut::History(range, copy) => planner.then(range, copy, view),
            }),
        }
        if !planner.wanted.is_empty() {
            return Ok(Plan::Leaves(planner.wanted));
        }
        if planner.missing.is_empty() {
            Ok(Plan::Sources(planner.sources))
        } else {
            Err(bad_blocks(id, planner.missing))
        }
    }

    /// Leaves of the map; one that is not there is empty. `lost` takes the place of one whose page is damaged.
    pub(crate) async fn look_up_leaves(
        &self,
        wanted: &[LeafKey],
        lost: Option<Leaf>,
    ) -> Result<Vec<(LeafKey, Arc<Leaf>)>, StoreError> {
        let (mut ready, mut missing) = (Vec::new(), Vec::new());
        let in_pages = {
            let mut state = self.state.borrow_mut();
            for &key in wanted {
                match state.map.leaf(key) {
                    Some(leaf) => ready.push((key, leaf.clone())),
                    None => missing.push(key),
                }
            }
            state.map.pages().is_some()
        };
        if missing.is_empty() {
            return Ok(ready);
        }
        if in_pages {
            ready.extend(self.leaves_in_pages(&missing, lost).await?);
        } else {
            let leaves = self.leaves_of_rows(missing).await?;
            ready.extend(leaves.into_iter().map(|(key, leaf)| (key, Arc::new(leaf))));
        }
        Ok(ready)
    }

    /// Leaves that a transaction changes. Of a damaged page nothing is known: its blocks stay errors until they are written.
    pub(crate) async fn fetch_leaves(&self, wanted: &[LeafKey]) -> Result<Vec<(LeafKey, Arc<Leaf>)>, StoreError> {
        let mut found = Vec::with_capacity(wanted.len());
        for some in wanted.chunks(LEAVES_AT_ONCE) {
            found.extend(self.look_up_leaves(some, Some(Leaf::default())).await?);
            self.env.give_way().await;
        }
        Ok(found)
    }

    /// Carries the plan out. Returns what was read, and the blocks that were wrong.
    async fn fetch(
        &self,
        id: ComponentId,
        range: BlockRange,
        sources: Vec<Source>,
        is_now: bool,
    ) -> Result<(Contents, Vec<u64>), StoreError> {
        count_sources(&mut self.state.borrow_mut().counters, &sources);
        let reads = sources.iter().map(|source| {
            // Not in the future below: what reads a packed block is larger.
            let (pages, packed) = match source {
                Source::Device(stretch) => (Some(self.read_stretch(stretch)), None),
                Source::Packed(stretch) => (None, Some(Box::pin(self.read_packed(stretch)))),
                _ => (None, None),
            };
            async move {
                match (pages, packed) {
                    (Some(pages), _) => Read::Pages(pages.await),
                    (None, Some(packed)) => Read::Unpacked(packed.await),
                    (None, None) => Read::None,
                }
            }
        });
        let results = join_all(reads).await;
        let runs = Vec::with_capacity(sources.len());
        let mut contents = Contents { runs, data: Vec::with_capacity(sources.len()) };
        let mut wrong = Vec::new();
        let keep = is_now && range.count <= CACHED_READ_BLOCKS_MAX;
        for (source, result) in sources.into_iter().zip(results) {
            match (source, result) {
                (Source::Hole(range), _) => contents.push_hole(range.count),
                (Source::Zeroes(blocks), _) => push_zeroes(&mut contents, blocks),
                (Source::Ready { data, crc, row_check }, _) => {
                    push_blocks(&mut contents, data, Crcs::from_slice(&[crc]), &[row_check]);
                }
                (Source::Packed(stretch), Read::Unpacked(Ok((data, bad)))) => {
                    if bad.is_empty() && keep {
                        self.keep(id, stretch.first_block, &stretch.crcs, &data);
                    }
                    wrong.extend(bad);
                    push_blocks(&mut contents, data, stretch.crcs, &stretch.row_checks);
                }
                (Source::Packed(PackedStretch { device, .. }), Read::Unpacked(Err(error))) => {
                    return Err(self.device_gone(id, device, &error));
                }
                (Source::Device(stretch), Read::Pages(Ok(data))) => {
                    let bad = wrong_blocks(&stretch, &data);
                    if bad.is_empty() && keep {
                        self.keep(id, stretch.first_block, &stretch.crcs, &data);
                    }
                    wrong.extend(bad);
                    push_blocks(&mut contents, data, stretch.crcs, &stretch.row_checks);
                }
                (Source::Device(stretch), Read::Pages(Err(error))) => {
                    if stretch.device != LOG && error.kind == DiskErrorKind::Gone {
                        return Err(self.device_gone(id, stretch.device, &error));
                    }
                    let (data, bad) = self.salvage(&stretch).await;
                    wrong.extend(bad);
                    push_blocks(&mut contents, data, stretch.crcs, &stretch.row_checks);
                }
                (Source::Device(_) | Source::Packed(_), _) => unreachable!("every device source was read"),
            }
        }
        Ok((contents, wrong))
    }

    fn device_gone(&self, id: ComponentId, device: u8, error: &DiskError) -> StoreError {
        self.fail_device(device, error);
        StoreError::new(StoreErrorKind::Lost, format!("component {id} is lost: {error}"))
    }

    /// Blocks of a read that only these leaves know.
    fn unreadable(&self, id: ComponentId, range: BlockRange, leaves: &[LeafKey]) -> StoreError {
        let state = &mut *self.state.borrow_mut();
        let mut blocks: Vec<u64> = Vec::new();
        for &(_, leaf) in leaves {
            let own = BlockRange::new(leaf * LEAF_BLOCKS, LEAF_BLOCKS as u32).intersection(range);
            if let (Some(component), Some(own)) = (state.components.get(id), own) {
                blocks.extend(component.base.runs(own).into_iter().flat_map(|run| run.first..run.end()));
            }
        }
        blocks.retain(|block| {
            state.components.get(id).is_some_and(|c| c.extents.spans(BlockRange::new(*block, 1)).is_empty())
        });
        state.counters.bad_blocks += blocks.len() as u64;
        match blocks.is_empty() {
            true => damaged("a page of the block map is not readable"),
            false => bad_blocks(id, blocks),
        }
    }

    fn keep(&self, id: ComponentId, first_block: u64, crcs: &[u32], data: &Bytes) {
        let State { components, map, cache, .. } = &mut *self.state.borrow_mut();
        for (at, &crc) in crcs.iter().enumerate() {
            // The block may have changed since the plan; a later hit compares the CRC, and a change forgets it, so
            // it is kept only while the plan still holds.
            let block = first_block + at as u64;
            if crc_now(components, map, id, block) == Some(crc) {
                cache.insert(id, block, data, at, crc);
            }
        }
    }

    fn read_stretch(&self, stretch: &Stretch) -> impl Future<Output = Result<Bytes, DiskError>> + use<'_, E> {
        let len = stretch.crcs.len() as u32 * BLOCK_BYTES;
        self.read_device(stretch.device, stretch.offset, len)
    }

    /// Reads a failed stretch block by block: what can be had of it, and which blocks cannot.
    async fn salvage(&self, stretch: &Stretch) -> (Bytes, Vec<u64>) {
        let mut data = PageBuf::zeroed(stretch.crcs.len() * BLOCK_BYTES as usize);
        let mut bad = Vec::new();
        for ((at, &crc), to) in (0u64..).zip(&stretch.crcs).zip(data.chunks_exact_mut(BLOCK_BYTES as usize)) {
            let offset = stretch.offset + at * u64::from(BLOCK_BYTES);
            match self.read_device(stretch.device, offset, BLOCK_BYTES).await {
                Ok(block) if crc32c(&block) == crc => to.copy_from_slice(&block),
                _ => bad.push(stretch.first_block + at),
            }
        }
        (data.freeze(), bad)
    }

    pub(crate) async fn allocated(
        self: Rc<Self>,
        id: ComponentId,
        range: BlockRange,
    ) -> Result<Vec<(BlockRange, bool)>, StoreError> {
        allocated(&self.state.borrow().components, id, range)
    }

    /// A read of blocks begins, the slowest of which come from `source`.
    fn read_begins(&self, source: ReadSource) -> ReadWatch {
        ReadWatch { source, began: self.env.now() }
    }

    /// It ended.
    fn read_ended(&self, id: ComponentId, watch: ReadWatch) {
        let took = self.env.now().0.saturating_sub(watch.began.0);
        let state = &mut *self.state.borrow_mut();
        let reads = state.stages.of_component(id, &state.components);
        reads.record(watch.source, took);
    }

    /// The block map was read from the metadata since `began`.
    fn map_was_read(&self, id: ComponentId, began: Time) {
        let took = self.env.now().0.saturating_sub(began.0);
        let state = &mut *self.state.borrow_mut();
        state.stages.of_component(id, &state.components).map.get_or_insert_default().record(took);
    }
}

/// These are about to be read.
fn count_sources(counters: &mut StoreCounters, sources: &[Source]) {
    for source in sources {
        match source {
            Source::Hole(range) => counters.read_hole_bytes += range.bytes(),
            Source::Zeroes(blocks) => counters.read_hole_bytes += u64::from(*blocks) * u64::from(BLOCK_BYTES),
            Source::Ready { .. } => counters.read_cache_bytes += u64::from(BLOCK_BYTES),
            Source::Device(stretch) => {
                let bytes = stretch.crcs.len() as u64 * u64::from(BLOCK_BYTES);
                match stretch.device {
                    LOG => counters.read_log_bytes += bytes,
                    _ => counters.read_capacity_bytes += bytes,
                }
            }
            Source::Packed(stretch) => {
                counters.read_capacity_bytes += stretch.blocks() as u64 * u64::from(BLOCK_BYTES);
            }
        }
    }
}

/// The slowest of the places that a read comes from.
fn slowest(sources: &[Source]) -> ReadSource {
    let place = |source: &Source| match source {
        Source::Hole(_) | Source::Zeroes(_) | Source::Ready { .. } => ReadSource::Memory,
        Source::Device(stretch) if stretch.device == LOG => ReadSource::Log,
        Source::Device(_) | Source::Packed(_) => ReadSource::Capacity,
    };
    sources.iter().map(place).max().unwrap_or(ReadSource::Memory)
}

/// Blocks with these row checks come next; those behind the last one have none. Parity whose row check is 0 is told as data: whoever
/// reads it adds 0.
fn push_blocks(contents: &mut Contents, data: Bytes, crcs: Crcs, row_checks: &[u32]) {
    let of = |at: usize| row_checks.get(at).copied().unwrap_or(0);
    let mut from = 0;
    while from < crcs.len() {
        let is_parity = of(from) != 0;
        let end = (from..crcs.len()).find(|at| (of(*at) != 0) != is_parity).unwrap_or(crcs.len());
        let own = Crcs::from_slice(&crcs[from..end]);
        contents.runs.push(match is_parity {
            true => Run::Parity { crcs: own, row_checks: (from..end).map(of).collect() },
            false => Run::Data { crcs: own },
        });
        from = end;
    }
    contents.data.push(data);
}

/// Zeroes that keep their space are data: a copy that is filled with them keeps it, too.
fn push_zeroes(contents: &mut Contents, blocks: u32) {
    let mut left = blocks as usize;
    while left > 0 {
        let now = left.min(ZEROES.len() / BLOCK_BYTES as usize);
        let crcs = std::iter::repeat_n(zero_block_crc(), now).collect();
        contents.push_data(Bytes::from_static(&ZEROES[..now * BLOCK_BYTES as usize]), crcs);
        left -= now;
    }
}

fn bad_blocks(id: ComponentId, blocks: Vec<u64>) -> StoreError {
    let text = format!(
        "{} blocks of component {id} are unreadable or have a wrong checksum, the first is {}",
        blocks.len(),
        blocks[0]
    );
    StoreError::new(StoreErrorKind::BadBlock { component: id, blocks }, text)
}

fn wrong_blocks(stretch: &Stretch, data: &Bytes) -> Vec<u64> {
    if Canary::ChecksumUnread.sings() {
        return Vec::new();
    }
    let blocks = data.chunks_exact(BLOCK_BYTES as usize);
    let bad =
        |(at, (block, &crc)): (usize, (&[u8], &u32))| (crc32c(block) != crc).then_some(stretch.first_block + at as u64);
    blocks.zip(&stretch.crcs).enumerate().filter_map(bad).collect()
}

/// These leaves and those around them that have blocks, as long as nothing must leave the cache for that. A page of the map has some
/// leaves: those come along.
fn with_neighbours(components: &Components, map: &Map, wanted: &[LeafKey]) -> Vec<LeafKey> {
    if (wanted.len() as u64 * LEAVES_TOGETHER) > map.room() as u64 {
        return wanted.to_vec();
    }
    let mut all = Vec::with_capacity(wanted.len() * LEAVES_TOGETHER as usize);
    for &(id, leaf) in wanted {
        let first = leaf - leaf % LEAVES_TOGETHER;
        let has_blocks = |leaf: u64| {
            let range = BlockRange::new(leaf * LEAF_BLOCKS, LEAF_BLOCKS as u32);
            components.get(id).is_some_and(|component| component.base.count(range) > 0)
        };
        all.extend((first..first + LEAVES_TOGETHER).filter(|&n| n == leaf || has_blocks(n)).map(|n| (id, n)));
    }
    // Wanted ones may be each other's neighbours; they ascend.
    all.sort_unstable();
    all.dedup();
    all
}

/// The CRC that a block has now, as far as memory tells.
fn crc_now(components: &Components, map: &mut Map, id: ComponentId, block: u64) -> Option<u32> {
    let component = components.get(id)?;
    if let Some(span) = component.extents.spans(BlockRange::new(block, 1)).first() {
        return Some(components.records.of(span.versions[0]).crc(block));
    }
    let leaf = map.leaf((id, block / LEAF_BLOCKS))?;
    leaf.get(block).map(|entry| entry.crc)
}

fn allocated(
    components: &Components,
    id: ComponentId,
    range: BlockRange,
) -> Result<Vec<(BlockRange, bool)>, StoreError> {
    let component = components.known(id)?;
    let parts = component.newest(range).into_iter().map(|part| match part {
        Newest::Version(record, range) => (range, components.records.of(record).allocates()),
        Newest::Mapped(range) => (range, true),
        Newest::Hole(range) => (range, false),
    });
    Ok(joined(parts))
}

/// Collects sources; adjacent blocks that stand back to back become one read.
struct Planner<'a> {
    component: &'a Component,
    ring: &'a Ring,
    records: &'a Records,
    /// Of the component's device.
    segments: &'a Segments,
    map: &'a mut Map,
    /// Of what blocks hold now.
    cache: Option<&'a mut ReadCache>,
    pins: &'a Rc<Pins>,
    /// Leaves that were read for this plan.
    fetched: &'a BTreeMap<LeafKey, Arc<Leaf>>,
    sources: Vec<Source>,
    wanted: Vec<LeafKey>,
    /// Blocks that the bits have and the map has not.
    missing: Vec<u64>,
}

impl Planner<'_> {
    fn hole(&mut self, range: BlockRange) {
        if let Some(Source::Hole(last)) = self.sources.last_mut()
            && last.end() == range.first
        {
            last.count += range.count;
        } else {
            self.sources.push(Source::Hole(range));
        }
    }

    fn version(&mut self, record: RecordId, range: BlockRange) {
        let record = self.records.of(record);
        for block in range.first..range.end() {
            let sums = (record.crc(block), record.row_check(block));
            let index = block - record.range.first;
            match &record.body {
                Body::Zero { keep_allocated: true } => {
                    self.sources.push(Source::Zeroes((range.end() - block) as u32));
                    return;
                }
                Body::Zero { keep_allocated: false } => {
                    self.hole(BlockRange::new(block, (range.end() - block) as u32));
                    return;
                }
                Body::Data { place: Place::Log(position), .. } => {
                    let position = position + index * u64::from(BLOCK_BYTES);
                    let offset = self.ring.device_offset(position);
                    let segment = self.ring.physical(self.ring.segment_of(position));
                    self.block(block, sums, (LOG, offset, segment));
                }
                Body::Data { place: Place::Spots(spots), .. } => {
                    let spot = spots[index as usize];
                    self.spot(block, sums, spot);
                }
            }
        }
    }

    /// `sums`: CRC and row check.
    fn spot(&mut self, block: u64, sums: (u32, u32), spot: Spot) {
        if spot == Spot::ZERO {
            self.sources.push(Source::Zeroes(1));
            return;
        }
        if spot == Spot::BAD && Canary::MarkForgotten.sings() {
            self.sources.push(Source::Zeroes(1));
            return;
        }
        let segments = self.segments;
        // A mark; or no spot, or one that the device does not have: damage of the metadata.
        let Some(spot) = segments.place_of(spot) else { return self.missing.push(block) };
        if spot.is_packed() {
            return self.packed(block, sums, spot);
        }
        let place = (self.component.device, segments.offset_of(spot), u64::from(segments.segment_of(spot)));
        self.block(block, sums, place);
    }

    fn packed(&mut self, block: u64, (crc, row_check): (u32, u32), spot: Spot) {
        if let Some(data) = self.cache.as_mut().and_then(|cache| cache.get(self.component.id, block, crc)) {
            self.sources.push(Source::Ready { data, crc, row_check });
            return;
        }
        let (device, segment) = (self.component.device, u64::from(self.segments.segment_of(spot)));
        let last = self.sources.last_mut();
        if let Some(Source::Packed(last)) =
            last.filter(|last| matches!(last, Source::Packed(of) if of.takes(block, spot, segment)))
        {
            last.push(spot, crc, row_check);
            return;
        }
        let pin = self.pins.pin(device, segment);
        let mut stretch = PackedStretch::new(block, (device, self.segments.segments_offset, segment), pin);
        stretch.push(spot, crc, row_check);
        self.sources.push(Source::Packed(stretch));
    }

    fn block(&mut self, block: u64, (crc, row_check): (u32, u32), (device, offset, segment): (u8, u64, u64)) {
        if let Some(data) = self.cache.as_mut().and_then(|cache| cache.get(self.component.id, block, crc)) {
            self.sources.push(Source::Ready { data, crc, row_check });
            return;
        }
        if let Some(Source::Device(last)) = self.sources.last_mut() {
            let len = last.crcs.len() as u64;
            let follows = last.device == device
                && last.first_block + len == block
                && last.offset + len * u64::from(BLOCK_BYTES) == offset
                && last.segment == segment
                && len < DEVICE_READ_BLOCKS_MAX;
            if follows {
                last.push(crc, row_check);
                return;
            }
        }
        let _pin = self.pins.pin(device, segment);
        let (crcs, row_checks) = (Crcs::new(), Vec::new());
        let mut stretch = Stretch { first_block: block, crcs, row_checks, device, offset, segment, _pin };
        stretch.push(crc, row_check);
        self.sources.push(Source::Device(stretch));
    }

    /// Blocks as they were at a cut, where the index alone does not tell: `copy` brought what they held before later writes.
    fn then(&mut self, range: BlockRange, copy: Option<RecordId>, view: &View) {
        for block in range.first..range.end() {
            let one = BlockRange::new(block, 1);
            match (view.at(self.component.id, block), copy) {
                (Then::AsNow, Some(copy)) => self.version(copy, one),
                (Then::AsNow, None) if self.component.base.get(block) => self.mapped(one),
                (Then::AsNow, None) | (Then::Hole, _) => self.hole(one),
                (Then::Entry(entry), _) => self.spot(block, (entry.crc, entry.row_check), entry.spot),
                (Then::Lost, _) => self.missing.push(block),
            }
        }
    }

    /// Blocks that only the map knows.
    fn mapped(&mut self, range: BlockRange) {
        let mut leaf: Option<(u64, Arc<Leaf>)> = None;
        for block in range.first..range.end() {
            let number = block / LEAF_BLOCKS;
            if leaf.as_ref().is_none_or(|(n, _)| *n != number) {
                let key = (self.component.id, number);
                let found = self.fetched.get(&key).cloned().or_else(|| self.map.leaf(key).cloned());
                let Some(found) = found else {
                    if self.wanted.last() != Some(&key) {
                        self.wanted.push(key);
                    }
                    continue;
                };
                leaf = Some((number, found));
            }
            let entry = leaf.as_ref().and_then(|(_, leaf)| leaf.get(block));
            // The bits and the map change in one transaction; a difference is damage of the metadata.
            match entry {
                Some(entry) => self.spot(block, (entry.crc, entry.row_check), entry.spot),
                None => self.missing.push(block),
            }
        }
    }
}
