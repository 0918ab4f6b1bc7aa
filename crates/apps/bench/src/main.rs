//! `cairn bench`: parses, runs, prints.
#![forbid(unsafe_code)]

mod args;
mod job_file;
mod log_file;
mod manual;
mod seconds;
mod study_args;

use std::{
    io::IsTerminal as _,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use cairn_bench::{
    job::{Job, Measured, RunError, Verified},
    output,
    report::{self, ReportError},
    run,
};
use clap::Parser as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use args::{Cli, Command, FillLog, FillMap, Load, PlanStyle, Precondition, Style};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit codes, the same as those of `cairn`: done; refused or broken; a wrong command line; a target that cannot be reached.
const DONE: u8 = 0;
const REFUSED: u8 = 1;
const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Load(load) => measure(&load),
        Command::Precondition(asked) => precondition(&asked),
        Command::FillMap(asked) => fill_map(&asked),
        Command::FillLog(asked) => fill_log(&asked),
        Command::Import(import) => job_file::import(&import),
        Command::Job(job) => job_file::run(&job),
        Command::Replay(replay) => log_file::run(&replay),
        Command::Report { folder } => return ExitCode::from(told(report::write(&folder).map(listed))),
        Command::Compare { folders } => return ExitCode::from(told(report::beside(&folders))),
        Command::Study(study) => return ExitCode::from(study_args::run(study)),
        Command::Manual { folder } => return ExitCode::from(manual::pages(&folder)),
        Command::Completions { shell } => return ExitCode::from(manual::completions(shell)),
    };
    ExitCode::from(match done {
        Ok(true) => DONE,
        Ok(false) => REFUSED,
        Err(why) => {
            eprintln!("error: {why}");
            match why {
                RunError::Job(_) => USAGE,
                RunError::Open { .. } => UNREACHABLE,
                RunError::Refused(_) | RunError::Request { .. } => REFUSED,
            }
        }
    })
}

/// Where reports are, a line each.
fn listed(files: Vec<PathBuf>) -> String {
    files.iter().map(|file| format!("{}\n", file.display())).collect()
}

/// Prints what was told of folders. A folder that is none is a wrong command line.
fn told(told: Result<String, ReportError>) -> u8 {
    match told {
        Ok(text) => {
            print!("{text}");
            DONE
        }
        Err(why) => {
            eprintln!("error: {why}");
            if matches!(why, ReportError::Write { .. }) { REFUSED } else { USAGE }
        }
    }
}

/// One load; false where it broke, and where a target does not hold what was written.
fn measure(load: &Load) -> Result<bool, RunError> {
    let job = load.job().map_err(RunError::Job)?;
    let measured = run_with_progress(&job)?;
    let verified = load.verify.then(|| run::read_back(&measured));
    println!("{}", shown(load.style, &job, &measured, verified.as_ref()).trim_end());
    if load.style != Style::Table {
        measured.doubts(&job).iter().for_each(|doubt| eprintln!("! {doubt}"));
    }
    let good = match verified {
        None => true,
        Some(Ok(verified)) => {
            let line = output::verified_line(&verified);
            if load.style == Style::Table {
                println!("{line}")
            } else {
                eprintln!("{line}")
            }
            verified.wrong == 0
        }
        Some(Err(why)) => {
            eprintln!("error: not read back: {why}");
            false
        }
    };
    Ok(good && measured.broken.is_none())
}

/// Writes all bytes, with a bar on a terminal.
fn precondition(asked: &Precondition) -> Result<bool, RunError> {
    let work = asked.work().map_err(RunError::Job)?;
    let style = ProgressStyle::with_template("{percent:>3} % [{bar:40}] {binary_bytes}/{binary_total_bytes}");
    // Hidden by itself where stderr is no terminal.
    let bar = ProgressBar::new(0).with_style(style.expect("a template that parses").progress_chars("=> "));
    let written = work.run(&|bytes, whole| {
        bar.set_length(whole);
        bar.set_position(bytes);
    });
    bar.finish_and_clear();
    println!("{}", work.line(&written?));
    Ok(true)
}

/// Fills a map, with a bar on a terminal.
fn fill_map(asked: &FillMap) -> Result<bool, RunError> {
    let work = asked.work().map_err(RunError::Job)?;
    let style = ProgressStyle::with_template("{percent:>3} % [{bar:40}] {human_pos}/{human_len} blocks, {eta} left");
    // Hidden by itself where stderr is no terminal.
    let bar = ProgressBar::new(0).with_style(style.expect("a template that parses").progress_chars("=> "));
    let shown = bar.clone();
    let done = work.run(move |blocks, whole| {
        shown.set_length(whole);
        shown.set_position(blocks);
    });
    bar.finish_and_clear();
    let done = done?;
    match asked.style {
        PlanStyle::Table => println!("{}", done.text()),
        PlanStyle::Json => println!("{:#}", done.json(work.fill.order)),
    }
    Ok(true)
}

/// Fills a log, and says how far it is on a terminal.
fn fill_log(asked: &FillLog) -> Result<bool, RunError> {
    let style = ProgressStyle::with_template("{spinner} {binary_bytes} of the log, {binary_bytes_per_sec}");
    let bar = ProgressBar::new_spinner().with_style(style.expect("a template that parses"));
    let shown = bar.clone();
    let done = asked.work().run(move |bytes| shown.set_position(bytes));
    bar.finish_and_clear();
    let done = done?;
    match asked.style {
        PlanStyle::Table => println!("{}", done.text()),
        PlanStyle::Json => println!("{:#}", done.json()),
    }
    Ok(true)
}

/// `verified`: what reading back came to, or why it did not, where it was asked for.
fn shown(style: Style, job: &Job, measured: &Measured, verified: Option<&Result<Verified, RunError>>) -> String {
    const NAME: &str = "load";
    match style {
        Style::Table => output::table(job, measured, false),
        Style::Json => {
            let mut told = output::json(job, measured);
            told["verified"] = match verified {
                None => Value::Null,
                Some(Ok(verified)) => output::verified_json(verified),
                Some(Err(why)) => json!({ "error": why.to_string() }),
            };
            format!("{told:#}")
        }
        Style::Fio => format!("{:#}", output::fio(job, measured)),
        Style::Vdbench => output::vdbench::vdbench(NAME, job, measured, Duration::from_secs(1)),
        Style::Hcibench => output::hcibench::hcibench(NAME, measured),
        Style::Iometer => output::iometer::iometer(NAME, job, measured),
        Style::IometerBins => output::iometer::bins(measured),
    }
}

/// Runs it, with a bar on a terminal.
fn run_with_progress(job: &Job) -> Result<Measured, RunError> {
    with_progress(job.ramp, job.measure, || run::run(job))
}

/// Does `work`, which takes `ramp` and `measure`, with a bar on a terminal.
fn with_progress<T>(ramp: Duration, measure: Duration, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| progress(ramp, measure, &over));
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}

fn progress(ramp: Duration, measure: Duration, over: &AtomicBool) {
    let (began, whole) = (Instant::now(), ramp + measure);
    let style = ProgressStyle::with_template("{msg:>8} [{bar:40}] {pos}/{len} s").expect("a template that parses");
    let bar = ProgressBar::new(whole.as_secs()).with_style(style.progress_chars("=> "));
    while !over.load(Ordering::Relaxed) {
        let now = began.elapsed();
        bar.set_message(if now < ramp { "ramp" } else { "measure" });
        bar.set_position(now.min(whole).as_secs());
        thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
