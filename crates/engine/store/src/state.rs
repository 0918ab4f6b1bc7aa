//! The parts of an open disk group's state, and how a log record changes them. Plain functions: no waiting, no I/O.
//!
//! Promises    `apply` is the one way in which records take effect, while running and in replay (I8)
//! Assumes     records are applied in log order, and only when durable
//! Not here    what a part keeps right by itself (its own file), queueing (`append.rs`), folding into the map (`fold.rs`)
//!
//! A function takes the parts that it uses. What takes all of them is here, or admits, recovers or checks.

use cairn_env::Env;
use cairn_format::{LogPiece, LogRecord, PlacedPiece};
use cairn_metrics::StoreCounters;
use cairn_types::{BLOCK_BYTES, BlockRange, Canary, ClientTag, ComponentId, Crcs, OpId, SnapshotId};
use smallvec::SmallVec;

use crate::{
    admission::Admission,
    components::Components,
    error::StoreError,
    findings::Findings,
    latencies::Stages,
    leaf::Spot,
    life::Life,
    log::Log,
    map::Map,
    patience::Patience,
    read_cache::ReadCache,
    records::{Body, Place, Record},
    rewriting::Rewriting,
    row_checks::RowChecks,
    seats::Seats,
    settings::Settings,
    tier::Tier,
    twins::Twins,
    window::Origin,
};

/// Everything that changes, in parts.
#[derive(Debug)]
pub(crate) struct State {
    pub components: Components,
    pub seats: Seats,
    pub log: Log,
    pub tier: Tier,
    pub map: Map,
    pub cache: ReadCache,
    pub admission: Admission,
    pub life: Life,
    pub findings: Findings,
    pub settings: Settings,
    pub counters: StoreCounters,
    pub patience: Patience,
    pub twins: Twins,
    pub rewriting: Rewriting,
    pub stages: Stages,
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
    origin: Origin,
}

/// A write or a zero of a mirror.
fn written(client: ClientTag) -> Origin {
    Origin { client, members: 0, written: true }
}

impl State {
    /// The round, or the cleaning, is over: its transaction is durable, or what it wrote is given up.
    pub fn round_over(&mut self, ticket: u64) {
        self.tier.round_over(ticket);
        self.twins.is_over(ticket);
        self.components.records.unhold(ticket);
    }

    /// The metadata has more in it, or less.
    pub fn look_at_metadata(&mut self) {
        let buffered = self.log.ring.used() / u64::from(BLOCK_BYTES);
        self.tier.metadata_is_full =
            self.map.pages().is_some_and(|pages| pages.zone.is_full(pages.shards.depths().0 + buffered));
    }

    /// The log has more in use, or less.
    pub fn look_at_log(&mut self) {
        self.tier.log_pages = self.log.ring.used() / u64::from(BLOCK_BYTES);
    }

    /// All of the log was read, and put aside: the index is built where it delays nobody.
    pub async fn build_index<E: Env>(&mut self, env: &E) {
        self.look_at_log();
        let outcomes_max = self.components.outcomes_max();
        let mut components = std::mem::replace(&mut self.components, Components::new(outcomes_max));
        let job = move || {
            let changed = components.build_index();
            (components, changed)
        };
        let (components, changed) = env.run_blocking(job).await;
        self.components = components;
        for (device, [charged, used], [charged_now, used_now]) in changed {
            let device = self.tier.of_mut(device);
            device.charged = device.charged + charged_now - charged;
            device.used = device.used + used_now - used;
        }
    }

