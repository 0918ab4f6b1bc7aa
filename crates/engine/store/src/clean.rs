//! Giving space back: emptying the maps of deleted components, trimming zeroed ranges, cleaning segments.
//!
//! Promises    a spot is given up only in the transaction that drops its last reference
//!             of a segment that is cleaned, the heads of its runs and what is live are read, and little else
//! Assumes     the destage task calls: no map change is under way
//! Source      cost-benefit cleaning: Rosenblum & Ousterhout, SOSP 1991
//!
//! Every transaction here is bounded, whatever the size of a disk that is deleted or trimmed.

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn_env::{DiskErrorKind, Env, PageBuf};
use cairn_format::{HistoryAt, Needs, PAGE_SECTORS, RunEntry, RunError, SECTOR_BYTES, SHARD_BLOCKS, decode_run_header};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId};
use futures::{StreamExt, future::join_all, stream};

use crate::{
    capacity::{CapacityWriter, Item, OutBlock},
    components::Components,
    disk_group::Inner,
    error::{StoreError, damaged},
    history::{History, Swept},
    hits::Shared,
    leaf::{Entry, LEAF_BLOCKS, Leaf, LeafKey, Spot},
    records::{Body, Place, RecordId},
    rows,
    segments::Segments,
    shards::{ShardKey, shard_of},
    state::State,
    tier::Tier,
    transaction::{By, Transaction},
};

/// Leaves that one transaction empties, at most: 256 MiB of addresses, about 1.4 MB of rows.
const TRIM_LEAVES_MAX: usize = 1024;
/// Segments that one cleaning transaction empties, at most.
const CLEAN_SEGMENTS_MAX: usize = 4;
/// Segments that stay free for the next round, beside what this one writes.
const FREE_SEGMENTS_LOW: u64 = 2;
/// What is read of a run at first: the header of one with 1,000 blocks.
const HEADER_PAGES_AT_ONCE: u32 = 8;
/// Blocks of one read, at most, and how far apart two may be that are read together: the best segments to clean have little that is
/// live, and to read all of a segment for that took most of a device's time (28 bytes read for each one moved).
const BLOCKS_AT_ONCE: usize = 16;
const READ_THROUGH: u64 = 8;
/// Reads at once: small ones, of which the access time is most, and destage waits for all of them.
const READS_AT_ONCE: usize = 16;
const PAGE: u64 = BLOCK_BYTES as u64;

/// Blocks on their way, each with where it stood.
type Moves = Vec<(Spot, OutBlock)>;

/// Who a spot belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Map(Entry),
    Pending(RecordId, usize),
    /// A block that a snapshot views, of the component.
    History(HistoryAt, Entry),
    /// Several, by this name.
    Shared(Spot),
}

/// What became of segments that were to be emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emptied {
    Done,
    NoRoom,
    /// Their device failed.
    Failed,
}

/// What tells who a spot belongs to.
struct Owners<'a> {
    components: &'a Components,
    segments: &'a Segments,
    pending: BTreeMap<Spot, (RecordId, usize)>,
    history: &'a BTreeMap<LeafKey, History>,
}

impl<E: Env> Inner<E> {
    /// Empties the maps of deleted components.
    pub(crate) async fn empty_deleted(&self) -> Result<(), StoreError> {
        let ids = {
            let state = self.state.borrow();
            state.components.deleted_to_empty(&state.tier)
        };
        for id in ids {
            while self.empty_part(id).await? {}
        }
        Ok(())
    }

