//! Results as fio's json+ has them, as far as there is something to tell: what parsers of it read of a job.
//!
//! Assumes     latency is from before a request is given away to its end; fio's `clat` begins a little later
//! Not here    what fio measures and this does not: submission latency, CPU of jobs, devices' counters

use serde_json::{Map, Value, json};

use cairn_measure::Quantile;

use crate::job::{Job, Measured, Side, StreamJob};

/// One measurement as one job.
pub fn fio(job: &Job, measured: &Measured) -> Value {
    let sides = (&measured.reads, &measured.writes);
    document(vec![entry("cairn-bench", 0, measured, sides, job.alike())])
}

/// Several, each of their streams a job; runs are groups.
pub fn fio_of<'a>(runs: impl IntoIterator<Item = (&'a Job, &'a Measured)>) -> Value {
    let entries = runs.into_iter().enumerate().flat_map(|(group, (job, measured))| {
        let streams = job.streams.iter().zip(&measured.streams);
        streams.map(move |(stream, of_stream)| {
            entry(&stream.name, group, measured, (&of_stream.reads, &of_stream.writes), Some(stream))
        })
    });
    document(entries.collect())
}

fn document(jobs: Vec<Value>) -> Value {
    json!({ "fio version": concat!("cairn-bench-", env!("CARGO_PKG_VERSION")), "jobs": jobs })
}

fn entry(name: &str, group: usize, measured: &Measured, sides: (&Side, &Side), stream: Option<&StreamJob>) -> Value {
    json!({
        "jobname": name,
        "groupid": group,
        "error": i32::from(measured.broken.is_some()),
        "read": direction(measured, sides.0),
        "write": direction(measured, sides.1),
        "job options": stream.map(|stream| json!({
            "bs": stream.spec.request_bytes_max().to_string(),
            "iodepth": stream.outstanding.to_string(),
        })),
    })
}

fn direction(measured: &Measured, side: &Side) -> Value {
    let latency = &side.latency;
    let percentile = |millionths: u32| {
        let ns = Quantile::of_millionths(millionths).and_then(|quantile| latency.quantile_ns(quantile));
        (format!("{:.6}", f64::from(millionths) / 10_000.0), json!(ns.unwrap_or(0)))
    };
    let percentiles = FIO_PERCENTILES.map(percentile).into_iter().collect::<Map<_, _>>();
    let bins = latency.fio_bins().into_iter().map(|(ns, count)| (ns.to_string(), json!(count)));
    json!({
        "io_bytes": side.bytes,
        "io_kbytes": side.bytes >> 10,
        "bw_bytes": measured.bytes_per_s(side) as u64,
        "bw": measured.bytes_per_s(side) as u64 >> 10,
        "iops": measured.per_s(side),
        "runtime": measured.measured.as_millis() as u64,
        "total_ios": latency.count(),
        "lat_ns": {
            "min": latency.min_ns().unwrap_or(0),
            "max": latency.max_ns().unwrap_or(0),
            "mean": latency.mean_ns().unwrap_or(0.0),
            "N": latency.count(),
        },
        "clat_ns": {
            "min": latency.min_ns().unwrap_or(0),
            "max": latency.max_ns().unwrap_or(0),
            "mean": latency.mean_ns().unwrap_or(0.0),
            "N": latency.count(),
            "percentile": percentiles,
            "bins": bins.collect::<Map<_, _>>(),
        },
    })
}

/// fio's default list.
const FIO_PERCENTILES: [u32; 17] = [
    10_000, 50_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000, 950_000, 990_000,
    995_000, 999_000, 999_500, 999_900,
];
