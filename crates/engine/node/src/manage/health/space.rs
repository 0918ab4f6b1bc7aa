//! Whether there is room: in each disk group, and in the cluster. Only what can be reached counts.

use cairn_api::v1::{self, DiskGroupState, Severity};
use cairn_types::format_bytes;

use super::check::{Check, Looked, Picture, finding};

/// Percent of a disk group's space in use from which health warns: above it cleaning costs more and rebuilds lack room.
const WARN_PERCENT: u64 = 80;
/// Percent from which writes to new places are about to be refused: what cleaning keeps for itself is some percent.
const FULL_PERCENT: u64 = 97;

/// There is room.
pub(crate) const SPACE: Check = Check {
    name: "disk-group-space",
    looks_at: "space of every disk group that can be reached, and of all together",
    finds: "each group and the cluster from 80 % in use: a warning; from 97 %: an error; each group that holds more than it has room for unpacked: a warning",
    look,
};

/// Disks cannot become more than there is.
pub(crate) const OVERCOMMITMENT: Check = Check {
    name: "overcommitment",
    looks_at: "what all disks may become, copies included, beside the space of the disk groups that can be reached",
    finds: "thin disks may become more than there is: a warning",
    look: look_at_promises,
};

fn look_at_promises(picture: &Picture) -> Looked {
    let promised = picture.promised;
    let [may, are, lacks] = [promised.bytes, promised.there_are_bytes, promised.lacks_bytes()].map(format_bytes);
    let found = || {
        finding(
            Severity::Warning,
            format!("thin disks may become {may}, copies included, and there are {are}: {lacks} are missing"),
            "once that much is written, guests that write to new places get *no space* errors",
            format!(
                "add {lacks} of capacity, spread over the hosts, or delete disks, before they are written that far"
            ),
        )
    };
    let findings = (promised.lacks_bytes() > 0).then(found).into_iter().collect();
    Looked { well: format!("disks may become {may}, and there are {are}"), findings }
}

fn look(picture: &Picture) -> Looked {
    let reached = || picture.groups.iter().filter(|group| group.state == DiskGroupState::Mounted);
    let (mut raw_bytes, mut free_bytes) = (0, 0);
    let mut findings = Vec::new();
    for group in reached() {
        raw_bytes += group.capacity.raw_bytes;
        free_bytes += group.capacity.free_bytes;
        let name = format!("disk group {} of host {}", group.id, group.host_name);
        findings.extend(full(&name, &group.capacity));
        findings.extend(group.space.and_then(|space| lives_on_savings(&name, &group.capacity, &space)));
    }
    let all = v1::Capacity { raw_bytes, used_bytes: raw_bytes - free_bytes, free_bytes };
    if reached().count() > 1 {
        findings.extend(full("the cluster", &all));
    }
    Looked { well: format!("{} of {} are free", format_bytes(free_bytes), format_bytes(raw_bytes)), findings }
}

/// What the group holds fits it only packed: an overwrite that does not pack needs room of its own.
fn lives_on_savings(what: &str, capacity: &v1::Capacity, space: &v1::DiskGroupSpace) -> Option<v1::Finding> {
    let unpacked_bytes = space.unpacked_bytes();
    (unpacked_bytes > capacity.raw_bytes).then(|| {
        finding(
            Severity::Warning,
            format!(
                "{what} holds {} that would not fit its {} without compression",
                format_bytes(unpacked_bytes),
                format_bytes(capacity.raw_bytes)
            ),
            "once it is full, guests that write over what they have get *no space* errors as well, where it packs worse",
            "add capacity, or move, trim or delete disks, before it is full",
        )
    })
}

