//! Answers: values to bytes, ready for one `writev`. No I/O.
//!
//! Promises    heads and small data share one run of bytes; larger data leaves in the memory that the disk gave
//! Source      "NBD protocol", sections "Simple reply message" and "Structured reply chunk message"

use std::{collections::VecDeque, io::IoSlice};

use bytes::Bytes;
use cairn_types::BLOCK_BYTES;

use crate::{
    contexts::StateRun,
    wire::{Errno, SIMPLE_REPLY_MAGIC, STRING_BYTES_MAX, STRUCTURED_REPLY_MAGIC, chunk},
};

/// Data below this is copied next to its head: an I/O vector entry costs about as much as copying it.
const INLINE_BYTES_MAX: usize = 1024;
/// Zeros inside a larger answer become a hole chunk from this length on; each chunk costs the client some system calls.
const HOLE_BYTES_MIN: usize = 32 << 10;
/// Sent heads are forgotten when there are this many bytes of them.
const ARENA_BYTES_KEPT: usize = 64 << 10;

/// Answers on their way out.
#[derive(Default)]
pub struct Output {
    /// Heads and small data, in order; `arena_sent` bytes of it have left.
    arena: Vec<u8>,
    arena_sent: usize,
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that have left, when it is `Data`.
    data_sent: usize,
    replies: usize,
    cost_bytes: usize,
}

struct Segment {
    body: Body,
    replies: usize,
    cost_bytes: usize,
}

enum Body {
    /// So many of the arena's next bytes.
    Arena(usize),
    Data(Bytes),
}

/// To whom an answer goes.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    /// The request's cookie.
    pub cookie: u64,
    /// Whether answers go in chunks.
    pub structured: bool,
    /// What the request cost; freed when its answer has left.
    pub cost_bytes: usize,
}

/// What one metadata context tells of a range.
pub struct Status {
    /// The context's number.
    pub context: u32,
    /// From the range's beginning on; neighbours differ.
    pub runs: Vec<StateRun>,
}

impl Output {
    /// Whether all has left.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    /// Answers that have not left.
    pub fn replies(&self) -> usize {
        self.replies
    }
    /// What their requests cost.
    pub fn cost_bytes(&self) -> usize {
        self.cost_bytes
    }

    /// Queues "done".
    pub fn put_done(&mut self, to: Address) {
        if to.structured {
            self.put_chunk_head(to.cookie, chunk::DONE, chunk::NONE, 0);
        } else {
            self.put_simple_head(to.cookie, 0);
        }
        self.end_reply(to);
    }

    /// Queues an error, with its reason where the client can hear it.
    pub fn put_error(&mut self, to: Address, errno: Errno, text: &str) {
        if to.structured {
            let mut cut = text.len().min(STRING_BYTES_MAX);
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            self.put_chunk_head(to.cookie, chunk::DONE, chunk::ERROR, 6 + cut as u32);
            self.put_bytes(&(errno as u32).to_be_bytes());
            self.put_bytes(&(cut as u16).to_be_bytes());
            self.put_bytes(&text.as_bytes()[..cut]);
        } else {
            self.put_simple_head(to.cookie, errno as u32);
        }
        self.end_reply(to);
    }

    /// Queues what was read at `offset`. Where the client can take it, zeros leave as holes.
    pub fn put_data(&mut self, to: Address, offset: u64, pieces: Vec<Bytes>, unfragmented: bool) {
        if !to.structured {
            self.put_simple_head(to.cookie, 0);
            pieces.into_iter().for_each(|piece| self.put_piece(piece));
            return self.end_reply(to);
        }
        let runs = zero_runs(&pieces, unfragmented);
        let mut pieces = pieces.into_iter();
        let (mut at, mut piece) = (offset, Bytes::new());
        for (index, run) in runs.iter().enumerate() {
            let flags = if index + 1 == runs.len() { chunk::DONE } else { 0 };
            if run.zero {
                self.put_chunk_head(to.cookie, flags, chunk::OFFSET_HOLE, 12);
                self.put_bytes(&at.to_be_bytes());
                self.put_bytes(&(run.len as u32).to_be_bytes());
            } else {
                self.put_chunk_head(to.cookie, flags, chunk::OFFSET_DATA, 8 + run.len as u32);
                self.put_bytes(&at.to_be_bytes());
            }
            at += run.len as u64;
            let mut left = run.len;
            while left > 0 {
                if piece.is_empty() {
                    piece = pieces.next().expect("runs add up to the pieces");
                    continue;
                }
                let part = piece.split_to(left.min(piece.len()));
                left -= part.len();
                if !run.zero {
                    self.put_piece(part);
                }
            }
        }
        self.end_reply(to);
    }

