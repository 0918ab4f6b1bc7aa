//! The directory of the process: opened or joined, its cluster named, its first settings entered.

use std::{sync::Arc, time::Duration};

use cairn_directory::{ClusterSettings, Directory, DirectoryError, DirectoryMembers, Name, Registry, TheCluster};
use cairn_directory_etcd::{
    EtcdDirectory, Keeper, KeeperConfig, MembersTold, load_local_copy, local_copy_path, open_embedded_file,
    supervise::{Member, MemberConfig, MemberPlace},
};
use cairn_types::{ClusterId, Level, Policy};
use futures::{FutureExt as _, future::LocalBoxFuture};
use tokio::runtime::{Handle, Runtime};

use crate::{
    config::DirectoryConfig,
    engine::returning::cluster_on_devices,
    identity::Identity,
    plan::{DirectoryPlan, Plan},
    supervise::StartError,
};

/// How long a host that belongs to no cluster yet waits for the directory.
const JOIN_WAIT: Duration = Duration::from_secs(60);
/// How often it says so meanwhile.
const TELL_EVERY: Duration = Duration::from_secs(4);

/// The directory, and what keeps it going.
pub struct ClusterDirectory {
    /// Which cluster.
    pub cluster: ClusterId,
    /// Milliseconds of its lease.
    pub lease_ms: u64,
    /// The cluster has told it: hosts keep it.
    lease_is_told: bool,
    /// The cluster's level; none while the directory does not answer.
    pub level: Option<Level>,
    /// Its typed entries.
    pub registry: Registry,
    /// "embedded" or "etcd".
    pub kind: &'static str,
    /// Who keeps its members as they are wanted, where the cluster runs them itself.
    keeper: Option<Keeper>,
    /// What its calls run on.
    _threads: Option<Threads>,
}

/// A runtime of its own for etcd's calls. It may be dropped within async code, which a `Runtime` may not: a start that is refused does.
struct Threads(Option<Runtime>);

impl Threads {
    fn start() -> Result<Self, StartError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("cairn-etcd")
            .enable_all()
            .build()
            .map_err(|e| StartError::refused(format!("cannot make a runtime for etcd: {e}")))?;
        Ok(Self(Some(runtime)))
    }

    fn handle(&self) -> Handle {
        self.0.as_ref().expect("only a drop takes it").handle().clone()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // The calls under way are given up.
            runtime.shutdown_background();
        }
    }
}

impl ClusterDirectory {
    /// Who is to be told who shall run its members; none: the cluster runs none itself.
    pub fn members_told(&self) -> Option<MembersTold> {
        self.keeper.as_ref().map(Keeper::told)
    }
}

/// Opens the plan's directory; the hosts have yet to [`join`] its cluster.
///
/// # Errors
/// The directory cannot be opened, or does not answer a host that has to join.
pub fn open_directory<'a>(
    plan: &'a Plan,
    identities: &'a [Identity],
) -> LocalBoxFuture<'a, Result<ClusterDirectory, StartError>> {
    open(plan, identities).boxed_local()
}

async fn open(plan: &Plan, identities: &[Identity]) -> Result<ClusterDirectory, StartError> {
    let known = identities.iter().find_map(Identity::cluster);
    let mut directory = open_known(plan, identities, known).await?;
    let told = match identities.iter().find_map(Identity::lease_ms) {
        Some(kept) => Some(kept),
        // A host of an earlier build kept none. Without a directory it goes on with the one of its configuration, as then.
        None if known.is_some() => {
            let settings = tokio::time::timeout(TELL_EVERY, directory.registry.settings()).await;
            settings.ok().and_then(Result::ok).map(|settings| settings.lease_ms)
        }
        None => Some(directory.registry.settings().await.map_err(StartError::refused)?.lease_ms),
    };
    directory.lease_is_told = told.is_some();
    // A host that the directory does not answer begins with what it kept.
    let level = tokio::time::timeout(TELL_EVERY, directory.registry.level()).await;
    directory.level = level.ok().and_then(Result::ok);
    directory.lease_ms = told.unwrap_or(plan.settings.lease_ms);
    if !directory.lease_is_told {
        let lease_ms = directory.lease_ms;
        tracing::warn!(
            lease_ms,
            "the directory does not tell the cluster's lease: until the next start this host counts with cluster.lease_ms of its \
             configuration, which must be the same on all hosts"
        );
    }
    if directory.lease_ms != plan.settings.lease_ms {
        let (lease_ms, configured_ms) = (directory.lease_ms, plan.settings.lease_ms);
        tracing::info!(lease_ms, configured_ms, "the cluster keeps the lease that it was made with");
    }
    Ok(directory)
}

