//! `rd=`: runs, one for each value of each list.
//!
//! Promises    with warmup=, elapsed= counts after it; without, the first interval is dropped
//!             iorate=curve is one run without a rate, then 10, 50, 70, 80, 90 and 100 % of what that one did, rounded up to 100s
//! Source      Vdbench's Users Guide 5.04: run definitions, "For" loops (the first that stands there is the outermost)

use std::time::Duration;

use cairn_workload::{Addresses, Spec};

use super::{
    keywords::Fields,
    storage::{Sd, THREADS_MAX, divided},
    text::{Definition, Word},
    values,
    workload::{Seek, Size, Wd, kinds, seek},
};
use crate::{
    error::FileError,
    number,
    plan::{Arrivals, Note, Run, Stream, StreamPace, Total},
};

/// Runs that one file may come to.
const RUNS_MAX: usize = 1000;
const CURVE: [f64; 6] = [10.0, 50.0, 70.0, 80.0, 90.0, 100.0];
const ELAPSED_S: f64 = 30.0;
const INTERVAL_S: f64 = 1.0;

/// What the loops of a run set in place of what its workloads have.
#[derive(Debug, Clone, Default)]
struct Loops {
    told: Vec<String>,
    threads: Option<u64>,
    bytes: Option<u32>,
    read_percent: Option<u8>,
    seek: Option<Seek>,
}

/// Times of a run.
#[derive(Debug, Clone, Copy)]
struct Times {
    ramp: Duration,
    measure: Duration,
    interval: Duration,
    pause: Duration,
}

