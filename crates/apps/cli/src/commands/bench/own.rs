//! Verbs of `cairn bench` that measure: becomes `cairn-bench`, a program of its own that lies beside this one.

use std::{io, os::unix::process::CommandExt as _, path::PathBuf, process::Command};

use crate::{args::Words, fail::Fail};

const PROGRAM: &str = "cairn-bench";

/// Comes back only where there is no such program.
pub fn run(verb: &str, words: &Words) -> Result<(), Fail> {
    let program = beside_this().unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).arg(verb).args(&words.words).exec();
    let refused = Fail::refused(format!("cannot start {}: {error}", program.display()));
    Err(match error.kind() {
        io::ErrorKind::NotFound => refused.remedy(format!("put {PROGRAM} of the same release beside this program")),
        _ => refused,
    })
}

/// The one beside this program; otherwise the system looks for it.
fn beside_this() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    beside.is_file().then_some(beside)
}
