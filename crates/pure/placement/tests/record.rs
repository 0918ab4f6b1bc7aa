//! What `check_record` lets pass fits a seat at its worst; what it refuses is told the size that would do.

mod world;

use cairn_geometry::plan_layout;
use cairn_placement::{RefusalKind, check_record, place};
use cairn_types::{
    Accepted, ComponentState, Csn, Epoch, HostId, Incarnation, OBJECT_BYTES_MAX, ObjectConfig, OpId, Policy,
    RECORD_BYTES_MAX, Role, SeatRecord, encode_onto, parse_bytes,
};
use world::{GIB, config, host, ids};

/// The record of a disk in the midst of a change, all copies but the first away.
fn worst(config: &ObjectConfig) -> usize {
    let epoch = Epoch { number: u64::MAX, host: HostId(u128::MAX), incarnation: Incarnation(u64::MAX) };
    let mut config = config.clone();
    config.name = "n".repeat(64);
    for member in &mut config.members {
        if !matches!(member.role, Role::Data { copy: 0, .. }) {
            let stale_since = OpId { epoch, seq: u64::MAX };
            member.state = ComponentState::Absent { stale_since };
        }
    }
    let base = Some(Box::new(config.clone()));
    let accepted = Some(Accepted { epoch, csn: Csn(u64::MAX), base, config: config.clone() });
    encode_onto(vec![1], &SeatRecord { object: config.object, promised: epoch, accepted }).len()
}

/// The size in the words "at most SIZE".
fn told(text: &str) -> u64 {
    let size = text.split("at most ").nth(1).and_then(|rest| rest.split(". Make").next());
    parse_bytes(size.expect("a size")).expect("a size")
}

#[test]
fn every_disk_that_passes_has_a_record_that_fits() {
    let hosts = (1..=9).map(|n| {
        // Ids as long as real ones.
        let mut host = host(u128::MAX / 20 - n * 1000, &[&[1 << 60]]);
        host.name = format!("host-{n}");
        host
    });
    let picture = cairn_placement::ClusterPicture { hosts: hosts.collect() };
    let mut refused = 0;
    for ftt in 0..=3 {
        for stripe_width in [1, 2, 5, 12] {
            let policy = Policy { ftt, stripe_width, ..Policy::default() };
            let layout = plan_layout(&policy, OBJECT_BYTES_MAX).into();
            let size = match check_record(&policy, &layout, OBJECT_BYTES_MAX) {
                Ok(()) => OBJECT_BYTES_MAX,
                Err(refusal) => {
                    refused += 1;
                    assert_eq!(refusal.kind, RefusalKind::Size, "{refusal}");
                    told(&refusal.text)
                }
            };
            assert_eq!(check_record(&policy, &layout, size), Ok(()), "FTT {ftt}, {stripe_width} stripes, {size}");
            let placed = place(&picture, &policy, size, &mut ids(u128::MAX - (1 << 40))).expect("there is room");
            let bytes = worst(&config(&placed, &policy, size));
            assert!(bytes <= RECORD_BYTES_MAX, "FTT {ftt}, {stripe_width} stripes, {size}: {bytes} bytes");
        }
    }
    assert!(refused > 3, "{refused} refused");
}

#[test]
fn disks_of_usual_shape_reach_the_largest_size() {
    for (ftt, stripe_width) in [(1, 1), (1, 2), (2, 1), (3, 1)] {
        let policy = Policy { ftt, stripe_width, ..Policy::default() };
        let layout = plan_layout(&policy, OBJECT_BYTES_MAX).into();
        assert_eq!(check_record(&policy, &layout, OBJECT_BYTES_MAX), Ok(()), "FTT {ftt}, {stripe_width} stripes");
    }
    let policy = Policy { ftt: 3, stripe_width: 12, ..Policy::default() };
    assert_eq!(check_record(&policy, &plan_layout(&policy, GIB).into(), 255 * GIB), Ok(()));
}
