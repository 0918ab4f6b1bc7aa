//! A piece of a map that is filled: which blocks it maps, to which spots, and what it says of each.
//!
//! Promises    one seed is one map; each spot of a piece's runs has one block, and each block one spot
//! Assumes     runs come from [`Segments::take_run`], as those of destage do
//! Memory      some 40 bytes a segment that is filled
//! Not here    who may be filled, and how a piece becomes durable (`fill.rs`)
//!
//! Pieces share nothing, so each is one transaction whose counts of segments are right by themselves. Where spots go at random, pieces take
//! their segments in turns: the spots of each lie over all of what is filled, and a page has to tell them apart.

use std::collections::VecDeque;

use cairn_format::{PAGE_SECTORS, RunEntry, RunHeader, SHARD_BLOCKS, crc32c, encode_run_header};
use cairn_types::{BLOCK_BYTES, ComponentId, Epoch, OpId};

use crate::{
    leaf::{Entry, Spot},
    segments::{DESTAGE_STREAM, Pins, RunPlace, Segments},
    shards::ShardKey,
    shuffle::{Shuffle, mixed},
};

/// Shards of a piece, at most: 4 GiB of addresses, whose entries wait in 25 MB of memory.
const SHARDS: usize = 16;
/// Blocks that one operation wrote, where they were written in order: 1 MiB.
const OPERATION_BLOCKS: u64 = 256;
/// What seeds of permutations are told apart by.
const OF_SLOTS: u64 = 1 << 62;
const OF_OPERATIONS: u64 = 1 << 61;

/// Which spots blocks are mapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FillOrder {
    /// Blocks that follow on stand anywhere, written in any order: the largest pages.
    #[default]
    Random,
    /// They stand in spots that follow on.
    Sequential,
}

/// Blocks of one shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub key: ShardKey,
    /// The first one, of the component.
    pub first: u64,
    pub count: u64,
    /// Blocks of the component that are filled: as many operations, at most, wrote them.
    pub of_component: u64,
}

/// What a map says of its blocks, where nothing tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    pub order: FillOrder,
    pub seed: u64,
    /// Of a block of zeroes, as which a hole is read: no block is to be right by chance.
    zeroes_crc: u32,
}

impl Content {
    pub fn new(order: FillOrder, seed: u64) -> Self {
        Self { order, seed, zeroes_crc: crc32c(&[0; BLOCK_BYTES as usize]) }
    }

    fn seed_of(&self, component: ComponentId) -> u64 {
        mixed(self.seed, component.0 as u64 ^ (component.0 >> 64) as u64)
    }

    fn crc(&self, component_seed: u64, block: u64) -> u32 {
        let crc = mixed(component_seed, block) as u32;
        if crc == self.zeroes_crc { crc ^ 1 } else { crc }
    }
}

/// An operation before all that an owner may issue, whose epochs are above zero: whatever is written later is newer, and no copy is behind
/// for lack of it.
pub(crate) fn op_of(number: u64) -> OpId {
    OpId { epoch: Epoch::default(), seq: number }
}

/// Blocks that one transaction maps, all on one device.
#[derive(Debug)]
pub(crate) struct Piece {
    pub device: u8,
    pub spans: Vec<Span>,
    pub runs: Vec<RunPlace>,
    content: Content,
    /// Of the piece's blocks, how many are in spans up to each one, with it.
    span_ends: Vec<u64>,
    /// The same of runs.
    run_ends: Vec<u64>,
    spots: Option<Shuffle>,
}

impl Piece {
    fn new(device: u8, spans: &[Span], content: Content) -> Self {
        let mut blocks = 0;
        let end = |span: &Span| {
            blocks += span.count;
            blocks
        };
        let span_ends = spans.iter().map(end).collect();
        let seed = spans.first().map_or(0, |span| content.seed_of(span.key.0) ^ u64::from(span.key.1));
        let spots = (content.order == FillOrder::Random).then(|| Shuffle::new(blocks, seed ^ OF_SLOTS));
        Self { device, spans: spans.to_vec(), runs: Vec::new(), content, span_ends, run_ends: Vec::new(), spots }
    }

    /// Blocks that it maps.
    pub fn blocks(&self) -> u64 {
        self.span_ends.last().copied().unwrap_or(0)
    }

