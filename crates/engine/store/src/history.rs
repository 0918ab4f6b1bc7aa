//! History in pages: reading it, folding what waits into pages, dropping what no snapshot needs.
//!
//! Promises    what is read of a page is of the page that the index names; of one that is damaged nothing is believed, and that its
//!             places are lost is not forgotten as long as any snapshot may ask for them
//!             an entry goes only when no snapshot needs it, and its spot with it
//! Assumes     the destage task folds: no transaction is under way
//! Not here    which shards are folded when (`shards.rs`), writing pages (`map_pages.rs`), what is kept (`transaction.rs`)

use std::{collections::BTreeMap, ops::Range};

use bytes::Bytes;
use cairn_env::{Env, PageBuf};
use cairn_format::{
    HistoryAt, HistoryPage, HistoryPageName, PackedHistoryPage, SHARD_BLOCKS, Spot, decode_history_page,
    history_rows::{HistoryCount, HistoryPageRef, HistoryPlane, HistoryShardRow},
    map_rows::{SHARD_REGIONS, StoredBits},
    pack_history_pages, peek_history_page,
};
use cairn_types::{BlockRange, Canary, ComponentId};
use futures::stream::{self, StreamExt as _};

use crate::{
    bitmap::BaseBits,
    component::Component,
    cuts::Cuts,
    disk_group::Inner,
    error::{StoreError, damaged},
    history_shard::{Place, count_entry},
    leaf::{Entry, LEAF_BLOCKS, LeafKey},
    map_pages::{Fold, Folded, NamedPage, NewPage, PageReads, READS_AT_ONCE, TO_FOLD},
    shards::{Part as FoldOf, ShardKey, shard_of},
    state::State,
    tier::Tier,
    transaction::Transaction,
};

/// In the place of a page that could not be read when it was to be written anew: what it had is lost.
pub(crate) const LOST_PLACE: u32 = u32::MAX;
/// Pages that are read at once where all are looked through: few, as guests read from the device meanwhile.
const LOOK_READS_AT_ONCE: usize = 8;
/// Pages of history that one transaction sweeps, about: some 60,000 entries.
const SWEPT_PAGES: usize = 256;

/// What is known of the history of some blocks of a shard.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// By block of the shard; ascending.
    entries: Vec<(HistoryAt, Entry)>,
    /// Places of which nothing is known.
    lost: Vec<Range<HistoryAt>>,
}

/// What a block had at a cut, as far as history tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing has changed it since.
    AsNow,
    Entry(Entry),
    Hole,
    /// A page of history is damaged.
    Lost,
}

impl History {
    /// What a block of the shard had at the cut of a generation.
    pub fn at(&self, block: u64, generation: u32) -> Then {
        let place = (block, generation);
        let next = self.entries[self.entries.partition_point(|(at, _)| *at < place)..].first();
        let found = next.filter(|((of, _), _)| *of == block);
        let end = found.map_or((block, u32::MAX), |(at, _)| *at);
        if self.lost.iter().any(|lost| lost.start <= end && place < lost.end) {
            return Then::Lost;
        }
        match found {
            None => Then::AsNow,
            Some((_, entry)) if entry.spot == Spot::HOLE => Then::Hole,
            Some((_, entry)) => Then::Entry(*entry),
        }
    }
    /// Whether a block may have changed between two cuts: each change after the first one left an entry of its generation or a later one.
    pub fn changed(&self, block: u64, generations: Range<u32>) -> bool {
        let places = (block, generations.start)..(block, generations.end);
        let next = self.entries.get(self.entries.partition_point(|(at, _)| *at < places.start));
        let is_lost = |lost: &Range<HistoryAt>| lost.start < places.end && places.start < lost.end;
        next.is_some_and(|(at, _)| *at < places.end) || self.lost.iter().any(is_lost)
    }
    /// The entry of a block and a generation.
    pub fn entry(&self, at: HistoryAt) -> Option<Entry> {
        let found = self.entries.binary_search_by_key(&at, |(at, _)| *at);
        found.ok().map(|place| self.entries[place].1)
    }
    /// The entry of a block that stands in a spot.
    pub fn in_spot(&self, block: u64, spot: Spot) -> Option<(HistoryAt, Entry)> {
        let from = self.entries.partition_point(|((of, _), _)| *of < block);
        self.entries[from..]
            .iter()
            .take_while(|((of, _), _)| *of == block)
            .find(|(_, entry)| entry.spot == spot)
            .copied()
    }
    /// Whether a page of it is damaged.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }
    /// All of it.
    pub fn entries(&self) -> &[(HistoryAt, Entry)] {
        &self.entries
    }
}

