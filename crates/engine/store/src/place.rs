//! Large copies go straight to the capacity tier, and the log gets a record of where they stand.
//!
//! Promises    P1  the record is in the log only once the blocks are on stable media: an acknowledged copy is (I3)
//!             P2  slots that a record of the log names are neither reused nor cleaned away until the log has left it behind:
//!                 by then destage has handed them to the map, or nobody will ask for them again
//!             P3  what was undone, fenced off or lost while its blocks were written leaves no trace (I9)
//!             P4  destage never waits for room because of it: it goes on only while what is free would hold all of the log as well
//! Assumes     the object layer orders a copy with overlapping writes: it takes effect later than what was asked for after it
//! Not here    what becomes of the record in destage (`fold.rs`); which slots are held (`segments.rs`)
//!
//! A resync fills no write buffer so: its bytes meet the capacity device once, and nobody waits for their destage.

use std::collections::{BTreeMap, VecDeque};

use cairn_env::Env;
use cairn_format::{LogPiece, LogRecord, PlacedPiece, SlotRun};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId, OpId, Time};

use crate::{
    append::{Charged, DataParts, Done, Queued},
    destage::{CapacityWriter, OutBlock},
    disk_group::Inner,
    error::{StoreError, StoreErrorKind},
    log::Class,
    options::StoreOptions,
    segments::{STREAMS, Segments},
    state::State,
};

const PAGE: u64 = BLOCK_BYTES as u64;
/// Tasks that write, each with a stream of its own: one is transferred while the other is flushed.
pub(crate) const PLACERS: usize = STREAMS - 1;
/// Bytes that are written and flushed together, at most.
const TOGETHER_BYTES_MAX: u64 = 4 << 20;
/// Segments that stay free for destage and cleaning, beside what the log would take.
const SPARE_SEGMENTS: u64 = 4;
/// Blocks that wait in the capacity tier for destage to hand them to the map, in rounds of destage: it begins with them at the first,
/// and at the second copies go through the log. Each takes 12 bytes of memory meanwhile, and some 0.1 us of the shard in one go.
const DUE_ROUNDS: u64 = 2;
const MOST_ROUNDS: u64 = 32;
/// The same as parts of a device, where that is less.
const DUE_PART: u64 = 32;
const MOST_PART: u64 = 8;

/// A copy that was taken out of its log record.
struct CopyParts {
    component: ComponentId,
    op: OpId,
    settled: OpId,
    pieces: Vec<LogPiece>,
}

impl CopyParts {
    /// # Panics
    /// On another record than a copy's.
    fn of(record: LogRecord) -> Self {
        let LogRecord::Copy { component, op, settled, pieces } = record else {
            panic!("only copies are placed");
        };
        Self { component, op, settled, pieces }
    }
    fn into_record(self) -> LogRecord {
        let Self { component, op, settled, pieces } = self;
        LogRecord::Copy { component, op, settled, pieces }
    }
}

/// A copy whose blocks wait for the capacity device, or are being written there.
pub(crate) struct Placement {
    since: Time,
    device: u8,
    copy: CopyParts,
    /// The data of each piece that has some.
    data: DataParts,
    pub charged: Charged,
    pub done: Done,
    /// Where its slots begin among those of what is written with it.
    slots_from: usize,
}

impl Placement {
    /// Of a copy's record.
    pub fn new(since: Time, device: u8, record: LogRecord, data: DataParts, charged: Charged, done: Done) -> Self {
        Self { since, device, copy: CopyParts::of(record), data, charged, done, slots_from: 0 }
    }

    fn bytes(&self) -> u64 {
        self.data.iter().map(|part| part.len() as u64).sum()
    }

    /// Its blocks, to be written.
    fn blocks(&self) -> Vec<OutBlock> {
        let with_data = self.copy.pieces.iter().filter_map(|piece| match piece {
            LogPiece::Data { first_block, crcs } => Some((*first_block, crcs)),
            LogPiece::Hole { .. } => None,
        });
        let mut blocks = Vec::with_capacity((self.bytes() / PAGE) as usize);
        for ((first_block, crcs), data) in with_data.zip(&self.data) {
            for (at, &crc) in crcs.iter().enumerate() {
                let from = at * PAGE as usize;
                blocks.push(OutBlock {
                    component: self.copy.component,
                    block: first_block + at as u64,
                    crc,
                    pending: true,
                    data: data.slice(from..from + PAGE as usize),
                });
            }
        }
        blocks
    }

    /// Through the log, as there is no room in the capacity tier.
    fn into_logged(self) -> Queued {
        let Self { since, copy, data, charged, done, .. } = self;
        Queued::new(since, copy.into_record(), data, Class::Normal, charged, None, done)
    }

