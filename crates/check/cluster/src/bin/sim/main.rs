//! `sim`: runs seeds of the whole-cluster simulator, replays one, shortens a failing one.
//!
//! Promises    exit code 0 where no seed failed, 1 where one did, 2 for arguments that make no sense
#![forbid(unsafe_code)]

#[cfg(feature = "canaries")]
mod canaries;
mod curves;
mod debug;
mod stories;
mod sweep;

use std::{path::PathBuf, process::ExitCode};

use cairn_cluster::{
    curves::Order,
    plan::Plan,
    run::{Failure, run},
    shrink::shrink,
};
use clap::{Parser, Subcommand};

/// The product's allocator, too: a run makes and frees tens of megabytes again and again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The whole cluster in a simulated world: seeds of faults against real hosts, every byte checked.
#[derive(Debug, Parser)]
#[command(name = "sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run many seeds, on all processors; failing ones are shortened and written down.
    Run {
        /// The seeds, FIRST..LAST, both run.
        #[arg(long, default_value = "1..1000", value_parser = seeds)]
        seeds: (u64, u64),
        /// Shards in the place of each host: what befalls it befalls all of them.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4))]
        shards: u64,
        /// Threads; default one per processor.
        #[arg(long)]
        jobs: Option<usize>,
        /// Where plans and logs of failing seeds go.
        #[arg(long, default_value = "target/sim")]
        out: PathBuf,
        /// Go on after so many failures.
        #[arg(long, default_value_t = 10)]
        failures_max: usize,
        /// Runs that may go into shortening one failing plan; 0 leaves it as it is.
        #[arg(long, default_value_t = 60)]
        shrink: usize,
    },
    /// Run one seed, or a plan that was written down, and tell what happens.
    Replay {
        /// The seed.
        #[arg(required_unless_present = "plan")]
        seed: Option<u64>,
        /// Shards in the place of each host.
        #[arg(long, default_value_t = 1, conflicts_with = "plan", value_parser = clap::value_parser!(u64).range(1..=4))]
        shards: u64,
        /// A plan in JSON, as `run` writes it.
        #[arg(long, conflicts_with = "seed")]
        plan: Option<PathBuf>,
        /// Only the outcome.
        #[arg(long)]
        quiet: bool,
        /// With this deliberate bug.
        #[cfg(feature = "canaries")]
        #[arg(long, value_parser = canaries::named)]
        canary: Option<cairn_types::Canary>,
    },
    /// Run one seed, or a plan, and stop where one wants to look: steps, breakpoints, a host's state, a block's story.
    Debug {
        /// The seed.
        #[arg(required_unless_present = "plan")]
        seed: Option<u64>,
        /// A plan in JSON.
        #[arg(long, conflicts_with = "seed")]
        plan: Option<PathBuf>,
        /// With this deliberate bug.
        #[cfg(feature = "canaries")]
        #[arg(long, value_parser = canaries::named)]
        canary: Option<cairn_types::Canary>,
    },
    /// Tell the scripted stories, and print a table of what holds.
    Scenarios {
        /// Only those whose name contains this.
        #[arg(long)]
        only: Option<String>,
        /// Disks in the story of many disks.
        #[arg(long, default_value_t = cairn_cluster::scenarios::OBJECTS)]
        objects: usize,
        /// Tell what happens as it happens.
        #[arg(long)]
        verbose: bool,
        /// With this deliberate bug.
        #[cfg(feature = "canaries")]
        #[arg(long, value_parser = canaries::named)]
        canary: Option<cairn_types::Canary>,
    },
    /// Measure clusters of several sizes, with the same load on every host and no faults: what a request and a host at rest cost.
    Curves {
        /// Hosts of each cluster.
        #[arg(long, value_delimiter = ',', default_value = "3,4,8,16,32,64", value_parser = clap::value_parser!(u64).range(3..=64))]
        hosts: Vec<u64>,
        /// Disks for each host.
        #[arg(long, default_value_t = 2)]
        disks: usize,
        /// Of all that is drawn.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Print what a seed will do, without running it.
    Show {
        /// The seed.
        seed: u64,
        /// As JSON, to be edited and replayed.
        #[arg(long)]
        json: bool,
    },
    /// Make one deliberate bug after the other: tell the story that is known to catch it, or count the seeds until it is caught.
    #[cfg(feature = "canaries")]
    Canaries {
        /// Seeds for each, at most.
        #[arg(long, default_value_t = 300)]
        seeds_max: u64,
        /// Only this one.
        #[arg(long)]
        only: Option<String>,
        /// Make none: list those that the store's own tests catch, each with the test program and the test.
        #[arg(long)]
        of_store: bool,
    },
    /// Shorten the plan of a failing seed.
    Shrink {
        /// The seed.
        seed: u64,
        /// Runs that may go into it.
        #[arg(long, default_value_t = 200)]
        runs: usize,
    },
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    let explain = || format!("{text:?} is no range of seeds: write FIRST..LAST, such as 1..1000");
    let (first, last) = text.split_once("..").ok_or_else(explain)?;
    let (first, last) = (first.parse().map_err(|_| explain())?, last.parse().map_err(|_| explain())?);
    if first > last { Err(explain()) } else { Ok((first, last)) }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn tell_plan(plan: &Plan) {
    println!("seed {}: {:?}, {}", plan.seed, plan.menu, plan.shape);
    plan.events.iter().for_each(|event| println!("  {event}"));
}

fn tell_failure(failure: &Failure) -> ExitCode {
    println!("FAILED: {}", failure.what);
    ExitCode::from(1)
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run { seeds, shards, jobs, out, failures_max, shrink } => {
            let jobs = jobs.unwrap_or_else(processors).max(1);
            let shards = shards as usize;
            sweep::sweep(&sweep::Order { seeds, shards, jobs, out, failures_max, shrink_runs: shrink })
        }
        Command::Replay {
            seed,
            shards,
            plan,
            quiet,
            #[cfg(feature = "canaries")]
            canary,
        } => {
            #[cfg(feature = "canaries")]
            cairn_types::Canary::set(canary);
            let Some(plan) = plan_of(seed, shards, plan) else { return ExitCode::from(2) };
            tell_plan(&plan);
            match run(&plan, !quiet) {
                Ok(outcome) => {
                    println!("no violation: {outcome:?}");
                    ExitCode::SUCCESS
                }
                Err(failure) => tell_failure(&failure),
            }
        }
        Command::Debug {
            seed,
            plan,
            #[cfg(feature = "canaries")]
            canary,
        } => {
            #[cfg(feature = "canaries")]
            cairn_types::Canary::set(canary);
            let Some(plan) = plan_of(seed, 1, plan) else { return ExitCode::from(2) };
            tell_plan(&plan);
            debug::debug(&plan)
        }
        Command::Scenarios {
            only,
            objects,
            verbose,
            #[cfg(feature = "canaries")]
            canary,
        } => {
            #[cfg(feature = "canaries")]
            cairn_types::Canary::set(canary);
            stories::tell_all(only.as_deref(), objects, verbose)
        }
        Command::Curves { hosts, disks, seed } => {
            let hosts = hosts.into_iter().map(|hosts| hosts as usize).collect();
            curves::print(&Order { hosts, disks_per_host: disks, seed })
        }
        Command::Show { seed, json } => {
            let plan = Plan::of(seed);
            match json {
                true => println!("{}", serde_json::to_string_pretty(&plan).expect("a plan is plain data")),
                false => tell_plan(&plan),
            }
            ExitCode::SUCCESS
        }
        #[cfg(feature = "canaries")]
        Command::Canaries { seeds_max, only, of_store } => match of_store {
            true => canaries::of_store(),
            false => canaries::canaries(seeds_max, processors(), only.as_deref()),
        },
        Command::Shrink { seed, runs } => shorten(seed, runs),
    }
}

