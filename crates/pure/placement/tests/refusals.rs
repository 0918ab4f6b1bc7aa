//! What is refused is explained (P7): the words, case by case, and what force provisioning makes of it.

mod world;

use cairn_placement::{ClusterPicture, RefusalKind, complete, compliance, place, replace, what_if};
use cairn_types::{ComponentId, FaultToleranceMethod, MaintenanceMode, Policy, Role};
use world::{GIB, config, equal_hosts, host, ids};

fn refused(picture: &ClusterPicture, policy: &Policy, size: u64) -> (RefusalKind, String) {
    let refusal = place(picture, policy, size, &mut ids(1)).unwrap_err();
    (refusal.kind, refusal.text)
}

fn ftt(ftt: u8) -> Policy {
    Policy { ftt, ..Policy::default() }
}

#[test]
fn missing_fault_domains_are_named_with_the_way_out() {
    let mut picture = equal_hosts(4, 100 * GIB);
    picture.hosts[2].maintenance = Some(MaintenanceMode::NoEvacuation);
    picture.hosts[3].up = false;
    assert_eq!(
        refused(&picture, &ftt(1), GIB),
        (
            RefusalKind::FaultDomains,
            "mirror with FTT=1 needs 3 fault domains, 2 are up: host-3 is in maintenance, host-4 is down. \
             Bring one back, or choose FTT=0."
                .into()
        )
    );
    assert_eq!(
        refused(&picture, &ftt(2), GIB).1,
        "mirror with FTT=2 needs 5 fault domains, 2 are up: host-3 is in maintenance, host-4 is down. \
         Bring two back and add 1 host with a disk group, or choose FTT=0."
    );
    picture.hosts[1].disk_groups.clear();
    picture.hosts[0].disk_groups[0].up = false;
    assert_eq!(
        refused(&picture, &ftt(0), GIB).1,
        "one copy (FTT=0) needs 1 fault domain, none is up: no disk group of host-1 is up, host-2 has no disk group, \
         host-3 is in maintenance, host-4 is down. Bring one back."
    );
    assert_eq!(
        refused(&ClusterPicture::default(), &ftt(1), GIB).1,
        "mirror with FTT=1 needs 3 fault domains, none is up. Add 3 hosts with a disk group."
    );
    assert_eq!(
        refused(&equal_hosts(3, GIB), &ftt(2), GIB).1,
        "mirror with FTT=2 needs 5 fault domains, 3 are up. Add 2 hosts with a disk group, or choose FTT=1."
    );
}

#[test]
fn racks_count_once() {
    let mut picture = equal_hosts(6, 100 * GIB);
    for (n, host) in picture.hosts.iter_mut().enumerate() {
        host.fault_domain = Some(format!("rack-{}", n / 2 + 1));
    }
    let placement = place(&picture, &ftt(1), GIB, &mut ids(1)).expect("three racks");
    assert_eq!(placement.members.len(), 3);
    picture.hosts[4].up = false;
    picture.hosts[5].maintenance = Some(MaintenanceMode::NoEvacuation);
    assert_eq!(
        refused(&picture, &ftt(1), GIB).1,
        "mirror with FTT=1 needs 3 fault domains, 2 are up: rack-3 (host-5 is down, host-6 is in maintenance). \
         Bring one back, or choose FTT=0."
    );
}

#[test]
fn missing_room_is_named_with_what_there_is() {
    let mut picture = equal_hosts(3, 100 * GIB);
    picture.hosts[1] = host(2, &[&[8 * GIB, 9 * GIB]]);
    picture.hosts[2] = host(3, &[&[3 * GIB]]);
    let reserved = Policy { reservation_percent: 50, ..Policy::default() };
    assert_eq!(
        refused(&picture, &reserved, 20 * GIB),
        (
            RefusalKind::Space,
            "mirror with FTT=1 needs 2 fault domains with room for 10 GiB (50 % of a component reserved), 1 has it: \
             host-2 has 9 GiB free on one device, host-3 has 3 GiB free on one device. \
             Free space or add capacity devices, or reserve less."
                .into()
        )
    );
    // Thin, the same disk is placed; nothing free at all refuses it too.
    assert!(place(&picture, &ftt(1), 20 * GIB, &mut ids(1)).is_ok());
    let text = refused(&equal_hosts(3, 1 << 20), &ftt(1), 20 * GIB).1;
    assert_eq!(
        text,
        "mirror with FTT=1 needs 2 fault domains with 64 MiB free for a thin component to start with, none has it: \
         host-1 has 1 MiB free on one device, host-2 has 1 MiB free on one device, \
         host-3 has 1 MiB free on one device. Free space or add capacity devices."
    );
    // Each of many components fits, all together do not.
    let text =
        refused(&equal_hosts(3, 300 * GIB), &Policy { reservation_percent: 100, ..Policy::default() }, 1024 * GIB).1;
    assert!(
        text.starts_with(
            "mirror with FTT=1 needs 10 components of up to 255 GiB, copies in distinct fault domains, \
             and there is room for 5 of them."
        ),
        "{text}"
    );
}

