//! Judges a recorded history again: `cargo run --release -p cairn-e2e --example history -- target/e2e-logs/linearizable/history-SEED.jsonl`

use std::{path::Path, process::ExitCode};

use cairn_e2e::history::{judge, read};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("which file?");
        return ExitCode::from(2);
    };
    let judged = match read(Path::new(&path)) {
        Ok(lines) => judge(&lines),
        Err(words) => {
            eprintln!("{words}");
            return ExitCode::from(2);
        }
    };
    println!("{}{} violations", judged.tally, judged.violations.len());
    judged.violations.iter().chain(&judged.tally.hung).for_each(|what| println!("{what}"));
    ExitCode::from(u8::from(!judged.violations.is_empty() || !judged.tally.hung.is_empty()))
}
