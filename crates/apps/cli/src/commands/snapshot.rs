//! `cairn snapshot`.

use cairn_api::v1::{Snapshot, SnapshotCreate, split_snapshot};
use cairn_types::format_bytes;

use super::Context;
use crate::{args::Snapshot as Verb, confirm::confirm, fail::Fail, output, units};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let client = &context.client;
    match verb {
        Verb::List { disk } => {
            let snapshots = client.snapshot_list(disk).await?;
            output::show(context.format, &snapshots, |snapshots| list(snapshots))
        }
        Verb::Create { name, disks } => {
            let taken = client.snapshot_create(&SnapshotCreate { name, disks }).await?;
            output::show(context.format, &taken, |taken| list(taken))
        }
        Verb::Delete { snapshot, yes } => {
            let (disk, name) = split_snapshot(&snapshot)?;
            let all = client.snapshot_list(disk.to_owned()).await?;
            let found = all.iter().find(|one| one.name == name);
            let of = found.map_or(String::new(), |one| format!(", taken {}", units::ago(Some(one.created_unix_ms))));
            confirm(&format!("Delete snapshot {snapshot}{of}?"), yes)?;
            client.snapshot_delete(snapshot.clone()).await?;
            output::note(context.format, &format!("snapshot {snapshot} deleted"));
            Ok(())
        }
    }
}

fn list(snapshots: &[Snapshot]) -> String {
    let head = ["snapshot", "taken", "size of the disk"];
    output::table(
        &head,
        snapshots.iter().map(|one| {
            vec![
                format!("{}@{}", one.disk, one.name),
                units::ago(Some(one.created_unix_ms)),
                format_bytes(one.size_bytes),
            ]
        }),
    )
}
