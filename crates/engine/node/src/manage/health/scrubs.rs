//! Whether disk groups are scrubbed in time, and what was found that nobody can repair.

use cairn_api::v1::{self, ScrubState, Severity};
use cairn_pace::scrub_is_late;
use cairn_types::format_bytes;

use super::check::{Check, Looked, Picture, finding};

/// Every disk group is read now and then, and what is bad is repaired.
pub(crate) const SCRUB: Check = Check {
    name: "scrub",
    looks_at: "the scrub of every disk group that answers",
    finds: "each part of a disk that went bad at rest and that no other copy has, and each in which copies differ, or data do not fit their parity, without anything that tells which is right: an error; each disk group whose last pass ended more than two periods ago, and each whose scrub is paused: a warning",
    look,
};

fn look(picture: &Picture) -> Looked {
    let mut findings = Vec::new();
    for scrub in picture.scrubs.iter().filter(|scrub| scrub.state != ScrubState::Unreachable) {
        findings.extend(scrub.findings.iter().filter(|bad| bad.unrepairable).map(|bad| lost(scrub, bad)));
        findings.extend(scrub.findings.iter().filter(|bad| bad.differs).map(|one| differs(scrub, one)));
        findings.extend(unlisted(scrub));
        findings.extend(late(scrub, picture));
    }
    Looked { well: format!("{} disk groups are scrubbed in time", picture.scrubs.len()), findings }
}

fn lost(scrub: &v1::Scrub, bad: &v1::ScrubFinding) -> v1::Finding {
    let disk = bad.disk_name.clone().unwrap_or_else(|| bad.disk.to_string());
    finding(
        Severity::Error,
        format!(
            "disk {disk}: {} at byte {} are bad in disk group {} of host {}, and no other copy in sync has them",
            format_bytes(bad.len_bytes),
            bad.offset_bytes,
            scrub.disk_group,
            scrub.host_name
        ),
        "a guest that reads them gets an error, nothing else of the disk does",
        "bring back hosts with copies that are away; else have the guest restore what was there from a backup: what it writes is whole again",
    )
}

/// Each copy's disk group tells of it: with both it is clear which ones there are.
fn differs(scrub: &v1::Scrub, one: &v1::ScrubFinding) -> v1::Finding {
    let disk = one.disk_name.clone().unwrap_or_else(|| one.disk.to_string());
    finding(
        Severity::Error,
        format!(
            "disk {disk}: {} at byte {} in disk group {} of host {} are sound, and do not fit what other members have, and nothing tells which is right",
            format_bytes(one.len_bytes),
            one.offset_bytes,
            scrub.disk_group,
            scrub.host_name
        ),
        "of copies a guest reads the one or the other, and after a failure the one that is left; of rows it reads data, and after a failure what parity makes of them",
        "have the guest check what it keeps there, and write it anew: then all members hold that",
    )
}

/// What the list has no room for.
fn unlisted(scrub: &v1::Scrub) -> Option<v1::Finding> {
    let listed: u64 = scrub.findings.iter().filter(|bad| bad.unrepairable).map(|bad| bad.len_bytes / 4096).sum();
    let more = scrub.unrepairable_blocks.checked_sub(listed).filter(|more| *more > 0)?;
    Some(finding(
        Severity::Error,
        format!(
            "{more} more blocks in disk group {} of host {} are bad, and no other copy has them, or they are parity of such",
            scrub.disk_group, scrub.host_name
        ),
        "a guest that reads them gets an error",
        "replace the device, and restore the disks that `cairn scrub status` names",
    ))
}

fn late(scrub: &v1::Scrub, picture: &Picture) -> Option<v1::Finding> {
    let (begun, ended) = (scrub.begun_unix_ms.unwrap_or(0), scrub.scrubbed_unix_ms.unwrap_or(0));
    let at = format!("disk group {} of host {}", scrub.disk_group, scrub.host_name);
    let undetected =
        "blocks that go bad at rest are found when a guest reads them, perhaps after the other copy has failed";
    if scrub_is_late(begun, ended, picture.unix_ms, picture.scrub_period_days) {
        let days = picture.unix_ms.saturating_sub(if ended > 0 { ended } else { begun }) / 86_400_000;
        let cause = format!("{at} was last scrubbed {days} days ago, the period is {}", picture.scrub_period_days);
        return Some(finding(
            Severity::Warning,
            cause,
            undetected,
            "`cairn scrub status` tells how far it is; `cairn scrub start` hurries it",
        ));
    }
    let paused = scrub.state == ScrubState::Paused;
    paused
        .then(|| finding(Severity::Warning, format!("the scrub of {at} is paused"), undetected, "`cairn scrub resume`"))
}

#[cfg(test)]
mod tests {
    use cairn_types::{ComponentId, DiskGroupId, HostId, ObjectId};

    use super::super::check::tests::causes;
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn scrub(n: u128, state: ScrubState, ended_days_ago: u64, findings: Vec<v1::ScrubFinding>) -> v1::Scrub {
        v1::Scrub {
            disk_group: DiskGroupId(n),
            host: HostId(n),
            host_name: format!("h{n}"),
            state,
            reason: None,
            pass: 3,
            at_once: false,
            begun_unix_ms: Some(1),
            scrubbed_unix_ms: Some((100 - ended_days_ago) * DAY_MS),
            done_bytes: 0,
            total_bytes: 0,
            bytes_per_s: 0,
            eta_s: None,
            found_blocks: 9,
            repaired_blocks: 0,
            gone_blocks: 0,
            bad_blocks: findings.iter().map(|bad| bad.len_bytes / 4096).sum(),
            unrepairable_blocks: findings.iter().filter(|bad| bad.unrepairable).map(|bad| bad.len_bytes / 4096).sum(),
            differing_blocks: 0,
            findings,
        }
    }

    /// Goal: what nobody can repair is named, with disk and range; what is late or paused is told; what is being repaired is not.
    #[test]
    fn what_is_lost_late_or_paused_is_found() {
        let bad = |unrepairable| v1::ScrubFinding {
            disk: ObjectId(5),
            disk_name: Some("vm-1".into()),
            component: ComponentId(6),
            offset_bytes: 40960,
            len_bytes: 8192,
            unrepairable,
            differs: false,
        };
        let differs = v1::ScrubFinding { offset_bytes: 8 << 20, differs: true, ..bad(false) };
        let mut many = scrub(5, ScrubState::Waiting, 1, vec![bad(true)]);
        many.unrepairable_blocks += 7;
        let scrubs = vec![
            scrub(1, ScrubState::Running, 27, vec![bad(false), differs]),
            scrub(2, ScrubState::Waiting, 29, Vec::new()),
            scrub(3, ScrubState::Paused, 1, Vec::new()),
            scrub(4, ScrubState::Unreachable, 99, vec![bad(true)]),
            many,
        ];
        let picture = Picture { scrubs, unix_ms: 100 * DAY_MS, scrub_period_days: 14, ..Default::default() };
        let found = causes(&SCRUB, &picture);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[0].contains("8 KiB at byte 8388608") && found[0].contains("h1 are sound"), "{found:?}");
        assert!(found[1].contains("h2 was last scrubbed 29 days ago, the period is 14"), "{found:?}");
        assert!(found[2].contains("h3 is paused"), "{found:?}");
        assert!(found[3].contains("disk vm-1: 8 KiB at byte 40960") && found[3].contains("of host h5"), "{found:?}");
        assert!(found[4].starts_with("7 more blocks"), "{found:?}");
    }
}
