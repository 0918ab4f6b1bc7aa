//! The workload: operations as an owner would send them, made from a seed, a few in flight at a time.
//!
//! It writes, overwrites, unmaps, writes zeroes, copies, undoes, settles, keeps records, takes and deletes snapshots, brings their history, makes and
//! deletes components. Now and then it waits until the group is drained. Devices are so small that destage and cleaning never rest.

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn_env::PageBuf;
use cairn_format::crc32c;
use cairn_sim::Rng;
use cairn_types::{
    BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, Crcs, Epoch, HostId, Incarnation, ObjectId, OpId,
    Run, SnapshotId,
};

/// Blocks of a strip, where a component is written in rows: every third strip is parity.
const STRIP_BLOCKS: u64 = 3;
/// Blocks of each component.
pub const COMPONENT_BLOCKS: u64 = 200;
const COMPONENTS: u64 = 3;
const BLOCK: usize = cairn_types::BLOCK_BYTES as usize;

/// One thing that the workload does.
#[derive(Debug, Clone)]
pub enum Step {
    Append(Change),
    /// Waits for everything that is in flight.
    Barrier,
    Drain,
    ClearCaches,
    /// Another copy brings what this one has already, of one of its snapshots.
    Fill {
        component: ComponentId,
        nth: usize,
        range: BlockRange,
    },
}

pub fn op(seq: u64) -> OpId {
    let epoch = Epoch { number: 1 + seq / 100, host: HostId(1), incarnation: Incarnation(1) };
    OpId { epoch, seq }
}

/// What a group does with the blocks of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    AsTheyAre,
    Packed,
    /// Equal ones once, packed or not.
    Once,
    /// The same; what is there is written anew now and then.
    OnceAnew,
}

impl Stores {
    /// Steps between two at which it is chosen anew.
    pub fn chosen_every(self) -> usize {
        if self == Self::Once { 25 } else { 40 }
    }
}

/// Of the tags of a group that packs: its blocks hold zeroes, noise, words that pack little or well.
const PACKS: u64 = 1 << 20;
/// Of the tags of a group that stores equal blocks once: what a block holds is told by its contents, of which there are few, not by its place.
const SHARES: u64 = 1 << 21;
/// Of these, contents that one write has alone.
const ALONE: u64 = 1 << 18;
/// Contents that many blocks have.
const POOL: u64 = 12;

/// What tells what a block of a write holds: in a group that stores equal blocks once its contents, else the tag of the write.
pub fn told(tag: u64, block: u64) -> u64 {
    if tag & SHARES == 0 {
        return tag;
    }
    let n = Rng::new(tag.wrapping_mul(977) ^ block).next_u64();
    match n % 4 {
        0 => SHARES | ALONE | (tag & 0x7FF) << 7 | (block % 128),
        _ => SHARES | (n / 4 % POOL),
    }
}

/// Whether a block is zeroes, by what tells it.
pub fn is_zero(told: u64) -> bool {
    told == SHARES || told & PACKS != 0 && told.is_multiple_of(7)
}

/// The words of one block of one write: the first three name its place, so that a block that turns up elsewhere shows.
fn words(tag: u64, component: ComponentId, block: u64) -> Vec<u64> {
    if is_zero(tag) {
        return vec![0; BLOCK / 8];
    }
    if tag & SHARES != 0 {
        return shared_words(tag);
    }
    let mut rng = Rng::new(tag.wrapping_mul(1_000_003) ^ block);
    let rest = rng.next_u64();
    let head = [tag, component.0 as u64, block];
    let word = |at: u64| match tag & PACKS {
        PACKS if tag.is_multiple_of(3) => rng.next_u64(),
        PACKS if tag.is_multiple_of(2) => rest,
        _ => rest ^ at,
    };
    head.into_iter().chain((0..BLOCK as u64 / 8 - 3).map(word)).collect()
}

