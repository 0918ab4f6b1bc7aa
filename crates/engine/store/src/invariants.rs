//! What must hold of a disk group at any moment, as predicates for tests, the simulator and `cairn inspect`.
//!
//! | what | invariant |
//! |---|---|
//! | versions, records, charges and windows agree with a recount | I6, I9 |
//! | the map's entries are exactly the bits | I7 |
//! | an item has one reference by its place, or as many by its name as are counted | D1 |
//! | a name leads to one place, and the run that stands there names it | D2 |
//! | a segment's count of what is in use is that of the items with references | I7 |
//! | every mapped and every buffered block has the CRC that is on record | I7 |
//!
//! A check walks everything: for tests and small groups.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use cairn_env::Env;
use cairn_format::{COMPONENT_BLOCKS_MAX, PAGE_SECTORS, SECTOR_BYTES, SHARD_BLOCKS, crc32c, rows::Live};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId};

use crate::{
    deltas::put_over,
    disk_group::{DiskGroup, Inner},
    history::{History, LOST_PLACE},
    history_shard::count_entry,
    leaf::{LEAF_BLOCKS, Leaf, LeafKey, Spot},
    map::Map,
    meta::Rows,
    records::{Body, Place},
    rows,
    segments::LOG,
    shards::{ShardKey, leaves_of},
    state::State,
    tier::Tier,
};

/// Attempts before the check gives up on a group whose map never rests. They are a millisecond apart and more: ten seconds at least, so
/// that only a map that never rests is told. Twenty were too few where destage had much to do.
const ATTEMPTS: u32 = 10_000;

impl<E: Env> DiskGroup<E> {
    /// Checks every invariant; the text says which is broken and where. Bad media count as broken.
    pub async fn check_invariants(&self) -> Result<(), String> {
        self.check(true).await
    }

    /// The same without reading the blocks: for media that were spoiled on purpose.
    pub async fn check_bookkeeping(&self) -> Result<(), String> {
        self.check(false).await
    }

    async fn check(&self, contents: bool) -> Result<(), String> {
        let inner = self.inner();
        for _ in 0..ATTEMPTS {
            let generation = inner.state.borrow().map.generation();
            let rests = || inner.state.borrow().map.rests_at(generation);
            let rested = rests();
            inner.state.borrow().check_counts()?;
            self.space().check()?;
            let result = inner.check_media(contents).await;
            // What a transaction changed meanwhile proves nothing.
            if rested && rests() {
                return result;
            }
            inner.env.sleep(std::time::Duration::from_millis(1)).await;
        }
        Err("the map never rested long enough to be checked".into())
    }
}

/// How often something refers to a spot.
type References = BTreeMap<(u8, Spot), u32>;

/// A block to be read and compared.
struct Check {
    device: u8,
    offset: u64,
    sectors: u32,
    crc: u32,
    what: String,
}

impl<E: Env> Inner<E> {
    async fn check_media(self: &Rc<Self>, contents: bool) -> Result<(), String> {
        let meta = self.meta.clone();
        let job = move || {
            let leaves = meta.scan(&[rows::LEAF], &[rows::LEAF + 1], usize::MAX)?;
            meta.scan(&[rows::DELTA], &[rows::DELTA + 1], usize::MAX).map(|deltas| (leaves, deltas))
        };
        let (leaves, deltas) = self.env.run_blocking(job).await.map_err(|e| e.to_string())?;
        let mut leaves = check_leaves(&self.state.borrow().map, &leaves, &deltas)?;
        self.add_pages(&mut leaves).await?;
        let history = self.all_history().await;
        let checks = self.state.borrow().check_map(&leaves, &history)?;
        if contents {
            self.check_names().await?;
        }
        for check in checks.into_iter().filter(|_| contents) {
            let data = self.read_stored(check.device, check.offset, check.sectors).await;
            let data = data.map_err(|e| format!("{}: {e}", check.what))?;
            let data = data.ok_or_else(|| format!("{}: the stored bytes do not unpack", check.what))?;
            if crc32c(&data) != check.crc {
                return Err(format!("{}: the checksum of the stored bytes is wrong", check.what));
            }
        }
        Ok(())
    }
}