    /// Removes a bounded part of a deleted component's rows. False when none are left.
    async fn empty_part(&self, id: ComponentId) -> Result<bool, StoreError> {
        let shard = self.state.borrow().map.pages().and_then(|pages| pages.shards.first_of(id));
        if let Some(shard) = shard {
            return self.empty_shard(shard).await.map(|()| true);
        }
        let history = self.state.borrow().map.pages().and_then(|pages| Some(pages.shards.history_from((id, 0))?.0));
        if let Some(key) = history {
            return Ok(self.sweep_part(key, 0).await? != Swept::NoRoom);
        }
        let waiting = self.state.borrow().map.deltas().of_component(id, TRIM_LEAVES_MAX);
        if !waiting.is_empty() {
            return self.empty_leaves(id, waiting).await.map(|()| true);
        }
        let mut found = Vec::new();
        for kind in [rows::LEAF, rows::REGION, rows::CLIENT] {
            let key = rows::key(kind, &[&id.0.to_be_bytes()]);
            let to = rows::key(kind, &[&id.0.to_be_bytes(), &[u8::MAX; 9]]);
            let meta = self.meta.clone();
            let limit = TRIM_LEAVES_MAX - found.len();
            found.extend(self.env.run_blocking(move || meta.scan(&key, &to, limit)).await.map_err(damaged)?);
            if found.len() >= TRIM_LEAVES_MAX {
                break;
            }
        }
        let mut transaction = Transaction::default();
        let device = self.state.borrow().components.device_of(id).expect("only this task removes it");
        for (key, bytes) in &found {
            if key[0] == rows::LEAF {
                let leaf = Leaf::decode(bytes).ok_or_else(|| damaged("a leaf of the block map is not readable"))?;
                leaf.entries().for_each(|(_, entry)| transaction.drop_spot(device, entry.spot));
            }
            transaction.remove_key(key.clone());
        }
        let last = found.len() < TRIM_LEAVES_MAX;
        if last {
            let State { components, tier, .. } = &mut *self.state.borrow_mut();
            components.emptied(tier, id);
        }
        self.commit(transaction).await?;
        self.state.borrow_mut().map.forget_component(id);
        Ok(!last)
    }

    /// Removes a shard of a deleted component.
    async fn empty_shard(&self, key: ShardKey) -> Result<(), StoreError> {
        let device = self.state.borrow().components.device_of(key.0).expect("only this task removes it");
        let (entries, leaves) = self.entries_of_shard(key).await?;
        let mut transaction = Transaction::default();
        entries.into_iter().for_each(|(_, entry)| transaction.drop_spot(device, entry.spot));
        leaves.iter().for_each(|leaf| transaction.remove_leaf(*leaf));
        transaction.remove_shard(key);
        self.commit(transaction).await
    }

    /// Removes leaves of a deleted component whose rows are not all of them.
    async fn empty_leaves(&self, id: ComponentId, keys: Vec<LeafKey>) -> Result<(), StoreError> {
        let device = self.state.borrow().components.device_of(id).expect("only this task removes it");
        let mut transaction = Transaction::default();
        for (key, leaf) in self.fetch_leaves(&keys).await? {
            leaf.entries().for_each(|(_, entry)| transaction.drop_spot(device, entry.spot));
            transaction.remove_leaf(key);
        }
        self.commit(transaction).await?;
        keys.into_iter().for_each(|key| self.state.borrow_mut().map.forget_leaf(key));
        Ok(())
    }

