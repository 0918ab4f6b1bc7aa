//! fio's job files: what its engines for block devices can do with closed loops and rates.
//!
//! Promises    jobs without stonewall between them are one run
//!             defaults are fio's: reads of 4 KiB in sequence, one outstanding, half reads where both are asked for
//!             blocking engines have one request outstanding for each job, whatever iodepth= says
//! Not here    verification, replay, steady state, files that are made: refused by name

mod ini;
mod job;
mod options;

use std::{collections::BTreeMap, time::Duration};

use crate::{
    error::FileError,
    keyword,
    plan::{Arrivals, Dialect, NamedTarget, Note, Plan, Run, Stream, Total},
};
use job::Job;

/// Streams that one file may come to.
const STREAMS_MAX: usize = 4096;

/// Whether fio has an option of this name.
pub fn is_option(name: &str) -> bool {
    options::is_known(name)
}

/// What becomes of each option, as rows of a Markdown table.
pub(crate) fn told() -> String {
    keyword::told("fio", options::OPTIONS)
}

/// Jobs that run together.
type Group = Vec<(Job, Vec<Stream>)>;

/// Reads a job file. `variables` are what `${NAME}` stands for; `include` gives the text of a file that is included.
///
/// # Errors
/// The first line that is not taken.
pub fn parse(
    text: &str,
    variables: &BTreeMap<String, String>,
    include: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Plan, FileError> {
    let sections = ini::Reader { variables, include }.jobs(text)?;
    let (mut targets, mut groups, mut notes) = (Vec::<NamedTarget>::new(), Vec::<Group>::new(), Vec::new());
    let mut count = 0;
    for section in &sections {
        let job = Job::new(section, &mut notes)?;
        let found = targets.iter().position(|target| target.name == job.target.name);
        let at = found.unwrap_or_else(|| {
            targets.push(job.target.clone());
            targets.len() - 1
        });
        count += job.copies;
        if count > STREAMS_MAX as u64 {
            return Err(FileError::new(
                section.line,
                &section.name,
                format!("the file has more than {STREAMS_MAX} jobs"),
            ));
        }
        let streams = job.streams(at)?;
        if job.stonewall || groups.is_empty() {
            groups.push(Vec::new());
        }
        groups.last_mut().expect("there is one").push((job, streams));
    }
    if groups.is_empty() {
        return Err(FileError::new(0, "job", "the file has no job: it ends without any [NAME]"));
    }
    let runs = groups.into_iter().map(run).collect::<Result<_, _>>()?;
    tell(&sections, &mut notes);
    Ok(Plan { dialect: Dialect::Fio, targets, runs, notes })
}

/// The jobs that run together, as one run.
fn run(jobs: Group) -> Result<Run, FileError> {
    let first = &jobs[0].0;
    let (ramp, runtime) = (first.ramp, first.runtime);
    let arrivals = jobs.iter().find_map(|(job, _)| job.arrivals);
    for (job, _) in &jobs {
        let differs = |what: &str| {
            let why = format!("has another {what} than {}, which runs with it: put stonewall between them", first.name);
            Err(FileError::new(job.line, &job.name, why))
        };
        if job.runtime != runtime {
            return differs("runtime");
        }
        if job.ramp != ramp {
            return differs("ramp_time");
        }
        if job.arrivals.is_some() && job.arrivals != arrivals {
            return differs("rate_process");
        }
    }
    let names: Vec<&str> = jobs.iter().map(|(job, _)| job.name.as_str()).collect();
    Ok(Run {
        name: names.join("+"),
        total: Total::None,
        arrivals: arrivals.unwrap_or(Arrivals::Even),
        ramp,
        measure: runtime.unwrap_or(Run::UNTIL_DONE),
        interval: Duration::from_secs(1),
        pause: Duration::ZERO,
        streams: jobs.into_iter().flat_map(|(_, streams)| streams).collect(),
    })
}

/// What is done in another way than by fio in every file.
fn tell(sections: &[ini::Section], notes: &mut Vec<Note>) {
    let has = |key: &str| sections.iter().any(|job| job.items.iter().any(|item| item.key == key));
    if !has("norandommap") {
        let text = "no norandommap: a random place may be asked for again before all were, as with norandommap";
        notes.push(Note { line: 0, text: text.into() });
    }
    if has("rate_iops") || has("rate") {
        let text = "rates: latency counts from when a request was due, not from when there was room for it";
        notes.push(Note { line: 0, text: text.into() });
    }
    if has("dedupe_percentage") {
        let text = "dedupe_percentage: duplicates are units of 4 KiB, drawn from 1,000 for all jobs (dedupe_mode=repeat), or from a \
                    share of the span (working_set)";
        notes.push(Note { line: 0, text: text.into() });
    }
}