/// Which of these generations, ascending, ask for a block's entry: those that come after the block's entry before it, up to its own.
pub(crate) fn asked_by(live: &[u32], previous: Option<u32>, generation: u32) -> Range<usize> {
    let upto = |generation: u32| live.partition_point(|live| *live <= generation);
    previous.map_or(0, upto)..upto(generation)
}

fn wide((block, generation): Place) -> HistoryAt {
    (u64::from(block), generation)
}

/// Whether these bytes are the page that the shard's row means.
fn is_page(bytes: &[u8], (component, shard): ShardKey, page: HistoryPageRef) -> bool {
    peek_history_page(bytes).is_some_and(|HistoryPageName { component: of, shard: of_shard, number, first }| {
        (of, of_shard, first) == (component, shard, wide(page.first)) && number as u16 == page.stamp
    })
}

/// What waits over what is there, both ascending.
fn merge(
    entries: Vec<(HistoryAt, Entry)>,
    over: impl IntoIterator<Item = (HistoryAt, Entry)>,
) -> Vec<(HistoryAt, Entry)> {
    let mut merged = Vec::with_capacity(entries.len());
    let mut rest = entries.into_iter().peekable();
    for (at, entry) in over {
        while let Some(before) = rest.next_if(|(other, _)| *other < at) {
            merged.push(before);
        }
        rest.next_if(|(other, _)| *other == at);
        merged.push((at, entry));
    }
    merged.extend(rest);
    merged
}

/// How far a sweep came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    /// To this block of the shard.
    UpTo(u64),
    /// All of the shard.
    Shard,
    /// The metadata has no room for new pages now.
    NoRoom,
}

/// What of a shard's history is to be packed anew.
struct Plan {
    key: ShardKey,
    /// Of the last transaction.
    number: u64,
    /// All pages, in order.
    pages: Vec<HistoryPageRef>,
    /// What waits, by place.
    over: Vec<(HistoryAt, Entry)>,
    /// Blocks whose entries go where no snapshot needs them.
    swept: Range<u64>,
    /// Generations of cuts that have a snapshot, ascending.
    live: Vec<u32>,
}

impl Plan {
    /// Places that a page answers for. The first one does for those before it as well.
    fn places_of(&self, at: usize) -> Range<HistoryAt> {
        let from = if at == 0 { (0, 0) } else { wide(self.pages[at].first) };
        from..self.pages.get(at + 1).map_or((SHARD_BLOCKS, 0), |next| wide(next.first))
    }
    fn over_in(&self, places: &Range<HistoryAt>) -> &[(HistoryAt, Entry)] {
        let at = |place: HistoryAt| self.over.partition_point(|(other, _)| *other < place);
        &self.over[at(places.start)..at(places.end)]
    }
    /// Whether a page is read and written anew.
    fn is_touched(&self, at: usize) -> bool {
        let places = self.places_of(at);
        let sweeps = !self.swept.is_empty() && places.start.0 < self.swept.end && (self.swept.start, 0) < places.end;
        sweeps || !self.over_in(&places).is_empty()
    }
    /// Whether a snapshot needs an entry, by the one of its block before it.
    fn needs(&self, previous: Option<HistoryAt>, (block, generation): HistoryAt) -> bool {
        let after = previous.filter(|(of, _)| *of == block).map(|(_, generation)| generation);
        !asked_by(&self.live, after, generation).is_empty()
            && (!Canary::SweptTooMuch.sings() || self.live.contains(&generation))
    }
    /// Takes out what goes.
    fn sweep(&self, entries: &mut Vec<(HistoryAt, Entry)>, dropped: &mut Vec<(Place, Entry)>) {
        let mut previous = None;
        entries.retain(|(at, entry)| {
            let goes = self.swept.contains(&at.0) && !self.needs(previous, *at);
            previous = Some(*at);
            if goes {
                dropped.push(((at.0 as u16, at.1), *entry));
            }
            !goes
        });
    }
}

