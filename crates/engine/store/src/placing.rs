//! Large copies on their way to a capacity device.
//!
//! Promises    a copy is answered once: when its record is in the log, or with the reason why it will not be
//! Not here    when a copy goes this way, and who writes (`bypass.rs`)

use std::collections::{BTreeMap, VecDeque};

use cairn_format::{LogPiece, LogRecord, PlacedPiece, SlotRun};
use cairn_types::{BLOCK_BYTES, ComponentId, OpId, Time};

use crate::{
    capacity::OutBlock,
    error::StoreError,
    leaf::Spot,
    queue::{Charged, DataParts, Done, Queued},
    ring::Class,
    segments::{STREAMS, Segments},
};

const PAGE: u64 = BLOCK_BYTES as u64;
/// Tasks that write, each with a stream of its own: one is transferred while the other is flushed.
pub(crate) const PLACERS: usize = STREAMS - 1;
/// Bytes that are written and flushed together, at most.
const TOGETHER_BYTES_MAX: u64 = 4 << 20;

/// A copy that was taken out of its log record.
pub(crate) struct CopyParts {
    pub component: ComponentId,
    pub op: OpId,
    settled: OpId,
    pub pieces: Vec<LogPiece>,
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
    pub copy: CopyParts,
    /// The data of each piece that has some.
    data: DataParts,
    pub charged: Charged,
    pub done: Done,
    /// Where its spots begin among those of what is written with it.
    pub spots_from: usize,
}

impl Placement {
    /// Of a copy's record.
    pub fn new(since: Time, device: u8, record: LogRecord, data: DataParts, charged: Charged, done: Done) -> Self {
        Self { since, device, copy: CopyParts::of(record), data, charged, done, spots_from: 0 }
    }

    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|part| part.len() as u64).sum()
    }

    /// Its blocks, to be written.
    fn blocks(&self) -> Vec<OutBlock> {
        out_blocks(self.copy.component, &self.copy.pieces, &self.data, true)
    }

    /// Through the log, as there is no room in the capacity tier.
    pub fn into_logged(self) -> Queued {
        let Self { since, copy, data, charged, done, .. } = self;
        Queued::new(since, copy.into_record(), data, Class::Normal, charged, None, done)
    }

    /// The record that names its spots.
    pub fn into_placed(self, spots: &[Spot], segments: &Segments, ticket: u64) -> Queued {
        let Self { since, copy, charged, done, .. } = self;
        let CopyParts { component, op, settled, pieces } = copy;
        let mut spots = spots;
        let placed = |piece: LogPiece| {
            let (own, rest) = spots.split_at(piece.data_blocks() as usize);
            spots = rest;
            let runs = runs_of(own, segments);
            match piece {
                LogPiece::Hole { range } => PlacedPiece::Hole { range },
                LogPiece::Bad { .. } => unreachable!("marks go through the log"),
                LogPiece::Data { first_block, crcs } => PlacedPiece::Data { first_block, crcs, runs },
                LogPiece::Parity { first_block, crcs, row_checks } => {
                    PlacedPiece::Parity { first_block, crcs, row_checks, runs }
                }
            }
        };
        let pieces = pieces.into_iter().map(placed).collect();
        let record = LogRecord::Placed { component, op, settled, pieces };
        Queued::new(since, record, DataParts::new(), Class::Normal, charged, Some(ticket), done)
    }
}

/// The blocks with data of some pieces, to be written. `data` is of each piece that has some.
pub(crate) fn out_blocks(
    component: ComponentId,
    pieces: &[LogPiece],
    data: &DataParts,
    pending: bool,
) -> Vec<OutBlock> {
    let with_data = pieces.iter().filter(|piece| piece.data_blocks() > 0);
    let mut blocks = Vec::new();
    for (piece, data) in with_data.zip(data) {
        for (at, &crc) in piece.data_crcs().iter().enumerate() {
            let (from, block) = (at * PAGE as usize, piece.range().first + at as u64);
            let data = data.slice(from..from + PAGE as usize);
            blocks.push(OutBlock { component, block, crc, pending, data, fingerprint: 0, name: None });
        }
    }
    blocks
}

/// Raw spots as runs, each within a segment.
fn runs_of(spots: &[Spot], segments: &Segments) -> Vec<SlotRun> {
    let mut runs: Vec<SlotRun> = Vec::new();
    for &spot in spots {
        let slot = spot.slot().expect("what goes past the log is raw");
        match runs.last_mut() {
            Some(run)
                if run.first_slot + u64::from(run.count) == slot
                    && segments.segment_of_slot(run.first_slot) == segments.segment_of(spot) =>
            {
                run.count += 1;
            }
            _ => {
                let generation = segments.row(segments.segment_of(spot)).generation;
                runs.push(SlotRun { first_slot: slot, count: 1, generation });
            }
        }
    }
    runs
}

/// Copies on their way to the capacity tier.
#[derive(Default)]
pub(crate) struct Placing {
    waiting: VecDeque<Placement>,
    /// What is being written, by ticket.
    pub under_way: BTreeMap<u64, Vec<Placement>>,
    /// Records that were queued for the log and are not applied yet, by the ticket of their blocks.
    pub records: BTreeMap<u64, usize>,
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
    /// Takes out what is of a component. Blocks that are being written stay in spots that nothing will name.
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
    pub fn blocks_for(&self, device: u8) -> u64 {
        let all = self.waiting.iter().chain(self.under_way.values().flatten());
        all.filter(|placement| placement.device == device).map(|placement| placement.bytes() / PAGE).sum()
    }
    /// What is to be written next: some that came one after the other, for one device.
    pub fn take_group(&mut self, ticket: u64) -> Option<(u8, Vec<OutBlock>)> {
        let device = self.waiting.front()?.device;
        let (mut group, mut blocks) = (Vec::new(), Vec::new());
        let fits = |p: &mut Placement, have: usize| {
            p.device == device && (have == 0 || have as u64 * PAGE + p.bytes() <= TOGETHER_BYTES_MAX)
        };
        while let Some(mut placement) = self.waiting.pop_front_if(|p| fits(p, blocks.len())) {
            placement.spots_from = blocks.len();
            blocks.extend(placement.blocks());
            group.push(placement);
        }
        self.under_way.insert(ticket, group);
        Some((device, blocks))
    }
}
