//! `cairn what-if`: what would come of a loss, of maintenance or of another policy, before it does.

use cairn_api::v1::{self, DiskPolicySet, HostMaintenance, WhatIfLost};
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
    };
    let told = client.what_if_lost(&lost).await?;
    output::show(context.format, &told, show)
}

fn show(told: &v1::WhatIf) -> String {
    let names = |disks: &[String]| {
        let more = disks.len().saturating_sub(NAMED_MAX);
        let named = disks[..disks.len() - more].join("\n");
        if more == 0 { named } else { format!("{named}\nand {more} more") }
    };
    let count = |disks: &[String]| match disks.len() {
        0 => "none".to_owned(),
        n if n <= 3 => format!("{n}: {}", disks.join(", ")),
        n => n.to_string(),
    };
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
