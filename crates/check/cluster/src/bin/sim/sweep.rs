//! Many seeds on several threads: progress, a table of what was injected, and what failed.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use cairn_cluster::{
    inject::SPOILED,
    plan::Plan,
    rest::{ANEW, EQUAL, PACKED},
    run::{Failure, Outcome, RESTORED, run},
    shrink::shrink,
};
use cairn_faults::What;
use indicatif::{ProgressBar, ProgressStyle};

/// What to run, and how.
pub struct Order {
    /// First and last.
    pub seeds: (u64, u64),
    pub shards: usize,
    pub jobs: usize,
    pub out: PathBuf,
    pub failures_max: usize,
    pub shrink_runs: usize,
}

/// What came out so far.
#[derive(Default)]
struct Sum {
    all: Outcome,
    runs: u64,
    failed: Vec<(u64, String)>,
}

/// Runs them all.
pub fn sweep(order: &Order) -> ExitCode {
    let (first, last) = order.seeds;
    let bar = ProgressBar::new(last - first + 1);
    let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len} seeds, {eta} left, {msg}");
    bar.set_style(style.expect("a template that is known"));
    bar.set_message("0 failed");
    let (next, stop, sum) = (AtomicU64::new(first), AtomicBool::new(false), Mutex::new(Sum::default()));
    let began = Instant::now();
    let told = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..order.jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        return;
                    }
                    one(order, seed, &sum, &stop, &bar);
                    bar.inc(1);
                    tell_progress(&bar, &told, began.elapsed().as_secs());
                }
            });
        }
    });
    bar.finish_and_clear();
    let sum = sum.into_inner().expect("no holder of this lock panics");
    report(order, &sum, began.elapsed().as_secs_f64());
    if sum.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Where no bar can be drawn, a line every minute.
fn tell_progress(bar: &ProgressBar, told: &AtomicU64, seconds: u64) {
    let minute = seconds / 60;
    if bar.is_hidden() && told.fetch_max(minute, Ordering::Relaxed) < minute {
        let (done, all, left) = (bar.position(), bar.length().unwrap_or(0), bar.eta().as_secs().div_ceil(60));
        println!("{minute} min: {done} of {all} seeds, {}, about {left} min left", bar.message());
    }
}

fn one(order: &Order, seed: u64, sum: &Mutex<Sum>, stop: &AtomicBool, bar: &ProgressBar) {
    let plan = Plan::with_shards(seed, order.shards);
    let result = run(&plan, false);
    let mut sum = sum.lock().expect("no holder of this lock panics");
    sum.runs += 1;
    let failure = match result {
        Ok(outcome) => return sum.all.add(&outcome),
        Err(failure) => failure,
    };
    say(bar, &format!("seed {seed} failed: {}", failure.what));
    sum.failed.push((seed, failure.what.clone()));
    bar.set_message(format!("{} failed", sum.failed.len()));
    if sum.failed.len() >= order.failures_max {
        stop.store(true, Ordering::Relaxed);
    }
    drop(sum);
    keep(order, seed, &plan, &failure, bar);
}

/// Writes down the plan, as short as it gets, and its log.
fn keep(order: &Order, seed: u64, plan: &Plan, failure: &Failure, bar: &ProgressBar) {
    let (plan, failure) = shrink(plan, failure, order.shrink_runs, |_| {});
    let text = serde_json::to_string_pretty(&plan).expect("a plan is plain data");
    let path = order.out.join(format!("seed-{seed}.json"));
    let log = order.out.join(format!("seed-{seed}.log"));
    let written = std::fs::create_dir_all(&order.out)
        .and_then(|()| std::fs::write(&path, text))
        .and_then(|()| std::fs::write(&log, format!("{}\n{}\n", failure.log, failure.what)));
    match written {
        Ok(()) => say(bar, &format!("  {} events are left of it: {}", plan.events.len(), path.display())),
        Err(error) => say(bar, &format!("  its plan cannot be written to {}: {error}", order.out.display())),
    }
}

/// A line above the progress bar; also where there is no terminal to draw one.
fn say(bar: &ProgressBar, line: &str) {
    bar.suspend(|| println!("{line}"));
}

fn report(order: &Order, sum: &Sum, seconds: f64) {
    println!("{:<32} {:>10}", "fault", "injected");
    for kind in What::KINDS {
        println!("{kind:<32} {:>10}", sum.all.counts.get(kind).copied().unwrap_or(0));
    }
    for seen in [SPOILED, RESTORED, PACKED, EQUAL, ANEW] {
        println!("{seen:<32} {:>10}", sum.all.counts.get(seen).copied().unwrap_or(0));
    }
    println!("{:<32} {:>10}", "message held back by a cut", sum.all.messages_stalled);
    println!("{:<32} {:>10}", "message lost", sum.all.messages_lost);
    println!("{:<32} {:>10}", "request repeated, done before", sum.all.done_before);
    let lasted = sum.all.lasted.as_secs_f64();
    println!("\n{} messages between hosts, each with a delay of its own", sum.all.messages);
    println!(
        "{} seeds of {}..{}: {} requests of guests ({} failed, {} given up), {} steps, hash {:016x}",
        sum.runs,
        order.seeds.0,
        order.seeds.1,
        sum.all.requests,
        sum.all.errors,
        sum.all.dropped,
        sum.all.steps,
        sum.all.hash
    );
    println!(
        "{:.1} hours simulated in {seconds:.0} s on {} thread(s): {:.0} times real time on each, 1,000 seeds in {:.0} s",
        lasted / 3600.0,
        order.jobs,
        lasted / seconds.max(0.001) / order.jobs as f64,
        seconds * 1000.0 / sum.runs.max(1) as f64
    );
    match sum.failed.is_empty() {
        true => println!("no violation"),
        false => {
            println!("{} FAILED:", sum.failed.len());
            sum.failed.iter().for_each(|(seed, what)| println!("  seed {seed}: {what}"));
        }
    }
}