    /// Gives a record its effect.
    pub fn apply(&mut self, record: LogRecord, at: At) -> Applied {
        match record {
            LogRecord::CreateComponent { component, object, size_blocks, reserved_blocks, device } => {
                self.components.create(&mut self.tier, component, object, (size_blocks, reserved_blocks), device);
                Applied::Done
            }
            LogRecord::DeleteComponent { component } => self.delete(component, at.position),
            LogRecord::ResizeComponent { component, size_blocks, reserved_blocks } => {
                let found = self.components.change(&mut self.tier, component, |c, _| {
                    c.size_blocks = size_blocks.max(c.size_blocks);
                    c.reserved_blocks = reserved_blocks;
                    c.dirty = true;
                });
                found.map_or(Applied::NoComponent, |()| Applied::Done)
            }
            LogRecord::Write { component, op, settled, client, first_block, crcs } => self.put(
                Head { component, op, settled, origin: written(client) },
                logged([LogPiece::Data { first_block, crcs }], at),
                at,
            ),
            LogRecord::Zero { component, op, settled, client, range, keep_allocated } => {
                let zero = (range, Body::Zero { keep_allocated });
                self.put(Head { component, op, settled, origin: written(client) }, Parts::from_iter([zero]), at)
            }
            LogRecord::Copy { component, op, settled, pieces } => {
                self.put(Head { component, op, settled, origin: Origin::default() }, logged(pieces, at), at)
            }
            LogRecord::Placed { component, op, settled, pieces } => {
                self.apply_placed(Head { component, op, settled, origin: Origin::default() }, pieces, at)
            }
            LogRecord::Rows { component, op, settled, client, members, pieces } => {
                let origin = Origin { client, members, written: true };
                self.put(Head { component, op, settled, origin }, logged(pieces, at), at)
            }
            LogRecord::ZeroRows { component, op, settled, client, members, range, keep_allocated } => {
                let (zero, origin) =
                    ((range, Body::Zero { keep_allocated }), Origin { client, members, written: true });
                self.put(Head { component, op, settled, origin }, Parts::from_iter([zero]), at)
            }
            LogRecord::Undo { component, op } => self.undo(component, op, at.position),
            LogRecord::Settle { component, upto } => {
                let found = self.components.change(&mut self.tier, component, |c, records| c.settle(upto, records));
                found.map_or(Applied::NoComponent, |()| Applied::Done)
            }
            LogRecord::Cuts { component, at: listed_at, settled, cuts } => {
                self.cut(component, (listed_at, settled), at.position, &cuts)
            }
            LogRecord::Remember { component, clients } => {
                let max = self.components.outcomes_max();
                let found = self.components.change(&mut self.tier, component, |c, _| {
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

    fn cut(
        &mut self,
        component: ComponentId,
        (listed_at, settled): (OpId, OpId),
        position: u64,
        cuts: &[(SnapshotId, OpId)],
    ) -> Applied {
        if !self.map.pages().is_some_and(|pages| pages.may_have_cuts) {
            // Whoever wrote that was no store.
            return Applied::NoComponent;
        }
        let found = self.components.change(&mut self.tier, component, |c, records| {
            c.settle(settled, records);
            c.cut(listed_at, position, cuts)
        });
        if found == Some(true) {
            self.log.want_tidy();
        }
        found.map_or(Applied::NoComponent, |_| Applied::Done)
    }

    fn undo(&mut self, component: ComponentId, op: OpId, position: u64) -> Applied {
        let ranges = self.components.change(&mut self.tier, component, |c, records| c.undo(op, position, records));
        if matches!(ranges, Some(Some(_))) {
            self.components.change(&mut self.tier, component, |c, _| c.outcomes.undo(op));
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

    fn delete(&mut self, id: ComponentId, position: u64) -> Applied {
        if !self.components.delete(&mut self.tier, id, position) {
            return Applied::NoComponent;
        }
        self.cache.forget_component(id);
        self.log.want_tidy();
        Applied::Done
    }

    /// Puts the parts of an operation into the index.
    fn put(&mut self, head: Head, parts: Parts, at: At) -> Applied {
        let Head { component, op, settled, origin } = head;
        let (segment, outcomes_max) = (self.log.ring.segment_of(at.position), self.components.outcomes_max());
        // What is not applied in the end is forgotten in vain, and read again.
        parts.iter().for_each(|(range, _)| self.cache.forget(component, *range));
        let told: SmallVec<[(BlockRange, bool); 1]> =
            parts.iter().map(|(range, body)| (*range, body.is_mark())).collect();
        let applied = self.components.change(&mut self.tier, component, |c, records| {
            if c.lost {
                return Applied::Lost;
            }
            // Before all else: a refused operation leaves no trace, not even what it says of others. But what its client says holds,
            // whatever becomes of the operation: replay may know already that it was undone, and must forget the same.
            if c.is_undone(op) {
                c.outcomes.answered(origin.client);
                return Applied::Undone;
            }
            c.settle(settled, records);
            for (range, body) in parts {
                let is_copy = !origin.written || c.cuts.is_late(op, at.position);
                let record = Record { component, op, range, position: at.position, body, is_copy, live: 0, row: None };
                c.put(record, origin, Some(segment), records);
            }
            c.outcomes.remember(origin.client, op, at.position, outcomes_max);
            Applied::Done
        });
        if applied == Some(Applied::Done) {
            told.into_iter().for_each(|(range, is_mark)| self.findings.changed(component, range, is_mark));
        }
        applied.unwrap_or(Applied::NoComponent)
    }

    /// A copy whose blocks stand in the capacity tier. Their segments are held until the log has left the record behind.
    fn apply_placed(&mut self, head: Head, pieces: Vec<PlacedPiece>, at: At) -> Applied {
        let Some(known) = self.components.get(head.component) else {
            return Applied::NoComponent;
        };
        let device = known.device;
        let (mut parts, mut runs) = (Parts::new(), Vec::new());
        for piece in pieces {
            let (first_block, crcs, row_checks, own) = match piece {
                PlacedPiece::Hole { range } => {
                    parts.push((range, Body::Zero { keep_allocated: false }));
                    continue;
                }
                PlacedPiece::Data { first_block, crcs, runs } => (first_block, crcs, RowChecks::default(), runs),
                PlacedPiece::Parity { first_block, crcs, row_checks, runs } => {
                    (first_block, crcs, RowChecks::new(row_checks), runs)
                }
            };
            // Whether the device has them is looked at below.
            let slots = own.iter().flat_map(|run| (run.first_slot..).take(run.count as usize));
            let spots = slots.map(|slot| Spot::of_slot(slot).unwrap_or(Spot::NONE)).collect();
            let range = BlockRange::new(first_block, crcs.len() as u32);
            runs.extend(own);
            parts.push((range, Body::Data { place: Place::Spots(spots), crcs, row_checks }));
        }
        // Not ours, whatever its checksum says: no writer of the log names spots that the device does not have.
        if !known.lost && !runs.iter().all(|run| self.tier.of(device).has_run(*run)) {
            return Applied::NoComponent;
        }
        let applied = self.put(head, parts, at);
        if applied == Applied::Done && !Canary::PlacedNotHeld.sings() {
            let log_segment = self.log.ring.segment_of(at.position);
            runs.into_iter().for_each(|run| self.tier.of_mut(device).hold(log_segment, run));
        }
        applied
    }

    /// A capacity device is gone: its components are lost. They are told at the next transaction's commit.
    pub fn fail_device(&mut self, device: u8, why: &cairn_env::DiskError) {
        if self.tier.fail(device, why) {
            let lost = self.components.lose_those_on(&mut self.tier, device);
            lost.into_iter().for_each(|id| self.cache.forget_component(id));
        }
    }

    /// The group takes no writes until it is opened again: whoever waits is told, and the log stays as it is. A batch
    /// whose write failed stays in flight, as nobody knows what is on the medium there.
    pub fn stop(&mut self, error: StoreError) {
        self.admission.fail_all(&error);
        self.log.stop(&error);
        self.life.stop(error);
    }
}

/// Blocks, and what an operation does to them.
type Parts = SmallVec<[(BlockRange, Body); 1]>;

/// Pieces whose data stand in the log, one after the other.
fn logged(pieces: impl IntoIterator<Item = LogPiece>, at: At) -> Parts {
    let mut data = at.data;
    let mut in_log = |first_block, crcs: Crcs, row_checks| {
        let range = BlockRange::new(first_block, crcs.len() as u32);
        let body = Body::Data { place: Place::Log(data), crcs, row_checks };
        data += range.bytes();
        (range, body)
    };
    let part = |piece| match piece {
        LogPiece::Data { first_block, crcs } => in_log(first_block, crcs, RowChecks::default()),
        LogPiece::Parity { first_block, crcs, row_checks } => in_log(first_block, crcs, RowChecks::new(row_checks)),
        LogPiece::Hole { range } => (range, Body::Zero { keep_allocated: false }),
        LogPiece::Bad { first_block, crcs } => {
            let range = BlockRange::new(first_block, crcs.len() as u32);
            let place = Place::Spots(vec![Spot::BAD; crcs.len()].into());
            (range, Body::Data { place, crcs, row_checks: RowChecks::default() })
        }
    };
    pieces.into_iter().map(part).collect()
}
