//! Pages of the block map: reading them, folding shards into new ones, writing those.
//!
//! Promises    what is read of a page is of the page that the index names: one that was written over meanwhile is read anew, and of
//!             one that is damaged nothing is believed
//!             a page is durable before the transaction that names it
//! Assumes     the destage task folds: no transaction is under way
//! Not here    which shards are folded when (`shards.rs`), where pages stand (`zone.rs`)
//!
//! A damaged page costs the blocks that it had, and no others: their bits say that the map holds them, and it does not.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{Disk, Durability, Env, PageBuf};
use cairn_format::{
    LEAF_BLOCKS, MAP_PAGE_BYTES, MapPage, PackedPage, SHARD_BLOCKS, decode_map_page,
    history_rows::HistoryPageRef,
    map_rows::{PageRef, SHARD_REGIONS, ShardRegion, ShardRow},
    pack_map_pages,
};
use cairn_types::{BlockRange, Canary, Epoch, OpId};
use futures::{StreamExt, future::join_all, stream};

use crate::{
    bitmap::BaseBits,
    component::Component,
    deltas::{Delta, put_over},
    disk_group::Inner,
    error::{StoreError, damaged},
    history_shard::Place,
    leaf::{Entry, Leaf, LeafKey},
    rows,
    segments::LOG,
    shards::{FoldKey, Part as FoldOf, ShardKey, leaves_of, shard_of},
};

/// Pages that are read at once.
pub(crate) const READS_AT_ONCE: usize = 64;
/// Pages that are decoded on the shard's thread: more go to a helper.
const DECODED_HERE: usize = 4;
/// Times that a page is read, and the wait between two, where what is not read is gone for good.
const READS_MAX: usize = 4;
const READ_AGAIN: Duration = Duration::from_millis(100);
/// Bytes of one write of pages, and writes at once: as destage has them.
const PIECE_BYTES: usize = 256 << 10;
const WRITES_AT_ONCE: usize = 2;
/// A shard with fewer entries a page than this is packed anew as a whole, where it has some pages.
const SPARSE_ENTRIES: u64 = 64;
const SPARSE_PAGES: usize = 4;

/// A shard whose pages are to be exchanged, or those of its history.
#[derive(Debug)]
pub(crate) struct Fold {
    pub key: FoldKey,
    /// In order; what stays, and what is written.
    pub pages: Vec<NewPage>,
    /// Places that the new row does not name.
    pub gave_up: Vec<u32>,
    /// Leaves of an earlier release that go.
    pub leaves: Vec<LeafKey>,
    /// Bits of the shard as they were: the component that tells them may be deleted before its row is written.
    pub bits: BaseBits,
    /// History that goes.
    pub dropped: Vec<(Place, Entry)>,
}

/// A page by its place among those of its shard, and on the device. Of the map the generation is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedPage {
    pub first: Place,
    pub stamp: u16,
    pub place: u32,
}

impl From<PageRef> for NamedPage {
    fn from(PageRef { first, stamp, place }: PageRef) -> Self {
        Self { first: (first, 0), stamp, place }
    }
}

impl From<NamedPage> for PageRef {
    fn from(NamedPage { first: (first, _), stamp, place }: NamedPage) -> Self {
        Self { first, stamp, place }
    }
}

impl From<HistoryPageRef> for NamedPage {
    fn from(HistoryPageRef { first, stamp, place }: HistoryPageRef) -> Self {
        Self { first, stamp, place }
    }
}

impl From<NamedPage> for HistoryPageRef {
    fn from(NamedPage { first, stamp, place }: NamedPage) -> Self {
        Self { first, stamp, place }
    }
}

#[derive(Debug)]
pub(crate) enum NewPage {
    Stays(NamedPage),
    /// The first that it answers for, and its bytes, where a device can take them.
    Written(Place, Bytes),
}

/// A fold whose pages are durable.
#[derive(Debug)]
pub(crate) struct Folded {
    pub key: FoldKey,
    pub pages: Vec<NamedPage>,
    pub gave_up: Vec<u32>,
    pub leaves: Vec<LeafKey>,
    /// Pages that were written.
    pub written: u64,
    bits: BaseBits,
    /// History that goes.
    pub dropped: Vec<(Place, Entry)>,
}

