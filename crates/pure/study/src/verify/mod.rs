//! Whether a run obeys its study's rules: the manifest's order and phases, and what the numbers must do together.
//!
//! Promises    every rule is told with the numbers that it was judged by, held or not
//!             nothing is judged by the numbers that a document prints
//! Not here    whether numbers are good: only whether they were measured as the study says. Repeats need not agree: what one of them
//!             wrote, the next one finds buffered; the report shows how far apart they are

pub(crate) mod iometer_qos;
pub(crate) mod optane;
pub(crate) mod policy_matrix;

use crate::{Action, Cell, Manifest, PhaseKind, Results, Verdict, results::verdict};

/// Off by so much, a closed loop was not what it says.
const LITTLE_OFF_MAX: f64 = 0.05;

/// Judges a run of tests, by the rules of all and by `rules`. `ends_by_bytes`: a test may end before its measured time is over.
pub(crate) fn tests(
    manifest: &Manifest,
    results: &Results,
    ends_by_bytes: bool,
    rules: impl Fn(&Manifest, &Results) -> Vec<Verdict>,
) -> Vec<Verdict> {
    let mut verdicts = vec![whole(manifest, results), order(manifest), phases(manifest, results, ends_by_bytes)];
    verdicts.push(little(results));
    verdicts.extend(amplification(manifest, results));
    verdicts.push(bins(results));
    verdicts.extend(rules(manifest, results));
    verdicts
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
    let repeats = 1..=number(manifest, "repeats").unwrap_or(0) as u32;
    let tests = list(manifest, "tests");
    let ids = manifest.media.iter().flat_map(|arm| tests.iter().map(move |test| format!("{}/{test}", arm.arm)));
    let is = |cell: &&Cell, id: &str, repeat| cell.id == id && cell.repeat == repeat && cell.checks.broken.is_none();
    let once = |id: &str, repeat| results.cells.iter().filter(|cell| is(cell, id, repeat)).count() == 1;
    let asked: Vec<(String, u32)> =
        ids.flat_map(|id| repeats.clone().map(move |repeat| (id.clone(), repeat))).collect();
    let got = asked.iter().filter(|(id, repeat)| once(id, *repeat)).count();
    let all = got > 0 && got == asked.len() && got == results.cells.len();
    verdict(rule, all, format!("{got} of {} runs", asked.len()))
}

/// For each test in its order: clear, and its repeats with nothing between.
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
        if let Action::Clear { buffered_after_bytes, .. } = step.action {
            clears += 1;
            let buffers = manifest.target.buffer_bytes;
            if buffers > 0 && buffered_after_bytes > buffers / 100 {
                wrong.push(format!("clearing {clears} left {buffered_after_bytes} bytes of {buffers} buffered"));
            }
        }
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
fn phases(manifest: &Manifest, results: &Results, may_be_less: bool) -> Verdict {
    let rule = "each run has ramp, measure and drain one after the other, of the lengths asked for";
    let ramp = number(manifest, "ramp_ms").unwrap_or(0) as u64;
    let most = number(manifest, "measure_ms").unwrap_or(0) as u64;
    let (mut wrong, mut runs) = (Vec::new(), 0);
    for step in &manifest.steps {
        let Action::Run { cell: id, repeat } = &step.action else { continue };
        runs += 1;
        let kinds: Vec<PhaseKind> = step.phases.iter().map(|phase| phase.kind).collect();
        let joined = step.phases.windows(2).all(|pair| pair[0].ended_ms == pair[1].began_ms);
        let length = |at: usize| step.phases.get(at).map_or(0, |p| p.ended_ms.saturating_sub(p.began_ms));
        let right = kinds == [PhaseKind::Ramp, PhaseKind::Measure, PhaseKind::Drain] && joined;
        let (ramped, measured) = (length(0), length(1));
        let as_asked = measured == most || may_be_less && (1..most).contains(&measured);
        if !right || ramped != ramp || !as_asked {
            wrong.push(format!("{id}, repeat {repeat}: ramp {ramped} ms, measured {measured} ms"));
        }
        let cell = results.cells.iter().find(|cell| cell.id == *id && cell.repeat == *repeat);
        if let Some(counted) = cell.map(|cell| cell.measured_ms).filter(|counted| *counted != measured) {
            wrong.push(format!("{id}, repeat {repeat}: {counted} ms counted, measured {measured} ms"));
        }
    }
    each(
        rule,
        format!("{runs} runs: {ramp} ms of ramp, {most} ms measured{}", if may_be_less { " at most" } else { "" }),
        wrong,
    )
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

/// Each written byte went to as many write buffers as there are copies, and to capacity devices by destage alone. No rule where the
/// copies are unknown.
fn amplification(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    const COPIES: &str = "each written byte went to as many write buffers as there are copies (within 2 %)";
    const DESTAGE: &str = "capacity devices are written by destage and cleaning alone";
    let copies = manifest.target.copies;
    if copies == 0 {
        return Vec::new();
    }
    let counted: Vec<_> = results.cells.iter().filter_map(|cell| cell.counted).collect();
    if counted.is_empty() || counted.len() < results.cells.len() {
        let because = format!("counters were read in {} of {} runs", counted.len(), results.cells.len());
        return vec![verdict(COPIES, false, because.clone()), verdict(DESTAGE, false, because)];
    }
    let written: u64 = counted.iter().map(|counters| counters.guest_written_bytes).sum();
    let buffered: u64 = counted.iter().map(|counters| counters.buffered_bytes).sum();
    let ratio = buffered as f64 / written.max(1) as f64;
    let other: u64 = counted.iter().map(|counters| counters.capacity_written_otherwise_bytes).sum();
    let within = (ratio / f64::from(copies) - 1.0).abs() <= 0.02;
    let because = format!("{ratio:.3} buffered for each byte that guests wrote, {copies} copies");
    vec![verdict(COPIES, within, because), verdict(DESTAGE, other == 0, format!("{other} bytes otherwise"))]
}

/// Both foldings of one histogram have the same requests, and reads and writes are all there is.
pub(crate) fn bins(results: &Results) -> Verdict {
    let rule = "IOMeter's 21 bins and fio's bins hold the same requests";
    let (mut wrong, mut requests) = (Vec::new(), 0);
    for cell in &results.cells {
        let run = format!("{}, repeat {}", cell.id, cell.repeat);
        for (what, side) in [("reads", &cell.reads), ("writes", &cell.writes), ("both", &cell.total)] {
            let (iometer, fio): (u64, u64) = (side.iometer.iter().sum(), side.bins.iter().map(|bin| bin.1).sum());
            if iometer != side.requests || fio != side.requests {
                wrong.push(format!("{run}, {what}: {} requests, {iometer} and {fio}", side.requests));
            }
        }
        let (reads, writes, both) = (cell.reads.requests, cell.writes.requests, cell.total.requests);
        if reads + writes != both {
            wrong.push(format!("{run}: {reads} reads and {writes} writes are not {both} requests"));
        }
        requests += both;
    }
    each(rule, format!("{requests} requests"), wrong)
}

/// The mean rate of a configuration's repeats.
fn mean_iops(results: &Results, id: &str) -> Option<f64> {
    Some(crate::repeats_of(&results.cells, id, |cell| cell.total.iops)?.1.mean)
}
