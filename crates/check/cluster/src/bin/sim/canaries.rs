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

/// Lists the bugs of the store, each with its test program and test.
pub fn of_store() -> ExitCode {
    scenarios::OF_STORE.iter().for_each(|(canary, program, test)| println!("{canary:?} {program} {test}"));
    ExitCode::SUCCESS
}

/// Tells the story that catches each canary, where one is known, and runs seeds from 1 on until one fails; then all stories. Prints a table; fails where one
/// is not caught. Those of the store are left out, unless one is chosen.
pub fn canaries(seeds_max: u64, jobs: usize, only: Option<&str>) -> ExitCode {
    let is_chosen = |canary: &Canary| match only {
        Some(name) => format!("{canary:?}") == name,
        None => scenarios::OF_STORE.iter().all(|(of_store, ..)| of_store != canary),
    };
    let list: Vec<Canary> = Canary::ALL.into_iter().filter(is_chosen).collect();
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
                    let known = scenarios::that_catches(*canary);
                    let found = caught_by_story(*canary, known)
                        .or_else(|| caught(*canary, seeds_max))
                        .or_else(|| caught_by_story(*canary, scenarios::all(100)));
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

/// The first of these stories that does not hold with it.
fn caught_by_story(
    canary: Canary,
    stories: impl IntoIterator<Item = scenarios::Scenario>,
) -> Option<(String, Failure)> {
    Canary::set(Some(canary));
    let told = |story: scenarios::Scenario| {
        let (seed, failure) = story.tell_all(false).err()?;
        Some((format!("story {:?}, seed {seed}", story.name), failure))
    };
    let found = stories.into_iter().find_map(told);
    Canary::set(None);
    found
}
