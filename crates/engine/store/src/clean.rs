//! Giving space back: emptying the maps of deleted components, trimming zeroed ranges, cleaning segments.
//!
//! Promises    a slot is given up only in the transaction that drops its last reference
//! Assumes     the destage task calls: no map change is under way
//! Source      cost-benefit cleaning: Rosenblum & Ousterhout, SOSP 1991
//!
//! Every transaction here is bounded, whatever the size of a disk that is deleted or trimmed.

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn_env::{Disk, Env};
use cairn_format::{RunHeader, decode_run_header, run_header_pages};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId};

use crate::{
    destage::{CapacityWriter, Item, OutBlock},
    disk_group::Inner,
    error::StoreError,
    index::{Body, Place, RecordId},
    map::{Entry, LEAF_BLOCKS, Leaf, LeafKey},
    read::damaged,
    rows,
    state::State,
    transaction::Transaction,
};

/// Leaves that one transaction empties, at most: 256 MiB of addresses, about 1.4 MB of rows.
const TRIM_LEAVES_MAX: usize = 1024;
/// Segments that one cleaning transaction empties, at most.
const CLEAN_SEGMENTS_MAX: usize = 4;
/// Segments that stay free for the next round, beside what this one writes.
const FREE_SEGMENTS_LOW: u64 = 2;
const PAGE: u64 = BLOCK_BYTES as u64;

/// Who a slot belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Map(Entry),
    Pending(RecordId, usize),
}

impl<E: Env> Inner<E> {
    /// Empties the maps of deleted components.
    pub(crate) async fn empty_deleted(&self) -> Result<(), StoreError> {
        let ids = self.state.borrow().deleted_to_empty();
        for id in ids {
            while self.empty_part(id).await? {}
        }
        Ok(())
    }

    /// Removes a bounded part of a deleted component's rows. False when none are left.
    async fn empty_part(&self, id: ComponentId) -> Result<bool, StoreError> {
        let waiting = self.state.borrow().deltas.of_component(id, TRIM_LEAVES_MAX);
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
        let device = self.state.borrow().deleted[&id].device;
        for (key, bytes) in &found {
            if key[0] == rows::LEAF {
                let leaf = Leaf::decode(bytes).ok_or_else(|| damaged("a leaf of the block map is not readable"))?;
                leaf.entries().for_each(|(_, entry)| transaction.drop_slot(device, entry.slot));
            }
            transaction.remove_key(key.clone());
        }
        let last = found.len() < TRIM_LEAVES_MAX;
        if last {
            let mut state = self.state.borrow_mut();
            let deleted = state.deleted.get_mut(&id).expect("only this task removes it");
            deleted.emptied = true;
            deleted.dirty = true;
            let freed = std::mem::take(&mut deleted.base_blocks);
            state.devices[device as usize].charged -= freed;
        }
        self.commit(transaction).await?;
        self.state.borrow_mut().leaves.remove_range((id, 0)..=(id, u64::MAX));
        Ok(!last)
    }

    /// Removes leaves of a deleted component whose rows are not all of them.
    async fn empty_leaves(&self, id: ComponentId, keys: Vec<LeafKey>) -> Result<(), StoreError> {
        let device = self.state.borrow().deleted[&id].device;
        let mut transaction = Transaction::default();
        for (key, leaf) in self.fetch_leaves(&keys).await? {
            leaf.entries().for_each(|(_, entry)| transaction.drop_slot(device, entry.slot));
            transaction.remove_leaf(key);
        }
        self.commit(transaction).await?;
        keys.into_iter().for_each(|key| self.state.borrow_mut().leaves.remove_range(key..=key));
        Ok(())
    }

    /// Takes what settled zeroes of this round cover out of the map.
    pub(crate) async fn trim_zeroes(&self, zeroes: &[Item]) -> Result<(), StoreError> {
        for item in zeroes {
            let runs = self.state.borrow().runs_to_trim(item);
            let mut keys: Vec<LeafKey> = runs
                .iter()
                .flat_map(|run| run.first / LEAF_BLOCKS..=(run.end() - 1) / LEAF_BLOCKS)
                .map(|leaf| (item.component, leaf))
                .collect();
            keys.dedup();
            for part in keys.chunks(TRIM_LEAVES_MAX) {
                let leaves = self.fetch_leaves(part).await?;
                let mut transaction = Transaction::with_leaves(leaves);
                {
                    let state = self.state.borrow();
                    // Deleted meanwhile: its map goes another way.
                    let Some(component) = state.components.get(&item.component) else {
                        break;
                    };
                    for &(_, leaf) in part {
                        let whole = BlockRange::new(leaf * LEAF_BLOCKS, LEAF_BLOCKS as u32);
                        let Some(range) = whole.intersection(item.range) else {
                            continue;
                        };
                        for block in range.first..range.end() {
                            if transaction.entry(component.id, block).is_some() {
                                transaction.set_entry(component, block, None);
                            }
                        }
                    }
                }
                self.commit(transaction).await?;
            }
        }
        Ok(())
    }