/// How pages are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageReads {
    /// By way of memory.
    pub keeps: bool,
    /// What is not read is gone for good: an error that passes must not cost it.
    pub patient: bool,
}

/// Pages that are about to be written anew.
pub(crate) const TO_FOLD: PageReads = PageReads { keeps: false, patient: true };

/// A part of a shard that is packed anew: its entries, from its pages and what waits.
struct Part {
    blocks: Range<u64>,
    pages: Vec<PageRef>,
}

/// What a part of a shard has its entries from. A full shard has 65,536: they are put together, and packed, on a helper's thread.
struct Contents {
    /// Rows of an earlier release.
    leaves: Vec<(LeafKey, Leaf)>,
    /// Blocks that each answers for, and its bytes; none where they are not of the page that was meant.
    pages: Vec<(Range<u64>, Option<Bytes>)>,
    /// What waits, over all of that.
    over: Vec<(u64, Option<Entry>)>,
}

impl Contents {
    /// By block of the shard, ascending.
    fn entries(self) -> Vec<(u64, Entry)> {
        let mut entries = Vec::new();
        for ((_, number), leaf) in self.leaves {
            let first = number * LEAF_BLOCKS % SHARD_BLOCKS;
            entries.extend(leaf.entries().map(|(block, entry)| (first + block, entry)));
        }
        for (blocks, bytes) in self.pages {
            let page = bytes.and_then(|bytes| decode_map_page(&bytes));
            // A page that has what others answer for is damaged.
            let sound = page.filter(|page| page.entries.iter().all(|(block, _)| blocks.contains(&u64::from(*block))));
            let own = sound.into_iter().flat_map(|page| page.entries);
            entries.extend(own.map(|(block, entry)| (u64::from(block), entry)));
        }
        merge(entries, self.over)
    }
}

/// Pages of these entries, ready for the device.
fn pack(key: ShardKey, number: u64, leaves_max: usize, entries: &[(u64, Entry)]) -> Vec<NewPage> {
    let packed = pack_map_pages(key.0, key.1, number, entries, leaves_max);
    let ready = |PackedPage { first, bytes }| NewPage::Written((first, 0), PageBuf::copy_of(&bytes).freeze());
    packed.into_iter().map(ready).collect()
}

impl<E: Env> Inner<E> {
    pub(crate) fn page_offset(&self, place: u32) -> u64 {
        let state = self.state.borrow();
        self.metadata_offset + state.map.pages().expect("the map is in pages").zone.offset(place)
    }

    /// The page, none where it is not what the shard's row says.
    async fn read_page(&self, key: ShardKey, page: PageRef, reads: PageReads) -> Option<Bytes> {
        let bytes = self.read_place(page.place, reads, |bytes| is_page(bytes, key, page)).await?;
        if reads.keeps {
            self.state.borrow_mut().map.keep_page(key, page, &bytes);
        }
        Some(bytes)
    }

    /// What stands in a place, none where it is not the page that is meant.
    pub(crate) async fn read_place(
        &self,
        place: u32,
        reads: PageReads,
        is_meant: impl Fn(&[u8]) -> bool,
    ) -> Option<Bytes> {
        let PageReads { keeps, patient } = reads;
        let known = if keeps { self.state.borrow_mut().map.page(place) } else { None };
        if let Some(bytes) = known.filter(|bytes| is_meant(bytes)) {
            return Some(bytes);
        }
        let offset = self.page_offset(place);
        self.state.borrow_mut().counters.map_pages_read += 1;
        let mut tries = if patient { READS_MAX } else { 1 };
        let bytes = loop {
            match self.read_device(LOG, offset, MAP_PAGE_BYTES as u32).await {
                Ok(bytes) => break bytes,
                Err(_) if tries > 1 => self.env.sleep(READ_AGAIN).await,
                Err(_) => return None,
            }
            tries -= 1;
        };
        is_meant(&bytes).then_some(bytes)
    }

