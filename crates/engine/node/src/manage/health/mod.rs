//! Health: one list of checks over one picture of the cluster.
//!
//! Promises    H1  every check is in [`CHECKS`]; the table in `docs/operating/health.md` has the same rows    (a test)
//!             H2  a check reports all it finds, with a number; each finding names cause, consequence and remedy
//!             H3  checks are pure: they read a picture and nothing else
//! Assumes     the picture is of now: `look` asks every host that answers
//! Not here    how the picture is taken (`look`); HTTP and tables
//!
//! A new check is a `Check` in the file of its subject, a line in [`CHECKS`], a row in the table, a test.

mod check;
mod clocks;
mod directory;
mod disks;
mod groups;
mod history;
mod hosts;
mod look;
mod room;
mod schedules;
mod scrubs;
mod slow;
mod space;

use cairn_api::v1;

use check::{Check, Picture};

/// All checks, in the order of the documentation.
pub(crate) const CHECKS: &[Check] = &[
    hosts::MEMBERSHIP,
    hosts::HOSTS_UP,
    hosts::NETWORK,
    hosts::VERSIONS,
    hosts::MAINTENANCE,
    hosts::REPAIR_PAUSED,
    hosts::NO_CAPACITY,
    clocks::CLOCKS,
    directory::DIRECTORY,
    directory::MEMBERS,
    groups::GROUPS,
    groups::DEVICES,
    slow::SLOW,
    groups::LOGS,
    groups::BUFFERS,
    scrubs::SCRUB,
    space::SPACE,
    room::SKEW,
    room::REBUILD_ROOM,
    room::RESERVE,
    space::OVERCOMMITMENT,
    disks::DISKS,
    disks::UNREADABLE,
    disks::DELETIONS,
    schedules::SCHEDULES,
];

/// The report of all checks.
pub(crate) fn report(picture: &Picture) -> v1::Health {
    if picture.dismissed.is_some() {
        // What such a host sees is not the cluster.
        return v1::Health::of(vec![hosts::MEMBERSHIP.report(picture)]);
    }
    v1::Health::of(CHECKS.iter().map(|check| check.report(picture)).collect())
}

#[cfg(test)]
mod tests {
    use cairn_api::v1::Severity;

    use super::{
        check::{DirectorySeen, FINDINGS_MAX, HostSeen},
        *,
    };

    /// Goal: the documentation has every check and no other. Method: its table against the list, cell by cell.
    #[test]
    fn the_documentation_has_every_check() {
        let page = include_str!("../../../../../../docs/operating/health.md");
        let told: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let row = |check: &Check| format!("| `{}` | {} | {} |", check.name, check.looks_at, check.finds);
        let wanted: Vec<String> = CHECKS.iter().map(row).collect();
        assert_eq!(told, wanted, "docs/operating/health.md");
    }

    /// Goal: a cluster without anything wrong has a sentence for each check. Method: an empty picture whose directory answers.
    #[test]
    fn a_cluster_that_is_well_is_told_well() {
        let picture = Picture { directory: DirectorySeen { up: true, ..Default::default() }, ..Default::default() };
        let health = report(&picture);
        assert_eq!(health.severity, Severity::Ok, "{health:?}");
        assert_eq!(health.checks.len(), CHECKS.len());
        assert!(health.checks.iter().all(|check| !check.text.is_empty() && check.findings.is_empty()), "{health:?}");
    }

    /// Goal: nothing that was found is silent. Method: more hosts are down than a sentence or a list has room for.
    #[test]
    fn all_findings_are_counted_and_the_worst_come_first() {
        let host = |n: usize| HostSeen { name: format!("h{n}"), ..HostSeen::default() };
        let check = hosts::HOSTS_UP.report(&Picture { hosts: (0..250).map(host).collect(), ..Default::default() });
        assert_eq!((check.findings_total, check.findings.len()), (250, FINDINGS_MAX));
        assert!(check.text.starts_with("250 findings: ") && check.text.ends_with("and 247 more"), "{}", check.text);
        let one = hosts::HOSTS_UP.report(&Picture { hosts: vec![host(7)], ..Default::default() });
        assert_eq!(one.text, "host h7 does not answer");
    }
}