fn full(what: &str, space: &v1::Capacity) -> Option<v1::Finding> {
    let used_percent = (space.raw_bytes > 0).then(|| space.used_bytes * 100 / space.raw_bytes)?;
    let cause = || {
        format!(
            "{what} is {used_percent} % full, {} of {} are free",
            format_bytes(space.free_bytes),
            format_bytes(space.raw_bytes)
        )
    };
    const REMEDY: &str = "add capacity, or delete or trim disks";
    match used_percent {
        FULL_PERCENT.. => {
            Some(finding(Severity::Error, cause(), "guests that write to new places get *no space* errors", REMEDY))
        }
        WARN_PERCENT.. => Some(finding(
            Severity::Warning,
            cause(),
            "writes become slower as cleaning costs more, and a rebuild may find no room",
            REMEDY,
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{DiskGroupId, HostId};

    use super::super::check::tests::causes;
    use super::*;

    fn group(n: u128, state: DiskGroupState, used_percent: u64) -> v1::DiskGroup {
        let raw_bytes = 100 << 30;
        let used_bytes = (raw_bytes / 100) * used_percent;
        v1::DiskGroup {
            id: DiskGroupId(n),
            host: HostId(n),
            host_name: format!("h{n}"),
            state,
            draining: false,
            reason: None,
            cache: None,
            devices: Vec::new(),
            capacity: v1::Capacity { raw_bytes, used_bytes, free_bytes: raw_bytes - used_bytes },
            log: None,
            components: None,
            scrubbed_unix_ms: None,
            slow: None,
            compression: None,
            deduplication: None,
            rewriting: None,
            space: None,
        }
    }

    /// Goal: a group that lives on what it saves is told before it is full. Method: one with as much as fits unpacked, one with a block more.
    #[test]
    fn a_group_that_lives_on_its_savings_is_told() {
        let found = |more: u64| {
            let mut group = group(1, DiskGroupState::Mounted, 50);
            let disks_bytes = group.capacity.raw_bytes - (1 << 30) + more;
            group.space = Some(v1::DiskGroupSpace { disks_bytes, promised_bytes: 1 << 30, ..Default::default() });
            look(&Picture { groups: vec![group], ..Default::default() }).findings
        };
        assert!(found(0).is_empty());
        let told = found(4096);
        assert_eq!(told.len(), 1);
        assert!(told[0].severity == Severity::Warning && told[0].cause.contains("without compression"), "{told:?}");
    }

    /// Goal: it is told before it hurts, with the numbers. Method: promises below, at and above the space.
    #[test]
    fn more_promised_than_there_is_is_told_with_what_is_missing() {
        use crate::picture::Promised;
        let promised = |gib: u64| Promised { bytes: gib << 30, there_are_bytes: 100 << 30 };
        let found = |gib| look_at_promises(&Picture { promised: promised(gib), ..Default::default() });
        assert!(found(0).findings.is_empty() && found(100).findings.is_empty());
        assert_eq!(found(60).well, "disks may become 60 GiB, and there are 100 GiB");
        let told = &found(130).findings;
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].severity, Severity::Warning);
        assert!(told[0].cause.contains("become 130 GiB") && told[0].cause.contains("30 GiB are missing"), "{told:?}");
        assert!(told[0].remedy.contains("add 30 GiB"), "{told:?}");
    }

    /// Goal: every full group is told, and what cannot be reached is no room. Method: groups of several fills, one of them closed.
    #[test]
    fn full_groups_and_a_full_cluster_are_told() {
        use DiskGroupState::{Mounted, Unreachable};
        let picture = |groups| Picture { groups, ..Default::default() };
        let two = picture(vec![group(1, Mounted, 85), group(2, Mounted, 10), group(3, Mounted, 90)]);
        let found = causes(&SPACE, &two);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("host h1 is 85 % full") && found[1].contains("host h3 is 90 % full"), "{found:?}");
        // The free space of a dead host is none.
        let dead = picture(vec![group(1, Mounted, 100), group(2, Mounted, 100), group(3, Unreachable, 0)]);
        let looked = look(&dead);
        assert_eq!(looked.findings.len(), 3, "{looked:?}");
        assert!(looked.findings[2].cause.starts_with("the cluster is 100 % full, 0 B of"), "{looked:?}");
        assert!(looked.findings.iter().all(|f| f.severity == Severity::Error), "{looked:?}");
    }
}
