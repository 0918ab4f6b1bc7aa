//! `cairn counters`.

use std::{path::Path, time::Duration};

use cairn_api::v1::{Counters, DiskGroupCounters, HostCounters};
use cairn_types::format_bytes;

use super::Context;
use crate::{args::Counters as What, fail::Fail, output, units::percent};

/// Shows a snapshot, or the difference of two.
pub async fn run(context: &Context, what: &What) -> Result<(), Fail> {
    let earlier = match (&what.since, what.seconds) {
        (Some(file), _) => Some(read(file)?),
        (None, Some(seconds)) => {
            let before = context.client.counters().await?;
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Some(before)
        }
        (None, None) => None,
    };
    let now = context.client.counters().await?;
    let shown = earlier.map_or_else(|| now.clone(), |earlier| now.since(&earlier));
    if !shown.hosts_silent.is_empty() {
        output::note(context.format, &format!("not answering, and missing here: {}", shown.hosts_silent.join(", ")));
    }
    output::show(context.format, &shown, table)
}

fn read(file: &Path) -> Result<Counters, Fail> {
    let cannot = |why: String| {
        Fail::usage(format!("{} is no snapshot: {why}", file.display()))
            .remedy("write one with: cairn counters --output json > FILE")
    };
    let text = std::fs::read(file).map_err(|error| cannot(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| cannot(error.to_string()))
}

fn table(counters: &Counters) -> String {
    let hosts = output::table(
        &["host", "guest reads", "read", "guest writes", "written", "zeroed", "failed", "resync out"],
        counters.hosts.iter().map(host),
    );
    let groups = output::table(
        &[
            "host",
            "disk group",
            "writes",
            "written",
            "to log",
            "resync in",
            "by destage",
            "by cleaner",
            "by resync",
            "otherwise",
            "metadata",
            "from log",
            "from memory",
            "from capacity",
            "buffer",
            "congestion",
        ],
        counters.hosts.iter().flat_map(|host| host.disk_groups.iter().map(|g| group(host, g))),
    );
    format!("{hosts}\n\n{groups}\n\n{}", ratios(counters))
}

fn host(host: &HostCounters) -> Vec<String> {
    let guests = &host.guests;
    vec![
        host.host_name.clone(),
        guests.read_requests.to_string(),
        format_bytes(guests.read_bytes),
        guests.write_requests.to_string(),
        format_bytes(guests.write_bytes),
        format_bytes(guests.zero_bytes),
        guests.failed_requests.to_string(),
        format_bytes(host.resync_out_bytes),
    ]
}

fn group(host: &HostCounters, group: &DiskGroupCounters) -> Vec<String> {
    let mut row = vec![host.host_name.clone(), group.id.to_string()[..8].to_owned()];
    let (Some(c), Some(gauges)) = (&group.counters, &group.gauges) else {
        row.push(group.reason.clone().unwrap_or_else(|| "failed".into()));
        return row;
    };
    row.push(c.write_operations.to_string());
    let bytes = [
        c.write_bytes,
        c.log_write_bytes,
        c.resync_in_bytes,
        c.capacity_write_destage_bytes,
        c.capacity_write_clean_bytes,
        c.capacity_write_resync_bytes,
        c.capacity_write_other_bytes,
        c.metadata_write_bytes,
        c.read_log_bytes,
        c.read_cache_bytes,
        c.read_capacity_bytes,
    ];
    row.extend(bytes.map(format_bytes));
    row.push(percent(gauges.log_used_bytes, gauges.log_bytes));
    row.push(gauges.congestion.to_string());
    row
}

/// What one byte of a guest costs. Left out where guests wrote nothing.
fn ratios(counters: &Counters) -> String {
    let (guests, stores) = (counters.guests().write_bytes, counters.stores());
    let each = |bytes: u64| match guests {
        0 => String::new(),
        _ => format!("{:.2}", bytes as f64 / guests as f64),
    };
    let capacity = stores.capacity_write_destage_bytes + stores.capacity_write_clean_bytes;
    output::pairs([
        ("copies in logs of each byte that guests wrote", each(stores.write_bytes)),
        ("bytes to log devices for it", each(stores.log_write_bytes)),
        ("bytes to capacity devices for it", each(capacity + stores.capacity_write_other_bytes)),
    ])
}