async fn open_known(
    plan: &Plan,
    identities: &[Identity],
    known: Option<ClusterId>,
) -> Result<ClusterDirectory, StartError> {
    let (lease_ms, lease_is_told) = (plan.settings.lease_ms, false);
    Ok(match &plan.directory {
        DirectoryPlan::Embedded { path } => {
            // A directory that was lost with the data directory comes back from the records on the devices.
            let cluster = known.or_else(|| cluster_on_devices(plan)).unwrap_or_else(|| new_cluster(identities));
            let directory: Arc<dyn Directory> = open_embedded_file(path, cluster).map_err(StartError::refused)?;
            let registry = Registry::new(directory);
            init(&registry, plan, cluster).await.map_err(StartError::refused)?;
            ClusterDirectory {
                cluster,
                lease_ms,
                lease_is_told,
                level: None,
                registry,
                kind: "embedded",
                keeper: None,
                _threads: None,
            }
        }
        DirectoryPlan::Etcd { endpoints, run_member, config } => {
            let place = EtcdPlace { plan, identities, config, endpoints, run_member: *run_member };
            etcd(place, known).await?
        }
    })
}

/// Hosts without a cluster join the directory's, and keep its lease.
///
/// # Errors
/// A host belongs to another one.
pub fn join(directory: &ClusterDirectory, identities: &mut [Identity]) -> Result<(), StartError> {
    let lease_ms = directory.lease_is_told.then_some(directory.lease_ms);
    let joined = identities.iter_mut().try_for_each(|identity| identity.join(directory.cluster, lease_ms));
    joined.map_err(StartError::refused)
}

/// Host ids are random, so one made from the first is as good as a fresh draw.
fn new_cluster(identities: &[Identity]) -> ClusterId {
    ClusterId(identities[0].host().0.rotate_left(64) ^ 0x6361_6972_6e00)
}

/// What the plan says of an etcd.
#[derive(Clone, Copy)]
struct EtcdPlace<'a> {
    plan: &'a Plan,
    identities: &'a [Identity],
    config: &'a DirectoryConfig,
    endpoints: &'a [String],
    run_member: Option<usize>,
}

async fn etcd(place: EtcdPlace<'_>, known: Option<ClusterId>) -> Result<ClusterDirectory, StartError> {
    let EtcdPlace { plan, config, .. } = place;
    let runs_members = !config.members.is_empty();
    // Cluster ids of etcd members only keep strangers apart: the name is what all hosts know before they join.
    let by_name = cluster_of_name(&plan.cluster_name);
    let threads = Threads::start()?;
    let handle = threads.handle();
    let connect = |cluster: ClusterId, urls: &[String]| {
        EtcdDirectory::new(handle.clone(), cluster, urls).map_err(StartError::refused)
    };
    let wanted = match known {
        _ if !runs_members => None,
        // Who runs members may have changed since the configuration was written.
        Some(cluster) => {
            let path = local_copy_path(&plan.hosts[0].data_dir);
            load_local_copy(&path, cluster).map_err(StartError::refused)?.directory_members()
        }
        None => members_of_now(place, by_name, &connect).await,
    };
    let member = match &wanted {
        Some(wanted) => start_wanted(place, by_name, wanted),
        None => place.run_member.map(|index| start_member(place, by_name, known.is_some(), index)).transpose()?,
    };
    let endpoints = wanted.as_ref().map_or_else(|| place.endpoints.to_vec(), DirectoryMembers::client_urls);
    let cluster = match known {
        Some(cluster) => cluster,
        None => {
            let rendezvous = connect(by_name, &endpoints)?;
            let fresh = new_cluster(place.identities);
            let joined = tell_while(&endpoints.join(", "), meet(plan, rendezvous, fresh)).await;
            joined.map_err(StartError::refused)?
        }
    };
    let directory = connect(cluster, &endpoints)?;
    let registry = Registry::new(directory.clone());
    if known.is_none() {
        init(&registry, plan, cluster).await.map_err(StartError::refused)?;
    }
    let keeper = match runs_members {
        true => Some(keep(place, by_name, directory, (wanted, member))?),
        false => None,
    };
    let (lease_ms, lease_is_told) = (plan.settings.lease_ms, false);
    let (kind, level, _threads) = ("etcd", None, Some(threads));
    Ok(ClusterDirectory { cluster, lease_ms, lease_is_told, level, registry, kind, keeper, _threads })
}

/// Who runs members of the cluster that a host is about to join, where that cluster is there already and says so. One that is being made
/// says nothing, at once.
async fn members_of_now(
    place: EtcdPlace<'_>,
    by_name: ClusterId,
    connect: &impl Fn(ClusterId, &[String]) -> Result<Arc<EtcdDirectory>, StartError>,
) -> Option<DirectoryMembers> {
    let rendezvous = Registry::new(connect(by_name, place.endpoints).ok()?);
    let cluster = rendezvous.settings().await.ok()?.cluster;
    let registry = Registry::new(connect(cluster, place.endpoints).ok()?);
    let found = registry.get::<DirectoryMembers>(&TheCluster).await.ok()??;
    Some(found.entry)
}

