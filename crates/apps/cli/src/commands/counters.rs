//! `cairn counters`.

use std::{path::Path, time::Duration};

use cairn_api::v1::{
    Counters, DiskGroupCounters, GuestCounters, HostCounters, OwnerCounters, StoreCounters, StoreGauges,
};
use cairn_metrics::{Measure, Unit};
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
    // Columns are what the declarations give a head to.
    let measures = GuestCounters::MEASURES.iter().chain(OwnerCounters::MEASURES);
    let hosts = output::table(&heads(&["host"], measures), counters.hosts.iter().map(host));
    let measures = StoreCounters::MEASURES.iter().chain(StoreGauges::MEASURES);
    let groups = output::table(
        &heads(&["host", "disk group"], measures),
        counters.hosts.iter().flat_map(|host| host.disk_groups.iter().map(|g| group(host, g))),
    );
    format!("{hosts}\n\n{groups}\n\n{}", ratios(counters))
}

fn heads(first: &[&'static str], measures: impl Iterator<Item = &'static Measure>) -> Vec<&'static str> {
    first.iter().copied().chain(measures.filter_map(|measure| measure.column)).collect()
}

fn cells(values: impl Iterator<Item = (&'static Measure, u64)>) -> impl Iterator<Item = String> {
    values.filter(|(measure, _)| measure.column.is_some()).map(|(measure, value)| match measure.unit {
        Unit::Bytes => format_bytes(value),
        Unit::Permille => percent(value, 1000),
        Unit::Percent => percent(value, 100),
        Unit::Count | Unit::Microseconds | Unit::Nanoseconds => value.to_string(),
    })
}

fn host(host: &HostCounters) -> Vec<String> {
    let values = host.guests.values().chain(host.owner.values());
    [host.host_name.clone()].into_iter().chain(cells(values)).collect()
}

fn group(host: &HostCounters, group: &DiskGroupCounters) -> Vec<String> {
    let mut row = vec![host.host_name.clone(), group.id.to_string()[..8].to_owned()];
    let (Some(counters), Some(gauges)) = (&group.counters, &group.gauges) else {
        row.push(group.reason.clone().unwrap_or_else(|| "failed".into()));
        return row;
    };
    row.extend(cells(counters.values().chain(gauges.values())));
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
        ("bytes to capacity devices for it", each(capacity)),
    ])
}
