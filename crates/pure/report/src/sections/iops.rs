//! Requests a second and latency of every configuration: the first table of every study, and its bars.

use cairn_measure::Quantile;

use super::{Source, bar_picture};
use crate::{
    document::{Block, Section},
    group::{Arm, Config},
    number::{count, known, mb, mib, ms, percent, rate, ratio_and_change},
    plot::{Axis, Bar, BarPlot, Bars},
    table::Table,
};

/// Repeats that differ by more than this are told.
const CV_MAX: f64 = 0.10;
/// So many groups of bars have names that do not run into each other.
const GROUPS_MAX: usize = 12;

/// The tables of each arm, and one picture of all where it is asked for.
pub fn section(source: &Source<'_>, with_bars: bool) -> Option<Section> {
    let mut blocks = Vec::new();
    if with_bars && source.has_one_axis() && (2..=GROUPS_MAX).contains(&source.xs().len()) {
        blocks.push(bar_picture(&bars(source)));
    }
    for arm in &source.arms {
        blocks.extend([Block::Table(rates(source, arm)), Block::Table(latencies(source, arm))]);
    }
    if source.arms.is_empty() {
        return None;
    }
    Section::of("Table 1: requests a second and latency", blocks)
}

/// How many, how evenly.
fn rates(source: &Source<'_>, arm: &Arm<'_>) -> Table {
    let has_vms = arm.configs.iter().any(|config| config.params.vms > 0);
    let mut head = vec!["configuration", "repeats", "IOPS, mean", "min", "max", "CV", "doubt"];
    head.extend(has_vms.then_some("IOPS per VM"));
    head.extend(["MiB/s", "MB/s", "ratio", "change"]);
    let mut table = Table::new(format!("{}: requests a second, mean of repeats", name_of(arm)), 1, &head).note(format!(
        "CV: coefficient of variation of the repeats, doubted above {}. Ratio and change: IOPS beside the row above. {}",
        percent(Some(CV_MAX), 0),
        source.note([arm])
    ));
    let mut before = None;
    for config in &arm.configs {
        let iops = config.iops();
        let mean = iops.map(|iops| iops.mean);
        let cv = iops.and_then(|iops| iops.cv);
        let mut row = vec![
            config.short_id().to_owned(),
            repeats(config),
            rate(mean),
            rate(iops.map(|iops| iops.min)),
            rate(iops.map(|iops| iops.max)),
            percent(cv, 1),
            if cv.is_some_and(|cv| cv > CV_MAX) { "CV".into() } else { String::new() },
        ];
        row.extend(has_vms.then(|| rate(mean.map(|mean| mean / f64::from(config.params.vms.max(1))))));
        let bytes = config.bytes_per_s();
        row.extend([known(bytes.map(mib), 1), known(bytes.map(mb), 1)]);
        row.extend(before.map_or_else(Default::default, |before| ratio_and_change(before, mean)));
        table.row(row);
        before = Some(mean);
    }
    table
}

fn repeats(config: &Config<'_>) -> String {
    let (all, sound) = (config.repeats.len(), config.sound().count());
    if all == sound { all.to_string() } else { format!("{sound} of {all}") }
}

/// How long.
fn latencies(source: &Source<'_>, arm: &Arm<'_>) -> Table {
    let head = [
        "configuration",
        "outstanding / IOPS (ms)",
        "mean (ms)",
        "p50 (ms)",
        "p95 (ms)",
        "p99 (ms)",
        "p99.9 (ms)",
        "longest (ms)",
    ];
    let mut table = Table::new(format!("{}: latency of all requests of all repeats", name_of(arm)), 1, &head)
        .note(format!("Outstanding / IOPS is the mean latency that a closed loop must have. {}", source.note([arm])));
    for config in &arm.configs {
        let merged = config.merged();
        let quantile = |quantile| ms(merged.as_ref().and_then(|merged| merged.quantile_ns(quantile)));
        let is_closed = config.params.outstanding > 0 && config.params.rate_per_s.is_none();
        let iops = config.iops().map(|iops| iops.mean).filter(|iops| *iops > 0.0 && is_closed);
        table.row([
            config.short_id().to_owned(),
            ms(iops.map(|iops| f64::from(config.params.outstanding) / iops * 1e9)),
            ms(config.mean_ns()),
            quantile(Quantile::P50),
            quantile(Quantile::P95),
            quantile(Quantile::P99),
            quantile(Quantile::P999),
            ms(config.longest_ns()),
        ]);
    }
    table
}

/// "all-flash (modelled media, times x10)".
fn name_of(arm: &Arm<'_>) -> String {
    match (arm.name, arm.stamp().as_str()) {
        ("", _) => "all configurations".into(),
        (name, "") => name.into(),
        (name, stamp) => format!("{name} ({stamp})"),
    }
}

/// IOPS as bars with whiskers from the least to the most of the repeats, mean latency as a line.
fn bars(source: &Source<'_>) -> BarPlot {
    let xs = source.xs();
    let of_arm = |arm: &Arm<'_>, value: fn(&Config<'_>) -> Option<Bar>| {
        xs.iter().map(|x| arm.at(*x).and_then(value)).collect::<Vec<_>>()
    };
    let iops = |config: &Config<'_>| config.iops().map(|iops| Bar { mean: iops.mean, least: iops.min, most: iops.max });
    let latency = |config: &Config<'_>| {
        let ms = config.mean_ns()? / 1e6;
        Some(Bar { mean: ms, least: ms, most: ms })
    };
    let mut bars = Vec::new();
    let mut lines = Vec::new();
    for (number, arm) in source.arms.iter().enumerate() {
        let name = |what: &str| if arm.name.is_empty() { what.to_owned() } else { format!("{}: {what}", arm.name) };
        bars.push(Bars { name: name("IOPS"), style: number, values: of_arm(arm, iops) });
        let style = number + source.arms.len();
        lines.push(Bars { name: name("mean latency"), style, values: of_arm(arm, latency) });
    }
    let most =
        |bars: &[Bars]| bars.iter().flat_map(|bars| &bars.values).flatten().fold(0.0, |most: f64, v| most.max(v.most));
    BarPlot {
        title:
            "Requests a second and mean latency (bars: mean of repeats, whiskers from the least to the most of them)"
                .into(),
        caption: source.caption_of_all(),
        x_title: source.x_title().into(),
        groups: xs.iter().map(|x| count(*x)).collect(),
        left: Axis::from_zero("requests a second (1/s)", most(&bars)),
        right: Some(Axis::from_zero("mean latency (ms)", most(&lines))),
        bars,
        lines,
    }
}
