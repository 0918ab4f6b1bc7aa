//! The state of an open disk group and how a log record changes it. Plain functions: no waiting, no I/O.
//!
//! Promises    `apply` is the one way in which records take effect, while running and in replay (I8)
//! Assumes     records are applied in log order, and only when durable
//! Not here    queueing (`append.rs`), folding into the map (`destage.rs`)

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use cairn_format::{LogPiece, LogRecord, PlacedPiece};
use cairn_metrics::StoreCounters;
use cairn_types::{BLOCK_BYTES, BlockRange, Canary, ClientTag, ComponentId, DeviceRoom, ObjectId, OpId, demand_bytes};
use smallvec::SmallVec;

use crate::{
    admission::Admission,
    component::Component,
    error::StoreError,
    index::{Body, Place, Record, Records},
    latencies::Stages,
    life::Life,
    log::Log,
    map::Map,
    read_cache::ReadCache,
    seats::Seats,
    segments::Segments,
};

/// A deleted component whose map is not emptied, or whose records may still be in the log.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub device: u8,
    pub position: u64,
    /// Blocks that its map still holds.
    pub base_blocks: u64,
    pub emptied: bool,
    pub dirty: bool,
}

/// Everything that changes.
#[derive(Debug)]
pub(crate) struct State {
    pub components: BTreeMap<ComponentId, Component>,
    /// How many of them are witnesses, of no blocks: told with every heartbeat, so not counted each time.
    pub witnesses: u32,
    /// The same by object.
    pub components_of: BTreeMap<ObjectId, BTreeSet<ComponentId>>,
    pub deleted: BTreeMap<ComponentId, Deleted>,
    pub records: Records,
    pub seats: Seats,
    pub log: Log,
    pub devices: Vec<Segments>,
    pub map: Map,
    pub cache: ReadCache,
    pub admission: Admission,
    pub life: Life,
    pub counters: StoreCounters,
    pub stages: Stages,
    /// Outcomes of requests that a component remembers, at most.
    pub outcomes_max: usize,
    /// Counts destage and cleaning rounds: the clock of segment ages.
    pub round: u64,
    /// Counts what is written to capacity devices and waits for its transaction, or its record: rounds, cleanings, copies.
    pub tickets: u64,
}

/// What applying a record came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    Done,
    /// The operation had been undone.
    Undone,
    /// The component is not here (any more).
    NoComponent,
    /// The operation to be undone is settled.
    Settled,
    /// The component's device failed.
    Lost,
}

/// The place of a record in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    /// Of its batch.
    pub position: u64,
    /// Of its first data block.
    pub data: u64,
}

/// What a write, zero or copy has in common.
struct Head {
    component: ComponentId,
    op: OpId,
    settled: OpId,
    client: ClientTag,
    /// It came as a write, not as a copy.
    written: bool,
}

impl State {
    /// The next number of what is written to capacity devices before its transaction.
    pub fn take_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// The round, or the cleaning, is over: its transaction is durable, or what it wrote is given up.
    pub fn round_over(&mut self, ticket: u64) {
        self.devices.iter_mut().for_each(|segments| segments.round_over(ticket));
        self.records.unhold(ticket);
    }

    /// Changes a component and keeps its device's charge right. None when it is not here.
    pub fn change<R>(&mut self, id: ComponentId, act: impl FnOnce(&mut Component, &mut Records) -> R) -> Option<R> {
        let component = self.components.get_mut(&id)?;
        let (before, used, witness) = (component.charge(), component.used(), is_witness(component));
        let result = act(component, &mut self.records);
        self.witnesses = self.witnesses + u32::from(is_witness(component)) - u32::from(witness);
        let device = &mut self.devices[component.device as usize];
        device.charged = device.charged + component.charge() - before;
        device.used = device.used + component.used() - used;
        Some(result)
    }

