//! `cairn host maintenance` and `cairn disk-group drain`: what is emptied, and how far that is.

use cairn_api::v1::{DiskGroupDrain, HostMaintenance, Maintenance, MaintenanceState};
use cairn_types::{DiskGroupId, MaintenanceMode, format_bytes};

use super::Context;
use crate::{args::Maintenance as Verb, fail::Fail, output, progress, units};

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
            if wait {
                let now = until_in(entered, async || context.client.host_maintenance_show(host.clone()).await).await?;
                return output::show(context.format, &now, show).and_then(|()| judge(&now));
            }
            entered
        }
        Verb::Leave { host } => context.client.host_maintenance(host, &HostMaintenance::default()).await?,
    };
    output::show(context.format, &answer, show)
}

/// Empties a disk group, or stops that.
pub async fn drain(context: &Context, id: DiskGroupId, request: &DiskGroupDrain, wait: bool) -> Result<(), Fail> {
    let answer = context.client.disk_group_drain(id, request).await?;
    if request.dry_run {
        return output::show(context.format, &answer, preview);
    }
    if wait {
        let now = until_in(answer, async || context.client.disk_group_drain_show(id).await).await?;
        return output::show(context.format, &now, show).and_then(|()| judge(&now));
    }
    output::show(context.format, &answer, show)
}

/// Whoever waits must not go on where something is left.
fn judge(now: &Maintenance) -> Result<(), Fail> {
    match now.state {
        MaintenanceState::In => Ok(()),
        MaintenanceState::Out => Err(Fail::refused("it was taken into use again meanwhile")),
        MaintenanceState::Entering => {
            Err(Fail::refused(format!("{} components are left that cannot be moved now", now.components_left))
                .remedy("add a host or capacity, or give the command again: what can be moved goes on being moved"))
        }
    }
}

async fn until_in(now: Maintenance, look: impl AsyncFn() -> Result<Maintenance, Fail>) -> Result<Maintenance, Fail> {
    let waits = |now: &Maintenance| now.state == MaintenanceState::Entering && now.obstacles.is_empty();
    progress::while_moving(now, |now| now.bytes_left, waits, look).await
}

fn show(of: &Maintenance) -> String {
    let state = match (of.state, of.disk_group) {
        (MaintenanceState::Out, _) => "in use",
        (MaintenanceState::Entering, None) => "entering maintenance: do not stop it yet",
        (MaintenanceState::In, None) => "in maintenance: it may be stopped",
        (MaintenanceState::Entering, Some(_)) => "being emptied",
        (MaintenanceState::In, Some(_)) => "empty: it may be removed",
    };
    facts(of, state.to_owned())
}

/// What would come of it.
pub(super) fn preview(of: &Maintenance) -> String {
    let possible = if of.obstacles.is_empty() && of.inaccessible.is_empty() { "possible" } else { "refused" };
    facts(of, format!("nothing was done; it would be {possible}"))
}

fn facts(of: &Maintenance, state: String) -> String {
    let lines = |all: &[String]| all.join("\n");
    let mode = of.mode.filter(|_| of.disk_group.is_none());
    output::pairs([
        ("host", of.host.clone()),
        ("disk group", of.disk_group.map_or(String::new(), |id| id.to_string())),
        ("state", state),
        ("mode", mode.map_or(String::new(), |mode| mode.name().to_owned())),
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
