//! Rules of `optane-mixed` and `optane-seqwrite`.

use super::{list, mean_iops, verdict};
use crate::{ArmMedia, Cell, Gauges, Manifest, Results, Sample, Verdict};

pub(crate) fn mixed(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if let [first, second] = &manifest.media[..] {
        let same_rest = first.capacity == second.capacity && first.dilation == second.dilation;
        let only_cache = same_rest && first.cache != second.cache;
        let media = |arm: &ArmMedia| format!("{} before {}, times x{}", arm.cache, arm.capacity, arm.dilation);
        let because = format!("{}; {}", media(first), media(second));
        verdicts.push(verdict("arms differ in the cache medium only", only_cache, because));
        for test in list(manifest, "tests") {
            verdicts.extend(gain_and_latency(results, &first.arm, &second.arm, test));
        }
    }
    verdicts
}

/// At equal outstanding I/O a gain of g is a latency lower by 1 - 1/g.
fn gain_and_latency(results: &Results, first: &str, second: &str, test: &str) -> Option<Verdict> {
    let of = |arm: &str| {
        let id = format!("{arm}/{test}");
        let latency = crate::repeats_of(&results.cells, &id, |cell| cell.total.mean_ms().unwrap_or_default())?;
        Some((mean_iops(results, &id)?, latency.1.mean))
    };
    let ((iops, ms), (iops_second, ms_second)) = (of(first)?, of(second)?);
    let gain = iops_second / iops;
    let (lower, implied) = (1.0 - ms_second / ms, 1.0 - 1.0 / gain);
    let holds = (lower - implied).abs() <= 0.05;
    let because = format!(
        "{test}: {gain:.2} times the rate, latency {:+.1} %, implied {:+.1} %",
        -lower * 100.0,
        -implied * 100.0
    );
    Some(verdict("latency falls as the gain implies (within 5 points)", holds, because))
}

/// On a cluster that tells of its write buffers; one of the study's own does.
pub(crate) fn seqwrite(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let copies = manifest.target.copies;
    let told = |cell: &&Cell| copies > 0 || cell.samples.iter().any(|sample| sample.gauges.is_some());
    results.cells.iter().filter(told).flat_map(|cell| knee(cell, copies.max(1))).collect()
}

const PLATEAUS: &str = "two plateaus: the buffer's speed, then destage's (within 25 %)";

fn rate(sample: &Sample) -> f64 {
    sample.written_bytes as f64
}

/// A burst at the speed of the buffer, then what destage sustains.
fn knee(cell: &Cell, copies: u32) -> Vec<Verdict> {
    let gauges: Vec<Gauges> = cell.samples.iter().filter_map(|sample| sample.gauges).collect();
    let most = gauges.iter().map(|gauges| gauges.log_fill_max_permille).max();
    let because =
        most.map_or("its fill is not known".into(), |most| format!("{:.1} % at most", f64::from(most) / 10.0));
    let mut verdicts = vec![verdict(
        "the write buffer is never over its size",
        most.is_some_and(|most| most <= 1000),
        format!("{}: {because}", cell.id),
    )];
    // The last second is rarely a whole one.
    let seconds = cell.samples.split_last().map_or(&[][..], |(_, rest)| rest);
    let rates: Vec<f64> = seconds.iter().map(rate).collect();
    let Some(begins) = crate::knee(&rates) else {
        let because = match seconds.len() {
            0..4 => format!("{}: {} whole seconds are too few to see any", cell.id, seconds.len()),
            _ => format!(
                "{}: the rate, {:.1} MB/s in the middle, never fell to a level that is a tenth lower",
                cell.id,
                crate::median(&rates).unwrap_or(0.0) / 1e6
            ),
        };
        verdicts.push(verdict(PLATEAUS, false, because));
        return verdicts;
    };
    let burst = rates[..begins].iter().sum::<f64>() / begins as f64;
    verdicts.push(plateaus(cell, seconds, begins, burst, copies));
    verdicts.push(congestion(cell, seconds, begins));
    verdicts
}

/// What is written after the knee is what destage moves.
fn plateaus(cell: &Cell, seconds: &[Sample], begins: usize, burst: f64, copies: u32) -> Verdict {
    let tail = &seconds[(begins + (seconds.len() - begins) / 3).min(seconds.len() - 1)..];
    let sustained = tail.iter().map(rate).sum::<f64>() / tail.len() as f64;
    let gauges: Vec<(u64, u64)> = tail.iter().filter_map(|s| Some((s.until_ms, s.gauges?.destaged_bytes))).collect();
    let destaged = match (gauges.first(), gauges.last()) {
        (Some((from, least)), Some((until, most))) if until > from => {
            most.saturating_sub(*least) as f64 / ((until - from) as f64 / 1e3) / f64::from(copies)
        }
        _ => 0.0,
    };
    let because = format!(
        "{}: {:.1} MB/s for the first {:.0} s, {:.1} MB/s sustained, destage {:.1} MB/s for each copy",
        cell.id,
        burst / 1e6,
        seconds[begins - 1].until_ms as f64 / 1e3,
        sustained / 1e6,
        destaged / 1e6
    );
    verdict(PLATEAUS, (sustained / destaged.max(1.0) - 1.0).abs() <= 0.25, because)
}

fn congestion(cell: &Cell, seconds: &[Sample], begins: usize) -> Verdict {
    let low = seconds.iter().position(|sample| sample.gauges.is_some_and(|gauges| gauges.congestion > 0));
    let at_s = |second: usize| seconds[second].until_ms as f64 / 1e3;
    let because = match low {
        Some(low) => {
            format!("{}: congestion from {:.0} s on, the rate fell at {:.0} s", cell.id, at_s(low), at_s(begins))
        }
        None => format!("{}: no congestion was seen", cell.id),
    };
    // Gauges are asked for within a second of a sample's end.
    let holds = low.is_some_and(|low| low <= begins + 1);
    verdict("congestion rises before the rate falls (within a second)", holds, because)
}
