//! Whether a run obeys its study's rules: the manifest's order and phases, and what the numbers must do together.
//!
//! Promises    every rule is told with the numbers that it was judged by, held or not
//!             nothing is judged by the numbers that a document prints
//! Not here    whether numbers are good: only whether they were measured as the study says. Repeats need not agree: what one of them
//!             wrote, the next one finds buffered; the report shows how far apart they are

use crate::{Action, Cell, Manifest, PhaseKind, Results, Verdict};

/// Off by so much, a closed loop was not what it says.
const LITTLE_OFF_MAX: f64 = 0.05;

/// Judges a run.
pub fn verify(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let mut verdicts = vec![whole(manifest, results), order(manifest), phases(manifest)];
    verdicts.push(little(results));
    verdicts.extend(amplification(manifest, results));
    verdicts.push(bins(results));
    match manifest.study.as_str() {
        "iometer-qos" => verdicts.extend(iometer_qos(manifest, results)),
        "optane-mixed" => verdicts.extend(optane_mixed(manifest, results)),
        "optane-seqwrite" => verdicts.extend(optane_seqwrite(results)),
        "resilience" => return crate::resilience::verify(manifest, results),
        _ => {}
    }
    verdicts
}

pub(crate) fn verdict(rule: &str, holds: bool, because: impl Into<String>) -> Verdict {
    Verdict { rule: rule.into(), holds, because: because.into() }
}

/// All of `list`, or the first of its kind.
fn each(rule: &str, good: String, wrong: Vec<String>) -> Verdict {
    match wrong.first() {
        None => verdict(rule, true, good),
        Some(first) if wrong.len() == 1 => verdict(rule, false, first.clone()),
        Some(first) => verdict(rule, false, format!("{first} (and {} more)", wrong.len() - 1)),
    }
}

fn number(manifest: &Manifest, name: &str) -> Option<usize> {
    manifest.parameters.get(name)?.parse().ok()
}

fn list<'a>(manifest: &'a Manifest, name: &str) -> Vec<&'a str> {
    manifest.parameters.get(name).map_or(Vec::new(), |text| text.split(',').collect())
}

fn whole(manifest: &Manifest, results: &Results) -> Verdict {
    let rule = "every repeat of every test was measured";
    if let Some(why) = &manifest.ended_early {
        return verdict(rule, false, format!("the run ended early: {why}"));
    }
    let asked = manifest.media.len() * list(manifest, "tests").len() * number(manifest, "repeats").unwrap_or(0);
    let got = results.cells.iter().filter(|cell| cell.checks.broken.is_none()).count();
    verdict(rule, asked == got && got > 0, format!("{got} of {asked} runs"))
}

/// Start, everything written once, then for each test in its order: clear, and its repeats with nothing between.
fn order(manifest: &Manifest) -> Verdict {
    let rule = "caches cleared before each test and not between its repeats, tests in order";
    let (tests, repeats) = (list(manifest, "tests"), number(manifest, "repeats").unwrap_or(0) as u32);
    let (mut wrong, mut clears, mut last): (Vec<String>, usize, Option<&Action>) = (Vec::new(), 0, None);
    for step in &manifest.steps {
        if let Action::Run { cell, repeat } = &step.action {
            let fits = match last {
                Some(Action::Clear { .. }) => *repeat == 1,
                Some(Action::Run { cell: before, repeat: earlier }) => before == cell && *repeat == earlier + 1,
                _ => false,
            };
            if !fits {
                wrong.push(format!("{cell}, repeat {repeat}, does not follow on its clearing or its last repeat"));
            }
        }
        clears += usize::from(matches!(step.action, Action::Clear { .. }));
        last = Some(&step.action);
    }
    for arm in &manifest.media {
        let ran: Vec<String> =
            manifest.steps.iter().filter(|step| step.arm == arm.arm).filter_map(first_repeat).collect();
        let asked: Vec<String> = tests.iter().map(|test| format!("{}/{test}", arm.arm)).collect();
        if ran != asked {
            wrong.push(format!("{}: {} were run, not {}", arm.arm, ran.join(", "), asked.join(", ")));
        }
    }
    each(rule, format!("{clears} clearings, {repeats} repeats after each"), wrong)
}

fn first_repeat(step: &crate::Step) -> Option<String> {
    match &step.action {
        Action::Run { cell, repeat: 1 } => Some(cell.clone()),
        _ => None,
    }
}