fn member_place(place: EtcdPlace<'_>, cluster: ClusterId) -> MemberPlace {
    let data_dir = &place.plan.hosts[0].data_dir;
    let program = &place.config.etcd_program;
    MemberPlace {
        cluster,
        data_dir: data_dir.join("etcd"),
        log_file: data_dir.join("etcd.log"),
        // A bare name is looked for where programs are; only what names a folder is taken by the letter.
        program: (program.components().count() > 1).then(|| program.clone()),
    }
}

/// The member that the directory's list has for this host. Where it cannot be started, the host starts all the same, and tries again: it
/// has disks to serve.
fn start_wanted(place: EtcdPlace<'_>, cluster: ClusterId, wanted: &DirectoryMembers) -> Option<Member> {
    let own = wanted.of(place.identities[0].host(), &place.plan.hosts[0].name)?;
    let started = Member::start(member_place(place, cluster).member(own, wanted));
    started.inspect_err(|error| tracing::warn!("this host's member of the directory cannot be started: {error}")).ok()
}

fn keep(
    place: EtcdPlace<'_>,
    cluster: ClusterId,
    directory: Arc<EtcdDirectory>,
    (wanted, member): (Option<DirectoryMembers>, Option<Member>),
) -> Result<Keeper, StartError> {
    let name = Name::new(place.plan.hosts[0].name.as_str()).map_err(|e| StartError::refused(e.to_string()))?;
    let (host, place) = (place.identities[0].host(), member_place(place, cluster));
    let keeper = Keeper::start(KeeperConfig { host, name, place, directory, wanted, member });
    keeper.map_err(|e| StartError::refused(format!("cannot start a thread: {e}")))
}

/// The meeting place of hosts that know only the cluster's name: settings there name the cluster's id.
fn cluster_of_name(name: &str) -> ClusterId {
    // FNV-1a, 128 bits (Fowler, Noll, Vo): stable over releases, which a standard hasher is not.
    let hash = name.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    ClusterId(hash)
}

/// Says what is waited for while `future` is under way.
async fn tell_while<T>(asked: &str, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut waited = Duration::ZERO;
    loop {
        match tokio::time::timeout(TELL_EVERY, &mut future).await {
            Ok(done) => return done,
            Err(_) => {
                waited += TELL_EVERY;
                tracing::warn!(
                    waited_s = waited.as_secs(),
                    most_s = JOIN_WAIT.as_secs(),
                    "this host belongs to no cluster yet and waits for the directory at {asked}: start its members, or \
                     look at the addresses and the network"
                );
            }
        }
    }
}

async fn meet(plan: &Plan, rendezvous: Arc<EtcdDirectory>, fresh: ClusterId) -> Result<ClusterId, DirectoryError> {
    rendezvous.wait_serving(JOIN_WAIT).await?;
    let registry = Registry::new(rendezvous);
    init(&registry, plan, fresh).await?;
    Ok(registry.settings().await?.cluster)
}

/// Enters settings and default policy where there are none; another host may have been first.
async fn init(registry: &Registry, plan: &Plan, cluster: ClusterId) -> Result<(), DirectoryError> {
    let name = |text: &str| Name::new(text).map_err(|e| DirectoryError::Refused(e.to_string()));
    let mut settings = ClusterSettings::new(cluster, name(&plan.cluster_name)?, name("default")?);
    settings.repair_delay_ms = plan.settings.repair_delay_s * 1000;
    settings.lease_ms = plan.settings.lease_ms;
    match registry.init_cluster(&settings, &Policy::default(), cairn_wire::SPEAKS.highest).await {
        Err(DirectoryError::Refused(_)) => registry.settings().await.map(drop),
        other => other.map(drop),
    }
}

/// The member that the configuration has for this host.
fn start_member(place: EtcdPlace<'_>, cluster: ClusterId, joined: bool, index: usize) -> Result<Member, StartError> {
    let members = &place.config.members;
    let own = &members[index];
    let MemberPlace { cluster, data_dir, log_file, program } = member_place(place, cluster);
    let member = MemberConfig {
        cluster,
        name: own.host.clone(),
        data_dir,
        log_file,
        client_url: own.client_url.clone(),
        peer_url: own.peer_url.clone(),
        initial_cluster: members.iter().map(|m| (m.host.clone(), m.peer_url.clone())).collect(),
        others: members.iter().filter(|m| m.host != own.host).map(|m| m.client_url.clone()).collect(),
        joined,
        learner: false,
        program,
    };
    Member::start(member).map_err(StartError::refused)
}
