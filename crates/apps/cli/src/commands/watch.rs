//! Watching: bars on a terminal, a line per change elsewhere, a JSON object per change for programs.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    time::Duration,
};

use cairn_api::v1::{Disk, DiskHealth, Resync};
use cairn_types::{ComponentId, format_bytes};
use indicatif::{MultiProgress, ProgressBar};

use super::{
    Context,
    words::{health, state},
};
use crate::{
    fail::Fail,
    output::{self, Format},
    progress,
    units::{duration, rate},
};

/// Says each change of `disk`; ends when it is healthy, unless `forever`.
pub async fn disk(context: &Context, disk: &str, forever: bool, interval_ms: u64) -> Result<(), Fail> {
    let mut before = String::new();
    loop {
        let found = context.client.disk_show(disk).await?;
        let now = describe(&found);
        if now != before {
            match context.format {
                Format::Json => output::json_line(&found)?,
                Format::Table => output::line(&now)?,
            }
            before = now;
        }
        if found.summary.health == DiskHealth::Healthy && !forever {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(interval_ms)).await;
    }
}

/// One line: what a person who waits for it wants to know.
fn describe(disk: &Disk) -> String {
    let summary = &disk.summary;
    let owner = summary.owner.as_deref().unwrap_or("nobody");
    let mut text = format!("{} {}, owner {owner}", summary.name, health(summary.health));
    for component in &disk.components {
        if component.state != cairn_api::v1::ComponentState::Active {
            text += &format!("; {} {}", component.host_name, state(component.state));
        }
    }
    text
}

/// Shows the resyncs until none is left.
pub async fn resyncs(context: &Context, interval_ms: u64) -> Result<(), Fail> {
    let mut bars = Bars::default();
    let on_terminal = context.format == Format::Table && io::stderr().is_terminal();
    let mut before = Vec::new();
    loop {
        let resyncs = context.client.resync_list().await?;
        if on_terminal {
            bars.draw(&resyncs);
        } else if resyncs != before {
            match context.format {
                Format::Json => output::json_line(&resyncs)?,
                Format::Table => {
                    for resync in &resyncs {
                        output::line(&line(resync))?;
                    }
                }
            }
            before.clone_from(&resyncs);
        }
        if resyncs.is_empty() {
            output::note(context.format, "nothing is left to resync");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(interval_ms)).await;
    }
}

fn line(resync: &Resync) -> String {
    format!(
        "{} on {}: {} of {} left, {}{}",
        resync.disk_name,
        resync.host_name,
        format_bytes(resync.bytes_left),
        format_bytes(resync.bytes_total),
        rate(resync.bytes_per_s),
        resync.eta_s.map_or(String::new(), |eta| format!(", {}", duration(eta)))
    )
}

/// One bar per component that is being filled.
#[derive(Default)]
struct Bars {
    all: MultiProgress,
    by_component: BTreeMap<ComponentId, ProgressBar>,
}

impl Bars {
    fn draw(&mut self, resyncs: &[Resync]) {
        for resync in resyncs {
            let bar = self.by_component.entry(resync.component).or_insert_with(|| {
                let name = format!("{} on {}", resync.disk_name, resync.host_name);
                self.all.add(progress::bytes_bar(&name, resync.bytes_total))
            });
            bar.set_length(resync.bytes_total);
            bar.set_position(resync.bytes_total.saturating_sub(resync.bytes_left));
            let eta = resync.eta_s.map_or(String::new(), duration);
            bar.set_message(format!("{} {eta}", rate(resync.bytes_per_s)));
        }
        // What is no longer listed is in sync, or given up: the disk's state says which.
        self.by_component.retain(|component, bar| {
            let runs = resyncs.iter().any(|resync| resync.component == *component);
            if !runs {
                bar.finish();
            }
            runs
        });
    }
}