impl<E: Env> Inner<E> {
    async fn read_history_page(&self, key: ShardKey, page: HistoryPageRef, reads: PageReads) -> Option<Bytes> {
        if page.place == LOST_PLACE {
            return None;
        }
        self.read_place(page.place, reads, |bytes| is_page(bytes, key, page)).await
    }

    /// The history of blocks of a shard, by way of memory.
    pub(crate) async fn history_of(&self, key: ShardKey, blocks: Range<u64>) -> History {
        self.history_read(key, blocks, PageReads { keeps: true, patient: false }).await
    }

    /// The same of leaves.
    pub(crate) async fn history_of_leaves(&self, mut leaves: Vec<LeafKey>) -> BTreeMap<LeafKey, History> {
        leaves.sort_unstable();
        leaves.dedup();
        let mut found = BTreeMap::new();
        for leaf in leaves {
            let first = leaf.1 * LEAF_BLOCKS % SHARD_BLOCKS;
            found.insert(leaf, self.history_of(shard_of(leaf), first..first + LEAF_BLOCKS).await);
        }
        found
    }

    /// The history of blocks of a shard, with pages read so.
    pub(crate) async fn history_read(&self, key: ShardKey, blocks: Range<u64>, how: PageReads) -> History {
        loop {
            let (generation, pages) = {
                let state = self.state.borrow();
                let shards = &state.map.pages().expect("there are cuts").shards;
                let Some(shard) = shards.history(key) else { return History::default() };
                let pages = shard.pages();
                let end = |at: usize| pages.get(at + 1).map_or((SHARD_BLOCKS, 0), |next| wide(next.first));
                let named: Vec<_> =
                    shard.pages_of(blocks.clone()).map(|at| (pages[at], wide(pages[at].first)..end(at))).collect();
                (state.map.generation(), named)
            };
            let mut history = History::default();
            let reads = pages
                .into_iter()
                .map(|(page, places)| async move { (page, places, self.read_history_page(key, page, how).await) });
            // Who goes by memory waits for it; who does not looks through all, behind others.
            let at_once = if how.keeps { READS_AT_ONCE } else { LOOK_READS_AT_ONCE };
            let mut reads = stream::iter(reads).buffered(at_once);
            while let Some((page, places, bytes)) = reads.next().await {
                let sound = bytes.as_ref().and_then(|bytes| decode_history_page(bytes));
                match sound.filter(|sound| is_within(sound, &places)) {
                    Some(sound) => history.entries.extend(sound.entries),
                    None => history.lost.push(places),
                }
                if let Some(bytes) = bytes.filter(|_| how.keeps) {
                    self.state.borrow_mut().map.keep_history_page(key, page, &bytes);
                }
            }
            let state = self.state.borrow();
            if state.map.generation() == generation {
                let shards = &state.map.pages().expect("there are cuts").shards;
                if let Some(shard) = shards.history(key) {
                    history.entries = merge(history.entries, shard.waiting_of(blocks.clone()));
                }
                history.entries.retain(|((block, _), _)| blocks.contains(block));
                return history;
            }
        }
    }

