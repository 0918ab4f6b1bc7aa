//! Opening a disk group: which devices, what the metadata has, what the log adds.
//!
//! Promises    any number of crashes, also while opening, leads to one state (I8); all acknowledged is in it
//! Assumes     memory for one log segment and the index; of the live log headers are read, and all of it where writes are small
//!             (docs/internals/store.md has times)
//!
//! Order: superblocks, the open count (durable before anything is written under it), metadata, log from the tail; what was
//! read is durable before anything is built on it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use cairn_env::{Disk, Env};
use cairn_format::{
    COMPONENT_BLOCKS_MAX, CacheRegions, CapacityRegions, DeviceRole, Needs, Superblock, history_rows, map_rows,
    rows::SettingsRow, shared_rows,
};
use cairn_metrics::StoreCounters;
use cairn_types::{BLOCK_BYTES, ComponentId, DeviceId, ObjectId};

use crate::{
    component::Component,
    components::{Components, Deleted},
    create::write_superblock,
    deltas::Delta,
    disk_group::{DiskGroup, DiskGroupDevices, Expect, Inner},
    error::{MetaError, StoreError, StoreErrorKind, damaged},
    flag::Flag,
    latencies::Stages,
    leaf::Leaf,
    load_history::LoadedHistory,
    load_map::{LoadedMap, is_region},
    log::Log,
    map::{Map, Pages},
    meta::{Meta, RedbMeta, Rows, Sum},
    meters::Meters,
    occupant::{Found, find_superblock},
    options::OpenOptions,
    pending::{Told, body_of},
    pending_number::PendingNumber,
    read_cache::ReadCache,
    records::Record,
    replay::{Replayed, replay},
    rewriting::Rewriting,
    rows::{
        self, ClientRow, ComponentRow, DeletedRow, ObjectRow, PendingRow, RegionRow, ScrubRow, SegmentRow, StateRow,
    },
    segments::{COUNTS_MAX, Pins},
    shards::Bounds,
    state::State,
    tier::Tier,
    twins::Twins,
    window::Origin,
};

/// Rows of one metadata read while loading.
const SCAN_ROWS: usize = 1024;
impl<E: Env> DiskGroup<E> {
    /// Opens a disk group: reads its metadata, replays its log, starts its tasks.
    ///
    /// A capacity device that cannot be read does not stop the group: its components are lost.
    ///
    /// # Errors
    /// [`StoreErrorKind::Missing`], [`StoreErrorKind::Foreign`], [`StoreErrorKind::Swapped`],
    /// [`StoreErrorKind::Truncated`], [`StoreErrorKind::Damaged`], [`StoreErrorKind::Media`]; the text names the
    /// device, the cause and the remedy. Nothing was changed.
    pub async fn open(
        env: E,
        devices: DiskGroupDevices<E::Disk>,
        expect: Expect,
        options: &OpenOptions,
    ) -> Result<Self, StoreError> {
        let capacity = devices.capacity.into_iter().map(Some).collect();
        Self::open_without(env, devices.cache, capacity, expect, options).await
    }

