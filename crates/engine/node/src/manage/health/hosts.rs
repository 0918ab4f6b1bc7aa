//! Whether hosts answer.

use cairn_api::v1::Severity;

use super::check::{Check, Looked, Picture, finding};

/// Every host answers.
pub(crate) const HOSTS_UP: Check = Check {
    name: "hosts-up",
    looks_at: "heartbeats of every host that the cluster knows",
    finds: "each host that does not answer: a warning",
    look,
};

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
        let host = |name: &str, up| HostSeen { name: name.into(), up };
        let picture =
            Picture { hosts: vec![host("a", false), host("b", true), host("c", false)], ..Default::default() };
        assert_eq!(causes(&HOSTS_UP, &picture), ["host a does not answer", "host c does not answer"]);
    }
}