    /// Reads pages, many at once; none for one that is another than was meant. Their checksums are looked at where they are decoded.
    async fn read_map_pages(&self, wanted: &[(ShardKey, PageRef)], how: PageReads) -> Vec<Option<Bytes>> {
        let reads = wanted.iter().map(|&(key, page)| self.read_page(key, page, how));
        stream::iter(reads).buffered(READS_AT_ONCE).collect().await
    }

    /// The same, by way of memory, and decoded where it delays nobody.
    async fn read_pages_of_map(&self, wanted: &[(ShardKey, PageRef)], patient: bool) -> Vec<Option<MapPage>> {
        let read = self.read_map_pages(wanted, PageReads { keeps: true, patient }).await;
        let decode = |read: Vec<Option<Bytes>>| -> Vec<Option<MapPage>> {
            read.into_iter().map(|bytes| decode_map_page(&bytes?)).collect()
        };
        match read.len() <= DECODED_HERE {
            true => decode(read),
            false => self.env.run_blocking(move || decode(read)).await,
        }
    }

    /// Leaves of a map in pages, with what waits over them. `lost` takes the place of a leaf whose page is damaged, for good.
    ///
    /// # Errors
    /// A page is damaged and there is no `lost`; or rows of an earlier release are.
    pub(crate) async fn leaves_in_pages(
        &self,
        wanted: &[LeafKey],
        lost: Option<Leaf>,
    ) -> Result<Vec<(LeafKey, Arc<Leaf>)>, StoreError> {
        loop {
            let generation = self.state.borrow().map.generation();
            let found = self.try_leaves(wanted, lost.as_ref()).await;
            // What was read may be of before a fold, and what waits of after it.
            if self.state.borrow().map.generation() == generation {
                return found;
            }
        }
    }

    async fn try_leaves(
        &self,
        wanted: &[LeafKey],
        lost: Option<&Leaf>,
    ) -> Result<Vec<(LeafKey, Arc<Leaf>)>, StoreError> {
        let mut by_page: BTreeMap<(ShardKey, u16), (PageRef, Vec<LeafKey>)> = BTreeMap::new();
        let (mut found, mut in_rows): (Vec<(LeafKey, Arc<Leaf>)>, Vec<LeafKey>) = Default::default();
        {
            let state = self.state.borrow();
            let pages = state.map.pages().expect("the map is in pages");
            for &key in wanted {
                let shard_key = shard_of(key);
                let shard = pages.shards.get(shard_key);
                if !shard.is_some_and(|shard| shard.in_pages()) {
                    match pages.has_rows {
                        true => in_rows.push(key),
                        false => found.push((key, Arc::default())),
                    }
                    continue;
                }
                match shard.and_then(|shard| shard.page_of(key.1 * LEAF_BLOCKS % SHARD_BLOCKS)) {
                    Some(page) => {
                        let at = by_page.entry((shard_key, page.first)).or_insert((page, Vec::new()));
                        at.1.push(key);
                    }
                    None => found.push((key, Arc::default())),
                }
            }
        }
        if !in_rows.is_empty() {
            found.extend(self.leaves_of_rows(in_rows).await?.into_iter().map(|(key, leaf)| (key, Arc::new(leaf))));
        }
        let named: Vec<(ShardKey, PageRef)> = by_page.iter().map(|((key, _), (page, _))| (*key, *page)).collect();
        let read = self.read_pages_of_map(&named, lost.is_some()).await;
        for (page, (_, leaves)) in read.into_iter().zip(by_page.into_values()) {
            for key in leaves {
                let leaf = match (&page, lost) {
                    (Some(page), _) => leaf_of(page, key.1),
                    (None, Some(lost)) => Arc::new(lost.clone()),
                    (None, None) => return Err(damaged("a page of the block map is not readable")),
                };
                found.push((key, leaf));
            }
        }
        let state = self.state.borrow();
        let pages = state.map.pages().expect("it stays in pages");
        for (key, leaf) in &mut found {
            let leaf = Arc::get_mut(leaf).expect("just made");
            pages.shards.get(shard_of(*key)).into_iter().for_each(|shard| shard.put_over(key.1, leaf));
        }
        found.sort_unstable_by_key(|(key, _)| *key);
        Ok(found)
    }

