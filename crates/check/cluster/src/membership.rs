//! Hosts that leave the cluster and are taken in again: what is asked of it, and how that goes in a random plan.
//!
//! Promises    however it went, the host is one of the cluster again afterwards, with disk groups
//! Not here    when and whom it befalls (`draw`)

use std::time::Duration;

use cairn_api::{
    ApiResult, LocalManagement as _,
    v1::{self, HostForget, HostMaintenance, MaintenanceState},
};
use cairn_node::Node;
use cairn_sim::SimEnv;
use cairn_types::MaintenanceMode;

use crate::cluster::Cluster;

/// Between two tries of what cannot be done now.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// A host that is to be taken in again is tried for so long: by then all else that befalls hosts has ended.
const BACK_WITHIN: Duration = Duration::from_secs(120);
/// How long a host that was forgotten runs with what it held.
const RETURNED_FOR: Duration = Duration::from_millis(1500);

impl Cluster {
    /// Asks another host to remove a host, or what stands in the way of that.
    pub async fn remove_host(&self, host: usize, dry_run: bool) -> Result<v1::HostRemoval, String> {
        let (asked, name) = (self.asked_of(host)?, self.members[host].host.spoken_id().to_string());
        let removed =
            self.manage(asked, async move |node| node.host_remove(name, v1::HostRemove { dry_run }).await).await;
        removed.map_err(|error| error.to_string())
    }

    /// Asks another host to forget a host, or what would be lost with it.
    pub async fn forget_host(&self, host: usize, how: v1::HostForget) -> Result<v1::HostLoss, String> {
        let (asked, name) = (self.asked_of(host)?, self.members[host].host.spoken_id().to_string());
        self.forgotten.borrow_mut().insert(host);
        self.manage(asked, async move |node| node.host_forget(name, how).await).await.map_err(|error| error.to_string())
    }

    /// Asks another host to take a host in again.
    pub async fn readmit_host(&self, host: usize) -> Result<(), String> {
        let (asked, name) = (self.asked_of(host)?, self.members[host].host.spoken_id().to_string());
        self.manage(asked, async move |node| node.host_readmit(name).await).await.map_err(|error| error.to_string())
    }

    /// The names of the hosts of the cluster, as another host lists them.
    pub async fn host_names(&self, host: usize) -> Result<Vec<String>, String> {
        let listed = self.manage(self.asked_of(host)?, async move |node| node.host_list().await).await;
        listed.map(|hosts| hosts.into_iter().map(|host| host.name).collect()).map_err(|error| error.to_string())
    }

    /// Has the disk groups of a host again: those that its devices hold, and new ones on blank ones.
    pub async fn have_groups(&self, n: usize) -> ApiResult<()> {
        for group in 0..self.shape.groups {
            let request = self.shape.group_request(group);
            let have = async move |node: Node<SimEnv>| {
                node.have_disk_group(request).await;
                Ok(())
            };
            self.manage(n, have).await?;
        }
        Ok(())
    }
}

/// Tries until it is done, or the time is over. Whether it was done.
async fn until_done(
    cluster: &Cluster,
    within: Duration,
    what: &str,
    act: impl AsyncFn() -> Result<(), String>,
) -> bool {
    let until = cluster.world.now() + within;
    let mut last = String::new();
    while cluster.world.now() < until {
        match act().await {
            Ok(()) => return true,
            Err(why) => last = why,
        }
        cluster.world.sleep(AGAIN_AFTER).await;
    }
    cluster.log.add(format!("{what}: {last}"));
    false
}

/// A host is emptied and removed; it goes on, and nobody hears it.
pub(crate) async fn remove(cluster: &Cluster, host: usize, lasts: Duration) {
    let until = cluster.world.now() + lasts;
    let mode = Some(MaintenanceMode::FullEvacuation);
    let entered = cluster.maintenance(host, HostMaintenance { enter: true, mode, dry_run: false, force: false }).await;
    let removed = match entered {
        Err(why) => {
            cluster.log.add(format!("h{host} is not emptied: {why}"));
            false
        }
        Ok(_) => {
            until_done(cluster, lasts, "it is not removed", async || match cluster.maintenance_of(host).await?.state {
                MaintenanceState::In => cluster.remove_host(host, false).await.map(drop),
                state => Err(format!("{state:?}")),
            })
            .await
        }
    };
    let now = cluster.world.now();
    if removed && now < until {
        cluster.world.sleep(until - now).await;
    }
    back(cluster, host).await;
    until_done(cluster, BACK_WITHIN, "it is not taken into use again", async || {
        cluster.maintenance(host, HostMaintenance::default()).await.map(drop)
    })
    .await;
}

/// A host dies and is forgotten, where nothing is lost with it; it starts with what it held.
pub(crate) async fn forget(cluster: &Cluster, host: usize, loss: u64, lasts: Duration) {
    let until = cluster.world.now() + lasts;
    cluster.server_of(host).for_each(|shard| cluster.members[shard].host.crash(loss));
    let forgotten = until_done(cluster, lasts, "it is not forgotten", async || {
        cluster.forget_host(host, HostForget::default()).await.map(drop)
    })
    .await;
    let now = cluster.world.now();
    if now < until {
        cluster.world.sleep(until - now).await;
    }
    if forgotten {
        cluster.server_of(host).for_each(|shard| cluster.start(shard));
        cluster.world.sleep(RETURNED_FOR).await;
    }
    back(cluster, host).await;
}

/// Whatever became of the host, it is one of the cluster again, and has disk groups.
pub(crate) async fn back(cluster: &Cluster, host: usize) {
    let back = async || {
        // What became of a call whose answer was lost is not known: so it is taken in whether it is gone or not.
        if let Err(why) = cluster.readmit_host(host).await
            && !why.contains("was removed or forgotten")
        {
            return Err(why);
        }
        for shard in cluster.server_of(host) {
            let Some(node) = cluster.node(shard) else {
                cluster.start(shard);
                return Err("it is down".into());
            };
            if let Some(why) = node.why_dismissed() {
                // It is taken in at its next start.
                cluster.members[shard].host.kill();
                cluster.start(shard);
                return Err(why);
            }
        }
        for shard in cluster.server_of(host) {
            cluster.have_groups(shard).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    until_done(cluster, BACK_WITHIN, "it is not one of the cluster again", back).await;
}
