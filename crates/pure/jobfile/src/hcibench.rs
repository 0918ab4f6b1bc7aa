//! HCIBench's parameter generator: its flags, and the names of the files that it makes.
//!
//! Promises    one test machine's disks: disk1 up to the number that is told, each with its threads
//! Assumes     a name has no times: HCIBench's own are an hour after half an hour of warm-up
//! Not here    what is in such a file (`fio`, `vdbench`)

use std::time::Duration;

use cairn_workload::{Addresses, Content, Kind, Spec};

use crate::{
    error::{FileError, suggestion},
    number,
    plan::{Arrivals, Dialect, NamedTarget, Note, Plan, Run, Stream, StreamPace, Total},
};

/// What the flags say.
#[derive(Debug, Clone, PartialEq)]
struct Flags {
    disks: u64,
    working_set: f64,
    threads: u64,
    block: u32,
    reads: u8,
    random: u8,
    seconds: f64,
    warm_up: f64,
    interval: f64,
    rate: Option<f64>,
    jobs: u64,
    content: Content,
    duplicates_share: Option<f64>,
}

const DISKS_MAX: u64 = 1024;
const FLAGS: [&str; 16] =
    ["-n", "-w", "-t", "-b", "-r", "-s", "-e", "-m", "-i", "-o", "-c", "-d", "-p", "-j", "-bc", "-dp"];

impl Flags {
    fn new() -> Self {
        Self {
            disks: 0,
            working_set: 100.0,
            threads: 1,
            block: 4096,
            reads: 100,
            random: 100,
            seconds: 3600.0,
            warm_up: 0.0,
            interval: 1.0,
            rate: None,
            jobs: 1,
            content: Content { duplicates: 1000, ..Content::random(1, 0) },
            duplicates_share: None,
        }
    }
}

/// Whether this is a name of HCIBench's parameter files, such as `fio-8vmdk-100ws-4k-70rdpct-100randompct-4threads`. The folders of its
/// results have the time behind it: `...-4threads-1602087441`.
pub fn is_name(text: &str) -> bool {
    let name = without_time(text);
    (name.starts_with("fio-") || name.starts_with("vdb-")) && name.contains("vmdk-") && name.ends_with("threads")
}

/// A name without the seconds since 1970, or the date and time, behind it.
fn without_time(name: &str) -> &str {
    let Some(end) = name.find("threads").map(|at| at + "threads".len()) else { return name };
    let (name, rest) = name.split_at(end);
    let is_time = rest.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '_' | ':' | '.'));
    if is_time { name } else { &name[..0] }
}

/// Reads flags (`-n 8 -w 100 -t 4 -b 4k -r 70 -s 100 -e 3600`), or a name.
///
/// # Errors
/// The first flag, or part of the name, that is not taken.
pub fn parse(text: &str) -> Result<Plan, FileError> {
    let text = text.trim();
    let mut notes = Vec::new();
    let flags = if is_name(text) { name(without_time(text), &mut notes)? } else { flags(text, &mut notes)? };
    if flags.disks == 0 {
        return Err(FileError::new(0, "-n", "the number of disks is not told"));
    }
    Ok(plan(text, &flags, notes))
}

fn name(text: &str, notes: &mut Vec<Note>) -> Result<Flags, FileError> {
    let mut flags = Flags { warm_up: 1800.0, ..Flags::new() };
    for part in text.split('-').skip(1) {
        let split = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
        let (digits, what) = part.split_at(split);
        let told = |why: String| FileError::new(0, part, why);
        match what {
            "vmdk" => flags.disks = number::at_most(digits, DISKS_MAX).map_err(told)?,
            "ws" => flags.working_set = number::percent(digits).map_err(told)?,
            "k" | "m" => flags.block = number::request_bytes(part).map_err(told)?,
            "rdpct" => flags.reads = number::percent_whole(digits).map_err(told)?,
            "randompct" => flags.random = number::percent_whole(digits).map_err(told)?,
            "threads" => flags.threads = number::at_most(digits, 4096).map_err(told)?.max(1),
            "compress" => flags.content.random_share = 1.0 - number::percent(digits).map_err(told)? / 100.0,
            "dedupe" => flags.content.duplicate_share = number::percent(digits).map_err(told)? / 100.0,
            _ => return Err(told("is no part of such a name: vmdk, ws, k, rdpct, randompct, threads are".into())),
        }
    }
    let text = "a name has no times: an hour is measured after half an hour of warm-up, as HCIBench has it";
    notes.push(Note { line: 0, text: text.into() });
    Ok(flags)
}

