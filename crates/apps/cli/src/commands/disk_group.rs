//! `cairn disk-group`.

use cairn_api::v1::{
    Device, DeviceChange, DeviceState, DiskGroup, DiskGroupAddCapacity, DiskGroupCreate, DiskGroupDrain,
    DiskGroupFiles, DiskGroupReplaceDevice, DiskGroupSettings, DiskGroupState, Rewriting, SlowDevice,
};
use cairn_types::format_bytes;

use super::{Context, capacity, maintenance};
use crate::{
    args::DiskGroup as Verb,
    confirm::confirm,
    fail::Fail,
    output,
    units::{ago, duration, percent},
};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    match verb {
        Verb::List => {
            let groups = context.client.disk_group_list().await?;
            output::show(context.format, &groups, |groups| list(groups))
        }
        Verb::Show { disk_group } => {
            let group = find(context, &disk_group).await?;
            output::show(context.format, &group, show)
        }
        Verb::Create { host, cache, capacity, cache_file_size, capacity_file_size, overwrite, yes } => {
            let request = DiskGroupCreate {
                host,
                cache: path(&cache)?,
                capacity: capacity.iter().map(path).collect::<Result<_, _>>()?,
                files: cache_file_size
                    .zip(capacity_file_size)
                    .map(|(cache_bytes, capacity_bytes)| DiskGroupFiles { cache_bytes, capacity_bytes }),
                overwrite,
            };
            if overwrite {
                let devices = [std::slice::from_ref(&request.cache), &request.capacity].concat();
                let question = format!("Everything on {} will be lost. Go on?", devices.join(", "));
                confirm(&question, yes)?;
            }
            let group = context.client.disk_group_create(&request).await?;
            output::show(context.format, &group, show)
        }
        Verb::Drain { disk_group, dry_run, force, wait, stop } => {
            let group = find(context, &disk_group).await?;
            let request = DiskGroupDrain { drain: !stop, dry_run, force };
            maintenance::drain(context, group.id, &request, wait).await
        }
        Verb::AddCapacity { disk_group, device, dry_run, overwrite, yes } => {
            let group = find(context, &disk_group).await?;
            let request = DiskGroupAddCapacity { device: path(&device)?, overwrite, dry_run };
            if overwrite && !dry_run {
                confirm(&format!("Everything on {} will be lost. Go on?", request.device), yes)?;
            }
            let change = context.client.disk_group_add_capacity(group.id, &request).await?;
            output::show(context.format, &change, |change| show_change(change, dry_run))
        }
        Verb::ReplaceDevice { disk_group, device, with, dry_run, force, overwrite, yes } => {
            let group = find(context, &disk_group).await?;
            let request = DiskGroupReplaceDevice { device, with: path(&with)?, overwrite, dry_run, force };
            if !dry_run {
                let question = format!("What is on {} will be lost. Go on?", request.device);
                confirm(&question, yes)?;
            }
            let change = context.client.disk_group_replace_device(group.id, &request).await?;
            output::show(context.format, &change, |change| show_change(change, dry_run))
        }
        Verb::Set { disk_group, compression, dedupe, rewrite } => {
            let group = find(context, &disk_group).await?;
            let settings = DiskGroupSettings { compression, deduplication: dedupe, rewrite };
            let group = match settings == DiskGroupSettings::default() {
                true => group,
                false => context.client.disk_group_set(group.id, &settings).await?,
            };
            output::show(context.format, &group, show)
        }
        Verb::Remove { disk_group, yes } => {
            let group = find(context, &disk_group).await?;
            confirm(&format!("Remove disk group {} of {}?", group.id, group.host_name), yes)?;
            context.client.disk_group_remove(group.id).await?;
            output::note(context.format, &format!("disk group {} removed", group.id));
            Ok(())
        }
    }
}

fn path(path: &std::path::PathBuf) -> Result<String, Fail> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Fail::usage(format!("{path:?} is not readable as text"))),
    }
}

fn show_change(change: &DeviceChange, dry_run: bool) -> String {
    let lost = || format!("{} with {}", change.components_lost, format_bytes(change.bytes_lost));
    output::pairs([
        ("preview", if dry_run { "nothing was changed".into() } else { String::new() }),
        ("host", change.host.clone()),
        ("disk group", change.disk_group.to_string()),
        ("made anew", if change.made_anew { "all of it is lost".into() } else { String::new() }),
        ("device", format!("{} ({})", change.device, format_bytes(change.size_bytes))),
        ("usable", if change.usable_bytes > 0 { format_bytes(change.usable_bytes) } else { String::new() }),
        ("instead of", change.instead_of.clone().unwrap_or_default()),
        ("components lost", change.instead_of.as_ref().map_or(String::new(), |_| lost())),
        ("disks reduced", change.reduced.join(", ")),
        ("disks lost", change.last_copies.join(", ")),
        ("note", change.notes.join("\n")),
    ])
}

