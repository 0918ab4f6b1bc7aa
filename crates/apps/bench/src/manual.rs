//! The man pages and completion scripts of `cairn-bench`, made from the command line's own declarations.
//!
//! Not here    pages of `cairn bench calc`: that is `cairn`'s own

use std::{io::Write as _, path::Path};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::{DONE, REFUSED, args::Cli};

/// Writes a page for each verb, and one of all, into `folder`; the exit code.
pub fn pages(folder: &Path) -> u8 {
    told(clap_mangen::generate_to(command(), folder), &format!("write to {}", folder.display()))
}

/// Prints the completion script of `shell`; the exit code.
pub fn completions(shell: Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), NAME, &mut script);
    told(std::io::stdout().write_all(&script), "print that")
}

/// The program, which has a name of one word: that of its file and its pages.
const NAME: &str = "cairn-bench";

fn command() -> Command {
    Cli::command().name(NAME).bin_name(NAME)
}

fn told(done: std::io::Result<()>, what: &str) -> u8 {
    match done {
        Ok(()) => DONE,
        Err(why) => {
            eprintln!("error: cannot {what}: {why}");
            REFUSED
        }
    }
}
