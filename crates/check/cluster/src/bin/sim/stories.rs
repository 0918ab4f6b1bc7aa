//! `sim scenarios`: the scripted stories, one after the other, as a table.

use std::process::ExitCode;

use cairn_cluster::scenarios;

/// Seeds of stories begin here.
const FIRST_SEED: u64 = 1000;

/// Tells the stories whose names contain `only`. Fails where one does not hold.
pub fn tell_all(only: Option<&str>, verbose: bool) -> ExitCode {
    let stories: Vec<_> =
        scenarios::all().into_iter().filter(|story| only.is_none_or(|text| story.name.contains(text))).collect();
    if stories.is_empty() {
        eprintln!("sim: no scenario is called that");
        return ExitCode::from(2);
    }
    println!("| scenario | goal | method | seeds | verdict |\n|---|---|---|---|---|");
    let mut broken = 0;
    for story in &stories {
        let failed = (FIRST_SEED..FIRST_SEED + story.seeds)
            .find_map(|seed| Some(format!("seed {seed}: {}", story.tell(seed, verbose).err()?.what)));
        broken += u32::from(failed.is_some());
        let verdict = failed.map_or("holds".to_owned(), |why| why.replace('|', "/"));
        println!("| {} | {} | {} | {} | {verdict} |", story.name, story.goal, story.method, story.seeds);
    }
    println!("\n{} of {} hold", stories.len() - broken as usize, stories.len());
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