impl<E: Env> Inner<E> {
    /// Compares where names lead with what the runs there say (D2).
    async fn check_names(&self) -> Result<(), String> {
        let mut by_segment: BTreeMap<(u8, u32), Vec<(Spot, Spot)>> = BTreeMap::new();
        for segments in self.state.borrow().tier.devices().iter().filter(|segments| !segments.failed) {
            for (name, item) in segments.shares.all() {
                let segment = segments.segment_of(item.at);
                by_segment.entry((segments.device, segment)).or_default().push((name, item.at));
            }
        }
        for ((device, segment), names) in by_segment {
            let Some(named) = self.read_headers(device, segment).await else { continue };
            let named: BTreeMap<Spot, Option<Spot>> =
                named.into_iter().map(|(spot, entry)| (spot, entry.name)).collect();
            for (name, at) in names {
                let found = named.get(&at).map(|moved| self.state.borrow().tier.of(device).name_of(at, *moved));
                if found != Some(name) {
                    return Err(format!("{name:?} leads to {at:?} of device {device}, which has {found:?}"));
                }
            }
        }
        Ok(())
    }

    /// Leaves of a map in pages take the place of those in rows: each place has one name, and shards are queued as they should.
    async fn add_pages(self: &Rc<Self>, leaves: &mut BTreeMap<LeafKey, Leaf>) -> Result<(), String> {
        let keys: Vec<ShardKey> = {
            let state = self.state.borrow();
            let Some(pages) = state.map.pages() else { return Ok(()) };
            pages.shards.check()?;
            let mut places = BTreeSet::new();
            let of_map = pages.shards.all().flat_map(|(_, shard)| shard.pages()).map(|page| page.place);
            let of_history = pages.shards.all_history().flat_map(|(_, shard)| shard.pages()).map(|page| page.place);
            let mut named = of_map.chain(of_history.filter(|place| *place != LOST_PLACE));
            if let Some(place) = named.find(|place| !places.insert(*place)) {
                return Err(format!("place {place} of the block map has two names"));
            }
            if places.len() as u64 != pages.zone.named() {
                return Err(format!(
                    "{} pages of the block map, {} places have names",
                    places.len(),
                    pages.zone.named()
                ));
            }
            pages.shards.all().map(|(key, _)| key).collect()
        };
        for key in keys {
            let (entries, _) = self.entries_of_shard(key).await.map_err(|e| e.to_string())?;
            leaves_of(key.1).for_each(|leaf| drop(leaves.remove(&(key.0, leaf))));
            for (block, entry) in entries {
                let block = u64::from(key.1) * SHARD_BLOCKS + block;
                leaves.entry((key.0, block / LEAF_BLOCKS)).or_default().set(block, Some(entry));
            }
        }
        Ok(())
    }
}

/// All history, by shard.
type AllHistory = Vec<(ShardKey, History)>;

impl<E: Env> Inner<E> {
    async fn all_history(self: &Rc<Self>) -> AllHistory {
        let keys: Vec<ShardKey> = {
            let state = self.state.borrow();
            state.map.pages().into_iter().flat_map(|pages| pages.shards.all_history()).map(|(key, _)| key).collect()
        };
        let mut all = Vec::new();
        for key in keys {
            all.push((key, self.history_of(key, 0..SHARD_BLOCKS).await));
        }
        all
    }
}

impl State {
    /// Counts of history, which of its blocks are known to have it, and the spots that it refers to.
    fn check_history(
        &self,
        history: &AllHistory,
        references: &mut References,
        checks: &mut Vec<Check>,
    ) -> Result<(), String> {
        let mut blocks: BTreeMap<ComponentId, u64> = BTreeMap::new();
        for (key, of_shard) in history {
            let device =
                self.components.device_of(key.0).ok_or_else(|| format!("history of {key:?}, which is not here"))?;
            if self.tier.of(device).failed {
                continue;
            }
            let component = self.components.get(key.0).filter(|component| !component.lost);
            let first = u64::from(key.1) * SHARD_BLOCKS;
            let mut counts = Vec::new();
            for &((block, generation), entry) in of_shard.entries() {
                let what = format!("history of {:?} block {} at cut {generation}", key.0, first + block);
                count_entry(&mut counts, generation, &entry);
                let noted =
                    component.is_none_or(|c| !c.cuts.is_noted(generation) || c.cuts.has(generation, first + block));
                if !noted {
                    return Err(format!("{what}: it is not known to be there"));
                }
                if !entry.spot.is_place() {
                    continue;
                }
                let Some(place) = self.tier.of(device).place_of(entry.spot) else {
                    return Err(format!("{what}: device {device} has no {:?}", entry.spot));
                };
                *references.entry((device, entry.spot)).or_default() += 1;
                let (offset, sectors) = (self.tier.of(device).offset_of(place), place.sectors());
                checks.push(Check { device, offset, sectors, crc: entry.crc, what });
            }
            // A check runs beside what removes it.
            let Some(shard) = self.map.pages().and_then(|pages| pages.shards.history(*key)) else { continue };
            if !of_shard.has_lost() && shard.counts() != counts {
                return Err(format!("history of {key:?}: {:?} counted, {counts:?} there", shard.counts()));
            }
            *blocks.entry(key.0).or_default() += shard.blocks();
        }
        for component in self.components.all().filter(|component| !component.lost) {
            let there = blocks.get(&component.id).copied().unwrap_or(0);
            if there != component.history_blocks {
                return Err(format!(
                    "{:?}: {} blocks of history, {there} counted",
                    component.id, component.history_blocks
                ));
            }
        }
        Ok(())
    }

