//! Blocks that are stored already: what a round destages is looked for among the runs of its device, and compared.
//!
//! Promises    only equal bytes are a hit; what may be one stands in a segment that is neither free, open, awaited nor held, of its present use,
//!             and is pinned until the round is over
//!             blocks that are not settled, and parity, take no part
//! Not here    whether somebody still holds the block when the round commits, and what becomes of it then (`hits.rs`)
//!
//! A hook leads to the header of a run, where all blocks of the round are looked up: equal blocks come in runs. When in doubt a block is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_format::{
    PAGE_SECTORS, RunError, RunHeader, SECTOR_BYTES, Spot, crc32c, decode_run_header, fingerprint,
    shared_rows::REFERENCES_MAX, zero_block_crc,
};
use cairn_types::{BLOCK_BYTES, Canary, ComponentId};
use futures::{StreamExt, stream};

use crate::{
    capacity::OutBlock,
    disk_group::Inner,
    hooks::RunPage,
    packed_read::{pages_of, plain},
    records::RecordId,
    run_cache::{Known, KnownRun},
    segments::Pin,
    squeeze::{BLOCKS_PER_JOB, JOBS, Outgoing},
    state::State,
};

/// Reads at once.
const READS: usize = 4;
/// Blocks that are looked up before others of the thread have a turn.
const LOOKED_UP_AT_ONCE: usize = 256;
/// Headers that are read for the blocks of one round and device, at most: 4 MB.
const HEADER_READS_MAX: usize = 128;
/// What is read of a run at first: the header of one with 1,300 blocks.
const HEADER_PAGES_AT_ONCE: u64 = 8;
/// Sectors of one read, at most, and how far apart two items may be that are read together.
const SECTORS_AT_ONCE: u64 = 512;
const GAP_SECTORS: u64 = 64;

/// A block of a round that is equal to one that is stored.
pub(crate) struct Hit {
    /// Its place among the round's spots.
    pub at: usize,
    /// Of the log; none for a block that moves.
    pub record: Option<RecordId>,
    pub device: u8,
    /// As it is written if the hit does not stand.
    pub block: OutBlock,
    pub with: Stored,
}

/// An item that is stored.
#[derive(Clone)]
pub(crate) struct Stored {
    pub known: Known,
    /// That it has, or would have.
    pub name: Spot,
    pub segment: u32,
    /// The use of the segment.
    pub generation: u64,
    /// References that it had.
    count: u8,
    run: RunPage,
    _pin: Option<Rc<Pin>>,
}

/// What was found for the blocks of a round and device.
#[derive(Default)]
pub(crate) struct Found {
    pub hits: Vec<Hit>,
    /// Places among the round's spots: of a block, of one in this round that is equal to it.
    pub twins: Vec<(usize, usize)>,
}

/// What a job makes of a block.
enum Made {
    Zero,
    Fingerprint(u64),
    /// Its checksum is wrong.
    Nothing,
}

fn make(job: &[(u32, bool, Bytes)], word: u64) -> Vec<Made> {
    let one = |(crc, is_parity, data): &(u32, bool, Bytes)| {
        if crc32c(data) != *crc {
            return Made::Nothing;
        }
        let is_zero = !is_parity && *crc == zero_block_crc() && data.iter().all(|byte| *byte == 0);
        if is_zero { Made::Zero } else { Made::Fingerprint(fingerprint(data, *crc, word)) }
    };
    job.iter().map(one).collect()
}

impl State {
    /// An item that a block may be equal to, by fingerprint and checksum, and that may get another reference.
    fn stored_like(&mut self, device: u8, fingerprint: u64, crc: u32) -> Option<Stored> {
        let devices = self.tier.len();
        let segments = self.tier.of(device);
        let runs = &mut self.twins.of(device, devices).runs;
        let (run, segment, generation, known) = runs.find(fingerprint, crc)?;
        if !segments.may_be_shared(segment, generation) {
            runs.forget_run(run);
            return None;
        }
        let name = segments.name_of(known.place, known.name);
        let fits = match (segments.shared(name), known.name) {
            (Some(item), _) => item.at == known.place && item.count < REFERENCES_MAX,
            // Nothing refers to it any more.
            (None, Some(_)) => false,
            (None, None) => {
                let here = |id: ComponentId| self.components.get(id).is_some_and(|c| !c.lost && c.device == device);
                here(known.owner.0) && self.tier.may_share()
            }
        };
        let count = segments.shared(name).map_or(1, |item| item.count);
        fits.then_some(Stored { known, name, segment, generation, count, run, _pin: None })
    }
}