/// The runs of one definition, behind those that are there before.
pub(super) fn append(
    runs: &mut Vec<Run>,
    definition: &Definition,
    defaults: &[Word],
    sds: &[Sd],
    wds: &[Wd],
    notes: &mut Vec<Note>,
) -> Result<(), FileError> {
    let fields = Fields::new(definition, defaults, notes)?;
    fields.get("openflags").map_or(Ok(()), values::open_flags)?;
    let wds = workloads(&fields, definition, sds, wds)?;
    let wds: Vec<&Wd> = wds.iter().collect();
    let times = times(&fields, definition, notes)?;
    let arrivals = arrivals(&fields)?;
    for loops in loops(&fields)? {
        let streams = streams(&loops, sds, &wds, definition)?;
        for (total, told) in totals(&fields, runs.len())? {
            if total == Total::None && wds.len() > 1 && wds.iter().any(|wd| wd.skew.is_some()) {
                let text = "skew= without a rate divides what is outstanding: rates are in that ratio where latencies are alike";
                let note = Note { line: definition.place.line, text: format!("{}: {text}", definition.name) };
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
            let mut name = definition.name.clone();
            for part in loops.told.iter().chain(&told) {
                name = format!("{name} {part}");
            }
            let Times { ramp, measure, interval, pause } = times;
            runs.push(Run { name, streams: streams.clone(), total, arrivals, ramp, measure, interval, pause });
        }
        if runs.len() > RUNS_MAX {
            return Err(definition.place.error("rd", format!("the file comes to more than {RUNS_MAX} runs")));
        }
    }
    Ok(())
}

/// The workloads of a run: those of `wd=`, on the targets of `sd=` where it has one; without `wd=` one of its own.
fn workloads(fields: &Fields<'_>, definition: &Definition, sds: &[Sd], wds: &[Wd]) -> Result<Vec<Wd>, FileError> {
    let names: Vec<String> = sds.iter().map(|sd| sd.name.clone()).collect();
    let targets = fields.get("sd").map(|word| values::named(word, "sd", &names)).transpose()?;
    let Some(wanted) = fields.get("wd") else {
        let targets = targets.ok_or_else(|| definition.place.error("rd", "has neither wd= nor sd="))?;
        let wd = Wd::of_run(definition, targets);
        wd.check_align(sds)?;
        return Ok(vec![wd]);
    };
    let names: Vec<String> = wds.iter().map(|wd| wd.name.clone()).collect();
    let mut wds: Vec<Wd> = values::named(wanted, "wd", &names)?.into_iter().map(|at| wds[at].clone()).collect();
    if let Some(targets) = targets {
        wds.iter_mut().for_each(|wd| wd.sds.clone_from(&targets));
    }
    wds.iter().try_for_each(|wd| wd.check_align(sds))?;
    Ok(wds)
}

fn times(fields: &Fields<'_>, definition: &Definition, notes: &mut Vec<Note>) -> Result<Times, FileError> {
    let elapsed = fields.read("elapsed", ELAPSED_S, number::seconds)?;
    let interval = fields.read("interval", INTERVAL_S, number::seconds)?;
    let warmup = fields.read("warmup", None, |text| number::seconds(text).map(Some))?;
    let pause = fields.read("pause", 0.0, number::seconds)?;
    if interval < 1.0 || interval.fract() != 0.0 {
        return Err(fields
            .get("interval")
            .unwrap_or_else(|| &definition.words[0])
            .error("take whole seconds, 1 or more"));
    }
    if fields.get("interval").is_none() {
        let text = format!("{} has no interval=: rows of 1 s here", definition.name);
        notes.push(Note { line: definition.place.line, text });
    }
    let whole = |seconds: f64| seconds % interval == 0.0;
    if elapsed < 2.0 * interval || !whole(elapsed) || !whole(warmup.unwrap_or(0.0)) {
        let why =
            format!("elapsed={elapsed} and warmup= must be multiples of interval={interval}, and elapsed= two or more");
        return Err(definition.place.error("rd", why));
    }
    let (ramp, measure) = match warmup {
        Some(warmup) if warmup > 0.0 => (warmup, elapsed),
        _ => (interval, elapsed - interval),
    };
    let [ramp, measure, interval, pause] = [ramp, measure, interval, pause].map(Duration::from_secs_f64);
    Ok(Times { ramp, measure, interval, pause })
}

fn arrivals(fields: &Fields<'_>) -> Result<Arrivals, FileError> {
    let Some(word) = fields.get("distribution") else { return Ok(Arrivals::Poisson) };
    let begins = |name: &str, text: &str| !text.is_empty() && name.starts_with(&text.to_ascii_lowercase());
    match word.one()? {
        text if begins("exponential", text) => Ok(Arrivals::Poisson),
        text if begins("deterministic", text) => Ok(Arrivals::Even),
        other => Err(word.error(format!("{other} is not done here: take exponential or deterministic"))),
    }
}

/// Every combination of the lists, the first list outermost.
fn loops(fields: &Fields<'_>) -> Result<Vec<Loops>, FileError> {
    let mut all = vec![Loops::default()];
    for (key, word) in &fields.order {
        let short = key.strip_prefix("for").unwrap_or(key);
        let values: Vec<Loops> = match short {
            "threads" => {
                let numbers = values::numbers(word, |text| number::at_most(text, THREADS_MAX))?;
                let one = |n: &u64| Loops {
                    threads: Some((*n).max(1)),
                    told: vec![format!("threads={n}")],
                    ..Loops::default()
                };
                numbers.iter().map(one).collect()
            }
            "xfersize" => {
                let numbers = values::numbers(word, |text| number::request_bytes(text).map(u64::from))?;
                let one =
                    |n: &u64| Loops { bytes: Some(*n as u32), told: vec![format!("xfersize={n}")], ..Loops::default() };
                numbers.iter().map(one).collect()
            }
            "rdpct" => {
                let numbers = values::numbers(word, |text| number::percent_whole(text).map(u64::from))?;
                let one = |n: &u64| Loops {
                    read_percent: Some(*n as u8),
                    told: vec![format!("rdpct={n}")],
                    ..Loops::default()
                };
                numbers.iter().map(one).collect()
            }
            "seekpct" => {
                let one = |text: &String| {
                    let seek = seek(text).map_err(|why| word.error(why))?;
                    Ok(Loops { seek: Some(seek), told: vec![format!("seekpct={text}")], ..Loops::default() })
                };
                word.values.iter().map(one).collect::<Result<_, FileError>>()?
            }
            _ => continue,
        };
        if all.len() * values.len() > RUNS_MAX {
            return Err(word.error(format!("the lists come to more than {RUNS_MAX} runs")));
        }
        all = all.iter().flat_map(|outer| values.iter().map(|inner| outer.with(inner))).collect();
    }
    Ok(all)
}

impl Loops {
    fn with(&self, inner: &Self) -> Self {
        Self {
            told: [self.told.clone(), inner.told.clone()].concat(),
            threads: inner.threads.or(self.threads),
            bytes: inner.bytes.or(self.bytes),
            read_percent: inner.read_percent.or(self.read_percent),
            seek: inner.seek.or(self.seek),
        }
    }
}

/// Rates, each with what tells it in the run's name. `before`: runs of the plan so far.
fn totals(fields: &Fields<'_>, before: usize) -> Result<Vec<(Total, Option<String>)>, FileError> {
    let word = match (fields.get("iorate"), fields.get("foriorate")) {
        (Some(_), Some(word)) => return Err(word.error("and iorate= are both told: take one")),
        (word, other) => word.or(other),
    };
    if let Some(curve) = fields.get("curve")
        && word.is_none_or(|word| word.values != ["curve"])
    {
        return Err(curve.error("goes with iorate=curve"));
    }
    let Some(word) = word else { return Ok(vec![(Total::None, None)]) };
    match &word.values[..] {
        [one] if one == "max" => Ok(vec![(Total::None, None)]),
        [one] if one == "curve" => {
            let points = match fields.get("curve") {
                None => CURVE.to_vec(),
                Some(points) => {
                    let percents = points.values.iter().map(|text| number::percent(text));
                    percents.collect::<Result<_, String>>().map_err(|why| points.error(why))?
                }
            };
            let point = |percent: f64| (Total::Curve { of: before, percent }, Some(format!("curve={percent}%")));
            Ok(std::iter::once((Total::None, Some("curve=max".into()))).chain(points.into_iter().map(point)).collect())
        }
        _ => {
            let rates = values::numbers(word, number::whole)?;
            if rates.contains(&0) {
                return Err(word.error("a rate of 0 a second: take one above 0, or max"));
            }
            let told = |n: u64| (rates.len() > 1).then(|| format!("iorate={n}"));
            Ok(rates.iter().map(|n| (Total::Rate(*n as f64), told(*n))).collect())
        }
    }
}

/// The streams of a run: each workload on each of its targets.
fn streams(loops: &Loops, sds: &[Sd], wds: &[&Wd], definition: &Definition) -> Result<Vec<Stream>, FileError> {
    let shares = shares(wds, definition)?;
    let mut streams = Vec::new();
    for (wd, share) in wds.iter().zip(&shares) {
        for at in &wd.sds {
            let sd = &sds[*at];
            let name = if wds.len() == 1 { sd.name.clone() } else { format!("{}/{}", wd.name, sd.name) };
            let each = wd.sds.len() as f64;
            let pace = match wd.rate {
                Some(per_s) => StreamPace::Rate(per_s / each),
                None => StreamPace::Share(share / each),
            };
            let outstanding = threads(loops, sd, *at, wd, wds, &shares);
            let span = sd.span(wd.area).map_err(|why| wd.place.error("range", why))?;
            let seek = loops.seek.unwrap_or(wd.seek);
            let sizes = loops.bytes.map_or(wd.sizes.clone(), |bytes| vec![Size { weight: 1, bytes }]);
            let kinds = kinds(&sizes, loops.read_percent.unwrap_or(wd.read_percent), seek);
            streams.push(Stream {
                name,
                target: *at,
                spec: Spec {
                    kinds,
                    addresses: Addresses::Uniform,
                    span_begin: span.begin,
                    span_bytes: span.bytes,
                    seed: 1,
                },
                part: span.part,
                content: sd.content,
                duplicates_share: sd.duplicates_share,
                outstanding: outstanding as u32,
                pace,
                bytes_max: None,
                spans_max: seek.to_end.then_some(1.0),
            });
        }
    }
    Ok(streams)
}

/// Each workload's share of the run's rate; those without a skew share what is left evenly.
fn shares(wds: &[&Wd], definition: &Definition) -> Result<Vec<f64>, FileError> {
    if wds.len() == 1 {
        return Ok(vec![1.0]);
    }
    let told: f64 = wds.iter().filter_map(|wd| wd.skew).sum();
    let without = wds.iter().filter(|wd| wd.skew.is_none() && wd.rate.is_none()).count();
    let sums_up = if without == 0 { told == 0.0 || (99.5..=100.5).contains(&told) } else { told < 100.0 };
    if !sums_up {
        return Err(definition.place.error("rd", format!("the skews of its workloads add up to {told}, not to 100")));
    }
    let rest = (100.0 - told) / without.max(1) as f64;
    Ok(wds.iter().map(|wd| wd.skew.unwrap_or(if wd.rate.is_some() { 0.0 } else { rest }) / 100.0).collect())
}

/// What workload `wd` keeps outstanding at its target number `at`: its own threads, or its part of the target's, by share.
fn threads(loops: &Loops, sd: &Sd, at: usize, wd: &Wd, wds: &[&Wd], shares: &[f64]) -> u64 {
    if let (None, Some(own)) = (loops.threads, wd.threads) {
        return own;
    }
    let of_target = loops.threads.unwrap_or(sd.threads);
    let there: Vec<usize> = (0..wds.len()).filter(|n| wds[*n].sds.contains(&at)).collect();
    let weights: Vec<f64> = there.iter().map(|n| shares[*n].max(0.01) / wds[*n].sds.len() as f64).collect();
    let mine = there.iter().position(|n| wds[*n].name == wd.name).unwrap_or(0);
    divided(of_target, &weights)[mine]
}
