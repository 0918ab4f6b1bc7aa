//! Whether the directory answers, takes changes, and has all its members.

use cairn_api::v1::Severity;

use super::check::{Check, Looked, Picture, finding};

/// It answers and takes changes.
pub(crate) const DIRECTORY: Check = Check {
    name: "directory",
    looks_at: "the directory: whether it answers, and alarms that keep it from taking changes",
    finds: "it is away, or takes no changes: an error",
    look: look_at_all,
};

/// All its members work.
pub(crate) const MEMBERS: Check = Check {
    name: "directory-members",
    looks_at: "each etcd member of the directory",
    finds: "each member that does not answer or knows no leader: a warning",
    look: look_at_members,
};

fn look_at_all(picture: &Picture) -> Looked {
    const WITHOUT: &str = "disks go on without it; nothing can be created, deleted or changed";
    let directory = &picture.directory;
    let cause = match (&directory.problem, directory.up, directory.age_s) {
        (Some(problem), true, _) => Some(format!("the directory takes no changes: {problem}")),
        (Some(problem), false, _) => Some(format!("the directory is away: {problem}")),
        (None, false, Some(age_s)) => Some(format!("the directory is away; what is shown is {age_s} s old")),
        (None, false, None) => Some("the directory is away".to_owned()),
        (None, true, _) => None,
    };
    let remedy = match directory.up {
        true => "remove what the alarm names; for etcd see `etcdctl alarm list`",
        false => "start its members again",
    };
    let findings = cause.into_iter().map(|cause| finding(Severity::Error, cause, WITHOUT, remedy)).collect();
    Looked { well: "the directory answers and takes changes".into(), findings }
}

fn look_at_members(picture: &Picture) -> Looked {
    let members = &picture.directory.members;
    let ailing: Vec<_> = members.iter().filter_map(|m| m.problem.as_ref().map(|p| (&m.endpoint, p))).collect();
    let spare = (members.len().saturating_sub(1) / 2).saturating_sub(ailing.len());
    let consequence = match spare {
        0 => "if one more fails, the directory takes no changes".to_owned(),
        spare => format!("the directory works as long as no more than {spare} others fail"),
    };
    let found = |(endpoint, problem): &(&String, &String)| {
        finding(
            Severity::Warning,
            format!("the member of the directory at {endpoint} does not work: {problem}"),
            consequence.clone(),
            "start the daemon of its host; the end of its log (etcd.log in the data directory) says more. If that host is gone for good, \
             have another run the member: `cairn cluster members replace HOST OTHER`",
        )
    };
    let well = match members.len() {
        0 => "the directory has no members of its own".to_owned(),
        count => format!("all {count} members of the directory answer"),
    };
    Looked { well, findings: ailing.iter().map(found).collect() }
}

#[cfg(test)]
mod tests {
    use cairn_directory::MemberHealth;

    use super::super::check::{DirectorySeen, tests::causes};
    use super::*;

    fn picture(directory: DirectorySeen) -> Picture {
        Picture { directory, ..Default::default() }
    }

    /// Goal: a directory that is read and not written is not called well. Method: etcd with its quota used up.
    #[test]
    fn one_that_takes_no_changes_is_an_error() {
        let problem = Some("etcd takes no writes: its quota is used up".to_owned());
        let full = picture(DirectorySeen { up: true, problem, ..Default::default() });
        let looked = look_at_all(&full);
        assert_eq!(looked.findings[0].severity, Severity::Error);
        assert!(looked.findings[0].cause.contains("takes no changes: etcd"), "{looked:?}");
        let away = picture(DirectorySeen { up: false, age_s: Some(7), ..Default::default() });
        assert_eq!(causes(&DIRECTORY, &away), ["the directory is away; what is shown is 7 s old"]);
    }

    #[test]
    fn each_member_that_does_not_work_is_named() {
        let member = |n: u32, problem: Option<&str>| MemberHealth {
            endpoint: format!("http://10.0.0.{n}:2379"),
            problem: problem.map(str::to_owned),
            leader: false,
            learner: false,
            db_bytes: 0,
        };
        let members = vec![member(1, None), member(2, Some("connection refused")), member(3, None)];
        let looked = look_at_members(&picture(DirectorySeen { up: true, members, ..Default::default() }));
        assert_eq!(looked.findings.len(), 1);
        assert!(looked.findings[0].cause.contains("10.0.0.2:2379 does not work: connection refused"), "{looked:?}");
        assert!(looked.findings[0].consequence.starts_with("if one more"), "{looked:?}");
    }
}
