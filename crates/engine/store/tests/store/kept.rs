//! What snapshots keep: told before one is deleted, beside a slow model, and beside what its deletion gave back.

use std::{collections::BTreeMap, time::Duration};

use cairn_env::Env as _;
use cairn_store::StoreErrorKind;
use cairn_types::{BLOCK_BYTES, Change, ComponentId, KeptBlocks, SnapshotId};

use crate::{
    snapshots::{BLOCKS, FIRST, SIZE, cuts, kept_zero, open},
    support::{Group, Rig, create, kind, settle, undo, write, zero},
};

const ID: ComponentId = ComponentId(1);
/// More than one answer tells.
const SHARDS: u64 = 11;
const SHARD_BLOCKS: u64 = 1 << 16;

/// All that is kept, however many answers that takes.
fn kept(rig: &Rig, group: &Group) -> (KeptBlocks, u32) {
    let (mut all, mut from, mut answers) = (KeptBlocks::default(), 0, 0);
    loop {
        let (part, next) = rig.run(group.kept_blocks(ID, from)).expect("it is told");
        all.add(part);
        answers += 1;
        match next {
            Some(next) => {
                assert!(next > from, "it gets on");
                from = next;
            }
            None => return (all, answers),
        }
    }
}

/// Waits until nothing is left to be done.
fn rest(rig: &Rig, group: &Group) {
    rig.drain(group);
    let env = rig.host.env();
    rig.run(async move { env.sleep(Duration::from_secs(3)).await });
    rig.drain(group);
}

/// Blocks that take space, each with the operation that it is of: no two states of a block have the same one.
type Blocks = BTreeMap<u64, u64>;

/// What is expected of the component.
#[derive(Default)]
struct Model {
    seq: u64,
    settled: u64,
    now: Blocks,
    /// Operations that are not settled, with what was there before.
    unsettled: Vec<(u64, Blocks)>,
    /// In their order: snapshot, cut, what it holds.
    snapshots: Vec<(u64, u64, Blocks)>,
    deleted: u64,
}

impl Model {
    fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
    fn settle_all(&mut self, rig: &Rig, group: &Group) {
        self.settled = self.seq;
        self.unsettled.clear();
        rig.append(group, settle(1, self.seq)).expect("it settles");
    }

    /// A change, which leaves no trace where there is no space for it.
    fn change(&mut self, (rig, group): (&Rig, &Group), change: Change, (first, count): (u64, u32), takes_space: bool) {
        if let Err(error) = rig.append(group, change) {
            return assert_eq!(error.kind, StoreErrorKind::NoSpace, "{error}");
        }
        self.unsettled.push((self.seq, self.now.clone()));
        for block in first..first + u64::from(count) {
            match takes_space {
                true => drop(self.now.insert(block, self.seq)),
                false => drop(self.now.remove(&block)),
            }
        }
    }

    fn list(&mut self, rig: &Rig, group: &Group) {
        let seq = self.next();
        let listed: Vec<_> = self.snapshots.iter().map(|(snapshot, cut, _)| (*snapshot, *cut)).collect();
        rig.append(group, cuts(seq, &listed)).expect("it is cut");
        self.settled = seq;
    }

    fn step(&mut self, rig: &Rig, group: &Group) {
        let random = |below: u64| rig.world.random_below(below);
        let first = FIRST + random(BLOCKS);
        let count = (1 + random(12)).min(FIRST + BLOCKS - first) as u32;
        match random(16) {
            0..8 => {
                let (seq, count) = (self.next(), count.min(4));
                self.change((rig, group), write(1, seq, self.settled, first, count), (first, count), true);
            }
            8 | 9 => {
                let seq = self.next();
                self.change((rig, group), zero(1, seq, self.settled, first, count), (first, count), false);
            }
            10 => {
                let seq = self.next();
                self.change((rig, group), kept_zero(seq, self.settled, first, count), (first, count), true);
            }
            11 => rig.drain(group),
            12 => {
                if let Some((seq, before)) = self.unsettled.pop() {
                    self.now = before;
                    rig.append(group, undo(1, seq)).expect("it is undone");
                }
            }
            13 | 14 => {
                self.settle_all(rig, group);
                if self.snapshots.len() < 6 {
                    let cut = self.seq;
                    self.snapshots.push((cut + 1, cut, self.now.clone()));
                    self.list(rig, group);
                }
            }
            _ if !self.snapshots.is_empty() => {
                let goes = random(self.snapshots.len() as u64) as usize;
                self.delete(rig, group, goes);
            }
            _ => {}
        }
    }