/// Shortens the plan of a failing seed, and prints it.
fn shorten(seed: u64, runs: usize) -> ExitCode {
    let plan = Plan::of(seed);
    let Err(failure) = run(&plan, false) else {
        println!("seed {seed} does not fail");
        return ExitCode::SUCCESS;
    };
    let (plan, failure) = shrink(&plan, &failure, runs, |plan| {
        eprintln!("{} events, {} disks", plan.events.len(), plan.shape.disks.len());
    });
    tell_plan(&plan);
    println!("{}", serde_json::to_string(&plan).expect("a plan is plain data"));
    tell_failure(&failure)
}

/// The plan of a seed, or one that was written down; what is wrong with that is told.
fn plan_of(seed: Option<u64>, shards: u64, path: Option<PathBuf>) -> Option<Plan> {
    match (seed, path) {
        (_, Some(path)) => match read_plan(&path) {
            Ok(plan) => Some(plan),
            Err(why) => {
                eprintln!("sim: {}: {why}", path.display());
                None
            }
        },
        (seed, None) => seed.map(|seed| Plan::with_shards(seed, shards as usize)),
    }
}

fn read_plan(path: &std::path::Path) -> Result<Plan, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    serde_json::from_str(&text).map_err(|e| format!("no plan: {e}"))
}
