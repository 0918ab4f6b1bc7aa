//! Writes that fill the write buffer: throughput, fill, destage and congestion over bytes written, and the two plateaus.
//!
//! Assumes     samples carry gauges; what has none is left out of a picture, and is "n/a" in the table
//! Source      x axis in bytes written: what users of fio-plot ask for, as a buffer is full after bytes and not after seconds

use cairn_study::{Cell, SECOND_LEVEL_MAX, Sample};

use super::{Source, picture};
use crate::{
    document::{Block, Section},
    group::Config,
    number::{NOT_KNOWN, decimal, known, mb, mib},
    plot::{Axis, Kind, LinePlot, Series},
    table::Table,
};

/// Two pictures of each configuration with all arms, and the table of plateaus.
pub fn section(source: &Source<'_>) -> Option<Section> {
    let mut names: Vec<&str> = Vec::new();
    for config in source.arms.iter().flat_map(|arm| &arm.configs) {
        if !names.contains(&config.short_id()) {
            names.push(config.short_id());
        }
    }
    let ends = Ends::of(source);
    let mut blocks = vec![Block::Table(plateaus(source))];
    for name in names {
        let curves = curves(source, name);
        if curves.iter().any(|(_, curve)| !curve.is_empty()) {
            blocks.push(picture(&throughput(source, name, &curves, &ends)));
            blocks.push(picture(&fill(source, name, &curves, &ends)));
        }
    }
    Section::of("Write buffer over bytes written", blocks)
}

/// A sample of a curve.
struct Point {
    written_mib: f64,
    mib_per_s: f64,
    destaged_mib_per_s: Option<f64>,
    fill_percent: Option<f64>,
    fill_max_percent: Option<f64>,
    congestion: Option<f64>,
}

fn curve(cell: &Cell) -> Vec<Point> {
    let mut written = 0.0;
    let mut before: Option<&Sample> = None;
    let mut points = Vec::new();
    for sample in &cell.samples {
        let seconds = sample.until_ms.saturating_sub(before.map_or(0, |before| before.until_ms)) as f64 / 1e3;
        if seconds <= 0.0 {
            continue;
        }
        written += mib(sample.written_bytes as f64);
        let gauges = sample.gauges;
        let destaged = before
            .and_then(|before| before.gauges)
            .zip(gauges)
            .map(|(before, now)| mib(now.destaged_bytes.saturating_sub(before.destaged_bytes) as f64) / seconds);
        points.push(Point {
            written_mib: written,
            mib_per_s: mib(sample.written_bytes as f64) / seconds,
            destaged_mib_per_s: destaged,
            fill_percent: gauges
                .filter(|gauges| gauges.log_size_bytes > 0)
                .map(|gauges| gauges.log_used_bytes as f64 / gauges.log_size_bytes as f64 * 100.0),
            fill_max_percent: gauges.map(|gauges| f64::from(gauges.log_fill_max_permille) / 10.0),
            congestion: gauges.map(|gauges| f64::from(gauges.congestion)),
        });
        before = Some(sample);
    }
    points
}

/// The first repeat of a configuration in each arm: the first that did not break, where there is one.
fn curves<'a>(source: &'a Source<'_>, name: &str) -> Vec<(&'a str, Vec<Point>)> {
    let find = |configs: &'a [Config<'a>]| configs.iter().find(|config| config.short_id() == name);
    let arms = source.arms.iter().filter_map(|arm| Some((arm.name, find(&arm.configs)?)));
    arms.filter_map(|(arm, config)| {
        let cell = config.sound().next().or(config.repeats.first().copied())?;
        Some((arm, curve(cell)))
    })
    .collect()
}

/// Where the axes of all pictures end.
struct Ends {
    written_mib: f64,
    mib_per_s: f64,
}

impl Ends {
    fn of(source: &Source<'_>) -> Self {
        let points = || source.results.cells.iter().flat_map(curve);
        let speed = |point: Point| point.mib_per_s.max(point.destaged_mib_per_s.unwrap_or(0.0));
        Self {
            written_mib: points().fold(0.0, |most, point| most.max(point.written_mib)),
            mib_per_s: points().fold(0.0, |most, point| most.max(speed(point))),
        }
    }
}

fn series(arm: &str, what: &str, style: usize, on_right: bool, points: Vec<(f64, f64)>) -> Series {
    let name = if arm.is_empty() { what.to_owned() } else { format!("{arm}: {what}") };
    Series { name, points, style, kind: Kind::Line, on_right }
}

