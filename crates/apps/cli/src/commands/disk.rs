//! `cairn disk`.

use cairn_api::v1::{
    ChangedComponent, ComponentRole, Disk, DiskAttach, DiskChange, DiskCreate, DiskDelete, DiskMove, DiskPolicySet,
    DiskResize, DiskSummary, ObjectRecord, Session, check_not_in_use,
};
use cairn_types::format_bytes;

use super::{
    Context, image, latency, libvirt, watch,
    words::{health, state},
};
use crate::{args::Disk as Verb, confirm::confirm, fail::Fail, output, units};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let client = &context.client;
    let disk = match verb {
        Verb::List => {
            let disks = client.disk_list().await?;
            return output::show(context.format, &disks, |disks| list(disks));
        }
        Verb::Record { disk } => {
            let record = client.disk_record(disk).await?;
            return output::show(context.format, &record, show_record);
        }
        Verb::Xml(wanted) => return libvirt::run(context, wanted).await,
        Verb::Export(wanted) => return image::export(context, wanted).await,
        Verb::Import(wanted) => return image::import(context, wanted).await,
        Verb::Delete { disk, yes, force } => return delete(context, &disk, yes, force).await,
        Verb::Watch { disk, forever, interval_ms } => {
            return watch::disk(context, &disk, forever, interval_ms).await;
        }
        Verb::Latency { disk, since_start, seconds } => {
            let seconds = (!since_start).then_some(seconds);
            return latency::disk(context, &disk, seconds).await;
        }
        Verb::Show { disk } => client.disk_show(disk).await?,
        Verb::Create { name, size, policy, host, limits } => {
            let request = DiskCreate { name, size_bytes: size, policy, host, limits: limits.into() };
            client.disk_create(&request).await?
        }
        Verb::Set { disk, limits } => client.disk_set(disk, &limits.into()).await?,
        Verb::SetPolicy { disk, policy, dry_run, force } => {
            let request = DiskPolicySet { policy, dry_run, force };
            let change = client.disk_policy_set(disk, &request).await?;
            return output::show(context.format, &change, show_change);
        }
        Verb::Move { disk, from, to, dry_run } => {
            let change = client.disk_move(disk, &DiskMove { from, to, dry_run }).await?;
            return output::show(context.format, &change, show_change);
        }
        Verb::Resize { disk, size } => {
            let request = DiskResize { size_bytes: size };
            client.disk_resize(disk, &request).await?
        }
        Verb::Attach { disk, host } => {
            let request = DiskAttach { host };
            client.disk_attach(disk, &request).await?
        }
    };
    output::show(context.format, &disk, show)
}

/// Looks first: the question names what would be lost.
async fn delete(context: &Context, disk: &str, yes: bool, force: bool) -> Result<(), Fail> {
    let shown = context.client.disk_show(disk).await?;
    if !force {
        check_not_in_use(&shown.summary.name, &shown.sessions)?;
    }
    let in_use = match sessions(&shown, ", ") {
        none if none.is_empty() => none,
        sessions => format!(", though it is in use ({sessions})"),
    };
    let found = shown.summary;
    let size = format_bytes(found.size_bytes);
    confirm(&format!("Delete disk {} ({size}) and everything on it{in_use}?", found.name), yes)?;
    context.client.disk_delete(&found.name, &DiskDelete { force }).await?;
    output::note(context.format, &format!("disk {} deleted", found.name));
    Ok(())
}

/// Who has a disk open.
fn sessions(disk: &Disk, between: &str) -> String {
    disk.sessions.iter().map(Session::to_string).collect::<Vec<_>>().join(between)
}

fn list(disks: &[DiskSummary]) -> String {
    let head = ["name", "size", "policy", "owner", "health", "to resync"];
    output::table(
        &head,
        disks.iter().map(|disk| {
            vec![
                disk.name.clone(),
                format_bytes(disk.size_bytes),
                disk.policy.clone(),
                disk.owner.clone().unwrap_or("-".into()),
                health(disk.health).into(),
                match disk.resync_bytes_left {
                    0 => "-".into(),
                    bytes => format_bytes(bytes),
                },
            ]
        }),
    )
}

