//! IOMeter's configuration files: times, access specifications, workers.
//!
//! Promises    each place in the workers' lists of access specifications is a run, in which all of them have theirs
//!             outstanding requests are those of each worker at each of its targets, as IOMeter counts them
//! Assumes     targets in the file are names of the machine that it was made on: which ones are meant is told beside it
//! Not here    cycling of workers, targets and depths; network workers; delays and bursts: refused by name

use std::time::Duration;

use cairn_workload::{Addresses, Content, Kind, Spec};

use crate::{
    error::FileError,
    number,
    plan::{Arrivals, Dialect, NamedTarget, Note, Plan, Run, Stream, StreamPace, Total},
};

/// A named list of lines.
struct Access {
    name: String,
    kinds: Vec<Kind>,
}

/// A worker, and what it does in each run.
#[derive(Default)]
struct Worker {
    name: String,
    outstanding: u32,
    span_begin: u64,
    span_bytes: u64,
    specs: Vec<(usize, String)>,
    /// Places in the plan's targets.
    targets: Vec<usize>,
}

#[derive(Default)]
struct File {
    ramp_s: u64,
    run_s: u64,
    spawn: u64,
    /// Where it says that there are as many workers as processors.
    spawn_line: Option<usize>,
    access: Vec<Access>,
    manager: String,
    workers: Vec<Worker>,
    targets: Vec<NamedTarget>,
    notes: Vec<Note>,
}

const SECTOR: u64 = 512;
const WORKERS_MAX: usize = 1024;

/// Reads a configuration file. Where it names no target, each worker goes to `targets` of them: disk1, disk2, ...
///
/// # Errors
/// The first line that is not taken.
pub fn parse(text: &str, targets: usize) -> Result<Plan, FileError> {
    let mut file = File { spawn: 1, ..File::default() };
    let (mut title, mut is_display) = (String::new(), false);
    for (number, line) in text.lines().enumerate() {
        let (number, line) = (number + 1, line.trim_start_matches('\u{feff}').trim());
        if let Some(told) = line.strip_prefix('\'') {
            let told = told.trim().to_ascii_lowercase();
            is_display =
                if told.starts_with("results display") { true } else { is_display && !told.starts_with("end results") };
            // A title that explains the columns of the one before it.
            if !told.starts_with("hours") && !told.starts_with("start ") {
                title = told;
            }
        } else if !line.is_empty() && !line.to_ascii_lowercase().starts_with("version") && !is_display {
            file.line(number, &title, line)?;
        }
    }
    file.plan(targets)
}

impl File {
    /// A line of values under its title.
    fn line(&mut self, number: usize, title: &str, line: &str) -> Result<(), FileError> {
        let told = |why: String| FileError::new(number, title, why);
        match title {
            "test description" | "record results" | "default network workers to spawn" | "manager network address" => {}
            title if title.contains("cycling") => {}
            "run time" => {
                let parts = line.split_whitespace().map(|part| number::at_most(part, 100_000));
                let parts: Vec<u64> = parts.collect::<Result<_, _>>().map_err(told)?;
                let [hours, minutes, seconds] = parts[..] else {
                    return Err(told(format!("{line:?}: hours, minutes and seconds are three numbers")));
                };
                self.run_s = hours * 3600 + minutes * 60 + seconds;
            }
            "ramp up time" | "ramp up time (s)" => self.ramp_s = number::at_most(line, 10_000_000).map_err(told)?,
            "default disk workers to spawn" if line == "NUMBER_OF_CPUS" => {
                self.spawn_line = Some(number);
            }
            "default disk workers to spawn" => {
                self.spawn = number::at_most(line, WORKERS_MAX as u64).map_err(told)?.max(1)
            }
            "test type" if line == "NORMAL" => {}
            "test type" => {
                return Err(told(format!(
                    "{line} cycles through workers, targets or depths: only NORMAL is done here"
                )));
            }
            title if title.starts_with("access specification name") => {
                let name = line.rsplit_once(',').map_or(line, |(name, _)| name).trim().to_owned();
                self.access.push(Access { name, kinds: Vec::new() });
            }
            title if title.starts_with("size,% of size") => self.access_line(number, title, line)?,
            "manager id, manager name" => {
                self.manager = line.split_once(',').map_or("", |(_, name)| name.trim()).to_owned()
            }
            title => self.worker_line(number, title, line)?,
        }
        Ok(())
    }