fn rewriting(of: Rewriting) -> String {
    let left = of.left_s.map_or(String::new(), |s| format!(", about {} left", duration(s)));
    let room = if of.lacks_room { "; waits for room: give it a capacity device more, or delete something" } else { "" };
    format!("{}{left}{room}", percent(of.done_segments, of.segments))
}

fn on_or_off(setting: Option<bool>) -> String {
    setting.map_or("", |on| if on { "on" } else { "off" }).into()
}

/// The disk group whose id begins with `prefix`.
pub(super) async fn find(context: &Context, prefix: &str) -> Result<DiskGroup, Fail> {
    if prefix.len() == 32 {
        return context.client.disk_group_show(prefix).await;
    }
    let groups = context.client.disk_group_list().await?;
    let wanted = prefix.to_lowercase();
    let mut found = groups.into_iter().filter(|group| !wanted.is_empty() && group.id.to_string().starts_with(&wanted));
    match (found.next(), found.next()) {
        (Some(group), None) => Ok(group),
        (Some(_), Some(_)) => {
            Err(Fail::refused(format!("several disk groups begin with {prefix}")).remedy("give more digits of the id"))
        }
        (None, _) => {
            Err(Fail::refused(format!("no disk group begins with {prefix:?}"))
                .remedy("cairn disk-group list shows all"))
        }
    }
}

fn list(groups: &[DiskGroup]) -> String {
    let head = ["id", "host", "state", "cache", "capacity", "raw", "used", "free", "log", "components"];
    output::table(
        &head,
        groups.iter().map(|group| {
            vec![
                group.id.to_string()[..8].to_owned(),
                group.host_name.clone(),
                state(group),
                group.cache.as_ref().map_or("-".into(), |device| device.path.clone()),
                match group.devices.len() {
                    0 => "-".into(),
                    count => format!("{count}"),
                },
                format_bytes(group.capacity.raw_bytes),
                format_bytes(group.capacity.used_bytes),
                format_bytes(group.capacity.free_bytes),
                group.log.map_or("-".into(), |log| percent(log.used_bytes, log.size_bytes)),
                group.components.map_or("-".into(), |n| n.to_string()),
            ]
        }),
    )
}

fn show(group: &DiskGroup) -> String {
    let log = group.log.map_or(String::new(), |log| {
        format!(
            "{} of {} ({})",
            format_bytes(log.used_bytes),
            format_bytes(log.size_bytes),
            percent(log.used_bytes, log.size_bytes)
        )
    });
    let text = output::pairs([
        ("disk group", group.id.to_string()),
        ("host", group.host_name.clone()),
        ("state", state(group)),
        ("reason", group.reason.clone().unwrap_or_default()),
        ("slow", group.slow.as_ref().map_or(String::new(), |slow| slow.text.clone())),
        ("raw", format_bytes(group.capacity.raw_bytes)),
        ("used", format_bytes(group.capacity.used_bytes)),
        ("free", format_bytes(group.capacity.free_bytes)),
        ("log", log),
        ("components", group.components.map_or(String::new(), |n| n.to_string())),
        ("last scrubbed", group.log.map_or(String::new(), |_| ago(group.scrubbed_unix_ms))),
        ("compression", on_or_off(group.compression)),
        ("deduplication", on_or_off(group.deduplication)),
        ("written anew", group.rewriting.map_or(String::new(), rewriting)),
    ]);
    let text = match &group.space {
        Some(space) => format!("{text}\n\n{}", capacity::parts(space)),
        None => text,
    };
    let row = |role: &str, device: &Device| {
        vec![
            role.to_owned(),
            device.path.clone(),
            format_bytes(device.size_bytes),
            device_state(device),
            device.medium.clone().unwrap_or_else(|| "as it is".into()),
            device.id.to_string(),
        ]
    };
    let rows: Vec<_> = group
        .cache
        .iter()
        .map(|device| row("cache", device))
        .chain(group.devices.iter().map(|device| row("capacity", device)))
        .collect();
    if rows.is_empty() {
        return text;
    }
    let devices = output::table(&["role", "path", "size", "state", "medium", "id"], rows);
    format!("{text}\n\n{devices}")
}

fn state(group: &DiskGroup) -> String {
    let state = match group.state {
        DiskGroupState::Mounted => "mounted",
        DiskGroupState::Unreachable => "unreachable",
        DiskGroupState::Failed => "failed",
    };
    if group.draining { format!("{state}, draining") } else { state.to_owned() }
}

/// How much slower than its peers a device is.
fn slow(slow: &SlowDevice) -> String {
    let ms = |us: u64| format!("{}.{} ms", us / 1000, us % 1000 / 100);
    format!("slow: {} take {}, at its peers {}", slow.requests, ms(slow.took_us), ms(slow.peers_us))
}

/// How a device is, with what the system said.
fn device_state(device: &Device) -> String {
    let state = match device.state {
        DeviceState::Ok => return device.slow.as_ref().map_or_else(|| "ok".to_owned(), slow),
        DeviceState::Failed => "failed",
        DeviceState::NoSpace => "no space on its file system",
    };
    device.problem.as_ref().map_or_else(|| state.to_owned(), |problem| format!("{state}: {problem}"))
}