    /// Counts everything that is kept as a sum anew.
    pub(crate) fn check_counts(&self) -> Result<(), String> {
        let mut live: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut charged, mut used) = (vec![0; self.tier.len()], vec![0; self.tier.len()]);
        let mut reserved = vec![0; self.tier.len()];
        for component in self.components.all() {
            let id = component.id;
            for span in component.extents.all() {
                let ops: Vec<_> = span.versions.iter().map(|&v| self.components.records.of(v).op).collect();
                if !ops.windows(2).all(|w| w[0] >= w[1]) {
                    return Err(format!("{id:?} {:?}: versions are out of order", span.range));
                }
                let settled: Vec<_> = ops.iter().filter(|op| **op <= component.settled).collect();
                // Where the last snapshot went, what it viewed goes as it is met.
                if !component.cuts.were_cut() && settled.len() > 1 {
                    return Err(format!("{id:?} {:?}: a settled version is kept that nothing views", span.range));
                }
                for (&version, op) in span.versions.iter().zip(&ops) {
                    *live.entry(version).or_default() += u64::from(span.range.count);
                    if *op > component.settled && component.window.get(*op).is_none() {
                        return Err(format!("{id:?} {:?}: an unsettled version is not in the window", span.range));
                    }
                }
            }
            if !component.extents.agrees(component.below(), &self.components.records) {
                return Err(format!("{id:?}: new, hidden or history blocks are miscounted"));
            }
            if component.window.first().is_some_and(|first| first.info.op <= component.settled) {
                return Err(format!("{id:?}: a settled operation is in the window"));
            }
            charged[component.device as usize] += component.charge();
            used[component.device as usize] += component.used();
            reserved[component.device as usize] += component.set_aside();
        }
        for deleted in self.components.deleted() {
            charged[deleted.device as usize] += deleted.base_blocks;
        }
        let witnesses = self.components.all().filter(|c| c.size_blocks == 0).count();
        if self.components.witnesses() as usize != witnesses {
            return Err(format!("{} components without blocks, {witnesses} counted", self.components.witnesses()));
        }
        for (device, segments) in self.tier.devices().iter().enumerate() {
            if !segments.failed && (segments.charged, segments.used) != (charged[device], used[device]) {
                return Err(format!(
                    "device {device}: {} blocks charged and {} used, {} and {} counted",
                    segments.charged, segments.used, charged[device], used[device]
                ));
            }
        }
        for (segments, reserved) in self.tier.devices().iter().zip(reserved).filter(|(segments, _)| !segments.failed) {
            if segments.reserved != reserved {
                let device = segments.device;
                return Err(format!("device {device}: {} blocks reserved, {reserved} counted", segments.reserved));
            }
        }
        for (id, record) in self.components.records.iter() {
            if record.live == 0 || live.get(&id).copied().unwrap_or(0) != record.live {
                return Err(format!(
                    "record {id} of {:?}: {} blocks live, {:?} counted",
                    record.component,
                    record.live,
                    live.get(&id)
                ));
            }
        }
        Ok(())
    }

    /// Compares the map's leaves with bits and segment counts; returns the blocks to be read.
    fn check_map(&self, leaves: &BTreeMap<LeafKey, Leaf>, history: &AllHistory) -> Result<Vec<Check>, String> {
        let mut checks = Vec::new();
        let mut references = References::new();
        let mut mapped: BTreeMap<ComponentId, u64> = BTreeMap::new();
        for (&(id, number), leaf) in leaves {
            if number > COMPONENT_BLOCKS_MAX / LEAF_BLOCKS {
                return Err(format!("leaf {number} of {id:?} is beyond every component"));
            }
            let known = self.components.get(id);
            let device = self
                .components
                .device_of(id)
                .ok_or_else(|| format!("leaf {number} belongs to {id:?}, which is not here"))?;
            if self.tier.of(device).failed {
                continue;
            }
            for (at, entry) in leaf.entries() {
                let block = number * LEAF_BLOCKS + at;
                let what = format!("{id:?} block {block} in {:?}", entry.spot);
                if known.is_some_and(|c| !c.lost && !c.base.get(block)) {
                    return Err(format!("{what}: its bit is not set"));
                }
                *mapped.entry(id).or_default() += 1;
                if entry.row_check != 0 && !entry.spot.is_place() {
                    return Err(format!("{what}: parity that stands nowhere"));
                }
                if entry.spot != Spot::ZERO && entry.spot != Spot::BAD {
                    let Some(place) = self.tier.of(device).place_of(entry.spot) else {
                        return Err(format!("{what}: device {device} has no such spot"));
                    };
                    *references.entry((device, entry.spot)).or_default() += 1;
                    let (offset, sectors) = (self.tier.of(device).offset_of(place), place.sectors());
                    checks.push(Check { device, offset, sectors, crc: entry.crc, what });
                }
            }
        }
        for component in self.components.all().filter(|c| !c.lost) {
            let have = mapped.get(&component.id).copied().unwrap_or(0);
            if have != component.base.total() {
                return Err(format!("{:?}: {} bits, {have} mapped blocks", component.id, component.base.total()));
            }
        }
        self.check_history(history, &mut references, &mut checks)?;
        self.check_records(&mut references, &mut checks)?;
        check_segments(&self.tier, &references)?;
        Ok(checks)
    }

    fn check_records(&self, references: &mut References, checks: &mut Vec<Check>) -> Result<(), String> {
        for garbage in &self.components.records.garbage {
            let device = self.components.device_of(garbage.component);
            for &spot in garbage.spots.iter().filter(|s| s.is_place()) {
                device.into_iter().for_each(|d| *references.entry((d, spot)).or_default() += 1);
            }
        }
        for (_, record) in self.components.records.iter() {
            let Body::Data { place, crcs, row_checks } = &record.body else {
                continue;
            };
            if crcs.len() != record.range.count as usize || !row_checks.fits(crcs.len()) {
                return Err(format!("{:?} {:?}: other checksums than blocks", record.component, record.range));
            }
            let component = self.components.of(record.component);
            for (at, &crc) in crcs.iter().enumerate() {
                let block = record.range.first + at as u64;
                let (device, offset, sectors) = match place {
                    Place::Log(position) => {
                        let position = position + at as u64 * u64::from(BLOCK_BYTES);
                        (LOG, self.log.ring.device_offset(position), PAGE_SECTORS)
                    }
                    Place::Spots(spots) => {
                        if matches!(spots[at], Spot::NONE | Spot::BAD | Spot::ZERO) {
                            continue;
                        }
                        if !self.tier.of(component.device).has(spots[at]) {
                            return Err(format!("{:?} block {block} is in no spot of its device", record.component));
                        }
                        let segments = self.tier.of(component.device);
                        if segments.is_free(segments.segment_of(spots[at])) {
                            return Err(format!("{:?} block {block} is in a segment that is free", record.component));
                        }
                        if record.row.is_some() {
                            *references.entry((component.device, spots[at])).or_default() += 1;
                        }
                        let segments = self.tier.of(component.device);
                        (component.device, segments.offset_of(spots[at]), spots[at].sectors())
                    }
                };
                // Only where the record still stands: the log behind a superseded block may be anything.
                let spans = component.extents.spans(BlockRange::new(block, 1));
                let stands = spans
                    .iter()
                    .any(|s| s.versions.iter().any(|&v| std::ptr::eq(self.components.records.of(v), record)));
                if stands {
                    let what = format!("{:?} block {block} of operation {}", record.component, record.op.seq);
                    checks.push(Check { device, offset, sectors, crc, what });
                }
            }
        }
        Ok(())
    }
}

