//! Results for people and for programs.
//!
//! Promises    latencies in ms in tables and in ns in JSON (`_ns`), throughput in MiB/s and MB/s, both named
//!             what was not measured is a dash, or null, and never a number
//! Source      fio's json+ for the histograms: `bins`, keys are middles in ns

mod fio;
pub mod hcibench;
pub mod iometer;
mod replay;
pub mod vdbench;

pub use fio::{fio, fio_of};
pub use replay::{replay_json, replay_table};

use cairn_measure::{Histogram, Quantile};
use cairn_workload::{Kind, Pace, Spec};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value, json};

use crate::job::{Job, Measured, Side, StreamJob, Tally, Verified};

const QUANTILES: [(&str, Quantile); 5] = [
    ("p50", Quantile::P50),
    ("p95", Quantile::P95),
    ("p99", Quantile::P99),
    ("p999", Quantile::P999),
    ("p9999", Quantile::P9999),
];

/// The result in the terms of `results.json`: one cell of a study.
pub fn json(job: &Job, measured: &Measured) -> Value {
    let both = measured.both();
    json!({
        "targets": job.streams.iter().map(|stream| stream.target.to_string()).collect::<Vec<_>>(),
        "params": job.alike().map(|stream| params(job, stream, job.streams.len())),
        "measured_s": measured.measured.as_secs_f64(),
        "read": side(measured, &measured.reads),
        "write": side(measured, &measured.writes),
        "total": side(measured, &both),
        "streams": job.streams.iter().zip(&measured.streams).map(|(stream, of_stream)| json!({
            "name": stream.name,
            "target": stream.target.to_string(),
            "params": params(job, stream, 1),
            "read": side(measured, &of_stream.reads),
            "write": side(measured, &of_stream.writes),
        })).collect::<Vec<_>>(),
        "seconds": measured.seconds.iter().map(|second| {
            let both = second.both();
            json!({
                "requests": both.requests, "bytes": both.bytes, "max_ns": both.max_ns, "sum_ns": both.sum_ns,
                "read": tally(&second.reads), "write": tally(&second.writes),
            })
        }).collect::<Vec<_>>(),
        "checks": {
            "little_outstanding": measured.little(job).map(|little| little.outstanding),
            "little_off": measured.little(job).map(|little| little.off),
            "harness_cpu": measured.harness_cpu,
            "lag_p99_ns": measured.lag.as_ref().and_then(|lag| lag.quantile_ns(Quantile::P99)),
        },
        "doubts": measured.doubts(job),
        "complete": measured.broken.is_none(),
    })
}

fn tally(tally: &Tally) -> Value {
    let Tally { requests, bytes, max_ns, sum_ns, .. } = tally;
    json!({ "requests": requests, "bytes": bytes, "max_ns": max_ns, "sum_ns": sum_ns })
}

/// The load of a stream, with the rate that `count` such streams have together.
fn params(job: &Job, stream: &StreamJob, count: usize) -> Value {
    let spec = &stream.spec;
    let together = |per_s: f64| per_s * count as f64;
    let rate = match stream.pace {
        Pace::Closed => Value::Null,
        Pace::Rate { per_s } => json!({ "per_s": together(per_s), "arrivals": "even" }),
        Pace::Poisson { per_s } => json!({ "per_s": together(per_s), "arrivals": "poisson" }),
    };
    let mut params = json!({
        "bs_bytes": one_of(spec, |kind| kind.request_bytes),
        "rdpct": one_of(spec, |kind| kind.read_percent.into()),
        "rndpct": one_of(spec, |kind| kind.random_percent.into()),
        "addresses": format!("{:?}", spec.addresses),
        "span_begin": spec.span_begin,
        "span_bytes": if spec.span_bytes == 0 { Value::Null } else { spec.span_bytes.into() },
        "outstanding_per_target": stream.outstanding,
        "rate": rate,
        "ramp_s": job.ramp.as_secs_f64(),
        "seed": spec.seed,
        "content": {
            "duplicate_share": stream.content.duplicate_share,
            "duplicates": stream.content.duplicates,
            "duplicates_share": stream.duplicates_share,
            "random_share": stream.content.random_share,
        },
    });
    if spec.kinds.len() > 1 {
        let kind = |kind: &Kind| {
            let Kind { weight, request_bytes, read_percent, random_percent } = kind;
            json!({ "weight": weight, "bs_bytes": request_bytes, "rdpct": read_percent, "rndpct": random_percent })
        };
        params["kinds"] = spec.kinds.iter().map(kind).collect();
    }
    if let Some((from, to)) = stream.part {
        params["span_percent"] = json!([from, to]);
    }
    if let Some(bytes) = stream.bytes_max {
        params["bytes_max"] = bytes.into();
    }
    if let Some(spans) = stream.spans_max {
        params["spans_max"] = spans.into();
    }
    params
}

/// A number of all kinds of requests; none where they differ.
fn one_of(spec: &Spec, of: impl Fn(&Kind) -> u32) -> Option<u32> {
    let first = of(spec.kinds.first()?);
    spec.kinds.iter().all(|kind| of(kind) == first).then_some(first)
}

fn side(measured: &Measured, side: &Side) -> Value {
    let latency = &side.latency;
    let mut lat = Map::new();
    lat.insert("mean_ns".into(), json!(latency.mean_ns()));
    lat.insert("min_ns".into(), json!(latency.min_ns()));
    for (name, quantile) in QUANTILES {
        lat.insert(format!("{name}_ns"), json!(latency.quantile_ns(quantile)));
    }
    lat.insert("max_ns".into(), json!(latency.max_ns()));
    json!({
        "requests": latency.count(),
        "bytes": side.bytes,
        "iops": measured.per_s(side),
        "bytes_per_s": measured.bytes_per_s(side),
        "lat": lat,
        "qos": qos(latency),
        "iometer_bins": latency.iometer(),
        "bins": latency.fio_bins().into_iter().map(|(ns, count)| (ns.to_string(), json!(count))).collect::<Map<_, _>>(),
    })
}

