//! Every deliberate bug of the product in turn: how many seeds until the simulator catches it, and by what.

use std::{process::ExitCode, sync::Mutex};

use cairn_cluster::{
    plan::Plan,
    run::{Failure, run},
};
use cairn_types::Canary;

/// The canary of this name.
pub fn named(name: &str) -> Result<Canary, String> {
    let found = Canary::ALL.into_iter().find(|canary| format!("{canary:?}") == name);
    found.ok_or_else(|| format!("there is no canary {name:?}; there are {:?}", Canary::ALL))
}

/// Runs seeds from 1 on with each canary, until one fails. Prints a table; fails where one is not caught.
pub fn canaries(seeds_max: u64, jobs: usize, only: Option<&str>) -> ExitCode {
    let list: Vec<Canary> =
        Canary::ALL.into_iter().filter(|c| only.is_none_or(|name| format!("{c:?}") == name)).collect();
    if list.is_empty() {
        eprintln!("sim: there is no such canary; there are {:?}", Canary::ALL);
        return ExitCode::from(2);
    }
    let (next, missed) = (Mutex::new(list.iter()), Mutex::new(0));
    println!("| canary | seeds needed | caught by |\n|---|---|---|");
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let Some(canary) = next.lock().expect("nobody panics with it").next() else { return };
                    match caught(*canary, seeds_max) {
                        Some((seeds, failure)) => {
                            println!("| {canary:?} | {seeds} | {} |", failure.what.replace('|', "/"))
                        }
                        None => {
                            println!("| {canary:?} | **not within {seeds_max}** | - |");
                            *missed.lock().expect("nobody panics with it") += 1;
                        }
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("nobody panics with it");
    println!("\n{} of {} canaries caught", list.len() - missed, list.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn caught(canary: Canary, seeds_max: u64) -> Option<(u64, Failure)> {
    Canary::set(Some(canary));
    let found = (1..=seeds_max).find_map(|seed| Some((seed, run(&Plan::of(seed), false).err()?)));
    Canary::set(None);
    found
}
