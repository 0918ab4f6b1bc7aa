//! `cairn host maintenance`.

use std::time::Duration;

use cairn_api::v1::{HostMaintenance, Maintenance, MaintenanceState};
use cairn_types::{MaintenanceMode, format_bytes};

use super::Context;
use crate::{args::Maintenance as Verb, fail::Fail, output, progress, units};

/// Between two looks at what is left.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let answer = match verb {
        Verb::Show { host } => context.client.host_maintenance_show(host).await?,
        Verb::Enter { host, mode, dry_run, force, wait } => {
            let request = HostMaintenance { enter: true, mode: Some(mode), dry_run, force };
            let entered = context.client.host_maintenance(host.clone(), &request).await?;
            if dry_run {
                return output::show(context.format, &entered, preview);
            }
            if wait { wait_until_in(context, host, entered).await? } else { entered }
        }
        Verb::Leave { host } => context.client.host_maintenance(host, &HostMaintenance::default()).await?,
    };
    output::show(context.format, &answer, show)
}

/// Shows meanwhile what is left to move. Whoever interrupts it ends the waiting, not the moves.
async fn wait_until_in(context: &Context, host: String, mut now: Maintenance) -> Result<Maintenance, Fail> {
    let bar = progress::bytes_bar("moved", now.bytes_left);
    while now.state == MaintenanceState::Entering && now.obstacles.is_empty() {
        tokio::time::sleep(LOOK_EVERY).await;
        now = context.client.host_maintenance_show(host.clone()).await?;
        // Guests write meanwhile: there may be more to move than there was.
        let total = bar.length().unwrap_or(0).max(now.bytes_left);
        bar.set_length(total);
        bar.set_position(total - now.bytes_left);
    }
    bar.finish_and_clear();
    Ok(now)
}

fn show(of: &Maintenance) -> String {
    let state = match of.state {
        MaintenanceState::Out => "in use",
        MaintenanceState::Entering => "entering maintenance: do not stop it yet",
        MaintenanceState::In => "in maintenance: it may be stopped",
    };
    facts(of, state.to_owned())
}

fn preview(of: &Maintenance) -> String {
    let possible = if of.obstacles.is_empty() && of.inaccessible.is_empty() { "possible" } else { "refused" };
    facts(of, format!("nothing was done; entering would be {possible}"))
}

fn facts(of: &Maintenance, state: String) -> String {
    let lines = |all: &[String]| all.join("\n");
    output::pairs([
        ("host", of.host.clone()),
        ("state", state),
        ("mode", of.mode.map_or(String::new(), |mode| mode.name().to_owned())),
        ("disks there", of.disks.to_string()),
        ("to be moved", moved(of)),
        ("time left", of.eta_s.map_or(String::new(), units::duration)),
        ("cannot be moved", lines(&of.obstacles)),
        ("not served meanwhile", lines(&of.inaccessible)),
        ("with less redundancy", of.reduced.to_string()),
    ])
}

fn moved(of: &Maintenance) -> String {
    match (of.components_left, of.mode) {
        (0, None | Some(MaintenanceMode::NoEvacuation)) => "nothing".into(),
        (0, Some(_)) => "nothing more".into(),
        (n, _) => format!("{n} components, {}", format_bytes(of.bytes_left)),
    }
}