    /// The same where capacity devices may not be there: the components on those are lost, as when they fail in use. What
    /// was lost stays so when its device is there again at a later opening; its space comes back.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub async fn open_without(
        env: E,
        cache: E::Disk,
        devices: Vec<Option<E::Disk>>,
        expect: Expect,
        options: &OpenOptions,
    ) -> Result<Self, StoreError> {
        let began = env.now();
        let (mut superblock, regions, ids) = open_cache(&env, &cache, expect).await?;
        let capacity = open_capacities(&env, &devices, &superblock, &ids, &regions, options.accept_missing).await?;
        let regions = CacheRegions { open_count: regions.open_count + 1, ..regions };
        superblock.generation += 1;
        superblock.role = DeviceRole::Cache { regions, capacity: ids };
        superblock.needs = superblock.needs.with(options.allowed.at_once());
        write_superblock(&cache, &superblock).await?;
        settle_medium(&cache).await?;
        let (disk, offset, bytes) = (cache.blocking(), regions.metadata_offset, regions.metadata_bytes);
        let many_rows = !superblock.needs.include(Needs::MAP_PAGES);
        let opened = env.run_blocking(move || RedbMeta::open(disk, offset, bytes, many_rows)).await;
        let meta = Arc::new(opened.map_err(unreadable)?);
        let mut state = State::empty(&regions, &capacity, options);
        let bounds = Bounds::of(regions.log_bytes, state.tier.blocks(), options.map_waiting_blocks);
        if superblock.needs.include(Needs::MAP_PAGES) {
            let pages = Pages::new(meta.room(), bounds, options.map_page_leaves_max);
            state.map.begin_pages(pages.with_needs(superblock.needs));
        }
        let stored = load(&env, &meta, &mut state, superblock.needs).await?;
        state.look_at_metadata();
        let replayed = replay(&env, &cache, &mut state, &stored).await?;
        state.build_index(&env).await;
        settle_medium(&cache).await?;
        let writer = Rc::new(Flag::default());
        let inner = Rc::new(Inner {
            opened_unix_ms: env.unix_ms(),
            opening: env.now().since(began),
            env,
            id: superblock.disk_group,
            cluster: superblock.cluster,
            host: superblock.host,
            open_count: regions.open_count,
            cache,
            capacity: RefCell::new(
                devices.into_iter().zip(state.tier.devices()).map(|(d, s)| d.filter(|_| !s.failed)).collect(),
            ),
            growth: RefCell::default(),
            grows: Cell::default(),
            tuning: options.running.clone(),
            superblock: RefCell::new(superblock),
            superblock_turn: Default::default(),
            allowed: Cell::new(options.allowed),
            map_bounds: Cell::new((bounds, options.map_page_leaves_max)),
            map_waiting: options.map_waiting_blocks,
            meta,
            metadata_offset: regions.metadata_offset,
            meters: Meters::default(),
            pins: Rc::new(Pins::new(writer.clone())),
            state: RefCell::new(state),
            scrub: RefCell::default(),
            writer,
            destager: Flag::default(),
            placer: Flag::default(),
            placers_ended: Default::default(),
            writer_ended: Flag::default(),
            destager_ended: Flag::default(),
        });
        if let Replayed::Damaged { jump_to } = replayed {
            inner.leave_damaged_log(jump_to).await?;
        }
        Ok(Self::start(inner))
    }
}

/// Makes what can be read durable: before the metadata is built upon, and again before the log that was read is.
///
/// A process that was killed with writes in flight leaves them where they can be read, and a loss of power takes them
/// back: a batch that was taken for the log's end by then would be a hole in the history.
async fn settle_medium<D: Disk>(cache: &D) -> Result<(), StoreError> {
    cache.flush().await.map_err(|e| StoreError::media("flush what an earlier process left", &e))
}

fn wrong(kind: StoreErrorKind, text: String) -> StoreError {
    StoreError::new(kind, text)
}

async fn open_cache<E: Env>(
    env: &E,
    disk: &E::Disk,
    expect: Expect,
) -> Result<(Superblock, CacheRegions, Vec<DeviceId>), StoreError> {
    let name = disk.name();
    let superblock = match find_superblock(env, disk).await {
        Found::Good(found) => *found,
        Found::Nothing => {
            return Err(wrong(
                StoreErrorKind::Missing,
                format!("{name} is not formatted: create the disk group first"),
            ));
        }
        Found::Newer(why) => {
            let text = format!("{name} holds {why}: start that release, or a later one");
            return Err(wrong(StoreErrorKind::Newer, text));
        }
        Found::Bad(why) | Found::Unread(why) => {
            return Err(wrong(
                StoreErrorKind::Damaged,
                format!(
                    "both superblocks of {name} are unreadable ({why}): replace the device; its disk group is lost"
                ),
            ));
        }
    };
    check_owner(&name, &superblock, expect)?;
    let DeviceRole::Cache { regions, capacity } = superblock.role.clone() else {
        return Err(wrong(
            StoreErrorKind::Swapped,
            format!("{name} is a capacity device, given as cache device: swap the devices in the configuration"),
        ));
    };
    check_length(disk, &superblock)?;
    Ok((superblock, regions, capacity))
}

