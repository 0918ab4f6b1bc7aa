//! `cairn what-if`: what would come of a loss, of maintenance or of another policy, before it does.

use cairn_api::v1::{self, DiskPolicySet, HostMaintenance, WhatIfGrowth, WhatIfLost};
use cairn_types::format_bytes;

use super::{Context, disk::show_change, maintenance};
use crate::{args::WhatIf as Verb, fail::Fail, output, units};

/// Disks that a list names.
const NAMED_MAX: usize = 20;

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let client = &context.client;
    let lost = match verb {
        Verb::HostLoss { host } => WhatIfLost { host: Some(host), ..WhatIfLost::default() },
        Verb::DeviceLoss { disk_group, device } => {
            let found = super::disk_group::find(context, &disk_group).await?;
            WhatIfLost { disk_group: Some(found.id), device, ..WhatIfLost::default() }
        }
        Verb::Maintenance { host, mode } => {
            let request = HostMaintenance { enter: true, mode: Some(mode), dry_run: true, force: false };
            let told = client.host_maintenance(host, &request).await?;
            return output::show(context.format, &told, maintenance::preview);
        }
        Verb::Policy { disk, policy } => {
            let request = DiskPolicySet { policy, dry_run: true, force: false };
            let change = client.disk_policy_set(disk, &request).await?;
            return output::show(context.format, &change, show_change);
        }
        Verb::Grow { hosts, devices, disk_group, device_size } => {
            let disk_group = match disk_group {
                Some(group) => Some(super::disk_group::find(context, &group).await?.id),
                None => None,
            };
            let growth = WhatIfGrowth { hosts, devices, disk_group, device_bytes: device_size };
            let told = client.what_if_growth(&growth).await?;
            return output::show(context.format, &told, show_growth);
        }
    };
    let told = client.what_if_lost(&lost).await?;
    output::show(context.format, &told, show)
}

/// One a line; of many, some.
fn names(disks: &[String]) -> String {
    let more = disks.len().saturating_sub(NAMED_MAX);
    let named = disks[..disks.len() - more].join("\n");
    if more == 0 { named } else { format!("{named}\nand {more} more") }
}

/// How many, and which where they are few.
fn count(disks: &[String]) -> String {
    match disks.len() {
        0 => "none".to_owned(),
        n if n <= 3 => format!("{n}: {}", disks.join(", ")),
        n => n.to_string(),
    }
}

fn show_growth(told: &v1::Growth) -> String {
    let known = |bytes: Option<u64>| bytes.map_or("unknown".into(), format_bytes);
    let more = if told.more_moves { "at least " } else { "" };
    let moves = format!("{more}{} components, {}", told.moved_components, known(told.moved_bytes));
    output::pairs([
        ("added", told.added_is.clone()),
        ("hosts then", told.hosts_after.to_string()),
        ("capacity", format!("{}, now {}", format_bytes(told.raw_bytes_after), format_bytes(told.raw_bytes_before))),
        ("free", format!("{}, now {}", format_bytes(told.free_bytes_after), format_bytes(told.free_bytes_before))),
        ("get the copies that they lack", count(&told.completed)),
        ("copied for that", known(told.completed_bytes)),
        ("lack copies then, too", names(&told.still_lacking)),
        ("nobody answers for", names(&told.unknown)),
        ("moved by rebalancing", moves),
        ("takes", told.takes_s.map_or("unknown: nothing was copied yet".into(), units::duration)),
    ])
}

fn show(told: &v1::WhatIf) -> String {
    let bytes = told.rebuilt_bytes.map_or("unknown".into(), format_bytes);
    output::pairs([
        ("lost", told.lost_is.clone()),
        ("disks there", format!("{}, {} components", told.disks, told.components)),
        ("lose their data", names(&told.lost)),
        ("not served until others return", names(&told.inaccessible)),
        ("nobody answers for", names(&told.unknown)),
        ("go on with less redundancy", count(&told.reduced)),
        ("rebuilt elsewhere", format!("{} components, {bytes}", told.rebuilt_components)),
        ("have no place elsewhere", names(&told.not_rebuilt)),
        ("free elsewhere then", format_bytes(told.free_bytes)),
        (
            "rebuild begins",
            told.begins_after_s.map_or("at once".into(), |s| format!("after the repair delay, {}", units::duration(s))),
        ),
        ("rebuild takes", told.rebuild_s.map_or("unknown: nothing was copied yet".into(), units::duration)),
    ])
}
