//! `cairn top`: the busiest disks with their slowest stage, and how full the logs are, again and again.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

use cairn_api::v1::{
    Counters, Explained, ExplainedStage, HostCounters, IoOperation, IoStage, Latencies, StageLatencies, StoreGauges,
};
use cairn_types::{DiskGroupId, ObjectId, format_bytes};
use serde::Serialize;

use super::{
    Context,
    latency::{name, number, percent},
};
use crate::{
    args::Top,
    fail::Fail,
    output::{self, Format},
    units,
};

/// One interval, as JSON has it.
#[derive(Debug, Serialize)]
struct Interval {
    /// How long it was.
    seconds: f64,
    /// Disks whose guests asked for something, the busiest first.
    disks: Vec<Disk>,
    /// Disks that were busy and are not shown, or not known.
    disks_left_out: u64,
    hosts: Vec<Host>,
    hosts_silent: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Disk {
    id: ObjectId,
    name: String,
    bytes_per_s: f64,
    /// None where there was none.
    reads: Option<Requests>,
    writes: Option<Requests>,
    slowest: Option<Slowest>,
}

#[derive(Debug, Serialize)]
struct Requests {
    per_s: f64,
    mean_us: f64,
    p99_us: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Slowest {
    operation: IoOperation,
    #[serde(flatten)]
    stage: ExplainedStage,
}

#[derive(Debug, Serialize)]
struct Host {
    name: String,
    resync_in_bytes_per_s: f64,
    resync_out_bytes_per_s: f64,
    disk_groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
struct Group {
    id: DiskGroupId,
    /// None where it could not be opened.
    gauges: Option<StoreGauges>,
    /// The device write of guests' writes in its log.
    log_mean_us: Option<f64>,
}

/// Both snapshots at one moment.
struct Snapshot {
    at: Instant,
    counters: Counters,
    latencies: Latencies,
}

impl Snapshot {
    async fn take(context: &Context) -> Result<Self, Fail> {
        let counters = context.client.counters().await?;
        let latencies = context.client.latencies().await?;
        Ok(Self { at: Instant::now(), counters, latencies })
    }
}

/// Shows interval after interval, or one.
pub async fn run(context: &Context, what: &Top) -> Result<(), Fail> {
    let mut before = Snapshot::take(context).await?;
    loop {
        tokio::time::sleep(Duration::from_secs(what.seconds)).await;
        let now = Snapshot::take(context).await?;
        show(context.format, &interval(&before, &now, usize::from(what.rows)), what.once)?;
        if what.once {
            return Ok(());
        }
        before = now;
    }
}

fn show(format: Format, interval: &Interval, once: bool) -> Result<(), Fail> {
    match format {
        Format::Json => output::json_line(interval),
        Format::Table if !once && io::stdout().is_terminal() => {
            // From the top of an empty screen.
            output::line(&format!("\x1b[H\x1b[2J{}", table(interval)))
        }
        Format::Table if once => output::line(&table(interval)),
        Format::Table => output::line(&format!("{}\n", table(interval))).and_then(|()| output::line("")),
    }
}

fn interval(before: &Snapshot, now: &Snapshot, rows: usize) -> Interval {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
    let counters = now.counters.since(&before.counters);
    let latencies = now.latencies.since(&before.latencies);
    let mut disks: BTreeMap<ObjectId, &str> = BTreeMap::new();
    for disk in latencies.hosts.iter().flat_map(|host| &host.disks) {
        if disk.stages.iter().any(|stage| stage.stage == IoStage::Request) {
            disks.insert(disk.disk, &disk.name);
        }
    }
    let told = disks.into_iter().map(|(id, name)| disk(id, name, &counters, &latencies, seconds));
    let mut disks: Vec<Disk> = told.collect();
    disks.sort_by(|a, b| b.per_s().total_cmp(&a.per_s()).then_with(|| a.name.cmp(&b.name)));
    let hidden = disks.len().saturating_sub(rows) as u64;
    disks.truncate(rows);
    let left_out = latencies.hosts.iter().map(|host| host.disks_left_out).max().unwrap_or(0);
    Interval {
        seconds,
        disks,
        disks_left_out: hidden + left_out,
        hosts: counters.hosts.iter().map(|told| host(told, &latencies, seconds)).collect(),
        hosts_silent: counters.hosts_silent,
    }
}

impl Disk {
    fn per_s(&self) -> f64 {
        [&self.reads, &self.writes].into_iter().flatten().map(|requests| requests.per_s).sum()
    }
}

fn disk(id: ObjectId, name: &str, counters: &Counters, latencies: &Latencies, seconds: f64) -> Disk {
    let counted = counters.hosts.iter().flat_map(|host| &host.disks).filter(|disk| disk.disk == id);
    let bytes: u64 = counted.map(|disk| disk.guests.read_bytes + disk.guests.write_bytes).sum();
    let [reads, writes] = [IoOperation::Read, IoOperation::Write].map(|operation| latencies.explain(id, operation));
    let all = [&reads, &writes].into_iter().flatten();
    let heaviest = all.max_by(|a, b| time(a).total_cmp(&time(b)));
    let slowest = heaviest
        .and_then(|explained| Some(Slowest { operation: explained.operation, stage: explained.slowest()?.clone() }));
    let requests = |explained: Option<Explained>| {
        let explained = explained?;
        let p99_us = whole(latencies, id, explained.operation).and_then(|whole| whole.quantile_us(990));
        let per_s = explained.requests as f64 / seconds;
        Some(Requests { per_s: rounded(per_s), mean_us: explained.mean_us, p99_us: p99_us.map(rounded) })
    };
    Disk {
        id,
        name: name.to_owned(),
        bytes_per_s: rounded(bytes as f64 / seconds),
        reads: requests(reads),
        writes: requests(writes),
        slowest,
    }
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// The time of all its requests.
fn time(explained: &Explained) -> f64 {
    explained.requests as f64 * explained.mean_us
}

/// Whole requests, those of the host with the most of them: bins of several hosts are not added.
fn whole(latencies: &Latencies, disk: ObjectId, operation: IoOperation) -> Option<&StageLatencies> {
    let of = |stage: &&StageLatencies| stage.stage == IoStage::Request && stage.operation == operation;
    let disks = latencies.hosts.iter().flat_map(|host| &host.disks).filter(|found| found.disk == disk);
    disks.filter_map(|disk| disk.stages.iter().find(of)).max_by_key(|stage| stage.count)
}

fn host(told: &HostCounters, latencies: &Latencies, seconds: f64) -> Host {
    let measured = latencies.hosts.iter().find(|host| host.host == told.host);
    let log_mean = |id: DiskGroupId| {
        let group = measured?.disk_groups.iter().find(|group| group.id == id)?;
        group.log.iter().find(|stage| stage.stage == IoStage::LogDevice)?.mean_us()
    };
    let resync_in: u64 = told.disk_groups.iter().filter_map(|group| group.counters).map(|c| c.resync_in_bytes).sum();
    let group = |group: &cairn_api::v1::DiskGroupCounters| Group {
        id: group.id,
        gauges: group.gauges,
        log_mean_us: log_mean(group.id).map(rounded),
    };
    Host {
        name: told.host_name.clone(),
        resync_in_bytes_per_s: rounded(resync_in as f64 / seconds),
        resync_out_bytes_per_s: rounded(told.owner.resync_out_bytes as f64 / seconds),
        disk_groups: told.disk_groups.iter().map(group).collect(),
    }
}

fn table(interval: &Interval) -> String {
    let disks = output::table(
        &["disk", "reads/s", "writes/s", "MiB/s", "read us", "p99 us", "write us", "p99 us", "slowest stage"],
        interval.disks.iter().map(disk_row),
    );
    let hosts = output::table(
        &["host", "disk group", "log full", "congestion", "delay us", "log device us", "resync in", "resync out"],
        interval.hosts.iter().flat_map(host_rows),
    );
    let mut text = format!("{:.1} s\n\n{disks}\n\n{hosts}", interval.seconds);
    if interval.disks_left_out > 0 {
        text += &format!("\n\ndisks left out: {}", interval.disks_left_out);
    }
    if !interval.hosts_silent.is_empty() {
        text += &format!("\n\nnot answering, and missing here: {}", interval.hosts_silent.join(", "));
    }
    text
}

fn disk_row(disk: &Disk) -> Vec<String> {
    let per_s = |requests: &Option<Requests>| requests.as_ref().map_or("-".into(), |r| format!("{:.0}", r.per_s));
    let mean = |requests: &Option<Requests>| number(requests.as_ref().map(|r| r.mean_us));
    let p99 = |requests: &Option<Requests>| number(requests.as_ref().and_then(|r| r.p99_us));
    let slowest = disk.slowest.as_ref().map_or(String::new(), |slowest| {
        let share = slowest.stage.share.map_or(String::new(), percent);
        let operation = if slowest.operation == IoOperation::Read { "reads" } else { "writes" };
        format!("{}, {share} of {operation}", name(&slowest.stage))
    });
    vec![
        disk.name.clone(),
        per_s(&disk.reads),
        per_s(&disk.writes),
        format!("{:.1}", disk.bytes_per_s / 1048576.0),
        mean(&disk.reads),
        p99(&disk.reads),
        mean(&disk.writes),
        p99(&disk.writes),
        slowest,
    ]
}

/// A row for each disk group; what is of the host stands in the first.
fn host_rows(host: &Host) -> Vec<Vec<String>> {
    let rate = |bytes: f64| format!("{}/s", format_bytes(bytes as u64));
    let resync = [rate(host.resync_in_bytes_per_s), rate(host.resync_out_bytes_per_s)];
    let none = || vec!["-".to_owned(); 4];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for group in &host.disk_groups {
        let gauges = group.gauges.map_or_else(none, |gauges| {
            vec![
                units::percent(gauges.log_used_bytes, gauges.log_bytes),
                gauges.congestion.to_string(),
                gauges.congestion_delay_us.to_string(),
                number(group.log_mean_us),
            ]
        });
        let of_host = if rows.is_empty() { resync.to_vec() } else { vec![String::new(); 2] };
        rows.push([vec![host.name.clone(), group.id.to_string()[..8].to_owned()], gauges, of_host].concat());
    }
    if rows.is_empty() {
        rows.push([vec![host.name.clone(), "-".to_owned()], none(), resync.to_vec()].concat());
    }
    rows
}