    /// Gives a record its effect.
    pub fn apply(&mut self, record: LogRecord, at: At) -> Applied {
        match record {
            LogRecord::CreateComponent { component, object, size_blocks, reserved_blocks, device } => {
                self.create(component, object, size_blocks, reserved_blocks, device);
                Applied::Done
            }
            LogRecord::DeleteComponent { component } => self.delete(component, at.position),
            LogRecord::ResizeComponent { component, size_blocks, reserved_blocks } => {
                let found = self.change(component, |c, _| {
                    c.size_blocks = size_blocks.max(c.size_blocks);
                    c.reserved_blocks = reserved_blocks;
                    c.dirty = true;
                });
                found.map_or(Applied::NoComponent, |()| Applied::Done)
            }
            LogRecord::Write { component, op, settled, client, first_block, crcs } => self.put(
                Head { component, op, settled, client, written: true },
                logged([LogPiece::Data { first_block, crcs }], at),
                at,
            ),
            LogRecord::Zero { component, op, settled, client, range, keep_allocated } => {
                let zero = (range, Body::Zero { keep_allocated });
                self.put(Head { component, op, settled, client, written: true }, Parts::from_iter([zero]), at)
            }
            LogRecord::Copy { component, op, settled, pieces } => {
                let client = ClientTag::default();
                self.put(Head { component, op, settled, client, written: false }, logged(pieces, at), at)
            }
            LogRecord::Placed { component, op, settled, pieces } => {
                let client = ClientTag::default();
                self.apply_placed(Head { component, op, settled, client, written: false }, pieces, at)
            }
            LogRecord::Undo { component, op } => {
                let ranges = self.change(component, |c, records| c.undo(op, at.position, records));
                if matches!(ranges, Some(Some(_))) {
                    self.change(component, |c, _| c.outcomes.undo(op));
                }
                let Some(ranges) = ranges else {
                    return Applied::NoComponent;
                };
                let Some(ranges) = ranges else {
                    return Applied::Settled;
                };
                for range in ranges {
                    self.cache.forget(component, range);
                }
                Applied::Done
            }
            LogRecord::Settle { component, upto } => {
                let found = self.change(component, |c, records| c.settle(upto, records));
                found.map_or(Applied::NoComponent, |()| Applied::Done)
            }
            LogRecord::Remember { component, clients } => {
                let max = self.outcomes_max;
                let found = self.change(component, |c, _| {
                    for (client, op) in clients {
                        c.outcomes.remember(client, op, at.position, max);
                    }
                });
                found.map_or(Applied::NoComponent, |()| Applied::Done)
            }
            LogRecord::Record { object, bytes } => {
                self.seats.put(object, bytes, at.position);
                Applied::Done
            }
        }
    }

    /// Begins a component; does nothing when it is here or was deleted.
    pub fn create(&mut self, id: ComponentId, object: ObjectId, size_blocks: u64, reserved_blocks: u64, device: u8) {
        if self.components.contains_key(&id) || self.deleted.contains_key(&id) {
            return;
        }
        let mut component = Component::new(id, object, size_blocks, reserved_blocks, device);
        let Some(segments) = self.devices.get_mut(device as usize) else {
            return;
        };
        component.lost = segments.failed;
        segments.charged += component.charge();
        segments.used += component.used();
        self.enter_component(component);
    }

    /// Puts a component among those that are here.
    pub fn enter_component(&mut self, component: Component) {
        self.components_of.entry(component.object).or_default().insert(component.id);
        self.witnesses += u32::from(is_witness(&component));
        self.components.insert(component.id, component);
    }

    fn delete(&mut self, id: ComponentId, position: u64) -> Applied {
        let Some(mut component) = self.components.remove(&id) else {
            return Applied::NoComponent;
        };
        self.witnesses -= u32::from(is_witness(&component));
        if let Entry::Occupied(mut of_object) = self.components_of.entry(component.object) {
            of_object.get_mut().remove(&id);
            if of_object.get().is_empty() {
                of_object.remove();
            }
        }
        let device = &mut self.devices[component.device as usize];
        // What its map holds stays charged until destage has emptied it.
        let base_blocks = if component.lost { 0 } else { component.base.total() };
        device.charged = device.charged - component.charge() + base_blocks;
        device.used -= component.used();
        component.extents.clear(&mut self.records);
        self.cache.forget_component(id);
        let deleted = Deleted { device: component.device, position, base_blocks, emptied: false, dirty: true };
        self.deleted.insert(id, deleted);
        self.log.want_tidy();
        Applied::Done
    }

    /// Puts the parts of an operation into the index.
    fn put(&mut self, head: Head, parts: Parts, at: At) -> Applied {
        let Head { component, op, settled, client, written } = head;
        let (segment, outcomes_max) = (self.log.ring.segment_of(at.position), self.outcomes_max);
        // What is not applied in the end is forgotten in vain, and read again.
        parts.iter().for_each(|(range, _)| self.cache.forget(component, *range));
        let applied = self.change(component, |c, records| {
            if c.lost {
                return Applied::Lost;
            }
            // Before all else: a refused operation leaves no trace, not even what it says of others. But what its client says holds,
            // whatever becomes of the operation: replay may know already that it was undone, and must forget the same.
            if c.is_undone(op) {
                c.outcomes.answered(client);
                return Applied::Undone;
            }
            c.settle(settled, records);
            for (range, body) in parts {
                let record = Record { component, op, range, position: at.position, body, live: 0, row: None };
                c.put(record, client, written, Some(segment), records);
            }
            c.outcomes.remember(client, op, at.position, outcomes_max);
            Applied::Done
        });
        applied.unwrap_or(Applied::NoComponent)
    }