fn throughput(source: &Source<'_>, name: &str, curves: &[(&str, Vec<Point>)], ends: &Ends) -> LinePlot {
    let mut all = Vec::new();
    for (number, (arm, points)) in curves.iter().enumerate() {
        let written = points.iter().map(|point| (point.written_mib, point.mib_per_s)).collect();
        all.push(series(arm, "throughput", number, false, written));
        let destaged = |point: &Point| Some((point.written_mib, point.destaged_mib_per_s?));
        all.push(series(arm, "destage", number + curves.len(), false, points.iter().filter_map(destaged).collect()));
    }
    LinePlot {
        title: format!("{name}: throughput and destage over bytes written"),
        caption: source.caption_of_all(),
        x: Axis::from_zero("written since the measurement began (MiB)", ends.written_mib),
        left: Axis::from_zero("throughput, destage (MiB/s)", ends.mib_per_s),
        right: None,
        series: all,
        marks: Vec::new(),
    }
}

fn fill(source: &Source<'_>, name: &str, curves: &[(&str, Vec<Point>)], ends: &Ends) -> LinePlot {
    let mut all = Vec::new();
    for (number, (arm, points)) in curves.iter().enumerate() {
        let fill = |point: &Point| Some((point.written_mib, point.fill_percent?));
        all.push(series(arm, "fill", number, false, points.iter().filter_map(fill).collect()));
        let congestion = |point: &Point| Some((point.written_mib, point.congestion?));
        let points = points.iter().filter_map(congestion).collect();
        all.push(series(arm, "congestion", number + curves.len(), true, points));
    }
    LinePlot {
        title: format!("{name}: fill of the write buffers and congestion over bytes written"),
        caption: source.caption_of_all(),
        x: Axis::from_zero("written since the measurement began (MiB)", ends.written_mib),
        left: Axis::to("write buffers in use (%)", 100.0),
        right: Some(Axis::to("congestion (0..255)", 255.0)),
        series: all,
        marks: Vec::new(),
    }
}

fn plateaus(source: &Source<'_>) -> Table {
    let head = [
        "configuration",
        "repeat",
        "into the buffer (MiB/s)",
        "(MB/s)",
        "knee at (MiB written)",
        "fill there (%)",
        "after it (MiB/s)",
        "(MB/s)",
        "destage then (MiB/s)",
        "after it / destage",
        "fullest buffer (%)",
        "most congestion (0..255)",
    ];
    let mut table = Table::new("Plateaus", 1, &head).note(format!(
        "The knee is where two level lines fit the throughput best (least squares); speeds are medians of the samples on either side. \
         Without a second plateau below {} % of the first there is no knee. {}",
        decimal(SECOND_LEVEL_MAX * 100.0, 0),
        source.note(&source.arms)
    ));
    for cell in &source.results.cells {
        let points = curve(cell);
        if points.is_empty() {
            continue;
        }
        let most = |value: fn(&Point) -> Option<f64>| points.iter().filter_map(value).reduce(f64::max);
        let mut row = vec![cell.id.clone(), cell.repeat.to_string()];
        row.extend(match knee(&points) {
            Some(knee) => with_knee(&points, knee),
            None => {
                let speed = median(points.iter().map(|point| point.mib_per_s));
                let mut cells = speeds(speed).to_vec();
                cells.push("no knee".into());
                cells.resize(8, NOT_KNOWN.into());
                cells
            }
        });
        row.extend([known(most(|point| point.fill_max_percent), 1), known(most(|point| point.congestion), 0)]);
        table.row(row);
    }
    table
}

fn with_knee(points: &[Point], knee: usize) -> Vec<String> {
    let (before, after) = points.split_at(knee);
    let speed = |points: &[Point]| median(points.iter().map(|point| point.mib_per_s));
    let destage = median(after.iter().filter_map(|point| point.destaged_mib_per_s));
    let ratio = speed(after).zip(destage).filter(|(_, destage)| *destage > 0.0).map(|(after, destage)| after / destage);
    let at = before.last();
    let [first, first_mb] = speeds(speed(before));
    let [second, second_mb] = speeds(speed(after));
    vec![
        first,
        first_mb,
        known(at.map(|point| point.written_mib), 0),
        known(at.and_then(|point| point.fill_percent), 1),
        second,
        second_mb,
        known(destage, 1),
        ratio.map_or_else(|| NOT_KNOWN.into(), |ratio| format!("{}x", decimal(ratio, 2))),
    ]
}

/// MiB/s, and the same in MB/s.
fn speeds(mib_per_s: Option<f64>) -> [String; 2] {
    [known(mib_per_s, 1), known(mib_per_s.map(|speed| mb(speed * 1_048_576.0)), 1)]
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    cairn_study::median(&values.collect::<Vec<f64>>())
}

/// The first sample of the second plateau.
fn knee(points: &[Point]) -> Option<usize> {
    cairn_study::knee(&points.iter().map(|point| point.mib_per_s).collect::<Vec<f64>>())
}
