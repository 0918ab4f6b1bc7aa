//! Results with the keys of HCIBench's `res.txt`.
//!
//! Promises    percentiles are those of all requests, not means of machines' percentiles; throughput is in MiB/s, and says so
//! Assumes     this process stands for one machine

use cairn_measure::Quantile;

use crate::job::{Measured, Side};

const RULE: &str = "=============================";

/// The block of one measurement that is called `name`.
pub fn hcibench(name: &str, measured: &Measured) -> String {
    let both = measured.both();
    let mean = |side: &Side| side.latency.mean_ns().unwrap_or(0.0) / 1e6;
    let p95 = |side: &Side| side.latency.quantile_ns(Quantile::P95).unwrap_or(0) as f64 / 1e6;
    let lines = [
        RULE.to_owned(),
        format!("JOB_NAME\t= {name}"),
        "VMs\t\t= 1".to_owned(),
        format!("IOPS\t\t= {:.2} IO/S", measured.per_s(&both)),
        format!("THROUGHPUT\t= {:.2} MiB/s", measured.bytes_per_s(&both) / f64::from(1 << 20)),
        format!("R_LATENCY\t= {:.4} ms", mean(&measured.reads)),
        format!("W_LATENCY\t= {:.4} ms", mean(&measured.writes)),
        format!("95%tile_R_LAT\t= {:.4} ms", p95(&measured.reads)),
        format!("95%tile_W_LAT\t= {:.4} ms", p95(&measured.writes)),
        RULE.to_owned(),
    ];
    lines.join("\n") + "\n"
}
