//! Two systems under the same load: bars by arm, and the table of differences.
//!
//! Promises    A1  the arm that was run first is the one that others are compared with
//!             A2  power that nobody measured is "n/a" in every column that would need it

use cairn_sizing::{Exact, latency_change_percent, power_ratio};

use super::{Source, bar_picture};
use crate::{
    document::{Block, Section},
    group::{Arm, Config},
    number::{NOT_KNOWN, comparison, count, known, ms, rate, ratio_and_change, signed_exact},
    plot::{Axis, Bar, BarPlot, Bars},
    table::Table,
};

/// What is drawn of a configuration.
type Value = fn(&Config<'_>) -> Option<Bar>;

const GROUPS_MAX: usize = 12;

/// Tables for each arm beside the first, and bars by arm where they are asked for.
pub fn section(source: &Source<'_>, with_bars: bool) -> Option<Section> {
    let (first, others) = source.arms.split_first()?;
    if others.is_empty() {
        return None;
    }
    let mut blocks = if with_bars { bars(source) } else { Vec::new() };
    for other in others {
        blocks.extend([Block::Table(differences(source, first, other)), Block::Table(power(source, first, other))]);
    }
    Section::of("The arms beside each other", blocks)
}

fn bars(source: &Source<'_>) -> Vec<Block> {
    let iops: Value = |config| config.iops().map(|iops| Bar { mean: iops.mean, least: iops.min, most: iops.max });
    let latency: Value = |config| {
        let (mean, repeats) = (config.mean_ns()?, config.mean_ns_spread()?);
        Some(Bar { mean: mean / 1e6, least: repeats.min / 1e6, most: repeats.max / 1e6 })
    };
    let per_watt: Value = |config| config.iops_per_watt().map(|mean| Bar { mean, least: mean, most: mean });
    let charts = [
        ("Requests a second by arm", "requests a second (1/s)", iops),
        ("Mean latency by arm", "mean latency (ms)", latency),
        ("Requests a second for each watt by arm", "IOPS per watt (1/s/W)", per_watt),
    ];
    let mut blocks = Vec::new();
    for (title, axis, value) in charts {
        match chart(source, title, axis, value) {
            Some(plot) => blocks.push(bar_picture(&plot)),
            None => blocks.push(Block::Text(format!("{title}: n/a, as it was not measured."))),
        }
    }
    blocks
}

/// A picture; none where no configuration has the value.
fn chart(source: &Source<'_>, title: &str, axis: &str, value: Value) -> Option<BarPlot> {
    let mut names: Vec<&str> = Vec::new();
    for config in source.arms.iter().flat_map(|arm| &arm.configs) {
        if !names.contains(&config.short_id()) {
            names.push(config.short_id());
        }
    }
    names.truncate(GROUPS_MAX);
    let by_x = source.has_one_axis();
    let of = |arm: &Arm<'_>, name: &str| arm.configs.iter().find(|config| config.short_id() == name).and_then(value);
    let bars: Vec<Bars> = source
        .arms
        .iter()
        .enumerate()
        .map(|(style, arm)| Bars {
            name: arm.name.to_owned(),
            style,
            values: names.iter().map(|name| of(arm, name)).collect(),
        })
        .collect();
    let values = || bars.iter().flat_map(|bars| &bars.values).flatten();
    values().next()?;
    let most = values().fold(0.0, |most: f64, value| most.max(value.most));
    Some(BarPlot {
        title: title.to_owned(),
        caption: source.caption_of_all(),
        x_title: match by_x {
            true => source.x_title().into(),
            false => "configuration (as named in table 1)".into(),
        },
        groups: names.iter().map(|name| group_name(source, name, by_x)).collect(),
        left: Axis::from_zero(axis, most),
        right: None,
        bars,
        lines: Vec::new(),
    })
}

/// The number on the x axis, or the configuration's name.
fn group_name(source: &Source<'_>, name: &str, by_x: bool) -> String {
    let mut configs = source.arms.iter().flat_map(|arm| &arm.configs);
    match configs.find(|config| by_x && config.short_id() == name) {
        Some(config) => count(config.x),
        None => name.to_owned(),
    }
}

fn pairs<'a>(before: &'a Arm<'_>, after: &'a Arm<'_>) -> impl Iterator<Item = (&'a Config<'a>, &'a Config<'a>)> {
    after.configs.iter().filter_map(|config| {
        let other = before.configs.iter().find(|other| other.short_id() == config.short_id())?;
        Some((other, config))
    })
}

fn iops(config: &Config<'_>) -> Option<f64> {
    config.iops().map(|iops| iops.mean)
}

fn percent_of(percent: Option<Exact>) -> String {
    percent.map_or_else(|| NOT_KNOWN.into(), |percent| format!("{} %", signed_exact(percent, 1)))
}

fn differences(source: &Source<'_>, before: &Arm<'_>, after: &Arm<'_>) -> Table {
    let head = [
        "configuration",
        "IOPS before",
        "IOPS after",
        "ratio",
        "change",
        "mean before (ms)",
        "mean after (ms)",
        "ratio",
        "change",
        "by 1/ratio - 1",
    ];
    let mut table = Table::new(format!("{} beside {}", after.name, before.name), 1, &head).note(format!(
        "Before: {}; after: {}. At equal outstanding I/O the change of the mean latency is 1 / (ratio of IOPS) - 1: where the last two \
         columns differ by more than 5 points, the load was not the same. {}",
        before.name,
        after.name,
        source.note([before, after])
    ));
    for (before, after) in pairs(before, after) {
        let [ratio, change] = ratio_and_change(iops(before), iops(after));
        let [latency_ratio, latency_change] = ratio_and_change(before.mean_ns(), after.mean_ns());
        let gain = comparison(iops(before), iops(after)).map(|both| both.ratio);
        table.row([
            after.short_id().to_owned(),
            rate(iops(before)),
            rate(iops(after)),
            ratio,
            change,
            ms(before.mean_ns()),
            ms(after.mean_ns()),
            latency_ratio,
            latency_change,
            percent_of(gain.and_then(|gain| latency_change_percent(gain).ok())),
        ]);
    }
    table
}

fn power(source: &Source<'_>, before: &Arm<'_>, after: &Arm<'_>) -> Table {
    let head = ["configuration", "power from", "IOPS/W before", "IOPS/W after", "ratio", "change", "power ratio"];
    let mut table =
        Table::new(format!("{} beside {}: requests a second for each watt", after.name, before.name), 2, &head)
            .note(format!("Power ratio: ratio of IOPS / ratio of IOPS per watt. {}", source.note([before, after])));
    for (before, after) in pairs(before, after) {
        let gain = comparison(iops(before), iops(after)).map(|both| both.ratio);
        let per_watt = comparison(before.iops_per_watt(), after.iops_per_watt()).map(|both| both.ratio);
        let power = gain.zip(per_watt).and_then(|(gain, per_watt)| power_ratio(gain, per_watt).ok());
        let [ratio, change] = ratio_and_change(before.iops_per_watt(), after.iops_per_watt());
        table.row([
            after.short_id().to_owned(),
            after.power_source().unwrap_or(NOT_KNOWN).to_owned(),
            known(before.iops_per_watt(), 2),
            known(after.iops_per_watt(), 2),
            ratio,
            change,
            power.map_or_else(|| NOT_KNOWN.into(), |power| power.decimal(3)),
        ]);
    }
    table
}