    /// Leaves that an earlier release wrote as rows, with their deltas over them; one that is not there is empty.
    pub(crate) async fn leaves_of_rows(&self, wanted: Vec<LeafKey>) -> Result<Vec<(LeafKey, Leaf)>, StoreError> {
        let deltas: Vec<Vec<Delta>> = {
            let state = self.state.borrow();
            wanted.iter().map(|&key| state.map.deltas().of(key).to_vec()).collect()
        };
        let keys: Vec<Vec<u8>> = wanted.iter().map(|&(component, leaf)| rows::leaf_key(component, leaf)).collect();
        let meta = self.meta.clone();
        // Decoded there too: a round may want thousands.
        let job = move || {
            let values = meta.get_many(&keys).map_err(damaged)?;
            let decode = |(value, deltas): (Option<Vec<u8>>, Vec<Delta>)| {
                let mut leaf = value.map_or_else(|| Some(Leaf::default()), |bytes| Leaf::decode(&bytes))?;
                put_over(&mut leaf, &deltas)?;
                Some(leaf)
            };
            let leaves: Option<Vec<Leaf>> = values.into_iter().zip(deltas).map(decode).collect();
            leaves.ok_or_else(|| damaged("a leaf of the block map is not readable"))
        };
        Ok(wanted.into_iter().zip(self.env.run_blocking(job).await?).collect())
    }

    /// Leaves of a shard that are rows of an earlier release, or wait as deltas.
    async fn leaves_in_rows(&self, (component, shard): ShardKey) -> Result<Vec<LeafKey>, StoreError> {
        let leaves = leaves_of(shard);
        let (from, to) = (rows::leaf_key(component, leaves.start), rows::leaf_key(component, leaves.end));
        let meta = self.meta.clone();
        let stored = self.env.run_blocking(move || meta.scan(&from, &to, usize::MAX)).await.map_err(damaged)?;
        let number = |(key, _): &(Vec<u8>, Vec<u8>)| rows::number_of(key).map_err(damaged);
        let mut numbers = stored.iter().map(number).collect::<Result<BTreeSet<u64>, _>>()?;
        numbers.extend(self.state.borrow().map.deltas().leaves_of(component, leaves));
        Ok(numbers.into_iter().map(|leaf| (component, leaf)).collect())
    }

    /// Every entry of a shard, ascending, with the leaves that are rows.
    pub(crate) async fn entries_of_shard(
        &self,
        key: ShardKey,
    ) -> Result<(Vec<(u64, Entry)>, Vec<LeafKey>), StoreError> {
        let (contents, leaves) = self.contents_of_shard(key).await?;
        Ok((self.env.run_blocking(move || contents.entries()).await, leaves))
    }

    async fn contents_of_shard(&self, key: ShardKey) -> Result<(Contents, Vec<LeafKey>), StoreError> {
        let (in_pages, pages, has_rows) = {
            let state = self.state.borrow();
            let map = state.map.pages().expect("the map is in pages");
            let shard = map.shards.get(key).ok_or_else(|| damaged("the shard went meanwhile"))?;
            (shard.in_pages(), shard.pages().to_vec(), map.has_rows)
        };
        let leaves = if in_pages || !has_rows { Vec::new() } else { self.leaves_in_rows(key).await? };
        let contents = self.contents(key, &Part { blocks: 0..SHARD_BLOCKS, pages }, leaves.clone()).await?;
        Ok((contents, leaves))
    }

    async fn contents(&self, key: ShardKey, part: &Part, leaves: Vec<LeafKey>) -> Result<Contents, StoreError> {
        let leaves = if leaves.is_empty() { Vec::new() } else { self.leaves_of_rows(leaves).await? };
        let named: Vec<(ShardKey, PageRef)> = part.pages.iter().map(|page| (key, *page)).collect();
        let read = self.read_map_pages(&named, TO_FOLD).await;
        let ends = part.pages.iter().skip(1).map(|next| u64::from(next.first)).chain([part.blocks.end]);
        // The first one does for those before it as well.
        let begins = [part.blocks.start].into_iter().chain(part.pages.iter().skip(1).map(|page| u64::from(page.first)));
        let pages = begins.zip(ends).map(|(begin, end)| begin..end).zip(read).collect();
        let state = self.state.borrow();
        // A check runs beside what removes it.
        let shard = state.map.pages().and_then(|pages| pages.shards.get(key));
        let over = shard.map(|shard| shard.unfolded().range(part.blocks.clone()).collect()).unwrap_or_default();
        Ok(Contents { leaves, pages, over })
    }

