//! Cuts and views: what a component held at any of its snapshots, whatever is written, destaged, cleaned, deleted and opened anew since.

use std::collections::BTreeMap;

use cairn_env::Env;
use cairn_store::{DiskGroup, OpenOptions, StoreErrorKind};
use cairn_types::{BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, SnapshotId};
use futures::future::join_all;

use crate::support::{Group, Rig, create, data, delete, kind, op, open_options, settle, tags, undo, write, zero};

/// Blocks of the component: two shards of the map, of which the ends are used.
pub const SIZE: u64 = (1 << 16) + 400;
/// Where it is written: around the end of the first shard.
pub const FIRST: u64 = (1 << 16) - 100;
pub const BLOCKS: u64 = 200;

/// So few entries wait that every transaction folds some.
pub fn open(rig: &Rig) -> Group {
    let options = OpenOptions { map_waiting_blocks: Some(24), map_page_leaves_max: 2, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    rig.run(async move { DiskGroup::open(env, devices, expect, &options).await }).expect("a sound group opens")
}

pub fn cuts(seq: u64, cuts: &[(u64, u64)]) -> Change {
    let cuts = cuts.iter().map(|&(snapshot, seq)| (SnapshotId(snapshot), op(seq))).collect();
    ComponentOp::Cuts { at: op(seq), settled: op(seq - 1), cuts }.on(ComponentId(1))
}

pub fn kept_zero(seq: u64, settled: u64, first: u64, count: u32) -> Change {
    let blocks = BlockOp::Zero { range: BlockRange::new(first, count), keep_allocated: true };
    let op = ComponentOp::Apply { op: op(seq), settled: op(settled), client: ClientTag::default(), blocks };
    Change::Component { component: ComponentId(1), op, data: data(0, 0) }
}

fn view(rig: &Rig, group: &Group, snapshot: u64, first: u64, count: u32) -> Vec<u64> {
    let read = group.read_view(ComponentId(1), SnapshotId(snapshot), BlockRange::new(first, count));
    tags(rig.run(read).expect("the view reads"))
}

/// Blocks by number, what each was filled with; none is a hole.
type Blocks = BTreeMap<u64, u64>;

/// What is expected of the component.
struct Model {
    seq: u64,
    settled: u64,
    now: Blocks,
    /// Operations that are not settled, with what was there before.
    unsettled: Vec<(u64, Blocks)>,
    /// Snapshot, its cut, what it holds; in their order.
    snapshots: Vec<(u64, u64, Blocks)>,
    refused: u64,
}

impl Model {
    fn new() -> Self {
        Self { seq: 0, settled: 0, now: Blocks::new(), unsettled: Vec::new(), snapshots: Vec::new(), refused: 0 }
    }
    fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
    fn listed(&self) -> Vec<(u64, u64)> {
        self.snapshots.iter().map(|(snapshot, cut, _)| (*snapshot, *cut)).collect()
    }
    fn settle_all(&mut self) {
        self.settled = self.seq;
        self.unsettled.clear();
    }

    /// A change, which leaves no trace where there is no space for it.
    fn change(
        &mut self,
        rig: &Rig,
        group: &Group,
        change: Change,
        seq: u64,
        blocks: impl Iterator<Item = (u64, Option<u64>)>,
    ) {
        match rig.append(group, change) {
            Ok(()) => {
                self.unsettled.push((seq, self.now.clone()));
                for (block, tag) in blocks {
                    match tag {
                        Some(tag) => drop(self.now.insert(block, tag)),
                        None => drop(self.now.remove(&block)),
                    }
                }
            }
            Err(error) => {
                assert_eq!(error.kind, StoreErrorKind::NoSpace, "{error}");
                self.refused += 1;
            }
        }
    }

    /// One step of what may happen.
    fn step(&mut self, rig: &Rig, group: &Group) {
        let random = |below: u64| rig.world.random_below(below);
        let first = FIRST + random(BLOCKS);
        let count = (1 + random(12)).min(FIRST + BLOCKS - first) as u32;
        match random(16) {
            0..8 => {
                let (seq, count) = (self.next(), count.min(4));
                let written = (first..first + u64::from(count)).map(|block| (block, Some(seq)));
                self.change(rig, group, write(1, seq, self.settled, first, count), seq, written);
            }
            8 | 9 => {
                let seq = self.next();
                let zeroed = (first..first + u64::from(count)).map(|block| (block, None));
                self.change(rig, group, zero(1, seq, self.settled, first, count), seq, zeroed);
            }
            10 => {
                let seq = self.next();
                let zeroed = (first..first + u64::from(count)).map(|block| (block, Some(0)));
                self.change(rig, group, kept_zero(seq, self.settled, first, count), seq, zeroed);
            }
            11 => {
                self.settle_all();
                rig.append(group, settle(1, self.seq)).unwrap();
            }
            12 => {
                if let Some((seq, before)) = self.unsettled.pop() {
                    self.now = before;
                    rig.append(group, undo(1, seq)).unwrap();
                }
            }
            13 | 14 => {
                self.settle_all();
                let cut = self.seq;
                let seq = self.next();
                self.settled = seq;
                if self.snapshots.len() < 6 {
                    self.snapshots.push((seq, cut, self.now.clone()));
                }
                rig.append(group, cuts(seq, &self.listed())).unwrap();
            }
            _ => {
                if !self.snapshots.is_empty() {
                    let goes = random(self.snapshots.len() as u64) as usize;
                    let (snapshot, ..) = self.snapshots.remove(goes);
                    let seq = self.next();
                    self.settle_all();
                    rig.append(group, cuts(seq, &self.listed())).unwrap();
                    let gone = group.read_view(ComponentId(1), SnapshotId(snapshot), BlockRange::new(FIRST, 1));
                    assert_eq!(kind(rig.run(gone)), StoreErrorKind::NotFound);
                }
            }
        }
    }

    fn compare(&self, rig: &Rig, group: &Group) {
        let expected = |blocks: &Blocks| -> Vec<u64> {
            (FIRST..FIRST + BLOCKS).map(|block| blocks.get(&block).copied().unwrap_or(0)).collect()
        };
        assert_eq!(rig.read(group, 1, FIRST, BLOCKS as u32), Ok(expected(&self.now)));
        for (snapshot, _, blocks) in &self.snapshots {
            assert_eq!(view(rig, group, *snapshot, FIRST, BLOCKS as u32), expected(blocks), "snapshot {snapshot}");
        }
    }
}

/// Goal: a view is what was there at its cut, wherever it stands by now. Method: steps at random, beside a slow model: writes, zeroes of both
/// kinds, undone and settled ones, snapshots taken and deleted in any order; now and then all of it is destaged, checked, opened anew, and
/// each view compared. Segments are few, so they are cleaned.
#[test]
fn views_are_what_was_there() {
    for seed in 500..530 {
        let rig = Rig::new(seed, 24);
        let mut group = open(&rig);
        rig.append(&group, create(1, SIZE, 0)).unwrap();
        let mut model = Model::new();
        for at in 1..=400 {
            model.step(&rig, &group);
            match at {
                _ if at % 100 == 0 => {
                    rig.close(group);
                    group = open(&rig);
                    rig.check(&group);
                    model.compare(&rig, &group);
                }
                _ if at % 25 == 0 => {
                    rig.drain(&group);
                    rig.check(&group);
                    model.compare(&rig, &group);
                }
                _ if at % 5 == 0 => model.compare(&rig, &group),
                _ => {}
            }
        }
        // Without snapshots nothing is left of them, and without the component nothing at all.
        let seq = model.next();
        model.settle_all();
        model.snapshots.clear();
        rig.append(&group, cuts(seq, &[])).unwrap();
        for _ in 0..6 {
            rig.drain(&group);
        }
        rig.check(&group);
        model.compare(&rig, &group);
        let live: u64 = group.stats().capacity.iter().map(|device| device.live_bytes).sum();
        let there = model.now.values().filter(|tag| **tag > 0).count() as u64;
        assert!(live <= there * 4096, "{live} bytes live, {there} blocks there");
        rig.append(&group, delete(1)).unwrap();
        rig.drain(&group);
        let group = open_again(&rig, group);
        rig.check(&group);
        assert_eq!(group.stats().charged_bytes, 0);
    }
}

fn open_again(rig: &Rig, group: Group) -> Group {
    rig.close(group);
    open(rig)
}

/// Goal: a view is what was there while it is destaged as well. Method: blocks in more leaves than memory keeps, written before and after a
/// cut; while all of it is destaged the view is read all the time, block by block.
#[test]
fn views_hold_while_they_are_destaged() {
    const LEAVES: u64 = 60;
    let rig = Rig::new(531, 40);
    let options = OpenOptions { map_cache_bytes: 0, ..open_options() };
    let (env, devices, expect) = (rig.host.env(), rig.devices(), rig.expect());
    let group = rig.run(async move { DiskGroup::open(env, devices, expect, &options).await }).expect("it opens");
    rig.append(&group, create(1, LEAVES * 64, 0)).unwrap();
    let write_all = |from: u64| {
        (0..LEAVES).for_each(|leaf| rig.append(&group, write(1, from + leaf, from - 1, leaf * 64, 1)).unwrap());
    };
    write_all(1);
    rig.append(&group, cuts(101, &[(7, 100)])).unwrap();
    rig.drain(&group);
    write_all(201);
    rig.append(&group, settle(1, 300)).unwrap();
    let (env, reader) = (rig.host.env(), group.clone());
    let wrong = rig.run(async move {
        let mut drained = Box::pin(reader.drain());
        let mut wrong = Vec::new();
        let mut reads = 0;
        while futures::poll!(&mut drained).is_pending() {
            // Some are planned at each turn of the destage task.
            let blocks: Vec<u64> = (0..LEAVES).map(|leaf| leaf * 64).collect();
            let read = |block: &u64| reader.read_view(ComponentId(1), SnapshotId(7), BlockRange::new(*block, 1));
            for (leaf, found) in (0..).zip(join_all(blocks.iter().map(read)).await) {
                reads += 1;
                let found = tags(found.expect("the view reads"));
                if found != [1 + leaf] {
                    wrong.push((leaf, found));
                }
            }
            env.give_way().await;
        }
        (wrong, reads)
    });
    assert!(wrong.0.is_empty() && wrong.1 > LEAVES, "of {} reads: {:?}", wrong.1, wrong.0);
    rig.check(&group);
}