/// The share of requests within 1, 2, 5, 10 and 30 ms: edges of IOMeter's bins, so exact.
fn qos(latency: &Histogram) -> Value {
    let share = |ms: u64| (ms.to_string(), json!(latency.share_within_us(ms * 1000)));
    [1, 2, 5, 10, 30].map(share).into_iter().collect::<Map<_, _>>().into()
}

/// What reading back came to, in the terms of results.
pub fn verified_json(verified: &Verified) -> Value {
    let Verified { places, bytes, wrong, first_wrong } = verified;
    json!({ "places": places, "bytes": bytes, "wrong": wrong, "first_wrong": first_wrong })
}

/// What reading back came to, in one line.
pub fn verified_line(verified: &Verified) -> String {
    let Verified { places, bytes, wrong, first_wrong } = verified;
    let bytes = cairn_types::format_bytes(*bytes);
    match first_wrong {
        Some(first) => format!(
            "! read back: {wrong} of {places} places ({bytes}) do not hold what was acknowledged last, nor anything later; the first: {first}"
        ),
        None => format!("read back: {places} places ({bytes}), each as it was acknowledged last or written after that"),
    }
}

/// For people; `by_stream` adds a row for each stream.
pub fn table(job: &Job, measured: &Measured, by_stream: bool) -> String {
    let mut rows = sides(measured);
    if by_stream && job.streams.len() > 1 {
        let streams = job.streams.iter().zip(&measured.streams);
        rows.extend(streams.map(|(stream, of_stream)| (stream.name.as_str(), of_stream.both())));
    }
    let table = table_of(measured, &rows);
    let mut text = format!("{}\n{table}\n", title(job));
    if measured.broken.is_none() && measured.measured < job.measure {
        text.push_str(&format!("all bytes were done after {:.1} s\n", measured.measured.as_secs_f64()));
    }
    for doubt in measured.doubts(job) {
        text.push_str(&format!("! {doubt}\n"));
    }
    text
}

/// Reads, writes and both together; what there was none of is left out.
fn sides<'a>(measured: &Measured) -> Vec<(&'a str, Side)> {
    let sides = [("read", measured.reads.clone()), ("write", measured.writes.clone()), ("total", measured.both())];
    sides.into_iter().filter(|(name, side)| side.latency.count() > 0 || *name == "total").collect()
}

fn table_of(measured: &Measured, rows: &[(&str, Side)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "", "IOPS", "MiB/s", "MB/s", "MEAN MS", "P50", "P95", "P99", "P99.9", "MAX", "<=1 MS", "<=5 MS", "<=30 MS",
    ]);
    for (name, side) in rows {
        table.add_row(row(name, measured, side));
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// What was asked for, in one line.
pub fn title(job: &Job) -> String {
    let (streams, outstanding) = (job.streams.len(), job.outstanding());
    let rate: f64 = job.streams.iter().filter_map(StreamJob::per_s).sum();
    let (what, pace) = match job.alike() {
        Some(stream) => match stream.pace {
            Pace::Closed => {
                (load(&stream.spec), format!("{} outstanding at each of {streams} target(s)", stream.outstanding))
            }
            Pace::Rate { .. } => (load(&stream.spec), format!("{rate} a second over {streams} target(s)")),
            Pace::Poisson { .. } => (load(&stream.spec), format!("{rate} a second (Poisson) over {streams} target(s)")),
        },
        None => (format!("{streams} streams of different loads"), format!("{outstanding} outstanding in all")),
    };
    let measure = match job.measure {
        cairn_jobfile::Run::UNTIL_DONE => "until done".into(),
        time => format!("{:.0} s", time.as_secs_f64()),
    };
    format!("{what}, {pace}; {measure} after {:.0} s of ramp", job.ramp.as_secs_f64())
}

/// What a stream asks for, in words.
pub fn load(spec: &Spec) -> String {
    let kinds = spec.kinds.len();
    let size = match one_of(spec, |kind| kind.request_bytes) {
        Some(bytes) => format!("{} requests", cairn_types::format_bytes(bytes.into())),
        None => format!("requests of {kinds} kinds, {} on average", {
            cairn_types::format_bytes(spec.mean(|kind| kind.request_bytes.into()) as u64)
        }),
    };
    let percent = |of: fn(&Kind) -> u8| spec.mean(|kind| of(kind).into()).round();
    format!("{size}, {} % read, {} % random", percent(|kind| kind.read_percent), percent(|kind| kind.random_percent))
}

fn row(name: &str, measured: &Measured, side: &Side) -> Vec<String> {
    let latency = &side.latency;
    let ms = |ns: Option<f64>| ns.map_or("-".into(), |ns| format!("{:.3}", ns / 1e6));
    let at = |quantile| ms(latency.quantile_ns(quantile).map(|ns| ns as f64));
    let share =
        |ms: u64| latency.share_within_us(ms * 1000).map_or("-".into(), |share| format!("{:.2} %", share * 100.0));
    let bytes_per_s = measured.bytes_per_s(side);
    vec![
        name.into(),
        format!("{:.0}", measured.per_s(side)),
        format!("{:.1}", bytes_per_s / f64::from(1 << 20)),
        format!("{:.1}", bytes_per_s / 1e6),
        ms(latency.mean_ns()),
        at(Quantile::P50),
        at(Quantile::P95),
        at(Quantile::P99),
        at(Quantile::P999),
        ms(latency.max_ns().map(|ns| ns as f64)),
        share(1),
        share(5),
        share(30),
    ]
}