/// Contents that may be anywhere.
fn shared_words(told: u64) -> Vec<u64> {
    let mut rng = Rng::new(told.wrapping_mul(1_000_003));
    let rest = rng.next_u64();
    let word = |at: u64| match told % 4 {
        0 | 1 => rng.next_u64(),
        2 => rest,
        _ => rest ^ (at % 90),
    };
    [told].into_iter().chain((0..BLOCK as u64 / 8 - 1).map(word)).collect()
}

fn block_bytes(tag: u64, component: ComponentId, block: u64) -> Vec<u8> {
    words(told(tag, block), component, block).into_iter().flat_map(u64::to_le_bytes).collect()
}

/// What tells what these bytes are; none when they are not wholly that, for that place.
pub fn told_by(bytes: &[u8], component: ComponentId, block: u64) -> Option<u64> {
    let (found, _) = bytes.as_chunks::<8>();
    let is_it = |told: &u64| {
        words(*told, component, block).into_iter().zip(found).all(|(word, bytes)| word == u64::from_le_bytes(*bytes))
    };
    Some(u64::from_le_bytes(found[0])).filter(is_it)
}

/// A front end's request, by one of few slots: most answer earlier ones.
fn request(tag: u64) -> ClientTag {
    ClientTag::request(7, (tag % 5) as u32, (tag / 5) as u32)
}

/// The bytes of a write. Images of earlier builds are full of them (`formats`): they stay as they are.
pub fn data(tag: u64, component: ComponentId, range: BlockRange) -> (Crcs, Bytes) {
    let blocks: Vec<Vec<u8>> = (range.first..range.end()).map(|block| block_bytes(tag, component, block)).collect();
    let crcs = blocks.iter().map(|block| crc32c(block)).collect();
    (crcs, PageBuf::copy_of(&blocks.concat()).freeze())
}

/// What a block of parity says of its row: of each operation something else.
pub fn row_check(tag: u64, block: u64) -> u32 {
    Rng::new(tag << 16 ^ block).next_u64() as u32 | 1
}

/// Data, and in every third strip parity.
fn rows_of(tag: u64, range: BlockRange, crcs: &[u32]) -> Vec<Run> {
    let is_parity = |block: u64| block / STRIP_BLOCKS % 3 == 2;
    let blocks: Vec<(u64, u32)> = (range.first..range.end()).zip(crcs.iter().copied()).collect();
    let run = |some: &[(u64, u32)]| {
        let crcs = some.iter().map(|(_, crc)| *crc).collect();
        match is_parity(some[0].0) {
            true => Run::Parity { crcs, row_checks: some.iter().map(|(block, _)| row_check(tag, *block)).collect() },
            false => Run::Data { crcs },
        }
    };
    blocks.chunk_by(|a, b| is_parity(a.0) == is_parity(b.0)).map(run).collect()
}

struct Sent {
    next: u64,
    settled: u64,
    /// Not settled, not undone.
    open: Vec<u64>,
    /// Snapshots, each with its cut.
    cuts: Vec<(SnapshotId, OpId)>,
}

/// The slot of requests whose operations are undone before they come.
const UNDONE_SLOT: u32 = 5;

/// Snapshots of a component, at most.
const SNAPSHOTS: usize = 4;

/// The step of a script at which its group is allowed all that this build knows.
pub fn allowed_from(length: usize) -> usize {
    length / 3
}

/// Makes the workload of a seed.
pub struct Script {
    rng: Rng,
    components: BTreeMap<ComponentId, Sent>,
    made: u64,
    /// What the copies since the last barrier fill.
    copies: Vec<(ComponentId, BlockRange)>,
    /// What the writes since then wrote.
    writes: Vec<(ComponentId, BlockRange)>,
    /// Their requests.
    requests: Vec<(ComponentId, ClientTag)>,
    steps: Vec<Step>,
    /// From this step on every third component is written in rows: the group may have parity then.
    rows_from: usize,
    stores: Stores,
}

/// The tag of what step `at` of a script appends.
pub fn tag_at(at: usize, stores: Stores) -> u64 {
    let flag = match stores {
        Stores::AsTheyAre => 0,
        Stores::Packed => PACKS,
        Stores::Once | Stores::OnceAnew => SHARES,
    };
    at as u64 | flag
}

