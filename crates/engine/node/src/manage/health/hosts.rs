//! Whether hosts answer and are in use.

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

    #[test]
    fn a_host_that_is_gone_says_so() {
        let picture = Picture { dismissed: Some("this host was removed".into()), ..Default::default() };
        assert_eq!(causes(&MEMBERSHIP, &picture), ["this host was removed"]);
        assert!(causes(&MEMBERSHIP, &Picture::default()).is_empty());
    }

    #[test]
    fn each_host_in_maintenance_is_named_with_its_mode() {
        let host =
            |name: &str, maintenance| HostSeen { name: name.into(), up: true, maintenance, draining: Vec::new() };
        let mut hosts = vec![host("a", None), host("b", Some(cairn_types::MaintenanceMode::FullEvacuation))];
        hosts[0].draining.push(cairn_types::DiskGroupId(7));
        let picture = Picture { hosts, ..Default::default() };
        let drained = format!("disk group {} of host a is being emptied", cairn_types::DiskGroupId(7));
        assert_eq!(causes(&MAINTENANCE, &picture), ["host b is in maintenance (full-evacuation)", &drained]);
    }
}