    fn note(&mut self, line: usize, text: &str) {
        let note = Note { line, text: text.to_owned() };
        if !self.notes.iter().any(|other| other.text == note.text) {
            self.notes.push(note);
        }
    }

    /// `size,% of size,% reads,% random,delay,burst,align,reply`
    fn access_line(&mut self, number: usize, title: &str, line: &str) -> Result<(), FileError> {
        let told = |why: String| FileError::new(number, title, why);
        let fields: Vec<&str> = line.split(',').map(str::trim).filter(|field| !field.is_empty()).collect();
        let [size, share, reads, random, delay, _burst, align, reply] = fields[..] else {
            return Err(told(format!("{line:?}: a line has eight numbers")));
        };
        let request_bytes = number::request_bytes(size).map_err(told)?;
        let weight = number::at_most(share, 100).map_err(told)? as u32;
        let (read_percent, random_percent) =
            (number::percent_whole(reads).map_err(told)?, number::percent_whole(random).map_err(told)?);
        if number::whole(delay).map_err(told)? > 0 {
            return Err(told("a delay between bursts is not done here".into()));
        }
        if number::whole(reply).map_err(told)? > 0 {
            return Err(told("a reply size is for networks".into()));
        }
        let align = number::whole(align).map_err(told)?;
        if align > 0 && !u64::from(request_bytes).is_multiple_of(align) {
            let why = format!(
                "align={align}: requests here begin at multiples of their size, which are not multiples of that"
            );
            return Err(told(why));
        }
        if align == 0 || align < u64::from(request_bytes) {
            self.note(number, "requests begin at multiples of their size here, also where the file allows any sector or a smaller step");
        }
        let access =
            self.access.last_mut().ok_or_else(|| told("stands before any access specification name".into()))?;
        if weight > 0 {
            access.kinds.push(Kind { weight, request_bytes, read_percent, random_percent });
        }
        Ok(())
    }

    fn worker_line(&mut self, number: usize, title: &str, line: &str) -> Result<(), FileError> {
        let told = |why: String| FileError::new(number, title, why);
        if title == "worker" {
            if self.workers.len() == WORKERS_MAX {
                return Err(told(format!("more than {WORKERS_MAX} workers")));
            }
            self.workers.push(Worker { name: line.to_owned(), outstanding: 1, ..Worker::default() });
            return Ok(());
        }
        let manager = self.manager.clone();
        let worker =
            self.workers.last_mut().ok_or_else(|| told(format!("{line:?} stands under a title that is not known")))?;
        let mut fields = line.split(',').map(str::trim);
        let mut field = || number::whole(fields.next().unwrap_or_default()).map_err(told);
        match title {
            "worker type" | "target type" if line != "DISK" => {
                return Err(told(format!("{line} is not done here: take DISK")));
            }
            "worker type" | "target type" => {}
            title if title.starts_with("number of outstanding ios") => {
                worker.outstanding = field()?.clamp(1, 4096) as u32;
            }
            title if title.starts_with("disk maximum size") => {
                (worker.span_bytes, worker.span_begin) =
                    (field()?.saturating_mul(SECTOR), field()?.saturating_mul(SECTOR));
            }
            "assigned access specs" => worker.specs.push((number, line.to_owned())),
            "target" => {
                let name = if manager.is_empty() { line.to_owned() } else { format!("{manager}/{line}") };
                let found = self.targets.iter().position(|target| target.name == name);
                worker.targets.push(found.unwrap_or(self.targets.len()));
                if found.is_none() {
                    self.targets.push(NamedTarget { name, address: None });
                }
            }
            _ => return Err(told(format!("{line:?} stands under a title that is not known"))),
        }
        Ok(())
    }

