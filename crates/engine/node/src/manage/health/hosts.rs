//! Whether hosts answer and are in use.

use std::collections::BTreeMap;

use cairn_api::v1::Severity;

use super::check::{Check, Looked, Picture, finding};

/// The host that was asked is one of the cluster.
pub(crate) const MEMBERSHIP: Check = Check {
    name: "membership",
    looks_at: "whether the host that was asked is part of the cluster",
    finds: "it was removed or forgotten: an error, and nothing else is looked at",
    look: look_at_membership,
};

fn look_at_membership(picture: &Picture) -> Looked {
    let gone = picture.dismissed.iter().map(|why| {
        finding(
            Severity::Error,
            why.clone(),
            "guests get nothing here, and this host knows nothing of the cluster as it is now",
            "ask another host, stop this daemon, or take the host in again",
        )
    });
    Looked { well: "this host is part of the cluster".into(), findings: gone.collect() }
}

/// Every host answers.
pub(crate) const HOSTS_UP: Check = Check {
    name: "hosts-up",
    looks_at: "heartbeats of every host that the cluster knows",
    finds: "each host that does not answer: a warning",
    look,
};

/// Every host is in use.
pub(crate) const MAINTENANCE: Check = Check {
    name: "maintenance",
    looks_at: "what administrators want of every host",
    finds: "each host that is in maintenance, or on its way there, and each disk group that is being emptied: a warning",
    look: look_at_maintenance,
};

/// All hosts run one release.
pub(crate) const VERSIONS: Check = Check {
    name: "versions",
    looks_at: "the release that every host runs, and whether an upgrade waits for its end",
    finds: "hosts of several releases, or an upgrade that all hosts have and nobody finished: a warning",
    look: look_at_versions,
};

/// Hosts reach each other.
pub(crate) const NETWORK: Check = Check {
    name: "network",
    looks_at: "whom each host that answers hears",
    finds: "each pair of hosts that answer here, of which one does not hear the other: an error",
    look: look_at_network,
};

/// What is lost is replaced.
pub(crate) const REPAIR_PAUSED: Check = Check {
    name: "repair-paused",
    looks_at: "whether administrators have paused repair",
    finds: "it is paused: a warning",
    look: look_at_pause,
};

/// Every host gives capacity.
pub(crate) const NO_CAPACITY: Check = Check {
    name: "hosts-without-disks",
    looks_at: "the disk groups of every host that answers",
    finds: "each host without any: a warning",
    look: look_for_disks,
};

fn look_at_versions(picture: &Picture) -> Looked {
    let mut by_version: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for host in picture.hosts.iter().filter(|host| host.up) {
        by_version.entry(host.version.as_deref().unwrap_or("unknown")).or_default().push(&host.name);
    }
    let mut findings = Vec::new();
    if by_version.len() > 1 {
        let words = by_version.iter().map(|(version, hosts)| format!("{version} on {}", hosts.join(", ")));
        findings.push(finding(
            Severity::Warning,
            format!("hosts run several releases: {}", words.collect::<Vec<_>>().join("; ")),
            "the cluster works, and does only what the oldest of them can",
            "upgrade the others, one at a time: docs/operating/upgrading.md",
        ));
    } else if picture.upgrade.waits && picture.upgrade.obstacles.is_empty() {
        findings.push(finding(
            Severity::Warning,
            "all hosts have a new release, and the upgrade is not finished",
            "what the new release brings is off",
            "`cairn cluster upgrade finish --dry-run` tells what it switches on",
        ));
    }
    let well = match by_version.keys().next() {
        Some(version) => format!("all hosts that answer run {version}"),
        None => "no host answers".into(),
    };
    Looked { well, findings }
}

fn look_at_network(picture: &Picture) -> Looked {
    let found = picture.unheard.iter().map(|(host, other)| {
        finding(
            Severity::Error,
            format!("host {host} does not hear host {other}, and both answer here"),
            "disks whose owner is one of them lose the copies of the other, and fail over to and fro",
            format!("look at the network between {host} and {other}: cables, switches, firewalls, routes"),
        )
    });
    Looked { well: "all hosts that answer hear each other".into(), findings: found.collect() }
}

fn look_at_pause(picture: &Picture) -> Looked {
    let left_s = picture.settings.repair_paused_s;
    let found = || {
        finding(
            Severity::Warning,
            format!("repair is paused for {left_s} s more"),
            "what is lost meanwhile is not replaced: disks stay with less redundancy",
            "it ends by itself; to end it now: `cairn cluster resume-repair`",
        )
    };
    Looked { well: "what is lost is replaced".into(), findings: (left_s > 0).then(found).into_iter().collect() }
}