    /// Queues what contexts tell of a range, one chunk each: their runs cut to `len_bytes`, or the first of them.
    pub fn put_statuses(&mut self, to: Address, statuses: &[Status], len_bytes: u32, one_extent: bool) {
        assert!(!statuses.is_empty(), "block status is refused where no context was selected");
        let most = if one_extent { 1 } else { usize::MAX };
        for (index, Status { context, runs }) in statuses.iter().enumerate() {
            let mut left = u64::from(len_bytes);
            let mut extents: Vec<(u32, u32)> = Vec::new();
            for run in runs.iter().take(most) {
                // Fits: `left` began as a u32.
                let len = run.len_bytes.min(left) as u32;
                if len == 0 {
                    break;
                }
                left -= u64::from(len);
                extents.push((len, run.flags));
            }
            let flags = if index + 1 == statuses.len() { chunk::DONE } else { 0 };
            self.put_chunk_head(to.cookie, flags, chunk::BLOCK_STATUS, 4 + 8 * extents.len() as u32);
            self.put_bytes(&context.to_be_bytes());
            for (len, flags) in extents {
                self.put_bytes(&len.to_be_bytes());
                self.put_bytes(&flags.to_be_bytes());
            }
        }
        self.end_reply(to);
    }

    fn put_simple_head(&mut self, cookie: u64, error: u32) {
        let mut head = [0; 16];
        head[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        head[4..8].copy_from_slice(&error.to_be_bytes());
        head[8..].copy_from_slice(&cookie.to_be_bytes());
        self.put_bytes(&head);
    }

    fn put_chunk_head(&mut self, cookie: u64, flags: u16, kind: u16, len_bytes: u32) {
        let mut head = [0; 20];
        head[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        head[4..6].copy_from_slice(&flags.to_be_bytes());
        head[6..8].copy_from_slice(&kind.to_be_bytes());
        head[8..16].copy_from_slice(&cookie.to_be_bytes());
        head[16..].copy_from_slice(&len_bytes.to_be_bytes());
        self.put_bytes(&head);
    }

    fn put_piece(&mut self, piece: Bytes) {
        if piece.len() < INLINE_BYTES_MAX {
            return self.put_bytes(&piece);
        }
        self.segments.push_back(Segment { body: Body::Data(piece), replies: 0, cost_bytes: 0 });
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.arena.extend_from_slice(bytes);
        match self.segments.back_mut() {
            Some(Segment { body: Body::Arena(len), .. }) => *len += bytes.len(),
            _ if bytes.is_empty() => {}
            _ => self.segments.push_back(Segment { body: Body::Arena(bytes.len()), replies: 0, cost_bytes: 0 }),
        }
    }

    fn end_reply(&mut self, to: Address) {
        let last = self.segments.back_mut().expect("a reply has a head");
        last.replies += 1;
        last.cost_bytes += to.cost_bytes;
        self.replies += 1;
        self.cost_bytes += to.cost_bytes;
    }

    /// Puts the next bytes into `slices`; returns how many slices were used.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut arena = &self.arena[self.arena_sent..];
        let mut data_skip = self.data_sent;
        let mut used = 0;
        for (slice, segment) in slices.iter_mut().zip(&self.segments) {
            *slice = match &segment.body {
                Body::Arena(len) => {
                    let (here, rest) = arena.split_at(*len);
                    arena = rest;
                    IoSlice::new(here)
                }
                Body::Data(data) => IoSlice::new(&data[data_skip..]),
            };
            data_skip = 0;
            used += 1;
        }
        used
    }

    /// Tells that the next `count` bytes have left.
    pub fn sent(&mut self, mut count: usize) {
        while let Some(front) = self.segments.front_mut() {
            let left = match &mut front.body {
                Body::Arena(len) => {
                    let now = count.min(*len);
                    *len -= now;
                    self.arena_sent += now;
                    count -= now;
                    *len
                }
                Body::Data(data) => {
                    let now = count.min(data.len() - self.data_sent);
                    self.data_sent += now;
                    count -= now;
                    data.len() - self.data_sent
                }
            };
            if left > 0 {
                break;
            }
            self.replies -= front.replies;
            self.cost_bytes -= front.cost_bytes;
            self.data_sent = 0;
            self.segments.pop_front();
        }
        if self.segments.is_empty() {
            self.arena.clear();
            self.arena_sent = 0;
        } else if self.arena_sent > ARENA_BYTES_KEPT {
            self.arena.drain(..self.arena_sent);
            self.arena_sent = 0;
        }
    }

    /// Forgets what has not left: the client is gone.
    pub fn discard(&mut self) {
        *self = Self::default();
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Run {
    len: usize,
    zero: bool,
}

/// Cuts a read into data and holes worth a chunk of their own; one run where it may not be cut.
///
/// Data rarely starts with zeros, so looking at data costs one compare per block. A block of zeros is scanned in full
/// (~50 ns), which is less than sending it.
fn zero_runs(pieces: &[Bytes], unfragmented: bool) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let steps = pieces.iter().flat_map(|p| p.chunks(BLOCK_BYTES as usize));
    for step in steps {
        push_run(&mut runs, step.len(), is_zero(step));
    }
    if runs.len() <= 1 {
        return runs;
    }
    let mut merged = Vec::new();
    for run in runs {
        let keep = run.zero && run.len >= HOLE_BYTES_MIN && !unfragmented;
        push_run(&mut merged, run.len, keep);
    }
    merged
}

fn push_run(runs: &mut Vec<Run>, len: usize, zero: bool) {
    match runs.last_mut() {
        Some(last) if last.zero == zero => last.len += len,
        _ => runs.push(Run { len, zero }),
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|part| part.iter().fold(0, |any, byte| any | byte) == 0)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[derive(Debug, Clone)]
    enum Put {
        Done,
        Error(String),
        /// Blocks: zero or not, each cut into pieces of this size.
        Data(Vec<bool>, usize, bool),
        /// Of each context: sectors of each run, from the range's beginning on.
        Statuses(Vec<Vec<u64>>, bool),
    }

    fn any_put() -> impl Strategy<Value = Put> {
        prop_oneof![
            Just(Put::Done),
            "[a-zß]{0,50}".prop_map(Put::Error),
            (vec(any::<bool>(), 1..40), prop_oneof![Just(512_usize), Just(4096), Just(10000)], any::<bool>())
                .prop_map(|(blocks, piece, df)| Put::Data(blocks, piece, df)),
            (vec(vec(1..5000_u64, 1..20), 1..4), any::<bool>()).prop_map(|(runs, one)| Put::Statuses(runs, one)),
        ]
    }

    fn block_bytes(blocks: &[bool]) -> Vec<u8> {
        blocks.iter().flat_map(|zero| [u8::from(!zero) * 7; 4096]).collect()
    }

    fn status(context: u32, runs: &[u64]) -> Status {
        let run = |(sectors, flags): (&u64, u32)| StateRun { len_bytes: sectors * 512, flags };
        Status { context, runs: runs.iter().zip(context..).map(run).collect() }
    }

    fn put(output: &mut Output, cookie: u64, structured: bool, what: &Put) {
        let to = Address { cookie, structured, cost_bytes: 100 };
        match what {
            Put::Done => output.put_done(to),
            Put::Error(text) => output.put_error(to, Errno::Io, text),
            Put::Data(blocks, piece, df) => {
                let bytes = Bytes::from(block_bytes(blocks));
                let pieces = (0..bytes.len()).step_by(*piece);
                let pieces = pieces.map(|at| bytes.slice(at..bytes.len().min(at + piece))).collect();
                output.put_data(to, 8192, pieces, *df);
            }
            Put::Statuses(..) if !structured => output.put_done(to),
            Put::Statuses(contexts, one) => {
                let statuses: Vec<_> = contexts.iter().zip(1..).map(|(runs, context)| status(context, runs)).collect();
                output.put_statuses(to, &statuses, 1 << 20, *one);
            }
        }
    }

    /// Takes everything out in steps of at most `steps` bytes.
    fn drain(output: &mut Output, steps: &[usize]) -> Vec<u8> {
        let mut all = Vec::new();
        let mut steps = steps.iter().cycle();
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); 5];
            let used = output.gather(&mut slices);
            assert!(used > 0 && slices[..used].iter().all(|s| !s.is_empty()));
            let here: usize = slices[..used].iter().map(|s| s.len()).sum();
            let count = here.min(*steps.next().unwrap_or(&1));
            let bytes = slices[..used].iter().flat_map(|s| s.iter().copied());
            all.extend(bytes.take(count));
            output.sent(count);
        }
        assert_eq!((output.replies(), output.cost_bytes()), (0, 0));
        all
    }

    /// What a client puts together from chunks: (data, holes as zeros), or the extents.
    fn understand(mut bytes: &[u8], structured: bool, what: &Put) -> usize {
        let total = bytes.len();
        let mut take = |count: usize| {
            let (head, rest) = bytes.split_at(count);
            bytes = rest;
            head.to_vec()
        };
        let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
        if !structured {
            let head = take(16);
            assert_eq!(number(&head[..4]), u64::from(SIMPLE_REPLY_MAGIC));
            if let Put::Data(blocks, ..) = what {
                assert_eq!(take(blocks.len() * 4096), block_bytes(blocks));
            }
            return total - bytes.len();
        }
        let (mut data, mut told) = (Vec::new(), 0);
        loop {
            let head = take(20);
            let (flags, kind) = (number(&head[4..6]), number(&head[6..8]) as u16);
            let body = take(number(&head[16..]) as usize);
            match (kind, what) {
                (chunk::NONE, Put::Done) => assert!(body.is_empty()),
                (chunk::ERROR, Put::Error(text)) => assert_eq!(&body[6..], text.as_bytes()),
                (chunk::OFFSET_DATA, Put::Data(..)) => {
                    assert_eq!(number(&body[..8]), 8192 + data.len() as u64);
                    data.extend_from_slice(&body[8..]);
                }
                (chunk::OFFSET_HOLE, Put::Data(..)) => {
                    assert_eq!(number(&body[..8]), 8192 + data.len() as u64);
                    data.resize(data.len() + number(&body[8..]) as usize, 0);
                }
                (chunk::BLOCK_STATUS, Put::Statuses(contexts, one)) => {
                    told += 1;
                    assert_eq!(number(&body[..4]), told);
                    let seen: Vec<_> = body[4..].chunks(8).map(|e| (number(&e[..4]), number(&e[4..]))).collect();
                    let asked = contexts[told as usize - 1].iter().map(|e| e * 512).sum::<u64>().min(1 << 20);
                    let covered: u64 = seen.iter().map(|e| e.0).sum();
                    assert!(if *one { seen.len() == 1 && covered <= asked } else { covered == asked });
                    assert!(seen.iter().zip(told..).all(|(run, flags)| run.1 == flags));
                    assert_eq!(flags & 1 == 1, told == contexts.len() as u64);
                }
                other => panic!("{other:?}"),
            }
            if flags & 1 == 1 {
                break;
            }
        }
        if let Put::Data(blocks, ..) = what {
            assert!(data == block_bytes(blocks));
        }
        total - bytes.len()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn answers_leave_whole_in_any_cut(
            puts in vec(any_put(), 1..15),
            structured in any::<bool>(),
            steps in vec(prop_oneof![1..200_usize, 1..20_000_usize], 1..6),
            drain_between in any::<bool>(),
        ) {
            let mut output = Output::default();
            let mut bytes = Vec::new();
            for (cookie, what) in puts.iter().enumerate() {
                put(&mut output, cookie as u64, structured, what);
                if drain_between && cookie % 3 == 0 {
                    bytes.extend(drain(&mut output, &steps));
                }
            }
            bytes.extend(drain(&mut output, &steps));
            let mut rest = &bytes[..];
            for (cookie, what) in puts.iter().enumerate() {
                let head = &rest[8..16];
                prop_assert_eq!(head, (cookie as u64).to_be_bytes());
                rest = &rest[understand(rest, structured, what)..];
            }
            prop_assert!(rest.is_empty());
        }
    }
}