    /// The record that names its slots.
    fn into_placed(self, slots: &[u64], segments: &Segments, ticket: u64) -> Queued {
        let Self { since, copy, charged, done, .. } = self;
        let CopyParts { component, op, settled, pieces } = copy;
        let mut slots = slots;
        let placed = |piece: LogPiece| match piece {
            LogPiece::Hole { range } => PlacedPiece::Hole { range },
            LogPiece::Data { first_block, crcs } => {
                let (own, rest) = slots.split_at(crcs.len());
                slots = rest;
                PlacedPiece::Data { first_block, crcs, runs: runs_of(own, segments) }
            }
        };
        let pieces = pieces.into_iter().map(placed).collect();
        let record = LogRecord::Placed { component, op, settled, pieces };
        Queued::new(since, record, DataParts::new(), Class::Normal, charged, Some(ticket), done)
    }
}

/// Slots as runs, each within a segment.
fn runs_of(slots: &[u64], segments: &Segments) -> Vec<SlotRun> {
    let mut runs: Vec<SlotRun> = Vec::new();
    for &slot in slots {
        match runs.last_mut() {
            Some(run)
                if run.first_slot + u64::from(run.count) == slot
                    && segments.segment_of(run.first_slot) == segments.segment_of(slot) =>
            {
                run.count += 1;
            }
            _ => {
                let generation = segments.row(segments.segment_of(slot)).generation;
                runs.push(SlotRun { first_slot: slot, count: 1, generation });
            }
        }
    }
    runs
}

/// Blocks with data.
pub(crate) fn placed_blocks(pieces: &[PlacedPiece]) -> u64 {
    let blocks = |piece: &PlacedPiece| match piece {
        PlacedPiece::Data { crcs, .. } => crcs.len() as u64,
        PlacedPiece::Hole { .. } => 0,
    };
    pieces.iter().map(blocks).sum()
}

/// Copies on their way to the capacity tier.
#[derive(Default)]
pub(crate) struct Placing {
    waiting: VecDeque<Placement>,
    /// What is being written, by ticket.
    under_way: BTreeMap<u64, Vec<Placement>>,
    /// Records that were queued for the log and are not applied yet, by the ticket of their blocks.
    records: BTreeMap<u64, usize>,
}

impl std::fmt::Debug for Placing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} copies wait, {} groups of them are being written", self.waiting.len(), self.under_way.len())
    }
}

impl Placing {
    pub fn wait(&mut self, placement: Placement) {
        self.waiting.push_back(placement);
    }
    pub fn nothing_waits(&self) -> bool {
        self.waiting.is_empty()
    }
    /// Nothing of it will come to the log any more, unless it is asked for anew.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }
    /// Takes out what is of a component. Blocks that are being written stay in slots that nothing will name.
    pub fn take_those_of(&mut self, component: ComponentId) -> Vec<Placement> {
        let of = |placement: &mut Placement| placement.copy.component == component;
        let mut taken: Vec<Placement> = self.under_way.values_mut().flat_map(|some| some.extract_if(.., of)).collect();
        let (gone, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|p| p.copy.component == component);
        self.waiting = kept;
        taken.extend(gone);
        taken
    }
    /// Answers all of them.
    pub fn fail_all(&mut self, error: &StoreError) {
        let under_way = std::mem::take(&mut self.under_way).into_values().flatten();
        let all = std::mem::take(&mut self.waiting).into_iter().chain(under_way);
        all.for_each(|placement| drop(placement.done.send(Err(error.clone()))));
    }
    /// Blocks on their way to a device.
    fn blocks_for(&self, device: u8) -> u64 {
        let all = self.waiting.iter().chain(self.under_way.values().flatten());
        all.filter(|placement| placement.device == device).map(|placement| placement.bytes() / PAGE).sum()
    }
    /// What is to be written next: some that came one after the other, for one device.
    fn take_group(&mut self, ticket: u64) -> Option<(u8, Vec<OutBlock>)> {
        let device = self.waiting.front()?.device;
        let (mut group, mut blocks) = (Vec::new(), Vec::new());
        let fits = |p: &mut Placement, have: usize| {
            p.device == device && (have == 0 || have as u64 * PAGE + p.bytes() <= TOGETHER_BYTES_MAX)
        };
        while let Some(mut placement) = self.waiting.pop_front_if(|p| fits(p, blocks.len())) {
            placement.slots_from = blocks.len();
            blocks.extend(placement.blocks());
            group.push(placement);
        }
        self.under_way.insert(ticket, group);
        Some((device, blocks))
    }
}

