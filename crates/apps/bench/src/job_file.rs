//! `cairn bench import` and `cairn bench job`.
//!
//! Promises    results of a run are printed when it has ended, where the form allows that; in JSON all of them at the end
//!             a run that broke is told with what was measured, later ones are not begun, and the exit code is 1

use std::{collections::BTreeMap, thread};

use cairn_bench::{
    job::{Job, Measured, RunError},
    output, plan,
};
use cairn_jobfile::{Dialect, Plan, Run, Total};
use serde_json::{Value, json};

use crate::{
    args::{File, Import, JobFile, Kind, PlanStyle, Style},
    run_with_progress,
};

impl From<Kind> for Dialect {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Vdbench => Self::Vdbench,
            Kind::Fio => Self::Fio,
            Kind::Icf => Self::Icf,
            Kind::Hcibench => Self::Hcibench,
        }
    }
}

/// One run that has ended.
struct Done {
    run: Run,
    job: Job,
    measured: Measured,
}

fn read(file: &File, targets: usize) -> Result<Plan, RunError> {
    let variables: BTreeMap<String, String> = file.variables.iter().cloned().collect();
    plan::read(&file.file, file.kind.map(Dialect::from), &variables, targets).map_err(RunError::Job)
}

/// Tells the plan.
pub fn import(import: &Import) -> Result<bool, RunError> {
    let plan = read(&import.file, 0)?;
    match import.style {
        PlanStyle::Table => print!("{plan}"),
        PlanStyle::Json => println!("{:#}", plan_json(&plan)),
    }
    Ok(true)
}

/// Runs all; false where one broke.
pub fn run(told: &JobFile) -> Result<bool, RunError> {
    let plan = read(&told.file, told.targets.len())?;
    let addresses = plan::addresses(&plan.targets, &told.maps, &told.targets).map_err(RunError::Job)?;
    if plan.writes() && !told.destructive {
        let why = "this file writes, and what the targets hold is lost: say --destructive if that is meant";
        return Err(RunError::Refused(why.into()));
    }
    let factor = told.time_scale.unwrap_or(1.0);
    let runs: Vec<Run> =
        plan.runs.iter().map(|run| plan::scaled(run, factor)).collect::<Result<_, _>>().map_err(RunError::Job)?;
    tell_notes(&plan, factor);
    let (mut done, mut rates): (Vec<Done>, Vec<f64>) = (Vec::new(), Vec::new());
    for (number, run) in runs.iter().enumerate() {
        if number > 0 {
            thread::sleep(run.pause);
        }
        eprintln!("run {} of {}: {}", number + 1, runs.len(), run.name);
        let job = plan::job(run, &addresses, &rates, told.seed, told.destructive);
        let measured = match run_with_progress(&job) {
            Ok(measured) => measured,
            Err(why) if done.is_empty() => return Err(why),
            Err(why) => {
                eprintln!("error: {why}");
                finish(told.style, &plan, factor, &done);
                return Ok(false);
            }
        };
        rates.push(measured.per_s(&measured.both()));
        let one = Done { run: run.clone(), job, measured };
        tell_run(told.style, &one, factor);
        let broken = one.measured.broken.is_some();
        done.push(one);
        if broken {
            if number + 1 < runs.len() {
                eprintln!("! {} run(s) after it were not begun", runs.len() - number - 1);
            }
            finish(told.style, &plan, factor, &done);
            return Ok(false);
        }
    }
    finish(told.style, &plan, factor, &done);
    Ok(true)
}

fn tell_notes(plan: &Plan, factor: f64) {
    for note in &plan.notes {
        match note.line {
            0 => eprintln!("note: {}", note.text),
            line => eprintln!("note, line {line}: {}", note.text),
        }
    }
    if factor != 1.0 {
        eprintln!("! {}", trial(factor));
    }
}

fn trial(factor: f64) -> String {
    format!("all times are divided by {factor}: this is a trial of the file, and no result")
}

/// What can be told of a run when it has ended.
fn tell_run(style: Style, done: &Done, factor: f64) {
    let Done { run, job, measured } = done;
    match style {
        Style::Json | Style::Fio => {}
        Style::Table => {
            println!("{}: {}", run.name, output::table(job, measured, true).trim_end());
            if factor != 1.0 {
                println!("! {}", trial(factor));
            }
        }
        Style::Vdbench => print!("{}", output::vdbench::vdbench(&run.name, job, measured, run.interval)),
        Style::Hcibench => print!("{}", output::hcibench::hcibench(&run.name, measured)),
        Style::Iometer => print!("{}", output::iometer::iometer(&run.name, job, measured)),
        Style::IometerBins => print!("{}", output::iometer::bins(measured)),
    }
    if style != Style::Table {
        measured.doubts(job).iter().for_each(|doubt| eprintln!("! {}: {doubt}", run.name));
    }
}

/// What can only be told of all runs together.
fn finish(style: Style, plan: &Plan, factor: f64, done: &[Done]) {
    match style {
        Style::Json => println!("{:#}", results_json(plan, factor, done)),
        Style::Fio => println!("{:#}", output::fio_of(done.iter().map(|done| (&done.job, &done.measured)))),
        _ => {}
    }
}

fn results_json(plan: &Plan, factor: f64, done: &[Done]) -> Value {
    let run = |done: &Done| {
        json!({
            "name": done.run.name,
            "interval_s": done.run.interval.as_secs_f64(),
            "result": output::json(&done.job, &done.measured),
        })
    };
    json!({
        "plan": plan_json(plan),
        "time_scale": factor,
        "trial": factor != 1.0,
        "runs": done.iter().map(run).collect::<Vec<_>>(),
        "complete": done.len() == plan.runs.len() && done.iter().all(|done| done.measured.broken.is_none()),
    })
}

fn plan_json(plan: &Plan) -> Value {
    let run = |run: &Run| {
        let measure = (!run.is_until_done()).then_some(run.measure.as_secs_f64());
        let total = match run.total {
            Total::None => Value::Null,
            Total::Rate(per_s) => json!({ "per_s": per_s }),
            Total::Curve { of, percent } => json!({ "percent": percent, "of_run": of }),
        };
        json!({
            "name": run.name,
            "ramp_s": run.ramp.as_secs_f64(),
            "measure_s": measure,
            "interval_s": run.interval.as_secs_f64(),
            "pause_s": run.pause.as_secs_f64(),
            "rate": total,
            "outstanding": run.outstanding(),
            "writes": run.writes(),
            "streams": run.streams.iter().map(|stream| json!({
                "name": stream.name,
                "target": plan.targets[stream.target].name,
                "load": output::load(&stream.spec),
                "outstanding": stream.outstanding,
                "bytes_max": stream.bytes_max,
                "spans_max": stream.spans_max,
            })).collect::<Vec<_>>(),
        })
    };
    json!({
        "dialect": plan.dialect.to_string(),
        "time_s": plan.time().as_secs_f64(),
        "writes": plan.writes(),
        "targets": plan.targets.iter().map(|t| json!({ "name": t.name, "address": t.address })).collect::<Vec<_>>(),
        "runs": plan.runs.iter().map(run).collect::<Vec<_>>(),
        "notes": plan.notes.iter().map(|n| json!({ "line": n.line, "text": n.text })).collect::<Vec<_>>(),
    })
}
