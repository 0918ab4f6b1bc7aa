//! How a member without data begins: in a new cluster, or in the one that runs already.
//!
//! Promises    a member whose data is lost comes back by itself: the others remove what it was and add it again
//!             a host that was in the cluster before makes no new one out of nothing: it waits for another member to answer
//!             a member that was asked may list what was so a moment ago: no step of that does harm, and it is tried again
//! Assumes     etcd lists client URLs of a member only once it has run; one that was added and has not run has no name
//! Not here    a member that has its data: etcd reads from there what it belongs to

use cairn_directory::DirectoryError;

use crate::{
    cluster::{self, Listed},
    endpoints::Endpoints,
    member::MemberConfig,
};

/// Steps from a list of members to a beginning: remove, add, begin; and twice that where others change it meanwhile.
const STEPS_MAX: usize = 6;

/// How etcd is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Begin {
    /// As one of the members that the configuration names; what etcd takes for a member with data, too.
    AsConfigured,
    /// In the cluster of these members.
    Existing(Vec<(String, String)>),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Begin(Begin),
    /// What it was has data that is lost.
    Remove(u64),
    Add,
    Wait(&'static str),
}

fn decide(config: &MemberConfig, listed: Option<&[Listed]>) -> Step {
    let Some(listed) = listed else {
        return match config.joined {
            false => Step::Begin(Begin::AsConfigured),
            true => Step::Wait("its data is lost, and no other member answers: it begins again when one does"),
        };
    };
    let is_own = |member: &&Listed| member.peer_urls.contains(&config.peer_url) || member.name == config.name;
    match listed.iter().find(is_own) {
        None => Step::Add,
        Some(own) if own.has_run() => Step::Remove(own.id),
        // All of a new cluster have their names from the beginning.
        Some(own) if !own.name.is_empty() => Step::Begin(Begin::AsConfigured),
        Some(_) => Step::Begin(Begin::Existing(members(config, listed))),
    }
}

/// The list as etcd wants it told: each member's name and URL, where one without a name is called as the configuration calls it.
fn members(config: &MemberConfig, listed: &[Listed]) -> Vec<(String, String)> {
    let named = |member: &Listed, url: &String| {
        let configured = config.initial_cluster.iter().find(|(_, configured)| configured == url);
        match (member.name.is_empty(), configured) {
            (true, Some((name, _))) => name.clone(),
            (true, None) => format!("{:x}", member.id),
            (false, _) => member.name.clone(),
        }
    };
    let each = |member: &Listed| -> Vec<(String, String)> {
        member.peer_urls.iter().map(|url| (named(member, url), url.clone())).collect()
    };
    listed.iter().flat_map(each).collect()
}

/// How a member without data begins, found out by asking the others.
///
/// # Errors
/// Why it cannot begin now, for people; ask again later.
pub(crate) async fn begin(config: &MemberConfig) -> Result<Begin, String> {
    if config.others.is_empty() {
        return Ok(Begin::AsConfigured);
    }
    let endpoints = Endpoints::new(&config.others).map_err(|error| error.to_string())?;
    for _ in 0..STEPS_MAX {
        let listed = cluster::list(&endpoints).await.ok();
        match decide(config, listed.as_deref()) {
            Step::Begin(begin) => return Ok(begin),
            Step::Wait(why) => return Err(why.into()),
            Step::Remove(id) => {
                tracing::warn!(member = config.name, "its data is lost: it is removed, and added again without any");
                changed("remove", cluster::remove(&endpoints, id).await)?;
            }
            Step::Add => changed("add", cluster::add(&endpoints, &config.peer_url, config.learner).await)?,
        }
    }
    Err("the members change too fast: it is tried again".into())
}

fn changed(act: &str, done: Result<(), DirectoryError>) -> Result<(), String> {
    done.map_err(|error| format!("its data is lost, and the other members do not {act} it: {error}"))
}

#[cfg(test)]
mod tests {
    use cairn_types::ClusterId;

    use super::*;

    fn config(joined: bool) -> MemberConfig {
        MemberConfig {
            cluster: ClusterId(1),
            name: "c".into(),
            data_dir: "c".into(),
            log_file: "c.log".into(),
            client_url: "http://3:1".into(),
            peer_url: "http://3:2".into(),
            initial_cluster: ["1", "2", "3"].iter().zip(["a", "b", "c"]).map(|(n, m)| (m.into(), url(n))).collect(),
            others: vec!["http://1:1".into(), "http://2:1".into()],
            joined,
            learner: false,
            program: None,
        }
    }

    fn url(host: &str) -> String {
        format!("http://{host}:2")
    }

    fn listed(id: u64, name: &str, host: &str, has_run: bool) -> Listed {
        let client_urls = has_run.then(|| format!("http://{host}:1")).into_iter().collect();
        Listed { id, name: name.into(), peer_urls: vec![url(host)], client_urls, learner: false }
    }

    /// Goal: whatever became of the member, it finds its way, and a cluster that forms is not disturbed. Method: each list that
    /// others may show.
    #[test]
    fn each_list_leads_to_a_beginning() {
        let others = || vec![listed(1, "a", "1", true), listed(2, "b", "2", true)];
        let with = |own: Listed| [others(), vec![own]].concat();
        let step = |listed: &[Listed]| decide(&config(true), Some(listed));
        assert_eq!(step(&with(listed(3, "c", "3", true))), Step::Remove(3), "it has run, and its data is lost");
        assert_eq!(step(&others()), Step::Add, "somebody removed it");
        let names = [("a", "1"), ("b", "2"), ("c", "3")].map(|(name, host)| (name.to_owned(), url(host)));
        let existing = Step::Begin(Begin::Existing(names.to_vec()));
        assert_eq!(step(&with(listed(4, "", "3", false))), existing, "it was added and has not run");
        assert_eq!(step(&with(listed(3, "c", "3", false))), Step::Begin(Begin::AsConfigured), "a cluster that forms");
        assert_eq!(step(&with(listed(3, "c", "9", true))), Step::Remove(3), "its address has changed");
    }

    #[test]
    fn without_an_answer_only_a_host_that_never_joined_begins() {
        assert_eq!(decide(&config(false), None), Step::Begin(Begin::AsConfigured));
        assert!(matches!(decide(&config(true), None), Step::Wait(_)));
    }
}