fn flags(text: &str, notes: &mut Vec<Note>) -> Result<Flags, FileError> {
    let mut flags = Flags::new();
    let mut words = text.split_whitespace();
    while let Some(flag) = words.next() {
        let told = |why: String| FileError::new(0, flag, why);
        if flag == "-lt" {
            return Err(told("a latency target is not searched for here: give threads".into()));
        }
        if !FLAGS.contains(&flag) {
            return Err(told(format!("is no flag of HCIBench's generator{}", suggestion(flag, &FLAGS))));
        }
        let value = words.next().ok_or_else(|| told("has no value".into()))?;
        match flag {
            "-n" => flags.disks = number::at_most(value, DISKS_MAX).map_err(told)?,
            "-w" => flags.working_set = number::percent(value).map_err(told)?,
            "-t" => flags.threads = number::at_most(value, 4096).map_err(told)?.max(1),
            "-b" => flags.block = number::request_bytes(value).map_err(told)?,
            "-r" => flags.reads = number::percent_whole(value).map_err(told)?,
            "-s" => flags.random = number::percent_whole(value).map_err(told)?,
            "-e" => flags.seconds = number::seconds(value).map_err(told)?,
            "-m" => flags.warm_up = number::seconds(value).map_err(told)?,
            "-i" => flags.interval = number::seconds(value).map_err(told)?.max(1.0).round(),
            "-o" => {
                flags.rate = Some(number::number(value).map_err(told)?).filter(|rate| *rate > 0.0);
                notes.push(Note { line: 0, text: "-o is the rate of all disks together, evenly in time".into() });
            }
            "-c" => flags.content.random_share = 1.0 / ratio(value).map_err(told)?,
            "-d" => dedup(&mut flags, ratio(value).map_err(told)?).map_err(told)?,
            "-j" => flags.jobs = number::at_most(value, 64).map_err(told)?.max(1),
            "-bc" => flags.content.random_share = 1.0 - number::percent(value).map_err(told)? / 100.0,
            "-dp" => flags.content.duplicate_share = number::percent(value).map_err(told)? / 100.0,
            _ => notes.push(Note { line: 0, text: format!("{flag} {value} is not used: no file is made") }),
        }
    }
    if flags.seconds < 1.0 || flags.working_set == 0.0 {
        return Err(FileError::new(0, "-e", "a time of nothing, or a working set of nothing"));
    }
    Ok(flags)
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = number::number(text)?;
    match (1.0..=10_000.0).contains(&ratio) {
        true => Ok(ratio),
        false => Err(format!("{text}:1: take 1 (nothing is alike) or more")),
    }
}

/// Sets of 5 % of all units, as Vdbench has where HCIBench's file does not say.
fn dedup(flags: &mut Flags, ratio: f64) -> Result<(), String> {
    const SETS: f64 = 0.05;
    if ratio == 1.0 {
        return Ok(());
    }
    let unique = 1.0 / ratio - SETS;
    if unique < 0.0 {
        return Err(format!("{ratio}:1 is more than 20:1, which 5 % of sets come to"));
    }
    (flags.content.duplicate_share, flags.duplicates_share) = (1.0 - unique, Some(SETS));
    Ok(())
}

fn plan(text: &str, flags: &Flags, notes: Vec<Note>) -> Plan {
    let targets: Vec<NamedTarget> =
        (1..=flags.disks).map(|n| NamedTarget { name: format!("disk{n}"), address: None }).collect();
    let count = (flags.disks * flags.jobs) as f64;
    let stream = |target: usize, job: u64| Stream {
        name: match flags.jobs {
            1 => targets[target].name.clone(),
            _ => format!("{}.{job}", targets[target].name),
        },
        target,
        spec: Spec {
            kinds: vec![Kind::new(flags.block, flags.reads, flags.random)],
            addresses: Addresses::Uniform,
            span_begin: 0,
            span_bytes: 0,
            seed: 1,
        },
        part: (flags.working_set < 100.0).then_some((0.0, flags.working_set)),
        content: flags.content,
        duplicates_share: flags.duplicates_share,
        outstanding: flags.threads as u32,
        pace: flags.rate.map_or(StreamPace::Closed, |_| StreamPace::Share(1.0 / count)),
        bytes_max: None,
        spans_max: None,
    };
    let streams = (0..targets.len()).flat_map(|target| (0..flags.jobs).map(move |job| (target, job)));
    let name = match is_name(text) {
        true => without_time(text).to_owned(),
        false => format!(
            "fio-{}vmdk-{}ws-{}k-{}rdpct-{}randompct-{}threads",
            flags.disks,
            flags.working_set,
            flags.block >> 10,
            flags.reads,
            flags.random,
            flags.threads
        ),
    };
    let run = Run {
        name,
        streams: streams.map(|(target, job)| stream(target, job)).collect(),
        total: flags.rate.map_or(Total::None, Total::Rate),
        arrivals: Arrivals::Even,
        ramp: Duration::from_secs_f64(flags.warm_up),
        measure: Duration::from_secs_f64(flags.seconds),
        interval: Duration::from_secs_f64(flags.interval),
        pause: Duration::ZERO,
    };
    Plan { dialect: Dialect::Hcibench, targets, runs: vec![run], notes }
}