    /// Packs a shard anew, as far as anything waits for it.
    pub(crate) async fn prepare_fold(&self, key: ShardKey) -> Result<Fold, StoreError> {
        let range = BlockRange::new(u64::from(key.1) * SHARD_BLOCKS, SHARD_BLOCKS as u32);
        let (number, leaves_max, parts, old, bits) = {
            let state = self.state.borrow();
            let map = state.map.pages().expect("the map is in pages");
            let shard = map.shards.get(key).expect("it is queued");
            let component = state.components.get(key.0);
            let parts = (shard.in_pages() && component.is_some()).then(|| {
                let mapped = component.map_or(0, |component| component.base.count(range));
                let pages = shard.pages().len();
                let sparse = pages >= SPARSE_PAGES && mapped < SPARSE_ENTRIES * pages as u64;
                parts_to_pack(shard, sparse)
            });
            let bits = component.map(|component| component.base.part(range));
            (state.map.number(), map.page_leaves_max, parts, shard.pages().to_vec(), bits)
        };
        let (parts, bits) = match (parts, bits) {
            (Some(parts), Some(bits)) => (parts, bits),
            (_, bits) => return self.prepare_whole(key, (number, leaves_max), old, bits).await,
        };
        let mut pages = Vec::with_capacity(old.len());
        let mut gave_up = Vec::new();
        let mut rest = old.as_slice();
        for part in parts {
            let before = rest.iter().take_while(|page| u64::from(page.first) < part.blocks.start).count();
            // The first page answers for what is before it as well.
            let before = if part.blocks.start == 0 { 0 } else { before };
            pages.extend(rest[..before].iter().map(|page| NewPage::Stays((*page).into())));
            rest = &rest[before + part.pages.len()..];
            let contents = self.contents(key, &part, Vec::new()).await?;
            gave_up.extend(part.pages.iter().map(|page| page.place));
            let job = move || pack(key, number, leaves_max, &contents.entries());
            pages.extend(self.env.run_blocking(job).await);
        }
        pages.extend(rest.iter().map(|page| NewPage::Stays((*page).into())));
        let (key, leaves, dropped) = ((key, FoldOf::Map), Vec::new(), Vec::new());
        Ok(Fold { key, pages, gave_up, leaves, bits, dropped })
    }

    async fn prepare_whole(
        &self,
        key: ShardKey,
        (number, leaves_max): (u64, usize),
        old: Vec<PageRef>,
        known: Option<BaseBits>,
    ) -> Result<Fold, StoreError> {
        let (contents, leaves) = self.contents_of_shard(key).await?;
        let job = move || {
            let entries = contents.entries();
            let bits = known.unwrap_or_else(|| bits_of(key, &entries));
            (pack(key, number, leaves_max, &entries), bits)
        };
        let (pages, bits) = self.env.run_blocking(job).await;
        let gave_up = old.into_iter().map(|page| page.place).collect();
        Ok(Fold { key: (key, FoldOf::Map), pages, gave_up, leaves, bits, dropped: Vec::new() })
    }