fn check_owner(name: &str, superblock: &Superblock, expect: Expect) -> Result<(), StoreError> {
    let foreign = |what: &str, has: String, wants: String| {
        let text = format!("{name} belongs to {what} {has}, not to {wants}: connect it there, or format it anew");
        Err(wrong(StoreErrorKind::Foreign, text))
    };
    if superblock.cluster != expect.cluster {
        return foreign("cluster", superblock.cluster.to_string(), expect.cluster.to_string());
    }
    if superblock.host != expect.host {
        return foreign("host", superblock.host.to_string(), expect.host.to_string());
    }
    match expect.disk_group {
        Some(id) if superblock.disk_group != id => {
            foreign("disk group", superblock.disk_group.to_string(), id.to_string())
        }
        _ => Ok(()),
    }
}

fn check_length<D: Disk>(disk: &D, superblock: &Superblock) -> Result<(), StoreError> {
    if disk.len_bytes() < superblock.device_bytes {
        let text = format!(
            "{} has {} bytes, it had {} when it was formatted: it was truncated; restore its size or replace it",
            disk.name(),
            disk.len_bytes(),
            superblock.device_bytes
        );
        return Err(wrong(StoreErrorKind::Truncated, text));
    }
    Ok(())
}

/// The regions of all capacity devices; none for one that is not there, or dead.
async fn open_capacities<E: Env>(
    env: &E,
    devices: &[Option<E::Disk>],
    cache: &Superblock,
    ids: &[DeviceId],
    regions: &CacheRegions,
    accept_missing: bool,
) -> Result<Vec<Option<CapacityRegions>>, StoreError> {
    if devices.len() != ids.len() {
        let text = format!(
            "disk group {} has {} capacity devices, {} are given: give all of them, in order",
            cache.disk_group,
            ids.len(),
            devices.len()
        );
        return Err(wrong(StoreErrorKind::Missing, text));
    }
    let mut capacity = Vec::new();
    for (index, disk) in devices.iter().enumerate() {
        capacity.push(match disk {
            Some(disk) => {
                let found = find_superblock(env, disk).await;
                open_capacity(disk, found, index as u8, cache, ids, regions, accept_missing)?
            }
            None => None,
        });
    }
    Ok(capacity)
}

/// The regions of a capacity device; none when it is dead.
fn open_capacity<D: Disk>(
    disk: &D,
    found: Found,
    index: u8,
    cache: &Superblock,
    ids: &[DeviceId],
    regions: &CacheRegions,
    accept_missing: bool,
) -> Result<Option<CapacityRegions>, StoreError> {
    let name = disk.name();
    let superblock = match found {
        Found::Good(found) => *found,
        // Dead: the group goes on without it, its components are lost.
        Found::Bad(_) | Found::Unread(_) => return Ok(None),
        Found::Newer(why) => {
            let text = format!("{name} holds {why}: start that release, or a later one");
            return Err(wrong(StoreErrorKind::Newer, text));
        }
        Found::Nothing if accept_missing => return Ok(None),
        Found::Nothing => {
            let text = format!(
                "{name} is blank, it should be capacity device {index}: give the right device, or accept that the \
                 components on it are lost"
            );
            return Err(wrong(StoreErrorKind::Missing, text));
        }
    };
    let expect = Expect { cluster: cache.cluster, host: cache.host, disk_group: Some(cache.disk_group) };
    check_owner(&name, &superblock, expect)?;
    let DeviceRole::Capacity { regions: own, index: own_index } = superblock.role else {
        let text = format!("{name} is a cache device, given as capacity device: swap the devices in the configuration");
        return Err(wrong(StoreErrorKind::Swapped, text));
    };
    if own_index != index || ids[index as usize] != superblock.device {
        let text =
            format!("{name} is capacity device {own_index}, given as number {index}: put the devices in their order");
        return Err(wrong(StoreErrorKind::Swapped, text));
    }
    if own.log_id != regions.log_id {
        let text =
            format!("{name} is of an earlier format of this disk group: it is not part of it; format the group anew");
        return Err(wrong(StoreErrorKind::Foreign, text));
    }
    check_length(disk, &superblock)?;
    Ok(Some(own))
}

