//! etcd's own list of its members: read, and changed one member at a time.
//!
//! Promises    what [`look`] lists is of now: etcd 3.4 lists from the memory of the member that is asked, so that one reads first
//! Not here    what is to be changed (`change`)

use std::time::Duration;

use cairn_directory::{DirectoryError, DirectoryMembers, Key, ListedMember, TheCluster};
use etcd_client::{MemberAddOptions, StatusResponse};
use tokio::time::timeout;

use crate::endpoints::{ATTEMPT_MS_MAX, Endpoints, words};

/// A member as the others list it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: u64,
    /// Empty where it was added and has not run.
    pub(crate) name: String,
    pub(crate) peer_urls: Vec<String>,
    /// None where it has not run.
    pub(crate) client_urls: Vec<String>,
    pub(crate) learner: bool,
}

impl Listed {
    pub(crate) fn has_run(&self) -> bool {
        !self.client_urls.is_empty()
    }

    pub(crate) fn is_at(&self, peer_url: &str) -> bool {
        self.peer_urls.iter().any(|url| url == peer_url)
    }
}

impl From<&etcd_client::Member> for Listed {
    fn from(member: &etcd_client::Member) -> Self {
        Self {
            id: member.id(),
            name: member.name().to_owned(),
            peer_urls: member.peer_urls().to_vec(),
            client_urls: member.client_urls().to_vec(),
            learner: member.is_learner(),
        }
    }
}

impl From<&Listed> for ListedMember {
    fn from(listed: &Listed) -> Self {
        let Listed { id: _, name, peer_urls, client_urls, learner } = listed.clone();
        Self { name, peer_urls, client_urls, learner }
    }
}

/// The members as one of them has them.
pub(crate) async fn list(endpoints: &Endpoints) -> Result<Vec<Listed>, DirectoryError> {
    let asked = endpoints.call(|client| {
        let mut cluster = client.cluster_client();
        async move { cluster.member_list().await }
    });
    let (answer, lost) = asked.await;
    let answer = answer.map_err(|failed| failed.into_error(lost))?;
    Ok(answer.members().iter().map(Listed::from).collect())
}

/// Who is wanted, and the members, both as of now. None: nobody ever said who is wanted.
pub(crate) async fn look(
    endpoints: &Endpoints,
    prefix: &str,
) -> Result<(Option<DirectoryMembers>, Vec<Listed>), DirectoryError> {
    let path = format!("{prefix}{}", Key::of::<DirectoryMembers>(&TheCluster));
    let asked = endpoints.call(|client| {
        let (mut kv, mut cluster, path) = (client.kv_client(), client.cluster_client(), path.clone());
        async move {
            // Once it answers this, it has all that was decided before, of its list too.
            let told = kv.get(path, None).await?;
            Ok((told, cluster.member_list().await?))
        }
    });
    let (answer, lost) = asked.await;
    let (told, listed) = answer.map_err(|failed| failed.into_error(lost))?;
    let told = told.kvs().first().and_then(|kv| DirectoryMembers::from_json(kv.value()));
    Ok((told, listed.members().iter().map(Listed::from).collect()))
}

/// What the member at `url` says of itself, or why it does not.
pub(crate) async fn status(endpoints: &Endpoints, url: &str) -> Result<StatusResponse, String> {
    let status = async { endpoints.client(url).await?.status().await };
    match timeout(Duration::from_millis(ATTEMPT_MS_MAX), status).await {
        Ok(answer) => answer.map_err(|error| words(&error)),
        Err(_) => Err(format!("no answer within {ATTEMPT_MS_MAX} ms")),
    }
}

/// The id of the member that said so.
pub(crate) fn id_of(status: &StatusResponse) -> u64 {
    status.header().map_or(0, |header| header.member_id())
}

/// Whether the member that said so leads.
pub(crate) fn leads(status: &StatusResponse) -> bool {
    status.leader() != 0 && id_of(status) == status.leader()
}

pub(crate) async fn remove(endpoints: &Endpoints, id: u64) -> Result<(), DirectoryError> {
    let asked = endpoints.call(|client| {
        let mut cluster = client.cluster_client();
        async move { cluster.member_remove(id).await }
    });
    let (answer, lost) = asked.await;
    answer.map(drop).map_err(|failed| failed.into_error(lost))
}

pub(crate) async fn add(endpoints: &Endpoints, peer_url: &str, learner: bool) -> Result<(), DirectoryError> {
    let asked = endpoints.call(|client| {
        let (mut cluster, url) = (client.cluster_client(), peer_url.to_owned());
        let options = learner.then(|| MemberAddOptions::new().with_is_learner());
        async move { cluster.member_add([url], options).await }
    });
    let (answer, lost) = asked.await;
    answer.map(drop).map_err(|failed| failed.into_error(lost))
}

/// Gives a learner its vote; refused while it has not caught up.
pub(crate) async fn promote(endpoints: &Endpoints, id: u64) -> Result<(), DirectoryError> {
    let asked = endpoints.call(|client| {
        let mut cluster = client.cluster_client();
        async move { cluster.member_promote(id).await }
    });
    let (answer, lost) = asked.await;
    answer.map(drop).map_err(|failed| failed.into_error(lost))
}

/// Has the leader, whose client URL is `at`, hand over to member `to`: only the leader can be asked.
pub(crate) async fn move_leader(endpoints: &Endpoints, at: &str, to: u64) -> Result<(), DirectoryError> {
    let asked = async { endpoints.client(at).await?.maintenance_client().move_leader(to).await };
    match timeout(Duration::from_millis(ATTEMPT_MS_MAX), asked).await {
        Ok(answer) => answer.map(drop).map_err(|error| DirectoryError::away(words(&error))),
        Err(_) => Err(DirectoryError::away(format!("no answer within {ATTEMPT_MS_MAX} ms"))),
    }
}