    /// Packs a shard's history anew, as far as anything waits for it, without what no snapshot needs of the blocks `swept`.
    pub(crate) async fn prepare_history(&self, key: ShardKey, swept: Range<u64>) -> Result<Fold, StoreError> {
        let plan = {
            let state = self.state.borrow();
            let shards = &state.map.pages().expect("the map is in pages").shards;
            let shard = shards.history(key).ok_or_else(|| damaged("the history of a shard went meanwhile"))?;
            let cuts = state.components.get(key.0).map(|component| &component.cuts);
            let live = cuts.into_iter().flat_map(Cuts::live).map(|cut| cut.generation).collect();
            let over = shard.waiting_of(0..SHARD_BLOCKS).collect();
            Plan { key, number: state.map.number(), pages: shard.pages().to_vec(), over, swept, live }
        };
        let (mut pages, mut gave_up, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
        let mut entries: Vec<(HistoryAt, Entry)> = Vec::new();
        if plan.pages.is_empty() {
            entries.extend_from_slice(&plan.over);
        }
        for at in 0..plan.pages.len() {
            let (page, places) = (plan.pages[at], plan.places_of(at));
            if !plan.is_touched(at) {
                self.pack_history(&plan, std::mem::take(&mut entries), &mut pages, &mut dropped).await;
                pages.push(NewPage::Stays(page.into()));
                continue;
            }
            let bytes = self.read_history_page(key, page, TO_FOLD).await;
            let sound = bytes.and_then(|bytes| decode_history_page(&bytes)).filter(|sound| is_within(sound, &places));
            match sound {
                Some(sound) => {
                    gave_up.push(page.place);
                    entries.extend(merge(sound.entries, plan.over_in(&places).iter().copied()));
                }
                // Nobody asks for it any more.
                None if plan.live.is_empty() && plan.swept.contains(&places.start.0) => {
                    gave_up.extend((page.place != LOST_PLACE).then_some(page.place));
                    entries.extend_from_slice(plan.over_in(&places));
                }
                None => {
                    let lost = wide(page.first);
                    entries.extend_from_slice(plan.over_in(&(places.start..lost)));
                    self.pack_history(&plan, std::mem::take(&mut entries), &mut pages, &mut dropped).await;
                    pages.push(NewPage::Stays(NamedPage { first: page.first, stamp: 0, place: LOST_PLACE }));
                    gave_up.extend((page.place != LOST_PLACE).then_some(page.place));
                    // As their neighbours are: nobody can tell what a view of these blocks has.
                    let own = plan.over_in(&(lost..places.end)).iter();
                    dropped.extend(own.map(|((block, generation), entry)| ((*block as u16, *generation), *entry)));
                }
            }
        }
        self.pack_history(&plan, entries, &mut pages, &mut dropped).await;
        let (leaves, bits) = (Vec::new(), BaseBits::default());
        Ok(Fold { key: (key, FoldOf::History), pages, gave_up, leaves, bits, dropped })
    }

    async fn pack_history(
        &self,
        plan: &Plan,
        mut entries: Vec<(HistoryAt, Entry)>,
        pages: &mut Vec<NewPage>,
        dropped: &mut Vec<(Place, Entry)>,
    ) {
        plan.sweep(&mut entries, dropped);
        let (key, number) = (plan.key, plan.number);
        let pack = move || pack_history_pages(key.0, key.1, number, &entries);
        let packed = self.env.run_blocking(pack).await;
        let ready = |PackedHistoryPage { first, bytes }| {
            NewPage::Written((first.0 as u16, first.1), PageBuf::copy_of(&bytes).freeze())
        };
        pages.extend(packed.into_iter().map(ready));
    }

    /// Drops history of a shard that no snapshot needs, from a block on, in one transaction.
    pub(crate) async fn sweep_part(&self, key: ShardKey, from: u64) -> Result<Swept, StoreError> {
        let end = {
            let state = self.state.borrow();
            let shards = &state.map.pages().expect("the map is in pages").shards;
            let Some(shard) = shards.history(key) else { return Ok(Swept::Shard) };
            shard.blocks_of_pages(from, SWEPT_PAGES)
        };
        let folds = vec![self.prepare_history(key, from..end).await?];
        let exchanged = self.write_folds(folds).await?;
        if exchanged.is_empty() {
            return Ok(Swept::NoRoom);
        }
        let mut transaction = Transaction::default();
        transaction.exchange(exchanged, &self.state.borrow().components);
        self.commit(transaction).await?;
        Ok(if end < SHARD_BLOCKS { Swept::UpTo(end) } else { Swept::Shard })
    }

    /// Whether a snapshot of some component went since its history was swept.
    pub(crate) fn has_unswept(&self) -> bool {
        let State { components, map, tier, .. } = &*self.state.borrow();
        map.pages().is_some() && components.all().any(|c| is_unswept(c, tier))
    }

    /// Sweeps a part of the history of a component of which a snapshot went. False where there is none, or no room for its pages.
    pub(crate) async fn sweep_some(&self) -> Result<bool, StoreError> {
        let next = {
            let mut state = self.state.borrow_mut();
            let State { components, map, tier, .. } = &mut *state;
            let Some(pages) = map.pages_mut() else { return Ok(false) };
            let Some(component) = components.all().find(|c| is_unswept(c, tier)) else { return Ok(false) };
            let (id, listed_at) = (component.id, component.cuts.listed_at());
            // Of another list of cuts it begins anew.
            let from =
                pages.swept.filter(|swept| (swept.0, swept.1) == (id, listed_at)).map_or((0, 0), |swept| swept.2);
            match pages.shards.history_from((id, from.0)) {
                Some((key, _)) => Some((key, if key.1 == from.0 { from.1 } else { 0 }, listed_at)),
                None => {
                    pages.swept = None;
                    components.all_mut().filter(|c| c.id == id).for_each(|c| c.cuts.swept(listed_at));
                    None
                }
            }
        };
        let Some((key, from, listed_at)) = next else { return Ok(true) };
        let next = match self.sweep_part(key, from).await? {
            Swept::UpTo(block) => Some((key.1, block)),
            Swept::Shard => key.1.checked_add(1).map(|shard| (shard, 0)),
            Swept::NoRoom => return Ok(false),
        };
        let state = &mut *self.state.borrow_mut();
        match next {
            Some(next) => {
                let pages = state.map.pages_mut().expect("just seen");
                pages.swept = Some((key.0, listed_at, next));
            }
            None => state.components.all_mut().filter(|c| c.id == key.0).for_each(|c| c.cuts.swept(listed_at)),
        }
        Ok(true)
    }
}

/// Whether history of the component may have what no snapshot needs.
fn is_unswept(component: &Component, tier: &Tier) -> bool {
    component.cuts.is_unswept() && !component.lost && !tier.of(component.device).failed
}

/// Whether a page has only what it answers for.
fn is_within(page: &HistoryPage, places: &Range<HistoryAt>) -> bool {
    page.entries.iter().all(|(at, _)| places.contains(at))
}

impl Folded {
    /// The row of a shard's history, up to `number`. None where nothing is left of it.
    pub fn history_row(
        &self,
        number: u64,
        counts: &[HistoryCount],
        component: Option<&Component>,
    ) -> Option<HistoryShardRow> {
        let mut counts = counts.to_vec();
        for gone in self.dropped_counts() {
            let at = counts.iter().position(|count| count.generation == gone.generation).expect("it was counted");
            counts[at].entries -= gone.entries;
            counts[at].blocks -= gone.blocks;
        }
        counts.retain(|count| count.entries > 0);
        let pages: Vec<HistoryPageRef> = self.pages.iter().map(|page| (*page).into()).collect();
        let planes = component.map(|component| planes_of(&component.cuts, self.key.0)).unwrap_or_default();
        (!pages.is_empty()).then_some(HistoryShardRow { number, pages, counts, planes })
    }
    /// What of its history goes, by generation.
    pub fn dropped_counts(&self) -> Vec<HistoryCount> {
        let mut counts = Vec::new();
        self.dropped.iter().for_each(|(place, entry)| count_entry(&mut counts, place.1, entry));
        counts
    }
}

/// Which blocks of a shard have history of the generations of which that is asked.
fn planes_of(cuts: &Cuts, (_, shard): (ComponentId, u16)) -> Vec<HistoryPlane> {
    let first = u32::from(shard) * SHARD_REGIONS;
    let range = BlockRange::new(u64::from(shard) * SHARD_BLOCKS, SHARD_BLOCKS as u32);
    let plane = |(generation, plane): (u32, &BaseBits)| {
        let own =
            (0u8..=u8::MAX).zip(first..first + SHARD_REGIONS).map(|(index, region)| (index, plane.region(region)));
        let some = own.filter(|(_, bits)| bits.iter().any(|word| *word != 0));
        let regions = some.map(|(index, bits)| (index, StoredBits::from(bits))).collect();
        HistoryPlane { generation, regions }
    };
    cuts.planes().filter(|(_, plane)| plane.count(range) > 0).map(plane).collect()
}
