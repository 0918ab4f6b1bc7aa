//! Quality of service: which share of all requests was answered within which time.
//!
//! Promises    Q1  thresholds that are IOMeter's edges are counted exactly; of others the range is printed that their bin leaves open
//!             Q2  on dilated media thresholds and zooms are multiplied by the dilation, and named so
//!             Q3  pictures of two arms have the same axes

use super::{Source, picture};
use crate::{
    document::{Block, Section},
    group::{Arm, Config, Merged, Within},
    number::{NOT_KNOWN, decimal, rate, short, signed},
    plot::{Axis, Kind, LinePlot, Series},
    table::Table,
};

/// Milliseconds, before they are multiplied by the dilation.
const THRESHOLDS_MS: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 30.0];
/// Right ends of the zooms, in milliseconds before dilation.
const ZOOMS_MS: [f64; 2] = [2.0, 30.0];
/// A service level holds where so large a share is in time.
const SERVICE_SHARE: f64 = 0.99;
/// Lines that one picture can show apart.
const LINES_MAX: usize = 8;

/// Curves and tables of each arm.
pub fn section(source: &Source<'_>) -> Option<Section> {
    let mut blocks = Vec::new();
    for arm in &source.arms {
        let merged: Vec<(&Config<'_>, Merged)> =
            arm.configs.iter().filter_map(|config| Some((config, config.merged()?))).collect();
        if merged.is_empty() {
            continue;
        }
        // More lines than can be told apart go into as many pictures as are needed.
        let parts = merged.len().div_ceil(LINES_MAX);
        for (number, part) in merged.chunks(LINES_MAX).enumerate() {
            let told = if parts > 1 { format!(", part {} of {parts}", number + 1) } else { String::new() };
            blocks.extend(curves(source, arm, part, &told));
        }
        blocks.push(Block::Table(shares(source, arm, &merged)));
        blocks.push(Block::Table(service_levels(arm, &merged)));
    }
    Section::of("Tables 2 and 3: quality of service", blocks)
}

fn curves(source: &Source<'_>, arm: &Arm<'_>, merged: &[(&Config<'_>, Merged)], part: &str) -> Vec<Block> {
    let title = |range: &str| {
        let name = if arm.name.is_empty() { String::new() } else { format!("{}: ", arm.name) };
        format!("{name}share of requests within a time, {range}{part}")
    };
    let (least, most) = range_ms(source);
    let mut plots = vec![(title("full range"), Axis::log("latency (ms)", least, most))];
    for zoom in ZOOMS_MS {
        let to = zoom * arm.dilation;
        let told = match arm.dilation == 1.0 {
            true => String::new(),
            false => format!(" ({} ms x{})", short(zoom), short(arm.dilation)),
        };
        plots.push((title(&format!("0 to {} ms{told}", short(to))), Axis::to("latency (ms)", to)));
    }
    let drawn = plots.into_iter().map(|(title, x)| LinePlot {
        title,
        caption: source.caption([arm]),
        series: merged
            .iter()
            .enumerate()
            .map(|(style, (config, merged))| series(style, name_of(arm, config), merged, &x))
            .collect(),
        x,
        left: Axis::to("requests within (%)", 100.0),
        right: None,
        marks: Vec::new(),
    });
    drawn.map(|plot| picture(&plot)).collect()
}

/// The shortest and the longest of all arms, in milliseconds.
fn range_ms(source: &Source<'_>) -> (f64, f64) {
    let histograms = source.arms.iter().flat_map(|arm| &arm.configs).filter_map(Config::merged);
    histograms.fold((f64::INFINITY, 0.0), |(least, most), merged| {
        let ms = |ns: Option<u64>| ns.unwrap_or_default() as f64 / 1e6;
        (least.min(ms(merged.histogram.min_ns())), most.max(ms(merged.histogram.max_ns())))
    })
}

fn series(style: usize, name: String, merged: &Merged, x: &Axis) -> Series {
    let mut points = vec![(x.from, 0.0)];
    for point in merged.histogram.curve() {
        let ms = point.within_ns as f64 / 1e6;
        if points.len() == 1 && ms > x.from {
            points.push((ms, 0.0));
        }
        points.push((ms, point.share * 100.0));
    }
    match points.iter().position(|(ms, _)| *ms >= x.to) {
        Some(beyond) => points.truncate(beyond + 1),
        None => points.push((x.to, 100.0)),
    }
    // All that lies left of the axis is one point at its begin.
    let first = points.iter().rposition(|(ms, _)| *ms <= x.from).unwrap_or(0);
    Series { name, points: points.split_off(first), style, kind: Kind::Line, on_right: false }
}

/// "64 VMs".
fn name_of(arm: &Arm<'_>, config: &Config<'_>) -> String {
    match (arm.by_vms, config.x) {
        (false, _) => config.short_id().to_owned(),
        (true, 1) => "1 VM".into(),
        (true, vms) => format!("{vms} VMs"),
    }
}

fn threshold_ns(ms: f64, arm: &Arm<'_>) -> u64 {
    (ms * arm.dilation * 1e6).round() as u64
}

fn within_name(ms: f64, arm: &Arm<'_>) -> String {
    format!("<= {} ms", short(ms * arm.dilation))
}

fn shares(source: &Source<'_>, arm: &Arm<'_>, merged: &[(&Config<'_>, Merged)]) -> Table {
    let mut head = vec!["configuration".to_owned(), "IOPS".to_owned()];
    head.extend(THRESHOLDS_MS.map(|ms| format!("{} (%)", within_name(ms, arm))));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let dilated = match arm.dilation == 1.0 {
        true => String::new(),
        false => {
            format!(" The thresholds are 1, 2, 5, 10 and 30 ms x{}, as the media's times are.", short(arm.dilation))
        }
    };
    let mut table = Table::new(format!("Table 2, {}: share of requests within a time", arm.name), 1, &head).note(format!(
        "Shares of all requests of all repeats; in parentheses percentage points since the row above. A share without a range is counted \
         in IOMeter's bins, by the edges of their labels; a range is what fio's bin leaves open in which the threshold lies.{dilated} {}",
        source.note([arm])
    ));
    let mut above: Option<Vec<Within>> = None;
    for (config, merged) in merged {
        let row: Vec<Within> = THRESHOLDS_MS.iter().map(|ms| merged.within(threshold_ns(*ms, arm))).collect();
        let cells = row.iter().enumerate().map(|(column, share)| {
            let step = above.as_ref().map(|above| (share.middle() - above[column].middle()) * 100.0);
            step.map_or_else(|| share_of(*share), |step| format!("{} ({})", share_of(*share), signed(step, 2)))
        });
        let iops = rate(config.iops().map(|iops| iops.mean));
        table.row([name_of(arm, config), iops].into_iter().chain(cells.collect::<Vec<_>>()));
        above = Some(row);
    }
    table
}

/// "98.12", or "98.12..98.30".
fn share_of(share: Within) -> String {
    let (low, high) = (decimal(share.low * 100.0, 2), decimal(share.high * 100.0, 2));
    if low == high { low } else { format!("{low}..{high}") }
}

/// For each threshold the fastest configuration that keeps it for 99 of 100 requests.
fn service_levels(arm: &Arm<'_>, merged: &[(&Config<'_>, Merged)]) -> Table {
    let head = ["within", "sweet spot", "service level", "IOPS", "share (%)"];
    let mut table = Table::new(format!("Table 3, {}: service levels", arm.name), 3, &head)
        .note("Sweet spot: the most IOPS of the configurations of which at least 99 % of all requests were in time.");
    for ms in THRESHOLDS_MS {
        let ns = threshold_ns(ms, arm);
        let kept = merged.iter().filter(|(_, merged)| merged.within(ns).low >= SERVICE_SHARE);
        let rates = kept.filter_map(|(config, merged)| Some((config, merged, config.iops()?.mean)));
        let name = within_name(ms, arm);
        match rates.max_by(|a, b| a.2.total_cmp(&b.2)) {
            Some((config, merged, iops)) => {
                let (iops, share) = (rate(Some(iops)), share_of(merged.within(ns)));
                let level = format!("{iops} IOPS, {name}, {share} %");
                table.row([name, name_of(arm, config), level, iops, share]);
            }
            None => {
                let none = NOT_KNOWN.to_owned();
                table.row([name, "none".into(), "no configuration keeps it".into(), none.clone(), none]);
            }
        }
    }
    table
}
