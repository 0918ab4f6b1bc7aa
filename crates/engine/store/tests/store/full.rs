//! Full devices and a full log: what must go on, and that space comes back.

use std::time::Duration;

use cairn_env::Env;
use cairn_sim::Fault;
use cairn_store::StoreErrorKind;
use cairn_types::{BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, ObjectId, Run};
use futures::future::join_all;

use crate::support::{Group, Rig, copy, create, delete, kind, op, run_of, settle, undo, write, zero};

/// Scenario 21: reads, overwrites, writes into a reservation, trims, deletes, undo and records go on; space comes back.
#[test]
fn a_full_group_refuses_new_blocks_and_nothing_else() {
    let rig = Rig::new(21, 16);
    let group = rig.open();
    rig.append(&group, create(1, 1000, 0)).unwrap();
    rig.append(&group, create(2, 1000, 0)).unwrap();
    rig.append(&group, create(3, 1000, 20)).unwrap();
    let (mut seq, mut full) = (0, [0u64; 2]);
    for (at, filled) in full.iter_mut().enumerate() {
        for first in (0..1000).step_by(4) {
            seq += 1;
            match rig.append(&group, write(at as u128 + 1, seq, seq - 1, first, 4)) {
                Ok(()) => *filled = first + 4,
                Err(error) => {
                    assert_eq!(error.kind, StoreErrorKind::NoSpace);
                    assert!(error.text.contains("free"), "{error}");
                    break;
                }
            }
        }
    }
    assert!(full.iter().all(|f| (100..240).contains(f)), "{full:?}");
    rig.check(&group);
    let info = |id| group.component(ComponentId(id)).unwrap();
    assert_eq!(info(1).allocated_blocks, full[0]);
    // Reserved space, overwrites, records and undo.
    for first in [0, 8, 16] {
        seq += 1;
        rig.append(&group, write(3, seq, seq - 1, first, 4)).unwrap();
    }
    for round in 0..30 {
        seq += 1;
        rig.append(&group, write(1, seq, seq - 1, round * 3 % 90, 4)).unwrap();
    }
    let last = seq;
    assert_eq!(rig.read(&group, 1, 87, 4), Ok(vec![last; 4]));
    rig.append(&group, Change::Record { object: ObjectId(1), bytes: "r".into() }).unwrap();
    rig.append(&group, undo(1, seq)).unwrap();
    rig.check(&group);
    // A trim makes room once it is settled and destaged.
    seq += 1;
    rig.append(&group, zero(1, seq, seq - 1, 0, 40)).unwrap();
    rig.append(&group, settle(1, seq)).unwrap();
    rig.drain(&group);
    seq += 1;
    rig.append(&group, write(1, seq, seq - 1, 500, 4)).unwrap();
    // And so does a deletion, of everything.
    rig.append(&group, delete(1)).unwrap();
    rig.append(&group, delete(2)).unwrap();
    rig.append(&group, delete(3)).unwrap();
    rig.drain(&group);
    let group = rig.reopen(group);
    rig.check(&group);
    let stats = group.stats();
    assert_eq!((stats.charged_bytes, stats.components), (0, 0));
    assert!(stats.capacity.iter().all(|d| d.live_bytes == 0));
}

/// Random overwrites of a group that is nearly full: cleaning keeps up, and nothing is lost.
#[test]
fn cleaning_keeps_up_with_overwrites_of_a_full_group() {
    let rig = Rig::new(22, 16);
    let group = rig.open();
    rig.append(&group, create(1, 180, 180)).unwrap();
    let mut expected = vec![0; 180];
    for seq in 1..=1500u64 {
        let first = rig.world.random_below(177);
        rig.append(&group, write(1, seq, seq.saturating_sub(3), first, 3)).unwrap();
        expected[first as usize..first as usize + 3].fill(seq);
    }
    assert_eq!(rig.read(&group, 1, 0, 180), Ok(expected.clone()));
    rig.drain(&group);
    rig.check(&group);
    let stats = group.stats();
    assert!(stats.counters.cleaned_segments > 20, "{} segments were cleaned", stats.counters.cleaned_segments);
    let group = rig.reopen(group);
    assert_eq!(rig.read(&group, 1, 0, 180), Ok(expected));
    println!(
        "{} bytes destaged, {} moved by cleaning, {} bytes of metadata rows",
        stats.counters.destaged_bytes, stats.counters.cleaned_bytes, stats.counters.metadata_row_bytes
    );
}

