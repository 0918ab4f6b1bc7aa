//! When a slow disk group may be emptied: each thing that is in the way, and nothing else.

mod world;

use cairn_placement::{
    ClusterPicture, Leaving, MaintenancePreview, lacks_a_copy, place, slow_group_cannot_go, slow_group_waits,
};
use cairn_types::{ComponentState, DiskGroupId, MaintenanceMode, Policy, Role};
use world::{GIB, config, equal_hosts, ids};

fn group(picture: &ClusterPicture, n: usize) -> DiskGroupId {
    picture.hosts[n].disk_groups[0].disk_group
}

/// Goal: one at a time, and nothing beside what is lost or down. Method: one thing is changed in a cluster where it may be begun.
#[test]
fn whatever_is_in_the_way_is_named() {
    let picture = equal_hosts(4, 100 * GIB);
    let waits = |change: fn(&mut ClusterPicture)| {
        let mut picture = picture.clone();
        change(&mut picture);
        slow_group_waits(&picture, group(&picture, 0)).unwrap_or_default()
    };
    assert_eq!(waits(|_| ()), "");
    assert!(waits(|p| p.hosts[2].up = false).contains("is down"));
    assert!(waits(|p| p.hosts[0].maintenance = Some(MaintenanceMode::NoEvacuation)).contains("in maintenance"));
    assert!(waits(|p| p.hosts[3].disk_groups[0].up = false).contains("takes no writes"));
    let draining = |p: &mut ClusterPicture| {
        p.hosts[1].disk_groups[0].draining = true;
        p.hosts[1].disk_groups[0].witnesses = 1;
    };
    assert!(waits(draining).contains("is being emptied"));
    assert_eq!(waits(|p| p.hosts[1].disk_groups[0].draining = true), "", "that one is empty");
    assert_eq!(waits(|p| p.hosts[0].disk_groups[0].draining = true), "", "it is this one");
}

/// Goal: what has no place elsewhere stays, and a copy that is lacking comes first. Method: a mirror on three hosts and on four.
#[test]
fn only_what_finds_a_place_goes() {
    let policy = Policy { ftt: 1, ..Policy::default() };
    for hosts in [3, 4] {
        let mut picture = equal_hosts(hosts, 100 * GIB);
        let disk = config(&place(&picture, &policy, GIB, &mut ids(1000)).unwrap(), &policy, GIB);
        let copy = *disk.members.iter().find(|m| m.set().is_some()).unwrap();
        let at = picture.hosts.iter().position(|host| host.host == copy.host).unwrap();
        picture.hosts[at].disk_groups[0].draining = true;
        let mut preview = MaintenancePreview::new(picture, Leaving::DiskGroup(copy.disk_group));
        preview.add(&disk);
        let why = slow_group_cannot_go(&preview, None);
        assert_eq!(why.is_some(), hosts == 3, "{why:?}");
        assert!(slow_group_cannot_go(&preview, Some("vm-7")).is_some_and(|why| why.contains("vm-7 lacks a copy")));

        assert!(!lacks_a_copy(&disk));
        let mut absent = disk.clone();
        let member = absent.members.iter_mut().find(|m| m.component == copy.component).unwrap();
        member.state = ComponentState::Degraded;
        assert!(lacks_a_copy(&absent));
        let mut moving = disk.clone();
        let twin = ids(5000)();
        moving.members.push(cairn_types::Member { component: twin, state: ComponentState::Degraded, ..copy });
        assert!(
            matches!(copy.role, Role::Data { .. }) && !lacks_a_copy(&moving),
            "a twin that is being filled lacks nothing"
        );
    }
}
