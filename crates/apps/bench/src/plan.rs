//! Job files: read, their targets found, their runs made into jobs of this load generator.
//!
//! Promises    a target that neither the file nor the command line has an address for is told by its name
//!             times are the file's, or all of them divided by one factor
//! Not here    languages (`cairn-jobfile`), running and printing

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use cairn_jobfile::{Dialect, NamedTarget, Plan, Run, fio, hcibench, icf, vdbench};

use crate::{
    address::Address,
    job::{Job, StreamJob},
};

/// Includes are files of this size at most.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads a job file: of `dialect`, or of the one that it looks like. `targets`: how many the command line has.
///
/// # Errors
/// What is wrong, with file and line.
pub fn read(
    file: &str,
    dialect: Option<Dialect>,
    variables: &BTreeMap<String, String>,
    targets: usize,
) -> Result<Plan, String> {
    let path = Path::new(file);
    if !path.is_file() && (hcibench::is_name(file) || (dialect == Some(Dialect::Hcibench) && file.starts_with('-'))) {
        return hcibench::parse(file).map_err(|why| format!("{file}: {why}"));
    }
    let text = text_of(path)?;
    let beside = |name: &str| text_of(&path.parent().unwrap_or(Path::new("")).join(name));
    let plan = match dialect.or_else(|| looks_like(path, &text)) {
        Some(Dialect::Vdbench) => vdbench::parse(&text, variables, &beside),
        Some(Dialect::Fio) => fio::parse(&text, variables, &beside),
        Some(Dialect::Icf) => icf::parse(&text, targets),
        Some(Dialect::Hcibench) => hcibench::parse(&text),
        None => return Err(format!("{file}: it does not say whose job file it is: tell with --kind")),
    };
    plan.map_err(|why| format!("{file}: {why}"))
}

/// Latin letters of old tools are taken for what they look like: what matters is ASCII.
fn text_of(path: &Path) -> Result<String, String> {
    let told = |why: std::io::Error| format!("{}: cannot be read: {why}", path.display());
    let bytes = fs::metadata(path).map_err(told)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("{}: {bytes} bytes are more than a job file has", path.display()));
    }
    Ok(String::from_utf8_lossy(&fs::read(path).map_err(told)?).into_owned())
}

/// By its name's end, otherwise by its first line that says something.
fn looks_like(path: &Path, text: &str) -> Option<Dialect> {
    match path.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("icf") => return Some(Dialect::Icf),
        Some("fio") => return Some(Dialect::Fio),
        Some("vdb" | "vdbench") => return Some(Dialect::Vdbench),
        _ => {}
    }
    let mut lines = text.lines().map(|line| line.trim_start_matches('\u{feff}').trim());
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(['*', '#', ';', '/']))?;
    match first {
        first if first.starts_with('[') => Some(Dialect::Fio),
        first if first.starts_with('\'') || first.starts_with("Version ") => Some(Dialect::Icf),
        first if first.starts_with('-') => Some(Dialect::Hcibench),
        first if first.contains('=') => Some(Dialect::Vdbench),
        _ => None,
    }
}

/// Where the targets of a file are: by `maps` (`NAME=ADDRESS`), the others by `given` in their order, or all by what the file says.
///
/// # Errors
/// A name that the file does not have, or a target without an address.
pub fn addresses(targets: &[NamedTarget], maps: &[String], given: &[Address]) -> Result<Vec<Address>, String> {
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let mut found: Vec<Option<Address>> = vec![None; names.len()];
    for map in maps {
        // Names may have a = in them, so may addresses: the longest name counts.
        let fits = |name: &str| map.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
        let at = (0..names.len()).filter(|at| fits(names[*at]).is_some()).max_by_key(|at| names[*at].len());
        let at = at.ok_or_else(|| format!("--map {map}: write NAME=ADDRESS; the file has {}", names.join(", ")))?;
        found[at] = Some(fits(names[at]).unwrap_or_default().parse()?);
    }
    let left = found.iter().filter(|address| address.is_none()).count();
    if !given.is_empty() && given.len() != left {
        return Err(format!("{} target(s) told for the {left} that the file has: {}", given.len(), names.join(", ")));
    }
    let mut given = given.iter();
    let one = |(found, target): (Option<Address>, &cairn_jobfile::NamedTarget)| {
        if let Some(address) = found.or_else(|| given.next().cloned()) {
            return Ok(address);
        }
        let told = target.address.as_ref().ok_or_else(|| {
            format!("the file does not say where {} is: add it behind the file, or --map NAME=ADDRESS", target.name)
        })?;
        told.parse().map_err(|why| format!("target {}: {why}", target.name))
    };
    found.into_iter().zip(targets).map(one).collect()
}

/// Times of a run, divided by `factor`.
///
/// # Errors
/// Less than a second would be measured.
pub fn scaled(run: &Run, factor: f64) -> Result<Run, String> {
    let divided = |time: Duration| time.div_f64(factor);
    let mut scaled = run.clone();
    if factor == 1.0 {
        return Ok(scaled);
    }
    (scaled.ramp, scaled.pause) = (divided(run.ramp), divided(run.pause));
    if !run.is_until_done() {
        scaled.measure = divided(run.measure);
    }
    scaled.interval = Duration::from_secs(divided(run.interval).as_secs_f64().round().max(1.0) as u64);
    match scaled.measure.as_secs_f64() < 1.0 {
        true => Err(format!("--time-scale {factor} leaves less than a second of run {:?}: take less", run.name)),
        false => Ok(scaled),
    }
}

/// A run as a job. `done`: what the plan's runs before it did, requests a second each.
pub fn job(run: &Run, addresses: &[Address], done: &[f64], seed: u64, destructive: bool) -> Job {
    let rate = run.rate(done);
    let stream = |stream: &cairn_jobfile::Stream| StreamJob {
        name: stream.name.clone(),
        target: addresses[stream.target].clone(),
        spec: cairn_workload::Spec { seed, ..stream.spec.clone() },
        part: stream.part,
        content: cairn_workload::Content { seed, ..stream.content },
        duplicates_share: stream.duplicates_share,
        outstanding: stream.outstanding,
        pace: run.pace(stream, rate),
        bytes_max: stream.bytes_max,
        spans_max: stream.spans_max,
    };
    let streams = run.streams.iter().map(stream).collect();
    Job { streams, ramp: run.ramp, measure: run.measure, bytes_max: None, verify: false, destructive }
}
