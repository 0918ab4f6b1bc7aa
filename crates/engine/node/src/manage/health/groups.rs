//! Whether disk groups are open and their devices work.

use cairn_api::v1::{self, DeviceState, DiskGroupState, Severity};

use super::check::{Check, Looked, Picture, finding, lights};

/// Every disk group is open.
pub(crate) const GROUPS: Check = Check {
    name: "disk-groups",
    looks_at: "every disk group: whether its host answers and has it open and writable",
    finds: "each that is closed or takes no writes, also for want of room under the file of its cache device: an error; each whose host does not answer: a warning",
    look: look_at_groups,
};

/// Every device works.
pub(crate) const DEVICES: Check = Check {
    name: "devices",
    looks_at: "every device of the disk groups that are open",
    finds: "each that failed or is missing, or whose file found no room on its file system: an error",
    look: look_at_devices,
};

/// Every log is whole.
pub(crate) const LOGS: Check = Check {
    name: "disk-group-logs",
    looks_at: "the log of every disk group that is open",
    finds: "each that lost something which is not made good yet: a warning",
    look: look_at_logs,
};

/// Write buffers have room.
pub(crate) const BUFFERS: Check = Check {
    name: "write-buffers",
    looks_at: "how full the log of every disk group that is open is",
    finds: "each that is nine tenths full: a warning",
    look: look_at_buffers,
};

/// Tenths of a log from which on guests wait for its capacity devices.
const BUFFER_FULL_TENTHS: u64 = 9;

fn look_at_buffers(picture: &Picture) -> Looked {
    let found = |group: &v1::DiskGroup| {
        let log = group.log.as_ref().filter(|log| log.used_bytes * 10 >= log.size_bytes * BUFFER_FULL_TENTHS)?;
        let [used, size] = [log.used_bytes, log.size_bytes].map(cairn_types::format_bytes);
        Some(finding(
            Severity::Warning,
            format!(
                "the write buffer of disk group {} of host {} has {used} of {size} in use",
                group.id, group.host_name
            ),
            "guests write as fast as its capacity devices take it, no faster",
            "it empties when guests write less; if it stays so, add disk groups, or limit the disks that write most: `cairn top`",
        ))
    };
    Looked { well: "all write buffers have room".into(), findings: picture.groups.iter().filter_map(found).collect() }
}

fn look_at_logs(picture: &Picture) -> Looked {
    let found = |group: &v1::DiskGroup| {
        let why = group.reason.as_ref().filter(|_| group.state == DiskGroupState::Mounted)?;
        Some(finding(
            Severity::Warning,
            format!("disk group {} of host {}: {why}", group.id, group.host_name),
            "its copies are filled again from others",
            "nothing, as it ends by itself; if it comes back, replace the cache device",
        ))
    };
    Looked { well: "all logs are sound".into(), findings: picture.groups.iter().filter_map(found).collect() }
}

fn look_at_groups(picture: &Picture) -> Looked {
    let found = |group: &v1::DiskGroup| {
        let why = group.reason.clone().unwrap_or_else(|| "no reason is known".into());
        match group.state {
            DiskGroupState::Mounted => None,
            DiskGroupState::Unreachable => Some(finding(
                Severity::Warning,
                format!("disk group {} of host {} cannot be reached: {why}", group.id, group.host_name),
                "its copies are away, and its space counts as gone",
                "bring the host back; after the repair delay its copies are rebuilt elsewhere",
            )),
            DiskGroupState::Failed if lacks_room(group) => Some(finding(
                Severity::Error,
                format!(
                    "disk group {} of host {} takes no writes: the file system of its cache device has no room: {why}",
                    group.id, group.host_name
                ),
                "its copies are away; a disk with all its copies there answers its guest with errors",
                MAKE_ROOM,
            )),
            DiskGroupState::Failed => Some(finding(
                Severity::Error,
                format!("disk group {} of host {} does not work: {why}", group.id, group.host_name),
                "its copies are away; a disk with all its copies there answers its guest with errors",
                format!(
                    "make its devices available again, or replace the one that is dead: `cairn disk-group replace-device {} --device OLD \
                     --with NEW` (`cairn host locate OLD --host {}` lights its LED); after the repair delay its copies are rebuilt elsewhere",
                    group.id, group.host_name
                ),
            )),
        }
    };
    Looked {
        well: format!("all {} disk groups are open", picture.groups.len()),
        findings: picture.groups.iter().filter_map(found).collect(),
    }
}

/// What helps a file that found no room.
const MAKE_ROOM: &str =
    "make room on that file system, then restart the daemon; preallocated files or whole devices never meet this";

/// Whether it stopped as the file of its cache device found no room.
fn lacks_room(group: &v1::DiskGroup) -> bool {
    group.cache.as_ref().is_some_and(|cache| cache.state == DeviceState::NoSpace)
}

fn look_at_devices(picture: &Picture) -> Looked {
    let devices = |group: &'_ v1::DiskGroup| -> Vec<v1::Device> {
        // That of a group that takes no writes is told by the other check, with its reason.
        let cache = group.cache.iter().filter(|_| group.state == DiskGroupState::Mounted);
        cache.chain(&group.devices).cloned().collect()
    };
    let (mut count, mut findings) = (0, Vec::new());
    for group in &picture.groups {
        for device in devices(group) {
            count += 1;
            findings.extend(found(group, &device));
        }
    }
    Looked { well: format!("all {count} devices work"), findings }
}