/// Kinds of rows in the order in which they are taken over: components before what belongs to them, the map before what of it is new.
const KINDS: [u8; 17] = [
    rows::STATE,
    rows::COMPONENT,
    rows::DELETED,
    history_rows::CUTS,
    rows::REGION,
    rows::SEGMENT,
    rows::DELTA,
    map_rows::SHARD,
    map_rows::SEGMENTS,
    shared_rows::SHARED,
    map_rows::CHANGES,
    history_rows::HISTORY_SHARD,
    history_rows::HISTORY_CHANGES,
    rows::PENDING,
    rows::OBJECT,
    rows::CLIENT,
    rows::SETTINGS,
];

/// Of these, kinds that only a group with cuts has.
const OF_CUTS: [u8; 3] = [history_rows::CUTS, history_rows::HISTORY_SHARD, history_rows::HISTORY_CHANGES];

/// What is known while rows are taken over.
#[derive(Default)]
struct Loading {
    map: LoadedMap,
    history: LoadedHistory,
    stored: Option<StateRow>,
}

/// Takes over every row of the metadata but the map's leaves, some at a time: what is in memory beside what they become has a bound,
/// however large the metadata.
async fn load<E: Env>(env: &E, meta: &Arc<RedbMeta>, state: &mut State, needs: Needs) -> Result<StateRow, StoreError> {
    let (mut loading, mut sum) = (Loading::default(), Sum::default());
    state.tier.has_packed = needs.include(Needs::SPOTS);
    state.tier.has_shared = needs.include(Needs::SHARED);
    state.tier.log_blocks = state.log.ring.size() / u64::from(BLOCK_BYTES);
    let may_be_there = |kind: &u8| match *kind {
        rows::SETTINGS => needs.include(Needs::SPOTS),
        shared_rows::SHARED => needs.include(Needs::SHARED),
        kind => needs.include(Needs::CUTS) || !OF_CUTS.contains(&kind),
    };
    for kind in KINDS.into_iter().filter(may_be_there) {
        let mut from = vec![kind];
        loop {
            let (meta, begin) = (meta.clone(), from);
            let rows = env.run_blocking(move || meta.scan(&begin, &[kind + 1], SCAN_ROWS)).await.map_err(unreadable)?;
            let Some((last, _)) = rows.last() else { break };
            from = [last.as_slice(), &[0]].concat();
            sum.add_all(&rows);
            state.load(rows, &mut loading).map_err(damaged)?;
            env.give_way().await;
        }
    }
    let for_scrub = meta.clone();
    let meta = meta.clone();
    let job = move || {
        meta.agrees(sum)?;
        meta.scan(&[rows::LEAF], &[rows::LEAF + 1], 1).map(|leaves| !leaves.is_empty())
    };
    let has_leaves = env.run_blocking(job).await.map_err(unreadable)?;
    load_scrub(env, &for_scrub, state).await;
    state.end_load(loading, has_leaves).map_err(damaged)
}

/// Where the scrub stands. A row that does not read costs a pass that begins anew, and nothing else.
async fn load_scrub<E: Env>(env: &E, meta: &Arc<RedbMeta>, state: &mut State) {
    let meta = meta.clone();
    let read = env.run_blocking(move || meta.get_many(&[rows::scrub_key()])).await;
    let row = read.ok().and_then(|rows| rows.into_iter().next().flatten());
    if let Some(row) = row.and_then(|bytes| ScrubRow::decode(&bytes)) {
        state.findings.load(row);
    }
}

fn unreadable(error: MetaError) -> StoreError {
    damaged(format!(
        "the metadata of the disk group is not readable ({error}): replace the cache device; the group is lost"
    ))
}

impl State {
    fn empty(regions: &CacheRegions, capacity: &[Option<CapacityRegions>], options: &OpenOptions) -> Self {
        Self {
            components: Components::new(options.outcomes_max),
            seats: Default::default(),
            log: Log::new(regions),
            tier: Tier::new(capacity),
            map: Map::new(options.map_cache_bytes),
            cache: ReadCache::new(options.read_cache_bytes),
            admission: Default::default(),
            life: Default::default(),
            findings: Default::default(),
            settings: Default::default(),
            counters: StoreCounters::default(),
            patience: Default::default(),
            twins: Twins::new(options.hooks_bytes),
            rewriting: Rewriting::default(),
            stages: Stages::default(),
        }
    }

