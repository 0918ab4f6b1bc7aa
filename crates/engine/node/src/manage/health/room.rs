//! Whether what a host holds could be rebuilt, and whether disk groups are equally full. Only what can be reached counts.

use std::collections::BTreeMap;

use cairn_api::v1::{DiskGroup, DiskGroupState, Severity};
use cairn_types::format_bytes;

use super::check::{Check, Looked, Picture, finding};
use crate::manage::reserve::{HostSpace, reserve_bytes};

/// There is room to rebuild what any one host holds.
pub(crate) const REBUILD_ROOM: Check = Check {
    name: "rebuild-room",
    looks_at: "what each host holds, beside the space that is free on all others",
    finds: "each host whose loss could not be made good for want of space: a warning",
    look: look_at_rebuilds,
};

/// The rebuild reserve is there.
pub(crate) const RESERVE: Check = Check {
    name: "rebuild-reserve",
    looks_at: "free space, beside the hosts' worth that is kept for rebuilding (`cairn cluster settings`)",
    finds: "guests have written into the reserve: a warning",
    look: look_at_reserve,
};

/// Disk groups are about equally full.
pub(crate) const SKEW: Check = Check {
    name: "skewed-fill",
    looks_at: "how full the fullest and the emptiest disk group are",
    finds: "they differ by more than rebalancing allows: a warning",
    look: look_at_skew,
};

fn in_use(picture: &Picture) -> impl Iterator<Item = &DiskGroup> {
    picture.groups.iter().filter(|group| group.state == DiskGroupState::Mounted && !group.draining)
}

/// Space by host.
fn hosts(picture: &Picture) -> Vec<(&str, HostSpace)> {
    let mut hosts: BTreeMap<&str, HostSpace> = BTreeMap::new();
    for group in in_use(picture) {
        let host = hosts.entry(&group.host_name).or_default();
        host.raw_bytes += group.capacity.raw_bytes;
        host.free_bytes += group.capacity.free_bytes;
    }
    hosts.into_iter().collect()
}

fn look_at_rebuilds(picture: &Picture) -> Looked {
    let hosts = hosts(picture);
    let free_bytes: u64 = hosts.iter().map(|(_, space)| space.free_bytes).sum();
    let lacks = |space: &HostSpace| {
        (space.raw_bytes - space.free_bytes).checked_sub(free_bytes - space.free_bytes).filter(|bytes| *bytes > 0)
    };
    let found =
        hosts.iter().filter_map(|(name, space)| Some((name, space, lacks(space)?))).map(|(name, space, lacks)| {
            finding(
                Severity::Warning,
                format!(
                    "host {name} holds {}, and the others have {} free",
                    format_bytes(space.raw_bytes - space.free_bytes),
                    format_bytes(free_bytes - space.free_bytes)
                ),
                "if it is lost for good, not all of it can be rebuilt: disks stay with less redundancy",
                format!("add {} of capacity on other hosts, or delete or trim disks", format_bytes(lacks)),
            )
        });
    Looked { well: "what any one host holds has room on the others".into(), findings: found.collect() }
}

fn look_at_reserve(picture: &Picture) -> Looked {
    let spaces: Vec<HostSpace> = hosts(picture).into_iter().map(|(_, space)| space).collect();
    let reserve = reserve_bytes(&spaces, picture.settings.rebuild_reserve_hosts);
    let free_bytes: u64 = spaces.iter().map(|space| space.free_bytes).sum();
    let [kept, free] = [reserve, free_bytes].map(format_bytes);
    let found = || {
        finding(
            Severity::Warning,
            format!("{kept} are kept for rebuilding, and {free} are free"),
            "thin disks grew into it: a host's loss may not be made good; no disk can be made or grow",
            "add capacity, delete or trim disks, or keep less: `cairn cluster settings --rebuild-reserve-hosts`",
        )
    };
    let findings = (free_bytes < reserve).then(found).into_iter().collect();
    let well = if reserve == 0 { "none is asked for".into() } else { format!("{kept} of {free} free are kept") };
    Looked { well, findings }
}