impl<E: Env> Inner<E> {
    /// Makes fingerprints, in place. Gives the places of blocks of zeroes, which need no item, and takes these out.
    pub(crate) async fn make_fingerprints(&self, blocks: &mut Vec<Outgoing>) -> Vec<usize> {
        let word = self.state.borrow().log.id();
        let jobs = blocks.chunks(BLOCKS_PER_JOB).map(|some| {
            let of = |out: &Outgoing| (out.block.crc, out.is_parity, out.block.data.clone());
            let job: Vec<(u32, bool, Bytes)> = some.iter().map(of).collect();
            self.env.run_blocking(move || make(&job, word))
        });
        let made: Vec<Vec<Made>> = stream::iter(jobs).buffered(JOBS).collect().await;
        let mut zeroes = Vec::new();
        let mut made = made.into_iter().flatten();
        blocks.retain_mut(|out| match made.next() {
            Some(Made::Zero) => {
                zeroes.push(out.at);
                false
            }
            Some(Made::Fingerprint(fingerprint)) => {
                out.block.fingerprint = fingerprint;
                true
            }
            Some(Made::Nothing) | None => true,
        });
        self.state.borrow_mut().counters.zero_blocks += zeroes.len() as u64;
        zeroes
    }

    /// Takes blocks out that are equal to one that is stored, or to another one of the round.
    pub(crate) async fn find_twins(&self, device: u8, blocks: &mut Vec<Outgoing>) -> Found {
        {
            let state = &mut *self.state.borrow_mut();
            if std::mem::take(&mut state.twins.passes_one) || state.tier.of(device).failed {
                return Found::default();
            }
        }
        let (firsts, twin_of) = twins_of_round(blocks);
        let stored = self.look_up(device, blocks, &firsts).await;
        let equal = self.compare(device, blocks, stored).await;
        let at: Vec<usize> = blocks.iter().map(|out| out.at).collect();
        let mut found = Found::default();
        // Of items that have no room for all, how many refer to them, and the block that the others refer to.
        let (mut taken, mut instead): (BTreeMap<Spot, u8>, BTreeMap<usize, usize>) = Default::default();
        for (n, out) in std::mem::take(blocks).into_iter().enumerate() {
            let first = twin_of.get(&n).copied().unwrap_or(n);
            let Some(with) = equal.get(&first) else {
                if first == n {
                    blocks.push(out)
                } else {
                    found.twins.push((out.at, at[first]))
                }
                continue;
            };
            let count = taken.entry(with.name).or_insert(with.count);
            if *count < REFERENCES_MAX {
                *count += 1;
                let Outgoing { at, record, block, .. } = out;
                found.hits.push(Hit { at, record, device, block, with: with.clone() });
            } else if let Some(first) = instead.get(&first) {
                found.twins.push((out.at, *first));
            } else {
                instead.insert(first, out.at);
                blocks.push(out);
            }
        }
        self.state.borrow_mut().counters.dedupe_twin_blocks += found.twins.len() as u64;
        found
    }