impl Script {
    pub fn steps(seed: u64, length: usize, stores: Stores) -> Vec<Step> {
        let mut script = Self {
            rng: Rng::new(seed),
            components: BTreeMap::new(),
            made: 0,
            copies: Vec::new(),
            writes: Vec::new(),
            requests: Vec::new(),
            steps: Vec::new(),
            rows_from: allowed_from(length),
            stores,
        };
        for _ in 0..COMPONENTS {
            script.create();
        }
        while script.steps.len() < length {
            script.next();
        }
        script.steps.push(Step::Barrier);
        script.steps
    }

    /// The tag of an appended operation: its place among the steps.
    fn tag(&self) -> u64 {
        tag_at(self.steps.len(), self.stores)
    }

    fn push(&mut self, change: Change) {
        self.steps.push(Step::Append(change));
    }

    fn apply(
        &mut self,
        component: ComponentId,
        (op, settled): (OpId, OpId),
        client: ClientTag,
        blocks: BlockOp,
        data: Bytes,
    ) {
        let op = ComponentOp::Apply { op, settled, client, blocks };
        self.push(Change::Component { component, op, data });
    }

    /// The members that an operation on rows concerns; none where the component is a mirror's.
    fn members_of(&self, component: ComponentId) -> Option<u16> {
        let in_rows = component.0.is_multiple_of(3) && self.steps.len() > self.rows_from;
        in_rows.then(|| 1 << (self.tag() % 5) | 1 << 9)
    }

    /// Every third component gets snapshots, once the group may have cuts.
    fn has_snapshots(&self, component: ComponentId) -> bool {
        component.0 % 3 == 1 && self.steps.len() > self.rows_from
    }

    /// Takes a snapshot, or deletes one: nothing is under way, and all before is decided.
    fn cut(&mut self, component: ComponentId) {
        self.barrier();
        let (takes, which) = (self.rng.one_in(2), self.rng.below(SNAPSHOTS as u64) as usize);
        let snapshot = SnapshotId(self.tag());
        let sent = self.components.get_mut(&component).expect("a known one");
        (sent.settled, sent.next) = (sent.next - 1, sent.next + 1);
        sent.open.clear();
        let (settled, at) = (op(sent.settled), op(sent.settled + 1));
        if takes && sent.cuts.len() < SNAPSHOTS {
            sent.cuts.push((snapshot, settled));
        } else if which < sent.cuts.len() {
            sent.cuts.remove(which);
        }
        let cuts = sent.cuts.clone();
        self.push(ComponentOp::Cuts { at, settled, cuts }.on(component));
        self.barrier();
    }

    /// Brings history: nothing is under way.
    fn fill(&mut self, component: ComponentId) {
        self.barrier();
        let (nth, range) = (self.rng.below(SNAPSHOTS as u64) as usize, self.range());
        self.steps.push(Step::Fill { component, nth, range });
    }

    fn barrier(&mut self) {
        self.copies.clear();
        self.writes.clear();
        self.requests.clear();
        self.steps.push(Step::Barrier);
    }

    /// Waits when a copy of these blocks may be under way: owners lock what they copy, and a copy's data, which passes the log by,
    /// may come to be after a later write's (docs/internals/store.md, limits).
    fn wait_for_copies(&mut self, component: ComponentId, range: BlockRange) {
        if self.copies.iter().any(|(of, copied)| *of == component && copied.overlaps(range)) {
            self.barrier();
        }
    }

    fn create(&mut self) {
        self.made += 1;
        let component = ComponentId(u128::from(self.made));
        let sent = Sent { next: 1, settled: 0, open: Vec::new(), cuts: Vec::new() };
        self.components.insert(component, sent);
        let reserved_blocks = [0, 20][self.rng.below(2) as usize];
        self.push(Change::CreateComponent {
            component,
            object: ObjectId(u128::from(self.made) << 64),
            size_blocks: COMPONENT_BLOCKS,
            reserved_blocks,
        });
    }

