//! A copy of a component that was away comes to have all history: what it is brought by another copy, and what it keeps by itself meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use cairn_store::{DiskGroup, OpenOptions};
use cairn_types::{BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, Contents, SnapshotId};

use crate::support::{Group, Rig, create, op, open_options, settle, tags, undo, write, zero};

/// Blocks of each component: two shards of the map, of which the ends are used.
const SIZE: u64 = (1 << 16) + 400;
const FIRST: u64 = (1 << 16) - 100;
const BLOCKS: u64 = 200;
/// What is copied at once.
const REGION_BLOCKS: u64 = 50;
/// What one operation brings: the log is small.
const COPIED_BLOCKS: u64 = 3;
/// The copy that is always there, and the one that comes and goes.
const SOURCE: u128 = 1;
const TARGET: u128 = 2;

/// So few entries wait that every transaction folds some.
fn open(rig: &Rig) -> Group {
    let options = OpenOptions { map_waiting_blocks: Some(24), map_page_leaves_max: 2, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { DiskGroup::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

fn cuts(component: u128, seq: u64, cuts: &[(SnapshotId, u64)]) -> Change {
    let cuts = cuts.iter().map(|&(snapshot, seq)| (snapshot, op(seq))).collect();
    ComponentOp::Cuts { at: op(seq), settled: op(seq - 1), cuts }.on(ComponentId(component))
}

fn parts(contents: Contents) -> (Vec<cairn_types::Run>, bytes::Bytes) {
    (contents.runs, contents.data.concat().into())
}

/// Blocks by number, what each was filled with; none is a hole.
type Blocks = BTreeMap<u64, u64>;

/// What a snapshot is expected to hold.
struct Snapshot {
    id: SnapshotId,
    cut: u64,
    blocks: Blocks,
    /// What was written since, before the next one.
    touched: BTreeSet<u64>,
}

/// Two copies, and what they are expected to hold.
struct Pair {
    rig: Rig,
    group: Group,
    seq: u64,
    settled: u64,
    now: Blocks,
    unsettled: Vec<(u64, Blocks)>,
    snapshots: Vec<Snapshot>,
    /// The target gets nothing.
    is_away: bool,
    /// What was undone meanwhile.
    undone: Vec<u64>,
    /// Entries that came by fills.
    filled: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let rig = Rig::new(seed, 60);
        let group = open(&rig);
        for component in [SOURCE, TARGET] {
            rig.append(&group, create(component, SIZE, 0)).unwrap();
        }
        let (now, unsettled, snapshots, undone) = (Blocks::new(), Vec::new(), Vec::new(), Vec::new());
        Self { rig, group, seq: 0, settled: 0, now, unsettled, snapshots, is_away: false, undone, filled: 0 }
    }

    fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
    fn send(&self, change: impl Fn(u128) -> Change) {
        let both = [SOURCE, TARGET];
        let takes = if self.is_away { &both[..1] } else { &both[..] };
        takes.iter().for_each(|component| self.rig.append(&self.group, change(*component)).expect("there is room"));
    }
    fn settle_all(&mut self) {
        self.settled = self.seq;
        self.unsettled.clear();
        let seq = self.seq;
        self.send(|component| settle(component, seq));
    }
    fn listed(&self) -> Vec<(SnapshotId, u64)> {
        self.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.cut)).collect()
    }

    fn change(&mut self, seq: u64, range: (u64, u32), tag: Option<u64>, change: impl Fn(u128) -> Change) {
        self.send(change);
        self.unsettled.push((seq, self.now.clone()));
        for block in range.0..range.0 + u64::from(range.1) {
            match tag {
                Some(tag) => drop(self.now.insert(block, tag)),
                None => drop(self.now.remove(&block)),
            }
            self.snapshots.last_mut().map(|newest| newest.touched.insert(block));
        }
    }

    fn step(&mut self) {
        let below = |pair: &Self, below: u64| pair.rig.world.random_below(below);
        let first = FIRST + below(self, BLOCKS);
        let count = (1 + below(self, 4)).min(FIRST + BLOCKS - first) as u32;
        match below(self, 16) {
            0..9 => {
                let (seq, settled) = (self.next(), self.settled);
                self.change(seq, (first, count), Some(seq), |c| write(c, seq, settled, first, count));
            }
            9 | 10 => {
                let (seq, settled) = (self.next(), self.settled);
                self.change(seq, (first, count), None, |c| zero(c, seq, settled, first, count));
            }
            11 => self.settle_all(),
            12 => {
                if let Some((seq, before)) = self.unsettled.pop() {
                    self.now = before;
                    self.undone.push(seq);
                    self.send(|component| undo(component, seq));
                }
            }
            13 | 14 => {
                self.settle_all();
                let (cut, seq) = (self.seq, self.next());
                if self.snapshots.len() < 6 {
                    let (blocks, touched) = (self.now.clone(), BTreeSet::new());
                    self.snapshots.push(Snapshot { id: SnapshotId(seq), cut, blocks, touched });
                }
                let listed = self.listed();
                self.send(|component| cuts(component, seq, &listed));
            }
            _ => {
                if !self.snapshots.is_empty() {
                    let goes = below(self, self.snapshots.len() as u64) as usize;
                    let gone = self.snapshots.remove(goes);
                    if goes > 0 {
                        self.snapshots[goes - 1].touched.extend(gone.touched);
                    }
                    self.settle_all();
                    let (seq, listed) = (self.next(), self.listed());
                    self.send(|component| cuts(component, seq, &listed));
                }
            }
        }
    }

    /// The target is back, and gets the list first; then all writes flow to it, while one region after the other is copied.
    fn come_back(&mut self) {
        self.is_away = false;
        for seq in std::mem::take(&mut self.undone) {
            self.rig.append(&self.group, undo(TARGET, seq)).unwrap();
        }
        self.settle_all();
        let (seq, listed) = (self.next(), self.listed());
        self.send(|component| cuts(component, seq, &listed));
        for first in (FIRST..FIRST + BLOCKS).step_by(REGION_BLOCKS as usize) {
            for _ in 0..self.rig.world.random_below(8) {
                self.step();
            }
            self.settle_all();
            self.copy(BlockRange::new(first, REGION_BLOCKS as u32));
        }
        self.undone.clear();
    }

    /// Blocks that one of the copies takes for changed. What the target kept of blocks that were out of date is no true history: it comes too.
    fn changed(&self, between: (SnapshotId, Option<SnapshotId>), region: BlockRange) -> Vec<BlockRange> {
        let mut blocks = BTreeSet::new();
        for component in [SOURCE, TARGET] {
            let changed = self.rig.run(self.group.changed(ComponentId(component), between, region)).unwrap();
            blocks.extend(changed.iter().flat_map(|run| run.first..run.end()));
        }
        let mut runs: Vec<BlockRange> = Vec::new();
        for block in blocks {
            match runs.last_mut().filter(|run| run.end() == block) {
                Some(run) => run.count += 1,
                None => runs.push(BlockRange::new(block, 1)),
            }
        }
        runs
    }

    /// History first, the oldest first of all, then the present.
    fn copy(&mut self, region: BlockRange) {
        let mut between = self.listed().into_iter().map(|(id, _)| id).peekable();
        while let Some(snapshot) = between.next() {
            let next = between.peek().copied();
            for run in self.changed((snapshot, next), region) {
                let read = self.group.read_view(ComponentId(SOURCE), snapshot, run);
                let contents = parts(self.rig.run(read).unwrap());
                let filled = self.group.fill_history(ComponentId(TARGET), snapshot, run.first, contents);
                self.rig.run(filled).unwrap();
                self.filled += u64::from(run.count);
                self.maybe_drain();
            }
        }
        for first in (region.first..region.end()).step_by(COPIED_BLOCKS as usize) {
            let piece = BlockRange::new(first, COPIED_BLOCKS as u32).intersection(region).expect("it begins within");
            let (runs, data) = parts(self.rig.run(self.group.read(ComponentId(SOURCE), piece)).unwrap());
            let (seq, settled) = (self.next(), self.settled);
            let blocks = BlockOp::Copy { first_block: first, runs };
            let op = ComponentOp::Apply { op: op(seq), settled: op(settled), client: ClientTag::default(), blocks };
            self.rig.append(&self.group, Change::Component { component: ComponentId(TARGET), op, data }).unwrap();
        }
        self.maybe_drain();
    }

    fn maybe_drain(&self) {
        if self.rig.world.random_below(6) == 0 {
            self.rig.drain(&self.group);
        }
    }

    fn open_again(self) -> Self {
        self.rig.close(self.group);
        let group = open(&self.rig);
        self.rig.check(&group);
        Self { group, ..self }
    }

    /// Each copy that is in sync holds all, at each snapshot, and tells what changed between any two of them.
    fn compare(&self) {
        let all = BlockRange::new(FIRST, BLOCKS as u32);
        let held = |blocks: &Blocks| -> Vec<u64> {
            (FIRST..FIRST + BLOCKS).map(|block| blocks.get(&block).copied().unwrap_or(0)).collect()
        };
        for component in [SOURCE, TARGET].into_iter().take(if self.is_away { 1 } else { 2 }) {
            let id = ComponentId(component);
            assert_eq!(self.rig.read(&self.group, component, FIRST, BLOCKS as u32), Ok(held(&self.now)));
            for (at, snapshot) in self.snapshots.iter().enumerate() {
                let what = format!("component {component}, snapshot {:?} of {:?}", snapshot.id, self.listed());
                let view = self.rig.run(self.group.read_view(id, snapshot.id, all)).map(tags);
                assert_eq!(view, Ok(held(&snapshot.blocks)), "{what}");
                let allocated = self.rig.run(self.group.allocated_at(id, snapshot.id, all)).unwrap();
                let allocated = allocated.into_iter().filter(|run| run.1).flat_map(|run| run.0.first..run.0.end());
                assert!(allocated.eq(snapshot.blocks.keys().copied()), "{what}: allocated");
                let later = self.snapshots[at + 1..].iter().map(|later| (Some(later.id), &later.blocks));
                let mut touched = BTreeSet::new();
                for ((to, blocks), since) in later.chain([(None, &self.now)]).zip(&self.snapshots[at..]) {
                    touched.extend(&since.touched);
                    let changed = self.rig.run(self.group.changed(id, (snapshot.id, to), all)).unwrap();
                    let changed: BTreeSet<u64> = changed.iter().flat_map(|run| run.first..run.end()).collect();
                    let differ = (FIRST..FIRST + BLOCKS).filter(|b| snapshot.blocks.get(b) != blocks.get(b));
                    let untold: Vec<u64> = differ.filter(|block| !changed.contains(block)).collect();
                    assert!(untold.is_empty(), "{what}, to {to:?}: {untold:?} differ, and it is not told");
                    assert!(changed.is_subset(&touched), "{what}, to {to:?}: told of what nobody wrote");
                }
            }
        }
    }
}

/// Goal: a copy that comes back has all history. Method: two copies and a slow model; one of them is away now and then, with operations that
/// are undone meanwhile, and comes back region by region, while writes, cuts and deletions go on; then each view of both is compared, which of
/// its blocks are allocated, and what changed between any two.
#[test]
fn a_copy_that_was_away_comes_to_have_all_history() {
    let mut filled = 0;
    for seed in 540..565 {
        let mut pair = Pair::new(seed);
        for round in 0..6 {
            (0..20).for_each(|_| pair.step());
            pair.compare();
            pair.is_away = true;
            pair.undone.clear();
            (0..pair.rig.world.random_below(40)).for_each(|_| pair.step());
            pair.maybe_drain();
            pair.come_back();
            pair.compare();
            pair.rig.check(&pair.group);
            pair.rig.drain(&pair.group);
            pair.rig.check(&pair.group);
            pair.compare();
            if round % 2 == 1 {
                pair = pair.open_again();
                pair.compare();
            }
        }
        filled += pair.filled;
    }
    println!("{filled} blocks of history were brought");
    assert!(filled > 1000);
}
