//! From a plan to running hosts: identities, the directory, then each host on its shard.
//!
//! Promises    whatever was started is stopped again when a later step fails
//!             the engine is compiled once, into this crate: what a program calls here is boxed, so that the program does
//!             not compile its own copy of every generic async function below (two minutes each)
//! Not here    what a host does (`node`), the API (`http`)

mod directory;
mod host;
mod outside;

pub use directory::{ClusterDirectory, open_directory};
pub use host::{HostParts, RunningHost, start_host};

use std::sync::Arc;

use cairn_api::Management;
use cairn_env_linux::{Executor, ExecutorConfig, Fabric, IoChoice};
use futures::{FutureExt as _, future::LocalBoxFuture};
use tokio::sync::mpsc;

use crate::{
    identity::Identity,
    plan::Plan,
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
    let mut identities = Vec::new();
    for host in &plan.hosts {
        identities.push(Identity::open(&host.data_dir).map_err(StartError::refused)?);
    }
    let directory = open_directory(plan, &mut identities).await?;
    // Hosts of one process share a thread: a message between them never wakes another processor.
    let executor = spawn_executor()?;
    let fabric = (plan.hosts.len() > 1).then(Fabric::new);
    let mut hosts = Vec::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    for (host_plan, identity) in plan.hosts.iter().zip(identities) {
        let parts =
            HostParts { plan, host: host_plan, directory: &directory, executor: &executor, fabric: fabric.as_ref() };
        let running = start_host(parts, Arc::new(identity)).await?;
        let (name, over) = (host_plan.name.clone(), running.ended.clone());
        let ended = ended.clone();
        tokio::spawn(async move {
            let how = over.wait().await;
            let _ = ended.send(format!("host {name} ended: {how}"));
        });
        hosts.push(running);
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
                drop(executor);
                drop(directory);
            })
        }),
    })
}

/// A thread for shards.
///
/// # Errors
/// The system refuses one.
pub fn spawn_executor() -> Result<Executor, StartError> {
    let config = ExecutorConfig { name: "cairn-shard-0".into(), io: IoChoice::default() };
    Executor::spawn(config).map_err(|e| StartError::refused(format!("cannot start a shard thread: {e}")))
}