fn look_for_disks(picture: &Picture) -> Looked {
    let has = |name: &str| picture.groups.iter().any(|group| group.host_name == name);
    // A cluster without any disk group is one that is being made.
    let made = !picture.groups.is_empty();
    let without = picture.hosts.iter().filter(|host| made && host.up && !has(&host.name)).map(|host| {
        finding(
            Severity::Warning,
            format!("host {} has no disk group", host.name),
            "it serves guests and holds nothing: it is no place for copies or witnesses",
            format!("`cairn disk-group create --host {}`, where it has devices", host.name),
        )
    });
    Looked { well: "every host that answers has a disk group".into(), findings: without.collect() }
}

fn look_at_maintenance(picture: &Picture) -> Looked {
    let found = picture.hosts.iter().filter_map(|host| Some((host, host.maintenance?))).map(|(host, mode)| {
        finding(
            Severity::Warning,
            format!("host {} is in maintenance ({})", host.name, mode.name()),
            "it is given nothing new, and what is moved away from it takes space elsewhere",
            format!("when the work is done: `cairn host maintenance leave {}`", host.name),
        )
    });
    let groups = picture.hosts.iter().flat_map(|host| host.draining.iter().map(move |id| (host, id)));
    let drained = groups.map(|(host, id)| {
        finding(
            Severity::Warning,
            format!("disk group {id} of host {} is being emptied", host.name),
            "it is given nothing new, and what is moved away from it takes space elsewhere",
            format!(
                "remove it when it is empty (`cairn disk-group remove {id}`), or `cairn disk-group drain {id} --stop`"
            ),
        )
    });
    Looked { well: "all hosts and disk groups are in use".into(), findings: found.chain(drained).collect() }
}

fn look(picture: &Picture) -> Looked {
    let down = picture.hosts.iter().filter(|host| !host.up).map(|host| {
        finding(
            Severity::Warning,
            format!("host {} does not answer", host.name),
            "its copies are away: disks that use it have less redundancy, and its space counts as gone",
            "look at its daemon and at the network between hosts",
        )
    });
    Looked { well: format!("all {} hosts answer", picture.hosts.len()), findings: down.collect() }
}

#[cfg(test)]
mod tests {
    use super::super::check::{HostSeen, tests::causes};
    use super::*;

    #[test]
    fn each_host_that_is_down_is_named() {
        let host = |name: &str, up| HostSeen { name: name.into(), up, ..HostSeen::default() };
        let picture =
            Picture { hosts: vec![host("a", false), host("b", true), host("c", false)], ..Default::default() };
        assert_eq!(causes(&HOSTS_UP, &picture), ["host a does not answer", "host c does not answer"]);
    }

    /// Goal: several releases are told with their hosts, and an upgrade that nobody finished. Method: hosts that are down count for nothing.
    #[test]
    fn releases_are_told_with_their_hosts() {
        let host = |name: &str, up, version: &str| HostSeen {
            name: name.into(),
            up,
            version: Some(version.into()),
            ..HostSeen::default()
        };
        let mut picture = Picture {
            hosts: vec![host("a", true, "0.3.0"), host("b", true, "0.3.0"), host("c", false, "0.2.0")],
            ..Picture::default()
        };
        assert!(causes(&VERSIONS, &picture).is_empty());
        picture.upgrade.waits = true;
        assert_eq!(causes(&VERSIONS, &picture), ["all hosts have a new release, and the upgrade is not finished"]);
        picture.hosts[2].up = true;
        assert_eq!(causes(&VERSIONS, &picture), ["hosts run several releases: 0.2.0 on c; 0.3.0 on a, b"]);
    }

    #[test]
    fn pairs_that_do_not_hear_each_other_are_named() {
        let picture = Picture { unheard: vec![("a".into(), "b".into())], ..Picture::default() };
        assert_eq!(causes(&NETWORK, &picture), ["host a does not hear host b, and both answer here"]);
    }

    #[test]
    fn a_host_that_is_gone_says_so() {
        let picture = Picture { dismissed: Some("this host was removed".into()), ..Default::default() };
        assert_eq!(causes(&MEMBERSHIP, &picture), ["this host was removed"]);
        assert!(causes(&MEMBERSHIP, &Picture::default()).is_empty());
    }

    #[test]
    fn each_host_in_maintenance_is_named_with_its_mode() {
        let host =
            |name: &str, maintenance| HostSeen { name: name.into(), up: true, maintenance, ..HostSeen::default() };
        let mut hosts = vec![host("a", None), host("b", Some(cairn_types::MaintenanceMode::FullEvacuation))];
        hosts[0].draining.push(cairn_types::DiskGroupId(7));
        let picture = Picture { hosts, ..Default::default() };
        let drained = format!("disk group {} of host a is being emptied", cairn_types::DiskGroupId(7));
        assert_eq!(causes(&MAINTENANCE, &picture), ["host b is in maintenance (full-evacuation)", &drained]);
    }
}