    fn next(&mut self) {
        let nth = self.rng.below(self.components.len() as u64) as usize;
        let component = *self.components.keys().nth(nth).expect("within");
        let dice = self.rng.below(100);
        match dice {
            0..8 if self.has_snapshots(component) => self.cut(component),
            0..50 => self.write(component),
            50..58 => self.zero(component),
            // What a copy replaces is no history: an owner brings that along, which this script does not.
            58..60 if self.has_snapshots(component) => self.write(component),
            60..63 if self.has_snapshots(component) => self.fill(component),
            58..63 => self.copy(component),
            63..69 => self.undo(component),
            69..80 => self.settle(component),
            80..85 => self.late(component),
            85..90 => self.record(),
            90..98 => self.barrier(),
            98 => self.steps.push(Step::ClearCaches),
            _ if self.rng.one_in(3) => {
                self.components.remove(&component);
                self.push(Change::DeleteComponent { component });
                self.create();
            }
            _ => self.steps.push(Step::Drain),
        }
    }

    /// Mostly small writes; hot blocks, so that some are overwritten often and others stay.
    fn range(&mut self) -> BlockRange {
        let count = [1, 1, 1, 2, 4, 7][self.rng.below(6) as usize];
        let spread = [20, COMPONENT_BLOCKS][self.rng.below(2) as usize];
        let first = self.rng.below(spread - count);
        BlockRange::new(first, count as u32)
    }

    fn number(&mut self, component: ComponentId) -> (OpId, OpId) {
        let sent = self.components.get_mut(&component).expect("a known one");
        let seq = sent.next;
        sent.next += 1;
        sent.open.push(seq);
        // Some writes carry the watermark, and most leave it where it was. What is not settled shares nothing.
        if self.rng.one_in(if tag_at(0, self.stores) == SHARES { 2 } else { 4 }) {
            self.raise_settled(component, seq - 1);
        }
        (op(seq), op(self.components[&component].settled))
    }

    fn raise_settled(&mut self, component: ComponentId, below: u64) {
        let sent = self.components.get_mut(&component).expect("a known one");
        let lag = self.rng.below(6);
        sent.settled = sent.settled.max(below.saturating_sub(lag));
        let settled = sent.settled;
        sent.open.retain(|seq| *seq > settled);
    }

    fn write_at(&mut self, component: ComponentId, (op, settled): (OpId, OpId), client: ClientTag, range: BlockRange) {
        self.wait_for_copies(component, range);
        self.writes.push((component, range));
        let tag = self.tag();
        self.requests.push((component, client));
        let (crcs, data) = data(tag, component, range);
        let first_block = range.first;
        let blocks = match self.members_of(component) {
            None => BlockOp::Write { first_block, crcs },
            Some(members) => BlockOp::Rows { members, first_block, runs: rows_of(tag, range, &crcs) },
        };
        self.apply(component, (op, settled), client, blocks, data);
    }

    fn write(&mut self, component: ComponentId) {
        let numbers = self.number(component);
        let range = self.range();
        self.write_at(component, numbers, request(self.tag()), range);
    }

    /// Two writes arrive in the wrong order. Not of the same blocks: owners lock what they write, and a late one of those may stand
    /// in a log whose earlier part was left behind (docs/internals/store.md, limits).
    fn late(&mut self, component: ComponentId) {
        let (first, settled) = self.number(component);
        let sent = self.components.get_mut(&component).expect("a known one");
        let second = op(sent.next);
        sent.open.push(sent.next);
        sent.next += 1;
        let (range, mut late) = (self.range(), self.range());
        if late.overlaps(range) {
            let after = range.end() + u64::from(late.count) <= COMPONENT_BLOCKS;
            late.first = if after { range.end() } else { range.first - u64::from(late.count) };
        }
        self.write_at(component, (second, settled), request(self.tag()), range);
        self.write_at(component, (first, settled), request(self.tag()), late);
    }

