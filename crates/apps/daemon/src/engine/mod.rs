//! From a plan to running hosts: identities, the directory, then each host on its shard.
//!
//! Promises    whatever was started is stopped again when a later step fails
//!             the engine is compiled once, into this crate: what a program calls here is boxed, so that the program does
//!             not compile its own copy of every generic async function below (two minutes each)
//! Not here    what a host does (`node`), the API (`http`)

mod directory;
mod fronts;
mod host;
mod outside;
mod returning;
mod shards;

pub use directory::{ClusterDirectory, join, open_directory};
pub use host::{HostParts, RunningHost, start_host};
pub use shards::Siblings;

use std::{sync::Arc, time::Duration};

use cairn_api::Management;
use cairn_env_linux::{Executor, ExecutorConfig, Fabric, IoChoice};
use cairn_types::HostId;
use futures::{FutureExt as _, future::LocalBoxFuture};
use tokio::sync::mpsc;

use crate::{
    identity::Identity,
    plan::{HostPlan, Plan},
    supervise::{Running, StartError},
};

/// Starts every host of the plan.
///
/// # Errors
/// What failed, with the remedy; whatever was started is stopped again.
pub fn start(plan: &Plan) -> LocalBoxFuture<'_, Result<Running, StartError>> {
    start_all(plan).boxed_local()
}

async fn start_all(plan: &Plan) -> Result<Running, StartError> {
    let (mut servers, mut identities) = open_servers(plan)?;
    let directory = open_directory(plan, &identities).await?;
    returning::take_back(&servers, directory.cluster, &directory.registry, &mut identities).await?;
    join(&directory, &mut identities)?;
    let mut of_servers = identities.as_slice();
    for shards in &mut servers {
        let (own, others) = of_servers.split_at(shards.len());
        returning::deal_by_superblocks(shards, own);
        of_servers = others;
    }
    let executors = spawn_executors(plan)?;
    let fabric = (identities.len() > 1).then(Fabric::new);
    let (ended, mut ends) = mpsc::unbounded_channel();
    let mut identities = identities.into_iter();
    let mut hosts = Vec::new();
    for shards in &servers {
        let identities: Vec<Identity> = identities.by_ref().take(shards.len()).collect();
        let ids: Vec<HostId> = identities.iter().map(Identity::host).collect();
        let views = Siblings::of(&ids);
        let mut running = Vec::new();
        // The first shard last: it listens for peers and guests, and whom they ask for must be there.
        for (number, ((shard, identity), siblings)) in shards.iter().zip(identities).zip(views).enumerate().rev() {
            let executor = &executors[number % executors.len()];
            let parts = HostParts { plan, host: shard, directory: &directory, executor, fabric: fabric.as_ref() };
            let host = start_host(parts, Arc::new(identity), siblings).await?;
            let (name, over) = (shard.name.clone(), host.ended.clone());
            let ended = ended.clone();
            tokio::spawn(async move {
                let how = over.wait().await;
                let _ = ended.send(format!("host {name} ended: {how}"));
            });
            running.push(host);
        }
        hosts.extend(running.into_iter().rev());
    }
    let first = hosts.first().expect("a plan has a host");
    let management: Arc<dyn Management> = first.bridge.clone();
    let pulses: Vec<_> = hosts.iter().map(|h| h.bridge.clone()).collect();
    Ok(Running {
        management,
        pulse: Box::new(move || {
            let pulses = pulses.clone();
            Box::pin(async move {
                for bridge in pulses {
                    if !bridge.pulse().await {
                        return false;
                    }
                }
                true
            })
        }),
        ended: Box::pin(async move { ends.recv().await.unwrap_or_else(|| "its shards are gone".into()) }),
        stop: Box::new(move || {
            Box::pin(async move {
                for host in hosts {
                    host.stop().await;
                }
                drop(executors);
                drop(directory);
            })
        }),
    })
}

/// The shards of each server of the plan, and the identities of all.
fn open_servers(plan: &Plan) -> Result<(Vec<Vec<HostPlan>>, Vec<Identity>), StartError> {
    let (mut servers, mut identities) = (Vec::new(), Vec::new());
    for host in &plan.hosts {
        // Its lock first: nobody else changes what is read there.
        let first = Identity::open(&host.data_dir).map_err(StartError::refused)?;
        let shards = shards::shards_of(host).map_err(StartError::refused)?;
        identities.push(first);
        for shard in &shards[1..] {
            identities.push(Identity::open(&shard.data_dir).map_err(StartError::refused)?);
        }
        servers.push(shards);
    }
    Ok((servers, identities))
}

/// As many threads as a server has shards. Embedded hosts share one: a message between them never wakes another processor.
fn spawn_executors(plan: &Plan) -> Result<Vec<Executor>, StartError> {
    let count = plan.hosts.iter().map(|host| host.shards).max().unwrap_or(1);
    (1..=count).map(|number| spawn_executor(number, plan.busy_poll_max)).collect()
}

/// The thread of this number, from 1, for shards; it looks for work for at most `busy_poll_max` before it sleeps.
///
/// # Errors
/// The system refuses one.
pub fn spawn_executor(number: u32, busy_poll_max: Duration) -> Result<Executor, StartError> {
    let config = ExecutorConfig { name: format!("cairn-shard-{number}"), io: IoChoice::default(), busy_poll_max };
    Executor::spawn(config).map_err(|e| StartError::refused(format!("cannot start a shard thread: {e}")))
}
