//! `cairn cluster`.

use cairn_api::v1::{ClusterSettings, ClusterSettingsPatch, ClusterStatus, RepairPause, Severity};
use cairn_types::format_bytes;

use super::{Context, capacity, members, new_hosts, upgrade};
use crate::{
    args::Cluster,
    fail::Fail,
    output,
    units::{duration, percent},
};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Cluster) -> Result<(), Fail> {
    match verb {
        Cluster::Status => {
            let status = context.client.cluster_status().await?;
            output::show(context.format, &status, show_status)
        }
        Cluster::Capacity => capacity::run(context).await,
        Cluster::Settings {
            repair_delay_s,
            scrub_period_days,
            rebuild_reserve_hosts,
            rebalance_points,
            slow_devices,
        } => {
            let patch = ClusterSettingsPatch {
                repair_delay_s,
                rebuild_reserve_hosts,
                rebalance_points,
                scrub_period_days,
                slow_devices,
            };
            let settings = match patch == ClusterSettingsPatch::default() {
                true => context.client.cluster_settings().await?,
                false => context.client.cluster_settings_set(&patch).await?,
            };
            output::show(context.format, &settings, show_settings)
        }
        Cluster::PauseRepair { for_s } => pause(context, for_s).await,
        Cluster::ResumeRepair => pause(context, 0).await,
        Cluster::Upgrade(verb) => upgrade::run(context, verb).await,
        Cluster::Members { verb } => members::run(context, verb).await,
        Cluster::Init(init) => new_hosts::init(context.format, &init),
    }
}

async fn pause(context: &Context, for_s: u64) -> Result<(), Fail> {
    let settings = context.client.cluster_pause_repair(&RepairPause { for_s }).await?;
    output::show(context.format, &settings, show_settings)
}

fn show_status(status: &ClusterStatus) -> String {
    let space = &status.capacity;
    let mut text = output::pairs([
        ("cluster", status.name.clone()),
        ("id", status.id.to_string()),
        ("release", status.version.clone()),
        ("answered by", status.answered_by.clone()),
        ("health", severity(status.health).into()),
        ("hosts", format!("{} of {} up", status.hosts_up, status.hosts_total)),
        ("disk groups", status.disk_groups.to_string()),
        ("disks", format!("{}, {} provisioned", status.disks, format_bytes(status.provisioned_bytes))),
        (
            "capacity",
            format!(
                "{} raw, {} used ({}), {} free",
                format_bytes(space.raw_bytes),
                format_bytes(space.used_bytes),
                percent(space.used_bytes, space.raw_bytes),
                format_bytes(space.free_bytes)
            ),
        ),
        (
            "directory",
            match status.directory.reachable {
                true => status.directory.kind.clone(),
                false => format!("{}, not reachable: I/O goes on, management waits", status.directory.kind),
            },
        ),
    ]);
    for problem in &status.problems {
        text += &format!("\n- {problem}");
    }
    text
}

fn show_settings(settings: &ClusterSettings) -> String {
    output::pairs([
        ("repair_delay_s", format!("{} ({})", settings.repair_delay_s, duration(settings.repair_delay_s))),
        ("lease_ms", format!("{} (as the cluster was made)", settings.lease_ms)),
        (
            "scrub_period_days",
            match settings.scrub_period_days {
                0 => "0 (only when asked)".into(),
                days => days.to_string(),
            },
        ),
        ("rebuild_reserve_hosts", settings.rebuild_reserve_hosts.to_string()),
        (
            "rebalance_points",
            match settings.rebalance_points {
                0 => "0 (never)".into(),
                points => points.to_string(),
            },
        ),
        ("slow_devices", settings.slow_devices.name().into()),
        (
            "repair",
            match settings.repair_paused_s {
                0 => "not paused".into(),
                left => format!("paused for {} more", duration(left)),
            },
        ),
    ])
}

/// A severity in a word.
pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "ok",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}
