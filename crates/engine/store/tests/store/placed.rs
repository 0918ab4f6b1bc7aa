//! Large copies, which go past the log: what they cost it, that nothing is lost or left, and when they go through it after all.

use std::time::Duration;

use cairn_env::Env;
use cairn_sim::Fault;
use cairn_store::StoreErrorKind;
use cairn_types::{Change, ComponentId, Run};
use futures::future::{join, join_all};

use crate::support::{self, Rig, create, delete, kind, run_of, settle, write};

/// Blocks of the first piece of a copy that goes past the log.
const BLOCKS: u32 = 5;

/// Two runs with a hole between them: `BLOCKS` blocks of data at `first`, a hole of 2, a block.
fn copy(component: u128, seq: u64, settled: u64, first: u64) -> Change {
    let runs = vec![run_of(seq, BLOCKS), Run::Hole { blocks: 2 }, run_of(seq, 1)];
    support::copy(component, seq, settled, first, runs)
}

/// What a copy of `seq` over blocks of `before` leaves from its first block on.
fn copied(seq: u64) -> Vec<u64> {
    let mut tags = vec![seq; BLOCKS as usize];
    tags.extend([0, 0, seq]);
    tags
}

const SPAN: u32 = BLOCKS + 3;

#[test]
fn a_large_copy_goes_past_the_log_and_survives() {
    let rig = Rig::with_log(31, 64, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 1000, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 10, 4)).unwrap();
    let before = group.stats().counters;
    rig.append(&group, copy(1, 2, 1, 5)).unwrap();
    let after = group.stats().counters;
    let data_bytes = u64::from(BLOCKS + 1) * 4096;
    assert_eq!(after.resync_in_bytes - before.resync_in_bytes, data_bytes);
    assert_eq!(after.log_write_bytes - before.log_write_bytes, 4096, "a record, and no data");
    let direct = after.capacity_write_resync_bytes;
    assert!((data_bytes + 4096..data_bytes + 3 * 4096).contains(&direct), "{direct} bytes");
    assert_eq!(after.capacity_write_destage_bytes + after.capacity_write_clean_bytes, 0);
    let seen = |group: &_| rig.read(group, 1, 5, SPAN);
    assert_eq!(seen(&group), Ok(copied(2)));
    rig.check(&group);
    assert_eq!(group.window(ComponentId(1)).len(), 1, "not settled");
    let group = rig.reopen(group);
    assert_eq!(seen(&group), Ok(copied(2)));
    rig.check(&group);
    // Destage hands it to the map without a byte of it.
    rig.append(&group, settle(1, 2)).unwrap();
    rig.drain(&group);
    rig.check(&group);
    assert_eq!(group.stats().counters.destaged_bytes, 4096, "what the copy left of the write");
    let group = rig.reopen(group);
    assert_eq!(seen(&group), Ok(copied(2)));
    assert_eq!(
        group.component(ComponentId(1)).unwrap().allocated_blocks,
        u64::from(BLOCKS) + 2,
        "and a block of the write"
    );
    rig.append(&group, delete(1)).unwrap();
    rig.drain(&group);
    assert!(group.stats().capacity.iter().all(|device| device.live_bytes == 0));
    rig.check(&group);
}

/// Undone before its blocks are on the medium, after, and while destage holds it apart: nothing of it is left.
#[test]
fn an_undone_copy_leaves_nothing() {
    let rig = Rig::with_log(32, 64, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 1000, 0)).unwrap();
    rig.append(&group, write(1, 1, 0, 0, 4)).unwrap();
    rig.append(&group, settle(1, 1)).unwrap();
    let undo = |seq| support::undo(1, seq);
    let (late, undone) = (group.append(copy(1, 2, 1, 0)), group.append(undo(2)));
    let (late, undone) = rig.run(join(late, undone));
    assert_eq!((kind(late), undone), (StoreErrorKind::Undone, Ok(())));
    rig.append(&group, copy(1, 3, 1, 0)).unwrap();
    rig.append(&group, undo(3)).unwrap();
    rig.append(&group, copy(1, 4, 1, 0)).unwrap();
    rig.drain(&group);
    assert_eq!(rig.read(&group, 1, 0, SPAN), Ok(copied(4)));
    rig.check(&group);
    rig.append(&group, undo(4)).unwrap();
    let mut left = vec![1; 4];
    left.resize(SPAN as usize, 0);
    let group = rig.reopen(group);
    assert_eq!(rig.read(&group, 1, 0, SPAN), Ok(left));
    rig.drain(&group);
    rig.check(&group);
    let live: u64 = group.stats().capacity.iter().map(|device| device.live_bytes).sum();
    assert_eq!(live, 4 * 4096);
}