    fn plan(mut self, targets: usize) -> Result<Plan, FileError> {
        if self.run_s == 0 {
            return Err(FileError::new(
                0,
                "run time",
                "is 0 or missing: IOMeter runs until it is stopped then; give a time",
            ));
        }
        for access in &self.access {
            let sum: u32 = access.kinds.iter().map(|kind| kind.weight).sum();
            if sum != 100 {
                return Err(FileError::new(0, &access.name, format!("its lines add up to {sum} %, not to 100")));
            }
        }
        if self.workers.is_empty() {
            if let Some(line) = self.spawn_line {
                self.note(line, "NUMBER_OF_CPUS workers are one here, as the file has no list of workers");
            }
            let specs: Vec<(usize, String)> = self.access.iter().map(|access| (0, access.name.clone())).collect();
            let worker = |n: u64| Worker {
                name: format!("worker {n}"),
                outstanding: 1,
                specs: specs.clone(),
                ..Worker::default()
            };
            self.workers = (1..=self.spawn).map(worker).collect();
        }
        if self.targets.is_empty() {
            self.targets =
                (1..=targets.max(1)).map(|n| NamedTarget { name: format!("disk{n}"), address: None }).collect();
        }
        let all: Vec<usize> = (0..self.targets.len()).collect();
        self.workers
            .iter_mut()
            .filter(|worker| worker.targets.is_empty())
            .for_each(|worker| worker.targets.clone_from(&all));
        let count = self.workers.iter().map(|worker| worker.specs.len()).max().unwrap_or(0);
        let runs: Vec<Run> = (0..count).map(|at| self.run(at)).collect::<Result<_, _>>()?;
        if runs.is_empty() {
            return Err(FileError::new(0, "access specifications", "none is assigned to a worker"));
        }
        Ok(Plan { dialect: Dialect::Icf, targets: self.targets, runs, notes: self.notes })
    }

    /// What all workers do at place `at` of their lists.
    fn run(&self, at: usize) -> Result<Run, FileError> {
        let (mut names, mut streams) = (Vec::new(), Vec::new());
        for worker in &self.workers {
            let Some((line, name)) = worker.specs.get(at).filter(|(_, name)| name != "Idle") else { continue };
            let access = self.access.iter().find(|access| access.name == *name);
            let access =
                access.ok_or_else(|| FileError::new(*line, "assigned access specs", format!("there is no {name}")))?;
            if !names.contains(name) {
                names.push(name.clone());
            }
            streams.extend(worker.targets.iter().map(|target| Stream {
                name: format!("{} on {}", worker.name, self.targets[*target].name),
                target: *target,
                spec: Spec {
                    kinds: access.kinds.clone(),
                    addresses: Addresses::Uniform,
                    span_begin: worker.span_begin,
                    span_bytes: worker.span_bytes,
                    seed: 1,
                },
                part: None,
                content: Content::random(1, 0),
                duplicates_share: None,
                outstanding: worker.outstanding,
                pace: StreamPace::Closed,
                bytes_max: None,
                spans_max: None,
            }));
        }
        if streams.is_empty() {
            return Err(FileError::new(
                0,
                "assigned access specs",
                format!("place {} is idle for all workers", at + 1),
            ));
        }
        Ok(Run {
            name: names.join(" + "),
            streams,
            total: Total::None,
            arrivals: Arrivals::Even,
            ramp: Duration::from_secs(self.ramp_s),
            measure: Duration::from_secs(self.run_s),
            interval: Duration::from_secs(1),
            pause: Duration::ZERO,
        })
    }
}