    /// A copy whose blocks stand in the capacity tier. Their segments are held until the log has left the record behind.
    fn apply_placed(&mut self, head: Head, pieces: Vec<PlacedPiece>, at: At) -> Applied {
        let Some(known) = self.components.get(&head.component) else {
            return Applied::NoComponent;
        };
        let device = known.device as usize;
        let (mut parts, mut runs) = (Parts::new(), Vec::new());
        for piece in pieces {
            parts.push(match piece {
                PlacedPiece::Hole { range } => (range, Body::Zero { keep_allocated: false }),
                PlacedPiece::Data { first_block, crcs, runs: own } => {
                    let slots = own.iter().flat_map(|run| (run.first_slot..).take(run.count as usize)).collect();
                    let range = BlockRange::new(first_block, crcs.len() as u32);
                    runs.extend(own);
                    (range, Body::Data { place: Place::Slots(slots), crcs })
                }
            });
        }
        // Not ours, whatever its checksum says: no writer of the log names slots that the device does not have.
        if !known.lost && !runs.iter().all(|run| self.devices[device].has_run(*run)) {
            return Applied::NoComponent;
        }
        let applied = self.put(head, parts, at);
        if applied == Applied::Done && !Canary::PlacedNotHeld.sings() {
            let log_segment = self.log.ring.segment_of(at.position);
            runs.into_iter().for_each(|run| self.devices[device].hold(log_segment, run));
        }
        applied
    }

    /// A capacity device is gone: its components are lost. They are told at the next transaction's commit.
    pub fn fail_device(&mut self, device: u8, why: &cairn_env::DiskError) {
        let segments = &mut self.devices[device as usize];
        if std::mem::replace(&mut segments.failed, true) {
            return;
        }
        segments.failure = Some(why.clone());
        let ids: Vec<ComponentId> =
            self.components.values().filter(|c| c.device == device && !c.lost).map(|c| c.id).collect();
        for id in ids {
            self.change(id, |c, records| c.lose(records));
            self.cache.forget_component(id);
        }
    }

    /// Deleted components whose maps wait to be emptied. Those of a device that failed keep theirs: should it be there
    /// again at the next opening, its segments' counts still include what the maps refer to.
    pub fn deleted_to_empty(&self) -> Vec<ComponentId> {
        let due = |d: &Deleted| !d.emptied && !self.devices[d.device as usize].failed;
        self.deleted.iter().filter(|(_, d)| due(d)).map(|(id, _)| *id).collect()
    }

    /// The group takes no writes until it is opened again: whoever waits is told, and the log stays as it is. A batch
    /// whose write failed stays in flight, as nobody knows what is on the medium there.
    pub fn stop(&mut self, error: StoreError) {
        self.admission.fail_all(&error);
        self.log.stop(&error);
        self.life.stop(error);
    }

    /// Blocks that may still be charged to a device.
    pub fn room(&self, device: u8) -> u64 {
        let segments = &self.devices[device as usize];
        if segments.failed { 0 } else { segments.limit().saturating_sub(segments.charged) }
    }

    /// The same once destage has taken out what trims and deletes gave up.
    pub fn room_to_come(&self, device: u8) -> u64 {
        let segments = &self.devices[device as usize];
        if segments.failed { 0 } else { segments.limit().saturating_sub(segments.used) }
    }

    /// The room on each capacity device, in the order of devices. Costs a look at each component.
    pub fn rooms(&self) -> Vec<DeviceRoom> {
        let block = u64::from(BLOCK_BYTES);
        let mut growth_blocks = vec![0; self.devices.len()];
        for component in self.components.values() {
            growth_blocks[component.device as usize] += component.size_blocks.saturating_sub(component.charge());
        }
        let room = |(device, growth): (usize, u64)| match self.devices[device].failed {
            true => DeviceRoom::default(),
            false => DeviceRoom {
                total_bytes: self.devices[device].limit() * block,
                free_bytes: self.room(device as u8) * block,
                growth_bytes: growth * block,
            },
        };
        growth_blocks.into_iter().enumerate().map(room).collect()
    }

    /// The capacity device for a new component; none where all have failed.
    pub fn choose_device(&self, size_blocks: u64, reserved_blocks: u64) -> Option<u8> {
        let block = u64::from(BLOCK_BYTES);
        let demand = demand_bytes(size_blocks.saturating_mul(block), reserved_blocks.saturating_mul(block));
        DeviceRoom::choose(&self.rooms(), demand).map(|device| device as u8)
    }
}

fn is_witness(component: &Component) -> bool {
    component.size_blocks == 0
}

/// Blocks, and what an operation does to them.
type Parts = SmallVec<[(BlockRange, Body); 1]>;

/// Pieces whose data stand in the log, one after the other.
fn logged(pieces: impl IntoIterator<Item = LogPiece>, at: At) -> Parts {
    let mut data = at.data;
    let part = |piece| match piece {
        LogPiece::Data { first_block, crcs } => {
            let range = BlockRange::new(first_block, crcs.len() as u32);
            let body = Body::Data { place: Place::Log(data), crcs };
            data += range.bytes();
            (range, body)
        }
        LogPiece::Hole { range } => (range, Body::Zero { keep_allocated: false }),
    };
    pieces.into_iter().map(part).collect()
}
