//! `results.csv`: a row for each cell and repeat, units in the names of the columns, by RFC 4180.

use cairn_study::{Cell, Counters, Manifest, Results, Side};

/// A column: its name, and what a cell has in it; empty where it has none.
type Column = (&'static str, fn(&Cell) -> String);

const COLUMNS: [Column; 52] = [
    ("arm", |cell| cell.params.arm.clone()),
    ("id", |cell| cell.id.clone()),
    ("repeat", |cell| cell.repeat.to_string()),
    ("vms", |cell| cell.params.vms.to_string()),
    ("disks", |cell| cell.params.disks.to_string()),
    ("request_bytes", |cell| cell.params.request_bytes.to_string()),
    ("read_percent", |cell| cell.params.read_percent.to_string()),
    ("random_percent", |cell| cell.params.random_percent.to_string()),
    ("outstanding", |cell| cell.params.outstanding.to_string()),
    ("rate_per_s", |cell| optional(cell.params.rate_per_s)),
    ("span_bytes", |cell| cell.params.span_bytes.to_string()),
    ("measured_ms", |cell| cell.measured_ms.to_string()),
    ("requests", |cell| cell.total.requests.to_string()),
    ("failed_requests", failed),
    ("iops", |cell| number(cell.total.iops)),
    ("read_iops", |cell| number(cell.reads.iops)),
    ("write_iops", |cell| number(cell.writes.iops)),
    ("mib_per_s", |cell| number(cell.total.bytes_per_s / 1_048_576.0)),
    ("mb_per_s", |cell| number(cell.total.bytes_per_s / 1e6)),
    ("mean_ms", |cell| latency(&cell.total, |latency| latency.mean_ns)),
    ("p50_ms", |cell| latency(&cell.total, |latency| latency.p50_ns as f64)),
    ("p95_ms", |cell| latency(&cell.total, |latency| latency.p95_ns as f64)),
    ("p99_ms", |cell| latency(&cell.total, |latency| latency.p99_ns as f64)),
    ("p999_ms", |cell| latency(&cell.total, |latency| latency.p999_ns as f64)),
    ("max_ms", |cell| latency(&cell.total, |latency| latency.max_ns as f64)),
    ("read_mean_ms", |cell| latency(&cell.reads, |latency| latency.mean_ns)),
    ("read_p99_ms", |cell| latency(&cell.reads, |latency| latency.p99_ns as f64)),
    ("write_mean_ms", |cell| latency(&cell.writes, |latency| latency.mean_ns)),
    ("write_p99_ms", |cell| latency(&cell.writes, |latency| latency.p99_ns as f64)),
    ("within_1_ms_percent", |cell| within(cell, 5)),
    ("within_2_ms_percent", |cell| within(cell, 6)),
    ("within_5_ms_percent", |cell| within(cell, 7)),
    ("within_10_ms_percent", |cell| within(cell, 8)),
    ("within_30_ms_percent", |cell| within(cell, 11)),
    ("power_w", |cell| optional(cell.power.as_ref().map(|power| power.watts))),
    ("power_source", |cell| cell.power.as_ref().map_or_else(String::new, |power| power.source.clone())),
    ("outstanding_by_littles_law", |cell| optional(cell.checks.outstanding)),
    ("littles_law_off_percent", |cell| optional(cell.checks.little_off.map(|off| off * 100.0))),
    ("load_cpu_percent", |cell| number(cell.checks.harness_cpu * 100.0)),
    ("late_p99_ms", |cell| optional(cell.checks.lag_p99_ns.map(|ns| ns as f64 / 1e6))),
    ("guests_written_bytes", |cell| counter(cell, |counted| counted.guest_written_bytes)),
    ("buffered_bytes", |cell| counter(cell, |counted| counted.buffered_bytes)),
    ("log_written_bytes", |cell| counter(cell, |counted| counted.log_written_bytes)),
    ("destaged_bytes", |cell| counter(cell, |counted| counted.destaged_bytes)),
    ("capacity_written_by_destage_bytes", |cell| counter(cell, |counted| counted.capacity_written_by_destage_bytes)),
    ("capacity_written_by_cleaning_bytes", |cell| counter(cell, |counted| counted.capacity_written_by_cleaning_bytes)),
    ("capacity_written_otherwise_bytes", |cell| counter(cell, |counted| counted.capacity_written_otherwise_bytes)),
    ("read_from_buffer_bytes", |cell| counter(cell, |counted| counted.read_from_buffer_bytes)),
    ("read_from_cache_bytes", |cell| counter(cell, |counted| counted.read_from_cache_bytes)),
    ("read_from_capacity_bytes", |cell| counter(cell, |counted| counted.read_from_capacity_bytes)),
    ("doubts", |cell| cell.checks.doubts.join("; ")),
    ("broken", |cell| cell.checks.broken.clone().unwrap_or_default()),
];

/// The file. Its first columns say of which study, scale, seed and media a row is, so that rows of several files can be put together.
pub fn csv(manifest: &Manifest, results: &Results) -> String {
    let names = ["study", "scale", "seed", "cache_media", "capacity_media", "dilation"].into_iter();
    let mut text = line(names.chain(COLUMNS.iter().map(|(name, _)| *name)).map(String::from));
    for cell in &results.cells {
        let media = manifest.media.iter().find(|media| media.arm == cell.params.arm);
        let own = [
            results.study.clone(),
            results.scale.clone(),
            manifest.seed.to_string(),
            media.map_or_else(String::new, |media| media.cache.clone()),
            media.map_or_else(String::new, |media| media.capacity.clone()),
            media.map_or_else(String::new, |media| number(media.dilation)),
        ];
        text.push_str(&line(own.into_iter().chain(COLUMNS.iter().map(|(_, value)| value(cell)))));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |cell: String| match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}

/// Without thousands separators, to six places; empty where it is no number.
fn number(value: f64) -> String {
    match value.is_finite() {
        true => {
            let text = format!("{value:.6}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        false => String::new(),
    }
}

/// Empty without samples: it is not known then.
fn failed(cell: &Cell) -> String {
    match cell.samples.as_slice() {
        [] => String::new(),
        samples => samples.iter().fold(0u64, |sum, sample| sum.saturating_add(sample.failed)).to_string(),
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

fn latency(side: &Side, ns: fn(&cairn_study::Latency) -> f64) -> String {
    optional(side.latency.as_ref().map(|latency| ns(latency) / 1e6))
}

/// The share of requests in IOMeter's first so many bins, which is exact.
fn within(cell: &Cell, bins: usize) -> String {
    let (iometer, all) = (&cell.total.iometer, cell.total.iometer.iter().sum::<u64>());
    let counted = all > 0 && all == cell.total.requests && iometer.len() >= bins;
    optional(counted.then(|| iometer[..bins].iter().sum::<u64>() as f64 / all as f64 * 100.0))
}

fn counter(cell: &Cell, value: fn(&Counters) -> u64) -> String {
    cell.counted.as_ref().map_or_else(String::new, |counted| value(counted).to_string())
}
