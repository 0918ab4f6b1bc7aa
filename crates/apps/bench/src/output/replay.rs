//! What a replay came to, for people and for programs.

use cairn_jobfile::iolog::{Act, Log};
use cairn_measure::{Histogram, Quantile};
use serde_json::{Map, Value, json};

use crate::replay::{Replay, Replayed};

/// As [`super::json`], with `replay` and `order`, and without loads: a log is none.
pub fn replay_json(replay: &Replay, replayed: &Replayed) -> Value {
    let Replayed { job, measured, trims, flushes, issued, order } = replayed;
    let log: &Log = &replay.log;
    let mut told = super::json(job, measured);
    for stream in told["streams"].as_array_mut().into_iter().flatten() {
        stream["params"] = Value::Null;
    }
    told["params"] = Value::Null;
    told["replay"] = json!({
        "version": log.version,
        "files": log.files.iter().zip(&replay.targets).map(|(file, target)| json!({
            "name": file.name, "target": target.to_string(), "requests": file.requests,
        })).collect::<Vec<_>>(),
        "log_s": log.time_us() as f64 / 1e6,
        "due_s": replay.time().map(|time| time.as_secs_f64()),
        "time_scale": replay.faster,
        "outstanding": replay.outstanding,
        "seed": replay.content.seed,
        "requests": counts(&log.counts),
        "issued": counts(issued),
        "trim": super::side(measured, trims),
        "flush": super::side(measured, flushes),
        "lag": measured.lag.as_ref().map(lag),
    });
    told["order"] = json!({
        "log": log.order.to_string(),
        "issued": order.to_string(),
        "same": replayed.is_in_order(log),
    });
    told["doubts"] = json!(replayed.doubts(log));
    told
}

fn counts(counts: &[u64; 5]) -> Value {
    Act::ALL.iter().zip(counts).map(|(act, count)| (act.name().to_owned(), json!(count))).collect::<Map<_, _>>().into()
}

fn lag(lag: &Histogram) -> Value {
    let mut told: Map<String, Value> =
        super::QUANTILES.iter().map(|(name, at)| (format!("{name}_ns"), json!(lag.quantile_ns(*at)))).collect();
    told.insert("mean_ns".into(), json!(lag.mean_ns()));
    told.insert("max_ns".into(), json!(lag.max_ns()));
    told.into()
}

/// For people: as the table of a load, with rows for trims and flushes, then how late requests began, and the order.
pub fn replay_table(replay: &Replay, replayed: &Replayed) -> String {
    let Replayed { job, measured, trims, flushes, issued, order } = replayed;
    let log: &Log = &replay.log;
    let mut rows = super::sides(measured);
    for (name, side) in [("trim", trims), ("flush", flushes)] {
        if side.latency.count() > 0 {
            rows.push((name, side.clone()));
        }
    }
    if job.streams.len() > 1 {
        let streams = job.streams.iter().zip(&measured.streams);
        rows.extend(streams.map(|(stream, of_stream)| (stream.name.as_str(), of_stream.both())));
    }
    let table = super::table_of(measured, &rows);
    let kinds: Vec<String> = Act::ALL
        .iter()
        .zip(issued)
        .filter(|(_, count)| **count > 0)
        .map(|(act, count)| format!("{count} {act}"))
        .collect();
    let mut text = format!("{}\n{table}\nrequests: {}\n", title(replay, replayed), kinds.join(", "));
    if let Some(lag) = &measured.lag {
        let ms = |ns: Option<u64>| ns.map_or("-".into(), |ns| format!("{:.3}", ns as f64 / 1e6));
        let at = |quantile| ms(lag.quantile_ns(quantile));
        let (p50, p99, p999) = (at(Quantile::P50), at(Quantile::P99), at(Quantile::P999));
        text.push_str(&format!("begun after due, ms: p50 {p50}, p99 {p99}, p99.9 {p999}, max {}\n", ms(lag.max_ns())));
    }
    let same = if replayed.is_in_order(log) { "the log's" } else { "not the log's" };
    text.push_str(&format!("order: {order}, {same}\n"));
    for doubt in replayed.doubts(log) {
        text.push_str(&format!("! {doubt}\n"));
    }
    text
}

fn title(replay: &Replay, replayed: &Replayed) -> String {
    let (log, took) = (&replay.log, replayed.measured.measured.as_secs_f64());
    let whole = format!(
        "{} requests to {} file(s) of a log of {:.1} s",
        log.len(),
        log.files.len(),
        log.time_us() as f64 / 1e6
    );
    let pace = match replay.faster {
        None => "as fast as they end".into(),
        Some(1.0) => "as recorded".into(),
        Some(faster) => format!("{faster} times as fast"),
    };
    format!("{whole}, {pace}, at most {} outstanding; {took:.1} s", replay.outstanding)
}