#[test]
fn sizes_and_policies_are_refused_by_themselves_first() {
    let none = ClusterPicture::default();
    for (size, says) in [(0, "at least 512"), (1000, "512-byte sectors"), ((62 << 40) + 512, "62 TiB")] {
        let (kind, text) = refused(&none, &ftt(1), size);
        assert_eq!(kind, RefusalKind::Size);
        assert!(text.contains(says), "{text}");
    }
    let bad = [
        ftt(4),
        Policy { stripe_width: 0, ..Policy::default() },
        Policy { stripe_width: 13, ..Policy::default() },
        Policy { reservation_percent: 101, ..Policy::default() },
        Policy { ftm: FaultToleranceMethod::ErasureCoding { data_strips: 3 }, ..ftt(3) },
        Policy { ftm: FaultToleranceMethod::ErasureCoding { data_strips: 9 }, ..ftt(1) },
        Policy { ftm: FaultToleranceMethod::ErasureCoding { data_strips: 1 }, ..ftt(2) },
    ];
    for policy in bad {
        assert_eq!(refused(&none, &policy, GIB).0, RefusalKind::Policy);
    }
}

#[test]
fn force_provisioning_places_what_can_be_had_and_says_so() {
    let mut picture = equal_hosts(2, 100 * GIB);
    let policy = Policy { force_provisioning: true, reservation_percent: 100, ..Policy::default() };
    let placement = place(&picture, &policy, GIB, &mut ids(1)).expect("one copy fits");
    assert_eq!(placement.members.len(), 1);
    assert_eq!(placement.addresses.last().layout.redundancy.members(), 2);
    assert_eq!(
        placement.reduced.as_deref(),
        Some(
            "Force provisioning places it with 1 of its 2 copies, so it tolerates 0 failures until the rest can be \
             placed: mirror with FTT=1 needs 3 fault domains, 2 are up. Add 1 host with a disk group, or choose FTT=0."
        )
    );
    let before = config(&placement, &policy, GIB);
    assert_eq!(compliance(&picture, &before).len(), 2);
    assert!(complete(&picture, &before, &mut ids(10)).is_err());
    // Its one component can be replaced although the policy is not met.
    let change = replace(&picture, &before, ComponentId(1), &mut ids(20)).expect("as much as it had");
    assert_eq!(change.members.len(), 1);
    // With a third host the rest follows.
    picture.hosts.push(host(3, &[&[100 * GIB]]));
    let change = complete(&picture, &before, &mut ids(10)).expect("three hosts");
    assert_eq!((change.added.len(), change.removed.len()), (2, 0));
    let mut after = before;
    after.members = change.members;
    assert_eq!(compliance(&picture, &after), Vec::<String>::new());
    assert!(complete(&picture, &after, &mut ids(30)).is_ok_and(|c| c.added.is_empty()));
    // Where only room is missing, the copies stay and the reservation goes.
    let placement = place(&picture, &policy, 500 * GIB, &mut ids(1)).expect("thin");
    assert_eq!(placement.members.iter().filter(|m| m.role != Role::Witness).count(), 4);
    let text = placement.reduced.unwrap_or_default();
    assert!(text.contains("without its reservation of 100 %, so it tolerates 1 failure until"), "{text}");
    // And where there is nothing, force does not help.
    let text = refused(&ClusterPicture::default(), &policy, GIB).1;
    assert!(text.ends_with("not even one copy can be placed."), "{text}");
}

#[test]
fn a_replacement_that_finds_no_place_says_what_it_waits_for() {
    let mut picture = equal_hosts(3, 100 * GIB);
    let placement = place(&picture, &ftt(1), GIB, &mut ids(1)).expect("three hosts");
    let before = config(&placement, &ftt(1), GIB);
    let lost = placement.members[1];
    let name = picture.host(lost.host).map(|h| h.name.clone()).unwrap_or_default();
    for host in &mut picture.hosts {
        host.up &= host.host != lost.host;
    }
    let refusal = replace(&picture, &before, lost.component, &mut ids(10)).unwrap_err();
    assert_eq!(
        refusal.text,
        format!("mirror with FTT=1 needs 3 fault domains, 2 are up: {name} is down. Bring one back, or choose FTT=0.")
    );
    let refusal = replace(&picture, &before, ComponentId(99), &mut ids(10)).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotFound);
    // A fourth host takes it.
    picture.hosts.push(host(4, &[&[100 * GIB]]));
    let change = replace(&picture, &before, lost.component, &mut ids(10)).expect("a fourth host");
    assert_eq!(change.added, [ComponentId(10)]);
    assert_eq!(change.removed, [lost.component]);
}

#[test]
fn what_if_counts_disks_and_bytes() {
    let picture = equal_hosts(3, 100 * GIB);
    let answer = what_if(&picture, &ftt(1), 10 * GIB);
    assert!(answer.placement.is_ok());
    assert_eq!(answer.raw_bytes_full, 20 * GIB);
    assert_eq!(answer.disks_full_max, 15);
    let answer = what_if(&picture, &ftt(2), 10 * GIB);
    assert!(answer.placement.is_err());
    assert_eq!(answer.disks_full_max, 0);
}
