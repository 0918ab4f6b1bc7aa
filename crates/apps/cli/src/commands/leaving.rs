//! `cairn host remove` and `cairn host forget`: what stands in the way, what would be lost, and the act.

use cairn_api::v1::{HostForget, HostLoss, HostRemoval, HostRemove};
use cairn_types::format_bytes;

use super::Context;
use crate::{confirm::confirm, fail::Fail, output, progress};

/// Disks that a table names in one cell.
const NAMED_MAX: usize = 20;

/// How a host is removed.
pub struct How {
    /// Only look.
    pub dry_run: bool,
    /// Until it is empty.
    pub wait: bool,
    /// Do not ask.
    pub yes: bool,
}

/// Removes a host that is empty.
pub async fn remove(context: &Context, host: String, how: How) -> Result<(), Fail> {
    let look = async || context.client.host_remove(host.clone(), &HostRemove { dry_run: true }).await;
    let now = look().await?;
    if how.dry_run {
        return output::show(context.format, &now, removal);
    }
    confirm(&format!("Remove host {} and its {} disk groups?", now.host, now.disk_groups.len()), how.yes)?;
    if how.wait {
        progress::while_moving(now, |now| now.bytes_left, |now| now.waits, look).await?;
    }
    let removed = context.client.host_remove(host, &HostRemove::default()).await?;
    output::note(context.format, &format!("host {} removed", removed.host));
    Ok(())
}

/// Forgets a host that is dead.
pub async fn forget(context: &Context, host: String, (dry_run, force): (bool, bool), yes: bool) -> Result<(), Fail> {
    let preview = context.client.host_forget(host.clone(), &HostForget { dry_run: true, force }).await?;
    if dry_run {
        return output::show(context.format, &preview, loss);
    }
    if !yes {
        output::note(context.format, &loss(&preview));
    }
    confirm(&format!("Forget host {} and what it holds?", preview.host), yes)?;
    let lost = context.client.host_forget(host, &HostForget { dry_run: false, force }).await?;
    let counts = format!("{} disks are rebuilt, {} are lost", lost.reduced.len(), lost.lost.len());
    output::note(context.format, &format!("host {} forgotten: {counts}", lost.host));
    member_left(&lost).into_iter().for_each(|text| output::note(context.format, &text));
    Ok(())
}

fn removal(of: &HostRemoval) -> String {
    let possible = if of.obstacles.is_empty() { "possible" } else { "refused" };
    output::pairs([
        ("host", of.host.clone()),
        ("state", format!("nothing was done; it would be {possible}")),
        ("answers", if of.up { "yes".into() } else { "no".into() }),
        ("disk groups", of.disk_groups.len().to_string()),
        ("components there", of.components.to_string()),
        ("to be moved", if of.bytes_left > 0 { format_bytes(of.bytes_left) } else { String::new() }),
        ("disks to hand over", of.disks_owned.to_string()),
        ("in the way", of.obstacles.join("\n")),
    ])
}

fn loss(of: &HostLoss) -> String {
    let lost = of.lost.len() + of.inaccessible.len() + of.unknown.len();
    let possible = match (of.heard_by.is_empty(), lost == 0 && !of.cut_off) {
        (false, _) => "refused",
        (true, true) => "possible",
        (true, false) => "refused without --force",
    };
    output::pairs([
        ("host", of.host.clone()),
        ("state", format!("nothing was done; it would be {possible}")),
        ("answers", named(&of.heard_by)),
        ("do not answer either", named(&of.silent)),
        ("disk groups", of.disk_groups.len().to_string()),
        ("disks there", of.disks.to_string()),
        ("components there", of.components.to_string()),
        ("rebuilt elsewhere", named(&of.reduced)),
        ("no place for now", of.not_rebuilt.join("\n")),
        ("not served", named(&of.inaccessible)),
        ("lost", named(&of.lost)),
        ("nobody answers for", named(&of.unknown)),
        ("directory", member_left(of).unwrap_or_default()),
    ])
}

/// What a host leaves behind in the directory.
fn member_left(of: &HostLoss) -> Option<String> {
    let host = &of.host;
    of.directory_member.then(|| {
        format!("its member of the directory stays listed: `cairn cluster members replace {host} HOST`, or remove it")
    })
}

/// One a line; of many, some.
fn named(all: &[String]) -> String {
    let more = all.len().saturating_sub(NAMED_MAX);
    let mut lines: Vec<String> = all[..all.len() - more].to_vec();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}