    fn zero(&mut self, component: ComponentId) {
        let (op, settled) = self.number(component);
        let mut range = self.range();
        range.count = (range.count * 5).min((COMPONENT_BLOCKS - range.first) as u32);
        self.wait_for_copies(component, range);
        // In a full log a zero overtakes writes: owners lock what they write, so none of these blocks is under way then. It may come to be in a
        // part of the log that is left behind before the write's is.
        if self.writes.iter().any(|(of, written)| *of == component && written.overlaps(range)) {
            self.barrier();
        }
        // A slot carries one request at a time: this one does not overtake the one before it.
        let before = request(self.tag()).before();
        if self.requests.iter().any(|(of, request)| *of == component && before.contains(request)) {
            self.barrier();
        }
        let client = request(self.tag());
        let keep_allocated = self.rng.one_in(3);
        let blocks = match self.members_of(component) {
            None => BlockOp::Zero { range, keep_allocated },
            Some(members) => BlockOp::ZeroRows { members, range, keep_allocated },
        };
        self.apply(component, (op, settled), client, blocks, Bytes::new());
    }

    fn copy(&mut self, component: ComponentId) {
        let (op, settled) = self.number(component);
        let start = self.rng.below(COMPONENT_BLOCKS - 12);
        let range = BlockRange::new(start, 12);
        self.wait_for_copies(component, range);
        self.copies.push((component, range));
        let tag = self.tag();
        let (head, head_data) = data(tag, component, BlockRange::new(start, 3));
        let (tail, tail_data) = data(tag, component, BlockRange::new(start + 9, 2));
        // Two blocks that their source could not give; those go through the log, the others past it.
        let marks = self.rng.one_in(3).then(|| Run::Bad { crcs: vec![tag as u32; 2].into() });
        let hole = Run::Hole { blocks: if marks.is_some() { 4 } else { 6 } };
        let in_rows = self.members_of(component).is_some();
        let filled = |range: BlockRange, crcs: Crcs| match in_rows {
            true => rows_of(tag, range, &crcs),
            false => vec![Run::Data { crcs }],
        };
        let mut runs = filled(BlockRange::new(start, 3), head);
        runs.extend([hole].into_iter().chain(marks));
        runs.extend(filled(BlockRange::new(start + 9, 2), tail));
        let blocks = BlockOp::Copy { first_block: start, runs };
        let data = PageBuf::copy_of(&[head_data, tail_data].concat()).freeze();
        self.apply(component, (op, settled), ClientTag::default(), blocks, data);
        // As at the end of a resync: requests that were carried out elsewhere. No operation of this component has their number.
        let elsewhere =
            |n| (ClientTag::request(9, n, tag as u32), OpId { seq: (1 << 40) + tag * 4 + u64::from(n), ..op });
        self.push(ComponentOp::Remember { clients: (0..3).map(elsewhere).collect() }.on(component));
    }

    fn undo(&mut self, component: ComponentId) {
        let sent = self.components.get_mut(&component).expect("a known one");
        if self.rng.one_in(5) {
            // It comes before what it undoes.
            let undone = op(sent.next);
            sent.next += 1;
            let settled = op(sent.settled);
            self.push(ComponentOp::Undo { ops: vec![undone] }.on(component));
            // Of a slot that carries nothing else. It may be refused before it reaches the log or after that, and only then its word
            // on what the slot carried before counts.
            let client = ClientTag::request(7, UNDONE_SLOT, self.tag() as u32);
            let range = self.range();
            return self.write_at(component, (undone, settled), client, range);
        }
        // Newest first, as an owner does it.
        if let Some(seq) = sent.open.pop() {
            self.push(ComponentOp::Undo { ops: vec![op(seq)] }.on(component));
        }
    }

    fn settle(&mut self, component: ComponentId) {
        let issued = self.components[&component].next - 1;
        self.raise_settled(component, issued);
        let upto = op(self.components[&component].settled);
        self.push(ComponentOp::Settle { upto }.on(component));
    }

    fn record(&mut self) {
        let object = ObjectId(u128::from(self.rng.between(1, 4)) << 64);
        let bytes = if self.rng.one_in(6) {
            Bytes::new()
        } else {
            let len = self.rng.between(1, 900) as usize;
            Bytes::from(vec![self.tag() as u8; len])
        };
        self.push(Change::Record { object, bytes });
    }
}