fn show(disk: &Disk) -> String {
    let summary = &disk.summary;
    let hosts: Vec<_> = disk.components.iter().map(|c| (c.host.to_string(), c.host_name.as_str())).collect();
    let text = output::pairs([
        ("disk", summary.name.clone()),
        ("id", summary.id.to_string()),
        ("size", format_bytes(summary.size_bytes)),
        ("allocated", disk.allocated_bytes.map_or(String::new(), format_bytes)),
        ("policy", format!("{} ({})", summary.policy, disk.rules.describe())),
        ("rows", disk.rows.map_or(String::new(), |rows| rows.describe())),
        ("health", health(summary.health).into()),
        ("because", summary.reasons.join("\n")),
        ("owner", summary.owner.clone().unwrap_or("nobody".into())),
        ("epoch", epoch(disk.epoch.as_deref(), &hosts)),
        ("configuration", disk.csn.to_string()),
        ("nbd", disk.nbd_uris.join("\n")),
        ("sessions", sessions(disk, "\n")),
        ("note", disk.notes.join("\n")),
    ]);
    let head = ["component", "role", "host", "fault domain", "disk group", "votes", "state"];
    let components = output::table(
        &head,
        disk.components.iter().map(|component| {
            vec![
                component.id.to_string()[..8].to_owned(),
                role(component.role),
                component.host_name.clone(),
                component.fault_domain.clone(),
                component.disk_group.to_string()[..8].to_owned(),
                component.votes.to_string(),
                match &component.problem {
                    Some(problem) => format!("{}, {problem}", state(component.state)),
                    None => state(component.state),
                },
            ]
        }),
    );
    format!("{text}\n\n{components}")
}

fn show_record(record: &ObjectRecord) -> String {
    let head = ["host", "disk group", "votes", "promised", "accepted", "csn", "open", "error"];
    let none = || "-".to_owned();
    let hosts: Vec<_> = record.seats.iter().map(|s| (s.host.to_string(), s.host_name.as_str())).collect();
    output::table(
        &head,
        record.seats.iter().map(|seat| {
            vec![
                seat.host_name.clone(),
                seat.disk_group.to_string()[..8].to_owned(),
                seat.votes.to_string(),
                epoch(seat.promised.as_deref().or(Some("-")), &hosts),
                epoch(seat.accepted.as_deref().or(Some("-")), &hosts),
                seat.csn.map_or_else(none, |csn| csn.to_string()),
                if seat.open { "yes" } else { "no" }.to_owned(),
                seat.error.clone().unwrap_or_default(),
            ]
        }),
    )
}

/// An epoch with its host's name in the place of its id, where the name is known.
fn epoch(epoch: Option<&str>, hosts: &[(String, &str)]) -> String {
    let mut text = epoch.unwrap_or_default().to_owned();
    for (id, name) in hosts {
        text = text.replace(id, name);
    }
    text
}

/// What a change of a disk in use comes to.
pub(super) fn show_change(change: &DiskChange) -> String {
    let lines = |of: &[ChangedComponent]| match of {
        [] => "nothing".to_owned(),
        some => some.iter().map(changed).collect::<Vec<_>>().join("\n"),
    };
    let policy = match change.policy_before == change.policy_after {
        true => change.policy_after.clone(),
        false => format!("{}, before: {}", change.policy_after, change.policy_before),
    };
    output::pairs([
        ("disk", change.disk.clone()),
        ("state", if change.begun { "begun" } else { "nothing was done" }.to_owned()),
        ("policy", policy),
        ("to be made", lines(&change.added)),
        ("to go", lines(&change.removed)),
        ("to be copied", copied(change)),
        ("space", space([change.bytes_before, change.bytes_after, change.bytes_peak])),
        ("meanwhile", meanwhile(change)),
        ("cannot be done now", change.obstacle.clone().unwrap_or_default()),
    ])
}

fn copied(change: &DiskChange) -> String {
    let bytes = change.bytes_to_copy.map_or("unknown".into(), format_bytes);
    match change.takes_s.filter(|_| change.bytes_to_copy != Some(0)) {
        Some(s) => format!("{bytes}, about {} at the rate of the last copies", units::duration(s)),
        None => bytes,
    }
}

/// Bytes that are taken before a change, after it, and at most meanwhile.
pub(super) fn space(bytes: [Option<u64>; 3]) -> String {
    let [before, after, peak] = bytes.map(|bytes| bytes.map_or("unknown".into(), format_bytes));
    format!("{before} now, {after} then, {peak} at most meanwhile")
}

fn meanwhile(change: &DiskChange) -> String {
    match change.ftt_meanwhile {
        0 => "a failure of a host stops it, as its policies allow".into(),
        1 => "it survives 1 failure, if it is whole now".into(),
        ftt => format!("it survives {ftt} failures, if it is whole now"),
    }
}

fn changed(of: &ChangedComponent) -> String {
    let bytes = of.bytes.map_or(String::new(), |bytes| format!(", {}", format_bytes(bytes)));
    format!("{} on host {}, disk group {}{bytes}", role(of.role), of.host_name, &of.disk_group.to_string()[..8])
}

fn role(role: ComponentRole) -> String {
    match role {
        ComponentRole::Data { set, copy } => format!("data {set}.{copy}"),
        ComponentRole::Witness => "witness".into(),
    }
}
