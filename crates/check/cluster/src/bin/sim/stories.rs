//! `sim scenarios`: the scripted stories, one after the other, as a table.

use std::process::ExitCode;

use cairn_cluster::scenarios;

/// Tells the stories whose names contain `only`. Fails where one does not hold.
pub fn tell_all(only: Option<&str>, objects: usize, verbose: bool) -> ExitCode {
    let stories: Vec<_> =
        scenarios::all(objects).into_iter().filter(|story| only.is_none_or(|text| story.name.contains(text))).collect();
    if stories.is_empty() {
        eprintln!("sim: no scenario is called that");
        return ExitCode::from(2);
    }
    println!("| scenario | goal | method | seeds | verdict |\n|---|---|---|---|---|");
    let mut broken = 0;
    for story in &stories {
        let told = story.tell_all(verbose);
        broken += u32::from(told.is_err());
        let verdict = match told {
            Ok(told) => told.to_string(),
            Err((seed, failure)) => format!("seed {seed}: {}", failure.what.replace('|', "/")),
        };
        println!("| {} | {} | {} | {} | {verdict} |", story.name, story.goal, story.method, story.seeds);
    }
    println!("\n{} of {} hold", stories.len() - broken as usize, stories.len());
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