/// Ramp, measure, drain follow on each other, and only what was asked for counts.
fn phases(manifest: &Manifest) -> Verdict {
    let rule = "each run has ramp, measure and drain one after the other, of the lengths asked for";
    let ramp = number(manifest, "ramp_ms").unwrap_or(0) as u64;
    let most = number(manifest, "measure_ms").unwrap_or(0) as u64;
    let (mut wrong, mut runs) = (Vec::new(), 0);
    for step in &manifest.steps {
        let Action::Run { cell, repeat } = &step.action else { continue };
        runs += 1;
        let kinds: Vec<PhaseKind> = step.phases.iter().map(|phase| phase.kind).collect();
        let joined = step.phases.windows(2).all(|pair| pair[0].ended_ms == pair[1].began_ms);
        let length = |at: usize| step.phases.get(at).map_or(0, |p| p.ended_ms.saturating_sub(p.began_ms));
        let right = kinds == [PhaseKind::Ramp, PhaseKind::Measure, PhaseKind::Drain] && joined;
        if !right || length(0) != ramp || length(1) > most || length(1) == 0 {
            wrong.push(format!("{cell}, repeat {repeat}: ramp {} ms, measured {} ms", length(0), length(1)));
        }
    }
    each(rule, format!("{runs} runs: {ramp} ms of ramp, {most} ms measured at most"), wrong)
}

/// Rate times mean latency is what was kept outstanding.
fn little(results: &Results) -> Verdict {
    let rule = "Little's law within 5 %";
    let off = |cell: &&Cell| cell.checks.little_off.map_or(f64::INFINITY, f64::abs);
    let closed: Vec<&Cell> = results.cells.iter().filter(|cell| cell.params.rate_per_s.is_none()).collect();
    let wrong = closed.iter().filter(|cell| off(cell) > LITTLE_OFF_MAX);
    let wrong = wrong.map(|cell| format!("{}, repeat {}: off by {:.1} %", cell.id, cell.repeat, off(cell) * 100.0));
    let most = closed.iter().map(off).fold(0.0, f64::max);
    each(rule, format!("off by {:.1} % at most in {} runs", most * 100.0, closed.len()), wrong.collect())
}

/// Each written byte went to as many write buffers as there are copies, and to capacity devices by destage alone.
fn amplification(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let counted: Vec<_> = results.cells.iter().filter_map(|cell| Some((cell, cell.counted?))).collect();
    let copies = f64::from(manifest.target.copies);
    if counted.is_empty() || copies == 0.0 {
        return Vec::new();
    }
    let written: u64 = counted.iter().map(|(_, c)| c.guest_written_bytes).sum();
    let buffered: u64 = counted.iter().map(|(_, c)| c.buffered_bytes).sum();
    let ratio = buffered as f64 / written.max(1) as f64;
    let other: u64 = counted.iter().map(|(_, c)| c.capacity_written_otherwise_bytes).sum();
    let within = (ratio / copies - 1.0).abs() <= 0.02;
    vec![
        verdict(
            "each written byte went to as many write buffers as there are copies (within 2 %)",
            within,
            format!("{ratio:.3} buffered for each byte that guests wrote, {copies} copies"),
        ),
        verdict(
            "capacity devices are written by destage and cleaning alone",
            other == 0,
            format!("{other} bytes otherwise"),
        ),
    ]
}

/// Both foldings of one histogram have the same requests, and curves of service rise.
fn bins(results: &Results) -> Verdict {
    let rule = "IOMeter's 21 bins and fio's bins hold the same requests";
    let sides = results.cells.iter().flat_map(|cell| [(cell, &cell.reads), (cell, &cell.writes), (cell, &cell.total)]);
    let (mut wrong, mut requests) = (Vec::new(), 0);
    for (cell, side) in sides {
        let (iometer, fio): (u64, u64) = (side.iometer.iter().sum(), side.bins.iter().map(|bin| bin.1).sum());
        requests += side.requests;
        if iometer != side.requests || fio != side.requests {
            wrong.push(format!("{}, repeat {}: {} requests, {iometer} and {fio}", cell.id, cell.repeat, side.requests));
        }
    }
    each(rule, format!("{} requests", requests / 2), wrong)
}

/// The mean rate of a configuration's repeats.
fn mean_iops(results: &Results, id: &str) -> Option<f64> {
    Some(crate::repeats_of(&results.cells, id, |cell| cell.total.iops)?.1.mean)
}