/// A promise to another owner comes first: what was on its way to the capacity tier is refused, also where its blocks are written.
#[test]
fn a_copy_does_not_follow_a_promise() {
    let rig = Rig::with_log(33, 64, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 1000, 0)).unwrap();
    for pause_us in [0, 20, 60, 150] {
        let (again, env) = (group.clone(), rig.host.env());
        let copies = join_all((0..4).map(|n| group.append(copy(1, 2 + n, 0, 40 * n))));
        let answers = rig.run(async move {
            let fence = async {
                env.sleep(Duration::from_micros(pause_us)).await;
                let under_way = again.stats().counters.resync_in_operations;
                again.refuse_waiting(ComponentId(1));
                under_way
            };
            join(copies, fence).await
        });
        let (answers, logged) = answers;
        let refused =
            answers.iter().filter(|a| matches!(a, Err(e) if e.kind == StoreErrorKind::Refused)).count() as u64;
        let taken = answers.iter().filter(|a| a.is_ok()).count() as u64;
        assert_eq!(refused + taken, 4, "{answers:?}");
        assert!(pause_us > 0 || refused == 4, "{refused} refused at once, {logged} logged");
        rig.check(&group);
        if taken > 0 {
            break;
        }
    }
    rig.drain(&group);
    rig.check(&group);
}

/// Where what is free would not hold the log as well, copies go through it; all is right either way, again and again over the same
/// blocks.
#[test]
fn copies_of_a_nearly_full_group_go_through_the_log() {
    let rig = Rig::with_log(34, 16, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 150, 150)).unwrap();
    let mut last = [0; 7];
    for seq in 1..=200u64 {
        let at = (seq * 5 % 7) as usize;
        rig.append(&group, copy(1, seq, seq - 1, at as u64 * 20)).unwrap();
        last[at] = seq;
        if seq % 50 == 0 {
            rig.check(&group);
        }
    }
    let counters = group.stats().counters;
    let direct = counters.capacity_write_resync_bytes;
    assert!(
        direct > 0 && direct < counters.resync_in_bytes,
        "{direct} of {} bytes past the log",
        counters.resync_in_bytes
    );
    let group = rig.reopen(group);
    rig.drain(&group);
    rig.check(&group);
    for (at, seq) in last.into_iter().enumerate() {
        assert_eq!(rig.read(&group, 1, at as u64 * 20, SPAN), Ok(copied(seq)));
    }
}

/// A log that holds nothing but names of slots is destaged before it is half full, and then its segments come back.
#[test]
fn what_records_name_is_handed_over_in_time() {
    let rig = Rig::with_log(35, 64, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 2000, 0)).unwrap();
    for seq in 1..=30u64 {
        rig.append(&group, copy(1, seq, seq - 1, seq * 20)).unwrap();
    }
    let env = rig.host.env();
    rig.run(async move { env.sleep(Duration::from_millis(200)).await });
    let stats = group.stats();
    assert!(stats.counters.destage_rounds > 0, "log {} of {} used", stats.log_used_bytes, stats.log_bytes);
    assert!(stats.capacity.iter().any(|device| device.live_bytes > 0));
    rig.check(&group);
    for seq in 1..=30 {
        assert_eq!(rig.read(&group, 1, seq * 20, SPAN), Ok(copied(seq)));
    }
}

/// A capacity device that takes no writes loses its components, and the copy is refused like any write there.
#[test]
fn a_device_that_fails_under_a_copy_loses_its_components() {
    let rig = Rig::with_log(36, 64, 1 << 20);
    let group = rig.open();
    rig.append(&group, create(1, 1000, 0)).unwrap();
    let device = group.component(ComponentId(1)).unwrap().device;
    rig.host.disk(&format!("capacity-{device}")).inject(Fault::WriteErrorNext);
    assert_eq!(kind(rig.append(&group, copy(1, 1, 0, 0))), StoreErrorKind::Lost);
    assert_eq!(group.lost_components(), [ComponentId(1)]);
    rig.append(&group, create(2, 100, 0)).unwrap();
    rig.append(&group, copy(2, 1, 0, 0)).unwrap();
    rig.drain(&group);
    rig.check(&group);
}