    /// Takes what settled zeroes of this round cover out of the map.
    pub(crate) async fn trim_zeroes(&self, zeroes: &[Item]) -> Result<(), StoreError> {
        for item in zeroes {
            let runs = runs_to_trim(&self.state.borrow().components, item);
            let mut keys: Vec<LeafKey> = runs
                .iter()
                .flat_map(|run| run.first / LEAF_BLOCKS..=(run.end() - 1) / LEAF_BLOCKS)
                .map(|leaf| (item.component, leaf))
                .collect();
            keys.dedup();
            for part in keys.chunks(TRIM_LEAVES_MAX) {
                let exchanged = self.fold_due(part.len() as u64 * LEAF_BLOCKS).await?;
                let leaves = self.fetch_leaves(part).await?;
                let mut transaction = Transaction::with_leaves(leaves);
                transaction.exchange(exchanged, &self.state.borrow().components);
                let gone = !plan_trim(&self.state.borrow().components, item, part, &mut transaction);
                self.commit(transaction).await?;
                self.admit_short_of_room();
                if gone {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Cleans a device until it has free segments for `blocks` more. False when it cannot.
    pub(crate) async fn clean_for(&self, device: u8, blocks: u64) -> Result<bool, StoreError> {
        loop {
            let (needed, free) = {
                let state = self.state.borrow();
                let segments = state.tier.of(device);
                if segments.failed {
                    return Ok(true);
                }
                let needed = blocks.div_ceil(segments.slots_per_segment().max(1));
                (needed, segments.free_segments())
            };
            if free >= needed + FREE_SEGMENTS_LOW {
                return Ok(true);
            }
            // What copies were appended to can be cleaned as well, once nobody appends to it.
            self.state.borrow_mut().tier.of_mut(device).close_streams();
            if !self.clean(device).await? {
                // Nothing to gain any more. One stays free, or cleaning could never begin again.
                let state = self.state.borrow();
                return Ok(state.tier.of(device).free_segments() > needed || blocks == 0);
            }
        }
    }

    /// Moves what is live out of a few segments. False when that gains nothing.
    async fn clean(&self, device: u8) -> Result<bool, StoreError> {
        let victims = choose_victims(&self.state.borrow().tier, device, &self.pins);
        let before = self.state.borrow().tier.of(device).free_segments();
        if victims.is_empty() {
            return Ok(false);
        }
        match self.empty(device, &victims, false).await? {
            Emptied::Done => {}
            Emptied::NoRoom => return Ok(false),
            Emptied::Failed => return Ok(true),
        }
        let mut state = self.state.borrow_mut();
        state.counters.cleaned_segments += victims.len() as u64;
        Ok(state.tier.of(device).free_segments() > before)
    }

    /// Moves what is live out of segments, as it is or as it is chosen now.
    pub(crate) async fn empty(&self, device: u8, victims: &[u32], anew: bool) -> Result<Emptied, StoreError> {
        let mut named: Vec<(Spot, RunEntry)> = Vec::new();
        for found in join_all(victims.iter().map(|&segment| self.read_headers(device, segment))).await {
            match found {
                Some(found) => named.extend(found),
                None => return Ok(Emptied::Failed),
            }
        }
        let folded = self.leaves_to_fold(named.len());
        let keys = leaves_of(&self.state.borrow().components, &named, &folded);
        let leaves = self.fetch_leaves(&keys).await?;
        let mut transaction = Transaction::with_leaves(leaves);
        folded.into_iter().for_each(|key| transaction.write_whole(key));
        let history = self.history_of_named(device, &named, &transaction).await;
        self.keep_owned(device, &history, &transaction, &mut named);
        let spots: Vec<Spot> = named.iter().map(|(spot, _)| *spot).collect();
        let Some(data) = self.read_spots(device, &spots).await else {
            return Ok(Emptied::Failed);
        };
        let (mut moved, lost) = self.out_blocks(named, data);
        if !lost.is_empty() {
            self.take_needs(Needs::BAD_MARKS).await?;
        }
        moved.sort_by_key(|(_, b)| (b.pending, b.component, b.block));
        let (old, blocks): (Vec<Spot>, Vec<OutBlock>) = moved.into_iter().unzip();
        let ticket = self.state.borrow_mut().tier.take_ticket();
        let written = match anew {
            true => {
                let kinds = self.kinds_of(device, &history, (&old, &blocks), &transaction);
                self.write_anew((device, ticket), (&blocks, kinds), &mut transaction).await?
            }
            false => {
                let new = self.write_blocks(device, &blocks, CapacityWriter::Clean(ticket)).await;
                new.filter(|new| new.len() == blocks.len()).map(|new| (new, Shared::default()))
            }
        };
        // What was found stays pinned until it is over.
        let Some((new, _shared)) = written else {
            let mut state = self.state.borrow_mut();
            state.round_over(ticket);
            return Ok(if state.tier.of(device).failed { Emptied::Failed } else { Emptied::NoRoom });
        };
        transaction.ends(ticket);
        let exchanged = self.fold_due((blocks.len() + lost.len()) as u64).await?;
        transaction.exchange(exchanged, &self.state.borrow().components);
        plan_moves(
            &Owners::of(&self.state.borrow(), device, &history),
            device,
            &blocks,
            (&old, &new),
            &mut transaction,
        );
        self.plan_marks(device, lost, &history, &mut transaction);
        self.commit(transaction).await?;
        let mut state = self.state.borrow_mut();
        state.tier.next_round();
        state.counters.cleaned_bytes += blocks.iter().map(|block| block.data.len() as u64).sum::<u64>();
        state.counters.dedupe_moved_items += blocks.iter().filter(|block| block.name.is_some()).count() as u64;
        Ok(Emptied::Done)
    }

    /// Of blocks that leave a segment, whether each is parity. None for those that have to stay as they are.
    fn kinds_of(
        &self,
        device: u8,
        history: &BTreeMap<LeafKey, History>,
        (old, blocks): (&[Spot], &[OutBlock]),
        transaction: &Transaction,
    ) -> Vec<Option<bool>> {
        let state = self.state.borrow();
        let owners = Owners::of(&state, device, history);
        let kind = |(spot, block): (&Spot, &OutBlock)| owners.is_parity(*spot, &block.entry(), transaction);
        old.iter().zip(blocks).map(kind).collect()
    }

    /// Takes out what nobody refers to, and gives names to what several do.
    fn keep_owned(
        &self,
        device: u8,
        history: &BTreeMap<LeafKey, History>,
        transaction: &Transaction,
        named: &mut Vec<(Spot, RunEntry)>,
    ) {
        let state = self.state.borrow();
        let owners = Owners::of(&state, device, history);
        named.retain_mut(|(spot, entry)| {
            let owner = owners.of_spot(*spot, entry, transaction);
            if let Some(Owner::Shared(name)) = owner {
                // Its new run names the item, and nobody who refers to it.
                let component = ComponentId::default();
                *entry = RunEntry { component, block: 0, pending: false, name: Some(name), ..*entry };
            }
            owner.is_some()
        });
    }

    /// What moves, and what cannot be read and becomes a mark.
    fn out_blocks(&self, named: Vec<(Spot, RunEntry)>, data: Vec<Option<Bytes>>) -> (Moves, Moves) {
        let (mut moved, mut lost) = (Vec::with_capacity(named.len()), Vec::new());
        let may_mark = self.may_mark();
        for ((spot, entry), data) in named.into_iter().zip(data) {
            // What has several references moves on: nobody knows where they all are. Each is told when it is read, and repaired.
            let is_lost = data.is_none() && may_mark && entry.name.is_none();
            // Without marks it moves as zeroes with the CRC that it should have: reads report it.
            let len = (entry.sectors * SECTOR_BYTES) as usize;
            let block = out_block(entry, data.unwrap_or_else(|| PageBuf::zeroed(len).freeze()));
            if is_lost { lost.push((spot, block)) } else { moved.push((spot, block)) }
        }
        (moved, lost)
    }

    /// Blocks of the victims that cannot be read become marks, and are told as bad.
    fn plan_marks(
        &self,
        device: u8,
        lost: Vec<(Spot, OutBlock)>,
        history: &BTreeMap<LeafKey, History>,
        transaction: &mut Transaction,
    ) {
        let (old, blocks): (Vec<Spot>, Vec<OutBlock>) = lost.into_iter().unzip();
        let state = &mut *self.state.borrow_mut();
        plan_moves(
            &Owners::of(state, device, history),
            device,
            &blocks,
            (&old, &vec![Spot::BAD; old.len()]),
            transaction,
        );
        let State { components, findings, .. } = state;
        blocks.iter().filter(|block| components.is_here(block.component)).for_each(|block| {
            findings.found(block.component, block.block);
        });
    }

    /// History of the blocks that the runs name and that stand elsewhere now, by leaf.
    async fn history_of_named(
        &self,
        device: u8,
        named: &[(Spot, RunEntry)],
        transaction: &Transaction,
    ) -> BTreeMap<LeafKey, History> {
        let mut leaves: Vec<LeafKey> = Vec::new();
        {
            let state = self.state.borrow();
            let Some(pages) = state.map.pages() else { return BTreeMap::new() };
            let segments = state.tier.of(device);
            let is_shared = |(spot, entry): &&(Spot, RunEntry)| {
                segments.shared(segments.name_of(*spot, entry.name)).is_some_and(|item| item.at == *spot)
            };
            for (spot, entry) in named.iter().filter(|named| !is_shared(named)) {
                let leaf = (entry.component, entry.block / LEAF_BLOCKS);
                let is_now = |of: Entry| of.spot == *spot;
                if pages.shards.history(shard_of(leaf)).is_some()
                    && transaction.has_leaf(leaf)
                    && !transaction.entry(entry.component, entry.block).is_some_and(is_now)
                {
                    leaves.push(leaf);
                }
            }
        }
        self.history_of_leaves(leaves).await
    }

    /// What the runs of a segment name, with their spots in order. None when the device failed.
    pub(crate) async fn read_headers(&self, device: u8, segment: u32) -> Option<Vec<(Spot, RunEntry)>> {
        let (first, fill, log_id, generation) = {
            let state = self.state.borrow();
            let segments = state.tier.of(device);
            let row = segments.row(segment);
            (u64::from(segment) * u64::from(segments.segment_pages), row.fill, state.log.id(), row.generation)
        };
        let (mut named, mut page) = (Vec::new(), 0u32);
        while page < fill {
            let mut pages = HEADER_PAGES_AT_ONCE.min(fill - page);
            let run = loop {
                let (bytes, _) = self.read_to_clean(device, first + u64::from(page), pages).await?;
                match decode_run_header(&bytes) {
                    Err(RunError::Short(len)) if len <= (fill - page) * BLOCK_BYTES => {
                        pages = len.div_ceil(BLOCK_BYTES)
                    }
                    run => break run,
                }
            };
            let Ok(run) = run else { break };
            if run.log_id != log_id || run.segment != segment || run.generation != generation {
                break;
            }
            let (spots, pages) = (run.spots(first + u64::from(page)), run.shape().pages());
            let end = (first + u64::from(fill)) * u64::from(PAGE_SECTORS);
            named.extend(spots.into_iter().zip(run.entries).filter(|(spot, _)| spot.end() <= end));
            page = page.saturating_add(pages);
        }
        Some(named)
    }

    /// The blocks at these spots, which ascend in stretches; none for one that cannot be read. None when the device failed.
    async fn read_spots(&self, device: u8, spots: &[Spot]) -> Option<Vec<Option<Bytes>>> {
        let near = |a: &Spot, b: &Spot| a.end() <= b.sector() && page_of(*b) - page_of(*a) <= READ_THROUGH;
        let stretches = spots.chunk_by(near).flat_map(|some| some.chunks(BLOCKS_AT_ONCE));
        let reads = stretches.map(|some| async move {
            let first = page_of(some[0]);
            let end = some[some.len() - 1].end().div_ceil(u64::from(PAGE_SECTORS));
            let (data, unread) = self.read_to_clean(device, first, (end - first) as u32).await?;
            let block = |spot: &Spot| {
                let from = (spot.sector() - first * u64::from(PAGE_SECTORS)) * u64::from(SECTOR_BYTES);
                let to = from + u64::from(spot.sectors() * SECTOR_BYTES);
                let is_read = !unread.iter().any(|page| from < page + PAGE && *page < to);
                is_read.then(|| data.slice(from as usize..to as usize))
            };
            Some(some.iter().map(block).collect::<Vec<_>>())
        });
        let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
        let mut blocks = Vec::with_capacity(spots.len());
        while let Some(read) = reads.next().await {
            blocks.extend(read?);
        }
        Some(blocks)
    }

    /// Pages of a segment, and where among them one cannot be read: there are zeroes. None when the device failed.
    async fn read_to_clean(&self, device: u8, page: u64, pages: u32) -> Option<(Bytes, Vec<u64>)> {
        let len = u64::from(pages) * PAGE;
        let offset = self.state.borrow().tier.of(device).device_offset(page);
        self.state.borrow_mut().counters.clean_read_bytes += len;
        match self.read_device(device, offset, len as u32).await {
            Ok(data) => Some((data, Vec::new())),
            Err(error) if error.kind == DiskErrorKind::Gone => {
                self.fail_device(device, &error);
                None
            }
            Err(_) => Some(self.read_page_by_page(device, offset, len).await),
        }
    }

    async fn read_page_by_page(&self, device: u8, offset: u64, len: u64) -> (Bytes, Vec<u64>) {
        let (mut data, mut unread) = (PageBuf::zeroed(len as usize), Vec::new());
        for at in (0..len).step_by(PAGE as usize) {
            match self.read_device(device, offset + at, PAGE as u32).await {
                Ok(bytes) => data[at as usize..][..PAGE as usize].copy_from_slice(&bytes),
                Err(_) => unread.push(at),
            }
        }
        (data.freeze(), unread)
    }
}

/// The page that a block begins in.
fn page_of(spot: Spot) -> u64 {
    spot.sector() / u64::from(PAGE_SECTORS)
}

fn out_block(entry: RunEntry, data: Bytes) -> OutBlock {
    let RunEntry { component, block, crc, pending, fingerprint, name, .. } = entry;
    OutBlock { component, block, crc, pending, data, fingerprint, name }
}

/// Takes what a settled zero covers of these leaves out of the map. False where the component was deleted meanwhile: its map goes another
/// way; or where the record is gone: nothing is under a zero any more.
fn plan_trim(components: &Components, item: &Item, leaves: &[LeafKey], transaction: &mut Transaction) -> bool {
    let (Some(component), Some(record)) = (components.get(item.component), components.records.get(item.record)) else {
        return false;
    };
    for &(_, leaf) in leaves {
        let whole = BlockRange::new(leaf * LEAF_BLOCKS, LEAF_BLOCKS as u32);
        let Some(range) = whole.intersection(item.range) else {
            continue;
        };
        for block in range.first..range.end() {
            if transaction.entry(component.id, block).is_some() {
                transaction.set_entry_of(component, block, By::record(record), None);
            }
        }
    }
    true
}

/// Mapped runs under a settled zero that does not keep its space.
fn runs_to_trim(components: &Components, item: &Item) -> Vec<BlockRange> {
    let (Some(record), Some(component)) = (components.records.get(item.record), components.get(item.component)) else {
        return Vec::new();
    };
    if record.allocates() || record.op > component.settled {
        return Vec::new();
    }
    let spans = component.extents.spans(item.range);
    // What a snapshot views below it is folded first, with the round.
    let live = spans.into_iter().filter(|s| s.versions.last() == Some(&item.record));
    live.flat_map(|s| component.base.runs(s.range)).collect()
}

/// Segments to empty: the best few whose live blocks fit what is free, and are no more than half a segment together. Destage
/// stands still meanwhile, so that a long step is a stop for guests (four segments, a third of them live: none for 3 s in 6).
fn choose_victims(tier: &Tier, device: u8, pins: &crate::segments::Pins) -> Vec<u32> {
    let segments = tier.of(device);
    let room = segments.free_segments() * segments.slots_per_segment();
    let step = segments.slots_per_segment() / 2;
    let mut blocks = 0;
    segments
        .to_clean(tier.round(), pins)
        .into_iter()
        .take(CLEAN_SEGMENTS_MAX)
        .take_while(|&segment| {
            let is_first = blocks == 0;
            blocks += u64::from(segments.weight(segments.row(segment).live));
            blocks <= room && (is_first || blocks <= step)
        })
        .collect()
}

/// The spots of pending rows on a device.
fn pending_spots(components: &Components, device: u8) -> BTreeMap<Spot, (RecordId, usize)> {
    let mut owners = BTreeMap::new();
    for &id in &components.records.pending {
        let record = components.records.of(id);
        if components.get(record.component).is_none_or(|c| c.device != device) {
            continue;
        }
        if let Body::Data { place: Place::Spots(spots), .. } = &record.body {
            owners.extend(spots.iter().enumerate().map(|(at, &spot)| (spot, (id, at))));
        }
    }
    owners
}

/// The leaves that tell who owns what the runs name, and those that are to be folded.
fn leaves_of(components: &Components, named: &[(Spot, RunEntry)], folded: &[LeafKey]) -> Vec<LeafKey> {
    let known = named.iter().filter(|(_, e)| components.is_here(e.component));
    let mut keys: Vec<LeafKey> = known.map(|(_, e)| (e.component, e.block / LEAF_BLOCKS)).collect();
    keys.extend(folded);
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl<'a> Owners<'a> {
    fn of(state: &'a State, device: u8, history: &'a BTreeMap<LeafKey, History>) -> Self {
        let (components, segments) = (&state.components, state.tier.of(device));
        Self { components, segments, pending: pending_spots(components, device), history }
    }

    /// Whether a block is parity. None where it has several references, or belongs to an operation that is not settled.
    fn is_parity(&self, spot: Spot, entry: &RunEntry, transaction: &Transaction) -> Option<bool> {
        match self.of_spot(spot, entry, transaction)? {
            Owner::Map(entry) | Owner::History(_, entry) => Some(entry.row_check != 0),
            Owner::Pending(..) | Owner::Shared(_) => None,
        }
    }

    /// The owner of a spot of which its run says this.
    fn of_spot(&self, spot: Spot, entry: &RunEntry, transaction: &Transaction) -> Option<Owner> {
        let name = self.segments.name_of(spot, entry.name);
        if self.segments.shared(name).is_some_and(|item| item.at == spot) {
            return Some(Owner::Shared(name));
        }
        // Nothing refers to it any more.
        if entry.name.is_some() {
            return None;
        }
        let RunEntry { component, block, .. } = *entry;
        if let Some(&(record, index)) = self.pending.get(&spot) {
            return Some(Owner::Pending(record, index));
        }
        let leaf = (component, block / LEAF_BLOCKS);
        if !self.components.is_here(component) || !transaction.has_leaf(leaf) {
            return None;
        }
        if let Some(entry) = transaction.entry(component, block).filter(|entry| entry.spot == spot) {
            return Some(Owner::Map(entry));
        }
        let (first, of_shard) = (block - block % SHARD_BLOCKS, block % SHARD_BLOCKS);
        let ((of, generation), entry) = self.history.get(&leaf)?.in_spot(of_shard, spot)?;
        Some(Owner::History((first + of, generation), entry))
    }
}

/// Points the owners that still hold their old spots to the new ones.
fn plan_moves(
    owners: &Owners<'_>,
    device: u8,
    blocks: &[OutBlock],
    (old, new): (&[Spot], &[Spot]),
    transaction: &mut Transaction,
) {
    for ((block, &old), &new) in blocks.iter().zip(old).zip(new) {
        let component = || owners.components.of(block.component);
        match owners.of_spot(old, &block.entry(), transaction) {
            Some(Owner::Shared(name)) => transaction.shares.move_to(device, name, new),
            Some(Owner::Map(entry)) => {
                transaction.add_spot(device, new);
                transaction.set_entry(component(), block.block, Some(Entry { spot: new, ..entry }));
            }
            Some(Owner::Pending(record, index)) => {
                transaction.add_spot(device, new);
                transaction.drop_spot(device, old);
                transaction.move_pending(&owners.components.records, record, index, old, new);
            }
            Some(Owner::History(at, entry)) => {
                transaction.add_spot(device, new);
                transaction.move_history(component(), at, Entry { spot: new, ..entry }, old);
            }
            None => {}
        }
    }
}