    /// Cleans a device until it has free segments for `blocks` more. False when it cannot.
    pub(crate) async fn clean_for(&self, device: u8, blocks: u64) -> Result<bool, StoreError> {
        loop {
            let (needed, free) = {
                let state = self.state.borrow();
                let segments = &state.devices[device as usize];
                if segments.failed {
                    return Ok(true);
                }
                let needed = blocks.div_ceil(segments.slots_per_segment().max(1));
                (needed, segments.free_segments())
            };
            if free >= needed + FREE_SEGMENTS_LOW {
                return Ok(true);
            }
            if !self.clean(device).await? {
                // Nothing to gain any more. One stays free, or cleaning could never begin again.
                let state = self.state.borrow();
                return Ok(state.devices[device as usize].free_segments() > needed || blocks == 0);
            }
        }
    }

    /// Moves what is live out of a few segments. False when that gains nothing.
    async fn clean(&self, device: u8) -> Result<bool, StoreError> {
        let victims = self.state.borrow().choose_victims(device, &self.pins);
        let before = self.state.borrow().devices[device as usize].free_segments();
        if victims.is_empty() {
            return Ok(false);
        }
        let mut found: Vec<(u64, OutBlock)> = Vec::new();
        for &segment in &victims {
            match self.read_runs(device, segment).await? {
                Some(blocks) => found.extend(blocks),
                None => return Ok(true),
            }
        }
        let folded = self.state.borrow_mut().leaves_to_fold(found.len());
        let keys: Vec<LeafKey> = {
            let state = self.state.borrow();
            let mut keys = folded.clone();
            let moved = found
                .iter()
                .filter(|(_, b)| state.components.contains_key(&b.component))
                .map(|(_, b)| (b.component, b.block / LEAF_BLOCKS));
            keys.extend(moved);
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        let leaves = self.fetch_leaves(&keys).await?;
        let mut transaction = Transaction::with_leaves(leaves);
        folded.into_iter().for_each(|key| transaction.write_whole(key));
        let live: Vec<(u64, OutBlock)> = {
            let state = self.state.borrow();
            let pending = state.pending_slots(device);
            found.into_iter().filter(|(slot, b)| state.owner(*slot, b, &transaction, &pending).is_some()).collect()
        };
        let (slots, mut blocks): (Vec<u64>, Vec<OutBlock>) = live.into_iter().unzip();
        let order = sorted_order(&blocks);
        let old: Vec<u64> = order.iter().map(|&at| slots[at]).collect();
        blocks.sort_by_key(|b| (b.pending, b.component, b.block));
        let ticket = self.state.borrow_mut().take_ticket();
        let new = self.write_blocks(device, &blocks, CapacityWriter::Clean(ticket)).await;
        let Some(new) = new.filter(|new| new.len() == blocks.len()) else {
            let mut state = self.state.borrow_mut();
            state.round_over(ticket);
            // No room, or the device failed.
            return Ok(state.devices[device as usize].failed);
        };
        transaction.ends(ticket);
        self.state.borrow_mut().plan_moves(device, &blocks, &old, &new, &mut transaction);
        self.commit(transaction).await?;
        let mut state = self.state.borrow_mut();
        state.round += 1;
        state.counters.cleaned_blocks += blocks.len() as u64;
        state.counters.cleaned_segments += victims.len() as u64;
        Ok(state.devices[device as usize].free_segments() > before)
    }

    /// Every block of a segment's runs with its slot. None when the device failed.
    async fn read_runs(&self, device: u8, segment: u32) -> Result<Option<Vec<(u64, OutBlock)>>, StoreError> {
        let (first, fill, offset, log_id) = {
            let state = self.state.borrow();
            let segments = &state.devices[device as usize];
            let first = u64::from(segment) * u64::from(segments.segment_pages);
            (first, segments.row(segment).fill, segments.device_offset(first), state.log_id)
        };
        if fill == 0 {
            return Ok(Some(Vec::new()));
        }
        let len = u64::from(fill) * PAGE;
        self.state.borrow_mut().counters.clean_read_bytes += len;
        let data = match self.disk(device).read(offset, len as u32).await {
            Ok(data) => data,
            Err(error) if error.kind == cairn_env::DiskErrorKind::Gone => {
                self.state.borrow_mut().fail_device(device);
                return Ok(None);
            }
            // Unreadable blocks move as zeroes with the CRC that they should have: reads report them.
            Err(_) => self.read_page_by_page(device, offset, len).await,
        };
        let (mut blocks, mut page) = (Vec::new(), 0u32);
        while page < fill {
            let Ok(run) = decode_run_header(&data[(u64::from(page) * PAGE) as usize..]) else {
                break;
            };
            if run.log_id != log_id || run.segment != segment {
                break;
            }
            page = take_run(&run, page, first, &data, &mut blocks);
        }
        Ok(Some(blocks))
    }

    async fn read_page_by_page(&self, device: u8, offset: u64, len: u64) -> Bytes {
        let mut data = cairn_env::PageBuf::zeroed(len as usize);
        for page in 0..len / PAGE {
            if let Ok(bytes) = self.disk(device).read(offset + page * PAGE, PAGE as u32).await {
                data[(page * PAGE) as usize..][..PAGE as usize].copy_from_slice(&bytes);
            }
        }
        data.freeze()
    }
}

/// Adds the blocks of the run at `page`; returns the page after it.
fn take_run(run: &RunHeader, page: u32, first: u64, data: &Bytes, blocks: &mut Vec<(u64, OutBlock)>) -> u32 {
    let mut at = page + run_header_pages(run.entries.len() as u32);
    for entry in &run.entries {
        let from = (u64::from(at) * PAGE) as usize;
        if from + PAGE as usize > data.len() {
            break;
        }
        let out = OutBlock {
            component: entry.component,
            block: entry.block,
            crc: entry.crc,
            pending: entry.pending,
            data: data.slice(from..from + PAGE as usize),
        };
        blocks.push((first + u64::from(at), out));
        at += 1;
    }
    at
}

fn sorted_order(blocks: &[OutBlock]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&at| (blocks[at].pending, blocks[at].component, blocks[at].block));
    order
}