fn iometer_qos(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let tests = list(manifest, "tests");
    if tests.contains(&"vms-4") && tests.contains(&"vms-64") {
        // Only an arm whose reads do not wait for an arm of a disk can grow with the machines.
        let flash = manifest.media.iter().filter(|arm| arm.capacity != "hdd10k");
        for arm in flash {
            let at = |vms: u32| mean_iops(results, &format!("{}/vms-{vms}", arm.arm));
            if let (Some(few), Some(many)) = (at(4), at(64)) {
                let ratio = many / few.max(1e-9);
                let because = format!("{}: {many:.0} / {few:.0} = {ratio:.1}", arm.arm);
                verdicts.push(verdict("64 machines reach at least 8 times the rate of 4", ratio >= 8.0, because));
            }
        }
    }
    let one_each = |cell: &&Cell| {
        let asked = f64::from(cell.params.vms);
        cell.checks.outstanding.is_none_or(|outstanding| (outstanding / asked - 1.0).abs() > LITTLE_OFF_MAX)
    };
    let wrong = results.cells.iter().filter(one_each).map(|cell| format!("{}, repeat {}", cell.id, cell.repeat));
    verdicts.push(each("one request outstanding for each machine", "in every run".into(), wrong.collect()));
    verdicts
}

fn optane_mixed(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if let [first, second] = &manifest.media[..] {
        let only_cache = first.capacity == second.capacity && first.dilation == second.dilation;
        let because = format!("{} and {}", first.cache, second.cache);
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

fn optane_seqwrite(results: &Results) -> Vec<Verdict> {
    let with_gauges = results.cells.iter().filter(|cell| cell.samples.iter().any(|sample| sample.gauges.is_some()));
    with_gauges.flat_map(|cell| knee(cell)).collect()
}

/// A burst at the speed of the buffer, then what destage sustains.
fn knee(cell: &Cell) -> Vec<Verdict> {
    let fill = |sample: &crate::Sample| sample.gauges.map_or(0, |gauges| gauges.log_fill_max_permille);
    let over = cell.samples.iter().filter(|sample| fill(sample) > 1000).count();
    let mut verdicts = vec![verdict(
        "the write buffer is never over its size",
        over == 0,
        format!("{}: {:.1} % at most", cell.id, f64::from(cell.samples.iter().map(fill).max().unwrap_or(0)) / 10.0),
    )];
    // The last second is rarely a whole one.
    let Some((_, seconds)) = cell.samples.split_last().filter(|(_, rest)| rest.len() >= 4) else {
        return verdicts;
    };
    let rate = |sample: &crate::Sample| sample.written_bytes as f64;
    let burst = seconds.iter().map(rate).fold(0.0, f64::max);
    let begins = seconds.iter().position(|sample| rate(sample) < burst * 0.75 && sample.until_ms > 1000);
    let low = seconds.iter().position(|sample| sample.gauges.is_some_and(|gauges| gauges.congestion > 0));
    let Some(begins) = begins else {
        let because = format!("{}: the rate never fell below three quarters of {:.1} MB/s", cell.id, burst / 1e6);
        verdicts.push(verdict("two plateaus: the buffer's speed, then destage's", false, because));
        return verdicts;
    };
    let first = seconds.iter().map(|s| s.until_ms).next().unwrap_or(0);
    let tail = &seconds[(begins + (seconds.len() - begins) / 3).min(seconds.len() - 1)..];
    let sustained = tail.iter().map(rate).sum::<f64>() / tail.len() as f64;
    // Two copies of each byte are destaged.
    let gauges: Vec<(u64, u64)> = tail.iter().filter_map(|s| Some((s.until_ms, s.gauges?.destaged_bytes))).collect();
    let destaged = match (gauges.first(), gauges.last()) {
        (Some((from, least)), Some((until, most))) if until > from => {
            (most - least) as f64 / ((until - from) as f64 / 1e3) / 2.0
        }
        _ => 0.0,
    };
    let because = format!(
        "{}: {:.1} MB/s in the first {:.0} s, {:.1} MB/s sustained, destage {:.1} MB/s for each copy",
        cell.id,
        burst / 1e6,
        (seconds[begins].until_ms - first) as f64 / 1e3,
        sustained / 1e6,
        destaged / 1e6
    );
    let near = (sustained / destaged.max(1.0) - 1.0).abs() <= 0.25;
    verdicts.push(verdict("two plateaus: the buffer's speed, then destage's (within 25 %)", near, because));
    let because = match low {
        Some(low) => format!(
            "{}: congestion from {:.0} s on, the rate fell at {:.0} s",
            cell.id,
            seconds[low].until_ms as f64 / 1e3,
            seconds[begins].until_ms as f64 / 1e3
        ),
        None => format!("{}: no congestion was seen", cell.id),
    };
    // Gauges are asked for within a second of a sample's end.
    let holds = low.is_some_and(|low| low <= begins + 1);
    verdicts.push(verdict("congestion rises before the rate falls (within a second)", holds, because));
    verdicts
}
