//! `cairn disk latency`: where the time of a disk's reads and writes goes.

use std::time::Duration;

use cairn_api::v1::{Explained, ExplainedStage, IoOperation, IoStage};
use serde::Serialize;

use super::Context;
use crate::{fail::Fail, output};

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Told {
    /// The disk as it was named.
    disk: String,
    /// How long was watched; none since the beginning.
    seconds: Option<u64>,
    /// Hosts whose part is missing.
    hosts_silent: Vec<String>,
    reads: Option<Explained>,
    writes: Option<Explained>,
}

/// Shows what was measured within so many seconds from now, or since the beginning.
pub async fn disk(context: &Context, disk: &str, seconds: Option<u64>) -> Result<(), Fail> {
    let mut latencies = context.client.disk_latencies(disk).await?;
    if let Some(seconds) = seconds {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let now = context.client.disk_latencies(disk).await?;
        latencies = now.since(&latencies);
    }
    // The answer is of one disk; hosts without any part in it tell none.
    let object = latencies.hosts.iter().flat_map(|host| &host.disks).map(|disk| disk.disk).next();
    let explain = |operation| object.and_then(|object| latencies.explain(object, operation));
    let told = Told {
        disk: disk.to_owned(),
        seconds,
        reads: explain(IoOperation::Read),
        writes: explain(IoOperation::Write),
        hosts_silent: latencies.hosts_silent,
    };
    if !told.hosts_silent.is_empty() {
        let silent = told.hosts_silent.join(", ");
        output::note(context.format, &format!("not answering, and its part unknown: {silent}"));
    }
    output::show(context.format, &told, text)
}

fn text(told: &Told) -> String {
    let within =
        told.seconds.map_or("since its hosts were started".to_owned(), |seconds| format!("within {seconds} s"));
    let parts: Vec<String> = [&told.reads, &told.writes]
        .into_iter()
        .flatten()
        .map(|explained| {
            let (requests, mean) = (explained.requests, number(Some(explained.mean_us)));
            let what = operation(explained.operation);
            let head = format!("{what} of {} {within}: {requests}, {mean} us each", told.disk);
            format!("{head}\n{}\n{}", table(explained), verdict(explained))
        })
        .collect();
    match parts.is_empty() {
        true => format!("no read or write of {} was answered {within}", told.disk),
        false => parts.join("\n\n"),
    }
}

/// What most of the time goes to, as a sentence.
pub fn verdict(explained: &Explained) -> String {
    let Some(slowest) = explained.slowest() else { return String::new() };
    let share = slowest.share.map_or(String::new(), percent);
    format!("slowest: {}, {share} of the time of {}", name(slowest), operation(explained.operation))
}

/// A stage with its place: "log device of h2 (disk group 0123abcd)".
pub fn name(stage: &ExplainedStage) -> String {
    let group = stage.disk_group.map_or(String::new(), |id| format!(" (disk group {})", &id.to_string()[..8]));
    match &stage.to_host {
        Some(to) => format!("{} between {} and {to}", words(stage.stage), stage.host),
        None => format!("{} of {}{group}", words(stage.stage), stage.host),
    }
}

fn operation(operation: IoOperation) -> &'static str {
    match operation {
        IoOperation::Read => "reads",
        IoOperation::Write => "writes",
    }
}

/// "62 %", with a digit after the point below ten.
pub fn percent(share: f64) -> String {
    if share < 0.0995 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// Microseconds: a digit after the point below a hundred.
pub fn number(us: Option<f64>) -> String {
    us.map_or("-".into(), |us| if us < 99.95 { format!("{us:.1}") } else { format!("{us:.0}") })
}

fn words(stage: IoStage) -> &'static str {
    match stage {
        IoStage::Request => "request",
        IoStage::OwnerWait => "no owner",
        IoStage::Forward => "forwarded",
        IoStage::Served => "served",
        IoStage::Admission => "admission",
        IoStage::Lock => "lock",
        IoStage::Edges => "edges",
        IoStage::Copies => "copies",
        IoStage::Copy => "copy",
        IoStage::SlowerCopy => "slower copy",
        IoStage::Recording => "failed copy",
        IoStage::Lease => "lease",
        IoStage::LogQueue => "log queue",
        IoStage::LogRoom => "log full",
        IoStage::LogDevice | IoStage::ReadLog => "log device",
        IoStage::Congestion => "congestion",
        IoStage::Map => "block map",
        IoStage::Memory => "memory",
        IoStage::ReadCapacity => "capacity device",
        IoStage::Network => "network",
        IoStage::Processors => "processors",
    }
}

fn table(explained: &Explained) -> String {
    output::table(
        &["stage", "host", "disk group", "count", "mean us", "p50 us", "p99 us", "max us", "share", ""],
        explained.stages.iter().map(row),
    )
}

fn row(stage: &ExplainedStage) -> Vec<String> {
    vec![
        // Dots, as blanks at the beginning of a line are lost to whoever splits it.
        format!("{}{}", ". ".repeat(usize::from(stage.depth)), words(stage.stage)),
        stage.to_host.as_ref().map_or(stage.host.clone(), |to| format!("{} - {to}", stage.host)),
        stage.disk_group.map_or(String::new(), |id| id.to_string()[..8].to_owned()),
        stage.count.to_string(),
        number(Some(stage.mean_us)),
        number(stage.p50_us),
        number(stage.p99_us),
        number(stage.max_us),
        stage.share.map_or("-".into(), percent),
        if stage.slowest { "<- slowest".into() } else { String::new() },
    ]
}