fn found(group: &v1::DiskGroup, device: &v1::Device) -> Option<v1::Finding> {
    let why = device.problem.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let at = format!("device {} of host {}", device.path, group.host_name);
    match device.state {
        DeviceState::Ok => None,
        DeviceState::NoSpace => Some(finding(
            Severity::Error,
            format!("the file system of {at} has no room for it{why}"),
            "what was to be written there is lost: its components are rebuilt elsewhere",
            MAKE_ROOM,
        )),
        DeviceState::Failed => Some(finding(
            Severity::Error,
            format!("{at} failed or is missing{why}"),
            "its components are lost and rebuilt elsewhere where there is room",
            format!(
                "replace it: `cairn disk-group replace-device {} --device {} --with NEW` (--dry-run tells what that means); `cairn \
                 resync list` shows how far the rebuilds are{}",
                group.id,
                device.path,
                lights(&device.path, &group.host_name)
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{DeviceId, DiskGroupId, HostId};

    use super::super::check::tests::causes;
    use super::*;

    fn group(n: u128, state: DiskGroupState, devices: &[(&str, DeviceState, Option<&str>)]) -> v1::DiskGroup {
        let device = |(path, state, problem): &(&str, DeviceState, Option<&str>)| v1::Device {
            id: DeviceId(n),
            path: (*path).into(),
            size_bytes: 1 << 30,
            state: *state,
            problem: problem.map(str::to_owned),
            medium: None,
            slow: None,
        };
        v1::DiskGroup {
            id: DiskGroupId(n),
            host: HostId(n),
            host_name: format!("h{n}"),
            state,
            draining: false,
            reason: (state != DiskGroupState::Mounted).then(|| "for a reason".into()),
            cache: None,
            devices: devices.iter().map(device).collect(),
            capacity: v1::Capacity::default(),
            log: None,
            components: None,
            scrubbed_unix_ms: None,
            compression: None,
            deduplication: None,
            rewriting: None,
            space: None,
            slow: None,
        }
    }

    /// Goal: each group that cannot be used is named with its reason, those of dead hosts too. Method: one of each state, two failed.
    #[test]
    fn groups_that_do_not_work_are_all_named() {
        use DiskGroupState::{Failed, Mounted, Unreachable};
        let groups =
            vec![group(1, Mounted, &[]), group(2, Failed, &[]), group(3, Unreachable, &[]), group(4, Failed, &[])];
        let found = causes(&GROUPS, &Picture { groups, ..Default::default() });
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("host h2 does not work: for a reason"), "{found:?}");
        assert!(found[1].contains("host h3 cannot be reached"), "{found:?}");
        assert!(found[2].contains("host h4 does not work"), "{found:?}");
    }

    /// Goal: a group that stopped for want of room is told so, with what helps. Method: one of those, beside one that failed.
    #[test]
    fn a_group_whose_cache_file_found_no_room_is_told_so() {
        let cache = |state| v1::Device {
            id: DeviceId(9),
            path: "/cache".into(),
            size_bytes: 1 << 30,
            state,
            problem: None,
            medium: None,
            slow: None,
        };
        let stopped = |n, state| v1::DiskGroup { cache: Some(cache(state)), ..group(n, DiskGroupState::Failed, &[]) };
        let groups = vec![stopped(1, DeviceState::NoSpace), stopped(2, DeviceState::Failed)];
        let found = look_at_groups(&Picture { groups, ..Default::default() }).findings;
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].cause.contains("host h1 takes no writes: the file system of its cache device"), "{found:?}");
        assert!(found[0].remedy.contains("make room on that file system"), "{found:?}");
        assert!(
            found[1].cause.contains("host h2 does not work") && !found[1].remedy.contains("make room"),
            "{found:?}"
        );
    }

    /// Goal: a full file system is not called a failed device, and the errors reach the reader. Method: both in one group.
    #[test]
    fn each_device_is_told_as_what_it_is() {
        let devices = [
            ("/a", DeviceState::Ok, None),
            ("/b", DeviceState::NoSpace, Some("write at 4096: No space left on device (os error 28)")),
            ("/c", DeviceState::Failed, Some("flush at 0: Input/output error (os error 5)")),
            ("/dev/d", DeviceState::Failed, None),
        ];
        let picture = Picture { groups: vec![group(1, DiskGroupState::Mounted, &devices)], ..Default::default() };
        let found = causes(&DEVICES, &picture);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("device /b of host h1 has no room") && found[0].contains("os error 28"), "{found:?}");
        assert!(found[1].contains("device /c of host h1 failed") && found[1].contains("os error 5"), "{found:?}");
        let remedies = look_at_devices(&picture).findings.into_iter().map(|found| found.remedy);
        let lit: Vec<bool> = remedies.map(|text| text.contains("`cairn host locate /dev/d --host h1`")).collect();
        assert_eq!(lit, [false, false, true], "a file has no LED");
    }
}
