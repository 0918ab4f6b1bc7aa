//! `cairn host`.

use cairn_api::v1::{DeviceLocate, DeviceLocated, Host, HostDevice, HostDeviceState};
use cairn_types::format_bytes;

use super::{Context, leaving, maintenance, new_hosts};
use crate::{args::Host as Verb, fail::Fail, output};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    match verb {
        Verb::List => {
            let hosts = context.client.host_list().await?;
            output::show(context.format, &hosts, |hosts| list(hosts))
        }
        Verb::Show { host } => {
            let host = context.client.host_show(host).await?;
            output::show(context.format, &host, show)
        }
        Verb::Devices { host } => {
            let devices = context.client.host_devices(named_or_answering(context, host).await?).await?;
            output::show(context.format, &devices, |devices| list_devices(devices))
        }
        Verb::Locate { device, host, off } => {
            let host = named_or_answering(context, host).await?;
            let located = context.client.host_locate(host, &DeviceLocate { device, off }).await?;
            output::show(context.format, &located, show_located)
        }
        Verb::Remove { host, dry_run, wait, yes } => {
            leaving::remove(context, host, leaving::How { dry_run, wait, yes }).await
        }
        Verb::Forget { host, dry_run, force, yes } => leaving::forget(context, host, (dry_run, force), yes).await,
        Verb::Readmit { host } => {
            context.client.host_readmit(host.clone()).await?;
            output::note(context.format, &format!("host {host} is taken in when its daemon starts next"));
            Ok(())
        }
        Verb::Maintenance(verb) => maintenance::run(context, verb).await,
        Verb::Join(join) => new_hosts::join(context, &join).await,
    }
}

async fn named_or_answering(context: &Context, host: Option<String>) -> Result<String, Fail> {
    match host {
        Some(host) => Ok(host),
        None => Ok(context.client.cluster_status().await?.answered_by),
    }
}

fn list(hosts: &[Host]) -> String {
    let head = ["name", "state", "fault domain", "address", "disk groups", "used", "free", "disks owned"];
    output::table(
        &head,
        hosts.iter().map(|host| {
            vec![
                host.name.clone(),
                state(host).into(),
                host.fault_domain.clone(),
                host.address.clone(),
                host.disk_groups.len().to_string(),
                format_bytes(host.capacity.used_bytes),
                format_bytes(host.capacity.free_bytes),
                host.disks_owned.map_or("-".into(), |n| n.to_string()),
            ]
        }),
    )
}

fn list_devices(devices: &[HostDevice]) -> String {
    let head = ["path", "size", "kind", "model", "serial", "state", "temp", "wear", "stable name"];
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    output::table(
        &head,
        devices.iter().map(|device| {
            let kind = device.rotational.map(|rotates| if rotates { "hdd" } else { "ssd" }.to_owned());
            // The folder is the same for all.
            let stable = device.stable_path.as_ref().and_then(|path| path.rsplit('/').next());
            vec![
                device.path.clone(),
                format_bytes(device.size_bytes),
                or_dash(kind),
                or_dash(device.model.clone()),
                or_dash(device.serial.clone()),
                device_state(device),
                or_dash(device.temperature_c.map(|c| format!("{c} C"))),
                or_dash(device.wear_percent.map(|wear| format!("{wear}%"))),
                or_dash(stable.map(str::to_owned)),
            ]
        }),
    )
}

fn show_located(located: &DeviceLocated) -> String {
    let stable = located.stable_path.as_ref().and_then(|path| path.rsplit('/').next());
    output::pairs([
        ("host", located.host.clone()),
        ("device", located.path.clone()),
        ("stable name", stable.unwrap_or_default().to_owned()),
        ("model", located.model.clone().unwrap_or_default()),
        ("serial", located.serial.clone().unwrap_or_default()),
        ("locate LED", if located.lit { "lit, until --off puts it out" } else { "out" }.into()),
    ])
}

fn device_state(device: &HostDevice) -> String {
    let reason = device.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    match (device.state, device.disk_group) {
        (HostDeviceState::Free, _) => "free".into(),
        (HostDeviceState::Claimed, Some(group)) => {
            let role = device.role.map_or("", |role| role.name());
            format!("{role} of {}{reason}", &group.to_string()[..8])
        }
        (HostDeviceState::Claimed, None) => format!("claimed{reason}"),
        (HostDeviceState::Unusable, _) => format!("not usable{reason}"),
    }
}

fn show(host: &Host) -> String {
    let groups: Vec<String> = host.disk_groups.iter().map(ToString::to_string).collect();
    output::pairs([
        ("host", host.name.clone()),
        ("id", host.id.to_string()),
        ("state", state(host).into()),
        ("fault domain", host.fault_domain.clone()),
        ("address", host.address.clone()),
        ("nbd", host.nbd_addresses.join("\n")),
        ("vhost-user", host.vhost_user_dir.clone().unwrap_or_default()),
        ("incarnation", host.incarnation.to_string()),
        ("shards", host.shards.map_or(String::new(), |n| n.to_string())),
        ("raw", format_bytes(host.capacity.raw_bytes)),
        ("used", format_bytes(host.capacity.used_bytes)),
        ("free", format_bytes(host.capacity.free_bytes)),
        ("disks owned", host.disks_owned.map_or(String::new(), |n| n.to_string())),
        ("disk groups", groups.join("\n")),
    ])
}

fn state(host: &Host) -> &'static str {
    match (host.up, host.maintenance) {
        (true, false) => "up",
        (false, false) => "down",
        (true, true) => "maintenance",
        (false, true) => "maintenance, down",
    }
}