    /// Deletes a snapshot. Of three times one is at rest before, and two afterwards: as much came back then as was told.
    fn delete(&mut self, rig: &Rig, group: &Group, goes: usize) {
        self.settle_all(rig, group);
        let is_destaged = self.deleted.is_multiple_of(3);
        if is_destaged {
            rest(rig, group);
        }
        let before = kept(rig, group).0;
        let (snapshot, ..) = self.snapshots.remove(goes);
        self.list(rig, group);
        self.deleted += 1;
        if !self.deleted.is_multiple_of(3) {
            rest(rig, group);
            let after = kept(rig, group).0;
            let told = before.by_one.get(&SnapshotId(snapshot)).copied().unwrap_or(0);
            assert_eq!(after.needed, before.needed - told, "{before:?}");
            // What was in the log then may have become history of the cut that went: the next deletion takes it.
            assert!(!is_destaged || after.unneeded == 0, "{after:?}");
            self.is_charged(group, &after);
        }
    }

    /// What is told, by the sets of states of blocks that snapshots view.
    fn expected(&self) -> (u64, BTreeMap<SnapshotId, u64>) {
        let mut seen: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
        for (snapshot, _, blocks) in &self.snapshots {
            for (block, state) in blocks.iter().filter(|(block, state)| self.now.get(block) != Some(state)) {
                seen.entry((*block, *state)).or_default().push(*snapshot);
            }
        }
        let mut by_one: BTreeMap<SnapshotId, u64> = BTreeMap::new();
        for by in seen.values() {
            if let [only] = by[..] {
                *by_one.entry(SnapshotId(only)).or_default() += 1;
            }
        }
        (seen.len() as u64, by_one)
    }

    fn compare(&mut self, rig: &Rig, group: &Group) {
        self.settle_all(rig, group);
        let told = kept(rig, group).0;
        assert_eq!((told.needed, told.by_one), self.expected());
    }

    /// What is there, and what is kept, is what the store charges for it.
    fn is_charged(&self, group: &Group, kept: &KeptBlocks) {
        let info = group.component(ID).expect("it is here");
        assert_eq!((info.allocated_blocks, info.history_blocks), (self.now.len() as u64, kept.all()));
        let charged = group.stats().charged_bytes / u64::from(BLOCK_BYTES);
        assert_eq!(charged, self.now.len() as u64 + kept.all());
    }
}

/// Goal: what is told of a snapshot before it is deleted is what its deletion gives back, to the block, wherever what it keeps is by then.
/// Method: steps at random beside a model of sets: writes, zeroes of both kinds, undone ones, snapshots taken and deleted in any order, some of
/// it destaged, some not; after each tenth step what is told, after deletions what came back and is charged.
#[test]
fn a_deletion_gives_back_what_was_told() {
    for seed in 600..625 {
        let rig = Rig::new(seed, 150);
        let mut group = open(&rig);
        rig.append(&group, create(1, SIZE, 0)).unwrap();
        let mut model = Model::default();
        for at in 1..=400 {
            model.step(&rig, &group);
            if at % 100 == 0 {
                rig.close(group);
                group = open(&rig);
            }
            if at % 10 == 0 {
                model.compare(&rig, &group);
            }
        }
        rest(&rig, &group);
        rig.check(&group);
        model.is_charged(&group, &kept(&rig, &group).0);
        // With the last one all goes.
        while !model.snapshots.is_empty() {
            model.delete(&rig, &group, 0);
            rest(&rig, &group);
        }
        let nothing = kept(&rig, &group).0;
        assert_eq!(nothing, KeptBlocks::default());
        model.is_charged(&group, &nothing);
    }
}

/// Goal: however much there is, an answer tells a bounded part, and all of them all. Method: a block of each shard, of which one snapshot keeps
/// something; before and after it is destaged.
#[test]
fn it_is_told_in_parts() {
    let rig = Rig::new(626, 40);
    let group = open(&rig);
    rig.append(&group, create(1, SHARDS * SHARD_BLOCKS, 0)).unwrap();
    let write_all = |from: u64| {
        for shard in 0..SHARDS {
            rig.append(&group, write(1, from + shard, from - 1, shard * SHARD_BLOCKS + shard, 1))
                .expect("there is room");
        }
    };
    write_all(1);
    rig.append(&group, cuts(101, &[(7, 100)])).unwrap();
    write_all(201);
    rig.append(&group, settle(1, 300)).unwrap();
    let all = KeptBlocks { needed: SHARDS, by_one: BTreeMap::from([(SnapshotId(7), SHARDS)]), unneeded: 0 };
    let (told, answers) = kept(&rig, &group);
    assert_eq!(told, all);
    rest(&rig, &group);
    let (destaged, again) = kept(&rig, &group);
    assert_eq!(destaged, all);
    assert!(answers > 1 && again > 1, "{answers} and {again} answers");
    assert_eq!(rig.run(group.kept_blocks(ID, u64::MAX)), Ok((KeptBlocks::default(), None)));
    assert_eq!(kind(rig.run(group.kept_blocks(ComponentId(2), 0))), StoreErrorKind::NotFound);
}