    /// Writes the pages of folds to free places and flushes. A fold for which there are not places enough comes to nothing: what it would
    /// have taken up waits on.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) async fn write_folds(&self, folds: Vec<Fold>) -> Result<Vec<Folded>, StoreError> {
        let mut writes: Vec<(u64, Bytes)> = Vec::new();
        let mut done = Vec::with_capacity(folds.len());
        {
            let state = &mut *self.state.borrow_mut();
            let number = state.map.number();
            let map = state.map.pages_mut().expect("the map is in pages");
            for fold in folds {
                let written = fold.pages.iter().filter(|page| matches!(page, NewPage::Written(..))).count();
                let Some(places) = map.zone.take(written) else { continue };
                if Canary::PlaceReusedEarly.sings() {
                    map.zone.free(fold.gave_up.iter().copied());
                }
                let mut places = places.into_iter();
                let mut place = |page: NewPage| match page {
                    NewPage::Stays(page) => page,
                    NewPage::Written(first, bytes) => {
                        let place = places.next().expect("one for each");
                        writes.push((self.metadata_offset + map.zone.offset(place), bytes));
                        NamedPage { first, stamp: number as u16, place }
                    }
                };
                let pages = fold.pages.into_iter().map(&mut place).collect();
                let Fold { key, gave_up, leaves, bits, dropped, .. } = fold;
                done.push(Folded { key, pages, gave_up, leaves, written: written as u64, bits, dropped });
            }
            // What memory has of these places is of pages that went.
            let taken =
                done.iter().flat_map(|folded: &Folded| &folded.pages).filter(|page| page.stamp == number as u16);
            taken.for_each(|page| state.map.forget_page(page.place));
            state.counters.map_pages_written += writes.len() as u64;
            state.counters.map_shards_folded += done.len() as u64;
        }
        if writes.is_empty() {
            return Ok(done);
        }
        writes.sort_unstable_by_key(|(offset, _)| *offset);
        let page = MAP_PAGE_BYTES as u64;
        let runs = writes.chunk_by(|a, b| a.0 + page == b.0);
        let pieces: Vec<(u64, Vec<Bytes>)> = runs
            .flat_map(|run| run.chunks(PIECE_BYTES / MAP_PAGE_BYTES))
            .map(|piece| (piece[0].0, piece.iter().map(|(_, bytes)| bytes.clone()).collect()))
            .collect();
        for some in pieces.chunks(WRITES_AT_ONCE) {
            let writes =
                some.iter().map(|(offset, parts)| self.cache.write(*offset, parts.clone(), Durability::Buffered));
            for written in join_all(writes).await {
                written.map_err(|error| StoreError::media("write pages of the block map", &error))?;
            }
        }
        if !Canary::PagesNotFlushed.sings() {
            let flushed = self.cache.flush().await;
            flushed.map_err(|error| StoreError::media("flush pages of the block map", &error))?;
        }
        Ok(done)
    }
}

impl Folded {
    /// The shard's row, up to `number`.
    pub fn row(&self, number: u64, component: Option<&Component>) -> ShardRow {
        let pages = self.pages.iter().map(|page| (*page).into()).collect();
        let mut row = ShardRow { number, pages, ..ShardRow::default() };
        let first = u32::from(self.key.0.1) * SHARD_REGIONS;
        for (index, region) in (first..first + SHARD_REGIONS).enumerate() {
            let mark = component.and_then(|component| component.regions.get(region)).map_or(OpId::ZERO, |mark| mark.op);
            let bits = component.map_or(&self.bits, |component| &component.base).region(region);
            if mark == OpId::ZERO && bits.iter().all(|word| *word == 0) {
                continue;
            }
            let mark = (epoch_of(&mut row.epochs, mark.epoch), mark.seq);
            row.regions.push(ShardRegion { index: index as u8, bits: bits.into(), mark });
        }
        row
    }
}

/// Which of `epochs` it is; added where it is none.
fn epoch_of(epochs: &mut Vec<Epoch>, epoch: Epoch) -> u16 {
    let found = epochs.iter().rposition(|known| *known == epoch);
    found.unwrap_or_else(|| {
        epochs.push(epoch);
        epochs.len() - 1
    }) as u16
}

/// Whether these bytes are the page that the shard's row means: what else stands there is of another time, or damage.
fn is_page(bytes: &[u8], (component, shard): ShardKey, page: PageRef) -> bool {
    let Some(found) = cairn_format::peek_map_page(bytes) else {
        return false;
    };
    let is_named = (found.component, found.shard, found.first) == (component, shard, page.first);
    is_named && found.number as u16 == page.stamp
}