impl<E: Env> Inner<E> {
    /// One of the tasks that write copies to the capacity tier: runs until the group closes or stops.
    pub(crate) async fn run_placer(self: std::rc::Rc<Self>, number: usize) {
        loop {
            let (ticket, group) = {
                let mut state = self.state.borrow_mut();
                let ticket = state.take_ticket();
                let group = state.placing.take_group(ticket);
                (ticket, group)
            };
            let Some((device, blocks)) = group else {
                if self.state.borrow().ends() {
                    break;
                }
                self.placer.wait().await;
                continue;
            };
            if !self.state.borrow().placing.nothing_waits() {
                // For the other task.
                self.placer.raise();
            }
            let slots = self.write_blocks(device, &blocks, CapacityWriter::Place { ticket, stream: 1 + number }).await;
            self.state.borrow_mut().placed(ticket, device, slots, blocks.len());
            self.writer.raise();
        }
        self.placers_ended[number].raise();
        // The other one may have waited when this one was told to end.
        self.placer.raise();
        self.writer.raise();
    }
}

impl State {
    /// The device that the blocks of a copy go to at once; none where they go through the log, as all that is no large copy does.
    pub(crate) fn place_of(&self, record: &LogRecord, data_bytes: u64, tuning: &StoreOptions) -> Option<u8> {
        let LogRecord::Copy { component, .. } = record else {
            return None;
        };
        let device = self.components[component].device;
        (data_bytes >= tuning.place_bytes_min && self.has_place(device, data_bytes / PAGE, tuning)).then_some(device)
    }

    /// Nothing new begins here any more.
    fn ends(&self) -> bool {
        self.closing || self.stopped.is_some()
    }

    /// Whether a device has room for so many blocks beside all that the log may still bring it (P4).
    fn has_place(&self, device: u8, blocks: u64, tuning: &StoreOptions) -> bool {
        let segments = &self.devices[device as usize];
        let on_their_way = self.placing.blocks_for(device);
        let held = segments.held_blocks_from(0) + on_their_way;
        let wanted = blocks + on_their_way + self.ring.used() / PAGE;
        let most = (MOST_ROUNDS * u64::from(tuning.destage_blocks_max)).min(all_slots(segments) / MOST_PART);
        held + blocks <= most
            && segments.free_segments() >= wanted.div_ceil(segments.slots_per_segment().max(1)) + SPARE_SEGMENTS
    }

    /// Whether destage is to hand over what records name that no round has gathered, however little the log holds.
    pub(crate) fn placed_is_due(&self, tuning: &StoreOptions) -> bool {
        let from = self.ring.segment_of(self.gathered_to.max(self.ring.tail));
        self.devices.iter().any(|segments| {
            let due = (DUE_ROUNDS * u64::from(tuning.destage_blocks_max)).min(all_slots(segments) / DUE_PART);
            segments.held_blocks_from(from) > due
        })
    }

    /// The blocks of a group were written and flushed: their records are queued for the log. `slots` is none where there was no room,
    /// and has fewer than `blocks` where the device failed.
    fn placed(&mut self, ticket: u64, device: u8, slots: Option<Vec<u64>>, blocks: usize) {
        let mut queued = 0;
        for placement in self.placing.under_way.remove(&ticket).unwrap_or_default() {
            let Some(slots) = &slots else {
                self.queue.push(placement.into_logged());
                continue;
            };
            let valid = self.still_valid(&placement.copy, slots.len() == blocks);
            if let Err(error) = valid {
                self.uncharge(placement.charged);
                let _ = placement.done.send(Err(error));
                continue;
            }
            let own = &slots[placement.slots_from..][..(placement.bytes() / PAGE) as usize];
            self.queue.push(placement.into_placed(own, &self.devices[device as usize], ticket));
            queued += 1;
        }
        if queued == 0 {
            return self.round_over(ticket);
        }
        self.placing.records.insert(ticket, queued);
    }

    /// What was right when the copy was admitted may not be any more (P3).
    fn still_valid(&self, copy: &CopyParts, written: bool) -> Result<(), StoreError> {
        if let Some(error) = &self.stopped {
            return Err(StoreError::new(StoreErrorKind::Media, format!("the disk group takes no writes: {error}")));
        }
        for piece in &copy.pieces {
            let range = match piece {
                LogPiece::Data { first_block, crcs } => BlockRange::new(*first_block, crcs.len() as u32),
                LogPiece::Hole { range } => *range,
            };
            self.check(copy.component, Some(copy.op), range)?;
        }
        assert!(written, "the components of a device that failed are lost");
        Ok(())
    }

    /// A record that names blocks of this ticket is applied, and holds them, or came to nothing.
    pub(crate) fn placed_record_over(&mut self, ticket: u64) {
        let left = self.placing.records.get_mut(&ticket).expect("a record that was queued is counted");
        *left -= 1;
        if *left == 0 {
            self.placing.records.remove(&ticket);
            self.round_over(ticket);
        }
    }
}

fn all_slots(segments: &Segments) -> u64 {
    segments.slots_per_segment() * segments.count()
}