    /// Stored items that blocks may be equal to, by their places among `blocks`.
    async fn look_up(&self, device: u8, blocks: &[Outgoing], wanted: &[usize]) -> BTreeMap<usize, Stored> {
        let (mut stored, mut tried) = (BTreeMap::new(), BTreeSet::new());
        // Twice: what came before a block that led to a header is found in it, too.
        for pass in 0..2 {
            for (turn, &n) in wanted.iter().enumerate() {
                if turn % LOOKED_UP_AT_ONCE == LOOKED_UP_AT_ONCE - 1 {
                    self.env.give_way().await;
                }
                let OutBlock { component, fingerprint, crc, .. } = blocks[n].block;
                if stored.contains_key(&n) || self.state.borrow().twins.doubts.rests(component, self.env.now()) {
                    continue;
                }
                if let Some(like) = self.stored_like(device, fingerprint, crc) {
                    stored.insert(n, like);
                    continue;
                }
                if pass > 0 {
                    continue;
                }
                let page = {
                    let state = &mut *self.state.borrow_mut();
                    state.counters.dedupe_looked_up_blocks += 1;
                    let devices = state.tier.len();
                    let of = state.twins.of(device, devices);
                    of.hooks.run_of(fingerprint).filter(|page| !of.runs.has(*page) && !tried.contains(page))
                };
                let Some(page) = page.filter(|_| tried.len() < HEADER_READS_MAX) else { continue };
                tried.insert(page);
                if self.load_run(device, page).await {
                    stored.extend(self.stored_like(device, fingerprint, crc).map(|like| (n, like)));
                } else {
                    let state = &mut *self.state.borrow_mut();
                    let devices = state.tier.len();
                    state.twins.of(device, devices).hooks.forget(fingerprint, page);
                }
            }
            if tried.is_empty() {
                break;
            }
        }
        stored
    }

    /// The same of one block, pinned.
    fn stored_like(&self, device: u8, fingerprint: u64, crc: u32) -> Option<Stored> {
        let stored = self.state.borrow_mut().stored_like(device, fingerprint, crc)?;
        let pin = || Rc::new(self.pins.pin(device, u64::from(stored.segment)));
        Some(Stored { _pin: (!Canary::HitUnpinned.sings()).then(pin), ..stored })
    }

    /// Reads the header of a run that blocks may share. None where there is none that is of use.
    pub(crate) async fn read_run(&self, device: u8, page: RunPage) -> Option<(RunHeader, u32)> {
        let (segment, generation, left, offset, log_id) = {
            let state = self.state.borrow();
            let segments = state.tier.of(device);
            let (segment, within) = (page / segments.segment_pages, page % segments.segment_pages);
            if u64::from(segment) >= segments.count() {
                return None;
            }
            let row = segments.row(segment);
            if within >= row.fill || !segments.may_be_shared(segment, row.generation) {
                return None;
            }
            let offset = segments.device_offset(u64::from(page));
            (segment, row.generation, u64::from(row.fill - within), offset, state.log.id())
        };
        let _pin = self.pins.pin(device, u64::from(segment));
        let mut pages = HEADER_PAGES_AT_ONCE.min(left);
        loop {
            self.state.borrow_mut().counters.dedupe_header_reads += 1;
            let bytes = u64::from(BLOCK_BYTES) * pages;
            let Ok(bytes) = self.read_device(device, offset, bytes as u32).await else { return None };
            match decode_run_header(&bytes) {
                Err(RunError::Short(len)) if u64::from(len.div_ceil(BLOCK_BYTES)) <= left => {
                    pages = u64::from(len.div_ceil(BLOCK_BYTES));
                }
                Ok(run) if (run.log_id, run.segment, run.generation) == (log_id, segment, generation) => {
                    return Some((run, segment));
                }
                _ => return None,
            }
        }
    }

    /// Keeps the header of a run, to look blocks up in it. False where there is none that is of use.
    async fn load_run(&self, device: u8, page: RunPage) -> bool {
        let Some((run, segment)) = self.read_run(device, page).await else { return false };
        let places = run.spots(u64::from(page));
        let known = run.entries.iter().zip(places).filter(|(entry, _)| !entry.pending && entry.fingerprint != 0);
        let items = known.map(|(entry, place)| Known {
            fingerprint: entry.fingerprint,
            crc: entry.crc,
            place,
            owner: (entry.component, entry.block),
            name: entry.name,
        });
        let run = KnownRun { segment, generation: run.generation, items: items.collect() };
        let state = &mut *self.state.borrow_mut();
        let devices = state.tier.len();
        state.twins.of(device, devices).runs.keep(page, run);
        true
    }