    /// Takes over rows of the metadata.
    fn load(&mut self, rows: Rows, loading: &mut Loading) -> Result<(), MetaError> {
        let Loading { map, history, stored } = loading;
        for (key, bytes) in rows {
            if key[0] != map_rows::CHANGES {
                self.end_changes(map)?;
            }
            if key[0] != history_rows::HISTORY_CHANGES {
                // What comes after them needs all that they say.
                self.load_history_changes(history)?;
            }
            map.has_rows |= matches!(key[0], rows::REGION | rows::SEGMENT | rows::DELTA);
            match key[0] {
                rows::STATE => *stored = Some(rows::decode::<StateRow>(&key, &bytes)?),
                rows::COMPONENT => self.load_component(&key, rows::decode(&key, &bytes)?)?,
                rows::DELETED => {
                    let row: DeletedRow = rows::decode(&key, &bytes)?;
                    if row.device as usize >= self.tier.len() {
                        return Err(rows::malformed(&key).into());
                    }
                    self.load_deleted(rows::component_of(&key)?, row);
                }
                rows::REGION => {
                    let row: RegionRow = rows::decode(&key, &bytes)?;
                    let (id, region) = (rows::component_of(&key)?, rows::short_number_of(&key)?);
                    if !is_region(region) {
                        return Err(rows::malformed(&key).into());
                    }
                    self.load_region(map, id, region, row.op, row.base);
                }
                rows::PENDING => self.load_pending(rows::number_of(&key)?, rows::decode(&key, &bytes)?)?,
                rows::SEGMENT => {
                    let row: SegmentRow = rows::decode(&key, &bytes)?;
                    let device = key.get(1).and_then(|&device| self.tier.get_mut(device));
                    let device = device.ok_or_else(|| rows::malformed(&key))?;
                    if !device.failed && !device.load(rows::short_number_of(&key)?, row) {
                        return Err(rows::malformed(&key).into());
                    }
                    self.tier.load_round(row.written.saturating_add(1).min(COUNTS_MAX));
                }
                rows::OBJECT => {
                    let row: ObjectRow = rows::decode(&key, &bytes)?;
                    let bytes = key.get(1..17).ok_or_else(|| rows::malformed(&key))?;
                    let object = ObjectId(u128::from_be_bytes(bytes.try_into().expect("sixteen bytes")));
                    self.seats.load(object, row);
                }
                rows::CLIENT => {
                    let row: ClientRow = rows::decode(&key, &bytes)?;
                    self.load_client(rows::component_of(&key)?, rows::number_of(&key)?, row)?;
                }
                rows::DELTA => self.load_delta(&key, &bytes)?,
                rows::SETTINGS => {
                    let row = SettingsRow::decode(&key, &bytes)?;
                    // Rounds without segments may have gone by before the mark: what is written from now on is newer.
                    row.rewrite_below.into_iter().for_each(|below| self.tier.load_round(below.min(COUNTS_MAX)));
                    self.settings.load(row);
                }
                shared_rows::SHARED => self.load_home(map, &key, &bytes)?,
                history_rows::CUTS => self.load_cuts(&key, rows::decode(&key, &bytes)?)?,
                history_rows::HISTORY_SHARD => self.load_history_shard(history, &key, rows::decode(&key, &bytes)?)?,
                history_rows::HISTORY_CHANGES => self.load_history_piece(history, &key, bytes)?,
                map_rows::SHARD => self.load_shard(map, &key, rows::decode(&key, &bytes)?)?,
                map_rows::SEGMENTS => self.load_segments(map, &key, rows::decode(&key, &bytes)?)?,
                map_rows::CHANGES => self.load_piece(map, &key, bytes)?,
                _ => return Err(rows::malformed(&key).into()),
            }
        }
        Ok(())
    }

