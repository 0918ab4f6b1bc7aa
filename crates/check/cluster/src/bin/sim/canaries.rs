//! Every deliberate bug of the product in turn: how many seeds until the simulator catches it, and by what.

use std::{process::ExitCode, sync::Mutex};

use cairn_cluster::{
    plan::Plan,
    run::{Failure, run},
    scenarios,
};
use cairn_types::Canary;

/// The canary of this name.
pub fn named(name: &str) -> Result<Canary, String> {
    let found = Canary::ALL.into_iter().find(|canary| format!("{canary:?}") == name);
    found.ok_or_else(|| format!("there is no canary {name:?}; there are {:?}", Canary::ALL))
}

/// Runs seeds from 1 on with each canary, until one fails, and then the stories. Prints a table; fails where one is not caught.
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
                    let found = caught(*canary, seeds_max).or_else(|| caught_by_story(*canary));
                    match found {
                        Some((by, failure)) => {
                            println!("| {canary:?} | {by} | {} |", failure.what.replace('|', "/"))
                        }
                        None => {
                            println!("| {canary:?} | **not within {seeds_max}, by no story** | - |");
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

/// The first seed that fails with it.
fn caught(canary: Canary, seeds_max: u64) -> Option<(String, Failure)> {
    Canary::set(Some(canary));
    let found = (1..=seeds_max).find_map(|seed| Some((seed.to_string(), run(&Plan::of(seed), false).err()?)));
    Canary::set(None);
    found
}

/// The first story that does not hold with it.
fn caught_by_story(canary: Canary) -> Option<(String, Failure)> {
    Canary::set(Some(canary));
    let told = |story: scenarios::Scenario| {
        let (seed, failure) = story.tell_all(false).err()?;
        Some((format!("story {:?}, seed {seed}", story.name), failure))
    };
    let found = scenarios::all(100).into_iter().find_map(told);
    Canary::set(None);
    found
}