impl State {
    /// Mapped runs under a settled zero that does not keep its space.
    fn runs_to_trim(&self, item: &Item) -> Vec<BlockRange> {
        let (Some(record), Some(component)) = (self.records.get(item.record), self.components.get(&item.component))
        else {
            return Vec::new();
        };
        if record.allocates() || record.op > component.settled {
            return Vec::new();
        }
        let spans = component.extents.spans(item.range);
        let live = spans.into_iter().filter(|s| s.versions.contains(&item.record));
        live.flat_map(|s| component.base.runs(s.range)).collect()
    }

    /// Segments to empty: the best few whose live blocks fit what is free.
    fn choose_victims(&self, device: u8, pins: &crate::segments::Pins) -> Vec<u32> {
        let segments = &self.devices[device as usize];
        let room = segments.free_segments() * segments.slots_per_segment();
        let mut blocks = 0;
        segments
            .to_clean(self.round, pins)
            .into_iter()
            .take(CLEAN_SEGMENTS_MAX)
            .take_while(|&segment| {
                blocks += u64::from(segments.row(segment).live);
                blocks <= room
            })
            .collect()
    }

    /// The slots of pending rows on a device.
    fn pending_slots(&self, device: u8) -> BTreeMap<u64, (RecordId, usize)> {
        let mut owners = BTreeMap::new();
        for &id in &self.records.pending {
            let record = self.records.of(id);
            if self.components.get(&record.component).is_none_or(|c| c.device != device) {
                continue;
            }
            if let Body::Data { place: Place::Slots(slots), .. } = &record.body {
                owners.extend(slots.iter().enumerate().map(|(at, &slot)| (slot, (id, at))));
            }
        }
        owners
    }

    fn owner(
        &self,
        slot: u64,
        block: &OutBlock,
        transaction: &Transaction,
        pending: &BTreeMap<u64, (RecordId, usize)>,
    ) -> Option<Owner> {
        if let Some(&(record, index)) = pending.get(&slot) {
            return Some(Owner::Pending(record, index));
        }
        if !self.components.contains_key(&block.component) || !transaction.has_leaf(block.component, block.block) {
            return None;
        }
        transaction.entry(block.component, block.block).filter(|e| e.slot == slot).map(Owner::Map)
    }

    /// Points the owners that still hold their old slots to the new ones.
    fn plan_moves(&mut self, device: u8, blocks: &[OutBlock], old: &[u64], new: &[u64], transaction: &mut Transaction) {
        let pending = self.pending_slots(device);
        for ((block, &old), &new) in blocks.iter().zip(old).zip(new) {
            match self.owner(old, block, transaction, &pending) {
                Some(Owner::Map(entry)) => {
                    transaction.add_slot(device, new);
                    transaction.set_entry(
                        &self.components[&block.component],
                        block.block,
                        Some(Entry { slot: new, ..entry }),
                    );
                }
                Some(Owner::Pending(record, index)) => {
                    transaction.add_slot(device, new);
                    transaction.drop_slot(device, old);
                    transaction.move_pending(self, record, index, old, new);
                }
                None => {}
            }
        }
    }
}