/// The log fills faster than it destages: writes slow down and wait, none fails, and small operations pass them.
#[test]
fn a_full_log_delays_and_never_refuses() {
    let rig = Rig::new(23, 64);
    let group = rig.open();
    rig.append(&group, create(1, 700, 0)).unwrap();
    for name in ["capacity-0", "capacity-1"] {
        rig.host.disk(name).inject(Fault::Slow { times: 2000 });
    }
    let writes: Vec<_> = (1..=150).map(|seq| group.append(write(1, seq, seq - 1, seq * 4, 4))).collect();
    let small = group.append(Change::Record { object: ObjectId(1), bytes: "r".into() });
    let env = rig.host.env();
    let begun = env.now();
    let (small_at, ended) = rig.run(async move {
        let watch = async {
            assert_eq!(small.await, Ok(()));
            env.now().since(begun)
        };
        let (small_at, results) = futures::join!(watch, join_all(writes));
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        (small_at, env.now().since(begun))
    });
    assert!(ended > small_at * 4, "the record came after {small_at:?}, the last write after {ended:?}");
    assert!(ended > Duration::from_millis(10));
    assert_eq!(kind(rig.append(&group, write(1, 999, 0, 699, 2))), StoreErrorKind::Refused);
    rig.drain(&group);
    rig.check(&group);
}

/// Goal: a batch that was thought too large for the rest of a segment, and then was not, stands in the next one all the same.
/// Method: a copy of many holes, whose bound is a page above its size, at every distance from a segment's end. Found by the
/// simulated cluster during a resync (`one_fault_after_the_other`, seed 2).
#[test]
fn a_batch_may_turn_out_smaller_than_the_room_that_it_passed_by() {
    for lead in 0..16 {
        let rig = Rig::new(5, 16);
        let mut group = rig.open();
        rig.append(&group, create(1, 1000, 0)).unwrap();
        for seq in 0..lead {
            rig.append(&group, settle(1, seq)).unwrap();
        }
        let mut runs = vec![run_of(100, 1)];
        runs.extend((1..170).map(|_| Run::Hole { blocks: 1 }));
        rig.append(&group, copy(1, 100, 99, 0, runs)).unwrap();
        rig.append(&group, write(1, 101, 100, 1, 1)).unwrap();
        for _ in 0..2 {
            rig.check(&group);
            assert_eq!(rig.read(&group, 1, 0, 3), Ok(vec![100, 101, 0]), "after {lead} pages");
            group = rig.reopen(group);
        }
    }
}

/// Fills component 1 and destages it. The last operation, and the blocks that it has.
fn fill(rig: &Rig, group: &Group) -> (u64, u64) {
    rig.append(group, create(1, 1000, 0)).unwrap();
    let mut seq = 0;
    while rig.append(group, write(1, seq + 1, seq, seq * 4, 4)).is_ok() {
        seq += 1;
    }
    rig.append(group, settle(1, seq)).unwrap();
    rig.drain(group);
    (seq, seq * 4)
}

/// Goal: what was trimmed is room for what comes next, and is not told as used, however little of it destage has met. Method: a device
/// is filled and all of it trimmed; the next write is the first to say that the trim is settled. As much is written again from the
/// other end, where nothing stood: over what was trimmed a write needs no room.
#[test]
fn what_was_trimmed_is_room_for_the_next_write() {
    let rig = Rig::new(24, 16);
    let group = rig.open();
    let (mut seq, blocks) = fill(&rig, &group);
    let before = group.stats();
    assert_eq!(before.charged_bytes, blocks * 4096);
    seq += 2;
    rig.append(&group, zero(1, seq, seq - 2, 0, 1000)).unwrap();
    let trimmed = group.stats();
    assert_eq!((trimmed.charged_bytes, trimmed.free_bytes), (0, before.charged_bytes + before.free_bytes));
    assert_eq!(group.component(ComponentId(1)).unwrap().allocated_blocks, 0);
    rig.check(&group);
    for done in (0..blocks).step_by(4) {
        seq += 1;
        assert_eq!(
            rig.append(&group, write(1, seq, seq - 1, 996 - done, 4)),
            Ok(()),
            "after {done} of {blocks} blocks"
        );
    }
    rig.check(&group);
    assert_eq!(group.stats().charged_bytes, blocks * 4096);
    let group = rig.reopen(group);
    rig.check(&group);
    assert_eq!(rig.read(&group, 1, 999 - blocks, 5), Ok(vec![0, seq, seq, seq, seq]));
}

