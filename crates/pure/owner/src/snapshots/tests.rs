//! Records and lists of snapshots: what follows what.

use cairn_types::{ComponentOp, Past, SNAPSHOTS_MAX, Snapshot, SnapshotId};

use super::{NotDeleted, NotTaken, check_delete_disk};
use crate::testing::{op, owner};

fn snapshot(n: u64, seq: u64) -> Snapshot {
    Snapshot {
        id: SnapshotId(n),
        name: format!("s-{n}"),
        created_unix_ms: 0,
        size_bytes: 1 << 20,
        cut: op(seq),
        pinned: false,
        locked_until_unix_ms: 0,
        slot_unix_s: None,
    }
}

/// Goal: what a snapshot has is decided in the record that names it, and each list that components get has a higher number than the one
/// before. Method: writes, a snapshot, writes, another one; the first goes.
#[test]
fn the_record_and_the_lists_go_together() {
    let mut state = owner();
    assert_eq!(state.cuts(None), None);
    let (written, ..) = state.begin(0, 0);
    state.end(written);
    let past = state.config_with_past();
    assert!(past.past == Some(Past::default()) && cairn_votes::check_change(state.config(), &past).is_ok());
    state.adopt(past, cairn_types::Csn(8), &Default::default());
    let cut = state.settled();
    let Some(ComponentOp::Cuts { at, settled, cuts }) = state.cuts(Some((SnapshotId(1), cut))) else {
        panic!("a disk with a past has a list")
    };
    assert_eq!((cut, settled, at), (op(1), op(1), op(2)));
    assert_eq!(cuts, [(SnapshotId(1), op(1))]);
    let first = state.config_with_snapshot(snapshot(1, 1));
    assert!(first.decided >= op(1) && cairn_votes::check_change(state.config(), &first).is_ok());
    state.adopt(first, cairn_types::Csn(9), &Default::default());
    assert_eq!(state.check_take("s-1"), Err(NotTaken::Named("s-1".into())));
    assert_eq!(state.check_take("s-2"), Ok(()));
    state.adopt(state.config_with_snapshot(snapshot(2, 2)), cairn_types::Csn(10), &Default::default());
    let without = state.config_without_snapshot(SnapshotId(1)).unwrap();
    assert!(cairn_votes::check_change(state.config(), &without).is_ok());
    state.adopt(without, cairn_types::Csn(11), &Default::default());
    let Some(ComponentOp::Cuts { at: later, cuts, .. }) = state.cuts(None) else { panic!("it has one") };
    assert!(later > at && cuts == [(SnapshotId(2), op(2))]);
}

#[test]
fn a_disk_has_no_more_snapshots_than_there_may_be() {
    let mut state = owner();
    let mut config = state.config_with_past();
    config.past =
        Some(Past { snapshots: (0..SNAPSHOTS_MAX as u64).map(|n| snapshot(n, 0)).collect(), ..Past::default() });
    state.adopt(config, cairn_types::Csn(8), &Default::default());
    assert_eq!(state.check_take("new"), Err(NotTaken::TooMany));
}

/// Goal: a snapshot does not keep a disk from the layout that its policy asks for. Method: a policy of other stripes, before the disk goes over to it.
#[test]
fn a_disk_that_is_to_go_over_takes_no_snapshot() {
    let mut state = owner();
    assert_eq!(state.check_take("new"), Ok(()));
    let mut config = state.config_with_past();
    config.policy.stripe_width += 1;
    state.adopt(config, cairn_types::Csn(8), &Default::default());
    assert_eq!(state.check_take("new"), Err(NotTaken::GoesOver));
}

/// Goal: a lock ends with time, and with nothing else. Method: a snapshot that is locked, one that is not, one of a schedule; moments around the lock's end.
#[test]
fn what_is_locked_goes_with_time_alone() {
    const UNTIL: u64 = 1_795_946_400_000;
    let mut state = owner();
    let mut config = state.config_with_past();
    let slot = UNTIL / 1000 - 3600;
    let of_run =
        Snapshot { name: cairn_types::scheduled_name("hourly", slot), slot_unix_s: Some(slot), ..snapshot(3, 0) };
    let snapshots = vec![snapshot(1, 0), snapshot(2, 0), of_run.clone()];
    config.past = Some(Past { snapshots, goes_back_to: Some(SnapshotId(2)), ..Past::default() });
    state.adopt(config, cairn_types::Csn(8), &Default::default());
    assert_eq!(check_delete_disk(state.config(), Some(0)), Ok(()));
    let locked = state.config_with_lock(SnapshotId(1), UNTIL).expect("it is not locked yet");
    assert!(cairn_votes::check_change(state.config(), &locked).is_ok());
    state.adopt(locked, cairn_types::Csn(9), &Default::default());
    for until in [0, UNTIL - 1, UNTIL] {
        assert_eq!(state.config_with_lock(SnapshotId(1), until), None, "no lock is made shorter");
    }
    assert_eq!(state.config_with_lock(SnapshotId(9), UNTIL), None, "there is none");
    let refused = state.check_delete(SnapshotId(1), Some(UNTIL - 1)).expect_err("it is locked");
    assert_eq!(
        refused.to_string(),
        "snapshot \"s-1\" is locked until 2026-11-29 10:00:00 UTC: nobody can delete it before"
    );
    let disk = check_delete_disk(state.config(), Some(UNTIL - 1)).expect_err("one is locked");
    assert!(disk.to_string().contains("1 of the disk's snapshots are locked"), "{disk}");
    assert_eq!(state.check_delete(SnapshotId(1), Some(UNTIL)), Ok(()));
    assert_eq!(check_delete_disk(state.config(), Some(UNTIL)), Ok(()));
    let unjudged = state.check_delete(SnapshotId(1), None).expect_err("nobody knows whether it is over").to_string();
    assert!(unjudged.contains("judged when more than half of the hosts answer"), "{unjudged}");
    assert!(check_delete_disk(state.config(), None).is_err());
    assert_eq!(state.check_delete(SnapshotId(3), None), Ok(()), "it was never locked");
    assert_eq!(state.check_delete(SnapshotId(2), Some(0)), Err(NotDeleted::GoesBack));
    assert_eq!(state.check_delete(SnapshotId(9), Some(0)), Ok(()), "there is none");
    assert!(state.has_of_run(&of_run.name, slot) && !state.has_of_run(&of_run.name, slot + 3600));
    assert!(!state.has_of_run("s-1", slot), "taken by hand");
}