/// Puts the deltas over the leaves, and compares those in memory with what is stored.
fn check_leaves(map: &Map, leaves: &Rows, deltas: &Rows) -> Result<BTreeMap<LeafKey, Leaf>, String> {
    let mut found = BTreeMap::new();
    for (key, bytes) in leaves {
        let id = rows::component_of(key).map_err(|e| e.to_string())?;
        let number = rows::number_of(key).map_err(|e| e.to_string())?;
        let leaf = Leaf::decode(bytes).ok_or_else(|| format!("leaf {number} of {id:?} is not readable"))?;
        found.insert((id, number), leaf);
    }
    let in_memory: usize = map.deltas().all().map(|(_, of)| of.len()).sum();
    if in_memory != deltas.len() {
        return Err(format!("{in_memory} deltas in memory, {} are stored", deltas.len()));
    }
    for (key, bytes) in deltas {
        let (number, id, leaf) = rows::delta_of(key).map_err(|e| e.to_string())?;
        let known = map.deltas().of((id, leaf)).iter().find(|delta| delta.number == number);
        let known = known.filter(|delta| delta.row[..] == bytes[..]);
        let delta = known.ok_or_else(|| format!("delta {number} of leaf {leaf} of {id:?} is another in memory"))?;
        put_over(found.entry((id, leaf)).or_default(), std::slice::from_ref(delta))
            .ok_or_else(|| format!("delta {number} of leaf {leaf} of {id:?} is not readable"))?;
    }
    Ok(found)
}