    /// Of the items that blocks may be equal to, those that they are equal to.
    async fn compare(
        &self,
        device: u8,
        blocks: &[Outgoing],
        stored: BTreeMap<usize, Stored>,
    ) -> BTreeMap<usize, Stored> {
        let mut all: Vec<(usize, Stored)> = stored.into_iter().collect();
        all.sort_by_key(|(_, stored)| stored.known.place.sector());
        let mut stretches: Vec<Vec<(usize, Stored)>> = Vec::new();
        for one in all {
            let fits = |some: &Vec<(usize, Stored)>| {
                let ((_, first), (_, last)) = (&some[0], &some[some.len() - 1]);
                let (from, to, next) = (first.known.place, last.known.place, one.1.known.place);
                first.segment == one.1.segment
                    && next.sector() <= to.end() + GAP_SECTORS
                    && next.end() - from.sector() <= SECTORS_AT_ONCE
            };
            match stretches.last_mut().filter(|some| fits(some)) {
                Some(some) => some.push(one),
                None => stretches.push(vec![one]),
            }
        }
        let compared = stretches.into_iter().map(|some| self.compare_some(device, blocks, some));
        let compared: Vec<Vec<(usize, Stored)>> = stream::iter(compared).buffered(READS).collect().await;
        compared.into_iter().flatten().collect()
    }

    /// The same of items that are read together.
    async fn compare_some(&self, device: u8, blocks: &[Outgoing], some: Vec<(usize, Stored)>) -> Vec<(usize, Stored)> {
        let sector = u64::from(SECTOR_BYTES);
        let base = self.state.borrow().tier.of(device).segments_offset;
        let from = some[0].1.known.place.sector();
        let end =
            some.iter().map(|(_, stored)| stored.known.place.end()).max().unwrap_or(from + u64::from(PAGE_SECTORS));
        let (offset, len) = pages_of(base + from * sector, base + end * sector);
        let Ok(bytes) = self.read_device(device, offset, len as u32).await else { return Vec::new() };
        let pairs: Vec<(Bytes, Bytes)> = some
            .iter()
            .map(|(n, stored)| {
                let place = stored.known.place;
                let at = (base + place.sector() * sector - offset) as usize;
                (bytes.slice(at..at + (u64::from(place.sectors()) * sector) as usize), blocks[*n].block.data.clone())
            })
            .collect();
        let is_equal = |(stored, data): &(Bytes, Bytes)| plain(stored).is_some_and(|block| block == data);
        let equal = self.env.run_blocking(move || pairs.iter().map(is_equal).collect::<Vec<bool>>()).await;
        let now = self.env.now();
        let State { twins, counters, tier, .. } = &mut *self.state.borrow_mut();
        let (devices, mut found) = (tier.len(), Vec::with_capacity(some.len()));
        for ((n, stored), is_equal) in some.into_iter().zip(equal) {
            counters.dedupe_compared_blocks += 1;
            twins.doubts.compared(blocks[n].block.component, is_equal, now);
            if is_equal || Canary::HitUncompared.sings() {
                found.push((n, stored));
                continue;
            }
            counters.dedupe_unlike_blocks += 1;
            let of = twins.of(device, devices);
            of.runs.forget(stored.known.fingerprint, stored.run);
            of.hooks.forget(stored.known.fingerprint, stored.run);
        }
        found
    }
}

/// Of blocks that may share what is stored, by their places among `blocks`, those that no block before them is equal to; and of the others which one is.
fn twins_of_round(blocks: &[Outgoing]) -> (Vec<usize>, BTreeMap<usize, usize>) {
    let mut by_fingerprint: BTreeMap<u64, (usize, u8)> = BTreeMap::new();
    let (mut firsts, mut twin_of) = (Vec::new(), BTreeMap::new());
    for (n, out) in blocks.iter().enumerate() {
        let OutBlock { fingerprint, crc, pending, ref data, .. } = out.block;
        if fingerprint == 0 || pending || out.is_parity {
            continue;
        }
        if let Some((first, references)) = by_fingerprint.get_mut(&fingerprint) {
            let other = &blocks[*first].block;
            let is_equal = other.data == *data || Canary::HitUncompared.sings();
            if other.crc == crc && is_equal && *references < REFERENCES_MAX {
                *references += 1;
                twin_of.insert(n, *first);
                continue;
            }
        }
        by_fingerprint.insert(fingerprint, (n, 1));
        firsts.push(n);
    }
    (firsts, twin_of)
}
