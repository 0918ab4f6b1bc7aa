//! Records and lists of snapshots: what follows what.

use cairn_types::{ComponentOp, Past, SNAPSHOTS_MAX, Snapshot, SnapshotId};

use super::NotTaken;
use crate::testing::{op, owner};

fn snapshot(n: u64, seq: u64) -> Snapshot {
    Snapshot {
        id: SnapshotId(n),
        name: format!("s-{n}"),
        created_unix_ms: 0,
        size_bytes: 1 << 20,
        cut: op(seq),
        pinned: false,
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
        Some(Past { snapshots: (0..SNAPSHOTS_MAX as u64).map(|n| snapshot(n, 0)).collect(), goes_back_to: None });
    state.adopt(config, cairn_types::Csn(8), &Default::default());
    assert_eq!(state.check_take("new"), Err(NotTaken::TooMany));
}
