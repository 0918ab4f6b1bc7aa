//! From a plan to running hosts: identities first, then the engine on its shards.

use crate::{
    identity::Identity,
    plan::Plan,
    supervise::{Running, StartError},
};

/// Starts every host of the plan.
///
/// # Errors
/// What failed, with the remedy; whatever was started is stopped again.
pub async fn start(plan: &Plan) -> Result<Running, StartError> {
    let mut identities = Vec::new();
    for host in &plan.hosts {
        identities.push(Identity::open(&host.data_dir).map_err(StartError::refused)?);
    }
    Err(StartError::refused(format!(
        "the engine of this build is not connected yet; {} identities are in order",
        identities.len()
    )))
}