/// Goal: nobody waits where destage cannot help, nor for ever where it might. Method: a full device with nothing trimmed; then with a
/// trim that nobody settles, which an undo brings back.
#[test]
fn a_write_waits_for_room_only_as_long_as_some_may_come() {
    let rig = Rig::new(25, 16);
    let group = rig.open();
    let (seq, blocks) = fill(&rig, &group);
    let timed = |operation| {
        let (env, answer) = (rig.host.env(), group.append(operation));
        let begun = env.now();
        rig.run(async move { (answer.await.map_err(|error| error.kind), env.now().since(begun)) })
    };
    let (answer, took) = timed(write(1, seq + 2, seq, blocks, 4));
    assert_eq!(answer, Err(StoreErrorKind::NoSpace));
    assert!(took < Duration::from_millis(1), "{took:?}");
    rig.append(&group, zero(1, seq + 3, seq, 0, 1000)).unwrap();
    let (answer, took) = timed(write(1, seq + 4, seq, blocks, 4));
    assert_eq!(answer, Err(StoreErrorKind::NoSpace));
    assert!((Duration::from_secs(5)..Duration::from_secs(6)).contains(&took), "{took:?}");
    // A promise and a session go before what waits, and so does a deletion.
    for fence in [Group::refuse_waiting, Group::refuse_copies] {
        let waits = group.append(write(1, seq + 5, seq, blocks, 4));
        fence(&group, ComponentId(1));
        assert_eq!(kind(rig.run(waits)), StoreErrorKind::Refused);
    }
    rig.append(&group, undo(1, seq + 3)).unwrap();
    rig.check(&group);
    assert_eq!(group.stats().charged_bytes, blocks * 4096);
    assert_eq!(kind(rig.append(&group, write(1, seq + 6, seq, blocks, 4))), StoreErrorKind::NoSpace);
    rig.append(&group, zero(1, seq + 7, seq, 0, 1000)).unwrap();
    let waits = group.append(write(1, seq + 8, seq, blocks, 4));
    rig.append(&group, delete(1)).unwrap();
    assert_eq!(kind(rig.run(waits)), StoreErrorKind::NotFound);
    rig.drain(&group);
    rig.check(&group);
}

/// Goal: a trim takes what is older, and nothing else. Method: one that comes late, after a write that is destaged.
#[test]
fn a_late_trim_takes_nothing_that_is_newer() {
    let rig = Rig::new(26, 16);
    let group = rig.open();
    rig.append(&group, create(1, 100, 0)).unwrap();
    rig.append(&group, write(1, 2, 0, 6, 4)).unwrap();
    rig.append(&group, write(1, 5, 0, 10, 4)).unwrap();
    rig.append(&group, settle(1, 5)).unwrap();
    rig.drain(&group);
    rig.append(&group, zero(1, 3, 0, 8, 4)).unwrap();
    rig.drain(&group);
    rig.check(&group);
    assert_eq!(rig.read(&group, 1, 5, 10), Ok(vec![0, 2, 2, 0, 0, 5, 5, 5, 5, 0]));
}

/// Goal: zeroes that keep their space keep it on a copy that is filled from them. Method: what is read of them, in the log and destaged,
/// is copied to another component.
#[test]
fn kept_zeroes_keep_their_space_on_a_copy() {
    let rig = Rig::new(27, 32);
    let group = rig.open();
    rig.append(&group, create(1, 200, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 0, 4)).unwrap();
    let blocks = BlockOp::Zero { range: BlockRange::new(2, 100), keep_allocated: true };
    let (component, client) = (ComponentId(1), ClientTag::default());
    let kept = ComponentOp::Apply { op: op(2), settled: op(1), client, blocks };
    rig.append(&group, kept.on(component)).unwrap();
    rig.append(&group, settle(1, 2)).unwrap();
    for copy in [2u128, 3] {
        rig.append(&group, create(copy, 200, 0)).unwrap();
        for settled in 0..40u64 {
            let first_block = settled * 5;
            let contents = rig.run(group.read(component, BlockRange::new(first_block, 5))).unwrap();
            let blocks = BlockOp::Copy { first_block, runs: contents.runs };
            let op = ComponentOp::Apply { op: op(settled + 1), settled: op(settled), client, blocks };
            let data = contents.data.concat().into();
            rig.append(&group, Change::Component { component: ComponentId(copy), op, data }).unwrap();
        }
        let allocated = |id| group.component(ComponentId(id)).unwrap().allocated_blocks;
        assert_eq!((allocated(1), allocated(copy)), (102, 102));
        assert_eq!(rig.read(&group, copy, 0, 5), Ok(vec![1, 1, 0, 0, 0]));
        rig.drain(&group);
    }
    rig.check(&group);
}