/// Compares the references to each item with those that it should have (D1). Gives the places of all items.
fn check_references(tier: &Tier, references: &References) -> Result<Vec<(u8, Spot)>, String> {
    let mut items: Vec<(u8, Spot)> = references.keys().copied().filter(|(_, spot)| !spot.is_shared()).collect();
    for (&(device, spot), &count) in references {
        let allowed = if spot.is_shared() { tier.of(device).shared(spot).map_or(0, |item| item.count) } else { 1 };
        if count != u32::from(allowed) {
            return Err(format!("{spot:?} of device {device} has {count} references, {allowed} are counted"));
        }
    }
    for (device, segments) in (0u8..).zip(tier.devices()).filter(|(_, segments)| !segments.failed) {
        segments.shares.check().map_err(|why| format!("device {device}: {why}"))?;
        for (name, item) in segments.shares.all() {
            if !references.contains_key(&(device, name)) {
                return Err(format!("{name:?} of device {device} has no references, {} are counted", item.count));
            }
            items.push((device, item.at));
        }
    }
    items.sort_unstable_by_key(|(device, spot)| (*device, spot.sector()));
    let overlap = items.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].1.end() > pair[1].1.sector());
    match overlap {
        Some(pair) => {
            Err(format!("{:?} and {:?} of device {} have sectors in common", pair[0].1, pair[1].1, pair[0].0))
        }
        None => Ok(items),
    }
}

/// Compares the counts of segments with the references to them.
fn check_segments(tier: &Tier, references: &References) -> Result<(), String> {
    let items = check_references(tier, references)?;
    let mut counted: BTreeMap<(u8, u32), Live> = BTreeMap::new();
    for (device, spot) in items {
        let live = counted.entry((device, tier.of(device).segment_of(spot))).or_default();
        *live = Live { sectors: live.sectors + spot.sectors(), items: live.items + 1 };
    }
    for (device, segments) in (0u8..).zip(tier.devices()).filter(|(_, s)| !s.failed) {
        let mut total = (0, 0);
        for segment in 0..segments.count() as u32 {
            let (row, count) = (segments.row(segment), counted.get(&(device, segment)).copied().unwrap_or_default());
            total =
                (total.0 + u64::from(row.live.sectors) * u64::from(SECTOR_BYTES), total.1 + u64::from(row.live.items));
            if row.live != count {
                return Err(format!(
                    "segment {segment} of device {device}: {} blocks in {} sectors counted as in use, {} in {} are",
                    row.live.items, row.live.sectors, count.items, count.sectors
                ));
            }
        }
        if !segments.victims_are_right() {
            return Err(format!("device {device}: the order in which segments are cleaned lacks some, or has others"));
        }
        let known = (segments.live_bytes(), segments.live_items());
        if total != known {
            return Err(format!("device {device}: {known:?} bytes and blocks in use, {total:?} in its segments"));
        }
    }
    Ok(())
}