fn look_at_skew(picture: &Picture) -> Looked {
    let percent = |group: &DiskGroup| group.capacity.used_bytes * 100 / group.capacity.raw_bytes;
    let mut groups: Vec<(u64, &DiskGroup)> =
        in_use(picture).filter(|group| group.capacity.raw_bytes > 0).map(|group| (percent(group), group)).collect();
    groups.sort_by_key(|(percent, group)| (*percent, group.id));
    let (Some((least, emptiest)), Some((most, fullest))) = (groups.first(), groups.last()) else {
        return Looked { well: "there is no disk group".into(), ..Looked::default() };
    };
    let allowed = u64::from(picture.settings.rebalance_points);
    let found = || {
        let words = |group: &DiskGroup| format!("disk group {} of host {}", group.id, group.host_name);
        finding(
            Severity::Warning,
            format!("{} is {most} % full and {} is {least} %", words(fullest), words(emptiest)),
            "the fuller one is full before the cluster is, and writes to it become slower",
            "components go from it by themselves where fault domains allow; add capacity there, or move disks: `cairn disk move`",
        )
    };
    let findings = (allowed > 0 && most - least >= allowed).then(found).into_iter().collect();
    Looked { well: format!("disk groups are {least} to {most} % full"), findings }
}

#[cfg(test)]
mod tests {
    use cairn_api::v1::Capacity;
    use cairn_types::{DiskGroupId, HostId};

    use super::super::check::{SettingsSeen, tests::causes};
    use super::*;

    fn picture(used_percent: &[u64], settings: SettingsSeen) -> Picture {
        let group = |(n, used): (usize, &u64)| DiskGroup {
            id: DiskGroupId(n as u128 + 1),
            host: HostId(n as u128 + 1),
            host_name: format!("h{}", n + 1),
            state: DiskGroupState::Mounted,
            draining: false,
            reason: None,
            cache: None,
            devices: Vec::new(),
            capacity: Capacity { raw_bytes: 100 << 30, used_bytes: used << 30, free_bytes: (100 - used) << 30 },
            log: None,
            components: None,
            scrubbed_unix_ms: None,
            compression: None,
            deduplication: None,
            rewriting: None,
            space: None,
            slow: None,
        };
        Picture { groups: used_percent.iter().enumerate().map(group).collect(), settings, ..Picture::default() }
    }

    /// Goal: a host whose loss cannot be made good is named, and only such a one. Method: three hosts, the others' free space just enough
    /// and just too little; then one host is much larger than the others.
    #[test]
    fn a_host_that_the_others_could_not_hold_is_named() {
        assert!(causes(&REBUILD_ROOM, &picture(&[60, 70, 70], SettingsSeen::default())).is_empty());
        let found = causes(&REBUILD_ROOM, &picture(&[90, 60, 55], SettingsSeen::default()));
        assert_eq!(found.len(), 3, "of equal hosts none can be spared: {found:?}");
        let mut large = picture(&[60, 60, 60], SettingsSeen::default());
        let space = &mut large.groups[0].capacity;
        (space.raw_bytes, space.used_bytes, space.free_bytes) = (400 << 30, 90 << 30, 310 << 30);
        let found = causes(&REBUILD_ROOM, &large);
        assert_eq!(found, ["host h1 holds 90 GiB, and the others have 80 GiB free"]);
    }

    #[test]
    fn a_reserve_that_was_written_into_is_told() {
        let kept = SettingsSeen { rebuild_reserve_hosts: 1, ..SettingsSeen::default() };
        assert!(causes(&RESERVE, &picture(&[60, 60, 60], kept)).is_empty());
        assert_eq!(
            causes(&RESERVE, &picture(&[60, 70, 80], kept)),
            ["100 GiB are kept for rebuilding, and 90 GiB are free"]
        );
        assert!(causes(&RESERVE, &picture(&[60, 70, 80], SettingsSeen::default())).is_empty());
    }

    #[test]
    fn groups_that_differ_too_much_are_told() {
        let points = |rebalance_points| SettingsSeen { rebalance_points, ..SettingsSeen::default() };
        assert!(causes(&SKEW, &picture(&[20, 49], points(30))).is_empty());
        assert_eq!(causes(&SKEW, &picture(&[20, 50], points(30))).len(), 1);
        assert!(causes(&SKEW, &picture(&[20, 90], points(0))).is_empty(), "rebalancing is off");
    }
}
