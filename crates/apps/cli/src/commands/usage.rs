//! What a disk takes, and what its snapshots keep: `cairn disk usage`, and what deleting a snapshot gives back.

use cairn_api::v1::{DiskUsage, NotCounted, SnapshotUsage, SpaceBytes, split_snapshot};
use cairn_types::format_bytes;

use super::{Context, words::role};
use crate::{fail::Fail, output, units};

/// Shows what a disk takes.
pub async fn disk(context: &Context, disk: String) -> Result<(), Fail> {
    let usage = context.client.disk_usage(disk).await?;
    output::show(context.format, &usage, show)
}

/// Shows what deleting a snapshot would give back.
pub async fn preview(context: &Context, snapshot: &str) -> Result<(), Fail> {
    let (usage, one) = of_snapshot(context, snapshot).await?;
    output::show(context.format, &one, |one| {
        output::pairs([
            ("snapshot", snapshot.to_owned()),
            ("taken", units::ago(Some(one.created_unix_ms))),
            ("comes back", space(one.alone)),
            ("not counted", not_counted(&usage.not_counted)),
        ])
    })
}

/// The same as a part of a question.
pub async fn gives_back(context: &Context, snapshot: &str) -> String {
    match of_snapshot(context, snapshot).await {
        Ok((usage, one)) => {
            let least = if usage.not_counted.is_empty() { "" } else { "at least " };
            format!(", and get back {least}{}", space(one.alone))
        }
        // It is deleted all the same, where it is there.
        Err(_) => String::new(),
    }
}

async fn of_snapshot(context: &Context, snapshot: &str) -> Result<(DiskUsage, SnapshotUsage), Fail> {
    let (disk, name) = split_snapshot(snapshot)?;
    let usage = context.client.disk_usage(disk.to_owned()).await?;
    let found = usage.snapshots.iter().find(|one| one.name == name).cloned();
    let one = found.ok_or_else(|| {
        Fail::refused(format!("disk {disk} has no snapshot {name:?}"))
            .remedy(format!("see `cairn snapshot list {disk}`"))
    })?;
    Ok((usage, one))
}

/// "3 GiB, on all hosts 6 GiB".
fn space(space: SpaceBytes) -> String {
    format!("{}, on all hosts {}", format_bytes(space.logical_bytes), format_bytes(space.raw_bytes))
}

fn not_counted(all: &[NotCounted]) -> String {
    let one = |one: &NotCounted| format!("{} on host {}: {}", role(one.role), one.host_name, one.problem);
    all.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// "3 GiB of golden@image-1: in no number here".
fn of_parents(usage: &DiskUsage, parent: &str) -> String {
    let bytes = usage.of_parents_bytes.map_or_else(|| "not known just now".to_owned(), format_bytes);
    format!("{bytes}, shared with {parent}, in no other number here")
}

fn show(usage: &DiskUsage) -> String {
    let some = |text: String, is_some: bool| if is_some { text } else { String::new() };
    let reserved = format!(
        "{} on all hosts, of which {} are not written",
        format_bytes(usage.reserved_bytes),
        format_bytes(usage.reserved_unwritten_bytes)
    );
    let all = usage.head.raw_bytes + usage.kept.raw_bytes + usage.leaving.raw_bytes + usage.reserved_unwritten_bytes;
    let text = output::pairs([
        ("disk", usage.disk.clone()),
        ("policy", usage.policy.clone()),
        ("size", format_bytes(usage.size_bytes)),
        ("written", space(usage.head)),
        ("of its parent", usage.clone_of.as_deref().map_or(String::new(), |parent| of_parents(usage, parent))),
        ("snapshots", some(space(usage.kept), !usage.snapshots.is_empty())),
        ("coming back", some(space(usage.leaving), usage.leaving != SpaceBytes::default())),
        ("reserved", some(reserved, usage.reserved_bytes > 0)),
        ("takes", format!("{} on all hosts", format_bytes(all))),
        ("not counted", not_counted(&usage.not_counted)),
    ]);
    if usage.snapshots.is_empty() {
        return text;
    }
    let head = ["snapshot", "taken", "deleted alone gives back", "on all hosts"];
    let table = output::table(
        &head,
        usage.snapshots.iter().map(|one| {
            vec![
                format!("{}@{}", usage.disk, one.name),
                units::ago(Some(one.created_unix_ms)),
                format_bytes(one.alone.logical_bytes),
                format_bytes(one.alone.raw_bytes),
            ]
        }),
    );
    format!("{text}\n\n{table}")
}
