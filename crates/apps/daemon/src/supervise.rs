//! The life of the process: start the engine, serve the API, tell the service manager, wait for the end, stop in order.
//!
//! Promises    a signal stops the API first, then the engine; the watchdog hears "alive" only while every shard takes calls
//! Not here    what the engine is made of (`engine`)

use std::{sync::Arc, time::Duration};

use cairn_api::{BoxFuture, Management};
use tokio::signal::unix::{SignalKind, signal};

use crate::{addresses, exit::Exit, http::ApiServer, notify, plan::Plan};

/// How long a shard may take for a pulse before the watchdog goes without.
const PULSE_WAIT: Duration = Duration::from_secs(10);

/// Hosts that run.
pub struct Running {
    /// Who answers the API.
    pub management: Arc<dyn Management>,
    /// Whether every shard still takes calls.
    pub pulse: Box<dyn Fn() -> BoxFuture<'static, bool>>,
    /// Resolves with the reason when the engine ends by itself.
    pub ended: BoxFuture<'static, String>,
    /// Stops the engine: drains, gives up its objects, closes its disk groups.
    pub stop: Box<dyn FnOnce() -> BoxFuture<'static, ()>>,
}

/// Why it could not start.
#[derive(Debug)]
pub struct StartError {
    /// How the process ends.
    pub exit: Exit,
    /// What failed and what to do about it.
    pub message: String,
}

impl StartError {
    /// A failure that ends the process with code 1.
    pub fn refused(message: impl ToString) -> Self {
        Self { exit: Exit::Refused, message: message.to_string() }
    }
}

/// Runs `plan` with hosts made by `start`, until a signal or the engine ends it.
///
/// # Errors
/// What failed at start, or why the engine ended.
pub async fn supervise<F>(plan: &Plan, start: F) -> Result<(), StartError>
where
    F: AsyncFnOnce(&Plan) -> Result<Running, StartError>,
{
    // Before anything is started: a signal during a long start must not kill it half way.
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::refused)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::refused)?;
    addresses::check_free(plan).map_err(StartError::refused)?;
    let running = tokio::select! {
        running = start(plan) => running?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let api = ApiServer::start(&plan.api, running.management.clone()).map_err(StartError::refused)?;
    announce(plan, &api);

    let outcome = tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        reason = running.ended => Err(StartError::refused(format!("the engine ended: {reason}"))),
        never = watch_over(&*running.pulse) => match never {},
    };
    tracing::info!("stopping");
    notify::stopping();
    drop(api);
    (running.stop)().await;
    tracing::info!("stopped");
    outcome
}

fn announce(plan: &Plan, api: &ApiServer) {
    let names: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    let names = names.join(", ");
    tracing::info!(hosts = names, api = ?api.tcp, socket = ?plan.api.socket, "serving");
    notify::ready(&format!("{names} serving"));
}

/// Tells the service manager that the daemon is alive, as long as it is. Never returns.
async fn watch_over(pulse: &dyn Fn() -> BoxFuture<'static, bool>) -> std::convert::Infallible {
    let Some(interval) = notify::watchdog_interval() else {
        return std::future::pending().await;
    };
    loop {
        match tokio::time::timeout(PULSE_WAIT, pulse()).await {
            Ok(true) => notify::alive(),
            Ok(false) | Err(_) => tracing::error!("a shard takes no calls: no sign of life sent"),
        }
        tokio::time::sleep(interval).await;
    }
}
