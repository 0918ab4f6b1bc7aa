//! `Directory` on etcd.
//!
//! Promises    callable from any thread, inside or outside of a runtime: connections live on the given runtime
//!             (a shard's own runtime would stop them whenever the shard is busy)

use std::{sync::Arc, time::Duration};

use cairn_directory::{
    BoxFuture, Directory, DirectoryError, Health, Key, Kind, ListedMember, Listing, MemberHealth, Revision, Scope,
    Stored, Txn, Watch,
};
use cairn_types::ClusterId;
use etcd_client::{AlarmAction, AlarmType};
use futures::{FutureExt as _, future::join_all};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::{calls, cluster, endpoints::Endpoints, watch};

/// The directory of one cluster on etcd.
pub struct EtcdDirectory {
    runtime: Handle,
    endpoints: Arc<Endpoints>,
    prefix: String,
}

impl std::fmt::Debug for EtcdDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EtcdDirectory({:?})", self.endpoints.urls())
    }
}

impl EtcdDirectory {
    /// The directory of `cluster` at the members `urls` (`http://host:port`), working on `runtime`. Connects when it is
    /// first used, so that a host starts while etcd is away.
    ///
    /// # Errors
    /// `Refused` when there is no URL or one cannot be used.
    pub fn new(runtime: Handle, cluster: ClusterId, urls: &[String]) -> Result<Arc<Self>, DirectoryError> {
        Ok(Arc::new(Self { runtime, endpoints: Arc::new(Endpoints::new(urls)?), prefix: Key::cluster_prefix(cluster) }))
    }

    /// Waits until reads and writes are possible, at most `limit`.
    ///
    /// # Errors
    /// `Unavailable`, with what was seen last.
    pub async fn wait_serving(&self, limit: Duration) -> Result<(), DirectoryError> {
        let endpoints = self.endpoints.clone();
        let prefix = self.prefix.clone();
        self.on_runtime(async move {
            let end = Instant::now() + limit;
            let key = probe_key();
            loop {
                match calls::get(&endpoints, &prefix, &key).await {
                    Err(error) if error.is_unavailable() && Instant::now() < end => {
                        sleep(Duration::from_millis(100)).await;
                    }
                    other => return other.map(|_| ()),
                }
            }
        })
        .await
    }

    /// Connections, the runtime that they live on, and where the cluster's entries are.
    pub(crate) fn parts(&self) -> (Handle, Arc<Endpoints>, String) {
        (self.runtime.clone(), self.endpoints.clone(), self.prefix.clone())
    }

    /// Runs `work` on the runtime of the connections.
    fn on_runtime<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, DirectoryError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, DirectoryError>> {
        let task = self.runtime.spawn(work);
        async move {
            task.await.unwrap_or_else(|end| {
                Err(DirectoryError::Unavailable {
                    cause: format!("this process is shutting down: {end}"),
                    outcome_unknown: true,
                })
            })
        }
        .boxed()
    }
}

/// A key that may be read to see whether reads work.
fn probe_key() -> Key {
    Key::of::<cairn_directory::ClusterSettings>(&cairn_directory::TheCluster)
}

impl Directory for EtcdDirectory {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, DirectoryError>> {
        let (endpoints, prefix, key) = (self.endpoints.clone(), self.prefix.clone(), key.clone());
        self.on_runtime(async move { calls::get(&endpoints, &prefix, &key).await })
    }

    fn list(&self, scope: Scope) -> BoxFuture<'_, Result<Listing, DirectoryError>> {
        let (endpoints, prefix) = (self.endpoints.clone(), self.prefix.clone());
        self.on_runtime(async move { calls::list(&endpoints, &prefix, scope).await })
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Revision, DirectoryError>> {
        let (endpoints, prefix) = (self.endpoints.clone(), self.prefix.clone());
        self.on_runtime(async move { calls::commit(&endpoints, &prefix, &txn).await })
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Watch, DirectoryError>> {
        let (endpoints, prefix) = (self.endpoints.clone(), self.prefix.clone());
        self.on_runtime(async move { watch::open(&endpoints, prefix, after).await })
    }

    fn health(&self) -> BoxFuture<'_, Health> {
        let (endpoints, prefix) = (self.endpoints.clone(), self.prefix.clone());
        let work = self.on_runtime(async move {
            let urls = endpoints.urls();
            let members = join_all(urls.iter().map(|url| member(&endpoints, url)));
            let read = calls::list(&endpoints, &prefix, Scope::Kind(Kind::Settings));
            let (members, read, listed) = futures::join!(members, read, cluster::list(&endpoints));
            let problem = match read {
                Err(error) => Some(error.to_string()),
                Ok(_) => alarms(&endpoints).await,
            };
            let listed = listed.unwrap_or_default().iter().map(ListedMember::from).collect();
            Ok(Health { kind: "etcd", problem, members, listed })
        });
        async move {
            work.await.unwrap_or_else(|error| Health {
                kind: "etcd",
                problem: Some(error.to_string()),
                members: Vec::new(),
                listed: Vec::new(),
            })
        }
        .boxed()
    }
}

/// What one member says of itself.
async fn member(endpoints: &Endpoints, url: &str) -> MemberHealth {
    let mut health =
        MemberHealth { endpoint: url.to_owned(), problem: None, leader: false, learner: false, db_bytes: 0 };
    match cluster::status(endpoints, url).await {
        Ok(status) => {
            health.db_bytes = u64::try_from(status.db_size()).unwrap_or(0);
            health.leader = cluster::leads(&status);
            health.learner = status.is_learner();
            if status.leader() == 0 {
                health.problem = Some("it knows no leader".into());
            }
        }
        Err(why) => health.problem = Some(why),
    }
    if health.problem.is_some() {
        endpoints.failed(url);
    }
    health
}

/// Alarms that stop writes: a full quota, a corrupt member.
async fn alarms(endpoints: &Endpoints) -> Option<String> {
    let (answer, _) = endpoints
        .call(|client| {
            let mut maintenance = client.maintenance_client();
            async move { maintenance.alarm(AlarmAction::Get, AlarmType::None, None).await }
        })
        .await;
    let answer = answer.ok()?;
    let alarm = answer.alarms().first()?;
    Some(match alarm.alarm() {
        AlarmType::Nospace => "etcd takes no writes: its quota is used up. Compact and defragment it, then \
                               disarm the alarm (etcdctl compact, defrag, alarm disarm)"
            .into(),
        other => format!("etcd raised alarm {other:?}: see its log"),
    })
}
