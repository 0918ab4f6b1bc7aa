//! `cairn snapshot`.

use cairn_api::v1::{
    Changes, ChangesBetween, Snapshot, SnapshotCreate, SnapshotLock, SnapshotRollback, check_not_in_use, split_snapshot,
};
use cairn_types::{format_bytes, format_utc};

use super::Context;
use crate::{args::Snapshot as Verb, confirm::confirm, fail::Fail, output, progress, units};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let client = &context.client;
    match verb {
        Verb::List { disk } => {
            let snapshots = client.snapshot_list(disk).await?;
            output::show(context.format, &snapshots, |snapshots| list(snapshots))
        }
        Verb::Create { name, disks, locked_for } => {
            let locked_for_s = locked_for.unwrap_or(0);
            let taken = client.snapshot_create(&SnapshotCreate { name, disks, locked_for_s }).await?;
            output::show(context.format, &taken, |taken| list(taken))
        }
        Verb::Lock { snapshot, for_s, yes } => {
            let time = units::duration(for_s);
            confirm(
                &format!("Lock snapshot {snapshot} for {time}? Nobody can delete it, nor its disk, before that"),
                yes,
            )?;
            let locked = client.snapshot_lock(snapshot, &SnapshotLock { for_s }).await?;
            output::show(context.format, &locked, |locked| list(std::slice::from_ref(locked)))
        }
        Verb::Schedule(verb) => super::schedule::run(context, verb).await,
        Verb::Changes { snapshot, since } => {
            let changes = changes(context, &snapshot, since).await?;
            output::show(context.format, &changes, show_changes)
        }
        Verb::Rollback { snapshot, yes, discard, force, wait } => {
            let how = SnapshotRollback { force, discard };
            rollback(context, &snapshot, how, (yes, wait)).await
        }
        Verb::Delete { snapshot, yes } => {
            let taken = taken(context, &snapshot).await?;
            confirm(&format!("Delete snapshot {snapshot}{taken}?"), yes)?;
            client.snapshot_delete(snapshot.clone()).await?;
            output::note(context.format, &format!("snapshot {snapshot} deleted"));
            Ok(())
        }
    }
}

/// All of them, however many answers that takes.
async fn changes(context: &Context, snapshot: &str, from: Option<String>) -> Result<Changes, Fail> {
    let (disk, to) = split_snapshot(snapshot)?;
    let mut between = ChangesBetween { from, to: to.to_owned(), offset_bytes: 0 };
    let mut all: Option<Changes> = None;
    loop {
        let told = context.client.disk_changes(disk.to_owned(), &between).await?;
        let next = told.next_offset_bytes;
        let all = match &mut all {
            Some(all) => {
                all.extents.extend(told.extents);
                all
            }
            None => all.insert(told),
        };
        match next {
            Some(next) => between.offset_bytes = next,
            None => return Ok(Changes { next_offset_bytes: None, ..all.clone() }),
        }
    }
}

fn show_changes(changes: &Changes) -> String {
    let bytes: u64 = changes.extents.iter().map(|extent| extent.len_bytes).sum();
    let rows = changes.extents.iter().map(|extent| vec![extent.offset_bytes.to_string(), extent.len_bytes.to_string()]);
    let table = output::table(&["offset", "bytes"], rows);
    format!(
        "{} of {} in {} extents\n\n{table}",
        format_bytes(bytes),
        format_bytes(changes.size_bytes),
        changes.extents.len()
    )
}

/// When a snapshot was taken, as a part of a question.
async fn taken(context: &Context, snapshot: &str) -> Result<String, Fail> {
    let (disk, name) = split_snapshot(snapshot)?;
    let all = context.client.snapshot_list(disk.to_owned()).await?;
    let found = all.iter().find(|one| one.name == name);
    Ok(found.map_or(String::new(), |one| format!(", taken {}", units::ago(Some(one.created_unix_ms)))))
}

async fn rollback(
    context: &Context,
    snapshot: &str,
    how: SnapshotRollback,
    (yes, wait): (bool, bool),
) -> Result<(), Fail> {
    let (disk, _) = split_snapshot(snapshot)?;
    let client = &context.client;
    let shown = client.disk_show(disk.to_owned()).await?;
    if !how.force {
        check_not_in_use(&shown.summary.name, &shown.sessions)?;
    }
    let lost = if how.discard { "; what it has now is lost" } else { "" };
    let taken = taken(context, snapshot).await?;
    confirm(&format!("Have disk {disk} go back to {snapshot}{taken}{lost}?"), yes)?;
    let begun = client.snapshot_rollback(snapshot.to_owned(), &how).await?;
    if wait {
        let look = async || {
            let waits = client.disk_show(disk.to_owned()).await?.goes_back_to.is_some();
            let parts = client.resync_list().await?.into_iter().filter(|one| one.disk_name == begun.disk);
            Ok((waits, parts.map(|one| one.bytes_left).sum::<u64>()))
        };
        let now = look().await?;
        progress::while_moving(now, |now| now.1, |now| now.0, look).await?;
    }
    output::show(context.format, &begun, |begun| {
        let state = if wait {
            "it has what the snapshot has"
        } else {
            "begun; guests wait until it is done: see `cairn resync list`"
        };
        output::pairs([
            ("disk", begun.disk.clone()),
            ("goes back to", begun.to.clone()),
            ("state", state.into()),
            ("kept as", begun.kept.clone().unwrap_or_default()),
        ])
    })
}

fn list(snapshots: &[Snapshot]) -> String {
    let head = ["snapshot", "taken", "size of the disk", "schedule", "locked until"];
    output::table(
        &head,
        snapshots.iter().map(|one| {
            vec![
                format!("{}@{}", one.disk, one.name),
                units::ago(Some(one.created_unix_ms)),
                format_bytes(one.size_bytes),
                one.schedule.clone().unwrap_or_default(),
                one.locked_until_unix_ms.filter(|until| units::is_ahead(*until)).map_or(String::new(), format_utc),
            ]
        }),
    )
}