    /// Those that have no spot yet.
    fn lacks(&self) -> u64 {
        self.blocks() - self.run_ends.last().copied().unwrap_or(0)
    }

    /// The entries of a span, by block of the shard.
    pub fn entries(&self, span: usize) -> impl Iterator<Item = (u16, Entry)> + '_ {
        let Span { key, first, count, of_component } = self.spans[span];
        let begin = self.span_ends[span] - count;
        let seed = self.content.seed_of(key.0);
        let operations = self.spots.map(|_| Shuffle::new(of_component, seed ^ OF_OPERATIONS));
        (0..count).map(move |at| {
            let block = first + at;
            let seq = operations.map_or_else(|| block / OPERATION_BLOCKS, |shuffle| shuffle.at(block)) + 1;
            let (spot, crc) = (self.spot(begin + at), self.content.crc(seed, block));
            let entry = Entry { spot, crc, row_check: 0, op: op_of(seq) };
            ((block % SHARD_BLOCKS) as u16, entry)
        })
    }

    fn spot(&self, index: u64) -> Spot {
        let rank = self.spots.map_or(index, |shuffle| shuffle.at(index));
        let run = self.run_ends.partition_point(|end| *end <= rank);
        Spot::raw(self.runs[run].first_slot() + rank - (self.run_ends[run] - u64::from(self.runs[run].entries)))
    }

    /// The header of a run as destage writes it, in whole pages.
    pub fn head(&self, run: usize, log_id: u64) -> Vec<u8> {
        let RunPlace { segment, generation, entries, .. } = self.runs[run];
        let end = self.run_ends[run];
        let entries = (end - u64::from(entries)..end).map(|rank| self.run_entry(rank)).collect();
        encode_run_header(&RunHeader { log_id, device: u32::from(self.device), segment, generation, entries })
    }

    fn run_entry(&self, rank: u64) -> RunEntry {
        let index = self.spots.map_or(rank, |shuffle| shuffle.back(rank));
        let at = self.span_ends.partition_point(|end| *end <= index);
        let span = self.spans[at];
        let (component, block) = (span.key.0, span.first + index - (self.span_ends[at] - span.count));
        let crc = self.content.crc(self.content.seed_of(component), block);
        RunEntry { component, block, crc, pending: false, sectors: PAGE_SECTORS, fingerprint: 0, name: None }
    }
}

/// The spans of a device's components, in pieces that have no spots yet.
pub(crate) fn pieces_of(device: u8, spans: &[Span], content: Content) -> Vec<Piece> {
    spans.chunks(SHARDS).map(|some| Piece::new(device, some, content)).collect()
}

/// Gives the pieces of a device their spots. False when there are not segments enough.
pub(crate) fn deal(segments: &mut Segments, pieces: &mut [Piece], round: u64, ticket: u64, pins: &Pins) -> bool {
    let mut lacking: VecDeque<usize> = (0..pieces.len()).collect();
    while let Some(at) = lacking.pop_front() {
        let piece = &mut pieces[at];
        let wanted = u32::try_from(piece.lacks()).unwrap_or(u32::MAX);
        let Some(run) = segments.take_run(DESTAGE_STREAM, wanted, round, ticket, pins) else { return false };
        piece.run_ends.push(piece.run_ends.last().copied().unwrap_or(0) + u64::from(run.entries));
        piece.runs.push(run);
        match (piece.lacks(), piece.content.order) {
            (0, _) => {}
            (_, FillOrder::Random) => lacking.push_back(at),
            (_, FillOrder::Sequential) => lacking.push_front(at),
        }
    }
    true
}

/// Entries of a full shard as good as any that a piece has, where spots and operations are below these: to see how large its pages are.
pub(crate) fn sample(content: Content, spots: u64, operations: u64, slots_per_run: u64) -> Vec<(u64, Entry)> {
    let entry = |block: u64| {
        let (spot, seq) = match content.order {
            FillOrder::Random => (mixed(content.seed, block) % spots, mixed(!content.seed, block) % operations + 1),
            // Between two runs there is a header.
            FillOrder::Sequential => (block + block / slots_per_run.max(1), block / OPERATION_BLOCKS + 1),
        };
        (block, Entry { spot: Spot::raw(spot), crc: content.crc(content.seed, block), row_check: 0, op: op_of(seq) })
    };
    (0..SHARD_BLOCKS).map(entry).collect()
}