    /// All rows were taken over, and there are no others but leaves.
    fn end_load(&mut self, loading: Loading, has_leaves: bool) -> Result<StateRow, MetaError> {
        let Loading { map, history, stored } = loading;
        self.end_map(map, has_leaves)?;
        self.end_history(history)?;
        let stored = stored.ok_or_else(|| MetaError("the metadata has no state row".into()))?;
        self.map.load_next_pending(stored.next_pending);
        let counts = [stored.tail, stored.durable_position, stored.next_pending, stored.damaged_at.unwrap_or(0)];
        if counts.into_iter().any(|count| count >= COUNTS_MAX) {
            return Err(MetaError("the state row is not readable".into()));
        }
        if stored.tail % self.log.ring.segment_bytes() != 0 {
            return Err(MetaError("the log's tail is not at a segment's start".into()));
        }
        self.log.ring.resume(stored.tail);
        self.components.all_mut().for_each(|component| component.cuts.forget_before(stored.tail));
        self.finish_load();
        Ok(stored)
    }

    fn load_component(&mut self, key: &[u8], row: ComponentRow) -> Result<(), MetaError> {
        let fits = row.size_blocks.max(row.reserved_blocks) <= COMPONENT_BLOCKS_MAX;
        if !fits || row.device as usize >= self.tier.len() {
            return Err(rows::malformed(key).into());
        }
        let id = rows::component_of(key)?;
        let mut component = Component::new(id, row.object, row.size_blocks, row.reserved_blocks, row.device);
        component.lost = row.lost;
        component.settled = row.settled;
        component.undone = row.undone.into_iter().collect();
        component.dirty = false;
        self.components.enter(component);
        Ok(())
    }

    fn load_deleted(&mut self, id: ComponentId, row: DeletedRow) {
        let deleted =
            Deleted { device: row.device, position: row.position, base_blocks: 0, emptied: row.emptied, dirty: false };
        self.components.enter_deleted(id, deleted);
    }

    fn load_pending(&mut self, number: u64, row: PendingRow) -> Result<(), MetaError> {
        let end = row.range.first.checked_add(u64::from(row.range.count));
        if row.range.count == 0 || end.is_none_or(|end| end > COMPONENT_BLOCKS_MAX) {
            return Err(MetaError("a pending row is not readable".into()));
        }
        let sound = body_of(row.body, row.range.count as usize).filter(|_| number < COUNTS_MAX);
        let Told { body, members, is_copy } = sound.ok_or_else(|| MetaError("a pending row is not readable".into()))?;
        if !self.components.is_here(row.component) {
            // Deleted while its device was away.
            self.components.records.discard(number, row.component, body);
            return Ok(());
        }
        let PendingRow { component: id, range, op, position, client, .. } = row;
        let record = Record {
            component: id,
            op,
            range,
            position,
            body,
            is_copy,
            live: 0,
            row: Some(PendingNumber::new(number)),
        };
        // Rows do not tell what came as a copy: the log does, where it still has the record.
        let origin = Origin { client, members, written: false };
        self.components.load(id, |component, records| component.put(record, origin, None, records));
        Ok(())
    }

    fn load_delta(&mut self, key: &[u8], row: &[u8]) -> Result<(), MetaError> {
        let (number, component, leaf) = rows::delta_of(key)?;
        let entries = Leaf::decode(row).filter(|_| number < COUNTS_MAX).ok_or_else(|| rows::malformed(key))?;
        let entries = entries.entries().count() as u32;
        self.map.load_delta((component, leaf), Delta { number, row: row.into(), entries });
        Ok(())
    }

    fn load_client(&mut self, id: ComponentId, number: u64, row: ClientRow) -> Result<(), MetaError> {
        if number >= COUNTS_MAX {
            return Err(MetaError("the row of an outcome is not readable".into()));
        }
        self.components.load(id, |component, _| component.outcomes.load(number, row));
        Ok(())
    }

    fn finish_load(&mut self) {
        self.components.finish_load(&mut self.tier);
        let is_unswept = self.components.all().any(|component| component.cuts.is_unswept());
        if is_unswept || !self.components.deleted_to_empty(&self.tier).is_empty() {
            self.log.want_tidy();
        }
    }
}