/// A leaf of the page, by its number in the component.
fn leaf_of(page: &MapPage, number: u64) -> Arc<Leaf> {
    let first = number * LEAF_BLOCKS % SHARD_BLOCKS;
    let from = page.entries.partition_point(|(block, _)| u64::from(*block) < first);
    let mut made = Arc::<Leaf>::default();
    let leaf = Arc::get_mut(&mut made).expect("just made");
    let own = page.entries[from..].iter().take_while(|(block, _)| u64::from(*block) < first + LEAF_BLOCKS);
    own.for_each(|(block, entry)| leaf.set(u64::from(*block), Some(*entry)));
    made
}

/// Bits of a shard with these entries.
fn bits_of(key: ShardKey, entries: &[(u64, Entry)]) -> BaseBits {
    let mut bits = BaseBits::default();
    let first = u64::from(key.1) * SHARD_BLOCKS;
    for run in entries.chunk_by(|a, b| a.0 + 1 == b.0) {
        bits.set(BlockRange::new(first + run[0].0, run.len() as u32), true);
    }
    bits
}

/// Pages that something waits for, with their neighbours of which that is so as well.
fn parts_to_pack(shard: &crate::shards::Shard, sparse: bool) -> Vec<Part> {
    let pages = shard.pages();
    if pages.is_empty() || sparse {
        let waits = sparse || !shard.unfolded().is_empty();
        return if waits { vec![Part { blocks: 0..SHARD_BLOCKS, pages: pages.to_vec() }] } else { Vec::new() };
    }
    let mut parts: Vec<Part> = Vec::new();
    for (at, page) in pages.iter().enumerate() {
        let blocks = shard.blocks_of(at);
        if shard.unfolded().range(blocks.clone()).next().is_none() {
            continue;
        }
        match parts.last_mut().filter(|last| last.blocks.end == blocks.start) {
            Some(last) => {
                last.blocks.end = blocks.end;
                last.pages.push(*page);
            }
            None => parts.push(Part { blocks, pages: vec![*page] }),
        }
    }
    parts
}

/// What waits over what is there, both ascending.
fn merge(entries: Vec<(u64, Entry)>, over: Vec<(u64, Option<Entry>)>) -> Vec<(u64, Entry)> {
    let mut merged = Vec::with_capacity(entries.len());
    let mut rest = entries.into_iter().peekable();
    for (block, entry) in over {
        while let Some(before) = rest.next_if(|(other, _)| *other < block) {
            merged.push(before);
        }
        rest.next_if(|(other, _)| *other == block);
        merged.extend(entry.map(|entry| (block, entry)));
    }
    merged.extend(rest);
    merged
}

#[cfg(test)]
mod tests {
    use cairn_types::ComponentId;

    use super::*;

    /// Goal: a component that is deleted between a fold and its row leaves the bits of the shard behind: with them an opening knows what
    /// later changes took out of its pages.
    #[test]
    fn a_row_has_the_bits_of_a_component_that_went() {
        let whole = BlockRange::new(0, 8 * SHARD_BLOCKS as u32);
        let mut bits = BaseBits::default();
        bits.set(BlockRange::new(4 * SHARD_BLOCKS, 2 * SHARD_BLOCKS as u32), true);
        bits.set(BlockRange::new(5 * SHARD_BLOCKS + 300, 70), false);
        let own = bits.part(BlockRange::new(5 * SHARD_BLOCKS, SHARD_BLOCKS as u32));
        assert_eq!((own.total(), bits.part(whole).total()), (SHARD_BLOCKS - 70, 2 * SHARD_BLOCKS - 70));
        let (pages, gave_up, leaves) = Default::default();
        let (key, dropped) = (((ComponentId(1), 5), FoldOf::Map), Vec::new());
        let folded = Folded { key, pages, gave_up, leaves, written: 0, bits: own, dropped };
        let row = folded.row(9, None);
        let mut told = BaseBits::default();
        for region in row.regions {
            told.load(5 * SHARD_REGIONS + u32::from(region.index), region.bits.into());
        }
        assert_eq!(told.total(), SHARD_BLOCKS - 70);
        assert_eq!(told.count(BlockRange::new(5 * SHARD_BLOCKS + 300, 70)), 0);
    }
}
