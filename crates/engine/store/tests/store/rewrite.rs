//! What was written before something was chosen is written anew, in the background: packed, shared or plain as it is chosen.

use std::time::Duration;

use cairn_env::Env as _;
use cairn_store::{Choice, Needs};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId, ComponentOp, SnapshotId};

use crate::{
    packed::{bytes_of, clear_caches, live, noise, open, reopen, scrubbed},
    shared::{read, settle_all, sing, twins, write_bytes},
    support::{Group, Rig, create, op, zero},
};

const BLOCK: usize = BLOCK_BYTES as usize;

fn set_all(rig: &Rig, group: &Group, choice: Choice) {
    let group = group.clone();
    rig.run(async move { group.choose(choice).await }).expect("it is allowed");
}

fn text(n: u64) -> Vec<u8> {
    (n * 77 + 1).to_le_bytes().repeat(BLOCK / 8)
}

/// Waits until nothing is written anew any more. How many seconds that took.
fn wait(rig: &Rig, group: &Group) -> u64 {
    for second in 0..600 {
        if group.rewriting().is_none() {
            return second;
        }
        let env = rig.host.env();
        rig.run(async move { env.sleep(Duration::from_secs(1)).await });
        rig.check(group);
    }
    panic!("{:?} after 10 minutes", group.rewriting());
}

fn all_of(rig: &Rig, group: &Group, component: u128, blocks: &[Vec<u8>]) {
    clear_caches(rig, group);
    assert!(read(rig, group, component, 0, blocks.len() as u32) == blocks);
    assert_eq!(scrubbed(rig, group), Vec::<u64>::new());
}

/// Goal: what stands there becomes what is chosen, whatever that is, and reads as it was; a start goes on with it; it can be left. Method: text and noise
/// of two components that are equal, and what a snapshot views; packed, shared, unpacked in turn.
#[test]
fn what_stands_there_becomes_as_chosen() {
    sing();
    let rig = Rig::new(431, 24);
    let group = open(&rig, Needs::ALL);
    let (one, other) = twins(&rig, &group, 200);
    let blocks: Vec<Vec<u8>> = (0..60).map(|n| if n % 2 == 0 { text(n) } else { noise(n) }).collect();
    for component in [one, other] {
        for (n, some) in (0u64..).zip(blocks.chunks(6)) {
            rig.append(&group, write_bytes(component, n + 1, n * 6, some.concat())).unwrap();
        }
    }
    settle_all(&rig, &group, &[(one, 10), (other, 10)]);
    // A snapshot views the first six, which the component has otherwise by now.
    let snapshot = SnapshotId(7);
    let cuts = ComponentOp::Cuts { at: op(11), settled: op(10), cuts: vec![(snapshot, op(10))] };
    rig.append(&group, cuts.on(ComponentId(one))).unwrap();
    rig.append(&group, write_bytes(one, 12, 0, blocks[6..12].concat())).unwrap();
    settle_all(&rig, &group, &[(one, 12)]);
    let now = [&blocks[6..12], &blocks[6..]].concat();
    let check = |group: &Group| {
        all_of(&rig, group, one, &now);
        all_of(&rig, group, other, &blocks);
        let view = rig.run(group.read_view(ComponentId(one), snapshot, BlockRange::new(0, 6)));
        assert!(bytes_of(view.expect("it is viewed")) == blocks[..6]);
    };
    assert_eq!(live(&group.stats()), 126 * 4096);
    set_all(&rig, &group, Choice { rewrite: Some(true), ..Choice::packs(true) });
    assert!(group.rewriting().is_some_and(|progress| progress.segments > 0 && !progress.lacks_room));
    let group = reopen(&rig, group);
    assert!(group.rewriting().is_some(), "a start goes on with it");
    wait(&rig, &group);
    assert_eq!(live(&group.stats()), 63 * (4096 + 512));
    check(&group);
    // Equal ones are found among all that was there, those that are packed as well.
    set_all(&rig, &group, Choice { rewrite: Some(true), ..Choice::shares(true) });
    wait(&rig, &group);
    let stats = group.stats();
    println!("{stats:?}");
    assert!(live(&stats) <= 42 * (4096 + 512) && stats.shared_references >= 90, "{} {stats:?}", live(&stats));
    check(&group);
    let group = reopen(&rig, group);
    check(&group);
    assert_eq!((group.rewriting(), live(&group.stats())), (None, live(&stats)));
    // It can be left, and begun anew.
    set_all(&rig, &group, Choice { rewrite: Some(true), ..Choice::packs(false) });
    set_all(&rig, &group, Choice { rewrite: Some(false), ..Choice::default() });
    assert_eq!(group.rewriting(), None);
    set_all(&rig, &group, Choice { rewrite: Some(true), ..Choice::shares(false) });
    wait(&rig, &group);
    // What several refer to stays what it is.
    check(&group);
    assert!(live(&group.stats()) <= live(&stats) + 20 * 4096, "{}", live(&group.stats()));
}

/// Goal: what is packed is unpacked where there is room; where there is none it stays packed, and that is told, until there is. Method: text, as much as
/// fits a group twice over only packed; then most of it goes.
#[test]
fn unpacking_takes_no_room_that_was_promised() {
    sing();
    let rig = Rig::new(432, 20);
    let group = open(&rig, Needs::ALL);
    set_all(&rig, &group, Choice::packs(true));
    rig.append(&group, create(1, 4000, 0)).unwrap();
    let (mut seq, mut written) = (0, 0u64);
    let is_packed = |group: &Group| group.stats().capacity.iter().any(|d| d.charged_bytes > 2 * d.usable_bytes);
    while !is_packed(&group) {
        let some: Vec<u8> = (0..6).flat_map(|n| text(written + n)).collect();
        seq += 1;
        rig.append(&group, write_bytes(1, seq, written, some)).unwrap();
        written += 6;
        if seq % 8 == 0 {
            settle_all(&rig, &group, &[(1, seq)]);
        }
        assert!(written < 4000);
    }
    settle_all(&rig, &group, &[(1, seq)]);
    let packed = live(&group.stats());
    set_all(&rig, &group, Choice { rewrite: Some(true), ..Choice::packs(false) });
    let env = rig.host.env();
    rig.run(async move { env.sleep(Duration::from_secs(90)).await });
    rig.check(&group);
    println!("{packed} bytes packed, {} since: {:?}", live(&group.stats()), group.rewriting());
    assert!(group.rewriting().is_some_and(|progress| progress.lacks_room) && live(&group.stats()) > packed);
    let all: Vec<Vec<u8>> = (0..written).map(text).collect();
    all_of(&rig, &group, 1, &all);
    // Most of it goes: the rest is unpacked.
    rig.append(&group, zero(1, seq + 1, seq, 60, (written - 60) as u32)).unwrap();
    settle_all(&rig, &group, &[(1, seq + 1)]);
    wait(&rig, &group);
    assert_eq!(live(&group.stats()), 60 * 4096);
    all_of(&rig, &group, 1, &all[..60]);
}
